"""Hidden tests of the module `PreLNBlock(d_model, n_heads, d_ff)`, simplest first."""

# HIDDEN-SUITE-7f3a

from __future__ import annotations

import itertools

import pytest
import torch

from autograder.suites.placement import inputs
from autograder.suites.placement.inputs import EXACT, FF, HEADS, WIDTH, close, tokens, zeroed
from autograder.suites.vocabulary import normal
from autograder.testing.compare import expect
from solutions.placement.placement import PreLNBlock

SIZES = (WIDTH, HEADS, FF)


def _state(rng, *sizes):
    return inputs.random_state(rng, inputs.fresh_state(PreLNBlock, *(sizes or SIZES)))


def _check(student, state, x, sizes=SIZES, **how):
    inputs.expect_output(student, PreLNBlock, sizes, state, x, **how)


@pytest.mark.points(0.5)
def test_parts(student, rng):
    """The five parts have the right names and sizes, and all of them are used"""
    m = student.PreLNBlock(*SIZES)
    inputs.expect_parts(m, inputs.fresh_state(PreLNBlock, *SIZES), tokens(rng, 2, 5, WIDTH))


@pytest.mark.points(1)
def test_silent_sublayers(student, rng):
    """When both sublayers write zeros, x comes back as it is; constants are added to it"""
    silent = zeroed(_state(rng), "attention.out_proj.weight", "linear2.weight")
    x = tokens(rng, 2, 5, WIDTH)
    _check(student, silent, x)
    _check(student, zeroed(silent, "attention.out_proj", "linear2"), x)


@pytest.mark.points(1)
def test_attention_half(student, rng):
    """Attention reads norm1(x), and what it computes is added to x itself"""
    state = zeroed(_state(rng), "linear2")
    for length in (6, 1):
        _check(student, state, tokens(rng, 2, length, WIDTH))


@pytest.mark.points(1)
def test_feed_forward_half(student, rng):
    """The feed-forward net reads the normalized stream, and the stream itself is added"""
    state = zeroed(_state(rng), "attention.out_proj")
    for length in (6, 1):
        _check(student, state, tokens(rng, 2, length, WIDTH))


@pytest.mark.points(0.75)
def test_whole_block(student, rng):
    """The whole block agrees with the formula, for other sizes too"""
    for sizes, shape in (((12, 3, 20), (3, 5)), ((8, 1, 8), (1, 4)), ((6, 6, 30), (2, 7))):
        _check(student, _state(rng, *sizes), tokens(rng, *shape, sizes[0]), sizes)


@pytest.mark.points(0.25)
def test_a_stack(student, rng):
    """In a stack the stream grows block by block, and blocks do not see the size of its input"""
    states = [_state(rng) for _ in range(6)]
    for factor, what in ((1.0, "the mean square of the stream after each block"),
                         (1e3, "what each block adds to a very large stream")):  # fmt: skip
        x = factor * tokens(rng, 2, 5, WIDTH)
        want, got = [x], [x]
        for state in states:
            want.append(inputs.run(PreLNBlock, SIZES, state, want[-1]))
        for state in states:
            y = inputs.loaded(student.PreLNBlock, SIZES, state)(got[-1])
            expect(y, torch.zeros_like(x), rtol=0, atol=1e9, what="the stream after a block")
            got.append(y)
        if factor == 1:
            measure = [torch.stack([t.square().mean() for t in ts]) for ts in (got, want)]
        else:
            pairs = [list(itertools.pairwise(ts)) for ts in (got, want)]
            measure = [torch.stack([(b - a).square().mean() for a, b in p]) for p in pairs]
        expect(measure[0], measure[1], **close(measure[1]), what=what)


@pytest.mark.points(0.25)
def test_gradients(student, rng):
    """Gradients reach x and all parts, and are right"""
    state, x = _state(rng), tokens(rng, 2, 4, WIDTH)
    inputs.expect_gradients(student, PreLNBlock, SIZES, state, x, normal(rng, *x.shape))


@pytest.mark.points(0.25)
def test_precision_and_inputs(student, rng):
    """Small numbers, strided inputs and float32 work, and x is not modified"""
    state = _state(rng)
    small = zeroed(state, "attention.out_proj")
    _check(
        student, small, 3e-3 * normal(rng, 2, 4, WIDTH), what="the output for a small x", part=EXACT
    )
    x = tokens(rng, 2, WIDTH, 10).transpose(1, 2)[:, ::2]
    inputs.expect_precision(student, PreLNBlock, SIZES, state, x)
