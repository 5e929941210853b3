"""What a learner is told of an exception, from its type and the line that raised it."""

import pytest

from autograder.testing.verdict import LearnerError, explain_error


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("if weight:", "weight"),
        ("    if weight: y = y * weight", "weight"),
        ("elif bias:", "bias"),
        ("weight = weight or torch.ones(3)", "weight"),
        ("y = y * weight if weight else y", "weight"),
        ("while not mask:", "mask"),
        ("if weight is not None:", None),
        ("if x.any() and weight.numel():", None),
        ("element = x @ y", None),
        ("y = (x -", None),
    ],
)
def test_a_tensor_taken_for_true_or_false_is_told_so(line, name):
    error = LearnerError("RuntimeError", 3, 1, "scale")
    message = explain_error(error, line).message
    asked = f"write `{name} is not None`"
    assert (asked in message) if name else ("neither true nor false" not in message)
    other = explain_error(LearnerError("NameError", 3, 1, "scale"), line).message
    assert "neither true nor false" not in other


@pytest.mark.parametrize(
    ("kind", "line", "words"),
    [
        ("ValueError", "cols = tl.arange(0, D)", "a power of two"),
        ("TypeError", "_row_sum_kernel[M](rows, out, D, BLOCK=block)", "is a tuple, `[(M,)]`"),
        ("ValueError", "x = x.view(3)", "a value it cannot work with"),
        ("TypeError", "return values[0](x)", "a value of the wrong type"),
    ],
)
def test_a_launch_or_a_range_that_triton_refuses_has_its_own_hint(kind, line, words):
    assert words in explain_error(LearnerError(kind, 3, 1, "row_sum"), line).message
