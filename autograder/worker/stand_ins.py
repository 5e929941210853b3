"""What a notebook has and the sandbox has not: Jupyter's names, a debugger, a compiler.

Each is there and does nothing, so that a line left over from working in a notebook costs nothing.
"""

from __future__ import annotations

import functools
import pdb
import sys
from collections.abc import Callable
from typing import Any

import torch

compiled = 0  # how often torch was asked to compile


class _Shell:
    """Stands for what IPython's `get_ipython()` gives. Each of its methods does nothing."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return _nothing


def _nothing(*_: Any, **__: Any) -> None:
    """Do nothing."""


def _input(*_: Any) -> str:
    """Nobody is there to type."""
    return ""


# exit and quit: in Jupyter they end the work in the notebook, and none of the learner's answers.
NAMES: dict[str, Callable[..., Any]] = {
    "get_ipython": _Shell, "input": _input,
    **dict.fromkeys(("display", "help", "exit", "quit", "breakpoint"), _nothing),
}  # fmt: skip


def _compile(model: Any = None, **options: Any) -> Any:
    """In place of torch.compile: the same function, run as it is."""
    global compiled
    compiled += 1
    return functools.partial(_compile, **options) if model is None else model


def _traced(function: Any, *_: Any, **__: Any) -> Any:
    """In place of torch.jit.script and the like."""
    global compiled
    compiled += 1
    return function


def _left_alone(function: Any = None, *_: Any, **__: Any) -> Any:
    """In place of torch.compiler.disable, which loads the compiler: nothing is compiled anyway."""
    return _left_alone if function is None else function


def _no_script(*_: Any, **__: Any) -> None:
    """In place of what makes functions of TorchScript from texts and files: read by nobody."""
    raise RuntimeError("TorchScript is not here: write the function in Python")


def install() -> None:
    """Put the compiler and the debugger out of action, in all of this process."""
    torch.compile = torch.compiler.compile = _compile
    torch.compiler.disable = _left_alone
    # TorchScript would work, and refuse a right function for a word it does not know.
    torch.jit.script = torch.jit.trace = _traced
    torch.jit.CompilationUnit = torch.jit.load = _no_script
    torch.jit.freeze = torch.jit.optimize_for_inference = _traced  # they take what it gives
    pdb.set_trace = pdb.post_mortem = pdb.pm = _nothing  # they read what nobody types
    sys.breakpointhook = _nothing
