"""BatchNorm and the size of the batch, 1 to 64, on the digits: takes minutes, so it is recorded.

    python -m book.experiments.batchnorm_batch_size

writes `bench/results/batchnorm_batch_size.json`, which the page shows. Every run sees the same
number of images; the learning rate grows in proportion to the batch. `run` is also what a test
repeats, on fewer batches.
"""

from __future__ import annotations

import datetime
import json
import platform
from pathlib import Path

import torch

from book.experiments import batchnorm as experiments

RECORD = Path(__file__).resolve().parents[2] / "bench" / "results" / "batchnorm_batch_size.json"
SIZES = (1, 2, 4, 16, 64)
EPOCHS, SEEDS, RATE = 3, 3, 0.1  # RATE belongs to a batch of 64
MODELS = {
    "mlp, BatchNorm": lambda: experiments.mlp("BatchNorm", 3),
    "mlp, LayerNorm": lambda: experiments.mlp("LayerNorm", 3),
    "cnn, BatchNorm": lambda: experiments.cnn("BatchNorm"),
    "cnn, GroupNorm": lambda: experiments.cnn("GroupNorm"),
}


def run(model: str, batch: int, seed: int, epochs: float = EPOCHS) -> tuple[float, float] | None:
    """Test accuracy with running statistics and with those of test batches of the same size.

    None where training is impossible: one value per channel.
    """
    torch.manual_seed(seed)
    made = MODELS[model]()
    steps = int(epochs * 1400) // batch
    try:
        experiments.fit(made, lr=RATE * batch / 64, batch=batch, steps=steps, seed=seed)
    except ValueError:
        return None
    return experiments.accuracy(made), experiments.accuracy(made, batch)


def main() -> None:
    torch.set_num_threads(1)
    results: dict[str, dict[str, list]] = {}
    for model in MODELS:
        for batch in SIZES:
            found = [run(model, batch, seed) for seed in range(SEEDS)]
            results.setdefault(model, {})[str(batch)] = found
            print(model, batch, found, flush=True)
    record = {
        "what": "test accuracy [running statistics, batch statistics] of each seed; null: refused",
        "settings": {"epochs": EPOCHS, "seeds": SEEDS, "learning rate at batch 64": RATE,
                     "optimizer": "SGD, momentum 0.9, rate in proportion to the batch"},
        "date": datetime.date.today().isoformat(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "results": results,
    }  # fmt: skip
    RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
