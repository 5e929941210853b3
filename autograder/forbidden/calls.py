"""What a call in learner code may give: getattr, imports, exec and others whose effect is known."""

import ast

from ..magics import parse
from .aliases import (
    ANY,
    GLOBALS,
    LIBRARY,
    MADE,
    UNKNOWN,
    Code,
    Dotted,
    Getter,
    Product,
    Value,
    attribute,
    canonical,
    capped,
    fold_method,
    owner,
    paths,
    text_value,
    texts,
)
from .expressions import Expressions
from .steering import patches, reaches

# Calls that look at a function without running it.
_HARMLESS = {
    "builtins.isinstance", "builtins.issubclass", "builtins.hasattr", "builtins.type",
    "builtins.id", "builtins.print", "builtins.repr", "builtins.help", "builtins.callable",
    "functools.wraps", "functools.update_wrapper", "inspect.signature", "inspect.getdoc",
}  # fmt: skip
_GETATTR = {"builtins.getattr", "inspect.getattr_static", "builtins.object.__getattribute__"}
_SETATTR = {"builtins.setattr", "builtins.object.__setattr__", "builtins.type.__setattr__"}
_IMPORT = {
    "importlib.import_module", "importlib.__import__", "builtins.__import__",
    "pkgutil.resolve_name", "pydoc.locate", "logging.config._resolve",
}  # fmt: skip
_SEARCH = {"inspect.getmembers", "inspect.getmembers_static"}
_TABLES = {
    "torch._C._jit_get_operation", "torch.overrides.get_overridable_functions",
    "torch.overrides.get_testing_overrides",
}  # fmt: skip
_RUN = {"builtins.eval", "builtins.exec", "builtins.compile"}
_TIMED = {"timeit.timeit", "timeit.repeat", "timeit.Timer"}  # a function, or a text


class Calls(Expressions):
    """The part of a walk that deals with calls."""

    def defaults(self, arguments: ast.arguments) -> dict[str, Value]:
        plain = [*arguments.posonlyargs, *arguments.args]
        late = plain[len(plain) - len(arguments.defaults) :]
        pairs = list(zip(late, arguments.defaults, strict=True))
        pairs += zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        return {a.arg: self.expr(default) for a, default in pairs if default is not None}

    def call(self, node: ast.Call) -> Value:
        if isinstance(node.func, ast.Attribute):
            receiver, function = self.attribute(node.func)
        else:
            receiver, function = UNKNOWN, self.expr(node.func)
        values = [self.expr(argument) for argument in node.args]
        named = {keyword.arg: self.expr(keyword.value) for keyword in node.keywords}
        called = [canonical(path) for path in paths(function)]
        if not any(path in _HARMLESS for path in called):
            self.use(function, node.func)
            pairs = [*zip(node.args, values, strict=True)]
            pairs += [(keyword.value, named[keyword.arg]) for keyword in node.keywords]
            for argument, value in pairs:
                self.use(self.kept(value), argument)
        special = self.special(called, function, receiver, values, named, node)
        if special is not None:
            return special
        if any(self.is_table(path) for value in values for path in paths(value)):
            self.suspect("a library searched at run time", node)
        if self.used is None:
            self.run_globals(function)
        result = UNKNOWN
        for value in [*values, *named.values()]:
            result |= self.kept(value)
        return result | self.made(function)

    def made(self, function: Value) -> Value:
        """What a call makes: an instance of a class, or the result of the learner's own code."""
        found: set = set()
        for atom in function:
            if isinstance(atom, Code) and isinstance(atom.node, ast.ClassDef):
                found.add(Product(atom))
            elif code := owner(atom):
                found |= {Product(code), ANY}  # a function's result is not the function
            elif isinstance(atom, Getter) or atom == LIBRARY:
                found.add(atom)
            elif isinstance(atom, Dotted) and atom.path.rpartition(".")[2][:1].isupper():
                found |= {Dotted(atom.path + MADE)} if self.is_forbidden(atom.path) else set()
        return frozenset(found)

    def special(
        self,
        called: list[str],
        function: Value,
        receiver: Value,
        values: list[Value],
        named: dict[str | None, Value],
        node: ast.Call,
    ) -> Value | None:
        """The result of a call whose meaning is known, or None."""
        if isinstance(node.func, ast.Attribute) and texts(receiver):
            if node.func.attr == "join" and len(node.args) == 1:
                return self.join(receiver, node.args[0])
            folded = fold_method(receiver, node.func.attr, values)
            if folded is not None:
                return folded
        for atom in function:
            if isinstance(atom, Getter) and values:
                found = self.getattr(values[0], text_value(atom.text), node)
                self.use(found, node)
                return found
        if any("builtins.getattr" in paths(value) for value in values):
            self.suspect("getattr handed to another function", node)
            return frozenset([LIBRARY])
        for path in called:
            base, _, method = path.rpartition(".")
            first = values[0] if values else UNKNOWN
            if path in _GETATTR and len(values) >= 2:
                return self.getattr(first, values[1], node) | (values[2] if values[2:] else UNKNOWN)
            if method == "__getattribute__" and len(values) == 2:
                return self.getattr(first, values[1], node)
            if method in ("__getattribute__", "__getattr__") and values:
                return self.getattr(frozenset([Dotted(base)]), first, node)
            if path in _SETATTR and len(values) == 3:
                self.set_attribute(first, texts(values[1]), values[2], node.args[2])
                return UNKNOWN
            if method == "__setattr__" and len(values) == 2:
                whose = frozenset([Dotted(base)])
                self.set_attribute(whose, texts(first), values[1], node.args[1])
                return UNKNOWN
            if path in ("builtins.globals", "builtins.locals", "builtins.vars") and not values:
                return frozenset([GLOBALS])
            if path == "builtins.vars":
                return attribute(first, "__dict__", self.patched)
            if base == GLOBALS.path and method in ("update", "__setitem__"):
                for name, value in named.items():
                    self.set_global(text_value(name or ""), value, node)
                if values[1:]:
                    self.set_global(first, values[1], node)
                return UNKNOWN
            if base == GLOBALS.path or base == "sys.modules" or base.endswith(".__dict__"):
                if method in ("update", "__setitem__", "setdefault") and patches(base):
                    self.steer(f"an assignment in {base}", node)
                if method in ("get", "pop", "__getitem__", "setdefault"):
                    return self.item(frozenset([Dotted(base)]), first, node)
                if method in ("items", "values", "copy") and self.is_table(base):
                    return self.searched(node)
            if path in _TABLES:
                return self.searched(node)
            if path in _SEARCH and any(self.is_root(p) for p in paths(first)):
                return self.searched(node)
            if path in _IMPORT:
                return self.imported(path, values, named, node)
            if path in _TIMED and values and (texts(first) or not first):
                return self.executed(path, first, node) if texts(first) else self.timed(node)
            if path in _RUN:
                return self.executed(path, first, node)
            if path in ("operator.attrgetter", "operator.methodcaller"):
                if not texts(first):
                    self.suspect("a name made at run time", node)
                    return frozenset([LIBRARY])
                return frozenset(Getter(text) for text in texts(first))
            if path == "operator.getitem" and len(values) == 2:
                return self.item(first, values[1], node)
            if path == "builtins.str" and texts(first):
                return first
        return None

    def searched(self, node: ast.AST) -> Value:
        self.suspect("a library searched at run time", node)
        return frozenset([LIBRARY])

    def timed(self, node: ast.AST) -> Value:
        self.suspect("timeit of what may be a text", node)
        return UNKNOWN

    def join(self, receiver: Value, listed: ast.expr) -> Value | None:
        if len(texts(receiver)) != 1 or not isinstance(listed, ast.List | ast.Tuple):
            return None
        options = [texts(value) for value in self.elements.get(listed, [])]
        if any(len(option) != 1 for option in options):
            return UNKNOWN
        return text_value(texts(receiver)[0].join(option[0] for option in options))

    def getattr(self, whose: Value, name: Value, node: ast.AST) -> Value:
        found: set = set()
        for text in texts(name):
            value = whose
            for part in text.split("."):
                if reaches(part):
                    self.steer(part, node)
                value = self.notice(attribute(value, part, self.patched), node)
            found |= value
        if not texts(name) and any(self.is_root(path) for path in paths(whose)):
            self.suspect("getattr on a library with a name made at run time", node)
            found.add(LIBRARY)
        return capped(found)

    def imported(
        self, path: str, values: list[Value], named: dict[str | None, Value], node: ast.Call
    ) -> Value:
        names = texts(values[0] if values else named.get("name", UNKNOWN))
        if not names:
            self.suspect("an import of a name made at run time", node)
            return frozenset([LIBRARY])
        package = texts(values[1] if values[1:] else named.get("package", UNKNOWN))
        found = set()
        for name in names:
            if name.startswith(".") and package:
                name = f"{package[0]}.{name.lstrip('.')}"
            elif path.endswith("__import__") and not (values[3:] or "fromlist" in named):
                name = name.split(".")[0]
            found.add(Dotted(name.replace(":", ".")))
        return self.notice(capped(found), node)

    def executed(self, path: str, source: Value, node: ast.Call) -> Value:
        """exec and eval of a known text is code like any other; of anything else, a doubt."""
        result = UNKNOWN
        if not texts(source) or self.at is not None:
            self.suspect(path.removeprefix("builtins."), node)
            if not texts(source):
                self.steer(f"{path.removeprefix('builtins.')} of a text made at run time", node)
            return UNKNOWN
        for text in texts(source):
            if text not in self.parsed:
                self.parsed[text] = parse(text.strip())
            tree = self.parsed[text]
            if tree is None:
                continue
            if path == "builtins.compile":
                result |= text_value(text)
                continue
            self.at = node
            for statement in tree.body:
                if isinstance(statement, ast.Expr):
                    value = self.expr(statement.value)
                    result |= value
                    self.use(self.kept(value), node)
                else:
                    self.statement(statement)
            self.at = None
        return result

    def run_globals(self, function: Value) -> None:
        """A function called at module level may rebind module names by `global`."""
        for code in filter(None, map(owner, function)):
            if code in self.ran or len(self.ran) > 200:
                continue
            self.ran.add(code)
            if any(isinstance(inner, ast.Global) for inner in ast.walk(code.node)):
                cell, branches = self.cell, self.branches
                self.cell, self.branches = code.cell, 0
                self.enter(code)
                self.cell, self.branches = cell, branches
