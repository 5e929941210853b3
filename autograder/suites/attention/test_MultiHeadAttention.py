"""Hidden tests of the module `MultiHeadAttention(d_model, n_heads)`, simplest first.

Most of them have biases of zero, which have a test of their own.
"""

# HIDDEN-SUITE-7f3a

from __future__ import annotations

import pytest
import torch

from autograder.suites.attention.inputs import (
    LOOSE,
    STRICT,
    at_the_end,
    expect_half,
    forward,
    padding,
    shapes,
    state,
    tokens,
    values,
    wanted_module,
)
from autograder.suites.vocabulary import (
    COARSE,
    REACHES,
    expect_bfloat16_output,
    gathered,
    reaches,
    share,
    text_list,
)
from autograder.testing.compare import expect
from autograder.testing.verdict import LearnerError


def _check(m, x, mask, heads, parameters, part=LOOSE, what="the output"):
    want = wanted_module(x, mask, heads, parameters)
    given = (x,) if mask is None else (x, mask)
    expect(m(*given), want, **share(want, part), what=what)


def _loaded(student, heads, parameters):
    m = student.MultiHeadAttention(len(parameters["out_proj.bias"]), heads)
    m.load(parameters)
    return m


def _check_gradients(student, rng, mask, heads, when):
    x, parameters, g = tokens(rng, 3, 5, 8), state(rng, 8), values(rng, 3, 5, 8)
    want = wanted_module(x, mask, heads, parameters)
    wide = {name: t.double().requires_grad_() for name, t in parameters.items()}
    leaf = x.double().requires_grad_()
    y = forward(leaf, mask, heads, wide)
    exact = [t.float() for t in torch.autograd.grad(y, [leaf, *wide.values()], g)]
    m = _loaded(student, heads, parameters)
    y, vjp = m.vjp(x) if mask is None else m.vjp(x, mask)
    expect(y, want, **share(want, LOOSE))
    inputs, by_name = vjp(g.float())
    found = gathered(inputs, 1, by_name, list(parameters))
    what = REACHES.format("x and all eight parameters")
    expect(reaches(found, x, *parameters.values()), [True] * 9, what=what)
    for i, (name, right) in enumerate(zip(("x", *parameters), exact, strict=True)):
        # Adding a number to all scores of a row changes nothing: k_proj.bias gets no gradient.
        like = exact[2] if name == "k_proj.bias" else right
        expect(found[i], right, **share(like, 0.04), what=f"the gradient for {name}{when}")


@pytest.mark.points(1)
def test_parameters(student, rng):
    """Four linear projections with biases, under the names asked for, and nothing else"""
    m, parameters = student.MultiHeadAttention(12, 3), state(rng, 12)
    expect(shapes(m.state()), shapes(parameters), what="the state_dict, as names and shapes")
    names = sorted(parameters)
    expect(text_list(m.parameters()), names, what="the list of trainable parameters, sorted")
    m.load(parameters)
    x = tokens(rng, 3, 1, 12)  # a single token looks at itself: out_proj(v_proj(x))
    _check(m, x, None, 3, parameters, what="the output for sentences of one token")


@pytest.mark.points(1.5)
def test_one_head(student, rng):
    """With one head it is attention between the three projections, and out_proj of it"""
    for b, length, d in ((2, 5, 8), (4, 4, 4), (1, 6, 16)):
        parameters = state(rng, d)
        m = _loaded(student, 1, parameters)
        _check(m, tokens(rng, b, length, d), None, 1, parameters)


@pytest.mark.points(2)
def test_many_heads(student, rng):
    """Head h works with the h-th piece of neighbouring features, on all tokens"""
    for b, length, d, heads in ((2, 5, 12, 3), (2, 4, 16, 4), (4, 4, 16, 4), (3, 2, 8, 2)):
        parameters = state(rng, d)
        m = _loaded(student, heads, parameters)
        _check(m, tokens(rng, b, length, d), None, heads, parameters)
    parameters = state(rng, 6)
    _check(_loaded(student, 6, parameters), tokens(rng, 2, 5, 6), None, 6, parameters)


@pytest.mark.points(0.5)
def test_biases(student, rng):
    """All four projections add their bias"""
    for heads in (1, 4):
        parameters = state(rng, 8, bias=1.5)
        m = _loaded(student, heads, parameters)
        _check(m, tokens(rng, 2, 5, 8), None, heads, parameters)


@pytest.mark.points(1.5)
def test_padding(student, rng):
    """No query looks at a padded token; padded tokens get a result like all others"""
    # Equal sizes first: there a mask that lines up with a wrong axis raises no error.
    for b, length, d, heads in ((4, 4, 16, 4), (3, 5, 8, 1), (2, 6, 12, 3)):
        parameters = state(rng, d)
        m = _loaded(student, heads, parameters)
        ends = at_the_end([1 + i % (length - 1) for i in range(b)], length)
        for mask in (ends, padding(rng, b, length)):
            _check(m, tokens(rng, b, length, d), mask, heads, parameters)
    x, parameters = tokens(rng, 3, 5, 8), state(rng, 8)
    m = _loaded(student, 2, parameters)
    _check(m, x, torch.zeros(3, 5, dtype=torch.bool), 2, parameters)


@pytest.mark.points(0.5)
def test_alone_and_in_a_batch(student, rng):
    """A sentence gets the same result alone and with any padding, trained and evaluated"""
    parameters = state(rng, 8)
    m = _loaded(student, 2, parameters)
    x = tokens(rng, 3, 6, 8)
    mask = at_the_end([6, 2, 4], 6)
    for large in (8e3, 8e8):
        full = x + large * tokens(rng, 3, 6, 8) * mask[..., None]
        _check(m, full, mask, 2, parameters, what="the output with a large padding")
    for mode in (m.eval, m.train):
        mode()
        _check(m, x, mask, 2, parameters, what="the output for the padded batch")
        for i, length in enumerate((6, 2, 4)):
            _check(m, x[i : i + 1, :length], None, 2, parameters, what="the output for one alone")


@pytest.mark.points(0.75)
def test_nothing_but_padding(student, rng):
    """A sentence of padding only gives the bias of out_proj, and leaves the others alone"""
    for heads in (1, 2, 4):
        parameters = state(rng, 8) | {"out_proj.bias": values(rng, 8).float()}
        mask = padding(rng, 3, 5)
        mask[1] = True
        m = _loaded(student, heads, parameters)
        _check(m, tokens(rng, 3, 5, 8), mask, heads, parameters)
    _check_gradients(student, rng, mask, 2, ", with a sentence of padding only")


@pytest.mark.points(0.75)
def test_gradients(student, rng):
    """Gradients reach x and all eight parameters, and are right"""
    for heads, mask in ((1, None), (4, padding(rng, 3, 5))):
        _check_gradients(student, rng, mask, heads, "")


@pytest.mark.points(0.25)
def test_gradients_in_bfloat16(student, rng):
    """In a module moved to bfloat16, too, gradients reach x and all eight parameters"""
    dtype = torch.bfloat16
    x, parameters = tokens(rng, 3, 5, 8, dtype=dtype), state(rng, 8, dtype)
    mask, g = at_the_end([3, 4, 5], 5), values(rng, 3, 5, 8).to(dtype)
    want = wanted_module(x, mask, 2, parameters)
    wide = {name: t.double().requires_grad_() for name, t in parameters.items()}
    leaf = x.double().requires_grad_()
    y = forward(leaf, mask, 2, wide)
    exact = [t.to(dtype) for t in torch.autograd.grad(y, [leaf, *wide.values()], g.double())]
    m = student.MultiHeadAttention(8, 2)
    m.to(dtype)
    m.load(parameters)
    y, vjp = m.vjp(x, mask)
    expect_bfloat16_output(y, want)
    inputs, by_name = vjp(g)
    found = gathered(inputs, 1, by_name, list(parameters))
    what = REACHES.format("x and all eight parameters in bfloat16")
    expect(reaches(found, x, *parameters.values()), [True] * 9, what=what)
    for i, (name, right) in enumerate(zip(("x", *parameters), exact, strict=True)):
        # Adding a number to all scores of a row changes nothing: k_proj.bias gets no gradient.
        like = exact[2] if name == "k_proj.bias" else right
        what = f"the gradient for {name} in bfloat16"
        expect(found[i], right, rtol=0, atol=1e9, what=what)
        expect(found[i].float(), right.float(), **share(like, COARSE), what=what)


@pytest.mark.points(0.5)
def test_heads_that_do_not_fit(student, rng):
    """Numbers of heads that divide d_model are accepted, others refused by a ValueError"""
    for d, heads in ((12, 1), (12, 4), (12, 12)):
        parameters = state(rng, d)
        m = _loaded(student, heads, parameters)
        _check(m, tokens(rng, 2, 1, d), None, heads, parameters)
    for d, heads in ((12, 5), (12, 8), (4, 8)):
        refused = False
        try:
            student.MultiHeadAttention(d, heads)
        except LearnerError as error:
            if error.kind not in ("ValueError", "RuntimeError", "AssertionError"):
                raise
            refused = error.kind == "ValueError"
        what = "the answer to whether heads that do not divide d_model raise a ValueError"
        expect(refused, True, what=what)


@pytest.mark.points(0.25)
def test_dtypes(student, rng):
    """Works in the dtype of the module, and between the projections in float32 at least"""
    x, mask = tokens(rng, 2, 6, 8), padding(rng, 2, 6)
    for dtype, part in ((torch.bfloat16, 0.05), (torch.float16, LOOSE)):
        parameters = state(rng, 8, dtype)
        want = wanted_module(x.to(dtype), mask, 2, parameters)
        m = student.MultiHeadAttention(8, 2)
        m.to(dtype)
        m.load(parameters)
        expect_half(m(x.to(dtype), mask), want, part, "the output in a half type")
    parameters, x = state(rng, 8, torch.float64, 1.0), tokens(rng, 2, 6, 8, dtype=torch.float64)
    m = student.MultiHeadAttention(8, 2)
    m.to(torch.float64)
    m.load(parameters)
    _check(m, x, mask, 2, parameters, part=1e-12, what="the output in float64")


@pytest.mark.points(0.25)
def test_large_scores(student, rng):
    """Large scores give right weights, in float16 too, which cannot hold them"""
    # Four tokens, each with a direction of its own in either head; the keys are turned by one, so
    # that each finds its neighbour. The scores do not fit into float16 (at most 65504), nor do
    # their exponentials into float32.
    turned = torch.eye(4).roll(1, 0)
    for dtype in (torch.float32, torch.float16):
        parameters = state(rng, 8, dtype)
        parameters["q_proj.weight"] = 100 * torch.eye(8, dtype=dtype)
        parameters["k_proj.weight"] = 100 * torch.block_diag(turned, turned).to(dtype)
        x = 5 * torch.eye(4, dtype=dtype).repeat(1, 2)[None]
        want = wanted_module(x, None, 2, parameters)
        m = student.MultiHeadAttention(8, 2)
        m.to(dtype)
        m.load(parameters)
        expect_half(m(x), want, LOOSE, "the output for large scores")


@pytest.mark.points(0.25)
def test_last_digits_and_inputs(student, rng):
    """Agrees to float32 precision, for strided x too, and changes none of its inputs"""
    for length, d, heads in ((7, 24, 3), (4, 8, 8)):
        parameters = state(rng, d, bias=1.0)
        m = _loaded(student, heads, parameters)
        x, mask = tokens(rng, length, 2, d).transpose(0, 1), padding(rng, 2, length)
        before = [x.clone(), mask.clone()]
        _check(m, x, mask, heads, parameters, part=STRICT)
        expect(student.inputs(), before, rtol=0, atol=0, what="the inputs after the call")
