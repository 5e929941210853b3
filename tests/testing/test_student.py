"""The `student` fixture, in this process and over a socket, gives the same values and failures."""

import contextlib
import socket
import threading
import time
from types import SimpleNamespace

import pytest
import torch

from autograder.grading.link import RemoteLink
from autograder.testing.compare import Mismatch
from autograder.testing.student import Student
from autograder.testing.suite import Budget, Suite
from autograder.testing.verdict import LearnerError, Verdict, WorkerLost, explain_error
from autograder.worker import protocol
from autograder.worker import serve as worker

SOURCE = """
import torch
from torch import nn

def strides(x):
    return list(x.stride())

def scale(x, w):
    return x * w

def in_place(x):
    x += 1
    return x

def three(x):
    return x, [x + 1, None], {"a": x}

def broken(x):
    y = x
    return y @ torch.zeros(3)

def missing(x):
    raise NotImplementedError()

class Secret(ValueError):
    pass

def layout(x):
    return list(x.stride()), x.clone()

def talkative(x):
    raise Secret(str(x.tolist()))

def an_array(x):
    return x.numpy()

def widths(modules, x):
    return [[p.numel() for p in m.parameters()] for m in modules], len({id(m) for m in modules}), x

class Pair(nn.Module):
    def __init__(self, first, second):
        super().__init__()
        self.first, self.second = first, second
    def forward(self, x):
        return self.second(self.first(x))

class Scale(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n))
        self.register_buffer("count", torch.zeros(()))
    def forward(self, x):
        if self.training:
            self.count += 1
        return x * self.weight

class Grows(Scale):
    def forward(self, x):
        out = x * self.weight
        self.count = self.count + out.sum()
        return out
"""


class Cell:
    index, origin, source = 3, "solution", SOURCE


def suite(**budget):
    return Suite("demo", [], "", Budget(**budget), {}, "zero", None)


@pytest.fixture(params=["local", "remote"])
def student(request):
    if request.param == "local":
        namespace = {}
        exec(compile(SOURCE, "<cell 3>", "exec"), namespace)
        yield Student.local(namespace)
        return
    ours, theirs = socket.socketpair()
    thread = threading.Thread(target=worker.main, args=(theirs,), daemon=True)
    thread.start()
    link = RemoteLink(ours, suite(), time.monotonic() + 600)
    assert link.start([Cell], seed=1) == []
    yield Student(link)
    ours.close()
    thread.join(5)


X = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64)


def test_a_function_is_called_with_values_and_gives_a_value(student):
    assert torch.equal(student.scale(X.t(), w=3), X.t() * 3)


def test_containers_keep_their_form(student):
    got = student.three(X)
    assert type(got) is tuple and type(got[1]) is list and got[1][1] is None
    assert torch.equal(got[2]["a"], X)


def test_inputs_keep_their_strides(student):
    wide = torch.arange(24.0).reshape(4, 6)
    views = [wide, wide.t(), wide[:, 1:4], wide[::2, ::3], wide[:1].expand(3, 6), wide[:, :0]]
    for x in views:
        stride, got = student.layout(x)
        assert torch.equal(got, x)
        assert stride == list(x.stride()) or not x.numel()


def test_rows_far_apart_lie_more_than_32_bits_of_numbers_apart(student):
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], dtype=torch.float16)
    first, second = student.far_apart(x), student.far_apart(-x)
    for far, want in ((first, x), (second, -x)):
        stride, got = student.layout(far)
        assert torch.equal(got, want)
        assert 2 * stride[0] == 2**31 and stride[1] == 1


def test_vjp_gives_one_gradient_per_tensor_argument(student):
    w, g = torch.tensor([2.0, 5.0], dtype=torch.float64), torch.rand_like(X)
    y, vjp = student.vjp("scale", X, w)
    assert torch.equal(y, X * w)
    dx, dw = vjp(g)
    assert torch.equal(dx, g * w) and torch.equal(dw, (g * X).sum(0))
    assert torch.equal(vjp(2 * g)[0], 2 * g * w)


def test_a_gradient_that_does_not_flow_is_none(student):
    _, vjp = student.vjp("scale", X, 2.0)
    assert len(vjp(torch.ones_like(X))) == 1
    with pytest.raises(LearnerError):
        student.vjp("missing", X)


def test_a_module_may_be_an_argument_and_is_the_same_object_each_time(student):
    scale, linear = student.Scale(2), student.nn.Linear(2, 3, bias=False)
    got, distinct, x = student.widths([scale, linear, linear], X)
    assert got == [[2], [6], [6]] and distinct == 2 and torch.equal(x, X)
    linear.to(torch.float64)
    scale.load({"weight": torch.tensor([1.0, -2.0]), "count": torch.zeros(())})
    both = student.Pair(scale, second=linear)
    weight = linear.state()["weight"]
    assert torch.equal(both(X), (X * torch.tensor([1.0, -2.0])) @ weight.t())
    y, vjp = both.vjp(X)
    assert list(vjp(torch.ones_like(y))[1]) == ["first.weight", "second.weight"]
    linear.freeze()
    assert linear.parameters() == [] and both.parameters() == ["first.weight"]
    assert scale.state()["count"] == 2 and student.nn.Sequential(scale, linear)(X).shape == (2, 3)


def test_a_change_of_the_inputs_is_seen_and_stays_in_the_worker(student):
    x = X.clone()
    student.in_place(x)
    assert torch.equal(student.inputs()[0], X + 1)


def test_a_module_keeps_its_state_between_calls(student):
    module = student.Scale(2)
    assert list(module.state()) == ["weight", "count"] and module.parameters() == ["weight"]
    module.load({"weight": torch.tensor([2.0, 3.0]), "count": torch.tensor(7.0)})
    module.to(torch.float64)
    assert torch.equal(module(X), X * torch.tensor([2.0, 3.0]))
    module.eval()
    module(X)
    module.train()
    module(X)
    assert module.state()["count"].item() == 9.0
    y, vjp = module.vjp(X)
    (dx,), parameters = vjp(torch.ones_like(X))
    assert torch.equal(y, dx * X) and torch.equal(parameters["weight"], X.sum(0))


def test_buffers_that_hold_on_to_a_graph_are_told_by_name(student):
    for name, want in (("Scale", []), ("Grows", ["count"])):
        module = getattr(student, name)(2)
        assert module.recorded() == []
        module(X)
        assert module.recorded() == want


def test_a_state_dict_that_does_not_fit_is_told_by_its_names(student):
    with pytest.raises(Mismatch, match="`gamma` and `beta`: are these, and no others, registered"):
        student.Scale(2).load({"gamma": torch.ones(2), "beta": torch.ones(2)})


def test_an_exception_arrives_as_its_type(student):
    with pytest.raises(LearnerError) as caught:
        student.broken(X)
    assert caught.value.kind == "RuntimeError" and caught.value.name == "broken"


def test_a_name_that_is_not_there_is_not_implemented(student):
    for name in ("nothing", "missing"):
        with pytest.raises(LearnerError) as caught:
            getattr(student, name)(X)
        outcome = explain_error(caught.value, None)
        assert outcome.verdict == Verdict.NOT_IMPLEMENTED
        assert outcome.message == f"`{name}` is not implemented yet."


_running: list[tuple[socket.socket, threading.Thread]] = []


@pytest.fixture(autouse=True)
def _no_worker_outlives_its_test():
    yield
    while _running:  # what it notes of operators, it notes for all of this process
        sock, thread = _running.pop()
        sock.close()
        thread.join(10)


def remote(source=SOURCE, **budget):
    ours, theirs = socket.socketpair()

    def serve():
        with contextlib.suppress(OSError):  # the test may be over
            worker.main(theirs)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    _running.append((ours, thread))
    link = RemoteLink(ours, suite(**budget), time.monotonic() + 600)
    cell = type("C", (), {"index": 3, "source": source})
    return link, link.start([cell], seed=1)


def test_the_place_of_an_exception_arrives_and_its_text_does_not():
    link, _ = remote()
    with pytest.raises(LearnerError) as caught:
        Student(link).talkative(X)
    error = caught.value
    assert (error.kind, error.cell) == ("ValueError", 3)
    line = SOURCE.splitlines()[error.line - 1]
    outcome = explain_error(error, line)
    assert outcome.verdict == Verdict.ERROR and f"line {error.line}" in outcome.message
    assert "`raise Secret(str(x.tolist()))`" in outcome.message and "4.0" not in outcome.message
    elsewhere = explain_error(error, line, "scale").message
    assert f"line {error.line} of your cell `scale`: " in elsewhere
    assert explain_error(error, line, "talkative").message == outcome.message


def test_a_stub_that_is_called_by_another_function_is_told_by_its_name():
    link, _ = remote(
        "def stub(x):\n    raise NotImplementedError()\ndef whole(x):\n    return stub(x)"
    )
    with pytest.raises(LearnerError) as caught:
        Student(link).whole(X)
    line = "    raise NotImplementedError()"
    outcome = explain_error(caught.value, line, "stub")
    assert outcome.verdict == Verdict.NOT_IMPLEMENTED
    assert outcome.message == "`whole` calls `stub`, which is not implemented yet."
    assert explain_error(caught.value, line, "whole").message == "`whole` is not implemented yet."


def test_a_value_without_a_form_is_a_wrong_answer_with_a_hint():
    link, _ = remote()
    with pytest.raises(LearnerError) as caught:
        Student(link).an_array(X)
    outcome = explain_error(caught.value, None)
    assert outcome.verdict == Verdict.WRONG and "NumPy array" in outcome.message


def test_a_cell_that_fails_costs_itself_only():
    source = "def scale(x, w):\n    return x * w\n1 / 0\ndef later(x):\n    return x"
    link, failures = remote(source)
    assert [(f["type"], f["cell"], f["line"]) for f in failures] == [("ZeroDivisionError", 3, 3)]
    assert torch.equal(Student(link).scale(X, 2), X * 2)


def test_chance_is_the_same_in_every_run():
    source = (
        "import random, numpy, torch\n"
        "def draw():\n    return random.random(), float(numpy.random.rand()), torch.rand(2)\n"
    )
    first, second = (Student(remote(source)[0]).draw() for _ in range(2))
    assert first[:2] == second[:2] and torch.equal(first[2], second[2])


def test_what_a_test_changes_of_torch_and_chance_is_gone_in_the_next():
    source = (
        "import random, numpy, torch\n"
        "def change():\n"
        "    torch.set_default_dtype(torch.float64)\n    torch.set_grad_enabled(False)\n"
        "    torch.autograd.set_detect_anomaly(True)\n"
        "def see():\n"
        "    return torch.ones(1), torch.is_grad_enabled(), torch.is_anomaly_enabled()\n"
        "def spoil():\n    torch.manual_seed(0); random.seed(0); numpy.random.seed(0)\n"
        "def leave(): pass\n"
        "def draw(): return random.random(), float(numpy.random.rand()), float(torch.rand(1))\n"
    )
    link = remote(source)[0]
    student = Student(link)
    student.change()
    link.begin_test()
    ones, records, watches = student.see()
    assert (ones.dtype, records, watches) == (torch.float32, True, False)
    drawn = []
    for name in ("spoil", "leave"):
        link = remote(source)[0]
        student = Student(link)
        getattr(student, name)()
        link.begin_test()
        drawn += [student.draw(), student.draw()]
    assert drawn[:2] == drawn[2:] and drawn[0] != drawn[1]


def test_views_arrive_with_their_strides(student):
    wide = torch.rand(6, 8)
    for view in (wide[:, ::2], wide[::2], wide.t(), wide[:1].expand(4, 8), wide[:, 3]):
        assert student.strides(view) == list(view.stride())
        assert torch.equal(student.scale(view, w=2.0), view * 2)


def test_a_cell_may_be_as_long_as_a_header():
    source = "def f(x):\n    return x + 1\n" + "# a long remark\n" * 20_000
    cell = SimpleNamespace(index=3, origin="solution", source=source)
    ours, theirs = socket.socketpair()
    threading.Thread(target=worker.main, args=(theirs,), daemon=True).start()
    link = RemoteLink(ours, suite(), time.monotonic() + 600)
    assert link.start([cell], seed=1) == []
    assert torch.equal(Student(link).f(X), X + 1)
    ours.close()


def test_a_call_that_takes_too_long_is_a_timeout_that_names_function_and_shapes():
    source = "import time\ndef slow(x):\n    time.sleep(3)"
    link, _ = remote(source, call_seconds=0.2, wall_factor=1)
    with pytest.raises(WorkerLost) as caught:
        Student(link).slow(X)
    assert caught.value.verdict == Verdict.TIMEOUT
    assert "`slow`" in caught.value.message and "(2, 2)" in caught.value.message


LARGE = """
import torch
from torch import nn

def right(x): return 2 * x
def every_fourth(x): return torch.zeros(1 << 24)[::4]
def far_from_another(x): return torch.zeros(1 << 21)[:: 1 << 19]
def expanded(x): return torch.zeros(1).expand(1 << 22)
def tensor(x): return torch.zeros(1 << 23)
def many(x): return [torch.zeros(1 << 14) for _ in range(120)]
def nested(x): return ((torch.zeros(1 << 19), [{"a": torch.zeros(1 << 20)}]),)

class Module(nn.Module):
    def __init__(self):
        super().__init__()
        for i in range(9):
            self.register_buffer(f"kept{i}", torch.zeros(1 << 17))
"""


@pytest.mark.parametrize(
    "name", ["every_fourth", "far_from_another", "expanded", "tensor", "many", "nested", "Module"]
)
def test_a_reply_with_far_more_than_asked_for_costs_its_own_call(name):
    link, failures = remote(LARGE)
    student = Student(link)
    assert not failures and torch.equal(student.right(X), 2 * X)
    value = student.Module() if name == "Module" else None
    with pytest.raises(LearnerError) as caught:
        value.state() if value else getattr(student, name)(X)
    outcome = explain_error(caught.value, None)
    assert outcome.verdict == Verdict.WRONG
    assert outcome.message == f"`{name}` returned far more data than asked for."
    assert torch.equal(student.right(X), 2 * X)


def test_the_replies_to_a_test_share_what_they_may_hold_and_large_questions_allow_more():
    link, _ = remote("import torch\ndef f(x): return torch.zeros(3 << 18)\ndef same(x): return x")
    for _ in range(2):  # two tests
        link.begin_test()
        assert len(Student(link).f(X)) == 3 << 18  # 3 of 4 MiB
        with pytest.raises(LearnerError, match="TooLarge"):
            Student(link).f(X)
    large = torch.ones(1 << 21)
    assert torch.equal(Student(link).same(large), large)


def test_more_than_one_reply_to_a_question_ends_the_worker():
    ours, theirs = socket.socketpair()
    link = RemoteLink(ours, suite(), time.monotonic() + 5)
    for number in (1, 2):
        protocol.send(theirs, {"call": number, "error": None, "seen": []}, number)
    with pytest.raises(WorkerLost) as caught:
        link.perform("scale", "call", {})
    assert caught.value.verdict == Verdict.CRASHED


@pytest.mark.parametrize(
    "reply",
    [
        ({"call": 99, "error": None, "seen": []}, None),
        ({"call": 1, "error": "text", "seen": []}, None),
        ({"call": 1, "error": {"type": "X", "cell": 0, "line": 0, "more": 1}, "seen": []}, None),
        ({"call": 1, "error": None, "seen": [], "verdict": "pass"}, None),
    ],
)
def test_a_forged_reply_ends_the_worker(reply):
    ours, theirs = socket.socketpair()
    link = RemoteLink(ours, suite(), time.monotonic() + 5)
    protocol.send(theirs, *reply)
    with pytest.raises(WorkerLost) as caught:
        link.perform("scale", "call", {})
    assert caught.value.verdict == Verdict.CRASHED
