"""Wrong versions of `batch_norm`: the two modes and the running statistics."""

from __future__ import annotations

from functools import partial

import torch

from autograder.misconceptions import misconception as declare
from autograder.misconceptions.batchnorm.batch_norm import (
    PAGE,
    affine,
    normalize,
    observe,
    refuse_one_value,
    statistics,
    unbiased,
    up,
)

misconception = partial(declare, exercise="batch_norm")

# -- the update --------------------------------------------------------------------------------


def _updating(change):
    """A batch norm that is right but for its update, `change(h, mean, var, running, momentum)`.

    var is the biased variance; running holds the two tensors to be changed in place.
    """

    def batch_norm(x, weight, bias, running_mean, running_var, training, momentum, eps):
        h = up(x)
        if training:
            refuse_one_value(h)
            mean, var = statistics(h)
            with torch.no_grad():
                change(h, mean, var, (running_mean, running_var), momentum)
        else:
            mean, var = running_mean.to(h.dtype), running_var.to(h.dtype)
        return affine(normalize(h, mean, var, eps), x, weight, bias)

    return batch_norm


def move(running, new, momentum) -> None:
    running.mul_(1 - momentum).add_(momentum * new)


@misconception(
    name="running-var-biased",
    message="You let the biased variance into running_var; what enters it is the unbiased one, "
    "var * n / (n - 1).",
    link=PAGE + "bn-running",
)
@_updating
def running_var_biased(h, mean, var, running, momentum):
    move(running[0], mean, momentum)
    move(running[1], var, momentum)


@misconception(
    name="momentum-reversed",
    message="You let momentum weight the old value (as an optimizer does, and some courses); here "
    "it weights the new one: (1 - momentum) * running + momentum * batch.",
    link=PAGE + "bn-momentum",
)
@_updating
def momentum_reversed(h, mean, var, running, momentum):
    move(running[0], mean, 1 - momentum)
    move(running[1], unbiased(h, var), 1 - momentum)


@misconception(parts=("momentum-reversed", "running-var-biased"))
@_updating
def reversed_and_biased(h, mean, var, running, momentum):
    move(running[0], mean, 1 - momentum)
    move(running[1], var, 1 - momentum)


@misconception(
    name="momentum-ignored",
    message="You did not use the argument momentum for the running statistics.",
    link=PAGE + "bn-momentum",
)
@_updating
def momentum_fixed(h, mean, var, running, momentum):
    move(running[0], mean, 0.1)
    move(running[1], unbiased(h, var), 0.1)


@misconception(name="momentum-ignored")
@_updating
def batch_replaces_running(h, mean, var, running, momentum):
    move(running[0], mean, 1.0)
    move(running[1], unbiased(h, var), 1.0)


@misconception(
    name="running-var-not-updated",
    message="You updated running_mean but not running_var.",
    link=PAGE + "bn-running",
)
@_updating
def running_var_not_updated(h, mean, var, running, momentum):
    move(running[0], mean, momentum)


@misconception(
    name="running-not-updated",
    message="You did not change running_mean and running_var in place: an assignment such as "
    "running_mean = ... only renames; use running_mean.mul_(...).add_(...) or copy_.",
    link=PAGE + "bn-in-place",
)
@_updating
def running_not_updated(h, mean, var, running, momentum):
    pass


@misconception(
    name="running-std",
    message="You averaged the standard deviation in running_var; it holds the variance.",
    link=PAGE + "bn-running",
)
@_updating
def running_std(h, mean, var, running, momentum):
    move(running[0], mean, momentum)
    move(running[1], unbiased(h, var).sqrt(), momentum)


@misconception(
    name="old-value-not-weighted",
    message="You added momentum times the batch's value without shrinking the old one; multiply "
    "the old value by 1 - momentum.",
    link=PAGE + "bn-momentum",
)
@_updating
def old_value_not_weighted(h, mean, var, running, momentum):
    running[0].add_(momentum * mean)
    running[1].add_(momentum * unbiased(h, var))


@misconception(
    name="update-recorded",
    message="You left the update of the running statistics in the graph, so that memory grows from "
    "batch to batch; put it under torch.no_grad().",
    link=PAGE + "bn-in-place",
)
def update_recorded(x, weight, bias, running_mean, running_var, training, momentum, eps):
    h = up(x)
    mean, var = running_mean.to(h.dtype), running_var.to(h.dtype)
    if training:
        refuse_one_value(h)
        mean, var = statistics(h)
        move(running_mean, mean, momentum)
        move(running_var, unbiased(h, var), momentum)
    return affine(normalize(h, mean, var, eps), x, weight, bias)


# -- the modes ---------------------------------------------------------------------------------


@misconception(
    name="one-value-accepted",
    message="You normalized a channel of a single value in training, which always gives 0; raise a "
    "ValueError.",
    link=PAGE + "bn-batch-of-one",
)
def one_value_accepted(x, weight, bias, running_mean, running_var, training, momentum, eps):
    h = up(x)
    if training and h.numel() // h.shape[1] < 2:
        mean, var = statistics(h)
        return affine(normalize(h, mean, var, eps), x, weight, bias)
    mean, var = observe(h, running_mean, running_var, training, momentum)
    return affine(normalize(h, mean, var, eps), x, weight, bias)


@misconception(
    name="batch-statistics-in-evaluation",
    message="You normalized with the batch's statistics in evaluation; there the running ones are "
    "used, so that a sample's output does not depend on its neighbours.",
    link=PAGE + "bn-modes",
)
def batch_statistics_in_evaluation(
    x, weight, bias, running_mean, running_var, training, momentum, eps
):
    h = up(x)
    observe(h, running_mean, running_var, training, momentum)
    mean, var = statistics(h)
    return affine(normalize(h, mean, var, eps), x, weight, bias)


@misconception(
    name="running-statistics-in-training",
    message="You normalized with the running statistics in training; there the batch's own mean "
    "and variance are used.",
    link=PAGE + "bn-modes",
)
def running_statistics_in_training(
    x, weight, bias, running_mean, running_var, training, momentum, eps
):
    h = up(x)
    observe(h, running_mean, running_var, training, momentum)
    mean, var = running_mean.to(h.dtype), running_var.to(h.dtype)
    return affine(normalize(h, mean, var, eps), x, weight, bias)


@misconception(name="running-statistics-in-training")
def running_statistics_before_the_update(
    x, weight, bias, running_mean, running_var, training, momentum, eps
):
    h = up(x)
    mean, var = running_mean.to(h.dtype).clone(), running_var.to(h.dtype).clone()
    observe(h, running_mean, running_var, training, momentum)
    return affine(normalize(h, mean, var, eps), x, weight, bias)


@misconception(
    name="updated-in-evaluation",
    message="You updated the running statistics in evaluation; they change in training only.",
    link=PAGE + "bn-modes",
)
def updated_in_evaluation(x, weight, bias, running_mean, running_var, training, momentum, eps):
    h = up(x)
    mean, var = running_mean.to(h.dtype).clone(), running_var.to(h.dtype).clone()
    if h.numel() // h.shape[1] > 1 or training:
        batch = observe(h, running_mean, running_var, True, momentum)
        mean, var = batch if training else (mean, var)
    return affine(normalize(h, mean, var, eps), x, weight, bias)


@misconception(parts=("running-statistics-in-training", "batch-statistics-in-evaluation"))
def modes_swapped(x, weight, bias, running_mean, running_var, training, momentum, eps):
    h = up(x)
    mean, var = observe(h, running_mean, running_var, not training, momentum)
    return affine(normalize(h, mean, var, eps), x, weight, bias)


@misconception(name="batch-statistics-in-evaluation")
def mode_from_autograd(x, weight, bias, running_mean, running_var, training, momentum, eps):
    """Asks torch.is_grad_enabled() for the mode, as a well-known course does."""
    h = up(x)
    mean, var = observe(h, running_mean, running_var, torch.is_grad_enabled(), momentum)
    return affine(normalize(h, mean, var, eps), x, weight, bias)
