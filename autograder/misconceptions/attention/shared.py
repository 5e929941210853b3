"""Mistakes that can be made in attention itself, with heads or without, written once.

`made(...)` is a right attention in which some steps are replaced by wrong ones. WRONG collects the
wrong ones with what the learner is told; an exercise declares all that show in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograder.misconceptions import half_types, misconception

PAGE = "attention.html#"
Attention = Callable[..., Tensor]

# name, message, anchor (both empty for a name given before), attention
WRONG: list[tuple[str, str, str, Attention]] = []


# -- the steps, all right ------------------------------------------------------------------------


def up(x: Tensor) -> Tensor:
    """Half types are widened to float32."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def lined(mask: Tensor, scores: Tensor) -> Tensor:
    """The mask (B, S) as (B, 1, S) or (B, 1, 1, S)."""
    return mask.view(mask.shape[0], *[1] * (scores.dim() - 2), mask.shape[1])


def compare(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.transpose(-2, -1)


def scale(scores: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return scores / q.shape[-1] ** 0.5


def hide(scores: Tensor, mask: Tensor) -> Tensor:
    return scores.masked_fill(lined(mask, scores), -torch.inf)


def weigh(scores: Tensor) -> Tensor:
    return scores.softmax(-1)


def after(weights: Tensor, mask: Tensor) -> Tensor:
    """Without any real key the weights were NaN."""
    return weights.masked_fill(lined(mask, weights), 0)


def mix(weights: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return weights @ v


def made(
    *,
    widen: Callable[[Tensor], Tensor] = up,
    compare: Callable[..., Tensor] = compare,
    scale: Callable[..., Tensor] = scale,
    hide: Callable[..., Tensor] = hide,
    weigh: Callable[..., Tensor] = weigh,
    after: Callable[..., Tensor] = after,
    mix: Callable[..., Tensor] = mix,
    end: Callable[[Tensor, torch.dtype], Tensor] = Tensor.to,
) -> Attention:
    """An attention of these steps, in this order."""

    def attention(q, k, v, key_padding_mask=None):
        mask, dtype = key_padding_mask, q.dtype
        q, k, v = widen(q), widen(k), widen(v)
        scores = scale(compare(q, k), q, k)
        if mask is not None:
            scores = hide(scores, mask)
        weights = weigh(scores)
        if mask is not None:
            weights = after(weights, mask)
        return end(mix(weights, q, k, v), dtype)

    return attention


right = made()


def _wrong(name: str, message: str = "", anchor: str = "", **steps: Any) -> None:
    WRONG.append((name, message, anchor, made(**steps)))


def _wrongly(name: str, message: str = "", anchor: str = "") -> Callable[[Attention], Attention]:
    def note(attention: Attention) -> Attention:
        WRONG.append((name, message, anchor, attention))
        return attention

    return note


def declare_all(
    exercise: str, make: Callable[[Attention], Any], without: tuple[str, ...] = ()
) -> None:
    """Declare every wrong attention as a misconception of `exercise`, made runnable by `make`."""
    for name, message, anchor, attention in WRONG:
        if name in without:
            continue
        named = {"message": message, "link": PAGE + anchor} if message else {}
        misconception(exercise=exercise, name=name, **named)(make(attention))


# -- dtypes --------------------------------------------------------------------------------------

_wrong(
    "no-upcast",
    "You computed in half precision, where scores overflow and weights lose their digits; widen q, "
    "k and v to float32 first.",
    "att-dtype",
    widen=lambda x: x,
)
_wrong(
    "always-float32",
    "You computed in float32 whatever the dtype of q, which loses half the digits of float64; "
    "widen only the half types.",
    "att-dtype",
    widen=Tensor.float,
)

_wrong(
    half_types.NAME,
    half_types.MESSAGE,
    "att-dtype",
    widen=lambda x: half_types.cut(x)[0],
)

# -- scores and their scale ------------------------------------------------------------------------

_wrong(
    "not-scaled",
    "You did not divide the scores by the square root of D, the length of a query.",
    "att-scale",
    scale=lambda scores, q, k: scores,
)
_wrong(
    "scaled-by-d",
    "You divided the scores by D; divide them by its square root.",
    "att-scale",
    scale=lambda scores, q, k: scores / q.shape[-1],
)
_wrong(
    "multiplied-by-the-root",
    "You multiplied the scores by the square root of D; divide by it.",
    "att-scale",
    scale=lambda scores, q, k: scores * q.shape[-1] ** 0.5,
)
_wrong(
    "root-of-another-length",
    "You divided by the root of the number of keys; divide by the root of D, the last axis of q.",
    "att-scale",
    scale=lambda scores, q, k: scores / k.shape[-2] ** 0.5,
)
_wrong(
    "cosines-compared",
    "You compared directions only (cosine similarity); the score is the plain dot product.",
    "att-formula",
    compare=lambda q, k: compare(
        torch.nn.functional.normalize(q, dim=-1), torch.nn.functional.normalize(k, dim=-1)
    ),
)
_wrong(
    "keys-ask-queries",
    "You put the keys in the rows of the scores; each row belongs to a query, so it is q @ kᵀ.",
    "att-formula",
    compare=lambda q, k: compare(k, q),
)
_wrong("keys-ask-queries", mix=lambda weights, q, k, v: weights.transpose(-2, -1) @ v)
_wrong(
    "compared-with-values",
    "You compared the queries with the values; compare with the keys, and mix the values.",
    "att-formula",
    mix=lambda weights, q, k, v: weights @ k,
)


@_wrongly("compared-with-values")
def keys_and_values_swapped(q, k, v, key_padding_mask=None):
    return right(q, v, k, key_padding_mask)


# -- the softmax -----------------------------------------------------------------------------------

_wrong(
    "softmax-over-queries",
    "You took the softmax over the queries, or over axis 1, which with heads is the heads; the "
    "weights of the keys add up to 1 for each query, so it runs over the last axis of the scores.",
    "att-softmax",
    weigh=lambda scores: scores.softmax(-2),
)
_wrong("softmax-over-queries", weigh=lambda scores: scores.softmax(1))
_wrong(
    "softmax-over-the-batch",
    "You took the softmax over the sentences of the batch (dim=0); it runs over the keys, the last "
    "axis of the scores.",
    "att-softmax",
    weigh=lambda scores: scores.softmax(0),
)
_wrong(
    "softmax-over-everything",
    "You took one softmax over all scores of a sentence; each query has a softmax of its own.",
    "att-softmax",
    weigh=lambda scores: scores.flatten(-2).softmax(-1).view_as(scores),
)
_wrong(
    "softmax-left-out",
    "You mixed the values with the bare scores; a softmax turns them into weights first.",
    "att-softmax",
    hide=lambda scores, mask: scores.masked_fill(lined(mask, scores), 0),
    weigh=lambda scores: scores,
)
_wrong(
    "exp-left-out",
    "You divided the scores by their sum; the softmax takes their exponentials first.",
    "att-softmax",
    hide=lambda scores, mask: scores.masked_fill(lined(mask, scores), 0),
    weigh=lambda scores: scores / scores.sum(-1, keepdim=True),
)
_wrong(
    "sum-not-divided-out",
    "You took exponentials, but did not divide by their sum; the weights must add up to 1.",
    "att-softmax",
    weigh=lambda scores: (scores - scores.amax(-1, keepdim=True).nan_to_num(neginf=0.0)).exp(),
)
_wrong(
    "largest-not-subtracted",
    "You took exponentials of large scores as they are, which gives infinity (or 0/0); subtract "
    "the largest score of each row first.",
    "att-softmax",
    weigh=lambda scores: scores.exp() / scores.exp().sum(-1, keepdim=True),
)
_wrong(
    "weights-detached",
    "You cut the weights out of the graph (detach, no_grad, .data or .item); gradients must reach "
    "q and k through them.",
    "att-softmax",
    weigh=lambda scores: scores.softmax(-1).detach(),
)

# -- the mask --------------------------------------------------------------------------------------

_wrong(
    "mask-ignored",
    "You did not use key_padding_mask; padded keys must get the weight 0.",
    "att-mask",
    hide=lambda scores, mask: scores,
    after=lambda weights, mask: weights,
)
_wrong(
    "mask-inverted",
    "You took True for the sign of a real key; here True is padding, as in nn.MultiheadAttention.",
    "att-polarity",
    hide=lambda scores, mask: hide(scores, ~mask),
    after=lambda weights, mask: after(weights, ~mask),
)
_wrong(
    "masked-after-the-softmax",
    "You masked after the softmax, so padded keys still took their share of it; set their scores "
    "to minus infinity before it.",
    "att-after",
    hide=lambda scores, mask: scores,
)


@_wrongly("masked-after-the-softmax")
def padded_values_zeroed(q, k, v, key_padding_mask=None):
    if key_padding_mask is not None:
        v = v.masked_fill(lined(key_padding_mask, v).transpose(-2, -1), 0)
    return right(q, k, v)


_wrong(
    "padded-scores-set-to-zero",
    "You set the scores of padded keys (or the keys) to 0; the exponential of 0 is 1, so set the "
    "scores to minus infinity.",
    "att-after",
    hide=lambda scores, mask: scores.masked_fill(lined(mask, scores), 0),
    after=lambda weights, mask: weights,
)
_wrong(
    "nan-in-the-gradient",
    "You kept NaN out of the result, but not out of the gradients, where all keys of a sentence "
    "are padding; fill scores and weights with masked_fill, which lets no gradient pass.",
    "att-nothing",
    after=lambda weights, mask: weights,
    mix=lambda weights, q, k, v: (weights @ v).nan_to_num(0.0),
)
_wrong(
    "nan-in-the-gradient",
    hide=lambda scores, mask: (
        scores + torch.zeros_like(scores).masked_fill(lined(mask, scores), -torch.inf)
    ),
)
_wrong(
    "nan-without-real-keys",
    "You left NaN where all keys of a sentence are padding; the result there is zeros.",
    "att-nothing",
    after=lambda weights, mask: weights,
)
_wrong(
    "mask-times-infinity",
    "You multiplied minus infinity by the mask; 0 times infinity is NaN, so use masked_fill or "
    "where.",
    "att-after",
    hide=lambda scores, mask: scores + lined(mask, scores) * -torch.inf,
)
_wrong(
    "average-without-real-keys",
    "You gave the mean of the padding where all keys are padding (a finite number in place of "
    "minus infinity does this); the result there is zeros.",
    "att-nothing",
    hide=lambda scores, mask: scores.masked_fill(lined(mask, scores), -1e9),
    after=lambda weights, mask: weights,
)
_wrong(
    "padded-scores-lowered",
    "You added a large negative number to the scores of padded keys; whatever number it is, "
    "larger contents of the padding beat it, so replace the scores by minus infinity.",
    "att-after",
    hide=lambda scores, mask: scores - 1e9 * lined(mask, scores),
    after=lambda weights, mask: weights,
)
_wrong(
    "padded-scores-lowered",
    hide=lambda scores, mask: scores - 1e4 * lined(mask, scores),
)
_wrong(
    "queries-masked",
    "You lined the mask up with the queries; it belongs to the keys, the last axis of the scores, "
    "so give it the shape (B, 1, S), or (B, 1, 1, S) with heads.",
    "att-broadcast",
    hide=lambda scores, mask: scores.masked_fill(lined(mask, scores).transpose(-2, -1), -torch.inf),
    after=lambda weights, mask: weights.masked_fill(lined(mask, weights).transpose(-2, -1), 0),
)


@_wrongly(
    "padded-queries-zeroed",
    "You set the results of padded tokens to 0; the mask says only which keys are ignored, and "
    "every query gets a result.",
    "att-mask",
)
def padded_queries_zeroed(q, k, v, key_padding_mask=None):
    y = right(q, k, v, key_padding_mask)
    if key_padding_mask is None or q.shape[-2] != k.shape[-2]:
        return y
    return y.masked_fill(lined(key_padding_mask, y).transpose(-2, -1), 0)


def _both(line: Callable[[Tensor, Tensor], Tensor]) -> dict[str, Any]:
    """The steps of a mask that broadcasts as `line(mask, scores)`."""
    return {
        "hide": lambda scores, mask: scores.masked_fill(line(mask, scores), -torch.inf),
        "after": lambda weights, mask: weights.masked_fill(line(mask, weights), 0),
    }


_wrong(
    "mask-not-lined-up",
    "You let the mask line up with other axes by itself; its first axis belongs to the sentences, "
    "so give it the shape (B, 1, S), or (B, 1, 1, S) with heads.",
    "att-broadcast",
    **_both(lambda mask, scores: mask),
)
_wrong("mask-not-lined-up", **_both(lambda mask, scores: mask[:, None]))
_wrong(
    "mask-of-the-first-sentence",
    "You used the mask of one sentence for all; each sentence has a mask of its own.",
    "att-broadcast",
    **_both(lambda mask, scores: lined(mask, scores)[:1]),
)
_wrong(
    "later-keys-hidden",
    "You hid later keys from earlier queries (a causal mask); here only padding is hidden.",
    "att-causal",
    compare=lambda q, k: compare(q, k).masked_fill(
        torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).triu(1), -torch.inf
    ),
)
