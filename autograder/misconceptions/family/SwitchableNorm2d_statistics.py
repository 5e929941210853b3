"""Wrong versions of `SwitchableNorm2d`: its statistics, the running ones, and what comes after."""

from __future__ import annotations

import torch

from autograder.misconceptions import half_types
from autograder.misconceptions.family.shared import PAGE, affine, statistics
from autograder.misconceptions.family.SwitchableNorm2d import AXES, Switchable, misconception

# -- which statistics ----------------------------------------------------------------------------


def _over(axes):
    class Other(Switchable):
        def measure(self, h):
            pairs = [statistics(h, dims) for dims in axes]
            return [mean for mean, _ in pairs], [var for _, var in pairs]

        def observe(self, h, mean, var):
            super().observe(h, *statistics(h, AXES[2]))

    return Other


for _axes in (((2, 3), (1,), (0, 2, 3)), ((2, 3), (0, 1, 2, 3), (0, 2, 3))):
    misconception(
        name="axes-of-layer-statistics",
        message="You took the layer statistics over other axes; here they go over (C, H, W) of "
        "each image.",
        link=PAGE + "family-switchable-statistics",
    )(_over(_axes))

for _axes in (((3,), (1, 2, 3), (0, 2, 3)), ((1, 2, 3), (1, 2, 3), (0, 2, 3))):
    misconception(
        name="axes-of-instance-statistics",
        message="You took the instance statistics over other axes; they go over (H, W) of each "
        "channel of each image.",
        link=PAGE + "family-switchable-statistics",
    )(_over(_axes))

for _axes in (((2, 3), (1, 2, 3), (0,)), ((2, 3), (1, 2, 3), (0, 1, 2, 3))):
    misconception(
        name="axes-of-batch-statistics",
        message="You took the batch statistics over other axes; they go over (N, H, W), for each "
        "channel.",
        link=PAGE + "family-switchable-statistics",
    )(_over(_axes))


@misconception(
    name="unbiased-variance",
    message="You normalized with unbiased variances (torch's default for var); all three are "
    "divided by n. Only running_var takes in an unbiased one.",
    link=PAGE + "family-biased",
)
class Unbiased(Switchable):
    def measure(self, h):
        means, variances = super().measure(h)
        sizes = [h.numel() // v.numel() for v in variances]
        return means, [v * n / max(n - 1, 1) for v, n in zip(variances, sizes, strict=True)]

    def observe(self, h, mean, var):
        super().observe(h, *statistics(h, AXES[2]))


@misconception(name="unbiased-variance")
class UnbiasedBatch(Unbiased):
    def measure(self, h):
        means, variances = Switchable.measure(self, h)
        n = h.numel() // h.shape[1]
        variances[2] = variances[2] * n / max(n - 1, 1)
        return means, variances


@misconception(
    name="one-pass-variance",
    message="You computed a variance as E[x²] - E[x]², which loses all its digits when the mean is "
    "large; subtract the mean first, then square.",
    link=PAGE + "family-precision",
)
class OnePass(Switchable):
    def measure(self, h):
        means, _ = super().measure(h)
        squares = [h.square().mean(dims, keepdim=True) for dims in AXES]
        return means, [s - m.square() for s, m in zip(squares, means, strict=True)]


# -- eps and momentum ----------------------------------------------------------------------------


def _divided_by(divisor):
    class Other(Switchable):
        def divide(self, centered, var):
            return centered / divisor(var, self.eps)

    return Other


for _name, _message, _divisor in (
    (
        "eps-outside-root",
        "You added eps to the standard deviation, outside the root; it belongs under the root: "
        "sqrt(var + eps).",
        lambda var, eps: var.sqrt() + eps,
    ),
    (
        "root-forgotten",
        "You divided by the variance; divide by its square root.",
        lambda var, eps: var + eps,
    ),
    (
        "eps-hard-coded",
        "You used a fixed eps of 1e-5; use the eps given to the module.",
        lambda var, eps: torch.sqrt(var + 1e-5),
    ),
    (
        "eps-forgotten",
        "You left eps out; without it equal numbers divide zero by zero.",
        lambda var, eps: torch.sqrt(var),
    ),
):
    misconception(name=_name, message=_message, link=PAGE + "family-eps")(_divided_by(_divisor))


@misconception(
    name="eps-in-each-variance",
    message="You added eps more than once; it is added once, to the mixed variance.",
    link=PAGE + "family-eps",
)
class EpsTwice(Switchable):
    def divide(self, centered, var):
        return centered * torch.rsqrt(var + 2 * self.eps)


@misconception(
    name="default-eps",
    message="You gave eps another default; here it is 1e-5, as in torch.",
    link=PAGE + "family-eps",
)
class DefaultEps(Switchable):
    def __init__(self, num_features, eps=1e-3, momentum=0.1):
        super().__init__(num_features, eps, momentum)


@misconception(
    name="default-momentum",
    message="You gave momentum another default; here it is 0.1, as in torch.",
    link=PAGE + "family-running",
)
class DefaultMomentum(Switchable):
    def __init__(self, num_features, eps=1e-5, momentum=0.01):
        super().__init__(num_features, eps, momentum)


# -- running statistics --------------------------------------------------------------------------


@misconception(
    name="momentum-reversed",
    message="You let momentum weight the old value (published code of this norm does, with 0.9 as "
    "default); as in torch it weights the new one: (1 - momentum) * running + momentum * batch.",
    link=PAGE + "family-running",
)
class MomentumReversed(Switchable):
    def follow(self, mean, var):
        self.running_mean.mul_(self.momentum).add_((1 - self.momentum) * mean)
        self.running_var.mul_(self.momentum).add_((1 - self.momentum) * var)


@misconception(name="momentum-reversed")
class DefaultOfPublishedCode(Switchable):
    def __init__(self, num_features, eps=1e-5, momentum=0.9):
        super().__init__(num_features, eps, momentum)


@misconception(
    name="momentum-ignored",
    message="You did not use the momentum given to the module.",
    link=PAGE + "family-running",
)
class MomentumIgnored(Switchable):
    def follow(self, mean, var):
        self.running_mean.mul_(0.9).add_(0.1 * mean)
        self.running_var.mul_(0.9).add_(0.1 * var)


@misconception(
    name="running-var-biased",
    message="You put the biased variance into running_var; the unbiased one belongs there, "
    "n / (n - 1) times the biased one.",
    link=PAGE + "family-running",
)
class RunningVarBiased(Switchable):
    def observe(self, h, mean, var):
        with torch.no_grad():
            self.follow(mean.flatten(), var.flatten())


@misconception(
    name="update-recorded",
    message="You left the update of the running statistics in the graph, so that memory grows from "
    "batch to batch; put it under torch.no_grad().",
    link=PAGE + "family-running",
)
class UpdateRecorded(Switchable):
    def observe(self, h, mean, var):
        n = h.numel() // h.shape[1]
        self.follow(mean.flatten(), var.flatten() * n / (n - 1))


@misconception(
    name="mixed-statistics-remembered",
    message="You put mixed statistics into the buffers; they follow the plain mean and variance of "
    "the batch.",
    link=PAGE + "family-running",
)
class MixedRemembered(Switchable):
    def observe(self, h, mean, var):
        mean, var = self.mix(*self.measure(h), *self.shares(h))
        super().observe(h, mean.mean(0), var.mean(0))


@misconception(
    name="not-updated",
    message="You did not update the running statistics in training (or assigned to a local name).",
    link=PAGE + "family-running",
)
class NotUpdated(Switchable):
    def follow(self, mean, var):
        pass


@misconception(
    name="updated-in-evaluation",
    message="You changed the running statistics in evaluation; they change in training only.",
    link=PAGE + "family-running",
)
class UpdatedInEvaluation(Switchable):
    def chosen(self, h):
        means, variances = self.measure(h)
        if self.training or h.numel() // h.shape[1] > 1:
            self.refuse(h)
            running = self.running(h)
            running = [t.clone() for t in running]
            self.observe(h, means[2], variances[2])
        else:
            running = self.running(h)
        if not self.training:
            means[2], variances[2] = running
        return means, variances


@misconception(
    name="batch-statistics-in-evaluation",
    message="You used the batch's statistics in evaluation, too; there the running ones take their "
    "place.",
    link=PAGE + "family-running",
)
class BatchStatisticsAlways(Switchable):
    def running(self, h):
        return statistics(h, AXES[2])


@misconception(
    name="running-statistics-in-training",
    message="You used the running statistics in training; there the batch's own are used, and the "
    "running ones are only updated.",
    link=PAGE + "family-running",
)
class RunningStatisticsAlways(Switchable):
    def chosen(self, h):
        means, variances = super().chosen(h)
        means[2], variances[2] = (t.clone() for t in self.running(h))
        return means, variances


@misconception(
    name="running-statistics-alone-in-evaluation",
    message="You used nothing but the running statistics in evaluation; instance and layer "
    "statistics are measured on the input in both modes.",
    link=PAGE + "family-running",
)
class RunningAloneInEvaluation(Switchable):
    def mix(self, means, variances, p, q):
        if self.training:
            return super().mix(means, variances, p, q)
        return means[2], variances[2]


@misconception(
    name="one-value-not-refused",
    message="You did not raise a ValueError in training when a channel has a single value (N, H "
    "and W are 1): its unbiased variance divides by zero.",
    link=PAGE + "family-running",
)
class OneValueAccepted(Switchable):
    def refuse(self, h):
        pass

    def observe(self, h, mean, var):
        n = h.numel() // h.shape[1]
        with torch.no_grad():
            self.follow(mean.flatten(), var.flatten() * n / max(n - 1, 1))


# -- weight and bias -----------------------------------------------------------------------------


@misconception(
    name="weight-forgotten",
    message="You did not use weight, or not bias; the normalized values are multiplied by weight, "
    "then bias is added.",
    link=PAGE + "family-affine",
)
class WeightForgotten(Switchable):
    def end(self, y, x):
        return affine(y, x, torch.ones_like(self.weight), self.bias)


@misconception(name="weight-forgotten")
class AffineForgotten(Switchable):
    def end(self, y, x):
        return y.to(x.dtype)


@misconception(name="weight-forgotten")
class BiasForgotten(Switchable):
    def end(self, y, x):
        return affine(y, x, self.weight, torch.zeros_like(self.bias))


@misconception(
    name="bias-before-weight",
    message="You added the bias before multiplying by the weight; multiply first, then add.",
    link=PAGE + "family-affine",
)
class BiasFirst(Switchable):
    def end(self, y, x):
        return affine(y, x, self.weight, self.weight * self.bias)


@misconception(
    name="affine-along-last-axis",
    message="You let weight and bias line up with the last axis; they belong to axis 1, so give "
    "them the shape (C, 1, 1).",
    link=PAGE + "family-affine",
)
class AlongLastAxis(Switchable):
    def end(self, y, x):
        return (y * self.weight + self.bias).to(x.dtype)


# -- dtypes and gradients --------------------------------------------------------------------------


@misconception(
    name="no-upcast",
    message="You computed statistics in half precision, where squares overflow and digits are "
    "lost; widen x to float32 first.",
    link=PAGE + "family-dtype",
)
class NoUpcast(Switchable):
    def widen(self, x):
        return x


@misconception(
    name="shares-in-half",
    message="You took the softmax of mean_weight and var_weight in their half type; widen them to "
    "float32 first, like everything else.",
    link=PAGE + "family-dtype",
)
class SharesInHalf(Switchable):
    def shares(self, h):
        return [w.softmax(0).to(h.dtype) for w in (self.mean_weight, self.var_weight)]


@misconception(
    name="result-left-wide",
    message="You returned the wider dtype that you computed in; keep the dtype of x in a variable "
    "before you widen x, and cast the result back to that.",
    link=PAGE + "family-dtype",
)
class LeftWide(Switchable):
    def end(self, y, x):
        return affine(y, y, self.weight, self.bias)


@misconception(name=half_types.NAME, message=half_types.MESSAGE, link=PAGE + "family-dtype")
class DetachedInHalf(Switchable):
    def widen(self, x):
        return half_types.cut(x)[0]


@misconception(name=half_types.NAME)
class AllDetachedInHalf(Switchable):
    def forward(self, x):
        with torch.set_grad_enabled(x.dtype.itemsize != 2):
            return super().forward(x)


@misconception(
    name="statistics-detached",
    message="You cut mean and variance out of the graph (detach, no_grad or .data); they depend on "
    "x, and the gradient must flow through them.",
    link=PAGE + "family-normalize",
)
class StatisticsDetached(Switchable):
    def measure(self, h):
        means, variances = super().measure(h)
        return [m.detach() for m in means], [v.detach() for v in variances]


@misconception(
    name="input-modified",
    message="You changed x in place (an operator such as -= or a method that ends in _); make a "
    "new tensor.",
    link=PAGE + "family-in-place",
)
class InputModified(Switchable):
    def forward(self, x):
        y = super().forward(x)
        with torch.no_grad():
            x.sub_(x.mean())
        return y
