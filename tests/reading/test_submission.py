"""Reading a submission: which cells are executed, and what is said about the rest."""

import ast
import copy
import json
from functools import partial

import boxes
import pytest
from boxes import (
    ANSWER,
    ANSWER_2,
    CHECK,
    DONE,
    RELEASED_NOTEBOOK,
    STUB,
    STUB_2,
    cell,
    filled,
    is_done,
    notebook,
    sources,
)

from autograder.reading.magics import parse_or_raise, to_python
from autograder.reading.notebook import MAX_CODE_CHARS
from autograder.reading.submission import MAX_TEXT_CELLS, released


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return boxes.released_in(tmp_path_factory.mktemp("released"))


@pytest.fixture
def hand_in(tmp_path, base):
    return partial(boxes.hand_in_to, tmp_path, base)


# --- the released notebook ----------------------------------------------------------------------


def test_released_cells_are_sorted_by_what_they_do(base):
    kinds = [(c.kind, c.names) for c in base.cells]
    assert kinds == [
        ("given", ()),
        ("solution", ("area",)),
        ("test", ()),
        ("solution", ("Box",)),
        ("test", ()),
        ("demo", ()),  # uses area when it runs
        ("demo", ()),  # uses what a demo defines
        ("given", ()),  # uses area when it is called
    ]
    assert base.graded == ("area", "Box")


def test_a_released_notebook_without_a_graded_name_is_refused(tmp_path):
    path = tmp_path / "x.ipynb"
    path.write_text(json.dumps(notebook(cell("y = 1", "x", solution=True))))
    with pytest.raises(ValueError, match="no solution cell defines"):
        released(path)


# --- what is executed ---------------------------------------------------------------------------


def test_given_cells_come_first_from_the_released_notebook_then_the_learner_s(hand_in):
    got = hand_in(DONE)
    assert [(c.index, c.origin, c.grade_id) for c in got.cells] == [
        (-1, "given", None),
        (-2, "given", None),
        (2, "solution", "area"),
        (4, "solution", "Box"),
    ]
    assert is_done(got) and got.notices == []


def test_untouched_stubs_are_kept_and_named(hand_in):
    got = hand_in(filled(area=ANSWER))
    assert got.untouched == {"Box"} and got.missing == []
    assert sources(got, "solution") == [ANSWER, STUB_2]


def test_a_stub_with_other_comments_and_blanks_is_untouched(hand_in):
    got = hand_in(filled(area="def area(w, h):\n\n    # help\n    raise  NotImplementedError()\n"))
    assert got.untouched == {"area", "Box"}


def test_added_cells_run_in_notebook_order(hand_in):
    made = copy.deepcopy(DONE)
    made["cells"].insert(3, cell("helper = 1"))
    made["cells"].append(cell("last = 2"))
    got = hand_in(made)
    assert sources(got)[2:] == [ANSWER, "helper = 1", ANSWER_2, "last = 2"]
    assert [c.origin for c in got.cells[2:]] == ["solution", "added", "solution", "added"]
    assert [c.index for c in got.cells[2:]] == [2, 3, 5, 10]


def test_a_changed_given_cell_runs_besides_the_released_one(hand_in):
    made = copy.deepcopy(DONE)
    made["cells"][1]["source"] = "import math\nimport random\nSIDE = 3"
    assert sources(hand_in(made), "added") == ["import math\nimport random\nSIDE = 3"]
    del made["cells"][1]
    assert sources(hand_in(made), "given")[0] == "import math\nSIDE = 2"


@pytest.mark.parametrize("position", [0, 2, 9])
def test_a_stub_is_dropped_when_its_name_is_defined_anywhere_else(hand_in, position):
    made = filled(Box=ANSWER_2)
    made["cells"].insert(position, cell(ANSWER))
    got = hand_in(made)
    assert got.untouched == set() and STUB not in sources(got)
    assert ANSWER in sources(got, "solution")


@pytest.mark.parametrize(
    "answer",
    [
        "area = lambda w, h: w * h",
        "def mul(w, h):\n    return w * h\narea = mul",
        "from operator import mul as area",
        "import operator\narea: object = operator.mul",
        "if True:\n    def area(w, h):\n        return w * h",
        "try:\n    import fast\nexcept ImportError:\n    area = max",
        "a, area = 1, max",
        "globals()['area'] = max",
        "async def area(w, h):\n    return w * h",
        "for area in [max]:\n    pass",
        "class area:\n    pass",
    ],
)
def test_every_way_to_define_the_name_counts(hand_in, answer):
    got = hand_in(notebook(cell(answer), cell(STUB, "area"), cell(ANSWER_2)))
    assert got.missing == [] and got.untouched == set()
    assert got.cells[2].grade_id == "area" and STUB not in sources(got)


@pytest.mark.parametrize(
    "other",
    [
        "print(area(1, 2))",
        "def f():\n    area = 1\n    return area",
        "class K:\n    area = 1\n    def Box(self):\n        pass",
        "[area for area in range(3)]",
        "x.area = 1",
    ],
)
def test_a_mere_use_of_the_name_does_not_define_it(hand_in, other):
    got = hand_in(notebook(cell(STUB, "area"), cell(other), cell(STUB_2, "Box")))
    assert got.untouched == {"area", "Box"}


def test_a_deleted_solution_is_missing_and_said_so(hand_in):
    made = copy.deepcopy(DONE)
    del made["cells"][2]
    got = hand_in(made)
    assert got.missing == ["area"] and "no cell defines area" in got.notices


def test_two_different_definitions_are_mentioned_and_both_run(hand_in):
    made = copy.deepcopy(DONE)
    made["cells"].append(cell("def area(w, h):\n    return h * w"))
    got = hand_in(made)
    assert got.notices == ["area is defined in cells 3, 10: the last one counts"]
    assert len(sources(got, "solution")) == 3


def test_a_notebook_with_every_cell_twice_is_graded_without_a_word(hand_in):
    made = copy.deepcopy(DONE)
    made["cells"] = [c for c in made["cells"] for _ in range(2)]
    got = hand_in(made)
    assert set(sources(got, "solution")) == {ANSWER, ANSWER_2} and got.notices == []
    made["cells"] = DONE["cells"] + RELEASED_NOTEBOOK["cells"]
    assert is_done(hand_in(made))


@pytest.mark.parametrize(
    "change",
    [
        {"grade_id": "test_area"},
        {"grade_id": "Box"},
        {"grade_id": None},
        {"grade_id": 7},
        {"grade_id": ["area"]},
        {"grade": True, "solution": False, "locked": True, "points": 1e9},
        {"schema_version": 99},
        {"schema_version": 1, "task": True},
    ],
)
def test_metadata_changes_nothing(hand_in, change):
    made = copy.deepcopy(DONE)
    for item in made["cells"]:
        item["metadata"].setdefault("nbgrader", {}).update(change)
        item["metadata"]["tags"] = ["remove", "otter_ignore"]
    assert is_done(hand_in(made))
    for item in made["cells"]:
        item["metadata"] = {"nbgrader": change.get("grade_id", [])}
    assert is_done(hand_in(made))
    for item in made["cells"]:
        item["metadata"] = None
    assert is_done(hand_in(made))


def test_changed_check_cells_are_known_by_their_id_but_only_if_they_define_nothing_graded(hand_in):
    made = copy.deepcopy(DONE)
    made["cells"][3]["source"] = "assert True"
    assert "assert True" not in sources(hand_in(made))
    made["cells"][3]["source"] = CHECK + "\n# mine"
    made["cells"][3]["metadata"] = {}
    assert not any("mine" in source for source in sources(hand_in(made)))
    made["cells"][3] = cell(ANSWER, "test_area", grade=True)
    made["cells"][2]["source"] = STUB
    assert is_done(hand_in(made))


def test_a_solution_in_a_text_cell_is_run(hand_in):
    made = copy.deepcopy(DONE)
    made["cells"][2]["cell_type"] = "markdown"
    got = hand_in(made)
    assert is_done(got)
    assert got.notices == ["cell 3 is a text cell but holds area: run as code"]


@pytest.fixture
def parsed(monkeypatch):
    """The sizes of the texts that Python was asked to parse."""
    sizes, parse = [], ast.parse
    monkeypatch.setattr(ast, "parse", lambda text, *_: sizes.append(len(text)) or parse(text))
    parse_or_raise.cache_clear()
    return sizes


LEFT_OUT = "text cells that look like code were left out ({}): make a code cell of each that counts"


@pytest.mark.parametrize(("cells", "lines", "tried"), [(195, 6_000, 3), (200, 1, MAX_TEXT_CELLS)])
def test_few_text_cells_are_tried_as_code(hand_in, parsed, cells, lines, tried):
    unreadable = "  def area(w, h):\n" + "    x = w + h\n" * lines + "    x = (\n"
    made = filled(Box=ANSWER_2)
    made["cells"] += [cell(unreadable, kind="markdown") for _ in range(cells)]
    got = hand_in(made)
    assert got.untouched == {"area"} and LEFT_OUT.format(cells - tried) in got.notices
    of_cells = [size for size in parsed if abs(size - len(unreadable)) < 10]
    assert 0 < len(of_cells) <= 4 * tried  # as it is, without its indent, with magics replaced
    assert sum(parsed) <= 3 * MAX_CODE_CHARS + 10_000


def test_code_cells_leave_the_less_room_for_text_cells(hand_in, parsed):
    made = filled(Box=ANSWER_2)
    own = "x = 1\n" * 15_000  # 90,000 characters
    made["cells"] += [cell(f"own_{n} = 1\n{own}") for n in range(3)]
    made["cells"].append(cell("def area(w, h):\n" + "    # a remark\n" * 3_000, kind="markdown"))
    assert LEFT_OUT.format(1) in hand_in(made).notices


def test_an_exercise_s_own_cell_is_tried_before_other_text_cells(hand_in):
    made = filled(Box=ANSWER_2)
    text = [cell("def area(w, h):\n    return (", kind="markdown") for _ in range(50)]
    own = cell(ANSWER, "area", kind="markdown", solution=True)
    made["cells"] = [*text, *(c for c in made["cells"] if c["source"] != STUB), own]
    assert ANSWER in sources(hand_in(made))


def test_code_in_text_cells_does_not_replace_a_code_cell(hand_in):
    made = copy.deepcopy(DONE)
    made["cells"].append(cell("def area(w, h):\n    return 0", kind="raw"))
    assert is_done(hand_in(made))


def test_a_syntax_error_costs_only_its_cell(hand_in):
    made = copy.deepcopy(DONE)
    made["cells"][2]["source"] = "def area(w, h):\n    return (w * h"
    made["cells"].append(cell(STUB, "area"))
    got = hand_in(made)
    assert got.broken == {"area": "cell 3: syntax error in line 2 ('(' was never closed)"}
    assert "cell 3 was not run: syntax error in line 2 ('(' was never closed)" in got.notices
    assert got.untouched == set() and ANSWER_2 in sources(got) and STUB not in sources(got)


def test_a_broken_cell_whose_name_is_gone_is_found_by_its_id(hand_in):
    got = hand_in(filled(area="d ef area:(", Box=ANSWER_2))
    assert list(got.broken) == ["area"] and got.missing == []


# --- IPython ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "python"),
    [
        ("%%time\nx = 1", "\nx = 1"),
        ("\n%%capture out\n%%time\nx = 1", "\n\n\nx = 1"),
        ("%matplotlib inline\nx = 1", "pass\nx = 1"),
        ("!pip install torch \\\n  numpy\nx = 1", "pass\n\nx = 1"),
        ("pip install torch\nx = 1", "pass\nx = 1"),
        ("if x:\n    !ls\n    %time y = f(x)", "if x:\n    pass\n    y = f(x)"),
        ("files = !ls\na, b = %who_ls", "files = None\na = b = None"),
        ("area?\n?area\nnp.mean??\nx = 1", "pass\npass\npass\nx = 1"),
        ("y = (7\n% 4)\n%magic", "y = (7\n% 4)\npass"),
        ("s = '''\n%not\n!not\n'''\n%yes", "s = '''\n%not\n!not\n'''\npass"),
        ("x = 7 \\\n  % 4\n!ls", "x = 7 \\\n  % 4\npass"),
        ("s = '(' # (\n!ls", "s = '(' # (\npass"),
        (">>> def f(x):\n...     return x", "def f(x):\n    return x"),
        ("    x = 1\n    y = 2", "x = 1\ny = 2"),
        ("print('100%')\nx = '%time'", "print('100%')\nx = '%time'"),
        ("await f()", "await f()"),
        ("x = = 1", "x = = 1"),
    ],
)
def test_ipython_cells_become_python_with_the_same_lines(source, python):
    got, _ = to_python(source)
    assert got == python and got.count("\n") == source.count("\n")


@pytest.mark.parametrize("magic", ["bash", "html", "writefile x.py", "python", "sql"])
def test_cells_of_other_languages_are_not_run(hand_in, magic):
    made = copy.deepcopy(DONE)
    made["cells"].append(cell(f"%%{magic}\nrm -rf /"))
    got = hand_in(made)
    assert is_done(got) and len(got.cells) == 4
    assert got.notices == [f"cell 10: the cell starts with %%{magic.split()[0]} and was not run"]
