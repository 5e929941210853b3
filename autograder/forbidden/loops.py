"""Loops of an exercise that asks for one: what a second loop is for, a person can tell."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence

from ..magics import parse
from ..submission import Cell


def beyond_the_first(
    cells: Sequence[Cell], graded_names: Collection[str]
) -> list[tuple[str, int, int]]:
    """Graded names whose code has more than one loop, each with cell and line of the second one.

    Counted are `for`, `while` and the built-in `sum`, in the function and in the functions of the
    learner's that it names. Comprehensions only collect, and are not counted.
    """
    if not graded_names:
        return []
    functions: dict[str, tuple[ast.FunctionDef, int]] = {}
    for cell in cells:
        tree = cell.tree or parse(cell.source)
        for node in tree.body if tree is not None else []:
            if isinstance(node, ast.FunctionDef):
                functions[node.name] = node, cell.index
    found = []
    for name in graded_names:
        loops = sorted(_loops(name, functions, set()))
        if len(loops) > 1:
            found.append((name, *loops[1]))
    return found


def _loops(
    name: str, functions: dict[str, tuple[ast.FunctionDef, int]], seen: set[str]
) -> list[tuple[int, int]]:
    """Cell and line of each loop of the function `name`, or of one that it names."""
    if name in seen or name not in functions:
        return []
    seen.add(name)
    function, cell = functions[name]
    loops = []
    for node in ast.walk(function):
        if isinstance(node, ast.For | ast.While) or _is_sum(node):
            loops.append((cell, node.lineno))
        elif isinstance(node, ast.Name):
            loops += _loops(node.id, functions, seen)
    return loops


def _is_sum(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "sum"
