"""A grader that is made to take too much memory ends its own submission, and says why."""

from __future__ import annotations

import os
import socket
import sys
from types import SimpleNamespace

import pytest
import torch

from autograder.grading import grader, grader_memory, records
from autograder.grading.records import End, Judged, Record, Trouble
from autograder.grading.result import Unit
from autograder.grading.slots import _Grading

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it is not limited")

MIB = 2**20


class Greedy:
    """In place of OneSubmission: takes as much memory as the path of the notebook says."""

    def __init__(self, suite: object, unit: Unit, sock: object, family: object) -> None:
        self.how, self.records = unit.path, []

    def tell(self, record: Record) -> None:
        self.records.append(record)

    def run(self) -> None:
        kind, mib = self.how.split()
        size = int(mib) * MIB
        kept = bytearray(size) if kind == "python" else torch.zeros(size, dtype=torch.uint8)
        self.tell(Judged({"size": len(kept)}))


def graded(how: str) -> list[Record]:
    ours, theirs = socket.socketpair()
    made = grader.Grader(None)
    family = SimpleNamespace(pid=os.getpid(), usage=None)
    told: list[Record] = []
    try:
        made.begin(Unit(1, how, 1), SimpleNamespace(sock=theirs, family=family))
        while End() not in told:
            more = made.records()
            assert more is not None, "it died without a word"
            told += more
    finally:
        made.kill()
        ours.close()
        theirs.close()
    return told


@pytest.mark.parametrize("kind", ["python", "torch"])
def test_too_much_memory_ends_in_a_reason_of_one_line(monkeypatch, kind):
    monkeypatch.setattr(grader, "OneSubmission", Greedy)
    enough = grader_memory.MEMORY_MIB // 2
    assert graded(f"{kind} {enough}")[0] == Judged({"size": enough * MIB})
    told = graded(f"{kind} {4 * enough}")
    assert told[0].text.splitlines()[-1] == grader_memory.TOO_MUCH


def test_its_submission_is_tried_once_more_and_then_ungraded_with_that_reason():
    grading = object.__new__(_Grading)
    grading.unit = unit = Unit(1, "path", 1)
    grading.lost, grading.done = None, False
    ended = SimpleNamespace(cpu_seconds=0.0)
    grading.worker = SimpleNamespace(
        sock=socket.socket(), kill=lambda: None, exit=lambda: ended, pid=os.getpid()
    )
    trouble = records.encode(Trouble(grader_memory.trouble(MemoryError())))  # as it is sent
    for finished in (False, True):
        grading.take(records.decode(trouble))
        assert grading.end() == finished
    assert unit.reason == f"internal error: {grader_memory.TOO_MUCH}"


def test_another_error_keeps_its_own_last_line():
    assert grader_memory.trouble(RuntimeError("shapes")).endswith("RuntimeError: shapes\n")
