"""Wrong versions of `warmup_lr(step, d_model, warmup)`."""

from __future__ import annotations

import math
from functools import partial

from autograder.misconceptions import misconception as declare
from autograder.misconceptions.placement.shared import PAGE

misconception = partial(declare, exercise="warmup_lr", link=PAGE + "warm-up")


def refuse(step):
    if step < 1:
        raise ValueError("steps count from 1")


def right(step, d_model, warmup):
    refuse(step)
    return d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)


@misconception(
    name="max-instead-of-min",
    message="You took the larger of the two lines; the smaller one counts, so that the rate first "
    "rises and then falls.",
)
def larger(step, d_model, warmup):
    refuse(step)
    return d_model**-0.5 * max(step**-0.5, step * warmup**-1.5)


@misconception(
    name="width-forgotten",
    message="You left out the factor for the width, one over the root of d_model.",
)
def without_width(step, d_model, warmup):
    refuse(step)
    return min(step**-0.5, step * warmup**-1.5)


@misconception(
    name="root-of-width",
    message="You multiplied by the root of d_model; the rate is divided by it: wide models take "
    "smaller steps.",
)
def times_root(step, d_model, warmup):
    return d_model * right(step, d_model, warmup)


@misconception(
    name="divided-by-the-width",
    message="You divided by d_model; the rate is divided by its root.",
)
def by_width(step, d_model, warmup):
    return right(step, d_model, warmup) / d_model**0.5


@misconception(
    name="no-decay",
    message="You kept the rate constant after warm-up; it falls with one over the root of the "
    "step.",
)
def constant(step, d_model, warmup):
    return right(min(step, warmup), d_model, warmup)


@misconception(
    name="no-warm-up",
    message="You let the rate fall from the first step on; for the first warmup steps it rises.",
)
def only_decay(step, d_model, warmup):
    refuse(step)
    return d_model**-0.5 * step**-0.5


@misconception(
    name="no-fall",
    message="You let the rate rise for ever; after warmup steps it falls.",
)
def only_rise(step, d_model, warmup):
    refuse(step)
    return d_model**-0.5 * step * warmup**-1.5 if step > warmup else right(step, d_model, warmup)


@misconception(
    name="warmup-to-a-half",
    message="You used warmup with exponent -1/2 in the straight line; it is -3/2, so that both "
    "lines meet at step = warmup.",
)
def half(step, d_model, warmup):
    refuse(step)
    return d_model**-0.5 * min(step**-0.5, step * warmup**-0.5)


@misconception(
    name="share-of-warmup",
    message="You used step / warmup for the straight line; at step = warmup it must be one over "
    "the root of warmup, where the other line is.",
)
def share(step, d_model, warmup):
    refuse(step)
    return d_model**-0.5 * min(step**-0.5, step / warmup)


@misconception(
    name="peak-of-one",
    message="You scaled the rate so that its top does not depend on warmup; here the top is one "
    "over the root of d_model * warmup.",
)
def peak_of_one(step, d_model, warmup):
    return right(step, d_model, warmup) * warmup**0.5


@misconception(
    name="falls-with-the-step",
    message="You let the rate fall with one over the step; it falls with one over its root.",
)
def by_step(step, d_model, warmup):
    refuse(step)
    return d_model**-0.5 * min(warmup**0.5 / step, step * warmup**-1.5)


@misconception(
    name="cosine-decay",
    message="You let the rate fall along a cosine; the schedule of 2017 falls with one over the "
    "root of the step and never reaches zero.",
)
def cosine(step, d_model, warmup):
    refuse(step)
    if step <= warmup:
        return right(step, d_model, warmup)
    share = min(1.0, (step - warmup) / (9 * warmup))
    return right(warmup, d_model, warmup) * 0.5 * (1 + math.cos(math.pi * share))


@misconception(
    name="counts-after-warm-up",
    message="You started counting again after warm-up; the root is that of the step since the "
    "start of training.",
)
def again(step, d_model, warmup):
    refuse(step)
    if step <= warmup:
        return right(step, d_model, warmup)
    return d_model**-0.5 * (step - warmup) ** -0.5


@misconception(
    name="steps-from-zero",
    message="You added one to the step; here steps count from 1 already.",
)
def one_more(step, d_model, warmup):
    refuse(step)
    return right(step + 1, d_model, warmup)


@misconception(
    name="step-zero-accepted",
    message="You returned a rate for a step smaller than 1; there is no such step, and a "
    "ValueError says so.",
)
def accepted(step, d_model, warmup):
    return 0.0 if step < 1 else right(step, d_model, warmup)
