"""The hidden suite of `placement`: who gets no marks, what a mistake costs, what is refused."""

from __future__ import annotations

import copy

import pytest
import torch
from by_hand import outcome
from in_process import grade, score
from torch import nn

import solutions.placement.placement as reference

BLOCKS = {"PostLNBlock": reference.PostLNBlock, "PreLNBlock": reference.PreLNBlock}


# -- the reference is torch's ----------------------------------------------------------------------


@pytest.mark.parametrize("name", BLOCKS)
def test_the_reference_block_is_torchs_encoder_layer(name):
    torch.manual_seed(0)
    ours = BLOCKS[name](12, 3, 20).double()
    theirs = nn.TransformerEncoderLayer(
        12, 3, 20, dropout=0.0, norm_first=name == "PreLNBlock", batch_first=True
    ).double()
    for parameter in ours.parameters():
        nn.init.normal_(parameter)
    state = ours.state_dict()
    kinds = ("weight", "bias")
    renamed = {f"self_attn.out_proj.{k}": state[f"attention.out_proj.{k}"] for k in kinds}
    for k in kinds:
        qkv = [state[f"attention.{p}_proj.{k}"] for p in "qkv"]
        renamed[f"self_attn.in_proj_{k}"] = torch.cat(qkv)
    rest = {n: t for n, t in state.items() if not n.startswith("attention")}
    theirs.load_state_dict(renamed | rest)
    x = torch.randn(2, 5, 12, dtype=torch.float64)
    torch.testing.assert_close(ours(x), theirs(x))


def test_the_schedule_is_the_published_one():
    peak = max(range(1, 20000), key=lambda step: reference.warmup_lr(step, 512, 4000))
    assert peak == 4000
    assert reference.warmup_lr(4000, 512, 4000) == pytest.approx(6.988e-4, rel=1e-3)


# -- no marks --------------------------------------------------------------------------------------


class Cheat(nn.Module):
    """Has the right parts, and does something trivial with x."""

    def __init__(self, parts, trivial):
        super().__init__()
        for name, part in parts.named_children():
            self.add_module(name, part)
        self.trivial = trivial

    def forward(self, x):
        return self.trivial(self, x)


TRIVIAL = {
    "the input": lambda m, x: x,
    "zeros": lambda m, x: torch.zeros_like(x),
    "none": lambda m, x: None,
    "noise": lambda m, x: torch.randn_like(x),
    "one norm": lambda m, x: nn.functional.layer_norm(x, x.shape[-1:]),
    "everything once": lambda m, x: x + 0 * sum(p.sum() for p in m.parameters()),
}


@pytest.mark.parametrize("trivial", TRIVIAL)
@pytest.mark.parametrize("name", [*BLOCKS, "QKNormAttention"])
def test_a_module_with_the_right_parts_that_does_nothing_gets_no_points(name, trivial):
    make = getattr(reference, name)
    results = grade(
        "placement", {name: lambda *sizes: Cheat(make(*sizes), TRIVIAL[trivial])}, recognise=False
    )
    assert [r.test for r in results if r.points] == []


@pytest.mark.parametrize(
    "answer",
    [lambda blocks, x: [0.0] * len(blocks), lambda blocks, x: [1.0] * len(blocks),
     lambda blocks, x: None, lambda blocks, x: [], lambda blocks, x: torch.rand(len(blocks))],
)  # fmt: skip
def test_numbers_out_of_nothing_get_no_points(answer):
    results = grade("placement", {"gradient_norms": answer}, recognise=False)
    assert score(results) == 0


@pytest.mark.parametrize("value", [0.0, None, 1e-3, (1.0, 1.0)])
def test_a_constant_is_no_schedule_and_no_pair(value):
    for name in ("warmup_lr", "deepnorm_constants"):
        results = grade("placement", {name: lambda *args: value}, recognise=False)
        assert score(results) == 0, name


# -- what a mistake costs --------------------------------------------------------------------------


def test_another_eps_costs_the_tests_of_precision_only():
    class OtherEps(reference.PreLNBlock):
        def __init__(self, *sizes):
            super().__init__(*sizes)
            self.norm1.eps = self.norm2.eps = 1e-6

    results = grade("placement", {"PreLNBlock": OtherEps})
    assert {r.test for r in results if r.verdict != "pass"} == {"test_precision_and_inputs"}


def test_a_forgotten_relu_keeps_the_points_of_the_rest():
    class NoRelu(reference.PostLNBlock):
        def forward(self, x):
            h = self.norm1(x + self.attention(x))
            return self.norm2(h + self.linear2(self.linear1(h)))

    results = grade("placement", {"PostLNBlock": NoRelu})
    kept = {r.test for r in results if r.points}
    assert kept == {"test_parts", "test_silent_sublayers", "test_attention_half"}


def test_a_parameter_left_thawed_costs_its_test_only():
    def thaws(blocks, x):
        norms = reference.gradient_norms(blocks, x)
        for block in blocks:
            block.requires_grad_(True)
        return norms

    results = grade("placement", {"gradient_norms": thaws})
    assert {r.test for r in results if r.verdict != "pass"} == {"test_blocks_without_gradients"}


def test_a_parameter_the_loss_does_not_depend_on_counts_as_zero():
    block = nn.Linear(3, 3)
    block.unused = nn.Parameter(torch.ones(2))
    x, plain = torch.randn(4, 3), copy.deepcopy(block)
    del plain.unused
    assert reference.gradient_norms([block], x) == reference.gradient_norms([plain], x)


# -- what is to be written by hand -----------------------------------------------------------------

READY_MADE = {
    "encoder layer": "nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)(x)",
    "its fast path": "fast(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval(), x)",
    "encoder": "nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 1)(x)",
    "decoder layer": "nn.TransformerDecoderLayer(8, 2, 16)(x, x)",
}
OWN_WORK = {
    "a norm": "nn.LayerNorm(8)(x)",
    "attention": "nn.MultiheadAttention(8, 2, batch_first=True)(x, x, x)[0]",
    "ready-made attention": "torch.nn.functional.scaled_dot_product_attention(x, x, x)",
}


def called(expression):
    source = f"""
def fast(layer, x):
    with torch.inference_mode(): return layer(x).clone()
def PreLNBlock(x):
    return {expression}
"""
    return outcome("placement", "PreLNBlock", source, torch.linspace(-2, 3, 80).reshape(2, 5, 8))


@pytest.mark.parametrize("spelling", READY_MADE)
def test_torchs_ready_made_layer_is_refused(spelling):
    assert called(READY_MADE[spelling]).refused


@pytest.mark.parametrize("spelling", OWN_WORK)
def test_parts_of_it_are_not(spelling):
    assert called(OWN_WORK[spelling]).quiet
