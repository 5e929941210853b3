"""Wrong implementations that learners really write, each with a name and a sentence.

When an output is wrong, the runner gives the same inputs to every misconception of that exercise.
If one of them produces the learner's output, the learner is told its name, its sentence and the
paragraph of the book that explains it. The same collection proves that the hidden suites reject
each of them (`tests/suites/test_misconceptions.py`).

A misconception is plain code with the signature of its exercise:

    @misconception(exercise="layer_norm", name="unbiased-variance", link="layernorm.html#...",
                   message="You divided by D - 1, ...")
    def unbiased_variance(x, weight, bias, eps): ...

Two mistakes made at once get one implementation that names both parts, and their sentences are
joined: `@misconception(exercise="layer_norm", parts=("unbiased-variance", "eps-outside-root"))`.
Several implementations may share one name, where one idea is written in several ways.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

Implementation = TypeVar("Implementation", bound=Callable[..., Any])


@dataclass(frozen=True)
class Misconception:
    """One wrong implementation of one exercise and what to tell the learner who wrote it."""

    exercise: str
    name: str  # "unbiased-variance", or two names joined by "+"
    message: str  # speaks to the learner
    link: str  # page#anchor in the built book
    implementation: Callable[..., Any]

    @property
    def parts(self) -> tuple[str, ...]:
        """The single mistakes in it: one, or several for a combination."""
        return tuple(self.name.split("+"))


_collected: dict[str, list[Misconception]] = {}  # assignment -> in order of declaration


def misconception(
    *,
    exercise: str,
    name: str | None = None,
    parts: Sequence[str] = (),
    message: str | None = None,
    link: str | None = None,
) -> Callable[[Implementation], Implementation]:
    """Declare the decorated function or class as a misconception of `exercise`.

    Give either a `name` with its `message` and `link`, or the `parts` of a combination whose
    messages exist already. A name used before for this exercise keeps its message and link.
    Raises ValueError if a message or a link is missing.
    """

    def declare(implementation: Implementation) -> Implementation:
        known = _collected.setdefault(_assignment(implementation.__module__), [])
        by_name = {m.name: m for m in known if m.exercise == exercise}
        names = tuple(parts) or (name or "",)
        unknown = [part for part in names if part not in by_name]
        text, target = message, link
        if text is None and not unknown:
            text = by_name[names[0]].message if len(names) == 1 else _join(names, by_name)
            target = link or by_name[names[0]].link
        if text is None or target is None:
            raise ValueError(f"{exercise}: {unknown or names} has no message or no link")
        known.append(Misconception(exercise, "+".join(names), text, target, implementation))
        return implementation

    return declare


def _join(names: Sequence[str], by_name: dict[str, Misconception]) -> str:
    sentences = " ".join(by_name[name].message for name in names)
    count = {2: "Two", 3: "Three"}.get(len(names), "Several")
    return f"{count} things at once ({' and '.join(names)}). {sentences}"


def _assignment(module: str) -> str:
    return module.removeprefix(f"{__name__}.").split(".")[0]


def known(assignment: str, exercise: str) -> list[Misconception]:
    """What has been declared so far for one exercise."""
    return [m for m in _collected.get(assignment, []) if m.exercise == exercise]


def load(assignment: str) -> list[Misconception]:
    """All misconceptions of an assignment, in order of declaration; none gives an empty list.

    Every module of its folder is imported, by name whatever the case: so those of `layer_norm` are
    declared when `LayerNorm` makes its own of them.
    """
    folder = Path(__file__).parent / assignment
    for name in sorted((path.stem for path in folder.glob("[!_]*.py")), key=str.casefold):
        importlib.import_module(f"{__name__}.{assignment}.{name}")
    return list(_collected.get(assignment, []))
