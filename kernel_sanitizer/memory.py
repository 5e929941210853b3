"""The memory of one kernel launch as the sanitizer sees it: tensors, and who touched what.

`Region` is one tensor that a kernel was given: which addresses are elements of it. `Shadow` notes
for each element which program loaded and stored it, and finds races. Programs run one after
another here, at the same time on a GPU: what two of them do to one element must not depend on
the order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .shared_memory import is_shared

Selection = slice | np.ndarray  # elements of a region, by number

_SHARED = 1 << 22  # elements of memory in which several tensors lie, at most
_TABLE = 1 << 20  # overlapping views up to this size are looked up element by element


class Region:
    """One tensor of a launch. Its elements are numbered in the order of their addresses.

    The kernel works with made-up addresses: `fake` is that of the first element. Regions lie so
    far apart there that an address tells the tensor it was computed from, however wrong it is.
    """

    def __init__(self, name: str, fake: int, tensor: Any) -> None:
        self.name, self.fake = name, fake
        self.base = tensor.data_ptr()
        self.shared = is_shared(tensor)
        self.itemsize = tensor.element_size()
        self.integer = not (tensor.is_floating_point() or tensor.is_complex())
        self.nbytes = tensor.numel() * self.itemsize
        pairs = zip(tensor.stride(), tensor.shape, strict=True)
        self.dims = sorted(((s, n) for s, n in pairs if n != 1 and s != 0), reverse=True)
        empty = not tensor.numel()
        self.extent = 0 if empty else 1 + sum((n - 1) * s for s, n in self.dims)
        self.table = None if empty or self.nested else self._all_offsets(tensor)
        if self.table is not None:
            self.count = len(self.table)
        elif empty or not self.nested:
            self.count = self.extent
        else:
            self.count = math.prod(n for _, n in self.dims)
        self.dense = self.count == self.extent
        self.shadow: Shadow | None = None
        self.shift: int | None = None  # where it starts in a shadow that others share

    @property
    def end(self) -> int:
        return self.base + self.extent * self.itemsize

    @property
    def nested(self) -> bool:
        """Whether each offset stands for one element at most."""
        below = 0
        for stride, size in reversed(self.dims):
            if stride <= below:
                return False
            below += (size - 1) * stride
        return True

    def _all_offsets(self, tensor: Any) -> np.ndarray | None:
        if tensor.numel() > _TABLE:
            return None
        offsets = np.zeros(1, np.int64)
        for stride, size in self.dims:
            offsets = (offsets[:, None] + stride * np.arange(size)).ravel()
        return np.unique(offsets)

    def numbers(self, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of offsets in elements: the numbers of the elements, and whether there is one."""
        inside = (offsets >= 0) & (offsets < self.extent)
        if self.dense:
            return offsets, inside
        if self.table is not None:
            found = np.minimum(np.searchsorted(self.table, offsets), len(self.table) - 1)
            return found, inside & (self.table[found] == offsets)
        rest, number = offsets, np.zeros_like(offsets)
        for stride, size in self.dims:
            index = np.clip(rest // stride, 0, size - 1)
            rest = rest - index * stride
            number = number * size + index
        return number, inside & (rest == 0)


def give_shadows(regions: Sequence[Region], clock: Clock) -> None:
    """Give each region its shadow. Those that lie in one another's memory share one."""
    groups: list[list[Region]] = []
    for region in sorted(regions, key=lambda r: r.base):
        end = max((r.end for r in groups[-1]), default=0) if groups else 0
        if groups and region.base < end and region.count:
            groups[-1].append(region)
        elif region.count:
            groups.append([region])
    for group in groups:
        first = group[0]
        extent = (max(r.end for r in group) - first.base) // first.itemsize
        aligned = all(
            r.itemsize == first.itemsize and (r.base - first.base) % first.itemsize == 0
            for r in group
        )
        if len(group) > 1 and aligned and extent <= _SHARED:
            shadow = Shadow(clock, extent)
            for region in group:
                region.shadow, region.shift = shadow, (region.base - first.base) // first.itemsize
    for region in regions:
        region.shadow = region.shadow or Shadow(clock, region.count)


class Clock:
    """Which program runs, and of which others it knows that they have finished a part.

    An atomic on one integer (a lock, a ticket) orders programs: who sees another's atomic comes
    after all that the other had done before it.
    """

    BITS = 24

    def __init__(self) -> None:
        self.program = 0
        self._epochs: dict[int, int] = {}
        self._known: dict[int, dict[int, int]] = {}
        self._released: dict[int, dict[int, int]] = {}

    @property
    def me(self) -> int:
        return self.program + 1

    @property
    def stamp(self) -> int:
        return (self.me << self.BITS) | self._epochs.get(self.me, 0)

    def synchronize(self, place: int) -> None:
        """An atomic on the integer at the address `place`."""
        known = self._known.setdefault(self.me, {})
        for program, epoch in self._released.get(place, {}).items():
            known[program] = max(known.get(program, -1), epoch)
        epoch = self._epochs.get(self.me, 0)
        self._released[place] = known | {self.me: epoch}
        self._epochs[self.me] = epoch + 1

    def stranger(self, stamps: np.ndarray) -> tuple[int, int] | None:
        """A program among `stamps` that this one is not ordered after, and where it stands.

        The program is -1 when there are several.
        """
        foreign = (stamps != 0) & (stamps >> self.BITS != self.me)
        if not foreign.any():
            return None
        known = self._known.get(self.me, {})
        for stamp in np.unique(stamps[foreign]).tolist():
            program, epoch = stamp >> self.BITS, stamp & ((1 << self.BITS) - 1)
            if known and (stamp == MANY or known.get(program, -1) >= epoch):
                continue
            where = int(np.flatnonzero(stamps == stamp)[0])
            return (-1 if stamp == MANY else program - 1), where
        return None


MANY = -1  # the stamp of an element that several programs have loaded


class Shadow:
    """Who loaded, stored and atomically updated each element of a region, in this launch."""

    _LOG = 4096

    def __init__(self, clock: Clock, count: int) -> None:
        self._clock, self._count = clock, count
        # Most tensors are only read: what was loaded is then just listed.
        self._log: list[tuple[int, Selection]] = []
        self._readers: np.ndarray | None = None
        self._writers: np.ndarray | None = None
        self._atomics: np.ndarray | None = None

    def load(self, chosen: Selection) -> tuple[str, int, int] | None:
        """Note a load. Returns a race: its kind, the other program, the element's place."""
        for shadow, kind in ((self._writers, "load-after-store"), (self._atomics, "atomic-mixed")):
            found = None if shadow is None else self._clock.stranger(shadow[chosen])
            if found:
                return kind, *found
        self._log.append((self._clock.stamp, chosen))
        if self._readers is not None or len(self._log) > self._LOG:
            self._note_readers()
        return None

    def store(self, chosen: Selection) -> tuple[str, int, int] | None:
        if self._readers is None:
            self._note_readers()
        writers, readers = self._writers, self._readers
        assert readers is not None
        if writers is None:
            writers = self._writers = np.zeros(self._count, np.int64)
        for shadow, kind in (
            (writers, "store-after-store"),
            (readers, "store-after-load"),
            (self._atomics, "atomic-mixed"),
        ):
            found = None if shadow is None else self._clock.stranger(shadow[chosen])
            if found:
                return kind, *found
        writers[chosen] = self._clock.stamp
        readers[chosen] = 0
        return None

    def atomic(self, chosen: Selection) -> tuple[str, int, int] | None:
        if self._readers is None:
            self._note_readers()
        for shadow in (self._writers, self._readers):
            found = None if shadow is None else self._clock.stranger(shadow[chosen])
            if found:
                return "atomic-mixed", *found
        if self._atomics is None:
            self._atomics = np.zeros(self._count, np.int64)
        self._join(self._atomics, self._clock.stamp, chosen)
        return None

    def _note_readers(self) -> None:
        if self._readers is None:
            self._readers = np.zeros(self._count, np.int64)
        for stamp, chosen in self._log:
            self._join(self._readers, stamp, chosen)
        self._log.clear()

    @staticmethod
    def _join(shadow: np.ndarray, stamp: int, chosen: Selection) -> None:
        seen, bits = shadow[chosen], Clock.BITS
        alone = (seen == 0) | (seen >> bits == stamp >> bits)
        shadow[chosen] = np.where(alone, stamp, MANY)
