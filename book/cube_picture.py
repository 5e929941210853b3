"""The picture of a (B, L, D) tensor as a box of cells, some of which share mean and variance."""

from __future__ import annotations

from collections.abc import Callable

import figures
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Polygon

B, L, D = 3, 4, 5
DEPTH = (0.42, 0.36)  # how far one step along B moves right and up on the paper


def draw(
    title: str,
    colour: str,
    shares: Callable[[int, int, int], bool],
    note: str,
    axes: tuple[str, str, str] = ("B", "L", "D"),
    width: int = D,
) -> Figure:
    """A figure of the box with one group of cells filled.

    Args:
        title: above the box.
        colour: of the filled cells.
        shares: whether the cell (b, l, d) belongs to the group.
        note: below the box.
        axes: names of depth, height and width.
        width: how many cells wide.
    """
    fig, ax = figures.new(3.5, 3.3, title=title)
    ax.set_axis_off()
    ax.grid(False)
    ax.set_aspect("equal")
    for b in reversed(range(B)):  # back to front, so that nearer cells cover farther ones
        for row in reversed(range(L)):
            for d in range(width):
                _cell(ax, b, row, d, colour if shares(b, row, d) else None)
    ax.annotate(axes[2], _at(0, L + 0.45, width / 2), ha="center", va="center")
    ax.annotate(axes[1], _at(0, L / 2, -0.45), ha="center", va="center")
    ax.annotate(axes[0], _at(B / 2 + 0.35, L + 0.35, width + 0.15), ha="center", va="center")
    ax.annotate(note, _at(0, L + 1.35, width / 2 + 0.5), ha="center", va="center", fontsize=10)
    ax.set_xlim(-0.9, width + B * DEPTH[0] + 0.3)
    ax.set_ylim(-L - 2.0, B * DEPTH[1] + 0.2)
    return fig


def _at(b: float, row: float, d: float) -> tuple[float, float]:
    return d + b * DEPTH[0], -row + b * DEPTH[1]


def _cell(ax: Axes, b: int, row: int, d: int, colour: str | None) -> None:
    """Front, top and right face of one cell; the latter two are a little darker."""
    front = [(b, row, d), (b, row, d + 1), (b, row + 1, d + 1), (b, row + 1, d)]
    top = [(b, row, d), (b, row, d + 1), (b + 1, row, d + 1), (b + 1, row, d)]
    right = [(b, row, d + 1), (b + 1, row, d + 1), (b + 1, row + 1, d + 1), (b, row + 1, d + 1)]
    for corners, shade in ((top, 0.8), (right, 0.65), (front, 1.0)):
        red, green, blue, _ = to_rgba(colour or "#b4b8bd")
        face = (red * shade, green * shade, blue * shade)
        ax.add_patch(
            Polygon(
                [_at(*corner) for corner in corners], facecolor=face, edgecolor="#f4f4f4", lw=0.8
            )
        )
