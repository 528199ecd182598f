"""On-chip memory and LDRAM in a kernel: capacity, scopes, poison, and the largest tile that fits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import mlusim
from kernel_runs import run_alone
from mlusim.cores.core import Core
from mlusim.errors import AllocationError
from mlusim.hardware import board
from mlusim.host.device import Device
from mlusim.memory.view import View
from mlusim.units import KIB

X4 = board("mlu370-x4")
PLACE = r"^task 0 \(cluster 0, core 0\), test_scratch\.py:\d+, at [\d .]+ ns: "


def test_a_kernel_sees_capacity_and_free_bytes(run: Any) -> None:
    """Capacity less the compiler's share: 640 KiB of NRAM and 3968 KiB of SRAM on MLU370, 384 and 1920 elsewhere."""
    seen: dict[str, tuple[int, ...]] = {}

    async def kernel(core: Core, name: str) -> None:
        if not core.is_memory_core:
            seen[name] = (core.nram.usable_bytes // KIB, core.sram.usable_bytes // KIB)
            assert core.wram.usable_bytes == core.board.wram_bytes
            assert core.ldram.usable_bytes == core.board.ldram_bytes_per_core

    for name in ("mlu270-s4", "mlu290", "mlu370-x4", "mlu590-h8"):
        run(kernel, name, device=name, dim=4, kind="UNION1")
    assert seen == {
        "mlu270-s4": (384, 1920),
        "mlu290": (384, 1920),
        "mlu370-x4": (640, 3968),
        "mlu590-h8": (384, 1920),
    }


def test_an_allocation_too_large_names_the_largest_tile(run: Any) -> None:
    async def kernel(core: Core) -> None:
        core.nram.alloc((56, 56, 56), np.float32)

    with pytest.raises(
        AllocationError,
        match=PLACE
        + r"nram\.alloc of 702 464 B \(686 KiB\) does not fit: 655 360 B usable in the NRAM of cluster 0 core 0 of "
        r"mlu370-x4 \(786 432 B less 131 072 B reserved for the compiler\), 0 B in use, largest free range 655 360 B\. "
        r"Split axis 0 of \(56, 56, 56\): 52 of 56 rows of 12 544 B fit\.$",
    ):
        run(kernel)


def test_an_allocation_of_which_no_row_fits(run: Any) -> None:
    async def kernel(core: Core) -> None:
        core.nram.alloc(1000, np.int8)
        core.nram.alloc((2, 10**6), np.int8)

    with pytest.raises(
        AllocationError,
        match=PLACE
        + r".* 1 024 B in use, largest free range 654 336 B\. Not one row of 1 000 000 B fits: split an inner "
        r"axis, 654 336 elements fit\.$",
    ):
        run(kernel)


@pytest.mark.parametrize("shape", [(-1,), (4, -2), -5])
def test_extents_are_not_negative(run: Any, shape: Any) -> None:
    async def kernel(core: Core) -> None:
        core.nram.alloc(shape, np.int8)

    with pytest.raises(AllocationError, match=PLACE + r"alloc of shape \[.*\]: an extent cannot be negative$"):
        run(kernel)


def test_shapes(run: Any) -> None:
    async def kernel(core: Core) -> None:
        assert core.nram.alloc(5, "half").shape == (5,)
        assert core.nram.alloc((), "half").shape == ()
        assert core.nram.alloc((2, 0, 3), "half").shape == (2, 0, 3)
        assert core.nram.alloc([2, 3], "half").shape == (2, 3)
        assert core.nram.alloc((np.int64(2), np.uint8(3)), "half").shape == (2, 3)

    run(kernel)


def test_nested_scopes_free_their_buffers(run: Any) -> None:
    async def kernel(core: Core) -> None:
        usable = core.nram.usable_bytes
        outer = core.nram.alloc(1024, np.int8)
        assert core.nram.free_bytes == usable - 1024
        with core.nram.scope():
            core.nram.alloc(2048, np.int8)
            with core.nram.scope():
                core.nram.alloc(core.nram.free_bytes, np.int8)
                assert core.nram.free_bytes == 0
            assert core.nram.free_bytes == usable - 3072
        again = core.nram.alloc(2048, np.int8)
        assert again.allocation.address == 1024
        core.fill(outer, 1)

    run(kernel)


@pytest.mark.parametrize("memory", ["nram", "wram", "ldram"])
def test_fresh_buffers_are_poisoned_every_time(run: Any, memory: str) -> None:
    """Even if the previous task has written there."""
    device = Device(X4.replace(clusters=1, max_union=1, cores_per_cluster=1))
    out = device.alloc((3, 64), np.uint8)

    async def kernel(core: Core, out: View) -> None:
        fresh = getattr(core, memory).alloc(64, np.uint8)
        await core.memcpy(out[core.task_id], fresh)
        clean = core.nram.alloc(64, np.uint8)
        core.write_zero(clean)
        await core.sync()
        await core.memcpy(fresh, clean)

    run(kernel, out, device=device, dim=3)
    assert (device.download(out) == 0xFF).all()


def test_memory_is_freed_at_the_end_of_the_task(run: Any) -> None:
    async def kernel(core: Core) -> None:
        core.nram.alloc(core.nram.usable_bytes, np.int8)
        core.wram.alloc(core.wram.usable_bytes, np.int8)
        core.ldram.alloc(1 << 20, np.int8)

    device = run(kernel, dim=100)
    unit = device._chip.clusters[0].core(0)
    for memory in (unit.nram, unit.wram, unit.ldram):
        assert (memory.used_bytes, memory.live) == (0, ())
    assert unit.nram.peak_bytes == X4.nram_usable_bytes


def test_buffers_are_aligned(run: Any) -> None:
    async def kernel(core: Core) -> None:
        for scratch, alignment in ((core.nram, 128), (core.wram, 64), (core.ldram, 64)):
            for size in (1, 100, 129):
                assert scratch.alloc(size, np.int8).allocation.address % alignment == 0

    run(kernel)
    assert (X4.vector_alignment_bytes, X4.wram_alignment_bytes) == (128, 64)


def test_a_copy_in_flight_may_outlive_its_scope(run: Any) -> None:
    """As on the board, the bytes go to where the buffer was, whatever is there now."""
    device = Device()
    x, out = device.upload(np.full(4096, 7, np.uint8)), device.alloc(4096, np.uint8)

    async def kernel(core: Core, x: View, out: View) -> None:
        with core.nram.scope():
            core.memcpy_async(core.nram.alloc(4096, np.uint8), x)
        tile = core.nram.alloc(4096, np.uint8)
        await core.sync()
        await core.memcpy(out, tile)

    run(kernel, x, out, device=device)
    assert (device.download(out) == 7).all()


def test_synced_effects_are_applied_before_the_scope_ends(run: Any) -> None:
    """A fill that has ended does not count as a use of the freed buffer, although nothing has read its bytes."""

    async def kernel(core: Core) -> None:
        if core.is_memory_core:
            return
        with core.nram.scope():
            core.fill(core.nram.alloc(128, "int8"), 0)
            await core.sync()

    run(kernel, dim=4, kind="UNION1")


@pytest.mark.parametrize("shape", [6.5, (4, 2.0), np.dtype("int8"), "4"])
def test_a_shape_has_integer_extents(shape: Any) -> None:
    async def kernel(core: Core) -> None:
        core.nram.alloc(shape, "int8")

    with pytest.raises(AllocationError, match=PLACE + r"alloc of shape .*: a shape is an integer"):
        run_alone(kernel)


def test_a_buffer_allocated_in_a_loop_fills_the_memory() -> None:
    async def kernel(core: Core) -> None:
        while True:
            core.nram.alloc(4096, "float32")

    remedy = r"Free other buffers first: allocate before the loop, or inside `with core\.nram\.scope\(\)`\.$"
    with pytest.raises(AllocationError, match=remedy):
        run_alone(kernel)


@pytest.mark.parametrize("memory", ["nram", "ldram"])
def test_only_allocations_are_adopted(memory: str) -> None:
    async def kernel(core: Core) -> None:
        getattr(core, memory).adopt("x")

    with pytest.raises(AllocationError, match=PLACE + r"adopt\('x'\): it takes an allocation, .*; use alloc$"):
        run_alone(kernel)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"name": np.arange(3)}, r"alloc: name=array\(\[0, 1, 2\]\) is not text$"),
        (
            {"name": "shared", "cluster": "first"},
            r"sram\.alloc of 'shared' in cluster 'first': the union has clusters 0",
        ),
    ],
)
def test_names_and_clusters_of_buffers(wrong: dict[str, Any], message: str) -> None:
    async def kernel(core: Core) -> None:
        core.sram.alloc(64, np.float32, **wrong)

    with pytest.raises(AllocationError, match=message):
        mlusim.run(kernel, kind="UNION1", dim=4)


def test_a_memory_larger_than_this_machine_can_hold() -> None:
    async def kernel(core: Core) -> None:
        core.nram.alloc(64, np.float32)

    huge = replace(X4, nram_bytes=1 << 62)
    with pytest.raises(
        AllocationError,
        match=PLACE
        + r"your machine has no .* left for the NRAM of cluster 0 core 0 of mlu370-x4: choose a smaller board",
    ):
        mlusim.run(kernel, device=huge, kind="BLOCK", dim=1)
    assert mlusim.run(kernel, device=huge, kind="BLOCK", dim=1, data=False).time_ps
