"""The kernel sanitizer: Triton's interpreter, with memory and arithmetic looked after.

`install()` puts hooks into the interpreter; this is the only module of the grader that touches
Triton's private parts. Then every launch of a `@triton.jit` kernel under TRITON_INTERPRET=1 raises
KernelFault where it would do one of these on a GPU, or silently here:

- reach memory that is no element of the tensor that the address was computed from
- race with another program
- store what was computed from lanes that a mask had left out
- overflow 32 bits in an offset
- compute in bfloat16, of which the interpreter makes garbage
- never end, or ask for more programs along an axis than a GPU has

and `launches` notes which kernels ran, on which grid, and the bytes read and written of each
tensor. `install` tries itself on known-bad kernels first: on a Triton that behaves otherwise it
takes its hooks out again and says so. It is copied into the sandbox and runs beside the learner's
code: what it says is data that may be forged, never a verdict.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from . import kernel_launch
from .kernel_fault import Fault, KernelFault, explain
from .kernel_launch import Launch, faults, launches

__all__ = [
    "Fault", "KernelFault", "explain", "fault_of", "install", "installed", "launches", "uninstall",
    "watching", "why_not",
]  # fmt: skip

# What a lane holds that a mask has left out, without `other`: a NaN that is recognised in a result
# by its upper bits, which outlive conversions; for integers a number small enough for offsets.
_POISON = {"fp16": 0x7F58, "bf16": 0x7FEB, "fp32": 0x7FEB5A5A, "fp64": 0x7FFD6B4B5A5A5A5A}
_MARK = {"fp16": 0x7FF8, "bf16": 0x7FFF, "fp32": 0x7FFF0000, "fp64": 0x7FFFE00000000000}
_POISON_INTEGER = 0x5A5A

_launch: Launch | None = None
_undo: list[tuple[Any, str, Any]] = []
_why = "not installed"


def installed() -> bool:
    return not _why


def why_not() -> str:
    """Why the sanitizer is off; empty when it is on."""
    return _why


@contextlib.contextmanager
def watching() -> Iterator[None]:
    """Note launches and faults from here on. A fault that the code has caught is raised at the end.

    torch.empty is filled with NaN inside, so that memory nobody has written shows.
    """
    import torch

    kernel_launch.forget()
    # What torch.use_deterministic_algorithms does, without loading its compiler (two seconds).
    fill = torch._C._set_deterministic_algorithms
    before = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    fill(True, warn_only=True)
    try:
        yield
    except Exception:
        if faults:
            raise faults[0] from None
        raise
    finally:
        fill(before, warn_only=warn_only)
    if faults:
        raise faults[0]


def fault_of(error: BaseException) -> dict[str, Any] | None:
    """The facts of the fault that `error` stands for."""
    if isinstance(error, KernelFault):
        return error.fault.as_dict()
    if isinstance(error, RuntimeError) and "active drivers" in str(error):
        return Fault(kind="no-device", where="launch").as_dict()
    return None


def install() -> str:
    """Put the hooks in, once. Returns why the sanitizer is off, or nothing when it is on.

    To be called with TRITON_INTERPRET=1, before a kernel is launched.
    """
    global _why
    if _undo:
        return _why
    from . import kernel_self_test

    try:
        from triton.runtime import interpreter

        _Hooks(interpreter).install()
        failed = kernel_self_test.failure()
        _why = failed and f"its self-test failed: {failed}"
    except Exception as error:  # whatever another Triton has moved
        _why = f"it does not fit this Triton ({type(error).__name__}: {error})"
    if _why:
        why = _why
        uninstall()
        _why = f"the kernel sanitizer is off: {why}"
    kernel_launch.forget()
    return _why


def uninstall() -> None:
    """Take the hooks out again."""
    global _why
    for target, name, old in reversed(_undo):
        if old is _ABSENT:
            delattr(target, name)
        else:
            setattr(target, name, old)
    _undo.clear()
    _why = "taken out"


_ABSENT = object()


class _Hooks:
    """What is put in place of the interpreter's own. Signatures differ between versions: *rest."""

    def __init__(self, interpreter: Any) -> None:
        self.interpreter = interpreter
        self.builder = interpreter.interpreter_builder
        self.semantic = interpreter.interpreter_semantic
        self.handle = interpreter.TensorHandle
        self.tensor = interpreter.tl.tensor
        self.bf16 = interpreter.tl.bfloat16

    def install(self) -> None:
        module, builder = self.interpreter, self.builder
        for target, name, hook in (
            (module.GridExecutor, "__call__", self.run),
            (module, "_implicit_cvt", self.convert),
            (builder, "set_grid_dim", self.set_grid_dim),
            (builder, "set_grid_idx", self.set_grid_idx),
            (builder, "create_masked_load", self.load),
            (builder, "create_masked_store", self.store),
            (builder, "create_atomic_rmw", self.atomic_rmw),
            (builder, "create_atomic_cas", self.atomic_cas),
            (builder, "binary_op", self.arithmetic),
            (builder, "ternary_op", self.ternary),
            (builder, "unary_op", self.arithmetic),
            (builder, "create_fma", self.arithmetic),
            (builder, "cast_impl", self.cast),
            (builder, "create_fp_to_fp", self.cast_rounded),
            (self.semantic, "binary_op_sanitize_overflow_impl", self.overflow),
            (module.ReduceOps, "apply_impl", self.reduction),
            (module.ScanOps, "apply_impl", self.reduction),
        ):
            original = getattr(target, name)  # AttributeError: not the Triton this knows
            self._set(target, name, hook(original))
        if not hasattr(builder, "get_bf16"):
            self._set(builder, "get_bf16", self._bf16_constant)

    def _set(self, target: Any, name: str, value: Any) -> None:
        old = vars(target).get(name, _ABSENT)
        setattr(target, name, value)
        _undo.append((target, name, old))

    # Launches

    def run(self, original: Callable[..., Any]) -> Callable[..., Any]:
        interpreter_error = self.interpreter.InterpreterError

        def __call__(executor: Any, *args: Any, **kwargs: Any) -> Any:
            global _launch
            outer = _launch
            bound = _bound(executor.fn, args, kwargs)
            launch = Launch(executor.fn.__name__, _tensor_names(bound))
            launch.signature = _signature(bound, executor.constexprs, kwargs)
            _launch = launch
            try:
                return original(executor, *args, **kwargs)
            except interpreter_error as error:
                while isinstance(error, interpreter_error) and error.__cause__ is not None:
                    error = error.__cause__
                raise error from None
            finally:
                _launch = outer

        return __call__

    def convert(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def _implicit_cvt(arg: Any) -> Any:
            out = original(arg)
            if _launch is not None and hasattr(arg, "data_ptr"):
                fake = _launch.enter(getattr(arg, "base", arg))
                out.handle.data = np.array([fake], dtype=np.uint64)
            return out

        return _implicit_cvt

    def set_grid_dim(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def set_grid_dim(*grid: int) -> None:
            original(*grid)
            if _launch is not None:
                _launch.set_grid(*grid)

        return set_grid_dim

    def set_grid_idx(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def set_grid_idx(*index: int) -> None:
            original(*index)
            if _launch is not None:
                _launch.begin(*index)

        return set_grid_idx

    # Memory

    def load(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def create_masked_load(ptrs: Any, mask: Any, other: Any, *rest: Any, **more: Any) -> Any:
            if _launch is None:
                return original(ptrs, mask, other, *rest, **more)
            real = _launch.access("load", ptrs, mask)
            if other is None and not mask.data.all():
                other = self._poison(ptrs)
                _launch.note_unmasked(ptrs)
            return original(real, mask, other, *rest, **more)

        return create_masked_load

    def _poison(self, ptrs: Any) -> Any:
        kind = ptrs.get_element_ty()
        dtype = self.interpreter._get_np_dtype(kind)
        if kind.name in _POISON:
            bits = np.full(ptrs.data.shape, _POISON[kind.name], f"u{dtype.itemsize}")
            return self.handle(bits.view(dtype), kind)
        whole = min(_POISON_INTEGER, (1 << 8 * dtype.itemsize - 1) - 1)
        return self.handle(np.full(ptrs.data.shape, whole).astype(dtype), kind)

    def store(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def create_masked_store(ptrs: Any, value: Any, mask: Any, *rest: Any, **more: Any) -> Any:
            if _launch is None:
                return original(ptrs, value, mask, *rest, **more)
            real = _launch.access("store", ptrs, mask, value.data)
            self._refuse_poison(value, mask)
            return original(real, value, mask, *rest, **more)

        return create_masked_store

    def _refuse_poison(self, value: Any, mask: Any) -> None:
        poisoned = self._poisoned(value) if _launch.unmasked else None
        if poisoned is not None and (poisoned & mask.data).any():
            raise _launch.fault("poison", "stored", tensor=_launch.unmasked[0].name)

    def atomic_rmw(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def create_atomic_rmw(
            op: Any, ptr: Any, value: Any, mask: Any, *rest: Any, **more: Any
        ) -> Any:
            if _launch is None:
                return original(op, ptr, value, mask, *rest, **more)
            if value.dtype.scalar.name == "bf16":
                raise _launch.fault("bf16-arithmetic", "atomic")
            real = _launch.access("atomic", ptr, mask)
            self._refuse_poison(value, mask)
            _launch.synchronize(ptr)
            return original(op, real, value, mask, *rest, **more)

        return create_atomic_rmw

    def atomic_cas(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def create_atomic_cas(ptr: Any, *rest: Any, **more: Any) -> Any:
            if _launch is None:
                return original(ptr, *rest, **more)
            real = _launch.access("atomic", ptr, None)
            _launch.synchronize(ptr)
            return original(real, *rest, **more)

        return create_atomic_cas

    # Arithmetic

    def _refuse_bf16(self, where: str, *handles: Any) -> None:
        for handle in handles:
            data = getattr(handle, "data", None)
            # Stored as uint16, on whose bits the interpreter would compute.
            suspect = _launch is not None and getattr(data, "dtype", None) == np.uint16
            if suspect and handle.dtype.scalar.name == "bf16":
                raise _launch.fault("bf16-arithmetic", where)

    def arithmetic(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def compute(*args: Any, **more: Any) -> Any:
            self._refuse_bf16("arithmetic", *args)
            return original(*args, **more)

        return compute

    def ternary(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def ternary_op(a: Any, b: Any, c: Any, op: Any) -> Any:
            if op is not np.where:  # which only selects
                self._refuse_bf16("arithmetic", a, b, c)
            return original(a, b, c, op)

        return ternary_op

    def reduction(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def apply_impl(reducer: Any, tensors: Any) -> Any:
            self._refuse_bf16("reduction", *(t.handle for t in tensors))
            out = original(reducer, tensors)
            if _launch is not None and _launch.unmasked and isinstance(out, self.tensor):
                self._keep_poison(reducer, tensors[0].handle, out.handle)
            return out

        return apply_impl

    def _keep_poison(self, reducer: Any, source: Any, out: Any) -> None:
        """numpy's largest and smallest leave a NaN out, which a GPU need not do."""
        poisoned = self._poisoned(source)
        if poisoned is not None and poisoned.any():
            name = source.dtype.scalar.name
            lost = np.any(poisoned, axis=reducer.axis).reshape(out.data.shape)
            bits = np.array(_POISON[name], f"u{out.data.itemsize}").view(out.data.dtype)
            out.data = np.where(lost, bits, out.data)

    def _poisoned(self, handle: Any) -> np.ndarray | None:
        name = handle.dtype.scalar.name
        if name not in _POISON:
            return None
        bits = handle.data.view(f"u{handle.data.itemsize}")
        return (bits & _MARK[name]) == (_POISON[name] & _MARK[name])

    def overflow(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Triton's own check needs its debug option, and twenty operations for each one."""

        def binary_op_sanitize_overflow_impl(left: Any, right: Any, op: Any) -> None:
            if _launch is None or left.type.scalar.name != "int32" or op.__name__ not in _EXACT:
                return
            exact = _EXACT[op.__name__](
                left.handle.data.astype(np.int64), right.handle.data.astype(np.int64)
            )
            if ((exact > 2**31 - 1) | (exact < -(2**31))).any():
                raise _launch.fault("int32-overflow", op.__name__)

        return binary_op_sanitize_overflow_impl

    def cast(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """The interpreter truncates to bfloat16, and takes its bits for a number."""

        def cast_impl(source: Any, target: Any) -> Any:
            before, after = source.dtype.scalar.name, target.scalar.name
            if before == after or "bf16" not in (before, after):
                return original(source, target)
            data = _from_bf16(source.data) if before == "bf16" else source.data
            if after == "bf16":
                data = _to_bf16(data)
            else:
                data = data.astype(self.interpreter._get_np_dtype(target))
            return self.handle(data, target.scalar)

        return cast_impl

    def cast_rounded(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def create_fp_to_fp(source: Any, target: Any, rounding: Any) -> Any:
            names = source.dtype.scalar.name, target.scalar.name
            if names == ("fp32", "bf16") and "RTZ" not in str(rounding):
                return self.builder.cast_impl(source, target)
            return original(source, target, rounding)

        return create_fp_to_fp

    def _bf16_constant(self, value: float) -> Any:
        return self.handle(_to_bf16(np.array([value])), self.bf16)


_EXACT = {"add": np.add, "sub": np.subtract, "mul": np.multiply}


def _from_bf16(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def _to_bf16(values: np.ndarray) -> np.ndarray:
    """Rounded to the nearest, ties to even, as torch does. A NaN stays a NaN."""
    with np.errstate(over="ignore", invalid="ignore"):
        bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> 16) & 1)) >> 16
    nan = (bits & 0x7FFFFFFF) > 0x7F800000
    return np.where(nan, (bits >> 16) | 0x40, rounded).astype(np.uint16)


# -- arguments --------------------------------------------------------------------------------


def _bound(fn: Any, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
    names = inspect.getfullargspec(fn).args
    try:
        given = {k: v for k, v in kwargs.items() if k in names}
        return inspect.getcallargs(fn, *args, **given)
    except TypeError:  # the interpreter is about to say so
        return {}


def _tensor_names(bound: dict[str, Any]) -> list[str]:
    """The parameter's name of each tensor, in the order in which the interpreter converts them."""

    def tensors(value: Any) -> int:
        if isinstance(value, tuple):
            return sum(tensors(v) for v in value)
        if hasattr(value, "data_ptr"):
            return 1
        return int(hasattr(getattr(value, "base", None), "data_ptr"))  # a tensor descriptor

    return [name for name, value in bound.items() for _ in range(tensors(value))]


_POINTERS = {
    "float16": "*fp16", "bfloat16": "*bf16", "float32": "*fp32", "float64": "*fp64",
    "int8": "*i8", "int16": "*i16", "int32": "*i32", "int64": "*i64", "uint8": "*u8", "bool": "*i1",
}  # fmt: skip


def _signature(bound: dict[str, Any], constexprs: list[str], kwargs: dict[str, Any]) -> dict:
    """What an ahead-of-time compilation of this launch needs: types, constants, options."""
    types, constants = {}, {}
    for name, value in bound.items():
        if hasattr(value, "data_ptr"):
            types[name] = _POINTERS.get(str(getattr(value, "dtype", "")).removeprefix("torch."))
        elif name in constexprs or value is None or not isinstance(value, (bool, int, float)):
            types[name] = "constexpr"
            constants[name] = value
        elif isinstance(value, bool):
            types[name] = "i1"
        elif isinstance(value, int):
            types[name] = "i32" if -(2**31) <= value < 2**31 else "i64"
        else:
            types[name] = "fp32"
    options = {k: kwargs[k] for k in ("num_warps", "num_stages") if type(kwargs.get(k)) is int}
    return {"types": types, "constants": constants, "options": options}
