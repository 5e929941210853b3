# %% [markdown]
# # Fused kernels in Triton
#
# A norm reads few numbers, does little with each, and spends its time waiting for memory. In this
# notebook you write it as *one* kernel, which reads its input once and writes its output once: layer
# norm forward and backward, RMSNorm, and layer norm fused with the residual addition before it. The
# chapter *Fused kernels in Triton* of the course book explains every idea used here; keep its page
# `triton-kernels.html` open beside this notebook (its text is also in
# [book/triton-kernels.md](../../book/triton-kernels.md)).
#
# | exercise | you write | points | difficulty | time |
# |---|---|---|---|---|
# | 1 | `row_sum(x)` | 2 | easy | 20 min |
# | 2 | `layer_norm_forward(x, weight, bias, eps)` | 8 | medium | 45 min |
# | 3 | `layer_norm_backward(grad_out, x, weight, mean, rstd)` | 9 | hard | 75 min |
# | 4 | `rms_norm_forward(x, weight, eps)` | 4 | easy | 20 min |
# | 5 | `add_layer_norm(x, residual, weight, bias, eps)` | 5 | medium | 30 min |
#
# One written question at the end is worth 3 points. A person grades it.
#
# **What you need.** Linux. No GPU: without one, Triton's *interpreter* runs your kernels as Python,
# slowly and one program after the other. With one, the same kernels are compiled for it.
#
# **How to work.** Replace each `raise NotImplementedError()` with your code and run the cell with
# Shift+Enter. Then run the check cell below it. A check that fails says what it saw and what to
# look at. Stuck? Open the hints one at a time. Add as many cells of your own as you like.
#
# If Python itself dies in a check, a kernel has reached far outside a tensor. Look at its masks and
# offsets. The command that runs the hidden tests (in the README of the course's repository) survives
# it, and says which access it was.
#
# **What is graded.** Hidden tests run your functions on other shapes, data types and memory layouts.
# They also watch the kernels at work: an access outside a tensor, two programs that write the same
# number, or an `x` that is read twice is seen, although the interpreter lets it pass. Passing the
# visible checks is a good sign, but **it is not the same as passing the hidden tests**. The
# docstring of each exercise is the full specification.
#
# **Rules.** The work on `x` is done in kernels. Around its kernels a function makes, reshapes and
# converts tensors and asks for their shapes, but it does not compute with them: no `+` or `.item()`,
# no loop over numbers, no mean, root or norm of torch. One sum is allowed, that of the partial
# results in exercise 3. A line that computes outside of kernels fails each hidden test that comes to
# it, and only those; cells of your own may compute what they like. Kernels use no atomics and no
# locks. You may change the arguments of a kernel and write further ones; keep the names and the
# arguments of the five functions.
#
# **How to hand in.** Save the notebook and hand in this one file, `triton_kernels.ipynb`, without
# renaming it.

# %%
import os

import torch
from torch import Tensor

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
if DEVICE == "cpu":
    os.environ["TRITON_INTERPRET"] = "1"  # no GPU: interpret kernels. Counts before the import only
try:
    import triton
    import triton.language as tl

    HAS_TRITON = True
except ImportError:  # what is defined below is then defined, but cannot run
    from types import SimpleNamespace

    triton, tl = SimpleNamespace(jit=lambda kernel: kernel), SimpleNamespace(constexpr=int)
    HAS_TRITON = False
    print("Triton is not installed (it exists for Linux only): nothing is checked here.")

# %% [markdown]
# ## Given: rows
#
# A kernel gets the *address* of a tensor's first number, nothing else. For a tensor of shape
# `(..., D)` it needs to know how far it is from one row to the next. This function makes that simple:
# it gives the same numbers as `(M, D)`, with each row in one piece. `rows.stride(0)` is then the
# distance between rows. It is `D` only if the rows lie end to end! Where they are columns of a wider
# tensor the distance is larger, and for an expanded tensor it is 0.


# %% nbgrader={"grade_id": "given_as_rows"}
def as_rows(x: Tensor) -> Tensor:
    """x of shape (..., D) as (M, D), each row in one piece: a view where possible, else a copy."""
    rows = x.reshape(-1, x.shape[-1])
    return rows if rows.stride(1) == 1 else rows.contiguous()


# %% [markdown]
# ## Exercise 1: a sum for each row
#
# *2 points, easy, about 20 minutes*
#
# The smallest kernel that has everything a norm needs: one *program* for each row, a block of
# addresses, a mask, a load, a reduction and a store.
#
# What goes before and after is given, and so is the launch, to copy into its place:
#
# ```python
# block = triton.next_power_of_2(D)
# _row_sum_kernel[(M,)](rows, out, rows.stride(0), D, BLOCK=block)
# ```
#
# In square brackets stands the *grid*: how many programs, here `M`, one for each row. A tensor among
# the arguments arrives in the kernel as the address of its first number.
#
# A block has a power of two of lanes, `BLOCK`, and rows have any length `D`. So there are lanes
# without a number of their own. The mask keeps them from reading, and `other` says what they hold.
#
# | name | shape | |
# |---|---|---|
# | `x` | `(..., D)` | `M` rows |
# | `cols`, `mask`, the loaded block | `(BLOCK,)` | `BLOCK` is at least `D` |
# | result | `(...)` | float32, one number per row |
#
# <details><summary>Hint 1: which row, which columns?</summary>
#
# `tl.program_id(0)` is the number of the row. `cols = tl.arange(0, BLOCK)` are the columns, and
# `mask = cols < D` says which of them exist.
#
# </details>
#
# <details><summary>Hint 2: how is a row loaded?</summary>
#
# `tl.load(x_ptr + row * x_stride + cols, mask=mask, other=0.0)`. Without `other`, the lanes beyond
# `D` hold anything. Add `.to(tl.float32)` before you compute: half types overflow and round.
#
# </details>
#
# <details><summary>Hint 3: what about very large tensors?</summary>
#
# `tl.program_id(0)` is a 32-bit number, and so is its product with the stride. From $2^{31}$ on it
# turns negative. `row = tl.program_id(0).to(tl.int64)` cures it. The last two lines of the kernel are
# `tl.sum(x, axis=0)` and a `tl.store` to `out_ptr + row`.
#
# </details>
#
# <details><summary>Expected output</summary>
#
# ```python
# x = torch.tensor([[1.0, 2.0, 3.0], [10.0, 20.0, 30.0]], device=DEVICE)
# print(row_sum(x).cpu())
# ```
#
# prints
#
# ```
# tensor([ 6., 60.])
# ```
#
# </details>


# %% nbgrader={"grade_id": "row_sum", "solution": true}
@triton.jit
def _row_sum_kernel(x_ptr, out_ptr, x_stride, D, BLOCK: tl.constexpr):
    """One program per row: adds the D numbers of its row."""
    ### BEGIN SOLUTION
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < D
    x = tl.load(x_ptr + row * x_stride + cols, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + row, tl.sum(x, axis=0))
    ### END SOLUTION


def row_sum(x: Tensor) -> Tensor:
    """Add up each row of x, with one program per row.

    Args:
        x: (..., D), D >= 1, any rank >= 1, float32, float16 or bfloat16, any strides, with any number
            of rows: none, or more than 65,536 (so rows are on the first axis of the grid). Its last
            number may be more than 2**31 numbers away from its first. Is not modified.

    Returns:
        (...), float32: x.shape without its last dimension. Added in float32.

    The kernel reads x once.
    """
    rows = as_rows(x)
    M, D = rows.shape
    out = torch.empty(x.shape[:-1], dtype=torch.float32, device=x.device)
    ### BEGIN SOLUTION
    block = triton.next_power_of_2(D)
    _row_sum_kernel[(M,)](rows, out, rows.stride(0), D, BLOCK=block)
    ### END SOLUTION
    return out


# %% [markdown]
# **Check exercise 1.** Run the next cell. No error means that all visible checks passed. Like the
# other checks it sees what comes out, not who computed it: the hidden tests give nothing for a
# function whose work is done by torch.

# %% tags=["active-ipynb"] nbgrader={"grade_id": "test_row_sum", "points": 2}
# def check_row_sum():
#     # Four numbers: a block of four lanes, all in use.
#     x = torch.tensor([[1.0, 2.0, 3.0, 4.0], [10.0, 20.0, 30.0, 40.0]], device=DEVICE)
#     out = row_sum(x)
#     assert out.dtype == torch.float32, f"the sums must be float32, but they are {out.dtype}"
#     assert out.shape == (2,), f"x has 2 rows, so there are 2 sums, not shape {tuple(out.shape)}"
#     assert out.tolist() == [10.0, 100.0], (
#         f"the rows add up to 10 and 100, got {out.tolist()}. Does each program load its own row?"
#     )
#
#     # Five numbers: eight lanes, three of which have no number.
#     x = torch.tensor([[1.0, 2.0, 3.0, 4.0, 5.0], [9.0, 9.0, 9.0, 9.0, 9.0]], device=DEVICE)
#     out = row_sum(x)
#     assert out.tolist() == [15.0, 45.0], (
#         f"the rows add up to 15 and 45, got {out.tolist()}. Do mask and other=0.0 keep the lanes "
#         "beyond D out?"
#     )
#
#     # Rows of a wider tensor do not lie end to end.
#     wide = torch.arange(12.0, device=DEVICE).reshape(2, 6)
#     out = row_sum(wide[:, :4])
#     assert out.tolist() == [6.0, 30.0], (
#         f"the rows add up to 6 and 30, got {out.tolist()}. Is the distance between rows x_stride?"
#     )
#
#     # float16 holds nothing above 65504.
#     out = row_sum(torch.full((1, 3), 30000.0, dtype=torch.float16, device=DEVICE))
#     assert out.tolist() == [90000.0], (
#         f"the row adds up to 90000, got {out.tolist()}. Is the block float32 before it is added?"
#     )
#     print("Exercise 1: the visible checks pass.")
#
#
# check_row_sum() if HAS_TRITON else print("Exercise 1: not checked, without Triton.")

# %% [markdown]
# ## Exercise 2: layer norm, forward
#
# *8 points, medium, about 45 minutes*
#
# The whole row fits into one block, and a block lives in registers. So the row is loaded once, its
# mean and its variance are taken there, one after the other, and the result is stored once:
#
# $$
# y_i = w_i\,(x_i-\mu)\,r + b_i,
# \qquad \mu=\frac1D\sum_{j=1}^{D} x_j,
# \qquad r=\Bigl(\frac1D\sum_{j=1}^{D}(x_j-\mu)^2+\varepsilon\Bigr)^{-1/2}
# $$
#
# The backward pass needs $\mu$ and $r$ again. Two numbers per row are cheap to keep, so the kernel
# stores them as well.
#
# | name | shape | |
# |---|---|---|
# | `x`, `y` | `(..., D)` | same dtype |
# | `weight`, `bias` | `(D,)` | or `None` |
# | `mean`, `rstd` | `(...)` | float32, one number per row |
#
# <details><summary>Hint 1: how to begin?</summary>
#
# As in exercise 1, up to the load. Then `mean = tl.sum(x, axis=0) / D`: by `D`, the number of
# numbers, not by `BLOCK`, the number of lanes.
#
# </details>
#
# <details><summary>Hint 2: the variance comes out too large when D is no power of two?</summary>
#
# The lanes beyond `D` hold 0. After `x - mean` they hold `-mean`, and their squares are added too.
# Set them to 0 again: `centered = tl.where(mask, x - mean, 0.0)`. Then square, add, divide by `D`,
# and `tl.rsqrt(var + eps)` is the reciprocal of the root.
#
# </details>
#
# <details><summary>Hint 3: how can weight be None?</summary>
#
# Pass it on to the kernel as it is. In the kernel, `if weight_ptr is not None:` is decided when the
# kernel is compiled, and costs nothing. Load `weight` and `bias` with the mask, as float32. Store
# `y` at `y_ptr + row * D + cols`, and `mean` and `rstd` at their pointers plus `row`.
#
# </details>
#
# <details><summary>Expected output</summary>
#
# ```python
# x = torch.tensor([[1.0, 2.0, 3.0, 4.0], [10.0, 20.0, 30.0, 40.0]], device=DEVICE)
# for result in layer_norm_forward(x, None, None, 1e-5):
#     print(result.cpu())
# ```
#
# prints
#
# ```
# tensor([[-1.3416, -0.4472,  0.4472,  1.3416],
#         [-1.3416, -0.4472,  0.4472,  1.3416]])
# tensor([ 2.5000, 25.0000])
# tensor([0.8944, 0.0894])
# ```
#
# </details>


# %% nbgrader={"grade_id": "layer_norm_forward", "solution": true}
@triton.jit
def _layer_norm_forward_kernel(
    x_ptr, weight_ptr, bias_ptr, y_ptr, mean_ptr, rstd_ptr, x_stride, D, eps, BLOCK: tl.constexpr
):
    """One program per row: y, mean and rstd of its row. weight_ptr and bias_ptr may be None."""
    ### BEGIN SOLUTION
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < D
    x = tl.load(x_ptr + row * x_stride + cols, mask=mask, other=0.0).to(tl.float32)

    mean = tl.sum(x, axis=0) / D
    centered = tl.where(mask, x - mean, 0.0)  # the lanes beyond D stay out of the variance
    var = tl.sum(centered * centered, axis=0) / D
    rstd = tl.rsqrt(var + eps)

    y = centered * rstd
    if weight_ptr is not None:
        y = y * tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    if bias_ptr is not None:
        y = y + tl.load(bias_ptr + cols, mask=mask, other=0.0).to(tl.float32)

    tl.store(y_ptr + row * D + cols, y, mask=mask)  # rounded to y's dtype here, once
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    ### END SOLUTION


def layer_norm_forward(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Layer norm over the last dimension in one kernel, with what its backward pass needs.

    Args:
        x: (..., D), D >= 1, any rank >= 1, float32, float16 or bfloat16, any strides, with any number
            of rows: none, or more than 65,536 (so rows are on the first axis of the grid). Its last
            number may be more than 2**31 numbers away from its first. Is not modified.
        weight: (D,), contiguous, any of the three dtypes, or None: not scaled.
        bias: (D,), contiguous, any of the three dtypes, or None: not shifted.
        eps: added to the variance, inside the square root.

    Returns:
        y: (..., D), with the dtype of x.
        mean: (...), float32, the mean of each row.
        rstd: (...), float32, 1 / sqrt(variance + eps) of each row.

    The variance is the biased one (divide by D), taken from deviations from the mean. Everything is
    computed in float32; y is rounded to its dtype once, when it is stored. The kernel reads each
    number of x once and writes each number of y once.
    """
    rows = as_rows(x)
    M, D = rows.shape
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    mean = torch.empty(x.shape[:-1], dtype=torch.float32, device=x.device)
    rstd = torch.empty(x.shape[:-1], dtype=torch.float32, device=x.device)
    ### BEGIN SOLUTION
    block = triton.next_power_of_2(D)
    _layer_norm_forward_kernel[(M,)](
        rows, weight, bias, y, mean, rstd, rows.stride(0), D, eps, BLOCK=block
    )
    ### END SOLUTION
    return y, mean, rstd


# %% [markdown]
# **Check exercise 2.** It does not need exercise 1.

# %% tags=["active-ipynb"] nbgrader={"grade_id": "test_layer_norm_forward", "points": 8}
# def check_layer_norm_forward():
#     # One vector whose mean is 0 and whose variance is 1, with eps = 3: divided by sqrt(1 + 3) = 2.
#     x = torch.tensor([[-1.0, 1.0]], device=DEVICE)
#     y, mean, rstd = layer_norm_forward(x, None, None, 3.0)
#     assert torch.allclose(y.cpu(), torch.tensor([[-0.5, 0.5]])), (
#         f"layer_norm_forward([[-1, 1]]) with eps=3 must give [[-0.5, 0.5]], got {y.cpu()}. "
#         "Is the variance divided by D, not D - 1? Is eps inside the square root?"
#     )
#     assert (mean.tolist(), rstd.tolist()) == ([0.0], [0.5]), (
#         f"its mean is 0 and its rstd 1 / sqrt(1 + 3) = 0.5, got {mean.tolist()}, {rstd.tolist()}"
#     )
#
#     # Three numbers and a mean of 20: the fourth lane of the block must not be noticed.
#     x = torch.tensor([[10.0, 20.0, 30.0]], device=DEVICE)
#     y, mean, rstd = layer_norm_forward(x, None, None, 1e-5)
#     want = torch.tensor([[-1.2247, 0.0, 1.2247]])
#     assert torch.allclose(mean.cpu(), torch.tensor([20.0])), (
#         f"the mean of 10, 20, 30 is 20, got {mean.tolist()}. Is the sum divided by D, not by BLOCK?"
#     )
#     assert torch.allclose(y.cpu(), want, atol=1e-3), (
#         f"for 10, 20, 30 y must be {want}, got {y.cpu()}. Do the lanes beyond D add "
#         "their squares to the variance?"
#     )
#
#     # Against torch, with weight and bias, one of them, and none.
#     x = 5 + torch.randn(2, 3, 6, device=DEVICE)
#     weight, bias = 1 + torch.rand(6, device=DEVICE), torch.randn(6, device=DEVICE)
#     before = x.clone()
#     for w, b in ((weight, bias), (weight, None), (None, bias), (None, None)):
#         y, mean, rstd = layer_norm_forward(x, w, b, 1e-5)
#         assert torch.equal(x, before), "layer_norm_forward changed its input x"
#         want = torch.nn.functional.layer_norm(x, (6,), w, b, eps=1e-5)
#         given = [name for name, t in (("weight", w), ("bias", b)) if t is not None]
#         assert y.shape == x.shape, f"y must have shape (2, 3, 6), got {tuple(y.shape)}"
#         assert torch.allclose(y, want, atol=1e-4), (
#             f"y is wrong where {' and '.join(given) or 'nothing'} is given. It is "
#             "normalized * weight + bias, and what is None is left out"
#         )
#     assert mean.shape == (2, 3), f"there is one mean per row, shape (2, 3), not {mean.shape}"
#
#     # Half precision: neither the sum of these nor a squared deviation fits into float16 (65504).
#     x = torch.tensor([[40000.0, 60000.0]], dtype=torch.float16, device=DEVICE)
#     y, mean, rstd = layer_norm_forward(x, None, None, 1e-5)
#     assert y.dtype == torch.float16, f"x is float16, y must be too, but it is {y.dtype}"
#     assert rstd.dtype == torch.float32, f"rstd must be float32, but it is {rstd.dtype}"
#     assert y.tolist() == [[-1.0, 1.0]], (
#         f"[40000, 60000] in float16 must give [-1, 1], got {y.tolist()}. Is the row float32 before "
#         "it is added up?"
#     )
#
#     # Every other row of a tensor, and a transposed one.
#     x = torch.randn(6, 5, device=DEVICE)
#     for kind, view in (("every other row", x[::2]), ("a transposed tensor", x.t())):
#         y = layer_norm_forward(view, None, None, 1e-5)[0]
#         want = torch.nn.functional.layer_norm(view, view.shape[-1:])
#         assert torch.allclose(y, want, atol=1e-4), (
#             f"y is wrong for {kind}: is the distance between rows x_stride when you load, and D "
#             "when you store?"
#         )
#     print("Exercise 2: the visible checks pass.")
#
#
# check_layer_norm_forward() if HAS_TRITON else print("Exercise 2: not checked, without Triton.")

# %% [markdown]
# ## Exercise 3: layer norm, backward
#
# *9 points, hard, about 75 minutes*
#
# With $\hat g_i = \bar y_i\,w_i$, the gradient that arrives times the weight, and
# $\hat x_i = (x_i-\mu)\,r$:
#
# $$
# \bar x_i = r\,\Bigl(\hat g_i - \frac1D\sum_j \hat g_j
#            - \hat x_i\,\frac1D\sum_j \hat g_j\,\hat x_j\Bigr),
# \qquad \bar w_i = \sum_{\text{rows}} \bar y_i\,\hat x_i,
# \qquad \bar b_i = \sum_{\text{rows}} \bar y_i
# $$
#
# The gradient of `x` is again a matter of one row. Those of `weight` and `bias` are sums over *all*
# rows, and programs run at the same time: if two of them add to the same number, one of the two
# additions may be lost. So work in two stages.
#
# 1. A fixed number of programs, and each takes several rows: program 0 rows 0, P, 2P, ..., program 1
#    rows 1, P + 1, ... Each keeps the sums over *its* rows in registers, in float32, and stores them
#    at the end as one row of a *partial buffer* of shape `(P, D)`. Nobody else writes to that row.
# 2. A sum over the P rows of each partial buffer. Here `.sum(dim=0)` of torch is allowed, on the
#    partial buffers only.
#
# | name | shape | |
# |---|---|---|
# | `grad_out`, `x`, `grad_x` | `(..., D)` | |
# | `mean`, `rstd` | `(...)` | float32, from the forward pass |
# | partial buffers | `(P, D)` | float32, one row per program |
# | `weight`, `grad_weight`, `grad_bias` | `(D,)` | |
#
# <details><summary>Hint 1: how does a program take several rows?</summary>
#
# `for i in range(program, M, tl.num_programs(0)):`, where `program = tl.program_id(0)`, and in the
# loop `row = tl.cast(i, tl.int64)`. Before the loop, `grad_weight = tl.zeros([BLOCK], dtype=tl.float32)`;
# in the loop, `grad_weight += ...`.
#
# </details>
#
# <details><summary>Hint 2: how many programs?</summary>
#
# About as many as the GPU has processors, and never more than rows: `min(M, 128)`. With no rows at
# all there is no program, the partial buffers have no rows, and their sums are 0, as it should be.
#
# </details>
#
# <details><summary>Hint 3: what do the lanes beyond D do?</summary>
#
# They load `grad_out` as 0 and `x` as 0, so `(x - mean) * rstd` is not 0 there. Set it to 0 with
# `tl.where`, or see that it is always multiplied by something that is 0. The last two stores go to
# `partial_weight_ptr + program * D + cols` and `partial_bias_ptr + program * D + cols`. Without a
# weight there is no `grad_weight` to return, but there is `grad_bias`.
#
# </details>
#
# <details><summary>Expected output</summary>
#
# ```python
# x = torch.tensor([[1.0, 2.0, 3.0, 4.0]], device=DEVICE)
# mean, rstd = torch.tensor([2.5], device=DEVICE), torch.tensor([0.8944], device=DEVICE)
# grad_out = torch.tensor([[1.0, 0.0, 0.0, 0.0]], device=DEVICE)
# weight = torch.ones(4, device=DEVICE)
# for grad in layer_norm_backward(grad_out, x, weight, mean, rstd):
#     print(grad.cpu())
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
@triton.jit
def _layer_norm_backward_kernel(
    grad_out_ptr, x_ptr, weight_ptr, mean_ptr, rstd_ptr, grad_x_ptr, partial_weight_ptr,
    partial_bias_ptr, grad_out_stride, x_stride, M, D, BLOCK: tl.constexpr
):  # fmt: skip
    """Each program takes every P-th row: grad_x of these rows, and one row of both partial sums."""
    ### BEGIN SOLUTION
    program = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < D
    grad_weight = tl.zeros([BLOCK], dtype=tl.float32)
    grad_bias = tl.zeros([BLOCK], dtype=tl.float32)
    for i in range(program, M, tl.num_programs(0)):
        row = tl.cast(i, tl.int64)
        g_ptrs = grad_out_ptr + row * grad_out_stride + cols
        g = tl.load(g_ptrs, mask=mask, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + row * x_stride + cols, mask=mask, other=0.0).to(tl.float32)
        mean = tl.load(mean_ptr + row)
        rstd = tl.load(rstd_ptr + row)
        x_hat = tl.where(mask, (x - mean) * rstd, 0.0)

        grad_weight += g * x_hat
        grad_bias += g

        g_hat = g
        if weight_ptr is not None:
            g_hat = g * tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
        mean_g = tl.sum(g_hat, axis=0) / D
        mean_gx = tl.sum(g_hat * x_hat, axis=0) / D
        grad_x = rstd * (g_hat - mean_g - x_hat * mean_gx)
        tl.store(grad_x_ptr + row * D + cols, grad_x, mask=mask)
    tl.store(partial_weight_ptr + program * D + cols, grad_weight, mask=mask)
    tl.store(partial_bias_ptr + program * D + cols, grad_bias, mask=mask)
    ### END SOLUTION


def layer_norm_backward(
    grad_out: Tensor, x: Tensor, weight: Tensor | None, mean: Tensor, rstd: Tensor
) -> tuple[Tensor, Tensor | None, Tensor]:
    """Gradients of layer_norm_forward's y with respect to x, weight and bias.

    Args:
        grad_out: (..., D), gradient of the loss with respect to y; any of the three dtypes, any
            strides, also expanded (stride 0). Is not modified.
        x: (..., D), the input of the forward pass, as described there. Is not modified.
        weight: (D,), contiguous, the scale of the forward pass, or None.
        mean: (...), float32, contiguous, from the forward pass.
        rstd: (...), float32, contiguous, from the forward pass.

    Returns:
        grad_x: (..., D), with the dtype of x.
        grad_weight: (D,), with the dtype of weight; None where weight is None.
        grad_bias: (D,), with the dtype of weight; float32 where weight is None.

    mean and rstd are used as they are, and not computed again. Everything is computed in float32,
    the sums over all rows too: each program writes the sums over its own rows into its own row of a
    partial buffer, and a second stage adds these rows. The kernel reads each number of x and of
    grad_out once, and no number of any tensor is written twice: no atomics, no locks.
    """
    g_rows, rows = as_rows(grad_out), as_rows(x)
    M, D = rows.shape
    grad_x = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    ### BEGIN SOLUTION
    programs = min(M, 128)
    partial_weight = torch.empty(programs, D, dtype=torch.float32, device=x.device)
    partial_bias = torch.empty(programs, D, dtype=torch.float32, device=x.device)
    _layer_norm_backward_kernel[(programs,)](
        g_rows, rows, weight, mean, rstd, grad_x, partial_weight, partial_bias,
        g_rows.stride(0), rows.stride(0), M, D, BLOCK=triton.next_power_of_2(D),
    )  # fmt: skip
    grad_weight, grad_bias = partial_weight.sum(dim=0), partial_bias.sum(dim=0)  # stage two
    if weight is None:
        return grad_x, None, grad_bias
    return grad_x, grad_weight.to(weight.dtype), grad_bias.to(weight.dtype)
    ### END SOLUTION


# %% [markdown]
# **Check exercise 3.** This check asks autograd, through torch's own layer norm, for the right
# gradients. It does not need your exercises 1 and 2. The interpreter runs one program after the
# other, so two programs that add to the same numbers pass here; the hidden tests give nothing for it.

# %% tags=["active-ipynb"] nbgrader={"grade_id": "test_layer_norm_backward", "points": 9}
# def expected_gradients(grad_out, x, weight):
#     """What autograd finds, and the mean and rstd to pass on. x (M, D), all float32."""
#     bias = torch.zeros(x.shape[-1], device=x.device)
#     leaves = [t.detach().clone().requires_grad_() for t in (x, weight, bias)]
#     y = torch.nn.functional.layer_norm(leaves[0], x.shape[-1:], *leaves[1:], eps=0.5)
#     rstd = torch.rsqrt(x.var(-1, correction=0) + 0.5)
#     return torch.autograd.grad(y, leaves, grad_out), x.mean(-1), rstd
#
#
# def check_layer_norm_backward():
#     # More rows than programs that you would start, and a width that is no power of two.
#     x, grad_out = 3 + torch.randn(200, 3, device=DEVICE), 1 + torch.randn(200, 3, device=DEVICE)
#     weight = torch.tensor([0.5, -1.0, 2.0], device=DEVICE)
#     (want_x, want_weight, want_bias), mean, rstd = expected_gradients(grad_out, x, weight)
#     before = grad_out.clone()
#     grads = layer_norm_backward(grad_out, x, weight, mean, rstd)
#     assert isinstance(grads, tuple) and len(grads) == 3, (
#         "layer_norm_backward must return three values: grad_x, grad_weight, grad_bias"
#     )
#     grad_x, grad_weight, grad_bias = grads
#     assert torch.equal(grad_out, before), "layer_norm_backward changed grad_out"
#     assert grad_bias.shape == (3,), f"grad_bias must have shape (3,), got {tuple(grad_bias.shape)}"
#     assert torch.allclose(grad_bias, want_bias, rtol=1e-3, atol=1e-2), (
#         "grad_bias is wrong: it is the sum of grad_out, without the weight, over all rows. Does "
#         "every program take all of its rows, and is every row of the partial buffer written and added?"
#     )
#     assert torch.allclose(grad_weight, want_weight, rtol=1e-3, atol=1e-2), (
#         "grad_weight is wrong: it is the sum of grad_out * x_hat over all rows, without the weight, "
#         "and x_hat is made with the mean and rstd that are passed in"
#     )
#     assert grad_x.sum(dim=-1).abs().max() < 1e-3, (
#         "adding a constant to a row does not change the output, so each row of grad_x must add up "
#         "to 0. Is the mean of grad_out * weight subtracted, and divided by D?"
#     )
#     assert torch.allclose(grad_x, want_x, atol=1e-3), (
#         "grad_x is wrong. Is weight applied before the two means? Is x_hat * mean(g_hat * x_hat) "
#         "subtracted?"
#     )
#
#     # The gradient of a plain sum is one number, expanded.
#     one, x = torch.ones((), device=DEVICE).expand(4, 3), x[:4]
#     (want_x, want_weight, _), mean, rstd = expected_gradients(one, x, weight)
#     grad_x, grad_weight, _ = layer_norm_backward(one, x, weight, mean, rstd)
#     assert torch.allclose(grad_x, want_x, atol=1e-3), (
#         "grad_x is wrong for an expanded grad_out: pass its rows through as_rows, and their stride "
#         "to the kernel"
#     )
#
#     # Two rows, then none, and no weight.
#     grad_x, nothing, grad_bias = layer_norm_backward(grad_out[:2], x[:2], None, mean[:2], rstd[:2])
#     assert nothing is None, "without a weight there is no grad_weight: return None for it"
#     assert torch.allclose(grad_bias, grad_out[:2].sum(0), atol=1e-4), "grad_bias, without a weight"
#     grads = layer_norm_backward(grad_out[:0], x[:0], weight, mean[:0], rstd[:0])
#     assert grads[1].tolist() == [0.0, 0.0, 0.0], (
#         f"the sum over no rows at all is 0, got {grads[1].tolist()}"
#     )
#
#     # bfloat16 keeps 8 binary digits: 256 + 1 is 256.
#     x = torch.tensor([[-1.0, 1.0]], device=DEVICE).bfloat16().expand(4, 2)
#     grad_out = torch.tensor([256.0, 1.0, 1.0, 1.0], device=DEVICE).bfloat16()[:, None].expand(4, 2)
#     mean, rstd = torch.zeros(4, device=DEVICE), torch.ones(4, device=DEVICE)
#     grads = layer_norm_backward(grad_out, x, torch.ones(2, device=DEVICE), mean, rstd)
#     assert grads[0].dtype == torch.bfloat16, f"x is bfloat16, and grad_x is {grads[0].dtype}"
#     assert grads[2].tolist() == [259.0, 259.0], (
#         f"256 + 1 + 1 + 1 is 259, got {grads[2].tolist()}. Are the partial sums float32?"
#     )
#     print("Exercise 3: the visible checks pass.")
#
#
# check_layer_norm_backward() if HAS_TRITON else print("Exercise 3: not checked, without Triton.")

# %% [markdown]
# ## Exercise 4: RMSNorm, forward
#
# *4 points, easy, about 20 minutes*
#
# The norm of most language models subtracts no mean and adds no bias:
#
# $$
# y_i = w_i\,x_i\,r, \qquad r=\Bigl(\frac1D\sum_{j=1}^{D}x_j^2+\varepsilon\Bigr)^{-1/2}
# $$
#
# What is left of the kernel is short.
#
# <details><summary>Hint 1: what can be left out?</summary>
#
# Everything about the mean and the bias. The lanes beyond `D` are 0, and their squares are too.
#
# </details>
#
# <details><summary>Hint 2: is BLOCK or D the number of numbers?</summary>
#
# `D`. The mean of the squares is `tl.sum(x * x, axis=0) / D`.
#
# </details>
#
# <details><summary>Hint 3: why is y not made by torch.empty_like(x)?</summary>
#
# For a transposed `x` that gives a transposed tensor, whose rows do not lie end to end. The kernel
# stores at `row * D + cols`, which is right for `torch.empty(x.shape, ...)`, and only for that.
#
# </details>
#
# <details><summary>Expected output</summary>
#
# ```python
# x = torch.tensor([[3.0, 4.0], [30.0, 40.0]], device=DEVICE)
# for result in rms_norm_forward(x, None, 1e-6):
#     print(result.cpu())
# ```
#
# prints
#
# ```
# tensor([[0.8485, 1.1314],
#         [0.8485, 1.1314]])
# tensor([0.2828, 0.0283])
# ```
#
# </details>


# %% nbgrader={"grade_id": "rms_norm_forward", "solution": true}
@triton.jit
def _rms_norm_forward_kernel(
    x_ptr, weight_ptr, y_ptr, rstd_ptr, x_stride, D, eps, BLOCK: tl.constexpr
):
    """One program per row: y and rstd of its row. weight_ptr may be None."""
    ### BEGIN SOLUTION
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < D
    x = tl.load(x_ptr + row * x_stride + cols, mask=mask, other=0.0).to(tl.float32)

    mean_square = tl.sum(x * x, axis=0) / D
    rstd = tl.rsqrt(mean_square + eps)

    y = x * rstd
    if weight_ptr is not None:
        y = y * tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * D + cols, y, mask=mask)
    tl.store(rstd_ptr + row, rstd)
    ### END SOLUTION


def rms_norm_forward(x: Tensor, weight: Tensor | None, eps: float) -> tuple[Tensor, Tensor]:
    """RMSNorm over the last dimension in one kernel, with what its backward pass needs.

    Args:
        x: (..., D), as in layer_norm_forward: any rank, strides and number of rows, three dtypes. Is
            not modified.
        weight: (D,), contiguous, any of the three dtypes, or None: not scaled.
        eps: added to the mean square, inside the square root.

    Returns:
        y: (..., D), with the dtype of x: x * rstd * weight.
        rstd: (...), float32, 1 / sqrt(mean square + eps) of each row.

    Everything is computed in float32, and y is rounded to its dtype once, when it is stored. The
    kernel reads each number of x once and writes each number of y once.
    """
    rows = as_rows(x)
    M, D = rows.shape
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    rstd = torch.empty(x.shape[:-1], dtype=torch.float32, device=x.device)
    ### BEGIN SOLUTION
    block = triton.next_power_of_2(D)
    _rms_norm_forward_kernel[(M,)](rows, weight, y, rstd, rows.stride(0), D, eps, BLOCK=block)
    ### END SOLUTION
    return y, rstd


# %% [markdown]
# **Check exercise 4.**

# %% tags=["active-ipynb"] nbgrader={"grade_id": "test_rms_norm_forward", "points": 4}
# def check_rms_norm_forward():
#     # The mean square of (1, 7) is 25, plus eps = 11 gives 36: each number is divided by 6.
#     x = torch.tensor([[1.0, 7.0]], device=DEVICE)
#     results = rms_norm_forward(x, None, 11.0)
#     assert isinstance(results, tuple) and len(results) == 2, (
#         "rms_norm_forward must return two tensors: y, rstd"
#     )
#     y, rstd = results
#     assert torch.allclose(rstd.cpu(), torch.tensor([1 / 6])), (
#         f"rstd of (1, 7) with eps=11 is 1 / sqrt(25 + 11), got {rstd.tolist()}. Is it the mean "
#         "of the squares, without subtracting a mean, with eps inside the root?"
#     )
#     assert torch.allclose(y.cpu(), torch.tensor([[1 / 6, 7 / 6]])), (
#         f"(1, 7) with eps=11 must become (1/6, 7/6), got {y.tolist()}"
#     )
#
#     # Against torch, for three dimensions, a width that is no power of two and a transposed x.
#     weight = 1 + torch.rand(5, device=DEVICE)
#     x = 2 + torch.randn(2, 3, 5, device=DEVICE)
#     for kind, view in (("three dimensions", x), ("a transposed x", x[0].t().contiguous().t())):
#         y, rstd = rms_norm_forward(view, weight, 1e-6)
#         want = torch.nn.functional.rms_norm(view, (5,), weight, eps=1e-6)
#         assert y.shape == view.shape, f"y must have the shape of x, got {tuple(y.shape)}"
#         assert rstd.shape == view.shape[:-1], f"one rstd per row, not shape {tuple(rstd.shape)}"
#         assert torch.allclose(y, want, atol=1e-4), (
#             f"y is wrong for {kind}. Is the sum of the squares divided by D? Is y multiplied by "
#             "weight, and stored row by row?"
#         )
#
#     # Half precision: 600 squared is 360000, more than float16 can hold (65504).
#     x = torch.tensor([[-600.0, 600.0]], dtype=torch.float16, device=DEVICE)
#     y, rstd = rms_norm_forward(x, None, 1e-6)
#     assert y.dtype == torch.float16, f"x is float16, y must be too, but it is {y.dtype}"
#     assert y.tolist() == [[-1.0, 1.0]], (
#         f"[-600, 600] in float16 must give [-1, 1], got {y.tolist()}. Is it computed in float32?"
#     )
#     print("Exercise 4: the visible checks pass.")
#
#
# check_rms_norm_forward() if HAS_TRITON else print("Exercise 4: not checked, without Triton.")

# %% [markdown]
# ## Exercise 5: add, then norm
#
# *5 points, medium, about 30 minutes*
#
# In a Pre-LN block each norm comes right after a residual addition. Both are memory-bound, and the
# sum is in registers anyway: one kernel reads `x` and `residual`, and writes `s`, the new residual
# stream, and `y`, its normalized copy.
#
# One question has two answers. In bfloat16, `s` is rounded when it is stored. Do the mean and the
# variance see the sum before or after that rounding? Here, as in the kernels of FlashAttention and
# QuACK, they see the sum *before*, in float32. It is more exact, and it costs nothing.
#
# | name | shape | |
# |---|---|---|
# | `x`, `residual`, `s`, `y` | `(..., D)` | same dtype |
# | `weight`, `bias` | `(D,)` | or `None` |
# | `mean`, `rstd` | `(...)` | float32, one number per row |
#
# <details><summary>Hint 1: how to begin?</summary>
#
# Copy the kernel of exercise 2. Load a second row, from `residual`, with a stride of its own.
#
# </details>
#
# <details><summary>Hint 2: where is s rounded?</summary>
#
# Only in `tl.store`. The block `s = x + residual`, both float32, goes on as it is into the mean.
#
# </details>
#
# <details><summary>Hint 3: may s be written over x or residual?</summary>
#
# Not here: neither input is changed. `s` and `y` are two new tensors. Real kernels often do write
# over the old residual stream, to save memory; then the backward pass has to know.
#
# </details>
#
# <details><summary>Expected output</summary>
#
# ```python
# x = torch.tensor([[1.0, 1.0, 1.0, 1.0]], device=DEVICE)
# residual = torch.tensor([[0.0, 1.0, 2.0, 3.0]], device=DEVICE)
# for result in add_layer_norm(x, residual, None, None, 1e-5):
#     print(result.cpu())
# ```
#
# prints
#
# ```
# tensor([[-1.3416, -0.4472,  0.4472,  1.3416]])
# tensor([[1., 2., 3., 4.]])
# tensor([2.5000])
# tensor([0.8944])
# ```
#
# </details>


# %% nbgrader={"grade_id": "add_layer_norm", "solution": true}
@triton.jit
def _add_layer_norm_kernel(
    x_ptr, residual_ptr, weight_ptr, bias_ptr, y_ptr, s_ptr, mean_ptr, rstd_ptr,
    x_stride, residual_stride, D, eps, BLOCK: tl.constexpr
):  # fmt: skip
    """One program per row: the sum of both rows, and y, mean and rstd of that sum."""
    ### BEGIN SOLUTION
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < D
    x = tl.load(x_ptr + row * x_stride + cols, mask=mask, other=0.0).to(tl.float32)
    r_ptrs = residual_ptr + row * residual_stride + cols
    residual = tl.load(r_ptrs, mask=mask, other=0.0).to(tl.float32)
    s = x + residual
    tl.store(s_ptr + row * D + cols, s, mask=mask)  # rounded in memory, not in the register

    mean = tl.sum(s, axis=0) / D
    centered = tl.where(mask, s - mean, 0.0)
    var = tl.sum(centered * centered, axis=0) / D
    rstd = tl.rsqrt(var + eps)

    y = centered * rstd
    if weight_ptr is not None:
        y = y * tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    if bias_ptr is not None:
        y = y + tl.load(bias_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * D + cols, y, mask=mask)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    ### END SOLUTION


def add_layer_norm(
    x: Tensor, residual: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Add x to the residual stream and normalize the sum, in one kernel.

    Args:
        x: (..., D), as in layer_norm_forward: any rank, strides and number of rows, three dtypes. Is
            not modified.
        residual: (..., D), the shape and dtype of x, its own strides. Is not modified.
        weight: (D,), contiguous, any of the three dtypes, or None: not scaled.
        bias: (D,), contiguous, any of the three dtypes, or None: not shifted.
        eps: added to the variance, inside the square root.

    Returns:
        y: (..., D), layer norm of the sum, with the dtype of x.
        s: (..., D), x + residual, with the dtype of x: the new residual stream.
        mean: (...), float32, of each row of the sum.
        rstd: (...), float32, 1 / sqrt(variance + eps) of each row of the sum.

    Everything is computed in float32: y, mean and rstd are those of the float32 sum, before s is
    rounded to its dtype. The kernel reads each number of x and of residual once, and writes each
    number of s and of y once.
    """
    x_rows, r_rows = as_rows(x), as_rows(residual)
    M, D = x_rows.shape
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    s = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    mean = torch.empty(x.shape[:-1], dtype=torch.float32, device=x.device)
    rstd = torch.empty(x.shape[:-1], dtype=torch.float32, device=x.device)
    ### BEGIN SOLUTION
    _add_layer_norm_kernel[(M,)](
        x_rows, r_rows, weight, bias, y, s, mean, rstd,
        x_rows.stride(0), r_rows.stride(0), D, eps, BLOCK=triton.next_power_of_2(D),
    )  # fmt: skip
    ### END SOLUTION
    return y, s, mean, rstd


# %% [markdown]
# **Check exercise 5.**

# %% tags=["active-ipynb"] nbgrader={"grade_id": "test_add_layer_norm", "points": 5}
# def check_add_layer_norm():
#     x = torch.tensor([[-2.0, 2.0]], device=DEVICE)
#     residual = torch.tensor([[11.0, 9.0]], device=DEVICE)
#     results = add_layer_norm(x, residual, None, None, 3.0)
#     assert isinstance(results, tuple) and len(results) == 4, (
#         "add_layer_norm must return four tensors: y, s, mean, rstd"
#     )
#     y, s, mean, rstd = results
#     assert s.tolist() == [[9.0, 11.0]], f"s is x + residual, (9, 11), got {s.tolist()}"
#     assert (mean.tolist(), rstd.tolist()) == ([10.0], [0.5]), (
#         "mean and rstd are those of the sum (9, 11): 10 and, with eps=3, 1 / sqrt(1 + 3), got "
#         f"{mean.tolist()}, {rstd.tolist()}"
#     )
#     assert y.tolist() == [[-0.5, 0.5]], f"y must be (-0.5, 0.5), got {y.tolist()}"
#
#     # Against torch, for a width that is no power of two, and rows with strides of their own.
#     x, residual = torch.randn(4, 5, device=DEVICE), torch.randn(4, 10, device=DEVICE)[:, :5]
#     weight, bias = 1 + torch.rand(5, device=DEVICE), torch.randn(5, device=DEVICE)
#     before = x.clone(), residual.clone()
#     for w, b in ((weight, bias), (weight, None), (None, bias)):
#         y, s, mean, rstd = add_layer_norm(x, residual, w, b, 1e-5)
#         assert torch.equal(x, before[0]), "add_layer_norm changed x"
#         assert torch.equal(residual, before[1]), "add_layer_norm changed residual"
#         want = torch.nn.functional.layer_norm(x + residual, (5,), w, b, eps=1e-5)
#         assert torch.equal(s, x + residual), "s is wrong: has residual a stride of its own?"
#         assert torch.allclose(y, want, atol=1e-4), (
#             "y is wrong: it is the layer norm of x + residual, where the lanes beyond D do not count "
#             "and what is None is left out"
#         )
#
#     # bfloat16 steps by 2 at 256: s rounds 256 + 1 to 256. The mean must not.
#     x = torch.tensor([[1.0, 1.0]], device=DEVICE).bfloat16()
#     residual = torch.tensor([[256.0, 512.0]], device=DEVICE).bfloat16()
#     y, s, mean, rstd = add_layer_norm(x, residual, None, None, 1e-5)
#     assert s.tolist() == [[256.0, 512.0]], (
#         f"in bfloat16 s is (256, 512), got {s.tolist()}. Are both rows float32 before they are added?"
#     )
#     assert mean.tolist() == [385.0], (
#         f"the mean of 257 and 513 is 385, got {mean.tolist()}. Do the statistics see the sum "
#         "before it is rounded?"
#     )
#     print("Exercise 5: the visible checks pass.")
#
#
# check_add_layer_norm() if HAS_TRITON else print("Exercise 5: not checked, without Triton.")

# %% [markdown]
# ## Question 1: who waits for what?
#
# *3 points, in words and numbers, about 15 minutes*
#
# `x` has M rows of D numbers in bfloat16, and D is large. Somebody computes RMSNorm by three
# operations of torch, each a kernel of its own: `r = rsqrt(mean(x * x) + eps)` as one kernel that
# reads `x`; then `z = x * r`; then `y = z * weight`.
#
# 1. Count the bytes of large tensors that these three kernels read and write, and those of your
#    kernel from exercise 4. How much faster can yours be, if memory is all that counts?
# 2. For the gradient of `weight`, a friend proposes one buffer of shape `(D,)` to which every program
#    adds each of its rows under a lock, and another friend one to which they add by atomic additions.
#    Both give right sums on a GPU. Why are they slower than partial buffers? And what, besides time,
#    is lost?
#
# Write your answer into the next cell, in place of its text. Nothing runs it, and a person reads it.

# %% [markdown] nbgrader={"grade_id": "written_bytes", "written": true, "points": 3}
# ### BEGIN SOLUTION
# **A model answer.** 1. One large tensor has 2MD bytes. The first kernel reads `x`: one. The second
# reads `x` and writes `z`: two. The third reads `z` and writes `y`: two. Together five, 10MD bytes.
# The fused kernel reads `x` and writes `y`: two, 4MD bytes. `r` and `weight` are small. So it can be
# 2.5 times as fast.
#
# 2. All programs add to the same D numbers. With a lock only one program at a time may do so, and
# the others wait: the additions happen one after the other, M times, however many processors there
# are. Atomics let each address be updated on its own, but updates of one address still queue, and
# each of the M rows sends D of them to memory: M times D numbers travel, where partial buffers write
# P times D with P much smaller than M. Besides, the order of the additions changes from run to run,
# and float32 sums depend on the order: results can no longer be repeated bit by bit.
#
# **Marking guide.**
#
# - 1 point: 5 against 2 large tensors (10MD and 4MD bytes), so 2.5 times. Accept counts that also
#   include `r` and `weight`. Half a point for right counts of one of the two.
# - 1 point: the additions to one address wait for each other (or: are serialized, contention), and a
#   partial buffer gives each program its own place, or far fewer writes.
# - 1 point: the order is not fixed, so results differ from run to run. Accept, for locks: a mistake
#   in the memory order (released before the stores have arrived) gives wrong sums now and then.
# ### END SOLUTION

# %% [markdown]
# ## Before you hand in
#
# - Restart the kernel and run all cells (*Kernel > Restart Kernel and Run All Cells*). Cells that
#   were run in another order can hide a mistake.
# - All five check cells print that their checks pass. The hidden tests go further: read the
#   docstrings once more and try shapes, dtypes and strides that the checks do not use.
# - Each function launches a kernel, and nothing outside of kernels computes with tensors.
# - The written question has an answer in its own cell.
# - The functions still have their names and arguments. An exercise you leave out costs only its own
#   points.
# - Save, and hand in `triton_kernels.ipynb`.
