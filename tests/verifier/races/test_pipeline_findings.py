"""One mistake in a pipeline is one finding, and a wrong index of a buffer is named as one."""

from __future__ import annotations

import numpy as np
import pytest

from findings import ONE, X, kinds_of, the_only_error
from kernel_lines import line_of
from mlusim import Output, verify


async def _load(core, tile, row):
    core.memcpy_async(tile, row)


async def _store(core, row, tile):
    core.memcpy_async(row, tile)


def test_a_sync_missing_at_the_end_of_a_loop_of_helpers_is_one_finding():
    async def kernel(core, x, out):
        given, made = (core.nram.alloc((2, 8), x.dtype, name) for name in ("given", "made"))
        for step in range(x.shape[0] + 2):
            if step >= 2:
                await _store(core, out[step - 2], made[step % 2])
            if 1 <= step <= x.shape[0]:
                core.mul(made[(step - 1) % 2], given[(step - 1) % 2], 2.0)
            if step < x.shape[0]:
                await _load(core, given[step % 2], x[step])
            # Here a sync is missing.

    finding = the_only_error(kernel, X, Output.like(X), **ONE)
    line = line_of(kernel, "for step in range(x.shape[0] + 2):")
    assert finding.remedy == (
        f"`await core.sync()`, which waits for all pipes, at the end of the loop at test_pipeline_findings.py:{line}"
    )


def test_an_index_of_a_pipeline_that_is_wrong_is_one_finding():
    async def kernel(core, x, out):
        tile = core.nram.alloc((3, 8), x.dtype, "tile")
        for step in range(24):
            core.memcpy_async(tile[step % 3], x[step])
            if step >= 1:
                core.mul(tile[(step - 1) % 2], tile[(step - 1) % 2], 2.0)
            if step >= 2:
                core.memcpy_async(out[step - 2], tile[(step - 2) % 3])
            await core.sync()
        core.memcpy_async(out[22:24], tile[:2])

    x = np.zeros((24, 8), np.float32)
    finding = the_only_error(kernel, x, Output.like(x), **ONE)
    compute = finding.sites[1].location
    assert finding.remedy == (
        f"correct the index of tile at {compute}: only 8 of 24 executions of {finding.sites[0].location} race"
    )
    assert "race" in kinds_of(finding)


def test_syncs_missing_in_every_turn_are_no_wrong_index():
    async def kernel(core, x, out):
        tile = core.nram.alloc(8, x.dtype, "tile")
        for row in range(8):
            core.memcpy_async(tile, x[row])
            core.mul(tile, tile, 2.0)
            core.memcpy_async(out[row], tile)
            await core.sync()

    load, store = verify(kernel, X, Output.like(X), **ONE).errors
    assert "index" not in load.remedy + store.remedy


@pytest.mark.parametrize("store_first", [True, False])
def test_a_sync_missing_at_the_end_of_a_loop_of_one_tile_is_one_finding(store_first):
    async def kernel(core, x, out):
        tile = core.nram.alloc(x.shape, x.dtype, "tile")
        for step in range(3):
            if step == 2 and store_first:
                core.memcpy_async(out, tile)
            if step == 0:
                core.memcpy_async(tile, x)
            if step == 1:
                core.mul(tile, tile, 2.0)
            if step == 2 and not store_first:
                core.memcpy_async(out, tile)
            # Here a sync is missing.

    finding = the_only_error(kernel, X, Output.like(X), **ONE)
    line = line_of(kernel, "for step in range(3):")
    assert finding.remedy.endswith(f"all pipes, at the end of the loop at test_pipeline_findings.py:{line}")


def test_a_barrier_missing_in_a_pipeline_of_one_tile_is_one_finding():
    async def kernel(core, x, out):
        box = core.sram.alloc((4, 8), x.dtype, "box")
        tile = None if core.is_memory_core else core.nram.alloc(8, x.dtype, "tile")
        for step in range(4):
            if core.is_memory_core:
                if step == 0:
                    core.memcpy_async(box, x)
            else:
                if step == 1:
                    core.memcpy_async(tile, box[core.core_id])
                if step == 2:
                    core.mul(tile, tile, 2.0)
                if step == 3:
                    core.memcpy_async(out[core.core_id], tile)
            # Here the barrier is missing.

    finding = the_only_error(kernel, X[:4], Output((4, 8)), dim=4)
    assert (finding.kind, finding.fields["loop"]) == ("task-race", line_of(kernel, "for step in range(4):"))
    assert kinds_of(finding).count("race") == 3


def test_two_syncs_missing_in_a_loop_of_one_tile_are_two_findings():
    async def kernel(core, x, out):
        tile = core.nram.alloc(8, x.dtype, "tile")
        for row in range(core.task_id, 8, 8):
            core.memcpy_async(tile, x[row])
            core.mul(tile, tile, 2.0)
            core.memcpy_async(out[row], tile)
        await core.sync()

    report = verify(kernel, X, Output.like(X), kind="BLOCK", dim=8)
    assert [finding.kind for finding in report.errors] == ["race", "race"]


def test_the_slot_that_a_pipeline_stores_before_it_is_computed_is_named():
    async def kernel(core, x, out):
        given, made = (core.nram.alloc((2, 8), x.dtype, name) for name in ("given", "made"))
        for step in range(x.shape[0] + 2):
            if step >= 2:
                core.memcpy_async(out[step - 2], made[(step - 1) % 2])
            if step < x.shape[0]:
                core.memcpy_async(given[step % 2], x[step])
            if 1 <= step <= x.shape[0]:
                core.mul(made[(step - 1) % 2], given[(step - 1) % 2], 2.0)
            await core.sync()

    finding = the_only_error(kernel, X, Output.like(X), **ONE)
    store, compute = (site.location for site in finding.sites)
    assert finding.remedy == (
        f"correct the part of made at {store} or {compute}: the first of them reads it before anything is written there"
    )


def test_a_wrong_slot_is_named_whatever_the_element_types_of_the_accesses():
    """Copies of BANG C move bytes, and instructions access elements."""

    async def kernel(core, x, out):
        slots = core.nram.alloc((3, 8), x.dtype, "slots")
        for step in range(x.shape[0] + 2):
            if step >= 2:
                core.memcpy_async(out[step - 2].view(np.uint8), slots[(step - 1) % 3].view(np.uint8))
            if step < x.shape[0]:
                core.memcpy_async(slots[step % 3].view(np.uint8), x[step].view(np.uint8))
            if 1 <= step <= x.shape[0]:
                core.mul(slots[(step - 1) % 3], slots[(step - 1) % 3], 2.0)
            await core.sync()

    finding = the_only_error(kernel, X, Output.like(X), **ONE)
    store, compute = (site.location for site in finding.sites)
    assert finding.remedies[0] == (
        f"correct the part of slots at {store} or {compute}: nothing reads most of what the second of them writes"
    )


@pytest.mark.parametrize("slots", [3, 2])
def test_a_ring_with_too_few_slots_is_named(slots):
    """The load of a tile is issued two steps before its computation."""

    async def kernel(core, x, out):
        ring, made = (core.nram.alloc((depth, 8), x.dtype, "ring") for depth in (slots, 2))
        for step in range(11):
            if step < 8:
                core.memcpy_async(ring[step % slots], x[step])
            if 2 <= step < 10:
                core.mul(made[step % 2], ring[(step - 2) % slots], 2.0)
            if step >= 3:
                core.memcpy_async(out[step - 3], made[(step - 1) % 2])
            await core.sync()

    report = verify(kernel, X, Output.like(X), reference=2 * X, **ONE)
    if slots == 3:
        report.check()
        return
    (finding,) = report.errors
    load, compute = (site.location for site in finding.sites)
    assert finding.remedy.startswith(
        f"correct the part of ring at {load} or {compute}: the first of them replaces what was written there before"
    )
