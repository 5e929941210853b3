"""What keeps grading from going on, told in one line."""

from __future__ import annotations


class EngineError(Exception):
    """Grading cannot go on; the message is one line that says why and what to do."""


class NotStarted(EngineError):
    """The runner or its sandbox ended while it started. Perhaps somebody ended it."""
