"""Compile Triton kernels for a GPU that is not here, and read what the machine code does.

    python -m bench.ahead_of_time                    # the fast kernels of this course
    python -m bench.ahead_of_time --target sm_100 --dtype fp32 --widths 1000 8192

The interpreter accepts more than a GPU does, and says nothing about speed. The compiler needs no
GPU: Triton's wheel holds it, with the assembler and a disassembler. Two things in the machine code
decide how fast a kernel can be that memory limits: whether registers spill into memory, and how
many bits each load moves.

A process that was told to interpret kernels (TRITON_INTERPRET=1) cannot compile any. So `compiled`
starts a second one; `compile_here` is for a process that was not. For learners' kernels, inside the
sandbox, there is `kernel_compile`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from autograder.worker import kernel_compile

TARGETS = ("sm_80", "sm_90", "sm_100")
TYPES = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float64": "fp64"}
TYPES |= {"int64": "i64", "int32": "i32", "int16": "i16", "int8": "i8", "uint8": "u8", "bool": "i1"}


class CompileError(Exception):
    """The compiler refuses a kernel. The text is the exception's type and its last line."""


@dataclass(frozen=True)
class Request:
    """One kernel with the types of its arguments.

    Attributes:
        kernel: "package.module:name".
        signature: for each parameter, in order, "*bf16" for a pointer, "i32", "i64", "fp32" for a
            number, each followed by ":16" where it is a multiple of 16; "constexpr" for a constant.
        constexprs: value of each constant.
        target: sm_80 (A100), sm_90 (H100, H200), sm_100 (B200), ...
        num_warps, num_stages, maxnreg: as at the launch; None for Triton's default.
    """

    kernel: str
    signature: Mapping[str, str]
    constexprs: Mapping[str, Any] = field(default_factory=dict)
    target: str = "sm_90"
    num_warps: int = 4
    num_stages: int | None = None
    maxnreg: int | None = None

    def __hash__(self) -> int:
        return hash((self.kernel, *self.signature.items(), *self.constexprs.items(), self.target))


@dataclass(frozen=True)
class Compiled:
    """What the machine code of a kernel holds.

    Attributes:
        registers: of each thread.
        spill_bytes: of each thread, kept in memory for want of registers; 0 is good.
        load_bits, store_bits: how many instructions read and write global memory, by the bits that
            each moves for a thread; 128 is the most.
        shared_bytes: shared memory of a program.
        atomics: instructions that add to or exchange global memory.
        ptx: the code before it is assembled.
    """

    registers: int
    spill_bytes: int
    load_bits: dict[int, int]
    store_bits: dict[int, int]
    shared_bytes: int
    atomics: int
    ptx: str = field(repr=False)


def compiled(
    kernel: Any,
    signature: Mapping[str, str],
    constexprs: Mapping[str, Any] | None = None,
    *,
    target: str = "sm_90",
    num_warps: int = 4,
    num_stages: int | None = None,
    maxnreg: int | None = None,
) -> Compiled:
    """Compile one kernel in a second process.

    Args:
        kernel: a `@triton.jit` function of a module that can be imported, or "module:name".
        signature, constexprs, target, num_warps, num_stages, maxnreg: see `Request`.

    Raises:
        CompileError: the compiler refuses it.
        RuntimeError: the second process failed otherwise, for example without Triton.
    """
    request = Request(
        _name_of(kernel), signature, constexprs or {}, target, num_warps, num_stages, maxnreg
    )
    result = compiled_all([request])[0]
    if isinstance(result, CompileError):
        raise result
    return result


def compiled_all(requests: Sequence[Request]) -> list[Compiled | CompileError]:
    """Compile several kernels in one second process; what is refused comes back as its error.

    Raises:
        RuntimeError: the process failed, for example without Triton.
    """
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    environment["PYTHONPATH"] = os.pathsep.join(p or os.getcwd() for p in sys.path)
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run(
            [sys.executable, "-m", "bench.ahead_of_time", "--serve"],
            input=json.dumps([asdict(request) for request in requests]),
            env=environment | {"TRITON_CACHE_DIR": cache},
            capture_output=True,
            text=True,
        )
    if done.returncode:
        last = (done.stderr.strip() or "no output").split("\n")[-1]
        raise RuntimeError(f"the compiling process failed: {last}")
    return [_decoded(reply) for reply in json.loads(done.stdout.strip().split("\n")[-1])]


def compile_here(kernel: Any, request: Request) -> Compiled:
    """Compile `kernel`, a `@triton.jit` function, in this process.

    Args:
        kernel: the function; `request.kernel` is not looked at.

    Raises:
        CompileError: the compiler refuses it.
        RuntimeError: this process interprets kernels.
    """
    import triton

    if not isinstance(kernel, triton.JITFunction):
        raise RuntimeError("TRITON_INTERPRET=1 is set: kernels cannot be compiled in this process")
    types = request.signature
    constants = {k: v for k, v in request.constexprs.items() if types[k] == "constexpr"}
    options = {
        name: value
        for name in ("num_warps", "num_stages", "maxnreg")
        if (value := getattr(request, name)) is not None
    }
    target = int(request.target.removeprefix("sm_"))
    try:
        result = kernel_compile.compiled(kernel, types, constants, options, target)
    except Exception as error:  # compiler, assembler and the kernel's own asserts raise many kinds
        last = (str(error).strip() or "no reason given").split("\n")[-1].strip()
        raise CompileError(f"{type(error).__name__}: {last}") from error
    return read(result.asm["cubin"], result.asm["ptx"], result.metadata.shared)


def read(cubin: bytes, ptx: str, shared_bytes: int) -> Compiled:
    """What the machine code `cubin` holds."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        usage = _tool("cuobjdump", "-res-usage", str(path))
        code = _tool("nvdisasm", "-c", str(path))
    found = re.search(r"REG:(\d+) STACK:(\d+)", usage)
    if found is None:
        raise RuntimeError("cuobjdump does not say how many registers the kernel uses")
    operations = re.findall(r"\b(LDG|LDGSTS|STG|ATOMG|ATOM|RED)\b((?:\.\w+)*)", code)
    return Compiled(
        registers=int(found[1]),
        spill_bytes=int(found[2]),
        load_bits=_widths(suffix for name, suffix in operations if name in ("LDG", "LDGSTS")),
        store_bits=_widths(suffix for name, suffix in operations if name == "STG"),
        shared_bytes=shared_bytes,
        atomics=sum(name in ("ATOMG", "ATOM", "RED") for name, _ in operations),
        ptx=ptx,
    )


def request_of(launch: Any, target: str = "sm_90") -> Request:
    """The request for a launch: an object with `kernel`, `arguments` by name, and `options`.

    Types are those that Triton would find at the launch, with tensors taken as aligned to 16 bytes.
    """
    kernel = launch.kernel
    notes = kernel.fn.__annotations__
    fixed = _not_specialized(kernel)
    signature: dict[str, str] = {}
    constexprs: dict[str, Any] = {}
    for name in kernel.arg_names:
        value = launch.arguments[name]
        if "constexpr" in str(notes.get(name, "")) or value is None:
            signature[name], constexprs[name] = "constexpr", value
        elif hasattr(value, "data_ptr"):
            signature[name] = f"*{TYPES[str(value.dtype).removeprefix('torch.')]}:16"
        elif isinstance(value, bool):
            signature[name] = "i1"
        elif isinstance(value, float):
            signature[name] = "fp32"
        elif value == 1 and name not in fixed:  # Triton makes a 1 a constant
            signature[name], constexprs[name] = "constexpr", 1
        else:
            multiple = ":16" if value % 16 == 0 and name not in fixed else ""
            signature[name] = ("i32" if -(2**31) <= value < 2**31 else "i64") + multiple
    options = {
        k: v for k, v in launch.options.items() if k in ("num_warps", "num_stages", "maxnreg")
    }
    return Request(_name_of(kernel), signature, constexprs, target, **options)


def _not_specialized(kernel: Any) -> set[str]:
    """Parameters that were declared `do_not_specialize`, for a compiled or interpreted kernel."""
    given = getattr(kernel, "do_not_specialize", None) or getattr(kernel, "kwargs", {}).get(
        "do_not_specialize"
    )
    names = list(kernel.arg_names)
    return {names[entry] if isinstance(entry, int) else entry for entry in given or ()}


def _name_of(kernel: Any) -> str:
    if isinstance(kernel, str):
        return kernel
    function = getattr(kernel, "fn", kernel)
    return f"{function.__module__}:{function.__name__}"


def _tool(name: str, *arguments: str) -> str:
    import triton

    folder = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
    done = subprocess.run(
        [str(folder / name), *arguments],
        env=os.environ | {"PATH": f"{folder}{os.pathsep}{os.environ.get('PATH', '')}"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def _widths(suffixes: Iterator[str]) -> dict[int, int]:
    """How many instructions move how many bits: LDG.E.128 moves 128, LDG.E 32, LDG.E.U16 16."""
    named = {"U8": 8, "S8": 8, "U16": 16, "S16": 16, "64": 64, "128": 128, "256": 256}
    counts = Counter(
        next((named[part] for part in suffix.split(".") if part in named), 32)
        for suffix in suffixes
    )
    return dict(sorted(counts.items()))


def _decoded(reply: dict[str, Any]) -> Compiled | CompileError:
    if "error" in reply:
        return CompileError(reply["error"])
    bits = {
        key: {int(width): count for width, count in reply[key].items()}
        for key in ("load_bits", "store_bits")
    }
    return Compiled(**(reply | bits))


def _serve() -> int:
    """The second process: requests as JSON on stdin, replies as one line of JSON on stdout."""
    replies: list[dict[str, Any]] = []
    for entry in json.load(sys.stdin):
        request = Request(**entry)
        module, _, name = request.kernel.partition(":")
        kernel = getattr(importlib.import_module(module), name)
        try:
            replies.append(asdict(compile_here(kernel, request)))
        except CompileError as error:
            replies.append({"error": str(error)})
    print(json.dumps(replies))
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Print registers, spills and load width of the course's fast kernels."""
    parser = argparse.ArgumentParser(prog="python -m bench.ahead_of_time", description=main.__doc__)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--target", default="sm_90", help="sm_80, sm_90 (default), sm_100, ...")
    parser.add_argument("--dtype", default="bf16", choices=("bf16", "fp16", "fp32"))
    parser.add_argument(
        "--widths", type=int, nargs="+", metavar="D",
        default=[512, 1000, 1024, 2048, 4096, 8192, 16384, 32768],
    )  # fmt: skip
    options = parser.parse_args(argv)
    if options.serve:
        return _serve()
    from solutions.triton_kernels.fused.catalogue import launches

    rows: dict[Request, tuple[str, int, Any]] = {}
    for width in options.widths:
        for name, _, launch in launches(width, options.dtype):
            rows.setdefault(request_of(launch, options.target), (name, width, launch))
    print(f"compiling {len(rows)} kernels", file=sys.stderr)
    results = compiled_all(list(rows))
    print(
        f"{options.dtype}, {options.target}; loads and stores: how many move so many bits a thread"
    )
    print(
        "kernel                      D  tile       warps  registers  spilled  shared  loads|stores"
    )
    for (name, width, launch), result in zip(rows.values(), results, strict=True):
        tile = launch.tile
        line = f"{name:22} {width:6}  {f'{tile.rows} x {tile.block}':10} {tile.warps:5}"
        if isinstance(result, CompileError):
            print(f"{line}  {result}")
            continue
        print(
            f"{line} {result.registers:10} {result.spill_bytes:8} {result.shared_bytes:7}"
            f"  {_counts(result.load_bits)} | {_counts(result.store_bits)}"
        )
    return 1 if any(isinstance(result, CompileError) for result in results) else 0


def _counts(bits: Mapping[int, int]) -> str:
    return ", ".join(f"{count} of {width}" for width, count in bits.items()) or "none"


if __name__ == "__main__":
    sys.exit(main())
