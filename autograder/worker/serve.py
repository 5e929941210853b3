"""Runs beside the learner's code, inside the sandbox. Knows the protocol and nothing else.

`main` serves one socket: it first gets the cells to execute, then answers calls with data. The
same `Executor` runs trusted code in the grader's process when a test's calls are replayed
against a known wrong implementation, so a learner's function and a misconception are driven
alike. Nothing in here is secret, and nothing this process says is trusted beyond "here is data".
"""

from __future__ import annotations

import builtins
import contextlib
import importlib
import os
import socket
import sys
import threading
import traceback
import types
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

import torch

from . import beneath, deny, elsewhere, imports, prints, protocol, stand_ins, torch_state
from .cells import CellOperations
from .cells import run as run_cells
from .kernel_operations import KernelOperations, kernel_sanitizer, prepare_kernels

QUESTION = frozenset({"call", "begins", "op", "deny"})

_CALLS = frozenset({"call", "new", "invoke", "forward"})  # the learner's code is called
_RUNNING = _CALLS | {"backward"}  # ... or may run


# Modules that torch loads in the midst of a call: the server does, while the first worker runs.
LATE = ("torch.fx.experimental.symbolic_shapes",)


class Executor(KernelOperations, CellOperations):
    """Performs the operations that a test asks for, on the names in `namespace`."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self.namespace = namespace
        self.objects: dict[int, Any] = {}
        self.graph: tuple[Any, list, list] | None = None
        self.arguments: list[torch.Tensor] = []

    def perform(self, op: str, request: dict[str, Any]) -> Any:
        """Perform one operation and return its value. Raises what the learner's code raises."""
        given = {key: self._objects(request[key]) for key in ("args", "kwargs") if key in request}
        sanitizer = kernel_sanitizer() if op in _RUNNING else None
        with sanitizer.watching() if sanitizer else contextlib.nullcontext():
            return getattr(self, f"do_{op}")(**request | given)

    def _objects(self, value: Any) -> Any:
        """`value` with each Handle in it replaced by the object it stands for."""
        if isinstance(value, protocol.Handle):
            return self.objects[value.number]
        if isinstance(value, (list, tuple)):
            return type(value)(self._objects(v) for v in value)
        if isinstance(value, dict):
            return {key: self._objects(v) for key, v in value.items()}
        return value

    def do_call(self, name: str, args: list, kwargs: dict[str, Any]) -> Any:
        self.arguments = list(_tensors(args))
        return self._named(name)(*args, **kwargs)

    def do_new(self, handle: int, name: str, args: list, kwargs: dict[str, Any]) -> None:
        self.objects[handle] = self._named(name)(*args, **kwargs)

    def do_invoke(self, handle: int, args: list, kwargs: dict[str, Any]) -> Any:
        self.arguments = [a for a in args if isinstance(a, torch.Tensor)]
        return self.objects[handle](*args, **kwargs)

    def do_state(self, handle: int) -> dict[str, torch.Tensor]:
        return dict(self.objects[handle].state_dict())

    def do_parameters(self, handle: int) -> list[str]:
        return [n for n, p in self.objects[handle].named_parameters() if p.requires_grad]

    def do_recorded(self, handle: int) -> list[str]:
        """Buffers that hold on to a graph: it grows from batch to batch."""
        return [n for n, b in self.objects[handle].named_buffers() if b.requires_grad]

    def do_load(self, handle: int, state: dict[str, torch.Tensor]) -> None:
        self.objects[handle].load_state_dict(state)

    def do_mode(self, handle: int, training: bool) -> None:
        self.objects[handle].train(training)

    def do_freeze(self, handle: int) -> None:
        self.objects[handle].requires_grad_(False)

    def do_to(self, handle: int, dtype: torch.dtype) -> None:
        self.objects[handle].to(dtype)

    def do_inputs(self) -> list[torch.Tensor]:
        return list(self.arguments)

    def do_forward(self, target: str | int, args: list, kwargs: dict[str, Any]) -> Any:
        """Call `target` with every floating-point tensor argument requiring gradients."""
        args = [
            a.detach().requires_grad_() if isinstance(a, torch.Tensor) and a.is_floating_point()
            else a
            for a in args
        ]  # fmt: skip
        self.arguments = [a for a in args if isinstance(a, torch.Tensor)]
        leaves = [a for a in self.arguments if a.is_floating_point()]
        function: Any = self._named(target) if isinstance(target, str) else self.objects[target]
        named = []
        if not isinstance(target, str):
            named = [(n, p) for n, p in function.named_parameters() if p.requires_grad]
        out = function(*args, **kwargs)
        self.graph = (out, leaves, named)
        return out

    def do_backward(self, grads: list[torch.Tensor]) -> tuple[list, dict[str, Any]]:
        """Gradients of the last `forward` for the upstream gradients `grads`."""
        assert self.graph is not None  # a test asks after a `forward`
        out, leaves, named = self.graph
        outputs = [out] if isinstance(out, torch.Tensor) else list(out)
        wanted = leaves + [p for _, p in named]
        live = [(o, g) for o, g in zip(outputs, grads, strict=True) if o.requires_grad]
        if any(output.shape != grad.shape for output, grad in live):
            raise RuntimeError("an output of another shape than its gradient")
        found: Sequence[Any] = [None] * len(wanted)
        if live and wanted:
            found = deny.run_backward(
                tuple(o for o, _ in live), tuple(g for _, g in live), True, False, tuple(wanted),
                allow_unreachable=True, accumulate_grad=False,
            )  # fmt: skip
        names = [n for n, _ in named]
        return list(found[: len(leaves)]), dict(zip(names, found[len(leaves) :], strict=True))

    def _named(self, name: str) -> Callable[..., Any]:
        if name.startswith("nn."):  # torch's own, for tests whose arguments are modules
            return getattr(torch.nn, name.removeprefix("nn."))
        if name not in self.namespace:
            raise NotImplementedError(name)
        return self.namespace[name]


def _tensors(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    """The tensors among `values`, also inside tuples and lists."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, tuple | list):
            yield from _tensors(value)


def _settled(value: Any) -> Any:
    """`value` with plain tensors: what a class of the learner's does late, it does now or never."""
    kind = type(value)
    if issubclass(kind, torch.Tensor) and kind is not torch.Tensor:
        with torch._C.DisableTorchFunctionSubclass():
            return _as_subclass(value, torch.Tensor)
    return kind(map(_settled, value)) if kind in (list, tuple) else value


_as_subclass = torch._C.TensorBase.as_subclass


def describe(error: BaseException) -> dict[str, Any]:
    """Type name and place (cell, line) of an exception in the learner's code, without its text.

    Where it is a kernel's fault, with its facts. The text stays here: it may carry hidden inputs
    out (attack 14).
    """
    cell = line = 0
    if isinstance(error, SyntaxError) and str(error.filename).startswith("<cell "):
        cell, line = _cell_number(str(error.filename)), error.lineno or 0
    else:
        for frame, number in traceback.walk_tb(error.__traceback__):
            if frame.f_code.co_filename.startswith("<cell "):
                cell, line = _cell_number(frame.f_code.co_filename), number or 0
    kind = type(error).__name__
    # A class made up by the learner is named by the built-in class it stems from.
    for base in type(error).__mro__:
        if getattr(builtins, base.__name__, None) is base:
            kind = base.__name__
            break
    if kind == "RuntimeError" and "allocate" in str(error) and "memory" in str(error):
        kind = "MemoryError"  # what torch's CPU allocator says is told by its text alone
    found = {"type": kind, "cell": cell, "line": line}
    sanitizer = kernel_sanitizer()
    fault = sanitizer.fault_of(error) if sanitizer else None
    return found | {"fault": fault} if fault else found


def _cell_number(filename: str) -> int:
    digits = filename.removeprefix("<cell ").removesuffix(">")
    return int(digits) if digits.removeprefix("-").isdigit() else 0


# What `warm_up` has run: a cell such as learners write, and one call of each kind.
_WARM_CELL = """
import torch
from torch import nn

def norm(x, weight):
    centered = x - x.mean(-1, keepdim=True)
    variance = (centered * centered).mean(-1, keepdim=True) + x.var(-1, correction=0)[..., None]
    return centered * torch.rsqrt(variance + 1e-5) / torch.sqrt(variance + 1) * weight

class Norm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.linear = nn.Linear(d, d)
        self.weight = nn.Parameter(torch.ones(d))

    def forward(self, x):
        return norm(self.linear(x.float()), self.weight).square().sum(-1).to(x.dtype)

raise NotImplementedError
"""


_AMPLE = {"cell_seconds": 9, "seconds": 9, "wall": 9}


def warm_up(refused: Collection[str] = ()) -> None:
    """Do once, before any fork, what torch and numpy do slowly the first time in a process.

    Includes asking for the processor's features, from files that a worker cannot read.
    refused: the sets of `deny` that exercises of this worker's assignment pick.
    """
    deny.prepare(refused)
    imports.install()
    stand_ins.install()
    if "triton" in sys.modules and not prepare_kernels():
        return  # its workers compile, and are asked for nothing else
    if "numpy" in sys.modules:
        importlib.import_module("numpy.random")  # numpy itself waits until it is asked for
    tape: Any = _Tape()
    cell = {"index": 0, "source": _WARM_CELL}
    # Several times: Python rewrites its own code while it learns what types come by, and what is
    # rewritten after the fork is a page copied in every worker.
    for dtype in 3 * (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        x = torch.linspace(-1, 1, 24).reshape(3, 8).to(dtype)
        state = {"weight": torch.ones(8), "linear.weight": torch.eye(8)}
        for op, request in (
            ("start", {"seed": 0, "warn": False, "cells": [cell], **_AMPLE}),
            ("call", {"name": "norm", "args": [x, x[0]], "kwargs": {}}),
            ("inputs", {}),
            ("new", {"handle": 1, "name": "Norm", "args": [8], "kwargs": {}}),
            ("load", {"handle": 1, "state": state | {"linear.bias": torch.zeros(8)}}),
            ("invoke", {"handle": 1, "args": [x.float()], "kwargs": {}}),
            ("state", {"handle": 1}),
            ("forward", {"target": 1, "args": [x], "kwargs": {}}),
            ("backward", {"grads": [torch.ones(3, dtype=dtype)]}),
            ("forward", {"target": "norm", "args": [x.t()[:, :1], x[0, :1]], "kwargs": {}}),
        ):
            protocol.send(tape, {"call": 0, "begins": True, "op": op, "deny": []}, request)
    _serve(tape.rewound(), {})


class _Tape:
    """Stands for a socket: plays back the frames that were sent, and drops what is sent then."""

    def __init__(self) -> None:
        self._frames: deque[bytes] = deque()
        self._playing = False

    def rewound(self) -> _Tape:
        self._playing = True
        return self

    def sendall(self, frame: bytes) -> None:
        if not self._playing:
            self._frames.append(frame)

    def recv(self, size: int) -> bytes:
        return self._frames.popleft() if self._frames else b""


def main(sock: socket.socket) -> None:
    """Serve one submission on `sock` until the grader closes it."""
    module = types.ModuleType("__main__")
    module.__dict__.update(stand_ins.NAMES)
    module.__dict__["__builtins__"] = vars(builtins) | beneath.BUILTINS
    sys.modules["__main__"] = module
    if threading.current_thread() is threading.main_thread():  # in a process of its own
        elsewhere.install()
        prints.install()
    _serve(sock, module.__dict__)


def _serve(sock: socket.socket, namespace: dict[str, Any]) -> None:
    executor, settings, seed, rest = Executor(namespace), torch_state.read(), 0, bytearray()
    while True:
        try:
            header, request = protocol.receive(sock, QUESTION, from_grader=True, rest=rest)
        except protocol.ProtocolError:
            return
        op, value, error = header["op"], None, None
        try:
            if op == "start":
                deny.begin(request["warn"])
                seed = request["seed"]
                torch_state.seed(seed)
                value = run_cells(request, namespace, describe)
            else:
                if header["begins"]:  # a test: whatever cells and other tests left behind
                    torch_state.restore(settings)
                    torch_state.seed(seed + header["call"])
                with deny.refusing(frozenset(header["deny"]), whole=op in _CALLS):
                    value = executor.perform(op, request)
                    with contextlib.suppress(RecursionError):  # a list in itself: see `_reply`
                        value = _settled(value)
        except BaseException as raised:
            error = describe(raised)
            if deny.fired():
                error["denied"] = deny.fired()
        _reply(sock, header["call"], value, error, deny.take_seen())


def _reply(sock: socket.socket, call: int, value: Any, error: Any, seen: list[str]) -> None:
    header = {"call": call, "error": error, "seen": seen}
    try:
        protocol.send(sock, header, value)
    except protocol.ProtocolError:
        protocol.send(sock, header | {"error": {"type": "TooLarge", "cell": 0, "line": 0}})
    except Exception as unsendable:
        # Not a value the protocol has a form for: say which type, as an error of the result.
        returned = getattr(unsendable, "returned", "")[:100]
        unsent = {"type": "Unsendable", "cell": 0, "line": 0, "returned": returned}
        protocol.send(sock, header | {"error": unsent})


if __name__ == "__main__":
    main(socket.socket(fileno=os.dup(int(sys.argv[1]))))
