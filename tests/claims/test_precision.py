"""The claims of the chapter on precision, executed.

Each test fails if its effect is not there: the `notices` at its end run it with the effect off.
Numbers of single roundings are not asserted, only what holds for any order of a sum.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from book.experiments import precision as experiments
from solutions.precision import precision as reference

from . import notices

EPS = 1e-5


def noise(rows: int = 100, width: int = 512) -> Tensor:
    return torch.randn(rows, width, dtype=torch.float64)


def dead(y: Tensor) -> float:
    """The share of tokens whose outputs are all 0."""
    return (y == 0).all(-1).double().mean().item()


def test_c062_a_norm_in_float16_returns_zeros_and_one_with_float32_inside_does_not(
    in_half=experiments.norm_in_own_dtype,
):
    x = noise()
    assert dead(in_half((30 * x).half())) == 0
    for std in (100, 1000):
        large = (std * x).half()
        assert dead(in_half(large)) == 1.0  # zeros, and no NaN
        for inside in (
            F.layer_norm(large, (512,)),
            reference.layer_norm_low_precision(large, None, None, EPS),
        ):
            assert inside.dtype == torch.float16 and dead(inside) == 0
            assert experiments.largest_error(inside, large) < 4e-3
    # One deviation above 256 is enough.
    one = torch.zeros(1, 64).half()
    one[0, 3] = 20000.0
    assert dead(in_half(one)) == 1.0 and dead(F.layer_norm(one, (64,))) == 0


def test_c062_bfloat16_has_the_range_and_lacks_the_digits():
    x = (1000 * noise()).bfloat16()
    own = experiments.largest_error(experiments.norm_in_own_dtype(x), x)
    library = experiments.largest_error(F.layer_norm(x, (512,)), x)
    in_float16 = (30 * noise()).half()
    fine = experiments.largest_error(experiments.norm_in_own_dtype(in_float16), in_float16)
    assert own > 4 * fine and own > 1.3 * library


def test_c062_statistics_kept_in_half_cost_more_than_the_rounding_of_the_output():
    x = (100 + noise()).bfloat16()
    errors = {
        kept: experiments.largest_error(experiments.norm_with_rounded(x, kept), x)
        for kept in ("nothing", "rstd", "mean and rstd")
    }
    assert errors["rstd"] > 1.3 * errors["nothing"]
    assert errors["mean and rstd"] > 4 * errors["nothing"]


def test_c065_one_pass_cancels_where_three_other_methods_do_not(one_pass=reference.one_pass_var):
    # In float32 by hand: mean of squares 25023338, square of the mean 25023340.
    small = torch.tensor([5001.0, 5002.0, 5004.0])
    assert one_pass(small) == -2
    assert abs(one_pass(small.double()).item() - 14 / 9) < 1e-6
    others = [method for name, method in experiments.METHODS.items() if name != "one pass"]
    for method in others:
        assert abs(method(small).item() - 14 / 9) < 1e-3
    # Nothing is right from a ratio of 4096 on, and some of it is negative.
    x = (10_000 + noise(500)).float()
    right = x.double().var(-1, correction=0)
    wrong = one_pass(x).double()
    assert ((wrong - right).abs() > right).double().mean() > 0.5 and (wrong < 0).any()
    assert one_pass(x).clamp(min=0).sub(right).abs().max() > 1  # a clamp does not help
    for method in others:
        assert ((method(x).double() - right).abs() / right).max() < 0.02


def test_c065_the_errors_grow_with_the_square_of_the_ratio_and_with_the_ratio():
    found = experiments.variance_errors([100, 1000, 10_000])
    low, middle, high = found["one pass"]
    assert 20 < middle / low < 500 and 20 < high / middle < 500
    for name in ("Welford", "Chan, 32 pieces"):
        first, _, last = found[name]
        assert last / first < 2000 and last < 0.01  # a hundredfold would be exactly linear
    assert max(found["two passes"]) < 1e-4
    assert found["Welford"][-1] > 3 * found["two passes"][-1]  # it rounds its mean at each number


def test_c065_the_reported_inputs_still_break_one_pass_and_no_longer_break_torch():
    for name, x in experiments.REPORTS.items():
        right = x.double().var(correction=0).item()
        assert abs(reference.one_pass_var(x).item() - right) > 0.5 * right, name
        y = F.layer_norm(x, x.shape)
        assert experiments.largest_error(y, x) < 0.02 * y.abs().max(), name
    nan = experiments.norm_with(reference.one_pass_var, experiments.REPORTS["onnxruntime 28463"])
    assert nan.isnan().all()


def test_c065_tiny_inputs_are_damped_by_eps_and_large_ones_are_normalized():
    x = noise()
    for dtype in (torch.float32, torch.float64):
        large = F.layer_norm((1e15 * x).to(dtype), (512,))
        assert (large.double() - experiments.exact_norm(x, 0.0)).abs().max() < 1e-5
        tiny = F.layer_norm((1e-20 * x).to(dtype), (512,))
        assert tiny.isfinite().all() and tiny.abs().max() < 1e-15


def test_c066_what_storing_lost_is_not_brought_back_by_double_precision(dtype=torch.bfloat16):
    original = 100 + noise()
    stored = original.to(dtype)
    right = experiments.exact_norm(original)
    lost = (experiments.exact_norm(stored) - right).abs().max().item()
    assert 0.2 < lost < 0.5  # a quarter of a standard deviation, and a little more
    inside = reference.layer_norm_low_precision(stored, None, None, EPS)
    assert lost > 10 * experiments.largest_error(inside, stored)
    # float64 is no better than float32 then, to within the rounding of the output.
    total = (inside.double() - right).abs().max().item()
    assert abs(total - lost) < 0.02


def test_c066_near_means_with_the_same_gaps_both_half_types_lose_the_same():
    x = noise()
    losses = []
    for mean, dtype in ((1000, torch.float16), (100, torch.bfloat16)):
        assert torch.finfo(dtype).eps * 2 ** torch.tensor(float(mean)).log2().floor() == 0.5
        original = (mean + x).clamp(mean - 28, mean + 28)
        stored = experiments.exact_norm(original.to(dtype))
        losses.append((stored - experiments.exact_norm(original)).abs().max().item())
    assert abs(losses[0] - losses[1]) < 1e-6


def test_c067_a_larger_eps_shrinks_small_vectors_and_does_nothing_against_overflow(larger=1e-3):
    x = 1e-3 * noise().float()
    for eps in (1e-8, 1e-6, larger):
        shrunk = F.layer_norm(x, (512,), eps=eps).std(correction=0).item()
        assert abs(shrunk - (1e-6 / (1e-6 + eps)) ** 0.5) < 0.01
    assert shrunk < 0.05  # almost nothing is left
    huge = (1000 * noise()).half()
    assert dead(experiments.norm_in_own_dtype(huge, larger)) == 1.0
    cancelled = (10_000 + noise(500)).float()
    with_larger = experiments.norm_with(reference.one_pass_var, cancelled, larger)
    assert with_larger.isnan().any()
    # What it does help: a constant vector, where a smaller one is 0 in float16.
    zeros = torch.zeros(1, 8).half()
    assert experiments.norm_in_own_dtype(zeros, 1e-8).isnan().all()
    assert not experiments.norm_in_own_dtype(zeros, larger).any()
    assert not F.layer_norm(zeros, (8,), eps=1e-12).any()  # nor is it needed: float32 inside


def test_c067_small_values_of_eps_are_zero_or_others_in_float16():
    in_half = [torch.tensor(eps).half().item() for eps in (1e-12, 1e-8, 1e-7, 1e-5)]
    assert in_half[:2] == [0, 0]
    assert in_half[2] > 1.1e-7 and 1e-5 < in_half[3] < 1.01e-5


def test_c068_scaling_first_is_exact_only_if_eps_is_scaled_along(scaled_eps=EPS / 64**2):
    for std in (100.0, 1.0, 0.01):
        x = std * noise()
        y = F.layer_norm(x, (512,), eps=EPS)
        assert (F.layer_norm(x / 64, (512,), eps=scaled_eps) - y).abs().max() < 1e-12
    assert (F.layer_norm(x / 64, (512,), eps=EPS) - y).abs().max() > 0.5  # std 0.01
    # It cures the overflow, and eps / s² is 0 in float16.
    huge = (1000 * noise()).half()
    cured = experiments.norm_in_own_dtype(huge / 64, scaled_eps)
    assert experiments.largest_error(cured, huge) < 0.01
    assert torch.tensor(scaled_eps).half() == 0


def test_c068_beyond_the_squares_of_float32_only_scaling_helps():
    x = 1e20 * noise()
    right = experiments.exact_norm(x)
    scaled = reference.prescaled_layer_norm(x.float(), EPS)
    assert (scaled.double() - right).abs().max() < 1e-5
    library = F.layer_norm(x.float(), (512,)).double()
    assert not (library - right).abs().max() < 0.5  # zeros or NaN


def casts(operator: str, device: str) -> bool:
    """Whether autocast has a rule for the operator on the device, by torch's own table."""
    return torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{operator}", f"Autocast{device}")


def test_c069_autocast_casts_norms_on_cuda_only_and_statistics_are_float32_anyway(
    norm=F.layer_norm,
):
    assert casts("linear", "CUDA") and casts("linear", "CPU")
    for operator in ("layer_norm", "group_norm"):
        assert casts(operator, "CUDA") and not casts(operator, "CPU")
    assert not casts("batch_norm", "CUDA") and not casts("batch_norm", "CPU")
    x = 30 * noise().float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert norm(x.bfloat16(), (512,)).dtype == torch.bfloat16
        assert norm(x, (512,)).dtype == torch.float32
        assert F.linear(x, torch.randn(4, 512)).dtype == torch.bfloat16
    # Its statistics are float32, whatever goes in: one rounding of the output is all that is lost.
    for dtype in (torch.bfloat16, torch.float16):
        half = (30 + 30 * noise()).to(dtype)
        y = norm(half, (512,)).double()
        right = experiments.exact_norm(half)
        # Half a gap, and a second rounding of less in one of the library's versions.
        assert ((y - right).abs() / right.abs().clamp(min=0.1)).max() < 1.1 * torch.finfo(dtype).eps


# -- with the effect off ---------------------------------------------------------------------------


def without_effect(claim, **changed):
    return lambda: claim(**changed)


@pytest.mark.parametrize(
    "claim",
    [
        without_effect(
            test_c062_a_norm_in_float16_returns_zeros_and_one_with_float32_inside_does_not,
            in_half=lambda x: F.layer_norm(x, x.shape[-1:]),
        ),
        without_effect(
            test_c065_one_pass_cancels_where_three_other_methods_do_not,
            one_pass=reference.two_pass_var,
        ),
        without_effect(
            test_c066_what_storing_lost_is_not_brought_back_by_double_precision,
            dtype=torch.float32,
        ),
        without_effect(
            test_c067_a_larger_eps_shrinks_small_vectors_and_does_nothing_against_overflow,
            larger=1e-6,
        ),
        without_effect(
            test_c068_scaling_first_is_exact_only_if_eps_is_scaled_along, scaled_eps=EPS
        ),
        without_effect(
            test_c069_autocast_casts_norms_on_cuda_only_and_statistics_are_float32_anyway,
            norm=lambda x, shape: F.layer_norm(x.float(), shape),
        ),
    ],
    ids=["C062", "C065", "C066", "C067", "C068", "C069"],
)
def test_c062_c065_c066_c067_c068_c069_the_tests_notice_when_the_effect_is_off(claim):
    notices(claim)
