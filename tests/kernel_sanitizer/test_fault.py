"""The sentence of each fault of a kernel, and where it sends the learner."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from autograder.testing.kernel_reply import checked, jit_functions
from kernel_sanitizer.fault import ACCESSES, MOST, WHERE, Fault, explain

PAGE = Path(__file__).resolve().parents[2] / "book" / "triton-kernels.md"
EVERY = [
    (kind, where, access)
    for kind, places in WHERE.items()
    for where in places
    for access in (ACCESSES if kind == "out-of-bounds" else ("",))
]


def fault(kind: str, where: str, access: str = "", **facts) -> Fault:
    known = {"kernel": "kernel", "tensor": "x_ptr", "count": 24, "lanes": 1024, "distance": 1}
    return Fault(kind=kind, where=where, access=access, **known | facts)


@pytest.mark.parametrize(("kind", "where", "access"), EVERY)
def test_a_sentence_names_kernel_and_tensor_and_what_to_do(kind, where, access):
    text = explain(fault(kind, where, access, program=(3, 0, 0), other=(2, 0, 0), element=7))
    assert "`kernel`" in text or kind == "no-device"
    assert "program 3" in text or kind in ("grid-limit", "no-device")
    told = kind in ("out-of-bounds", "race", "poison") and where != "outside-every-tensor"
    assert ("`x_ptr`" in text) == told
    assert text.endswith((".", "?")) and text.count(". ") >= 1 and len(text) < 420


@pytest.mark.parametrize(("kind", "where", "access"), EVERY)
def test_it_links_to_a_paragraph_that_the_page_has(kind, where, access):
    page, _, anchor = fault(kind, where, access).link.partition("#")
    assert page == "triton-kernels.html"
    assert f"({anchor})=" in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize(("kind", "where", "access"), EVERY)
def test_no_number_is_longer_than_four_digits(kind, where, access):
    far = 10**15
    facts = dict.fromkeys(("count", "lanes", "distance", "element"), far)
    sent = fault(kind, where, access, program=(far,) * 3, other=(far,) * 3, **facts).as_dict()
    text = explain(checked(sent, {"kernel": ("x_ptr",)}))
    numbers = re.findall(r"\d(?:[\d,]*\d)?", text.replace("2**31", "").replace("65,535", ""))
    assert all(len(n) <= 4 for n in numbers), text


def test_names_that_are_not_in_the_notebook_are_not_repeated():
    sent = fault("poison", "stored").as_dict()
    assert "`x_ptr`" in explain(checked(sent, {"kernel": ("x_ptr", "D")}))
    assert "`x_ptr`" not in explain(checked(sent, {"kernel": ("D",)}))
    assert "`kernel`" not in explain(checked(sent, {"other": ("x_ptr",)}))
    assert checked(sent | {"lanes": MOST + 1}, {}) is None


def test_a_single_element_and_several_axes_are_told_as_such():
    one = fault("out-of-bounds", "past-the-end", "load", count=1, lanes=1, program=(1, 2, 0))
    assert explain(one).startswith(
        "In `kernel`, program (1, 2): the one element that it loads lies past the end of `x_ptr`"
    )


def test_kernels_are_functions_that_some_jit_decorates():
    source = """
import triton
from triton import jit
@triton.jit
def a(x, *, D): pass
@triton.heuristics({"B": f})
@jit
def b(y): pass
@triton.jit(do_not_specialize=["n"])
def c(n): pass
def plain(z): "jit"
"""
    assert jit_functions([source, "not python jit (", "x = 1"]) == {
        "a": ("x", "D"), "b": ("y",), "c": ("n",),
    }  # fmt: skip


def test_a_mask_that_is_there_is_not_recommended():
    out = fault("out-of-bounds", "past-the-end", "store", count=2, lanes=8, distance=1)
    assert "give tl.store a mask" in explain(out, "tl.store(y_ptr + row * x_stride + cols, y)")
    text = explain(out, "tl.store(y_ptr + row * x_stride + cols, y, mask=mask)")
    assert "give tl.store a mask" not in text and "step from row to row" in text
