"""Packages and limits are told as the grader has them, in the book and in each notebook."""

from __future__ import annotations

import json
import re
import sys

import pytest

from autograder import release
from autograder.testing import allowance
from autograder.testing.allowance import ROOT

sys.path.append(str(ROOT / "book" / "_ext"))
import allowance_tables

NAMES = sorted(path.parent.name for path in allowance.SUITES.glob("*/suite.toml"))


def test_the_packages_are_those_that_the_pins_offer():
    text = (ROOT / "requirements.txt").read_text()
    for name, version in allowance.packages().items():
        assert re.search(rf"(?m)^\S+=={re.escape(version)}\b.*\[learners: {name}\]$", text)
    assert len(allowance.packages()) == len(re.findall(r"(?m)^\w.*\[learners: ", text)) >= 5
    assert "torch" in allowance.packages() and "pytest" not in allowance.packages()
    assert allowance.what_is_there().endswith(" and Python's own modules")


def test_without_the_list_of_pins_nothing_is_promised(tmp_path):
    assert allowance.packages(tmp_path) == {}


@pytest.mark.parametrize("name", NAMES)
def test_the_first_cell_of_each_notebook_tells_packages_and_limits_in_one_line(name):
    cells = json.loads((ROOT / "exercises" / name / f"{name}.ipynb").read_text())["cells"]
    last = "".join(cells[0]["source"]).splitlines()[-1]
    assert last == allowance.line(name)
    limits = allowance.budget(name)
    for told in (
        f"{limits.call_seconds:g} s for a call", f"{limits.cell_seconds:g} s for a cell",
        f"{limits.start_seconds:g} s for all cells", f"{limits.submission_seconds:g} s in all",
        f"{limits.memory_mib} MiB", *allowance.packages(), f"{allowance.PAGE}.html",
    ):  # fmt: skip
        assert told in last
    assert (ROOT / "book" / f"{allowance.PAGE}.md").is_file()


def test_the_tables_of_the_page_hold_what_the_grader_keeps():
    limits, packages = allowance_tables.limits(), allowance_tables.packages()
    for name in NAMES:
        budget = allowance.budget(name)
        assert f"| `{name}` | {budget.call_seconds:g} s | {budget.cell_seconds:g} s |" in limits
    assert all(f"| `{name}` | {v} |" in packages for name, v in allowance.packages().items())


def test_the_grader_takes_its_limits_from_here():
    from autograder.testing.suite import load

    assert load("layernorm").budget == allowance.budget("layernorm")


def test_an_assignment_without_a_suite_is_released_without_the_line(tmp_path):
    source = tmp_path / "solutions" / "boxes"
    source.mkdir(parents=True)
    (source / "boxes.py").write_text("# %% [markdown]\n# # Boxes\n\n# %%\nx = 1\n")
    assert "What the grader has" not in release.build_source("boxes", tmp_path).read_text()
