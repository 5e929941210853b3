"""Names that lead beneath the learner's own code: into the worker, torch or Python.

No exercise needs them, and after they were used what runs may not be what the text says.
"""

from __future__ import annotations

import re

from ..deny import BENEATH, words

# Told wherever they stand: as a name, an attribute, a part of an import or of a pattern.
WORDS = BENEATH | words("""
    autograder __main__ builtins
    meta_path path_hooks settrace setprofile get_objects get_referrers get_referents
    currentframe getouterframes getinnerframes getattr_static getmembers getclosurevars getmro
    attrgetter methodcaller
    ctypes _ctypes cffi load_library cpp_extension
    marshal dill cloudpickle shelve runpy codeop zipimport
    spec_from_file_location SourceFileLoader machinery exec_module
    InteractiveInterpreter InteractiveConsole FunctionType CodeType ModuleType
    threading _thread concurrent asyncio multiprocessing
    run_decompositions make_fx symbolic_trace flex_attention
    DispatchMode TorchDispatchMode TorchFunctionMode
""")

# Dotted names, and all below them.
MODULES = (
    "torch.library", "torch.overrides", "torch.export", "torch.fx", "torch.onnx", "torch.nested",
    "torch.masked", "torch.ao", "torch.quantization", "torch.package", "torch.distributed",
    "torch.jit.fork", "torch.jit.save", "unittest.mock", "inspect.stack", "inspect.trace",
    "triton.runtime", "sys.monitoring", "torch._dynamo.export", "pickle.load", "pickle.loads",
    "pickle.Unpickler", "_pickle",
)  # fmt: skip

# Calls that run a text.
TEXT = frozenset({"exec", "eval", "compile"})

# Setting an attribute of these changes torch or Python for everybody ...
PATCHED = re.compile(r"^(?:torch|triton)(?:\.|$)")
# ... but for settings, and for layers, which the grader uses none of.
SETTINGS = re.compile(r"^torch\.(?:backends|nn)\.|\.config\.")
