"""The hidden suite of `placement`: who gets no marks, what a mistake costs, what is forbidden."""

from __future__ import annotations

import copy

import pytest
import torch
from in_process import grade, load, score
from torch import nn

import solutions.placement.placement as reference
from autograder import forbidden, submission

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


# -- forbidden calls -------------------------------------------------------------------------------


def found_in(body):
    source = f"class PreLNBlock(nn.Module):\n    def __init__(self, d, h, f):\n        {body}\n"
    cells = [
        submission.Cell(index=0, origin="given", grade_id=None, source="from torch import nn"),
        submission.Cell(index=1, origin="solution", grade_id="PreLNBlock", source=source),
    ]
    suite = load("placement")
    return {f.kind for f in forbidden.find(cells, suite.exercises, suite.forbidden)}


def test_torchs_ready_made_layer_is_forbidden_and_its_norm_is_not():
    assert found_in("self.m = nn.TransformerEncoderLayer(d, h, f)") == {"forbidden-call"}
    assert found_in("self.n = nn.LayerNorm(d)") == set()
