"""Tests of the book's claims: one file for each chapter."""

import pytest


def notices(claim) -> None:
    """The test `claim` raises an AssertionError, and no other error."""
    with pytest.raises(AssertionError):
        claim()
