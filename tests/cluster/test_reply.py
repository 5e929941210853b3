"""A result from another machine is taken only if this suite can give it for this notebook."""

from __future__ import annotations

import hashlib
import json

import pytest
from pretended import SUITE, result_of

from autograder.cluster import reply

DATA = b"a notebook"
SHA = hashlib.sha256(DATA).hexdigest()
UNGRADED = result_of(DATA) | {
    "status": "ungraded", "reason": "empty", "score": None, "exercises": [],
}  # fmt: skip


def test_true_results_pass_the_check_unchanged():
    for result in (result_of(DATA), result_of(DATA, passed=False), UNGRADED):
        decoded = reply.decode(json.dumps(result).encode())
        assert reply.check(decoded, SUITE, SHA) == result


def _set(path: list, value):
    def change(result):
        place = result
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value

    return change


ROW = ["exercises", 0, "tests", 0]


@pytest.mark.parametrize(
    "change",
    [
        _set(["score"], 4.0),
        _set(["score"], True),
        _set(["score"], None),
        _set(["score"], float("inf")),
        _set(["max_score"], 30.0),
        _set(["extra"], 1),
        _set(["status"], "passed"),
        _set(["reason"], "because"),
        _set(["sha256"], "0" * 64),
        _set(["code"], "x" * 16),
        _set(["code"], None),
        _set(["seconds"], -1),
        _set(["seconds"], "fast"),
        _set(["notices"], "text"),
        _set(["notices"], ["\x1b[31m"]),
        _set(["notices"], ["x"] * 2000),
        _set(["notices"], ["x" * 6000]),
        _set(["review"], [{"exercise": "one"}]),
        _set(["review", 0, "exercise"], "three"),
        _set(["review", 0, "line"], 1.5),
        _set(["exercises"], []),
        _set(["exercises", 0, "name"], "two"),
        _set(["exercises", 0, "score"], 15),
        _set(["exercises", 0, "max_score"], 15),
        _set(["exercises", 0, "tests"], []),
        _set([*ROW, "points"], 2.0),
        _set([*ROW, "points"], 0.0),
        _set([*ROW, "max_points"], 2.0),
        _set([*ROW, "verdict"], "wrong"),
        _set([*ROW, "verdict"], "internal-error"),
        _set([*ROW, "verdict"], "brilliant"),
        _set([*ROW, "verdict"], ["pass"]),
        _set([*ROW, "name"], "test_b"),
        _set([*ROW, "title"], "Another"),
        _set([*ROW, "message"], 5),
        _set([*ROW, "link"], "\x00"),
        lambda result: result["exercises"].reverse(),
        lambda result: result["exercises"][0]["tests"].reverse(),
        lambda result: result.pop("notices"),
        lambda result: result.update(status="ungraded"),
        lambda result: result.update(UNGRADED, score=0.0),
        lambda result: result.update(UNGRADED, reason=""),
        lambda result: result.update(UNGRADED, reason=None),
        lambda result: result.update(UNGRADED, sha256="0" * 64),
    ],
)
def test_a_result_that_cannot_be_is_refused(change):
    result = result_of(DATA)
    change(result)
    with pytest.raises(reply.Refused) as raised:
        reply.check(result, SUITE, SHA)
    assert str(raised.value).isprintable()


@pytest.mark.parametrize(
    "data",
    [
        "{}", None, b"", b"[]", b"null", b"\xff", b'{"a": NaN}', b'{"a": 1, "a": 2}',
        b"[" * 100_000, b" " * (reply.MAX_REPLY + 1),
    ],
    ids=range(10),
)  # fmt: skip
def test_a_reply_that_is_no_plain_json_object_is_refused(data):
    with pytest.raises(reply.Refused):
        reply.decode(data)
