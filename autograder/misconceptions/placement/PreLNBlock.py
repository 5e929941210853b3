"""Wrong versions of the module `PreLNBlock(d_model, n_heads, d_ff)`.

Where two mistakes give the same output on some input, the one that stands first is named: so
mistakes that show in more tests come later.
"""

from __future__ import annotations

from functools import partial

from torch import nn

from autograder.misconceptions import misconception as declare
from autograder.misconceptions.placement.shared import PAGE, Parts, declare_mistakes_of_the_parts

misconception = partial(declare, exercise="PreLNBlock")
PRE = PAGE + "pre-ln"


def _right(self, x):
    h = x + self.attention(self.norm1(x))
    return h + self.feed_forward(self.norm2(h))


@misconception(
    name="final-norm-in-the-block",
    message="You registered a third norm; the final norm of Pre-LN belongs to the model, after "
    "the last block, and not into each block.",
    link=PAGE + "final-norm",
)
class FinalNorm(Parts):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__(d_model, n_heads, d_ff)
        self.norm = nn.LayerNorm(d_model)

    def forward(self, x):
        return self.norm(_right(self, x))


@misconception(
    name="post-ln-instead",
    message="You wrote the Post-LN block, norm(x + f(x)); in Pre-LN the norm stands at the "
    "entrance of the sublayer, x + f(norm(x)).",
    link=PRE,
)
class PostLN(Parts):
    def forward(self, x):
        h = self.norm1(x + self.attention(x))
        return self.norm2(h + self.feed_forward(h))


@misconception(
    name="norm-before-the-addition",
    message="You normalized what the sublayer computes; Pre-LN normalizes what it reads, and only "
    "that.",
    link=PAGE + "norm-before-the-addition",
)
class BeforeAdding(Parts):
    def forward(self, x):
        h = x + self.norm1(self.attention(x))
        return h + self.norm2(self.feed_forward(h))


@misconception(name="norm-before-the-addition")
class Sandwich(Parts):
    def forward(self, x):
        h = x + self.norm1(self.attention(self.norm1(x)))
        return h + self.norm2(self.feed_forward(self.norm2(h)))


@misconception(
    name="normalized-copy-added",
    message="You added the normalized copy to what the sublayer computes; the stream itself is "
    "added, and no norm stands on its way.",
    link=PRE,
)
class CopyAdded(Parts):
    def forward(self, x):
        x = self.norm1(x)
        h = x + self.attention(x)
        h = self.norm2(h)
        return h + self.feed_forward(h)


@misconception(
    name="second-copy-added",
    message="You added norm2(h) to what the feed-forward net computes; the stream h itself is "
    "added.",
    link=PRE,
)
class SecondCopyAdded(Parts):
    def forward(self, x):
        h = self.norm2(x + self.attention(self.norm1(x)))
        return h + self.feed_forward(h)


@misconception(
    name="first-addition-missing",
    message="You left out the first addition: what attention computes is added to x.",
    link=PRE,
)
class FirstAdditionMissing(Parts):
    def forward(self, x):
        h = self.attention(self.norm1(x))
        return h + self.feed_forward(self.norm2(h))


@misconception(
    name="second-addition-missing",
    message="You left out the second addition: what the feed-forward net computes is added to the "
    "stream h.",
    link=PRE,
)
class SecondAdditionMissing(Parts):
    def forward(self, x):
        return self.feed_forward(self.norm2(x + self.attention(self.norm1(x))))


@misconception(
    name="first-norm-missing",
    message="You left out norm1: attention reads norm1(x), not x.",
    link=PRE,
)
class FirstNormMissing(Parts):
    def forward(self, x):
        h = x + self.attention(x)
        return h + self.feed_forward(self.norm2(h))


@misconception(
    name="second-norm-missing",
    message="You left out norm2: the feed-forward net reads norm2(h), not h.",
    link=PRE,
)
class SecondNormMissing(Parts):
    def forward(self, x):
        h = x + self.attention(self.norm1(x))
        return h + self.feed_forward(h)


@misconception(
    name="adds-x-twice",
    message="You added x to what the feed-forward net computes, so attention's part is lost from "
    "the stream; h is what is added.",
    link=PRE,
)
class AddsXTwice(Parts):
    def forward(self, x):
        h = x + self.attention(self.norm1(x))
        return x + self.feed_forward(self.norm2(h))


@misconception(
    name="sublayers-side-by-side",
    message="You let both sublayers read x; here the feed-forward net comes after attention and "
    "reads norm2(h).",
    link=PRE,
)
class Parallel(Parts):
    def forward(self, x):
        return x + self.attention(self.norm1(x)) + self.feed_forward(self.norm2(x))


@misconception(
    name="norm-at-the-end",
    message="You normalized the block's result too; in Pre-LN the stream leaves a block as it is, "
    "and one final norm stands behind the last block.",
    link=PAGE + "final-norm",
)
class NormAtTheEnd(Parts):
    def forward(self, x):
        return self.norm2(_right(self, x))


@misconception(parts=("first-addition-missing", "second-addition-missing"))
class NoAddition(Parts):
    def forward(self, x):
        return self.feed_forward(self.norm2(self.attention(self.norm1(x))))


# Last: where a test sees no more than that a norm is missing, the mistake above is named.
declare_mistakes_of_the_parts("PreLNBlock", _right)
