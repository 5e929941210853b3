"""Whether a kernel does the work, or the code around it: host code may not compute with tensors.

Host code is what a graded function runs outside of its `@triton.jit` functions. It may allocate,
reshape and convert tensors, ask for their shapes, and launch kernels. What it does is followed
without running it, from the graded function on, for all that each name may stand for. What is
surely arithmetic on a tensor, or reading its numbers, is "outside-kernel"; what may be, or cannot
be followed, is "suspicious", for a person.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from ...magics import parse
from ...submission import Cell
from . import kernels
from .calls import MAX_ROUNDS
from .values import PLAIN, TENSOR, UNKNOWN, Box, Kernel, Own, TooMuch, Value
from .walk import HostWalk

# exercise, kind, detail, position of the cell, line
Told = tuple[str, str, str, int, int]
PLAIN_TYPES = {"float", "int", "bool", "str", "torch.dtype", "torch.device", "torch.Size"}


def arguments(stubs: Sequence[str], graded_names: Sequence[str]) -> dict[str, list[Value]]:
    """What the graded functions are called with, by the annotations of the released stubs."""
    found: dict[str, list[Value]] = {}
    for source in stubs:
        tree = parse(source)
        for node in tree.body if tree is not None else []:
            if isinstance(node, ast.FunctionDef) and node.name in graded_names:
                every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                found[node.name] = [_value(argument.annotation) for argument in every]
    return found


def _value(annotation: ast.expr | None) -> Value:
    if annotation is None:
        return TENSOR
    text = ast.unparse(annotation)
    plain = text in PLAIN_TYPES or text.startswith(("tuple[int", "list[int", "Sequence[int"))
    return PLAIN if plain else TENSOR


def outside_kernels(cells: Sequence[Cell], called: Mapping[str, Sequence[Value]]) -> list[Told]:
    """What host code does with tensors that only a kernel may do. Never raises on learner code.

    called: the graded names to look at, with what they are called with. What stands outside of
    all of them is told for the exercise of its cell, elsewhere for the first one.
    """
    walk = HostWalk()
    for position, cell in enumerate(cells):
        tree = cell.tree or parse(cell.source)
        if tree is not None:
            walk.cell, walk.given, walk.env = position, cell.origin == "given", walk.module
            _module(walk, tree)
    walk.given = False
    for name, values in called.items():
        walk.exercise, walk.used = name, set()
        for _ in range(MAX_ROUNDS):  # until what is put into a box late is known early
            changes = Box.changes
            walk.memo.clear()
            walk.steps = 0
            _follow(walk, name, values)
            if Box.changes == changes:
                break
        else:
            walk.doubt("too long to check", ast.Pass(lineno=1))
        try:
            kernels.check(walk, walk.used)
        except TooMuch:
            walk.doubt("too long to check", ast.Pass(lineno=1))
    found: dict[tuple, Told] = {}  # one of each kind for a line
    for exercise, kind, detail, position, line in sorted(walk.findings, key=str):
        ids = [cells[position].grade_id, *called]
        exercise = exercise or next(name for name in ids if name in called)
        place = (exercise, kind, position, line)
        found.setdefault(place, (exercise, kind, detail, position, line))
    return list(found.values())


def _module(walk: HostWalk, tree: ast.Module) -> None:
    for statement in tree.body:
        walk.steps = 0
        try:
            walk.block([statement])
        except (RecursionError, TooMuch):
            walk.env = walk.module
            walk.doubt("too deeply nested or too long to check", statement, always=True)
        _forget(walk)


def _follow(walk: HostWalk, name: str, values: Sequence[Value]) -> None:
    value = walk.module.names.get(name)
    if value is None:
        return
    own = next((atom for atom in value if isinstance(atom, Own)), None)
    node = own.node if own is not None else ast.Pass(lineno=1, col_offset=0)
    walk.env, walk.cell = walk.module, own.cell if own is not None else 0
    if any(isinstance(atom, Kernel) for atom in value) or value & UNKNOWN or value <= PLAIN:
        walk.doubt(f"{name} is not a function whose text is known", node)
    try:
        walk.call(value, list(values), {}, node)
    except (RecursionError, TooMuch):
        walk.doubt("too deeply nested or too long to check", node)
    _forget(walk)


def _forget(walk: HostWalk) -> None:
    """After a statement that could not be followed to its end."""
    walk.active.clear()
    walk.returns.clear()
    walk.yields.clear()
    walk.loops.clear()
    walk.trying, walk.env = 0, walk.module
