# %% [markdown]
# # Pre-LN, Post-LN and the rest
#
# One Transformer block has two sublayers, two additions and two norms. In this notebook you put the
# norms where the Transformer of 2017 had them and where most models have them now, measure how large
# the gradients are in each layer of a stack, and write three cures for what goes wrong: warm-up,
# DeepNorm's constants and QK-norm. The chapter *Pre-LN, Post-LN and the rest* of the course book
# explains every idea used here; keep its page `placement.html` open beside this notebook (its text
# is also in [book/placement.md](../../book/placement.md)).
#
# | exercise | you write | points | difficulty | time |
# |---|---|---|---|---|
# | 1 | `PostLNBlock(d_model, n_heads, d_ff)` | 5 | easy | 15 min |
# | 2 | `PreLNBlock(d_model, n_heads, d_ff)` | 5 | easy | 10 min |
# | 3 | `gradient_norms(blocks, x)` | 6 | medium | 20 min |
# | 4 | `warmup_lr(step, d_model, warmup)` | 3 | easy | 10 min |
# | 5 | `deepnorm_constants(n_layers)` | 2 | easy | 5 min |
# | 6 | `QKNormAttention(d_model, n_heads)` | 7 | medium | 30 min |
#
# One written question at the end is worth 3 points. A person grades it.
#
# **How to work.** Replace `raise NotImplementedError()` with your code and run the cell with
# Shift+Enter. Then run the check cell below it. A check that fails says what it saw and what to
# look at. Stuck? Open the hints one at a time. Add as many cells of your own as you like.
#
# **What is graded.** Hidden tests run your functions and modules on other sizes, weights and
# inputs. Passing the visible checks is a good sign, but **it is not the same as passing the hidden
# tests**. The docstring of each exercise is the full specification.
#
# **Rules.** This time ready-made norms are allowed: `nn.LayerNorm` and `nn.RMSNorm` are parts, and
# where they go is the exercise. Do not use torch's ready-made Transformer layers. Cells of your own
# may call them, to compare. Where one of your functions reaches them during a hidden test, that
# test fails. Keep the names and the arguments, and the names of the parts that each docstring
# lists: the hidden tests load weights by them.
#
# **How to hand in.** Save the notebook and hand in this one file, `placement.ipynb`, without
# renaming it.

# %%
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

# %% [markdown]
# ## Given: attention
#
# The blocks need attention, and attention is not what this notebook is about. Here is one that is
# ready. Run the cell and use it; leave it as it is.


# %% nbgrader={"grade_id": "given_attention"}
class MultiHeadAttention(nn.Module):
    """Self-attention: each token looks at all tokens of its sequence. (B, L, D) to (B, L, D)."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.q_proj = nn.Linear(d_model, d_model)
        self.k_proj = nn.Linear(d_model, d_model)
        self.v_proj = nn.Linear(d_model, d_model)
        self.out_proj = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            proj(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)  # (B, H, L, D/H)
            for proj in (self.q_proj, self.k_proj, self.v_proj)
        )
        y = F.scaled_dot_product_attention(q, k, v)  # (B, H, L, D/H)
        return self.out_proj(y.transpose(1, 2).flatten(2))


# %% [markdown]
# ## Exercise 1: the block of 2017
#
# *5 points, easy, about 15 minutes*
#
# The first Transformer adds what a sublayer computes to the sublayer's input, and normalizes the
# sum: *add and norm*. This is **Post-LN**: the norm stands on the road itself, after the addition.
#
# $$
# h = \mathrm{norm}_1\bigl(x + \mathrm{attention}(x)\bigr)
# \qquad
# y = \mathrm{norm}_2\bigl(h + \mathrm{feed\_forward}(h)\bigr)
# $$
#
# The feed-forward net treats each token alone: a linear layer from `d_model` to `d_ff` features,
# ReLU, a linear layer back.
#
# | part | what | shapes |
# |---|---|---|
# | `x` and the result | the stream of tokens | `(B, L, d_model)` |
# | `attention` | `MultiHeadAttention(d_model, n_heads)` | `(B, L, d_model)` to the same |
# | `norm1`, `norm2` | `nn.LayerNorm(d_model)` | each token by itself |
# | `linear1` | `nn.Linear(d_model, d_ff)` | `(B, L, d_model)` to `(B, L, d_ff)` |
# | `linear2` | `nn.Linear(d_ff, d_model)` | back |
#
# <details><summary>Hint 1: what belongs in the constructor?</summary>
#
# The five parts of the table, each under its name: `self.norm1 = nn.LayerNorm(d_model)` and so on.
#
# </details>
#
# <details><summary>Hint 2: what does the feed-forward net read, and what is it added to?</summary>
#
# The same thing twice: `h`, the result of the first norm. Not `x`.
#
# </details>
#
# <details><summary>Hint 3: how do I check the order of norm and addition?</summary>
#
# Set `linear2` and `attention.out_proj` to zero. Both sublayers then write zeros, and what is left
# of the block is `norm2(norm1(x))`. Every token that leaves has mean 0 and variance 1.
#
# </details>
#
# <details><summary>Expected output</summary>
#
# ```python
# block = PostLNBlock(4, 2, 8)
# for linear in (block.attention.out_proj, block.linear2):
#     nn.init.zeros_(linear.weight)
#     nn.init.zeros_(linear.bias)
# x = torch.tensor([[[1.0, 3.0, 5.0, 7.0], [10.0, 30.0, 50.0, 70.0]]])
# print(block(x).detach())
# ```
#
# prints
#
# ```
# tensor([[[-1.3416, -0.4472,  0.4472,  1.3416],
#          [-1.3416, -0.4472,  0.4472,  1.3416]]])
# ```
#
# The second token is ten times the first; after the block they are the same. Post-LN keeps nothing
# of a token's length.
#
# </details>


# %% nbgrader={"grade_id": "PostLNBlock", "solution": true}
class PostLNBlock(nn.Module):
    """One encoder block with the norm after each addition, as in the Transformer of 2017.

    Parts, under these names: attention (MultiHeadAttention), norm1, norm2 (nn.LayerNorm with its
    own defaults), linear1, linear2 (nn.Linear). Nothing else is registered.

    Args (forward):
        x: (B, L, d_model). Is not modified.

    Returns (forward):
        (B, L, d_model): norm2(h + linear2(relu(linear1(h)))) with h = norm1(x + attention(x)).

    No dropout, no mask. Training and evaluation are the same.
    """

    def __init__(self, d_model: int, n_heads: int, d_ff: int) -> None:
        super().__init__()
        ### BEGIN SOLUTION
        self.attention = MultiHeadAttention(d_model, n_heads)
        self.norm1 = nn.LayerNorm(d_model)
        self.linear1 = nn.Linear(d_model, d_ff)
        self.linear2 = nn.Linear(d_ff, d_model)
        self.norm2 = nn.LayerNorm(d_model)
        ### END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        h = self.norm1(x + self.attention(x))
        return self.norm2(h + self.linear2(torch.relu(self.linear1(h))))
        ### END SOLUTION


# %% [markdown]
# **Check exercise 1.** Run the next cell. No error means that all visible checks passed.

# %% tags=["active-ipynb"] nbgrader={"grade_id": "test_PostLNBlock", "points": 5}
# def zeroed(block):
#     """Both sublayers write zeros; norms with weights that can be told apart."""
#     with torch.no_grad():
#         for linear in (block.attention.out_proj, block.linear2):
#             linear.weight.zero_()
#             linear.bias.zero_()
#         block.norm1.weight.copy_(torch.tensor([1.0, 2.0, 3.0, 4.0]))
#         block.norm1.bias.copy_(torch.tensor([0.0, 0.0, 0.0, 1.0]))
#         block.norm2.weight.copy_(torch.tensor([2.0, 2.0, 1.0, 1.0]))
#     return block
#
# block = PostLNBlock(4, 2, 8)
# names = {name.partition(".")[0] for name in block.state_dict()}
# want = {"attention", "norm1", "norm2", "linear1", "linear2"}
# assert names == want, f"the parts must be called {sorted(want)}, but they are {sorted(names)}"
# assert block.linear1.weight.shape == (8, 4), "linear1 must go from d_model to d_ff features"
# assert block.linear2.weight.shape == (4, 8), "linear2 must go from d_ff back to d_model features"
#
# x = 3 + 2 * torch.randn(2, 5, 4)
# before = x.clone()
# y = block(x)
# assert y is not None, "forward returned None: does it end with a return statement?"
# assert y.shape == x.shape, f"the result must have the shape of x, got {tuple(y.shape)}"
# assert torch.equal(x, before), "the block changed its input: avoid in-place operations on x"
# assert y.mean(-1).abs().max() < 1e-4 and (y.var(-1, correction=0) - 1).abs().max() < 1e-2, (
#     "a fresh Post-LN block ends with a norm, so every token must have mean 0 and variance 1. "
#     "Is the norm applied after the addition?"
# )
# zeroed(block)
# assert torch.allclose(block(x), block.norm2(block.norm1(x)), atol=1e-5), (
#     "when both sublayers write zeros, the block must be norm2(norm1(x)). "
#     "Is each sublayer's input added to its output? Is each norm used once, after its addition?"
# )
# # Now let both sublayers speak.
# block = PostLNBlock(4, 2, 8)
# nn.init.normal_(block.norm1.weight)
# h = block.norm1(x + block.attention(x))
# want = block.norm2(h + block.linear2(block.linear1(h).clamp(min=0)))
# assert torch.allclose(block(x), want, atol=1e-5), (
#     "the result must be norm2(h + linear2(relu(linear1(h)))) with h = norm1(x + attention(x)). "
#     "Does the feed-forward net read h, is it added to h, is there a ReLU?"
# )
# print("Exercise 1: the visible checks pass.")

# %% [markdown]
# ## Exercise 2: the block most models use
#
# *5 points, easy, about 10 minutes*
#
# Move each norm off the road and onto the ramp: a sublayer reads a **normalized copy** of the
# stream, and what it computes is added to the stream itself, which no norm touches. This is
# **Pre-LN**.
#
# $$
# h = x + \mathrm{attention}\bigl(\mathrm{norm}_1(x)\bigr)
# \qquad
# y = h + \mathrm{feed\_forward}\bigl(\mathrm{norm}_2(h)\bigr)
# $$
#
# The parts, their names and their shapes are those of exercise 1. A model of such blocks needs one
# more norm after the last block, before the output layer; it is not part of the block.
#
# <details><summary>Hint 1: where does the path from x to the result cross a norm?</summary>
#
# Nowhere. If you draw it, there is a straight line from `x` to `y` with two additions on it.
#
# </details>
#
# <details><summary>Hint 2: what is added to the attention's output?</summary>
#
# `x`, not `norm1(x)`.
#
# </details>
#
# <details><summary>Hint 3: how do I check it?</summary>
#
# Set `linear2` and `attention.out_proj` to zero, weights and biases. Then the block must return
# exactly `x`.
#
# </details>
#
# <details><summary>Expected output</summary>
#
# ```python
# block = PreLNBlock(4, 2, 8)
# for linear in (block.attention.out_proj, block.linear2):
#     nn.init.zeros_(linear.weight)
#     nn.init.zeros_(linear.bias)
# x = torch.tensor([[[1.0, 3.0, 5.0, 7.0], [10.0, 30.0, 50.0, 70.0]]])
# print(block(x).detach())
# ```
#
# prints
#
# ```
# tensor([[[ 1.,  3.,  5.,  7.],
#          [10., 30., 50., 70.]]])
# ```
#
# </details>


# %% nbgrader={"grade_id": "PreLNBlock", "solution": true}
class PreLNBlock(nn.Module):
    """One encoder block with the norm at the entrance of each sublayer.

    Parts, under these names: attention (MultiHeadAttention), norm1, norm2 (nn.LayerNorm with its
    own defaults), linear1, linear2 (nn.Linear). Nothing else is registered.

    Args (forward):
        x: (B, L, d_model). Is not modified.

    Returns (forward):
        (B, L, d_model): h + linear2(relu(linear1(norm2(h)))) with h = x + attention(norm1(x)).

    No final norm, no dropout, no mask. Training and evaluation are the same.
    """

    def __init__(self, d_model: int, n_heads: int, d_ff: int) -> None:
        super().__init__()
        ### BEGIN SOLUTION
        self.attention = MultiHeadAttention(d_model, n_heads)
        self.norm1 = nn.LayerNorm(d_model)
        self.linear1 = nn.Linear(d_model, d_ff)
        self.linear2 = nn.Linear(d_ff, d_model)
        self.norm2 = nn.LayerNorm(d_model)
        ### END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        h = x + self.attention(self.norm1(x))
        return h + self.linear2(torch.relu(self.linear1(self.norm2(h))))
        ### END SOLUTION


# %% [markdown]
# **Check exercise 2.** This check does not need exercise 1.

# %% tags=["active-ipynb"] nbgrader={"grade_id": "test_PreLNBlock", "points": 5}
# block = PreLNBlock(4, 2, 8)
# names = {name.partition(".")[0] for name in block.state_dict()}
# want = {"attention", "norm1", "norm2", "linear1", "linear2"}
# assert names == want, f"the parts must be called {sorted(want)}, but they are {sorted(names)}"
# x = 3 + 2 * torch.randn(2, 5, 4)
# before = x.clone()
# y = block(x)
# assert y is not None, "forward returned None: does it end with a return statement?"
# assert y.shape == x.shape, f"the result must have the shape of x, got {tuple(y.shape)}"
# assert torch.equal(x, before), "the block changed its input: avoid in-place operations on x"
# nn.init.normal_(block.norm1.weight)
# nn.init.normal_(block.norm2.weight)
# h = x + block.attention(block.norm1(x))
# want = h + block.linear2(block.linear1(block.norm2(h)).clamp(min=0))
# assert torch.allclose(block(x), want, atol=1e-5), (
#     "the result must be h + linear2(relu(linear1(norm2(h)))) with h = x + attention(norm1(x)). "
#     "Is the stream itself added, not its normalized copy? Does each sublayer read its own norm?"
# )
# with torch.no_grad():
#     for linear in (block.attention.out_proj, block.linear2):
#         linear.weight.zero_()
#         linear.bias.zero_()
# assert torch.equal(block(x), x), (
#     "when both sublayers write zeros, the block must return x as it is: "
#     "is there a norm on the way from x to the result?"
# )
# print("Exercise 2: the visible checks pass.")

# %% [markdown]
# ## Exercise 3: how large is the gradient in each layer?
#
# *6 points, medium, about 20 minutes*
#
# The picture that explains Post-LN and Pre-LN is a curve: one number for each block, the length of
# the gradient of all its parameters. For a gradient you need a loss. Take the simplest one a model
# of language has: the features of the last block's output are the **logits** of `D` classes, the
# right class of every token is **class 0**, and the loss is the mean cross-entropy over all tokens.
#
# $$
# \mathrm{norm}_i = \sqrt{\sum_{p\,\in\,\mathrm{block}_i}\ \sum_j
# \left(\frac{\partial\,\mathrm{loss}}{\partial p_j}\right)^{\!2}}
# $$
#
# | name | what | shape |
# |---|---|---|
# | `blocks` | modules; the output of each is the input of the next | |
# | `x` | input of the first block | `(..., D)`, for example `(B, L, D)` |
# | result | one number for each block, in the order of `blocks` | a list of floats |
#
# <details><summary>Hint 1: the loss</summary>
#
# `F.cross_entropy` wants logits `(N, D)` and classes `(N,)`. `y.flatten(0, -2)` makes one row for
# each token; `torch.zeros(n, dtype=torch.long)` are the classes.
#
# </details>
#
# <details><summary>Hint 2: gradients that leave nothing behind</summary>
#
# `loss.backward()` *adds* to every parameter's `.grad`, so a second call sees the first one's
# gradients too. `torch.autograd.grad(loss, parameters)` returns them instead, and leaves nothing.
# With `retain_graph=True` you may call it once for each block.
#
# </details>
#
# <details><summary>Hint 3: blocks without gradients</summary>
#
# A block may have no parameters (its number is 0.0), frozen ones (`requires_grad` is false: leave
# them out), or a parameter that the output does not depend on. `allow_unused=True` gives None for
# the last kind; count it as 0.
#
# </details>
#
# <details><summary>Expected output</summary>
#
# ```python
# blocks = [nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3)]
# for linear in (blocks[0], blocks[2]):
#     nn.init.eye_(linear.weight)
#     nn.init.zeros_(linear.bias)
# x = torch.tensor([[1.0, 2.0, 3.0], [3.0, 0.0, 1.0]])
# print([round(norm, 4) for norm in gradient_norms(blocks, x)])
# ```
#
# prints
#
# ```
# [2.4198, 0.0, 2.4283]
# ```
#
# </details>


# %% nbgrader={"grade_id": "gradient_norms", "solution": true}
def gradient_norms(blocks: Sequence[nn.Module], x: Tensor) -> list[float]:
    """The length of the loss's gradient in each block, for a loss on the last block's output.

    Args:
        blocks: modules that keep the shape (..., D); each reads the output of the one before.
        x: (..., D), at least two axes, input of the first block. Is not modified.

    Returns:
        One Python float for each block, in order: the root of the sum of squares of the gradient
        over all entries of all its trainable parameters together. 0.0 for a block with no trainable
        parameter; a parameter that the loss does not depend on counts as 0.

    The loss is the mean, over all tokens, of the cross-entropy between the output as logits of D
    classes and class 0. The blocks stay as they were, their .grad included: another call gives the
    same numbers.
    """
    ### BEGIN SOLUTION
    y = x
    for block in blocks:
        y = block(y)
    logits = y.flatten(0, -2)  # (tokens, D)
    loss = F.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long))

    norms = []
    for block in blocks:
        parameters = [p for p in block.parameters() if p.requires_grad]
        gradients = []
        if parameters:
            gradients = torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True)
        squares = [g.square().sum().item() for g in gradients if g is not None]
        norms.append(math.sqrt(sum(squares)))
    return norms
    ### END SOLUTION


# %% [markdown]
# **Check exercise 3.** Its blocks are torch's own modules, so it does not need exercises 1 and 2.

# %% tags=["active-ipynb"] nbgrader={"grade_id": "test_gradient_norms", "points": 6}
# # One block, by hand: logits [0, log 3] are the shares [1/4, 3/4]; the gradient is [-3/4, 3/4].
# def block_by_hand():
#     block = nn.Linear(2, 2)
#     nn.init.zeros_(block.weight)
#     with torch.no_grad():
#         block.bias.copy_(torch.tensor([0.0, math.log(3)]))
#     return block
# norms = gradient_norms([block_by_hand()], torch.tensor([[3.0, 4.0]]))
# assert norms is not None, "gradient_norms returned None: does it end with a return statement?"
# assert len(norms) == 1, f"one number for each block: expected 1, got {len(norms)}"
# # weight: [-3/4, 3/4] times x, of length sqrt(9/8) * 5; bias: of length sqrt(9/8).
# want = math.sqrt(9 / 8 * 25 + 9 / 8)
# assert abs(norms[0] - want) < 1e-4, (
#     f"for this block the number must be {want:.4f}, got {float(norms[0]):.4f}. Is it the root of "
#     "the sum of squares over weight and bias together? Is the loss the cross-entropy with class 0?"
# )
# # The mean over tokens: the same token twice changes nothing.
# twice = gradient_norms([block_by_hand()], torch.tensor([[[3.0, 4.0], [3.0, 4.0]]]))
# assert abs(twice[0] - want) < 1e-4, "the loss must be the mean over all tokens, not their sum"
#
# # A chain of blocks, one of them without parameters.
# import copy
# blocks = [nn.Linear(4, 4), nn.Tanh(), nn.LayerNorm(4), nn.Linear(4, 4)]
# twins = copy.deepcopy(blocks)
# x = torch.randn(2, 3, 4)
# before = x.clone()
# norms = gradient_norms(blocks, x)
# loss = F.cross_entropy(nn.Sequential(*twins)(x).flatten(0, 1), torch.zeros(6, dtype=torch.long))
# loss.backward()
# want = [sum(p.grad.square().sum() for p in b.parameters()) ** 0.5 for b in twins]
# assert len(norms) == 4, f"one number for each block: expected 4, got {len(norms)}"
# assert norms[1] == 0, "a block without parameters must have the number 0.0"
# assert torch.allclose(torch.tensor(norms).float(), torch.tensor(want), rtol=1e-4), (
#     f"for this chain the numbers must be {[round(float(w), 4) for w in want]}, got "
#     f"{[round(float(n), 4) for n in norms]}. Does each block read the output of the one before?"
# )
# assert torch.equal(x, before), "gradient_norms changed x"
# again = gradient_norms(blocks, x)
# assert torch.allclose(torch.tensor(again).float(), torch.tensor(want), rtol=1e-4), (
#     "a second call gives other numbers: are gradients added up in .grad?"
# )
# for p in blocks[0].parameters():
#     p.requires_grad_(False)
# assert gradient_norms(blocks, x)[0] == 0, "frozen parameters must be left out"
# assert not blocks[0].weight.requires_grad, "frozen parameters must stay frozen"
# print("Exercise 3: the visible checks pass.")

# %% [markdown]
# ## Exercise 4: warm-up
#
# *3 points, easy, about 10 minutes*
#
# Post-LN needs small steps at first. The Transformer of 2017 came with this learning rate for its
# Adam: it rises in a straight line for `warmup` steps, and then falls with the root of the step.
#
# $$
# \mathrm{lr} = d_\mathrm{model}^{-1/2}\cdot
# \min\bigl(\mathrm{step}^{-1/2},\ \mathrm{step}\cdot\mathrm{warmup}^{-3/2}\bigr)
# $$
#
# The two lines meet at `step = warmup`, where the rate is largest.
#
# <details><summary>Hint 1: how to write a power?</summary>
#
# `step**-0.5` is one over the root of `step`.
#
# </details>
#
# <details><summary>Hint 2: which of the two is smaller during warm-up?</summary>
#
# The straight line `step * warmup**-1.5`. At `step = warmup` both are `warmup**-0.5`.
#
# </details>
#
# <details><summary>Hint 3: and step 0?</summary>
#
# There is none: steps count from 1. Raise a `ValueError` for anything smaller.
#
# </details>
#
# <details><summary>Expected output</summary>
#
# ```python
# for step in (1, 2000, 4000, 16000):
#     print(f"{step:6d} {warmup_lr(step, 512, 4000):.3e}")
# ```
#
# prints
#
# ```
#      1 1.747e-07
#   2000 3.494e-04
#   4000 6.988e-04
#  16000 3.494e-04
# ```
#
# </details>


# %% nbgrader={"grade_id": "warmup_lr", "solution": true}
def warmup_lr(step: int, d_model: int, warmup: int) -> float:
    """The learning rate of the Transformer of 2017: linear warm-up, then one over the root.

    Args:
        step: 1, 2, 3, ...
        d_model: width of the model.
        warmup: number of warm-up steps, at least 1.

    Returns:
        d_model^(-1/2) * min(step^(-1/2), step * warmup^(-3/2)), a Python float.

    Raises:
        ValueError: when step is smaller than 1.
    """
    ### BEGIN SOLUTION
    if step < 1:
        raise ValueError("steps count from 1")
    return d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)
    ### END SOLUTION


# %% [markdown]
# **Check exercise 4.**

# %% tags=["active-ipynb"] nbgrader={"grade_id": "test_warmup_lr", "points": 3}
# peak = warmup_lr(100, 64, 100)
# assert peak is not None, "warmup_lr returned None: does it end with a return statement?"
# assert abs(peak - 0.0125) < 1e-9, (
#     f"at step = warmup = 100 with d_model = 64 the rate must be 1/8 * 1/10 = 0.0125, got {peak}"
# )
# assert abs(warmup_lr(50, 64, 100) - peak / 2) < 1e-9, (
#     "half way through warm-up the rate must be half of the largest: is min used, not max?"
# )
# assert abs(warmup_lr(400, 64, 100) - peak / 2) < 1e-9, (
#     "at four times warmup the rate must be half of the largest: it falls with the root of step"
# )
# assert abs(warmup_lr(1, 64, 100) - peak / 100) < 1e-9, "at step 1 the rate must be 1/100 of the largest"
# try:
#     warmup_lr(0, 64, 100)
# except ValueError:
#     pass
# except ZeroDivisionError as error:
#     raise AssertionError("for step 0 raise a ValueError yourself") from error
# else:
#     raise AssertionError("there is no step 0: raise a ValueError")
# print("Exercise 4: the visible checks pass.")

# %% [markdown]
# ## Exercise 5: DeepNorm's two constants
#
# *2 points, easy, about 5 minutes*
#
# DeepNorm is Post-LN with the scales tipped towards the stream: `norm(alpha * x + f(x))` with
# `alpha` above 1, and the weights that write into the stream start smaller by a factor `beta`. For
# one stack of $N$ layers (encoder only, or decoder only):
#
# $$
# \alpha = (2N)^{1/4} \qquad \beta = (8N)^{-1/4}
# $$
#
# <details><summary>Hint 1: a fourth root?</summary>
#
# `x ** 0.25`.
#
# </details>
#
# <details><summary>Hint 2: which one grows with depth?</summary>
#
# `alpha`: the deeper the stack, the more weight has the stream. `beta` shrinks.
#
# </details>
#
# <details><summary>Hint 3: what counts as a layer?</summary>
#
# One block, with its attention and its feed-forward net. Do not count sublayers.
#
# </details>
#
# <details><summary>Expected output</summary>
#
# ```python
# print(deepnorm_constants(8))
# print(deepnorm_constants(128))
# ```
#
# prints
#
# ```
# (2.0, 0.3535533905932738)
# (4.0, 0.1767766952966369)
# ```
#
# </details>


# %% nbgrader={"grade_id": "deepnorm_constants", "solution": true}
def deepnorm_constants(n_layers: int) -> tuple[float, float]:
    """DeepNorm's (alpha, beta) for one stack of n_layers blocks.

    Args:
        n_layers: N >= 1, blocks of attention and feed-forward net.

    Returns:
        alpha = (2N)^(1/4), the factor of the stream, and beta = (8N)^(-1/4), the factor of the
        initial weights of the sublayers, two Python floats.
    """
    ### BEGIN SOLUTION
    return (2 * n_layers) ** 0.25, (8 * n_layers) ** -0.25
    ### END SOLUTION


# %% [markdown]
# **Check exercise 5.**

# %% tags=["active-ipynb"] nbgrader={"grade_id": "test_deepnorm_constants", "points": 2}
# constants = deepnorm_constants(8)
# assert constants is not None, "deepnorm_constants returned None: does it end with return?"
# assert len(constants) == 2, "return two numbers: alpha, beta"
# alpha, beta = constants
# assert abs(alpha - 2) < 1e-6, f"for 8 layers alpha must be the fourth root of 16, 2, got {alpha}"
# assert abs(beta - 8**-0.5) < 1e-6, (
#     f"for 8 layers beta must be one over the fourth root of 64, 0.3536, got {beta}"
# )
# alpha, beta = deepnorm_constants(2)
# assert abs(alpha - 2**0.5) < 1e-6 and abs(beta - 0.5) < 1e-6, (
#     f"for 2 layers alpha must be 1.4142 and beta 0.5, got {alpha} and {beta}"
# )
# print("Exercise 5: the visible checks pass.")

# %% [markdown]
# ## Exercise 6: QK-norm
#
# *7 points, medium, about 30 minutes*
#
# A norm may stand inside attention too. The softmax sees `q · k / sqrt(D/H)`. If queries and keys
# grow, one logit wins everything and the gradient of the others vanishes. QK-norm divides each
# query and each key, **head by head**, by its own root mean square before they meet. With gains of
# 1 no logit can then be larger than `sqrt(D/H)`, whatever the weights are.
#
# | part | what | shapes |
# |---|---|---|
# | `x` and the result | the stream | `(B, L, D)`, `D = d_model` |
# | `q_proj`, `k_proj`, `v_proj`, `out_proj` | `nn.Linear(D, D)` | |
# | queries, keys, values | split into `H = n_heads` heads | `(B, H, L, D/H)` |
# | `q_norm`, `k_norm` | `nn.RMSNorm(D/H, eps=1e-6)` | over the `D/H` features of one head |
# | logits | one for each query and key | `(B, H, L, L)` |
#
# The gain of `q_norm` has `D/H` numbers, shared by all heads; so has that of `k_norm`. The values
# are not normalized.
#
# <details><summary>Hint 1: how do the features become heads?</summary>
#
# Neighbours stay together: `q_proj(x).unflatten(-1, (n_heads, -1))` is `(B, L, H, D/H)`; then
# `.transpose(1, 2)`. The given `MultiHeadAttention` does just that.
#
# </details>
#
# <details><summary>Hint 2: where do the norms go?</summary>
#
# After the split into heads and before the product: `q = self.q_norm(q)`. The division by
# `sqrt(D/H)` and the softmax stay as they were.
#
# </details>
#
# <details><summary>Hint 3: how do I check it?</summary>
#
# Multiply `q_proj.weight` and `q_proj.bias` by 100: nothing may change. Multiply those of `v_proj`:
# the result changes.
#
# </details>
#
# <details><summary>Expected output</summary>
#
# ```python
# attention = QKNormAttention(4, 1)
# for linear in (attention.q_proj, attention.k_proj, attention.v_proj, attention.out_proj):
#     nn.init.eye_(linear.weight)
#     nn.init.zeros_(linear.bias)
# x = torch.tensor([[[1.0, 0.0, 0.0, 0.0], [0.0, 50.0, 0.0, 0.0]]])
# print(attention(x).detach())
# ```
#
# prints
#
# ```
# tensor([[[ 0.8808,  5.9602,  0.0000,  0.0000],
#          [ 0.1192, 44.0399,  0.0000,  0.0000]]])
# ```
#
# Each token gives itself the logit $\sqrt 4 = 2$ and the other 0, although one of them is fifty
# times as long.
#
# </details>


# %% nbgrader={"grade_id": "QKNormAttention", "solution": true}
class QKNormAttention(nn.Module):
    """Multi-head self-attention whose queries and keys are normalized, head by head.

    Parts, under these names: q_proj, k_proj, v_proj, out_proj (nn.Linear(d_model, d_model)),
    q_norm, k_norm (nn.RMSNorm(d_model // n_heads, eps=1e-6)). Nothing else is registered.

    Raises:
        ValueError: when n_heads does not divide d_model.

    Args (forward):
        x: (B, L, d_model). Is not modified.

    Returns (forward):
        (B, L, d_model). Head h of queries, keys and values holds the features from h * D/H on. With
        q and k after q_norm and k_norm: softmax over the keys of q · k / sqrt(D/H), times v; then
        the heads side by side, and out_proj.

    No mask, no dropout. Training and evaluation are the same.
    """

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        ### BEGIN SOLUTION
        if d_model % n_heads != 0:
            raise ValueError("n_heads must divide d_model")
        self.n_heads = n_heads
        self.q_proj = nn.Linear(d_model, d_model)
        self.k_proj = nn.Linear(d_model, d_model)
        self.v_proj = nn.Linear(d_model, d_model)
        self.out_proj = nn.Linear(d_model, d_model)
        self.q_norm = nn.RMSNorm(d_model // n_heads, eps=1e-6)
        self.k_norm = nn.RMSNorm(d_model // n_heads, eps=1e-6)
        ### END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        q, k, v = (
            proj(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)  # (B, H, L, D/H)
            for proj in (self.q_proj, self.k_proj, self.v_proj)
        )
        q, k = self.q_norm(q), self.k_norm(k)
        logits = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])  # (B, H, L, L)
        y = logits.softmax(dim=-1) @ v  # (B, H, L, D/H)
        return self.out_proj(y.transpose(1, 2).flatten(2))
        ### END SOLUTION


# %% [markdown]
# **Check exercise 6.**

# %% tags=["active-ipynb"] nbgrader={"grade_id": "test_QKNormAttention", "points": 7}
# attention = QKNormAttention(6, 2)
# shapes = {name: tuple(p.shape) for name, p in attention.named_parameters()}
# want = {f"{part}_proj.{kind}": (6, 6) if kind == "weight" else (6,)
#         for part in ("q", "k", "v", "out") for kind in ("weight", "bias")}
# want |= {"q_norm.weight": (3,), "k_norm.weight": (3,)}
# assert shapes == want, f"the parameters must be {want}, but they are {shapes}"
# x = 2 + torch.randn(2, 5, 6)
# before = x.clone()
# y = attention(x)
# assert y is not None, "forward returned None: does it end with a return statement?"
# assert y.shape == x.shape, f"the result must have the shape of x, got {tuple(y.shape)}"
# assert torch.equal(x, before), "the module changed its input: avoid in-place operations on x"
#
# # The same in another way: torch's attention on queries and keys divided by their lengths.
# for name in ("q_norm", "k_norm"):
#     nn.init.normal_(getattr(attention, name).weight, mean=1.0)
# def heads(t):
#     return t.view(2, 5, 2, 3).permute(0, 2, 1, 3)
# def normed(t, norm):
#     return t / (t.square().mean(-1, keepdim=True) + 1e-6).sqrt() * norm.weight
# q = normed(heads(attention.q_proj(x)), attention.q_norm)
# k = normed(heads(attention.k_proj(x)), attention.k_norm)
# mixed = F.scaled_dot_product_attention(q, k, heads(attention.v_proj(x)))
# want = attention.out_proj(mixed.permute(0, 2, 1, 3).reshape(2, 5, 6))
# assert torch.allclose(attention(x), want, atol=1e-5), (
#     "the result must be attention with normalized queries and keys. Is each head normalized by "
#     "itself, q by q_norm and k by k_norm? Are the logits divided by the root of the head's width? "
#     "Are the heads put side by side again?"
# )
# # Longer queries and keys change nothing, longer values do.
# y = attention(x)
# with torch.no_grad():
#     for linear in (attention.q_proj, attention.k_proj):
#         linear.weight.mul_(100)
#         linear.bias.mul_(100)
# assert torch.allclose(attention(x), y, atol=1e-3), (
#     "queries and keys that are 100 times as long must change nothing: are both normalized?"
# )
# with torch.no_grad():
#     attention.v_proj.weight.zero_()
#     attention.v_proj.bias.zero_()
# assert torch.allclose(attention(x), attention.out_proj.bias.expand(2, 5, 6), atol=1e-5), (
#     "with values of zero only the bias of out_proj is left: is the product taken with v?"
# )
# try:
#     QKNormAttention(6, 4)
# except ValueError:
#     pass
# else:
#     raise AssertionError("4 heads of 6 features do not exist: raise a ValueError")
# print("Exercise 6: the visible checks pass.")

# %% [markdown]
# ## Question: a deep model that does not learn
#
# *3 points, in words, about 10 minutes*
#
# A colleague trains a Post-LN Transformer of 24 layers with Adam at a learning rate of 0.003 and no
# warm-up. After a thousand steps the loss has fallen to the level of a model that knows letter
# frequencies only, and stays there. Nothing is NaN. "Then the gradients must explode," they say,
# "I will clip them at 1."
#
# Explain why clipping will hardly help. Name **one measurement** that would show what has happened,
# and **two changes** of the model or of its training that you would try, in order, each with its
# reason and its price. Five to ten sentences.
#
# Write your answer into the next cell, in place of its text. Nothing runs it; a person reads it.

# %% [markdown] nbgrader={"grade_id": "written_deep_model", "written": true, "points": 3}
# ### BEGIN SOLUTION
# **Marking guide.** 1 point for clipping and the measurement together (half for each), 1 point for
# each of two changes with a reason **and** a price (half a point with only one of them).
#
# Clipping: Adam divides by the size of recent gradients, so the length of its step depends on the
# learning rate and hardly on the length of the gradient; shorter gradients give the same steps.
# Also, nothing explodes here: the loss is finite and flat.
#
# Measurement, any that shows the collapse: the cosine between the final states of different tokens
# (near 1: all tokens look alike), or the spread of the logits over positions (near 0), or the
# gradient of the first layers after some steps. "Plot the loss" is not enough.
#
# Changes, any two:
#
# - Warm-up and a smaller rate: the cheapest, the model stays as it is. Price: one more thing to
#   tune, slower at first, and at 24 layers it may not be enough.
# - Pre-LN (with a final norm): trains without warm-up at large rates. Price: the stream grows with
#   depth, late layers change it less and less; shallow Post-LN models often end a little better.
# - DeepNorm or Admin: keeps Post-LN and lets it train. Price: special initialization that depends on
#   depth; still fails at still larger rates.
# - Sandwich / Peri-LN or output norms: tolerate large rates. Price: more norms to compute, little
#   theory.
# - ReZero: identity at first, no norm. Price: nothing bounds the stream later.
#
# No points for "more data", "more steps", or a change without a reason tied to this case.
# ### END SOLUTION

# %% [markdown]
# ## Before you hand in
#
# - Restart the kernel and run all cells (*Kernel > Restart Kernel and Run All Cells*). Cells that
#   were run in another order can hide a mistake.
# - All six check cells print that their checks pass. The hidden tests go further: read the six
#   docstrings once more and try sizes that the checks do not use.
# - The given `MultiHeadAttention` is as it was.
