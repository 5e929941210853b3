"""Wrong versions of the module `MultiHeadAttention(d_model, n_heads)`."""

from __future__ import annotations

from functools import partial

import torch
from torch import nn

from autograder.misconceptions import misconception as declare
from autograder.misconceptions.attention.shared import (
    PAGE,
    declare_all,
    made,
    padded_queries_zeroed,
    right,
)

misconception = partial(declare, exercise="MultiHeadAttention")


class Heads(nn.Module):
    """The right module in steps, so that a wrong one replaces only its own."""

    attend = staticmethod(right)

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.refuse(d_model, n_heads)
        self.n_heads = n_heads
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            setattr(self, name, nn.Linear(d_model, d_model))

    def refuse(self, d_model, n_heads):
        if d_model % n_heads:
            raise ValueError("heads")

    def project(self, x):
        return self.q_proj(x), self.k_proj(x), self.v_proj(x)

    def cut(self, x):
        """(B, L, d_model) to (B, H, L, d_head)."""
        return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

    def join(self, heads):
        """(B, H, L, d_head) to (B, L, d_model)."""
        return heads.transpose(1, 2).flatten(2)

    def end(self, y, x):
        return self.out_proj(y)

    def forward(self, x, key_padding_mask=None):
        q, k, v = map(self.cut, self.project(x))
        return self.end(self.join(self.attend(q, k, v, key_padding_mask)), x)


# -- heads -----------------------------------------------------------------------------------------


@misconception(
    name="view-without-transpose",
    message="You cut into heads by one view (or reshape) to (B, H, L, d_head), which mixes up "
    "tokens and features; cut the last axis, then swap two axes.",
    link=PAGE + "att-view",
)
class ViewedBothWays(Heads):
    def cut(self, x):
        b, length, d = x.shape
        return x.reshape(b, self.n_heads, length, d // self.n_heads)

    def join(self, heads):
        b, h, length, d = heads.shape
        return heads.reshape(b, length, h * d)


@misconception(name="view-without-transpose")
class ViewedThere(Heads):
    cut = ViewedBothWays.cut


@misconception(
    name="not-transposed-back",
    message="You put the heads side by side without swapping the axes back first; transpose(1, 2), "
    "then flatten the last two axes.",
    link=PAGE + "att-view",
)
class ViewedBack(Heads):
    join = ViewedBothWays.join


@misconception(
    name="features-with-a-stride",
    message="You gave head h every H-th feature; a head gets a piece of neighbouring features.",
    link=PAGE + "att-heads",
)
class Strided(Heads):
    def cut(self, x):
        return x.unflatten(-1, (-1, self.n_heads)).movedim(-1, 1)

    def join(self, heads):
        return heads.movedim(1, -1).flatten(2)


@misconception(
    name="heads-joined-with-a-stride",
    message="You put the heads back feature by feature instead of one head after the other; after "
    "transpose (1, 2) the heads' axis comes before their features.",
    link=PAGE + "att-heads",
)
class JoinedStrided(Heads):
    join = Strided.join


@misconception(
    name="head-size-taken-for-number",
    message="You took n_heads for the length of a head; it is the number of heads.",
    link=PAGE + "att-heads",
)
class SizeForNumber(Heads):
    def cut(self, x):
        return x.unflatten(-1, (-1, self.n_heads)).transpose(1, 2)


@misconception(
    name="one-head-only",
    message="You did not cut into heads; with n_heads heads each compares its own piece of the "
    "features.",
    link=PAGE + "att-heads",
)
class OneHead(Heads):
    def cut(self, x):
        return x.unsqueeze(1)


@misconception(
    name="heads-attend-to-each-other",
    message="You left out the transpose, so the heads of one token attended to each other and "
    "tokens never met; heads go in front of the tokens: (B, H, L, d_head).",
    link=PAGE + "att-view",
)
class AmongHeads(Heads):
    def forward(self, x, key_padding_mask=None):
        q, k, v = (t.unflatten(-1, (self.n_heads, -1)) for t in self.project(x))
        mask = key_padding_mask
        if mask is not None and mask.shape[1] != self.n_heads:
            mask = None
        return self.out_proj(self.attend(q, k, v, mask).flatten(2))


@misconception(
    name="scaled-by-d-model",
    message="You divided the scores by the root of d_model; a head's queries have the length "
    "d_model / n_heads, so divide by the root of that.",
    link=PAGE + "att-scale",
)
class ScaledByModel(Heads):
    def forward(self, x, key_padding_mask=None):
        self.attend = made(scale=lambda scores, q, k: scores / x.shape[-1] ** 0.5)
        return super().forward(x, key_padding_mask)


@misconception(
    name="misfit-not-refused",
    message="You did not raise a ValueError where n_heads does not divide d_model; check it first, "
    "in __init__.",
    link=PAGE + "att-heads",
)
class MisfitAccepted(Heads):
    def refuse(self, d_model, n_heads):
        pass


@misconception(name="misfit-not-refused")
class MisfitAsserted(Heads):
    def refuse(self, d_model, n_heads):
        assert d_model % n_heads == 0


# -- projections -----------------------------------------------------------------------------------


@misconception(
    name="wrong-projection",
    message="You made queries, keys or values with the projection of another name; q_proj makes "
    "the queries, k_proj the keys, v_proj the values.",
    link=PAGE + "att-projections",
)
class KeysAndValuesSwapped(Heads):
    def project(self, x):
        return self.q_proj(x), self.v_proj(x), self.k_proj(x)


@misconception(name="wrong-projection")
class QueriesAndKeysSwapped(Heads):
    def project(self, x):
        return self.k_proj(x), self.q_proj(x), self.v_proj(x)


@misconception(name="wrong-projection")
class QueriesAndValuesSwapped(Heads):
    def project(self, x):
        return self.v_proj(x), self.k_proj(x), self.q_proj(x)


@misconception(name="wrong-projection")
class QueryForAll(Heads):
    def project(self, x):
        q = self.q_proj(x)
        return q, q, q


@misconception(name="wrong-projection")
class KeysForValues(Heads):
    def project(self, x):
        k = self.k_proj(x)
        return self.q_proj(x), k, k


@misconception(
    name="values-not-projected",
    message="You mixed the tokens themselves; the values are v_proj of the tokens.",
    link=PAGE + "att-projections",
)
class ValuesNotProjected(Heads):
    def project(self, x):
        return self.q_proj(x), self.k_proj(x), x


@misconception(
    name="out-proj-forgotten",
    message="You left out out_proj; it mixes the results of the heads, last of all.",
    link=PAGE + "att-projections",
)
class NoOut(Heads):
    def end(self, y, x):
        return y


@misconception(
    name="biases-not-used",
    message="You multiplied by the weights without adding the biases; call the layers themselves.",
    link=PAGE + "att-projections",
)
class BiasesNotUsed(Heads):
    def project(self, x):
        return [x @ p.weight.t() for p in (self.q_proj, self.k_proj, self.v_proj)]

    def end(self, y, x):
        return y @ self.out_proj.weight.t()


@misconception(
    name="weights-transposed",
    message="You multiplied by the weight as it is; a linear layer computes x @ weightᵀ + bias, so "
    "call the layers themselves.",
    link=PAGE + "att-projections",
)
class Transposed(Heads):
    def project(self, x):
        return [x @ p.weight + p.bias for p in (self.q_proj, self.k_proj, self.v_proj)]

    def end(self, y, x):
        return y @ self.out_proj.weight + self.out_proj.bias


@misconception(
    name="without-biases",
    message="You made the projections without biases; all four have one (the default of "
    "nn.Linear).",
    link=PAGE + "att-projections",
)
class WithoutBiases(Heads):
    def __init__(self, d_model, n_heads):
        super().__init__(d_model, n_heads)
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            setattr(self, name, nn.Linear(d_model, d_model, bias=False))


@misconception(name="without-biases")
class OnlyOutHasBias(Heads):
    def __init__(self, d_model, n_heads):
        super().__init__(d_model, n_heads)
        for name in ("q_proj", "k_proj", "v_proj"):
            setattr(self, name, nn.Linear(d_model, d_model, bias=False))


@misconception(
    name="packed-projection",
    message="You packed the three input projections into one; the names asked for are q_proj, "
    "k_proj, v_proj and out_proj, each a linear layer of its own.",
    link=PAGE + "att-projections",
)
class Packed(Heads):
    def __init__(self, d_model, n_heads):
        super().__init__(d_model, n_heads)
        del self.q_proj, self.k_proj, self.v_proj
        self.in_proj = nn.Linear(d_model, 3 * d_model)

    def project(self, x):
        return self.in_proj(x).chunk(3, -1)


@misconception(
    name="a-projection-per-head",
    message="You made separate layers for each head; one layer of the full width makes the queries "
    "of all heads at once, and is cut afterwards.",
    link=PAGE + "att-projections",
)
class PerHead(Heads):
    def __init__(self, d_model, n_heads):
        super().__init__(d_model, n_heads)
        for name in ("q_proj", "k_proj", "v_proj"):
            layers = [nn.Linear(d_model, d_model // n_heads) for _ in range(n_heads)]
            setattr(self, name, nn.ModuleList(layers))

    def project(self, x):
        layers = (self.q_proj, self.k_proj, self.v_proj)
        return [torch.cat([p(x) for p in listed], -1) for listed in layers]


# -- around it -------------------------------------------------------------------------------------


@misconception(
    name="residual-added",
    message="You added x to the result; the residual connection belongs to the block, not to the "
    "attention.",
    link=PAGE + "att-norm",
)
class Residual(Heads):
    def end(self, y, x):
        return x + self.out_proj(y)


@misconception(
    name="norm-added",
    message="You normalized the tokens inside; the norm belongs to the block, not to attention.",
    link=PAGE + "att-norm",
)
class Normed(Heads):
    def project(self, x):
        return super().project(nn.functional.layer_norm(x, x.shape[-1:]))


@misconception(
    name="batch-taken-for-length",
    message="You took axis 0 for the tokens, as nn.MultiheadAttention does without batch_first; "
    "here it is the sentences, and tokens of one sentence look at each other.",
    link=PAGE + "att-batch",
)
class LengthFirst(Heads):
    def forward(self, x, key_padding_mask=None):
        q, k, v = (self.cut(t.transpose(0, 1)) for t in self.project(x))
        mask = None
        if key_padding_mask is not None:
            mask = key_padding_mask.t()
        return self.end(self.join(self.attend(q, k, v, mask)).transpose(0, 1), x)


@misconception(
    name="padded-outputs-zeroed",
    message="You set the results of padded tokens to 0; the mask says only which keys are ignored, "
    "and padded tokens get a result like all others.",
    link=PAGE + "att-mask",
)
class OutputsZeroed(Heads):
    def forward(self, x, key_padding_mask=None):
        y = super().forward(x, key_padding_mask)
        if key_padding_mask is not None:
            y = y.masked_fill(key_padding_mask.unsqueeze(-1), 0)
        return y


@misconception(name="padded-outputs-zeroed")
class HeadsZeroed(Heads):
    """The same before out_proj, which leaves its bias."""

    attend = staticmethod(padded_queries_zeroed)


@misconception(
    name="out-proj-bias-missing-at-padding",
    message="You gave zeros for a sentence of padding only; out_proj comes after the heads, so its "
    "bias is left.",
    link=PAGE + "att-nothing",
)
class ZerosAfterOut(Heads):
    def forward(self, x, key_padding_mask=None):
        y = super().forward(x, key_padding_mask)
        if key_padding_mask is not None:
            y = y.masked_fill(key_padding_mask.all(1)[:, None, None], 0)
        return y


@misconception(
    name="input-modified",
    message="You changed x in place (an operator such as += or a method that ends in _); make a "
    "new tensor.",
    link=PAGE + "att-in-place",
)
class InputModified(Heads):
    def forward(self, x, key_padding_mask=None):
        y = super().forward(x, key_padding_mask)
        with torch.no_grad():
            x.add_(y.mean())
        return y


# -- the attention inside ------------------------------------------------------------------------


def _with(attention):
    return type("Wrong", (Heads,), {"attend": staticmethod(attention)})


declare_all(
    "MultiHeadAttention",
    _with,
    # The first two look like swapped projections here, the third has a name of its own above.
    without=("compared-with-values", "keys-ask-queries", "padded-queries-zeroed"),
)
