"""Calls of libraries and launches of kernels in host code: see `host`."""

from __future__ import annotations

import ast
from typing import Any

from . import allowed
from .calls import Calls
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
    is_tensor,
    joined,
    may_hold,
    one,
)

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
        if path in JIT:
            return joined(*(one(Kernel(own)) for own in mine)) or one(Library(path))
        if path in WRAPPERS:
            return one(Wrapper(joined(*every)))
        if path in DESCRIPTORS and mine:
            return joined(*(one(Descriptor(DESCRIPTORS[path], own)) for own in mine))
        if path == "functools.partial" and mine and len(mine) == len(args[0]):
            return joined(*(one(Bound(own, tuple(args[1:]))) for own in mine))
        if path in ("functools.wraps", "<pass>"):
            return one(Library("<pass>")) if path != "<pass>" else joined(*args)
        if path == "functools.update_wrapper" and args:
            return args[0]
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
        if path == "triton.reinterpret":
            return TENSOR
        if tensors:
            self.doubt(f"{path} of what may be a tensor", node)
            return UNKNOWN
        return PLAIN if root in allowed.PLAIN_LIBRARIES else UNKNOWN

    def hand_away(self, path: str, every: list[Value], node: Any) -> None:
        given = [a for value in every for a in inside(value) if isinstance(a, Own | Bound)]
        calls = [a for a in given if not isinstance(getattr(a, "node", None), ast.ClassDef)]
        if calls and not path.startswith(allowed.CALLERS):
            self.doubt(f"a function handed to {path}", node, always=True)
        if path not in ("builtins.map", "builtins.filter"):
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
            return one(Library("torch.Tensor")) if holds(args[0]) else PLAIN
        if name == "super":
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
            certain = parameter.arg in given or not (loose - TENSOR) or is_tensor(value)
            if parameter.annotation is not None and may_hold(value) and certain:
                detail = f"a tensor as the constant {parameter.arg} of a kernel"
                self.judge([value], detail, node)
        for value in [*args, *named.values()]:
            if any(not _arrives(a) for a in inside(value)) or value & UNKNOWN:
                self.doubt("what is no tensor or number, as an argument of a kernel", node)
        for function in [a for v in (atom.grid, kernel.given) for a in inside(v)]:
            if isinstance(function, Own | Bound):
                self.call(one(function), [one(meta)], {}, node)
        return PLAIN


def elements_too(value: Value) -> Value:
    """A value, with what it holds if it is a container."""
    kept = frozenset(a for a in value if not isinstance(a, Items | Box))
    return joined(kept, elements(value - kept)) or PLAIN


def _arrives(atom: Any) -> bool:
    """Whether an argument reaches a kernel as an address or a number, or is one of Triton's own."""
    if isinstance(atom, Mark):
        return one(atom) <= TENSOR | PLAIN | NONE | MIXED
    return isinstance(atom, Items | Library | Kernel) or (isinstance(atom, Box) and not atom.cls)
