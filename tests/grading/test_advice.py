"""Kernels of a learner, compiled for a GPU in the sandbox: what is advised, and what stays shut."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest
import torch
from for_real import graded

pytest.importorskip("triton", reason="Triton has packages for Linux only")

from autograder import release
from autograder.grading.advice import Advisor, _told
from autograder.grading.link import RemoteLink
from autograder.sandbox import Limits
from autograder.sandbox.forkserver import ForkServer
from autograder.testing.kernel_reply import signatures_of
from autograder.testing.suite import Budget, Suite
from autograder.testing.verdict import LearnerError
from kernel_sanitizer.launch import signature

SOURCE = """
import os
os.environ["TRITON_INTERPRET"] = "1"
import torch, triton, triton.language as tl

@triton.jit
def copy(x, y, D: tl.constexpr, B: tl.constexpr):
    cols = tl.arange(0, B)
    value = tl.load(x + tl.program_id(0) * D + cols, mask=cols < D, other=0.0)
    tl.store(y + tl.program_id(0) * D + cols, value, mask=cols < D)

@triton.jit
def ragged(x, y, D, B: tl.constexpr):
    cols = tl.arange(0, B)
    value = tl.load(x + tl.program_id(0) * D + cols, mask=cols < D, other=0.0)
    tl.store(y + tl.program_id(0) * D + cols, value, mask=cols < D)

@triton.jit
def stops(x, y, D, B: tl.constexpr):
    for i in range(0, D):
        if tl.load(x + i) > 0.0:
            break
    tl.store(y, 1.0)

@triton.jit
def changes(x, y, D, B: tl.constexpr):
    total = 0
    for i in range(0, D):
        total += tl.load(x + i)
    tl.store(y, total)

@triton.heuristics({"B": lambda args: 1024})
@triton.jit
def to_number(x, y, D, B: tl.constexpr):
    tl.store(y, float(tl.load(x)))

@triton.jit
def in_a_list(x, y, D, B: tl.constexpr):
    parts = []
    parts.append(tl.load(x))
    tl.store(y, parts[0])

@triton.jit
def crowded(x, y, D: tl.constexpr, B: tl.constexpr):
    cols = tl.arange(0, B)
    value = tl.load(x + cols).to(tl.float32)
    tl.store(y + cols, value * tl.sum(value, axis=0))

def run_a_program():
    import subprocess, sys
    return subprocess.run([sys.executable, "-c", ""]).returncode

def run_the_assembler():
    import os, subprocess
    folder = os.path.dirname(triton.__file__)
    return subprocess.run([folder + "/backends/nvidia/bin/ptxas", "--version"]).returncode
"""


START = "Compiled for an H100 and sizes that are multiples of 16 (no points): "


class Cell:
    index, origin, source = 4, "solution", SOURCE


@pytest.fixture(scope="module")
def server():
    with ForkServer(preload=("torch", "triton"), compiles=True) as started:
        yield started


def link_to(server: ForkServer, **limits: bool) -> RemoteLink:
    worker = server.spawn(Limits(**limits))
    suite = Suite("demo", [], "", Budget(), {}, "zero", None)
    link = RemoteLink(worker.sock, suite, time.monotonic() + 600, worker.family)
    link.worker = worker  # left to the garbage collector, it would end
    return link


def launch(kernel: str, d: str, block: int = 1024, **constants: int) -> dict:
    types = {"x": "*bf16:16", "y": "*bf16:16", "D": d, "B": "constexpr"}
    return {
        "kernel": kernel, "types": types, "constants": {"B": block, **constants}, "options": {},
    }  # fmt: skip


@pytest.fixture(scope="module")
def advised(server):
    """The notices for several kernels at once."""
    compiler, assembler = link_to(server), link_to(server, assembler=True)
    notebook = SimpleNamespace(cells=[Cell])
    advisor = Advisor(compiler._suite, notebook, compiler, assembler._sock)
    launched = [
        launch("copy", "constexpr", D=1000), launch("ragged", "i32"), launch("stops", "i32"),
        launch("changes", "i32"), launch("to_number", "i32"), launch("in_a_list", "i32"),
    ]  # fmt: skip
    return advisor.notices(launched, seed=1)


def test_registers_and_load_width_of_what_compiles_are_told(advised):
    (told,) = [n for n in advised if n.startswith(START)]
    assert "`copy` uses " in told and " registers a thread, loads 16 bytes at a time; " in told
    assert told.endswith(
        "loads 2 bytes at a time where 16 are possible (see triton-kernels.html#load-width)."
    )


@pytest.mark.parametrize(
    ("kernel", "said", "line"),
    [
        ("stops", "`break` and `continue` exist in the interpreter only", "break"),
        ("changes", "a variable changes its type in the loop", "for i in range(0, D):"),
        ("to_number", "a value of the kernel cannot become a Python number", "float(tl.load(x))"),
        ("in_a_list", "lists and dictionaries exist in the interpreter only", "parts.append"),
    ],
)
def test_what_only_the_interpreter_accepts_is_told_with_its_line(advised, kernel, said, line):
    (told,) = [n for n in advised if n.startswith(f"`{kernel}` runs here")]
    assert said in told
    number = int(told.split(" Line ")[1].split()[0])
    assert line in SOURCE.splitlines()[number - 1] and line in told
    assert "no points lost" in told


def test_what_does_not_fit_into_registers_is_told(server):
    compiler, assembler = link_to(server), link_to(server, assembler=True)
    advisor = Advisor(compiler._suite, SimpleNamespace(cells=[Cell]), compiler, assembler._sock)
    crowded = launch("crowded", "constexpr", 65536, D=65536)
    (told,) = advisor.notices([crowded], seed=1)
    assert " bytes or more spill into memory (see triton-kernels.html#spills)" in told


def test_a_worker_with_code_of_the_learner_starts_no_program(server):
    link = link_to(server)
    link.start([Cell], seed=1)
    for name in ("run_a_program", "run_the_assembler"):
        with pytest.raises(LearnerError) as raised:
            link.perform(name, "call", {"name": name, "args": [], "kwargs": {}})
        assert raised.value.kind == "PermissionError"


def test_the_worker_with_the_assembler_starts_no_other_program(server):
    link = link_to(server, assembler=True)
    link.start([Cell], seed=1)
    request = {"args": [], "kwargs": {}}
    with pytest.raises(LearnerError) as raised:
        link.perform("f", "call", {"name": "run_a_program", **request})
    assert raised.value.kind == "PermissionError"
    assert link.perform("f", "call", {"name": "run_the_assembler", **request}) == 0


def test_code_that_is_none_gives_no_advice(server):
    link = link_to(server, assembler=True)
    for text in (b"", b"not PTX", bytes(100_000)):
        ptx = (
            torch.frombuffer(bytearray(text), dtype=torch.uint8) if text else torch.empty(0).byte()
        )
        assert link.perform("kernels", "assemble", {"ptx": ptx}) is None


class Forger(RemoteLink):
    """A compiler, or assembler, that says what it likes."""

    def __init__(self, reply) -> None:
        super().__init__(None, None, 0.0)
        self.reply = reply

    def renew_allowance(self) -> None:
        pass

    def start(self, cells, seed):
        return []

    def perform(self, name, op, request):
        return self.reply


@pytest.mark.parametrize(
    "reply",
    [
        None, "text", [1], {}, {"problem": "text STOLEN", "cell": 4, "line": 10**9},
        {"problem": ["break"], "cell": "STOLEN", "line": "STOLEN"}, {"problem": "break"},
        {"ptx": "STOLEN", "registers": 1},
        {"registers": "STOLEN", "spilled": 0, "load_bits": 0, "store_bits": 0, "ptx": 1},
    ],
)  # fmt: skip
def test_forged_replies_become_no_text_of_a_notice(reply):
    suite = Suite("demo", [], "", Budget(), {}, "zero", None)
    advisor = Advisor(suite, SimpleNamespace(cells=[Cell]), Forger(reply), None)
    advisor.assembler = Forger({"registers": 40, "spilled": 10**9, "STOLEN": 1})
    notices = advisor.notices([launch("copy", "constexpr", D=1000)], seed=1)
    assert len(notices) <= 1
    assert not any("STOLEN" in n or "000000" in n for n in notices)


def test_an_assembler_that_lies_can_choose_among_few_numbers():
    told = {
        _told("copy", {"registers": 40, "spilled": s, "load_bits": b, "store_bits": 0})
        for s in range(0, 1 << 20, 997) for b in range(512)
    }  # fmt: skip
    assert len(told) < 150  # not the million that there are


def test_only_kernels_of_the_notebook_with_a_whole_signature_are_compiled():
    kernels = {"copy": ("x", "y", "D", "B")}
    good = launch("copy", "i32:16")
    assert signatures_of([good], kernels) == [
        ("copy", {k: good[k] for k in ("types", "constants", "options")})
    ]
    for change in (
        {"kernel": "other"}, {"kernel": 3}, {"more": 1}, {"types": {"x": "*bf16"}}, {"types": []},
        {"types": good["types"] | {"x": "**bf16"}}, {"types": good["types"] | {"x": 3}},
        {"constants": {}}, {"constants": {"B": "text"}}, {"constants": {"B": 1 << 70}},
        {"constants": {"B": 8, "z": 1}}, {"options": {"num_warps": 10**6}},
        {"options": {"ptx_options": 4}},
    ):  # fmt: skip
        assert signatures_of([good | change], kernels) == []
    assert signatures_of("text", kernels) == [] == signatures_of([good] * 17, kernels)


def test_a_launch_is_noted_with_the_types_that_triton_would_find():
    x = torch.empty(64, dtype=torch.bfloat16)
    bound = {
        "x": x, "odd": x[1:], "w": None, "D": 1024, "M": 3, "one": 1, "far": 2**40, "eps": 1e-5,
        "B": 64,
    }  # fmt: skip
    found = signature(bound, ["B"], {"num_warps": 8, "grid": (1,)})
    assert found["types"] == {
        "x": "*bf16:16", "odd": "*bf16", "w": "constexpr", "D": "i32:16", "M": "i32:16",
        "one": "constexpr", "far": "i64:16", "eps": "fp32", "B": "constexpr",
    }  # fmt: skip
    assert found["constants"] == {"w": None, "one": 1, "B": 64}
    assert found["options"] == {"num_warps": 8}


def test_without_namespaces_no_program_is_started_and_less_is_told():
    with ForkServer(preload=("torch", "triton"), compiles=True, weak=True) as weak:
        compiler, assembler = link_to(weak), link_to(weak, assembler=True)
        notebook = SimpleNamespace(cells=[Cell])
        advisor = Advisor(compiler._suite, notebook, compiler, assembler._sock)
        notices = advisor.notices([launch("copy", "constexpr", D=1000)], seed=1)
    assert notices == [START + "`copy` compiles."]


def test_a_graded_notebook_tells_what_the_compiler_says_and_the_score_stays(tmp_path):
    cells = release.solution_cells("triton_kernels")
    line = "    tl.store(out_ptr + row, tl.sum(x, axis=0))\n"
    assert line in cells["row_sum"]
    loop = "    total = 0\n    for i in range(0, 1):\n        total += tl.sum(x, axis=0)\n"
    loop += "    tl.store(out_ptr + row, total)\n"
    cells["row_sum"] = cells["row_sum"].replace(line, loop)
    exercises, result = graded("triton_kernels", tmp_path, cells)
    assert exercises["row_sum"]["score"] == exercises["row_sum"]["max_score"]
    (refused,) = [n for n in result["notices"] if "does not compile for a GPU" in n]
    assert "changes its type in the loop" in refused and "`for i in range(0, 1):`" in refused
    (told,) = [n for n in result["notices"] if n.startswith(START)]
    assert told.count("registers a thread, loads 16 bytes at a time") == 4
