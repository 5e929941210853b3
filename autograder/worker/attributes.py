"""Attributes that may lead beneath a learner's code: in its cells `getattr` is asked for them.

So `layer.__dict__` is what it always is, that of torch is without what lies beneath, and a learner
may call something of his own `self._C`.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator

from .beneath import WORDS, is_private

_NAMES = WORDS | {"__dict__"}


def asked_of_getattr(node: ast.AST) -> bool:
    """Whether an attribute is one that `getattr` is asked for, where a cell reads it."""
    if not isinstance(node, ast.Attribute):
        return False
    own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
    return node.attr == "__dict__" or (own and is_private(node.attr))


class _Asking(ast.NodeTransformer):
    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if not (asked_of_getattr(node) and isinstance(node.ctx, ast.Load)):
            return node
        function, name = ast.Name("getattr", ast.Load()), ast.Constant(node.attr)
        call = ast.copy_location(ast.Call(function, [node.value, name], []), node)
        return ast.fix_missing_locations(call)


def compiled(statement: ast.stmt, name: str, flags: int) -> types.CodeType:
    """The code of one statement, with `name` as its file."""
    code = compile(ast.Module([statement], []), name, "exec", flags, dont_inherit=True)
    if any(not _NAMES.isdisjoint(inner.co_names) for inner in _with_inner(code)):
        asking = ast.Module([_Asking().visit(statement)], [])
        code = compile(asking, name, "exec", flags, dont_inherit=True)
    return code


def _with_inner(code: types.CodeType) -> Iterator[types.CodeType]:
    """The code, and that of the functions and classes in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _with_inner(constant)
