"""The figure of a GPU run: how near each norm comes to a copy of the same bytes.

python -m bench.gpu_figure      # from bench/results/gpu.json, writes gpu.svg beside it
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

RECORD = Path(__file__).resolve().parent / "results" / "gpu.json"
LOOKS = {
    "ours": ("#2f80d8", "-", "fused"),
    "compile": ("#d9730d", "--", "torch.compile"),
    "torch": ("#808488", "-.", "torch"),
    "liger": ("#1f9d6b", ":", "Liger-Kernel"),
}


def draw(record: dict[str, Any], dtype: str = "bf16") -> Figure:
    """Four panels, norm by direction: percent of the copy's speed over D, the bars as steps."""
    figure = Figure(figsize=(9, 6), layout="constrained")
    panels = figure.subplots(2, 2, sharex=True, sharey=True)
    for down, direction in enumerate(("forward", "backward")):
        for across, norm in enumerate(("LayerNorm", "RMSNorm")):
            rows = [
                row for row in record["rows"]
                if (row["norm"], row["direction"], row["dtype"]) == (norm, direction, dtype)
            ]  # fmt: skip
            panel(panels[down, across], rows, f"{norm}, {direction}, {dtype}")
    if panels[0, 0].lines:
        panels[0, 0].legend()
    versions = ", ".join(f"{name} {record['versions'][name]}" for name in ("torch", "triton"))
    figure.suptitle(f"{record['card']}, {versions}, {record['date']}")
    return figure


def panel(axes: Axes, rows: list[dict[str, Any]], title: str) -> None:
    """One panel; `rows` are those of one norm, direction and dtype."""
    for name, (colour, dashes, label) in LOOKS.items():
        points = [
            (row["width"], 100 * row["ms"]["copy"] / row["ms"][name])
            for row in rows
            if name in row["ms"]
        ]
        if points:
            axes.plot(*zip(*points, strict=True), dashes, color=colour, label=label, marker="o")
    asked = [(row["width"], 100 * row["bar"]) for row in rows if row["bar"] is not None]
    if asked:
        axes.step(*zip(*asked, strict=True), where="mid", color="#d64541", linewidth=1, label="bar")
    axes.set_xscale("log", base=2)
    axes.set_ylim(0, 110)
    axes.set_title(title)
    axes.set_xlabel("D")
    axes.set_ylabel("% of a copy's speed")


def main() -> int:
    if not RECORD.is_file():
        print("gpu_figure: not yet measured on a GPU, run python -m bench.gpu", file=sys.stderr)
        return 2
    draw(json.loads(RECORD.read_text())).savefig(RECORD.with_suffix(".svg"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
