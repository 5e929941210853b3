"""Calls of libraries and launches of kernels in host code: see `host`."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

from . import allowed
from .calls import Calls, ancestors
from .values import (
    MIXED,
    NONE,
    NOTHING,
    PLAIN,
    TENSOR,
    UNKNOWN,
    Bound,
    Box,
    Descriptor,
    Inherited,
    Items,
    Kernel,
    Launch,
    Library,
    Mark,
    Own,
    Value,
    Wrapper,
    elements,
    holds,
    inside,
    joined,
    may_hold,
    one,
)


@dataclass(frozen=True)
class Super:
    """What `super()` gives in a method of this object."""

    box: Box


JIT = ("triton.jit", "triton.runtime.jit.jit", "triton.runtime.jit")
WRAPPERS = ("triton.heuristics", "triton.autotune")
DESCRIPTORS = {
    "builtins.property": "property", "functools.cached_property": "property",
    "builtins.staticmethod": "static", "builtins.classmethod": "classmethod",
}  # fmt: skip


class Libraries(Calls):
    def call_library(self, path: str, args: list[Value], named: dict, node: Any) -> Value:
        every = [*args, *named.values()]
        mine = [a for value in args for a in value if isinstance(a, Own) and a.node is not None]
        root, _, name = path.partition(".")
        if path == "<quiet>":
            return PLAIN
        if root in allowed.RUNNERS or path in ("torch.load", "types.FunctionType"):
            self.doubt(path, node, always=True)
        if root == "timeit" and PLAIN in (*args[:1], named.get("stmt"), named.get("setup")):
            self.doubt("a text run by timeit", node, always=True)
        if path in JIT:
            for own in mine:
                self.check_kernel(own, node)
            kernels = [Kernel(own) for own in mine if not isinstance(own.node, ast.ClassDef)]
            return frozenset(kernels) or (UNKNOWN if mine else one(Library(path)))
        if path in WRAPPERS:
            return one(Wrapper(joined(*every)))
        if path in DESCRIPTORS and mine:
            return joined(*(one(Descriptor(DESCRIPTORS[path], own)) for own in mine))
        if path == "functools.partial" and mine and len(mine) == len(args[0]):
            if not named:
                return joined(*(one(Bound(own, tuple(args[1:]))) for own in mine))
            self.call(args[0], args[1:], {**named, "*": UNKNOWN}, node)
            return UNKNOWN
        if path in ("functools.wraps", "<pass>"):
            return one(Library("<pass>")) if path != "<pass>" else self.wrapped(joined(*args))
        if path == "functools.update_wrapper" and args:
            return self.wrapped(args[0])
        if path in allowed.PASSED_ON:
            if any(map(may_hold, every)):
                self.doubt(f"{path} of what may be a tensor", node)
            return joined(*args) - PLAIN - NONE or one(Library(path))
        self.hand_away(path, every, node)
        if root == "builtins":
            return self.call_builtin(name, args, every, node)
        if root == "torch":
            return self.call_torch(name, args, every, node)
        tensors = any(map(may_hold, every))
        if tensors and root in ("math", "operator"):
            found = self.compute(path, [elements_too(v) for v in every], node)
            return TENSOR if found == TENSOR else UNKNOWN
        if path == "triton.reinterpret" or "TensorDescriptor" in path:
            return TENSOR
        if tensors:
            self.doubt(f"{path} of what may be a tensor", node)
            return UNKNOWN
        return PLAIN if root in allowed.PLAIN_LIBRARIES else UNKNOWN

    def wrapped(self, value: Value) -> Value:
        """A function that got the annotations of another."""
        for own in value:
            if isinstance(own, Own):
                own.fields["__wrapped__"] = PLAIN
        return value

    def check_kernel(self, own: Own, node: Any) -> None:
        """A kernel is what its text says only if nothing came between `jit` and the text."""
        between = getattr(own.node, "decorator_list", [])
        paths = [self.expr(d.func if isinstance(d, ast.Call) else d) for d in between]
        plain = all(isinstance(a, Library) and _is_triton(a.path) for v in paths for a in v)
        if not plain or "__wrapped__" in own.fields or not isinstance(own.node, ast.FunctionDef):
            self.doubt("a kernel that something else was made of", node, always=True)

    def hand_away(self, path: str, every: list[Value], node: Any) -> None:
        every_atom = [a for value in every for a in inside(value)]
        given = [a for a in every_atom if isinstance(a, Own | Bound)]
        given += [a for a in every_atom if isinstance(a, Box) and a.cls is not None]
        calls = [a for a in given if not isinstance(getattr(a, "node", None), ast.ClassDef)]
        if given and not path.startswith(allowed.CALLERS):
            self.doubt(f"a function or class handed to {path}", node, always=bool(calls))
        name = path.removeprefix("builtins.")
        if name not in ("map", "filter", "type", "super") and name not in allowed.LOOKS:
            self.hand_over(every, node)

    def call_builtin(self, name: str, args: list[Value], every: list[Value], node: Any) -> Value:
        if name in allowed.DANGEROUS:
            self.doubt(name, node, always=True)
            return UNKNOWN
        if name == "getattr" and len(args) >= 2:
            key = node.args[1] if len(getattr(node, "args", ())) > 1 else None
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                return joined(self.attribute(args[0], key.value, node), *args[2:])
            self.doubt("getattr with a name made at run time", node)
            return UNKNOWN
        if name == "type":
            if len(args) != 1:
                self.doubt("a class made by type()", node, always=True)
                return UNKNOWN
            boxes = [a.cls for a in args[0] if isinstance(a, Box) and a.cls is not None]
            tensor = one(Library("torch.Tensor")) if args[0] & TENSOR else NOTHING
            return joined(tensor, frozenset(boxes)) or PLAIN
        if name == "super":
            return self.above(args)
        if name.endswith(("Error", "Exception", "Warning")) and any(map(may_hold, every)):
            self.doubt("a tensor in an exception", node)
            return UNKNOWN
        if name in ("map", "filter") and args:
            inner = [self.loop_over(value, node) for value in args[1:]]
            result = self.call(args[0], inner, {}, node)
            return self.filled(node, joined(result, *(inner if name == "filter" else [])))
        if name in allowed.LOOKS:
            return PLAIN
        if name in allowed.WRITES:
            if any(map(may_hold, every)):
                self.doubt("the numbers of a tensor as text", node)
            return PLAIN
        if name in allowed.COMPUTES:
            return self.compute(f"{name}()", [elements_too(v) for v in every], node)
        if name in allowed.HOLDS:
            return self.holder(name, args, every, node)
        if any(map(may_hold, every)):
            self.doubt(f"{name} of what may be a tensor", node)
        return UNKNOWN

    def above(self, args: list[Value]) -> Value:
        """`super()`: any class that the object's class comes from."""
        env = self.env
        while env.is_comprehension or (not env.names and env.parent is not None):
            env = env.parent
        found = NOTHING
        for atom in args[1] if len(args) == 2 else next(iter(env.names.values()), UNKNOWN):
            if isinstance(atom, Box) and atom.cls is not None:
                found = joined(found, one(Super(atom)))
            elif isinstance(atom, Own):
                found = joined(found, one(Super(self.box((atom, "super"), atom))))
            else:
                found = joined(found, UNKNOWN)
        return found

    def attribute_of(self, atom: Any, name: str, node: ast.AST) -> Value:
        if not isinstance(atom, Super):
            return super().attribute_of(atom, name, node)
        every = [c for c in ancestors(atom.box.cls)[1:] if name in c.fields]
        found = joined(*(self.of_class(cls, name, atom.box, node) for cls in every))
        return one(Inherited(atom.box, found)) if found or name != "__init__" else PLAIN

    def holder(self, name: str, args: list[Value], every: list[Value], node: Any) -> Value:
        if len(args) == 1 and name in ("list", "tuple", "reversed", "iter") and args[0] == PLAIN:
            return PLAIN
        inner = [self.loop_over(value, node) for value in every]
        if name == "next":
            return joined(*inner)
        if name == "zip":
            return self.filled(node, one(Items(tuple(inner))))
        if (name == "enumerate" and any(map(may_hold, every[1:]))) or (
            name == "sorted" and any(map(holds, inner))
        ):
            self.doubt(f"{name}() by a tensor", node)
        if name == "enumerate":
            return self.filled(node, one(Items((PLAIN, inner[0] if inner else PLAIN))))
        if name == "dict":
            inner += every  # keywords hold values, not containers
        if name == "tuple" and len(args) == 1 and all(isinstance(a, Items) for a in args[0]):
            return args[0]
        return self.filled(node, joined(*inner))

    def call_torch(self, name: str, args: list[Value], every: list[Value], node: Any) -> Value:
        space, _, last = name.rpartition(".")
        if space in ("Tensor", "", "nn") and last == "Tensor":
            self.doubt("torch.Tensor called", node)
            return TENSOR
        tensors = any(map(may_hold, every))
        if space == "Tensor" and args:
            return self.call(self.of_tensor(last, node), args[1:], {}, node)
        if name in ("nn.functional.pad", "constant_pad_nd"):
            return TENSOR
        known = allowed.ASKS | allowed.MAKES | allowed.MAKES_OF_PLAIN
        if last in known and (space == "" or last == "Parameter"):
            own = allowed.CREATORS | allowed.MAKES_OF_PLAIN
            return self.call_method(last, every if last in own else every[1:], node)
        if space == "nn" and last[:1].isupper() and not tensors:
            return one(Library(f"torch.nn.{last}.made"))
        if name == "cuda.device_of":
            return PLAIN
        if f"torch.{name}.".startswith(allowed.PLAIN_SPACES) and not tensors:
            return PLAIN
        if not tensors:
            return UNKNOWN
        inner = [elements_too(value) for value in every]
        if space.split(".")[0] in allowed.COMPUTING and (space != "" or allowed.computes(last)):
            return joined(TENSOR, self.compute(f"torch.{name}", inner, node) - PLAIN)
        self.doubt(f"torch.{name} of what may be a tensor", node)
        return joined(TENSOR, UNKNOWN)

    # --- launches -----------------------------------------------------------------------------

    def launch(self, atom: Launch, args: list[Value], named: dict, node: Any) -> Value:
        """A launch of a kernel: what arrives in it, and the functions that Triton calls before."""
        kernel = atom.kernel
        self.used.add(kernel)
        names = [a.arg for a in kernel.parameters()]
        meta = self.box((node, "meta"))
        loose = named.get("*", NOTHING)
        given = dict(zip(names, args, strict=False)) | {k: v for k, v in named.items() if k != "*"}
        for name in names:
            meta.put(name, given.get(name, joined(PLAIN, loose)))
        for parameter in kernel.parameters():
            value = meta.fields[parameter.arg]
            if parameter.annotation is not None and may_hold(value):
                detail = f"a tensor as the constant {parameter.arg} of a kernel"
                self.judge([value], detail, node)
        for value in [*args, *named.values()]:
            boxes = [one(a) for a in inside(value) if isinstance(a, Box)]
            if any(map(holds, boxes)):
                self.tell("outside-kernel", "a list of tensors as an argument of a kernel", node)
            elif any(not _arrives(a) for a in inside(value)) or value & UNKNOWN:
                self.doubt("what is no tensor or number, as an argument of a kernel", node)
            self.used |= {a for a in inside(value) if isinstance(a, Kernel)}
        for function in [a for v in (atom.grid, kernel.given) for a in inside(v)]:
            is_object = isinstance(function, Box) and function.cls is not None
            if is_object or isinstance(function, Own | Bound):
                self.call(one(function), [one(meta)], {}, node)
        return PLAIN


def _is_triton(path: str) -> bool:
    return path in JIT or path.startswith("triton.")


def elements_too(value: Value) -> Value:
    """A value, with what it holds if it is a container."""
    kept = frozenset(a for a in value if not isinstance(a, Items | Box))
    return joined(kept, elements(value - kept)) or PLAIN


def _arrives(atom: Any) -> bool:
    """Whether an argument reaches a kernel as an address or a number, or is one of Triton's own."""
    if isinstance(atom, Mark):
        return one(atom) <= TENSOR | PLAIN | NONE | MIXED
    if isinstance(atom, Library):
        return atom.path.startswith(("triton.", "torch.")) and "." in atom.path
    return isinstance(atom, Items | Kernel) or (isinstance(atom, Box) and not atom.cls)
