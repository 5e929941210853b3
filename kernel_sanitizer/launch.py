"""One launch of a kernel as the sanitizer follows it: tensors, programs, faults, bytes.

`sanitizer.py` calls this from the hooks that it puts into Triton's interpreter. Kernels compute
with made-up addresses, which tell the tensor that they were computed from.
"""

from __future__ import annotations

import dataclasses
import inspect
import time
from typing import Any

import numpy as np

from .fault import LAUNCHES, Fault, KernelFault
from .memory import Clock, Region, give_shadows

MOST_OPERATIONS = 20_000  # loads, stores and atomics of one program
MOST_SECONDS = 8.0  # of processor time, one launch
_SHIFT = 56  # regions lie this far apart (a power of two) in the addresses that kernels see
_HALF = np.uint64(1 << _SHIFT - 1)
_MOST_REGIONS = 120

launches: list[dict[str, Any]] = []  # since the last `forget`
faults: list[KernelFault] = []
signatures: dict[str, dict[str, Any]] = {}  # by kernel, of the launch that suits a GPU best
_ranks: dict[str, tuple[int, bool, int]] = {}
_EVERYDAY = 4096  # lanes


def on_shared_write() -> None:
    """Called before a kernel writes where NumPy reads as well. To be replaced by who minds."""


def forget(everything: bool = False) -> None:
    """Begin anew: for the next call, or as after the self-test."""
    launches.clear()
    faults.clear()
    if everything:
        signatures.clear()
        _ranks.clear()


class Launch:
    """One launch of a kernel: its tensors, the program that runs, what was counted."""

    def __init__(self, kernel: str, names: list[str]) -> None:
        self.kernel, self.names = kernel, names
        self.patched: set[int] = set()  # parts of the language that this launch has patched
        self.regions: list[Region] = []
        self.clock = Clock()
        self.grid = (1, 1, 1)
        self.program = (0, 0, 0)
        self.operations = 0
        self.until = time.process_time() + MOST_SECONDS
        self.unmasked: list[Region] = []  # of loads that left lanes out without `other`
        self.record: dict[str, Any] = {
            "kernel": kernel, "grid": [0, 0, 0], "reads": {}, "writes": {}, "sizes": {},
        }  # fmt: skip
        if len(launches) < LAUNCHES:
            launches.append(self.record)

    def note_unmasked(self, ptrs: Any) -> None:
        """A load left lanes out and gave no `other`: they are poisoned."""
        space = int((np.asarray(ptrs.data).ravel()[0] + _HALF) >> np.uint64(_SHIFT))
        if 1 <= space <= len(self.regions):
            self.unmasked.append(self.regions[space - 1])

    def set_grid(self, *grid: int) -> None:
        x, y, z = (int(n) for n in grid)
        self.grid = (x, y, z)
        self.record["grid"] = list(self.grid)
        give_shadows(self.regions, self.clock)  # every tensor has been entered
        for axis, size in zip("yz", self.grid[1:], strict=True):
            if size > 65_535:
                raise self.fault("grid-limit", axis)

    def begin(self, x: int, y: int, z: int) -> None:
        self.program = (x, y, z)
        self.clock.program = x + self.grid[0] * (y + self.grid[1] * z)
        self.operations = 0
        self.unmasked = []
        if time.process_time() > self.until:
            raise self.fault("budget", "seconds")

    def enter(self, tensor: Any) -> int:
        """A tensor argument: the address that the kernel gets for it."""
        name = self.names[len(self.regions)] if len(self.regions) < len(self.names) else ""
        if len(self.regions) >= _MOST_REGIONS:
            return tensor.data_ptr()
        fake = (len(self.regions) + 1 << _SHIFT) + tensor.data_ptr() % 4096
        region = Region(name, fake, tensor)
        self.regions.append(region)
        self.record["sizes"][name] = region.nbytes
        for kind in ("reads", "writes"):
            self.record[kind].setdefault(name, 0)
        return fake

    def fault(self, kind: str, where: str, **facts: Any) -> KernelFault:
        found = Fault(kind=kind, where=where, kernel=self.kernel, program=self.program, **facts)
        faults.append(KernelFault(found))
        return faults[-1]

    # -- memory -------------------------------------------------------------------------------

    def access(self, kind: str, ptrs: Any, mask: Any, value: Any = None) -> Any:
        """Check an access and count it. Returns the pointers with their real addresses."""
        self.operations += 1
        if self.operations > MOST_OPERATIONS:
            raise self.fault("budget", "memory-operations", access=kind)
        data = np.asarray(ptrs.data)
        kept = None if mask is None else np.broadcast_to(mask.data, data.shape)
        if kept is not None and kept.all():
            kept = None
        chosen = data.ravel() if kept is None else data[kept]
        if not chosen.size:
            return ptrs
        if value is not None:
            value = np.broadcast_to(np.asarray(value), data.shape)
            value = value.ravel() if kept is None else value[kept]
            value = value.view(f"u{value.itemsize}")  # bits: a NaN equals itself
        spaces = (chosen + _HALF) >> np.uint64(_SHIFT)
        first = int(spaces[0])
        if first == int(spaces[-1]) and (spaces == spaces[0]).all():
            region = self._region(first, chosen, kind)
            self._touch(region, kind, chosen, ptrs, value)
            return dataclasses.replace(ptrs, data=data + _step(region))
        real = data.copy()
        everywhere = (data + _HALF) >> np.uint64(_SHIFT)
        for space in np.unique(spaces).tolist():
            here = spaces == space
            region = self._region(space, chosen[here], kind)
            self._touch(region, kind, chosen[here], ptrs, None if value is None else value[here])
            real = np.where(everywhere == space, data + _step(region), real)
        return dataclasses.replace(ptrs, data=real)

    def _region(self, space: int, chosen: np.ndarray, kind: str) -> Region:
        if 1 <= space <= len(self.regions):
            return self.regions[space - 1]
        raise self.fault(
            "out-of-bounds", "outside-every-tensor",
            access=kind, count=chosen.size, lanes=chosen.size,
        )  # fmt: skip

    def _touch(
        self, region: Region, kind: str, chosen: np.ndarray, ptrs: Any, value: np.ndarray | None
    ) -> None:
        if region.shared and kind != "load":
            on_shared_write()
        width = max(1, ptrs.get_element_ty().primitive_bitwidth // 8)
        offsets = (chosen - np.uint64(region.fake)).view(np.int64)
        if region.itemsize > 1:
            offsets = offsets // region.itemsize
        low, high = int(offsets.min()), int(offsets.max())
        reach = -(-width // region.itemsize) - 1  # elements beyond the first, of a cast pointer
        if low < 0 or high + reach >= region.extent:
            self._out_of_bounds(region, kind, offsets, reach)
        numbers: Any = offsets
        if not region.dense:
            numbers, inside = region.numbers(offsets)
            if not inside.all():
                self._out_of_bounds(region, kind, offsets, reach)
        size = numbers.size
        row = size == 1 or (numbers[1:] - numbers[:-1] == 1).all()
        count = size
        if row:
            numbers = slice(int(numbers[0]), int(numbers[-1]) + 1)
        else:
            unique, places = np.unique(numbers, return_index=True)
            count = unique.size
            differ = count < size and kind == "store"
            if (
                differ
                and value is not None
                and (value[places][np.searchsorted(unique, numbers)] != value).any()
            ):
                raise self.fault("race", "lanes", tensor=region.name, access=kind)
        self._count(region, kind, count * width)
        if region.shift is not None:
            row, numbers = False, offsets + region.shift
        race = getattr(region.shadow, kind)(numbers)
        if race:
            where, other, place = race
            element = numbers.start + place if row else int(numbers[place]) - (region.shift or 0)
            raise self.fault(
                "race", where, tensor=region.name, access=kind, element=element,
                other=self._coordinates(other),
            )  # fmt: skip

    def _count(self, region: Region, kind: str, count: int) -> None:
        for what, others in (("reads", "store"), ("writes", "load")):
            if kind != others:
                self.record[what][region.name] += count

    def _coordinates(self, program: int) -> tuple[int, int, int]:
        if program < 0:
            return (-1, -1, -1)
        x, rest = program % self.grid[0], program // self.grid[0]
        return (x, rest % self.grid[1], rest // self.grid[1])

    def _out_of_bounds(self, region: Region, kind: str, offsets: np.ndarray, reach: int) -> None:
        _, inside = region.numbers(offsets)
        bad = offsets[~(inside & (offsets + reach < region.extent))]
        after, before = bad[bad + reach >= region.extent], bad[bad < 0]
        where, distance = "between-rows", 0
        if not region.count:
            where = "empty-tensor"
        elif after.size:
            where, distance = "past-the-end", int(after.min()) + reach - region.extent + 1
        elif before.size:
            where, distance = "before-the-start", -int(before.max())
        if where != "empty-tensor" and bad.size > after.size + before.size:
            where, distance = "between-rows", 0
        raise self.fault(
            "out-of-bounds", where, tensor=region.name, access=kind,
            count=bad.size, lanes=offsets.size, distance=distance,
        )  # fmt: skip

    def synchronize(self, ptrs: Any) -> None:
        """An atomic on one integer orders this program after others that used it."""
        data = np.asarray(ptrs.data)
        space = int((data.ravel()[0] + _HALF) >> np.uint64(_SHIFT))
        if data.size == 1 and 1 <= space <= len(self.regions):
            region = self.regions[space - 1]
            if region.integer:
                place = int(data.ravel()[0]) - region.fake + region.base
                self.clock.synchronize(place)


def _step(region: Region) -> np.uint64:
    """From the addresses that kernels see to real ones."""
    return np.uint64((region.base - region.fake) % (1 << 64))


# -- arguments --------------------------------------------------------------------------------


def bound_arguments(fn: Any, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a launch by the names of the kernel's parameters."""
    names = inspect.getfullargspec(fn).args
    try:
        given = {k: v for k, v in kwargs.items() if k in names}
        return inspect.getcallargs(fn, *args, **given)
    except TypeError:  # the interpreter is about to say so
        return {}


def tensor_names(bound: dict[str, Any]) -> list[str]:
    """The parameter's name of each tensor, in the order in which the interpreter converts them."""

    def tensors(value: Any) -> int:
        if isinstance(value, tuple):
            return sum(tensors(v) for v in value)
        if hasattr(value, "data_ptr"):
            return 1
        return int(hasattr(getattr(value, "base", None), "data_ptr"))  # a tensor descriptor

    return [name for name, value in bound.items() for _ in range(tensors(value))]


_POINTERS = {
    "float16": "*fp16", "bfloat16": "*bf16", "float32": "*fp32", "float64": "*fp64",
    "int8": "*i8", "int16": "*i16", "int32": "*i32", "int64": "*i64", "uint8": "*u8", "bool": "*i1",
}  # fmt: skip


def note_signature(kernel: str, found: dict[str, Any], size: int) -> None:
    """Keep `found` if this launch shows better than those before what a GPU could do.

    That is one whose constants are multiples of 16, as far as they are sizes, and whose tensors
    are large: small blocks leave nothing to load at once. But none above the widths of everyday
    models, which need more warps than a learner has been asked to think of.
    """
    sizes = [v for v in found["constants"].values() if type(v) is int and v > 16]
    everyday = max(sizes, default=0) <= _EVERYDAY
    rank = (-sum(v % 16 > 0 for v in sizes), everyday, size)
    plain = all(v is None or type(v) in (bool, int, float) for v in found["constants"].values())
    better = rank > _ranks[kernel] if kernel in _ranks else len(_ranks) < LAUNCHES
    if plain and better and None not in found["types"].values():
        signatures[kernel], _ranks[kernel] = {"kernel": kernel, **found}, rank


def signature(bound: dict[str, Any], constexprs: list[str], kwargs: dict[str, Any]) -> dict:
    """What an ahead-of-time compilation of this launch needs: types, constants, options.

    Sizes and strides count as multiples of 16, for which Triton makes faster code.
    """
    types, constants = {}, {}
    for name, value in bound.items():
        value = getattr(value, "value", value)  # of a tl.constexpr
        if hasattr(value, "data_ptr"):
            kind = _POINTERS.get(str(getattr(value, "dtype", "")).removeprefix("torch."))
            aligned = kind and value.data_ptr() % 16 == 0
            types[name] = f"{kind}:16" if aligned else kind
        elif name in constexprs or type(value) not in (bool, int, float):
            types[name], constants[name] = "constexpr", value
        elif isinstance(value, bool):
            types[name] = "i1"
        elif value == 1 and isinstance(value, int):  # Triton makes a 1 a constant
            types[name], constants[name] = "constexpr", 1
        elif isinstance(value, int):
            types[name] = "i32:16" if -(2**31) <= value < 2**31 else "i64:16"
        else:
            types[name] = "fp32"
    options = {k: kwargs[k] for k in ("num_warps", "num_stages") if type(kwargs.get(k)) is int}
    return {"types": types, "constants": constants, "options": options}
