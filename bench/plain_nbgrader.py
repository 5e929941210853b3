"""The same assignment as a plain nbgrader course: hidden asserts in the notebook, run in a kernel.

This is what an instructor gets without the sandbox, and what `bench.grading` compares with. The
hidden asserts check what the hidden suite checks (values on many shapes, dtypes and eps, module
state, gradients), against torch itself.
"""

from __future__ import annotations

import copy
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from autograder import release

CONFIG = """
c = get_config()
c.CourseDirectory.root = {root!r}
c.CourseDirectory.db_url = "sqlite:///" + {root!r} + "/gradebook.db"
c.ExecutePreprocessor.timeout = 300
"""

HIDDEN = {
    "test_layer_norm": """
import torch
for seed, shape in enumerate([(6,), (64, 64), (3, 5, 64), (1, 64), (2, 3, 4, 64), (2, 1, 1, 64)]):
    torch.manual_seed(seed)
    for eps in (10.0, 1e-2, 1e-5, 1e-12):
        x = 10 + 4 * torch.randn(shape)
        weight, bias = torch.randn(shape[-1]), torch.randn(shape[-1])
        before = x.clone()
        want = torch.nn.functional.layer_norm(x, shape[-1:], weight, bias, eps)
        torch.testing.assert_close(layer_norm(x, weight, bias, eps), want, rtol=1e-4, atol=1e-4)
        assert torch.equal(x, before)
for d in (1, 2, 7, 768):
    x, weight, bias = torch.randn(3, d), torch.randn(d), torch.randn(d)
    want = torch.nn.functional.layer_norm(x, (d,), weight, bias, 0.02)
    torch.testing.assert_close(layer_norm(x, weight, bias, 0.02), want, rtol=2e-5, atol=2e-5)
x = 1e4 + torch.randn(4, 768, dtype=torch.float64)
want = torch.nn.functional.layer_norm(x, (768,), None, None, 1e-5).float()
got = layer_norm(x.float(), torch.ones(768), torch.zeros(768), 1e-5)
torch.testing.assert_close(got, want, rtol=0, atol=2e-2)
x = torch.full((3, 64), 7.25)
assert torch.equal(layer_norm(x, torch.ones(64), torch.ones(64), 1e-3), torch.ones(3, 64))
for dtype in (torch.float16, torch.bfloat16):
    x = (200 + 2 * torch.randn(8, 64)).to(dtype)
    want = torch.nn.functional.layer_norm(x.float(), (64,), None, None, 1e-3).to(dtype)
    got = layer_norm(x, torch.ones(64, dtype=dtype), torch.zeros(64, dtype=dtype), 1e-3)
    torch.testing.assert_close(got, want, rtol=2e-2, atol=2e-2)
""",
    "test_LayerNorm": """
import torch
m, theirs = LayerNorm(64), torch.nn.LayerNorm(64)
assert list(m.state_dict()) == ["weight", "bias"]
assert all(p.requires_grad for p in m.parameters())
for seed, shape in enumerate([(4, 64), (2, 5, 64), (64,), (2, 3, 2, 64)]):
    torch.manual_seed(seed)
    x = 10 + 4 * torch.randn(shape)
    torch.testing.assert_close(m(x), theirs(x), rtol=1e-4, atol=1e-4)
state = {"weight": torch.randn(64), "bias": torch.randn(64)}
m.load_state_dict(state); theirs.load_state_dict(state)
for mode in (True, False):
    m.train(mode)
    x = torch.randn(4, 64, requires_grad=True)
    y, z = m(x), theirs(x)
    torch.testing.assert_close(y, z, rtol=1e-4, atol=1e-4)
    g = torch.randn(4, 64)
    mine = torch.autograd.grad(y, [x, m.weight, m.bias], g)
    want = torch.autograd.grad(z, [x, theirs.weight, theirs.bias], g)
    for a, b in zip(mine, want):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
for eps in (4.0, 0.5):
    x = torch.randn(4, 64)
    want = torch.nn.LayerNorm(64, eps=eps)(x)
    torch.testing.assert_close(LayerNorm(64, eps)(x), want, rtol=1e-4, atol=1e-4)
m.to(torch.float64)
assert m(torch.randn(4, 64, dtype=torch.float64)).dtype == torch.float64
""",
    "test_layer_norm_backward": """
import torch
for seed, shape in enumerate([(6,), (4, 64), (3, 5, 64), (2, 3, 2, 8), (5, 1, 7), (2, 768)]):
    torch.manual_seed(seed)
    for eps in (0.5, 1e-5):
        x = 10 + 4 * torch.randn(shape, dtype=torch.float64)
        weight = torch.randn(shape[-1], dtype=torch.float64)
        grad_out = 1.5 + torch.randn(shape, dtype=torch.float64)
        leaves = [x.clone(), weight.clone(), torch.zeros_like(weight)]
        leaves = [leaf.requires_grad_() for leaf in leaves]
        y = torch.nn.functional.layer_norm(leaves[0], shape[-1:], leaves[1], leaves[2], eps)
        want = torch.autograd.grad(y, leaves, grad_out)
        got = layer_norm_backward(grad_out, x, weight, eps)
        for a, b in zip(got, want):
            torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)
for dtype in (torch.float16, torch.bfloat16):
    x, weight = torch.randn(8, 64).to(dtype), torch.ones(64, dtype=dtype)
    got = layer_norm_backward(torch.randn(8, 64).to(dtype), x, weight, 1e-5)
    assert all(g.dtype == dtype for g in got)
""",
}


@dataclass(frozen=True)
class Timing:
    """One `nbgrader autograde` run."""

    seconds: float  # from the command to its end
    start_seconds: float  # until it takes up the first submission
    start_cpu: float  # what `clock` said then


class Course:
    """An nbgrader course in `root` (a new folder) with everything nbgrader's own way."""

    def __init__(self, root: Path, assignment: str = "layernorm") -> None:
        self.root, self.assignment = root, assignment
        (root / "nbgrader_config.py").write_text(CONFIG.format(root=str(root)))
        source = nbformat.read(release.build_source(assignment), as_version=4)
        self.solution = _solution(source)
        for cell in source.cells:
            hidden = HIDDEN.get(cell.metadata.get("nbgrader", {}).get("grade_id", ""))
            if hidden:
                cell.source += f"\n### BEGIN HIDDEN TESTS{hidden}### END HIDDEN TESTS"
        self._put(root / "source" / assignment, source)
        self._nbgrader("generate_assignment", assignment)

    def submit(self, students: list[str]) -> None:
        for student in students:
            self._put(self.root / "submitted" / student / self.assignment, self.solution)

    def autograde(self, clock: Callable[[], float]) -> Timing:
        """Grade everything that is in submitted/ and new. Raises RuntimeError when that fails."""
        started = time.monotonic()
        first = cpu = None
        with self._start("autograde", self.assignment) as process:
            assert process.stdout is not None
            output = []
            for line in process.stdout:
                output.append(line)
                if first is None and "Converting notebook" in line:
                    first, cpu = time.monotonic(), clock()
        if process.returncode or first is None or cpu is None:
            raise RuntimeError("nbgrader autograde failed:\n" + "".join(output[-20:]))
        return Timing(time.monotonic() - started, first - started, cpu)

    def scores(self) -> dict[str, float]:
        """Score of each student, from the gradebook."""
        from nbgrader.api import Gradebook

        with Gradebook(f"sqlite:///{self.root}/gradebook.db") as gradebook:
            return {
                s.student_id: s.score for s in gradebook.assignment_submissions(self.assignment)
            }

    def _put(self, folder: Path, notebook: NotebookNode) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, folder / f"{self.assignment}.ipynb")

    def _start(self, *arguments: str) -> subprocess.Popen[str]:
        own = {
            name: str(self.root / "home") for name in ("HOME", "IPYTHONDIR", "JUPYTER_CONFIG_DIR")
        }
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # for alembic
        return subprocess.Popen(
            [sys.executable, "-m", "nbgrader", *arguments],
            cwd=self.root, env=os.environ | own | {"PATH": path, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def _nbgrader(self, *arguments: str) -> None:
        with self._start(*arguments) as process:
            output = process.communicate()[0]
        if process.returncode:
            raise RuntimeError(f"nbgrader {arguments[0]} failed:\n{output[-2000:]}")


def solution(assignment: str) -> NotebookNode:
    """The notebook that a learner with full marks hands in."""
    return _solution(nbformat.read(release.build_source(assignment), as_version=4))


def _solution(source: NotebookNode) -> NotebookNode:
    """The source notebook as a learner with full marks hands it in."""
    notebook = copy.deepcopy(source)
    for cell in notebook.cells:
        lines = cell.source.split("\n")
        marks = ("### BEGIN SOLUTION", "### END SOLUTION")
        cell.source = "\n".join(line for line in lines if line.strip() not in marks)
    return notebook
