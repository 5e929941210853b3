"""The kernel sanitizer: each fault is found and told, good kernels run, bytes are counted.

The kernels are data, in tests/kernels/.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import pytest
import torch

pytest.importorskip("triton", reason="Triton has packages for Linux only")

from autograder import kernel_launch, sanitizer
from autograder.kernel_fault import Fault, KernelFault

BAD = ("out_of_bounds", "races", "arithmetic")


def kernels(name: str) -> ModuleType:
    return importlib.import_module(f"tests.kernels.{name}")


@pytest.fixture(autouse=True, scope="module")
def _installed():
    assert sanitizer.install() == ""
    yield
    sanitizer.uninstall()


def fault_of(action: Any) -> Fault:
    with pytest.raises(KernelFault) as raised, sanitizer.watching():
        action()
    return raised.value.fault


@pytest.mark.parametrize(("module", "name"), [(m, n) for m in BAD for n in kernels(m).EXPECTED])
def test_a_known_bad_kernel_is_told_with_its_facts(module, name, monkeypatch):
    monkeypatch.setattr(kernel_launch, "MOST_OPERATIONS", 200)
    expected = kernels(module).EXPECTED[name]
    found = fault_of(getattr(kernels(module), name)).as_dict()
    for key, value in expected.items():
        value = list(value) if isinstance(value, tuple) else value
        assert (key, found[key]) == (key, value)


def test_there_are_enough_known_bad_and_good_kernels():
    assert sum(len(kernels(m).EXPECTED) for m in BAD) >= 25
    assert len(kernels("good").GOOD) >= 10


@pytest.mark.parametrize("good", kernels("good").GOOD, ids=lambda f: f.__name__)
def test_a_good_kernel_runs_and_its_result_is_right(good):
    with sanitizer.watching():
        got, want = good()
    torch.testing.assert_close(got, want, rtol=0, atol=0)
