"""Values that are not known yet, and what is to be computed from them.

While a hidden test is worked out ahead (`plan`), a reply of the learner's code is a `Later`. What
a test computes from one is noted, as another, and computed once the reply is there. Where a test
wants to know the value now (in an `if`, as a number, to count it), there is no plan: `NotYet`.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import torch

_LOOKS = (
    "eq", "ne", "lt", "le", "gt", "ge", "bool", "hash", "repr", "str", "format", "len", "iter",
    "contains", "int", "float", "index", "setitem", "delitem", "reversed", "array", "bytes",
    "iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "imatmul", "iand", "ior",
)  # fmt: skip
_BOTH_SIDES = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or")
_ONE = ("neg", "pos", "abs", "invert", "getitem")


class NotYet(BaseException):
    """A value was asked for that is not known yet. Not to be caught by `except Exception`."""


class Replies(list):
    """The replies so far, and what has been computed from them."""

    def __init__(self) -> None:
        super().__init__()
        self._computed: dict[int, Any] = {}  # by the id of the Later

    def compute(self, value: Later) -> Any:
        """What `value` stands for, computed when it is asked for first."""
        if id(value) not in self._computed:
            self._computed[id(value)] = object.__getattribute__(value, "_compute")(self)
        return self._computed[id(value)]


class Later:
    """What `compute` will give once the replies are there."""

    __slots__ = ("_compute",)

    def __init__(self, compute: Callable[[Replies], Any]) -> None:
        object.__setattr__(self, "_compute", compute)

    def __getattribute__(self, name: str) -> Any:
        # `__class__` is what isinstance asks for; a name that ends in _ works in place.
        if name.endswith("_"):
            raise NotYet
        return _noted(getattr, self, name)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise NotYet

    def __call__(self, *args: Any, **kwargs: Any) -> Later:
        return _noted(_called, self, *args, **kwargs)


def _called(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


def _refuse(self: Later, *args: Any) -> NoReturn:
    raise NotYet


# Python looks for these in the class, never as attributes.
for _name in _LOOKS:
    setattr(Later, f"__{_name}__", _refuse)
for _name in (*_ONE, *_BOTH_SIDES):
    _function = getattr(operator, f"__{_name}__")
    setattr(Later, f"__{_name}__", lambda self, *args, _f=_function: _noted(_f, self, *args))
for _name in _BOTH_SIDES:
    _function = getattr(operator, f"__{_name}__")
    setattr(Later, f"__r{_name}__", lambda self, other, _f=_function: _noted(_f, other, self))


def _noted(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Later:
    """`function(*args, **kwargs)`, later."""
    given, named = once_known(args), once_known(kwargs)
    return Later(lambda replies: function(*given(replies), **named(replies)))


def later(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a function of replies that looks at them: it is called once they are there."""

    @functools.wraps(function)
    def perhaps(*args: Any, **kwargs: Any) -> Any:
        if unknown(args) or unknown(kwargs):
            return _noted(function, *args, **kwargs)
        return function(*args, **kwargs)

    return perhaps


def unknown(value: Any) -> bool:
    """Whether `value` is a Later, or holds one."""
    if type(value) in (list, tuple):
        return any(map(unknown, value))
    return any(map(unknown, value.values())) if type(value) is dict else type(value) is Later


def once_known(value: Any) -> Callable[[Replies], Any]:
    """A function that gives `value`, with what stands for each Later in it.

    Everything else is given as it is now: a test may go on to change its tensors in place.
    """
    if type(value) is Later:
        return lambda replies: replies.compute(value)
    if not unknown(value):
        now = copied(value)
        return lambda replies: now
    if type(value) is dict:
        named = {key: once_known(v) for key, v in value.items()}
        return lambda replies: {key: give(replies) for key, give in named.items()}
    kind, parts = type(value), [once_known(v) for v in value]
    return lambda replies: kind([give(replies) for give in parts])


def copied(value: Any) -> Any:
    """`value` with tensors of its own, also in lists, tuples and dicts."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, list | tuple):
        return (list if isinstance(value, list) else tuple)(map(copied, value))
    if isinstance(value, Mapping):
        return {key: copied(v) for key, v in value.items()}
    return value
