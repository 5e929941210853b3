"""What a call in host code gives, and whether it computes with a tensor: see `host`."""

from __future__ import annotations

import ast
from typing import Any

from . import allowed
from .attributes import CONTAINER, Attributes
from .values import (
    MIXED,
    NONE,
    NOTHING,
    PLAIN,
    TENSOR,
    UNKNOWN,
    Apply,
    Bound,
    Box,
    Descriptor,
    Env,
    Inherited,
    Items,
    Kernel,
    Launch,
    Library,
    Method,
    Own,
    TooMuch,
    Value,
    Wrapper,
    elements,
    holds,
    inside,
    joined,
    may_hold,
    one,
)

MAX_CALLS = 40  # inside one another
APPLY = Library("<apply>")  # of torch.autograd.Function
MAX_ROUNDS = 12  # of a function that calls itself


class Calls(Attributes):
    def __init__(self) -> None:
        super().__init__()
        self.memo: dict[Any, Value] = {}
        self.envs: dict[Any, Env] = {}
        self.active: dict[Any, bool] = {}  # calls being followed; True: asked for again meanwhile
        self.returns: list[list[Value]] = []

    def defaults(self, arguments: ast.arguments) -> dict[str, Value]:
        plain = [*arguments.posonlyargs, *arguments.args]
        late = plain[len(plain) - len(arguments.defaults) :]
        pairs = list(zip(late, arguments.defaults, strict=True))
        pairs += zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        return {a.arg: self.expr(default) for a, default in pairs if default is not None}

    def e_Call(self, node: ast.Call) -> Value:
        function = self.expr(node.func)
        args: list[Value] = []
        loose = NOTHING  # from `*args` of unknown length: any parameter from there on
        for part in node.args:
            value = self.expr(part.value if isinstance(part, ast.Starred) else part)
            known = [row for row in map(in_order, value) if row is not None]
            if not isinstance(part, ast.Starred) and not loose:
                args.append(value)
            elif not isinstance(part, ast.Starred):
                loose = joined(loose, value)
            elif len(known) == len(value) == 1 and not loose:
                args += known[0]
            else:
                loose = joined(loose, elements(value))
        named: dict[str, Value] = {}
        for keyword in node.keywords:
            value = self.expr(keyword.value)
            if keyword.arg is not None:
                named[keyword.arg] = value
                continue
            for atom in value:
                fields = atom.fields if isinstance(atom, Box) else {}
                for name, inner in fields.items():
                    named[name] = joined(named.get(name, NOTHING), inner)
                rest = atom.rest if isinstance(atom, Box) else elements(one(atom))
                loose = joined(loose, rest - PLAIN)
        if loose:
            named["*"] = loose
        return self.call(function, args, named, node)

    def call(self, function: Value, args: list[Value], named: dict[str, Value], node: Any) -> Value:
        function = function - MIXED - NONE or function - MIXED
        return joined(*(self.call_one(atom, args, named, node) for atom in function))

    def call_one(self, atom: Any, args: list[Value], named: dict, node: Any) -> Value:
        every = [*args, *named.values()]
        match atom:
            case Bound(own=own, first=(whose, name)) if own is CONTAINER:
                return self.of_container(whose, next(iter(name)).path, args, named, node)
            case Apply(own=own):
                return self.apply(own, every, node)
            case Bound(own=Own(node=ast.ClassDef()) as own, first=first):
                return self.make(own, [*first, *args], named, node)
            case Descriptor(own=own):
                return self.enter(own, args, named, node)
            case Bound(own=own, first=first):
                return self.enter(own, [*first, *args], named, node)
            case Own(node=ast.ClassDef()):
                return self.make(atom, args, named, node)
            case Own():
                return self.enter(atom, args, named, node)
            case Method(name=name):
                return self.call_method(name, every, node)
            case Library(path=path):
                return self.call_library(path, args, named, node)
            case Launch():
                return self.launch(atom, args, named, node)
            case Wrapper(given=given):
                kernels = [a for value in args for a in value if isinstance(a, Kernel)]
                return joined(*(one(Kernel(k.own, joined(k.given, given))) for k in kernels))
            case Inherited(found=found) if found:
                return self.call(found, args, named, node)
            case Inherited(box=box):
                self.hand_over([one(box)], node)
            case Kernel():
                self.tell("outside-kernel", "a kernel called without a grid", node)
                return UNKNOWN
            case Box(cls=cls) if cls is not None:
                for name in ("__call__", "forward"):
                    if found := self.own_only(cls, name, atom, node):
                        return self.call(found, args, named, node)
        if any(map(may_hold, every)):
            self.doubt("a tensor handed to what is not known", node)
        self.hand_over(every, node)
        return UNKNOWN if atom not in PLAIN | NONE or any(map(may_hold, every)) else PLAIN

    # --- the learner's own --------------------------------------------------------------------

    def enter(self, own: Own, args: list[Value], named: dict, node: Any) -> Value:
        """The result of a function of the learner's, whose body is followed for these values."""
        values = self.parameters(own, args, named)
        key = (own, self.exercise, frozenset(values.items()))
        if key in self.memo and key not in self.active and self.exercise is not None:
            return self.memo[key]
        if key in self.active or len(self.active) >= MAX_CALLS:
            if key not in self.active:
                raise TooMuch
            self.active[key] = True
            return self.memo.get(key, NOTHING)
        env = self.envs.setdefault(key, Env(own.env))
        before = self.env, self.cell
        for _ in range(MAX_ROUNDS):
            self.active[key] = False
            env.names = {}
            for name, value in values.items():
                env.set(name, value)
            self.env, self.cell = env, own.cell
            known = self.memo.get(key, NOTHING)
            try:
                self.memo[key] = joined(known, self.body(own))
            finally:
                self.env, self.cell = before
                again = self.active.pop(key)
            if not again or self.memo[key] == known:
                return self.memo[key]
        raise TooMuch

    def body(self, own: Own) -> Value:
        if isinstance(own.node, ast.Lambda):
            return self.expr(own.node.body)
        self.returns.append([])
        self.yields.append([])
        try:
            self.block(own.node.body)
        finally:
            returned, yielded = self.returns.pop(), self.yields.pop()
        if yielded:
            return self.filled((own.node, "yields"), joined(*yielded))
        return joined(*returned) or NONE

    def parameters(self, own: Own, args: list[Value], named: dict) -> dict[str, Value]:
        arguments = own.node.args
        plain = [a.arg for a in [*arguments.posonlyargs, *arguments.args]]
        names = plain + [a.arg for a in arguments.kwonlyargs]
        loose = named.get("*", NOTHING)
        values = dict(zip(plain, args, strict=False))
        for name in names:
            given = named.get(name, values.get(name, NOTHING))
            if name not in named and name not in values:
                given = joined(own.defaults.get(name, NOTHING), loose)
            values[name] = given or UNKNOWN
        if arguments.vararg is not None:
            over = args[len(plain) :]
            whole = one(Items(tuple(over)))
            values[arguments.vararg.arg] = whole if not loose else joined(loose, *over)
            if loose:
                box = self.filled((own.node, "*"), joined(loose, *over))
                values[arguments.vararg.arg] = box
        if arguments.kwarg is not None:
            box = self.box((own.node, "**"))
            for name, value in named.items():
                if name not in names:
                    box.put(None if name == "*" else name, value)
            values[arguments.kwarg.arg] = one(box)
        return values

    def make(self, own: Own, args: list[Value], named: dict, node: Any) -> Value:
        """An instance of a class of the learner's."""
        box = self.box((own, node), own)
        init = self.own_only(own, "__init__", box, node)
        if init:
            self.call(init, args, named, node)
        else:
            fields = [s.target.id for s in own.node.body if _declares(s)]
            for name, value in [*zip(fields, args, strict=False), *named.items()]:
                box.put(None if name == "*" else name, value)
            if len(args) > len(fields):
                box.put(None, frozenset(atom for value in args for atom in inside(value)))
            self.call(self.own_only(own, "__post_init__", box, node), [], {}, node)
        return one(box)

    def own_only(self, own: Own, name: str, box: Box | None, node: Any) -> Value:
        """An attribute of a class, if the learner wrote it."""
        found = self.of_class(own, name, box, node)
        return frozenset(a for a in found if not isinstance(a, Inherited)) - UNKNOWN

    def of_base(self, base: Any, name: str, box: Box | None, node: ast.AST) -> Value:
        path = base.path if isinstance(base, Library) else ""
        if name == "apply" and path.startswith("torch.autograd.") and path.endswith("Function"):
            return one(APPLY)
        return super().of_base(base, name, box, node)

    def of_class(self, own: Own, name: str, box: Box | None, node: ast.AST) -> Value:
        found = super().of_class(own, name, box, node)
        return one(Apply(own)) if name == "apply" and any(map(_applies, found)) else found

    def apply(self, own: Own, args: list[Value], node: Any) -> Value:
        """An autograd function: its forward pass, and its backward pass on some gradient."""
        context = self.box((own, "ctx"))
        context.is_context = True
        forward, backward, setup = (
            self.own_only(own, name, None, node)
            for name in ("forward", "backward", "setup_context")
        )
        first = [] if setup else [one(context)]
        result = self.call(forward, [*first, *args], {}, node)
        if setup:
            self.call(setup, [one(context), self.filled((own, "args"), joined(*args)), result],
                      {}, node)  # fmt: skip
        self.call(backward, [one(context)], {"*": TENSOR}, node)
        return result

    def hand_over(self, values: list[Value], node: Any) -> None:
        """A function of the learner's was given away: anybody may call it."""
        for atom in [atom for value in values for atom in inside(value)]:
            own = atom.own if isinstance(atom, Bound | Descriptor | Apply) else atom
            if isinstance(atom, Box) and atom.cls is not None:
                self.hand_over_methods(atom, node)
            elif isinstance(own, Own) and not _takes(own):
                made = self.make(own, [], {"*": UNKNOWN}, node)
                self.hand_over_methods(next(iter(made)), node)
                if isinstance(atom, Apply):
                    self.apply(own, [UNKNOWN], node)
            elif isinstance(own, Own) and own is not CONTAINER and _takes(own):
                first = list(atom.first) if isinstance(atom, Bound) else []
                self.enter(own, first, {}, node)

    def hand_over_methods(self, box: Box, node: Any) -> None:
        for cls in ancestors(box.cls):
            for method in [a for value in cls.fields.values() for a in value]:
                if isinstance(method, Own) and _takes(method):
                    self.enter(method, [one(box)], {}, node)

    # --- containers and tensors ---------------------------------------------------------------

    def of_container(
        self, whose: Value, name: str, args: list[Value], named: dict, node: Any
    ) -> Value:
        content = elements(whose)
        given = [*args, *named.values()]
        reads = name not in allowed.MUTATES | {"get", "pop"} and any(map(holds, given))
        if name not in allowed.MUTATES:
            self.hand_over(given, node)
        if reads or (name in ("sort", "index", "count", "remove") and holds(content)):
            self.doubt(f".{name} of a container of tensors, or with one", node)
        for atom in whose:
            if isinstance(atom, Box) and name in allowed.MUTATES:
                given = joined(*args, *named.values())
                inner = [elements(v) for v in args] if name in ("extend", "update") else []
                self.put(atom, None, joined(*inner) if inner else given, node)
        if name in allowed.MUTATES:
            return joined(content, *args) if name == "setdefault" else NONE
        if name in ("index", "count"):
            return PLAIN
        keys = content if any(a.rest for a in whose if _is_box(a)) else PLAIN
        if name == "keys":
            return self.filled((frozenset(whose), name), keys or PLAIN)
        pair = one(Items((keys or PLAIN, content or PLAIN)))
        if name == "popitem":
            return pair
        if name == "items":
            return self.filled((frozenset(whose), name), pair)
        if name in ("values", "copy"):
            return self.filled((frozenset(whose), "values"), content or PLAIN)
        key = node.args[0] if name in ("get", "pop") and getattr(node, "args", ()) else None
        text = getattr(key, "value", None)
        known = [a.get(text if isinstance(text, str) else None) for a in whose if _is_box(a)]
        if name not in allowed.STAYS and not isinstance(text, str):
            for atom in filter(_is_box, whose):
                atom.move()
        return joined(*known if all(known) and known else [content or PLAIN], *args[1:])

    def put(self, box: Box | Own, name: str | None, value: Value, node: Any) -> None:
        """Keep a value in a container, an object, a class or a function."""
        shared = box.shared if isinstance(box, Box) else box.env is self.module
        before = Box.changes
        if shared and holds(value) and self.exercise is not None:
            self.doubt("a tensor kept beyond the call", node)
        if isinstance(box, Box):
            box.put(name, value)
        else:
            name = name or "*"
            new = joined(box.fields.get(name, NOTHING), value)
            Box.changes = before + (new != box.fields.get(name))
            box.fields[name] = new

    def call_method(self, name: str, args: list[Value], node: Any) -> Value:
        """A method of a tensor, or a function of torch, whose use has been told.

        args: without the tensor itself.
        """
        known = name in allowed.MAKES | allowed.ASKS and name not in allowed.TAKE_TENSORS
        if known and any(map(may_hold, args)):
            self.judge(
                [v for value in args for v in (value, elements(value))],
                f"a tensor as a size in `{name}`",
                node,
            )
        if name in allowed.ASKS | allowed.PLAIN_ATTRIBUTES:
            return PLAIN
        if name in allowed.MAKES_OF_PLAIN and any(map(may_hold, args)):
            self.doubt(f"`{name}` of what may hold numbers of a tensor", node)
        return TENSOR


def ancestors(own: Own | None) -> list[Own]:
    """A class of the learner's and those it comes from."""
    found: list[Own] = []
    waiting = [own] if own is not None else []
    while waiting:
        cls = waiting.pop()
        if cls not in found:
            found.append(cls)
            waiting += [a for base in cls.bases for a in base if isinstance(a, Own)]
    return found


def _is_box(atom: Any) -> bool:
    return isinstance(atom, Box)


def in_order(atom: Any) -> list[Value] | None:
    """The elements of a tuple, or of a list to which nothing was added."""
    if isinstance(atom, Items):
        return list(atom.values)
    if not isinstance(atom, Box) or atom.cls or atom.rest:
        return None
    if atom.moved:
        return None
    places = [str(n) for n in range(len(atom.fields))]
    return [atom.fields[n] for n in places] if set(places) == set(atom.fields) else None


def _applies(atom: Any) -> bool:
    return atom == APPLY or isinstance(atom, Apply)


def _declares(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)


def _takes(own: Own) -> bool:
    return not isinstance(own.node, ast.ClassDef)
