"""Work of the library earns nothing in silence; everyday code around own work loses nothing.

Notebooks that were graded wrongly once, graded as a class is: with sandbox and worker.
"""

from __future__ import annotations

import re

import pytest
from for_real import graded
from in_process import gradable

from autograder import release

FUNCTIONAL = "import torch.nn.functional as F\n"


# -- by the library --------------------------------------------------------------------------------

NEVER_RUNS = {
    # The first definition would be the one that counts, and the last is the one that is read.
    "layer_norm": """
def layer_norm(x, weight, bias, eps):
    half = x.dtype in (torch.float16, torch.bfloat16)
    a = [t.float() for t in (x, weight, bias)] if half else [x, weight, bias]
    return F.layer_norm(a[0], (x.shape[-1],), a[1], a[2], eps).to(x.dtype)


assert not callable(layer_norm)


def layer_norm(x, weight, bias, eps):
    return x
""",
    "LayerNorm": """
class LayerNorm(nn.LayerNorm):
    def __init__(self, d, eps=1e-5):
        super().__init__(d, eps=eps)

    def forward(self, x):
        return super().forward(x.to(self.weight.dtype)).to(x.dtype)


try:
    0 / 0

    class LayerNorm(nn.Module):
        pass
except ZeroDivisionError:
    pass
""",
}
TORCHS_PYTHON = {
    "layer_norm": """
import torch._refs

def layer_norm(x, weight, bias, eps):
    return torch._refs.native_layer_norm(x, x.shape[-1:], weight, bias, eps)[0].to(x.dtype)
""",
    "LayerNorm": """
import torch._decomp.decompositions as parts

class LayerNorm(nn.Module):
    def __init__(self, d, eps=1e-5):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(d)), nn.Parameter(torch.zeros(d))
        self.eps = eps

    def forward(self, x):
        rows = x.reshape(1, -1, x.shape[-1])
        y = parts.native_batch_norm(rows, None, None, None, None, True, 0.0, self.eps)[0]
        return (y.reshape(x.shape) * self.weight + self.bias).to(x.dtype)
""",
    # A gradient by autograd on the line of a call that is refused for another reason.
    "layer_norm_backward": """
from torch.autograd import grad

def layer_norm_backward(grad_out, x, weight, eps):
    leaves = [t.detach().clone().requires_grad_() for t in (x, weight, torch.zeros_like(weight))]
    return grad(F.layer_norm(leaves[0], x.shape[-1:], *leaves[1:], eps), leaves, grad_out)
""",
}
BASE_CLASS = """
def two_pass_var(x):
    h = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    return torch._C.TensorBase.var(h, -1, correction=0)
"""
BOTH_AT_ONCE = """
def welford(x):
    h = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    for _ in range(1):
        mean = torch.nn.UninitializedParameter.sum(h, -1) / h.shape[-1]
        both = mean, torch._C.TensorBase.var(h, -1, correction=0)
    return both
"""
AN_ARRAYS = """
def two_pass_var(x):
    h = x.detach().double().numpy()
    return torch.from_numpy(h.var(-1)).to(x.dtype if x.dtype.itemsize > 2 else torch.float32)
"""
ITS_MATHEMATICS = """
def attention(q, k, v, key_padding_mask=None):
    mask = None if key_padding_mask is None else ~key_padding_mask[:, None, None]
    return torch._scaled_dot_product_attention_math(q, k, v, mask)[0]
"""
BY_THE_LIBRARY = {
    "a definition behind a failed assert": ("layernorm", NEVER_RUNS, FUNCTIONAL),
    "torch's own Python": ("layernorm", TORCHS_PYTHON, FUNCTIONAL),
    "the base class": ("precision", {"two_pass_var": BASE_CLASS, "welford": BOTH_AT_ONCE}, ""),
    "an array's method": ("precision", {"two_pass_var": AN_ARRAYS}, ""),
    "attention's mathematics": ("attention", {"attention": ITS_MATHEMATICS}, ""),
}


@pytest.mark.parametrize("how", BY_THE_LIBRARY)
def test_what_the_library_has_done_earns_nothing_in_silence(tmp_path, how):
    assignment, cells, first = BY_THE_LIBRARY[how]
    exercises, result = graded(
        assignment, tmp_path, release.solution_cells(assignment) | cells, first
    )
    shown = {entry["exercise"] for entry in result["review"]}
    # An exercise that calls an earlier one of the learner's reaches what that one reaches.
    reaching = set(exercises) if assignment == "attention" else set(cells)
    for name, exercise in exercises.items():
        if name in reaching:
            assert exercise["score"] == 0 or name in shown
        else:
            assert (exercise["score"], name in shown) == (exercise["max_score"], False)


# -- by hand ---------------------------------------------------------------------------------------

EVERYDAY = """
import functools
import operator
import pdb
import sys

IN_COLAB = "google.colab" in sys.modules

def layer_norm(x, weight, bias, eps):
    count = functools.reduce(operator.mul, x.shape[:-1], 1)
    wide = torch.float64 if x.dtype == torch.float64 else getattr(torch, f"float{32}")
    rows = x.to(wide).reshape(count, x.shape[-1])
    centered = rows - rows.mean(-1, keepdim=True)
    y = centered * torch.rsqrt(centered.square().mean(-1, keepdim=True) + eps)
    return (y.reshape(x.shape) * weight + bias).to(x.dtype)

print(layer_norm(torch.ones(2, 3), 1, 0, 1e-5) - F.layer_norm(torch.ones(2, 3), (3,)))
"""
COMPARED = """
    def check(self, x):
        return F.layer_norm(x, x.shape[-1:], self.weight, self.bias) - self(x)


nn.LayerNorm = LayerNorm
"""
HELPER = """
def update(state, value):
    delta = value - state.mean
    mean = state.mean + delta / (state.count + 1)
    return Running(state.count + 1, mean, state.m2 + delta * (value - mean))

def welford(x):
    h = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    s = Running(0, torch.zeros_like(h[..., 0]), torch.zeros_like(h[..., 0]))
    for value in h.unbind(-1):
        s = update(s, value)
    return s.mean, s.m2 / s.count
"""
FIELDS = "    count: int\n    mean: torch.Tensor\n    m2: torch.Tensor\n"
DATACLASS = "from dataclasses import dataclass\n@dataclass\nclass Running:\n" + FIELDS
NAMED_TUPLE = "from typing import NamedTuple\nclass Running(NamedTuple):\n" + FIELDS
ROWS = "M, D = int(np.prod(x.shape[:-1])), x.shape[-1]"


def by_hand() -> dict[str, tuple[str, dict[str, str], str]]:
    everyday = {
        "layer_norm": EVERYDAY,
        "LayerNorm": release.solution_cells("layernorm")["LayerNorm"] + COMPARED,
    }
    notebooks = {
        "everyday lines": ("layernorm", everyday, FUNCTIONAL),
        "a dataclass": ("precision", {"welford": DATACLASS + HELPER}, ""),
        "a named tuple": ("precision", {"welford": NAMED_TUPLE + HELPER}, ""),
    }
    if "triton_kernels" in gradable():
        cells = {
            name: re.sub(r"M, D = \w+\.shape", ROWS, source)
            for name, source in release.solution_cells("triton_kernels").items()
        }
        assert all("np.prod" in source for source in cells.values())
        notebooks["a product of a shape"] = ("triton_kernels", cells, "import numpy as np\n")
    return notebooks


@pytest.mark.parametrize("how", BY_HAND := by_hand())
def test_everyday_code_around_own_work_has_full_marks_and_no_entry(tmp_path, how):
    assignment, cells, first = BY_HAND[how]
    _, result = graded(assignment, tmp_path, release.solution_cells(assignment) | cells, first)
    lost = [
        (t["name"], t["message"])
        for e in result["exercises"]
        for t in e["tests"]
        if t["verdict"] != "pass"
    ]
    assert (lost, result["review"]) == ([], [])
