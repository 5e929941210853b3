"""Notebooks with the same code, for a person to look at. Nothing here changes a score."""

from __future__ import annotations

import ast
import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .magics import parse
from .submission import Submission

# Words of a syntax tree below which equal code says nothing: a short exercise has few answers.
ENOUGH = 400
_NAMES = {
    "id",
    "arg",
    "name",
    "asname",
    "rest",
}  # fields of nodes that hold a name the author chose


def fingerprint(submission: Submission) -> str:
    """Equal for notebooks whose exercises differ in names, comments and layout alone.

    Empty where too little is written for it to say anything. Cells that were handed out, stubs that
    nobody touched and cells beside the exercises do not count.
    """
    written = {
        cell.grade_id or "": cell
        for cell in submission.cells
        if cell.origin == "solution" and cell.grade_id not in submission.untouched
    }
    digest, count = hashlib.sha256(), 0
    for grade_id, cell in sorted(written.items()):
        tree = cell.tree or parse(cell.source)
        if tree is None:
            return ""
        digest.update(f"\0{grade_id}\0".encode())
        try:
            for word in _words(tree, {}):
                digest.update(word.encode("utf-8", "surrogatepass") + b"\n")
                count += 1
        except RecursionError:
            return ""
    return digest.hexdigest()[:16] if count >= ENOUGH else ""


def _words(node: ast.AST, names: dict[str, str]) -> Iterator[str]:
    """The tree in words. A name becomes the number of its first use."""
    yield type(node).__name__
    for field, value in ast.iter_fields(node):
        if field in _NAMES and isinstance(value, str) and not isinstance(node, ast.keyword):
            yield names.setdefault(value, f"#{len(names)}")
        elif isinstance(value, ast.AST):
            yield from _words(value, names)
        elif isinstance(value, list):
            for part in value:
                if isinstance(part, ast.AST):
                    if not _is_comment(part):
                        yield from _words(part, names)
                else:
                    yield repr(part)
        elif field not in ("kind", "type_comment", "ctx"):
            yield repr(value)


def _is_comment(node: ast.AST) -> bool:
    """A docstring, or another text that stands alone."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def groups(submissions: Iterable[Mapping[str, Any]]) -> list[list[str]]:
    """The students whose notebooks have the same code, two or more in each group."""
    found = defaultdict(list)
    for submission in submissions:
        if submission.get("code"):
            found[submission["code"]].append(submission["student"])
    return sorted(sorted(students) for students in found.values() if len(students) > 1)
