"""Every direction of `__memcpy` moves real bytes between the memories, on the right pipe."""

from __future__ import annotations

import re
from operator import attrgetter
from typing import Any

import numpy as np
import pytest

from mlusim.cores.core import Core
from mlusim.errors import AllocationError, CopyError, KernelError, OperandError
from mlusim.hardware import board
from mlusim.host.device import Device
from mlusim.log import IO, MOVE
from mlusim.memory.kinds import DIRECTION_CODES, Direction, MemoryKind
from mlusim.memory.view import View

SIZE = 256
# The hardware has no copy within LDRAM without strides.
CONTIGUOUS = [each for each in Direction if each is not Direction.LDRAM2LDRAM]
PATTERN = np.random.default_rng(4).integers(0, 256, SIZE, np.uint8)


def buffer(core: Core, kind: MemoryKind, name: str) -> View:
    """A buffer in one of the core's memories, filled with bytes that no pattern contains."""
    scratch = getattr(core, kind.value)
    return scratch.alloc(SIZE, np.uint8, name) if kind is MemoryKind.SRAM else scratch.alloc(SIZE, np.uint8)


async def through(core: Core, x: View, out: View, spare: View, direction: Direction, blocking: bool) -> None:
    """GDRAM to the source memory, by `direction`, and from its destination back to GDRAM."""
    if core.is_memory_core or core.core_id:
        return
    source = x if direction.source is MemoryKind.GDRAM else buffer(core, direction.source, "source")
    target = spare if direction.destination is MemoryKind.GDRAM else buffer(core, direction.destination, "target")
    if source is not x:
        await core.memcpy(source, x)
    if blocking:
        await core.memcpy(target, source)
    else:
        core.memcpy_async(target, source)
        await core.sync()
    await core.memcpy(out, target)


def run_through(run: Any, direction: Direction, *, blocking: bool, device: Any = "mlu370-x4") -> Device:
    device = Device(device)
    out = device.alloc(SIZE, np.uint8)
    spare = device.alloc(SIZE, np.uint8)
    run(through, device.upload(PATTERN), out, spare, direction, blocking, device=device, dim=4, kind="UNION1")
    np.testing.assert_array_equal(device.download(out), PATTERN)
    return device


@pytest.mark.parametrize("board", ["mlu270-s4", "mlu370-x4", "mlu590-h8"])
@pytest.mark.parametrize("direction", CONTIGUOUS, ids=attrgetter("name"))
def test_blocking(run: Any, direction: Direction, board: str) -> None:
    columns = run_through(run, direction, blocking=True, device=board).log.columns()
    assert DIRECTION_CODES[direction] in columns["direction"]
    record = list(columns["direction"]).index(DIRECTION_CODES[direction])
    off_chip = {direction.source, direction.destination} & {MemoryKind.GDRAM, MemoryKind.LDRAM}
    assert columns["pipe"][record] == (IO if off_chip else MOVE)
    assert columns["bytes_requested"][record] == SIZE
    assert columns["bus_read_bytes"][record] == SIZE * (direction.source in off_chip)
    assert columns["bus_write_bytes"][record] == SIZE * (direction.destination in off_chip)


@pytest.mark.parametrize("direction", [each for each in Direction if each.asynchronous], ids=attrgetter("name"))
def test_asynchronous(run: Any, direction: Direction) -> None:
    run_through(run, direction, blocking=False)


@pytest.mark.parametrize("direction", [each for each in CONTIGUOUS if not each.asynchronous], ids=attrgetter("name"))
def test_not_asynchronous(run: Any, direction: Direction) -> None:
    """Not from LDRAM, not between SRAMs, and to LDRAM only from GDRAM."""
    with pytest.raises(
        CopyError, match=rf": memcpy_async has no {direction.name}: use `await core\.memcpy\(\.\.\.\)`$"
    ):
        run_through(run, direction, blocking=False)


def test_there_is_no_wram_to_wram(run: Any) -> None:
    async def kernel(core: Core, kind: MemoryKind) -> None:
        one, two = buffer(core, kind, "one"), buffer(core, kind, "two")
        await core.memcpy(one, two)

    with pytest.raises(CopyError, match=": __memcpy has no direction wram to wram; stage the bytes through NRA"):
        run(kernel, MemoryKind.WRAM)
    with pytest.raises(CopyError, match=": LDRAM2LDRAM needs strides: the hardware has no contiguous copy; stage the"):
        run(kernel, MemoryKind.LDRAM)


# The memory core


def test_the_memory_core_has_neither_nram_nor_wram(run: Any) -> None:
    async def kernel(core: Core, name: str) -> None:
        if core.is_memory_core:
            assert core.core_id == 0x80
            getattr(core, name).alloc(1, np.int8)

    for name in ("nram", "wram"):
        with pytest.raises(
            KernelError,
            match=rf"^memory core of cluster 0, test_directions\.py:\d+, at .* ns: the memory core runs the kernel "
            rf"too, and has no {name.upper()}: begin the kernel with `if core\.is_memory_core: return`, or stage "
            r"through core\.sram$",
        ):
            run(kernel, name, dim=4, kind="UNION1")


def test_a_kernel_without_an_early_return_is_told_the_line(run: Any) -> None:
    async def kernel(core: Core, out: View) -> None:
        core.add(out, out, out)

    device = Device()
    with pytest.raises(OperandError, match=r"the memory core has none: begin the kernel with `if core\.is_m"):
        run(kernel, device.alloc(64, "float32"), device=device, dim=4, kind="UNION1")


def test_five_stages_through_sram(run: Any) -> None:
    """The memory core stages a tile in SRAM, the cores work on it, the memory core writes it back."""
    device = Device()
    array = np.arange(4 * 64, dtype=np.float32).reshape(4, 64)
    x, out = device.upload(array), device.alloc((4, 64), np.float32)

    async def kernel(core: Core, x: View, out: View) -> None:
        staged = core.sram.alloc((4, 64), np.float32, "staged")
        if core.is_memory_core:
            await core.memcpy(staged, x)
        await core.sync_cluster()
        if not core.is_memory_core:
            mine = core.nram.alloc(64, np.float32)
            await core.memcpy(mine, staged[core.core_id])
            core.mul(mine, mine, 2.0)
            await core.sync()
            await core.memcpy(staged[core.core_id], mine)
        await core.sync_cluster()
        if core.is_memory_core:
            await core.memcpy(out, staged)

    run(kernel, x, out, device=device, dim=4, kind="UNION1")
    np.testing.assert_array_equal(device.download(out), array * 2)


def test_gdram_to_sram_runs_on_the_memory_cores_engine(run: Any) -> None:
    """Copies issued by four cores run one after the other; copies to NRAM would run in parallel."""

    async def kernel(core: Core, x: View) -> None:
        if core.is_memory_core:
            return
        await core.memcpy(core.sram.alloc(64 * 1024, np.uint8, f"{core.core_id}"), x)

    device = Device()
    run(kernel, device.upload(np.zeros(64 * 1024, np.uint8)), device=device, dim=4, kind="UNION1")
    columns = device.log.columns()
    ends = sorted(columns["end_ps"])
    starts = sorted(columns["start_ps"])
    assert len(ends) == 4
    assert starts[1:] == ends[:-1]


# Between clusters


def test_sram_to_sram_of_another_cluster(run: Any) -> None:
    device = Device()
    array = np.arange(2 * 32, dtype=np.int32).reshape(2, 32)
    x, out = device.upload(array), device.alloc((2, 32), np.int32)

    async def kernel(core: Core, x: View, out: View) -> None:
        mine = core.sram.alloc(32, np.int32, "mine")
        inbox = core.sram.alloc(32, np.int32, "inbox")
        if core.is_memory_core:
            await core.memcpy(mine, x[core.cluster_id])
            other = 1 - core.cluster_id
            await core.memcpy(core.sram.alloc(32, np.int32, "inbox", cluster=other), mine)
        await core.sync_all()
        if core.is_memory_core:
            await core.memcpy(out[core.cluster_id], inbox)

    run(kernel, x, out, device=device, dim=8, kind="UNION2")
    np.testing.assert_array_equal(device.download(out), array[::-1])


@pytest.mark.parametrize("side", ["read", "write"])
def test_another_clusters_sram_is_only_the_target_of_sram_to_sram(run: Any, side: str) -> None:
    async def kernel(core: Core) -> None:
        if core.is_memory_core or core.core_id:
            return
        theirs = core.sram.alloc(32, np.int32, "theirs", cluster=1 - core.cluster_id)
        mine = core.nram.alloc(32, np.int32) if side == "write" else core.sram.alloc(32, np.int32, "mine")
        await core.memcpy(*((theirs, mine) if side == "write" else (mine, theirs)))

    with pytest.raises(
        CopyError, match=r": this core cannot reach the SRAM of cluster 1 of mlu370-x4: stage the bytes"
    ):
        run(kernel, dim=8, kind="UNION2")


@pytest.mark.parametrize("cluster", [-1, 2])
def test_sram_beyond_the_union_is_an_error(run: Any, cluster: int) -> None:
    async def kernel(core: Core) -> None:
        core.sram.alloc(32, np.int32, "there", cluster=cluster)

    with pytest.raises(
        AllocationError, match=rf": sram\.alloc of 'there' in cluster {cluster}: the union has clusters 0 to 1$"
    ):
        run(kernel, dim=8, kind="UNION2")


def test_only_sram_is_in_each_cluster(run: Any) -> None:
    async def kernel(core: Core) -> None:
        core.nram.alloc(32, np.int32, cluster=0)

    with pytest.raises(AllocationError, match=r": nram\.alloc of cluster 0: only SRAM belongs to a cluster$"):
        run(kernel)


# SRAM as its cores see it


def test_sram_buffers_of_one_name_are_shared_by_the_cluster(run: Any) -> None:
    device = Device()
    out = device.alloc((2, 4), np.int32)

    async def kernel(core: Core, out: View) -> None:
        cells = core.sram.alloc(4, np.int32, "cells")
        if not core.is_memory_core:
            core.store(cells[core.core_id], 10 * core.task_id_y + core.core_id)
        await core.sync_cluster()
        if core.is_memory_core:
            await core.memcpy(out[core.task_id_y], cells)

    run(kernel, out, device=device, dim=(4, 2, 1), kind="UNION1")
    assert device.download(out).tolist() == [[0, 1, 2, 3], [10, 11, 12, 13]]


def test_cores_must_agree_on_shape_and_type_of_a_shared_buffer(run: Any) -> None:
    async def kernel(core: Core, nameless: bool) -> None:
        core.sram.alloc(4 + core.core_id % 2, np.int32, "" if nameless else "cells")

    with pytest.raises(
        AllocationError, match=r": sram\.alloc needs a name: all cores of the cluster that use the same name share"
    ):
        run(kernel, True, dim=4, kind="UNION1")
    with pytest.raises(
        AllocationError,
        match=r": sram\.alloc of 'cells' as int32 \[5\]: another core of the cluster made it int32 \[4\]; all must "
        r"agree$",
    ):
        run(kernel, False, dim=4, kind="UNION1")


def test_sram_has_no_scope_and_block_tasks_have_no_sram(run: Any) -> None:
    async def scoped(core: Core) -> None:
        with core.sram.scope():
            pass

    async def block(core: Core) -> None:
        core.sram.alloc(4, np.int32, "cells")

    with pytest.raises(AllocationError, match=r": sram has no scope: its buffers are shared and live as long as"):
        run(scoped, dim=4, kind="UNION1")
    with pytest.raises(
        KernelError, match=r": a BLOCK task has no cluster to share SRAM with: launch as UNION1 or larger$"
    ):
        run(block)


def test_sram_is_free_again_and_poisoned_for_the_next_job(run: Any) -> None:
    device = Device(board("mlu370-x4").replace(clusters=1, max_union=1))
    out = device.alloc((3, 64), np.uint8)

    async def kernel(core: Core, out: View) -> None:
        cells = core.sram.alloc(core.sram.usable_bytes, np.uint8, "all")
        if core.is_memory_core:
            await core.memcpy(out[core.task_id_y], cells[:64])
            core.store(cells[0], 1)

    run(kernel, out, device=device, dim=(4, 3, 1), kind="UNION1")
    assert (device.download(out) == 0xFF).all()


@pytest.mark.parametrize("direction", ["GDRAM2NRAM", "gdram2nram", Direction.GDRAM2NRAM])
def test_directions_may_be_given_by_name(run: Any, direction: Any) -> None:
    async def kernel(core: Core, x: View, out: View) -> None:
        tile = core.nram.alloc(SIZE, np.uint8)
        await core.memcpy(tile, x, SIZE, direction)
        core.memcpy_async(out, tile, SIZE, "NRAM2GDRAM")
        await core.sync()

    device = Device()
    out = device.alloc(SIZE, np.uint8)
    run(kernel, device.upload(PATTERN), out, device=device, dim=1, kind="BLOCK")
    np.testing.assert_array_equal(device.download(out), PATTERN)


@pytest.mark.parametrize(
    ("direction", "message"),
    [
        ("GDRAM2NARM", "direction='GDRAM2NARM' is not a direction of __memcpy: did you mean GDRAM2NRAM"),
        (
            3,
            "direction=3 is not a direction of __memcpy: write Direction.GDRAM2NRAM or 'GDRAM2NRAM'; choose one of ",
        ),
    ],
)
def test_an_unknown_direction_is_rejected(run: Any, direction: Any, message: str) -> None:
    async def kernel(core: Core, x: View) -> None:
        await core.memcpy(core.nram.alloc(SIZE, np.uint8), x, SIZE, direction)

    device = Device()
    with pytest.raises(CopyError, match=re.escape(message)):
        run(kernel, device.upload(PATTERN), device=device, dim=1, kind="BLOCK")
