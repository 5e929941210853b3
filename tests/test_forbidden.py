"""Forbidden calls: every spelling that leads to the library is found, and nothing else is."""

import textwrap
import time

import pytest

from autograder.forbidden import find
from autograder.submission import Cell

GIVEN = Cell(-1, "given", None, "import torch\nfrom torch import Tensor, nn\n")
NAMES = ("layer_norm", "LayerNorm")
PATTERNS = {
    "layer_norm": [
        "torch.nn.functional.layer_norm",
        "torch.nn.LayerNorm",
        "torch.layer_norm",
        "torch.native_layer_norm",
        "torch.ops.aten.*layer_norm*",
        "torch.ops.aten.*.layer_norm*",
        "torch._refs.*layer_norm*",
    ],
    "LayerNorm": ["torch.nn.functional.layer_norm", "torch.nn.LayerNorm"],
}
F = "import torch.nn.functional as F\n"


def search(*sources: str, names=NAMES, patterns=PATTERNS):
    cells = [GIVEN, *(Cell(i, "added", None, textwrap.dedent(s)) for i, s in enumerate(sources))]
    return find(cells, names, patterns)


def body(statement: str, before: str = F) -> str:
    inner = textwrap.indent(textwrap.dedent(statement), "    ")
    return f"{before}def layer_norm(x, weight, bias, eps):\n{inner}\n"


CALL = "(x, x.shape[-1:], weight, bias, eps)"

MUST_FIND = {
    "if two": body("if 2:\n    return F.layer_norm(x, (8,))\nreturn x"),
    "if a text": body("if 'always':\n    return F.layer_norm(x, (8,))\nreturn x"),
    "a constant of that name": body(
        "if TYPE_CHECKING:\n    return F.layer_norm(x, (8,))\nreturn x",
        F + "TYPE_CHECKING = True\n",
    ),
    "attribute in a pattern": body(
        "match torch:\n    case object(layer_norm=f):\n        return f(x, (8,))"
    ),
    "key in a pattern": body(
        "match vars(torch):\n    case {'layer_norm': f}:\n        return f(x, (8,))"
    ),
    "deep in a pattern": body(
        "match [torch]:\n    case [object(nn=object(functional=object(layer_norm=f)))] | f:\n"
        "        return f(x, (8,))"
    ),
    "getitem": body("import operator\nreturn operator.getitem(vars(torch), 'layer_norm')(x, 8)"),
    "getattribute of its class": body(
        "return type(torch).__getattribute__(torch, 'layer_norm')(x)"
    ),
    "the function": body("return F.layer_norm" + CALL),
    "the full name": body("return torch.nn.functional.layer_norm" + CALL),
    "nn.functional": body("return nn.functional.layer_norm" + CALL),
    "torch.layer_norm": body("return torch.layer_norm" + CALL),
    "native": body("return torch.native_layer_norm" + CALL + "[0]"),
    "another module name": body(
        "return f.layer_norm" + CALL, "from torch.nn import functional as f\n"
    ),
    "a plain import": body(
        "return functional.layer_norm" + CALL, "from torch.nn import functional\n"
    ),
    "import of the function": body(
        "return ln" + CALL, "from torch.nn.functional import layer_norm as ln\n"
    ),
    "import inside": body("from torch.nn.functional import layer_norm as ln\nreturn ln" + CALL),
    "import inside of a module": body(
        "import torch as t\nreturn t.nn.functional.layer_norm" + CALL
    ),
    "wildcard": body("return native_layer_norm" + CALL, "from torch import *\n"),
    "wildcard of functional": "def LayerNorm(*a): pass\nfrom torch.nn import *\n",
    "module alias": body("return m.functional.layer_norm" + CALL, "m = torch.nn\n"),
    "alias of alias": body("return g" + CALL, "a = torch.nn\nb = a.functional\ng = b.layer_norm\n"),
    "local alias": body("f = F.layer_norm\nreturn f" + CALL),
    "tuple alias": body("return g" + CALL, F + "f, g = F.relu, F.layer_norm\n"),
    "walrus": body("return (f := F.layer_norm)" + CALL),
    "module class": body("return nn.LayerNorm(x.shape[-1])(x)"),
    "module object": body("return m(x) * weight", "m = nn.LayerNorm(8)\n"),
    "class alias": body("return N(8)(x)", "N = nn.LayerNorm\n"),
    "unbound forward": body("return nn.LayerNorm.forward(nn.LayerNorm(8), x)"),
    "getattr": body("return getattr(F, 'layer_norm')" + CALL),
    "getattr of a sum": body("return getattr(F, 'layer_' + 'norm')" + CALL),
    "getattr of a name": body("return getattr(F, n)" + CALL, F + "n = 'layer_norm'\n"),
    "getattr of an f-string": body("k = 'norm'\nreturn getattr(F, f'layer_{k}')" + CALL),
    "getattr of percent": body("return getattr(F, 'layer_%s' % 'norm')" + CALL),
    "getattr of format": body("return getattr(F, 'layer_{}'.format('norm'))" + CALL),
    "getattr of join": body("return getattr(F, '_'.join(['layer', 'norm']))" + CALL),
    "getattr reversed": body("return getattr(F, 'mron_reyal'[::-1])" + CALL),
    "getattr replaced": body("return getattr(F, 'layerXnorm'.replace('X', '_'))" + CALL),
    "getattr lowered": body("return getattr(F, 'LAYER_NORM'.lower())" + CALL),
    "getattr augmented": body("n = 'layer'\nn += '_norm'\nreturn getattr(F, n)" + CALL),
    "getattr by another name": body("g = getattr\nreturn g(F, 'layer_norm')" + CALL),
    "getattribute": body("return F.__getattribute__('layer_norm')" + CALL),
    "attrgetter": body(
        "return attrgetter('layer_norm')(F)" + CALL, F + "from operator import attrgetter\n"
    ),
    "attrgetter, dotted": body(
        "return operator.attrgetter('nn.functional.layer_norm')(torch)" + CALL, "import operator\n"
    ),
    "methodcaller": body("import operator\nreturn operator.methodcaller('layer_norm', x, (8,))(F)"),
    "vars": body("return vars(F)['layer_norm']" + CALL),
    "vars get": body("return vars(F).get('layer_norm')" + CALL),
    "__dict__": body("return F.__dict__['layer_norm']" + CALL),
    "globals": body("return globals()['F'].layer_norm" + CALL),
    "import_module": body(
        "return importlib.import_module('torch.nn.functional').layer_norm" + CALL,
        "import importlib\n",
    ),
    "import_module, relative": body(
        "return import_module('.functional', 'torch.nn').layer_norm" + CALL,
        "from importlib import import_module\n",
    ),
    "__import__": body("return __import__('torch').nn.functional.layer_norm" + CALL),
    "__import__ of a submodule": body(
        "return __import__('torch.nn.functional').nn.functional.layer_norm" + CALL
    ),
    "__import__ with fromlist": body(
        "return __import__('torch.nn.functional', fromlist=['x']).layer_norm" + CALL
    ),
    "aten": body("return torch.ops.aten.layer_norm" + CALL),
    "aten overload": body("return torch.ops.aten.native_layer_norm.default" + CALL),
    "aten alias": body("return aten.layer_norm.default" + CALL, "aten = torch.ops.aten\n"),
    "_VF": body("return torch._VF.layer_norm" + CALL),
    "_C": body("return torch._C._VariableFunctions.layer_norm" + CALL),
    "F of another module": body("return torch.nn.modules.normalization.F.layer_norm" + CALL),
    "torch of a module": body("return F.torch.layer_norm" + CALL),
    "class in its module": body("return torch.nn.modules.normalization.LayerNorm(8)(x)"),
    "class in modules": body("return nn.modules.LayerNorm(8)(x)"),
    "refs": body("return torch._refs.nn.functional.layer_norm" + CALL),
    "helper": body("return helper" + CALL, F + "def helper(*a):\n    return F.layer_norm(*a)\n"),
    "helper of a helper": body(
        "return a(x)",
        F + "def b(x):\n    return F.layer_norm(x, (8,))\ndef a(x):\n    return b(x)\n",
    ),
    "lambda": F + "layer_norm = lambda x, w, b, e: F.layer_norm(x, (8,), w, b, e)\n",
    "alias of the graded name": F + "layer_norm = F.layer_norm\n",
    "import as the graded name": "from torch.nn.functional import layer_norm\n",
    "alias of a helper": F + "def g(*a):\n    return F.layer_norm(*a)\nlayer_norm = g\n",
    "partial": F + "import functools\nlayer_norm = functools.partial(F.layer_norm)\n",
    "compiled": F + "def g(x):\n    return F.layer_norm(x, (8,))\nlayer_norm = torch.compile(g)\n",
    "default argument": F
    + "def layer_norm(x, weight, bias, eps, f=F.layer_norm):\n    return f(x)\n",
    "list": body("return [F.relu, F.layer_norm][1]" + CALL),
    "dict at module level": body("return t['ln']" + CALL, F + "t = {'ln': F.layer_norm}\n"),
    "dict of modules": body("return {'f': F}['f'].layer_norm" + CALL),
    "list of modules": body("return [nn, F][1].layer_norm" + CALL),
    "stored in a dict": body("return t['ln']" + CALL, F + "t = {}\nt['ln'] = F.layer_norm\n"),
    "map": body("return list(map(F.layer_norm, [x]))[0]"),
    "apply": body("return apply(F.layer_norm, x)", F + "def apply(f, x):\n    return f(x)\n"),
    "closure": F
    + "def make():\n    def f(x, *a):\n        return F.layer_norm(x, (8,))\n    return f\n"
    "layer_norm = make()\n",
    "decorator": F + "def swap(f):\n    return lambda x, *a: F.layer_norm(x, (8,))\n"
    "@swap\ndef layer_norm(x, weight, bias, eps):\n    return x\n",
    "base class": "class LayerNorm(nn.LayerNorm):\n    pass\n",
    "base of a base": "class Base(nn.LayerNorm):\n    pass\nclass LayerNorm(Base):\n    pass\n",
    "imported base": "from torch.nn import LayerNorm as L\nclass LayerNorm(L):\n    pass\n",
    "base with the same name": "from torch.nn import LayerNorm\n"
    "class LayerNorm(LayerNorm):\n    pass\n",
    "class is alias": "LayerNorm = nn.LayerNorm\n",
    "member": "class LayerNorm(nn.Module):\n    def __init__(self, d, eps=1e-5):\n"
    "        super().__init__()\n        self.inner = nn.LayerNorm(d, eps)\n",
    "method": F + "class LayerNorm(nn.Module):\n    def forward(self, x):\n"
    "        return self.go(x)\n    def go(self, x):\n        return F.layer_norm(x, (8,))\n",
    "class attribute": F + "class LayerNorm(nn.Module):\n    norm = staticmethod(F.layer_norm)\n",
    "forward assigned later": F + "class LayerNorm(nn.Module):\n    pass\n"
    "LayerNorm.forward = lambda self, x: F.layer_norm(x, (8,))\n",
    "forward by setattr": F + "class LayerNorm(nn.Module):\n    pass\n"
    "setattr(LayerNorm, 'forward', lambda self, x: F.layer_norm(x, (8,)))\n",
    "helper class": body(
        "return H()(x)",
        F + "class H:\n    def __call__(self, x):\n        return F.layer_norm(x, (8,))\n",
    ),
    "helper object": body(
        "return h.run(x)",
        F + "class H:\n    def run(self, x):\n        return F.layer_norm(x, (8,))\nh = H()\n",
    ),
    "only half types": body(
        "if x.dtype == torch.float16:\n    return F.layer_norm(x, (8,))\nreturn x"
    ),
    "in a loop": body("for f in [F.layer_norm]:\n    x = f(x, (8,))\nreturn x"),
    "in a comprehension": body("return [f(x, (8,)) for f in (F.layer_norm,)][0]"),
    "in try": body("try:\n    return F.layer_norm(x, (8,))\nexcept Exception:\n    return x"),
    "in with": body("with torch.no_grad():\n    return F.layer_norm(x, (8,))"),
    "in match": body("match x.ndim:\n    case _:\n        return F.layer_norm(x, (8,))"),
    "nested": body("def inner(y):\n    return F.layer_norm(y, (8,))\nreturn inner(x)"),
    "global function": F + "def install():\n    global layer_norm\n    layer_norm = F.layer_norm\n"
    "def layer_norm(*a):\n    pass\ninstall()\n",
    "globals assigned": F + "globals()['layer_norm'] = F.layer_norm\n",
    "globals updated": F + "globals().update(layer_norm=F.layer_norm)\n",
    "eval of a literal": body("return eval('F.layer_norm(x, (8,))')"),
    "exec of a literal": F + "exec('layer_norm = F.layer_norm')\n",
    "star import that overwrites": "def LayerNorm(d, eps):\n    pass\nfrom torch.nn import *\n",
    "last definition": F + "def layer_norm(x, *a):\n    return x\n"
    "def layer_norm(x, *a):\n    return F.layer_norm(x, (8,))\n",
    "async": F + "async def g(x):\n    return F.layer_norm(x, (8,))\n"
    "def layer_norm(x, *a):\n    return g(x)\n",
}

OWN = """
def layer_norm(x, weight, bias, eps):
    centered = x - x.mean(-1, keepdim=True)
    return centered * torch.rsqrt(centered.square().mean(-1, keepdim=True) + eps) * weight + bias
"""

MUST_NOT_FIND = {
    "types checked only": body(
        "if TYPE_CHECKING:\n    return F.layer_norm(x, (8,))\nreturn x",
        F + "from typing import TYPE_CHECKING\n",
    ),
    "a function timed": OWN + "import timeit\ntimeit.timeit(lambda: layer_norm(x), number=9)\n",
    "a pattern of shapes": body(
        "match x.shape:\n    case (n, d) | (n, d, _):\n        return x / d"
    ),
    "own code": OWN,
    "comparison in a later cell": OWN
    + F
    + "print(F.layer_norm(x, (8,)) - layer_norm(x, w, b, 1e-5))\n",
    "comparison function": OWN
    + F
    + "def check(x):\n    return F.layer_norm(x, (8,)) - layer_norm(x)\n",
    "imported for comparison": OWN + "from torch.nn.functional import layer_norm as reference\n"
    "y = reference(x, (8,))\n",
    "imported, then written": "from torch.nn.functional import layer_norm\n" + OWN,
    "alias, then written": F + "layer_norm = F.layer_norm\n" + OWN,
    "class alias, then written": "LayerNorm = nn.LayerNorm\n"
    "class LayerNorm(nn.Module):\n    pass\n",
    "nn.Module as base": "class LayerNorm(nn.Module):\n"
    "    def forward(self, x):\n        return x\n",
    "own function of the same name inside": body(
        "def layer_norm(y):\n    return y\nreturn layer_norm(x)"
    ),
    "the graded name used by the class": OWN + "class LayerNorm(nn.Module):\n"
    "    def forward(self, x):\n        return layer_norm(x, 1, 0, 1)\n",
    "own F": body("return F.layer_norm(x)", "class F:\n    def layer_norm(x):\n        return x\n"),
    "own nn": body(
        "return nn.LayerNorm(x)", "class nn:\n    def LayerNorm(x):\n        return x\n"
    ),
    "own torch": body("return torch.layer_norm(x)", "class torch:\n    pass\n"),
    "comment and docstring": body('"""Like F.layer_norm(x)."""\n# F.layer_norm(x)\nreturn x'),
    "string": body("name = 'F.layer_norm'\nreturn x"),
    "annotation": F
    + "def layer_norm(x: Tensor, m: nn.LayerNorm = None) -> nn.LayerNorm:\n    return x\n",
    "annotated local": body("m: nn.LayerNorm\nreturn x"),
    "isinstance": body("assert not isinstance(x, nn.LayerNorm)\nreturn x"),
    "comparison of objects": body("if weight is F.layer_norm:\n    return x\nreturn x"),
    "after return": body("return x\nreturn F.layer_norm(x, (8,))"),
    "if False": body("if False:\n    return F.layer_norm(x, (8,))\nreturn x"),
    "if 0 with else": body("if 0:\n    y = F.layer_norm(x, (8,))\nelse:\n    y = x\nreturn y"),
    "unused alias": body("f = F.layer_norm\nreturn x"),
    "unused helper": body("return x", F + "def helper(x):\n    return F.layer_norm(x, (8,))\n"),
    "unused inner function": body("def ref(y):\n    return F.layer_norm(y, (8,))\nreturn x"),
    "result kept in a global": body("return x + y", F + "y = F.layer_norm(torch.ones(8), (8,))\n"),
    "other functions": body("return F.relu(x) + torch.var(x) + nn.functional.softmax(x, -1)"),
    "longer name": body("return torch.layer_norm_of_mine(x)", ""),
    "name printed": body("print(F.layer_norm.__name__)\nreturn x"),
    "alias rebound": body(
        "f = F.layer_norm\nf = mine\nreturn f(x)", F + "def mine(x):\n    return x\n"
    ),
    "comparison class": OWN + "class Both(nn.Module):\n    def __init__(self):\n"
    "        self.a = nn.LayerNorm(8)\n        self.b = layer_norm\n",
    "helper redefined": body(
        "return h(x)",
        F + "def h(x):\n    return F.layer_norm(x, (8,))\ndef h(x):\n    return x\n",
    ),
    "unused import": body("return x", "from torch.nn.functional import layer_norm as ln\n"),
    "getattr of something else": body("return getattr(torch, 'rsqrt')(x)"),
    "own getattr": body(
        "return getattr(F, 'layer_norm')", F + "def getattr(a, b):\n    return a\n"
    ),
    "empty": "",
    "printed version": "import sys\nprint(sys.version)\n" + OWN,
    "own source printed": OWN + "import inspect\nprint(inspect.getsource(layer_norm))\n",
    "seeds and settings": OWN + "torch.manual_seed(0)\ntorch.set_printoptions(precision=3)\n"
    "torch.backends.cudnn.deterministic = True\ntorch.set_default_dtype(torch.float32)\n",
    "sys for a path and a size": OWN + "import sys\nsys.path.append('.')\nprint(sys.getsizeof(3))",
    "gc collected": OWN + "import gc\ngc.collect()\n",
    "run as a script": OWN + "if __name__ == '__main__':\n    print(layer_norm)\n",
    "the library's module with other weights": OWN + "ref = nn.LayerNorm(8)\n"
    "ref.weight.data = torch.ones(8)\nref.bias = nn.Parameter(torch.zeros(8))\n"
    "setattr(ref, 'eps', 1e-3)\nassert ref(x).allclose(layer_norm(x))\n",
    "attributes of own objects": OWN + "class LayerNorm(nn.Module):\n    pass\n"
    "m = LayerNorm()\nm.weight = 1\nm.bias.data = 2\nlayer_norm.calls = 0\nm.modules()\n",
    "library explored elsewhere": OWN
    + "import inspect\nprint([n for n in dir(torch) if 'norm' in n])"
    "\nfor k, v in vars(nn).items():\n    print(k, v)\nprint(inspect.getmembers(nn))\n"
    "print([getattr(nn, n) for n in dir(nn)])\n",
    "eval mode and re.compile": OWN + "import re\nre.compile(text)\nmodel.eval()\ntorch.compile(f)",
    "known text run": OWN + "exec('y = 1 + 1')\nprint(eval('y'))\n",
    "threads": OWN + "import threading\nthreading.Thread(target=layer_norm).start()\n",
    "warnings and environment": OWN + "import os, warnings\nwarnings.filterwarnings('ignore')\n"
    "os.environ['OMP_NUM_THREADS'] = '1'\n",
    "timed": OWN + "import time\nt = time.perf_counter()\nlayer_norm(x)\nprint(time.time() - t)\n",
    "plotted": OWN + "import matplotlib.pyplot as plt\nplt.rcParams['font.size'] = 9\n"
    "fig, ax = plt.subplots()\nax.plot(x)\nplt.show()\n",
    "tensor methods": body("return (x.norm() + x.float().var(-1) + x.T.grad) / x.shape[-1]"),
    "own norm in a member": "class LayerNorm(nn.Module):\n    def __init__(self):\n"
    "        self.norm = Norm()\n    def forward(self, x):\n"
    "        return self.norm.layer_norm(x) + self.LayerNorm(x)\n"
    "class Norm:\n    def layer_norm(self, x):\n        return x\n",
    "method of a result": body("return make(x).layer_norm(x)", "def make(x):\n    return Norm(x)\n")
    + "class Norm:\n    def layer_norm(self, x):\n        return x\n",
}


@pytest.mark.parametrize("source", MUST_FIND.values(), ids=MUST_FIND.keys())
def test_every_spelling_of_the_library_call_is_found(source):
    assert [f.kind for f in search(source)] and {f.kind for f in search(source)} == {
        "forbidden-call"
    }


@pytest.mark.parametrize("source", MUST_NOT_FIND.values(), ids=MUST_NOT_FIND.keys())
def test_code_that_does_not_reach_the_library_call_is_left_alone(source):
    assert search(source) == []


SUSPICIOUS = {
    "made attrgetter": body("import operator\nreturn operator.attrgetter(weight)(torch)(x)"),
    "made methodcaller": body("import operator\nreturn operator.methodcaller(weight, x)(torch)"),
    "pattern with an own class": body(
        "match torch:\n    case Any(f):\n        return f(x, (8,))", "class Any:\n    pass\n"
    ),
    "table in a copy": body("d = {}\nd.update(vars(torch))\nreturn d[weight](x)"),
    "itemgetter": body("import operator\nreturn operator.itemgetter(weight)(vars(torch))(x)"),
    "timed text": body("import timeit\nreturn timeit.timeit(weight)"),
    "Formatter": body("import string\nreturn string.Formatter().get_field(weight, (torch,), {})"),
    "Unpickler": body("import pickle\nreturn pickle.Unpickler(x).find_class('torch', weight)"),
    "interpreter": body("import code\nreturn code.InteractiveInterpreter(x).runsource(weight)"),
    "type hints": body("import typing\nreturn typing.get_type_hints(x, weight)"),
    "exec of a made text": body("exec(x.code)\nreturn x"),
    "eval of a made text": body("return eval(weight)"),
    "compile": body("return compile(weight, '', 'eval')"),
    "made attribute of torch": body("return getattr(F, weight)(x)"),
    "made attribute of nn": body("return getattr(nn, 'Layer' + weight)(x)"),
    "made key of a module": body("return vars(F)[weight](x)"),
    "made import": body("return __import__(weight)"),
    "made import_module": body("import importlib\nreturn importlib.import_module(weight)"),
    "made key of sys.modules": body("return g(x)", "import sys\ng = sys.modules[name].f\n"),
    "sys.modules searched": body(
        "return m.native_layer_norm(x, 8, 1, 2, 3)[0]",
        "import sys\nm = [m for n, m in sorted(sys.modules.items()) if n.endswith('_refs')][0]\n",
    ),
    "method with the name of the library's": body("return x.layer_norm(8)"),
    "module in a parameter": F + "def layer_norm(x, F):\n    return F.layer_norm(x)\n",
    "module out of a list": body("return known[0].nn.functional.layer_norm(x)"),
    "alias of such a method": body("f = known.layer_norm\nreturn f(x)"),
    "search at module level": body(
        "return f(x)", "f = [v for k, v in vars(torch).items() if k.startswith('layer_')][0]\n"
    ),
    "search with dir": body("return f(x)", "f = [getattr(torch, n) for n in dir(torch)][7]\n"),
    "search of a copy": body("return d[weight](x)", "d = dict(vars(torch))\n"),
    "search of values": body("return list(torch.__dict__.values())[99](x)"),
    "search with inspect": body(
        "return f(x)", "import inspect\nf = dict(inspect.getmembers(torch))[made()]\n"
    ),
    "class out of a search": body("return m(x)", "m = [v for v in vars(nn).values()][9](8)\n"),
    "result of a search as the exercise": "layer_norm = list(vars(torch).values())[99]\n",
    "made import called": body("return m.f(x)", "import importlib as i\nm = i.import_module(n)\n"),
    "table of overrides": body(
        "return fs[0](x)",
        "fs = [f for t in torch.overrides.get_overridable_functions() for f in t]\n",
    ),
    "operation by its name": body("return f(x)", "f = torch._C._jit_get_operation(name)[0]\n"),
    "getattr in reduce": body(
        "return f(x)", "import functools\nf = functools.reduce(getattr, names, torch)\n"
    ),
    "search of a module": body("return [v for k, v in vars(F).items() if 'layer' in k][0](x)"),
    "eval by another name": body("e = eval\nreturn e(weight)"),
}


@pytest.mark.parametrize("source", SUSPICIOUS.values(), ids=SUSPICIOUS.keys())
def test_what_the_text_hides_is_for_review_only(source):
    assert {f.kind for f in search(source)} == {"suspicious"}


def test_a_finding_names_exercise_cell_line_and_the_line_itself():
    helper = F + "\ndef helper(x):\n    y = F.layer_norm(x, (8,))  # mine\n    return y\n"
    (found,) = search(OWN, helper, "class LayerNorm(nn.Module):\n    forward = helper\n")
    assert (found.exercise, found.cell_index, found.line) == ("LayerNorm", 1, 4)
    assert found.source_line == "y = F.layer_norm(x, (8,))  # mine"
    assert found.detail == "F.layer_norm"


def test_an_alias_is_reported_with_what_it_stands_for():
    (found,) = search(
        "from torch.nn.functional import layer_norm as ln\n" + body("return ln(x)", "")
    )
    assert (found.line, found.detail) == (3, "ln (torch.nn.functional.layer_norm)")


def test_each_exercise_has_its_own_patterns():
    source = body("return torch.layer_norm(x)") + "LayerNorm = torch.layer_norm\n"
    assert [f.exercise for f in search(source)] == ["layer_norm"]


def test_a_tensor_method_is_found_by_its_tensor_name_on_unknown_values_only():
    patterns = {"layer_norm": ["torch.Tensor.var", "torch.var"]}
    found = search(body("return x.var(-1)"), patterns=patterns)
    assert [(f.line, f.detail) for f in found] == [(3, "x.var")]
    assert search(body("return (x - 1).float().var()"), patterns=patterns)
    assert search(body("return x.std(-1)"), patterns=patterns) == []
    own = "class S:\n    def var(self, x):\n        return x\n"
    assert search(own + body("return S().var(x)"), patterns=patterns) == []
    assert search(own + body("s = make(S)\nreturn s.var(x)"), patterns=patterns) == []


def test_autograd_can_be_forbidden_too():
    patterns = {"layer_norm": ["torch.autograd.grad", "torch.Tensor.backward"]}
    assert search(body("return torch.autograd.grad(x, weight)"), patterns=patterns)
    assert search(body("x.sum().backward()\nreturn x"), patterns=patterns)


HOSTILE = {
    "deep attribute": "y = x" + ".a" * 900,
    "deep call": "y = " + "f(" * 90 + "x" + ")" * 90,
    "deep method chain": "y = x" + ".a()" * 200,
    "long sum": "y = " + "+".join(["x"] * 900),
    "nested loops": "".join(" " * i + "for i in x:\n" for i in range(60)) + " " * 60 + "f = f(i)",
    "nested functions": "".join(
        " " * i + "def f(x):\n" + " " * (i + 1) + "for i in x: f(x)\n" for i in range(60)
    ),
    "doubling text": "s = 'a'\n" + "s = s + s\n" * 200,
    "doubling choice": "s = 'a' if x else 'b'\n" + "s = s + s\n" * 50,
    "joined joins": "y = " + "''.join([" * 60 + "'a'" + "])" * 60,
    "many branches": "if x:\n    f = lambda: 0\n" * 3000,
    "many names": "".join(f"n{i} = n{i - 1}\n" for i in range(1, 8000)),
    "a text that runs itself": "s = 'def f():\\n exec(s)\\nf()'\nexec(s)",
    "recursion": "def f(x):\n    return f(x)\nlayer_norm = f",
    "mutual bases": "class A: pass\nclass B(A): pass\nclass A(B): pass\nLayerNorm = A",
    "growing attribute": "for i in x:\n    torch = torch.a\n",
}


@pytest.mark.parametrize("source", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_code_ends_quickly_and_does_not_hide_a_call_beside_it(source):
    inside = (
        "def layer_norm(x, w, b, e):\n" + textwrap.indent(source, "    ") + "\n    return f(x)\n"
    )
    start = time.process_time()
    assert search(source + "\n" + F + "LayerNorm = F.layer_norm\n")
    search(inside)
    assert time.process_time() - start < 8


def test_what_is_too_nested_to_follow_is_for_review():
    found = search("x = 1" + "+1" * 900 + "\n" + OWN)
    assert {f.kind for f in found} <= {"suspicious"}


MODULE = """
class LayerNorm(nn.Module):
    def forward(self, x):
        return layer_norm(x, self.weight, self.bias, self.eps)
"""


@pytest.mark.parametrize(
    "first",
    [
        body("return F.layer_norm(x, (8,))"),
        F + "def helper(x):\n    return F.layer_norm(x, (8,))\n" + body("return helper(x)"),
        F + "layer_norm = F.layer_norm\n",
        "from torch.nn.functional import layer_norm\n",
    ],
)
def test_a_later_exercise_is_not_charged_for_an_earlier_one_it_builds_on(first):
    assert [f.exercise for f in search(first, MODULE)] == ["layer_norm"]
    direct = MODULE.replace("layer_norm(x,", "nn.functional.layer_norm(x,")
    assert [f.exercise for f in search(first, direct)] == ["layer_norm", "LayerNorm"]


def test_an_earlier_exercise_is_charged_for_what_it_reaches_through_a_later_one():
    later = F + "class LayerNorm:\n    run = staticmethod(F.layer_norm)\n"
    found = search(later, body("return LayerNorm.run(x)", ""))
    assert {f.exercise for f in found} == {"layer_norm", "LayerNorm"}


def test_an_earlier_exercise_cannot_hide_what_only_the_later_one_may_not_call():
    patterns = {**PATTERNS, "LayerNorm": ["torch.autograd.grad"]}
    first = body(
        "if eps is None:\n    return torch.autograd.grad(x, weight)\nreturn F.layer_norm(x)"
    )
    found = search(first, MODULE, patterns=patterns)
    assert [(f.exercise, f.detail) for f in found] == [
        ("layer_norm", "F.layer_norm"),
        ("LayerNorm", "torch.autograd.grad"),
    ]


def test_a_helper_that_two_exercises_call_is_charged_to_both():
    helper = F + "def helper(x):\n    return F.layer_norm(x, (8,))\n"
    module = "class LayerNorm:\n    def forward(self, x):\n        return helper(x)\n"
    found = search(helper, body("return helper(x)", ""), module)
    assert [f.exercise for f in found] == ["layer_norm", "LayerNorm"]
