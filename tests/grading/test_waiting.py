"""How a wait for a reply ends: by processor time, by the clock, and whose fault it was."""

from __future__ import annotations

import socket
import time
from types import SimpleNamespace

import pytest

from autograder.grading import waiting
from autograder.grading.records import Lost
from autograder.grading.result import Unit
from autograder.grading.slots import Slots, _Grading
from autograder.grading.waiting import Wait
from autograder.testing.allowance import Budget
from autograder.testing.verdict import Verdict


class Pretended:
    """A family that has used and waited for so much of each second since it was made."""

    def __init__(self, used: float | None, waited: float | None) -> None:
        self.shares, self.began = (used, waited), time.monotonic()

    def _so_far(self, share: float | None) -> float | None:
        return None if share is None else share * (time.monotonic() - self.began)

    def used(self) -> float | None:
        return self._so_far(self.shares[0])

    def waited(self) -> float | None:
        return self._so_far(self.shares[1])


@pytest.fixture
def silent():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(waiting, "LOOK", 0.01)


def ended(sock: socket.socket, family: Pretended | None, **budget: float) -> Wait:
    wait = Wait(0.2, Budget(**budget), time.monotonic() + 60, family)
    with pytest.raises(TimeoutError):
        wait.until_readable(sock)
    return wait


def test_the_processor_time_of_the_worker_ends_it_long_before_the_clock(silent):
    wait = ended(silent, Pretended(1.0, 0.0), wall_factor=1000)
    assert wait.told("f", " on inputs of shape (2, 2)") == (
        "`f` was still running after 0.2 s of computing on inputs of shape (2, 2). "
        "Is there an endless loop?"
    )
    assert not wait.starved()


def test_what_others_use_does_not_end_it_and_the_clock_does(silent):
    began = time.monotonic()
    wait = ended(silent, Pretended(0.01, 0.9), wall_factor=3)
    assert time.monotonic() - began >= 0.6
    assert wait.told("f", "").startswith("`f` was still running after 0.6 s. Is there")


@pytest.mark.parametrize(
    ("used", "waited", "starved"),
    [
        (0.05, 0.9, True),  # others ran
        (0.05, None, True),  # the kernel does not tell: better once too often
        (0.05, 0.0, False),  # it slept
        (0.6, 0.4, False),  # it ran most of the time
    ],
)
def test_who_slept_is_told_from_who_was_kept_from_running(silent, used, waited, starved):
    assert ended(silent, Pretended(used, waited), wall_factor=1.5).starved() == starved


def test_without_a_family_to_look_at_the_clock_decides(silent):
    for family in (None, Pretended(None, None)):
        assert not ended(silent, family, wall_factor=1.0).starved()


def test_the_time_of_the_whole_submission_ends_it_too(silent):
    wait = Wait(10, Budget(), time.monotonic() + 0.05, None)
    with pytest.raises(TimeoutError):
        wait.until_readable(silent)
    assert "time of the whole notebook" in wait.told("f", "")


# -- asked again, alone ----------------------------------------------------------------------------


def settled(unit: Unit, starved: bool) -> bool:
    """What becomes of a unit whose worker ran out of time: whether it is finished."""
    made = object.__new__(_Grading)
    made.unit, made.suite = unit, SimpleNamespace(budget=Budget(), tests=[1, 2, 3])
    made.worker, made.killed_from_outside = SimpleNamespace(pid=1), True
    lost = Lost(str(Verdict.TIMEOUT), "too long", "f", said=True, starved=starved)
    return made.settle_loss(lost, died=False)


def test_a_starved_timeout_costs_nothing_before_it_was_asked_again_alone():
    unit = Unit(1, "path", 1, started=time.monotonic() - 1, used=2.0)
    assert not settled(unit, starved=True)
    assert (unit.alone, unit.outcomes, unit.started, unit.used) == (True, [], 0.0, 0.0)
    unit.started = time.monotonic()
    assert not settled(unit, starved=True)
    assert [o["verdict"] for o in unit.outcomes] == ["timeout"], "alone, too"


def test_a_timeout_of_its_own_making_is_not_asked_again():
    unit = Unit(1, "path", 1, started=time.monotonic())
    assert not settled(unit, starved=False)
    assert not unit.alone and [o["verdict"] for o in unit.outcomes] == ["timeout"]


def test_the_processor_time_of_all_workers_of_a_submission_counts():
    unit = Unit(1, "path", 1, started=time.monotonic(), used=Budget().submission_seconds)
    assert settled(unit, starved=False)
    assert [o["verdict"] for o in unit.outcomes] == ["timeout"] * 3


@pytest.mark.parametrize(
    ("waiting_alone", "running_alone", "may"),
    [([False], [], True), ([False], [False], True), ([True], [], True), ([True], [False], False),
     ([False], [True], False), ([], [], False), ([False], [False, False], False)],
)  # fmt: skip
def test_a_unit_that_is_to_be_alone_has_no_neighbours(waiting_alone, running_alone, may):
    slots = Slots(None, None, 2, print, 0)
    slots.waiting = [Unit(1, "path", 1, alone=alone) for alone in waiting_alone]
    slots.running = [SimpleNamespace(unit=Unit(2, "p", 1, alone=a)) for a in running_alone]
    assert slots.may_begin() == may
