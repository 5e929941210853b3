"""Wrong versions of the module `BatchNorm(num_features, eps=1e-5, momentum=0.1)`.

Where two mistakes give the same output on some input, the one that stands first is named: so
mistakes that show in the state come before those of the function the module calls.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import nn

from autograder.misconceptions import half_types, known
from autograder.misconceptions import misconception as declare
from autograder.misconceptions.batchnorm.batch_norm import affine, normalize, observe, up

PAGE = "batchnorm.html#"
misconception = partial(declare, exercise="BatchNorm")


def _batch_norm(x, weight, bias, running_mean, running_var, training, momentum, eps):
    h = up(x)
    mean, var = observe(h, running_mean, running_var, training, momentum)
    return affine(normalize(h, mean, var, eps), x, weight, bias)


class _BatchNorm(nn.Module):
    """A right module; the mistakes below change one thing each."""

    normalize = staticmethod(_batch_norm)

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1) -> None:
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.make_parameters(num_features)
        self.make_buffers(num_features)

    def make_parameters(self, c: int) -> None:
        self.weight, self.bias = nn.Parameter(torch.ones(c)), nn.Parameter(torch.zeros(c))

    def make_buffers(self, c: int) -> None:
        self.register_buffer("running_mean", torch.zeros(c))
        self.register_buffer("running_var", torch.ones(c))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def count(self, x) -> None:
        if self.training:
            self.num_batches_tracked += 1

    def factor(self) -> float:
        if self.momentum is None and self.training:
            return 1 / self.num_batches_tracked.item()
        return self.momentum

    def affine(self):
        return self.weight, self.bias

    def forward(self, x):
        self.count(x)
        running, mode = (self.running_mean, self.running_var), self.training
        return self.normalize(x, *self.affine(), *running, mode, self.factor(), self.eps)


# -- parameters and buffers ---------------------------------------------------------------------


@misconception(
    name="parameters-detached",
    message="You used weight and bias without their graph (.data, detach or no_grad), so no "
    "gradient reaches them; pass self.weight and self.bias themselves.",
    link=PAGE + "bn-module",
)
class DetachedParameters(_BatchNorm):
    def affine(self):
        return self.weight.data, self.bias.data


@misconception(
    name="parameters-not-trainable",
    message="You registered weight and bias, but they do not ask for gradients (a buffer, or "
    "requires_grad=False); nn.Parameter alone is right.",
    link=PAGE + "bn-module",
)
class Frozen(_BatchNorm):
    def make_parameters(self, c):
        self.weight = nn.Parameter(torch.ones(c), requires_grad=False)
        self.bias = nn.Parameter(torch.zeros(c), requires_grad=False)


@misconception(
    name="parameters-not-registered",
    message="You kept weight or bias as a plain tensor, so the module does not know it and no "
    "optimizer trains it; wrap it in nn.Parameter.",
    link=PAGE + "bn-module",
)
class PlainTensors(_BatchNorm):
    def make_parameters(self, c):
        self.weight, self.bias = torch.ones(c), torch.zeros(c)


@misconception(
    name="buffers-not-registered",
    message="You kept the running statistics as plain attributes, so state_dict does not hold them "
    "and a saved model forgets them; use register_buffer.",
    link=PAGE + "bn-module",
)
class PlainBuffers(_BatchNorm):
    def make_buffers(self, c):
        self.running_mean, self.running_var = torch.zeros(c), torch.ones(c)
        self.num_batches_tracked = torch.tensor(0)


@misconception(name="buffers-not-registered")
class PlainBuffersButTheCount(_BatchNorm):
    def make_buffers(self, c):
        self.running_mean, self.running_var = torch.zeros(c), torch.ones(c)
        self.register_buffer("num_batches_tracked", torch.tensor(0))


@misconception(
    name="count-missing",
    message="You left out the buffer num_batches_tracked, the number of batches seen in training.",
    link=PAGE + "bn-cumulative",
)
class NoCount(_BatchNorm):
    def make_buffers(self, c):
        self.register_buffer("running_mean", torch.zeros(c))
        self.register_buffer("running_var", torch.ones(c))
        self.num_batches_tracked = 0

    def factor(self):
        return 1 / self.num_batches_tracked if self.momentum is None else self.momentum


@misconception(
    name="count-not-an-integer",
    message="You made num_batches_tracked a float or gave it a shape; it is torch.tensor(0), one "
    "int64 without axes.",
    link=PAGE + "bn-cumulative",
)
class FloatCount(_BatchNorm):
    def make_buffers(self, c):
        super().make_buffers(c)
        self.num_batches_tracked = torch.tensor(0.0)


@misconception(name="count-not-an-integer")
class CountWithAnAxis(_BatchNorm):
    def make_buffers(self, c):
        super().make_buffers(c)
        self.num_batches_tracked = torch.zeros(1, dtype=torch.int64)


@misconception(
    name="buffers-as-parameters",
    message="You registered the running statistics as parameters, so an optimizer would train "
    "them; they are measured, not learned: use register_buffer.",
    link=PAGE + "bn-module",
)
class BuffersAsParameters(_BatchNorm):
    def make_buffers(self, c):
        self.running_mean = nn.Parameter(torch.zeros(c))
        self.running_var = nn.Parameter(torch.ones(c))
        self.register_buffer("num_batches_tracked", torch.tensor(0))


def _renamed(names: dict[str, str]) -> type[nn.Module]:
    """A right module under other names, `names` maps right to wrong ones."""

    class Renamed(_BatchNorm):
        def __init__(self, num_features, eps=1e-5, momentum=0.1):
            super().__init__(num_features, eps, momentum)
            for right, wrong in names.items():
                held = getattr(self, right)
                delattr(self, right)
                if isinstance(held, nn.Parameter):
                    self.register_parameter(wrong, held)
                else:
                    self.register_buffer(wrong, held)

        def __getattr__(self, name):
            other = names.get(name, name)
            held = other in self._parameters or other in self._buffers
            return super().__getattr__(other if held else name)

    return Renamed


for _names in (
    {"weight": "gamma", "bias": "beta"},
    {"running_mean": "mean", "running_var": "var"},
    {"running_mean": "moving_mean", "running_var": "moving_var"},
):
    misconception(
        name="names-of-the-state",
        message="You gave parameters or buffers other names; here they are called weight, bias, "
        "running_mean, running_var and num_batches_tracked, as in torch.",
        link=PAGE + "bn-module",
    )(_renamed(_names))


def _starting_at(**values: float) -> type[nn.Module]:
    class BatchNorm(_BatchNorm):
        def __init__(self, num_features, eps=1e-5, momentum=0.1):
            super().__init__(num_features, eps, momentum)
            with torch.no_grad():
                for name, value in values.items():
                    getattr(self, name).fill_(value)

    return BatchNorm


for _values in ({"running_var": 0.0}, {"running_mean": 1.0}):
    misconception(
        name="first-running-statistics",
        message="You let running_mean or running_var start at another value; running_mean starts "
        "as zeros and running_var as ones.",
        link=PAGE + "bn-module",
    )(_starting_at(**_values))

for _values in ({"weight": 0.0}, {"bias": 1.0}):
    misconception(
        name="first-parameters",
        message="You let weight or bias start at another value; weight starts as ones and bias "
        "as zeros, so that a fresh module only normalizes.",
        link=PAGE + "bn-module",
    )(_starting_at(**_values))


class _KeptDims(_BatchNorm):
    """Buffers of shape (1, C), as code with keepdim=True makes them."""

    def make_buffers(self, c):
        super().make_buffers(c)
        self.running_mean, self.running_var = torch.zeros(1, c), torch.ones(1, c)

    def forward(self, x):
        self.count(x)
        running, mode = (self.running_mean[0], self.running_var[0]), self.training
        return self.normalize(x, *self.affine(), *running, mode, self.factor(), self.eps)


class _ScalarParameters(_BatchNorm):
    def make_parameters(self, c):
        self.weight, self.bias = nn.Parameter(torch.ones(1)), nn.Parameter(torch.zeros(1))


for _shaped in (_KeptDims, _ScalarParameters):
    misconception(
        name="shape-of-the-state",
        message="You gave parameters or buffers another shape; each holds one number per channel, "
        "so the shape is (num_features,).",
        link=PAGE + "bn-module",
    )(_shaped)


# -- eps, momentum, counting --------------------------------------------------------------------


def _with_defaults(default_eps: float = 1e-5, default_momentum: float = 0.1) -> type[nn.Module]:
    class BatchNorm(_BatchNorm):
        def __init__(self, num_features, eps=default_eps, momentum=default_momentum):
            super().__init__(num_features, eps, momentum)

    return BatchNorm


for _eps in (1e-3, 1e-6, 1e-8):
    misconception(
        name="default-eps",
        message="You gave eps another default; here it is 1e-5, as in torch.",
        link=PAGE + "bn-eps",
    )(_with_defaults(default_eps=_eps))

for _momentum in (0.01, 0.99):
    misconception(
        name="default-momentum",
        message="You gave momentum another default; here it is 0.1, as in torch.",
        link=PAGE + "bn-momentum",
    )(_with_defaults(default_momentum=_momentum))


@misconception(
    name="momentum-ignored",
    message="You did not use the momentum given to the module.",
    link=PAGE + "bn-momentum",
)
class MomentumIgnored(_BatchNorm):
    def factor(self):
        return 0.1 if self.momentum is not None else super().factor()


@misconception(
    name="no-cumulative-average",
    message="You treated momentum=None as an ordinary number; it asks for the plain average over "
    "all batches, so the new batch has the weight 1 / num_batches_tracked.",
    link=PAGE + "bn-cumulative",
)
class NoneMeansDefault(_BatchNorm):
    def factor(self):
        return 0.1 if self.momentum is None else self.momentum


@misconception(
    name="cumulative-off-by-one",
    message="You counted after the update, or started at 1: with momentum=None the first batch has "
    "the weight 1, the second one half.",
    link=PAGE + "bn-cumulative",
)
class OffByOne(_BatchNorm):
    def factor(self):
        if self.momentum is None and self.training:
            return 1 / (self.num_batches_tracked.item() + 1)
        return self.momentum


@misconception(
    name="not-counted",
    message="You did not count the batches: num_batches_tracked grows by 1 with each batch in "
    "training.",
    link=PAGE + "bn-cumulative",
)
class NotCounted(_BatchNorm):
    batches = 0

    def count(self, x):
        self.batches += self.training

    def factor(self):
        if self.momentum is None and self.training:
            return 1 / self.batches
        return self.momentum


@misconception(
    name="counted-in-evaluation",
    message="You counted batches in evaluation, too; num_batches_tracked counts those in training.",
    link=PAGE + "bn-cumulative",
)
class CountedInEvaluation(_BatchNorm):
    def count(self, x):
        self.num_batches_tracked += 1


@misconception(
    name="samples-counted",
    message="You counted samples; num_batches_tracked counts batches.",
    link=PAGE + "bn-cumulative",
)
class SamplesCounted(_BatchNorm):
    samples = 0

    def count(self, x):
        if self.training:
            self.num_batches_tracked += len(x)
            self.last = len(x)

    def factor(self):
        if self.momentum is None and self.training:
            return self.last / self.num_batches_tracked.item()
        return self.momentum


# -- a module that calls a wrong batch_norm -----------------------------------------------------

# Mistakes of the function that the tests of the module look at too. The others (one-pass variance,
# half-precision statistics, ...) cost points once, in the first exercise.
_SEEN_THROUGH_THE_MODULE = (
    "unbiased-variance",
    "eps-outside-root",
    "unbiased-variance+eps-outside-root",
    "root-forgotten",
    "root-of-std",
    "multiplied-by-std",
    "eps-forgotten",
    "eps-hard-coded",
    "eps-twice",
    "sum-instead-of-mean",
    "mean-not-subtracted",
    "statistics-over-features",
    "statistics-over-all-axes",
    "statistics-over-batch-only",
    "statistics-per-sample",
    "channels-last",
    "bias-forgotten",
    "weight-forgotten",
    "weight-forgotten+bias-forgotten",
    "bias-before-weight",
    "weight-and-bias-swapped",
    "affine-before-normalizing",
    "running-var-biased",
    "momentum-reversed",
    "momentum-reversed+running-var-biased",
    "running-var-not-updated",
    "running-std",
    "old-value-not-weighted",
    "batch-statistics-in-evaluation",
    "running-statistics-in-training",
    "updated-in-evaluation",
    "result-left-wide",
    "statistics-detached",
    half_types.NAME,
    "graph-cut",
)


def _module_that_calls(function: Callable) -> type[nn.Module]:
    return type("BatchNorm", (_BatchNorm,), {"normalize": staticmethod(function)})


for _wrong in known("batchnorm", "batch_norm"):
    if _wrong.name in _SEEN_THROUGH_THE_MODULE:
        misconception(name=_wrong.name, message=_wrong.message, link=_wrong.link)(
            _module_that_calls(_wrong.implementation)
        )

# After the swapped parameters, which give the same output and are not told by the first values.
misconception(name="first-parameters")(_starting_at(weight=0.0, bias=1.0))


@misconception(name="batch-statistics-in-evaluation")
class OwnFlag(_BatchNorm):
    """A flag of its own, which train() and eval() do not set."""

    def forward(self, x):
        self.num_batches_tracked += 1
        momentum = self.momentum
        if momentum is None:
            momentum = 1 / self.num_batches_tracked.item()
        running = self.running_mean, self.running_var
        return self.normalize(x, *self.affine(), *running, True, momentum, self.eps)


@misconception(
    name="update-lost",
    message="You lost the update of the running statistics: give batch_norm the buffers themselves,"
    " and have it change them in place.",
    link=PAGE + "bn-in-place",
)
class UpdateLost(_BatchNorm):
    def forward(self, x):
        self.count(x)
        running, mode = (self.running_mean.clone(), self.running_var.clone()), self.training
        return self.normalize(x, *self.affine(), *running, mode, self.factor(), self.eps)
