"""One look for every figure of the book: one colour per norm, readable in light and dark.

    fig, ax = figures.new(xlabel="input std", ylabel="output std")
    ax.plot(x, y, color=figures.COLOURS["LayerNorm"], label="LayerNorm")
    figures.show(fig, alt="What the figure says, in one sentence.")

Figures are written into the page as SVG. Text and axes use the page's own text colour, so one file
serves the light and the dark theme; the colours below reach a contrast of 3:1 on both backgrounds.
"""

from __future__ import annotations

import hashlib
import html
import io
import itertools
import re

import matplotlib

matplotlib.use("svg")

import matplotlib.pyplot as plt
from IPython.display import HTML, display
from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLOURS = {
    "LayerNorm": "#2f80d8",
    "BatchNorm": "#d9730d",
    "RMSNorm": "#1f9d6b",
    "GroupNorm": "#9a62d8",
    "InstanceNorm": "#d1497f",
    "none": "#808488",
    "wrong": "#d64541",  # a mistake shown beside the right thing
}

INK = "#010203"  # stands for the page's text colour until the figure is shown
GRID = "#040506"  # stands for a faint version of it

STYLE = {
    "font.family": "sans-serif",
    "font.size": 11,
    "svg.fonttype": "none",  # text stays text: it can be selected, searched and read aloud
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.titlesize": 11,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.grid": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "lines.linewidth": 2,
    "figure.constrained_layout.use": True,
}

plt.rcParams.update(STYLE)  # for whatever a page adds to a figure later, such as its legend

_number = itertools.count(1)


def new(
    width: float = 5.4, height: float = 3.3, *, xlabel: str = "", ylabel: str = "", title: str = ""
) -> tuple[Figure, Axes]:
    """An empty figure in the book's style, sizes in inches. Wider than 5.4 is small on a phone."""
    fig, ax = plt.subplots(figsize=(width, height))
    ax.set(xlabel=xlabel, ylabel=ylabel, title=title)
    return fig, ax


def bare(
    width: float, height: float, xlim: tuple[float, float], ylim: tuple[float, float]
) -> tuple[Figure, Axes]:
    """As `new`, without axes and grid: for drawings. The limits are those of the drawing."""
    fig, ax = new(width, height)
    ax.set_axis_off()
    ax.grid(False)
    ax.set(xlim=xlim, ylim=ylim)
    return fig, ax


def show(*figures: Figure, alt: str | list[str], caption: str = "") -> None:
    """Writes figures into the page, side by side where there is room.

    Args:
        figures: one or more figures, of `new` or of matplotlib itself.
        alt: for each figure the sentence it would say to someone who cannot see it.
        caption: optional text under the figures.
    """
    alts = [alt] if isinstance(alt, str) else alt
    if len(alts) != len(figures) or not all(alts):
        raise ValueError("every figure needs its own alternative text")
    parts = [_svg(fig, text) for fig, text in zip(figures, alts, strict=True)]
    note = f"<figcaption>{html.escape(caption)}</figcaption>" if caption else ""
    display(
        HTML(
            '<figure class="course-figure"><div class="course-figure-row">'
            + "".join(parts)
            + f"</div>{note}</figure>"
        )
    )


def _svg(fig: Figure, alt: str) -> str:
    """The figure as an inline SVG whose ids cannot clash with those of another figure."""
    prefix = f"fig{next(_number)}-" + hashlib.sha256(alt.encode()).hexdigest()[:6] + "-"
    buffer = io.StringIO()
    with plt.rc_context({"svg.hashsalt": alt}):
        # No date and no version: the same figure gives the same text.
        fig.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    plt.close(fig)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = svg.replace(INK, "currentColor").replace(GRID, "var(--figure-grid, #8885)")
    svg = re.sub(r'\bid="', f'id="{prefix}', svg)
    svg = svg.replace("url(#", f"url(#{prefix}").replace('href="#', f'href="#{prefix}')
    width = re.search(r'<svg[^>]*?width="([\d.]+)pt"', svg).group(1)
    label = html.escape(alt, quote=True)
    head = f'<svg role="img" aria-label="{label}" style="max-width:{float(width) * 4 / 3:.0f}px"'
    return re.sub(r'<svg\b([^>]*?) width="[\d.]+pt"', head + r"\1", svg, count=1).replace(
        ' height="', ' data-height="', 1
    )
