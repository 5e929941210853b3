"""The experiments of the RMSNorm chapter that are too long for a cell.

The page prints their numbers; `tests/claims/test_rmsnorm.py` asserts the effects. All are seeded,
run on one CPU core and take a few seconds.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from solutions.rmsnorm import rmsnorm as reference

from .layernorm import digits

# -- LayerNorm becomes RMSNorm ---------------------------------------------------------------------


class Attention(nn.Module):
    """One head of causal attention; `out` is what writes into the stream."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True))


class Mlp(nn.Module):
    """Two linear layers; `out` is what writes into the stream."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.wide, self.out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.relu(self.wide(x)))


class PreLN(nn.Module):
    """A small Pre-LN Transformer, tokens (B, L) to logits (B, L, vocabulary)."""

    def __init__(self, depth: int = 6, width: int = 64, vocabulary: int = 50, length: int = 32):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(length, width)
        self.sublayers = nn.ModuleList(
            kind(width) for _ in range(depth) for kind in (Attention, Mlp)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * depth + 1))
        self.head = nn.Linear(width, vocabulary)
        for parameter in self.parameters():  # as after training: nothing is 0, 1 or centred
            nn.init.normal_(parameter, mean=0.05, std=0.2)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) + self.positions.weight[: ids.shape[1]]
        for norm, sublayer in zip(self.norms, self.sublayers, strict=False):
            x = x + sublayer(norm(x))
        return self.head(self.norms[-1](x))


class RMSNormWithBias(nn.Module):
    """The RMSNorm that takes the place of a LayerNorm: its weight, its bias, its eps."""

    def __init__(self, norm: nn.LayerNorm) -> None:
        super().__init__()
        self.weight, self.bias, self.eps = norm.weight, norm.bias, norm.eps

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, x.shape[-1:], self.weight, self.eps) + self.bias


def exchange_norms(model: PreLN) -> None:
    """Put an RMSNorm in the place of every LayerNorm, and leave all weights alone."""
    model.norms = nn.ModuleList(RMSNormWithBias(norm) for norm in model.norms)


@torch.no_grad()
def centre_what_is_written(model: PreLN) -> None:
    """Subtract the mean over the features from everything that writes into the stream."""
    for embedding in (model.tokens, model.positions):
        embedding.weight -= embedding.weight.mean(dim=1, keepdim=True)  # (rows, D), over D
    for sublayer in model.sublayers:
        sublayer.out.weight -= sublayer.out.weight.mean(dim=0, keepdim=True)  # (D, in), over D
        sublayer.out.bias -= sublayer.out.bias.mean()  # (D,)


# -- AdaNorm ---------------------------------------------------------------------------------------


def ada_norm_of_an_article(x: Tensor, alpha: float) -> Tensor:
    """What a popular article calls AdaNorm: unbiased deviation, eps outside, one learned number."""
    centred = x - x.mean(-1, keepdim=True)
    return centred / (x.std(-1, keepdim=True) + 1e-6) * alpha


def best_multiple(z: Tensor, y: Tensor) -> tuple[float, float]:
    """The number a that makes a * y closest to z, and the relative error that is left."""
    a = (z * y).sum() / y.square().sum()
    return a.item(), ((z - a * y).norm() / z.norm()).item()


# -- adaLN-Zero ------------------------------------------------------------------------------------


class AdaLNZeroBlock(nn.Module):
    """Half a DiT block: x + gate * mlp(x_hat * (1 + scale) + shift), all three from a condition."""

    def __init__(self, width: int, d_cond: int) -> None:
        super().__init__()
        self.mlp = Mlp(width)
        self.modulation = nn.Linear(d_cond, 3 * width)
        nn.init.zeros_(self.modulation.weight)
        nn.init.zeros_(self.modulation.bias)

    def forward(self, x: Tensor, cond: Tensor) -> Tensor:
        shift, scale, gate = self.modulation(F.silu(cond)).unsqueeze(1).chunk(3, dim=-1)
        h = F.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + scale) + shift
        return x + gate * self.mlp(h)


# -- one training for all norms --------------------------------------------------------------------


class Lambda(nn.Module):
    """A module without parameters."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


class ScaleNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.g = nn.Parameter(torch.tensor(width**0.5))

    def forward(self, x: Tensor) -> Tensor:
        return reference.scale_norm(x, self.g, 1e-5)


class PartialRMSNorm(nn.Module):
    def __init__(self, width: int, fraction: float) -> None:
        super().__init__()
        self.weight, self.fraction = nn.Parameter(torch.ones(width)), fraction

    def forward(self, x: Tensor) -> Tensor:
        return reference.partial_rms_norm(x, self.weight, self.fraction, 1e-6)


NORMS: dict[str, Callable[[int], nn.Module]] = {
    "none": lambda width: nn.Identity(),
    "LayerNorm": nn.LayerNorm,
    "RMSNorm": reference.RMSNorm,
    "partial RMSNorm, 1/4": lambda width: PartialRMSNorm(width, 0.25),
    "ScaleNorm": ScaleNorm,
    "AdaNorm, C = 1, k = 0.1": lambda width: Lambda(
        lambda x: reference.ada_norm(x, 1.0, 0.1, 1e-5)
    ),
    "Dynamic Tanh": reference.DynamicTanh,
}


class Block(nn.Module):
    """Half a Transformer block: x + mlp(norm(x)), with He weights."""

    def __init__(self, norm: str, width: int) -> None:
        super().__init__()
        self.norm, self.mlp = NORMS[norm](width), Mlp(width)
        for linear in (self.mlp.wide, self.mlp.out):
            nn.init.kaiming_normal_(linear.weight, nonlinearity="relu")
            nn.init.zeros_(linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.mlp(self.norm(x))


def train(
    norm: str, *, lr: float = 0.01, epochs: int = 6, seed: int = 0, blocks: int = 8
) -> tuple[float, float]:
    """Trains residual blocks of width 64 on the digits: SGD, momentum 0.9, batches of 64.

    Returns:
        the mean training loss of the last epoch (NaN as soon as one is), and the test accuracy.
    """
    torch.manual_seed(seed)
    x, y, test_x, test_y = digits()
    stack = [Block(norm, 64) for _ in range(blocks)]
    model = nn.Sequential(*stack, NORMS[norm](64), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    for _ in range(epochs):
        losses = []
        for batch in torch.randperm(len(x)).split(64):
            loss = F.cross_entropy(model(x[batch]), y[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        if losses[-1] != losses[-1]:  # NaN does not come back
            break
    with torch.no_grad():
        accuracy = (model(test_x).argmax(1) == test_y).float().mean().item()
    return sum(losses) / len(losses), accuracy
