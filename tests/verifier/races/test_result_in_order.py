"""A race with a reference: a second run, without overlap, tells whether a sync is missing or a part is wrong."""

from __future__ import annotations

import numpy as np
import pytest

from findings import ONE, the_only_error
from mlusim import Output, verify

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
    assert finding.remedies[0].startswith(f"correct the part of {finding.fields['buffer']} at test_result_in_order.py:")
    assert any("`await core.sync" in remedy for remedy in finding.remedies[1:])


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
