"""Names that lead beneath the learner's own code: into the grader's worker, or into Python itself.

No exercise needs them, and what runs after they were used may not be what the text says. So they
are told to a person wherever they stand, also where no graded name reaches them.
"""

import re
from functools import lru_cache

from .aliases import canonical

_BENEATH = (
    "autograder", "__main__", "__builtins__",
    "sys.modules", "sys._getframe", "sys._current_frames", "sys.settrace", "sys.setprofile",
    "sys.monitoring", "sys.meta_path", "sys.path_hooks", "threading.settrace",
    "threading.setprofile", "gc.get_objects", "gc.get_referrers", "gc.get_referents",
    "inspect.currentframe", "inspect.stack", "inspect.trace", "inspect.getouterframes",
    "inspect.getinnerframes", "ctypes", "_ctypes", "cffi", "torch.library", "torch._library",
    "unittest.mock",
)  # fmt: skip
# Ways to run a text, or to find something by a text, that do not look like it.
_BY_TEXT = (
    "code", "codeop", "runpy", "pdb", "bdb", "cProfile", "profile", "zipimport", "logging.config",
    "pickle", "_pickle", "marshal", "string.Formatter", "_string", "typing.get_type_hints",
    "typing.ForwardRef", "inspect.get_annotations", "importlib.machinery", "importlib.util",
    "types.FunctionType", "types.CodeType", "types.ModuleType", "weakref.proxy",
)  # fmt: skip
_PATTERN = re.compile(
    rf"(?:(?:^|\.)(?:{'|'.join(map(re.escape, _BENEATH))})"
    rf"|^(?:{'|'.join(map(re.escape, _BY_TEXT))}))(?=\.|$)"
)

# Attributes of any value that lead from it to the frames, namespaces and classes of others.
_REACHING = {
    "f_back", "f_globals", "f_locals", "f_builtins", "tb_frame", "gi_frame", "cr_frame", "ag_frame",
    "__globals__", "__builtins__", "__subclasses__",
}  # fmt: skip

_PATCHED = re.compile(r"^(?:torch|builtins|__builtins__)(?:\.|$)")
# Settings are there to be set, and what was made of a class is the learner's.
_SETTING = re.compile(r"^torch\.backends\.|\.config\.|<made>")


@lru_cache(maxsize=4096)
def steers(path: str) -> str | None:
    """The name that reaches beneath which a dotted name is, or lies below; None for most."""
    path = canonical(path)
    found = _PATTERN.search(path)
    return path[: found.end()] if found else None


def reaches(name: str) -> bool:
    """Whether an attribute of this name does so on any value."""
    return name in _REACHING


def patches(path: str) -> bool:
    """Whether setting this name changes torch or Python for everybody."""
    return _PATCHED.search(path) is not None and _SETTING.search(path) is None
