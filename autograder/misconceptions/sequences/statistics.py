"""Wrong means and variances of the real tokens, written once for both exercises that need them.

A core is `core(h, mask)`, h of at least float32: mean and variance, in a shape that broadcasts
with h. Some make sense in one exercise only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograder.misconceptions import misconception

PAGE = "sequences.html#"
Core = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]

# name, message (empty for a name given before), anchor, core
WRONG: list[tuple[str, str, str, Core]] = []


def up(x: Tensor) -> Tensor:
    """The right beginning: half types are widened to float32."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def filled(x: Tensor, mask: Tensor, value: float = 0.0) -> Tensor:
    """x with `value` at the padding."""
    return x.masked_fill(~mask.unsqueeze(-1), value)


def right(h: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The right core, (D,) each."""
    tokens = h[mask]
    mean = tokens.mean(0)
    return mean, (tokens - mean).square().mean(0)


def _over_all_but_last(h: Tensor) -> tuple[int, ...]:
    return tuple(range(h.dim() - 1))


def _wrong(name: str, message: str = "", anchor: str = "") -> Callable[[Core], Core]:
    def note(core: Core) -> Core:
        WRONG.append((name, message, anchor, core))
        return core

    return note


@_wrong(
    "padding-counted",
    "You took mean and variance over all places, padding included; take them over the real "
    "tokens only.",
    "seq-masked",
)
def padding_counted(h, mask):
    dims = _over_all_but_last(h)
    mean = h.mean(dims)
    return mean, (h - mean).square().mean(dims)


@_wrong(
    "divided-by-all-places",
    "You added the real tokens only, but divided by the number of all places; divide by the "
    "number of real tokens.",
    "seq-count",
)
def divided_by_all_places(h, mask):
    dims = _over_all_but_last(h)
    mean = filled(h, mask).mean(dims)
    return mean, filled(h - mean, mask).square().mean(dims)


@_wrong(
    "variance-divided-by-all-places",
    "Your mean is right, but the variance is divided by the number of all places; divide it by "
    "the number of real tokens, too.",
    "seq-count",
)
def variance_divided_by_all_places(h, mask):
    mean, _ = right(h, mask)
    return mean, filled(h - mean, mask).square().mean(_over_all_but_last(h))


@_wrong(
    "padding-back-after-centering",
    "Your mean is right, but padding entered the variance: after the mean is subtracted, a 0 has "
    "become minus the mean, so mask once more.",
    "seq-mask-twice",
)
def padding_back_after_centering(h, mask):
    mean, _ = right(h, mask)
    deviation = filled(h, mask) - mean
    return mean, deviation.square().sum(_over_all_but_last(h)) / mask.sum()


@_wrong("padding-back-after-centering")
def padding_back_in_the_variance(h, mask):
    mean, _ = right(h, mask)
    return mean, (filled(h, mask) - mean).square().mean(_over_all_but_last(h))


@_wrong(
    "mask-inverted",
    "You took the statistics of the padding; True in the mask is the sign of a real token.",
    "seq-masked",
)
def inverted(h, mask):
    return right(h, ~mask)


@_wrong(
    "statistics-per-position",
    "You have a mean for each position; all real tokens of all positions share one mean and one "
    "variance per feature.",
    "seq-position",
)
def per_position(h, mask):
    keep = mask.unsqueeze(-1).to(h.dtype)
    n = keep.sum(0).clamp(min=1)
    mean = filled(h, mask).sum(0) / n
    return mean, (filled(h - mean, mask).square().sum(0) / n)


@_wrong(
    "statistics-per-sentence",
    "You have a mean for each sentence; all real tokens of all sentences share one mean and one "
    "variance per feature.",
    "seq-masked",
)
def per_sentence(h, mask):
    keep, axis = mask.unsqueeze(-1).to(h.dtype), h.dim() - 2
    n = keep.sum(axis, keepdim=True).clamp(min=1)
    mean = filled(h, mask).sum(axis, keepdim=True) / n
    return mean, filled(h - mean, mask).square().sum(axis, keepdim=True) / n


@_wrong(
    "mean-of-means",
    "You averaged the averages of the sentences, so that a token of a short sentence counts more; "
    "take the mean over all real tokens together.",
    "seq-count",
)
def mean_of_means(h, mask):
    mean, var = per_sentence(h, mask)
    return mean.flatten(0, -2).mean(0), var.flatten(0, -2).mean(0)


@_wrong(
    "statistics-per-token",
    "You averaged over the features of a token, which is layer norm; average over the tokens, for "
    "each feature.",
    "seq-masked",
)
def per_token(h, mask):
    mean = h.mean(-1, keepdim=True)
    return mean, (h - mean).square().mean(-1, keepdim=True)


@_wrong(
    "one-mean-for-all-features",
    "You averaged over the features, too; each feature has a mean and a variance of its own.",
    "seq-masked",
)
def one_for_all(h, mask):
    tokens = h[mask]
    return tokens.mean(), tokens.var(correction=0)


@_wrong(
    "unbiased-variance",
    "You took the unbiased variance (torch's default for var and std); divide the sum of squares "
    "by n, the number of real tokens, not by n - 1.",
    "seq-biased",
)
def unbiased(h, mask):
    tokens = h[mask]
    return tokens.mean(0), tokens.var(0)


@_wrong(
    "std-instead-of-variance",
    "You took the standard deviation where the variance is wanted.",
    "seq-biased",
)
def std(h, mask):
    mean, var = right(h, mask)
    return mean, var.sqrt()


@_wrong(
    "sum-instead-of-mean",
    "You added up and did not divide by the number of real tokens.",
    "seq-count",
)
def summed(h, mask):
    tokens = h[mask]
    mean = tokens.sum(0)
    return mean, (tokens - mean).square().sum(0)


@_wrong("sum-instead-of-mean")
def variance_summed(h, mask):
    mean, var = right(h, mask)
    return mean, var * mask.sum()


@_wrong(
    "mean-square-instead-of-variance",
    "You took the mean of the squares without subtracting the mean first; the variance is the "
    "mean square of the centered values.",
    "seq-biased",
)
def mean_square(h, mask):
    tokens = h[mask]
    return tokens.mean(0), tokens.square().mean(0)


@_wrong(
    "one-pass-variance",
    "You computed the variance as E[x²] - E[x]², which loses all its digits when the mean is "
    "large; subtract the mean first, then square.",
    "seq-biased",
)
def one_pass(h, mask):
    mean = filled(h, mask).sum(_over_all_but_last(h)) / mask.sum()
    square = filled(h, mask).square().sum(_over_all_but_last(h)) / mask.sum()
    return mean, square - mean.square()


@_wrong("one-pass-variance")
def one_pass_clamped(h, mask):
    mean, var = one_pass(h, mask)
    return mean, var.clamp(min=0)


@_wrong(
    "multiplied-by-the-mask",
    "You multiplied by the mask; that does not remove inf or NaN from the padding (NaN times 0 is "
    "NaN), so pick the real tokens out, or replace the padding with masked_fill or where.",
    "seq-anything",
)
def multiplied(h, mask):
    keep = mask.unsqueeze(-1).to(h.dtype)
    dims = _over_all_but_last(h)
    mean = (h * keep).sum(dims) / keep.sum()
    return mean, ((h - mean) * keep).square().sum(dims) / keep.sum()


@_wrong(
    "zeros-taken-for-padding",
    "You took tokens of zeros for padding instead of asking the mask; padding may hold anything.",
    "seq-anything",
)
def zeros_taken_for_padding(h, mask):
    return right(h, (h != 0).any(-1))


@_wrong(
    "padding-expected-at-the-end",
    "You counted the True values of each row and took that many first tokens; the mask says which "
    "tokens are real, in any pattern.",
    "seq-masked",
)
def expected_at_the_end(h, mask):
    length = mask.sum(-1, keepdim=True)
    return right(h, torch.arange(mask.shape[-1]) < length)


def _detaching(of_mean: bool, of_var: bool) -> Core:
    def core(h, mask):
        mean, var = right(h, mask)
        return (mean.detach() if of_mean else mean), (var.detach() if of_var else var)

    return core


_wrong(
    "statistics-detached",
    "You cut mean and variance out of the graph (detach, no_grad, .data or .item); they depend on "
    "the input, and the gradient must flow through them.",
    "seq-gradient",
)(_detaching(True, True))
_wrong("statistics-detached")(_detaching(False, True))


@_wrong(
    "input-modified",
    "You changed the input in place (an index assignment, an operator such as -= or a method that "
    "ends in _); make a new tensor.",
    "seq-in-place",
)
def input_modified(h, mask):
    found = right(h, mask)
    with torch.no_grad():
        h.masked_fill_(~mask.unsqueeze(-1), 7.0)
    return found


def declare_cores(
    exercise: str, make: Callable[[Core], Any], without: tuple[str, ...] = ()
) -> None:
    """Declare every wrong core as a misconception of `exercise`, made runnable by `make(core)`."""
    for name, message, anchor, core in WRONG:
        if name in without:
            continue
        if message:
            misconception(exercise=exercise, name=name, message=message, link=PAGE + anchor)(
                make(core)
            )
        else:
            misconception(exercise=exercise, name=name)(make(core))
