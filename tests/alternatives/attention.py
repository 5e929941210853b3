"""Right solutions of `attention` in other styles than the reference: each must get full marks."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

HALF = (torch.float16, torch.bfloat16)
SLOW_STYLES = {"loops", "online"}  # loops over sentences, or over blocks of keys, in Python


def _wide(t):
    """float32 for half types, as the exercise asks."""
    return t.float() if t.dtype in HALF else t


def _linears(module, d_model, names=("q_proj", "k_proj", "v_proj", "out_proj")):
    for name in names:
        setattr(module, name, nn.Linear(d_model, d_model))


# -- einsum: a softmax by hand, nan_to_num for sentences of padding --------------------------------


def attention_by_einsum(q, k, v, key_padding_mask=None):
    dtype, scale = q.dtype, 1 / math.sqrt(q.size(-1))
    q, k, v = map(_wide, (q, k, v))
    scores = torch.einsum("...ld,...sd->...ls", q * scale, k)
    if key_padding_mask is not None:
        mask = key_padding_mask[:, None, :]
        mask = mask if q.ndim == 3 else mask[:, None]
        scores = torch.where(mask, float("-inf"), scores)
    largest = scores.amax(-1, keepdim=True).detach()
    largest = torch.where(largest == float("-inf"), 0.0, largest)
    e = torch.exp(scores - largest)
    total = e.sum(-1, keepdim=True)
    weights = e / torch.where(total == 0, 1.0, total)
    return torch.einsum("...ls,...se->...le", weights, v).to(dtype)


class HeadsByEinsum(nn.Module):
    """One einsum per step; the weights of the layers seen as (H, d_head, d_model)."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        if d_model % n_heads:
            raise ValueError(f"{n_heads} heads for {d_model} features")
        self.heads = n_heads
        _linears(self, d_model)

    def forward(self, x, key_padding_mask=None):
        def heads_of(layer):
            weight = layer.weight.view(self.heads, -1, x.size(-1))
            bias = layer.bias.view(self.heads, 1, -1)
            return torch.einsum("bld,hed->bhle", x, weight) + bias

        y = attention_by_einsum(
            heads_of(self.q_proj), heads_of(self.k_proj), heads_of(self.v_proj), key_padding_mask
        )
        weight = self.out_proj.weight.view(x.size(-1), self.heads, -1)
        return torch.einsum("bhle,dhe->bld", y, weight) + self.out_proj.bias


# -- float64: a finite fill, and rows without any real key set to zero -----------------------------


def attention_in_float64(q, k, v, key_padding_mask=None):
    wide_q, wide_k, wide_v = q.double(), k.double(), v.double()
    scores = torch.matmul(wide_q, wide_k.mT) * q.shape[-1] ** -0.5
    if key_padding_mask is None:
        return torch.matmul(torch.softmax(scores, -1), wide_v).to(q.dtype)
    shape = (q.shape[0],) + (1,) * (q.dim() - 2) + (-1,)
    mask = key_padding_mask.reshape(shape)
    scores = scores.masked_fill(mask, torch.finfo(torch.float64).min)
    some = (~mask).any(-1, keepdim=True)
    return (torch.matmul(torch.softmax(scores, -1), wide_v) * some).to(q.dtype)


class HeadsInOneBatch(nn.Module):
    """All heads of all sentences as one long batch of (B * H, L, d_head)."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads, rest = n_heads, d_model % n_heads
        if rest != 0:
            raise ValueError("no whole number of features for a head")
        _linears(self, d_model, ("out_proj", "v_proj", "k_proj", "q_proj"))

    def cut(self, t):
        b, length, d = t.shape
        t = t.reshape(b, length, self.n_heads, d // self.n_heads).permute(0, 2, 1, 3)
        return t.reshape(b * self.n_heads, length, -1)

    def forward(self, x, key_padding_mask=None):
        b, length, d = x.shape
        mask = key_padding_mask
        if mask is not None:
            mask = mask.repeat_interleave(self.n_heads, dim=0)
        q, k, v = (self.cut(p(x)) for p in (self.q_proj, self.k_proj, self.v_proj))
        y = attention_in_float64(q, k, v, mask).view(b, self.n_heads, length, -1)
        return self.out_proj(y.permute(0, 2, 1, 3).reshape(b, length, d))


# -- casts: each argument by itself, where no autocast can undo it ---------------------------------


def attention_by_casts(q, k, v, key_padding_mask=None):
    wide = torch.promote_types(q.dtype, torch.float32)
    with torch.autocast("cpu", enabled=False):
        scores = q.to(wide).matmul(k.type(wide).mT) / math.sqrt(q.size(-1))
        if key_padding_mask is None:
            return torch.matmul(F.softmax(scores, dim=-1), v.to(dtype=wide)).type_as(q)
        mask = key_padding_mask[(slice(None), *[None] * (q.ndim - 2))]
        weights = F.softmax(torch.where(mask, -torch.inf, scores), dim=-1)
        weights = torch.where(mask, 0.0, weights)
        return weights.matmul(v.to(dtype=wide)).to(q)


class HeadsByCasts(nn.Module):
    """Heads split with a view, and no thought for dtypes: attention keeps that of q."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        if d_model % n_heads:
            raise ValueError("uneven heads")
        self.n_heads = n_heads
        _linears(self, d_model)

    def forward(self, x, key_padding_mask=None):
        b, length, d = x.shape
        shape = (b, length, self.n_heads, d // self.n_heads)
        projections = (self.q_proj, self.k_proj, self.v_proj)
        q, k, v = (p(x).view(shape).transpose(1, 2) for p in projections)
        heads = attention_by_casts(q, k, v, key_padding_mask)
        return self.out_proj(heads.transpose(1, 2).contiguous().view(b, length, d))


# -- loops: each sentence by itself, real keys only ------------------------------------------------


def attention_by_loops(q, k, v, key_padding_mask=None):
    results = []
    for i in range(q.shape[0]):
        keys, vals = _wide(k[i]), _wide(v[i])
        if key_padding_mask is not None:
            real = ~key_padding_mask[i]
            keys, vals = keys[..., real, :], vals[..., real, :]
        if keys.shape[-2] == 0:
            results.append(q[i].new_zeros(*q[i].shape[:-1], v.shape[-1]))
            continue
        scores = _wide(q[i]) @ keys.transpose(-1, -2) / math.sqrt(q.shape[-1])
        results.append((F.softmax(scores, dim=-1) @ vals).to(q.dtype))
    return torch.stack(results)


class HeadsByLoops(nn.Module):
    """One head after the other, each on its slice of the features."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.d_head, rest = divmod(d_model, n_heads)
        if rest:
            raise ValueError("uneven heads")
        _linears(self, d_model)

    def forward(self, x, key_padding_mask=None):
        q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        pieces = [t.split(self.d_head, dim=-1) for t in (q, k, v)]
        heads = [attention_by_loops(*three, key_padding_mask) for three in zip(*pieces)]  # noqa: B905
        return self.out_proj(torch.cat(heads, dim=-1))


# -- online: a few keys at a time, with a running maximum and a running sum ------------------------


def attention_online(q, k, v, key_padding_mask=None, block=3):
    dtype = q.dtype
    q, k, v = (_wide(t) for t in (q, k, v))
    q = q / q.shape[-1] ** 0.5
    front = q.shape[:-1]
    largest = q.new_full((*front, 1), float("-inf"))
    total, mixed = q.new_zeros(*front, 1), q.new_zeros(*front, v.shape[-1])
    for start in range(0, k.shape[-2], block):
        part = slice(start, start + block)
        scores = q @ k[..., part, :].transpose(-2, -1)
        if key_padding_mask is not None:
            mask = key_padding_mask[:, part].view(len(q), *[1] * (q.dim() - 2), -1)
            scores = scores.masked_fill(mask, float("-inf"))
        new = torch.maximum(largest, scores.detach().amax(-1, keepdim=True))
        base = new.clamp(min=torch.finfo(q.dtype).min)
        e, shrink = torch.exp(scores - base), torch.exp(largest - base)
        total = total * shrink + e.sum(-1, keepdim=True)
        mixed = mixed * shrink + e @ v[..., part, :]
        largest = new
    return (mixed / total.masked_fill(total == 0, 1)).to(dtype)


class HeadsPacked(nn.Module):
    """One matrix product for queries, keys and values; the three weights put together for it."""

    def __init__(self, d_model, n_heads):
        if d_model // n_heads * n_heads != d_model:
            raise ValueError("uneven heads")
        super().__init__()
        self.shape = (3, n_heads, d_model // n_heads)
        _linears(self, d_model)

    def forward(self, x, key_padding_mask=None):
        parts = (self.q_proj, self.k_proj, self.v_proj)
        weight = torch.cat([p.weight for p in parts])
        qkv = F.linear(x, weight, torch.cat([p.bias for p in parts]))
        q, k, v = qkv.unflatten(-1, self.shape).permute(2, 0, 3, 1, 4)  # each (B, H, L, d_head)
        y = attention_online(q, k, v, key_padding_mask)
        return self.out_proj(y.movedim(1, 2).reshape(x.shape))


STYLES: dict[str, dict[str, Any]] = {
    "einsum": {"attention": attention_by_einsum, "MultiHeadAttention": HeadsByEinsum},
    "float64": {"attention": attention_in_float64, "MultiHeadAttention": HeadsInOneBatch},
    "casts": {"attention": attention_by_casts, "MultiHeadAttention": HeadsByCasts},
    "loops": {"attention": attention_by_loops, "MultiHeadAttention": HeadsByLoops},
    "online": {"attention": attention_online, "MultiHeadAttention": HeadsPacked},
}
