"""Wrong versions of the module `PostLNBlock(d_model, n_heads, d_ff)`.

Where two mistakes give the same output on some input, the one that stands first is named: so
mistakes that show in more tests come later.
"""

from __future__ import annotations

from functools import partial

from autograder.misconceptions import misconception as declare
from autograder.misconceptions.placement.shared import PAGE, Parts, declare_mistakes_of_the_parts

misconception = partial(declare, exercise="PostLNBlock")
POST = PAGE + "post-ln"


def _right(self, x):
    h = self.norm1(x + self.attention(x))
    return self.norm2(h + self.feed_forward(h))


@misconception(
    name="pre-ln-instead",
    message="You wrote the Pre-LN block, x + f(norm(x)); in Post-LN the norm comes after the "
    "addition, norm(x + f(x)).",
    link=POST,
)
class PreLN(Parts):
    def forward(self, x):
        h = x + self.attention(self.norm1(x))
        return h + self.feed_forward(self.norm2(h))


@misconception(
    name="norm-before-the-addition",
    message="You normalized what the sublayer computes and then added x; Post-LN adds first and "
    "normalizes the sum.",
    link=PAGE + "norm-before-the-addition",
)
class BeforeAdding(Parts):
    def forward(self, x):
        h = x + self.norm1(self.attention(x))
        return h + self.norm2(self.feed_forward(h))


@misconception(
    name="first-addition-missing",
    message="You left out the first addition: x is added to what attention computes, before norm1.",
    link=POST,
)
class FirstAdditionMissing(Parts):
    def forward(self, x):
        h = self.norm1(self.attention(x))
        return self.norm2(h + self.feed_forward(h))


@misconception(
    name="second-addition-missing",
    message="You left out the second addition: the result of norm1 is added to what the "
    "feed-forward net computes, before norm2.",
    link=POST,
)
class SecondAdditionMissing(Parts):
    def forward(self, x):
        return self.norm2(self.feed_forward(self.norm1(x + self.attention(x))))


@misconception(
    name="first-norm-missing",
    message="You left out norm1: Post-LN normalizes after the first addition too.",
    link=POST,
)
class FirstNormMissing(Parts):
    def forward(self, x):
        h = x + self.attention(x)
        return self.norm2(h + self.feed_forward(h))


@misconception(
    name="second-norm-missing",
    message="You left out norm2: Post-LN normalizes after the second addition too, so a norm is "
    "the last thing in the block.",
    link=POST,
)
class SecondNormMissing(Parts):
    def forward(self, x):
        h = self.norm1(x + self.attention(x))
        return h + self.feed_forward(h)


@misconception(
    name="adds-x-twice",
    message="You added x to what the feed-forward net computes; its own input h, the result of "
    "norm1, is what is added.",
    link=POST,
)
class AddsXTwice(Parts):
    def forward(self, x):
        h = self.norm1(x + self.attention(x))
        return self.norm2(x + self.feed_forward(h))


@misconception(
    name="adds-x-and-h",
    message="You added both x and h to what the feed-forward net computes; only its own input h "
    "is added (with x, too, it would be the B2T connection of 2023).",
    link=PAGE + "b2t",
)
class BottomToTop(Parts):
    def forward(self, x):
        h = self.norm1(x + self.attention(x))
        return self.norm2(x + h + self.feed_forward(h))


@misconception(
    name="feed-forward-reads-x",
    message="You gave x to the feed-forward net; it reads h, the result of norm1.",
    link=POST,
)
class FeedForwardReadsX(Parts):
    def forward(self, x):
        h = self.norm1(x + self.attention(x))
        return self.norm2(h + self.feed_forward(x))


@misconception(
    name="sublayers-side-by-side",
    message="You let both sublayers read x and added everything at once; here the feed-forward "
    "net comes after attention and reads what norm1 gives.",
    link=POST,
)
class Parallel(Parts):
    def forward(self, x):
        return self.norm2(self.norm1(x + self.attention(x) + self.feed_forward(x)))


@misconception(
    name="norms-on-both-sides",
    message="You normalized the sublayer's input as well; in Post-LN it reads the stream as it "
    "is, which the block before has normalized.",
    link=POST,
)
class BothSides(Parts):
    def forward(self, x):
        h = self.norm1(x + self.attention(self.norm1(x)))
        return self.norm2(h + self.feed_forward(self.norm2(h)))


@misconception(
    name="norm-of-the-batch",
    message="You normalized over the tokens instead of over the features of each token; a "
    "LayerNorm of d_model features on the last axis does what is needed.",
    link=PAGE + "parts-of-a-block",
)
class OverTokens(Parts):
    def over_tokens(self, norm, t):
        mean, var = t.mean(1, keepdim=True), t.var(1, correction=0, keepdim=True)
        return (t - mean) / (var + norm.eps) ** 0.5 * norm.weight + norm.bias

    def forward(self, x):
        h = self.over_tokens(self.norm1, x + self.attention(x))
        return self.over_tokens(self.norm2, h + self.feed_forward(h))


@misconception(parts=("first-addition-missing", "second-addition-missing"))
class NoAddition(Parts):
    def forward(self, x):
        return self.norm2(self.feed_forward(self.norm1(self.attention(x))))


# Last: where a test sees no more than that a norm is missing, the mistake above is named.
declare_mistakes_of_the_parts("PostLNBlock", _right)
