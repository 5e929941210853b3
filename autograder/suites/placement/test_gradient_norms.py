"""Hidden tests of `gradient_norms(blocks, x)`, simplest first.

The blocks are modules of torch's own: nothing here depends on the learner's blocks.
"""

# HIDDEN-SUITE-7f3a

from __future__ import annotations

import pytest
import torch
from torch import nn

from autograder.suites.placement.inputs import close, numbers, random_state, tokens, wanted_norms
from autograder.suites.vocabulary import normal
from autograder.testing.compare import expect

D = 5


def _linear():
    return nn.Linear(D, D)


def _mlp():
    return nn.Sequential(nn.LayerNorm(D), nn.Linear(D, 7), nn.Tanh(), nn.Linear(7, D))


def _pre():
    return nn.TransformerEncoderLayer(4, 2, 8, 0.0, norm_first=True, batch_first=True)


def _post():
    return nn.TransformerEncoderLayer(4, 2, 8, 0.0, norm_first=False, batch_first=True)


def _build(student, kind, state):
    """The worker's twin of one of the modules above, in float64."""
    if kind is _mlp:
        parts = [student.nn.LayerNorm(D), student.nn.Linear(D, 7)]
        m = student.nn.Sequential(*parts, student.nn.Tanh(), student.nn.Linear(7, D))
    elif kind is _linear:
        m = student.nn.Linear(D, D)
    else:
        first = kind is _pre
        m = student.nn.TransformerEncoderLayer(4, 2, 8, 0.0, norm_first=first, batch_first=True)
    m.to(torch.float64)
    m.load(state)
    return m


def _chain(student, rng, *kinds):
    """The same random blocks here and in the worker."""
    ours, theirs = [], []
    for kind in kinds:
        block = kind().double()
        block.load_state_dict(random_state(rng, block.state_dict()))
        ours.append(block)
        theirs.append(_build(student, kind, block.state_dict()))
    return ours, theirs


def _check(student, ours, theirs, x, what="the list of numbers"):
    want = wanted_norms(ours, x)
    expect(numbers(student.gradient_norms(theirs, x)), want, **close(want, 1e-6), what=what)


@pytest.mark.points(1)
def test_one_linear_block(student, rng):
    """One linear layer and one token give the length of the gradient of weight and bias"""
    ours, theirs = _chain(student, rng, _linear)
    for _ in range(2):
        _check(student, ours, theirs, tokens(rng, 1, D))


@pytest.mark.points(0.75)
def test_all_parameters_of_a_block_together(student, rng):
    """Matrices, biases and norms of a block make one number, the root of all squares"""
    ours, theirs = _chain(student, rng, _mlp)
    _check(student, ours, theirs, tokens(rng, 4, D))


@pytest.mark.points(1.5)
def test_a_chain_of_blocks(student, rng):
    """Each block reads the output of the one before; there is one number for each, in order"""
    for kinds in ((_linear, _mlp), (_mlp, _linear, _linear, _mlp, _linear)):
        ours, theirs = _chain(student, rng, *kinds)
        _check(student, ours, theirs, tokens(rng, 4, D))


@pytest.mark.points(0.75)
def test_the_mean_over_tokens(student, rng):
    """The loss is the mean over all tokens, whatever the shape of x"""
    ours, theirs = _chain(student, rng, _linear, _mlp)
    for shape in ((3, 4), (2, 3, 2), (6,), (1, 1)):
        x = tokens(rng, *shape, D)
        _check(student, ours, theirs, x, f"the list of numbers for an x with {x.dim()} axes")


@pytest.mark.points(0.75)
def test_nothing_is_left_behind(student, rng):
    """A second call gives the same numbers; the blocks and x stay as they were"""
    ours, theirs = _chain(student, rng, _mlp, _linear)
    x = tokens(rng, 3, D)
    _check(student, ours, theirs, x)
    _check(student, ours, theirs, x, "the list of numbers of a second call")
    expect(student.inputs(), [x], rtol=0, atol=0, what="the inputs after the call")
    for block, twin in zip(ours, theirs, strict=True):
        state = dict(block.state_dict())
        expect(twin.state(), state, rtol=0, atol=0, what="the parameters after the call")


@pytest.mark.points(0.75)
def test_blocks_without_gradients(student, rng):
    """A block without parameters, or with frozen ones, has the number zero"""
    ours, theirs = _chain(student, rng, _linear, _mlp, _linear)
    ours.insert(1, nn.Tanh())
    theirs.insert(1, student.nn.Tanh())
    x = tokens(rng, 3, D)
    _check(student, ours, theirs, x)
    ours[2].requires_grad_(False)
    theirs[2].freeze()
    _check(student, ours, theirs, x, "the list of numbers with a frozen block")
    expect(theirs[2].parameters(), [], what="the list of trainable parameters of a frozen block")


@pytest.mark.points(0.5)
def test_stacks_of_transformer_layers(student, rng):
    """Works for stacks of torch's Post-LN and Pre-LN layers, in float32 too"""
    for kind in (_post, _pre):
        ours, theirs = _chain(student, rng, *4 * [kind])
        x = normal(rng, 2, 6, 4)
        _check(student, ours, theirs, x)
    single = x.float()
    want = wanted_norms(ours, x)
    for block in theirs:
        block.to(torch.float32)
    got = numbers(student.gradient_norms(theirs, single))
    expect(got, want, **close(want, 1e-3), what="the list of numbers in float32")
