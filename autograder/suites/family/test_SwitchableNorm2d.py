"""Hidden tests of the module `SwitchableNorm2d(num_features, eps=1e-5, momentum=0.1)`.

They need nothing from the learner's other exercises. 8 x 8 positions and more: then LOOSE forgives
an unbiased variance, which has a test of its own.
"""

# HIDDEN-SUITE-7f3a

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import solutions.family.family as reference
from autograder.suites.family.inputs import (
    LOOSE,
    STRICT,
    affine,
    coarse,
    expect_found_in_bfloat16,
    expect_rounded_once,
    images,
    upstream,
)
from autograder.suites.vocabulary import (
    REACHES,
    expect_bfloat16_output,
    expect_half,
    gathered,
    huge,
    reaches,
    share,
    text_list,
)
from autograder.testing.compare import expect
from autograder.testing.verdict import LearnerError

C = 5
DEFAULT_EPS = 1e-5
BUFFERS = ("running_mean", "running_var")
State = dict[str, Tensor]


def _fresh(c: int = C) -> State:
    ones, zeros = torch.ones(c), torch.zeros(c)
    return {
        "weight": ones, "bias": zeros, "mean_weight": torch.ones(3), "var_weight": torch.ones(3),
        "running_mean": zeros, "running_var": ones,
    }  # fmt: skip


def _seasoned(rng: torch.Generator, c: int = C) -> State:
    """A state in which every entry differs from its start and from every other."""
    weight, bias = affine(rng, c)
    shares = 1.5 * torch.randn(2, 3, generator=rng)
    spread = 2 + 6 * torch.rand(c, generator=rng)
    running = {"running_mean": 10 * torch.randn(c, generator=rng), "running_var": spread.square()}
    mixture = {"mean_weight": shares[0], "var_weight": shares[1]}
    return {"weight": weight, "bias": bias} | mixture | running


def _module(state: State, training: bool, eps: float, momentum: float):
    m = reference.SwitchableNorm2d(len(state["weight"]), eps, momentum).double()
    m.load_state_dict({name: t.double() for name, t in state.items()})
    return m.train(training)


def _after(
    x: Tensor,
    state: State,
    training: bool = True,
    eps: float = DEFAULT_EPS,
    momentum: float = 0.1,
) -> tuple[Tensor, State]:
    """Output and state after one call, in float64, rounded once at the end."""
    m = _module(state, training, eps, momentum)
    with torch.no_grad():
        y = m(x.double())
    return y.to(x.dtype), {name: t.to(state[name].dtype) for name, t in m.state_dict().items()}


def _expect_state(m, want: State, part: float, when: str) -> None:
    """The state's form first, then its values: parameters exactly, statistics within `part`."""
    found = m.state()
    expect(found, want, rtol=0, atol=1e9, what=f"the state_dict {when}")
    for name, right in want.items():
        tolerance = share(right, part) if name in BUFFERS and part else {"rtol": 0.0, "atol": 0.0}
        expect(found[name], right, **tolerance, what=f"`{name}` {when}")


def _check(m, x, state, training=True, part=LOOSE, what="the output", **settings) -> State:
    want, after = _after(x, state, training, **settings)
    expect(m(x), want, **share(want, part), what=what)
    return after


@pytest.mark.points(1)
def test_parameters_and_buffers(student, rng):
    """Parameters and buffers: names, shapes, first values, and which of them are trained"""
    m = student.SwitchableNorm2d(C)
    _expect_state(m, _fresh(), 0.0, "of a fresh module")
    trained = text_list(m.parameters())
    names = ["bias", "mean_weight", "var_weight", "weight"]
    expect(trained, names, what="the list of trainable parameters, sorted")
    _check(m, images(rng, 3, C, 8, 9), _fresh(), part=0.1)


@pytest.mark.points(0.75)
def test_fresh_module_in_training(student, rng):
    """A fresh module mixes the three means, and the three variances, in equal parts"""
    for shape in ((3, C, 8, 9), (8, 8, 8, 8), (1, C, 8, 8)):
        _check(student.SwitchableNorm2d(shape[1]), images(rng, *shape), _fresh(shape[1]))


@pytest.mark.points(0.75)
def test_each_norm_alone(student, rng):
    """With one share of almost 1 it is instance, layer or batch norm"""
    for k, name in enumerate(("instance", "layer", "batch")):
        m, far = student.SwitchableNorm2d(8), 30 * torch.eye(3)[k]
        state = _fresh(8) | {"mean_weight": far, "var_weight": far}
        m.load(state)
        x = images(rng, 8, 8, 8, 8)
        x = x + 3 * torch.arange(8)  # so that each column has another mean
        _check(m, x, state, what=f"the output with all weight on {name} norm")


@pytest.mark.points(1)
def test_two_mixtures(student, rng):
    """Means and variances are mixed by a softmax each, of mean_weight and of var_weight"""
    for _ in range(3):
        m, state = student.SwitchableNorm2d(C), _seasoned(rng)
        m.load(state | {"weight": torch.ones(C), "bias": torch.zeros(C)})
        state = state | {"weight": torch.ones(C), "bias": torch.zeros(C)}
        _check(m, images(rng, 3, C, 8, 9), state)


@pytest.mark.points(0.5)
def test_weight_and_bias(student, rng):
    """Weight and bias act on the channels, after the normalization"""
    for shape in ((3, 8, 8, 8), (2, C, 9, 8)):
        m, state = student.SwitchableNorm2d(shape[1]), _seasoned(rng, shape[1])
        m.load(state)
        _check(m, images(rng, *shape), state, part=0.03)


@pytest.mark.points(0.5)
def test_running_statistics(student, rng):
    """In training the buffers follow the batch's own mean and variance, not the mixed ones"""
    m, state = student.SwitchableNorm2d(C), _seasoned(rng)
    m.load(state)
    for n in (3, 4):
        state = _check(m, images(rng, n, C, 8, 9), state, part=0.03, what="the output in training")
        _expect_state(m, state, LOOSE, "after a batch")


@pytest.mark.points(0.25)
def test_update_is_not_recorded(student, rng):
    """Autograd does not record the update of the buffers"""
    m, x = student.SwitchableNorm2d(C), images(rng, 3, C, 8, 9)
    want, after = _after(x, _fresh())
    y, _ = m.vjp(x)  # x asks for gradients, and so does all that is computed from it
    expect(y, want, **share(want, LOOSE))
    # Whether the update is the right one is asked elsewhere; here it only has to be there.
    state = m.state()
    expect(state, after, rtol=0, atol=1e9, what="the state_dict after a batch")
    moved = [name for name in BUFFERS if not torch.equal(state[name], _fresh()[name])]
    expect(moved, [*BUFFERS], what="the list of buffers that a batch in training changes")
    expect(text_list(m.recorded()), [], what="the list of buffers that autograd has recorded")


@pytest.mark.points(0.25)
def test_which_variance(student, rng):
    """Biased variances normalize, the unbiased one enters running_var"""
    for c in (C, 1):
        x = images(rng, 2, c, 2, 3)
        want, after = _after(x, _fresh(c))
        m = student.SwitchableNorm2d(c)
        expect(m(x), want, **share(want, 2e-3))
        _expect_state(m, after, 1e-3, "after a small batch")


@pytest.mark.points(0.75)
def test_evaluation(student, rng):
    """In evaluation running statistics stand in for the batch's, and nothing changes"""
    m, state = student.SwitchableNorm2d(C), _seasoned(rng)
    m.load(state)
    m.eval()
    for shape in ((4, C, 8, 8), (1, C, 8, 9), (C, C, 8, 8)):
        _check(m, images(rng, *shape), state, False, 0.03, "the output in evaluation")
    _expect_state(m, state, 0.0, "after calls in evaluation")
    m.train()
    _check(m, images(rng, 3, C, 8, 8), state, part=0.03, what="the output in training again")


@pytest.mark.points(0.25)
def test_eps_and_momentum(student, rng):
    """eps and momentum are those given to the module; without arguments 1e-5 and 0.1"""
    spread = torch.tensor([2.0, 1.0, 0.1, 3e-3, 1e-6])[:, None, None]
    x = spread * (0.5 + torch.randn(3, C, 8, 9, generator=rng))
    alone = 30 * torch.eye(3)[0]
    state = _fresh() | {"mean_weight": alone, "var_weight": alone}
    for m, eps, momentum in (
        (student.SwitchableNorm2d(C, 4.0, 0.5), 4.0, 0.5),
        (student.SwitchableNorm2d(C, momentum=0.02, eps=0.5), 0.5, 0.02),
        (student.SwitchableNorm2d(C), DEFAULT_EPS, 0.1),
    ):
        m.load(state)
        after = _check(m, x, state, eps=eps, momentum=momentum)
        _expect_state(m, after, LOOSE, "after a batch")


@pytest.mark.points(0.25)
def test_gradients(student, rng):
    """Gradients reach x and all four parameters, and are right"""
    m, state, x = student.SwitchableNorm2d(C), _seasoned(rng), images(rng, 3, C, 8, 9)
    state["weight"] = state["weight"].abs()
    want, _ = _after(x, state)
    g, right = upstream(rng, x).float(), _module(state, True, DEFAULT_EPS, 0.1)
    wide = x.double().requires_grad_()
    names = ("weight", "bias", "mean_weight", "var_weight")
    leaves = [wide, *(dict(right.named_parameters())[name] for name in names)]
    exact = [t.float() for t in torch.autograd.grad(right(wide), leaves, g.double())]
    m.load(state)
    y, vjp = m.vjp(x)
    expect(y, want, **share(want, 0.03))
    inputs, parameters = vjp(g)
    found = gathered(inputs, 1, parameters, names)
    what = REACHES.format("x, weight, bias, mean_weight and var_weight")
    expect(reaches(found, *exact), [True] * 5, what=what)
    for i, (name, gradient) in enumerate(zip(("x", *names), exact, strict=True)):
        expect(found[i], gradient, **share(gradient, 0.06), what=f"the gradient for {name}")


@pytest.mark.points(0.25)
def test_gradients_in_bfloat16(student, rng):
    """With a bfloat16 x, too, gradients reach x and all four parameters"""
    m, state = student.SwitchableNorm2d(C), _seasoned(rng)
    x = images(rng, 3, C, 8, 9, dtype=torch.bfloat16)
    want, _ = _after(x, state)
    g, right = upstream(rng, x).bfloat16(), _module(state, True, DEFAULT_EPS, 0.1)
    wide = x.double().requires_grad_()
    names = ("weight", "bias", "mean_weight", "var_weight")
    leaves = [wide, *(dict(right.named_parameters())[name] for name in names)]
    for_x, *others = torch.autograd.grad(right(wide), leaves, g.double())
    m.load(state)
    y, vjp = m.vjp(x)
    expect_bfloat16_output(y, want)
    inputs, parameters = vjp(g)
    found = gathered(inputs, 1, parameters, names)
    exact = [for_x.bfloat16(), *(t.float() for t in others)]
    # Those for the shares are small differences of large numbers: only whether they are there.
    expect_found_in_bfloat16(found, exact, ["x", *names], values=3)


@pytest.mark.points(0.25)
def test_dtypes(student, rng):
    """Half types are computed in float32 and rounded once; the output has the dtype of x"""
    state = _seasoned(rng)
    m = student.SwitchableNorm2d(C)
    m.load(state)
    for x in (coarse(rng, 3, C, 8, 9), huge(rng, 3, C, 8, 9)):
        want, state = _after(x, state)
        expect_half(m(x), want, 0.03, "the output")
        _expect_state(m, state, LOOSE, "after a batch of a half type")
    for dtype in (torch.float16, torch.bfloat16):
        x = images(rng, 3, C, 8, 9, dtype=dtype)
        want, state = _after(x.float(), state)
        expect_rounded_once(m(x), want, dtype)
    # A module of a half type, too, computes in float32, its shares included.
    m.to(torch.bfloat16)
    state = {name: t.bfloat16() for name, t in _seasoned(rng).items()}
    m.load(state)
    x = images(rng, 3, C, 8, 9, dtype=torch.bfloat16)
    want, _ = _after(x.float(), state)
    expect_rounded_once(m(x), want, torch.bfloat16)


@pytest.mark.points(0.25)
def test_precision_and_one_value(student, rng):
    """Agrees to the last digits; one value per channel is refused in training only"""
    for shape in ((2, C, 3, 5), (1, C, 1, 2), (2, C, 1, 1)):
        m, state = student.SwitchableNorm2d(C, 0.02), _seasoned(rng)
        m.load(state)
        x = images(rng, *shape)
        before = x.clone()
        state = _check(m, x, state, part=STRICT, eps=0.02)
        expect(student.inputs(), [before], rtol=0, atol=0, what="x after the call")
        _expect_state(m, state, STRICT, "after a batch")
        m.eval()
        alone = images(rng, 1, C, 1, 1)
        _check(m, alone, state, False, STRICT, "the output in evaluation for one value", eps=0.02)
        m.to(torch.float64)
        state = {name: t.double() for name, t in state.items()}
        m.load(state)
        _check(m, alone.double(), state, False, 1e-12, "the output in float64", eps=0.02)
    m = student.SwitchableNorm2d(C)
    refused = False
    try:
        m(images(rng, 1, C, 1, 1))
    except LearnerError as error:
        if error.kind != "ValueError":
            raise
        refused = True
    what = "the answer to whether one value per channel raises a ValueError in training"
    expect(refused, True, what=what)
    x = 1e3 + torch.randn(3, C, 24, 32, generator=rng)
    _check(m, x, _fresh(), part=1e-2, what="the output for a large mean")
