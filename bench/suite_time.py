"""Seconds that the hidden tests take by themselves: `python -m bench.suite_time ASSIGNMENT`.

In a process of its own, so that the benchmark's does not hold torch. Prints wall and CPU seconds of
one pass over all tests on the reference, as JSON.
"""

from __future__ import annotations

import json
import statistics
import sys
import time


def main(assignment: str) -> int:
    import torch

    from autograder.engine import DEFAULT_SEED
    from autograder.student import Student
    from autograder.suite import load

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
    print(json.dumps({"wall": statistics.median(wall[2:]), "cpu": statistics.median(cpu[2:])}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
