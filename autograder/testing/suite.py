"""Load a hidden suite: its tests (collected by pytest), settings, reference and version."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import io
import os
import time
import tomllib
import types
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from .. import forbidden, versions
from ..course import ROOT, SUITES, names
from ..reading import submission
from ..worker import deny, protocol
from . import plan
from .allowance import Budget
from .compare import recording, same
from .student import Student

_QUICK = 0.02  # seconds; what a longer test does for the first time is little beside the rest


class SuiteError(Exception):
    """The suite cannot be used; the message is one line."""


@dataclass(frozen=True)
class Kernels:
    """That the notebook has Triton kernels, and why the kernel sanitizer is off (if it is)."""

    unwatched: str


@dataclass(frozen=True)
class HiddenTest:
    name: str
    title: str
    exercise: str
    points: float
    function: Callable[..., None]
    params: Mapping[str, Any]
    arguments: tuple[str, ...]

    def run(self, student: Student, seed: int) -> None:
        """Run the test body. `rng` is the same for every submission graded with `seed`."""
        digest = hashlib.sha256(f"{seed}:{self.exercise}:{self.name}".encode()).digest()
        known = {
            "student": student,
            "rng": torch.Generator().manual_seed(int.from_bytes(digest[:7], "big")),
            **self.params,
        }
        self.function(**{name: known[name] for name in self.arguments})


@dataclass
class Suite:
    assignment: str
    tests: list[HiddenTest]
    version: str
    budget: Budget
    by_hand: dict[str, frozenset[str]]  # exercise -> the sets of `deny` that it picks
    policy: str  # what they name is refused ("zero"), or noted for a person ("warn")
    reference: types.ModuleType
    exercises: list[str] = field(default_factory=list)
    kernels: Kernels | None = None
    advice: bool = False  # whether kernels are compiled for a GPU, after the tests
    one_loop: list[str] = field(default_factory=list)  # where a second loop is worth a look
    _replays: dict[tuple[str, str, int], list[Any]] = field(default_factory=dict)
    _plans: dict[tuple[str, str, int], plan.Plan | None] = field(default_factory=dict)

    @property
    def max_score(self) -> float:
        return sum(test.points for test in self.tests)

    @cached_property
    def released(self) -> submission.Released:
        return submission.released(self.notebook)

    @cached_property
    def for_all(self) -> frozenset[str]:
        """The sets that every exercise picks: also in force while torch's own layers are made."""
        return frozenset.intersection(*self.by_hand.values()) if self.by_hand else frozenset()

    @cached_property
    def refusable(self) -> frozenset[str]:
        """All that a worker may report to have been reached."""
        return deny.names(frozenset().union(*self.by_hand.values()))

    @property
    def notebook(self) -> Path:
        """The released notebook."""
        return ROOT / "exercises" / self.assignment / f"{self.assignment}.ipynb"

    @property
    def shortcomings(self) -> list[str]:
        """What this machine cannot check, as sentences for learner and instructor."""
        unwatched = self.kernels.unwatched if self.kernels else ""
        return [f"Faults of kernels are not looked for: {unwatched}."] if unwatched else []

    @cached_property
    def misconceptions(self) -> list[Any]:
        from ..misconceptions import load

        return load(self.assignment)

    def rehearse(self, seed: int = 0) -> None:
        """Run every test against the reference. Raises SuiteError if it does not pass.

        It also has done, before any fork, what is slow only the first time: in torch, in reading
        the released notebook, in looking through code.
        """
        stub = submission.read(self.notebook, self.released)
        forbidden.find(stub.cells, self.exercises, self.one_loop)
        _ = self.refusable
        student = Student.local(vars(self.reference))
        tests = self.tests
        for _ in range(3):
            tests = [test for test in tests if self._rehearse(test, student, seed) < _QUICK]

    def _rehearse(self, test: HiddenTest, student: Student, seed: int) -> float:
        """Run one test against the reference. Returns the seconds it took."""
        start = time.monotonic()
        try:
            test.run(student, seed)
        except Exception as error:
            raise SuiteError(
                f"the reference fails {test.exercise}/{test.name}: {type(error).__name__}"
            ) from error
        return time.monotonic() - start

    def frame(self, name: str, op: str, request: Mapping[str, Any]) -> protocol.Frame:
        """What is sent to a worker to have it perform `op` for the learner's `name`."""
        sets = self.by_hand.get(name, self.for_all)
        return protocol.frame({"op": op, "deny": sorted(sets)}, request)

    def plan(self, test: HiddenTest, seed: int) -> plan.Plan | None:
        """What `test` asks and expects, where its replies do not decide on that; else None."""
        key = (test.exercise, test.name, seed)
        if key not in self._plans:
            self._plans[key] = plan.make(lambda student: test.run(student, seed), self.frame)
        return self._plans[key]

    def recognise(
        self, test: HiddenTest, seed: int, index: int, got: Any, told: Collection[str] = ()
    ) -> Any | None:
        """The misconception whose output at `expect` number `index` of `test` is `got`, if any.

        Where several match, one that the learner has been `told` of in this exercise explains it
        best: one mistake has one name. Otherwise the one declared first.
        """
        if index < 0:
            return None  # nothing was compared
        right, *wrong = self.replays(test, seed)
        for known, values in sorted(wrong, key=lambda pair: _news(pair[0], told)):
            if index >= len(values) or not same(got, values[index]):
                continue
            # A mistake that does not show on this input explains nothing here.
            if index >= len(right) or not same(right[index], values[index]):
                return known
        return None

    def replays(self, test: HiddenTest, seed: int) -> list[Any]:
        """What each `expect` of `test` is given by the reference and by each known mistake.

        The test is run again in this process with trusted code in the learner's place. The first
        entry is the reference's values, each other one a pair (misconception, values).
        """
        key = (test.exercise, test.name, seed)
        if key not in self._replays:
            known = [m for m in self.misconceptions if m.exercise == test.exercise]
            self._replays[key] = [self._replay(test, seed, {})] + [
                (m, self._replay(test, seed, {test.exercise: m.implementation})) for m in known
            ]
        return self._replays[key]

    def _replay(self, test: HiddenTest, seed: int, replacement: dict[str, Any]) -> list[Any]:
        student = Student.local(vars(self.reference) | replacement)
        # After a wrong value that `expect` let pass, a test may fail in any way.
        with recording(judging=False) as values, contextlib.suppress(Exception):
            test.run(student, seed)
        return values


def _news(known: Any, told: Collection[str]) -> int:
    """How new a misconception is to a learner who has been told the names `told`."""
    parts = {part for name in told for part in name.split("+")}
    if known.name in told:
        return 0
    return 1 if parts.issuperset(known.parts) else 2


def load(assignment: str) -> Suite:
    """Collect the suite of `assignment`. Raises SuiteError with a one-line reason."""
    folder = SUITES / assignment
    if assignment not in names():
        known = ", ".join(names()) or "none"
        raise SuiteError(f"no assignment named {assignment!r}; there are: {known}")
    version = versions.suite(assignment)  # before the files that it tells are loaded
    settings = tomllib.loads((folder / "suite.toml").read_text())
    order = settings["exercises"]
    kernels = _watch_kernels(assignment)  # before suite and reference import triton
    tests = sorted(collect(folder), key=lambda test: order.index(test.exercise))
    return Suite(
        assignment=assignment,
        tests=tests,
        version=version,
        budget=Budget(**settings.get("limits", {})),
        by_hand=by_hand(settings),
        policy=settings.get("policy", "zero"),
        reference=importlib.import_module(f"solutions.{assignment}.{assignment}"),
        exercises=order,
        kernels=kernels,
        advice=settings.get("advice", False),
        one_loop=settings.get("one_loop", []),
    )


def by_hand(settings: Mapping[str, Any]) -> dict[str, frozenset[str]]:
    """The sets of `deny` that each exercise picks. Raises SuiteError where there is no such set."""
    picked = settings.get("by_hand", {})
    unknown = {name for listed in picked.values() for name in listed} - set(deny.SETS)
    if unknown:
        raise SuiteError(
            f"by_hand: no set {sorted(unknown)[0]!r}; there are: {', '.join(deny.SETS)}"
        )
    everywhere = picked.get("all", [])
    return {
        name: frozenset(everywhere) | frozenset(picked.get(name, []))
        for name in settings["exercises"]
    }


def _watch_kernels(assignment: str) -> Kernels | None:
    """Where the released notebook has Triton kernels, run them in its interpreter, watched."""
    notebook = ROOT / "exercises" / assignment / f"{assignment}.ipynb"
    if not notebook.exists() or b"import triton" not in notebook.read_bytes():
        return None
    if importlib.util.find_spec("triton") is None:
        raise SuiteError(f"{assignment} needs Triton, which has packages for Linux only")
    os.environ.setdefault("TRITON_INTERPRET", "1")  # before anything imports it
    from kernel_sanitizer import sanitizer

    return Kernels(sanitizer.install())


class _Collector:
    def __init__(self) -> None:
        self.items: list[Any] = []

    def pytest_collection_finish(self, session: Any) -> None:
        self.items = list(session.items)


def collect(folder: Path) -> list[HiddenTest]:
    """The tests in a suite's folder, collected by pytest. Raises SuiteError with one line."""
    import pytest

    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # a learner's machine may have any plugin
    collector, output = _Collector(), io.StringIO()
    arguments = [
        str(folder), "--collect-only", "-q", "--assert=plain", f"--rootdir={SUITES}",
        f"--config-file={SUITES / 'pytest.ini'}", "-p", "no:cacheprovider", "-p", "no:logging",
        # At its end this one collects garbage five times, among all that torch has made.
        "-p", "no:unraisableexception", "-p", "no:threadexception",
    ]  # fmt: skip
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        code = pytest.main(arguments, plugins=[collector])
    if code != 0 or not collector.items:
        last = output.getvalue().strip().splitlines()[-1:] or ["no tests were collected"]
        raise SuiteError(f"the suite in {folder.name} cannot be collected: {last[0]}")
    return [_hidden_test(item) for item in collector.items]


def _hidden_test(item: Any) -> HiddenTest:
    marker = item.get_closest_marker("points")
    if marker is None:
        raise SuiteError(f"the test {item.nodeid} has no points")
    documentation = (item.obj.__doc__ or item.name).strip().splitlines()[0]
    return HiddenTest(
        name=item.name,
        title=documentation,
        exercise=item.path.stem.removeprefix("test_"),
        points=float(marker.args[0]),
        function=item.obj,
        params=dict(item.callspec.params) if hasattr(item, "callspec") else {},
        arguments=tuple(item._fixtureinfo.argnames),
    )
