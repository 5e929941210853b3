"""Casts that cut the graph: gradients in half types are looked at wherever they are asked for.

A solution whose casts copy the numbers without their graph, as `torch.tensor(x, dtype=...)` does,
is right in every value and trains nothing in bfloat16.
"""

from __future__ import annotations

import re

import mutants
import pytest
from in_process import gradable, grade, load, score

from autograder import release

# exercise: what its points for gradients in bfloat16 are
LOST = {
    "layernorm": {"layer_norm": 0.25, "LayerNorm": 0.25},
    "rmsnorm": {
        "rms_norm": 0.25, "RMSNorm": 0.25, "partial_rms_norm": 0.25, "scale_norm": 0.25,
        "ada_norm": 0.25, "AdaLayerNorm": 0.25, "DynamicTanh": 0.25,
    },
    "batchnorm": {"batch_norm": 0.25, "BatchNorm": 0.25},
    "family": {
        "normalize": 0.25, "instance_norm": 0.25, "group_norm": 0.25, "standardize_weight": 0.25,
        "SwitchableNorm2d": 0.25,
    },
    "attention": {"attention": 0.25, "MultiHeadAttention": 0.25},
    "sequences": {"masked_mean_var": 0.25, "masked_batch_norm": 0.25},
    "precision": {"two_pass_var": 0.25, "layer_norm_low_precision": 0.25},
}  # fmt: skip
EXERCISES = [(assignment, name) for assignment, names in LOST.items() for name in names]


def detached(assignment: str, exercise: str) -> dict[str, object]:
    """The reference with casts of half types that cut the graph, in every function of the file."""
    path = mutants.ROOT / "solutions" / assignment / f"{assignment}.py"
    source = path.read_text(encoding="utf-8").replace(".float()", ".detach().float()")
    if exercise == "layer_norm_low_precision":  # it casts a float32 x by the same line
        source = source.replace(
            "x = x.detach().float()",
            "x = x.float() if x.dtype == torch.float32 else x.detach().float()",
        )
    namespace = {"__name__": f"solutions.{assignment}.{assignment}"}
    exec(compile(source, str(path), "exec"), namespace)
    return {exercise: namespace[exercise]}


@pytest.mark.parametrize(("assignment", "exercise"), EXERCISES)
def test_a_cast_without_its_graph_costs_the_points_for_it_and_is_named(assignment, exercise):
    results = grade(assignment, detached(assignment, exercise))
    full = release.points(assignment)[exercise]
    assert full - score(results) == LOST[assignment][exercise]
    lost = {r.test: r.named for r in results if r.verdict != "pass"}
    assert set(lost.values()) == {"detached-in-half"}
    suite = load(assignment)
    (test,) = (t for t in suite.tests if t.exercise == exercise and t.name in lost)
    assert suite.plan(test, 1) is not None


@pytest.mark.parametrize("assignment", gradable())
def test_every_cast_of_a_solution_is_tried_without_its_graph_and_noticed(assignment):
    cut = re.compile(r"\.detach\(\)\.(float|double|to)\(")
    found = []
    for mutant in mutants.mutants(assignment):
        before, _, after = mutant.change.partition(" -> ")
        if len(cut.findall(after)) > len(cut.findall(before)):
            found.append(mutant)
    casts = {
        exercise: len(re.findall(r"\.(?:float|double)\(\)", source))
        for exercise, source in release.solution_cells(assignment).items()
        if assignment != "triton_kernels"
    }
    for exercise, least in casts.items():
        assert sum(m.exercise == exercise for m in found) >= least, exercise
    reasons = mutants.explained(assignment)
    assert [m.key for m in found if m.key not in reasons and mutants.survives(assignment, m)] == []
