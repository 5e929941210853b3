"""Right solutions of `sequences` in other styles than the reference: each must get full marks."""

from __future__ import annotations

from typing import Any

import torch

HALF = (torch.float16, torch.bfloat16)
SLOW_STYLES = {"loops"}  # loops over sentences and tokens in Python


def _wide(t):
    """float32 for half types, as the exercises ask."""
    return t.float() if t.dtype in HALF else t


# -- masks by multiplication and division, after the padding was replaced -------------------------


def mask_by_expansion(lengths, max_len):
    if lengths.numel() and (lengths.min() < 0 or lengths.max() > max_len):
        raise ValueError("lengths out of range")
    rows = torch.arange(max_len).expand(len(lengths), max_len)
    return rows.lt(lengths.unsqueeze(1))


def statistics_by_counting(x, mask):
    h = _wide(x)
    keep = mask.unsqueeze(-1)
    n = mask.sum().item()
    if n == 0:
        raise ValueError("only padding")
    dims = tuple(range(h.dim() - 1))
    mean = torch.where(keep, h, torch.zeros_like(h)).sum(dims) / n
    centered = torch.where(keep, h - mean, torch.zeros_like(h))
    return mean, (centered**2).sum(dims) / n


def norm_by_counting(x, mask, weight, bias, eps):
    if int(mask.sum()) < 2:
        raise ValueError("too few tokens")
    h = torch.where(mask.unsqueeze(-1), _wide(x), 0.0)
    mean, var = statistics_by_counting(h, mask)
    y = weight * (h - mean) / torch.sqrt(var + eps) + bias
    return torch.where(mask.unsqueeze(-1), y, 0.0).to(x.dtype)


def distance_by_norm(batches):
    if len(batches) <= 1:
        raise ValueError("one batch")
    rows = [_wide(b).flatten(0, -2) for b in batches]
    pairs = [torch.var_mean(r, 0, correction=0) for r in rows]
    var, mean = pairs[0]
    found = []
    for new_var, new_mean in pairs[1:]:
        size = mean.numel()
        found.append([torch.dist(new_mean, mean) / size, torch.dist(new_var, var) / size])
        mean, var = mean.lerp(new_mean, 0.1), var.lerp(new_var, 0.1)
    return tuple(torch.stack(column) for column in zip(*found, strict=True))


# -- packed: only the real tokens are computed, and put back ---------------------------------------


def mask_by_counting_down(lengths, max_len):
    if not bool(((lengths >= 0) & (lengths <= max_len)).all()):
        raise ValueError("lengths out of range")
    left = lengths.long()[:, None] - torch.arange(max_len)[None, :]
    return left > 0


def statistics_packed(x, mask):
    tokens = _wide(x)[mask]
    if tokens.shape[0] < 1:
        raise ValueError("only padding")
    var, mean = torch.var_mean(tokens, 0, correction=0)
    return mean, var


def norm_packed(x, mask, weight, bias, eps):
    tokens = _wide(x)[mask]  # (n, D)
    if tokens.shape[0] < 2:
        raise ValueError("too few tokens")
    var, mean = torch.var_mean(tokens, 0, correction=0)
    y = torch.addcmul(bias.to(tokens.dtype), (tokens - mean) / (var + eps).sqrt(), weight)
    result = torch.zeros(x.shape, dtype=x.dtype)
    result[mask] = y.to(x.dtype)
    return result


def distance_of_stacked(batches):
    count = len(batches)
    if count < 2:
        raise ValueError("one batch")
    size = batches[0].shape[-1]
    stacks = []
    for which in (0, 1):
        values = []
        for batch in batches:
            h = _wide(batch)
            dims = tuple(range(h.dim() - 1))
            mean = h.mean(dims)
            values.append(mean if which == 0 else ((h - mean) ** 2).mean(dims))
        stacks.append(torch.stack(values))  # (T, D)
    distances = []
    for values in stacks:
        running, before = values[0], []
        for new in values[1:]:
            before.append(running)
            running = running + 0.1 * (new - running)
        difference = values[1:] - torch.stack(before)
        distances.append(torch.linalg.vector_norm(difference, dim=1) / size)
    return distances[0], distances[1]


# -- casts: every argument by itself, where no autocast can undo it --------------------------------


def _in_float32(t):
    return t.type(torch.float64 if t.dtype == torch.float64 else torch.float32)


def statistics_by_casts(x, mask):
    if not mask.any():
        raise ValueError("only padding")
    with torch.autocast("cpu", enabled=False):
        tokens = torch.masked_select(x, mask[..., None]).view(-1, x.shape[-1])
        tokens = tokens.to(torch.promote_types(x.dtype, torch.float32))
        mean = tokens.mean(0)
        return mean, tokens.sub(mean).pow(2).mean(0)


def norm_by_casts(x, mask, weight, bias, eps):
    if mask.count_nonzero() < 2:
        raise ValueError("too few tokens")
    mean, var = statistics_by_casts(x, mask)
    with torch.autocast("cpu", enabled=False):
        h = torch.where(mask[..., None], _in_float32(x), 0.0)
        y = (h - mean) / (var + eps).sqrt() * _in_float32(weight) + _in_float32(bias)
        return torch.where(mask[..., None], y, 0.0).to(x)


# -- float64 throughout ----------------------------------------------------------------------------


def mask_by_scatter(lengths, max_len):
    if (lengths < 0).any() or (lengths > max_len).any():
        raise ValueError("lengths out of range")
    ends = torch.zeros(len(lengths), max_len + 1, dtype=torch.int64)
    ends.scatter_(1, lengths.long()[:, None], 1)
    return ends.cumsum(1)[:, :max_len] == 0


def statistics_in_float64(x, mask):
    keep = torch.broadcast_to(mask[..., None], x.shape)
    h = x.double().masked_fill(~keep, 0.0).reshape(-1, x.shape[-1])
    rows = mask.reshape(-1).double()
    if rows.sum() == 0:
        raise ValueError("only padding")
    mean = rows @ h / rows.sum()
    var = rows @ (h - mean).square() / rows.sum()
    kept = torch.promote_types(x.dtype, torch.float32)
    return mean.to(kept), var.to(kept)


def norm_in_float64(x, mask, weight, bias, eps):
    if mask.sum() < 2:
        raise ValueError("too few tokens")
    outside = torch.logical_not(mask)[..., None]
    h = x.double().masked_fill(outside, 0.0)
    mean, var = statistics_in_float64(h, mask)
    scale = weight.double() * (var + eps) ** -0.5
    return (h * scale + (bias.double() - mean * scale)).masked_fill(outside, 0.0).to(x.dtype)


def distance_in_float64(batches):
    if not len(batches) >= 2:
        raise ValueError("one batch")
    kept = torch.promote_types(batches[0].dtype, torch.float32)
    running, found = None, [[], []]
    for batch in batches:
        h = batch.double().flatten(end_dim=-2)
        mean = h.mean(0)
        new = (mean, (h - mean).pow(2).mean(0))
        if running is not None:
            for which in (0, 1):
                gap = new[which] - running[which]
                found[which].append((gap @ gap) ** 0.5 / len(gap))
            new = tuple(0.9 * r + 0.1 * n for r, n in zip(running, new, strict=True))
        running = new
    return torch.stack(found[0]).to(kept), torch.stack(found[1]).to(kept)


# -- loops -----------------------------------------------------------------------------------------


def mask_by_loops(lengths, max_len):
    rows = []
    for n in lengths.tolist():
        if not 0 <= n <= max_len:
            raise ValueError("a length out of range")
        rows.append([True] * n + [False] * (max_len - n))
    return torch.tensor(rows)


def statistics_by_loops(x, mask):
    rows = _wide(x).reshape(-1, x.shape[-1]).unbind(0)
    real = [row for row, keep in zip(rows, mask.reshape(-1).tolist(), strict=True) if keep]
    if not real:
        raise ValueError("only padding")
    tokens = torch.stack(real)
    mean = tokens.mean(0)
    return mean, ((tokens - mean) ** 2).mean(0)


def norm_by_loops(x, mask, weight, bias, eps):
    if mask.sum() <= 1:
        raise ValueError("too few tokens")
    mean, var = statistics_by_loops(x, mask)
    rows = []
    for row, keep in zip(_wide(x).reshape(-1, x.shape[-1]), mask.reshape(-1).tolist(), strict=True):
        y = (row - mean) / (var + eps).sqrt() * weight + bias if keep else torch.zeros_like(row)
        rows.append(y.to(x.dtype))
    return torch.stack(rows).reshape(x.shape)


def distance_by_loops(batches):
    if len(batches) < 2:
        raise ValueError("one batch")
    means, variances = [], []
    running_mean, running_var = None, None
    for batch in batches:
        mask = torch.ones(batch.shape[:-1], dtype=torch.bool)
        mean, var = statistics_packed(batch, mask)
        if running_mean is None:
            running_mean, running_var = mean.clone(), var.clone()
        else:
            means.append((mean - running_mean).norm() / len(mean))
            variances.append((var - running_var).norm() / len(var))
            running_mean.mul_(0.9).add_(mean, alpha=0.1)
            running_var.mul_(0.9).add_(var, alpha=0.1)
    return torch.stack(means), torch.stack(variances)


def _style(mask, statistics, norm, distance) -> dict[str, Any]:
    return {
        "padding_mask": mask,
        "masked_mean_var": statistics,
        "masked_batch_norm": norm,
        "running_stat_distance": distance,
    }


STYLES: dict[str, dict[str, Any]] = {
    "counting": _style(
        mask_by_expansion, statistics_by_counting, norm_by_counting, distance_by_norm
    ),
    "packed": _style(mask_by_counting_down, statistics_packed, norm_packed, distance_of_stacked),
    "casts": _style(mask_by_expansion, statistics_by_casts, norm_by_casts, distance_by_norm),
    "float64": _style(mask_by_scatter, statistics_in_float64, norm_in_float64, distance_in_float64),
    "loops": _style(mask_by_loops, statistics_by_loops, norm_by_loops, distance_by_loops),
}
