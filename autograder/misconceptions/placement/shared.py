"""What wrong blocks are made of: right attention, right parts, and mistakes of the parts alone."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autograder.misconceptions import misconception

PAGE = "placement.html#"


class Attention(nn.Module):
    """Right multi-head self-attention."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.q_proj = nn.Linear(d_model, d_model)
        self.k_proj = nn.Linear(d_model, d_model)
        self.v_proj = nn.Linear(d_model, d_model)
        self.out_proj = nn.Linear(d_model, d_model)

    def heads(self, t: Tensor) -> Tensor:
        return t.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (self.heads(p(x)) for p in (self.q_proj, self.k_proj, self.v_proj))
        y = F.scaled_dot_product_attention(q, k, v)
        return self.out_proj(y.transpose(1, 2).flatten(2))


class Parts(nn.Module):
    """The parts of a block, right; what is made of them is the mistake."""

    def __init__(self, d_model: int, n_heads: int, d_ff: int) -> None:
        super().__init__()
        self.attention = Attention(d_model, n_heads)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.linear1, self.linear2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def between(self, h: Tensor) -> Tensor:
        """What stands between the two linear layers."""
        return torch.relu(h)

    def feed_forward(self, h: Tensor) -> Tensor:
        return self.linear2(self.between(self.linear1(h)))


def declare_mistakes_of_the_parts(exercise: str, right: Callable[[Parts, Tensor], Tensor]) -> None:
    """Declare, for the block whose forward is `right`, what can go wrong in its parts."""

    def declare(name: str, message: str) -> Callable[[type[Parts]], type[Parts]]:
        def note(mixin: type[Parts]) -> type[Parts]:
            made = type(name, (mixin,), {"forward": right})
            misconception(
                exercise=exercise, name=name, message=message, link=PAGE + "parts-of-a-block"
            )(made)
            return mixin

        return note

    # `misconception` files an implementation under the module that defined it: these are ours.
    @declare(
        "one-norm-registered",
        "You registered one norm and used it twice; a block has two, norm1 and norm2, with weights "
        "of their own.",
    )
    class OneNorm(Parts):
        def __init__(self, d_model, n_heads, d_ff):
            super().__init__(d_model, n_heads, d_ff)
            del self.norm2

        def __getattr__(self, name):
            return super().__getattr__("norm1" if name == "norm2" else name)

    @declare(
        "feed-forward-as-a-sequence",
        "You put the feed-forward net into a Sequential, which gives its layers other names; here "
        "they are linear1 and linear2.",
    )
    class Sequence(Parts):
        def __init__(self, d_model, n_heads, d_ff):
            super().__init__(d_model, n_heads, d_ff)
            self.net = nn.Sequential(self.linear1, nn.ReLU(), self.linear2)
            del self.linear1, self.linear2

        def feed_forward(self, h):
            return self.net(h)

    @declare(
        "attention-renamed",
        "You gave attention another name, as torch's layer does (self_attn); here it is called "
        "attention.",
    )
    class Renamed(Parts):
        def __init__(self, d_model, n_heads, d_ff):
            super().__init__(d_model, n_heads, d_ff)
            self.self_attn = self._modules.pop("attention")

        def __getattr__(self, name):
            return super().__getattr__("self_attn" if name == "attention" else name)

    @declare(
        "width-of-the-net",
        "You gave linear1 and linear2 the width d_model; between them the feed-forward net has "
        "d_ff features.",
    )
    class Narrow(Parts):
        def __init__(self, d_model, n_heads, d_ff):
            super().__init__(d_model, n_heads, d_model)

    @declare(
        "relu-forgotten",
        "You left out the ReLU between linear1 and linear2; without it two linear layers are one.",
    )
    class WithoutRelu(Parts):
        def between(self, h):
            return h

    @declare(
        "gelu",
        "You put a GELU between linear1 and linear2; the block of 2017, and this one, has a ReLU.",
    )
    class Gelu(Parts):
        def between(self, h):
            return F.gelu(h)

    @declare(
        "relu-at-the-end",
        "You put a ReLU behind linear2; what a sublayer adds to the stream may be negative.",
    )
    class ReluAtTheEnd(Parts):
        def feed_forward(self, h):
            return torch.relu(self.linear2(torch.relu(self.linear1(h))))

    @declare(
        "another-eps",
        "You gave the norms another eps; here they are nn.LayerNorm with its own default.",
    )
    class AnotherEps(Parts):
        def __init__(self, d_model, n_heads, d_ff):
            super().__init__(d_model, n_heads, d_ff)
            self.norm1.eps = self.norm2.eps = 1e-6

    @declare(
        "norms-swapped",
        "You swapped the norms: norm1 belongs to attention, norm2 to the feed-forward net.",
    )
    class Swapped(Parts):
        def __getattr__(self, name):
            return super().__getattr__({"norm1": "norm2", "norm2": "norm1"}.get(name, name))
