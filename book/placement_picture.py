"""One sublayer drawn as a road with a ramp: where a placement puts its norms.

    figures.show(sketch("Pre-LN", norm_in=True), alt="...")

The stream runs from the bottom to the top. On the right the sublayer f reads it and writes back at
the plus sign. Norms are the filled boxes.
"""

from __future__ import annotations

import figures
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch

BLUE = figures.COLOURS["LayerNorm"]
ROAD, RAMP = 0.9, 2.35  # x of the stream and of the branch


def sketch(
    title: str, *, norm_in: bool = False, norm_out: bool = False, norm_road: bool = False,
    on_road: str = "", on_branch: str = "", inside: str = "f", second_road: str = "",
) -> Figure:  # fmt: skip
    """One sublayer. Text of `on_road`, `on_branch`: a factor; `second_road`: one more skip."""
    fig, ax = figures.new(1.75, 2.6, title=title)
    ax.set_xlim(-0.5, 3.5)
    ax.set_ylim(0, 6.2)
    ax.set_aspect("equal")
    ax.axis("off")
    _arrow(ax, (ROAD, 0.1), (ROAD, 6.1))
    ax.text(ROAD - 0.25, 0.15, "x", ha="right", fontsize=11)
    # The branch: out at the bottom, up through its boxes, back in at the plus.
    _line(ax, [(ROAD, 0.75), (RAMP, 0.75), (RAMP, 4.1)])
    _arrow(ax, (RAMP, 4.1), (ROAD + 0.25, 4.1))
    if norm_in:
        _box(ax, RAMP, 1.45, "norm", filled=True)
    _box(ax, RAMP, 2.4, inside)
    if norm_out:
        _box(ax, RAMP, 3.35, "norm", filled=True)
    if on_branch:
        _box(ax, RAMP, 3.35, on_branch)
    if on_road:
        _box(ax, ROAD, 2.4, on_road)
    if second_road:
        _line(ax, [(ROAD, 0.45), (-0.1, 0.45), (-0.1, 4.1)])
        _arrow(ax, (-0.1, 4.1), (ROAD - 0.25, 4.1))
        ax.text(-0.2, 2.4, second_road, ha="right", va="center", fontsize=8, rotation=90)
    ax.add_patch(Circle((ROAD, 4.1), 0.25, fc=figures.COLOURS["none"], ec="none", zorder=3))
    ax.text(ROAD, 4.08, "+", ha="center", va="center", color="white", fontsize=12, zorder=4)
    if norm_road:
        _box(ax, ROAD, 5.1, "norm", filled=True)
    return fig


def _box(ax, x: float, y: float, text: str, filled: bool = False) -> None:
    width = 1.15 if len(text) > 1 else 0.8
    ax.add_patch(
        FancyBboxPatch(
            (x - width / 2, y - 0.27), width, 0.54, boxstyle="round,pad=0.02,rounding_size=0.1",
            fc=BLUE if filled else "#8a8d91", ec="none", zorder=3,
        )
    )  # fmt: skip
    ax.text(x, y - 0.02, text, ha="center", va="center", color="white", fontsize=9, zorder=4)


def _line(ax, points: list[tuple[float, float]]) -> None:
    ax.plot(*zip(*points, strict=True), color=figures.INK, lw=1.3, solid_joinstyle="round")


def _arrow(ax, start: tuple[float, float], end: tuple[float, float]) -> None:
    ax.add_patch(
        FancyArrowPatch(
            start, end, arrowstyle="-|>", mutation_scale=10, color=figures.INK, lw=1.3,
            shrinkA=0, shrinkB=0,
        )
    )  # fmt: skip
