"""Uninitialised bytes among elements chosen by a mask, an index or a table, and in scratch memory."""

from __future__ import annotations

import numpy as np
import pytest

from findings import uninitialised
from mlusim import Output, verify

X = np.arange(1, 61, dtype=np.float32)
ONE = {"kind": "BLOCK", "dim": 1}


@pytest.mark.parametrize("second", ["le", "lt"])
def test_moves_by_a_mask_and_by_its_complement_write_everything(second):
    """With `lt` in place of `le`, the elements that are 0 are missing; the lanes behind 60 are never stored."""

    async def kernel(core, x, out):
        a, b, mask = (core.nram.alloc(64, x.dtype, name) for name in ("a", "b", "mask"))
        await core.memcpy(a[0:60], x)
        core.gt(mask, a, 0.0)
        core.maskmove(b[0:60], a[0:60], mask[0:60])
        getattr(core, second)(mask, a, 0.0)
        core.maskmove(b[0:60], a[0:60], mask[0:60])
        await core.memcpy(out, b[0:60])

    x = np.resize(np.float32([-1, 0, 1]), 60)
    findings = uninitialised(verify(kernel, x, Output((60,)), reference=x, **ONE))
    assert [finding.nbytes for finding in findings] == ([20 * 4] if second == "lt" else [])


@pytest.mark.parametrize("missing", ["", "a", "b", "mask"])
def test_a_choice_by_a_mask_passes_the_marks_of_the_chosen_elements(missing):
    """Of `a` and `b`, the elements that the mask chooses are written, without one of `missing`."""
    parts = {"mask": range(64), "a": range(32), "b": range(32, 64)}

    async def kernel(core, x, where, out):
        buffers = {name: core.nram.alloc(64, x.dtype, name) for name in parts}
        for name, part in parts.items():
            written = slice(part.start + (name == missing), part.stop)
            await core.memcpy(buffers[name][written], (where if name == "mask" else x)[written])
        result = core.nram.alloc(64, x.dtype, "result")
        core.mask_select(result, *buffers.values())
        await core.memcpy(out, result)

    x, where = np.ones(64, np.float32), np.float32(np.arange(64) < 32)
    findings = uninitialised(verify(kernel, x, where, Output((64,)), **ONE))
    assert [finding.title.split()[2].strip(",") for finding in findings] == ([missing] if missing else [])
    # Without data, any element may be chosen.
    assert uninitialised(verify(kernel, x, where, Output((64,)), data=False, **ONE))


@pytest.mark.parametrize("moved", [False, True])
def test_a_move_by_a_mask_moves_the_marks_of_selected_elements(moved):
    async def kernel(core, x, where, out):
        a, b, mask = (core.nram.alloc(64, x.dtype, name) for name in ("a", "b", "mask"))
        await core.memcpy(a[0:60], x)
        await core.memcpy(mask, where)
        core.write_zero(b)
        core.maskmove(b, a, mask)
        await core.memcpy(out, b)

    where = np.float32(np.arange(64) % 2)
    where[60:] = moved
    assert len(uninitialised(verify(kernel, X, where, Output((64,)), **ONE))) == moved


@pytest.mark.parametrize(
    ("fault", "kinds"), [("", set()), ("live", {"uninitialised"}), ("once", {"uninitialised"}), ("stored", {"race"})]
)
def test_scratch_of_an_instruction_is_written_and_undefined_afterwards(fault, kinds):
    async def kernel(core, x, out):
        a, b, result, scratch, more = (core.nram.alloc(60, x.dtype, name) for name in ("a", "b", "result", "s", "t"))
        await core.memcpy(a, x)
        for turn in range(2):
            if fault != "once" or not turn:
                core.write_value(b, 2.0)
            core.add(result, a, b)
            await core.sync()
            core.memcpy_async(out[turn], b if fault == "stored" else result)
            core.taylor3_sin(scratch, a, b, more)
            core.add(a, scratch, b if fault == "live" else a)
            await core.sync()

    report = verify(kernel, X, Output((2, 60)), **ONE)
    assert {finding.kind for finding in report.errors} == kinds, report.text()
    if kinds == {"uninitialised"}:
        assert "b is used after it was scratch of taylor3_sin, which leaves it undefined" in report.text()


@pytest.mark.parametrize("loaded", [16, 15])
@pytest.mark.parametrize("name", ["lut", "select", "select_bitindex"])
def test_elements_that_are_not_chosen_may_be_unloaded(name, loaded):
    async def kernel(core, x, out):
        table, chosen, index = (core.nram.alloc(64, x.dtype, name) for name in ("table", "chosen", "index"))
        result = core.nram.alloc(96, x.dtype, "result")
        await core.memcpy(table[:loaded], x[:loaded])
        core.incseq(index)
        core.rem(chosen, index, 16)
        core.write_zero(result)
        if name == "lut":
            core.lut(result[32:], chosen, table)
        else:
            core.write_value(chosen, 16)
            core.lt(chosen, index, chosen) if name == "select" else core.lt_bitindex(chosen, index, chosen)
            getattr(core, name)(result, table, chosen)
        await core.memcpy(out, result[32:])

    x = np.arange(16, dtype=np.int32) + 5
    report = verify(kernel, x, Output((64,), np.int32), **ONE)
    assert [finding.title for finding in report.errors] == [
        f"{name} reads table, part of which is uninitialised" for _ in range(16 - loaded)
    ], report.text()
    if loaded == 16:
        wanted = np.resize(x, 64) if name == "lut" else np.append(x, np.zeros(48, np.int32))
        assert report.outputs["out"].tolist() == wanted.tolist()


@pytest.mark.parametrize(("stored", "kinds"), [(40, []), (41, ["uninitialised"])])
@pytest.mark.parametrize("beyond", [False, True])
def test_uninitialised_indices_of_a_lookup_are_padding(stored, kinds, beyond):
    async def kernel(core, x, out):
        table, index = core.nram.alloc(64, "int32", "table"), core.nram.alloc(64, "int32", "index")
        core.incseq(table)
        for _ in range(2):
            await core.memcpy(index[:40], x)
            core.lut(index, index, table)
        await core.memcpy(out, index[:stored])

    x = np.arange(40, dtype=np.int32)
    x[7] = 64 if beyond else 7
    report = verify(kernel, x, Output(stored, "int32"), kind="BLOCK", dim=1)
    assert [(finding.kind, finding.times) for finding in report.errors if finding.kind == "lookup"] == [
        ("lookup", 2)
    ] * beyond
    assert [finding.kind for finding in report.errors if finding.kind != "lookup"] == kinds
