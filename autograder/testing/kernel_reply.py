"""What a worker says about the kernels it launched, checked before anyone uses it.

Trusted side. The kernel sanitizer runs beside the learner's code, so all of it may be forged: only
facts from closed sets, small numbers and names that stand in the learner's source get through.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from kernel_sanitizer.fault import ACCESSES, LAUNCHES, MOST, WHERE, Fault

from ..reading.magics import parse


def checked(data: Any, kernels: Mapping[str, tuple[str, ...]]) -> Fault | None:
    """The fault that `data`, from an untrusted process, tells of. None unless all of it is valid.

    kernels: the learner's jit functions and their parameters; other names are left out.
    """
    known = {f.name for f in fields(Fault)}
    if type(data) is not dict or data.keys() != known:
        return None
    kind, where, access = data["kind"], data["where"], data["access"]
    if not all(type(v) is str for v in (kind, where, access, data["kernel"], data["tensor"])):
        return None
    if where not in WHERE.get(kind, ()) or access not in (*ACCESSES, ""):
        return None
    triples = [data["program"], data["other"]]
    if not all(type(t) is list and len(t) == 3 for t in triples):
        return None
    numbers = [data[name] for name in ("count", "lanes", "distance", "element")]
    if not all(type(n) is int and -1 <= n <= MOST for n in (*numbers, *triples[0], *triples[1])):
        return None
    kernel = data["kernel"] if data["kernel"] in kernels else ""
    tensor = data["tensor"] if data["tensor"] in kernels.get(kernel, ()) else ""
    program, other = (tuple(t) for t in triples)
    said: dict[str, Any] = {"kernel": kernel, "tensor": tensor, "program": program, "other": other}
    return Fault(**{**data, **said})


def launches_of(data: Any) -> list[dict[str, Any]] | None:
    """`data`, from an untrusted process, if it has the form that `Student.launches` promises."""
    keys = {"kernel", "grid", "reads", "writes", "sizes"}
    if type(data) is not list or len(data) > LAUNCHES:
        return None
    for launch in data:
        if type(launch) is not dict or launch.keys() != keys or not _is_name(launch["kernel"]):
            return None
        grid, counts = launch["grid"], [launch[k] for k in ("reads", "writes", "sizes")]
        if type(grid) is not list or len(grid) != 3 or not all(map(_is_count, grid)):
            return None
        if not all(type(c) is dict and len(c) <= 64 for c in counts):
            return None
        if not all(_is_name(k) and _is_count(v) for c in counts for k, v in c.items()):
            return None
        if not counts[0].keys() == counts[1].keys() == counts[2].keys():
            return None
    return data


_TYPE = re.compile(r"(\*?(fp16|bf16|fp32|fp64|i1|i8|i16|i32|i64|u8)|i32|i64)(:16)?|constexpr")


def signatures_of(
    data: Any, kernels: Mapping[str, tuple[str, ...]]
) -> list[tuple[str, dict[str, Any]]]:
    """Kernels in `data`, from an untrusted process, with what it takes to compile them.

    They go to another such process. What does not have the form of one is left out.
    """
    entries = data if type(data) is list and len(data) <= LAUNCHES else []
    return [
        (e["kernel"], {key: e[key] for key in ("types", "constants", "options")})
        for e in entries
        if _is_signature(e, kernels)
    ]


def _is_signature(entry: Any, kernels: Mapping[str, tuple[str, ...]]) -> bool:
    if type(entry) is not dict or entry.keys() != {"kernel", "types", "constants", "options"}:
        return False
    name, types = entry["kernel"], entry["types"]
    constants, options = entry["constants"], entry["options"]
    if type(name) is not str or name not in kernels:
        return False
    if not all(type(part) is dict for part in (types, constants, options)):
        return False
    return (
        types.keys() == set(kernels[name])
        and all(type(t) is str and _TYPE.fullmatch(t) for t in types.values())
        and constants.keys() == {p for p, t in types.items() if t == "constexpr"}
        and all(map(_is_constant, constants.values()))
        and options.keys() <= {"num_warps", "num_stages"}
        and all(type(n) is int and 0 < n <= 64 for n in options.values())
    )


def _is_constant(value: Any) -> bool:
    return (
        value is None
        or type(value) in (bool, float)
        or (type(value) is int and abs(value) < 1 << 63)
    )


def _is_name(value: Any) -> bool:
    return type(value) is str and len(value) <= 80 and (value.isidentifier() or not value)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 50


def jit_functions(sources: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The functions that are decorated with some `jit` in `sources`, and their parameters."""
    found = {}
    for source in sources:
        tree = parse(source) if "jit" in source else None
        for node in ast.walk(tree) if tree else ():
            if isinstance(node, ast.FunctionDef) and any(map(_is_jit, node.decorator_list)):
                arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                found[node.name] = tuple(a.arg for a in arguments)
    return found


def _is_jit(decorator: ast.expr) -> bool:
    names = (n for n in ast.walk(decorator) if isinstance(n, (ast.Name, ast.Attribute)))
    return any((n.id if isinstance(n, ast.Name) else n.attr) == "jit" for n in names)
