"""Check a result that came from another machine against the suite of this one.

The machine may run an older grader, be damaged, or lie. What it claims to be a verdict cannot be
proved from here; all that follows from the verdicts is computed again.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from ..testing.verdict import Verdict

MAX_REPLY = 4 << 20
MAX_TEXT = 5_000
MAX_ITEMS = 1_000

_TOP = (
    "status", "reason", "score", "max_score", "sha256", "code", "notices", "review", "exercises",
    "seconds",
)  # fmt: skip
_EXERCISE = ("name", "score", "max_score", "tests")
_TEST = (
    "name", "title", "verdict", "points", "max_points", "message", "misconception", "link",
)  # fmt: skip
_REVIEW = ("exercise", "kind", "line", "detail")
_CODE = re.compile("([0-9a-f]{16})?")
_VERDICTS = {str(verdict) for verdict in Verdict} - {str(Verdict.INTERNAL_ERROR)}


class Refused(Exception):
    """The reply cannot be; the message is one line that says why."""


def decode(reply: object) -> dict[str, Any]:
    """A reply as a JSON object. Raises Refused."""
    if type(reply) is not bytes:
        raise Refused("it is not bytes")
    if len(reply) > MAX_REPLY:
        raise Refused("it is too large")
    try:
        tree = json.loads(reply, object_pairs_hook=_object, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise Refused("it is not plain JSON") from None
    if type(tree) is not dict:
        raise Refused("it is not an object")
    return tree


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    tree = dict(pairs)
    if len(tree) != len(pairs):
        raise ValueError("a key occurs twice")
    return tree


def _no_constant(name: str) -> None:
    raise ValueError(name)


def check(result: object, suite: Mapping[str, Any], sha256: str) -> dict[str, Any]:
    """`result` with its scores computed again from its verdicts.

    suite: what `cluster.describe` says of this machine's suite.
    sha256: of the notebook that was sent.
    Raises Refused: a key, a type or a value that this suite does not give for this notebook.
    """
    tree = _keys(result, _TOP, "the result")
    _equal(tree["max_score"], suite["max_score"], "the maximum")
    _number(tree["seconds"], "the time")
    if type(tree["code"]) is not str or not _CODE.fullmatch(tree["code"]):
        raise Refused("its code is no fingerprint")
    for notice in _list(tree["notices"], "notices"):
        _text(notice, "a notice")
    for entry in _list(tree["review"], "the review"):
        _keys(entry, _REVIEW, "a review entry")
        if entry["exercise"] not in suite["exercises"]:
            raise Refused("a review entry is for no exercise of the suite")
        _text(entry["kind"], "a review entry")
        _text(entry["detail"], "a review entry")
        if type(entry["line"]) is not int or entry["line"] < 0:
            raise Refused("a review entry has no line number")
    if tree["status"] == "ungraded":
        _text(tree["reason"], "the reason")
        if not tree["reason"].strip() or tree["score"] is not None or tree["exercises"] != []:
            raise Refused("it is ungraded with a score or without a reason")
        if tree["sha256"] not in ("", sha256):
            raise Refused("it is for another notebook")
        return tree
    if tree["status"] != "graded" or tree["reason"] is not None:
        raise Refused("its status cannot be")
    if tree["sha256"] != sha256:
        raise Refused("it is for another notebook")
    names = [_keys(e, _EXERCISE, "an exercise")["name"] for e in _list(tree["exercises"], "it")]
    if names != suite["exercises"]:
        raise Refused("its exercises are not the suite's")
    for exercise in tree["exercises"]:
        _check_exercise(exercise, suite)
    score = sum(exercise["score"] for exercise in tree["exercises"])
    _equal(tree["score"], score, "the score")
    return tree | {"score": score}


def _check_exercise(exercise: dict[str, Any], suite: Mapping[str, Any]) -> None:
    tests = [test for test in suite["tests"] if test["exercise"] == exercise["name"]]
    rows = _list(exercise["tests"], "the tests")
    if len(rows) != len(tests):
        raise Refused(f"the tests of {exercise['name']} are not the suite's")
    for row, test in zip(rows, tests, strict=True):
        _keys(row, _TEST, "a test")
        if row["name"] != test["name"] or row["title"] != test["title"]:
            raise Refused(f"the tests of {exercise['name']} are not the suite's")
        if type(row["verdict"]) is not str or row["verdict"] not in _VERDICTS:
            raise Refused(f"{test['name']} has no verdict")
        _equal(row["max_points"], test["max_points"], f"the maximum of {test['name']}")
        points = test["max_points"] if row["verdict"] == Verdict.PASS else 0.0
        _equal(row["points"], points, f"the points of {test['name']}")
        for key in ("message", "misconception", "link"):
            if row[key] is not None:
                _text(row[key], f"the {key} of {test['name']}")
    maximum = sum(test["max_points"] for test in tests)
    _equal(exercise["max_score"], maximum, f"the maximum of {exercise['name']}")
    score = sum(row["points"] for row in rows)
    _equal(exercise["score"], score, f"the score of {exercise['name']}")
    exercise["score"] = score


def _keys(value: object, keys: tuple[str, ...], what: str) -> dict[str, Any]:
    if type(value) is not dict or set(value) != set(keys):
        raise Refused(f"{what} has other keys than {', '.join(keys)}")
    return value


def _list(value: object, what: str) -> list[Any]:
    if type(value) is not list or len(value) > MAX_ITEMS:
        raise Refused(f"{what}: not a list of at most {MAX_ITEMS}")
    return value


def _text(value: object, what: str) -> None:
    if type(value) is not str or len(value) > MAX_TEXT:
        raise Refused(f"{what} is not a text of at most {MAX_TEXT} characters")
    if not value.replace("\n", " ").replace("\t", " ").isprintable():
        raise Refused(f"{what} holds characters that cannot be printed")


def _number(value: object, what: str) -> float:
    # By type: a bool is no number here.
    if type(value) is not int and type(value) is not float:
        raise Refused(f"{what} is not a number")
    if not math.isfinite(value) or value < 0:
        raise Refused(f"{what} is not a number")
    return value


def _equal(value: object, expected: float, what: str) -> None:
    if abs(_number(value, what) - expected) > 1e-9:
        raise Refused(f"{what} is {value}, not {expected}")
