"""Large loads whose bytes stay in the input until they are needed: results equal those of plain copies."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlusim
from mlusim.cores.core import Core
from mlusim.memory.addresses import Addresses, IndexedAxis
from mlusim.memory.allocation import Memory
from mlusim.memory.deferred import DeferredWrite, DeferredWrites, _without_copy
from mlusim.memory.kinds import MemoryKind
from mlusim.memory.row_copy import RowCopy
from mlusim.memory.sizes import MemorySize
from mlusim.memory.view import View

ROWS, WIDTH, COPIED = 24, 16, 8
INDEX = np.random.default_rng(2).integers(-ROWS, ROWS, 2 * ROWS)
Step = tuple[str, int, int, int]

STEPS = (
    *("load", "load_part", "store", "store_flat", "mirror", "mirror_all", "convert", "convert_up", "store_half"),
    *("store_half_in_columns", "zero", "add", "move", "update", "update_part", "update_by_offsets"),
    *("update_from_gdram", "runs", "peek", "load_index", "zero_index", "update_by_index", "update_by_indexed_rows"),
)
steps = st.lists(
    st.tuples(
        st.sampled_from((*STEPS, "fresh", "sync")), st.integers(0, ROWS - 1), st.integers(1, ROWS), st.integers(0, 7)
    ),
    max_size=24,
)


async def program(core: Core, x: View, index: View, out: View, seen: list[bytes], plan: list[Step]) -> None:
    """Follow a plan of steps on two buffers of NRAM, and store both at the end."""
    held = core.nram.alloc((ROWS, WIDTH), x.dtype)
    spare = core.nram.alloc((ROWS, WIDTH), x.dtype)
    half = core.nram.alloc((ROWS, WIDTH), np.float16)
    offsets = core.nram.alloc(ROWS, np.int32)
    lookups = core.nram.alloc(ROWS, index.dtype)
    core.write_zero(lookups)
    for name, first, count, other in plan:
        last = min(first + count, ROWS)
        rows = held[first:last]
        size = last - first
        # Some rows repeatedly, and not in order.
        numbers = np.arange(size) * (2 * other + 3) % ROWS
        match name:
            case "load":
                core.memcpy_async(rows, x[other : other + size])
            case "load_part":
                core.memcpy_async(rows, x[other : other + 2 * size : 2])
            case "store":
                await core.memcpy(out[other % COPIED, first:last], rows)
            case "store_flat":
                await core.memcpy(out[other % COPIED, first:last].reshape(-1), rows.reshape(-1))
            case "mirror":
                core.mirror(spare[:size], rows)
            case "mirror_all":
                core.mirror(spare.reshape(-1), held.reshape(-1))
            case "convert":
                core.convert(half[first:last], rows)
                core.convert(spare[first:last], half[first:last])
            case "convert_up":
                core.convert(half[first:last], rows, "up")
            case "store_half":
                target = out[other % COPIED].reshape(-1).view("float16")
                await core.memcpy(target[first * WIDTH : last * WIDTH], half[first:last].reshape(-1))
            case "store_half_in_columns":
                await core.memcpy(out[other % COPIED].view("float16")[first:last, :WIDTH], half[first:last])
            case "zero":
                core.write_zero(rows)
            case "add":
                core.add(spare[first:last], spare[first:last], rows)
            case "move":
                core.move(spare[:size], rows)
            case "update":
                await core.scalar_copy(held, spare[:size], numbers)
                # A register may change once the loop is over.
                numbers[:] = 0
            case "update_part":
                await core.scalar_copy(held[first:last], spare[:size], numbers % size, np.arange(size)[::-1])
            case "update_by_offsets":
                core.store_array(offsets[:size], numbers)
                if core.board.has_gather:
                    core.scatter(held, spare[first:last], offsets[:size])
                else:
                    await core.scalar_copy(held, spare[first:last], offsets[:size])
            case "update_from_gdram":
                await core.memcpy_rows(held, x, numbers, numbers + other, blocking=False)
            case "runs":
                starts = np.arange(0, size, 4) + other
                lengths = np.minimum(1 + numbers[: len(starts)] % 4, size)
                lengths[-1] = 1
                await core.memcpy_rows(held, x, None, starts, lengths=lengths, blocking=False)
            case "load_index":
                core.memcpy_async(lookups[first:last], index[other : other + size])
            case "zero_index":
                core.write_zero(lookups[first:last])
            case "update_by_index":
                axis = IndexedAxis(extent=ROWS, step=1, start=other, stop=ROWS)
                to = Addresses((size,), (0,), base=other, index=lookups[first:last], axes=(axis,))
                await core.scalar_copy(held, spare[first:last], to)
            case "update_by_indexed_rows":
                axis = IndexedAxis(extent=ROWS, step=1, start=0, stop=ROWS)
                numbers = Addresses((size,), (0,), index=lookups[first:last], axes=(axis,))
                await core.memcpy_rows(spare[:size], held, None, numbers, blocking=False)
            case "peek":
                seen.append(core.peek(spare[first:last] if other % 2 else rows).tobytes())
            case "fresh":
                with core.nram.scope():
                    fresh = core.nram.alloc((size, WIDTH), x.dtype)
                    core.memcpy_async(fresh, x[other : other + size])
                    await core.sync()
                    await core.memcpy(out[other % COPIED, :size], fresh)
                again = core.nram.alloc((size, WIDTH), x.dtype)
                seen.append(core.peek(again).tobytes())
            case "sync":
                await core.sync()
        if other % 3 == 0:
            await core.sync()
        held, spare = (spare, held) if other == 5 else (held, spare)
    await core.sync()
    await core.memcpy(out[COPIED], held)
    await core.memcpy(out[COPIED + 1], spare)
    seen.append(core.peek(half).tobytes())


def run(
    x: np.ndarray[Any, Any], plan: list[Step], least: int, board: str, checks: int = 16
) -> tuple[bytes, list[bytes], bytes]:
    """The output, what the kernel saw, and the log, with loads and fresh buffers of `least` bytes or more deferred."""
    seen: list[bytes] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mlusim.cores.copies.geometry.MIN_BYTES", least)
        patch.setattr("mlusim.cores.copies.geometry.MIN_SEGMENT_BYTES", 1)
        patch.setattr("mlusim.cores.compute.deferred_vector.MIN_BYTES", least)
        patch.setattr("mlusim.memory.allocation.MIN_BYTES", least)
        patch.setattr("mlusim.memory.deferred._MAX_CHECKS", checks)
        device = mlusim.Device(board)
        source = device.upload(x, "x")
        index = device.upload(INDEX, "index")
        out = device.upload(np.zeros((COPIED + 2, ROWS, WIDTH), x.dtype), "out", writable=True)
        device.launch(program, source, index, out, seen, plan, dim=1, kind="BLOCK")
        device.synchronize()
    return device.download(out).tobytes(), seen, device.log.table().tobytes()


@given(plan=steps, board=st.sampled_from(["mlu370-x4", "mlu590-h8"]))
@settings(max_examples=50, deadline=None)
def test_every_program_sees_the_bytes_of_plain_copies(plan: list[Step], board: str) -> None:
    x = np.random.default_rng(0).standard_normal((3 * ROWS, WIDTH)).astype(np.float32)
    plain = run(x, plan, 1 << 60, board)
    # All loads are deferred, or those of eight rows or more and others are not.
    assert run(x, plan, 1, board) == plain
    assert run(x, plan, 8 * WIDTH * x.itemsize, board) == plain
    assert run(x, plan, 1, board, checks=2) == plain


@pytest.mark.parametrize("name", [*STEPS, "fresh"])
@pytest.mark.grid(6)
def test_any_two_steps_after_a_deferred_load_see_plain_bytes(name: str) -> None:
    x = np.random.default_rng(0).standard_normal((3 * ROWS, WIDTH)).astype(np.float32)
    for other in (*STEPS, "fresh"):
        plan = [("load", 0, ROWS, 3), (name, 2, 12, 3), (other, 4, 6, 3), ("peek", 0, ROWS, 0), ("peek", 0, ROWS, 1)]
        assert run(x, plan, 1, "mlu370-x4") == run(x, plan, 1 << 60, "mlu370-x4"), (name, other)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "complex128", "bool"])
def test_element_types_go_from_input_to_output_bit_by_bit(dtype: str) -> None:
    rng = np.random.default_rng(1)
    x = rng.integers(0, 256, (1 << 20,), np.uint8).view(mlusim.dtypes.dtype_of(dtype)).reshape(64, -1)

    async def there_and_back(core: Core, x: View, out: View) -> None:
        held = core.nram.alloc((8, x.shape[1]), x.dtype)
        for first in range(0, 64, 8):
            await core.memcpy(held, x[first : first + 8])
            await core.memcpy(out[first : first + 8], held)

    result = mlusim.run(there_and_back, x, mlusim.Output(x.shape, x.dtype), dim=1, kind="BLOCK")
    assert result.output is not None
    assert result.output.tobytes() == x.tobytes()


def test_an_output_that_is_loaded_again_is_copied_at_once() -> None:
    """Only inputs stay as they are: what a kernel may write is read when the load completes."""
    x = np.arange(1 << 14, dtype=np.int32)

    async def kernel(core: Core, x: View, out: View) -> None:
        held, other = core.nram.alloc(x.shape, x.dtype), core.nram.alloc(x.shape, x.dtype)
        await core.memcpy(held, x)
        await core.memcpy(out, held)
        await core.memcpy(other, out)
        core.write_zero(held)
        await core.sync()
        await core.memcpy(out, held)
        assert np.array_equal(core.peek(other), np.arange(1 << 14))

    result = mlusim.run(kernel, x, mlusim.Output(x.shape, x.dtype), dim=1, kind="BLOCK")
    assert result.output is not None
    assert not result.output.any()


def memory_of(nbytes: int) -> tuple[Memory, DeferredWrites]:
    memory = Memory(MemoryKind.NRAM, "the NRAM", MemorySize(nbytes))
    memory.deferred = DeferredWrites(memory)
    memory.bytes_between(0, nbytes)[:] = 0
    return memory, memory.deferred


def test_overwritten_rows_are_cut_out_of_a_deferred_piece() -> None:
    memory, owes = memory_of(64)
    owes.put(DeferredWrite(0, 64, np.arange(64, dtype=np.uint8).reshape(8, 8)))
    owes.discard(16, 24)
    assert sorted((write.first, write.last) for write in owes.pending) == [(0, 16), (24, 64)]
    owes.flush()
    expected = np.arange(64)
    expected[16:24] = 0
    assert memory.bytes_between(0, 64).tolist() == expected.tolist()


def test_a_piece_cut_within_a_row_is_written_first() -> None:
    memory, owes = memory_of(64)
    owes.put(DeferredWrite(0, 64, np.arange(64, dtype=np.uint8).reshape(8, 8)))
    owes.discard(20, 24)
    assert owes.pending == []
    assert memory.bytes_between(0, 64).tolist() == list(range(64))


def test_a_store_takes_each_row_from_where_it_is() -> None:
    memory, owes = memory_of(32)
    memory.bytes_between(0, 32)[:] = 7
    owes.put(DeferredWrite(8, 24, np.arange(16, dtype=np.uint8).reshape(2, 8)))
    target = np.full((4, 8), 99, np.uint8)
    owes.store(target, memory.bytes_between(0, 32).reshape(4, 8), 0, 32)
    assert target.reshape(-1).tolist() == [7] * 8 + list(range(16)) + [7] * 8
    assert memory.bytes_between(8, 24).tolist() == [7] * 16
    assert len(owes.pending) == 1


def test_only_bytes_that_are_accessed_are_written() -> None:
    memory, owes = memory_of(64)
    owes.put(DeferredWrite(0, 64, np.arange(64, dtype=np.uint8).reshape(8, 8)))
    owes.flush(20, 26)
    assert owes.pending == []
    owes.put(DeferredWrite(0, 64, np.arange(64, 128, dtype=np.uint8).reshape(8, 8)))
    owes.flush(16, 24)
    assert sorted((write.first, write.last) for write in owes.pending) == [(0, 16), (24, 64)]
    assert memory.bytes_between(0, 64).tolist() == [*range(16), *range(80, 88), *range(24, 64)]


def test_a_copy_writes_what_it_reads_and_forgets_what_it_overwrites() -> None:
    memory, owes = memory_of(64)
    held = memory.bytes_between(0, 64).reshape(8, 8)
    owes.put(DeferredWrite(0, 64, np.arange(64, dtype=np.uint8).reshape(8, 8)))
    owes.copy(held[0:1], held[4:5])
    assert sorted((write.first, write.last) for write in owes.pending) == [(8, 32), (40, 64)]
    assert held[0].tolist() == held[4].tolist() == list(range(32, 40))
    owes.copy(held[2:4, :4], np.zeros((2, 4), np.uint8))
    assert held[2:4].tolist() == [[0] * 4 + [20, 21, 22, 23], [0] * 4 + [28, 29, 30, 31]]
    target = np.zeros(8, np.uint8)
    owes.copy(target, np.ones(8, np.uint8))
    assert target.all()
    assert sorted((write.first, write.last) for write in owes.pending) == [(8, 16), (40, 64)]


def rows_in_gdram(count: int) -> View:
    allocation = Memory(MemoryKind.GDRAM, "the GDRAM", MemorySize(128)).allocate(2 * count, "rows", 1)
    return View.of(allocation, (count, 2), np.dtype(np.uint8))


def updated() -> tuple[Memory, DeferredWrites, View]:
    """A deferred load of 32 bytes, of which some rows of 2 bytes have been stored since, one of them twice."""
    memory, owes = memory_of(128)
    held = View.of(memory.allocate(32, "held", 0), (16, 2), np.dtype(np.uint8))
    rows = rows_in_gdram(4)
    rows.typed()[...] = np.arange(200, 208).reshape(4, 2)
    owes.put(DeferredWrite(0, 32, np.arange(32, dtype=np.uint8).reshape(4, 8)))
    owes.copy_rows(RowCopy(held, rows, np.array([3, 0, 3, 15]), None, 4))
    rows.typed()[...] = 0
    return memory, owes, held


UPDATED = [202, 203, *range(2, 6), 204, 205, *range(8, 30), 206, 207]


def test_rows_stored_in_a_deferred_load_are_deferred_with_it() -> None:
    memory, owes, _ = updated()
    assert len(owes.pending) == 1
    assert (memory.bytes_between(0, 32) == 0xFF).all()
    target = np.zeros((2, 16), np.uint8)
    owes.store(target, memory.bytes_between(0, 32).reshape(2, 16), 0, 32)
    assert target.reshape(-1).tolist() == UPDATED
    owes.flush()
    assert memory.bytes_between(0, 32).tolist() == UPDATED


@pytest.mark.parametrize(("first", "last"), [(0, 8), (8, 16), (24, 32), (3, 5)])
def test_any_part_of_updated_bytes_is_read_as_updated(first: int, last: int) -> None:
    memory, owes, _ = updated()
    target = np.zeros(last - first, np.uint8)
    owes.store(target, memory.bytes_between(first, last), first, last)
    assert target.tolist() == UPDATED[first:last]


def test_overwriting_a_part_of_updated_bytes_leaves_the_rest_updated() -> None:
    memory, owes, _ = updated()
    owes.copy(memory.bytes_between(0, 8), np.full(8, 9, np.uint8))
    owes.flush()
    assert memory.bytes_between(0, 32).tolist() == [9] * 8 + UPDATED[8:]


def test_updated_bytes_go_to_a_target_with_gaps_through_the_memory() -> None:
    memory, owes, _ = updated()
    target = np.zeros((4, 16), np.uint8)
    owes.store(target[:, :8], memory.bytes_between(0, 32).reshape(4, 8), 0, 32)
    assert target[:, :8].reshape(-1).tolist() == UPDATED
    assert not target[:, 8:].any()


def test_more_updates_than_a_deferred_load_has_bytes_are_written() -> None:
    """They would take more memory than the bytes themselves."""
    memory, owes, held = updated()
    spare = rows_in_gdram(16)
    spare.typed()[...] = 7
    for expected in (1, 0):
        owes.copy_rows(RowCopy(held, spare, np.arange(16), None, 16))
        assert len(owes.pending) == expected
    assert memory.bytes_between(0, 32).tolist() == [7] * 32


def test_pieces_that_many_copies_pass_by_are_written() -> None:
    """A buffer filled once before a long loop would slow down each of its copies."""
    memory, owes = memory_of(64)
    owes.put(DeferredWrite(32, 64, np.array(7, np.uint8)))
    held = memory.bytes_between(0, 64)
    for value in range(16):
        owes.copy(held[:8], np.full(8, value, np.uint8))
    assert len(owes.pending) == 1
    owes.copy(held[:8], np.zeros(8, np.uint8))
    assert owes.pending == []
    assert held[32:].tolist() == [7] * 32


@given(data=st.data())
def test_reshaping_without_a_copy_matches_numpy(data: st.DataObject) -> None:
    extents = st.lists(st.sampled_from([1, 2, 3, 4]), min_size=1, max_size=4)
    array = np.arange(4**4, dtype=np.int32).reshape(4, 4, 4, 4)
    part = array[tuple(slice(None, data.draw(st.integers(1, 4))) for _ in range(4))]
    part = part[tuple(slice(None, None, data.draw(st.sampled_from([1, -1]))) for _ in range(4))]
    part = np.broadcast_to(part, (data.draw(st.sampled_from([1, 3])), *part.shape))
    wanted = tuple(data.draw(extents))
    wanted = (*wanted, part.size // math.prod(wanted)) if part.size % math.prod(wanted) == 0 else part.shape[::-1]
    found, expected = _without_copy(part, wanted), part.reshape(wanted)
    assert (found is not None) == np.may_share_memory(expected, part)
    assert found is None or np.array_equal(found, expected)
