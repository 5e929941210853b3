"""What can be wrong with a Triton kernel, as facts from closed sets, and the sentence for it.

The kernel sanitizer (`sanitizer.py`) finds a fault beside the learner's code. Only facts cross to
the grader, where `kernel_reply` checks them and `explain` makes the sentence: what happened,
where, the likely cause, what to do. Nothing here imports triton; copied into the sandbox.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

MOST = 9_999  # larger numbers are not told: a number in a message must not carry an input out
LAUNCHES = 16  # so many are noted for one call

ACCESSES = ("load", "store", "atomic")
WHERE = {
    "out-of-bounds": (
        "past-the-end", "before-the-start", "between-rows", "outside-every-tensor", "empty-tensor",
    ),
    "race": ("load-after-store", "store-after-load", "store-after-store", "lanes", "atomic-mixed"),
    "poison": ("stored",),
    "int32-overflow": ("add", "sub", "mul"),
    "bf16-arithmetic": ("arithmetic", "reduction", "atomic"),
    "budget": ("memory-operations", "seconds"),
    "grid-limit": ("y", "z"),
    "no-device": ("launch",),
}  # fmt: skip
PAGE = "triton-kernels.html#"
_ANCHORS = {
    "race": "races", "poison": "masks", "int32-overflow": "int64-offsets",
    "bf16-arithmetic": "upcast", "budget": "interpreter", "no-device": "interpreter",
    "grid-limit": "one-program-per-row",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One fault of a kernel. Text is from the sets above, or a name in the learner's source.

    tensor: the kernel's parameter. line is not here: the exception's traceback has it.
    """

    kind: str
    where: str
    kernel: str = ""
    tensor: str = ""
    access: str = ""  # "load", "store", "atomic" or not said
    program: tuple[int, int, int] = (0, 0, 0)
    other: tuple[int, int, int] = (-1, -1, -1)  # the other program of a race, -1: not known
    count: int = 0  # elements of the access that lie outside
    lanes: int = 0  # elements that the access touches
    distance: int = 0  # elements from the tensor's end (or start) to the first one outside
    element: int = -1  # of the tensor, for a race

    def as_dict(self) -> dict[str, Any]:
        """As it is sent, with large numbers cut."""
        data = {f.name: getattr(self, f.name) for f in fields(self)}
        for name, value in data.items():
            if isinstance(value, tuple):
                data[name] = [_cut(v) for v in value]
            elif isinstance(value, int):
                data[name] = _cut(value)
        return data

    @property
    def link(self) -> str:
        """Page and anchor that explain it."""
        if self.kind == "out-of-bounds":
            return PAGE + ("strides" if self.where == "between-rows" else "masks")
        return PAGE + _ANCHORS[self.kind]


class KernelFault(Exception):
    """Raised inside a kernel, where the fault is."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(explain(fault))
        self.fault = fault


def _cut(value: int) -> int:
    return max(-1, min(int(value), MOST))


# -- sentences --------------------------------------------------------------------------------


def explain(fault: Fault, source_line: str = "") -> str:
    """The learner's sentences: what happened, the likely cause, what to do.

    source_line: the learner's line, if it is known. Where it has a mask, none is recommended.
    """
    if fault.kind == "out-of-bounds":
        return _out_of_bounds(fault, masked="mask" in source_line)
    return _SENTENCES[fault.kind](fault)


def _number(value: int) -> str:
    return f"{value}" if value < MOST else f"more than {MOST - 1}"


def _kernel(fault: Fault) -> str:
    name = f"`{fault.kernel}`" if fault.kernel else "a kernel"
    return f"In {name}, program {_program(fault.program)}"


def _program(program: tuple[int, int, int]) -> str:
    used = program if program[2] else program[:2] if program[1] else program[:1]
    text = ", ".join(_number(p) for p in used)
    return text if len(used) == 1 else f"({text})"


def _tensor(fault: Fault) -> str:
    return f"`{fault.tensor}`" if fault.tensor else "a tensor"


_ACCESS = {"load": "tl.load", "store": "tl.store", "atomic": "the atomic", "": "the access"}


def _out_of_bounds(fault: Fault, masked: bool = False) -> str:
    verb = {"load": "loads", "store": "stores", "atomic": "updates", "": "touches"}[fault.access]
    some = f"{_number(fault.count)} of the {_number(fault.lanes)} elements"
    whole = fault.count >= fault.lanes
    if fault.lanes == 1:
        some = "the one element"
    elif whole:
        some = f"all {_number(fault.lanes)} elements"
    start = f"{_kernel(fault)}: {some} that it {verb} lie{'s' if fault.lanes == 1 else ''}"
    call, tensor = _ACCESS[fault.access], _tensor(fault)
    first = "" if fault.lanes == 1 else "the first "
    if fault.where == "past-the-end":
        far = f"past the end of {tensor} ({first}by {_number(fault.distance)})"
        if whole:
            return (
                f"{start} {far}. The whole access is misplaced: compare the number of programs "
                "with the number of rows, and the step from row to row with `stride(0)`."
            )
        if masked:
            return (
                f"{start} {far}. The lanes are masked, so it is the row that begins too late: step "
                f"from row to row by the distance that the rows of {tensor} have, and by no other "
                "tensor's."
            )
        return (
            f"{start} {far}. The last lanes of the block have no element: give {call} a mask "
            "such as `cols < D`, and check the row's offset."
        )
    if fault.where == "before-the-start":
        return (
            f"{start} before the start of {tensor} ({first}by {_number(fault.distance)}). "
            "An offset is negative: check what is subtracted from it."
        )
    if fault.where == "between-rows":
        return (
            f"{start} between the elements of {tensor}, which is a view of a larger tensor. "
            "Its rows do not follow one another: step by its own `stride(0)` and `stride(1)`, "
            "and mask lanes beyond the row."
        )
    if fault.where == "empty-tensor":
        return f"{start} in {tensor}, which has no elements. Launch no program for it, or mask."
    return (
        f"{start} outside every tensor that the kernel was given. "
        "Build the address from one of the pointer arguments."
    )


def _race(fault: Fault) -> str:
    tensor = _tensor(fault)
    which = f"element {_number(fault.element)}" if fault.element >= 0 else "an element"
    if fault.where == "lanes":
        return (
            f"{_kernel(fault)}: several lanes of one tl.store write different values to the same "
            f"element of {tensor}; which one stays is not defined. "
            "Reduce first (`tl.sum`), or give each lane its own address."
        )
    other = f"program {_program(fault.other)}" if fault.other[0] >= 0 else "another program"
    did = {
        "load-after-store": f"loads {which} of {tensor}, which {other} stores",
        "store-after-load": f"stores {which} of {tensor}, which {other} loads",
        "store-after-store": f"stores {which} of {tensor}, which {other} stores too",
        "atomic-mixed": f"reaches {which} of {tensor} without an atomic, {other} with one "
        "(or the other way round)",
    }[fault.where]
    return (
        f"{_kernel(fault)}: it {did}. Programs run at the same time and in any order on a GPU: "
        "this is a race, right here by luck alone. Give each program elements of its own (to "
        "add over rows: a partial row for each program, summed by a second stage), and check "
        "the row stride of the output."
    )


def _poison(fault: Fault) -> str:
    source = f"`{fault.tensor}`" if fault.tensor else "a tensor"
    return (
        f"{_kernel(fault)}: it stores a value that was computed from lanes of {source} that the "
        "mask had left out. Without `other=` such lanes hold anything on a GPU (here: NaN). "
        "Write `other=0.0` in the masked tl.load, and `tl.where(mask, ..., 0.0)` before a sum "
        "whose padding lanes are no longer 0."
    )


def _int32(fault: Fault) -> str:
    sign = {"add": "a sum", "sub": "a difference", "mul": "a product"}[fault.where]
    return (
        f"{_kernel(fault)}: {sign} of 32-bit integers is larger than 2**31 - 1 and wraps around. "
        "An offset must be computed in 64 bits: `row = tl.program_id(0).to(tl.int64)` before "
        "it is multiplied by the stride."
    )


def _bf16(fault: Fault) -> str:
    if fault.where == "atomic":
        return (
            f"{_kernel(fault)}: an atomic works on bfloat16, which keeps 8 bits of each partial "
            "sum (and not every GPU has it). Accumulate in a float32 buffer."
        )
    what = "a sum or another reduction" if fault.where == "reduction" else "arithmetic"
    return (
        f"{_kernel(fault)}: {what} is done in bfloat16, which keeps 8 bits. "
        "Convert right after the load, `tl.load(...).to(tl.float32)`, and compute in float32."
    )


def _budget(fault: Fault) -> str:
    if fault.where == "seconds":
        return (
            f"{_kernel(fault)}: the launch was still running after 8 seconds. Does it start far "
            "more programs than there are rows, or loop over single elements?"
        )
    return (
        f"{_kernel(fault)}: one program made thousands of loads and stores without an end. Is "
        "there a loop whose condition never changes, such as a lock that nobody releases?"
    )


def _grid(fault: Fault) -> str:
    name = f"`{fault.kernel}`" if fault.kernel else "a kernel"
    return (
        f"The grid of {name} has more than 65,535 programs along its axis {fault.where}, more "
        "than a GPU allows. Put the rows on the first axis, which takes 2**31 - 1."
    )


def _no_device(fault: Fault) -> str:
    return (
        "Triton looked for a GPU, and there is none here. The kernel must run in the "
        "interpreter: do not change TRITON_INTERPRET after the first cell, and do not use "
        "@triton.autotune, which measures on a GPU."
    )


_SENTENCES = {
    "out-of-bounds": _out_of_bounds, "race": _race, "poison": _poison, "int32-overflow": _int32,
    "bf16-arithmetic": _bf16, "budget": _budget, "grid-limit": _grid, "no-device": _no_device,
}  # fmt: skip
