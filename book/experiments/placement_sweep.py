"""Placements, learning rates and warm-up: about 80 small trainings, so they are recorded.

    python -m book.experiments.placement_sweep

writes `bench/results/placement_sweep.json`, which the page shows. Interrupt it and start it again:
runs that have ended are kept in `build/placement_sweep.jsonl`. `run` is what a test repeats on a
few settings.
"""

from __future__ import annotations

import datetime
import json
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from .resumable import Setting, resumable
from .transformer import (
    CharModel,
    admin_init,
    corpus,
    evaluate,
    train,
    unigram_loss,
    windows,
)

ROOT = Path(__file__).resolve().parents[2]
RECORD = ROOT / "bench" / "results" / "placement_sweep.json"
RUNS = ROOT / "build" / "placement_sweep.jsonl"

OTHERS = (
    "b2t", "admin", "deepnorm", "rezero", "none", "sandwich", "gemma2", "output-norm", "olmo2",
    "qk-norm", "ln-scaling",
)  # fmt: skip


def fresh(placement: str, layers: int, seed: int, **options: Any) -> CharModel:
    """A model at initialization, 64 features wide."""
    torch.manual_seed(seed)
    model = CharModel(corpus().vocabulary, n_layers=layers, placement=placement, **options)
    if placement == "admin":
        ids = windows(corpus().train, 8, model.length, torch.Generator().manual_seed(seed))
        admin_init(model, ids[:, :-1])
    return model


def run(
    *, layers: int, placement: str, lr: float, warmup: int = 0, seed: int = 0, steps: int = 300,
    batch: int = 8, cosine: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """One training, and what is of interest afterwards. A loss that is not finite becomes null."""
    model = fresh(placement, layers, seed)
    losses = train(
        model, corpus().train, steps=steps, lr=lr, warmup=warmup, cosine=cosine, batch=batch,
        seed=seed,
    )  # fmt: skip
    result = {"early": mean(losses[70:100]), "loss": mean(losses[-30:]), "steps": len(losses)}
    if len(losses) < steps or losses[-1] != losses[-1]:
        return result | {"loss": None}
    result["validation"] = evaluate(model, corpus().validation)[0]
    ids = windows(corpus().validation, 16, model.length, torch.Generator().manual_seed(7))
    with torch.no_grad():
        streams = model.streams(ids[:, :-1])
        result["stream"] = [stream.square().mean().item() for stream in streams]
        result["largest"] = streams[-1].abs().max().item()
        result["without"] = list(losses_without_a_block(model, ids))
        result["whole"] = model.loss(ids).item()
    return result


def mean(values: list[float]) -> float:
    return sum(values) / max(1, len(values))


@torch.no_grad()
def losses_without_a_block(model: CharModel, ids: torch.Tensor) -> Iterator[float]:
    """The loss on ids (B, L + 1) when block 1 is left out, when block 2 is left out, ..."""
    blocks = model.blocks
    for i in range(len(blocks)):
        model.blocks = blocks[:i] + blocks[i + 1 :]
        yield model.loss(ids).item()
    model.blocks = blocks


def rates() -> list[Setting]:
    """Learning rates with and without warm-up, Post-LN beside Pre-LN; three seeds at one rate."""
    pair = [(p, w) for p in ("post", "pre") for w in (0, 100)]
    cases = [(6, 3e-3, seed) for seed in (0, 1, 2)]
    cases += [(6, lr, 0) for lr in (1e-3, 1e-2, 5e-4, 2e-3)]
    cases += [(12, lr, 0) for lr in (3e-3, 1e-3)]
    return [
        {"layers": layers, "placement": p, "lr": lr, "warmup": w, "seed": seed}
        for layers, lr, seed in cases
        for p, w in pair
    ]


def placements(lr: float) -> list[Setting]:
    """Placements with 12 layers and no warm-up; at large rates those that may survive them."""
    every = ("post", "pre", *OTHERS)
    which = {
        3e-3: every,
        1e-2: [p for p in every if p not in ("none", "b2t")],
        3e-2: ["pre", "qk-norm", "sandwich", "output-norm"],
    }[lr]
    return [{"layers": 12, "placement": p, "lr": lr, "warmup": 0, "seed": 0} for p in which]


def finals(layers: int) -> list[Setting]:
    """Where both train: which ends better?"""
    cases = (
        [(3e-3, 0), (3e-3, 1)]
        if layers == 4
        else [(lr, seed) for lr in (3e-3, 1e-3) for seed in (0, 1, 2)]
    )
    long = {"warmup": 150, "steps": 1200, "batch": 16, "cosine": True}
    return [
        {"layers": layers, "placement": p, "lr": lr, "seed": seed, **long}
        for lr, seed in cases
        for p in ("post", "pre")
    ]


def recorded() -> dict[str, Any]:
    """The record that the page shows."""
    return json.loads(RECORD.read_text(encoding="utf-8"))


def find(record: dict[str, Any], **wanted: Any) -> dict[str, Any] | None:
    """The result of the recorded run with exactly this setting, or None."""
    setting = {"warmup": 0, "seed": 0, **wanted}
    return next((r["result"] for r in record["runs"] if r["setting"] == setting), None)


def main() -> None:
    torch.set_num_threads(1)
    RUNS.parent.mkdir(exist_ok=True)
    every = rates()
    for more in (placements(3e-3), finals(2), placements(1e-2), placements(3e-2), finals(4)):
        every += [setting for setting in more if setting not in every]
    records = list(resumable(RUNS, every, run))
    record = {
        "what": "training of small causal character models; loss: mean training loss of the last "
        "30 steps, nats; early: of steps 71 to 100; validation: loss on held-out text; stream: "
        "mean square of the residual stream before the first block and after each; without: loss "
        "when one block is left out, whole: when none is; null: not finite",
        "settings": "64 features, 4 heads, windows of 64 characters, Xavier weights, Adam, "
        "batches of 8 for 300 steps unless a run says otherwise",
        "unigram": unigram_loss(corpus().train),
        "characters": len(corpus().train),
        "date": datetime.date.today().isoformat(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "runs": records,
    }
    RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
