"""The machine code of the fused norms, read without a GPU: no spills, sixteen bytes at a time.

What is expected of registers holds for the pinned Triton: its compiler decides about them.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

import pytest

pytest.importorskip("triton", reason="Triton has packages for Linux only")

import triton

from bench.ahead_of_time import TARGETS, Compiled, CompileError, Request, compiled_all, request_of
from solutions.triton_kernels.fused.catalogue import launches

pinned = pytest.mark.skipif(
    triton.__version__ != "3.7.1", reason="registers depend on Triton's version"
)

FORWARD = (512, 1000, 1024, 2048, 4096, 8192, 16384, 32768)
BACKWARD = (512, 1000, 1024, 2048, 4096, 8192)

# All: pytest -m soak tests/fused/test_fused_machine_code.py. These in every run, the tightest:
SOME = {
    "bf16": {
        "Layer forward": (512, 1000, 4096, 16384, 32768),
        "Layer backward": (512, 1000, 4096, 8192),
        "add + RMS forward": (32768,),
        "add + RMS backward": (2048,),
    },
    "fp32": {
        "Layer forward": (32768,),
        "Layer backward": (8192,),
        "add + RMS backward": (1024,),
    },
}


def rows(dtype: str, every: bool) -> Iterator[tuple[tuple[str, str, int], Request]]:
    """(dtype, name, width) and request of the kernels that keep whole rows."""
    for wanted in FORWARD:
        for name, width, launch in launches(wanted, dtype):
            long = name.endswith(")") or (name.endswith("backward") and width not in BACKWARD)
            if not long and (every or width in SOME[dtype].get(name, ())):
                yield (dtype, name, width), request_of(launch)


def questions() -> Iterator[tuple[tuple, Request]]:
    """Everything that the tests below ask, for one compiling process."""
    for dtype in SOME:
        yield from rows(dtype, every=False)
    for target in TARGETS:
        for width in (2048, 40_000):
            for name, _, launch in launches(width, "fp16"):
                if name.startswith("Layer"):
                    yield ("target", target, width, name), request_of(launch, target)
    for width in (1000, 1001, 1002, 1004):
        _, _, launch = next(launches(width, "bf16"))
        yield ("width", width), request_of(launch)
    _, _, launch = next(launches(1000, "bf16"))
    general = {**launch.arguments, "WIDTH": None, "X_ROW": None, "RESIDUAL_ROW": None}
    yield ("general",), request_of(dataclasses.replace(launch, arguments=general))
    request = request_of(launch)
    eps = {**request.signature, "eps": "fp64"}
    yield ("float64 eps",), dataclasses.replace(request, signature=eps)


@pytest.fixture(scope="module")
def codes() -> dict[tuple, Compiled | CompileError]:
    asked = dict(questions())
    return dict(zip(asked, compiled_all(list(asked.values())), strict=True))


def whole_rows(codes: dict) -> Iterator[tuple[str, str, int, Compiled]]:
    for key, code in codes.items():
        if key[0] in SOME:
            assert isinstance(code, Compiled), (key, code)
            yield *key, code


def narrow(code: Compiled, name: str) -> tuple[int, int]:
    """Loads and stores of less than 16 bytes, besides those of statistics: a number a row."""
    statistics = 1 if "RMS" in name else 2
    loads = {bits: n for bits, n in code.load_bits.items() if bits < 128}
    stores = {bits: n for bits, n in code.store_bits.items() if bits < 128}
    if name.endswith("forward"):
        assert set(stores) == {32} and stores[32] <= statistics
        return sum(loads.values()), 0
    assert set(loads) == {32} and loads[32] <= 2 * statistics  # once more, loaded ahead
    return 0, sum(stores.values())


def assert_fast(name: str, width: int, dtype: str, code: Compiled) -> None:
    where = f"{name}, D = {width}, {dtype}"
    assert code.spill_bytes == 0, where
    assert narrow(code, name) == (0, 0), where
    assert code.load_bits[128] and code.store_bits[128], where


@pinned
def test_no_registers_spill_and_every_access_moves_sixteen_bytes(codes):
    found = list(whole_rows(codes))
    assert len(found) == 14
    for dtype, name, width, code in found:
        assert_fast(name, width, dtype, code)


@pinned
@pytest.mark.soak
@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
def test_none_of_all_norms_and_widths_spills(dtype):
    asked = dict(rows(dtype, every=True))
    assert len(asked) == 4 * (len(FORWARD) + len(BACKWARD))
    for (_, name, width), code in zip(asked, compiled_all(list(asked.values())), strict=True):
        assert_fast(name, width, dtype, code)


def test_nothing_locks_adds_atomically_or_computes_in_float64(codes):
    """triton-lang/triton#6307, meta-pytorch/tritonbench#1266: a lock let go too early, on a GPU."""
    for *where, code in whole_rows(codes):
        assert code.atomics == 0, where
        assert ".f64" not in code.ptx, where


@pinned
def test_the_next_rows_are_loaded_while_these_are_summed(codes):
    for _, name, width, code in whole_rows(codes):
        if name.endswith("backward"):
            assert "cp.async" in code.ptx, (name, width)
            assert code.shared_bytes >= 2 * width * 2, (name, width)


@pinned
def test_forward_rows_leave_room_for_1024_threads_at_once(codes):
    for _, name, width, code in whole_rows(codes):
        if name.endswith("forward") and width > 1024:
            assert code.registers * 1024 <= 65536, (name, width)


@pytest.mark.parametrize("target", TARGETS)
def test_kernels_compile_for_every_kind_of_gpu(codes, target):
    """A100, H100 or H200, B200. All launches of a width, stage two and long rows included."""
    found = [code for key, code in codes.items() if key[:2] == ("target", target)]
    assert len(found) == 3 + 4
    assert not [code for code in found if isinstance(code, CompileError)]
    assert all(f".target {target}" in code.ptx for code in found)


@pytest.mark.parametrize(("width", "widest"), [(1000, 128), (1004, 64), (1002, 32), (1001, 16)])
def test_load_width_is_what_the_width_of_a_row_allows(codes, width, widest):
    assert max(codes["width", width].load_bits) == widest


def test_strides_known_at_run_time_only_cost_the_wide_loads(codes):
    """Why there is a fast path: the same rows with D and stride as ordinary arguments."""
    fast, slow = codes["width", 1000].load_bits, codes["general",].load_bits
    assert set(fast) == {128} and set(slow) == {16}
    assert slow[16] == 8 * fast[128]


def test_an_eps_of_float64_is_rounded_before_anything_is_computed(codes):
    """linkedin/Liger-Kernel#1350: a compiler handed eps over in float64; 4 to 6 times slower."""
    operations = re.findall(r"^\s*(\S*\.f64\S*)", codes["float64 eps",].ptx, re.MULTILINE)
    assert [op for op in operations if not op.startswith(("cvt.", "ld.", "mov."))] == []
    assert any(op.startswith("cvt.") for op in operations)
