"""The hidden suite of `attention`: who gets no marks, what a mistake costs, what is refused."""

from __future__ import annotations

import inspect

import pytest
import torch
from by_hand import outcome
from for_real import graded
from in_process import grade, score
from torch import nn
from torch.nn import functional as F

import solutions.attention.attention as reference
from autograder.suites.attention import inputs

EXERCISES = ["attention", "MultiHeadAttention"]


def generator():
    return torch.Generator().manual_seed(0)


# -- the reference is torch's ----------------------------------------------------------------------


@pytest.mark.parametrize("front", [(3,), (2, 4)], ids=["without heads", "with heads"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_reference_is_torchs_attention_values_and_gradients(front, dtype):
    rng = generator()
    q, k, v = (t.requires_grad_() for t in inputs.soft(rng, front, 5, 7, 8, 3, dtype))
    mask = inputs.padding(rng, front[0], 7)
    lined = mask.view(front[0], *[1] * len(front), 7)
    for padding, attn_mask in ((None, None), (mask, ~lined)):
        got = reference.attention(q, k, v, padding)
        want = F.scaled_dot_product_attention(q, k, v, attn_mask)
        torch.testing.assert_close(got, want)
        g = torch.randn(got.shape, generator=rng, dtype=dtype)
        pairs = zip(*(torch.autograd.grad(y, (q, k, v), g) for y in (got, want)), strict=True)
        for ours, theirs in pairs:
            torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("heads", [1, 2, 8])
def test_the_reference_module_is_torchs_with_the_same_weights(heads):
    rng = generator()
    state = inputs.state(rng, 8, torch.float64, bias=1.0)
    ours, theirs = (
        reference.MultiHeadAttention(8, heads).double(),
        nn.MultiheadAttention(8, heads, batch_first=True, dtype=torch.float64),
    )
    ours.load_state_dict(state)
    packed = {
        f"in_proj_{kind}": torch.cat([state[f"{n}_proj.{kind}"] for n in "qkv"])
        for kind in ("weight", "bias")
    }
    theirs.load_state_dict(packed | {n: t for n, t in state.items() if n.startswith("out_proj")})
    x, mask = inputs.tokens(rng, 3, 5, 8, dtype=torch.float64), inputs.padding(rng, 3, 5)
    for padding in (None, mask):
        want = theirs(x, x, x, key_padding_mask=padding)[0]
        torch.testing.assert_close(ours(x, padding), want)


def test_with_padding_only_the_reference_gives_zeros_and_torch_disagrees_with_itself():
    x, all_padding = torch.randn(1, 3, 8), torch.ones(1, 3, dtype=torch.bool)
    assert not reference.attention(x, x, x, all_padding).any()
    rival = nn.MultiheadAttention(8, 2, batch_first=True)
    with_weights = rival(x, x, x, key_padding_mask=all_padding)[0]
    without = rival(x, x, x, key_padding_mask=all_padding, need_weights=False)[0]
    assert with_weights.isnan().all() and torch.equal(without, torch.zeros_like(x))


# -- no marks ------------------------------------------------------------------------------------


def not_implemented(*args, **kwargs):
    raise NotImplementedError()


def masked_mean(q, k, v, mask=None):
    """The mean of the real values, whatever the queries and keys are."""
    return reference.attention(0 * q, 0 * k, v, mask)


CHEATS = {
    "stub": not_implemented,
    "none": lambda q, k, v, mask=None: None,
    "the queries": lambda q, k, v, mask=None: q,
    "the values": lambda q, k, v, mask=None: v,
    "zeros": lambda q, k, v, mask=None: q.new_zeros(*q.shape[:-1], v.shape[-1]),
    "noise": lambda q, k, v, mask=None: torch.randn(*q.shape[:-1], v.shape[-1]).to(q.dtype),
    "nan": lambda q, k, v, mask=None: q.new_full((*q.shape[:-1], v.shape[-1]), torch.nan),
    "a ValueError": lambda q, k, v, mask=None: torch.tensor([float("x")]),
    "the mean": masked_mean,
}


@pytest.mark.parametrize("cheat", CHEATS)
def test_a_function_that_does_not_attend_gets_no_points(cheat):
    results = grade("attention", {"attention": CHEATS[cheat]}, recognise=False)
    assert [r.test for r in results if r.points] == []


@pytest.mark.parametrize("cheat", sorted(set(CHEATS) - {"the values", "the mean"}))
def test_a_module_with_the_right_state_that_does_not_attend_gets_no_points(cheat):
    class Cheat(reference.MultiHeadAttention):
        def forward(self, x, key_padding_mask=None):
            return CHEATS[cheat](x, x, x, key_padding_mask)

    results = grade("attention", {"MultiHeadAttention": Cheat}, recognise=False)
    assert [r.test for r in results if r.points] == []


def test_a_module_in_which_no_token_looks_at_another_gets_its_state_and_refusal_only():
    class Alone(reference.MultiHeadAttention):
        def forward(self, x, key_padding_mask=None):
            return self.out_proj(self.v_proj(x))

    results = grade("attention", {"MultiHeadAttention": Alone}, recognise=False)
    kept = {r.test for r in results if r.points}
    assert kept == {"test_parameters", "test_heads_that_do_not_fit"}
    assert score(results) == 1.5


# -- what a mistake costs --------------------------------------------------------------------------


def test_a_scale_that_is_missing_keeps_the_points_for_masks_and_heads():
    def unscaled(q, k, v, key_padding_mask=None):
        wide = [t.float() if t.dtype.itemsize == 2 else t for t in (q, k, v)]
        wide[0] = wide[0] * q.shape[-1] ** 0.5
        return reference.attention(*wide, key_padding_mask).to(q.dtype)

    results = grade("attention", {"attention": unscaled})
    kept = {r.test for r in results if r.points}
    assert kept == {
        "test_best_key", "test_heads", "test_padding", "test_padding_with_heads",
        "test_nothing_but_padding",
    }  # fmt: skip
    # (Where scores are huge, rounding tells the two ways of not scaling apart.)
    assert {r.named for r in results if r.named} == {"not-scaled"}


def test_a_mask_after_the_softmax_keeps_the_points_of_tests_without_padding():
    def late(q, k, v, key_padding_mask=None):
        dtype = q.dtype
        q, k, v = (t.float() if t.dtype.itemsize == 2 else t for t in (q, k, v))
        weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
        if key_padding_mask is not None:
            keep = ~key_padding_mask.view(len(q), *[1] * (q.dim() - 2), -1)
            weights = weights * keep
        return (weights @ v).to(dtype)

    results = grade("attention", {"attention": late})
    assert score(results) == 3.5
    assert {r.named for r in results if r.verdict == "wrong"} == {"masked-after-the-softmax"}


def test_nan_where_all_keys_are_padding_costs_its_own_tests_only():
    def left_nan(q, k, v, key_padding_mask=None):
        y = reference.attention(q, k, v, key_padding_mask)
        if key_padding_mask is None:
            return y
        empty = key_padding_mask.all(1).view(-1, *[1] * (y.dim() - 1))
        return torch.where(empty, torch.nan, y)

    results = grade("attention", {"attention": left_nan})
    lost = {r.test for r in results if r.verdict != "pass"}
    assert lost == {"test_nothing_but_padding", "test_gradients_at_padding"}


# -- what is to be written by hand -----------------------------------------------------------------

READY_MADE = {
    "functional": "F.scaled_dot_product_attention(q, k, v)",
    "builtin": "torch._C._nn.scaled_dot_product_attention(q, k, v)",
    "math": "torch._scaled_dot_product_attention_math(q, k, v)[0]",
    "flash": "torch._scaled_dot_product_flash_attention_for_cpu(q, k, v)[0]",
    "aten": "torch.ops.aten.scaled_dot_product_attention(q, k, v)",
    "aten, native": "torch._native_multi_head_attention(q, k, v, 8, 1, of(24, 8), of(24), v, v)",
    "module": "nn.MultiheadAttention(8, 1, batch_first=True)(q, k, v)[0]",
    "forward": "F.multi_head_attention_forward(q, k, v, 8, 1)[0]",
    "getattr": "getattr(F, 'scaled_dot_product_attention')(q, k, v)",
    "encoder layer": "nn.TransformerEncoderLayer(8, 1).self_attn(q, k, v)[0]",
    "flex": "flex_attention(q[None], k[None], v[None])",
    "of ONNX": "torch.onnx.ops.attention(q, k, v)[0]",
}
OWN_WORK = {
    "softmax": "torch.softmax(q @ k.mT, -1) @ v",
    "functional softmax": "F.softmax(q @ k.transpose(-2, -1), dim=-1) @ v",
    "the learner's own": "my_attention(q, k, v)",
    "linear": "F.linear(q, k[0]) @ v",
    "einsum": "torch.einsum('bld,bsd->bls', q, k) @ v",
}


def called(name, expression):
    source = f"""import torch
import torch.nn.functional as F
from torch import nn
{"from torch.nn.attention.flex_attention import flex_attention" if "flex" in expression else ""}
def of(*shape): return torch.ones(shape)
def my_attention(q, k, v): return v
def {name}(q, k, v, key_padding_mask=None):
    return {expression}
"""
    q = torch.linspace(-2, 3, 128).reshape(2, 8, 8)
    return outcome("attention", name, source, q, q.flip(1), q * q)


@pytest.mark.parametrize("spelling", READY_MADE)
@pytest.mark.parametrize("name", EXERCISES)
def test_a_ready_made_attention_is_noticed_in_every_spelling(name, spelling):
    assert called(name, READY_MADE[spelling]).noticed


@pytest.mark.parametrize("spelling", OWN_WORK)
def test_the_learners_own_work_is_not_taken_for_a_ready_made_attention(spelling):
    assert called("attention", OWN_WORK[spelling]).quiet


# -- through notebook, sandbox and worker --------------------------------------------------------

VIEWED = """
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        if d_model % n_heads:
            raise ValueError("heads")
        self.n_heads, self.d_head = n_heads, d_model // n_heads
        self.q_proj = nn.Linear(d_model, d_model)
        self.k_proj = nn.Linear(d_model, d_model)
        self.v_proj = nn.Linear(d_model, d_model)
        self.out_proj = nn.Linear(d_model, d_model)

    def forward(self, x, key_padding_mask=None):
        B, L, D = x.shape
        q = self.q_proj(x).view(B, self.n_heads, L, self.d_head)
        k = self.k_proj(x).view(B, self.n_heads, L, self.d_head)
        v = self.v_proj(x).view(B, self.n_heads, L, self.d_head)
        y = attention(q, k, v, key_padding_mask)
        return self.out_proj(y.reshape(B, L, D))
"""


def solution(name):
    return inspect.getsource(vars(reference)[name])


def test_for_real_a_right_solution_gets_full_marks(tmp_path):
    _, result = graded("attention", tmp_path, {name: solution(name) for name in EXERCISES})
    assert result["review"] == []
    assert result["score"] == 20


def test_for_real_a_view_without_transpose_is_named(tmp_path):
    cells = {"attention": solution("attention"), "MultiHeadAttention": VIEWED}
    exercises, _ = graded("attention", tmp_path, cells)
    tests = {t["name"]: t for t in exercises["MultiHeadAttention"]["tests"]}
    assert tests["test_many_heads"]["misconception"] == "view-without-transpose"
    assert tests["test_one_head"]["verdict"] == "pass"
    assert exercises["MultiHeadAttention"]["score"] == 3
    assert exercises["attention"]["score"] == 10
