"""Memories: capacity, alignment, first fit, peak, poison, and errors with the arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlusim.errors import AccessError, AllocationError
from mlusim.hardware import board as board_of
from mlusim.hardware import presets
from mlusim.memory.allocation import POISON, Memory, check_usable, fits_message
from mlusim.memory.kinds import MemoryKind
from mlusim.memory.sizes import MemorySize, memory_sizes
from mlusim.units import KIB


def nram(total: int = 1024, reserved: int = 0, alignment: int = 128) -> Memory:
    return Memory(MemoryKind.NRAM, "the NRAM of core 0", MemorySize(total, reserved, alignment))


@pytest.mark.parametrize(
    ("family", "nram_kib", "sram_kib"),
    [("mlu270", 384, 1920), ("mlu290", 384, 1920), ("mlu370", 640, 3968), ("mlu590", 384, 1920)],
)
def test_compiler_keeps_128_kib_of_nram_and_sram(family: str, nram_kib: int, sram_kib: int) -> None:
    boards = [item for item in presets() if item.family == family]
    assert boards
    for item in boards:
        assert (item.nram_reserved_bytes, item.sram_reserved_bytes) == (128 * KIB, 128 * KIB)
        assert (item.nram_usable_bytes, item.sram_usable_bytes) == (nram_kib * KIB, sram_kib * KIB)


def test_capacity_is_total_less_reserved() -> None:
    memory = nram(1024, reserved=128)
    assert memory.usable_bytes == memory.largest_free_bytes() == 896
    memory.allocate(896, "all", 0)
    with pytest.raises(AllocationError):
        memory.allocate(1, "more", 1)


def test_an_allocation_too_large_names_the_sizes() -> None:
    board = board_of("mlu370-x4")
    memory = Memory(MemoryKind.NRAM, "mlu370-x4", memory_sizes(board)[MemoryKind.NRAM])
    memory.allocate(100, "small", 0)
    with pytest.raises(
        AllocationError,
        match=r"^nram\.alloc of 702 464 B \(686 KiB\) does not fit: 655 360 B usable in mlu370-x4 \(786 432 B less "
        r"131 072 B reserved for the compiler\), 128 B in use, largest free range 655 232 B$",
    ):
        memory.allocate(702_464, "column", 1)


def test_an_array_may_be_placed_wherever_it_fits() -> None:
    """As a linker does, in the reserved part too; allocations go around it."""
    memory = nram(1024, reserved=256)
    memory.place(128, 100, "first", 0, None)
    memory.place(1000, 24, "at the end", 1, None)
    assert [memory.allocate(128, "free", 2).address, memory.allocate(128, "free", 3).address] == [0, 256]
    with pytest.raises(AllocationError, match=r"^late of 25 B at byte 1 000 of the NRAM of core 0, which has 1 024 B$"):
        memory.place(1000, 25, "late", 4, None)
    with pytest.raises(AllocationError, match=r"^more at byte 200 of the NRAM of core 0 overlaps first$"):
        memory.place(200, 4, "more", 4, None)


def test_an_allocation_too_large_names_the_rounding() -> None:
    with pytest.raises(AllocationError, match=r"^nram\.alloc of 1 000 B \(rounded up to 1 024 B\) does not fit: "):
        nram(1023).allocate(1000, "odd", 0)


@pytest.mark.parametrize(
    ("shape", "itemsize", "free", "text"),
    [
        ((), 4, 0, "free other buffers first: allocate before the loop, or inside `with core.nram.scope()`"),
        ((16, 196), 4, 8000, "split axis 0 of (16, 196): 10 of 16 rows of 784 B fit"),
        ((16, 196), 4, 783, "not one row of 784 B fits: split an inner axis, 195 elements fit"),
    ],
)
def test_largest_tile_that_fits(shape: tuple[int, ...], itemsize: int, free: int, text: str) -> None:
    assert fits_message(shape, itemsize, free) == text


def test_every_allocation_is_aligned_and_zero_bytes_take_room() -> None:
    memory = nram(1024)
    first, empty, last = (memory.allocate(size, "x", number) for number, size in enumerate((1, 0, 129)))
    assert [item.address for item in (first, empty, last)] == [0, 128, 256]
    assert memory.used_bytes == 512
    assert (first.nbytes, empty.nbytes, last.nbytes) == (1, 0, 129)


def test_first_fit_fills_the_hole() -> None:
    memory = nram(1024)
    kept = [memory.allocate(128, f"{number}", number) for number in range(4)]
    memory.free(kept[1])
    memory.free(kept[2])
    again = memory.allocate(200, "again", 9)
    assert again.address == 128
    assert memory.live == (kept[0], again, kept[3])
    assert memory.allocate(128, "behind", 10).address == 512


def test_peak_use_stays_after_free() -> None:
    memory = nram(1024)
    one = memory.allocate(300, "one", 0)
    memory.free(one)
    memory.allocate(100, "two", 1)
    assert (memory.used_bytes, memory.peak_bytes) == (128, 384)


@pytest.mark.parametrize("kind", list(MemoryKind))
def test_fresh_memory_is_poisoned_again_after_free(kind: MemoryKind) -> None:
    memory = Memory(kind, "m", MemorySize(1024))
    one = memory.allocate(100, "one", 0)
    assert (one.bytes() == POISON).all()
    one.bytes()[:] = 0
    memory.free(one)
    assert (memory.allocate(100, "two", 1).bytes() == POISON).all()
    assert np.isnan(memory.allocate(100, "three", 2).bytes().view(np.float32)).all()


def test_on_chip_allocations_share_no_byte() -> None:
    memory = nram(1024)
    one, two = memory.allocate(130, "one", 0), memory.allocate(130, "two", 1)
    one.bytes()[:] = 1
    two.bytes()[:] = 2
    assert (one.bytes() == 1).all()
    assert not np.shares_memory(one.bytes(), two.bytes())


@pytest.mark.parametrize("nbytes", [128, 4096, 655_360])
def test_memories_share_no_byte(nbytes: int) -> None:
    memories = [nram(nbytes) for _ in range(70)]
    buffers = [memory.allocate(128, "tile", number).bytes() for number, memory in enumerate(memories)]
    for number, buffer in enumerate(buffers):
        assert (buffer == POISON).all()
        buffer[:] = number
    assert [set(buffer.tolist()) for buffer in buffers] == [{number} for number in range(70)]


def test_memories_reuse_the_bytes_of_closed_ones_only() -> None:
    live = nram(2048)
    held = live.allocate(2048, "live", 0).bytes()
    held[:] = 1
    closed = nram(2048)
    was = closed.allocate(2048, "closed", 1).bytes()
    was[:] = 2
    closed.close()
    # Sizes nobody asked for lately are forgotten: the buffers of live memories stay theirs.
    for total in range(4096, 65_536, 4096):
        nram(total).allocate(total, "other", 2)
    after = [nram(2048).allocate(2048, "after", 3).bytes() for _ in range(3)]
    assert all((buffer == POISON).all() for buffer in after)
    assert (held == 1).all()


def test_a_new_memory_reuses_the_buffer_of_a_closed_one() -> None:
    first = nram(3072)
    was = first.allocate(3072, "first", 0).bytes()
    first.close()
    again = nram(3072).allocate(3072, "again", 1).bytes()
    assert np.shares_memory(was, again)
    assert (again == POISON).all()


def test_freeing_twice_and_using_freed() -> None:
    memory = nram()
    one = memory.allocate(64, "tile", 0)
    check_usable(one, write=True)
    memory.free(one)
    with pytest.raises(AllocationError, match=r"^tile is freed already; free each allocation of the NRAM of core 0 on"):
        memory.free(one)
    with pytest.raises(AllocationError, match=r"^tile in the NRAM of core 0 was freed; use it before its scope ends"):
        check_usable(one, write=False)


def test_freeing_in_another_memory() -> None:
    one = nram().allocate(64, "tile", 0)
    with pytest.raises(AllocationError):
        nram().free(one)
    assert not one.freed


def test_writing_an_input() -> None:
    one = nram().allocate(64, "x", 0)
    one.read_only = True
    check_usable(one, write=False)
    with pytest.raises(AccessError, match=r"^x is an input, and inputs are never written; pass Output\(shape, dtype\)"):
        check_usable(one, write=True)


def test_timing_only_has_sizes_but_no_bytes() -> None:
    memory = Memory(MemoryKind.GDRAM, "gdram", MemorySize(1 << 60), data=False)
    huge = memory.allocate(1 << 59, "huge", 0)
    assert huge.nbytes == 1 << 59
    with pytest.raises(AccessError, match=r"^huge has a size but no bytes: this run is timing-only; run it with data"):
        huge.bytes()


@given(
    steps=st.lists(st.tuples(st.booleans(), st.integers(0, 9), st.integers(0, 100)), max_size=30),
    alignment=st.sampled_from([1, 4]),
)
def test_allocations_never_overlap(steps: list[tuple[bool, int, int]], alignment: int) -> None:
    """First fit, compared with a model that tracks every byte of a very small memory."""
    memory = nram(32, alignment=alignment)
    live, peak = [], 0
    for number, (free, size, pick) in enumerate(steps):
        if free and live:
            memory.free(live.pop(pick % len(live)))
        taken = "".join(
            "x" if any(a.address <= byte < a.address + a.capacity for a in live) else "." for byte in range(32)
        )
        need = max(-(-size // alignment), 1) * alignment
        if "." * need not in taken:
            with pytest.raises(AllocationError, match=rf", {taken.count('x')} B in use, "):
                memory.allocate(size, "n", number)
            continue
        item = memory.allocate(size, "n", number)
        assert item.address == taken.index("." * need)
        assert item.address % alignment == 0
        live.append(item)
        peak = max(peak, sum(item.capacity for item in live))
        assert sorted(memory.live, key=lambda item: item.address) == list(memory.live)
        assert memory.used_bytes == sum(item.capacity for item in live)
    assert memory.peak_bytes == peak
