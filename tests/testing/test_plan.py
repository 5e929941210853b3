"""A test that is worked out ahead judges as the test itself does."""

from __future__ import annotations

import contextlib

import pytest
import torch
from in_process import LocalAsker, gradable, grade, load

from autograder import misconceptions
from autograder.testing import compare, plan
from autograder.testing.compare import Mismatch, expect, judging
from autograder.testing.later import Later, NotYet, Replies, later, once_known
from autograder.testing.verdict import LearnerError, WorkerLost
from autograder.worker import protocol


def frame(name, op, request):
    return protocol.frame({"op": op, "deny": []}, request)


def made(test):
    return plan.make(test, frame)


def judged(test, **namespace):
    """The message of the Mismatch that a plan of `test` ends in, None where it is content."""
    steps = made(test)
    assert steps is not None
    try:
        plan.run(steps, LocalAsker(namespace), test)
    except Mismatch as mismatch:
        return mismatch.message
    return None


def reply(value):
    """A Later that stands for `value`, and the replies that hold it."""
    replies = Replies()
    replies.append(value)
    return Later(lambda those: those[0]), replies


def known(value, replies):
    return once_known(value)(replies)


# -- values that are not known yet -----------------------------------------------------------------

X = torch.tensor([[1.0, -2.0], [3.0, 4.0]])


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: x.double(), lambda x: x[0], lambda x: x[:, 1:], lambda x: -x, lambda x: abs(x),
        lambda x: x + 1, lambda x: 1 - x, lambda x: x * X, lambda x: x / X, lambda x: x @ X,
        lambda x: x**2, lambda x: 2 // x, lambda x: x % 3, lambda x: ~(x.int()),
        lambda x: ((x - 2 * X) * X).sum(-1, keepdim=True) / 3, lambda x: x.shape[0],
        lambda x: x.mT,
    ],
)  # fmt: skip
def test_what_is_computed_from_a_reply_is_computed_once_it_is_there(compute):
    unknown, replies = reply(X)
    result = compute(unknown)
    assert type(result) is Later
    got, want = known(result, replies), compute(X)
    assert torch.equal(torch.as_tensor(got), torch.as_tensor(want))


@pytest.mark.parametrize(
    "look",
    [
        bool, len, list, float, int, str, repr, hash, sorted, lambda x: f"{x:.1f}",
        lambda x: x == 1, lambda x: x != 1, lambda x: x < 1, lambda x: x <= 1, lambda x: 1 in x,
        lambda x: isinstance(x, torch.Tensor), lambda x: x.__class__, lambda x: [*x],
        lambda x: x.mul_(2), lambda x: x.__setitem__(0, 1.0), lambda x: range(3)[x],
        lambda x: torch.is_tensor(x), lambda x: torch.stack([x, x]), lambda x: X * x,
        lambda x: {x: 1}, lambda x: setattr(x, "grad", None),
    ],
)  # fmt: skip
def test_what_must_know_a_reply_now_is_refused(look):
    with pytest.raises(NotYet):
        look(reply(X)[0])


def test_an_operator_in_place_is_refused():
    unknown, _ = reply(X)
    with pytest.raises(NotYet):
        unknown += 1


def test_a_tensor_is_kept_as_it_was_when_it_was_used():
    unknown, replies = reply(X)
    scale = torch.ones(2)
    result = unknown * scale
    scale[0] = 100.0
    assert torch.equal(known(result, replies), X)


def test_what_is_used_twice_is_computed_once():
    calls = []

    @later
    def look(x):
        calls.append(x)
        return x

    unknown, replies = reply(X)
    once = look(unknown)
    known([once, once[0], once + once], replies)
    assert len(calls) == 1


def test_a_function_of_replies_is_called_at_once_where_all_is_known():
    assert later(len)([1, 2]) == 2
    unknown, replies = reply([1, 2, 3])
    assert known(later(len)(unknown), replies) == 3
    assert known(later(lambda parts: parts["a"][0])({"a": [unknown]}), replies) == [1, 2, 3]


# -- plans -----------------------------------------------------------------------------------------


def test_a_plan_asks_and_expects_what_the_test_does():
    def test(student):
        x = torch.arange(3.0)
        expect(student.double(x), 2 * x)
        x[0] = 7.0  # each call and expectation holds the values of its moment
        expect(student.double(x).float() + 1, 2 * x + 1, what="the sum")

    assert judged(test, double=lambda x: 2 * x) is None
    assert judged(test, double=lambda x: x).startswith("The output has the right shape")
    assert judged(test, double=lambda x: 2 * x - (x[0] == 7).float()).startswith("The sum has")


def test_the_first_expectation_that_fails_is_told_with_its_number():
    def test(student):
        for number in (1.0, 2.0, 3.0):
            expect(student.same(number), number)

    with pytest.raises(Mismatch) as raised:
        plan.run(made(test), LocalAsker({"same": lambda x: min(x, 2.0)}), pytest.fail)
    assert (raised.value.index, raised.value.got) == (2, 2.0)


def test_modules_states_and_gradients_are_planned():
    def test(student):
        module = student.nn.Linear(2, 2)
        state = {"weight": torch.eye(2), "bias": torch.zeros(2)}
        module.load(state)
        expect(module.state(), state)
        y, vjp = module.vjp(X)
        expect(y, X)
        inputs, parameters = vjp(torch.ones(2, 2))
        expect(inputs[0], torch.ones(2, 2))
        expect(parameters["bias"], torch.full((2,), 2.0))
        _, vjp = student.vjp("double", X)
        expect(vjp(X)[0], 2 * X, what="the gradient")
        expect(student.inputs(), [X])

    assert judged(test, double=lambda x: 2 * x) is None
    assert judged(test, double=lambda x: 3 * x).startswith("The gradient has")


def test_a_function_that_judges_is_part_of_the_plan():
    @judging
    def expect_each(got, want):
        for one in got:
            expect(one, want)

    def test(student):
        expect_each(student.many(3), 1.0)

    assert judged(test, many=lambda n: [1.0] * n) is None
    assert judged(test, many=lambda n: [1.0, 2.0]) == "The output is a wrong number."


def test_what_needs_no_reply_is_judged_while_planning_and_counted_once():
    @judging
    def expect_twice(got, want):
        expect(got, want)
        expect(got, want)

    def test(student):
        expect_twice(1.0, 1.0)
        expect(student.f(2.0), 2.0)

    assert len(made(test)) == 3
    assert made(lambda student: expect_twice(1.0, 2.0)) is None


def test_a_test_that_looks_at_a_reply_has_no_plan():
    def test(student):
        expect(student.twice(2.0 if float(student.twice(1.0)) > 0 else 3.0), 4.0)

    assert made(test) is None


def test_a_test_that_cannot_be_right_without_an_error_has_no_plan():
    def refuses(call):
        try:
            call()
        except LearnerError:
            return True
        return False

    def test(student):
        expect(refuses(lambda: student.twice("text")), True)

    assert made(test) is None


def test_a_test_that_skips_or_fails_by_itself_has_no_plan():
    assert made(lambda student: pytest.skip("not today")) is None
    assert made(lambda student: 1 / 0) is None


def test_where_the_learner_s_code_fails_the_test_itself_decides():
    def test(student):
        try:
            value = student.broken(1.0)
        except LearnerError:
            value = "an error"
        expect(value, "an error", what="the answer")

    def broken(x):
        raise ValueError

    assert judged(test, broken=broken) is None
    assert judged(test, broken=lambda x: x) == "The answer is not 'an error'."


def test_where_the_worker_is_lost_nothing_is_run_again():
    class Gone:
        def asking(self, calls):
            return contextlib.nullcontext()

        def ask(self, call):
            raise WorkerLost("crashed", "it is gone")

    with pytest.raises(WorkerLost):
        plan.run(made(lambda student: student.f(1.0)), Gone(), pytest.fail)


@pytest.mark.parametrize("times", [1, 2])
def test_code_that_fails_only_at_first_has_failed(times):
    def test(student):
        expect(student.double(1.0), 2.0)
        expect(student.double(2.0), 4.0)

    calls = []

    def double(x):
        calls.append(x)
        if len(calls) <= times:
            raise ValueError
        return 2 * x

    with pytest.raises(LearnerError):
        judged(test, double=double)


def test_planning_ends_with_the_plan():
    made(lambda student: expect(student.f(1.0), 1.0))
    made(lambda student: expect(float(student.f(1.0)), 1.0))
    with pytest.raises(Mismatch):
        expect(1.0, 2.0)
    assert compare._plan is None


# -- every hidden suite ----------------------------------------------------------------------------

ALL = pytest.mark.parametrize("assignment", gradable())


@ALL
def test_nearly_all_hidden_tests_have_a_plan(assignment):
    suite = load(assignment)
    planned = [test for test in suite.tests if suite.plan(test, 1) is not None]
    assert len(planned) > 0.6 * len(suite.tests)


def versions(assignment):
    """Namespaces of right and wrong code."""
    suite = load(assignment)
    every = 8 if assignment == "triton_kernels" else 1  # slow, and judged like the others
    wrong = [{m.exercise: m.implementation} for m in misconceptions.load(assignment)[::every]]
    right = {name: vars(suite.reference)[name] for name in suite.exercises}
    return [right, *wrong]


@ALL
def test_a_plan_judges_every_known_mistake_as_the_test_does(assignment):
    for namespace in versions(assignment):
        planned = grade(assignment, namespace, recognise=False)
        assert planned == grade(assignment, namespace, recognise=False, planned=False)


class Odd(torch.nn.Module):
    """A module that takes anything and gives nothing."""

    def __init__(self, *args, **kwargs):
        super().__init__()

    def forward(self, *args, **kwargs):
        return None


def fails(*args, **kwargs):
    raise ValueError


ODD = {
    "nothing": lambda *args, **kwargs: None, "a number": lambda *args, **kwargs: 0.5,
    "no values": lambda *args, **kwargs: (), "an empty tensor": lambda *args, **kw: torch.empty(0),
    "text": lambda *args, **kwargs: "text", "its argument": lambda x, *args, **kwargs: x,
    "an error": fails, "a module": Odd,
}  # fmt: skip


@ALL
@pytest.mark.parametrize("name", ODD)
def test_a_plan_judges_an_odd_reply_as_the_test_does(assignment, name):
    namespace = dict.fromkeys(load(assignment).exercises, ODD[name])
    planned = grade(assignment, namespace, recognise=False)
    assert planned == grade(assignment, namespace, recognise=False, planned=False)


@ALL
def test_a_plan_is_the_same_after_it_was_followed(assignment):
    right, *wrong = versions(assignment)
    for namespace in wrong[::12]:
        grade(assignment, namespace, recognise=False)
    assert {outcome.verdict for outcome in grade(assignment, right)} == {"pass"}
