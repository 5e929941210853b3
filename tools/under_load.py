"""Run a command beside busy loops of equal priority: `python tools/under_load.py 4 make test`.

Tests have to pass however busy the machine is. The loops end with this process.
"""

from __future__ import annotations

import os
import subprocess
import sys

_LOOP = "import os\nwhile os.getppid() == {}:\n    sum(range(100_000))"


def main(argv: list[str]) -> int:
    """Start argv[0] loops, run the rest as a command, and return its exit code."""
    code = _LOOP.format(os.getpid())
    loops = [subprocess.Popen([sys.executable, "-S", "-c", code]) for _ in range(int(argv[0]))]
    try:
        return subprocess.run(argv[1:], check=False).returncode
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
