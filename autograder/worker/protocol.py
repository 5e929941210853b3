"""Frames between the grader (trusted) and a worker (untrusted): data only, never code.

A frame is a fixed prefix (two unsigned big-endian 32-bit lengths), a JSON header and a body. A
tensor stands in the header as `{"tensor": dtype, "shape": [...]}`. The body is the tensors' bytes,
in the order in which the header names them, each filled up to a multiple of 8. Everything a worker
sends goes through `receive`, which refuses a frame that is too large, too deep, has unknown or
duplicate keys, holds NaN literals, or whose tensors do not fill the body exactly. What the header
says of sizes is added up before the body is read. Nothing is unpickled and nothing is evaluated on
either side.
"""

from __future__ import annotations

import ctypes
import json
import math
import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeGuard

import torch

# Caps on one frame. Each stops a reply that would cost the grader memory or time (attack 13).
MAX_HEADER = 1 << 20
MAX_BODY = 64 << 20
MAX_DEPTH = 8
MAX_NODES = 4096
MAX_TENSORS = 128
MAX_TEXT = 4096
MAX_RANK = 8

_ALIGNED = 8  # bytes

_PREFIX = struct.Struct("!II")
_DTYPES = {
    name: getattr(torch, name)
    for name in (
        "float16", "bfloat16", "float32", "float64",
        "uint8", "int8", "int16", "int32", "int64", "bool",
    )
}  # fmt: skip
_DTYPE_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_SHORT = 1 << 10  # headers up to this size are remembered
_CHUNK = 1 << 16  # most frames are smaller: one read takes all of one
_NONFINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


@dataclass(frozen=True)
class Handle:
    """Stands in a request for an object that lives in the worker. A reply may hold none."""

    number: int


class ProtocolError(Exception):
    """A frame broke the rules; the connection is not to be used again."""


class Closed(ProtocolError):
    """The other side closed the connection between two frames."""


class TooMuch(ProtocolError):
    """A frame with far more data than was asked for. It was read past: the next may follow.

    header: what it says beside the value.
    """

    def __init__(self, header: dict[str, Any]) -> None:
        super().__init__("tensors that hold far more than was asked for")
        self.header = header


class Unsendable(TypeError):
    """A value of a type that the protocol has no form for, by the name of the type."""

    def __init__(self, returned: str) -> None:
        super().__init__(f"a value of type {returned}")
        self.returned = returned


@dataclass
class Allowance:
    """How many bytes a peer's frames may still hold, as sent and as built from what was sent."""

    left: int = MAX_BODY


# -- values -----------------------------------------------------------------------------------


def encode(value: Any, body: list[bytes], depth: int = 0) -> Any:
    """Turn a value into JSON, adding the bytes of each of its tensors to `body`.

    Strides are sent along, so that a transposed, sliced or expanded tensor arrives as one.
    Raises TypeError for a value that the protocol has no form for (Unsendable where its type is to
    be told), ProtocolError for too much.
    """
    if depth > MAX_DEPTH:
        raise TypeError("a value nested too deeply")
    if value is None or type(value) in (bool, int):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if type(value) is str:
        return {"str": value}
    if issubclass(type(value), torch.Tensor):  # whatever it says that its class is
        return _encode_tensor(value, body)
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).removeprefix("torch.")}
    if type(value) is Handle:
        return {"handle": value.number}
    if type(value) in (list, tuple):
        return {type(value).__name__: [encode(v, body, depth + 1) for v in value]}
    if issubclass(type(value), dict) and all(type(key) is str for key in dict.keys(value)):
        return {"dict": [[k, encode(v, body, depth + 1)] for k, v in dict.items(value)]}
    raise Unsendable(type(value).__name__)


def _encode_tensor(value: torch.Tensor, body: list[bytes]) -> dict[str, Any]:
    if value.layout is not torch.strided:
        raise TypeError(f"a tensor of layout {value.layout}")
    if value.dtype not in _DTYPE_NAMES:
        raise TypeError(f"a tensor of dtype {value.dtype}")
    if not (value.is_cpu or value.is_cuda):
        raise TypeError(f"a tensor on device {value.device.type}")
    data = value.detach()
    node: dict[str, Any] = {"tensor": _DTYPE_NAMES[value.dtype], "shape": list(data.shape)}
    if not data.is_contiguous():
        node["stride"] = list(data.stride())
        # An expanded axis (stride 0) repeats one element: send that element once.
        data = data[tuple(slice(0, 1) if s == 0 else slice(None) for s in data.stride())]
    if not data.is_contiguous() or data.is_cuda or data.is_neg():
        data = data.cpu().resolve_neg().contiguous()
    if data.numel() and not data.data_ptr():
        raise TypeError("a tensor without memory of its own")
    size = data.nbytes
    if len(body) >= MAX_TENSORS or size > MAX_BODY:
        raise ProtocolError("a frame that is too large")
    body.append(ctypes.string_at(data.data_ptr(), size) + bytes(-size % _ALIGNED))
    return node


class _Body:
    """The tensors of a frame, to be taken one after another."""

    def __init__(self, data: bytearray) -> None:
        self._data, self._at, self._count = data, 0, 0

    def take(self, dtype: torch.dtype, shape: list[int]) -> torch.Tensor:
        count = math.prod(shape)
        start, size = self._at, count * dtype.itemsize
        self._at += size + -size % _ALIGNED
        self._count += 1
        if self._at > len(self._data) or self._count > MAX_TENSORS:
            raise ProtocolError("a tensor that is not in the frame")
        if not count:
            return torch.empty(shape, dtype=dtype)
        kind = torch.uint8 if dtype is torch.bool else dtype
        flat = torch.frombuffer(self._data, dtype=kind, count=count, offset=start)
        return (flat.bool() if dtype is torch.bool else flat).view(shape)

    def is_used_up(self) -> bool:
        return self._at == len(self._data)


def decode(node: Any, body: _Body, depth: int = 0, handles: bool = False) -> Any:
    """The value that `encode` made: None, a bool, number, text, tensor or dtype, or a list, tuple
    or dict of these. Raises ProtocolError for anything else.

    A Handle is refused unless `handles`: only a worker, reading a request, may meet one.
    """
    if depth > MAX_DEPTH:
        raise ProtocolError("a value nested too deeply")
    if node is None or type(node) in (bool, int, float):
        return node
    if type(node) is not dict or not node:
        raise ProtocolError("a value of unknown form")
    if "tensor" in node:
        return _decode_tensor(node, body)
    if len(node) != 1:
        raise ProtocolError("a value with unknown keys")
    ((kind, inner),) = node.items()
    if kind == "float" and inner in ("nan", "inf", "-inf"):
        return _NONFINITE[inner]
    if kind == "str" and type(inner) is str and (len(inner) <= MAX_TEXT or handles):
        return inner  # a request holds the cells, of any length
    if kind == "dtype" and type(inner) is str and inner in _DTYPES:
        return _DTYPES[inner]
    if kind == "handle" and handles and type(inner) is int:
        return Handle(inner)
    if kind in ("list", "tuple") and type(inner) is list:
        items = [decode(v, body, depth + 1, handles) for v in inner]
        return items if kind == "list" else tuple(items)
    if kind == "dict" and type(inner) is list:
        return _decode_dict(inner, body, depth, handles)
    raise ProtocolError("a value of unknown kind")


def _decode_dict(pairs: list, body: _Body, depth: int, handles: bool) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for pair in pairs:
        if type(pair) is not list or len(pair) != 2 or type(pair[0]) is not str:
            raise ProtocolError("a dict entry of unknown form")
        if pair[0] in out or len(pair[0]) > MAX_TEXT:
            raise ProtocolError("a dict with a duplicate or oversize key")
        out[pair[0]] = decode(pair[1], body, depth + 1, handles)
    return out


def _decode_tensor(node: dict[str, Any], body: _Body) -> torch.Tensor:
    if not node.keys() <= {"tensor", "shape", "stride"}:
        raise ProtocolError("a tensor with unknown keys")
    name, shape = node["tensor"], node.get("shape")
    if type(name) is not str or name not in _DTYPES:
        raise ProtocolError("a tensor of an unknown dtype")
    if not _is_sizes(shape):
        raise ProtocolError("a tensor with a bad shape")
    if "stride" not in node:
        return body.take(_DTYPES[name], shape)
    stride = node["stride"]
    if not _is_sizes(stride) or len(shape) != len(stride) or 0 in shape:
        raise ProtocolError("a tensor with bad strides")
    unit = [1 if s == 0 else n for n, s in zip(shape, stride, strict=True)]
    return restrided(body.take(_DTYPES[name], unit), shape, stride)


def _is_sizes(value: Any) -> TypeGuard[list[int]]:
    if type(value) is not list or len(value) > MAX_RANK:
        return False
    return all(type(v) is int and 0 <= v < 1 << 40 for v in value)


def restrided(data: torch.Tensor, shape: list[int], stride: list[int]) -> torch.Tensor:
    """A tensor of `shape` and `stride` holding `data` (shape with 1 on each axis of stride 0)."""
    if _laid_out(shape, stride, data.element_size()) is None:
        raise ProtocolError("a tensor whose strides do not fit its data")
    extent = 1 + sum((n - 1) * s for n, s in zip(data.shape, stride, strict=True))
    out = data.new_zeros(extent).as_strided(data.shape, stride)
    try:
        out.copy_(data)
    except RuntimeError as error:  # overlapping strides
        raise ProtocolError("a tensor with overlapping strides") from error
    return out.expand(shape)


def _laid_out(shape: list[int], stride: list[int], itemsize: int) -> int | None:
    """The bytes of a tensor laid out like this, copied whole. None: too many for what it holds.

    A few bytes must not become gigabytes by strides or by expanding (attack 13).
    """
    extent = 1 + sum((n - 1) * s for n, s in zip(shape, stride, strict=True))
    size = itemsize * max(extent, math.prod(shape))
    held = itemsize * math.prod(n for n, s in zip(shape, stride, strict=True) if s)
    return size if size <= (1 << 20) + 4 * held else None


def built_size(node: Any) -> float:
    """The bytes of all tensors that `decode` would build from `node`, without building any."""
    if type(node) is list:
        return sum(map(built_size, node))
    if type(node) is not dict:
        return 0
    if "tensor" not in node:
        return sum(map(built_size, node.values()))
    name, shape, stride = node["tensor"], node.get("shape"), node.get("stride")
    if type(name) is not str or name not in _DTYPES or not _is_sizes(shape):
        return 0  # `decode` refuses it
    itemsize = _DTYPES[name].itemsize
    if not _is_sizes(stride) or len(stride) != len(shape) or 0 in shape:
        return itemsize * math.prod(shape)
    size = _laid_out(shape, stride, itemsize)
    return math.inf if size is None else size


# -- frames -----------------------------------------------------------------------------------

_to_json = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode


@dataclass(frozen=True)
class Frame:
    """What is to be sent, as bytes."""

    header: bytes
    body: bytes

    def packed(self) -> bytes:
        """As it goes over the wire."""
        return _PREFIX.pack(len(self.header), len(self.body)) + self.header + self.body


def frame(header: dict[str, Any], value: Any = None) -> Frame:
    """`header` (plain JSON) with `value` encoded under the key "value".

    Raises TypeError if the value has no form, ProtocolError if the frame would be too large.
    """
    parts: list[bytes] = []
    text = _to_json(header | {"value": encode(value, parts)}).encode()
    body = b"".join(parts)
    if len(text) > MAX_HEADER or len(body) > MAX_BODY:
        raise ProtocolError("a frame that is too large")
    return Frame(text, body)


def send(sock: socket.socket, header: dict[str, Any], value: Any = None) -> None:
    """Send the `frame` of `header` and `value`."""
    sock.sendall(frame(header, value).packed())


def send_calls(
    sock: socket.socket, first: int, ready: Sequence[Frame], begins: bool = True
) -> None:
    """Send frames with two more header keys.

    "call": the number of the question, from `first` on. "begins": whether a test begins with it;
    of several, the first may be told so.
    """
    frames = []
    for number, frame in enumerate(ready, first):
        more = b'{"call":%d,"begins":%s,' % (number, b"true" if begins else b"false")
        frames.append(Frame(more + frame.header[1:], frame.body).packed())
        begins = False
    sock.sendall(b"".join(frames))


def receive(
    sock: socket.socket,
    keys: frozenset[str],
    deadline: float | None = None,
    from_grader: bool = False,
    allowance: Allowance | None = None,
    rest: bytearray | None = None,
) -> tuple[dict[str, Any], Any]:
    """One frame: its header without the value, and the value.

    `keys` are the header keys allowed beside "value"; all must be there. `deadline` is a
    `time.monotonic()` moment for the whole frame, so that a peer cannot stretch it byte by byte.
    `from_grader`: the peer is trusted; its header is taken as it is, and may hold a Handle.
    `allowance`: what the frame costs is taken from it. `rest`: what was read of frames that follow,
    to be handed in again; without it there may be none.
    Raises Closed when the peer has closed between frames, TooMuch for more than the allowance,
    ProtocolError for a frame that breaks the rules, TimeoutError when the deadline passes.
    """
    data = bytearray() if rest is None else rest
    _read(sock, data, _PREFIX.size, deadline)
    header_size, body_size = _PREFIX.unpack_from(data)
    if header_size > MAX_HEADER or body_size > MAX_BODY:
        raise ProtocolError("a frame that is too large")
    start = _PREFIX.size + header_size
    _read(sock, data, start, deadline)
    text = bytes(data[_PREFIX.size : start])
    if from_grader:
        header = json.loads(text)
    else:
        header = dict(_short_header(text) if len(text) <= _SHORT else parse_header(text))
    if header.keys() != keys | {"value"}:
        raise ProtocolError("a header with missing or unknown keys")
    node = header.pop("value")
    if not from_grader:
        allowance = allowance or Allowance()
        cost = header_size + max(body_size, built_size(node))
        if cost > allowance.left:
            _read_past(sock, data, start + body_size, deadline)
            raise TooMuch(header)
        allowance.left -= cost
    _read(sock, data, start + body_size, deadline)
    body = _Body(data[start : start + body_size])
    del data[: start + body_size]
    if data and rest is None:
        raise ProtocolError("more than a frame")  # each side waits for the other
    try:
        value = decode(node, body, handles=from_grader)
    except (RuntimeError, OverflowError, MemoryError, ValueError, TypeError) as error:
        raise ProtocolError("a value that cannot be built") from error
    if not body.is_used_up():
        raise ProtocolError("a body with more than the header names")
    return header, value


def _read(sock: socket.socket, data: bytearray, size: int, deadline: float | None) -> None:
    """Read until `data` holds at least `size` bytes."""
    while len(data) < size:
        part = _receive(sock, min(max(size - len(data), _CHUNK), 1 << 20), deadline)
        if not part:
            raise ProtocolError("a frame cut short") if data else Closed("closed")
        data += part


def _read_past(sock: socket.socket, data: bytearray, size: int, deadline: float | None) -> None:
    """As `_read`, and keep nothing of the `size` bytes."""
    while len(data) < size:
        size -= len(data)
        data.clear()
        _read(sock, data, min(size, _CHUNK), deadline)
    del data[:size]


def _receive(sock: socket.socket, size: int, deadline: float | None) -> bytes:
    """What is there of at most `size` bytes, before the deadline."""
    if deadline is not None:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError("no reply in time")
        sock.settimeout(remaining)
    try:
        return sock.recv(size)
    except ConnectionError as error:
        raise Closed("the connection broke") from error


@lru_cache(maxsize=1024)
def _short_header(text: bytes) -> dict[str, Any]:
    """`parse_header`, remembered, as all submissions' replies are alike. Not to be changed."""
    return parse_header(text)


def parse_header(text: bytes) -> dict[str, Any]:
    """The JSON object in `text`, without NaN, duplicate keys, deep nesting or huge numbers."""
    # Depth is counted on the bytes first: Python's parser recurses, and deep input costs stack.
    if _depth(text) > _DEEPEST:
        raise ProtocolError("a header nested too deeply")
    try:
        header = _Reading().decode(text.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ProtocolError("a header that is not JSON") from error
    if type(header) is not dict:
        raise ProtocolError("a header that is not an object")
    return header


class _Reading(json.JSONDecoder):
    """One header being read, with a count of the values in it."""

    def __init__(self) -> None:
        super().__init__(
            object_pairs_hook=self._pairs, parse_int=_integer, parse_constant=_constant
        )
        self._count = 0

    def _pairs(self, items: list[tuple[str, Any]]) -> dict[str, Any]:
        self._count += len(items)
        out = dict(items)
        if len(out) != len(items):
            raise ProtocolError("a header with duplicate keys")
        if self._count > MAX_NODES:
            raise ProtocolError("a header with too many values")
        return out


def _integer(digits: str) -> int:
    if len(digits) > 20:
        raise ProtocolError("a number that is too long")
    return int(digits)


def _constant(name: str) -> float:
    raise ProtocolError(f"a header with the literal {name}")


_DEEPEST = 2 * MAX_DEPTH + 4


def _depth(text: bytes) -> int:
    """How deep brackets nest, or an upper bound that is small enough."""
    opening = text.count(b"[") + text.count(b"{")
    if opening <= _DEEPEST:
        return opening
    depth = deepest = 0
    for byte in text.translate(None, _NOT_BRACKETS):
        depth += 1 if byte in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest


_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
