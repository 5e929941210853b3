"""What is found in the host code of a notebook of `triton_kernels`."""

from __future__ import annotations

from functools import cache

from in_process import gradable

from autograder import forbidden, release, submission

NAME = "triton_kernels"
# A kernel that adds up rows, for functions around it.
KERNEL = """
@triton.jit
def k(x_ptr, out_ptr, stride, D, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + cols, mask=cols < D, other=0.0).to(tl.float32)
    tl.store(out_ptr + row, tl.sum(x, axis=0))
"""


def has_triton() -> bool:
    return NAME in gradable()


@cache
def released() -> submission.Released:
    return submission.released(release.ROOT / "exercises" / NAME / f"{NAME}.ipynb")


def cells_of(**sources: str) -> list[submission.Cell]:
    """The cells of a notebook: given ones as handed out, exercises solved but for `sources`."""
    solved = release.solution_cells(NAME) | sources
    return [
        submission.Cell(
            index=-1 if cell.kind == "given" else number,
            origin=cell.kind,
            grade_id=cell.grade_id,
            source=solved.get(cell.grade_id, cell.source),
        )
        for number, cell in enumerate(released().cells)
        if cell.kind in ("given", "solution")
    ]


def findings(**sources: str) -> list[forbidden.Finding]:
    """What is found in the host code of all exercises, with these cells."""
    cells = cells_of(**sources)
    stubs = [cell.source for cell in released().cells if cell.kind == "solution"]
    names = [cell.grade_id for cell in cells if cell.origin == "solution"]
    return forbidden.outside_kernels(cells, names, stubs)
