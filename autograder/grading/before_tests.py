"""What became of a learner's cells before the first test, in words. Trusted side.

The records come from the learner's process (`cells`). What is told is made of closed lists, of
places that are there, and of the learner's own source. Nothing hidden has reached that process yet.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..reading.notebook import one_line
from ..reading.submission import Cell
from ..testing import allowance
from ..testing.verdict import LearnerError, explain_error
from ..worker import cells, prints, torch_state
from .link import learner_error

MOST = 5  # sentences of a kind
_RECORDS = 2 * cells.MOST  # an honest worker sends fewer

_IMPORT = re.compile(r"\s*(?:from\s+([\w.]+)\s+import\b|import\s+(.+))")
_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class Failure:
    """A statement of a cell that failed: its first line, and what it would have defined."""

    cell: int
    line: int
    source: str
    error: LearnerError
    names: frozenset[str]


class BeforeTests:
    """Tells of the cells of one submission.

    records: what the worker said. ran: the cells, as they were sent.
    """

    def __init__(
        self,
        records: Sequence[Any],
        ran: Sequence[Cell],
        budget: allowance.Budget,
        kernels: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        self._cells = {cell.index: cell for cell in ran}
        self._lines = {cell.index: cell.source.splitlines() for cell in ran}
        self._budget, self._kernels = budget, kernels
        self._others: list[tuple[str, int, int, Any]] = []
        self.failures: list[Failure] = []
        for record in records[:_RECORDS]:
            self._take(record)

    def _take(self, record: Any) -> None:
        """Note a record that has the form of one."""
        if type(record) is not dict or type(record.get("at")) is not list:
            return
        kind, at = record.pop("kind", None), record.pop("at")
        if len(at) != 2 or not all(type(n) is int for n in at) or type(kind) is not str:
            return
        cell, line = at
        if cell < 0 or not 0 < line <= len(self._lines.get(cell, ())):
            return  # not of the learner's
        if kind != "failed":
            self._others.append((kind, cell, line, record.get("setting")))
            return
        error = learner_error(record, "cell", self._kernels)
        if isinstance(error, LearnerError):
            source = self._lines[cell][line - 1].strip()
            names = frozenset(self._bound.get((cell, line), ()))
            self.failures.append(Failure(cell, line, source, error, names))

    @cached_property
    def _bound(self) -> dict[tuple[int, int], set[str]]:
        """What statements bind, by cell and first line. Worked out once: code may be long."""
        bound: dict[tuple[int, int], set[str]] = {}
        for index, cell in self._cells.items():
            for statement in cell.tree.body if cell.tree else ():
                place = (index, cells.first_line(statement))
                bound.setdefault(place, set()).update(cells.bound_names(statement))
        return bound

    @cached_property
    def _there(self) -> set[str]:
        """Names that statements which did not fail have bound."""
        failed = {(f.cell, f.line) for f in self.failures}
        return {name for at, names in self._bound.items() if at not in failed for name in names}

    # -- what is told ---------------------------------------------------------------------------

    def notices(self) -> list[str]:
        """Sentences for learner and instructor."""
        told = [f"{self.stopped(f)} The lines after it were run." for f in self._roots()]
        told = list(dict.fromkeys(told))[:MOST]  # `import a, b` fails twice
        for kind in ("simplified", "compiled", "changed", "printed"):
            said = [self._other(k, *rest) for k, *rest in self._others if k == kind]
            told += [sentence for sentence in said if sentence][:MOST]
        return told

    def _roots(self) -> list[Failure]:
        """The failures that are worth a word: not what follows from another one, and no stub."""
        return [f for f in self.failures if self._root(f) is f and not self._is_known(f)]

    def _is_known(self, failure: Failure) -> bool:
        """Whether it is a stub, or the reader of the notebook has told of it."""
        kind = failure.error.kind
        unread = self._cells[failure.cell].tree is None
        return kind == "NotImplementedError" or (
            unread and kind in ("SyntaxError", "IndentationError")
        )

    def _root(self, failure: Failure) -> Failure:
        """The failure that explains this one: a name it uses would have come from there."""
        if failure.error.kind != "NameError":
            return failure
        lines = self._lines[failure.cell]
        last = failure.error.line if failure.error.cell == failure.cell else failure.line
        used = set(_NAME.findall(" ".join(lines[failure.line - 1 : last])))
        earlier = self.failures[: self.failures.index(failure)]
        causes = [other for other in earlier if other.names & used]
        return self._root(causes[-1]) if causes else failure

    def stopped(self, failure: Failure) -> str:
        """One failure, with its place and reason."""
        said = f"Your {self._place(failure.cell)} stopped at line {failure.line}"
        if failure.source:
            said += f", `{one_line(failure.source, 120)}`"
        return f"{said}: {self._reason(failure)}"

    def _place(self, cell: int) -> str:
        name = self._cells[cell].grade_id
        return f"cell `{name}`" if name else f"cell {cell + 1}"

    def _reason(self, failure: Failure) -> str:
        error, budget = failure.error, self._budget
        if error.kind == "OutOfTime":
            inside = f" (it was in line {error.line})" if error.line > failure.line else ""
            return (
                f"its time was up{inside}. A cell may compute for {budget.cell_seconds:g} s, and "
                f"for less where others have used up much of the {budget.start_seconds:g} s for "
                "all. What your cells define was graded."
            )
        if error.kind == "ModuleNotFoundError" and (missing := missing_modules(failure.source)):
            return no_module(missing)
        here = error.cell == failure.cell and error.line == failure.line
        place = 0 if here else error.line
        lines = self._lines.get(error.cell, [])
        line = one_line(lines[place - 1], 120) if 0 < place <= len(lines) else None
        told = LearnerError(error.kind, error.cell, place if line else 0, "cell", error.fault)
        name = self._cells[error.cell].grade_id if line else None
        said = explain_error(told, line, name).message or ""
        return said[:1].lower() + said[1:]

    def _other(self, kind: str, cell: int, line: int, setting: Any) -> str | None:
        where = f"line {line} of your {self._place(cell)}"
        if kind == "simplified":
            return (
                f"What {where} defines was taken without the annotations and decorators whose "
                "package is missing here."
            )
        if kind == "compiled":
            return (
                f"L{where[1:]} compiles, and the grader has no compiler: your code runs as it is "
                "written, for the same points."
            )
        if kind == "printed":
            return (
                f"Your cells had printed more than {prints.LIMIT_KIB} KiB by {where}. All prints "
                "are thrown away, and cost no points."
            )
        words = torch_state.WORDS.get(setting) if type(setting) is str else None
        if kind != "changed" or words is None:
            return None
        source = one_line(self._lines[cell][line - 1].strip(), 120)
        return (
            f"L{where[1:]}, `{source}`, changed {words}. The grader sets it back "
            "before each test of your functions."
        )

    # -- what it explains in a test -------------------------------------------------------------

    def why_missing(self, name: str) -> str | None:
        """Why the learner's `name` is not there, if a failure is the reason."""
        if not self.failures:
            return None
        own = [f for f in self.failures if name in f.names]
        defining = {cell for (cell, _), names in self._bound.items() if name in names}
        own = own or [f for f in self.failures if f.cell in defining]
        if not own or self._is_known(own[0]):
            return None
        return f"`{name}` is not there. {self.stopped(self._root(own[0]))}"

    def why_undefined(self, line: str) -> str | None:
        """Why a name in a line of the learner's is not defined, if a failure is the reason."""
        for name in _NAME.findall(line):
            for failure in self.failures:
                if name in failure.names - self._there:
                    return f"`{name}` is not there. {self.stopped(self._root(failure))}"
        return None


def missing_modules(source: str) -> list[str]:
    """The modules that a line imports and that are not promised to be there."""
    found = _IMPORT.match(source)
    if not found:
        return []
    names = [found[1]] if found[1] else re.findall(r"(?:^|,)\s*([\w.]+)", found[2])
    there = {*allowance.packages(), *sys.stdlib_module_names, ""}  # "": of a relative import
    return [name for name in names if name.partition(".")[0] not in there]


def no_module(missing: Sequence[str]) -> str:
    """That there are no such modules, and which there are."""
    named = " and ".join(f"`{one_line(name, 40)}`" for name in missing[:3])
    there = "there is no module" if len(missing) == 1 else "there are no modules"
    return f"{there} {named} here. What is there: {allowance.what_is_there()}."
