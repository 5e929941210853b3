"""The suite runner as a process: graders are reused, replaced, and never cost a grade."""

import json
import os
import signal
import subprocess
import sys
import time
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from autograder.grading.told import ERROR_TOO

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "samples" / "submitted"


@pytest.fixture
def runner():
    process = subprocess.Popen(
        [sys.executable, "-m", "autograder.grading.suite_runner", "layernorm", "1"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
    )  # fmt: skip
    assert json.loads(process.stdout.readline())["ready"]
    yield process
    process.stdin.close()
    assert process.wait(600) == 0


def put(runner, number: int, student: str) -> None:
    path = SAMPLES / student / "layernorm" / "layernorm.ipynb"
    runner.stdin.write(json.dumps({"id": number, "path": str(path), "seed": 1}) + "\n")
    runner.stdin.flush()


def graders(runner) -> list[int]:
    """Forks of the runner: its children that run the same command."""
    found = []
    for task in Path(f"/proc/{runner.pid}/task").iterdir():
        for pid in (task / "children").read_text().split():
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            if b"autograder.grading.suite_runner" in command:
                found.append(int(pid))
    return found


linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")


@linux
def test_one_grader_grades_many_and_each_as_if_it_were_alone(runner):
    results = []
    for number, student in enumerate(["student05", "student01", "student05", "student01"]):
        put(runner, number, student)
        results.append(json.loads(runner.stdout.readline())["result"]["exercises"])
        assert len(graders(runner)) == 1
    assert results[0] == results[2] and results[1] == results[3]
    assert results[0] != results[1]


def graded(runner, folder: Path, code: str) -> dict:
    """The result of a notebook with one cell."""
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "source": code}
    notebook = {"cells": [cell | {"execution_count": None}], "metadata": {}}
    path = folder / "layernorm.ipynb"
    path.write_text(json.dumps(notebook | {"nbformat": 4, "nbformat_minor": 2}))
    runner.stdin.write(json.dumps({"id": 1, "path": str(path), "seed": 1}) + "\n")
    runner.stdin.flush()
    return json.loads(runner.stdout.readline())["result"]


def test_of_many_lines_that_raise_one_is_told(runner, tmp_path):
    lines = "\n".join(f"    if len(calls) == {n}: raise ValueError  # {n}" for n in range(200))
    code = f"calls = []\ndef layer_norm(x, *rest):\n    calls.append(x)\n{lines}\n"
    tests = graded(runner, tmp_path, code)["exercises"][0]["tests"]
    messages = [t["message"] for t in tests]
    assert {t["verdict"] for t in tests} == {"error"} and "ValueError at line" in messages[0]
    assert set(messages[1:]) == {ERROR_TOO}


@linux
def test_no_reply_makes_a_grader_large(runner, tmp_path):
    def peak() -> int:
        (grader,) = graders(runner)
        status = Path(f"/proc/{grader}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) >> 10

    put(runner, 0, "student01")
    runner.stdout.readline()
    before = peak()
    code = """
import torch
calls = []
big = torch.zeros(1 << 24)[::4]  # 16 MiB to send, 64 MiB with its strides


def layer_norm(x, weight, bias, eps):
    calls.append(x.shape)
    if len(calls) == 1:
        raise ValueError
    return big
"""
    for _ in range(3):
        result = graded(runner, tmp_path, code)
        assert result["score"] == 0
    messages = {t["message"] for t in result["exercises"][0]["tests"][1:]}
    assert messages == {"`layer_norm` returned far more data than asked for."}
    assert peak() - before < 40


@linux
def test_a_grader_that_is_killed_costs_no_grade(runner):
    put(runner, 0, "student01")
    first = json.loads(runner.stdout.readline())["result"]
    (grader,) = graders(runner)
    put(runner, 1, "student30")  # hangs for some seconds
    put(runner, 2, "student01")
    time.sleep(0.5)
    os.kill(grader, signal.SIGKILL)
    second, third = (json.loads(runner.stdout.readline()) for _ in range(2))
    assert second["id"] == 1 and second["result"]["status"] == "graded"
    assert third["result"]["exercises"] == first["exercises"]
    assert graders(runner) != [grader]


def test_a_crash_costs_its_own_test_alone(runner, tmp_path):
    notebook = json.loads((SAMPLES / "student01" / "layernorm" / "layernorm.ipynb").read_text())
    cell = next(c for c in notebook["cells"] if "def layer_norm(" in "".join(c["source"]))
    more = """
right = layer_norm
def layer_norm(x, weight, bias, eps):
    if x.shape == (3, 7):
        import os
        os._exit(3)
    return right(x, weight, bias, eps)
"""
    cell["source"] = "".join(cell["source"]) + more
    path = tmp_path / "layernorm.ipynb"
    path.write_text(json.dumps(notebook))
    runner.stdin.write(json.dumps({"id": 1, "path": str(path), "seed": 1}) + "\n")
    runner.stdin.flush()
    result = json.loads(runner.stdout.readline())["result"]
    verdicts = {t["name"]: t["verdict"] for t in result["exercises"][0]["tests"]}
    assert verdicts.pop("test_formula_to_the_last_digits") == "crashed"
    assert set(verdicts.values()) == {"pass"}


def test_without_triton_an_assignment_with_kernels_says_so_in_one_line():
    code = (
        "import sys; sys.modules['triton'] = None; "
        "from autograder.grading.suite_runner import main; sys.exit(main(['triton_kernels', '1']))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1 and not done.stderr
    said = {"error": "triton_kernels needs Triton, which has packages for Linux only"}
    assert json.loads(done.stdout) == said


def test_what_the_runner_refuses_ends_the_command_with_code_2(monkeypatch, capsys):
    from autograder import cli
    from autograder.grading import engine

    class Refusing(engine.Runner):
        def __init__(self, *_: object) -> None:
            self._hello = {"error": "triton_kernels needs Triton"}

        def close(self) -> None:
            """Nothing was started."""

    monkeypatch.setattr(engine, "Runner", Refusing)
    monkeypatch.setattr(engine, "_runners", {})
    notebook = ROOT / "exercises" / "triton_kernels" / "triton_kernels.ipynb"
    assert cli.main(["check", str(notebook)]) == 2
    assert capsys.readouterr().err == "autograder: triton_kernels needs Triton\n"


def run_python(code: str) -> str:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_a_suite_is_ready_without_what_torch_loads_late():
    """A third of a second of imports stood before the first grade."""
    code = (
        "import sys\nfrom autograder.testing import suite\nfrom autograder.worker import serve\n"
        "suite.load('layernorm').rehearse()\nprint([n in sys.modules for n in serve.LATE])\n"
    )
    assert run_python(code) == "[False]\n"


@pytest.mark.skipif(sys.platform != "linux", reason="the C library of Linux")
def test_after_gaps_are_closed_memory_is_taken_from_the_end_alone():
    code = (
        "import ctypes\nfrom autograder.sandbox import linux\n"
        "libc = ctypes.CDLL(None)\nlibc.malloc.restype = libc.sbrk.restype = ctypes.c_void_p\n"
        "kept = [libc.malloc(size) for size in 400 * (40, 200, 1000)]\n"
        "for block in kept[::2]:\n    libc.free(ctypes.c_void_p(block))\n"
        "linux.close_gaps()\n"
        "new = [libc.malloc(size) for size in 50 * (40, 200, 1000)]\n"
        "print(hasattr(libc, 'mallinfo2'), min(new) > max(kept))\n"
    )
    assert run_python(code) in ("True True\n", "False False\n")


def test_a_file_on_the_path_never_stands_in_for_a_module_of_ours(tmp_path):
    """`import protocol` once ran whatever lay on PYTHONPATH under that name, on this side."""
    ours = {path.stem for path in (ROOT / "autograder").rglob("*.py") if "suites" not in path.parts}
    for name in ours - packages_distributions().keys() - sys.stdlib_module_names:
        (tmp_path / f"{name}.py").write_text("print(__name__, 'of a stranger was run')\n")
    assert (tmp_path / "protocol.py").exists() and (tmp_path / "far_rows.py").exists()
    code = (
        "from autograder import cli, cluster, collect, preprocessor\n"
        "from autograder.grading import suite_runner\nfrom autograder.reports import report\n"
        "from autograder.testing import suite\n"
        "suite.load('triton_kernels').misconceptions\nprint('loaded')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert done.stdout == "loaded\n", done.stderr
