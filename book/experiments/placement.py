"""The experiments of the chapter "Pre-LN, Post-LN and the rest" that run in the page.

The page prints their numbers; `tests/claims/test_placement.py` asserts the effects. All are seeded
and run on one CPU core. Longer runs are recorded by `placement_sweep`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from .placement_sweep import fresh
from .transformer import CharModel, corpus, train, windows

WIDE = 128  # features of the models that are only looked at, not trained
# Mean square that a fresh feed-forward net writes: d_ff inputs, half of them cut off by the ReLU,
# both matrices of variance 2 / (d + d_ff), d_ff = 4 d.
FEED_FORWARD_ADDS = 0.5 * 4 * (2 / 5) ** 2


def batch(seed: int, model: CharModel, part: str = "train", size: int = 8) -> Tensor:
    """Windows of text, (size, L + 1)."""
    ids = getattr(corpus(), part)
    return windows(ids, size, model.length, torch.Generator().manual_seed(seed))


def untrained(placement: str, depth: int, seed: int, **options: Any) -> CharModel:
    """A fresh model of `depth` blocks, 128 features wide."""
    return fresh(placement, depth, seed, d_model=WIDE, **options)


# -- at initialization -----------------------------------------------------------------------------


def gradients(placement: str, depth: int, seed: int, **options: Any) -> list[float]:
    """For each block the length of the gradient of its second feed-forward matrix."""
    model = untrained(placement, depth, seed, **options)
    model.loss(batch(seed, model)).backward()
    return [block.linear2.weight.grad.norm().item() for block in model.blocks]


@torch.no_grad()
def stream(placement: str, depth: int, seed: int, **options: Any) -> list[float]:
    """The mean square of the stream before the first block and after each one."""
    model = untrained(placement, depth, seed, **options)
    return [x.square().mean().item() for x in model.streams(batch(seed, model)[:, :-1])]


@torch.no_grad()
def first_loss(depth: int, seed: int, **options: Any) -> float:
    """The loss of a fresh Pre-LN model."""
    model = untrained("pre", depth, seed, **options)
    return model.loss(batch(seed, model)).item()


@torch.no_grad()
def shares(placement: str, depth: int, seed: int) -> list[float]:
    """For each sublayer, which share of the variance behind its addition is what it wrote.

    Liu et al. (2020) call it the dependency on the residual branch.
    """
    model = untrained(placement, depth, seed)
    x, found = model.embed(batch(seed, model)[:, :-1]), []
    for block in model.blocks:
        start = x
        for number, f in ((1, block.attention), (2, block.feed_forward)):
            norm = getattr(block, f"norm{number}")
            kept = getattr(block, f"omega{number}", 1.0) * x
            written = f(norm(x)) if placement == "pre" else f(x)
            found.append((written.var() / (kept + written).var()).item())
            x = block.add(x, f, number, start)
    return found


@torch.no_grad()
def shaken(placement: str, depth: int, seed: int, size: float = 0.01) -> float:
    """How far the model's last states move when every weight matrix of its blocks does.

    Each entry moves by a random number of `size` times the spread of its matrix. The states are
    compared behind a LayerNorm: the mean square of the difference.
    """
    model = untrained(placement, depth, seed)
    ids = batch(seed, model)[:, :-1]
    before = F.layer_norm(model.streams(ids)[-1], (WIDE,))
    generator = torch.Generator().manual_seed(seed)
    for weight in model.blocks.parameters():
        if weight.dim() == 2:
            noise = torch.randn(weight.shape, generator=generator)
            weight.add_(size * weight.std() * noise)
    after = F.layer_norm(model.streams(ids)[-1], (WIDE,))
    return (after - before).square().mean().item()


# -- after a short training ------------------------------------------------------------------------


def short_training(
    placement: str, warmup: int, seed: int, *, layers: int = 4, lr: float = 6e-3,
    steps: int = 200, clip: float | None = None,
) -> tuple[CharModel, list[float]]:  # fmt: skip
    """A small model and the loss of each of its training steps."""
    model = fresh(placement, layers, seed)
    losses = train(model, corpus().train, steps=steps, lr=lr, warmup=warmup, seed=seed, clip=clip)
    return model, losses


@torch.no_grad()
def sameness(model: CharModel, seed: int = 7) -> tuple[float, float]:
    """Mean cosine between last states of different tokens, and the spread of logits over tokens."""
    ids = batch(seed, model, "validation")[:, :-1]
    states = F.normalize(model.streams(ids)[-1].flatten(0, 1), dim=-1)  # (N, D)
    n = len(states)
    cosine = ((states.sum(0).square().sum() - n) / (n * (n - 1))).item()
    return cosine, model(ids).flatten(0, 1).std(0).mean().item()


@torch.no_grad()
def sizes_of_logits(
    size: float, width: int = 64, heads: int = 4, seed: int = 0
) -> dict[str, float]:
    """The largest attention logit when queries and keys are random numbers of spread `size`."""
    g = torch.Generator().manual_seed(seed)
    q, k = (size * torch.randn(8, heads, 64, width // heads, generator=g) for _ in range(2))
    head = width // heads

    def largest(q: Tensor, k: Tensor) -> float:
        return (q @ k.transpose(-1, -2) / head**0.5).abs().max().item()

    normed = [F.rms_norm(t, (head,)) for t in (q, k)]
    return {"raw": largest(q, k), "normalized": largest(*normed), "bound": head**0.5}
