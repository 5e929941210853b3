"""One guard for a page whose cells run Triton: without Triton they say so, and the page builds.

Triton has wheels for Linux only. A cell that needs it begins with the comment `# runs Triton`.

    triton_here = kernel_cells.prepare()  # first cell, before anything imports triton
"""

from __future__ import annotations

import importlib.util
import os
import sys
import textwrap
from collections.abc import Callable

MARK = "# runs Triton"
SENTENCE = "Triton is not installed here (it has wheels for Linux only), so this cell did not run."


def triton_is_here() -> bool:
    return importlib.util.find_spec("triton") is not None


def prepare() -> bool:
    """Switches on the interpreter, which runs kernels on a CPU, or the guard. True with Triton.

    Raises:
        RuntimeError: triton was imported before, so that the interpreter cannot be switched on.
    """
    if not triton_is_here():
        from IPython import get_ipython

        get_ipython().input_transformers_cleanup.append(without_triton)
        return False
    if "triton" in sys.modules and os.environ.get("TRITON_INTERPRET") != "1":
        raise RuntimeError("set TRITON_INTERPRET=1 before triton is imported")
    os.environ["TRITON_INTERPRET"] = "1"
    return True


def without_triton(lines: list[str]) -> list[str]:
    """An IPython input transformer: a marked cell becomes one that prints the sentence."""
    if lines and lines[0].strip() == MARK:
        return [f"print({SENTENCE!r})\n"]
    return lines


def told(launch: Callable[[], object]) -> None:
    """Runs something that launches kernels, under the sanitizer, and prints what it says.

    Raises:
        RuntimeError: the sanitizer is off; a faulty kernel could do harm.
    """
    from kernel_sanitizer import sanitizer

    if not sanitizer.installed():
        raise RuntimeError(f"the sanitizer is off: {sanitizer.why_not()}")
    try:
        with sanitizer.watching():
            launch()
    except sanitizer.KernelFault as fault:
        print(textwrap.fill(str(fault), 84))
    else:
        print("nothing to say")
