"""Copies of a core, compared with NumPy and with the documented byte form."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mlusim import dtypes
from mlusim.cores.core import Core
from mlusim.errors import CopyError
from mlusim.host.device import Device
from mlusim.memory.kinds import Direction
from mlusim.memory.view import View

GDRAM2NRAM, NRAM2GDRAM, NRAM2NRAM = Direction.GDRAM2NRAM, Direction.NRAM2GDRAM, Direction.NRAM2NRAM
QUICK = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def slices(extents: tuple[int, ...], data: st.DataObject, shape: tuple[int, ...]) -> tuple[slice, ...]:
    """A key that takes `shape` from an array of `extents`, forwards or backwards."""
    key = []
    for extent, count in zip(extents, shape, strict=True):
        step = data.draw(st.integers(1, max(1, (extent - 1) // max(count - 1, 1))))
        start = data.draw(st.integers(0, extent - 1 - (count - 1) * step))
        if data.draw(st.booleans()):
            key.append(slice(start, start + (count - 1) * step + 1, step))
        else:
            stop = start - 1
            key.append(slice(start + (count - 1) * step, None if stop < 0 else stop, -step))
    return tuple(key)


@given(data=st.data())
@QUICK
def test_copies_between_any_strided_views_match_numpy(data: st.DataObject) -> None:
    """In through one strided pair and out through another; 1-, 2- and 3-D, negative strides, broadcast sources."""
    rank = data.draw(st.integers(1, 3))
    dtype = data.draw(st.sampled_from(dtypes.ALL))
    shape = tuple(data.draw(st.integers(1, 4)) for _ in range(rank))
    extents = [tuple(count + data.draw(st.integers(0, 5)) for count in shape) for _ in range(3)]
    keys = [slices(extent, data, shape) for extent in extents]
    order = data.draw(st.permutations(range(rank)))
    spread = data.draw(st.sets(st.integers(0, rank - 1), max_size=2))

    def broadcast(array: Any) -> Any:
        key = tuple(slice(0, 1) if axis in spread else slice(None) for axis in range(rank))
        return array[key]

    rng = np.random.default_rng(0)
    x, before = (rng.integers(0, 256, (*extent, dtype.itemsize), np.uint8) for extent in extents[:2])
    expected_middle, expected = before.copy(), np.full((*extents[2], dtype.itemsize), 255, np.uint8)
    expected_middle[keys[1]] = np.broadcast_to(broadcast(x[keys[0]]), (*shape, dtype.itemsize))
    expected[keys[2]] = expected_middle[keys[1]]

    device = Device()
    views = [device.upload(array.view(dtype)[..., 0]) for array in (x, before)]
    result, middle_out = device.alloc(extents[2], dtype), device.alloc(extents[1], dtype)

    async def kernel(core: Core, x: View, before: View, result: View, middle_out: View) -> None:
        # The middle buffer has its axes in another order.
        flat = core.nram.alloc(tuple(extents[1][axis] for axis in order), dtype)
        middle = flat.transpose(*(order.index(axis) for axis in range(rank)))
        await by_elements(core, middle, before)
        await by_elements(core, middle[keys[1]], broadcast(x[keys[0]]).broadcast_to(shape))
        await by_elements(core, result[keys[2]], middle[keys[1]])
        await by_elements(core, middle_out, middle)

    device.launch(kernel, *views, result, middle_out, dim=1, kind="BLOCK")
    device.synchronize()
    assert device.download(middle_out).tobytes() == expected_middle.tobytes()
    assert device.download(result).tobytes() == expected.tobytes()


async def by_elements(core: Core, dst: View, src: View) -> None:
    """A copy; where it needs more than three dimensions, a loop over the outermost axis, as the error says."""
    try:
        await core.memcpy(dst, src)
    except CopyError as error:
        if "loop over the outermost axis" not in str(error):
            raise
        for to, origin in zip(dst, src, strict=True):
            await core.memcpy(to, origin)


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_copies_keep_every_bit(run: Any, dtype: np.dtype[Any]) -> None:
    """NaN payloads, -0.0 and bool bytes other than 0 and 1."""
    bits = np.random.default_rng(1).integers(0, 256, 256 * dtype.itemsize, np.uint8)
    device = Device()
    x, out = device.upload(bits.view(dtype)), device.alloc(256, dtype)

    async def kernel(core: Core, x: View, out: View) -> None:
        tile = core.nram.alloc(256, dtype)
        await core.memcpy(tile, x)
        await core.memcpy(out[::-1], tile)

    run(kernel, x, out, device=device)
    assert device.download(out)[::-1].tobytes() == bits.tobytes()


# The documented byte form


def documented_tin_shift(x: np.ndarray[Any, Any], shifts: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The definition, element by element."""
    batch, time, channels, _ = x.shape
    out = np.zeros_like(x)
    for n, t, c in product(range(batch), range(time), range(channels)):
        k = int(shifts[n, c // (channels // shifts.shape[1])])
        if 0 <= t - k < time:
            out[n, t, c] = x[n, t - k, c]
    return out


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("hw", [1, 7, 49])
def test_every_memcpy_printed_in_the_tin_shift_document_runs(run: Any, dtype: str, hw: int) -> None:
    batch, time, channels, groups = 2, 6, 6, 3
    x_array = np.random.default_rng(2).standard_normal((batch, time, channels, hw)).astype(dtype)
    shifts_array = np.array([[-1, 0, 2], [5, -5, 1]], np.int32)
    device = Device()
    x, shifts, out = device.upload(x_array), device.upload(shifts_array), device.alloc(x_array.shape, dtype)

    async def kernel(core: Core, x: View, shifts: View, out: View) -> None:
        # `T *input`, `T *output`, and `char data_nram[]`: pointers count elements of their type, as in C.
        input, output = x.pointer, out.pointer  # noqa: A001 - the document's names
        buffer = core.nram.alloc(time * hw * x.itemsize, "int8")
        data_nram = buffer.pointer
        t_size, channel_size, hw_size, sizeof_t = time, channels, hw, x.itemsize
        for cur_channel_index in range(core.task_id, batch * channels, core.task_dim):
            n_index = cur_channel_index // channel_size
            group = cur_channel_index % channel_size // (channel_size // groups)
            t_shift = await core.load(shifts[n_index, group])
            index = (cur_channel_index % channel_size) * hw_size + n_index * t_size * channel_size * hw_size
            core.write_zero(buffer)  # left implicit in the document
            await core.sync()
            if t_shift > 0:
                # fmt: off
                await core.memcpy(data_nram + t_shift * hw_size * sizeof_t, input + index, hw_size * sizeof_t, GDRAM2NRAM, hw_size * sizeof_t, channel_size * hw_size * sizeof_t, t_size - 1 - t_shift)  # noqa: E501 - the document's line
            else:
                await core.memcpy(
                    data_nram,
                    input + (index - t_shift * channel_size * hw_size),
                    hw_size * sizeof_t,
                    GDRAM2NRAM,
                    hw_size * sizeof_t,
                    channel_size * hw_size * sizeof_t,
                    t_size - 1 + t_shift,
                )
            await core.memcpy(
                output + index,
                data_nram,
                hw_size * sizeof_t,
                NRAM2GDRAM,
                channel_size * hw_size * sizeof_t,
                hw_size * sizeof_t,
                t_size - 1,
            )
            # fmt: on

    run(kernel, x, shifts, out, device=device, dim=4)
    np.testing.assert_array_equal(device.download(out), documented_tin_shift(x_array, shifts_array))


@given(data=st.data())
@QUICK
def test_the_byte_form_matches_its_definition(data: st.DataObject) -> None:
    """1-D, 2-D and 3-D with different shapes on both sides, against the addresses written out."""
    size = data.draw(st.integers(1, 9))
    form = data.draw(st.sampled_from([1, 2, 3]))
    if form == 1:
        strides: tuple[int, ...] = ()
        dst_loops = src_loops = [(1, 0), (1, 0)]
    elif form == 2:
        segnum, dst_stride = data.draw(st.integers(0, 5)), size + data.draw(st.integers(0, 20))
        src_stride = data.draw(st.integers(-30, 30))
        strides = (dst_stride, src_stride, segnum)
        dst_loops, src_loops = [(1, 0), (segnum + 1, dst_stride)], [(1, 0), (segnum + 1, src_stride)]
    else:
        total = data.draw(st.sampled_from([1, 2, 4, 6, 12]))
        dst_inner, src_inner = (
            data.draw(st.sampled_from([n for n in range(1, total + 1) if total % n == 0])) for _ in range(2)
        )
        d0 = size + data.draw(st.integers(0, 5))
        d1 = d0 * dst_inner + data.draw(st.integers(0, 9))
        s0, s1 = data.draw(st.integers(-20, 20)), data.draw(st.integers(-40, 40))
        strides = (d0, dst_inner - 1, d1, total // dst_inner - 1, s0, src_inner - 1, s1, total // src_inner - 1)
        dst_loops = [(total // dst_inner, d1), (dst_inner, d0)]
        src_loops = [(total // src_inner, s1), (src_inner, s0)]

    def starts(loops: list[tuple[int, int]]) -> list[int]:
        return [i * loops[0][1] + j * loops[1][1] for i in range(loops[0][0]) for j in range(loops[1][0])]

    dst_starts, src_starts = starts(dst_loops), starts(src_loops)
    dst_at, src_at = data.draw(st.integers(0, 9)), data.draw(st.integers(0, 9)) - min(src_starts)
    x = np.random.default_rng(3).integers(0, 255, src_at + max(src_starts) + size, np.uint8)
    expected = np.full(dst_at + max(dst_starts) + size, 255, np.uint8)
    for to, origin in zip(dst_starts, src_starts, strict=True):
        expected[dst_at + to : dst_at + to + size] = x[src_at + origin : src_at + origin + size]

    device = Device()
    source, out = device.upload(x), device.alloc(expected.shape, np.uint8)

    async def kernel(core: Core, source: View, out: View) -> None:
        tile = core.nram.alloc(expected.shape, np.uint8)
        if data.draw(st.booleans()):
            await core.memcpy(tile.pointer + dst_at, source.pointer + src_at, size, GDRAM2NRAM, *strides)
        else:
            core.memcpy_async(tile.pointer + dst_at, source.pointer + src_at, size, GDRAM2NRAM, *strides)
            await core.sync_io()
        await core.memcpy(out, tile)

    device.launch(kernel, source, out, dim=1, kind="BLOCK")
    device.synchronize()
    np.testing.assert_array_equal(device.download(out), expected)


def test_both_forms_log_the_same_instruction(run: Any) -> None:
    """However a copy is written, its time and bytes are the same."""

    async def kernel(core: Core, x: View) -> None:
        tile = core.nram.alloc((8, 64), "float32")
        await core.memcpy(tile, x[:, 3, 16:])
        await core.memcpy(tile.pointer, x.pointer + (3 * 80 + 16), 256, GDRAM2NRAM, 256, 5 * 80 * 4, 7)

    device = Device()
    run(kernel, device.upload(np.zeros((8, 5, 80), np.float32)), device=device)
    columns = device.log.columns()
    for name in ("alone_ps", "bytes_requested", "bus_read_bytes", "bus_write_bytes", "direction", "pipe"):
        first, second = columns[name]
        assert first == second, name
    assert columns["end_ps"][0] - columns["issue_ps"][0] == columns["end_ps"][1] - columns["issue_ps"][1]


def test_views_serve_as_pointers(run: Any) -> None:
    device = Device()
    x, out = device.upload(np.arange(100, dtype=np.int32)), device.alloc(100, np.int32)

    async def kernel(core: Core, x: View, out: View) -> None:
        tile = core.nram.alloc(100, np.int32)
        await core.memcpy(tile, x, 400, GDRAM2NRAM)
        await core.memcpy(out, tile, 400, NRAM2GDRAM)

    run(kernel, x, out, device=device)
    assert device.download(out).tolist() == list(range(100))
