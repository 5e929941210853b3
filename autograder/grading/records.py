"""What a grader says of a submission while it grades it: one line of JSON for each record.

`slots` takes them in, in order. Each is a class of its own, and the line names the class.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Unreadable:
    """The submission cannot be graded, for this reason."""

    reason: str


@dataclass(frozen=True)
class Read:
    """The notebook has been read. sha256: of its bytes. code: see `similar`."""

    sha256: str
    code: str
    notices: list[str]
    review: list[dict[str, Any]]


@dataclass(frozen=True)
class Noticed:
    """Lines for the learner that cost no points."""

    notices: list[str]


@dataclass(frozen=True)
class Judged:
    """The next test has its outcome."""

    outcome: dict[str, Any]


@dataclass(frozen=True)
class Saw:
    """The code of an exercise reached this operator."""

    operator: str
    exercise: str


@dataclass(frozen=True)
class Lost:
    """The worker is gone.

    exercise: whose test ran; none where the cells of the notebook were run.
    said: whether `message` is what the learner reads, however the process ended.
    starved: whether it ran out of time while others had the processors.
    """

    verdict: str
    message: str
    exercise: str
    said: bool
    starved: bool


@dataclass(frozen=True)
class Trouble:
    """The grader itself, or a hidden test, failed: an internal error, and its traceback."""

    text: str


@dataclass(frozen=True)
class Done:
    """Every test has its outcome. launched: what the worker said of the kernels it launched."""

    launched: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class End:
    """The grader is free for another submission."""


Record = Unreadable | Read | Noticed | Judged | Saw | Lost | Trouble | Done | End
_KINDS: dict[str, type] = {
    kind.__name__: kind
    for kind in (Unreadable, Read, Noticed, Judged, Saw, Lost, Trouble, Done, End)
}


def encode(record: Record) -> bytes:
    """The record as one line."""
    return json.dumps([type(record).__name__, asdict(record)]).encode() + b"\n"


def decode(line: bytes) -> Record:
    """The record that `encode` made a line of."""
    name, values = json.loads(line)
    record: Record = _KINDS[name](**values)
    return record
