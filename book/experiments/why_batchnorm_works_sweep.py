"""Learning rates, noise and few images, with several seeds: takes minutes, so it is recorded.

    python -m book.experiments.why_batchnorm_works_sweep

writes `bench/results/why_batchnorm_works_sweep.json`, which the page shows. `rate` and `few` are
also what a test repeats, on fewer settings.
"""

from __future__ import annotations

import datetime
import json
import platform
from pathlib import Path

import torch

from book.experiments import why_batchnorm_works as experiments

RECORD = Path(__file__).resolve().parents[2] / "bench" / "results"
RECORD /= "why_batchnorm_works_sweep.json"
RATES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
SEEDS, STEPS = 3, 264  # 12 epochs of 22 batches
FEW_SEEDS = 5
FEW = (("none", 50), ("LayerNorm", 50), ("BatchNorm", 8), ("BatchNorm", 16), ("BatchNorm", 50),
       ("BatchNorm", 200))  # fmt: skip
DROPOUTS = (0.0, 0.3)


def rate(norm: str, lr: float, noise: float, seed: int, steps: int = STEPS) -> float | None:
    """Mean training loss of the last ten steps, 8 layers, ReLU; None where it became NaN."""
    loss = experiments.last_loss(norm, lr, steps=steps, noise=noise, seed=seed)
    return loss if loss == loss else None


def few(norm: str, batch: int, dropout: float, seed: int) -> float:
    """Test accuracy after training on 200 images."""
    return experiments.few_images(norm, batch, dropout, seed=seed)[0]


def main() -> None:
    torch.set_num_threads(1)
    rates: dict[str, dict[str, list]] = {}
    for norm in experiments.NORMS:
        for noise in (0.0, 1.0):
            row = rates.setdefault(f"{norm}, noise {noise:g}", {})
            for lr in RATES:
                row[f"{lr:g}"] = [rate(norm, lr, noise, seed) for seed in range(SEEDS)]
                print(norm, noise, lr, row[f"{lr:g}"], flush=True)
    accuracies: dict[str, list] = {}
    for norm, batch in FEW:
        for dropout in DROPOUTS:
            found = [few(norm, batch, dropout, seed) for seed in range(FEW_SEEDS)]
            accuracies[f"{norm}, batch {batch}, dropout {dropout:g}"] = found
            print(norm, batch, dropout, found, flush=True)
    record = {
        "what": "rates: mean training loss of the last ten steps of each seed, null where it is "
        "NaN; few: test accuracy of each seed after training on 200 images",
        "settings": {"rates": "8 layers of 64 ReLU units, He weights, SGD with momentum 0.9, "
                     f"batches of 64, {STEPS} steps",
                     "few": "3 layers of 64 ReLU units, SGD with momentum 0.9, rate 0.03, "
                     "300 steps"},
        "date": datetime.date.today().isoformat(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "rates": rates,
        "few": accuracies,
    }  # fmt: skip
    RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
