# %% [markdown]
# # Scaling
#
# Why normalize at all? In this notebook you bring data to a common scale in three ways, measure how
# many sigmoid units have stopped learning, and watch what a careless initial weight does to a deep
# network. The chapter *Why normalize* of the course book explains every idea used here; keep its
# page `why-normalize.html` open beside this notebook (its text is also in
# [book/why-normalize.md](../../book/why-normalize.md)).
#
# | exercise | you write | points | difficulty | time |
# |---|---|---|---|---|
# | 1 | `standardize(x, dim, eps)` | 4 | easy | 10 min |
# | 2 | `min_max_scale(x, dim)` | 3 | easy | 10 min |
# | 3 | `whiten(x, eps)` | 6 | hard | 30 min |
# | 4 | `saturated_fraction(z, threshold)` | 2 | medium | 10 min |
# | 5 | `activation_stds(depth, width, gain, seed)` | 5 | medium | 20 min |
#
# Two written questions at the end are worth 3 points each. A person grades them.
#
# **How to work.** Replace `raise NotImplementedError()` with your code and run the cell with
# Shift+Enter. Then run the check cell below it. A check that fails says what it saw and what to
# look at. Stuck? Open the hints one at a time. Add as many cells of your own as you like.
#
# **What is graded.** Hidden tests run your functions on other shapes, data types and inputs.
# Passing the visible checks is a good sign, but **it is not the same as passing the hidden tests**.
# The docstring of each exercise is the full specification. If you have the course's repository, its
# README says how to run the hidden tests on this file: they name the mistake.
#
# **Rules.** Do not call a ready-made normalization (layer, batch, group or instance norm) or
# scikit-learn's scalers. Cells of your own may call all of this, to compare. Where one of your
# functions reaches it during a hidden test, that test fails. `torch.mean`, `torch.var`,
# `torch.linalg` are yours to use. Keep the names and the arguments of the functions.
#
# **How to hand in.** Save the notebook and hand in this one file, `scaling.ipynb`, without renaming
# it.

# %%
import torch
from torch import Tensor

# %% [markdown]
# ## Exercise 1: standardize
#
# *4 points, easy, about 10 minutes*
#
# One feature is measured in metres, another in grams, and gradient descent has one learning rate
# for both. Standardization gives every feature mean 0 and variance 1. Every normalization layer of
# this course does the same to other groups of numbers, so this function is worth writing well.
#
# $$
# \text{result} = \frac{x-\mu}{\sqrt{\sigma^2+\varepsilon}},
# \qquad \mu=\frac1n\sum_{i=1}^{n} x_i,
# \qquad \sigma^2=\frac1n\sum_{i=1}^{n}(x_i-\mu)^2
# $$
#
# The sums run along the axis `dim`. For a table of samples in rows and features in columns, `dim=0`
# standardizes each feature.
#
# | name | shape | |
# |---|---|---|
# | `x` | any, for example `(N, D)` | |
# | mean, variance | the same, but 1 at `dim` | one of each per slice along `dim` |
# | result | the shape of `x` | same dtype as `x` |
#
# <details><summary>Hint 1: how does the mean line up with x?</summary>
#
# `x.mean(dim=dim, keepdim=True)` keeps the axis with length 1, so `x - mean` works for every `dim`.
#
# </details>
#
# <details><summary>Hint 2: which variance?</summary>
#
# The formula divides by $n$. `torch.var` and `torch.std` divide by $n-1$ unless you pass
# `correction=0`. And `eps` is added to the variance before the root is taken.
#
# </details>
#
# <details><summary>Hint 3: what about float16 and bfloat16?</summary>
#
# Remember `x.dtype`. If it is a half type, turn `x` into float32 with `.float()`, do everything
# there, and go back with `.to(dtype)` in the last line.
#
# </details>
#
# <details><summary>Expected output</summary>
#
# ```python
# table = torch.tensor([[1.0, 1000.0], [2.0, 3000.0], [3.0, 2000.0]])
# print(standardize(table, 0, 1e-5))
# ```
#
# prints
#
# ```
# tensor([[-1.2247, -1.2247],
#         [ 0.0000,  1.2247],
#         [ 1.2247,  0.0000]])
# ```
#
# The second feature is a thousand times the first. Afterwards nobody can tell.
#
# </details>


# %% nbgrader={"grade_id": "standardize", "solution": true}
def standardize(x: Tensor, dim: int, eps: float) -> Tensor:
    """Give every slice of x along `dim` mean 0 and variance 1.

    Args:
        x: any shape with at least one axis, any floating-point dtype. Is not modified.
        dim: the axis along which mean and variance are taken; negative numbers count from the end.
        eps: added to the variance, inside the square root.

    Returns:
        Same shape and dtype as x.

    The variance is the biased one (divide by the number of entries along dim). A slice of equal
    numbers gives zeros. float16 and bfloat16 inputs are computed in float32, and the result is cast
    back once, at the end.
    """
    ### BEGIN SOLUTION
    dtype = x.dtype
    if dtype in (torch.float16, torch.bfloat16):
        x = x.float()
    centered = x - x.mean(dim=dim, keepdim=True)
    var = centered.square().mean(dim=dim, keepdim=True)  # 1 at dim
    return (centered * torch.rsqrt(var + eps)).to(dtype)
    ### END SOLUTION


# %% [markdown]
# **Check exercise 1.** Run the next cell. No error means that all visible checks passed.

# %% tags=["active-ipynb"] nbgrader={"grade_id": "test_standardize", "points": 4}
# # Two columns with mean 0 and variances 1 and 6, and eps = 3: divide by 2 and by 3.
# table = torch.tensor([[-1.0, -3.0], [1.0, 0.0], [-1.0, 0.0], [1.0, 3.0]])
# table[:, 1] *= (6 / 4.5) ** 0.5
# y = standardize(table, 0, 3.0)
# assert y is not None, "standardize returned None: does it end with a return statement?"
# assert y.shape == (4, 2), f"x has shape (4, 2), the result must too, but it has {tuple(y.shape)}"
# assert torch.allclose(y[:, 0], table[:, 0] / 2) and torch.allclose(y[:, 1], table[:, 1] / 3), (
#     f"with variances 1 and 6 and eps=3 the columns are divided by 2 and 3, got {y.tolist()}. "
#     "Is the variance divided by n, not n - 1? Is eps inside the square root?"
# )
#
# # Each column on its own, whatever its mean and scale.
# table = torch.tensor([[1.0, 1000.0], [2.0, 3000.0], [3.0, 2000.0]])
# y = standardize(table, 0, 1e-5)
# want = torch.tensor([[-1.2247, -1.2247], [0.0, 1.2247], [1.2247, 0.0]])
# assert torch.allclose(y, want, atol=1e-3), (
#     f"the table above must become {want.tolist()}, got {y.tolist()}. "
#     "Are mean and variance taken along dim, one of each per column?"
# )
#
# # Along any axis, counted from either end; x itself stays as it was.
# x = 5 + 3 * torch.randn(4, 3, 5, dtype=torch.float64)
# before = x.clone()
# for dim in (0, 1, -1):
#     y = standardize(x, dim, 1e-12)
#     assert torch.equal(x, before), "standardize changed its input: avoid in-place operations on x"
#     assert y.shape == x.shape, f"the result must have shape (4, 3, 5), got {tuple(y.shape)}"
#     assert y.dtype == torch.float64, f"x is float64, the result must be too, but it is {y.dtype}"
#     assert y.mean(dim=dim).abs().max() < 1e-6, f"with dim={dim} the mean along it must be 0"
#     assert (y.square().mean(dim=dim) - 1).abs().max() < 1e-6, (
#         f"with dim={dim} the variance along it must be 1"
#     )
#
# # A constant column is no reason for NaN, and half precision is computed in float32.
# y = standardize(torch.full((3, 2), 7.0), 0, 1e-5)
# assert torch.equal(y, torch.zeros(3, 2)), f"equal numbers must become 0, got {y.tolist()}"
# y = standardize(torch.tensor([-600.0, 600.0], dtype=torch.float16), 0, 1e-5)
# assert y.dtype == torch.float16, f"x is float16, the result must be too, but it is {y.dtype}"
# assert torch.equal(y, torch.tensor([-1.0, 1.0], dtype=torch.float16)), (
#     f"standardize([-600, 600]) in float16 must be [-1, 1], got {y.tolist()}. "
#     "Are half types computed in float32?"
# )
# print("Exercise 1: the visible checks pass.")

# %% [markdown]
# ## Exercise 2: min-max scaling
#
# *3 points, easy, about 10 minutes*
#
# Where a range is needed, such as grey values for an image, one shifts and stretches each feature
# so that its smallest number becomes 0 and its largest 1. A single outlier then decides about all
# others, which standardization forgives more easily.
#
# $$
# \text{result} = \frac{x-\min x}{\max x-\min x}
# $$
#
# | name | shape | |
# |---|---|---|
# | `x` | any, for example `(N, D)` | |
# | minimum, maximum | the same, but 1 at `dim` | one of each per slice along `dim` |
# | result | the shape of `x` | between 0 and 1, same dtype as `x` |
#
# What if all numbers of a slice are equal? Then the formula says 0/0. Here the answer is agreed to
# be 0 for all of them.
#
# <details><summary>Hint 1: minimum along an axis</summary>
#
# `x.amin(dim=dim, keepdim=True)` gives the values alone. (`x.min(dim=...)` gives values and their
# places.)
#
# </details>
#
# <details><summary>Hint 2: equal numbers</summary>
#
# The numerator is 0 there anyway. So replace a range of 0 by 1 before you divide:
# `torch.where(spread > 0, spread, 1.0)` or `spread.masked_fill(spread == 0, 1.0)`.
#
# </details>
#
# <details><summary>Hint 3: why not add a tiny eps?</summary>
#
# Then the largest number becomes a little less than 1, and much less for a feature whose range is
# as small as eps. For half types there is another trap: from -60000 to 60000 the range is 120000,
# more than float16 can hold. Compute those in float32.
#
# </details>
#
# <details><summary>Expected output</summary>
#
# ```python
# print(min_max_scale(torch.tensor([1.0, 2.0, 3.0, 4.0, 100.0]), 0))
# print(min_max_scale(torch.tensor([-2.0, 0.0, 2.0]), 0))
# ```
#
# prints
#
# ```
# tensor([0.0000, 0.0101, 0.0202, 0.0303, 1.0000])
# tensor([0.0000, 0.5000, 1.0000])
# ```
#
# One large number pushes the others together at the bottom.
#
# </details>


# %% nbgrader={"grade_id": "min_max_scale", "solution": true}
def min_max_scale(x: Tensor, dim: int) -> Tensor:
    """Shift and stretch every slice of x along `dim` so that it runs from 0 to 1.

    Args:
        x: any shape with at least one axis, any floating-point dtype. Is not modified.
        dim: the axis of minimum and maximum; negative numbers count from the end.

    Returns:
        Same shape and dtype as x, (x - min) / (max - min).

    A slice of equal numbers gives zeros. There is no eps: the largest number becomes exactly 1.
    float16 and bfloat16 inputs are computed in float32, and the result is cast back once, last.
    """
    ### BEGIN SOLUTION
    dtype = x.dtype
    if dtype in (torch.float16, torch.bfloat16):
        x = x.float()
    low = x.amin(dim=dim, keepdim=True)
    spread = x.amax(dim=dim, keepdim=True) - low
    spread = torch.where(spread > 0, spread, 1.0)  # equal numbers: 0 / 1 instead of 0 / 0
    return ((x - low) / spread).to(dtype)
    ### END SOLUTION


# %% [markdown]
# **Check exercise 2.**

# %% tags=["active-ipynb"] nbgrader={"grade_id": "test_min_max_scale", "points": 3}
# table = torch.tensor([[-2.0, 10.0], [0.0, 30.0], [2.0, 20.0]])
# y = min_max_scale(table, 0)
# assert y is not None, "min_max_scale returned None: does it end with a return statement?"
# assert y.shape == (3, 2), f"x has shape (3, 2), the result must too, but it has {tuple(y.shape)}"
# want = torch.tensor([[0.0, 0.0], [0.5, 1.0], [1.0, 0.5]])
# assert torch.allclose(y, want), (
#     f"each column must run from 0 to 1: {want.tolist()}, got {y.tolist()}. "
#     "Are minimum and maximum taken along dim, one of each per column?"
# )
# assert torch.equal(y.amax(dim=0), torch.ones(2)), (
#     "the largest number must become exactly 1: divide by the range alone, without an eps"
# )
#
# # Along any axis, counted from either end; x itself stays as it was.
# x = torch.randn(4, 3, 5, dtype=torch.float64)
# before = x.clone()
# for dim in (0, 1, -1):
#     y = min_max_scale(x, dim)
#     assert torch.equal(x, before), "min_max_scale changed its input: avoid in-place operations"
#     assert y.shape == x.shape, f"the result must have shape (4, 3, 5), got {tuple(y.shape)}"
#     assert y.dtype == torch.float64, f"x is float64, the result must be too, but it is {y.dtype}"
#     assert torch.equal(y.amin(dim=dim), torch.zeros_like(y.amin(dim=dim))), (
#         f"with dim={dim} the smallest number along it must become 0"
#     )
#     assert torch.equal(y.amax(dim=dim), torch.ones_like(y.amax(dim=dim))), (
#         f"with dim={dim} the largest number along it must become 1"
#     )
#
# # Equal numbers, a tiny range, and a range that float16 cannot hold.
# y = min_max_scale(torch.full((3, 2), 7.0), 0)
# assert torch.equal(y, torch.zeros(3, 2)), f"equal numbers must become 0, got {y.tolist()}"
# y = min_max_scale(torch.tensor([0.0, 1e-6, 2e-6]), 0)
# assert torch.allclose(y, torch.tensor([0.0, 0.5, 1.0])), (
#     f"[0, 1e-6, 2e-6] must become [0, 0.5, 1], got {y.tolist()}. Divide by the range alone"
# )
# y = min_max_scale(torch.tensor([-60000.0, 0.0, 60000.0], dtype=torch.float16), 0)
# assert y.dtype == torch.float16, f"x is float16, the result must be too, but it is {y.dtype}"
# assert torch.equal(y, torch.tensor([0.0, 0.5, 1.0], dtype=torch.float16)), (
#     f"in float16 [-60000, 0, 60000] must become [0, 0.5, 1], got {y.tolist()}. "
#     "Are half types computed in float32?"
# )
# print("Exercise 2: the visible checks pass.")

# %% [markdown]
# ## Exercise 3: whiten
#
# *6 points, hard, about 30 minutes*
#
# Standardized features can still say the same thing twice: height in metres and height in inches.
# Whitening also removes the correlations. Afterwards the covariance matrix is the identity, and the
# loss of a linear model is as round as a bowl.
#
# With $C$ the covariance matrix of the features and $C = U \Lambda U^\top$ its eigenvectors (the
# columns of $U$) and eigenvalues (the diagonal of $\Lambda$):
#
# $$
# \text{result} = (X-\mu)\,U\,(\Lambda+\varepsilon)^{-1/2}\,U^\top,
# \qquad C=\frac1N (X-\mu)^\top (X-\mu)
# $$
#
# In words: turn the data so that its main directions lie along the axes, divide each by its
# standard deviation, **and turn back**. This is called ZCA whitening. Without the last step it is
# PCA whitening, whose signs and order nobody can agree on. Of all the ways to whiten, ZCA moves the
# data least.
#
# | name | shape | |
# |---|---|---|
# | `x`, result | `(N, D)` | samples in rows, features in columns |
# | mean | `(D,)` | one per feature |
# | $C$, $U$ | `(D, D)` | |
# | eigenvalues | `(D,)` | the variances along the main directions |
#
# <details><summary>Hint 1: the covariance matrix</summary>
#
# Subtract the mean of each column first. Then `centered.T @ centered / N` has the shape `(D, D)`.
# (`torch.cov` takes features in rows, and divides by $N-1$ unless you pass `correction=0`.)
#
# </details>
#
# <details><summary>Hint 2: eigenvalues and eigenvectors</summary>
#
# `torch.linalg.eigh` is made for symmetric matrices. It returns the eigenvalues, and a matrix whose
# **columns** are the eigenvectors. So `centered @ axes` has the coordinates along them.
#
# </details>
#
# <details><summary>Hint 3: scaling and turning back</summary>
#
# `rotated * torch.rsqrt(variances + eps)` scales column by column. `... @ axes.T` turns back. Half
# types have no `eigh`: compute them in float32.
#
# </details>
#
# <details><summary>Expected output</summary>
#
# ```python
# x = torch.tensor([[2.0, 1.0], [1.0, 2.0], [-2.0, -1.0], [-1.0, -2.0]])
# y = whiten(x, 1e-6)
# print(y.round(decimals=4))
# print((y.T @ y / 4).abs().round(decimals=4))
# ```
#
# prints
#
# ```
# tensor([[ 1.4142,  0.0000],
#         [ 0.0000,  1.4142],
#         [-1.4142,  0.0000],
#         [ 0.0000, -1.4142]])
# tensor([[1., 0.],
#         [0., 1.]])
# ```
#
# A long cloud along the diagonal has become a round one, and every point is still near its old
# place. (A zero may print as `-0.0000`.)
#
# </details>


# %% nbgrader={"grade_id": "whiten", "solution": true}
def whiten(x: Tensor, eps: float) -> Tensor:
    """Remove mean, scale and correlation of the features of x (ZCA whitening).

    Args:
        x: (N, D), samples in rows, N >= 1; floating point. Is not modified.
        eps: greater than 0, added to each eigenvalue of the covariance matrix, inside the root.

    Returns:
        (N, D), with the dtype of x: (x - mean) @ U @ diag(1 / sqrt(eigenvalues + eps)) @ U.T, where
        U holds the eigenvectors of the covariance matrix in its columns.

    The covariance matrix is (D, D) and biased (divide by N). Because the result is turned back by
    U.T, it does not depend on the order and the signs of the eigenvectors. float16 and bfloat16
    inputs are computed in float32, and the result is cast back once, at the end.
    """
    ### BEGIN SOLUTION
    dtype = x.dtype
    if dtype in (torch.float16, torch.bfloat16):
        x = x.float()
    centered = x - x.mean(dim=0)  # (N, D)
    cov = centered.T @ centered / len(x)  # (D, D)
    variances, axes = torch.linalg.eigh(cov)  # (D,), and (D, D) with the eigenvectors in columns
    rotated = centered @ axes  # (N, D), coordinates along the main directions
    scaled = rotated * torch.rsqrt(variances + eps)  # variance 1 along each of them
    return (scaled @ axes.T).to(dtype)  # turned back
    ### END SOLUTION


# %% [markdown]
# **Check exercise 3.**

# %% tags=["active-ipynb"] nbgrader={"grade_id": "test_whiten", "points": 6}
# # A cloud along the diagonal: standard deviations 6 and 2 along the directions (1, 1) and (1, -1).
# x = torch.tensor([[6.0, 6.0], [2.0, -2.0], [-6.0, -6.0], [-2.0, 2.0]])
# y = whiten(x, 1e-6)
# assert y is not None, "whiten returned None: does it end with a return statement?"
# assert y.shape == (4, 2), f"x has shape (4, 2), the result must too, but it has {tuple(y.shape)}"
# cov = y.T @ y / 4
# assert torch.allclose(cov, torch.eye(2), atol=1e-3), (
#     f"the covariance matrix of the result must be the identity, got {cov.tolist()}. "
#     "Is each direction divided by the root of its eigenvalue? Is the covariance divided by N?"
# )
# want = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, -1.0], [-1.0, 1.0]])
# assert torch.allclose(y, want, atol=1e-3), (
#     f"the result must be {want.tolist()}, got {y.tolist()}. It is white, but is it turned back "
#     "by the transposed eigenvectors?"
# )
#
# # eps is added to the eigenvalues, 36 and 4 here: divide by sqrt(36 + 45) and sqrt(4 + 45).
# y = whiten(x, 45.0)
# want = torch.tensor([[6.0, 6.0], [2.0, -2.0], [-6.0, -6.0], [-2.0, 2.0]])
# want = want / torch.tensor([[9.0], [7.0], [9.0], [7.0]])
# assert torch.allclose(y, want, atol=1e-3), (
#     f"with eps=45 the result must be {want.tolist()}, got {y.tolist()}. "
#     "Is eps added to the eigenvalues, inside the root?"
# )
#
# # Many samples, far from the origin, with features that repeat each other.
# raw = torch.randn(200, 3, dtype=torch.float64)
# x = 50 + raw @ torch.tensor([[1.0, 2.0, 0.0], [0.0, 1.0, 3.0], [0.0, 0.0, 0.2]]).double()
# before = x.clone()
# y = whiten(x, 1e-9)
# assert torch.equal(x, before), "whiten changed its input: avoid in-place operations on x"
# assert y.dtype == torch.float64, f"x is float64, the result must be too, but it is {y.dtype}"
# assert y.mean(dim=0).abs().max() < 1e-6, "each feature of the result must have mean 0"
# assert torch.allclose(y.T @ y / 200, torch.eye(3).double(), atol=1e-4), (
#     "the covariance matrix of the result must be the identity. Is it taken over the features, "
#     "(D, D), after the mean of each was subtracted?"
# )
# y = whiten(torch.tensor([[6.0, 6.0], [-6.0, -6.0]], dtype=torch.float16), 1e-2)
# assert y.dtype == torch.float16, f"x is float16, the result must be too, but it is {y.dtype}"
# print("Exercise 3: the visible checks pass.")

# %% [markdown]
# ## Exercise 4: how many units have stopped learning?
#
# *2 points, medium, about 10 minutes*
#
# The sigmoid $\sigma(z)=1/(1+e^{-z})$ is flat for large $|z|$. Its slope $\sigma(z)(1-\sigma(z))$
# multiplies every gradient that passes, so where it is tiny, nothing below learns. Count which
# share of the units is that far out.
#
# | name | shape | |
# |---|---|---|
# | `z` | any, for example `(B, D)` | the numbers that enter the sigmoid |
# | `threshold` | a number, for example 0.01 | |
# | result | a number from 0 to 1 | share of all entries whose slope is below the threshold |
#
# <details><summary>Hint 1: the slope</summary>
#
# With `s = torch.sigmoid(z)` the slope is `s * (1 - s)`. It is 0.25 at 0, its largest value.
#
# </details>
#
# <details><summary>Hint 2: a share</summary>
#
# `slope < threshold` is a tensor of booleans. Turn it into floating point and take the mean of all
# entries. `.item()` makes a number of it.
#
# </details>
#
# <details><summary>Hint 3: large positive z</summary>
#
# At $z=20$ the sigmoid is so close to 1 that float32 rounds it to 1, and `1 - s` is 0. But
# $1-\sigma(z)=\sigma(-z)$, and that loses nothing: `torch.sigmoid(z) * torch.sigmoid(-z)`.
#
# </details>
#
# <details><summary>Expected output</summary>
#
# ```python
# z = torch.tensor([-20.0, -5.0, -1.0, 0.0, 1.0, 5.0, 20.0])
# print(f"{saturated_fraction(z, 0.01):.4f}")
# print(f"{saturated_fraction(z, 0.001):.4f}")
# print(f"{saturated_fraction(z, 1e-10):.4f}")
# ```
#
# prints
#
# ```
# 0.5714
# 0.2857
# 0.0000
# ```
#
# The slope at 5 is 0.0066, and at 20 it is 2e-9: tiny, but not below 1e-10.
#
# </details>


# %% nbgrader={"grade_id": "saturated_fraction", "solution": true}
def saturated_fraction(z: Tensor, threshold: float) -> float:
    """Share of the entries of z at which the slope of the sigmoid is below a threshold.

    Args:
        z: any shape, at least one entry, any floating-point dtype: what enters the sigmoid. Is not
            modified.
        threshold: an entry counts when its slope is less than this, not when it is equal.

    Returns:
        A number from 0 to 1 (a tensor with one number will do).

    The slope is sigmoid(z) * (1 - sigmoid(z)). It is the same for z and -z, also where sigmoid(z)
    rounds to 1. float16 and bfloat16 inputs are computed in float32 or wider.
    """
    ### BEGIN SOLUTION
    z = z.double()
    slope = torch.sigmoid(z) * torch.sigmoid(-z)  # 1 - sigmoid(z), without losing its digits
    return (slope < threshold).double().mean().item()
    ### END SOLUTION


# %% [markdown]
# **Check exercise 4.**

# %% tags=["active-ipynb"] nbgrader={"grade_id": "test_saturated_fraction", "points": 2}
# z = torch.tensor([[-20.0, -5.0, -1.0, 0.0], [0.0, 1.0, 5.0, 20.0]])
# share = saturated_fraction(z, 0.01)
# assert share is not None, "saturated_fraction returned None: does it end with a return statement?"
# assert abs(float(share) - 0.5) < 1e-6, (
#     f"4 of 8 entries have a slope below 0.01, so the share is 0.5, got {float(share)}. "
#     "Is the slope s * (1 - s)? Do both ends count?"
# )
# assert abs(float(saturated_fraction(z, 0.001)) - 0.25) < 1e-6, (
#     "the slope at 5 is 0.0066, so with the threshold 0.001 only -20 and 20 count: 0.25. "
#     "Is the slope s * (1 - s)?"
# )
# assert float(saturated_fraction(torch.zeros(3), 0.25)) == 0.0, (
#     "at 0 the slope is exactly 0.25, which is not less than 0.25"
# )
# assert float(saturated_fraction(z, 1e-10)) == 0.0, (
#     "the slope at 20 is 2e-9, and at -20 too: with the threshold 1e-10 no entry counts. "
#     "1 - sigmoid(20) rounds to 0 in float32; see hint 3"
# )
# assert abs(float(saturated_fraction(z.half(), 0.01)) - 0.5) < 1e-6, "float16 must work as well"
# print("Exercise 4: the visible checks pass.")

# %% [markdown]
# ## Exercise 5: what depth does to activations
#
# *5 points, medium, about 20 minutes*
#
# Every layer multiplies. If each makes its input a little smaller, fifty of them leave nothing; if
# each makes it a little larger, fifty of them overflow. Build such a stack of fresh random layers
# and measure the standard deviation of what comes out of each.
#
# The network is this, and nothing else:
#
# $$
# h_0 \sim \mathcal N(0,1), \qquad
# h_k = \operatorname{ReLU}\bigl(h_{k-1} W_k^\top\bigr), \qquad
# W_k \sim \frac{\text{gain}}{\sqrt{\text{width}}}\;\mathcal N(0, 1)
# $$
#
# | name | shape | |
# |---|---|---|
# | $h_k$ | `(128, width)` | 128 random samples |
# | $W_k$ | `(width, width)` | as in `nn.Linear`: `(out, in)`; no bias |
# | result | `(depth,)` | standard deviation of all entries of $h_1, \dots, h_{\text{depth}}$ |
#
# To get the same numbers as the tests, draw in the same order: one `torch.Generator` with the seed;
# first $h_0$, then $W_1, W_2, \dots$, each by one call of `torch.randn(..., generator=generator,
# dtype=torch.float64)`. The generator is your own, so nobody else's random numbers change.
#
# <details><summary>Hint 1: the generator</summary>
#
# `generator = torch.Generator().manual_seed(seed)`, once, before the loop. Give it to every
# `torch.randn`.
#
# </details>
#
# <details><summary>Hint 2: one layer</summary>
#
# Draw `(width, width)` numbers, multiply by `gain / width**0.5`, then `torch.relu(h @ weight.T)`.
#
# </details>
#
# <details><summary>Hint 3: which standard deviation?</summary>
#
# Of all `128 * width` entries of the layer's output together, **after** the ReLU, dividing by their
# number: `h.std(correction=0)`. Collect them in a list and `torch.stack` it.
#
# </details>
#
# <details><summary>Expected output</summary>
#
# ```python
# print(activation_stds(5, 100, 1.0, 0))
# print(activation_stds(5, 100, 2**0.5, 0))
# print(activation_stds(5, 100, 2.0, 0))
# ```
#
# prints
#
# ```
# tensor([0.5955, 0.4259, 0.2946, 0.1951, 0.1349], dtype=torch.float64)
# tensor([0.8422, 0.8518, 0.8333, 0.7802, 0.7633], dtype=torch.float64)
# tensor([1.1911, 1.7036, 2.3570, 3.1209, 4.3177], dtype=torch.float64)
# ```
#
# The gain of the second line is the right one for ReLU.
#
# </details>


# %% nbgrader={"grade_id": "activation_stds", "solution": true}
def activation_stds(depth: int, width: int, gain: float, seed: int) -> Tensor:
    """Standard deviation of the activations after each layer of a fresh random ReLU network.

    Args:
        depth: number of layers, at least 1.
        width: number of units of the input and of every layer.
        gain: the weights have the standard deviation gain / sqrt(width).
        seed: of the torch.Generator from which everything is drawn.

    Returns:
        (depth,), float64: for each layer the biased standard deviation of all entries of its
        output, after the ReLU.

    The network: h of shape (128, width), standard normal; then `depth` times
    h = relu(h @ weight.T) with weight = gain / sqrt(width) * (standard normal numbers of shape
    (width, width)), no bias. All in float64. h is drawn first, then one weight after another, each
    by one call of torch.randn with the same generator. torch's global random state is not touched.
    """
    ### BEGIN SOLUTION
    generator = torch.Generator().manual_seed(seed)
    h = torch.randn(128, width, generator=generator, dtype=torch.float64)
    stds = []
    for _ in range(depth):
        weight = torch.randn(width, width, generator=generator, dtype=torch.float64)  # (out, in)
        weight = gain / width**0.5 * weight
        h = torch.relu(h @ weight.T)  # (128, width)
        stds.append(h.std(correction=0))
    return torch.stack(stds)
    ### END SOLUTION


# %% [markdown]
# **Check exercise 5.**

# %% tags=["active-ipynb"] nbgrader={"grade_id": "test_activation_stds", "points": 5}
# stds = activation_stds(4, 50, 2.0, 0)
# assert stds is not None, "activation_stds returned None: does it end with a return statement?"
# assert isinstance(stds, torch.Tensor) and stds.shape == (4,), (
#     "the result must be one tensor of shape (depth,)"
# )
# assert stds.dtype == torch.float64, f"the result must be float64, but it is {stds.dtype}"
# ratio = (stds[-1] / stds[0]).item() ** (1 / 3)
# assert 1.2 < ratio < 1.65, (
#     f"with gain 2 each layer multiplies the standard deviation by about 1.41, got {ratio:.2f}. "
#     "Are the weights gain / sqrt(width) times standard normal? Is there a ReLU in every layer?"
# )
# want = torch.tensor([1.19, 1.6704, 2.4239, 3.1207], dtype=torch.float64)
# assert torch.allclose(stds, want, atol=5e-4), (
#     f"activation_stds(4, 50, 2.0, 0) must be {want.tolist()}, got {stds.tolist()}. "
#     "Is h drawn first, then one weight per layer, from one generator, in float64? Is it "
#     "h @ weight.T? Is the standard deviation taken after the ReLU?"
# )
# again = activation_stds(4, 50, 2.0, 0)
# assert torch.equal(again, stds), "the same seed must give the same numbers"
# assert not torch.equal(activation_stds(4, 50, 2.0, 1), stds), (
#     "another seed must give other numbers: is seed used?"
# )
# state = torch.get_rng_state()
# activation_stds(2, 3, 1.0, 5)
# assert torch.equal(torch.get_rng_state(), state), (
#     "torch's global random state has changed: draw from a torch.Generator of your own"
# )
# print("Exercise 5: the visible checks pass.")

# %% [markdown]
# ## Question 1: metres and euros
#
# *3 points, in words, about 10 minutes*
#
# A linear model predicts from a person's height in metres (1.5 to 2.0) and yearly income in euros
# (10 000 to 100 000). It is trained by gradient descent with one learning rate. Explain in three to
# six sentences why training is slow before standardization and fast after it. Then name one kind of
# model to which the scales do not matter, and say why.
#
# Write your answer into the next cell, in place of its text. Nothing runs it, and a person reads
# it.

# %% [markdown] nbgrader={"grade_id": "written_units", "written": true, "points": 3}
# ### BEGIN SOLUTION
# **A model answer.** The gradient of each weight is proportional to its feature, so the loss is
# about 10^9 times more curved along the weight of income than along that of height. The steepest
# direction sets the largest learning rate that does not diverge; with that rate the weight of
# height hardly moves, so training takes a number of steps that grows with the condition number.
# After standardization both directions are equally curved (correlation apart), and one learning
# rate serves both. A decision tree does not care: it compares one feature at a time with a
# threshold, and stretching a feature only moves the threshold.
#
# **Marking guide.**
#
# - 1 point: unequal scales make the loss unequally curved (a long valley, a large condition
#   number).
# - 1 point: one learning rate must suit the steepest direction, so the flat one is slow; equal
#   scales remove this.
# - 1 point: a model that does not care, with a reason. Accept: trees and forests; linear least
#   squares by the closed form; with some reason, an optimizer that rescales each gradient (Adam),
#   or naive Bayes. "Neural networks" earns nothing.
# - No point is lost for language, or for exact numbers.
# ### END SOLUTION

# %% [markdown]
# ## Question 2: why not whiten every layer?
#
# *3 points, in words, about 10 minutes*
#
# Whitening the input helps, so why does nobody whiten the activations before every layer in every
# training step, and why is only mean and variance normalized there? Give at least two different
# reasons, each with the quantity it depends on (batch size $N$, width $D$, ...), and say what is
# lost by the cheaper way.

# %% [markdown] nbgrader={"grade_id": "written_whitening", "written": true, "points": 3}
# ### BEGIN SOLUTION
# **A model answer.** It costs too much: the covariance matrix takes N D² operations and its
# eigenvectors about D³, at every layer and step, and the backward pass through them as well, while
# mean and variance take N D. It is badly estimated: a batch of N samples gives a covariance matrix
# of rank at most N - 1, so for N below D there are directions with variance 0, and division by
# their root blows up noise. And the derivative of eigenvectors has a division by differences of
# eigenvalues, which fails when two are nearly equal. What is lost: the correlations between
# features stay, so the loss is not made as round as it could be.
#
# **Marking guide.**
#
# - 1 point for each of two reasons: cost (D³ or N D² named), too few samples (N against D, rank),
#   derivative of the eigenvectors, PCA whitening flips and reorders its axes from batch to batch.
#   Half a point for a reason without the quantity.
# - 1 point: correlations remain when each feature is normalized alone.
# ### END SOLUTION

# %% [markdown]
# ## Before you hand in
#
# - Restart the kernel and run all cells (*Kernel > Restart Kernel and Run All Cells*). Cells that
#   were run in another order can hide a mistake.
# - All five check cells print that their checks pass. The hidden tests go further: read the
#   docstrings once more and try shapes, axes, dtypes and values that the checks do not use.
# - No exercise calls a ready-made normalization.
# - The functions still have their names and arguments. An exercise you leave out costs only its own
#   points.
# - Both written questions have an answer in their own cell.
# - Save, and hand in `scaling.ipynb`.
