"""What the names and expressions of learner code may stand for, found without running it.

A value is a set of atoms: dotted library names (`F` stands for torch.nn.functional), texts that are
known (`"layer_" + "norm"`), and pieces of the learner's own code. The empty set means "not known".
Module-level statements are followed in order, so that the last definition counts; inside branches
a name may stand for several things at once.
"""

import ast
import builtins
import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

MAX_TEXT = 500
MAX_ATOMS = 64  # hostile code could multiply them without end


@dataclass(frozen=True)
class Dotted:
    path: str


@dataclass(frozen=True)
class Text:
    text: str


@dataclass(frozen=True)
class Getter:
    """`operator.attrgetter(text)` and `operator.methodcaller(text, ...)`."""

    text: str


@dataclass(eq=False)
class Code:
    """A function, lambda or class of the learner's, with what was known where it was defined."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef
    scope: "Scope"  # where its free names are looked up
    cell: int  # position in the list of cells
    defaults: dict[str, "Value"] = field(default_factory=dict)
    parts: list[tuple["Value", ast.AST, int]] = field(default_factory=list)
    # parts: (value, node, cell) of bases, decorators, attributes assigned from outside


@dataclass(frozen=True)
class Product:
    """What a piece of the learner's code made or holds: an instance, a method, a result."""

    code: Code


Value = frozenset  # of Dotted, Text, Getter, Code, Product
UNKNOWN: Value = frozenset()
ANY = Dotted("?")  # beside other atoms: or anything else. Its attributes are `?.name`
LIBRARY = Dotted("<library>")  # something of a library, looked up by a name made at run time
GLOBALS = Dotted("<globals>")
MADE = ".<made>"  # ends the path of an instance of a library class


class Scope:
    """The names of a module, function or class, and where the module's were last bound."""

    def __init__(self, parent: "Scope | None" = None, *, is_class: bool = False) -> None:
        self.parent = parent
        self.is_class = is_class
        self.names: dict[str, Value] = {}
        self.bound_at: dict[str, tuple[ast.AST, int]] = {}
        self.outer: dict[str, Scope] = {}  # names declared global or nonlocal
        self.stars: list[str] = []  # modules imported by *

    @property
    def module(self) -> "Scope":
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope

    def for_functions(self) -> "Scope":
        """The scope that a function defined here sees: a class body is not part of it."""
        return self.parent if self.is_class and self.parent is not None else self

    def lookup(self, name: str) -> Value:
        scope: Scope | None = self.outer.get(name, self)
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        if name == "__builtins__":
            return frozenset([Dotted(name)])
        if hasattr(builtins, name):
            return frozenset([Dotted(f"builtins.{name}")])
        return frozenset(Dotted(f"{star}.{name}") for star in self.module.stars)


_CANONICAL = [
    (re.compile(r"^torch\.(?:.*\.)?torch(?=\.|$)"), "torch"),
    (re.compile(r"^torch\.(?:.*\.)?F(?=\.|$)"), "torch.nn.functional"),
    (re.compile(r"^torch\.(?:.*\.)?_VF(?=\.|$)"), "torch"),
    (
        re.compile(r"^torch\.(?:_tensor\.Tensor|nn\.(?:parameter\.)?Parameter)(?=\.)"),
        "torch.Tensor",
    ),
    (re.compile(r"^torch\._C\._VariableFunctions(?:Class)?(?=\.|$)"), "torch"),
    (re.compile(r"^torch\.nn\.modules\.(?:[a-z_]+\.)?(?=[A-Z])"), "torch.nn."),
    (re.compile(r"^torch\.nn\.modules\.[a-z_]+\.functional(?=\.|$)"), "torch.nn.functional"),
]


@lru_cache(maxsize=4096)
def canonical(path: str) -> str:
    """The name under which torch documents what `path` leads to: torch._VF.x is torch.x."""
    for pattern, name in _CANONICAL:
        path = pattern.sub(name, path, count=1)
    return path


def capped(atoms: set) -> Value:
    return frozenset(atoms) if len(atoms) <= MAX_ATOMS else UNKNOWN


def texts(value: Value) -> list[str]:
    return sorted(atom.text for atom in value if isinstance(atom, Text))


def paths(value: Value) -> list[str]:
    return sorted(atom.path for atom in value if isinstance(atom, Dotted))


def text_value(*found: str) -> Value:
    return capped({Text(text) for text in found if len(text) <= MAX_TEXT})


def owner(atom: Any) -> Code | None:
    """The piece of the learner's code that an atom is, or comes from."""
    return atom.code if isinstance(atom, Product) else atom if isinstance(atom, Code) else None


def attribute(value: Value, name: str, patched: dict[str, Value]) -> Value:
    """`value.name`. The learner's own objects stay whole: whatever they hold is theirs."""
    if name in ("__name__", "__qualname__", "__doc__", "__module__"):
        return UNKNOWN
    found: set = set() if value else {Dotted(f"?.{name}")}
    for atom in value:
        if isinstance(atom, Dotted) and len(atom.path) < MAX_TEXT:
            if atom == LIBRARY:
                found.add(atom)
                continue
            base = "?" if atom.path.startswith("?") else atom.path
            path = f"{base}.{name}"
            found |= {Dotted(path)} | patched.get(canonical(path), UNKNOWN)
        elif code := owner(atom):
            found.add(Product(code))
    return frozenset(found)


def fold_method(receiver: Value, method: str, args: list[Value]) -> Value | None:
    """The result of a string method on known texts, or None when it is not one."""
    mine = texts(receiver)
    if len(mine) != 1 or method not in _METHODS:
        return None
    given = [texts(arg) for arg in args]
    if method == "join" and len(args) == 1:
        return None  # needs the order of a literal list: see fold_join
    if any(len(options) != 1 for options in given):
        return None
    try:
        return text_value(getattr(mine[0], method)(*(options[0] for options in given)))
    except (TypeError, ValueError, IndexError, KeyError):
        return None


_METHODS = {
    "capitalize", "casefold", "format", "join", "lower", "lstrip", "removeprefix", "removesuffix",
    "replace", "rstrip", "strip", "swapcase", "title", "upper",
}  # fmt: skip


def fold_slice(value: Value, node: ast.Subscript) -> Value:
    """`"mron_reyal"[::-1]` and the like, for known texts and literal numbers."""
    try:
        bounds = node.slice
        if isinstance(bounds, ast.Slice):
            parts = [bounds.lower, bounds.upper, bounds.step]
            index = slice(*(None if p is None else ast.literal_eval(p) for p in parts))
        else:
            index = ast.literal_eval(bounds)
        return text_value(*(text[index] for text in texts(value)))
    except (ValueError, TypeError, IndexError, SyntaxError, RecursionError):
        return UNKNOWN


def imported(node: ast.Import | ast.ImportFrom) -> list[tuple[str, str]]:
    """`(name it binds, dotted path)` of each name; `*` stands for all of a module."""
    if isinstance(node, ast.ImportFrom):
        if node.level or not node.module:
            return [(alias.asname or alias.name, "") for alias in node.names]
        found = [
            (alias.asname or alias.name, f"{node.module}.{alias.name}") for alias in node.names
        ]
        return [("*", node.module) if name == "*" else (name, path) for name, path in found]
    return [
        (alias.asname, alias.name) if alias.asname else (alias.name.split(".")[0],) * 2
        for alias in node.names
    ]
