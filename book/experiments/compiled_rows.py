"""What to compile of `unit_rows` for a card that is not there: requests for `ahead_of_time`.

All are for bfloat16 rows that lie end to end. No GPU is needed; the compiler runs in a process of
its own. The page shows the answers, and tests assert which variants spill and load narrowly.
"""

from __future__ import annotations

from bench.ahead_of_time import Compiled, Request, compiled_all

KERNELS = "book.experiments.unit_rows:"
BF16, FP32 = "*bf16:16", "*fp32:16"  # pointers to 16-byte places


def forward(width: int, sizes: str = "constexpr") -> Request:
    """`unit_rows.forward`.

    Args:
        width: D; the block is the next power of two.
        sizes: how D and the row stride are known: "constexpr" (when the kernel is compiled), "i32"
            (when it is launched), or "i32:16" (the same, and they are multiples of 16).
    """
    block = 1 << (width - 1).bit_length()
    constant = {"D": width, "x_row": width} if sizes == "constexpr" else {}
    return _request(
        "forward",
        dict.fromkeys(("x_ptr", "w_ptr", "y_ptr"), BF16) | {"r_ptr": FP32, "eps": "fp32"},
        {"D": sizes, "x_row": sizes} if not constant else {},
        {"BLOCK": block, "x_col": 1} | constant,
    )


def backward(width: int) -> Request:
    """`unit_rows.backward_partial`, all sizes but the number of rows known when it is compiled."""
    pointers = dict.fromkeys(("grad_ptr", "x_ptr", "w_ptr", "dx_ptr"), BF16)
    return _request(
        "backward_partial",
        pointers | {"r_ptr": FP32, "partial_ptr": FP32, "M": "i32", "eps": "fp32"},
        {},
        {"BLOCK": width, "D": width, "grad_col": 1, "x_col": 1, "grad_row": width, "x_row": width},
    )


def answers(requests: dict[str, Request]) -> dict[str, Compiled]:
    """All of them compiled, by their names.

    Raises:
        CompileError: the compiler refuses one.
    """
    found = dict(zip(requests, compiled_all(list(requests.values())), strict=True))
    for answer in found.values():
        if isinstance(answer, Exception):
            raise answer
    return found


def _request(name: str, types: dict, sizes: dict, constants: dict) -> Request:
    signature = types | sizes | dict.fromkeys(constants, "constexpr")
    warps = min(32, max(4, constants["BLOCK"] // 512))  # 16 numbers for each thread, or more
    return Request(KERNELS + name, signature, constants, "sm_90", warps)
