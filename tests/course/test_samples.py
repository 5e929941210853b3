"""The sample class is up to date, its right answers are right, and its wrong ones are wrong."""

import itertools
import subprocess
import sys

import pytest
import torch

from autograder import forbidden
from autograder.reading import submission
from autograder.testing.suite import ROOT
from samples.make import EXERCISES, EXPECTED, STUDENTS, SUBMITTED, differences

RELEASED = submission.released(ROOT / "exercises" / "layernorm" / "layernorm.ipynb")
STYLES = ("student01", "student02", "student03", "student04")
SHAPES = ((8,), (1,), (5, 7), (2, 3, 16), (2, 1, 4, 33), (4, 1))
DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
ROUNDING = {  # a few units in the last place of each dtype
    torch.float64: 1e-12, torch.float32: 2e-5, torch.bfloat16: 8e-3, torch.float16: 1e-3,
}  # fmt: skip


def read(student: str) -> submission.Submission:
    path, _ = submission.find_notebook(SUBMITTED / student / "layernorm", "layernorm")
    return submission.read(path, RELEASED)


def namespace(student: str) -> dict:
    """What the student's cells define. Only for harmless ones: this runs them here."""
    names: dict = {"__name__": "cells"}
    for cell in read(student).cells:
        exec(compile(cell.source, f"{student}, cell {cell.index}", "exec"), names)
    return names


def exact(x, weight, bias, eps, grad_out):
    """Output by the formula in float64, gradients by autograd.

    Not F.layer_norm: for one feature its weight gradient is not quite 0 (pytorch#188372).
    """
    leaves = [t.detach().double().requires_grad_() for t in (x, weight, bias)]
    centered = leaves[0] - leaves[0].mean(-1, keepdim=True)
    y = centered / (centered.square().mean(-1, keepdim=True) + eps).sqrt() * leaves[1] + leaves[2]
    return y, torch.autograd.grad(y, leaves, grad_out.double())


def close(got, want, dtype, scale=1.0):
    assert got.dtype == dtype and got.shape == want.shape
    largest = max(want.abs().max().item(), scale)
    assert (got.double() - want).abs().max().item() <= ROUNDING[dtype] * largest


def cases():
    generator = torch.Generator().manual_seed(3)
    for shape, dtype, eps in itertools.product(SHAPES, DTYPES, (10.0, 1e-5, 1e-12)):
        x = 3 + 2 * torch.randn(shape, generator=generator, dtype=torch.float64)
        weight = 0.5 + torch.rand(shape[-1], generator=generator, dtype=torch.float64)
        bias = torch.randn(shape[-1], generator=generator, dtype=torch.float64)
        grad = torch.randn(shape, generator=generator, dtype=torch.float64)
        yield tuple(t.to(dtype) for t in (x, weight, bias, grad)), eps


@pytest.mark.parametrize("student", STYLES)
def test_right_styles_agree_with_float64_for_every_rank_dtype_and_eps(student):
    names = namespace(student)
    for (x, weight, bias, grad), eps in cases():
        want, (want_x, want_w, want_b) = exact(x, weight, bias, eps, grad)
        before = [t.clone() for t in (x, weight, bias, grad)]
        close(names["layer_norm"](x, weight, bias, eps), want, x.dtype)
        got_x, got_w, got_b = names["layer_norm_backward"](grad, x, weight, eps)
        # where the terms cancel, as for one feature, the size of one term is the scale
        rstd = (x.double().var(-1, correction=0) + eps).rsqrt().max().item()
        close(got_x, want_x, x.dtype, (grad * weight).abs().max().item() * rstd)
        close(got_w, want_w, x.dtype)
        close(got_b, want_b, x.dtype)
        assert all(torch.equal(a, b) for a, b in zip(before, (x, weight, bias, grad), strict=True))


@pytest.mark.parametrize("student", STYLES)
def test_right_styles_take_strided_inputs_mixed_dtypes_and_extreme_numbers(student):
    layer_norm = namespace(student)["layer_norm"]
    wide = 5 + torch.randn(6, 4, 16, generator=torch.Generator().manual_seed(1))
    weight, bias = torch.rand(32)[::2] + 0.5, torch.rand(1).expand(16)
    grad = torch.zeros(())
    strided = (wide.transpose(0, 1), wide.permute(1, 0, 2)[:, ::2], wide[:, :1].expand(6, 9, 16))
    for x in strided:
        want, _ = exact(x, weight, bias, 1e-5, grad.expand(x.shape))
        close(layer_norm(x, weight, bias, 1e-5), want, torch.float32)
    x = (wide[0] * 5e3).half()  # squares leave float16
    want, _ = exact(x, weight, bias, 1e-5, grad.expand(x.shape))
    close(layer_norm(x, weight, bias, 1e-5), want, torch.float16)
    shifted = 1e4 + torch.randn(4, 16)
    want, _ = exact(shifted, weight, bias, 1e-5, grad.expand(4, 16))
    assert (layer_norm(shifted, weight, bias, 1e-5) - want).abs().max() < 0.01
    assert layer_norm(torch.full((3, 16), 2.0), weight, bias, 1e-12).allclose(bias)


@pytest.mark.parametrize("student", STYLES)
def test_right_modules_train_and_save_weight_and_bias(student):
    module = namespace(student)["LayerNorm"](6, 0.5)
    assert {n: tuple(p.shape) for n, p in module.named_parameters()} == {
        "weight": (6,),
        "bias": (6,),
    }
    assert list(module.state_dict()) in (["weight", "bias"], ["bias", "weight"])
    x, grad = torch.randn(3, 6), torch.randn(3, 6)
    y = module(x)
    want, (_, want_w, want_b) = exact(x, module.weight, module.bias, 0.5, grad)
    close(y, want, torch.float32)
    y.backward(grad)
    close(module.weight.grad, want_w, torch.float32)
    close(module.bias.grad, want_b, torch.float32)
    assert module(x.bfloat16()).dtype == torch.bfloat16


WRONG = {
    "student05": (torch.tensor([1.0, 2.0, 3.0, 6.0]), 1e-5),
    "student06": (torch.tensor([0.01, 0.02, 0.03, 0.06]), 1e-2),
    "student07": (torch.tensor([1.0, 2.0, 3.0, 6.0]), 1e-2),
    "student08": (torch.tensor([[1.0, 2.0, 4.0, 7.0], [3.0, 8.0, 1.0, 0.0]]), 1e-5),
    "student10": (torch.tensor([1.0, 2.0, 3.0, 6.0]), 1e-5),
    "student11": (10_000 + torch.tensor([1.0, 2.0, 3.0, 6.0]), 1e-5),
    "student12": (torch.tensor([-600.0, 600.0, 300.0, 0.0]).half(), 1e-5),
}


@pytest.mark.parametrize(("student", "inputs"), WRONG.items())
def test_wrong_answers_are_wrong_by_more_than_a_percent(student, inputs):
    x, eps = inputs
    weight, bias = torch.tensor([1.0, 2.0, 0.5, -1.0]), torch.tensor([0.5, 0.0, -0.5, 1.0])
    want, _ = exact(x, weight, bias, eps, torch.zeros(x.shape))
    got = namespace(student)["layer_norm"](x, weight.to(x.dtype), bias.to(x.dtype), eps)
    assert not ((got.double() - want).abs() <= 0.01).all()


@pytest.mark.parametrize("student", ["student13", "student14", "student15"])
def test_wrong_backward_passes_have_one_wrong_gradient(student):
    x, grad = torch.randn(5, 8), 1 + torch.randn(5, 8)
    weight = 0.5 + torch.rand(8)
    _, want = exact(x, weight, torch.zeros(8), 1e-5, grad)
    got = namespace(student)["layer_norm_backward"](grad, x, weight, 1e-5)
    right = [
        g.shape == w.shape and torch.allclose(g, w.float(), atol=1e-4)
        for g, w in zip(got, want, strict=True)
    ]
    assert right == ([True, False, True] if student == "student15" else [False, True, True])


def test_the_files_are_those_that_the_generator_makes():
    assert differences() == []


def test_the_generator_says_so_too():
    command = [sys.executable, "-m", "samples.make", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"{len(STUDENTS)} submissions are up to date\n")


@pytest.mark.parametrize("student", STUDENTS)
def test_each_submission_is_read_as_expected(student):
    expected = EXPECTED[student]
    if expected.outcome == "ungraded":
        with pytest.raises(submission.Unreadable, match=expected.reason):
            read(student)
        return
    assert len(expected.exercises) == len(EXERCISES)
    got = read(student)
    written = set(STUDENTS[student].cells)
    assert got.missing == [] and got.untouched == set(EXERCISES) - written
    assert [c.origin for c in got.cells].count("given") == 1


def test_only_the_student_who_looks_beneath_is_shown_to_a_person_before_anything_ran():
    found = {
        student: [f.detail for f in forbidden.find(read(student).cells, EXERCISES)]
        for student, expected in EXPECTED.items()
        if expected.outcome != "ungraded"
    }
    assert {"_getframe", "get_objects", "f_back", "f_locals"} <= set(found.pop("student33"))
    assert {student: hits for student, hits in found.items() if hits} == {}
