"""What an attribute in host code may stand for: of a tensor, a kernel, an object, a library."""

from __future__ import annotations

import ast
from typing import Any

from ..aliases import canonical
from . import allowed
from .expressions import Expressions
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
    Env,
    Inherited,
    Items,
    Kernel,
    Library,
    Mark,
    Method,
    Own,
    Value,
    joined,
    one,
)

CONTAINER = Own(ast.parse("lambda: None", mode="eval").body, Env(), 0)  # methods of lists and so on


class Attributes(Expressions):
    def e_Attribute(self, node: ast.Attribute) -> Value:
        return self.attribute(self.expr(node.value), node.attr, node)

    def attribute(self, whose: Value, name: str, node: ast.AST) -> Value:
        whose = whose - MIXED - NONE or whose - MIXED
        return joined(*(self.attribute_of(atom, name, node) for atom in whose))

    def attribute_of(self, atom: Any, name: str, node: ast.AST) -> Value:
        if isinstance(atom, Own | Kernel | Bound) and _is_behind(name):
            self.doubt(f"{name} of a function", node, always=True)
            return UNKNOWN
        match atom:
            case Library(path=path):
                return one(Library(canonical(f"{path}.{name}")))
            case Kernel():
                if name not in ("__name__", "__doc__", "arg_names", "cache"):
                    self.doubt(f"{name} of a kernel", node, always=True)
                    return one(atom)
                return PLAIN
            case Own():
                return self.of_class(atom, name, None, node)
            case Box(is_context=True):
                return self.of_context(atom, name)
            case Box(cls=cls) if cls is not None and name == "__class__":
                return one(cls)
            case Box(cls=cls) if cls is not None:
                if _is_behind(name) and name not in allowed.DUNDERS:
                    self.doubt(f"{name} of an object", node)
                kept = atom.fields.get(name, NOTHING)
                found = self.of_class(cls, name, atom, node) - UNKNOWN
                mine = frozenset(a for a in found if not isinstance(a, Inherited))
                return joined(kept, mine if kept else found) or UNKNOWN
            case Box() | Items():
                return one(Bound(CONTAINER, (one(atom), one(Library(name)))))
            case Mark() if one(atom) == TENSOR:
                return self.of_tensor(name, node)
            case Mark():
                return one(atom) - NONE or PLAIN
        return UNKNOWN

    def of_tensor(self, name: str, node: ast.AST) -> Value:
        if name == "__class__":
            return one(Library("torch.Tensor"))
        if name in allowed.PLAIN_ATTRIBUTES:
            return PLAIN
        if name in ("T", "mT", "data"):
            return TENSOR
        if name in allowed.ASKS | allowed.MAKES | allowed.MAKES_OF_PLAIN:
            return one(Method(name))
        if allowed.computes(name):
            self.tell("outside-kernel", f"`.{name}` of a tensor", node)
        else:
            self.doubt(f"`.{name}` of a tensor", node)
        return one(Method(name))

    def of_context(self, box: Box, name: str) -> Value:
        if name.startswith(("save_for_", "mark_", "set_")):
            return one(Library("<quiet>"))
        if name == "saved_tensors":
            return TENSOR
        return box.fields.get(name, PLAIN if name == "needs_input_grad" else UNKNOWN)

    def of_class(self, own: Own, name: str, box: Box | None, node: ast.AST) -> Value:
        """An attribute of a class, or of an instance of it, or of a function."""
        found = own.fields.get(name)
        if found is None:
            bases = [self.of_base(atom, name, box, node) for base in own.bases for atom in base]
            return joined(*bases) or UNKNOWN
        result = NOTHING
        for atom in found:
            if isinstance(atom, Descriptor) and atom.kind == "property" and box is not None:
                result = joined(result, self.enter(atom.own, [one(box)], {}, node))
            elif isinstance(atom, Descriptor):
                holder = one(box) if box is not None else one(own)
                is_class = atom.kind == "classmethod"
                result = joined(result, one(Bound(atom.own, (holder,)) if is_class else atom.own))
            elif isinstance(atom, Own) and box is not None and _is_function(atom):
                result = joined(result, one(Bound(atom, (one(box),))))
            else:
                result = joined(result, one(atom))
        return result

    def of_base(self, base: Any, name: str, box: Box | None, node: ast.AST) -> Value:
        if isinstance(base, Own):
            return self.of_class(base, name, box, node)
        return UNKNOWN if box is None else one(Inherited(box, NOTHING))


def _is_behind(name: str) -> bool:
    """Whether other code, or other rules for it, can be put behind this attribute."""
    return name.endswith("__") and name.startswith("__") and name not in allowed.NAMES


def _is_function(own: Own) -> bool:
    return not isinstance(own.node, ast.ClassDef)
