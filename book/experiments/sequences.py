"""The experiments of the chapter on BatchNorm and sequences that are too long for a cell.

The page prints their numbers; `tests/claims/test_sequences.py` asserts the effects. All are seeded
and run on one CPU core in seconds. The text is Python's own help on its language, which comes with
every Python; it differs a little between versions of Python, and so do the numbers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pydoc_data.topics import topics

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional as F

from solutions.sequences import sequences as reference

WIDTH, HEADS = 64, 4


# -- text and images -------------------------------------------------------------------------------


@cache
def text() -> str:
    return "\n".join(topics[name] for name in sorted(topics))


@cache
def sentences() -> list[str]:
    """The sentences of the text in their order, white space made single."""
    pieces = re.split(r"(?<=[.!?])\s+|\n\s*\n", text())
    return [s for s in (" ".join(p.split()) for p in pieces) if len(s) >= 10]


@cache
def words(vocabulary: int = 1000) -> Tensor:
    """The text as numbers of its `vocabulary` commonest words and signs; 0 stands for the rest."""
    tokens = re.findall(r"[A-Za-z_]+|\d|[^\w\s]", text())
    known = {w: i for i, (w, _) in enumerate(Counter(tokens).most_common(vocabulary - 1), start=1)}
    return torch.tensor([known.get(w, 0) for w in tokens])


@cache
def alphabet() -> dict[str, int]:
    """The number of each character; 0 is left for padding."""
    return {c: i for i, c in enumerate(sorted(set(text())), start=1)}


@cache
def digits() -> Tensor:
    """scikit-learn's digits, (1797, 1, 8, 8), in a random order."""
    images = torch.tensor(load_digits().images, dtype=torch.float32)[:, None] / 16
    return images[torch.randperm(len(images), generator=torch.Generator().manual_seed(0))]


def padded_batch(lines: list[str], longest: int = 250) -> tuple[Tensor, Tensor]:
    """Sentences as characters (B, L) with 0 for padding, and their mask (B, L)."""
    rows = [torch.tensor([alphabet()[c] for c in line[:longest]]) for line in lines]
    lengths = torch.tensor([len(row) for row in rows])
    batch = nn.utils.rnn.pad_sequence(rows, batch_first=True)
    return batch, reference.padding_mask(lengths, batch.shape[1])


def reach(lengths: Tensor, batch: int, positions: list[int], seed: int = 0) -> list[float]:
    """How many sentences of a random batch, on average, still have a token at each position."""
    g = torch.Generator().manual_seed(seed)
    rows = lengths[torch.randint(len(lengths), (2000, batch), generator=g)]
    return [(rows > p).sum(1).float().mean().item() for p in positions]


def explained_by_position(x: Tensor) -> float:
    """The share of the variance of x (N, L, D) that the mean of each position explains."""
    grand = x.mean((0, 1))
    between = (x.mean(0) - grand).square().mean()
    return (between / (x - grand).square().mean()).item()


# -- norms that may be told where the padding is ---------------------------------------------------


class TokenNorm(nn.Module):
    """A norm over (B, L, D), with `weight` and `bias`; `forward(x, mask)`, mask (B, L)."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(WIDTH)), nn.Parameter(torch.zeros(WIDTH))


class LayerNorm(TokenNorm):
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return F.layer_norm(x, (WIDTH,), self.weight, self.bias)


class BatchNorm(TokenNorm):
    """Pooled over all places (masked=False) or over the real tokens only (masked=True).

    `of_batch` makes evaluation use the statistics of the batch at hand, without remembering them.
    """

    of_batch = False

    def __init__(self, masked: bool) -> None:
        super().__init__()
        self.masked = masked
        self.register_buffer("mean", torch.zeros(WIDTH))
        self.register_buffer("var", torch.ones(WIDTH))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        if not self.masked:
            mask = torch.ones_like(mask)
        if not (self.training or self.of_batch):
            return (x - self.mean) * torch.rsqrt(self.var + 1e-5) * self.weight + self.bias
        if self.training:
            with torch.no_grad():
                mean, var = reference.masked_mean_var(x, mask)
                n = mask.sum()
                self.mean.lerp_(mean, 0.1)
                self.var.lerp_(var * n / (n - 1), 0.1)
        return reference.masked_batch_norm(x, mask, self.weight, self.bias, 1e-5)


class PowerFunction(torch.autograd.Function):
    """The normalization of PowerNorm and its approximate backward pass.

    forward: x (n, D) divided by the root of a running quadratic mean `square` (D,).
    backward: `nu` (D,) is a running value of mean(g x_hat); the gradient g loses nu x_hat. `nu` is
    updated in place.
    """

    @staticmethod
    def forward(ctx, x: Tensor, square: Tensor, nu: Tensor, eps: float, alpha: float) -> Tensor:
        scale = torch.rsqrt(square + eps)
        x_hat = x * scale
        ctx.save_for_backward(x_hat, scale)
        ctx.nu, ctx.alpha = nu, alpha
        return x_hat

    @staticmethod
    def backward(ctx, g: Tensor) -> tuple[Tensor, None, None, None, None]:
        x_hat, scale = ctx.saved_tensors
        grad_x = (g - ctx.nu * x_hat) * scale
        keep = 1 - (1 - ctx.alpha) * x_hat.square().mean(0)
        ctx.nu.mul_(keep).add_((1 - ctx.alpha) * (g * x_hat).mean(0))
        return grad_x, None, None, None, None


class PowerNorm(TokenNorm):
    """Divide each feature by a running quadratic mean of the real tokens; subtract nothing.

    The first batches count in full: the running value is their plain average, until the weight of
    the newest would fall below 1 - alpha.
    """

    def __init__(self, alpha: float = 0.9, eps: float = 1e-5) -> None:
        super().__init__()
        self.alpha, self.eps, self.steps = alpha, eps, 0
        self.register_buffer("square", torch.ones(WIDTH))
        self.register_buffer("nu", torch.zeros(WIDTH))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        tokens = x[mask]  # (n, D)
        if self.training:
            with torch.no_grad():
                new = tokens.square().mean(0)
            if self.steps == 0:
                self.square.copy_(new)
            tokens = PowerFunction.apply(tokens, self.square.clone(), self.nu, self.eps, self.alpha)
            self.steps += 1
            self.square.lerp_(new, max(1 / self.steps, 1 - self.alpha))
        else:
            tokens = tokens * torch.rsqrt(self.square + self.eps)
        y = torch.zeros_like(x)
        y[mask] = tokens * self.weight + self.bias
        return y


NORMS = {
    "LayerNorm": LayerNorm,
    "BatchNorm": lambda: BatchNorm(masked=False),
    "masked BatchNorm": lambda: BatchNorm(masked=True),
    "PowerNorm": PowerNorm,
}


# -- a small Transformer ---------------------------------------------------------------------------


class Block(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x)); attention looks back only."""

    def __init__(self, norm: str) -> None:
        super().__init__()
        self.norms = nn.ModuleList([NORMS[norm](), NORMS[norm]()])
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.ReLU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        b, length, _ = x.shape
        q, k, v = self.qkv(self.norms[0](x, mask)).view(b, length, 3, HEADS, -1).unbind(2)
        heads = [t.transpose(1, 2) for t in (q, k, v)]  # (B, heads, L, D / heads)
        mixed = F.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(b, length, WIDTH))
        return x + self.mlp(self.norms[1](x, mask))


class LanguageModel(nn.Module):
    """Predicts the next token. Padded places start as zeros."""

    def __init__(self, norm: str, vocabulary: int, layers: int = 2, longest: int = 250) -> None:
        super().__init__()
        self.token, self.place = (
            nn.Embedding(vocabulary, WIDTH),
            nn.Parameter(torch.randn(longest, WIDTH)),
        )
        self.blocks = nn.ModuleList(Block(norm) for _ in range(layers))
        self.norm, self.head = NORMS[norm](), nn.Linear(WIDTH, vocabulary)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        x = (self.token(tokens) + self.place[: tokens.shape[1]]) * mask.unsqueeze(-1)
        for block in self.blocks:
            x = block(x, mask)
        return self.head(self.norm(x, mask))


def loss_of(model: LanguageModel, batch: Tensor, mask: Tensor) -> Tensor:
    """Cross-entropy per real token that has a predecessor."""
    found = F.cross_entropy(
        model(batch[:, :-1], mask[:, :-1]).transpose(1, 2), batch[:, 1:], reduction="none"
    )
    return (found * mask[:, 1:]).sum() / mask[:, 1:].sum()


def split(longest: int = 250) -> tuple[list[str], list[str]]:
    """Sentences for training (nine in ten, up to `longest` characters) and for validation."""
    usable = [s for s in sentences() if len(s) <= longest]
    return [s for i, s in enumerate(usable) if i % 10], usable[::10]


def real_share(batch: int, count: int = 300, seed: int = 0) -> float:
    """The average share of real tokens in padded batches of training sentences."""
    g = torch.Generator().manual_seed(seed)
    lengths = torch.tensor([len(line) for line in split()[0]], dtype=torch.float32)
    rows = lengths[torch.randint(len(lengths), (count, batch), generator=g)]
    return (rows.mean(1) / rows.amax(1)).mean().item()


def frequencies_alone() -> float:
    """Loss of a model that knows how frequent each character is, and nothing else."""
    counts = torch.tensor(list(Counter("".join(split()[0])).values()), dtype=torch.float64)
    p = counts / counts.sum()
    return -(p * p.log()).sum().item()


def train_on_sentences(
    norm: str, steps: int, *, batch: int = 8, lr: float = 3e-3, seed: int = 0
) -> LanguageModel:
    """A character model trained on padded batches of random sentences with Adam."""
    torch.manual_seed(seed)
    model = LanguageModel(norm, len(alphabet()) + 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    lines, _ = split()
    for _ in range(steps):
        chosen = [lines[i] for i in torch.randint(len(lines), (batch,)).tolist()]
        loss = loss_of(model, *padded_batch(chosen))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


@torch.no_grad()
def validate(model: LanguageModel, count: int = 240, of_batch: bool = False) -> float:
    """Loss per character of validation sentences, each alone, so without any padding.

    of_batch: batch norms use the statistics of the single sentence instead of the running ones.
    """
    norms = [m for m in model.modules() if isinstance(m, BatchNorm)]
    for norm in norms:
        norm.of_batch = of_batch
    total, n = 0.0, 0
    for line in split()[1][:count]:
        batch, mask = padded_batch([line])
        total += loss_of(model, batch, mask).item() * (batch.shape[1] - 1)
        n += batch.shape[1] - 1
    for norm in norms:
        norm.of_batch = False
    return total / n


# -- batch against running statistics --------------------------------------------------------------


def word_batches(kind: str, size: int = 16, length: int = 64) -> Iterator[Tensor]:
    """Endless batches (size, length + 1) of words: "windows" from anywhere, or one "stretch"."""
    tokens = words()
    while True:
        if kind == "windows":
            starts = torch.randint(len(tokens) - length - 1, (size, 1))
        else:
            first = torch.randint(len(tokens) - size * length - 1, (1, 1))
            starts = first + length * torch.arange(size)[:, None]
        yield tokens[starts + torch.arange(length + 1)]


def text_activations(kind: str, steps: int, kept: int, seed: int = 0) -> list[Tensor]:
    """What the first BatchNorm of a word model receives in the last `kept` of `steps` steps."""
    torch.manual_seed(seed)
    model = LanguageModel("BatchNorm", int(words().max()) + 1, longest=64)
    found: list[Tensor] = []
    model.blocks[0].norms[1].register_forward_pre_hook(lambda m, a: found.append(a[0].detach()))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _, batch in zip(range(steps), word_batches(kind), strict=False):
        loss = loss_of(model, batch, torch.ones_like(batch, dtype=torch.bool))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        del found[:-kept]
    return found


def image_activations(batch: int, steps: int, kept: int, seed: int = 0) -> list[Tensor]:
    """The same for the first BatchNorm of a convolutional network on the digits, (N, 64, C)."""
    torch.manual_seed(seed)
    labels = torch.tensor(load_digits().target)
    labels = labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))]
    layers: list[nn.Module] = []
    for c_in, c_out in ((1, 64), (64, 32)):
        layers += [nn.Conv2d(c_in, c_out, 3, padding=1), nn.BatchNorm2d(c_out), nn.ReLU()]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(128, 10))
    found: list[Tensor] = []
    model[1].register_forward_pre_hook(
        lambda m, a: found.append(a[0].detach().flatten(2).transpose(1, 2))
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(steps):
        rows = torch.randint(len(labels), (batch,))
        loss = F.cross_entropy(model(digits()[rows]), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        del found[:-kept]
    return found


def scale_free(batches: list[Tensor]) -> tuple[float, float]:
    """The same comparison without units: |mean - running| / std and |log(var / running)|."""
    pairs = [reference.masked_mean_var(b, torch.ones(b.shape[:-1]) > 0) for b in batches]
    mean, var = pairs[0]
    shifts, ratios = [], []
    for new_mean, new_var in pairs[1:]:
        shifts.append(((new_mean - mean).abs() / var.sqrt()).mean())
        ratios.append((new_var / var).log().abs().mean())
        mean, var = mean.lerp(new_mean, 0.1), var.lerp(new_var, 0.1)
    return torch.stack(shifts).mean().item(), torch.stack(ratios).mean().item()
