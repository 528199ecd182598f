"""Each kind of finding, by its text: what happened, both sites, the numbers, the rule and the remedy."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import mlusim
from mlusim import Output, VerificationError, verify
from mlusim.verifier.findings import HINTS, KINDS, Finding

X = np.arange(64, dtype=np.float32).reshape(8, 8)
ONE = {"kind": "BLOCK", "dim": 1}


def only(report, kind):
    found = [finding for finding in report.findings if finding.kind == kind]
    assert len(found) == 1, report.text()
    return found[0]


def assert_text(finding, pattern):
    """The whole text, line by line; `HERE` stands for a line of this file."""
    pattern = (
        re.escape(" ".join(pattern.split("\n"))).replace("HERE", r"test_findings\.py:\d+").replace("TIME", r"[\d .]+")
    )
    assert re.fullmatch(pattern.replace(r"\ ", r"\s+"), finding.text()), finding.text()


def test_a_use_before_the_copy_is_done():
    async def kernel(core, x, out):
        held = core.nram.alloc(x.shape, x.dtype, "held")
        core.memcpy_async(held, x)
        core.add(held[2:4], held[2:4], 1.0)
        await core.sync()
        await core.memcpy(out, held)

    report = verify(kernel, X, Output.like(X), **ONE)
    assert_text(
        only(report, "race"),
        """error: race: add reads held before memcpy is known to have written it
  writes HERE  core.memcpy_async(held, x)
         task 0, cluster 0 core 0, io pipe, TIME ns to TIME ns
  reads  HERE  core.add(held[2:4], held[2:4], 1.0)
         task 0, cluster 0 core 0, vector pipe, TIME ns to TIME ns
  bytes  held[2:4, 0:8], 64 B in NRAM
  rule   the IO pipe and the vector pipe run side by side; only a sync orders them
  remedy `await core.sync_io()`, which waits for the IO pipe, between HERE and HERE
         or wait for the copy at HERE: `await core.memcpy(...)`""",
    )
    assert report.errors == (only(report, "race"),)


def test_a_buffer_reused_while_a_store_reads_it():
    async def kernel(core, x, out):
        held = core.nram.alloc(x.shape, x.dtype, "held")
        for _ in range(2):
            core.write_zero(held)
            await core.sync_compute()
            core.memcpy_async(out, held)

    finding = only(verify(kernel, X, Output.like(X), rewrites=True, **ONE), "race")
    assert finding.title == "write_zero writes held while memcpy may still read it"
    assert finding.fields == {"sync": "sync_io", "buffer": "held"}


def test_a_buffer_of_a_closed_scope_that_a_copy_still_reads():
    async def kernel(core, x, out):
        with core.nram.scope():
            first = core.nram.alloc(x.shape, x.dtype, "first")
            await core.memcpy(first, x)
            core.memcpy_async(out, first)
        second = core.nram.alloc((4, 8), x.dtype, "second")
        core.write_zero(second)

    finding = only(verify(kernel, X, Output.like(X), **ONE), "race")
    assert finding.title == "write_zero writes first while memcpy may still read it"
    assert finding.where == "first[0:4, 0:8], 128 B in NRAM; the same bytes are second[0:4, 0:8], 128 B"


def test_equal_races_are_told_once_and_counted():
    async def kernel(core, x, out):
        held = core.nram.alloc(8, x.dtype, "held")
        for row in range(8):
            core.memcpy_async(held, x[row])
            core.add(held, held, 1.0)
            await core.sync()
            await core.memcpy(out[row], held)

    assert only(verify(kernel, X, Output.like(X), **ONE), "race").times == 8


def test_two_cores_that_write_one_place():
    async def kernel(core, x, out):
        held = core.nram.alloc(8, x.dtype, "held")
        await core.memcpy(held, x[core.task_id])
        await core.memcpy(out[core.task_id // 2], held)

    report = verify(kernel, X[:2], Output((1, 8), "float32"), kind="BLOCK", dim=2)
    assert_text(
        only(report, "task-race"),
        """error: task-race: task 0 and task 1 write the same bytes of out
  writes HERE  await core.memcpy(out[core.task_id // 2], held)
         task 0, cluster 0 core 0, io pipe, TIME ns to TIME ns
  writes HERE  await core.memcpy(out[core.task_id // 2], held)
         task 1, cluster 1 core 0, io pipe, TIME ns to TIME ns
  bytes  out[0, 0:8], 32 B in GDRAM
  also   written-again: 32 B of out are written twice, first by task 0 and task 1: HERE and HERE
  rule   BLOCK tasks have no order among them, not even when they share a core
  remedy give each task bytes of its own
         or split the kernel into two launches on one queue""",
    )
    # What follows from the race is no finding of its own.
    assert len(report.errors) == 1


def test_wrong_values_go_under_the_sync_that_is_missing():
    async def kernel(core, x, out):
        held = core.nram.alloc(8, x.dtype, "held")
        core.memcpy_async(held, x[core.task_id])
        core.add(held, held, 1.0)
        await core.memcpy(out[core.task_id], held)

    report = verify(kernel, X[:2], Output((2, 8), "float32"), kind="BLOCK", dim=2, reference=X[:2] + 1)
    assert [finding.kind for finding in report.errors] == ["race"]
    assert [finding.kind for finding in report.errors[0].folded] == ["wrong-value"]
    assert "also   wrong-value: 16 of 16 elements of out are wrong" in report.text()
    assert report.to_json()["findings"][0]["folded"][0]["kind"] == "wrong-value"


def test_a_missing_barrier_in_a_cluster():
    async def kernel(core, x, out):
        box = core.sram.alloc(x.shape, x.dtype, "box")
        if core.is_memory_core:
            await core.memcpy(box, x)
        elif core.core_id == 1:
            held = core.nram.alloc(x.shape, x.dtype, "held")
            await core.memcpy(held, box)
            await core.memcpy(out, held)

    finding = only(verify(kernel, X, Output.like(X), dim=4), "task-race")
    assert finding.title == "task 1 reads box before the memory core of cluster 0 is known to have written it"
    assert re.fullmatch(
        r"`await core.sync_cluster\(\)` in all cores of the cluster and its memory core, after test_findings.py:\d+ "
        r"and before test_findings.py:\d+\nor give each task bytes of its own",
        finding.remedy,
    )


def test_interleaved_columns_of_two_tasks_are_no_race():
    async def kernel(core, x, out):
        held = core.nram.alloc((8, 4), x.dtype, "held")
        await core.memcpy(held, x[:, core.task_id : 8 : 2])
        await core.memcpy(out[:, core.task_id : 8 : 2], held)

    assert verify(kernel, X, Output.like(X), reference=X, kind="BLOCK", dim=2).ok


def test_bytes_that_nobody_wrote():
    async def kernel(core, x, out):
        held = core.nram.alloc(x.shape, x.dtype, "held")
        await core.memcpy(held[:, 0:6], x[:, 0:6])
        await core.memcpy(out, held)

    assert_text(
        only(verify(kernel, X, Output.like(X), **ONE), "uninitialised"),
        """error: uninitialised: memcpy reads held, part of which nobody has written
  reads  HERE  await core.memcpy(out, held)
         task 0, cluster 0 core 0, io pipe, TIME ns to TIME ns
  bytes  held[0:8, 6:8], 64 B in NRAM
  rule   fresh memory holds whatever was there before, not zeros
  remedy write these bytes first (memcpy, fill, write_zero), or read only those that were written""",
    )


def test_a_buffer_that_is_fresh_again_in_a_later_scope():
    async def kernel(core, x, out):
        for row in range(2):
            with core.nram.scope():
                held = core.nram.alloc(8, x.dtype, "held")
                if row == 0:
                    await core.memcpy(held, x[row])
                await core.memcpy(out[row], held)

    finding = only(verify(kernel, X, Output((2, 8)), **ONE), "uninitialised")
    assert finding.title == "memcpy reads held before anything is written there"


def test_an_output_read_before_it_is_written():
    async def kernel(core, out):
        held = core.nram.alloc(out.shape, out.dtype, "held")
        await core.memcpy(held, out)
        await core.memcpy(out, held)

    finding = only(verify(kernel, Output((8, 8)), **ONE), "uninitialised")
    assert finding.title == "memcpy reads out before anything is written there"
    assert finding.where == "out[0:8, 0:8], 256 B in GDRAM"


def test_a_loop_one_tile_short_and_a_place_written_twice():
    async def kernel(core, x, out):
        held = core.nram.alloc(x.shape, x.dtype, "held")
        await core.memcpy(held, x)
        await core.memcpy(out[0:7], held[0:7])
        await core.memcpy(out[3:5], held[3:5])

    report = verify(kernel, X, Output.like(X), reference=X, **ONE)
    assert_text(
        only(report, "never-written"),
        """error: never-written: 32 B of out are never written
  nearby HERE  await core.memcpy(out[0:7], held[0:7])
         task 0, cluster 0 core 0, io pipe, TIME ns to TIME ns
  bytes  out[7, 0:8], 32 B
  rule   every byte of an output is written exactly once; these keep what was in memory
  remedy look for a bound that is too small, or a tile that is skipped""",
    )
    again = only(report, "written-again")
    assert again.title == "64 B of out are written twice, first by task 0 both times"
    assert again.where == "out[3:5, 0:8], 64 B"
    wrong = only(report, "wrong-value")
    assert wrong.title == "8 of 64 elements of out are wrong; the first, out[7, 0], is nan and should be 56.0"
    assert wrong.remedy == "nobody writes this element"
    assert "output   out float32 [8, 8]: 32 B never written, 64 B written more than once" in report.text()


def test_rewriting_on_purpose_is_said():
    async def kernel(core, x, out):
        held = core.nram.alloc(x.shape, x.dtype, "held")
        await core.memcpy(held, x)
        await core.memcpy(out, held)
        await core.memcpy(out[3:5], held[3:5])

    assert not verify(kernel, X, Output.like(X), **ONE).ok
    assert verify(kernel, X, Output.like(X), rewrites=("out",), **ONE).ok


def test_a_wrong_row_that_exists_names_its_store():
    async def kernel(core, x, out):
        held = core.nram.alloc(x.shape, x.dtype, "held")
        await core.memcpy(held[1:8], x[0:7])
        await core.memcpy(held[0:1], x[7:8])
        await core.memcpy(out[0:4], held[0:4])
        await core.memcpy(out[4:8], held[4:8])

    finding = only(verify(kernel, X, Output.like(X), reference=lambda x: x, **ONE), "wrong-value")
    assert finding.title == "64 of 64 elements of out are wrong; the first, out[0, 0], is 56.0 and should be 0.0"
    assert finding.sites[0].source == "await core.memcpy(out[0:4], held[0:4])"


def test_a_hang_says_who_waits_where_and_who_has_returned():
    async def kernel(core, x):
        if core.is_memory_core or core.core_id == 3:
            return
        await core.sync_cluster()

    assert_text(
        only(verify(kernel, X, dim=4), "hang"),
        """error: hang: deadlock: 3 tasks wait in sync_cluster, which not all of its participants reach
  waits  HERE  await core.sync_cluster()
         task 0, cluster 0 core 0, TIME ns to no end
  at     HERE tasks 0, 1, 2; returned: task 3 and memory core of cluster 0
  rule   a barrier counts all cores and memory cores, the returned too (sync_all_ipu: no memory cores)
  remedy let every one of them reach the same barriers, and none return before the last""",
    )


def test_a_hang_at_two_barriers():
    async def kernel(core, x):
        if core.core_id == 0:
            await core.sync_cluster()
        else:
            await core.sync_all()

    finding = only(verify(kernel, X, dim=4), "hang")
    assert finding.title == (
        "crossed barriers: tasks 1, 2, 3 and memory core of cluster 0 wait in sync_all; task 0 waits in sync_cluster"
    )
    assert finding.place.endswith("nobody has returned")
    assert len(finding.sites) == 2


def test_a_task_that_does_nothing_for_ever_is_stopped():
    async def kernel(core, x):
        while True:
            pass

    finding = only(verify(kernel, X, stall_s=0.3, **ONE), "endless")
    assert finding.title.startswith("no operation issued for 0.3 s: a loop that neither issues nor awaits anything?")


def test_a_task_that_never_ends_is_stopped():
    async def kernel(core, x):
        while True:
            core.scalar()

    assert_text(
        only(verify(kernel, X, max_operations=1000, **ONE), "endless"),
        """error: endless: 1 000 operations issued and no end: an endless loop? Where the kernel needs more, raise """
        """max_operations
  at     task 0 (cluster 0, core 0), HERE, at TIME ns: core.scalar()
  rule   a task of a real kernel ends""",
    )


@pytest.mark.parametrize(
    ("kind", "title"),
    [
        ("access", r"slice \[0:9\] is outside axis 0 of <view of x .*"),
        ("access", r"index -1 is outside axis 0 of <view of x .* does not count from the end"),
        ("access", r"x is an input and inputs are never written; .*"),
        ("allocation", r"held in the NRAM of .* was freed; .*"),
        ("allocation", r"nram.alloc of 1 000 000 B .* does not fit: .*"),
        ("copy", r"no __memcpy goes gdram to ldram.*|memcpy of \[8, 8\] elements .*"),
        ("operand", r"add of <view of x .*: vector operands lie in this core's NRAM; memcpy it there first"),
        ("await", r"`core.sync\(...\)` was not awaited.*"),
        ("stopped", r"the kernel raised ZeroDivisionError: .*"),
    ],
)
def test_an_error_of_the_run_is_a_finding(kind, title):
    async def kernel(core, x, out):
        held = core.nram.alloc(x.shape, x.dtype, "held")
        if kind == "access" and "slice" in title:
            await core.memcpy(held, x[0:9])
        elif kind == "access" and "-1" in title:
            await core.memcpy(held[0], x[-1])
        elif kind == "access":
            await core.memcpy(x, held)
        elif kind == "allocation" and "freed" in title:
            with core.nram.scope():
                held = core.nram.alloc(x.shape, x.dtype, "held")
            await core.memcpy(held, x)
        elif kind == "allocation":
            core.nram.alloc(1_000_000, "uint8")
        elif kind == "copy":
            await core.memcpy(held[0:4], x)
        elif kind == "operand":
            core.add(x, x, 1.0)
        elif kind == "await":
            core.sync()
            core.sync()
        else:
            core.scalar(1 // (x.shape[0] - 8))

    report = verify(kernel, X, Output.like(X), **ONE)
    finding = report.errors[0]
    assert finding.kind == kind
    assert re.fullmatch(title, finding.title), finding.title
    place = re.search(r"test_findings\.py:(\d+)", finding.place)
    assert place
    said = finding.to_json()
    assert (Path(said["file"]).name, said["line"]) == ("test_findings.py", int(place[1]))
    assert "split proof, of what ran until it stopped" in report.text() or kind == "await"
    assert not any(found.kind == "never-written" for found in report.findings)


def test_races_before_an_error_are_told_too():
    async def kernel(core, x, out):
        held = core.nram.alloc(x.shape, x.dtype, "held")
        core.memcpy_async(held, x)
        core.add(held, held, 1.0)
        await core.sync()
        await core.memcpy(out, x[0:9])

    assert [finding.kind for finding in verify(kernel, X, Output.like(X), **ONE).errors] == ["access", "race"]


def test_hints_are_no_errors():
    async def kernel(core, x, unread, out):
        held = core.nram.alloc(x.shape, x.dtype, "held")
        core.nram.alloc((4, 8), x.dtype, "spare")
        await core.memcpy(held, x)
        await core.sync()
        await core.memcpy(out, held)

    report = verify(kernel, X, X, Output.like(X), reference=X, **ONE).check()
    assert [finding.kind for finding in report.findings] == ["unused", "unused", "redundant-sync"]
    assert report.hints == report.findings
    assert report.findings[0].title == "the host gives unread, 256 B of GDRAM, and no operation touches it"
    assert report.findings[1].title == "task 0 allocates spare, 128 B of NRAM, and no operation touches it"
    assert_text(
        report.findings[2],
        """hint: redundant-sync: sync orders nothing on any path that ran
  waits  HERE  await core.sync()
         task 0, cluster 0 core 0, TIME ns to TIME ns
  rule   a sync is needed only between operations of different pipes, or cores, on the same bytes
  remedy drop it if no other path needs it; the other syncs order all that ran here""",
    )


def test_a_buffer_that_some_tasks_use_is_used():
    async def kernel(core, x, out):
        held = [core.nram.alloc(8, x.dtype, f"held {turn}") for turn in range(2)]
        for row in range(core.task_id, 3, 2):
            await core.memcpy(held[row // 2], x[row])
            await core.memcpy(out[row], held[row // 2])

    assert verify(kernel, X[:3], Output((3, 8)), kind="BLOCK", dim=2).findings == ()


def test_a_wait_inside_an_instruction_is_no_redundant_sync():
    async def kernel(core, x, out, count):
        values, mask, kept = (core.nram.alloc(64, x.dtype, name) for name in ("values", "mask", "kept"))
        await core.memcpy(values, x.reshape(-1))
        core.lt(mask, values, 8.0)
        number = await core.collect(kept, values, mask)
        assert number == 8
        await core.memcpy(out[:count], kept[:count])

    assert verify(kernel, X, Output((8,)), 8, reference=X[0], **ONE).findings == ()
    report = verify(kernel, X, Output((9,)), 9, **ONE)
    assert only(report, "uninitialised").where == "kept[8], 4 B in NRAM"


def test_of_two_syncs_in_a_row_only_one_is_redundant_and_a_copy_in_flight_at_the_end_is_named():
    async def kernel(core, out, waits):
        held = core.nram.alloc(out.shape, out.dtype, "held")
        core.write_zero(held)
        await core.sync()
        await core.sync_compute()
        core.memcpy_async(out, held)
        if waits:
            await core.sync_io()

    assert [finding.kind for finding in verify(kernel, Output((8, 8)), True, **ONE).findings] == ["redundant-sync"]
    assert [finding.kind for finding in verify(kernel, Output((8, 8)), False, **ONE).findings] == [
        "redundant-sync",
        "unawaited",
    ]


def test_memory_left_allocated():
    device = mlusim.Device()
    device.upload(X, "x")
    report = device.verify(left=True)
    assert only(report, "left").title == "1 allocation of GDRAM not given back: x (256 B)"


def test_every_kind_has_a_title_and_every_text_its_parts():
    assert set(KINDS) >= HINTS
    finding = Finding(kind="race", title="t", where="w", rule="r", remedy="m", times=3)
    assert finding.text() == ("error: race: t\n  bytes  w\n  times  3; shown is the first\n  rule   r\n  remedy m")
    coloured = finding.text(colour=True)
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == finding.text()
    assert coloured.startswith("\x1b[1m\x1b[31merror: race:\x1b[0m")


def test_the_report_raises_and_is_json():
    async def kernel(core, x, out):
        core.scalar()

    report = verify(kernel, X, Output.like(X), reference=X, **ONE)
    with pytest.raises(
        VerificationError, match=r"^kernel on mlu370-x4: 2 errors, 1 hint \(1 operation of 1 task\)"
    ) as caught:
        report.check()
    assert caught.value.report is report
    data = json.loads(json.dumps(report.to_json()))
    assert data["ok"] is False
    assert [finding["kind"] for finding in data["findings"]] == ["never-written", "wrong-value", "unused"]
    assert data["tensors"][1]["unwritten_bytes"] == 256
    assert repr(report) == "<report of kernel on mlu370-x4: 2 errors, 1 hint (1 operation of 1 task)>"
    assert "\x1b[" in report.text(colour=True)
    assert "\x1b[" not in report.text()


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
        "memcpy and memcpy write the same bytes of held in any order",
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


def test_two_tasks_of_a_cluster_that_write_one_place_get_the_remedy_that_fits():
    async def kernel(core, x, out):
        if core.is_memory_core or core.core_id > 1:
            return
        held = core.nram.alloc(8, x.dtype, "held")
        await core.memcpy(held, x[core.core_id])
        await core.memcpy(out[0], held)

    finding = only(verify(kernel, X, Output((1, 8)), dim=4), "task-race")
    assert finding.remedy.startswith(
        "give each task bytes of its own: who writes last decides what stays\nor, where both"
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
        f"`await core.sync()`, which waits for all pipes, at the end of the loop at test_findings.py:{line + 5}"
    )
    assert [one.title for one in finding.folded if one.kind == "race"] == [
        "memcpy reads made before mul is known to have written it",
        "memcpy writes given while mul may still read it",
        "mul writes made while memcpy may still read it",
    ]


def test_a_blocking_copy_that_was_meant_is_the_remedy_for_what_is_before_and_behind_it():
    async def kernel(core, x, out):
        held = core.nram.alloc(8, x.dtype, "held")
        total = core.nram.alloc(8, x.dtype, "total")
        core.write_zero(total)
        core.write_zero(held)
        core.memcpy_async(held, x[1])
        core.add(total, total, held)
        await core.memcpy(out, total)

    (finding,) = verify(kernel, X, Output((8,)), **ONE).errors
    line = kernel.__code__.co_firstlineno + 5
    assert finding.remedy == f"wait for the copy at test_findings.py:{line}: `await core.memcpy(...)`"
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


def test_a_barrier_that_some_leave_out_is_one_finding():
    async def kernel(core, x, out):
        box = core.sram.alloc(x.shape, x.dtype, "box")
        if core.is_memory_core:
            await core.memcpy(box, x)
            await core.sync_cluster()
            return
        held = core.nram.alloc(x.shape, x.dtype, "held")
        await core.memcpy(held, box)
        if core.core_id == 0:
            await core.memcpy(out, held)

    (finding,) = verify(kernel, X, Output.like(X), dim=4).errors
    assert finding.kind == "hang"
    assert [one.kind for one in finding.folded] == ["task-race"]
    assert "also   task-race: task 0 reads box before" in finding.text()


def test_a_lock_that_a_task_takes_with_it_is_found():
    async def kernel(core, x, out):
        if core.is_memory_core or core.core_id:
            return
        held = core.nram.alloc(x.shape, x.dtype, "held")
        await core.lock(5)
        await core.memcpy(held, x)
        await core.memcpy(out, held)

    (finding,) = verify(kernel, X, Output.like(X), dim=4).errors
    assert finding.kind == "hang"
    assert finding.title == "task 0 ends and still holds lock 5"
    assert finding.remedy.startswith("`await core.unlock(5)` on every path behind test_findings.py:")


def kinds_of(finding):
    return [one.kind for one in finding.folded]


def the_only_error(kernel, *arguments, **options):
    report = verify(kernel, *arguments, **options)
    assert len(report.errors) == 1, report.text()
    return report.errors[0]


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
    assert kinds_of(finding) == ["race"]


def test_an_address_that_was_never_there_explains_the_access():
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


def test_an_error_that_every_task_swallows_is_one_finding():
    async def careless(core, x, out):
        try:
            tile = core.nram.alloc(10**8, x.dtype, "tile")
        except mlusim.MlusimError:
            tile = core.nram.alloc(8, x.dtype, "tile")
        await core.memcpy(tile, x[core.task_id])
        await core.memcpy(out[core.task_id], tile)

    finding = the_only_error(careless, X, Output.like(X), kind="BLOCK", dim=8)
    assert finding.kind == "swallowed"
    assert finding.times == 8
