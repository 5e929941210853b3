# %% [markdown]
# # BatchNorm
#
# In this notebook you write batch normalization as a function and as a module, derive its backward
# pass, and fold a trained BatchNorm into the layer before it, so that it costs nothing. The chapter
# *BatchNorm* of the course book explains every idea used here; keep its page `batchnorm.html` open
# beside this notebook (its text is also in [book/batchnorm.md](../../book/batchnorm.md)).
#
# | exercise | you write | points | difficulty | time |
# |---|---|---|---|---|
# | 1 | `batch_norm(x, weight, bias, ..., training, momentum, eps)` | 10 | medium | 30 min |
# | 2 | `BatchNorm(num_features, eps, momentum)` | 6 | medium | 20 min |
# | 3 | `batch_norm_backward(grad_out, x, weight, eps)` | 7 | hard | 35 min |
# | 4 | `fold_batch_norm(weight, bias, running_mean, ..., eps)` | 4 | medium | 20 min |
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
# **Rules.** Do not call a ready-made normalization (`torch.nn.functional.batch_norm`,
# `torch.nn.BatchNorm1d`, `torch.native_batch_norm`, layer, group or instance norm), nor a
# ready-made fusion (`torch.nn.utils.fusion`). In exercise 3 do not call autograd either. Cells of
# your own may call all of this, to compare. Where one of your functions reaches it during a hidden
# test, that test fails. Keep the names and the arguments of the functions.
#
# **How to hand in.** Save the notebook and hand in this one file, `batchnorm.ipynb`, without
# renaming it.

# %%
import torch
from torch import Tensor, nn

# %% [markdown]
# ## Exercise 1: batch norm as a function
#
# *10 points, medium, about 30 minutes*
#
# In training, batch norm gives each **channel** mean 0 and variance 1 over the whole batch, and
# keeps running averages of what it measured. In evaluation it uses these averages, so that the
# answer for one sample no longer depends on its neighbours.
#
# $$
# y = w_c\,\frac{x-\mu_c}{\sqrt{\sigma_c^2+\varepsilon}} + b_c,
# \qquad \mu_c=\frac1n\sum x,
# \qquad \sigma_c^2=\frac1n\sum (x-\mu_c)^2
# $$
#
# The sums run over the $n$ values of channel $c$: all of them in the batch, at every position.
#
# | name | shape | |
# |---|---|---|
# | `x` and the result | `(N, C)`, `(N, C, L)`, `(N, C, H, W)`, ... | channels on axis 1 |
# | mean, variance | `(C,)` | over every axis but axis 1; $n$ = N, N·L, N·H·W |
# | `weight`, `bias` | `(C,)` | one number per channel |
# | `running_mean`, `running_var` | `(C,)` | changed **in place**, in training only |
#
# The update is `running = (1 - momentum) * running + momentum * batch`. For the variance there is
# a twist: what goes into `running_var` is the unbiased one, $\frac{n}{n-1}\sigma_c^2$.
#
# <details><summary>Hint 1: how to write it for every rank at once?</summary>
#
# The axes to average over are 0 and everything from 2 on: `[0, *range(2, x.dim())]`. A tensor of
# shape `(C,)` lines up with axis 1 after `.view(shape)`, where `shape` is
# `[1, -1] + [1] * (x.dim() - 2)`.
#
# </details>
#
# <details><summary>Hint 2: how to change a tensor that the caller keeps?</summary>
#
# `running_mean = ...` only gives a new meaning to a name in your function. Methods that end in `_`
# change the tensor itself: `running_mean.mul_(1 - momentum).add_(momentum * mean)`. Put both
# updates inside `with torch.no_grad():`, so that autograd does not record them.
#
# </details>
#
# <details><summary>Hint 3: in which order?</summary>
#
# First decide which mean and variance to use: those of the batch in training (and update the
# running ones), the running ones otherwise. The last two lines, normalize and scale, are the same
# in both cases. Half types: everything in float32, and back in the last line.
#
# </details>
#
# <details><summary>Expected output</summary>
#
# ```python
# x = torch.tensor([[1.0, 10.0], [2.0, 20.0], [3.0, 60.0]])
# running_mean, running_var = torch.zeros(2), torch.ones(2)
# print(batch_norm(x, torch.ones(2), torch.zeros(2), running_mean, running_var, True, 0.5, 1e-5))
# print(running_mean, running_var)
# ```
#
# prints
#
# ```
# tensor([[-1.2247, -0.9258],
#         [ 0.0000, -0.4629],
#         [ 1.2247,  1.3887]])
# tensor([ 1., 15.]) tensor([  1.0000, 350.5000])
# ```
#
# The variances of the two columns are 2/3 and 466.67 when divided by 3, and 1 and 700 when divided
# by 2. The first pair normalizes, the second pair goes halfway into `running_var`.
#
# </details>


# %% nbgrader={"grade_id": "batch_norm", "solution": true}
def batch_norm(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    training: bool,
    momentum: float,
    eps: float,
) -> Tensor:
    """Normalize each channel of x, then scale and shift it.

    Args:
        x: (N, C) or (N, C, *), any number of axes after C, any floating-point dtype. Not modified.
        weight: (C,), multiplies the normalized channel.
        bias: (C,), is added last.
        running_mean: (C,). In training it is changed in place, otherwise left alone.
        running_var: (C,). As running_mean.
        training: True normalizes by mean and variance of the batch, False by the running ones.
        momentum: weight of the NEW value in the update, only used in training:
            running = (1 - momentum) * running + momentum * batch.
        eps: added to the variance, inside the square root.

    Returns:
        The shape and the dtype of x. (Nothing else: the running statistics are changed in place.)

    Raises:
        ValueError: in training, when a channel has fewer than two values.

    Mean and variance of the batch are taken over all axes but axis 1. The variance that normalizes
    is the biased one (divide by n, the number of values of a channel); the one that enters
    running_var is the unbiased one (divide by n - 1). Gradients flow through the batch's mean and
    variance. The update of the running statistics is made under torch.no_grad(). float16 and
    bfloat16 inputs are computed in float32, and the result is cast back once, after the scale and
    the shift; running_mean and running_var keep their own dtype.
    """
    ### BEGIN SOLUTION
    dtype = x.dtype
    if dtype in (torch.float16, torch.bfloat16):
        x, weight, bias = x.float(), weight.float(), bias.float()
    dims = [0, *range(2, x.dim())]  # every axis but the channels
    shape = [1, -1] + [1] * (x.dim() - 2)  # lines (C,) up with axis 1
    if training:
        n = x.numel() // x.shape[1]  # values in each channel
        if n < 2:
            raise ValueError("training needs at least two values per channel")
        mean = x.mean(dim=dims)  # (C,)
        var = (x - mean.view(shape)).square().mean(dim=dims)  # (C,)
        with torch.no_grad():
            running_mean.mul_(1 - momentum).add_(momentum * mean)
            running_var.mul_(1 - momentum).add_(momentum * var * n / (n - 1))
    else:
        mean, var = running_mean.to(x.dtype), running_var.to(x.dtype)
    x_hat = (x - mean.view(shape)) * torch.rsqrt(var + eps).view(shape)
    return (x_hat * weight.view(shape) + bias.view(shape)).to(dtype)
    ### END SOLUTION


# %% [markdown]
# **Check exercise 1.** Run the next cell. No error means that all visible checks passed.

# %% tags=["active-ipynb"] nbgrader={"grade_id": "test_batch_norm", "points": 10}
# def fresh(c, dtype=torch.float32):  # weight, bias, running_mean, running_var of a new layer
#     ones, zeros = torch.ones(c, dtype=dtype), torch.zeros(c, dtype=dtype)
#     return ones, zeros, zeros.clone(), ones.clone()
#
# # One channel with mean 0 and variance 1, and eps = 3: each entry is divided by sqrt(1 + 3) = 2.
# weight, bias, running_mean, running_var = fresh(1)
# x = torch.tensor([[-1.0], [1.0]])
# y = batch_norm(x, weight, bias, running_mean, running_var, True, 0.1, 3.0)
# assert y is not None, "batch_norm returned None: does it end with a return statement?"
# assert isinstance(y, Tensor), "batch_norm returns the output and nothing else"
# assert y.shape == (2, 1), f"x has shape (2, 1), the result must too, but it has {tuple(y.shape)}"
# assert torch.allclose(y, torch.tensor([[-0.5], [0.5]])), (
#     f"the column [-1, 1] with eps=3 must become [-0.5, 0.5], got {y[:, 0].tolist()}. "
#     "Is the variance that normalizes divided by n, not n - 1? Is eps inside the square root?"
# )
#
# # Each channel by itself, over the whole batch: statistics go over all axes but axis 1.
# x = torch.tensor([3.0, 30.0])[:, None, None] * torch.randn(4, 2, 5, 3) + 7
# weight, bias, running_mean, running_var = fresh(2)
# before = x.clone()
# y = batch_norm(x, weight, bias, running_mean, running_var, True, 0.1, 1e-5)
# assert torch.equal(x, before), "batch_norm changed x: avoid in-place operations on x"
# assert y.shape == x.shape, f"the result must have shape (4, 2, 5, 3), got {tuple(y.shape)}"
# assert y.mean(dim=(0, 2, 3)).abs().max() < 1e-4, (
#     "each channel must have mean 0 over the batch and all positions: "
#     "are the statistics taken over every axis but axis 1?"
# )
# assert (y.square().mean(dim=(0, 2, 3)) - 1).abs().max() < 1e-3, (
#     "each channel must have variance 1 (biased) over the batch and all positions"
# )
#
# # Scale and shift, one number for each channel.
# weight, bias = torch.tensor([2.0, -1.0]), torch.tensor([0.5, 3.0])
# z = batch_norm(x, weight, bias, torch.zeros(2), torch.ones(2), True, 0.1, 1e-5)
# want = y * weight[:, None, None] + bias[:, None, None]
# assert torch.allclose(z, want, atol=1e-3), (
#     "with weight and bias the result must be normalized * weight + bias, channel by channel"
# )
#
# # The running statistics, changed in place. Means 2 and 30; unbiased variances 1 and 700.
# x = torch.tensor([[1.0, 10.0], [2.0, 20.0], [3.0, 60.0]], requires_grad=True)
# weight, bias, running_mean, running_var = fresh(2)
# batch_norm(x, weight, bias, running_mean, running_var, True, 0.1, 1e-5)
# assert torch.allclose(running_mean, torch.tensor([0.2, 3.0])), (
#     "after a batch with means [2, 30] and momentum 0.1, running_mean must go from [0, 0] to "
#     f"[0.2, 3], but it is {running_mean.tolist()}. Is it changed in place? Does momentum weight "
#     "the new value?"
# )
# assert torch.allclose(running_var, torch.tensor([1.0, 70.9])), (
#     "running_var must go from [1, 1] to [1, 70.9], with the unbiased variances [1, 700], but it "
#     f"is {running_var.tolist()}"
# )
# assert not (running_mean.requires_grad or running_var.requires_grad), (
#     "autograd recorded the update of the running statistics: put it under torch.no_grad()"
# )
#
# # Evaluation: the running statistics, which stay as they are. One sample is enough.
# running_mean, running_var = torch.tensor([1.0, -1.0]), torch.tensor([4.0, 0.25])
# row = torch.tensor([[3.0, 0.0]])
# y = batch_norm(row, torch.ones(2), torch.zeros(2), running_mean, running_var, False, 0.1, 0.0)
# assert torch.allclose(y, torch.tensor([[1.0, 2.0]])), (
#     "in evaluation [3, 0] with running means [1, -1] and running variances [4, 0.25] must give "
#     f"[1, 2], got {y[0].tolist()}"
# )
# assert running_mean.tolist() == [1.0, -1.0] and running_var.tolist() == [4.0, 0.25], (
#     "the running statistics must not change in evaluation"
# )
# try:
#     batch_norm(row, torch.ones(2), torch.zeros(2), running_mean, running_var, True, 0.1, 0.0)
# except ValueError:
#     pass
# else:
#     raise AssertionError("one value per channel in training must raise a ValueError")
#
# # Half precision: 600 squared is 360000, more than float16 can hold (65504).
# weight, bias, running_mean, running_var = fresh(1)
# x = torch.tensor([[-600.0], [600.0]], dtype=torch.float16)
# y = batch_norm(x, weight.half(), bias.half(), running_mean, running_var, True, 0.1, 1e-5)
# assert y.dtype == torch.float16, f"x is float16, the result must be too, but it is {y.dtype}"
# assert y[:, 0].tolist() == [-1.0, 1.0], (
#     f"the column [-600, 600] in float16 must become [-1, 1], got {y[:, 0].tolist()}. "
#     "Are half types computed in float32?"
# )
# print("Exercise 1: the visible checks pass.")

# %% [markdown]
# ## Exercise 2: batch norm as a module
#
# *6 points, medium, about 20 minutes*
#
# The module keeps what the function needs: two parameters that are trained, and three **buffers**
# that are not trained but belong to the model, so they are saved, loaded and moved with it. And it
# knows whether it is in training.
#
# | name | shape | kind | starts as |
# |---|---|---|---|
# | `weight` | `(num_features,)` | parameter | ones |
# | `bias` | `(num_features,)` | parameter | zeros |
# | `running_mean` | `(num_features,)` | buffer | zeros |
# | `running_var` | `(num_features,)` | buffer | ones |
# | `num_batches_tracked` | `()` | buffer, `torch.int64` | 0 |
#
# `num_batches_tracked` counts the batches seen in training. With `momentum=None` every batch shall
# count alike: the running statistics are the plain average over all batches so far (torch calls it
# the cumulative moving average). That is the same update with a momentum that changes from batch to
# batch.
#
# <details><summary>Hint 1: how does a module know its buffers?</summary>
#
# `self.register_buffer("running_mean", torch.zeros(num_features))`. A plain attribute is not in
# `state_dict()`, so a saved model would forget it. A counter is a tensor too: `torch.tensor(0)`.
#
# </details>
#
# <details><summary>Hint 2: how does it know the mode?</summary>
#
# `self.training` is set by `train()` and `eval()`; every `nn.Module` has it. Do not keep a flag of
# your own.
#
# </details>
#
# <details><summary>Hint 3: which momentum gives the plain average?</summary>
#
# The average of $k$ numbers is $\bar a_k = \bar a_{k-1} + \frac1k (a_k - \bar a_{k-1})$, so the new
# value has the weight $1/k$. Count first, then use `1 / num_batches_tracked`.
#
# </details>
#
# <details><summary>Expected output</summary>
#
# ```python
# norm = BatchNorm(2, momentum=None)
# for scale in (1.0, 2.0, 6.0):
#     norm(scale * torch.tensor([[1.0, 10.0], [2.0, 20.0], [3.0, 60.0]]))
# print(list(norm.state_dict()))
# print(norm.running_mean, norm.num_batches_tracked)
# ```
#
# prints
#
# ```
# ['weight', 'bias', 'running_mean', 'running_var', 'num_batches_tracked']
# tensor([ 6., 90.]) tensor(3)
# ```
#
# The means of the three batches are 2, 4, 12 and 30, 60, 180; their averages are 6 and 90.
#
# </details>


# %% nbgrader={"grade_id": "BatchNorm", "solution": true}
class BatchNorm(nn.Module):
    """Batch norm over axis 1 with a learned scale and shift and running statistics.

    Args:
        num_features: C, the size of axis 1 of the input.
        eps: added to the variance, inside the square root.
        momentum: weight of the new value in the running statistics; None makes them the plain
            average over all batches seen in training.

    Parameters (registered, trainable): weight (C,) starts as ones, bias (C,) as zeros.
    Buffers (registered): running_mean (C,) starts as zeros, running_var (C,) as ones,
    num_batches_tracked () of dtype int64 as 0, counted up by 1 for each batch in training.

    Input and result: (N, C) or (N, C, *); formula, dtypes and errors are those of batch_norm. In
    training mode the batch's statistics are used and the buffers change; in evaluation mode the
    running ones are used and nothing changes.
    """

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1) -> None:
        super().__init__()
        ### BEGIN SOLUTION
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(num_features))
        self.bias = nn.Parameter(torch.zeros(num_features))
        self.register_buffer("running_mean", torch.zeros(num_features))
        self.register_buffer("running_var", torch.ones(num_features))
        self.register_buffer("num_batches_tracked", torch.tensor(0))
        ### END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        momentum = self.momentum
        if self.training:
            self.num_batches_tracked += 1
            if momentum is None:  # the plain average: the new batch is one of k
                momentum = 1 / self.num_batches_tracked.item()
        running = self.running_mean, self.running_var
        return batch_norm(x, self.weight, self.bias, *running, self.training, momentum, self.eps)
        ### END SOLUTION


# %% [markdown]
# **Check exercise 2.** The module calls your `batch_norm`, so exercise 1 should pass first.

# %% tags=["active-ipynb"] nbgrader={"grade_id": "test_BatchNorm", "points": 6}
# norm = BatchNorm(2)
# shapes = {name: tuple(p.shape) for name, p in norm.named_parameters()}
# assert shapes == {"weight": (2,), "bias": (2,)}, (
#     "the module must register two parameters, weight and bias, of shape (num_features,), "
#     f"but it has {shapes}"
# )
# state = norm.state_dict()
# names = ["weight", "bias", "running_mean", "running_var", "num_batches_tracked"]
# assert sorted(state) == sorted(names), (
#     f"state_dict must hold {', '.join(names)}, but it holds {list(state)}. Are the last three "
#     "registered as buffers?"
# )
# assert torch.equal(norm.weight, torch.ones(2)), "weight must start as ones"
# assert torch.equal(norm.bias, torch.zeros(2)), "bias must start as zeros"
# assert torch.equal(norm.running_mean, torch.zeros(2)), "running_mean must start as zeros"
# assert torch.equal(norm.running_var, torch.ones(2)), "running_var must start as ones"
# assert state["num_batches_tracked"].dtype == torch.int64, "num_batches_tracked must be int64"
#
# # Training: statistics of the batch, and the buffers move.
# x = torch.tensor([[1.0, 10.0], [2.0, 20.0], [3.0, 60.0]])
# y = norm(x)
# assert y is not None, "forward returned None: does it end with a return statement?"
# want = torch.tensor([[-1.2247, -0.9258], [0.0, -0.4629], [1.2247, 1.3887]])
# assert torch.allclose(y, want, atol=1e-3), (
#     f"a fresh BatchNorm(2) in training must give {want.tolist()}, got {y.tolist()}"
# )
# assert torch.allclose(norm.running_mean, torch.tensor([0.2, 3.0])), (
#     f"after one batch running_mean must be [0.2, 3], but it is {norm.running_mean.tolist()}"
# )
# assert norm.num_batches_tracked == 1, "num_batches_tracked must be 1 after one batch in training"
#
# # Evaluation: the running statistics, and nothing moves.
# state = {
#     "weight": torch.tensor([2.0, 1.0]), "bias": torch.tensor([0.0, 5.0]),
#     "running_mean": torch.tensor([1.0, -1.0]), "running_var": torch.tensor([4.0, 0.25]),
#     "num_batches_tracked": torch.tensor(7),
# }
# norm.load_state_dict(state)
# norm.eval()
# y = norm(torch.tensor([[3.0, 0.0], [1.0, -1.0]]))
# assert torch.allclose(y, torch.tensor([[2.0, 7.0], [0.0, 5.0]]), atol=1e-3), (
#     "with the loaded statistics [3, 0] and [1, -1] must give [2, 7] and [0, 5] in evaluation, "
#     f"got {y.tolist()}"
# )
# assert all(torch.equal(norm.state_dict()[name], state[name]) for name in names), (
#     "nothing may change in evaluation, num_batches_tracked included"
# )
# assert y.requires_grad, (
#     "no gradient can reach the parameters: give batch_norm self.weight and self.bias themselves"
# )
#
# # momentum=None: the plain average over all batches.
# norm = BatchNorm(2, momentum=None)
# for scale in (1.0, 2.0, 6.0):
#     norm(scale * x)
# assert torch.allclose(norm.running_mean, torch.tensor([6.0, 90.0])), (
#     "with momentum=None running_mean must be the average [6, 90] of the means of three batches, "
#     f"but it is {norm.running_mean.tolist()}"
# )
# y = BatchNorm(1, eps=3.0)(torch.tensor([[-1.0], [1.0]]))
# assert torch.allclose(y, torch.tensor([[-0.5], [0.5]])), (
#     f"BatchNorm(1, eps=3.0) must turn [-1, 1] into [-0.5, 0.5], got {y[:, 0].tolist()}. "
#     "Is eps used?"
# )
# print("Exercise 2: the visible checks pass.")

# %% [markdown]
# ## Exercise 3: the backward pass
#
# *7 points, hard, about 35 minutes*
#
# In training, every value of a channel takes part in its mean and variance, and so in the output of
# every other value: a sample gets a gradient from its neighbours' outputs. Autograd finds that for
# you; deriving it once by hand shows where it comes from, and how few numbers it needs.
#
# ### First by the graph
#
# Take one channel with its $n$ values. Write $\bar t$ for the gradient of the loss with respect to
# $t$; so $\bar y$ is `grad_out`. The left column is computed from top to bottom, the right one from
# bottom to top.
#
# | forward | backward |
# |---|---|
# | $\mu = \frac1n\sum_j x_j$ | $\bar x_i = \bar c_i - \frac1n\sum_j \bar c_j$ |
# | $c_i = x_i - \mu$ | $\bar c_i = r\,\bar{\hat x}_i + \frac2n\,\bar v\,c_i$ |
# | $v = \frac1n\sum_j c_j^2$ | $\bar v = -\frac12\,r^3\,\bar r$ |
# | $r = (v+\varepsilon)^{-1/2}$ | $\bar r = \sum_j \bar{\hat x}_j\,c_j$ |
# | $\hat x_i = c_i\,r$ | $\bar{\hat x}_i = \bar y_i\,w$ |
# | $y_i = w\,\hat x_i + b$ | $\bar w = \sum_j \bar y_j \hat x_j$, $\;\bar b = \sum_j \bar y_j$ |
#
# ### Then simplified
#
# Insert the rows into one another. The number $w$ is the same for the whole channel, so it comes
# out of every sum, and the two sums that remain are already known: they are $\bar b$ and $\bar w$.
#
# $$
# \bar x_i = w\,r\,\Bigl(\bar y_i - \frac{\bar b}{n} - \hat x_i\,\frac{\bar w}{n}\Bigr)
# $$
#
# | name | shape | |
# |---|---|---|
# | `grad_out`, `x`, `grad_x` | `(N, C)` or `(N, C, *)` | |
# | `weight`, `grad_weight`, `grad_bias` | `(C,)` | sums over every axis but axis 1 |
# | $\mu$, `rstd` = $r$ | `(C,)` | one of each per channel |
#
# <details><summary>Hint 1: where to start?</summary>
#
# Compute `rstd` and `x_hat` from `x` again, as in the training branch of exercise 1. Everything
# else needs only these two, `grad_out` and `weight`.
#
# </details>
#
# <details><summary>Hint 2: what is n?</summary>
#
# The number of values in a channel, `x.numel() // x.shape[1]`. For images that is N·H·W, not N.
#
# </details>
#
# <details><summary>Hint 3: in which order?</summary>
#
# `grad_bias`, then `grad_weight`, then `grad_x` from both. Sum in float32 for half types, and cast
# each of the three results at the very end.
#
# </details>
#
# <details><summary>Expected output</summary>
#
# ```python
# x = torch.tensor([[1.0], [2.0], [3.0], [6.0]])
# grad_out = torch.tensor([[1.0], [0.0], [0.0], [0.0]])
# for grad in batch_norm_backward(grad_out, x, torch.ones(1), 1e-5):
#     print(grad.flatten())
# ```
#
# prints
#
# ```
# tensor([ 0.2482, -0.2100, -0.1336,  0.0954])
# tensor([-1.0690])
# tensor([1.])
# ```
#
# Only the first output was pushed, but all four samples feel it. Their gradients add up to 0.
#
# </details>


# %% nbgrader={"grade_id": "batch_norm_backward", "solution": true}
def batch_norm_backward(
    grad_out: Tensor, x: Tensor, weight: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of batch_norm in training, without autograd.

    Args:
        grad_out: (N, C) or (N, C, *), gradient of the loss by the output. Is not modified.
        x: the shape of grad_out, the input of the forward pass. Is not modified.
        weight: (C,), the scale of the forward pass.
        eps: added to the variance, inside the square root.

    Returns:
        grad_x: the shape and the dtype of x.
        grad_weight: (C,), with the dtype of weight, summed over all axes but axis 1.
        grad_bias: (C,), with the dtype of weight, summed over all axes but axis 1.

    Mean and (biased) variance are those of the batch, as in training, and depend on x. float16 and
    bfloat16 inputs are computed in float32, the sums too; each result is cast back last.
    """
    ### BEGIN SOLUTION
    x_dtype, weight_dtype = x.dtype, weight.dtype
    if x_dtype in (torch.float16, torch.bfloat16):
        grad_out, x, weight = grad_out.float(), x.float(), weight.float()
    dims = [0, *range(2, x.dim())]  # every axis but the channels
    shape = [1, -1] + [1] * (x.dim() - 2)  # lines (C,) up with axis 1
    n = x.numel() // x.shape[1]  # values in each channel

    centered = x - x.mean(dim=dims, keepdim=True)
    rstd = torch.rsqrt(centered.square().mean(dim=dims, keepdim=True) + eps)  # (1, C, 1, ...)
    x_hat = centered * rstd

    grad_bias = grad_out.sum(dim=dims)  # (C,)
    grad_weight = (grad_out * x_hat).sum(dim=dims)  # (C,)
    mean_g, mean_gx = (grad_bias / n).view(shape), (grad_weight / n).view(shape)
    grad_x = weight.view(shape) * rstd * (grad_out - mean_g - x_hat * mean_gx)
    return grad_x.to(x_dtype), grad_weight.to(weight_dtype), grad_bias.to(weight_dtype)
    ### END SOLUTION


# %% [markdown]
# **Check exercise 3.** This check asks autograd, through torch's own batch norm, for the right
# gradients. It does not need your exercises 1 and 2.

# %% tags=["active-ipynb"] nbgrader={"grade_id": "test_batch_norm_backward", "points": 7}
# x = torch.tensor([[1.0], [2.0], [3.0], [6.0]])
# grad_out = torch.tensor([[1.0], [0.0], [0.0], [0.0]])
# grads = batch_norm_backward(grad_out, x, torch.ones(1), 1e-5)
# assert isinstance(grads, tuple) and len(grads) == 3, (
#     "batch_norm_backward must return three tensors: grad_x, grad_weight, grad_bias"
# )
# expected = torch.tensor([[0.2482], [-0.2100], [-0.1336], [0.0954]])
# assert torch.allclose(grads[0], expected, atol=1e-3), (
#     f"for the example above grad_x must be {expected[:, 0].tolist()}, "
#     f"got {grads[0].flatten().tolist()}"
# )
#
# # Weights that are not 1, a large eps and images, in float64: now every term counts.
# x = 2 + torch.randn(3, 4, 5, 2, dtype=torch.float64)
# weight = 1 + torch.rand(4, dtype=torch.float64)
# grad_out = 1 + torch.randn(3, 4, 5, 2, dtype=torch.float64)
# x_before, grad_before = x.clone(), grad_out.clone()
# grad_x, grad_weight, grad_bias = batch_norm_backward(grad_out, x, weight, 0.5)
# assert torch.equal(x, x_before), "batch_norm_backward changed x: avoid in-place operations"
# assert torch.equal(grad_out, grad_before), (
#     "batch_norm_backward changed grad_out: avoid in-place operations"
# )
# leaves = [x.requires_grad_(), weight.requires_grad_(), torch.zeros_like(weight).requires_grad_()]
# y = nn.functional.batch_norm(leaves[0], None, None, leaves[1], leaves[2], training=True, eps=0.5)
# want_x, want_weight, want_bias = torch.autograd.grad(y, leaves, grad_out)
# assert grad_bias.shape == (4,), f"grad_bias must have shape (4,), got {tuple(grad_bias.shape)}"
# assert torch.allclose(grad_bias, want_bias), (
#     "grad_bias is wrong: add grad_out over all axes but axis 1"
# )
# assert grad_weight.shape == (4,), (
#     f"grad_weight must have shape (4,), got {tuple(grad_weight.shape)}"
# )
# assert torch.allclose(grad_weight, want_weight), (
#     "grad_weight is wrong: add grad_out * x_hat over all axes but axis 1. Is x_hat that of "
#     "exercise 1, with the biased variance and eps inside the root?"
# )
# assert grad_x.shape == x.shape, f"grad_x must have shape (3, 4, 5, 2), got {tuple(grad_x.shape)}"
# assert grad_x.sum(dim=(0, 2, 3)).abs().max() < 1e-6, (
#     "adding a constant to a channel does not change the output, so each channel of grad_x must "
#     "add up to 0. Is grad_bias / n subtracted, with n = N * H * W?"
# )
# assert torch.allclose(grad_x, want_x), (
#     "grad_x is wrong. Is it multiplied by weight and by rstd? Is x_hat * grad_weight / n "
#     "subtracted? Is the variance the biased one, with eps inside the root?"
# )
# print("Exercise 3: the visible checks pass.")

# %% [markdown]
# ## Exercise 4: fold it away
#
# *4 points, medium, about 20 minutes*
#
# After training, `running_mean` and `running_var` do not change any more. Then batch norm is a
# fixed scale and a fixed shift for each channel, and a linear or convolutional layer right before
# it can do both: put the scale into its weights and the rest into its bias. The outputs are the
# same, and the batch norm is gone.
#
# $$
# w_{bn}\,\frac{(Wx + b) - \mu}{\sqrt{\sigma^2+\varepsilon}} + b_{bn} \;=\; W' x + b'
# $$
#
# Find $W'$ and $b'$.
#
# | name | shape | |
# |---|---|---|
# | `weight` | `(C, in)` or `(C, in, *kernel)` | of a linear layer, or of a convolution |
# | `bias` | `(C,)` or `None` | of that layer; many are made without one |
# | the rest | `(C,)` | of the batch norm, one number per output channel |
#
# <details><summary>Hint 1: how to find W' and b'?</summary>
#
# Call the factor $s = w_{bn}/\sqrt{\sigma^2+\varepsilon}$ and multiply the left side out. One part
# contains $x$, the rest does not.
#
# </details>
#
# <details><summary>Hint 2: which axis of weight belongs to the channels?</summary>
#
# The first: `weight[c]` holds all numbers that make output channel `c`, for a linear layer and for
# a convolution of any rank. Give the factor the shape `(C, 1, ..., 1)`.
#
# </details>
#
# <details><summary>Hint 3: and without a bias?</summary>
#
# `bias=None` means a bias of zeros. The folded layer does have one.
#
# </details>
#
# <details><summary>Expected output</summary>
#
# ```python
# weight, bias = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([1.0, 1.0])
# mean, var = torch.tensor([0.0, 3.0]), torch.tensor([1.0, 4.0])
# print(*fold_batch_norm(weight, bias, mean, var, torch.ones(2), torch.tensor([0.0, 5.0]), 0.0))
# ```
#
# prints
#
# ```
# tensor([[1.0000, 2.0000],
#         [1.5000, 2.0000]]) tensor([1., 4.])
# ```
#
# </details>


# %% nbgrader={"grade_id": "fold_batch_norm", "solution": true}
def fold_batch_norm(
    weight: Tensor,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    bn_weight: Tensor,
    bn_bias: Tensor,
    eps: float,
) -> tuple[Tensor, Tensor]:
    """Weight and bias of one layer that does what a layer and a batch norm after it do.

    Args:
        weight: (C, in) of a linear layer, or (C, in, *kernel) of a convolution, with C output
            channels. Is not modified.
        bias: (C,), the bias of that layer, or None if it has none. Is not modified.
        running_mean, running_var: (C,), the statistics the batch norm uses in evaluation.
        bn_weight, bn_bias: (C,), scale and shift of the batch norm.
        eps: of the batch norm, added to the variance inside the square root.

    Returns:
        The folded weight, with the shape of weight, and the folded bias (C,), both with the dtype
        of weight. float16 and bfloat16 are computed in float32 and cast back last.
    """
    ### BEGIN SOLUTION
    dtype = weight.dtype
    if dtype in (torch.float16, torch.bfloat16):
        weight = weight.float()
    if bias is None:
        bias = torch.zeros_like(running_mean)
    mean, var = running_mean.to(weight.dtype), running_var.to(weight.dtype)
    scale = bn_weight * torch.rsqrt(var + eps)  # (C,)
    folded_weight = weight * scale.view([-1] + [1] * (weight.dim() - 1))  # row c times scale[c]
    folded_bias = (bias - mean) * scale + bn_bias
    return folded_weight.to(dtype), folded_bias.to(dtype)
    ### END SOLUTION


# %% [markdown]
# **Check exercise 4.** This check compares the folded layer with torch's own layers.

# %% tags=["active-ipynb"] nbgrader={"grade_id": "test_fold_batch_norm", "points": 4}
# weight, bias = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([1.0, 1.0])
# mean, var = torch.tensor([0.0, 3.0]), torch.tensor([1.0, 4.0])
# folded = fold_batch_norm(weight, bias, mean, var, torch.ones(2), torch.tensor([0.0, 5.0]), 0.0)
# assert isinstance(folded, tuple) and len(folded) == 2, (
#     "fold_batch_norm must return two tensors: the folded weight and the folded bias"
# )
# assert torch.allclose(folded[0], torch.tensor([[1.0, 2.0], [1.5, 2.0]])), (
#     "channel 1 has the variance 4, so its row [3, 4] of weight must be halved, but the folded "
#     f"weight is {folded[0].tolist()}"
# )
# assert torch.allclose(folded[1], torch.tensor([1.0, 4.0])), (
#     f"the folded bias must be [1, (1 - 3) / 2 + 5] = [1, 4], but it is {folded[1].tolist()}"
# )
# for layer, norm, x in [
#     (nn.Linear(6, 6), nn.BatchNorm1d(6, eps=0.5), torch.randn(9, 6)),
#     (nn.Conv2d(3, 3, 3), nn.BatchNorm2d(3, eps=0.5), torch.randn(9, 3, 8, 8)),
#     (nn.Conv1d(4, 2, 3, bias=False), nn.BatchNorm1d(2, eps=0.5), torch.randn(9, 4, 8)),
# ]:
#     name = type(layer).__name__
#     layer, norm, x = layer.double(), norm.double(), x.double()
#     for _ in range(5):  # so that the running statistics are not those of a fresh layer
#         norm(3 * layer(2 + torch.randn_like(x)))
#     nn.init.uniform_(norm.weight, 0.5, 2.0)
#     nn.init.uniform_(norm.bias, 1.0, 2.0)
#     want = norm.eval()(layer(x)).detach()
#     statistics = norm.running_mean, norm.running_var, norm.weight, norm.bias
#     before = layer.weight.detach().clone()
#     with torch.no_grad():
#         weight, bias = fold_batch_norm(layer.weight, layer.bias, *statistics, norm.eps)
#     assert torch.equal(layer.weight, before), "fold_batch_norm changed weight: make a new tensor"
#     assert weight.shape == layer.weight.shape, (
#         f"the folded weight of {name} must have shape {tuple(layer.weight.shape)}, "
#         f"got {tuple(weight.shape)}"
#     )
#     folded = type(layer)(x.shape[1], len(bias), 3) if x.dim() > 2 else nn.Linear(6, 6)
#     folded.double().load_state_dict({"weight": weight, "bias": bias})
#     assert torch.allclose(folded(x), want), (
#         f"{name} with folded weights gives other outputs than {name} and BatchNorm. Does the "
#         "factor act on the first axis of weight? Is (bias - mean) scaled as well? Is eps used, "
#         "inside the root?"
#     )
# print("Exercise 4: the visible checks pass.")

# %% [markdown]
# ## Question: right in training, wrong in use
#
# *3 points, in words, about 10 minutes*
#
# You train a classifier with batch norm, 4 images to a batch. In `train()` mode it labels 95 % of
# the training images correctly. You call `eval()`, and on **the same images** it gets 40 %. No
# weight changed in between, and the code of the layers is right.
#
# Explain what can cause this gap. Name **two** different causes. For each, say how you would find
# out whether it is the one, and what you would change. Five to ten sentences.
#
# Write your answer into the next cell, in place of its text. Nothing runs it; a person reads it.

# %% [markdown] nbgrader={"grade_id": "written_modes", "written": true, "points": 3}
# ### BEGIN SOLUTION
# **Marking guide.** 1 point for the mechanism, 1 point for each of two causes with its test and its
# remedy (half a point for a cause without a test that could tell it from others).
#
# Mechanism: in training mode the batch's own mean and variance normalize, in evaluation mode the
# running ones do. The same weights then compute two different functions; the gap says that the two
# kinds of statistics disagree. "Overfitting" is no answer: the images are the same.
#
# Causes, any two:
#
# - Too few steps, or too small a momentum: the running statistics still hold much of their start
#   (0 and 1), or of early weights. Test: compare running and batch statistics over steps, or run
#   some batches in training mode without an optimizer step and evaluate again. Remedy: more steps,
#   larger momentum, recompute the statistics after training (`momentum=None`).
# - Batches of 4: each batch's statistics are noisy, and the network has learned to work with
#   statistics of its own four images, which the average does not reproduce. Test: the gap shrinks
#   when the batch grows. Remedy: larger batches, synchronized or frozen batch norm, group norm.
# - The data differ: other preprocessing, augmentation or class order in training (batches of one
#   class, say). Test: per-channel statistics of both sets of inputs; shuffle. Remedy: shuffle, or
#   the same preprocessing.
# - The running statistics were not saved, loaded or shared (several devices, a reused layer for two
#   kinds of input). Test: print them. Remedy: register them as buffers, one layer for each input.
# ### END SOLUTION

# %% [markdown]
# ## Before you hand in
#
# - Restart the kernel and run all cells (*Kernel > Restart Kernel and Run All Cells*). Cells that
#   were run in another order can hide a mistake.
# - All four check cells print that their checks pass. The hidden tests go further: read the four
#   docstrings once more and try shapes, dtypes and values of `eps` that the checks do not use.
# - No exercise calls a ready-made normalization, and exercise 3 does not call autograd.
