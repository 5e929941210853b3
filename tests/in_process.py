"""Grade trusted code in this process: the suite, without notebook, sandbox and worker.

`grade("layernorm", {"layer_norm": f})` runs the hidden tests of the exercises that the namespace
holds and gives one outcome per test, as the runner would.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from autograder import suite as suites
from autograder.compare import Mismatch, recording
from autograder.student import Student
from autograder.verdict import LearnerError, Verdict, explain_error


@dataclass(frozen=True)
class Graded:
    test: str
    exercise: str
    verdict: str
    points: float
    message: str = ""
    named: str | None = None


@cache
def load(assignment: str) -> suites.Suite:
    return suites.load(assignment)


def grade(
    assignment: str, namespace: Mapping[str, Any], *, seed: int = 1, recognise: bool = True
) -> list[Graded]:
    """Run every test whose exercise is a name in `namespace`. Test bugs raise."""
    suite = load(assignment)
    results = []
    for test in suite.tests:
        if test.exercise not in namespace:
            continue
        named, message, verdict = None, "", Verdict.PASS
        try:
            with recording(judging=True):
                test.run(Student.local(namespace), seed)
        except Mismatch as error:
            verdict, message = Verdict.WRONG, error.message
            if recognise:
                known = suite.recognise(test, seed, error.index, error.got)
                named = known.name if known else None
        except LearnerError as error:
            outcome = explain_error(error, None)
            verdict, message = outcome.verdict, outcome.message or ""
        except AssertionError as error:
            verdict, message = Verdict.WRONG, str(error)
        points = test.points if verdict == Verdict.PASS else 0.0
        results.append(Graded(test.name, test.exercise, str(verdict), points, message, named))
    return results


def score(results: list[Graded]) -> float:
    return sum(r.points for r in results)
