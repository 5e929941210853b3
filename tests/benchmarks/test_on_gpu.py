"""`python -m tests.on_gpu`: what can be known of it without a GPU."""

from __future__ import annotations

import on_gpu
import pytest
import torch
from in_process import gradable

pytestmark = pytest.mark.skipif(
    "triton_kernels" not in gradable(), reason="Triton has packages for Linux only"
)


def test_without_a_gpu_it_says_so_in_one_line_and_exits_2(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert on_gpu.main(["triton_kernels"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert (
        printed.err.startswith("on_gpu: there is no CUDA GPU here") and "\n" not in printed.err[:-1]
    )


def only_row_sum(monkeypatch):
    """On the CPU in place of a GPU, the tests of the cheapest exercise, without 4 GiB."""
    collect = on_gpu_suites().collect
    monkeypatch.setattr(
        on_gpu_suites(), "collect",
        lambda folder: [t for t in collect(folder) if t.exercise == "row_sum"],
    )  # fmt: skip
    monkeypatch.setattr(on_gpu, "far_apart", torch.clone)


def on_gpu_suites():
    from autograder.testing import suite

    return suite


def test_a_right_function_passes_and_a_wrong_one_is_told_by_test_and_reason(monkeypatch):
    only_row_sum(monkeypatch)

    def right(x):
        return x.float().sum(-1)

    def wrong(x):
        return x.float().mean(-1)

    assert on_gpu.failures("triton_kernels", {"row_sum": right}, "cpu") == []
    found = on_gpu.failures("triton_kernels", {"row_sum": wrong}, "cpu")
    assert found[0].startswith("row_sum/test_one_sum_for_each_row: The result has the right shape")


def test_a_tensor_keeps_its_strides_on_the_way():
    wide = torch.arange(24.0).reshape(4, 6)
    for tensor in (wide, wide.t(), wide[:, 1:4], wide[::2, ::3], wide[:1].expand(3, 6)):
        there = on_gpu.moved(tensor, "cpu")
        assert torch.equal(there, tensor) and there.stride() == tensor.stride()
    assert on_gpu.moved([wide, (1, None)], "cpu")[1] == (1, None)


def test_what_a_function_does_to_its_inputs_is_seen():
    x = torch.ones(3)
    assert on_gpu.on_device(lambda t: t.mul_(2), "cpu")(x).tolist() == [2.0, 2.0, 2.0]
    assert x.tolist() == [2.0, 2.0, 2.0]
