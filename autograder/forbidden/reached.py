"""Whether an exercise leads to what it must use, such as a kernel: the opposite of forbidden."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from ..magics import parse
from ..submission import Cell
from .aliases import UNKNOWN, owner
from .patterns import compiled
from .walk import Walker


def missing(
    cells: Sequence[Cell], graded_names: Iterable[str], patterns: Sequence[str]
) -> list[tuple[str, int, int]]:
    """The graded names that lead to none of `patterns`, each with its cell and line.

    A function leads to what decorates a function that it uses, directly or through others. Left out
    are names that are not defined, and stubs: tests say all there is to say about them. Never
    raises on learner code.
    """
    if not patterns:
        return []
    needed = compiled(frozenset(patterns))
    walker = Walker(needed.match, needed.is_root)
    for position, cell in enumerate(cells):
        tree = cell.tree or parse(cell.source)
        if tree is not None:
            walker.run(position, tree)
    found = []
    for name in graded_names:
        value = walker.module.names.get(name, UNKNOWN)
        if not value or any(_is_stub(code.node) for code in filter(None, map(owner, value))):
            continue
        reached: list[str] = [atom.path for atom in value if hasattr(atom, "path")]
        walker.reach(
            value,
            lambda used, *_, into=reached: into.extend(a.path for a in used if hasattr(a, "path")),
            lambda *_: None,
        )
        if not any(map(needed.match, reached)):
            node, position = walker.module.bound_at[name]
            found.append((name, cells[position].index, getattr(node, "lineno", 1)))
    return found


def _is_stub(node: ast.AST) -> bool:
    return any(
        isinstance(statement, ast.Raise) and "NotImplementedError" in ast.unparse(statement)
        for statement in getattr(node, "body", None) or []
        if isinstance(statement, ast.stmt)
    )
