"""Kernels of a learner in the real sandbox: faults become sentences, and the rest goes on."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch

pytest.importorskip("triton", reason="Triton has packages for Linux only")

from autograder.grading.link import RemoteLink
from autograder.sandbox import Limits
from autograder.sandbox.forkserver import ForkServer
from autograder.testing import kernel_reply
from autograder.testing.student import Student
from autograder.testing.suite import Budget, Suite
from autograder.testing.verdict import LearnerError, Verdict, WorkerLost, explain_error
from kernel_sanitizer.fault import explain
from tests.kernels import out_of_bounds, races

KERNELS = Path(__file__).parents[1] / "kernels"
# As kernels.md lists them: what crashes the bare interpreter or gives garbage without a word.
MEMORY_ERRORS = tuple(out_of_bounds.EXPECTED)[:11]


pytestmark = pytest.mark.usefixtures("sanitizer_for_all")


@pytest.fixture(scope="module", params=["strong", "weak"])
def server(request):
    with ForkServer(weak=request.param == "weak", preload=("torch", "triton")) as started:
        yield started


class Cell:
    index, origin = 4, "solution"

    def __init__(self, source: str) -> None:
        self.source = source


def submission(server: ForkServer, source: str, **budget: float) -> tuple[Student, list]:
    worker = server.spawn(Limits())
    suite = Suite("demo", [], "", Budget(**budget), {}, "zero", None)
    link = RemoteLink(worker.sock, suite, time.monotonic() + 600, worker.family)
    link.worker = worker  # left to the garbage collector, it would end
    link.kernels = kernel_reply.jit_functions([source])
    failures = link.start([Cell(source)], seed=1)
    return Student(link), failures


@pytest.fixture(scope="module")
def memory_errors(server):
    student, failures = submission(server, (KERNELS / "out_of_bounds.py").read_text())
    assert failures == []
    return student


@pytest.mark.parametrize("name", MEMORY_ERRORS)
def test_a_memory_error_is_a_sentence_and_the_worker_goes_on(memory_errors, name):
    source = (KERNELS / "out_of_bounds.py").read_text().splitlines()
    with pytest.raises(LearnerError) as raised:
        getattr(memory_errors, name)()
    error, expected = raised.value, out_of_bounds.EXPECTED[name]
    outcome = explain_error(error, source[error.line - 1], name)
    assert outcome.verdict == Verdict.ERROR
    program = expected.get("program", (0,))[0]
    assert f"In `{expected['kernel']}`, program {program}:" in outcome.message
    assert f"`{expected['tensor']}`" in outcome.message
    assert f"at line {error.line} of your cell" in outcome.message
    assert "tl." in source[error.line - 1]
    assert outcome.link.startswith("triton-kernels.html#")


def test_a_race_is_a_sentence(server):
    student, _ = submission(server, (KERNELS / "races.py").read_text())
    with pytest.raises(LearnerError) as raised:
        student.weight_gradient_without_atomics()
    text = explain(raised.value.fault)
    assert "program 1: it loads element 0 of `total`, which program 0 stores" in text
    assert "race" in text and "a partial row for each program" in text
    assert races.EXPECTED  # the others are in test_sanitizer.py


HALF_SUM = """
import torch, triton, triton.language as tl

@triton.jit
def add_up(x, out, B: tl.constexpr):
    block = tl.load(x + tl.arange(0, B))
    tl.store(out, tl.sum(block, axis=0))

def half_sum(x):
    out = torch.empty(1)
    add_up[(1,)](x, out, B=8)
    return out
"""


def test_a_fault_in_a_helper_of_triton_is_told_at_the_kernels_line(server):
    student, _ = submission(server, HALF_SUM)
    with pytest.raises(LearnerError) as raised:
        student.half_sum(torch.ones(8, dtype=torch.bfloat16))
    assert (
        HALF_SUM.splitlines()[raised.value.line - 1].strip()
        == "tl.store(out, tl.sum(block, axis=0))"
    )


COPY = """
import torch, triton, triton.language as tl

@triton.jit
def copy(x, y, D, B: tl.constexpr):
    row, cols = tl.program_id(0), tl.arange(0, B)
    total = 0.0
    for start in range(0, 1):
        total = total + 1.0
    value = tl.load(x + row * D + cols, mask=cols < D, other=0.0)
    tl.store(y + row * D + cols, value, mask=cols < D)

def clone(x):
    y = torch.empty_like(x)
    copy[(x.shape[0],)](x, y, x.shape[1], B=8)
    return y

@triton.jit
def first_of_rows(x, y, stride, WIDE: tl.constexpr):
    row = tl.program_id(0)
    if WIDE:
        row = row.to(tl.int64)
    tl.store(y + row, tl.load(x + row * stride))

def firsts(x, wide):
    y = torch.empty_like(x[:, 0])
    first_of_rows[(x.shape[0],)](x, y, x.stride(0), WIDE=wide)
    return y

def half(x):
    y = torch.empty_like(x)
    copy[(1,)](x, y, x.shape[1], B=8)
    return y

def endless(x):
    while True:
        pass

def measured_on_a_gpu(x):
    tuned = triton.autotune([triton.Config({"B": b}) for b in (8, 16)], key=["D"])(copy)
    y = torch.empty_like(x)
    tuned[(x.shape[0],)](x, y, x.shape[1])
    return y

def hidden_by_an_except(x):
    try:
        copy[(4,)](x, torch.empty_like(x), x.shape[1], B=8)
    except Exception:
        pass
    return x
"""


@pytest.fixture
def copying(server):
    return submission(server, COPY, call_seconds=1.5)[0]


def test_launches_tell_kernel_grid_and_bytes_of_each_tensor(copying):
    x = torch.ones(3, 5)
    assert torch.equal(copying.clone(x), x)
    assert copying.launches() == [
        {
            "kernel": "copy", "grid": [3, 1, 1], "reads": {"x": 60, "y": 0},
            "writes": {"x": 0, "y": 60}, "sizes": {"x": 60, "y": 60},
        }
    ]  # fmt: skip


def test_rows_gigabytes_apart_need_offsets_of_64_bits(copying):
    x = torch.rand(3, 8).half()
    far = copying.far_apart(x)
    assert torch.equal(copying.firsts(far, True), x[:, 0])
    with pytest.raises(LearnerError) as raised:
        copying.firsts(far, False)
    assert (raised.value.fault.kind, raised.value.fault.program) == ("int32-overflow", (2, 0, 0))


def test_memory_that_no_kernel_has_written_is_nan(copying):
    y = copying.half(torch.ones(3, 5))
    assert torch.equal(y[0], torch.ones(5)) and y[1:].isnan().all()


def test_an_endless_loop_without_memory_is_ended_by_the_clock(copying):
    with pytest.raises(WorkerLost) as raised:
        copying.endless(torch.ones(3, 5))
    assert raised.value.verdict == Verdict.TIMEOUT


def test_a_search_for_a_gpu_is_told(copying):
    with pytest.raises(LearnerError) as raised:
        copying.measured_on_a_gpu(torch.ones(3, 5))
    assert "TRITON_INTERPRET" in explain_error(raised.value, None).message


def test_a_fault_that_the_code_catches_is_told_all_the_same(copying):
    with pytest.raises(LearnerError) as raised:
        copying.hidden_by_an_except(torch.ones(3, 5))
    assert raised.value.fault.kind == "out-of-bounds"


FORGED = """
import sys
import torch, triton, triton.language as tl

worker = sys.modules["autograder.worker.serve"]
sanitizer = sys.modules["kernel_sanitizer.sanitizer"]
secret = 123456789

@triton.jit
def mine(x, y):
    tl.store(y, tl.load(x))

GOOD = {
    "kind": "race", "where": "store-after-store", "kernel": "mine", "tensor": "x",
    "access": "store", "program": [1, 0, 0], "other": [0, 0, 0], "count": 0, "lanes": 0,
    "distance": 0, "element": 3,
}
CHANGES = (
    {"kernel": f"text {secret}"}, {"tensor": f"text {secret}"}, {"kind": "text"}, {"where": "text"},
    {"kind": ["race"]}, {"access": "text"}, {"program": [secret, 0, 0]}, {"program": [1, 0]},
    {"program": "123"}, {"count": secret}, {"count": 1.5}, {"count": True}, {"element": -2},
    {"more": 1}, {"kernel": None},
)

def lie(number):
    fault = GOOD | CHANGES[number]
    worker.describe = lambda error: {"type": "ValueError", "cell": 4, "line": 1, "fault": fault}
    raise ValueError

LAUNCHES = (
    "text", [1], [{}] * 17, {"kernel": "mine"},
    [{"kernel": "m", "grid": [1, 1], "reads": {}, "writes": {}, "sizes": {}}],
    [{"kernel": "m" * 99, "grid": [1, 1, 1], "reads": {}, "writes": {}, "sizes": {}}],
    [{"kernel": "a text", "grid": [1, 1, 1], "reads": {}, "writes": {}, "sizes": {}}],
    [{"kernel": "m", "grid": [1, 1, 1 << 60], "reads": {}, "writes": {}, "sizes": {}}],
    [{"kernel": "m", "grid": [1, 1, -1], "reads": {}, "writes": {}, "sizes": {}}],
    [{"kernel": "m", "grid": [1, 1, 1], "reads": {"x": .5}, "writes": {"x": 0}, "sizes": {"x": 0}}],
    [{"kernel": "m", "grid": [1, 1, 1], "reads": {"x": 1}, "writes": {}, "sizes": {"x": 0}}],
    [{"kernel": "m", "grid": [1, 1, 1], "reads": {"x": 1 << 60}, "writes": {"x": 0},
      "sizes": {"x": 0}}],
    None,
)

def pretend(number):
    worker.Executor.do_launches = lambda self: LAUNCHES[number]

def without_hooks(x):
    sanitizer.uninstall()
    copy_far[(1,)](x, 1 << 44)

@triton.jit
def copy_far(x, far):
    tl.store(x + far, 1.0)
"""


def test_a_forged_fault_tells_nothing_but_facts_and_names_of_the_notebook(server):
    student, _ = submission(server, FORGED)
    told = []
    for number in range(15):
        with pytest.raises(LearnerError) as raised:
            student.lie(number)
        told.append(explain_error(raised.value, None).message)
    plain = "Your code raised ValueError at line 1 of your cell"
    assert "In a kernel, program 1: it stores element 3 of a tensor" in told[0]
    assert "In `mine`, program 1: it stores element 3 of a tensor" in told[1]
    assert all(text.startswith(plain) for text in told[2:])
    assert not any("text" in text or "12345" in text for text in told)


def test_forged_launches_of_another_form_are_an_error_of_the_submission(server):
    student, _ = submission(server, FORGED)
    for number in range(13):
        student.pretend(number)
        with pytest.raises(LearnerError):
            student.launches()


def test_a_worker_that_takes_the_hooks_out_harms_itself_alone(server):
    student, _ = submission(server, FORGED)
    with pytest.raises(WorkerLost) as raised:
        student.without_hooks(torch.ones(1))
    assert raised.value.verdict == Verdict.CRASHED
    following, _ = submission(server, COPY)
    assert torch.equal(following.clone(torch.ones(3, 5)), torch.ones(3, 5))


def test_a_suite_without_kernels_hears_of_no_fault(server):
    student, _ = submission(server, FORGED)
    student._link.kernels = None
    with pytest.raises(LearnerError) as raised:
        student.lie(0)
    assert raised.value.fault is None
