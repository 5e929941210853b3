"""What learners get is generated, complete, and holds no solution."""

import ast
import re
import shutil
import sys

import nbformat
import pytest
import torch

from autograder import release

ASSIGNMENTS = release.assignments()
POINTS = {"layernorm": {"layer_norm": 8, "LayerNorm": 5, "layer_norm_backward": 7}}

SOURCE = """\
# %% [markdown]
# # Halves

# %% nbgrader={"grade_id": "half", "solution": true}
def half(x):
    ### BEGIN SOLUTION
    return x / 2
    ### END SOLUTION


# %% tags=["active-ipynb"] nbgrader={"grade_id": "test_half", "points": 2}
# assert half(4) == 2, "half of 4 is 2"
"""

QUESTION = """

# %% [markdown] nbgrader={"grade_id": "written_why", "written": true, "points": 3}
# Why?
#
# ### BEGIN SOLUTION
# One point for each half.
# ### END SOLUTION
"""


@pytest.fixture
def course(tmp_path):
    """A course folder with the project's nbgrader settings and the tiny assignment `halves`."""
    shutil.copy(release.ROOT / "nbgrader_config.py", tmp_path)
    write(tmp_path, SOURCE)
    return tmp_path


def write(root, text):
    path = root / "solutions" / "halves" / "halves.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def released(name):
    return nbformat.read(release.ROOT / "exercises" / name / f"{name}.ipynb", as_version=4)


def by_grade_id(notebook):
    return {
        cell.metadata.nbgrader.grade_id: cell
        for cell in notebook.cells
        if "nbgrader" in cell.metadata
    }


def files(root):
    return sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file())


# ---- exercises/ as committed ---------------------------------------------------------------------


def test_there_is_a_released_folder_for_each_assignment_and_for_nothing_else():
    assert "layernorm" in ASSIGNMENTS
    folders = sorted(p.name for p in (release.ROOT / "exercises").iterdir() if p.is_dir())
    assert [name for name in folders if name[0] != "."] == ASSIGNMENTS


@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_exercises_are_up_to_date_with_solutions(name):
    assert release.check(name) is None


@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_notebook_is_valid_for_nbformat_and_for_nbgrader(name):
    from nbgrader.nbgraderformat import MetadataValidator

    for path in (release.build_source(name), release.ROOT / "exercises" / name / f"{name}.ipynb"):
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
        MetadataValidator().validate_nb(notebook)
        ids = [cell.id for cell in notebook.cells]
        assert len(ids) == len(set(ids))


IDIOMS = {"with torch.no_grad():"}  # says nothing by itself, and the docstring asks for it


@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_no_released_file_holds_a_solution_a_marker_or_code_beside_the_notebook(name):
    folder = release.ROOT / "exercises" / name
    assert [p.name for p in folder.iterdir() if p.name != ".ipynb_checkpoints"] == [f"{name}.ipynb"]
    code = [cell.source for cell in released(name).cells if cell.cell_type == "code"]
    text = (folder / f"{name}.ipynb").read_text()
    assert not [marker for marker in release.MARKERS if marker in text]
    assert not re.search(r"pytest|autograder|misconception|from solutions|import solutions", text)
    stubs = {n: release.stub(name, n) for n in release.solution_cells(name)}
    # A ready part that a notebook gives may be built like one that is to be written.
    given = [c.source for n, c in by_grade_id(released(name)).items() if n.startswith("given_")]
    code = [source for source in code if source not in given]
    for exercise, source in release.solution_cells(name).items():
        shown = {line.strip() for line in stubs[exercise].split("\n")}
        secret = [line.split("  #")[0].strip() for line in source.split("\n")]
        secret = [line for line in secret if line not in shown and len(line) > 12]
        secret = [line for line in secret if line not in IDIOMS]
        assert secret, f"{exercise} has no solution line to look for"
        assert not [line for line in secret for cell in code if line in cell]


@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_each_stub_raises_not_implemented_and_nothing_else(name):
    space = {}
    for cell in released(name).cells:
        if cell.cell_type == "code" and not cell.metadata.get("nbgrader", {}).get("grade"):
            exec(cell.source, space)
    for exercise in release.points(name):
        code = space[exercise].__init__ if isinstance(space[exercise], type) else space[exercise]
        required = code.__code__.co_argcount - len(code.__defaults__ or ())
        required -= isinstance(space[exercise], type)
        with pytest.raises(NotImplementedError):
            space[exercise](*[torch.ones(2, 2)] * required)


@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_every_exercise_is_stub_then_locked_check_with_points(name):
    cells = by_grade_id(released(name))
    order = list(cells)
    for exercise, worth in release.points(name).items():
        solution = cells[exercise].metadata.nbgrader
        check = cells[f"test_{exercise}"].metadata.nbgrader
        assert order.index(f"test_{exercise}") == order.index(exercise) + 1
        assert (solution.solution, solution.grade, solution.locked) == (True, False, False)
        assert (check.solution, check.grade, check.locked) == (False, True, True)
        assert (check.points, check.schema_version) == (worth, 3)
        assert cells[f"test_{exercise}"].metadata.editable is False
        assert ast.get_docstring(ast.parse(cells[exercise].source).body[0])
    assert sum(release.points(name).values()) > 0


@pytest.mark.parametrize("name", POINTS)
def test_points_of_the_exercises(name):
    assert release.points(name) == POINTS[name]
    assert sum(release.points(name).values()) == 20


@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_notebook_needs_only_torch_matplotlib_and_triton(name):
    imported = {
        alias.name if isinstance(node, ast.Import) else node.module
        for cell in nbformat.read(release.build_source(name), as_version=4).cells
        if cell.cell_type == "code"
        for node in ast.walk(ast.parse(cell.source))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    tops = {module.split(".")[0] for module in imported}
    assert tops <= {"torch", "matplotlib", "triton", *sys.stdlib_module_names} and "torch" in tops


@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_every_exercise_states_points_time_and_difficulty_and_has_three_hints(name):
    text = [cell.source for cell in released(name).cells if cell.cell_type == "markdown"]
    exercises = [t for t in text if t.startswith("## Exercise")]
    assert len(exercises) == len(release.points(name))
    for source, worth in zip(exercises, release.points(name).values(), strict=True):
        assert re.search(rf"\*{worth:g} points, (easy|medium|hard), about \d+ minutes\*", source)
        assert re.findall(r"<summary>(Hint \d|Expected output)", source) == [
            "Hint 1",
            "Hint 2",
            "Hint 3",
            "Expected output",
        ]
        assert source.count("<details>") == source.count("</details>") == 4
    assert "not the same as passing the hidden tests" in text[0].replace("\n", " ")
    assert text[-1].startswith("## Before you hand in")


@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_marking_guides_of_written_questions_stay_with_the_instructor(name):
    cells = by_grade_id(released(name))
    source = by_grade_id(nbformat.read(release.build_source(name), as_version=4))
    shown = {line for cell in released(name).cells for line in cell.source.split("\n")}
    for question, worth in release.written(name).items():
        meta = cells[question].metadata.nbgrader
        assert (meta.solution, meta.grade, meta.locked, meta.points) == (True, True, False, worth)
        assert cells[question].cell_type == "markdown"
        assert cells[question].source.rstrip().endswith("YOUR ANSWER HERE")
        assert "marking guide" in source[question].source.lower()
        guide = source[question].source.split(release.BEGIN)[1].split("\n")[1:-1]
        assert not [line for line in guide if len(line) > 12 and line in shown]


# ---- the pipeline, on a tiny course --------------------------------------------------------------


def test_release_replaces_the_solution_and_keeps_the_check(course):
    path = release.release("halves", course)
    cells = by_grade_id(nbformat.read(path, as_version=4))
    assert cells["half"].source == (
        "def half(x):\n    # YOUR CODE HERE\n    raise NotImplementedError()"
    )
    assert cells["test_half"].source == 'assert half(4) == 2, "half of 4 is 2"'
    assert release.stub("halves", "half", course) == cells["half"].source
    assert release.solution_cells("halves", course) == {"half": "def half(x):\n    return x / 2"}
    assert release.points("halves", course) == {"half": 2.0}
    assert release.assignments(course) == ["halves"]


def test_a_written_question_is_a_manually_graded_text_cell_without_its_guide(course):
    write(course, SOURCE + QUESTION)
    cell = by_grade_id(nbformat.read(release.release("halves", course), as_version=4))[
        "written_why"
    ]
    assert (cell.cell_type, cell.source) == ("markdown", "Why?\n\nYOUR ANSWER HERE")
    kept = {k: cell.metadata.nbgrader[k] for k in ("grade", "solution", "locked", "task", "points")}
    assert kept == {"grade": True, "solution": True, "locked": False, "task": False, "points": 3}
    assert "written" not in cell.metadata.nbgrader
    assert release.written("halves", course) == {"written_why": 3.0}
    assert release.points("halves", course) == {"half": 2.0}
    assert list(release.solution_cells("halves", course)) == ["half"]
    with pytest.raises(release.ReleaseError, match="no exercise 'written_why', there are half"):
        release.stub("halves", "written_why", course)


def test_a_written_answer_in_exercises_is_not_overwritten(course):
    write(course, SOURCE + QUESTION)
    path = release.release("halves", course)
    path.write_text(path.read_text().replace("YOUR ANSWER HERE", "Because 2 + 2 = 4."))
    write(course, SOURCE + QUESTION.replace("Why?", "Why so?"))
    with pytest.raises(release.ReleaseError, match="holds an answer to written_why"):
        release.release("halves", course)


def test_release_writes_the_same_bytes_each_time_and_no_gradebook(course):
    first = release.release("halves", course).read_bytes()
    source = release.build_source("halves", course).read_bytes()
    shutil.rmtree(course / "exercises")
    shutil.rmtree(course / "build")
    assert release.release("halves", course).read_bytes() == first
    assert release.build_source("halves", course).read_bytes() == source
    assert files(course) == [
        "build/source/halves/halves.ipynb",
        "exercises/halves/halves.ipynb",
        "nbgrader_config.py",
        "solutions/halves/halves.py",
    ]


def test_files_beside_the_source_are_not_released(course):
    release.build_source("halves", course)
    (course / "build/source/halves/answers.txt").write_text("x / 2")
    (course / "solutions/halves/answers.txt").write_text("x / 2")
    release.release("halves", course)
    assert files(course / "exercises") == ["halves/halves.ipynb"]


def test_register_enters_cells_and_points_into_the_gradebook(course, monkeypatch):
    from nbgrader.api import Gradebook

    url = f"sqlite:///{course}/other.db"
    monkeypatch.setenv("COURSE_DB_URL", url)
    release.release("halves", course, register=True)
    with Gradebook(url) as gradebook:
        notebook = gradebook.find_assignment("halves").notebooks[0]
        assert {cell.name: cell.max_score for cell in notebook.grade_cells} == {"test_half": 2}
        assert [cell.name for cell in notebook.solution_cells] == ["half"]
    assert not (course / "gradebook.db").exists()


def test_check_tells_missing_outdated_and_foreign_files(course):
    assert "is missing" in release.check("halves", course)
    path = release.release("halves", course)
    assert release.check("halves", course) is None
    (path.parent / "halves.py").write_text("")
    assert release.check("halves", course) == (
        "exercises/halves/halves.py is not a released file, remove it"
    )
    (path.parent / "halves.py").unlink()
    write(course, SOURCE.replace('"points": 2', '"points": 3'))
    assert "not up to date" in release.check("halves", course)


def test_answers_in_exercises_are_not_overwritten_without_force(course):
    path = release.release("halves", course)
    answer = path.read_text().replace("raise NotImplementedError()", "return 0.5 * x")
    path.write_text(answer)
    with pytest.raises(release.ReleaseError, match="holds an answer to half"):
        release.release("halves", course)
    assert path.read_text() == answer
    release.release("halves", course, force=True)
    assert "0.5 * x" not in path.read_text()


def test_a_failing_release_keeps_the_last_good_one(course):
    good = release.release("halves", course).read_bytes()
    write(course, SOURCE.replace("### END SOLUTION", ""))
    with pytest.raises(release.ReleaseError):
        release.release("halves", course)
    assert (course / "exercises/halves/halves.ipynb").read_bytes() == good


def test_a_release_that_would_hold_a_solution_line_is_refused(course, monkeypatch):
    from nbgrader.preprocessors import ClearSolutions

    monkeypatch.setattr(ClearSolutions, "preprocess", lambda self, nb, resources: (nb, resources))
    with pytest.raises(release.ReleaseError, match="would hold a solution line"):
        release.release("halves", course)
    assert not (course / "exercises").exists()


SECOND = SOURCE.split("\n\n", 1)[1]
BROKEN = {
    "header that is not JSON": ('"solution": true}', '"solution": true', "cannot be read"),
    "metadata that is no object": (
        'nbgrader={"grade_id": "half", "solution": true}',
        "nbgrader=3",
        "cannot be read: 3",
    ),
    "unknown key": ('"solution": true', '"solutoin": true', "cannot be read"),
    "no grade_id": ('"grade_id": "half", ', "", "needs a grade_id"),
    "bad grade_id": ('"grade_id": "half"', '"grade_id": "ha lf"', "needs a grade_id"),
    "duplicate grade_id": (SECOND, f"{SECOND}\n\n{SECOND}", "repeats the grade_id 'half'"),
    "check without solution": ('"test_half"', '"test_third"', "without a solution cell"),
    "solution without check": (SECOND, SECOND.split("\n\n\n")[0], "no check cell test_half"),
    "points as text": ('"points": 2', '"points": "2"', "points '2'"),
    "negative points": ('"points": 2', '"points": -2', "points -2"),
    "old schema": ('"points": 2', '"points": 2, "schema_version": 1', "schema_version=1"),
    "solution that can be graded": ('"solution": true', '"solution": 1', "solution=1"),
    "no end marker": ("    ### END SOLUTION\n", "", "needs pairs of the lines"),
    "no markers": ("### BEGIN SOLUTION\n", "#\n", "needs pairs of the lines"),
    "marker elsewhere": ("# # Halves", "# # Halves\n# ### BEGIN SOLUTION", "not a solution cell"),
    "hidden tests": ("# assert", "# ### BEGIN HIDDEN TESTS\n# assert", "holds HIDDEN TESTS"),
    "not Python": ("return x / 2", "return x /", "is not Python"),
    "another name": ("def half(", "def halve(", "must define half"),
    "check runs on import": (' tags=["active-ipynb"]', "", "must be a code cell tagged"),
}


BROKEN_QUESTION = {
    "another name": ("written_why", "why", "must be a markdown cell named written_<word>"),
    "code": ("# %% [markdown] ", "# %% ", "must be a markdown cell named written_<word>"),
    "no guide": ("# ### BEGIN SOLUTION\n", "", "needs pairs of the lines"),
    "no points": (', "points": 3', "", "points None"),
    "points of another kind": ('"points": 3', '"points": true', "points True"),
    "not a flag": ('"written": true', '"written": 1', "written=1"),
}


@pytest.mark.parametrize("name", BROKEN_QUESTION)
def test_a_broken_question_is_refused_in_one_line(course, name):
    old, new, message = BROKEN_QUESTION[name]
    assert old in QUESTION
    write(course, SOURCE + QUESTION.replace(old, new))
    with pytest.raises(release.ReleaseError) as caught:
        release.build_source("halves", course)
    assert message in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_source_is_refused_in_one_line(course, name):
    old, new, message = BROKEN[name]
    assert old in SOURCE
    write(course, SOURCE.replace(old, new))
    with pytest.raises(release.ReleaseError) as caught:
        release.build_source("halves", course)
    assert message in str(caught.value) and "\n" not in str(caught.value)
    assert not (course / "build").exists()


@pytest.mark.parametrize("name", ["nope", "../layernorm", "", "layernorm/"])
def test_an_unknown_assignment_gives_one_line_and_exit_code_1(name, capsys):
    assert release.main([name]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == f"release: no assignment {name!r}, there are: {', '.join(ASSIGNMENTS)}\n"


def test_unknown_exercise_and_missing_release_give_one_line(course):
    with pytest.raises(release.ReleaseError, match="is missing, run make exercises"):
        release.stub("halves", "half", course)
    with pytest.raises(release.ReleaseError, match="no exercise 'third', there are half"):
        release.release("halves", course)
        release.stub("halves", "third", course)


def test_check_on_the_command_line_exits_1_with_one_line_when_outdated(course, monkeypatch, capsys):
    monkeypatch.setattr(release.check, "__defaults__", (course,))
    monkeypatch.setattr(release.assignments, "__defaults__", (course,))
    assert release.main(["--check"]) == 1
    assert capsys.readouterr().err == (
        "release: halves: exercises/halves/halves.ipynb is missing, run make exercises\n"
    )
    release.release("halves", course)
    assert release.main(["--check"]) == 0
    assert capsys.readouterr().out == "halves: up to date\n"
