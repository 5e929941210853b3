"""The backward pass of a norm as a graph: the paths on which a gradient returns from y to x."""

from __future__ import annotations

import figures
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Annotation

DIRECT, VARIANCE, MEAN = "-", (0, (5, 2)), (0, (1, 1.5))  # solid, dashed, dotted

# name: (place, label); the letters are those of the table beside the picture
WITH_MEAN = {
    "x": (0.0, 0.0, "x"),
    "mean": (0.9, 1.3, "μ"),
    "c": (1.8, 0.0, "c"),
    "var": (2.7, 1.3, "v"),
    "rstd": (4.2, 1.3, "r"),
    "x_hat": (4.2, 0.0, "x̂"),
    "y": (5.3, 0.0, "y"),
}
WITHOUT_MEAN = {
    "x": (0.8, 0.0, "x"),
    "var": (1.9, 1.3, "m"),
    "rstd": (3.6, 1.3, "r"),
    "x_hat": (3.6, 0.0, "x̂"),
    "y": (4.7, 0.0, "y"),
}
# from, to, whose path, the factor that the gradient picks up
BACK_WITH_MEAN = [
    ("y", "x_hat", DIRECT, "· γ"),
    ("x_hat", "c", DIRECT, "· r"),
    ("x_hat", "rstd", VARIANCE, "Σ ĝ c"),
    ("rstd", "var", VARIANCE, "· −½ r³"),
    ("var", "c", VARIANCE, "· 2c / n"),
    ("c", "x", DIRECT, "· 1"),
    ("c", "mean", MEAN, "−Σ"),
    ("mean", "x", MEAN, "· 1/n"),
]
BACK_WITHOUT_MEAN = [
    ("y", "x_hat", DIRECT, "· γ"),
    ("x_hat", "x", DIRECT, "· r"),
    ("x_hat", "rstd", VARIANCE, "Σ ĝ x"),
    ("rstd", "var", VARIANCE, "· −½ r³"),
    ("var", "x", VARIANCE, "· 2x / n"),
]


def draw(colour: str, mean: bool = True) -> Figure:
    """The graph, gradients running from right to left.

    Args:
        colour: of the norm, for the boxes.
        mean: whether a mean is subtracted; without it the path through the mean is gone.
    """
    nodes = WITH_MEAN if mean else WITHOUT_MEAN
    fig, ax = figures.new(5.0, 2.7)
    ax.set_axis_off()
    ax.grid(False)
    boxes = {name: _box(ax, *node, colour) for name, node in nodes.items()}
    for start, end, style, factor in BACK_WITH_MEAN if mean else BACK_WITHOUT_MEAN:
        _arrow(ax, boxes[start], boxes[end], style, factor)
    paths = {"direct": DIRECT, f"through the {'variance' if mean else 'mean square'}": VARIANCE}
    if mean:
        paths["through the mean"] = MEAN
    for text, style in paths.items():
        ax.plot([], [], color=figures.INK, ls=style, lw=1.6, label=text)
    ax.legend(
        loc="lower center",
        ncols=3,
        fontsize=10,
        bbox_to_anchor=(0.5, -0.06),
        columnspacing=1.0,
        handlelength=1.6,
    )
    ax.set_xlim(-0.3, 5.6)
    ax.set_ylim(-0.95, 1.75)
    return fig


def _box(ax: Axes, x: float, y: float, label: str, colour: str) -> Annotation:
    shape = {"boxstyle": "round,pad=0.35", "fc": colour, "ec": "none", "alpha": 0.28}
    return ax.annotate(label, (x, y), ha="center", va="center", fontsize=13, bbox=shape)


def _arrow(ax: Axes, start: Annotation, end: Annotation, style, factor: str) -> None:
    """An arrow from box to box, with the factor beside its middle."""
    (x0, y0), (x1, y1) = start.xy, end.xy
    ax.annotate(
        "", (x1, y1), (x0, y0),
        arrowprops={
            "arrowstyle": "-|>", "linestyle": style, "color": figures.INK, "lw": 1.5,
            "patchA": start.get_bbox_patch(), "patchB": end.get_bbox_patch(),
            "shrinkA": 2, "shrinkB": 2,
        },
    )  # fmt: skip
    level = y0 == y1
    right, up = (0.0, 0.12) if level else (0.14, 0.08 if y1 > y0 else -0.08)
    ax.annotate(
        factor, ((x0 + x1) / 2 + right, (y0 + y1) / 2 + up), fontsize=11,
        ha="center" if level else "left", va="bottom" if level else "center",
    )  # fmt: skip
