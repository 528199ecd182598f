"""CNRT's memory functions on the simulated board: cnrtMalloc, cnrtMemcpy, cnrtFree and device pointers."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import mlusim
from mlusim.mluop import (
    cnrtErrorArgsInvalid,
    cnrtErrorCndrvFuncCall,
    cnrtErrorMemcpyDirectionInvalid,
    cnrtErrorNoMem,
    cnrtErrorNotSupport,
    cnrtFree,
    cnrtMalloc,
    cnrtMemcpy,
    cnrtMemcpyDevToDev,
    cnrtMemcpyDevToHost,
    cnrtMemcpyHostToDev,
    cnrtMemcpyHostToHost,
    cnrtMemcpyNoDirection,
    cnrtMemcpyPeerToPeer,
    cnrtSuccess,
)


@pytest.fixture(scope="module")
def device():
    return mlusim.Device("mlu370-x4")


@pytest.fixture
def memory(device):
    status, pointer = cnrtMalloc(device, 64, "buffer")
    assert status == cnrtSuccess
    return pointer


def held(pointer, nbytes=64):
    out = np.zeros(nbytes, np.uint8)
    assert cnrtMemcpy(out, pointer, nbytes, cnrtMemcpyDevToHost) == cnrtSuccess
    return out


def refused(caplog, status, expected, reason):
    assert status == expected
    (message,) = caplog.messages
    assert expected.name in message
    assert reason in message


@pytest.mark.parametrize("direction", [cnrtMemcpyHostToDev, cnrtMemcpyNoDirection])
@pytest.mark.parametrize(
    "host",
    [
        np.arange(16, dtype=np.float32).reshape(4, 4),
        np.arange(32, dtype=ml_dtypes.bfloat16),
        bytes(range(64)),
        bytearray(range(64)),
        memoryview(bytes(range(64))),
    ],
    ids=["float32", "bfloat16", "bytes", "bytearray", "memoryview"],
)
def test_memcpy_moves_bytes_to_the_board_and_back(memory, host, direction):
    assert cnrtMemcpy(memory, host, 64, direction) == cnrtSuccess
    expected = host.tobytes() if isinstance(host, np.ndarray) else bytes(host)
    assert held(memory).tobytes() == expected


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_the_first_bytes_of_a_matrix_which_has_no_shape_of_one_axis(memory):
    assert cnrtMemcpy(memory, np.asmatrix(np.arange(16)), 64, cnrtMemcpyHostToDev) == cnrtSuccess
    assert held(memory).view(np.int64).tolist() == [*range(8)]


def test_fresh_memory_is_poisoned_and_keeps_what_is_copied(memory):
    assert (held(memory) == 0xFF).all()
    assert cnrtMemcpy(memory + 8, b"abcdef", 3, cnrtMemcpyHostToDev) == cnrtSuccess
    assert held(memory).tobytes() == b"\xff" * 8 + b"abc" + b"\xff" * 53
    assert held(memory + 12 - 4, 4).tobytes() == b"abc\xff"


def test_between_device_pointers_overlap_included(device, memory):
    content = bytes(range(64))
    assert cnrtMemcpy(memory, content, 64, cnrtMemcpyHostToDev) == cnrtSuccess
    _, other = cnrtMalloc(device, 64)
    assert cnrtMemcpy(other, memory, 64, cnrtMemcpyDevToDev) == cnrtSuccess
    assert held(other).tobytes() == content
    assert cnrtMemcpy(memory + 1, memory, 63, cnrtMemcpyDevToDev) == cnrtSuccess
    assert held(memory).tobytes() == content[:1] + content[:63]


def test_host_to_host_and_nothing(memory):
    out = np.zeros((2, 2), np.int32)
    assert cnrtMemcpy(out, np.arange(4, dtype=np.int32), 16, cnrtMemcpyHostToHost) == cnrtSuccess
    assert out.tolist() == [[0, 1], [2, 3]]
    assert cnrtMemcpy(memory + 64, b"", 0, cnrtMemcpyHostToDev) == cnrtSuccess


def test_a_copy_does_not_alias_the_host_array(memory):
    array = np.zeros(16, np.float32)
    cnrtMemcpy(memory, array, 64, cnrtMemcpyHostToDev)
    array[:] = 1
    assert (held(memory) == 0).all()


@pytest.mark.parametrize(
    ("dst", "src", "nbytes", "direction", "expected", "reason"),
    [
        ("device", "host", 64, 17, cnrtErrorMemcpyDirectionInvalid, "direction = 17: it must be a cnrtMemTransDir_t"),
        ("device", "host", 64, None, cnrtErrorMemcpyDirectionInvalid, "direction = None"),
        ("device", "device", 64, cnrtMemcpyPeerToPeer, cnrtErrorNotSupport, "a link between boards is not modelled"),
        ("device", "host", -1, cnrtMemcpyHostToDev, cnrtErrorArgsInvalid, "nbytes = -1: a size is an integer"),
        ("device", "host", 1.5, cnrtMemcpyHostToDev, cnrtErrorArgsInvalid, "nbytes = 1.5: a size is an integer"),
        (None, "host", 64, cnrtMemcpyHostToDev, cnrtErrorArgsInvalid, "dst is NULL"),
        ("device", None, 64, cnrtMemcpyHostToDev, cnrtErrorArgsInvalid, "src is NULL: pass a NumPy array"),
        ("device", "host", 64, cnrtMemcpyDevToHost, cnrtErrorArgsInvalid, "dst is a device pointer, and the direction"),
        ("host", "host", 64, cnrtMemcpyHostToDev, cnrtErrorArgsInvalid, "dst is of type ndarray, memory of the host"),
        ("host", "host", 64, cnrtMemcpyDevToHost, cnrtErrorArgsInvalid, "src is of type ndarray, memory of the host"),
        ("device", "host", 65, cnrtMemcpyHostToDev, cnrtErrorArgsInvalid, "dst needs 65 B at byte 0 of buffer, which"),
        ("past", "host", 64, cnrtMemcpyHostToDev, cnrtErrorArgsInvalid, "dst needs 64 B at byte 8 of buffer, which"),
        ("before", "host", 8, cnrtMemcpyHostToDev, cnrtErrorArgsInvalid, "dst needs 8 B at byte -8 of buffer"),
        ("small", "device", 64, cnrtMemcpyDevToHost, cnrtErrorArgsInvalid, "dst has 4 B and 64 B are to be copied"),
        ("device", "strided", 32, cnrtMemcpyHostToDev, cnrtErrorArgsInvalid, "np.ascontiguousarray makes one"),
        ("device", "list", 8, cnrtMemcpyHostToDev, cnrtErrorArgsInvalid, "src is of type list: pass a NumPy array"),
        ("device", "objects", 8, cnrtMemcpyHostToDev, cnrtErrorArgsInvalid, "src is of type ndarray"),
        ("bytes", "device", 8, cnrtMemcpyDevToHost, cnrtErrorArgsInvalid, "dst is read-only memory of the host"),
        ("device", "other board", 64, cnrtMemcpyDevToDev, cnrtErrorArgsInvalid, "memory of two boards: copy through"),
        ("host", "timing-only", 64, cnrtMemcpyDevToHost, cnrtErrorNotSupport, "the device is timing-only"),
    ],
)
def test_invalid_copies_are_refused(memory, caplog, dst, src, nbytes, direction, expected, reason):
    arguments = {
        None: None,
        "device": memory,
        "past": memory + 8,
        "before": memory - 8,
        "host": np.zeros(16, np.float32),
        "small": np.zeros((), np.float32),
        "strided": np.zeros(16, np.float32)[::2],
        "list": [0] * 64,
        "objects": np.array([None]),
        "bytes": b"12345678",
        "other board": cnrtMalloc(mlusim.Device("mlu590-h8"), 64)[1],
        "timing-only": cnrtMalloc(mlusim.Device("mlu590-h8", data=False), 64)[1],
    }
    before = held(memory)
    refused(caplog, cnrtMemcpy(arguments[dst], arguments[src], nbytes, direction), expected, reason)
    assert (held(memory) == before).all()


def test_use_after_free_and_free_twice(memory, caplog):
    assert cnrtFree(memory) == cnrtSuccess
    status = cnrtMemcpy(memory, b"x", 1, cnrtMemcpyHostToDev)
    refused(caplog, status, cnrtErrorArgsInvalid, "dst points into buffer, which was freed")
    caplog.clear()
    refused(caplog, cnrtFree(memory), cnrtErrorCndrvFuncCall, "<pointer to buffer of mlu370-x4> is freed already")


def test_copies_and_free_come_after_queued_launches(caplog):
    async def store(core, x):
        if not core.is_memory_core:
            core.store(x[0], 3)

    async def fail(core, x):
        raise ValueError(x.name)

    device = mlusim.Device("mlu370-x4")
    _, pointer = cnrtMalloc(device, 64, "buffer")
    cnrtMemcpy(pointer, bytes(64), 64, cnrtMemcpyHostToDev)
    tensor = pointer.view((64,), np.dtype(np.uint8))
    device.launch(store, tensor, kind="BLOCK", dim=1)
    assert held(pointer)[0] == 3
    device.launch(store, tensor, kind="BLOCK", dim=1)
    cnrtMemcpy(pointer, b"x", 1, cnrtMemcpyHostToDev)
    assert held(pointer, 1).tobytes() == b"x"
    device.launch(fail, tensor, kind="BLOCK", dim=1)
    refused(caplog, cnrtFree(pointer), cnrtErrorCndrvFuncCall, "KernelError: task 0")
    assert pointer.allocation.freed


def test_free_accepts_only_pointers_from_malloc(memory, caplog):
    refused(caplog, cnrtFree(memory + 8), cnrtErrorArgsInvalid, "buffer + 8 of mlu370-x4> is 8 B from the start")
    caplog.clear()
    refused(caplog, cnrtFree(np.zeros(2)), cnrtErrorArgsInvalid, "pointer is of type ndarray, memory of the host")
    assert cnrtFree(None) == cnrtSuccess
    assert cnrtFree(memory + 8 - 8) == cnrtSuccess


def test_freed_memory_can_be_allocated_again():
    device = mlusim.Device("mlu370-x4", data=False)
    size = device.board.gdram_bytes // 2 + 128
    status, first = cnrtMalloc(device, size)
    assert status == cnrtSuccess
    assert cnrtMalloc(device, size) == (cnrtErrorNoMem, None)
    assert cnrtFree(first) == cnrtSuccess
    assert cnrtMalloc(device, size)[0] == cnrtSuccess


@pytest.mark.parametrize("nbytes", [0, -1, 1.5, "64", None])
def test_sizes_that_malloc_refuses(device, caplog, nbytes):
    status, pointer = cnrtMalloc(device, nbytes)
    assert pointer is None
    refused(caplog, status, cnrtErrorArgsInvalid, f"nbytes = {nbytes!r}: a size is an integer of at least 1 byte")


def test_malloc_refuses_a_name_that_is_not_text(device, caplog):
    status, pointer = cnrtMalloc(device, 64, 7)
    assert pointer is None
    refused(caplog, status, cnrtErrorArgsInvalid, "name=7 is not text")


def test_malloc_without_room_reports_the_sizes(caplog):
    device = mlusim.Device("mlu370-x4", data=False)
    status, pointer = cnrtMalloc(device, device.board.gdram_bytes + 1)
    assert pointer is None
    refused(caplog, status, cnrtErrorNoMem, "does not fit: ")
    assert "0 B in use" in caplog.text


def test_malloc_without_a_device(caplog):
    status, pointer = cnrtMalloc(64, 64)
    assert pointer is None
    refused(caplog, status, cnrtErrorArgsInvalid, "the first argument is of type int, not a mlusim.Device")
