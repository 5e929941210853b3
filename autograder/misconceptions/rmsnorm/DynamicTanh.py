"""Wrong versions of the module `DynamicTanh(d_model, alpha=0.5)`."""

from __future__ import annotations

from functools import partial

import torch
from torch import nn

from autograder.misconceptions import half_types
from autograder.misconceptions import misconception as declare
from autograder.misconceptions.rmsnorm.rms_norm import PAGE, mean_square, up

misconception = partial(declare, exercise="DynamicTanh")
DYT = PAGE + "rms-dyt"


class _DynamicTanh(nn.Module):
    """A right module; the mistakes below change one thing each."""

    def __init__(self, d_model: int, alpha: float = 0.5) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.full((1,), float(alpha)))
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))

    def compute(self, h, alpha, weight, bias):
        return torch.tanh(alpha * h) * weight + bias

    def forward(self, x):
        return self.compute(*up(x, self.alpha, self.weight, self.bias)).to(x.dtype)


# -- parameters ---------------------------------------------------------------------------------


@misconception(
    name="alpha-not-trained",
    message="You kept alpha as a plain number, or without gradients; it is a trained parameter of "
    "shape (1,).",
    link=DYT,
)
class AlphaNumber(_DynamicTanh):
    def __init__(self, d_model, alpha=0.5):
        super().__init__(d_model, alpha)
        del self.alpha
        self.alpha = alpha

    def forward(self, x):
        h, weight, bias = up(x, self.weight, self.bias)
        return self.compute(h, self.alpha, weight, bias).to(x.dtype)


@misconception(name="alpha-not-trained")
class AlphaFrozen(_DynamicTanh):
    def __init__(self, d_model, alpha=0.5):
        super().__init__(d_model, alpha)
        self.alpha.requires_grad_(False)


@misconception(name="alpha-not-trained")
class AlphaDetached(_DynamicTanh):
    def compute(self, h, alpha, weight, bias):
        return torch.tanh(alpha.detach() * h) * weight + bias


@misconception(
    name="alpha-per-feature",
    message="You gave alpha one number per feature; it is one number for the whole layer, of shape "
    "(1,).",
    link=DYT,
)
class AlphaPerFeature(_DynamicTanh):
    def __init__(self, d_model, alpha=0.5):
        super().__init__(d_model, alpha)
        self.alpha = nn.Parameter(torch.full((d_model,), float(alpha)))


@misconception(
    name="alpha-without-axis",
    message="You gave alpha no axis; here its shape is (1,).",
    link=DYT,
)
class AlphaWithoutAxis(_DynamicTanh):
    def __init__(self, d_model, alpha=0.5):
        super().__init__(d_model, alpha)
        self.alpha = nn.Parameter(torch.tensor(float(alpha)))


@misconception(
    name="alpha-argument-ignored",
    message="You did not use the argument alpha; it is the first value of the parameter.",
    link=DYT,
)
class AlphaIgnored(_DynamicTanh):
    def __init__(self, d_model, alpha=0.5):
        super().__init__(d_model, 0.5)


@misconception(
    name="alpha-forgotten",
    message="You left out alpha; x is multiplied by it before tanh.",
    link=DYT,
)
class AlphaForgotten(_DynamicTanh):
    def compute(self, h, alpha, weight, bias):
        return torch.tanh(h) * weight + bias


@misconception(
    name="default-alpha",
    message="You gave alpha another default; here it is 0.5.",
    link=DYT,
)
class DefaultOne(_DynamicTanh):
    def __init__(self, d_model, alpha=1.0):
        super().__init__(d_model, alpha)


@misconception(
    name="parameters-renamed",
    message="You gave the parameters other names; here they are alpha, weight and bias.",
    link=DYT,
)
class GammaAndBeta(_DynamicTanh):
    def __init__(self, d_model, alpha=0.5):
        super().__init__(d_model, alpha)
        self.gamma, self.beta = self.weight, self.bias
        del self.weight, self.bias

    def forward(self, x):
        h, alpha, gamma, beta = up(x, self.alpha, self.gamma, self.beta)
        return self.compute(h, alpha, gamma, beta).to(x.dtype)


@misconception(
    name="no-affine",
    message="You left out weight or bias; the bent x is multiplied by weight, and bias is added.",
    link=DYT,
)
class NoAffine(_DynamicTanh):
    def __init__(self, d_model, alpha=0.5):
        super().__init__(d_model, alpha)
        del self.weight, self.bias

    def forward(self, x):
        h, alpha = up(x, self.alpha)
        return torch.tanh(alpha * h).to(x.dtype)


@misconception(
    name="initial-values",
    message="You let weight or bias start at another value; weight starts as ones and bias as "
    "zeros.",
    link=DYT,
)
class StartsAtZero(_DynamicTanh):
    def __init__(self, d_model, alpha=0.5):
        super().__init__(d_model, alpha)
        nn.init.zeros_(self.weight)


@misconception(
    name="parameters-detached",
    message="You used weight and bias without their graph (.data, detach or no_grad), so no "
    "gradient reaches them.",
    link=DYT,
)
class Detached(_DynamicTanh):
    def compute(self, h, alpha, weight, bias):
        return torch.tanh(alpha * h) * weight.detach() + bias.detach()


# -- the formula ---------------------------------------------------------------------------------


@misconception(
    name="alpha-outside",
    message="You multiplied by alpha after tanh; it multiplies x, inside: tanh(alpha * x).",
    link=DYT,
)
class AlphaOutside(_DynamicTanh):
    def compute(self, h, alpha, weight, bias):
        return alpha * torch.tanh(h) * weight + bias


@misconception(
    name="divided-by-alpha",
    message="You divided x by alpha; it multiplies x: tanh(alpha * x).",
    link=DYT,
)
class DividedByAlpha(_DynamicTanh):
    def compute(self, h, alpha, weight, bias):
        return torch.tanh(h / alpha) * weight + bias


@misconception(
    name="another-function",
    message="You used another function than tanh.",
    link=DYT,
)
class Sigmoid(_DynamicTanh):
    def compute(self, h, alpha, weight, bias):
        return torch.sigmoid(alpha * h) * weight + bias


@misconception(name="another-function")
class HardTanh(_DynamicTanh):
    def compute(self, h, alpha, weight, bias):
        return (alpha * h).clamp(-1, 1) * weight + bias


@misconception(
    name="affine-inside",
    message="You applied weight and bias inside tanh; they come after it.",
    link=DYT,
)
class AffineInside(_DynamicTanh):
    def compute(self, h, alpha, weight, bias):
        return torch.tanh(alpha * h * weight + bias)


@misconception(
    name="bias-before-weight",
    message="You added the bias before multiplying by the weight; multiply first, then add.",
    link=DYT,
)
class BiasBeforeWeight(_DynamicTanh):
    def compute(self, h, alpha, weight, bias):
        return (torch.tanh(alpha * h) + bias) * weight


@misconception(
    name="normalized-first",
    message="You normalized x before bending it; Dynamic Tanh measures nothing, it takes the place "
    "of the norm.",
    link=DYT,
)
class NormalizedFirst(_DynamicTanh):
    def compute(self, h, alpha, weight, bias):
        h = h * torch.rsqrt(mean_square(h) + 1e-6)
        return torch.tanh(alpha * h) * weight + bias


# -- dtypes ---------------------------------------------------------------------------------------


@misconception(
    name="no-upcast",
    message="You computed in half precision, where each step is rounded; widen x and the parameters"
    " to float32 first.",
    link=PAGE + "rms-dtype",
)
class NoUpcast(_DynamicTanh):
    def forward(self, x):
        own = [p.to(x.dtype) for p in (self.alpha, self.weight, self.bias)]
        return self.compute(x, *own)


@misconception(
    name="result-left-wide",
    message="You returned the wider dtype that you computed in; keep the dtype of x in a variable "
    "before you widen x, and cast the result back to that.",
    link=PAGE + "rms-dtype",
)
class ResultLeftWide(_DynamicTanh):
    def forward(self, x):
        return self.compute(x, self.alpha, self.weight, self.bias)


@misconception(name=half_types.NAME, message=half_types.MESSAGE, link=PAGE + "rms-dtype")
class DetachedInHalf(_DynamicTanh):
    def forward(self, x):
        return self.compute(*half_types.cut(x, self.alpha, self.weight, self.bias)).to(x.dtype)


@misconception(name=half_types.NAME)
class OnlyXDetachedInHalf(_DynamicTanh):
    def forward(self, x):
        own = up(self.alpha, self.weight, self.bias)
        return self.compute(*half_types.cut(x), *own).to(x.dtype)
