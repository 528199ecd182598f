"""The log: records, their order, operand boxes, and the tables that their numbers refer to."""

from __future__ import annotations

import inspect
import itertools
from typing import Any

import numpy as np
import pytest

from mlusim.cores.core import Core
from mlusim.errors import InputError
from mlusim.hardware import board
from mlusim.host.device import Device
from mlusim.log import NO_OPERAND, NONE, PIPES, Log
from mlusim.log_tables import Box
from mlusim.memory.kinds import DIRECTION_CODES, Direction
from mlusim.memory.view import View

X4 = board("mlu370-x4")


def launch(kernel: Any, *arguments: Any, device: Device | None = None, dim: Any = 1, kind: str = "BLOCK") -> Device:
    device = device or Device()
    device.launch(kernel, *arguments, dim=dim, kind=kind)
    device.synchronize()
    return device


def test_names_and_boxes_are_interned() -> None:
    log = Log("board")
    assert [log.op(name) for name in ("memcpy", "sync", "memcpy")] == [0, 1, 0]
    assert log.ops == ["memcpy", "sync"]
    boxes = [log.box((2, 3), (12, 4), 4), log.box((6,), (4,), 4), log.box((2, 3), (12, 4), 4)]
    assert boxes == [0, 1, 0]
    assert log.boxes[1] == Box((6,), (4,), 4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda log: log.source_line([], 1, "f"), r"file=\[\] is not text"),
        (lambda log: log.source_line("k.cpp", "1", "f"), "line='1': pass an integer of at least 0"),
        (lambda log: log.selection([], 3), r"record=\[\]: pass an integer of at least 0"),
        (lambda log: log.selection(7, 3), "record 7 has no selection: `selected` has the records that do"),
    ],
)
def test_wrong_arguments_are_errors(call: Any, message: str) -> None:
    with pytest.raises(InputError, match=rf"^{message}$"):
        call(Log("board"))


# What a run writes


async def one_of_each(core: Core, x: View, out: View) -> None:
    tile = core.nram.alloc((4, 8), np.float32, "tile")
    other = core.nram.alloc((4, 8), np.float32)
    core.memcpy_async(tile, x[1:5, ::2])
    await core.sync_io()
    core.add(other, tile, tile)
    core.mask_select(other, tile, tile, other)
    core.move(tile, other)
    await core.sync()
    core.store(out[0, 0], await core.load(tile[2, 3]))
    core.scalar(2, count=5)
    await core.memcpy(out.pointer + 8, tile.pointer, 32, Direction.NRAM2GDRAM, 64, 32, 2)


@pytest.fixture(scope="module")
def device() -> Device:
    device = Device()
    x = np.arange(6 * 16, dtype=np.float32).reshape(6, 16)
    return launch(one_of_each, device.upload(x, "x"), device.alloc((3, 16), np.float32, "out"), device=device)


def test_records_are_in_program_order(device: Device) -> None:
    columns = device.log.columns()
    names = [device.log.ops[op] for op in columns["op"]]
    assert names == ["memcpy", "sync_io", "add", "mask_select", "memcpy", "sync", "load", "store", "scalar", "memcpy"]
    assert [PIPES[pipe] for pipe in columns["pipe"]] == (
        ["io", "sync", "vector", "vector", "move", "sync", "scalar", "scalar", "scalar", "io"]
    )
    assert (np.diff(columns["issue_ps"]) > 0).all()


def test_times_are_in_order(device: Device) -> None:
    columns = device.log.columns()
    assert (columns["issue_ps"] <= columns["start_ps"]).all()
    assert (columns["start_ps"] + columns["latency_ps"] <= columns["end_ps"]).all()
    (task,) = device.log.tasks
    assert task.start_ps <= columns["issue_ps"].min()
    assert columns["end_ps"].max() == task.end_ps
    waited = columns["waited_for"]
    for record, before in enumerate(waited):
        if before != NONE:
            assert columns["end_ps"][before] <= columns["end_ps"][record]


def test_each_record_names_its_line(device: Device) -> None:
    source, first = inspect.getsourcelines(one_of_each)
    said = [device.log.lines[line] for line in device.log.columns()["line"]]
    assert {place[0] for place in said} == {__file__}
    assert {place[2] for place in said} == {"one_of_each"}
    texts = [source[line - first].strip() for _, line, _ in said]
    calls = ("memcpy_async", "sync_io", "add", "select", "move", "sync()", "load", "store", "scalar", "memcpy(")
    assert all(call in text for call, text in zip(calls, texts, strict=True))


def test_operands_are_boxes(device: Device) -> None:
    log = device.log
    columns = log.columns()

    def operand(record: int, which: str) -> tuple[str, int, Box] | None:
        allocation = columns[f"{which}_alloc"][record]
        if allocation == NONE:
            return None
        box = log.boxes[columns[f"{which}_box"][record]]
        return log.allocations[allocation].name, int(columns[f"{which}_offset"][record]), box

    tile = ("tile", 0, Box((4, 8), (32, 4), 4))
    other = ("nram buffer 1", 0, Box((4, 8), (32, 4), 4))
    assert operand(0, "dst") == tile
    assert operand(0, "a") == ("x", 64, Box((4, 8), (64, 8), 4))
    assert operand(0, "b") is None
    assert [operand(2, which) for which in ("dst", "a", "b")] == [other, tile, tile]
    assert [operand(3, which) for which in ("dst", "a", "b")] == [other, tile, tile]
    assert log.more_operands == {3: [(columns["dst_alloc"][3], 0, columns["dst_box"][3])]}  # the second source
    assert (operand(6, "a"), operand(6, "dst")) == (("tile", 2 * 32 + 12, Box((), (), 4)), None)
    assert (operand(7, "dst"), operand(7, "a")) == (("out", 0, Box((), (), 4)), None)
    assert [operand(8, which) for which in ("dst", "a", "b")] == [None] * 3
    # The byte form is segments of bytes, with their count of N and not N - 1.
    assert operand(9, "dst") == ("out", 32, Box((3, 32), (64, 1), 1))
    assert operand(9, "a") == ("tile", 0, Box((3, 32), (32, 1), 1))
    assert NO_OPERAND == (NONE, NONE, NONE)


def test_bytes_counts_and_details(device: Device) -> None:
    columns = device.log.columns()
    directions = {code: direction.name for direction, code in DIRECTION_CODES.items()}
    copies = [directions.get(code) for code in columns["direction"]]
    assert copies == ["GDRAM2NRAM", None, None, None, "NRAM2NRAM", None, None, None, None, "NRAM2GDRAM"]
    assert columns["bytes_requested"].tolist() == [128, 0, 128, 128, 128, 0, 4, 4, 0, 96]
    # 32 loads of 4 B in segments of their own; a store of 4 B; three half units.
    assert columns["bus_read_bytes"].tolist() == [32 * 64, 0, 0, 0, 0, 0, 0, 64, 0, 3 * 64]
    assert columns["bus_write_bytes"].tolist() == [0, 0, 0, 0, 0, 0, 0, 64, 0, 3 * 64]
    assert columns["count"].tolist() == [1, 1, 1, 1, 1, 1, 1, 1, 5, 1]
    assert columns["detail"][[0, 4, 9]].tolist() == [0, 0, 1]  # asynchronous twice, then blocking
    assert columns["detail"][[2, 3]].tolist() == [32, 32]  # elements
    assert columns["alone_ps"][0] == columns["end_ps"][0] - columns["issue_ps"][0]


def test_tasks_and_launches() -> None:
    async def kernel(core: Core) -> None:
        core.scalar(1 + core.task_id)

    device = Device()
    for kind, dim in (("UNION1", (4, 2, 1)), ("BLOCK", (3, 1, 1))):
        device.launch(kernel, dim=dim, kind=kind)
    device.synchronize()
    first, second = device.log.launches
    assert (first.kernel, first.kind, first.dim, first.queue) == ("kernel", "UNION1", (4, 2, 1), 0)
    assert (second.kind, second.dim) == ("BLOCK", (3, 1, 1))
    assert first.end_ps < second.start_ps < second.end_ps
    tasks = device.log.tasks
    assert sorted(task.task_id for task in tasks if task.launch == 0 and not task.is_memory_core) == list(range(8))
    assert sorted((task.cluster, task.core) for task in tasks if task.launch == 0) == [
        (cluster, core) for cluster in (0, 1) for core in (0, 1, 2, 3, 0x80)
    ]
    assert sorted(task.task_id for task in tasks if task.launch == 1) == [0, 1, 2]
    for task in tasks:
        assert device.log.launches[task.launch].start_ps <= task.start_ps < task.end_ps
    owners = {int(task) for task in device.log.columns()["task"]}
    assert owners == set(range(len(tasks)))


def test_allocations_have_a_start_and_an_end() -> None:
    async def kernel(core: Core, x: View) -> None:
        if core.is_memory_core:
            return
        core.sram.alloc(32, np.int16, "shared")
        kept = core.nram.alloc(100, np.int8, "kept")
        with core.nram.scope():
            core.nram.alloc((2, 3), "half", "scoped")
            core.fill(kept, 1)
            await core.sync()
        core.wram.alloc(64, np.int8)
        core.ldram.alloc((4, 4), np.float32)

    device = Device()
    x = device.upload(np.zeros((4, 2), np.float32), "x")
    gone = device.alloc(8, np.int8, "gone")
    device.free(gone)
    launch(kernel, x, device=device, dim=4, kind="UNION1")
    records = device.log.allocations
    by_name = {name: list(group) for name, group in itertools.groupby(sorted(records, key=_name), key=_name)}
    assert {name: len(group) for name, group in by_name.items()} == {
        "gone": 1,
        "kept": 4,
        "ldram buffer 0": 4,
        "scoped": 4,
        "shared": 1,
        "wram buffer 0": 4,
        "x": 1,
    }
    (x_record,) = by_name["x"]
    assert (x_record.memory, x_record.nbytes, x_record.shape, x_record.dtype) == ("gdram", 32, (4, 2), "float32")
    assert (x_record.task, x_record.read_only, x_record.start_ps, x_record.end_ps) == (NONE, True, 0, NONE)
    assert by_name["gone"][0].end_ps == 0
    launch_end = max(task.end_ps for task in device.log.tasks)
    for name, group in by_name.items():
        for record in group:
            if name in ("x", "gone"):
                continue
            task = device.log.tasks[record.task]
            assert task.start_ps <= record.start_ps <= record.end_ps <= launch_end
            if name == "scoped":
                assert (record.memory, record.dtype, record.shape, record.nbytes) == ("nram", "float16", (2, 3), 12)
                assert record.address == 128
                assert record.end_ps == task.end_ps  # its scope ends with the last of the work
            if name in ("kept", "wram buffer 0", "ldram buffer 0"):
                assert record.end_ps == task.end_ps
            if name == "shared":
                assert record.end_ps == launch_end
                assert record.memory_name == "the SRAM of cluster 0 of mlu370-x4"


def _name(record: Any) -> str:
    return str(record.name)


def test_a_log_is_self_contained(device: Device) -> None:
    """Every number in a record is one of the tables'."""
    log = device.log
    columns = log.columns()
    for column, table in (("op", log.ops), ("task", log.tasks), ("line", log.lines), ("pipe", PIPES)):
        assert columns[column].min() >= 0
        assert columns[column].max() < len(table)
    for which in ("dst", "a", "b"):
        assert columns[f"{which}_alloc"].max() < len(log.allocations)
        assert columns[f"{which}_box"].max() < len(log.boxes)
        for allocation, offset, box in zip(
            *(columns[f"{which}_{part}"] for part in ("alloc", "offset", "box")), strict=True
        ):
            if allocation == NONE:
                continue
            shape, strides, itemsize = log.boxes[box].shape, log.boxes[box].strides, log.boxes[box].itemsize
            reach = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
            assert offset + sum(r for r in reach if r < 0) >= 0
            assert offset + sum(r for r in reach if r > 0) + itemsize <= log.allocations[allocation].nbytes


def test_repr_of_a_device_and_its_log():
    async def nothing(core):
        del core

    device = Device("mlu370-x4")
    device.launch(nothing)
    assert repr(device) == "<device mlu370-x4: 1 launch, nothing is queued>"
    device.synchronize()
    assert repr(device) == "<device mlu370-x4: 1 launch>"
    assert repr(device.log) == "<log of mlu370-x4: 0 records of 40 tasks>"
