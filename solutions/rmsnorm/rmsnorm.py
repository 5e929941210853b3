# %% [markdown]
# # RMSNorm and after
#
# In this notebook you write RMSNorm, forwards, backwards and as a module, and then five layers that
# came after it or beside it: partial RMSNorm, ScaleNorm, AdaNorm, adaptive layer norm and Dynamic
# Tanh. The chapter *RMSNorm and after* of the course book explains every idea used here; keep its
# page `rmsnorm.html` open beside this notebook (its text is also in
# [book/rmsnorm.md](../../book/rmsnorm.md)).
#
# | exercise | you write | points | difficulty | time |
# |---|---|---|---|---|
# | 1 | `rms_norm(x, weight, eps)` | 6 | easy | 10 min |
# | 2 | `rms_norm_backward(grad_out, x, weight, eps)` | 6 | hard | 25 min |
# | 3 | `RMSNorm(d_model, eps)` | 4 | easy | 5 min |
# | 4 | `partial_rms_norm(x, weight, fraction, eps)` | 4 | easy | 10 min |
# | 5 | `scale_norm(x, g, eps)` | 4 | easy | 10 min |
# | 6 | `ada_norm(x, c, k, eps)` | 4 | medium | 15 min |
# | 7 | `AdaLayerNorm(d_model, d_cond, eps)` | 6 | medium | 25 min |
# | 8 | `DynamicTanh(d_model, alpha)` | 4 | easy | 10 min |
#
# Two written questions at the end are worth 3 points each. A person grades them.
#
# **How to work.** Replace `raise NotImplementedError()` with your code and run the cell with
# Shift+Enter. Then run the check cell below it. A check that fails says what it saw and what to
# look at. Stuck? Open the hints one at a time. Add as many cells of your own as you like.
#
# **What is graded.** Hidden tests run your functions on other shapes, data types, values of `eps`
# and inputs. Passing the visible checks is a good sign, but **it is not the same as passing the
# hidden tests**. The docstring of each exercise is the full specification. The layers of this
# notebook differ from one another in small conventions (where `eps` stands, what is cast when), as
# they do in the world: read each docstring to its end. If you have the course's repository, its
# README says how to run the hidden tests on this file: they name the mistake.
#
# **Rules.** Do not call a ready-made normalization (`torch.nn.functional.rms_norm`,
# `torch.nn.RMSNorm`, `layer_norm`, `torch.nn.functional.normalize` and their relatives). In
# exercise 2 do not call autograd either. Cells of your own may call all of this, to compare. Where
# one of your functions reaches it during a hidden test, that test fails. Keep the names and the
# arguments of the functions.
#
# **How to hand in.** Save the notebook and hand in this one file, `rmsnorm.ipynb`, without renaming
# it.

# %%
import torch
from torch import Tensor, nn
from torch.nn import functional as F

# %% [markdown]
# ## Exercise 1: RMSNorm as a function
#
# *6 points, easy, about 10 minutes*
#
# Take layer norm, and leave out everything that has to do with the mean: no centering, no bias.
# What is left divides a vector by its root mean square, and then lets the model choose a scale for
# each feature:
#
# $$
# y_i = w_i\,\frac{x_i}{\sqrt{\frac1D\sum_{j=1}^{D} x_j^2+\varepsilon}}
# $$
#
# | name | shape | |
# |---|---|---|
# | `x` | `(..., D)` | for example `(B, L, D)`, or just `(D,)` |
# | mean square | `(..., 1)` | one per vector |
# | `weight` | `(D,)` | one number per feature, shared by all vectors |
# | result | `(..., D)` | same shape and dtype as `x` |
#
# <details><summary>Hint 1: which numbers are averaged?</summary>
#
# The squares of one vector: `x.square().mean(dim=-1, keepdim=True)`. Their mean, not their sum, and
# of `x` itself, not of `x` minus its mean.
#
# </details>
#
# <details><summary>Hint 2: where does eps go?</summary>
#
# It is added to the mean square *before* the root is taken. `torch.rsqrt(t)` is one over the square
# root of `t`, so a multiplication by it is the division you need.
#
# </details>
#
# <details><summary>Hint 3: what about float16 and bfloat16?</summary>
#
# Remember `x.dtype`. If it is a half type, turn `x` and `weight` into float32 with `.float()`, do
# everything there, the multiplication by `weight` included, and go back with `.to(dtype)` last.
#
# </details>
#
# <details><summary>Expected output</summary>
#
# ```python
# x = torch.tensor([[3.0, 4.0, 0.0, 0.0], [30.0, 40.0, 0.0, 0.0], [7.0, 7.0, 7.0, 7.0]])
# print(rms_norm(x, torch.ones(4), 1e-6))
# ```
#
# prints
#
# ```
# tensor([[1.2000, 1.6000, 0.0000, 0.0000],
#         [1.2000, 1.6000, 0.0000, 0.0000],
#         [1.0000, 1.0000, 1.0000, 1.0000]])
# ```
#
# The root mean square of the first row is $\sqrt{25/4} = 2.5$. The second row is ten times the
# first: RMSNorm does not see the difference. Layer norm would turn the last row into zeros.
#
# </details>


# %% nbgrader={"grade_id": "rms_norm", "solution": true}
def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Divide each vector of x by its root mean square, then scale each feature.

    Args:
        x: (..., D), any rank >= 1, any floating-point dtype. Is not modified.
        weight: (D,), multiplies the normalized vector. Plain weight, not 1 + weight.
        eps: added to the mean of the squares, inside the square root.

    Returns:
        (..., D), with the dtype of x.

    The mean of the squares is taken over the last dimension only, and nothing is subtracted from x.
    float16 and bfloat16 inputs are computed in float32, and the result is cast back once, after the
    multiplication by weight.
    """
    ### BEGIN SOLUTION
    dtype = x.dtype
    if dtype in (torch.float16, torch.bfloat16):
        x, weight = x.float(), weight.float()
    mean_square = x.square().mean(dim=-1, keepdim=True)  # (..., 1)
    rstd = torch.rsqrt(mean_square + eps)  # (..., 1)
    return (x * rstd * weight).to(dtype)
    ### END SOLUTION


# %% [markdown]
# **Check exercise 1.** Run the next cell. No error means that all visible checks passed.

# %% tags=["active-ipynb"] nbgrader={"grade_id": "test_rms_norm", "points": 6}
# # Mean square 1, with eps = 3: each entry is divided by sqrt(1 + 3) = 2.
# x = torch.tensor([1.0, 1.0])
# y = rms_norm(x, torch.ones(2), 3.0)
# assert y is not None, "rms_norm returned None: does it end with a return statement?"
# assert y.shape == (2,), f"x has shape (2,), the result must too, but it has {tuple(y.shape)}"
# assert torch.allclose(y, torch.tensor([0.5, 0.5])), (
#     f"rms_norm([1, 1]) with eps=3 must be [0.5, 0.5], got {y.tolist()}. Is the mean of the "
#     "squares taken, not their sum? Is eps inside the square root? Is nothing subtracted from x?"
# )
#
# # Every vector on its own: the second row is far away from the first and must not matter.
# x = torch.tensor([[3.0, 4.0, 0.0, 0.0], [30.0, 40.0, 0.0, 0.0]])
# y = rms_norm(x, torch.ones(4), 1e-6)
# row = torch.tensor([1.2, 1.6, 0.0, 0.0])
# assert torch.allclose(y, row.expand(2, 4), atol=1e-3), (
#     f"both rows must be {row.tolist()}, got {y.tolist()}. "
#     "Is the mean of the squares taken over the last dimension, and only over that one?"
# )
#
# # The scale comes after the normalization, one number for each feature.
# weight = torch.tensor([2.0, -1.0, 3.0, 4.0])
# y = rms_norm(x, weight, 1e-6)
# assert torch.allclose(y, row * weight, atol=1e-3), (
#     "with weight the result must be normalized * weight, feature by feature"
# )
#
# # Any rank, and x itself stays as it was.
# x = 5 + 3 * torch.randn(2, 3, 5, dtype=torch.float64)
# before = x.clone()
# y = rms_norm(x, torch.ones(5, dtype=torch.float64), 1e-12)
# assert torch.equal(x, before), "rms_norm changed its input: avoid in-place operations on x"
# assert y.shape == x.shape, f"the result must have shape (2, 3, 5), got {tuple(y.shape)}"
# assert y.dtype == torch.float64, f"x is float64, the result must be too, but it is {y.dtype}"
# assert (y.square().mean(dim=-1) - 1).abs().max() < 1e-6, (
#     "the squares of each vector of the result must have mean 1 when eps is tiny"
# )
#
# # Half precision: 600 squared is 360000, more than float16 can hold (65504).
# x = torch.tensor([-600.0, 600.0], dtype=torch.float16)
# y = rms_norm(x, torch.ones(2).half(), 1e-6)
# assert y.dtype == torch.float16, f"x is float16, the result must be too, but it is {y.dtype}"
# assert torch.equal(y, torch.tensor([-1.0, 1.0], dtype=torch.float16)), (
#     f"rms_norm([-600, 600]) in float16 must be [-1, 1], got {y.tolist()}. "
#     "Are half types computed in float32?"
# )
# print("Exercise 1: the visible checks pass.")

# %% [markdown]
# ## Exercise 2: the backward pass
#
# *6 points, hard, about 25 minutes*
#
# Given the gradient of the loss with respect to the output, find those with respect to `x` and
# `weight`, without autograd. One path less than in layer norm: there is no mean.
#
# Write $\bar t$ for the gradient of the loss with respect to $t$; so $\bar y$ is `grad_out`. One
# vector passes through the steps on the left from top to bottom. Its gradient comes back through
# the steps on the right, from bottom to top.
#
# | forward | backward |
# |---|---|
# | $m = \frac1D\sum_j x_j^2$ | $\bar x_i = r\,\hat g_i + \frac2D\,\bar m\,x_i$ |
# | $r = (m+\varepsilon)^{-1/2}$ | $\bar m = -\frac12\,r^3\,\bar r$ |
# | $\hat x_i = x_i\,r$ | $\bar r = \sum_j \hat g_j\,x_j$, where $\hat g_i = \bar y_i\,w_i$ |
# | $y_i = w_i\,\hat x_i$ | $\bar w_i = \sum \bar y_i\,\hat x_i$, over all vectors |
#
# Put the third row into the second and that into the first, and use $x\,r = \hat x$:
#
# $$
# \bar x_i = r\,\Bigl(\hat g_i - \hat x_i\,\frac1D\sum_j \hat g_j\,\hat x_j\Bigr).
# $$
#
# In words: the arriving gradient loses its component along $\hat x$, since stretching `x` does not
# change the output (up to `eps`), and is scaled by $r$ = `rstd`.
#
# | name | shape | |
# |---|---|---|
# | `grad_out`, `x`, `grad_x` | `(..., D)` | |
# | `weight`, `grad_weight` | `(D,)` | `grad_weight`: a sum over all leading dimensions |
# | `rstd`, the mean of $\hat g\,\hat x$ | `(..., 1)` | one of each per vector |
#
# <details><summary>Hint 1: where to start?</summary>
#
# Compute `rstd` and `x_hat = x * rstd` again, as in exercise 1. Everything else needs only these
# two, `grad_out` and `weight`.
#
# </details>
#
# <details><summary>Hint 2: how to sum over all leading dimensions, for any rank?</summary>
#
# `t.reshape(-1, D).sum(dim=0)` treats every shape `(..., D)` as a list of vectors and adds them. It
# also works for a single vector of shape `(D,)`.
#
# </details>
#
# <details><summary>Hint 3: in which order?</summary>
#
# `weight` is applied first: `g_hat = grad_out * weight`. Then the mean of `g_hat * x_hat` is taken
# over the last dimension with `keepdim=True`. `grad_weight` uses `grad_out` itself, not `g_hat`.
#
# </details>
#
# <details><summary>Expected output</summary>
#
# ```python
# x = torch.tensor([[3.0, 4.0, 0.0, 0.0]])
# grad_out = torch.tensor([[1.0, 0.0, 0.0, 1.0]])
# for grad in rms_norm_backward(grad_out, x, torch.ones(4), 1e-6):
#     print(grad)
# ```
#
# prints
#
# ```
# tensor([[ 0.2560, -0.1920,  0.0000,  0.4000]])
# tensor([1.2000, 0.0000, 0.0000, 0.0000])
# ```
#
# The gradient is orthogonal to `x`: $3\cdot0.256 - 4\cdot0.192 = 0$. It does not add up to 0, as
# that of layer norm does. (A zero may print as `-0.0000`.)
#
# </details>


# %% nbgrader={"grade_id": "rms_norm_backward", "solution": true}
def rms_norm_backward(
    grad_out: Tensor, x: Tensor, weight: Tensor, eps: float
) -> tuple[Tensor, Tensor]:
    """Gradients of rms_norm(x, weight, eps), without autograd.

    Args:
        grad_out: (..., D), gradient of the loss with respect to the output. Is not modified.
        x: (..., D), the input of the forward pass. Is not modified.
        weight: (D,), the scale of the forward pass.
        eps: added to the mean of the squares, inside the square root.

    Returns:
        grad_x: (..., D), with the dtype of x.
        grad_weight: (D,), with the dtype of weight, summed over all leading dimensions.

    As in rms_norm, float16 and bfloat16 inputs are computed in float32. The sum over the leading
    dimensions is float32 too; each result is cast back last.
    """
    ### BEGIN SOLUTION
    x_dtype, weight_dtype = x.dtype, weight.dtype
    if x_dtype in (torch.float16, torch.bfloat16):
        grad_out, x, weight = grad_out.float(), x.float(), weight.float()
    rstd = torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps)  # (..., 1)
    x_hat = x * rstd  # (..., D)

    grad_weight = (grad_out * x_hat).reshape(-1, x.shape[-1]).sum(dim=0)  # (D,)

    g_hat = grad_out * weight  # (..., D)
    mean_gx = (g_hat * x_hat).mean(dim=-1, keepdim=True)  # (..., 1)
    grad_x = rstd * (g_hat - x_hat * mean_gx)  # (..., D)
    return grad_x.to(x_dtype), grad_weight.to(weight_dtype)
    ### END SOLUTION


# %% [markdown]
# **Check exercise 2.** This check asks autograd, through torch's own RMSNorm, for the right
# gradients. It does not need your exercise 1.

# %% tags=["active-ipynb"] nbgrader={"grade_id": "test_rms_norm_backward", "points": 6}
# x = torch.tensor([[3.0, 4.0, 0.0, 0.0]])
# grad_out = torch.tensor([[1.0, 0.0, 0.0, 1.0]])
# grads = rms_norm_backward(grad_out, x, torch.ones(4), 1e-6)
# assert isinstance(grads, tuple) and len(grads) == 2, (
#     "rms_norm_backward must return two tensors: grad_x, grad_weight"
# )
# expected = torch.tensor([[0.256, -0.192, 0.0, 0.4]])
# assert torch.allclose(grads[0], expected, atol=1e-3), (
#     f"for the example above grad_x must be {expected.tolist()}, got {grads[0].tolist()}"
# )
#
# # A weight that is not 1, a large eps and three dimensions, in float64: now every term counts.
# x = 2 + torch.randn(3, 4, 5, dtype=torch.float64)
# weight = 1 + torch.rand(5, dtype=torch.float64)
# grad_out = torch.randn(3, 4, 5, dtype=torch.float64)
# x_before, grad_before = x.clone(), grad_out.clone()
# grad_x, grad_weight = rms_norm_backward(grad_out, x, weight, 0.5)
# assert torch.equal(x, x_before), "rms_norm_backward changed x: avoid in-place operations"
# assert torch.equal(grad_out, grad_before), (
#     "rms_norm_backward changed grad_out: avoid in-place operations"
# )
# leaves = [x.requires_grad_(), weight.requires_grad_()]
# y = F.rms_norm(leaves[0], (5,), leaves[1], eps=0.5)
# want_x, want_weight = torch.autograd.grad(y, leaves, grad_out)
# assert grad_weight.shape == (5,), (
#     f"grad_weight must have shape (5,), got {tuple(grad_weight.shape)}"
# )
# assert torch.allclose(grad_weight, want_weight), (
#     "grad_weight is wrong: add grad_out * x_hat over all dimensions but the last. Is x_hat "
#     "that of exercise 1, with eps inside the root?"
# )
# assert grad_x.shape == x.shape, f"grad_x must have shape (3, 4, 5), got {tuple(grad_x.shape)}"
# assert torch.allclose(grad_x, want_x), (
#     "grad_x is wrong. Is weight applied before the mean? Is x_hat * mean(g_hat * x_hat) "
#     "subtracted, and nothing else? Is everything multiplied by rstd?"
# )
# print("Exercise 2: the visible checks pass.")

# %% [markdown]
# ## Exercise 3: RMSNorm as a module
#
# *4 points, easy, about 5 minutes*
#
# The module owns the weight and calls the function. There is no bias: the method does not center,
# so it does not shift either.
#
# | name | shape | starts as |
# |---|---|---|
# | `weight` | `(d_model,)` | ones |
# | `x` and the result | `(..., d_model)` | |
#
# The default of `eps` is 1e-6, as in the code of T5, Llama and Gemma. (`torch.nn.RMSNorm` has
# another default: the machine epsilon of the type it computes in.)
#
# <details><summary>Hint 1: how does a module know its parameters?</summary>
#
# Assign an `nn.Parameter` to an attribute: `self.weight = nn.Parameter(...)`. A plain tensor is not
# registered, so no optimizer trains it.
#
# </details>
#
# <details><summary>Hint 2: what goes into __init__?</summary>
#
# Two attributes: `weight` and `eps`. The call of `super().__init__()` is already there.
#
# </details>
#
# <details><summary>Hint 3: what goes into forward?</summary>
#
# One line: call your `rms_norm` with `x` and what the module owns.
#
# </details>
#
# <details><summary>Expected output</summary>
#
# ```python
# norm = RMSNorm(4)
# print({name: tuple(p.shape) for name, p in norm.named_parameters()})
# print(norm(torch.tensor([[3.0, 4.0, 0.0, 0.0]])).detach())
# ```
#
# prints
#
# ```
# {'weight': (4,)}
# tensor([[1.2000, 1.6000, 0.0000, 0.0000]])
# ```
#
# </details>


# %% nbgrader={"grade_id": "RMSNorm", "solution": true}
class RMSNorm(nn.Module):
    """RMSNorm over the last dimension with a learned scale.

    Args:
        d_model: D, the size of the last dimension of the input.
        eps: added to the mean of the squares, inside the square root.

    Parameters (registered, trainable):
        weight: (D,), starts as ones. It is the factor itself, not its distance from 1.

    Input and result: (..., D), any rank >= 1; the result has the dtype of the input. The formula
    and the dtype rules are those of rms_norm. There is no bias, no other state, and no difference
    between training and evaluation.
    """

    def __init__(self, d_model: int, eps: float = 1e-6) -> None:
        super().__init__()
        ### BEGIN SOLUTION
        self.weight = nn.Parameter(torch.ones(d_model))
        self.eps = eps
        ### END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        return rms_norm(x, self.weight, self.eps)
        ### END SOLUTION


# %% [markdown]
# **Check exercise 3.** The module calls your `rms_norm`, so exercise 1 should pass first.

# %% tags=["active-ipynb"] nbgrader={"grade_id": "test_RMSNorm", "points": 4}
# norm = RMSNorm(4)
# shapes = {name: tuple(p.shape) for name, p in norm.named_parameters()}
# assert shapes == {"weight": (4,)}, (
#     f"the module must register one parameter, weight, of shape (d_model,), but it has {shapes}"
# )
# assert set(norm.state_dict()) == {"weight"}, (
#     f"state_dict must hold weight and nothing else, but it holds {list(norm.state_dict())}"
# )
# assert torch.equal(norm.weight, torch.ones(4)), "weight must start as ones"
#
# x = torch.tensor([[3.0, 4.0, 0.0, 0.0], [30.0, 40.0, 0.0, 0.0]])
# row = torch.tensor([1.2, 1.6, 0.0, 0.0])
# y = norm(x)
# assert y is not None, "forward returned None: does it end with a return statement?"
# assert torch.allclose(y, row.expand(2, 4), atol=1e-3), (
#     f"a fresh RMSNorm(4) must turn both rows into {row.tolist()}, got {y.tolist()}"
# )
#
# # The parameter is used, also after it has changed, and gradients reach it.
# weight = torch.tensor([2.0, -1.0, 3.0, 4.0])
# norm.load_state_dict({"weight": weight})
# y = norm(x)
# assert torch.allclose(y, row * weight, atol=1e-3), (
#     "after loading another weight the result must be normalized * weight"
# )
# assert y.requires_grad, "no gradient can reach weight: give rms_norm self.weight itself"
# y.sum().backward()
# assert norm.weight.grad is not None, "weight got no gradient: give rms_norm self.weight itself"
# assert torch.allclose(norm.weight.grad, 2 * row, atol=1e-3), (
#     "the gradient of the sum of all outputs for weight must be the sum of the normalized rows"
# )
#
# # eps is kept and has the right default, and x decides the dtype of the result.
# y = RMSNorm(2, eps=3.0)(torch.tensor([1.0, 1.0]))
# assert torch.allclose(y, torch.tensor([0.5, 0.5])), (
#     f"RMSNorm(2, eps=3.0) must turn [1, 1] into [0.5, 0.5], got {y.tolist()}. Is eps used?"
# )
# y = RMSNorm(2)(torch.tensor([1e-3, 1e-3]))
# assert torch.allclose(y, torch.full((2,), 0.5**0.5)), (
#     f"with the default eps of 1e-6 [0.001, 0.001] must become 0.7071, got {y.tolist()}"
# )
# y = RMSNorm(4)(x.bfloat16())
# assert y.dtype == torch.bfloat16, f"x is bfloat16, the result must be too, but it is {y.dtype}"
# print("Exercise 3: the visible checks pass.")

# %% [markdown]
# ## Exercise 4: partial RMSNorm
#
# *4 points, easy, about 10 minutes*
#
# Must we look at all $D$ numbers to know how large they are? Partial RMSNorm (pRMSNorm, from the
# paper that introduced RMSNorm) looks at the first $k$ and takes their root mean square for that of
# the whole vector:
#
# $$
# y_i = w_i\,\frac{x_i}{\sqrt{\frac1k\sum_{j=1}^{k} x_j^2+\varepsilon}},
# \qquad k = \max(1, \lfloor \text{fraction}\cdot D\rfloor), \qquad i = 1, \dots, D
# $$
#
# | name | shape | |
# |---|---|---|
# | `x`, result | `(..., D)` | all `D` features are divided |
# | mean square | `(..., 1)` | of the first `k` features |
# | `weight` | `(D,)` | |
#
# <details><summary>Hint 1: how many features are k?</summary>
#
# `int(...)` rounds a positive number down. A fraction of 0.3 of 10 features is 3, of 9 features 2,
# and of 2 features it would be 0: then take 1.
#
# </details>
#
# <details><summary>Hint 2: how to take the first k, for any rank?</summary>
#
# `x[..., :k]`. The three dots stand for all dimensions before the last one.
#
# </details>
#
# <details><summary>Hint 3: what is divided by what?</summary>
#
# All of `x` by the one number per vector that the first `k` gave. The mean divides by `k`, not by
# `D`. Everything else is exercise 1.
#
# </details>
#
# <details><summary>Expected output</summary>
#
# ```python
# x = torch.tensor([[3.0, 3.0, 6.0, -9.0]])
# print(partial_rms_norm(x, torch.ones(4), 0.5, 1e-6))
# print(partial_rms_norm(x, torch.ones(4), 1.0, 1e-6))
# ```
#
# prints
#
# ```
# tensor([[ 1.0000,  1.0000,  2.0000, -3.0000]])
# tensor([[ 0.5164,  0.5164,  1.0328, -1.5492]])
# ```
#
# The first two features are unusually small here, so the estimate from them is off by a factor of
# almost two. The second line is RMSNorm.
#
# </details>


# %% nbgrader={"grade_id": "partial_rms_norm", "solution": true}
def partial_rms_norm(x: Tensor, weight: Tensor, fraction: float, eps: float) -> Tensor:
    """RMSNorm whose root mean square is that of the first features only.

    Args:
        x: (..., D), any rank >= 1, any floating-point dtype. Is not modified.
        weight: (D,), multiplies the normalized vector.
        fraction: share of the features that is measured, 0 < fraction <= 1. The first
            k = int(fraction * D) features count: rounded down, but at least one.
        eps: added to the mean of the k squares, inside the square root.

    Returns:
        (..., D), with the dtype of x. All D features are divided, not only the first k.

    Gradients flow through the first k features into the divisor. float16 and bfloat16 inputs are
    computed in float32, and the result is cast back once, after the multiplication by weight.
    """
    ### BEGIN SOLUTION
    dtype = x.dtype
    if dtype in (torch.float16, torch.bfloat16):
        x, weight = x.float(), weight.float()
    k = max(1, int(fraction * x.shape[-1]))
    mean_square = x[..., :k].square().mean(dim=-1, keepdim=True)  # (..., 1)
    rstd = torch.rsqrt(mean_square + eps)  # (..., 1)
    return (x * rstd * weight).to(dtype)
    ### END SOLUTION


# %% [markdown]
# **Check exercise 4.**

# %% tags=["active-ipynb"] nbgrader={"grade_id": "test_partial_rms_norm", "points": 4}
# x = torch.tensor([[3.0, 3.0, 6.0, -9.0], [30.0, 30.0, 60.0, -90.0]])
# y = partial_rms_norm(x, torch.ones(4), 0.5, 1e-6)
# assert y is not None, "partial_rms_norm returned None: does it end with a return statement?"
# assert y.shape == x.shape, (
#     f"all features are divided, so the result must have shape (2, 4), got {tuple(y.shape)}"
# )
# row = torch.tensor([1.0, 1.0, 2.0, -3.0])
# assert torch.allclose(y, row.expand(2, 4), atol=1e-3), (
#     f"with fraction 0.5 both rows must be {row.tolist()}, got {y.tolist()}. Is the mean square "
#     "that of the first two features, divided by 2, and are all four divided by its root?"
# )
#
# # How many features count: rounded down, but at least one.
# x = torch.tensor([2.0, 4.0, 8.0])
# y = partial_rms_norm(x, torch.ones(3), 0.5, 1e-6)
# assert torch.allclose(y, x / 2, atol=1e-3), (
#     f"half of three features is one (rounded down), so {x.tolist()} must become "
#     f"{(x / 2).tolist()}, got {y.tolist()}"
# )
# y = partial_rms_norm(x, torch.ones(3), 0.1, 1e-6)
# assert torch.allclose(y, x / 2, atol=1e-3), (
#     f"with fraction 0.1 at least one feature must count, got {y.tolist()}"
# )
#
# # weight and eps, as in RMSNorm.
# weight = torch.tensor([1.0, -2.0, 3.0])
# y = partial_rms_norm(x, weight, 0.5, 12.0)
# assert torch.allclose(y, x / 4 * weight, atol=1e-3), (
#     "the first feature is 2 and eps is 12, so each feature must be divided by sqrt(4 + 12) = 4 "
#     f"and then multiplied by weight, got {y.tolist()}"
# )
# y = partial_rms_norm(torch.tensor([600.0, -600.0]).half(), torch.ones(2).half(), 0.5, 1e-6)
# assert y.dtype == torch.float16, f"x is float16, the result must be too, but it is {y.dtype}"
# assert y.tolist() == [1.0, -1.0], (
#     f"[600, -600] in float16 must become [1, -1], got {y.tolist()}. "
#     "Are half types computed in float32?"
# )
# print("Exercise 4: the visible checks pass.")

# %% [markdown]
# ## Exercise 5: ScaleNorm
#
# *4 points, easy, about 10 minutes*
#
# ScaleNorm gives every vector the same length `g`, one learned number for the whole layer:
#
# $$
# y = g\,\frac{x}{\max(\lVert x\rVert_2,\ \varepsilon)},
# \qquad \lVert
# x\rVert_2=\sqrt{\sum_{j=1}^{D} x_j^2}
# $$
#
# Its authors do not add `eps` to anything. They use it as a lower limit of the length.
#
# | name | shape | |
# |---|---|---|
# | `x`, result | `(..., D)` | |
# | length | `(..., 1)` | one per vector |
# | `g` | `()` | a tensor with a single number, no axes |
#
# <details><summary>Hint 1: how to get the length?</summary>
#
# `x.norm(dim=-1, keepdim=True)`, or the root of the sum of the squares. It is a sum, not a mean:
# with `g` equal to $\sqrt D$ ScaleNorm is RMSNorm.
#
# </details>
#
# <details><summary>Hint 2: how to set a lower limit?</summary>
#
# `t.clamp(min=eps)` replaces what is smaller than `eps` by `eps`, and leaves the rest alone.
#
# </details>
#
# <details><summary>Hint 3: what happens to a vector of zeros?</summary>
#
# Its length is 0, the limit makes it `eps`, and zeros divided by `eps` are zeros. Nothing special
# has to be written for it.
#
# </details>
#
# <details><summary>Expected output</summary>
#
# ```python
# x = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.003, 0.004], [0.0, 0.0]])
# print(scale_norm(x, torch.tensor(10.0), 0.05))
# ```
#
# prints
#
# ```
# tensor([[6.0000, 8.0000],
#         [6.0000, 8.0000],
#         [0.6000, 0.8000],
#         [0.0000, 0.0000]])
# ```
#
# Lengths above `eps` do not feel it at all. The third row is shorter than `eps`, so it is divided
# by 0.05.
#
# </details>


# %% nbgrader={"grade_id": "scale_norm", "solution": true}
def scale_norm(x: Tensor, g: Tensor, eps: float) -> Tensor:
    """Give each vector of x the length g.

    Args:
        x: (..., D), any rank >= 1, any floating-point dtype. Is not modified.
        g: (), a tensor with one number: the length of every vector of the result.
        eps: the smallest length that is divided by. Shorter vectors are divided by eps.
            It is a lower limit (clamp), not a summand.

    Returns:
        (..., D), with the dtype of x.

    The length is the root of the sum of the squares over the last dimension. Gradients flow through
    it and reach g. float16 and bfloat16 inputs are computed in float32, and the result is cast back
    once, after the multiplication by g.
    """
    ### BEGIN SOLUTION
    dtype = x.dtype
    if dtype in (torch.float16, torch.bfloat16):
        x, g = x.float(), g.float()
    length = x.norm(dim=-1, keepdim=True)  # (..., 1)
    return (g * x / length.clamp(min=eps)).to(dtype)
    ### END SOLUTION


# %% [markdown]
# **Check exercise 5.**

# %% tags=["active-ipynb"] nbgrader={"grade_id": "test_scale_norm", "points": 4}
# x = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.003, 0.004], [0.0, 0.0]])
# before = x.clone()
# y = scale_norm(x, torch.tensor(10.0), 0.05)
# assert y is not None, "scale_norm returned None: does it end with a return statement?"
# assert torch.equal(x, before), "scale_norm changed its input: avoid in-place operations on x"
# assert y.shape == x.shape, f"the result must have shape (4, 2), got {tuple(y.shape)}"
# assert torch.allclose(y[:1], torch.tensor([[6.0, 8.0]]), atol=1e-3), (
#     f"[3, 4] has length 5, and g is 10, so it must become [6, 8], got {y[0].tolist()}. Is the "
#     "length the root of the sum of the squares (not of the mean), and is eps only a lower limit?"
# )
# assert torch.allclose(y[1], y[0], atol=1e-3), (
#     f"[0.3, 0.4] must give [6, 8] too, got {y[1].tolist()}: is eps a lower limit, not a summand?"
# )
# assert torch.allclose(y[2], torch.tensor([0.6, 0.8]), atol=1e-3), (
#     f"[0.003, 0.004] is shorter than eps, so it must become [0.6, 0.8], got {y[2].tolist()}"
# )
# assert torch.equal(y[3], torch.zeros(2)), f"zeros must stay zeros, got {y[3].tolist()}"
#
# # Any rank; each vector has its own length.
# x = torch.randn(2, 3, 5, dtype=torch.float64)
# y = scale_norm(x, torch.tensor(2.0, dtype=torch.float64), 1e-5)
# assert y.dtype == torch.float64, f"x is float64, the result must be too, but it is {y.dtype}"
# assert (y.norm(dim=-1) - 2).abs().max() < 1e-6, "each vector of the result must have the length g"
#
# # Gradients reach g.
# g = torch.tensor(10.0, requires_grad=True)
# y = scale_norm(torch.tensor([3.0, 4.0]), g, 1e-5)
# assert y.requires_grad, "no gradient can reach g: use the tensor g itself, not its value"
# y.sum().backward()
# assert torch.allclose(g.grad, torch.tensor(1.4)), f"the gradient for g must be 1.4, got {g.grad}"
#
# # Half precision: 600 squared is 360000, more than float16 can hold (65504).
# y = scale_norm(torch.tensor([360.0, 480.0]).half(), torch.tensor(1.0).half(), 1e-3)
# assert y.dtype == torch.float16, f"x is float16, the result must be too, but it is {y.dtype}"
# assert torch.allclose(y.float(), torch.tensor([0.6, 0.8]), atol=1e-3), (
#     f"[360, 480] in float16 must become [0.6, 0.8], got {y.tolist()}. "
#     "Are half types computed in float32?"
# )
# print("Exercise 5: the visible checks pass.")

# %% [markdown]
# ## Exercise 6: AdaNorm
#
# *4 points, medium, about 15 minutes*
#
# Xu and others (2019) found that the learned weight and bias of layer norm can make a model
# overfit. Their AdaNorm has none. It takes the normalized vector $y$ and multiplies it by a factor
# that depends on $y$ itself:
#
# $$
# y = \frac{x-\mu}{\sqrt{\sigma^2+\varepsilon}}, \qquad z = C\,(1 - k\,y)\cdot y
# $$
#
# The products are taken feature by feature; $C$ and $k$ are fixed numbers. In the backward pass the
# factor $C\,(1 - k\,y)$ counts as a **constant**: no gradient flows through it.
#
# | name | shape | |
# |---|---|---|
# | `x`, $y$, factor, result | `(..., D)` | |
# | mean, variance | `(..., 1)` | one of each per vector |
# | `c`, `k` | Python numbers | the paper uses `k = 0.1` |
#
# <details><summary>Hint 1: which normalization is meant?</summary>
#
# Layer norm without weight and bias, in the convention of this course: subtract the mean, divide by
# the root of the biased variance plus `eps`. (The authors' own code uses the unbiased standard
# deviation and adds `eps` outside. The docstring is what counts here.)
#
# </details>
#
# <details><summary>Hint 2: how to make something a constant?</summary>
#
# `t.detach()` has the same values as `t`, but autograd takes it for a constant. Detach the factor,
# and only the factor: gradients still flow through the other $y$, and through mean and variance.
#
# </details>
#
# <details><summary>Hint 3: how to see whether it worked?</summary>
#
# The values are the same with and without `.detach()`. Compare gradients: that of `z` for `x` must
# be the one that `y` alone would have for an upstream gradient multiplied by the factor.
#
# </details>
#
# <details><summary>Expected output</summary>
#
# ```python
# x = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
# z = ada_norm(x, 1.0, 0.5, 1e-5)
# print(z.detach())
# z.backward(torch.tensor([1.0, 0.0, 0.0, 0.0]))
# print(x.grad)
# ```
#
# prints
#
# ```
# tensor([-2.2416, -0.5472,  0.3472,  0.4416])
# tensor([ 0.4483, -0.5978, -0.1494,  0.2989])
# ```
#
# The normalized vector is `[-1.3416, -0.4472, 0.4472, 1.3416]`. With a large `k` the factor treats
# large positive and large negative entries very differently.
#
# </details>


# %% nbgrader={"grade_id": "ada_norm", "solution": true}
def ada_norm(x: Tensor, c: float, k: float, eps: float) -> Tensor:
    """AdaNorm as published: z = c * (1 - k * y) * y, where y is x after layer norm.

    Args:
        x: (..., D), any rank >= 1, any floating-point dtype. Is not modified.
        c: a number, scales the result.
        k: a number, how strongly the factor depends on y.
        eps: added to the variance, inside the square root.

    Returns:
        (..., D), with the dtype of x.

    y has no weight and no bias, and uses the biased variance (divide by D) over the last dimension.
    The factor c * (1 - k * y) is a constant for autograd (detached); gradients flow through the y
    that it multiplies, and through that one's mean and variance. float16 and bfloat16 inputs are
    computed in float32, and the result is cast back once, at the end.
    """
    ### BEGIN SOLUTION
    dtype = x.dtype
    if dtype in (torch.float16, torch.bfloat16):
        x = x.float()
    centered = x - x.mean(dim=-1, keepdim=True)
    var = centered.square().mean(dim=-1, keepdim=True)  # (..., 1)
    y = centered * torch.rsqrt(var + eps)  # (..., D)
    factor = (c * (1 - k * y)).detach()  # (..., D)
    return (factor * y).to(dtype)
    ### END SOLUTION


# %% [markdown]
# **Check exercise 6.**

# %% tags=["active-ipynb"] nbgrader={"grade_id": "test_ada_norm", "points": 4}
# x = torch.tensor([[1.0, 2.0, 3.0, 4.0], [10.0, 20.0, 30.0, 40.0]])
# z = ada_norm(x, 1.0, 0.0, 1e-5)
# assert z is not None, "ada_norm returned None: does it end with a return statement?"
# assert z.shape == x.shape, f"the result must have shape (2, 4), got {tuple(z.shape)}"
# row = torch.tensor([-1.3416, -0.4472, 0.4472, 1.3416])
# assert torch.allclose(z, row.expand(2, 4), atol=1e-3), (
#     f"with c=1 and k=0 it is plain layer norm, so both rows must be {row.tolist()}, got "
#     f"{z.tolist()}. Is the variance the biased one, over the last dimension?"
# )
# z = ada_norm(torch.tensor([-1.0, 1.0]), 1.0, 0.0, 3.0)
# assert torch.allclose(z, torch.tensor([-0.5, 0.5])), (
#     f"with eps=3, c=1 and k=0 [-1, 1] must become [-0.5, 0.5], got {z.tolist()}. "
#     "Is eps inside the square root?"
# )
#
# # The factor: y = [-1, 1] times c (1 - k y), for c = 2 and k = 0.1.
# x = torch.tensor([-5.0, 5.0], dtype=torch.float64)
# z = ada_norm(x, 2.0, 0.1, 1e-12)
# assert torch.allclose(z, torch.tensor([-2.2, 1.8], dtype=torch.float64)), (
#     f"with c=2 and k=0.1 [-5, 5] must become [-2.2, 1.8], got {z.tolist()}: "
#     "multiply y by c * (1 - k * y), feature by feature"
# )
# assert z.dtype == torch.float64, f"x is float64, the result must be too, but it is {z.dtype}"
#
# # The factor is a constant in the backward pass, and nothing else is.
# x = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
# z = ada_norm(x, 1.0, 0.5, 1e-5)
# assert z.requires_grad, "no gradient can reach x: detach the factor only, not the whole result"
# z.backward(torch.tensor([1.0, 0.0, 0.0, 0.0]))
# want = torch.tensor([0.4483, -0.5978, -0.1494, 0.2989])
# assert torch.allclose(x.grad, want, atol=1e-3), (
#     f"the gradient for x must be {want.tolist()}, got {x.grad.tolist()}. "
#     "Is the factor c * (1 - k * y) detached, and only that?"
# )
# z = ada_norm(torch.tensor([-600.0, 600.0]).half(), 1.0, 0.5, 1e-5)
# assert z.dtype == torch.float16, f"x is float16, the result must be too, but it is {z.dtype}"
# assert z.tolist() == [-1.5, 0.5], (
#     f"[-600, 600] in float16 with k=0.5 must become [-1.5, 0.5], got {z.tolist()}. "
#     "Are half types computed in float32?"
# )
# print("Exercise 6: the visible checks pass.")

# %% [markdown]
# ## Exercise 7: adaptive layer norm
#
# *6 points, medium, about 25 minutes*
#
# What most people call adaptive layer norm (adaLN) today is something else than AdaNorm. Scale and
# shift are not learned numbers; a small layer computes them from a **condition**, such as the time
# step and the class of a diffusion model (DiT, 2023). One condition per sequence steers all its
# tokens:
#
# $$
# [\,s,\ t\,] = W\,\operatorname{silu}(\text{cond}) + b, \qquad
# y = \hat x\cdot(1 + t) + s, \qquad \hat x = \frac{x-\mu}{\sqrt{\sigma^2+\varepsilon}}
# $$
#
# $W$ and $b$ start as zeros. So a fresh layer is plain layer norm, whatever the condition.
#
# | name | shape | |
# |---|---|---|
# | `x`, $\hat x$, result | `(B, L, d_model)` | |
# | `cond` | `(B, d_cond)` | one condition per sequence |
# | `modulation(...)` | `(B, 2 * d_model)` | first half the shift $s$, second half the scale $t$ |
# | shift, scale | `(B, 1, d_model)` | the same for all tokens of a sequence |
#
# <details><summary>Hint 1: what goes into __init__?</summary>
#
# `self.modulation = nn.Linear(d_cond, 2 * d_model)`, then `nn.init.zeros_` for its weight and its
# bias, and `eps`. There are no other parameters: the layer norm itself has no weight and no bias.
#
# </details>
#
# <details><summary>Hint 2: how to get shift and scale?</summary>
#
# `self.modulation(F.silu(cond))` has the shape `(B, 2 * d_model)`. `.chunk(2, dim=-1)` cuts it into
# two of shape `(B, d_model)`. `.unsqueeze(1)` makes room for the tokens.
#
# </details>
#
# <details><summary>Hint 3: why 1 + scale, and what about half types?</summary>
#
# With zeros everywhere the factor must be 1. For half types turn `x`, shift and scale into float32,
# normalize and modulate there, and go back once, at the end.
#
# </details>
#
# <details><summary>Expected output</summary>
#
# ```python
# norm = AdaLayerNorm(4, 3)
# print({name: tuple(p.shape) for name, p in norm.named_parameters()})
# x, cond = torch.tensor([[[1.0, 2.0, 3.0, 4.0]]]), torch.tensor([[5.0, -1.0, 2.0]])
# print(norm(x, cond).detach())
# with torch.no_grad():
#     norm.modulation.bias += torch.tensor([10.0, 10, 10, 10, 1, 1, 1, 1])
# print(norm(x, cond).detach())
# ```
#
# prints
#
# ```
# {'modulation.weight': (8, 3), 'modulation.bias': (8,)}
# tensor([[[-1.3416, -0.4472,  0.4472,  1.3416]]])
# tensor([[[ 7.3167,  9.1056, 10.8944, 12.6833]]])
# ```
#
# A shift of 10, and a scale of 1 + 1.
#
# </details>


# %% nbgrader={"grade_id": "AdaLayerNorm", "solution": true}
class AdaLayerNorm(nn.Module):
    """Layer norm whose scale and shift come from a condition, as in DiT.

    Args:
        d_model: D, the size of the last dimension of x.
        d_cond: size of the last dimension of the condition.
        eps: added to the biased variance, inside the square root.

    Submodule (its parameters are the only ones):
        modulation: nn.Linear(d_cond, 2 * d_model) with bias; weight and bias start as zeros.

    forward(x, cond) takes x (B, L, D) and cond (B, d_cond), and returns (B, L, D) with the dtype of
    x:

        shift, scale = the first and the second half of modulation(silu(cond))
        result = x_hat * (1 + scale) + shift

    where x_hat is x after layer norm over the last dimension, without weight and bias. Shift and
    scale are the same for all L tokens of a sequence. modulation runs in the dtype of its
    parameters, which is that of cond; x in float16 or bfloat16 is normalized, scaled and shifted in
    float32, and the result is cast back once. No difference between training and evaluation.
    """

    def __init__(self, d_model: int, d_cond: int, eps: float = 1e-6) -> None:
        super().__init__()
        ### BEGIN SOLUTION
        self.modulation = nn.Linear(d_cond, 2 * d_model)
        nn.init.zeros_(self.modulation.weight)
        nn.init.zeros_(self.modulation.bias)
        self.eps = eps
        ### END SOLUTION

    def forward(self, x: Tensor, cond: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        dtype = x.dtype
        shift, scale = self.modulation(F.silu(cond)).unsqueeze(1).chunk(2, dim=-1)  # (B, 1, D)
        if dtype in (torch.float16, torch.bfloat16):
            x, shift, scale = x.float(), shift.float(), scale.float()
        centered = x - x.mean(dim=-1, keepdim=True)
        var = centered.square().mean(dim=-1, keepdim=True)  # (B, L, 1)
        x_hat = centered * torch.rsqrt(var + self.eps)  # (B, L, D)
        return (x_hat * (1 + scale) + shift).to(dtype)
        ### END SOLUTION


# %% [markdown]
# **Check exercise 7.**

# %% tags=["active-ipynb"] nbgrader={"grade_id": "test_AdaLayerNorm", "points": 6}
# norm = AdaLayerNorm(4, 3)
# shapes = {name: tuple(p.shape) for name, p in norm.named_parameters()}
# assert shapes == {"modulation.weight": (8, 3), "modulation.bias": (8,)}, (
#     "the parameters must be those of modulation, an nn.Linear from d_cond to 2 * d_model, and no "
#     f"others, but there are {shapes}"
# )
# assert not any(p.any() for p in norm.parameters()), (
#     "weight and bias of modulation must start as zeros"
# )
# row = torch.tensor([-1.3416, -0.4472, 0.4472, 1.3416])
# x = torch.tensor([[[1.0, 2.0, 3.0, 4.0], [10.0, 20.0, 30.0, 40.0]]]).expand(2, 2, 4)
# cond = torch.randn(2, 3)
# y = norm(x, cond)
# assert y is not None, "forward returned None: does it end with a return statement?"
# assert y.shape == x.shape, f"the result must have shape (2, 2, 4), got {tuple(y.shape)}"
# assert torch.allclose(y, row.expand(2, 2, 4), atol=1e-3), (
#     "a fresh AdaLayerNorm must be plain layer norm: the factor is 1 + scale, and scale and shift "
#     "start as zeros"
# )
#
# # First half the shift, second half the scale.
# shift, scale = torch.tensor([10.0, 20.0, 30.0, 40.0]), torch.tensor([1.0, -1.0, 0.5, 0.0])
# state = {"modulation.weight": torch.zeros(8, 3), "modulation.bias": torch.cat([shift, scale])}
# norm.load_state_dict(state)
# y = norm(x, cond)
# assert torch.allclose(y, (row * (1 + scale) + shift).expand(2, 2, 4), atol=1e-3), (
#     "the result must be x_hat * (1 + scale) + shift, where the first half of what modulation "
#     "returns is the shift and the second half the scale"
# )
#
# # The condition: silu first, one condition for each sequence.
# state["modulation.weight"] = torch.ones(8, 3)
# norm.load_state_dict(state)
# y = norm(x, torch.tensor([[0.0, 0.0, 0.0], [2.0, -2.0, 0.0]]))
# more = F.silu(torch.tensor(2.0)) + F.silu(torch.tensor(-2.0))  # what the second condition adds
# assert torch.allclose(y[0], (row * (1 + scale) + shift).expand(2, 4), atol=1e-3), (
#     "the condition of the first sequence is zeros, so all its tokens must get nothing but the bias "
#     "of modulation: are shift and scale lined up with the sequences, not with the tokens?"
# )
# assert torch.allclose(y[1], (row * (1 + scale + more) + shift + more).expand(2, 4), atol=1e-3), (
#     "the second sequence must be steered by the second condition: is silu applied to cond before "
#     "modulation, and are shift and scale lined up with the sequences, not with the tokens?"
# )
# y.sum().backward()
# assert all(p.grad is not None for p in norm.parameters()), "modulation got no gradient"
#
# # eps and dtypes.
# y = AdaLayerNorm(2, 3, eps=3.0)(torch.tensor([[[-1.0, 1.0]]]), cond[:1])
# assert torch.allclose(y, torch.tensor([[[-0.5, 0.5]]])), (
#     f"with eps=3.0 a fresh module must turn [-1, 1] into [-0.5, 0.5], got {y.tolist()}"
# )
# y = norm(x.bfloat16(), cond)
# assert y.dtype == torch.bfloat16, f"x is bfloat16, the result must be too, but it is {y.dtype}"
# print("Exercise 7: the visible checks pass.")

# %% [markdown]
# ## Exercise 8: Dynamic Tanh
#
# *4 points, easy, about 10 minutes*
#
# Can one do without statistics altogether? Dynamic Tanh (DyT, 2025) only bends large values down:
#
# $$
# y_i = w_i\,\tanh(\alpha\,x_i) + b_i
# $$
#
# | name | shape | starts as |
# |---|---|---|
# | `alpha` | `(1,)`, one number for the whole layer | the argument `alpha` |
# | `weight` | `(d_model,)` | ones |
# | `bias` | `(d_model,)` | zeros |
# | `x` and the result | `(..., d_model)` | |
#
# <details><summary>Hint 1: may the argument and the parameter have the same name?</summary>
#
# Yes. `self.alpha = nn.Parameter(torch.full((1,), alpha))` stores a trained parameter whose first
# value is the argument.
#
# </details>
#
# <details><summary>Hint 2: what is divided by what?</summary>
#
# Nothing. There is no mean, no root, no `eps`: every number is treated alone.
#
# </details>
#
# <details><summary>Hint 3: what about half types?</summary>
#
# As always here: `x` and the three parameters to float32, everything there, and back once, at the
# end.
#
# </details>
#
# <details><summary>Expected output</summary>
#
# ```python
# layer = DynamicTanh(3)
# print({name: tuple(p.shape) for name, p in layer.named_parameters()})
# print(layer(torch.tensor([[-1.0, 0.0, 1.0], [-100.0, 0.0, 100.0]])).detach())
# ```
#
# prints
#
# ```
# {'alpha': (1,), 'weight': (3,), 'bias': (3,)}
# tensor([[-0.4621,  0.0000,  0.4621],
#         [-1.0000,  0.0000,  1.0000]])
# ```
#
# The second row is a hundred times the first, and the layer sees the difference.
#
# </details>


# %% nbgrader={"grade_id": "DynamicTanh", "solution": true}
class DynamicTanh(nn.Module):
    """weight * tanh(alpha * x) + bias, in the place of a norm; nothing is measured.

    Args:
        d_model: D, the size of the last dimension of the input.
        alpha: first value of the parameter alpha.

    Parameters (registered, trainable):
        alpha: (1,), starts as the argument.
        weight: (D,), starts as ones.
        bias: (D,), starts as zeros.

    Input and result: (..., D), any rank >= 1; the result has the dtype of the input. float16 and
    bfloat16 inputs are computed in float32, and the result is cast back once, at the end. No
    difference between training and evaluation.
    """

    def __init__(self, d_model: int, alpha: float = 0.5) -> None:
        super().__init__()
        ### BEGIN SOLUTION
        self.alpha = nn.Parameter(torch.full((1,), float(alpha)))
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        ### END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        dtype = x.dtype
        alpha, weight, bias = self.alpha, self.weight, self.bias
        if dtype in (torch.float16, torch.bfloat16):
            x, alpha, weight, bias = x.float(), alpha.float(), weight.float(), bias.float()
        return (torch.tanh(alpha * x) * weight + bias).to(dtype)
        ### END SOLUTION


# %% [markdown]
# **Check exercise 8.**

# %% tags=["active-ipynb"] nbgrader={"grade_id": "test_DynamicTanh", "points": 4}
# layer = DynamicTanh(3, alpha=0.25)
# shapes = {name: tuple(p.shape) for name, p in layer.named_parameters()}
# assert shapes == {"alpha": (1,), "weight": (3,), "bias": (3,)}, (
#     "the module must register alpha of shape (1,), and weight and bias of shape (d_model,), "
#     f"but it has {shapes}"
# )
# assert layer.alpha.item() == 0.25, "alpha must start as the argument alpha"
# assert torch.equal(layer.weight, torch.ones(3)), "weight must start as ones"
# assert torch.equal(layer.bias, torch.zeros(3)), "bias must start as zeros"
# assert DynamicTanh(3).alpha.item() == 0.5, "without an argument alpha must start as 0.5"
#
# x = torch.tensor([[-1.0, 0.0, 1.0], [-100.0, 0.0, 100.0]])
# y = DynamicTanh(3)(x)
# assert y is not None, "forward returned None: does it end with a return statement?"
# want = torch.tensor([[-0.4621, 0.0, 0.4621], [-1.0, 0.0, 1.0]])
# assert torch.allclose(y, want, atol=1e-3), (
#     f"a fresh DynamicTanh(3) must return {want.tolist()}, got {y.tolist()}: tanh(alpha * x)"
# )
#
# # The parameters are used, and gradients reach all three.
# alpha = torch.tensor([2.0])
# weight, bias = torch.tensor([1.0, 2.0, -3.0]), torch.tensor([0.5, 0.0, 1.0])
# layer.load_state_dict({"alpha": alpha, "weight": weight, "bias": bias})
# y = layer(x)
# assert torch.allclose(y, torch.tanh(2 * x) * weight + bias, atol=1e-3), (
#     "after loading other parameters the result must be tanh(alpha * x) * weight + bias"
# )
# y.sum().backward()
# assert all(p.grad is not None for p in layer.parameters()), (
#     "a parameter got no gradient: use self.alpha, self.weight and self.bias themselves"
# )
# y = DynamicTanh(3)(x.bfloat16())
# assert y.dtype == torch.bfloat16, f"x is bfloat16, the result must be too, but it is {y.dtype}"
# print("Exercise 8: the visible checks pass.")

# %% [markdown]
# ## Question 1: from layer norm to RMSNorm
#
# *3 points, in words, about 15 minutes*
#
# A trained Pre-LN Transformer uses layer norm with `eps` inside the root. The residual stream is
# what the embedding and the output layer of each sublayer write into, by addition; every layer norm
# reads from it. You want to run the model with RMSNorm in place of each layer norm, with
# **exactly** the same outputs. Which weights do you change, and how? Why does it work? And why can
# you not simply exchange the two norms and leave the weights alone?
#
# Write your answer into the next cell, in place of its text. Nothing runs it, and a person reads
# it.

# %% [markdown] nbgrader={"grade_id": "written_folding", "written": true, "points": 3}
# ### BEGIN SOLUTION
# **A model answer.** Make everything that is written into the stream have mean 0 over the features:
# subtract from each embedding vector its own mean, and from each output matrix its mean
# (over the output features), and do the same with its bias. Then the stream is a sum of vectors
# with mean 0, so its own mean is 0 for every token, and it differs from the old stream by exactly
# the old mean. Layer norm does not see that difference, and on a vector with mean 0 it is RMSNorm,
# with the same `eps`. The bias of each layer norm stays: it is added after the RMSNorm, or folded
# into the next linear layer. Without the change of weights the stream has some mean, RMSNorm
# divides by $\sqrt{\mu^2+\sigma^2+\varepsilon}$ and does not remove $\mu$, and the outputs differ.
#
# **Marking guide.**
#
# - 1 point: center what is written into the stream (embeddings, output weights and biases), over
#   the features. Half a point for "center the weights" without saying which or along which axis.
# - 1 point: why it works: a sum of centered vectors is centered, and there layer norm and RMSNorm
#   agree. Layer norm being blind to the removed mean belongs to it.
# - 1 point: without it the mean is neither removed nor left out of the divisor.
# - No point is lost for forgetting the bias of the layer norm, or for other words than these.
# ### END SOLUTION

# %% [markdown]
# ## Question 2: fewer operations, and slower
#
# *3 points, in words, about 10 minutes*
#
# RMSNorm has fewer operations in its formula than layer norm. A colleague replaces
# `torch.nn.LayerNorm` in a model by the `RMSNorm` of exercise 3, and training gets slower. Give the
# likely reason. Name a measurement that would confirm it, and one way to get the speed back.

# %% [markdown] nbgrader={"grade_id": "written_speed", "written": true, "points": 3}
# ### BEGIN SOLUTION
# **A model answer.** The time of a norm is the time of moving data, not of arithmetic. The
# library's layer norm is one fused operation: it reads `x` once or twice and writes the result
# once. The readable RMSNorm is a chain of operations (square, mean, add, rsqrt, two
# multiplications, for half types also casts), each of which reads and writes a whole tensor, and
# autograd keeps several of them. A profiler that counts operations (or bytes) shows one operation
# on one side and five or more on the other. A fused RMSNorm gives the speed back: the library's
# where it has one for the device, `torch.compile`, or an own kernel.
#
# **Marking guide.**
#
# - 1 point: several passes over memory (or several kernel launches) against one fused operation.
# - 1 point: a measurement that could show it: a profile, a count of operators or of bytes moved, a
#   comparison with a fused RMSNorm at the same shape. "Measure the time" alone earns half a point.
# - 1 point: a fused kernel by any route.
# ### END SOLUTION

# %% [markdown]
# ## Before you hand in
#
# - Restart the kernel and run all cells (*Kernel > Restart Kernel and Run All Cells*). Cells that
#   were run in another order can hide a mistake.
# - All eight check cells print that their checks pass. The hidden tests go further: read the eight
#   docstrings once more and try shapes, dtypes and values of `eps` that the checks do not use.
# - No exercise calls a ready-made normalization, and exercise 2 does not call autograd.
# - Both written questions have an answer in their own cell.
# - The functions and the classes still have their names and arguments. An exercise you leave out
#   costs only its own points.
# - Save, and hand in `rmsnorm.ipynb`.
