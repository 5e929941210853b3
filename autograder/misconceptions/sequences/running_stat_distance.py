"""Wrong versions of `running_stat_distance(batches)`."""

from __future__ import annotations

from functools import partial

import torch

from autograder.misconceptions import misconception as declare
from autograder.misconceptions.sequences.statistics import PAGE, up

misconception = partial(declare, exercise="running_stat_distance")


def _statistics(batch):
    tokens = up(batch.reshape(-1, batch.shape[-1]))
    mean = tokens.mean(0)
    return mean, (tokens - mean).square().mean(0)


def _length(difference):
    return difference.square().sum().sqrt() / difference.numel()


def _refuse(batches):
    if len(batches) < 2:
        raise ValueError("fewer than two batches")


def _follow(pairs, step, distance=_length, compare_first=True):
    """Distances of (mean, var) pairs from statistics that follow by `step(t, running, new)`."""
    running, found = pairs[0], []
    for t, new in enumerate(pairs[1:], start=1):
        after = tuple(step(t, r, n) for r, n in zip(running, new, strict=True))
        against = running if compare_first else after
        found.append([distance(n - a) for n, a in zip(new, against, strict=True)])
        running = after
    one, other = zip(*found, strict=True)
    return torch.stack(one), torch.stack(other)


def _tenth(t, running, new):
    return 0.9 * running + 0.1 * new


def _wrong(statistics=_statistics, step=_tenth, distance=_length, compare_first=True):
    def running_stat_distance(batches):
        _refuse(batches)
        return _follow([statistics(b) for b in batches], step, distance, compare_first)

    return running_stat_distance


SLIPS = [
    (
        "taken-in-before-compared",
        "You compared a batch with running statistics that hold it already; compare each batch "
        "with those before it, then take it in.",
        "seq-distance-before",
        _wrong(compare_first=False),
    ),
    (
        "momentum-reversed",
        "You weighted the new batch with 0.9; the running statistics keep 0.9 and take in 0.1 of "
        "the batch.",
        "seq-distance-before",
        _wrong(step=lambda t, r, n: 0.1 * r + 0.9 * n),
    ),
    (
        "compared-with-the-first",
        "You compared every batch with the first one; the running statistics must be updated "
        "after each batch.",
        "seq-distance-before",
        _wrong(step=lambda t, r, n: r),
    ),
    (
        "compared-with-the-one-before",
        "You compared each batch with the one before it; compare with the running average, which "
        "remembers all of them.",
        "seq-distance-before",
        _wrong(step=lambda t, r, n: n),
    ),
    (
        "plain-average",
        "You gave all batches so far the same weight; the running statistics forget: 0.9 of "
        "themselves and 0.1 of the batch.",
        "seq-distance-before",
        _wrong(step=lambda t, r, n: r + (n - r) / (t + 1)),
    ),
    (
        "added-without-forgetting",
        "You added a tenth of the batch without taking a tenth of the old value away; the weights "
        "are 0.9 and 0.1.",
        "seq-distance-before",
        _wrong(step=lambda t, r, n: r + 0.1 * n),
    ),
    (
        "not-divided-by-d",
        "You did not divide by the number of features.",
        "seq-distance",
        _wrong(distance=lambda d: d.norm()),
    ),
    (
        "divided-by-root-of-d",
        "You divided by the root of D (a root of a mean of squares); the measure divides the "
        "length by D itself.",
        "seq-distance",
        _wrong(distance=lambda d: d.square().mean().sqrt()),
    ),
    (
        "root-forgotten",
        "You did not take the root of the sum of squares.",
        "seq-distance",
        _wrong(distance=lambda d: d.square().mean()),
    ),
    (
        "absolute-differences",
        "You averaged the absolute differences; the measure is Euclidean: squares, sum, root.",
        "seq-distance",
        _wrong(distance=lambda d: d.abs().mean()),
    ),
    (
        "signed-differences",
        "You averaged the differences with their signs, so that they cancel; take the Euclidean "
        "length.",
        "seq-distance",
        _wrong(distance=lambda d: d.mean()),
    ),
    (
        "largest-difference",
        "You took the largest difference; the measure is the Euclidean length divided by D.",
        "seq-distance",
        _wrong(distance=lambda d: d.abs().max()),
    ),
]
for _name, _message, _anchor, _function in SLIPS:
    misconception(name=_name, message=_message, link=PAGE + _anchor)(_function)

misconception(name="root-forgotten")(_wrong(distance=lambda d: d.square().sum()))


def _with_variance(variance):
    def statistics(batch):
        tokens = up(batch.reshape(-1, batch.shape[-1]))
        return tokens.mean(0), variance(tokens)

    return _wrong(statistics)


misconception(
    name="unbiased-variance",
    message="You took the unbiased variance (torch's default for var); divide the sum of squares "
    "by n, not by n - 1.",
    link=PAGE + "seq-biased",
)(_with_variance(lambda tokens: tokens.var(0)))

misconception(
    name="std-instead-of-variance",
    message="You compared standard deviations; the second distance is that of the variances.",
    link=PAGE + "seq-distance",
)(_with_variance(lambda tokens: tokens.std(0, correction=0)))

misconception(name="std-instead-of-variance")(_with_variance(lambda tokens: tokens.std(0)))

misconception(
    name="one-pass-variance",
    message="You computed the variance as E[x²] - E[x]², which loses all its digits when the mean "
    "is large; subtract the mean first, then square.",
    link=PAGE + "seq-biased",
)(_with_variance(lambda tokens: tokens.square().mean(0) - tokens.mean(0).square()))

misconception(
    name="mean-square-instead-of-variance",
    message="You took the mean of the squares without subtracting the mean first.",
    link=PAGE + "seq-biased",
)(_with_variance(lambda tokens: tokens.square().mean(0)))


@misconception(
    name="unbiased-running-variance",
    message="You remember the unbiased variance, as torch's batch norm does; here both variances "
    "are biased, so that equal batches have distance 0.",
    link=PAGE + "seq-biased",
)
def unbiased_running(batches):
    _refuse(batches)
    found, running = [], None
    for batch in batches:
        tokens = up(batch.reshape(-1, batch.shape[-1]))
        mean, var, stored = tokens.mean(0), tokens.var(0, correction=0), tokens.var(0)
        if running is None:
            running = mean, stored
            continue
        found.append((_length(mean - running[0]), _length(var - running[1])))
        running = _tenth(0, running[0], mean), _tenth(0, running[1], stored)
    one, other = zip(*found, strict=True)
    return torch.stack(one), torch.stack(other)


def _over(dims):
    """Statistics over `dims(batch)` only; what is left is compared as one long vector."""

    def statistics(batch):
        h = up(batch)
        return h.mean(dims(h)), h.var(dims(h), correction=0)

    return statistics


misconception(
    name="statistics-per-position",
    message="You averaged over the sentences only, so that each position has statistics of its "
    "own; average over all axes but the last.",
    link=PAGE + "seq-position",
)(
    _wrong(
        _over(lambda h: 0),
        distance=lambda d: d.square().sum().sqrt() / d.shape[-1],
    )
)

misconception(
    name="statistics-per-sentence",
    message="You averaged over the positions only, so that each sentence has statistics of its "
    "own; average over all axes but the last.",
    link=PAGE + "seq-distance",
)(
    _wrong(
        _over(lambda h: max(h.dim() - 2, 0)),
        distance=lambda d: d.square().sum().sqrt() / d.shape[-1],
    )
)

misconception(
    name="statistics-per-token",
    message="You averaged over the features of each token; average over the tokens, for each "
    "feature.",
    link=PAGE + "seq-distance",
)(
    _wrong(
        _over(lambda h: -1),
        distance=lambda d: d.square().sum().sqrt() / d.numel(),
    )
)

misconception(
    name="one-mean-for-all-features",
    message="You averaged over the features, too; each feature has a mean and a variance of its "
    "own.",
    link=PAGE + "seq-distance",
)(_wrong(lambda batch: (up(batch).mean(), up(batch).var(correction=0))))


@misconception(
    name="started-at-zero-and-one",
    message="You started the running statistics at 0 and 1, as torch's batch norm does; here they "
    "start as those of the first batch.",
    link=PAGE + "seq-distance-before",
)
def from_zero_and_one(batches):
    _refuse(batches)
    pairs = [_statistics(b) for b in batches]
    start = torch.zeros_like(pairs[0][0]), torch.ones_like(pairs[0][1])
    one, other = _follow([start, *pairs], _tenth)
    return one[1:], other[1:]


@misconception(name="started-at-zero-and-one")
def from_zero_and_one_with_the_first(batches):
    _refuse(batches)
    pairs = [_statistics(b) for b in batches]
    start = torch.zeros_like(pairs[0][0]), torch.ones_like(pairs[0][1])
    return _follow([start, *pairs], _tenth)


@misconception(
    name="first-batch-counted",
    message="You returned a distance for the first batch, too (a 0); there is one for every batch "
    "but the first.",
    link=PAGE + "seq-distance-before",
)
def first_counted(batches):
    _refuse(batches)
    found = _wrong()(batches)
    return tuple(torch.cat([t.new_zeros(1), t]) for t in found)


@misconception(name="taken-in-before-compared")
def with_the_last(batches):
    _refuse(batches)
    pairs = [_statistics(b) for b in batches]
    mean, var = pairs[0]
    for new in pairs[1:]:
        mean, var = _tenth(0, mean, new[0]), _tenth(0, var, new[1])
    one = torch.stack([_length(m - mean) for m, _ in pairs[1:]])
    return one, torch.stack([_length(v - var) for _, v in pairs[1:]])


@misconception(
    name="one-number-instead-of-many",
    message="You averaged the distances of all batches; return one number for each.",
    link=PAGE + "seq-distance",
)
def averaged(batches):
    return tuple(t.mean() for t in _wrong()(batches))


@misconception(
    name="variance-before-mean",
    message="You returned the distances of the variances first; those of the means come first.",
    link=PAGE + "seq-distance",
)
def variance_first(batches):
    return _wrong()(batches)[::-1]


@misconception(
    name="few-batches-not-refused",
    message="You accept fewer than two batches; there is nothing to compare, so raise a "
    "ValueError.",
    link=PAGE + "seq-refuse",
)
def not_refused(batches):
    if len(batches) < 2:
        return torch.zeros(0), torch.zeros(0)
    return _wrong()(batches)


@misconception(name="few-batches-not-refused")
def one_is_enough(batches):
    if not batches:
        raise ValueError("no batch")
    return not_refused(batches)


@misconception(
    name="half-types-not-widened",
    message="You computed float16 or bfloat16 in its own precision; turn it into float32 first, "
    "and leave the distances in float32.",
    link=PAGE + "seq-dtype",
)
def not_widened(batches):
    _refuse(batches)

    def statistics(batch):
        tokens = batch.reshape(-1, batch.shape[-1])
        return tokens.mean(0), tokens.var(0, correction=0)

    return _follow([statistics(b) for b in batches], _tenth)


@misconception(
    name="result-cast-back",
    message="You cast the distances back to the half type; they stay float32.",
    link=PAGE + "seq-dtype",
)
def cast_back(batches):
    return tuple(t.to(batches[0].dtype) for t in _wrong()(batches))
