"""What tests of kernels share, and the sandboxes of `stand_in`.

Triton decides when it is imported whether kernels run in its interpreter: hence the first line.
"""

import os

os.environ.setdefault("TRITON_INTERPRET", "1")

from collections.abc import Iterator
from types import ModuleType

import pytest
from stand_in import modes, packages, server, strong, weak  # noqa: F401 (fixtures)


def _sanitizer_on() -> Iterator[ModuleType]:
    """The kernel sanitizer, on. Afterwards it is as it was before."""
    from kernel_sanitizer import sanitizer

    before = sanitizer.installed()
    assert sanitizer.install() == ""
    yield sanitizer
    if not before:
        sanitizer.uninstall()


sanitizer = pytest.fixture(_sanitizer_on, name="sanitizer")
sanitizer_for_all = pytest.fixture(_sanitizer_on, scope="module", name="sanitizer_for_all")
