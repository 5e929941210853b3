"""Frames: what is sent arrives unchanged, and what breaks the rules is refused."""

import contextlib
import json
import socket
import struct
import threading
import time
import tracemalloc

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autograder.worker import protocol

KEYS = frozenset({"call"})


@pytest.fixture
def pair():
    a, b = socket.socketpair()
    yield a, b
    a.close()
    b.close()


def crossed(pair, value):
    protocol.send(pair[0], {"call": 1}, value)
    header, got = protocol.receive(pair[1], KEYS, time.monotonic() + 5)
    assert header == {"call": 1}
    return got


def refused(pair, header: bytes, body: bytes = b""):
    pair[0].sendall(struct.pack("!II", len(header), len(body)) + header + body)
    pair[0].close()
    with pytest.raises(protocol.ProtocolError) as caught:
        protocol.receive(pair[1], KEYS, time.monotonic() + 5)
    return str(caught.value)


@pytest.mark.parametrize(
    "value",
    [None, True, 3, -2.5, "text", [], (1, [2, "x"]), {"a": 1, "b": None}, torch.bfloat16],
)
def test_plain_values_arrive_with_their_type(pair, value):
    got = crossed(pair, value)
    assert got == value and type(got) is type(value)


def test_a_handle_arrives_in_a_request_and_is_refused_in_a_reply(pair):
    value = {"args": [protocol.Handle(3), (protocol.Handle(4), 1)]}
    protocol.send(pair[0], {"call": 1}, value)
    assert protocol.receive(pair[1], KEYS, time.monotonic() + 5, from_grader=True)[1] == value
    protocol.send(pair[0], {"call": 1}, value)
    with pytest.raises(protocol.ProtocolError, match="unknown kind"):
        protocol.receive(pair[1], KEYS, time.monotonic() + 5)


@pytest.mark.parametrize("text", ["nan", "inf", "-inf"])
def test_numbers_that_are_not_finite_arrive(pair, text):
    assert repr(crossed(pair, float(text))) == text


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.t(),
        lambda x: x[:, ::2],
        lambda x: x[:1].expand(4, 8),
        lambda x: x[0, 0].expand(3, 5),
        lambda x: x[:0],
        lambda x: x[0, 0],
        lambda x: x.reshape(2, 3, 4).permute(2, 0, 1),
        lambda x: torch.nn.Parameter(x),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int64])
def test_views_arrive_with_values_and_strides(pair, make, dtype):
    x = torch.arange(24).reshape(3, 8).to(dtype)
    if dtype is torch.int64 and isinstance(make(x.double()), torch.nn.Parameter):
        pytest.skip("an integer parameter does not exist")
    value = make(x)
    got = crossed(pair, value)
    assert torch.equal(got, value) and got.dtype == value.dtype
    assert got.stride() == value.stride() or value.numel() == 0
    assert not got.requires_grad


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (object(), "type object"),
        (torch.zeros(2, device="meta"), "device meta"),
        (torch.zeros(2).to_sparse(), "layout"),
        (torch.zeros(2, dtype=torch.complex64), "dtype"),
    ],
)
def test_a_value_without_a_form_is_a_type_error(pair, value, said):
    with pytest.raises(TypeError, match=said):
        protocol.send(pair[0], {"call": 1}, value)


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[]", "not an object"),
        (b'{"call": 1}', "missing or unknown"),
        (b'{"call": 1, "value": null, "more": 1}', "missing or unknown"),
        (b'{"call": 1, "call": 2, "value": null}', "duplicate"),
        (b'{"call": NaN, "value": null}', "NaN"),
        (b'{"call": 1, "value": Infinity}', "Infinity"),
        (b'{"call": 1, "value": ' + b"[" * 900 + b"]" * 900 + b"}", "too deeply"),
        (b'{"call": 1, "value": ' + b"9" * 300 + b"}", "too long"),
        (b'{"call": 1, "value": []}', "unknown form"),
        (b'{"call": 1, "value": {"code": "x"}}', "unknown kind"),
        (b'{"call": 1, "value": {"list": [], "str": ""}}', "unknown keys"),
        (b'{"call": 1, "value": {"tensor": 0}}', "unknown dtype"),
        (b'{"call": 1, "value": {"tensor": "complex64", "shape": []}}', "unknown dtype"),
        (b'{"call": 1, "value": {"tensor": "int8"}}', "bad shape"),
        (b'{"call": 1, "value": {"tensor": "int8", "shape": [true]}}', "bad shape"),
        (b'{"call": 1, "value": {"tensor": "int8", "shape": [1, 1, 1, 1, 1, 1, 1, 1, 1]}}', "bad"),
        (b'{"call": 1, "value": {"tensor": "int8", "shape": [], "data": 1}}', "unknown keys"),
        (b'{"call": 1, "value": {"tensor": "int8", "shape": []}}', "not in the frame"),
        (b'{"call": 1, "value": {"dict": [["a", 1], ["a", 2]]}}', "duplicate"),
        (b'{"call": 1, "value": {"dtype": "complex64"}}', "unknown kind"),
    ],
)
def test_a_header_that_breaks_the_rules_is_refused(pair, header, said):
    assert said in refused(pair, header)


def test_a_header_with_many_values_is_refused(pair):
    pairs = ", ".join(f'"k{i}": 1' for i in range(protocol.MAX_NODES + 1))
    header = '{"call": 1, "value": {"dict": {' + pairs + "}}}"
    assert "too many" in refused(pair, header.encode())


FOUR = b'{"call": 1, "value": {"list": [{"tensor": "float32", "shape": [4]}%s]}}'


@pytest.mark.parametrize(
    ("header", "size", "said"),
    [
        (b'{"call": 1, "value": null}', 8, "more than the header names"),
        (FOUR % b"", 15, "not in the frame"),
        (FOUR % b"", 17, "more than the header names"),
        (FOUR % b"", 24, "more than the header names"),
        (FOUR % (b', {"tensor": "int8", "shape": [1]}'), 17, "not in the frame"),
        (FOUR % (b', {"tensor": "int8", "shape": []}' * 128), 16 + 8 * 128, "not in the frame"),
    ],
)
def test_a_body_that_the_header_does_not_fill_is_refused(pair, header, size, said):
    assert said in refused(pair, header, bytes(size))


def test_tensors_of_one_frame_hold_their_own_values(pair):
    kinds = [(torch.float64, (2, 3)), (torch.bool, (5,)), (torch.bfloat16, ()), (torch.int8, (0,))]
    for seed in range(3):
        rng = torch.Generator().manual_seed(seed)
        value = [torch.randint(0, 2, s, generator=rng).to(d) * (1 + seed) for d, s in kinds]
        got = crossed(pair, value)
        for sent, arrived in zip(value, got, strict=True):
            assert arrived.dtype == sent.dtype and torch.equal(arrived, sent)
        got[0][0, 0] = 99  # they share no memory with each other, nor with the next
        assert torch.equal(got[1], value[1])


def test_a_truth_value_of_any_byte_arrives_as_true_or_false(pair):
    header = b'{"call": 1, "value": {"tensor": "bool", "shape": [3]}}'
    pair[0].sendall(struct.pack("!II", len(header), 8) + header + b"\0\1\xff" + bytes(5))
    _, got = protocol.receive(pair[1], KEYS, time.monotonic() + 5)
    assert got.tolist() == [False, True, True] and torch.equal(got, torch.tensor([0, 1, 1]).bool())


@pytest.mark.parametrize(
    "value", [[torch.ones(1)] * (protocol.MAX_TENSORS + 1), torch.ones((64 << 20) // 4 + 1)]
)
def test_more_than_a_frame_may_hold_is_not_sent(pair, value):
    with pytest.raises(protocol.ProtocolError, match="too large"):
        protocol.send(pair[0], {"call": 1}, value)


def test_a_second_frame_that_was_not_asked_for_is_refused(pair):
    protocol.send(pair[0], {"call": 1})
    protocol.send(pair[0], {"call": 2})
    with pytest.raises(protocol.ProtocolError, match="more than a frame"):
        protocol.receive(pair[1], KEYS, time.monotonic() + 5)


@pytest.mark.parametrize(
    ("shape", "stride"),
    [
        ([4], [1 << 39]),
        ([1 << 39], [0]),
        ([1 << 21], [0]),
        ([5], [1]),
        ([4], [-1]),
        ([4.0], [1]),
        ([4, 1], [1]),
    ],
)
def test_strides_that_do_not_fit_the_data_are_refused(pair, shape, stride):
    node = {"tensor": "float32", "shape": shape, "stride": stride}
    header = json.dumps({"call": 1, "value": node}).encode()
    assert "tensor" in refused(pair, header, bytes(16 if stride != [0] else 8))


def announced(value, size):
    header = json.dumps({"call": 1, "value": value}).encode()
    return struct.pack("!II", len(header), size) + header


def tensor(shape, **stride):
    return {"tensor": "float32", "shape": shape} | stride


MIB = 1 << 20


@pytest.mark.parametrize(
    ("value", "size"),
    [
        (tensor([MIB // 2]), 2 * MIB),
        ({"list": [tensor([1 << 10])] * 100}, 100 << 12),  # many, and each is small
        ({"dict": [["a", {"tuple": [{"tuple": [tensor([1 << 18])]}] * 2}]]}, 2 * MIB),
        (tensor([1 << 18], stride=[4]), MIB),  # 4 MiB, once it has its strides
        (tensor([1 << 18], stride=[0]), 8),  # 1 MiB of one number
        (tensor([1 << 10], stride=[1 << 20]), 4 << 10),
    ],
)
def test_what_the_header_names_is_added_up_before_it_is_read_or_built(
    pair, value, size, monkeypatch
):
    built = []
    monkeypatch.setattr(protocol, "decode", lambda *_, **__: built.append(1))
    allowance = protocol.Allowance(MIB // 4)
    pair[0].sendall(announced(value, size))
    fed = threading.Thread(target=feed, args=(pair[0], size))
    fed.start()
    tracemalloc.start()
    with pytest.raises(protocol.TooMuch) as caught:
        protocol.receive(pair[1], KEYS, time.monotonic() + 60, allowance=allowance)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    fed.join()
    assert caught.value.header == {"call": 1} and not built
    assert peak < MIB / 2  # a piece of the body at a time, and none is kept
    monkeypatch.undo()
    protocol.send(pair[0], {"call": 2}, "the next frame is read as ever")
    assert protocol.receive(pair[1], KEYS, time.monotonic() + 60)[0] == {"call": 2}


def feed(sock, size):
    piece = bytes(1 << 12)
    for start in range(0, size, len(piece)):
        sock.sendall(piece[: size - start])


def test_frames_share_one_allowance(pair):
    allowance = protocol.Allowance(3 << 14)
    for number, fits in ((1, True), (2, True), (3, False)):
        protocol.send(pair[0], {"call": number}, torch.zeros(5 << 10))
        with contextlib.nullcontext() if fits else pytest.raises(protocol.TooMuch):
            protocol.receive(pair[1], KEYS, time.monotonic() + 60, allowance=allowance)


def test_a_header_alone_counts_too(pair):
    value = {"list": [{"str": "x" * 4000}] * 10}
    pair[0].sendall(announced(value, 0))
    with pytest.raises(protocol.TooMuch):
        protocol.receive(
            pair[1], KEYS, time.monotonic() + 60, allowance=protocol.Allowance(1 << 14)
        )


def test_a_frame_that_announces_too_much_is_refused_unread(pair):
    pair[0].sendall(struct.pack("!II", protocol.MAX_HEADER + 1, 0))
    with pytest.raises(protocol.ProtocolError, match="too large"):
        protocol.receive(pair[1], KEYS, time.monotonic() + 5)


def test_a_frame_cut_short_is_refused_and_an_end_between_frames_is_told_apart():
    a, b = socket.socketpair()
    a.sendall(struct.pack("!II", 100, 0) + b"{")
    a.close()
    with pytest.raises(protocol.ProtocolError, match="cut short"):
        protocol.receive(b, KEYS, time.monotonic() + 5)
    b.close()
    a, b = socket.socketpair()
    a.close()
    with pytest.raises(protocol.Closed):
        protocol.receive(b, KEYS, time.monotonic() + 5)
    b.close()


def test_a_slow_peer_cannot_stretch_the_deadline(pair):
    pair[0].sendall(b"\0")
    started = time.monotonic()
    with pytest.raises(TimeoutError):
        protocol.receive(pair[1], KEYS, started + 0.2)


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_a_mutated_frame_is_a_value_or_a_protocol_error(data):
    a, b = socket.socketpair()
    with a, b:
        x = torch.arange(12.0).reshape(3, 4)
        protocol.send(a, {"call": 1}, {"x": [x, x.t()], "n": (1, 2.5, "s", None)})
        frame = bytearray(b.recv(1 << 20))
        for _ in range(data.draw(st.integers(1, 6))):
            position = data.draw(st.integers(0, len(frame) - 1))
            frame[position] = data.draw(st.integers(0, 255))
        if data.draw(st.booleans()):
            del frame[data.draw(st.integers(0, len(frame) - 1)) :]
        a.sendall(frame)
        a.shutdown(socket.SHUT_WR)
        try:
            protocol.receive(b, KEYS, time.monotonic() + 5)
        except protocol.ProtocolError as error:
            assert "\n" not in str(error)
