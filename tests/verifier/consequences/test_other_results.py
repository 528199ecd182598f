"""With a reference, other runs tell the remedy: without overlap that of a race, from zeros that of unwritten bytes."""

from __future__ import annotations

import numpy as np
import pytest

from findings import ONE, the_only_error
from mlusim import InOut, Output, verify

X = np.arange(160, dtype=np.float32).reshape(20, 8)


async def squares(core, x, out, fault=""):
    """Three slots: loads run ahead by one row; a store and the next load of its slot are in order on the IO pipe."""
    slots = core.nram.alloc((3, x.shape[1]), x.dtype, "slots")
    for step in range(x.shape[0] + 2):
        if step >= 2:
            core.memcpy_async(out[step - 2], slots[(step - 2) % 3])
        if step < x.shape[0]:
            core.memcpy_async(slots[step % 3], x[step])
        if 1 <= step <= x.shape[0]:
            slot = (step if fault == "slot" and step < x.shape[0] else step - 1) % 3
            core.square(slots[slot], slots[slot])
        if fault != "no sync":
            await core.sync()


async def sums(core, x, out, fault=""):
    """A sum to a register, of a row that the kernel waits for."""
    row = core.nram.alloc(x.shape[1], x.dtype, "row")
    for number in range(x.shape[0]):
        core.memcpy_async(row, x[number - 1 if fault == "slot" and number else number])
        if not fault:
            await core.sync_io()
        core.store(out[number], await core.sum(row))


@pytest.mark.parametrize("dma", ["complete", "late"])
@pytest.mark.parametrize(("kernel", "expected"), [(squares, X * X), (sums, X.sum(axis=1))])
def test_a_sync_comes_first_if_the_result_in_order_is_right_and_a_part_if_not(kernel, expected, dma):
    options = {"reference": expected, "dma": dma, **ONE}
    assert verify(kernel, X, Output(expected.shape), **options).ok
    assert the_only_error(kernel, X, Output(expected.shape), "no sync", **options).remedy.startswith("`await core.sync")
    finding = the_only_error(kernel, X, Output(expected.shape), "slot", **options)
    assert finding.kind == "race"
    assert finding.remedies[0].startswith(f"correct the part of {finding.fields['buffer']} at test_other_results.py:")
    assert any("`await core.sync" in remedy for remedy in finding.remedies[1:])


def test_sums_that_only_round_differently_in_order_are_right():
    x = np.random.default_rng(0).standard_normal((8, 1024), np.float32)
    finding = the_only_error(sums, x, Output(8), "no sync", reference=np.sum(x[:, ::-1], axis=1), **ONE)
    assert finding.remedy.startswith("`await core.sync_io()`")


def test_without_a_reference_a_sync_comes_first():
    assert the_only_error(squares, X, Output.like(X), "slot", **ONE).remedy.startswith("`await core.sync_io()`")


def test_what_is_never_written_does_not_count_as_wrong():
    async def kernel(core, x, out):
        row = core.nram.alloc(x.shape[1], x.dtype, "row")
        for number in range(x.shape[0] - 1):
            core.memcpy_async(row, x[number])
            core.square(row, row)
            await core.memcpy(out[number], row)

    errors = verify(kernel, X, Output.like(X), reference=X * X, **ONE).errors
    assert [finding.kind for finding in errors] == ["race", "never-written"]
    assert errors[0].remedy.startswith("`await core.sync_io()`")


async def smooth(core, planes, out, fault=""):
    """Three steps between two planes; each task reads the cells beside its own."""
    if core.is_memory_core:
        return
    width = planes.shape[1] // core.task_dim
    begin = core.task_id * width
    low, high = max(begin - 1, 0), min(begin + width + 1, planes.shape[1])
    cells = core.nram.alloc(width + 2, planes.dtype, "cells")
    sums = core.nram.alloc(width, planes.dtype, "sums")
    for step in range(3):
        core.write_zero(cells)
        source = planes[0 if fault == "plane" else step % 2]
        await core.memcpy(cells[low - begin + 1 : high - begin + 1], source[low:high])
        core.add(sums, cells[:width], cells[2:])
        await core.memcpy(planes[(step + 1) % 2, begin : begin + width], sums)
        if fault != "barrier":
            await core.sync_all_ipu()
    await core.memcpy(out[begin : begin + width], planes[1, begin : begin + width])


def test_a_wrong_plane_is_no_missing_barrier():
    cells = X.reshape(-1)
    expected = cells
    for _ in range(3):
        padded = np.pad(expected, 1)
        expected = padded[:-2] + padded[2:]
    arguments = InOut(np.stack([cells, 0 * cells])), Output.like(cells)
    options = {"reference": {"out": expected}, "rewrites": ("planes",), "dim": 4}
    assert verify(smooth, *arguments, **options).ok
    assert the_only_error(smooth, *arguments, "barrier", **options).remedy.startswith("`await core.sync_all_ipu()`")
    assert the_only_error(smooth, *arguments, "plane", **options).remedy.startswith("correct the part of planes at ")


async def differences(core, x, out, fault=""):
    """Each element less the one on its right; the last element has none."""
    row = core.nram.alloc(x.shape[1] + 1, x.dtype, "row")
    less = core.nram.alloc(x.shape[1], x.dtype, "less")
    for number in range(x.shape[0]):
        if fault != "fill":
            core.fill(row[x.shape[1] :], 0.0)
        last = x.shape[1] - 1 if fault == "size" else x.shape[1]
        await core.memcpy(row[:last], x[number, :last])
        core.sub(less, row[: x.shape[1]], row[1:])
        await core.memcpy(out[number], less)


def test_zeros_are_written_first_only_where_zeros_are_right():
    expected = X - np.pad(X, ((0, 0), (0, 1)))[:, 1:]
    assert verify(differences, X, Output.like(X), reference=expected, **ONE).ok
    for fault, remedy in {"fill": "write these bytes before ", "size": "correct the part of row at "}.items():
        finding = the_only_error(differences, X, Output.like(X), fault, reference=expected, **ONE)
        assert (finding.kind, finding.remedy.startswith(remedy)) == ("uninitialised", True), finding.text()
