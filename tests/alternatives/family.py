"""Right solutions of `family` in other styles than the reference: each must get full marks."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

HALF = (torch.float16, torch.bfloat16)
SLOW_STYLES = {"loops"}  # loops over samples and groups in Python


def _wide(t):
    """float32 for half types, as the exercise asks."""
    return t.float() if t.dtype in HALF else t


def _lined_up(t, x):
    return t.reshape(1, -1, *[1] * (x.ndim - 2))


# -- var_mean: torch's own mean and variance ------------------------------------------------------


def normalize_by_var_mean(x, dims, eps):
    h = _wide(x)
    var, mean = torch.var_mean(h, dims, correction=0, keepdim=True)
    return ((h - mean) / torch.sqrt(var + eps)).to(x.dtype)


def instance_by_var_mean(x, weight, bias, eps):
    y = normalize_by_var_mean(_wide(x), list(range(2, x.ndim)), eps)
    return (y * _lined_up(weight, x) + _lined_up(bias, x)).to(x.dtype)


def group_by_var_mean(x, num_groups, weight, bias, eps):
    n, c = x.shape[:2]
    if c % num_groups:
        raise ValueError(f"{num_groups} groups of {c} channels")
    y = normalize_by_var_mean(_wide(x).reshape(n, num_groups, -1), 2, eps).reshape(x.shape)
    return (y * _lined_up(weight, x) + _lined_up(bias, x)).to(x.dtype)


def weight_by_var_mean(w, eps):
    rows = _wide(w).flatten(1)
    var, mean = torch.var_mean(rows, 1, correction=0, keepdim=True)
    return ((rows - mean) * (var + eps) ** -0.5).view(w.shape).to(w.dtype)


# -- moved: the axes to the end, flattened into one, and back -------------------------------------


def normalize_by_moving(x, dims, eps):
    dims = (dims,) if isinstance(dims, int) else tuple(dims)
    last = tuple(range(-len(dims), 0))
    moved = x.movedim(dims, last)
    rows = moved.reshape(*moved.shape[: x.ndim - len(dims)], -1)
    rows = rows.to(torch.promote_types(x.dtype, torch.float32))
    centered = rows - rows.mean(-1, keepdim=True)
    rows = centered / (centered.pow(2).mean(-1, keepdim=True) + eps).sqrt()
    return rows.reshape(moved.shape).movedim(last, dims).to(x.dtype)


def instance_by_moving(x, weight, bias, eps):
    rows = x.flatten(2).to(torch.promote_types(x.dtype, torch.float32))
    rows = normalize_by_moving(rows, -1, eps)
    return (rows * weight[:, None] + bias[:, None]).reshape(x.shape).to(x.dtype)


def group_by_splitting(x, num_groups, weight, bias, eps):
    if x.size(1) % num_groups != 0:
        raise ValueError("uneven")
    pieces = _wide(x).split(x.size(1) // num_groups, dim=1)
    y = torch.cat([normalize_by_moving(p, tuple(range(1, x.ndim)), eps) for p in pieces], dim=1)
    return (y.movedim(1, -1) * weight + bias).movedim(-1, 1).to(x.dtype)


def weight_by_moving(w, eps):
    return normalize_by_moving(w, tuple(range(-1, -w.ndim, -1)), eps)


# -- cast: every argument by itself, where no autocast can undo it ---------------------------------


def _in_float32(t):
    return t.type(torch.float64 if t.dtype == torch.float64 else torch.float32)


def normalize_by_casts(x, dims, eps):
    with torch.autocast("cpu", enabled=False):
        h = _in_float32(x)
        h = h - h.mean(dims, True)
        return (h / (h.pow(2).mean(dims, True) + eps).sqrt()).to(x)


def instance_by_casts(x, weight, bias, eps):
    with torch.autocast("cpu", enabled=False):
        h = normalize_by_casts(_in_float32(x), tuple(range(2, x.ndim)), eps)
        w, b = (_lined_up(_in_float32(t), x) for t in (weight, bias))
        return torch.addcmul(b, w, h).to(dtype=x.dtype)


def group_by_casts(x, num_groups, weight, bias, eps):
    if x.shape[1] % num_groups:
        raise ValueError("uneven")
    h = _in_float32(x).unflatten(1, (num_groups, -1)).flatten(2)
    h = normalize_by_casts(h, (2,), eps).reshape(x.shape)
    return (_lined_up(weight, x).to(h) * h + _lined_up(bias, x).to(h)).type_as(x)


def weight_by_casts(w, eps):
    return normalize_by_casts(_in_float32(w), list(range(1, w.ndim)), eps).to(w)


# -- float64: everything in double, one multiplication and one addition ---------------------------


def normalize_in_float64(x, dims, eps):
    h = x.double()
    mean = h.mean(dims, keepdim=True)
    scale = ((h - mean) ** 2).mean(dims, keepdim=True).add(eps).rsqrt()
    return (h * scale - mean * scale).to(x.dtype)


def instance_in_float64(x, weight, bias, eps):
    y = normalize_in_float64(x.double(), tuple(range(2, x.ndim)), eps)
    return torch.addcmul(_lined_up(bias, x).double(), y, _lined_up(weight, x).double()).to(x.dtype)


def group_in_float64(x, num_groups, weight, bias, eps):
    if x.shape[1] % num_groups:
        raise ValueError("uneven")
    grouped = x.double().view(x.shape[0], num_groups, -1, *x.shape[2:]) if x.is_contiguous() else (
        x.double().unflatten(1, (num_groups, x.shape[1] // num_groups))
    )  # fmt: skip
    y = normalize_in_float64(grouped, list(range(2, grouped.ndim)), eps).reshape(x.shape)
    return (y * _lined_up(weight, x).double() + _lined_up(bias, x).double()).to(x.dtype)


def weight_in_float64(w, eps):
    return normalize_in_float64(w, list(range(1, w.ndim)), eps)


# -- loops: one group after the other -------------------------------------------------------------


def _standard(values, eps):
    n = values.numel()
    mean = values.sum() / n
    return (values - mean) / ((values - mean).pow(2).sum() / n + eps) ** 0.5


def group_by_loops(x, num_groups, weight, bias, eps):
    size, rest = divmod(x.shape[1], num_groups)
    if rest:
        raise ValueError("uneven")
    samples = []
    for sample in _wide(x).unbind(0):
        groups = [_standard(sample[g * size : (g + 1) * size], eps) for g in range(num_groups)]
        samples.append(torch.cat(groups))
    y = torch.stack(samples)
    return (y * _lined_up(weight, x) + _lined_up(bias, x)).to(x.dtype)


def instance_by_loops(x, weight, bias, eps):
    return group_by_loops(x, x.shape[1], weight, bias, eps)


def weight_by_loops(w, eps):
    return torch.stack([_standard(_wide(row), eps) for row in w]).to(w.dtype)


# -- the module -----------------------------------------------------------------------------------


class SwitchableByStacking(nn.Module):
    """Statistics in two stacked tensors, mixed by einsum; the state in another order."""

    def __init__(self, num_features, eps=1e-5, momentum=0.1):
        super().__init__()
        self.register_buffer("running_var", torch.ones(num_features))
        self.register_buffer("running_mean", torch.zeros(num_features))
        self.var_weight = nn.Parameter(torch.ones(3))
        self.mean_weight = nn.Parameter(torch.ones(3))
        self.bias = nn.Parameter(torch.zeros(num_features))
        self.weight = nn.Parameter(torch.ones(num_features))
        self.eps, self.momentum = eps, momentum

    def forward(self, x):
        h = _wide(x)
        n, c, height, width = x.shape
        pairs = [
            torch.var_mean(h, dims, correction=0, keepdim=True)
            for dims in ((-1, -2), (1, 2, 3), (0, 2, 3))
        ]
        if self.training:
            if n * height * width < 2:
                raise ValueError("one value")
            var, mean = pairs[2]
            count = n * height * width
            with torch.no_grad():
                self.running_mean.lerp_(mean.view(c).to(self.running_mean.dtype), self.momentum)
                unbiased = (var.view(c) * count / (count - 1)).to(self.running_var.dtype)
                self.running_var.lerp_(unbiased, self.momentum)
        else:
            pairs[2] = [
                t.to(h.dtype).view(1, c, 1, 1) for t in (self.running_var, self.running_mean)
            ]
        variances, means = (torch.stack([p[i].expand(n, c, 1, 1) for p in pairs]) for i in (0, 1))
        mean = torch.einsum("k,k...->...", torch.softmax(self.mean_weight.to(h.dtype), 0), means)
        var = torch.einsum("k,k...->...", torch.softmax(self.var_weight.to(h.dtype), 0), variances)
        y = (h - mean) / torch.sqrt(var + self.eps)
        return (y * self.weight.view(1, c, 1, 1) + self.bias.view(1, c, 1, 1)).to(x.dtype)


class SwitchableInFloat64(nn.Module):
    """Everything in float64; layer and batch variances from those of the instances."""

    def __init__(self, num_features, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        for name, start in (("weight", 1.0), ("bias", 0.0)):
            setattr(self, name, nn.Parameter(torch.full((num_features,), start)))
        for name in ("mean_weight", "var_weight"):
            setattr(self, name, nn.Parameter(torch.ones(3)))
        self.register_buffer("running_mean", torch.zeros(num_features))
        self.register_buffer("running_var", torch.ones(num_features))

    def forward(self, x):
        h = x.double().flatten(2)  # (N, C, HW)
        mean_in = h.mean(2, keepdim=True)
        var_in = (h - mean_in).square().mean(2, keepdim=True)
        mean_ln = mean_in.mean(1, keepdim=True)
        var_ln = (var_in + (mean_in - mean_ln).square()).mean(1, keepdim=True)
        if self.training:
            n = h.shape[0] * h.shape[2]
            if n == 1:
                raise ValueError("one value")
            mean_bn = mean_in.mean(0, keepdim=True)
            var_bn = (var_in + (mean_in - mean_bn).square()).mean(0, keepdim=True)
            with torch.no_grad():
                new_mean, new_var = mean_bn.flatten(), var_bn.flatten() * n / (n - 1)
                self.running_mean += self.momentum * (new_mean - self.running_mean)
                self.running_var += self.momentum * (new_var - self.running_var)
        else:
            mean_bn = self.running_mean.double()[:, None]
            var_bn = self.running_var.double()[:, None]
        p, q = (torch.softmax(w.double(), dim=0) for w in (self.mean_weight, self.var_weight))
        mean = p[0] * mean_in + p[1] * mean_ln + p[2] * mean_bn
        var = q[0] * var_in + q[1] * var_ln + q[2] * var_bn
        y = (h - mean) * (var + self.eps).rsqrt()
        y = y * self.weight.double()[:, None] + self.bias.double()[:, None]
        return y.view(x.shape).to(x.dtype)


def _style(normalize, instance, group, weight, module) -> dict[str, Any]:
    return {
        "normalize": normalize,
        "instance_norm": instance,
        "group_norm": group,
        "standardize_weight": weight,
        "SwitchableNorm2d": module,
    }


STYLES: dict[str, dict[str, Any]] = {
    "var_mean": _style(
        normalize_by_var_mean,
        instance_by_var_mean,
        group_by_var_mean,
        weight_by_var_mean,
        SwitchableByStacking,
    ),
    "moved": _style(
        normalize_by_moving,
        instance_by_moving,
        group_by_splitting,
        weight_by_moving,
        SwitchableInFloat64,
    ),
    "casts": _style(
        normalize_by_casts,
        instance_by_casts,
        group_by_casts,
        weight_by_casts,
        SwitchableByStacking,
    ),
    "float64": _style(
        normalize_in_float64,
        instance_in_float64,
        group_in_float64,
        weight_in_float64,
        SwitchableInFloat64,
    ),
    "loops": _style(
        normalize_by_moving,
        instance_by_loops,
        group_by_loops,
        weight_by_loops,
        SwitchableByStacking,
    ),
}
