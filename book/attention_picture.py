"""Pictures of attention: a table of weights, and the block of 2017."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import figures
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle
from torch import Tensor

FILL = "#7a8fa8"  # weights are no norm, so none of the norms' colours


def weights(
    table: Tensor,
    words: Sequence[str],
    title: str,
    padded: int = 0,
    shown: bool = True,
) -> Figure:
    """A table of weights (L, L): a row for each query, a column for each key.

    Args:
        table: the weights, 0 to 1; the darker the cell, the larger.
        words: names of queries and keys.
        title: above the table.
        padded: so many of the last columns are framed as padding.
        shown: whether the numbers stand in the cells.
    """
    rows, columns = table.shape
    fig, ax = figures.new(1.3 + 0.68 * columns, 1.25 + 0.52 * rows, title=title)
    ax.grid(False)
    for r in range(rows):
        for c in range(columns):
            value = float(table[r, c])
            fill = to_rgba(FILL, 0.08 + 0.8 * value)
            ax.add_patch(Rectangle((c, r), 1, 1, facecolor=fill, edgecolor=figures.GRID, lw=1))
            if shown:
                ax.annotate(f"{value:.2f}", (c + 0.5, r + 0.5), ha="center", va="center")
    if padded:
        frame = Rectangle(
            (columns - padded, 0), padded, rows, fill=False, lw=2, ls="--",
            edgecolor=figures.COLOURS["wrong"],
        )  # fmt: skip
        ax.add_patch(frame)
    ax.set(xlim=(0, columns), ylim=(rows, 0), xlabel="key", ylabel="query")
    ax.set_xticks([c + 0.5 for c in range(columns)], words)
    ax.set_yticks([r + 0.5 for r in range(rows)], words)
    ax.tick_params(length=0)
    return fig


def block() -> Figure:
    """One encoder block as drawn in 2017: a norm behind each of the two additions."""
    fig, ax = figures.bare(3.4, 5.2, (0, 4), (0, 7.2))
    arrow = {"arrowstyle": "-|>", "color": figures.INK, "lw": 1.4}
    boxes = [
        (0.7, "tokens x", None),
        (1.9, "multi-head attention", FILL),
        (3.1, "add, then LayerNorm", figures.COLOURS["LayerNorm"]),
        (4.3, "feed-forward", FILL),
        (5.5, "add, then LayerNorm", figures.COLOURS["LayerNorm"]),
        (6.7, "to the next block", None),
    ]
    for y, text, colour in boxes:
        if colour:
            ax.add_patch(
                FancyBboxPatch(
                    (0.9, y - 0.3), 2.2, 0.6, boxstyle="round,pad=0.05",
                    facecolor=to_rgba(colour, 0.25), edgecolor=colour, lw=1.5,
                )
            )  # fmt: skip
        ax.annotate(text, (2, y), ha="center", va="center")
    for (low, _, _), (high, _, _) in itertools.pairwise(boxes):
        ax.annotate("", (2, high - 0.36), (2, low + 0.36), arrowprops=arrow)
    for low, high in ((1.25, 3.1), (3.65, 5.5)):  # the way around a sublayer
        ax.plot([2, 0.35, 0.35], [low, low, high], color=figures.INK, lw=1.4)
        ax.annotate("", (0.84, high), (0.35, high), arrowprops=arrow)
    return fig
