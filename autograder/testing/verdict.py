"""The ten verdicts, and the sentences that go with them.

Every test of every submission ends in exactly one verdict. Sentences hold the author's words, the
names of exception types, and the learner's own source line: never text that the learner's code
produced while it ran, which could carry hidden inputs out.
"""

from __future__ import annotations

import ast
import builtins
import re
from dataclasses import dataclass
from enum import StrEnum

from kernel_sanitizer.fault import Fault, explain


class Verdict(StrEnum):
    PASS = "pass"
    WRONG = "wrong"
    ERROR = "error"
    NOT_IMPLEMENTED = "not-implemented"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    OUTPUT_LIMIT = "output-limit"
    CRASHED = "crashed"
    SKIPPED = "skipped"
    INTERNAL_ERROR = "internal-error"


@dataclass(frozen=True)
class Outcome:
    """What one test found: its verdict, and what the learner is told.

    plain: the message without what the learner's code chose, such as a shape; None: there is none.
    """

    verdict: Verdict
    message: str | None = None
    misconception: str | None = None
    link: str | None = None
    plain: str | None = None

    def as_dict(self) -> dict[str, str | None]:
        return dict(vars(self))


class LearnerError(Exception):
    """The learner's code raised an exception of type `kind` in `cell` at `line` (0: not known).

    fault: what the kernel sanitizer found, where that was the reason.
    returned: for the kind "Unsendable", the name of the type that cannot be sent.
    """

    def __init__(
        self, kind: str, cell: int, line: int, name: str, fault: Fault | None = None,
        returned: str = "",
    ) -> None:  # fmt: skip
        super().__init__(kind)
        self.kind, self.cell, self.line, self.name = kind, cell, line, name
        self.fault, self.returned = fault, returned


class Refused(Exception):
    """The learner's code reached `what`, which the exercise asks to write by hand.

    Not an error that a hidden test may expect. asks: what the exercise asks for.
    """

    kind = "Refused"

    def __init__(self, what: str, asks: str, cell: int, line: int, name: str) -> None:
        super().__init__(what)
        self.what, self.asks, self.cell, self.line, self.name = what, asks, cell, line, name


class WorkerLost(Exception):
    """The worker is gone: it ran out of time or memory, wrote too much, or died.

    said: whether `message` is what the learner reads. Else how its process ended says more.
    starved: whether it ran out of time while others had the processors.
    """

    def __init__(
        self, verdict: Verdict, message: str, *, said: bool = True, starved: bool = False
    ) -> None:
        super().__init__(message)
        self.verdict, self.message, self.said, self.starved = verdict, message, said, starved


# What an exception type usually means, said after "Your code raised ...".
_HINTS = {
    "NameError": "A name is used before it is defined or imported.",
    "UnboundLocalError": "A variable is read before it gets a value in the function.",
    "TypeError": "An operation met a value of the wrong type, or a call has the wrong arguments.",
    "AttributeError": "A value does not have the attribute or method used here.",
    "IndexError": "An index or a dimension is outside the tensor.",
    "KeyError": "A dictionary does not have the key used here.",
    "ValueError": "A function got a value it cannot work with, often a shape.",
    "RuntimeError": "A torch operation failed: shapes or dtypes do not fit, most often, or it "
    "changes a tensor in place (-=, add_) where that is not allowed.",
    "ZeroDivisionError": "Something was divided by zero.",
    "AssertionError": "An assert in your own code failed.",
    "RecursionError": "The function calls itself without end.",
    "SyntaxError": "Python cannot read this cell.",
    "IndentationError": "Python cannot read the indentation of this cell.",
    "ModuleNotFoundError": "The module is not there when your work is graded.",
    "ImportError": "The module or name is not available to the grader.",
    "PermissionError": "The grader's sandbox does not allow this.",
    "FileNotFoundError": "The file does not exist in the grader's sandbox.",
    "OSError": "The grader's sandbox has no network, and an empty folder for files.",
    "SystemExit": "Code under test must not end the process.",
    "KeyboardInterrupt": "Code under test must not end the process.",
}

_LAUNCH = re.compile(r"kernel\w*\[[^\]]*\]\(")  # what starts a Triton kernel

# Types a learner may return by mistake; other names are not repeated (they are learner's text).
_RETURNED = {
    "ndarray": "a NumPy array",
    "float64": "a NumPy number",
    "float32": "a NumPy number",
    "function": "a function (is a call's `()` missing?)",
    "builtin_function_or_method": "a method (is a call's `()` missing?)",
    "method": "a method (is a call's `()` missing?)",
    "generator": "a generator",
    "set": "a set",
    "complex": "a complex number",
    "Size": "a torch.Size",
    "return_types.var_mean": "the pair that var_mean gives",
}


def explain_error(
    error: LearnerError,
    source_line: str | None,
    cell_name: str | None = None,
    because: str | None = None,
) -> Outcome:
    """The outcome of an exception in the learner's code.

    cell_name: what the cell of that line defines; told when the test called another function.
    because: the reason, where it is known better than by the type of the exception.
    """
    if error.kind == "NotImplementedError":
        text = f"`{error.name}` is not implemented yet."
        if error.line and cell_name and cell_name != error.name:
            text = f"`{error.name}` calls `{cell_name}`, which is not implemented yet."
        return Outcome(Verdict.NOT_IMPLEMENTED, text)
    if error.kind == "Unsendable":
        what = _RETURNED.get(error.returned, "a value that is not plain data")
        return Outcome(Verdict.WRONG, f"`{error.name}` returned {what}; return a dense CPU tensor.")
    if error.kind == "TooLarge":
        return Outcome(Verdict.WRONG, f"`{error.name}` returned far more data than asked for.")
    kind = error.kind if _is_exception_name(error.kind) else "an exception"
    other = f" `{cell_name}`" if cell_name and cell_name != error.name else ""
    where = f" at line {error.line} of your cell{other}" if error.line else ""
    quoted = f": `{source_line.strip()}`" if source_line and source_line.strip() else ""
    if error.fault is not None:
        place = f" This is{where}{quoted}." if where else ""
        said = explain(error.fault, source_line or "")
        return Outcome(Verdict.ERROR, said + place, link=error.fault.link)
    if kind == "MemoryError":
        return Outcome(Verdict.MEMORY, f"Your code asked for too much memory{where}{quoted}.")
    hint = because or _HINTS.get(kind, "")
    asked = asked_for_truth(source_line or "") if kind == "RuntimeError" else None
    if asked is not None:
        hint = (
            f"A tensor with several elements is neither true nor false: to ask whether there is "
            f"one, write `{asked} is not None`."
        )
    if kind == "ValueError" and "tl.arange(" in (source_line or ""):
        hint = (
            "tl.arange takes numbers that are known when the kernel is compiled, and its length is "
            "a power of two: pass `BLOCK=triton.next_power_of_2(D)`, declared `tl.constexpr`."
        )
    if kind == "TypeError" and _LAUNCH.search(source_line or ""):
        hint = (
            "The grid in a kernel's square brackets is a tuple, `[(M,)]`, and in the round ones "
            "each argument of the kernel stands once."
        )
    return Outcome(Verdict.ERROR, f"Your code raised {kind}{where}{quoted}. {hint}".rstrip())


def explain_refused(
    error: Refused, source_line: str | None, cell_name: str | None = None
) -> Outcome:
    """The outcome of a call that reached what the exercise asks to write by hand."""
    other = f" `{cell_name}`" if cell_name and cell_name != error.name else ""
    where = f"line {error.line} of your cell{other}" if error.line else "your code"
    quoted = f": `{source_line.strip()}`" if source_line and source_line.strip() else ""
    name = error.what.removeprefix("aten::").partition(".")[0]
    what = f"PyTorch's `{name}`" if error.what.startswith("aten::") else f"`{error.what}`"
    text = f"This exercise asks you to {error.asks}, and {where} reached {what}{quoted}."
    return Outcome(Verdict.ERROR, f"{text} {INSTEAD.get(error.asks, '')}".rstrip())


# By what an exercise asks for (`deny.SETS`): what to do where something else was reached.
_OWN_CELL = "A comparison with it is welcome in a cell of your own."
_KERNELS = (
    "Around a kernel, code may allocate, reshape and launch; what computes belongs in a kernel. "
    "That includes prints and asserts that were left in and look at the numbers of a tensor."
)
INSTEAD = {
    "write it yourself": (
        "Take it out of what your function runs, and compute the result by its formula. "
        + _OWN_CELL
    ),
    "derive the gradient yourself": (
        "Autograd is switched off here: compute each gradient by the formula that you derive. "
        + _OWN_CELL
    ),
    "look at each number once, in a loop": (
        "It goes through many numbers at once. Take one number of each row at a time, and keep "
        "what you need of them in running values."
    ),
    "let kernels do all computing": _KERNELS,
    "let kernels do all computing but the last sum": _KERNELS,
}


def asked_for_truth(line: str) -> str | None:
    """The name that a line takes for true or false by itself, as in `if weight:`, if any."""
    line = line.strip()
    line = line.removeprefix("el") if line.startswith("elif ") else line
    for text in (line, f"{line} pass", f"{line}\n pass"):
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            asked: list[ast.expr] = []
            if isinstance(node, ast.If | ast.While | ast.IfExp):
                asked = [node.test]
            elif isinstance(node, ast.BoolOp):
                asked = node.values[:-1]
            elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
                asked = [node.operand]
            for test in asked:
                if isinstance(test, ast.Name):
                    return test.id
    return None


def _is_exception_name(name: str) -> bool:
    kind = getattr(builtins, name, None)
    return isinstance(kind, type) and issubclass(kind, BaseException)
