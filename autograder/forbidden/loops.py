"""What an exercise that asks for one loop does beside it: what it is for, a person can tell."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence

from ..reading.magics import parse
from ..reading.submission import Cell
from ..worker.beneath import words

# Calls that go through all numbers. Those of torch are refused where they run.
_AT_ONCE = words("""
    var std nanvar nanstd mean nanmean average sum nansum cumsum cov dot matmul einsum convolve
    inner fsum fmean variance pvariance stdev pstdev reduce accumulate reduceat trapezoid
""")


def beyond_one_loop(
    cells: Sequence[Cell], graded_names: Collection[str]
) -> list[tuple[str, str, int, int]]:
    """What else than one loop a graded name has: its name, what it is, cell and line.

    Counted are `for`, `while` and the built-in `sum`, in the function and in the functions of the
    learner's that it names. Comprehensions only collect, and are not counted. A loop over rows
    around one over their numbers is one with it, and so is a loop of a generator with the loop
    that asks it; a loop that only prints is none.
    """
    functions: dict[str, list[tuple[ast.FunctionDef, int]]] = {}  # also methods
    for cell in cells if graded_names else ():
        tree = cell.tree or parse(cell.source)
        for node in ast.walk(tree) if tree is not None else ():
            if isinstance(node, ast.FunctionDef):
                functions.setdefault(node.name, []).append((node, cell.index))
    found = []
    aliases = _aliases(cells) if graded_names else {}
    for name in graded_names:
        # Which of several functions of the name it is shows only when the cells are run.
        for function in functions.get(name, ()):
            loops, calls = _inside(function, functions, aliases, {name})
            found += [(name, "a second loop", *place) for place in sorted(loops)[1:2]]
            found += [
                (name, f"{word} of all numbers", cell, line)
                for cell, line, word in sorted(calls)[:1]
            ]
    return found


_COMPREHENSION = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


def _aliases(cells: Sequence[Cell]) -> dict[str, str]:
    """Other names that the cells give to `sum`, and to what goes through all numbers."""
    found: dict[str, str] = {}
    for cell in cells:
        tree = cell.tree or parse(cell.source)
        for node in ast.walk(tree) if tree is not None else ():
            if isinstance(node, ast.ImportFrom):
                pairs = [(alias.asname or "", alias.name) for alias in node.names]
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Name | ast.Attribute):
                value = getattr(node.value, "attr", getattr(node.value, "id", ""))
                pairs = [(getattr(target, "id", ""), value) for target in node.targets]
            else:
                continue
            found |= {name: word for name, word in pairs if name and word in _AT_ONCE}
    return found


def _inside(
    function: tuple[ast.FunctionDef, int],
    functions: dict[str, list[tuple[ast.FunctionDef, int]]],
    aliases: dict[str, str],
    seen: set[str],
) -> tuple[list[tuple[int, int]], list[tuple[int, int, str]]]:
    """Cell and line of each loop, and of each call of `_AT_ONCE`, that the function leads to."""
    loops: list[tuple[int, int]] = []
    calls: list[tuple[int, int, str]] = []
    node, cell = function
    asked: set[str | None] = set()  # generators that a loop of this function asks
    for inner in ast.walk(node):
        if isinstance(inner, _COMPREHENSION):
            if any(isinstance(part, ast.NamedExpr) for part in ast.walk(inner)):
                loops.append((cell, inner.lineno))
        elif isinstance(inner, ast.For | ast.While):
            if not _is_around(inner) and not _only_tells(inner, functions):
                loops.append((cell, inner.lineno))
            asked.add(_called(getattr(inner, "iter", None)))
        elif isinstance(inner, ast.Call):
            word = getattr(inner.func, "attr", getattr(inner.func, "id", ""))
            if isinstance(inner.func, ast.Name):
                word = aliases.get(word, word)
            if word == "sum" and isinstance(inner.func, ast.Name):
                loops.append((cell, inner.lineno))
            elif word in _AT_ONCE and word not in functions:
                calls.append((cell, inner.lineno, word))
        elif isinstance(inner, ast.Name) and inner.id not in seen:
            seen.add(inner.id)
            for other in functions.get(inner.id, ()):
                more = _inside(other, functions, aliases, seen)
                one = inner.id in asked and _yields(other[0])
                loops, calls = loops + sorted(more[0])[one:], calls + more[1]
    return loops, calls


def _is_around(loop: ast.For | ast.While) -> bool:
    """Whether it goes over rows: another loop inside, or an index, takes what it gives.

    Rounds that are counted out in the text make several passes of the loop inside.
    """
    if isinstance(loop, ast.While):
        return False
    parts = list(ast.walk(loop.iter))
    names = {node.id for node in parts if isinstance(node, ast.Name)} - _COUNTERS
    if not names or any(isinstance(node, ast.List | ast.Tuple | ast.Set) for node in parts):
        return False
    inside = [node for statement in loop.body for node in ast.walk(statement)]
    loops = [node for node in inside if isinstance(node, ast.For | ast.While)]
    takers = [node.iter for node in loops if isinstance(node, ast.For)]
    takers += [node.slice for node in inside if isinstance(node, ast.Subscript)]
    given = {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
    taken = {node.id for taker in takers for node in ast.walk(taker) if isinstance(node, ast.Name)}
    return bool(loops) and not given.isdisjoint(taken)


def _only_tells(loop: ast.For | ast.While, functions: Collection[str]) -> bool:
    """Whether all it does is print or log what is there already."""
    for statement in loop.body:
        call = getattr(statement, "value", None) if isinstance(statement, ast.Expr) else None
        if not isinstance(call, ast.Call):
            return False
        word = getattr(call.func, "attr", getattr(call.func, "id", ""))
        if word not in _TELLS or word in functions:
            return False
        inner = [node for argument in (*call.args, *call.keywords) for node in ast.walk(argument)]
        if any(isinstance(node, ast.Call | ast.NamedExpr) for node in inner):
            return False
    return True


_COUNTERS = words("range enumerate reversed list tuple")
_TELLS = words("print display debug info warning")


def _called(node: ast.AST | None) -> str | None:
    """The name of the function whose results are gone through one by one, perhaps numbered."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if node.func.id != "enumerate" or not node.args:
            return node.func.id
        node = node.args[0]
    return None


def _yields(function: ast.FunctionDef) -> bool:
    return any(isinstance(node, ast.Yield) for node in ast.walk(function))
