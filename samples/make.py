"""Generates the sample class: `python -m samples.make`, or `--check` to compare with what is there.

Every student hands in one kind of thing: a right answer in another style, one common mistake, a
damaged file, an attack. `EXPECTED` says what the grader must find for each. The notebooks are made
from the released one, so they must be made again when it changes.
"""

import argparse
import copy
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from samples import answers

ROOT = Path(__file__).resolve().parent
RELEASED = ROOT.parent / "exercises" / "layernorm" / "layernorm.ipynb"
SUBMITTED = ROOT / "submitted"
EXERCISES = ("layer_norm", "LayerNorm", "layer_norm_backward")
Share = Literal["full", "partial", "zero"]
Notebook = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What the grader must find.

    outcome: of the whole submission; "ungraded" has no score.
    exercises: share of the points of each exercise, in the order of EXERCISES.
    misconceptions: (exercise, name) pairs that feedback must name; "a+b" holds a and b.
    verdicts: (exercise, verdict) pairs of which at least one test must have the verdict.
    review: (exercise, kind) pairs of the review list.
    notice, reason: words that stand in a notice, or in the reason of an ungraded one.
    """

    outcome: Literal["full", "partial", "zero", "ungraded"]
    exercises: tuple[Share, ...] = ()
    misconceptions: tuple[tuple[str, str], ...] = ()
    verdicts: tuple[tuple[str, str], ...] = ()
    review: tuple[tuple[str, str], ...] = ()
    notice: str | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Student:
    """One submission: what it is, how it is made, what must come out."""

    about: str
    expected: Expected
    cells: dict[str, str] = field(default_factory=dict)  # grade_id -> text of the solution cell
    change: Callable[[Notebook], Notebook] = lambda notebook: notebook
    encode: Callable[[Notebook], bytes] | None = None
    name: str = "layernorm.ipynb"


FULL = Expected(outcome="full", exercises=("full", "full", "full"))
RIGHT = {
    "layer_norm": answers.PLAIN,
    "LayerNorm": answers.MODULE,
    "layer_norm_backward": answers.BACKWARD,
}
OWN_MODULE = {**RIGHT, "LayerNorm": answers.MODULE_ON_ITS_OWN}


def _mistake(exercise: str, *names: str, **more: Any) -> Expected:
    """One exercise loses points for named reasons, the others do not."""
    shares = tuple("partial" if name == exercise else "full" for name in EXERCISES)
    pairs = tuple((exercise, name) for name in names)
    return Expected(
        outcome="partial", exercises=more.pop("exercises", shares), misconceptions=pairs, **more
    )


def _nothing_for_layer_norm(**more: Any) -> Expected:
    return Expected(outcome="partial", exercises=("zero", "full", "full"), **more)


# --- what happens to the notebook ----------------------------------------------------------------


def _encode(notebook: Notebook) -> bytes:
    return (json.dumps(notebook, indent=1, ensure_ascii=False) + "\n").encode()


def _lines(text: str) -> list[str]:
    return text.strip("\n").splitlines(keepends=True)


def _code(text: str, name: str) -> dict[str, Any]:
    return {
        "cell_type": "code", "execution_count": None, "id": name, "metadata": {}, "outputs": [],
        "source": _lines(text),
    }  # fmt: skip


def _grade_id(cell: dict[str, Any]) -> str | None:
    return cell["metadata"].get("nbgrader", {}).get("grade_id")


def _duplicated(notebook: Notebook) -> Notebook:
    """Check and text cells deleted, stubs still there, answers copied below with ids lost."""
    stubs = json.loads(RELEASED.read_text(encoding="utf-8"))["cells"]
    stubs = [cell for cell in stubs if _grade_id(cell) in EXERCISES]
    written = [copy.deepcopy(c) for c in notebook["cells"] if _grade_id(c) in EXERCISES]
    for number, cell in enumerate(written):
        cell["id"] = f"copy-{number}"
        cell["metadata"] = {} if number else cell["metadata"]  # the first keeps the stub's id
    notebook["cells"] = [*written[1:], *stubs, written[0], *written]
    notebook["cells"] = [dict(cell, id=f"cell-{i}") for i, cell in enumerate(notebook["cells"])]
    return notebook


def _forged(notebook: Notebook) -> Notebook:
    """Every metadata field that could say something about points says something else."""
    for cell in notebook["cells"]:
        meta = cell["metadata"].get("nbgrader")
        if meta is None:
            continue
        for flag in ("grade", "solution", "locked"):
            meta[flag] = not meta.get(flag)
        meta.update(points=1000, schema_version=7, checksum="0" * 32, task=True)
        if meta["grade_id"] in EXERCISES:
            meta["grade_id"] = f"test_{meta['grade_id']}"
    notebook["metadata"]["score"] = 1000
    return notebook


def _old_format(notebook: Notebook) -> bytes:
    """nbformat 3: worksheets, `input` instead of `source`, no metadata."""
    cells = []
    for cell in notebook["cells"]:
        text = "source" if cell["cell_type"] == "markdown" else "input"
        kept = {"cell_type": cell["cell_type"], text: cell["source"]}
        if text == "input":
            kept.update(language="python", outputs=[], collapsed=False)
        cells.append(kept)
    return _encode({"nbformat": 3, "nbformat_minor": 0, "metadata": {"name": ""},
                    "worksheets": [{"cells": cells}]})  # fmt: skip


def _windows(notebook: Notebook) -> bytes:
    """A byte order mark, CRLF between lines of the file and inside the cells."""
    for cell in notebook["cells"]:
        cell["source"] = [line.replace("\n", "\r\n") for line in cell["source"]]
    return b"\xef\xbb\xbf" + _encode(notebook).replace(b"\n", b"\r\n")


def _with_own_cells(notebook: Notebook) -> Notebook:
    """Magics, shell lines and a comparison with the library, in cells of their own."""
    cells = notebook["cells"]
    cells.insert(
        2, _code("%matplotlib inline\n!pip list | grep torch\n%load_ext autoreload", "own-1")
    )
    cells.insert(3, _code("%%bash\nls ~", "own-2"))
    for cell in cells:
        if _grade_id(cell) == "layer_norm":
            cell["source"] = ["%%time\n", *cell["source"]]
    compare = """
        import torch.nn.functional as F

        x = torch.randn(4, 8)
        ours = layer_norm(x, torch.ones(8), torch.zeros(8), 1e-5)
        print((ours - F.layer_norm(x, (8,))).abs().max())
        layer_norm?
    """
    lines = [line[8:] for line in compare.strip("\n").split("\n")]
    cells.append(_code("\n".join(lines).rstrip(), "own-3"))
    return notebook


def _truncated(notebook: Notebook) -> bytes:
    return _encode(notebook)[:5000]


STUDENTS: dict[str, Student] = {
    "student01": Student(
        "right, as the chapter has it, with both questions answered",
        Expected(outcome="full", exercises=FULL.exercises, notice="a person grades 2 written"),
        {**RIGHT, **answers.WRITTEN},
    ),
    "student02": Student(
        "right, with einsum",
        FULL,
        {
            "layer_norm": answers.EINSUM,
            "LayerNorm": answers.MODULE,
            "layer_norm_backward": answers.BACKWARD_EINSUM,
        },
    ),
    "student03": Student(
        "right, with torch.var_mean",
        FULL,
        {
            "layer_norm": answers.VAR_MEAN,
            "LayerNorm": answers.MODULE_ON_ITS_OWN,
            "layer_norm_backward": answers.BACKWARD_BY_THE_GRAPH,
        },
    ),
    "student04": Student(
        "right, as an autograd.Function with its own backward",
        FULL,
        {**RIGHT, "layer_norm": answers.AUTOGRAD_FUNCTION},
    ),
    "student05": Student(
        "variance divided by D - 1",
        _mistake("layer_norm", "unbiased-variance"),
        {**OWN_MODULE, "layer_norm": answers.UNBIASED},
    ),
    "student06": Student(
        "eps added outside the root",
        _mistake("layer_norm", "eps-outside-root"),
        {**OWN_MODULE, "layer_norm": answers.EPS_OUTSIDE},
    ),
    "student07": Student(
        "x.std(...) + eps, as in an article's listing",
        _mistake("layer_norm", "unbiased-variance", "eps-outside-root", "no-upcast"),
        {**OWN_MODULE, "layer_norm": answers.ARTICLE},
    ),
    "student08": Student(
        "normalizes over the batch",
        _mistake("layer_norm", "statistics-over-batch"),
        {**OWN_MODULE, "layer_norm": answers.WRONG_AXIS},
    ),
    "student09": Student(
        "weight and bias of the module are plain tensors",
        _mistake("LayerNorm", "parameters-not-registered"),
        {**RIGHT, "LayerNorm": answers.NOT_REGISTERED},
    ),
    "student10": Student(
        "weight and bias are not used",
        _mistake("layer_norm", "weight-forgotten", "bias-forgotten"),
        {**OWN_MODULE, "layer_norm": answers.NO_AFFINE},
    ),
    "student11": Student(
        "variance as mean of squares minus square of mean",
        _mistake("layer_norm", "one-pass-variance"),
        {**OWN_MODULE, "layer_norm": answers.ONE_PASS},
    ),
    "student12": Student(
        "half types computed in half precision",
        _mistake("layer_norm", "no-upcast"),
        {**OWN_MODULE, "layer_norm": answers.NO_UPCAST},
    ),
    "student13": Student(
        "backward without the mean of g",
        _mistake("layer_norm_backward", "mean-term-missing"),
        {**RIGHT, "layer_norm_backward": answers.NO_MEAN_TERM},
    ),
    "student14": Student(
        "backward without the x_hat term",
        _mistake("layer_norm_backward", "x-hat-term-missing"),
        {**RIGHT, "layer_norm_backward": answers.NO_X_HAT_TERM},
    ),
    "student15": Student(
        "weight gradient not summed over the rows",
        _mistake("layer_norm_backward", "not-summed-over-rows"),
        {**RIGHT, "layer_norm_backward": answers.NOT_REDUCED},
    ),
    "student16": Student(
        "x modified in place",
        _mistake("layer_norm", "input-modified"),
        {**OWN_MODULE, "layer_norm": answers.IN_PLACE},
    ),
    "student17": Student(
        "half done: the first exercise only",
        Expected(
            outcome="partial",
            exercises=("full", "zero", "zero"),
            verdicts=(
                ("LayerNorm", "not-implemented"),
                ("layer_norm_backward", "not-implemented"),
            ),
        ),
        {"layer_norm": answers.PLAIN},
    ),
    "student18": Student(
        "handed in untouched",
        Expected(
            outcome="zero",
            exercises=("zero", "zero", "zero"),
            verdicts=tuple((name, "not-implemented") for name in EXERCISES),
        ),
    ),
    "student19": Student(
        "downloaded twice: the file has another name",
        Expected(outcome="full", exercises=FULL.exercises, notice="layernorm (1).ipynb"),
        RIGHT,
        name="layernorm (1).ipynb",
    ),
    "student20": Student(
        "cells deleted, duplicated and moved, ids lost", FULL, RIGHT, change=_duplicated
    ),
    "student21": Student("points and ids edited", FULL, RIGHT, change=_forged),
    "student22": Student("from Windows: CRLF and BOM", FULL, RIGHT, encode=_windows),
    "student23": Student("nbformat 3, no metadata", FULL, RIGHT, encode=_old_format),
    "student24": Student(
        "half a download",
        Expected(outcome="ungraded", reason="stops in the middle"),
        RIGHT,
        encode=_truncated,
    ),
    "student25": Student(
        "an empty file", Expected(outcome="ungraded", reason="empty"), encode=lambda _: b""
    ),
    "student26": Student(
        "a PDF under the notebook's name",
        Expected(outcome="ungraded", reason="PDF"),
        encode=lambda _: b"%PDF-1.7\n%%EOF\n",
    ),
    "student27": Student(
        "one cell with a syntax error",
        _nothing_for_layer_norm(notice="syntax error"),
        {**OWN_MODULE, "layer_norm": answers.UNFINISHED},
    ),
    "student28": Student(
        "magics, shell lines, own comparison with the library",
        FULL,
        RIGHT,
        change=_with_own_cells,
    ),
    "student29": Student(
        "calls F.layer_norm",
        _nothing_for_layer_norm(
            review=(("layer_norm", "operator-seen"),), verdicts=(("layer_norm", "error"),)
        ),
        {**OWN_MODULE, "layer_norm": answers.LIBRARY},
    ),
    "student30": Student(
        "an endless loop",
        _nothing_for_layer_norm(verdicts=(("layer_norm", "timeout"),)),
        {**OWN_MODULE, "layer_norm": answers.ENDLESS},
    ),
    "student31": Student(
        "takes all memory it can get, up to 64 GiB",
        _nothing_for_layer_norm(verdicts=(("layer_norm", "memory"),)),
        {**OWN_MODULE, "layer_norm": answers.MEMORY_BOMB},
    ),
    "student32": Student(
        "ends the process with success",
        _nothing_for_layer_norm(verdicts=(("layer_norm", "crashed"),)),
        {**OWN_MODULE, "layer_norm": answers.EXIT},
    ),
    "student33": Student(
        "looks for the tests in files, frames, memory and environment",
        _nothing_for_layer_norm(),
        {**OWN_MODULE, "layer_norm": answers.READ_THE_TESTS},
    ),
    "student34": Student(
        "returns objects that are equal to everything",
        Expected(outcome="zero", exercises=("zero", "zero", "zero")),
        {
            "layer_norm": answers.AGREES,
            "LayerNorm": answers.AGREES_CLASS,
            "layer_norm_backward": answers.AGREES_BACKWARD,
        },
    ),
}

EXPECTED: dict[str, Expected] = {name: student.expected for name, student in STUDENTS.items()}


# --- making them ---------------------------------------------------------------------------------


def notebook_of(student: Student, released: Notebook) -> bytes:
    """The bytes the student hands in."""
    notebook = copy.deepcopy(released)
    for cell in notebook["cells"]:
        text = student.cells.get(_grade_id(cell) or "")
        if text is not None:
            cell["source"] = _lines(text)
    notebook = student.change(notebook)
    return (student.encode or _encode)(notebook)


def build() -> dict[str, bytes]:
    """All files of the class by their path below `samples/submitted`."""
    released = json.loads(RELEASED.read_text(encoding="utf-8"))
    return {
        f"{name}/layernorm/{student.name}": notebook_of(student, released)
        for name, student in STUDENTS.items()
    }


def differences() -> list[str]:
    """One line for each file that is missing, left over, or not what `build` gives."""
    files = build()
    there = {str(path.relative_to(SUBMITTED)) for path in SUBMITTED.rglob("*") if path.is_file()}
    lines = [f"left over: {name}" for name in sorted(there - set(files))]
    for name, data in files.items():
        if name not in there:
            lines.append(f"missing: {name}")
        elif (SUBMITTED / name).read_bytes() != data:
            lines.append(f"out of date: {name}")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--check", action="store_true", help="write nothing, exit 1 if anything differs"
    )
    if parser.parse_args().check:
        lines = differences()
        print("\n".join(lines) or f"{len(STUDENTS)} submissions are up to date")
        return 1 if lines else 0
    for line in differences():
        if line.startswith("left over: "):
            (SUBMITTED / line.removeprefix("left over: ")).unlink()
    for name, data in build().items():
        path = SUBMITTED / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    print(f"wrote {len(STUDENTS)} submissions to {SUBMITTED.relative_to(ROOT.parent)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
