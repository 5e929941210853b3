"""Right solutions in other styles than the reference: each must get full marks.

`STYLES` maps the name of a style to the graded names it defines.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

HALF = (torch.float16, torch.bfloat16)


def _wide(*tensors):
    """float32 for half types, as the exercise asks."""
    return [t.float() if t.dtype in HALF else t for t in tensors]


# -- layer_norm --------------------------------------------------------------------------------


def by_var_mean(x, weight, bias, eps):
    (h,) = _wide(x)
    var, mean = torch.var_mean(h, dim=-1, correction=0, keepdim=True)
    y = (h - mean) / torch.sqrt(var + eps) * weight + bias
    return y.to(x.dtype)


def by_einsum(x, weight, bias, eps):
    h, w, b = _wide(x, weight, bias)
    c = h - h.mean(-1, keepdim=True)
    r = (torch.einsum("...d,...d->...", c, c)[..., None] / x.size(-1) + eps) ** -0.5
    return torch.einsum("...d,...d,d->...d", c, r.expand_as(c), w).add(b).type_as(x)


def by_std(x, weight, bias, eps):
    h = x.to(torch.promote_types(x.dtype, torch.float32))
    centered = h.sub(h.mean(dim=-1, keepdim=True))
    root = (h.std(dim=-1, keepdim=True, unbiased=False).pow(2) + eps).sqrt()
    return centered.div(root).mul(weight).add(bias).to(dtype=x.dtype)


def in_float64(x, weight, bias, eps):
    h = x.double()
    h = (h - h.mean(-1, True)) * torch.rsqrt(h.var(-1, unbiased=False, keepdim=True) + eps)
    return (weight.double() * h + bias.double()).to(x.dtype)


def in_a_float32_scope(x, weight, bias, eps):
    """Every argument cast by itself, where no autocast can undo it."""
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    with torch.autocast("cpu", enabled=False):
        h, w, b = x.to(wide), weight.to(dtype=wide), bias.type(wide)
        h = h - h.mean(dim=-1, keepdim=True)
        y = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + eps)
        return torch.addcmul(b, y, w).to(x)


def row_by_row(x, weight, bias, eps):
    d = x.shape[-1]
    out = []
    for row in x.reshape(-1, d):
        if row.dtype in HALF:
            row = row.float()
        mean = sum(row) / d
        var = sum((row - mean) ** 2) / d
        out.append((row - mean) / (var + eps) ** 0.5 * weight + bias)
    return torch.stack(out).reshape(x.shape).to(x.dtype)


def by_welford(x, weight, bias, eps):
    (h,) = _wide(x)
    mean, m2 = torch.zeros_like(h[..., 0]), torch.zeros_like(h[..., 0])
    for n, value in enumerate(h.unbind(-1), start=1):
        delta = value - mean
        mean = mean + delta / n
        m2 = m2 + delta * (value - mean)
    y = (h - mean[..., None]) / torch.sqrt(m2[..., None] / h.shape[-1] + eps)
    return (y * weight + bias).to(x.dtype)


def shifted_one_pass(x, weight, bias, eps):
    """E[x²] - E[x]², but of x minus its first element, which does not cancel."""
    (h,) = _wide(x)
    h = h - h[..., :1]
    mean = h.mean(-1, keepdim=True)
    var = (h.square().mean(-1, keepdim=True) - mean.square()).clamp(min=0)
    return ((h - mean) * torch.rsqrt(var + eps) * weight + bias).to(x.dtype)


class _Function(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, eps):
        h, w, b = _wide(x, weight, bias)
        centered = h - h.mean(-1, keepdim=True)
        rstd = torch.rsqrt((centered * centered).mean(-1, keepdim=True) + eps)
        ctx.save_for_backward(x, weight)
        ctx.eps = eps
        return (centered * rstd * w + b).to(x.dtype)

    @staticmethod
    def backward(ctx, grad_out):
        x, weight = ctx.saved_tensors
        return (*backward_by_the_graph(grad_out, x, weight, ctx.eps), None)


def by_autograd_function(x, weight, bias, eps):
    return _Function.apply(x, weight, bias, eps)


# -- layer_norm_backward -------------------------------------------------------------------------


def backward_by_the_graph(grad_out, x, weight, eps):
    """One line per step of the forward pass, from the last to the first (CS231n's way)."""
    dy, h, w = _wide(grad_out, x, weight)
    d = x.shape[-1]
    mean = h.sum(-1, keepdim=True) / d
    centered = h - mean
    var = (centered**2).sum(-1, keepdim=True) / d
    std = torch.sqrt(var + eps)
    x_hat = centered / std
    leading = tuple(range(x.dim() - 1))
    d_bias = dy.sum(leading) if leading else dy.clone()
    d_weight = (dy * x_hat).sum(leading) if leading else dy * x_hat
    d_hat = dy * w
    d_std = -(d_hat * centered).sum(-1, keepdim=True) / std**2
    d_var = 0.5 * d_std / std
    d_centered = d_hat / std + 2 * centered * d_var / d
    d_mean = -d_centered.sum(-1, keepdim=True)
    d_x = d_centered + d_mean / d
    return d_x.to(x.dtype), d_weight.to(weight.dtype), d_bias.to(weight.dtype)


def backward_with_sums(grad_out, x, weight, eps):
    """The textbook form (D g - sum g - x_hat sum(g x_hat)) / (D std), rows flattened first."""
    d = x.size(-1)
    dy, h = (
        t.reshape(-1, d).to(torch.promote_types(t.dtype, torch.float32)) for t in (grad_out, x)
    )
    var, mean = torch.var_mean(h, -1, correction=0, keepdim=True)
    std = (var + eps).sqrt()
    x_hat = (h - mean) / std
    g = dy * weight
    dx = (d * g - g.sum(1, keepdim=True) - x_hat * (g * x_hat).sum(1, keepdim=True)) / (d * std)
    dw, db = torch.einsum("nd,nd->d", dy, x_hat), torch.einsum("nd->d", dy)
    return [dx.view(x.shape).to(x.dtype), dw.to(weight.dtype), db.to(weight.dtype)]


def backward_in_float64(grad_out, x, weight, eps):
    g, h, w = grad_out.double(), x.double(), weight.double()
    x_hat = h - h.mean(-1, keepdim=True)
    rstd = 1 / torch.sqrt(x_hat.pow(2).mean(-1, keepdim=True) + eps)
    x_hat = x_hat * rstd
    along = (g * w * x_hat).mean(-1, keepdim=True)
    dx = rstd * (g * w - (g * w).mean(-1, keepdim=True) - along * x_hat)
    dw, db = g * x_hat, g
    while db.dim() > 1:
        dw, db = dw.sum(0), db.sum(0)
    return dx.to(x.dtype), dw.to(weight.dtype), db.to(weight.dtype)


def backward_by_jacobian(grad_out, x, weight, eps):
    """grad_x as a product with the whole D x D Jacobian of each row."""
    dy, h, w = _wide(grad_out, x, weight)
    d = x.shape[-1]
    dy, h = dy.reshape(-1, d), h.reshape(-1, d)
    c = h - h.mean(1, keepdim=True)
    rstd = torch.rsqrt((c * c).mean(1, keepdim=True) + eps)
    x_hat = c * rstd
    eye = torch.eye(d, dtype=h.dtype)
    jacobian = eye - 1 / d - x_hat[:, :, None] * x_hat[:, None, :] / d
    dx = torch.matmul(jacobian, (dy * w)[:, :, None])[:, :, 0] * rstd
    results = dx.reshape(x.shape), (dy * x_hat).sum(0), dy.sum(0)
    return tuple(t.to(o.dtype) for t, o in zip(results, (x, weight, weight), strict=True))


# -- LayerNorm -----------------------------------------------------------------------------------


def module(function, order=("weight", "bias")):
    """A module that calls `function`, its parameters registered in `order`."""

    class LayerNorm(nn.Module):
        def __init__(self, d_model, eps=1e-5):
            super().__init__()
            values = {"weight": torch.ones(d_model), "bias": torch.zeros(d_model)}
            for name in order:
                self.register_parameter(name, nn.Parameter(values[name]))
            self.eps = eps

        def forward(self, x):
            return function(x, self.weight, self.bias, self.eps)

    return LayerNorm


class AllInOne(nn.Module):
    """Computes in place of calling a function, and takes more arguments than asked."""

    def __init__(self, d_model, eps: float = 1e-05, bias: bool = True, device=None, dtype=None):
        super().__init__()
        self.normalized_shape, self.eps = (d_model,), eps
        self.weight = nn.Parameter(torch.empty(d_model, device=device, dtype=dtype))
        self.bias = nn.Parameter(torch.empty(d_model, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self):
        nn.init.ones_(self.weight)
        nn.init.zeros_(self.bias)

    def forward(self, x):
        dtype, wide = x.dtype, torch.promote_types(x.dtype, torch.float32)
        x = x.to(wide)
        x = x - x.mean(dim=-1, keepdim=True)
        x = x / torch.sqrt((x * x).mean(dim=-1, keepdim=True) + self.eps)
        return (self.weight * x + self.bias).to(dtype)


def _style(function, backward, layer=None) -> dict[str, Any]:
    return {
        "layer_norm": function,
        "LayerNorm": layer or module(function),
        "layer_norm_backward": backward,
    }


STYLES: dict[str, dict[str, Any]] = {
    "var_mean": _style(by_var_mean, backward_with_sums),
    "einsum": _style(by_einsum, backward_by_the_graph, module(by_einsum, ("bias", "weight"))),
    "std_squared": _style(by_std, backward_by_jacobian, AllInOne),
    "float32_scope": _style(in_a_float32_scope, backward_by_the_graph),
    "float64_inside": _style(in_float64, backward_in_float64),
    "row_by_row": _style(row_by_row, backward_with_sums),
    "welford": _style(by_welford, backward_by_the_graph),
    "shifted_one_pass": _style(shifted_one_pass, backward_with_sums),
    "autograd_function": _style(by_autograd_function, backward_by_the_graph),
}

SLOW_STYLES = {"row_by_row", "welford"}  # loops over elements in Python
