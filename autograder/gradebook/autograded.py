"""The notebook that nbgrader keeps in autograded/: what it shows, and what it must never show.

It is built from the released notebook, whose metadata can be trusted, and holds the learner's
source as plain text. It has no learner output, no learner HTML and no hidden test: nbgrader's
feedback page and formgrader pass all three through to the reader's browser.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

import nbformat
from nbformat import NotebookNode

from ..reading.released import TEST_PREFIX, grade_id, is_grade, is_solution
from ..reports.words import exercise_text, literal, plain
from .learner import Learner

NO_RESPONSE = "No response."
_SOURCE_LIMIT = 400_000
_HIDDEN = re.compile(
    r"^[^\n]*BEGIN HIDDEN TESTS.*?(?:END HIDDEN TESTS[^\n]*\n?|\Z)", re.DOTALL | re.MULTILINE
)


def build(released: NotebookNode, learner: Learner, result: Mapping[str, Any]) -> NotebookNode:
    """The autograded notebook of one submission; equal arguments give an equal notebook.

    released: the notebook learners were given, nbformat 4. Is not modified.
    result: one submission of the class file (see `engine`).
    """
    notebook = NotebookNode(released)
    notebook.cells = [NotebookNode(cell) for cell in released.cells]  # new down to where it differs
    exercises = {TEST_PREFIX + e["name"]: e for e in result["exercises"]}
    for cell in notebook.cells:
        cell.source = _HIDDEN.sub("", cell.source)
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
        if is_solution(cell) and result["status"] != "graded" and not learner.sources:
            cell.source = "# This submission could not be read."
        elif is_solution(cell) and grade_id(cell) in learner.sources:
            source = plain(learner.sources[grade_id(cell)], _SOURCE_LIMIT)
            cell.source = source if cell.cell_type == "code" else literal(source)
        elif is_grade(cell) and cell.cell_type == "code":
            text = (
                exercise_text(exercises[grade_id(cell)])
                if grade_id(cell) in exercises
                else "Not graded by the autograder; a person will grade this part."
            )
            stream = NotebookNode(output_type="stream", name="stdout", text=text + "\n")
            cell.outputs = [stream]
    notes = _notes(result)
    if notes:
        notebook.cells.insert(0, _markdown("autograder-notes", literal(notes)))
    if learner.added:
        notebook.cells.append(_markdown("added-0", "**Code cells that the learner added**"))
    for number, source in enumerate(learner.added, start=1):
        source = plain(source, _SOURCE_LIMIT)
        notebook.cells.append(nbformat.v4.new_code_cell(source, id=f"added-{number}"))
    if learner.texts:
        title = "**Text cells that the learner added or changed**"
        notebook.cells.append(_markdown("text-0", title))
    for number, text in enumerate(learner.texts, start=1):
        text = literal(plain(text, _SOURCE_LIMIT))
        notebook.cells.append(_markdown(f"text-{number}", text))
    return _with_ids(notebook)


def _notes(result: Mapping[str, Any]) -> str:
    lines = [plain(line, 500) for line in result.get("notices") or ()]
    if result["status"] != "graded":
        reason = plain(result.get("reason") or "no reason was recorded", 500)
        lines.insert(0, f"Not graded yet: {reason}")
    return "\n".join(lines)


def _markdown(name: str, source: str) -> NotebookNode:
    plain_dict = NotebookNode()  # nbformat's own maker checks what cannot be wrong
    return NotebookNode(id=name, cell_type="markdown", metadata=plain_dict, source=source)


def _with_ids(notebook: NotebookNode) -> NotebookNode:
    """Give every cell a stable id where the format has ids, and none where it has not."""
    notebook.nbformat = 4
    has_ids = notebook.nbformat_minor >= 5
    seen: set[str] = set()
    for index, cell in enumerate(notebook.cells):
        if not has_ids:
            cell.pop("id", None)
            continue
        name = cell.get("id") or hashlib.sha256(f"{index}".encode()).hexdigest()[:8]
        while name in seen:
            name = hashlib.sha256(f"{name}{index}".encode()).hexdigest()[:8]
        seen.add(name)
        cell["id"] = name
    return notebook


def dumps(notebook: NotebookNode) -> str:
    """The notebook as text, the same bytes nbconvert's notebook exporter gives."""
    if any("attachments" in cell for cell in notebook.cells):  # has rules of its own
        return nbformat.writes(notebook, version=nbformat.NO_CONVERT) + "\n"
    cells = ",\n  ".join(map(_cell_text, notebook.cells))
    rest = _pretty({name: value for name, value in notebook.items() if name != "cells"}, "\n")
    opened, _, fields = rest.partition("\n")
    return f'{opened}\n "cells": [\n  {cells}\n ],\n{fields}\n'


def _cell_text(cell: NotebookNode) -> str:
    """A cell as nbformat writes it: texts as lists of lines."""
    text = json.dumps(cell)
    return _short_cell(text) if len(text) <= _SHORT_CELL else _split_cell(text)


def _split_cell(cell: str) -> str:
    split = json.loads(cell)
    split["source"] = split["source"].splitlines(True)
    for output in split.get("outputs", ()):
        output["text"] = output["text"].splitlines(True)
    return _pretty(split, "\n  ")


_SHORT_CELL = 1 << 14
_short_cell = functools.lru_cache(maxsize=512)(_split_cell)  # most come again, learner by learner


def _pretty(value: Any, line: str) -> str:
    """What `json.dumps(..., indent=1, sort_keys=True)` gives, at a fraction of its time."""
    pieces: list[str] = []
    _add_pieces(value, line, pieces)
    return "".join(pieces)


def _add_pieces(value: Any, line: str, out: list[str]) -> None:
    if isinstance(value, str):
        out.append(_json_text(value))
    elif not value or not isinstance(value, dict | list):
        out.append(_json(value))
    else:
        inner, is_dict = f"{line} ", isinstance(value, dict)
        separator = ("{" if is_dict else "[") + inner
        for item in sorted(value) if is_dict else value:
            out.append(separator)
            if is_dict:
                out.append(f"{_json_text(item)}: ")
                item = value[item]
            _add_pieces(item, inner, out)
            separator = f",{inner}"
        out.append(line + ("}" if is_dict else "]"))


_json = json.JSONEncoder(ensure_ascii=False).encode
_json_text = json.encoder.encode_basestring
