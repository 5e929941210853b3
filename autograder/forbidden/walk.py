"""Follows learner code statement by statement, keeping what each name may stand for.

`Walker.run` takes the module's cells in order and only records. `Walker.reach` goes through
everything that a value leads to (function bodies, bases, aliases) and reports each library name
that is used on the way.
"""

import ast
from collections.abc import Callable
from typing import Any

from .aliases import UNKNOWN, Code, Dotted, Scope, Value, imported, paths, text_value
from .calls import Calls
from .expressions import MATMUL, Doubt, TooMuch, Used

_ENDS = (ast.Return, ast.Raise, ast.Break, ast.Continue)


class Walker(Calls):
    """One walk over the cells."""

    def __init__(self, is_forbidden: Callable[[str], bool], is_root: Callable[[str], bool]) -> None:
        super().__init__(is_forbidden, is_root)
        self.lost: list[tuple[ast.stmt, int]] = []  # module-level statements, with their cell

    # --- entry points -------------------------------------------------------------------------

    def run(self, cell: int, tree: ast.Module) -> None:
        """Follow a cell's module-level statements; what cannot be followed goes to `lost`."""
        for statement in tree.body:
            self.cell, self.scope = cell, self.module
            self.branches, self.at = 0, None
            try:
                self.statement(statement)
            except (RecursionError, TooMuch):
                self.lost.append((statement, cell))

    def reach(self, value: Value, used: Used, doubt: Doubt, stop: Value = UNKNOWN) -> None:
        """Report what is used by all code that `value` leads to, code in `stop` left out."""
        self.used, self.doubt = used, doubt
        self.seen = {atom for atom in stop if isinstance(atom, Code)}
        self.queue, self.steps = [], 0
        self.enqueue(value)
        while self.queue:
            code = self.queue.pop()
            self.cell, self.branches, self.at = code.cell, 0, None
            try:
                self.enter(code)
            except (RecursionError, TooMuch):
                doubt("too deeply nested or too long to check", code.node, code.cell)
        self.used = self.doubt = None

    def reach_all(self) -> None:
        """Go through all code there is, for `beneath`. Comes last: it binds what never runs."""
        done: set[Code] = set()
        while left := set(self.codes.values()) - done:
            self.reach(frozenset(left), lambda *_: None, lambda *_: None, frozenset(done))
            done |= left | self.seen

    def enter(self, code: Code) -> None:
        """Go through the body of a function or class."""
        node = code.node
        for value, where, cell in code.parts:
            self.use(value, where, cell)
        before = self.scope
        self.scope = Scope(code.scope, is_class=isinstance(node, ast.ClassDef))
        try:
            if isinstance(node, ast.ClassDef):
                self.block(node.body)
                for name, value in self.scope.names.items():
                    where, cell = self.scope.bound_at.get(name, (node, code.cell))
                    self.use(value, where, cell)
                return
            arguments = node.args
            every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
            every += [a for a in (arguments.vararg, arguments.kwarg) if a is not None]
            for argument in every:
                self.scope.names[argument.arg] = code.defaults.get(argument.arg, UNKNOWN)
            if isinstance(node, ast.Lambda):
                self.use(self.expr(node.body), node.body)
            else:
                self.block(node.body)
        finally:
            self.scope = before

    # --- statements ---------------------------------------------------------------------------

    def block(self, body: list[ast.stmt]) -> None:
        for statement in body:
            self.statement(statement)
            if isinstance(statement, _ENDS):
                return  # what follows never runs

    def branch(self, body: list[ast.stmt]) -> None:
        self.branches += 1
        self.block(body)
        self.branches -= 1

    def statement(self, node: ast.stmt) -> None:
        method = getattr(self, f"on_{type(node).__name__}", None)
        if method is not None:
            method(node)
            return
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.expr(child)

    def on_Assign(self, node: ast.Assign) -> None:
        value = self.expr(node.value)
        for target in node.targets:
            self.bind(target, value, node.value)

    def on_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.bind(node.target, self.expr(node.value), node.value)

    def on_AugAssign(self, node: ast.AugAssign) -> None:
        value = self.expr(node.value)
        if isinstance(node.op, ast.MatMult):
            self.use(MATMUL, node)
        if isinstance(node.target, ast.Name):
            old = self.scope.lookup(node.target.id)
            self.bind(node.target, self.added(old, value) | (old - set(old & value)), node.value)
        elif isinstance(node.target, ast.Attribute):
            self.bind(node.target, value, node.value)

    def on_Return(self, node: ast.Return) -> None:
        if node.value is not None:
            self.use(self.expr(node.value), node.value)

    def on_If(self, node: ast.If) -> None:
        value = self.expr(node.test)
        if isinstance(node.test, ast.Constant):
            self.block(node.body if node.test.value else node.orelse)
        elif value and set(paths(value)) == {"typing.TYPE_CHECKING"} and len(value) == 1:
            self.block(node.orelse)
        else:
            self.branch(node.body)
            self.branch(node.orelse)

    def on_While(self, node: ast.While) -> None:
        self.expr(node.test)
        if not (isinstance(node.test, ast.Constant) and not node.test.value):
            self.loop(node.body)
        self.branch(node.orelse)

    def on_For(self, node: ast.For | ast.AsyncFor) -> None:
        self.bind(node.target, self.expr(node.iter), node.iter)
        self.loop(node.body)
        self.branch(node.orelse)

    on_AsyncFor = on_For

    def loop(self, body: list[ast.stmt]) -> None:
        """Twice, so that a name set at the end is known at the start; once inside another loop."""
        again = self.branches == 0
        self.branch(body)
        if again:
            self.branch(body)

    def on_Try(self, node: Any) -> None:
        self.block(node.body)
        for handler in node.handlers:
            self.branch(handler.body)
        self.branch(node.orelse)
        self.block(node.finalbody)

    on_TryStar = on_Try

    def on_With(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            value = self.expr(item.context_expr)
            if item.optional_vars is not None:
                self.bind(item.optional_vars, value, item.context_expr)
        self.block(node.body)

    on_AsyncWith = on_With

    def on_Match(self, node: ast.Match) -> None:
        value = self.expr(node.subject)
        for case in node.cases:
            self.matched(case.pattern, value)
            if case.guard is not None:
                self.expr(case.guard)
            self.branch(case.body)

    def matched(self, pattern: ast.pattern, value: Value) -> None:
        """Bind the names of a pattern that is held against `value`: it may look up attributes."""
        match pattern:
            case ast.MatchAs() | ast.MatchStar():
                if getattr(pattern, "pattern", None) is not None:
                    self.matched(pattern.pattern, value)
                if pattern.name is not None:
                    self.bound(pattern.name, value, pattern)
            case ast.MatchClass():
                self.expr(pattern.cls)
                for inner in pattern.patterns:
                    self.matched(inner, self.getattr(value, UNKNOWN, pattern))
                for name, inner in zip(pattern.kwd_attrs, pattern.kwd_patterns, strict=True):
                    self.matched(inner, self.getattr(value, text_value(name), pattern))
            case ast.MatchMapping():
                for key, inner in zip(pattern.keys, pattern.patterns, strict=True):
                    self.matched(inner, self.item(value, self.expr(key), pattern))
                if pattern.rest is not None:
                    self.bound(pattern.rest, value, pattern)
            case ast.MatchSequence() | ast.MatchOr():
                for inner in pattern.patterns:
                    self.matched(inner, value)

    def bound(self, name: str, value: Value, pattern: ast.pattern) -> None:
        self.branches += 1
        self.set(name, value, pattern)
        self.branches -= 1

    def on_Global(self, node: ast.Global) -> None:
        self.scope.outer.update(dict.fromkeys(node.names, self.module))

    def on_Nonlocal(self, node: ast.Nonlocal) -> None:
        for name in node.names:
            scope = self.scope.parent
            while scope is not None and name not in scope.names:
                scope = scope.parent
            self.scope.outer[name] = scope or self.module

    def on_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name) and not self.branches:
                self.scope.names.pop(target.id, None)

    def on_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        above = f"{node.module}." if isinstance(node, ast.ImportFrom) and node.module else ""
        for alias in node.names:
            self.notice(frozenset([Dotted(above + alias.name)]), node)
        for name, path in imported(node):
            if name != "*":
                self.set(name, frozenset([Dotted(path)]) if path else UNKNOWN, node)
                continue
            self.module.stars.append(path)
            for mine in list(self.scope.names):  # what the star redefines
                if self.is_forbidden(f"{path}.{mine}"):
                    self.set(mine, frozenset([Dotted(f"{path}.{mine}")]), node)

    on_ImportFrom = on_Import

    def on_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        code = self.code(node, self.defaults(node.args))
        self.set(node.name, frozenset([code]) | self.decorators(node), node)

    on_AsyncFunctionDef = on_FunctionDef

    def on_ClassDef(self, node: ast.ClassDef) -> None:
        code = self.code(node, {})
        for base in [*node.bases, *(keyword.value for keyword in node.keywords)]:
            code.parts.append((self.expr(base), base, self.cell))
        self.set(node.name, frozenset([code]) | self.decorators(node), node)

    def decorators(self, node: Any) -> Value:
        found = UNKNOWN
        for decorator in node.decorator_list:
            found |= self.kept(self.expr(decorator))
        return found
