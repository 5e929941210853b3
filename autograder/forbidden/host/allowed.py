"""What host code may do with tensors: allocate, reshape, convert, ask for shapes. See `host`.

Names that stand in no list compute with a tensor's numbers, or are unknown.
"""

import sys

import torch


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Attributes of a tensor that are plain values ...
PLAIN_ATTRIBUTES = _words("""
    shape ndim dtype device requires_grad is_cuda is_cpu itemsize nbytes layout is_leaf is_sparse
    is_quantized is_meta is_nested is_mps is_xpu is_xla is_mkldnn is_sparse_csr
""")
# ... methods, and functions of torch, that give plain values.
ASKS = _words("""
    stride size numel nelement dim ndimension element_size is_contiguous data_ptr storage_offset
    get_device is_floating_point is_complex __len__ is_pinned is_tensor Size device finfo iinfo
    broadcast_shapes promote_types result_type get_default_dtype no_grad inference_mode
    enable_grad set_grad_enabled is_grad_enabled is_storage can_cast typename manual_seed
    get_num_threads set_num_threads is_same_size is_inference is_conj is_neg is_signed is_shared
""")
# These give a tensor with the same numbers, or with numbers that come from no tensor.
MAKES = _words("""
    view reshape contiguous to float half bfloat16 double type type_as view_as reshape_as expand
    expand_as t transpose permute movedim moveaxis swapaxes swapdims flatten unflatten ravel squeeze
    squeeze_ unsqueeze unsqueeze_ clone detach detach_ requires_grad_ cuda cpu T mT data as_strided
    narrow select split chunk unbind tensor_split new_empty new_zeros new_ones new_full
    new_empty_strided zero_ fill_ copy_ broadcast_to broadcast_tensors atleast_1d atleast_2d
    record_stream sum
    empty zeros ones full empty_like zeros_like ones_like full_like empty_strided arange eye
    rand randn rand_like randn_like randint empty_permuted Parameter
""")
# Made of plain values they are empty buffers and the like; made of numbers of tensors they are not.
MAKES_OF_PLAIN = {"tensor", "as_tensor", "asarray", "from_numpy", "frombuffer", "new_tensor"}
# Besides a tensor these take other tensors; for the rest a tensor would be read as a size.
TAKE_TENSORS = _words("""
    copy_ expand_as view_as reshape_as type_as to fill_ record_stream sum broadcast_tensors
    result_type is_same_size
""")
CREATORS = _words("""
    empty zeros ones full empty_strided arange eye rand randn randint empty_permuted Size device
    finfo iinfo broadcast_shapes set_grad_enabled manual_seed set_num_threads
""")
# They move numbers about. By themselves they compute nothing, but no right answer needs them.
MOVES = _words("""
    repeat repeat_interleave tile roll flip fliplr flipud rot90 gather index_select take
    take_along_dim masked_select index_copy index_copy_ diagonal diag unfold
    cat concat stack hstack vstack dstack equal allclose isclose grad grad_fn
    untyped_storage storage scalar_tensor int long short char byte bool resize_ set_ register_hook
    share_memory_ pin_memory where nonzero argwhere unique sort argsort
    tril triu masked_fill masked_fill_ index_fill index_fill_ names is_set_to __dict__ __doc__
    retain_grad storage_type sparse_dim to_sparse to_dense __setstate__ __reduce_ex__
    __reduce__ __deepcopy__ __dir__ __format__ __repr__ __str__ __hash__ __init__ __new__
    __setitem__ __getitem__ __iter__ __contains__
""")

# Of Python: these give plain values for whatever they are given ...
LOOKS = _words("""
    len isinstance issubclass hasattr callable id object Exception ValueError TypeError
    RuntimeError NotImplementedError AssertionError IndexError KeyError ImportError
""")
# ... these give back what they hold ...
HOLDS = _words("list tuple set frozenset dict zip enumerate reversed iter next sorted filter")
# ... these compute, or read numbers ...
COMPUTES = _words("""
    min max abs round int float bool divmod pow any all complex bin hex sum ord chr
    range slice
""")
# ... these make text.
WRITES = _words("str repr format print hash ascii")
STAYS = _words("append extend add update setdefault get items keys values copy index count")
MUTATES = _words("append extend insert add update setdefault appendleft __setitem__")

# Namespaces of torch whose functions compute; what lies elsewhere in torch is for a person.
COMPUTING = ("", "Tensor", "nn", "special", "linalg", "fft", "ops", "_C", "_VF", "sparse")
PLAIN_SPACES = (
    "torch.cuda.",
    "torch.backends.",
    "torch.version.",
    "torch.utils.data.",
    "torch.amp.",
)
# Libraries that hold no tensors: given plain values, they give plain values.
PLAIN_LIBRARIES = {
    "math", "triton", "functools", "itertools", "operator", "typing", "dataclasses", "contextlib",
    "collections", "enum", "os", "time", "warnings", "abc", "logging", "types", "platform",
}  # fmt: skip
# They may be given a function of the learner's, and call it (if at all) on nothing of their own.
CALLERS = (
    "triton.testing.", "timeit.", "time.", "functools.", "dataclasses.", "contextlib.", "typing.",
    "builtins.", "abc.", "enum.", "torch.no_grad", "torch.inference_mode", "torch.amp.",
    "torch.autograd.function.once_differentiable", "torch.cuda.amp.", "IPython.", "matplotlib.",
    "collections.", "itertools.", "unittest.", "pytest.", "torch.nn.Sequential",
    "torch.nn.ModuleList",
)  # fmt: skip
PASSED_ON = {  # decorators that leave a function what it is
    "functools.lru_cache", "functools.cache", "dataclasses.dataclass",
    "torch.no_grad", "torch.inference_mode", "torch.enable_grad", "typing.no_type_check",
    "torch.autograd.function.once_differentiable", "torch.amp.custom_fwd", "torch.amp.custom_bwd",
    "torch.cuda.amp.custom_fwd", "torch.cuda.amp.custom_bwd", "contextlib.contextmanager",
    "typing.final", "typing.overload", "abc.abstractmethod",
}  # fmt: skip
DANGEROUS = _words("""
    exec eval compile globals locals vars setattr delattr __import__ memoryview
""")
# Methods of the learner's classes that Python calls where a call is seen, or never with tensors.
DUNDERS = _words("""
    __init__ __call__ __post_init__ __enter__ __exit__ __repr__ __str__ __slots__ __doc__
    __module__ __qualname__ __annotations__ __match_args__
""")
# Attributes of functions, classes and kernels that change nothing.
NAMES = _words("__name__ __qualname__ __doc__ __module__ __init__ __class__ __enter__ __exit__")
# Modules that may be imported without a word: others may be the learner's own, never read here.
KNOWN = sys.stdlib_module_names | _words("""
    torch triton numpy matplotlib pandas scipy tqdm IPython pytest einops sympy PIL ipywidgets
""")
# Libraries that run what they are given, or run it later: told wherever they are called.
RUNNERS = _words("""
    code codeop runpy pickle marshal cProfile profile trace bdb pdb doctest pkgutil zipimport
    multiprocessing ctypes cffi signal atexit weakref threading _thread concurrent asyncio site
    importlib dis copyreg
""")


def computes(name: str) -> bool:
    """Whether an attribute of a tensor, or function of torch, surely works with its numbers."""
    return name not in MOVES and (hasattr(torch.Tensor, name) or hasattr(torch, name))
