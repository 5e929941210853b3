"""The directive `{exercise-stub} ASSIGNMENT NAME`: an exercise as the learner will meet it.

The code, the points, the difficulty and the minutes are read from the released notebook
`exercises/ASSIGNMENT/ASSIGNMENT.ipynb` while the book is built. Nothing is copied by hand.
"""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

EFFORT = re.compile(r"^\*(\d+ points, [^*]*\d+ minutes)\*\s*$", re.MULTILINE)


class StubError(Exception):
    """The stub cannot be shown; the message is one line for the author of the page."""


def read_stub(notebook: Path, name: str) -> tuple[str, str]:
    """The source of the solution cell `name`, and the line that states its effort.

    Args:
        notebook: a released notebook.
        name: the cell's nbgrader `grade_id`.

    Raises:
        StubError: no such notebook or cell, no effort above it, or a cell that is no stub.
    """
    if not notebook.is_file():
        raise StubError(f"{notebook.name} is not there: run 'make exercises'")
    effort = None
    for cell in nbformat.read(notebook, as_version=4).cells:
        if cell.cell_type == "markdown":
            found = EFFORT.search(cell.source)
            effort = found.group(1) if found else effort
            continue
        grader = cell.metadata.get("nbgrader", {})
        if grader.get("grade_id") != name or not grader.get("solution"):
            continue
        if "raise NotImplementedError" not in cell.source:
            raise StubError(f"cell {name} of {notebook.name} is no stub, so it is not shown")
        if effort is None:
            raise StubError(f"no line '*N points, easy, about M minutes*' above {name}")
        return cell.source, effort
    raise StubError(f"{notebook.name} has no solution cell named {name}")


class ExerciseStub(SphinxDirective):
    """Shows one stub under a line with its points, difficulty and minutes."""

    required_arguments = 2

    def run(self) -> list[nodes.Node]:
        assignment, name = self.arguments
        relative = f"exercises/{assignment}/{assignment}.ipynb"
        notebook = Path(self.env.srcdir) / relative
        self.env.note_dependency(str(notebook))
        try:
            source, effort = read_stub(notebook, name)
        except StubError as error:
            raise self.error(f"exercise-stub: {error}") from error
        box = nodes.container(classes=["exercise-stub"])
        caption = nodes.paragraph(classes=["exercise-caption"])
        caption += nodes.literal(text=name)
        caption += nodes.Text(f" · {effort} · in ")
        caption += nodes.literal(text=relative)
        box += caption
        code = nodes.literal_block(source, source, language="python")
        box += code
        return [box]


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("exercise-stub", ExerciseStub)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
