"""One missing sync or barrier is one finding, with the place where it belongs."""

from __future__ import annotations

import json

from findings import ONE, X, kinds_of, only, the_only_error
from kernel_lines import line_of
from mlusim import Output, verify


def test_one_dropped_sync_is_one_finding():
    async def kernel(core, x, out, aux):
        held, twice, thrice = (core.nram.alloc(x.shape, x.dtype, name) for name in ("held", "twice", "thrice"))
        core.memcpy_async(held, x)
        # Here a sync is missing.
        core.add(twice, held, held)
        core.mul(thrice, held, 3.0)
        core.move(held[0:4], twice[0:4])
        await core.sync()
        await core.memcpy(out, twice)
        await core.memcpy(aux, thrice)

    report = verify(kernel, X, Output.like(X), Output.like(X), **ONE)
    first, *more = [finding for finding in report.errors if finding.kind == "race"]
    assert first.title == "add reads held before memcpy is known to have written it"
    assert [one.title for one in first.folded] == [
        "mul reads held before memcpy is known to have written it",
        "memcpy and memcpy write the same bytes of held in no defined order",
    ]
    assert first.text().count("\n  also   ") == 2
    # The move also races with the vector pipe: another sync, another finding.
    assert len(more) == 1
    assert "`await core.sync_compute()`" in more[0].remedy
    assert json.loads(json.dumps(first.to_json()))["folded"][0]["kind"] == "race"


def test_one_missing_barrier_is_one_finding():
    async def kernel(core, x, out):
        if core.is_memory_core:
            return
        box = core.sram.alloc((4, 8), x.dtype, "box")
        more = core.sram.alloc((4, 8), x.dtype, "more")
        held = core.nram.alloc(8, x.dtype, "held")
        await core.memcpy(held, x[core.core_id])
        await core.memcpy(box[core.core_id], held)
        await core.memcpy(more[core.core_id], held)
        # Here a barrier is missing.
        await core.memcpy(held, box[3 - core.core_id])
        await core.memcpy(held, more[3 - core.core_id])
        await core.memcpy(out[core.core_id], held)

    report = verify(kernel, X, Output((4, 8)), dim=4)
    finding = only(report, "task-race")
    assert len(finding.folded) >= 1
    assert report.errors == (finding,)


def test_two_writers_of_one_address_get_the_right_remedy():
    async def kernel(core, x, out):
        if core.is_memory_core or core.core_id > 1:
            return
        held = core.nram.alloc(8, x.dtype, "held")
        await core.memcpy(held, x[core.core_id])
        await core.memcpy(out[0], held)

    finding = only(verify(kernel, X, Output((1, 8)), dim=4), "task-race")
    line = line_of(kernel, "await core.memcpy(out[0], held)")
    assert finding.remedy.startswith(
        f"let one task alone write them, at test_one_missing_sync.py:{line}: `if core.task_id == 0:`; parts of a sum "
        "are added with `core.atomic_reduce_add`\n"
        "or give each task bytes of its own\nor, if both writes"
    )


def test_a_sync_missing_at_the_end_of_a_pipelines_loop_is_one_finding():
    async def kernel(core, x, out):
        if core.is_memory_core:
            return
        given = core.nram.alloc((2, 8), x.dtype, "given")
        made = core.nram.alloc((2, 8), x.dtype, "made")
        for step in range(x.shape[0] + 2):
            if step >= 2:
                core.memcpy_async(out[step - 2], made[step % 2])
            if step < x.shape[0]:
                core.memcpy_async(given[step % 2], x[step])
            if 1 <= step <= x.shape[0]:
                core.mul(made[(step - 1) % 2], given[(step - 1) % 2], 2.0)
            # Here a sync is missing.

    report = verify(kernel, X, Output.like(X), **ONE)
    (finding,) = report.errors
    line = kernel.__code__.co_firstlineno
    assert finding.remedy == (
        f"`await core.sync()`, which waits for all pipes, at the end of the loop at test_one_missing_sync.py:{line + 5}"
    )
    assert [one.title for one in finding.folded if one.kind == "race"] == [
        "memcpy reads made before mul is known to have written it",
        "memcpy writes given while mul may still read it",
        "mul writes made while memcpy may still read it",
    ]


def test_an_intended_blocking_copy_is_the_remedy_for_both_sides():
    async def kernel(core, x, out):
        held = core.nram.alloc(8, x.dtype, "held")
        total = core.nram.alloc(8, x.dtype, "total")
        core.write_zero(total)
        core.write_zero(held)
        core.memcpy_async(held, x[1])
        core.add(total, total, held)
        await core.memcpy(out, total)

    (finding,) = verify(kernel, X, Output((8,)), **ONE).errors
    line = line_of(kernel, "core.memcpy_async(held, x[1])")
    assert finding.remedy == f"wait for the copy at test_one_missing_sync.py:{line}: `await core.memcpy(...)`"
    assert len([one for one in finding.folded if one.kind == "race"]) == 1


def test_two_syncs_missing_in_two_loops_are_two_findings():
    async def kernel(core, x, out, aux):
        held = core.nram.alloc((4, 8), x.dtype, "held")
        more = core.nram.alloc((4, 8), x.dtype, "more")
        for row in range(4):
            core.memcpy_async(held[row], x[row])
            core.mul(held[row], held[row], 2.0)
            await core.sync()
        for row in range(4):
            core.memcpy_async(more[row], x[row])
            core.mul(more[row], more[row], 3.0)
            await core.sync()
        await core.memcpy(out, held)
        await core.memcpy(aux, more)

    report = verify(kernel, X[:4], Output((4, 8)), Output((4, 8)), **ONE)
    assert [finding.kind for finding in report.errors] == ["race", "race"]


def test_a_barrier_is_also_the_sync_that_its_tasks_lack():
    async def stages(core, x, out):
        box = core.sram.alloc((2, 4, 8), x.dtype, "box")
        tile = None if core.is_memory_core else core.nram.alloc((2, 8), x.dtype, "tile")
        for step in range(4):
            if core.is_memory_core:
                if step < 2:
                    core.memcpy_async(box[step], x[4 * step : 4 * step + 4])
            else:
                if step >= 2:
                    core.memcpy_async(out[4 * (step - 2) + core.core_id], tile[step - 2])
                if 1 <= step <= 2:
                    core.memcpy_async(tile[step - 1], box[step - 1, core.core_id])
            # Here the barrier is missing.

    finding = the_only_error(stages, X, Output.like(X), dim=4)
    assert finding.kind == "task-race"
    assert "race" in kinds_of(finding)


def test_a_sync_for_a_line_in_a_loop_belongs_after_its_last_turn():
    async def kernel(core, x, out):
        held = core.nram.alloc(x.shape, x.dtype, "held")
        core.fill(held, 1.0)
        for factor in (2.0, 3.0):
            core.mul(held, held, factor)
        core.memcpy_async(out, held)
        await core.sync()

    finding = the_only_error(kernel, X, Output.like(X), **ONE)
    assert [one.title for one in finding.folded] == ["memcpy reads held before mul is known to have written it"]
    assert finding.remedy.endswith(f"before {finding.sites[1].location}")


def test_the_sites_of_a_missing_sync_are_those_next_to_it():
    async def kernel(core, x, out):
        a, b = (core.nram.alloc(8, x.dtype, name) for name in "ab")
        for row in range(8):
            core.memcpy_async(a, x[row])
            core.memcpy_async(b, x[row])
            await core.sync_io()
            core.mul(a, a, 3.0)
            core.add(b, a, b)
            # Here a sync is missing.
            core.memcpy_async(out[row], b)

    finding = the_only_error(kernel, X, Output.like(X), **ONE)
    line = kernel.__code__.co_firstlineno
    assert [site.line - line for site in finding.sites] == [7, 9]
    assert finding.remedy.endswith(f"before {finding.sites[1].location}")


def test_two_operations_of_one_line_are_told_apart():
    async def by_name(core, x, out):
        held = core.nram.alloc(x.shape, x.dtype, "held")
        _ = core.memcpy_async(held, x), core.add(held, held, held)
        await core.sync()
        await core.memcpy(out, held)

    async def by_turn(core, x, out):
        held, twice = (core.nram.alloc(x.shape, x.dtype, name) for name in ("held", "twice"))
        for dst, src in ((held, x), (twice, held)):
            core.memcpy_async(dst, src)
        await core.sync()
        await core.memcpy(out, twice)

    line = line_of(by_name, "_ = core.memcpy_async(held, x), core.add(held, held, held)")
    remedy = the_only_error(by_name, X, Output.like(X), **ONE).remedy
    assert f"between the memcpy and the add at test_one_missing_sync.py:{line}" in remedy
    line = line_of(by_turn, "core.memcpy_async(dst, src)")
    remedy = the_only_error(by_turn, X, Output.like(X), **ONE).remedy
    assert f"between the two calls of memcpy at test_one_missing_sync.py:{line}" in remedy
