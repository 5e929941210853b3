"""Code around kernels may allocate, reshape and launch. What computes instead earns nothing.

Or a person sees its line. Code that only plumbs loses nothing and is not even mentioned.
"""

from __future__ import annotations

import pytest
import torch
from host import attacks, doubts, flow
from host.styles import ROW_SUMS
from host_code import KERNEL, NAME, earned, found, has_triton

from autograder import release

if not has_triton():
    pytest.skip("Triton has packages for Linux only", allow_module_level=True)

INPUTS = [torch.tensor([[1.5, 2.0], [3.0, 5.25], [-4.0, 0.5]]), torch.arange(12.0).view(2, 3, 2)]
ATTACKS = {
    f"{module.__name__.removeprefix('host.')}: {name}": source
    for module in (attacks, doubts, flow)
    for name, source in module.ATTACKS.items()
}

# What Triton's interpreter does not do without a GPU.
NOT_INTERPRETED = {"heuristics, autotune, device", "what tutorials do"}


@pytest.mark.parametrize("attack", ATTACKS)
def test_numbers_that_no_kernel_made_earn_nothing_or_are_shown(attack):
    source = release.solution_cells(NAME)["row_sum"] + ATTACKS[attack]
    gained = [got is True for got in earned("row_sum", INPUTS, row_sum=source)]
    assert not any(gained) or found(row_sum=source)


@pytest.mark.parametrize("style", ROW_SUMS)
def test_host_code_around_a_right_kernel_loses_nothing(style):
    source = KERNEL + ROW_SUMS[style]
    (got,) = earned("row_sum", INPUTS[:1], row_sum=source)
    if style in NOT_INTERPRETED:
        assert "Denied" not in got
    else:
        assert got is True
    assert found(row_sum=source) == []
