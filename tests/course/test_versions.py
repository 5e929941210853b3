"""The versions that a stored result is kept under: whatever may change a score changes one."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import ClassVar

import pytest

from autograder import versions
from autograder.errors import EngineError
from autograder.grading import engine
from autograder.grading.engine import Submitted

ROOT = Path(__file__).resolve().parents[2]
ASSIGNMENTS = sorted(p.parent.name for p in (ROOT / "autograder/suites").glob("*/suite.toml"))
TREES = ("autograder", "kernel_sanitizer", "solutions", "exercises")


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the grader, to be edited."""
    folder = tmp_path_factory.mktemp("grader")
    for tree in TREES:
        ignore = shutil.ignore_patterns("__pycache__", ".*")
        shutil.copytree(ROOT / tree, folder / tree, ignore=ignore)
    return folder


def all_versions(root: Path) -> dict[str, str]:
    suites = {name: versions.suite(name, root) for name in ASSIGNMENTS}
    return {"the grader": versions.grader(root)} | suites


def changed(root: Path, before: dict[str, str]) -> list[str]:
    after = all_versions(root)
    return [name for name in before if after[name] != before[name]]


def owner(file: Path) -> str:
    """Whose version a file of the tree belongs to: that of its assignment, or the grader's."""
    own = [name for name in ASSIGNMENTS if name in file.parent.parts]
    return own[0] if own else "the grader"


def test_a_change_of_any_file_changes_the_version_it_belongs_to_and_no_other(copied: Path) -> None:
    before = all_versions(copied)
    files = sorted(p for tree in TREES for p in (copied / tree).rglob("*") if p.is_file())
    assert {p.suffix for p in files} >= {".py", ".toml", ".ini", ".j2", ".css", ".ipynb"}
    wrong = []
    for path in files:
        content = path.read_bytes()
        path.write_bytes(content + b"\n")
        found = changed(copied, before)
        if found != [owner(path.relative_to(copied))]:
            wrong.append((str(path.relative_to(copied)), found))
        path.write_bytes(content)
    assert wrong == [] and changed(copied, before) == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("autograder/forbidden/deep/down/table.json", ["the grader"]),
        ("autograder/suites/new_plugin.py", ["the grader"]),
        ("autograder/suites/layernorm/data/rows.csv", ["layernorm"]),
        ("autograder/misconceptions/layernorm/more/wrong.py", ["layernorm"]),
        ("solutions/layernorm/part.txt", ["layernorm"]),
        ("autograder/__pycache__/engine.cpython-311.pyc", []),
        ("autograder/.engine.py.swp", []),
        ("exercises/layernorm/.ipynb_checkpoints/layernorm-checkpoint.ipynb", []),
    ],
)
def test_a_new_file_counts_whatever_its_name_unless_it_is_hidden_or_byte_code(
    copied: Path, name: str, expected: list[str]
) -> None:
    before = all_versions(copied)
    path = copied / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")
    assert changed(copied, before) == expected
    path.rename(path.with_name(path.name + "2"))
    moved = all_versions(copied)
    path.with_name(path.name + "2").unlink()
    assert all(moved[name] != before[name] for name in expected)
    assert changed(copied, before) == []


def test_two_files_that_change_places_are_another_version(copied: Path) -> None:
    before = all_versions(copied)
    one, other = (copied / f"autograder/suites/layernorm/{n}.py" for n in ("inputs", "__init__"))
    texts = one.read_bytes(), other.read_bytes()
    one.write_bytes(texts[1]), other.write_bytes(texts[0])
    assert changed(copied, before) == ["layernorm"]
    one.write_bytes(texts[0]), other.write_bytes(texts[1])


@pytest.mark.parametrize("package", ["torch", "triton", "numpy", "Python"])
def test_other_software_is_another_grader(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    before, real = versions.grader(), metadata.version
    assert versions.software()["torch"] == real("torch")
    if package == "Python":
        monkeypatch.setattr(versions.platform, "python_version", lambda: "3.11.99")
    else:
        other = {package: "0.0.1"}
        monkeypatch.setattr(metadata, "version", lambda name: other.get(name) or real(name))
    assert versions.software()[package] in ("0.0.1", "3.11.99")
    assert versions.grader() != before


def test_software_that_is_not_installed_is_a_version_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "PACKAGES", ("no-such-package-of-ours",))
    assert versions.software()["no-such-package-of-ours"] == "none"


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module or ""


def test_code_of_ours_that_the_grader_imports_lies_in_the_folders_of_the_versions() -> None:
    """A package of ours beside autograder/ has to be named in `versions.GRADER`."""
    ours = {p.name for p in ROOT.iterdir() if p.is_dir()} | {p.stem for p in ROOT.glob("*.py")}
    trees = (*versions.GRADER, *versions.BY_ASSIGNMENT)
    files = [p for tree in versions.GRADER for p in (ROOT / tree).rglob("*.py")]
    tops = {name.split(".")[0] for path in files for name in imported(path)}
    assert "solutions" in tops
    assert tops & ours <= {tree.split("/")[0] for tree in trees}


def test_what_belongs_to_an_assignment_imports_nothing_of_another() -> None:
    """Or a change there would leave stored results here standing."""
    strays = []
    for parent in versions.BY_ASSIGNMENT:
        for path in (ROOT / parent).rglob("*.py"):
            own = owner(path.relative_to(ROOT))
            for name in imported(path):
                others = set(name.split(".")[:3]) & set(ASSIGNMENTS) - {own}
                if name.startswith(("autograder.", "solutions.")) and others:
                    strays.append((str(path.relative_to(ROOT)), name))
    assert strays == []


# -- results that are kept ----------------------------------------------------------------------


class FakeRunner:
    """Grades nothing, and says it is of the versions that stand in `now`."""

    now: ClassVar = {"suite_version": "s1", "grader_version": "g1"}
    asked: ClassVar[list[int]] = []
    dies = False

    def __init__(self, *_: object) -> None:
        self.hello = {"protections": [], "max_score": 1.0} | self.now

    def put(self, number: int, path: Path, seed: int) -> None:
        self.asked.append(number)
        self._number = number

    def get(self) -> tuple[int, dict] | None:
        if self.dies:
            FakeRunner.now = self.now | {"grader_version": "g2"}
            return None
        return self._number, engine.unreadable("no notebook", 1.0)

    def close(self) -> None:
        """Nothing was started."""


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> type[FakeRunner]:
    monkeypatch.setattr(engine, "Runner", FakeRunner)
    for name, value in (("now", FakeRunner.now), ("asked", []), ("dies", False)):
        monkeypatch.setattr(FakeRunner, name, value)
    return FakeRunner


@pytest.fixture
def one(tmp_path: Path) -> list[Submitted]:
    path = tmp_path / "one.ipynb"
    path.write_text("{}")
    return [Submitted("student01", path)]


@pytest.mark.parametrize("which", ["suite_version", "grader_version"])
def test_a_stored_result_is_used_under_the_same_versions_alone(fake, one, tmp_path, which) -> None:
    graded = engine.grade("layernorm", one, results=tmp_path / "results").as_dict()
    assert (graded["suite_version"], graded["grader_version"]) == ("s1", "g1")
    assert len(fake.asked) == 1
    engine.grade("layernorm", one, results=tmp_path / "results")
    assert len(fake.asked) == 1
    fake.now = fake.now | {which: "other"}
    graded = engine.grade("layernorm", one, results=tmp_path / "results").as_dict()
    assert len(fake.asked) == 2 and graded[which] == "other"


@pytest.mark.parametrize("which", ["suite", "grader"])
def test_a_process_that_lives_long_grades_by_the_files_that_are_there_now(
    fake, one, monkeypatch, which
) -> None:
    """formgrader's button, in a Jupyter server."""
    made, closed = [], []
    monkeypatch.setattr(engine, "_runners", {})
    monkeypatch.setattr(engine.atexit, "register", made.append)
    monkeypatch.setattr(fake, "close", lambda self: closed.append(self))
    monkeypatch.setattr(versions, "suite", lambda assignment: fake.now["suite_version"])
    monkeypatch.setattr(versions, "grader", lambda: fake.now["grader_version"])
    for _ in range(2):
        engine.grade_notebook("layernorm", one[0].path)
    assert (len(made), len(closed)) == (1, 0)
    fake.now = fake.now | {f"{which}_version": "other"}
    for _ in range(2):
        engine.grade_notebook("layernorm", one[0].path)
    assert (len(made), len(closed)) == (2, 1)


def test_a_runner_that_does_not_start_is_not_kept_for_the_next_notebook(
    fake, one, monkeypatch
) -> None:
    def broken(_: object) -> dict:
        raise EngineError("the suite cannot be collected")

    monkeypatch.setattr(engine, "_runners", {})
    monkeypatch.setattr(versions, "suite", lambda assignment: "s1")
    monkeypatch.setattr(versions, "grader", lambda: "g1")
    with monkeypatch.context() as at_first:
        at_first.setattr(engine, "Runner", type("Broken", (), {
            "__init__": lambda *_: None, "hello": property(broken), "close": lambda _: None,
        }))  # fmt: skip
        with pytest.raises(EngineError, match="cannot be collected"):
            engine.grade_notebook("layernorm", one[0].path)
    assert engine.grade_notebook("layernorm", one[0].path)["reason"] == "no notebook"


def test_a_grader_that_is_edited_during_a_run_ends_it_with_one_line(fake, one, tmp_path) -> None:
    fake.dies = True
    with pytest.raises(EngineError, match="edited meanwhile: run the same command again"):
        engine.grade("layernorm", one, results=tmp_path / "results")


def test_the_version_is_told_without_loading_torch() -> None:
    code = (
        "import sys\nfrom autograder import versions\nfrom autograder.grading import engine\n"
        "versions.grader()\n"
        "print([n for n in ('torch', 'triton', 'numpy') if n in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
