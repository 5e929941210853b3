"""Hidden tests of `padding_mask(lengths, max_len)`, simplest first.

A mask of numbers instead of bool costs the test about its dtype only.
"""

# HIDDEN-SUITE-7f3a

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import solutions.sequences.sequences as reference
from autograder.suites.sequences.inputs import refuses
from autograder.testing.compare import expect
from autograder.testing.later import later


@later
def truth(got: Any) -> Any:
    """A mask of ones and zeros as the bool it means; anything else as it is."""
    if isinstance(got, Tensor) and not torch.isneginf(got).any():
        return got != 0
    return got


def _check(student, lengths, max_len, what="the mask"):
    want = reference.padding_mask(lengths, max_len)
    expect(truth(student.padding_mask(lengths, max_len)), want, what=what)


@pytest.mark.points(1)
def test_real_positions(student, rng):
    """True at the first positions of each sentence, as many as it has tokens"""
    # Never as many sentences as positions: a comparison that broadcasts would look right.
    for max_len, lengths in ((7, (3, 6, 2, 5)), (4, (2, 3)), (20, range(1, 20, 3))):
        _check(student, torch.tensor(list(lengths)), max_len)


@pytest.mark.points(0.5)
def test_as_many_sentences_as_positions(student, rng):
    """Sentences lie along the first axis, positions along the second"""
    _check(student, torch.tensor([1, 4, 2, 3, 2]), 5)
    _check(student, torch.tensor([2, 1, 2]), 3)


@pytest.mark.points(0.25)
def test_empty_and_full_sentences(student, rng):
    """A sentence may fill all positions, and may have no token"""
    _check(student, torch.tensor([0, 6, 3]), 6, "the mask of an empty and of a full sentence")
    _check(student, torch.tensor([5]), 5, "the mask of a single sentence")


@pytest.mark.points(0.25)
def test_more_positions_than_needed(student, rng):
    """There are max_len positions, also when every sentence is shorter"""
    _check(student, torch.tensor([2, 5, 3]), 9)
    _check(student, torch.tensor([0, 1]), 3)


@pytest.mark.points(0.25)
def test_dtype(student, rng):
    """The mask has dtype bool"""
    lengths = torch.tensor([3, 1])
    want = reference.padding_mask(lengths, 4)
    got = student.padding_mask(lengths, 4)
    expect(truth(got), want, what="the mask")
    expect(got, want, what="the mask")


@pytest.mark.points(0.5)
def test_lengths_that_do_not_fit(student, rng):
    """A length below 0 or above max_len is refused with a ValueError"""
    for lengths, max_len in (([3, 7, 2], 6), ([4, -1], 5), ([9], 8)):
        refused = refuses(lambda n=lengths, m=max_len: student.padding_mask(torch.tensor(n), m))
        what = "the answer to whether lengths that do not fit raise a ValueError"
        expect(refused, True, what=what)
    _check(student, torch.tensor([6, 2]), 6)


@pytest.mark.points(0.25)
def test_kinds_of_lengths(student, rng):
    """Lengths may have any integer dtype or be a slice, and are not modified"""
    table = torch.tensor([[2, 9], [6, 9], [4, 9]])
    kinds = [table[:, 0], *(table[:, 0].to(t) for t in (torch.int32, torch.uint8, torch.int16))]
    for lengths in kinds:
        before = lengths.clone()
        _check(student, lengths, 7)
        expect(student.inputs(), [before], rtol=0, atol=0, what="the lengths after the call")
