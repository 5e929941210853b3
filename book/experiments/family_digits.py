"""Digits with every norm and two batch sizes: the table of the chapter on the family.

    python -m book.experiments.family_digits

trains 6 norms, 2 batch sizes and 3 seeds (minutes on one CPU core) and writes
`bench/results/family_digits.json`, which the page shows. `tests/claims/test_family.py` replays
a small part of it.
"""

from __future__ import annotations

import json
import platform
from datetime import date
from pathlib import Path

import torch

from book.experiments import family

RESULT = Path(__file__).resolve().parents[2] / "bench" / "results" / "family_digits.json"
SETTINGS = {64: {"steps": 100, "lr": 0.05}, 2: {"steps": 600, "lr": 0.005}}
SEEDS = (0, 1, 2)


def record() -> dict:
    """Accuracies (and shares of SwitchableNorm2d) for every norm, batch size and seed."""
    torch.set_num_threads(1)
    rows = []
    for batch, settings in SETTINGS.items():
        for norm in (*family.NORMS, "GroupNorm + WS"):
            for seed in SEEDS:
                name, plus, _ = norm.partition(" + ")
                model, losses = family.train(
                    name, batch=batch, seed=seed, standardized=bool(plus), **settings
                )
                row = {"norm": norm, "batch": batch, "seed": seed}
                row["accuracy"] = round(family.accuracy(model), 3)
                row["last losses"] = round(sum(losses[-20:]) / 20, 3)
                if norm == "Switchable":
                    means, variances = family.shares(model)
                    row["mean shares"] = [round(s, 3) for s in means.mean(0).tolist()]
                    row["variance shares"] = [round(s, 3) for s in variances.mean(0).tolist()]
                rows.append(row)
                print(row, flush=True)
    return {
        "python": platform.python_version(),
        "torch": torch.__version__.split("+")[0],
        "date": date.today().isoformat(),
        "settings": {str(batch): settings for batch, settings in SETTINGS.items()},
        "rows": rows,
    }


if __name__ == "__main__":
    RESULT.write_text(json.dumps(record(), indent=1) + "\n", encoding="utf-8")
