"""Uninitialised bytes name the write beside them, which may have the wrong part."""

from __future__ import annotations

import numpy as np

from findings import ONE, X, the_only_error
from kernel_lines import line_of
from mlusim import Output, verify


def test_uninitialised_bytes_name_the_line_that_writes_beside_them():
    async def kernel(core, x, out, slots=1):
        spill, tile = core.ldram.alloc((8, 8), x.dtype, "spill"), core.nram.alloc(8, x.dtype, "tile")
        for row in range(8):
            await core.memcpy(tile, x[row])
            await core.memcpy(spill[row % slots], tile)
        for row in range(8):
            await core.memcpy(tile, spill[row])
            await core.memcpy(out[row], tile)

    finding = the_only_error(kernel, X, Output.like(X), **ONE)
    line = line_of(kernel, "await core.memcpy(spill[row % slots], tile)")
    assert finding.remedy.startswith(
        f"correct the part of spill at test_nearby_writes.py:{line}: it replaces what was written there before anything"
    )
    assert verify(kernel, X, Output.like(X), 8, **ONE, reference=X).ok


def test_uninitialised_bytes_name_the_write_that_ends_before_them():
    async def kernel(core, x, out, less=1):
        whole = core.nram.alloc(24, x.dtype, "whole")
        left, right, total = whole[:8], whole[8:16], whole[16:]
        await core.memcpy(left[: 8 - less], x[0, : 8 - less])
        await core.memcpy(right, x[1])
        core.mul(total, right, 2.0)
        core.add(total, total, left)
        await core.memcpy(out, total)

    finding = the_only_error(kernel, X, Output((8,)), **ONE)
    assert finding.region == "whole[7], 4 B in NRAM"
    line = line_of(kernel, "await core.memcpy(left[: 8 - less], x[0, : 8 - less])")
    assert finding.remedy.startswith(
        f"correct the part of whole at test_nearby_writes.py:{line}, which writes other bytes of it\nor write these"
    )
    assert verify(kernel, X, Output((8,)), 0, **ONE, reference=X[0] + 2 * X[1]).ok


def test_bytes_carried_from_iteration_to_iteration_are_written_before_their_loop():
    async def kernel(core, x, out, clear=False):
        state = core.nram.alloc(8, x.dtype, "state")
        if clear:
            core.write_zero(state)
        for row in range(8):
            tile = core.nram.alloc(8, x.dtype, "tile")
            await core.memcpy(tile, x[row])
            core.add(state, state, tile)
            await core.memcpy(out[row], state)

    finding = the_only_error(kernel, X, Output.like(X), **ONE)
    line = line_of(kernel, "for row in range(8):")
    assert finding.remedy.startswith(
        f"write these bytes before test_nearby_writes.py:{line} (memcpy, fill, write_zero)"
    )
    assert verify(kernel, X, Output.like(X), True, **ONE, reference=np.cumsum(X, 0)).ok
