"""Wrong versions of the module `QKNormAttention(d_model, n_heads)`.

Where two mistakes give the same output on some input, the one that stands first is named: so
mistakes that show in the names and sizes of the parts come last.
"""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

from autograder.misconceptions import misconception as declare
from autograder.misconceptions.placement.shared import PAGE

misconception = partial(declare, exercise="QKNormAttention", link=PAGE + "qk-norm")


class _QKNorm(nn.Module):
    """A right module; the mistakes below change one thing each."""

    eps = 1e-6

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.refuse(d_model, n_heads)
        self.n_heads = n_heads
        self.q_proj = nn.Linear(d_model, d_model)
        self.k_proj = nn.Linear(d_model, d_model)
        self.v_proj = nn.Linear(d_model, d_model)
        self.out_proj = nn.Linear(d_model, d_model)
        self.make_norms(d_model)

    def refuse(self, d_model, n_heads):
        if d_model % n_heads:
            raise ValueError("heads")

    def make_norms(self, d_model):
        self.q_norm = nn.RMSNorm(d_model // self.n_heads, eps=self.eps)
        self.k_norm = nn.RMSNorm(d_model // self.n_heads, eps=self.eps)

    def split(self, t):
        return t.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

    def merge(self, y):
        return y.transpose(1, 2).flatten(2)

    def normalize(self, q, k):
        return self.q_norm(q), self.k_norm(k)

    def value(self, v):
        return v

    def scale(self, q):
        return math.sqrt(q.shape[-1])

    def weights(self, logits):
        return logits.softmax(-1)

    def forward(self, x):
        q, k, v = (self.split(p(x)) for p in (self.q_proj, self.k_proj, self.v_proj))
        q, k = self.normalize(q, k)
        logits = q @ k.transpose(-1, -2) / self.scale(q)
        return self.out_proj(self.merge(self.weights(logits) @ self.value(v)))


def _rms(t, dims=-1):
    return (t.square().mean(dims, keepdim=True) + 1e-6).sqrt()


# -- which norm of what ----------------------------------------------------------------------------


@misconception(
    name="not-normalized",
    message="You registered the norms but did not use them: queries and keys are normalized "
    "before they meet.",
)
class NotNormalized(_QKNorm):
    def normalize(self, q, k):
        return q, k


@misconception(
    name="only-queries",
    message="You normalized the queries and forgot the keys.",
)
class OnlyQueries(_QKNorm):
    def normalize(self, q, k):
        return self.q_norm(q), k


@misconception(
    name="only-keys",
    message="You normalized the keys and forgot the queries.",
)
class OnlyKeys(_QKNorm):
    def normalize(self, q, k):
        return q, self.k_norm(k)


@misconception(
    name="q-norm-twice",
    message="You used q_norm for the keys too; they have a norm of their own, k_norm.",
)
class QNormTwice(_QKNorm):
    def normalize(self, q, k):
        return self.q_norm(q), self.q_norm(k)


@misconception(
    name="gains-not-used",
    message="You divided by the root mean square but did not multiply by the gains of q_norm and "
    "k_norm.",
)
class GainsNotUsed(_QKNorm):
    def normalize(self, q, k):
        return q / _rms(q), k / _rms(k)


@misconception(
    name="values-normalized",
    message="You normalized the values as well; they keep their lengths.",
)
class ValuesNormalized(_QKNorm):
    def value(self, v):
        return v / _rms(v)


@misconception(
    name="logits-normalized",
    message="You normalized the logits; the queries and the keys are normalized, before they meet.",
)
class LogitsNormalized(_QKNorm):
    def normalize(self, q, k):
        return q, k

    def weights(self, logits):
        return (logits / _rms(logits)).softmax(-1)


@misconception(
    name="normalized-over-the-tokens",
    message="You normalized over the tokens; each query and each key is a vector of D/H features, "
    "the last axis, and is normalized by itself.",
)
class OverTokens(_QKNorm):
    def normalize(self, q, k):
        return q / _rms(q, 2) * self.q_norm.weight, k / _rms(k, 2) * self.k_norm.weight


@misconception(
    name="normalized-across-heads",
    message="You normalized over all heads together; each head is normalized by itself.",
)
class AcrossHeads(_QKNorm):
    def normalize(self, q, k):
        return q / _rms(q, (1, 3)) * self.q_norm.weight, k / _rms(k, (1, 3)) * self.k_norm.weight


@misconception(
    name="mean-subtracted",
    message="You subtracted the mean of each query and key; RMSNorm only divides by the root mean "
    "square.",
)
class Centred(_QKNorm):
    def normalize(self, q, k):
        centred = [t - t.mean(-1, keepdim=True) for t in (q, k)]
        return self.q_norm(centred[0]), self.k_norm(centred[1])


@misconception(
    name="unit-length",
    message="You divided by the length, as the paper of 2020 does; RMSNorm divides by the root "
    "mean square, which leaves vectors of length sqrt(D/H).",
)
class UnitLength(_QKNorm):
    def normalize(self, q, k):
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        return q * self.q_norm.weight, k * self.k_norm.weight


@misconception(
    name="x-normalized",
    message="You normalized before the projections; queries and keys are normalized after them, "
    "head by head.",
)
class XNormalized(_QKNorm):
    def forward(self, x):
        h = x / _rms(x)
        q, k, v = (self.split(p(t)) for p, t in zip(
            (self.q_proj, self.k_proj, self.v_proj), (h, h, x), strict=True))  # fmt: skip
        q, k = q * self.q_norm.weight, k * self.k_norm.weight
        logits = q @ k.transpose(-1, -2) / self.scale(q)
        return self.out_proj(self.merge(self.weights(logits) @ v))


@misconception(
    name="torchs-default-eps",
    message="You left eps at torch's default, which is much smaller; here it is 1e-6.",
)
class DefaultEps(_QKNorm):
    eps = None


@misconception(
    name="eps-of-layer-norm",
    message="You took LayerNorm's eps of 1e-5; here it is 1e-6.",
)
class LargeEps(_QKNorm):
    eps = 1e-5


# -- attention itself ------------------------------------------------------------------------------


@misconception(
    name="no-scale",
    message="You left out the division by sqrt(D/H); it stays, also with normalized queries.",
)
class NoScale(_QKNorm):
    def scale(self, q):
        return 1.0


@misconception(
    name="scale-of-the-model",
    message="You divided by the root of d_model; the logits are divided by the root of a head's "
    "width, D/H.",
)
class ScaleOfTheModel(_QKNorm):
    def scale(self, q):
        return math.sqrt(q.shape[-1] * self.n_heads)


@misconception(
    name="scale-without-root",
    message="You divided by D/H; the logits are divided by its root.",
)
class ScaleWithoutRoot(_QKNorm):
    def scale(self, q):
        return q.shape[-1]


@misconception(
    name="softmax-over-queries",
    message="You took the softmax over the queries; for each query the weights of all keys add up "
    "to 1.",
)
class OverQueries(_QKNorm):
    def weights(self, logits):
        return logits.softmax(-2)


@misconception(
    name="causal",
    message="You hid the later tokens; here each token sees all tokens of its sequence.",
)
class Causal(_QKNorm):
    def weights(self, logits):
        future = torch.ones(logits.shape[-2:], dtype=torch.bool).triu(1)
        return logits.masked_fill(future, -math.inf).softmax(-1)


@misconception(
    name="heads-not-side-by-side",
    message="You flattened the heads without moving them behind the tokens first; transpose(1, 2) "
    "brings (B, H, L, D/H) to (B, L, H, D/H).",
)
class NotSideBySide(_QKNorm):
    def merge(self, y):
        return y.reshape(y.shape[0], y.shape[2], -1)


@misconception(
    name="heads-cut-across-tokens",
    message="You cut (B, L, D) into heads without a transpose, so a head holds features of "
    "several tokens; split the last axis, then transpose.",
)
class CutAcross(_QKNorm):
    def split(self, t):
        return t.reshape(t.shape[0], self.n_heads, t.shape[1], -1)


@misconception(
    name="heads-with-a-stride",
    message="You took every H-th feature into a head; head h holds neighbours, from h * D/H on.",
)
class WithAStride(_QKNorm):
    def split(self, t):
        return t.unflatten(-1, (-1, self.n_heads)).permute(0, 3, 1, 2)

    def merge(self, y):
        return y.permute(0, 2, 3, 1).flatten(2)


@misconception(
    name="single-head",
    message="You used one head of the full width; n_heads says how many there are.",
)
class SingleHead(_QKNorm):
    def forward(self, x):
        q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        q, k = (
            (norm(t.unflatten(-1, (self.n_heads, -1)))).flatten(2)
            for norm, t in ((self.q_norm, q), (self.k_norm, k))
        )
        return self.out_proj((q @ k.transpose(1, 2) / math.sqrt(q.shape[-1])).softmax(-1) @ v)


@misconception(
    name="attention-over-the-batch",
    message="You let tokens look at the same place in other sequences; attention runs over the "
    "tokens of one sequence, axis 1 of x.",
)
class OverTheBatch(_QKNorm):
    def forward(self, x):
        return super().forward(x.transpose(0, 1)).transpose(0, 1)


@misconception(
    name="out-proj-forgotten",
    message="You left out out_proj at the end.",
)
class OutProjForgotten(_QKNorm):
    def forward(self, x):
        q, k, v = (self.split(p(x)) for p in (self.q_proj, self.k_proj, self.v_proj))
        q, k = self.normalize(q, k)
        return self.merge(self.weights(q @ k.transpose(-1, -2) / self.scale(q)) @ v)


@misconception(
    name="residual-added",
    message="You added x to the result; the addition belongs to the block around attention.",
)
class ResidualAdded(_QKNorm):
    def forward(self, x):
        return x + super().forward(x)


@misconception(
    name="no-value-error",
    message="You left a number of heads that does not divide d_model to fail later, or not at "
    "all; the constructor raises a ValueError.",
)
class NoValueError(_QKNorm):
    def refuse(self, d_model, n_heads):
        pass


# -- parts -----------------------------------------------------------------------------------------


@misconception(
    name="norm-of-all-heads",
    message="You gave the norms d_model features; each head of d_model // n_heads features is "
    "normalized by itself.",
)
class AllHeads(_QKNorm):
    def make_norms(self, d_model):
        self.q_norm, self.k_norm = nn.RMSNorm(d_model, eps=1e-6), nn.RMSNorm(d_model, eps=1e-6)

    def normalize(self, q, k):
        return (
            self.split(self.q_norm(self.merge(q))),
            self.split(self.k_norm(self.merge(k))),
        )


@misconception(
    name="layer-norm",
    message="You used LayerNorm for queries and keys; here it is RMSNorm, without a bias and "
    "without subtracting the mean.",
)
class WithLayerNorm(_QKNorm):
    def make_norms(self, d_model):
        head = d_model // self.n_heads
        self.q_norm, self.k_norm = nn.LayerNorm(head, eps=1e-6), nn.LayerNorm(head, eps=1e-6)


@misconception(
    name="one-norm-registered",
    message="You registered one norm for queries and keys; each has its own, q_norm and k_norm.",
)
class OneNorm(_QKNorm):
    def make_norms(self, d_model):
        self.norm = nn.RMSNorm(d_model // self.n_heads, eps=1e-6)

    def normalize(self, q, k):
        return self.norm(q), self.norm(k)


@misconception(
    name="no-gains",
    message="You normalized without learned gains; q_norm and k_norm have one number for each "
    "feature of a head.",
)
class NoGains(_QKNorm):
    def make_norms(self, d_model):
        head = d_model // self.n_heads
        self.q_norm = nn.RMSNorm(head, eps=1e-6, elementwise_affine=False)
        self.k_norm = nn.RMSNorm(head, eps=1e-6, elementwise_affine=False)


@misconception(
    name="projections-without-bias",
    message="You left out the biases of the projections; here they are nn.Linear as it is.",
)
class WithoutBias(_QKNorm):
    def __init__(self, d_model, n_heads):
        super().__init__(d_model, n_heads)
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            setattr(self, name, nn.Linear(d_model, d_model, bias=False))


@misconception(
    name="v-norm",
    message="You registered a norm for the values too; only queries and keys are normalized.",
)
class VNorm(_QKNorm):
    def make_norms(self, d_model):
        super().make_norms(d_model)
        self.v_norm = nn.RMSNorm(d_model // self.n_heads, eps=1e-6)

    def value(self, v):
        return self.v_norm(v)


# -- two at once -----------------------------------------------------------------------------------


@misconception(parts=("unit-length", "no-scale"))
class UnitLengthWithoutScale(UnitLength, NoScale):
    """The attention of 2020, with gains in the place of its one learned factor."""
