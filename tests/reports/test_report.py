"""The reports: what they say, that names and messages stay text, that bytes do not vary."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from autograder.reports.report import (
    class_table,
    file_names,
    learner_text,
    student_pages,
    write_report,
)
from autograder.reports.summary import PROTECTIONS
from autograder.reports.words import exercise_text

EVIL = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>"
MESSAGE = "You divided by `D - 1`; layer norm uses the biased variance, dividing by D."


def _test(name: str, earned: float, full: float, verdict: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name, "title": f"Title of {name}.", "verdict": verdict, "points": earned,
        "max_points": full, "message": None, "misconception": None, "link": None, **more,
    }  # fmt: skip


def _submission(student: str, **more: Any) -> dict[str, Any]:
    mistake = {
        "message": MESSAGE, "misconception": "unbiased-variance",
        "link": "layernorm.html#biased-variance",
    }  # fmt: skip
    norm = [
        _test("test_shape", 2.0, 2.0, "pass"),
        _test("test_values", 0.0, 4.0, "wrong", **mistake),
        _test("test_bonus", 0.0, 0.0, "timeout", message="It took longer than 10 s."),
    ]
    return {
        "student": student, "status": "graded", "reason": None, "score": 2.0, "max_score": 10.0,
        "sha256": "ab" * 32, "file": "layernorm.ipynb", "notices": [], "review": [],
        "seconds": 0.4,
        "exercises": [
            {"name": "layer_norm", "score": 2.0, "max_score": 6.0, "tests": norm},
            {
                "name": "LayerNorm", "score": 0.0, "max_score": 4.0,
                "tests": [_test("test_module", 0.0, 4.0, "not-implemented")],
            },
        ],
        **more,
    }  # fmt: skip


def _full(student: str) -> dict[str, Any]:
    tests = [_test("test_shape", 6.0, 6.0, "pass")]
    return _submission(student) | {
        "score": 10.0,
        "exercises": [
            {"name": "layer_norm", "score": 6.0, "max_score": 6.0, "tests": tests},
            {
                "name": "LayerNorm", "score": 4.0, "max_score": 4.0,
                "tests": [_test("test_module", 4.0, 4.0, "pass")],
            },
        ],
    }  # fmt: skip


def _ungraded(student: str, reason: str = "the file is not JSON") -> dict[str, Any]:
    return _submission(student) | {
        "status": "ungraded", "reason": reason, "score": None, "exercises": [],
    }  # fmt: skip


def _class(*submissions: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "assignment": "layernorm", "suite_version": "5f2", "grader_version": "1.0.0", "seed": 7,
        "protections": list(PROTECTIONS), "submissions": list(submissions), **more,
    }  # fmt: skip


class _Page(HTMLParser):
    """The tags, attributes and text of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.source = path.read_text(encoding="utf-8")
        self.tags: list[str] = []
        self.links: list[str] = []
        self.attributes: set[str] = set()
        self.words: list[str] = []
        self.style = ""
        self.feed(self.source)
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1] == "style" and not self.style:
            self.style = data
        else:
            self.words.append(data)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("course") / "results" / "layernorm"
    call = {"exercise": "layer_norm", "kind": "suspicious", "line": 4, "detail": "gc.get_objects"}
    twin = {"exercise": "layer_norm", "kind": "similar", "line": None, "detail": "student02"}
    write_report(
        _class(
            _submission("student02", review=[call, twin]),
            _full("student01"),
            _ungraded("student03"),
            _submission("student04"),
        ),
        out,
    )
    return out


# -- the class --------------------------------------------------------------------------------


def test_the_class_page_shows_scores_seed_and_first_mistake(report: Path) -> None:
    page = _Page(report / "index.html")
    assert "Seed 7" in page.text
    assert "10 of 10" in page.text
    assert "layer_norm: unbiased-variance" in page.text
    assert "1 wrong" in page.text
    assert "not graded" in page.text
    assert "the file is not JSON" in page.text
    assert "suspicious layer_norm line 4 gc.get_objects" in page.text
    assert page.text.index("student01") < page.text.index("student02")
    assert "mean 4.67 of 10" in page.text
    assert "median 2 of 10" in page.text


def test_the_class_page_counts_who_made_which_mistake(report: Path) -> None:
    page = _Page(report / "index.html")
    after = page.text.split("Mistakes that were recognised")[1]
    assert re.match(
        r".*?unbiased-variance 2 You divided by D - 1 ; .*?student02 , student04", after
    )
    assert "Title of test_values. 2 of 2" in after
    assert "../../_build/html/book/layernorm.html#biased-variance" in page.links


def test_every_link_of_the_class_page_leads_to_a_file(report: Path) -> None:
    links = [x for x in _Page(report / "index.html").links if "_build" not in x]
    assert len(links) >= 8
    assert [x for x in links if not (report / x).is_file()] == []


@pytest.mark.parametrize(
    ("protections", "said"),
    [
        ([], "This run was NOT isolated: every protection was OFF."),
        ([p for p in PROTECTIONS if p != "seccomp"], "OFF during this run: 1 protection."),
        (["namespaces", "rlimits"], "OFF during this run: 5 protections."),
    ],
)
def test_protections_that_were_off_are_named(
    tmp_path: Path, protections: list[str], said: str
) -> None:
    write_report(_class(_full("student01"), protections=protections), tmp_path)
    page = _Page(tmp_path / "index.html")
    assert said in page.text
    assert "OFF: seccomp . It keeps a submission from" in page.text


def test_no_alarm_when_every_protection_was_on(report: Path) -> None:
    assert "OFF" not in _Page(report / "index.html").text


def test_the_table_has_student_score_counts_and_first_mistake() -> None:
    table = class_table(_class(_submission("student02"), _full("student01"), _ungraded("s3")), 100)
    lines = table.split("\n")
    assert lines[0].split() == ["student", "score", "tests", "first", "mistake"]
    assert lines[2].split() == ["s3", "ungraded", "-", "the", "file", "is", "not", "JSON"]
    assert lines[3].split() == ["student01", "10/10", "2", "pass"]
    assert lines[4].startswith("student02  2/10      1 pass, 1 wrong, 1 not-implemented, 1 timeout")
    assert "layer_norm: unb" in lines[4]


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_the_table_keeps_its_width_with_long_and_wide_names(width: int) -> None:
    names = ["學生" * 30, "a" * 300, "x\u0301" * 40, "b\x1b[31mred\x07\r\nline"]
    table = class_table(_class(*map(_submission, names)), width)
    assert len(table.split("\n")) == 6
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", table)
    wide = sum(2 if "\u4e00" <= c <= "\u9fff" else 1 for c in table.split("\n")[-1])
    assert wide <= width


def test_an_empty_class_is_a_page_and_a_table(tmp_path: Path) -> None:
    write_report(_class(), tmp_path)
    assert "submissions 0" in _Page(tmp_path / "index.html").text
    assert class_table(_class(), 80).startswith("student")


def test_exercises_that_nobody_reached_are_shown_with_the_released_notebook(tmp_path: Path) -> None:
    meta = {"grade": True, "grade_id": "test_rms_norm", "points": 3, "solution": False}
    notebook = new_notebook(cells=[new_code_cell("", metadata={"nbgrader": meta})])
    nbformat.write(notebook, tmp_path / "released.ipynb")
    write_report(_class(_ungraded("s")), tmp_path / "out", tmp_path / "released.ipynb")
    page = _Page(tmp_path / "out/index.html")
    assert "rms_norm 3 points No graded submission." in page.text


# -- the learner ------------------------------------------------------------------------------


def test_the_learners_page_says_what_holds_and_what_does_not(report: Path) -> None:
    page = _Page(report / "feedback/student02.html")
    assert "2 of 10 points" in page.text
    assert "1 of 3 tests pass." in page.text
    assert "Title of test_shape. holds, 2 of 2" in page.text
    assert "Title of test_values. does not hold yet, 0 of 4" in page.text
    assert "You divided by D - 1 ; layer norm uses the biased variance" in page.text
    assert "This mistake has a name: unbiased-variance ." in page.text
    assert "When the visible checks pass, that is not all tests passed." in page.text
    assert "Not written yet. It is still open to you." in page.text
    assert "../../../_build/html/book/layernorm.html#biased-variance" in page.links


def test_the_learners_page_shows_nothing_of_what_is_for_the_instructor(report: Path) -> None:
    page = _Page(report / "feedback/student02.html")
    assert not {"similar", "suspicious", "gc.get_objects"} & set(page.text.split())


def test_a_test_worth_no_points_still_gives_its_message(report: Path) -> None:
    assert "It took longer than 10 s." in _Page(report / "feedback/student04.html").text


def test_the_learners_page_tells_a_mistake_once_and_then_refers_to_it(tmp_path: Path) -> None:
    submission = _submission("student01")
    tests = submission["exercises"][0]["tests"]
    tests[2:] = [tests[1] | {"name": "test_more", "title": "Title of test_more."}]
    write_report(_class(submission), tmp_path)
    page = _Page(tmp_path / "feedback" / "student01.html")
    assert page.text.count("dividing by D.") == 1 and "The same as above." in page.text
    assert page.text.count("This mistake has a name") == 1


def test_the_class_page_names_notebooks_with_the_same_code_and_learners_are_not_told(
    tmp_path: Path,
) -> None:
    alike = [_submission(f"student0{n}", code="ab" * 8) for n in (3, 1)]
    others = [_submission("student02", code="cd" * 8), _submission("student04", code="")]
    write_report(_class(*alike, *others, _submission("student05", code="")), tmp_path)
    page = _Page(tmp_path / "index.html")
    assert "student01 , student03" in page.text and "same code" in page.text
    assert "same code" not in _Page(tmp_path / "feedback" / "student01.html").text
    write_report(_class(*others), tmp_path)
    assert "same code" not in _Page(tmp_path / "index.html").text


def test_full_marks_are_said_plainly(report: Path) -> None:
    page = _Page(report / "feedback/student01.html")
    assert "Everything holds: all hidden tests pass." in page.text
    assert "not all tests passed" not in page.text


def test_ungraded_is_not_called_a_zero(report: Path) -> None:
    page = _Page(report / "feedback/student03.html")
    assert "Not graded yet" in page.text
    assert "This is not a score of zero." in page.text
    assert "0 of 10" not in page.text


def test_links_to_the_book_follow_the_base(tmp_path: Path) -> None:
    write_report(_class(_submission("s")), tmp_path, book="https://course.example/book")
    want = "https://course.example/book/layernorm.html#biased-variance"
    assert want in _Page(tmp_path / "feedback/s.html").links
    assert want in _Page(tmp_path / "index.html").links


@pytest.mark.parametrize("link", ["javascript:alert(1)", "//evil.example/x", "../../etc/passwd"])
def test_a_link_that_is_no_page_of_the_book_is_not_made(tmp_path: Path, link: str) -> None:
    submission = _submission("s")
    submission["exercises"][0]["tests"][1]["link"] = link
    write_report(_class(submission), tmp_path)
    for page in (tmp_path / "feedback/s.html", tmp_path / "index.html"):
        assert link not in page.read_text()


def test_the_terminal_text_names_each_test_and_the_total() -> None:
    text = learner_text(_submission("you"))
    assert "layer_norm: 2 of 6 points\n[pass] Title of test_shape. (2 of 2)" in text
    assert "    You divided by `D - 1`; layer norm uses the biased variance, dividing by D." in text
    assert text.endswith("Total: 2 of 10 points")
    assert learner_text(_ungraded("you", "bad\x1b[2J")).startswith("Not graded: bad\ufffd[2J")


# -- untrusted text ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("hostile")
    submission = _submission("../" + EVIL, file=EVIL, notices=[EVIL, "`" + EVIL + "`"])
    submission["review"] = [
        {
            "exercise": "layer_norm",
            "kind": "suspicious",
            "line": 1,
            "detail": EVIL,
        }
    ]
    for exercise in submission["exercises"]:
        for test in exercise["tests"]:
            test.update(message=f"`{EVIL}` {EVIL}\x1b[31m", title=EVIL, name=EVIL)
    submission["exercises"][0]["tests"][1]["misconception"] = EVIL
    write_report(_class(submission, _ungraded(EVIL, EVIL), assignment=EVIL), out)
    return out


def test_pages_hold_no_script_no_handler_and_nothing_from_elsewhere(hostile: Path) -> None:
    pages = [hostile / "index.html", *(hostile / "feedback").iterdir()]
    assert len(pages) == 3
    for page in map(_Page, pages):
        assert not {"script", "img", "iframe", "object", "form", "link"} & set(page.tags)
        assert not [a for a in page.attributes if a.startswith("on") or a == "style"]
        assert not [x for x in page.links if re.match(r"[a-z]+:|//", x)]
        assert "\x1b" not in page.source
        assert "<script>alert(1)</script>" in page.text, "it is shown as text"


def test_the_policy_allows_the_style_of_the_page_and_nothing_else(report: Path) -> None:
    page = _Page(report / "index.html")
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page.source)
    digest = base64.b64encode(hashlib.sha256(page.style.encode()).digest()).decode()
    assert policy.replace("&#39;", "'") == (
        f"default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'sha256-{digest}'"
    )


def test_no_file_is_written_outside_of_the_folder(hostile: Path) -> None:
    files = sorted(p.relative_to(hostile).as_posix() for p in hostile.rglob("*") if p.is_file())
    assert len(files) == 7
    assert all(
        re.fullmatch(r"((feedback|gradescope)/)?[A-Za-z0-9-]+\.(html|json|csv)", f) for f in files
    )


@pytest.mark.parametrize(
    "name",
    ["../x", "/etc/passwd", "", ".", "..", ".hidden", "a/b", "con", "NUL.txt", "a.", "a\x00b",
     "\udcff", "x" * 300, "學生", "a b", "a%2fb", "-rf", "a\nb"],
)  # fmt: skip
def test_file_names_are_safe(name: str) -> None:
    made = file_names([name])[name]
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9-]*-[0-9a-f]{10}", made)
    assert len(made) < 60


def test_file_names_differ_where_case_does_not_count() -> None:
    names = file_names(["Bob", "bob", "student01", "student.02@uni.example"])
    assert len({n.casefold() for n in names.values()}) == 4
    assert names["student01"] == "student01"
    assert names["student.02@uni.example"] == "student.02@uni.example"


@pytest.mark.parametrize(
    "name", ["=1+1", "+1", "-1", "@SUM(A1)", " =1", "\t=1", "\uff1d1", 'a"b,c', "line\nbreak"]
)
def test_csv_cells_are_quoted_and_no_formula(tmp_path: Path, name: str) -> None:
    write_report(_class(_submission(name)), tmp_path)
    with open(tmp_path / "scores.csv", newline="", encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    plain = name.replace("\n", " ")
    assert row["student"] == (plain if plain[0] in "al" else "'" + plain)
    assert (row["score"], row["layer_norm"], row["wrong"]) == ("2", "2", "1")


def test_csv_has_one_line_for_each_submission(report: Path) -> None:
    with open(report / "scores.csv", newline="", encoding="utf-8") as file:
        rows = {row["student"]: row for row in csv.DictReader(file)}
    assert rows["student01"]["score"] == "10"
    assert rows["student02"]["first_mistake"] == "layer_norm: unbiased-variance"
    assert rows["student02"]["review"].startswith("layer_norm line 4: suspicious gc.get_objects")
    assert (rows["student03"]["score"], rows["student03"]["status"]) == ("", "ungraded")
    assert rows["student03"]["reason"] == "the file is not JSON"


# -- files for programs -----------------------------------------------------------------------


def test_gradescope_tests_add_up_to_the_score(report: Path) -> None:
    answer = json.loads((report / "gradescope/student02.json").read_text())
    assert answer["score"] == 2.0 == sum(t["score"] for t in answer["tests"])
    assert sum(t["max_score"] for t in answer["tests"]) == 10.0
    assert answer["visibility"] == "visible"
    assert answer["stdout_visibility"] == "hidden"
    wrong = answer["tests"][1]
    assert (wrong["status"], wrong["visibility"], wrong["number"]) == ("failed", "visible", "1.2")
    assert wrong["name"] == "layer_norm: Title of test_values."
    assert wrong["output"].startswith(MESSAGE)


def test_gradescope_gets_no_score_for_an_ungraded_submission(report: Path) -> None:
    answer = json.loads((report / "gradescope/student03.json").read_text())
    assert "score" not in answer
    assert "tests" not in answer
    assert answer["output"] == "Not graded yet: the file is not JSON"


def _bytes(folder: Path) -> dict[str, bytes]:
    files = (p for p in folder.rglob("*") if p.is_file())
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in files}


def test_equal_results_in_another_order_give_equal_bytes(tmp_path: Path) -> None:
    first, second = _submission("student02"), _full("student01")
    shuffled = dict(reversed(list(first.items())))
    write_report(_class(first, second), tmp_path / "a")
    write_report(_class(second, shuffled), tmp_path / "b")
    assert _bytes(tmp_path / "a") == _bytes(tmp_path / "b")


def test_only_results_json_holds_times(tmp_path: Path) -> None:
    write_report(_class(_submission("s", seconds=1.0), timing={"total": 1}), tmp_path / "a")
    write_report(_class(_submission("s", seconds=2.0), timing={"total": 9}), tmp_path / "b")
    a, b = _bytes(tmp_path / "a"), _bytes(tmp_path / "b")
    assert {name for name in a if a[name] != b[name]} == {"results.json"}


def test_results_json_is_what_was_given(report: Path) -> None:
    results = json.loads((report / "results.json").read_text())
    assert [s["student"] for s in results["submissions"]] == [f"student0{n}" for n in (1, 2, 3, 4)]
    assert results["submissions"][3] == _submission("student04")
    assert list(results)[:4] == ["assignment", "grader_version", "suite_version", "seed"]


def test_a_number_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        write_report(_class(_submission("s", score=float("nan"))), tmp_path)


def test_pages_are_listed_for_sending(report: Path) -> None:
    results = json.loads((report / "results.json").read_text())
    pages = dict(student_pages(results, report))
    assert len(pages) == 4
    assert all(page.is_file() for page in pages.values())


def _exercise(*tests: tuple[str, str, str | None]) -> dict:
    rows = [
        {"name": n, "title": n, "verdict": v, "points": 0.0, "max_points": 1.0, "message": m}
        for n, v, m in tests
    ]
    return {"name": "layer_norm", "score": 0.0, "max_score": 2.0, "tests": rows}


def test_a_message_is_read_once_and_then_referred_to():
    text = exercise_text(
        _exercise(("a", "wrong", "You did X."), ("b", "pass", None), ("c", "wrong", "You did X."))
    )
    assert text.splitlines()[1:] == [
        "[wrong] a (0 of 1)",
        "    You did X.",
        "[pass] b (0 of 1)",
        "[wrong] c (0 of 1)",
        "    The same as above.",
    ]


def test_a_message_that_differs_in_numbers_only_is_not_read_again():
    first = "program 1: 2 of the 8 elements lie past the end. `x + row * 3`"
    other = "program 5: 4 of the 16 elements lie past the end. `x + row * 3`"
    dtypes = "y has dtype float16; expected float32.", "y has dtype float32; expected float64."
    named = zip("abcd", (first, other, *dtypes), strict=True)
    text = exercise_text(_exercise(*((name, "error", said) for name, said in named)))
    assert "    The same as above, with other numbers." in text.splitlines()
    assert "program 5" not in text and all(said in text for said in dtypes)


def test_a_message_told_before_another_one_is_referred_to_by_its_test():
    text = exercise_text(
        _exercise(
            ("a", "wrong", "You did X."), ("b", "wrong", "You did Y."), ("c", "wrong", "You did X.")
        )
    )
    assert text.splitlines()[-2:] == ["[wrong] c (0 of 1)", '    The same as for "a".']


def test_an_exercise_that_was_not_begun_takes_one_line():
    waiting = ("not-implemented", "`layer_norm` is not implemented yet.")
    text = exercise_text(_exercise(("a", *waiting), ("b", *waiting)))
    assert text.splitlines()[1:] == [
        "[not-implemented] `layer_norm` is not implemented yet. (2 tests wait.)"
    ]
