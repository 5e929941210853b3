"""The hidden suite of an assignment with kernels on a CUDA GPU, for trusted code only.

    python -m tests.on_gpu triton_kernels             the reference
    python -m tests.on_gpu triton_kernels --styles    the right solutions in other styles too

The same tests as in the interpreter: each tensor is moved to the GPU for a call and its results
are moved back, and kernels are compiled. Nothing watches them there, so tests of reads and writes
look at the values alone. Exit code 1 if a test fails, 2 where there is no GPU or no Triton.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]


def refusal() -> str | None:
    """Why nothing can be run here, in one line; None if it can."""
    import torch

    if importlib.util.find_spec("triton") is None:
        return "on_gpu: Triton is not installed"
    if not torch.cuda.is_available():
        return "on_gpu: there is no CUDA GPU here; python -m pytest runs the suite without one"
    return None


def moved(value: Any, device: str) -> Any:
    """`value` with its tensors on `device`. Strides are kept, an expanded axis stays expanded."""
    import torch

    if isinstance(value, torch.Tensor):
        return _moved(value, device)
    if isinstance(value, (tuple, list)):
        return type(value)(moved(v, device) for v in value)
    if isinstance(value, Mapping):
        return {k: moved(v, device) for k, v in value.items()}
    return value


def _moved(tensor: Any, device: str) -> Any:
    span = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    if tensor.is_contiguous() or not tensor.numel() or span > 1 << 24:
        return tensor.to(device)
    memory = tensor.as_strided((span,), (1,), tensor.storage_offset())
    return memory.to(device).as_strided(tensor.shape, tensor.stride())


def far_apart(x: Any) -> Any:
    """x (M, D) on the GPU, with 2**30 numbers from row to row: 4 GiB of its memory."""
    import torch

    step = 1 << 30  # numbers from row to row
    memory = torch.empty(step * (len(x) - 1) + x.shape[1], dtype=x.dtype, device=x.device)
    return memory.as_strided(x.shape, (step, 1)).copy_(x)


def on_device(function: Callable[..., Any], device: str = "cuda") -> Callable[..., Any]:
    """`function` with its tensors moved there and back; what it does to its inputs comes back."""

    def call(*args: Any, **kwargs: Any) -> Any:
        there = moved(list(args), device)
        result = moved(function(*there, **moved(kwargs, device)), "cpu")
        for here, after in zip(args, moved(there, "cpu"), strict=True):
            if hasattr(here, "copy_") and here.device == after.device and not here.equal(after):
                here.copy_(after)
        return result

    return call


def student(namespace: Mapping[str, Any], device: str = "cuda") -> Any:
    """A student of trusted code that runs on the device; nobody watches its kernels."""
    from autograder.testing.student import LocalLink, Student

    class There(Student):
        def launches(self) -> None:
            return None

    link = LocalLink({k: on_device(f, device) for k, f in namespace.items() if callable(f)})
    # Made there: the wire, and so a copy of it, would not carry 4 GiB.
    link._executor.do_far_apart = lambda handle, x: link._executor.objects.update(
        {handle: far_apart(x.to(device))}
    )
    return There(link)


def failures(assignment: str, namespace: Mapping[str, Any], device: str = "cuda") -> list[str]:
    """One line for each test that `namespace` fails."""
    from autograder.testing import suite as suites

    found = []
    for test in suites.collect(suites.SUITES / assignment):
        try:
            test.run(student(namespace, device), seed=1)
        except Exception as error:
            reason = getattr(error, "message", None) or repr(error.__cause__ or error)
            found.append(f"{test.exercise}/{test.name}: {reason[:300]}")
            if os.environ.get("ON_GPU_TRACE"):
                traceback.print_exc()
    return found


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.on_gpu", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("assignment", choices=["triton_kernels"])
    parser.add_argument("--styles", action="store_true", help="other right solutions, too")
    options = parser.parse_args(argv)
    why = refusal()
    if why:
        print(why, file=sys.stderr)
        return 2
    os.environ.pop("TRITON_INTERPRET", None)  # before triton is imported
    name = options.assignment
    everyone = {"reference": vars(importlib.import_module(f"solutions.{name}.{name}"))}
    if options.styles:
        everyone |= importlib.import_module(f"alternatives.{name}").STYLES
    wrong = 0
    for who, namespace in everyone.items():
        found = failures(name, namespace)
        print(f"{who}: {'all tests pass' if not found else f'{len(found)} tests fail'}")
        print("".join(f"  {line}\n" for line in found), end="", flush=True)
        wrong += len(found)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
