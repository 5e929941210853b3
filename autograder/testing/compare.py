"""Compare what the learner's code gave with what was expected.

The order is fixed: type, dtype, shape, finiteness, then values, so that the first difference told
is the most basic one. Nothing broadcasts, an empty tensor equals only an empty tensor of the same
shape, and NaN equals NaN only where NaN was expected. Messages hold no number taken from the
learner's output, since hidden inputs could be carried out that way.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from .later import copied

# What is compared when a result in a half type may be off by one rounding and no more.
ROUNDED_ONCE = "the output (is it rounded only once, at the very end?)"
# What is compared when the inputs must be as before; any difference is a change in place.
UNCHANGED = (
    "the input after the call", "the inputs after the call", "x after the call",
    "w after the call", "the lengths after the call",
)  # fmt: skip


class Mismatch(AssertionError):
    """The learner's value is not the expected one; `message` is for the learner.

    plain: the message without the shape or dtype that the learner's code chose.
    """

    def __init__(self, message: str, plain: str | None = None) -> None:
        super().__init__(message)
        self.message, self.plain = message, plain
        # Set by `expect`: what was compared, and which `expect` of the test it was.
        self.got: Any = None
        self.index = -1


_CHANGED = (
    "You changed an argument in place (an operator such as -=, a method that ends in _, or a "
    "write through a view of it): make a new tensor."
)


class _Recorder:
    """Whether `expect` judges, and how many passed; if not, copies of what it was given."""

    def __init__(self, judging: bool) -> None:
        self.judging = judging
        self.passed = 0
        self.values: list[Any] = []


_recorder = _Recorder(judging=True)
_plan: Callable[..., None] | None = None  # notes what would be judged, see `plan`


@contextmanager
def recording(judging: bool) -> Iterator[list[Any]]:
    """Count the calls of `expect`; with `judging` false it raises nothing and takes notes."""
    global _recorder
    outer, _recorder = _recorder, _Recorder(judging)
    try:
        yield _recorder.values
    finally:
        _recorder = outer


@contextmanager
def planning(note: Callable[..., None] | None) -> Iterator[None]:
    """Have `note(function, args, kwargs)` called instead of every function that judges.

    None: for a while they judge again.
    """
    global _plan
    outer, _plan = _plan, note
    try:
        yield
    finally:
        _plan = outer


def judging(function: Callable[..., None]) -> Callable[..., None]:
    """Decorates `expect`, and functions of a test that look at replies in order to call it."""

    @functools.wraps(function)
    def perhaps(*args: Any, **kwargs: Any) -> None:
        if _plan is None:
            function(*args, **kwargs)
        else:
            _plan(function, args, kwargs)

    return perhaps


@judging
def expect(
    got: Any, want: Any, *, rtol: float = 1e-5, atol: float = 1e-6, what: str = "the output"
) -> None:
    """Check that `got` equals `want` within `atol + rtol * |want|` per element.

    got: a value from the learner's code: tensor, number, text, None, tuple, list or dict of these.
    want: the expected value, computed before the call. Tensors must agree in dtype and shape.
    Raises Mismatch with a sentence for the learner.
    """
    if not _recorder.judging:
        _recorder.values.append(copied(got))
        return
    try:
        _compare(got, want, rtol, atol, what)
    except Mismatch as mismatch:
        if what in UNCHANGED:
            mismatch.message, mismatch.plain = _CHANGED, None
        mismatch.got, mismatch.index = got, _recorder.passed
        raise
    _recorder.passed += 1


def same(got: Any, other: Any) -> bool:
    """Whether two values agree up to rounding; used to recognise a known mistake's output.

    Elements may differ by what two orders of summation in the tensor's dtype differ by.
    """
    if isinstance(got, torch.Tensor) and isinstance(other, torch.Tensor):
        if got.dtype != other.dtype or got.shape != other.shape:
            return False
        if not got.is_floating_point():
            return torch.equal(got, other)
        # 64 roundings of a half type would be 50 %: nothing could be told apart.
        rounds = 4 if got.dtype.itemsize == 2 else 64
        near = rounds * torch.finfo(got.dtype).eps
        a, b = got.double(), other.double()
        finite = b[b.isfinite()]
        scale = float(finite.abs().max()) if finite.numel() else 1.0
        return torch.allclose(a, b, rtol=near, atol=near * scale, equal_nan=True)
    if isinstance(got, (tuple, list)) and isinstance(other, (tuple, list)):
        return len(got) == len(other) and all(map(same, got, other))
    if isinstance(got, Mapping) and isinstance(other, Mapping):
        return list(got) == list(other) and all(same(got[k], other[k]) for k in got)
    return type(got) is type(other) and got == other


def _compare(got: Any, want: Any, rtol: float, atol: float, what: str) -> None:
    if isinstance(want, torch.Tensor):
        _compare_tensor(got, want, rtol, atol, what)
    elif isinstance(want, (tuple, list)):
        if not isinstance(got, (tuple, list)):
            raise Mismatch(f"{_subject(what, 'is')} {_kind(got)}; expected {len(want)} values.")
        if len(got) != len(want):
            raise Mismatch(
                f"{_subject(what, 'has')} another number of values; expected {len(want)}."
            )
        for i, (g, w) in enumerate(zip(got, want, strict=True)):
            _compare(g, w, rtol, atol, f"value {i + 1} of {what}")
    elif isinstance(want, Mapping):
        if not isinstance(got, Mapping):
            raise Mismatch(f"{_subject(what, 'is')} {_kind(got)}; expected named values.")
        if set(got) != set(want):
            names = ", ".join(f"`{n}`" for n in want)
            raise Mismatch(f"{_subject(what, 'has')} other names; expected {names}.")
        for name in want:
            _compare(got[name], want[name], rtol, atol, f"`{name}` in {what}")
    elif isinstance(want, bool) or want is None or isinstance(want, str):
        if type(got) is not type(want) or got != want:
            raise Mismatch(f"{_subject(what, 'is')} not {want!r}.")
    else:
        _compare_number(got, want, rtol, atol, what)


def _compare_number(got: Any, want: float, rtol: float, atol: float, what: str) -> None:
    if isinstance(got, torch.Tensor) and got.dim() == 0 and got.dtype != torch.bool:
        got = got.item()  # a 0-dim tensor where a number is asked is a matter of taste
    if type(got) not in (int, float):
        raise Mismatch(f"{_subject(what, 'is')} {_kind(got)}; expected a number.")
    if isinstance(want, int) and isinstance(got, float) and got != int(want):
        raise Mismatch(f"{_subject(what, 'is')} a wrong number.")
    if not abs(got - want) <= atol + rtol * abs(want):
        raise Mismatch(f"{_subject(what, 'is')} a wrong number.")


def _compare_tensor(got: Any, want: torch.Tensor, rtol: float, atol: float, what: str) -> None:
    if not isinstance(got, torch.Tensor):
        extra = ""
        if got is None:
            gradient = "gradient" in what
            extra = " No gradient flows to it." if gradient else " Is a `return` missing?"
        raise Mismatch(f"{_subject(what, 'is')} {_kind(got)}; expected a tensor.{extra}")
    if got.dtype != want.dtype:
        has, wanted = _subject(what, "has"), f"expected {_dtype(want)}."
        raise Mismatch(f"{has} dtype {_dtype(got)}; {wanted}", f"{has} another dtype; {wanted}")
    if got.shape != want.shape:
        # Only sizes that the expected shape also has are repeated: others could be a message.
        known = set(want.shape) | {1}
        told = got.dim() <= want.dim() + 1 and set(got.shape) <= known
        has, wanted = _subject(what, "has"), f"expected {tuple(want.shape)}."
        plain = f"{has} another shape; {wanted}"
        if told:
            raise Mismatch(f"{has} shape {tuple(got.shape)}; {wanted}", plain)
        raise Mismatch(plain)
    if not want.is_floating_point():
        if not torch.equal(got, want):
            raise Mismatch(f"{_subject(what, 'has')} wrong values.")
        return
    g, w = got.detach().double(), want.detach().double()
    if _within(g, w, rtol, atol):
        return  # what is left is to say what is wrong
    if not torch.equal(g.isnan(), w.isnan()):
        raise Mismatch(f"{_subject(what, 'has')} NaN where a number was expected.")
    infinite = w.isinf() | g.isinf()
    if not torch.equal(g[infinite], w[infinite]):
        raise Mismatch(f"{_subject(what, 'has')} infinite values where finite ones were expected.")
    finite = w.isfinite()
    g, w = g[finite], w[finite]
    wrong = (g - w).abs() > atol + rtol * w.abs()
    if bool(wrong.any()):
        part = "all values are wrong" if bool(wrong.all()) else "some values are wrong"
        raise Mismatch(f"{_subject(what, 'has')} the right shape and dtype, but {part}.")


def _within(g: torch.Tensor, w: torch.Tensor, rtol: float, atol: float) -> bool:
    """Quickly whether all is near, without a NaN and with infinite values alike."""
    if rtol == 0 and 0 <= atol < math.inf and w.numel():
        # The difference of two infinite values is NaN, which is not below anything.
        return float((g - w).abs_().max()) <= atol
    return torch.allclose(g, w, rtol=rtol, atol=atol)


def _subject(what: str, verb: str) -> str:
    """The start of a sentence: `what` and its verb, "is" or "has", in the number that fits."""
    noun = _NOUN.match(what)
    if noun and noun[1].endswith("s") and not noun[1].endswith(("ss", "ias", "is")):
        verb = {"is": "are", "has": "have"}[verb]
    return f"{_upper(what)} {verb}"


# The word that says what it is: "the running means of x in float32" are means.
_NOUN = re.compile(r"the (?:[\w-]+ )*?([\w-]+)(?: (?:after|as|at|by|for|from|in|of|to|with)\b|$)")


def _upper(text: str) -> str:
    """The text as the start of a sentence; a name, such as grad_weight, keeps its first letter."""
    first = text.split(" ")[0]
    return text if "_" in first or len(first) == 1 else text[:1].upper() + text[1:]


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _kind(value: Any) -> str:
    if value is None:
        return "None"
    if isinstance(value, torch.Tensor):
        return "a tensor"
    return {
        bool: "a bool", int: "an integer", float: "a float", str: "text",
        tuple: "a tuple", list: "a list", dict: "a dict",
    }.get(type(value), "another type")  # fmt: skip
