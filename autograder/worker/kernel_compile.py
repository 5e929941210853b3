"""Compile a learner's kernel for a GPU that is not here, inside the sandbox.

In two steps, in two workers, both of a server that compiles kernels instead of interpreting them.
The first runs the learner's cells and makes PTX, Triton's last form of code as text, which needs no
other program. The second gets the text alone and has NVIDIA's assembler, ptxas, read it: only such
a worker may start a program, only this one, and no code of the learner's ever runs there.
"""

from __future__ import annotations

import linecache
import os
import re
import subprocess
from collections.abc import Mapping
from typing import Any

TARGET = 90  # H100, H200
_MOST_PTX = 2 << 20
_NAME = "<compiler warm-up>"
_KERNEL = """
import triton
import triton.language as tl

@triton.jit
def warm(x, y, D: tl.constexpr, B: tl.constexpr):
    cols = tl.arange(0, B)
    value = tl.load(x + tl.program_id(0) * D + cols, mask=cols < D, other=0.0).to(tl.float32)
    tl.store(y + tl.program_id(0) * D + cols, value - tl.sum(value, axis=0), mask=cols < D)
"""


class _Stop(Exception):
    """Raised in place of the assembler, with the PTX."""


def warm_up() -> None:
    """Do once, before any fork, what the compiler does slowly or by programs the first time.

    From now on it stops before the assembler.
    """
    import triton
    from triton.backends.nvidia.compiler import CUDABackend

    triton.knobs.runtime.interpret = False  # whatever a notebook puts into the environment
    linecache.cache[_NAME] = (len(_KERNEL), None, _KERNEL.splitlines(keepends=True), _NAME)
    namespace: dict[str, Any] = {"__name__": "warm_up"}
    exec(compile(_KERNEL, _NAME, "exec"), namespace)
    types = {"x": "*bf16:16", "y": "*bf16:16", "D": "constexpr", "B": "constexpr"}
    compiled(namespace["warm"], types, {"D": 1000, "B": 1024}, {})

    def stop(self: Any, ptx: str, *rest: Any, **more: Any) -> bytes:
        raise _Stop(ptx)

    CUDABackend.make_cubin = stop


def to_ptx(
    kernel: Any,
    cell: str,
    types: dict[str, str],
    constants: dict[str, Any],
    options: dict[str, int],
) -> dict[str, Any]:
    """The PTX of a kernel as bytes, or what the compiler refuses: a kind and the line."""
    import torch

    while type(kernel).__name__ in ("Heuristics", "Autotuner"):
        kernel = kernel.fn
    try:
        os.environ["TRITON_CACHE_DIR"] = os.path.abspath("cache")  # in its own scratch folder
        compiled(kernel, types, constants, options)
    except OSError:  # no fault of the kernel
        return {}
    except _Stop as stop:
        ptx = str(stop.args[0]).encode()[:_MOST_PTX]
        return {"ptx": torch.frombuffer(bytearray(ptx), dtype=torch.uint8)}
    except Exception as error:
        return {"problem": _problem(str(error)), **_place(kernel, error, cell)}
    return {"problem": "other", "cell": 0, "line": 0}


def compiled(
    kernel: Any,
    types: Mapping[str, str],
    constants: Mapping[str, Any],
    options: Mapping[str, int],
    target: int = TARGET,
) -> Any:
    """What Triton makes of a `@triton.jit` function. Raises whatever the compiler raises.

    types: for each parameter "*bf16", "i32", ..., with ":16" where it is a multiple of 16, or
        "constexpr", whose value then stands in `constants`.
    """
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    names = list(kernel.arg_names)
    split = {name: types[name].partition(":") for name in names}
    source = ASTSource(
        fn=kernel,
        signature={name: kind for name, (kind, _, _) in split.items()},
        constexprs={(names.index(name),): value for name, value in constants.items()},
        attrs={
            (names.index(name),): [["tt.divisibility", 16]]
            for name, (_, _, multiple) in split.items()
            if multiple == "16"
        },
    )
    return triton.compile(source, target=GPUTarget("cuda", target, 32), options=dict(options))


# Of what only the interpreter accepts, what is said of it (kinds: see advice.py).
_PROBLEMS = (
    (r"AST node type: Break|AST node type: Continue", "break"),
    (r"`return` statements inside", "return"),
    (r"Loop-carried variable|initial value for|type consistent", "loop-type"),
    (r"has no attribute append|AST node type: (List|Dict|Set)", "list"),
    (r"argument must be a string or a real number|must be str, bytes or number", "number"),
    (r"unsupported AST node|Unsupported", "python"),
    (r"NameError", "name"),
    (r"incompatible dimensions|shape", "shape"),
)


def _problem(text: str) -> str:
    last = text.strip().split("\n")[-1]
    return next((kind for pattern, kind in _PROBLEMS if re.search(pattern, last)), "other")


def _place(kernel: Any, error: Exception, cell: str) -> dict[str, int]:
    """Cell and line of what the compiler refuses: it counts from the line with `def`."""
    code = getattr(kernel, "fn", kernel).__code__
    line = getattr(getattr(error, "node", None), "lineno", 0)
    lines = linecache.getlines(code.co_filename)
    number = code.co_filename.removeprefix(cell).removesuffix(">")
    if not line or not number.isdigit():
        return {"cell": 0, "line": 0}
    start = code.co_firstlineno
    while start <= len(lines) and not lines[start - 1].lstrip().startswith("def "):
        start += 1
    return {"cell": int(number), "line": start + line - 1}


def assemble(ptx: bytes) -> dict[str, int] | None:
    """What ptxas finds in PTX: registers of a thread, bytes that do not fit into them; and the
    widest load and store of global memory in bits. None where it does not run or refuses."""
    import triton

    program = os.path.join(os.path.dirname(triton.__file__), "backends", "nvidia", "bin", "ptxas")
    with open("kernel.ptx", "wb") as file:
        file.write(ptx)
    try:
        done = subprocess.run(
            [program, "-v", f"--gpu-name=sm_{TARGET}a", "kernel.ptx", "-o", "kernel.cubin"],
            capture_output=True, text=True, timeout=20,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    used = re.search(r"Used (\d+) registers", done.stderr)
    if done.returncode or used is None:
        return None
    spilled = [int(n) for n in re.findall(r"(\d+) bytes spill", done.stderr)]
    text = ptx.decode(errors="replace")
    return {
        "registers": int(used[1]), "spilled": sum(spilled), "load_bits": _widest("ld", text),
        "store_bits": _widest("st", text),
    }  # fmt: skip


def _widest(operation: str, ptx: str) -> int:
    found = re.findall(rf"\b{operation}\.global[\w:.]*?(?:\.v(\d))?\.[bufs](\d+)\b", ptx)
    return max((int(count or 1) * int(bits) for count, bits in found), default=0)
