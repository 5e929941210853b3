"""The hidden suite of `layernorm`: who gets no marks, what a mistake costs, what is refused.

What holds for every suite is in `test_every_suite.py`.
"""

from __future__ import annotations

import inspect
import warnings

import pytest
import torch
from alternatives.layernorm import module
from by_hand import outcome
from for_real import graded
from in_process import grade, score
from torch import nn

import solutions.layernorm.layernorm as reference
from autograder.suites import vocabulary
from autograder.suites.layernorm import inputs

POINTS = {"layer_norm": 8.0, "LayerNorm": 5.0, "layer_norm_backward": 7.0}


def failures(results):
    return [(r.exercise, r.test, r.verdict, r.message) for r in results if r.verdict != "pass"]


# -- full marks ----------------------------------------------------------------------------------


def test_expected_gradients_are_those_of_autograd_in_float64():
    rng = torch.Generator().manual_seed(0)
    x = inputs.rows(rng, 2, 3, 9, dtype=torch.float64)
    weight, bias = vocabulary.affine(rng, 9, torch.float64)
    g = inputs.upstream(rng, x, torch.float64)
    leaves = [t.clone().requires_grad_() for t in (x, weight, bias)]
    y = nn.functional.layer_norm(leaves[0], (9,), leaves[1], leaves[2], 0.3)
    torch.testing.assert_close(inputs.normalized(x, weight, bias, 0.3), y.detach())
    want = torch.autograd.grad(y, leaves, g)
    torch.testing.assert_close(inputs.gradients(g, x, weight, 0.3), want)


# -- no marks ------------------------------------------------------------------------------------


def not_implemented(*args, **kwargs):
    raise NotImplementedError()


CHEATS = {
    "stub": not_implemented,
    "none": lambda x, *rest: None,
    "the input": lambda x, *rest: x,
    "a copy of the input": lambda x, *rest: x.clone(),
    "zeros": lambda x, *rest: torch.zeros_like(x),
    "ones": lambda x, *rest: torch.ones_like(x),
    "a number": lambda x, *rest: 0.0,
    "noise": lambda x, *rest: torch.randn_like(x.float()).to(x.dtype),
    "the bias": lambda x, weight, bias, eps: bias.expand_as(x).to(x.dtype),
    "only the affine step": lambda x, weight, bias, eps: (x * weight + bias).to(x.dtype),
    "only the centering": lambda x, weight, bias, eps: x - x.mean(-1, keepdim=True),
    "nan": lambda x, *rest: torch.full_like(x, torch.nan),
    "empty": lambda x, *rest: x[..., :0],
    "softmax": lambda x, *rest: torch.softmax(x, -1),
    "tanh": lambda x, *rest: torch.tanh(x),
    "unit vectors": lambda x, *rest: nn.functional.normalize(x.float(), dim=-1).to(x.dtype),
}


@pytest.mark.parametrize("cheat", CHEATS)
def test_a_function_that_does_not_normalize_gets_no_points(cheat):
    results = grade("layernorm", {"layer_norm": CHEATS[cheat]}, recognise=False)
    assert [r.test for r in results if r.points] == []


@pytest.mark.parametrize("cheat", CHEATS)
def test_a_module_with_the_right_parameters_that_does_not_normalize_gets_no_points(cheat):
    results = grade("layernorm", {"LayerNorm": module(CHEATS[cheat])}, recognise=False)
    assert [r.test for r in results if r.points] == []


BACKWARD_CHEATS = {
    "stub": not_implemented,
    "none": lambda g, x, w, eps: None,
    "three times none": lambda g, x, w, eps: (None, None, None),
    "zeros": lambda g, x, w, eps: tuple(map(torch.zeros_like, (x, w, w))),
    "the arguments": lambda g, x, w, eps: (g, w, w),
    "one tensor": lambda g, x, w, eps: g,
    "sums over everything": lambda g, x, w, eps: (g, g.sum(), g.sum()),
}


@pytest.mark.parametrize("cheat", BACKWARD_CHEATS)
def test_a_backward_without_a_gradient_gets_no_points(cheat):
    results = grade("layernorm", {"layer_norm_backward": BACKWARD_CHEATS[cheat]})
    assert [r.test for r in results if r.points] == []


def test_the_bias_gradient_alone_earns_its_own_points_only():
    def only_bias(grad_out, x, weight, eps):
        return None, None, grad_out.reshape(-1, x.shape[-1]).sum(0)

    results = grade("layernorm", {"layer_norm_backward": only_bias})
    assert [(r.test, r.points) for r in results if r.points] == [("test_grad_bias", 0.75)]


def test_answers_remembered_by_shape_lose_points_in_every_exercise():
    def remembering(function):
        answers = {}

        def remembered(*args):
            key = tuple(tuple(a.shape) for a in args if isinstance(a, torch.Tensor))
            if key not in answers:
                answers[key] = function(*args)
            return answers[key]

        return remembered

    class Remembering(reference.LayerNorm):
        def __init__(self, d_model, eps=1e-5):
            super().__init__(d_model, eps)
            self.answers = {}

        def forward(self, x):
            if x.shape not in self.answers:
                self.answers[x.shape] = super().forward(x)
            return self.answers[x.shape]

    results = grade(
        "layernorm",
        {
            "layer_norm": remembering(reference.layer_norm),
            "LayerNorm": Remembering,
            "layer_norm_backward": remembering(reference.layer_norm_backward),
        },
    )
    failed = {(r.exercise, r.test) for r in results if r.verdict != "pass"}
    assert {("layer_norm", "test_eps"), ("LayerNorm", "test_no_memory")} <= failed
    assert ("layer_norm_backward", "test_eps") in failed


def test_the_stub_is_told_that_it_is_not_implemented_and_nothing_else():
    class Stub(nn.Module):
        def __init__(self, d_model, eps=1e-5):
            super().__init__()

        forward = not_implemented

    stubs = {"layer_norm": not_implemented, "LayerNorm": Stub}
    results = grade("layernorm", stubs | {"layer_norm_backward": not_implemented})
    verdicts = {(r.exercise, r.verdict) for r in results if r.exercise != "LayerNorm"}
    assert verdicts == {(n, "not-implemented") for n in ("layer_norm", "layer_norm_backward")}
    assert score(results) == 0


# -- independence and cost -------------------------------------------------------------------------


def test_one_small_mistake_costs_its_own_tests_only():
    def unbiased(x, weight, bias, eps):
        h = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
        y = (h - h.mean(-1, keepdim=True)) / torch.sqrt(h.var(-1, keepdim=True) + eps)
        return (y * weight + bias).to(x.dtype)

    results = grade("layernorm", {"layer_norm": unbiased, "LayerNorm": module(unbiased)})
    assert score([r for r in results if r.exercise == "layer_norm"]) == 6.0
    assert score([r for r in results if r.exercise == "LayerNorm"]) == 4.75


def detached(name):
    """The reference, with every cast of half types as `torch.tensor(x, dtype=...)` casts."""
    return source_of(name).replace(".float()", ".detach().float()")


def test_for_real_a_cast_without_its_graph_costs_gradients_in_bfloat16_and_is_named(tmp_path):
    exercises, result = graded("layernorm", tmp_path, {name: detached(name) for name in POINTS})
    lost = {
        (name, test["name"], test["misconception"])
        for name, exercise in exercises.items()
        for test in exercise["tests"]
        if test["verdict"] != "pass"
    }
    assert lost == {
        ("layer_norm", "test_gradient_flows_in_bfloat16", "detached-in-half"),
        ("LayerNorm", "test_gradients_in_bfloat16", "detached-in-half"),
    }
    assert (result["score"], result["review"]) == (19.5, [])


@pytest.mark.parametrize("cast", ["x.data.float()", "torch.tensor(x, dtype=torch.float32)"])
def test_a_cast_of_x_alone_without_its_graph_is_named_however_it_is_written(cast):
    namespace = vars(reference).copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch advises against torch.tensor(x)
        exec(source_of("layer_norm").replace("x.float()", cast), namespace)
        found = grade("layernorm", {"layer_norm": namespace["layer_norm"]})
    assert {(r.test, r.named) for r in found if r.verdict != "pass"} == {
        ("test_gradient_flows_in_bfloat16", "detached-in-half")
    }


def without_a_cast(x, weight, bias, eps):
    centered = x - x.mean(-1, keepdim=True)
    var = (centered * centered).mean(-1, keepdim=True)
    return weight * centered / torch.sqrt(var + eps) + bias


def without_the_last_cast(x, weight, bias, eps):
    return without_a_cast(
        *(t.float() if t.dtype.itemsize == 2 else t for t in (x, weight, bias)), eps
    )


@pytest.mark.parametrize("function", [without_a_cast, without_the_last_cast])
def test_a_cast_that_is_missing_keeps_the_points_for_gradients(function):
    for seed in range(1, 11):
        names = {"layer_norm": function, "LayerNorm": module(function)}
        lost = {r.test for r in grade("layernorm", names, seed=seed) if r.verdict != "pass"}
        assert "test_half_types" in lost
        assert {name for name in lost if "gradient" in name} == set()


# -- what is to be written by hand -----------------------------------------------------------------

READY_MADE = {
    "functional": "F.layer_norm(x, (8,), w, b, e)",
    "module": "nn.LayerNorm(8)(x)",
    "module by its file": "torch.nn.modules.normalization.LayerNorm(8)(x)",
    "torch": "torch.layer_norm(x, (8,))",
    "native": "torch.native_layer_norm(x, (8,), w, b, e)[0]",
    "aten": "torch.ops.aten.native_layer_norm.default(x, [8], w, b, e)[0]",
    "variable functions": "torch._VF.native_layer_norm(x, (8,), w, b, e)",
    "C": "torch._C._VariableFunctions.layer_norm(x, (8,))",
    "getattr": "getattr(F, 'layer_norm')(x, (8,))",
    "group norm": "F.group_norm(x, 1)",
    "instance norm": "nn.InstanceNorm1d(8)(x)",
    "batch norm": "F.batch_norm(x.t(), None, None, training=True)",
    "without statistics": "aten._native_batch_norm_legit.no_stats(x, w, b, True, 0.1, e)[0]",
    "rms norm": "torch.rms_norm(x - x.mean(-1, keepdim=True), (8,))",
    "fused rms norm": "torch.ops.aten._fused_rms_norm(x, (8,), None, e)",
    "functional layer": "torch.nn.modules.activation.F.layer_norm(x, (8,))",
    "decomposition": "torch._refs.native_layer_norm(x, (8,), w, b, e)[0]",
    "in a block": "nn.TransformerEncoderLayer(8, 1).norm1(x)",
}
OWN_WORK = {
    "norms of vectors": "torch.linalg.norm(x) + x.norm(dim=-1) + torch.linalg.vector_norm(x)",
    "unit vectors": "F.normalize(x, dim=-1)",
    "statistics": "torch.var_mean(x, -1, correction=0)[0] + torch.std_mean(x)[1] + x.std()",
    "parameters": "nn.Parameter(torch.ones(8))",
    "a Function": "type('N', (torch.autograd.Function,), {'forward': lambda _, x: 2 * x}).apply(x)",
    "the learner's own": "LayerNorm(8)(x)",
}
# What a gradient may not come from, after `y = f(x)`. g is the gradient of y.
AUTOGRAD = {
    "grad": "torch.autograd.grad(y, x, g)[0]",
    "backward": "(x * w).sum().backward()",
    "vjp": "torch.func.vjp(f, x)[1](g)[0]",
    "functional": "torch.autograd.functional.vjp(f, x, g)[1]",
    "method": "y.backward(g)",
    "in arithmetic": "torch.relu(2 * y).backward(g)",
    "of a module": "M()(x).backward(g)",
    "of its method": "M().forward(x).backward(g)",
    "by map": "list(map(f, [x]))[0].backward(g)",
    "of an attribute": "y.mT.backward(g)",
    "getattr": "getattr(y, 'back' + 'ward')(g)",
    "getattr of a parameter": "getattr(x.sum(), 'backward')()",
    "methodcaller": "__import__('operator').methodcaller('backward', g)(y)",
    "handed on": "list(map(y.backward, [g]))[0]",
    "its class": "y.__class__.backward(y, g)",
    "its type": "type(y).backward(y, g)",
    "class in its module": "torch._tensor.Tensor.backward(y, g)",
    "parameter class": "nn.Parameter.backward(y, g)",
    "engine": "torch.autograd.Variable._execution_engine.run_backward((y,), (g,), *PASS)",
    "new engine": "torch._C._ImperativeEngine().run_backward((y,), (g,), *PASS)",
    "graph module": "torch.autograd.graph._engine_run_backward((y,), (g,), *PASS)",
    "forwards": "forwards(lambda: torch._unpack_dual(f(torch._make_dual(x, g, 0)), 0)[1])",
    "forwards by its operator": "forwards(lambda: torch.ops.aten._make_dual.default(x, g, 0))",
    "node": "y.grad_fn(g)",
    "nodes": "[n for n, _ in y.grad_fn.next_functions][0](g)",
}


def called(name, expression):
    source = f"""import torch
{"import torch._refs" if "_refs" in expression else ""}
import torch.nn.functional as F
from torch import nn
class LayerNorm(nn.Module):
    def __init__(self, d): super().__init__()
    def forward(self, x): return x
aten = torch.ops.aten
PASS = False, False, (), True, True
def f(x): return x * x
class M(nn.Module):
    def forward(self, x): return f(x)
def forwards(function):
    with torch.autograd.forward_ad.dual_level(): return function()
def {name}(x, w, b, e):
    x, g = x.clone().requires_grad_(), torch.ones(8, 8)
    y = f(x)
    return {expression}
"""
    x = torch.linspace(-2, 3, 64).reshape(8, 8)
    return outcome("layernorm", name, source, x, torch.ones(8), torch.zeros(8), 1e-5)


@pytest.mark.parametrize("spelling", READY_MADE)
@pytest.mark.parametrize("name", ["layer_norm", "layer_norm_backward"])
def test_a_ready_made_norm_is_noticed_in_every_spelling(name, spelling):
    assert called(name, READY_MADE[spelling]).noticed


@pytest.mark.parametrize("spelling", OWN_WORK)
@pytest.mark.parametrize("name", ["layer_norm", "layer_norm_backward"])
def test_the_learners_own_work_is_not_taken_for_a_ready_made_norm(name, spelling):
    assert called(name, OWN_WORK[spelling]).quiet


@pytest.mark.parametrize("spelling", AUTOGRAD)
def test_autograd_gives_nothing_in_the_backward_exercise_only(spelling):
    backward = called("layer_norm_backward", AUTOGRAD[spelling])
    # Where no graph is recorded there is none to walk: that is an error, too.
    assert backward.refused in ("torch.autograd", "aten::_make_dual") or backward.error
    forward = called("layer_norm", AUTOGRAD[spelling])
    assert forward.refused is None and forward.error is None


def test_torchs_own_backward_pass_is_a_ready_made_norm():
    statistics = "x.mean(-1, keepdim=True), x.std(-1, keepdim=True)"
    backward = f"aten.native_layer_norm_backward(y, x, [8], {statistics}, w, b, [True] * 3)"
    for name in ("layer_norm", "layer_norm_backward"):
        assert called(name, backward).refused == "aten::native_layer_norm_backward"


# -- through notebook, sandbox and worker --------------------------------------------------------

LISTING = """
def layer_norm(x, weight, bias, eps):
    mean = x.mean(-1, keepdim=True)
    std = x.std(-1, keepdim=True)
    return weight * (x - mean) / (std + eps) + bias
"""
SLIP = """
def layer_norm_backward(grad_out, x, weight, eps):
    dtype = x.dtype
    grad_out, x = grad_out.to(torch.promote_types(dtype, torch.float32)), x.to(grad_out.dtype)
    rstd = torch.rsqrt(x.var(-1, correction=0, keepdim=True) + eps)
    x_hat = (x - x.mean(-1, keepdim=True)) * rstd
    return grad_out * rstd
"""
WITHOUT_WORK = """
def layer_norm(x, weight, bias, eps):
    return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, eps)
"""


def source_of(name):
    return inspect.getsource(vars(reference)[name])


def test_for_real_a_right_solution_gets_full_marks(tmp_path):
    _, result = graded("layernorm", tmp_path, {name: source_of(name) for name in POINTS})
    assert (result["score"], result["review"]) == (20, [])


def test_for_real_a_listing_gets_the_points_of_what_it_does_right(tmp_path):
    cells = {"layer_norm": LISTING, "layer_norm_backward": SLIP}
    exercises, _ = graded("layernorm", tmp_path, cells)
    listed = {t["name"]: t for t in exercises["layer_norm"]["tests"]}
    first = listed["test_one_vector"]
    assert first["misconception"] == "unbiased-variance+eps-outside-root"
    assert "D - 1" in first["message"] and "outside the root" in first["message"]
    assert listed["test_weight_and_bias"]["verdict"] == "pass"
    assert exercises["layer_norm"]["score"] == 4.5
    assert {t["verdict"] for t in exercises["LayerNorm"]["tests"]} == {"not-implemented"}
    messages = {t["message"] for t in exercises["layer_norm_backward"]["tests"]}
    assert "The result is not three values; return grad_x, grad_weight, grad_bias." in messages
    assert exercises["layer_norm_backward"]["score"] == 0


def test_for_real_a_ready_made_layer_norm_gets_no_points(tmp_path):
    exercises, result = graded("layernorm", tmp_path, {"layer_norm": WITHOUT_WORK})
    assert exercises["layer_norm"]["score"] == 0
    assert [(r["exercise"], r["kind"], r["detail"]) for r in result["review"]] == [
        ("layer_norm", "operator-seen", "aten::layer_norm")
    ]
    said = {t["message"] for t in exercises["layer_norm"]["tests"]}
    assert any("write it yourself, and line 3 of your cell reached" in message for message in said)
