"""What a class results file says when it is counted: per submission, per exercise, per mistake."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean, median
from typing import Any

from ..protections import PROTECTIONS

# Verdict -> what a learner reads. `VERDICTS` also fixes the order of columns.
VERDICTS = {
    "pass": "holds",
    "wrong": "does not hold yet",
    "error": "your code raised an error",
    "not-implemented": "not written yet",
    "timeout": "took too long",
    "memory": "used too much memory",
    "output-limit": "wrote too much to files",
    "crashed": "ended the Python process",
    "skipped": "was skipped",
    "internal-error": "could not be checked, which is not your fault",
}


@dataclass(frozen=True)
class Row:
    """One submission in short. counts: verdict -> tests, in the order of VERDICTS."""

    counts: Mapping[str, int]
    first_mistake: str | None
    reason: str | None


@dataclass
class Mistake:
    name: str
    message: str
    link: str | None
    students: list[str] = field(default_factory=list)


@dataclass
class TestCount:
    name: str
    title: str
    failed: int = 0
    total: int = 0


@dataclass
class Exercise:
    name: str
    max_score: float
    scores: list[float] = field(default_factory=list)
    mistakes: dict[str, Mistake] = field(default_factory=dict)
    tests: dict[str, TestCount] = field(default_factory=dict)
    unwritten: int = 0

    @property
    def mean(self) -> float | None:
        return mean(self.scores) if self.scores else None

    @property
    def bins(self) -> list[tuple[str, int]]:
        """How many submissions reached none, some, most or all of the points."""
        labels = ("no points", "less than half", "half or more", "full marks")
        counts = [0, 0, 0, 0]
        for score in self.scores:
            share = score / self.max_score if self.max_score else 1.0
            counts[3 if share >= 1 else 0 if share <= 0 else 1 if share < 0.5 else 2] += 1
        return list(zip(labels, counts, strict=True))

    @property
    def ranked_mistakes(self) -> list[Mistake]:
        return sorted(self.mistakes.values(), key=lambda m: (-len(m.students), m.name))

    @property
    def hard_tests(self) -> list[TestCount]:
        failed = [test for test in self.tests.values() if test.failed]
        return sorted(failed, key=lambda test: (-test.failed, test.name))


@dataclass(frozen=True)
class Summary:
    rows: Sequence[Row]
    exercises: Sequence[Exercise]
    graded: int
    ungraded: int
    review: int
    mean: float | None
    median: float | None
    max_score: float


def summarize(class_results: Mapping[str, Any], released: Mapping[str, float]) -> Summary:
    """Count a class. released: exercise -> points, for exercises no graded submission holds."""
    exercises = {name: Exercise(name, full) for name, full in released.items()}
    rows = []
    for submission in class_results["submissions"]:
        rows.append(_row(submission))
        for part in submission["exercises"]:
            name = part["name"]
            exercise = exercises.setdefault(name, Exercise(name, float(part["max_score"])))
            _count(exercise, part, submission["student"])
    scores = [s["score"] for s in class_results["submissions"] if s["score"] is not None]
    return Summary(
        rows=rows,
        exercises=list(exercises.values()),
        graded=len(scores),
        ungraded=len(rows) - len(scores),
        review=sum(bool(s.get("review")) for s in class_results["submissions"]),
        mean=mean(scores) if scores else None,
        median=median(scores) if scores else None,
        max_score=max((s["max_score"] for s in class_results["submissions"]), default=0.0),
    )


def _row(submission: Mapping[str, Any]) -> Row:
    tests = [(e, test) for e in submission["exercises"] for test in e["tests"]]
    found = Counter(test["verdict"] for _, test in tests)
    counts = {verdict: found[verdict] for verdict in VERDICTS if found[verdict]}
    failed = [(e, test) for e, test in tests if test["verdict"] != "pass"]
    named = [(e, test) for e, test in failed if test.get("misconception")]
    mistake = None
    if named:
        mistake = f"{named[0][0]['name']}: {named[0][1]['misconception']}"
    elif failed:
        exercise, test = failed[0]
        title = str(test.get("title") or test["name"])
        mistake = f"{exercise['name']}: {test['verdict']}"
        if test["verdict"] != "not-implemented":
            mistake += f" ({title.rstrip('.')})"
    elif submission.get("review"):
        entry = submission["review"][0]
        mistake = f"{entry.get('exercise') or 'submission'}: {entry['kind']}"
    return Row(counts, mistake, submission.get("reason"))


def _count(exercise: Exercise, part: Mapping[str, Any], student: str) -> None:
    exercise.scores.append(float(part["score"]))
    verdicts = {test["verdict"] for test in part["tests"]}
    exercise.unwritten += verdicts == {"not-implemented"}
    for test in part["tests"]:
        title = str(test.get("title") or test["name"])
        count = exercise.tests.setdefault(test["name"], TestCount(test["name"], title))
        count.total += 1
        count.failed += test["verdict"] != "pass"
        name = test.get("misconception")
        if name:
            mistake = exercise.mistakes.setdefault(
                name, Mistake(name, test.get("message") or "", test.get("link"))
            )
            if student not in mistake.students:
                mistake.students.append(student)


def protections(class_results: Mapping[str, Any]) -> tuple[list[str], list[tuple[str, str]]]:
    """(names of those that were on, (name, what it would prevent) of those that were off)."""
    on = [str(name) for name in class_results.get("protections") or ()]
    named = set(on)
    if "namespaces" in named:
        named |= {name for name in PROTECTIONS if name.endswith("-namespace")}
    off = [(n, p.keeps_from) for n, p in PROTECTIONS.items() if p.keeps_from and n not in named]
    return on, off
