"""Runs near the measurements, but not measured: the laws that they obey, and their known error."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from mlusim.analysis.known_error import BEYOND, MEASURED, NOT_MEASURED, cores_at_work, known_error_of
from mlusim.analysis.log_columns import LogColumns
from mlusim.analysis.lower_bound import lower_bound_of
from mlusim.analysis.metrics import measure
from mlusim.hardware import board
from mlusim.hardware.toml_board import to_toml
from mlusim.host.device import Device
from mlusim.units import KIB, MIB, PS_PER_S
from mlusim.validation import kernels

BOARDS = ["mlu270-s4", "mlu290-m5", "mlu370-x4", "mlu370-x8", "mlu590-h8", "mlu590-m9"]
HARD_SIGMOID_CHUNK = 43_520


def copied(name, nbytes, dtype="float16", tasks=None):
    """The device of a copy by all cores, or by some tasks."""
    device = Device(name, data=False)
    count = nbytes // np.dtype(dtype).itemsize
    x = device.upload(np.broadcast_to(np.zeros((), dtype), count), "x")
    out = device.alloc(count, dtype)
    device.launch(kernels.copy, [out], x, dim=tasks or device.board.cores, kind="BLOCK")
    device.synchronize()
    return device


def hard_sigmoid(rows, tasks):
    """The device of hard_sigmoid on rows of 2088960 floats on MLU290."""
    device = Device(board("mlu290").replace(nram_reserved_bytes=0), data=False)
    count = rows * 2_088_960
    x = device.upload(np.broadcast_to(np.float32(0), count), "x")
    device.launch(kernels.hard_sigmoid, x, device.alloc(count, "float32"), HARD_SIGMOID_CHUNK, dim=tasks, kind="BLOCK")
    device.synchronize()
    return device


def time_of(device):
    launch = device.log.launches[0]
    return launch.end_ps - launch.start_ps


def known(device):
    records = LogColumns(device.log, device.board)
    metrics = measure(device.log, device.board, theory_ops=0)
    return known_error_of(records, metrics, lower_bound_of(records, metrics))


@pytest.mark.parametrize("name", BOARDS)
def test_larger_copies_take_longer_at_a_rate_that_grows_to_that_of_the_dram(name):
    sizes = [4 * KIB << step for step in range(0, 16, 2)]
    times = [time_of(copied(name, size)) for size in sizes]
    rates = [2 * size / time * PS_PER_S for size, time in zip(sizes, times, strict=True)]
    assert times == sorted(times)
    # Cores that finish late let the rate of large copies vary a little.
    assert all(second > 0.99 * first for first, second in itertools.pairwise(rates))
    on = board(name)
    efficiency = 2 / (1 / on.dram_read_efficiency + 1 / on.dram_write_efficiency)
    assert rates[-1] < on.dram_bandwidth_bytes_per_s * efficiency


@pytest.mark.parametrize("name", BOARDS)
def test_the_time_of_a_copy_depends_on_its_bytes_not_on_its_elements(name):
    assert len({time_of(copied(name, 3 * MIB, dtype)) for dtype in ("int8", "float16", "float32")}) == 1


@pytest.mark.parametrize("nbytes", [8 * MIB, 64 * MIB])
def test_boards_with_faster_dram_copy_faster(nbytes):
    """By nominal bandwidth; MLU370-X4 and -X8 have the same, and eight or four clusters."""
    names = ["mlu270-s4", "mlu370-x4", "mlu590-h8", "mlu590-m9dg", "mlu590-m9"]
    times = [time_of(copied(name, nbytes)) for name in names]
    assert times == sorted(times, reverse=True)
    assert time_of(copied("mlu370-x8", nbytes)) == pytest.approx(times[1], rel=0.02)


def test_the_rate_of_a_task_of_hard_sigmoid_falls_as_tasks_are_added():
    """On MLU290, long before the total of the chip is reached; the kernel as a whole is never slower."""
    times = [time_of(hard_sigmoid(32, tasks)) for tasks in (4, 8, 16, 32, 64)]
    assert times == sorted(times, reverse=True)
    work = [tasks * time for tasks, time in zip((4, 8, 16, 32, 64), times, strict=True)]
    assert work == sorted(work)
    assert work[-1] > 2 * work[0]


@pytest.mark.parametrize("tasks", [4, 64])
@pytest.mark.grid(2)
def test_hard_sigmoid_is_linear_in_the_size_of_the_tensor(tasks):
    """Per task count, as measured on MLU290. In the model, cores leave their common step within the first chunks."""
    few, many = (time_of(hard_sigmoid(rows, tasks)) for rows in (32, 64))
    assert many == pytest.approx(2 * few, rel=0.08)


def test_few_cores_are_not_taken_for_a_measured_kernel():
    """All copies on MLU590 were measured on all cores. On one core, the time is that of its port, which is assumed."""
    every, one = (copied("mlu590-m9", 8 * MIB, tasks=tasks) for tasks in (48, 1))
    assert [cores_at_work(LogColumns(device.log, device.board)) for device in (every, one)] == [48, 1]
    measured, beyond = known(every), known(one)
    assert (measured.level, measured.why) == (MEASURED, "")
    assert (beyond.level, beyond.why) == (BEYOND, "fewer than 48 of 48 cores on the family mlu590")
    assert measured.half_width < 0.1
    assert beyond.half_width > 0.15
    # A quarter of the cores is near enough, and depends more on the ports than all of them.
    quarter = known(copied("mlu590-m9", 8 * MIB, tasks=12))
    assert quarter.level == MEASURED
    assert measured.half_width < quarter.half_width < beyond.half_width


def moves(core, x, out):
    """Views of 16 KiB of two tensors and of this core's memories, and shared ones of its cluster."""
    piece = slice(core.core_id * 16 * KIB, (core.core_id + 1) * 16 * KIB)
    return x[piece], out[piece], core.nram.alloc(16 * KIB, x.dtype), core.sram.alloc(64 * KIB, x.dtype, "s")[piece]


async def by_atomics(core, x, out):
    source, target, tile, _ = moves(core, x, out)
    await core.memcpy(tile, source)
    await core.atomic_reduce_add(target, tile)


async def through_ldram(core, x, out):
    source, target, tile, _ = moves(core, x, out)
    spilled = core.ldram.alloc(16 * KIB, x.dtype)
    await core.memcpy(tile, source)
    await core.memcpy(spilled, tile)
    await core.memcpy(tile, spilled)
    await core.memcpy(target, tile)


async def through_sram(core, x, out):
    source, target, _, shared = moves(core, x, out)
    await core.memcpy(shared, source)
    await core.memcpy(target, shared)


async def within_dram(core, x, out):
    source, target, _, _ = moves(core, x, out)
    await core.memcpy(target, source)


async def on_chip(core, x, out):
    source, _, tile, shared = moves(core, x, out)
    await core.memcpy(tile[:64], source[:64])
    for _ in range(9):
        await core.memcpy(shared, tile)


async def exponentials(core, x, out):
    source, target, tile, _ = moves(core, x, out)
    await core.memcpy(tile, source)
    core.exp(tile.view("float32"), tile.view("float32"))
    await core.memcpy(target, tile)


async def sums(core, x, out):
    source, _, tile, _ = moves(core, x, out)
    await core.memcpy(tile, source)
    core.sum(tile.view("float32")[:1], tile.view("float32"))


async def products(core, x, out, dtype="float16"):
    source, target, tile, _ = moves(core, x, out)
    left, weights = tile.view(dtype).reshape(-1, 64)[:64], core.wram.alloc((64, 64), dtype)
    await core.memcpy(tile, source)
    await core.memcpy(weights, left)
    result = core.nram.alloc((64, 64), "float32")
    core.matmul(result, left, weights)
    await core.memcpy(target.view("float32").reshape(64, 64), result)


async def convolutions(core, x, out):
    source, target, tile, _ = moves(core, x, out)
    image, weights = tile.view("float32")[:1024].reshape(4, 4, 64), core.wram.alloc(4096, "float32")
    await core.memcpy(tile, source)
    await core.memcpy(weights, tile.view("float32"))
    result = core.nram.alloc((4, 4, 64), "float32")
    core.conv(result, image, weights, 64, 1, 1, 1, 1)
    await core.memcpy(target.view("float32")[:1024].reshape(4, 4, 64), result)


def test_the_kind_of_short_loads_is_explained():
    async def short_rows(core, x, out):
        row = None if core.is_memory_core else core.nram.alloc(KIB, np.float32)
        for start in range(core.task_id * KIB, 0 if row is None else len(x), core.task_dim * KIB):
            await core.memcpy(row, x[start : start + KIB])
            core.add(row, row, row)
            await core.memcpy(out[start : start + KIB], row)

    device = Device("mlu370-x4", data=False)
    x, out = (device.alloc(128 * KIB, np.float32) for _ in range(2))
    device.launch(short_rows, x, out)
    device.synchronize()
    assert " of the kind 'row loads' (arithmetic on copies of less than 16 KiB) that the fit did" in known(device).text


def test_a_board_file_is_its_preset_until_a_value_changes(tmp_path):
    """Its sources name the file, not the preset's sources."""
    path, text = tmp_path / "mine.toml", to_toml(board("mlu370-x4"))
    path.write_text(text)
    assert known(copied(path, MIB)) == known(copied("mlu370-x4", MIB))
    path.write_text(text.replace("issue_cycles = ", "issue_cycles = 1"))
    assert known(copied(path, MIB)).text == "not measured: a board that is not a preset (issue_cycles changed)"


@pytest.mark.parametrize(
    ("kernel", "kind"),
    [
        (by_atomics, "atomics"),
        (through_ldram, "copy of LDRAM"),
        (through_sram, "copy through SRAM"),
        (within_dram, "copy within DRAM"),
        (on_chip, "copy on chip"),
        (exponentials, "function other than a logarithm"),
        (sums, "reduction"),
        (products, "matmul of halves or integers"),
        (convolutions, "convolution"),
    ],
)
def test_kinds_without_a_measurement_have_no_band(kernel, kind):
    """MLU370 has measurements of copies, arithmetic and matmuls of floats, which are not these."""
    device = Device("mlu370-x4", data=False)

    async def on_cores(core, x, out):
        # Repeated, so that the launch is the smaller part.
        for _ in range(0 if core.is_memory_core else 20):
            with core.nram.scope(), core.wram.scope(), core.ldram.scope():
                await kernel(core, x, out)

    x = device.upload(np.broadcast_to(np.int8(0), 64 * KIB), "x")
    device.launch(on_cores, x, device.alloc(64 * KIB, np.int8), dim=4, kind="UNION1")
    device.synchronize()
    found = known(device)
    assert (found.kind, found.level, found.half_width) == (kind, NOT_MEASURED, None)
    assert found.text == f"not measured: the kind {kind!r}"
