"""The `student` fixture: a hidden test's view of one submission.

Attribute access gives the learner's functions and classes by name. Each call is sent away, to a
worker in the sandbox (or, with `Student.local`, to trusted code in this process, to replay a test
against a reference or a known mistake), and what comes back is data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch

from kernel_sanitizer.fault import KernelFault

from ..worker import protocol
from ..worker.protocol import Handle
from ..worker.serve import Executor, describe, kernel_sanitizer
from .compare import Mismatch
from .kernel_reply import launches_of
from .later import later
from .verdict import LearnerError


class Link(Protocol):
    """Where calls go."""

    def perform(self, name: str, op: str, request: dict[str, Any]) -> Any:
        """Perform `op`; `name` is the learner's function or class that the test is about."""


class LocalLink:
    """Calls to trusted code in this process."""

    def __init__(self, namespace: Mapping[str, Any]) -> None:
        self._executor = Executor(dict(namespace))

    def perform(self, name: str, op: str, request: dict[str, Any]) -> Any:
        try:
            # Copies both ways, as the wire would: a change of the inputs stays over there.
            return _plain(self._executor.perform(op, _plain(request)))
        except Exception as error:
            found = describe(error)
            fault = error.fault if isinstance(error, KernelFault) else None
            raise LearnerError(found["type"], 0, 0, name, fault) from error


def _plain(value: Any) -> Any:
    """Detach and copy tensors, as the wire would: with their strides."""
    if isinstance(value, torch.Tensor):
        return _copied(value.detach())
    if isinstance(value, (tuple, list)):
        return type(value)(_plain(v) for v in value)
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in value.items()}
    return value


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_contiguous() or not tensor.numel():
        return tensor.clone()
    once = tensor[tuple(slice(0, 1) if s == 0 else slice(None) for s in tensor.stride())]
    return protocol.restrided(once.contiguous(), list(tensor.shape), list(tensor.stride()))


class Student:
    """One submission. `student.layer_norm(x, w, b, eps)` calls, `student.LayerNorm(8)` constructs.

    Failures of the learner's code raise LearnerError or WorkerLost, which the runner turns into a
    verdict; a test needs no `try`.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._handles = 0
        self._last = ""

    @classmethod
    def local(cls, namespace: Mapping[str, Any]) -> Student:
        """A student whose functions are those of `namespace`, called in this process."""
        return cls(LocalLink(namespace))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        self._last = name
        return self._construct(name) if name[0].isupper() else self._function(name)

    @property
    def nn(self) -> TorchModules:
        """Modules of torch's own in the worker, to be arguments: `student.nn.Linear(8, 8)`."""
        return TorchModules(self)

    def _function(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            request = {"name": name, **_arguments(args, kwargs)}
            return self._link.perform(name, "call", request)

        return call

    def _construct(self, name: str) -> Callable[..., Module]:
        def new(*args: Any, **kwargs: Any) -> Module:
            self._handles += 1
            request = {"handle": self._handles, "name": name, **_arguments(args, kwargs)}
            self._link.perform(name, "new", request)
            return Module(self._link, name, self._handles)

        return new

    def vjp(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, Callable[..., tuple]]:
        """The output of the learner's function, and its vector-Jacobian product.

        `vjp(g)` takes the upstream gradient (one per output tensor) and returns one gradient per
        floating-point positional tensor of `args`, None where no gradient flows.
        """
        self._last = name
        out = self._link.perform(name, "forward", {"target": name, **_arguments(args, kwargs)})
        return out, lambda *grads: _of_inputs(_backward(self._link, name, grads))

    def inputs(self) -> list[torch.Tensor]:
        """The positional tensors of the last call as they are after it, also inside tuples."""
        return self._link.perform(self._last, "inputs", {})

    def launches(self) -> list[dict[str, Any]] | None:
        """The kernels that the last call launched: what was read and written of each tensor.

        `{"kernel": name, "grid": [x, y, z], "reads": {parameter: bytes}, "writes": {...},
        "sizes": {...}}` for each, of the first 16; None where the kernel sanitizer is off, and
        nothing can be said. The learner's process counts, and may say what it likes: check it
        together with a right output.
        """
        reply = self._link.perform(self._last, "launches", {})
        if kernel_sanitizer() is None:
            return None
        launches = launches_of(reply)
        if launches is None:
            raise LearnerError("TypeError", 0, 0, self._last)
        return launches

    def far_apart(self, x: torch.Tensor) -> Argument:
        """x (M, D), M <= 3, of a half type, with 2**30 numbers from row to row. For calls."""
        self._handles += 1
        self._link.perform(self._last, "far_apart", {"handle": self._handles, "x": x})
        return Argument(self._handles)


def _arguments(args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
    """As they are sent: a Module goes as its handle, also from inside a list, tuple or dict."""
    return {"args": _handles(list(args)), "kwargs": _handles(kwargs)}


def _handles(value: Any) -> Any:
    if isinstance(value, (Argument, Module)):
        return Handle(value._handle)
    if isinstance(value, (tuple, list)):
        return type(value)(_handles(v) for v in value)
    if isinstance(value, Mapping):
        return {k: _handles(v) for k, v in value.items()}
    return value


class Argument:
    """Something that lives in the worker, to be an argument of calls."""

    def __init__(self, handle: int) -> None:
        self._handle = handle


class TorchModules:
    """`torch.nn` of the worker."""

    def __init__(self, student: Student) -> None:
        self._student = student

    def __getattr__(self, name: str) -> Callable[..., Module]:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._student._construct(f"nn.{name}")


class Module:
    """A module of the learner's that lives in the worker. May be an argument of other calls."""

    def __init__(self, link: Link, name: str, handle: int) -> None:
        self._link, self._name, self._handle = link, name, handle

    def _perform(self, op: str, **request: Any) -> Any:
        return self._link.perform(self._name, op, {"handle": self._handle, **request})

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._perform("invoke", **_arguments(args, kwargs))

    def state(self) -> Any:
        """`state_dict()`: name -> tensor."""
        return self._perform("state")

    def parameters(self) -> Any:
        """Names of the trainable parameters."""
        return self._perform("parameters")

    def recorded(self) -> Any:
        """Names of the buffers whose updates autograd has recorded."""
        return self._perform("recorded")

    def load(self, state: Mapping[str, torch.Tensor]) -> None:
        """`load_state_dict(state)`, strict. Raises Mismatch when the names or shapes differ."""
        try:
            self._perform("load", state=dict(state))
        except LearnerError as error:
            if error.line or error.kind not in ("RuntimeError", "KeyError"):
                raise
            names = " and ".join(f"`{name}`" for name in state)
            raise Mismatch(
                f"`{self._name}` cannot load a state_dict with {names}: are these, and no others, "
                "registered under exactly these names, with the right shapes?"
            ) from error

    def train(self) -> None:
        self._perform("mode", training=True)

    def eval(self) -> None:
        self._perform("mode", training=False)

    def freeze(self) -> None:
        """Make all parameters not trainable."""
        self._perform("freeze")

    def to(self, dtype: torch.dtype) -> None:
        """Move parameters and buffers to `dtype`."""
        self._perform("to", dtype=dtype)

    def vjp(self, *args: Any, **kwargs: Any) -> tuple[Any, Callable[..., tuple[tuple, dict]]]:
        """The output, and `vjp(g)` -> (gradients of the inputs, {parameter name: gradient})."""
        request = {"target": self._handle, **_arguments(args, kwargs)}
        out = self._link.perform(self._name, "forward", request)

        def vjp(*grads: torch.Tensor) -> tuple[tuple, dict]:
            found = _backward(self._link, self._name, grads)
            return _of_inputs(found), _of_parameters(found)

        return out, vjp


def _backward(link: Link, name: str, grads: tuple) -> Any:
    return _checked(link.perform(name, "backward", {"grads": list(grads)}), name)


@later
def _checked(reply: Any, name: str) -> Any:
    """The gradients of inputs and parameters: the form is the learner's process's to say."""
    if isinstance(reply, (tuple, list)) and len(reply) == 2:
        inputs, parameters = reply
        if isinstance(inputs, (tuple, list)) and isinstance(parameters, Mapping):
            return reply
    raise LearnerError("TypeError", 0, 0, name)


@later
def _of_inputs(found: Any) -> tuple:
    return tuple(found[0])


@later
def _of_parameters(found: Any) -> dict[str, Any]:
    return dict(found[1])
