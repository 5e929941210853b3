"""Hidden tests of `fold_batch_norm(weight, bias, running_mean, running_var, bn_weight, ...)`.

They need nothing from the learner's other exercises. Weights have as many inputs as outputs, so
that a factor on the wrong axis broadcasts without an error.
"""

# HIDDEN-SUITE-7f3a

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import solutions.batchnorm.batchnorm as reference
from autograder.suites.batchnorm.inputs import EPS, LOOSE, STRICT, C, affine, after, seasoned
from autograder.suites.vocabulary import expect_half, share
from autograder.testing.compare import expect
from autograder.testing.later import later

NAMES = ("the folded weight", "the folded bias")


def _layer(
    rng: torch.Generator, *shape: int, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor]:
    """Weight (C, in, *kernel) and bias (C,) of a layer."""
    weight = torch.randn(shape, generator=rng, dtype=torch.float64)
    return weight.to(dtype), (5 + 5 * torch.randn(shape[0], generator=rng)).to(dtype)


@later
def _two(got: Any) -> Any:
    """`got`, once it is known to be two values."""
    assert isinstance(got, (tuple, list)) and len(got) == 2, (
        "The result is not two values; return the folded weight and the folded bias."
    )
    return got


def _folded(weight: Tensor, bias: Tensor | None, *rest: Any) -> tuple[Tensor, Tensor]:
    """fold_batch_norm in float64, rounded once to the dtype of weight."""
    wide = [t.double() if isinstance(t, Tensor) else t for t in (weight, bias, *rest)]
    return tuple(t.to(weight.dtype) for t in reference.fold_batch_norm(*wide))


def _expect_both(got: Any, want: tuple[Tensor, Tensor], part: float, where: str = "") -> None:
    for name, found, right in zip(NAMES, _two(got), want, strict=True):
        expect(found, right, **share(right, part), what=name + where)


@pytest.mark.points(0.75)
def test_linear_weight(student, rng):
    """The folded weight of a linear layer"""
    rest = (*seasoned(rng), *affine(rng), EPS)
    weight, bias = _layer(rng, C, C)
    want = _folded(weight, bias, *rest)[0]
    got = student.fold_batch_norm(weight, bias, *rest)
    expect(_two(got)[0], want, **share(want, 2e-3), what=NAMES[0])


@pytest.mark.points(0.75)
def test_linear_bias(student, rng):
    """The folded bias of a linear layer"""
    rest = (*seasoned(rng), *affine(rng), EPS)
    weight, bias = _layer(rng, C, C)
    want = _folded(weight, bias, *rest)[1]
    got = student.fold_batch_norm(weight, bias, *rest)
    expect(_two(got)[1], want, **share(want, 2e-3), what=NAMES[1])


@pytest.mark.points(1)
def test_convolutions(student, rng):
    """Folded weight and bias of convolutions of any rank"""
    for shape in ((C, C, 3), (4, 4, 4, 4), (C, 2, 3, C), (C, 1, 3, 3), (4, 2, 2, 3, 4)):
        rest = (*seasoned(rng, shape[0]), *affine(rng, shape[0]), EPS)
        weight, bias = _layer(rng, *shape)
        want = _folded(weight, bias, *rest)
        got = student.fold_batch_norm(weight, bias, *rest)
        _expect_both(got, want, LOOSE, f" for a weight with {len(shape)} axes")


@pytest.mark.points(0.5)
def test_same_outputs(student, rng):
    """In float64, the folded layer gives the outputs of the layer and its batch norm"""
    wide = torch.float64
    running, parameters = seasoned(rng, C, wide), affine(rng, C, wide)
    for function, shape, size in (
        (F.linear, (C, 7), (11, 7)),
        (F.conv2d, (C, 2, 3, 3), (3, 2, 6, 5)),
    ):
        weight, bias = _layer(rng, *shape, dtype=wide)
        x = torch.randn(size, generator=rng, dtype=wide)
        want, _ = after(function(x, weight, bias), parameters, running, False)
        form = _folded(weight, bias, *running, *parameters, EPS)
        got = student.fold_batch_norm(weight, bias, *running, *parameters, EPS)
        for name, found, right in zip(NAMES, _two(got), form, strict=True):
            expect(found, right, rtol=0, atol=1e3, what=name)  # its form, before it is used
        y = function(x, got[0], got[1])
        expect(y, want, **share(want, 1e-10), what="the output of the folded layer")


@pytest.mark.points(0.25)
def test_layer_without_bias(student, rng):
    """A layer without a bias gets one"""
    for shape in ((C, C), (C, 2, 3, 3)):
        rest = (*seasoned(rng), *affine(rng), EPS)
        weight, _ = _layer(rng, *shape)
        want = _folded(weight, None, *rest)
        got = student.fold_batch_norm(weight, None, *rest)
        _expect_both(got, want, LOOSE, " for a layer without a bias")


@pytest.mark.points(0.25)
def test_eps(student, rng):
    """eps is the argument, and is added to the variance under the root"""
    spread = torch.tensor([3.0, 1e-1, 1e-3, 1e-5, 1e-6])
    for eps in (10.0, 1e-2, 1e-6):
        rest = (seasoned(rng)[0], spread.square(), *affine(rng), eps)
        weight, bias = _layer(rng, C, C)
        want = _folded(weight, bias, *rest)
        got = student.fold_batch_norm(weight, bias, *rest)
        for name, found, right in zip(NAMES, _two(got), want, strict=True):
            expect(found, right, rtol=LOOSE, atol=1e-2, what=f"{name} for another eps")


@pytest.mark.points(0.25)
def test_half_types(student, rng):
    """A float16 or bfloat16 layer: computed in float32, rounded once"""
    half, bfloat = torch.float16, torch.bfloat16
    for dtype, of_norm in ((half, torch.float32), (bfloat, torch.float32), (bfloat, bfloat)):
        rest = (*seasoned(rng, C, of_norm), *affine(rng, C, of_norm), EPS)
        weight, bias = _layer(rng, C, C, dtype=dtype)
        wide = _folded(weight.float(), bias.float(), *rest)
        got = student.fold_batch_norm(weight, bias, *rest)
        half_step = 1.02 * torch.finfo(dtype).eps / 2
        for name, found, right in zip(NAMES, _two(got), wide, strict=True):
            expect_half(found, right.to(dtype), LOOSE, f"{name} in {str(dtype)[6:]}")
            expect(found.float(), right, rtol=half_step, atol=STRICT, what=f"{name}, last digit")


@pytest.mark.points(0.25)
def test_inputs_unchanged(student, rng):
    """Weight, bias and the tensors of the batch norm are not modified"""
    for shape in ((C, C), (C, 2, 3, 3)):
        tensors = (*_layer(rng, *shape), *seasoned(rng), *affine(rng))
        before = [t.clone() for t in tensors]
        want = _folded(*tensors, EPS)
        _expect_both(student.fold_batch_norm(*tensors, EPS), want, LOOSE)
        expect(student.inputs(), before, rtol=0, atol=0, what="the inputs after the call")
