"""Notebooks with the same code are found, whatever their names and layout, and no others."""

from __future__ import annotations

import pytest

from autograder.reading import similar
from autograder.reading.similar import fingerprint, groups
from autograder.reading.submission import Cell, Submission

NORM = '''
def norm(x, weight, eps=1e-5):
    """Normalize x."""
    mean = x.mean(-1, keepdim=True)  # of each row
    var = ((x - mean) ** 2).mean(-1, keepdim=True)
    return (x - mean) / (var + eps).sqrt() * weight
'''
RENAMED = """
def norm(inp, w, epsilon=1e-5):

    mu = inp.mean(-1, keepdim=True)
    # the variance
    v = ((inp - mu)**2).mean(
        -1, keepdim=True)
    return (inp - mu)/(v + epsilon).sqrt()*w
"""
SCALE = """
class Scale(nn.Module):
    def forward(self, x):
        return [norm(row, self.weight) for row in x if row is not None]
"""


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    monkeypatch.setattr(similar, "ENOUGH", 40)


def notebook(*cells, untouched=()):
    made = [
        Cell(index=i, origin=origin, grade_id=name, source=source)
        for i, (origin, name, source) in enumerate(cells)
    ]
    return Submission(made, sha256="", untouched=set(untouched))


def code(*sources):
    names = ("norm", "Scale")[: len(sources)]
    return fingerprint(notebook(*(("solution", n, s) for n, s in zip(names, sources, strict=True))))


def test_names_comments_and_layout_make_no_difference():
    assert code(NORM) == code(RENAMED) != ""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("** 2", "** 3"), ("- mean)", "+ mean)"), (".mean(-1", ".sum(-1"), ("1e-5", "1e-6"),
        ("keepdim", "dim"), ("* weight", ""), ("/ (var", "/ (mean"), ("    return", "    y ="),
        ("def norm", "async def norm"), ("eps=1e-5", "*, eps=1e-5"),
    ],
)  # fmt: skip
def test_code_that_differs_otherwise_is_not_the_same(old, new):
    assert old in NORM and code(NORM.replace(old, new)) != code(NORM)


def test_all_exercises_count_in_whatever_order_they_stand():
    forward = [("solution", "norm", NORM), ("solution", "Scale", SCALE)]
    assert fingerprint(notebook(*forward)) == fingerprint(notebook(*forward[::-1]))
    assert code(NORM, SCALE) != code(NORM)
    assert code(NORM, SCALE) != code(NORM, SCALE.replace("is not", "is"))


def test_cells_beside_the_exercises_and_untouched_stubs_do_not_count():
    more = [("given", None, "import torch"), ("added", None, "print(1)")]
    stub = ("solution", "Scale", SCALE)
    written = ("solution", "norm", NORM)
    assert fingerprint(notebook(*more, written, stub, untouched=["Scale"])) == code(NORM)
    assert fingerprint(notebook(stub, untouched=["Scale"])) == ""


def test_little_code_and_code_that_cannot_be_read_say_nothing(monkeypatch):
    assert code("def norm(x):\n    return x") == ""
    assert code(NORM + "\n)") == ""
    assert code("x = " + "-" * 5000 + "1\n" + NORM) == ""
    monkeypatch.undo()
    assert code(NORM) == ""


def test_groups_are_of_two_or_more_with_equal_code():
    found = [("b", "1"), ("a", "1"), ("c", "2"), ("d", ""), ("e", ""), ("f", "3"), ("g", "3")]
    results = [{"student": s, "code": c} for s, c in found] + [{"student": "h"}]
    assert groups(results) == [["a", "b"], ["f", "g"]]
