"""The experiments of the LayerNorm chapter that are too long for a cell.

The page prints their numbers; `tests/claims/test_layernorm.py` asserts the effects. All are seeded,
run on one CPU core and take a few seconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode


def residual_stream(
    depth: int, width: int, norm: bool, seed: int = 0
) -> tuple[list[float], list[float]]:
    """Mean squares in a fresh stack of `depth` blocks x + mlp(norm(x)), 256 random rows.

    Returns:
        stream: the mean square of x before the first and after every block, depth + 1 numbers.
        seen: the mean square of what each block's mlp receives, depth numbers.
    """
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(256, width, generator=g)
    stream, seen = [x.square().mean().item()], []
    for _ in range(depth):
        w1 = torch.randn(width, 4 * width, generator=g) * (2 / width) ** 0.5  # He
        w2 = torch.randn(4 * width, width, generator=g) * (1 / (2 * width)) ** 0.5  # He
        h = F.layer_norm(x, (width,)) if norm else x
        seen.append(h.square().mean().item())
        x = x + torch.relu(h @ w1) @ w2
        stream.append(x.square().mean().item())
    return stream, seen


def layer_norm_in_own_dtype(x: Tensor) -> Tensor:
    """LayerNorm of (..., D), every step in the dtype of x: what half precision does not forgive."""
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()


@cache
def digits() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """scikit-learn's 8 x 8 digits: training images (1400, 64), labels, test images, labels."""
    data = load_digits()
    x = torch.tensor(data.data, dtype=torch.float32) / 16
    y = torch.tensor(data.target)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    x, y = x[order], y[order]
    return x[:1400], y[:1400], x[1400:], y[1400:]


class StoppedLayerNorm(nn.Module):
    """LayerNorm, right in the forward pass, that may stop the gradients of its statistics."""

    def __init__(self, width: int, stop_mean: bool, stop_var: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.stop_mean, self.stop_var = stop_mean, stop_var

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean(-1, keepdim=True)
        var = x.var(-1, correction=0, keepdim=True)
        mean = mean.detach() if self.stop_mean else mean
        var = var.detach() if self.stop_var else var
        return (x - mean) * torch.rsqrt(var + 1e-5) * self.weight + self.bias


NORMS: dict[str, Callable[[int], nn.Module]] = {
    "none": lambda width: nn.Identity(),
    "LayerNorm": nn.LayerNorm,
    "BatchNorm": nn.BatchNorm1d,
    "mean stopped": lambda width: StoppedLayerNorm(width, True, False),
    "variance stopped": lambda width: StoppedLayerNorm(width, False, True),
    "both stopped": lambda width: StoppedLayerNorm(width, True, True),
}


def mlp(norm: str, layers: int, width: int = 64) -> nn.Sequential:
    """`layers` times linear, norm, ReLU, with He weights, and a linear head for ten classes."""
    parts: list[nn.Module] = []
    for layer in range(layers):
        linear = nn.Linear(64 if layer == 0 else width, width)
        nn.init.kaiming_normal_(linear.weight, nonlinearity="relu")
        nn.init.zeros_(linear.bias)
        parts += [linear, NORMS[norm](width), nn.ReLU()]
    return nn.Sequential(*parts, nn.Linear(width, 10))


class Block(nn.Module):
    """Half a Transformer block: x + linear(relu(linear(norm(x)))), with He weights."""

    def __init__(self, norm: str, width: int) -> None:
        super().__init__()
        self.norm = NORMS[norm](width)
        self.wide, self.back = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        for linear in (self.wide, self.back):
            nn.init.kaiming_normal_(linear.weight, nonlinearity="relu")
            nn.init.zeros_(linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.back(torch.relu(self.wide(self.norm(x))))


def residual_mlp(norm: str, layers: int, width: int = 64) -> nn.Sequential:
    """`layers` residual blocks, a last norm and a linear head for ten classes."""
    blocks = [Block(norm, width) for _ in range(layers)]
    return nn.Sequential(*blocks, NORMS[norm](width), nn.Linear(width, 10))


def train(
    norm: str, *, layers: int, lr: float, epochs: int, seed: int = 0, residual: bool = False
) -> tuple[nn.Sequential, list[float]]:
    """Trains `mlp` or `residual_mlp` on the digits: SGD, momentum 0.9, batches of 64.

    Returns:
        the model in evaluation mode, and the mean loss of every epoch, up to the first NaN.
    """
    torch.manual_seed(seed)
    x, y, _, _ = digits()
    model = (residual_mlp if residual else mlp)(norm, layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    losses = []
    for _ in range(epochs):
        total = 0.0
        batches = torch.randperm(len(x)).split(64)
        for batch in batches:
            loss = F.cross_entropy(model(x[batch]), y[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        losses.append(total / len(batches))
        if losses[-1] != losses[-1]:  # NaN does not come back
            break
    return model.eval(), losses


def contrast_accuracy(norm: str, contrasts: list[float], seed: int = 0) -> list[float]:
    """Test accuracy of a 3-layer mlp when the test images are multiplied by a factor."""
    model, _ = train(norm, layers=3, lr=0.03, epochs=15, seed=seed)
    _, _, x, y = digits()
    with torch.no_grad():
        return [(model(c * x).argmax(1) == y).float().mean().item() for c in contrasts]


class OperatorCount(TorchDispatchMode):
    """Counts the ATen operators that run inside a `with` block, by name."""

    def __init__(self) -> None:
        super().__init__()
        self.names: Counter[str] = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names[func.__name__.split(".")[0]] += 1
        return func(*args, **(kwargs or {}))
