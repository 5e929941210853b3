"""Everyday code around and inside right answers: full marks, and nothing for a person to look at.

`tests/honest/<assignment>/<style>.py` is what one learner changed in the released notebook, cell
by cell. Each cell begins with a line that says where it is and what is everyday about it:

    # %% layer_norm: statistics in a dataclass
    # %% first: a drive is mounted
    # %% added: a comparison with the library

A graded name stands for the cell of its answer, `first` for a new cell before all others, `added`
for one more cell after the last of these. The line `### REFERENCE` in a cell stands for the
reference solution. A file more is a notebook more: nothing here has to be told of it.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from in_process import gradable

from autograder import forbidden, release
from autograder.reading import magics, submission
from autograder.testing import suite

ROOT = release.ROOT
FOLDER = Path(__file__).resolve().parents[1] / "honest"
MARK = re.compile(r"^# %% (\w+): (.+)\n", re.MULTILINE)


@dataclass(frozen=True)
class Idiom:
    """One cell. assignment, style: where it stands. place: a graded name, "first" or "added"."""

    assignment: str
    style: str
    place: str
    about: str
    source: str

    def __str__(self) -> str:
        return f"{self.assignment}, {self.style}: {self.about}"


def _idioms() -> list[Idiom]:
    found = []
    for path in sorted(FOLDER.glob("*/*.py")):
        _, *parts = MARK.split(path.read_text(encoding="utf-8"))
        for place, about, source in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
            answer = release.solution_cells(path.parent.name).get(place, "")
            source = source.replace("### REFERENCE", answer.strip()).strip("\n")
            found.append(Idiom(path.parent.name, path.stem, place, about, source))
    return found


IDIOMS = [idiom for idiom in _idioms() if idiom.assignment in gradable()]
STYLES = sorted({(idiom.assignment, idiom.style) for idiom in IDIOMS})


@cache
def names(assignment: str) -> list[str]:
    return suite.load(assignment).exercises


# -- what a person is shown of the text --------------------------------------------------------


@pytest.mark.parametrize("idiom", IDIOMS, ids=str)
def test_an_everyday_idiom_is_no_line_for_a_person(idiom):
    source, _ = magics.to_python(idiom.source)
    assert source is None or magics.parse(source), "Python cannot read it"
    place = idiom.place if idiom.place in names(idiom.assignment) else None
    cell = submission.Cell(0, "solution" if place else "added", place, source or "")
    loops = suite.load(idiom.assignment).one_loop
    assert forbidden.find([cell], names(idiom.assignment), loops) == []


def test_there_are_idioms_for_every_assignment():
    assert {idiom.assignment for idiom in IDIOMS} == set(gradable())
    assert len({idiom.about for idiom in IDIOMS}) >= 80
    for idiom in IDIOMS:
        assert idiom.place in {"first", "added", *names(idiom.assignment)}, str(idiom)


LOOP = "def welford(x):\n    {}\n    for v in x:\n        update(v)\n    return m, m2\n"
NEARLY = {
    "a dictionary in a text": "eval('torch.__dict__')",
    "an own name in a text": "exec('def f(self): return self._C')",
    "a pattern of a dictionary": "match torch:\n    case object(__dict__=d): pass",
    "a pattern of sys.modules": "match sys:\n    case object(modules=m): pass",
    "sys.modules looked up": "m = sys.modules['torch']",
    "sys.modules handed on": "def f(self):\n    return self.modules",
    "sys.modules printed by whatever": "def print(d): keep(d)\nprint(sys.modules)",
    "sys.modules compared with an own class": "Mine() == sys.modules",
    "an import of a made name": "__import__('to' + 'rch').nn",
    "an import of torch's insides": "__import__('torch._C')",
    "import handed on": "f = __import__",
    "__main__ looked up": "f = table['__main__']",
    "a method of tensors": "torch.Tensor.sum = mine",
    "a loop of two rounds": LOOP.format("for i in range(2):\n      for v in x: update(i, v)"),
    "a generator that is used up": "def rows(x):\n    for v in x:\n        yield v\n"
    + LOOP.format("mean = list(rows(x))[-1]"),
    "an own print": "def print(v): update(v)\n" + LOOP.format("for v in x: print(v)"),
}


@pytest.mark.parametrize("source", NEARLY.values(), ids=NEARLY)
def test_what_only_looks_like_an_everyday_idiom_is_shown(source):
    cell = submission.Cell(0, "solution", "welford", "import sys, torch\n" + source)
    assert forbidden.find([cell], ["welford"], ["welford"]) != []


# -- what it earns -----------------------------------------------------------------------------


def notebook(assignment: str, style: str) -> dict:
    """The released notebook, solved, with the cells of this style."""
    book = json.loads((ROOT / "exercises" / assignment / f"{assignment}.ipynb").read_text())
    cells, first = book["cells"], 0
    places = {
        cell["metadata"].get("nbgrader", {}).get("grade_id"): cell
        for cell in cells
        if cell["cell_type"] == "code"
    }
    for name, source in release.solution_cells(assignment).items():
        places[name]["source"] = source
    at = len(cells)
    for idiom in IDIOMS:
        if (idiom.assignment, idiom.style) != (assignment, style):
            continue
        if idiom.place in places:
            places[idiom.place]["source"] = idiom.source
            at = cells.index(places[idiom.place]) + 1
            continue
        new = {
            "cell_type": "code", "id": f"own{len(cells)}", "metadata": {}, "outputs": [],
            "execution_count": None, "source": idiom.source,
        }  # fmt: skip
        cells.insert(first if idiom.place == "first" else at, new)
        first += idiom.place == "first"
        at += 1
    return book


@pytest.fixture(scope="module")
def graded(tmp_path_factory, request):
    """What came of every style that was asked for: one class for each assignment."""
    mine = [item for item in request.session.items if item.path == request.path]
    params = [item.callspec.params for item in mine if hasattr(item, "callspec")]
    chosen = sorted({(p["assignment"], p["style"]) for p in params if "style" in p})
    base = tmp_path_factory.mktemp("honest")
    for assignment, style in chosen:
        folder = base / assignment / style / assignment
        folder.mkdir(parents=True)
        text = json.dumps(notebook(assignment, style))
        (folder / f"{assignment}.ipynb").write_text(text, encoding="utf-8")
    found = {}
    for assignment in sorted({assignment for assignment, _ in chosen}):
        results = base / "results" / assignment
        command = [
            sys.executable, "-m", "autograder", "grade", assignment, "--no-gradebook",
            "--jobs", "2", "--submitted", str(base / assignment), "--results", str(results),
        ]  # fmt: skip
        run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)
        assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-2000:]
        data = json.loads((results / "results.json").read_text(encoding="utf-8"))
        found |= {(assignment, s["student"]): s for s in data["submissions"]}
    return found


@pytest.mark.parametrize(("assignment", "style"), STYLES)
def test_honest_work_has_full_marks_and_no_entry(graded, assignment, style):
    got = graded[assignment, style]
    tests = [t for e in got["exercises"] for t in e["tests"] if t["verdict"] != "pass"]
    assert [(t["name"], t["message"]) for t in tests] == [], got["notices"]
    assert got["review"] == []
    assert got["score"] == sum(e["max_score"] for e in got["exercises"])
