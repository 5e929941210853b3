"""Right solutions in other styles than the reference: each must get full marks.

`STYLES` maps the name of a style to the graded names it defines.
"""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parameters_to_vector

from solutions.placement.placement import MultiHeadAttention

# -- blocks ----------------------------------------------------------------------------------------


class _Parts(nn.Module):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.attention = MultiHeadAttention(d_model, n_heads)
        self.linear2 = nn.Linear(d_ff, d_model)
        self.linear1 = nn.Linear(d_model, d_ff)


class PostByWrapper(_Parts):
    def add_and_norm(self, x, f, norm):
        return norm(f(x) + x)

    def forward(self, x):
        x = self.add_and_norm(x, self.attention, self.norm1)
        return self.add_and_norm(x, self.feed_forward, self.norm2)

    def feed_forward(self, x):
        return self.linear2(F.relu(self.linear1(x)))


class PreByWrapper(PostByWrapper):
    def add_and_norm(self, x, f, norm):
        return f(norm(x)) + x


def _functional_norm(x, norm):
    """Layer norm written out, with the parameters of `norm`."""
    mean = x.mean(-1, keepdim=True)
    var = ((x - mean) ** 2).mean(-1, keepdim=True)
    return (x - mean) / torch.sqrt(var + norm.eps) * norm.weight + norm.bias


class PostFunctional(_Parts):
    """Norms, linear layers and ReLU as functions of the parameters."""

    def forward(self, x):
        h = _functional_norm(self.attention(x) + x, self.norm1)
        z = F.linear(h, self.linear1.weight, self.linear1.bias).clamp_min(0)
        return _functional_norm(F.linear(z, self.linear2.weight, self.linear2.bias) + h, self.norm2)


class PreFunctional(_Parts):
    def forward(self, x):
        h = torch.add(x, self.attention(_functional_norm(x, self.norm1)))
        z = torch.einsum("blf,df->bld", self.linear1(_functional_norm(h, self.norm2)).relu(),
                         self.linear2.weight)  # fmt: skip
        return h + z + self.linear2.bias


class PostInPlace(_Parts):
    """In-place additions on its own tensors, never on x."""

    def forward(self, x):
        y = self.attention(x)
        y += x
        y = self.norm1(y)
        z = self.linear2(self.linear1(y).relu_())
        z += y
        return self.norm2(z)


class PreInPlace(_Parts):
    def forward(self, x):
        y = x.clone()
        y += self.attention(self.norm1(x))
        # Not in place again: norm2's backward pass needs the y that it read.
        return y + self.linear2(F.relu(self.linear1(self.norm2(y)), inplace=True))


class _OwnAttention(nn.Module):
    """Attention of one's own, with the same names: one head after the other."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            setattr(self, name, nn.Linear(d_model, d_model))

    def forward(self, x):
        d = x.shape[-1] // self.n_heads
        q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        heads = []
        for part in (slice(h * d, (h + 1) * d) for h in range(self.n_heads)):
            weights = torch.softmax(q[..., part] @ k[..., part].mT / d**0.5, -1)
            heads.append(weights @ v[..., part])
        return self.out_proj(torch.cat(heads, -1))


class PostOwnAttention(PostByWrapper):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__(d_model, n_heads, d_ff)
        self.attention = _OwnAttention(d_model, n_heads)


class PreOwnAttention(PreByWrapper):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__(d_model, n_heads, d_ff)
        self.attention = _OwnAttention(d_model, n_heads)


# -- gradient_norms --------------------------------------------------------------------------------


def norms_by_one_pass(blocks, x):
    """One call of autograd for all blocks, cut apart afterwards; a tensor of numbers."""
    y = nn.Sequential(*blocks)(x)
    loss = -y.log_softmax(-1)[..., 0].mean()
    owned = [[p for p in block.parameters() if p.requires_grad] for block in blocks]
    grads = iter(torch.autograd.grad(loss, [p for ps in owned for p in ps], allow_unused=True))
    squares = [
        sum((g**2).sum() for g in (next(grads) for _ in ps) if g is not None) for ps in owned
    ]
    return torch.tensor([float(s) for s in squares], dtype=torch.float64).sqrt()


def norms_by_backward(blocks, x):
    """loss.backward(), with the old .grad put back afterwards."""
    kept = [(p, p.grad) for block in blocks for p in block.parameters()]
    for p, _ in kept:
        p.grad = None
    y = x
    for block in blocks:
        y = block(y)
    d = y.size(-1)
    F.cross_entropy(y.reshape(-1, d), y.new_zeros(y.numel() // d, dtype=torch.long)).backward()
    norms = []
    for block in blocks:
        grads = [p.grad.flatten() for p in block.parameters() if p.grad is not None]
        norms.append(torch.cat(grads).norm().item() if grads else 0.0)
    for p, old in kept:
        p.grad = old
    return norms


def norms_by_vectors(blocks, x):
    y = x
    for block in blocks:
        y = block(y)
    loss = (y.logsumexp(-1) - y[..., 0]).mean()

    def length(block):
        wanted = [p for p in block.parameters() if p.requires_grad]
        if not wanted:
            return 0.0
        found = torch.autograd.grad(loss, wanted, retain_graph=True)
        return torch.linalg.vector_norm(parameters_to_vector(found)).item()

    return tuple(map(length, blocks))


def norms_of_norms(blocks, x):
    """The length of a vector of lengths; class 0 by its probability."""
    y = x
    for block in blocks:
        y = block(y)
    loss = -torch.log(torch.softmax(y, dim=-1)[..., 0]).mean()
    result = []
    for block in blocks:
        total = 0.0
        for p in block.parameters():
            if p.requires_grad:
                (g,) = torch.autograd.grad(loss, p, retain_graph=True, allow_unused=True)
                total += 0.0 if g is None else float(g.norm()) ** 2
        result.append(math.sqrt(total))
    return result


# -- numbers ---------------------------------------------------------------------------------------


def lr_by_cases(step, d_model, warmup):
    if step < 1:
        raise ValueError(step)
    if step <= warmup:
        return step / (warmup * math.sqrt(warmup * d_model))
    return 1 / math.sqrt(step * d_model)


def lr_by_minimum(step, d_model, warmup):
    if not step >= 1:
        raise ValueError("no such step")
    peak = 1 / (d_model * warmup) ** 0.5
    return min(step / warmup, (warmup / step) ** 0.5) * peak


def lr_in_torch(step, d_model, warmup):
    if step <= 0:
        raise ValueError("steps start at 1")
    lines = torch.tensor([step**-0.5, step / warmup**1.5], dtype=torch.float64)
    return (lines.min() / math.sqrt(d_model)).item()


def lr_by_logarithms(step, d_model, warmup):
    if step < 1:
        raise ValueError
    lines = (-0.5 * math.log(step), math.log(step) - 1.5 * math.log(warmup))
    return math.exp(min(lines) - 0.5 * math.log(d_model))


def constants_by_roots(n_layers):
    return math.sqrt(math.sqrt(2 * n_layers)), 1 / math.sqrt(math.sqrt(8 * n_layers))


def constants_by_pow(n_layers):
    return [math.pow(2 * n_layers, 1 / 4), math.pow(8 * n_layers, -1 / 4)]


def constants_from_alpha(n_layers):
    alpha = (n_layers + n_layers) ** (1 / 4)
    return alpha, 1 / (alpha * math.sqrt(2))


def constants_in_torch(n_layers):
    base = torch.tensor([2.0, 8.0], dtype=torch.float64) * n_layers
    alpha, beta = base ** torch.tensor([0.25, -0.25], dtype=torch.float64)
    return alpha, beta


# -- QK-norm ---------------------------------------------------------------------------------------


class _Projections(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        if d_model // n_heads * n_heads != d_model:
            raise ValueError("heads")
        self.h, self.d = n_heads, d_model // n_heads
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (
            nn.Linear(d_model, d_model) for _ in range(4)
        )
        self.q_norm, self.k_norm = (nn.RMSNorm(self.d, eps=1e-6) for _ in range(2))


class QKByTorch(_Projections):
    """torch's own scaled dot-product attention."""

    def forward(self, x):
        b, length, _ = x.shape
        shape = (b, length, self.h, self.d)
        q = self.q_norm(self.q_proj(x).view(shape)).transpose(1, 2)
        k = self.k_norm(self.k_proj(x).view(shape)).transpose(1, 2)
        v = self.v_proj(x).view(shape).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.out_proj(y.transpose(1, 2).reshape(b, length, -1))


class QKByEinsum(_Projections):
    """Axes by name; the norm written out."""

    def normed(self, t, norm):
        return t * torch.rsqrt(t.pow(2).mean(-1, keepdim=True) + 1e-6) * norm.weight

    def forward(self, x):
        q, k, v = (p(x).unflatten(-1, (self.h, self.d))
                   for p in (self.q_proj, self.k_proj, self.v_proj))  # fmt: skip
        q, k = self.normed(q, self.q_norm), self.normed(k, self.k_norm)
        logits = torch.einsum("bihd,bjhd->bhij", q, k) * self.d**-0.5
        return self.out_proj(torch.einsum("bhij,bjhd->bihd", logits.softmax(3), v).flatten(2))


class QKHeadByHead(_Projections):
    def forward(self, x):
        q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        out = []
        for i in range(self.h):
            part = slice(i * self.d, (i + 1) * self.d)
            qi = self.q_norm(q[..., part]) / math.sqrt(self.d)
            weights = F.softmax(qi @ self.k_norm(k[..., part]).mT, dim=-1)
            out.append(weights @ v[..., part])
        return self.out_proj(torch.cat(out, dim=-1))


class QKFolded(_Projections):
    """Both gains on the queries: only their product matters. Heads folded into the batch."""

    def forward(self, x):
        b, length, _ = x.shape
        q, k, v = (
            p(x).view(b, length, self.h, self.d).permute(0, 2, 1, 3).reshape(-1, length, self.d)
            for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        q = F.rms_norm(q, (self.d,), self.q_norm.weight * self.k_norm.weight, 1e-6)
        k = F.rms_norm(k, (self.d,), eps=1e-6)
        weights = torch.baddbmm(q.new_zeros(1), q, k.mT, beta=0, alpha=self.d**-0.5).softmax(-1)
        y = torch.bmm(weights, v).view(b, self.h, length, self.d)
        return self.out_proj(torch.cat(y.unbind(1), -1))


def _style(post, pre, norms, rate, constants, attention):
    return {
        "PostLNBlock": post, "PreLNBlock": pre, "gradient_norms": norms, "warmup_lr": rate,
        "deepnorm_constants": constants, "QKNormAttention": attention,
    }  # fmt: skip


STYLES = {
    "wrappers": _style(
        PostByWrapper, PreByWrapper, norms_by_one_pass, lr_by_cases, constants_by_roots, QKByTorch
    ),
    "functional": _style(
        PostFunctional, PreFunctional, norms_by_vectors, lr_by_minimum, constants_by_pow, QKByEinsum
    ),
    "in_place": _style(
        PostInPlace, PreInPlace, norms_by_backward, lr_in_torch, constants_in_torch, QKFolded
    ),
    "by_hand": _style(
        PostOwnAttention, PreOwnAttention, norms_of_norms, lr_by_logarithms, constants_from_alpha,
        QKHeadByHead,
    ),
}  # fmt: skip
