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
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from . import launch as kernel_launch
from .fault import Fault, KernelFault, explain
from .launch import (
    Launch,
    bound_arguments,
    faults,
    launches,
    note_signature,
    signature,
    signatures,
    tensor_names,
)
from .numbers import from_bf16, is_poison, poison, to_bf16

__all__ = [
    "Fault", "KernelFault", "explain", "fault_of", "install", "installed", "launches", "signatures",
    "uninstall", "watching", "why_not",
]  # fmt: skip

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
    from . import self_test

    try:
        from triton.runtime import interpreter

        _Hooks(interpreter).install()
        kernel_launch.forget()  # the self-test reads the notes of its own launches
        failed = self_test.failure()
        _why = failed and f"its self-test failed: {failed}"
    except Exception as error:  # whatever another Triton has moved
        _why = f"it does not fit this Triton ({type(error).__name__}: {error})"
    if _why:
        why = _why
        uninstall()
        _why = f"the kernel sanitizer is off: {why}"
    kernel_launch.forget(everything=True)
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


def _steps(traceback: types.TracebackType | None) -> list[types.TracebackType]:
    """The frames of a traceback, from the outermost on."""
    steps = []
    while traceback is not None:
        steps.append(traceback)
        traceback = traceback.tb_next
    return steps


class _Hooks:
    """What is put in place of the interpreter's own. Signatures differ between versions: *rest."""

    def __init__(self, interpreter: Any) -> None:
        self.interpreter = interpreter
        self.builder = interpreter.interpreter_builder
        self.handle = interpreter.TensorHandle
        self.tensor = interpreter.tl.tensor
        self.bf16 = interpreter.tl.bfloat16

    def install(self) -> None:
        module, builder = self.interpreter, self.builder
        for target, name, hook in (
            (module.GridExecutor, "__call__", self.run),
            (module, "_implicit_cvt", self.convert),
            (module, "_get_np_dtype", self.numpy_dtype),
            (module, "_patch_lang", self.patch_language),
            (module, "_patch_builtin", self.patch_builtin),
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
            (module.TritonSemantic, "binary_op_sanitize_overflow_impl", self.overflow),
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
            bound = bound_arguments(executor.fn, args, kwargs)
            launch = Launch(executor.fn.__name__, tensor_names(bound))
            sizes = [v.numel() for v in bound.values() if hasattr(v, "numel")]
            found = signature(bound, executor.constexprs, kwargs)
            note_signature(launch.kernel, found, max(sizes, default=0))
            _launch = launch
            try:
                with np.errstate(all="ignore"):  # a GPU warns of no division by zero
                    return original(executor, *args, **kwargs)
            except interpreter_error as error:
                trail: list[types.TracebackType] = []
                while isinstance(error, interpreter_error) and error.__cause__ is not None:
                    trail += _steps(error.__traceback__)
                    error = error.__cause__
                # A helper such as tl.sum is run by the interpreter, too, which wraps once more: the
                # kernel's own line is known to the outer error only.
                last = error.__traceback__
                for step in reversed(trail):
                    last = types.TracebackType(last, step.tb_frame, step.tb_lasti, step.tb_lineno)
                raise error.with_traceback(last) from None
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

    def numpy_dtype(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """The same, without a new table at each call."""
        plain, known = self.interpreter.tl.dtype, {}

        def _get_np_dtype(kind: Any) -> np.dtype:
            if type(kind) is not plain:
                return original(kind)
            if kind.name not in known:
                known[kind.name] = original(kind)
            return known[kind.name]

        return _get_np_dtype

    def patch_language(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """The interpreter patches the language anew at each call of a helper, tl.sum among them.

        That takes longer than all the rest; once a launch is enough.
        """
        language = (self.interpreter.tl, self.interpreter.tl.core)

        def _patch_lang(fn: Any) -> Any:
            if _launch is None:
                return original(fn)
            wanted = {
                id(v) for v in fn.__globals__.values() if v is language[0] or v is language[1]
            }
            if wanted and wanted <= _launch.patched:
                return self.interpreter._LangPatchScope()
            _launch.patched |= wanted
            return original(fn)

        return _patch_lang

    def patch_builtin(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """The same, looking for the members of `package` that are to be patched only once."""
        module, known = self.interpreter, {}

        def _patch_builtin(package: Any, builder: Any, scope: Any) -> None:
            is_builtin = module.tl.core.is_builtin
            if package not in known:
                members = inspect.getmembers(package)
                known[package] = [name for name, member in members if is_builtin(member)]
            for name in known[package]:
                member = getattr(package, name)
                if is_builtin(member):
                    module._patch_attr(package, name, member, builder, scope)

        return _patch_builtin

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
                kind = ptrs.get_element_ty()
                dtype = self.interpreter._get_np_dtype(kind)
                other = self.handle(poison(kind.name, ptrs.data.shape, dtype), kind)
                _launch.note_unmasked(ptrs)
            return original(real, mask, other, *rest, **more)

        return create_masked_load

    def store(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def create_masked_store(ptrs: Any, value: Any, mask: Any, *rest: Any, **more: Any) -> Any:
            if _launch is None:
                return original(ptrs, value, mask, *rest, **more)
            real = _launch.access("store", ptrs, mask, value.data)
            self._refuse_poison(_launch, value, mask)
            return original(real, value, mask, *rest, **more)

        return create_masked_store

    def _refuse_poison(self, launch: Launch, value: Any, mask: Any) -> None:
        if not launch.unmasked:
            return
        if (is_poison(value.data, value.dtype.scalar.name) & mask.data).any():
            raise launch.fault("poison", "stored", tensor=launch.unmasked[0].name)

    def atomic_rmw(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def create_atomic_rmw(
            op: Any, ptr: Any, value: Any, mask: Any, *rest: Any, **more: Any
        ) -> Any:
            if _launch is None:
                return original(op, ptr, value, mask, *rest, **more)
            if value.dtype.scalar.name == "bf16":
                raise _launch.fault("bf16-arithmetic", "atomic")
            real = _launch.access("atomic", ptr, mask)
            self._refuse_poison(_launch, value, mask)
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
        if _launch is None:
            return
        for handle in handles:
            data = getattr(handle, "data", None)
            # Stored as uint16, on whose bits the interpreter would compute.
            suspect = getattr(data, "dtype", None) == np.uint16
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
        poisoned = is_poison(source.data, source.dtype.scalar.name)
        if poisoned.any():
            lost = np.any(poisoned, axis=reducer.axis).reshape(out.data.shape)
            worst = poison(source.dtype.scalar.name, out.data.shape, out.data.dtype)
            out.data = np.where(lost, worst, out.data)

    def overflow(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Triton's own check needs its debug option, and twenty operations for each one."""

        def binary_op_sanitize_overflow_impl(semantic: Any, left: Any, right: Any, op: Any) -> None:
            if _launch is None:
                return original(semantic, left, right, op)
            if left.type.scalar.name != "int32" or op.__name__ not in _EXACT:
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
            data = from_bf16(source.data) if before == "bf16" else source.data
            if after == "bf16":
                data = to_bf16(data)
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
        return self.handle(to_bf16(np.array([value])), self.bf16)


_EXACT = {"add": np.add, "sub": np.subtract, "mul": np.multiply}
