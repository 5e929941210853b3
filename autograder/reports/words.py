"""Untrusted text and results in the words that people read, whatever format they go into."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

_MESSAGE_LIMIT = 4_000
# Control codes (terminal escapes among them), lone surrogates, and the marks that reverse the
# direction of text: none belongs into a page, a terminal or a PostgreSQL text column.
_NUMBER = re.compile(r"\b\d+\b")  # not that of float16
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def plain(text: object, limit: int = _MESSAGE_LIMIT) -> str:
    """Text without control codes, with \\n line ends, at most `limit` characters long."""
    value = str(text).replace("\r\n", "\n").replace("\r", "\n")
    for separator in ("\x85", "\u2028", "\u2029", "\x0b", "\x0c"):
        value = value.replace(separator, "\n")
    value = _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", value)
    return value if len(value) <= limit else value[:limit] + "\n... (cut)"


def literal(text: str) -> str:
    """Markdown that shows `text` as it is.

    An indented block is the one form that has no end mark a text could hold, so HTML, links and
    formulas in it stay text, in nbgrader's pages and in formgrader's comment box alike.
    """
    return "\n".join(f"    {line}".rstrip() for line in text.split("\n"))


def points(value: float) -> str:
    """2.0 -> "2", 2.5 -> "2.5", 1/3 -> "0.33"."""
    return f"{round(float(value), 2):g}"


def exercise_text(exercise: Mapping[str, Any]) -> str:
    """What a learner reads about one exercise: title, verdict, points and message of each test."""
    score, full = points(exercise["score"]), points(exercise["max_score"])
    lines = [f"{plain(exercise['name'])}: {score} of {full} points"]
    tests = exercise["tests"]
    if tests and all(t["verdict"] == "not-implemented" for t in tests):
        lines.append(f"[not-implemented] {plain(tests[0]['message'])} ({len(tests)} tests wait.)")
        return "\n".join(lines)
    for test, said in told_once(tests):
        title = plain(test.get("title") or test["name"], 300)
        earned = f"{points(test['points'])} of {points(test['max_points'])}"
        lines.append(f"[{test['verdict']}] {title} ({earned})")
        link = test.get("link") if said == test.get("message") else None
        for extra in (said, link and f"Read in the book: {link}"):
            if extra:
                for paragraph in plain(extra).split("\n"):
                    lines += _wrapped(paragraph)
    return "\n".join(lines)


def told_once(
    tests: Sequence[Mapping[str, Any]],
) -> list[tuple[Mapping[str, Any], str | None]]:
    """Each test with what is said of it: its message, or where an earlier test has the same."""
    told: dict[str, str] = {}  # message: title of the test that it was told for
    pairs, last = [], None
    for test in tests:
        said = message = test.get("message")
        if message and message in told:
            above = "above" if message == last else f'for "{told[message]}"'
            said, last = f"The same as {above}.", message
        elif message and last and _NUMBER.sub("", message) == _NUMBER.sub("", last):
            said = "The same as above, with other numbers."
        elif message:
            told[message], last = plain(test.get("title") or test["name"], 300), message
        pairs.append((test, said))
    return pairs


def _wrapped(paragraph: str) -> list[str]:
    return textwrap.wrap(paragraph, 92, initial_indent="    ", subsequent_indent="    ")
