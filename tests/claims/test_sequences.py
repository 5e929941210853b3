"""The claims of the chapter on BatchNorm and sequences, executed.

Each test fails if its effect is not there. Closed forms are compared closely. Training runs assert
an order with a wide margin, never a loss.
"""

from __future__ import annotations

import json

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from book.experiments import sequences as experiments
from book.experiments import sequences_text
from solutions.sequences import sequences as reference


def largest(x: Tensor) -> float:
    return x.abs().max().item()


def batch(*lengths: int, d: int = 6, mean: float = 1.5) -> tuple[Tensor, Tensor]:
    """Zero-padded sentences in float64, and their mask."""
    mask = reference.padding_mask(torch.tensor(lengths), max(lengths))
    x = mean + torch.randn(len(lengths), max(lengths), d, dtype=torch.float64)
    return x.masked_fill(~mask[..., None], 0), mask


def batch_norm(x: Tensor) -> Tensor:
    """Pooled over all places of (B, L, D)."""
    return F.batch_norm(x.flatten(0, -2), None, None, training=True).view_as(x)


def masked(x: Tensor, mask: Tensor) -> Tensor:
    d = x.shape[-1]
    return reference.masked_batch_norm(x, mask, x.new_ones(d), x.new_zeros(d), 1e-5)


# -- padding ---------------------------------------------------------------------------------------


def test_c174_zeros_shift_mean_and_variance_by_a_known_amount():
    x, mask = batch(40, 9, 14, 22, 5)
    m, v = reference.masked_mean_var(x, mask)
    f = mask.double().mean()
    assert largest(x.mean((0, 1)) - f * m) < 1e-12
    assert largest(x.var((0, 1), correction=0) - (f * v + f * (1 - f) * m**2)) < 1e-12
    assert largest(m - f * m) > 0.5 and largest(f * (1 - f) * m**2) > 0.3  # it matters here


def test_c174_outputs_of_attention_are_not_zero_at_padding():
    attention = nn.MultiheadAttention(16, 4, batch_first=True)
    mask = reference.padding_mask(torch.tensor([3, 6]), 6)
    x = torch.randn(2, 6, 16) * mask[..., None]
    y, _ = attention(x, x, x, key_padding_mask=~mask)
    lengths = y.norm(dim=-1)
    assert lengths[~mask].min() > 0.3 * lengths[mask].mean()


def test_c176_c171_padding_moves_real_tokens_unless_it_is_masked():
    x, mask = batch(2, 4, d=3)  # two sentences, three features
    longer, longer_mask = F.pad(x, (0, 0, 0, 10)), F.pad(mask, (0, 10))
    assert largest((batch_norm(longer)[:, :4] - batch_norm(x))[mask]) > 0.5
    assert largest(masked(longer, longer_mask)[:, :4] - masked(x, mask)) < 1e-12
    ln = F.layer_norm(longer, (3,))[:, :4] - F.layer_norm(x, (3,))
    assert largest(ln[mask]) == 0


def test_c175_masked_statistics_are_those_of_the_packed_tokens():
    x, mask = batch(12, 30, 7)
    packed = F.batch_norm(x[mask], None, None, training=True)
    assert largest(masked(x, mask)[mask] - packed) < 1e-12
    assert largest(batch_norm(x)[mask] - packed) > 0.3  # so masking changes something


def test_c176_c175_padded_training_fails_on_single_sentences_and_masking_repairs_it():
    plain = experiments.train_on_sentences("BatchNorm", 60)
    repaired = experiments.train_on_sentences("masked BatchNorm", 60)
    loss = {
        (name, of_batch): experiments.validate(model, 60, of_batch)
        for name, model in (("plain", plain), ("masked", repaired))
        for of_batch in (False, True)
    }
    gap = {name: loss[name, True] - loss[name, False] for name in ("plain", "masked")}
    assert gap["plain"] > 0.3  # nats per character
    assert gap["masked"] < 0.5 * gap["plain"]


def rows(norm: str, key: str = "loss") -> list[float]:
    record = json.loads(sequences_text.RESULT.read_text(encoding="utf-8"))
    return [row[key] for row in record["padded"] if row["norm"] == norm]


def test_c044_c175_the_record_is_of_the_settings_that_stand_in_the_script():
    record = json.loads(sequences_text.RESULT.read_text(encoding="utf-8"))
    assert record["settings"] == sequences_text.SETTINGS
    assert record["statistics settings"] == sequences_text.STATISTICS
    seeds = {(row["norm"], row["seed"]) for row in record["padded"]}
    assert seeds == {(n, s) for n in experiments.NORMS for s in sequences_text.SEEDS}
    assert {row["source"] for row in record["statistics"]} == set(sequences_text.SOURCES)


def test_c044_in_the_record_batch_norm_loses_little_with_running_statistics():
    layer, plain = (sum(rows(n)) / 3 for n in ("LayerNorm", "BatchNorm"))
    assert -0.05 < plain - layer < 0.3


def test_c175_in_the_record_masking_repairs_single_sentences():
    gap = {
        norm: min(a - b for a, b in zip(rows(norm, "of batch"), rows(norm), strict=True))
        for norm in ("BatchNorm", "masked BatchNorm")
    }
    assert gap["BatchNorm"] > 0.3 > 2 * gap["masked BatchNorm"]


# -- positions -------------------------------------------------------------------------------------


def test_c106_statistics_per_step_take_the_batch_axis_alone():
    x, mask = batch(5, 5, 5, 5)
    per_step = (x - x.mean(0)) / (x.var(0, correction=0) + 1e-5).sqrt()
    for t in range(5):
        one = F.batch_norm(x[:, t], None, None, training=True)
        assert largest(per_step[:, t] - one) < 1e-12
    assert largest(per_step - masked(x, mask)) > 0.1  # pooled is something else


def test_c130_torch_pools_over_the_positions():
    x, _ = batch(9, 9, 9)
    norm = nn.BatchNorm1d(6).double()
    assert norm.running_mean.shape == (6,)
    y = norm(x.transpose(1, 2)).transpose(1, 2)
    assert largest(y - batch_norm(x)) < 1e-12


def test_c130_c133_a_position_means_little_in_text_and_much_in_an_image():
    pixels = experiments.explained_by_position(experiments.digits().flatten(1)[:, :, None])
    lines = [s[:40] for s in experiments.sentences() if len(s) >= 40]
    letters = torch.stack([torch.tensor([experiments.alphabet()[c] for c in s]) for s in lines])
    characters = experiments.explained_by_position(F.one_hot(letters).float())
    assert pixels > 0.3
    assert characters < 0.05 < pixels / 5


def test_c109_c107_few_sentences_reach_late_positions_and_some_are_longer_than_any_seen():
    lengths = torch.tensor([len(s.split()) for s in experiments.sentences()])
    counts = experiments.reach(lengths, 32, [0, 20, 40, 60])
    assert counts[0] == 32
    assert counts[1] < 16 and counts[2] < 3 and counts[3] < 1
    assert 0.005 < (lengths > 40).float().mean() < 0.2


def test_c107_c108_c022_a_step_without_statistics_needs_an_invention_and_pooling_does_not():
    seen, test = (torch.randn(400, 12, 6).cumsum(1) for _ in range(2))
    last_known = seen[:, 7].std(0)
    spread = [(test[:, t] / last_known).std().item() for t in (7, 11)]
    assert spread[0] < 1.1 < spread[1]
    norm = nn.BatchNorm1d(6).eval()  # pooled: one set of statistics for every length
    assert norm(torch.randn(2, 6, 500)).shape == (2, 6, 500)


# -- neighbours ------------------------------------------------------------------------------------


def test_c168_a_later_token_and_other_sentences_move_a_token():
    x, mask = batch(10, 10, 10, mean=0.0)
    future, company = x.clone(), x.clone()
    future[0, 9] += 5
    company[1:] *= 3
    for other in (future, company):
        assert largest((masked(other, mask) - masked(x, mask))[0, :9]) > 0.1
        ln = F.layer_norm(other, (6,)) - F.layer_norm(x, (6,))
        assert largest(ln[0, :9]) == 0
    norm = nn.BatchNorm1d(6).double().eval()  # in evaluation the leak is closed
    apart = norm(future.transpose(1, 2)) - norm(x.transpose(1, 2))
    assert largest(apart[0, :, :9]) == 0


# -- batch against running statistics --------------------------------------------------------------


def test_c110_text_is_much_farther_in_the_papers_measure_and_less_so_without_units():
    images = experiments.image_activations(16, steps=50, kept=40)
    text = experiments.text_activations("stretch", steps=50, kept=40)
    ratio = [
        (a.mean() / b.mean()).item()
        for a, b in zip(*map(reference.running_stat_distance, (text, images)), strict=True)
    ]
    free = [
        a / b
        for a, b in zip(*map(experiments.scale_free, (text, images)), strict=True)
    ]  # fmt: skip
    assert ratio[0] > 5 and ratio[1] > 10
    assert free[0] > 1.3  # still noisier in units of each feature's spread,
    assert free[0] < ratio[0] / 2 and free[1] < ratio[1] / 5  # but far less


def test_c110_the_measure_has_the_unit_of_the_data_and_falls_with_the_width():
    steps = [torch.randn(200, 64, dtype=torch.float64) for _ in range(20)]
    mean, var = reference.running_stat_distance(steps)
    double_mean, double_var = reference.running_stat_distance([2 * s for s in steps])
    assert largest(double_mean - 2 * mean) < 1e-12 and largest(double_var - 4 * var) < 1e-12
    narrow, _ = reference.running_stat_distance([s[:, :4] for s in steps])
    assert 3 < narrow.mean() / mean.mean() < 5  # the root of 16
    assert experiments.scale_free([2 * s for s in steps]) == pytest.approx(
        experiments.scale_free(steps)
    )


def test_c110_the_recorded_factors():
    record = json.loads(sequences_text.RESULT.read_text(encoding="utf-8"))
    found = {}
    for row in record["statistics"]:
        found.setdefault(row["source"], []).append(row)
    images = found["digits, 16 images"]
    for text in (found["words, 16 windows"], found["words, one stretch"]):
        for a, b in zip(text, images, strict=True):
            assert 10 < a["mean"] / b["mean"] < 60 and 40 < a["var"] / b["var"] < 160
            assert 1.5 < a["shift"] / b["shift"] < 8 and 1 < a["ratio"] / b["ratio"] < 3


# -- what works ------------------------------------------------------------------------------------


def test_c167_a_transformer_with_batch_norm_trains_as_well_as_with_layer_norm():
    """Both learn more than the frequencies of characters, in the same number of steps."""
    losses = {
        norm: experiments.validate(experiments.train_on_sentences(norm, 60), 60)
        for norm in ("LayerNorm", "masked BatchNorm")
    }
    assert max(losses.values()) < 3.1  # frequencies alone: about 3.25
    assert abs(losses["LayerNorm"] - losses["masked BatchNorm"]) < 0.25


def test_c167_power_norm_approximates_the_gradient_of_the_quadratic_mean():
    weights, scale, offset = torch.randn(64, 64) / 8, 0.5 + torch.rand(64), torch.randn(64)

    def gradient(normalize, x):
        x = x.clone().requires_grad_()
        y = normalize(x)
        loss = ((y @ weights).tanh().sum(1) - y[:, 0]).square().mean()
        return torch.autograd.grad(loss, x)[0]

    square, nu, found = None, torch.zeros(64), []
    for _ in range(100):
        x = offset + scale * torch.randn(256, 64)
        own = x.square().mean(0)
        square = own if square is None else square
        at_hand = square.clone()
        exact = gradient(lambda v: v * torch.rsqrt(v.square().mean(0) + 1e-5), x)
        power = gradient(
            lambda v, s=at_hand: experiments.PowerFunction.apply(v, s, nu, 1e-5, 0.9), x
        )
        constant = gradient(lambda v, s=at_hand: v * torch.rsqrt(s + 1e-5), x)
        x_hat = x * torch.rsqrt(at_hand)
        found.append([(g * x_hat).sum(0).abs().mean() for g in (exact, power, constant)])
        near = F.cosine_similarity(power.flatten(), exact.flatten(), dim=0)
        square = 0.9 * square + 0.1 * own
    # The part along x_hat, which the exact gradient does not have.
    exact, power, constant = torch.tensor(found[50:]).mean(0).tolist()
    assert exact < 1e-3 < power < 0.5 * constant
    assert near > 0.98


def test_c167_power_norm_does_not_see_the_rest_of_the_batch():
    norm = experiments.PowerNorm()
    x, mask = torch.randn(4, 9, 64), torch.ones(4, 9, dtype=torch.bool)
    for _ in range(30):
        norm(torch.randn(4, 9, 64), mask)
    other = x.clone()
    other[1:] *= 3
    state = {k: t.clone() for k, t in norm.state_dict().items()}
    first = norm(x, mask)[0]
    norm.load_state_dict(state)
    assert torch.equal(first, norm(other, mask)[0])
    norm.load_state_dict(state)
    assert largest(norm.eval()(x, mask)[0] - first) < 1e-6


def test_c167_batch_norm_behind_a_linear_layer_folds_away_on_tokens():
    linear, norm = nn.Linear(8, 6, bias=False).double(), nn.BatchNorm1d(6).double()
    for _ in range(20):
        norm(linear(1 + torch.randn(64, 8).double()))
    norm.eval()
    factor = norm.weight / (norm.running_var + norm.eps).sqrt()
    x = torch.randn(2, 5, 8).double()
    folded = x @ (factor[:, None] * linear.weight).t() + norm.bias - norm.running_mean * factor
    assert largest(norm(linear(x).flatten(0, 1)).view(2, 5, 6) - folded) < 1e-12
