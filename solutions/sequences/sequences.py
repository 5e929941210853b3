# %% [markdown]
# # BatchNorm meets sequences
#
# Sentences differ in length, so a batch of them is filled up with padding, and batch norm counts
# the padding as if it were words. In this notebook you tell real tokens from padding, take
# statistics over the real ones only, build a batch norm on them, and measure how far the
# statistics of a batch are from those a network would remember. The chapter *BatchNorm meets
# sequences* of the course book explains every idea used here; keep its page `sequences.html` open
# beside this notebook (its text is also in [book/sequences.md](../../book/sequences.md)).
#
# | exercise | you write | points | difficulty | time |
# |---|---|---|---|---|
# | 1 | `padding_mask(lengths, max_len)` | 3 | easy | 5 min |
# | 2 | `masked_mean_var(x, mask)` | 5 | medium | 15 min |
# | 3 | `masked_batch_norm(x, mask, weight, bias, eps)` | 7 | medium | 20 min |
# | 4 | `running_stat_distance(batches)` | 5 | medium | 20 min |
#
# Two written questions at the end are worth 3 points each. A person grades them.
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
# **Rules.** Do not call a ready-made normalization (`torch.nn.functional.batch_norm`,
# `torch.nn.BatchNorm1d`, layer or group norm, and so on). Cells of your own may call all of this,
# to compare. Where one of your functions reaches it during a hidden test, that test fails. Keep the
# names and the arguments of the functions.
#
# **How to hand in.** Save the notebook and hand in this one file, `sequences.ipynb`, without
# renaming it.

# %%
import torch
from torch import Tensor

# %% [markdown]
# ## Exercise 1: which tokens are real?
#
# *3 points, easy, about 5 minutes*
#
# Sentences of different lengths lie in one tensor, filled up at the end to `max_len` positions. The
# lengths are all that is needed to say which of the positions hold a token: position `l` of
# sentence `b` is real if `l` is less than `lengths[b]`.
#
# | name | shape | |
# |---|---|---|
# | `lengths` | `(B,)` | whole numbers from 0 to `max_len` |
# | result | `(B, max_len)` | `True` at a real token, `False` at padding |
#
# <details><summary>Hint 1: what to compare?</summary>
#
# The positions 0, 1, ..., `max_len - 1` with the lengths: each position with each length.
#
# </details>
#
# <details><summary>Hint 2: how to compare each with each?</summary>
#
# `lengths[:, None]` has the shape `(B, 1)`, `torch.arange(max_len)` has the shape `(max_len,)`.
# Compared with `<` they broadcast to `(B, max_len)`.
#
# </details>
#
# <details><summary>Hint 3: when is a length refused?</summary>
#
# When any of them is below 0 or above `max_len`: `(lengths < 0) | (lengths > max_len)` is `True`
# somewhere.
#
# </details>
#
# <details><summary>Expected output</summary>
#
# ```python
# print(padding_mask(torch.tensor([2, 4]), 4))
# ```
#
# prints
#
# ```
# tensor([[ True,  True, False, False],
#         [ True,  True,  True,  True]])
# ```
#
# </details>


# %% nbgrader={"grade_id": "padding_mask", "solution": true}
def padding_mask(lengths: Tensor, max_len: int) -> Tensor:
    """Say which positions of a padded batch hold a real token.

    Args:
        lengths: (B,), the number of tokens of each sentence, any integer dtype. Is not modified.
        max_len: L, the number of positions of the padded batch. May be larger than all lengths.

    Returns:
        (B, L), dtype bool: True where the position is less than the length of its sentence, that
        is, at the first lengths[b] positions of row b. A sentence of length 0 has no True at all.

    Raises:
        ValueError: when a length is negative or larger than max_len.
    """
    ### BEGIN SOLUTION
    if ((lengths < 0) | (lengths > max_len)).any():
        raise ValueError("a length must be at least 0 and at most max_len")
    position = torch.arange(max_len, device=lengths.device)  # (L,)
    return position < lengths[:, None]  # (L,) and (B, 1) give (B, L)
    ### END SOLUTION


# %% [markdown]
# **Check exercise 1.** Run the next cell. No error means that all visible checks passed.

# %% tags=["active-ipynb"] nbgrader={"grade_id": "test_padding_mask", "points": 3}
# lengths = torch.tensor([2, 5, 0])
# mask = padding_mask(lengths, 5)
# assert mask is not None, "padding_mask returned None: does it end with a return statement?"
# assert mask.shape == (3, 5), (
#     f"three sentences and five positions need the shape (3, 5), got {tuple(mask.shape)}"
# )
# assert mask.dtype == torch.bool, f"the mask must have dtype bool, but it has {mask.dtype}"
# assert mask[1].all(), (
#     f"a sentence of length 5 fills all five positions, got {mask[1].tolist()}. "
#     "Is True the sign of a real token?"
# )
# assert mask[0].tolist() == [True, True, False, False, False], (
#     f"a sentence of length 2 is real at its first two positions, got {mask[0].tolist()}"
# )
# assert not mask[2].any(), f"a sentence of length 0 has no token, got {mask[2].tolist()}"
# assert lengths.tolist() == [2, 5, 0], "padding_mask changed lengths"
# assert padding_mask(torch.tensor([1, 2]), 6).shape == (2, 6), (
#     "max_len = 6 needs six positions, also when all sentences are shorter"
# )
# for wrong in [[2, 6], [-1, 3]]:
#     try:
#         padding_mask(torch.tensor(wrong), 5)
#     except ValueError:
#         continue
#     raise AssertionError(f"the lengths {wrong} do not fit into 5 positions: raise a ValueError")
# print("Exercise 1: the visible checks pass.")

# %% [markdown]
# ## Exercise 2: mean and variance of the real tokens
#
# *5 points, medium, about 15 minutes*
#
# Batch norm wants one mean and one variance for each feature, over all tokens of all sentences.
# Padding is not a token. It must enter neither the sums nor the number they are divided by:
#
# $$
# \mu_d = \frac1n\sum_{(b,l)\ \text{real}} x_{b,l,d},
# \qquad
# \sigma_d^2 = \frac1n\sum_{(b,l)\ \text{real}} (x_{b,l,d}-\mu_d)^2,
# \qquad n = \text{number of real tokens}
# $$
#
# | name | shape for a batch of sentences | in general |
# |---|---|---|
# | `x` | `(B, L, D)` | `(..., D)` |
# | `mask` | `(B, L)`, `True` at real tokens | `(...)`, the shape of `x` without its last axis |
# | mean, variance | `(D,)` | one of each per feature |
#
# <details><summary>Hint 1: how to pick out the real tokens?</summary>
#
# A mask can be an index: `x[mask]` has the shape `(n, D)`. It holds the real tokens, one under the
# other, whatever the shape of `x` was.
#
# </details>
#
# <details><summary>Hint 2: and with multiplication instead?</summary>
#
# Multiplying by the mask works for zeros, but padding may hold anything, and NaN times 0 is NaN.
# `x.masked_fill(~mask.unsqueeze(-1), 0)` replaces it. Then sum and divide by `mask.sum()`; and mask
# once more after the mean has been subtracted, since padding is now minus the mean.
#
# </details>
#
# <details><summary>Hint 3: which dtype do the statistics have?</summary>
#
# That of `x`, except that float16 and bfloat16 are turned into float32 first, and the statistics
# stay float32: whoever uses them can round later.
#
# </details>
#
# <details><summary>Expected output</summary>
#
# ```python
# x = torch.tensor([[[1.0, 10.0], [3.0, 10.0], [0.0, 0.0]], [[5.0, 40.0], [7.0, 40.0], [9.0, 50.0]]])
# mask = torch.tensor([[True, True, False], [True, True, True]])
# print(masked_mean_var(x, mask))
# ```
#
# prints
#
# ```
# (tensor([ 5., 30.]), tensor([  8., 280.]))
# ```
#
# Five real tokens: the first feature is 1, 3, 5, 7, 9. With the zero of the padding its mean would
# be 25 / 6.
#
# </details>


# %% nbgrader={"grade_id": "masked_mean_var", "solution": true}
def masked_mean_var(x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of each feature over the real tokens.

    Args:
        x: (..., D), any rank >= 2, any floating-point dtype, for example (B, L, D). Not modified.
        mask: (...), dtype bool, True where x holds a real token, in any pattern.

    Returns:
        mean: (D,), the mean over all real tokens of all sentences together.
        var: (D,), their biased variance (divide by n, the number of real tokens).

    Raises:
        ValueError: when there is no real token.

    The other places of x may hold anything, even inf or NaN; they reach neither the statistics nor
    a gradient. Gradients flow to the real tokens. The statistics have the dtype of x, but for
    float16 and bfloat16 they are computed in float32 and stay float32.
    """
    ### BEGIN SOLUTION
    if x.dtype in (torch.float16, torch.bfloat16):
        x = x.float()
    tokens = x[mask]  # (n, D): the real tokens only
    if len(tokens) == 0:
        raise ValueError("there is no real token")
    mean = tokens.mean(dim=0)  # (D,)
    var = (tokens - mean).square().mean(dim=0)  # (D,)
    return mean, var
    ### END SOLUTION


# %% [markdown]
# **Check exercise 2.** This check does not need your exercise 1.

# %% tags=["active-ipynb"] nbgrader={"grade_id": "test_masked_mean_var", "points": 5}
# x = torch.tensor([[[1.0, 8.0], [3.0, 8.0], [0.0, 0.0], [0.0, 0.0]],
#                   [[5.0, 32.0], [7.0, 32.0], [9.0, 40.0], [11.0, 0.0]]])
# mask = torch.tensor([[True, True, False, False], [True, True, True, True]])
# before = x.clone()
# found = masked_mean_var(x, mask)
# assert found is not None, "masked_mean_var returned None: does it end with a return statement?"
# assert isinstance(found, tuple) and len(found) == 2, "masked_mean_var must return two: mean and variance"
# mean, var = found
# assert torch.equal(x, before), "masked_mean_var changed its input: avoid in-place operations on x"
# assert mean.shape == var.shape == (2,), (
#     f"two features need statistics of shape (2,), got {tuple(mean.shape)} and {tuple(var.shape)}"
# )
# assert torch.allclose(mean, torch.tensor([6.0, 20.0])), (
#     "the first feature of the six real tokens is 1, 3, 5, 7, 9, 11, the mean of both features is "
#     f"[6, 20], got {mean.tolist()}. Is the sum divided by the number of real tokens, and taken "
#     "over all of them together?"
# )
# assert torch.allclose(var, torch.tensor([35 / 3, 688 / 3])), (
#     f"the variances of the six real tokens are [11.667, 229.33], got {var.tolist()}. "
#     "Is the padding left out after the mean was subtracted, too? Is it divided by n, not n - 1?"
# )
#
# # Real tokens packed into one long row give the same statistics, with any pattern of the mask.
# x = 5 + torch.randn(3, 4, 6, dtype=torch.float64)
# mask = torch.rand(3, 4) < 0.6
# mask[0, :2] = True
# mean, var = masked_mean_var(x, mask)
# assert mean.dtype == torch.float64, f"x is float64, the mean must be too, but it is {mean.dtype}"
# assert torch.allclose(mean, x[mask].mean(0)), "the mean must be that of the real tokens only"
# assert torch.allclose(var, x[mask].var(0, correction=0)), (
#     "the variance must be the biased one of the real tokens only"
# )
#
# # What stands at padding does not matter.
# mean, var = masked_mean_var(x.masked_fill(~mask[..., None], torch.nan), mask)
# assert mean.isfinite().all() and var.isfinite().all(), (
#     "NaN in the padding reached the statistics: NaN times 0 is NaN, so pick the real tokens out "
#     "or replace the padding"
# )
# mean, var = masked_mean_var(torch.full((1, 2, 3), 300.0, dtype=torch.float16), torch.ones(1, 2) > 0)
# assert mean.dtype == var.dtype == torch.float32, (
#     f"the statistics of float16 tokens must be float32, got {mean.dtype} and {var.dtype}"
# )
# try:
#     masked_mean_var(x, torch.zeros(3, 4, dtype=torch.bool))
# except ValueError:
#     pass
# else:
#     raise AssertionError("a batch without a real token has no statistics: raise a ValueError")
# print("Exercise 2: the visible checks pass.")

# %% [markdown]
# ## Exercise 3: a batch norm that knows padding
#
# *7 points, medium, about 20 minutes*
#
# Now normalize with these statistics. A real token then comes out the same however much padding the
# batch holds, and exactly as if all real tokens had been packed into one row and passed through an
# ordinary batch norm in training. Padding comes out as 0.
#
# $$
# y_{b,l,d} = \begin{cases}
#   \gamma_d\,\dfrac{x_{b,l,d}-\mu_d}{\sqrt{\sigma_d^2+\varepsilon}} + \beta_d & \text{real}\\[2ex]
#   0 & \text{padding}
# \end{cases}
# $$
#
# | name | shape for a batch of sentences | in general |
# |---|---|---|
# | `x`, the result | `(B, L, D)` | `(..., D)` |
# | `mask` | `(B, L)`, `True` at real tokens | `(...)` |
# | `weight`, `bias`, mean, variance | `(D,)` | one number per feature |
#
# <details><summary>Hint 1: in which order?</summary>
#
# Replace the padding by 0; statistics of the real tokens; normalize, scale and shift every place;
# set the padding to 0; cast back. Half types need no step of their own if the statistics are
# float32: float16 minus float32 is float32.
#
# </details>
#
# <details><summary>Hint 2: why replace the padding twice?</summary>
#
# Before: so that NaN in the padding cannot reach a gradient. (The gradient of `weight` is a sum
# over all places, and 0 times NaN is NaN.) After: since `bias` has been added everywhere.
#
# </details>
#
# <details><summary>Hint 3: how to set places to 0?</summary>
#
# `y.masked_fill(~mask.unsqueeze(-1), 0)`: the mask gets a last axis of length 1, and `~` turns it
# round.
#
# </details>
#
# <details><summary>Expected output</summary>
#
# ```python
# x = torch.tensor([[[1.0, 10.0], [3.0, 10.0], [0.0, 0.0]], [[5.0, 40.0], [7.0, 40.0], [9.0, 50.0]]])
# mask = torch.tensor([[True, True, False], [True, True, True]])
# print(masked_batch_norm(x, mask, torch.ones(2), torch.tensor([0.0, 5.0]), 1e-5))
# ```
#
# prints
#
# ```
# tensor([[[-1.4142,  3.8048],
#          [-0.7071,  3.8048],
#          [ 0.0000,  0.0000]],
#
#         [[ 0.0000,  5.5976],
#          [ 0.7071,  5.5976],
#          [ 1.4142,  6.1952]]])
# ```
#
# </details>


# %% nbgrader={"grade_id": "masked_batch_norm", "solution": true}
def masked_batch_norm(x: Tensor, mask: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """Batch norm in training mode whose statistics are those of the real tokens.

    Args:
        x: (..., D), any rank >= 2, any floating-point dtype, for example (B, L, D). Not modified.
        mask: (...), dtype bool, True where x holds a real token, in any pattern.
        weight: (D,), multiplies the normalized feature.
        bias: (D,), is added last.
        eps: added to the variance, inside the square root.

    Returns:
        The shape and the dtype of x. Where mask is False the result is exactly 0.

    Raises:
        ValueError: when there are fewer than two real tokens.

    Mean and (biased) variance of each feature are taken over all real tokens together. The other
    places of x may hold anything, even inf or NaN; they reach neither the result nor a gradient,
    and their own gradient is 0. Gradients flow through mean and variance. float16 and bfloat16
    inputs are computed in float32, and the result is cast back once, after the scale and the shift.
    """
    ### BEGIN SOLUTION
    if mask.sum() < 2:
        raise ValueError("training needs at least two real tokens")
    padding = ~mask.unsqueeze(-1)  # (..., 1)
    tokens = x.masked_fill(padding, 0)  # (..., D), whatever stood there
    mean, var = masked_mean_var(tokens, mask)  # (D,) each, float32 if x is float16 or bfloat16
    x_hat = (tokens - mean) * torch.rsqrt(var + eps)  # (..., D), and so is this
    return (x_hat * weight + bias).masked_fill(padding, 0).to(x.dtype)
    ### END SOLUTION


# %% [markdown]
# **Check exercise 3.** This check compares with torch's own batch norm of the packed tokens. If your
# function calls your `masked_mean_var`, solve exercise 2 first.

# %% tags=["active-ipynb"] nbgrader={"grade_id": "test_masked_batch_norm", "points": 7}
# # Mean 0, variance 1, and eps = 3: each entry is divided by sqrt(1 + 3) = 2.
# x, mask = torch.tensor([[[-1.0], [1.0], [9.0]]]), torch.tensor([[True, True, False]])
# y = masked_batch_norm(x, mask, torch.ones(1), torch.zeros(1), 3.0)
# assert y is not None, "masked_batch_norm returned None: does it end with a return statement?"
# assert y.shape == (1, 3, 1), f"the result must have the shape of x, got {tuple(y.shape)}"
# assert torch.allclose(y[0, :2, 0], torch.tensor([-0.5, 0.5])), (
#     f"the real tokens -1 and 1 with eps=3 must become -0.5 and 0.5, got {y[0, :2, 0].tolist()}. "
#     "Is the padding left out of mean and variance? Is eps inside the square root?"
# )
#
# # Packed into one row, the real tokens give the same under torch's own batch norm.
# for shape in [(3, 5, 4), (7, 4), (2, 3, 2, 4)]:
#     x = 7 + 3 * torch.randn(shape, dtype=torch.float64)
#     mask = torch.rand(shape[:-1]) < 0.6
#     mask[0] = True
#     mask[-1] = False
#     if len(shape) == 2:
#         mask[:3] = True
#     before = x.clone()
#     ones, zeros = torch.ones(4).double(), torch.zeros(4).double()
#     y = masked_batch_norm(x, mask, ones, zeros, 0.1)
#     assert torch.equal(x, before), "masked_batch_norm changed its input: avoid in-place operations"
#     want = torch.nn.functional.batch_norm(x[mask], None, None, training=True, eps=0.1)
#     assert torch.allclose(y[mask], want), (
#         f"for x of shape {shape} the real tokens must be those that an ordinary batch norm makes "
#         "of the packed tokens: one mean and one (biased) variance per feature, of real tokens only"
#     )
#     weight, bias = torch.tensor([2.0, -1.0, 3.0, 1.0]).double(), torch.arange(4.0).double() - 7
#     y = masked_batch_norm(x, mask, weight, bias, 0.1)
#     assert torch.allclose(y[mask], want * weight + bias), (
#         "with weight and bias the real tokens must be normalized * weight + bias, feature by "
#         "feature"
#     )
#     assert (y[~mask] == 0).all(), "padding must come out as 0, also when bias is not 0"
#     y = masked_batch_norm(x.masked_fill(~mask[..., None], torch.nan), mask, weight, bias, 0.1)
#     assert torch.allclose(y[mask], want * weight + bias), "NaN in the padding reached real tokens"
#     assert (y[~mask] == 0).all(), "NaN in the padding must come out as 0"
#
# # Gradients: none for the padding, and none spoiled by it.
# x = torch.randn(2, 3, 4).masked_fill(torch.tensor([[[0], [0], [1]], [[0], [1], [1]]]) > 0, torch.nan)
# mask = torch.tensor([[True, True, False], [True, False, False]])
# x.requires_grad_()
# weight = torch.ones(4, requires_grad=True)
# y = masked_batch_norm(x, mask, weight, torch.zeros(4), 0.1)
# (y * torch.randn(2, 3, 4)).sum().backward()
# assert x.grad is not None and weight.grad is not None, "a gradient is missing: is there a detach?"
# assert weight.grad.isfinite().all(), (
#     "NaN in the padding reached the gradient of weight: replace the padding before you compute"
# )
# assert (x.grad[~mask] == 0).all(), "the gradient of the padding must be 0"
# try:
#     masked_batch_norm(torch.randn(1, 2, 4), torch.tensor([[True, False]]), weight, weight, 0.1)
# except ValueError:
#     pass
# else:
#     raise AssertionError("a single real token must raise a ValueError")
#
# # Half precision: 600 squared is 360000, more than float16 can hold (65504).
# x = torch.tensor([[[-600.0], [600.0]]], dtype=torch.float16)
# y = masked_batch_norm(x, torch.ones(1, 2) > 0, torch.ones(1).half(), torch.zeros(1).half(), 1e-5)
# assert y.dtype == torch.float16, f"x is float16, the result must be too, but it is {y.dtype}"
# assert y.flatten().tolist() == [-1.0, 1.0], (
#     f"the tokens -600 and 600 in float16 must become -1 and 1, got {y.flatten().tolist()}. "
#     "Are half types computed in float32?"
# )
# print("Exercise 3: the visible checks pass.")

# %% [markdown]
# ## Exercise 4: how far is a batch from what is remembered?
#
# *5 points, medium, about 20 minutes*
#
# In training, batch norm uses the statistics of the batch; in evaluation, the running ones. If the
# two are far apart, the network was trained for one input and gets another. Measure how far: for
# each batch, the length of the difference, divided by the number of features,
#
# $$
# \frac1D\,\lVert\mu_t-\mu\rVert
# \qquad\text{and}\qquad
# \frac1D\,\lVert\sigma^2_t-\sigma^2\rVert ,
# $$
#
# where $\mu_t,\sigma_t^2$ are those of batch $t$ and $\mu,\sigma^2$ the running ones **before** they
# take in this batch.
#
# | name | shape | |
# |---|---|---|
# | `batches` | a list of T tensors `(..., D)` | tokens of one batch each, no padding |
# | mean, variance of a batch | `(D,)` | over all its tokens |
# | results | `(T - 1,)` each | one number for every batch but the first |
#
# The running statistics start as those of the first batch. Every later batch is first compared with
# them, then taken in: `running = 0.9 * running + 0.1 * batch`.
#
# <details><summary>Hint 1: what is done with one batch?</summary>
#
# Flatten it to a table of tokens, `batch.reshape(-1, D)`; mean and biased variance over axis 0; two
# distances; two updates. The first batch only sets the running statistics.
#
# </details>
#
# <details><summary>Hint 2: how long is a difference?</summary>
#
# The root of the sum of the squares: `(mean - running_mean).square().sum().sqrt()`, or `.norm()` of
# the difference. Divide it by D, not by the root of D.
#
# </details>
#
# <details><summary>Hint 3: how to return many numbers?</summary>
#
# Collect them in two lists and use `torch.stack` on each list at the end.
#
# </details>
#
# <details><summary>Expected output</summary>
#
# ```python
# batches = [torch.tensor([[0.0, 0.0], [2.0, 4.0]]), torch.tensor([[4.0, 6.0], [4.0, 6.0]])] * 2
# for distance in running_stat_distance(batches):
#     print(distance)
# ```
#
# prints
#
# ```
# tensor([2.5000, 0.2500, 2.2750])
# tensor([2.0616, 0.2062, 1.8760])
# ```
#
# The means go (1, 2), (4, 6), (1, 2), (4, 6): the first distance is $\frac12\sqrt{3^2+4^2}$. After
# that the running mean has moved a tenth of the way, which is the second distance.
#
# </details>


# %% nbgrader={"grade_id": "running_stat_distance", "solution": true}
def running_stat_distance(batches: list[Tensor]) -> tuple[Tensor, Tensor]:
    """How far the statistics of each batch are from the running ones, before they take it in.

    Args:
        batches: T >= 2 tensors (..., D), in the order in which they come, all with the same D and
            the same floating-point dtype. Their other axes may differ. Are not modified.

    Returns:
        mean_distance: (T - 1,), for each batch but the first: the Euclidean norm of (mean of the
            batch - running mean), divided by D.
        var_distance: (T - 1,), the same for the variance.

    Raises:
        ValueError: when there are fewer than two batches.

    Mean and biased variance of a batch are taken over all its axes but the last. The running
    statistics start as those of the first batch; after a later batch was compared with them, they
    become 0.9 * running + 0.1 * batch. The results have the dtype of the batches, but for float16
    and bfloat16 they are computed in float32 and stay float32.
    """
    ### BEGIN SOLUTION
    if len(batches) < 2:
        raise ValueError("there is nothing to compare with fewer than two batches")
    mean_distance, var_distance = [], []
    running_mean = running_var = None
    for batch in batches:
        d = batch.shape[-1]
        tokens = batch.reshape(-1, d)  # (n, D)
        if tokens.dtype in (torch.float16, torch.bfloat16):
            tokens = tokens.float()
        mean = tokens.mean(dim=0)  # (D,)
        var = (tokens - mean).square().mean(dim=0)  # (D,)
        if running_mean is None:  # the first batch: nothing to compare with yet
            running_mean, running_var = mean, var
            continue
        mean_distance.append((mean - running_mean).square().sum().sqrt() / d)
        var_distance.append((var - running_var).square().sum().sqrt() / d)
        running_mean = 0.9 * running_mean + 0.1 * mean
        running_var = 0.9 * running_var + 0.1 * var
    return torch.stack(mean_distance), torch.stack(var_distance)
    ### END SOLUTION


# %% [markdown]
# **Check exercise 4.** This check does not need your other exercises.

# %% tags=["active-ipynb"] nbgrader={"grade_id": "test_running_stat_distance", "points": 5}
# # Means (1, 2) and (7, 10): the difference (6, 8) has the length 10. Divided by D = 2 that is 5.
# batches = [torch.tensor([[0.0, 0.0], [2.0, 4.0]]), torch.tensor([[7.0, 10.0], [7.0, 10.0]])]
# before = [batch.clone() for batch in batches]
# found = running_stat_distance(batches)
# assert found is not None, "running_stat_distance returned None: is a return statement missing?"
# assert isinstance(found, tuple) and len(found) == 2, (
#     "running_stat_distance must return mean_distance, var_distance"
# )
# assert all(torch.equal(a, b) for a, b in zip(batches, before)), "a batch was changed"
# for distance in found:
#     assert isinstance(distance, torch.Tensor) and distance.shape == (1,), (
#         "two batches give one distance, a tensor of shape (1,): the first has nothing to be "
#         "compared with"
#     )
# assert torch.allclose(found[0], torch.tensor([5.0])), (
#     f"the means (1, 2) and (7, 10) are sqrt(36 + 64) / 2 = 5 apart, got {found[0].item():.4f}. "
#     "Is it the root of the sum of squares, divided by D?"
# )
# assert torch.allclose(found[1], torch.tensor([17**0.5 / 2])), (
#     "the variances (1, 4) and (0, 0) are sqrt(1 + 16) / 2 = 2.0616 apart, got "
#     f"{found[1].item():.4f}. Is the variance divided by n, not n - 1?"
# )
# # The same two again and again: the running statistics move a tenth of the way in each step.
# mean_distance, _ = running_stat_distance(batches + batches)
# assert mean_distance.shape == (3,), f"four batches give three distances, got {mean_distance.shape}"
# assert torch.allclose(mean_distance, torch.tensor([5.0, 0.5, 4.55])), (
#     "for the means (1, 2), (7, 10), (1, 2), (7, 10) the distances are [5, 0.5, 4.55], got "
#     f"{mean_distance.tolist()}. Is a batch compared before it is taken in? Is the new batch "
#     "weighted with 0.1?"
# )
# # Sentences instead of tokens, of different number, in float64.
# tokens = [torch.randn(n, 5, dtype=torch.float64) for n in (12, 20, 6)]
# want = running_stat_distance(tokens)
# found = running_stat_distance([t.reshape(2, -1, 5) for t in tokens])
# assert found[0].dtype == torch.float64, f"the result must be float64, but it is {found[0].dtype}"
# assert torch.allclose(found[0], want[0]) and torch.allclose(found[1], want[1]), (
#     "the statistics of (B, L, D) go over all tokens of all sentences"
# )
# assert running_stat_distance([t.half() for t in tokens])[0].dtype == torch.float32, (
#     "for float16 batches the distances must be float32"
# )
# for few in [[], tokens[:1]]:
#     try:
#         running_stat_distance(few)
#     except ValueError:
#         continue
#     raise AssertionError("fewer than two batches must raise a ValueError")
# print("Exercise 4: the visible checks pass.")

# %% [markdown]
# ## Question: is it the padding?
#
# *3 points, in words, about 10 minutes*
#
# A colleague explains: "Transformers do not use batch norm because the padded zeros spoil its
# statistics. That is the whole reason." Exercise 3 takes the padding out exactly. What does that
# say about the explanation? Name what is right in it, and **two** other reasons against batch norm
# on text that masking leaves untouched. For one of them describe an experiment that would show it
# with no padding anywhere. Five to ten sentences.
#
# Write your answer into the next cell, in place of its text. Nothing runs it; a person reads it.

# %% [markdown] nbgrader={"grade_id": "written_is_it_the_padding", "written": true, "points": 3}
# ### BEGIN SOLUTION
# **Marking guide.** 1 point for judging the explanation, 1 point for two other reasons (half a point
# for one), 1 point for an experiment that needs no padding.
#
# Judging: padded zeros do shift the statistics (mean to f m, variance to f v + f (1 - f) m² with
# the real share f), and they make training and use differ. But they can be masked out exactly, and
# batch norm with masked statistics still lost to layer norm on text in the study that tried it, so
# they are not the whole reason.
#
# Other reasons, any two: the statistics of text differ much from batch to batch, so batch and
# running statistics disagree (train and evaluation mode see different inputs); the output of a
# token depends on the other sentences of the batch; in a causal model the statistics contain later
# tokens, which do not exist yet at generation; batch of one or few tokens; statistics per position
# have few samples at late positions and none beyond the longest training sentence (only for batch
# norm per position); several devices see different batches.
#
# Experiment: for example sentences of equal length (or a packed stream), then batch against running
# statistics (exercise 4) for text and for something else; or the same sentence with other
# companions, or with its last token changed, and the change of the output. Full point only if the
# compared quantity is named.
# ### END SOLUTION

# %% [markdown]
# ## Question: a look ahead
#
# *3 points, in words, about 10 minutes*
#
# A causal language model predicts each token from those before it. Somebody puts batch norm into
# it, pooled over all tokens of the batch, and takes care that attention never looks ahead. Does the
# prediction at position 3 depend on the token at position 9, in training? In evaluation? Explain
# through which numbers. Then: what happens when this model writes text, one token at a time, for a
# single user, in training mode by mistake? Five to eight sentences.
#
# Write your answer into the next cell, in place of its text. Nothing runs it; a person reads it.

# %% [markdown] nbgrader={"grade_id": "written_a_look_ahead", "written": true, "points": 3}
# ### BEGIN SOLUTION
# **Marking guide.** 1 point for training (yes, with the path), 1 point for evaluation (no, with the
# reason), 1 point for generation in training mode.
#
# Training: yes. The token at position 9 enters the mean and the variance of every feature, and every
# position is normalized with them, position 3 too. (Also the tokens of all other sentences.) It is
# a leak: information about the target can pass backwards, although a network gains little from it.
#
# Evaluation: no. The running statistics are fixed numbers, so position 3 depends on positions 1 to 3
# only, through attention. The price: the network was trained with other statistics.
#
# Generation in training mode: the batch is one sentence, or with a cache a single token. A single
# token minus its own mean is 0, so the output is the bias, whatever the token was (torch raises an
# error there). With a few tokens the statistics are those of a handful of similar tokens; outputs of
# earlier positions change with each new token, so cached keys and values are no longer right. And
# the running statistics move with every call. Any two of these for the full point.
# ### END SOLUTION

# %% [markdown]
# ## Before you hand in
#
# - Restart the kernel and run all cells (*Kernel > Restart Kernel and Run All Cells*). Cells that
#   were run in another order can hide a mistake.
# - All four check cells print that their checks pass. The hidden tests go further: read the four
#   docstrings once more and try shapes, dtypes, masks and values of `eps` that the checks do not
#   use.
# - No exercise calls a ready-made normalization.
