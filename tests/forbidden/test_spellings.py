"""The library reached in every spelling that we know: refused where it runs, or shown."""

from __future__ import annotations

import textwrap

import pytest
import torch
from by_hand import outcome

ARGUMENTS = (torch.linspace(-2, 3, 24).reshape(3, 8), torch.ones(8), torch.zeros(8), 1e-5)
F = "import torch.nn.functional as F\n"
CALL = "(x, x.shape[-1:], weight, bias, eps)"
# A layer_norm with torch's arguments is called with ours, ...
AS_TORCHS = "def layer_norm(x, *a, known=layer_norm):\n    return known(x, (8,))\n"
# ... and a class has a function beside it.
AS_FUNCTION = "def layer_norm(x, *a):\n    return LayerNorm(8)(x)\n"
MODULE = "class Module(nn.Module):\n    def __init__(self, d):\n        super().__init__()\n"
NAME = "name = '_'.join(['layer', 'norm'])\n"


def body(statement: str, before: str = F) -> str:
    inner = textwrap.indent(textwrap.dedent(statement), "    ")
    return f"{before}def layer_norm(x, weight, bias, eps):\n{inner}\n"


WAYS = {
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
    "getitem": body("import operator\nreturn operator.getitem(vars(torch), 'layer_norm')(x, (8,))"),
    "getattribute of its class": body(
        "return type(torch).__getattribute__(torch, 'layer_norm')(x, (8,))"
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
    "alias of the graded name": F + "layer_norm = F.layer_norm\n" + AS_TORCHS,
    "import as the graded name": "from torch.nn.functional import layer_norm\n" + AS_TORCHS,
    "alias of a helper": F
    + "def g(*a):\n    return F.layer_norm(*a)\nlayer_norm = g\n"
    + AS_TORCHS,
    "partial": F
    + "import functools\nlayer_norm = functools.partial(F.layer_norm, normalized_shape=(8,))\n"
    "def layer_norm(x, *a, known=layer_norm):\n    return known(x)\n",
    "compiled": F
    + "def g(x, *a):\n    return F.layer_norm(x, (8,))\nlayer_norm = torch.compile(g)\n",
    "default argument": F
    + "def layer_norm(x, weight, bias, eps, f=F.layer_norm):\n    return f(x, (8,))\n",
    "list": body("return [F.relu, F.layer_norm][1]" + CALL),
    "dict at module level": body("return t['ln']" + CALL, F + "t = {'ln': F.layer_norm}\n"),
    "dict of modules": body("return {'f': F}['f'].layer_norm" + CALL),
    "list of modules": body("return [nn, F][1].layer_norm" + CALL),
    "stored in a dict": body("return t['ln']" + CALL, F + "t = {}\nt['ln'] = F.layer_norm\n"),
    "map": body("return list(map(F.layer_norm, [x], [(8,)]))[0]"),
    "apply": body("return apply(F.layer_norm, x)", F + "def apply(f, x):\n    return f(x, (8,))\n"),
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
    "        super().__init__()\n        self.inner = nn.LayerNorm(d, eps)\n"
    "    def forward(self, x):\n        return self.inner(x)\n",
    "method": F + "class LayerNorm(Module):\n    def forward(self, x):\n"
    "        return self.go(x)\n    def go(self, x):\n        return F.layer_norm(x, (8,))\n",
    "class attribute": F + "class LayerNorm(Module):\n    norm = staticmethod(F.layer_norm)\n"
    "    def forward(self, x):\n        return self.norm(x, (8,))\n",
    "forward assigned later": F + "class LayerNorm(Module):\n    pass\n"
    "LayerNorm.forward = lambda self, x: F.layer_norm(x, (8,))\n",
    "forward by setattr": F + "class LayerNorm(Module):\n    pass\n"
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
        "if x.dtype != torch.float16:\n    return F.layer_norm(x, (8,))\nreturn x"
    ),
    "in a loop": body("for f in [F.layer_norm]:\n    x = f(x, (8,))\nreturn x"),
    "in a comprehension": body("return [f(x, (8,)) for f in (F.layer_norm,)][0]"),
    "in try": body("try:\n    return F.layer_norm(x, (8,))\nexcept Exception:\n    return x"),
    "in with": body("with torch.no_grad():\n    return F.layer_norm(x, (8,))"),
    "in match": body("match x.ndim:\n    case _:\n        return F.layer_norm(x, (8,))"),
    "nested": body("def inner(y):\n    return F.layer_norm(y, (8,))\nreturn inner(x)"),
    "global function": F + "def install():\n    global layer_norm\n    layer_norm = F.layer_norm\n"
    "def layer_norm(*a):\n    pass\ninstall()\n" + AS_TORCHS,
    "globals assigned": F + "globals()['layer_norm'] = F.layer_norm\n" + AS_TORCHS,
    "globals updated": F + "globals().update(layer_norm=F.layer_norm)\n" + AS_TORCHS,
    "eval of a literal": body("return eval('F.layer_norm(x, (8,))')"),
    "exec of a literal": F + "exec('layer_norm = F.layer_norm')\n" + AS_TORCHS,
    "star import that overwrites": "def LayerNorm(d, eps):\n    pass\nfrom torch.nn import *\n",
    "last definition": F + "def layer_norm(x, *a):\n    return x\n"
    "def layer_norm(x, *a):\n    return F.layer_norm(x, (8,))\n",
    "async": F + "async def g(x):\n    return F.layer_norm(x, (8,))\n"
    "def layer_norm(x, *a):\n    try:\n        g(x).send(None)\n"
    "    except StopIteration as end:\n        return end.value\n",
}

# Whose name, or code, is made at run time.
MADE = {
    "attrgetter": body("import operator\nreturn operator.attrgetter(name)(torch)(x, (8,))"),
    "methodcaller": body("import operator\nreturn operator.methodcaller(name, x, (8,))(torch)"),
    "pattern with an own class": body(
        "match torch:\n    case Any(f):\n        return f(x, (8,))",
        "class Meta(type):\n    def __instancecheck__(self, value):\n        return True\n"
        "class Any(metaclass=Meta):\n    __match_args__ = (name,)\n",
    ),
    "table in a copy": body("d = {}\nd.update(vars(torch))\nreturn d[name](x, (8,))"),
    "itemgetter": body("import operator\nreturn operator.itemgetter(name)(vars(torch))(x, (8,))"),
    "timed text": body(
        "import timeit\nreturn timeit.timeit(f'import torch; torch.{name}(x, (8,))',"
        " globals={'x': x}, number=1)"
    ),
    "Formatter": body(
        "import string\nreturn string.Formatter().get_field('0.' + name, (torch,), {})[0](x, (8,))"
    ),
    "Unpickler": body(
        "import io, pickle\n"
        "return pickle.Unpickler(io.BytesIO()).find_class('torch', name)(x, (8,))"
    ),
    "interpreter": body(
        "import code\nd = {'x': x, 'torch': torch}\n"
        "code.InteractiveInterpreter(d).runsource(f'y = torch.{name}(x, (8,))')\nreturn d['y']"
    ),
    "type hints": body(
        "import typing\ndef f(): pass\nf.__annotations__['y'] = f'torch.{name}'\n"
        "return typing.get_type_hints(f, {'torch': torch})['y'](x, (8,))"
    ),
    "exec": body(
        "d = {'x': x}\nexec(f'import torch; y = torch.{name}(x, (8,))', d)\nreturn d['y']"
    ),
    "eval": body("return eval(f'torch.{name}(x, (8,))')"),
    "eval by another name": body("e = eval\nreturn e(f'torch.{name}(x, (8,))')"),
    "compile": body("return eval(compile(f'torch.{name}(x, (8,))', '', 'eval'))"),
    "attribute of torch": body("return getattr(F, name)(x, (8,))"),
    "attribute of nn": body("return getattr(nn, 'Layer' + name[-4:].title())(8)(x)"),
    "key of a module": body("return vars(F)[name](x, (8,))"),
    "import": body("return getattr(__import__('tor' + 'ch'), name)(x, (8,))"),
    "import_module": body(
        "import importlib\nm = importlib.import_module('torch.nn.' + 'functional')\n"
        "return getattr(m, name)(x, (8,))"
    ),
    "key of sys.modules": body(
        "return sys.modules['tor' + 'ch'].layer_norm(x, (8,))", "import sys\n"
    ),
    "sys.modules searched": body(
        "return m.native_layer_norm(x, (8,), weight, bias, 1e-5)[0]",
        "import sys, torch._refs\n"
        "m = [m for n, m in sorted(sys.modules.items()) if n.endswith('_refs')][0]\n",
    ),
    "module in a parameter": F
    + "def layer_norm(x, *a, known=F):\n    return known.layer_norm(x, (8,))\n",
    "module out of a list": body(
        "return known[0].nn.functional.layer_norm(x, (8,))", "known = [torch]\n"
    ),
    "alias of such a method": body("f = known.layer_norm\nreturn f(x, (8,))", F + "known = F\n"),
    "search at module level": body(
        "return f(x, (8,))",
        "f = [v for k, v in vars(torch).items() if k.startswith('layer_')][0]\n",
    ),
    "search with dir": body(
        "return f(x, (8,))", "f = [getattr(torch, n) for n in dir(torch) if n == name][0]\n"
    ),
    "search of a copy": body("return d[name](x, (8,))", "d = dict(vars(torch))\n"),
    "search of values": body(
        "return [f for f in torch.__dict__.values()"
        " if getattr(f, '__name__', '') == name][0](x, (8,))"
    ),
    "search with inspect": body(
        "return f(x, (8,))", "import inspect\nf = dict(inspect.getmembers(torch))[name]\n"
    ),
    "class out of a search": body(
        "return m(x)", "m = [v for k, v in vars(nn).items() if k == 'LayerNorm'][0](8)\n"
    ),
    "result of a search as the exercise": "layer_norm = vars(torch)[name]\n" + AS_TORCHS,
    "table of overrides": body(
        "return f(x, (8,))",
        "import torch.overrides\ntable = torch.overrides.get_overridable_functions()\n"
        "f = [f for t in table.values() for f in t if f.__name__ == name][0]\n",
    ),
    "operation by its name": body(
        "return f(x, (8,))", "f = torch._C._jit_get_operation('aten::' + name)[0]\n"
    ),
    "getattr in reduce": body(
        "return f(x, (8,))",
        "import functools\nf = functools.reduce(getattr, ['nn', 'functional', name], torch)\n",
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_library_is_noticed_by_whatever_way_it_is_reached(way):
    source = WAYS[way] if "layer_norm" in defined(WAYS[way]) else WAYS[way] + AS_FUNCTION
    assert outcome("layernorm", "layer_norm", MODULE + source, *ARGUMENTS).noticed


def defined(source: str) -> set[str]:
    """What the cell defines as functions or variables."""
    return {name for name in ("layer_norm",) if f"def {name}(" in source or f"{name} = " in source}


@pytest.mark.parametrize("way", MADE)
def test_a_name_made_at_run_time_hides_nothing(way):
    assert outcome("layernorm", "layer_norm", NAME + MADE[way], *ARGUMENTS).noticed
