"""A barrier that is missing between tasks, or is one of others, is one finding, wherever it shows."""

from __future__ import annotations

import pytest

from findings import X, the_only_error
from mlusim import Output


async def prefetch(core, x, out, fault):
    """The memory core loads four rows ahead; the cores store them."""
    box = core.sram.alloc((2, 4, x.shape[1]), x.dtype, "box")
    steps = x.shape[0] // 4
    barrier = core.sync_cluster
    if fault == "barriers of others":
        barrier = core.sync_all_mpu if core.is_memory_core else core.sync_all_ipu_within_cluster
    if core.is_memory_core:
        await core.memcpy(box[0], x[:4])
        await barrier()
        for step in range(1, steps):
            await core.memcpy(box[step % 2], x[4 * step : 4 * step + 4])
            await barrier()
        return
    tile = core.nram.alloc(x.shape[1], x.dtype, "tile")
    for step in range(steps):
        if not fault:
            await barrier()
        await core.memcpy(tile, box[step % 2, core.core_id])
        if fault:
            await barrier()
        await core.memcpy(out[4 * step + core.core_id], tile)


@pytest.mark.parametrize("fault", ["a barrier too late", "barriers of others"])
def test_the_first_load_of_a_pipeline_and_those_of_its_loop_lack_one_barrier(fault):
    finding = the_only_error(prefetch, X, Output.like(X), fault, dim=4)
    first = prefetch.__code__.co_firstlineno
    assert (finding.kind, finding.fields["sync"]) == ("task-race", "sync_cluster")
    assert [site.line - first for site in finding.sites] == [8, 18]
