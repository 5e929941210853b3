"""The claims of the chapter "Why normalize", executed: each fails if its effect is not there.

Closed forms are compared closely. Training runs assert an order with a wide margin, never a loss.
"""

from __future__ import annotations

import math

import pytest
import torch
from sklearn.datasets import load_wine
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier
from torch import Tensor
from torch.nn import functional as F

from book.experiments import why_normalize as experiments
from book.experiments.layernorm import digits
from solutions.scaling import scaling as reference

CHANCE = math.log(10)


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def last_loss(**settings) -> float:
    return experiments.train(epochs=4, **settings)[1][-1]


# -- scaling ---------------------------------------------------------------------------------------


def test_c150_c151_standardized_columns_have_mean_0_and_deviation_1():
    x = 5 + normal(100, 3) * torch.tensor([0.1, 1.0, 50.0])
    z = reference.standardize(x, 0, 0.0)
    torch.testing.assert_close(z.mean(0), torch.zeros(3).double(), rtol=0, atol=1e-12)
    torch.testing.assert_close(z.std(0, correction=0), torch.ones(3).double())
    assert (reference.standardize(x, 1, 0.0).mean(0).abs() > 0.1).any()  # another axis does not


def test_c152_an_outlier_squeezes_the_others_more_than_standardizing_does():
    v = torch.tensor([1.0, 2.0, 3.0, 4.0, 100.0]).double()
    scaled = reference.min_max_scale(v, 0)
    assert (scaled.min(), scaled.max()) == (0.0, 1.0)
    assert scaled[3] < 0.031
    many = torch.cat([normal(1000), torch.tensor([100.0]).double()])
    squeezed = (
        reference.min_max_scale(many, 0)[:-1].std() / reference.min_max_scale(many[:-1], 0).std()
    )
    kept = reference.standardize(many, 0, 0.0)[:-1].std()
    assert squeezed < 0.1 < 0.25 < kept  # kept is about 1 / sqrt(1 + 100² / 1000)


def test_c085_pca_only_rotates_and_whitening_also_scales():
    x = experiments.correlated()
    centred = x - x.mean(0)
    variances, axes = torch.linalg.eigh(centred.T @ centred / len(x))
    rotated = centred @ axes
    torch.testing.assert_close(rotated.var(0, correction=0), variances)
    assert variances[0] < 0.3 and variances[1] > 5  # far from 1 and 1
    white = reference.whiten(x, 1e-12)
    torch.testing.assert_close(white.var(0, correction=0), torch.ones(2).double())


def test_c086_whitening_removes_the_correlation_that_standardizing_keeps():
    def correlation(t: Tensor) -> float:
        return torch.corrcoef(t.T)[0, 1].item()

    x = experiments.correlated()
    assert correlation(x) > 0.8
    assert correlation(reference.standardize(x, 0, 0.0)) == pytest.approx(correlation(x))
    assert abs(correlation(reference.whiten(x, 1e-12))) < 1e-9


# -- the shape of the loss -------------------------------------------------------------------------


def test_c117_equal_scales_turn_ten_thousands_of_steps_into_a_handful():
    x, y = experiments.two_features((1.0, 100.0))
    slow, condition = experiments.steps_to_fit(x, y)
    fast, small = experiments.steps_to_fit(reference.standardize(x, 0, 0.0), y)
    assert slow > 10_000 and condition > 5_000
    assert fast < 20 and small < 2
    mild, _ = experiments.steps_to_fit(experiments.two_features((1.0, 10.0))[0], y)
    assert 50 < slow / mild < 200  # the number of steps follows the condition number


def test_c119_adam_hardly_notices_the_units():
    x, y = experiments.two_features((1.0, 100.0))
    raw, _ = experiments.steps_to_fit(x, y, "Adam")
    standardized, _ = experiments.steps_to_fit(reference.standardize(x, 0, 0.0), y, "Adam")
    descent, _ = experiments.steps_to_fit(x, y)
    assert raw < 5 * standardized
    assert descent > 50 * raw
    x, y = experiments.two_features((1.0, 1.0), correlation=0.999)  # a canyon that runs diagonally
    diagonal, _ = experiments.steps_to_fit(x, y, "Adam")
    white, _ = experiments.steps_to_fit(reference.whiten(x, 1e-12), y, "Adam")
    assert diagonal > 5 * standardized and white < 2 * standardized


def test_c153_neighbours_need_a_common_scale_and_trees_do_not():
    wine = load_wine()
    z = reference.standardize(torch.from_numpy(wine.data), 0, 0.0).numpy()

    def score(model, data) -> float:
        return cross_val_score(model, data, wine.target, cv=5).mean()

    assert score(KNeighborsClassifier(5), z) > score(KNeighborsClassifier(5), wine.data) + 0.15
    tree = DecisionTreeClassifier(random_state=0)
    assert abs(score(tree, z) - score(tree, wine.data)) < 0.03


# -- saturation ------------------------------------------------------------------------------------


def test_c080_c081_c118_large_inputs_lie_where_the_sigmoid_is_flat():
    shares, slopes = [], []
    for std in (1, 5, 10, 50):
        z = std * normal(20_000)
        shares.append(reference.saturated_fraction(z, 0.01))
        slopes.append((torch.sigmoid(z) * torch.sigmoid(-z)).mean().item())
    assert shares == sorted(shares) and slopes == sorted(slopes, reverse=True)
    assert shares[0] == 0.0 and shares[2] > 0.5 and shares[3] > 0.9
    assert slopes[0] > 0.15 and slopes[3] < 0.02
    x, weight = torch.from_numpy(load_wine().data), normal(13, 200) / 13**0.5
    assert reference.saturated_fraction(x @ weight, 0.01) > 0.9
    assert reference.saturated_fraction(reference.standardize(x, 0, 0.0) @ weight, 0.01) < 0.05


def test_c082_relu_without_a_norm_dies_at_a_large_rate():
    for seed in range(2):
        gentle, losses = experiments.train("ReLU", lr=0.01, epochs=4, seed=seed)
        assert losses[-1] < 0.8 and experiments.dead_share(gentle) < 0.2
        rough, losses = experiments.train("ReLU", lr=0.3, epochs=4, seed=seed)
        assert not losses[-1] < 2.0  # NaN, or still at chance
        if losses[-1] == losses[-1]:
            assert experiments.dead_share(rough) > 0.4


# -- depth and initial weights ---------------------------------------------------------------------


def test_c004_gradients_stay_level_with_the_right_gain_and_without_a_norm():
    for depth in (10, 30, 60):
        assert 0.3 < experiments.gradient_ratio("none", depth) < 4
        assert 0.3 < experiments.gradient_ratio("LayerNorm", depth) < 4
    assert experiments.gradient_ratio("BatchNorm", 60) > 1000
    per_layer = experiments.gradient_ratio("BatchNorm", 60) / experiments.gradient_ratio(
        "BatchNorm", 30
    )
    assert per_layer ** (1 / 30) == pytest.approx((math.pi / (math.pi - 1)) ** 0.5, abs=0.04)
    assert experiments.gradient_ratio("BatchNorm", 60, residual=True) < 100
    for gain, sign in ((1.0, -1), (2.0, 1)):  # the wrong gain, not the depth, decides
        stds, gradients = experiments.through_the_depth("ReLU", gain, 50)
        assert sign * math.log10(stds[-1] / stds[0]) > 5
        assert sign * math.log10(gradients[0] / gradients[-1]) > 5


def test_c084_careful_weights_and_small_rates_work_without_a_norm():
    assert last_loss(gain=2**0.5, lr=0.01) < 0.8
    assert last_loss(gain=0.5, lr=0.01) > 2.0  # careless weights
    assert not last_loss(gain=2**0.5, lr=0.3) < 2.0  # a careless rate


def test_c115_c156_a_norm_widens_the_range_of_gains_that_train():
    for gain in (0.5, 4.0):
        assert not last_loss(gain=gain) < 2.0  # NaN, or still at chance
        for norm in ("LayerNorm", "BatchNorm"):
            assert last_loss(gain=gain, norm=norm) < 1.6
    good = last_loss(gain=2**0.5)
    assert good < 0.8  # with the right gain the plain network trains as well
    assert last_loss(gain=2**0.5, norm="LayerNorm") > 0.5 * good


def test_c155_behind_a_norm_larger_weights_only_mean_smaller_gradients():
    h, weight, upstream = normal(64, 32), normal(32, 32) / 32**0.5, normal(64, 32)
    outputs, gradients = [], []
    for factor in (1.0, 10.0):
        w = (factor * weight).requires_grad_()
        y = F.layer_norm(h @ w.T, (32,), eps=0.0)
        (gradient,) = torch.autograd.grad(y, w, upstream)
        outputs.append(y.detach())
        gradients.append(gradient)
        assert abs((gradient * w).sum().item()) < 1e-9
    torch.testing.assert_close(outputs[0], outputs[1])
    torch.testing.assert_close(gradients[0], 10 * gradients[1])
    plain = (h @ (10 * weight).T).std() / (h @ weight.T).std()
    assert plain.item() == pytest.approx(10)  # without a norm the activations grow along


# -- what a norm throws away -----------------------------------------------------------------------


def test_c114_a_norm_removes_what_its_formula_says_important_or_not():
    chance, good = 0.6, 0.85
    assert experiments.accuracy_after("none", "scale") > good
    assert experiments.accuracy_after("LayerNorm", "scale") < chance
    assert experiments.accuracy_after("columns standardized", "scale") > good
    assert experiments.accuracy_after("LayerNorm", "mean") < chance
    assert experiments.accuracy_after("RMSNorm", "mean") > good
    assert experiments.accuracy_after("LayerNorm", "pattern") > good


def test_c116_a_norm_raises_small_variances_and_does_not_set_each_dimension():
    x = normal(2000, 8)
    assert F.layer_norm(0.01 * x, (8,)).var().item() > 0.5 > (0.01 * x).var().item()
    uneven = x * torch.tensor([10.0, 1, 1, 1, 1, 1, 1, 1])
    variances = F.layer_norm(uneven, (8,)).var(0)
    assert variances[0] > 3 and variances[1:].max() < 0.5


# -- distributions that move -----------------------------------------------------------------------


def test_c008_c009_the_input_of_a_middle_layer_moves_but_not_by_ten():
    for activation in ("tanh", "ReLU"):
        per_step, history = experiments.drift(activation)
        assert 0.01 < per_step < 1.0
        mean = history[:, 0]
        assert mean.max() - mean.min() > 0.2  # it does move
        assert (mean[:5] - mean[0]).abs().max() < 1.0  # "a few steps"


def test_c079_all_earlier_layers_move_it_and_later_ones_do_not():
    images = digits()[0][:200]
    model = experiments.network("tanh", 1.0, "none", layers=4)
    before = experiments.inputs_of_layer(model, 3, images)
    for layer, moves in ((0, True), (1, True), (2, True), (3, False)):
        linear = model[2 * layer]
        kept = linear.weight.detach().clone()
        with torch.no_grad():
            linear.weight += 0.05 * torch.randn_like(linear.weight)
        after = experiments.inputs_of_layer(model, 3, images)
        assert bool((after - before).abs().mean() > 0.01) == moves
        with torch.no_grad():
            linear.weight.copy_(kept)


def test_c078_c161_changed_inputs_cost_accuracy_and_their_own_statistics_repair_it():
    x, y, test_x, test_y = digits()
    mean, std = x.mean(0), x.std(0, correction=0) + 1e-2
    classify = experiments.linear_classifier((x - mean) / std, y)

    def accuracy(images: Tensor, m: Tensor, s: Tensor) -> float:
        return (classify((images - m) / s) == test_y).float().mean().item()

    assert accuracy(test_x, mean, std) > 0.9
    brighter = 0.5 * test_x + 0.4
    assert accuracy(brighter, mean, std) < 0.5
    assert accuracy(brighter, brighter.mean(0), brighter.std(0, correction=0) + 1e-2) > 0.9
    inverted = 1 - test_x  # a change of another kind
    assert accuracy(inverted, inverted.mean(0), inverted.std(0, correction=0) + 1e-2) < 0.5
