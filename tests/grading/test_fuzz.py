"""Damaged notebooks and damaged frames, through the real code from end to end.

A notebook goes from bytes on disk through the reader, the search for library calls and the
assembling of a result to every report. A frame goes from the socket through the link, the
comparison and the words for the learner. Each ends in a grade or in one line, soon.
`test_submission_fuzz.py` and `test_protocol.py` fuzz the two readers alone.
"""

from __future__ import annotations

import json
import socket
import struct
import tempfile
import time
from dataclasses import asdict
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch
from attack_class import reference_sources, released
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from in_process import load

from autograder import forbidden
from autograder.grading.link import REPLY_KEYS, RemoteLink
from autograder.grading.result import Unit, assemble
from autograder.reading import submission
from autograder.reports import report
from autograder.testing.compare import Mismatch, expect
from autograder.testing.student import Student
from autograder.testing.verdict import LearnerError, Outcome, Verdict, WorkerLost, explain_error
from autograder.worker import protocol

ASSIGNMENT = "layernorm"
SOAK = 10_000
QUICK = {
    "deadline": None, "derandomize": True,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}  # fmt: skip
LONG = QUICK | {"derandomize": False, "max_examples": SOAK}
MOST_SECONDS = 10.0  # of processor time, for one example


# -- notebooks ---------------------------------------------------------------------------------

LINES = [
    "def layer_norm(x, weight, bias, eps):\n    return x",
    "class LayerNorm(nn.LayerNorm): pass",
    "layer_norm = lambda *a: torch.nn.functional.layer_norm(*a)  # </script><script>alert(1)",
    "layer_norm: int\nlayer_norm += 1",
    "def layer_norm(:",
    "%%<b>\n!ls\n%timeit x",
    "raise ValueError('\x1b[2J')  # \u202e\u2028",
    "exec(b'\\xff')\n" + "(" * 150,
    "x = " + "-" * 300 + "1",
    "x = " + "a." * 400 + "b",
    "x\0y",
    "\tdef f(): pass\r\r\n\f",
    "f'{f\"{x!r:{y}}\"}'",
    "match x:\n case {**layer_norm}: pass",
    "from torch.nn.functional import *\nfrom . import x\nimport torch.nn as layer_norm",
    "    >>> layer_norm = 1",
    "async def layer_norm(): await x",
    "globals()['layer_norm'] = torch.layer_norm",
    "@layer_norm\nclass LayerNorm(metaclass=LayerNorm): layer_norm = LayerNorm",
]
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**30), 10**30), st.floats(), st.text(max_size=30),
    st.sampled_from(LINES),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)
KEYS = ("cell_type", "source", "metadata", "outputs", "id", "execution_count", "attachments")
FIELDS = ("grade_id", "grade", "solution", "locked", "points", "schema_version", "task", "score")
# (what to do, which cell, a number, a value)
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(
            ["set", "drop", "field", "double", "move", "delete", "line", "wrap", "huge", "top"]
        ),
        st.integers(0, 99), st.integers(0, 99), VALUES,
    ),
    max_size=8,
)  # fmt: skip
ENCODINGS = st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32", "latin-1"])
DAMAGE = st.lists(st.tuples(st.floats(0, 1), st.binary(max_size=4)), max_size=4)
FORMATS = st.sampled_from([4, 3, 2, 5, 0, -1, "4", None])


def changed(changes: list, number: Any, right: bool) -> dict[str, Any]:
    """The released notebook (or the solved one) after `changes`, said to be of format `number`."""
    notebook = released()
    if right:
        for cell in notebook["cells"]:
            name = cell["metadata"].get("nbgrader", {}).get("grade_id")
            cell["source"] = solved().get(name, cell["source"])
    cells = notebook["cells"]
    for what, where, how, value in changes:
        if not cells:
            break
        at = where % len(cells)
        cell = cells[at]
        if what == "delete":
            del cells[at]
        elif what == "double":
            cells.insert(how % len(cells), json.loads(json.dumps(cell)))
        elif what == "move":
            cells.insert(how % len(cells), cells.pop(at))
        elif what == "wrap":
            cells[at] = value
        elif what == "top":
            notebook[
                ("metadata", "nbformat", "worksheets", "cells_", "nbformat_minor")[how % 5]
            ] = value
        elif not isinstance(cell, dict):
            continue
        elif what == "set":
            cell[KEYS[how % len(KEYS)]] = value
        elif what == "drop":
            cell.pop(KEYS[how % len(KEYS)], None)
        elif what == "line":
            cell["cell_type"], cell["source"] = "code", LINES[how % len(LINES)]
        elif what == "huge":
            cell["source"] = (LINES[how % len(LINES)] + "\n") * (40 * (1 + how))
        elif isinstance(cell.get("metadata"), dict):
            cell["metadata"]["nbgrader"] = {FIELDS[how % len(FIELDS)]: value}
    if number in (2, 3):
        notebook["worksheets"] = [{"cells": notebook.pop("cells")}]
    return notebook | {"nbformat": number}


def as_bytes(notebook: dict[str, Any], encoding: str, damage: list) -> bytes:
    data = bytearray(json.dumps(notebook, ensure_ascii=encoding == "latin-1").encode(
        encoding, "surrogatepass" if encoding.startswith("utf") else "replace"
    ))  # fmt: skip
    for place, junk in damage:
        at = int(place * len(data))
        data[at : at + len(junk)] = junk
    return bytes(data)


@pytest.fixture(scope="module", autouse=True)
def compiled_templates():
    """Compile the pages' templates once: for each example anew it would be most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "_Pages", cache(report._Pages))
        yield


solved = cache(reference_sources)


@cache
def given_out() -> submission.Released:
    return submission.released(Path(f"exercises/{ASSIGNMENT}/{ASSIGNMENT}.ipynb").resolve())


class _Live(HTMLParser):
    """Collects what would act in a browser."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        acts = [k for k, v in attrs if k.startswith("on") or "javascript:" in (v or "").casefold()]
        if tag in ("script", "iframe", "object", "embed", "img", "form", "base") or acts:
            self.found.append(f"{tag} {acts}")


def graded_to_the_end(data: bytes) -> dict[str, Any]:
    """Read, search, assemble and report one notebook, without running it."""
    suite = load(ASSIGNMENT)
    unit = Unit(1, "x", 1)
    started = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "layernorm.ipynb")
        path.write_bytes(data)
        try:
            read = submission.read(path, given_out())
        except submission.Unreadable as error:
            unit.reason = str(error)
        else:
            for found in forbidden.find(read.cells, suite.exercises, suite.one_loop):
                unit.review.append(
                    {"exercise": found.exercise, "kind": "suspicious", "line": found.line,
                     "detail": found.detail}
                )  # fmt: skip
            unit.notices, unit.sha256 = read.notices, read.sha256
            lines = [line for cell in read.cells for line in cell.source.splitlines()[:3]]
            for i, _ in enumerate(suite.tests):
                error = LearnerError("ValueError", 1, 1, "layer_norm")
                line = lines[i % len(lines)][:120] if lines else None
                unit.outcomes.append(
                    asdict(Outcome(Verdict.PASS) if i % 2 else explain_error(error, line))
                )
        result = assemble(suite, unit)
        graded = {
            "assignment": ASSIGNMENT, "suite_version": "1", "grader_version": "1", "seed": 1,
            "protections": [], "submissions": [{"student": "s", "file": "x.ipynb", **result}],
        }  # fmt: skip
        report.write_report(graded, Path(folder, "results"))
        for page in Path(folder, "results").rglob("*.html"):
            live = _Live()
            live.feed(page.read_text(encoding="utf-8"))
            assert not live.found, live.found
        report.class_table(graded)
    assert time.process_time() - started < MOST_SECONDS
    return result


def check_notebook(changes: list, number: Any, right: bool, encoding: str, damage: list) -> None:
    result = graded_to_the_end(as_bytes(changed(changes, number, right), encoding, damage))
    if result["status"] == "graded":
        assert 0 <= result["score"] <= result["max_score"] == 20.0
        assert result["score"] == sum(e["score"] for e in result["exercises"])
    else:
        assert result["reason"] and "\n" not in result["reason"] and result["score"] is None
        assert len(result["reason"]) <= 300
    assert all("\n" not in notice for notice in result["notices"])


NOTEBOOKS = given(CHANGES, FORMATS, st.booleans(), ENCODINGS, DAMAGE)


@settings(max_examples=60, **QUICK)
@NOTEBOOKS
@example([], 4, True, "utf-8", [])
@example([("huge", 9, 99, None)], 4, True, "utf-8", [])
@example([("wrap", 5, 0, None), ("top", 0, 0, [1])], 3, False, "utf-16", [(0.5, b"\0\xff")])
def test_a_damaged_notebook_ends_in_a_result_and_in_pages_that_do_nothing(
    changes, number, right, encoding, damage
):
    check_notebook(changes, number, right, encoding, damage)


@pytest.mark.soak
@settings(**LONG)
@NOTEBOOKS
def test_ten_thousand_damaged_notebooks_end_so_too(changes, number, right, encoding, damage):
    check_notebook(changes, number, right, encoding, damage)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 50_000, "[" * 50_000, "-" * 90_000 + "1", "not " * 20_000 + "x", "a." * 45_000 + "b",
        "1" + "+1" * 45_000, "f(" * 20_000 + ")" * 20_000, "x = " + "'" * 99_999,
        "if x:\n" + "".join(" " * i + "if x:\n" for i in range(1, 400)), "9" * 90_000,
        "lambda: " * 10_000 + "1", "f'" + "{" * 20_000 + "'",
        "@a\n" * 30_000 + "def layer_norm(): 0",
        "\n".join(f"a{i} = a{i - 1}.x if a{i - 1} else a{i - 1}.y" for i in range(1, 2500)),
        "\n".join(f"def f{i}(): return f{i + 1}() + f{i + 2}()" for i in range(2500)),
        "def layer_norm():\n" + "\n".join(f" x{i} = torch.a{i}, *x{i - 1}" for i in range(1, 3000)),
        " " * 90_000 + "x", "\\\n" * 40_000, ">>> " + "." * 90_000, "\t" * 300 + "x\n" * 20_000,
    ],
    ids=range(20),
)  # fmt: skip
def test_cells_made_to_be_slow_or_deep_end_soon(text):
    notebook = changed([], 4, True)
    notebook["cells"].append({"cell_type": "code", "source": text, "metadata": {}, "outputs": []})
    result = graded_to_the_end(json.dumps(notebook).encode())
    assert result["status"] == "graded", result["reason"]


# -- frames ------------------------------------------------------------------------------------

X = torch.arange(12.0).reshape(3, 4)
GOOD_VALUES = [
    X, X.t(), X[:, ::2], (X, X[0], X[1]), {"weight": X[0], "bias": X[1]}, None, 1.5, True, "text",
    [[1, [2.5, None]], {"a": torch.float16}], torch.zeros(0, 3), X.bool(), X[:1].expand(3, 4),
]  # fmt: skip
WORDS = st.sampled_from(
    ["tensor", "shape", "stride", "list", "tuple", "dict", "str", "float", "dtype", "nan", "call",
     "error", "seen", "value", "type", "cell", "line", "ValueError", "Unsendable", "returned",
     "float64", "native_layer_norm", "weight", "\ud800", ""]
)  # fmt: skip
NUMBERS = st.one_of(
    st.integers(-3, 5), st.sampled_from([1 << 31, 1 << 39, 1 << 63, 10**19, -(1 << 63), 10**400])
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, st.floats(), WORDS),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=12,
)
DTYPES = st.one_of(WORDS, st.sampled_from(["float32", "bool", "int8"]))
SHAPES = st.one_of(st.sampled_from([[3, 4], [12], [2, 6]]), st.lists(NUMBERS, max_size=4))
NODES = st.recursive(
    st.one_of(
        JSON,
        st.fixed_dictionaries({"tensor": DTYPES, "shape": SHAPES}),
        st.fixed_dictionaries({"tensor": DTYPES, "shape": SHAPES, "stride": SHAPES}),
    ),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"list": st.lists(inner, max_size=4)}),
        st.fixed_dictionaries({"tuple": st.lists(inner, max_size=4)}),
        st.fixed_dictionaries({"dict": st.lists(st.tuples(WORDS, inner), max_size=3)}),
    ),
    max_leaves=8,
)  # fmt: skip
ERRORS = st.one_of(
    st.none(), JSON, st.fixed_dictionaries({"type": WORDS, "cell": NUMBERS, "line": NUMBERS})
)
# ("bytes", a good value, damage) or ("parts", header parts, tensors in the body)
FRAMES = st.one_of(
    st.tuples(
        st.just("bytes"), st.integers(0, len(GOOD_VALUES) - 1),
        st.lists(st.tuples(st.floats(0, 1), st.binary(max_size=3)), max_size=6), st.floats(0, 1),
    ),
    st.tuples(
        st.just("parts"), st.tuples(st.one_of(st.just(1), JSON), ERRORS, JSON, NODES),
        st.integers(0, 4), st.dictionaries(WORDS, JSON, max_size=1),
    ),
)  # fmt: skip


def frame_of(plan: tuple) -> bytes:
    if plan[0] == "bytes":
        _, index, damage, cut = plan
        parts: list[bytes] = []
        value = protocol.encode(GOOD_VALUES[index], parts)
        header: dict[str, Any] = {"call": 1, "error": None, "seen": [], "value": value}
        body = b"".join(parts)
        text = json.dumps(header).encode()
        data = bytearray(struct.pack("!II", len(text), len(body)) + text + body)
        for place, junk in damage:
            at = int(place * len(data))
            data[at : at + len(junk)] = junk
        return bytes(data[: int(len(data) * max(cut, 0.02))] if cut < 0.3 else data)
    _, (call, error, seen, value), count, extra = plan
    header = {"call": call, "error": error, "seen": seen, "value": value} | extra
    body = bytes(X.nbytes * count)
    text = json.dumps(header).encode()
    return struct.pack("!II", len(text), len(body)) + text + body


def answered(data: bytes) -> str:
    """The verdict of a test whose one question gets `data` for an answer."""
    suite = load(ASSIGNMENT)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.settimeout(600)
        theirs.sendall(data)
        theirs.shutdown(socket.SHUT_WR)
        link = RemoteLink(ours, suite, time.monotonic() + 5)
        student = Student(link)
        try:
            got = student.layer_norm(X, X[0], X[0], 1e-5)
            for want in (X, (X, X[0], X[0]), {"weight": X[0]}, 1.5, 2, True, None, "text"):
                try:
                    expect(got, want)
                except Mismatch as mismatch:
                    assert "\n" not in mismatch.message and len(mismatch.message) < 400
        except LearnerError as error:
            outcome = explain_error(error, "x")
            assert "\n" not in outcome.message and len(outcome.message) < 400
            return str(outcome.verdict)
        except WorkerLost as lost:
            assert "\n" not in lost.message
            return str(lost.verdict)
        assert link.seen <= suite.refusable
    return "compared"


def check_frame(plan: tuple) -> None:
    try:
        data = frame_of(plan)
    except ValueError:  # more digits than Python writes
        return
    started = time.process_time()
    assert answered(data) in ("compared", "crashed", "error", "wrong", "not-implemented", "timeout")
    assert time.process_time() - started < MOST_SECONDS


GOOD = {"tensor": "float32", "shape": [3, 4]}
HUGE = {"tensor": "float32", "shape": [1 << 39, 1 << 39, 0], "stride": [0, 0, 1]}


@settings(max_examples=400, **QUICK)
@given(FRAMES)
@example(("parts", (1, None, [], GOOD), 1, {}))
@example(("parts", (1, None, [], HUGE), 1, {}))
@example(("parts", (1, {"type": "ValueError", "cell": 1, "line": 1 << 62}, [], None), 0, {}))
@example(("parts", (True, None, {"native_layer_norm": 1}, {"list": [GOOD] * 3}), 1, {}))
@example(("bytes", 3, [(0.5, b"\xff")], 0.9))
def test_a_damaged_reply_ends_in_a_verdict(plan):
    check_frame(plan)


@pytest.mark.soak
@settings(**LONG)
@given(FRAMES)
def test_ten_thousand_damaged_replies_end_so_too(plan):
    check_frame(plan)


START = st.one_of(
    NODES, st.fixed_dictionaries({"list": st.lists(st.one_of(NODES, ERRORS), max_size=4)})
)


@settings(max_examples=100, **QUICK)
@given(START)
@example({"list": [None, 1, {"list": []}, {"dict": [["type", None]]}]})
def test_a_damaged_report_of_failed_cells_is_left_out_or_ends_the_worker(value):
    header = {"call": 1, "error": None, "seen": [], "value": value}
    try:
        text = json.dumps(header).encode()
    except ValueError:
        return
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(struct.pack("!II", len(text), 0) + text)
        theirs.shutdown(socket.SHUT_WR)
        link = RemoteLink(ours, load(ASSIGNMENT), time.monotonic() + 5)
        try:
            failures = link.start([], 1)
        except (WorkerLost, LearnerError):
            return
        assert type(failures) is list


def test_the_header_keys_fuzzed_here_are_those_of_a_reply():
    assert sorted(REPLY_KEYS) == ["call", "error", "seen"]
