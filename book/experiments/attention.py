"""The experiment of the chapter on attention that is too long for a cell.

The page prints its numbers; `tests/claims/test_attention.py` asserts the effect. It is seeded, runs
on one CPU core and takes a few seconds.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from solutions.attention.attention import MultiHeadAttention

LONGEST, WIDTH = 12, 8


def sentences(count: int, g: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Sentences of 2 to LONGEST random tokens, padded with zeros at the end.

    Returns:
        x: (count, LONGEST, WIDTH).
        mask: (count, LONGEST), True at padding.
        target: (count,), the mean of feature 0 over the real tokens.
    """
    lengths = torch.randint(2, LONGEST + 1, (count,), generator=g)
    mask = torch.arange(LONGEST) >= lengths[:, None]
    x = torch.randn(count, LONGEST, WIDTH, generator=g).masked_fill(mask[..., None], 0)
    return x, mask, x[..., 0].sum(1) / lengths


class Reader(nn.Module):
    """One attention with two heads; one number from the result of the first token."""

    def __init__(self, masked: bool) -> None:
        super().__init__()
        self.masked = masked
        self.attention = MultiHeadAttention(WIDTH, 2)
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.head(self.attention(x, mask if self.masked else None)[:, 0])[:, 0]


@cache
def train(masked: bool, seed: int, steps: int = 200) -> Reader:
    """A reader trained on padded batches of 32, with the mask in its attention or without."""
    g = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    model = Reader(masked)
    velocity = [torch.zeros_like(p) for p in model.parameters()]  # torch.optim takes 5 s to load
    for _ in range(steps):
        x, mask, target = sentences(32, g)
        loss = F.mse_loss(model(x, mask), target)
        grads = torch.autograd.grad(loss, list(model.parameters()))
        with torch.no_grad():
            for p, v, grad in zip(model.parameters(), velocity, grads, strict=True):
                p -= 0.1 * v.mul_(0.9).add_(grad)
    return model.eval()


@torch.no_grad()
def errors(model: Reader, longest: int = LONGEST, shortest: int = 2) -> tuple[float, float]:
    """Mean squared error on new sentences: padded as in training, and each one alone."""
    x, mask, target = sentences(600, torch.Generator().manual_seed(12345))
    lengths = (~mask).sum(1)
    keep = (lengths >= shortest) & (lengths <= longest)
    x, mask, target = x[keep], mask[keep], target[keep]
    padded = F.mse_loss(model(x, mask), target).item()
    total = 0.0
    for n in lengths[keep].unique().tolist():  # all sentences of one length need no padding
        rows = lengths[keep] == n
        got = model(x[rows, :n], mask[rows, :n])
        total += (got - target[rows]).square().sum().item()
    return padded, total / len(target)
