"""The fused norms are right on the inputs that broke others: values, gradients, every dtype.

All of it runs under the kernel sanitizer: no stray access, no race, no int32 overflow, no bfloat16
arithmetic, and memory that nobody wrote is NaN. Each test names the report that it comes from.
"""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton", reason="Triton has packages for Linux only")

from kernel_sanitizer import sanitizer
from solutions.triton_kernels import fused
from solutions.triton_kernels.fused import forward, norm
from solutions.triton_kernels.fused.launch import Tile
from tests.fused_reference import CLOSE, NORMS, check, distance, draw, expected, results

DTYPES = (torch.float32, torch.float16, torch.bfloat16)


pytestmark = pytest.mark.usefixtures("sanitizer_for_all")


@pytest.fixture(autouse=True)
def _watched(sanitizer_for_all):
    with sanitizer.watching():
        yield


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", NORMS)
@pytest.mark.parametrize("width", [8, 64, 300, 1000, 2048])
def test_values_and_gradients_agree_with_float64(kind, width, dtype):
    check(kind, draw(5, width, dtype, mean=0.5))


@pytest.mark.parametrize("kind", ["layer", "add layer"])
@pytest.mark.parametrize("width", [769, 1000, 1023, 1025, 1500])
def test_lanes_past_the_end_of_a_ragged_row_stay_out_of_the_variance(kind, width):
    """linkedin/Liger-Kernel#518 and #582; QuACK commit 9310d47 (D = 769, x near 1000)."""
    check(kind, draw(3, width, mean=3.0))


@pytest.mark.parametrize(
    ("mean", "spread", "close"), [(100, 1, 1e-4), (100, 0.01, 5e-3), (1e4, 1, 5e-3)]
)
@pytest.mark.parametrize("kind", ["layer", "add layer"])
def test_a_large_mean_does_not_cancel_the_variance(kind, mean, spread, close):
    """pytorch/pytorch#51102, #40308, #59987: the mean of squares less the square of the mean."""
    given = draw(3, 1000)
    given["residual"] *= 0.0
    given["x"] = given["x"] * spread + mean
    check(kind, given, close)


def test_statistics_are_float32_whatever_x_is():
    """Liger-Kernel's layer_norm keeps them in x's dtype; noted in pytorch/pytorch#166005."""
    given = draw(4, 1000, torch.bfloat16, mean=100.0)
    _, mean, rstd = fused.layer_norm_forward(given["x"], given["weight"], given["bias"])
    assert mean.dtype == rstd.dtype == torch.float32
    assert distance(mean, given["x"].double().mean(1)) < 1e-6
    check("layer", given)


@pytest.mark.parametrize("kind", NORMS)
def test_weight_gradients_of_many_bfloat16_rows_are_summed_in_float32(kind):
    """linkedin/Liger-Kernel#950, pytorch/pytorch#189581: a bfloat16 sum stops growing at 256."""
    given = draw(700, 16, torch.bfloat16)
    given["dy"] = given["dy"].abs() + 1
    check(kind, given)


@pytest.mark.parametrize("kind", NORMS)
@pytest.mark.parametrize("size", [1000.0, 6e4])
def test_squares_of_large_float16_do_not_overflow(kind, size):
    """pytorch/pytorch#133085, xlite-dev/LeetCUDA#335: 300 squared is past float16's end."""
    given = draw(3, 500, torch.float16)
    given["x"] = torch.where(given["x"] > 0, size, -size).half()
    given["residual"] *= 0.001
    check(kind, given)


@pytest.mark.parametrize("kind", NORMS)
def test_float32_far_from_one_is_normalized(kind):
    """pytorch/pytorch#178123. By contract the squares of a row must fit: to 1e18 or so they do."""
    given = draw(3, 500)
    given["x"] *= 1e16
    given["ds"] *= 1e-16
    got, want = results(kind, given), expected(kind, given)
    assert all(distance(got[name], want[name]) < 3e-6 for name in want)


@pytest.mark.parametrize("kind", NORMS)
@pytest.mark.parametrize(("spread", "eps"), [(1e-3, 1e-5), (1.0, 0.1)])
def test_eps_is_inside_the_root(kind, spread, eps):
    given = draw(3, 500)
    given["x"] *= spread
    given["residual"] *= spread
    check(kind, given, eps=eps)


@pytest.mark.parametrize("kind", NORMS)
def test_the_variance_divides_by_d(kind):
    check(kind, draw(4, 8))


@pytest.mark.parametrize("kind", NORMS)
@pytest.mark.parametrize("value", [0.0, 7.0])
def test_constant_rows_stay_finite(kind, value):
    given = draw(2, 70)
    given["x"], given["residual"] = torch.full((2, 70), value), torch.zeros(2, 70)
    got = results(kind, given)
    assert all(t.isfinite().all() for t in got.values())
    if kind.endswith("layer"):
        assert distance(got["y"], given["bias"].double().expand(2, 70)) < 1e-6


@pytest.mark.parametrize("kind", ["layer", "add layer"])
def test_a_row_of_one_element_gives_the_bias_and_no_gradient(kind):
    """pytorch/pytorch#188372: true gradients are 0, so they are compared absolutely."""
    given = draw(5, 1)
    got = results(kind, given)
    assert torch.equal(got["y"], given["bias"].expand(5, 1))
    passed = given["ds"] if kind == "add layer" else torch.zeros(5, 1)
    assert torch.equal(got["dx"], passed)
    assert torch.equal(got["dweight"], torch.zeros(1))


@pytest.mark.parametrize("kind", NORMS)
@pytest.mark.parametrize("value", [0.0, 1e-8])
def test_a_weight_of_zero_loses_nothing(kind, value):
    """ServiceNow/Fast-LLM#220: x-hat was computed back from y / weight."""
    given = draw(3, 100)
    given["weight"][::2] = value
    check(kind, given)


@pytest.mark.parametrize("kind", NORMS)
@pytest.mark.parametrize("weight", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_weight_and_bias_are_each_optional(kind, weight, bias):
    """pytorch/pytorch#69208, NVIDIA/apex#403."""
    given = draw(4, 100)
    given["weight"] = given["weight"] if weight else None
    given["bias"] = given["bias"] if bias else None
    check(kind, given)


@pytest.mark.parametrize("kind", NORMS)
def test_the_weight_may_have_another_dtype_than_x(kind):
    """vllm-project/vllm#42379. Here the weight multiplies in float32, before y is rounded."""
    given = draw(4, 100, torch.bfloat16)
    given["weight"], given["bias"] = given["weight"].float() + 1e-4, given["bias"].half()
    got = check(kind, given)
    assert got["y"].dtype == torch.bfloat16
    assert got["dweight"].dtype == torch.float32
    if kind.endswith("layer"):
        assert got["dbias"].dtype == torch.float16


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", NORMS)
def test_no_rows_give_an_empty_result_and_zero_gradients(kind, dtype):
    """QuACK commit d99232e: gradients were uninitialized memory."""
    got = results(kind, draw(0, 40, dtype))
    assert got["y"].shape == got["dx"].shape == (0, 40)
    assert torch.equal(got["dweight"], torch.zeros(40, dtype=dtype))
    if kind.endswith("layer"):
        assert torch.equal(got["dbias"], torch.zeros(40, dtype=dtype))


@pytest.mark.parametrize("kind", NORMS)
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 67, 130])
def test_any_number_of_rows_is_summed_whole(kind, rows):
    """attorch#18 (rows left over by the block), flash-attention#781 (fewer rows than programs)."""
    check(kind, draw(rows, 40))


@pytest.mark.parametrize("rms", [False, True])
def test_a_program_without_a_row_stores_zeros(rms, monkeypatch):
    """Dao-AILab/flash-attention#781: it returned early, and its part was never written."""
    monkeypatch.setattr(norm, "programs_for", lambda *_: 7)
    check("rms" if rms else "layer", draw(2, 1500))


def test_more_than_65536_rows_lie_on_grid_axis_0(monkeypatch):
    """NVIDIA/apex#411: rows on axis 1, which ends at 65535."""
    tall = Tile(rows=4096, block=16, warps=4)  # the interpreter pays by the program
    with monkeypatch.context() as patch:
        patch.setattr(forward, "forward_tile", lambda _: tall)
        patch.setattr(norm, "backward_tile", lambda *_: tall)
        check("layer", draw(65_600, 12), 1e-5)
    x, statistic = torch.empty(70_000, 2048, device="meta"), torch.empty(70_000, device="meta")
    wanted = {"rms": True, "dweight_dtype": x.dtype, "dbias_dtype": None}
    _, (first,) = norm.plan_forward(x, None, None, None, 1e-5, rms=True)
    _, (second, _) = norm.plan_backward(x, None, x, None, None, statistic, **wanted)
    assert first.grid == (70_000,)
    assert len(second.grid) == 1


@pytest.mark.parametrize("kind", NORMS)
@pytest.mark.parametrize("width", [9000, 16_500, 40_000])
def test_long_rows_take_their_own_paths(kind, width):
    """9000: backward reads x again; 16500: backward in pieces; 40000: both in pieces."""
    check(kind, draw(2, width, mean=3.0))


@pytest.mark.parametrize("kind", ["layer", "add layer"])
def test_a_long_row_with_a_large_mean_does_not_cancel(kind):
    given = draw(1, 33_000)
    given["residual"] *= 0.0
    given["x"] = given["x"] * 0.01 + 100
    check(kind, given, 5e-3)


def test_statistics_of_a_residual_add_are_of_the_sum_before_it_is_rounded():
    """As flash-attention and QuACK; Liger-Kernel takes the rounded sum. In bfloat16 they differ."""
    given = draw(4, 500, torch.bfloat16)
    given["residual"] *= 20
    _, s, mean, rstd = fused.add_layer_norm_forward(given["x"], given["residual"], None, None)
    exact = given["x"].double() + given["residual"].double()
    assert torch.equal(s, exact.to(torch.bfloat16))
    want = torch.rsqrt(exact.var(1, correction=0) + 1e-5)
    assert distance(mean, exact.mean(1)) < 1e-6
    assert distance(rstd, want) < 1e-6
    assert distance(rstd, torch.rsqrt(s.double().var(1, correction=0) + 1e-5)) > 1e-6


def test_equal_inputs_give_equal_bits():
    given = draw(50, 300, torch.bfloat16)
    first, second = (results("layer", given) for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)


# Would these tests notice? Wrong kernels, as people have written them, on the inputs used above.

WRONG = {
    "padding in the variance": lambda x, eps: _from(
        x, (((x - x.mean(1, keepdim=True)) ** 2).sum(1) + 24 * x.mean(1) ** 2) / x.shape[1], eps
    ),
    "divided by D - 1": lambda x, eps: _from(x, x.var(1), eps),
    "eps outside the root": lambda x, eps: (x - x.mean(1, keepdim=True)) / (
        x.var(1, correction=0, keepdim=True).sqrt() + eps
    ),
    "one pass": lambda x, eps: _from(
        x, (x.float() ** 2).mean(1) - x.float().mean(1) ** 2, eps
    ),
    "bfloat16 statistics": lambda x, eps: (x - x.mean(1, keepdim=True).bfloat16()) * torch.rsqrt(
        x.var(1, correction=0, keepdim=True) + eps
    ).bfloat16(),
}  # fmt: skip


def _from(x, variance, eps):
    return (x - x.mean(1, keepdim=True)) * torch.rsqrt(variance.double() + eps)[:, None]


@pytest.mark.parametrize(
    ("mistake", "mean", "spread", "width", "bound"),
    [
        ("padding in the variance", 3.0, 1.0, 1000, CLOSE[torch.float32]),
        ("divided by D - 1", 0.0, 1.0, 8, CLOSE[torch.float32]),
        ("eps outside the root", 0.0, 1e-3, 500, CLOSE[torch.float32]),
        ("one pass", 100.0, 0.01, 1000, 5e-3),
        ("one pass", 1e4, 1.0, 1000, 5e-3),
        ("bfloat16 statistics", 100.0, 1.0, 1000, 1e-4),
    ],
)
def test_the_bounds_of_these_tests_reject_a_known_mistake(mistake, mean, spread, width, bound):
    x = draw(4, width)["x"] * spread + mean
    want = expected("layer", draw(4, width) | {"x": x, "weight": None, "bias": None})["y"]
    assert distance(WRONG[mistake](x.double(), 1e-5), want) > 2 * bound
