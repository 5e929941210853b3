# %% [markdown]
# # Precision
#
# The formula of a norm is one line; what it gives on a machine depends on the order of the line and
# on the number format. In this notebook you let the textbook's variance fail, write three that do
# not, and then a layer norm for half types and one for numbers of any size. The chapter *Precision*
# of the course book explains every idea used here; keep its page `precision.html` open beside this
# notebook (its text is also in [book/precision.md](../../book/precision.md)).
#
# | exercise | you write | points | difficulty | time |
# |---|---|---|---|---|
# | 1 | `one_pass_var(x)` | 3 | easy | 10 min |
# | 2 | `two_pass_var(x)` | 3 | easy | 10 min |
# | 3 | `welford(x)` | 5 | medium | 20 min |
# | 4 | `combine_moments(a, b)` | 4 | medium | 15 min |
# | 5 | `layer_norm_low_precision(x, weight, bias, eps)` | 6 | medium | 20 min |
# | 6 | `prescaled_layer_norm(x, eps)` | 4 | hard | 25 min |
#
# Two written questions at the end are worth 3 points each. A person grades them.
#
# **How to work.** Replace `raise NotImplementedError()` with your code and run the cell with
# Shift+Enter. Then run the check cell below it. A check that fails says what it saw and what to
# look at. Stuck? Open the hints one at a time. Add as many cells of your own as you like.
#
# **What is graded.** Hidden tests run your functions on other shapes, data types, values of `eps`
# and inputs. Passing the visible checks is a good sign, but **it is not the same as passing the
# hidden tests**. The docstring of each exercise is the full specification: read it to its end,
# above all what it says about dtypes, since they are not the same in all six. If you have the
# course's repository, its README says how to run the hidden tests on this file: they name the
# mistake.
#
# **Rules.** Do not call a ready-made variance (`torch.var`, `torch.std`, `torch.var_mean`, ...) or
# normalization (`torch.nn.functional.layer_norm` and its relatives). In exercise 3 do not take a
# sum or a mean over the features either: a loop over them is the exercise. Cells of your own may
# call all of this, to compare. Where one of your functions reaches it during a hidden test, that
# test fails. Keep the names and the arguments of the functions.
#
# **How to hand in.** Save the notebook and hand in this one file, `precision.ipynb`, without
# renaming it.

# %%
import torch
from torch import Tensor

# %% [markdown]
# ## Exercise 1: the textbook's variance, to see it fail
#
# *3 points, easy, about 10 minutes*
#
# On paper the variance is the mean of the squares minus the square of the mean:
#
# $$
# \sigma^2 = \frac1D\sum_{j=1}^{D} x_j^2 - \Bigl(\frac1D\sum_{j=1}^{D} x_j\Bigr)^{2}
# $$
#
# It looks at each number once and needs two sums, so it is still found in kernels. On a machine two
# large rounded numbers are subtracted, and their rounding errors are left. Write it **exactly as it
# stands**, in the dtype of `x`. A wrong variance for numbers far from 0 is the right answer here,
# a negative one too; the hidden tests ask for it.
#
# | name | shape | dtype |
# |---|---|---|
# | `x` | `(..., D)` | any floating-point dtype |
# | result | `(...)`, one number per vector | that of `x` |
#
# <details><summary>Hint 1: which means?</summary>
#
# Both run over the last axis only, `dim=-1`: the mean of `x * x`, and the mean of `x`.
#
# </details>
#
# <details><summary>Hint 2: in which order?</summary>
#
# Square, then mean; minus mean, then square. Without `keepdim` the last axis is gone, as asked.
#
# </details>
#
# <details><summary>Hint 3: my result is negative, or NaN. What do I do?</summary>
#
# Nothing. No `clamp`, no `abs`, no `.float()`, no `.double()`: this exercise is about the failure.
#
# </details>
#
# <details><summary>Expected output</summary>
#
# ```python
# print(one_pass_var(torch.tensor([[1.0, 3.0], [-2.0, 4.0]])))
# print(one_pass_var(torch.tensor([5001.0, 5002.0, 5004.0])))
# print(one_pass_var(torch.tensor([300.0, 302.0]).half()))
# ```
#
# prints
#
# ```
# tensor([1., 9.])
# tensor(-2.)
# tensor(nan, dtype=torch.float16)
# ```
#
# The second variance is 1.5556, the third is 1.
#
# </details>


# %% nbgrader={"grade_id": "one_pass_var", "solution": true}
def one_pass_var(x: Tensor) -> Tensor:
    """E[x^2] - E[x]^2 over the last axis, as the textbook has it, to see it fail.

    Args:
        x: (..., D), any rank >= 1, any floating-point dtype. Is not modified.

    Returns:
        (...), one biased variance per vector, in the dtype of x.

    Everything is computed in the dtype of x: x is not widened, not even from float16 or bfloat16.
    The result is what the two means give: for numbers far from 0 it is wrong, may be negative
    (nothing is clamped), and in float16 it is NaN or infinite when a square is too large. The
    hidden tests check both: right where the formula is right, and wrong where it cancels.
    """
    ### BEGIN SOLUTION
    mean_of_squares = x.square().mean(dim=-1)  # (...)
    square_of_mean = x.mean(dim=-1).square()  # (...)
    return mean_of_squares - square_of_mean
    ### END SOLUTION


# %% [markdown]
# **Check exercise 1.** Run the next cell. No error means that all visible checks passed.

# %% tags=["active-ipynb"] nbgrader={"grade_id": "test_one_pass_var", "points": 3}
# v = one_pass_var(torch.tensor([1.0, 3.0]))
# assert v is not None, "one_pass_var returned None: does it end with a return statement?"
# assert v.shape == (), f"one vector has one variance, of shape (), but yours is {tuple(v.shape)}"
# assert v.dtype == torch.float32, f"x is float32, the result must be too, but it is {v.dtype}"
# assert v == 1, (
#     f"the mean of the squares of [1, 3] is 5, the square of the mean is 4, so the result must be "
#     f"1, got {v.item()}"
# )
# x = torch.tensor([[1.0, 3.0, 5.0], [-2.0, 4.0, 4.0], [0.0, 0.0, 9.0]])
# before = x.clone()
# v = one_pass_var(x)
# assert torch.equal(x, before), "one_pass_var changed its input: avoid in-place operations on x"
# assert v.shape == (3,), f"an x of shape (3, 3) must give the shape (3,), got {tuple(v.shape)}"
# assert torch.allclose(v, torch.tensor([8 / 3, 8.0, 18.0])), (
#     f"the variances of the three rows are 2.6667, 8 and 18, got {v.tolist()}. Are both means taken "
#     "over the last axis?"
# )
#
# # And now the failure.
# v = one_pass_var(torch.tensor([5001.0, 5002.0, 5004.0]))
# assert v == -2, (
#     "in float32 the formula gives -2 for [5001, 5002, 5004], although the variance is 1.5556; got "
#     f"{v.item()}. Is it the formula as it stands, in the dtype of x, without a clamp?"
# )
# v = one_pass_var(torch.tensor([300.0, 302.0]).half())
# assert v.dtype == torch.float16, f"x is float16, the result must be too, but it is {v.dtype}"
# assert not v.isfinite(), (
#     f"in float16 the square of 300 is infinite, so the result cannot be a number, but it is "
#     f"{v.item()}: was x widened first?"
# )
# print("Exercise 1: the visible checks pass.")

# %% [markdown]
# ## Exercise 2: two passes
#
# *3 points, easy, about 10 minutes*
#
# Take the mean first, and square what is left after it is subtracted:
#
# $$
# \mu=\frac1D\sum_{j=1}^{D} x_j, \qquad \sigma^2=\frac1D\sum_{j=1}^{D}(x_j-\mu)^2
# $$
#
# The numbers that are squared are small, and so are their rounding errors. The price is a second
# look at each number. This function widens half types to float32 **and leaves the result there**:
# the variance of the float16 numbers ±1000 is a million, which float16 cannot hold.
#
# | name | shape | dtype |
# |---|---|---|
# | `x` | `(..., D)` | any floating-point dtype |
# | result | `(...)` | float32 for half types, otherwise that of `x` |
#
# <details><summary>Hint 1: how do I subtract one mean from each vector?</summary>
#
# `x - x.mean(dim=-1, keepdim=True)`: with `keepdim` the mean has the shape `(..., 1)` and lines up.
#
# </details>
#
# <details><summary>Hint 2: how many axes has the result?</summary>
#
# One less than `x`: here the second mean is taken without `keepdim`.
#
# </details>
#
# <details><summary>Hint 3: which dtypes are widened?</summary>
#
# Only `torch.float16` and `torch.bfloat16`, with `.float()`. A float64 `x` stays float64: widening
# it "to float32" would lose half of its digits.
#
# </details>
#
# <details><summary>Expected output</summary>
#
# ```python
# print(two_pass_var(torch.tensor([[1.0, 3.0], [-2.0, 4.0]])))
# print(two_pass_var(torch.tensor([5001.0, 5002.0, 5004.0])))
# print(two_pass_var(torch.tensor([-1000.0, 1000.0]).half()))
# ```
#
# prints
#
# ```
# tensor([1., 9.])
# tensor(1.5556)
# tensor(1000000.)
# ```
#
# </details>


# %% nbgrader={"grade_id": "two_pass_var", "solution": true}
def two_pass_var(x: Tensor) -> Tensor:
    """The biased variance over the last axis: first the mean, then the mean squared deviation.

    Args:
        x: (..., D), any rank >= 1, any floating-point dtype. Is not modified.

    Returns:
        (...), one variance per vector (divided by D), never negative. float16 and bfloat16 inputs
        are computed in float32, and the result is float32; float32 and float64 stay as they are.

    Accurate when the mean is far larger than the spread. Gradients flow to x.
    """
    ### BEGIN SOLUTION
    if x.dtype in (torch.float16, torch.bfloat16):
        x = x.float()
    centered = x - x.mean(dim=-1, keepdim=True)  # (..., D)
    return centered.square().mean(dim=-1)  # (...)
    ### END SOLUTION


# %% [markdown]
# **Check exercise 2.**

# %% tags=["active-ipynb"] nbgrader={"grade_id": "test_two_pass_var", "points": 3}
# v = two_pass_var(torch.tensor([1.0, 3.0]))
# assert v is not None, "two_pass_var returned None: does it end with a return statement?"
# assert v.shape == (), f"one vector has one variance, of shape (), but yours is {tuple(v.shape)}"
# assert v.dtype == torch.float32, f"x is float32, the result must be too, but it is {v.dtype}"
# assert v == 1, f"the variance of [1, 3] is 1 (divide by D, not D - 1), got {v.item()}"
# x = torch.tensor([[1.0, 3.0, 5.0], [-2.0, 4.0, 4.0], [0.0, 0.0, 9.0]])
# before = x.clone()
# v = two_pass_var(x)
# assert torch.equal(x, before), "two_pass_var changed its input: avoid in-place operations on x"
# assert v.shape == (3,), f"an x of shape (3, 3) must give the shape (3,), got {tuple(v.shape)}"
# assert torch.allclose(v, torch.tensor([8 / 3, 8.0, 18.0])), (
#     f"the variances of the three rows are 2.6667, 8 and 18, got {v.tolist()}. Are both means taken "
#     "over the last axis?"
# )
# v = two_pass_var(torch.tensor([5001.0, 5002.0, 5004.0]))
# assert torch.allclose(v, torch.tensor(14 / 9), rtol=1e-3), (
#     f"the variance of [5001, 5002, 5004] is 1.5556, got {v.item()}: is the mean subtracted before "
#     "anything is squared?"
# )
# v = two_pass_var(torch.tensor([-1000.0, 1000.0]).half())
# assert v.dtype == torch.float32, (
#     f"the variance of a float16 x is computed in float32 and stays there, but it is {v.dtype}"
# )
# assert v == 1e6, f"the variance of [-1000, 1000] is 1e6, got {v.item()}: is x widened first?"
# v = two_pass_var(1e8 + torch.tensor([-1.0, 1.0], dtype=torch.float64))
# assert v.dtype == torch.float64 and v == 1, "a float64 x must be computed in float64"
# print("Exercise 2: the visible checks pass.")

# %% [markdown]
# ## Exercise 3: one pass that does not cancel
#
# *5 points, medium, about 20 minutes*
#
# What if the numbers can be seen only once, one after the other? B. P. Welford's update of 1962
# keeps three things: how many numbers it has seen, their mean, and the sum $M$ of their squared
# deviations from that mean. When the $k$-th number $x_k$ comes,
#
# $$
# \delta = x_k - \mu_{k-1}, \qquad
# \mu_k = \mu_{k-1} + \frac{\delta}{k}, \qquad
# M_k = M_{k-1} + \delta\,(x_k - \mu_k),
# $$
#
# starting from $\mu_0 = M_0 = 0$. At the end the variance is $M_D/D$. In the last formula one
# factor uses the mean before the update and the other the mean after it.
#
# | name | shape | dtype |
# |---|---|---|
# | `x` | `(..., D)` | any floating-point dtype |
# | mean, variance | `(...)` each | float32 for half types, otherwise that of `x` |
#
# Python loops over the D features. Everything else is done for all vectors at once: `x[..., k]` has
# one number of each.
#
# <details><summary>Hint 1: what does the loop keep?</summary>
#
# Two tensors of the shape `(...)`, both zeros at the start: `torch.zeros_like(x[..., 0])` after `x`
# has been widened.
#
# </details>
#
# <details><summary>Hint 2: what is divided by what?</summary>
#
# `range(D)` counts from 0, but the first number is number 1: divide by `k + 1`. Only at the very
# end is the second tensor divided by D.
#
# </details>
#
# <details><summary>Hint 3: in which order?</summary>
#
# First `delta`, with the old mean. Then the new mean. Then the product of `delta` and `x[..., k]`
# minus the new mean.
#
# </details>
#
# <details><summary>Expected output</summary>
#
# ```python
# print(welford(torch.tensor([1.0, 3.0, 8.0])))
# print(welford(torch.tensor([5001.0, 5002.0, 5004.0]))[1])
# ```
#
# prints
#
# ```
# (tensor(4.), tensor(8.6667))
# tensor(1.5554)
# ```
#
# The variance of the second vector is 1.5556. Welford's mean is rounded after every number, so the
# last digits differ, and they depend on how you write it.
#
# </details>


# %% nbgrader={"grade_id": "welford", "solution": true}
def welford(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and biased variance over the last axis, by one look at each number.

    Args:
        x: (..., D), any rank >= 1, D >= 1, any floating-point dtype. Is not modified.

    Returns:
        mean: (...), the mean of each vector.
        var: (...), its variance, divided by D.
        float16 and bfloat16 inputs are computed in float32, and both results are float32; float32
        and float64 stay as they are.

    A Python loop runs over the D features, once: each number is looked at once, so there is one
    loop, and no sum or mean over them. All vectors are updated at once. Accurate when the mean is far larger than the spread. No gradient is asked for.
    """
    ### BEGIN SOLUTION
    if x.dtype in (torch.float16, torch.bfloat16):
        x = x.float()
    mean = torch.zeros_like(x[..., 0])  # (...)
    m2 = torch.zeros_like(mean)  # (...), the sum of squared deviations from the mean so far
    for k in range(x.shape[-1]):
        delta = x[..., k] - mean  # from the old mean
        mean = mean + delta / (k + 1)
        m2 = m2 + delta * (x[..., k] - mean)  # old deviation times new deviation
    return mean, m2 / x.shape[-1]
    ### END SOLUTION


# %% [markdown]
# **Check exercise 3.** It cannot see *how* the numbers come about. The hidden tests do: a `mean` or a
# `sum` over the features earns nothing here, and a second loop over them is shown to a person.

# %% tags=["active-ipynb"] nbgrader={"grade_id": "test_welford", "points": 5}
# found = welford(torch.tensor([1.0, 3.0]))
# assert found is not None, "welford returned None: does it end with a return statement?"
# assert isinstance(found, tuple) and len(found) == 2, (
#     f"welford must return two tensors, mean and var, got {type(found).__name__}"
# )
# mean, var = found
# assert mean.shape == var.shape == (), (
#     f"for one vector both results have the shape (), got {tuple(mean.shape)}, {tuple(var.shape)}"
# )
# assert mean.dtype == var.dtype == torch.float32, (
#     f"x is float32, both results must be too, but they are {mean.dtype} and {var.dtype}"
# )
# assert mean == 2, (
#     f"the mean of [1, 3] is 2, got {mean.item()}: does the loop begin with the first number, is "
#     "delta divided by k + 1, and is the mean returned first?"
# )
# assert var == 1, (
#     f"the variance of [1, 3] is 1, got {var.item()}: the old deviation times the new one, and at "
#     "the end divided by D"
# )
# x = torch.tensor([[1.0, 3.0, 5.0], [-2.0, 4.0, 4.0], [0.0, 0.0, 9.0]])
# before = x.clone()
# mean, var = welford(x)
# assert torch.equal(x, before), "welford changed its input: avoid in-place operations on x"
# assert mean.shape == var.shape == (3,), f"one mean for each row of x, got {tuple(mean.shape)}"
# assert torch.allclose(mean, torch.tensor([3.0, 2.0, 3.0])), (
#     f"the means of the three rows are 3, 2 and 3, got {mean.tolist()}"
# )
# assert torch.allclose(var, torch.tensor([8 / 3, 8.0, 18.0])), (
#     f"the variances of the three rows are 2.6667, 8 and 18, got {var.tolist()}: in "
#     "delta * (x - mean) the first factor uses the old mean, the second the new one"
# )
# mean, var = welford(torch.tensor([5001.0, 5002.0, 5004.0]))
# assert torch.allclose(var, torch.tensor(14 / 9), rtol=1e-2), (
#     f"the variance of [5001, 5002, 5004] is 1.5556, got {var.item()}: are sums of squares used?"
# )
# mean, var = welford(torch.tensor([-1000.0, 1000.0]).half())
# assert mean.dtype == var.dtype == torch.float32, (
#     f"both results of a float16 x must be float32, but they are {mean.dtype} and {var.dtype}"
# )
# assert var == 1e6, f"the variance of [-1000, 1000] is 1e6, got {var.item()}: is x widened first?"
# mean, var = welford(1e8 + torch.tensor([-1.0, 1.0], dtype=torch.float64))
# assert mean.dtype == var.dtype == torch.float64 and var == 1, (
#     "a float64 x must be computed in float64, and so must what the loop keeps"
# )
# print("Exercise 3: the visible checks pass.")

# %% [markdown]
# ## Exercise 4: putting two halves together
#
# *4 points, medium, about 15 minutes*
#
# A GPU does not go through a vector one number at a time. It cuts the vector into pieces, and the
# results are put together: for threads, for blocks, for machines. Each piece is told by its count
# $n$, its mean $\mu$ and its sum of squared deviations $M$. For the union of A and B
#
# $$
# n = n_A + n_B, \qquad \delta=\mu_B-\mu_A, \qquad
# \mu = \mu_A + \delta\,\frac{n_B}{n}, \qquad
# M = M_A + M_B + \delta^2\,\frac{n_A n_B}{n}.
# $$
#
# (Chan, Golub and LeVeque, 1979. With $n_B=1$ and $M_B=0$ it is Welford's update.) A piece may be
# empty: at the end of a vector, a thread may have nothing to do.
#
# | name | is |
# |---|---|
# | `a`, `b`, result | tuples `(count, mean, M2)` |
# | `count` | a Python `int`, the same for all vectors |
# | `mean`, `M2` | tensors `(...)`; `M2` is a **sum**, not a variance |
#
# <details><summary>Hint 1: how to get at the parts?</summary>
#
# `count_a, mean_a, m2_a = a`, and the same for `b`.
#
# </details>
#
# <details><summary>Hint 2: what of the empty pieces?</summary>
#
# If one count is 0, the other piece is the answer. Say so before the formula: it would divide by
# zero when both are empty, and the mean of an empty piece may be NaN.
#
# </details>
#
# <details><summary>Hint 3: how to check by yourself?</summary>
#
# Cut `torch.arange(10.)` into pieces, combine them in any order, and compare `M2 / count` with
# `two_pass_var` of the whole.
#
# </details>
#
# <details><summary>Expected output</summary>
#
# ```python
# a = (2, torch.tensor(2.0), torch.tensor(2.0))  # of [1, 3]
# b = (1, torch.tensor(8.0), torch.tensor(0.0))  # of [8]
# print(combine_moments(a, b))
# print(combine_moments(a, (0, torch.tensor(0.0), torch.tensor(0.0))))
# ```
#
# prints
#
# ```
# (3, tensor(4.), tensor(26.))
# (2, tensor(2.), tensor(2.))
# ```
#
# Indeed, the mean of [1, 3, 8] is 4, and 9 + 1 + 16 = 26.
#
# </details>


# %% nbgrader={"grade_id": "combine_moments", "solution": true}
def combine_moments(
    a: tuple[int, Tensor, Tensor], b: tuple[int, Tensor, Tensor]
) -> tuple[int, Tensor, Tensor]:
    """Count, mean and M2 of two pieces taken together (Chan's formula).

    Args:
        a: (count, mean, M2): how many numbers piece A has, an int >= 0, the same for all vectors;
            the mean of each vector, (...); and its sum of squared deviations from it, (...).
        b: the same for piece B, with means and M2 of the same shape and dtype.

    Returns:
        (count, mean, M2) of both together, in the same shape and dtype. The tensors in a and b are
        not modified; where a piece is returned as it is, its tensors may be the same objects.

    If one count is 0, the result is the other piece, whatever mean and M2 of the empty one hold
    (NaN included). If both are 0, the count is 0. Accurate when the means are far larger than the
    spread, as long as they are near each other.
    """
    ### BEGIN SOLUTION
    count_a, mean_a, m2_a = a
    count_b, mean_b, m2_b = b
    if count_a == 0:
        return b
    if count_b == 0:
        return a
    count = count_a + count_b
    delta = mean_b - mean_a
    mean = mean_a + delta * (count_b / count)
    m2 = m2_a + m2_b + delta.square() * (count_a * count_b / count)
    return count, mean, m2
    ### END SOLUTION


# %% [markdown]
# **Check exercise 4.**

# %% tags=["active-ipynb"] nbgrader={"grade_id": "test_combine_moments", "points": 4}
# a = (2, torch.tensor([2.0]), torch.tensor([2.0]))
# b = (1, torch.tensor([8.0]), torch.tensor([0.0]))
# found = combine_moments(a, b)
# assert found is not None, "combine_moments returned None: does it end with a return statement?"
# assert isinstance(found, tuple) and len(found) == 3, (
#     f"combine_moments must return (count, mean, M2), got {type(found).__name__}"
# )
# count, mean, m2 = found
# assert (a[1].item(), a[2].item(), b[1].item(), b[2].item()) == (2, 2, 8, 0), (
#     "a piece was changed: avoid in-place operations on mean and M2"
# )
# assert count == 3, f"two numbers and one number are three numbers, got {count}"
# assert mean.dtype == m2.dtype == torch.float32, (
#     f"the pieces are float32, mean and M2 must be too, but they are {mean.dtype} and {m2.dtype}"
# )
# assert torch.allclose(mean, torch.tensor([4.0])), (
#     f"the mean of [1, 3, 8] is 4, got {mean.item()}: move from mean_a towards mean_b, by B's share "
#     "of the count"
# )
# assert torch.allclose(m2, torch.tensor([26.0])), (
#     f"the squared deviations of [1, 3, 8] from 4 add up to 26, got {m2.item()}: M2_a + M2_b + "
#     "delta^2 * n_a * n_b / n"
# )
#
# # Empty pieces, on either side, and on both.
# empty = (0, torch.tensor([torch.nan]), torch.tensor([torch.nan]))
# for left, right in ((a, empty), (empty, a)):
#     count, mean, m2 = combine_moments(left, right)
#     assert (count, mean.item(), m2.item()) == (2, 2.0, 2.0), (
#         "a piece and an empty piece must give the piece, even if the mean of nothing is NaN; got "
#         f"{(count, mean.item(), m2.item())}"
#     )
# assert combine_moments(empty, empty)[0] == 0, "two empty pieces have the count 0"
#
# # Any cut gives the same as the whole.
# x = 1000 + torch.randn(4, 9, dtype=torch.float64)
# want = ((x - x.mean(dim=-1, keepdim=True)) ** 2).sum(dim=-1)
# for cut in (1, 4, 8):
#     pieces = []
#     for part in (x[:, :cut], x[:, cut:]):
#         m = part.mean(dim=-1)
#         pieces.append((part.shape[-1], m, ((part - m[:, None]) ** 2).sum(dim=-1)))
#     count, mean, m2 = combine_moments(*pieces)
#     assert mean.dtype == m2.dtype == torch.float64, "pieces in float64 give results in float64"
#     assert count == 9 and torch.allclose(mean, x.mean(dim=-1), rtol=1e-9), (
#         f"9 numbers cut behind number {cut} and combined have another mean than the whole"
#     )
#     assert torch.allclose(m2, want, rtol=1e-6), (
#         f"9 numbers cut behind number {cut} and combined have another M2 than the whole"
#     )
# print("Exercise 4: the visible checks pass.")

# %% [markdown]
# ## Exercise 5: layer norm for half types
#
# *6 points, medium, about 20 minutes*
#
# Half types go in and come out, and in between everything is float32: what a fused kernel does, and
# what makes layer norm safe in mixed precision. Three things are easy to get wrong. The squares of
# float16 numbers do not fit into float16. An `eps` of `1e-8` is 0 in float16. And each cast rounds,
# so the result is cast **once**, after scale and shift.
#
# $$
# y_i = w_i\,\frac{x_i-\mu}{\sqrt{\sigma^2+\varepsilon}} + b_i
# $$
#
# | name | shape | dtype |
# |---|---|---|
# | `x` | `(..., D)` | float16, bfloat16 or float32 |
# | `weight`, `bias` | `(D,)`, or `None` | float32, or that of `x` |
# | mean, variance | `(..., 1)` | float32 |
# | result | `(..., D)` | that of `x` |
#
# `None` stands for no scale, or no shift; either may be `None` without the other.
#
# <details><summary>Hint 1: what is cast, and when?</summary>
#
# Keep `x.dtype`. Then `x.float()` before anything else; `.to(dtype)` in the last line.
#
# </details>
#
# <details><summary>Hint 2: and weight and bias?</summary>
#
# A float32 tensor times a half tensor is float32, so they need no cast of their own. What must not
# happen is the other direction: the normalized x going back to the half type before they are used.
#
# </details>
#
# <details><summary>Hint 3: and eps?</summary>
#
# It is a Python number, added to a float32 variance. Do not make a half tensor of it.
#
# </details>
#
# <details><summary>Expected output</summary>
#
# ```python
# x = torch.tensor([-1000.0, 1000.0, 60000.0, -60000.0]).half()
# print(layer_norm_low_precision(x, None, None, 1e-5))
# tiny = torch.tensor([0.0, 1e-4, 2e-4, 3e-4]).half()
# print(layer_norm_low_precision(tiny, None, torch.full((4,), 0.5), 1e-8))
# ```
#
# prints
#
# ```
# tensor([-0.0236,  0.0236,  1.4141, -1.4141], dtype=torch.float16)
# tensor([-0.5000,  0.1667,  0.8335,  1.5000], dtype=torch.float16)
# ```
#
# </details>


# %% nbgrader={"grade_id": "layer_norm_low_precision", "solution": true}
def layer_norm_low_precision(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> Tensor:
    """Layer norm with half types in and out, and float32 inside.

    Args:
        x: (..., D), any rank >= 1; float16, bfloat16 or float32. Is not modified.
        weight: (D,), float32 or the dtype of x, multiplies the normalized vector; None: no scale.
        bias: (D,), float32 or the dtype of x, is added last; None: no shift.
        eps: added to the variance, inside the square root. May be too small for float16.

    Returns:
        (..., D), with the dtype of x.

    Mean and biased variance over the last axis, the scale and the shift are computed in float32
    from the numbers of x as they are; the result is rounded to the dtype of x once, at the end. No
    finite float16 x overflows, and vectors whose mean is far larger than their spread are as
    accurate as float32 allows. bfloat16 and float32 numbers may be as large as 1e15. Gradients flow
    to x, weight and bias, through mean and variance too.
    """
    ### BEGIN SOLUTION
    dtype = x.dtype
    x = x.float()
    centered = x - x.mean(dim=-1, keepdim=True)  # (..., D), float32
    var = centered.square().mean(dim=-1, keepdim=True)  # (..., 1), float32
    y = centered * torch.rsqrt(var + eps)
    if weight is not None:
        y = y * weight  # float32 times half is float32
    if bias is not None:
        y = y + bias
    return y.to(dtype)  # the only rounding to the half type
    ### END SOLUTION


# %% [markdown]
# **Check exercise 5.**

# %% tags=["active-ipynb"] nbgrader={"grade_id": "test_layer_norm_low_precision", "points": 6}
# x = torch.tensor([[1.0, 2.0, 3.0, 4.0], [10.0, 20.0, 30.0, 40.0]])
# row = torch.tensor([-1.3416, -0.4472, 0.4472, 1.3416])
# y = layer_norm_low_precision(x, None, None, 1e-5)
# assert y is not None, (
#     "layer_norm_low_precision returned None: does it end with a return statement?"
# )
# assert y.shape == x.shape, f"the result must have the shape (2, 4), got {tuple(y.shape)}"
# assert y.dtype == torch.float32, f"x is float32, the result must be too, but it is {y.dtype}"
# assert torch.allclose(y, row.expand(2, 4), atol=1e-3), (
#     f"both rows must become {row}, got {y}: mean and biased variance of each row"
# )
# y = layer_norm_low_precision(torch.tensor([-1.0, 1.0]), None, None, 3.0)
# assert torch.allclose(y, torch.tensor([-0.5, 0.5])), (
#     f"with eps=3, [-1, 1] must become [-0.5, 0.5], got {y.tolist()}: is eps inside the root?"
# )
#
# weight, bias = torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.tensor([0.5, 0.0, -0.5, 1.0])
# for w, b in ((weight, bias), (weight, None), (None, bias)):
#     for dtype in (torch.float32, torch.float16, torch.bfloat16):
#         before = x.to(dtype)
#         given = before.clone()
#         y = layer_norm_low_precision(given, w, b, 1e-5)
#         assert torch.equal(given, before), "x was changed: avoid in-place operations"
#         assert y.dtype == dtype, f"x is {dtype}, the result must be too, but it is {y.dtype}"
#         want = (row * (1 if w is None else w) + (0 if b is None else b)).expand(2, 4)
#         assert torch.allclose(y.float(), want, atol=0.02), (
#             "the result must be normalized * weight + bias; None means no scale, or no shift"
#         )
#
# x = torch.tensor([-60000.0, 60000.0, 60000.0, -60000.0]).half()
# y = layer_norm_low_precision(x, None, None, 1e-5)
# assert y.tolist() == [-1, 1, 1, -1], (
#     f"[-60000, 60000, 60000, -60000] in float16 must become [-1, 1, 1, -1], got {y.tolist()}: are "
#     "squares, mean and rstd float32?"
# )
# y = layer_norm_low_precision((1e-4 * torch.tensor([-1.0, 1.0])).half(), None, None, 1e-8)
# assert torch.allclose(y.float(), torch.tensor([-0.7071, 0.7071]), atol=2e-3), (
#     "with eps=1e-8, ±0.0001 must become ±0.7071, got "
#     f"{y.tolist()}: does eps get lost on the way through float16?"
# )
# x = torch.tensor([10000.0, 10002.0, 10004.0, 10006.0])
# y = layer_norm_low_precision(x, None, None, 1e-5)
# assert torch.allclose(y, row, atol=1e-3), (
#     f"[10000, 10002, 10004, 10006] must become {row}, got {y}: is the mean subtracted before "
#     "anything is squared?"
# )
#
# # One rounding: the float32 result, cast once, bit for bit, up to the last bit of float32.
# x = torch.linspace(-3, 5, 64).bfloat16()
# w, b = torch.linspace(0.5, 2, 64), torch.linspace(-1, 3, 64)
# wide = layer_norm_low_precision(x.float(), w, b, 1e-5)
# y = layer_norm_low_precision(x, w, b, 1e-5)
# assert torch.equal(y, wide.bfloat16()), (
#     "the result differs from the float32 result rounded once: is anything cast to the half type "
#     "before scale and shift are done?"
# )
# print("Exercise 5: the visible checks pass.")

# %% [markdown]
# ## Exercise 6: numbers of any size
#
# *4 points, hard, about 25 minutes*
#
# float32 overflows too: the square of `1e20` is infinite there. Dividing `x` by a number $s$ first
# is a remedy that is often recommended, and mostly without the second half of it. Exactly,
#
# $$
# \operatorname{LN}(x;\ \varepsilon) = \operatorname{LN}\!\Bigl(\frac{x}{s};\ \frac{\varepsilon}{s^2}\Bigr).
# $$
#
# Write a layer norm (without weight and bias) that chooses $s$ by itself, for each vector, so that
# it is right for every finite `x`: for `1e-30`, for zeros, and for `3e38`.
#
# | name | shape | dtype |
# |---|---|---|
# | `x` | `(..., D)` | float32 or float64 |
# | $s$ | `(..., 1)` | that of `x` |
# | result | `(..., D)` | that of `x` |
#
# <details><summary>Hint 1: which s?</summary>
#
# The largest absolute value of the vector makes all numbers lie between -1 and 1. Small vectors
# need no help: with `s` at least 1 nothing is ever divided by 0.
#
# </details>
#
# <details><summary>Hint 2: what is divided first?</summary>
#
# `x`, before the mean: a sum of numbers near `3e38` is infinite already.
#
# </details>
#
# <details><summary>Hint 3: why is a constant vector of 1e30 NaN?</summary>
#
# Its variance is 0, and `eps / s**2` is too small for the dtype, so that it is 0 as well, and 0/0
# is NaN. Put `torch.finfo(x.dtype).tiny` below it, as a lower limit.
#
# </details>
#
# <details><summary>Expected output</summary>
#
# ```python
# x = torch.tensor([[1e30, 2e30, 3e30, 4e30], [3e38, 3e38, 3e38, 3e38], [1.0, 2.0, 3.0, 4.0]])
# print(prescaled_layer_norm(x, 1e-5))
# print(prescaled_layer_norm(x, 3.75)[2])
# ```
#
# prints
#
# ```
# tensor([[-1.3416, -0.4472,  0.4472,  1.3416],
#         [ 0.0000,  0.0000,  0.0000,  0.0000],
#         [-1.3416, -0.4472,  0.4472,  1.3416]])
# tensor([-0.6708, -0.2236,  0.2236,  0.6708])
# ```
#
# With `eps=3.75` the last row is divided by the root of 1.25 + 3.75 instead of 1.25.
#
# </details>


# %% nbgrader={"grade_id": "prescaled_layer_norm", "solution": true}
def prescaled_layer_norm(x: Tensor, eps: float) -> Tensor:
    """Layer norm without weight and bias, for numbers of any size.

    Args:
        x: (..., D), any rank >= 1; float32 or float64, any finite numbers. Is not modified.
        eps: added to the variance of x, inside the square root. Larger than 0.

    Returns:
        (..., D), with the dtype of x: (x - mean) / sqrt(variance + eps), finite for
        numbers from 0 to the largest of the dtype.

    Each vector is divided by a positive number s of its own before anything else is computed, and
    eps is scaled along, so that the result is that of layer norm with this eps. (A float32 x is not
    widened to float64: that only moves the limit, and float64 has nowhere to go.) A constant vector
    gives zeros. Gradients flow to x (those of a constant vector are not looked at).
    """
    ### BEGIN SOLUTION
    s = x.abs().amax(dim=-1, keepdim=True).clamp(min=1)  # (..., 1)
    x = x / s  # all numbers between -1 and 1
    centered = x - x.mean(dim=-1, keepdim=True)
    var = centered.square().mean(dim=-1, keepdim=True)  # (..., 1)
    scaled_eps = (eps / s / s).clamp(min=torch.finfo(x.dtype).tiny)  # never 0
    return centered / torch.sqrt(var + scaled_eps)  # (the gradient of rsqrt cubes it: too large)
    ### END SOLUTION


# %% [markdown]
# **Check exercise 6.**

# %% tags=["active-ipynb"] nbgrader={"grade_id": "test_prescaled_layer_norm", "points": 4}
# row = torch.tensor([-1.3416, -0.4472, 0.4472, 1.3416])
# x = torch.tensor([[1.0, 2.0, 3.0, 4.0], [10.0, 20.0, 30.0, 40.0]])
# before = x.clone()
# y = prescaled_layer_norm(x, 1e-5)
# assert y is not None, "prescaled_layer_norm returned None: does it end with a return statement?"
# assert torch.equal(x, before), "prescaled_layer_norm changed its input"
# assert y.dtype == torch.float32, f"x is float32, the result must be too, but it is {y.dtype}"
# assert y.shape == x.shape, f"the result must have the shape (2, 4), got {tuple(y.shape)}"
# assert torch.allclose(y, row.expand(2, 4), atol=1e-3), (
#     f"both rows must become {row}, got {y}"
# )
# y = prescaled_layer_norm(x, 3.75)
# want = torch.stack([row / 2, row * (125 / 128.75) ** 0.5])
# assert torch.allclose(y, want, atol=1e-3), (
#     f"with eps=3.75 the rows must become\n{want}\ngot\n{y}\nIs eps divided by the square of the s "
#     "of each row?"
# )
# y = prescaled_layer_norm(torch.tensor([[-1e-3, 1e-3], [0.0, 0.0]]), 3e-6)
# assert torch.allclose(y, torch.tensor([[-0.5, 0.5], [0.0, 0.0]]), atol=1e-3), (
#     f"with eps=3e-6, ±0.001 must become ±0.5, and zeros stay zeros, got {y.tolist()}"
# )
# for size in (1e20, 1e30, 8e37):
#     y = prescaled_layer_norm(size * x[:1], 1e-5)
#     assert torch.allclose(y, row.expand(1, 4), atol=1e-3), (
#         f"numbers of the size {size} must become {row}, got {y}: is x divided by s before the "
#         "mean?"
#     )
# y = prescaled_layer_norm(torch.full((1, 4), 2.0**127), 1e-5)
# assert torch.equal(y, torch.zeros(1, 4)), (
#     f"a constant row of 2**127 must give zeros, got {y.tolist()}: is the scaled eps 0?"
# )
# y = prescaled_layer_norm(1e300 * x[:1].double(), 1e-5)
# assert torch.allclose(y, row.double().expand(1, 4), atol=1e-3), (
#     f"float64 numbers of the size 1e300 must become {row}, got {y}: was x only widened?"
# )
# print("Exercise 6: the visible checks pass.")

# %% [markdown]
# ## Question 1: three remedies
#
# *3 points, in words, about 10 minutes*
#
# A model runs in float16. Its hand-written layer norm computes everything in float16 and returns
# zeros for some tokens. Three colleagues have a remedy each: compute the norm in float64; raise
# `eps` from `1e-5` to `1e-3`; divide the activations by 64 before the norm. Say what goes wrong at
# those tokens. Then judge the three: which one helps, at what price, which one changes the function
# that the layer computes, and what would you do? Five to eight sentences.
#
# Write your answer into the next cell, in place of its text. Nothing runs it; a person reads it.

# %% [markdown] nbgrader={"grade_id": "written_remedies", "written": true, "points": 3}
# ### BEGIN SOLUTION
# **A model answer.** The squared deviations of those tokens are larger than 65504, the variance is
# infinite, its reciprocal root is 0, and so is the result. float64 helps, but float32 has the same
# effect on half inputs (its largest number is 3e38) and is fast on GPUs where float64 is not. The
# larger `eps` does nothing about an infinite variance, and it changes the function: tokens with a
# spread near 0.03 or below are shrunk. Dividing by 64 helps as long as deviations stay below about
# 64 · 256; it leaves the function as it is only if `eps` is divided by 64², which is 2e-9 and 0 in
# float16, so that constant tokens give 0/0. What to do: float16 in and out, float32 inside.
#
# **Marking guide.**
#
# - 1 point: overflow of the squares, not of x; zeros because something is divided by infinity.
# - 1 point: eps does not help, and changes the function for small spreads.
# - 1 point: float32 inside is enough; the scale is exact only with eps / s². Half a point for one of
#   these two.
# ### END SOLUTION

# %% [markdown]
# ## Question 2: already lost
#
# *3 points, in words, about 10 minutes*
#
# Activations with mean 100 and standard deviation 1 are stored in bfloat16 and go through layer
# norm. Compared with the layer norm of the original float32 activations, single outputs are off by
# up to 0.3, and they stay so when the norm is computed in float64. How far apart are neighbouring
# bfloat16 numbers near 100? Explain the error, say why no better norm can repair it, and name one
# change elsewhere in a model that would. Four to six sentences.
#
# Write your answer into the next cell, in place of its text. Nothing runs it; a person reads it.

# %% [markdown] nbgrader={"grade_id": "written_already_lost", "written": true, "points": 3}
# ### BEGIN SOLUTION
# **A model answer.** bfloat16 has 8 significant bits. Numbers between 64 and 128 are 64/128 = 0.5
# apart, so storing moves each number by up to 0.25, a quarter of the standard deviation. The norm
# removes the 100 and keeps the spread, errors included. What was rounded away before the norm
# starts is not in its input, so no arithmetic inside can bring it back. What helps is to store less
# coarsely or smaller numbers: keep the residual stream in float32 (autocast does), in float16 if
# its range allows (0.0625 apart), or remove the common offset before storing (no large bias, a norm
# earlier, the norm fused with what computes its input).
#
# **Marking guide.**
#
# - 1 point: 0.5 apart, thus errors of up to 0.25 (a right argument with the number of bits counts).
# - 1 point: the error is in the input; the norm keeps or amplifies it relative to the spread.
# - 1 point: a change before the norm: wider storage, smaller offset, fusion.
# ### END SOLUTION

# %% [markdown]
# ## Before you hand in
#
# - Restart the kernel and run all cells (*Kernel > Restart Kernel and Run All Cells*). Cells that
#   were run in another order can hide a mistake.
# - All six check cells print that their checks pass. The hidden tests go further: read the six
#   docstrings once more and try shapes, dtypes and sizes that the checks do not use.
# - No exercise calls a ready-made variance or normalization.
# - Both written questions have an answer in their own cell.
# - The functions still have their names and arguments. An exercise you leave out costs only its own
#   points.
# - Save, and hand in `precision.ipynb`.
