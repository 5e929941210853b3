"""The hidden suite of `batchnorm`: who gets no marks, what a mistake costs, what is refused."""

from __future__ import annotations

import inspect

import pytest
import torch
from alternatives.batchnorm import module
from by_hand import outcome
from for_real import graded
from in_process import grade, score
from torch import nn
from torch.nn import functional as F

import solutions.batchnorm.batchnorm as reference
from autograder.suites.batchnorm import inputs

EXERCISES = ["batch_norm", "BatchNorm", "batch_norm_backward", "fold_batch_norm"]


def not_implemented(*args, **kwargs):
    raise NotImplementedError()


# -- the reference is torch's ----------------------------------------------------------------------


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("shape", [(7, 3), (2, 3), (4, 3, 5), (2, 3, 4, 5), (1, 3, 2, 2)], ids=str)
def test_the_reference_agrees_with_torch(shape, training):
    rng = torch.Generator().manual_seed(0)
    x = inputs.batch(rng, *shape, dtype=torch.float64)
    (weight, bias), ours = inputs.affine(rng, 3, torch.float64), inputs.seasoned(rng, 3)
    ours = [t.double() for t in ours]
    theirs = [t.clone() for t in ours]
    want = F.batch_norm(x, *theirs, weight, bias, training, 0.3, 0.02)
    got = reference.batch_norm(x, weight, bias, *ours, training, 0.3, 0.02)
    torch.testing.assert_close(got, want)
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("shape", [(7, 3), (2, 3), (4, 3, 5), (2, 3, 4, 5)], ids=str)
def test_the_reference_backward_agrees_with_autograd(shape):
    rng = torch.Generator().manual_seed(0)
    x = inputs.batch(rng, *shape, dtype=torch.float64).requires_grad_()
    weight, bias = (t.requires_grad_() for t in inputs.affine(rng, 3, torch.float64))
    g = inputs.upstream(rng, x.detach(), torch.float64)
    y = F.batch_norm(x, None, None, weight, bias, True, 0.0, 0.3)
    want = torch.autograd.grad(y, (x, weight, bias), g)
    got = reference.batch_norm_backward(g, x.detach(), weight.detach(), 0.3)
    torch.testing.assert_close(got, want)


@pytest.mark.parametrize("momentum", [0.1, None])
def test_the_reference_module_keeps_the_state_of_torch(momentum):
    ours, theirs = reference.BatchNorm(3, momentum=momentum), nn.BatchNorm2d(3, momentum=momentum)
    for _ in range(3):
        x = 4 + 3 * torch.randn(5, 3, 4, 4)
        torch.testing.assert_close(ours(x), theirs(x), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict())
    torch.testing.assert_close(ours.eval()(x), theirs.eval()(x))


# -- no marks ------------------------------------------------------------------------------------

CHEATS = {
    "stub": not_implemented,
    "none": lambda x, *rest, **named: None,
    "the input": lambda x, *rest, **named: x,
    "zeros": lambda x, *rest, **named: torch.zeros_like(x),
    "noise": lambda x, *rest, **named: torch.randn_like(x.float()).to(x.dtype),
    "a ValueError": lambda x, *rest, **named: torch.tensor([float("x")]),
    "nan": lambda x, *rest, **named: torch.full_like(x, torch.nan),
    "only the centering": lambda x, *rest, **named: x - x.mean(0, keepdim=True),
    "layer norm": lambda x, *rest, **named: F.layer_norm(x.float(), x.shape[1:]).to(x.dtype),
    "tanh": lambda x, *rest, **named: torch.tanh(x),
}


@pytest.mark.parametrize("cheat", CHEATS)
def test_a_function_that_does_not_normalize_gets_no_points(cheat):
    results = grade("batchnorm", {"batch_norm": CHEATS[cheat]}, recognise=False)
    assert [r.test for r in results if r.points] == []


@pytest.mark.parametrize("cheat", CHEATS)
def test_a_module_with_the_right_state_that_does_not_normalize_gets_no_points(cheat):
    results = grade("batchnorm", {"BatchNorm": module(CHEATS[cheat])}, recognise=False)
    assert [r.test for r in results if r.points] == []


BACKWARD_CHEATS = {
    "stub": not_implemented,
    "none": lambda g, x, w, eps: None,
    "three times none": lambda g, x, w, eps: (None, None, None),
    "zeros": lambda g, x, w, eps: tuple(map(torch.zeros_like, (x, w, w))),
    "the arguments": lambda g, x, w, eps: (g, w, w),
}
FOLD_CHEATS = {
    "stub": not_implemented,
    "none": lambda *rest: None,
    "the arguments": lambda w, b, *rest: (w, b),
    "zeros": lambda w, b, mean, *rest: (torch.zeros_like(w), torch.zeros_like(mean)),
}


@pytest.mark.parametrize("cheat", BACKWARD_CHEATS)
def test_a_backward_without_a_gradient_gets_no_points(cheat):
    results = grade("batchnorm", {"batch_norm_backward": BACKWARD_CHEATS[cheat]})
    assert [r.test for r in results if r.points] == []


@pytest.mark.parametrize("cheat", FOLD_CHEATS)
def test_a_fold_that_folds_nothing_gets_no_points(cheat):
    results = grade("batchnorm", {"fold_batch_norm": FOLD_CHEATS[cheat]})
    assert [r.test for r in results if r.points] == []


def test_one_small_mistake_costs_its_own_tests_only():
    def biased(x, weight, bias, running_mean, running_var, training, momentum, eps):
        """Right, but for the biased variance in running_var."""
        y = reference.batch_norm(
            x, weight, bias, running_mean, old := running_var.clone(), training, momentum, eps
        )
        if training:
            n = x.numel() // x.shape[1]
            kept = (1 - momentum) * running_var
            with torch.no_grad():
                running_var.copy_(kept + (old - kept) * (n - 1) / n)
        return y

    results = grade("batchnorm", {"batch_norm": biased, "BatchNorm": module(biased)})
    lost = {r.test for r in results if r.verdict != "pass" and r.exercise == "batch_norm"}
    assert lost == {"test_running_var_is_unbiased", "test_formula_to_the_last_digits",
                    "test_float64"}  # fmt: skip
    assert score([r for r in results if r.exercise == "batch_norm"]) == 8.75
    assert score([r for r in results if r.exercise == "BatchNorm"]) == 5.75


# -- what is to be written by hand -----------------------------------------------------------------

READY_MADE = {
    "functional": "F.batch_norm(x, None, None, training=True)",
    "module": "nn.BatchNorm1d(8)(x)",
    "synchronized": "nn.SyncBatchNorm(8).eval()(x)",
    "native": "torch.native_batch_norm(x, w, b, None, None, True, 0.1, e)[0]",
    "aten": "torch.ops.aten._native_batch_norm_legit.no_stats(x, w, b, True, 0.1, e)[0]",
    "implementation": "torch._batch_norm_impl_index(x, w, b, None, None, True, 0.1, e, False)[0]",
    "variable functions": "torch._VF.batch_norm(x, w, b, None, None, True, 0.1, e, False)",
    "getattr": "getattr(F, 'batch_norm')(x, None, None, training=True)",
    "group norm": "F.group_norm(x.t()[None], 8)",
    "instance norm": "F.instance_norm(x.t()[None])",
    "layer norm": "F.layer_norm(x.t(), x.t().shape[1:])",
    "fusion": "nn.utils.fusion.fuse_linear_bn_weights(w, b, x, x, e, w, b)",
    "fusion by name": "torch.nn.utils.fuse_conv_bn_weights(w, b, x, x, e, w, b)",
}
OWN_WORK = {
    "statistics": "torch.var_mean(x, [0, 1], correction=0)[0] + x.std()",
    "buffers": "nn.Module().register_buffer('running_mean', torch.zeros(8))",
    "the learner's own": "BatchNorm(8)(x)",
    "a gradient": "gradient(x, w)",
    "a convolution": "F.conv1d(x[:, None], w[None, None])[:, 0] + F.linear(x, w)",
}


def called(name, expression):
    source = f"""import torch
import torch.nn.functional as F
from torch import nn
class BatchNorm(nn.Module):
    def __init__(self, d): super().__init__()
    def forward(self, x): return x
def gradient(x, w):
    w = w.clone().requires_grad_()
    return torch.autograd.grad((x * w).sum(), w)[0]
def {name}(x, w, b, e):
    return {expression}
"""
    x = torch.linspace(-2, 3, 48).reshape(6, 8)
    return outcome("batchnorm", name, source, x, torch.ones(8), torch.zeros(8), 1e-5)


@pytest.mark.parametrize("spelling", READY_MADE)
@pytest.mark.parametrize("name", ["batch_norm", "fold_batch_norm"])
def test_a_ready_made_norm_is_noticed_in_every_spelling(name, spelling):
    assert called(name, READY_MADE[spelling]).noticed


@pytest.mark.parametrize("spelling", OWN_WORK)
def test_the_learners_own_work_is_not_taken_for_a_ready_made_norm(spelling):
    assert called("batch_norm", OWN_WORK[spelling]).quiet


def test_autograd_is_refused_in_the_backward_exercise_only():
    assert called("batch_norm_backward", "gradient(x, w)").refused == "torch.autograd"
    assert called("batch_norm", "gradient(x, w)").quiet


# -- through notebook, sandbox and worker --------------------------------------------------------

LISTING = """
def batch_norm(x, weight, bias, running_mean, running_var, training, momentum, eps):
    if training:
        mean, var = x.mean(0), x.var(0)
        running_mean = momentum * running_mean + (1 - momentum) * mean
        running_var = momentum * running_var + (1 - momentum) * var
    else:
        mean, var = running_mean, running_var
    return weight * (x - mean) / torch.sqrt(var + eps) + bias
"""


def test_for_real_a_right_solution_gets_full_marks(tmp_path):
    cells = {name: inspect.getsource(vars(reference)[name]) for name in EXERCISES}
    _, result = graded("batchnorm", tmp_path, cells)
    assert result["review"] == []
    automatic = sum(e["score"] for e in result["exercises"] if e["name"] in EXERCISES)
    assert automatic == 27


def test_for_real_a_listing_gets_the_points_of_what_it_does_right(tmp_path):
    exercises, _ = graded("batchnorm", tmp_path, {"batch_norm": LISTING})
    tests = {t["name"]: t for t in exercises["batch_norm"]["tests"]}
    assert tests["test_a_small_table"]["misconception"] == "unbiased-variance"
    assert tests["test_running_statistics_are_updated"]["misconception"] == "running-not-updated"
    assert tests["test_each_channel_on_its_own"]["verdict"] == "pass"
    assert tests["test_evaluation_changes_nothing"]["verdict"] in ("wrong", "error")
    assert 0 < exercises["batch_norm"]["score"] < 5
    assert {t["verdict"] for t in exercises["BatchNorm"]["tests"]} == {"not-implemented"}
