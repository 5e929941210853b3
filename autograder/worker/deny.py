"""What an exercise asks to write by hand, refused where it happens: while a graded call runs.

A `suite.toml` picks sets for each exercise. Runs in the worker: `prepare` once, before the forks,
`refusing` around each graded call. Whatever is refused raises in the learner's own line, so it
costs the tests whose calls did it, and nothing that merely stands in a text.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import re
import sys
import warnings
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kernel_sanitizer.shared_memory import are_one, is_shared

from . import foreign
from .beneath import words

# torch's own ways from one operator to the parts that it is made of.
_INTO_PARTS = ("torch._ops.OpOverload.decompose", "torch._ops.OpOverload.redispatch")
# Layouts with kernels of their own, which no exercise asks for.
_LAYOUTS = r"to_mkldnn|_to_sparse|_nested_(?!tensor_size|tensor_strides)|quantize_per_|_neg_view"
# TorchScript's operators, which Python reaches as well. They stand beside the dispatcher.
_BESIDE = re.compile(r"^aten::(grad|(dist_)?backward|set_grad_enabled)$|^prim::(MKLDNN|TensorExpr)")
# Operators that make and move tensors, and compute nothing.
_MOVES = words("""
    empty empty_like empty_strided empty_permuted new_empty new_empty_strided new_zeros new_ones
    new_full zeros zeros_like ones ones_like full full_like fill fill_ zero zero_ scalar_tensor
    arange eye rand randn rand_like randn_like randint normal_ uniform_ copy_ copy _to_copy clone
    lift_fresh lift_fresh_copy lift view _unsafe_view _reshape_alias reshape expand permute
    transpose transpose_ t t_ unsqueeze unsqueeze_ squeeze squeeze_ as_strided as_strided_ select
    slice narrow split split_with_sizes chunk unbind detach detach_ alias contiguous set_ resize_
    resize_as_ cat stack constant_pad_nd repeat flip roll unfold diagonal is_pinned _pin_memory
    record_stream is_same_size is_set_to sym_size sym_stride sym_numel sym_storage_offset
    sym_is_contiguous size stride numel dim is_contiguous prim_layout device layout
    unsafe_split unsafe_chunk unsafe_split_with_sizes split_copy unbind_copy broadcast_tensors
    _has_compatible_shallow_copy_type requires_grad_ retains_grad
""")  # fmt: skip
# ... and these look numbers up, or compare them.
_LOOKS = words("""
    index index_select gather take masked_select masked_fill masked_fill_ index_put index_put_
    select_scatter slice_scatter item _local_scalar_dense equal any all is_nonzero nonzero where
    linspace repeat_interleave tril triu movedim flatten max min amax amin argmax argmin
""")


@dataclass(frozen=True)
class Set:
    """One set of refusals.

    asks: what an exercise that picks it asks a learner to do.
    operators: a regular expression that finds the names of torch's operators that are refused.
    functions: dotted names of Python functions, for what torch does without an operator of its own.
    packages: Python packages none of whose code may run.
    only: the operators that may run, and no others.
    pointwise: beside `only`, those that treat each number by itself.
    no_graph: autograd records nothing.
    no_numbers: what a tensor holds stays there, and is not printed either.
    """

    asks: str
    operators: str = ""
    functions: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    only: frozenset[str] = frozenset()
    pointwise: bool = False
    no_graph: bool = False
    no_numbers: bool = False


_NUMBERS_OUT = tuple(
    f"torch.Tensor.{name}"
    for name in ("tolist", "numpy", "__array__", "__dlpack__", "__reduce_ex__", "storage",
                 "_typed_storage", "untyped_storage")
)  # fmt: skip

# What NumPy and Python have of the kind. NumPy's own methods call the first ones.
_VARIANCES = tuple(
    f"{module}.{name}"
    for module, found in {
        "numpy._core._methods": "_var _std",
        "numpy": "var std nanvar nanstd cov corrcoef",
        "numpy.ma.MaskedArray": "var std",
        "statistics": "variance pvariance stdev pstdev covariance correlation NormalDist",
    }.items()
    for name in found.split()
)
_SUMS = tuple(
    f"{module}.{name}"
    for module, found in {
        "numpy._core._methods": "_mean _sum",
        "numpy": "mean average sum cumsum nanmean nansum einsum dot",
        "statistics": "mean fmean",
        "math": "fsum",
    }.items()
    for name in found.split()
)

SETS = {
    # Any ready-made normalization can be made to give the others by reshaping.
    "norms": Set(
        "write it yourself",
        rf"(layer|batch|group|instance|rms)_?norm|{_LAYOUTS}",
        ("torch.nn.functional.local_response_norm", *_INTO_PARTS),
        ("sklearn", "scipy.stats", "scipy.cluster"),
    ),
    # A vector of a given length is RMSNorm up to a factor.
    "unit-vectors": Set(
        "write it yourself",
        r"renorm|weight_norm|norm_except_dim|cosine_(similarity|embedding)|(^|::|_)(qr|svd)(\.|$)",
        ("torch.nn.functional.normalize",),
    ),
    "variance": Set(
        "write it yourself", r"(^|::|_)(var|std)(_mean)?(\.|$)|::(cov|corrcoef)$", _VARIANCES,
        ("scipy", "sklearn"),
    ),
    "attention": Set(
        "write it yourself",
        rf"attention|multi_head|_transformer_encoder|{_LAYOUTS}",
        (
            "torch.nn.functional.multi_head_attention_forward",
            "torch.nn.TransformerEncoderLayer.forward", "torch.nn.TransformerDecoderLayer.forward",
            *_INTO_PARTS,
        ),
    ),
    "transformer-layers": Set(
        "write it yourself", "_transformer_encoder",
        ("torch.nn.TransformerEncoderLayer.forward", "torch.nn.TransformerDecoderLayer.forward"),
    ),
    "fusion": Set(
        "write it yourself",
        functions=(
            *(
                f"torch.nn.utils.fusion.{name}"
                for name in ("fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval",
                             "fuse_linear_bn_weights")
            ),
            "torch.jit.freeze", "torch.jit.optimize_for_inference",
        ),
    ),
    "autograd": Set("derive the gradient yourself", "::_make_dual", no_graph=True),
    # One look at each number, in a loop: nothing that adds up, in whatever clothes.
    "one-look": Set(
        "look at each number once, in a loop", functions=(*_VARIANCES, *_SUMS),
        only=_MOVES | _LOOKS, pointwise=True,
    ),
    # Kernels do the work. Numbers do not leave their tensors either.
    "kernels": Set(
        "let kernels do all computing", functions=_NUMBERS_OUT, only=_MOVES, no_numbers=True
    ),
    # ... but for the sum of a second stage.
    "kernels-and-a-sum": Set(
        "let kernels do all computing but the last sum",
        functions=_NUMBERS_OUT, only=_MOVES | {"sum"}, no_numbers=True,
    ),
}  # fmt: skip


class Denied(Exception):
    """The learner's code reached `name`, which the exercise asks to write by hand."""

    def __init__(self, name: str) -> None:
        super().__init__(f"this exercise asks you to write it yourself, and this reached {name}")
        self.name = name


class State:
    """Of this process, for all its threads."""

    active: frozenset[str] = frozenset()  # sets in force, from a graded call to the next one
    prepared: frozenset[str] = frozenset()  # sets that have guards
    warn = False  # what is refused is noted, and passes
    seen: ClassVar[set[str]] = set()  # what was reached since this was asked last
    fired: str | None = None  # what was refused in this call


_libraries: list[Any] = []  # registrations end when these are collected
_guards: dict[str, set[str]] = {}  # what is guarded, and by which sets it is refused


def reached(name: str) -> None:
    """Note that `name` was reached, and refuse it. Raises Denied."""
    State.seen.add(name)
    if not State.warn:
        State.fired = name
        raise Denied(name)


def names(sets: Collection[str]) -> frozenset[str]:
    """All that may be reported as reached where these sets are in force."""
    return frozenset().union(*map(_names, sets))


@functools.cache
def _names(name: str) -> frozenset[str]:
    one = SETS[name]
    found = {*one.functions, *one.packages, *_operators(one)}
    if one.only:
        found |= {name.partition(".")[0] for name in torch._C._dispatch_get_all_op_names()}
    if one.no_graph:
        found.add("torch.autograd")
    return frozenset(found)


def asked(sets: Collection[str], name: str) -> str:
    """What the exercise asks for where `name` was refused."""
    for one in sorted(sets):
        if name in _names(one):
            return SETS[one].asks
    return "write it yourself"


def _operators(one: Set) -> list[str]:
    if not one.operators:
        return []
    pattern = re.compile(one.operators)
    return [name for name in torch._C._dispatch_get_all_op_names() if pattern.search(name)]


# -- before the forks -------------------------------------------------------------------------


def prepare(sets: Collection[str]) -> None:
    """Put guards before what these sets refuse. They are asleep until `refusing`."""
    if sets and not _guards:
        _without_beside()
    State.prepared |= frozenset(sets)
    for name in sorted(sets):
        one = SETS[name]
        for operator in _operators(one):
            for key in _keys(operator):
                if (refused_by := _new_guard(name, f"{operator}/{key}")) is not None:
                    _guard_operator(refused_by, operator, key)
        for function in one.functions:
            if (refused_by := _new_guard(name, function)) is not None:
                _guard_function(refused_by, function)
        if one.no_graph and (refused_by := _new_guard(name, "torch.autograd")) is not None:
            _guard_autograd(refused_by)
        if one.no_numbers and (hidden_by := _new_guard(name, "the text of a tensor")) is not None:
            _guard_text(hidden_by)


def _new_guard(name: str, what: str) -> set[str] | None:
    """The sets that refuse it, where it has no guard yet."""
    known = what in _guards
    _guards.setdefault(what, set()).add(name)
    return None if known else _guards[what]


_IMPLICIT = "CompositeImplicitAutograd"
_BACKENDS = ("CPU", "QuantizedCPU", "NestedTensorCPU", "SparseCPU")


def _keys(operator: str) -> tuple[str, ...]:
    """Where an operator is met: below autograd and modes, so by every thread and by scripts.

    One that is made of others is met above them as well, or it would be gone before.
    """
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    keys = tuple(key for key in _BACKENDS if has(operator, key))
    if has(operator, _IMPLICIT):
        return ("AutogradCPU", "CPU", "FuncTorchBatched")
    return keys or ("AutogradCPU", "CPU")


def _guard_operator(refused_by: set[str], operator: str, key: str) -> None:
    try:
        original = torch.library.get_kernel(operator, key)

        def guard(keys: Any, *args: Any, **kwargs: Any) -> Any:
            if not refused_by.isdisjoint(State.active):
                reached(operator)
            return original.call_boxed(keys, *args, **kwargs)

        namespace, _, name = operator.partition("::")
        library = torch.library.Library(namespace, "IMPL", key)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns that a kernel is overridden
            library.impl(name, guard, key, with_keyset=True)
        _libraries.append(library)
    except (RuntimeError, AttributeError, TypeError, ValueError):
        return  # an operator that has no kernel there


def _guard_function(refused_by: set[str], path: str) -> None:
    holder, _, name = path.rpartition(".")
    parts = holder.split(".")
    owner: Any = importlib.import_module(parts[0])
    for number, part in enumerate(parts[1:], 2):
        if not hasattr(owner, part):
            importlib.import_module(".".join(parts[:number]))
        owner = getattr(owner, part)
    original = getattr(owner, name)

    @functools.wraps(original, updated=())
    def guard(*args: Any, **kwargs: Any) -> Any:
        if not refused_by.isdisjoint(State.active) and not _by_us():
            reached(path)
        return original(*args, **kwargs)

    del guard.__wrapped__
    setattr(owner, name, guard)
    for module in list(sys.modules.values()):  # whoever has imported it by its name
        if getattr(module, "__dict__", {}).get(name) is original:
            setattr(module, name, guard)


_OURS = (
    "triton.runtime.interpreter",
    *(f"kernel_sanitizer.{name}" for name in words("sanitizer launch memory numbers fault")),
    *(f"{__package__}.{name}" for name in words("kernel_operations far_rows")),
)  # fmt: skip


def _by_us() -> bool:
    """Whether the sanitizer or Triton's interpreter calls a guarded function, for its own ends."""
    caller = sys._getframe(2).f_globals
    return any(vars(sys.modules[name]) is caller for name in _OURS if name in sys.modules)


def _guard_text(hidden_by: set[str]) -> None:
    """Print a tensor as its shape where its numbers stay inside: a forgotten print is no fault."""
    to_text, to_format = torch._tensor_str._str, torch.Tensor.__format__

    def text(tensor: torch.Tensor, **contents: Any) -> str:
        if hidden_by.isdisjoint(State.active):
            return to_text(tensor, **contents)
        return f"tensor(..., size={tuple(tensor.shape)}, dtype={tensor.dtype})"

    def formatted(tensor: torch.Tensor, how: str) -> str:
        hidden = not hidden_by.isdisjoint(State.active)
        return text(tensor) if hidden else to_format(tensor, how)

    torch._tensor_str._str, torch.Tensor.__format__ = text, formatted


# torch's own, for the worker's use.
run_backward = torch.autograd.Variable._execution_engine.run_backward
set_grad_enabled, _InferenceMode = torch._C._set_grad_enabled, torch._C._InferenceMode


def _guard_autograd(refused_by: set[str]) -> None:
    """Refuse to run a pass, and to have a graph recorded."""

    class Engine:
        def __getattr__(self, name: str) -> Any:
            if not refused_by.isdisjoint(State.active):
                reached("torch.autograd")
            return getattr(engine, name)

    engine = torch.autograd.Variable._execution_engine
    torch.autograd.Variable._execution_engine = Engine()

    def guarded(enabled: bool) -> None:
        if enabled and not refused_by.isdisjoint(State.active):
            reached("torch.autograd")
        set_grad_enabled(enabled)

    def inference_mode(enabled: bool = True) -> Any:
        if not enabled and not refused_by.isdisjoint(State.active):
            reached("torch.autograd")
        return _InferenceMode(enabled)

    torch._C._set_grad_enabled, torch._C._InferenceMode = guarded, inference_mode


def _without_beside() -> None:
    """Have `torch.ops` not find what is called beside the dispatcher, and by no honest code."""
    find = torch._C._jit_get_operation

    def found(name: str) -> Any:
        return (None, []) if _BESIDE.search(name) else find(name)

    torch._C._jit_get_operation = found


# -- around a graded call ---------------------------------------------------------------------


# torch's own, whatever a learner's code puts in its place.
_POINTWISE, _overload = torch.Tag.pointwise, torch._C._get_operation_overload


@functools.cache
def _is_pointwise(name: str, overload: str) -> bool:
    found = _overload(name, overload)
    return found is not None and _POINTWISE in found[2]


class Only(TorchDispatchMode):
    """Lets the operators of `only` run, and no others."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else torch loads its compiler at the first call: seconds, in every worker

    def __init__(self, only: Collection[str], pointwise: bool) -> None:
        super().__init__()
        self._only, self._pointwise = only, pointwise

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        self.look_at(func, types, args, kwargs)
        return func(*args, **kwargs)

    def look_at(self, func: Any, types: Any, args: tuple, kwargs: dict[str, Any]) -> None:
        """Refuse an operator that may not run, and classes whose own code would run now."""
        name, overload = func._schema.name, func._schema.overload_name
        namespace, _, short = name.partition("::")
        allowed = namespace in ("aten", "prim") and short in self._only
        if types or not (allowed or (self._pointwise and _is_pointwise(name, overload))):
            reached(name)
        if short.startswith("index_put") and (kwargs.get("accumulate") or True in args[3:4]):
            reached(name)  # it adds up
        target = kwargs.get("out", args[0] if args and short.endswith("_") else None)
        if not self._pointwise and is_shared(target) and not are_one(args):
            reached(_NUMPY)


_NUMPY = "torch.Tensor.numpy"


def refuse_sharing() -> None:
    """A kernel writes where NumPy reads: refused where numbers may not leave their tensors."""
    if any(_NUMPY in SETS[name].functions for name in State.active):
        reached(_NUMPY)


@functools.cache
def mode_of(sets: frozenset[str]) -> Only | None:
    listed = [SETS[name] for name in sorted(sets) if SETS[name].only]
    if not listed:
        return None
    only = frozenset.intersection(*(one.only for one in listed))
    return Only(only, all(one.pointwise for one in listed))


@functools.cache
def _packages(sets: frozenset[str]) -> frozenset[str]:
    return frozenset().union(*(SETS[name].packages for name in sets))


@contextlib.contextmanager
def refusing(sets: frozenset[str], whole: bool = True) -> Iterator[None]:
    """Refuse what the sets name. They stay in force after it, for threads that go on.

    whole: also refuse all operators but a few, and graphs, where a set says so. Not for a pass of
        our own through what the learner's code recorded: it adds up where that code spread out.
    """
    State.active, State.fired = sets, None
    no_graph = whole and not State.warn and any(SETS[name].no_graph for name in sets)
    before = torch.is_grad_enabled()
    if no_graph:
        set_grad_enabled(False)
    try:
        mode = (whole and mode_of(sets)) or contextlib.nullcontext()
        with foreign.refusing(_packages(sets), reached), mode:
            yield
    finally:
        if no_graph:
            set_grad_enabled(before)


def begin(warn: bool) -> None:
    """Nothing is refused yet: the learner's cells may compare with whatever they like."""
    State.active, State.fired, State.warn = frozenset(), None, warn
    State.seen.clear()


def fired() -> str | None:
    """What was refused in the last call."""
    return State.fired


def take_seen() -> list[str]:
    """What was reached since this was asked last, refused or not."""
    told = sorted(State.seen)
    State.seen.clear()
    return told
