"""Code around kernels may allocate, reshape and launch. What computes instead earns nothing.

Or a person sees its line. Code that only plumbs loses nothing and is not even mentioned.
"""

from __future__ import annotations

import pytest
import torch
from by_hand import Outcome, outcomes
from host import attacks, doubts, flow
from host.styles import ROW_SUMS
from in_process import gradable

from autograder import release

NAME = "triton_kernels"
if NAME not in gradable():
    pytest.skip("Triton has packages for Linux only", allow_module_level=True)

INPUTS = [torch.tensor([[1.5, 2.0], [3.0, 5.25], [-4.0, 0.5]]), torch.arange(12.0).view(2, 3, 2)]
ATTACKS = {
    f"{module.__name__.removeprefix('host.')}: {name}": source
    for module in (attacks, doubts, flow)
    for name, source in module.ATTACKS.items()
}

# A kernel that adds up rows, for functions around it.
KERNEL = """
@triton.jit
def k(x_ptr, out_ptr, stride, D, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + cols, mask=cols < D, other=0.0).to(tl.float32)
    tl.store(out_ptr + row, tl.sum(x, axis=0))
"""
# What Triton's interpreter does not do without a GPU.
NOT_INTERPRETED = {"heuristics, autotune, device", "what tutorials do"}


def is_right(found: Outcome, x: torch.Tensor) -> bool:
    got, want = found.value, x.sum(-1)
    same = isinstance(got, torch.Tensor) and got.shape == want.shape
    return same and torch.allclose(got.float(), want)


@pytest.mark.parametrize("attack", ATTACKS)
def test_numbers_that_no_kernel_made_earn_nothing_or_are_shown(attack):
    source = release.solution_cells(NAME)["row_sum"] + ATTACKS[attack]
    found = outcomes(NAME, "row_sum", source, [[x] for x in INPUTS])
    for one, x in zip(found, INPUTS, strict=True):
        assert one.shown or not is_right(one, x)


@pytest.mark.parametrize("style", ROW_SUMS)
def test_host_code_around_a_right_kernel_loses_nothing(style):
    (found,) = outcomes(NAME, "row_sum", KERNEL + ROW_SUMS[style], [INPUTS[:1]])
    assert found.shown == [] and found.refused is None
    assert is_right(found, INPUTS[0]) or style in NOT_INTERPRETED
