"""Every known mistake is rejected by the hidden suite of its exercise, and named to the learner."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
import torch
from alternatives.layernorm import STYLES, module
from in_process import grade, load, score

from autograder import misconceptions
from autograder.misconceptions import misconception

ROOT = Path(__file__).resolve().parent.parent
ALL = misconceptions.load("layernorm")


def label(m):
    twins = [other for other in ALL if (other.exercise, other.name) == (m.exercise, m.name)]
    return f"{m.exercise}-{m.name}" + (f"-{twins.index(m) + 1}" if len(twins) > 1 else "")


@cache
def graded(index):
    return grade("layernorm", {ALL[index].exercise: ALL[index].implementation})


def full(exercise):
    return sum(t.points for t in load("layernorm").tests if t.exercise == exercise)


# -- the matrix ----------------------------------------------------------------------------------


def test_the_collection_covers_what_learners_write():
    names = Counter(m.exercise for m in {(m.exercise, m.name): m for m in ALL}.values())
    assert names["layer_norm"] >= 20
    assert names["LayerNorm"] >= 10
    assert names["layer_norm_backward"] >= 20


@pytest.mark.parametrize("index", range(len(ALL)), ids=map(label, ALL))
def test_is_rejected_and_named(index):
    known, results = ALL[index], graded(index)
    assert score(results) < full(known.exercise)
    named = [r.named for r in results if r.verdict == "wrong" and r.named]
    told = {part for name in named for part in name.split("+")}
    # Of a combination, a test may show one part only; all parts are named somewhere.
    assert set(known.parts) <= told
    assert set(named[0].split("+")) <= set(known.parts)


# Where a test looks at too little to tell two mistakes apart, the one declared first is named.
# (mistake, what some later test calls it instead)
ALIKE = {
    ("running-statistics", "statistics-over-batch"),  # the output in training is that
    ("initial-values", "weight-and-bias-swapped"),  # zeros and ones: the same output
    ("parameters-not-trainable", "parameters-detached"),  # no gradient either way
    ("weight-and-bias-gradients-swapped", "grad-weight-without-x-hat"),  # both sum grad_out
}


@pytest.mark.parametrize("index", range(len(ALL)), ids=map(label, ALL))
def test_is_never_taken_for_another(index):
    known = ALL[index]
    others = {
        (known.name, result.named)
        for result in graded(index)
        if result.named and not set(result.named.split("+")) <= set(known.parts)
    }
    assert others <= ALIKE


def test_all_are_rejected_with_another_seed_too():
    accepted = []
    for known in ALL:
        namespace = {known.exercise: known.implementation}
        results = grade("layernorm", namespace, seed=2, recognise=False)
        if score(results) == full(known.exercise):
            accepted.append(label(known))
    assert accepted == []


# -- written by somebody else --------------------------------------------------------------------


def named(namespace):
    results = grade("layernorm", namespace)
    return [r.named for r in results if r.verdict == "wrong"]


def test_the_listing_of_an_article_is_told_both_of_its_mistakes():
    def layer_norm(x, weight, bias, eps):
        mean = x.mean(-1, keepdim=True)
        std = x.std(-1, keepdim=True)
        return weight * (x - mean) / (std + eps) + bias

    found = named({"layer_norm": layer_norm})
    assert found[0] == "unbiased-variance+eps-outside-root"
    assert "unbiased-variance+eps-outside-root+no-upcast" in found
    assert named({"LayerNorm": module(layer_norm)})[0] == "unbiased-variance+eps-outside-root"


def test_messages_of_a_combination_hold_those_of_its_parts():
    (both,) = {
        m.message
        for m in ALL
        if m.exercise == "layer_norm" and m.name == "unbiased-variance+eps-outside-root"
    }
    assert "divided the squared deviations by D - 1" in both
    assert "outside the root" in both
    assert "unbiased-variance and eps-outside-root" in both


def test_a_mistake_in_another_style_is_named_too():
    def unbiased(x, weight, bias, eps):
        h = x.double()
        centered = h - torch.einsum("...d->...", h)[..., None] / x.shape[-1]
        var = (centered * centered).sum(-1, keepdim=True) / (x.shape[-1] - 1)
        return (weight.double() * centered * (var + eps).pow(-0.5) + bias.double()).to(x.dtype)

    def no_mean_term(grad_out, x, weight, eps):
        h = x.double()
        var, mean = torch.var_mean(h, -1, correction=0, keepdim=True)
        std = torch.sqrt(var + eps)
        x_hat = (h - mean) / std
        g = grad_out.double()
        d, g_hat = x.shape[-1], g * weight
        dx = (d * g_hat - x_hat * (g_hat * x_hat).sum(-1, keepdim=True)) / (d * std)
        flat = (-1, d)
        return (
            dx.to(x.dtype),
            (g * x_hat).reshape(flat).sum(0).to(weight.dtype),
            g.reshape(flat).sum(0).to(weight.dtype),
        )

    assert named({"layer_norm": unbiased})[0] == "unbiased-variance"
    found = Counter(named({"layer_norm_backward": no_mean_term}))
    assert found.most_common(1)[0][0] == "mean-term-missing"


def test_a_wrong_output_that_nobody_foresaw_gets_no_name():
    def seven_percent_too_large(x, weight, bias, eps):
        return (1.07 * STYLES["var_mean"]["layer_norm"](x.float(), weight, bias, eps)).to(x.dtype)

    assert set(named({"layer_norm": seven_percent_too_large})) == {None}


# -- what the learner reads ------------------------------------------------------------------------


def test_messages_speak_to_the_learner_in_short_sentences():
    for known in ALL:
        assert re.match(r"(You|Your|Two things at once|Three things at once)\b", known.message)
        assert known.message.endswith(".")
        assert len(known.message) < 250 * len(known.parts)


def test_links_lead_to_anchors_that_the_chapter_defines():
    anchors = set(re.findall(r"^\(([\w-]+)\)=$", (ROOT / "book/layernorm.md").read_text(), re.M))
    for known in ALL:
        page, _, anchor = known.link.partition("#")
        assert page == "layernorm.html"
        assert anchor in anchors, known.link


# -- the decorator ---------------------------------------------------------------------------------


def test_a_combination_of_parts_that_nobody_described_is_refused():
    declare = misconception(exercise="nothing", parts=("left", "right"))
    with pytest.raises(ValueError, match=r"nothing: .*left.* has no message"):
        declare(lambda x: x)


def test_an_assignment_without_misconceptions_has_none():
    assert misconceptions.load("no_such_assignment") == []
