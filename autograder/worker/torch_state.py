"""torch's global settings: what learners' cells changed, and back to how a worker found them.

A setting left changed in some cell would decide the result of every test.
`WORDS` also serves the trusted side.
"""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch._tensor_str import PRINT_OPTS

_guards: list[Any] = []  # what they set ends when they are collected
_InferenceMode = torch._C._InferenceMode  # torch's own, whatever `deny` puts in its place


def _set_inference(on: bool) -> None:
    guard = _InferenceMode(on)
    guard.__enter__()
    _guards.append(guard)


def _set_print_options(values: tuple) -> None:
    vars(PRINT_OPTS).update(zip(vars(PRINT_OPTS), values, strict=True))


def _autocast() -> tuple:
    return torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")


def _set_autocast(values: tuple) -> None:
    torch.set_autocast_enabled("cpu", values[0])
    torch.set_autocast_dtype("cpu", values[1])
    torch.clear_autocast_cache()


def _default_device() -> Any:
    return getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)


def _set_default_device(context: Any) -> None:
    torch.set_default_device(None if context is None else context.device)


def _modes() -> tuple[int, int]:
    """How many modes are entered, without the one that is a default device."""
    of_device = _default_device() is not None
    c = torch._C
    return c._len_torch_function_stack() - of_device, c._len_torch_dispatch_stack()


def _pop_modes(depth: tuple[int, int]) -> None:
    """Leave the modes that were entered and not left."""
    while torch._C._len_torch_function_stack() > depth[0]:
        torch._C._pop_torch_function_stack()
    while torch._C._len_torch_dispatch_stack() > depth[1]:
        torch._C._pop_torch_dispatch_stack(None)
    torch.utils._device.CURRENT_DEVICE = None  # what a device left as a mode would have set back


def _attention_kernels() -> tuple:
    c = torch._C
    return (
        c._get_flash_sdp_enabled(), c._get_math_sdp_enabled(),
        c._get_mem_efficient_sdp_enabled(),
    )  # fmt: skip


def _set_attention_kernels(values: tuple) -> None:
    torch._C._set_sdp_use_flash(values[0])
    torch._C._set_sdp_use_math(values[1])
    torch._C._set_sdp_use_mem_efficient(values[2])


_smallest = 5e-324


def _flushes_denormals() -> bool:
    return _smallest * 1.0 == 0.0


# Name -> (what a learner is told was changed, how to read it, how to set it). In the order in which
# they are put back: what a mode left open, before what it may have set besides.
_SETTINGS: dict[str, tuple[str, Callable[[], Any], Callable[[Any], Any]]] = {
    "inference": ("inference mode", torch.is_inference_mode_enabled, _set_inference),
    "grad": ("whether gradients are recorded", torch.is_grad_enabled, torch._C._set_grad_enabled),
    "device": ("torch's default device", _default_device, _set_default_device),
    "modes": (
        "a mode of torch that was entered and not left", _modes, _pop_modes,
    ),
    "functions": (
        "whether torch looks for __torch_function__",
        torch._C._get_torch_function_state,
        torch._C._set_torch_function_state,
    ),
    "dtype": ("torch's default dtype", torch.get_default_dtype, torch.set_default_dtype),
    "autocast": ("autocast", _autocast, _set_autocast),
    "autocast-cache": (
        "autocast's cache", torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled,
    ),
    "deterministic": (
        "torch's deterministic algorithms",
        lambda: (
            torch._C._get_deterministic_algorithms(),
            torch._C._get_deterministic_algorithms_warn_only(),
        ),
        lambda values: torch._C._set_deterministic_algorithms(values[0], warn_only=values[1]),
    ),
    "fill": (
        "whether torch fills new memory",
        torch._C._get_deterministic_fill_uninitialized_memory,
        torch._C._set_deterministic_fill_uninitialized_memory,
    ),
    "threads": ("the number of torch's threads", torch.get_num_threads, torch.set_num_threads),
    "print": (
        "how tensors are printed", lambda: tuple(vars(PRINT_OPTS).values()), _set_print_options,
    ),
    "anomaly": (
        "autograd's search for anomalies",
        lambda: (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()),
        lambda values: torch.set_anomaly_enabled(*values),
    ),
    "matmul": (
        "the precision of torch's matrix products",
        torch.get_float32_matmul_precision, torch.set_float32_matmul_precision,
    ),
    "fp32": (
        "the precision of torch's float32 work",
        lambda: torch._C._get_fp32_precision_getter("generic", "all"),
        lambda value: torch._C._set_fp32_precision_setter("generic", "all", value),
    ),
    "mkldnn": (
        "whether torch uses oneDNN", torch._C._get_mkldnn_enabled, torch._C._set_mkldnn_enabled,
    ),
    "attention": ("which kernels attention uses", _attention_kernels, _set_attention_kernels),
    "denormal": ("what becomes of denormal numbers", _flushes_denormals, torch.set_flush_denormal),
    "dual": (
        "forward-mode gradients", torch._C._is_fwd_grad_enabled, torch._C._set_fwd_grad_enabled,
    ),
    "module-overwrite": (
        "how modules are converted", torch.__future__.get_overwrite_module_params_on_conversion,
        torch.__future__.set_overwrite_module_params_on_conversion,
    ),
    "module-swap": (
        "how modules are converted", torch.__future__.get_swap_module_params_on_conversion,
        torch.__future__.set_swap_module_params_on_conversion,
    ),
}  # fmt: skip
_READERS = tuple(read for _, read, _ in _SETTINGS.values())
_NAMES = tuple(_SETTINGS)
WORDS = {name: words for name, (words, _, _) in _SETTINGS.items()}

Values = tuple[Any, ...]


def read() -> Values:
    """The value of each setting. Takes two microseconds."""
    return tuple([_read(reader) for reader in _READERS])


def _read(reader: Callable[[], Any]) -> Any:
    try:
        return reader()
    except Exception:  # torch refuses to say, after old and new ways to set it were mixed
        return None


def differing(one: Values, other: Values) -> list[str]:
    """The names of the settings whose values differ."""
    if one == other:
        return []
    return [n for n, a, b in zip(_NAMES, one, other, strict=True) if a != b]


def restore(values: Values) -> None:
    """Put every setting back that does not have its value of `values`."""
    for name in differing(values, read()):
        with contextlib.suppress(Exception):  # one that cannot be put back leaves the others
            _SETTINGS[name][2](values[_NAMES.index(name)])


def seed(number: int) -> None:
    """Have torch, Python and numpy draw the same numbers as whoever gave this one."""
    torch.default_generator.manual_seed(number)  # torch.manual_seed looks for devices first
    random.seed(number)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(number % (1 << 32))
