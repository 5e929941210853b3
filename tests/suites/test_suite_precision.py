"""The hidden suite of `precision`: who gets no marks, what a mistake costs, what is refused.

What holds for every suite is in `test_every_suite.py`.
"""

from __future__ import annotations

import inspect

import pytest
import torch
from by_hand import outcome
from for_real import graded
from in_process import grade, load, score
from torch.nn import functional as F

import solutions.precision.precision as reference
from autograder import forbidden, release
from autograder.reading import submission
from autograder.suites.precision import test_one_pass_var as one_pass

POINTS = release.points("precision")
VARIANCES = ("one_pass_var", "two_pass_var")
NORMS = ("layer_norm_low_precision", "prescaled_layer_norm")


def passed(exercise, implementation):
    results = grade("precision", {exercise: implementation}, recognise=False)
    return {r.test for r in results if r.points}


def lost(exercise, implementation):
    results = grade("precision", {exercise: implementation}, recognise=False)
    return {r.test for r in results if r.verdict != "pass"}


# -- what is expected ----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_reference_is_what_torch_computes(dtype):
    x = 3 + torch.randn(4, 5, 9, dtype=dtype)
    want = x.var(-1, correction=0)
    for var in (
        reference.one_pass_var(x),
        reference.two_pass_var(x),
        reference.welford(x)[1],
    ):
        torch.testing.assert_close(var, want, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(reference.welford(x)[0], x.mean(-1))
    torch.testing.assert_close(
        reference.prescaled_layer_norm(x, 0.3), F.layer_norm(x, (9,), eps=0.3)
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_the_reference_for_half_types_is_what_torch_computes(dtype):
    x = (3 + 2 * torch.randn(40, 64)).to(dtype)
    weight, bias = torch.randn(2, 64).to(dtype).unbind()
    got = reference.layer_norm_low_precision(x, weight, bias, 1e-5)
    want = F.layer_norm(x, (64,), weight, bias, 1e-5)
    torch.testing.assert_close(got, want, rtol=2 * torch.finfo(dtype).eps, atol=1e-5)


@pytest.mark.parametrize(
    ("rows", "dtype"),
    [(one_pass.CANCELLED, torch.float32), (one_pass.CANCELLED_BFLOAT16, torch.bfloat16)],
    ids=["float32", "bfloat16"],
)
def test_the_cancelled_variances_do_not_depend_on_how_the_formula_is_written(rows, dtype):
    x, want = one_pass.cancelled(torch.Generator().manual_seed(3), rows, dtype)
    d = x.shape[-1]
    ways = {
        "means": x.square().mean(-1) - x.mean(-1).square(),
        "sums": (x * x).sum(-1) / d - (x.sum(-1) / d) ** 2,
        "backwards": (x.flip(-1) ** 2).sum(-1) / d - (x.flip(-1).sum(-1) / d) ** 2,
        "einsum": torch.einsum("...d,...d->...", x, x) / d - x.mean(-1) ** 2,
        "matmul": (x[..., None, :] @ x[..., None])[..., 0, 0] / d - x.mean(-1) ** 2,
        "loop": sum(c * c for c in x.unbind(-1)) / d - (sum(x.unbind(-1)) / d) ** 2,
    }
    for way, got in ways.items():
        assert torch.equal(got, want), way
    right = x.double().var(-1, correction=0)
    assert (right > 0).all() and ((want - right).abs() > right).all()


# -- no marks ------------------------------------------------------------------------------------


def not_implemented(*args, **kwargs):
    raise NotImplementedError()


CHEATS = {
    "stub": not_implemented,
    "none": lambda x, *rest: None,
    "the input": lambda x, *rest: x,
    "zeros": lambda x, *rest: torch.zeros_like(x),
    "a number": lambda x, *rest: 1.0,
    "noise": lambda x, *rest: torch.randn_like(x.float()).to(x.dtype),
    "nan": lambda x, *rest: torch.full_like(x, torch.nan),
    "empty": lambda x, *rest: x[..., :0],
}


@pytest.mark.parametrize("cheat", CHEATS)
@pytest.mark.parametrize("exercise", VARIANCES)
def test_a_variance_that_is_none_gets_no_points(exercise, cheat):
    def reduced(x):
        found = CHEATS[cheat](x)
        whole = isinstance(found, torch.Tensor) and found.shape == x.shape
        return found[..., 0] if whole else found

    assert passed(exercise, reduced) == set()


@pytest.mark.parametrize("cheat", CHEATS)
def test_a_pair_that_is_not_mean_and_variance_gets_no_points(cheat):
    def pair(x):
        found = CHEATS[cheat](x)
        whole = isinstance(found, torch.Tensor) and found.shape == x.shape
        found = found[..., 0] if whole else found
        return found, found

    assert passed("welford", pair) == set()


@pytest.mark.parametrize("cheat", sorted(set(CHEATS) - {"zeros"}))
@pytest.mark.parametrize("exercise", NORMS)
def test_a_norm_that_is_none_gets_no_points(exercise, cheat):
    assert passed(exercise, CHEATS[cheat]) == set()


def test_zeros_pass_as_a_norm_only_where_zeros_are_right():
    assert passed("layer_norm_low_precision", CHEATS["zeros"]) == set()
    assert passed("prescaled_layer_norm", CHEATS["zeros"]) == {"test_zeros_and_constants"}


COMBINING_CHEATS = {
    "stub": not_implemented,
    "none": lambda a, b: None,
    "a count": lambda a, b: a[0] + b[0],
    "zeros": lambda a, b: (a[0] + b[0], torch.zeros_like(a[1]), torch.zeros_like(a[2])),
    "too few": lambda a, b: (a[0] + b[0], a[1]),
    "the longer one": lambda a, b: max(a, b, key=lambda piece: piece[0]),
}


@pytest.mark.parametrize("cheat", COMBINING_CHEATS)
def test_pieces_that_are_not_combined_get_no_points_but_for_empty_ones(cheat):
    right_for_empty = {"test_empty_pieces"} if cheat == "the longer one" else set()
    assert passed("combine_moments", COMBINING_CHEATS[cheat]) == right_for_empty


# -- what a mistake costs --------------------------------------------------------------------------


def test_the_textbook_variance_keeps_the_points_of_numbers_near_zero_in_exercise_2():
    def one_pass_wide(x):
        x = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
        return reference.one_pass_var(x)

    assert lost("two_pass_var", one_pass_wide) == {"test_large_mean", "test_half_types"}


def test_a_right_variance_loses_the_points_of_the_failure_in_exercise_1():
    def accurate(x):
        return reference.two_pass_var(x).to(x.dtype)

    assert lost("one_pass_var", accurate) == {
        "test_cancels_in_float32",
        "test_half_types_are_not_widened",
    }


def test_squares_widened_and_rounded_are_seen_where_only_their_mean_fits():
    def widened(x):
        wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
        return wide.square().mean(-1).to(x.dtype) - x.mean(-1).square()

    assert lost("one_pass_var", widened) == {"test_half_types_are_not_widened"}


def test_a_norm_that_is_multiplied_out_loses_the_last_digits_of_numbers_far_from_zero():
    def multiplied_out(x, weight, bias, eps):
        h = x.float()
        mean = h.mean(-1, keepdim=True)
        rstd = torch.rsqrt((h - mean).square().mean(-1, keepdim=True) + eps)
        y = h * rstd - mean * rstd
        y = y if weight is None else y * weight
        return (y if bias is None else y + bias).to(x.dtype)

    assert lost("layer_norm_low_precision", multiplied_out) == {"test_float32_to_the_last_digits"}


def test_welfords_mean_is_exact_enough_for_the_last_digits_of_numbers_far_from_zero():
    def by_welford(x, weight, bias, eps):
        mean, var = (t.unsqueeze(-1) for t in reference.welford(x))
        y = (x.float() - mean) * torch.rsqrt(var + eps)
        y = y if weight is None else y * weight
        return (y if bias is None else y + bias).to(x.dtype)

    cost = lost("layer_norm_low_precision", by_welford)
    assert "test_float32_to_the_last_digits" not in cost


def _scaled(x):
    s = x.abs().amax(-1, keepdim=True).clamp(min=1)
    h = x / s - (x / s).mean(-1, keepdim=True)
    return h, h.square().mean(-1, keepdim=True), s


@pytest.mark.parametrize("size", [0.0, 1.0, 2.0**40, 2.0**100, 2.0**127])
def test_the_reference_has_finite_gradients_for_constant_vectors_of_any_size(size):
    x = torch.full((2, 8), size, requires_grad=True)
    y = reference.prescaled_layer_norm(x, 1e-5)
    (grad,) = torch.autograd.grad(y, x, torch.randn(2, 8))
    assert torch.equal(y, torch.zeros(2, 8)) and grad.isfinite().all()


def test_a_lower_limit_of_the_scaled_eps_that_is_small_and_not_small_enough_is_seen():
    def limited(x, eps):
        h, var, s = _scaled(x)
        return h / torch.sqrt(var + (eps / s**2).clamp(min=1e-12))

    assert lost("prescaled_layer_norm", limited) == {"test_large_mean_and_last_digits"}


def test_sums_that_are_divided_afterwards_are_told_that_other_numbers_are_rounded():
    def of_sums(x):
        d = x.shape[-1]
        return ((x * x).sum(-1) - x.sum(-1) ** 2 / d) / d

    results = grade("precision", {"one_pass_var": of_sums})
    named = {r.test: r.named for r in results if r.verdict != "pass"}
    assert named["test_cancels_in_float32"] == "clamped-or-of-sums"


def test_a_clamped_variance_loses_the_points_of_the_failure_in_exercise_1():
    def clamped(x):
        return reference.one_pass_var(x).clamp(min=0)

    results = grade("precision", {"one_pass_var": clamped})
    assert {r.named for r in results if r.verdict != "pass"} == {"clamped-or-of-sums"}


def test_half_types_left_alone_cost_the_tests_about_half_types_only():
    def in_half(x, weight, bias, eps):
        centered = x - x.mean(-1, keepdim=True)
        y = centered * torch.rsqrt(centered.square().mean(-1, keepdim=True) + eps)
        y = y if weight is None else y * weight
        return (y if bias is None else y + bias).to(x.dtype)

    assert lost("layer_norm_low_precision", in_half) == {
        "test_large_numbers",
        "test_small_numbers",
        "test_large_mean",
        "test_rounded_once",
    }


def test_a_scale_without_its_eps_costs_the_tests_where_eps_counts():
    def same_eps(x, eps):
        s = x.abs().amax(-1, keepdim=True).clamp(min=1)
        return F.layer_norm(x / s, x.shape[-1:], eps=eps)

    assert "test_eps_is_scaled_along" in lost("prescaled_layer_norm", same_eps)

    def not_scaled(x, eps):
        centered = x - x.mean(-1, keepdim=True)
        return centered * torch.rsqrt(centered.square().mean(-1, keepdim=True) + eps)

    assert {"test_zeros_and_constants", "test_huge_float64"} >= (
        lost("prescaled_layer_norm", not_scaled) - {"test_huge_float32"}
    )


# -- what is to be written by hand -----------------------------------------------------------------

READY_MADE = {
    "var": "torch.var(x, -1, correction=0)",
    "method": "x.var(-1, correction=0)",
    "std": "x.std(-1, correction=0) ** 2",
    "var_mean": "torch.var_mean(x, -1, correction=0)[0]",
    "getattr": "getattr(torch, 'va' + 'r')(x, -1)",
    "operator": "torch.ops.aten.var.correction(x, [-1], correction=0)",
    "covariance": "torch.cov(x)",
    "layer norm": "F.layer_norm(x, x.shape[-1:])",
    "group norm": "torch.group_norm(x, 1)",
    "module": "torch.nn.LayerNorm(4)(x)",
    "statistics": "torch.tensor([statistics.pvariance(row) for row in x.tolist()])",
    "an array's": "torch.tensor(np.var(x.numpy(), -1))",
    "standard deviation of an array": "torch.tensor(np.std(x.numpy(), -1))",
    "of a masked array": "torch.tensor(np.ma.masked_array(x.numpy()).var(-1).data)",
    "described": "torch.tensor(scipy.stats.describe(x.numpy(), -1, ddof=0).variance)",
    "scaler": "torch.tensor(sklearn.preprocessing.StandardScaler().fit(x.T).var_)",
    "masked": "torch.masked.var(x, -1, unbiased=False)",
}
OWN_WORK = {
    "means": "x.square().mean(-1) - x.mean(-1).square()",
    "deviations": "(x - x.mean(-1, keepdim=True)).pow(2).mean(-1)",
    "a variable called var": "own_var(x)",
    "largest": "x.abs().amax(-1, keepdim=True)",
}


def called(name, expression):
    names = ("statistics", "scipy.stats", "sklearn.preprocessing")  # the last two take seconds
    imports = "\n".join(f"import {name}" for name in names if name in expression)
    source = f"""{imports}
import numpy as np
import torch
import torch.nn.functional as F
def own_var(x): return x
def {name}(x, *more):
    return {expression}
"""
    return outcome(
        "precision", name, source, torch.tensor([[1.0, 5.0, 2.0, 4.0], [3.0, 0.0, 4.0, 4.0]])
    )


@pytest.mark.parametrize("spelling", READY_MADE)
@pytest.mark.parametrize("name", ["two_pass_var", "welford", "layer_norm_low_precision"])
def test_a_ready_made_variance_or_norm_is_noticed_in_every_spelling(name, spelling):
    assert called(name, READY_MADE[spelling]).noticed


@pytest.mark.parametrize("spelling", OWN_WORK)
@pytest.mark.parametrize("name", sorted(set(POINTS) - {"welford"}))
def test_the_learners_own_work_is_not_taken_for_a_ready_made_variance(name, spelling):
    assert called(name, OWN_WORK[spelling]).quiet


@pytest.mark.parametrize(
    "expression",
    [
        "x.mean(-1)", "torch.sum(x, -1)", "x.cumsum(-1)", "torch.einsum('...d->...', x)",
        "x @ torch.ones(4)", "x.inner(torch.ones(4))", "F.linear(x, torch.ones(1, 4))",
        "x.sum_to_size(2, 1)", "torch.fft.fft(x).real[..., 0]",
        "F.conv1d(x[:, None], torch.ones(1, 1, 4))", "F.mse_loss(x, 0 * x)",
        "torch.zeros(2, 1).index_add(-1, torch.zeros(4).long(), x)",
    ],
)  # fmt: skip
def test_a_reduction_over_the_features_is_refused_in_welford_only(expression):
    assert called("welford", expression).refused
    assert called("two_pass_var", expression).quiet


ONE_LOOP = {
    "its own": "for k in range(9):\n        pass",
    "columns": "parts = [c for c in x.unbind(-1)]\n    while parts:\n        parts.pop()",
    "a helper": "step(x)",
    "numbers in rows": "for row in x:\n        for value in row:\n            pass",
    "numbers by index": "for r in range(len(x)):\n        for k in range(9):\n            x[r, k]",
    "a generator": "for value in columns(x):\n        pass",
    "a print": "for k in range(9):\n        pass\n    for v in x:\n        print(v.shape)",
}
TWO_LOOPS = {
    "after another": "for k in range(9):\n        pass\n    for k in range(9):\n        pass",
    "two rounds": "for k in range(2):\n        for value in x:\n            pass",
    "rounds by name": "for k in (0, n):\n        for value in x:\n            x[k]",
    "the same twice": "for row in [x, x]:\n        for value in row:\n            pass",
    "so many rounds": "for k in range(n):\n        for value in x:\n            pass",
    "two inside": "for row in x:\n        for v in row:\n            pass\n        for v in row:\n"
    "            pass",
    "a generator's and two": "for value in columns(x):\n        pass\n    while x:\n        pass",
    "a generator used up": "list(columns(x))\n    while x:\n        pass",
    "a print of a sum": "for v in x:\n        print(m.add_(v))\n    while x:\n        pass",
    "a sum": "mean = sum(x.unbind(-1))\n    for k in range(9):\n        pass",
    "a helper": "for k in range(9):\n        step(x)",
}


def second_loops(body):
    helper = "def step(x):\n    while x:\n        x = step(x)\n"
    helper += "def columns(x):\n    for c in x:\n        yield c\n"
    source = f"{helper}def welford(x):\n    {body}\n    return x\n"
    cell = submission.Cell(index=4, origin="solution", grade_id="welford", source=source)
    return forbidden.find([cell], list(POINTS), load("precision").one_loop)


@pytest.mark.parametrize("body", ONE_LOOP)
def test_one_loop_over_the_features_is_what_welford_asks_for(body):
    assert second_loops(ONE_LOOP[body]) == []


@pytest.mark.parametrize("body", TWO_LOOPS)
def test_a_second_loop_in_welford_is_shown_to_a_person(body):
    (found,) = second_loops(TWO_LOOPS[body])
    assert (found.exercise, found.cell_index, found.detail) == ("welford", 4, "a second loop")


# -- through notebook, sandbox and worker --------------------------------------------------------


def test_for_real_a_right_solution_gets_full_marks_and_a_listing_is_told_its_mistake(tmp_path):
    listing = """
def two_pass_var(x):
    if x.dtype in (torch.float16, torch.bfloat16):
        x = x.float()
    return (x * x).mean(dim=-1) - x.mean(dim=-1) ** 2
"""
    cells = {name: inspect.getsource(vars(reference)[name]) for name in POINTS}
    _, right = graded("precision", tmp_path, cells)
    exercises, listed = graded("precision", tmp_path, cells | {"two_pass_var": listing})
    assert (right["score"], right["review"]) == (25, [])
    tests = {t["name"]: t for t in exercises["two_pass_var"]["tests"]}
    assert tests["test_large_mean"]["misconception"] == "one-pass"
    assert tests["test_one_vector"]["verdict"] == "pass"
    assert listed["score"] == 24


def test_for_real_two_loops_are_told_and_a_changed_piece_costs_its_test(tmp_path):
    twice = """
def welford(x):
    x = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    mean = var = torch.zeros_like(x[..., 0])
    for column in x.unbind(-1):
        mean = mean + column / x.shape[-1]
    for column in x.unbind(-1):
        var = var + (column - mean) ** 2 / x.shape[-1]
    return mean, var
"""
    in_place = """
def combine_moments(a, b):
    if a[0] * b[0] == 0:
        return a if b[0] == 0 else b
    (n, mean, m2), (m, mean_b, m2_b) = a, b
    delta = mean_b - mean
    m2 += m2_b + delta**2 * n * m / (n + m)
    mean += delta * m / (n + m)
    return n + m, mean, m2
"""
    cells = {"welford": twice, "combine_moments": in_place}
    exercises, result = graded("precision", tmp_path, cells)
    assert [(f["exercise"], f["kind"], f["line"]) for f in result["review"]] == [
        ("welford", "suspicious", 7)
    ]
    changed = {t["name"]: t for t in exercises["combine_moments"]["tests"]}
    assert changed.pop("test_pieces_are_not_changed")["misconception"] == "pieces-changed"
    assert {t["verdict"] for t in changed.values()} == {"pass"}


def test_nothing_of_a_submission_is_needed_but_torch():
    names = {name for name, value in vars(reference).items() if inspect.ismodule(value)}
    assert names == {"torch"}


def test_the_points_are_those_of_the_table():
    assert score(grade("precision", vars(reference))) == sum(POINTS.values()) == 25
