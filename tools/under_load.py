"""Run a command beside busy loops of equal priority: `python tools/under_load.py 4 make test`.

Tests have to pass however busy the machine is. The loops end with the command.
"""

from __future__ import annotations

import os
import subprocess
import sys

_LOOP = "import os\nwhile os.getppid() == {}:\n    sum(range(100_000))"


def main(argv: list[str]) -> None:
    """Start argv[0] loops, and become the command that the rest is."""
    code = _LOOP.format(os.getpid())
    for _ in range(int(argv[0])):
        subprocess.Popen([sys.executable, "-S", "-c", code])
    os.execvp(argv[1], argv[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
