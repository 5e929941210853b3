"""The hidden suite of `scaling`: who gets no marks, what a mistake costs, what is refused.

What holds for every suite is in `test_every_suite.py`.
"""

from __future__ import annotations

import inspect

import pytest
import torch
from by_hand import outcome
from for_real import graded
from in_process import grade, load, score
from sklearn import preprocessing

import solutions.scaling.scaling as reference

POINTS = {
    "standardize": 4.0, "min_max_scale": 3.0, "whiten": 6.0, "saturated_fraction": 2.0,
    "activation_stds": 5.0,
}  # fmt: skip


# -- the reference ---------------------------------------------------------------------------------


def table(n: int = 60, d: int = 4) -> torch.Tensor:
    """Correlated features of different scale, (N, D), float64."""
    rng = torch.Generator().manual_seed(0)
    mixed = torch.randn(n, d, generator=rng).double() @ torch.randn(d, d, generator=rng).double()
    return mixed * torch.logspace(-1, 2, d).double() + 7


def test_points():
    suite = load("scaling")
    sums = {e: sum(t.points for t in suite.tests if t.exercise == e) for e in suite.exercises}
    assert sums == POINTS


def test_standardize_and_min_max_scale_are_those_of_scikit_learn():
    x = table()
    want = torch.from_numpy(preprocessing.StandardScaler().fit_transform(x.numpy()))
    torch.testing.assert_close(reference.standardize(x, 0, 0.0), want)
    want = torch.from_numpy(preprocessing.MinMaxScaler().fit_transform(x.numpy()))
    torch.testing.assert_close(reference.min_max_scale(x, 0), want)


def test_whitened_data_is_white_symmetric_and_nearest():
    x = table()
    centered = x - x.mean(0)
    y = reference.whiten(x, 1e-12)
    torch.testing.assert_close(y.T @ y / len(y), torch.eye(4).double(), rtol=0, atol=1e-8)
    cross = centered.T @ y / len(y)
    torch.testing.assert_close(cross, cross.T, rtol=0, atol=1e-8)  # the mark of ZCA
    for seed in range(20):  # any other white data is a rotation of y, and farther from x
        rng = torch.Generator().manual_seed(seed)
        turn = torch.linalg.qr(torch.randn(4, 4, generator=rng).double())[0]
        assert (y @ turn - centered).norm() > (y - centered).norm()


def test_stds_do_not_touch_the_global_random_state_and_follow_the_gain():
    state = torch.get_rng_state()
    ratios = [reference.activation_stds(20, 400, gain, 1).log().diff() for gain in (1.0, 2**0.5)]
    assert torch.equal(torch.get_rng_state(), state)
    assert ratios[0].mean().exp().item() == pytest.approx(0.5**0.5, rel=0.03)
    assert ratios[1].mean().exp().item() == pytest.approx(1.0, rel=0.03)


def test_saturation_of_known_numbers():
    z = torch.tensor([0.0, 1.0, -1.0, 4.0, -4.0, 40.0])  # slopes 0.25, 0.197, 0.0177, 4e-18
    got = [reference.saturated_fraction(z, t) for t in (0.25, 0.1, 0.01, 1e-20)]
    assert got == pytest.approx([5 / 6, 3 / 6, 1 / 6, 0])


# -- no marks --------------------------------------------------------------------------------------


def not_implemented(*args, **kwargs):
    raise NotImplementedError()


CHEATS = {
    "stub": not_implemented,
    "none": lambda *args: None,
    "the first argument": lambda x, *rest: x,
    "zeros": lambda x, *rest: torch.zeros_like(x) if torch.is_tensor(x) else torch.zeros(x),
    "ones": lambda x, *rest: torch.ones_like(x) if torch.is_tensor(x) else torch.ones(x).double(),
    "zero": lambda *args: 0.0,
    "one": lambda *args: 1.0,
    "a half": lambda *args: 0.5,
    "nan": lambda *args: torch.nan,
    "empty": lambda x, *rest: x[:0] if torch.is_tensor(x) else torch.zeros(0).double(),
    "a copy with mean 0": lambda x, *rest: x - x.mean(0, keepdim=True),
    "sigmoid": lambda x, *rest: torch.sigmoid(x),
    "noise": lambda x, *rest: torch.randn(x.shape if torch.is_tensor(x) else x).double(),
}


@pytest.mark.parametrize("cheat", CHEATS)
@pytest.mark.parametrize("exercise", POINTS)
def test_an_answer_without_the_work_gets_no_points(exercise, cheat):
    results = grade("scaling", {exercise: CHEATS[cheat]}, recognise=False)
    assert [r.test for r in results if r.points] == []
    if cheat == "stub":
        assert {r.verdict for r in results} == {"not-implemented"}


def test_deviations_that_do_not_depend_on_the_seed_get_no_points():
    def formula(depth, width, gain, seed):
        return 0.584 * gain * (gain / 2**0.5) ** torch.arange(depth, dtype=torch.float64)

    assert score(grade("scaling", {"activation_stds": formula})) == 0


# -- what a mistake costs --------------------------------------------------------------------------


def cost(exercise, function):
    results = grade("scaling", {exercise: function})
    lost = {r.test for r in results if not r.points}
    return POINTS[exercise] - score(results), lost


def test_pca_whitening_keeps_the_points_for_white_data():
    def pca(x, eps):
        h = x.float() if x.dtype.itemsize == 2 else x
        h = h - h.mean(0)
        values, vectors = torch.linalg.eigh(h.T @ h / len(h))
        return (h @ vectors / torch.sqrt(values + eps)).to(x.dtype)

    lost, tests = cost("whiten", pca)
    assert lost == 4.0 and not tests & {"test_mean_and_variances", "test_no_correlation"}


def test_an_unbiased_variance_costs_a_third_and_a_lost_digit_its_own_test():
    def unbiased(x, dim, eps):
        h = x.float() if x.dtype.itemsize == 2 else x
        var = h.var(dim, keepdim=True) if h.shape[dim] > 1 else h[:0]
        return ((h - h.mean(dim, keepdim=True)) / torch.sqrt(var + eps)).to(x.dtype)

    assert cost("standardize", unbiased)[0] <= 1.25

    def plain(z, threshold):
        s = torch.sigmoid(z.float())
        return (s * (1 - s) < threshold).float().mean().item()

    assert cost("saturated_fraction", plain) == (0.25, {"test_far_out"})


# -- what is to be written by hand -----------------------------------------------------------------

READY_MADE = {
    "layer norm": "torch.nn.functional.layer_norm(x, x.shape)",
    "batch norm": "torch.nn.BatchNorm1d(3)(x)",
    "scikit-learn": "sklearn.preprocessing.StandardScaler().fit_transform(x)",
    "scikit-learn's PCA": "sklearn.decomposition.PCA(whiten=True).fit_transform(x)",
    "z scores": "scipy.stats.zscore(x)",
}
OWN_WORK = {
    "statistics": "torch.var_mean(x, 0)[0] + x.std(0) + x.amax(0) + torch.aminmax(x).max",
    "linear algebra": "torch.linalg.eigh(x)[1] @ torch.linalg.svd(x)[0] + torch.cov(x)",
    "layers": "torch.nn.functional.linear(torch.relu(x), torch.nn.Linear(3, 3).weight)",
    "unit vectors": "torch.nn.functional.normalize(x)",
}


def called(expression, before=""):
    names = ("scipy.stats", "sklearn.preprocessing", "sklearn.decomposition")
    imports = "".join(f"import {name}\n" for name in names if name in expression)
    source = f"{imports}{before}def standardize(x, dim, eps):\n    return {expression}\n"
    x = torch.tensor([[1.0, 5.0, 2.0], [3.0, 0.0, 4.0], [2.0, 1.0, -4.0]])
    return outcome("scaling", "standardize", source, x, 0, 1e-5)


@pytest.mark.parametrize("spelling", READY_MADE)
def test_a_ready_made_scaler_is_refused(spelling):
    assert called(READY_MADE[spelling]).refused


@pytest.mark.parametrize("spelling", OWN_WORK)
def test_the_learners_own_work_is_not_taken_for_a_ready_made_scaler(spelling):
    assert called(OWN_WORK[spelling]).quiet


def test_a_package_is_refused_where_it_is_called_and_not_where_it_is_loaded():
    late = "torch.tensor(importlib.import_module('scipy.stats').zscore(x.numpy()))"
    assert called(late, "import importlib\n").refused == "scipy.stats"
    loaded = "x if importlib.import_module('scipy.stats') else None"
    assert called(loaded, "import importlib\n").quiet
    compared = "import sklearn.preprocessing as s\ns.StandardScaler().fit(torch.ones(3, 3))\n"
    assert called("x - x.mean(dim)", compared).quiet


# -- through notebook, sandbox and worker ----------------------------------------------------------


def test_for_real_a_right_solution_gets_full_marks_and_a_person_gets_the_questions(tmp_path):
    cells = {name: inspect.getsource(vars(reference)[name]) for name in POINTS}
    answers = dict.fromkeys(
        ["written_units", "written_whitening"], "def standardize(x, dim, eps): return x"
    )
    _, result = graded("scaling", tmp_path, cells | answers)
    assert (result["score"], result["max_score"]) == (20.0, 20.0)
    assert result["review"] == []
    assert [n for n in result["notices"] if "a person grades 2 written questions" in n]
