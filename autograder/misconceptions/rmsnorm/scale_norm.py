"""Wrong versions of `scale_norm(x, g, eps)`; x is (..., D), g is ()."""

from __future__ import annotations

from functools import partial

import torch

from autograder.misconceptions import half_types
from autograder.misconceptions import misconception as declare
from autograder.misconceptions.rmsnorm.rms_norm import PAGE, mean_square, up

misconception = partial(declare, exercise="scale_norm")
SCALE_NORM = PAGE + "rms-scale-norm"


def _length(h: torch.Tensor) -> torch.Tensor:
    return h.norm(dim=-1, keepdim=True)


def _divided_by(divisor):
    """A ScaleNorm that is right but for what it divides by, `divisor(h, eps)`."""

    def scale_norm(x, g, eps):
        h, g = up(x, g)
        return (g * h / divisor(h, eps)).to(x.dtype)

    return scale_norm


@misconception(
    name="rms-instead-of-length",
    message="Your vectors are longer than g by the root of D: you divided by the root mean square, "
    "as in RMSNorm; ScaleNorm divides by the length, the root of the sum of the squares.",
    link=SCALE_NORM,
)
@_divided_by
def rms_instead_of_length(h, eps):
    return torch.sqrt(mean_square(h)).clamp(min=eps)


@misconception(name="rms-instead-of-length")
@_divided_by
def rms_with_eps_inside(h, eps):
    return torch.sqrt(mean_square(h) + eps)


@misconception(
    name="root-forgotten",
    message="You divided by the sum of the squares; the length is its square root.",
    link=SCALE_NORM,
)
@_divided_by
def root_forgotten(h, eps):
    return h.square().sum(-1, keepdim=True).clamp(min=eps)


@misconception(
    name="sum-of-absolute-values",
    message="You divided by the sum of the absolute values (the 1-norm); the length is the 2-norm.",
    link=SCALE_NORM,
)
@_divided_by
def sum_of_absolute_values(h, eps):
    return h.abs().sum(-1, keepdim=True).clamp(min=eps)


@misconception(
    name="largest-absolute-value",
    message="You divided by the largest absolute value; the length is the root of the sum of the "
    "squares.",
    link=SCALE_NORM,
)
@_divided_by
def largest_absolute_value(h, eps):
    return h.abs().amax(-1, keepdim=True).clamp(min=eps)


@misconception(
    name="eps-inside-root",
    message="You added eps to the sum of the squares, under the root; in ScaleNorm it is a lower "
    "limit of the length: clamp(min=eps).",
    link=PAGE + "rms-eps",
)
@_divided_by
def eps_inside_root(h, eps):
    return torch.sqrt(h.square().sum(-1, keepdim=True) + eps)


@misconception(
    name="eps-added",
    message="You added eps to the length; in ScaleNorm it is a lower limit: clamp(min=eps).",
    link=PAGE + "rms-eps",
)
@_divided_by
def eps_added(h, eps):
    return _length(h) + eps


@misconception(
    name="eps-limits-the-square",
    message="You used eps as the lower limit of the sum of the squares; it limits the length, after"
    " the root.",
    link=PAGE + "rms-eps",
)
@_divided_by
def eps_limits_the_square(h, eps):
    return torch.sqrt(h.square().sum(-1, keepdim=True).clamp(min=eps))


@misconception(
    name="eps-forgotten",
    message="You left eps out; without it a vector of zeros divides by zero.",
    link=PAGE + "rms-eps",
)
@_divided_by
def eps_forgotten(h, eps):
    return _length(h)


@misconception(
    name="eps-as-upper-limit",
    message="You limited the length from above (max= or torch.minimum); eps is its lower limit.",
    link=PAGE + "rms-eps",
)
@_divided_by
def eps_as_upper_limit(h, eps):
    return _length(h).clamp(max=eps)


@misconception(
    name="eps-hard-coded",
    message="You used a fixed eps; use the argument eps.",
    link=PAGE + "rms-eps",
)
@_divided_by
def eps_hard_coded(h, eps):
    return _length(h).clamp(min=1e-5)


def _over(dims):
    @_divided_by
    def scale_norm(h, eps):
        return h.norm(dim=dims(h.dim()), keepdim=True).clamp(min=eps)

    return scale_norm


misconception(
    name="over-the-batch",
    message="You took the length across vectors (the batch); each vector has its own, along the "
    "last axis.",
    link=PAGE + "rms-which-axis",
)(_over(lambda rank: 0))
misconception(
    name="over-axis-1",
    message="You took the length along axis 1, which is the last axis only when x has two axes; "
    "use axis -1.",
    link=PAGE + "rms-which-axis",
)(_over(lambda rank: 1))
misconception(
    name="over-all-axes",
    message="You took one length for the whole tensor; each vector has its own, along the last"
    " axis.",
    link=PAGE + "rms-which-axis",
)(_over(lambda rank: tuple(range(rank))))


@misconception(
    name="keepdim-forgotten",
    message="You dropped the last axis of the length, so it broadcast along the wrong axis; "
    "keepdim=True keeps it in place.",
    link=PAGE + "rms-which-axis",
)
@_divided_by
def keepdim_forgotten(h, eps):
    return h.norm(dim=-1).clamp(min=eps)


@misconception(
    name="centered",
    message="You subtracted the mean; ScaleNorm subtracts nothing.",
    link=PAGE + "rms-no-centering",
)
def centered(x, g, eps):
    h, g = up(x, g)
    h = h - h.mean(-1, keepdim=True)
    return (g * h / _length(h).clamp(min=eps)).to(x.dtype)


@misconception(
    name="g-detached",
    message="You used the value of g without its graph (.item(), .data, float(g)); no gradient "
    "reaches it, so it would never be trained.",
    link=SCALE_NORM,
)
def g_detached(x, g, eps):
    (h,) = up(x)
    return (g.item() * h / _length(h).clamp(min=eps)).to(x.dtype)


@misconception(
    name="g-forgotten",
    message="You left out g; the unit vector is multiplied by it.",
    link=SCALE_NORM,
)
def g_forgotten(x, g, eps):
    (h,) = up(x)
    return (h / _length(h).clamp(min=eps)).to(x.dtype)


# -- dtypes, memory, gradients -------------------------------------------------------------------


@misconception(
    name="no-upcast",
    message="You computed in half precision, where squares overflow and digits are lost; widen x "
    "and g to float32 first.",
    link=PAGE + "rms-dtype",
)
def no_upcast(x, g, eps):
    return (g * x / torch.sqrt(x.square().sum(-1, keepdim=True)).clamp(min=eps)).to(x.dtype)


@misconception(name="no-upcast")
def no_upcast_by_norm(x, g, eps):
    return (g * x / _length(x).clamp(min=eps)).to(x.dtype)


@misconception(
    name="cast-before-g",
    message="You cast back to the dtype of x before multiplying by g; the cast is the last step.",
    link=PAGE + "rms-dtype",
)
def cast_before_g(x, g, eps):
    (h,) = up(x)
    return (g * (h / _length(h).clamp(min=eps)).to(x.dtype)).to(x.dtype)


@misconception(
    name="result-left-wide",
    message="You returned the wider dtype that you computed in; keep the dtype of x in a variable "
    "before you widen x, and cast the result back to that.",
    link=PAGE + "rms-dtype",
)
def result_left_wide(x, g, eps):
    h, g = up(x, g)
    return g * h / _length(h).clamp(min=eps)


@misconception(
    name="always-float32",
    message="You computed in float32 whatever the dtype of x, which loses half the digits of a "
    "float64 x; widen only the half types.",
    link=PAGE + "rms-dtype",
)
def always_float32(x, g, eps):
    h, g = x.float(), g.float()
    return (g * h / _length(h).clamp(min=eps)).to(x.dtype)


@misconception(name=half_types.NAME, message=half_types.MESSAGE, link=PAGE + "rms-dtype")
def detached_in_half(x, g, eps):
    h, g = half_types.cut(x, g)
    return (g * h / _length(h).clamp(min=eps)).to(x.dtype)


@misconception(name=half_types.NAME)
def only_x_detached_in_half(x, g, eps):
    (h,) = half_types.cut(x)
    return (g * h / _length(h).clamp(min=eps)).to(x.dtype)


@misconception(
    name="length-detached",
    message="You cut the length out of the graph (detach, no_grad, .data, .item or numpy); it "
    "depends on x, and the gradient must flow through it.",
    link=PAGE + "rms-backward",
)
@_divided_by
def length_detached(h, eps):
    return _length(h).detach().clamp(min=eps)


@misconception(
    name="input-modified",
    message="You changed the input in place (an operator such as /= or a method that ends in _);"
    " make a new tensor.",
    link=PAGE + "rms-in-place",
)
def input_modified(x, g, eps):
    h, g = up(x, g)  # the same tensor as x, when x is float32 or float64
    h /= _length(h).clamp(min=eps)
    return (g * h).to(x.dtype)
