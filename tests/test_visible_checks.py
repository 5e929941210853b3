"""The checks that learners see pass for a right answer and say what is wrong with another."""

import contextlib
import io
import re

import nbformat
import pytest

from autograder import release

ASSIGNMENTS = release.assignments()

# exercise: {mistake: (text of the solution, text that replaces it, part of the message)}
MISTAKES = {
    "layer_norm": {
        "unbiased variance": (
            "centered.square().mean(dim=-1, keepdim=True)",
            "x.var(dim=-1, keepdim=True)",
            "divided by D, not D - 1",
        ),
        "eps outside the root": (
            "torch.rsqrt(var + eps)",
            "1 / (var.sqrt() + eps)",
            "eps inside the square root",
        ),
        "eps ignored": ("var + eps", "var + 1e-5", "eps inside the square root"),
        "batch axis": ("dim=-1", "dim=0", "over the last dimension"),
        "all axes": ("mean(dim=-1, keepdim=True)", "mean()", "over the last dimension"),
        "no affine": ("x_hat * weight + bias", "x_hat", "normalized * weight + bias"),
        "affine first": (
            "centered = x - x.mean",
            "x = x * weight + bias\n    centered = x - x.mean",
            "normalized * weight + bias",
        ),
        "input changed": (
            "centered = x - x.mean(dim=-1, keepdim=True)",
            "centered = x.sub_(x.mean(dim=-1, keepdim=True))",
            "changed its input",
        ),
        "result always float32": (".to(dtype)", ".float()", "the result must be too"),
        "no float32 for half types": ("torch.bfloat16):", ") and False:", "in float32?"),
        "nothing returned": ("return (", "y = (", "returned None"),
    },
    "LayerNorm": {
        "weight starts as zeros": ("torch.ones(d", "torch.zeros(d", "weight must start as ones"),
        "bias starts as ones": ("torch.zeros(d", "torch.ones(d", "bias must start as zeros"),
        "not registered": ("nn.Parameter(torch.ones(d_model))", "torch.ones(d_model)", "register"),
        "scalar weight": ("torch.ones(d_model)", "torch.ones(1)", "of shape (d_model,)"),
        "eps ignored": ("self.eps)", "1e-5)", "Is eps used?"),
        "parameters not used": (
            "self.weight, self.bias, self.eps",
            "torch.ones_like(self.weight), torch.zeros_like(self.bias), self.eps",
            "after loading other parameters",
        ),
        "parameters not trained": (
            "self.weight, self.bias",
            "self.weight.data, self.bias.data",
            "no gradient can reach",
        ),
        "another name": ("self.weight", "self.gamma", "weight and bias"),
        "float32 result": ("return layer_norm(x,", "return layer_norm(x.float(),", "bfloat16"),
    },
    "layer_norm_backward": {
        "no mean term": ("g_hat - mean_g - x_hat", "g_hat - x_hat", "must be"),
        "no x_hat term": (" - x_hat * mean_gx)", ")", "must be"),
        "weight after the means": (
            "g_hat = grad_out * weight",
            "g_hat, rstd = grad_out, rstd * weight",
            "adding a constant",
        ),
        "weight forgotten": (
            "g_hat = grad_out * weight",
            "g_hat = grad_out",
            "weight applied before",
        ),
        "unbiased variance": (
            "centered.square().mean(dim=-1, keepdim=True)",
            "x.var(dim=-1, keepdim=True)",
            "must be",
        ),
        "eps outside the root": (
            "rstd = torch.rsqrt(centered.square().mean(dim=-1, keepdim=True) + eps)",
            "rstd = 1 / (centered.square().mean(dim=-1, keepdim=True).sqrt() + eps)",
            "eps inside the root",
        ),
        "weight gradient without x_hat": ("(grad_out * x_hat)", "grad_out", "grad_weight is wrong"),
        "weight gradient with the weight": (
            "(grad_out * x_hat)",
            "(grad_out * weight * x_hat)",
            "grad_weight is wrong",
        ),
        "bias gradient not reduced": (
            "grad_out.reshape(-1, d).sum(dim=0)",
            "grad_out.sum(dim=0)",
            "grad_bias must have shape",
        ),
        "bias gradient a scalar": ("grad_out.reshape(-1, d).sum(dim=0)", "grad_out.sum()", "shape"),
        "upstream gradient changed": ("grad_out * weight", "grad_out.mul_(weight)", "grad_out"),
        "wrong order": ("return grad_x.to(x_dtype), ", "return ", "three tensors"),
    },
}
CASES = [(exercise, mistake) for exercise in MISTAKES for mistake in MISTAKES[exercise]]


def notebook(name):
    return nbformat.read(release.build_source(name), as_version=4)


def solved(name):
    """A fresh namespace in which the solution cells of the notebook have run, but no check."""
    space = {}
    for cell in notebook(name).cells:
        if cell.cell_type == "code" and not cell.metadata.get("nbgrader", {}).get("grade"):
            exec(cell.source, space)
    return space


def check_of(name, exercise):
    cells = {
        c.metadata.nbgrader.grade_id: c for c in notebook(name).cells if "nbgrader" in c.metadata
    }
    return cells[f"test_{exercise}"].source


@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_all_cells_of_the_solution_notebook_run_in_order_and_say_so(name, capsys):
    space = {}
    for cell in notebook(name).cells:
        if cell.cell_type == "code":
            exec(cell.source, space)
    said = capsys.readouterr().out.splitlines()
    count = len(release.points(name))
    assert said == [f"Exercise {n}: the visible checks pass." for n in range(1, count + 1)]


@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_every_check_says_not_implemented_for_an_untouched_stub(name):
    for exercise in release.points(name):
        space = solved(name)
        exec(release.stub(name, exercise), space)
        with pytest.raises(NotImplementedError):
            exec(check_of(name, exercise), space)


@pytest.mark.parametrize("exercise, mistake", CASES, ids=[f"{e}: {m}" for e, m in CASES])
def test_a_classic_mistake_fails_the_check_with_a_message_about_it(exercise, mistake):
    right, wrong, message = MISTAKES[exercise][mistake]
    source = release.solution_cells("layernorm")[exercise]
    assert right in source, "the mistake no longer applies to the solution"
    space = solved("layernorm")
    exec(source.replace(right, wrong), space)
    with pytest.raises(AssertionError) as caught:
        exec(check_of("layernorm", exercise), space)
    assert message in str(caught.value)


def test_every_exercise_of_layernorm_is_tried_with_at_least_three_mistakes():
    assert set(MISTAKES) == set(release.points("layernorm"))
    assert min(len(mistakes) for mistakes in MISTAKES.values()) >= 3


@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_the_expected_output_shown_is_what_the_solution_prints(name):
    """Down to the zero that may print as -0.0000 and the name of grad_fn, as the text says."""
    shown = [
        re.search(
            r"Expected output</summary>.*?```python\n(.*?)```.*?```\n(.*?)```", c.source, re.S
        )
        for c in notebook(name).cells
        if c.cell_type == "markdown" and c.source.startswith("## Exercise")
    ]
    assert len(shown) == len(release.points(name)) and all(shown)
    for code, expected in (match.groups() for match in shown):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, solved(name))
        plain = [re.sub(r"-0\.(0*)\b", r" 0.\1", text) for text in (printed.getvalue(), expected)]
        assert plain[0] == plain[1]
