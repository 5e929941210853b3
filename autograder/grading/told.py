"""How much a learner hears of the tests of an exercise, so that messages carry no input out.

Code under test sees hidden inputs, keeps them from test to test, and may choose what to get wrong,
and how. So the place of an error, and a shape or dtype that the code chose, are told once an
exercise; and an exercise has a few explanations, however many tests fail. Whoever means it
honestly repairs the first mistakes first, and sees the next ones then.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ..testing.verdict import Verdict

MOST = 4  # different explanations of an exercise, beside the first error

ERROR_TOO = "This test ended in an error, too: fix the first one and look again."
WRONG_TOO = "This test found a mistake as well: fix those above and look again."

_ERRORS = (Verdict.ERROR, Verdict.MEMORY)  # such a message has a line that the code chose
_NUMBER = re.compile(r"\d+")


def sparingly(outcomes: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The outcomes of one exercise's tests, in order, as the learner is told of them."""
    telling = _Telling()
    return [telling.of(dict(outcome)) for outcome in outcomes]


class _Telling:
    """What has been told of one exercise."""

    def __init__(self) -> None:
        self._error: str | None = None
        self._chosen: str | None = None  # the message with a shape or dtype that the code chose
        self._explanations: set[str] = set()

    def of(self, outcome: dict[str, Any]) -> dict[str, Any]:
        message = outcome["message"]
        if message is None or outcome["verdict"] in (Verdict.PASS, Verdict.SKIPPED):
            return outcome
        if outcome["verdict"] in _ERRORS:
            self._error = self._error or message
            return outcome if message == self._error else _briefly(outcome, ERROR_TOO)
        if outcome.get("plain"):
            self._chosen = self._chosen or message
            if message != self._chosen:
                message = outcome["message"] = outcome["plain"]
        kind = _NUMBER.sub("", message)  # other numbers are those of the test
        if kind not in self._explanations and len(self._explanations) == MOST:
            return _briefly(outcome, WRONG_TOO)
        self._explanations.add(kind)
        return outcome


def _briefly(outcome: dict[str, Any], message: str) -> dict[str, Any]:
    return outcome | {"message": message, "misconception": None, "link": None}
