"""Hidden tests of the module `QKNormAttention(d_model, n_heads)`, simplest first."""

# HIDDEN-SUITE-7f3a

from __future__ import annotations

import pytest
import torch

from autograder.suites.placement import inputs
from autograder.suites.placement.inputs import HEADS, WIDTH, signed, tokens
from autograder.suites.vocabulary import normal
from autograder.testing.compare import expect
from autograder.testing.verdict import LearnerError
from solutions.placement.placement import QKNormAttention

SIZES = (WIDTH, HEADS)
GAINS = ("q_norm.weight", "k_norm.weight")


def _state(rng, *sizes):
    """Random, with gains of one."""
    state = inputs.random_state(rng, inputs.fresh_state(QKNormAttention, *(sizes or SIZES)))
    return state | {name: torch.ones_like(state[name]) for name in GAINS}


def _check(student, state, x, sizes=SIZES, **how):
    inputs.expect_output(student, QKNormAttention, sizes, state, x, **how)


def _scaled(state, factor, *parts):
    return {n: factor * t if n.split(".")[0] in parts else t for n, t in state.items()}


@pytest.mark.points(0.75)
def test_parts(student, rng):
    """The six parts have the right names and sizes, and all of them are used"""
    m = student.QKNormAttention(*SIZES)
    inputs.expect_parts(m, inputs.fresh_state(QKNormAttention, *SIZES), tokens(rng, 2, 5, WIDTH))


@pytest.mark.points(1)
def test_one_head(student, rng):
    """With one head the whole query and the whole key are normalized"""
    for width, length in ((6, 5), (8, 8), (4, 1)):
        state = _state(rng, width, 1)
        _check(student, state, tokens(rng, 2, length, width), (width, 1))


@pytest.mark.points(1)
def test_heads(student, rng):
    """Each head is normalized by itself, and the heads are put side by side again"""
    for sizes, length in ((SIZES, 5), ((8, 4), 8), ((6, 2), 2), ((4, 4), 3)):
        _check(student, _state(rng, *sizes), tokens(rng, 2, length, sizes[0]), sizes)


@pytest.mark.points(1)
def test_long_queries_and_keys(student, rng):
    """Weights that make queries and keys very long change nothing"""
    state, x = _state(rng), tokens(rng, 2, 5, WIDTH)
    for parts in (("q_proj", "k_proj"), ("q_proj",), ("k_proj",)):
        what = f"the output after multiplying {' and '.join(parts)} by a large number"
        _check(student, _scaled(state, 1e3, *parts), x, what=what)


@pytest.mark.points(1)
def test_gains(student, rng):
    """Queries have the gain of q_norm, keys that of k_norm, shared by all heads"""
    state, x = _state(rng), tokens(rng, 2, 5, WIDTH)
    width = (WIDTH // HEADS,)
    for name in GAINS:
        _check(student, state | {name: signed(rng, *width)}, x, what=f"the output for a {name}")
    both = {GAINS[0]: torch.full(width, 2.0).double(), GAINS[1]: torch.full(width, 3.0).double()}
    _check(student, state | both, x, what="the output for large gains")


@pytest.mark.points(0.5)
def test_values(student, rng):
    """Values and the output projection are those of plain attention"""
    state, x = _state(rng), tokens(rng, 2, 4, WIDTH)
    for part in ("v_proj", "out_proj"):
        what = f"the output after multiplying {part} by 5"
        _check(student, _scaled(state, 5.0, part), x, what=what)


@pytest.mark.points(0.5)
def test_every_token_sees_all_tokens(student, rng):
    """The softmax runs over the keys of a sequence, without a mask, and not over the batch"""
    state = _scaled(_state(rng), 2.0, "q_norm", "k_norm")
    for b, length in ((1, 7), (7, 2), (4, 4)):
        _check(student, state, tokens(rng, b, length, WIDTH))


@pytest.mark.points(0.25)
def test_eps(student, rng):
    """Very short queries and keys are ruled by the eps of the specification"""
    state = _scaled(_state(rng), 1e-3, "q_proj", "k_proj")
    state = _scaled(state, 5.0, "q_norm", "k_norm")
    _check(
        student,
        state,
        0.5 * normal(rng, 2, 4, WIDTH),
        what="the output for short queries",
        part=1e-5,
    )


@pytest.mark.points(0.25)
def test_heads_that_do_not_fit(student, rng):
    """A number of heads that does not divide the width is refused with a ValueError"""
    for sizes in ((12, 5), (6, 4), (3, 6)):
        refused = False
        try:
            student.QKNormAttention(*sizes)
        except LearnerError as error:
            if error.kind not in ("ValueError", "RuntimeError", "AssertionError"):
                raise
            refused = error.kind == "ValueError"
        expect(refused, True, what="the answer to whether such heads raise a ValueError")
    _check(student, _state(rng, 6, 3), tokens(rng, 1, 3, 6), (6, 3))


@pytest.mark.points(0.5)
def test_gradients(student, rng):
    """Gradients reach x and all parts, and are right"""
    state, x = _state(rng), tokens(rng, 2, 4, WIDTH)
    state |= {name: signed(rng, WIDTH // HEADS) for name in GAINS}
    inputs.expect_gradients(student, QKNormAttention, SIZES, state, x, normal(rng, *x.shape))


@pytest.mark.points(0.25)
def test_precision_and_inputs(student, rng):
    """Strided inputs and float32 work, and x is not modified"""
    state, x = _state(rng), tokens(rng, 2, WIDTH, 10).transpose(1, 2)[:, ::2]
    inputs.expect_precision(student, QKNormAttention, SIZES, state, x)
