"""Names that lead beneath a learner's own code: into the worker, torch or Python.

The reader of `forbidden` shows them to a person wherever they stand in the text. Made at run time
they stand in no text, so `getattr`, `setattr` and `vars` of a learner's cells do not find them.
"""

from __future__ import annotations

import re
import sys
import types
from typing import Any


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


# As a name, an attribute, a part of an import or of a pattern.
WORDS = words("""
    f_back f_globals f_locals f_builtins tb_frame gi_frame cr_frame ag_frame _getframe
    _current_frames __globals__ __builtins__ __subclasses__ __closure__ cell_contents __code__
    __getattribute__ __import__ __mro__ mro __bases__ __base__ __loader__ __reduce__ __reduce_ex__
    __torch_dispatch__ __array_interface__ __array_struct__ __match_args__ __annotations__
    _C _refs _decomp _prims _prims_common _inductor _higher_order_ops _library _functorch
    _export _subclasses _lazy _meta_registrations _python_dispatch _VF _internal _ops
    _execution_engine grad_fn next_functions _mode_utils _decompositions _numpy _native quantizable

    autograder kernel_sanitizer __main__ builtins
    meta_path path_hooks settrace setprofile get_objects get_referrers get_referents
    currentframe getouterframes getinnerframes getattr_static getmembers getclosurevars getmro
    attrgetter methodcaller resolve_name get_field get_type_hints ForwardRef
    _bootstrap _gcd_import set_threshold
    ctypes _ctypes cffi load_library cpp_extension
    marshal dill cloudpickle shelve runpy codeop zipimport
    spec_from_file_location SourceFileLoader machinery exec_module
    InteractiveInterpreter InteractiveConsole FunctionType CodeType ModuleType
    _thread fork forkpty
    run_decompositions make_fx symbolic_trace flex_attention no_dispatch CompilationUnit
    DispatchMode TorchDispatchMode TorchFunctionMode
""")

# Dotted names, and all below them.
MODULES = (
    "torch.library", "torch.overrides", "torch.export", "torch.fx", "torch.onnx", "torch.nested",
    "torch.masked", "torch.ao", "torch.quantization", "torch.package", "torch.distributed",
    "torch.nn.intrinsic", "torch.nn.qat", "torch.nn.quantized",
    "torch.jit.fork", "torch.jit.save", "torch.jit.load", "unittest.mock", "inspect.stack",
    "inspect.trace", "triton.runtime", "sys.monitoring", "torch._dynamo.export", "pickle.load",
    "pickle.loads", "pickle.Unpickler", "_pickle", "string.Formatter", "importlib._bootstrap",
)  # fmt: skip

# Setting an attribute of these changes torch or Python for everybody ...
PATCHED = re.compile(r"^(?:torch|triton)(?:\.|$)")
# ... but for settings, for layers, which the grader uses none of, and for how a tensor is printed.
SETTINGS = re.compile(
    r"^torch\.(?:backends|nn)\.|\.config\.|^torch\.Tensor\.__(?:repr|str|format)__$"
)


def below(path: str) -> bool:
    """Whether a dotted name is one of MODULES, or below one."""
    return any(path == name or path.startswith(name + ".") for name in MODULES)


def patches(path: str) -> bool:
    """Whether setting this name changes torch for everybody."""
    return PATCHED.search(path) is not None and SETTINGS.search(path) is None


def is_private(name: str) -> bool:
    """Whether it leads beneath from modules and classes only: others may call their own so."""
    return name in WORDS and name.startswith("_") and not name.startswith("__")


def guarded_getattr(value: Any, name: str, *default: Any) -> Any:
    """`getattr` for the learner's code: what leads beneath is not there."""
    if isinstance(name, str):
        name = str.__str__(name)  # one of a class of the learner's may be equal to anything
    if name == "__dict__" and hasattr(value, name):
        return guarded_vars(value)
    if name not in WORDS or (is_private(name) and not isinstance(value, _HOLDERS)):
        found = getattr(value, name, *default)
        if not _leads_beneath(found):
            return found
    if default:
        return default[0]
    raise AttributeError(f"no attribute {name!r} here")


def guarded_vars(*value: Any) -> Any:
    """`vars` for the learner's code: of a module or a class, without what leads beneath."""
    if not value:
        return sys._getframe(1).f_locals
    found = vars(*value)
    if not isinstance(value[0], _HOLDERS):
        return found
    hidden = {name for name, item in found.items() if name in WORDS or _leads_beneath(item)}
    return {name: item for name, item in found.items() if name not in hidden}


def guarded_setattr(value: Any, name: str, new: Any) -> None:
    """`setattr` for the learner's code: torch itself stays as it is."""
    path = _path(value)
    if type(value).__module__ == "torch._ops" or (path and patches(f"{path}.")):
        raise AttributeError("torch cannot be changed here")
    setattr(value, name, new)


def _leads_beneath(value: Any) -> bool:
    return value is sys.modules or below(_path(value))


_HOLDERS = (types.ModuleType, type)
_NAMED = (type, types.FunctionType, types.BuiltinFunctionType)


def _path(value: Any) -> str:
    """The dotted name of a module, a class or a function; else nothing."""
    kind = type(value)
    if kind is types.ModuleType:
        return str(value.__name__)
    if isinstance(value, _NAMED):
        return f"{value.__module__}.{value.__qualname__}"
    return ""


# For cells of learners, in the place of Python's own.
BUILTINS = {"getattr": guarded_getattr, "setattr": guarded_setattr, "vars": guarded_vars}
