"""Rejected loops of equal small copies, with the line of the kernel."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from counted_loops import PLACE
from mlusim.cores.core import Core
from mlusim.errors import AccessError, AllocationError, CopyError, InputError, KernelError, OperandError
from mlusim.host.device import Device
from mlusim.memory.addresses import Addresses, IndexedAxis
from mlusim.memory.view import View


def test_an_index_in_flight_or_out_of_range(run: Any) -> None:
    device = Device()
    x = device.upload(np.zeros((10, 4), np.int16))
    where = device.upload(np.array([0, 1, 12], np.int32))

    async def kernel(core: Core, x: View, where: View, wait: bool) -> None:
        held, tile = core.nram.alloc(3, np.int32), core.nram.alloc((3, 4), np.int16)
        core.memcpy_async(held, where)
        if wait:
            await core.sync()
        axis = IndexedAxis(extent=10, step=1, start=0, stop=10)
        if not wait:
            held = core.nram.alloc(3, np.uint8)  # fresh: 255
        await core.memcpy_rows(tile, x, None, Addresses((3,), (0,), index=held, axes=(axis,)))

    with pytest.raises(
        AccessError, match=PLACE + "memcpy_rows: index 12 of lookup 2, column 0, is outside an axis of 10$"
    ):
        run(kernel, x, where, True, device=device)
    device = Device()
    x, where = device.upload(np.zeros((10, 4), np.int16)), device.upload(np.array([0, 1, 2], np.int32))
    with pytest.raises(
        AccessError, match=PLACE + "memcpy_rows: index 255 of lookup 0, column 0, is outside an axis of 10$"
    ):
        run(kernel, x, where, False, device=device)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (lambda c, x, t: (t, x, [0], [10]), AccessError, "memcpy_rows: index 10 is outside <view of input"),
        (lambda c, x, t: (t, x, [-1], [0]), AccessError, "memcpy_rows: index -1 is outside <view of nram buffer 0"),
        (
            lambda c, x, t: (t, x, [0], np.uint64([1 << 63])),
            AccessError,
            "memcpy_rows: index 9223372036854775808 is bey",
        ),
        (
            lambda c, x, t: (t, x, [0, 1], [0]),
            AccessError,
            "2 destination and 1 source indices: both sides need the same number",
        ),
        (lambda c, x, t: (t, x), AccessError, "memcpy_rows of 10 rows of <view of nram buffer 0"),
        (lambda c, x, t: (t, x, [], []), AccessError, "a loop of no copies from <.*> to <.*>: guard it with `if`"),
        (lambda c, x, t: (t, x[3:3]), AccessError, "a loop of no copies from"),
        (
            lambda c, x, t: (t, x, [0.0], [0]),
            OperandError,
            r"memcpy_rows with indices of float64 \[1\]: they must be one axis",
        ),
        (
            lambda c, x, t: (t, x, [[0]], [[0]]),
            OperandError,
            r"memcpy_rows with indices of int64 \[1, 1\]: they must be one",
        ),
        (lambda c, x, t: (t, x, [True], [0]), OperandError, "memcpy_rows with indices of bool"),
        (
            lambda c, x, t: (t, x[:, :2], [0], [0]),
            CopyError,
            "memcpy_rows of rows of <.*> to rows of <.*>: rows must have",
        ),
        (
            lambda c, x, t: (t[:, ::2], x[:, :2], [0], [0]),
            CopyError,
            "memcpy_rows of <.*> with strides .*: each row must",
        ),
        (lambda c, x, t: (t[0, 0], x), CopyError, "memcpy_rows of <.*>: it needs an axis of rows"),
        (lambda c, x, t: (t, x[0, 0]), CopyError, "memcpy_rows of <.*>: it needs an axis of rows"),
        (
            lambda c, x, t: (t[1:], t[:7]),
            OperandError,
            "memcpy_rows from <.*> to <.*>: they overlap; copy through another",
        ),
        (lambda c, x, t: (x, t, [0], [0]), AccessError, "input is an input, and inputs are never written"),
        (
            lambda c, x, t: (c.wram.alloc((8, 4), "int16"), x, [0], [0]),
            CopyError,
            "GDRAM2WRAM of 8 B: sizes to WRAM must be a",
        ),
    ],
)
def test_memcpy_rows_rejects_invalid_arguments(run: Any, arguments: Any, error: type[Exception], message: str) -> None:
    device = Device()
    x = device.upload(np.zeros((10, 4), np.int16))

    async def kernel(core: Core, x: View) -> None:
        await core.memcpy_rows(*arguments(core, x, core.nram.alloc((8, 4), np.int16)))

    with pytest.raises(error, match=PLACE + message):
        run(kernel, x, device=device)


def test_row_copies_obey_the_limits_of_memcpy(run: Any) -> None:
    async def queued(core: Core) -> None:
        await core.memcpy_rows(core.nram.alloc((2, 64), "int8"), core.ldram.alloc((2, 64), "int8"), blocking=False)

    async def moved(core: Core, row: int) -> None:
        await core.memcpy_rows(core.nram.alloc((4, row), "int8"), core.nram.alloc((4, row), "int8"))

    with pytest.raises(
        CopyError, match=PLACE + r"memcpy_async has no LDRAM2NRAM: use memcpy_rows\(\.\.\., blocking=True\)$"
    ):
        run(queued)
    run(moved, 128, device="mlu270-s4")
    with pytest.raises(CopyError, match=PLACE + r"NRAM2NRAM of 100 B at \d+ and \d+ modulo 64: on arch 270"):
        run(moved, 100, device="mlu270-s4")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            lambda c, x, t: (t, x, [0], [0]),
            OperandError,
            "scalar_copy of <view of input .*>: both sides must be contiguous views",
        ),
        (lambda c, x, t: (t[:4], t[1:5]), OperandError, "scalar_copy from <.*> to <.*>: they overlap"),
        (
            lambda c, x, t: (t, c.nram.alloc(8, "int8")),
            OperandError,
            "scalar_copy of <.*int8.*> to <.*int32.*>: elements and rows must have the same size",
        ),
        (lambda c, x, t: (t, c.nram.alloc(9, "int32")), AccessError, "scalar_copy of 9 rows of <view of nram buffer 0"),
        (
            lambda c, x, t: (t, c.nram.alloc(9, "int32"), [8], [0]),
            AccessError,
            "scalar_copy: index 8 is outside <view of nra",
        ),
        (
            lambda c, x, t: (t, c.nram.alloc(8, "int32"), [1.5], [0]),
            OperandError,
            "scalar_copy with indices of float64",
        ),
    ],
)
def test_scalar_copy_rejects_invalid_arguments(run: Any, arguments: Any, error: type[Exception], message: str) -> None:
    device = Device()
    x = device.upload(np.zeros(8, np.int32))

    async def kernel(core: Core, x: View) -> None:
        await core.scalar_copy(*arguments(core, x, core.nram.alloc(8, np.int32)))

    with pytest.raises(error, match=PLACE + message):
        run(kernel, x, device=device)


def test_freed_rows(run: Any) -> None:
    async def kernel(core: Core, how: str) -> None:
        with core.nram.scope():
            gone = core.nram.alloc((4, 8), "int32", "gone")
        tile = core.nram.alloc((4, 8), "int32")
        if how == "rows":
            await core.memcpy_rows(tile, gone)
        else:
            await core.scalar_copy(gone, tile)

    for how in ("rows", "scalar"):
        with pytest.raises(
            AllocationError, match=PLACE + "gone in the NRAM of cluster 0 core 0 of mlu370-x4 was freed"
        ):
            run(kernel, how)


def test_a_counted_operation_that_is_not_awaited(run: Any) -> None:
    async def kernel(core: Core, x: View) -> None:
        core.memcpy_rows(core.nram.alloc((8, 4), np.int16), x)

    device = Device()
    with pytest.raises(KernelError, match=re.escape("core.memcpy_rows(...)` was ")):
        run(kernel, device.upload(np.zeros((8, 4), np.int16)), device=device)


@pytest.mark.parametrize(
    ("starts", "lengths", "options", "error", "message"),
    [
        ([0, 2], [2], {}, OperandError, "with lengths: src_rows and lengths must be arrays, one number for each run"),
        (None, [2], {}, OperandError, "with lengths: src_rows and lengths must be arrays"),
        ([0, 4], [2, 0], {}, OperandError, "with lengths: runs must have one or more rows, ascend, and not overlap"),
        ([0, 1], [2, 2], {}, OperandError, "with lengths: runs must have one or more rows, ascend, and not overlap"),
        ([4, 0], [2, 2], {}, OperandError, "with lengths: runs must have one or more rows, ascend, and not overlap"),
        ([0, 8], [2, 3], {}, AccessError, "memcpy_rows: index 10 is outside <view of input"),
        ([-1, 8], [2, 1], {}, AccessError, "memcpy_rows: index -1 is outside <view of input"),
        ([0], [9], {}, AccessError, "memcpy_rows of 9 rows of <view of nram buffer 0"),
        ([0], [2], {"blocking": True}, OperandError, "with lengths: omit dst_rows and pass blocking=False"),
        ([0], [2], {"dst_rows": [0]}, OperandError, "with lengths: omit dst_rows and pass blocking=False"),
    ],
)
def test_memcpy_rows_rejects_invalid_runs(
    run: Any, starts: Any, lengths: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    device = Device()
    x = device.upload(np.zeros((10, 4), np.int16))

    async def kernel(core: Core, x: View) -> None:
        arguments = {"src_rows": starts, "lengths": lengths, "blocking": False, **options}
        await core.memcpy_rows(core.nram.alloc((8, 4), np.int16), x, **arguments)

    with pytest.raises(error, match=PLACE + ".*" + message):
        run(kernel, x, device=device)


def test_numbers_and_flags_may_be_those_of_numpy(run: Any) -> None:
    async def kernel(core: Core, integer: Any, boolean: Any) -> None:
        tile, other = core.nram.alloc(8, "int32", "tile"), core.nram.alloc(8, "int32", "other")
        core.fill(tile, 0)
        await core.memcpy_rows(other, tile, blocking=boolean(0))
        await core.sync()
        await core.scalar_copy(other, tile, extra_cycles=integer(2))

    assert run(kernel, np.int64, np.bool_).log.table().tolist() == run(kernel, int, bool).log.table().tolist()
    with pytest.raises(InputError, match=PLACE + r"extra_cycles=-2: pass an integer of at least 0$"):
        run(kernel, lambda value: -value, bool)
    with pytest.raises(InputError, match=PLACE + r"blocking='0': choose True or False$"):
        run(kernel, int, str)


@pytest.mark.parametrize("kind", ["int32", "int64", "uint16", "uint32"])
def test_row_numbers_in_fresh_memory_are_recognised(run: Any, kind: str) -> None:
    async def kernel(core: Core) -> None:
        rows, x = core.nram.alloc(4, kind), core.nram.alloc((8, 4), np.float32)
        await core.memcpy_rows(core.nram.alloc((4, 4), np.float32), x, src_rows=rows)

    with pytest.raises(
        AccessError, match=r"index (\S+) is outside .*, which has 8; \1 is also what memory holds until"
    ):
        run(kernel)
