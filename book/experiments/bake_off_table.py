"""From the runs of the bake-off to a table: means, intervals, failures, speeds.

    table = Table(json.loads(RECORD.read_text()))
    table.rows("text"); table.pairs("text"); table.failures("text"); table.speeds("text")

Intervals of means are Student's t intervals over seeds. Two norms are compared by the differences
seed by seed, since with one seed both start from the same weights and see the same batches. All six
pairs of norms in a task together get 95 % (Bonferroni: 1 - 0.05 / 6 for each).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from statistics import mean, median, stdev
from typing import Any, NamedTuple

from scipy import stats

NORMS = ("none", "batch", "layer", "rms")

NAMES = {"none": "none", "batch": "BatchNorm", "layer": "LayerNorm", "rms": "RMSNorm"}
KINDS = {"loss": 0, "accuracy": 1}


class Interval(NamedTuple):
    middle: float
    low: float
    high: float

    def excludes(self, value: float) -> bool:
        return not self.low <= value <= self.high

    @property
    def half(self) -> float:
        return (self.high - self.low) / 2


def t_interval(values: Sequence[float], level: float = 0.95) -> Interval:
    """Student's t interval for the mean of independent, roughly normal values."""
    middle, n = mean(values), len(values)
    half = stats.t.ppf((1 + level) / 2, n - 1) * stdev(values) / math.sqrt(n)
    return Interval(middle, middle - half, middle + half)


def median_interval(values: Sequence[float], level: float = 0.95) -> Interval:
    """The median, and between which of the sorted values it lies: assumes no distribution."""
    values, n = sorted(values), len(values)
    k = 0  # values left out at either end: misses the median with 2 * P(Binomial(n, 1/2) <= k)
    while 2 * stats.binom.cdf(k, n, 0.5) <= 1 - level:
        k += 1
    k = max(k - 1, 0)
    return Interval(median(values), values[k], values[n - 1 - k])


def most_failures(failed: int, runs: int, level: float = 0.95) -> float:
    """The largest probability of failing that so few failures in so many runs leave possible."""
    if failed == runs:
        return 1.0
    return float(stats.beta.ppf(level, failed + 1, runs - failed))


def runs_needed(deviation: float, difference: float, chance: float = 0.8) -> int:
    """Pairs of runs until a true difference shows, at 95 %, with this chance.

    deviation: standard deviation of the differences, seed by seed.
    """
    n = 2
    while True:
        t = stats.t.ppf(0.975, n - 1) + stats.t.ppf(chance, n - 1)
        if n >= (t * deviation / difference) ** 2:
            return n
        n += 1


class Row(NamedTuple):
    norm: str
    lr: float
    loss: Interval
    accuracy: Interval
    failed: int  # of the reported runs


class Pair(NamedTuple):
    first: str
    second: str
    difference: Interval  # of first - second, seed by seed

    @property
    def decided(self) -> bool:
        return self.difference.excludes(0.0)


class Table:
    """What the recorded runs say. `record` is what `bake_off.main` writes."""

    def __init__(self, record: dict[str, Any]) -> None:
        self.record, self.plan = record, record["plan"]
        self._runs = {}
        for run in record["runs"]:
            s = run["setting"]
            if "norm" in s:
                self._runs[s["task"], s["norm"], s["lr"], s["seed"]] = run["result"]
        self._speeds = {
            run["setting"]["task"]: run["result"]
            for run in record["runs"]
            if "rounds" in run["setting"]
        }

    def rate(self, task: str, norm: str) -> float:
        """The chosen rate: the one at which the reported seeds were run."""
        seed = self.plan["seeds"][0]
        (lr,) = [lr for t, n, lr, s in self._runs if (t, n, s) == (task, norm, seed)]
        return lr

    def reported(self, task: str, norm: str) -> list[dict[str, Any]]:
        """The results of the reported seeds, in their order."""
        lr = self.rate(task, norm)
        return [self._runs[task, norm, lr, seed] for seed in self.plan["seeds"]]

    def values(self, task: str, norm: str, kind: str = "accuracy") -> list[float]:
        """One number a seed, on the held-out part for reporting: "loss" or "accuracy"."""
        return [result["report"][KINDS[kind]] for result in self.reported(task, norm)]

    def rows(self, task: str) -> list[Row]:
        return [
            Row(
                norm,
                self.rate(task, norm),
                t_interval(self.values(task, norm, "loss")),
                t_interval(self.values(task, norm, "accuracy")),
                sum(result["failed"] for result in self.reported(task, norm)),
            )
            for norm in NORMS
        ]

    def pairs(self, task: str, kind: str = "accuracy") -> list[Pair]:
        """All six differences, with intervals that hold together with 95 %."""
        found = []
        for first, second in combinations(NORMS, 2):
            one, other = self.values(task, first, kind), self.values(task, second, kind)
            differences = [a - b for a, b in zip(one, other, strict=True)]
            found.append(Pair(first, second, t_interval(differences, 1 - 0.05 / 6)))
        return found

    def failures(self, task: str) -> dict[str, dict[float, tuple[int, int]]]:
        """For each norm and rate how many runs failed, of how many; all seeds."""
        found: dict[str, dict[float, tuple[int, int]]] = {}
        for norm in NORMS:
            for lr in self.plan["rates"][task]:
                results = [
                    result
                    for (t, n, rate, _), result in self._runs.items()
                    if (t, n, rate) == (task, norm, lr)
                ]
                failed = sum(result["failed"] for result in results)
                found.setdefault(norm, {})[lr] = (failed, len(results))
        return found

    def tuning(self, task: str, norm: str, lr: float) -> float | None:
        """Mean loss of the tuning seeds on the part for choosing; None where one had failed."""
        results = [self._runs[task, norm, lr, seed] for seed in self.plan["tuning_seeds"]]
        if any(result["failed"] for result in results):
            return None
        return mean(result["choose"][0] for result in results)

    def speeds(self, task: str, kind: str = "processor") -> dict[str, Interval]:
        """Steps per second relative to LayerNorm, round by round: median and its 95 % interval."""
        times = self._speeds[task][kind]
        return {
            norm: median_interval(
                [layer / own for layer, own in zip(times["layer"], times[norm], strict=True)]
            )
            for norm in NORMS
        }

    def best(self, task: str, kind: str = "accuracy") -> list[tuple[str, ...]]:
        """For each reported seed the norm or norms that came first, if one looked at it alone."""
        sign = 1 if kind == "accuracy" else -1
        scores = {norm: self.values(task, norm, kind) for norm in NORMS}
        firsts = []
        for i in range(len(self.plan["seeds"])):
            top = max(sign * scores[norm][i] for norm in NORMS)
            firsts.append(tuple(norm for norm in NORMS if sign * scores[norm][i] == top))
        return firsts

    def modes(self) -> dict[str, list[float]]:
        """BatchNorm on text: loss of each seed, by where its statistics come from."""
        found: dict[str, list[float]] = {}
        for result in self.reported("text", "batch"):
            for name, loss in result["modes"].items():
                found.setdefault(name, []).append(loss)
        return found

    def text(self) -> str:
        """The table for a terminal: this is what the command prints at its end."""
        lines = []
        for task in self.record["tasks"]:
            lines.append(f"{task}: mean over seeds, 95 % t interval")
            lines.append(
                "             rate   accuracy %            loss                   failed  speed"
            )
            failures, speeds = self.failures(task), self.speeds(task)
            for row in self.rows(task):
                a, x = (Interval(*(100 * v for v in row.accuracy)), row.loss)
                failed, runs = (sum(c) for c in zip(*failures[row.norm].values(), strict=True))
                lines.append(
                    f"  {NAMES[row.norm]:10} {row.lr:5g}   {a.middle:4.1f} [{a.low:4.1f}, "
                    f"{a.high:4.1f}]   {x.middle:6.3f} [{x.low:6.3f}, {x.high:6.3f}]   "
                    f"{failed:2} of {runs:2}  {speeds[row.norm].middle:.2f}"
                )
            for kind in KINDS:
                decided = [
                    f"{NAMES[p.first]} - {NAMES[p.second]} {p.difference.middle:+.3f}"
                    for p in self.pairs(task, kind)
                    if p.decided
                ]
                lines.append(f"  decided, {kind}: " + ("; ".join(decided) or "nothing"))
        return "\n".join(lines)
