"""Padded sentences with four norms, and statistics of text and images: two tables of the chapter.

    python -m book.experiments.sequences_text

trains 4 norms with 3 seeds on padded sentences and 4 networks with 2 seeds for their statistics
(some 6 minutes on one CPU core) and writes `bench/results/sequences_text.json`, which the page
shows. `tests/claims/test_sequences.py` replays a small part of it.
"""

from __future__ import annotations

import json
import platform
from datetime import date
from pathlib import Path

import torch

from book.experiments import sequences
from solutions.sequences import sequences as reference

RESULT = Path(__file__).resolve().parents[2] / "bench" / "results" / "sequences_text.json"
SETTINGS = {"steps": 400, "batch": 8, "lr": 3e-3}
SEEDS = (0, 1, 2)
STATISTICS = {"steps": 250, "kept": 200}
SOURCES = {
    "digits, 64 images": lambda **s: sequences.image_activations(64, **s),
    "digits, 16 images": lambda **s: sequences.image_activations(16, **s),
    "words, 16 windows": lambda **s: sequences.text_activations("windows", **s),
    "words, one stretch": lambda **s: sequences.text_activations("stretch", **s),
}


def padded() -> list[dict]:
    """Validation loss per character, with running statistics and with those of one sentence."""
    rows = []
    for norm in sequences.NORMS:
        for seed in SEEDS:
            model = sequences.train_on_sentences(norm, seed=seed, **SETTINGS)
            row = {"norm": norm, "seed": seed, "loss": round(sequences.validate(model), 3)}
            row["of batch"] = round(sequences.validate(model, of_batch=True), 3)
            rows.append(row)
            print(row, flush=True)
    return rows


def statistics() -> list[dict]:
    """Average distances of batch and running statistics at the first BatchNorm."""
    rows = []
    for source, activations in SOURCES.items():
        for seed in SEEDS[:2]:
            batches = activations(seed=seed, **STATISTICS)
            mean, var = (d.mean().item() for d in reference.running_stat_distance(batches))
            shift, ratio = sequences.scale_free(batches)
            row = {"source": source, "seed": seed, "values": batches[0][..., 0].numel()}
            row |= {"mean": round(mean, 5), "var": round(var, 5)}
            row |= {"shift": round(shift, 4), "ratio": round(ratio, 4)}
            rows.append(row)
            print(row, flush=True)
    return rows


def record() -> dict:
    torch.set_num_threads(1)
    return {
        "python": platform.python_version(),
        "torch": torch.__version__.split("+")[0],
        "date": date.today().isoformat(),
        "settings": SETTINGS,
        "statistics settings": STATISTICS,
        "statistics": statistics(),
        "padded": padded(),
    }


if __name__ == "__main__":
    RESULT.write_text(json.dumps(record(), indent=1) + "\n", encoding="utf-8")
