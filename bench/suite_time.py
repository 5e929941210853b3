"""Seconds that the hidden tests take by themselves, for one right submission.

    python -m bench.suite_time                 a table of all assignments
    python -m bench.suite_time layernorm       wall and CPU seconds of one, as JSON

One pass over all tests on the reference, in a process of its own: the caller need not hold torch.
"""

from __future__ import annotations

import json
import statistics
import sys
import time


def seconds(assignment: str) -> tuple[float, float, int]:
    """Wall and CPU seconds of one pass (medians of ten), and the number of tests."""
    import torch

    from autograder.grading.engine import DEFAULT_SEED
    from autograder.testing.student import Student
    from autograder.testing.suite import load

    torch.set_num_threads(1)
    suite = load(assignment)
    wall, cpu = [], []
    for _ in range(12):
        started, used = time.perf_counter(), time.process_time()
        for test in suite.tests:
            test.run(Student.local(vars(suite.reference)), DEFAULT_SEED)
        wall.append(time.perf_counter() - started)
        cpu.append(time.process_time() - used)
    # The first two warm caches up.
    return statistics.median(wall[2:]), statistics.median(cpu[2:]), len(suite.tests)


def main(argv: list[str]) -> int:
    if argv:
        wall, cpu, _ = seconds(argv[0])
        print(json.dumps({"wall": wall, "cpu": cpu}))
        return 0
    from autograder.course import names

    print(f"{'assignment':16}{'tests':>6}{'CPU s':>8}{'wall s':>8}")
    for assignment in names():
        wall, cpu, tests = seconds(assignment)
        print(f"{assignment:16}{tests:6}{cpu:8.3f}{wall:8.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
