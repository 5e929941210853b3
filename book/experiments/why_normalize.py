"""The experiments of the chapter "Why normalize".

The page prints their numbers; `tests/claims/test_why_normalize.py` asserts the effects. All are
seeded, run on one CPU core and take at most a few seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .layernorm import digits

# -- the shape of the loss -------------------------------------------------------------------------


def descend(curvatures: Sequence[float], start: Sequence[float], lr: float, steps: int) -> Tensor:
    """Gradient descent on the sum of curvature * w² / 2: all points, (steps + 1, 2)."""
    c, w = torch.tensor(curvatures).double(), torch.tensor(start).double()
    path = [w]
    for _ in range(steps):
        w = w - lr * c * w
        path.append(w)
    return torch.stack(path)


def two_features(
    scales: tuple[float, float] = (1.0, 100.0), correlation: float = 0.0, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """200 samples of two features, (200, 2), and a target to which both independent parts matter.

    The second feature is a mixture of the first and of one independent of it.
    """
    g = torch.Generator().manual_seed(seed)
    a, b = torch.randn(200, 2, generator=g, dtype=torch.float64).T
    x = torch.stack([a, correlation * a + (1 - correlation**2) ** 0.5 * b], 1)
    return x * torch.tensor(scales, dtype=torch.float64), a + b


def steps_to_fit(x: Tensor, y: Tensor, optimizer: str = "gradient descent") -> tuple[int, float]:
    """Steps until a linear model's error has fallen to 0.1 %, and the condition number.

    The loss is the mean of squares / 2, without noise; its curvature is the matrix x.T @ x / N.
    Gradient descent gets the best constant learning rate there is, Adam the best of five.
    """
    x, y = x - x.mean(0), y - y.mean()
    curvature = x.T @ x / len(x)
    values, axes = torch.linalg.eigh(curvature)
    condition = (values[-1] / values[0]).item()
    best = torch.linalg.solve(curvature, x.T @ y / len(x))
    if optimizer == "Adam":
        rates = (0.3, 0.1, 0.03, 0.01, 0.003)
        return min(
            _adam_steps(curvature.tolist(), best.tolist(), rate) for rate in rates
        ), condition
    # Along each eigenvector a step multiplies the error by the same factor, so no loop is needed.
    factor = 1 - 2 / (values[0] + values[-1]) * values
    steps = torch.arange(100_000, dtype=torch.float64)
    error = (factor.abs() ** steps[:, None] * (axes.T @ best)).square() @ values
    return int((error.sqrt() > 1e-3 * error[0].sqrt()).sum()), condition


def _adam_steps(curvature: list[list[float]], best: list[float], rate: float) -> int:
    """As above for two weights that start at 0, in plain numbers; 3000 steps at most."""
    (a, b), (_, d) = curvature

    def size(e: list[float]) -> float:
        return (a * e[0] ** 2 + 2 * b * e[0] * e[1] + d * e[1] ** 2) ** 0.5

    error, m, v = [-w for w in best], [0.0, 0.0], [0.0, 0.0]
    goal = 1e-3 * size(error)
    for step in range(1, 3001):
        gradient = (a * error[0] + b * error[1], b * error[0] + d * error[1])
        for i, g in enumerate(gradient):
            m[i], v[i] = 0.9 * m[i] + 0.1 * g, 0.999 * v[i] + 0.001 * g * g
            root = (v[i] / (1 - 0.999**step)) ** 0.5 + 1e-8
            error[i] -= rate * m[i] / (1 - 0.9**step) / root
        if size(error) <= goal:
            return step
    return 3000


# -- whitening -------------------------------------------------------------------------------------


def correlated(n: int = 400, seed: int = 0) -> Tensor:
    """A cloud of two features with correlation about 0.9 and different scales, (n, 2)."""
    g = torch.Generator().manual_seed(seed)
    a, b = torch.randn(2, n, generator=g, dtype=torch.float64)
    return torch.stack([2 + 2.7 * a, 1 + 0.8 * (0.9 * a + 0.44 * b)], 1)


# -- what depth does -------------------------------------------------------------------------------

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"ReLU": torch.relu, "tanh": torch.tanh}


def through_the_depth(
    activation: str, gain: float, depth: int, width: int = 256, seed: int = 0
) -> tuple[list[float], list[float]]:
    """Activations and gradients of a fresh network of `depth` layers, gain / sqrt(width) weights.

    Returns:
        stds: the standard deviation of the activations after each layer.
        gradients: the root mean square of the loss's gradient at the same places; the loss is a
            random weighted sum of the last layer.
    """
    g = torch.Generator().manual_seed(seed)
    h = torch.randn(128, width, generator=g, dtype=torch.float64)
    layers = []
    for _ in range(depth):
        weight = gain / width**0.5 * torch.randn(width, width, generator=g, dtype=torch.float64)
        h = ACTIVATIONS[activation](h @ weight.T).requires_grad_()
        layers.append(h)
    loss = (h * torch.randn(128, width, generator=g, dtype=torch.float64)).sum()
    gradients = torch.autograd.grad(loss, layers)
    return [a.std().item() for a in layers], [d.square().mean().sqrt().item() for d in gradients]


def flat_share(activation: str, gain: float, depth: int, width: int = 256, seed: int = 0) -> float:
    """Share of the units of the last layer whose activation has a slope below 0.1."""
    g = torch.Generator().manual_seed(seed)
    h = torch.randn(128, width, generator=g, dtype=torch.float64)
    for _ in range(depth):
        weight = gain / width**0.5 * torch.randn(width, width, generator=g, dtype=torch.float64)
        h = ACTIVATIONS[activation](h @ weight.T)
    flat = 1 - h.square() < 0.1 if activation == "tanh" else h == 0
    return flat.double().mean().item()


def gradient_ratio(norm: str, depth: int, residual: bool = False, seed: int = 0) -> float:
    """Gradient of the first weight over that of the last, ReLU, He weights, width 128."""
    g = torch.Generator().manual_seed(seed)
    h, weights = torch.randn(128, 128, generator=g), []
    for _ in range(depth):
        weight = (torch.randn(128, 128, generator=g) * (2 / 128) ** 0.5).requires_grad_()
        weights.append(weight)
        z = h @ weight.T
        if norm == "LayerNorm":
            z = F.layer_norm(z, (128,))
        elif norm == "BatchNorm":
            z = F.batch_norm(z, None, None, training=True)
        h = h + torch.relu(z) if residual else torch.relu(z)
    loss = (h * torch.randn(128, 128, generator=g)).sum() / h.detach().norm()
    first, last = torch.autograd.grad(loss, (weights[0], weights[-1]))
    return (first.norm() / last.norm()).item()


# -- training --------------------------------------------------------------------------------------


def network(activation: str, gain: float, norm: str, layers: int, width: int = 64) -> nn.Sequential:
    """`layers` times linear, norm, activation, and a head; weights gain / sqrt(inputs)."""
    parts: list[nn.Module] = []
    for _ in range(layers):
        linear = nn.Linear(64 if not parts else width, width)
        nn.init.normal_(linear.weight, std=gain / linear.in_features**0.5)
        nn.init.zeros_(linear.bias)
        parts.append(linear)
        if norm != "none":
            parts.append({"LayerNorm": nn.LayerNorm, "BatchNorm": nn.BatchNorm1d}[norm](width))
        parts.append({"ReLU": nn.ReLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid}[activation]())
    return nn.Sequential(*parts, nn.Linear(width, 10))


def train(
    activation: str = "ReLU",
    gain: float = 2**0.5,
    norm: str = "none",
    *,
    layers: int = 8,
    lr: float = 0.01,
    epochs: int = 6,
    seed: int = 0,
    watch: Callable[[nn.Sequential, int], None] | None = None,
) -> tuple[nn.Sequential, list[float]]:
    """Trains `network` on the digits: SGD, momentum 0.9, batches of 64.

    watch: is called with the model and the number of the step after every step.

    Returns:
        the model in evaluation mode, and the mean loss of every epoch, up to the first NaN.
    """
    torch.manual_seed(seed)
    x, y, _, _ = digits()
    model = network(activation, gain, norm, layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    losses, step = [], 0
    for _ in range(epochs):
        total = 0.0
        batches = torch.randperm(len(x)).split(64)
        for batch in batches:
            loss = F.cross_entropy(model(x[batch]), y[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
            step += 1
            if watch is not None:
                watch(model, step)
        losses.append(total / len(batches))
        if losses[-1] != losses[-1]:  # NaN does not come back
            break
    return model.eval(), losses


def accuracy(model: nn.Sequential) -> float:
    """On the digits that were not trained on."""
    _, _, x, y = digits()
    with torch.no_grad():
        return (model(x).argmax(1) == y).float().mean().item()


def dead_share(model: nn.Sequential) -> float:
    """Share of the ReLU units that are 0 for each of the training images."""
    h, dead = digits()[0], []
    with torch.no_grad():
        for part in model:
            h = part(h)
            if isinstance(part, nn.ReLU):
                dead.append((h == 0).all(0))
    return torch.cat(dead).float().mean().item()


# -- distributions that move -----------------------------------------------------------------------


def inputs_of_layer(model: nn.Sequential, layer: int, x: Tensor) -> Tensor:
    """What linear layer number `layer` (from 0) receives for the images x."""
    seen = -1
    with torch.no_grad():
        for part in model:
            seen += isinstance(part, nn.Linear)
            if seen == layer:
                return x
            x = part(x)
    raise ValueError(f"the model has no linear layer {layer}")


def drift(activation: str = "tanh", lr: float = 0.03, seed: int = 0) -> tuple[float, Tensor]:
    """How far what the fifth of eight layers receives moves in training, on fixed images.

    Returns:
        per_step: the mean move of a unit's mean in one step, in units of its standard deviation.
        history: (steps, 2), mean and standard deviation of the unit that moves farthest.
    """
    x = digits()[0][:256]
    means, stds = [], []

    def watch(model: nn.Sequential, step: int) -> None:
        received = inputs_of_layer(model, 4, x)
        means.append(received.mean(0))
        stds.append(received.std(0))

    gain = 1.0 if activation == "tanh" else 2**0.5
    train(activation, gain, lr=lr, epochs=6, seed=seed, watch=watch)
    mean, std = torch.stack(means), torch.stack(stds)
    per_step = (mean.diff(dim=0).abs() / std[:-1].clamp(min=1e-3)).mean().item()
    farthest = int((mean.amax(0) - mean.amin(0)).argmax())
    return per_step, torch.stack([mean[:, farthest], std[:, farthest]], 1)


def linear_classifier(x: Tensor, y: Tensor) -> Callable[[Tensor], Tensor]:
    """Softmax regression, fitted until it hardly changes. Gives the labels of new images."""
    weight = torch.zeros(x.shape[1], 10, requires_grad=True)
    bias = torch.zeros(10, requires_grad=True)
    optimizer = torch.optim.LBFGS([weight, bias], max_iter=60)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(x @ weight + bias, y) + 1e-3 * weight.square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    return lambda images: (images @ weight + bias).argmax(1)


# -- what a norm throws away -----------------------------------------------------------------------


def label_in_the_rows(kind: str, rows: int, seed: int) -> tuple[Tensor, Tensor]:
    """Rows of width 16 with their own mean and scale, and a label that is their `kind`.

    kind: "scale" (larger or smaller than the median), "mean" (likewise), or "pattern" (whether the
    first number is larger than the second).
    """
    g = torch.Generator().manual_seed(seed)
    scale = torch.exp(torch.randn(rows, 1, generator=g))
    mean = 2 * torch.randn(rows, 1, generator=g)
    x = mean + scale * torch.randn(rows, 16, generator=g)
    label = {"scale": scale[:, 0] > 1, "mean": mean[:, 0] > 0, "pattern": x[:, 0] > x[:, 1]}[kind]
    return x, label.long()


def row_norm(x: Tensor, norm: str) -> Tensor:
    """The rows of x (N, D) after a norm without parameters."""
    if norm == "LayerNorm":
        return F.layer_norm(x, x.shape[-1:])
    if norm == "RMSNorm":
        return F.rms_norm(x, x.shape[-1:])
    if norm == "columns standardized":
        return (x - x.mean(0)) / x.std(0, correction=0)
    return x


def accuracy_after(norm: str, kind: str, seed: int = 0) -> float:
    """Test accuracy of a small network that reads the rows after the norm."""
    x, y = label_in_the_rows(kind, 4000, seed)
    x = row_norm(x, norm)
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(150):
        batch = torch.randint(2000, (128,))
        loss = F.cross_entropy(model(x[batch]), y[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        return (model(x[2000:]).argmax(1) == y[2000:]).float().mean().item()
