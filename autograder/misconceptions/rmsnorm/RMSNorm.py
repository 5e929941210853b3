"""Wrong versions of the module `RMSNorm(d_model, eps=1e-6)`.

Where two mistakes give the same output on some input, the one that stands first is named: so
mistakes that show in the parameters come before those of the function the module calls.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import nn

from autograder.misconceptions import half_types, known
from autograder.misconceptions import misconception as declare
from autograder.misconceptions.rmsnorm.rms_norm import PAGE, mean_square, up

misconception = partial(declare, exercise="RMSNorm")


def _rms_norm(x, weight, eps):
    (h,) = up(x)
    return (h * torch.rsqrt(mean_square(h) + eps) * weight).to(x.dtype)


class _RMSNorm(nn.Module):
    """A right module; the mistakes below change one thing each."""

    normalize = staticmethod(_rms_norm)

    def __init__(self, d_model: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        return self.normalize(x, self.weight, self.eps)


# -- parameters ---------------------------------------------------------------------------------


@misconception(
    name="weight-detached",
    message="You used weight without its graph (.data, detach or no_grad), so no gradient reaches"
    " it; pass self.weight itself.",
    link=PAGE + "rms-parameters",
)
class Detached(_RMSNorm):
    def forward(self, x):
        return self.normalize(x, self.weight.data, self.eps)


@misconception(
    name="weight-not-trainable",
    message="You registered weight, but it does not ask for gradients (a buffer, or "
    "requires_grad=False); nn.Parameter alone is right.",
    link=PAGE + "rms-parameters",
)
class Frozen(_RMSNorm):
    def __init__(self, d_model, eps=1e-6):
        super().__init__(d_model, eps)
        self.weight.requires_grad_(False)


@misconception(
    name="weight-not-registered",
    message="You kept weight as a plain tensor, so the module does not know it and no optimizer "
    "trains it; wrap it in nn.Parameter.",
    link=PAGE + "rms-parameters",
)
class PlainTensor(_RMSNorm):
    def __init__(self, d_model, eps=1e-6):
        nn.Module.__init__(self)
        self.weight = torch.ones(d_model)
        self.eps = eps


def _renamed(name: str) -> type[nn.Module]:
    class RMSNorm(_RMSNorm):
        def __init__(self, d_model, eps=1e-6):
            nn.Module.__init__(self)
            self.register_parameter(name, nn.Parameter(torch.ones(d_model)))
            self.eps = eps

        def forward(self, x):
            return self.normalize(x, getattr(self, name), self.eps)

    return RMSNorm


for _name in ("gamma", "scale", "g"):
    misconception(
        name="weight-renamed",
        message="You gave the parameter another name; here it is called weight, as in torch.",
        link=PAGE + "rms-parameters",
    )(_renamed(_name))


@misconception(
    name="bias-added",
    message="You gave the module a bias; RMSNorm has none.",
    link=PAGE + "rms-parameters",
)
class WithBias(_RMSNorm):
    def __init__(self, d_model, eps=1e-6):
        super().__init__(d_model, eps)
        self.bias = nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        return super().forward(x) + self.bias


@misconception(
    name="unit-offset",
    message="You let weight start at 0 and multiplied by 1 + weight, as Gemma does; here weight "
    "starts as ones and is the factor itself.",
    link=PAGE + "rms-weight",
)
class UnitOffset(_RMSNorm):
    def __init__(self, d_model, eps=1e-6):
        super().__init__(d_model, eps)
        nn.init.zeros_(self.weight)

    def forward(self, x):
        return self.normalize(x, 1 + self.weight, self.eps)


@misconception(
    name="initial-values",
    message="You let weight start at another value; it starts as ones, so that a fresh module only"
    " normalizes.",
    link=PAGE + "rms-parameters",
)
class StartsAtZero(_RMSNorm):
    def __init__(self, d_model, eps=1e-6):
        super().__init__(d_model, eps)
        nn.init.zeros_(self.weight)


def _of_shape(*shape: int | None) -> type[nn.Module]:
    class RMSNorm(_RMSNorm):
        def __init__(self, d_model, eps=1e-6):
            super().__init__(d_model, eps)
            self.weight = nn.Parameter(torch.ones([d_model if s is None else s for s in shape]))

    return RMSNorm


for _shape in ((), (1,), (1, None), (1, 1, None)):
    misconception(
        name="parameter-shape",
        message="You gave weight another shape; it holds one number per feature, so its shape is "
        "(d_model,).",
        link=PAGE + "rms-parameters",
    )(_of_shape(*_shape))


# -- the default of eps ------------------------------------------------------------------------


def _with_default_eps(value: float) -> type[nn.Module]:
    class RMSNorm(_RMSNorm):
        def __init__(self, d_model, eps=value):
            super().__init__(d_model, eps)

    return RMSNorm


for _eps in (1e-5, 1e-8, 1e-12, 1e-3, torch.finfo(torch.float32).eps):
    misconception(
        name="default-eps",
        message="You gave eps another default; here it is 1e-6.",
        link=PAGE + "rms-parameters",
    )(_with_default_eps(_eps))


# -- a module that calls a wrong rms_norm -------------------------------------------------------

# Mistakes of the function that the tests of the module look at too. The others cost points once,
# in the first exercise.
_SEEN_THROUGH_THE_MODULE = (
    "sum-instead-of-mean",
    "standard-deviation",
    "root-forgotten",
    "multiplied-by-rms",
    "mean-of-absolute-values",
    "square-of-the-mean",
    "eps-outside-root",
    "eps-clamped",
    "eps-forgotten",
    "eps-hard-coded",
    "eps-twice",
    "over-the-batch",
    "over-axis-1",
    "over-all-axes",
    "over-all-but-the-batch",
    "centered",
    "centered-above-only",
    "weight-forgotten",
    "one-plus-weight",
    "weight-before-normalizing",
    "divided-by-weight",
    "result-left-wide",
    "divisor-detached",
    half_types.NAME,
    "graph-cut",
)


def _module_that_calls(function: Callable) -> type[nn.Module]:
    return type("RMSNorm", (_RMSNorm,), {"normalize": staticmethod(function)})


for _wrong in known("rmsnorm", "rms_norm"):
    if _wrong.name in _SEEN_THROUGH_THE_MODULE:
        misconception(name=_wrong.name, message=_wrong.message, link=_wrong.link)(
            _module_that_calls(_wrong.implementation)
        )


# -- memory -------------------------------------------------------------------------------------


@misconception(
    name="running-statistics",
    message="You kept a running mean square, as batch norm keeps statistics; RMSNorm measures each"
    " input anew, in training and in evaluation.",
    link=PAGE + "rms-parameters",
)
class RunningStatistics(_RMSNorm):
    def __init__(self, d_model, eps=1e-6):
        super().__init__(d_model, eps)
        self.mean_square = 1.0

    def forward(self, x):
        if not self.training:
            return x / (self.mean_square + self.eps) ** 0.5 * self.weight
        self.mean_square = 0.9 * self.mean_square + 0.1 * x.square().mean().item()
        return super().forward(x)


@misconception(
    name="off-in-evaluation",
    message="You returned the input as it was in evaluation (running statistics of 0 and 1 do "
    "that, too); RMSNorm computes the same in training and in evaluation.",
    link=PAGE + "rms-parameters",
)
class OffInEvaluation(_RMSNorm):
    def forward(self, x):
        return super().forward(x) if self.training else x
