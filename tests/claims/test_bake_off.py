"""The claims of the chapter "The bake-off", executed: an order with a wide margin, never a loss.

The record is fixed, so what the page says of it is asserted exactly; the small runs beside it are
repeated here. With the effect off, that is with every norm replaced by nothing, they must fail.
"""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest
import torch
from torch import nn

from book.experiments import bake_off, transformer
from book.experiments.bake_off_table import Table, t_interval

NORMED = ("batch", "layer", "rms")


@pytest.fixture
def no_norms(monkeypatch):
    """Every norm is replaced by nothing."""
    for module in (transformer, bake_off):
        monkeypatch.setattr(module, "make_norm", lambda norm, d_model: nn.Identity())


def table() -> Table:
    return Table(json.loads(bake_off.RECORD.read_text(encoding="utf-8")))


def at_a_large_rate(norm: str, seed: int) -> float:
    """Training loss on digits after 40 steps at a rate of 0.03; guessing has 2.30."""
    result = bake_off.run(task="digits", norm=norm, lr=3e-2, seed=seed, steps=40)
    return result["loss"] if result["loss"] == result["loss"] else float("inf")


def norms_withstand_a_large_rate() -> None:
    for seed in (0, 1):
        assert all(at_a_large_rate(norm, seed) < 4 for norm in NORMED)


def starts_near_guessing(norm: str) -> None:
    text = bake_off.corpus()
    model = bake_off.fresh("text", norm, 0)
    ids = bake_off.windows(text.train, 8, model.length, torch.Generator().manual_seed(0))
    assert model.loss(ids).item() < 6  # guessing blindly: 4.6


def decided(task: str, kind: str) -> dict[tuple[str, str], bool]:
    return {(p.first, p.second): p.decided for p in table().pairs(task, kind)}


def failures(norm: str, task: str, rate: float) -> tuple[int, int]:
    return table().failures(task)[norm][rate]


def test_c070_no_norm_is_worse_on_text_and_less_stable():
    for pair in table().pairs("text", "loss"):
        assert pair.decided == (pair.first == "none")
        assert not pair.decided or pair.difference.low > 0
    assert decided("text", "accuracy") == decided("text", "loss")
    for task in bake_off.TASKS:
        failed, runs = failures("none", task, 3e-2)
        assert failed == runs > 1
        for norm in NORMED:
            assert not any(failed for failed, _ in table().failures(task)[norm].values())
    norms_withstand_a_large_rate()
    assert at_a_large_rate("none", 1) > 10
    for norm in NORMED:
        starts_near_guessing(norm)


def test_c070_on_digits_six_seeds_decide_nothing_and_any_norm_wins_a_seed():
    for kind in ("loss", "accuracy"):
        assert not any(decided("digits", kind).values())
    assert set(sum(table().best("digits", "loss"), ())) == set(bake_off.NORMS)


def test_c070_the_tables_differences_between_norms_are_excluded_on_text():
    accuracy = {(p.first, p.second): p.difference for p in table().pairs("text")}
    assert accuracy["batch", "layer"].low > -0.042  # 81.5 - 85.7
    assert accuracy["layer", "rms"].high < 0.008  # 85.7 - 84.9


def test_c070_in_the_record_no_norm_is_the_fastest_step_and_rmsnorm_is_not():
    for task in bake_off.TASKS:
        speeds = table().speeds(task)
        assert speeds["none"].low > max(speeds[norm].high for norm in NORMED)
        assert speeds["rms"].high < 1  # LayerNorm


def test_c070_the_rate_of_each_row_is_the_one_that_tuning_chose():
    record = json.loads(bake_off.RECORD.read_text(encoding="utf-8"))
    plan = bake_off.Plan()
    assert record["plan"] == json.loads(json.dumps(asdict(plan)))
    for task in bake_off.TASKS:
        rates = bake_off.chosen(plan, task, record["runs"])
        assert rates == {norm: table().rate(task, norm) for norm in bake_off.NORMS}


def test_c183_layernorm_beats_no_norm_on_text_and_no_other_norm():
    for kind in ("loss", "accuracy"):
        found = decided("text", kind)
        assert found["none", "layer"]
        assert not found["batch", "layer"] and not found["layer", "rms"]
    failed, runs = failures("none", "text", 3e-2)
    assert failed == runs and failures("layer", "text", 3e-2)[0] == 0


def test_c070_batchnorms_modes_differ_and_the_leak_brings_nothing_visible():
    modes = table().modes()
    noise = t_interval([a - b for a, b in zip(modes["own 8"], modes["running"], strict=True)])
    gain = t_interval([a - b for a, b in zip(modes["own 8"], modes["other 8"], strict=True)])
    assert noise.low > 0.03 and gain.low > 0  # its own statistics, future and all, do no better
    model = bake_off.fresh("text", "batch", 0)
    ids = bake_off.windows(bake_off.held_out()[1], 8, 63, torch.Generator().manual_seed(0))
    assert bake_off.moved_by_the_last(model, ids)[:-1].min() > 1e-4  # but the dependence is there
    for norm in ("none", "layer", "rms"):
        model = bake_off.fresh("text", norm, 0)
        assert bake_off.moved_by_the_last(model, ids)[:-1].max() == 0


def test_c070_large_rates_fail_without_norms(no_norms):
    with pytest.raises(AssertionError):
        norms_withstand_a_large_rate()
    with pytest.raises(AssertionError):
        starts_near_guessing("layer")
