"""The claims of the chapter "Why BatchNorm works", executed: each fails if its effect is off.

Training runs assert an order with a wide margin, never a loss. An assertion that is about
BatchNorm takes the norm as an argument; `test_<id>_fails_without_<effect>` runs it without.
"""

from __future__ import annotations

import json
import math

import pytest
import torch
from torch import nn

from book.experiments import why_batchnorm_works as experiments
from book.experiments import why_batchnorm_works_sweep as sweep
from book.experiments.layernorm import digits

CHANCE = math.log(10)


def recorded(part: str) -> dict:
    return json.loads(sweep.RECORD.read_text(encoding="utf-8"))[part]


# -- distributions that move -----------------------------------------------------------------------


def over_time(lr: float) -> None:
    torch.manual_seed(0)
    fresh, images = experiments.network("none", "tanh"), digits()[0][:256]
    spreads = [experiments.received(fresh, layer, images).std().item() for layer in range(1, 9)]
    assert spreads[0] > 1.5 * spreads[-1]  # layers differ before the first step
    _, means, drift = experiments.train_and_watch("none", lr=lr, steps=60)
    assert drift > 0.01 and (means.amax(0) - means.amin(0)).max() > 0.3


def test_c158_c160_the_shift_is_over_time_and_not_between_layers():
    over_time(lr=0.03)


def test_c160_fails_without_updates():
    with pytest.raises(AssertionError):
        over_time(lr=0.0)


def fast_although_it_drifts(norm: str, seed: int = 0, noise: float = 1.0) -> None:
    plain, _, plain_drift = experiments.train_and_watch("none", steps=70, seed=seed)
    losses, _, drift = experiments.train_and_watch(norm, noise, steps=70, seed=seed)
    assert drift > 2 * plain_drift
    assert experiments.steps_to(losses, 0.5) < 0.8 * experiments.steps_to(plain, 0.5)


@pytest.mark.parametrize("seed", [0, 1])
def test_c005_c101_with_noise_behind_batchnorm_inputs_drift_more_and_training_stays_fast(seed):
    fast_although_it_drifts("BatchNorm", seed)


@pytest.mark.parametrize(("norm", "noise"), [("none", 1.0), ("LayerNorm", 1.0), ("BatchNorm", 0.0)])
def test_c101_fails_without_batchnorm_or_without_noise(norm, noise):
    with pytest.raises(AssertionError):
        fast_although_it_drifts(norm, noise=noise)


def steady(norm: str) -> None:
    _, _, drift = experiments.train_and_watch(norm, steps=60)
    assert drift < 0.01


def test_c006_batchnorm_steadies_the_inputs_and_is_not_fast_because_of_it():
    steady("BatchNorm")
    calm, _, _ = experiments.train_and_watch("BatchNorm", steps=60)
    noisy, _, drift = experiments.train_and_watch("BatchNorm", 1.0, steps=60)
    assert drift > 0.1
    assert experiments.steps_to(noisy, 0.5) < 1.4 * experiments.steps_to(calm, 0.5)


def test_c006_fails_without_batchnorm():
    with pytest.raises(AssertionError):
        steady("none")


def slowed_down(norm: str, noise: float) -> None:
    calm, _, _ = experiments.train_and_watch(norm, steps=160)
    noisy, _, _ = experiments.train_and_watch(norm, noise, steps=160)
    assert experiments.steps_to(noisy, 0.5) > 1.6 * experiments.steps_to(calm, 0.5)


@pytest.mark.parametrize(("norm", "noise"), [("none", 1), ("LayerNorm", 1), ("BatchNorm", 4)])
def test_c010_the_same_noise_hurts_other_networks_and_much_noise_hurts_this_one(norm, noise):
    slowed_down(norm, noise)


def test_c010_fails_without_enough_noise():
    with pytest.raises(AssertionError):
        slowed_down("BatchNorm", 1)


def test_c102_c157_the_shift_of_gradients_goes_either_way():
    for lr in (0.05, 0.2):  # against the paper: less shift with BatchNorm
        plain, _, _ = experiments.shift_of_gradients("none", lr=lr)
        normed, _, _ = experiments.shift_of_gradients("BatchNorm", lr=lr)
        assert normed < 0.7 * plain
        assert normed > 0.1  # and it is not prevented
    plain, _, plain_loss = experiments.shift_of_gradients("none", "tanh", lr=0.05)
    normed, _, loss = experiments.shift_of_gradients("BatchNorm", "tanh", lr=0.05)
    assert normed > 1.3 * plain and loss < 0.6 * plain_loss  # with the paper, but it hardly learns


# -- along the gradient ----------------------------------------------------------------------------


def holds_farther(norm: str) -> None:
    _, plain, plain_change, plain_smoothness = experiments.along_the_gradient("none", steps=60)
    _, losses, change, smoothness = experiments.along_the_gradient(norm, steps=60)
    assert (losses[:, 1:] - losses[:, :1]).mean(0).max() < 0  # each walk ends lower
    assert (plain[:, 1:] - plain[:, :1]).mean(0).min() > 0.3
    assert (change.mean(0) < plain_change.mean(0) / 5).all()
    assert smoothness.max() < plain_smoothness.max() / 4


def test_c083_c103_c163_gradients_hold_farther_with_batchnorm():
    holds_farther("BatchNorm")


@pytest.mark.parametrize("norm", ["none", "LayerNorm"])
def test_c103_fails_without_batchnorm(norm):
    with pytest.raises(AssertionError):
        holds_farther(norm)


def inverse_square(norm: str) -> None:
    one = experiments.curvature(norm, 1.0)
    assert experiments.curvature(norm, 10.0) == pytest.approx(one / 100, rel=1e-3)
    assert experiments.curvature(norm, 0.1) == pytest.approx(one * 100, rel=1e-3)


def test_c076_smoothness_depends_on_the_size_of_the_weights():
    inverse_square("BatchNorm")


def test_c076_fails_without_batchnorm():
    with pytest.raises(AssertionError):
        inverse_square("none")


# -- learning rates --------------------------------------------------------------------------------


def large_rates_train(norm: str) -> None:
    assert experiments.last_loss(norm, 0.3, steps=80) < 1.0
    assert experiments.last_loss(norm, 1.0, steps=120) < 1.5


def test_c096_batchnorm_trains_at_much_larger_learning_rates():
    large_rates_train("BatchNorm")
    for norm in experiments.NORMS:  # a careful rate works for all
        assert experiments.last_loss(norm, 0.01, steps=120) < 1.0
    rates = recorded("rates")
    for norm, largest in (("none", 0.03), ("LayerNorm", 0.1), ("BatchNorm", 1.0)):
        good = [
            float(rate)
            for rate, found in rates[f"{norm}, noise 0"].items()
            if None not in found and max(found) < 1.0
        ]
        assert max(good) == largest
    assert sweep.rate("BatchNorm", 0.3, 0.0, seed=2, steps=100) < 1.0  # the record, replayed
    blown = sweep.rate("none", 0.3, 0.0, seed=2, steps=100)
    assert blown is None or blown > 2.0


@pytest.mark.parametrize("norm", ["none", "LayerNorm"])
def test_c096_fails_without_batchnorm(norm):
    with pytest.raises(AssertionError):
        large_rates_train(norm)


def forgives_any_rate(norm: str) -> None:
    for rate in (1.0, 1000.0):
        loss, before, after = experiments.own_rates(norm, rate)
        assert loss < 0.5
        assert after > before  # steps at a right angle only lengthen
    assert after > 20 * before


def test_c096_c163_weights_in_front_of_batchnorm_forgive_a_huge_learning_rate():
    forgives_any_rate("BatchNorm")


def test_c096_fails_without_scale_invariance():
    with pytest.raises(AssertionError):
        forgives_any_rate("none")


# -- depth -----------------------------------------------------------------------------------------


def sigmoids_learn(norm: str) -> None:
    assert 0.1 < experiments.gradient_ratio(norm, 10, "sigmoid") < 10
    assert experiments.last_loss(norm, 0.1, activation="sigmoid") < 1.0


def test_c099_sigmoids_learn_with_batchnorm_only():
    sigmoids_learn("BatchNorm")
    assert experiments.gradient_ratio("none", 10, "sigmoid") < 1e-3


def test_c099_fails_without_batchnorm():
    with pytest.raises(AssertionError):
        sigmoids_learn("none")


def explodes(norm: str) -> None:
    shallow, deep = (experiments.gradient_ratio(norm, depth) for depth in (30, 60))
    theory = (math.pi / (math.pi - 1)) ** 0.5
    assert (deep / shallow) ** (1 / 30) == pytest.approx(theory, abs=0.03)


def test_n24_gradients_explode_by_a_fifth_per_layer():
    explodes("BatchNorm")
    shares = experiments.branch_share("BatchNorm")  # with skip connections blocks add little
    for k in (4, 16, 32):
        assert shares[k - 1] == pytest.approx(1 / (k + 1), rel=0.5)
    assert min(experiments.branch_share("none")) > 0.3


@pytest.mark.parametrize("norm", ["none", "LayerNorm"])
def test_n24_fails_without_batchnorm(norm):
    with pytest.raises(AssertionError):
        explodes(norm)


# -- noise of the batch ----------------------------------------------------------------------------


def noise_of_mates(size: int, mates_change: bool = True) -> float:
    """Spread of BatchNorm's output for one value that meets other values in each batch."""
    norm, others = nn.BatchNorm1d(1).double(), torch.randn(512, 1, dtype=torch.float64)
    rows, outputs = torch.arange(size - 1), []
    for _ in range(100):
        if mates_change:
            rows = torch.randperm(512)[: size - 1]
        outputs.append(norm(torch.cat([torch.ones(1, 1).double(), others[rows]]))[0])
    return torch.stack(outputs).std().item()


def noisy_in_small_batches(mates_change: bool) -> None:
    assert noise_of_mates(8, mates_change) > 2 * noise_of_mates(64, mates_change) > 0.05


def test_c098_the_noise_comes_from_the_batch_mates_and_extremes_stay():
    noisy_in_small_batches(True)
    x = torch.randn(512, 1, dtype=torch.float64)
    x[0] = 30.0
    y = nn.BatchNorm1d(1).double()(x)
    before, after = (((t[0] - t.mean()) / t.std()).item() for t in (x, y))
    assert after == pytest.approx(before) and after > 15


def test_c098_fails_without_other_mates():
    with pytest.raises(AssertionError):
        noisy_in_small_batches(False)


def test_c097_c159_no_regularization_shows_on_few_digits():
    found = {key: sum(values) / len(values) for key, values in recorded("few").items()}
    noisiest = found["BatchNorm, batch 8, dropout 0"]
    noiseless = found["BatchNorm, batch 200, dropout 0"]
    assert noisiest < noiseless + 0.01  # more noise is not better
    assert found["LayerNorm, batch 50, dropout 0"] > noisiest  # and none at all is no worse
    assert noisiest < found["none, batch 50, dropout 0"] + 0.02
    small, calm = (
        sum(sweep.few("BatchNorm", batch, 0.0, seed) for seed in range(2)) / 2 for batch in (8, 200)
    )
    assert small < calm + 0.03  # the record, replayed


def test_c089_gamma_and_beta_alone_learn_from_random_features():
    for seed in range(2):
        assert experiments.only("gamma and beta", seed=seed) > 0.75
    assert experiments.only("nothing") < 0.3
