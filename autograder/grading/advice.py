"""What a GPU's compiler says to the kernels of a submission: advice, for no points.

Trusted side. After the tests, the kernels that were launched are compiled in another worker of
another sandbox server, which does not interpret kernels (see kernel_compile.py). What comes back
is checked like all that a worker says, and becomes a sentence or two for the learner.
"""

from __future__ import annotations

import contextlib
import socket
import time
from typing import Any

from kernel_sanitizer.fault import PAGE

from ..reading.notebook import one_line
from ..reading.submission import Submission
from ..testing import kernel_reply
from ..testing.suite import Suite
from ..testing.verdict import LearnerError, WorkerLost
from .link import RemoteLink

SECONDS = 20.0  # for all kernels of a submission
_MOST = 8  # kernels

_PROBLEMS = {
    "break": "`break` and `continue` exist in the interpreter only; let the loop's bounds or a "
    "mask do it",
    "return": "`return` inside a loop exists in the interpreter only",
    "loop-type": "a variable changes its type in the loop; give it the type it gets before the "
    "loop, such as `tl.zeros((BLOCK,), tl.float32)` or `0.0`",
    "list": "lists and dictionaries exist in the interpreter only; keep values in variables or "
    "in a block",
    "number": "a value of the kernel cannot become a Python number; use `.to(tl.float32)`",
    "python": "this part of Python does not exist in a kernel",
    "name": "a name is not defined on every way to this line",
    "shape": "the shapes of two blocks do not fit",
    "other": "the compiler refuses it",
}


class Advisor:
    """Asks for the advice on one submission. Whatever fails, there is less advice."""

    def __init__(
        self, suite: Suite, notebook: Submission, compiler: RemoteLink, assembler: socket.socket
    ) -> None:
        self.compiler = compiler
        until = time.monotonic() + suite.budget.on_the_clock(SECONDS)
        self.assembler = RemoteLink(assembler, suite, until)
        self.cells = notebook.cells
        self.kernels = kernel_reply.jit_functions(c.source for c in self.cells)

    def notices(self, launched: list[dict[str, Any]], seed: int) -> list[str]:
        """The sentences. launched: what a worker said of the kernels that it launched."""
        good, bad = [], []
        wanted = kernel_reply.signatures_of(launched, self.kernels)[:_MOST]
        with contextlib.suppress(WorkerLost, LearnerError):
            if wanted:
                self.compiler.start(self.cells, seed)
            for name, signature in wanted:
                reply = self._ask(self.compiler, "compile", name=name, signature=signature)
                if "problem" in reply:
                    bad.append(self._refused(name, reply))
                elif "ptx" in reply:
                    good.append(_told(name, self._ask(self.assembler, "assemble", **reply)))
        start = "Compiled for an H100 and sizes that are multiples of 16 (no points): "
        return bad + ([start + "; ".join(good) + "."] if good else [])

    def _ask(self, link: RemoteLink, op: str, **request: Any) -> dict[str, Any]:
        link.begin_test()  # nothing is kept of a reply
        try:
            reply = link.perform("kernels", op, request)
        except LearnerError:
            return {}
        return reply if type(reply) is dict else {}

    def _refused(self, name: str, reply: dict[str, Any]) -> str:
        problem = reply.get("problem")
        why = _PROBLEMS.get(problem if type(problem) is str else "", _PROBLEMS["other"])
        cell = next((c for c in self.cells if c.index == reply.get("cell")), None)
        lines = cell.source.splitlines() if cell else []
        line, where = reply.get("line"), ""
        if type(line) is int and 0 < line <= len(lines):
            where = f" Line {line} of its cell: `{one_line(lines[line - 1], 120).strip()}`."
        return (
            f"`{name}` runs here, but does not compile for a GPU (no points lost): {why}.{where} "
            f"See {PAGE}ahead-of-time."
        )


def _told(name: str, reply: dict[str, Any]) -> str:
    """What the machine code of a kernel is like."""
    numbers = {"registers", "spilled", "load_bits", "store_bits"}
    plain = all(type(v) is int and 0 <= v <= 1 << 20 for v in reply.values())
    if reply.keys() != numbers or not plain or reply["registers"] > 255:
        return f"`{name}` compiles"
    spilled, widest = _rounded(reply["spilled"]), _rounded(min(reply["load_bits"], 256) // 8)
    text = f"`{name}` uses {reply['registers']} registers a thread"
    if spilled:
        text += f", {spilled} bytes or more spill into memory (see {PAGE}spills)"
    if widest:
        text += f", loads {widest} bytes at a time"
        text += "" if widest >= 16 else f" where 16 are possible (see {PAGE}load-width)"
    return text


def _rounded(number: int) -> int:
    """Down to a power of two: an exact number of bytes could carry a hidden input out."""
    return 1 << number.bit_length() - 1 if number else 0
