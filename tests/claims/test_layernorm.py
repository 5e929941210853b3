"""The claims of the LayerNorm chapter, executed: each test fails if its effect is not there.

Closed forms are compared closely. Training runs assert an order with a wide margin, never a loss.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from book.experiments import layernorm as experiments
from solutions.layernorm import layernorm as reference


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def batch_norm(x: Tensor) -> Tensor:
    """Training-mode BatchNorm of (B, L, D), one mean and variance per feature."""
    return F.batch_norm(x.flatten(0, 1), None, None, training=True).view_as(x)


def largest(x: Tensor) -> float:
    return x.abs().max().item()


def listing(x: Tensor, eps: float) -> Tensor:
    """The wrong listing of C144: unbiased standard deviation, eps outside the root."""
    return (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + eps)


def outside(x: Tensor, eps: float) -> Tensor:
    return (x - x.mean(-1, keepdim=True)) / (x.std(-1, correction=0, keepdim=True) + eps)


def test_c001_c147_a_residual_network_needs_the_norm():
    for seed in range(2):
        for lr in (0.003, 0.03):
            settings = dict(layers=8, lr=lr, epochs=4, seed=seed, residual=True)
            _, without = experiments.train("none", **settings)
            _, with_norm = experiments.train("LayerNorm", **settings)
            assert not without[-1] < 2.0  # NaN, or still at chance, ln 10 = 2.3
            assert with_norm[-1] < 0.7


def test_c002_c040_c143_the_module_of_torch():
    module = nn.LayerNorm(64)
    assert (module.eps, module.normalized_shape) == (1e-5, (64,))
    assert {name: tuple(p.shape) for name, p in module.named_parameters()} == {
        "weight": (64,),
        "bias": (64,),
    }
    assert list(module.state_dict()) == ["weight", "bias"]
    assert not list(module.buffers())
    assert nn.LayerNorm(64, elementwise_affine=False).weight is None
    assert nn.LayerNorm(64, bias=False).bias is None
    with pytest.raises(RuntimeError, match="normalized_shape"):
        module(torch.randn(2, 10, 32))


def test_c003_c140_shapes():
    y, mean, rstd = torch.native_layer_norm(normal(4, 10, 8), [8], None, None, 1e-5)
    assert y.shape == (4, 10, 8)
    assert mean.shape == rstd.shape == (4, 10, 1)


def test_c017_the_sum_runs_over_all_features():
    x = normal(4, 8)  # B = 4, D = 8
    _, mean, _ = torch.native_layer_norm(x, [8], None, None, 1e-5)
    assert largest(mean[:, 0] - x.sum(1) / 8) < 1e-12
    assert largest(mean[:, 0] - x[:, :4].sum(1) / 8) > 0.1


def test_c018_c038_one_changed_number_moves_one_token():
    x = normal(4, 10, 8)
    changed = x.clone()
    changed[2, 3, 5] += 1.0
    moved = F.layer_norm(x, (8,)) != F.layer_norm(changed, (8,))
    assert moved[2, 3].all() and moved.sum() == 8
    moved = batch_norm(x) != batch_norm(changed)
    assert moved[..., 5].all() and moved.sum() == 40


def test_c019_c113_exact_independence():
    x = normal(4, 10, 8)
    module = nn.LayerNorm(8).double()
    y = module.train()(x)
    assert torch.equal(y[2:3], module(x[2:3]))  # the rest of the batch
    assert torch.equal(y[:, :4], module(x[:, :4]))  # the length
    assert torch.equal(y, module.eval()(x))  # the mode
    assert largest(batch_norm(x)[2:3] - batch_norm(x[2:3])) > 0.1  # BatchNorm: none of this
    bn = nn.BatchNorm1d(8).double()
    assert largest(bn.train()(x[0]) - bn.eval()(x[0])) > 0.1


@pytest.mark.parametrize("width", [2, 8, 64, 512])
@pytest.mark.parametrize("eps", [1e-5, 0.5])
def test_c025_c030_c039_c142_the_formula_is_what_torch_computes(width: int, eps: float):
    x, weight, bias = 3 + 2 * normal(20, width), 0.5 + normal(width).abs(), normal(width)
    wanted = F.layer_norm(x, (width,), weight, bias, eps)
    assert largest(reference.layer_norm(x, weight, bias, eps) - wanted) < 1e-12
    assert largest(weight * listing(x, eps) + bias - wanted) > 1e-3  # so the comparison can fail


def test_c026_gamma_and_beta_undo_batchnorm_but_not_layernorm():
    x = normal(2000, 16) * (0.5 + 4 * torch.rand(2000, 1, dtype=torch.float64))

    def error_after_best_affine(y: Tensor) -> float:
        centred = y - y.mean(0)
        gamma = (centred * x).sum(0) / centred.square().sum(0)
        return (gamma * centred + x.mean(0) - x).square().mean().sqrt().item()

    assert error_after_best_affine(F.batch_norm(x, None, None, training=True)) < 1e-10
    assert error_after_best_affine(F.layer_norm(x, (16,))) > 0.5


def test_c027_c029_unbiased_is_smaller_by_a_known_factor():
    for d in (2, 3, 8, 64, 512):
        x = normal(50, d)
        unbiased = (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True)
        ratio = unbiased / F.layer_norm(x, (d,), eps=0.0)
        assert largest(ratio - math.sqrt((d - 1) / d)) < 1e-9
    draws = 2 * normal(200_000, 5)  # true mean 0, true variance 4
    own = draws - draws.mean(1, keepdim=True)
    assert draws.square().mean().item() == pytest.approx(4.0, abs=0.05)
    assert own.square().mean().item() == pytest.approx(3.2, abs=0.05)
    assert (own.square().sum(1) / 4).mean().item() == pytest.approx(4.0, abs=0.05)


def test_c028_c141_eps_shrinks_small_inputs():
    x = F.layer_norm(normal(64), (64,), eps=0.0)  # standard deviation exactly 1
    for scale in (1.0, 1e-2, 1e-3, 1e-4):
        for eps in (1e-6, 1e-5, 1e-3):
            std = F.layer_norm(x * scale, (64,), eps=eps).std(correction=0).item()
            assert std == pytest.approx(scale / math.sqrt(scale**2 + eps), rel=1e-6)
            assert std < 1.0
    assert torch.tensor(1e-8).half() == 0 and torch.tensor(1e-12).half() == 0
    assert torch.tensor(1e-5).half() > 0


def test_c032_c112_another_axis_is_another_method():
    x = normal(8, 8, 8)  # equal sizes: no shape error can save you
    right = F.layer_norm(x, (8,))
    assert largest(right.mean(-1)) < 1e-12
    for axis in (0, 1):
        wrong = F.layer_norm(x.transpose(axis, -1), (8,)).transpose(axis, -1)
        assert wrong.shape == right.shape
        assert largest(wrong - right) > 0.5 and largest(wrong.mean(-1)) > 0.1


def test_c036_sum_backward_and_randn_prove_nothing():
    x = normal(10, 8).requires_grad_()
    for norm in (lambda v: F.layer_norm(v, (8,)), lambda v: listing(v, 1e-5)):
        (grad,) = torch.autograd.grad(norm(x).sum(), x)
        assert largest(grad) < 1e-12  # right and wrong version alike
        (grad,) = torch.autograd.grad(norm(x), x, normal(10, 8))
        assert largest(grad) > 0.1
    wide = normal(10, 512)  # a wide standard normal input with a loose tolerance hides the mistake
    assert torch.allclose(listing(wide, 1e-5), F.layer_norm(wide, (512,)), atol=1e-2)
    assert not torch.allclose(listing(x, 1e-5), F.layer_norm(x, (8,)), atol=1e-2)


def test_c041_batchnorm_also_pools_positions():
    x = normal(3, 4, 6, 6)
    y = F.batch_norm(x, None, None, training=True)
    assert largest(y.mean((0, 2, 3))) < 1e-12  # over N, H and W together
    assert largest(y.mean(0)) > 0.1  # not over N alone


def test_c042_batchnorm_takes_any_image_size():
    bn = nn.BatchNorm2d(4)
    for size in (8, 12):
        y = bn(torch.randn(5, 4, size, size))
        assert y.shape == (5, 4, size, size) and largest(y.mean((0, 2, 3))) < 1e-5


def test_c073_the_library_runs_one_operator():
    x, weight, bias = torch.randn(64, 512), torch.ones(512), torch.zeros(512)
    with experiments.OperatorCount() as readable:
        reference.layer_norm(x, weight, bias, 1e-5)
    with experiments.OperatorCount() as library:
        F.layer_norm(x, (512,), weight, bias)
    assert library.names.total() == 1
    assert readable.names.total() >= 5


def test_c122_groupnorm_with_one_group_has_fewer_parameters():
    x = normal(2, 6, 5, 5)
    whole = F.layer_norm(x, (6, 5, 5))
    assert largest(whole - F.group_norm(x, 1)) < 1e-12
    per_pixel = F.layer_norm(x.movedim(1, -1), (6,)).movedim(-1, 1)
    assert largest(whole - per_pixel) > 0.5
    assert sum(p.numel() for p in nn.LayerNorm((6, 5, 5)).parameters()) == 300
    assert sum(p.numel() for p in nn.GroupNorm(1, 6).parameters()) == 12


def test_c131_over_the_sentence_the_future_leaks():
    x = normal(4, 10, 8)
    changed = x.clone()
    changed[:, -1] += normal(4, 8)
    earlier = slice(None), slice(0, -1)
    assert torch.equal(F.layer_norm(x, (8,))[earlier], F.layer_norm(changed, (8,))[earlier])
    leak = F.layer_norm(x, (10, 8)) - F.layer_norm(changed, (10, 8))
    assert largest(leak[earlier]) > 0.05


def test_c134_c139_blocks_see_one_while_the_stream_grows():
    without, _ = experiments.residual_stream(depth=24, width=128, norm=False)
    with_norm, seen = experiments.residual_stream(depth=24, width=128, norm=True)
    assert all(0.99 < value <= 1.0 for value in seen)
    assert 20 < with_norm[24] < 100  # grows, about in proportion to the depth
    assert 1.3 < with_norm[24] / with_norm[12] < 2.5
    assert without[24] > 1e9 and without[24] / without[12] > 1e4  # grows exponentially


def test_c135_the_gain_depends_on_the_network():
    def last(norm: str, lr: float, residual: bool) -> float:
        runs = [
            experiments.train(norm, layers=8, lr=lr, epochs=6, seed=s, residual=residual)[1][-1]
            for s in range(3)
        ]
        return sum(runs) / 3

    plain, plain_norm = last("none", 0.01, False), last("LayerNorm", 0.01, False)
    assert 0.5 < plain_norm / plain < 2.0  # well initialised plain stack: no difference to speak of
    best_without = last("none", 1e-4, True)
    assert last("LayerNorm", 0.01, True) < best_without / 2  # residual: a larger rate is usable
    assert not last("none", 0.01, True) < 2.0


def test_c136_robust_to_contrast_where_batchnorm_is_not():
    low = [0.1]
    mean = {
        norm: sum(experiments.contrast_accuracy(norm, low, seed=s)[0] for s in range(3)) / 3
        for norm in ("none", "LayerNorm", "BatchNorm")
    }
    assert mean["LayerNorm"] > mean["none"] + 0.02
    assert mean["BatchNorm"] < mean["none"] - 0.2


@pytest.mark.parametrize("width", [2, 8])
def test_c144_unbiased_and_outside_differ_from_layer_norm(width: int):
    x = normal(200, width)
    assert largest(listing(x, 1e-6) - F.layer_norm(x, (width,), eps=1e-6)) > 0.1
    tiny = x * 1e-4
    assert largest(listing(tiny, 1e-6) - F.layer_norm(tiny, (width,), eps=1e-6)) > 0.5
    with pytest.warns(UserWarning, match="degrees of freedom"):
        assert listing(normal(3, 1), 1e-6).isnan().all()
    assert torch.equal(F.layer_norm(normal(3, 1), (1,)), torch.zeros(3, 1).double())
    constant = torch.full((width,), 3.0, dtype=torch.float64, requires_grad=True)
    upstream = torch.arange(width, dtype=torch.float64)
    for eps in (1e-5, 1e-6):
        outputs = F.layer_norm(constant, (width,), eps=eps), outside(constant, eps)
        inner, outer = (torch.autograd.grad(y, constant, upstream)[0] for y in outputs)
        assert largest(outer) / largest(inner) == pytest.approx(eps**-0.5, rel=1e-6)


def test_c148_blind_to_tokens_not_to_features():
    x = normal(4, 10, 8)

    def change(other: Tensor) -> float:
        return largest(F.layer_norm(x, (8,), eps=0.0) - F.layer_norm(other, (8,), eps=0.0))

    factor = 0.1 + torch.rand(4, 10, 1, dtype=torch.float64)
    assert change(x * factor) < 1e-12
    assert change(x + normal(4, 10, 1)) < 1e-12
    assert change(x + normal(8)) > 0.5
    assert change(x * (0.1 + torch.rand(8, dtype=torch.float64))) > 0.5


def test_c177_c179_c180_rows_and_columns():
    table = torch.tensor(
        [[7.0, 5, 4], [2, 3, 4], [1, 6, 2], [7, 0, 5], [3, 3, 9]], dtype=torch.float64
    )
    weight, bias = torch.tensor([1.0, 2, 3]).double(), torch.tensor([0.0, 10, 20]).double()
    ln, bn = F.layer_norm(table, (3,)), F.batch_norm(table, None, None, training=True)
    assert largest(ln.mean(1)) < 1e-12 and largest(ln.mean(0)) > 0.05
    assert largest(bn.mean(0)) < 1e-12 and largest(bn.mean(1)) > 0.05
    assert largest(F.layer_norm(table, (3,), weight, bias) - (ln * weight + bias)) < 1e-12


def test_c178_the_parentheses_matter():
    row = torch.tensor([7.0, 5.0, 4.0], dtype=torch.float64)
    mu, sigma = row.mean(), row.std(correction=0)
    assert F.layer_norm(row, (3,), eps=0.0)[0].item() == pytest.approx(1.336, abs=1e-3)
    assert ((7 - mu) / sigma).item() == pytest.approx(1.336, abs=1e-3)
    assert (7 - mu / sigma).item() == pytest.approx(2.724, abs=1e-3)


def test_c181_order_does_not_matter():
    x, order = normal(4, 10, 8), torch.randperm(10)
    assert torch.equal(F.layer_norm(x, (8,))[:, order], F.layer_norm(x[:, order], (8,)))


def test_c182_padding_leaves_real_tokens_alone():
    x = 1 + normal(2, 4, 8)
    padded = torch.cat([x, torch.zeros(2, 3, 8, dtype=torch.float64)], dim=1)
    bias = normal(8)
    y = F.layer_norm(padded, (8,), None, bias)
    assert torch.equal(y[:, :4], F.layer_norm(x, (8,), None, bias))
    assert torch.equal(y[:, 4:], bias.expand(2, 3, 8))
    assert largest(batch_norm(padded)[:, :4] - batch_norm(x)) > 0.1
    zero = torch.zeros(8, dtype=torch.float64, requires_grad=True)
    upstream = torch.arange(8, dtype=torch.float64)
    (grad,) = torch.autograd.grad(F.layer_norm(zero, (8,), eps=1e-6), zero, upstream)
    assert largest(grad) == pytest.approx(largest(upstream - upstream.mean()) * 1e3, rel=1e-6)


def test_n22_the_backward_of_the_variance_matters():
    def losses(norm: str) -> list[float]:
        return [
            experiments.train(norm, layers=8, lr=0.01, epochs=12, seed=s)[1][-1] for s in range(4)
        ]

    normal_runs, stopped = losses("LayerNorm"), losses("variance stopped")
    both = losses("both stopped")
    assert max(normal_runs) * 1.5 < min(stopped)
    assert max(normal_runs) * 1.5 < min(both)


def test_n22_only_the_backward_pass_differs():
    x = normal(5, 8).float()
    stopped = experiments.StoppedLayerNorm(8, stop_mean=True, stop_var=True)
    assert largest(stopped(x) - F.layer_norm(x, (8,))) < 1e-5
