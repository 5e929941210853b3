"""The hidden suite of `triton_kernels`: who gets no marks, what a mistake costs, what is said."""

from __future__ import annotations

import inspect
import sys

import by_hand
import nbformat
import pytest
import torch
from alternatives.triton_kernels import STYLES
from changed_kernels import NAME, POINTS, defined, outcome
from for_real import graded
from in_process import gradable, grade, load, outcomes, score
from torch.nn import functional as F

from autograder import release

if "triton_kernels" not in gradable():
    pytest.skip("Triton has packages for Linux only", allow_module_level=True)


def lost(results) -> set[str]:
    return {r.test for r in results if r.verdict != "pass"}


# -- the reference is torch's ----------------------------------------------------------------------


def test_the_references_agree_with_torch():
    load(NAME)
    import solutions.triton_kernels.triton_kernels as reference

    torch.manual_seed(0)
    x, residual = 3 + torch.randn(4, 11), torch.randn(4, 11)
    weight, bias, grad_out = torch.rand(11), torch.randn(11), torch.randn(4, 11)
    leaves = [t.clone().requires_grad_() for t in (x, weight, bias)]
    want = F.layer_norm(leaves[0], (11,), *leaves[1:], eps=0.1)
    y, mean, rstd = reference.layer_norm_forward(x, weight, bias, 0.1)
    torch.testing.assert_close(y, want.detach())
    grads = reference.layer_norm_backward(grad_out, x, weight, mean, rstd)
    torch.testing.assert_close(grads, torch.autograd.grad(want, leaves, grad_out))
    want = F.rms_norm(x, (11,), weight, eps=0.1)
    torch.testing.assert_close(reference.rms_norm_forward(x, weight, 0.1)[0], want)
    y, s, _, _ = reference.add_layer_norm(x, residual, weight, bias, 0.1)
    torch.testing.assert_close(y, F.layer_norm(x + residual, (11,), weight, bias, eps=0.1))
    assert torch.equal(s, x + residual)
    assert torch.equal(reference.row_sum(torch.ones(2, 3)), torch.full((2,), 3.0))


def test_the_fast_kernels_of_the_course_pass_the_hidden_tests_too():
    load(NAME)
    from solutions.triton_kernels import fused

    def backward(grad_out, x, weight, mean, rstd):
        dtype = torch.float32 if weight is None else weight.dtype
        return fused.layer_norm_backward(grad_out, x, weight, mean, rstd, bias_dtype=dtype)

    functions = {
        "layer_norm_forward": fused.layer_norm_forward,
        "layer_norm_backward": backward,
        "rms_norm_forward": fused.rms_norm_forward,
        "add_layer_norm": fused.add_layer_norm_forward,
    }
    results = grade(NAME, functions, recognise=False)
    assert [(r.exercise, r.test, r.message) for r in results if r.verdict != "pass"] == []


def test_without_triton_the_notebook_runs_and_says_in_a_line_what_is_left_out(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "triton", None)  # `import triton` raises ImportError
    space = {}
    for cell in nbformat.read(release.build_source(NAME), as_version=4).cells:
        if cell.cell_type == "code":
            exec(cell.source, space)
    first, *rest = capsys.readouterr().out.splitlines()
    assert first == "Triton is not installed (it exists for Linux only): nothing is checked here."
    assert rest == [f"Exercise {n}: not checked, without Triton." for n in range(1, 6)]


# -- no marks --------------------------------------------------------------------------------------

TRIVIAL = {
    "zeros": lambda t: torch.zeros_like(t),
    "the input": lambda t: t,
    "none": lambda t: None,
    "noise": lambda t: torch.randn(t.shape).to(t.dtype),
}


@pytest.mark.parametrize("trivial", TRIVIAL)
@pytest.mark.parametrize("exercise", POINTS)
def test_a_trivial_answer_in_the_right_form_gets_next_to_nothing(exercise, trivial):
    make = TRIVIAL[trivial]

    def answer(x, *rest):
        x = rest[0] if exercise == "layer_norm_backward" else x
        one = make(x)
        of_row = None if one is None else one.float().sum(-1)
        if exercise == "row_sum":
            return None if one is None else one[..., 0].float()
        if exercise == "layer_norm_backward":
            weight = rest[1]
            grads = None if weight is None else make(weight)
            return one, grads, make(x.float().reshape(-1, x.shape[-1])[:1].sum(0))
        return {
            "layer_norm_forward": (one, of_row, of_row),
            "rms_norm_forward": (one, of_row),
            "add_layer_norm": (one, one, of_row, of_row),
        }[exercise]

    assert score(grade(NAME, {exercise: answer}, recognise=False)) == 0


# -- kernels do the work ---------------------------------------------------------------------------

KERNEL = """
@triton.jit
def kernel(x_ptr, out_ptr, D, BLOCK: tl.constexpr):
    row, cols = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * D + cols, mask=cols < D, other=0.0).to(tl.float32)
    tl.store(out_ptr + row, tl.sum(x, axis=0))

def launch(run, x):
    rows = as_rows(x).contiguous()
    out = torch.empty(x.shape[:-1], dtype=torch.float32)
    run[(len(rows),)](rows, out, x.shape[-1], BLOCK=triton.next_power_of_2(x.shape[-1]))
    return out
"""
LAUNCHED = {
    "plainly": KERNEL + "def row_sum(x):\n    return launch(kernel, x)",
    "through a helper": KERNEL + "def go(x):\n    return launch(kernel, x)\n"
    "def row_sum(x):\n    return go(x)",
    "under another name": KERNEL + "start = kernel\ndef row_sum(x):\n    return launch(start, x)",
    "from an autograd function": KERNEL + "class Sum(torch.autograd.Function):\n"
    "    @staticmethod\n    def forward(ctx, x):\n        return launch(kernel, x)\n"
    "def row_sum(x):\n    return Sum.apply(x)",
    "with jit by its own name": "from triton import jit\n" + KERNEL.replace("triton.jit", "jit")
    + "def row_sum(x):\n    return launch(kernel, x)",
    "with numbers by NumPy": "import numpy as np\n" + KERNEL.replace(
        "len(rows)", "int(np.prod(x.shape[:-1]))"
    ) + "def row_sum(x):\n    return launch(kernel, x)",
}  # fmt: skip
X = torch.tensor([[1.5, 2.0], [3.0, 5.25], [-4.0, 0.5]])


@pytest.mark.parametrize("how", LAUNCHED)
def test_a_function_that_leads_to_a_kernel_is_left_alone(how):
    found = by_hand.outcome(NAME, "row_sum", LAUNCHED[how], X)
    assert found.quiet and torch.equal(found.value, X.sum(-1))


PLAIN = "def row_sum(x):\n    return (x.float() @ torch.ones(x.shape[-1])).reshape(x.shape[:-1])"
NEVER = "def row_sum(x):\n    if False:\n        kernel[(1,)](x, x)\n    return x.sum(-1)"


@pytest.mark.parametrize("source", [PLAIN, KERNEL + PLAIN, KERNEL + NEVER])
def test_a_function_that_leads_to_no_kernel_is_refused_what_it_computes(source):
    assert by_hand.outcome(NAME, "row_sum", source, X).refused


def called(body: str, exercise: str = "rms_norm_forward"):
    source = f"def {exercise}(x, weight, eps=1e-5, *more):\n    {body}\n"
    return by_hand.outcome(NAME, exercise, source, torch.ones(2, 2), torch.ones(2, 2))


@pytest.mark.parametrize(
    "body",
    [
        "return torch.nn.functional.rms_norm(x, x.shape[-1:], weight[0], eps)",
        "return x * torch.rsqrt(x.square() + eps)",
        "return x / x.norm(dim=-1, keepdim=True)",
        "return x.float().pow(2).sum(-1)",
        "return torch.einsum('md,md->m', x, x)",
        "import numpy\n    return torch.from_numpy(numpy.mean(x.numpy(), -1))",
        "return x @ weight",
        "x @= weight\n    return x",
        "return sum(x.unbind(-1))",
    ],
)
def test_operations_of_torch_that_do_a_kernels_work_are_refused(body):
    assert called(body).refused


@pytest.mark.parametrize(
    "body",
    [
        "import sys\n    return len(list(sys.modules.values()))",
        "import sys\n    return sys.modules['kernel_sanitizer.launch'].launches.clear()",
        "from kernel_sanitizer import launch\n    launch.launches.clear()",
    ],
)
def test_a_way_to_what_was_noted_about_kernels_is_shown_to_a_person(body):
    """Right results beside made-up counts once had full points."""
    assert called(body).shown


def test_conversions_copies_and_the_second_stage_are_allowed():
    assert called("y = torch.empty_like(x.contiguous())\n    return y.to(x.dtype)").quiet
    second = "partial = torch.empty(4, 8)\n    return partial.sum(dim=0), torch.sum(partial, 0)"
    assert called(second, "layer_norm_backward").quiet


# -- what a mistake costs --------------------------------------------------------------------------

THREE_SWEEPS = (
    "    y = centered * rstd\n",
    "    tl.debug_barrier()\n"
    "    again = x_ptr + row * x_stride + cols\n"
    "    var = tl.sum(tl.load(again, mask=mask, other=0.0).to(tl.float32) * centered, axis=0) / D\n"
    "    x = tl.load(again, mask=mask, other=0.0).to(tl.float32)\n"
    "    y = tl.where(mask, x - mean, 0.0) * tl.rsqrt(var + eps)\n",
)


def test_reading_x_three_times_costs_half_a_point():
    # x * (x - mean) sums to the variance too, at a mean that is not too large.
    results = outcome("layer_norm_forward", THREE_SWEEPS)
    assert {"test_x_is_read_once"} <= lost(results) <= {
        "test_x_is_read_once", "test_large_mean", "test_formula_to_the_last_digits", "test_eps",
        "test_half_types",
    }  # fmt: skip
    (said,) = [r.message for r in results if r.test == "test_x_is_read_once"]
    assert said.startswith("x is read more than once")


def test_rows_on_the_second_axis_of_the_grid_cost_the_test_of_the_grid():
    results = outcome("row_sum", ("program_id(0)", "program_id(1)"), ("[(M,)]", "[(1, M)]"))
    assert lost(results) == {"test_kernel_at_work"}
    (said,) = [r.message for r in results if r.verdict != "pass"]
    assert "65,535" in said


def test_atomics_cost_the_test_of_partial_buffers():
    results = outcome(
        "layer_norm_backward",
        ("tl.store(partial_weight_ptr + program * D", "tl.atomic_add(partial_weight_ptr"),
        ("tl.store(partial_bias_ptr + program * D", "tl.atomic_add(partial_bias_ptr"),
        ("torch.empty(programs, D,", "torch.zeros(1, D,"),
    )
    assert lost(results) == {"test_no_number_is_written_twice"}


def test_an_upcast_before_the_kernel_costs_the_tests_of_traffic():
    results = outcome("rms_norm_forward", ("as_rows(x)", "as_rows(x.float())"))
    assert lost(results) == {"test_x_is_read_once"}


def test_an_addition_by_torch_before_the_kernel_costs_what_is_about_it():
    results = outcome(
        "add_layer_norm",
        ("as_rows(x), as_rows(residual)", "as_rows(x + residual), as_rows(residual)"),
        ("    residual = tl.load(r_ptrs, mask=mask, other=0.0).to(tl.float32)\n", ""),
        ("s = x + residual", "s = x"),
    )
    assert lost(results) == {
        "test_statistics_see_the_sum_before_rounding", "test_half_types",
        "test_x_and_residual_are_read_once",
    }  # fmt: skip


@pytest.mark.parametrize("exercise", POINTS)
@pytest.mark.parametrize("lanes", [1024, 4096])
def test_a_block_of_a_fixed_size_is_met_by_a_row_that_is_longer(exercise, lanes):
    results = outcome(exercise, ("triton.next_power_of_2(D)", str(lanes)))
    assert lost(results) == {"test_any_width"}


def test_a_sum_over_rows_by_torch_costs_the_test_of_the_kernel():
    results = outcome(
        "layer_norm_backward",
        ("    tl.store(partial_bias_ptr + program * D + cols, grad_bias, mask=mask)\n", ""),
        ("partial_bias.sum(dim=0)", "g_rows.float().sum(dim=0)"),
    )
    assert lost(results) == {"test_kernel_at_work"}
    (said,) = [r.message for r in results if r.verdict != "pass"]
    assert said.startswith("Only part of the three gradients is made in kernels")


@pytest.mark.parametrize("exercise", ["layer_norm_forward", "add_layer_norm"])
def test_a_variance_that_cancels_is_asked_about_its_mean(exercise):
    row = "x" if exercise == "layer_norm_forward" else "s"
    results = outcome(
        exercise,
        (
            "tl.sum(centered * centered, axis=0) / D",
            f"tl.sum({row} * {row}, axis=0) / D - mean * mean",
        ),
    )
    said = {r.message for r in results if "is it subtracted before you square?" in r.message}
    assert said or "one-pass-variance" in {r.named for r in results}


def test_a_kernel_beside_work_done_by_torch_earns_no_test_of_traffic():
    def beside(x):
        launch(torch.ones(2))
        return (x.double() @ torch.ones(x.shape[-1]).double()).float()

    launch = defined("row_sum")
    assert lost(grade(NAME, {"row_sum": beside})) == {"test_kernel_at_work"}


# -- what a mistake is called ----------------------------------------------------------------------

ROUNDED = "centered * rstd).to(y_ptr.dtype.element_ty).to(tl.float32)"
CENTERED = "tl.where(mask, x - mean, 0.0)"
NAMED = [
    ("row_sum", "mean-instead-of-sum", ("tl.sum(x, axis=0)", "tl.sum(x, axis=0) / D")),
    ("row_sum", "mask-off-by-one", ("cols < D", "cols < D - 1")),
    ("row_sum", "same-row-in-every-program", ("row * x_stride + ", "")),
    ("row_sum", "one-program", ("[(M,)]", "[(min(M, 1),)]")),
    ("layer_norm_forward", "lanes-in-variance", (CENTERED, "x - mean")),
    ("layer_norm_forward", "divided-by-block", (", axis=0) / D", ", axis=0) / BLOCK")),
    ("layer_norm_forward", "unbiased-variance",
     ("centered, axis=0) / D", "centered, axis=0) / (D - 1)")),
    ("layer_norm_forward", "eps-outside-root",
     ("tl.rsqrt(var + eps)", "1 / (tl.sqrt(var) + eps)")),
    ("layer_norm_forward", "bias-needs-weight",
     ("if bias_ptr is not None:", "if bias_ptr is not None and weight_ptr is not None:")),
    ("layer_norm_forward", "stored-in-the-layout-of-x",
     ("torch.empty(x.shape, dtype=x.dtype, device=x.device)", "torch.empty_like(x)")),
    ("layer_norm_backward", "mean-term-missing", ("g_hat - mean_g -", "g_hat -")),
    ("layer_norm_backward", "x-hat-term-missing", (" - x_hat * mean_gx", "")),
    ("layer_norm_backward", "grad-weight-without-x-hat", ("+= g * x_hat", "+= g")),
    ("layer_norm_backward", "one-row-for-each-program",
     ("range(program, M, tl.num_programs(0))", "range(program, program + 1)")),
    ("layer_norm_backward", "partial-row-not-written",
     ("programs = min(M, 128)", "programs = 128"),
     ("    tl.store(partial_weight_ptr", "    if program >= M:\n        return\n"
      "    tl.store(partial_weight_ptr")),
    ("layer_norm_backward", "partial-sums-in-half",
     ("torch.empty(programs, D, dtype=torch.float32", "torch.empty(programs, D, dtype=x.dtype")),
    ("rms_norm_forward", "mean-subtracted",
     ("    mean_square =", "    x = tl.where(mask, x - tl.sum(x, axis=0) / D, 0.0)\n"
      "    mean_square =")),
    ("add_layer_norm", "statistics-of-the-rounded-sum",
     ("    mean = tl.sum(s", "    s = s.to(s_ptr.dtype.element_ty).to(tl.float32)\n"
      "    mean = tl.sum(s")),
    ("add_layer_norm", "lanes-in-variance", ("tl.where(mask, s - mean, 0.0)", "s - mean")),
    ("layer_norm_forward", "multiplied-out", ("y = centered * rstd", "y = x * rstd - mean * rstd")),
    ("add_layer_norm", "multiplied-out", ("y = centered * rstd", "y = s * rstd - mean * rstd")),
    ("layer_norm_backward", "multiplied-out", ("(x - mean) * rstd", "x * rstd - mean * rstd")),
    ("layer_norm_forward", "rounded-before-weight", ("y = centered * rstd", f"y = ({ROUNDED}")),
    ("add_layer_norm", "rounded-before-weight", ("y = centered * rstd", f"y = ({ROUNDED}")),
    ("rms_norm_forward", "rounded-before-weight",
     ("y = x * rstd", f"y = ({ROUNDED.replace('centered', 'x')}")),
    ("layer_norm_backward", "statistics-recomputed",
     ("mean = tl.load(mean_ptr + row)", "mean = tl.sum(x, axis=0) / D"),
     ("rstd = tl.load(rstd_ptr + row)",
      "var = tl.where(mask, x - mean, 0.0)\n"
      "        rstd = tl.rsqrt(tl.sum(var * var, axis=0) / D + 1e-5)")),
    ("add_layer_norm", "norm-of-x-alone", ("mean = tl.sum(s,", "mean = tl.sum(x,")),
]  # fmt: skip


@pytest.mark.parametrize(("exercise", "name", "changes"), [(e, n, c) for e, n, *c in NAMED],
                         ids=[f"{e}: {n}" for e, n, *_ in NAMED])  # fmt: skip
def test_a_mistake_in_a_kernel_is_called_by_its_name(exercise, name, changes):
    results = outcomes(NAME, {exercise: defined(exercise, *changes)})
    assert next(r.named for r in results if r.named) == name


# -- graded for real -------------------------------------------------------------------------------


def test_a_function_without_a_kernel_earns_nothing_though_it_is_right(tmp_path):
    right = (
        "def row_sum(x):\n    out = 0 * x[..., 0].double()\n    for k in range(x.shape[-1]):\n"
        "        out = out + x[..., k].double()\n    return out.float()\n"
    )
    exercises, result = graded(NAME, tmp_path, {"row_sum": right})
    assert exercises["row_sum"]["score"] == 0
    assert {(r["kind"], r["detail"]) for r in result["review"]} == {("operator-seen", "aten::mul")}
    said = {t["message"] for t in exercises["row_sum"]["tests"]}
    assert any("asks you to let kernels do all computing, and line 2" in m for m in said)


NEVER_RUN = """
_kernels = layer_norm_forward
def layer_norm_forward(x, weight, bias, eps):
    if x.shape[0] < 0:
        return _kernels(x, weight, bias, eps)
    h, D = x.float(), x.shape[-1]
    mean, var = 0 * h[..., 0], 0 * h[..., 0]
    for k in range(D):
        mean = mean + h[..., k] / D
    for k in range(D):
        var = var + (h[..., k] - mean) * (h[..., k] - mean) / D
    rstd = 1 / (var + eps) ** 0.5
    y = (h - mean[..., None]) * rstd[..., None]
    y = y if weight is None else y * weight
    return (y if bias is None else y + bias).to(x.dtype), mean, rstd
"""
BESIDE = """
@triton.jit
def _copy(x_ptr, y_ptr, D, BLOCK: tl.constexpr):
    row, cols = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * D + cols, mask=cols < D)
    tl.store(y_ptr + row * D + cols, x, mask=cols < D)

def row_sum(x):
    rows = as_rows(x).contiguous()
    spare, out = torch.empty_like(rows), torch.zeros(x.shape[:-1])
    _copy[(len(rows),)](rows, spare, x.shape[-1], BLOCK=triton.next_power_of_2(x.shape[-1]))
    for column in spare.float().unbind(-1):
        out = out.add(column.reshape(out.shape))
    return out
"""
INSIDE = """
@triton.jit
def _beside(x_ptr, out_ptr, D, ROWS: tl.constexpr, OUT: tl.constexpr, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    tl.load(x_ptr + cols, mask=cols < D, other=0.0)
    if tl.program_id(0) == 0:
        for k in range(D):
            OUT += ROWS[:, k]

def row_sum(x):
    rows = as_rows(x)
    out = torch.zeros(rows.shape[0])
    block = triton.next_power_of_2(rows.shape[1])
    _beside[(len(rows),)](rows, out, rows.shape[1], ROWS=rows.float(), OUT=out, BLOCK=block)
    return out.reshape(x.shape[:-1])
"""
BY_HAND = {"layer_norm_forward": NEVER_RUN, "row_sum": BESIDE, "row_sum ": INSIDE}


@pytest.mark.parametrize("which", BY_HAND)
def test_right_numbers_from_beside_a_kernel_earn_nothing(tmp_path, which):
    name = which.strip()
    source = release.solution_cells(NAME)[name] + BY_HAND[which]
    exercises, result = graded(NAME, tmp_path, {name: source})
    assert exercises[name]["score"] == 0
    assert "operator-seen" in {r["kind"] for r in result["review"] if r["exercise"] == name}
    said = {t["message"] for t in exercises[name]["tests"]}
    assert any("let kernels do all computing, and line " in m for m in said), said


@pytest.mark.parametrize("style", STYLES)
def test_a_right_solution_in_another_style_gets_full_marks_in_the_sandbox(tmp_path, style):
    """Nothing in it is refused, and every launch is counted as it should be."""
    source = inspect.getsource(inspect.getmodule(STYLES[style]["row_sum"]))
    sources = {name: "" for name in POINTS} | {"row_sum": source}
    exercises, result = graded(NAME, tmp_path, sources)
    assert {name: e["score"] for name, e in exercises.items()} == POINTS
    assert result["review"] == []
