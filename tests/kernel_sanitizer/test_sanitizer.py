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

from kernel_sanitizer import launch as kernel_launch
from kernel_sanitizer import sanitizer
from kernel_sanitizer.fault import Fault, KernelFault
from kernel_sanitizer.numbers import to_bf16

BAD = ("out_of_bounds", "races", "arithmetic")


def kernels(name: str) -> ModuleType:
    return importlib.import_module(f"tests.kernels.{name}")


pytestmark = pytest.mark.usefixtures("sanitizer_for_all")


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


# -- bytes -------------------------------------------------------------------------------------


def row_equivalents(name: str) -> dict[str, float]:
    """Bytes that each row moved, in units of one row of x; writes have a minus sign."""
    sanitizer.launches.clear()
    kernels("traffic").run(name, torch.float16)
    (launch,) = sanitizer.launches
    row = launch["sizes"]["x"]
    reads = {f"-{k}": v / row for k, v in launch["reads"].items() if v}
    return reads | {f"+{k}": v / row for k, v in launch["writes"].items() if v}


def test_one_block_reads_three_rows_for_each_row_and_writes_one():
    assert row_equivalents("one_block") == {"-x": 1, "-weight": 1, "-bias": 1, "+y": 1}


def test_three_sweeps_read_x_three_times():
    assert row_equivalents("three_sweeps") == {"-x": 3, "-weight": 1, "-bias": 1, "+y": 1}


def test_a_tile_reads_the_weights_once_for_all_its_rows():
    found = row_equivalents("tile")
    assert (found["-x"], found["+y"]) == (1, 1)
    assert found["-weight"] == found["-bias"] == pytest.approx(2 / 6)


def test_masked_lanes_and_the_grid_are_told_exactly():
    sanitizer.launches.clear()
    kernels("good").tiles_with_rows_left_over()
    (launch,) = sanitizer.launches
    assert launch["grid"] == [2, 1, 1]
    assert launch["reads"] == {"x": 7 * 5 * 4, "y": 0}
    assert launch["writes"] == {"x": 0, "y": 7 * 4}


# -- bfloat16 ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["one_block", "three_sweeps", "tile"])
def test_a_bfloat16_result_is_the_exact_one_rounded_once(name):
    y, exact = kernels("traffic").run(name, torch.bfloat16)
    right = y == exact.to(torch.bfloat16)
    assert right.float().mean() > 0.999  # float32 inside: a tie may fall the other way
    assert ((y.double() - exact).abs() <= exact.abs() * 2**-8 + 1e-6).all()


def test_every_kind_of_float_is_rounded_to_bfloat16_as_torch_does():
    generator = torch.Generator().manual_seed(1)
    bits = torch.randint(-(2**31), 2**31, (200_000,), generator=generator).to(torch.int32)
    special = [0x7F7FFFFF, 0x7F7F8000, 0x00008000, 0x00018000, 0x7F800000, 0x7F800001, 1, 0]
    bits = torch.cat([bits, torch.tensor(special, dtype=torch.int32)])
    floats = bits.view(torch.float32)
    want = floats.to(torch.bfloat16)
    got = to_bf16(floats.numpy())
    nan = floats.isnan().numpy()
    assert (got[~nan] == want.view(torch.uint16).numpy()[~nan]).all()
    assert torch.from_numpy(got).view(torch.bfloat16)[torch.from_numpy(nan)].isnan().all()


# -- when it does not fit ----------------------------------------------------------------------


def test_on_a_triton_that_behaves_otherwise_it_takes_itself_out_and_says_so(monkeypatch):
    from triton.runtime import interpreter

    before = vars(interpreter.GridExecutor)["__call__"]
    sanitizer.uninstall()
    bare = vars(interpreter.GridExecutor)["__call__"]
    assert bare is not before and not sanitizer.installed()
    with monkeypatch.context() as patch:
        patch.setattr(kernel_launch.Launch, "_out_of_bounds", lambda *_: None)
        assert "self-test failed: load past the end" in sanitizer.install()
    assert vars(interpreter.GridExecutor)["__call__"] is bare and sanitizer.why_not()
    with monkeypatch.context() as patch:
        patch.delattr(interpreter, "_implicit_cvt")
        assert "does not fit this Triton" in sanitizer.install()
    assert vars(interpreter.GridExecutor)["__call__"] is bare
    assert sanitizer.install() == "" and sanitizer.installed()


def test_outside_of_a_call_that_is_watched_torch_empty_is_left_alone():
    with sanitizer.watching():
        assert torch.empty(3).isnan().all() and torch.are_deterministic_algorithms_enabled()
    assert not torch.are_deterministic_algorithms_enabled()


def test_it_can_be_put_in_again_after_many_launches():
    for _ in range(70):  # more than are noted
        kernels("traffic").run("one_block", torch.float16)
    sanitizer.uninstall()
    assert sanitizer.install() == ""


def test_a_launch_of_far_too_many_programs_is_ended(monkeypatch):
    monkeypatch.setattr(kernel_launch, "MOST_SECONDS", 0.05)
    x = torch.zeros(1 << 20)
    found = fault_of(lambda: kernels("races").copy[(1 << 20,)](x, x, 1, 1, D=1, B=1))
    assert (found.kind, found.where) == ("budget", "seconds")
