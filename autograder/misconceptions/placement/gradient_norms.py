"""Wrong versions of `gradient_norms(blocks, x)`.

Where two mistakes give the same numbers on some input, the one that stands first is named.
"""

from __future__ import annotations

from functools import partial

import torch
from torch.nn import functional as F

from autograder.misconceptions import misconception as declare
from autograder.misconceptions.placement.shared import PAGE

misconception = partial(declare, exercise="gradient_norms", link=PAGE + "gradient-of-each-layer")


def output(blocks, x):
    for block in blocks:
        x = block(x)
    return x


def cross_entropy(y, target=0, reduction="mean"):
    """The right loss, with its details as arguments."""
    logits = y.flatten(0, -2)
    classes = torch.full((len(logits),), target, dtype=torch.long)
    return F.cross_entropy(logits, classes, reduction=reduction)


def trained(block):
    return [p for p in block.parameters() if p.requires_grad]


def gradients_of(loss, block):
    parameters = trained(block)
    if not parameters:
        return []
    found = torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True)
    return [g for g in found if g is not None]


def length(tensors):
    return sum(t.square().sum().item() for t in tensors) ** 0.5


def lengths(loss, blocks):
    """The right numbers for a loss."""
    return [length(gradients_of(loss, block)) for block in blocks]


# -- what is measured ------------------------------------------------------------------------------


@misconception(
    name="square-instead-of-root",
    message="You left out the root: the sum of squares is the square of the length.",
)
def squared(blocks, x):
    return [n**2 for n in lengths(cross_entropy(output(blocks, x)), blocks)]


@misconception(
    name="sum-of-lengths",
    message="You added up the lengths of the single parameters; the squares of all entries are "
    "added first, and one root is taken at the end.",
)
def sum_of_lengths(blocks, x):
    loss = cross_entropy(output(blocks, x))
    return [sum(g.norm().item() for g in gradients_of(loss, b)) for b in blocks]


@misconception(
    name="mean-of-lengths",
    message="You averaged the lengths of the single parameters; the squares of all entries are "
    "added, and one root is taken at the end.",
)
def mean_of_lengths(blocks, x):
    loss = cross_entropy(output(blocks, x))
    found = [[g.norm().item() for g in gradients_of(loss, b)] for b in blocks]
    return [sum(norms) / max(1, len(norms)) for norms in found]


@misconception(
    name="root-mean-square",
    message="You divided by the number of entries; the length is the root of the sum of squares, "
    "not of their mean.",
)
def root_mean_square(blocks, x):
    loss = cross_entropy(output(blocks, x))
    found = [gradients_of(loss, b) for b in blocks]
    return [length(gs) / max(1, sum(g.numel() for g in gs)) ** 0.5 for gs in found]


@misconception(
    name="sum-of-magnitudes",
    message="You added up magnitudes; a length is the root of the sum of squares.",
)
def magnitudes(blocks, x):
    loss = cross_entropy(output(blocks, x))
    return [float(sum(g.abs().sum() for g in gradients_of(loss, b))) for b in blocks]


@misconception(
    name="largest-entry",
    message="You took the largest entry; the length counts all of them, by their squares.",
)
def largest(blocks, x):
    loss = cross_entropy(output(blocks, x))
    found = [gradients_of(loss, b) for b in blocks]
    return [max((g.abs().max().item() for g in gs), default=0.0) for gs in found]


@misconception(
    name="parameters-left-out",
    message="You left out some of a block's parameters, such as biases or the weights of norms; "
    "all of them count together.",
)
def matrices_only(blocks, x):
    loss = cross_entropy(output(blocks, x))
    return [length(g for g in gradients_of(loss, b) if g.dim() > 1) for b in blocks]


@misconception(name="parameters-left-out")
def first_only(blocks, x):
    loss = cross_entropy(output(blocks, x))
    return [length(gradients_of(loss, b)[:1]) for b in blocks]


@misconception(
    name="parameters-instead-of-gradients",
    message="You measured the parameters themselves; their gradients are asked for.",
)
def of_parameters(blocks, x):
    return [length(p.detach() for p in trained(b)) for b in blocks]


@misconception(
    name="gradient-of-the-stream",
    message="You measured the gradient for what goes into each block; the gradients of the "
    "block's parameters are asked for.",
)
def of_the_stream(blocks, x):
    inputs = []
    for block in blocks:
        x = x.detach().clone().requires_grad_() if not inputs else x
        inputs.append(x)
        x = block(x)
    found = torch.autograd.grad(cross_entropy(x), inputs)
    return [g.norm().item() for g in found]


@misconception(
    name="last-block-first",
    message="You returned the numbers from the last block to the first; they follow the order of "
    "blocks.",
)
def reversed_order(blocks, x):
    return lengths(cross_entropy(output(blocks, x)), blocks)[::-1]


@misconception(
    name="one-number-for-all",
    message="You returned one number for all blocks together; each block has its own.",
)
def one_number(blocks, x):
    return [sum(n**2 for n in lengths(cross_entropy(output(blocks, x)), blocks)) ** 0.5]


@misconception(
    name="blocks-without-parameters-left-out",
    message="You left out blocks without gradients; their number is 0.0, so that the list is as "
    "long as blocks.",
)
def shorter(blocks, x):
    loss = cross_entropy(output(blocks, x))
    found = [gradients_of(loss, b) for b in blocks]
    return [length(gs) for gs in found if gs]


@misconception(
    name="frozen-parameters-counted",
    message="You made frozen parameters trainable; they are left out, and the blocks stay as they "
    "were.",
)
def thawed(blocks, x):
    for block in blocks:
        block.requires_grad_(True)
    return lengths(cross_entropy(output(blocks, x)), blocks)


# -- the way through the blocks --------------------------------------------------------------------


@misconception(
    name="every-block-reads-x",
    message="You gave x to every block; each reads the output of the one before.",
)
def side_by_side(blocks, x):
    return [length(gradients_of(cross_entropy(block(x)), block)) for block in blocks]


@misconception(
    name="loss-after-each-block",
    message="You took a loss after each block; there is one loss, on the output of the last block.",
)
def after_each(blocks, x):
    found = []
    for block in blocks:
        x = block(x)
        found.append(length(gradients_of(cross_entropy(x), block)))
    return found


@misconception(
    name="detached-between-blocks",
    message="You detached the stream between blocks, so the loss reaches the last block only.",
)
def detached(blocks, x):
    for block in blocks:
        x = block(x.detach())
    return lengths(cross_entropy(x), blocks)


@misconception(
    name="residual-added",
    message="You added each block's input to its output; whether a block has a skip connection is "
    "its own affair.",
)
def with_residual(blocks, x):
    y = x
    for block in blocks:
        y = y + block(y)
    return lengths(cross_entropy(y), blocks)


# -- the loss --------------------------------------------------------------------------------------


@misconception(
    name="sum-over-tokens",
    message="You added up the loss over the tokens; it is their mean.",
)
def summed(blocks, x):
    return lengths(cross_entropy(output(blocks, x), reduction="sum"), blocks)


@misconception(
    name="mean-over-sequences",
    message="You divided by the first axis alone; the loss is the mean over all tokens, of all "
    "axes but the last.",
)
def per_sequence(blocks, x):
    y = output(blocks, x)
    return lengths(cross_entropy(y, reduction="sum") / len(y), blocks)


@misconception(
    name="another-class",
    message="You took another class than 0 for the right one.",
)
def last_class(blocks, x):
    y = output(blocks, x)
    return lengths(cross_entropy(y, target=y.shape[-1] - 1), blocks)


@misconception(
    name="another-class",
)
def class_one(blocks, x):
    return lengths(cross_entropy(output(blocks, x), target=1), blocks)


@misconception(
    name="softmax-twice",
    message="You applied a softmax before F.cross_entropy, which applies one itself; it wants "
    "logits.",
)
def softmax_twice(blocks, x):
    return lengths(cross_entropy(output(blocks, x).softmax(-1)), blocks)


@misconception(
    name="sum-of-outputs",
    message="You took the sum (or the mean) of the outputs for the loss; behind a LayerNorm that "
    "is constant and has no gradient. The loss is the cross-entropy with class 0.",
)
def sum_of_outputs(blocks, x):
    return lengths(output(blocks, x).sum(), blocks)


@misconception(
    name="sum-of-outputs",
)
def mean_of_outputs(blocks, x):
    return lengths(output(blocks, x).mean(), blocks)


@misconception(
    name="mean-square-of-outputs",
    message="You took the squares of the outputs for the loss; the loss is the cross-entropy of "
    "the output with class 0.",
)
def mean_square(blocks, x):
    return lengths(output(blocks, x).square().mean(), blocks)


@misconception(
    name="first-logit",
    message="You took the logit of class 0 for the loss; cross-entropy is minus the logarithm of "
    "the softmax.",
)
def first_logit(blocks, x):
    return lengths(-output(blocks, x)[..., 0].mean(), blocks)


# -- what is left behind ---------------------------------------------------------------------------


@misconception(
    name="gradients-added-up",
    message="You called loss.backward(), which adds to the .grad of earlier calls; "
    "torch.autograd.grad returns gradients and leaves nothing behind.",
)
def added_up(blocks, x):
    cross_entropy(output(blocks, x)).backward()
    return [length(p.grad for p in b.parameters() if p.grad is not None) for b in blocks]


@misconception(
    name="one-step-taken",
    message="You changed the parameters; the blocks stay as they were.",
)
def one_step(blocks, x):
    loss = cross_entropy(output(blocks, x))
    found = [gradients_of(loss, b) for b in blocks]
    with torch.no_grad():
        for block, gs in zip(blocks, found, strict=True):
            for p, g in zip(trained(block), gs, strict=True):
                p -= 0.1 * g
    return [length(gs) for gs in found]
