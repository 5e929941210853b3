"""Wrong versions of `activation_stds(depth, width, gain, seed)`."""

from __future__ import annotations

from functools import partial

import torch

from autograder.misconceptions import misconception as declare
from autograder.misconceptions.scaling.standardize import PAGE

misconception = partial(declare, exercise="activation_stds")


def deviation(h: torch.Tensor) -> torch.Tensor:
    return h.std(correction=0)


def measured(
    depth,
    width,
    gain,
    seed,
    *,
    activation=torch.relu,
    scale=lambda gain, width: gain / width**0.5,
    turn=lambda weight: weight.T,
    measure=deviation,
    rows=128,
    dtype=torch.float64,
    draw=torch.randn,
):
    """The right function, in which one thing at a time can be replaced."""
    generator = torch.Generator().manual_seed(seed)
    h = torch.randn(rows, width, generator=generator, dtype=dtype)
    stds = []
    for _ in range(depth):
        weight = scale(gain, width) * draw(width, width, generator=generator, dtype=dtype)
        h = activation(h @ turn(weight))
        stds.append(measure(h))
    return torch.stack(stds)


def _with(**changed):
    def activation_stds(depth, width, gain, seed):
        return measured(depth, width, gain, seed, **changed)

    return activation_stds


def _uniform(*shape, generator, dtype):
    return torch.rand(*shape, generator=generator, dtype=dtype)


def _uniform_both_signs(*shape, generator, dtype):
    return 2 * torch.rand(*shape, generator=generator, dtype=dtype) - 1


misconception(
    name="no-activation",
    message="You left out the ReLU; every layer ends with it.",
    link=PAGE + "why-depth",
)(_with(activation=lambda h: h))

misconception(
    name="another-activation",
    message="You used tanh or sigmoid; the layers end with ReLU.",
    link=PAGE + "why-depth",
)(_with(activation=torch.tanh))

misconception(name="another-activation")(_with(activation=torch.sigmoid))

misconception(
    name="weights-not-scaled-by-width",
    message="You did not divide the weights by the root of the width.",
    link=PAGE + "why-init",
)(_with(scale=lambda gain, width: gain))

misconception(
    name="width-without-root",
    message="You divided the weights by the width; divide by its square root.",
    link=PAGE + "why-init",
)(_with(scale=lambda gain, width: gain / width))

misconception(
    name="gain-forgotten",
    message="You left out the gain; the weights have the standard deviation gain / sqrt(width).",
    link=PAGE + "why-init",
)(_with(scale=lambda gain, width: 1 / width**0.5))

misconception(
    name="he-built-in",
    message="You multiplied by sqrt(2) as well; the gain is the whole factor.",
    link=PAGE + "why-init",
)(_with(scale=lambda gain, width: gain * (2 / width) ** 0.5))

misconception(
    name="gain-taken-for-variance",
    message="You used gain / width as the variance of the weights; it is gain² / width.",
    link=PAGE + "why-init",
)(_with(scale=lambda gain, width: (gain / width) ** 0.5))

misconception(
    name="gain-divided",
    message="You divided by the gain; multiply the weights by it.",
    link=PAGE + "why-init",
)(_with(scale=lambda gain, width: 1 / (max(gain, 1e-300) * width**0.5)))

misconception(
    name="xavier-of-both-sides",
    message="You divided by sqrt(2 * width), the sum of inputs and outputs; divide by sqrt(width).",
    link=PAGE + "why-init",
)(_with(scale=lambda gain, width: gain / (2 * width) ** 0.5))

misconception(
    name="uniform-weights",
    message="You drew uniform weights (torch.rand); draw normal ones (torch.randn).",
    link=PAGE + "why-init",
)(_with(draw=_uniform))

misconception(name="uniform-weights")(_with(draw=_uniform_both_signs))

misconception(
    name="weight-not-transposed",
    message="You computed h @ weight; the weight is (out, in), as in nn.Linear, so multiply by "
    "weight.T.",
    link=PAGE + "why-depth",
)(_with(turn=lambda weight: weight))

misconception(
    name="variance-instead-of-deviation",
    message="You gave the variance; the standard deviation is its root.",
    link=PAGE + "why-depth",
)(_with(measure=lambda h: h.var(correction=0)))

misconception(
    name="unbiased-deviation",
    message="You divided by the number of entries minus 1, torch's default; pass correction=0.",
    link=PAGE + "why-biased-variance",
)(_with(measure=lambda h: h.std()))

misconception(
    name="mean-of-deviations",
    message="You averaged the deviations of units or of samples; take one deviation of all entries "
    "together.",
    link=PAGE + "why-depth",
)(_with(measure=lambda h: h.std(0, correction=0).mean()))

misconception(name="mean-of-deviations")(_with(measure=lambda h: h.std(1, correction=0).mean()))


def _mean_of_unbiased(h, dim):
    if h.shape[dim] < 2:
        return torch.full((), torch.nan, dtype=h.dtype)
    return h.std(dim).mean()


for axis in (0, 1):
    misconception(parts=("mean-of-deviations", "unbiased-deviation"))(
        _with(measure=partial(_mean_of_unbiased, dim=axis))
    )

misconception(
    name="mean-not-subtracted",
    message="You took the root mean square; after a ReLU the mean is not 0, so the standard "
    "deviation is smaller.",
    link=PAGE + "why-depth",
)(_with(measure=lambda h: h.square().mean().sqrt()))

misconception(
    name="mean-instead-of-deviation",
    message="You gave the mean of the activations; the exercise asks for their standard deviation.",
    link=PAGE + "why-depth",
)(_with(measure=lambda h: h.mean()))

misconception(
    name="float32",
    message="You drew and computed in float32; everything is float64 here.",
    link=PAGE + "why-precision",
)(_with(dtype=torch.float32))


@misconception(name="float32")
def cast_at_the_end(depth, width, gain, seed):
    return measured(depth, width, gain, seed, dtype=torch.float32).double()


@misconception(name="float32")
def drawn_in_float32(depth, width, gain, seed):
    def draw(*shape, generator, dtype):
        return torch.randn(*shape, generator=generator).to(dtype)

    generator = torch.Generator().manual_seed(seed)
    h = draw(128, width, generator=generator, dtype=torch.float64)
    stds = []
    for _ in range(depth):
        weight = draw(width, width, generator=generator, dtype=torch.float64)
        h = torch.relu(h @ (gain / width**0.5 * weight).T)
        stds.append(deviation(h))
    return torch.stack(stds)


misconception(
    name="another-number-of-samples",
    message="You used another number of samples than 128.",
    link=PAGE + "why-depth",
)(_with(rows=256))

for rows in (1, 64, 100, 512, 1000):
    misconception(name="another-number-of-samples")(_with(rows=rows))


@misconception(
    name="before-the-activation",
    message="You measured before the ReLU; measure what comes out of it.",
    link=PAGE + "why-depth",
)
def before_the_activation(depth, width, gain, seed):
    generator = torch.Generator().manual_seed(seed)
    h = torch.randn(128, width, generator=generator, dtype=torch.float64)
    stds = []
    for _ in range(depth):
        weight = torch.randn(width, width, generator=generator, dtype=torch.float64)
        z = h @ (gain / width**0.5 * weight).T
        stds.append(deviation(z))
        h = torch.relu(z)
    return torch.stack(stds)


@misconception(
    name="input-included",
    message="You also measured the input; the result starts with the first layer.",
    link=PAGE + "why-depth",
)
def input_included(depth, width, gain, seed):
    generator = torch.Generator().manual_seed(seed)
    h = torch.randn(128, width, generator=generator, dtype=torch.float64)
    return torch.cat([deviation(h)[None], measured(depth, width, gain, seed)])


@misconception(name="input-included")
def input_instead_of_last(depth, width, gain, seed):
    return input_included(depth, width, gain, seed)[:-1]


@misconception(
    name="one-weight-for-all-layers",
    message="You used the same weights in every layer; draw new ones for each.",
    link=PAGE + "why-depth",
)
def one_weight(depth, width, gain, seed):
    generator = torch.Generator().manual_seed(seed)
    h = torch.randn(128, width, generator=generator, dtype=torch.float64)
    weight = gain / width**0.5 * torch.randn(width, width, generator=generator, dtype=h.dtype)
    stds = []
    for _ in range(depth):
        h = torch.relu(h @ weight.T)
        stds.append(deviation(h))
    return torch.stack(stds)


@misconception(
    name="generator-made-again",
    message="You seeded a new generator in every layer, so all layers draw the same numbers; make "
    "one before the loop.",
    link=PAGE + "why-depth",
)
def generator_made_again(depth, width, gain, seed):
    generator = torch.Generator().manual_seed(seed)
    h = torch.randn(128, width, generator=generator, dtype=torch.float64)
    stds = []
    for _ in range(depth):
        generator = torch.Generator().manual_seed(seed)
        weight = torch.randn(width, width, generator=generator, dtype=torch.float64)
        h = torch.relu(h @ (gain / width**0.5 * weight).T)
        stds.append(deviation(h))
    return torch.stack(stds)


@misconception(
    name="weights-drawn-first",
    message="You drew the weights before the input; draw the input first, then one weight after "
    "another.",
    link=PAGE + "why-depth",
)
def weights_drawn_first(depth, width, gain, seed):
    generator = torch.Generator().manual_seed(seed)
    weights = [
        gain / width**0.5 * torch.randn(width, width, generator=generator, dtype=torch.float64)
        for _ in range(depth)
    ]
    h = torch.randn(128, width, generator=generator, dtype=torch.float64)
    stds = []
    for weight in weights:
        h = torch.relu(h @ weight.T)
        stds.append(deviation(h))
    return torch.stack(stds)


@misconception(
    name="seed-ignored",
    message="You used a fixed seed; use the argument seed.",
    link=PAGE + "why-depth",
)
def seed_ignored(depth, width, gain, seed):
    return measured(depth, width, gain, 0)


@misconception(
    name="list-of-numbers",
    message="You returned a list; stack the numbers into one tensor.",
    link=PAGE + "why-depth",
)
def list_of_numbers(depth, width, gain, seed):
    return measured(depth, width, gain, seed).tolist()


@misconception(
    name="result-in-float32",
    message="You built the result with torch.tensor, which makes float32 of Python numbers; "
    "torch.stack keeps float64.",
    link=PAGE + "why-precision",
)
def result_in_float32(depth, width, gain, seed):
    return torch.tensor(measured(depth, width, gain, seed).tolist())
