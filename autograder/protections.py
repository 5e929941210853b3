"""The walls around learner code: what each one stops, in two sets of words, and what replaces it.

`sandbox` verifies each of them in a worker, `doctor` lists them, and the class page shows those
that were missing. What a result names is a key of PROTECTIONS.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Protection:
    """One wall.

    stops: what it stops, for who runs the machine.
    keeps_from: what it keeps a submission from doing, for who teaches. None: not shown there.
    instead_of: the better protection that it stands in for, and is not missed beside.
    """

    stops: str
    keeps_from: str | None = None
    instead_of: str | None = None


PROTECTIONS = {
    "user-namespace": Protection(
        "any capability: in a worker even its own root would be nobody outside",
        "using rights of the account that grades",
    ),
    "pid-namespace": Protection(
        "seeing or signalling other processes, and processes that outlive a worker",
        "seeing or signalling other processes, or outliving its test",
    ),
    "mount-namespace": Protection(
        "reading the project, tests, homes, other submissions; filling the disk",
        "reading the hidden tests, solutions and other submissions",
    ),
    "network-namespace": Protection(
        "network, and host services on abstract sockets",
        "sending anything over the network",
    ),
    "ipc-namespace": Protection(
        "shared memory and queues that reach other programs",
        "reaching other workers through shared memory",
    ),
    "seccomp": Protection(
        "ptrace, mounts, sockets, new programs, kernel interfaces with a history of holes",
        "calling dangerous parts of the kernel",
    ),
    "landlock": Protection(
        "reading files beyond Python's own, writing outside scratch; a second wall",
        "opening files outside of its scratch folder",
    ),
    "cgroup": Protection(
        "memory and process bombs, summed over everything a worker starts",
        "taking the memory of the machine",
    ),
    "cpu-share": Protection(
        "taking processors from others: at most one core, and the weight of one process",
        "slowing down the grading of others",
    ),
    "memory-watch": Protection(
        "memory bombs of several processes, checked every few hundredths of a second",
        instead_of="cgroup",
    ),
    "rlimits": Protection(
        "endless computation, huge files, too many descriptors, core dumps",
        "using memory, files and processor time without end",
    ),
    "separate-user": Protection(
        "reading or changing whatever the grader's own user may",
        "touching files of the account that grades",
        instead_of="user-namespace",
    ),
    "fresh-process": Protection(
        "nothing by itself: workers are started, not forked, where forking is unsafe",
        instead_of="pid-namespace",
    ),
}
