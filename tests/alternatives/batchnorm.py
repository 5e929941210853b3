"""Right solutions of `batchnorm` in other styles than the reference: each must get full marks."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

HALF = (torch.float16, torch.bfloat16)
SLOW_STYLES = {"loops"}  # loops over channels in Python


def _wide(*tensors):
    """float32 for half types, as the exercise asks."""
    return [t.float() if t.dtype in HALF else t for t in tensors]


# -- batch_norm --------------------------------------------------------------------------------


def by_var_mean(x, weight, bias, running_mean, running_var, training, momentum, eps):
    """keepdim=True, lerp_ for the update, the unbiased variance by torch itself."""
    (h,) = _wide(x)
    shape = (1, -1) + (1,) * (x.ndim - 2)
    if training:
        if x.numel() == x.size(1):
            raise ValueError("need more than one value per channel")
        dim = [d for d in range(x.ndim) if d != 1]
        var, mean = torch.var_mean(h, dim=dim, correction=0)
        with torch.no_grad():
            running_mean.lerp_(mean.to(running_mean.dtype), momentum)
            running_var.lerp_(h.var(dim=dim).to(running_var.dtype), momentum)
    else:
        mean, var = running_mean.to(h.dtype), running_var.to(h.dtype)
    y = (h - mean.reshape(shape)) / torch.sqrt(var.reshape(shape) + eps)
    return (y * weight.reshape(shape) + bias.reshape(shape)).to(x.dtype)


def in_a_float32_scope(x, weight, bias, running_mean, running_var, training, momentum, eps):
    """Every argument cast by itself, where no autocast can undo it."""
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    with torch.autocast("cpu", enabled=False):
        h, w, b = x.to(dtype=wide), weight.type(wide), bias.to(wide)
        h, dims = h.transpose(1, -1), tuple(range(x.dim() - 1))
        mean, var = running_mean.type(wide), running_var.type(wide)
        if training:
            n = x.numel() // x.shape[1]
            if n == 1:
                raise ValueError("one value")
            mean = h.mean(dims)
            var = (h - mean).pow(2).mean(dims)
            with torch.no_grad():
                running_mean.copy_(torch.lerp(running_mean.to(wide), mean, momentum))
                running_var.copy_(torch.lerp(running_var.to(wide), var * n / (n - 1), momentum))
        y = torch.addcmul(b, (h - mean) * (var + eps).rsqrt(), w)
        return y.transpose(1, -1).to(x)


def by_transposing(x, weight, bias, running_mean, running_var, training, momentum, eps):
    """Channels to the end, everything else flattened into one axis, and back."""
    rows = x.movedim(1, -1)
    shape = rows.shape
    rows = rows.reshape(-1, shape[-1]).to(torch.promote_types(x.dtype, torch.float32))
    if not training:
        mean, var = running_mean, running_var
    elif len(rows) < 2:
        raise ValueError("one value")
    else:
        mean = rows.mean(0)
        centered = rows - mean
        var = (centered * centered).mean(0)
        n = len(rows)
        running_mean.data.copy_((1 - momentum) * running_mean.data + momentum * mean.detach())
        running_var.data.copy_(
            (1 - momentum) * running_var.data + momentum * n / (n - 1) * var.detach()
        )
    rows = (rows - mean) * (var.to(rows.dtype) + eps) ** -0.5 * weight + bias
    return rows.reshape(shape).movedim(-1, 1).to(x.dtype)


def by_scale_and_shift(x, weight, bias, running_mean, running_var, training, momentum, eps):
    """One multiplication and one addition for each value, from float64 statistics."""
    dims = [0, *list(range(2, x.dim()))]
    h = x.double()
    if training:
        n = h.numel() / h.shape[1]
        if n <= 1:
            raise ValueError("one value")
        mean = h.mean(dims)
        var = ((h - mean.view(1, -1, *[1] * (x.dim() - 2))) ** 2).mean(dims)
        with torch.no_grad():
            running_mean += momentum * (mean - running_mean)
            running_var += momentum * (var * n / (n - 1) - running_var)
    else:
        mean, var = running_mean.double(), running_var.double()
    scale = weight.double() / (var + eps).sqrt()
    shift = bias.double() - mean * scale
    lined_up = [t.view(1, -1, *[1] * (x.dim() - 2)) for t in (scale, shift)]
    return (h * lined_up[0] + lined_up[1]).to(x.dtype)


def by_loops(x, weight, bias, running_mean, running_var, training, momentum, eps):
    """One channel after the other."""
    out = []
    for c in range(x.shape[1]):
        values = x[:, c].double()
        if training:
            if values.numel() < 2:
                raise ValueError("one value")
            mean = values.sum() / values.numel()
            squares = (values - mean).pow(2).sum()
            var = squares / values.numel()
            with torch.no_grad():
                running_mean[c] = (1 - momentum) * running_mean[c] + momentum * mean
                unbiased = squares / (values.numel() - 1)
                running_var[c] = (1 - momentum) * running_var[c] + momentum * unbiased
        else:
            mean, var = running_mean[c].double(), running_var[c].double()
        out.append((values - mean) / (var + eps) ** 0.5 * weight[c] + bias[c])
    return torch.stack(out, dim=1).to(x.dtype)


# -- batch_norm_backward -------------------------------------------------------------------------


def backward_by_the_graph(grad_out, x, weight, eps):
    """One line per step of the forward pass, from the last to the first (CS231n's way)."""
    dy, h, w = (t.movedim(1, -1) if t.dim() > 1 else t for t in _wide(grad_out, x, weight))
    shape = h.shape
    dy, h = dy.reshape(-1, shape[-1]), h.reshape(-1, shape[-1])
    n = h.shape[0]
    mean = h.sum(0) / n
    centered = h - mean
    var = (centered**2).sum(0) / n
    std = torch.sqrt(var + eps)
    x_hat = centered / std
    d_bias, d_weight = dy.sum(0), (dy * x_hat).sum(0)
    d_hat = dy * w
    d_std = -(d_hat * centered).sum(0) / std**2
    d_var = 0.5 * d_std / std
    d_centered = d_hat / std + 2 * centered * d_var / n
    d_x = d_centered - d_centered.sum(0) / n
    d_x = d_x.reshape(shape).movedim(-1, 1)
    return d_x.to(x.dtype), d_weight.to(weight.dtype), d_bias.to(weight.dtype)


def backward_with_sums(grad_out, x, weight, eps):
    """The textbook form (n g - sum g - x_hat sum(g x_hat)) w / (n std)."""
    dims = [0, *range(2, x.ndim)]
    dy, h, w = (t.to(torch.promote_types(t.dtype, torch.float32)) for t in (grad_out, x, weight))
    var, mean = torch.var_mean(h, dims, correction=0, keepdim=True)
    std = (var + eps).sqrt()
    x_hat = (h - mean) / std
    n = h.numel() / h.size(1)
    sum_g, sum_gx = dy.sum(dims, keepdim=True), (dy * x_hat).sum(dims, keepdim=True)
    dx = w.reshape(sum_g.shape) * (n * dy - sum_g - x_hat * sum_gx) / (n * std)
    return dx.to(x.dtype), sum_gx.reshape(-1).to(weight.dtype), sum_g.flatten().to(weight.dtype)


def backward_in_float64(grad_out, x, weight, eps):
    exact = backward_with_sums(grad_out.double(), x.double(), weight.double(), eps)
    return tuple(t.to(o.dtype) for t, o in zip(exact, (x, weight, weight), strict=True))


# -- BatchNorm -----------------------------------------------------------------------------------


def module(function):
    """A module that calls `function`, with its state in another order and made otherwise."""

    class BatchNorm(nn.Module):
        def __init__(self, num_features, eps=1e-5, momentum=0.1):
            super().__init__()
            self.register_buffer("num_batches_tracked", torch.zeros((), dtype=torch.long))
            self.register_buffer("running_var", torch.ones(num_features))
            self.register_buffer("running_mean", torch.zeros(num_features))
            self.register_parameter("bias", nn.Parameter(torch.zeros(num_features)))
            self.register_parameter("weight", nn.Parameter(torch.ones(num_features)))
            self.eps, self.momentum = eps, momentum

        def forward(self, x):
            if self.training:
                self.num_batches_tracked.add_(1)
            momentum = self.momentum
            if momentum is None:
                momentum = 1.0 / max(int(self.num_batches_tracked), 1)
            return function(
                x, self.weight, self.bias, self.running_mean, self.running_var,
                self.training, momentum, self.eps,
            )  # fmt: skip

    return BatchNorm


class AllInOne(nn.Module):
    """Computes in place of calling a function; assigns new buffers instead of changing them."""

    def __init__(self, num_features, eps=1e-5, momentum=0.1, device=None):
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.weight = nn.Parameter(torch.empty(num_features, device=device))
        self.bias = nn.Parameter(torch.empty(num_features, device=device))
        nn.init.ones_(self.weight)
        nn.init.zeros_(self.bias)
        self.register_buffer("running_mean", torch.zeros(num_features))
        self.register_buffer("running_var", torch.ones(num_features))
        self.register_buffer("num_batches_tracked", torch.tensor(0, dtype=torch.long))

    def forward(self, x):
        dims = [0, *range(2, x.dim())]
        (h,) = _wide(x)
        if self.training:
            if x.numel() // x.shape[1] == 1:
                raise ValueError("one value")
            self.num_batches_tracked = self.num_batches_tracked + 1
            mean, var = h.mean(dims, keepdim=True), h.var(dims, correction=0, keepdim=True)
            factor = 1 / self.num_batches_tracked if self.momentum is None else self.momentum
            with torch.no_grad():
                new_mean, new_var = mean.flatten(), h.var(dims)
                self.running_mean = self.running_mean * (1 - factor) + new_mean * factor
                self.running_var = self.running_var * (1 - factor) + new_var * factor
        else:
            shape = [1, self.num_features] + [1] * (x.dim() - 2)
            mean, var = self.running_mean.view(shape), self.running_var.view(shape)
        y = (h - mean) / (var + self.eps).sqrt()
        y = y.movedim(1, -1) * self.weight + self.bias
        return y.movedim(-1, 1).to(x.dtype)


# -- fold_batch_norm -----------------------------------------------------------------------------


def fold_by_matrix(weight, bias, running_mean, running_var, bn_weight, bn_bias, eps):
    """The factor as a diagonal matrix in front of the flattened weight."""
    wide = torch.promote_types(weight.dtype, torch.float32)
    factor = bn_weight.to(wide) / (running_var.to(wide) + eps).sqrt()
    folded = (torch.diag(factor) @ weight.to(wide).flatten(1)).reshape(weight.shape)
    shift = -running_mean.to(wide) if bias is None else bias.to(wide) - running_mean.to(wide)
    return folded.to(weight.dtype), (factor * shift + bn_bias.to(wide)).to(weight.dtype)


def fold_by_moving(weight, bias, running_mean, running_var, bn_weight, bn_bias, eps):
    """The channels moved to the end, where the factor lines up by itself."""
    dtype = weight.dtype
    weight = weight.double()
    factor = bn_weight.double() * (running_var.double() + eps) ** -0.5
    old = 0.0 if bias is None else bias.double()
    folded = (weight.transpose(0, -1) * factor).transpose(0, -1)
    return folded.to(dtype), ((old - running_mean.double()) * factor + bn_bias.double()).to(dtype)


def _style(function, backward, fold, layer=None) -> dict[str, Any]:
    return {
        "batch_norm": function,
        "BatchNorm": layer or module(function),
        "batch_norm_backward": backward,
        "fold_batch_norm": fold,
    }


STYLES: dict[str, dict[str, Any]] = {
    "var_mean": _style(by_var_mean, backward_with_sums, fold_by_matrix),
    "float32_scope": _style(in_a_float32_scope, backward_by_the_graph, fold_by_matrix),
    "transposed": _style(by_transposing, backward_by_the_graph, fold_by_moving),
    "scale_and_shift": _style(by_scale_and_shift, backward_in_float64, fold_by_matrix),
    "all_in_one": _style(by_var_mean, backward_by_the_graph, fold_by_moving, AllInOne),
    "loops": _style(by_loops, backward_with_sums, fold_by_moving),
}
