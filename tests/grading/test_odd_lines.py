"""Everyday lines around right answers, graded for real: they cost nothing, and are told.

Each student hands in the reference with one thing changed.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from attack_class import EXERCISES, ROOT, _position, reference_sources, released

from autograder.grading.link import RemoteLink
from autograder.sandbox import Limits
from autograder.sandbox.forkserver import ForkServer
from autograder.testing import allowance
from autograder.testing.student import Student
from autograder.testing.suite import load

RIGHT = reference_sources()
NORM, MODULE, BACKWARD = EXERCISES
FULL = 20.0


@dataclass(frozen=True)
class Odd:
    """What is odd about a notebook, and what comes of it."""

    answers: dict[str, str]
    said: str = ""  # pattern of a notice; "": there is none but that of written questions
    score: float = FULL
    message: str = ""  # pattern of the message of each test that is not passed


def above(line: str, said: str = "", name: str = NORM) -> Odd:
    return Odd({name: f"{line}\n\n{RIGHT[name]}"}, said)


def below(line: str, said: str = "", name: str = MODULE) -> Odd:
    return Odd({name: f"{RIGHT[name]}\n\n{line}\n"}, said)


def inside(line: str, said: str = "", **more) -> Odd:
    """`line` as the first of layer_norm's body."""
    body = re.sub(r"(?m)^    centered", f"    {line}\n    centered", RIGHT[NORM], count=1)
    assert body != RIGHT[NORM]
    return Odd({NORM: body}, said, **more)


def no_module(name: str) -> str:
    return rf"stopped at line 1, `.*`: there is no module `{name}` here. What is there: .*torch"


SHAPES = "from jaxtyping import Float, jaxtyped\n\n@jaxtyped\n"
TRAIN = """
model = LayerNorm(8)
best = None
for step in range(10**9):
    loss = model(torch.randn(4, 8)).square().sum()
    loss.backward()

def plot(history):
    return history
"""

ODD = {
    # H4 and M9: what the learner's machine has and the grader has not
    "pandas": above("import pandas as pd", no_module("pandas")),
    "tqdm": above("from tqdm.auto import tqdm", no_module("tqdm.auto")),
    "seaborn": above("import seaborn as sns\nsns.set_theme()", no_module("seaborn")),
    "einops": above("from einops import rearrange", no_module("einops")),
    "wandb": above("import wandb\nwandb.init(project='norm')", no_module("wandb")),
    "drive": above(
        "from google.colab import drive\ndrive.mount('/content/drive')", no_module("google.colab")
    ),
    "several": above("import pandas, math, tqdm\nassert math.pi", "no modules `pandas` and `tqdm`"),
    "download": above(
        "import urllib.request\nurllib.request.urlretrieve('https://example.org/x', 'x')",
        "stopped at line 2, .*no network",
    ),
    "cuda": above("torch.zeros(3).cuda()", "stopped at line 1"),
    "shell": above("!pip install einops\n%matplotlib inline", "only IPython or a shell"),
    "jaxtyping": Odd(
        {
            NORM: SHAPES + RIGHT[NORM].replace("x: Tensor", 'x: Float[Tensor, "... D"]'),
            MODULE: SHAPES + RIGHT[MODULE].replace("x: Tensor", 'x: Float[Tensor, "... D"]'),
        },
        "without the annotations and decorators",
    ),
    "jupyter": above("input('name? ')\ndisplay(torch.ones(2))\nhelp(torch.ones)\nexit()\nquit()"),
    "jupyter-inside": inside("display(x); help(x); input(); breakpoint(); get_ipython(); exit()"),
    "ipython": above("from IPython.display import clear_output, display\ndisplay(torch.ones(2))"),
    "debugger-inside": inside("import pdb; pdb.set_trace()"),
    "system-exit": above("import sys\nsys.exit(0)", "stopped at line 2.*SystemExit"),
    "missing-inside": inside(
        "import einops", score=FULL - 13, message="There is no module `einops` here. What is there"
    ),
    "used-inside": Odd(
        {NORM: "import einops\n\n" + inside("x = einops.f(x)").answers[NORM]}, no_module("einops"),
        FULL - 13, r"`einops` is not there. Your cell `layer_norm` stopped at line 1",
    ),
    "unreadable": Odd(
        {NORM: RIGHT[NORM] + "\nprint 'done'\n"}, "syntax error", FULL - 13,
        "Python cannot read it",
    ),
    "base-class": Odd(
        {MODULE: "import lightning as L\n" + RIGHT[MODULE].replace("nn.Module", "L.Module")},
        no_module("lightning"), FULL - 5,
        "`LayerNorm` is not there. Your cell `LayerNorm` stopped at line 1, `import lightning",
    ),
    # H3: time and compilers
    "training": below(TRAIN, r"Your cell `LayerNorm` stopped at line \d+, `for step .*may compute"),
    "sleeping": below("import time\ntime.sleep(3600)", "stopped at line .*`time.sleep"),
    "compile": above("@torch.compile", "Line 1 of your cell `layer_norm` compiles"),
    "compile-options": above("@torch.compile(fullgraph=True)", "compiles, and the grader has no"),
    "compile-call": below("layer_norm = torch.compile(layer_norm)", "same points", name=NORM),
    "compile-itself": Odd(
        {MODULE: RIGHT[MODULE].replace("__init__()\n", "__init__()\n        self.compile()\n", 1)}
    ),
    "script": above("@torch.jit.script", "compiles, and the grader has no compiler"),
    "ends-the-process": below("import os\nos._exit(0)", "define nothing.*ended in: crashed"),
    "not-to-be-stopped": Odd(
        # One step of C code that no signal interrupts, below a right class.
        {MODULE: RIGHT[MODULE] + "\n\nfrom itertools import repeat\nsum(repeat(0))\n"},
        "define nothing.*ended in: timeout",
    ),
    # M1 and M2: global settings of torch
    "float64": above("torch.set_default_dtype(torch.float64)", "Line 1 of .*torch's default dtype"),
    "no-gradients": below("torch.set_grad_enabled(False)", "whether gradients", name=BACKWARD),
    "bfloat16": below("torch.set_default_dtype(torch.bfloat16)", "default dtype", name=BACKWARD),
    "meta": below("torch.set_default_device('meta')", "default device", name=BACKWARD),
    "set-inside": inside("torch.set_default_dtype(torch.float64); torch.set_grad_enabled(True)"),
    # M8: prints
    "prints": inside(
        "for _ in range(50): print(x.shape, 'x' * 200)", "Your functions printed more than 256 KiB"
    ),
    "prints-in-a-cell": below("for _ in range(999): print('x' * 999)", "by line .*`LayerNorm`"),
}  # fmt: skip


@pytest.fixture(scope="module")
def graded(tmp_path_factory, request):
    """Every notebook that was asked for, graded as one class."""
    mine = [item for item in request.session.items if item.path == request.path]
    chosen = {item.callspec.params["name"] for item in mine if hasattr(item, "callspec")}
    base = tmp_path_factory.mktemp("odd")
    for name in chosen:
        notebook = released()
        for exercise in EXERCISES:
            source = ODD[name].answers.get(exercise, RIGHT[exercise])
            notebook["cells"][_position(notebook, exercise)]["source"] = source
        folder = base / "submitted" / name / "layernorm"
        folder.mkdir(parents=True)
        (folder / "layernorm.ipynb").write_text(json.dumps(notebook))
    command = [
        sys.executable, "-m", "autograder", "grade", "layernorm", "--no-gradebook", "--jobs", "2",
        "--submitted", str(base / "submitted"), "--results", str(base / "results"),
    ]  # fmt: skip
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=3600)
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-2000:]
    data = json.loads(Path(base / "results" / "results.json").read_text())
    return {s["student"]: s for s in data["submissions"]}


@pytest.mark.parametrize("name", ODD)
def test_an_odd_line_costs_itself_and_is_told(graded, name):
    odd, found = ODD[name], graded[name]
    tests = [t for e in found["exercises"] for t in e["tests"] if t["verdict"] != "pass"]
    assert found["score"] == odd.score, [t["message"] for t in tests][:3]
    notices = [n for n in found["notices"] if "a person grades" not in n]
    assert [n for n in notices if re.search(odd.said, n)] if odd.said else notices == []
    assert all(odd.message and re.search(odd.message, t["message"]) for t in tests)
    assert all(t["verdict"] == "error" for t in tests)


def test_the_packages_that_are_promised_can_be_imported_in_the_sandbox():
    names = [n for n in allowance.packages() if n != "triton" or sys.platform == "linux"]
    source = "\n".join(f"import {name}" for name in names)
    cell = type("Cell", (), {"index": 0, "source": f"{source}\ndef f(): return 7"})
    with ForkServer(preload=("torch",)) as server, server.spawn(Limits()) as worker:
        link = RemoteLink(worker.sock, load("layernorm"), time.monotonic() + 1200)
        assert link.start([cell], seed=1) == []
        assert Student(link).f() == 7
