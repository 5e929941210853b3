"""What a Triton kernel calls beside Triton: the interpreter runs it, and a GPU would not."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from ..reading.magics import parse
from ..reading.submission import Cell
from ..worker.beneath import words

# What Triton's compiler knows of Python, and what notebooks call the language.
_KNOWN = words("""
    tl triton libdevice NotImplementedError abs bool bytes enumerate float getattr hasattr int
    isinstance len list max min pow print range reversed round slice str sum super tuple type zip
""")


def beside_triton(cells: Sequence[Cell]) -> list[tuple[str, int, int]]:
    """What kernels reach of the interpreter, or call that is no kernel: what, cell and line."""
    trees = {cell.index: cell.tree or parse(cell.source) for cell in cells}
    nodes = {index: list(ast.walk(tree)) for index, tree in trees.items() if tree is not None}
    kernels = [
        (index, node)
        for index, found in nodes.items()
        for node in found
        if isinstance(node, ast.FunctionDef) and any(map(_is_jit, node.decorator_list))
    ]
    if not kernels:
        return []
    known = _KNOWN | {node.name for _, node in kernels} | set(_from_triton(nodes))
    return [(what, index, line) for index, k in kernels for what, line in _inside(k, known)]


def _is_jit(node: ast.AST) -> bool:
    name = getattr(node, "attr", getattr(node, "id", ""))
    return name == "jit" or (isinstance(node, ast.Call) and _is_jit(node.func))


def _from_triton(nodes: Mapping[int, list[ast.AST]]) -> Iterator[str]:
    """Names bound by imports of parts of Triton."""
    for node in (node for found in nodes.values() for node in found):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                path = f"{getattr(node, 'module', '') or ''}.{alias.name}".lstrip(".")
                if path.startswith("triton"):
                    yield alias.asname or alias.name.partition(".")[0]


def _inside(kernel: ast.FunctionDef, known: frozenset[str]) -> Iterator[tuple[str, int]]:
    body = [node for statement in kernel.body for node in ast.walk(statement)]
    own = {
        node.id for node in body if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    own |= {arg.arg for arg in ast.walk(kernel.args) if isinstance(arg, ast.arg)}
    for node in body:
        if isinstance(node, ast.Attribute) and node.attr in ("handle", "_builder"):
            yield f".{node.attr} in a kernel", node.lineno
        elif isinstance(node, ast.Call):
            root: ast.expr = node.func
            while isinstance(root, ast.Attribute | ast.Subscript):
                root = root.value
            if isinstance(root, ast.Name) and root.id not in known | own:
                yield f"{root.id} is called in a kernel", node.lineno
