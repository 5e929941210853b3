"""Wrong versions of the module `AdaLayerNorm(d_model, d_cond, eps=1e-6)`.

Where two mistakes give the same output on some input, the one that stands first is named: so
mistakes that show in the parameters come before those of the computation.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

from autograder.misconceptions import half_types
from autograder.misconceptions import misconception as declare
from autograder.misconceptions.rmsnorm.rms_norm import PAGE, mean_square, up

misconception = partial(declare, exercise="AdaLayerNorm")
ADALN = PAGE + "rms-adaln"


class _AdaLayerNorm(nn.Module):
    """A right module; the mistakes below change one thing each."""

    def __init__(self, d_model: int, d_cond: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.modulation = nn.Linear(d_cond, 2 * d_model)
        nn.init.zeros_(self.modulation.weight)
        nn.init.zeros_(self.modulation.bias)
        self.eps = eps

    def activate(self, cond):
        return F.silu(cond)

    def split(self, cond):
        """Shift and scale, (B, 1, D) each."""
        return self.modulation(self.activate(cond)).unsqueeze(1).chunk(2, dim=-1)

    def normalize(self, h):
        h = h - h.mean(-1, keepdim=True)
        return h * torch.rsqrt(mean_square(h) + self.eps)

    def modulate(self, y, shift, scale):
        return y * (1 + scale) + shift

    def forward(self, x, cond):
        shift, scale = self.split(cond)
        h, shift, scale = up(x, shift, scale)
        return self.modulate(self.normalize(h), shift, scale).to(x.dtype)


# -- parameters ---------------------------------------------------------------------------------


@misconception(
    name="modulation-without-bias",
    message="You gave modulation no bias; it has one, and it starts as zeros.",
    link=ADALN,
)
class WithoutBias(_AdaLayerNorm):
    def __init__(self, d_model, d_cond, eps=1e-6):
        super().__init__(d_model, d_cond, eps)
        self.modulation = nn.Linear(d_cond, 2 * d_model, bias=False)
        nn.init.zeros_(self.modulation.weight)


@misconception(
    name="affine-kept",
    message="You kept the learned weight and bias of layer norm; here modulation takes their place,"
    " and there are no other parameters.",
    link=ADALN,
)
class AffineKept(_AdaLayerNorm):
    def __init__(self, d_model, d_cond, eps=1e-6):
        super().__init__(d_model, d_cond, eps)
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))

    def normalize(self, h):
        return super().normalize(h) * self.weight + self.bias


@misconception(
    name="two-linear-layers",
    message="You used one linear layer for the shift and one for the scale; here a single one, "
    "modulation, returns both.",
    link=ADALN,
)
class TwoLinearLayers(_AdaLayerNorm):
    def __init__(self, d_model, d_cond, eps=1e-6):
        super().__init__(d_model, d_cond, eps)
        del self.modulation
        self.shift, self.scale = nn.Linear(d_cond, d_model), nn.Linear(d_cond, d_model)
        for p in self.parameters():
            nn.init.zeros_(p)

    def split(self, cond):
        h = self.activate(cond)
        return self.shift(h).unsqueeze(1), self.scale(h).unsqueeze(1)


@misconception(
    name="silu-inside-modulation",
    message="You made modulation a sequence with silu in it, which gives its parameters other "
    "names; modulation is the linear layer alone.",
    link=ADALN,
)
class SequentialModulation(_AdaLayerNorm):
    def __init__(self, d_model, d_cond, eps=1e-6):
        super().__init__(d_model, d_cond, eps)
        self.modulation = nn.Sequential(nn.SiLU(), self.modulation)

    def activate(self, cond):
        return cond


@misconception(
    name="modulation-renamed",
    message="You gave the linear layer another name; here it is called modulation.",
    link=ADALN,
)
class Renamed(_AdaLayerNorm):
    def __init__(self, d_model, d_cond, eps=1e-6):
        super().__init__(d_model, d_cond, eps)
        self.linear = self.modulation
        del self.modulation

    def split(self, cond):
        return self.linear(self.activate(cond)).unsqueeze(1).chunk(2, dim=-1)


@misconception(
    name="three-outputs",
    message="You gave modulation room for a gate too; that belongs to the block (adaLN-Zero), and "
    "here it returns shift and scale only, 2 * d_model numbers.",
    link=ADALN,
)
class ThreeOutputs(_AdaLayerNorm):
    def __init__(self, d_model, d_cond, eps=1e-6):
        super().__init__(d_model, d_cond, eps)
        self.modulation = nn.Linear(d_cond, 3 * d_model)
        nn.init.zeros_(self.modulation.weight)
        nn.init.zeros_(self.modulation.bias)

    def split(self, cond):
        return self.modulation(self.activate(cond)).unsqueeze(1).chunk(3, dim=-1)[:2]


# -- scale and shift -----------------------------------------------------------------------------


@misconception(
    name="one-forgotten",
    message="You multiplied by scale alone; with a scale of 0 nothing would be left, so multiply by"
    " 1 + scale.",
    link=ADALN,
)
class OneForgotten(_AdaLayerNorm):
    def modulate(self, y, shift, scale):
        return y * scale + shift


@misconception(
    name="halves-swapped",
    message="You took the first half for the scale; the first half of modulation's output is the "
    "shift, the second the scale.",
    link=ADALN,
)
class HalvesSwapped(_AdaLayerNorm):
    def split(self, cond):
        shift, scale = super().split(cond)
        return scale, shift


@misconception(
    name="interleaved",
    message="You took every other number for the shift; shift and scale are the two halves of "
    "modulation's output.",
    link=ADALN,
)
class Interleaved(_AdaLayerNorm):
    def split(self, cond):
        both = self.modulation(self.activate(cond)).unsqueeze(1)
        return both[..., ::2], both[..., 1::2]


@misconception(
    name="shift-before-scale",
    message="You added the shift before multiplying by 1 + scale; multiply first, then add.",
    link=ADALN,
)
class ShiftBeforeScale(_AdaLayerNorm):
    def modulate(self, y, shift, scale):
        return (y + shift) * (1 + scale)


@misconception(
    name="shift-forgotten",
    message="You left out the shift; it is added last.",
    link=ADALN,
)
class ShiftForgotten(_AdaLayerNorm):
    def modulate(self, y, shift, scale):
        return y * (1 + scale)


@misconception(
    name="scale-forgotten",
    message="You left out the scale; x_hat is multiplied by 1 + scale.",
    link=ADALN,
)
class ScaleForgotten(_AdaLayerNorm):
    def modulate(self, y, shift, scale):
        return y + shift


@misconception(
    name="modulated-before-normalizing",
    message="You scaled and shifted x before normalizing; that comes after.",
    link=ADALN,
)
class ModulatedBeforeNormalizing(_AdaLayerNorm):
    def forward(self, x, cond):
        h, shift, scale = up(x, *self.split(cond))
        return self.normalize(self.modulate(h, shift, scale)).to(x.dtype)


@misconception(
    name="modulated-without-normalizing",
    message="You scaled and shifted x itself; x is normalized first.",
    link=ADALN,
)
class ModulatedWithoutNormalizing(_AdaLayerNorm):
    def normalize(self, h):
        return h


# -- the condition -------------------------------------------------------------------------------


@misconception(
    name="silu-forgotten",
    message="You fed the condition to modulation as it is; silu comes first.",
    link=ADALN,
)
class SiluForgotten(_AdaLayerNorm):
    def activate(self, cond):
        return cond


@misconception(
    name="silu-after",
    message="You applied silu to what modulation returns; it comes before, on the condition.",
    link=ADALN,
)
class SiluAfter(_AdaLayerNorm):
    def split(self, cond):
        return F.silu(self.modulation(cond)).unsqueeze(1).chunk(2, dim=-1)


@misconception(
    name="another-activation",
    message="You used another function than silu on the condition.",
    link=ADALN,
)
class Relu(_AdaLayerNorm):
    def activate(self, cond):
        return F.relu(cond)


@misconception(name="another-activation")
class Gelu(_AdaLayerNorm):
    def activate(self, cond):
        return F.gelu(cond)


@misconception(
    name="condition-lined-up-with-tokens",
    message="You lined the conditions up with the tokens; each sequence has one, so the middle axis"
    " is the one to add: unsqueeze(1).",
    link=ADALN,
)
class LinedUpWithTokens(_AdaLayerNorm):
    def split(self, cond):
        return self.modulation(self.activate(cond)).chunk(2, dim=-1)


@misconception(name="condition-lined-up-with-tokens")
class UnsqueezeZero(_AdaLayerNorm):
    def split(self, cond):
        return self.modulation(self.activate(cond)).unsqueeze(0).chunk(2, dim=-1)


@misconception(
    name="first-condition-for-all",
    message="You used the condition of the first sequence for all of them; each has its own.",
    link=ADALN,
)
class FirstConditionForAll(_AdaLayerNorm):
    def split(self, cond):
        return super().split(cond[:1])


@misconception(
    name="mean-condition",
    message="You averaged the conditions over the batch; each sequence has its own.",
    link=ADALN,
)
class MeanCondition(_AdaLayerNorm):
    def split(self, cond):
        return super().split(cond.mean(0, keepdim=True))


# -- the normalization ---------------------------------------------------------------------------


@misconception(
    name="rms-instead-of-layer-norm",
    message="You did not subtract the mean, as in RMSNorm; DiT's block normalizes by layer norm.",
    link=ADALN,
)
class Rms(_AdaLayerNorm):
    def normalize(self, h):
        return h * torch.rsqrt(mean_square(h) + self.eps)


@misconception(
    name="unbiased-variance",
    message="You divided the squared deviations by D - 1 (torch's default for var and std); layer "
    "norm divides by D.",
    link=ADALN,
)
class Unbiased(_AdaLayerNorm):
    def normalize(self, h):
        return (h - h.mean(-1, keepdim=True)) * torch.rsqrt(h.var(-1, keepdim=True) + self.eps)


@misconception(
    name="eps-outside-root",
    message="You added eps to the standard deviation, outside the root; it belongs under the root: "
    "sqrt(var + eps).",
    link=PAGE + "rms-eps",
)
class EpsOutside(_AdaLayerNorm):
    def normalize(self, h):
        std = h.std(-1, keepdim=True, correction=0)
        return (h - h.mean(-1, keepdim=True)) / (std + self.eps)


def _with_default_eps(value: float) -> type[nn.Module]:
    class AdaLayerNorm(_AdaLayerNorm):
        def __init__(self, d_model, d_cond, eps=value):
            super().__init__(d_model, d_cond, eps)

    return AdaLayerNorm


for _eps in (1e-5, 1e-8, 1e-12):
    misconception(
        name="default-eps",
        message="You gave eps another default; here it is 1e-6, as in DiT.",
        link=ADALN,
    )(_with_default_eps(_eps))


def _with_fixed_eps(value: float) -> type[nn.Module]:
    class AdaLayerNorm(_AdaLayerNorm):
        def __init__(self, d_model, d_cond, eps=1e-6):
            super().__init__(d_model, d_cond, value)

    return AdaLayerNorm


for _eps in (1e-6, 1e-5):
    misconception(
        name="eps-hard-coded",
        message="You used a fixed eps; use the argument eps.",
        link=PAGE + "rms-eps",
    )(_with_fixed_eps(_eps))


@misconception(
    name="over-tokens-and-features",
    message="You took mean and variance over the tokens too; each token has its own, along the last"
    " axis.",
    link=PAGE + "rms-which-axis",
)
class OverTokensAndFeatures(_AdaLayerNorm):
    def normalize(self, h):
        centered = h - h.mean((1, 2), keepdim=True)
        return centered * torch.rsqrt(centered.square().mean((1, 2), keepdim=True) + self.eps)


# -- dtypes and gradients ------------------------------------------------------------------------


@misconception(
    name="no-upcast",
    message="You computed in half precision, where squares overflow and digits are lost; widen x, "
    "shift and scale to float32 first.",
    link=PAGE + "rms-dtype",
)
class NoUpcast(_AdaLayerNorm):
    def forward(self, x, cond):
        shift, scale = self.split(cond)
        return self.modulate(self.normalize(x), shift, scale).to(x.dtype)


@misconception(
    name="cast-before-modulation",
    message="You cast x_hat back to the dtype of x before scaling and shifting; the cast is the "
    "last step.",
    link=PAGE + "rms-dtype",
)
class CastBeforeModulation(_AdaLayerNorm):
    def normalize(self, h):
        return super().normalize(h).to(self.dtype)

    def forward(self, x, cond):
        self.dtype = x.dtype
        return super().forward(x, cond)


@misconception(
    name="result-left-wide",
    message="You returned the wider dtype that you computed in; keep the dtype of x in a variable "
    "before you widen x, and cast the result back to that.",
    link=PAGE + "rms-dtype",
)
class ResultLeftWide(_AdaLayerNorm):
    def forward(self, x, cond):
        h, shift, scale = up(x, *self.split(cond))
        return self.modulate(self.normalize(h), shift, scale)


@misconception(name=half_types.NAME, message=half_types.MESSAGE, link=PAGE + "rms-dtype")
class DetachedInHalf(_AdaLayerNorm):
    def forward(self, x, cond):
        h, shift, scale = half_types.cut(x, *self.split(cond))
        return self.modulate(self.normalize(h), shift, scale).to(x.dtype)


@misconception(name=half_types.NAME)
class OnlyXDetachedInHalf(_AdaLayerNorm):
    def forward(self, x, cond):
        (h,) = half_types.cut(x)
        return self.modulate(self.normalize(h), *self.split(cond)).to(x.dtype)


@misconception(
    name="condition-detached",
    message="You cut shift and scale out of the graph (detach, no_grad, .data); gradients must "
    "reach modulation and the condition.",
    link=ADALN,
)
class ConditionDetached(_AdaLayerNorm):
    def split(self, cond):
        return [t.detach() for t in super().split(cond)]


@misconception(
    name="statistics-detached",
    message="You cut mean and variance out of the graph; they depend on x, and the gradient must "
    "flow through them.",
    link=PAGE + "rms-backward",
)
class StatisticsDetached(_AdaLayerNorm):
    def normalize(self, h):
        mean, var = h.mean(-1, keepdim=True), h.var(-1, keepdim=True, correction=0)
        return (h - mean.detach()) * torch.rsqrt(var.detach() + self.eps)
