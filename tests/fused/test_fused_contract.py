"""What the fused norms promise besides values: bytes moved, gradients asked for, errors, tiles."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("triton", reason="Triton has packages for Linux only")

from bench.ahead_of_time import request_of
from kernel_sanitizer import sanitizer
from solutions.triton_kernels import fused
from solutions.triton_kernels.fused import norm
from solutions.triton_kernels.fused.catalogue import launches
from solutions.triton_kernels.fused.launch import REGISTERS, backward_tile
from tests.fused_reference import NORMS, draw, results

ROOT = Path(__file__).resolve().parents[2]
WIDTHS = (1, 7, 16, 100, 512, 1000, 1024, 2048, 4096, 8192)


pytestmark = pytest.mark.usefixtures("sanitizer_for_all")


def traffic(kind: str, rows: int, width: int, dtype: torch.dtype) -> dict[str, dict]:
    """What the launches of one forward and backward pass read and wrote, by kernel."""
    with sanitizer.watching():
        results(kind, draw(rows, width, dtype))
        return {launch["kernel"]: launch for launch in sanitizer.launches}


# Bytes


@pytest.mark.parametrize("width", [100, 1000, 4096])
@pytest.mark.parametrize("kind", NORMS)
def test_x_is_read_once_and_y_written_once(kind, width):
    seen = traffic(kind, 9, width, torch.bfloat16)["norm_forward_kernel"]
    once = {name: 9 * width * 2 for name in ("x", "y")}
    if kind.startswith("add"):
        once |= {name: 9 * width * 2 for name in ("residual", "s")}
    moved = {name: seen["reads"].get(name, 0) + seen["writes"].get(name, 0) for name in once}
    assert moved == once
    assert seen["writes"]["rstd"] == 9 * 4


@pytest.mark.parametrize("width", [100, 1000, 4096, 8192])
@pytest.mark.parametrize("kind", NORMS)
def test_backward_reads_x_and_dy_once_and_writes_dx_once(kind, width):
    seen = traffic(kind, 9, width, torch.bfloat16)["norm_backward_kernel"]
    once = {name: 9 * width * 2 for name in ("x", "dy", "dx")}
    if kind.startswith("add"):
        once["ds"] = 9 * width * 2
    moved = {name: seen["reads"].get(name, 0) + seen["writes"].get(name, 0) for name in once}
    assert moved == once


def test_the_buffer_of_partial_sums_does_not_grow_with_the_rows():
    few, many = (
        traffic("layer", rows, 40, torch.float32)["norm_backward_kernel"] for rows in (300, 900)
    )
    assert few["writes"]["dweight_parts"] == many["writes"]["dweight_parts"] == 3 * 40 * 4


def test_long_rows_are_read_twice_and_no_more():
    seen = traffic("layer", 2, 33_000, torch.float32)
    size = 2 * 33_000 * 4
    assert seen["wide_forward_kernel"]["reads"]["x"] == 2 * size
    assert seen["wide_backward_kernel"]["reads"]["x"] == 2 * size
    assert seen["wide_parts_kernel"]["reads"]["x"] == size
    assert seen["wide_backward_kernel"]["writes"]["dx"] == size


# Gradients


def test_both_summands_get_the_gradient_of_the_sum_and_share_no_memory():
    """Dao-AILab's and QuACK's (#53) prenorm: gradients into y, into s, and into both."""
    given = draw(4, 40)
    for into in ((1, 0), (0, 1), (1, 1)):
        x, residual = (
            given["x"].clone().requires_grad_(),
            given["residual"].clone().requires_grad_(),
        )
        y, s = fused.add_layer_norm(x, residual, given["weight"], given["bias"])
        parts = [y * given["dy"], s * given["ds"]]
        sum(part for part, wanted in zip(parts, into, strict=True) if wanted).sum().backward()
        exact = given["x"].double().add(given["residual"]).requires_grad_()
        want = torch.nn.functional.layer_norm(
            exact, (40,), given["weight"].double(), given["bias"].double()
        )
        loss = into[0] * (want * given["dy"]).sum() + into[1] * (exact * given["ds"]).sum()
        loss.backward()
        torch.testing.assert_close(x.grad.double(), exact.grad, rtol=1e-5, atol=1e-5)
        assert torch.equal(x.grad, residual.grad)
        x.grad.zero_()
        assert residual.grad.abs().max() > 0


def test_an_output_that_nobody_used_costs_no_kernel():
    x, residual = torch.randn(3, 8, requires_grad=True), torch.randn(3, 8)
    _, s = fused.add_rms_norm(x, residual)
    sanitizer.launches.clear()
    s.sum().backward()
    assert sanitizer.launches == []
    assert torch.equal(x.grad, torch.ones(3, 8))


def test_sums_over_rows_are_made_only_for_parameters_that_learn():
    given = draw(3, 40)
    for learns, kernels in ((True, 2), (False, 1)):
        x = given["x"].clone().requires_grad_()
        y = fused.layer_norm(x, given["weight"].requires_grad_(learns), given["bias"].detach())
        sanitizer.launches.clear()
        y.backward(given["dy"])
        assert len(sanitizer.launches) == kernels


def test_weights_learn_where_x_does_not():
    given = draw(3, 40)
    weight = given["weight"].requires_grad_()
    fused.rms_norm(given["x"], weight).backward(given["dy"])
    assert weight.grad.abs().max() > 0


def test_a_gradient_of_a_gradient_is_refused():
    x = torch.randn(3, 8, requires_grad=True)
    (first,) = torch.autograd.grad(fused.layer_norm(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


# Errors

BAD_FORWARD = {
    "x must be a tensor, not list": ([[1.0]], None, None),
    "x must be float32, float16 or bfloat16, not torch.float64": (
        torch.ones(2, 3, dtype=torch.float64), None, None,
    ),
    "x must be of shape (..., D) with D of at least 1, not ()": (torch.tensor(1.0), None, None),
    "x must be of shape (..., D) with D of at least 1, not (2, 0)": (torch.ones(2, 0), None, None),
    "weight must be of shape (3,), not (1, 3)": (torch.ones(2, 3), torch.ones(1, 3), None),
    "bias must be of shape (3,), not (2,)": (torch.ones(2, 3), None, torch.ones(2)),
    "bias must be float32, float16 or bfloat16, not torch.int64": (
        torch.ones(2, 3), None, torch.ones(3, dtype=torch.int64),
    ),
    "weight is on meta, but x is on cpu": (
        torch.ones(2, 3), torch.ones(3, device="meta"), None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("message", BAD_FORWARD)
def test_wrong_arguments_are_named(message):
    with pytest.raises((TypeError, ValueError)) as raised:
        fused.layer_norm(*BAD_FORWARD[message])
    assert str(raised.value) == message


def test_wrong_arguments_of_the_residual_add_are_named():
    x = torch.ones(2, 3)
    with pytest.raises(ValueError, match=r"residual must have x's shape \(2, 3\), not \(1, 3\)"):
        fused.add_layer_norm(x, x[:1])
    with pytest.raises(TypeError, match=r"residual must have x's dtype torch.float32"):
        fused.add_rms_norm(x, x.half())


def test_wrong_arguments_of_backward_are_named():
    x = torch.ones(2, 3)
    y, mean, rstd = fused.layer_norm_forward(x, None, None)
    with pytest.raises(ValueError, match="grad_out must have x's shape"):
        fused.layer_norm_backward(y[:1], x, None, mean, rstd)
    with pytest.raises(TypeError, match="rstd must be float32"):
        fused.layer_norm_backward(y, x, None, mean, rstd.half())
    with pytest.raises(ValueError, match=r"mean must be of shape \(2,\)"):
        fused.layer_norm_backward(y, x, None, mean[:, None], rstd)


def test_backward_without_a_weight_has_no_gradient_for_it():
    x = torch.randn(2, 3)
    y, mean, rstd = fused.layer_norm_forward(x, None, None)
    _, dweight, dbias = fused.layer_norm_backward(y, x, None, mean, rstd)
    assert dweight is None
    torch.testing.assert_close(dbias, y.sum(0))


# Without kernels

SCRIPT = """
import sys, warnings
{before}
import torch
from solutions.triton_kernels import fused
warnings.simplefilter("always")
with warnings.catch_warnings(record=True) as seen:
    x, r, w, b = (torch.randn(s, requires_grad=True) for s in ((2, 3, 8), (2, 3, 8), (8,), (8,)))
    y, s = fused.add_layer_norm(x, r, w, b)
    z = fused.rms_norm(y, w) + s
    z.sum().backward()
    h = x.detach().half().requires_grad_()
    v = fused.layer_norm(h, w)
    v.sum().backward()
    assert v.dtype == h.grad.dtype == torch.float16 and w.grad.dtype == torch.float32
    w.grad -= torch.nn.functional.layer_norm(h.detach().float(), (8,)).sum((0, 1))
xd, rd, wd, bd = (t.detach().double().requires_grad_() for t in (x, r, w, b))
sd = xd + rd
yd = torch.nn.functional.layer_norm(sd, (8,), wd, bd)
zd = torch.nn.functional.rms_norm(yd, (8,), wd, 1e-6) + sd
zd.sum().backward()
torch.testing.assert_close(z.double(), zd, rtol=1e-5, atol=1e-5)
for got, want in [(x, xd), (r, rd), (w, wd), (b, bd)]:
    torch.testing.assert_close(got.grad.double(), want.grad, rtol=1e-5, atol=1e-5)
print([str(w.message) for w in seen if w.category is RuntimeWarning])
"""


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ("sys.modules['triton'] = None", "Triton is not installed"),
        ("", "tensors are on cpu, and TRITON_INTERPRET=1 was not set"),
    ],
    ids=["without Triton", "with tensors on the CPU"],
)
def test_plain_torch_takes_over_and_says_so_once(before, said):
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(before=before)],
        cwd=ROOT, env=environment | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("fused norms run in plain torch") == 1
    assert said in done.stdout


# Choices


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("rms", [False, True])
def test_all_programs_of_the_persistent_kernel_fit_on_the_multiprocessor_at_once(width, rms):
    tile = backward_tile(width, rms)
    limit = tile.registers or 255
    assert tile.programs * tile.warps * 32 * limit <= REGISTERS
    assert tile.programs <= 32


@pytest.mark.parametrize("width", WIDTHS)
def test_kernels_are_not_compiled_anew_for_another_number_of_rows(width):
    """linkedin/Liger-Kernel#988: the number of rows was a constant of the kernel."""
    for dtype in ("bf16", "fp32"):
        kinds = {
            tuple(request_of(launch) for _, _, launch in launches(width, dtype, rows=rows))
            for rows in (1, 2, 16, 100, 65_536)
        }
        assert len({str(kind) for kind in kinds}) == 1


def test_rows_without_an_even_width_share_kernels():
    """A kernel compiled for each odd D would be no faster, and slow to get."""
    one, other = (
        [request_of(launch) for _, _, launch in launches(width, "bf16")] for width in (1001, 1003)
    )
    assert [str(r) for r in one] == [str(r) for r in other]


def test_a_launch_goes_to_the_device_of_its_tensors(monkeypatch):
    """NVIDIA/apex#1022, linkedin/Liger-Kernel#1304: the current device is another one."""
    entered = []

    class Device:
        def __init__(self, device):
            entered.append(device)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

    class Elsewhere(torch.Tensor):
        device = torch.device("cuda", 1)

    class Kernel:
        def __getitem__(self, grid):
            return lambda **_: entered.append(grid)

    monkeypatch.setattr(torch.cuda, "device", Device)
    _, (launch,) = norm.plan_forward(torch.ones(2, 3), None, None, None, 1e-5, rms=True)
    arguments = {"x": torch.ones(2, 3).as_subclass(Elsewhere)}
    type(launch)(Kernel(), (2,), arguments, launch.tile).run()
    assert entered == [torch.device("cuda", 1), (2,)]


def test_no_line_of_the_fast_kernels_is_in_what_learners_get():
    def code(text: str) -> set[str]:
        lines = (line.strip() for line in text.splitlines())
        return {line for line in lines if len(line) > 30 and not line.startswith(("#", '"'))}

    fast: set[str] = set()
    for name in ("forward", "backward", "wide"):
        fast |= code((ROOT / f"solutions/triton_kernels/fused/{name}.py").read_text())
    assert len(fast) > 100
    for path in (ROOT / "exercises").rglob("*.ipynb"):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        released = "\n".join("".join(cell["source"]) for cell in cells)
        assert "triton_kernels.fused" not in released, path.name
        assert not fast & code(released), path.name
    assert not list((ROOT / "exercises").rglob("fused"))
