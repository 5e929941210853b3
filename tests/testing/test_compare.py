"""`expect`: the order of checks, and values that must not slip through."""

import pytest
import torch

from autograder.testing.compare import UNCHANGED, Mismatch, expect, recording, same

X = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)


def said(got, want, **options):
    with pytest.raises(Mismatch) as caught:
        expect(got, want, **options)
    return caught.value.message


@pytest.mark.parametrize(
    ("got", "want", "words"),
    [
        (None, X, "None; expected a tensor. Is a `return` missing?"),
        (1.0, X, "a float; expected a tensor"),
        ([1.0, 2.0, 3.0], X, "a list; expected a tensor"),
        (X.float(), X, "dtype float32; expected float64"),
        (X[None], X, "shape (1, 3); expected (3,)"),
        (X[:0], X, "another shape; expected (3,)"),
        (X[:1], X, "shape (1,); expected (3,)"),
        (torch.zeros(7, 5, dtype=torch.float64), X, "another shape; expected (3,)"),
        (X * float("nan"), X, "NaN"),
        (X / 0, X, "infinite"),
        (X + 1e-3, X, "all values are wrong"),
        (X + torch.tensor([0.0, 0.0, 1.0]), X, "some values are wrong"),
        ((X,), (X, X), "another number of values; expected 2"),
        ((X, X + 1), (X, X), "Value 2 of the output"),
        (X, (X, X), "a tensor; expected 2 values"),
        ({"a": X}, {"b": X}, "other names; expected `b`"),
        (True, 1, "a bool; expected a number"),
        (1.1, 1.0, "wrong number"),
        (float("nan"), 1.0, "wrong number"),
        (1, True, "is not True"),
        ("y", "x", "is not 'x'"),
    ],
)
def test_the_first_difference_is_told(got, want, words):
    assert words in said(got, want)


def test_basic_differences_come_before_values():
    assert "dtype" in said(torch.full((9,), float("nan")), X)
    assert "shape" in said(torch.full((9,), float("nan"), dtype=torch.float64), X)


def test_no_number_of_the_learners_reaches_a_message():
    secret = torch.full((3,), 31337.5, dtype=torch.float64)
    assert "31337" not in said(secret, X)
    assert "31337" not in said(torch.zeros(31337, dtype=torch.float64), X)


@pytest.mark.parametrize(
    ("got", "want"),
    [
        (X.clone(), X),
        (X + 1e-9, X),
        (torch.tensor([float("nan"), 1.0]), torch.tensor([float("nan"), 1.0])),
        (torch.tensor([float("inf"), 1.0]), torch.tensor([float("inf"), 1.0])),
        (torch.zeros(0, 3), torch.zeros(0, 3)),
        ([X, X], (X, X)),
        (torch.tensor(2.0), 2.0),
        (2, 2.0),
        ({"b": X, "a": None}, {"a": None, "b": X}),
    ],
)
def test_equal_values_pass(got, want):
    expect(got, want)


def test_the_tolerance_is_per_element_and_not_widened_by_large_neighbours():
    want = torch.tensor([1e6, 1.0], dtype=torch.float64)
    expect(want + torch.tensor([0.5, 0.0]), want, rtol=1e-6, atol=0.0)
    said(want + torch.tensor([0.0, 0.5]), want, rtol=1e-6, atol=0.0)


def test_infinity_of_the_wrong_sign_is_wrong():
    assert "infinite" in said(torch.tensor([-float("inf")]), torch.tensor([float("inf")]))


def test_recording_takes_notes_and_does_not_judge():
    with recording(judging=False) as values:
        expect(X + 1, X)
        expect(None, X)
    assert torch.equal(values[0], X + 1) and values[1] is None
    said(X + 1, X)


def test_a_mismatch_says_which_expect_it_was():
    with recording(judging=True), pytest.raises(Mismatch) as caught:
        expect(X, X)
        expect(X + 1, X)
    assert caught.value.index == 1 and torch.equal(caught.value.got, X + 1)


@pytest.mark.parametrize("what", UNCHANGED)
def test_an_input_that_is_not_as_before_was_changed_in_place(what):
    assert said([X + 1], [X], what=what).startswith("You changed an argument in place")
    expect([X], [X], what=what)


@pytest.mark.parametrize("name", ["x", "y for D = 5", "grad_x"])
def test_a_name_keeps_its_letters_at_the_start_of_a_sentence(name):
    assert said(X + 1, X, what=name).startswith(f"{name} has")
    assert said(X + 1, X, what="the output").startswith("The output has")


def test_same_forgives_rounding_only():
    x = torch.randn(50, generator=torch.Generator().manual_seed(1))
    assert same(x, x + x.abs().max() * 1e-6)
    assert not same(x, x * 1.001)
    assert not same(x, x.double())
    assert not same(x, x[None])
    assert same((x, [None]), (x, [None])) and not same((x,), (x, x))
    assert same(torch.tensor([float("nan")]), torch.tensor([float("nan")]))


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("the output", "The output has"),
        ("the rates at the top", "The rates at the top have"),
        ("the running means of the output", "The running means of the output have"),
        ("the list of numbers", "The list of numbers has"),
        ("the bias", "The bias has"),
        ("grad_bias", "grad_bias has"),
    ],
)
def test_the_verb_of_a_sentence_fits_its_subject(what, said):
    with recording(judging=True), pytest.raises(Mismatch) as caught:
        expect(torch.tensor([torch.nan]), torch.ones(1), what=what)
    assert caught.value.message == f"{said} NaN where a number was expected."
