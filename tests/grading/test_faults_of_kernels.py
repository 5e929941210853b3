"""Faults of learners' kernels in these exercises: told in a sentence, and the rest is graded."""

from __future__ import annotations

import pytest
from changed_kernels import NAME, POINTS, changed, defined
from for_real import graded
from in_process import gradable, load, outcomes

from autograder import release

if NAME not in gradable():
    pytest.skip("Triton has packages for Linux only", allow_module_level=True)

LOAD = "tl.load(x_ptr + row * x_stride + cols, mask=mask, other=0.0)"
# The eleven memory errors that crash the bare interpreter or give garbage without a word, as they
# come about in these exercises; the race; and what else a GPU would not forgive.
FAULTS = {
    "a load without a mask": (
        "row_sum", [(LOAD, "tl.load(x_ptr + row * x_stride + cols)")], "past the end of `x_ptr`",
    ),
    "a load far past the end": (
        "row_sum", [("row * x_stride", "(row + 65536) * x_stride")], "past the end of `x_ptr`",
    ),
    "a load a gigabyte past the end": (
        "row_sum", [("row * x_stride", "row * x_stride + 268435456")], "past the end of `x_ptr`",
    ),
    "a load before the start": (
        "row_sum", [("row * x_stride + cols", "row * x_stride - 1000000 + cols")],
        "before the start of `x_ptr`",
    ),
    "a row stride times 1024": (
        "rms_norm_forward", [("row * x_stride", "row * x_stride * 1024")],
        "past the end of `x_ptr`",
    ),
    "a store without a mask": (
        "rms_norm_forward", [("tl.store(y_ptr + row * D + cols, y, mask=mask)",
                              "tl.store(y_ptr + row * D + cols, y)")], "`y_ptr`",
    ),
    "a store far past the end": (
        "rms_norm_forward", [("y_ptr + row * D", "y_ptr + (row + 16384) * D")],
        "past the end of `y_ptr`",
    ),
    "a store a gigabyte past the end": (
        "rms_norm_forward", [("y_ptr + row * D", "y_ptr + 268435456 + row * D")],
        "past the end of `y_ptr`",
    ),
    "an atomic past the end": (
        "layer_norm_backward", [("tl.store(partial_bias_ptr + program * D",
                                 "tl.atomic_add(partial_bias_ptr + (program + 70000) * D")],
        "past the end of `partial_bias_ptr`",
    ),
    "a padded row stride": (
        "add_layer_norm", [("row * residual_stride", "row * BLOCK")],
        "`residual_ptr`",
    ),
    "a strided view read as contiguous": (
        "layer_norm_forward", [("row * x_stride", "row * D")], "between the elements of `x_ptr`",
    ),
    "more programs than partial rows": (
        "layer_norm_backward", [("[(programs,)]", "[(programs + 1,)]")],
        "past the end of `partial_weight_ptr`",
    ),
    "a race": (
        "layer_norm_backward",
        [("tl.store(partial_bias_ptr + program * D + cols, grad_bias, mask=mask)",
          "old = tl.load(partial_bias_ptr + cols, mask=mask, other=0.0)\n"
          "    tl.store(partial_bias_ptr + cols, old + grad_bias, mask=mask)"),
         ("torch.empty(programs, D,", "torch.zeros(programs, D,")],
        "this is a race",
    ),
    "a 32-bit offset": (
        "add_layer_norm", [("tl.program_id(0).to(tl.int64)", "tl.program_id(0)")], "32-bit",
    ),
    "a masked load without other": (
        "row_sum", [("mask=mask, other=0.0", "mask=mask")], "`other=",
    ),
    "bfloat16 that was not widened": (
        "row_sum", [("other=0.0).to(tl.float32)", "other=0.0)")], "done in bfloat16",
    ),
}  # fmt: skip


# Memory errors, the race, offsets of 32 bits: what the bare interpreter hides, or dies of.
CRASHING = [*FAULTS][:14]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_a_kernel_is_told_in_a_sentence(fault):
    exercise, changes, part = FAULTS[fault]
    results = outcomes(NAME, {exercise: defined(exercise, *changes)}, recognise=False)
    assert part in next(r.message for r in results if r.verdict == "error")


@pytest.fixture(scope="module")
def handed_in(tmp_path_factory):
    """Notebooks with one fault in each exercise, graded for real: fault -> its exercise."""
    left, found = {fault: FAULTS[fault] for fault in CRASHING}, {}
    while left:
        sources, faults = release.solution_cells(NAME), {}
        for fault, (exercise, changes, _) in list(left.items()):
            if exercise not in faults.values():
                sources[exercise] = changed(exercise, *changes)
                faults[fault] = exercise
                del left[fault]
        exercises, _ = graded(NAME, tmp_path_factory.mktemp("faults"), sources)
        for fault, exercise in faults.items():
            found[fault] = exercises[exercise]
        whole = set(POINTS) - set(faults.values())
        assert {e: exercises[e]["score"] for e in whole} == {e: POINTS[e] for e in whole}
    return found


@pytest.mark.parametrize("fault", CRASHING)
def test_a_fault_in_the_sandbox_is_told_in_a_sentence_and_the_rest_is_graded(handed_in, fault):
    exercise, _, part = FAULTS[fault]
    tests = handed_in[fault]["tests"]
    assert len(tests) == sum(t.exercise == exercise for t in load(NAME).tests)
    told = [t["message"] for t in tests if t["verdict"] == "error"]
    assert any(part in message and "at line" in message for message in told), tests
