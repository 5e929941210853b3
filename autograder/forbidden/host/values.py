"""What names and expressions of host code may stand for: see `host`.

A value is a set of atoms, all that it may be. Lists, dictionaries and objects are boxes, one for
each place in the text that makes them, so that whoever holds a box sees what others put into it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

MAX_ATOMS = 200
MAX_INSIDE = 3000
NUMBERS = ("math", "sys", "torch", "triton", "os")  # libraries that have numbers
MAX_DEPTH = 6  # of tuples in tuples


class TooMuch(Exception):
    """The code is too large, or calls itself too deeply, to follow."""


@dataclass(frozen=True)
class Mark:
    name: str


@dataclass(frozen=True)
class Library:
    """A name of a library, or of Python's builtins."""

    path: str


@dataclass(frozen=True)
class Method:
    """A method of a tensor, not called yet."""

    name: str


@dataclass(eq=False)
class Own:
    """A function, lambda or class of the learner's."""

    node: Any
    env: Env
    cell: int
    defaults: dict[str, Value] = field(default_factory=dict)
    fields: dict[str, Value] = field(default_factory=dict)
    bases: list[Value] = field(default_factory=list)


@dataclass(frozen=True)
class Bound:
    """A method with its object, or a partial call."""

    own: Own
    first: tuple[Value, ...]


@dataclass(frozen=True)
class Inherited:
    """A name that an object of the learner's has from its classes or, if not there, a library."""

    box: Box
    found: Value  # by `super()`; none: it is a library's


@dataclass(frozen=True)
class Apply:
    """The `apply` of an autograd function."""

    own: Own


@dataclass(frozen=True)
class Descriptor:
    """What `property`, `staticmethod` or `classmethod` made."""

    kind: str
    own: Own


@dataclass(frozen=True)
class Wrapper:
    """`triton.heuristics(given)` or `triton.autotune(given)`."""

    given: Value


@dataclass(frozen=True)
class Kernel:
    own: Own
    given: Value = frozenset()  # to its wrappers

    def parameters(self) -> list[ast.arg]:
        arguments = self.own.node.args
        return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]


@dataclass(frozen=True)
class Launch:
    """`kernel[grid]`."""

    kernel: Kernel
    grid: Value


@dataclass(frozen=True)
class Items:
    """A tuple whose elements are known one by one."""

    values: tuple[Value, ...]


@dataclass(eq=False)
class Box:
    """A list, dictionary or object."""

    shared: bool  # whether it outlives the call of an exercise
    cls: Own | None = None
    is_context: bool = False  # the `ctx` of an autograd function
    fields: dict[str, Value] = field(default_factory=dict)
    rest: Value = frozenset()
    moved: bool = False  # whether the elements of a list may have changed their places
    changes: ClassVar[int] = 0  # of all boxes

    def put(self, name: str | None, value: Value) -> None:
        old = self.rest if name is None else self.fields.get(name, NOTHING)
        new = joined(old, value)
        Box.changes += new != old
        if name is None:
            self.rest = new
        else:
            self.fields[name] = new

    def move(self) -> None:
        Box.changes += not self.moved
        self.moved = True

    def get(self, name: str | None) -> Value:
        """What it holds under a name or at a place; nothing, if it is not known where."""
        if name is None or (self.moved and name.isdigit()) or name not in self.fields:
            return NOTHING
        return joined(self.fields[name], self.rest)

    @property
    def content(self) -> Value:
        return joined(self.rest, *self.fields.values())


class Env:
    """The names of a module, class, function or comprehension."""

    def __init__(self, parent: Env | None = None, *, is_class: bool = False) -> None:
        self.parent, self.is_class, self.is_comprehension = parent, is_class, False
        self.is_part = is_class  # runs at once, where it stands
        self.names: dict[str, Value] = {}
        self.ever: dict[str, Value] = {}  # what a name has ever stood for: closures run late
        self.outer: dict[str, Env] = {}

    def for_functions(self) -> Env:
        return self.parent if self.is_class and self.parent is not None else self

    def holder(self, name: str) -> Env | None:
        env: Env | None = self.outer.get(name, self)
        while env is not None and name not in env.names:
            env = env.parent
        return env

    def lookup(self, name: str) -> Value | None:
        """What a name stands for now; in a function around this one, what it ever stood for."""
        env: Env | None = self.outer.get(name, self)
        now = True
        while env is not None and name not in env.names:
            now, env = now and env.is_part, env.parent
        if env is None:
            return None
        return env.names[name] if now or env.parent is None else env.ever.get(name, NOTHING)

    def set(self, name: str, value: Value) -> None:
        self.names[name] = value
        known = self.ever.get(name, NOTHING)
        if not value <= known:
            self.ever[name] = joined(known, value)
            Box.changes += 1


Value = frozenset  # of atoms
NOTHING: Value = frozenset()
_PLAIN, _TENSOR, _UNKNOWN, _NONE, _MIXED = map(
    Mark, ("plain", "tensor", "unknown", "none", "mixed")
)
PLAIN: Value = frozenset([_PLAIN])  # holds no number of a tensor
TENSOR: Value = frozenset([_TENSOR])
UNKNOWN: Value = frozenset([_UNKNOWN])
NONE: Value = frozenset([_NONE])
MIXED: Value = frozenset([_MIXED])  # beside others: one of them, by its place in a container


def one(atom: Any) -> Value:
    return frozenset([atom])


def joined(*values: Value) -> Value:
    found = frozenset().union(*values)
    if len(found) > MAX_ATOMS:
        raise TooMuch
    return found


def items(*values: Value) -> Value:
    if max([0, *map(_depth, values)]) >= MAX_DEPTH or len(values) > 64:
        return joined(PLAIN, *values)
    return one(Items(values))


def _depth(value: Value) -> int:
    inner = [v for atom in value if isinstance(atom, Items) for v in atom.values]
    return 1 + max(map(_depth, inner)) if inner else 0


def inside(value: Value) -> Iterator[Any]:
    """Its atoms, and those of the containers and objects among them."""
    seen: set[Any] = set()
    waiting = list(value)
    while waiting:
        atom = waiting.pop()
        if atom in seen:
            continue
        seen.add(atom)
        if len(seen) > MAX_INSIDE:
            raise TooMuch
        yield atom
        if isinstance(atom, Items):
            waiting += [inner for v in atom.values for inner in v]
        elif isinstance(atom, Box):
            waiting += atom.content
        elif isinstance(atom, Bound):
            waiting += [inner for v in atom.first for inner in v]


def is_tensor(value: Value) -> bool:
    """Whether it is a tensor for sure, at least in some round of a loop."""
    return _TENSOR in value and value <= TENSOR | NONE | PLAIN


def may_hold(value: Value) -> bool:
    """Whether it may be a tensor, hold one, or hold what is not known."""
    return any(atom in (_TENSOR, _UNKNOWN) or isinstance(atom, Method) for atom in inside(value))


def holds(value: Value) -> bool:
    return any(atom == _TENSOR or isinstance(atom, Method) for atom in inside(value))


def is_unclear(value: Value) -> bool:
    """Whether an operation on it may be one on a tensor, though that is not for sure."""
    odd = Method | Bound | Inherited | Own | Kernel | Launch | Wrapper | Descriptor
    return any(
        atom in (_TENSOR, _UNKNOWN)
        or (isinstance(atom, Library) and atom.path.split(".")[0] not in NUMBERS)
        or isinstance(atom, odd)
        or (isinstance(atom, Box) and atom.cls is not None)
        for atom in value
    )


def elements(value: Value) -> Value:
    """What a loop over it gives."""
    found = NOTHING
    for atom in value:
        if isinstance(atom, Items):
            found = joined(found, *atom.values)
        elif isinstance(atom, Box):
            found = joined(found, atom.content or PLAIN)
        elif isinstance(atom, Mark):
            found = joined(found, one(atom) - NONE - MIXED)
        else:
            found = joined(found, UNKNOWN)
    return mixed(found)


def mixed(value: Value) -> Value:
    """What lies in a container: where there are tensors and numbers, either."""
    return value | MIXED if value >= TENSOR | PLAIN else value
