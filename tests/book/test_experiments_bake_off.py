"""The bake-off: its intervals, its fairness, its accounting of BatchNorm, and that it resumes."""

import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from book.experiments import bake_off
from book.experiments.bake_off import Plan, bake, batch_norms, fresh, record_of
from book.experiments.bake_off_table import (
    Table,
    median_interval,
    most_failures,
    runs_needed,
    t_interval,
)
from book.experiments.resumable import finished, resumable

ROOT = Path(__file__).resolve().parents[2]
SMALL = Plan({"digits": (3e-3, 3e-2)}, (100, 101), (0, 1), 3, 2)


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def small(path):
    return record_of(SMALL, list(bake(path, SMALL, ("digits",))), ("digits",))


def without_timing(record):
    """Everything but the timings, which differ from run to run, and the date."""
    kept = [run for run in record["runs"] if "rounds" not in run["setting"]]
    return json.loads(json.dumps(record | {"runs": kept, "date": None}))


# -- it resumes ------------------------------------------------------------------------------------


def test_an_interrupted_bake_off_goes_on_and_ends_in_the_same_table(tmp_path, monkeypatch):
    whole = small(tmp_path / "whole.jsonl")
    path, run, calls = tmp_path / "runs.jsonl", bake_off.run, itertools.count(1)
    stops = {5, 14, 24}  # in the tuning, in its last run but two, in the reported runs

    def interrupted(**setting):
        if next(calls) in stops:
            raise KeyboardInterrupt
        return run(**setting)

    monkeypatch.setattr(bake_off, "run", interrupted)
    for _ in stops:
        with pytest.raises(KeyboardInterrupt):
            small(path)
        with path.open("a") as file:
            file.write('{"setting": {"task": "digits", "no')  # the machine went down here
    resumed = small(path)
    trainings = 4 * 2 * 2 + 4 * 2
    assert next(calls) == trainings + len(stops) + 1  # no run that had ended was run again
    assert without_timing(resumed) == without_timing(whole)
    one, other = (Table(without_speed(record)) for record in (whole, resumed))
    assert one.rows("digits") == other.rows("digits")
    assert one.pairs("digits") == other.pairs("digits")
    assert one.failures("digits") == other.failures("digits")
    again = small(path)
    assert Table(again).text() == Table(resumed).text()  # with the timings, taken from the file
    assert len(finished(path)) == trainings + 1


def without_speed(record):
    return record | {"runs": [run for run in record["runs"] if "rounds" not in run["setting"]]}


def test_a_log_gets_one_plain_line_for_each_run(tmp_path, capsys):
    settings = [{"lr": 0.1}, {"lr": 0.2}]
    list(resumable(tmp_path / "runs.jsonl", settings, lambda lr: lr))
    assert capsys.readouterr().err == "1/2 lr=0.1\n2/2 lr=0.2\n"
    list(resumable(tmp_path / "runs.jsonl", settings, lambda lr: lr))
    assert capsys.readouterr().err == ""


@pytest.mark.soak
def test_the_command_survives_being_killed(tmp_path):
    def start(name):
        command = [sys.executable, "-m", "book.experiments.bake_off", "--quick"]
        command += ["--runs", tmp_path / f"{name}.jsonl", "--record", tmp_path / f"{name}.json"]
        return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)

    process = start("killed")
    for _ in range(6):
        process.stderr.readline()  # six runs have ended
    process.kill()
    process.wait()
    assert 6 <= len(finished(tmp_path / "killed.jsonl")) < 20
    for name in ("killed", "whole"):
        process = start(name)
        process.communicate()
        assert process.returncode == 0
    killed, whole = (json.loads((tmp_path / f"{n}.json").read_text()) for n in ("killed", "whole"))
    assert without_timing(killed) == without_timing(whole)


# -- it is fair ------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", bake_off.TASKS)
def test_with_one_seed_all_norms_start_from_the_same_weights(task):
    models = {norm: fresh(task, norm, 3).state_dict() for norm in bake_off.NORMS}
    shared = [name for name in models["none"] if "norm" not in name]
    assert len(shared) > 20
    for norm in bake_off.NORMS:
        for name in shared:
            assert torch.equal(models[norm][name], models["none"][name]), (norm, name)
    assert not [name for name in models["none"] if "norm" in name]


def test_choosing_and_reporting_use_other_seeds_and_other_data():
    plan = Plan()
    assert not set(plan.tuning_seeds) & set(plan.seeds)
    parts = [bake_off.images(part)[0] for part in ("train", "choose", "report")]
    assert [len(part) for part in parts] == [1100, 300, 397]
    rows = [{tuple(image.flatten().tolist()) for image in part} for part in parts]
    assert not rows[0] & rows[1] and not rows[0] & rows[2] and not rows[1] & rows[2]
    choose, report = bake_off.held_out()
    assert torch.equal(torch.cat([choose, report]), bake_off.corpus().validation)


def made_up(scores):
    """A record with these {(norm, rate, seed): (failed, choose, report)} of digits."""
    runs = [
        {
            "setting": {"task": "digits", "norm": norm, "lr": lr, "seed": seed, "steps": 3},
            "result": {"failed": failed, "choose": [choose, 0.5], "report": [report, 1 - report]},
        }
        for (norm, lr, seed), (failed, choose, report) in scores.items()
    ]
    return record_of(SMALL, runs, ("digits",))


def test_the_rate_is_chosen_by_the_mean_of_its_seeds_and_never_where_a_run_failed():
    losses = {3e-3: (0.3, 0.5), 3e-2: (0.1, 0.6)}  # 0.03 has the best single run
    scores = {
        (norm, lr, seed): (norm == "rms" and seed == 100 and lr == 3e-3, losses[lr][i], 9.0)
        for norm in bake_off.NORMS
        for lr in losses
        for i, seed in enumerate(SMALL.tuning_seeds)
    }
    runs = made_up(scores)["runs"]
    found = bake_off.chosen(SMALL, "digits", runs)
    assert found == {"none": 3e-2, "batch": 3e-2, "layer": 3e-2, "rms": 3e-2}
    losses[3e-2] = (0.1, 0.8)
    for (norm, lr, seed), (failed, _, report) in list(scores.items()):
        scores[norm, lr, seed] = (failed, losses[lr][seed - 100], report)
    found = bake_off.chosen(SMALL, "digits", made_up(scores)["runs"])
    assert found == {"none": 3e-3, "batch": 3e-3, "layer": 3e-3, "rms": 3e-2}


def test_a_run_that_ends_no_better_than_guessing_has_failed():
    good = bake_off.run(task="digits", norm="layer", lr=3e-3, seed=0, steps=40)
    bad = bake_off.run(task="digits", norm="none", lr=3e-2, seed=1, steps=40)
    assert not good["failed"] and good["loss"] < bake_off.guessing("digits")
    assert bad["failed"] and bad["loss"] > bake_off.guessing("digits")
    frozen = bake_off.run(task="digits", norm="layer", lr=0.0, seed=0, steps=10)
    assert frozen["failed"]


# -- the intervals ---------------------------------------------------------------------------------


def test_the_t_interval_is_the_textbook_one():
    # mean 4, standard deviation 1 of four values; t(0.975; 3) = 3.182
    found = t_interval([3.0, 5.0, 3.5, 4.5])
    half = 3.1824 * 0.9128709 / 2
    assert found == pytest.approx((4, 4 - half, 4 + half), abs=1e-4)
    assert found.half == pytest.approx(half, abs=1e-4)
    assert found.excludes(2) and not found.excludes(3)
    wider = t_interval([3.0, 5.0, 3.5, 4.5], 1 - 0.05 / 6)
    assert wider.half > 1.5 * found.half


def test_the_interval_of_a_median_leaves_out_as_many_values_as_it_may():
    # 10 values: 2 P(Bin(10, 1/2) <= 1) = 0.021, with <= 2 it is 0.109
    assert median_interval(range(10)) == (4.5, 1, 8)
    generator = torch.Generator().manual_seed(0)
    hits = 0
    for _ in range(400):
        values = torch.randn(20, generator=generator).exp().tolist()
        hits += not median_interval(values).excludes(1.0)
    assert 370 <= hits <= 400  # covers 95 % or more, whatever the distribution


def test_no_failures_in_few_runs_leave_a_large_probability_possible():
    assert most_failures(0, 2) == pytest.approx(1 - 0.05**0.5)
    assert most_failures(0, 100) == pytest.approx(3 / 100, rel=0.02)  # the rule of three
    assert most_failures(2, 2) == 1.0


def test_how_many_runs_a_difference_needs():
    assert runs_needed(1.0, 0.5) in (33, 34)  # the textbook's paired test, effect size 1/2
    assert runs_needed(1.0, 0.1) == pytest.approx(787, abs=2)  # (1.960 + 0.842)^2 * 100 + 2
    assert runs_needed(0.1, 10.0) == 2


def test_pairs_are_compared_seed_by_seed():
    scores = {
        (norm, 3e-3, seed): (False, 0.0, base + shift)
        for norm, base in (("none", 0.5), ("batch", 0.301), ("layer", 0.2), ("rms", 0.2))
        for seed, shift in ((0, 0.0), (1, 0.2 if norm != "rms" else -0.1))
    }
    table = Table(made_up(scores))
    pairs = {(p.first, p.second): p for p in table.pairs("digits", "loss")}
    assert len(pairs) == 6
    assert pairs["none", "layer"].difference.middle == pytest.approx(0.3)
    assert pairs["none", "layer"].decided  # although each of them varies by 0.2
    assert not pairs["layer", "rms"].decided
    assert table.best("digits", "loss") == [("layer", "rms"), ("rms",)]
    assert table.failures("digits")["none"] == {3e-3: (0, 2), 3e-2: (0, 0)}


# -- BatchNorm in a causal model -------------------------------------------------------------------


def ids(seed, batch=3, length=17):
    return torch.randint(90, (batch, length), generator=torch.Generator().manual_seed(seed))


def test_statistics_can_be_taken_from_elsewhere_and_the_model_is_left_as_it_was():
    model = fresh("text", "batch", 0)
    model.train()(ids(1))
    before = {name: t.clone() for name, t in model.state_dict().items()}
    momentum = [m.momentum for m in batch_norms(model)]
    found = bake_off.statistics_of(model, ids(2)[:, :-1])
    own = bake_off.loss_with(model, ids(2), found)
    assert all(torch.equal(t, before[n]) for n, t in model.state_dict().items() if "num" not in n)
    assert [m.momentum for m in batch_norms(model)] == momentum
    # with the batch's own statistics: training mode, but for the correction n / (n - 1)
    assert own == pytest.approx(model.train().loss(ids(2)).item(), rel=0.02)
    running = bake_off.loss_with(model, ids(2))
    assert running != pytest.approx(own, rel=1e-3)
    assert bake_off.statistics_of(model, ids(3)[:, :-1])[0][0].ne(found[0][0]).any()


def test_only_batchnorm_lets_the_last_character_move_the_earlier_ones():
    for norm in bake_off.NORMS:
        moved = bake_off.moved_by_the_last(fresh("text", norm, 0), ids(4))
        assert moved[-1] > 0.01
        assert (moved[:-1].min() > 1e-4) == (norm == "batch"), norm
        assert norm == "batch" or moved[:-1].max() == 0
