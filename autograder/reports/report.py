"""What people read after a run: class page, table, learners' pages, CSV and Gradescope files.

Names, messages and source lines are untrusted text: they are escaped for the format they go into,
file names are made from a student's name only where that is safe, and pages need no script and no
network. Equal results give equal bytes, apart from the keys "seconds" and "timing".
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from ..files import write_whole
from ..reading import similar
from ..reading.released import grade_id, is_written, read_released, released_points
from .summary import VERDICTS, protections, summarize
from .words import exercise_text, plain, points, told_once

TEMPLATES = Path(__file__).parents[1] / "templates"
BOOK = "../../_build/html/book/"
_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,79}")
_LINK = re.compile(r"[A-Za-z0-9_./-]+(#[A-Za-z0-9_.-]+)?")
_DEVICES = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_ORDER = (
    *("assignment", "grader_version", "suite_version", "seed", "protections", "submissions"),
    *("student", "status", "reason", "score", "max_score", "sha256", "code", "file", "notices"),
    *("review", "exercises", "exercise", "kind", "line", "name", "title", "verdict", "points"),
    *("max_points", "message", "misconception", "link", "detail", "tests"),
)


def write_report(
    class_results: Mapping[str, Any],
    out_dir: Path,
    released: Path | None = None,
    *,
    book: str = BOOK,
) -> None:
    """Write all reports of one run into `out_dir`, each file whole or not at all.

    class_results: the class file (see `engine`). released: the released notebook; with it,
    exercises that no submission reached are shown too. book: where the built book is, as seen from
    `out_dir`, or an http(s) address.
    Raises OSError when a file cannot be written.
    """
    out_dir = Path(out_dir)
    submissions = sorted(class_results["submissions"], key=lambda s: str(s["student"]))
    ordered = {**class_results, "submissions": submissions}
    names = file_names([s["student"] for s in submissions])
    exercises = _released_exercises(released)
    summary = summarize(ordered, exercises)
    on, off = protections(class_results)
    pages = _Pages(book)
    shared = {"results": ordered, "summary": summary, "on": on, "off": off, "names": names}
    shared["written"] = _written_questions(released)
    shared["alike"] = similar.groups(submissions)

    write_whole(out_dir / "results.json", to_json(ordered))
    write_whole(out_dir / "scores.csv", to_csv(ordered, summary))
    for submission, row in zip(submissions, summary.rows, strict=True):
        name = names[submission["student"]]
        page = pages.render("feedback.html.j2", submission=submission, row=row, **shared, up="../")
        write_whole(out_dir / "feedback" / f"{name}.html", page)
        write_whole(out_dir / "gradescope" / f"{name}.json", to_gradescope(submission))
    # Last, so that a class page never links to pages that are not there.
    write_whole(out_dir / "index.html", pages.render("index.html.j2", **shared, up=""))


def file_names(students: Iterable[str]) -> dict[str, str]:
    """A file name (without suffix) for each student: the name itself where that is safe.

    Safe: short, plain letters, no path, no reserved name, and unlike every other one also where
    upper and lower case are the same. Others get a readable stem and a hash of the name.
    """
    students = [str(student) for student in students]
    folded: dict[str, int] = {}
    for student in students:
        folded[student.casefold()] = folded.get(student.casefold(), 0) + 1
    names = {}
    for student in students:
        safe = _SAFE_NAME.fullmatch(student) and not student.endswith(".")
        if safe and not _DEVICES.fullmatch(student) and folded[student.casefold()] == 1:
            names[student] = student
            continue
        digest = hashlib.sha256(student.encode("utf-8", "surrogatepass")).hexdigest()[:10]
        stem = re.sub(r"[^A-Za-z0-9]+", "-", student).strip("-")[:40] or "student"
        names[student] = f"{stem}-{digest}"
    return names


def to_json(class_results: Mapping[str, Any]) -> str:
    """The class file as text: keys in a fixed order, ASCII only, no NaN."""
    return json.dumps(_sorted(class_results), indent=1, allow_nan=False) + "\n"


def _sorted(value: Any) -> Any:
    if isinstance(value, Mapping):
        rank = {key: index for index, key in enumerate(_ORDER)}
        keys = sorted(value, key=lambda k: (rank.get(k, len(rank)), k))
        return {key: _sorted(value[key]) for key in keys}
    if isinstance(value, list | tuple):
        return [_sorted(item) for item in value]
    return value


def to_csv(class_results: Mapping[str, Any], summary: Any) -> str:
    """One line per submission; a cell that a spreadsheet would run as a formula gets an '."""
    names = [exercise.name for exercise in summary.exercises]
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    head = ["student", "status", "score", "max_score", *names, *VERDICTS]
    table.writerow(_cells([*head, "first_mistake", "review", "reason"]))
    for submission, row in zip(class_results["submissions"], summary.rows, strict=True):
        scores = {e["name"]: points(e["score"]) for e in submission["exercises"]}
        score = None if submission["score"] is None else points(submission["score"])
        review = "; ".join(_review_line(entry) for entry in submission.get("review") or ())
        line = [submission["student"], submission["status"], score, points(submission["max_score"])]
        line += [scores.get(name) for name in names]
        line += [row.counts.get(verdict, 0) for verdict in VERDICTS]
        table.writerow(_cells([*line, row.first_mistake, review, submission.get("reason")]))
    return out.getvalue()


def _cells(values: Iterable[Any]) -> list[str]:
    cells = []
    for value in values:
        cell = "" if value is None else " ".join(plain(value).split("\n"))
        cells.append("'" + cell if cell.lstrip().startswith(_FORMULA) else cell)
    return cells


def _review_line(entry: Mapping[str, Any]) -> str:
    where = f" line {entry['line']}" if entry.get("line") else ""
    return (
        f"{entry.get('exercise') or ''}{where}: {entry['kind']} {entry.get('detail') or ''}".strip()
    )


def to_gradescope(submission: Mapping[str, Any]) -> str:
    """Gradescope's results.json. An ungraded one has no score: Gradescope then wants a person."""
    answer: dict[str, Any] = {"visibility": "visible", "stdout_visibility": "hidden"}
    notes = [plain(note, 500) for note in submission.get("notices") or ()]
    if submission["status"] != "graded":
        reason = plain(submission.get("reason") or "no reason was recorded", 500)
        answer["output"] = "\n".join([f"Not graded yet: {reason}", *notes])
        return json.dumps(answer, indent=1) + "\n"
    answer["output"] = "\n".join(["Hidden tests use other inputs than the visible checks.", *notes])
    answer["output_format"] = answer["test_output_format"] = answer["test_name_format"] = "text"
    answer["score"] = float(submission["score"])
    answer["tests"] = []
    for part, exercise in enumerate(submission["exercises"], start=1):
        for number, test in enumerate(exercise["tests"], start=1):
            link = f"Read in the book: {test['link']}" if test.get("link") else None
            said = [plain(text) for text in (test.get("message"), link) if text]
            answer["tests"].append(
                {
                    "number": f"{part}.{number}",
                    "name": f"{plain(exercise['name'], 100)}: {_title(test)}",
                    "score": float(test["points"]),
                    "max_score": float(test["max_points"]),
                    "status": "passed" if test["verdict"] == "pass" else "failed",
                    "output": "\n".join(said),
                    "tags": [test["verdict"]],
                    "visibility": "visible",
                }
            )
    return json.dumps(answer, indent=1, allow_nan=False) + "\n"


def _title(test: Mapping[str, Any]) -> str:
    return plain(test.get("title") or test["name"], 300)


def class_table(class_results: Mapping[str, Any], width: int = 100) -> str:
    """The class as a plain text table, at most `width` columns wide, without control codes."""
    submissions = sorted(class_results["submissions"], key=lambda s: str(s["student"]))
    summary = summarize({**class_results, "submissions": submissions}, {})
    lines = [("student", "score", "tests", "first mistake")]
    for submission, row in zip(submissions, summary.rows, strict=True):
        score = "ungraded"
        if submission["score"] is not None:
            score = f"{points(submission['score'])}/{points(submission['max_score'])}"
        counts = ", ".join(f"{n} {verdict}" for verdict, n in row.counts.items())
        mistake = row.first_mistake or ("" if submission["score"] is not None else row.reason)
        flag = "[review] " if submission.get("review") else ""
        name = _one_line(submission["student"])
        lines.append((name, score, counts or "-", flag + _one_line(mistake or "")))
    natural = [max(_columns(line[i]) for line in lines) for i in range(4)]
    student = min(natural[0], 24)
    tests = min(natural[2], max(12, width - student - natural[1] - 6 - 24))
    rest = max(8, width - student - natural[1] - tests - 6)
    widths = (student, natural[1], tests, rest)
    rows = ["  ".join(_fit(c, w) for c, w in zip(line, widths, strict=True)) for line in lines]
    rows.insert(1, "  ".join("-" * min(w, n) for w, n in zip(widths, natural, strict=True)))
    return "\n".join(row.rstrip() for row in rows)


def _one_line(text: object) -> str:
    return " ".join(plain(text).replace("\t", " ").split("\n"))


def _columns(text: str) -> int:
    return sum(_column(character) for character in text)


def _column(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) == "Cf":
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _fit(text: str, width: int) -> str:
    if _columns(text) > width:
        kept = ""
        for character in text:
            if _columns(kept) + _column(character) > width - 1:
                break
            kept += character
        text = kept + "\N{HORIZONTAL ELLIPSIS}"
    return text + " " * (width - _columns(text))


def learner_text(result: Mapping[str, Any]) -> str:
    """What a learner reads in a terminal after checking one notebook."""
    lines = [plain(note, 500) for note in result.get("notices") or ()]
    if result["status"] != "graded":
        reason = plain(result.get("reason") or "no reason was recorded", 500)
        return "\n".join([*lines, f"Not graded: {reason}"])
    for exercise in result["exercises"]:
        lines += ["", exercise_text(exercise)]
    lines += ["", f"Total: {points(result['score'])} of {points(result['max_score'])} points"]
    return "\n".join(lines).strip()


class _Pages:
    """Renders the templates. Everything is escaped unless the template's own author wrote it."""

    def __init__(self, book: str) -> None:
        self._book = book if book.endswith("/") else book + "/"
        self._environment = Environment(
            loader=FileSystemLoader(TEMPLATES),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters.update(
            points=points, plain=_one_line, prose=_prose, told_once=told_once
        )
        self._style = (TEMPLATES / "report.css").read_text(encoding="utf-8")

    def render(self, template: str, *, up: str, **values: Any) -> str:
        """The page; `up` leads from its folder to the folder of index.html."""
        digest = base64.b64encode(hashlib.sha256(self._style.encode()).digest()).decode()
        policy = "default-src 'none'; base-uri 'none'; form-action 'none'; "
        policy += f"style-src 'sha256-{digest}'"
        page = self._environment.get_template(template)

        def chapter(link: str | None) -> str | None:
            """Where a misconception is explained; None for what is not a page of the book."""
            if not link or not _LINK.fullmatch(link) or ".." in link or link.startswith("/"):
                return None
            remote = self._book.startswith(("https://", "http://", "/"))
            return f"{'' if remote else up}{self._book}{link}"

        return page.render(
            values, style=Markup(self._style), policy=policy, chapter=chapter, VERDICTS=VERDICTS
        )


def _prose(text: object) -> Markup:
    """A message as HTML: what stands between backticks becomes code, all else stays text."""
    parts = plain(text).split("`")
    if len(parts) % 2 == 0:
        return escape(plain(text))
    wrap = (lambda part: part, lambda part: Markup("<code>{}</code>").format(part))
    return Markup("").join(wrap[i % 2](escape(part)) for i, part in enumerate(parts))


def _released_exercises(released: Path | None) -> Mapping[str, float]:
    if released is None:
        return {}
    full = released_points(read_released(released))
    return {name.removeprefix("test_"): n for name, n in full.items() if name.startswith("test_")}


def _written_questions(released: Path | None) -> Mapping[str, float]:
    """Points of the questions that a person grades; no score of a class file holds them."""
    if released is None:
        return {}
    notebook = read_released(released)
    full = released_points(notebook)
    return {grade_id(cell): full[grade_id(cell)] for cell in notebook.cells if is_written(cell)}


def student_pages(class_results: Mapping[str, Any], out_dir: Path) -> Sequence[tuple[str, Path]]:
    """(student, that learner's page) for all submissions, to send them out."""
    names = file_names([s["student"] for s in class_results["submissions"]])
    return [(student, Path(out_dir) / "feedback" / f"{n}.html") for student, n in names.items()]
