"""The experiments of the chapter "Why BatchNorm works".

The page prints their numbers; `tests/claims/test_why_batchnorm_works.py` asserts the effects. All
are seeded, run on one CPU core and take at most a few seconds. The sweep that takes minutes is
`python -m book.experiments.why_batchnorm_works_sweep`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .layernorm import digits

NORMS: dict[str, Callable[[int], nn.Module]] = {
    "none": lambda width: nn.Identity(),
    "BatchNorm": nn.BatchNorm1d,
    "LayerNorm": nn.LayerNorm,
}
ACTIVATIONS = {"ReLU": nn.ReLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid}
GAINS = {"ReLU": 2**0.5, "tanh": 1.0, "sigmoid": 1.0}


class MovingNoise(nn.Module):
    """In training, shifts and stretches every unit by random amounts that are new in each step.

    Attributes:
        size: with size 1 the shifts are uniform in -0.5 to 0.5 and the factors in 1 to 1.25. Around
            these, which are the unit's own for the step, every sample gets a little of its own.
    """

    def __init__(self, size: float) -> None:
        super().__init__()
        self.size = size

    def forward(self, x: Tensor) -> Tensor:
        """x (N, D), and the output too."""
        if not self.training:
            return x
        shift = self.size * (torch.rand(1, x.shape[1]) - 0.5)
        factor = 1 + 0.25 * self.size * torch.rand(1, x.shape[1])
        shift = shift + 0.1 * self.size * (2 * torch.rand_like(x) - 1)
        factor = factor + 0.1 * self.size * torch.randn_like(x)
        return factor * x + shift


def network(
    norm: str, activation: str = "ReLU", layers: int = 8, noise: float = 0.0, width: int = 64
) -> nn.Sequential:
    """`layers` times linear, norm, noise if any, activation; then a linear head for ten classes."""
    parts: list[nn.Module] = []
    for layer in range(layers):
        linear = nn.Linear(64 if layer == 0 else width, width)
        nn.init.normal_(linear.weight, std=GAINS[activation] / linear.in_features**0.5)
        nn.init.zeros_(linear.bias)
        parts += [linear, NORMS[norm](width)]
        parts += [MovingNoise(noise)] if noise else []
        parts += [ACTIVATIONS[activation]()]
    return nn.Sequential(*parts, nn.Linear(width, 10))


def batches(seed: int, size: int, steps: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Random batches of the training digits, each image once per epoch; the last ones are cut."""
    x, y, _, _ = digits()
    g = torch.Generator().manual_seed(seed)
    rows = torch.randperm(len(x), generator=g)
    for _ in range(steps):
        if len(rows) < size:
            rows = torch.randperm(len(x), generator=g)
        now, rows = rows[:size], rows[size:]
        yield x[now], y[now]


def fit(
    model: nn.Module,
    *,
    lr: float,
    steps: int,
    momentum: float = 0.9,
    batch: int = 64,
    seed: int = 0,
    watch: Callable[[int, Tensor, Tensor], None] | None = None,
) -> list[float]:
    """Trains by SGD and gives the loss of every step. `watch` is called before every step."""
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=lr, momentum=momentum)
    losses = []
    model.train()
    for step, (x, y) in enumerate(batches(seed, batch, steps)):
        if watch is not None:
            watch(step, x, y)
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@torch.no_grad()
def accuracy(model: nn.Module) -> float:
    """Share of the 397 test images that are labelled correctly, in evaluation mode."""
    _, _, x, y = digits()
    found = model.eval()(x).argmax(1)
    model.train()
    return (found == y).float().mean().item()


@contextmanager
def kept(model: nn.Module) -> Iterator[None]:
    """Puts parameters and running statistics back as they were."""
    before = copy.deepcopy(model.state_dict())
    try:
        yield
    finally:
        model.load_state_dict(before)


# -- distributions that move -----------------------------------------------------------------------


def received(model: nn.Sequential, layer: int, x: Tensor) -> Tensor:
    """What linear layer number `layer` (from 0) receives in training mode for the images x."""
    seen = -1
    with torch.no_grad():
        for part in model:
            seen += isinstance(part, nn.Linear)
            if seen == layer:
                return x
            if isinstance(part, nn.BatchNorm1d):  # leaves the running statistics alone
                x = F.batch_norm(x, None, None, part.weight, part.bias, True, 0.0, part.eps)
            else:
                x = part(x)
    raise ValueError(f"the model has no linear layer {layer}")


def train_and_watch(
    norm: str,
    noise: float = 0.0,
    activation: str = "tanh",
    *,
    layers: int = 8,
    lr: float = 0.03,
    steps: int = 200,
    seed: int = 0,
    layer: int = 4,
) -> tuple[list[float], Tensor, float]:
    """Training, and the drift of the inputs of one layer on the same 256 images.

    Returns:
        losses: the loss of every step.
        means: (steps, width), the mean of each unit that the layer receives.
        drift: the mean move of a unit's mean in one step, in units of its standard deviation.
    """
    torch.manual_seed(seed)
    model = network(norm, activation, layers, noise)
    images = digits()[0][:256]
    means, stds = [], []

    def watch(step: int, x: Tensor, y: Tensor) -> None:
        h = received(model, layer, images)
        means.append(h.mean(0))
        stds.append(h.std(0))

    losses = fit(model, lr=lr, steps=steps, seed=seed, watch=watch)
    mean, std = torch.stack(means), torch.stack(stds)
    moves = mean.diff(dim=0).abs() / std[:-1].clamp(min=1e-3)
    return losses, mean, moves.mean().item()


def steps_to(losses: list[float], goal: float) -> int:
    """The first step at which the mean of the last ten losses is below the goal; else how many."""
    for step in range(10, len(losses) + 1):
        if sum(losses[step - 10 : step]) / 10 < goal:
            return step
    return len(losses)


def gradient_of(model: nn.Module, x: Tensor, y: Tensor) -> tuple[float, list[Tensor]]:
    loss = F.cross_entropy(model(x), y)
    return loss.item(), list(torch.autograd.grad(loss, list(model.parameters())))


def shift_of_gradients(
    norm: str, activation: str = "ReLU", *, lr: float = 0.05, layers: int = 6, steps: int = 60,
    seed: int = 0,
) -> tuple[float, float, float]:  # fmt: skip
    """Internal covariate shift as a change of gradients, at the middle layer, and the last loss.

    Every other step: the gradient g of one layer's weight; then the layers before it take their
    step, on the same batch; then the gradient g' of the same, unchanged weight.

    Returns:
        relative: mean of |g' - g| / |g|.
        cosine: mean cosine of g' and g.
        loss: mean training loss of the last ten steps.
    """
    torch.manual_seed(seed)
    model = network(norm, activation, layers)
    linears = [part for part in model if isinstance(part, nn.Linear)]
    watched = linears[layers // 2].weight
    names = list(model.parameters())
    position = next(i for i, p in enumerate(names) if p is watched)
    relative, cosines = [], []

    def watch(step: int, x: Tensor, y: Tensor) -> None:
        if step % 2:
            return
        with kept(model):
            _, gradients = gradient_of(model, x, y)
            with torch.no_grad():
                for p, g in list(zip(names, gradients, strict=True))[:position]:
                    p -= lr * g
            _, moved = gradient_of(model, x, y)
        before, after = gradients[position].flatten(), moved[position].flatten()
        relative.append(((after - before).norm() / before.norm()).item())
        cosines.append(F.cosine_similarity(before, after, dim=0).item())

    losses = fit(model, lr=lr, momentum=0.0, steps=steps, batch=128, seed=seed, watch=watch)
    n = len(relative)
    return sum(relative) / n, sum(cosines) / n, sum(losses[-10:]) / 10


# -- along the gradient ----------------------------------------------------------------------------

STEPS = (0.05, 0.1, 0.2, 0.4)


def along_the_gradient(
    norm: str, *, scale: float = 1.0, lr: float = 0.01, steps: int = 150, every: int = 10,
    layers: int = 8, seed: int = 0,
) -> tuple[list[int], Tensor, Tensor, Tensor]:  # fmt: skip
    """Looks ahead along the gradient while a ReLU network trains.

    scale: multiplies the first weights of all layers in front of a norm.

    Returns:
        at: the steps at which it looked, K of them.
        losses: (K, 1 + 4), the loss at distance 0 and at the four distances STEPS * gradient.
        changes: (K, 4), the l2 distance of the gradients there to the gradient at 0.
        smoothness: (K,), the largest distance of the gradients divided by the distance walked.
    """
    torch.manual_seed(seed)
    model = network(norm, layers=layers)
    with torch.no_grad():
        for part in model[:-1]:
            if isinstance(part, nn.Linear):
                part.weight *= scale
    at, losses, changes, smoothness = [], [], [], []

    def watch(step: int, x: Tensor, y: Tensor) -> None:
        if step % every:
            return
        loss, gradient = gradient_of(model, x, y)
        norm_of_it = sum(g.square().sum() for g in gradient).sqrt().item()
        row, change = [loss], []
        for size in STEPS:
            with kept(model):
                with torch.no_grad():
                    for p, g in zip(model.parameters(), gradient, strict=True):
                        p -= size * g
                there, other = gradient_of(model, x, y)
            row.append(there)
            pairs = zip(gradient, other, strict=True)
            change.append(sum((a - b).square().sum() for a, b in pairs).sqrt().item())
        at.append(step)
        losses.append(row)
        changes.append(change)
        ratios = [c / (size * norm_of_it) for c, size in zip(change, STEPS, strict=True)]
        smoothness.append(max(ratios))

    fit(model, lr=lr, steps=steps, batch=128, seed=seed, watch=watch)
    return at, torch.tensor(losses), torch.tensor(changes), torch.tensor(smoothness)


def curvature(norm: str, scale: float, layers: int = 3, seed: int = 0) -> float:
    """How fast the gradient changes, per distance walked along it, at a fresh network.

    Only the weights in front of the norms move, by a tiny step, in float64.
    scale: multiplies these weights.
    """
    torch.manual_seed(seed)
    model = network(norm, "tanh", layers).double()
    weights = [part.weight for part in model[:-1] if isinstance(part, nn.Linear)]
    for part in model:
        if isinstance(part, nn.BatchNorm1d):
            part.eps = 1e-30  # with eps the invariance is only nearly exact
    x, y, _, _ = digits()
    x, y = x[:128].double(), y[:128]
    with torch.no_grad():
        for weight in weights:
            weight *= scale
    before = torch.autograd.grad(F.cross_entropy(model(x), y), weights)
    length = sum(g.square().sum() for g in before).sqrt()
    step = 1e-6 * scale / length
    with torch.no_grad():
        for weight, g in zip(weights, before, strict=True):
            weight -= step * g
    after = torch.autograd.grad(F.cross_entropy(model(x), y), weights)
    pairs = zip(before, after, strict=True)
    return (sum((a - b).square().sum() for a, b in pairs).sqrt() / (step * length)).item()


# -- learning rates, scale, depth ------------------------------------------------------------------


def last_loss(norm: str, lr: float, *, activation: str = "ReLU", layers: int = 8, steps: int = 120,
              noise: float = 0.0, seed: int = 0) -> float:  # fmt: skip
    """Mean training loss of the last ten steps; NaN where the training blew up."""
    torch.manual_seed(seed)
    losses = fit(network(norm, activation, layers, noise), lr=lr, steps=steps, seed=seed)
    return sum(losses[-10:]) / 10


def largest_rate(norm: str, rates: tuple[float, ...], **settings) -> float:
    """The largest of the rates at which the loss falls below 1; 0 where none does."""
    return max((lr for lr in rates if last_loss(norm, lr, **settings) < 1.0), default=0.0)


def own_rates(
    norm: str, rate: float, *, layers: int = 3, steps: int = 150, seed: int = 0
) -> tuple[float, float, float]:
    """Plain SGD with a rate of its own for the weights in front of the norms; 0.1 for the rest.

    Returns:
        the mean loss of the last ten steps, and the norm of the first weight before and after.
    """
    torch.manual_seed(seed)
    model = network(norm, layers=layers)
    invariant = [part.weight for part in model[:-1] if isinstance(part, nn.Linear)]
    others = [p for p in model.parameters() if all(p is not w for w in invariant)]
    groups = [{"params": invariant, "lr": rate}, {"params": others, "lr": 0.1}]
    optimizer = torch.optim.SGD(groups)
    before, losses = invariant[0].norm().item(), []
    for x, y in batches(seed, 64, steps):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return sum(losses[-10:]) / 10, before, invariant[0].norm().item()


def gradient_ratio(norm: str, depth: int, activation: str = "ReLU", seed: int = 0) -> float:
    """Gradient of the first over that of the last weight of a fresh plain network, 128 wide."""
    torch.manual_seed(seed)
    model = network(norm, activation, depth, width=128)
    x, y, _, _ = digits()
    loss = F.cross_entropy(model(x[:128]), y[:128])
    weights = [part.weight for part in model[:-1] if isinstance(part, nn.Linear)]
    first, last = torch.autograd.grad(loss, (weights[1], weights[-1]))
    return (first.norm() / last.norm()).item()


def branch_share(norm: str, blocks: int = 32, width: int = 128, seed: int = 0) -> list[float]:
    """Share of the variance that each block x + branch(x) of a fresh network adds.

    The branch is norm, linear with He weights, ReLU, linear.
    """
    g = torch.Generator().manual_seed(seed)
    x, shares = torch.randn(256, width, generator=g), []
    for _ in range(blocks):
        first, second = (torch.randn(width, width, generator=g) / width**0.5 for _ in range(2))
        h = F.batch_norm(x, None, None, training=True) if norm == "BatchNorm" else x
        branch = torch.relu(2**0.5 * h @ first) @ second
        shares.append((branch.var() / (x + branch).var()).item())
        x = x + branch
    return shares


# -- noise, and gamma and beta alone ---------------------------------------------------------------


def few_images(norm: str, batch: int, dropout: float = 0.0, *, steps: int = 300, images: int = 200,
               seed: int = 0) -> tuple[float, float]:  # fmt: skip
    """Test accuracy, and accuracy on the training images, after training on a few images."""
    x, y, _, _ = digits()
    torch.manual_seed(seed)
    plain = network(norm, layers=3)
    model = nn.Sequential(*plain[:-1], nn.Dropout(dropout), plain[-1])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    for _ in range(steps):
        rows = torch.randperm(images)[:batch]
        loss = F.cross_entropy(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        seen = (model.eval()(x[:images]).argmax(1) == y[:images]).float().mean().item()
    return accuracy(model), seen


def only(what: str, *, layers: int = 6, width: int = 64, steps: int = 300, seed: int = 0) -> float:
    """Test accuracy when a part of a BatchNorm network is trained, all else stays random.

    what: "gamma and beta"; "nothing"; or "as many weights", as many entries of the weight
        matrices as there are gammas and betas, chosen at random.
    """
    torch.manual_seed(seed)
    model = network("BatchNorm", layers=layers, width=width)
    norms = [part for part in model if isinstance(part, nn.BatchNorm1d)]
    linears = [part for part in model if isinstance(part, nn.Linear)]
    model.requires_grad_(False)
    if what == "gamma and beta":
        for norm in norms:
            norm.requires_grad_(True)
    if what == "as many weights":
        share = 2 * layers * width / sum(linear.weight.numel() for linear in linears)
        for linear in linears:
            chosen = (torch.rand_like(linear.weight) < share).float()
            linear.weight.requires_grad_(True)
            linear.weight.register_hook(lambda g, chosen=chosen: g * chosen)
    if what == "nothing":
        with torch.no_grad():
            for x, _ in batches(seed, 64, 50):
                model(x)
        return accuracy(model)
    fit(model, lr=0.1, steps=steps, seed=seed)
    return accuracy(model)
