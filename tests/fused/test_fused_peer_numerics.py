"""The cases of a peer's own tests: widths, rows, dtypes, eps and tolerances of QuACK.

Taken as facts from tests/test_layernorm.py (57f46d5) and tests/test_rmsnorm.py (05bce72) of
Dao-AILab/quack, kernels for the same GPUs; the tests are our own, against float64. Every run has a
part of the grid, `pytest -m soak tests/fused/test_fused_peer_numerics.py` all that the interpreter
can do in reasonable time: rows cost it milliseconds each, so 199 and 8192 rows meet short rows
only. Not taken: a bias for RMSNorm (ours has none), torch.compile, what they refuse and we accept.
The kernel sanitizer is on: it rounds to bfloat16 as a GPU does; the plain interpreter truncates.
"""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton", reason="Triton has packages for Linux only")

from kernel_sanitizer import launch
from solutions.triton_kernels import fused

BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
LAYER_WIDTHS = (256, 512, 760, 1024, 1128, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144)
RMS_WIDTHS = (192, *LAYER_WIDTHS)
EPS = (1e-5, 1e-6)
LAYER_CLOSE = {BF16: 1e-2, FP16: 1e-3, FP32: 1e-4}  # absolute and relative; gradients 4 times it
RMS_CLOSE = {BF16: 1e-1, FP16: 1e-2, FP32: 1e-4}  # absolute, with 1e-3 relative


pytestmark = pytest.mark.usefixtures("sanitizer_for_all")


@pytest.fixture(autouse=True)
def _patience(monkeypatch):
    monkeypatch.setattr(launch, "MOST_SECONDS", 3600.0)


def _seeded(*shape: int, dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def _close(got: torch.Tensor, want: torch.Tensor, atol: float, rtol: float) -> None:
    torch.testing.assert_close(got.double(), want, atol=atol, rtol=rtol)


def _exact(t: torch.Tensor) -> torch.Tensor:
    return t.detach().double().requires_grad_()


def _spacing(t: torch.Tensor, dtype: torch.dtype) -> float:
    """QuACK's bound for a weight's gradient in a low precision: twice what adding 0.3 loses."""
    rounded = t.to(dtype)
    return 2 * ((rounded + 0.3 - 0.3) - rounded).abs().max().item()


def layer_case(rows: int, width: int, dtype: torch.dtype, eps: float) -> None:
    x = _seeded(rows, width, dtype=dtype).requires_grad_()
    weight = _seeded(width, dtype=FP32, seed=1).requires_grad_()
    y = fused.layer_norm(x, weight, None, eps)
    xe, we = _exact(x), _exact(weight)
    want = torch.nn.functional.layer_norm(xe, (width,), we, None, eps)
    close = LAYER_CLOSE[dtype]
    assert y.dtype == dtype
    _close(y, want, close, close)
    if width > 63 * 1024 and dtype == FP32:  # QuACK stops here
        return
    grad = _seeded(rows, width, dtype=dtype, seed=2)
    y.backward(grad)
    want.backward(grad.double())
    _close(x.grad, xe.grad, 4 * close, 4 * close)
    _close(weight.grad, we.grad, 4 * close, 4 * close)


def rms_case(
    rows: int, width: int, dtype: torch.dtype, weight_dtype: torch.dtype | None, eps: float
) -> None:
    x = _seeded(rows, width, dtype=dtype).requires_grad_()
    weight = None
    if weight_dtype is not None:
        weight = _seeded(width, dtype=weight_dtype, seed=1).requires_grad_()
    y = fused.rms_norm(x, weight, eps)
    xe, we = _exact(x), None if weight is None else _exact(weight)
    want = torch.nn.functional.rms_norm(xe, (width,), we, eps)
    assert y.dtype == dtype
    _close(y, want, RMS_CLOSE[dtype], 1e-3)
    if width > 128 * 1024 and dtype == FP32:  # QuACK stops here
        return
    grad = _seeded(rows, width, dtype=dtype, seed=2)
    y.backward(grad)
    want.backward(grad.double())
    _close(x.grad, xe.grad, RMS_CLOSE[dtype], 1e-3)
    if weight is not None:
        bound = 1e-4 if weight_dtype == FP32 else _spacing(we.grad, weight_dtype)
        # Theirs is a gradient in the weight's dtype too: half a unit of 1 is more than the bound.
        _close(weight.grad, we.grad.to(weight_dtype).double(), bound, 1e-3)


# A part of the grid: each width, dtype and eps at least once.
LAYER_SOME = [
    (1, 256, BF16, 1e-5), (37, 512, FP32, 1e-6), (37, 760, FP16, 1e-5), (1, 1024, FP32, 1e-6),
    (37, 1128, BF16, 1e-6), (1, 2048, FP16, 1e-6), (1, 4096, FP32, 1e-5), (1, 8192, BF16, 1e-5),
    (1, 16384, FP16, 1e-5), (1, 32768, FP32, 1e-6), (1, 65536, BF16, 1e-6), (1, 131072, FP32, 1e-5),
]  # fmt: skip
RMS_SOME = [
    (37, 192, BF16, BF16, 1e-5), (199, 256, FP32, None, 1e-6), (37, 512, FP16, FP32, 1e-5),
    (37, 760, FP32, FP32, 1e-6), (1, 1024, BF16, FP16, 1e-5), (37, 1128, FP16, FP16, 1e-6),
    (1, 2048, FP32, BF16, 1e-5), (1, 4096, BF16, None, 1e-6), (1, 8192, FP32, FP16, 1e-5),
    (1, 16384, BF16, FP32, 1e-5), (1, 32768, FP16, BF16, 1e-6), (1, 65536, FP32, FP32, 1e-5),
    (1, 131072, BF16, BF16, 1e-6),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "width", "dtype", "eps"), LAYER_SOME)
def test_layer_norm_passes_its_cases(rows, width, dtype, eps):
    layer_case(rows, width, dtype, eps)


@pytest.mark.parametrize(("rows", "width", "dtype", "weight_dtype", "eps"), RMS_SOME)
def test_rms_norm_passes_its_cases(rows, width, dtype, weight_dtype, eps):
    rms_case(rows, width, dtype, weight_dtype, eps)


@pytest.mark.soak
@pytest.mark.parametrize("width", LAYER_WIDTHS)
def test_layer_norm_passes_the_whole_grid(width):
    for rows in (1, 37):
        for dtype in LAYER_CLOSE:
            for eps in EPS:
                layer_case(rows, width, dtype, eps)


@pytest.mark.soak
@pytest.mark.parametrize("width", RMS_WIDTHS)
def test_rms_norm_passes_the_grid_as_far_as_rows_are_affordable(width):
    for rows in (1, 37, 199, 8192):
        if rows * width > 37 * 262144 or (rows == 8192 and width > 256):
            continue
        for dtype in RMS_CLOSE:
            for weight_dtype in (BF16, FP16, FP32, None):
                for eps in EPS:
                    rms_case(rows, width, dtype, weight_dtype, eps)


def test_the_part_of_the_grid_has_each_width_dtype_and_eps():
    assert {case[1] for case in LAYER_SOME} == set(LAYER_WIDTHS[:-1])
    assert {case[1] for case in RMS_SOME} == set(RMS_WIDTHS[:-1])
    for some in (LAYER_SOME, RMS_SOME):
        assert {case[2] for case in some} == set(LAYER_CLOSE)
        assert {case[-1] for case in some} == set(EPS)
    assert {case[3] for case in RMS_SOME} == {BF16, FP16, FP32, None}


def test_rows_of_512_out_of_576_are_normalized_in_three_dimensions():
    x = _seeded(2, 20, 576, dtype=BF16)[:, :, :512].detach().requires_grad_()
    weight = _seeded(512, dtype=FP32, seed=1).requires_grad_()
    y = fused.rms_norm(x, weight, 1e-5)
    xe, we = _exact(x), _exact(weight)
    want = torch.nn.functional.rms_norm(xe, (512,), we, 1e-5)
    grad = _seeded(2, 20, 512, dtype=BF16, seed=2)
    y.backward(grad)
    want.backward(grad.double())
    _close(y, want, 1e-1, 1e-3)
    _close(x.grad, xe.grad, 1e-1, 1e-3)
    _close(weight.grad, we.grad, 1e-1, 1e-3)


@pytest.mark.parametrize("into", ["output", "residual", "both"])
def test_a_residual_passes_with_gradients_into_each_output(into):
    x, residual = (_seeded(32, 1024, dtype=FP16, seed=s).requires_grad_() for s in (0, 1))
    weight = _seeded(1024, dtype=FP32, seed=2).requires_grad_()
    y, s = fused.add_rms_norm(x, residual, weight, 1e-6)
    xe, re, we = _exact(x), _exact(residual), _exact(weight)
    se = xe + re
    want = torch.nn.functional.rms_norm(se, (1024,), we, 1e-6)
    _close(y, want, 1e-2, 1e-3)
    _close(s, se, 1e-2, 1e-3)
    grad = _seeded(32, 1024, dtype=FP16, seed=3)
    got = {"output": y, "residual": s, "both": y + s}[into]
    exact = {"output": want, "residual": se, "both": want + se}[into]
    got.backward(grad)
    exact.backward(grad.double())
    _close(x.grad, xe.grad, 1e-2, 1e-3)
    _close(residual.grad, re.grad, 1e-2, 1e-3)
    if into != "residual":
        _close(weight.grad, we.grad, 1e-2, 1e-3)


def test_a_gradient_may_have_another_dtype_than_x():
    """As under autocast: x and the weight in float32, the gradient in bfloat16."""
    x, weight = _seeded(64, 1024, dtype=FP32), _seeded(1024, dtype=FP32, seed=1)
    grad = _seeded(64, 1024, dtype=BF16, seed=2)
    _, rstd = fused.rms_norm_forward(x, weight, 1e-6)
    dx, dweight = fused.rms_norm_backward(grad, x, weight, rstd)
    assert dx.dtype == dweight.dtype == FP32
    xe, we = _exact(x), _exact(weight)
    torch.nn.functional.rms_norm(xe, (1024,), we, 1e-6).backward(grad.double())
    _close(dx, xe.grad, 1e-4, 1e-3)
    _close(dweight, we.grad, 1e-4, 1e-3)
