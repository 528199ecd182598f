"""One mistake is one finding, however many accesses it affects."""

from __future__ import annotations

import numpy as np
import pytest

from findings import ONE, X, kinds_of, the_only_error
from mlusim import InOut, Output, verify


def test_the_wrong_half_of_a_buffer_is_one_finding():
    async def ping_pong(core, x, out):
        tile = core.nram.alloc((2, 8), x.dtype, "tile")
        await core.memcpy(tile[0], x[0])
        for row in range(8):
            if row < 7:
                core.memcpy_async(tile[0], x[row + 1])
            core.add(tile[row % 2], tile[row % 2], 1.0)
            await core.sync()
            await core.memcpy(out[row], tile[row % 2])

    finding = the_only_error(ping_pong, X, Output.like(X), **ONE)
    assert finding.kind == "uninitialised"
    assert kinds_of(finding) == ["race", "unread"]


def test_an_uninitialised_address_explains_the_access_error():
    async def lookup(core, x, index, out):
        rows = core.nram.alloc(8, index.dtype, "rows")
        core.memcpy_async(rows, index)
        for row, source in enumerate(await core.load_array(rows)):
            await core.memcpy(out[row], x[int(source)])

    index = np.arange(8, dtype=np.int32)
    finding = the_only_error(lookup, X, index, Output.like(X), **ONE)
    assert finding.kind == "race"
    assert kinds_of(finding) == ["access"]
    assert "also   access: index -1 is outside axis 0" in finding.text()


def test_output_that_is_read_and_not_written_is_one_finding():
    async def hand_over(core, x, out):
        tile = core.nram.alloc((4, 8), x.dtype, "tile")
        await core.memcpy(tile, out[0:4])
        await core.memcpy(out[4:8], tile)

    finding = the_only_error(hand_over, X, Output.like(X), **ONE)
    assert finding.kind == "never-written"
    assert kinds_of(finding) == ["uninitialised"]


def test_a_row_written_in_place_of_another_is_one_finding():
    async def rows(core, x, out):
        tile = core.nram.alloc((8, 8), x.dtype, "tile")
        await core.memcpy(tile, x)
        await core.memcpy_rows(out, tile, np.array([0, 1, 2, 4, 4, 5, 6, 7]))

    finding = the_only_error(rows, X, Output.like(X), **ONE)
    assert finding.kind == "written-again"
    assert kinds_of(finding) == ["never-written"]


def test_offsets_of_a_gather_that_were_never_loaded_are_one_finding():
    async def kernel(core, x, out):
        offsets = core.nram.alloc(8, "int32", "offsets")
        tile = core.nram.alloc((8, 8), x.dtype, "tile")
        core.gather(tile, x, offsets)
        await core.sync()
        await core.memcpy(out, tile)

    finding = the_only_error(kernel, X, Output.like(X), device="mlu590-h8", **ONE)
    assert (finding.kind, finding.title) == ("uninitialised", "gather reads offsets before anything is written there")
    assert kinds_of(finding) == ["access"]


def test_a_release_and_the_race_of_the_next_buffer_are_one_finding():
    async def kernel(core, x, out):
        for row in range(x.shape[0]):
            with core.nram.scope():
                held = core.nram.alloc(8, x.dtype, "held")
                await core.memcpy(held, x[row])
                core.memcpy_async(out[row], held)
            with core.nram.scope():
                core.write_zero(core.nram.alloc(8, x.dtype, "other"))

    finding = the_only_error(kernel, X, Output.like(X), **ONE)
    assert (finding.kind, kinds_of(finding)) == ("race", ["release", "unawaited"])
    assert finding.fields["reused_by"] == "other"


def test_a_load_before_the_lock_is_one_finding():
    async def kernel(core, x, total):
        if core.is_memory_core:
            return
        held, part = (core.nram.alloc(8, x.dtype, name) for name in ("held", "part"))
        await core.memcpy(part, x[core.core_id])
        await core.memcpy(held, total)
        await core.lock(1)
        core.add(held, held, part)
        await core.memcpy(total, held)
        await core.unlock(1)

    finding = the_only_error(kernel, X, InOut(np.zeros(8, np.float32)), dim=4)
    assert (finding.kind, kinds_of(finding)) == ("task-race", ["written-again"])


def test_a_shared_row_written_in_place_of_another_is_one_finding():
    async def kernel(core, x, out):
        if core.is_memory_core:
            return
        box = core.sram.alloc((4, 8), x.dtype, "box")
        held = core.nram.alloc(8, x.dtype, "held")
        await core.memcpy(held, x[core.core_id])
        await core.memcpy(box[min(core.core_id, 2)], held)
        await core.sync_all_ipu()
        await core.memcpy(held, box[core.core_id])
        await core.memcpy(out[core.core_id], held)

    finding = the_only_error(kernel, X, Output((4, 8)), dim=4)
    assert (finding.kind, kinds_of(finding)) == ("task-race", ["uninitialised"])


def test_an_index_looked_up_before_it_is_loaded_is_one_finding():
    async def kernel(core, x, out):
        table, index, found = (core.nram.alloc(64, "int32", name) for name in ("table", "index", "found"))
        core.incseq(table)
        core.memcpy_async(index, x)
        core.lut(found, index, table)
        await core.sync()
        await core.memcpy(out, found)

    x = np.arange(64, dtype=np.int32)
    finding = the_only_error(kernel, x, Output.like(x), **ONE)
    assert (finding.kind, kinds_of(finding)) == ("race", ["lookup"])


def test_wrong_values_of_bytes_that_nobody_wrote_are_one_finding():
    async def all_but_a_row(core, x, out):
        tile = core.nram.alloc(x.shape, x.dtype, "tile")
        await core.memcpy(tile, x)
        await core.memcpy(out[:7], tile[:7])

    finding = the_only_error(all_but_a_row, X, Output.like(X), reference=X, **ONE)
    assert (finding.kind, kinds_of(finding)) == ("never-written", ["wrong-value"])
    # A written row that is wrong, too, is another fault.
    report = verify(all_but_a_row, X, Output.like(X), reference=X + np.eye(8, dtype=X.dtype)[6], **ONE)
    assert [one.kind for one in report.errors] == ["never-written", "wrong-value"]


def test_wrong_values_from_uninitialised_bytes_are_one_finding():
    async def kernel(core, x, out):
        tile = core.nram.alloc(x.shape, x.dtype, "tile")
        await core.memcpy(tile[:7], x[:7])
        await core.memcpy(out, tile)

    finding = the_only_error(kernel, X, Output.like(X), reference=X, **ONE)
    assert (finding.kind, kinds_of(finding)) == ("uninitialised", ["wrong-value"])


def test_a_buffer_that_is_not_cleared_is_one_finding_whichever_line_reads_it_first():
    async def kernel(core, x, out):
        if core.is_memory_core:
            return
        total, held = (core.nram.alloc(8, x.dtype, name) for name in ("total", "held"))
        await core.memcpy(held, x[core.core_id])
        if core.core_id:
            core.add(total, total, held)
        core.mul(total, total, 2.0)
        await core.memcpy(out[core.core_id], total)

    finding = the_only_error(kernel, X, Output((4, 8)), dim=4)
    assert (finding.kind, kinds_of(finding)) == ("uninitialised", ["uninitialised"])


@pytest.mark.parametrize("row", [lambda task: task // 2, lambda task: 3 * task // 4, lambda task: 0])
def test_tasks_that_write_the_rows_of_others_are_one_finding(row):
    async def kernel(core, x, out):
        held = core.nram.alloc(8, x.dtype, "held")
        await core.memcpy(held, x[core.task_id])
        await core.memcpy(out[row(core.task_id)], held)

    finding = the_only_error(kernel, X, Output.like(X), reference=X, kind="BLOCK", dim=8)
    assert (finding.kind, set(kinds_of(finding))) == ("task-race", {"never-written", "written-again", "wrong-value"})


def test_a_line_that_writes_two_tensors_by_turns_is_one_finding():
    async def kernel(core, x, y):
        if core.is_memory_core:
            return
        held = core.nram.alloc(8, x.dtype, "held")
        for target in (x, y):
            await core.memcpy(held, target[core.core_id])
            await core.memcpy(target[4], held)
            await core.sync_all_ipu()

    finding = the_only_error(kernel, InOut(X), InOut(X), dim=4)
    assert (finding.kind, kinds_of(finding)) == ("task-race", ["written-again", "written-again"])


def test_a_plain_counter_that_hands_out_rows_is_one_finding():
    async def kernel(core, x, count, out):
        if core.is_memory_core:
            return
        held = core.nram.alloc(8, x.dtype, "held")
        while (row := await core.load(count[0])) < len(X):
            core.store(count[0], row + 1)
            await core.memcpy(held, x[row])
            await core.memcpy(out[row], held)

    finding = the_only_error(kernel, X, InOut(np.zeros(1, np.int32)), Output.like(X), dim=4)
    assert (finding.kind, finding.fields["buffer"], finding.sites[0].pipe) == ("task-race", "count", "scalar")
    assert [one.kind for one in finding.folded if one.fields.get("buffer") == "out"] == ["task-race"]


def test_a_number_from_a_race_explains_the_error_that_follows_whichever_instruction_returns_it():
    async def select(core, x, out):
        tile, mask, found = (core.nram.alloc(64, x.dtype, name) for name in ("tile", "mask", "found"))
        core.memcpy_async(tile, x)
        core.gt(mask, tile, 0.0)
        count = await core.filter(found, tile, mask)
        await core.memcpy(out[:count], found[:count])

    finding = the_only_error(select, X.reshape(64), Output((64,), X.dtype), **ONE)
    assert (finding.kind, kinds_of(finding)) == ("race", ["race", "copy"])


def test_the_slot_that_a_pipeline_never_loads_is_one_finding():
    async def pipeline(core, x, out):
        a, b = (core.nram.alloc((2, 8), x.dtype, name) for name in "ab")
        core.memcpy_async(a[0], x[0])
        core.memcpy_async(b[0], x[0])
        for row in range(8):
            await core.sync_io()
            if row < 7:
                core.memcpy_async(a[0], x[row + 1])
                core.memcpy_async(b[0], x[row + 1])
            core.add(a[row % 2], a[row % 2], b[row % 2])
            await core.sync_compute()
            core.memcpy_async(out[row], a[row % 2])
        await core.sync()

    finding = the_only_error(pipeline, X, Output.like(X), **ONE)
    assert finding.kind == "uninitialised"
    assert "race" in kinds_of(finding)


def test_wrong_values_from_a_workspace_that_is_not_stored_are_one_finding():
    async def kernel(core, x, space, out):
        tile = core.nram.alloc(x.shape, x.dtype, "tile")
        await core.memcpy(tile, x)
        # Here the store to the workspace is missing.
        await core.memcpy(tile, space)
        await core.memcpy(out, tile)

    finding = the_only_error(kernel, X, Output.like(X), Output.like(X), reference={"out": X}, **ONE)
    assert (finding.kind, sorted(kinds_of(finding))) == ("never-written", ["uninitialised", "unread", "wrong-value"])


def test_a_buffer_that_is_never_loaded_is_one_finding_whichever_part_is_read():
    async def kernel(core, x, out):
        tile = core.nram.alloc(x.shape, x.dtype, "tile")
        await core.memcpy(out[0:4], tile[0:4])
        await core.memcpy(out[4:8], tile[4:8])

    finding = the_only_error(kernel, X, Output.like(X), **ONE)
    assert (finding.kind, kinds_of(finding)) == ("uninitialised", ["uninitialised", "unused"])


def test_a_number_from_a_race_explains_the_error_that_python_raises_for_it():
    async def kernel(core, x, out):
        tile = core.nram.alloc(8, x.dtype, "tile")
        core.memcpy_async(tile, x[0])
        count = int(await core.load(tile[7]))
        await core.memcpy(out[:count], x[:count])

    finding = the_only_error(kernel, X, Output.like(X), **ONE)
    assert (finding.kind, kinds_of(finding)) == ("race", ["stopped"])
    assert "also   stopped: the kernel raised ValueError: cannot convert float NaN to integer" in finding.text()


def test_a_load_of_what_is_replaced_that_is_missing_is_one_finding():
    async def kernel(core, x, total):
        if core.is_memory_core:
            return
        held, part = (core.nram.alloc(8, x.dtype, name) for name in ("held", "part"))
        await core.memcpy(part, x[core.core_id])
        await core.lock(1)
        # Here the load of the total is missing.
        core.add(held, held, part)
        await core.memcpy(total, held)
        await core.unlock(1)

    finding = the_only_error(kernel, X, InOut(np.zeros(8, np.float32)), dim=4)
    assert (finding.kind, kinds_of(finding)) == ("uninitialised", ["written-again"])


def test_parts_of_a_buffer_that_lines_read_before_its_load_are_one_finding():
    async def kernel(core, x, out):
        tile = core.nram.alloc(x.shape, x.dtype, "tile")
        await core.memcpy(out[0:2], tile[0:2])
        await core.memcpy(out[2:4], tile[2:4])
        await core.memcpy(tile, x)
        await core.memcpy(out[4:8], tile[4:8])

    finding = the_only_error(kernel, X, Output.like(X), **ONE)
    assert (finding.kind, kinds_of(finding)) == ("uninitialised", ["uninitialised"])


def test_a_race_and_the_release_of_its_buffer_are_one_finding():
    async def kernel(core, x, out):
        tile = core.nram.alloc(8, x.dtype, "tile")
        for row in range(8):
            with core.nram.scope():
                held = core.nram.alloc(8, x.dtype, "held")
                core.memcpy_async(held, x[row])
                core.mul(tile, held, 2.0)
            await core.memcpy(out[row], tile)

    finding = the_only_error(kernel, X, Output.like(X), **ONE)
    assert (finding.kind, finding.fields["buffer"]) == ("race", "held")
    assert "release" in kinds_of(finding)


def test_a_size_that_is_too_large_for_both_ends_of_a_copy_is_one_finding():
    async def kernel(core, x, out):
        tile = core.nram.alloc(32, x.dtype, "tile")
        for row in range(8):
            await core.memcpy(tile[:8], x[row])
            await core.memcpy(out[row].pointer, tile.pointer, 2 * 8 * 4, "NRAM2GDRAM")

    finding = the_only_error(kernel, X, Output.like(X), **ONE)
    assert (finding.kind, kinds_of(finding)) == ("access", ["uninitialised"])
