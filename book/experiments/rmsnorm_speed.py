"""How long LayerNorm and RMSNorm take on one CPU thread: timings differ from run to run, so they
are recorded.

    python -m book.experiments.rmsnorm_speed

writes `bench/results/rmsnorm_speed.json`, which the page shows. The functions take turns, and the
smallest of many times counts: other work on the machine can only make a time longer. Nothing is
asserted about times; a test repeats the counts of operators.
"""

from __future__ import annotations

import datetime
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from solutions.layernorm import layernorm
from solutions.rmsnorm import rmsnorm

RECORD = Path(__file__).resolve().parents[2] / "bench" / "results" / "rmsnorm_speed.json"
SHAPES = ((64, 64), (512, 64), (1024, 256), (1024, 512), (4096, 1024))
TURNS = 300


def functions(width: int) -> dict[str, Callable[[Tensor], Tensor]]:
    """What is compared, each a function of x (rows, width)."""
    weight, bias = torch.ones(width), torch.zeros(width)
    return {
        "F.layer_norm": lambda x: F.layer_norm(x, (width,), weight, bias, 1e-6),
        "F.rms_norm": lambda x: F.rms_norm(x, (width,), weight, 1e-6),
        "layer norm, written out": lambda x: layernorm.layer_norm(x, weight, bias, 1e-6),
        "RMSNorm, written out": lambda x: rmsnorm.rms_norm(x, weight, 1e-6),
        "x + x": lambda x: x + x,
    }


def best_times(rows: int, width: int, turns: int = TURNS) -> dict[str, float]:
    """The smallest time of each function in microseconds, forward pass."""
    x = torch.randn(rows, width)
    best = dict.fromkeys(functions(width), float("inf"))
    for _ in range(turns):
        for name, function in functions(width).items():
            start = time.perf_counter()
            function(x)
            best[name] = min(best[name], 1e6 * (time.perf_counter() - start))
    return best


def main() -> None:
    torch.set_num_threads(1)
    record = {
        "what": f"forward pass in microseconds, smallest of {TURNS} turns, float32, one thread",
        "date": datetime.date.today().isoformat(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "machine": platform.machine(),
        "results": {f"{r} x {w}": best_times(r, w) for r, w in SHAPES},
    }
    RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
