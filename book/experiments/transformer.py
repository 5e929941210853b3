"""The course's one small Transformer, for experiments: every norm, every placement, one block.

    model = CharModel(corpus().vocabulary, n_layers=6, norm="layer", placement="pre")
    losses = train(model, corpus().train, steps=300, lr=3e-3, warmup=100)

`Block` is written to be read beside the formulas of the chapter "Pre-LN, Post-LN and the rest"; the
exercises of that chapter grade two of its placements. Everything is seeded and meant for one CPU
thread (`torch.set_num_threads(1)`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

NORMS = ("none", "batch", "layer", "rms")
PLACEMENTS = {  # one sublayer f of the stream x, in the order of the chapter
    "post": "norm(x + f(x))",
    "pre": "x + f(norm(x))",
    "none": "x + f(x)",
    "b2t": "Post-LN, and the block's input once more before its last norm",
    "admin": "norm(omega * x + f(x)), omega set by `admin_init`",
    "deepnorm": "norm(alpha * x + f(x)), weights of f scaled by beta",
    "rezero": "x + a * f(x), a = 0 at first",
    "sandwich": "x + norm(f(norm(x))), also called Peri-LN",
    "output-norm": "x + norm(f(x))",
    "olmo2": "x + norm(f(x)), with QK-norm",
    "gemma2": "x + norm(f(norm(x))), with soft caps on both kinds of logits",
    "qk-norm": "x + f(norm(x)), with QK-norm",
    "ln-scaling": "x + f(norm(x) / sqrt(layer))",
}
BOUNDED = ("post", "b2t", "admin", "deepnorm")  # the stream leaves every block normalized
ATTENTION_CAP, OUTPUT_CAP = 50.0, 30.0  # of Gemma 2


class TokenBatchNorm(nn.Module):
    """Batch norm of (B, L, D): each feature over all tokens of all sequences, pads not masked."""

    def __init__(self, d_model: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(d_model, eps=eps)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x.flatten(0, 1)).view_as(x)


def make_norm(norm: str, d_model: int) -> nn.Module:
    """One of NORMS for (B, L, D), eps 1e-5 in all."""
    if norm == "none":
        return nn.Identity()
    if norm == "batch":
        return TokenBatchNorm(d_model)
    return {"layer": nn.LayerNorm, "rms": nn.RMSNorm}[norm](d_model, eps=1e-5)


class Attention(nn.Module):
    """Causal multi-head self-attention, (B, L, D) to (B, L, D)."""

    def __init__(
        self, d_model: int, n_heads: int, *, qk_norm: bool = False, cap: float | None = None
    ) -> None:
        super().__init__()
        self.n_heads, self.cap = n_heads, cap
        self.q_proj = nn.Linear(d_model, d_model)
        self.k_proj = nn.Linear(d_model, d_model)
        self.v_proj = nn.Linear(d_model, d_model)
        self.out_proj = nn.Linear(d_model, d_model)
        head = d_model // n_heads
        # One gain per feature of a head, shared by the heads. Without it: nothing to do.
        self.q_norm = nn.RMSNorm(head, eps=1e-6) if qk_norm else nn.Identity()
        self.k_norm = nn.RMSNorm(head, eps=1e-6) if qk_norm else nn.Identity()

    def heads(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, each (B, H, L, D/H)."""
        q, k, v = (
            proj(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
            for proj in (self.q_proj, self.k_proj, self.v_proj)
        )
        return self.q_norm(q), self.k_norm(k), v

    def logits(self, x: Tensor) -> Tensor:
        """What the softmax sees, (B, H, L, L), before the causal mask."""
        q, k, _ = self.heads(x)
        return self._capped(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]))

    def _capped(self, logits: Tensor) -> Tensor:
        return logits if self.cap is None else self.cap * torch.tanh(logits / self.cap)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.heads(x)
        if self.cap is None:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            logits = self._capped(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]))
            future = torch.ones(logits.shape[-2:], dtype=torch.bool).triu(1)
            y = logits.masked_fill(future, -math.inf).softmax(-1) @ v
        return self.out_proj(y.transpose(1, 2).flatten(2))  # (B, L, D)


class Block(nn.Module):
    """Attention and a feed-forward net, with the norms where `placement` puts them.

    Args:
        norm: one of NORMS. placement: one of PLACEMENTS. qk_norm: whatever the placement says.
        layer, n_layers: this block's number from 1, and how many there are.
    """

    def __init__(
        self, d_model: int, n_heads: int, d_ff: int, *, norm: str = "layer",
        placement: str = "pre", qk_norm: bool = False, layer: int = 1, n_layers: int = 1,
    ) -> None:  # fmt: skip
        super().__init__()
        if norm not in NORMS or placement not in PLACEMENTS:
            raise ValueError(f"no norm {norm!r}, or no placement {placement!r}")
        self.placement, self.layer = placement, layer
        self.attention = Attention(
            d_model, n_heads, qk_norm=qk_norm or placement in ("qk-norm", "olmo2"),
            cap=ATTENTION_CAP if placement == "gemma2" else None,
        )  # fmt: skip
        self.linear1, self.linear2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        if placement not in ("none", "rezero"):
            self.norm1, self.norm2 = make_norm(norm, d_model), make_norm(norm, d_model)
        if placement in ("sandwich", "gemma2"):  # the norms on the outputs of the sublayers
            self.norm1_out, self.norm2_out = make_norm(norm, d_model), make_norm(norm, d_model)
        if placement == "admin":
            self.omega1 = nn.Parameter(torch.ones(d_model))
            self.omega2 = nn.Parameter(torch.ones(d_model))
        if placement == "rezero":
            self.a = nn.Parameter(torch.zeros(()))  # one for both sublayers, as published
        self.alpha = (2 * n_layers) ** 0.25
        self.beta = (8 * n_layers) ** -0.25 if placement == "deepnorm" else 1.0

    def feed_forward(self, x: Tensor) -> Tensor:
        return self.linear2(torch.relu(self.linear1(x)))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, L, D) to the stream after this block, (B, L, D)."""
        start = x
        for number, f in ((1, self.attention), (2, self.feed_forward)):
            x = self.add(x, f, number, start)
        return x

    def add(self, x: Tensor, f: Callable[[Tensor], Tensor], number: int, start: Tensor) -> Tensor:
        """The stream after the sublayer f, which is the first or second of its block."""
        norm = getattr(self, f"norm{number}", None)
        match self.placement:
            case "post":
                return norm(x + f(x))
            case "pre" | "qk-norm":
                return x + f(norm(x))
            case "none":
                return x + f(x)
            case "b2t":
                return norm(x + f(x)) if number == 1 else norm(start + x + f(x))
            case "admin":
                return norm(getattr(self, f"omega{number}") * x + f(x))
            case "deepnorm":
                return norm(self.alpha * x + f(x))
            case "rezero":
                return x + self.a * f(x)
            case "sandwich" | "gemma2":
                return x + getattr(self, f"norm{number}_out")(f(norm(x)))
            case "output-norm" | "olmo2":
                return x + norm(f(x))
            case "ln-scaling":
                return x + f(norm(x) / math.sqrt(self.layer))
        raise AssertionError(self.placement)

    def init_weights(self, init: str) -> None:
        """Zero biases; weights "xavier" (normal) or "small" (normal, deviation 0.02)."""
        a = self.attention
        for linear in (a.q_proj, a.k_proj, a.v_proj, a.out_proj, self.linear1, self.linear2):
            nn.init.zeros_(linear.bias)
            gain = 1.0 if linear in (a.q_proj, a.k_proj) else self.beta
            if init == "xavier":
                nn.init.xavier_normal_(linear.weight, gain)
            else:
                nn.init.normal_(linear.weight, std=0.02 * gain)


class CharModel(nn.Module):
    """A causal model of characters: ids (B, L) to logits (B, L, vocabulary).

    A norm stands before the output layer unless the placement leaves the stream normalized;
    `final_norm` overrules that.
    """

    def __init__(
        self, vocabulary: int, *, d_model: int = 64, n_heads: int = 4, d_ff: int | None = None,
        n_layers: int = 4, length: int = 64, norm: str = "layer", placement: str = "pre",
        qk_norm: bool = False, final_norm: bool | None = None, init: str = "xavier",
    ) -> None:  # fmt: skip
        super().__init__()
        self.placement, self.length = placement, length
        self.tokens, self.positions = (
            nn.Embedding(vocabulary, d_model),
            nn.Embedding(length, d_model),
        )
        self.blocks = nn.ModuleList(
            Block(
                d_model, n_heads, d_ff or 4 * d_model, norm=norm, placement=placement,
                qk_norm=qk_norm, layer=layer, n_layers=n_layers,
            )
            for layer in range(1, n_layers + 1)
        )  # fmt: skip
        if final_norm is None:
            final_norm = placement not in (*BOUNDED, "none", "rezero")
        self.final_norm = make_norm(norm, d_model) if final_norm else nn.Identity()
        self.head = nn.Linear(d_model, vocabulary)
        for embedding in (self.tokens, self.positions):
            nn.init.normal_(embedding.weight, std=d_model**-0.5)
        nn.init.xavier_normal_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        for block in self.blocks:
            block.init_weights(init)

    def embed(self, ids: Tensor) -> Tensor:
        """The stream before the first block, (B, L, D), of mean square about 2."""
        x = self.tokens(ids) + self.positions.weight[: ids.shape[1]]
        return x * math.sqrt(x.shape[-1])

    def streams(self, ids: Tensor) -> list[Tensor]:
        """The stream before the first block and after each one."""
        found = [self.embed(ids)]
        for block in self.blocks:
            found.append(block(found[-1]))
        return found

    def forward(self, ids: Tensor) -> Tensor:
        logits = self.head(self.final_norm(self.streams(ids)[-1]))
        return (
            OUTPUT_CAP * torch.tanh(logits / OUTPUT_CAP) if self.placement == "gemma2" else logits
        )

    def loss(self, ids: Tensor) -> Tensor:
        """Mean cross-entropy in nats of each next character; ids is (B, L + 1)."""
        return F.cross_entropy(self(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())


@torch.no_grad()
def admin_init(model: CharModel, ids: Tensor) -> None:
    """Admin's profiling: omega of a sublayer is the root of the variances written before it.

    Runs the fresh model once on ids (B, L), all omegas 1, and sets each omega to
    sqrt(Var[embedding] + the sum of Var[f_j] over the earlier sublayers j).
    """
    x = model.embed(ids)
    total, omegas = x.var(), []
    for block in model.blocks:
        start = x
        for number, f in ((1, block.attention), (2, block.feed_forward)):
            omegas.append((getattr(block, f"omega{number}"), total.sqrt()))
            total = total + f(x).var()
            x = block.add(x, f, number, start)
    for omega, value in omegas:
        omega.fill_(value)


# -- text ------------------------------------------------------------------------------------------


class Corpus(NamedTuple):
    train: Tensor  # (N,) ids of characters
    validation: Tensor
    characters: str  # character of each id

    @property
    def vocabulary(self) -> int:
        return len(self.characters)


@functools.cache
def corpus() -> Corpus:
    """Python's own documentation as characters: the first 90 % to train, the rest to validate.

    The text differs between Python versions, so a test may not rest on exact losses.
    """
    from pydoc_data import topics

    text = "".join(topics.topics[key] for key in sorted(topics.topics))
    characters = "".join(sorted(set(text)))
    number = {character: i for i, character in enumerate(characters)}
    ids = torch.tensor([number[character] for character in text])
    cut = int(0.9 * len(ids))
    return Corpus(ids[:cut], ids[cut:], characters)


def unigram_loss(ids: Tensor) -> float:
    """The loss of a model that knows nothing but how often each character comes, in nats."""
    share = torch.bincount(ids).double() / len(ids)
    return -torch.xlogy(share, share).sum().item()


def windows(ids: Tensor, batch: int, length: int, generator: torch.Generator) -> Tensor:
    """A random batch of stretches of text, (batch, length + 1)."""
    starts = torch.randint(len(ids) - length, (batch, 1), generator=generator)
    return ids[starts + torch.arange(length + 1)]


# -- training --------------------------------------------------------------------------------------


def schedule(step: int, *, steps: int, warmup: int = 0, cosine: bool = False) -> float:
    """What the learning rate is multiplied by at a step counted from 1."""
    if step <= warmup:
        return step / warmup
    if cosine:
        return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup)))
    return 1.0


def train(
    model: CharModel, ids: Tensor, *, steps: int, lr: float, warmup: int = 0,
    cosine: bool = False, batch: int = 8, seed: int = 0, optimizer: str = "Adam",
    clip: float | None = None, watch: Callable[[int], None] | None = None,
) -> list[float]:  # fmt: skip
    """Trains the model on random windows of ids, and returns the loss of each step.

    Stops early when a loss is not finite. `optimizer` is "Adam" or "SGD", both plain; `clip` bounds
    the norm of the whole gradient; `watch(step)` is called after each step.
    """
    generator = torch.Generator().manual_seed(seed)
    make = {"Adam": torch.optim.Adam, "SGD": torch.optim.SGD}[optimizer]
    optimizer_ = make(model.parameters(), lr=lr)
    model.train()
    losses: list[float] = []
    for step in range(1, steps + 1):
        for group in optimizer_.param_groups:
            group["lr"] = lr * schedule(step, steps=steps, warmup=warmup, cosine=cosine)
        loss = model.loss(windows(ids, batch, model.length, generator))
        losses.append(loss.item())
        if not math.isfinite(losses[-1]):
            break
        optimizer_.zero_grad()
        loss.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer_.step()
        if watch is not None:
            watch(step)
    return losses


@torch.no_grad()
def evaluate(
    model: CharModel, ids: Tensor, *, batch: int = 32, batches: int = 8
) -> tuple[float, float]:
    """Loss and share of right next characters, over the same windows every time."""
    generator = torch.Generator().manual_seed(12345)
    model.eval()
    loss = right = 0.0
    for _ in range(batches):
        window = windows(ids, batch, model.length, generator)
        logits = model(window[:, :-1])
        loss += F.cross_entropy(logits.flatten(0, 1), window[:, 1:].flatten()).item()
        right += (logits.argmax(-1) == window[:, 1:]).float().mean().item()
    model.train()
    return loss / batches, right / batches
