"""The hidden suite of `rmsnorm`: who gets no marks, and what is refused.

What holds for every suite is in `test_every_suite.py`.
"""

from __future__ import annotations

import inspect

import pytest
import torch
from by_hand import outcome
from for_real import graded
from in_process import grade
from torch import nn
from torch.nn import functional as F

import solutions.rmsnorm.rmsnorm as reference
from autograder import release

POINTS = release.points("rmsnorm")
FUNCTIONS = ("rms_norm", "partial_rms_norm", "scale_norm", "ada_norm")
MODULES = ("RMSNorm", "AdaLayerNorm", "DynamicTanh")


def passed(exercise, implementation):
    return [
        r.test for r in grade("rmsnorm", {exercise: implementation}, recognise=False) if r.points
    ]


# -- what is expected ----------------------------------------------------------------------------


@pytest.mark.parametrize("eps", [1e-6, 0.3])
def test_the_reference_is_what_torch_computes(eps):
    x, weight = 2 + torch.randn(3, 5, 7).double(), torch.randn(7).double()
    torch.testing.assert_close(reference.rms_norm(x, weight, eps), F.rms_norm(x, (7,), weight, eps))
    leaves = [t.clone().requires_grad_() for t in (x, weight)]
    g = torch.randn(3, 5, 7).double()
    want = torch.autograd.grad(F.rms_norm(leaves[0], (7,), leaves[1], eps), leaves, g)
    torch.testing.assert_close(reference.rms_norm_backward(g, x, weight, eps), want)
    torch.testing.assert_close(reference.ada_norm(x, 1.0, 0.0, eps), F.layer_norm(x, (7,), eps=eps))
    fresh = reference.AdaLayerNorm(7, 4, eps).double()
    y = fresh(x, torch.randn(3, 4).double())
    torch.testing.assert_close(y, F.layer_norm(x, (7,), eps=eps))
    g = torch.tensor(3.0).double()
    torch.testing.assert_close(reference.scale_norm(x, g, eps), 3 * F.normalize(x, dim=-1, eps=eps))


# -- no marks ------------------------------------------------------------------------------------


def not_implemented(*args, **kwargs):
    raise NotImplementedError()


CHEATS = {
    "stub": not_implemented,
    "none": lambda x, *rest: None,
    "the input": lambda x, *rest: x,
    "zeros": lambda x, *rest: torch.zeros_like(x),
    "ones": lambda x, *rest: torch.ones_like(x),
    "a number": lambda x, *rest: 0.0,
    "noise": lambda x, *rest: torch.randn_like(x.float()).to(x.dtype),
    "nan": lambda x, *rest: torch.full_like(x, torch.nan),
    "empty": lambda x, *rest: x[..., :0],
    "softmax": lambda x, *rest: torch.softmax(x, -1),
    "tanh": lambda x, *rest: torch.tanh(x),
    "only the centering": lambda x, *rest: x - x.mean(-1, keepdim=True),
}


@pytest.mark.parametrize("cheat", CHEATS)
@pytest.mark.parametrize("exercise", FUNCTIONS)
def test_a_function_that_does_not_do_the_work_gets_no_points(exercise, cheat):
    assert passed(exercise, CHEATS[cheat]) == []


def module(exercise, function):
    """The right parameters, and another computation."""
    right = vars(reference)[exercise]
    return type(exercise, (right,), {"forward": lambda self, *args: function(*args)})


@pytest.mark.parametrize("cheat", CHEATS)
@pytest.mark.parametrize("exercise", MODULES)
def test_a_module_with_the_right_parameters_that_does_not_work_gets_no_points(exercise, cheat):
    assert passed(exercise, module(exercise, CHEATS[cheat])) == []


BACKWARD_CHEATS = {
    "stub": not_implemented,
    "none": lambda g, x, w, eps: None,
    "twice none": lambda g, x, w, eps: (None, None),
    "zeros": lambda g, x, w, eps: (torch.zeros_like(x), torch.zeros_like(w)),
    "the arguments": lambda g, x, w, eps: (g, w),
    "one tensor": lambda g, x, w, eps: g,
    "three values": lambda g, x, w, eps: (g, w, w),
}


@pytest.mark.parametrize("cheat", BACKWARD_CHEATS)
def test_a_backward_without_a_gradient_gets_no_points(cheat):
    assert passed("rms_norm_backward", BACKWARD_CHEATS[cheat]) == []


def test_layer_norm_in_place_of_rms_norm_gets_no_points():
    def layer_norm(x, weight, eps):
        h = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
        return (F.layer_norm(h, x.shape[-1:], eps=eps) * weight).to(x.dtype)

    assert passed("rms_norm", layer_norm) == []


def test_adaptive_layer_norm_that_starts_at_random_loses_the_points_of_its_start():
    class RandomStart(reference.AdaLayerNorm):
        def __init__(self, d_model, d_cond, eps=1e-6):
            super().__init__(d_model, d_cond, eps)
            self.modulation.reset_parameters()

    found = passed("AdaLayerNorm", RandomStart)
    assert not {"test_parameters", "test_fresh_module_is_layer_norm"} & set(found)
    assert {"test_condition", "test_shift_and_scale", "test_gradients"} <= set(found)


# -- what is to be written by hand -----------------------------------------------------------------

READY_MADE = {
    "functional": "F.rms_norm(x, x.shape[-1:], w, e)",
    "torch": "torch.rms_norm(x, x.shape[-1:], w, e)",
    "module": "nn.RMSNorm(x.shape[-1])(x)",
    "layer norm": "F.layer_norm(x, x.shape[-1:], w)",
    "group norm": "torch.group_norm(x, 1)",
    "normalize": "F.normalize(x, dim=-1) * x.shape[-1] ** 0.5",
    "masked": "torch.masked.normalize(x, 2.0, -1) * x.shape[-1] ** 0.5",
    "renorm": "x.renorm(2, 0, 1.0)",
    "operator": "torch.ops.aten.rms_norm(x, x.shape[-1:], w, e)",
    "getattr": "getattr(F, 'rms_' + 'norm')(x, x.shape[-1:], w, e)",
}
OWN_WORK = {
    "by hand": "x * torch.rsqrt(x.square().mean(-1, keepdim=True) + e) * w",
    "by the norm": "x / x.norm(dim=-1, keepdim=True).clamp(min=e) * w",
    "by linalg": "x / torch.linalg.vector_norm(x, dim=-1, keepdim=True)",
    "own module": "RMSNorm()(x)",
}


def called(name, expression):
    source = f"""import torch
import torch.nn.functional as F
from torch import nn
class RMSNorm(nn.Module):
    def forward(self, x): return x
def gradient(x, w):
    w = w.clone().requires_grad_()
    return torch.autograd.grad((x * w).sum(), w)[0]
def {name}(x, w, e, *more):
    return {expression}
"""
    x = torch.linspace(-2, 3, 48).reshape(6, 8)
    return outcome("rmsnorm", name, source, x, torch.ones(8), 1e-5)


@pytest.mark.parametrize("spelling", READY_MADE)
@pytest.mark.parametrize("name", [*FUNCTIONS, "rms_norm_backward"])
def test_a_ready_made_norm_is_noticed_in_every_spelling(name, spelling):
    assert called(name, READY_MADE[spelling]).noticed


@pytest.mark.parametrize("spelling", OWN_WORK)
@pytest.mark.parametrize("name", [*FUNCTIONS, "rms_norm_backward"])
def test_the_learners_own_work_is_not_taken_for_a_ready_made_norm(name, spelling):
    assert called(name, OWN_WORK[spelling]).quiet


def test_autograd_is_refused_in_the_backward_exercise_only():
    assert called("rms_norm_backward", "gradient(x, w)").refused == "torch.autograd"
    assert called("rms_norm", "gradient(x, w)").quiet


# -- through notebook, sandbox and worker --------------------------------------------------------


def test_for_real_a_right_solution_gets_full_marks_and_a_listing_is_told_its_mistakes(tmp_path):
    listing = """
def rms_norm(x, weight, eps):
    return x / (x.norm(dim=-1, keepdim=True) * x.shape[-1] ** -0.5).clamp(min=eps) * weight
"""
    cells = {name: inspect.getsource(vars(reference)[name]) for name in POINTS}
    _, right = graded("rmsnorm", tmp_path, cells)
    exercises, listed = graded("rmsnorm", tmp_path, cells | {"rms_norm": listing})
    assert (right["score"], right["review"]) == (38, [])
    tests = {t["name"]: t for t in exercises["rms_norm"]["tests"]}
    assert tests["test_eps"]["misconception"] == "eps-clamped"
    assert tests["test_weight"]["verdict"] == "pass"
    assert 25 < listed["score"] < 38 and listed["review"] == []


def test_nothing_of_a_submission_is_needed_but_torch():
    names = {name for name, value in vars(reference).items() if inspect.ismodule(value)}
    assert names == {"torch", "nn", "F"} and reference.nn is nn
