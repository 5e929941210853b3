"""The GPU benchmark, gone through on a CPU: all of it but the clock and the card."""

from __future__ import annotations

import json
import math

import pytest
import torch

pytest.importorskip("triton", reason="Triton has packages for Linux only")

from bench import gpu, gpu_cases, gpu_checks, gpu_figure

LINES = 2 * 2 * 2 * 2  # norms, directions, dtypes, widths of a dry run


@pytest.fixture(scope="module")
def dry(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dry")
    code = gpu.main(["--dry", "--folder", str(folder)])
    return code, folder, json.loads((folder / "gpu.json").read_text())


def test_without_a_gpu_it_says_so_in_one_line(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv("TRITON_INTERPRET", "1")  # which a run for a GPU takes away
    assert gpu.main(["--folder", str(tmp_path)]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and "no CUDA GPU" in said.err
    assert list(tmp_path.iterdir()) == []


def test_a_run_checks_times_and_records_everything(dry):
    code, _, record = dry
    assert code == 0
    assert record["complete"] and record["dry"] and not record["skipped"]
    assert len(record["rows"]) == LINES
    assert all(check["right"] and check["why"] is None for check in record["checks"])
    assert len(record["checks"]) > LINES // 2 + 6
    assert record["versions"]["torch"] == torch.__version__
    for row in record["rows"]:
        assert {"ours", "torch", "compile", "copy"} <= row["ms"].keys()
        assert row["failed"] == {}
        assert row["units"] == {"forward": 2, "backward": 3}[row["direction"]]


def test_a_run_draws_a_figure(dry):
    _, folder, record = dry
    assert (folder / "gpu.svg").read_text().count("<svg") == 1
    axes = gpu_figure.draw(record).axes
    assert [ax.get_title() for ax in axes] == [
        "LayerNorm, forward, bf16", "RMSNorm, forward, bf16",
        "LayerNorm, backward, bf16", "RMSNorm, backward, bf16",
    ]  # fmt: skip
    ours = next(line for line in axes[0].lines if line.get_label() == "fused")
    assert list(ours.get_xdata()) == [16, 40] and list(ours.get_ydata()) == [100, 100]


def test_what_is_timed_is_what_is_called(dry):
    """A backward pass gives all gradients, a forward pass y; the copy moves as many bytes."""
    for case in gpu_cases.cases((16,), 2000):
        given = gpu_cases.tensors(case, "cpu")
        out = gpu_cases.work(case, gpu_cases.torchs(case.norm), given)()
        if case.direction == "forward":
            assert out.shape == (case.rows, 16)
        else:
            assert len(out) == (3 if case.norm == "LayerNorm" else 2)
        copied = gpu_cases.copy(case, "cpu")()
        moved = 2 * copied.numel() * copied.itemsize
        assert moved == case.units * case.rows * 16 * gpu_cases.DTYPES[case.dtype].itemsize


def test_real_cases_are_those_of_the_bars_on_large_tensors():
    cases = list(gpu_cases.cases(gpu_cases.WIDTHS, gpu.TENSOR_BYTES))
    assert len(cases) == 7 * 2 * 2 * 2
    assert all(c.rows * c.width * gpu_cases.DTYPES[c.dtype].itemsize >= 256 * 2**20 for c in cases)
    assert cases[0].dtype == "bf16" and cases[-1].dtype == "fp32"
    bars = {(c.direction, c.width): c.bar for c in cases}
    assert [bars["forward", w] for w in gpu_cases.WIDTHS] == [0.85, 0.85] + [0.95] * 5
    assert [bars["backward", w] for w in gpu_cases.WIDTHS] == [None] + [0.9] * 4 + [None] * 2


@pytest.mark.parametrize(
    ("times", "held", "faster"),
    [
        ({"ours": 1.0, "copy": 0.96}, True, []),
        ({"ours": 1.0, "copy": 0.94}, False, []),
        ({"ours": 1.0, "copy": 0.96, "compile": 0.97}, False, ["compile"]),
        ({"ours": 1.0, "copy": 0.96, "liger": 0.99, "torch": 3.0}, True, []),
        ({"ours": 1.0, "copy": 0.96, "liger": 0.5, "torch": 0.9}, False, ["torch", "liger"]),
    ],
)
def test_a_bar_is_a_share_of_the_copy_and_nobody_faster(times, held, faster):
    found = gpu.judge(0.95, times)
    assert (found["held"], found["faster"]) == (held, faster)
    assert gpu.judge(None, times)["held"] is None


@pytest.fixture
def few_checks(monkeypatch):
    monkeypatch.setattr(gpu_checks, "checks", lambda *_, **__: [])


def test_no_case_is_started_when_the_time_is_up(tmp_path, few_checks, capsys):
    assert gpu.main(["--dry", "--seconds", "0", "--folder", str(tmp_path)]) == 1
    record = json.loads((tmp_path / "gpu.json").read_text())
    assert record["rows"] == [] and len(record["skipped"]) == LINES
    assert not record["complete"]
    assert "out of time: 16 cases were not started" in capsys.readouterr().out


def test_a_wrong_kernel_is_not_timed(tmp_path, few_checks, monkeypatch, capsys):
    right = gpu_cases.ours
    monkeypatch.setattr(gpu_cases, "ours", lambda norm: lambda x, w, b: right(norm)(x, w, b) * 1.01)
    assert gpu.main(["--dry", "--folder", str(tmp_path)]) == 1
    record = json.loads((tmp_path / "gpu.json").read_text())
    assert record["rows"] == []
    assert sum(not check["right"] for check in record["checks"]) == LINES // 2
    assert "wrong: LayerNorm bf16 D=16" in capsys.readouterr().out


def test_a_kernel_that_fails_is_a_wrong_one(tmp_path, few_checks, monkeypatch):
    def broken(norm):
        raise MemoryError("no room")

    monkeypatch.setattr(gpu_cases, "ours", broken)
    assert gpu.main(["--dry", "--folder", str(tmp_path)]) == 1
    failed = json.loads((tmp_path / "gpu.json").read_text())["checks"][0]
    assert failed["why"] == "MemoryError: no room" and failed["error"] == "inf"


def test_a_contender_that_fails_is_noted_and_the_others_are_timed(
    tmp_path, few_checks, monkeypatch
):
    def none(norm, backend):
        def fail(*_):
            raise RuntimeError("no compiler")

        return fail

    monkeypatch.setattr(gpu_cases, "compiled", none)
    monkeypatch.setattr(
        gpu_cases, "cases", lambda *_: [gpu_cases.Case("RMSNorm", "forward", "bf16", 16, 4)]
    )
    assert gpu.main(["--dry", "--folder", str(tmp_path)]) == 0
    (row,) = json.loads((tmp_path / "gpu.json").read_text())["rows"]
    assert row["failed"] == {"compile": "RuntimeError: no compiler"}
    assert row["ms"].keys() == {"ours", "torch", "copy"}


def test_a_nan_is_not_a_small_error():
    case = gpu_cases.Case("RMSNorm", "forward", "fp32", 16, 4)
    bad = gpu_cases.distance(case, lambda x, w, b: x * w * float("nan"), "cpu", 3)
    assert math.isinf(bad)


def test_a_recorded_run_was_made_on_a_card():
    if gpu_figure.RECORD.is_file():
        record = json.loads(gpu_figure.RECORD.read_text())
        assert not record["dry"] and record["card"] and record["rows"]
        assert all(check["right"] for check in record["checks"])
