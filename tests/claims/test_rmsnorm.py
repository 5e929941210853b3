"""The claims of the RMSNorm chapter, executed: each test fails if its effect is not there.

Closed forms are compared closely. Training runs assert an order with a wide margin, never a loss.
"""

from __future__ import annotations

import copy
import json
import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from book.experiments import rmsnorm as experiments
from book.experiments import rmsnorm_speed as speed
from book.experiments.layernorm import OperatorCount
from solutions.rmsnorm import rmsnorm as reference


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def largest(x: Tensor) -> float:
    return x.abs().max().item()


def ones(width: int) -> Tensor:
    return torch.ones(width, dtype=torch.float64)


def outside(x: Tensor, eps: float) -> Tensor:
    return x / (x.square().mean(-1, keepdim=True).sqrt() + eps)


def limit(x: Tensor, eps: float) -> Tensor:
    """The listing of C056."""
    return x / (x.norm(dim=-1, keepdim=True) * x.shape[-1] ** -0.5).clamp(min=eps)


def test_c053_rmsnorm_is_layer_norm_of_centred_rows_and_sees_shifts():
    x = 3 + normal(20, 8)
    centred = x - x.mean(-1, keepdim=True)
    rms = reference.rms_norm(centred, ones(8), 1e-5)
    assert largest(rms - F.layer_norm(x, (8,), eps=1e-5)) < 1e-12
    plain = reference.rms_norm(x, ones(8), 0.0)
    assert largest(reference.rms_norm(7 * x, ones(8), 0.0) - plain) < 1e-12
    assert largest(reference.rms_norm(x + 5, ones(8), 0.0) - plain) > 0.1
    assert largest(F.layer_norm(x + 5, (8,), eps=0.0) - F.layer_norm(x, (8,), eps=0.0)) < 1e-12


def test_c054_three_places_of_eps_agree_for_large_inputs_only():
    x = normal(50, 8)
    inside = reference.rms_norm(x, ones(8), 1e-8)
    assert largest(F.rms_norm(x, (8,), eps=1e-8) - inside) < 1e-12
    assert largest(outside(x, 1e-8) - inside) < 1e-6 and largest(limit(x, 1e-8) - inside) < 1e-6
    tiny = 1e-4 * x  # its mean square is about eps
    inside = reference.rms_norm(tiny, ones(8), 1e-8)
    assert largest(F.rms_norm(tiny, (8,), eps=1e-8) - inside) < 1e-12
    assert largest(outside(tiny, 1e-8) - inside) > 0.5 and largest(limit(tiny, 1e-8) - inside) > 0.5


def test_c055_rmsnorm_trains_as_well_as_layer_norm_and_no_norm_does_not_train():
    def mean_accuracy(norm: str) -> float:
        return sum(experiments.train(norm, lr=0.01, epochs=4, seed=s)[1] for s in range(3)) / 3

    layer, rms = mean_accuracy("LayerNorm"), mean_accuracy("RMSNorm")
    assert min(layer, rms) > 0.9 and abs(layer - rms) < 0.03
    loss, accuracy = experiments.train("none", lr=0.01, epochs=4)
    assert not loss < 2.0 and accuracy < 0.3


def test_c056_a_limit_is_not_eps_inside_the_root():
    unit = F.rms_norm(normal(8), (8,), eps=0.0)
    x = 1e-6 * unit
    inside, limited = reference.rms_norm(x, ones(8), 1e-8), limit(x, 1e-8)
    assert largest(limited) / largest(inside) == pytest.approx(100, rel=1e-3)
    zero, upstream = torch.zeros(8).double().requires_grad_(), torch.arange(8.0).double()
    (a,) = torch.autograd.grad(reference.rms_norm(zero, ones(8), 1e-8), zero, upstream)
    (b,) = torch.autograd.grad(limit(zero, 1e-8), zero, upstream)
    assert largest(a) == pytest.approx(7e4) and largest(b) == pytest.approx(7e8)


def test_c057_n21_adaln_depends_on_a_condition_and_adanorm_has_none():
    x, cond = torch.randn(2, 5, 16), torch.randn(2, 4)
    norm = reference.AdaLayerNorm(16, 4)
    assert largest(norm(x, cond) - F.layer_norm(x, (16,), eps=1e-6)) < 1e-5
    block = experiments.AdaLNZeroBlock(16, 4)
    assert torch.equal(block(x, cond), x)
    for module in (norm, block):
        nn.init.normal_(module.modulation.weight)
        assert largest(module(x, cond) - module(x, -cond)) > 0.1
    assert largest(reference.ada_norm(x, 1.0, 0.1, 1e-6) - norm(x, cond)) > 0.1


def test_c058_c059_an_articles_adanorm_is_layer_norm_times_a_number():
    x = normal(2000, 64).requires_grad_()
    y = F.layer_norm(x, (64,), eps=1e-12)
    for alpha in (1.0, 0.3):
        multiple, rest = experiments.best_multiple(experiments.ada_norm_of_an_article(x, alpha), y)
        assert multiple == pytest.approx(alpha * math.sqrt(63 / 64), rel=1e-4) and rest < 1e-4
    published = reference.ada_norm(x, 1.0, 0.1, 1e-12)
    assert experiments.best_multiple(published, y)[1] > 0.1
    g = normal(2000, 64)
    (right,) = torch.autograd.grad(published, x, g)
    (through,) = torch.autograd.grad((1 - 0.1 * y) * y, x, g)
    assert (right - through).norm() / right.norm() > 0.05


def test_n12_scale_norm_is_rmsnorm_with_one_weight():
    x, g = normal(100, 64), torch.tensor(3.0).double()
    want = reference.rms_norm(x, ones(64) * 3 / 8, 0.0)
    assert largest(reference.scale_norm(x, g, 1e-5) - want) < 1e-12
    assert largest(reference.scale_norm(x, g, 1e-5).norm(dim=-1) - 3) < 1e-12
    short = 1e-7 * F.normalize(x, dim=-1)
    assert reference.scale_norm(short, g, 1e-5).norm(dim=-1).max() == pytest.approx(0.03, rel=1e-6)


def test_n13_partial_estimates_and_operator_counts():
    even = normal(4000, 512)
    uneven = even * torch.logspace(-1, 1, 512, dtype=torch.float64)
    rms = {k: even[:, :k].square().mean(-1).sqrt() for k in (32, 128, 512)}
    for k in (32, 128):
        assert (rms[k] / rms[512]).std().item() == pytest.approx(1 / math.sqrt(2 * k), rel=0.3)
    whole = uneven.square().mean(-1).sqrt()
    assert (uneven[:, :32].square().mean(-1).sqrt() / whole).mean() < 0.2
    assert largest(reference.partial_rms_norm(even, ones(512), 0.0625, 0.0)
                   - even / rms[32][:, None]) < 1e-9  # fmt: skip
    counts = {}
    rows = torch.randn(16, 64)
    for name, function in speed.functions(64).items():
        with OperatorCount() as counted:
            function(rows)
        counts[name] = counted.names.total()
    assert counts["F.layer_norm"] == 1
    assert counts["RMSNorm, written out"] < counts["layer norm, written out"]


def test_n13_the_record_of_times_is_complete_and_its_script_still_runs():
    results = json.loads(speed.RECORD.read_text(encoding="utf-8"))["results"]
    assert list(results) == [f"{rows} x {width}" for rows, width in speed.SHAPES]
    again = speed.best_times(8, 16, turns=2)
    assert set(again) == set(next(iter(results.values()))) and min(again.values()) > 0


def test_n14_centring_the_writers_turns_layer_norm_into_rmsnorm():
    model, ids = experiments.PreLN(depth=4).double(), torch.randint(50, (2, 16))
    before = model(ids)
    exchanged = copy.deepcopy(model)
    experiments.exchange_norms(exchanged)
    assert largest(exchanged(ids) - before) > 0.1
    experiments.centre_what_is_written(model)
    experiments.exchange_norms(model)
    assert not any(isinstance(module, nn.LayerNorm) for module in model.modules())
    assert largest(model(ids) - before) < 1e-10


def test_n15_cast_order_unit_offset_and_default_eps_change_the_numbers():
    x, weight = (3 * torch.randn(200, 512)).bfloat16(), (1 + 0.3 * torch.randn(512)).bfloat16()
    cast_last = reference.rms_norm(x, weight, 1e-6)
    x_hat = reference.rms_norm(x.float(), torch.ones(512), 1e-6)
    cast_first = x_hat.bfloat16() * weight
    assert (cast_first != cast_last).float().mean() > 0.1
    assert torch.allclose(cast_first.float(), cast_last.float(), rtol=0.02)
    exact = x_hat.double() * weight.double()
    assert largest((cast_first - exact) / exact) > 1.3 * largest((cast_last - exact) / exact)
    assert (x_hat.bfloat16() * weight.float()).dtype == torch.float32  # the trap
    stored = 0.1 * torch.randn(512)
    right, wrong = (F.rms_norm(x.float(), (512,), w) for w in (1 + stored, stored))
    assert (right - wrong).norm() / right.norm() > 0.5
    row = torch.full((8,), 1e-4)
    default, other = nn.RMSNorm(8)(row), nn.RMSNorm(8, eps=1e-6)(row)
    assert nn.RMSNorm(8).eps is None and largest(default) > 2 * largest(other)


def test_n17_dynamic_tanh_trains_but_sees_the_scale():
    x, layer = torch.randn(1000, 64), reference.DynamicTanh(64)
    with torch.no_grad():
        small, large = layer(0.1 * x), layer(100 * x)
        assert small.square().mean().sqrt() < 0.1 < 0.9 < large.square().mean().sqrt()
    assert (large.abs() > 0.99).float().mean() > 0.8
    rms = reference.rms_norm(0.1 * x, torch.ones(64), 1e-12)
    assert largest(rms - reference.rms_norm(100 * x, torch.ones(64), 1e-12)) < 1e-4
    runs = [experiments.train("Dynamic Tanh", lr=0.01, epochs=4, seed=seed) for seed in range(2)]
    assert all(loss < 0.6 and accuracy > 0.85 for loss, accuracy in runs)
