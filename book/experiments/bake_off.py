"""The bake-off: no norm, BatchNorm, LayerNorm and RMSNorm in one small Transformer, two tasks.

    python -m book.experiments.bake_off

writes `bench/results/bake_off.json`, which the page shows, in about 10 minutes of one CPU core.
Interrupt it and start it again: runs that have ended are kept in `build/bake_off.jsonl`. In each
task every norm gets the same budget: the same rates and seeds to choose a rate by held-out data,
then new seeds and other held-out data for the result. `run` is one training; the page and the
tests repeat a few. How the runs become a table is told in `bake_off_table`.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import json
import math
import platform
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from book.experiments.bake_off_table import NORMS, Table
from book.experiments.layernorm import digits
from book.experiments.resumable import Setting, resumable
from book.experiments.transformer import (
    Block,
    CharModel,
    corpus,
    evaluate,
    make_norm,
    train,
    unigram_loss,
    windows,
)

ROOT = Path(__file__).resolve().parents[2]
RECORD = ROOT / "bench" / "results" / "bake_off.json"
RUNS = ROOT / "build" / "bake_off.jsonl"

TASKS = ("text", "digits")
RATES = {"text": (1e-3, 3e-3, 1e-2, 3e-2), "digits": (3e-4, 1e-3, 3e-3, 1e-2, 3e-2)}
LAYERS, LAST = 3, 30  # blocks of the model; the training loss is the mean of so many last steps


@dataclass(frozen=True)
class Plan:
    """What is run. Seeds that choose the rate and seeds that are reported have none in common."""

    rates: dict[str, tuple[float, ...]] = field(default_factory=lambda: RATES)
    tuning_seeds: tuple[int, ...] = (100, 101)
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4, 5)
    steps: int = 300
    rounds: int = 40  # of timing


# -- the two tasks ---------------------------------------------------------------------------------


@functools.cache
def held_out() -> tuple[Tensor, Tensor]:
    """Two stretches of text that no model is trained on: to choose the rate, and to report."""
    ids = corpus().validation
    return ids[: len(ids) // 2], ids[len(ids) // 2 :]


def images(part: str) -> tuple[Tensor, Tensor]:
    """Digits as sequences of 8 rows, (N, 8, 8), and their labels: "train", "choose" or "report"."""
    x, y, x_test, y_test = digits()
    x, y = {
        "train": (x[:1100], y[:1100]),
        "choose": (x[1100:], y[1100:]),
        "report": (x_test, y_test),
    }[part]
    return x.view(-1, 8, 8), y


class RowClassifier(nn.Module):
    """A digit read row by row: images (B, 8, 8) to logits (B, 10), from what the last row knows.

    The blocks are those of `CharModel`, causal attention and all.
    """

    def __init__(self, norm: str, d_model: int = 32, n_heads: int = 4) -> None:
        super().__init__()
        self.embed = nn.Linear(8, d_model)
        self.positions = nn.Parameter(torch.randn(8, d_model))
        self.blocks = nn.ModuleList(
            Block(d_model, n_heads, 4 * d_model, norm=norm) for _ in range(LAYERS)
        )
        self.final_norm = make_norm(norm, d_model)
        self.head = nn.Linear(d_model, 10)
        for linear in (self.embed, self.head):
            nn.init.xavier_normal_(linear.weight)
            nn.init.zeros_(linear.bias)
        for block in self.blocks:
            block.init_weights("xavier")

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.final_norm(x)[:, -1])


def fresh(task: str, norm: str, seed: int) -> nn.Module:
    """A model at initialization. With one seed all four norms start from the same weights."""
    torch.manual_seed(seed)
    if task == "digits":
        return RowClassifier(norm)
    return CharModel(corpus().vocabulary, n_layers=LAYERS, norm=norm, placement="pre")


def train_on_digits(
    model: nn.Module, *, steps: int, lr: float, seed: int, batch: int = 64
) -> list[float]:
    """Adam on random batches; the loss of each step. Ends early when one is not finite."""
    x, y = images("train")
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    model.train()
    losses: list[float] = []
    for _ in range(steps):
        rows = torch.randint(len(x), (batch,), generator=generator)
        loss = F.cross_entropy(model(x[rows]), y[rows])
        losses.append(loss.item())
        if not math.isfinite(losses[-1]):
            break
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return losses


@torch.no_grad()
def evaluate_on_digits(model: nn.Module, part: str) -> tuple[float, float]:
    """Loss and accuracy on "choose" (300 images) or "report" (397), in evaluation mode."""
    x, y = images(part)
    logits = model.eval()(x)
    model.train()
    return F.cross_entropy(logits, y).item(), (logits.argmax(-1) == y).float().mean().item()


def guessing(task: str) -> float:
    """The loss of a model that has learned nothing but how often each answer is right, in nats."""
    return math.log(10) if task == "digits" else unigram_loss(corpus().train)


# -- one run ---------------------------------------------------------------------------------------


def run(*, task: str, norm: str, lr: float, seed: int, steps: int) -> dict[str, Any]:
    """One training. A run has failed when it ends no better than guessing, or not finite.

    Returns:
        failed, loss (training, mean of the last steps), first (loss before the first step);
        choose, report: [loss, accuracy] on the two held-out parts; and for BatchNorm on text
        `modes`, see there.
    """
    model = fresh(task, norm, seed)
    if task == "digits":
        losses = train_on_digits(model, steps=steps, lr=lr, seed=seed)
        scores = [evaluate_on_digits(model, part) for part in ("choose", "report")]
    else:
        losses = train(model, corpus().train, steps=steps, lr=lr, seed=seed)
        scores = [evaluate(model, ids) for ids in held_out()]
    last = losses[-LAST:]
    loss = sum(last) / len(last)
    finite = math.isfinite(sum(losses) + scores[0][0] + scores[1][0])
    failed = not (finite and loss < guessing(task))
    result = {"failed": failed, "loss": loss, "first": losses[0]}
    result |= {"choose": scores[0], "report": scores[1]}
    if (task, norm) == ("text", "batch"):
        result["modes"] = modes(model, held_out()[1])
    return result


# -- BatchNorm, whose statistics can come from several places --------------------------------------


def batch_norms(model: nn.Module) -> list[nn.BatchNorm1d]:
    return [m for m in model.modules() if isinstance(m, nn.BatchNorm1d)]


@torch.no_grad()
def statistics_of(model: CharModel, ids: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Mean and variance in each BatchNorm when ids (B, L) pass in training mode."""
    norms = batch_norms(model)
    kept = [(m.running_mean.clone(), m.running_var.clone(), m.momentum) for m in norms]
    for m in norms:
        m.momentum = 1.0  # the running statistics become those of this batch
    model.train()
    model(ids)
    found = [(m.running_mean.clone(), m.running_var.clone()) for m in norms]
    for m, (mean, var, momentum) in zip(norms, kept, strict=True):
        m.running_mean.copy_(mean)
        m.running_var.copy_(var)
        m.momentum = momentum
    return found


@torch.no_grad()
def loss_with(
    model: CharModel, ids: Tensor, statistics: list[tuple[Tensor, Tensor]] | None = None
) -> float:
    """Loss on ids (B, L + 1) with these statistics; without them with the running ones."""
    norms = batch_norms(model)
    kept = [(m.running_mean.clone(), m.running_var.clone()) for m in norms]
    for m, (mean, var) in zip(norms, statistics or kept, strict=True):
        m.running_mean.copy_(mean)
        m.running_var.copy_(var)
    loss = model.eval()(ids[:, :-1])
    loss = F.cross_entropy(loss.flatten(0, 1), ids[:, 1:].flatten()).item()
    for m, (mean, var) in zip(norms, kept, strict=True):
        m.running_mean.copy_(mean)
        m.running_var.copy_(var)
    model.train()
    return loss


def modes(model: CharModel, ids: Tensor, batches: int = 16) -> dict[str, float]:
    """Loss of one trained model with statistics from different places, same batches throughout.

    running: the averages that evaluation uses. own 8, own 1: of the very batch, 8 windows or 1, as
    in training: later characters are part of them. other 8, other 1: of as many windows of text
    from elsewhere: as noisy, but with nothing of this batch in them, so with no leak.
    """
    generator = torch.Generator().manual_seed(54321)
    sums = dict.fromkeys(("running", "own 8", "other 8", "own 1", "other 1"), 0.0)
    for _ in range(batches):
        batch, elsewhere = (windows(ids, 8, model.length, generator) for _ in range(2))
        sums["running"] += loss_with(model, batch)
        for name, source in (("own 8", batch), ("other 8", elsewhere)):
            sums[name] += loss_with(model, batch, statistics_of(model, source[:, :-1]))
        for name, source in (("own 1", batch), ("other 1", elsewhere)):
            for i in range(8):
                found = statistics_of(model, source[i : i + 1, :-1])
                sums[name] += loss_with(model, batch[i : i + 1], found) / 8
    return {name: total / batches for name, total in sums.items()}


@torch.no_grad()
def moved_by_the_last(model: CharModel, ids: Tensor) -> Tensor:
    """How far the logits at each position move when only the last character of a text is another.

    ids (B, L); the first text is changed. Training mode. Returns the largest move at each of the L
    positions of that text.
    """
    changed = ids.clone()
    changed[0, -1] = (changed[0, -1] + 1) % model.tokens.num_embeddings
    model.train()
    kept = [(m.running_mean.clone(), m.running_var.clone()) for m in batch_norms(model)]
    moved = (model(changed)[0] - model(ids)[0]).abs().amax(-1)
    for m, (mean, var) in zip(batch_norms(model), kept, strict=True):
        m.running_mean.copy_(mean)
        m.running_var.copy_(var)
    return moved


# -- speed -----------------------------------------------------------------------------------------


def speed(*, task: str, rounds: int, steps: int = 5) -> dict[str, Any]:
    """Processor and clock time of a training step: the norms take turns in every round.

    Returns:
        processor, clock: for each norm the seconds a step of every round.
    """
    times = {kind: {norm: [] for norm in NORMS} for kind in ("processor", "clock")}
    models = {norm: fresh(task, norm, 0) for norm in NORMS}

    def train_a_little(norm: str, seed: int) -> None:
        if task == "digits":
            train_on_digits(models[norm], steps=steps, lr=1e-3, seed=seed)
        else:
            train(models[norm], corpus().train, steps=steps, lr=1e-3, seed=seed)

    for number in range(-2, rounds):  # two rounds to warm up, not counted
        turn = NORMS[number % 4 :] + NORMS[: number % 4]  # nobody is always first
        for norm in turn:
            processor, clock = process_time(), perf_counter()
            train_a_little(norm, number + 2)
            if number >= 0:
                times["processor"][norm].append((process_time() - processor) / steps)
                times["clock"][norm].append((perf_counter() - clock) / steps)
    return times


# -- all of it -------------------------------------------------------------------------------------


def tuning(plan: Plan, task: str) -> list[Setting]:
    return [
        {"task": task, "norm": norm, "lr": lr, "seed": seed, "steps": plan.steps}
        for seed in plan.tuning_seeds
        for lr in plan.rates[task]
        for norm in NORMS
    ]


def chosen(plan: Plan, task: str, records: list[dict[str, Any]]) -> dict[str, float]:
    """For each norm the rate with the lowest mean loss on the part kept for choosing.

    A rate at which a run failed is out.
    """
    found = {}
    for norm in NORMS:
        means = {}
        for lr in plan.rates[task]:
            results = [
                record["result"]
                for record in records
                if record["setting"] in tuning(plan, task)
                and (record["setting"]["norm"], record["setting"]["lr"]) == (norm, lr)
            ]
            if not any(result["failed"] for result in results):
                means[lr] = sum(result["choose"][0] for result in results) / len(results)
        found[norm] = min(means, key=means.__getitem__) if means else min(plan.rates[task])
    return found


def bake(path: Path, plan: Plan, tasks: tuple[str, ...] = TASKS) -> Iterator[dict[str, Any]]:
    """All runs of the plan in order, those of `path` taken from there: tuning, results, speed."""
    for task in tasks:
        records = list(resumable(path, tuning(plan, task), run))
        yield from records
        rates = chosen(plan, task, records)
        yield from resumable(
            path,
            [
                {"task": task, "norm": norm, "lr": rates[norm], "seed": seed, "steps": plan.steps}
                for seed in plan.seeds
                for norm in NORMS
            ],
            run,
        )
    yield from resumable(path, [{"task": t, "rounds": plan.rounds} for t in tasks], speed)


def record_of(
    plan: Plan, runs: list[dict[str, Any]], tasks: tuple[str, ...] = TASKS
) -> dict[str, Any]:
    return {
        "what": "training runs of bake_off.py; settings with a norm: see `run`; with rounds: see "
        "`speed`; null: not finite",
        "command": "python -m book.experiments.bake_off",
        "plan": asdict(plan),
        "tasks": list(tasks),
        "guessing": {task: guessing(task) for task in tasks},
        "date": datetime.date.today().isoformat(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "machine": f"{platform.machine()}, one thread, shared with other work",
        "runs": runs,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path, default=RUNS, help="one JSON line a finished run")
    parser.add_argument("--record", type=Path, default=RECORD, help="the result")
    parser.add_argument("--quick", action="store_true", help="a plan of seconds, to look at it")
    chosen_ = parser.parse_args()
    torch.set_num_threads(1)
    plan = (
        Plan({task: (3e-3, 3e-2) for task in TASKS}, (100,), (0, 1), 10, 2)
        if chosen_.quick
        else Plan()
    )
    chosen_.runs.parent.mkdir(parents=True, exist_ok=True)
    record = record_of(plan, list(bake(chosen_.runs, plan)))
    record = json.loads(json.dumps(record))  # as it will be read again
    chosen_.record.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")

    print(Table(record).text())


if __name__ == "__main__":
    main()
