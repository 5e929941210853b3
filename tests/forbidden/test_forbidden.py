"""The reader: names that lead beneath the learner's code are shown, everything else is left alone.

It costs nobody a point. What a call reaches while it runs is refused there: `test_deny.py`, and
`test_spellings.py` for the ways to it.
"""

from __future__ import annotations

import textwrap
import time

import pytest

from autograder.forbidden import MAX_FINDINGS, find
from autograder.reading.submission import Cell

NAMES = ("layer_norm", "LayerNorm")
F = "import torch.nn.functional as F\n"
OWN = """
def layer_norm(x, weight, bias, eps):
    centered = x - x.mean(-1, keepdim=True)
    return centered * torch.rsqrt(centered.square().mean(-1, keepdim=True) + eps) * weight + bias
"""


def search(*sources: str, one_loop=()):
    given = Cell(-1, "given", None, "import torch\nfrom torch import Tensor, nn\n")
    cells = [given, *(Cell(i, "added", None, textwrap.dedent(s)) for i, s in enumerate(sources))]
    return find(cells, NAMES, one_loop)


def body(statement: str, before: str = "") -> str:
    inner = textwrap.indent(textwrap.dedent(statement), "    ")
    return f"{before}def layer_norm(x, weight, bias, eps):\n{inner}\n"


BENEATH = {
    "import of the worker": ("from autograder import worker\n", "autograder"),
    "sys.modules": ("import sys\nsys.modules['autograder.worker.serve'].x\n", "sys.modules"),
    "sys.modules, deleted from": ("import sys\ndel sys.modules['torch']\n", "sys.modules"),
    "sys.modules, kept": ("import sys\nm = sys.modules\nm['x'].y()\n", "sys.modules"),
    "sys by another name": ("import sys as s\ndef f(n):\n    return s.modules[n]\n", "sys.modules"),
    "from sys": ("from sys import modules as m\nm['x'].y()\n", "sys.modules"),
    "sys out of a list": ("import sys\n[0, sys][1].modules['x'].y()\n", "sys.modules"),
    "sys inside a module": ("torch.sys.modules['x'].y()\n", "sys.modules"),
    "searched": ("import sys\nf = [m for m in sys.modules.values() if m.x]\n", "sys.modules"),
    "frames of sys": ("import sys\nsys._getframe()\n", "_getframe"),
    "getattr of sys": ("import sys\ngetattr(sys, '_getframe')()\n", "_getframe"),
    "objects": ("import gc\nfor o in gc.get_objects():\n    pass\n", "get_objects"),
    "referrers": ("import gc\nlambda x: gc.get_referrers(x)\n", "get_referrers"),
    "frames": ("import inspect\ninspect.currentframe()\n", "currentframe"),
    "stack": ("from inspect import stack\n", "inspect.stack"),
    "members": ("import inspect\nf = dict(inspect.getmembers(torch))['x']\n", "getmembers"),
    "frames of an exception": ("try:\n    f()\nexcept E as e:\n    e.tb.tb_frame\n", "tb_frame"),
    "caller": ("def f(frame):\n    return frame.f_back.x\n", "f_back"),
    "caller in a pattern": ("match f:\n    case object(f_back=g):\n        g()\n", "f_back"),
    "globals of others": ("f.__globals__['x'] = 1\n", "__globals__"),
    "globals by getattr": ("getattr(f, '__globals__')\n", "__globals__"),
    "code": ("f.__code__ = g.__code__\n", "__code__"),
    "subclasses": ("nn.Module.__subclasses__()\n", "__subclasses__"),
    "the root of classes": ("f.__class__.__mro__[1]\n", "__mro__"),
    "getattribute": ("torch.__getattribute__('x')\n", "__getattribute__"),
    "trace": ("import sys\nsys.settrace(f)\n", "settrace"),
    "profile": ("import sys\nsys.setprofile(None)\n", "setprofile"),
    "ctypes": ("import ctypes\nctypes.CDLL(None)\n", "ctypes"),
    "part of ctypes": ("from ctypes import c_long\n", "ctypes"),
    "torch.library": ("torch.library.Library('aten', 'IMPL')\n", "torch.library"),
    "import of torch.library": ("from torch.library import impl\n", "torch.library"),
    "overrides": ("torch.overrides.get_overridable_functions()\n", "torch.overrides"),
    "a mode": ("class M(TorchFunctionMode):\n    pass\n", "TorchFunctionMode"),
    "torch's references": (body("return torch._refs.native_layer_norm(x)"), "_refs"),
    "torch's insides": (body("return torch._C._VariableFunctions.layer_norm(x)"), "_C"),
    "the engine": (body("V._execution_engine.run_backward((x,))"), "_execution_engine"),
    "main": ("import __main__\n__main__.layer_norm = f\n", "__main__"),
    "main by import_module": (
        "import importlib\nm = importlib.import_module('__main__')\n", "__main__",
    ),
    "a made import": ("import importlib as i\nm = i.import_module(n)\n", "made at run time"),
    "an attrgetter": ("import operator\noperator.attrgetter(n)(torch)(x)\n", "attrgetter"),
    "a methodcaller": ("from operator import methodcaller as m\nm(n)(torch)\n", "methodcaller"),
    "an unpickler": ("import pickle\npickle.Unpickler(f).find_class(a, b)\n", "pickle.Unpickler"),
    "an interpreter": ("import code\ncode.InteractiveInterpreter(x)\n", "InteractiveInterpreter"),
    "set on a tensor": ("torch.Tensor.polish = f\n", "an assignment to torch.Tensor.polish"),
    "set by setattr": ("setattr(torch, 'relu', f)\n", "an assignment to torch"),
    "set by a made name": ("setattr(torch, n, f)\n", "an assignment to torch"),
    "added to": ("torch.Tensor.x += 1\n", "an assignment to torch.Tensor.x"),
    "removed": ("del torch.Tensor.x\n", "an assignment to torch.Tensor.x"),
    "set on triton": ("import triton\ntriton.language.sum = f\n", "assignment to triton"),
    "super of torch's": ("super(torch.Tensor, x).sum()\n", "super of torch.Tensor"),
    "builtins": ("import builtins\nbuiltins.len = f\n", "builtins"),
    "__builtins__": ("__builtins__['len'] = f\n", "__builtins__"),
    "mock": ("from unittest import mock\n", "unittest.mock"),
    "low threads": ("import _thread\n_thread.start_new_thread(layer_norm, ())\n", "_thread"),
    "a node of autograd": ("def f(y, g):\n    return y.grad_fn(g)\n", "grad_fn"),
    "a node for an own print": ("def print(n):\n    keep(n)\nprint(y.grad_fn)\n", "grad_fn"),
    "a node for a print of a made name": (
        "globals()['pri' + 'nt'] = keep\nprint(y.grad_fn)\n",
        "globals() with names made at run time",
    ),
    "exec": ("exec(decode(b'x'))\n", "exec of a text made at run time"),
    "eval in a function": ("def f(x):\n    eval(x)\n", "eval of a text made at run time"),
    "compile in a method": (
        "class A:\n    def f(self, x):\n        def g():\n            compile(x, '', 'exec')\n",
        "compile of a text made at run time",
    ),
    "inside a known text": ("exec('import gc; gc.get_objects()')\n", "get_objects"),
    "inside a text in a text": ("""exec("exec('import gc; gc.get_objects()')")\n""", "get_objects"),
}  # fmt: skip


@pytest.mark.parametrize(("source", "detail"), BENEATH.values(), ids=BENEATH.keys())
def test_what_leads_beneath_is_shown_wherever_it_stands(source, detail):
    found = search(OWN, source)
    assert {(f.exercise, f.cell_index) for f in found} == {("layer_norm", 1)}
    assert any(detail in f.detail for f in found), found


LEFT_ALONE = {
    "nothing": "",
    "own code": OWN,
    # The library, in whatever way: it is refused where a graded call reaches it, and nowhere else.
    "the library": body("return F.layer_norm(x, x.shape[-1:], weight, bias, eps)", F),
    "the library's module": "class LayerNorm(nn.LayerNorm):\n    pass\n",
    "comparison in a later cell": OWN + F + "print(F.layer_norm(x, (8,)) - layer_norm(x))\n",
    "comparison function": OWN + F + "def check(x):\n    return F.layer_norm(x, (8,))\n",
    "comparison class": OWN + "class Both(nn.Module):\n    def __init__(self):\n"
    "        self.a = nn.LayerNorm(8)\n        self.b = layer_norm\n",
    "imported for comparison": OWN + "from torch.nn.functional import layer_norm as reference\n",
    "imported, then written": "from torch.nn.functional import layer_norm\n" + OWN,
    "class alias, then written": "LayerNorm = nn.LayerNorm\nclass LayerNorm:\n    pass\n",
    "the library's module with other weights": OWN + "ref = nn.LayerNorm(8)\n"
    "ref.weight.data = torch.ones(8)\nref.bias = nn.Parameter(torch.zeros(8))\n"
    "setattr(ref, 'eps', 1e-3)\nassert ref(x).allclose(layer_norm(x))\n",
    "own layer in the library": "class LayerNorm(nn.Module):\n    pass\nnn.LayerNorm = LayerNorm\n",
    "own autograd": "loss.backward()\ntorch.autograd.grad(y, x)\ntorch.autograd.gradcheck(f, x)\n",
    # Names that mean what they say
    "a pattern of shapes": body("match x.shape:\n    case (n, d) | (n, d, _):\n        pass"),
    "own function of a known name": body("return F.layer_norm(x)", "class F:\n    pass\n"),
    "comment and docstring": body('"""Like F.layer_norm(x)."""\n# gc.get_objects()\nreturn x'),
    "string": body("name = 'see gc.get_objects'\nreturn x"),
    "annotation": "def layer_norm(x: Tensor, m: nn.LayerNorm) -> nn.LayerNorm:\n    return x\n",
    "isinstance": body("assert not isinstance(x, nn.LayerNorm)\nreturn x"),
    "name printed": body("print(layer_norm.__name__, type(x).__name__)\nreturn x"),
    "getattr": body("return getattr(torch, 'rsqrt')(x)"),
    "getattr of a dtype": body("return x.to(getattr(torch, f'float{bits}'))"),
    "getattr in a loop": "for n in ('relu', 'tanh'):\n    getattr(torch, n)(x)\n",
    "explored": OWN + "print([n for n in dir(torch) if 'norm' in n])\n"
    "print([getattr(nn, n) for n in dir(nn)])\n",
    "own dataclass": "from dataclasses import dataclass\n@dataclass\nclass R:\n    count: int\n"
    "    mean: Tensor\n    m2: Tensor\n" + body("s = R(0, x, x)\nreturn s.mean, s.m2 / s.count"),
    "own NamedTuple": "from typing import NamedTuple\nclass R(NamedTuple):\n    mean: Tensor\n"
    "    var: Tensor\n" + body("s = R(x, x)\nreturn s._replace(mean=0).mean + s.var"),
    "shape by functools": "import functools, operator\n"
    + body("n = functools.reduce(operator.mul, x.shape[:-1], 1)\nreturn x"),
    "shape by NumPy": "import numpy as np\n" + body("n = int(np.prod(x.shape[:-1]))\nreturn x"),
    "own norm in a member": "class LayerNorm(nn.Module):\n    def __init__(self):\n"
    "        self.norm = Norm()\n    def forward(self, x):\n"
    "        return self.norm.layer_norm(x) + self.LayerNorm(x)\n",
    "attributes of own objects": OWN + "m = LayerNorm()\nm.weight = 1\nm.bias.data = 2\n"
    "layer_norm.calls = 0\nlist(m.modules())\nfor n, p in m.named_modules():\n    p.eps = 0\n",
    "attributes by name": "class A(nn.Module):\n    def __init__(self):\n"
    "        for i in range(3):\n            setattr(self, f'norm{i}', nn.Identity())\n",
    "tensor methods": body("return (x.norm() + x.float().var(-1) + x.T.grad) / x.shape[-1]"),
    # What notebooks are full of
    "Colab": "import sys\nif 'google.colab' in sys.modules:\n    print('Colab')\n",
    "Colab, asked the other way": "import sys\nIN_COLAB = 'google.colab' in sys.modules\n",
    "a debugger": "import pdb\n" + body("pdb.set_trace()\nbreakpoint()\nreturn x"),
    "printed version": "import sys\nprint(sys.version)\n" + OWN,
    "own source printed": OWN + "import inspect\nprint(inspect.getsource(layer_norm))\n",
    "signature": OWN + "import inspect\nprint(inspect.signature(layer_norm))\n",
    "seeds and settings": OWN + "torch.manual_seed(0)\ntorch.set_printoptions(precision=3)\n"
    "torch.backends.cudnn.deterministic = True\ntorch.set_default_dtype(torch.float32)\n",
    "sys for a path and a size": OWN + "import sys\nsys.path.append('.')\nprint(sys.getsizeof(3))",
    "gc collected": OWN + "import gc\ngc.collect()\n",
    "run as a script": OWN + "if __name__ == '__main__':\n    print(layer_norm)\n",
    "eval mode and re.compile": OWN + "import re\nre.compile(text)\nmodel.eval()\ntorch.compile(f)",
    "known text run": OWN + "exec('y = 1 + 1')\nprint(eval('y'))\n",
    "warnings and environment": OWN + "import os, warnings\nwarnings.filterwarnings('ignore')\n"
    "os.environ['OMP_NUM_THREADS'] = '1'\n",
    "timed": OWN + "import time, timeit\nt = time.perf_counter()\nlayer_norm(x)\n"
    "print(time.time() - t)\ntimeit.timeit(lambda: layer_norm(x), number=9)\n",
    "plotted": OWN + "import matplotlib.pyplot as plt\nplt.rcParams['font.size'] = 9\n"
    "fig, ax = plt.subplots()\nax.plot(x)\nplt.show()\n",
    "results kept": "import json, pickle\npickle.dump(y, open('y', 'wb'))\ntorch.save(y, 'y.pt')\n",
    "threads": "import threading\nthreading.Thread(target=layer_norm).start()\n",
    "data of scikit-learn": "from sklearn.datasets import load_digits\nx = load_digits().data\n",
}  # fmt: skip


@pytest.mark.parametrize("source", LEFT_ALONE.values(), ids=LEFT_ALONE.keys())
def test_everyday_code_is_not_even_an_entry(source):
    assert search(source) == []


def test_a_finding_names_exercise_cell_and_line():
    source = "import ctypes\n\n\nctypes.CDLL(None)\n"
    cells = [Cell(-1, "given", None, source), Cell(4, "solution", "LayerNorm", source)]
    (found,) = find(cells, NAMES)  # what was given out is ours, and each name is told once a cell
    assert (found.exercise, found.cell_index, found.line) == ("LayerNorm", 4, 1)
    assert found.detail == "ctypes"


def test_what_stands_in_a_text_that_is_run_is_told_with_the_line_that_runs_it():
    (found,) = search("x = 1\nexec('''\n\n\nimport ctypes\n''')\n")
    assert (found.line, found.detail) == (2, "ctypes")


def test_there_are_never_more_entries_than_a_person_reads():
    noise = "".join(f"torch.Tensor.x{i} = f\n" for i in range(50))
    assert len(search(noise, noise)) == MAX_FINDINGS


# -- one loop ------------------------------------------------------------------------------------


def loops(source: str) -> list[tuple[int, str]]:
    return [(f.line, f.detail) for f in search(source, one_loop=["layer_norm"])]


def test_a_second_loop_and_what_goes_through_all_numbers_are_shown_where_one_loop_is_asked_for():
    once = "for v in x.unbind(-1):\n    weight = weight + v\n"
    assert loops(body(once + "return weight")) == []
    assert loops(body(once + once)) == [(4, "a second loop")]
    assert loops(body("mean = x.mean(-1)\n" + once)) == [(2, "mean of all numbers")]
    helper = "def total(x):\n    return sum(x)\n"
    assert loops(body(once + "return total(x)", helper)) == [(4, "a second loop")]
    own = "class S:\n    mean = 0\n    def mean(self):\n        return 1\n"
    assert loops(body(once + "return S().mean()", own)) == []
    assert search(body(once + once)) == []  # of another exercise


# -- hostile code --------------------------------------------------------------------------------

BENEATH_LAST = "\nimport gc\ngc.get_objects()\n"
HOSTILE = {
    "deep attribute": "y = x" + ".a" * 900,
    "deep call": "y = " + "f(" * 90 + "x" + ")" * 90,
    "deep method chain": "y = x" + ".a()" * 200,
    "long sum": "y = " + "+".join(["x"] * 2500),
    "many long sums": ("y = " + "+".join(["x"] * 900) + "\n") * 20,
    "long text": "y = '" + "a" * 90_000 + "'",
    "huge integer": "y = 0x" + "f" * 90_000,
    "a decimal that is too long": "y = " + "9" * 5000,
    "a power": "y = 9 ** 9 ** 9 ** 9",
    "a long repetition": "y = 'ab' * 10**12",
    "a wide format": "'%2500000000s' % 'a'\n'{:>1500000000}'.format('a')\nf'{1:>1500000000}'",
    "nested loops": "".join(" " * i + "for i in x:\n" for i in range(18)) + " " * 18 + "f = f(i)",
    "nested functions": "".join(
        " " * i + "def f(x):\n" + " " * (i + 1) + "for i in x: f(x)\n" for i in range(60)
    ),
    "nested lambdas": "y = " + "lambda: " * 90 + "x",
    "doubling text": "s = 'a'\n" + "s = s + s\n" * 200,
    "doubling choice": "s = 'a' if x else 'b'\n" + "s = s + s\n" * 50,
    "joined joins": "y = " + "''.join([" * 60 + "'a'" + "])" * 60,
    "many branches": "if x:\n    f = lambda: 0\n" * 3000,
    "many names": "".join(f"n{i} = n{i - 1}\n" for i in range(1, 8000)),
    "many imports": "".join(f"import m{i} as n{i}\n" for i in range(3000)),
    "many functions of one name": "def layer_norm(x):\n    return f(x)\n" * 2000,
    "many functions, each calls the next": "".join(
        f"def f{i}(x):\n    return f{i + 1}(x)\n" for i in range(800)
    ),
    "a text that runs itself": "s = 'def f():\\n exec(s)\\nf()'\nexec(s)",
    "recursion": "def f(x):\n    return f(x)\nlayer_norm = f",
    "mutual bases": "class A: pass\nclass B(A): pass\nclass A(B): pass\nLayerNorm = A",
    "growing attribute": "for i in x:\n    torch = torch.a\n",
    "null byte": "y = 1\0",
    "surrogate": "y = '\\ud800'\n\ud800 = 1",
    "not Python": "def def def",
}


@pytest.mark.parametrize("source", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_code_ends_soon_and_hides_nothing_beside_it(source):
    inside = (
        "def layer_norm(x, w, b, e):\n" + textwrap.indent(source, "    ") + "\n    return f(x)\n"
    )
    start = time.process_time()
    assert "get_objects" in {f.detail for f in search(source, BENEATH_LAST)}
    search(inside, one_loop=NAMES)
    search(source, one_loop=NAMES)
    assert time.process_time() - start < 8


def test_more_code_than_can_be_looked_through_is_shown_as_that():
    cells = ["y = " + "+".join(["x"] * 1000) + "\n" for _ in range(80)]
    assert "more code than can be looked through" in {f.detail for f in search(*cells)}
