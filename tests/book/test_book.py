"""The book builds without a warning, needs no other server, and is readable by everyone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from urllib.parse import unquote, urlsplit

import nbformat
import pytest
from bs4 import BeautifulSoup
from jupyter_cache import get_cache

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "_build" / "html"
sys.path.append(str(ROOT / "book" / "_ext"))
sys.path.append(str(ROOT / "book"))

import all_cores  # noqa: E402
import exercise_stub  # noqa: E402
import figures  # noqa: E402
import fresh_cache  # noqa: E402
import ledger  # noqa: E402
import whole_streams  # noqa: E402

from autograder import course, misconceptions, release  # noqa: E402

# Misconceptions of the autograder link to these sections.
ANCHORS = {
    "biased-variance",
    "eps-inside",
    "which-axis",
    "affine-shape",
    "center-first",
    "one-pass-variance",
    "dtype-and-upcast",
    "backward-derivation",
    "weight-gradient",
    "parameters",
    "running-statistics",
    "in-place",
}


@pytest.fixture(scope="session")
def site() -> dict[Path, BeautifulSoup]:
    """Builds the book, warnings as errors (seconds when its pages are cached), and parses it."""
    scripts = Path(sys.executable).parent
    path = f"{scripts}{os.pathsep}{os.environ['PATH']}"
    command = [scripts / "jupyter-book", "build", ".", "--warningiserror", "--keep-going"]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    pages = [path for path in SITE.rglob("*.html") if "_static" not in path.parts]
    return {path: BeautifulSoup(path.read_text("utf-8"), "html.parser") for path in pages}


BOOK = ledger.load(ROOT / "book" / "claims.yml")
CHAPTERS = [
    entry["page"]
    for entry in BOOK.chapters.values()
    if f"book/{entry['page']}\n" in (ROOT / "_toc.yml").read_text(encoding="utf-8")
]
STUB = re.compile(r"^```\{exercise-stub\} (\S+) (\S+)$", re.MULTILINE)


@pytest.fixture(params=CHAPTERS)
def name(request) -> str:
    return request.param


@pytest.fixture
def chapter(site, name) -> BeautifulSoup:
    return site[SITE / "book" / f"{name}.html"]


def source(name: str) -> str:
    return (ROOT / "book" / f"{name}.md").read_text(encoding="utf-8")


def remote(address: str | None) -> bool:
    return bool(address) and bool(re.match(r"(https?:)?//", address.strip()))


def test_pages_load_nothing_from_other_servers(site):
    loads = [("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src"),
             ("video", "src"), ("audio", "src"), ("embed", "src"), ("object", "data"),
             ("use", "href"), ("image", "href")]  # fmt: skip
    for path, page in site.items():
        for tag, attribute in loads:
            for element in page.find_all(tag):
                assert not remote(element.get(attribute)), f"{path.name}: {element}"
        for element in page.find_all("link"):
            if element.get("rel") not in (["canonical"], ["author"], ["license"]):
                assert not remote(element.get("href")), f"{path.name}: {element}"
        for element in page.find_all("script"):
            text = element.string or ""
            assert not re.search(r"unpkg|jsdelivr|cdnjs|googleapis", text), f"{path.name}: {text}"


def test_stylesheets_load_nothing_from_other_servers(site):
    for path in SITE.rglob("*.css"):
        text = path.read_text("utf-8", errors="replace")
        assert not re.search(r"(url\(\s*['\"]?|@import\s+['\"])(https?:)?//", text), path


def test_mathjax_and_its_fonts_lie_in_the_site(site):
    page = site[SITE / "book" / "layernorm.html"]
    sources = [script.get("src", "") for script in page.find_all("script")]
    (script,) = [source for source in sources if "mathjax" in source.lower()]
    file = SITE / "book" / script.split("?")[0]
    assert file.is_file()
    fonts = list((file.parent / "output/chtml/fonts/woff-v2").glob("*.woff"))
    assert len(fonts) >= 20


def test_links_inside_the_site_lead_somewhere(site):
    ids = {path: {e["id"] for e in page.find_all(id=True)} for path, page in site.items()}
    for path, page in site.items():
        if path.name in ("genindex.html", "search.html"):
            continue
        for link in page.find_all("a", href=True):
            parts = urlsplit(link["href"])
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert target.exists(), f"{path.name} links to {link['href']}"
            if parts.fragment and target in ids:
                assert unquote(parts.fragment) in ids[target], f"{path.name}: {link['href']}"


def test_ids_occur_once_on_each_page(site):
    for path, page in site.items():
        counts = Counter(element["id"] for element in page.find_all(id=True))
        assert not [name for name, count in counts.items() if count > 1], path.name


def test_the_sections_that_feedback_links_to_exist(site):
    page = site[SITE / "book" / "layernorm.html"]
    assert {element["id"] for element in page.find_all(id=True)} >= ANCHORS
    for assignment in course.names():
        for known in misconceptions.load(assignment):
            file, _, anchor = known.link.partition("#")
            assert site[SITE / "book" / file].find(id=anchor), known.link


def test_every_claim_has_its_place_in_the_site(site):
    book = ledger.load(ROOT / "book" / "claims.yml")
    table = site[SITE / "book" / "claims-and-myths.html"]
    for claim in book.claims.values():
        page = site[SITE / f"{book.page(claim)}.html"]
        assert page.find(id=claim.target), f"{claim.id} is not on its page"
        assert table.find(id=f"ledger-{claim.id.lower()}"), f"{claim.id} is not in the table"


def test_figures_say_what_they_show(site):
    for path, page in site.items():
        article = page.find("article") or page
        for image in article.find_all("img"):
            assert len(image.get("alt", "")) > 20, f"{path.name}: {image}"
        for drawing in article.select("figure svg"):
            assert drawing.get("role") == "img" and len(drawing.get("aria-label", "")) > 20


def test_the_chapter_has_its_figures_and_no_failed_cell(chapter):
    assert len(chapter.select("figure.course-figure svg")) >= 3
    assert not chapter.select(".output.traceback, .output.stderr")


def test_each_quiz_has_one_right_answer_and_a_reply_for_each(chapter):
    questions = chapter.select("fieldset.quiz")
    assert len(questions) >= 5
    for question in questions:
        assert question.find("legend").get_text(strip=True)
        answers = question.select("input[type=radio]")
        assert len(question.select(".quiz-right")) == 1
        assert len(question.select(".quiz-reply")) == len(answers) >= 2
        for answer in answers:
            assert question.find("label", attrs={"for": answer["id"]})


def test_the_chapter_shows_the_stubs_of_the_released_notebook(chapter, name):
    shown = [block.get_text().strip() for block in chapter.select(".exercise-stub pre")]
    stubs = [
        exercise_stub.read_stub(ROOT / "exercises" / folder / f"{folder}.ipynb", exercise)[0]
        for folder, exercise in STUB.findall(source(name))
    ]
    assert shown == [stub.strip() for stub in stubs]


def test_the_table_of_exercises_agrees_with_the_released_notebook(name):
    row = re.compile(r"^\| `(\w+)` \| (\d+), (\w+), (\d+) min \| .*\(#", re.MULTILINE)
    told = {
        exercise: f"{points} points, {difficulty}, about {minutes} minutes"
        for exercise, points, difficulty, minutes in row.findall(source(name))
    }
    efforts = {
        exercise: exercise_stub.read_stub(ROOT / f"exercises/{folder}/{folder}.ipynb", exercise)[1]
        for folder, exercise in STUB.findall(source(name))
    }
    assert told == efforts


def test_every_exercise_of_an_assignment_is_shown_in_one_chapter():
    shown = [stub for name in CHAPTERS for stub in STUB.findall(source(name))]
    assert len(shown) == len(set(shown))
    for assignment in {folder for folder, _ in shown}:
        exercises = [exercise for folder, exercise in shown if folder == assignment]
        assert exercises == list(release.points(assignment))


def test_the_chapter_holds_no_line_of_the_solution(name):
    page = source(name)
    for assignment in {folder for folder, _ in STUB.findall(page)}:
        solution = (ROOT / "solutions" / assignment / f"{assignment}.py").read_text("utf-8")
        bodies = re.findall(r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", solution, re.DOTALL)
        lines = {line.split("#")[0].strip() for body in bodies for line in body.splitlines()}
        assert len(bodies) >= 3
        told = [line for line in lines if len(line) > 12 and line in page]
        assert set(told) <= {"with torch.no_grad():"}  # says nothing about the answer


def test_a_stub_that_cannot_be_shown_is_refused_in_one_line(tmp_path):
    notebook = tmp_path / "x.ipynb"
    with pytest.raises(exercise_stub.StubError, match="is not there"):
        exercise_stub.read_stub(notebook, "f")
    effort = nbformat.v4.new_markdown_cell("*8 points, easy, about 15 minutes*")
    solved = nbformat.v4.new_code_cell("def f(): return 1")
    solved.metadata["nbgrader"] = {"grade_id": "f", "solution": True}
    nbformat.write(nbformat.v4.new_notebook(cells=[effort, solved]), notebook)
    with pytest.raises(exercise_stub.StubError, match="is no stub"):
        exercise_stub.read_stub(notebook, "f")
    with pytest.raises(exercise_stub.StubError, match="no solution cell named g"):
        exercise_stub.read_stub(notebook, "g")


def test_code_that_a_page_imports_decides_which_cache_is_used(tmp_path):
    (tmp_path / "book").mkdir()
    file = tmp_path / "book" / "figures.py"
    file.write_text("a = 1\n")
    before = fresh_cache.cache_key(tmp_path)
    assert fresh_cache.cache_key(tmp_path) == before
    file.write_text("a = 2\n")
    assert fresh_cache.cache_key(tmp_path) != before


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one core runs one page at a time")
def test_pages_run_side_by_side_and_a_failing_one_is_not_kept(tmp_path):
    top = source("layernorm").partition("\n# ")[0]
    cell = "```{{code-cell}} ipython3\n{}\n```\n"
    meet = "import pathlib, time\npathlib.Path('{}').touch()\n" \
           "while not pathlib.Path('{}').exists(): time.sleep(0.1)"  # fmt: skip
    pages = [tmp_path / name for name in ("a.md", "b.md", "c.md")]
    pages[0].write_text(top + cell.format(meet.format("a", "b")))
    pages[1].write_text(top + cell.format(meet.format("b", "a")))
    pages[2].write_text(top + cell.format("1 / 0"))
    all_cores.execute(pages, str(tmp_path / "cache"), timeout=600)
    kept = get_cache(str(tmp_path / "cache")).list_cache_records()
    assert sorted(Path(record.uri).name for record in kept) == ["a.md", "b.md"]


def test_printed_output_that_arrives_in_pieces_keeps_its_lines():
    pieces = ["one", "\n", "two\nthr", "ee\n"]
    outputs = [nbformat.v4.new_output("stream", name="stdout", text=piece) for piece in pieces]
    (joined,) = whole_streams.join_pieces(outputs)
    assert joined["text"] == "one\ntwo\nthree\n"


def test_a_figure_without_alternative_text_is_refused():
    fig, _ = figures.new()
    with pytest.raises(ValueError, match="alternative text"):
        figures.show(fig, alt="")


def contrast(first: str, second: str) -> float:
    """The contrast ratio of two colours #rrggbb as WCAG 2 defines it, 1 to 21."""

    def luminance(colour: str) -> float:
        channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    bright, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("name", figures.COLOURS)
@pytest.mark.parametrize("background", ["#ffffff", "#121212"])
def test_colours_of_figures_stand_out_in_both_themes(name, background):
    assert contrast(figures.COLOURS[name], background) >= 3.0
