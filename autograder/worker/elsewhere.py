"""Threads and processes that a learner's code starts: what is refused is refused there as well."""

from __future__ import annotations

import _thread
import contextlib
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any

import torch

from . import deny
from .deny import SETS, State

_start = _thread.start_new_thread


class _Anywhere(deny.Only):
    """For where no graded call begins and none ends: asks at each operator what is in force."""

    def __init__(self) -> None:
        super().__init__((), False)

    def look_at(self, func: Any, types: Any, args: tuple, kwargs: dict[str, Any]) -> None:
        mode = deny.mode_of(State.active)
        if mode is not None:
            mode.look_at(func, types, args, kwargs)
        if torch.is_grad_enabled() and any(SETS[name].no_graph for name in State.active):
            deny.reached("torch.autograd")


def _refusing() -> contextlib.AbstractContextManager[Any]:
    if any(SETS[name].no_graph for name in State.prepared):
        deny.set_grad_enabled(False)
    if any(SETS[name].only or SETS[name].no_graph for name in State.prepared):
        return _Anywhere()
    return contextlib.nullcontext()


def _refuse_all() -> None:
    """In another process, from where nothing that was reached is told: refuse it from now on."""
    State.active, State.warn = State.prepared, False
    _refusing().__enter__()


def _start_refusing(
    function: Callable[..., Any], args: tuple = (), kwargs: Mapping[str, Any] | None = None
) -> int:
    def run() -> None:
        with _refusing():
            function(*args, **kwargs or {})

    return _start(run, ())


def install() -> None:
    """From now on, in a process of its own."""
    _thread.start_new_thread = _thread.start_new = _start_refusing
    threading._start_new_thread = _start_refusing  # type: ignore[attr-defined]
    os.register_at_fork(after_in_child=_refuse_all)
