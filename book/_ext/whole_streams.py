"""Joins the printed output of a cell without inventing line breaks.

A kernel sends what a cell prints in pieces, cut wherever its timer fires, also between a line and
its line break. myst-nb ends each piece with a line break of its own, so on a slow machine an empty
line appears now and then. Joining the pieces first, as they are, leaves it nothing to invent.
"""

from __future__ import annotations

from myst_nb.core import render
from nbformat import NotebookNode
from sphinx.application import Sphinx


def join_pieces(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """The outputs of one cell, where all pieces of stdout, and of stderr, are one output."""
    joined: list[NotebookNode] = []
    first: dict[str, NotebookNode] = {}
    for output in outputs:
        if output["output_type"] != "stream":
            joined.append(output)
        elif output["name"] in first:
            first[output["name"]]["text"] += output["text"]
        else:
            first[output["name"]] = NotebookNode(output)
            joined.append(first[output["name"]])
    return joined


def setup(app: Sphinx) -> dict[str, bool]:
    original = render.coalesce_streams
    if not getattr(original, "joins_pieces", False):  # once, also when two books are built

        def coalesce_streams(outputs: list[NotebookNode]) -> list[NotebookNode]:
            return original(join_pieces(outputs))

        setattr(coalesce_streams, "joins_pieces", True)  # noqa: B010 (no attribute by its type)
        render.coalesce_streams = coalesce_streams
    return {"parallel_read_safe": True, "parallel_write_safe": True}
