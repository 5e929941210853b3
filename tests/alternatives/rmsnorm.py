"""Right solutions in other styles than the reference: each must get full marks.

`STYLES` maps the name of a style to the graded names it defines.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

HALF = (torch.float16, torch.bfloat16)


def _wide(*tensors):
    """float32 for half types, as the exercises ask."""
    return [t.float() if t.dtype in HALF else t for t in tensors]


# -- rms_norm --------------------------------------------------------------------------------------


def by_division(x, weight, eps):
    h, w = _wide(x, weight)
    return (h / torch.sqrt((h**2).mean(-1, keepdim=True) + eps) * w).type_as(x)


def by_einsum(x, weight, eps):
    h, w = _wide(x, weight)
    r = (torch.einsum("...d,...d->...", h, h)[..., None] / x.size(-1) + eps) ** -0.5
    return torch.einsum("...d,d->...d", h * r, w).to(x.dtype)


def by_norm(x, weight, eps):
    """The mean square from the length; both are squared, so nothing is lost."""
    h = x.to(torch.promote_types(x.dtype, torch.float32))
    mean_square = torch.linalg.vector_norm(h, dim=-1, keepdim=True) ** 2 / h.shape[-1]
    return (h * weight * (mean_square + eps).rsqrt()).to(x.dtype)


def in_a_float32_scope(x, weight, eps):
    """Every argument cast by itself, where no autocast can undo it."""
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    with torch.autocast("cpu", enabled=False):
        h, w = x.to(dtype=wide), weight.type(wide)
        return (w * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + eps))).to(x)


def in_float64(x, weight, eps):
    h = x.double()
    return (weight.double() * h * torch.rsqrt(h.pow(2).mean(-1, True) + eps)).to(x.dtype)


def row_by_row(x, weight, eps):
    d = x.shape[-1]
    out = []
    for row in x.reshape(-1, d):
        row = row.float() if row.dtype in HALF else row
        out.append(row / (sum(row**2) / d + eps) ** 0.5 * weight)
    return torch.stack(out).reshape(x.shape).to(x.dtype)


class _Function(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, eps):
        ctx.save_for_backward(x, weight)
        ctx.eps = eps
        return by_division(x, weight, eps)

    @staticmethod
    def backward(ctx, grad_out):
        x, weight = ctx.saved_tensors
        return (*backward_with_sums(grad_out, x, weight, ctx.eps), None)


def by_autograd_function(x, weight, eps):
    return _Function.apply(x, weight, eps)


# -- rms_norm_backward -----------------------------------------------------------------------------


def backward_by_the_graph(grad_out, x, weight, eps):
    """One line per step of the forward pass, from the last to the first."""
    dy, h, w = _wide(grad_out, x, weight)
    d = x.shape[-1]
    rms = torch.sqrt((h * h).sum(-1, keepdim=True) / d + eps)
    leading = tuple(range(x.dim() - 1))
    d_weight = dy * (h / rms)
    d_weight = d_weight.sum(leading) if leading else d_weight
    d_hat = dy * w
    d_rms = -(d_hat * h).sum(-1, keepdim=True) / rms**2
    d_mean_square = 0.5 * d_rms / rms
    d_x = d_hat / rms + 2 * h * d_mean_square / d
    return d_x.to(x.dtype), d_weight.to(weight.dtype)


def backward_with_sums(grad_out, x, weight, eps):
    """rstd g - rstd³ x sum(g x) / D, rows flattened first; a list instead of a tuple."""
    d = x.size(-1)
    dy, h = (
        t.reshape(-1, d).to(torch.promote_types(t.dtype, torch.float32)) for t in (grad_out, x)
    )
    rstd = (h.pow(2).sum(1, keepdim=True) / d + eps).rsqrt()
    g = dy * weight
    dx = rstd * g - rstd**3 * h * (g * h).sum(1, keepdim=True) / d
    dw = torch.einsum("nd,nd->d", dy, h * rstd)
    return [dx.view(x.shape).to(x.dtype), dw.to(weight.dtype)]


def backward_in_float64(grad_out, x, weight, eps):
    g, h, w = grad_out.double(), x.double(), weight.double()
    rstd = 1 / torch.sqrt(h.pow(2).mean(-1, keepdim=True) + eps)
    x_hat = h * rstd
    dx = rstd * (g * w - (g * w * x_hat).mean(-1, keepdim=True) * x_hat)
    dw = g * x_hat
    while dw.dim() > 1:
        dw = dw.sum(0)
    return dx.to(x.dtype), dw.to(weight.dtype)


def backward_by_jacobian(grad_out, x, weight, eps):
    """grad_x as a product with the whole D x D Jacobian of each row."""
    dy, h, w = _wide(grad_out, x, weight)
    d = x.shape[-1]
    dy, h = dy.reshape(-1, d), h.reshape(-1, d)
    rstd = torch.rsqrt((h * h).mean(1, keepdim=True) + eps)
    x_hat = h * rstd
    jacobian = torch.eye(d, dtype=h.dtype) - x_hat[:, :, None] * x_hat[:, None, :] / d
    dx = torch.matmul(jacobian, (dy * w)[:, :, None])[:, :, 0] * rstd
    return dx.reshape(x.shape).to(x.dtype), (dy * x_hat).sum(0).to(weight.dtype)


# -- partial_rms_norm ------------------------------------------------------------------------------


def partial_by_split(x, weight, fraction, eps):
    h, w = _wide(x, weight)
    k = int(fraction * h.size(-1)) or 1
    first, _ = torch.split(h, [k, h.size(-1) - k], dim=-1)
    return (w * (h / (first.pow(2).mean(-1, keepdim=True) + eps).sqrt())).to(x.dtype)


def partial_by_mask(x, weight, fraction, eps):
    d = x.shape[-1]
    k = max(int(d * fraction // 1), 1)
    counts = torch.arange(d) < k
    h = x.to(torch.promote_types(x.dtype, torch.float32))
    mean_square = torch.where(counts, h * h, 0).sum(dim=-1, keepdim=True) / k
    return (h * torch.rsqrt(mean_square + eps) * weight).to(x.dtype)


def partial_weight_promoted(x, weight, fraction, eps):
    """weight stays as it is, and meets a wide x."""
    h = x.to(torch.float32) if x.dtype in HALF else x
    k = max(1, int(fraction * x.shape[-1]))
    h = h / (h[..., :k].pow(2).mean(dim=-1, keepdim=True) + eps).sqrt()
    return h.mul(weight).to(dtype=x.dtype)


def partial_by_narrow(x, weight, fraction, eps):
    k = max(1, int(fraction * x.shape[-1]))
    first = x.narrow(-1, 0, k).double()
    y = x.double() / torch.sqrt(first.square().mean(-1, True) + eps)
    return (y * weight.double()).to(x.dtype)


# -- scale_norm ------------------------------------------------------------------------------------


def scale_by_sum(x, g, eps):
    h, g = _wide(x, g)
    length = (h * h).sum(-1, keepdim=True).sqrt()
    return (h * (g / length.clamp(min=eps))).type_as(x)


def scale_by_maximum(x, g, eps):
    h = x.to(torch.promote_types(x.dtype, torch.float32))
    length = torch.linalg.vector_norm(h, ord=2, dim=-1, keepdim=True)
    return (g * (h / torch.maximum(length, torch.full_like(length, eps)))).to(x.dtype)


def scale_by_where(x, g, eps):
    h, g = x.double(), g.double()
    length = h.norm(p=2, dim=-1, keepdim=True)
    return (g * h / torch.where(length > eps, length, eps)).to(x.dtype)


def scale_g_promoted(x, g, eps):
    """g stays as it is, and meets a wide x."""
    h = x.type(torch.float32) if x.dtype in HALF else x
    return (h / h.norm(dim=-1, keepdim=True).clamp(min=eps) * g).to(x)


def scale_by_clamped_square(x, g, eps):
    """The limit on the square: eps² there is eps on the length."""
    h, g = _wide(x, g)
    return (g * h * h.square().sum(-1, keepdim=True).clamp(min=eps**2).rsqrt()).to(x.dtype)


# -- ada_norm --------------------------------------------------------------------------------------


def ada_by_no_grad(x, c, k, eps):
    (h,) = _wide(x)
    var, mean = torch.var_mean(h, dim=-1, correction=0, keepdim=True)
    y = (h - mean) / torch.sqrt(var + eps)
    with torch.no_grad():
        factor = c * (1 - k * y)
    return (y * factor).to(x.dtype)


def ada_by_expansion(x, c, k, eps):
    """As the authors write it: y minus y times the detached k y, times c."""
    h = x.double()
    h = h - h.mean(-1, keepdim=True)
    rms = (h.pow(2).mean(-1, keepdim=True) + eps).sqrt()
    part = (k * h / rms).detach()
    return ((h - h * part) / rms * c).to(x.dtype)


def ada_in_place_of_a_cast(x, c, k, eps):
    """Widened by the operations themselves."""
    wide = torch.promote_types(x.dtype, torch.float32)
    h = x - x.mean(-1, keepdim=True, dtype=wide)
    y = h / (h.square().mean(-1, keepdim=True) + eps).sqrt()
    return (c * (1 - k * y).detach() * y).to(dtype=x.dtype)


def ada_by_einsum(x, c, k, eps):
    h = x.to(torch.promote_types(x.dtype, torch.float32))
    h = h - torch.einsum("...d->...", h)[..., None] / h.shape[-1]
    y = h * (torch.einsum("...d,...d->...", h, h)[..., None] / h.shape[-1] + eps) ** -0.5
    return (c * (1.0 - k * y.detach()) * y).to(x.dtype)


# -- modules ---------------------------------------------------------------------------------------


def rms_module(function):
    class RMSNorm(nn.Module):
        def __init__(self, d_model, eps=1e-6):
            super().__init__()
            self.eps = eps
            self.register_parameter("weight", nn.Parameter(torch.ones(d_model)))

        def forward(self, x):
            return function(x, self.weight, self.eps)

    return RMSNorm


class RMSNormAllInOne(nn.Module):
    """Computes in place of calling a function, and takes more arguments than asked."""

    def __init__(self, d_model, eps: float = 1e-06, device=None, dtype=None):
        super().__init__()
        self.normalized_shape, self.eps = (d_model,), eps
        self.weight = nn.Parameter(torch.empty(d_model, device=device, dtype=dtype))
        nn.init.ones_(self.weight)

    def forward(self, x):
        h = x.to(torch.promote_types(x.dtype, torch.float32))
        h = h / torch.sqrt((h * h).mean(dim=-1, keepdim=True) + self.eps)
        return (self.weight * h).to(x.dtype)


class AdaByVarMean(nn.Module):
    def __init__(self, d_model, d_cond, eps=1e-6):
        super().__init__()
        self.d_model, self.eps = d_model, eps
        self.silu = nn.SiLU()
        self.modulation = nn.Linear(d_cond, 2 * d_model, bias=True)
        for parameter in self.modulation.parameters():
            nn.init.constant_(parameter, 0.0)

    def forward(self, x, cond):
        both = self.modulation(self.silu(cond))
        shift, scale = both[:, None, : self.d_model], both[:, None, self.d_model :]
        h, shift, scale = _wide(x, shift, scale)
        var, mean = torch.var_mean(h, dim=-1, correction=0, keepdim=True)
        x_hat = (h - mean) / torch.sqrt(var + self.eps)
        return (x_hat + x_hat * scale + shift).to(x.dtype)


class AdaPromoted(nn.Module):
    """Nothing but x is cast."""

    def __init__(self, d_model, d_cond, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.modulation = nn.Linear(d_cond, 2 * d_model)
        nn.init.zeros_(self.modulation.weight)
        nn.init.zeros_(self.modulation.bias)

    def forward(self, x, cond):
        shift, scale = self.modulation(F.silu(cond)).unsqueeze(-2).chunk(2, dim=-1)
        h = x.to(torch.promote_types(x.dtype, torch.float32))
        h = h - h.mean(-1, keepdim=True)
        h = h / torch.sqrt(h.pow(2).mean(-1, keepdim=True) + self.eps)
        return (h * (1 + scale) + shift).type_as(x)


class AdaByEinsum(nn.Module):
    """Modulation by a matrix product of its own, in float64 after that."""

    def __init__(self, d_model, d_cond, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.modulation = nn.Linear(d_cond, 2 * d_model)
        with torch.no_grad():
            self.modulation.weight.zero_()
            self.modulation.bias.zero_()

    def forward(self, x, cond):
        c = cond * torch.sigmoid(cond)
        both = torch.einsum("bc,dc->bd", c, self.modulation.weight) + self.modulation.bias
        shift, scale = both.double().reshape(len(cond), 2, 1, -1).unbind(1)
        h = x.double()
        h = h - h.mean(-1, keepdim=True)
        h = h / (h.square().mean(-1, keepdim=True) + self.eps).sqrt()
        return torch.addcmul(shift, h, scale + 1).to(x.dtype)


class TanhByExp(nn.Module):
    def __init__(self, d_model, alpha=0.5):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.weight = nn.Parameter(torch.ones(d_model))
        self.alpha = nn.Parameter(torch.ones(1) * alpha)

    def forward(self, x):
        h, alpha, weight, bias = _wide(x, self.alpha, self.weight, self.bias)
        return (2 * torch.sigmoid(2 * alpha * h) - 1).mul(weight).add(bias).to(x.dtype)


class TanhPromoted(nn.Module):
    """The parameters stay as they are, and meet a wide x."""

    def __init__(self, d_model, alpha=0.5):
        super().__init__()
        self.alpha = nn.Parameter(torch.full((1,), float(alpha)))
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        h = x.to(torch.promote_types(x.dtype, torch.float32))
        return (self.weight * torch.tanh(self.alpha * h) + self.bias).to(x.dtype)


class TanhInFloat64(nn.Module):
    def __init__(self, d_model, alpha=0.5):
        super().__init__()
        self.alpha = nn.Parameter(torch.tensor([alpha], dtype=torch.float32))
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        bent = F.tanh(self.alpha.double() * x.double())
        return torch.addcmul(self.bias.double(), self.weight.double(), bent).to(x.dtype)


def _style(function, backward, layer, partial, scale, ada, adaln, tanh) -> dict[str, Any]:
    return {
        "rms_norm": function,
        "rms_norm_backward": backward,
        "RMSNorm": layer or rms_module(function),
        "partial_rms_norm": partial,
        "scale_norm": scale,
        "ada_norm": ada,
        "AdaLayerNorm": adaln,
        "DynamicTanh": tanh,
    }


STYLES: dict[str, dict[str, Any]] = {
    "division": _style(
        by_division, backward_by_the_graph, None, partial_by_split, scale_by_sum, ada_by_no_grad,
        AdaByVarMean, TanhByExp,
    ),
    "einsum": _style(
        by_einsum, backward_with_sums, RMSNormAllInOne, partial_by_mask, scale_by_maximum,
        ada_by_einsum, AdaByEinsum, TanhInFloat64,
    ),
    "float64_inside": _style(
        in_float64, backward_in_float64, None, partial_by_narrow, scale_by_where, ada_by_expansion,
        AdaByEinsum, TanhInFloat64,
    ),
    "promoted": _style(
        in_a_float32_scope, backward_by_the_graph, None, partial_weight_promoted, scale_g_promoted,
        ada_in_place_of_a_cast, AdaPromoted, TanhPromoted,
    ),
    "norm": _style(
        by_norm, backward_by_jacobian, None, partial_by_split, scale_by_clamped_square,
        ada_by_no_grad, AdaByVarMean, TanhByExp,
    ),
    "autograd_function": _style(
        by_autograd_function, backward_with_sums, None, partial_by_mask, scale_by_sum,
        ada_by_expansion, AdaByVarMean, TanhByExp,
    ),
    "row_by_row": _style(
        row_by_row, backward_by_the_graph, None, partial_by_narrow, scale_by_where, ada_by_einsum,
        AdaByEinsum, TanhInFloat64,
    ),
}  # fmt: skip

SLOW_STYLES = {"row_by_row"}  # loops over elements in Python
