"""The experiments of the BatchNorm chapter that are too long for a cell.

The page prints their numbers; `tests/claims/test_batchnorm.py` asserts the effects. All are seeded
and run on one CPU core. `python -m book.experiments.batchnorm_batch_size` repeats the one that
takes minutes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .layernorm import digits

NORMS: dict[str, Callable[[int], nn.Module]] = {
    "none": lambda width: nn.Identity(),
    "BatchNorm": nn.BatchNorm1d,
    "LayerNorm": nn.LayerNorm,
}
CONV_NORMS: dict[str, Callable[[int], nn.Module]] = {
    "BatchNorm": nn.BatchNorm2d,
    "GroupNorm": lambda channels: nn.GroupNorm(4, channels),
}


def he_linear(inside: int, outside: int) -> nn.Linear:
    linear = nn.Linear(inside, outside)
    nn.init.kaiming_normal_(linear.weight, nonlinearity="relu")
    nn.init.zeros_(linear.bias)
    return linear


def mlp(norm: str, layers: int, width: int = 64, momentum: float | None = 0.1) -> nn.Sequential:
    """`layers` times linear, norm, ReLU, with He weights, and a linear head for ten classes."""
    parts: list[nn.Module] = []
    for layer in range(layers):
        made = NORMS[norm](width)
        if isinstance(made, nn.BatchNorm1d):
            made.momentum = momentum
        parts += [he_linear(64 if layer == 0 else width, width), made, nn.ReLU()]
    return nn.Sequential(*parts, nn.Linear(width, 10))


def cnn(norm: str) -> nn.Sequential:
    """Two convolutions with norm and ReLU over the 8 x 8 images, and a linear head."""
    make = CONV_NORMS[norm]
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        nn.Conv2d(1, 8, 3, padding=1), make(8), nn.ReLU(),
        nn.Conv2d(8, 16, 3, padding=1, stride=2), make(16), nn.ReLU(),
        nn.Flatten(), nn.Linear(256, 10),
    )  # fmt: skip


def fit(
    model: nn.Module, *, lr: float, batch: int, steps: int, seed: int, decay: float = 0.0
) -> list[float]:
    """Trains on the digits by SGD with momentum 0.9, and gives the loss of every step."""
    x, y, _, _ = digits()
    g = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, weight_decay=decay)
    model.train()
    losses: list[float] = []
    rows = torch.randperm(len(x), generator=g)
    for _ in range(steps):
        if len(rows) < batch:
            rows = torch.randperm(len(x), generator=g)
        now, rows = rows[:batch], rows[batch:]
        loss = F.cross_entropy(model(x[now]), y[now])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@torch.no_grad()
def accuracy(model: nn.Module, batch: int | None = None) -> float:
    """Share of the 397 test images that are labelled correctly.

    Args:
        batch: None evaluates with the running statistics; a number uses the statistics of test
            batches of this size. The model is left as it was.
    """
    _, _, x, y = digits()
    judged = copy.deepcopy(model)
    judged.train(batch is not None)
    parts = x.split(batch or len(x))
    if batch and len(parts[-1]) < batch:
        parts = parts[:-1]
    found = torch.cat([judged(part) for part in parts]).argmax(1)
    return (found == y[: len(found)]).float().mean().item()


def lag(momentum: float | None, checks: list[int], seed: int = 0) -> list[tuple[float, float]]:
    """Accuracy with running and with batch statistics after some numbers of steps."""
    torch.manual_seed(seed)
    model = mlp("BatchNorm", 3, momentum=momentum)
    found, done = [], 0
    for check in checks:
        fit(model, lr=0.05, batch=64, steps=check - done, seed=seed + check)
        done = check
        found.append((accuracy(model), accuracy(model, 64)))
    return found


def first_and_last_gradient(
    norm: str, depth: int, residual: bool = False, width: int = 128, seed: int = 0
) -> tuple[float, float]:
    """Gradient norms of the first and the last weight of a fresh ReLU network, batch 128."""
    g = torch.Generator().manual_seed(seed)
    weights = [
        (torch.randn(width, width, generator=g) * (2 / width) ** 0.5).requires_grad_()
        for _ in range(depth)
    ]
    x = torch.randn(128, width, generator=g)
    labels = torch.randint(0, 10, (128,), generator=g)
    head = torch.randn(width, 10, generator=g) / width**0.5
    for w in weights:
        h = x @ w
        if norm == "BatchNorm":
            h = F.batch_norm(h, None, None, training=True)
        elif norm == "LayerNorm":
            h = F.layer_norm(h, (width,))
        x = x + torch.relu(h) if residual else torch.relu(h)
    loss = F.cross_entropy(x @ head, labels)
    first, last = torch.autograd.grad(loss, [weights[0], weights[-1]])
    return first.norm().item(), last.norm().item()


def weight_norms(decay: float, steps: int = 300, seed: int = 0) -> tuple[list[float], list[float]]:
    """Norm of the first weight of a BatchNorm network, and how far a step turns it, in degrees."""
    torch.manual_seed(seed)
    model = mlp("BatchNorm", 3)
    norms, turns = [], []
    for step in range(steps // 20):
        before = model[0].weight.detach().clone()
        fit(model, lr=0.1, batch=64, steps=20, seed=seed + step, decay=decay)
        after = model[0].weight.detach()
        norms.append(after.norm().item())
        cosine = F.cosine_similarity(before.flatten(), after.flatten(), 0).clamp(-1, 1)
        turns.append(torch.rad2deg(torch.acos(cosine)).item())
    return norms, turns


def after_dropout(p: float, rows: int = 200_000, seed: int = 0) -> tuple[float, float, float]:
    """Dropout before BatchNorm: the variance BatchNorm sees in training, and in evaluation.

    Returns:
        the running variance (training), the variance of the input in evaluation, and the standard
        deviation of BatchNorm's output in evaluation.
    """
    g = torch.Generator().manual_seed(seed)
    x = torch.relu(torch.randn(rows, 1, generator=g))  # what a ReLU hands on
    torch.manual_seed(seed)
    norm = nn.BatchNorm1d(1, momentum=1.0)
    norm(F.dropout(x, p, training=True))
    y = norm.eval()(x)
    return norm.running_var.item(), x.var().item(), y.std().item()


def batch_renorm(
    x: Tensor, running_mean: Tensor, running_var: Tensor, r_max: float, d_max: float, eps: float
) -> Tensor:
    """Batch renormalization of x (N, C) in training, with running statistics as corrections."""
    mean, var = x.mean(0), x.var(0, correction=0)
    std, running_std = torch.sqrt(var + eps), torch.sqrt(running_var + eps)
    r = (std / running_std).detach().clamp(1 / r_max, r_max)
    d = ((mean - running_mean) / running_std).detach().clamp(-d_max, d_max)
    return (x - mean) / std * r + d
