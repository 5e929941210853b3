# %% [markdown]
# # Attention and padding
#
# A norm treats each token by itself. Attention is where tokens meet: every token looks at the
# others and takes a weighted mean of what they offer. In this notebook you write that weighted mean
# for sentences filled up with padding, and build many heads from it. The chapter *Attention and
# padding* of the course book explains every idea used here; keep its page `attention.html` open
# beside this notebook (its text is also in [book/attention.md](../../book/attention.md)).
#
# | exercise | you write | points | difficulty | time |
# |---|---|---|---|---|
# | 1 | `attention(q, k, v, key_padding_mask)` | 10 | medium | 25 min |
# | 2 | `MultiHeadAttention(d_model, n_heads)` | 10 | medium | 30 min |
#
# Two written questions at the end are worth 3 points each. A person grades them.
#
# **How to work.** Replace `raise NotImplementedError()` with your code and run the cell with
# Shift+Enter. Then run the check cell below it. A check that fails says what it saw and what to
# look at. Stuck? Open the hints one at a time. Add as many cells of your own as you like.
#
# **What is graded.** Hidden tests run your functions on other shapes, data types, masks and inputs.
# Passing the visible checks is a good sign, but **it is not the same as passing the hidden tests**.
# The docstring of each exercise is the full specification. If you have the course's repository, its
# README says how to run the hidden tests on this file: they name the mistake.
#
# **Rules.** Do not call a ready-made attention (`torch.nn.functional.scaled_dot_product_attention`,
# `torch.nn.MultiheadAttention`, `torch.nn.TransformerEncoderLayer`, and so on). Cells of your own
# may call all of this, to compare. Where one of your functions reaches it during a hidden test,
# that test fails. `torch.softmax` is allowed. Keep the names and the arguments of the functions.
#
# **How to hand in.** Save the notebook and hand in this one file, `attention.ipynb`, without
# renaming it.

# %%
import torch
from torch import Tensor, nn

# %% [markdown]
# ## Exercise 1: a weighted mean of the values
#
# *10 points, medium, about 25 minutes*
#
# Each query is compared with every key by a dot product. A softmax turns the comparisons into
# weights that add up to 1, and the result is the mean of the values with these weights. Keys that
# are padding must get the weight 0.
#
# $$
# \operatorname{attention}(q, k, v)
#  = \operatorname{softmax}\!\left(\frac{q\,k^\top}{\sqrt{D}}\right) v
# $$
#
# | name | shape | with heads | |
# |---|---|---|---|
# | `q` | `(B, L, D)` | `(B, H, L, D)` | L queries for each sentence |
# | `k` | `(B, S, D)` | `(B, H, S, D)` | S keys; in self-attention S is L |
# | `v` | `(B, S, E)` | `(B, H, S, E)` | a value for each key; E is often D |
# | `key_padding_mask` | `(B, S)` | `(B, S)` | **`True` is padding**; the same for all heads |
# | scores and weights | `(B, L, S)` | `(B, H, L, S)` | |
# | result | `(B, L, E)` | `(B, H, L, E)` | |
#
# The mask follows `nn.MultiheadAttention`: `True` says *ignore this key*. (The masks of the
# assignment `sequences` say the opposite. Both conventions are common; read the docstring.)
#
# What if **all** keys of a sentence are padding? There is nothing to take a mean of, and a softmax
# over nothing is 0/0. Here the result is then zeros, and so are the gradients.
#
# <details><summary>Hint 1: how to compare each query with each key?</summary>
#
# One matrix product: `q @ k.transpose(-2, -1)` has the shape `(..., L, S)`, for any number of axes
# in front. Divide by the root of `q.shape[-1]`, the length of one query.
#
# </details>
#
# <details><summary>Hint 2: how to ignore padding?</summary>
#
# Before the softmax, set the scores of padded keys to minus infinity with `masked_fill`: the
# exponential of it is exactly 0. Give the mask the shape `(B, 1, S)`, or `(B, 1, 1, S)` with heads,
# so that it lines up with the last axis of the scores.
#
# </details>
#
# <details><summary>Hint 3: where does the NaN come from, and how to get zeros?</summary>
#
# A row of scores that are all minus infinity has no largest entry, and its softmax is NaN. Fill the
# *weights* at padded keys with 0 as well, after the softmax. Elsewhere they are 0 already.
#
# </details>
#
# <details><summary>Expected output</summary>
#
# ```python
# q = torch.tensor([[[2.0, 0.0, 0.0, 0.0]]])
# k = torch.tensor([[[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [3.0, 0.0, 0.0, 0.0]]])
# v = torch.tensor([[[10.0, 0.0], [0.0, 10.0], [7.0, 7.0]]])
# print(attention(q, k, v))
# print(attention(q, k, v, torch.tensor([[False, False, True]])))
# print(attention(q, k, v, torch.tensor([[True, True, True]])))
# ```
#
# prints
#
# ```
# tensor([[[7.0485, 6.3267]]])
# tensor([[[7.3106, 2.6894]]])
# tensor([[[0., 0.]]])
# ```
#
# </details>


# %% nbgrader={"grade_id": "attention", "solution": true}
def attention(q: Tensor, k: Tensor, v: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
    """Scaled dot-product attention that ignores padded keys.

    Args:
        q: (B, L, D) or, with heads, (B, H, L, D): the queries. Any floating-point dtype.
        k: (B, S, D) or (B, H, S, D): the keys.
        v: (B, S, E) or (B, H, S, E): the values, one for each key.
        key_padding_mask: (B, S), bool, True where a key is padding and must be ignored, for all
            queries and all heads of that sentence. None: no key is padding.

    No argument is modified; q, k and v have the same dtype.

    Returns:
        (B, L, E) or (B, H, L, E), the dtype of q: for each query the mean of the values, weighted
        by softmax(q k^T / sqrt(D)) over the keys that are not padding.

    What k and v hold at padded places, any finite number, changes nothing, and no gradient reaches
    it. If all keys of a sentence are padding, its results are zeros and its gradients, too; never
    NaN. Padding of the queries is not this function's affair: each query gets a result.

    Scores may be large: the largest score of a row is subtracted before the exponential
    (torch.softmax does so). float16 and bfloat16 inputs are computed in float32, and the result is
    cast back once, at the end. Gradients flow to q, k and v.
    """
    ### BEGIN SOLUTION
    dtype = q.dtype
    if dtype in (torch.float16, torch.bfloat16):
        q, k, v = q.float(), k.float(), v.float()
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5  # (B, L, S) or (B, H, L, S)
    if key_padding_mask is None:
        weights = scores.softmax(dim=-1)
    else:
        padding = key_padding_mask.unsqueeze(1)  # (B, 1, S), for every query
        if scores.dim() == 4:
            padding = padding.unsqueeze(1)  # (B, 1, 1, S), for every head
        weights = scores.masked_fill(padding, -torch.inf).softmax(dim=-1)
        weights = weights.masked_fill(padding, 0)  # without any real key they were NaN
    return (weights @ v).to(dtype)  # (B, L, E) or (B, H, L, E)
    ### END SOLUTION


# %% [markdown]
# **Check exercise 1.** Run the next cell. No error means that all visible checks passed.

# %% tags=["active-ipynb"] nbgrader={"grade_id": "test_attention", "points": 10}
# F = nn.functional
# q = torch.tensor([[[2.0, 0.0, 0.0, 0.0]]])
# k = torch.tensor([[[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]]])
# v = torch.tensor([[[10.0, 0.0], [0.0, 10.0]]])
# y = attention(q, k, v)
# assert y is not None, "attention returned None: does it end with a return statement?"
# assert y.shape == (1, 1, 2), (
#     f"one query and values of length 2 must give the shape (1, 1, 2), got {tuple(y.shape)}"
# )
# assert torch.allclose(y, torch.tensor([[[7.3106, 2.6894]]]), atol=1e-3), (
#     "the scores are [2, 0], divided by sqrt(4) they are [1, 0], and their softmax is "
#     f"[0.7311, 0.2689]; so the result must be [7.3106, 2.6894], got {y.flatten().tolist()}"
# )
#
# # As many queries as keys, sentences and heads, so that no wrong axis raises an error.
# for shape in [(2, 5, 4), (5, 5, 5), (2, 3, 5, 4), (3, 3, 3, 3)]:
#     q, k, v = (2 * torch.randn(3, *shape, dtype=torch.float64)).unbind()
#     before = [t.clone() for t in (q, k, v)]
#     y = attention(q, k, v, None)
#     assert all(map(torch.equal, (q, k, v), before)), (
#         "attention changed one of its inputs: avoid in-place operations"
#     )
#     assert y.shape == q.shape, f"the result must have the shape {shape}, got {tuple(y.shape)}"
#     assert y.dtype == torch.float64, f"q is float64, the result must be too, it is {y.dtype}"
#     assert torch.allclose(y, F.scaled_dot_product_attention(q, k, v)), (
#         f"for q, k and v of the shape {shape} the result is not softmax(q k^T / sqrt(D)) v. Is D "
#         "the last axis of q? Does the softmax run over the keys, the last axis of the scores?"
#     )
#     mask = torch.rand(shape[0], shape[-2]) < 0.4
#     mask[:, 0], mask[:, -1] = False, True
#     want = F.scaled_dot_product_attention(
#         q, k, v, ~mask.view(-1, *[1] * (len(shape) - 2), shape[-2])
#     )
#     y = attention(q, k, v, mask)
#     assert torch.allclose(y, want), (
#         f"with padding among keys of the shape {shape} the result is not the mean of the real "
#         "keys' values. Does True mean padding? Does the mask act before the softmax? Does it line "
#         "up with the keys of each sentence, the last axis of the scores?"
#     )
#
# # Nothing but padding: zeros, and no NaN in any gradient.
# q, k, v = torch.randn(3, 2, 4, 8).unbind()
# mask = torch.tensor([[False, False, True, True], [True, True, True, True]])
# q.requires_grad_(), v.requires_grad_()
# y = attention(q, k, v, mask)
# assert torch.equal(y[1], torch.zeros(4, 8)), (
#     "if all keys of a sentence are padding its results must be zeros, got "
#     f"{y[1, 0, :2].tolist()} and so on"
# )
# y.sum().backward()
# for name, t in [("q", q), ("v", v)]:
#     assert not t.grad.isnan().any(), (
#         f"the gradient of {name} has NaN where all keys are padding, although the result has none"
#     )
# # What stands at padded places does not matter.
# q, v = q.detach(), v.detach().clone()
# k[0, 2:], v[0, 2:] = 1e6, -1e6
# assert torch.allclose(attention(q, k, v, mask)[0], y[0]), (
#     "large numbers in the padding changed the result: padded keys must get the weight 0 exactly"
# )
#
# y = attention(1000 * q, k[:, :2], v[:, :2])
# assert y.isfinite().all(), (
#     "large scores give NaN or infinity: subtract the largest score of each row before exp, or "
#     "use torch.softmax"
# )
# q, k, v = torch.randn(3, 1, 40, 16).unbind()
# y = attention((300 * q).half(), (300 * k).half(), v.half())
# assert y.dtype == torch.float16, f"q is float16, the result must be too, but it is {y.dtype}"
# assert y.isfinite().all(), (
#     "the scores of this float16 example are larger than float16 can hold (65504): are half types "
#     "computed in float32?"
# )
# print("Exercise 1: the visible checks pass.")

# %% [markdown]
# ## Exercise 2: many heads
#
# *10 points, medium, about 30 minutes*
#
# One attention has one set of weights per token. Several heads look for several things at once.
# Three linear layers make queries, keys and values of length `d_model` from the tokens; each is cut
# into `n_heads` pieces, and head `h` works with piece `h` alone. The results are put side by side
# again, and a fourth linear layer mixes them.
#
# | name | shape |
# |---|---|
# | `x` and the result | `(B, L, d_model)` |
# | `key_padding_mask` | `(B, L)`, `True` is padding |
# | queries, keys, values | `(B, n_heads, L, d_head)`, with `d_head = d_model / n_heads` |
#
# | submodule | is | its parameters |
# |---|---|---|
# | `q_proj`, `k_proj`, `v_proj` | `nn.Linear(d_model, d_model)` each | `weight`, `bias` |
# | `out_proj` | `nn.Linear(d_model, d_model)` | `weight`, `bias` |
#
# You may call your `attention`. Then a mistake there shows here, too.
#
# <details><summary>Hint 1: in which order?</summary>
#
# Project three times, cut into heads, attend, put the heads side by side, project once more.
#
# </details>
#
# <details><summary>Hint 2: how to cut (B, L, d_model) into heads?</summary>
#
# Cut the last axis, then swap two axes: `.unflatten(-1, (n_heads, -1))` gives
# `(B, L, n_heads, d_head)`, and `.transpose(1, 2)` gives `(B, n_heads, L, d_head)`. A single
# `.view(B, n_heads, L, d_head)` has the same shape, without an error, and mixes up the tokens.
#
# </details>
#
# <details><summary>Hint 3: and back?</summary>
#
# The same two steps backwards: `.transpose(1, 2)`, then `.flatten(2)`.
#
# </details>
#
# <details><summary>Expected output</summary>
#
# ```python
# mha = MultiHeadAttention(4, 2)
# for layer in (mha.q_proj, mha.k_proj, mha.v_proj, mha.out_proj):
#     nn.init.eye_(layer.weight)
#     nn.init.zeros_(layer.bias)
# x = torch.tensor([[[1.0, 0.0, 0.0, 2.0], [0.0, 1.0, 2.0, 0.0], [3.0, 3.0, 3.0, 3.0]]])
# print(mha(x))
# print(mha(x, torch.tensor([[False, False, True]])))
# ```
#
# prints
#
# ```
# tensor([[[2.3794, 2.2890, 2.4086, 2.7724],
#          [2.2890, 2.3794, 2.7724, 2.4086],
#          [2.9999, 2.9999, 2.9992, 2.9992]]], grad_fn=<ViewBackward0>)
# tensor([[[0.6698, 0.3302, 0.1116, 1.8884],
#          [0.3302, 0.6698, 1.8884, 0.1116],
#          [0.5000, 0.5000, 1.0000, 1.0000]]], grad_fn=<ViewBackward0>)
# ```
#
# The name of your `grad_fn` may differ.
#
# </details>


# %% nbgrader={"grade_id": "MultiHeadAttention", "solution": true}
class MultiHeadAttention(nn.Module):
    """Self-attention with several heads, equal to nn.MultiheadAttention(batch_first=True).

    Args:
        d_model: length of a token.
        n_heads: number of heads, divides d_model. Head h works with the features
            h * d_head to (h + 1) * d_head - 1 of queries, keys and values, where
            d_head = d_model / n_heads, and its scores are divided by sqrt(d_head).

    Raises (constructor): ValueError, when n_heads does not divide d_model.

    Submodules, and no other state: q_proj, k_proj, v_proj and out_proj, each
    nn.Linear(d_model, d_model) with a bias, initialized as nn.Linear does it.

    forward(x, key_padding_mask=None):
        x: (B, L, d_model), in the dtype of the parameters. Is not modified.
        key_padding_mask: (B, L), bool, True where a token is padding. No query of that sentence
            looks at it. None: no token is padding.
        Returns (B, L, d_model), the dtype of x: out_proj of the heads' results side by side, head 0
        first. Padded tokens get a result, too. If all tokens of a sentence are padding, the heads'
        results are zeros, so that each of its results is the bias of out_proj.

    There is no dropout and no residual connection: the same in training and evaluation. Between the
    projections float16 and bfloat16 are computed in float32 and cast back once, before out_proj.
    Gradients reach x and all eight parameters.
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
        ### END SOLUTION

    def forward(self, x: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        ### BEGIN SOLUTION
        q, k, v = [
            proj(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)  # (B, H, L, d_head)
            for proj in (self.q_proj, self.k_proj, self.v_proj)
        ]
        heads = attention(q, k, v, key_padding_mask)  # (B, H, L, d_head)
        return self.out_proj(heads.transpose(1, 2).flatten(2))  # (B, L, d_model)
        ### END SOLUTION


# %% [markdown]
# **Check exercise 2.** This check copies weights into torch's own module and compares.

# %% tags=["active-ipynb"] nbgrader={"grade_id": "test_MultiHeadAttention", "points": 10}
# names = [f"{p}_proj.{kind}" for p in ("q", "k", "v", "out") for kind in ("weight", "bias")]
# mha = MultiHeadAttention(6, 3)
# found = {name: tuple(p.shape) for name, p in mha.named_parameters()}
# want = {name: (6, 6) if name.endswith("weight") else (6,) for name in names}
# assert found == want, f"the module must register the parameters {want}, but it has {found}"
# assert set(mha.state_dict()) == set(want), f"state_dict must hold {names} and nothing else"
# for d_model, n_heads in [(6, 4), (8, 3)]:
#     try:
#         MultiHeadAttention(d_model, n_heads)
#     except ValueError:
#         continue
#     raise AssertionError(
#         f"{n_heads} heads do not divide d_model = {d_model}: raise a ValueError in __init__"
#     )
#
# # d_model, heads, sentences, tokens: equal sizes, so that no wrong axis raises an error.
# for d, h, b, length in [(6, 1, 2, 5), (6, 3, 2, 5), (4, 2, 4, 2), (16, 4, 4, 4)]:
#     mha, rival = MultiHeadAttention(d, h), nn.MultiheadAttention(d, h, batch_first=True)
#     for name, p in mha.named_parameters():
#         nn.init.normal_(p, std=1.5 if name[0] in "qk" else 0.7)
#     parts = (mha.q_proj, mha.k_proj, mha.v_proj)
#     rival.load_state_dict({
#         "in_proj_weight": torch.cat([p.weight.data for p in parts]),
#         "in_proj_bias": torch.cat([p.bias.data for p in parts]),
#         "out_proj.weight": mha.out_proj.weight.data, "out_proj.bias": mha.out_proj.bias.data,
#     })
#     x, mask = torch.randn(b, length, d), torch.rand(b, length) < 0.4
#     mask[:, 0], mask[:, -1] = False, True
#     before = x.clone()
#     for padding in (None, mask):
#         y = mha(x, padding)
#         assert y is not None, "forward returned None: does it end with a return statement?"
#         assert torch.equal(x, before), "MultiHeadAttention changed x: avoid in-place operations"
#         assert y.shape == x.shape, (
#             f"the result must have the shape of x, {tuple(x.shape)}, got {tuple(y.shape)}"
#         )
#         want = rival(x, x, x, key_padding_mask=padding)[0]
#         assert torch.allclose(y, want, atol=1e-4), (
#             f"d_model {d}, {h} heads, {'no padding' if padding is None else 'padding'}: the "
#             "result is not that of nn.MultiheadAttention with the same weights. Are queries, keys "
#             "and values made by the projection of their name? Is each head cut from neighbouring "
#             "features, with a transpose and back? Are the scores divided by the root of the head's "
#             "length? Does out_proj come last? Is the mask passed on?"
#         )
# y.mul(torch.randn(y.shape)).sum().backward()
# assert all(p.grad is not None for p in mha.parameters()), (
#     "a parameter got no gradient: use the four projections themselves"
# )
# y = mha(x, torch.ones(4, 4, dtype=torch.bool))
# assert torch.allclose(y, mha.out_proj.bias.expand(4, 4, 16), atol=1e-6), (
#     "if all tokens are padding, the heads give zeros, so each result is the bias of out_proj"
# )
# print("Exercise 2: the visible checks pass.")

# %% [markdown]
# ## Question: who noticed?
#
# *3 points, in words, about 10 minutes*
#
# A team trains a sentence classifier: attention over padded batches, then the mean of the outputs
# at the real tokens. They forgot the padding mask in the attention, and used it in the mean.
# Training went well. In production each request is a batch of one, without padding, and the
# accuracy is lower than in their tests, where batches were padded as in training.
#
# Say what the missing mask changed, and why training did not reveal it. Then describe one test of
# two or three lines that would have found it, and say which of these it would find, too: a mask of
# the wrong polarity; a mask applied after the softmax. Five to eight sentences.
#
# Write your answer into the next cell, in place of its text. Nothing runs it; a person reads it.

# %% [markdown] nbgrader={"grade_id": "written_who_noticed", "written": true, "points": 3}
# ### BEGIN SOLUTION
# **Marking guide.** 1 point for what changed and why training did not show it, 1 point for a test
# that finds it, 1 point for what the test finds besides.
#
# What changed: padded tokens are keys, too, and took a share of each softmax, so every real output
# was a mean over real *and* padded values; the share grows with the amount of padding. Training did
# not reveal it: shapes are right, the loss falls, and the network learns to live with the padding
# it sees (it may learn to give padding low scores, or use the amount of padding as a hint at the
# length). The batches of the tests had the same padding. In production there is none: another
# distribution of inputs.
#
# Test: run one sentence alone and once more padded to a longer length (or beside a longer sentence)
# and compare the outputs at its real tokens; they must agree up to rounding. Or: change what stands
# at the padded places, and compare. Half a point for a test that only looks at shapes, at NaN or at
# the loss: none of these finds it.
#
# Both tests find the wrong polarity (real tokens ignored, padding used). The mask after the softmax:
# changing the content of the padding finds it, since the sum below the fraction contains the padded
# scores; so does the comparison with the sentence alone. (The weights then do not add up to 1,
# which is a third test.) Full point also for one of the two, if the reason is right.
# ### END SOLUTION

# %% [markdown]
# ## Question: the same shape
#
# *3 points, in words, about 10 minutes*
#
# A colleague cuts `(B, L, d_model)` into heads with `x.view(B, n_heads, L, d_head)`, and back with
# `y.reshape(B, L, d_model)`. "It trains, so it is a matter of taste which features go to which
# head." For `L = 4`, `d_model = 6` and two heads, write down which tokens and features row 0 and
# row 1 of head 0 hold. Say what a query of head 0 can look at, whether a causal or a padding mask
# still means what it says, and whether the colleague is right. Five to eight sentences.
#
# Write your answer into the next cell, in place of its text. Nothing runs it; a person reads it.

# %% [markdown] nbgrader={"grade_id": "written_the_same_shape", "written": true, "points": 3}
# ### BEGIN SOLUTION
# **Marking guide.** 1 point for the two rows, 1 point for what follows for the head, 1 point for the
# masks and the verdict.
#
# Rows: `view` keeps the order of memory: token 0 feature 0 to 5, then token 1, and so on. Rows of
# length 3 are cut from it: row 0 of head 0 is token 0, features 0 to 2; row 1 is token 0, features
# 3 to 5; rows 2 and 3 are token 1. Head 1 has tokens 2 and 3.
#
# What follows: head 0 sees only the first half of the sentence, twice over, head 1 only the second
# half. A query compares halves of the same tokens with each other; no query of the first half ever
# meets a key of the second half. (A last layer mixes features of a token, not tokens; stacking such
# layers does not help, since all have the same wall.)
#
# Masks: the mask speaks about positions, but row l of a head is no longer token l, so padding is
# cut out at the wrong tokens and a causal mask hides the wrong ones (row 1 may look at row 0 of the
# same token, but a real later token may be visible as an earlier row, or an earlier one hidden).
#
# Verdict: not a matter of taste. Which *features* a head gets would be one (the projections can
# learn any order), but here *tokens* are mixed up. That it trains proves nothing.
# ### END SOLUTION

# %% [markdown]
# ## Before you hand in
#
# - Restart the kernel and run all cells (*Kernel > Restart Kernel and Run All Cells*). Cells that
#   were run in another order can hide a mistake.
# - Both check cells print that their checks pass. The hidden tests go further: read the two
#   docstrings once more and try shapes, dtypes and masks that the checks do not use.
# - No exercise calls a ready-made attention.
