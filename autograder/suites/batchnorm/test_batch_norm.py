"""Hidden tests of `batch_norm(x, weight, bias, running_mean, running_var, ...)`, simplest first.

`student.inputs()` gives the tensors as the call left them, so tests of the running
statistics look at its last two entries.
"""

# HIDDEN-SUITE-7f3a

from __future__ import annotations

from typing import Any

import pytest
import torch

from autograder.suites.batchnorm.inputs import (
    EPS,
    LOOSE,
    MANY,
    STRICT,
    C,
    affine,
    after,
    along,
    batch,
    expect_bfloat16_gradients,
    fresh,
    gradients,
    others,
    plain,
    seasoned,
    upstream,
)
from autograder.suites.vocabulary import (
    REACHES,
    expect_bfloat16_output,
    expect_half,
    reaches,
    share,
)
from autograder.testing.compare import ROUNDED_ONCE, expect
from autograder.testing.later import later
from autograder.testing.verdict import LearnerError

RUNNING = ("running_mean after the call", "running_var after the call")


def _held(student: Any) -> list[Any]:
    """x, weight, bias, running_mean and running_var as the call left them."""
    return _five(student.inputs())


@later
def _five(held: Any) -> list[Any]:
    return held if isinstance(held, list) and len(held) == 5 else [None] * 5


def _running(student: Any) -> list[Any]:
    return _held(student)[3:]


@pytest.mark.points(0.75)
def test_a_small_table(student, rng):
    """In training, every column of a small table gets mean 0 and (biased) variance 1"""
    # n - 1 instead of n changes the result by 10 % here; a misplaced eps of 1e-3 by 0.04 %.
    x = batch(rng, 6, C)
    want, _ = after(x, plain(), fresh(), True)
    got = student.batch_norm(x, *plain(), *fresh(), True, 0.1, EPS)
    expect(got, want, **share(want, 2e-3))


@pytest.mark.points(0.75)
def test_each_channel_on_its_own(student, rng):
    """Statistics go over the batch, for each channel by itself"""
    # As many samples as channels: statistics of the wrong axis broadcast without an error.
    for shape in ((MANY, MANY), (MANY, C), (MANY, 1)):
        x = batch(rng, *shape)
        want, _ = after(x, plain(shape[1]), fresh(shape[1]), True)
        got = student.batch_norm(x, *plain(shape[1]), *fresh(shape[1]), True, 0.1, EPS)
        expect(got, want, **share(want, LOOSE))


@pytest.mark.points(0.75)
def test_sequences_and_images(student, rng):
    """With more axes, statistics go over the batch and all positions"""
    for shape in ((12, C, 9), (4, 4, 4, 4), (3, C, 4, 6), (1, C, 9, 8), (2, C, 3, 4, 5)):
        x = batch(rng, *shape)
        x = x + 3 * torch.arange(shape[-1])  # so that each position alone has another mean
        want, _ = after(x, plain(shape[1]), fresh(shape[1]), True)
        got = student.batch_norm(x, *plain(shape[1]), *fresh(shape[1]), True, 0.1, EPS)
        what = f"the output for an x with {len(shape)} axes"
        expect(got, want, **share(want, LOOSE), what=what)


@pytest.mark.points(0.75)
def test_weight_and_bias(student, rng):
    """In both modes the normalized x is multiplied by weight, then bias is added"""
    for training, shape in ((True, (MANY, C)), (False, (MANY, C)), (True, (4, 6, 5, 6))):
        x, (weight, bias), running = (
            batch(rng, *shape),
            affine(rng, shape[1]),
            seasoned(rng, shape[1]),
        )
        weight[2], bias[1] = 0.0, 0.0
        want, _ = after(x, (weight, bias), running, training)
        got = student.batch_norm(x, weight, bias, *running, training, 0.1, EPS)
        expect(got, want, **share(want, LOOSE))


@pytest.mark.points(1)
def test_running_statistics_are_updated(student, rng):
    """In training running_mean and running_var move towards the batch, in place, by momentum"""
    for shape, momentum in (((MANY, C), 0.3), ((4, C, 5, 4), 0.1), ((MANY, C), 1.0)):
        x, running = batch(rng, *shape), seasoned(rng)
        want, moved = after(x, plain(), running, True, momentum)
        got = student.batch_norm(x, *plain(), *running, True, momentum, EPS)
        expect(got, want, **share(want, LOOSE))
        for name, held, right in zip(RUNNING, _running(student), moved, strict=True):
            expect(held, right, **share(right, LOOSE), what=name)


@pytest.mark.points(0.5)
def test_running_var_is_unbiased(student, rng):
    """running_var takes in the unbiased variance, though the biased one normalizes"""
    for shape in ((4, C), (2, C, 3)):
        x, running = batch(rng, *shape), seasoned(rng)
        _, moved = after(x, plain(), running, True, 0.5)
        student.batch_norm(x, *plain(), *running, True, 0.5, EPS)
        expect(_running(student)[1], moved[1], **share(moved[1], 1e-4), what=RUNNING[1])


@pytest.mark.points(1)
def test_evaluation(student, rng):
    """In evaluation the running statistics normalize, whatever the batch holds"""
    for shape in ((6, C), (C, C), (2, C, 3), (2, C, 3, C)):
        x, running = batch(rng, *shape), seasoned(rng)
        want, _ = after(x, plain(), running, False)
        got = student.batch_norm(x, *plain(), *running, False, 0.1, EPS)
        what = f"the output in evaluation for an x with {len(shape)} axes"
        expect(got, want, **share(want, 2e-3), what=what)


@pytest.mark.points(0.5)
def test_evaluation_changes_nothing(student, rng):
    """In evaluation a single sample is enough, and the running statistics stay as they are"""
    for shape in ((9, C), (1, C), (1, C, 4)):
        x, running = batch(rng, *shape), seasoned(rng)
        want, _ = after(x, plain(), running, False)
        got = student.batch_norm(x, *plain(), *running, False, 0.3, EPS)
        expect(got, want, **share(want, LOOSE))
        for name, held, right in zip(RUNNING, _running(student), running, strict=True):
            expect(held, right, rtol=0, atol=0, what=name)


@pytest.mark.points(0.5)
def test_eps(student, rng):
    """eps is the argument, and is added to the variance under the root, in both modes"""
    # Spreads and eps such that for each eps some channels are ruled by it and some hardly see it.
    spread = torch.tensor([3.0, 1e-1, 1e-3, 1e-5, 1e-6], dtype=torch.float64)
    noise = torch.randn(MANY, C, generator=rng, dtype=torch.float64)
    x, running = (spread * (1 + noise)).float(), (spread.float(), spread.square().float())
    for training in (True, False):
        for eps in (10.0, 1e-2, 1e-6, 1e-12):
            want, _ = after(x, plain(), running, training, 0.1, eps)
            got = student.batch_norm(x, *plain(), *running, training, 0.1, eps)
            atol = 2e-3 * float(want.abs().max())
            what = "the output for a large eps" if eps > 1 else "the output for a small eps"
            expect(got, want, rtol=LOOSE, atol=atol, what=what)


@pytest.mark.points(0.25)
def test_equal_numbers(student, rng):
    """A channel of equal numbers gives the bias, not NaN"""
    x, (weight, bias) = batch(rng, MANY, C), affine(rng)
    # Numbers whose sums and means are exact, so that the deviations are exactly 0.
    x[:, 1], x[:, 3], x[:, 4] = 0.0, 7.25, -1024.0
    want, _ = after(x, (weight, bias), fresh(), True)
    got = student.batch_norm(x, weight, bias, *fresh(), True, 0.1, EPS)
    expect(got, want, **share(want, LOOSE))


@pytest.mark.points(0.25)
def test_one_value_per_channel(student, rng):
    """One value per channel is refused in training with a ValueError; two are enough"""
    for shape in ((2, C), (1, C, 2)):
        x = batch(rng, *shape)
        want, _ = after(x, plain(), fresh(), True)
        got = student.batch_norm(x, *plain(), *fresh(), True, 0.1, EPS)
        expect(got, want, **share(want, LOOSE))
    for shape in ((1, C), (1, C, 1, 1)):
        refused = False
        try:
            student.batch_norm(batch(rng, *shape), *plain(), *fresh(), True, 0.1, EPS)
        except LearnerError as error:
            if error.kind != "ValueError":
                raise
            refused = True
        what = "the answer to whether one value per channel raises a ValueError in training"
        expect(refused, True, what=what)


@pytest.mark.points(0.5)
def test_formula_to_the_last_digits(student, rng):
    """Agrees with the formula to float32 precision, for few and for many values"""
    for shape in ((7, 3), (2, C), (300, 2), (3, 2, 7, 5), (5, 1)):
        x, (weight, bias), running = (
            batch(rng, *shape),
            affine(rng, shape[1]),
            seasoned(rng, shape[1]),
        )
        # A channel that eps rules, beside others.
        x[:, 1:2] = 3e-3 * torch.randn(x[:, 1:2].shape, generator=rng)
        for training in (True, False):
            want, moved = after(x, (weight, bias), running, training, 0.3, 0.02)
            got = student.batch_norm(x, weight, bias, *running, training, 0.3, 0.02)
            expect(got, want, **share(want, STRICT))
            for name, held, right in zip(RUNNING, _running(student), moved, strict=True):
                expect(held, right, rtol=STRICT, atol=STRICT, what=name)


@pytest.mark.points(0.25)
def test_large_mean(student, rng):
    """Stays accurate when the mean is far larger than the spread"""
    # In float32 the mean itself is known to about 1e-3 here, and E[x²] - E[x]² is off by up to 8
    # where 1 is right.
    x, (weight, bias), running = 1e4 + torch.randn(768, C, generator=rng), affine(rng), fresh()
    want, moved = after(x, (weight, bias), running, True, 0.1, 1e-5)
    got = student.batch_norm(x, weight, bias, *running, True, 0.1, 1e-5)
    expect(got, want, **share(want, 1e-2))
    for name, held, right in zip(RUNNING, _running(student), moved, strict=True):
        expect(held, right, **share(right, 1e-2), what=name)


@pytest.mark.points(0.5)
def test_half_types(student, rng):
    """float16 and bfloat16: computed in float32, returned in the dtype of x"""
    # bfloat16 steps by 1 at 200: a mean kept in it is off by up to a quarter of the spread.
    coarse = (200 + 2 * torch.randn(MANY, C, generator=rng)).bfloat16()
    # Squares of these numbers do not fit into float16 (at most 65504).
    huge = (2e4 * torch.randn(MANY, C, generator=rng)).clamp(-6e4, 6e4).half()
    # The dtype of x decides, whatever that of weight and bias.
    for x, (weight, bias) in ((coarse, affine(rng, C, torch.bfloat16)), (huge, affine(rng))):
        running = x.float().mean(0) + 1, x.float().var(0) * 1.5
        for training in (True, False):
            want, moved = after(x, (weight, bias), running, training)
            got = student.batch_norm(x, weight, bias, *running, training, 0.1, EPS)
            expect_half(got, want, LOOSE, "the output")
            for name, held, right in zip(RUNNING, _running(student), moved, strict=True):
                expect(held, right, **share(right, LOOSE), what=name)


@pytest.mark.points(0.25)
def test_half_types_rounded_once(student, rng):
    """float16 and bfloat16: rounded once, after weight and bias"""
    half, bfloat = torch.float16, torch.bfloat16
    for dtype, of_weight in ((half, half), (bfloat, bfloat), (half, torch.float32)):
        x, (weight, bias) = batch(rng, MANY, 8, dtype=dtype), affine(rng, 8, of_weight)
        want, _ = after(x.float(), (weight, bias), fresh(8), True, 0.1, 1e-5)
        got = student.batch_norm(x, weight, bias, *fresh(8), True, 0.1, 1e-5)
        expect_half(got, want.to(dtype), LOOSE, "the output")
        # One rounding: half a step (eps / 2 of the value), and float32's own error around it.
        half_step = 1.02 * torch.finfo(dtype).eps / 2
        expect(got.float(), want, rtol=half_step, atol=2e-5, what=ROUNDED_ONCE)
        # In a module moved to a half type the running statistics are of that type, too.
        running = seasoned(rng, 8, dtype)
        want, _ = after(x.float(), (weight, bias), running, False, 0.1, 1e-5)
        got = student.batch_norm(x, weight, bias, *running, False, 0.1, 1e-5)
        expect_half(got, want.to(dtype), LOOSE, "the output in evaluation")
        what = f"{ROUNDED_ONCE} in evaluation"
        expect(got.float(), want, rtol=half_step, atol=2e-5, what=what)


@pytest.mark.points(0.25)
def test_float64(student, rng):
    """float64: computed and returned in float64"""
    wide = torch.float64
    x, (weight, bias) = batch(rng, 9, C, dtype=wide), affine(rng, C, wide)
    x[:, 3] = 3e-3 * torch.randn(9, generator=rng, dtype=wide)  # a channel that eps rules
    for training in (True, False):
        running = seasoned(rng, C, wide)
        want, moved = after(x, (weight, bias), running, training, 0.3, 0.02)
        got = student.batch_norm(x, weight, bias, *running, training, 0.3, 0.02)
        expect(got, want, **share(want, 1e-12))
        for name, held, right in zip(RUNNING, _running(student), moved, strict=True):
            expect(held, right, **share(right, 1e-12), what=name)


@pytest.mark.points(0.25)
def test_inputs_unchanged(student, rng):
    """x, weight and bias are not modified"""
    for training in (True, False):
        x, (weight, bias), running = batch(rng, MANY, C), affine(rng), seasoned(rng)
        before = [x.clone(), weight.clone(), bias.clone()]
        want, _ = after(x, (weight, bias), running, training)
        got = student.batch_norm(x, weight, bias, *running, training, 0.1, EPS)
        expect(got, want, **share(want, LOOSE))
        expect(_held(student)[:3], before, rtol=0, atol=0, what="the inputs after the call")


@pytest.mark.points(0.25)
def test_strided_inputs(student, rng):
    """Transposed, sliced and expanded inputs give the same as a copy of them"""
    weight, bias = (t[::2] for t in affine(rng, 2 * C))
    transposed = batch(rng, MANY, C).t().contiguous().t()
    channels_last = batch(rng, 4, C, 5, 4).contiguous(memory_format=torch.channels_last)
    sliced = batch(rng, 9, 2 * C, 16)[:, ::2, ::2]
    expanded = batch(rng, MANY, C, 1).expand(MANY, C, 3)
    kinds = (
        ("a transposed", transposed),
        ("a channels-last", channels_last),
        ("a sliced", sliced),
        ("an expanded", expanded),
    )
    for kind, x in kinds:
        for training in (True, False):
            running = seasoned(rng)
            want, _ = after(x, (weight, bias), running, training)
            got = student.batch_norm(x, weight, bias, *running, training, 0.1, EPS)
            expect(got, want, **share(want, LOOSE), what=f"the output for {kind} x")


@pytest.mark.points(0.25)
def test_gradient_flows(student, rng):
    """Autograd finds the right slope of your function, through the batch's mean and variance too"""
    # The slope of the learner's own function along random directions, by central differences.
    # With a step of 1e-2 in channels of spread 2 and more, both the curvature and float32 rounding
    # stay below 1e-3 of the slope.
    step, wide = 1e-2, torch.float64
    x, (weight, bias) = batch(rng, 16, C, 4, dtype=wide), affine(rng, C, wide)
    g = upstream(rng, x, wide)
    u = torch.randn(x.shape, generator=rng, dtype=wide) + 0.5

    def call(run, *args):
        # By name: only tensors given by position are asked for gradients.
        mean, var = fresh(C, wide)
        state = {"running_mean": mean, "running_var": var, "training": True}
        return run(*args, weight, bias, **state, momentum=0.1, eps=EPS)

    want, _ = after(x, (weight, bias), fresh(C, wide), True)
    y, vjp = call(student.vjp, "batch_norm", x)
    expect(y, want, **share(want, LOOSE))
    found = vjp(g)
    expect(reaches(found, x, weight, bias), [True] * 3, what=REACHES.format("x, weight and bias"))
    ahead = call(student.batch_norm, x + step * u)
    right, _ = after(x + step * u, (weight, bias), fresh(C, wide), True)
    expect(ahead, right, **share(want, LOOSE))
    behind = call(student.batch_norm, x - step * u)
    right, _ = after(x - step * u, (weight, bias), fresh(C, wide), True)
    expect(behind, right, **share(want, LOOSE))
    dims = others(x)
    slope = (g * (ahead - behind)).sum(dims) / (2 * step)
    along_u = (found[0] * u).sum(dims)
    size = float(g.square().sum(dims).sqrt().max())
    expect(along_u, slope, rtol=5e-3, atol=5e-3 * size, what="the gradient for x")
    per_weight = (g * (y - along(x, bias)) / along(x, weight)).sum(dims)
    expect(found[1], per_weight, **share(per_weight, 1e-3), what="the gradient for weight")
    expect(found[2], g.sum(dims), **share(g.sum(dims), 1e-3), what="the gradient for bias")


@pytest.mark.points(0.25)
def test_gradient_flows_in_bfloat16(student, rng):
    """Autograd finds its way through your function in bfloat16, too"""
    dtype = torch.bfloat16
    x, (weight, bias) = batch(rng, 16, C, 4, dtype=dtype), affine(rng, C, dtype)
    g, running = upstream(rng, x, dtype), fresh()
    want, _ = after(x, (weight, bias), running, True)
    exact = gradients(g, x, weight, EPS)
    # By name: only tensors given by position are asked for gradients.
    state = {"running_mean": running[0], "running_var": running[1], "training": True}
    y, vjp = student.vjp("batch_norm", x, weight, bias, **state, momentum=0.1, eps=EPS)
    expect_bfloat16_output(y, want)
    expect_bfloat16_gradients(vjp(g), exact)


@pytest.mark.points(0.25)
def test_update_is_not_recorded(student, rng):
    """Autograd does not record the update of the running statistics"""
    x, (weight, bias), running = batch(rng, MANY, C), affine(rng), seasoned(rng)
    want, moved = after(x, (weight, bias), running, True)
    expect(
        student.batch_norm(x, weight, bias, *running, True, 0.1, EPS), want, **share(want, LOOSE)
    )
    for name, held, right in zip(RUNNING, _running(student), moved, strict=True):
        expect(held, right, **share(right, LOOSE), what=name)
    state = {"running_mean": running[0], "running_var": running[1], "training": True}
    student.vjp("batch_norm", x, weight, bias, **state, momentum=0.1, eps=EPS)
    # Now running_mean and running_var ask for gradients, too, because they are given by position.
    # An update in place outside of no_grad is an error then.
    recorded = False
    try:
        student.vjp("batch_norm", x, weight, bias, *running, True, 0.1, EPS)
    except LearnerError as error:
        if error.kind != "RuntimeError":
            raise
        recorded = True
    what = "the answer to whether autograd would record the update of the running statistics"
    expect(recorded, False, what=what)
