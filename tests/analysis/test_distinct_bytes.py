"""Compulsory bytes of tensors that are moved again and again, compared with the units that NumPy finds distinct."""

import numpy as np
import pytest

import mlusim
from mlusim.analysis import distinct_bytes, log_parts
from mlusim.hardware import board

X4 = board("mlu370-x4")
UNIT = X4.dram_unit_bytes
WIDTH = 50  # float32 elements of a row: 200 B, so rows share units
ROWS = 64


def unit_bytes(*runs):
    """Return the bytes of the distinct units of runs: arrays of first bytes, and the size of each run."""
    touched = [first + byte for firsts, nbytes in runs for first in firsts for byte in range(nbytes)]
    return len(np.unique(np.array(touched, np.int64) // UNIT)) * UNIT


def table():
    return np.arange(ROWS * WIDTH, dtype=np.float32).reshape(ROWS, WIDTH)


@pytest.fixture(params=[None, 7], ids=["one part", "parts of 7 records"])
def piece(request, monkeypatch):
    """A log in parts has the figures of a log that is read at once."""
    if request.param:
        monkeypatch.setattr(log_parts, "PART_RECORDS", request.param)
        monkeypatch.setattr(distinct_bytes, "PART_RECORDS", request.param)


@pytest.mark.usefixtures("piece")
def test_rows_that_are_read_and_written_again_count_once():
    rng = np.random.default_rng(3)
    source_rows, target_rows = rng.integers(0, ROWS, (2, 40, 5))

    async def kernel(core, x, out):
        if core.task_id:
            return
        tile = core.nram.alloc((5, WIDTH), x.dtype)
        for reads, writes in zip(source_rows, target_rows, strict=True):
            await core.memcpy_rows(tile, x, None, reads)
            await core.memcpy_rows(out, tile, writes, None)

    metrics = mlusim.run(kernel, table(), mlusim.Output((ROWS, WIDTH), "float32"), dim=1, kind="BLOCK").metrics
    read, written = (unit_bytes((np.unique(rows) * 4 * WIDTH, 4 * WIDTH)) for rows in (source_rows, target_rows))
    whole = 4 * ROWS * WIDTH
    assert metrics.compulsory_bytes == {"read": min(read, whole), "write": min(written, whole)}
    assert metrics.bus_bytes["read"] > 2 * read


@pytest.mark.usefixtures("piece")
def test_contiguous_copies_scalar_loads_and_rows_share_units():
    rng = np.random.default_rng(5)
    firsts, rows, elements = rng.integers(0, 30, 20), rng.integers(10, 20, 6), rng.integers(0, 60, 30)

    async def kernel(core, x, out):
        if core.task_id:
            return
        tile = core.nram.alloc((6, WIDTH), x.dtype)
        flat = x.reshape(-1)
        for first in firsts.tolist():
            await core.memcpy(tile[0], flat[first : first + WIDTH])
        await core.memcpy_rows(tile, x, None, rows)
        for element in elements.tolist():
            await core.load(flat[element])
        await core.memcpy(out[:6], tile)

    metrics = mlusim.run(kernel, table(), mlusim.Output((ROWS, WIDTH), "float32"), dim=1, kind="BLOCK").metrics
    read = unit_bytes((firsts * 4, 4 * WIDTH), (rows * 4 * WIDTH, 4 * WIDTH), (elements * 4, 4))
    assert metrics.compulsory_bytes == {"read": read, "write": unit_bytes(([0], 6 * 4 * WIDTH))}


@pytest.mark.usefixtures("piece")
def test_a_copy_with_gaps_that_is_repeated_counts_once():
    async def kernel(core, x, out):
        if core.task_id:
            return
        tile = core.nram.alloc((ROWS, 16), x.dtype)
        for first in (0, 16, 0, 16, 0):
            await core.memcpy(tile, x[:, first : first + 16])
            await core.memcpy(out[:, :16], tile)

    x = np.zeros((ROWS, 128), np.float32)
    metrics = mlusim.run(kernel, x, mlusim.Output.like(x), dim=1, kind="BLOCK").metrics
    starts = np.arange(ROWS) * 512
    assert metrics.compulsory_bytes == {
        "read": unit_bytes((starts, 64), (starts + 64, 64)),
        "write": unit_bytes((starts, 64)),
    }
    assert metrics.bus_bytes["write"] == 5 * metrics.compulsory_bytes["write"]


@pytest.mark.parametrize("repeated", [1, 7, ROWS])
@pytest.mark.parametrize("device", ["mlu370-x4", "mlu590-h8"])
def test_a_lookup_counts_each_row_of_its_table_once(device, repeated):
    """Also by the instruction of MLU590, whose bus is charged for the worst rows."""
    x = np.zeros((4096, 64), np.float32)
    index = (np.arange(2048) % repeated * 16).astype(np.int32)
    metrics = mlusim.ops.index_select(x, index, axis=0, device=device).metrics
    rows = len(np.unique(index)) * 256
    assert metrics.compulsory_bytes["read"] <= rows + index.nbytes + UNIT
    assert metrics.compulsory_bytes["read"] >= rows


def test_extrapolated_times_do_not_change_the_compulsory_bytes():
    async def kernel(core, x, out):
        if core.is_memory_core:
            return
        tile = core.nram.alloc(1024, x.dtype)
        for start in range(0, out.size, 1024):
            await core.memcpy(tile, x[start % 8192 : start % 8192 + 1024])
            core.add(tile, tile, tile)
            await core.memcpy(out[start : start + 1024], tile)

    x, out = np.zeros(32768, np.float32), mlusim.Output((1 << 22,), "float32")
    full, steady = (
        mlusim.run(kernel, x, out, data=False, steady=steady, dim=1, kind="BLOCK") for steady in (False, True)
    )
    assert steady.log.skipped
    assert full.metrics.compulsory_bytes == steady.metrics.compulsory_bytes == {"read": 8192 * 4, "write": 1 << 24}


def test_rows_that_a_timing_only_run_does_not_know_count_each_time():
    async def kernel(core, x, index, out):
        offsets, rows = core.nram.alloc(index.shape, index.dtype), core.nram.alloc(out.shape, x.dtype)
        await core.memcpy(offsets, index)
        core.gather(rows, x, offsets)
        await core.sync_io()
        await core.memcpy(out, rows)

    x, index = np.zeros((4096, 64), np.float32), np.zeros(512, np.int32)
    arguments = (x, index, mlusim.Output((512, 64)))
    with_data, without = (
        mlusim.run(kernel, *arguments, data=data, device="mlu590-h8", dim=1, kind="BLOCK").metrics
        for data in (True, False)
    )
    assert with_data.time_ps == without.time_ps
    assert with_data.compulsory_bytes["read"] == 256 + index.nbytes
    assert without.compulsory_bytes["read"] == 512 * 256 + index.nbytes
