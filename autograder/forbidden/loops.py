"""What an exercise that asks for one loop does beside it: what it is for, a person can tell."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence

from ..deny import words
from ..magics import parse
from ..submission import Cell

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
    learner's that it names. Comprehensions only collect, and are not counted.
    """
    if not graded_names:
        return []
    functions: dict[str, tuple[ast.FunctionDef, int]] = {}
    own: set[str] = set()  # also methods
    for cell in cells:
        tree = cell.tree or parse(cell.source)
        for node in ast.walk(tree) if tree is not None else ():
            if isinstance(node, ast.FunctionDef):
                functions[node.name] = node, cell.index
                own.add(node.name)
    found = []
    for name in graded_names:
        loops, calls = _inside(name, functions, own, set())
        found += [(name, "a second loop", *place) for place in sorted(loops)[1:2]]
        found += [(name, f"{word} of all numbers", *place) for *place, word in sorted(calls)[:1]]
    return found


def _inside(
    name: str, functions: dict[str, tuple[ast.FunctionDef, int]], own: set[str], seen: set[str]
) -> tuple[list[tuple[int, int]], list[tuple[int, int, str]]]:
    """Cell and line of each loop, and of each call of `_AT_ONCE`, that the function leads to."""
    loops: list[tuple[int, int]] = []
    calls: list[tuple[int, int, str]] = []
    if name in seen or name not in functions:
        return loops, calls
    seen.add(name)
    function, cell = functions[name]
    for node in ast.walk(function):
        if isinstance(node, ast.For | ast.While):
            loops.append((cell, node.lineno))
        elif isinstance(node, ast.Call):
            word = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if word == "sum" and isinstance(node.func, ast.Name):
                loops.append((cell, node.lineno))
            elif word in _AT_ONCE and word not in own:
                calls.append((cell, node.lineno, word))
        elif isinstance(node, ast.Name):
            more = _inside(node.id, functions, own, seen)
            loops, calls = loops + more[0], calls + more[1]
    return loops, calls
