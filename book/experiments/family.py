"""Experiments of the chapter on the family of norms that are too long for a cell.

The page prints their numbers; `tests/claims/test_family.py` asserts the effects. All are seeded and
run on one CPU core in seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional as F

from solutions.family import family as reference


@cache
def digits() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """scikit-learn's digits: training images (1400, 1, 8, 8), labels, test images, labels."""
    data = load_digits()
    x = torch.tensor(data.images, dtype=torch.float32)[:, None] / 16
    y = torch.tensor(data.target)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    x, y = x[order], y[order]
    return x[:1400], y[:1400], x[1400:], y[1400:]


class StandardizedConv(nn.Conv2d):
    """A convolution whose weight is standardized each time it is used."""

    def forward(self, x: Tensor) -> Tensor:
        w = reference.standardize_weight(self.weight, 1e-5)
        return F.conv2d(x, w / w[0].numel() ** 0.5, self.bias, padding=self.padding)


NORMS: dict[str, Callable[[int], nn.Module]] = {
    "none": lambda c: nn.Identity(),
    "BatchNorm": nn.BatchNorm2d,
    "LayerNorm": lambda c: nn.GroupNorm(1, c),  # over (C, H, W), one weight per channel
    "GroupNorm": lambda c: nn.GroupNorm(4, c),
    "InstanceNorm": lambda c: nn.GroupNorm(c, c),
    "Switchable": reference.SwitchableNorm2d,
}


def cnn(norm: str, standardized: bool = False) -> nn.Sequential:
    """Three convolutions of 16, 32 and 32 channels with norm and ReLU, pooling, a linear head."""
    conv = StandardizedConv if standardized else nn.Conv2d
    layers: list[nn.Module] = []
    for c_in, c_out in ((1, 16), (16, 32), (32, 32)):
        layers += [conv(c_in, c_out, 3, padding=1), NORMS[norm](c_out), nn.ReLU()]
        if c_out == 32 and c_in == 16:
            layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.AdaptiveMaxPool2d(2), nn.Flatten(), nn.Linear(128, 10))


def train(
    norm: str,
    *,
    batch: int,
    steps: int,
    lr: float,
    seed: int = 0,
    standardized: bool = False,
) -> tuple[nn.Sequential, list[float]]:
    """Trains `cnn` on the digits: SGD with momentum 0.9.

    Returns:
        the model in evaluation mode, and the loss of every step.
    """
    torch.manual_seed(seed)
    x, y, _, _ = digits()
    model = cnn(norm, standardized)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    losses: list[float] = []
    while len(losses) < steps:
        for rows in torch.randperm(len(x)).split(batch)[: steps - len(losses)]:
            loss = F.cross_entropy(model(x[rows]), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return model.eval(), losses


@torch.no_grad()
def accuracy(model: nn.Module, change: Callable[[Tensor], Tensor] = lambda x: x) -> float:
    """The share of test images recognised after `change`."""
    _, _, x, y = digits()
    return (model(change(x)).argmax(1) == y).float().mean().item()


def shares(model: nn.Module) -> tuple[Tensor, Tensor]:
    """Shares of instance, layer, batch norm in each SwitchableNorm2d: means (L, 3), variances."""
    layers = [m for m in model if isinstance(m, reference.SwitchableNorm2d)]
    means = torch.stack([m.mean_weight.softmax(0) for m in layers])
    return means.detach(), torch.stack([m.var_weight.softmax(0) for m in layers]).detach()


class PowerNorm(nn.Module):
    """PowerNorm in the forward direction: divide each feature by a running quadratic mean.

    Nothing is subtracted, and training uses the running value of earlier batches, as evaluation
    does. (The paper's backward pass is an approximation of its own and is not here.)
    """

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float = 0.1) -> None:
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(num_features))
        self.bias = nn.Parameter(torch.zeros(num_features))
        self.register_buffer("running_square", torch.ones(num_features))

    def forward(self, x: Tensor) -> Tensor:  # (N, C)
        y = x * torch.rsqrt(self.running_square + self.eps) * self.weight + self.bias
        if self.training:
            with torch.no_grad():
                square = x.square().mean(0)
                self.running_square.mul_(1 - self.momentum).add_(self.momentum * square)
        return y


class SphereBlocks(nn.Module):
    """Blocks in the manner of nGPT: states and weight vectors of length 1.

    Each block moves the state a step along the sphere: h <- unit(h + a (unit(f(h)) - h)).
    """

    def __init__(self, depth: int, width: int, step: float = 0.1) -> None:
        super().__init__()
        self.into = nn.ParameterList(torch.randn(4 * width, width) for _ in range(depth))
        self.back = nn.ParameterList(torch.randn(4 * width, width) for _ in range(depth))
        self.step = nn.ParameterList(torch.full((width,), step) for _ in range(depth))
        self.head = nn.Parameter(torch.randn(10, width))
        self.scale = nn.Parameter(torch.tensor(10.0))  # for the logits, which lie in [-1, 1]
        self.project()

    @torch.no_grad()
    def project(self) -> None:
        """Back to the sphere, after every optimizer step. All vectors lie along the width."""
        for w in (*self.into, *self.back, self.head):
            w.copy_(F.normalize(w, dim=-1))

    def states(self, h: Tensor) -> list[Tensor]:
        """The state before the first and after every block."""
        found = [F.normalize(h, dim=-1)]
        width = h.shape[-1]
        for into, back, step in zip(self.into, self.back, self.step, strict=True):
            h = found[-1]
            f = torch.relu(width**0.5 * h @ into.t()) @ back
            found.append(F.normalize(h + step * (F.normalize(f, dim=-1) - h), dim=-1))
        return found

    def forward(self, h: Tensor) -> Tensor:
        return self.scale * self.states(h)[-1] @ self.head.t()


def train_on_the_sphere(steps: int, seed: int = 0) -> tuple[SphereBlocks, list[float]]:
    """SphereBlocks on the digits, Adam, batches of 64; the model and its losses."""
    torch.manual_seed(seed)
    x, y, _, _ = digits()
    x = x.flatten(1) - 0.5
    model = SphereBlocks(depth=6, width=64)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(steps):
        rows = torch.randint(len(x), (64,))
        loss = F.cross_entropy(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        model.project()
        losses.append(loss.item())
    return model, losses


def free_stream(
    depth: int, width: int, kind: str, alpha: float = 0.3, seed: int = 0
) -> list[float]:
    """Mean squares of the stream in `depth` fresh residual blocks without any activation norm.

    kind: "plain" is x + f(x) with He weights; "free" is x + alpha f(x / beta), with standardized,
    scaled weights and beta the predicted standard deviation of the stream, as normalizer-free
    networks do. f is linear, ReLU (scaled to keep a variance of 1 in "free"), linear.
    """
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(256, width, generator=g)
    found, expected = [x.square().mean().item()], 1.0
    gain = (2 / (1 - 1 / torch.pi)) ** 0.5  # ReLU of a standard normal has variance (1 - 1/π) / 2
    for _ in range(depth):
        w1 = torch.randn(4 * width, width, generator=g) * (2 / width) ** 0.5
        w2 = torch.randn(width, 4 * width, generator=g) * (2 / (4 * width)) ** 0.5
        if kind == "plain":
            x = x + torch.relu(x @ w1.t()) @ w2.t()
        else:
            w1, w2 = (reference.standardize_weight(w, 1e-12) / w.shape[1] ** 0.5 for w in (w1, w2))
            f = gain * torch.relu(x / expected**0.5 @ w1.t()) @ w2.t()
            x, expected = x + alpha * f, expected + alpha**2
        found.append(x.square().mean().item())
    return found


def clip_adaptively(grad: Tensor, weight: Tensor, limit: float, eps: float = 1e-3) -> Tensor:
    """Adaptive gradient clipping: a row of grad is at most `limit` times as long as its weights."""
    longest = limit * weight.flatten(1).norm(dim=1).clamp(min=eps)
    length = grad.flatten(1).norm(dim=1)
    factor = (longest / length.clamp(min=1e-6)).clamp(max=1)
    return grad * factor.reshape(-1, *[1] * (grad.dim() - 1))
