"""Wrong versions of `attention(q, k, v, key_padding_mask=None)`."""

from __future__ import annotations

from functools import partial

import torch

from autograder.misconceptions import misconception as declare
from autograder.misconceptions.attention.shared import (
    PAGE,
    compare,
    declare_all,
    made,
    right,
    scale,
    up,
)

misconception = partial(declare, exercise="attention")

declare_all("attention", lambda attention: attention)

# -- what shows without a module only --------------------------------------------------------------


@misconception(name="root-of-another-length")
def root_of_axis_one(q, k, v, key_padding_mask=None):
    return made(scale=lambda scores, q, k: scores / q.shape[1] ** 0.5)(q, k, v, key_padding_mask)


@misconception(name="largest-not-subtracted")
def one_largest_for_all(q, k, v, key_padding_mask=None):
    """The largest of all scores is subtracted, not that of each row."""

    def weigh(scores):
        e = (scores - scores.max()).exp()
        return e / e.sum(-1, keepdim=True)

    return made(weigh=weigh)(q, k, v, key_padding_mask)


# -- what is returned ------------------------------------------------------------------------------


@misconception(
    name="weights-returned",
    message="You returned the weights; the result is the mean of the values with these weights.",
    link=PAGE + "att-formula",
)
def weights_returned(q, k, v, key_padding_mask=None):
    return made(mix=lambda weights, q, k, v: weights)(q, k, v, key_padding_mask)


@misconception(
    name="result-and-weights-returned",
    message="You returned the weights beside the result; return the result alone.",
    link=PAGE + "att-formula",
)
def both_returned(q, k, v, key_padding_mask=None):
    weights = made(mix=lambda weights, q, k, v: weights)(q, k, v, key_padding_mask)
    return right(q, k, v, key_padding_mask), weights


@misconception(
    name="sentences-mixed",
    message="You let the queries of one sentence look at the keys of others; keep the axis of the "
    "batch (and of heads) in the matrix products.",
    link=PAGE + "att-batch",
)
def sentences_mixed(q, k, v, key_padding_mask=None):
    rows = [t.reshape(1, -1, t.shape[-1]) for t in (q, k, v)]
    heads = 1 if q.dim() == 3 else q.shape[1]
    mask = key_padding_mask
    if mask is not None:
        mask = mask.repeat_interleave(heads, 0).reshape(1, -1)
    return right(*rows, mask).view(*q.shape[:-1], v.shape[-1])


@misconception(
    name="heads-mixed",
    message="You let the heads of a sentence look at each other; each head attends by itself.",
    link=PAGE + "att-heads",
)
def heads_mixed(q, k, v, key_padding_mask=None):
    if q.dim() == 3:
        return right(q, k, v, key_padding_mask)
    mask = key_padding_mask
    if mask is not None:
        mask = mask.repeat(1, q.shape[1])
    return right(q.flatten(1, 2), k.flatten(1, 2), v.flatten(1, 2), mask).unflatten(1, q.shape[1:3])


@misconception(
    name="heads-averaged",
    message="You averaged over the heads; each head has a result of its own.",
    link=PAGE + "att-heads",
)
def heads_averaged(q, k, v, key_padding_mask=None):
    y = right(q, k, v, key_padding_mask)
    return y if y.dim() == 3 else y.mean(1, keepdim=True).expand_as(y)


# -- dtypes and inputs -----------------------------------------------------------------------------


@misconception(
    name="result-left-wide",
    message="You returned the wider dtype that you computed in; cast the result back to the dtype "
    "of q.",
    link=PAGE + "att-dtype",
)
def result_left_wide(q, k, v, key_padding_mask=None):
    return made(end=lambda y, dtype: y)(q, k, v, key_padding_mask)


@misconception(
    name="weights-rounded",
    message="You cast the weights back to the half type before mixing the values; cast once, at "
    "the end.",
    link=PAGE + "att-dtype",
)
def weights_rounded(q, k, v, key_padding_mask=None):
    def mix(weights, wide_q, wide_k, wide_v):
        return weights.to(q.dtype).to(wide_v.dtype) @ wide_v

    return made(mix=mix)(q, k, v, key_padding_mask)


@misconception(
    name="only-the-softmax-in-float32",
    message="You computed the scores in half precision and only the softmax in float32; the scores "
    "are where the digits are lost, so widen q and k first.",
    link=PAGE + "att-dtype",
)
def only_the_softmax(q, k, v, key_padding_mask=None):
    def narrow(wide_q, wide_k):
        return up(scale(compare(q, k), q, k))

    def unscaled(scores, wide_q, wide_k):
        return scores

    return made(compare=narrow, scale=unscaled)(q, k, v, key_padding_mask)


@misconception(
    name="input-modified",
    message="You changed q, k or v in place (an operator such as /= or a method that ends in _); "
    "make a new tensor.",
    link=PAGE + "att-in-place",
)
def query_scaled_in_place(q, k, v, key_padding_mask=None):
    y = right(q, k, v, key_padding_mask)
    with torch.no_grad():
        q.copy_(q / q.shape[-1] ** 0.5)
    return y


@misconception(name="input-modified")
def values_cleared_in_place(q, k, v, key_padding_mask=None):
    y = right(q, k, v, key_padding_mask)
    if key_padding_mask is not None:
        with torch.no_grad():
            v.mul_(0.0)
    return y
