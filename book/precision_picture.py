"""Pictures of number formats: their bits, their neighbours, and what a subtraction leaves."""

from __future__ import annotations

from collections.abc import Sequence

import figures
import numpy as np
import torch
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

SIGN, EXPONENT, FRACTION = (figures.COLOURS[n] for n in ("none", "BatchNorm", "LayerNorm"))
FORMATS = {"float16": (1, 5, 10), "bfloat16": (1, 8, 7), "float32": (1, 8, 23)}
METHODS = {  # of computing a variance, not norms
    "one pass": figures.COLOURS["wrong"],
    "Welford": figures.COLOURS["BatchNorm"],
    "Chan, 32 pieces": figures.COLOURS["RMSNorm"],
    "two passes": figures.COLOURS["LayerNorm"],
}
MARKS = {"one pass": "o", "Welford": "s", "Chan, 32 pieces": "^", "two passes": "D"}


def bits() -> Figure:
    """The bits of the three formats, drawn to scale."""
    fig, ax = figures.bare(5.4, 3.0, (-0.2, 32.2), (-1.9, 8.4))
    for row, (name, widths) in enumerate(FORMATS.items()):
        y, x = 6.2 - 2.9 * row, 0
        ax.annotate(name, (0, y + 1.2), va="bottom")
        parts = zip(widths, (SIGN, EXPONENT, FRACTION), strict=True)
        for part, (width, colour) in enumerate(parts):
            for _ in range(width):
                ax.add_patch(
                    Rectangle((x, y), 1, 1, facecolor=to_rgba(colour, 0.3), edgecolor=colour)
                )
                x += 1
            if part:
                ax.annotate(str(width), (x - width / 2, y - 0.1), ha="center", va="top")
    for x, colour, text in ((0, SIGN, "sign"), (3.6, EXPONENT, "exponent: the range"),
                            (15.2, FRACTION, "fraction: the digits")):  # fmt: skip
        ax.add_patch(Rectangle((x, -1.85), 0.8, 0.6, facecolor=to_rgba(colour, 0.3), ec=colour))
        ax.annotate(text, (x + 1.1, -1.55), va="center", fontsize=10)
    return fig


def neighbours(low: float = 97.0, high: float = 103.0) -> Figure:
    """The numbers that each half type has between two values, under a bell around 100."""
    fig, ax = figures.bare(5.4, 2.7, (low - 0.2, high + 0.2), (-0.5, 4.2))
    x = np.linspace(low, high, 200)
    ax.plot(x, 2.5 + 1.3 * np.exp(-((x - 100) ** 2) / 2), color=figures.INK, lw=1.5)
    ax.annotate("data: mean 100, std 1", (low, 3.6), fontsize=10)
    for y, dtype, colour in ((1.4, torch.float16, FRACTION), (0.4, torch.bfloat16, EXPONENT)):
        values = np.unique(torch.linspace(low, high, 4001).to(dtype).double().numpy())
        ax.vlines(values, y, y + 0.6, color=colour, lw=1.2)
        step = float(np.diff(values).max())
        ax.annotate(f"{str(dtype)[6:]}: {step:g} apart", (low, y + 0.68), va="bottom", fontsize=10)
    for value in range(int(low), int(high) + 1):
        ax.annotate(str(value), (value, 0.2), ha="center", va="top", fontsize=10)
    return fig


def cancellation(x: Sequence[float]) -> Figure:
    """Mean of squares and square of the mean of x: exact, and as float32 has them."""
    t = torch.tensor(x)
    wide = t.double()
    exact = (wide.square().mean().item(), wide.mean().square().item())
    rounded = (t.square().mean().item(), t.mean().square().item())
    step = float(np.spacing(np.float32(exact[0])))
    first = step * np.floor(min(*exact, *rounded) / step) - step
    last = step * np.ceil(max(*exact, *rounded) / step) + step
    grid = np.arange(first, last + step / 2, step)
    fig, ax = figures.bare(5.4, 2.6, (first - 1.4, last + 1.4), (-1.1, 2.7))
    ax.hlines(0, first - 0.5, last + 0.5, color=figures.INK, lw=1)
    ax.vlines(grid, -0.12, 0.12, color=figures.INK, lw=1.5)
    for value in grid:
        ax.annotate(f"…{value % 1000:03.0f}", (value, -0.25), ha="center", va="top", fontsize=10)
    texts = (("mean of squares", FRACTION, 1.6, 1), ("square of mean", EXPONENT, 1.6, -1))
    for (text, colour, y, side), was, now in zip(texts, exact, rounded, strict=True):
        ax.plot([was], [y], "o", color=colour, ms=7)
        ax.annotate(
            f"{text},\nexact", (was + 0.3 * side, y), ha="left" if side > 0 else "right",
            va="center", fontsize=10,
        )  # fmt: skip
        arrow = {"arrowstyle": "-|>", "color": colour, "lw": 1.6}
        ax.annotate("", (now, 0.08), (was, y - 0.12), arrowprops=arrow)
    ax.annotate(
        f"float32 has only every number that is divisible by {step:g} here", (first, -0.95),
        fontsize=10,
    )  # fmt: skip
    return fig


def errors(ratios: Sequence[float], found: dict[str, list[float]]) -> Figure:
    """Relative error of a float32 variance against mean / std, one line for each method."""
    fig, ax = figures.new(
        5.4,
        3.8,
        xlabel="mean / standard deviation",
        ylabel="largest relative error of the variance",
    )
    for name, values in found.items():
        ax.loglog(
            ratios, np.maximum(values, 1e-8), color=METHODS[name], marker=MARKS[name], ms=5,
            label=name,
        )  # fmt: skip
    ax.axhline(1, color=figures.INK, lw=1, ls=":")
    ax.annotate("nothing is right above this line", (ratios[0], 0.6), va="top", fontsize=9)
    ax.legend(loc="upper left", fontsize=9)
    return fig
