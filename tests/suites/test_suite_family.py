"""The hidden suite of `family`: who gets no marks, what a mistake costs, what is refused."""

from __future__ import annotations

import inspect

import pytest
import torch
from by_hand import outcome
from for_real import graded
from in_process import grade, score
from torch import nn
from torch.nn import functional as F

import solutions.family.family as reference
from autograder.suites.family import inputs

FUNCTIONS = ["normalize", "instance_norm", "group_norm", "standardize_weight"]
EXERCISES = [*FUNCTIONS, "SwitchableNorm2d"]


def not_implemented(*args, **kwargs):
    raise NotImplementedError()


# -- the reference is torch's ----------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(4, 6), (3, 6, 5), (2, 6, 4, 5), (1, 6, 2, 3, 2)], ids=str)
def test_the_reference_agrees_with_torch(shape):
    rng = torch.Generator().manual_seed(0)
    x, parameters = inputs.images(rng, *shape).double(), inputs.affine(rng, 6, torch.float64)
    for groups in (1, 2, 3, 6):
        want = F.group_norm(x, groups, *parameters, 0.02)
        torch.testing.assert_close(reference.group_norm(x, groups, *parameters, 0.02), want)
    if x.dim() > 2:
        want = F.instance_norm(x, None, None, *parameters, eps=0.02)
        torch.testing.assert_close(reference.instance_norm(x, *parameters, 0.02), want)
    want = F.layer_norm(x, shape[1:], eps=0.02)
    dims = tuple(range(1, x.dim()))
    torch.testing.assert_close(reference.normalize(x, dims, 0.02), want)
    torch.testing.assert_close(reference.standardize_weight(x, 0.02), want)


def test_the_reference_module_with_all_weight_on_batch_norm_is_that_of_torch():
    ours, theirs = reference.SwitchableNorm2d(3), nn.BatchNorm2d(3)
    far = torch.tensor([0.0, 0.0, 60.0])
    ours.load_state_dict(ours.state_dict() | {"mean_weight": far, "var_weight": far})
    for _ in range(3):
        x = 4 + 3 * torch.randn(5, 3, 4, 4)
        torch.testing.assert_close(ours(x), theirs(x), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(ours.running_mean, theirs.running_mean)
    torch.testing.assert_close(ours.running_var, theirs.running_var)
    torch.testing.assert_close(ours.eval()(x), theirs.eval()(x), rtol=1e-5, atol=1e-5)


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
    "tanh": lambda x, *rest, **named: torch.tanh(x),
}


@pytest.mark.parametrize("cheat", CHEATS)
def test_a_function_that_does_not_normalize_gets_no_points(cheat):
    results = grade("family", dict.fromkeys(FUNCTIONS, CHEATS[cheat]), recognise=False)
    assert [(r.exercise, r.test) for r in results if r.points] == []


@pytest.mark.parametrize("cheat", CHEATS)
def test_a_module_with_the_right_state_that_does_not_normalize_gets_no_points(cheat):
    class Cheat(reference.SwitchableNorm2d):
        def forward(self, x):
            return CHEATS[cheat](x)

    results = grade("family", {"SwitchableNorm2d": Cheat}, recognise=False)
    assert [r.test for r in results if r.points] == []


def test_another_norm_in_place_of_the_switchable_one_gets_little():
    class Batch(reference.SwitchableNorm2d):
        """Batch norm alone, with all the right parameters and buffers."""

        def forward(self, x):
            y = F.batch_norm(
                x.float(), self.running_mean, self.running_var, self.weight, self.bias,
                self.training, self.momentum, self.eps,
            )  # fmt: skip
            return y.to(x.dtype)

    assert score(grade("family", {"SwitchableNorm2d": Batch}, recognise=False)) == 0


# -- what a mistake costs --------------------------------------------------------------------------


def test_one_small_mistake_costs_its_own_tests_only():
    class Biased(reference.SwitchableNorm2d):
        """Right, but for the biased variance in running_var."""

        def forward(self, x):
            old = self.running_var.clone()
            y = super().forward(x)
            if self.training:
                n = x.numel() // x.shape[1]
                kept = (1 - self.momentum) * old
                with torch.no_grad():
                    self.running_var.copy_(kept + (self.running_var - kept) * (n - 1) / n)
            return y

    results = grade("family", {"SwitchableNorm2d": Biased})
    lost = {r.test for r in results if r.verdict != "pass"}
    assert lost == {"test_which_variance", "test_precision_and_one_value"}
    assert score(results) == 6.5


def test_a_stride_instead_of_neighbours_keeps_the_points_of_the_two_ends():
    def strided(x, num_groups, weight, bias, eps):
        if x.shape[1] % num_groups:
            raise ValueError("groups")
        order = torch.arange(x.shape[1]).view(-1, num_groups).t().flatten()
        back = order.argsort()
        return reference.group_norm(
            x[:, order], num_groups, weight[order], bias[order], eps
        )[:, back]  # fmt: skip

    results = grade("family", {"group_norm": strided})
    kept = {r.test for r in results if r.points}
    assert kept == {"test_the_two_ends"}
    assert {r.named for r in results if r.verdict == "wrong"} == {"groups-with-a-stride"}


# -- what is to be written by hand -----------------------------------------------------------------

READY_MADE = {
    "functional": "F.group_norm(x, 2, w, b, e)",
    "module": "nn.GroupNorm(2, 8)(x)",
    "native": "torch.native_group_norm(x, w, b, 1, 8, 4, 2, e)[0]",
    "aten": "torch.ops.aten.native_group_norm(x, w, b, 1, 8, 4, 2, e)[0]",
    "variable functions": "torch._VF.group_norm(x, 2, w, b, e)",
    "getattr": "getattr(F, 'group_norm')(x, 2)",
    "instance norm": "F.instance_norm(x)",
    "layer norm": "F.layer_norm(x, x.shape[1:])",
    "batch norm of one": "nn.BatchNorm2d(8)(x)",
}
OWN_WORK = {
    "statistics": "torch.var_mean(x, [0, 2], correction=0)[0] + x.std()",
    "the learner's own": "instance_norm(x, w, b, e)",
    "a convolution": "F.conv2d(x, w[None, :, None, None])",
}


def called(name, expression):
    source = f"""import torch
import torch.nn.functional as F
from torch import nn
def instance_norm(x, w, b, e): return x
def {name}(x, w, b, e):
    return {expression}
"""
    x = torch.linspace(-2, 3, 32).reshape(1, 8, 2, 2)
    return outcome("family", name, source, x, torch.ones(8), torch.zeros(8), 1e-5)


@pytest.mark.parametrize("spelling", READY_MADE)
@pytest.mark.parametrize("name", ["group_norm", "normalize", "SwitchableNorm2d"])
def test_a_ready_made_norm_is_noticed_in_every_spelling(name, spelling):
    assert called(name, READY_MADE[spelling]).noticed


@pytest.mark.parametrize("spelling", OWN_WORK)
def test_the_learners_own_work_is_not_taken_for_a_ready_made_norm(spelling):
    assert called("group_norm", OWN_WORK[spelling]).quiet


# -- through notebook, sandbox and worker --------------------------------------------------------

PUBLISHED = """
def standardize_weight(w, eps):
    mean = w.mean(dim=(1, 2, 3), keepdim=True) if w.dim() == 4 else w.mean(dim=1, keepdim=True)
    w = w - mean
    std = w.reshape(w.size(0), -1).std(dim=1).view(-1, *[1] * (w.dim() - 1)) + eps
    return w / std
"""


def test_for_real_a_right_solution_gets_full_marks(tmp_path):
    cells = {name: inspect.getsource(vars(reference)[name]) for name in EXERCISES}
    _, result = graded("family", tmp_path, cells)
    assert result["review"] == []
    assert sum(e["score"] for e in result["exercises"] if e["name"] in EXERCISES) == 25


def test_for_real_published_code_is_told_both_of_its_differences(tmp_path):
    exercises, _ = graded("family", tmp_path, {"standardize_weight": PUBLISHED})
    tests = {t["name"]: t for t in exercises["standardize_weight"]["tests"]}
    assert "unbiased-variance+eps-outside-root" in {t["misconception"] for t in tests.values()}
    assert tests["test_linear"]["verdict"] == "pass"
    assert 0 < exercises["standardize_weight"]["score"] < 2
    assert {t["verdict"] for t in exercises["normalize"]["tests"]} == {"not-implemented"}
