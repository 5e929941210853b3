"""A learner's cells run statement by statement: what is odd costs itself, and its line is told."""

from __future__ import annotations

import inspect
import io
import math
import pdb
import signal
import sys
import traceback

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from autograder.grading.before_tests import BeforeTests, missing_modules
from autograder.reading.magics import parse
from autograder.reading.submission import Cell
from autograder.testing.allowance import Budget
from autograder.worker import cells, prints, serve, stand_ins, torch_state


def run(*sources, most=60.0, seconds=60.0, wall=600.0):
    """The namespace and the records after cells 0, 1, ... have run here."""
    namespace = {"__name__": "__main__"}
    request = {
        "cells": [{"index": i, "source": source} for i, source in enumerate(sources)],
        "cell_seconds": most, "seconds": seconds, "wall": wall,
    }  # fmt: skip
    return namespace, cells.run(request, namespace, serve.describe)


def failed(records):
    return [(r["type"], *r["at"]) for r in records if r["kind"] == "failed"]


def told(*sources, names=(None,), records=None):
    """What is told of cells, where `names` are the graded names that they define."""
    names = [*names, *[None] * len(sources)]
    ran = [
        Cell(i, "solution" if name else "added", name, source, parse(source))
        for i, (source, name) in enumerate(zip(sources, names, strict=False))
    ]
    found = run(*sources)[1] if records is None else records
    return BeforeTests(found, ran, Budget())


# -- one statement costs itself -----------------------------------------------------------------


def test_statements_after_one_that_fails_run_and_each_failure_has_its_line():
    namespace, records = run("a = 1\n1 / 0\ndef f():\n    return a\n\n[][1]", "b = f()")
    assert namespace["b"] == 1
    assert failed(records) == [("ZeroDivisionError", 0, 2), ("IndexError", 0, 6)]


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("import sys; sys.exit(0)", "SystemExit"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("raise GeneratorExit", "GeneratorExit"),
        ("return 3", "SyntaxError"),
        ("import nowhere.at_all", "ModuleNotFoundError"),
        ("from google.colab import drive", "ModuleNotFoundError"),
        ("open('/content/drive/x.csv')", "FileNotFoundError"),
        ("class Broken(Missing): pass", "NameError"),
        ("def late(x=missing): pass", "NameError"),
        ("with open('nowhere') as f:\n    pass", "FileNotFoundError"),
        ("assert False, 'no GPU'", "AssertionError"),
        ("def again(): again()\nagain()", "RecursionError"),
    ],
)
def test_whatever_fails_above_a_definition_the_definition_is_there(line, kind):
    namespace, records = run(f"{line}\ndef right(x):\n    return x + 1")
    assert namespace["right"](1) == 2
    assert [f[0] for f in failed(records)] == [kind]


def test_of_several_modules_in_one_import_those_that_exist_are_there():
    namespace, records = run("import nowhere, math, nowhere_else as e\nx = math.pi")
    assert namespace["x"] == math.pi
    assert failed(records) == [("ModuleNotFoundError", 0, 1), ("ModuleNotFoundError", 0, 1)]


def test_lines_and_sources_of_functions_stay_those_of_the_cell():
    source = "import nowhere\n\n\ndef f():\n    # a comment\n    return 1 / 0\n"
    namespace, _ = run("x = 1", source)
    assert inspect.getsource(namespace["f"]) == source[source.index("def") :]
    with pytest.raises(ZeroDivisionError) as caught:
        namespace["f"]()
    frame = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (frame.filename, frame.lineno, frame.line) == ("<cell 1>", 6, "return 1 / 0")


def test_an_import_from_the_future_holds_for_its_cell_and_for_no_other():
    future = "from __future__ import annotations\ndef f(x: Missing): return x"
    namespace, records = run(future, "def g(x: Missing): return x")
    assert "f" in namespace and "g" not in namespace
    assert failed(records) == [("NameError", 1, 1)]


SHAPES = """
from nowhere import Float, checked
from nowhere.too import checker

@checked(typechecker=checker)
def f(x: Float[int, "b d"], y: int = 1) -> Float[int, "b"]:
    @checked
    def inner(z: Float[int, ""]):
        return z
    return inner(x) + y

class C:
    weight: Float[int, "d"]

    @property
    @checked
    def five(self) -> Float[int, ""]:
        return 5

z: Float[int, ""] = 3
"""


def test_decorators_and_annotations_of_a_package_that_is_missing_are_left_out():
    namespace, records = run(SHAPES)
    assert namespace["f"](1) == 2 and namespace["C"]().five == 5 and namespace["z"] == 3
    assert [r["at"][1] for r in records if r["kind"] == "simplified"] == [5, 12, 20]
    assert [line for _, _, line in failed(records)] == [2, 3]


def test_a_decorator_of_the_learners_own_is_never_left_out():
    own = "def twice(f, n=missing):\n    return lambda x: 2 * f(x)\n@twice\ndef f(x): return x"
    namespace, records = run(own)
    assert "f" not in namespace
    assert failed(records) == [("NameError", 0, 1), ("NameError", 0, 3)]


def test_a_statement_that_defines_nothing_is_not_run_twice():
    namespace, _ = run("import nowhere\nn = 0", "for i in (1,):\n    n += 1\n    nowhere.plot(n)")
    assert namespace["n"] == 1


def test_code_is_looked_through_once_however_often_a_test_asks(monkeypatch):
    looked = []
    bound_names = cells.bound_names
    monkeypatch.setattr(cells, "bound_names", lambda s: looked.append(s) or bound_names(s))
    records = [{"kind": "failed", "at": [0, 1], "type": "E", "cell": 0, "line": 1}] * 5000
    before = told("x = 1\ny = 2", records=records)
    for _ in range(9):
        before.why_missing("x"), before.why_undefined("x + z")
    assert len(looked) == 2 and len(before.failures) <= 2 * cells.MOST


def test_no_more_records_are_kept_than_anybody_reads():
    _, records = run("1 / 0\n" * 500)
    assert len(records) == cells.MOST


# -- time ---------------------------------------------------------------------------------------

ENDLESS = "while True:\n    pass"


@pytest.mark.parametrize(
    ("loop", "wall"),
    [
        (ENDLESS, 600),
        ("while True:\n    try:\n        sum(range(99))\n    except Exception:\n        pass", 600),
        ("def train():\n    while True:\n        torch.ones(9).sum()\nimport torch\ntrain()", 600),
        ("import time\ntime.sleep(3600)", 4),
        ("import threading\nthreading.Event().wait()", 4),
    ],
)
def test_a_cell_that_does_not_end_is_stopped_and_what_it_defines_is_there(loop, wall):
    source = f"def before(): return 1\n{loop}\ndef after(): return 2"
    namespace, records = run(source, "x = before() + after()", most=0.3, seconds=3, wall=wall)
    assert namespace["x"] == 3
    assert [f[0] for f in failed(records)] == ["OutOfTime"]


def test_several_long_cells_leave_time_for_the_others():
    namespace, records = run(*[ENDLESS] * 5, "y = sum(range(100_000))", most=0.2, seconds=1.5)
    assert namespace["y"] == 4999950000
    assert failed(records) == [("OutOfTime", i, 1) for i in range(5)]


def test_the_line_that_was_running_is_told():
    _, records = run("for i in range(3):\n    x = i\n    while True:\n        x += 1", most=0.2)
    (record,) = records
    assert record["at"] == [0, 1] and record["line"] in (3, 4)


def test_signals_are_left_as_they_were():
    before = [signal.getsignal(s) for s in (signal.SIGPROF, signal.SIGALRM)]
    run(ENDLESS, "x = 1", most=0.1)
    assert [signal.getsignal(s) for s in (signal.SIGPROF, signal.SIGALRM)] == before
    for timer in (signal.ITIMER_PROF, signal.ITIMER_REAL):
        assert signal.getitimer(timer) == (0, 0)


# -- what a notebook has ------------------------------------------------------------------------


@pytest.fixture
def without_compiler(monkeypatch):
    """The stand-ins, in this process, until the test is over."""
    for owner, names in (
        (torch, ("compile",)), (torch.compiler, ("compile", "disable")),
        (torch.jit, ("script", "trace", "freeze", "optimize_for_inference")),
        (pdb, ("set_trace", "post_mortem", "pm")), (sys, ("breakpointhook",)),
    ):  # fmt: skip
        for name in names:
            monkeypatch.setattr(owner, name, getattr(owner, name))
    stand_ins.install()
    monkeypatch.setattr(stand_ins, "compiled", 0)


def test_jupyters_names_are_there_and_do_nothing(without_compiler):
    namespace = dict(stand_ins.NAMES)
    exec(
        """
def f(x):
    display(x, display_id=True)
    help(x)
    breakpoint()
    import pdb; pdb.set_trace()
    exit(); quit()
    get_ipython().run_line_magic("matplotlib", "inline")
    get_ipython().ast_node_interactivity = "all"
    return input("name? ")
""",
        namespace,
    )
    assert namespace["f"](1) == ""
    breakpoint()


SPELLINGS = [
    "@torch.compile\ndef f(x): return x + 1",
    "@torch.compile(fullgraph=True, dynamic=False)\ndef f(x): return x + 1",
    "@torch.compile()\ndef f(x): return x + 1",
    "def f(x): return x + 1\nf = torch.compile(f, mode='max-autotune')",
    "def f(x): return x + 1\nf = torch.compile(model=f)",
    "from torch import compile\n@compile\ndef f(x): return x + 1",
    "def f(x): return x + 1\nf = torch.compiler.compile(f)",
    "@torch.jit.script\ndef f(x): return [*(x + 1,)][0]",
    "def f(x): return x + 1\nf = torch.jit.trace(f, (torch.ones(2),), check_trace=False)",
    "def f(x): return x + 1\nf = torch.jit.freeze(torch.jit.script(f))",
]


@pytest.mark.parametrize("source", SPELLINGS)
def test_code_that_is_to_be_compiled_runs_as_it_is_and_the_line_is_told(without_compiler, source):
    namespace, records = run(f"import torch\n{source}")
    assert namespace["f"](1) == 2
    assert {r["kind"] for r in records} == {"compiled"}
    (said, *_) = told(f"import torch\n{source}").notices()
    assert "for the same points" in said and "your cell 1" in said


def test_a_module_that_compiles_itself_keeps_its_values_and_names(without_compiler):
    module = nn.Linear(3, 2)
    x = torch.ones(1, 3)
    want = module(x)
    module.compile(fullgraph=True)
    assert torch.equal(module(x), want) and torch.equal(torch.compile(module)(x), want)
    assert list(torch.compile(module).state_dict()) == ["weight", "bias"]
    assert torch.compiler.disable(module.forward)(x).shape == (1, 2)


def test_prints_are_counted_and_go_nowhere(monkeypatch):
    for name in ("stdout", "stderr", "__stdout__", "__stderr__"):
        monkeypatch.setattr(sys, name, io.StringIO())
    prints.install()
    prints.restart()
    print("little \ud800")  # not to be encoded
    sys.stdout.buffer.write(b"bytes")
    assert (sys.stdout.fileno(), sys.stderr.fileno()) == (1, 2)
    assert not prints.beyond_limit()
    print("x" * 200 * 1024)
    print("x" * 100 * 1024, file=sys.stderr)
    assert prints.beyond_limit()
    _, records = run("x = 1", "print('x' * 300_000)\ny = 2", "print('x' * 300_000)")
    assert records == [{"kind": "printed", "at": [1, 1]}]
    assert not prints.beyond_limit(), "each call begins anew"


# -- global settings of torch -------------------------------------------------------------------


class Mode(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return 5


class Dispatch(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return 5


kept = []


def enter(guard):
    kept.append(guard)
    guard.__enter__()


CHANGES = {
    "dtype": lambda: torch.set_default_dtype(torch.float64),
    "dtype by type": lambda: torch.set_default_tensor_type(torch.DoubleTensor),
    "grad": lambda: torch.set_grad_enabled(False),
    "grad by a guard": lambda: enter(torch.no_grad()),
    "inference": lambda: enter(torch.inference_mode()),
    "device": lambda: torch.set_default_device("meta"),
    "modes by a device": lambda: enter(torch.device("meta")),
    "modes": lambda: enter(Mode()),
    "modes of dispatch": lambda: enter(Dispatch()),
    "functions": lambda: enter(torch._C.DisableTorchFunctionSubclass()),
    "autocast": lambda: enter(torch.autocast("cpu")),
    "autocast-cache": lambda: torch.set_autocast_cache_enabled(False),
    "deterministic": lambda: torch.use_deterministic_algorithms(True, warn_only=True),
    "fill": lambda: setattr(torch.utils.deterministic, "fill_uninitialized_memory", False),
    "threads": lambda: torch.set_num_threads(torch.get_num_threads() + 1),
    "print": lambda: torch.set_printoptions(precision=9, sci_mode=True),
    "anomaly": lambda: torch.autograd.set_detect_anomaly(True),
    "matmul": lambda: torch.set_float32_matmul_precision("medium"),
    "fp32": lambda: setattr(torch.backends, "fp32_precision", "bf16"),
    "mkldnn": lambda: torch.backends.mkldnn.set_flags(False),
    "attention": lambda: torch.backends.cuda.enable_math_sdp(False),
    "denormal": lambda: torch.set_flush_denormal(True),
    "dual": lambda: torch._C._set_fwd_grad_enabled(False),
    "module-overwrite": lambda: torch.__future__.set_overwrite_module_params_on_conversion(True),
    "module-swap": lambda: torch.__future__.set_swap_module_params_on_conversion(True),
}


def seen_from_outside():
    x = torch.ones(3, requires_grad=True)
    y = (x @ torch.ones(3, 3)).sum()
    y.backward()
    new = torch.zeros(2)
    return new.dtype, new.device, torch.get_default_device(), x.grad.tolist(), y.item(), repr(x)


def test_each_setting_has_its_change_here():
    assert {name.split()[0] for name in CHANGES} == set(torch_state.WORDS)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_setting_is_noticed_and_put_back(change):
    before, want = torch_state.read(), seen_from_outside()
    try:
        CHANGES[change]()
        assert change.split()[0] in torch_state.differing(before, torch_state.read())
    finally:
        torch_state.restore(before)
    assert torch_state.differing(before, torch_state.read()) == []
    assert seen_from_outside() == want


def test_a_setting_that_stays_changed_is_told_with_its_last_line_and_others_are_not():
    before = torch_state.read()
    source = (
        "import torch\ntorch.set_grad_enabled(False)\ntorch.set_default_dtype(torch.float64)\n"
        "torch.set_grad_enabled(True)\ntorch.manual_seed(3)\nwith torch.no_grad():\n    pass"
    )
    try:
        _, records = run(source)
    finally:
        torch_state.restore(before)
    assert records == [{"kind": "changed", "at": [0, 3], "setting": "dtype"}]
    (said,) = told(source, records=records).notices()
    assert "`torch.set_default_dtype(torch.float64)`, changed torch's default dtype" in said


# -- what is told -------------------------------------------------------------------------------


def test_a_missing_module_is_named_with_what_is_there():
    said = told("import nowhere as n\nn.do()\n\ndef f(): pass", names=["f"]).notices()
    assert len(said) == 1, "the second failure comes of the first"
    stopped = "Your cell `f` stopped at line 1, `import nowhere as n`: "
    assert said[0].startswith(f"{stopped}there is no module `nowhere` here. What is there: ")
    assert " torch, " in said[0] and " numpy, " in said[0]


@pytest.mark.parametrize(
    ("line", "modules"),
    [
        ("import torch, nowhere as n, math", ["nowhere"]),
        ("from google.colab import drive", ["google.colab"]),
        ("    from .own import x", []),
        ("from torch.utils.tensorboard import SummaryWriter", []),
        ("x = 1", []),
    ],
)
def test_which_modules_a_line_lacks_is_read_in_the_line(line, modules):
    assert missing_modules(line) == modules


def test_a_name_that_a_failed_statement_would_have_defined_is_explained():
    before = told("import nowhere\nclass Norm(nowhere.Module):\n    pass", names=["Norm"])
    why = before.why_missing("Norm")
    assert why.startswith(
        "`Norm` is not there. Your cell `Norm` stopped at line 1, `import nowhere"
    )
    assert before.why_missing("other") is None
    assert before.why_undefined("return nowhere.rearrange(x)").startswith("`nowhere` is not there.")
    assert before.why_undefined("return typo(x)") is None


def test_a_name_that_is_there_all_the_same_explains_nothing():
    assert told("x = 1 / 0", "x = 2").why_undefined("return x + typo") is None


def test_a_stub_is_not_told_as_a_failure():
    before = told("def f(): raise NotImplementedError\nf()", names=["f"])
    assert before.notices() == [] and before.why_missing("f") is None


def test_records_that_no_worker_of_ours_makes_are_passed_over():
    forged = [
        3, {}, {"kind": "failed"}, {"kind": "failed", "at": [0, 99], "type": "X", "cell": 0},
        {"kind": "failed", "at": [0, 1], "type": "E" * 99, "cell": "0", "line": 1},
        {"kind": "changed", "at": [0, 1], "setting": "hidden 1.234"},
        {"kind": "hidden 1.234", "at": [0, 1]}, {"kind": "printed", "at": ["0", 1]},
        {"kind": "failed", "at": [0, 1], "type": "hidden 1.234", "cell": 7, "line": 123456},
    ]  # fmt: skip
    said = told("x = 1", records=forged).notices()
    assert said == [
        "Your cell 1 stopped at line 1, `x = 1`: your code raised an exception. "
        "The lines after it were run."
    ]


def test_of_cells_that_ended_the_process_only_what_defines_runs():
    namespace = {"__name__": "__main__", "seen": []}
    source = (
        "import math\nseen.append(1)\nfor i in range(3):\n    seen.append(i)\n"
        "while seen: seen.pop()\n"
        "x: int = 3\ny = z = x\nif True:\n    seen.append(2)\ntry:\n    import nowhere\n"
        "except ImportError:\n    nowhere = None\nif y:\n    def f(): return math.pi + y\n"
        "with open('nowhere') as file:\n    seen.append(3)\nclass C: pass"
    )
    request = {
        "cells": [{"index": 4, "source": source}, {"index": -1, "source": "seen += [9]\n1/0"}]
    }
    request |= {"cell_seconds": 60, "seconds": 60, "wall": 600, "only_definitions": True}
    records = cells.run(request, namespace, serve.describe)
    assert namespace["seen"] == [9] and namespace["f"]() == math.pi + 3 and "C" in namespace
    assert failed(records) == [("ZeroDivisionError", -1, 2)], "what was handed out runs as it is"


@pytest.mark.parametrize("text", ["1 / 0", "while True: pass", "raise SystemExit"])
def test_an_exception_that_cannot_be_described_costs_itself(text):
    source = (
        f"class Odd(RuntimeError):\n    def __str__(self):\n        {text}\n"
        "Odd.__name__ = 'RuntimeError'\nraise Odd\nx = 1"
    )
    namespace, records = run(source, most=0.3, seconds=5)
    assert namespace["x"] == 1 and [f[2] for f in failed(records)] == [5]
