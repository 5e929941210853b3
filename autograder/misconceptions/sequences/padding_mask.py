"""Wrong versions of `padding_mask(lengths, max_len)`."""

from __future__ import annotations

from functools import partial

import torch

from autograder.misconceptions import misconception as declare
from autograder.misconceptions.sequences.statistics import PAGE

misconception = partial(declare, exercise="padding_mask")


def _refuse(lengths, max_len):
    if ((lengths < 0) | (lengths > max_len)).any():
        raise ValueError("lengths")


def _right(lengths, max_len):
    _refuse(lengths, max_len)
    return torch.arange(max_len) < lengths[:, None]


@misconception(
    name="mask-inverted",
    message="You marked the padding; True is the sign of a real token.",
    link=PAGE + "seq-mask",
)
def inverted(lengths, max_len):
    return ~_right(lengths, max_len)


@misconception(
    name="one-token-too-many",
    message="You counted one position too many; positions start at 0, so compare with <, not <=.",
    link=PAGE + "seq-mask",
)
def one_too_many(lengths, max_len):
    _refuse(lengths, max_len)
    return torch.arange(max_len) <= lengths[:, None]


@misconception(
    name="one-token-too-few",
    message="You counted one position too few; positions start at 0, and the last real one is "
    "lengths - 1.",
    link=PAGE + "seq-mask",
)
def one_too_few(lengths, max_len):
    _refuse(lengths, max_len)
    return torch.arange(max_len) < lengths[:, None].long() - 1


@misconception(name="one-token-too-few")
def counted_from_one(lengths, max_len):
    _refuse(lengths, max_len)
    return torch.arange(1, max_len + 1) < lengths[:, None]


@misconception(
    name="sentences-along-second-axis",
    message="You put the sentences along the second axis; the mask has the shape (B, max_len).",
    link=PAGE + "seq-mask",
)
def transposed(lengths, max_len):
    return _right(lengths, max_len).t()


@misconception(name="sentences-along-second-axis")
def broadcast_the_other_way(lengths, max_len):
    _refuse(lengths, max_len)
    return torch.arange(max_len)[:, None] < lengths


@misconception(
    name="padding-in-front",
    message="You put the padding in front; the tokens come first, the padding behind them.",
    link=PAGE + "seq-mask",
)
def padding_in_front(lengths, max_len):
    return _right(lengths, max_len).flip(1)


@misconception(
    name="longest-sentence-instead-of-max-len",
    message="You made the mask as long as the longest sentence; it has max_len positions.",
    link=PAGE + "seq-mask",
)
def as_long_as_the_longest(lengths, max_len):
    _refuse(lengths, max_len)
    return torch.arange(int(lengths.max())) < lengths[:, None]


@misconception(
    name="mask-of-numbers",
    message="Your mask holds the numbers 1 and 0; it must have dtype bool, or it cannot be used "
    "as an index.",
    link=PAGE + "seq-mask",
)
def of_floats(lengths, max_len):
    return _right(lengths, max_len).float()


@misconception(name="mask-of-numbers")
def of_integers(lengths, max_len):
    return _right(lengths, max_len).long()


@misconception(
    name="mask-to-be-added",
    message="You made a mask of 0 and minus infinity, as it is added in attention; here True and "
    "False are wanted.",
    link=PAGE + "seq-mask",
)
def additive(lengths, max_len):
    return torch.zeros(len(lengths), max_len).masked_fill(~_right(lengths, max_len), -torch.inf)


@misconception(
    name="last-token-only",
    message="You marked the last token of each sentence only; all tokens before it are real, too.",
    link=PAGE + "seq-mask",
)
def last_token_only(lengths, max_len):
    _refuse(lengths, max_len)
    return torch.arange(max_len) == lengths[:, None].long() - 1


@misconception(
    name="causal-mask",
    message="You made the triangle that keeps attention from looking ahead; which tokens are real "
    "is decided by lengths.",
    link=PAGE + "seq-mask",
)
def causal(lengths, max_len):
    _refuse(lengths, max_len)
    return torch.ones(len(lengths), max_len, dtype=torch.bool).tril()


@misconception(
    name="lengths-not-refused",
    message="You accept lengths that do not fit; a negative length, or one above max_len, must "
    "raise a ValueError.",
    link=PAGE + "seq-mask",
)
def not_refused(lengths, max_len):
    return torch.arange(max_len) < lengths[:, None]


@misconception(name="lengths-not-refused")
def long_ones_accepted(lengths, max_len):
    if (lengths < 0).any():
        raise ValueError("lengths")
    return torch.arange(max_len) < lengths[:, None]


@misconception(name="lengths-not-refused")
def negative_ones_accepted(lengths, max_len):
    if (lengths > max_len).any():
        raise ValueError("lengths")
    return torch.arange(max_len) < lengths[:, None]


@misconception(
    name="lengths-modified",
    message="You changed lengths in place; make a new tensor.",
    link=PAGE + "seq-in-place",
)
def modified(lengths, max_len):
    mask = _right(lengths, max_len)
    lengths.clamp_(max=1)
    return mask
