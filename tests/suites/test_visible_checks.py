"""The checks that learners see pass for a right answer and say what is wrong with another."""

import contextlib
import importlib
import io
import re

import nbformat
import pytest
import torch
from in_process import gradable, load

from autograder import release

ASSIGNMENTS = gradable()

MISTAKES = {
    name: importlib.import_module(f"expectations.{name}").MISTAKES
    if (release.ROOT / "tests" / "expectations" / f"{name}.py").is_file()
    else {}
    for name in ASSIGNMENTS
}
CASES = [
    (name, exercise, mistake)
    for name in ASSIGNMENTS
    for exercise, mistakes in MISTAKES[name].items()
    for mistake in mistakes
]


def notebook(name):
    return nbformat.read(release.build_source(name), as_version=4)


def solved(name):
    """A fresh namespace in which the solution cells of the notebook have run, but no check."""
    load(name)  # where there are kernels, has them watched: a wrong one could end this process
    space = {}
    for cell in notebook(name).cells:
        if cell.cell_type == "code" and not cell.metadata.get("nbgrader", {}).get("grade"):
            exec(cell.source, space)
    return space


def check_of(name, exercise):
    cells = {
        c.metadata.nbgrader.grade_id: c for c in notebook(name).cells if "nbgrader" in c.metadata
    }
    return cells[f"test_{exercise}"].source


@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_all_cells_of_the_solution_notebook_run_in_order_and_say_so(name, capsys):
    space = {}
    for cell in notebook(name).cells:
        if cell.cell_type == "code":
            exec(cell.source, space)
    said = capsys.readouterr().out.splitlines()
    count = len(release.points(name))
    assert said == [f"Exercise {n}: the visible checks pass." for n in range(1, count + 1)]


@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_every_check_says_not_implemented_for_an_untouched_stub(name):
    for exercise in release.points(name):
        space = solved(name)
        exec(release.stub(name, exercise), space)
        with pytest.raises(NotImplementedError):
            exec(check_of(name, exercise), space)


@pytest.mark.parametrize("name, exercise, mistake", CASES, ids=[f"{e}: {m}" for _, e, m in CASES])
def test_a_classic_mistake_fails_the_check_with_a_message_about_it(name, exercise, mistake):
    right, wrong, message = MISTAKES[name][exercise][mistake]
    source = release.solution_cells(name)[exercise]
    assert right in source, "the mistake no longer applies to the solution"
    space = solved(name)
    exec(source.replace(right, wrong), space)
    torch.manual_seed(0)  # checks draw their inputs, and which of their messages comes first
    with pytest.raises(AssertionError) as caught:
        exec(check_of(name, exercise), space)
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_every_exercise_is_tried_with_at_least_three_mistakes(name):
    assert set(MISTAKES[name]) == set(release.points(name)), "see tests/expectations/"
    assert min(len(mistakes) for mistakes in MISTAKES[name].values()) >= 3


@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_the_expected_output_shown_is_what_the_solution_prints(name):
    """Down to the zero that may print as -0.0000 and the name of grad_fn, as the text says."""
    shown = [
        re.search(
            r"Expected output</summary>.*?```python\n(.*?)```.*?```\n(.*?)```", c.source, re.S
        )
        for c in notebook(name).cells
        if c.cell_type == "markdown" and c.source.startswith("## Exercise")
    ]
    assert len(shown) == len(release.points(name)) and all(shown)
    for code, expected in (match.groups() for match in shown):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, solved(name))
        plain = [re.sub(r"-0\.(0*)\b", r" 0.\1", text) for text in (printed.getvalue(), expected)]
        assert plain[0] == plain[1]
