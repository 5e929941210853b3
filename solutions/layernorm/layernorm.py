# %% [markdown]
# # LayerNorm
#
# In this notebook you write layer normalization three times: as a function, as a module, and
# backwards. The chapter *LayerNorm* of the course book explains every idea used here; keep its page
# `layernorm.html` open beside this notebook (its text is also in
# [book/layernorm.md](../../book/layernorm.md)).
#
# | exercise | you write | points | difficulty | time |
# |---|---|---|---|---|
# | 1 | `layer_norm(x, weight, bias, eps)` | 8 | easy | 15 min |
# | 2 | `LayerNorm(d_model, eps)` | 5 | easy | 10 min |
# | 3 | `layer_norm_backward(grad_out, x, weight, eps)` | 7 | hard | 35 min |
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
# **Rules.** Do not call a ready-made normalization (`torch.nn.functional.layer_norm`,
# `torch.nn.LayerNorm`, `torch.native_layer_norm`, batch, group or instance norm). In exercise 3 do
# not call autograd either. Cells of your own may call all of this, to compare. Where one of your
# functions reaches it during a hidden test, that test fails. Keep the names and the arguments of
# the functions.
#
# **How to hand in.** Save the notebook and hand in this one file, `layernorm.ipynb`, without
# renaming it.

# %%
import torch
from torch import Tensor, nn

# %% [markdown]
# ## Exercise 1: layer norm as a function
#
# *8 points, easy, about 15 minutes*
#
# A vector that enters a layer can have any mean and any scale. Layer norm gives each vector mean 0
# and variance 1, using nothing but that vector, and then lets the model choose a scale and a shift
# for each feature:
#
# $$
# y_i = w_i\,\frac{x_i-\mu}{\sqrt{\sigma^2+\varepsilon}} + b_i,
# \qquad \mu=\frac1D\sum_{j=1}^{D} x_j,
# \qquad \sigma^2=\frac1D\sum_{j=1}^{D}(x_j-\mu)^2
# $$
#
# | name | shape | |
# |---|---|---|
# | `x` | `(..., D)` | for example `(B, L, D)`, or just `(D,)` |
# | mean, variance | `(..., 1)` | one of each per vector |
# | `weight`, `bias` | `(D,)` | one number per feature, shared by all vectors |
# | result | `(..., D)` | same shape and dtype as `x` |
#
# <details><summary>Hint 1: which numbers are averaged?</summary>
#
# Only the last dimension, `dim=-1`. Keep that dimension with `keepdim=True`: then the mean has
# shape `(..., 1)`, and `x - mean` lines up for every rank.
#
# </details>
#
# <details><summary>Hint 2: which variance, and where does eps go?</summary>
#
# The formula divides by $D$, not by $D-1$. `torch.var` divides by $D-1$ unless you pass
# `correction=0`. And `eps` is added to the variance *before* the root is taken.
#
# </details>
#
# <details><summary>Hint 3: what about float16 and bfloat16?</summary>
#
# Keep `x.dtype` in a variable, before anything else. If it is a half type, turn `x`, `weight` and
# `bias` into float32 with `.float()`, do everything there, scale and shift included, and go back
# with `.to(dtype)` in the last line. Leave float64 as it is.
#
# </details>
#
# <details><summary>Expected output</summary>
#
# ```python
# x = torch.tensor([[1.0, 2.0, 3.0, 4.0], [10.0, 20.0, 30.0, 40.0]])
# print(layer_norm(x, torch.ones(4), torch.zeros(4), 1e-5))
# ```
#
# prints
#
# ```
# tensor([[-1.3416, -0.4472,  0.4472,  1.3416],
#         [-1.3416, -0.4472,  0.4472,  1.3416]])
# ```
#
# The second row is ten times the first. Layer norm does not see the difference.
#
# </details>


# %% nbgrader={"grade_id": "layer_norm", "solution": true}
def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """Normalize each vector of x along the last dimension, then scale and shift it.

    Args:
        x: (..., D), any rank >= 1, any floating-point dtype. Is not modified.
        weight: (D,), multiplies the normalized vector.
        bias: (D,), is added last.
        eps: added to the variance, inside the square root.

    Returns:
        (..., D), with the dtype of x.

    The variance is the biased one (divide by D), and stays accurate when the mean is far larger
    than the spread. Mean and variance are taken over the last dimension only. Gradients flow through
    both. float16 and bfloat16 inputs are computed in float32, and the result is cast back once,
    after the scale and the shift; float64 is computed in float64.
    """
    ### BEGIN SOLUTION
    dtype = x.dtype
    if dtype in (torch.float16, torch.bfloat16):
        x, weight, bias = x.float(), weight.float(), bias.float()
    centered = x - x.mean(dim=-1, keepdim=True)
    var = centered.square().mean(dim=-1, keepdim=True)  # (..., 1)
    rstd = torch.rsqrt(var + eps)  # (..., 1)
    x_hat = centered * rstd  # (..., D)
    return (x_hat * weight + bias).to(dtype)
    ### END SOLUTION


# %% [markdown]
# **Check exercise 1.** Run the next cell. No error means that all visible checks passed.

# %% tags=["active-ipynb"] nbgrader={"grade_id": "test_layer_norm", "points": 8}
# # One vector whose mean is 0 and whose variance is 1, with eps = 3: each entry is divided by
# # sqrt(1 + 3) = 2.
# x = torch.tensor([-1.0, 1.0])
# y = layer_norm(x, torch.ones(2), torch.zeros(2), 3.0)
# assert y is not None, "layer_norm returned None: does it end with a return statement?"
# assert y.shape == (2,), f"x has shape (2,), the result must too, but it has {tuple(y.shape)}"
# assert torch.allclose(y, torch.tensor([-0.5, 0.5])), (
#     f"layer_norm([-1, 1]) with eps=3 must be [-0.5, 0.5], got {y.detach()}. "
#     "Is the variance divided by D, not D - 1? Is eps inside the square root?"
# )
#
# # Every vector on its own: the second row is far away from the first and must not matter.
# x = torch.tensor([[1.0, 2.0, 3.0, 4.0], [10.0, 20.0, 30.0, 40.0]])
# y = layer_norm(x, torch.ones(4), torch.zeros(4), 1e-5)
# row = torch.tensor([-1.3416, -0.4472, 0.4472, 1.3416])
# assert torch.allclose(y, row.expand(2, 4), atol=1e-3), (
#     f"both rows must be {row}, got {y.detach()}. "
#     "Are mean and variance taken over the last dimension, and only over that one?"
# )
#
# # Scale and shift come after the normalization, one number for each feature.
# weight, bias = torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.tensor([0.5, 0.0, -0.5, 1.0])
# y = layer_norm(x, weight, bias, 1e-5)
# assert torch.allclose(y, row * weight + bias, atol=1e-3), (
#     "with weight and bias the result must be normalized * weight + bias, feature by feature"
# )
#
# # Any rank, and x itself stays as it was.
# x = 5 + 3 * torch.randn(2, 3, 5, dtype=torch.float64)
# before = x.clone()
# ones, zeros = torch.ones(5, dtype=torch.float64), torch.zeros(5, dtype=torch.float64)
# y = layer_norm(x, ones, zeros, 1e-12)
# assert torch.equal(x, before), "layer_norm changed its input: avoid in-place operations on x"
# assert y.shape == x.shape, f"the result must have shape (2, 3, 5), got {tuple(y.shape)}"
# assert y.dtype == torch.float64, f"x is float64, the result must be too, but it is {y.dtype}"
# assert y.mean(dim=-1).abs().max() < 1e-6, (
#     "each vector of the result must have mean 0. Is the mean subtracted? If the means are as small "
#     "as 1e-5: does the float64 x go through float32 somewhere?"
# )
# assert (y.square().mean(dim=-1) - 1).abs().max() < 1e-6, (
#     "each vector of the result must have variance 1 (biased) when eps is tiny"
# )
#
# # Half precision: 600 squared is 360000, more than float16 can hold (65504).
# x = torch.tensor([-600.0, 600.0], dtype=torch.float16)
# y = layer_norm(x, torch.ones(2).half(), torch.zeros(2).half(), 1e-5)
# assert y.dtype == torch.float16, f"x is float16, the result must be too, but it is {y.dtype}"
# assert torch.equal(y, torch.tensor([-1.0, 1.0], dtype=torch.float16)), (
#     f"layer_norm([-600, 600]) in float16 must be [-1, 1], got {y.detach()}. "
#     "Are half types computed in float32?"
# )
# print("Exercise 1: the visible checks pass.")

# %% [markdown]
# ## Exercise 2: layer norm as a module
#
# *5 points, easy, about 10 minutes*
#
# The function needs somebody to keep `weight` and `bias`, and an optimizer must find them to train
# them. That is the job of a module: it owns the parameters and calls the function.
#
# | name | shape | starts as |
# |---|---|---|
# | `weight` | `(d_model,)` | ones |
# | `bias` | `(d_model,)` | zeros |
# | `x` and the result | `(..., d_model)` | |
#
# So a fresh module only normalizes. It computes the same in training and in evaluation: layer norm
# keeps no running statistics.
#
# <details><summary>Hint 1: how does a module know its parameters?</summary>
#
# Assign an `nn.Parameter` to an attribute: `self.weight = nn.Parameter(...)`. A plain tensor is not
# registered: `parameters()` does not list it, so no optimizer trains it, and `state_dict()` does
# not save it.
#
# </details>
#
# <details><summary>Hint 2: what goes into __init__?</summary>
#
# Three attributes: `weight`, then `bias`, and `eps`. The call of `super().__init__()` is already
# there and must come first.
#
# </details>
#
# <details><summary>Hint 3: what goes into forward?</summary>
#
# One line: call your `layer_norm` with `x` and what the module owns. Since `layer_norm` returns the
# dtype of `x`, the module does too.
#
# </details>
#
# <details><summary>Expected output</summary>
#
# ```python
# norm = LayerNorm(4)
# print({name: tuple(p.shape) for name, p in norm.named_parameters()})
# print(norm(torch.tensor([[1.0, 2.0, 3.0, 4.0]])))
# ```
#
# prints
#
# ```
# {'weight': (4,), 'bias': (4,)}
# tensor([[-1.3416, -0.4472,  0.4472,  1.3416]], grad_fn=<AddBackward0>)
# ```
#
# Your `grad_fn` may have another name. That there is one matters: gradients reach the parameters.
#
# </details>


# %% nbgrader={"grade_id": "LayerNorm", "solution": true}
class LayerNorm(nn.Module):
    """Layer norm over the last dimension with a learned scale and shift.

    Args:
        d_model: D, the size of the last dimension of the input.
        eps: added to the variance, inside the square root.

    Parameters (registered, trainable):
        weight: (D,), starts as ones.
        bias: (D,), starts as zeros.

    Input and result: (..., D), any rank >= 1; the result has the dtype of the input. The formula
    and the dtype rules are those of layer_norm. There is no other state, and no difference between
    training and evaluation.
    """

    def __init__(self, d_model: int, eps: float = 1e-5) -> None:
        super().__init__()
        ### BEGIN SOLUTION
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps
        ### END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        return layer_norm(x, self.weight, self.bias, self.eps)
        ### END SOLUTION


# %% [markdown]
# **Check exercise 2.** The module calls your `layer_norm`, so exercise 1 should pass first.

# %% tags=["active-ipynb"] nbgrader={"grade_id": "test_LayerNorm", "points": 5}
# norm = LayerNorm(4)
# shapes = {name: tuple(p.shape) for name, p in norm.named_parameters()}
# assert shapes == {"weight": (4,), "bias": (4,)}, (
#     "the module must register two parameters, weight and bias, of shape (d_model,), "
#     f"but it has {shapes}"
# )
# assert set(norm.state_dict()) == {"weight", "bias"}, (
#     f"state_dict must hold weight and bias only, but it holds {list(norm.state_dict())}"
# )
# assert torch.equal(norm.weight, torch.ones(4)), "weight must start as ones"
# assert torch.equal(norm.bias, torch.zeros(4)), "bias must start as zeros"
#
# x = torch.tensor([[1.0, 2.0, 3.0, 4.0], [10.0, 20.0, 30.0, 40.0]])
# row = torch.tensor([-1.3416, -0.4472, 0.4472, 1.3416])
# y = norm(x)
# assert y is not None, "forward returned None: does it end with a return statement?"
# assert torch.allclose(y, row.expand(2, 4), atol=1e-3), (
#     f"a fresh LayerNorm(4) must turn both rows into {row}, got {y.detach()}"
# )
#
# # The parameters are used, also after they have changed, and gradients reach them.
# weight, bias = torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.tensor([0.5, 0.0, -0.5, 1.0])
# norm.load_state_dict({"weight": weight, "bias": bias})
# y = norm(x)
# assert torch.allclose(y, row * weight + bias, atol=1e-3), (
#     "after loading other parameters the result must be normalized * weight + bias"
# )
# assert y.requires_grad, (
#     "no gradient can reach the parameters: give layer_norm self.weight and self.bias themselves"
# )
# y.sum().backward()
# assert norm.weight.grad is not None and norm.bias.grad is not None, (
#     "a parameter got no gradient: give layer_norm self.weight and self.bias themselves"
# )
# assert torch.allclose(norm.bias.grad, torch.full((4,), 2.0)), (
#     "each bias is added to 2 rows, so the gradient of the sum of all outputs must be 2"
# )
#
# # eps is kept, and x decides the dtype of the result.
# y = LayerNorm(2, eps=3.0)(torch.tensor([-1.0, 1.0]))
# assert torch.allclose(y, torch.tensor([-0.5, 0.5])), (
#     f"LayerNorm(2, eps=3.0) must turn [-1, 1] into [-0.5, 0.5], got {y.detach()}. Is eps used?"
# )
# y = LayerNorm(4)(x.bfloat16())
# assert y.dtype == torch.bfloat16, f"x is bfloat16, the result must be too, but it is {y.dtype}"
# print("Exercise 2: the visible checks pass.")

# %% [markdown]
# ## Exercise 3: the backward pass
#
# *7 points, hard, about 35 minutes*
#
# Training needs the gradient of the loss with respect to `x`, `weight` and `bias`, given the
# gradient with respect to the output. Autograd finds it for you, but a fused kernel has to state it
# by hand, and the formula shows what layer norm does to gradients.
#
# ### First by the graph
#
# Write $\bar t$ for the gradient of the loss with respect to $t$; so $\bar y$ is `grad_out`. One
# vector passes through the steps on the left from top to bottom. Its gradient comes back through
# the steps on the right, from bottom to top.
#
# | forward | backward |
# |---|---|
# | $\mu = \frac1D\sum_j x_j$ | $\bar x_i = \bar c_i - \frac1D\sum_j \bar c_j$ |
# | $c_i = x_i - \mu$ | $\bar c_i = r\,\hat g_i + \frac2D\,\bar v\,c_i$ |
# | $v = \frac1D\sum_j c_j^2$ | $\bar v = -\frac12\,r^3\,\bar r$ |
# | $r = (v+\varepsilon)^{-1/2}$ | $\bar r = \sum_j \hat g_j\,c_j$ |
# | $\hat x_i = c_i\,r$ | $\hat g_i = \bar y_i\,w_i$, the gradient of $\hat x_i$ |
# | $y_i = w_i\,\hat x_i + b_i$ | $\bar w_i = \sum \bar y_i \hat x_i$, $\bar b_i = \sum \bar y_i$ |
#
# `x` reaches the loss along three paths: directly, through the mean, and through the variance. Each
# path adds a term. The sums in the last row run over all vectors, since every vector uses the same
# $w$ and $b$.
#
# ### Then simplified
#
# Insert the rows into one another from the bottom up. With $c_i\,r = \hat x_i$ the second row
# becomes
#
# $$
# \bar c_i = r\,\Bigl(\hat g_i - \hat x_i\,\frac1D\sum_j \hat g_j\,\hat x_j\Bigr).
# $$
#
# The first row subtracts the mean of $\bar c$. The mean of $\hat x$ is 0, so what is left is
#
# $$
# \bar x_i = r\,\Bigl(\hat g_i - \frac1D\sum_j \hat g_j
#            - \hat x_i\,\frac1D\sum_j \hat g_j\,\hat x_j\Bigr).
# $$
#
# In words: take the arriving gradient, remove its mean and its component along $\hat x$, and scale
# by $r$ = `rstd`. Both removals make sense. Adding a constant to `x` does not change the output,
# and stretching `x` around its mean does not either (up to `eps`), so no gradient may point in
# these two directions.
#
# | name | shape | |
# |---|---|---|
# | `grad_out`, `x`, `grad_x` | `(..., D)` | |
# | `weight` | `(D,)` | |
# | `grad_weight`, `grad_bias` | `(D,)` | sums over all leading dimensions |
# | `rstd`, both means | `(..., 1)` | one of each per vector |
#
# <details><summary>Hint 1: where to start?</summary>
#
# Compute `rstd` and `x_hat` from `x` again, as in exercise 1. Everything else needs only these two,
# `grad_out` and `weight`.
#
# </details>
#
# <details><summary>Hint 2: how to sum over all leading dimensions, for any rank?</summary>
#
# `t.reshape(-1, D).sum(dim=0)` treats every shape `(..., D)` as a list of vectors and adds them. It
# also works for a single vector of shape `(D,)`. (`t.sum(dim=tuple(range(t.dim() - 1)))` does not:
# for a single vector the tuple is empty, and torch then sums everything.)
#
# </details>
#
# <details><summary>Hint 3: in which order?</summary>
#
# `weight` is applied first: `g_hat = grad_out * weight`. Then both means are taken, of `g_hat` and
# of `g_hat * x_hat`, over the last dimension with `keepdim=True`. `grad_weight` uses `grad_out`
# itself, not `g_hat`.
#
# </details>
#
# <details><summary>Expected output</summary>
#
# ```python
# x = torch.tensor([[1.0, 2.0, 3.0, 4.0]])
# grad_out = torch.tensor([[1.0, 0.0, 0.0, 0.0]])
# for grad in layer_norm_backward(grad_out, x, torch.ones(4), 1e-5):
#     print(grad)
# ```
#
# prints
#
# ```
# tensor([[ 0.2683, -0.3578, -0.0894,  0.1789]])
# tensor([-1.3416,  0.0000,  0.0000,  0.0000])
# tensor([1., 0., 0., 0.])
# ```
#
# Only the first output was pushed, but all four inputs feel it. Their gradients add up to 0. (A
# zero may print as `-0.0000`.)
#
# </details>


# %% nbgrader={"grade_id": "layer_norm_backward", "solution": true}
def layer_norm_backward(
    grad_out: Tensor, x: Tensor, weight: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of layer_norm(x, weight, bias, eps), without autograd.

    Args:
        grad_out: (..., D), gradient of the loss with respect to the output. Is not modified.
        x: (..., D), the input of the forward pass. Is not modified.
        weight: (D,), the scale of the forward pass.
        eps: added to the variance, inside the square root.

    Returns:
        grad_x: (..., D), with the dtype of x.
        grad_weight: (D,), with the dtype of weight, summed over all leading dimensions.
        grad_bias: (D,), with the dtype of weight, summed over all leading dimensions.

    As in layer_norm, the variance is the biased one and float16 and bfloat16 inputs are computed in
    float32. The sums over the leading dimensions are float32 too; each result is cast back last.
    """
    ### BEGIN SOLUTION
    x_dtype, weight_dtype = x.dtype, weight.dtype
    if x_dtype in (torch.float16, torch.bfloat16):
        grad_out, x, weight = grad_out.float(), x.float(), weight.float()
    d = x.shape[-1]
    centered = x - x.mean(dim=-1, keepdim=True)
    rstd = torch.rsqrt(centered.square().mean(dim=-1, keepdim=True) + eps)  # (..., 1)
    x_hat = centered * rstd  # (..., D)

    grad_bias = grad_out.reshape(-1, d).sum(dim=0)  # (D,)
    grad_weight = (grad_out * x_hat).reshape(-1, d).sum(dim=0)  # (D,)

    g_hat = grad_out * weight  # (..., D)
    mean_g = g_hat.mean(dim=-1, keepdim=True)  # (..., 1)
    mean_gx = (g_hat * x_hat).mean(dim=-1, keepdim=True)  # (..., 1)
    grad_x = rstd * (g_hat - mean_g - x_hat * mean_gx)  # (..., D)
    return grad_x.to(x_dtype), grad_weight.to(weight_dtype), grad_bias.to(weight_dtype)
    ### END SOLUTION


# %% [markdown]
# **Check exercise 3.** This check asks autograd, through torch's own layer norm, for the right
# gradients. It does not need your exercises 1 and 2.

# %% tags=["active-ipynb"] nbgrader={"grade_id": "test_layer_norm_backward", "points": 7}
# x = torch.tensor([[1.0, 2.0, 3.0, 4.0]])
# grad_out = torch.tensor([[1.0, 0.0, 0.0, 0.0]])
# grads = layer_norm_backward(grad_out, x, torch.ones(4), 1e-5)
# assert isinstance(grads, tuple) and len(grads) == 3, (
#     "layer_norm_backward must return three tensors: grad_x, grad_weight, grad_bias"
# )
# expected = torch.tensor([[0.2683, -0.3578, -0.0894, 0.1789]])
# assert torch.allclose(grads[0], expected, atol=1e-3), (
#     f"for the example above grad_x must be {expected}, got {grads[0].detach()}"
# )
#
# # A weight that is not 1, a large eps and three dimensions, in float64: now every term counts.
# x = 2 + torch.randn(3, 4, 5, dtype=torch.float64)
# weight = 1 + torch.rand(5, dtype=torch.float64)
# grad_out = torch.randn(3, 4, 5, dtype=torch.float64)
# x_before, grad_before = x.clone(), grad_out.clone()
# grad_x, grad_weight, grad_bias = layer_norm_backward(grad_out, x, weight, 0.5)
# assert torch.equal(x, x_before), "layer_norm_backward changed x: avoid in-place operations"
# assert torch.equal(grad_out, grad_before), (
#     "layer_norm_backward changed grad_out: avoid in-place operations"
# )
# leaves = [x.requires_grad_(), weight.requires_grad_(), torch.zeros_like(weight).requires_grad_()]
# y = nn.functional.layer_norm(leaves[0], (5,), leaves[1], leaves[2], eps=0.5)
# want_x, want_weight, want_bias = torch.autograd.grad(y, leaves, grad_out)
# assert grad_bias.shape == (5,), f"grad_bias must have shape (5,), got {tuple(grad_bias.shape)}"
# assert torch.allclose(grad_bias, want_bias), (
#     "grad_bias is wrong: add grad_out over all dimensions but the last"
# )
# assert grad_weight.shape == (5,), (
#     f"grad_weight must have shape (5,), got {tuple(grad_weight.shape)}"
# )
# assert torch.allclose(grad_weight, want_weight), (
#     "grad_weight is wrong: add grad_out * x_hat over all dimensions but the last. Is x_hat that "
#     "of exercise 1, with the biased variance and eps inside the root?"
# )
# assert grad_x.shape == x.shape, f"grad_x must have shape (3, 4, 5), got {tuple(grad_x.shape)}"
# assert grad_x.sum(dim=-1).abs().max() < 1e-6, (
#     "adding a constant to a vector does not change the output, so each vector of grad_x must add "
#     "up to 0. Is the mean of grad_out * weight subtracted?"
# )
# assert torch.allclose(grad_x, want_x), (
#     "grad_x is wrong. Is weight applied before the two means? Is x_hat * mean(g_hat * x_hat) "
#     "subtracted? Is the variance the biased one, with eps inside the root?"
# )
# print("Exercise 3: the visible checks pass.")

# %% [markdown]
# ## Question 1: no memory
#
# *3 points, in words, about 10 minutes*
#
# A batch norm layer stores running statistics and behaves differently in training and in
# evaluation. Your `LayerNorm` does neither. In three to six sentences: why can layer norm do without
# them, and in which situation does that make a practical difference? Name one, and say what would
# go wrong with batch norm there.
#
# Write your answer into the next cell, in place of its text. Nothing runs it, and a person reads it.

# %% [markdown] nbgrader={"grade_id": "written_memory", "written": true, "points": 3}
# ### BEGIN SOLUTION
# **A model answer.** Layer norm takes mean and variance from the vector it normalizes. They are at
# hand whenever there is an input, so nothing has to be remembered, and the result for a vector is
# the same in training, in evaluation and in any batch. Batch norm takes them from the other samples
# of the batch. At evaluation there may be no other samples, so it stores averages from training.
# When a model generates text token by token for one user, the batch holds one sample: batch norm in
# training mode would divide by a variance of 0, and in evaluation mode it relies on stored averages
# that may not fit this text. Layer norm computes what it computed in training.
#
# **Marking guide.**
#
# - 1 point: the statistics come from the sample (or token) itself, so they are there at any time.
# - 1 point: batch norm needs stored averages since they come from other samples.
# - 1 point: a fitting situation with its consequence. Accept: batches of one, texts of different
#   lengths, a shift between training and test data, distributed training with few samples per
#   device, reinforcement or online learning.
# - No point is lost for language. "Layer norm is better for text" without a reason earns nothing.
# ### END SOLUTION

# %% [markdown]
# ## Question 2: weights ten times as large
#
# *3 points, in words, about 10 minutes*
#
# A linear layer without bias, $h = Wx$, feeds a layer norm. Somebody multiplies all of $W$ by 10.
# Take `eps` as 0. What happens to the output of the layer norm? What happens to the gradient of the
# loss with respect to $W$? So if plain gradient descent takes one step with the same learning rate as
# before, how does the *relative* change of $W$ compare?

# %% [markdown] nbgrader={"grade_id": "written_tenfold", "written": true, "points": 3}
# ### BEGIN SOLUTION
# **A model answer.** Each $h$ becomes ten times as large, its mean and its standard deviation do too,
# so the output stays as it was. The loss as a function of $W$ does not change when $W$ is scaled, so
# its slope at $10W$ is a tenth of the slope at $W$: the gradient is divided by 10. The step is a tenth
# as large and the weights are ten times as large, so the relative change is divided by 100. The norm
# of the weights acts like a learning rate.
#
# **Marking guide.**
#
# - 1 point: the output does not change, with a reason (mean and deviation scale along).
# - 1 point: the gradient is divided by 10. Accept a derivation by the chain rule or from
#   $L(cW) = L(W)$, or "it has the factor `rstd`, and `rstd` is divided by 10".
# - 1 point: the relative change is divided by 100. Only "it learns more slowly" earns half a point.
# ### END SOLUTION

# %% [markdown]
# ## Before you hand in
#
# - Restart the kernel and run all cells (*Kernel > Restart Kernel and Run All Cells*). Cells that
#   were run in another order can hide a mistake.
# - All three check cells print that their checks pass. The hidden tests go further: read the three
#   docstrings once more and try shapes, dtypes and values of `eps` that the checks do not use.
# - No exercise calls a ready-made normalization, and exercise 3 does not call autograd.
# - Both written questions have an answer in their own cell.
# - The functions and the class still have their names and arguments. An exercise you leave out
#   costs only its own points.
# - Save, and hand in `layernorm.ipynb`.
