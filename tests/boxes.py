"""A small released notebook about boxes, and submissions made from it."""

import copy
import json

from autograder.reading.submission import read, released

STUB = "def area(w, h):\n    # YOUR CODE HERE\n    raise NotImplementedError()"
STUB_2 = (
    "class Box:\n    def size(self):\n        # YOUR CODE HERE\n        raise NotImplementedError()"
)
CHECK = "assert area(2, 3) == 6\nprint('fine')"
CHECK_2 = "assert Box().size() == 1"
ANSWER = "def area(w, h):\n    return w * h"
ANSWER_2 = "class Box:\n    def size(self):\n        return 1"


def cell(source, grade_id=None, kind="code", **flags):
    made = {"cell_type": kind, "metadata": {}, "source": source}
    if kind == "code":
        made.update(outputs=[], execution_count=None)
    if grade_id is not None:
        made["metadata"]["nbgrader"] = {"grade_id": grade_id, "schema_version": 3, **flags}
    return made


def notebook(*cells):
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": list(cells)}


RELEASED_NOTEBOOK = notebook(
    cell("# Boxes: `area = w * h`", kind="markdown"),
    cell("import math\nSIDE = 2"),
    cell(STUB, "area", solution=True),
    cell(CHECK, "test_area", grade=True, locked=True),
    cell(STUB_2, "Box", solution=True),
    cell(CHECK_2, "test_Box", grade=True, locked=True),
    cell("shown = area(1, 2)"),
    cell("print(shown)"),
    cell("def lazy():\n    return area(1, 1)"),
)


def released_in(folder):
    """The released notebook, read from a file in `folder`."""
    path = folder / "released.ipynb"
    path.write_text(json.dumps(RELEASED_NOTEBOOK))
    return released(path)


def hand_in_to(folder, base, content):
    """Write bytes, text or a notebook as a submission and read it."""
    path = folder / "boxes.ipynb"
    if isinstance(content, dict | list):
        content = json.dumps(content)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read(path, base)


def filled(**answers):
    """The released notebook with sources replaced by grade id."""
    made = copy.deepcopy(RELEASED_NOTEBOOK)
    for item in made["cells"]:
        grade_id = item["metadata"].get("nbgrader", {}).get("grade_id")
        item["source"] = answers.get(grade_id, item["source"])
    return made


DONE = filled(area=ANSWER, Box=ANSWER_2)


def sources(submission, origin=None):
    return [c.source for c in submission.cells if origin in (None, c.origin)]


def is_done(submission):
    return (
        submission.missing == []
        and submission.untouched == set()
        and sources(submission, "solution")[-2:] == [ANSWER, ANSWER_2]
        and STUB not in sources(submission)
        and CHECK not in sources(submission)
    )
