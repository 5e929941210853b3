"""The page on fused kernels: its wrong kernels are caught, and it builds without Triton."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from book import kernel_cells

PAGE = Path(__file__).resolve().parents[2] / "book" / "triton-kernels.md"
needs_triton = pytest.mark.skipif(
    not kernel_cells.triton_is_here(), reason="triton has wheels for Linux only"
)


@needs_triton
@pytest.mark.parametrize(
    ("wrong", "arguments", "kind"),
    [
        ("no_mask", "x y D", "out-of-bounds"),
        ("no_mask_in_the_store", "x y D eps", "race"),
        ("no_other", "x y D eps", "poison"),
        ("int32_offsets", "far y row D eps", "int32-overflow"),
        ("no_upcast", "x16 y16 D", "bf16-arithmetic"),
        ("racing", "x grad r dw D", "race"),
    ],
)
def test_the_sanitizer_names_the_mistake_of_each_wrong_kernel(sanitizer, wrong, arguments, kind):
    from book.experiments import wrong_rows

    x, y, grad = torch.randn(3, 3, 1000)
    untouched = torch.empty(2**31 + 1000, dtype=torch.int8)
    values = {
        "x": x[:1] if wrong == "no_mask" else x, "y": y[:1] if wrong == "no_mask" else y,
        "grad": grad, "r": torch.ones(3), "dw": torch.zeros(1000), "D": 1000, "eps": 1e-6,
        "far": untouched.as_strided((3, 1000), (2**30, 1)), "row": 2**30,
        "x16": x.bfloat16(), "y16": y.bfloat16(),
    }  # fmt: skip
    chosen = [values[name] for name in arguments.split()]
    with pytest.raises(sanitizer.KernelFault) as caught, sanitizer.watching():
        getattr(wrong_rows, wrong)[(1 if wrong == "no_mask" else 3,)](*chosen, BLOCK=1024)
    assert caught.value.fault.kind == kind


@needs_triton
def test_a_row_too_wide_spills_and_a_ragged_one_is_loaded_number_by_number():
    from book.experiments import compiled_rows

    found = compiled_rows.answers(
        {
            "fits": compiled_rows.forward(4096),
            "too wide": compiled_rows.forward(65536),
            "1000": compiled_rows.forward(1000),
            "1001": compiled_rows.forward(1001),
            "1000 at launch": compiled_rows.forward(1000, "i32"),
        }
    )
    assert found["fits"].spill_bytes == 0 < found["too wide"].spill_bytes
    assert set(found["fits"].load_bits) == set(found["1000"].load_bits) == {128}
    assert set(found["1001"].load_bits) == set(found["1000 at launch"].load_bits) == {16}


def test_the_page_says_so_where_triton_is_absent():
    marked = [f"{kernel_cells.MARK}\n", "unit_rows.step_1[(1,)](x)\n"]
    assert kernel_cells.without_triton(marked) == [f"print({kernel_cells.SENTENCE!r})\n"]
    plain = ["x = 1\n"]
    assert kernel_cells.without_triton(plain) == plain


def cells() -> list[str]:
    """The source of each code cell, with its options."""
    parts = PAGE.read_text(encoding="utf-8").split("```{code-cell} ipython3\n")[1:]
    return [part.split("\n```\n")[0] for part in parts]


def test_every_cell_that_runs_triton_is_marked():
    bodies = cells()
    users = ("unit_rows", "wrong_rows", "triton.", "sanitizer.", "told(", "compiled")
    first = next(n for n, body in enumerate(bodies) if "kernel_cells.prepare()" in body)
    for body in bodies[first + 1 :]:
        text = body.split("\n\n", 1)[1] if body.startswith(":tags:") else body
        if any(name in body for name in users):
            assert text.startswith(kernel_cells.MARK), text[:200]


def test_the_sections_that_faults_link_to_exist():
    from kernel_sanitizer.fault import WHERE, Fault

    page = PAGE.read_text(encoding="utf-8")
    for kind, places in WHERE.items():
        for where in places:
            file, _, anchor = Fault(kind=kind, where=where).link.partition("#")
            assert file == "triton-kernels.html" and f"({anchor})=\n" in page


def test_a_record_of_a_gpu_is_drawn_when_there_is_one(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(PAGE.parent))
    import figures

    shown = {}
    monkeypatch.setattr(figures, "show", lambda *plots, **texts: shown.update(texts, plots=plots))
    rows = [
        {"norm": "LayerNorm", "direction": direction, "dtype": "bf16", "width": width, "bar": 0.95}
        | {"ms": {"copy": 0.9, "ours": 1.0, "torch": 2.0}}
        for direction in ("forward", "backward")
        for width in (1024, 2048)
    ]
    record = tmp_path / "gpu.json"
    record.write_text(json.dumps({"card": "a card", "date": "2026-11-29", "rows": rows}))
    (cell,) = (body for body in cells() if "gpu.json" in body)
    source = cell.split("\n\n", 1)[1].replace("../bench/results/gpu.json", str(record))
    exec(source, {"figures": figures})
    assert len(shown["plots"]) == 2 and "a card" in shown["caption"]
    assert all("90 to 90 percent" in text for text in shown["alt"])
