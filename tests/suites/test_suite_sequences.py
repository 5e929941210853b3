"""The hidden suite of `sequences`: who gets no marks, what a mistake costs, what is refused."""

from __future__ import annotations

import inspect

import pytest
import torch
from by_hand import outcome
from for_real import graded
from in_process import grade, load, score
from torch.nn import functional as F

import solutions.sequences.sequences as reference
from autograder.suites.sequences import inputs

EXERCISES = ["padding_mask", "masked_mean_var", "masked_batch_norm", "running_stat_distance"]


def lost(results):
    return {r.test for r in results if r.verdict != "pass"}


# -- the reference is torch's ----------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(9, 4), (3, 7, 4), (2, 3, 5, 4)], ids=str)
def test_the_reference_gives_what_torch_makes_of_the_packed_tokens(shape):
    rng = torch.Generator().manual_seed(0)
    x, mask = inputs.sentences(rng, *shape).double(), inputs.holes(rng, *shape[:-1])
    weight, bias = inputs.affine(rng, 4, torch.float64)
    y = reference.masked_batch_norm(x, mask, weight, bias, 0.02)
    want = F.batch_norm(x[mask], None, None, weight, bias, training=True, eps=0.02)
    torch.testing.assert_close(y[mask], want)
    assert y[~mask].abs().max() == 0
    assert torch.autograd.gradcheck(
        lambda *t: reference.masked_batch_norm(t[0], mask, *t[1:], 0.02),
        [t.requires_grad_() for t in (x, weight, bias)],
    )


def test_the_reference_distance_is_that_from_the_running_statistics_of_torch():
    rng = torch.Generator().manual_seed(0)
    batches = [inputs.sentences(rng, 50, 6).double() for _ in range(5)]
    means, variances = reference.running_stat_distance(batches)
    norm = torch.nn.BatchNorm1d(6, momentum=0.1).double()
    norm.running_mean, norm.running_var = batches[0].mean(0), batches[0].var(0)
    for batch, distance, of_variance in zip(batches[1:], means, variances, strict=True):
        apart = (batch.mean(0) - norm.running_mean).norm() / 6
        torch.testing.assert_close(distance, apart)
        unbiased = (batch.var(0) - norm.running_var).norm() / 6  # torch remembers this one
        torch.testing.assert_close(of_variance * 50 / 49, unbiased)
        norm(batch)


# -- no marks --------------------------------------------------------------------------------------


def not_implemented(*args, **kwargs):
    raise NotImplementedError()


def refuse(*args, **kwargs):
    raise ValueError("no")


CHEATS = {
    "padding_mask": {
        "stub": not_implemented,
        "none": lambda lengths, max_len: None,
        "refusing everything": refuse,
        "all real": lambda lengths, max_len: torch.ones(len(lengths), max_len) > 0,
        "all padding": lambda lengths, max_len: torch.zeros(len(lengths), max_len) > 0,
    },
    "masked_mean_var": {
        "stub": not_implemented,
        "none": lambda x, mask: None,
        "refusing everything": refuse,
        "zero and one": lambda x, mask: (torch.zeros(x.shape[-1]), torch.ones(x.shape[-1])),
        "nan": lambda x, mask: (x.new_full(x.shape[-1:], torch.nan),) * 2,
    },
    "masked_batch_norm": {
        "stub": not_implemented,
        "none": lambda x, mask, *rest: None,
        "refusing everything": refuse,
        "the input": lambda x, mask, *rest: x,
        "zeros": lambda x, mask, *rest: torch.zeros_like(x),
        "noise": lambda x, mask, *rest: torch.randn_like(x.float()).to(x.dtype),
        "nan": lambda x, mask, *rest: torch.full_like(x, torch.nan),
        "only the masking": lambda x, mask, *rest: x.masked_fill(~mask[..., None], 0),
        "layer norm": lambda x, mask, w, b, e: (
            F.layer_norm(x.float(), x.shape[-1:], w.float(), b.float(), e)
            .masked_fill(~mask[..., None], 0)
            .to(x.dtype)
        ),
    },
    "running_stat_distance": {
        "stub": not_implemented,
        "none": lambda batches: None,
        "refusing everything": refuse,
        "zeros": lambda batches: (torch.zeros(len(batches) - 1),) * 2,
        "ones": lambda batches: (torch.ones(len(batches) - 1),) * 2,
    },
}
CASES = [(exercise, cheat) for exercise in EXERCISES for cheat in CHEATS[exercise]]


@pytest.mark.parametrize(("exercise", "cheat"), CASES, ids=[f"{e}: {c}" for e, c in CASES])
def test_what_does_not_try_gets_no_points(exercise, cheat):
    results = grade("sequences", {exercise: CHEATS[exercise][cheat]}, recognise=False)
    assert [r.test for r in results if r.points] == []


# -- what a mistake costs --------------------------------------------------------------------------


def test_a_batch_norm_without_a_mask_keeps_the_points_of_unpadded_batches_only():
    def unmasked(x, mask, weight, bias, eps):
        if mask.sum() < 2:
            raise ValueError("too few")
        h = x.float() if x.dtype.itemsize == 2 else x
        y = F.batch_norm(h.flatten(0, -2), None, None, weight, bias, training=True, eps=eps)
        return y.reshape(x.shape).to(x.dtype)

    results = grade("sequences", {"masked_batch_norm": unmasked})
    kept = {r.test for r in results if r.points}
    assert kept == {"test_no_padding"}
    assert {r.named for r in results if r.named} >= {"padding-counted"}


def test_a_bias_left_in_the_padding_costs_the_tests_about_padding_only():
    def bias_left(x, mask, weight, bias, eps):
        zero = torch.zeros_like(x)
        y = reference.masked_batch_norm(x, mask, weight, bias, eps)
        return torch.where(mask[..., None], y, zero + bias.to(x.dtype))

    results = grade("sequences", {"masked_batch_norm": bias_left})
    assert lost(results) == {
        "test_padding_comes_out_as_zero", "test_gradient_flows", "test_gradient_flows_in_bfloat16",
    }  # fmt: skip
    assert score(results) == 5.75


def test_a_right_mean_with_a_wrong_variance_keeps_the_points_of_the_mean():
    def of_all_places(x, mask):
        mean, var = reference.masked_mean_var(x, mask)
        return mean, var * mask.sum() / mask.numel()

    results = grade("sequences", {"masked_mean_var": of_all_places})
    assert {r.test for r in results if r.points} >= {"test_mean_without_padding"}
    assert {r.named for r in results if r.verdict == "wrong"} == {"variance-divided-by-all-places"}


def test_a_mask_of_floats_costs_a_quarter_of_a_point():
    results = grade(
        "sequences", {"padding_mask": lambda n, m: reference.padding_mask(n, m).float()}
    )
    assert lost(results) == {"test_dtype"} and score(results) == 2.75


# -- small changes, by hand where the machine finds few -------------------------------------------

MASK = [
    ("(lengths < 0) | ", ""),
    (" | (lengths > max_len)", ""),
    ("lengths < 0)", "lengths <= 0)"),
    ("lengths < 0)", "lengths < -1)"),
    ("lengths < 0)", "lengths > 0)"),
    ("> max_len)", ">= max_len)"),
    ("> max_len)", "> max_len + 1)"),
    ("> max_len)", "< max_len)"),
    (") | (", ") & ("),
    ("any():", "all():"),
    ("if (", "if not ("),
    ("ValueError", "TypeError"),
    ("ValueError", "IndexError"),
    ("raise ValueError", "return ValueError"),
    ("arange(max_len", "arange(max_len + 1"),
    ("arange(max_len", "arange(max_len - 1"),
    ("arange(max_len", "arange(1, max_len + 1"),
    ("arange(max_len", "arange(int(lengths.max())"),
    ("arange(max_len", "zeros(max_len"),
    ("arange(max_len", "ones(max_len"),
    ("arange(max_len, device=lengths.device)", "arange(max_len).flip(0)"),
    ("position < lengths", "position <= lengths"),
    ("position < lengths", "position > lengths"),
    ("position < lengths", "position == lengths"),
    ("position < lengths", "position != lengths"),
    ("position < lengths", "position >= lengths"),
    ("lengths[:, None]", "lengths.max()"),
    ("lengths[:, None]", "lengths[:1, None]"),
    ("lengths[:, None]", "lengths[None, :]"),
    ("lengths[:, None]", "lengths.flip(0)[:, None]"),
    ("lengths[:, None]", "lengths.sort()[0][:, None]"),
    ("return position", "position"),
    ("lengths[:, None]", "lengths[:, None].clamp(min=1)"),
    ("position < lengths[:, None]", "(position < lengths[:, None]).long()"),
]
STATISTICS = [
    ("x[mask]", "x[~mask]"),
    ("x[mask]", "x[mask].relu()"),
    ("== 0:", "== 1:"),
    ("len(tokens)", "len(x)"),
    ("x[mask]", "x[mask][1:]"),
    ("x[mask]", "x[mask][:1]"),
    ("x[mask]", "x[mask].round()"),
    ("mean = tokens.mean(dim=0)", "mean = tokens.median(dim=0).values"),
    ("return mean, var", "return var, mean"),
    ("return mean, var", "return mean, mean"),
    (".square()", ".abs()"),
    ("ValueError", "TypeError"),
]


@pytest.mark.parametrize(
    ("name", "changes"), [("padding_mask", MASK), ("masked_mean_var", STATISTICS)]
)
def test_small_changes_by_hand_are_noticed(name, changes):
    source, survivors = inspect.getsource(vars(reference)[name]), []
    head, body = source.split("### BEGIN SOLUTION")
    for old, new in changes:
        assert old in body, old
        space = dict(vars(reference))
        exec(head + body.replace(old, new, 1), space)
        results = grade("sequences", {name: space[name]}, recognise=False)
        if score(results) == sum(t.points for t in load("sequences").tests if t.exercise == name):
            survivors.append((old, new))
    assert survivors == []
    assert len(changes) >= (30 if name == "padding_mask" else 10)


# -- what is to be written by hand -----------------------------------------------------------------

READY_MADE = {
    "functional": "F.batch_norm(x, None, None, training=True)",
    "module": "nn.BatchNorm1d(8)(x)",
    "native": "torch.native_batch_norm(x, w, b, None, None, True, 0.1, e)[0]",
    "aten": "torch.ops.aten.native_batch_norm(x, w, b, None, None, True, 0.1, e)[0]",
    "getattr": "getattr(F, 'batch_norm')(x, None, None)",
    "instance norm": "F.instance_norm(x[None])",
    "layer norm": "F.layer_norm(x.t(), (8,))",
}
OWN_WORK = {
    "statistics": "torch.var_mean(x[m], 0, correction=0)[0] + x.std()",
    "the learner's own": "masked_mean_var(x, m)[0]",
    "masking": "torch.where(m[..., None], x, 0.0).masked_fill(~m[..., None], 0)",
}


def called(name, expression):
    source = f"""import torch
import torch.nn.functional as F
from torch import nn
def masked_mean_var(x, m): return x, m
def {name}(x, m, w, b, e):
    return {expression}
"""
    x, m = torch.linspace(-2, 3, 64).reshape(8, 8), torch.arange(8) < 5
    return outcome("sequences", name, source, x, m, torch.ones(8), torch.zeros(8), 1e-5)


@pytest.mark.parametrize("spelling", READY_MADE)
@pytest.mark.parametrize("name", ["masked_batch_norm", "running_stat_distance"])
def test_a_ready_made_norm_is_noticed_in_every_spelling(name, spelling):
    assert called(name, READY_MADE[spelling]).noticed


@pytest.mark.parametrize("spelling", OWN_WORK)
def test_the_learners_own_work_is_not_taken_for_a_ready_made_norm(spelling):
    assert called("masked_batch_norm", OWN_WORK[spelling]).quiet


# -- through notebook, sandbox and worker ----------------------------------------------------------

# As published in a repository for translation: statistics from the real tokens, but one-pass, with
# eps as a lower limit, and with the padding normalized like a token.
PUBLISHED = """
def masked_batch_norm(x, mask, weight, bias, eps):
    tokens = x[mask]
    size = tokens.shape[0]
    if size < 2:
        raise ValueError("size")
    total, squares = tokens.sum(0), (tokens ** 2).sum(0)
    mean = total / size
    var = (squares - total * mean) / size
    return (x - mean) * (var.clamp(eps) ** -0.5 * weight) + bias
"""


def test_for_real_a_right_solution_gets_full_marks(tmp_path):
    cells = {name: inspect.getsource(vars(reference)[name]) for name in EXERCISES}
    _, result = graded("sequences", tmp_path, cells)
    assert result["review"] == []
    assert sum(e["score"] for e in result["exercises"] if e["name"] in EXERCISES) == 20


def test_for_real_published_code_loses_the_tests_about_its_differences(tmp_path):
    exercises, _ = graded("sequences", tmp_path, {"masked_batch_norm": PUBLISHED})
    tests = {t["name"]: t for t in exercises["masked_batch_norm"]["tests"]}
    wrong = {name.removeprefix("test_") for name, t in tests.items() if t["verdict"] != "pass"}
    assert {"padding_comes_out_as_zero", "eps", "precision", "half_types"} <= wrong
    assert tests["test_statistics_of_the_real_tokens"]["verdict"] == "pass"
    assert 0 < exercises["masked_batch_norm"]["score"] < 7
    assert {t["verdict"] for t in exercises["padding_mask"]["tests"]} == {"not-implemented"}
