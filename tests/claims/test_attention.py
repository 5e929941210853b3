"""The claims of the chapter on attention and padding, executed.

Each test fails if its effect is not there. Closed forms are compared closely. Training runs assert
an order with a wide margin, never a loss.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from book.experiments import attention as experiments
from solutions.attention import attention as reference


def largest(x: Tensor) -> float:
    return x.abs().max().item()


RIVER_BANK = torch.tensor([[2.0, 0, 1, 0], [1, 1, 0, 1]], dtype=torch.float64)
PADDING = torch.tensor([[False, False, True, True], [False, False, False, False]])


def padded() -> Tensor:
    """Two and four tokens, stacked; the shorter sentence is filled up with zeros."""
    stack = torch.randn(2, 4, 4, dtype=torch.float64)
    stack[0, :2], stack[0, 2:] = RIVER_BANK, 0
    return stack


def itself(x: Tensor, *mask: Tensor) -> Tensor:
    return reference.attention(x, x, x, *mask)


def test_c170_two_tokens_by_hand():
    e = torch.tensor([[2.5, 1.0], [1.0, 1.5]], dtype=torch.float64).exp()
    by_hand = torch.stack(
        [(e[i, 0] * RIVER_BANK[0] + e[i, 1] * RIVER_BANK[1]) / e[i].sum() for i in (0, 1)]
    )
    y = itself(RIVER_BANK[None])[0]
    assert y.shape == RIVER_BANK.shape and largest(y - by_hand) < 1e-12
    assert [round(v, 2) for v in y[0].tolist()] == [1.82, 0.18, 0.82, 0.18]  # as printed
    other = torch.stack([torch.tensor([0.0, 2, 0, 1]).double(), RIVER_BANK[1]])
    assert largest(itself(other[None])[0, 1] - y[1]) > 0.3  # bank beside another word
    mha = reference.MultiHeadAttention(12, 3)
    assert mha(torch.randn(1, 2, 12)).shape == (1, 2, 12)


def test_c172_packed_sentences_need_no_padding():
    stack = padded()
    row, sentence = stack[~PADDING][None], torch.tensor([0, 0, 1, 1, 1, 1])
    same = sentence[:, None] == sentence
    packed = F.scaled_dot_product_attention(row, row, row, attn_mask=same)[0]
    assert largest(packed - itself(stack, PADDING)[~PADDING]) < 1e-12
    without = F.scaled_dot_product_attention(row, row, row)[0]
    assert largest(without - packed) > 0.1  # the blocks are what keeps sentences apart


def test_c173_without_a_mask_real_words_change_and_padded_ones_are_never_zeros():
    stack = padded()
    masked, unmasked = itself(stack, PADDING), itself(stack)
    alone = itself(stack[:1, :2])[0]
    assert largest(masked[0, :2] - alone) < 1e-12
    assert largest(unmasked[0, :2] - alone) > 0.1
    assert largest(unmasked[1] - masked[1]) < 1e-12  # the sentence without padding
    assert largest(masked[0, 2:] - stack[0, :2].mean(0)) < 1e-12  # a plain mean, not zeros
    for seed in range(3):
        torch.manual_seed(seed)
        layer = nn.MultiheadAttention(8, 2, batch_first=True)
        x = torch.randn(2, 4, 8).masked_fill(PADDING[..., None], 0)
        good, bad = layer(x, x, x, key_padding_mask=PADDING)[0], layer(x, x, x)[0]
        lengths = good[0].norm(dim=-1)
        assert largest(bad - good) > 0.1
        assert lengths[2:].min() > 0.5 * lengths[:2].min()


def test_c173_a_mask_after_the_softmax_or_a_finite_one_is_not_enough():
    stack = padded()
    scores, lined = stack @ stack.mT / 2, PADDING[:, None]
    late = scores.softmax(-1).masked_fill(lined, 0)
    assert (late[0].sum(-1) < 0.95).all() and largest(late[1].sum(-1) - 1) < 1e-12
    stack[0, 2:] = 1e6
    scores = torch.ones(2, 4, 4).double() @ stack.mT / 2
    finite = (scores - 1e4 * lined).softmax(-1)
    assert finite[0, :, :2].sum() < 1e-6  # the padding took all
    assert scores.masked_fill(lined, -torch.inf).softmax(-1)[0, :, 2:].sum() == 0
    assert (scores + lined * -torch.inf).softmax(-1).isnan().any()


def test_c173_a_reader_trained_without_the_mask_is_much_worse():
    for seed in (0, 1):
        with_mask = experiments.errors(experiments.train(True, seed))
        without = experiments.errors(experiments.train(False, seed))
        assert abs(with_mask[0] - with_mask[1]) < 1e-5  # alone as in the batch
        assert min(without) > 20 * max(with_mask)


def test_c173_padding_reaches_batch_norm_and_not_layer_norm():
    stack = padded() + 1
    y = itself(stack, PADDING)
    real = y[~PADDING]
    rows = y.masked_fill(PADDING[..., None], 0).flatten(0, 1)
    m, v = real.mean(0), real.var(0, correction=0)
    assert largest(rows.mean(0) - 0.75 * m) < 1e-12
    assert largest(rows.var(0, correction=0) - (0.75 * v + 0.75 * 0.25 * m**2)) < 1e-12

    def batch_norm(x):
        return F.batch_norm(x, None, None, training=True)

    keep = ~PADDING.flatten()
    assert largest(batch_norm(rows)[keep] - batch_norm(real)) > 0.1
    assert torch.equal(F.layer_norm(rows, (4,))[keep], F.layer_norm(real, (4,)))
