"""Wrong versions of the module `LayerNorm(d_model, eps=1e-5)`.

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
from autograder.misconceptions.layernorm.layer_norm_precision import NO_CASTS

PAGE = "layernorm.html#"
misconception = partial(declare, exercise="LayerNorm")


def _layer_norm(x, weight, bias, eps):
    h = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    var = h.var(-1, keepdim=True, unbiased=False)
    return ((h - h.mean(-1, keepdim=True)) * torch.rsqrt(var + eps) * weight + bias).to(x.dtype)


class _LayerNorm(nn.Module):
    """A right module; the mistakes below change one thing each."""

    normalize = staticmethod(_layer_norm)

    def __init__(self, d_model: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        return self.normalize(x, self.weight, self.bias, self.eps)


# -- parameters ---------------------------------------------------------------------------------


@misconception(
    name="parameters-detached",
    message="You used weight and bias without their graph (.data, detach or no_grad), so no "
    "gradient reaches them; pass self.weight and self.bias themselves.",
    link=PAGE + "parameters",
)
class DetachedParameters(_LayerNorm):
    def forward(self, x):
        return self.normalize(x, self.weight.data, self.bias.data, self.eps)


@misconception(
    name="parameters-not-trainable",
    message="You registered weight and bias, but they do not ask for gradients (a buffer, or "
    "requires_grad=False); nn.Parameter alone is right.",
    link=PAGE + "parameters",
)
class Frozen(_LayerNorm):
    def __init__(self, d_model, eps=1e-5):
        super().__init__(d_model, eps)
        self.weight.requires_grad_(False)
        self.bias.requires_grad_(False)


@misconception(
    name="parameters-not-registered",
    message="You kept weight or bias as a plain tensor, so the module does not know it and no "
    "optimizer trains it; wrap it in nn.Parameter.",
    link=PAGE + "parameters",
)
class PlainTensors(_LayerNorm):
    def __init__(self, d_model, eps=1e-5):
        nn.Module.__init__(self)
        self.weight = torch.ones(d_model)
        self.bias = torch.zeros(d_model)
        self.eps = eps


@misconception(
    name="parameters-renamed",
    message="You gave the parameters other names; here they are called weight and bias, as in "
    "torch.",
    link=PAGE + "parameters",
)
class GammaAndBeta(_LayerNorm):
    def __init__(self, d_model, eps=1e-5):
        nn.Module.__init__(self)
        self.gamma = nn.Parameter(torch.ones(d_model))
        self.beta = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        return self.normalize(x, self.gamma, self.beta, self.eps)


def _starting_at(weight: float, bias: float) -> type[nn.Module]:
    class LayerNorm(_LayerNorm):
        def __init__(self, d_model, eps=1e-5):
            super().__init__(d_model, eps)
            nn.init.constant_(self.weight, weight)
            nn.init.constant_(self.bias, bias)

    return LayerNorm


for _weight, _bias in ((0.0, 0.0), (1.0, 1.0)):
    misconception(
        name="initial-values",
        message="You let weight or bias start at another value; weight starts as ones and bias "
        "as zeros, so that a fresh module only normalizes.",
        link=PAGE + "parameters",
    )(_starting_at(_weight, _bias))


def _of_shape(*shape: int | None) -> type[nn.Module]:
    class LayerNorm(_LayerNorm):
        def __init__(self, d_model, eps=1e-5):
            super().__init__(d_model, eps)
            sizes = [d_model if size is None else size for size in shape]
            self.weight = nn.Parameter(torch.ones(sizes))
            self.bias = nn.Parameter(torch.zeros(sizes))

    return LayerNorm


for _shape in ((), (1,), (1, None), (1, 1, None)):
    misconception(
        name="parameter-shape",
        message="You gave weight and bias another shape; they hold one number per feature, so "
        "their shape is (d_model,).",
        link=PAGE + "affine-shape",
    )(_of_shape(*_shape))


# -- the default of eps ------------------------------------------------------------------------


def _with_default_eps(value: float) -> type[nn.Module]:
    class LayerNorm(_LayerNorm):
        def __init__(self, d_model, eps=value):
            super().__init__(d_model, eps)

    return LayerNorm


for _eps in (1e-3, 1e-6, 1e-8, 1e-12):
    misconception(
        name="default-eps",
        message="You gave eps another default; here it is 1e-5, as in torch.",
        link=PAGE + "eps-inside",
    )(_with_default_eps(_eps))


# -- a module that calls a wrong layer_norm -----------------------------------------------------

# Mistakes of the function that the tests of the module look at too. The others (one-pass variance,
# half-precision statistics, ...) cost points once, in the first exercise.
_SEEN_THROUGH_THE_MODULE = (
    "unbiased-variance",
    "eps-outside-root",
    "unbiased-variance+eps-outside-root",
    "root-forgotten",
    "root-forgotten+unbiased-variance",
    "root-of-std",
    "root-of-std+unbiased-variance",
    "multiplied-by-std",
    "sum-instead-of-mean",
    "eps-forgotten",
    "eps-hard-coded",
    "eps-hard-coded+unbiased-variance",
    "eps-twice",
    "eps-clamped",
    "statistics-over-batch",
    "statistics-over-axis-1",
    "statistics-over-all-axes",
    "statistics-over-all-but-batch",
    "rms-instead-of-variance",
    "mean-not-subtracted",
    "rms-of-uncentered",
    "bias-forgotten",
    "weight-forgotten",
    "weight-forgotten+bias-forgotten",
    "affine-before-normalizing",
    "bias-before-weight",
    "weight-and-bias-swapped",
    "one-plus-weight",
    "result-left-wide",
    "statistics-detached",
    half_types.NAME,
    "graph-cut",
)


def _module_that_calls(function: Callable) -> type[nn.Module]:
    return type("LayerNorm", (_LayerNorm,), {"normalize": staticmethod(function)})


for _wrong in known("layernorm", "layer_norm"):
    if _wrong.name in _SEEN_THROUGH_THE_MODULE or _wrong.implementation in NO_CASTS[:4]:
        misconception(name=_wrong.name, message=_wrong.message, link=_wrong.link)(
            _module_that_calls(_wrong.implementation)
        )

# After the swapped parameters, which give the same output and are not told by the first values.
misconception(name="initial-values")(_starting_at(0.0, 1.0))


# -- memory -------------------------------------------------------------------------------------


@misconception(
    name="running-statistics",
    message="You kept running statistics, as batch norm does; layer norm computes mean and "
    "variance anew from each input, in training and in evaluation.",
    link=PAGE + "running-statistics",
)
class RunningStatistics(_LayerNorm):
    """Buffers as in BatchNorm: batch statistics in training, running ones in evaluation."""

    def __init__(self, d_model, eps=1e-5):
        super().__init__(d_model, eps)
        self.register_buffer("running_mean", torch.zeros(d_model))
        self.register_buffer("running_var", torch.ones(d_model))

    def forward(self, x):
        dims = tuple(range(x.dim() - 1))
        mean, var = self.running_mean, self.running_var
        if self.training:
            mean, var = x.mean(dims), x.var(dims, unbiased=False)
            self.running_mean = 0.9 * self.running_mean + 0.1 * mean.detach()
            self.running_var = 0.9 * self.running_var + 0.1 * var.detach()
        return (x - mean) * torch.rsqrt(var + self.eps) * self.weight + self.bias


@misconception(name="running-statistics")
class RunningStatisticsOfRows(_LayerNorm):
    """Normalizes rows in training; in evaluation it uses averages remembered as attributes."""

    def __init__(self, d_model, eps=1e-5):
        super().__init__(d_model, eps)
        self.mean, self.var = 0.0, 1.0

    def forward(self, x):
        if not self.training:
            y = (x - self.mean) / (self.var + self.eps) ** 0.5
            return y * self.weight + self.bias
        self.mean = 0.9 * self.mean + 0.1 * x.mean().item()
        self.var = 0.9 * self.var + 0.1 * x.var().item()
        return super().forward(x)


@misconception(
    name="first-statistics-kept",
    message="You computed mean and variance once and used them again for later inputs; each "
    "input has its own.",
    link=PAGE + "running-statistics",
)
class FirstStatisticsKept(_LayerNorm):
    mean = var = None

    def forward(self, x):
        if self.mean is None or self.mean.shape[:-1] != x.shape[:-1]:
            self.mean = x.mean(-1, keepdim=True)
            self.var = x.var(-1, keepdim=True, unbiased=False)
        y = (x - self.mean) * torch.rsqrt(self.var + self.eps)
        return (y * self.weight + self.bias).to(x.dtype)


@misconception(
    name="off-in-evaluation",
    message="You returned the input as it was in evaluation (running statistics of 0 and 1 do "
    "that, too); layer norm computes the same in training and in evaluation.",
    link=PAGE + "running-statistics",
)
class OffInEvaluation(_LayerNorm):
    def forward(self, x):
        return super().forward(x) if self.training else x
