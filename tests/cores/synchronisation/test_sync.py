"""Order within a pipe, parallel pipes, the effect of each sync, and the time at which bytes move."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mlusim.cores.core import Core
from mlusim.errors import InputError
from mlusim.hardware import board
from mlusim.host.device import Device
from mlusim.log import IO, MOVE, PIPES, VECTOR
from mlusim.memory.view import View

X4 = board("mlu370-x4")
SYNCS: dict[str, set[str]] = {
    "sync": {"io", "move", "vector"},
    "sync_io": {"io"},
    "sync_move": {"move"},
    "sync_compute": {"vector"},
    "sync_io_move_compute": {"io", "move", "vector"},
}


def names_of(device: Device) -> list[str]:
    return [device.log.ops[op] for op in device.log.columns()["op"]]


async def three_pipes(core: Core, x: View, order: str, sync: str, flags: dict[str, bool]) -> None:
    """One long piece of work on each pipe, in any order, and then a sync."""
    tile, one, two, work = (core.nram.alloc(100_000, np.int8) for _ in range(4))
    for pipe in order:
        if pipe == "i":
            core.memcpy_async(tile, x)
        elif pipe == "m":
            core.move(one, two)
        else:
            core.write_zero(work)
    await getattr(core, sync)(**flags)
    core.scalar(0)


@pytest.mark.parametrize("order", ["imv", "vmi", "miv"])
@pytest.mark.parametrize("sync", SYNCS)
def test_each_sync_waits_for_its_pipes_and_no_others(run: Any, sync: str, order: str) -> None:
    device = Device()
    run(three_pipes, device.upload(np.zeros(100_000, np.int8)), order, sync, {}, device=device)
    check_sync(device, sync, SYNCS[sync])


def test_the_pipes_of_a_sync_are_chosen_by_booleans(run: Any) -> None:
    message = r"^task 0 .*, test_sync\.py:\d+, at .* ns: move='no': choose True or False$"
    with pytest.raises(InputError, match=message):
        run(three_pipes, None, "", "sync_io_move_compute", {"move": "no"})


@pytest.mark.parametrize("io", [False, True])
@pytest.mark.parametrize("move", [False, True])
@pytest.mark.parametrize("compute", [False, True])
def test_sync_io_move_compute_waits_for_those_named(run: Any, io: bool, move: bool, compute: bool) -> None:
    device = Device()
    flags = {"io": io, "move": move, "compute": compute}
    run(three_pipes, device.upload(np.zeros(100_000, np.int8)), "imv", "sync_io_move_compute", flags, device=device)
    named = {"io": "io", "move": "move", "compute": "vector"}
    check_sync(device, "sync_io_move_compute", {named[flag] for flag, on in flags.items() if on})


def check_sync(device: Device, sync: str, pipes: set[str]) -> None:
    columns, names = device.log.columns(), names_of(device)
    ends = {PIPES[columns["pipe"][record]]: (columns["end_ps"][record], record) for record in range(3)}
    assert set(ends) == {"io", "move", "vector"}
    record = names.index(sync)
    last, waited_for = max([ends[pipe] for pipe in pipes], default=(columns["issue_ps"][record], -1))
    assert last >= columns["issue_ps"][record]
    assert columns["end_ps"][record] == last
    assert columns["waited_for"][record] == waited_for
    assert columns["detail"][record] == sum(1 << PIPES.index(pipe) for pipe in pipes)
    assert columns["issue_ps"][record + 1] == last + X4.cycles_ps(X4.issue_cycles)


def test_a_sync_with_nothing_to_wait_for_passes(run: Any) -> None:
    async def kernel(core: Core) -> None:
        for sync in SYNCS:
            await getattr(core, sync)()

    columns = run(kernel).log.columns()
    assert (columns["end_ps"] == columns["issue_ps"]).all()
    assert (columns["waited_for"] == -1).all()


def test_pipes_run_in_parallel(run: Any) -> None:
    device = Device()
    run(three_pipes, device.upload(np.zeros(100_000, np.int8)), "imv", "sync", {}, device=device)
    columns = device.log.columns()
    starts, ends = columns["start_ps"][:3], columns["end_ps"][:3]
    assert starts.max() < ends.min()


@pytest.mark.parametrize("pipe", ["io", "move", "vector"])
def test_a_pipe_runs_one_operation_at_a_time_in_order(run: Any, pipe: str) -> None:
    async def kernel(core: Core, x: View, out: View) -> None:
        one, two = core.nram.alloc(50_000, np.int8), core.nram.alloc(50_000, np.int8)
        for size in (40_000, 100, 30_000, 1):
            if pipe == "io":
                core.memcpy_async(one[:size], x[:size])
                core.memcpy_async(out[:size], one[:size])  # loads and stores share the one IO pipe
            elif pipe == "move":
                core.move(one[:size], two[:size])
            else:
                core.add(one[:size], one[:size], 1)

    device = Device()
    run(kernel, device.upload(np.zeros(50_000, np.int8)), device.alloc(50_000, np.int8), device=device)
    columns = device.log.columns()
    assert set(columns["pipe"]) == {PIPES.index(pipe)}
    assert (np.diff(columns["issue_ps"]) > 0).all()
    assert (columns["start_ps"][1:] == columns["end_ps"][:-1]).all()
    assert columns["waited_for"].tolist() == list(range(-1, len(columns["op"]) - 1))


def test_moves_start_up_one_by_one(run: Any) -> None:
    """A move within a core does not overlap the move before it."""

    async def kernel(core: Core) -> None:
        one, two = core.nram.alloc(10_000, np.int8), core.nram.alloc(10_000, np.int8)
        for _ in range(5):
            core.move(one, two)

    columns = run(kernel).log.columns()
    each = X4.cycles_ps(X4.move_startup_cycles + -(-10_000 // X4.move_bytes_per_cycle))
    assert (columns["end_ps"] - columns["start_ps"]).tolist() == [each] * 5


@pytest.mark.parametrize(("device", "independent"), [("mlu270-s4", False), ("mlu290", False), ("mlu370-x4", True)])
def test_io_and_move_pipes_are_separate_from_3xx(run: Any, device: str, independent: bool) -> None:
    async def kernel(core: Core, x: View) -> None:
        tile, one, two = (core.nram.alloc(64 * 1024, np.int8) for _ in range(3))
        for _ in range(2):
            core.memcpy_async(tile, x)
            core.move(one, two)
        await core.sync_move()
        core.memcpy_async(tile, x)

    target = Device(device)
    run(kernel, target.upload(np.zeros(64 * 1024, np.int8)), device=target)
    columns = target.log.columns()
    dma = np.isin(columns["pipe"], [IO, MOVE])
    starts, ends = columns["start_ps"][dma], columns["end_ps"][dma]
    if independent:
        assert starts[1] < ends[0]
    else:
        assert (starts[1:4] == ends[:3]).all()  # program order
        assert starts[4] >= ends[3]


# When bytes move


def test_use_before_sync_sees_poison(run: Any) -> None:
    """A move that overtakes the copy reads fresh NRAM; after a sync, it reads the data."""
    device = Device()
    x = device.upload(np.arange(1024, dtype=np.uint8))
    early, right = device.alloc(1024, np.uint8), device.alloc(1024, np.uint8)

    async def kernel(core: Core, x: View, early: View, right: View) -> None:
        tile, first, second = (core.nram.alloc(1024, np.uint8) for _ in range(3))
        core.memcpy_async(tile, x)
        core.move(first, tile)  # forgot: await core.sync_io()
        await core.sync()
        core.move(second, tile)
        await core.sync()
        await core.memcpy(early, first)
        await core.memcpy(right, second)

    run(kernel, x, early, right, device=device)
    assert (device.download(early) == 0xFF).all()
    np.testing.assert_array_equal(device.download(right), device.download(x))


def test_a_buffer_reused_before_its_store_is_done(run: Any) -> None:
    """A store reads its source when it completes, so a faster fill shows in the result."""
    device = Device()
    out = device.alloc((2, 4096), np.uint8)

    async def kernel(core: Core, out: View) -> None:
        tile = core.nram.alloc(4096, np.uint8)
        for turn in range(2):
            core.fill(tile, 1)
            await core.sync_compute()
            core.memcpy_async(out[turn], tile)
            if turn:
                await core.sync_io()
            core.fill(tile, 2)
            await core.sync()

    run(kernel, out, device=device)
    assert [set(row.tolist()) for row in device.download(out)] == [{2}, {1}]


def test_effects_come_at_completion_for_other_cores_too(run: Any) -> None:
    """A reader that does not wait for a writer of another cluster sees the previous bytes."""
    device = Device(X4.replace(dma_read_latency_ps=800_000, dma_write_latency_ps=300_000, core_start_skew_ps=5_000))
    cell, out = device.alloc(1, np.int32), device.alloc(8, np.int32)

    async def kernel(core: Core, cell: View, out: View) -> None:
        mine = core.nram.alloc(1, np.int32)
        if core.task_id == 0:
            core.fill(mine, 7)
            core.scalar(1500)
            await core.sync()
            await core.memcpy(cell, mine)
        else:
            core.scalar(core.task_id * 300)
            await core.memcpy(mine, cell)
            await core.memcpy(out[core.task_id : core.task_id + 1], mine)

    run(kernel, cell, out, device=device, dim=8)
    seen = device.download(out).tolist()[1:]
    assert set(seen) == {-1, 7}
    assert seen == sorted(seen)  # early ones see poison, late ones the value


# Results travel through the simulated memories


@pytest.mark.parametrize(("core_number", "byte"), [(0, 0), (1, 5), (3, 1023)])
def test_flipping_a_byte_of_nram_changes_exactly_the_outputs_that_depend_on_it(
    run: Any, core_number: int, byte: int
) -> None:
    """Each core holds one row in NRAM, writes it out, waits, and writes it out again."""
    x = np.random.default_rng(5).integers(0, 256, (4, 1024), np.uint8)
    device = Device()
    views = device.upload(x), device.alloc((2, 4, 1024), np.uint8)

    async def kernel(core: Core, x: View, out: View) -> None:
        if core.is_memory_core:
            return
        tile = core.nram.alloc(1024, np.uint8, "tile")
        await core.memcpy(tile, x[core.core_id])
        await core.memcpy(out[0, core.core_id], tile)
        core.scalar(100_000)
        await core.memcpy(out[1, core.core_id], tile)

    def flip(_: object) -> None:
        (tile,) = device._chip.clusters[0].core(core_number).nram.live
        tile.bytes()[byte] ^= 0x40

    device._chip.environment.after(50_000_000, flip)
    run(kernel, *views, device=device, dim=4, kind="UNION1")
    first, second = device.download(views[1])
    np.testing.assert_array_equal(first, x)
    changed = np.argwhere(second != x)
    assert changed.tolist() == [[core_number, byte]]
    assert second[core_number, byte] == x[core_number, byte] ^ 0x40


def test_a_flipped_byte_spreads_by_the_arithmetic(run: Any) -> None:
    """A column sum over rows: one byte of one row changes one sum, and a byte of the sum's buffer one output."""
    x = np.ones((8, 32), np.int32)
    device = Device()
    views = device.upload(x), device.alloc(32, np.int32)

    async def kernel(core: Core, x: View, out: View) -> None:
        tile, total = core.nram.alloc((8, 32), np.int32, "tile"), core.nram.alloc(32, np.int32)
        await core.memcpy(tile, x)
        core.scalar(100_000)
        await core.sync()
        core.sum_rows(total, tile)
        await core.sync()
        await core.memcpy(out, total)

    def flip(_: object) -> None:
        tile = device._chip.clusters[0].core(0).nram.live[0]
        tile.bytes().view(np.int32).reshape(8, 32)[3, 17] ^= 0x100

    device._chip.environment.after(50_000_000, flip)
    run(kernel, *views, device=device)
    expected = np.full(32, 8)
    expected[17] += 0x100
    assert device.download(views[1]).tolist() == expected.tolist()


def test_the_vector_pipe_is_logged_as_such(run: Any) -> None:
    device = Device()
    run(three_pipes, device.upload(np.zeros(100_000, np.int8)), "imv", "sync", {}, device=device)
    assert device.log.columns()["pipe"].tolist()[:3] == [IO, MOVE, VECTOR]
