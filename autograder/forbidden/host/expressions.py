"""What an expression of host code may stand for, and whether it computes with a tensor."""

from __future__ import annotations

import ast
import builtins
import sys
from typing import Any

from .values import (
    MIXED,
    NONE,
    NOTHING,
    PLAIN,
    TENSOR,
    UNKNOWN,
    Box,
    Env,
    Items,
    Kernel,
    Launch,
    Library,
    Mark,
    Own,
    TooMuch,
    Value,
    elements,
    holds,
    is_tensor,
    is_unclear,
    items,
    joined,
    may_hold,
    mixed,
    one,
)

MAX_STEPS = 30_000  # for one look at an exercise; a notebook of ours needs some hundred
MAX_TOTAL = 150_000
DO = "in a kernel"


class Expressions:
    """State of one walk over the cells."""

    def __init__(self) -> None:
        self.module = self.env = Env()
        self.stars: list[str] = []
        self.cell = 0
        self.exercise: str | None = None  # None while module-level code is followed
        self.findings: set[tuple[str | None, str, str, int, int]] = set()
        self.boxes: dict[Any, Box] = {}
        self.owns: dict[tuple[ast.AST, Env], Own] = {}
        self.scopes: dict[tuple[ast.AST, Env], Env] = {}
        self.used: set[Kernel] = set()
        self.yields: list[list[Value]] = []
        self.given = False  # whether the cell was handed out
        self.steps = self.total = 0

    # --- telling ------------------------------------------------------------------------------

    def tell(self, kind: str, detail: str, node: ast.AST, *, always: bool = False) -> None:
        """Note a finding; one in module-level code only if it is to be told `always`."""
        if self.exercise is not None or (always and not self.given):
            line = getattr(node, "lineno", 1)
            self.findings.add((self.exercise, kind, detail, self.cell, line))

    def doubt(self, detail: str, node: ast.AST, *, always: bool = False) -> None:
        self.tell("suspicious", detail, node, always=always)

    def compute(self, what: str, values: list[Value], node: ast.AST) -> Value:
        """The result of an operation, told if it is one on a tensor."""
        if any(map(is_tensor, values)):
            self.tell("outside-kernel", f"{what} on a tensor", node)
            return TENSOR
        if any(map(is_unclear, values)):
            self.doubt(f"{what} on what may be a tensor", node)
            return TENSOR if any(map(holds, values)) else UNKNOWN
        return PLAIN

    def judge(self, values: list[Value], detail: str, node: ast.AST) -> None:
        """Tell of a use that no right answer has, if one of the values is a tensor for sure."""
        sure = any(map(is_tensor, values))
        self.tell("outside-kernel" if sure else "suspicious", detail, node)

    def truth(self, value: Value, node: ast.AST) -> None:
        if any(atom in TENSOR for atom in value):
            self.doubt("a decision by the numbers of a tensor", node)

    def box(self, site: Any, cls: Own | None = None) -> Box:
        key = (site, self.exercise is None)
        if key not in self.boxes:
            self.boxes[key] = Box(shared=self.exercise is None, cls=cls)
        return self.boxes[key]

    def filled(self, site: Any, content: Value) -> Value:
        box = self.box(site)
        box.put(None, content)
        return one(box)

    # --- names --------------------------------------------------------------------------------

    def lookup(self, name: str) -> Value:
        found = self.env.lookup(name)
        if found is not None:
            return found
        known = one(Library(f"builtins.{name}")) if hasattr(builtins, name) else NOTHING
        for star in self.stars:
            if hasattr(sys.modules.get(star), name):
                known = one(Library(f"{star}.{name}"))
        return known or UNKNOWN

    def own(self, node: Any) -> Own:
        key = (node, self.env)
        if key not in self.owns:
            self.owns[key] = Own(node, self.env.for_functions(), self.cell)
        return self.owns[key]

    def scope(self, node: ast.AST, *, is_class: bool) -> Env:
        """The names of a class or comprehension: one for each place, however often it is met."""
        made = Env(self.env, is_class=is_class)
        made.is_comprehension = not is_class
        made.is_part = not isinstance(node, ast.GeneratorExp)
        return self.scopes.setdefault((node, self.env), made)

    def work(self, steps: int) -> None:
        self.steps += steps
        self.total += steps
        if self.steps > MAX_STEPS or self.total > MAX_TOTAL:
            raise TooMuch

    # --- expressions --------------------------------------------------------------------------

    def expr(self, node: ast.expr | None) -> Value:
        self.work(1)
        if node is None:
            return NONE
        method = getattr(self, f"e_{type(node).__name__}", None)
        if method is not None:
            return method(node)
        return joined(PLAIN, *(self.expr(c) for c in ast.iter_child_nodes(node) if _is_expr(c)))

    def e_Constant(self, node: ast.Constant) -> Value:
        return NONE if node.value is None else PLAIN

    def e_Name(self, node: ast.Name) -> Value:
        return self.lookup(node.id)

    def e_NamedExpr(self, node: ast.NamedExpr) -> Value:
        value, before = self.expr(node.value), self.env
        while self.env.is_comprehension:
            self.env = self.env.parent
        self.bind(node.target, value)
        self.env = before
        return value

    def e_Starred(self, node: ast.Starred) -> Value:
        return elements(self.expr(node.value))

    def e_Tuple(self, node: ast.Tuple) -> Value:
        if any(isinstance(part, ast.Starred) for part in node.elts):
            return self.filled(node, joined(*map(self.expr, node.elts)))
        return items(*map(self.expr, node.elts))

    def e_List(self, node: ast.List) -> Value:
        box = self.box(node)
        values = [self.expr(part) for part in node.elts]
        known = not any(isinstance(part, ast.Starred) for part in node.elts)
        for place, value in enumerate(values):
            box.put(str(place) if known else None, value)
        return one(box)

    def e_Set(self, node: ast.Set) -> Value:
        return self.filled(node, joined(*map(self.expr, node.elts)))

    def e_Dict(self, node: ast.Dict) -> Value:
        box = self.box(node)
        for key, part in zip(node.keys, node.values, strict=True):
            value = self.expr(part)
            if key is None:
                self.merge(box, value)
            else:
                self.keep(self.expr(key), key, box)
                box.put(key_text(key), value)
        return one(box)

    def merge(self, box: Box, value: Value) -> None:
        for atom in value:
            if isinstance(atom, Box):
                for name, content in list(atom.fields.items()):
                    box.put(name, content)
                box.put(None, atom.rest)
            else:
                box.put(None, elements(one(atom)))

    def keep(self, key: Value, node: ast.AST, box: Box) -> None:
        """A key of a dictionary. What is no plain value comes out again with what it holds."""
        if may_hold(key):
            self.doubt("a tensor as a key", node)
        if not key <= PLAIN | NONE:
            box.put(None, key)

    def e_Lambda(self, node: ast.Lambda) -> Value:
        own = self.own(node)
        own.defaults = self.defaults(node.args)
        return one(own)

    def e_IfExp(self, node: ast.IfExp) -> Value:
        self.truth(self.expr(node.test), node)
        return joined(self.expr(node.body), self.expr(node.orelse))

    def e_BoolOp(self, node: ast.BoolOp) -> Value:
        values = [self.expr(part) for part in node.values]
        for value in values[:-1]:
            self.truth(value, node)
        return joined(*values)

    def e_UnaryOp(self, node: ast.UnaryOp) -> Value:
        value = self.expr(node.operand)
        if isinstance(node.op, ast.Not):
            self.truth(value, node)
            return PLAIN
        return self.compute(f"`{_SIGNS[type(node.op)]}`", [value], node)

    def e_BinOp(self, node: ast.BinOp) -> Value:
        return self.binary(node.op, self.expr(node.left), self.expr(node.right), node)

    def binary(self, op: ast.operator, left: Value, right: Value, node: ast.AST) -> Value:
        def holder(value: Value) -> bool:
            return any(isinstance(a, Items) or (isinstance(a, Box) and not a.cls) for a in value)

        sign = f"`{_SIGNS[type(op)]}`"
        if not (holder(left) or holder(right)):
            return self.compute(sign, [left, right], node)
        loose = [frozenset(a for a in v if not holder(one(a))) for v in (left, right)]
        self.compute(sign, loose, node)
        if isinstance(op, ast.Add) and left and right and len(left) == len(right) == 1:
            (a,), (b,) = left, right
            if isinstance(a, Items) and isinstance(b, Items):
                return items(*a.values, *b.values)
        return self.filled(node, joined(elements(left), elements(right)))

    def e_Compare(self, node: ast.Compare) -> Value:
        values = [self.expr(part) for part in [node.left, *node.comparators]]
        for op, left, right in zip(node.ops, values, values[1:], strict=False):
            if isinstance(op, ast.Is | ast.IsNot) or NONE in (left, right):
                continue
            if isinstance(op, ast.In | ast.NotIn):
                if may_hold(left) or may_hold(right):
                    self.doubt("a comparison with what may be a tensor", node)
            else:
                plain = [frozenset(a for a in v if not isinstance(a, Own)) for v in (left, right)]
                self.compute("a comparison", plain, node)
                if any(isinstance(a, Items | Box) and holds(one(a)) for v in plain for a in v):
                    self.doubt("a comparison of what holds tensors", node)
        return PLAIN

    def e_JoinedStr(self, node: ast.JoinedStr) -> Value:
        for part in node.values:
            value = self.expr(part.value) if isinstance(part, ast.FormattedValue) else PLAIN
            if getattr(part, "format_spec", None) is not None:
                self.expr(part.format_spec)
            self.hand_over([value], node)
            if may_hold(value):
                self.doubt("the numbers of a tensor as text", node)
        return PLAIN

    def e_Await(self, node: ast.Await) -> Value:
        return self.expr(node.value)

    def e_Yield(self, node: ast.Yield) -> Value:
        if self.yields:
            self.yields[-1].append(self.expr(node.value))
        return UNKNOWN

    def e_YieldFrom(self, node: ast.YieldFrom) -> Value:
        if self.yields:
            self.yields[-1].append(elements(self.expr(node.value)))
        return UNKNOWN

    def comprehension(self, node: Any) -> Value:
        before = self.env
        self.env = self.scope(node, is_class=False)
        try:
            for part in node.generators:
                self.bind(part.target, self.loop_over(self.expr(part.iter), part.iter))
                for test in part.ifs:
                    self.truth(self.expr(test), test)
            if isinstance(node, ast.DictComp):
                self.keep(self.expr(node.key), node, self.box(node))
                return self.filled(node, self.expr(node.value))
            return self.filled(node, self.expr(node.elt))
        finally:
            self.env = before

    e_ListComp = e_SetComp = e_GeneratorExp = e_DictComp = comprehension

    def loop_over(self, value: Value, node: ast.AST) -> Value:
        if any(atom in TENSOR for atom in value):
            self.doubt("a loop over a tensor", node)
        return elements(value)

    # --- parts --------------------------------------------------------------------------------

    def e_Slice(self, node: ast.Slice) -> Value:
        for part in (node.lower, node.upper, node.step):
            if part is not None and may_hold(self.expr(part)):
                self.doubt("a tensor as an index", part)
        return PLAIN

    def e_Subscript(self, node: ast.Subscript) -> Value:
        key, found = self.expr(node.slice), NOTHING
        for atom in self.expr(node.value) - MIXED:
            if isinstance(atom, Kernel):
                found = joined(found, one(Launch(atom, key)))
                continue
            if may_hold(key):
                self.doubt("a tensor as an index", node)
            if isinstance(atom, Items):
                found = joined(found, _chosen(atom, node.slice))
            elif isinstance(atom, Box) and isinstance(node.slice, ast.Slice):
                found = joined(found, self.filled(node, atom.content))
            elif isinstance(atom, Box):
                whole = mixed(atom.content) or PLAIN
                found = joined(found, atom.get(key_text(node.slice)) or whole)
            elif isinstance(atom, Mark):
                found = joined(found, one(atom))
            else:
                self.hand_over([one(atom)], node)
                found = joined(found, PLAIN if isinstance(atom, Library) else UNKNOWN)
        return found


_SIGNS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
    ast.Pow: "**", ast.MatMult: "@", ast.LShift: "<<", ast.RShift: ">>", ast.BitOr: "|",
    ast.BitXor: "^", ast.BitAnd: "&", ast.USub: "-", ast.UAdd: "+", ast.Invert: "~",
}  # fmt: skip


def _is_expr(node: ast.AST) -> bool:
    return isinstance(node, ast.expr)


def key_text(node: ast.AST | None) -> str | None:
    """A key by which a box knows what it holds: a literal text or number."""
    value = node.value if isinstance(node, ast.Constant) else None
    short = isinstance(value, str) or (isinstance(value, int) and 0 <= value < 1000)
    return str(value) if short else None


def _chosen(found: Items, key: ast.expr) -> Value:
    values = found.values
    try:
        if isinstance(key, ast.Slice):
            parts = [key.lower, key.upper, key.step]
            bounds = [None if p is None else ast.literal_eval(p) for p in parts]
            return items(*values[slice(*bounds)])
        return values[ast.literal_eval(key)]
    except (ValueError, TypeError, IndexError, SyntaxError, RecursionError):
        whole = elements(one(found)) or PLAIN
        return one(Items((whole,) * len(values))) if isinstance(key, ast.Slice) else whole
