"""Runs a learner's cells, statement by statement: one that fails, or takes too long, costs itself.

Runs beside the learner's code. What it tells is a list of records, each `{"kind": ..., "at": [cell,
line]}` with the place of a statement; a "failed" one also has what `describe` says of its
exception. Nothing hidden has reached the process when cells run, so all of it may be told.
"""

from __future__ import annotations
import __future__

import ast
import contextlib
import copy
import linecache
import signal
import threading
import types
from collections.abc import Callable, Iterator
from time import monotonic, process_time
from typing import Any

from . import attributes, prints, stand_ins, torch_state

CELL = "<cell {}>"  # the file name of a cell, by its index in the notebook
MOST = 60  # records

SHARE = 0.8  # of the time for all cells, given out to them: the worker shall not be ended for it
LEAST, LEAST_WALL = 0.25, 1.0  # seconds for a statement, whatever earlier ones used up
_AGAIN = 0.1  # seconds after which a statement that goes on is interrupted again

Record = dict[str, Any]
_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class OutOfTime(BaseException):
    """Ends a statement. Not to be caught by `except Exception`."""


class Clock:
    """Interrupts statements by computing time and, for those that wait, by the clock on the wall.

    most: seconds of computing for one cell. seconds, wall: computing and waiting of all cells. No
    cell may use more than half of what is left: it is its own time that it uses up. Off in a
    thread, where no signal comes.
    """

    def __init__(self, most: float, seconds: float, wall: float) -> None:
        self._on = threading.current_thread() is threading.main_thread()
        self._most = most
        self._cpu_end = process_time() + seconds * SHARE
        self._wall_end = monotonic() + wall * SHARE
        self._cell_cpu = self._cell_wall = 0.0  # when the cell's own time is over
        self.fired = False  # whether the last statement was interrupted

    def begin_cell(self) -> None:
        cpu, wall = process_time(), monotonic()
        self._cell_cpu = cpu + min(self._most, (self._cpu_end - cpu) / 2)
        self._cell_wall = wall + (self._wall_end - wall) / 2

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Raises OutOfTime in its body, again and again if need be: it may be caught there."""
        self.fired = False
        if not self._on:
            yield
            return
        before = {number: signal.signal(number, self._stop) for number in _SIGNALS}
        cpu = max(LEAST, self._cell_cpu - process_time())
        wall = max(LEAST_WALL, self._cell_wall - monotonic())
        signal.setitimer(signal.ITIMER_PROF, cpu, _AGAIN)
        signal.setitimer(signal.ITIMER_REAL, wall, _AGAIN)
        try:
            yield
        finally:
            for timer in (signal.ITIMER_PROF, signal.ITIMER_REAL):
                signal.setitimer(timer, 0)
            for number, handler in before.items():
                signal.signal(number, handler)

    def _stop(self, _: int, frame: types.FrameType | None) -> None:
        while frame is not None:
            if frame.f_code.co_filename.startswith("<cell "):
                self.fired = True
                raise OutOfTime
            frame = frame.f_back
        # Code of ours: a statement has ended just now.


_SIGNALS = (signal.SIGPROF, signal.SIGALRM)


class Runner:
    """Runs cells in one namespace, and keeps records of what went wrong."""

    def __init__(
        self,
        namespace: dict[str, Any],
        describe: Callable[[BaseException], Record],
        clock: Clock,
        only_definitions: bool = False,
    ) -> None:
        self.namespace, self._describe, self.clock = namespace, describe, clock
        self.only_definitions = only_definitions  # of the learner's cells
        self.records: list[Record] = []
        self.missing: set[str] = set()  # names that a failed statement would have bound
        self.not_imported: set[str] = set()  # those of imports among them
        self._state = torch_state.read()
        self._changed: dict[str, list[int]] = {}
        self._found = self._state
        self._printed = False

    def run(self, cell: Record) -> None:
        """Run one cell, `{"index": its number, "source": text}`."""
        index, source = cell["index"], cell["source"]
        name = CELL.format(index)
        lines = source.splitlines(keepends=True)
        linecache.cache[name] = (len(source), None, lines, name)  # @triton.jit reads it
        try:
            statements = ast.parse(source, name).body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            return self._record("failed", [index, 1], **self.describe(error))
        flags = _future_flags(statements)
        self.clock.begin_cell()
        for statement in _one_import_each(statements):
            if self.only_definitions and index >= 0 and not defines(statement):
                continue
            at = [index, first_line(statement)]
            self._run_statement(statement, name, flags, at)
            self._note_changes(at)

    def describe(self, error: BaseException) -> Record:
        """What the worker says of an exception, whose class may be the learner's."""
        try:
            with self.clock.watching():
                return self._describe(error)
        except BaseException:
            return {"type": "Exception", "cell": 0, "line": 0}

    def finish(self) -> list[Record]:
        """All records, also of the settings of torch that are still changed."""
        for setting in torch_state.differing(self._found, self._state):
            self._record("changed", self._changed[setting], setting=setting)
        return self.records

    def _run_statement(self, statement: ast.stmt, name: str, flags: int, at: list[int]) -> None:
        error = self._attempt(statement, name, flags)
        if isinstance(error, NameError) and not self.clock.fired:
            simpler = self._without_missing(statement)
            flags |= __future__.annotations.compiler_flag
            if simpler is not None and self._attempt(simpler, name, flags) is None:
                return self._record("simplified", at)
        if self.clock.fired:
            place = self.describe(error) if error is not None else {}
            line = place["line"] if place.get("cell") == at[0] and place.get("line") else at[1]
            self._record("failed", at, type="OutOfTime", cell=at[0], line=line)
        elif error is not None:
            self._record("failed", at, **self.describe(error))
        if error is not None:
            names = bound_names(statement)
            self.missing |= names
            if isinstance(statement, ast.Import | ast.ImportFrom):
                self.not_imported |= names

    def _attempt(self, statement: ast.stmt, name: str, flags: int) -> BaseException | None:
        """Run one statement. Returns what it raised."""
        try:
            code = attributes.compiled(statement, name, flags)
            with self.clock.watching():
                exec(code, self.namespace)
        except BaseException as error:
            return error
        return None

    def _without_missing(self, statement: ast.stmt) -> ast.stmt | None:
        """A statement that has not to do with what could not be imported; None: there is none.

        Annotations and decorators for checking shapes stand around right code. They are left out
        where their package is missing. (Annotations are then not evaluated.)
        """
        gone = self.missing - self.namespace.keys()
        nodes = list(ast.walk(statement))
        if not any(isinstance(node, _Definition | ast.AnnAssign) for node in nodes):
            return None
        if not any(isinstance(node, ast.Name) and node.id in gone for node in nodes):
            return None
        simpler = copy.deepcopy(statement)
        for node in ast.walk(simpler):
            if isinstance(node, _Definition):
                node.decorator_list = [
                    d for d in node.decorator_list if _root(d) not in gone & self.not_imported
                ]
        return simpler

    def _note_changes(self, at: list[int]) -> None:
        """Note what the last statement changed around it."""
        found = torch_state.read()
        for setting in torch_state.differing(self._found, found):
            self._changed[setting] = at
        self._found = found
        if stand_ins.compiled:
            stand_ins.compiled = 0
            self._record("compiled", at)
        if prints.beyond_limit() and not self._printed:
            self._printed = True
            self._record("printed", at)

    def _record(self, kind: str, at: list[int], **more: Any) -> None:
        if len(self.records) < MOST or kind == "changed":
            self.records.append({"kind": kind, "at": at, **more})


def run(
    request: Record, namespace: dict[str, Any], describe: Callable[[BaseException], Record]
) -> list[Record]:
    """Run the cells of a request in order. Returns what went wrong and what they changed."""
    clock = Clock(request["cell_seconds"], request["seconds"], request["wall"])
    runner = Runner(namespace, describe, clock, request.get("only_definitions", False))
    prints.restart()
    for cell in request["cells"]:
        runner.run(cell)
    prints.restart()
    return runner.finish()


class CellOperations:
    """Part of the worker's Executor."""

    def do_printed(self) -> bool:
        """Whether more was printed since the cells than the limit. Not how much: see `run`."""
        return prints.beyond_limit()


def defines(statement: ast.stmt) -> bool:
    """Whether a statement defines, imports or assigns something, or holds one that does so."""
    if isinstance(statement, ast.For | ast.AsyncFor | ast.While | ast.Expr):
        return False
    kinds = _Definition | ast.Import | ast.ImportFrom
    assigns = isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign)
    return assigns or any(isinstance(node, kinds) for node in ast.walk(statement))


def first_line(statement: ast.stmt) -> int:
    """The line in which a statement begins, with its decorators."""
    decorators = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(d.lineno for d in decorators)])


def bound_names(statement: ast.stmt) -> set[str]:
    """The names that a statement would bind in the notebook, and perhaps some more."""
    names: set[str] = set()
    inner: set[ast.AST] = set()
    for node in ast.walk(statement):
        if node in inner:
            inner.update(ast.iter_child_nodes(node))
        elif isinstance(node, _Definition):
            names.add(node.name)
            inner.update(ast.iter_child_nodes(node))
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def _one_import_each(statements: list[ast.stmt]) -> Iterator[ast.stmt]:
    """`import a, b` as `import a` and `import b`: where a is missing, b is there."""
    for statement in statements:
        if isinstance(statement, ast.Import) and len(statement.names) > 1:
            for alias in statement.names:
                yield ast.copy_location(ast.Import([alias]), statement)
        else:
            yield statement


def _future_flags(statements: list[ast.stmt]) -> int:
    """What `from __future__ import` asks for, for the whole cell."""
    flags = 0
    for statement in statements:
        if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
            for alias in statement.names:
                feature = getattr(__future__, alias.name, None)
                flags |= getattr(feature, "compiler_flag", 0)
    return flags


def _root(node: ast.expr) -> str | None:
    """The name with which an expression such as `a.b(c).d` begins."""
    while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None
