"""Grade trusted code in this process: the suite, without notebook, sandbox and worker.

`grade("layernorm", {"layer_norm": f})` runs the hidden tests of the exercises that the namespace
holds and gives one outcome per test, as the runner would.
"""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch

from autograder import course
from autograder.testing import plan
from autograder.testing import suite as suites
from autograder.testing.compare import Mismatch
from autograder.testing.student import LocalLink
from autograder.testing.verdict import LearnerError, Verdict, explain_error
from autograder.worker import protocol, serve

torch.set_num_threads(1)  # as the runner does


@dataclass(frozen=True)
class Graded:
    test: str
    exercise: str
    verdict: str
    points: float
    message: str = ""
    named: str | None = None


def gradable() -> list[str]:
    """The assignments that can be graded here: all, or all but those that need Triton."""
    triton = importlib.util.find_spec("triton") is not None
    return [name for name in course.names() if triton or name != "triton_kernels"]


def load(assignment: str) -> suites.Suite:
    suite = _load(assignment)
    if suite.kernels:
        from kernel_sanitizer import sanitizer

        sanitizer.install()  # another test may have taken it out
    return suite


@cache
def _load(assignment: str) -> suites.Suite:
    return suites.load(assignment)


def grade(assignment: str, namespace: Mapping[str, Any], **settings: Any) -> list[Graded]:
    """Run every test whose exercise is a name in `namespace`. Test bugs raise."""
    return list(outcomes(assignment, namespace, **settings))


def outcomes(
    assignment: str,
    namespace: Mapping[str, Any],
    *,
    seed: int = 1,
    recognise: bool = True,
    planned: bool = True,
) -> Iterator[Graded]:
    """As `grade`, one test at a time: who has seen enough need not run the rest.

    planned: follow the tests' plans, as the runner does.
    """
    suite = load(assignment)
    told: dict[str, list[str]] = {name: [] for name in suite.exercises}
    for test in suite.tests:
        if test.exercise not in namespace:
            continue
        named, message, verdict = None, "", Verdict.PASS
        try:
            steps = suite.plan(test, seed) if planned else None
            plan.run(steps, LocalAsker(namespace), partial(test.run, seed=seed))
        except Mismatch as error:
            verdict, message = Verdict.WRONG, error.message
            if recognise:
                said = told[test.exercise]
                known = suite.recognise(test, seed, error.index, error.got, said)
                named = known.name if known else None
                said += [named] if named else []
        except LearnerError as error:
            outcome = explain_error(error, None)
            verdict, message = outcome.verdict, outcome.message or ""
        except AssertionError as error:
            verdict, message = Verdict.WRONG, str(error)
        points = test.points if verdict == Verdict.PASS else 0.0
        yield Graded(test.name, test.exercise, str(verdict), points, message, named)


class LocalAsker(LocalLink):
    """Answers the calls of a plan by trusted code in this process."""

    def asking(self, calls: Sequence[plan.Call]) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def ask(self, call: plan.Call) -> Any:
        wire = Wire()
        protocol.send_calls(wire, 1, [call.frame])
        header, request = protocol.receive(wire, serve.QUESTION, from_grader=True)
        return self.perform(call.name, header["op"], request)


class Wire:
    """A socket that gives back what it was sent."""

    sent = b""

    def sendall(self, data: bytes) -> None:
        self.sent += data

    def recv(self, size: int) -> bytes:
        data, self.sent = self.sent[:size], self.sent[size:]
        return data


def score(results: list[Graded]) -> float:
    return sum(r.points for r in results)
