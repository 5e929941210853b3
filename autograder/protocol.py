"""Frames between the grader (trusted) and a worker (untrusted): data only, never code.

A frame is a fixed prefix (two unsigned big-endian 32-bit lengths), a JSON header and a safetensors
body. Tensors stand in the header as `{"tensor": index, ...}` and lie in the body. Everything a
worker sends goes through `receive`, which refuses a frame that is too large, too deep, has unknown
or duplicate keys, holds NaN literals, or names tensors that are not there. Nothing is unpickled
and nothing is evaluated on either side.
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
from typing import Any

import torch
from safetensors import SafetensorError, TensorSpec, deserialize, serialize

# Caps on one frame. Each stops a reply that would cost the grader memory or time (attack 13).
MAX_HEADER = 1 << 20
MAX_BODY = 64 << 20
MAX_DEPTH = 8
MAX_NODES = 4096
MAX_TENSORS = 128
MAX_TEXT = 4096
MAX_RANK = 8

_PREFIX = struct.Struct("!II")
_DTYPES = {
    name: getattr(torch, name)
    for name in (
        "float16", "bfloat16", "float32", "float64",
        "uint8", "int8", "int16", "int32", "int64", "bool",
    )
}  # fmt: skip
_DTYPE_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
# As safetensors calls them; what it knows beyond these is refused.
_STORED_DTYPES = {
    "F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32, "F64": torch.float64,
    "U8": torch.uint8, "I8": torch.int8, "I16": torch.int16, "I32": torch.int32,
    "I64": torch.int64, "BOOL": torch.bool,
}  # fmt: skip
_SHORT = 1 << 10  # headers up to this size are remembered
_SMALL = 1 << 16  # a body up to this size is read together with its header
_NONFINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


@dataclass(frozen=True)
class Handle:
    """Stands in a request for an object that lives in the worker. A reply may hold none."""

    number: int


Value = None | bool | int | float | str | torch.Tensor | torch.dtype | list | tuple | dict


class ProtocolError(Exception):
    """A frame broke the rules; the connection is not to be used again."""


class Closed(ProtocolError):
    """The other side closed the connection between two frames."""


# -- values -----------------------------------------------------------------------------------


def encode(value: Any, tensors: dict[str, torch.Tensor], depth: int = 0) -> Any:
    """Turn a value into JSON, putting its tensors into `tensors`.

    Strides are sent along, so that a transposed, sliced or expanded tensor arrives as one.
    Raises TypeError for a value that the protocol has no form for.
    """
    if depth > MAX_DEPTH:
        raise TypeError("a value nested too deeply")
    if value is None or type(value) in (bool, int):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if type(value) is str:
        return {"str": value}
    if isinstance(value, torch.Tensor):
        return _encode_tensor(value, tensors)
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).removeprefix("torch.")}
    if type(value) is Handle:
        return {"handle": value.number}
    if type(value) in (list, tuple):
        return {type(value).__name__: [encode(v, tensors, depth + 1) for v in value]}
    if isinstance(value, dict):
        return {"dict": [[str(k), encode(v, tensors, depth + 1)] for k, v in value.items()]}
    raise TypeError(f"a value of type {type(value).__name__}")


def _encode_tensor(value: torch.Tensor, tensors: dict[str, torch.Tensor]) -> dict[str, Any]:
    if value.layout is not torch.strided:
        raise TypeError(f"a tensor of layout {value.layout}")
    if value.dtype not in _DTYPE_NAMES:
        raise TypeError(f"a tensor of dtype {value.dtype}")
    if not (value.is_cpu or value.is_cuda):
        raise TypeError(f"a tensor on device {value.device.type}")
    index = len(tensors)
    node: dict[str, Any] = {"tensor": index}
    data = value.detach()
    if not data.is_contiguous():
        node["stride"] = list(data.stride())
        node["shape"] = list(data.shape)
        # An expanded axis (stride 0) repeats one element: send that element once.
        data = data[tuple(slice(0, 1) if s == 0 else slice(None) for s in data.stride())]
    if not data.is_contiguous() or data.is_cuda or data.is_neg():
        data = data.cpu().resolve_neg().contiguous()
    if data.numel() and not data.data_ptr():
        raise TypeError("a tensor without memory of its own")
    tensors[str(index)] = data
    return node


def decode(
    node: Any, tensors: dict[str, torch.Tensor], depth: int = 0, handles: bool = False
) -> Value:
    """The value that `encode` made. Raises ProtocolError for anything else.

    A Handle is refused unless `handles`: only a worker, reading a request, may meet one.
    """
    if depth > MAX_DEPTH:
        raise ProtocolError("a value nested too deeply")
    if node is None or type(node) in (bool, int, float):
        return node
    if type(node) is not dict or not node:
        raise ProtocolError("a value of unknown form")
    if "tensor" in node:
        return _decode_tensor(node, tensors)
    if len(node) != 1:
        raise ProtocolError("a value with unknown keys")
    ((kind, inner),) = node.items()
    if kind == "float" and inner in ("nan", "inf", "-inf"):
        return _NONFINITE[inner]
    if kind == "str" and type(inner) is str and len(inner) <= MAX_TEXT:
        return inner
    if kind == "dtype" and type(inner) is str and inner in _DTYPES:
        return _DTYPES[inner]
    if kind == "handle" and handles and type(inner) is int:
        return Handle(inner)
    if kind in ("list", "tuple") and type(inner) is list:
        items = [decode(v, tensors, depth + 1, handles) for v in inner]
        return items if kind == "list" else tuple(items)
    if kind == "dict" and type(inner) is list:
        return _decode_dict(inner, tensors, depth, handles)
    raise ProtocolError("a value of unknown kind")


def _decode_dict(
    pairs: list, tensors: dict[str, torch.Tensor], depth: int, handles: bool
) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for pair in pairs:
        if type(pair) is not list or len(pair) != 2 or type(pair[0]) is not str:
            raise ProtocolError("a dict entry of unknown form")
        if pair[0] in out or len(pair[0]) > MAX_TEXT:
            raise ProtocolError("a dict with a duplicate or oversize key")
        out[pair[0]] = decode(pair[1], tensors, depth + 1, handles)
    return out


def _decode_tensor(node: dict[str, Any], tensors: dict[str, torch.Tensor]) -> torch.Tensor:
    if not node.keys() <= {"tensor", "stride", "shape"}:
        raise ProtocolError("a tensor with unknown keys")
    # Taken out: a tensor that is named many times would be copied many times (attack 13).
    data = tensors.pop(str(node["tensor"]), None) if type(node["tensor"]) is int else None
    if data is None:
        raise ProtocolError("a tensor that is not in the frame")
    if "stride" not in node and "shape" not in node:
        return data
    shape, stride = node.get("shape"), node.get("stride")
    if not (_is_sizes(shape) and _is_sizes(stride) and len(shape) == len(stride) == data.dim()):
        raise ProtocolError("a tensor with a bad shape or stride")
    return _restride(data, shape, stride)


def _is_sizes(value: Any) -> bool:
    return type(value) is list and all(type(v) is int and 0 <= v < 1 << 40 for v in value)


def _restride(data: torch.Tensor, shape: list[int], stride: list[int]) -> torch.Tensor:
    """A tensor of `shape` and `stride` holding `data` (shape with 1 on each axis of stride 0)."""
    unit = [1 if s == 0 else n for n, s in zip(shape, stride, strict=True)]
    if 0 in unit:
        if list(data.shape) != shape:
            raise ProtocolError("a tensor whose strides do not fit its data")
        return data
    extent = 1 + sum((n - 1) * s for n, s in zip(unit, stride, strict=True))
    count = math.prod(shape)
    # A few bytes must not become gigabytes by strides or by expanding (attack 13).
    allowed = (1 << 20) + 4 * data.numel() * data.element_size()
    if list(data.shape) != unit or max(extent, count) * data.element_size() > allowed:
        raise ProtocolError("a tensor whose strides do not fit its data")
    out = data.new_zeros(extent).as_strided(unit, stride)
    try:
        out.copy_(data)
    except RuntimeError as error:  # overlapping strides
        raise ProtocolError("a tensor with overlapping strides") from error
    return out.expand(shape)


# -- frames -----------------------------------------------------------------------------------

_encoder = json.JSONEncoder(allow_nan=False, separators=(",", ":"))


def send(sock: socket.socket, header: dict[str, Any], value: Any = None) -> None:
    """Send `header` (plain JSON) with `value` encoded under the key "value".

    Raises TypeError if the value has no form, ProtocolError if the frame would be too large.
    """
    tensors: dict[str, torch.Tensor] = {}
    header = dict(header, value=encode(value, tensors))
    text = _encoder.encode(header).encode()
    body = make_body(tensors) if tensors else b""
    if len(text) > MAX_HEADER or len(body) > MAX_BODY or len(tensors) > MAX_TENSORS:
        raise ProtocolError("a frame that is too large")
    sock.sendall(_PREFIX.pack(len(text), len(body)) + text + body)


def receive(
    sock: socket.socket,
    keys: frozenset[str],
    deadline: float | None = None,
    handles: bool = False,
) -> tuple[dict[str, Any], Value]:
    """One frame: its header without the value, and the value.

    `keys` are the header keys allowed beside "value"; all must be there. `deadline` is a
    `time.monotonic()` moment for the whole frame, so that a peer cannot stretch it byte by byte.
    `handles`: whether the value may hold a Handle.
    Raises Closed when the peer has closed between frames, ProtocolError for a frame that breaks
    the rules, TimeoutError when the deadline passes.
    """
    prefix = _read(sock, _PREFIX.size, deadline, first=True)
    header_size, body_size = _PREFIX.unpack(prefix)
    if header_size > MAX_HEADER or body_size > MAX_BODY:
        raise ProtocolError("a frame that is too large")
    if body_size <= _SMALL:
        both = _read(sock, header_size + body_size, deadline)
        text, body = both[:header_size], both[header_size:]
    else:
        text, body = _read(sock, header_size, deadline), _read(sock, body_size, deadline)
    header = dict(_short_header(text) if len(text) <= _SHORT else parse_header(text))
    if header.keys() != keys | {"value"}:
        raise ProtocolError("a header with missing or unknown keys")
    tensors = parse_body(body)
    try:
        value = decode(header.pop("value"), tensors, handles=handles)
    except (RuntimeError, OverflowError, MemoryError, ValueError, TypeError) as error:
        raise ProtocolError("a value that cannot be built") from error
    if tensors:
        raise ProtocolError("a body with tensors that the header does not name")
    return header, value


def _read(sock: socket.socket, size: int, deadline: float | None, first: bool = False) -> bytes:
    parts, left = [], size
    while left:
        if deadline is not None:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise TimeoutError("no reply in time")
            sock.settimeout(remaining)
        try:
            part = sock.recv(min(left, 1 << 20))
        except ConnectionError as error:
            raise Closed("the connection broke") from error
        if not part:
            raise Closed("closed") if first and left == size else ProtocolError("a frame cut short")
        if len(part) == size:
            return part
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


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


# -- bodies -----------------------------------------------------------------------------------
#
# A safetensors body is a header and the bytes of the tensors. The header is made and checked by
# safetensors itself, the first time one like it comes by: the same dtypes and shapes come again
# and again, and then only the bytes are new.


def make_body(tensors: dict[str, torch.Tensor]) -> bytes:
    """The tensors, which are contiguous and on the CPU, as safetensors."""
    kinds = tuple((name, t.dtype, t.shape) for name, t in tensors.items())
    layout = _layouts.get(kinds)
    if layout is None:
        specs = {
            name: TensorSpec(
                dtype=_DTYPE_NAMES[t.dtype], shape=t.shape, data_ptr=t.data_ptr(), data_len=t.nbytes
            )
            for name, t in tensors.items()
        }
        body = bytes(serialize(specs))
        if len(_layouts) < _MOST_LAYOUTS:
            head = body[: 8 + int.from_bytes(body[:8], "little")]
            places = {n: e["data_offsets"] for n, e in json.loads(head[8:]).items()}
            _layouts[kinds] = head, sorted(places, key=lambda name: (places[name], name))
        return body
    head, order = layout
    data = [ctypes.string_at(tensors[n].data_ptr(), tensors[n].nbytes) for n in order]
    return head + b"".join(data)


_MOST_LAYOUTS = 1024
_layouts: dict[tuple, tuple[bytes, list[str]]] = {}


def parse_body(body: bytes) -> dict[str, torch.Tensor]:
    """The tensors in a safetensors body, with caps on their number, rank and dtypes."""
    if not body:
        return {}
    # The size of the body's own header comes first; a million empty tensors fit in a large one.
    size = int.from_bytes(body[:8], "little")
    if size > MAX_TENSORS * 512:
        raise ProtocolError("a body that is not safetensors of a few tensors")
    # What safetensors checks depends on the header and the length alone.
    layout = _checked.get((body[: 8 + size], len(body)))
    if layout is not None:
        data = bytearray(body)
        return {name: _view(data, *place) for name, *place in layout}
    try:
        # safetensors' parser is written in Rust and checks every offset against the buffer.
        stored = deserialize(body)
    except (SafetensorError, ValueError, RuntimeError, KeyError, TypeError) as error:
        raise ProtocolError("a body that is not safetensors") from error
    if len(stored) > MAX_TENSORS:
        raise ProtocolError("a body with too many tensors")
    tensors = {name: _stored_tensor(**entry) for name, entry in stored}
    if size <= _SHORT and len(_checked) < _MOST_LAYOUTS:
        _remember(body, size, tensors)
    return tensors


def _stored_tensor(dtype: str, shape: list[int], data: bytearray) -> torch.Tensor:
    kind = _STORED_DTYPES.get(dtype)
    if kind is None or len(shape) > MAX_RANK:
        raise ProtocolError("a tensor of an unknown dtype or too many axes")
    try:
        return _view(data, kind, shape, 0)
    except (ValueError, RuntimeError, TypeError, OverflowError) as error:
        raise ProtocolError("a body that is not safetensors") from error


def _view(data: bytearray, dtype: torch.dtype, shape: Sequence[int], start: int) -> torch.Tensor:
    count = math.prod(shape)
    if not count:  # there is nothing to share
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(data, dtype=dtype, count=count, offset=start).reshape(shape)


_checked: dict[tuple[bytes, int], list[tuple]] = {}


def _remember(body: bytes, size: int, tensors: dict[str, torch.Tensor]) -> None:
    """Note where the tensors lie, for the next body with this header."""
    layout = []
    try:
        places = json.loads(body[8 : 8 + size])
        for name, tensor in tensors.items():
            start = 8 + size + places[name]["data_offsets"][0]
            count = tensor.nbytes
            same = body[start : start + count] == ctypes.string_at(tensor.data_ptr(), count)
            if start % tensor.element_size() or not same:
                return  # safetensors aligns them; what does not is not worth it
            layout.append((name, tensor.dtype, tensor.shape, start))
    except (ValueError, LookupError, TypeError):  # read otherwise than by safetensors
        return
    _checked[body[: 8 + size], len(body)] = layout
