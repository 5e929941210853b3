"""The claims of the chapter on fused kernels, executed.

Bytes and operators are counted, never timed. Kernels run in Triton's interpreter; where Triton is
absent those tests skip. Each test is shown to notice when its effect is switched off.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from book import kernel_cells
from book.experiments import triton_kernels as experiments

from . import notices

needs_triton = pytest.mark.skipif(
    not kernel_cells.triton_is_here(), reason="triton has wheels for Linux only"
)


def largest(x: Tensor) -> float:
    return x.abs().max().item()


def in_float64(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    x = x.double()
    return weight.double() * x / x.norm(dim=-1, keepdim=True).clamp(min=eps)


@pytest.fixture
def unit_rows():
    kernel_cells.prepare()
    from book.experiments import unit_rows

    return unit_rows


# -- bytes -----------------------------------------------------------------------------------------


def visits(f, x: Tensor) -> tuple[int, float]:
    """How many operators f needs, and how often all of them together move the batch."""
    with experiments.ByteCount() as count:
        f(x)
    return len(count.steps), count.total() / x.nbytes


def by_hand(x: Tensor) -> Tensor:
    weight = torch.ones(x.shape[-1], dtype=x.dtype)
    return experiments.layer_norm_by_hand(x, weight, torch.zeros_like(weight))


def ready_made(x: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], torch.ones(x.shape[-1], dtype=x.dtype))


def test_c061_c064_nine_operators_move_the_batch_twelve_times():
    x = torch.randn(256, 4096)
    with experiments.ByteCount() as creation:
        torch.ones(4096)
    made = len(creation.steps)  # what making the weights costs, in operators
    operators, moved = visits(by_hand, x)
    fused_operators, fused_moved = visits(ready_made, x)
    assert operators - 2 * made == 9 and 11.9 < moved < 12.2
    assert fused_operators - made == 1 and 2 <= fused_moved < 2.1
    x = x.double()
    assert largest(by_hand(x) - ready_made(x)) < 1e-12  # the numbers are right


def test_c061_notices_when_nothing_is_fused(monkeypatch):
    monkeypatch.setattr(F, "layer_norm", lambda x, shape, weight: by_hand(x) * weight)
    notices(test_c061_c064_nine_operators_move_the_batch_twelve_times)


def test_c060_details_decide_bytes_and_values():
    (_, moved), (_, fused) = (visits(f, torch.randn(256, 4096)) for f in (by_hand, ready_made))
    assert moved > 5 * fused
    ones = torch.ones(4096, dtype=torch.bfloat16)
    total = ones.new_zeros(())
    for one in ones:
        total = total + one
    assert total == 256 and ones.float().sum() == 4096
    x = torch.randn(8, 1000, dtype=torch.float64) + 10
    true = x.var(-1, correction=0)
    with_lanes = experiments.variance_with_lanes(x, 1024, masked=False)
    assert largest(with_lanes - true - 0.024 * x.mean(-1).square()) < 1e-9
    assert (with_lanes > 3 * true).all()
    assert largest(experiments.variance_with_lanes(x, 1024, masked=True) - true) < 1e-9
    centred = x - x.mean(-1, keepdim=True)  # where tests like to be, the mistake does not show
    assert largest(experiments.variance_with_lanes(centred, 1024, masked=False) - true) < 1e-9


def test_c060_notices_when_lanes_past_the_row_do_nothing(monkeypatch):
    kernel = experiments.variance_with_lanes
    monkeypatch.setattr(
        experiments, "variance_with_lanes", lambda x, block, masked: kernel(x, block, True)
    )
    notices(test_c060_details_decide_bytes_and_values)


# -- programs --------------------------------------------------------------------------------------


@needs_triton
def test_c063_rows_are_independent_and_only_dweight_needs_all(unit_rows):
    x, weight = torch.randn(6, 300), torch.randn(300)
    grad = torch.randn(6, 300)
    y, r = unit_rows.unit_rows(x, weight, 1e-6)
    dx, dweight = unit_rows.unit_rows_backward(grad, x, weight, r, 1e-6)
    order = torch.tensor([3, 1, 5, 0, 2, 4])
    moved, moved_r = unit_rows.unit_rows(x[order], weight, 1e-6)
    assert torch.equal(moved, y[order]) and torch.equal(moved_r, r[order])
    for rows in (x[:2], x[2:]):  # fewer programs, the same rows
        alone, _ = unit_rows.unit_rows(rows, weight, 1e-6)
        assert torch.equal(alone, y[:2] if rows.shape[0] == 2 else y[2:])
    x2 = x.clone()
    x2[4] += 1
    _, r2 = unit_rows.unit_rows(x2, weight, 1e-6)
    dx2, dweight2 = unit_rows.unit_rows_backward(grad, x2, weight, r2, 1e-6)
    assert (dx2 != dx).any(1).nonzero().flatten().tolist() == [4]
    assert (dweight2 != dweight).float().mean() > 0.9


@needs_triton
def test_c063_notices_when_rows_share_a_statistic(unit_rows, monkeypatch):
    def of_the_batch(x, weight, eps):
        r = x.square().sum(-1).mean().rsqrt().expand(len(x))
        return x * r[:, None] * weight, r.contiguous()

    monkeypatch.setattr(unit_rows, "unit_rows", of_the_batch)
    notices(lambda: test_c063_rows_are_independent_and_only_dweight_needs_all(unit_rows))


@needs_triton
def test_n26_one_visit_forward_and_two_stages_backward(unit_rows, sanitizer):
    x, weight, grad = torch.randn(5, 1000), torch.randn(1000), torch.randn(5, 1000)
    with sanitizer.watching():  # raises on a race or a stray address
        y, r = unit_rows.unit_rows(x, weight, 1e-6)
        dx, dweight = unit_rows.unit_rows_backward(grad, x, weight, r, 1e-6, programs=8)
    forward, backward = sanitizer.launches
    assert forward["reads"]["x_ptr"] == forward["writes"]["y_ptr"] == x.nbytes
    assert backward["reads"]["x_ptr"] == backward["reads"]["grad_ptr"] == x.nbytes
    assert backward["writes"]["dx_ptr"] == x.nbytes
    assert backward["writes"]["partial_ptr"] == 8 * 1000 * 4  # each program, also without a row
    assert r.dtype == torch.float32 and r.shape == (5,)
    wide_x, wide_weight = x.double().requires_grad_(), weight.double().requires_grad_()
    want = in_float64(wide_x, wide_weight)
    want.backward(grad.double())
    assert largest(y - want) < 1e-6
    assert largest(dx - wide_x.grad) < 1e-6 and largest(dweight - wide_weight.grad) < 1e-6


@needs_triton
def test_n26_notices_a_second_visit(unit_rows, sanitizer, monkeypatch):
    def swept(x, weight, eps):
        y = torch.empty_like(x)
        unit_rows.forward_swept[(len(x),)](x, y, x.shape[1], eps, BLOCK=256)
        return y * weight, 1 / x.norm(dim=-1)

    monkeypatch.setattr(unit_rows, "unit_rows", swept)
    notices(lambda: test_n26_one_visit_forward_and_two_stages_backward(unit_rows, sanitizer))


@needs_triton
@pytest.mark.parametrize("rounded", [False, True])
def test_n26_the_kernel_normalizes_the_sum_that_it_is_told_to(unit_rows, rounded):
    x, residual = (torch.randn(2, 3, 1000) * torch.tensor([0.1, 10.0])[:, None, None]).bfloat16()
    s, y = torch.empty_like(x), torch.empty(3, 1000)
    unit_rows.add_forward[(3,)](x, residual, s, y, 1000, 1e-6, ROUNDED=rounded, BLOCK=1024)
    wide = x.float() + residual.float()
    if not rounded:  # a store of the plain interpreter cuts bits off instead of rounding
        assert largest(s.float() - wide) <= 0.25
    seen = s.float() if rounded else wide
    other = wide if rounded else s.float()
    unit, other_unit = F.normalize(seen, dim=-1), F.normalize(other, dim=-1)
    assert 5 * largest(y - unit) < largest(other_unit - unit)


def test_n26_the_float32_sum_is_closer_and_sees_small_updates():
    residual = (10 * torch.randn(64, 1024)).bfloat16()
    x = (0.1 * torch.randn(64, 1024)).bfloat16()
    y = experiments.normalized_sums(x, residual)
    error = {name: (value.bfloat16() - y["exact"]).abs().mean() for name, value in y.items()}
    assert error["float32 sum"] < 0.85 * error["rounded sum"]
    assert ((x.float() + residual.float()).bfloat16() == residual).float().mean() > 0.03


# -- races -----------------------------------------------------------------------------------------


def test_n26_sums_with_races_lose_parts_and_sums_in_other_orders_lose_bits():
    parts = torch.randn(256, 100).abs()
    right = parts.sum(0)
    assert largest(experiments.sum_with_races(parts, 1) / right - 1) < 1e-5
    assert largest(experiments.sum_with_races(parts, 8) / right - 1 / 8) < 0.1
    sums = experiments.sums_in_orders(torch.randn(256, 100), 8)
    assert (sums != sums[0]).any() and largest(sums - sums[0]) < 1e-4
