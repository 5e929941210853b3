"""Follows host code statement by statement: see `host`."""

from __future__ import annotations

import ast
from typing import Any

from ..aliases import imported
from . import allowed
from .calls import MAX_ROUNDS, in_order
from .expressions import key_text
from .libraries import Libraries
from .values import (
    NOTHING,
    PLAIN,
    TENSOR,
    UNKNOWN,
    Box,
    Kernel,
    Library,
    Own,
    TooMuch,
    Value,
    elements,
    holds,
    inside,
    joined,
    may_hold,
    one,
)

_FIXED = (ast.Slice, ast.Constant)


class HostWalk(Libraries):
    """One walk over the cells. `block` and the like tell whether what follows is never run."""

    def __init__(self) -> None:
        super().__init__()
        self.loops: list[list[dict[str, Value]]] = []  # names at `break` and `continue`
        self.trying = 0

    def block(self, body: list[ast.stmt]) -> bool:
        for statement in body:
            method = getattr(self, f"s_{type(statement).__name__}", None)
            if method is not None:
                if method(statement):
                    return True
                continue
            for child in ast.iter_child_nodes(statement):
                if isinstance(child, ast.expr):
                    self.expr(child)
        return False

    # --- binding ------------------------------------------------------------------------------

    def bind(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Name):
            self.set(target.id, value, target)
        elif isinstance(target, ast.Starred):
            self.bind(target.value, value)
        elif isinstance(target, ast.Tuple | ast.List):
            self.unpack(target.elts, value)
        elif isinstance(target, ast.Attribute):
            for atom in self.expr(target.value):
                self.set_attribute(atom, target.attr, value, target)
        elif isinstance(target, ast.Subscript):
            self.set_item(target, value)

    def set(self, name: str, value: Value, node: ast.AST) -> None:
        env = self.env.outer.get(name, self.env)
        if env is self.module and self.exercise is not None and holds(value):
            self.doubt("a tensor kept beyond the call", node)
        if env is not self.env or self.trying:
            value = joined(value, env.names.get(name, NOTHING))
        env.set(name, value)

    def unpack(self, targets: list[ast.expr], value: Value) -> None:
        parts = [NOTHING] * len(targets)
        starred = any(isinstance(target, ast.Starred) for target in targets)
        for atom in value:
            row = None if starred else in_order(atom)
            known = row is not None and len(row) == len(targets)
            inner = row if known else [elements(one(atom))] * len(targets)
            parts = [joined(a, b) for a, b in zip(parts, inner, strict=True)]
        for target, part in zip(targets, parts, strict=True):
            is_rest = isinstance(target, ast.Starred)
            self.bind(target, self.filled(target, part) if is_rest and part != PLAIN else part)

    def set_attribute(self, atom: Any, name: str, value: Value, node: ast.AST) -> None:
        if isinstance(atom, Own) and name.startswith("__"):
            self.doubt(f"an assignment to {name} of a function", node, always=True)
        elif isinstance(atom, Own | Box):
            self.put(atom, name, value, node)
        elif isinstance(atom, Kernel):
            self.doubt(f"an assignment to {name} of a kernel", node, always=True)
        elif isinstance(atom, Library) and (may_hold(value) or not _is_setting(atom.path)):
            self.doubt(f"an assignment to {atom.path}.{name}", node, always=True)
        elif holds(one(atom)):
            self.give_away(value, "", node)
            self.doubt("a tensor changed by an attribute", node)
        else:
            self.give_away(value, "a tensor put into what is not known", node)

    def give_away(self, value: Value, detail: str, node: ast.AST) -> None:
        """A value goes where it is lost to sight."""
        self.hand_over([value], node)
        if detail and may_hold(value):
            self.doubt(detail, node)

    def set_item(self, target: ast.Subscript, value: Value) -> None:
        key = self.expr(target.slice)
        for atom in self.expr(target.value):
            if isinstance(atom, Box) and isinstance(target.slice, ast.Slice):
                atom.move()
                self.put(atom, None, elements(value), target)
            elif isinstance(atom, Box):
                self.keep(key, target, atom)
                self.put(atom, key_text(target.slice), value, target)
            elif atom in TENSOR:
                parts = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
                if may_hold(key) or not all(isinstance(part, _FIXED) for part in parts):
                    self.doubt("numbers written into a tensor one by one", target)
            else:
                self.give_away(value, "a tensor put into what is not known", target)

    # --- statements ---------------------------------------------------------------------------

    def s_Assign(self, node: ast.Assign) -> None:
        value = self.expr(node.value)
        for target in node.targets:
            self.bind(target, value)

    def s_AnnAssign(self, node: ast.AnnAssign) -> None:
        if self.env.is_class:
            self.expr(node.annotation)
        if node.value is not None:
            self.bind(node.target, self.expr(node.value))

    def s_AugAssign(self, node: ast.AugAssign) -> None:
        load = ast.copy_location(_loaded(node.target), node.target)
        old, value = self.expr(load), self.expr(node.value)
        for atom in old:
            if isinstance(atom, Box) and atom.cls is None:
                self.put(atom, None, elements(value), node)
        self.bind(node.target, joined(old - TENSOR, self.binary(node.op, old, value, node)))

    def s_Return(self, node: ast.Return) -> bool:
        value = self.expr(node.value)
        if self.returns:
            self.returns[-1].append(value)
        return True

    def s_Raise(self, node: ast.Raise) -> bool:
        for part in (node.exc, node.cause):
            inner = part.args if isinstance(part, ast.Call) else []
            self.hand_over([self.expr(part)], node)
            if any(holds(self.expr(a)) for a in inner):
                self.doubt("a tensor in an exception", node)
        return not self.trying

    def s_Break(self, node: ast.Break | ast.Continue) -> bool:
        if self.loops:
            self.loops[-1].append(dict(self.env.names))
        return True

    s_Continue = s_Break

    def s_Assert(self, node: ast.Assert) -> None:
        self.truth(self.expr(node.test), node)
        self.expr(node.msg)

    def s_If(self, node: ast.If) -> bool:
        self.truth(self.expr(node.test), node)
        if isinstance(node.test, ast.Constant):
            return self.block(node.body if node.test.value else node.orelse)
        return self.either([node.body, node.orelse])

    def either(self, bodies: list[list[ast.stmt]]) -> bool:
        before = dict(self.env.names)
        self.work(len(before) // 8)
        after = []
        for body in bodies:
            self.env.names = dict(before)
            if not self.block(body):
                after.append(self.env.names)
        self.env.names = _merged(*after) if after else before
        return not after

    def s_Match(self, node: ast.Match) -> None:
        subject = self.expr(node.subject)
        if may_hold(subject):
            self.doubt("a match on what may be a tensor", node)
        for case in node.cases:
            for part in ast.walk(case.pattern):
                if isinstance(part, ast.expr):
                    self.expr(part)
                if getattr(part, "name", None):
                    self.set(part.name, frozenset(inside(subject)), node)
            if case.guard is not None:
                self.truth(self.expr(case.guard), node)
        self.either([*(case.body for case in node.cases), []])

    def s_While(self, node: ast.While) -> None:
        self.repeat(node.body, lambda: self.truth(self.expr(node.test), node))
        self.block(node.orelse)

    def s_For(self, node: ast.For | ast.AsyncFor) -> None:
        found = self.loop_over(self.expr(node.iter), node)
        self.repeat(node.body, lambda: self.bind(node.target, found))
        self.block(node.orelse)

    s_AsyncFor = s_For

    def repeat(self, body: list[ast.stmt], begin: Any) -> None:
        for _ in range(MAX_ROUNDS):
            before = dict(self.env.names)
            self.work(len(before) // 8)
            begin()
            self.loops.append([])
            ended = self.block(body)
            ends = self.loops.pop() + ([] if ended else [self.env.names])
            self.env.names = _merged(before, *ends)
            if self.env.names == before:
                return
        raise TooMuch

    def s_Try(self, node: Any) -> bool:
        self.trying += 1
        self.block(node.body)
        handlers = [] if self.given or all(map(_is_import, node.body)) else node.handlers
        for handler in handlers:
            self.expr(handler.type)
            if handler.name:
                self.set(handler.name, UNKNOWN, handler)
            self.block(handler.body)
        self.block(node.orelse)
        self.trying -= 1
        return self.block(node.finalbody)

    s_TryStar = s_Try

    def s_With(self, node: ast.With | ast.AsyncWith) -> bool:
        for item in node.items:
            value = self.expr(item.context_expr)
            inner = value
            for atom in value:
                if isinstance(atom, Box) and atom.cls is not None:
                    inner = self.call(self.attribute_of(atom, "__enter__", node), [], {}, node)
                    leave = self.attribute_of(atom, "__exit__", node)
                    self.call(leave, [PLAIN, PLAIN, PLAIN], {}, node)
                elif isinstance(atom, Box):
                    inner = elements(one(atom))
            if item.optional_vars is not None:
                self.bind(item.optional_vars, inner)
        self.trying += 1  # what is raised inside may end here
        ended = self.block(node.body)
        self.trying -= 1
        return ended

    s_AsyncWith = s_With

    def s_Global(self, node: ast.Global) -> None:
        self.env.outer.update(dict.fromkeys(node.names, self.module))

    def s_Nonlocal(self, node: ast.Nonlocal) -> None:
        for name in node.names:
            above = self.env.parent.holder(name) if self.env.parent else None
            self.env.outer[name] = above or self.module

    def s_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name) and self.env is self.module and not self.trying:
                self.env.names.pop(target.id, None)
            elif isinstance(target, ast.Subscript):
                self.expr(target.slice)
                for atom in self.expr(target.value):
                    if isinstance(atom, Box):
                        atom.move()
            elif isinstance(target, ast.Attribute):
                self.expr(target.value)

    def s_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        for name, path in imported(node):
            if path.split(".")[0] not in allowed.KNOWN:
                self.doubt(f"import of {path or name}", node, always=True)
            if name == "*":
                self.stars.append(path)
            else:
                self.set(name, one(Library(path)) if path else UNKNOWN, node)

    s_ImportFrom = s_Import

    def s_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        own = self.own(node)
        own.defaults = self.defaults(node.args)
        named = [part for part in ast.walk(node.args) if isinstance(part, ast.arg)]
        for text in filter(None, [node.returns, *(part.annotation for part in named)]):
            names = [part.id for part in ast.walk(text) if isinstance(part, ast.Name)]
            if any(holds(self.lookup(name)) for name in names):
                self.doubt("a tensor in an annotation", node)
            if any(isinstance(part, ast.Call) for part in ast.walk(text)):
                self.expr(text)
        self.decorate(own, node)

    s_AsyncFunctionDef = s_FunctionDef

    def s_ClassDef(self, node: ast.ClassDef) -> None:
        own = self.own(node)
        own.bases = [self.expr(base) for base in node.bases]
        if node.keywords:
            self.doubt("a class made by another", node, always=True)
        before, self.env = self.env, self.scope(node, is_class=True)
        self.block(node.body)
        self.env, inner = before, self.env
        own.fields = _merged(own.fields, inner.names)
        for name in own.fields:
            if name.startswith("__") and name.endswith("__") and name not in allowed.DUNDERS:
                self.doubt(f"{name} of a class", node, always=True)
        self.decorate(own, node)

    def decorate(self, own: Own, node: Any) -> None:
        value = one(own)
        for decorator in reversed(node.decorator_list):
            value = self.call(self.expr(decorator), [value], {}, decorator)
        self.set(node.name, value, node)


def _is_import(statement: ast.stmt) -> bool:
    """Whether it imports what is always there where kernels run, or sets a flag."""
    if isinstance(statement, ast.Import | ast.ImportFrom):
        paths = [path for _, path in imported(statement)]
        return all(path.split(".")[0] in ("triton", "torch", "math") for path in paths)
    return isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant)


def _is_setting(path: str) -> bool:
    return path.startswith(("torch.backends", "os.environ"))


def _merged(*names: dict[str, Value]) -> dict[str, Value]:
    every = dict.fromkeys(name for known in names for name in known)
    return {name: joined(*(known.get(name, NOTHING) for known in names)) for name in every}


def _loaded(target: ast.expr) -> ast.expr:
    """The target of `+=` as an expression that is read."""
    if isinstance(target, ast.Name):
        return ast.Name(target.id, ast.Load())
    if isinstance(target, ast.Attribute):
        return ast.Attribute(target.value, target.attr, ast.Load())
    if isinstance(target, ast.Subscript):
        return ast.Subscript(target.value, target.slice, ast.Load())
    return target
