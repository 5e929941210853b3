"""Names that lead beneath a learner's code: not found when made at run time, shown in a text."""

from __future__ import annotations

import importlib
import operator
import os
import pickle
import string
import sys
import textwrap

import pytest
import torch
from torch import nn

from autograder.forbidden import find
from autograder.reading.submission import Cell
from autograder.worker import beneath


class OtherTheFirstTime(str):
    asked = 0

    def __hash__(self):
        self.asked += 1
        return 0 if self.asked == 1 else str.__hash__(self)


HIDDEN = {
    "a name beneath": (torch, "_refs"),
    "a text of another class": (os, OtherTheFirstTime("fork")),
    "the table of modules": (sys, "modules"),
    "what gets attributes": (operator, "attrgetter"),
    "a module": (torch, "masked"),
    "a class": (string, "Formatter"),
    "a function": (pickle, "loads"),
    "a function elsewhere": (importlib, "_bootstrap"),
}


@pytest.mark.parametrize("what", HIDDEN)
def test_what_leads_beneath_is_not_found_by_a_name_made_at_run_time(what):
    value, name = HIDDEN[what]
    assert getattr(value, str(name)) is not None
    with pytest.raises(AttributeError):
        beneath.guarded_getattr(value, name)
    assert beneath.guarded_getattr(value, name, 3) == 3


def test_other_names_are_found():
    model = nn.Linear(2, 2)
    assert beneath.guarded_getattr(model, "weight") is model.weight
    assert beneath.guarded_getattr(torch, "nn") is nn
    assert beneath.guarded_getattr(model, "none", None) is None
    assert list(beneath.guarded_getattr(model, "modules")()) == [model]


def test_torch_is_not_changed_by_a_name_made_at_run_time():
    for value in (torch, torch.Tensor, torch.ops.aten.sum.default):
        with pytest.raises(AttributeError):
            beneath.guarded_setattr(value, "of_mine", 1)
        assert not hasattr(value, "of_mine")


def test_layers_and_objects_are_changed_as_ever():
    model = nn.Sequential(nn.Linear(2, 2))
    beneath.guarded_setattr(model, "0", nn.Identity())
    assert isinstance(model[0], nn.Identity)


TOLD = {
    "import .": "from . import deny",
    "everything of a module": "from sys import *",
    "an odd module": "import pkgutil",
    "a private part of torch": "from torch.jit._script import script",
    "eval handed on": "run = eval",
    "import_module handed on": "import importlib\nf = importlib.import_module",
    "a text for a timer": "timeit.timeit('torch._refs.var(x)')",
    "a made text for a timer": "timeit.timeit('torch._re' + 'fs.var(x)')",
    "a made name in globals": "x = globals()['a' + 'b']",
    "globals handed on": "f(globals())",
    "a made name in locals": "x = locals().get(name)",
    "a pattern by position": "match x:\n    case Point(a):\n        pass",
    "torch by another name": "t = torch\nt.Tag = None",
    "a private attribute": "op._schema = other",
    "a node": "y.grad_fn(g)",
    "NumPy in a kernel": "@triton.jit\ndef k(x):\n    np.sum(x)",
    "the interpreter in a kernel": "@triton.jit\ndef k(x):\n    x.handle.data.sum()",
}
NOT_TOLD = {
    "everyday modules": "import os, sys, math, numpy as np\nfrom collections import deque",
    "everything of torch.nn": "from torch.nn import *\nfrom math import *",
    "globals asked": "if 'x' not in globals():\n    globals()['x'] = 1\nprint(globals()['x'])",
    "globals for a timer": "import timeit\ntimeit.timeit('f()', globals=globals())",
    "locals for a text": "print('{a}'.format(**locals()))",
    "a pattern of a number": "match x:\n    case int(n):\n        pass",
    "its own attribute": "class A:\n    def __init__(self):\n        self._x = 1",
    "a name and a text": "f.__name__ = 'f'\nf.__doc__ = 'g'",
    "whether there is a node": "assert y.grad_fn is not None\nprint(y.grad_fn)",
    "eval mode": "model.eval()\nmodel = torch.compile(model)",
    "torch's compiler": "import torch._dynamo\ntorch._dynamo.config.suppress_errors = True",
    "a kernel and its helper": "@triton.jit\ndef h(x):\n    return tl.sum(x)\n\n\n@triton.jit\n"
    "def k(x_ptr, B: tl.constexpr):\n    x = tl.load(x_ptr).to(tl.float32)\n"
    "    for i in range(B):\n        tl.store(x_ptr, h(x) + max(1, i))",
}


def told(source: str) -> list[str]:
    cell = Cell(0, "added", None, textwrap.dedent(source))
    return [f.detail for f in find([cell], ["norm"])]


@pytest.mark.parametrize("way", TOLD)
def test_a_person_is_told(way):
    assert told(TOLD[way])


@pytest.mark.parametrize("way", NOT_TOLD)
def test_a_person_is_not_troubled(way):
    assert told(NOT_TOLD[way]) == []


ONE_LOOP = {
    "sum by another name": "total = sum\ndef welford(x):\n    return total(x), total(y)",
    "a mean by another name": "from numpy import mean as m\ndef welford(x):\n    return m(x)",
    "comprehensions that add up": "def welford(x):\n    m = 0\n    [m := m + v for v in x]\n"
    "    return [m := m + v for v in x]",
}


@pytest.mark.parametrize("way", ONE_LOOP)
def test_a_second_loop_in_other_clothes_is_told(way):
    cell = Cell(0, "solution", "welford", ONE_LOOP[way])
    assert find([cell], ["welford"], ["welford"])


def test_a_comprehension_that_collects_is_no_second_loop():
    source = "def welford(x):\n    for v in [float(w) for w in x]:\n        pass"
    assert find([Cell(0, "solution", "welford", source)], ["welford"], ["welford"]) == []
