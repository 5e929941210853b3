"""Wrong versions of the module `SwitchableNorm2d(num_features, eps=1e-5, momentum=0.1)`.

Where two mistakes give the same output on some input, the one that stands first is named: so
mistakes that show in the state come first, then how statistics are mixed. Which statistics, and the
rest, is in `SwitchableNorm2d_statistics`.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import nn

from autograder.misconceptions import misconception as declare
from autograder.misconceptions.family.shared import PAGE, affine, statistics, up

misconception = partial(declare, exercise="SwitchableNorm2d")
AXES = ((2, 3), (1, 2, 3), (0, 2, 3))  # instance, layer, batch


class Switchable(nn.Module):
    """A right module; the mistakes below change one thing each."""

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float = 0.1) -> None:
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.make_parameters(num_features)
        self.make_buffers(num_features)

    def make_parameters(self, c: int) -> None:
        self.weight, self.bias = nn.Parameter(torch.ones(c)), nn.Parameter(torch.zeros(c))
        self.mean_weight = nn.Parameter(torch.ones(3))
        self.var_weight = nn.Parameter(torch.ones(3))

    def make_buffers(self, c: int) -> None:
        self.register_buffer("running_mean", torch.zeros(c))
        self.register_buffer("running_var", torch.ones(c))

    def measure(self, h):
        """Means and variances of the three norms."""
        pairs = [statistics(h, dims) for dims in AXES]
        return [mean for mean, _ in pairs], [var for _, var in pairs]

    def observe(self, h, mean, var) -> None:
        """The update, given the batch's mean and biased variance."""
        n = h.numel() // h.shape[1]
        with torch.no_grad():
            self.follow(mean.flatten(), var.flatten() * n / (n - 1))

    def follow(self, mean, var) -> None:
        self.running_mean.mul_(1 - self.momentum).add_(self.momentum * mean)
        self.running_var.mul_(1 - self.momentum).add_(self.momentum * var)

    def refuse(self, h) -> None:
        if h.numel() // h.shape[1] < 2:
            raise ValueError("one value")

    def running(self, h):
        return [t.reshape(1, -1, 1, 1).to(h.dtype) for t in (self.running_mean, self.running_var)]

    def chosen(self, h):
        """The three means and variances that are mixed, after the update."""
        means, variances = self.measure(h)
        if self.training:
            self.refuse(h)
            self.observe(h, means[2], variances[2])
        else:
            means[2], variances[2] = self.running(h)
        return means, variances

    def shares(self, h):
        return [w.to(h.dtype).softmax(0) for w in (self.mean_weight, self.var_weight)]

    def mix(self, means, variances, p, q):
        return [
            sum(s * t for s, t in zip(*pair, strict=True)) for pair in ((p, means), (q, variances))
        ]

    def divide(self, centered, var):
        return centered * torch.rsqrt(var + self.eps)

    def widen(self, x):
        return up(x)

    def end(self, y, x):
        return affine(y, x, self.weight, self.bias)

    def forward(self, x):
        h = self.widen(x)
        means, variances = self.chosen(h)
        mean, var = self.mix(means, variances, *self.shares(h))
        return self.end(self.divide(h - mean, var), x)


# -- parameters and buffers ---------------------------------------------------------------------


@misconception(
    name="one-set-of-shares",
    message="You kept one set of shares for means and variances; there are two parameters, "
    "mean_weight and var_weight.",
    link=PAGE + "family-switchable-shares",
)
class OneParameter(Switchable):
    def make_parameters(self, c):
        super().make_parameters(c)
        del self.var_weight

    def shares(self, h):
        return [self.mean_weight.to(h.dtype).softmax(0)] * 2


@misconception(name="one-set-of-shares")
class MeanWeightForBoth(Switchable):
    def shares(self, h):
        p, q = super().shares(h)
        return p, p + 0 * q


@misconception(name="one-set-of-shares")
class VarWeightForBoth(Switchable):
    def shares(self, h):
        p, q = super().shares(h)
        return q + 0 * p, q


@misconception(
    name="parameters-not-registered",
    message="You kept a parameter as a plain tensor, so the module does not know it and no "
    "optimizer trains it; wrap it in nn.Parameter.",
    link=PAGE + "family-switchable-state",
)
class PlainShares(Switchable):
    def make_parameters(self, c):
        super().make_parameters(c)
        del self.mean_weight, self.var_weight
        self.mean_weight, self.var_weight = torch.ones(3), torch.ones(3)


@misconception(
    name="shares-not-trained",
    message="You registered the shares as buffers or without gradients; they are learned, so they "
    "are parameters.",
    link=PAGE + "family-switchable-state",
)
class SharesAsBuffers(Switchable):
    def make_parameters(self, c):
        super().make_parameters(c)
        del self.mean_weight, self.var_weight
        self.register_buffer("mean_weight", torch.ones(3))
        self.register_buffer("var_weight", torch.ones(3))


@misconception(name="shares-not-trained")
class SharesDetached(Switchable):
    def shares(self, h):
        return [s.detach() for s in super().shares(h)]


@misconception(
    name="parameters-detached",
    message="You used weight and bias without their graph (.data, detach or no_grad), so no "
    "gradient reaches them; use self.weight and self.bias themselves.",
    link=PAGE + "family-switchable-state",
)
class Detached(Switchable):
    def end(self, y, x):
        return affine(y, x, self.weight.detach(), self.bias.detach())


@misconception(
    name="buffers-not-registered",
    message="You kept the running statistics as plain attributes, so state_dict does not hold them "
    "and a saved model forgets them; use register_buffer.",
    link=PAGE + "family-switchable-state",
)
class PlainBuffers(Switchable):
    def make_buffers(self, c):
        self.running_mean, self.running_var = torch.zeros(c), torch.ones(c)


@misconception(
    name="buffers-as-parameters",
    message="You registered the running statistics as parameters, so an optimizer would train "
    "them; they are measured, not learned: use register_buffer.",
    link=PAGE + "family-switchable-state",
)
class BuffersAsParameters(Switchable):
    def make_buffers(self, c):
        self.running_mean = nn.Parameter(torch.zeros(c))
        self.running_var = nn.Parameter(torch.ones(c))


@misconception(
    name="first-shares",
    message="You let mean_weight and var_weight start at another value; they start as ones (the "
    "softmax makes thirds of them).",
    link=PAGE + "family-switchable-state",
)
class SharesStartAtThirds(Switchable):
    def make_parameters(self, c):
        super().make_parameters(c)
        self.mean_weight = nn.Parameter(torch.full((3,), 1 / 3))
        self.var_weight = nn.Parameter(torch.full((3,), 1 / 3))


@misconception(name="first-shares")
class SharesStartAtZero(Switchable):
    def make_parameters(self, c):
        super().make_parameters(c)
        self.mean_weight = nn.Parameter(torch.zeros(3))
        self.var_weight = nn.Parameter(torch.zeros(3))


@misconception(
    name="first-running-statistics",
    message="You let running_mean or running_var start at another value; running_mean starts as "
    "zeros and running_var as ones.",
    link=PAGE + "family-switchable-state",
)
class VarianceStartsAtZero(Switchable):
    def make_buffers(self, c):
        self.register_buffer("running_mean", torch.zeros(c))
        self.register_buffer("running_var", torch.zeros(c))


@misconception(
    name="shape-of-the-state",
    message="You gave parameters or buffers the shape (1, C, 1, 1) or the like; each holds one "
    "number per channel, so the shape is (num_features,), and (3,) for the shares.",
    link=PAGE + "family-switchable-state",
)
class ShapesThatBroadcast(Switchable):
    def make_parameters(self, c):
        super().make_parameters(c)
        self.weight = nn.Parameter(torch.ones(1, c, 1, 1))
        self.bias = nn.Parameter(torch.zeros(1, c, 1, 1))

    def make_buffers(self, c):
        self.register_buffer("running_mean", torch.zeros(1, c, 1))
        self.register_buffer("running_var", torch.ones(1, c, 1))

    def follow(self, mean, var):
        super().follow(mean.reshape(1, -1, 1), var.reshape(1, -1, 1))


@misconception(
    name="batches-counted",
    message="You added num_batches_tracked; this module has running_mean and running_var only.",
    link=PAGE + "family-switchable-state",
)
class Counted(Switchable):
    def make_buffers(self, c):
        super().make_buffers(c)
        self.register_buffer("num_batches_tracked", torch.tensor(0))


# -- how statistics are mixed ------------------------------------------------------------------


@misconception(
    name="no-softmax",
    message="You used mean_weight and var_weight as they are; the shares are their softmax, so "
    "that they are positive and add up to 1.",
    link=PAGE + "family-switchable-shares",
)
class NoSoftmax(Switchable):
    def shares(self, h):
        return [w.to(h.dtype) for w in (self.mean_weight, self.var_weight)]


@misconception(
    name="not-a-softmax",
    message="You made shares in another way (divided by the sum, a sigmoid); use the softmax.",
    link=PAGE + "family-switchable-shares",
)
class DividedBySum(Switchable):
    def shares(self, h):
        return [w.to(h.dtype) / w.sum() for w in (self.mean_weight, self.var_weight)]


@misconception(name="not-a-softmax")
class Sigmoid(Switchable):
    def shares(self, h):
        return [w.to(h.dtype).sigmoid() for w in (self.mean_weight, self.var_weight)]


@misconception(
    name="shares-swapped",
    message="You swapped the shares: mean_weight mixes the means, var_weight the variances.",
    link=PAGE + "family-switchable-shares",
)
class SharesSwapped(Switchable):
    def shares(self, h):
        return super().shares(h)[::-1]


@misconception(
    name="order-of-the-norms",
    message="You mixed the three in another order; the shares belong to instance, layer and batch "
    "norm, in this order.",
    link=PAGE + "family-switchable-shares",
)
class BatchFirst(Switchable):
    def mix(self, means, variances, p, q):
        return super().mix(means[::-1], variances[::-1], p, q)


@misconception(name="order-of-the-norms")
class LayerFirst(Switchable):
    def mix(self, means, variances, p, q):
        order = (1, 0, 2)
        return super().mix([means[k] for k in order], [variances[k] for k in order], p, q)


@misconception(name="order-of-the-norms")
class BatchInTheMiddle(Switchable):
    def mix(self, means, variances, p, q):
        order = (0, 2, 1)
        return super().mix([means[k] for k in order], [variances[k] for k in order], p, q)


@misconception(
    name="outputs-mixed",
    message="You normalized three times and mixed the outputs; mix the means and the variances, "
    "then normalize once.",
    link=PAGE + "family-switchable",
)
class OutputsMixed(Switchable):
    def forward(self, x):
        h = self.widen(x)
        means, variances = self.chosen(h)
        p, q = self.shares(h)
        y = sum(
            s * self.divide(h - mean, var)
            for s, mean, var in zip((p + q) / 2, means, variances, strict=True)
        )
        return self.end(y, x)


@misconception(
    name="stds-mixed",
    message="You mixed the standard deviations; the variances are mixed, and the root is taken of "
    "the mixture.",
    link=PAGE + "family-switchable",
)
class StdsMixed(Switchable):
    def mix(self, means, variances, p, q):
        mean, std = super().mix(means, [v.sqrt() for v in variances], p, q)
        return mean, std.square()


@misconception(
    name="variance-about-the-mixed-mean",
    message="You took the variances around the mixed mean; each variance belongs to its own mean.",
    link=PAGE + "family-switchable",
)
class AboutTheMixedMean(Switchable):
    def forward(self, x):
        h = self.widen(x)
        means, variances = self.chosen(h)
        p, q = self.shares(h)
        mean, _ = self.mix(means, variances, p, q)
        about = [(h - mean).square().mean(dims, keepdim=True) for dims in AXES]
        if not self.training:
            about[2] = variances[2]
        _, var = self.mix(means, about, p, q)
        return self.end(self.divide(h - mean, var), x)
