"""Compiling kernels without a GPU: what is read from the machine code, and what is refused."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton", reason="Triton has packages for Linux only")

import triton
import triton.language as tl

from bench.ahead_of_time import (
    CompileError,
    Request,
    compile_here,
    compiled,
    compiled_all,
    main,
    read,
    request_of,
)
from solutions.triton_kernels.fused import catalogue, forward, norm
from solutions.triton_kernels.fused.catalogue import launches

HERE = "tests.benchmarks.test_ahead_of_time:"


@triton.jit
def spilling(x, y, N: tl.constexpr):
    value = tl.load(x + tl.arange(0, N))
    total = tl.sum(value)
    tl.store(y + tl.arange(0, N), value * total)


@triton.jit
def refused(x, N: tl.constexpr):
    total = 0
    for _ in range(4):
        total = total + tl.sum(tl.load(x + tl.arange(0, N)))
    tl.store(x, total)


@triton.jit
def copied(x, y, n, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    value = tl.load(x + at, mask=at < n, other=0)
    tl.atomic_add(y + at, value, mask=at < n)


POINTERS = {"x": "*fp32:16", "y": "*fp32:16"}
QUESTIONS = {
    "copied": Request(
        HERE + "copied", {**POINTERS, "n": "i32:16", "N": "constexpr"}, {"N": 1024}
    ),
    "refused": Request(HERE + "refused", {"x": "*fp32", "N": "constexpr"}, {"N": 64}),
    "spilling": Request(
        HERE + "spilling", {**POINTERS, "N": "constexpr"}, {"N": 4096}, num_warps=1, maxnreg=64
    ),
    "unaligned": Request(
        HERE + "copied", {"x": "*bf16", "y": "*fp32", "n": "i32", "N": "constexpr"}, {"N": 1024}
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def codes():
    return dict(zip(QUESTIONS, compiled_all(list(QUESTIONS.values())), strict=True))


def test_registers_loads_stores_and_atomics_are_read(codes):
    code = codes["copied"]
    assert code.registers > 8
    assert code.spill_bytes == 0
    assert code.load_bits == {128: 2}
    assert code.store_bits == {}
    assert code.atomics > 0
    assert ".visible .entry copied" in code.ptx


def test_narrow_loads_are_told_from_wide_ones(codes):
    assert codes["unaligned"].load_bits == {16: 8}


def test_spilled_registers_are_counted(codes):
    assert codes["spilling"].registers <= 64
    assert codes["spilling"].spill_bytes > 0


def test_what_only_the_interpreter_accepts_is_refused_and_stops_no_other(codes):
    """Here a sum that starts as an integer and becomes a float in the loop."""
    total = torch.zeros(64)
    refused[(1,)](total, 64)
    assert isinstance(codes["refused"], CompileError)
    assert "total" in str(codes["refused"])
    assert list(codes)[-1] == "unaligned" and codes["unaligned"].registers > 8


def test_one_kernel_is_compiled_or_refused():
    signature = {"x": "*fp32", "N": "constexpr"}
    with pytest.raises(CompileError, match="total"):
        compiled(refused, signature, {"N": 64}, target="sm_80", num_warps=1)


def test_this_process_interprets_and_says_that_it_cannot_compile():
    with pytest.raises(RuntimeError, match="cannot be compiled in this process"):
        compile_here(copied, Request("", {}))


def test_a_kernel_that_cannot_be_found_is_told():
    with pytest.raises(RuntimeError, match="has no attribute 'nothing'"):
        compiled("tests.benchmarks.test_ahead_of_time:nothing", {})


def test_the_request_of_a_launch_has_the_types_that_triton_would_find():
    x = torch.empty(48, 2000, dtype=torch.float16)[:, ::2]
    _, (launch,) = norm.plan_forward(x, None, x[0], None, 1e-5, rms=False)
    request = request_of(launch, "sm_80")
    assert request.kernel == "solutions.triton_kernels.fused.forward:norm_forward_kernel"
    assert request.target == "sm_80"
    assert list(request.signature) == list(forward.norm_forward_kernel.arg_names)
    expected = {
        "x": "*fp16:16", "residual": "constexpr", "weight": "*fp16:16", "rstd": "*fp32:16",
        "M": "i32", "D": "i32", "eps": "fp32", "x_row": "i32:16", "x_column": "i32",
        "WIDTH": "constexpr",
    }  # fmt: skip
    assert expected.items() <= request.signature.items()
    assert request.constexprs["WIDTH"] is None
    assert request.constexprs["BLOCK"] == 1024


def test_large_and_unit_strides_have_their_own_types():
    x = torch.empty(2, 8, device="meta").as_strided((2, 8), (2**31, 3))
    _, (launch,) = norm.plan_forward(x, None, None, None, 1e-5, rms=True)
    assert request_of(launch).signature["x_row"] == "i64:16"
    y = torch.empty(2, 7, device="meta", dtype=torch.float16)
    _, (launch,) = norm.plan_forward(y, None, None, None, 1e-5, rms=True)
    assert request_of(launch).signature["x_column"] == "constexpr"
    assert request_of(launch).constexprs["x_column"] == 1


def test_machine_code_that_is_none_is_not_taken_for_good():
    with pytest.raises(Exception, match="cuobjdump"):
        read(b"not a cubin", "", 0)


def test_the_command_prints_a_row_for_each_kernel(capsys, monkeypatch):
    few = [row for row in launches(64, "fp32") if row[0].startswith("Layer")]
    monkeypatch.setattr(catalogue, "launches", lambda *_: iter(few))
    assert main(["--widths", "64", "--dtype", "fp32", "--target", "sm_80"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("fp32, sm_80")
    rows = {line[:20].strip(): line.split() for line in lines[2:]}
    assert list(rows) == ["Layer forward", "Layer backward", "Layer backward (2)"]
    assert lines[2].split()[2:6] == ["64", "32", "x", "64"]
