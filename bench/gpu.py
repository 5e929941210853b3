"""The fused norms on a GPU, beside torch, torch.compile, Liger-Kernel and a plain copy.

    python -m bench.gpu            # under 8 minutes on one H200; writes bench/results/gpu.json
    python -m bench.gpu --dry      # the same steps on a CPU, tiny, times meaningless

First every kernel is compared with float64; if one is wrong, nothing is timed. Then the cases, what
matters most first, until all are done or the time is up: what is there is written after each.
A norm moves so many bytes, and can be no faster than a copy of as many bytes: that is the bar.

Exit code 0: all bars held; 1: one did not, or a kernel is wrong; 2: no GPU.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent / "results"
TENSOR_BYTES = 256 * 2**20
ALLOWANCE = 1.02  # two medians of the same kernel differ by so much


def main(argv: Sequence[str] | None = None) -> int:
    """Check, time and record. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.gpu", description=main.__doc__)
    parser.add_argument("--dry", action="store_true", help="on the CPU, tiny, to test the steps")
    parser.add_argument("--seconds", type=float, default=420.0, help="time for all (default 420)")
    parser.add_argument("--folder", type=Path, help="where gpu.json goes (default bench/results)")
    options = parser.parse_args(argv)
    end = time.monotonic() + options.seconds
    if options.dry:
        os.environ.setdefault("TRITON_INTERPRET", "1")
    else:
        os.environ.pop("TRITON_INTERPRET", None)
    import torch

    if not options.dry and not torch.cuda.is_available():
        print("gpu: no CUDA GPU here; --dry goes through the steps on a CPU", file=sys.stderr)
        return 2
    folder = options.folder or (Path(tempfile.mkdtemp()) if options.dry else RESULTS)
    return Bench(options.dry, folder, end).run()


class Bench:
    """One run. `record` is what is written; its rows come in the order they were measured."""

    def __init__(self, dry: bool, folder: Path, end: float) -> None:
        import torch

        from bench import gpu_cases

        self.dry, self.end, self.start = dry, end, time.monotonic()
        self.path = folder / "gpu.json"
        self.device = "cpu" if dry else "cuda"
        widths = (16, 40) if dry else gpu_cases.WIDTHS
        self.cases = list(gpu_cases.cases(widths, 2000 if dry else TENSOR_BYTES))
        self.longest = 0.0  # seconds of a case so far
        self.record: dict[str, Any] = {
            "what": "medians in milliseconds; of_copy: a copy of the same bytes over ours",
            "dry": dry,
            "date": datetime.date.today().isoformat(),
            "card": "none (dry run)" if dry else torch.cuda.get_device_name(),
            "versions": _versions(),
            "tensor_bytes": TENSOR_BYTES,
            "checks": [], "rows": [], "skipped": [],
        }  # fmt: skip

    def run(self) -> int:
        versions = ", ".join(f"{k} {v}" for k, v in self.record["versions"].items())
        print(f"{self.record['card']}; {versions}", flush=True)
        wrong = self.check()
        if wrong:
            self.write()
            print(f"gpu: {len(wrong)} checks failed, so nothing is timed")
            return 1
        print(f"{len(self.record['checks'])} checks against float64 passed")
        print(f"{'':34}   ours  torch  compile  liger   copy  of copy   bar", flush=True)
        for case in self.cases:
            if time.monotonic() + 1.5 * self.longest > self.end:
                self.record["skipped"].append(case.name)
                continue
            began = time.monotonic()
            self.measure(case)
            self.longest = max(self.longest, time.monotonic() - began)
            self.write()
        self.write()
        self.draw()
        return self.summary()

    def check(self) -> list[str]:
        """Compare with float64, at every width and in odd layouts. Returns what is wrong."""
        from bench import gpu_cases, gpu_checks

        rows = 3 if self.dry else 1500
        every = [
            (
                case.name.replace("forward ", ""),
                lambda c=case: gpu_cases.distance(c, gpu_cases.ours(c.norm), self.device, rows),
                gpu_cases.CLOSE[case.dtype],
            )
            for case in self.cases
            if case.direction == "forward"
        ]
        for name, function, bound in [*every, *gpu_checks.checks(self.device, small=self.dry)]:
            try:
                error, why = function(), None
            except Exception as reason:  # a kernel that does not compile, no memory, ...
                error, why = float("inf"), f"{type(reason).__name__}: {reason}".split("\n")[0]
            right = error <= bound
            self.record["checks"].append(
                {"name": name, "error": error if right else str(error), "bound": bound}
                | {"right": right, "why": why}
            )
            if not right:
                print(f"wrong: {name}: error {error:.1e}, bound {bound:.1e} {why or ''}")
        return [entry["name"] for entry in self.record["checks"] if not entry["right"]]

    def measure(self, case: Any) -> None:
        """Time all contenders of a case. One that fails is noted, and the others go on."""
        from bench import gpu_cases

        given = gpu_cases.tensors(case, self.device)
        backend = "eager" if self.dry else "inductor"
        times, failed = {}, {}
        for name, function in gpu_cases.contenders(case.norm, backend).items():
            try:
                times[name] = self.median(gpu_cases.work(case, function, given))
            except Exception as reason:
                if name == "ours":
                    raise
                failed[name] = f"{type(reason).__name__}: {reason}".split("\n")[0]
        times["copy"] = self.median(gpu_cases.copy(case, self.device))
        row = {
            "norm": case.norm, "direction": case.direction, "dtype": case.dtype,
            "width": case.width, "rows": case.rows, "units": case.units, "ms": times,
            "failed": failed, **judge(case.bar, times),
        }  # fmt: skip
        self.record["rows"].append(row)
        print(line(case.name, row), flush=True)

    def median(self, function: Callable[[], Any]) -> float:
        """Milliseconds; the second-level cache is emptied before each call."""
        if self.dry:
            function()
            return 1.0
        from triton.testing import do_bench

        return float(do_bench(function, warmup=10, rep=60, return_mode="median"))

    def write(self) -> None:
        """By rename, so that an interrupted run leaves a whole file."""
        self.record["complete"] = not self.record["skipped"] and len(self.record["rows"]) == len(
            self.cases
        )
        self.record["seconds"] = round(time.monotonic() - self.start, 1)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self.path.with_suffix(".new")
        fresh.write_text(json.dumps(self.record, indent=1) + "\n")
        fresh.replace(self.path)

    def draw(self) -> None:
        try:
            from bench.gpu_figure import draw
        except ImportError:
            print("gpu: no matplotlib here; python -m bench.gpu_figure draws the figure later")
            return
        draw(self.record).savefig(self.path.with_suffix(".svg"))

    def summary(self) -> int:
        rows = self.record["rows"]
        asked = [row for row in rows if row["bar"] is not None]
        held = [row for row in asked if row["held"]]
        if self.record["skipped"]:
            print(f"out of time: {len(self.record['skipped'])} cases were not started")
        print(f"bars held: {len(held)} of {len(asked)}; written to {self.path}")
        return 0 if len(held) == len(asked) and not self.record["skipped"] else 1


def judge(bar: float | None, times: dict[str, float]) -> dict[str, Any]:
    """Share of the copy's speed, and whether the bar holds: that share, and no contender faster."""
    of_copy = times["copy"] / times["ours"]
    faster = [
        n for n in ("torch", "compile", "liger") if times["ours"] > ALLOWANCE * times.get(n, 1e9)
    ]
    held = None if bar is None else of_copy >= bar and not faster
    return {"of_copy": of_copy, "bar": bar, "faster": faster, "held": held}


def line(name: str, row: dict[str, Any]) -> str:
    """A row of the printed table."""
    times = "".join(
        f"{row['ms'][n]:{w}.3f}" if n in row["ms"] else f"{'-':>{w}}"
        for n, w in (("ours", 7), ("torch", 7), ("compile", 9), ("liger", 7), ("copy", 7))
    )
    bar = "" if row["bar"] is None else f"{row['bar']:6.0%} {'pass' if row['held'] else 'FAIL'}"
    faster = f" (faster: {', '.join(row['faster'])})" if row["faster"] else ""
    return f"{name:34}{times}{row['of_copy']:9.1%}{bar}{faster}"


def _versions() -> dict[str, str]:
    from importlib import metadata

    found = {"python": platform.python_version()}
    for package in ("torch", "triton", "liger-kernel"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


if __name__ == "__main__":
    sys.exit(main())
