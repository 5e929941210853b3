"""A learner's notebook to the cells to execute, in order. Trusted side; parses, never executes.

The released notebook says what is graded; the submission's metadata is never trusted. Cells that
define a graded name are found by what they define, wherever they stand and whatever their id says.
Locked check cells are recognised and left out, for the hidden suite does their job.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from .magics import parse, parse_or_raise, to_python
from .notebook import (
    MAX_CELL_CHARS,
    MAX_CODE_CHARS,
    RawCell,
    RawNotebook,
    Unreadable,
    find_notebook,
    load,
    one_line,
)

__all__ = [
    "Cell",
    "Released",
    "ReleasedCell",
    "Submission",
    "Unreadable",
    "find_notebook",
    "read",
    "released",
    "sort_out",
    "written_answer",
]

MAX_NOTICES = 30
MAX_TEXT_CELLS = 12  # that are tried as code; nobody has misfiled more than the exercises there are
Kind = Literal["solution", "test", "given", "demo"]
Origin = Literal["solution", "added", "given"]


@dataclass(frozen=True)
class ReleasedCell:
    """A code cell as it was handed out.

    kind: "solution" the learner writes it; "test" a visible check; "given" runs before anything
        else; "demo" uses a graded name when it runs: it only shows something, and is not executed.
    """

    kind: Kind
    grade_id: str | None
    source: str
    names: tuple[str, ...] = ()  # graded names it defines, in order


@dataclass(frozen=True)
class Released:
    """The cells of the released notebook, in order. Read once a class."""

    cells: tuple[ReleasedCell, ...]
    graded: tuple[str, ...]  # graded names, in order
    written: tuple[str, ...] = ()  # grade ids of the questions answered in words, in order
    texts: frozenset[str] = frozenset()  # of all text cells, answer cells too, blanks stripped

    @cached_property
    def tests(self) -> frozenset[str]:
        """Grade ids of the check cells."""
        return frozenset(c.grade_id for c in self.cells if c.kind == "test" and c.grade_id)

    @cached_property
    def by_text(self) -> dict[str, ReleasedCell]:
        """Cells by `_text_key`: most come back unchanged, and need not be parsed then."""
        return {_text_key(c.source): c for c in self.cells if _has_code(c.source)}

    @cached_property
    def _by_outline(self) -> dict[tuple, list[tuple[ast.Module, ReleasedCell]]]:
        found: dict[tuple, list[tuple[ast.Module, ReleasedCell]]] = {}
        for cell in self.cells:
            tree = parse(cell.source)
            if tree is not None:
                found.setdefault(_outline(tree), []).append((tree, cell))
        return found

    def with_code(self, tree: ast.Module) -> ReleasedCell | None:
        """The cell that holds this code, in whatever layout."""
        for known, cell in reversed(self._by_outline.get(_outline(tree), [])):
            if _same(known, tree):
                return cell
        return None

    @cached_property
    def names_by_id(self) -> dict[str, tuple[str, ...]]:
        return {c.grade_id: c.names for c in self.cells if c.kind == "solution" and c.grade_id}


@dataclass(frozen=True)
class Cell:
    """One cell to execute.

    index: the cell's number in the submission, text cells counted, from 0. Given cells come from
        the released notebook and have -1, -2, ...: never a line of the learner's.
    origin: "solution" defines a graded name; "given" was handed out; "added" is anything else.
    grade_id: the graded name that a solution cell defines (the first, if several), else None.
    source: Python text. Its lines are those of the cell as the learner sees it.
    """

    index: int
    origin: Origin
    grade_id: str | None
    source: str
    tree: ast.Module | None = field(default=None, repr=False, compare=False)  # where it was parsed

    @property
    def readable(self) -> bool:
        """Whether it is to be run. What nobody could look through is not, even if it would run."""
        return self.tree is not None or self.origin == "given"


@dataclass
class Submission:
    """What to execute of a submission, and what its reader should know."""

    cells: list[Cell]
    sha256: str
    notices: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)  # graded names that no cell defines
    untouched: set[str] = field(default_factory=set)  # graded names with nothing but the stub
    broken: dict[str, str] = field(default_factory=dict)  # graded name -> its cell's syntax error


def released(path: Path) -> Released:
    """The cells of a released notebook. Here the metadata counts: the file is ours.

    Raises:
        Unreadable: not a notebook.
        ValueError: no cell defines a graded name.
    """
    handed_out = load(Path(path)).cells
    texts = [cell for cell in handed_out if cell.kind != "code"]
    written = tuple(c.grade_id for c in texts if c.grade_id and c.flags.get("solution"))
    raw = [cell for cell in handed_out if cell.kind == "code" and cell.source.strip()]
    kinds = [_released_kind(cell) for cell in raw]
    trees = [parse(to_python(cell.source)[0] or "") or ast.Module([], []) for cell in raw]
    ids = [cell.grade_id for cell, kind in zip(raw, kinds, strict=True) if kind == "solution"]
    bound = {
        name
        for tree, kind in zip(trees, kinds, strict=True)
        if kind == "solution"
        for name in _bound(tree)
    }
    graded = tuple(dict.fromkeys(i for i in ids if i in bound))
    if not graded:
        raise ValueError(f"{path}: no solution cell defines the name that is its grade_id")
    late = set(graded)  # names that exist only once the learner's code has run
    cells = []
    for cell, kind, tree in zip(raw, kinds, trees, strict=True):
        names = tuple(name for name in graded if name in _bound(tree))
        needed = _loaded(tree) - (_bound(tree) - set(graded))
        if kind == "given" and late & needed:
            kind = "demo"
        if kind in ("demo", "test"):
            late |= _bound(tree)
        python = to_python(cell.source)[0]
        cells.append(
            ReleasedCell(kind, cell.grade_id, cell.source if python is None else python, names)
        )
    shown = frozenset(cell.source.strip() for cell in texts)
    return Released(tuple(cells), graded, written, shown)


def _released_kind(cell: RawCell) -> Kind:
    if cell.flags.get("solution"):
        return "solution"
    if cell.flags.get("grade") or (cell.grade_id or "").startswith("test_"):
        return "test"
    return "given"


@dataclass(frozen=True)
class _Read:
    """A code cell of the submission after the first look."""

    index: int
    source: str
    names: tuple[str, ...]  # graded names it defines, or seems to define if it does not parse
    tree: ast.Module | None
    stub: bool  # it is a stub as handed out
    error: str | None = None  # of its syntax

    @cached_property
    def key(self) -> str:
        return _key(self.source, self.tree)


def read(path: Path, released: Released) -> Submission:
    """Read one submission against the notebook that was released.

    Raises:
        Unreadable: with one line that says what to do.
    """
    return sort_out(load(Path(path)), released)


def sort_out(notebook: RawNotebook, released: Released) -> Submission:
    """As `read`, of a notebook that has been loaded."""
    notices = [_by_a_person(len(released.written))] if released.written else []
    notices += notebook.notices
    cells: list[_Read] = []
    recognised = False
    for raw in notebook.cells:
        if raw.kind == "code":
            known, cell = _look_at(raw, released, notices)
            recognised |= known
            if cell is not None:
                cells.append(cell)
    cells = _with_misfiled(notebook.cells, cells, released, notices)
    if not recognised and not any(cell.names for cell in cells):
        wanted = ", ".join(released.graded[:4])
        raise Unreadable(
            f"holds none of the exercises ({wanted}): is it the notebook of another assignment?"
        )

    written = {name for cell in cells if not cell.stub for name in cell.names}
    stubs = {name for cell in cells if cell.stub for name in cell.names}
    kept = [cell for cell in cells if not (cell.stub and set(cell.names) <= written)]
    submission = Submission(_given(released), notebook.sha256, notices)
    for cell in kept:
        origin: Origin = "solution" if cell.names else "added"
        name = cell.names[0] if cell.names else None
        submission.cells.append(Cell(cell.index, origin, name, cell.source, cell.tree))
        if cell.error is not None:
            notices.append(f"cell {cell.index + 1} was not run: {cell.error}")
    submission.missing = [name for name in released.graded if name not in written | stubs]
    submission.untouched = stubs - written
    for name in released.graded:
        _say_which_counts(name, kept, submission)
    if len(notices) > MAX_NOTICES:
        notices[MAX_NOTICES:] = [f"and {len(notices) - MAX_NOTICES} more notices"]
    return submission


def _look_at(raw: RawCell, released: Released, notices: list[str]) -> tuple[bool, _Read | None]:
    """Whether the cell shows that this is the right notebook, and what to run (None: nothing)."""
    known = released.by_text.get(_text_key(raw.source))
    if known is not None and known.kind != "solution":
        return known.kind != "given", None  # other assignments have the same imports
    python, remark = to_python(raw.source)
    if remark is not None:
        notices.append(f"cell {raw.index + 1}: {remark}")
    if python is None or not python.strip():
        return False, None
    error, tree = None, None
    try:
        tree = parse_or_raise(python)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        error = _describe(problem)
    if tree is not None and not tree.body:
        return False, None  # comments alone
    if known is None:
        by_text = released.by_text
        known = by_text.get(_text_key(python)) if tree is None else released.with_code(tree)
    if known is not None and known.kind != "solution":
        return known.kind != "given", None
    bound = _bound(tree) if tree is not None else _seems_bound(python)
    if raw.grade_id in released.written and not bound:
        return True, None  # an answer in words whose cell was turned into a code cell
    names = tuple(name for name in released.graded if name in bound)
    if raw.grade_id in released.tests and not names:
        return True, None
    if tree is None and not names:  # too broken to tell: here, and only here, the id is believed
        names = released.names_by_id.get(raw.grade_id or "", ())
    stub = known is not None and known.kind == "solution"
    return stub, _Read(raw.index, python, names, tree, stub, error)


def _with_misfiled(
    raws: list[RawCell], cells: list[_Read], released: Released, notices: list[str]
) -> list[_Read]:
    """Add text cells that hold a graded name's only code: a slip of one key in Jupyter."""
    there = {name for cell in cells for name in cell.names if not cell.stub}
    wanted = set(released.graded) - there
    extra = []
    maybe = [raw for raw in raws if wanted and _may_be_code(raw, wanted, released)]
    maybe.sort(key=lambda raw: raw.grade_id not in released.graded)  # the exercises' cells first
    room = MAX_CODE_CHARS - sum(len(raw.source) for raw in raws if raw.kind == "code")
    for number, raw in enumerate(maybe):
        room -= len(raw.source)
        if number == MAX_TEXT_CELLS or room < 0:
            notices.append(
                f"text cells that look like code were left out ({len(maybe) - number}): make a "
                "code cell of each that counts"
            )
            break
        _, cell = _look_at(raw, released, [])
        if cell is not None and cell.error is None and not cell.stub and wanted & set(cell.names):
            extra.append(cell)
            notices.append(
                f"cell {raw.index + 1} is a text cell but holds {cell.names[0]}: run as code"
            )
    return sorted([*cells, *extra], key=lambda cell: cell.index)


def _may_be_code(raw: RawCell, wanted: set[str], released: Released) -> bool:
    if raw.kind == "code" or len(raw.source) > MAX_CELL_CHARS:
        return False
    if raw.grade_id in released.written:
        return False  # code quoted in an answer stays a quotation
    return bool(_seems_bound(raw.source) & wanted)


def written_answer(cell: RawCell, released: Released) -> str | None:
    """The grade id of the written question that the cell answers; None for all other cells."""
    if cell.grade_id not in released.written:
        return None
    if cell.kind == "code":
        tree = parse(cell.source)
        if _seems_bound(cell.source) if tree is None else _bound(tree):
            return None  # it is run, see `read`
    return cell.grade_id


def _by_a_person(questions: int) -> str:
    which = "1 written question" if questions == 1 else f"{questions} written questions"
    return f"a person grades {which}: the points are not part of this score"


def _given(released: Released) -> list[Cell]:
    sources = [cell.source for cell in released.cells if cell.kind == "given"]
    return [Cell(-1 - i, "given", None, source) for i, source in enumerate(sources)]


def _say_which_counts(name: str, kept: list[_Read], submission: Submission) -> None:
    defining = [cell for cell in kept if name in cell.names]
    working = [cell for cell in defining if cell.error is None]
    if defining and not working:
        last = defining[-1]
        submission.broken[name] = f"cell {last.index + 1}: {last.error}"
    if len(working) > 1 and len({cell.key for cell in working}) > 1:
        numbers = ", ".join(str(cell.index + 1) for cell in working)
        submission.notices.append(f"{name} is defined in cells {numbers}: the last one counts")
    elif name in submission.missing:
        submission.notices.append(f"no cell defines {name}")


# --- what a cell defines and uses ---------------------------------------------------------------


def _now(tree: ast.Module) -> Iterator[ast.AST]:
    """The nodes that run when the cell runs: not the bodies of functions."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            defaults = [d for d in node.args.kw_defaults if d is not None]
            waiting += [*node.decorator_list, *node.args.defaults, *defaults]
        elif isinstance(node, ast.Lambda):
            waiting += node.args.defaults
        else:
            waiting += ast.iter_child_nodes(node)


def _bound(tree: ast.Module) -> set[str]:
    """Names that running the cell binds in the notebook: defs, classes, assignments, imports."""
    bound: set[str] = set()
    inner: set[ast.AST] = set()  # a class body and a comprehension bind their own names
    for node in _now(tree):
        if isinstance(node, ast.comprehension):
            inner.add(node.target)
        if node in inner:
            inner.update(ast.iter_child_nodes(node))
            continue
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(node.name)
            if isinstance(node, ast.ClassDef):
                inner.update(node.body)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            bound.update((alias.asname or alias.name).partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            bound.update(_globals_key(node))
    return bound


def _globals_key(node: ast.Subscript) -> set[str]:
    """The name that `globals()["name"] = ...` binds."""
    match node:
        case ast.Subscript(
            value=ast.Call(func=ast.Name(id="globals")), slice=ast.Constant(value=str(name))
        ):
            return {name}
    return set()


def _seems_bound(source: str) -> set[str]:
    """The same for text that is not Python: lines that start like a definition."""
    pattern = r"^[ \t]*(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)|^(\w+)[ \t]*=[^=]"
    return {name for pair in re.findall(pattern, source, re.MULTILINE) for name in pair if name}


def _loaded(tree: ast.Module) -> set[str]:
    """Names the cell needs in order to run."""
    return {n.id for n in _now(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def _text_key(source: str) -> str:
    lines = [line.rstrip() for line in source.replace("\r\n", "\n").split("\n")]
    return "\n".join(line for line in lines if line)


def _has_code(source: str) -> bool:
    tree = parse(source)
    return tree is None or bool(tree.body)


def _outline(tree: ast.Module) -> tuple:
    """Equal for equal code, and quick to make: the kinds of statements, two levels deep."""
    return tuple((type(s), *map(type, getattr(s, "body", None) or ())) for s in tree.body)


def _same(one: Any, other: Any) -> bool:
    """Whether two pieces of syntax trees are the same code; ends at the first difference."""
    if type(one) is not type(other):
        return False
    try:
        if isinstance(one, ast.AST):
            return all(_same(getattr(one, f, None), getattr(other, f, None)) for f in one._fields)
        if isinstance(one, list):
            return len(one) == len(other) and all(map(_same, one, other))
    except RecursionError:
        return False
    return repr(one) == repr(other)


def _key(source: str, tree: ast.Module | None) -> str:
    """Equal for equal code whatever its layout and comments."""
    try:
        if tree is not None and len(source) < 30_000:  # none longer is handed out; dump is slow
            return ast.dump(tree)
    except RecursionError:
        pass
    return _text_key(source)


def _describe(problem: BaseException) -> str:
    if isinstance(problem, SyntaxError):
        where = f" in line {problem.lineno}" if problem.lineno else ""
        return one_line(f"syntax error{where} ({problem.msg})", 160)
    if isinstance(problem, ValueError):
        return "Python cannot read it (it holds a NUL character)"
    return "Python cannot read it (nested too deeply)"
