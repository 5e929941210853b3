"""What an exercise asks to write by hand is refused while a graded call runs, by whatever way."""

from __future__ import annotations

import contextlib
import math
import os
import socket
import statistics
import threading
import time

import numpy as np
import pytest
import scipy.linalg
import torch
import torch.nn.functional as F
from scipy import stats
from sklearn import preprocessing
from torch import nn

from autograder.grading.link import RemoteLink
from autograder.testing.student import Student
from autograder.testing.suite import Budget, Suite, SuiteError, by_hand
from autograder.testing.verdict import INSTEAD, Refused, Verdict, explain_refused
from autograder.worker import beneath, deny, elsewhere
from autograder.worker import serve as worker

torch.set_num_threads(1)  # as the runner does

X = torch.linspace(-2, 2, 96).reshape(4, 3, 8)
Q = torch.linspace(-1, 1, 320).reshape(2, 4, 5, 8)
ONES = torch.ones(3)
READ_BY_NUMPY = torch.zeros(8)
KEPT = READ_BY_NUMPY.numpy()
LEARNS = nn.MultiheadAttention(8, 2, batch_first=True).eval()


@pytest.fixture(autouse=True, scope="module")
def _prepared():
    deny.prepare(deny.SETS)
    yield
    deny.begin(warn=False)


@pytest.fixture(autouse=True)
def _asleep():
    deny.begin(warn=False)
    yield
    deny.begin(warn=False)


def square_sum(x):
    return (x * x).sum()


def recorded():
    return X.clone().requires_grad_()


def in_a_thread():
    raised = []

    def go():
        try:
            F.layer_norm(X, (8,))
        except deny.Denied as error:
            raised.append(error)

    thread = threading.Thread(target=go)
    thread.start()
    thread.join()
    raise raised[0]


def tagged():
    """With an operator whose tags say that it treats each number by itself."""
    tags = torch.ops.aten.sum.default.tags
    if torch.Tag.pointwise not in tags:
        tags.append(torch.Tag.pointwise)
    return X


class Late(torch.Tensor):
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return X.sum(-1)


def late():
    return torch.Tensor._make_wrapper_subclass(Late, (2,))


class Listed(torch.Tensor):
    listed = property(torch.Tensor.tolist)


def without_gradients(function):
    with torch.no_grad():
        return function()


def inferring(function):
    with torch.inference_mode():
        return function()


REFUSED = {
    "norms": {
        "layer_norm": lambda: F.layer_norm(X, (8,)),
        "a module": lambda: nn.LayerNorm(8)(X),
        "native": lambda: torch.native_layer_norm(X, (8,), None, None, 1e-5),
        "batch norm": lambda: F.batch_norm(X, ONES, ONES),
        "instance norm": lambda: F.instance_norm(X),
        "group norm": lambda: F.group_norm(X, 3),
        "rms_norm": lambda: F.rms_norm(X, (8,)),
        "rms_norm, inferring": lambda: inferring(lambda: F.rms_norm(X, (8,))),
        "rms_norm, no gradients": lambda: without_gradients(lambda: F.rms_norm(X, (8,))),
        "rms_norm by vmap": lambda: torch.func.vmap(lambda row: F.rms_norm(row, (8,)))(X),
        "rms_norm, differentiated": lambda: torch.func.grad(
            lambda x: F.rms_norm(x, (8,)).sum()
        )(X),
        "rms_norm in a subclass": lambda: F.rms_norm(X.as_subclass(nn.Parameter), (8,)),
        "the operator": lambda: torch.ops.aten.native_layer_norm(X, [8], None, None, 1e-5),
        "its parts": lambda: torch.ops.aten.rms_norm.default.decompose(X, [8]),
        "a scaler of another package": lambda: preprocessing.StandardScaler().fit(X[0]),
        "z scores of another package": lambda: stats.zscore(X[0]),
        "of the local responses": lambda: F.local_response_norm(X, 2),
        "in another layout": lambda: F.batch_norm(X.to_mkldnn(), ONES, ONES),
        "in a thread": in_a_thread,
        "a backward pass": lambda: torch.ops.aten.native_layer_norm_backward(
            X, X, [8], X[..., :1], X[..., :1], None, None, [True, False, False]
        ),
    },
    "unit-vectors": {
        "normalize": lambda: F.normalize(X),
        "by its module": lambda: nn.functional.normalize(X),
        "renorm": lambda: X.renorm(2, 0, 1.0),
        "cosine similarity": lambda: F.cosine_similarity(X[..., None], torch.eye(8), dim=-2),
        "qr": lambda: torch.linalg.qr(X),
        "weight norm": lambda: torch._weight_norm(X, X[:, :1, :1]),
    },
    "variance": {
        "var": lambda: X.var(-1),
        "std": lambda: X.std(-1),
        "var_mean": lambda: torch.var_mean(X, -1),
        "std_mean": lambda: torch.std_mean(X, -1),
        "of the base class": lambda: torch._C.TensorBase.var(X, -1, correction=0),
        "as torch refers to it": lambda: __import__("torch._refs")._refs.var(X, -1, correction=0),
        "cov": lambda: torch.cov(X[0]),
        "of an array": lambda: np.var(X.numpy(), -1),
        "of an array by its root": lambda: X.numpy().std(-1),
        "of a list": lambda: statistics.pvariance([1.0, 2.0]),
        "corrcoef": lambda: torch.corrcoef(X[0]),
        "by vmap": lambda: torch.func.vmap(lambda row: row.var(-1))(X),
        "of NumPy": lambda: np.var(X.numpy(), axis=-1),
        "a method of NumPy's": lambda: X.numpy().var(axis=-1),
    },
    "attention": {
        "sdpa": lambda: F.scaled_dot_product_attention(Q, Q, Q),
        "its mathematics": lambda: torch._scaled_dot_product_attention_math(Q, Q, Q),
        "a module": lambda: LEARNS(X, X, X),
        "a module, fast": lambda: without_gradients(lambda: LEARNS(X, X, X, need_weights=False)),
        "a layer": lambda: nn.TransformerEncoderLayer(8, 2)(X),
    },
    "transformer-layers": {"a layer": lambda: nn.TransformerDecoderLayer(8, 2)(X, X)},
    "fusion": {
        "under another name": lambda: nn.utils.fuse_linear_bn_weights(
            ONES, ONES, ONES, ONES, 0.1, ONES, ONES
        ),
        "of convolution and norm": lambda: nn.utils.fusion.fuse_conv_bn_eval(
            nn.Conv2d(3, 3, 1).eval(), nn.BatchNorm2d(3).eval()
        ),
        "by another way to it": lambda: nn.utils.fuse_linear_bn_weights(
            torch.eye(3), ONES, ONES, ONES, 1e-5, ONES, ONES
        ),
    },
    "autograd": {
        "backward": lambda: square_sum(recorded()).backward(),
        "grad": lambda: torch.autograd.grad(square_sum(recorded()), X),
        "func.grad": lambda: torch.func.grad(square_sum)(X),
        "func.vjp": lambda: torch.func.vjp(square_sum, X),
        "func.jvp": lambda: torch.func.jvp(square_sum, (X,), (X,)),
        "jacrev": lambda: torch.func.jacrev(square_sum)(X),
        "jacfwd": lambda: torch.func.jacfwd(square_sum)(X),
        "linearize": lambda: torch.func.linearize(square_sum, X),
        "functional": lambda: torch.autograd.functional.vjp(square_sum, X, torch.tensor(1.0)),
        "enable_grad": lambda: torch.enable_grad().__enter__(),
        "set_grad_enabled": lambda: torch.set_grad_enabled(True),
        "no inference": lambda: torch.inference_mode(False).__enter__(),
    },
    "one-look": {
        "mean": lambda: X.mean(-1),
        "sum": lambda: X.sum(-1),
        "einsum": lambda: torch.einsum("ijk->ij", X),
        "cumsum": lambda: X.cumsum(-1),
        "product with ones": lambda: X @ torch.ones(8),
        "linear": lambda: F.linear(X, torch.ones(1, 8)),
        "pooling": lambda: F.avg_pool1d(X, 8),
        "Fourier": lambda: torch.fft.fft(X),
        "a loss": lambda: F.mse_loss(X, X),
        "scatter": lambda: torch.zeros(4, 3, 1).scatter_add(-1, torch.zeros(X.shape).long(), X),
        "norm": lambda: torch.linalg.vector_norm(X, dim=-1),
        "adding up what is put": lambda: torch.zeros(1).index_put_(
            (torch.zeros(8).long(),), X[0, 0], accumulate=True
        ),
        "a mean of NumPy's": lambda: np.mean(X.numpy()),
        "a method of NumPy's": lambda: X.numpy().mean(),
        "of a list": lambda: math.fsum(X[0, 0].tolist()),
        "an operator tagged by hand": lambda: tagged().sum(),
        "a class with operators of its own": lambda: late().clone(),
        "logsumexp": lambda: X.logsumexp(-1),
    },
    "kernels": {
        "a sum": lambda: X + X,
        "a mean": lambda: X.mean(-1),
        "a sum of rows": lambda: X.sum(-1),
        "comparison": lambda: torch.equal(X, X),
        "a number": lambda: X[0, 0, 0].item(),
        "a truth": lambda: bool(X[0, 0, 0]),
        "a list": lambda: X.tolist(),
        "an array": lambda: X.numpy(),
        "an array by NumPy": lambda: np.asarray(X),
        "an array by dlpack": lambda: np.from_dlpack(X),
        "a number as a text": lambda: f"{X[0, 0, 0].item():.3f}",
        "bytes": lambda: bytes(X.untyped_storage()),
        "storage": lambda: X.storage().tolist(),
        "memory of NumPy's": lambda: torch.from_numpy(np.zeros(8, np.float32)).copy_(X[0, 0]),
        "memory that NumPy has": lambda: READ_BY_NUMPY.copy_(X[0, 0]),
        "a caller of a name like ours": lambda: eval(
            compile("X.tolist()", "triton/runtime/interpreter.py", "eval")
        ),
        "a property": lambda: beneath.guarded_getattr(X.as_subclass(Listed), "listed"),
        "a lookup": lambda: X[0, 0][torch.tensor([1, 2])],
        "a convolution of another library": lambda: torch.mkldnn_convolution(
            X, X, None, [0], [1], [1], 1
        ),
    },
    "kernels-and-a-sum": {"a product": lambda: X * X, "a mean": lambda: X.mean(0)},
}  # fmt: skip


def welford(x):
    mean, m2 = torch.zeros_like(x[..., 0]), torch.zeros_like(x[..., 0])
    for count, value in enumerate(x.unbind(-1), 1):
        delta = value - mean
        mean = mean + delta / count
        m2 = m2 + delta * (value - mean)
    return mean, m2 / 8


LET_PASS = {
    "norms": {
        "by hand": lambda: (X - X.mean(-1, keepdim=True)) / (X.var(-1, keepdim=True) + 1).sqrt(),
        "softmax": lambda: X.softmax(-1),
        "a module of torch's": lambda: nn.Linear(8, 8)(X),
        "of another package": lambda: scipy.linalg.eigh(X[0, :3, :3].numpy()),
        "by NumPy": lambda: (X.numpy() - X.numpy().mean()) / np.var(X.numpy()),
    },
    "variance": {"by hand": lambda: (X - X.mean(-1, keepdim=True)).square().mean(-1)},
    "attention": {"by hand": lambda: (Q @ Q.transpose(-1, -2)).softmax(-1) @ Q},
    "autograd": {
        "no_grad": lambda: without_gradients(lambda: X * 2),
        "inference": lambda: inferring(lambda: X * 2),
        "set_grad_enabled": lambda: torch.set_grad_enabled(torch.is_grad_enabled()),
        "a parameter": lambda: nn.Parameter(X) * 2,
    },
    "one-look": {
        "welford": lambda: welford(X),
        "welford by vmap": lambda: torch.func.vmap(welford)(X),
        "welford of numbers": lambda: welford(torch.tensor([[float(v) for v in X[0, 0]]])),
    },
    "kernels": {
        "views": lambda: X.reshape(-1, 8).contiguous().float().view(2, -1),
        "conversion": lambda: X.to(torch.bfloat16).half(),
        "allocation": lambda: (torch.empty(3), torch.zeros_like(X), X.new_empty(3)),
        "indexing": lambda: (X[0, 1:, None], list(X)),
        "shapes": lambda: (X.shape, X.stride(), X.numel(), X.data_ptr(), X.element_size()),
        "padding": lambda: F.pad(X, (0, 8)),
        "copying": lambda: torch.empty_like(X).copy_(X),
        "setting": lambda: torch.empty(8).__setitem__(slice(0, 3), 0.0),
        "plain numbers": lambda: int(np.prod(X.shape[:-1])),
        "a forgotten print": lambda: print(X, [X], f"{X} {X[0, 0, 0]:.3f}", nn.Parameter(X)),
    },
    "kernels-and-a-sum": {"the sum of a second stage": lambda: X.sum(0)},
}


@pytest.mark.parametrize(("name", "way"), [(n, way) for n, ways in REFUSED.items() for way in ways])
def test_what_a_set_names_is_refused_by_whatever_way(name, way):
    with pytest.raises(deny.Denied) as denied, deny.refusing(frozenset({name})):
        REFUSED[name][way]()
    assert deny.fired() == denied.value.name
    assert denied.value.name in deny.take_seen()
    assert denied.value.name in deny.names([name])
    assert deny.asked([name], denied.value.name) == deny.SETS[name].asks


@pytest.mark.parametrize(
    ("name", "way"), [(n, way) for n, ways in LET_PASS.items() for way in ways]
)
def test_what_a_set_does_not_name_passes(name, way):
    with deny.refusing(frozenset({name})):
        LET_PASS[name][way]()
    assert deny.fired() is None and deny.take_seen() == []


@pytest.mark.parametrize("name", deny.SETS)
def test_before_and_between_graded_calls_nothing_is_refused(name):
    for ways in REFUSED.values():
        for way in ways.values():
            with contextlib.suppress(RuntimeError, IndexError, TypeError, NotImplementedError):
                way()  # on some inputs torch itself says no
    assert deny.take_seen() == []


def test_a_passed_over_refusal_is_seen_and_a_warning_lets_it_pass():
    want = F.layer_norm(X, (8,)) + X.var()
    with deny.refusing(frozenset({"norms"})), contextlib.suppress(deny.Denied):
        F.layer_norm(X, (8,))
    assert deny.take_seen() == ["aten::layer_norm"]
    deny.begin(warn=True)
    with deny.refusing(frozenset({"norms", "variance"})):
        y = F.layer_norm(X, (8,)) + X.var()
    assert torch.equal(y, want)
    assert {"aten::layer_norm", "aten::native_layer_norm"} <= set(deny.take_seen())
    assert deny.fired() is None


def test_a_pass_of_the_graders_own_may_add_up():
    with deny.refusing(frozenset({"one-look"})):
        factor = torch.ones(1, requires_grad=True)
        y = (recorded() * factor + 1)[..., 0]
    with deny.refusing(frozenset({"one-look"}), whole=False):
        y.sum().backward()
    assert torch.allclose(factor.grad, X[..., 0].sum())


@pytest.mark.parametrize("name", ["rms_norm", "layer_norm"])
def test_guards_change_neither_values_nor_gradients(name):
    x = torch.randn(3, 8, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(8, dtype=torch.float64, requires_grad=True)
    g = torch.randn(3, 8, dtype=torch.float64)
    centred = x - x.mean(-1, keepdim=True) if name == "layer_norm" else x
    want = centred * (centred.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * weight
    got = getattr(F, name)(x, (8,), weight, eps=1e-5)
    assert torch.allclose(got, want)
    ours, theirs = (torch.autograd.grad(y, [x, weight], g) for y in (want, got))
    assert all(torch.allclose(a, b) for a, b in zip(ours, theirs, strict=True))


def test_guards_change_nothing_of_ready_made_attention():
    torch.manual_seed(0)
    x = torch.randn(2, 4, 5, 8, dtype=torch.float64, requires_grad=True)
    mask, g = torch.arange(5)[None] < 4, torch.randn(2, 4, 5, 8, dtype=torch.float64)
    scores = (x @ x.transpose(-1, -2) / 8**0.5).masked_fill(~mask, -torch.inf)
    want = scores.softmax(-1) @ x
    got = F.scaled_dot_product_attention(x, x, x, attn_mask=mask)
    assert torch.allclose(got, want)
    ours, theirs = (torch.autograd.grad(y, x, g)[0] for y in (want, got))
    assert torch.allclose(ours, theirs)
    layer, tokens = nn.MultiheadAttention(8, 2, batch_first=True).eval(), torch.randn(2, 5, 8)
    with torch.no_grad():
        fast = layer(tokens, tokens, tokens)[0]
    assert torch.allclose(fast, layer(tokens, tokens, tokens)[0], atol=1e-6)


def test_torchscripts_own_operators_of_autograd_are_not_there():
    for name in ("grad", "backward", "set_grad_enabled"):
        with pytest.raises(AttributeError):
            getattr(torch.ops.aten, name)
    assert torch.ops.aten.mean.default(X).shape == ()


IN_A_THREAD = {
    "a mean in one look": ("one-look", lambda: X.mean(-1), True),
    "numbers one by one": ("one-look", lambda: X[0] + X[1], False),
    "arithmetic beside kernels": ("kernels", lambda: X + X, True),
    "a graph": ("autograd", lambda: recorded() * torch.ones(8), False),
    "gradients switched on": ("autograd", lambda: with_gradients(lambda: recorded() * 2), True),
}


def with_gradients(function):
    with torch.enable_grad():
        return function()


@pytest.mark.parametrize("way", IN_A_THREAD)
def test_a_thread_that_was_there_before_is_refused_as_much(way):
    name, function, refused = IN_A_THREAD[way]
    begin, found = threading.Event(), []

    def wait_and_go():
        begin.wait()
        try:
            found.append(function())
        except deny.Denied as error:
            found.append(error)
        done.release()

    done = threading.Lock()
    done.acquire()
    elsewhere._start_refusing(wait_and_go)
    with deny.refusing(frozenset({name})):
        begin.set()
        done.acquire()
    assert isinstance(found[0], deny.Denied) == refused
    assert refused or not found[0].requires_grad


@pytest.mark.parametrize("way", [lambda: F.layer_norm(X, (8,)), lambda: X.mean(-1)])
def test_another_process_computes_nothing_for_this_one(way):
    child = os.fork()
    if child == 0:
        code = 1
        with contextlib.suppress(BaseException):
            elsewhere._refuse_all()
            try:
                way()
            except deny.Denied:
                code = 0
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


class Slow(torch.Tensor):
    """Computes when it is looked at."""

    @property
    def shape(self):
        return self.x.sum(-1).shape

    def detach(self):
        return self.x.sum(-1)


def test_what_a_class_of_the_learners_does_late_it_does_now_or_never():
    y = torch.zeros(4, 3).as_subclass(Slow)
    y.x = X
    (plain,) = worker._settled([y])
    assert type(plain) is torch.Tensor and torch.equal(plain, torch.zeros(4, 3))


def test_torchs_own_layers_are_made_under_the_sets_of_every_exercise():
    sets = {"a": frozenset({"norms"}), "b": frozenset({"norms", "autograd"})}
    suite = Suite("demo", [], "", Budget(), sets, "zero", None)
    assert b'"deny":["norms"]' in suite.frame("nn.Linear", "new", {}).header


# -- from cell to sentence ----------------------------------------------------------------------

SOURCE = """
import torch
import torch.nn.functional as F

own = F.layer_norm(torch.ones(2, 2), (2,))  # a comparison of the learner's own

def norm(x):
    return F.layer_norm(x, (2,))

def careful(x):
    try:
        return norm(x)
    except Exception:
        return x - x.mean(-1, keepdim=True)

def gradient(x):
    x = x.detach().requires_grad_()
    (x * x).sum().backward()
    return x.grad

def beneath(x):
    return getattr(norm, "__glo" + "bals__")["F"].layer_norm(x, (2,))

class Own:
    def __init__(self):
        self._C = 2

    def number(self):
        return self._C

def of_itself(x):
    return x * Own().number() * vars(Own())["_C"] * Own().__dict__["_C"]

def in_a_table(x, table):
    return table[torch]["_" + "C"]

def by_vars(x):
    return in_a_table(x, {torch: vars(torch)})

def by_its_dictionary(x):
    return in_a_table(x, {torch: torch.__dict__})

def by_getattr(x):
    return in_a_table(x, {torch: getattr(torch, "__di" + "ct__")})

def of_a_class(x):
    return vars(type)["__sub" + "classes__"](object)

def as_self(x):
    return Own.number(torch)

def loaded(x):
    return getattr(__import__("sys"), "mod" + "ules")["torch"]
"""
SETS = {
    "norm": frozenset({"norms"}), "careful": frozenset({"norms"}),
    "gradient": frozenset({"autograd"}), "beneath": frozenset({"norms"}),
}  # fmt: skip
BENEATH = {
    "beneath": "AttributeError", "by_vars": "KeyError", "by_its_dictionary": "KeyError",
    "by_getattr": "KeyError", "of_a_class": "KeyError", "as_self": "AttributeError",
    "loaded": "AttributeError",
}  # fmt: skip


@pytest.fixture(params=["zero", "warn"])
def link(request):
    ours, theirs = socket.socketpair()

    def serve():
        with contextlib.suppress(OSError):
            worker.main(theirs)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    suite = Suite("demo", [], "", Budget(), SETS, request.param, None)
    link = RemoteLink(ours, suite, time.monotonic() + 60)
    cell = type("C", (), {"index": 3, "source": SOURCE})
    assert link.start([cell], seed=1) == []
    yield link
    ours.close()
    thread.join(10)


def test_a_refusal_arrives_with_its_line_and_is_explained(link):
    x = torch.tensor([[1.0, 3.0]])
    if link._suite.policy == "warn":
        assert torch.allclose(Student(link).norm(x), torch.tensor([[-1.0, 1.0]]))
    else:
        with pytest.raises(Refused) as caught:
            Student(link).norm(x)
        error = caught.value
        line = SOURCE.splitlines()[error.line - 1]
        assert (error.what, error.cell, line.strip()) == (
            "aten::layer_norm", 3, "return F.layer_norm(x, (2,))",
        )  # fmt: skip
        outcome = explain_refused(error, line)
        assert outcome.verdict == Verdict.ERROR
        assert outcome.message == (
            "This exercise asks you to write it yourself, and line 8 of your cell reached "
            "PyTorch's `layer_norm`: `return F.layer_norm(x, (2,))`. Take it out of what your "
            "function runs, and compute the result by its formula. A comparison with it is welcome "
            "in a cell of your own."
        )
    assert "aten::layer_norm" in link.seen


def test_code_that_goes_on_without_the_library_is_right_and_seen(link):
    x = torch.tensor([[1.0, 3.0]])
    assert torch.allclose(Student(link).careful(x), torch.tensor([[-1.0, 1.0]]))
    assert "aten::layer_norm" in link.seen


def test_a_gradient_by_autograd_is_asked_to_be_derived(link):
    x = torch.tensor([[1.0, 3.0]])
    if link._suite.policy == "warn":
        assert torch.equal(Student(link).gradient(x), 2 * x)
    else:
        with pytest.raises(Refused) as caught:
            Student(link).gradient(x)
        assert caught.value.asks == "derive the gradient yourself"
    assert "torch.autograd" in link.seen


@pytest.mark.parametrize("name", BENEATH)
def test_a_name_made_at_run_time_does_not_lead_beneath(link, name):
    with pytest.raises(Exception, match=BENEATH[name]):
        getattr(Student(link), name)(torch.tensor([[1.0, 3.0]]))


def test_what_a_learner_calls_so_is_the_learners(link):
    x = torch.tensor([[1.0, 3.0]])
    assert torch.equal(Student(link).of_itself(x), 8 * x)


def test_the_text_of_a_tensor_tells_no_number_to_code_around_kernels():
    with deny.refusing(frozenset({"kernels"})):
        told = [str(X), repr([X]), f"{X[0, 0, 0]:.2f}", "%s" % X]  # noqa: UP031
    assert all(text.strip("[]").startswith("tensor(..., size=(") for text in told)
    deny.begin(warn=False)
    assert "-2.0" in str(X)


@pytest.mark.parametrize(
    ("asks", "what", "told"),
    [
        ("derive the gradient yourself", "torch.autograd", "Autograd is switched off here"),
        ("look at each number once, in a loop", "aten::mean.dim", "reached PyTorch's `mean`:"),
        ("let kernels do all computing", "aten::sum.dim_IntList", "what computes belongs in a"),
        ("let kernels do all computing but the last sum", "torch.Tensor.tolist", "prints and"),
    ],
)
def test_a_refusal_says_what_to_do(asks, what, told):
    message = explain_refused(Refused(what, asks, 3, 8, "f"), "y = g(x)").message
    assert f"This exercise asks you to {asks}, and line 8" in message and "`y = g(x)`. " in message
    assert told in message
    assert {one.asks for one in deny.SETS.values()} == set(INSTEAD)


def test_a_set_that_does_not_exist_is_a_fault_of_the_suite():
    with pytest.raises(SuiteError, match="no set 'norm'; there are: norms"):
        by_hand({"exercises": ["a"], "by_hand": {"all": ["norm"]}})
    assert by_hand({"exercises": ["a", "b"], "by_hand": {"all": ["norms"], "b": ["autograd"]}}) == {
        "a": frozenset({"norms"}), "b": frozenset({"norms", "autograd"}),
    }  # fmt: skip
