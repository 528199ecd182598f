"""Rejected copies, with the line of the kernel; `memory/test_copy_rules.py` has the limits of sizes and strides."""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kernel_lines import at
from mlusim.cores.copies.memcpy import _view_copy
from mlusim.cores.core import Core
from mlusim.errors import AccessError, AllocationError, CopyError, KernelError
from mlusim.host.device import Device
from mlusim.memory.kinds import Direction
from mlusim.memory.view import Pointer, View
from mlusim.units import format_ns

GDRAM2NRAM, NRAM2GDRAM, NRAM2NRAM = Direction.GDRAM2NRAM, Direction.NRAM2GDRAM, Direction.NRAM2NRAM
QUICK = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


async def one_copy(core: Core, dst: Any, src: Any, *rest: Any) -> None:
    await core.memcpy(dst, src, *rest)


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        (
            (8,),
            "memcpy between pointers, or of a size, needs its direction: memcpy(dst, src, size, Direction.GDRAM2NRAM)",
        ),
        (
            (404, Direction.GDRAM2GDRAM),
            "memcpy writes bytes 0..404 of output, which has 400 B: 404 B do ",
        ),
    ],
)
def test_a_refused_copy_names_task_line_and_time(run: Any, rest: tuple[Any, ...], message: str) -> None:
    device = Device()
    x, out = device.upload(np.zeros(100, np.int32)), device.alloc(100, np.int32)
    line = at(one_copy, "await core.memcpy")
    with pytest.raises(KernelError) as caught:
        run(one_copy, out, x, *rest, device=device)
    place = f"task 0 (cluster 0, core 0), {line}, at {format_ns(device.board.kernel_start_ps)}: "
    assert str(caught.value).startswith(place + message)
    assert isinstance(caught.value, CopyError | AccessError)


def test_writing_an_input(run: Any) -> None:
    device = Device()
    x = device.upload(np.arange(4.0), "x")
    message = (
        r": x is an input, and inputs are never written; pass Output\(shape, dtype\), or InOut\(array\) for values "
        r"before the run, or write to a buffer of your own$"
    )
    with pytest.raises(AccessError, match=message):
        run(one_copy, x[:2], x[2:], device=device)
    assert device.download(x).tolist() == [0, 1, 2, 3]


def test_a_cached_form_is_checked_again_for_another_buffer(run: Any) -> None:
    """The geometry is cached; whether a buffer may be written, is freed, or can be reached is checked each time."""
    device = Device()
    x, y = device.alloc(4, np.int8), device.upload(np.zeros(4, np.int8), "y")

    async def kernel(core: Core, x: View, y: View) -> None:
        tile = core.nram.alloc(4, np.int8)
        await core.memcpy(tile, x)
        await core.memcpy(x, tile)
        await core.memcpy(y, tile)

    with pytest.raises(AccessError, match="y is an input"):
        run(kernel, x, y, device=device)


def test_freed_memory(run: Any) -> None:
    async def kernel(core: Core, side: int) -> None:
        with core.nram.scope():
            gone = core.nram.alloc(16, np.int8, "gone")
        tile = core.nram.alloc(16, np.int8)
        await core.memcpy(*((gone, tile) if side else (tile, gone)))

    for side in (0, 1):
        with pytest.raises(
            AllocationError, match=r": gone in the NRAM of cluster 0 core 0 of mlu370-x4 was freed; use"
        ):
            run(kernel, side)


def test_a_buffer_freed_between_equal_copies_is_an_error(run: Any) -> None:
    async def kernel(core: Core) -> None:
        tile = core.nram.alloc(16, np.int8)
        with core.nram.scope():
            gone = core.nram.alloc(16, np.int8, "gone")
            await core.memcpy(tile, gone)
        await core.memcpy(tile, gone)

    with pytest.raises(AllocationError, match="gone in the NRAM"):
        run(kernel)


@pytest.mark.parametrize("wrong", [np.zeros(4, np.int8), None, 7, "x"], ids=repr)
def test_only_views_and_pointers_of_the_device(run: Any, wrong: Any) -> None:
    async def kernel(core: Core) -> None:
        await core.memcpy(core.nram.alloc(4, np.int8), wrong)

    with pytest.raises(
        CopyError,
        match=r": memcpy copies between views or pointers of the device, and .* is neither; an array is uploaded only",
    ):
        run(kernel)


@pytest.mark.parametrize("memory", ["nram", "wram", "ldram"])
@pytest.mark.parametrize("write", [False, True])
def test_another_cores_memory_is_out_of_reach(run: Any, memory: str, write: bool) -> None:
    """Even if the owner of the buffer has issued the same copy before."""
    shared: dict[str, View] = {}

    async def kernel(core: Core) -> None:
        if core.is_memory_core:
            return
        mine, tile = getattr(core, memory).alloc(128, np.int8), core.nram.alloc(128, np.int8)
        pair = (mine, tile) if write else (tile, mine)
        if core.core_id == 0:
            shared["theirs"] = mine
            await core.memcpy(*pair)
        await core.sync_all_ipu()
        if core.core_id == 1:
            theirs = shared["theirs"]
            await core.memcpy(*((theirs, tile) if write else (tile, theirs)))

    with pytest.raises(
        CopyError,
        match=rf"^task 1 \(cluster 0, core 1\), test_refused_copies\.py:\d+, at .*: this core cannot reach the "
        rf"{memory.upper()} of cluster 0 core 0 of mlu370-x4: stage the bytes through SRAM or GDRAM of one device$",
    ):
        run(kernel, dim=4, kind="UNION1")


def test_2xx_has_no_3d(run: Any) -> None:
    async def kernel(core: Core) -> None:
        one, two = core.nram.alloc((4, 4, 4), np.int8), core.nram.alloc((4, 4, 4), np.int8)
        await core.memcpy(one[:2, :2, :2], two[:2, :2, :2])

    run(kernel, device="mlu370-x4")
    with pytest.raises(
        CopyError, match=r": 3-D __memcpy needs arch 300 or later and this board is arch 270: loop over the"
    ):
        run(kernel, device="mlu270-s4")


def test_pointer_arithmetic_counts_elements(run: Any) -> None:
    """`input + index` counts elements, `data_nram + ...` bytes."""
    device = Device()
    x, out = device.upload(np.arange(16, dtype=np.float32)), device.alloc(4, np.float32)

    async def kernel(core: Core, x: View, out: View) -> None:
        data_nram: Pointer = core.nram.alloc(64, "int8").pointer
        await core.memcpy(data_nram + 3 * 4, x.pointer + 5, 4 * 4, GDRAM2NRAM)
        await core.memcpy(out.pointer, data_nram.cast("float32") + 3, 16, NRAM2GDRAM)

    run(kernel, x, out, device=device)
    assert device.download(out).tolist() == [5, 6, 7, 8]


def test_single_elements(run: Any) -> None:
    """Views of rank 0 copy too."""
    device = Device()
    x, out = device.upload(np.arange(6.0).reshape(2, 3)), device.alloc((), np.float64)

    async def kernel(core: Core, x: View, out: View) -> None:
        cell = core.nram.alloc((), np.float64)
        await core.memcpy(cell, x[1, 2])
        core.memcpy_async(out, cell)

    run(kernel, x, out, device=device)
    assert device.download(out) == 5


def test_move_runs_on_the_move_pipe_within_nram(run: Any) -> None:
    async def kernel(core: Core, x: View, out: View) -> None:
        one, two = core.nram.alloc(16, np.int8), core.nram.alloc(16, np.int8)
        await core.memcpy(one, x)
        core.move(two, one[::-1])
        await core.sync_move()
        await core.memcpy(out, two)
        core.move(one, x)

    device = Device()
    x, out = device.upload(np.arange(16, dtype=np.int8)), device.alloc(16, np.int8)
    with pytest.raises(CopyError, match=re.escape("it stays in NRAM; use memcpy or memcpy_async")):
        run(kernel, x, out, device=device)


@given(
    size=st.integers(1, 24),
    steps=st.tuples(st.integers(0, 12), st.integers(0, 12)),
    segments=st.integers(1, 6),
    ahead=st.integers(-40, 40),
)
@example(size=4, steps=(0, 4), segments=4, ahead=0)
@QUICK
def test_an_overlap_in_nram_is_allowed_where_ascending_order_reads_first(
    size: int, steps: tuple[int, int], segments: int, ahead: int
) -> None:
    """An overlapping copy is allowed if a loop over bytes in ascending order gives the same result, else refused."""
    to_stride, from_stride = (size + step for step in steps)
    first = 200
    memory = np.arange(600) % 251
    expected = memory.astype(np.uint8)
    spoilt, written = False, set()
    for segment, byte in product(range(segments), range(size)):
        origin = first + ahead + segment * from_stride + byte
        spoilt |= origin in written
        expected[first + segment * to_stride + byte] = expected[origin]
        written.add(first + segment * to_stride + byte)

    async def kernel(core: Core, x: View, out: View) -> None:
        tile = core.nram.alloc(600, np.uint8)
        await core.memcpy(tile, x)
        source = tile.pointer + first + ahead
        await core.memcpy(tile.pointer + first, source, size, NRAM2NRAM, to_stride, from_stride, segments - 1)
        await core.memcpy(out, tile)

    device = Device()
    x, out = device.upload(memory.astype(np.uint8)), device.alloc(600, np.uint8)
    device.launch(kernel, x, out, dim=1, kind="BLOCK")
    refusal = ""
    try:
        device.synchronize()
    except CopyError as error:
        refusal = error.message
    if refusal:
        assert "they overlap" in refusal
        # Upwards, or with targets that overtake: refused even where a loop over bytes might do.
        assert spoilt or ahead < 0 or to_stride > from_stride
    else:
        assert not spoilt or (ahead == 0 and to_stride == from_stride)
        assert np.array_equal(device.download(out), expected)


@pytest.mark.parametrize("ahead", [3, -3])
def test_an_overlap_in_gdram_is_allowed_to_lower_addresses(ahead: int) -> None:
    values = np.arange(64, dtype=np.int32)

    async def kernel(core: Core, x: View) -> None:
        start = max(-ahead, 0)
        await core.memcpy(x[start : start + 60], x[start + ahead : start + ahead + 60])

    device = Device()
    x = device.upload(values, writable=True)
    device.launch(kernel, x, dim=1, kind="BLOCK")
    if ahead < 0:
        with pytest.raises(CopyError, match="they overlap, and no rule says in which order"):
            device.synchronize()
    else:
        device.synchronize()
        assert device.download(x).tolist() == [*range(3, 63), 60, 61, 62, 63]
        assert [finding.kind for finding in device.verify().findings] == ["overlapping-copy"]


def test_the_arrays_of_a_copy_are_those_of_its_views() -> None:
    """A copy uses the arrays that its views have cached, which equal `View.typed` of a new view."""

    async def kernel(core: Core, x: View) -> None:
        held = core.nram.alloc((4, 64), x.dtype)
        early = held[1:3]
        core.fill(held.reshape(-1), 0.0)
        pairs = [(held, x[:4]), (held[2], x[3]), (early[0], x[1]), (held[:, 8:16], x[:4, :8]), (held[0:1], x[5:6])]
        for dst, src in pairs * 2:
            _, arrays = _view_copy(core.issuer, dst, src)
            for array, view in zip(arrays, (dst, src), strict=True):
                plain = View.strided(view.allocation, view.offset, view.shape, view.strides, view.dtype).typed()
                assert array.__array_interface__ == plain.__array_interface__
        with core.nram.scope():
            freed = core.nram.alloc(64, x.dtype)
            await core.memcpy(freed, x[0])
        assert _view_copy(core.issuer, freed, x[0])[1] is None

    device = Device("mlu370-x4")
    device.launch(kernel, device.upload(np.zeros((8, 64), np.float32)), dim=1, kind="BLOCK")
    device.synchronize()
