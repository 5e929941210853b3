"""The claims of the BatchNorm chapter, executed: each test fails if its effect is not there.

Closed forms are compared closely. Training runs assert an order with a wide margin, never a loss.
"""

from __future__ import annotations

import json
import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from book.experiments import batchnorm as experiments
from book.experiments import batchnorm_batch_size as batch_size
from book.experiments.layernorm import OperatorCount
from solutions.batchnorm import batchnorm as reference


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def norm(x: Tensor, eps: float = 1e-5) -> Tensor:
    return F.batch_norm(x, None, None, training=True, eps=eps)


def largest(x: Tensor) -> float:
    return x.abs().max().item()


def skewness(x: Tensor) -> Tensor:
    return ((x - x.mean(0)) / x.std(0)).pow(3).mean(0)


# -- what is computed ----------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(8, 3), (8, 3, 5), (8, 3, 4, 6), (2, 3, 2, 3, 4)], ids=str)
def test_c012_c013_c090_statistics_over_every_axis_but_the_channels(shape):
    x = 3 + 2 * normal(*shape)
    dims = [d for d in range(x.dim()) if d != 1]
    mean, var = x.mean(dims, keepdim=True), x.var(dims, correction=0, keepdim=True)
    assert largest((x - mean) / (var + 1e-5).sqrt() - norm(x)) < 1e-12
    if x.dim() > 2:  # over the batch alone it is another method
        mean, var = x.mean(0), x.var(0, correction=0)
        assert largest((x - mean) / (var + 1e-5).sqrt() - norm(x)) > 0.1


def test_c012_the_biased_variance_normalizes_and_the_unbiased_one_is_stored():
    x, layer = normal(4, 3), nn.BatchNorm1d(3, momentum=1.0, eps=1e-30).double()
    assert largest(layer(x).var(0, correction=0) - 1) < 1e-12
    assert largest(layer.running_var - x.var(0)) < 1e-12
    assert largest(layer.running_var - x.var(0, correction=0)) > 0.01


def test_c088_c162_mean_and_variance_are_set_and_nothing_else():
    x = 5 + 3 * normal(1000, 4).exp()
    y = norm(x)
    assert largest(y.mean(0)) < 1e-12
    var = x.var(0, correction=0)
    assert largest(y.var(0, correction=0) - var / (var + 1e-5)) < 1e-12
    assert largest(skewness(y) - skewness(x)) < 1e-9 and skewness(y).min() > 1.0


def test_c089_gamma_and_beta_can_undo_it_and_the_shape_stays():
    x = 5 + 3 * normal(1000, 4).exp()
    layer = nn.BatchNorm1d(4).double()
    with torch.no_grad():
        layer.weight.copy_((x.var(0, correction=0) + 1e-5).sqrt())
        layer.bias.copy_(x.mean(0))
    assert largest(layer(x) - x) < 1e-10
    assert largest(skewness(norm(x)) - skewness(x)) < 1e-9
    assert norm(x).max() > 1.0  # no interval (0, 1)


def test_c087_whitening_needs_all_pairs_of_channels():
    mixed = normal(4000, 3) @ normal(3, 3)
    correlation = torch.corrcoef(mixed.T) - torch.eye(3)
    assert largest(torch.corrcoef(norm(mixed).T) - torch.eye(3)) == pytest.approx(
        largest(correlation), abs=1e-4
    )  # each channel by itself leaves the correlations as they are
    assert largest(correlation) > 0.1
    values, vectors = torch.linalg.eigh(torch.cov(mixed.T))
    white = (mixed - mixed.mean(0)) @ vectors / values.sqrt()
    assert largest(torch.corrcoef(white.T) - torch.eye(3)) < 1e-9


def test_c164_c165_five_rows_by_hand():
    f = torch.tensor([[1.0, 2], [2, 1], [3, 0], [4, 3], [5, 4]])
    z = f @ torch.tensor([[1.0, 1, 2], [1, -1, 0]])
    layer = nn.BatchNorm1d(3)
    last = layer(z)[4]
    assert last.tolist() == pytest.approx([1.581, 0, 1.414], abs=1e-3)
    assert layer.running_mean.tolist() == pytest.approx([0.5, 0.1, 0.6])
    assert layer.running_var.tolist() == pytest.approx([1.7, 1.1, 1.9])
    assert layer.weight.tolist() == [1, 1, 1] and layer.bias.tolist() == [0, 0, 0]


def test_c092_the_closed_form_of_the_backward_pass_is_that_of_autograd():
    x, weight, g = 2 + 3 * normal(6, 3, 4, 4), 0.5 + torch.rand(3).double(), normal(6, 3, 4, 4)
    leaves = [x.clone().requires_grad_(), weight.clone().requires_grad_()]
    y = F.batch_norm(leaves[0], None, None, leaves[1], None, training=True, eps=0.3)
    wanted = torch.autograd.grad(y, leaves, g)
    got = reference.batch_norm_backward(g, x, weight, 0.3)
    assert largest(got[0] - wanted[0]) < 1e-12 and largest(got[1] - wanted[1]) < 1e-11
    detached = g * (weight / (x.var((0, 2, 3), correction=0) + 0.3).sqrt())[:, None, None]
    assert largest(detached - wanted[0]) > 0.01  # mean and variance are no constants


def test_c166_a_bias_before_it_has_no_effect():
    h, bias = normal(32, 4), torch.tensor([5.0, -3, 100, 0.1]).double()
    assert largest(norm(h + bias) - norm(h)) < 1e-11
    assert largest(norm(torch.relu(h + bias)) - norm(torch.relu(h))) > 0.1


# -- two modes -----------------------------------------------------------------------------------


def test_c043_c093_in_evaluation_the_neighbours_do_not_matter():
    layer = nn.BatchNorm1d(4).double()
    layer(3 + 2 * normal(64, 4))
    image, one, other = normal(1, 4), normal(7, 4), normal(7, 4)
    for training, moves in ((True, True), (False, False)):
        layer.train(training)
        a, b = (layer(torch.cat([image, rest]))[0] for rest in (one, other))
        assert (largest(a - b) > 0.1) == moves
    ln = nn.LayerNorm(4).double()
    assert torch.equal(ln.train()(one), ln.eval()(one))


def test_c094_the_average_over_all_batches_estimates_mean_and_variance():
    batches = 3 + 2 * normal(4000, 5)  # 4000 batches of five
    assert batches.mean(1).mean().item() == pytest.approx(3, abs=0.05)
    biased = batches.var(1, correction=0).mean().item()
    assert biased == pytest.approx(4 * 4 / 5, abs=0.1)
    assert 5 / 4 * biased == pytest.approx(4, abs=0.1)


def test_c095_momentum_weights_the_new_value_and_the_average_lags():
    layer = nn.BatchNorm1d(3, momentum=0.25).double()
    layer(torch.full((2, 3), 8.0).double())
    assert layer.running_mean.tolist() == [2, 2, 2]
    for seed in range(2):
        (early, late) = experiments.lag(0.01, [10, 100], seed=seed)
        assert early[0] < early[1] - 0.2  # the running statistics are far behind
        assert late[0] > early[0] + 0.3
        (plain,) = experiments.lag(None, [10], seed=seed)
        assert plain[0] > early[0] + 0.2


# -- batch size ----------------------------------------------------------------------------------


def test_c021_c121_a_small_batch_knows_its_statistics_badly():
    for size in (2, 4, 16, 64):
        draws = normal(20000, size)
        assert draws.mean(1).std().item() == pytest.approx(size**-0.5, rel=0.05)
        var = draws.var(1, correction=0).mean().item()
        assert var == pytest.approx(1 - 1 / size, rel=0.05)
    assert largest(norm(normal(2, 50), eps=1e-30).abs() - 1) < 1e-9  # two rows: plus or minus 1
    with pytest.raises(ValueError, match="more than 1 value"):
        nn.BatchNorm1d(3)(torch.randn(1, 3))
    assert nn.BatchNorm2d(3)(torch.randn(1, 3, 4, 4)).shape == (1, 3, 4, 4)


def test_c014_c021_tiny_batches_hurt_a_plain_network_and_not_a_convolutional_one():
    for seed in range(2):
        small, large = (batch_size.run("mlp, BatchNorm", b, seed, epochs=2) for b in (2, 64))
        assert small[0] < large[0] - 0.25
        assert batch_size.run("mlp, LayerNorm", 2, seed, epochs=2)[0] > small[0] + 0.25
        assert batch_size.run("cnn, BatchNorm", 2, seed, epochs=1)[0] > small[0] + 0.25
    assert batch_size.run("mlp, BatchNorm", 1, 0, epochs=0.01) is None


def test_c014_the_recorded_runs_say_the_same():
    results = json.loads(batch_size.RECORD.read_text(encoding="utf-8"))["results"]
    assert results["mlp, BatchNorm"]["1"] == [None] * 3

    def mean(model: str, size: int) -> float:
        return sum(running for running, _ in results[model][str(size)]) / 3

    assert mean("mlp, BatchNorm", 2) < 0.7 < 0.9 < mean("mlp, BatchNorm", 16)
    assert min(mean("cnn, BatchNorm", size) for size in batch_size.SIZES) > 0.9
    assert min(mean("mlp, LayerNorm", size) for size in batch_size.SIZES) > 0.9


def test_n25_moments_of_parts_give_those_of_the_whole_and_corrections_those_of_evaluation():
    parts = [10 * torch.rand(1).double() + normal(2, 3) for _ in range(8)]
    whole = torch.cat(parts)
    means = torch.stack([p.mean(0) for p in parts])
    within = torch.stack([p.var(0, correction=0) for p in parts])
    pooled = (within + (means - whole.mean(0)) ** 2).mean(0)
    assert largest(pooled - whole.var(0, correction=0)) < 1e-12
    assert (within.mean(0) < 0.5 * pooled).all()
    x, mean, var = normal(4, 3), normal(3), 1 + torch.rand(3).double()
    evaluated = F.batch_norm(x, mean, var, training=False)
    free = experiments.batch_renorm(x, mean, var, r_max=1e9, d_max=1e9, eps=1e-5)
    bound = experiments.batch_renorm(x, mean, var, r_max=1.0, d_max=0.0, eps=1e-5)
    assert largest(free - evaluated) < 1e-12 and largest(bound - norm(x)) < 1e-12
    assert largest(evaluated - norm(x)) > 0.1


# -- what it does to training --------------------------------------------------------------------


def test_c015_it_learns_faster_at_the_same_rate():
    for seed in range(2):
        losses = {}
        for name in ("none", "BatchNorm"):
            torch.manual_seed(seed)
            model = experiments.mlp(name, 8)
            run = experiments.fit(model, lr=0.1, batch=64, steps=80, seed=seed)
            losses[name] = sum(run[-20:]) / 20
        assert losses["BatchNorm"] < losses["none"] / 2


def test_n23_the_scale_of_the_weights_sets_the_effective_learning_rate():
    x, target, weights = normal(64, 20), normal(64, 5), normal(20, 5)
    found = []
    for factor in (1.0, 10.0):
        w = (factor * weights).requires_grad_()
        loss = F.mse_loss(norm(x @ w, eps=1e-30), target)
        (g,) = torch.autograd.grad(loss, w)
        assert abs((g * w).sum().item()) < 1e-12
        found.append((loss.item(), g.norm().item()))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-9)
    assert found[0][1] == pytest.approx(10 * found[1][1], rel=1e-9)
    free, held = experiments.weight_norms(0.0), experiments.weight_norms(0.01)
    assert free[0][-1] > free[0][0] and held[0][-1] < held[0][0] / 2
    assert free[1][-1] < held[1][-1] / 2  # longer weights are turned less


# -- folding -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["linear", "conv"])
def test_c023_n19_folded_away_it_costs_nothing(kind):
    if kind == "linear":
        layer, bn, x = nn.Linear(20, 30), nn.BatchNorm1d(30), normal(64, 20)
        fuse = nn.utils.fusion.fuse_linear_bn_eval
    else:
        layer, bn, x = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), normal(16, 3, 9, 9)
        fuse = nn.utils.fusion.fuse_conv_bn_eval
    layer, bn = layer.double(), bn.double()
    nn.init.uniform_(bn.weight, 0.5, 2)
    for _ in range(10):
        bn(layer(2 + x))
    layer, bn = layer.eval(), bn.eval()
    wanted = bn(layer(x))
    statistics = bn.running_mean, bn.running_var, bn.weight, bn.bias, bn.eps
    weight, bias = reference.fold_batch_norm(layer.weight, layer.bias, *statistics)
    ours = F.linear(x, weight, bias) if kind == "linear" else F.conv2d(x, weight, bias)
    assert largest(ours - wanted) < 1e-12 and largest(fuse(layer, bn)(x) - wanted) < 1e-12
    assert largest(layer(x) - wanted) > 0.1
    counts = []
    for run in (layer, fuse(layer, bn), lambda x: bn(layer(x))):
        with OperatorCount() as count, torch.no_grad():
            run(x)
        counts.append(count.names)
    assert counts[0] == counts[1] and counts[2].total() > counts[0].total()


def test_c016_a_vgg_block_without_and_with_batchnorm():
    def block(batch_norm: bool) -> nn.Sequential:
        parts: list[nn.Module] = []
        for inside, outside in ((3, 64), (64, 64)):
            parts.append(nn.Conv2d(inside, outside, 3, padding=1))
            parts += [nn.BatchNorm2d(outside)] if batch_norm else []
            parts.append(nn.ReLU())
        return nn.Sequential(*parts, nn.MaxPool2d(2))

    counts = [sum(isinstance(m, nn.BatchNorm2d) for m in block(b)) for b in (False, True)]
    assert counts == [0, 2]


# -- effects that the page shows beside the claims ------------------------------------------------


def test_c166_c095_dropout_before_it_leaves_a_wrong_variance():
    for p in (0.1, 0.5):
        seen, real, std = experiments.after_dropout(p)
        second = 0.5  # the mean square of relu(z), z standard normal
        mean = 1 / math.sqrt(2 * math.pi)
        assert seen == pytest.approx(second / (1 - p) - mean**2, rel=0.02)
        assert std == pytest.approx(math.sqrt(real / seen), rel=0.01) and std < 0.95


def test_c015_n23_deep_plain_networks_get_exploding_gradients():
    first, last = experiments.first_and_last_gradient("BatchNorm", 40)
    assert 1.15 < (first / last) ** (1 / 39) < 1.26  # theory: 1.211
    for name in ("none", "LayerNorm"):
        first, last = experiments.first_and_last_gradient(name, 40)
        assert 0.93 < (first / last) ** (1 / 39) < 1.07
    first, last = experiments.first_and_last_gradient("BatchNorm", 40, residual=True)
    assert (first / last) ** (1 / 39) < 1.1
