"""The remedy of a finding names what fixes the kernel, and a second kernel shows that it does."""

from __future__ import annotations

import numpy as np
import pytest

import mlusim
from findings import ONE, X, kinds_of, the_only_error
from kernel_lines import line_of
from mlusim import InOut, Output, VerificationError, verify


async def jacobi(core, a, b, barrier=""):
    """Four steps from a to b and back; each task needs the edge of its neighbours."""
    if core.is_memory_core:
        return
    low, high = 8 * core.task_id, 8 * core.task_id + 8
    tile, sums = core.nram.alloc(10, a.dtype, "tile"), core.nram.alloc(8, a.dtype, "sums")
    for step in range(4):
        core.write_zero(tile)
        begin, end = max(low - 1, 0), min(high + 1, a.size)
        await core.memcpy(tile[begin - low + 1 : end - low + 1], a[begin:end])
        if barrier == "in the middle":
            await core.sync_all_ipu()
        core.add(sums, tile[0:8], tile[2:10])
        await core.memcpy(b[low:high], sums)
        if barrier == "at the end" or (barrier == "of two steps" and step < 2):
            await core.sync_all_ipu()
        a, b = b, a


@pytest.mark.parametrize("barrier", ["", "of two steps"])
def test_the_barrier_of_steps_that_swap_two_arrays_belongs_at_the_end_of_the_loop(barrier):
    arrays = InOut(np.ones(32, np.float32)), InOut(np.ones(32, np.float32))
    finding = the_only_error(jacobi, *arrays, barrier, dim=4)
    line = line_of(jacobi, "for step in range(4):")
    assert finding.remedy.startswith(
        "`await core.sync_all_ipu()` in all cores of the union, at the end of the loop at "
        f"test_remedies_fix.py:{line}\n"
    )
    assert verify(jacobi, *arrays, "at the end", dim=4).ok
    assert not verify(jacobi, *arrays, "in the middle", dim=4).ok


async def scale(core, x, out, fault=""):
    """A double buffer: a load and a computation in each step, and one sync."""
    given, made = (core.nram.alloc((2, 8), x.dtype, name) for name in ("given", "made"))

    def load(step):
        slot = 0 if fault == "one slot" else step % 2
        core.memcpy_async(given[slot], x[step])

    load(0)
    if fault != "no first sync":
        await core.sync_io()
    for step in range(8):
        if step < 7:
            load(step + 1)
        core.mul(made[step % 2], given[(step + (fault == "other slot")) % 2], 2.0)
        await core.sync()
        core.memcpy_async(out[step], made[step % 2])


@pytest.mark.parametrize(
    ("fault", "kind", "remedy"),
    [
        ("no first sync", "race", "`await core.sync_io()`, which waits for the IO pipe, before {mul}\nor"),
        ("other slot", "race", "correct the part of given at {load} or {mul}: the first of them replaces what was"),
        ("one slot", "uninitialised", "correct the part of given at {load} or {mul}\nor write these bytes first"),
    ],
)
def test_faults_of_a_double_buffer_are_told_apart(fault, kind, remedy):
    finding = the_only_error(scale, X, Output.like(X), fault, **ONE)
    load, mul = (
        f"test_remedies_fix.py:{line_of(scale, text)}" for text in ("core.memcpy_async(given", "core.mul(made")
    )
    assert finding.kind == kind
    assert finding.remedy.startswith(remedy.format(load=load, mul=mul))
    assert verify(scale, X, Output.like(X), **ONE, reference=2 * X).ok


def test_a_store_after_a_loop_lacks_a_sync_and_no_index_is_wrong():
    async def kernel(core, x, out):
        total, held = (core.nram.alloc(8, x.dtype, name) for name in ("total", "held"))
        core.write_zero(total)
        for row in range(8):
            await core.memcpy(held, x[row])
            core.add(total, total, held)
        core.memcpy_async(out, total)

    finding = the_only_error(kernel, X, Output((8,)), **ONE)
    assert finding.remedy.startswith("`await core.sync_compute()`")
    assert "index" not in finding.remedy


def test_a_part_that_begins_too_early_is_one_finding():
    async def kernel(core, x, out):
        held, both = core.nram.alloc(8, x.dtype, "held"), core.nram.alloc(16, x.dtype, "both")
        await core.memcpy(held, x[0])
        core.add(both[:8], held, 1.0)
        core.move(both[7:15], held)
        await core.sync()
        await core.memcpy(out, both)

    finding = the_only_error(kernel, X, Output((16,)), **ONE)
    assert (finding.kind, kinds_of(finding)) == ("race", ["uninitialised"])
    assert finding.remedy.startswith("correct the part of both at")


@pytest.mark.parametrize("again", [False, True])
def test_a_move_that_races_may_be_a_copy_on_the_vector_pipe(again):
    async def kernel(core, x, out, move):
        held, other = (core.nram.alloc(8, x.dtype, name) for name in ("held", "other"))
        for row in range(8 if again else 1):
            await core.memcpy(held, x[row])
            (core.move if move else core.memcpy_async)(other, held)
            core.mul(other, other, 2.0)
            await core.memcpy(out[row], other)

    rows = X if again else X[:1]
    finding = the_only_error(kernel, rows, Output.like(rows), True, **ONE)
    line = line_of(kernel, "(core.move if move else core.memcpy_async)(other, held)")
    assert finding.remedy.endswith(
        "\nor copy on the vector pipe, in order with its instructions: `core.memcpy_async(...)` in place of "
        f"`core.move(...)` at test_remedies_fix.py:{line}"
    )
    assert verify(kernel, rows, Output.like(rows), False, **ONE).ok


def test_a_copy_that_is_too_long_at_both_ends_is_one_finding():
    async def kernel(core, x, out):
        if core.is_memory_core:
            return
        tile = core.nram.alloc(8, x.dtype, "tile")
        size = 4 if core.task_id == 3 else 8
        await core.memcpy(tile[:size], x[8 * core.task_id : 8 * core.task_id + size])
        start = min(8 * core.task_id, 20)
        await core.memcpy(out[start : start + 8], tile)

    x = np.ones(28, np.float32)
    finding = the_only_error(kernel, x, Output((28,)), dim=4)
    assert (finding.kind, set(kinds_of(finding))) == ("task-race", {"uninitialised", "written-again"})


def test_rows_at_the_wrong_pitch_are_one_finding_with_the_padding_that_they_reach():
    async def kernel(core, x, out):
        tile = core.nram.alloc(6, x.dtype, "tile")
        for row in range(4):
            await core.memcpy(tile, x[row])
            await core.memcpy(out[0].pointer + 6 * row, tile.pointer, 24, "NRAM2GDRAM")

    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    finding = the_only_error(kernel, x, Output((4, 6), pitch=32), reference=x, **ONE)
    assert (finding.kind, kinds_of(finding)) == ("never-written", ["wrong-value"])
    assert "outside the elements of out, such as in the padding of its rows, are written" in finding.remedy


def test_two_launches_that_write_one_tensor_in_place_of_two_are_one_finding():
    async def copy(core, x, out):
        tile = core.nram.alloc(8, x.dtype, "tile")
        await core.memcpy(tile, x[core.task_id])
        await core.memcpy(out[core.task_id], tile)

    device = mlusim.Device()
    x, a = device.upload(X, "x"), device.alloc((8, 8), X.dtype, "a")
    b, c = device.alloc((8, 8), X.dtype, "b"), device.alloc((8, 8), X.dtype, "c")
    device.launch(copy, x, a, kind="BLOCK", dim=8)
    device.launch(copy, x, a, kind="BLOCK", dim=8, queue=device.queue())
    device.synchronize()
    device.launch(copy, b, c, kind="BLOCK", dim=8)
    device.synchronize()
    (finding,) = device.verify().errors
    assert (finding.kind, kinds_of(finding)) == ("task-race", ["never-written", "uninitialised"])
    assert finding.remedy.startswith("pass b, which is never written, to one of the two launches\n")


@pytest.mark.parametrize("slots", [1, 2])
def test_a_buffer_filled_and_read_between_the_same_barriers_needs_another_part(slots):
    """The memory core and the cores have loops of their own."""

    async def kernel(core, x, out):
        box = core.sram.alloc((2, 4, 8), x.dtype, "box")
        if core.is_memory_core:
            for step in range(2):
                core.memcpy_async(box[step % slots], x[4 * step : 4 * step + 4])
                await core.sync_cluster()
            await core.sync_cluster()
            return
        tile = core.nram.alloc(8, x.dtype, "tile")
        await core.sync_cluster()
        for step in range(2):
            await core.memcpy(tile, box[step % slots, core.core_id])
            await core.memcpy(out[4 * step + core.core_id], tile)
            await core.sync_cluster()

    if slots == 1:
        finding = the_only_error(kernel, X, Output.like(X), dim=4)
        assert finding.remedy.startswith("use another part of box in one of them: both run between the same two")
    else:
        assert verify(kernel, X, Output.like(X), dim=4, reference=X).ok


async def helper(core):
    await core.sync()


def test_a_helper_that_is_not_awaited_has_its_line_as_a_field():
    async def kernel(core, out):
        helper(core)

    finding = the_only_error(kernel, Output((4,)), dim=4)
    assert finding.kind == "await"
    assert (finding.fields["file"], finding.fields["line"]) == (__file__, line_of(kernel, "helper(core)"))
    assert finding.location.endswith(": helper(core)")


def test_an_operator_with_a_check_raises_the_race_that_ended_its_run(monkeypatch):
    async def kernel(core, *_):
        rows = core.nram.alloc(8, "int32", "rows")
        core.memcpy_async(rows, index)
        for row in await core.load_array(rows):
            await core.memcpy(rows, table[int(row)])

    def launched(device, *_):
        nonlocal index, table
        index, table = device.upload(np.arange(8, dtype=np.int32)), device.upload(np.zeros((8, 8), np.int32))
        device.launch(kernel, **ONE)
        return []

    index = table = None
    monkeypatch.setattr("mlusim.ops.call.launch", launched)
    with pytest.raises(VerificationError, match="race: load_array reads rows before memcpy is known"):
        mlusim.ops.reverse(X, 0, check=True)
    with pytest.raises(mlusim.AccessError):
        mlusim.ops.reverse(X, 0, check=False)


def test_a_pipeline_that_waits_for_its_loads_only_has_no_wrong_index():
    async def kernel(core, x, out, sync="io"):
        given, total = core.nram.alloc((2, 8), x.dtype, "given"), core.nram.alloc(8, x.dtype, "total")
        for row in range(8):
            core.write_zero(total)
            for step in range(4):
                core.memcpy_async(given[step % 2], x[row])
                await (core.sync_io() if sync == "io" else core.sync())
                core.add(total, total, given[step % 2])
            await core.memcpy(out[row], total)

    finding = the_only_error(kernel, X, Output.like(X), **ONE)
    assert finding.remedy.startswith("`await core.sync_compute()`")
    assert "index" not in finding.remedy
    assert verify(kernel, X, Output.like(X), "all", **ONE, reference=4 * X).ok


def test_an_error_that_the_kernel_caught_explains_what_is_missing():
    async def kernel(core, x, out):
        tile = core.nram.alloc(3, x.dtype, "tile")
        for start in range(0, 8, 3):
            try:
                await core.memcpy(tile, x[start : start + 3])
                await core.memcpy(out[start : start + 3], tile)
            except mlusim.AccessError:
                pass

    x = np.arange(8, dtype=np.float32)
    finding = the_only_error(kernel, x, Output.like(x), reference=x, **ONE)
    assert (finding.kind, kinds_of(finding)) == ("swallowed", ["never-written", "wrong-value"])


@pytest.mark.parametrize("barrier", ["", "sync_all_ipu_within_cluster", "sync_all_ipu"])
def test_a_barrier_reaches_all_clusters_that_exchange_rows(barrier):
    async def kernel(core, x, edge, out):
        if core.is_memory_core:
            return
        tile = core.nram.alloc(8, x.dtype, "tile")
        await core.memcpy(tile, x[core.task_id])
        await core.memcpy(edge[core.task_id], tile)
        if barrier:
            await getattr(core, barrier)()
        await core.memcpy(tile, edge[(core.task_id + 1) % 8])
        await core.memcpy(out[core.task_id], tile)

    arguments = X, Output.like(X), Output.like(X)
    if barrier == "sync_all_ipu":
        assert verify(kernel, *arguments, kind="UNION2", dim=8, reference={"out": np.roll(X, -1, 0)}).ok
    else:
        finding = the_only_error(kernel, *arguments, kind="UNION2", dim=8)
        narrow = f"in place of `await core.{barrier}()` at" if barrier else "in all cores of the union"
        assert finding.remedy.startswith(f"`await core.sync_all_ipu()` {narrow}")


@pytest.mark.parametrize("late", [False, True])
def test_a_barrier_after_the_read_is_one_finding(late):
    async def kernel(core, x, out):
        box = core.sram.alloc((2, 4, 8), x.dtype, "box")
        if core.is_memory_core:
            core.memcpy_async(box[0], x[:4])
            await core.sync_cluster()
            core.memcpy_async(box[1], x[4:])
            await core.sync_cluster()
            return
        tile = core.nram.alloc(8, x.dtype, "tile")
        for step in range(2):
            if not late:
                await core.sync_cluster()
            await core.memcpy(tile, box[step, core.core_id])
            if late:
                await core.sync_cluster()
            await core.memcpy(out[4 * step + core.core_id], tile)

    if late:
        assert the_only_error(kernel, X, Output.like(X), dim=4).kind == "task-race"
    else:
        assert verify(kernel, X, Output.like(X), dim=4, reference=X).ok


def test_a_line_that_reads_the_rows_of_other_tasks_is_one_finding():
    async def kernel(core, x, out, mirror=False):
        if core.is_memory_core:
            return
        tile = core.nram.alloc(8, x.dtype, "tile")
        rows = range(core.core_id, 8, 4)
        for row in rows:
            await core.memcpy(tile, x[row])
            await core.memcpy(out[row], tile)
        for row in rows:
            await core.memcpy(tile, out[7 - row if mirror else row])
            core.mul(tile, tile, 2.0)
            await core.memcpy(out[row], tile)

    assert the_only_error(kernel, X, Output.like(X), True, dim=4).kind == "task-race"
    assert verify(kernel, X, Output.like(X), dim=4, reference=2 * X).ok


def test_a_wrong_index_of_a_list_of_buffers_is_one_finding():
    async def kernel(core, x, out, depth=3):
        buffers = [core.nram.alloc(8, x.dtype, f"buffer{number}") for number in range(3)]
        for step in range(26):
            if step < 24:
                core.memcpy_async(buffers[step % depth], x[step])
            if 1 <= step < 25:
                core.mul(buffers[(step - 1) % 3], buffers[(step - 1) % 3], 2.0)
            if step >= 2:
                core.memcpy_async(out[step - 2], buffers[(step - 2) % 3])
            await core.sync()

    x = np.ones((24, 8), np.float32)
    finding = the_only_error(kernel, x, Output.like(x), 2, **ONE)
    load, compute = (kernel.__code__.co_firstlineno + line for line in (4, 6))
    assert f":{load}" in finding.remedy
    assert f":{compute}" in finding.remedy
    assert verify(kernel, x, Output.like(x), **ONE, reference=2 * x).ok


@pytest.mark.parametrize("early", [False, True])
def test_a_memory_core_that_reads_before_the_cores_write_is_named_in_the_intended_order(early):
    async def kernel(core, x, out):
        box = core.sram.alloc((4, 8), x.dtype, "box")
        if core.is_memory_core:
            if not early:
                await core.sync_cluster()
            await core.memcpy(out, box)
            if early:
                await core.sync_cluster()
            return
        tile = core.nram.alloc(8, x.dtype, "tile")
        await core.memcpy(tile, x[core.core_id])
        await core.memcpy(box[core.core_id], tile)
        await core.sync_cluster()

    if early:
        finding = the_only_error(kernel, X[:4], Output((4, 8)), dim=4)
        assert finding.title == "the memory core of cluster 0 reads box before task 0 is known to have written it"
    else:
        assert verify(kernel, X[:4], Output((4, 8)), dim=4, reference=X[:4]).ok


async def blend(core, x, out, fault=""):
    """Rows of five elements, padded to eight: each is made from two rows of x, and the last is x[3]."""
    first, second, mixed = (core.nram.alloc(8, x.dtype, name) for name in ("first", "second", "mixed"))
    for row in range(4):
        await core.memcpy(first[:5], x[row])
        await core.memcpy(second[:5], x[min(row + 1, 3)])
        other = first if fault == "once" else second
        if fault == "swapped":
            core.sub(mixed, first, second)
        else:
            core.sub(mixed, other, first)
        core.mul(mixed, mixed, 0.5)
        core.add(mixed, mixed, first)
        await core.memcpy(out[row], mixed[:5])


@pytest.mark.parametrize(
    ("fault", "remedy"),
    [
        ("once", "read second, or correct the destination at "),
        ("swapped", "check the operations that made these bytes, at "),
    ],
)
def test_a_buffer_that_nothing_reads_comes_first_and_padding_is_no_part_that_lacks_a_reader(fault, remedy):
    x = np.arange(20, dtype=np.float32).reshape(4, 5) ** 2
    expected = x + (x[[1, 2, 3, 3]] - x) * np.float32(0.5)
    finding = the_only_error(blend, x, Output.like(x), fault, reference=expected, **ONE)
    assert finding.kind == "wrong-value"
    assert f"{finding.remedy}\n".startswith(remedy)
    assert "nothing reads mixed" not in finding.remedy
    assert verify(blend, x, Output.like(x), reference=expected, **ONE).ok


async def decay(core, x, out, less=0):
    """y[t] = y[t - 1] / 2 + x[t] for tiles of four steps; the state goes from tile to tile."""
    tile, state = core.nram.alloc((4, 8), x.dtype, "tile"), core.nram.alloc(8, x.dtype, "state")
    core.write_zero(state)
    for start in (0, 4):
        await core.memcpy(tile, x[start : start + 4])
        for step in range(4 - less):
            core.mul(state, state, 0.5)
            core.add(state, state, tile[step])
            core.memcpy_async(tile[step], state)
        await core.memcpy(out[start : start + 4], tile)


def test_an_element_that_begins_its_row_is_compared_with_the_row_before():
    expected = np.zeros_like(X)
    for step in range(8):
        expected[step] = (expected[step - 1] if step else 0) * np.float32(0.5) + X[step]
    finding = the_only_error(decay, X, Output.like(X), 1, reference=expected, **ONE)
    line = line_of(decay, "core.memcpy_async(tile[step], state)")
    assert finding.remedy.startswith(f"compute this element at test_remedies_fix.py:{line} too: ")
    assert verify(decay, X, Output.like(X), reference=expected, **ONE).ok


async def lower_triangle(core, x, out, less=0):
    """The largest element up to the diagonal, minus each; what is above the diagonal is infinite."""
    row, largest = core.nram.alloc(8, x.dtype, "row"), core.nram.alloc(32, x.dtype, "largest")
    for number in range(8):
        core.fill(row, float("-inf"))
        size = max(number + 1 - less, 1)
        await core.memcpy(row[:size], x[number, :size])
        core.max(largest, row)
        top = float(await core.load(largest[0]))
        core.sub(row, row, top)
        await core.memcpy(out[number], row)


def test_what_a_fill_prepares_is_no_element_that_another_one_lacks():
    expected = np.where(np.tril(np.ones_like(X)) > 0, X, -np.inf)
    expected = expected - expected.max(1, keepdims=True)
    finding = the_only_error(lower_triangle, X, Output.like(X), 1, reference=expected, **ONE)
    line = line_of(lower_triangle, "await core.memcpy(row[:size], x[number, :size])")
    assert finding.remedy.startswith("check the operations that made these bytes, at ")
    assert f"test_remedies_fix.py:{line}" in finding.remedy
    assert verify(lower_triangle, X, Output.like(X), reference=expected, **ONE).ok
