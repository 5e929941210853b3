"""Mistakes made by machine: change one thing in a reference solution, see if its suite notices.

    python tests/mutants.py layernorm

prints each mutant with the tests that kill it, and the survivors. A survivor is either a property
that no test looks at, or a change that makes no difference worth a point: then it is explained in
`tests/expectations/`.
"""

from __future__ import annotations

import ast
import copy
import importlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from in_process import grade, load  # noqa: E402


def explained(assignment: str) -> dict[tuple[str, str], str]:
    """Survivors that a test could not or should not tell from the reference, and why."""
    return importlib.import_module(f"expectations.{assignment}").EXPLAINED


OPERATORS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}
NAMES = {
    "mean": ["sum", "amax"], "sum": ["mean", "prod"], "square": ["abs", "exp"],
    "rsqrt": ["sqrt", "reciprocal"], "sqrt": ["rsqrt"], "ones": ["zeros"], "zeros": ["ones"],
    "float": ["double", "half"], "float16": ["float32"], "bfloat16": ["float32"],
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    exercise: str
    line: int  # in the file of the solution
    change: str
    tree: ast.Module


def mutants(assignment: str) -> Iterator[Mutant]:
    """Every mutant of every graded definition of `assignment`."""
    path = ROOT / "solutions" / assignment / f"{assignment}.py"
    module = ast.parse(path.read_text(encoding="utf-8"))
    for name in load(assignment).exercises:
        index = next(i for i, n in enumerate(module.body) if getattr(n, "name", None) == name)
        for number, node in enumerate(_code(module.body[index])):
            for variant in range(8):
                tree = copy.deepcopy(module)
                target = list(_code(tree.body[index]))[number]
                change = _mutate(target, variant)
                if change is None:
                    break
                yield Mutant(
                    name, getattr(node, "lineno", 0), change, ast.fix_missing_locations(tree)
                )


def _code(definition: ast.stmt) -> Iterator[ast.AST]:
    """The nodes of a definition that run: no annotations, no docstrings."""
    for node in ast.iter_child_nodes(definition):
        hints = (getattr(definition, "returns", None), getattr(definition, "annotation", None))
        if node not in hints and not (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        ):
            yield node
            yield from _code(node)


def _mutate(node: ast.AST, variant: int) -> str | None:
    """Change `node` in place in its way number `variant`; None when it has no such way."""
    before = ast.unparse(node)
    ways = list(_ways(node))
    if variant >= len(ways):
        return None
    ways[variant]()
    return f"{_short(before)} -> {_short(ast.unparse(node))}"


def _ways(node: ast.AST) -> Iterator[Any]:
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        yield lambda: setattr(node, "op", OPERATORS[type(node.op)]())
        yield lambda: _become(node, node.left)
        yield lambda: _become(node, node.right)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield lambda: _become(node, ast.Constant(0))
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield lambda: setattr(node, "value", node.value + 1)
    elif isinstance(node, ast.Constant) and type(node.value) is float:
        yield lambda: setattr(node, "value", node.value * 10)
        yield lambda: setattr(node, "value", 0.0)
    elif isinstance(node, ast.Constant) and type(node.value) is bool:
        yield lambda: setattr(node, "value", not node.value)
    elif isinstance(node, ast.Attribute) and node.attr in NAMES:
        for name in NAMES[node.attr]:
            yield lambda name=name: setattr(node, "attr", name)
    elif isinstance(node, ast.Name) and node.id == "eps" and isinstance(node.ctx, ast.Load):
        yield lambda: _become(node, ast.Constant(1e-5))
        yield lambda: _become(node, ast.Constant(0.0))
        yield lambda: _become(
            node, ast.BinOp(ast.Name("eps", ast.Load()), ast.Mult(), ast.Constant(2))
        )
    elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In):
        yield lambda: node.ops.__setitem__(0, ast.NotIn())
    elif isinstance(node, ast.If):
        yield lambda: setattr(node, "test", ast.Constant(False))
        yield lambda: setattr(node, "test", ast.Constant(True))
    elif isinstance(node, ast.Call):
        yield from _calls(node)
    elif isinstance(node, ast.Tuple) and isinstance(node.ctx, ast.Load):
        for i in range(len(node.elts) - 1):
            yield lambda i=i: node.elts.__setitem__(slice(i, i + 2), node.elts[i : i + 2][::-1])


def _calls(node: ast.Call) -> Iterator[Any]:
    if isinstance(node.func, ast.Attribute) and node.func.attr in ("to", "float", "square"):
        inner = node.func.value
        yield lambda: _become(node, inner)
    for i in range(len(node.args) - 1):
        yield lambda i=i: node.args.__setitem__(slice(i, i + 2), node.args[i : i + 2][::-1])
    for i in range(len(node.keywords)):
        yield lambda i=i: node.keywords.pop(i)


def _become(node: ast.AST, other: ast.AST) -> None:
    """Turn `node` into `other` where it stands."""
    fields = dict(vars(other))
    node.__class__ = other.__class__
    vars(node).clear()
    vars(node).update(fields)


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 60 else text[:57] + "..."


def killers(assignment: str, mutant: Mutant) -> list[str]:
    """The tests that do not pass the mutant; one entry "definition" if it cannot be defined."""
    reference = importlib.import_module(f"solutions.{assignment}.{assignment}")
    namespace = {"__name__": reference.__name__}
    try:
        exec(compile(mutant.tree, "<mutant>", "exec"), namespace)
    except Exception:
        return ["definition"]
    results = grade(assignment, {mutant.exercise: namespace[mutant.exercise]}, recognise=False)
    return [r.test for r in results if r.verdict != "pass"]


def main(assignment: str) -> int:
    found = list(mutants(assignment))
    survivors = []
    for mutant in found:
        killed_by = killers(assignment, mutant)
        if not killed_by:
            survivors.append(mutant)
        names = ", ".join(k.removeprefix("test_") for k in killed_by[:3])
        print(
            f"{mutant.exercise}:{mutant.line}: {mutant.change}: {names or 'SURVIVES'}", flush=True
        )
    print(f"{len(found) - len(survivors)} of {len(found)} mutants killed")
    for mutant in survivors:
        reason = explained(assignment).get((mutant.exercise, mutant.change), "no test looks here")
        print(f"  survives: {mutant.exercise}:{mutant.line}: {mutant.change}: {reason}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "layernorm"))
