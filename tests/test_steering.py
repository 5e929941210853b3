"""What reaches beneath the learner's code, and autograd: found in every spelling."""

import tomllib
from pathlib import Path

import pytest
from test_forbidden import NAMES, OWN, PATTERNS, F, body, search

from autograder.forbidden import find
from autograder.submission import Cell

BENEATH = {
    "import of the worker": ("from autograder import worker\n", "autograder"),
    "the worker by its name": (
        "import importlib\nw = importlib.import_module('autograder' + '.worker')\n",
        "autograder",
    ),
    "sys.modules": ("import sys\nsys.modules['autograder.worker']\n", "sys.modules"),
    "sys by another name": ("import sys as s\ndef f():\n    return s.modules\n", "sys.modules"),
    "from sys": ("from sys import modules as m\n", "sys.modules"),
    "sys out of a list": ("import sys\n[0, sys][1].modules\n", "sys.modules"),
    "getattr of sys": ("import sys\ngetattr(sys, '_get' + 'frame')()\n", "sys._getframe"),
    "sys inside a module": ("torch.sys.modules\n", "torch.sys.modules"),
    "objects": ("import gc\nfor o in gc.get_objects():\n    pass\n", "gc.get_objects"),
    "referrers": ("import gc\nlambda x: gc.get_referrers(x)\n", "gc.get_referrers"),
    "frames": ("import inspect\ninspect.currentframe()\n", "inspect.currentframe"),
    "stack": ("from inspect import stack\n", "inspect.stack"),
    "frames of an exception": ("try:\n    f()\nexcept E as e:\n    e.tb.tb_frame\n", "tb_frame"),
    "caller": ("def f(frame):\n    return frame.f_back.x\n", "f_back"),
    "globals of others": ("f.__globals__['x'] = 1\n", "__globals__"),
    "globals by getattr": ("getattr(f, '__globals__')\n", "__globals__"),
    "subclasses": ("nn.Module.__subclasses__()\n", "__subclasses__"),
    "trace": ("import sys\nsys.settrace(f)\n", "sys.settrace"),
    "ctypes": ("import ctypes\nctypes.CDLL(None)\n", "ctypes"),
    "part of ctypes": ("from ctypes import c_long\n", "ctypes"),
    "torch.library": ("torch.library.Library('aten', 'IMPL')\n", "torch.library"),
    "import of torch.library": ("from torch.library import impl\n", "torch.library"),
    "main": ("import __main__\n__main__.layer_norm = f\n", "__main__"),
    "set on a tensor": ("torch.Tensor.polish = f\n", "an assignment to torch.Tensor.polish"),
    "set by setattr": (F + "setattr(F, 'relu', f)\n", "an assignment to torch.nn.functional.relu"),
    "set by a made name": ("setattr(torch, n, f)\n", "an assignment to torch.*"),
    "set by __setattr__": ("torch.__setattr__('x', f)\n", "an assignment to torch.x"),
    "set by type": ("type.__setattr__(nn.Module, 'x', f)\n", "an assignment to torch.nn.Module.x"),
    "added to": ("torch.Tensor.x += 1\n", "an assignment to torch.Tensor.x"),
    "set in vars": ("vars(torch)['x'] = f\n", "an assignment in torch.__dict__"),
    "set by update": ("torch.__dict__.update(x=f)\n", "an assignment in torch.__dict__"),
    "builtins": ("import builtins\nbuiltins.len = f\n", "an assignment to builtins.len"),
    "__builtins__": ("__builtins__['len'] = f\n", "__builtins__"),
    "mock": ("from unittest import mock\n", "unittest.mock"),
    "exec": ("exec(decode(b'x'))\n", "exec of a text made at run time"),
    "eval in a function": ("def f(x):\n    eval(x)\n", "eval of a text made at run time"),
    "compile in a method": (
        "class A:\n    def f(self, x):\n        def g():\n            compile(x, '', 'exec')\n",
        "compile of a text made at run time",
    ),
    "inside a known text": ("exec('import gc; gc.get_objects()')\n", "gc.get_objects"),
}


@pytest.mark.parametrize(("source", "detail"), BENEATH.values(), ids=BENEATH.keys())
def test_what_reaches_beneath_is_told_wherever_it_stands(source, detail):
    found = search(OWN, source)
    assert {(f.kind, f.exercise, f.cell_index) for f in found} == {("suspicious", "layer_norm", 1)}
    assert detail in {f.detail for f in found}
    assert search(OWN, source, patterns={}) == found


def test_what_reaches_beneath_hides_no_forbidden_call():
    module = "import sys\nf = sys.modules['torch.nn.functional']\n"
    patched = F + "torch.mine = F.layer_norm\n"
    for source in (body("return f.layer_norm(x)", module), body("return torch.mine(x)", patched)):
        assert {f.kind for f in search(source)} == {"forbidden-call", "suspicious"}
    noise = "".join(f"torch.Tensor.x{i} = f\n" for i in range(50))
    found = search(noise + body("return F.layer_norm(x)"))
    assert len(found) == 20 and "forbidden-call" in {f.kind for f in found}


def test_what_reaches_beneath_counts_for_the_exercise_of_its_cell_and_not_for_given_cells():
    source = "import ctypes\nctypes.CDLL(None)\n"
    cells = [Cell(-1, "given", None, source), Cell(0, "solution", "LayerNorm", source)]
    (found,) = find(cells, NAMES, PATTERNS)
    assert (found.exercise, found.cell_index, found.line) == ("LayerNorm", 0, 1)


BY_AUTOGRAD = {
    "result of own function": "y = f(x)\ny.backward(g)\nreturn x.grad",
    "result in arithmetic": "y = torch.relu(2 * f(x))\ny.backward(g)",
    "result of own module": "y = M(8)(x)\ny.backward(g)",
    "result of its method": "y = M(8).forward(x)\ny.backward(g)",
    "result by map": "y = list(map(f, [x]))[0]\ny.backward(g)",
    "attribute of a result": "f(x).T.backward(g)",
    "method by another name": "back = f(x).backward\nback(g)",
    "getattr": "getattr(f(x), 'back' + 'ward')(g)",
    "getattr of a parameter": "getattr(x, 'backward')(g)",
    "methodcaller": "import operator\noperator.methodcaller('backward', g)(f(x))",
    "handed on": "list(map(f(x).backward, [g]))",
    "its class": "y = f(x)\ny.__class__.backward(y, g)",
    "its type": "y = f(x)\ntype(y).backward(y, g)",
    "class in its module": "torch._tensor.Tensor.backward(f(x), g)",
    "parameter class": "nn.Parameter.backward(f(x), g)",
    "engine": "torch.autograd.Variable._execution_engine.run_backward((f(x),))",
    "new engine": "torch._C._ImperativeEngine().run_backward((f(x),))",
    "graph module": "torch.autograd.graph._engine_run_backward((f(x),))",
    "from the graph module": "from torch.autograd.graph import _engine_run_backward as r\nr(f(x))",
    "forwards": "torch._unpack_dual(torch._make_dual(x, g, 0), 0)",
    "a level": "torch._C._enter_dual_level()",
    "forwards by its operator": "torch.ops.aten._make_dual.default(f(x), g, 0)",
    "node": "f(x).grad_fn(g)",
    "nodes": "node = f(x).grad_fn\nfor n, _ in node.next_functions:\n    n(g)",
}


@pytest.mark.parametrize("statement", BY_AUTOGRAD.values(), ids=BY_AUTOGRAD.keys())
def test_autograd_on_a_value_of_the_learners_own_code_is_found(statement):
    toml = Path(__file__).parents[1] / "autograder/suites/layernorm/suite.toml"
    listed = tomllib.loads(toml.read_text())["forbidden"]["layer_norm_backward"]
    own = "def f(x):\n    return x\n"
    own += "class M(nn.Module):\n    def forward(self, x):\n        return x\n"
    found = search(body(statement, own), patterns={"layer_norm": listed})
    assert {f.kind for f in found} == {"forbidden-call"}


def test_a_method_called_backward_is_the_learners_own_or_for_review():
    patterns = {"layer_norm": ["torch.Tensor.backward"]}
    own = "class M:\n    def backward(self, g):\n        return g\n    def go(self, g):\n"
    own += "        return self.other.backward(g)\n"
    assert search(own + body("m = M()\nm.go(x)\nreturn m.backward(x)"), patterns=patterns) == []
    (found,) = search(own + body("x.sum().backward()"), patterns=patterns)
    assert found.kind == "suspicious"
