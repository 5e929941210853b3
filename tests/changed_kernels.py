"""Kernels of the reference with something changed, graded in this process.

`outcome("row_sum", ("cols < D", "cols < D - 1"))` says what the hidden tests find.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from in_process import Graded, grade, load

from autograder import release

NAME = "triton_kernels"
SOURCE = Path(release.ROOT / "solutions" / NAME / f"{NAME}.py").read_text(encoding="utf-8")
POINTS = {
    "row_sum": 2, "layer_norm_forward": 8, "layer_norm_backward": 9, "rms_norm_forward": 4,
    "add_layer_norm": 5,
}  # fmt: skip


def changed(exercise: str, *changes: tuple[str, str]) -> str:
    """The solution cell of an exercise with some texts replaced, each in all places."""
    source = release.solution_cells(NAME)[exercise]
    for before, after in changes:
        assert before in source, f"no longer in the solution: {before}"
        source = source.replace(before, after)
    return source


def defined(exercise: str, *changes: tuple[str, str]) -> Callable[..., Any]:
    """The function that such a cell defines."""
    load(NAME)
    space = {"__name__": "changed"}
    exec(SOURCE, space)
    exec(changed(exercise, *changes), space)
    return space[exercise]


def outcome(exercise: str, *changes: tuple[str, str]) -> list[Graded]:
    """What the hidden tests of the exercise find."""
    return grade(NAME, {exercise: defined(exercise, *changes)})
