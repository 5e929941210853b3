# %% [markdown]
# # The family
#
# Batch, layer, instance and group norm are one formula; they differ in the axes over which mean and
# variance are taken. In this notebook you write the formula once and build its relatives from it,
# standardize a weight instead of an activation, and let a layer learn how to mix three norms. The
# chapter *The family* of the course book explains every idea used here; keep its page
# `family.html` open beside this notebook (its text is also in
# [book/family.md](../../book/family.md)).
#
# | exercise | you write | points | difficulty | time |
# |---|---|---|---|---|
# | 1 | `normalize(x, dims, eps)` | 5 | easy | 15 min |
# | 2 | `instance_norm(x, weight, bias, eps)` | 4 | easy | 10 min |
# | 3 | `group_norm(x, num_groups, weight, bias, eps)` | 6 | medium | 20 min |
# | 4 | `standardize_weight(w, eps)` | 3 | easy | 10 min |
# | 5 | `SwitchableNorm2d(num_features, eps, momentum)` | 7 | hard | 40 min |
#
# One written question at the end is worth 3 points. A person grades it.
#
# **How to work.** Replace `raise NotImplementedError()` with your code and run the cell with
# Shift+Enter. Then run the check cell below it. A check that fails says what it saw and what to
# look at. Stuck? Open the hints one at a time. Add as many cells of your own as you like.
#
# **What is graded.** Hidden tests run your functions on other shapes, data types, values of `eps`
# and inputs. Passing the visible checks is a good sign, but **it is not the same as passing the
# hidden tests**. The docstring of each exercise is the full specification. If you have the course's
# repository, its README says how to run the hidden tests on this file: they name the mistake.
#
# **Rules.** Do not call a ready-made normalization (`torch.nn.functional.group_norm`,
# `torch.nn.InstanceNorm2d`, layer or batch norm, and so on). Cells of your own may call all of
# this, to compare. Where one of your functions reaches it during a hidden test, that test fails.
# Keep the names and the arguments of the functions.
#
# **How to hand in.** Save the notebook and hand in this one file, `family.ipynb`, without renaming
# it.

# %%
import torch
from torch import Tensor, nn

# %% [markdown]
# ## Exercise 1: one function for all
#
# *5 points, easy, about 15 minutes*
#
# Subtract the mean, divide by the standard deviation. The only question is which numbers share a
# mean. Let the caller say it: `dims` names the axes that are averaged over, and every position
# along the other axes has statistics of its own.
#
# $$
# \hat x = \frac{x-\mu}{\sqrt{\sigma^2+\varepsilon}},
# \qquad \mu=\frac1n\sum x,
# \qquad \sigma^2=\frac1n\sum (x-\mu)^2
# $$
#
# The sums run over the $n$ values along `dims` together, not over one axis after the other.
#
# | name | shape for images, `dims=(2, 3)` | in general |
# |---|---|---|
# | `x` and the result | `(N, C, H, W)` | any |
# | mean, variance | `(N, C, 1, 1)` | that of `x`, with 1 along `dims` |
#
# <details><summary>Hint 1: how to average over several axes?</summary>
#
# `x.mean(dim=dims, keepdim=True)` takes one axis or several. With `keepdim=True` the averaged axes
# stay, with length 1, so the mean lines up with `x` whatever `dims` is.
#
# </details>
#
# <details><summary>Hint 2: which variance, and where does eps go?</summary>
#
# The mean of the squared deviations, so it divides by $n$, not by $n-1$; `eps` is added to it
# *before* the root. Subtract the mean first, then square.
#
# </details>
#
# <details><summary>Hint 3: what about float16 and bfloat16?</summary>
#
# Keep `x.dtype` in a variable, before anything else. If it is a half type, compute with
# `x.float()`, and go back with `.to(dtype)` in the last line. Leave float64 as it is.
#
# </details>
#
# <details><summary>Expected output</summary>
#
# ```python
# x = torch.tensor([[1.0, 2.0, 3.0], [10.0, 20.0, 60.0]])
# for dims in (0, 1, (0, 1)):
#     print(normalize(x, dims, 1e-5))
# ```
#
# prints
#
# ```
# tensor([[-1.0000, -1.0000, -1.0000],
#         [ 1.0000,  1.0000,  1.0000]])
# tensor([[-1.2247,  0.0000,  1.2247],
#         [-0.9258, -0.4629,  1.3887]])
# tensor([[-0.7236, -0.6754, -0.6272],
#         [-0.2895,  0.1930,  2.1227]])
# ```
#
# Columns, rows, everything: one table, three normalizations.
#
# </details>


# %% nbgrader={"grade_id": "normalize", "solution": true}
def normalize(x: Tensor, dims: int | tuple[int, ...], eps: float) -> Tensor:
    """Give x mean 0 and variance 1 over the axes dims, together, for every other position.

    Args:
        x: any shape, any floating-point dtype. Is not modified.
        dims: one axis or several, in any order, counted from the front (0, 1, ...) or from the
            end (-1, -2, ...).
        eps: added to the variance, inside the square root.

    Returns:
        The shape and the dtype of x.

    The variance is the biased one (divide by n, the number of values along dims), and stays
    accurate when the mean is far larger than the spread. Gradients flow through mean and variance. float16 and bfloat16 inputs are computed in float32, and the result
    is cast back once, at the end.
    """
    ### BEGIN SOLUTION
    dtype = x.dtype
    if dtype in (torch.float16, torch.bfloat16):
        x = x.float()
    centered = x - x.mean(dim=dims, keepdim=True)
    var = centered.square().mean(dim=dims, keepdim=True)  # 1 along dims
    return (centered * torch.rsqrt(var + eps)).to(dtype)
    ### END SOLUTION


# %% [markdown]
# **Check exercise 1.** Run the next cell. No error means that all visible checks passed.

# %% tags=["active-ipynb"] nbgrader={"grade_id": "test_normalize", "points": 5}
# # Mean 0, variance 1, and eps = 3: each entry is divided by sqrt(1 + 3) = 2.
# y = normalize(torch.tensor([-1.0, 1.0]), 0, 3.0)
# assert y is not None, "normalize returned None: does it end with a return statement?"
# assert y.shape == (2,), f"x has shape (2,), the result must too, but it has {tuple(y.shape)}"
# assert torch.allclose(y, torch.tensor([-0.5, 0.5])), (
#     f"normalize([-1, 1], 0, eps=3) must be [-0.5, 0.5], got {y.detach()}. "
#     "Is the variance divided by n, not n - 1? Is eps inside the square root?"
# )
#
# # dims decides, and several axes are averaged over together.
# x = torch.randn(4, 3, 5, 2, dtype=torch.float64)
# x = x * (1 + torch.arange(3.0))[:, None, None] + 7 * torch.randn(4, 1, 5, 1).double()
# before = x.clone()
# for dims in [0, -1, (2, 3), (-1, 1), (0, 2, 3), (0, 1, 2, 3)]:
#     y = normalize(x, dims, 1e-12)
#     assert y.shape == x.shape, f"with dims={dims} the result has the shape {tuple(y.shape)}"
#     assert y.dtype == torch.float64, f"x is float64, the result must be too, but it is {y.dtype}"
#     assert y.mean(dim=dims).abs().max() < 1e-6, (
#         f"with dims={dims} the result must have mean 0 over these axes together"
#     )
#     assert (y.square().mean(dim=dims) - 1).abs().max() < 1e-6, (
#         f"with dims={dims} the result must have variance 1 (biased) over these axes together"
#     )
#     ratio = (x - x.mean(dim=dims, keepdim=True)) / y
#     assert torch.allclose(ratio, ratio.mean(dim=dims, keepdim=True)), (
#         f"with dims={dims} all values along dims must be divided by one and the same number: "
#         "one mean and one variance for all of them, not axis by axis"
#     )
# assert torch.equal(x, before), "normalize changed its input: avoid in-place operations on x"
#
# # Half precision: 600 squared is 360000, more than float16 can hold (65504).
# x = torch.tensor([-600.0, 600.0], dtype=torch.float16)
# y = normalize(x, 0, 1e-5)
# assert y.dtype == torch.float16, f"x is float16, the result must be too, but it is {y.dtype}"
# assert y.tolist() == [-1.0, 1.0], (
#     f"normalize([-600, 600]) in float16 must be [-1, 1], got {y.detach()}. "
#     "Are half types computed in float32?"
# )
# print("Exercise 1: the visible checks pass.")

# %% [markdown]
# ## Exercise 2: instance norm
#
# *4 points, easy, about 10 minutes*
#
# The contrast of a photograph, or the brush of a painting, shows in the mean and the spread of each
# channel of that one image. Instance norm removes both: every channel of every image is normalized
# by itself, over its positions. Then each channel gets a scale and a shift.
#
# | name | shape | |
# |---|---|---|
# | `x` and the result | `(N, C, L)`, `(N, C, H, W)`, ... | at least one axis after C |
# | mean, variance | `(N, C, 1, ...)` | one of each per image and channel |
# | `weight`, `bias` | `(C,)` | one number per channel |
#
# <details><summary>Hint 1: which axes?</summary>
#
# Those of the positions: everything from axis 2 on, `tuple(range(2, x.dim()))`.
#
# </details>
#
# <details><summary>Hint 2: how does weight line up with axis 1?</summary>
#
# A tensor of shape `(C,)` lines up with the last axis. Give it the shape `(C, 1, 1)` for images;
# in general `weight.view([-1] + [1] * (x.dim() - 2))`.
#
# </details>
#
# <details><summary>Hint 3: can I use normalize?</summary>
#
# Yes. But it casts half types back at its end, and here the cast belongs after the scale and the
# shift. So widen `x` before you call it.
#
# </details>
#
# <details><summary>Expected output</summary>
#
# ```python
# x = torch.tensor([[[1.0, 2.0, 3.0], [10.0, 20.0, 60.0]]])  # one image, two channels
# print(instance_norm(x, torch.tensor([1.0, 2.0]), torch.tensor([0.0, 5.0]), 1e-5))
# ```
#
# prints
#
# ```
# tensor([[[-1.2247,  0.0000,  1.2247],
#          [ 3.1484,  4.0742,  7.7775]]])
# ```
#
# </details>


# %% nbgrader={"grade_id": "instance_norm", "solution": true}
def instance_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """Normalize each channel of each sample over its positions, then scale and shift it.

    Args:
        x: (N, C, *), at least one axis after C, any floating-point dtype. Is not modified.
        weight: (C,), multiplies the normalized channel.
        bias: (C,), is added last.
        eps: added to the variance, inside the square root.

    Returns:
        The shape and the dtype of x.

    Mean and (biased) variance are taken over all axes from 2 on, in training and evaluation alike.
    Gradients flow through both. float16 and bfloat16 inputs are computed in float32, and the
    result is cast back once, after the scale and the shift.
    """
    ### BEGIN SOLUTION
    dtype = x.dtype
    if dtype in (torch.float16, torch.bfloat16):
        x = x.float()
    shape = [-1] + [1] * (x.dim() - 2)  # lines (C,) up with axis 1
    x_hat = normalize(x, tuple(range(2, x.dim())), eps)
    return (x_hat * weight.view(shape) + bias.view(shape)).to(dtype)
    ### END SOLUTION


# %% [markdown]
# **Check exercise 2.** This check compares with torch's own instance norm.

# %% tags=["active-ipynb"] nbgrader={"grade_id": "test_instance_norm", "points": 4}
# y = instance_norm(torch.tensor([[[-1.0, 1.0]]]), torch.ones(1), torch.zeros(1), 3.0)
# assert y is not None, "instance_norm returned None: does it end with a return statement?"
# assert torch.allclose(y, torch.tensor([[[-0.5, 0.5]]])), (
#     f"the channel [-1, 1] with eps=3 must become [-0.5, 0.5], got {y.flatten().detach()}. "
#     "Is the variance divided by n, not n - 1? Is eps inside the square root?"
# )
# for shape in [(4, 2, 5), (4, 2, 5, 4), (1, 3, 3, 2, 4)]:
#     c = shape[1]
#     x = 7 + 3 * torch.randn(shape, dtype=torch.float64)
#     x += 9 * torch.randn(shape[:2] + (1,) * len(shape[2:]))  # channels differ
#     before = x.clone()
#     ones, zeros = torch.ones(c).double(), torch.zeros(c).double()
#     want = nn.functional.instance_norm(x, eps=0.1)
#     y = instance_norm(x, ones, zeros, 0.1)
#     assert torch.equal(x, before), "instance_norm changed its input: avoid in-place operations"
#     assert y.shape == x.shape, f"the result must have shape {shape}, got {tuple(y.shape)}"
#     assert torch.allclose(y, want), (
#         f"for x of shape {shape} each channel of each sample must have its own mean and "
#         f"variance, over the axes {tuple(range(2, len(shape)))}"
#     )
#     weight, bias = 1 + torch.arange(c).double(), 2 - torch.arange(c).double()
#     y = instance_norm(x, weight, bias, 0.1)
#     assert torch.allclose(y, nn.functional.instance_norm(x, None, None, weight, bias, eps=0.1)), (
#         "with weight and bias the result must be normalized * weight + bias, channel by channel "
#         "(they belong to axis 1)"
#     )
#
# x = torch.tensor([[[-600.0, 600.0]]], dtype=torch.float16)
# y = instance_norm(x, torch.ones(1).half(), torch.zeros(1).half(), 1e-5)
# assert y.dtype == torch.float16, f"x is float16, the result must be too, but it is {y.dtype}"
# assert y.flatten().tolist() == [-1.0, 1.0], (
#     f"the channel [-600, 600] in float16 must become [-1, 1], got {y.flatten().detach()}. "
#     "Are half types computed in float32?"
# )
# print("Exercise 2: the visible checks pass.")

# %% [markdown]
# ## Exercise 3: group norm
#
# *6 points, medium, about 20 minutes*
#
# Between one channel (instance norm) and all channels (layer norm over the whole image) lies group
# norm: the channels are cut into `num_groups` groups of neighbours, and each group of each image
# has one mean and one variance. The batch plays no part, so a batch of one is as good as a batch of
# a thousand.
#
# | name | shape | |
# |---|---|---|
# | `x` and the result | `(N, C)`, `(N, C, L)`, `(N, C, H, W)`, ... | G = `num_groups` divides C |
# | mean, variance | one per sample and group | over C/G channels and all positions |
# | `weight`, `bias` | `(C,)` | one number per **channel**, not per group |
#
# With C = 6 and two groups, channels 0, 1, 2 are one group and 3, 4, 5 the other.
#
# <details><summary>Hint 1: how to cut axis 1 into groups?</summary>
#
# `x.unflatten(1, (num_groups, -1))` has the shape `(N, G, C/G, *)`: neighbours stay together.
# `.flatten(1, 2)` undoes it.
#
# </details>
#
# <details><summary>Hint 2: which axes are averaged over then?</summary>
#
# Everything from axis 2 on: the channels of the group and all positions.
#
# </details>
#
# <details><summary>Hint 3: and if num_groups does not divide C?</summary>
#
# Then there is no such cut, and `ValueError` says so: check `x.shape[1] % num_groups` first.
#
# </details>
#
# <details><summary>Expected output</summary>
#
# ```python
# x = torch.tensor([[1.0, 3.0, 10.0, 30.0], [0.0, 8.0, -1.0, 1.0]])  # two samples, four channels
# print(group_norm(x, 2, torch.ones(4), torch.zeros(4), 1e-5))
# print(group_norm(x, 1, torch.ones(4), torch.zeros(4), 1e-5))
# ```
#
# prints
#
# ```
# tensor([[-1.0000,  1.0000, -1.0000,  1.0000],
#         [-1.0000,  1.0000, -1.0000,  1.0000]])
# tensor([[-0.8720, -0.6976, -0.0872,  1.6569],
#         [-0.5657,  1.6971, -0.8485, -0.2828]])
# ```
#
# </details>


# %% nbgrader={"grade_id": "group_norm", "solution": true}
def group_norm(x: Tensor, num_groups: int, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """Normalize each group of neighbouring channels of each sample, then scale and shift.

    Args:
        x: (N, C) or (N, C, *), any number of axes after C, any floating-point dtype. Not modified.
        num_groups: G, divides C. Group g holds the C/G channels from g * C/G on.
        weight: (C,), multiplies the normalized channel.
        bias: (C,), is added last.
        eps: added to the variance, inside the square root.

    Returns:
        The shape and the dtype of x.

    Raises:
        ValueError: when num_groups does not divide C.

    Mean and (biased) variance are taken over the channels of a group and all axes from 2 on, for
    each sample by itself, in training and evaluation alike. Gradients flow through both. float16
    and bfloat16 inputs are computed in float32, and the result is cast back once, after the scale
    and the shift.
    """
    ### BEGIN SOLUTION
    if x.shape[1] % num_groups != 0:
        raise ValueError("num_groups must divide the number of channels")
    dtype = x.dtype
    if dtype in (torch.float16, torch.bfloat16):
        x = x.float()
    grouped = x.unflatten(1, (num_groups, -1))  # (N, G, C/G, *)
    x_hat = normalize(grouped, tuple(range(2, grouped.dim())), eps).flatten(1, 2)  # (N, C, *)
    shape = [-1] + [1] * (x.dim() - 2)  # lines (C,) up with axis 1
    return (x_hat * weight.view(shape) + bias.view(shape)).to(dtype)
    ### END SOLUTION


# %% [markdown]
# **Check exercise 3.** This check compares with torch's own group norm.

# %% tags=["active-ipynb"] nbgrader={"grade_id": "test_group_norm", "points": 6}
# x = torch.tensor([[1.0, 3.0, 10.0, 30.0], [0.0, 8.0, -1.0, 1.0]])
# y = group_norm(x, 2, torch.ones(4), torch.zeros(4), 3.0)
# assert y is not None, "group_norm returned None: does it end with a return statement?"
# assert y.shape == (2, 4), f"x has shape (2, 4), the result must too, but it has {tuple(y.shape)}"
# want = torch.tensor([[-0.5000, 0.5000, -0.9853, 0.9853], [-0.9177, 0.9177, -0.5000, 0.5000]])
# assert torch.allclose(y, want, atol=1e-3), (
#     "in two groups of four channels, 0 and 1 are one group, 2 and 3 the other, for each sample; "
#     f"with eps=3 the result must be {want}, got {y.detach()}. Is the variance divided "
#     "by n, not n - 1? Is eps inside the square root?"
# )
# cases = [((3, 6), 2), ((2, 6, 5), 3), ((2, 6, 4, 5), 2), ((1, 6, 2, 3), 6), ((2, 6, 4, 5), 1)]
# for shape, groups in cases:
#     c = shape[1]
#     x = 3 * torch.randn(shape, dtype=torch.float64)
#     x += 9 * torch.randn(shape[:2] + (1,) * len(shape[2:]))  # channels differ
#     before = x.clone()
#     ones, zeros = torch.ones(c).double(), torch.zeros(c).double()
#     y = group_norm(x, groups, ones, zeros, 0.1)
#     assert torch.equal(x, before), "group_norm changed its input: avoid in-place operations"
#     assert y.shape == x.shape, f"the result must have shape {shape}, got {tuple(y.shape)}"
#     assert torch.allclose(y, nn.functional.group_norm(x, groups, eps=0.1)), (
#         f"for x of shape {shape} and {groups} groups: are the groups neighbours? Are mean and "
#         "variance taken over the channels of the group and all positions of one sample?"
#     )
#     weight, bias = 1 + torch.arange(c).double(), 2 - torch.arange(c).double()
#     y = group_norm(x, groups, weight, bias, 0.1)
#     assert torch.allclose(y, nn.functional.group_norm(x, groups, weight, bias, eps=0.1)), (
#         "with weight and bias the result must be normalized * weight + bias, channel by channel "
#         "(they belong to axis 1, not to the groups)"
#     )
# try:
#     group_norm(torch.randn(2, 6, 4), 4, torch.ones(6), torch.zeros(6), 0.1)
# except ValueError:
#     pass
# except Exception as error:
#     raise AssertionError(
#         "4 groups of 6 channels: raise a ValueError yourself, before anything else; "
#         f"here it raised {type(error).__name__}"
#     ) from error
# else:
#     raise AssertionError("4 groups of 6 channels do not exist: raise a ValueError")
#
# x = torch.tensor([[-600.0, 600.0]], dtype=torch.float16)
# y = group_norm(x, 1, torch.ones(2).half(), torch.zeros(2).half(), 1e-5)
# assert y.dtype == torch.float16, f"x is float16, the result must be too, but it is {y.dtype}"
# assert y.flatten().tolist() == [-1.0, 1.0], (
#     f"the group [-600, 600] in float16 must become [-1, 1], got {y.flatten().detach()}. "
#     "Are half types computed in float32?"
# )
# print("Exercise 3: the visible checks pass.")

# %% [markdown]
# ## Exercise 4: standardize the weight
#
# *3 points, easy, about 10 minutes*
#
# Weight Standardization leaves the activations alone and normalizes the **weight** of a layer, each
# time it is used. All numbers that make one output channel get mean 0 and variance 1 together. It
# is no activation norm; it is used together with one, most often with group norm.
#
# | name | shape | |
# |---|---|---|
# | `w` and the result | `(out, in)`, `(out, in, kH, kW)`, ... | one row per output channel |
# | mean, variance | `(out, 1, ...)` | over all axes but axis 0 |
#
# <details><summary>Hint 1: which axes?</summary>
#
# An output channel sees every input channel and every place of the kernel, so average over all axes
# but the first.
#
# </details>
#
# <details><summary>Hint 2: can I use normalize?</summary>
#
# It is one line with it.
#
# </details>
#
# <details><summary>Hint 3: is this the code of the paper?</summary>
#
# Published code divides by n - 1 and adds `eps` to the standard deviation, outside the root. Here
# the course's convention holds, as everywhere: divide by n, `eps` inside the root.
#
# </details>
#
# <details><summary>Expected output</summary>
#
# ```python
# w = torch.tensor([[1.0, 2.0, 3.0], [10.0, 20.0, 60.0]])
# print(standardize_weight(w, 1e-5))
# ```
#
# prints
#
# ```
# tensor([[-1.2247,  0.0000,  1.2247],
#         [-0.9258, -0.4629,  1.3887]])
# ```
#
# </details>


# %% nbgrader={"grade_id": "standardize_weight", "solution": true}
def standardize_weight(w: Tensor, eps: float) -> Tensor:
    """Give the weights of every output channel mean 0 and variance 1.

    Args:
        w: (out, in) of a linear layer or (out, in, *kernel) of a convolution, any floating-point
            dtype. Is not modified.
        eps: added to the variance, inside the square root.

    Returns:
        The shape and the dtype of w.

    Mean and (biased) variance are taken over all axes but axis 0. Gradients flow through both.
    float16 and bfloat16 weights are computed in float32, and the result is cast back at the end.
    """
    ### BEGIN SOLUTION
    return normalize(w, tuple(range(1, w.dim())), eps)
    ### END SOLUTION


# %% [markdown]
# **Check exercise 4.**

# %% tags=["active-ipynb"] nbgrader={"grade_id": "test_standardize_weight", "points": 3}
# y = standardize_weight(torch.tensor([[-1.0, 1.0], [4.0, 8.0]]), 3.0)
# assert y is not None, "standardize_weight returned None: does it end with a return statement?"
# want = torch.tensor([[-0.5, 0.5], [-0.7559, 0.7559]])
# assert torch.allclose(y, want, atol=1e-3), (
#     f"[[-1, 1], [4, 8]] with eps=3 must become {want}, got {y.detach()}. "
#     "Is each row on its own? Is the variance divided by n, not n - 1? Is eps inside the root?"
# )
# for shape in [(4, 4), (4, 3, 5), (4, 4, 3, 3)]:
#     w = torch.randn(shape, dtype=torch.float64)
#     w = 2 + w * (1 + torch.rand(shape[:2] + (1,) * len(shape[2:])))
#     before = w.clone()
#     y = standardize_weight(w, 1e-12)
#     assert torch.equal(w, before), "standardize_weight changed w: make a new tensor"
#     assert y.shape == w.shape, f"the result must have shape {shape}, got {tuple(y.shape)}"
#     rows, sources = y.flatten(1), w.flatten(1)
#     assert rows.mean(1).abs().max() < 1e-6, "the weights of each output channel must have mean 0"
#     assert (rows.square().mean(1) - 1).abs().max() < 1e-6, (
#         "the weights of each output channel must have variance 1 (biased), over the inputs and "
#         "the kernel together"
#     )
#     ratio = (sources - sources.mean(1, keepdim=True)) / rows
#     assert torch.allclose(ratio, ratio[:, :1]), (
#         "all weights of one output channel must be divided by one and the same number"
#     )
# y = standardize_weight(torch.tensor([[-600.0, 600.0]], dtype=torch.float16), 1e-5)
# assert y.dtype == torch.float16, f"w is float16, the result must be too, but it is {y.dtype}"
# assert y.tolist() == [[-1.0, 1.0]], (
#     f"[[-600, 600]] in float16 must become [[-1, 1]], got {y.detach()}. "
#     "Are half types computed in float32?"
# )
# print("Exercise 4: the visible checks pass.")

# %% [markdown]
# ## Exercise 5: let the layer choose
#
# *7 points, hard, about 40 minutes*
#
# Which norm is best here? Switchable normalization does not decide; it measures the statistics of
# instance norm, layer norm and batch norm, and learns how much of each to use:
#
# $$
# \hat x = \frac{x-\sum_k p_k\,\mu_k}{\sqrt{\sum_k q_k\,\sigma_k^2+\varepsilon}},
# \qquad p=\operatorname{softmax}(\text{mean\_weight}),
# \quad q=\operatorname{softmax}(\text{var\_weight}),
# \quad k = \text{IN},\text{LN},\text{BN}
# $$
#
# The **statistics** are mixed, and with two sets of weights: one for the means, one for the
# variances. Then one subtraction and one division, and a scale and shift for each channel.
#
# | $k$ | mean and variance over | shape |
# |---|---|---|
# | 0, IN | `(H, W)` | `(N, C, 1, 1)` |
# | 1, LN | `(C, H, W)` | `(N, 1, 1, 1)` |
# | 2, BN | `(N, H, W)` in training; the running ones in evaluation | `(1, C, 1, 1)` |
#
# | name | shape | kind | starts as |
# |---|---|---|---|
# | `weight`, `bias` | `(num_features,)` | parameter | ones, zeros |
# | `mean_weight`, `var_weight` | `(3,)`, in the order IN, LN, BN | parameter | ones |
# | `running_mean`, `running_var` | `(num_features,)` | buffer | zeros, ones |
#
# The buffers belong to batch norm alone: they follow the plain batch mean and the **unbiased**
# batch variance, as in torch's BatchNorm, whatever the mixture is.
#
# <details><summary>Hint 1: in which order?</summary>
#
# Three pairs of mean and variance; in training the update of the buffers; two softmaxes; one mixed
# mean and one mixed variance; normalize, scale, shift, cast.
#
# </details>
#
# <details><summary>Hint 2: how to mix tensors of three shapes?</summary>
#
# They broadcast: `p[0] * mean_in + p[1] * mean_ln + p[2] * mean_bn` has the shape `(N, C, 1, 1)`.
#
# </details>
#
# <details><summary>Hint 3: what happens in evaluation?</summary>
#
# Only the third pair changes: `running_mean.view(-1, 1, 1)` and `running_var.view(-1, 1, 1)` take
# the place of the batch's. The other two are measured on `x`, as in training. Nothing is updated.
#
# </details>
#
# <details><summary>Expected output</summary>
#
# ```python
# norm = SwitchableNorm2d(2)
# x = torch.tensor([[[[1.0, 3.0]], [[10.0, 20.0]]], [[[5.0, 7.0]], [[30.0, 60.0]]]])
# print(norm(x).flatten(1))
# print(norm.running_mean, norm.running_var)
# ```
#
# prints
#
# ```
# tensor([[-0.8484, -0.4057, -0.6541,  0.1809],
#         [-0.5297, -0.3747, -0.1855,  1.4043]], grad_fn=<ViewBackward0>)
# tensor([0.4000, 3.0000]) tensor([ 1.5667, 47.5667])
# ```
#
# The name of your `grad_fn` may differ.
#
# </details>


# %% nbgrader={"grade_id": "SwitchableNorm2d", "solution": true}
class SwitchableNorm2d(nn.Module):
    """Normalize images by a learned mixture of instance, layer and batch statistics.

    Args:
        num_features: C, the size of axis 1 of the input.
        eps: added to the mixed variance, inside the square root.
        momentum: weight of the NEW value in the running statistics:
            running = (1 - momentum) * running + momentum * batch.

    Parameters (registered, trainable): weight (C,) starts as ones, bias (C,) as zeros,
    mean_weight (3,) and var_weight (3,) as ones, in the order instance, layer, batch.
    Buffers (registered): running_mean (C,) starts as zeros, running_var (C,) as ones. No other
    state.

    Input and result: (N, C, H, W); the result has the dtype of the input, which is not modified.

    Raises (forward): ValueError, in training, when a channel has fewer than two values in the
    batch (N * H * W < 2).

    Instance statistics are taken over (H, W), layer statistics over (C, H, W), batch statistics
    over (N, H, W); all variances are biased. In evaluation the running statistics take the place
    of the batch's and nothing changes; the other two are measured on the input in both modes. The
    mean is the sum of the three means, each times its share, softmax(mean_weight); the variance is
    the sum of the three variances, each times its share, softmax(var_weight). Then
    (x - mean) / sqrt(var + eps) * weight + bias.

    In training, under torch.no_grad(), running_mean takes in the batch mean and running_var the
    unbiased batch variance, neither of them mixed. Gradients flow through all statistics measured
    on the input. float16 and bfloat16 inputs are computed in float32, both softmaxes too when the
    parameters are of a half type, and the result is cast back once, at the end; the buffers keep
    their dtype.
    """

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float = 0.1) -> None:
        super().__init__()
        ### BEGIN SOLUTION
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(num_features))
        self.bias = nn.Parameter(torch.zeros(num_features))
        self.mean_weight = nn.Parameter(torch.ones(3))
        self.var_weight = nn.Parameter(torch.ones(3))
        self.register_buffer("running_mean", torch.zeros(num_features))
        self.register_buffer("running_var", torch.ones(num_features))
        ### END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        dtype = x.dtype
        if dtype in (torch.float16, torch.bfloat16):
            x = x.float()
        means, variances = [], []
        for dims in [(2, 3), (1, 2, 3), (0, 2, 3)]:  # instance, layer, batch
            mean = x.mean(dim=dims, keepdim=True)
            means.append(mean)
            variances.append((x - mean).square().mean(dim=dims, keepdim=True))
        if self.training:
            n = x.numel() // x.shape[1]  # values in each channel of the batch
            if n < 2:
                raise ValueError("training needs at least two values per channel")
            with torch.no_grad():
                mean, var = means[2].flatten(), variances[2].flatten() * n / (n - 1)
                self.running_mean.mul_(1 - self.momentum).add_(self.momentum * mean)
                self.running_var.mul_(1 - self.momentum).add_(self.momentum * var)
        else:
            means[2] = self.running_mean.view(-1, 1, 1)
            variances[2] = self.running_var.view(-1, 1, 1)
        p, q = self.mean_weight.to(x.dtype).softmax(0), self.var_weight.to(x.dtype).softmax(0)
        mean = p[0] * means[0] + p[1] * means[1] + p[2] * means[2]  # (N, C, 1, 1)
        var = q[0] * variances[0] + q[1] * variances[1] + q[2] * variances[2]
        x_hat = (x - mean) * torch.rsqrt(var + self.eps)
        return (x_hat * self.weight.view(-1, 1, 1) + self.bias.view(-1, 1, 1)).to(dtype)
        ### END SOLUTION


# %% [markdown]
# **Check exercise 5.** This check does not need your other exercises.

# %% tags=["active-ipynb"] nbgrader={"grade_id": "test_SwitchableNorm2d", "points": 7}
# norm = SwitchableNorm2d(2)
# shapes = {name: tuple(p.shape) for name, p in norm.named_parameters()}
# want = {"weight": (2,), "bias": (2,), "mean_weight": (3,), "var_weight": (3,)}
# assert shapes == want, f"the module must register the parameters {want}, but it has {shapes}"
# state = {name: t.clone() for name, t in norm.state_dict().items()}
# assert set(state) == {*want, "running_mean", "running_var"}, (
#     "state_dict must hold the four parameters, running_mean and running_var, but it holds "
#     f"{list(state)}. Are the last two registered as buffers?"
# )
# for name in ["weight", "mean_weight", "var_weight", "running_var"]:
#     assert torch.equal(state[name], torch.ones_like(state[name])), f"{name} must start as ones"
# for name in ["bias", "running_mean"]:
#     assert torch.equal(state[name], torch.zeros(2)), f"{name} must start as zeros"
#
# x = torch.tensor([[[[1.0, 3.0]], [[10.0, 20.0]]], [[[5.0, 7.0]], [[30.0, 60.0]]]])
# before = x.clone()
# y = norm(x)
# assert y is not None, "forward returned None: does it end with a return statement?"
# assert torch.equal(x, before), "SwitchableNorm2d changed its input: avoid in-place operations"
# want = torch.tensor([[-0.8484, -0.4057, -0.6541, 0.1809], [-0.5297, -0.3747, -0.1855, 1.4043]])
# assert y.shape == x.shape, f"the result must have the shape of x, got {tuple(y.shape)}"
# assert torch.allclose(y.flatten(1), want, atol=1e-3), (
#     f"for the example above a fresh module must give {want}, "
#     f"got {y.flatten(1).detach()}. Are the statistics mixed, not the outputs? Are all "
#     "variances biased?"
# )
# assert torch.allclose(norm.running_mean, torch.tensor([0.4, 3.0])), (
#     "the batch means are [4, 30], so running_mean must go from [0, 0] to [0.4, 3], but it is "
#     f"{norm.running_mean}. Is it the batch's mean, not the mixed one?"
# )
# assert torch.allclose(norm.running_var, torch.tensor([1.5667, 47.5667]), atol=1e-3), (
#     "the unbiased batch variances are [6.667, 466.67], so running_var must go from [1, 1] to "
#     f"[1.5667, 47.5667], but it is {norm.running_var}"
# )
#
# # Shares of almost 1: the module becomes each of the three norms in turn.
# x = 3 * torch.randn(3, 4, 5, 6) + 9 * torch.randn(3, 4, 1, 1)
# far = 40 * torch.eye(3)
# F = nn.functional
# rivals = {
#     "instance": F.instance_norm(x), "layer": F.group_norm(x, 1),
#     "batch": F.batch_norm(x, None, None, training=True),
# }
# for k, (name, want) in enumerate(rivals.items()):
#     norm = SwitchableNorm2d(4)
#     norm.load_state_dict({**norm.state_dict(), "mean_weight": far[k], "var_weight": far[k]})
#     assert torch.allclose(norm(x), want, atol=1e-3), (
#         f"with mean_weight and var_weight far on the side of entry {k} the result must be that "
#         f"of {name} norm. Is the order instance, layer, batch? Is there a softmax?"
#     )
# # Means of one norm, variances of another.
# norm = SwitchableNorm2d(4)
# norm.load_state_dict({**norm.state_dict(), "mean_weight": far[0], "var_weight": far[1]})
# want = (x - x.mean((2, 3), keepdim=True)) / x.var((1, 2, 3), correction=0, keepdim=True).sqrt()
# assert torch.allclose(norm(x), want, atol=1e-3), (
#     "mean_weight must mix the means and var_weight the variances, each by its own softmax"
# )
#
# # Evaluation: running statistics in the place of the batch's, and nothing moves.
# state = norm.state_dict() | {
#     "weight": torch.tensor([2.0, 1.0, 1.0, 1.0]), "bias": torch.tensor([0.0, 5.0, 0.0, 0.0]),
#     "running_mean": torch.tensor([1.0, -1.0, 0.0, 0.0]),
#     "running_var": torch.tensor([4.0, 0.25, 1.0, 1.0]),
#     "mean_weight": far[2], "var_weight": far[2],
# }
# norm.load_state_dict(state)
# norm.eval()
# y = norm(torch.tensor([3.0, 0.0, 7.0, 8.0]).view(1, 4, 1, 1))
# assert torch.allclose(y.flatten(), torch.tensor([2.0, 7.0, 7.0, 8.0]), atol=1e-3), (
#     "in evaluation, with running means [1, -1, 0, 0] and variances [4, 0.25, 1, 1], the image "
#     "[3, 0, 7, 8] must give [2, 7, 7, 8] (after the weight and bias of this check), "
#     f"got {y.flatten().detach()}"
# )
# assert all(torch.equal(norm.state_dict()[name], t) for name, t in state.items()), (
#     "nothing may change in evaluation"
# )
# y = SwitchableNorm2d(1, eps=3.0)(torch.tensor([[[[-1.0, 1.0]]]]))
# assert torch.allclose(y.flatten(), torch.tensor([-0.5, 0.5])), (
#     "SwitchableNorm2d(1, eps=3.0) must turn [-1, 1] into [-0.5, 0.5], "
#     f"got {y.flatten().detach()}. Is eps used?"
# )
# norm = SwitchableNorm2d(4)
# norm(x).mul(torch.randn(x.shape)).sum().backward()
# assert all(p.grad is not None for p in norm.parameters()), (
#     "a parameter got no gradient: use self.weight, self.bias, self.mean_weight and "
#     "self.var_weight themselves"
# )
# y = norm(x.bfloat16())
# assert y.dtype == torch.bfloat16, f"x is bfloat16, the result must be too, but it is {y.dtype}"
# print("Exercise 5: the visible checks pass.")

# %% [markdown]
# ## Question: which norm?
#
# *3 points, in words, about 10 minutes*
#
# You fine-tune a network that finds tumours in large medical images. The images are so large that
# only **two** fit on the device. The network came with batch norm and was trained elsewhere with 64
# images to a batch. The brightness of a spot, compared with its surroundings, is a hint at a
# tumour; the overall brightness depends on the scanner.
#
# Would you keep batch norm? Name **two** alternatives for this network. For each say what speaks
# for it and against it *here*: the batch of two, the brightness, and the weights you already have.
# Five to ten sentences.
#
# Write your answer into the next cell, in place of its text. Nothing runs it; a person reads it.

# %% [markdown] nbgrader={"grade_id": "written_which_norm", "written": true, "points": 3}
# ### BEGIN SOLUTION
# **Marking guide.** 1 point for what is wrong with batch norm at two images, 1 point for each of
# two alternatives with a reason for and a reason against it (half a point with only one side).
#
# Batch norm in training mode: mean and variance of two images are noisy, and what the network
# learns with them differs from what the running statistics give in evaluation. That large images
# have many positions helps only partly: positions of one image are alike.
#
# Alternatives, any two:
#
# - Frozen batch norm (evaluation mode while training, running statistics of the 64): fits the
#   weights at hand exactly, no dependence on the batch. Against: the statistics are those of the
#   old data; another scanner shifts them.
# - Group norm: no dependence on the batch, the same in training and evaluation; brightness relative
#   to the image survives in part, since a group shares one mean over the whole image. Against: the
#   weights were trained for another norm, so it has to be trained again or for longer; the number
#   of groups is one more choice.
# - Group norm with weight standardization: as before; reported to close the gap to batch norm with
#   large batches. Against: every convolution changes too.
# - Layer norm over (C, H, W): as group norm with one group.
# - Instance norm: removes the scanner's brightness and contrast exactly. Against: it removes each
#   channel's overall level, too, so "how much of this feature is in the image" is lost. (Contrast
#   with the surroundings is not lost: it is inside one channel.) A full point needs this trade-off.
# - Synchronized batch norm over several devices, or accumulation of statistics: keeps the weights.
#   Against: needs more devices, communication; gradient accumulation alone does **not** help.
#
# No points for "batch norm is old" or for an alternative without a reason tied to this case.
# ### END SOLUTION

# %% [markdown]
# ## Before you hand in
#
# - Restart the kernel and run all cells (*Kernel > Restart Kernel and Run All Cells*). Cells that
#   were run in another order can hide a mistake.
# - All five check cells print that their checks pass. The hidden tests go further: read the five
#   docstrings once more and try shapes, dtypes and values of `eps` that the checks do not use.
# - No exercise calls a ready-made normalization.
