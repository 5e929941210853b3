"""What a worker does for tests of Triton kernels, beside the operations of every test."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import types
from collections.abc import Callable
from typing import Any

import torch

from . import deny, far_rows


def kernel_sanitizer() -> types.ModuleType | None:
    """The kernel sanitizer, where it is on: it is installed where triton is preloaded."""
    module = sys.modules.get("kernel_sanitizer.sanitizer")
    return module if module is not None and module.installed() else None


def prepare_kernels() -> bool:
    """Do once, before any fork, what kernels need. Returns whether they are interpreted here."""
    interprets = os.environ.get("TRITON_INTERPRET") == "1"
    if not interprets:
        importlib.import_module(f"{__package__}.kernel_compile").warm_up()
    else:
        launch: Any = importlib.import_module("kernel_sanitizer.launch")
        launch.on_shared_write = deny.refuse_sharing
        importlib.import_module("kernel_sanitizer.sanitizer").install()
        with contextlib.suppress(OSError, ValueError):
            far_rows.reserve()
    return interprets


class KernelOperations:
    """Part of the worker's Executor."""

    objects: dict[int, Any]
    _named: Callable[[str], Any]

    def do_launches(self) -> list[dict[str, Any]] | None:
        """The kernels that the last call launched; None where nobody watched."""
        sanitizer = kernel_sanitizer()
        return [dict(launch) for launch in sanitizer.launches] if sanitizer else None

    def do_signatures(self) -> list[dict[str, Any]]:
        """What it takes to compile the kernels that were launched so far, for a GPU."""
        sanitizer = kernel_sanitizer()
        return list(sanitizer.signatures.values()) if sanitizer else []

    def do_compile(self, name: str, signature: dict[str, Any]) -> dict[str, Any]:
        compiler = importlib.import_module(f"{__package__}.kernel_compile")
        return compiler.to_ptx(self._named(name), "<cell ", **signature)

    def do_assemble(self, ptx: torch.Tensor) -> dict[str, int] | None:
        compiler = importlib.import_module(f"{__package__}.kernel_compile")
        return compiler.assemble(bytes(ptx.numpy()))

    def do_far_apart(self, handle: int, x: torch.Tensor) -> None:
        self.objects[handle] = far_rows.far_apart(x)
