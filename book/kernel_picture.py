"""Pictures of the chapter on fused kernels: blocks over rows, partial sums, the roofline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import figures
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

PROGRAMS = ("#2f80d8", "#d9730d", "#1f9d6b", "#9a62d8")  # programs, not norms
OUTSIDE = figures.COLOURS["wrong"]


def _cell(ax: Axes, x: float, y: float, colour: str, text: str = "", alpha: float = 0.3) -> None:
    ax.add_patch(
        Rectangle((x, y), 1, 1, facecolor=to_rgba(colour, alpha), edgecolor=figures.INK, lw=0.8)
    )
    if text:
        ax.annotate(text, (x + 0.5, y + 0.5), ha="center", va="center", fontsize=10)


def blocks(rows: int = 3, width: int = 6, block: int = 8) -> Figure:
    """A matrix, one program for each row, and the block of lanes that a program lays over it."""
    fig, ax = figures.bare(4.8, 2.7, (-3.2, block + 0.2), (-1.1, rows * 1.45 + 0.7))
    for row in range(rows):
        y = (rows - 1 - row) * 1.45
        colour = PROGRAMS[row]
        for lane in range(block):
            if lane < width:
                _cell(ax, lane, y, colour, f"{row},{lane}")
            else:
                ax.add_patch(
                    Rectangle((lane, y), 1, 1, fill=False, edgecolor=OUTSIDE, lw=1.2, ls="--")
                )
                ax.annotate("off", (lane + 0.5, y + 0.5), ha="center", va="center", fontsize=9)
        ax.annotate(f"program {row}", (-0.25, y + 0.5), ha="right", va="center")
    top = (rows - 1) * 1.45 + 1.15
    for x, end, text in ((0, width, f"the row, D = {width}"), (width, block, "masked")):
        both = {"arrowstyle": "<->", "color": figures.INK}
        ax.annotate("", (x, top), (end, top), arrowprops=both)
        ax.annotate(text, ((x + end) / 2, top + 0.12), ha="center", va="bottom", fontsize=10)
    ax.annotate(
        f"one block: {block} lanes, a power of two", (block / 2, -0.35), ha="center", va="top"
    )
    return fig


def memory(rows: int = 3, width: int = 6, block: int = 8) -> Figure:
    """The same rows as they lie in memory, and where the lanes of each program point."""
    cells = rows * width
    fig, ax = figures.bare(5.4, 2.6, (-0.3, cells + 2.3), (-rows * 0.8 - 0.7, 1.9))
    for cell in range(cells):
        row = cell // width
        _cell(ax, cell, 0, PROGRAMS[row], f"{cell}")
    for cell in range(cells, cells + block - width):
        ax.add_patch(Rectangle((cell, 0), 1, 1, fill=False, edgecolor=OUTSIDE, lw=1.2, ls="--"))
        ax.annotate("?", (cell + 0.5, 0.5), ha="center", va="center", color=OUTSIDE)
    ax.annotate("addresses in memory: row after row", (0, 1.2), va="bottom")
    for row in range(rows):
        y = -0.55 - 0.8 * row
        start = row * width
        ax.plot([start + 0.1, start + width - 0.1], [y, y], color=PROGRAMS[row], lw=5)
        ax.plot(
            [start + width + 0.1, start + block - 0.1], [y, y], color=OUTSIDE, lw=3, ls=(0, (1, 1))
        )
        beside, side = (start - 0.3, "right") if row else (start + block + 0.3, "left")
        ax.annotate(f"program {row}", (beside, y), ha=side, va="center", fontsize=10)
    return fig


def partials(rows: int = 8, programs: int = 3) -> Figure:
    """Rows dealt out to a few programs, each with a partial row of its own; then one sum."""
    fig, ax = figures.bare(5.0, 3.2, (-2.4, 13.4), (-0.6, rows + 1.2))
    for row in range(rows):
        y = rows - 1 - row
        for lane in range(3):
            _cell(ax, lane, y, PROGRAMS[row % programs])
        ax.annotate(f"row {row}", (-0.2, y + 0.5), ha="right", va="center", fontsize=10)
    arrow = {"arrowstyle": "-|>", "lw": 1.2}
    for program in range(programs):
        y = rows - 2.2 - 2.2 * program
        for lane in range(3):
            _cell(ax, 6 + lane, y, PROGRAMS[program], alpha=0.55)
        for row in range(program, rows, programs):
            ax.annotate(
                "", (5.9, y + 0.5), (3.1, rows - 0.5 - row),
                arrowprops={**arrow, "color": PROGRAMS[program]},
            )  # fmt: skip
        ax.annotate(
            "", (10.0, rows / 2), (9.1, y + 0.5), arrowprops={**arrow, "color": figures.INK}
        )
    for lane in range(3):
        _cell(ax, 10.1 + lane, rows / 2 - 0.5, figures.COLOURS["none"], alpha=0.45)
    for x, text in ((1.5, "x and grad"), (7.5, "partial rows,\nfloat32"), (11.6, "dweight")):
        ax.annotate(text, (x, rows + 0.15), ha="center", va="bottom", fontsize=10)
    ax.annotate("first kernel", (4.5, -0.15), ha="center", va="top", fontsize=10)
    ax.annotate("second stage", (9.7, -0.15), ha="center", va="top", fontsize=10)
    return fig


def trips(by_hand: Sequence[tuple[str, float, float]], fused: tuple[str, float, float]) -> Figure:
    """What each operator carries from memory (left) and back to it (right), in batches.

    Args:
        by_hand, fused: (name, read, written).
    """
    steps = [*by_hand, fused]
    fig, ax = figures.new(5.2, 3.4, xlabel="read from memory  |  written to it, in batches")
    for place, (_, read, written) in enumerate(steps):
        colour = figures.COLOURS["LayerNorm" if place == len(by_hand) else "BatchNorm"]
        ax.barh(place, -read, color=colour, height=0.6)
        ax.barh(place, written, color=colour, height=0.6, alpha=0.55)
    ax.axvline(0, color=figures.INK, lw=1)
    ax.axhline(len(by_hand) - 0.5, color=figures.INK, lw=0.8, ls=":")
    ax.set_yticks(range(len(steps)), [name for name, _, _ in steps])
    ax.set_xticks([-1, 0, 1], ["1", "0", "1"])
    ax.set(xlim=(-1.25, 1.25), ylim=(len(steps) - 0.4, -0.6))
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="y", visible=False)
    return fig


def roofline(
    cards: Mapping[str, tuple[float, float]], points: Sequence[tuple[str, float, str]]
) -> Figure:
    """Reachable speed over arithmetic intensity.

    Args:
        cards: name to (bytes a second, operations a second).
        points: (label, operations for each byte, colour); drawn under the roof of the first card.
    """
    fig, ax = figures.new(
        5.4, 3.7, xlabel="operations for each byte moved", ylabel="tera-operations a second"
    )
    x = np.geomspace(0.1, 200, 200)
    for (name, (bandwidth, peak)), style in zip(cards.items(), ("-", "--", ":"), strict=False):
        ax.plot(x, np.minimum(peak, bandwidth * x) / 1e12, color=figures.INK, ls=style, lw=1.6,
                label=f"{name}: bends at {peak / bandwidth:.0f}")  # fmt: skip
    bandwidth, peak = next(iter(cards.values()))
    for label, at, colour in points:
        y = min(peak, bandwidth * at) / 1e12
        ax.plot([at, at], [0.1, y], color=colour, lw=1, ls=":")
        ax.plot(at, y, "o", color=colour, ms=8)
        ax.annotate(
            label, (at, 0.14), xytext=(5, 0), textcoords="offset points", fontsize=10, color=colour
        )
    ax.set(xscale="log", yscale="log", ylim=(0.1, 300), xlim=(0.1, 200))
    ax.legend(loc="upper left", fontsize=10)
    return fig
