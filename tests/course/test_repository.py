"""The repository as a newcomer meets it: pins, commands, messages, and nothing that is not ours."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from importlib.metadata import distributions, packages_distributions
from pathlib import Path

import pytest

from tools import rooms

ROOT = Path(__file__).resolve().parents[2]
PIN = re.compile(
    r'([A-Za-z0-9_.-]+)(\[[a-z]+\])?==([0-9][A-Za-z0-9.]*)(; sys_platform == "linux")?'
)
TEXT_SUFFIXES = {
    ".cfg", ".css", ".html", ".ini", ".ipynb", ".j2", ".js", ".json", ".md", ".py", ".sh", ".toml",
    ".txt", ".yaml", ".yml",
}  # fmt: skip
# Generated or given text that may hold addresses: what a learner's sample says is not ours.
FOREIGN = ("samples/submitted/", "tests/attacks/", "tests/honest/")


def tracked() -> list[Path]:
    """Files that git knows; in a copy without git, all that git would not ignore by name."""
    try:
        done = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True
        )
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    return [ROOT / name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()]


def requirement_lines() -> list[str]:
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    return [line.split(" #")[0].strip() for line in lines if line and not line.startswith("#")]


# -- dependencies ------------------------------------------------------------------------------


def test_every_requirement_is_pinned_exactly():
    unpinned = [line for line in requirement_lines() if not PIN.fullmatch(line)]
    assert unpinned == []


def test_every_requirement_says_what_it_is_for():
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    silent = [line for line in lines if "==" in line and len(line.partition(" #")[2]) < 10]
    assert silent == []


def test_torch_is_the_version_the_course_is_written_for():
    assert "torch==2.13.0" in requirement_lines()


def test_triton_is_asked_for_on_linux_only():
    triton = [line for line in requirement_lines() if line.startswith("triton")]
    assert triton == ['triton==3.7.1; sys_platform == "linux"']


def _imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.split(".")[0])
    return names


def test_every_package_our_code_imports_is_a_requirement():
    pinned = {_canonical(PIN.fullmatch(line)[1]) for line in requirement_lines()}
    distributions = packages_distributions()
    imported: dict[str, str] = {}
    for path in tracked():
        ours = not str(path.relative_to(ROOT)).startswith(FOREIGN)
        if path.suffix == ".py" and ours:
            imported |= dict.fromkeys(_imported(path), str(path.relative_to(ROOT)))
    missing = {
        name: where
        for name, where in imported.items()
        if name in distributions and pinned.isdisjoint(_canonical(d) for d in distributions[name])
    }
    assert missing == {}


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


LOCKED = re.compile(r"([a-z0-9-]+)==([0-9][A-Za-z0-9.]*)( ; [a-zA-Z0-9_ .'()=!<>]+)?")


def locked() -> dict[str, set[str]]:
    """Package -> its versions in the lock list, of which the markers choose one."""
    found: dict[str, set[str]] = {}
    for line in (ROOT / "requirements-lock.txt").read_text().splitlines():
        if not line.startswith("#"):
            match = LOCKED.fullmatch(line)
            assert match, f"no pin, or one with an address: {line}"
            found.setdefault(match[1], set()).add(match[2])
    return found


def test_the_lock_list_has_every_direct_pin_and_no_other_version_of_it():
    pins = [PIN.fullmatch(line) for line in requirement_lines()]
    differs = {pin[1]: pin[3] for pin in pins if locked().get(_canonical(pin[1])) != {pin[3]}}
    assert differs == {}, "renew it by `make lock`"


def test_what_is_installed_is_what_the_lock_list_says():
    differs, unpinned = {}, set()
    # Not all of sys.path: setuptools puts copies of its own there.
    installed = list(distributions(path=[sysconfig.get_path("purelib")]))
    for package in installed:
        versions = locked().get(_canonical(package.name))
        if versions is None:
            continue  # pip, and what a person has put there
        if package.version.partition("+")[0] not in versions:  # torch 2.13.0+cpu
            differs[package.name] = package.version
        needs = [need for need in package.requires or () if "extra ==" not in need]
        unpinned |= {_canonical(re.match(r"[\w.-]+", need)[0]) for need in needs} - set(locked())
    present = {_canonical(package.name) for package in installed}
    assert (differs, unpinned & present) == ({}, set()), "run `make setup`, or `make lock` first"


def test_python_versions_agree_in_pyproject_setup_and_readme():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == ">=3.11,<3.14"
    assert "3.11 | 3.12 | 3.13)" in (ROOT / "tools" / "setup.sh").read_text()
    assert "Python 3.11, 3.12 or 3.13" in (ROOT / "README.md").read_text()


# -- commands ----------------------------------------------------------------------------------


def targets() -> set[str]:
    lines = (ROOT / "Makefile").read_text().splitlines()
    return {line.partition(":")[0] for line in lines if re.match(r"[a-z]+:(?!=)", line)}


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "CONTRIBUTING.md",
        "book/instructors-guide.md",
        "book/index.md",
        "bench/README.md",
    ],
)
def test_every_make_command_a_page_names_is_a_target(page):
    text = (ROOT / page).read_text()
    inline = re.findall(r"(?:`|^\$ )make ([a-z]+)", text, re.MULTILINE)
    assert inline, f"{page} names no make command: the pattern of this test has gone stale"
    assert set(inline) <= targets()


@pytest.mark.parametrize("page", ["README.md", "book/instructors-guide.md"])
def test_every_grader_command_a_page_names_is_a_verb(page):
    done = subprocess.run(
        [sys.executable, "-m", "autograder", "--help"], cwd=ROOT, capture_output=True, text=True
    )
    verbs = set(re.findall(r"^    ([a-z]+) ", done.stdout, re.MULTILINE))
    named = set(re.findall(r"python -m autograder ([a-z]+)", (ROOT / page).read_text()))
    assert named and named <= verbs


def test_make_without_a_target_lists_every_target():
    done = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, env=_bare_env())
    assert done.returncode == 0
    listed = set(re.findall(r"^  ([a-z]+) ", done.stdout, re.MULTILINE))
    assert listed == targets()


def test_the_quick_tests_are_there_and_touch_every_room():
    names = re.search(r"^QUICK := (.*\n(?:  .*\n)*)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    quick = names[1].replace("\\", "").split()
    assert [name for name in quick if not (ROOT / name).exists()] == []
    touched = {name.split("/")[1] for name in quick}
    assert {room.rpartition(".")[2] for room in rooms.rooms()} - touched == set()


def test_ci_runs_what_the_readme_says():
    script = (ROOT / ".ci" / "run").read_text()
    assert script.startswith("#!/usr/bin/env bash")
    assert "set -euo pipefail" in script
    assert "\nmake test\n" in script
    assert "$ make test" in (ROOT / "README.md").read_text()
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


# -- messages of a failing set-up --------------------------------------------------------------


def _bare_env(**more: str) -> dict[str, str]:
    """The environment without what an outer `make` hands down."""
    kept = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    return {k: v for k, v in kept.items() if k not in ("PYTHON", "VENV")} | more


def _setup_with(tmp_path: Path, programs: dict[str, str], **env: str) -> tuple[int, list[str]]:
    """Run setup.sh where PATH holds only `programs` (name -> shell script); its stderr lines."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in ("sh", "dirname"):
        (folder / tool).symlink_to(shutil.which(tool))
    for name, script in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    done = subprocess.run(
        [str(folder / "sh"), str(ROOT / "tools" / "setup.sh")],
        env=_bare_env(PATH=str(folder), VENV=str(tmp_path / "venv"), **env),
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout == ""
    return done.returncode, done.stderr.splitlines()


def test_a_too_old_python_is_named_in_one_line(tmp_path):
    code, lines = _setup_with(tmp_path, {"python3": "echo 3.10"})
    assert code == 1
    assert len(lines) == 1
    assert lines[0].startswith("setup: Python 3.10 (python3) is too old; 3.11, 3.12 or 3.13")


def test_a_too_new_python_is_named_in_one_line(tmp_path):
    code, lines = _setup_with(tmp_path, {"python3": "echo 3.14"})
    assert (code, len(lines)) == (1, 1)
    assert "Python 3.14 (python3) is too new" in lines[0]


def test_a_missing_python_is_said_in_one_line(tmp_path):
    code, lines = _setup_with(tmp_path, {})
    assert (code, len(lines)) == (1, 1)
    assert "no Python was found" in lines[0]


def test_a_missing_venv_module_is_said_in_one_line_with_the_package_to_install(tmp_path):
    no_venv = 'case "$2" in *ensurepip*) exit 1 ;; esac\necho 3.12'
    code, lines = _setup_with(tmp_path, {"python3.12": no_venv})
    assert (code, len(lines)) == (1, 1)
    assert "lacks the venv module" in lines[0]
    assert "apt install python3.12-venv" in lines[0]


def test_a_launcher_of_a_python_that_is_gone_is_passed_over(tmp_path):
    gone = "echo 'python3.13: command not found' >&2\nexit 127"
    fits = 'case "$2" in *version*) echo 3.11 ;; "") echo "running $1" >&2; exit 5 ;; esac'
    code, lines = _setup_with(tmp_path, {"python3.13": gone, "python3.11": fits})
    assert code == 5
    assert lines == [f"running {ROOT / 'tools' / 'setup.py'}"]


def test_the_python_that_was_asked_for_is_used_or_refused(tmp_path):
    old = tmp_path / "old-python"
    old.write_text("#!/bin/sh\necho 3.9\n")
    old.chmod(0o755)
    code, lines = _setup_with(tmp_path, {"python3": "echo 3.11"}, PYTHON=str(old))
    assert (code, len(lines)) == (1, 1)
    assert f"Python 3.9 ({old}) is too old" in lines[0]


def _run_setup(venv: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "tools" / "setup.py")],
        env=_bare_env(VENV=str(venv), **env), capture_output=True, text=True,
    )  # fmt: skip


def _environment(folder: Path, install: str) -> Path:
    """An environment whose Python only answers set-up, and installs by a line of shell script."""
    (folder / "bin").mkdir(parents=True)
    python = folder / "bin" / "python"
    python.write_text(f"""#!/bin/sh
case "$*" in
*" pip install "*) {install} ;;
*"import pip"*) echo 3.11.7 ;;
esac
""")
    python.chmod(0o755)
    return folder


def test_too_little_disk_space_is_said_in_one_line_with_the_figures(tmp_path):
    done = _run_setup(tmp_path / "venv", MINIMUM_FREE_GB="100000000")
    assert done.returncode == 1
    assert re.fullmatch(r"setup: [0-9.]+ GB are free at \S+, 1e\+08 GB are needed\n", done.stderr)


def test_a_folder_that_is_no_environment_is_left_alone(tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    done = _run_setup(tmp_path)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert (tmp_path / "letter.txt").read_text() == "dear"


def test_no_network_is_said_in_one_line(tmp_path):
    # Port 9 of this machine: refused at once, no packet leaves it.
    done = _run_setup(
        tmp_path / "venv", PIP_INDEX_URL="http://127.0.0.1:9/simple", PIP_RETRIES="0",
        PIP_CONFIG_FILE=os.devnull, PIP_FIND_LINKS="", PIP_EXTRA_INDEX_URL="",
        MINIMUM_FREE_GB="0",
    )  # fmt: skip
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "the package index cannot be reached" in done.stderr
    assert (tmp_path / "venv" / ".installed").read_text() == ""


def test_what_pip_says_last_is_the_reason_in_one_line(tmp_path):
    full = "echo Collecting torch; echo '[Errno 28] No space left on device'; exit 1"
    done = _run_setup(_environment(tmp_path / "venv", full))
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert "pip failed: [Errno 28] No space left on device; mend that" in done.stderr
    assert (tmp_path / "venv" / "install.log").read_text().startswith("Collecting torch\n")


def test_an_interrupted_installation_is_started_over(tmp_path):
    venv = _environment(tmp_path / "venv", "kill -9 $PPID")
    assert _run_setup(venv).returncode == -9
    done = _run_setup(venv, MINIMUM_FREE_GB="100000000")  # which ends it after the first steps
    assert f"starting {venv} over" in done.stdout
    assert list(venv.iterdir()) == []


def test_an_environment_is_left_alone_until_a_list_of_packages_changes(tmp_path):
    (tmp_path / "tools").mkdir()
    for name in ("tools/setup.py", "requirements.txt", "requirements-lock.txt"):
        shutil.copy(ROOT / name, tmp_path / name)
    venv = _environment(tmp_path / "venv", f'echo "$*" >> {tmp_path}/calls')

    def installations() -> list[str]:
        subprocess.run(
            [sys.executable, str(tmp_path / "tools" / "setup.py")],
            env=_bare_env(VENV=str(venv)), check=True,
        )  # fmt: skip
        return (tmp_path / "calls").read_text().splitlines()

    (call,) = installations()
    assert call.endswith(f"-r {tmp_path}/requirements.txt -c {tmp_path}/requirements-lock.txt")
    assert len(installations()) == 1
    for number, name in enumerate(("requirements.txt", "requirements-lock.txt"), 2):
        (tmp_path / name).write_text("pytest==1.0\n")
        assert len(installations()) == number


# -- what is committed -------------------------------------------------------------------------

_MACHINE = re.compile(r"(?<![\w/.<>-])/(root|home/\w+|Users/\w+|work|tmp/\w+)/[\w./-]+")
_HOSTS = re.compile(r"https?://[^\s)\"'>]*(pypi|pythonhosted|npmjs|conda|anaconda|docker|debian)\.")


def test_no_tracked_file_names_a_path_of_one_machine_or_a_package_host():
    found = []
    for path in tracked():
        name = str(path.relative_to(ROOT))
        if path.suffix not in TEXT_SUFFIXES or name.startswith(FOREIGN):
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if _HOSTS.search(line) or (_MACHINE.search(line) and not name.startswith("tests/")):
                found.append(f"{name}:{number}: {line.strip()[:100]}")
    assert found == []


def test_no_tracked_file_is_large():
    large = {
        str(path.relative_to(ROOT)): path.stat().st_size
        for path in tracked()
        if path.stat().st_size > 1_000_000
    }
    assert large == {}


def test_no_python_file_is_longer_than_a_few_screens_or_a_grab_bag():
    long = {}
    for path in tracked():
        name = str(path.relative_to(ROOT))
        # The source of an assignment is a notebook: mostly prose, and one file by its nature.
        if path.suffix == ".py" and not name.startswith((*FOREIGN, "solutions/")):
            assert path.name not in ("utils.py", "helpers.py", "common.py", "misc.py"), name
            lines = len(path.read_text(encoding="utf-8").splitlines())
            if lines > (700 if name.startswith("tests/") else 550):
                long[name] = lines
    assert long == {}


def test_what_is_built_is_not_committed():
    names = {str(path.relative_to(ROOT)).split("/")[0] for path in tracked()}
    built = {"_build", "build", "results", "submitted", "autograded", "feedback", "my-work"}
    assert names.isdisjoint(built | {".venv", "gradebook.db"})


def test_the_licenses_are_the_ones_the_readme_names():
    assert (ROOT / "LICENSE").read_text().startswith("MIT License")
    text = (ROOT / "LICENSE-TEXT").read_text()
    assert "Creative Commons Attribution 4.0 International Public License" in text
    assert "Section 8" in text  # the whole text, to its last section
