"""The fused norms take tensors as they lie in memory: any strides of x, residual and gradients.

`torch.autograd.gradcheck` feeds contiguous gradients only, so kernels that assume them pass it.
"""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton", reason="Triton has packages for Linux only")

from kernel_sanitizer import sanitizer
from solutions.triton_kernels import fused
from solutions.triton_kernels.fused import norm
from tests.fused_reference import NORMS, check, draw

ROWS, WIDTH = 5, 48


pytestmark = pytest.mark.usefixtures("sanitizer_for_all")


@pytest.fixture(autouse=True)
def _watched(sanitizer_for_all):
    with sanitizer.watching():
        yield


def _padded(t: torch.Tensor, before: int, after: int) -> torch.Tensor:
    wide = torch.full((t.shape[0], before + t.shape[1] + after), float("nan"), dtype=t.dtype)
    wide[:, before : before + t.shape[1]] = t
    return wide[:, before : before + t.shape[1]]


def _spread(t: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    wide = torch.full((t.shape[0] * rows, t.shape[1] * columns), float("nan"), dtype=t.dtype)
    wide[::rows, ::columns] = t
    return wide[::rows, ::columns]


LAYOUTS = {
    "column slice of a wider tensor": lambda t: _padded(t, 3, 5),
    "aligned column slice": lambda t: _padded(t, 16, 64),
    "every second column": lambda t: _spread(t, 1, 2),
    "every third row": lambda t: _spread(t, 3, 1),
    "transposed": lambda t: t.t().contiguous().t(),
    "one row for all": lambda t: t[:1].expand(t.shape),
    "one column for all": lambda t: t[:, :1].expand(t.shape),
    "one number for all": lambda t: t[:1, :1].expand(t.shape),
    "off by one element": lambda t: torch.cat([t.new_zeros(1), t.flatten()])[1:].view(t.shape),
}


# A row of equal numbers has no variance: layer norm has nothing to compare there but rounding.
FLAT = ("one column for all", "one number for all")


@pytest.mark.parametrize(
    ("kind", "name", "layout"),
    [
        (kind, name, layout)
        for kind in ("layer", "add rms")
        for name in ("x", "dy")
        for layout in LAYOUTS
        if (kind, name) != ("layer", "x") or layout not in FLAT
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_one_tensor_may_lie_in_any_way(name, kind, layout, dtype):
    """unslothai/unsloth#10617 (254 of 472 layouts were wrong), #10675; pytorch/pytorch#194719."""
    given = draw(ROWS, WIDTH, dtype)
    given[name] = LAYOUTS[layout](given[name])
    given[name + "_"] = given[name].clone()
    check(kind, given)
    assert torch.equal(given[name], given.pop(name + "_"))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", ["add layer", "add rms"])
def test_every_tensor_may_lie_in_its_own_way(kind, layout):
    """flash-attention#355, FlagOpen/FlagGems#1080: a stride of one tensor was used for another."""
    given = draw(ROWS, WIDTH)
    given["residual"] = LAYOUTS[layout](given["residual"])
    given["ds"] = LAYOUTS[layout](given["ds"])
    given["dy"] = LAYOUTS["column slice of a wider tensor"](given["dy"])
    check(kind, given)


def test_the_gradient_of_a_sum_arrives_expanded():
    """y.sum().backward() gives a gradient whose strides are all 0."""
    given = draw(ROWS, WIDTH)
    x, weight, bias = (given[n].requires_grad_() for n in ("x", "weight", "bias"))
    fused.layer_norm(x, weight, bias).sum().backward()
    assert torch.equal(bias.grad, torch.full((WIDTH,), float(ROWS)))
    assert x.grad.abs().max() < 10


def test_the_gradient_of_a_concatenation_arrives_with_a_row_pitch():
    """fla-org/flash-linear-attention#1139: torch.cat hands out slices of its gradient."""
    given = draw(ROWS, WIDTH)
    both = torch.randn(ROWS, 2 * WIDTH)
    x = given["x"].requires_grad_()
    y = fused.layer_norm(x, given["weight"], given["bias"])
    torch.cat([torch.zeros(ROWS, WIDTH), y], dim=1).backward(both)
    want = fused.layer_norm_backward(
        both[:, WIDTH:].contiguous(), x.detach(), given["weight"],
        *fused.layer_norm_forward(x.detach(), given["weight"], given["bias"])[1:],
    )  # fmt: skip
    assert torch.equal(x.grad, want[0])


@pytest.mark.parametrize("shape", [(WIDTH,), (2, 3, WIDTH), (2, 1, 3, WIDTH), (0, 3, WIDTH)])
@pytest.mark.parametrize("kind", NORMS)
def test_any_number_of_axes_is_rows(kind, shape):
    """FlagOpen/FlagGems#5392: backward took a 3-D input for a 2-D one."""
    rows = torch.Size(shape[:-1]).numel()
    given = draw(rows, WIDTH)
    flat = check(kind, given)
    shaped = {n: t.view(shape) if n not in ("weight", "bias") else t for n, t in given.items()}
    deep = check(kind, shaped)
    for name in flat:
        assert torch.equal(deep[name], flat[name].view(deep[name].shape))


@pytest.mark.parametrize("name", ["x", "dy"])
def test_axes_that_one_row_stride_cannot_describe_are_read_right(name):
    given = draw(6, WIDTH)
    shaped = {n: t.view(2, 3, WIDTH) if t.dim() == 2 else t for n, t in given.items()}
    shaped[name] = shaped[name].transpose(0, 1).contiguous().transpose(0, 1)
    check("layer", shaped)


def test_several_axes_are_normalized_together_by_flattening_them():
    """pytorch/pytorch#192016, #193016: normalized_shape (6, 129)."""
    x = torch.randn(3, 6, 129, generator=torch.Generator().manual_seed(2))
    got = fused.layer_norm(x.flatten(1)).view(x.shape)
    want = torch.nn.functional.layer_norm(x.double(), (6, 129)).float()
    torch.testing.assert_close(got, want, rtol=0, atol=1e-5)


def test_statistics_have_the_shape_of_the_rows():
    _, mean, rstd = fused.layer_norm_forward(torch.randn(2, 3, 8), None, None)
    assert mean.shape == rstd.shape == (2, 3)
    _, mean, rstd = fused.layer_norm_forward(torch.randn(8), None, None)
    assert mean.shape == rstd.shape == ()


@pytest.mark.parametrize("swapped", [False, True], ids=["rows far apart", "columns far apart"])
@pytest.mark.parametrize("kind", NORMS)
def test_offsets_past_32_bits_are_reached(kind, swapped, far_apart):
    """linkedin/Liger-Kernel#803, #1483, vllm-project/vllm#34842: row * stride in int32.

    The tensor lies in 4 GiB of which only a few pages are ever touched.
    """
    given = draw(3, 8 if not swapped else 3, torch.bfloat16)
    view = far_apart(given["x"].shape, swapped)
    view.copy_(given["x"])
    check(kind, given | {"x": view, "dy": view})


@pytest.fixture(scope="module")
def far_apart():
    buffer = torch.empty(2**31 + 16, dtype=torch.bfloat16)

    def view(shape, swapped):
        return buffer.as_strided(shape, (1, 2**30) if swapped else (2**30, 1))

    return view


def test_weights_may_be_strided_too():
    given = draw(ROWS, WIDTH)
    given["weight"] = torch.randn(2 * WIDTH)[::2]
    given["bias"] = torch.tensor(0.5).expand(WIDTH)
    check("layer", given)


@pytest.mark.parametrize("kind", NORMS)
def test_gradients_are_never_written_over(kind):
    """linkedin/Liger-Kernel#370, #1305, unslothai/unsloth#4550: dx was written over dy."""
    given = draw(ROWS, WIDTH)
    before = {name: tensor.clone() for name, tensor in given.items()}
    first, second = check(kind, given), check(kind, given)
    assert all(torch.equal(given[name], before[name]) for name in given)
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_rows_that_fit_one_stride_are_not_copied(monkeypatch):
    launched = []
    monkeypatch.setattr(norm, "plan_forward", lambda *a, **k: launched.append(a[0]) or 1 / 0)
    for x in (torch.randn(4, 3, 16), torch.randn(6, 32)[:, 5:20], torch.randn(16, 6).t()):
        with pytest.raises(ZeroDivisionError):
            fused.rms_norm_forward(x, None)
        assert launched[-1].data_ptr() == x.data_ptr()
