"""The kernel sanitizer: each fault is found and told, good kernels run, bytes are counted."""

from __future__ import annotations

import pytest

pytest.importorskip("triton", reason="Triton has wheels for Linux only")

from autograder import sanitizer


@pytest.fixture(autouse=True, scope="module")
def _installed():
    assert sanitizer.install() == ""
    yield
    sanitizer.uninstall()


def test_it_fits_the_triton_that_is_installed():
    assert sanitizer.installed() and sanitizer.why_not() == ""
