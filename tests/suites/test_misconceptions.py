"""Every known mistake is rejected by the hidden suite of its exercise, and named to the learner.

`python -m tests.misconception_table` prints the same as a table.
"""

from __future__ import annotations

import importlib
import re
from collections import Counter
from pathlib import Path

import pytest
import torch
from alternatives.layernorm import STYLES, module
from in_process import gradable, grade, load, score
from misconception_table import ENOUGH, all_of, met, rate

from autograder import misconceptions
from autograder.misconceptions import misconception

ROOT = Path(__file__).resolve().parents[2]
ASSIGNMENTS = gradable()
KNOWN = {name: misconceptions.load(name) for name in ASSIGNMENTS}
ALL = KNOWN["layernorm"]
EVERY = [(name, index) for name in ASSIGNMENTS for index in range(len(KNOWN[name]))]


def expectations(assignment):
    return importlib.import_module(f"expectations.{assignment}")


def alike(assignment):
    return getattr(expectations(assignment), "ALIKE", set())


def label(assignment, index):
    known = KNOWN[assignment]
    m = known[index]
    twins = [other for other in known if (other.exercise, other.name) == (m.exercise, m.name)]
    return f"{m.exercise}-{m.name}" + (f"-{twins.index(m) + 1}" if len(twins) > 1 else "")


each = pytest.mark.parametrize(("assignment", "index"), EVERY, ids=[label(*e) for e in EVERY])


# -- the matrix ----------------------------------------------------------------------------------


@pytest.mark.parametrize("assignment", ASSIGNMENTS)
def test_the_collection_covers_what_learners_write(assignment):
    distinct = {(m.exercise, m.name) for m in KNOWN[assignment]}
    names = Counter(exercise for exercise, _ in distinct)
    least = expectations(assignment).LEAST
    assert set(least) == set(load(assignment).exercises)
    assert not {name: names[name] for name in least if names[name] < max(least[name], 8)}


@each
def test_is_rejected(assignment, index):
    assert met(assignment, index).rejected


@each
def test_is_named(assignment, index):
    assert met(assignment, index).named_right


@pytest.mark.parametrize("assignment", ASSIGNMENTS)
def test_nearly_all_are_named_right(assignment):
    assert rate(all_of(assignment)) >= ENOUGH


@each
def test_is_never_taken_for_another(assignment, index):
    mistake = met(assignment, index)
    others = {(mistake.known.name, name) for name in mistake.taken_for}
    assert others <= alike(assignment)


@pytest.mark.parametrize("assignment", ASSIGNMENTS)
def test_every_exception_to_that_is_needed(assignment):
    found = {(m.known.name, name) for m in all_of(assignment) for name in m.taken_for}
    assert alike(assignment) - found == set()


@pytest.mark.parametrize("assignment", ASSIGNMENTS)
def test_all_are_rejected_with_another_seed_too(assignment):
    accepted = []
    for index, known in enumerate(KNOWN[assignment]):
        namespace = {known.exercise: known.implementation}
        results = grade(assignment, namespace, seed=2, recognise=False)
        counted = {r.test for r in met(assignment, index).results}
        if score([r for r in results if r.test in counted]) == met(assignment, index).full:
            accepted.append(label(assignment, index))
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


def test_of_two_names_that_fit_the_one_already_told_is_told_again():
    # All eigenvalues are far above eps here: clamped at eps, they are as if eps was forgotten.
    suite = load("scaling")
    test = next(t for t in suite.tests if t.exercise == "whiten" and "last_digits" in t.name)
    _, *wrong = suite.replays(test, 1)
    got = next(values[0] for known, values in wrong if known.name == "eps-clamped")
    assert suite.recognise(test, 1, 0, got).name == "eps-forgotten"
    assert suite.recognise(test, 1, 0, got, ["eps-clamped"]).name == "eps-clamped"
    assert suite.recognise(test, 1, 0, got, ["no-upcast", "eps-clamped"]).name == "eps-clamped"
    assert suite.recognise(test, 1, 0, got, ["no-upcast"]).name == "eps-forgotten"


# -- what the learner reads ------------------------------------------------------------------------


@pytest.mark.parametrize("assignment", ASSIGNMENTS)
def test_messages_speak_to_the_learner_in_short_sentences(assignment):
    for known in KNOWN[assignment]:
        assert re.match(r"(You|Your|Two things at once|Three things at once)\b", known.message)
        assert known.message.endswith(".")
        assert len(known.message) < 250 * len(known.parts)


@pytest.mark.parametrize("assignment", ASSIGNMENTS)
def test_links_lead_to_anchors_that_the_chapter_defines(assignment):
    for known in KNOWN[assignment]:
        page, _, anchor = known.link.partition("#")
        text = (ROOT / "book" / page).with_suffix(".md").read_text(encoding="utf-8")
        assert f"\n({anchor})=\n" in text, known.link


# -- the decorator ---------------------------------------------------------------------------------


def test_a_combination_of_parts_that_nobody_described_is_refused():
    declare = misconception(exercise="nothing", parts=("left", "right"))
    with pytest.raises(ValueError, match=r"nothing: .*left.* has no message"):
        declare(lambda x: x)


def test_a_new_file_in_the_folder_takes_effect_by_itself(monkeypatch, tmp_path):
    folder = tmp_path / "brand_new"
    folder.mkdir()
    (folder / "norm.py").write_text(
        "from autograder.misconceptions import misconception as declare\n\n"
        "@declare(exercise='norm', name='nothing-done', message='You did nothing.', link='a#b')\n"
        "def nothing_done(x):\n    return x\n"
    )
    (folder / "_notes.py").write_text("raise RuntimeError('not to be loaded')")
    monkeypatch.setattr(misconceptions, "__file__", str(tmp_path / "__init__.py"))
    monkeypatch.setattr(misconceptions, "__path__", [str(tmp_path)])
    assert [known.name for known in misconceptions.load("brand_new")] == ["nothing-done"]


def test_an_assignment_without_misconceptions_has_none():
    assert misconceptions.load("no_such_assignment") == []
