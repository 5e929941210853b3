"""What may stand in a kernel, so that its work is Triton's: see `host`.

In the interpreter the body of a kernel is plain Python. It could work on tensors that it finds
behind a global name, which no GPU would do.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable

from .expressions import Expressions
from .values import NONE, PLAIN, Box, Env, Items, Kernel, Library, Own, inside

_BUILTINS = {
    "range", "min", "max", "abs", "len", "int", "float", "bool", "print", "isinstance", "tuple",
    "list", "zip", "enumerate", "sum", "round",
}  # fmt: skip
_NOT_IN_KERNELS = {
    ast.Lambda: "a lambda", ast.Try: "try", ast.With: "with", ast.ClassDef: "a class",
    ast.Import: "an import", ast.ImportFrom: "an import", ast.Global: "global",
    ast.Nonlocal: "nonlocal", ast.Yield: "yield", ast.Dict: "a dictionary",
    ast.FunctionDef: "a function", ast.Delete: "del", ast.GeneratorExp: "a generator",
}  # fmt: skip
_ATTRIBUTES = {"data", "fn", "base", "grad", "run", "numpy", "item", "tolist"}


def check(walk: Expressions, kernels: Iterable[Kernel]) -> None:
    """Tell what stands in these kernels, and in the functions they call, and is not Triton's."""
    seen: set[Own] = set()
    waiting = [kernel.own for kernel in kernels]
    while waiting:
        own = waiting.pop()
        if own not in seen and not isinstance(own.node, ast.ClassDef):
            seen.add(own)
            walk.cell = own.cell
            waiting += _check(walk, own)


def _check(walk: Expressions, own: Own) -> list[Own]:
    """The functions that one kernel names."""
    arguments = own.node.args
    for value in own.defaults.values():
        if any(not _is_constant(atom) for atom in inside(value)):
            walk.doubt("a default of a kernel that is no constant", own.node)
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    every += [a for a in (arguments.vararg, arguments.kwarg) if a is not None]
    local = {argument.arg for argument in every}
    body = own.node.body if isinstance(own.node.body, list) else [own.node.body]
    nodes = [node for statement in body for node in ast.walk(statement)]
    passing = {n for c in nodes if isinstance(c, ast.comprehension) for n in ast.walk(c.target)}
    local |= {n.id for n in nodes if n not in passing and _is_bound(n)}
    called: list[Own] = []
    for node in nodes:
        if type(node) in _NOT_IN_KERNELS:
            walk.doubt(f"{_NOT_IN_KERNELS[type(node)]} in a kernel", node)
        elif isinstance(node, ast.Attribute):
            if node.attr == "handle":
                walk.tell("outside-kernel", ".handle in a kernel", node)
            elif node.attr in _ATTRIBUTES or node.attr.startswith("_"):
                walk.doubt(f".{node.attr} in a kernel", node)
        elif isinstance(node, ast.Name) and node.id not in local:
            called += _name(walk, own.env, node)
    return called


def _name(walk: Expressions, env: Env, node: ast.Name) -> list[Own]:
    """A name from outside of the kernel: Triton's, a constant, or a function of the learner's."""
    value = env.lookup(node.id)
    if value is not None and env.parent is not None:
        value = (env.holder(node.id) or env).ever.get(node.id, value)
    if value is None:
        if hasattr(builtins, node.id) and node.id not in _BUILTINS:
            walk.doubt(f"{node.id} in a kernel", node)
        return []
    if any(isinstance(atom, Box | Items) and not _is_constant(atom) for atom in value):
        walk.doubt(f"{node.id}, from outside, in a kernel", node)
        return []
    found = []
    for atom in value:
        if isinstance(atom, Own) and isinstance(atom.node, ast.ClassDef):
            walk.doubt(f"{node.id}, a class, in a kernel", node)
        elif isinstance(atom, Kernel | Own):
            found.append(atom.own if isinstance(atom, Kernel) else atom)
        elif not _is_constant(atom) or (isinstance(atom, Library) and not _triton(atom.path)):
            walk.judge([value], f"{node.id}, from outside, in a kernel", node)
    return found


def _is_bound(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)


def _is_constant(atom: object) -> bool:
    if isinstance(atom, Items):
        return all(_is_constant(inner) for value in atom.values for inner in value)
    return isinstance(atom, Library) or atom in PLAIN | NONE


def _triton(path: str) -> bool:
    return path.split(".")[0] in ("triton", "math", "typing", "builtins", "torch")
