"""Results and inputs that nothing reads, beside values that are wrong or missing: they tell what is wrong."""

from __future__ import annotations

import numpy as np
import pytest

import mlusim
from findings import ONE, the_only_error
from kernel_lines import at
from mlusim import InOut, Output, verify
from mlusim.verifier import unread

X = np.arange(64, dtype=np.float32).reshape(8, 8)
Y = X[::-1].copy()


async def scaled_sum(core, x, y, out, fault=""):
    a, b, scaled = (core.nram.alloc(8, x.dtype, name) for name in ("a", "b", "scaled"))
    for row in range(8):
        await core.memcpy(a, x[row])
        if fault != "no load":
            await core.memcpy(b, x[row] if fault == "other input" else y[row])
        core.mul(b if fault == "other destination" else scaled, b, 2.0)
        core.add(a, a, b if fault == "other source" else scaled)
        await core.memcpy(out[row], a)


@pytest.mark.parametrize(
    ("fault", "kind", "remedy"),
    [
        ("no load", "uninitialised", "load y, which nothing reads, into b before {mul}"),
        ("other input", "wrong-value", "read y: no operation does"),
        (
            "other source",
            "wrong-value",
            "read scaled, or correct the destination at {mul}: nothing reads what it writes",
        ),
    ],
)
def test_what_nothing_reads_is_missing_elsewhere(fault, kind, remedy):
    assert verify(scaled_sum, X, Y, Output.like(X), reference=X + 2 * Y, **ONE).findings == ()
    finding = the_only_error(scaled_sum, X, Y, Output.like(X), fault, reference=X + 2 * Y, **ONE)
    assert finding.kind == kind
    assert finding.remedies[0] == remedy.format(mul=at(scaled_sum, "core.mul("))


def test_an_uninitialised_buffer_takes_the_place_of_one_that_nothing_reads():
    async def kernel(core, x, out):
        a, b = (core.nram.alloc(x.shape, x.dtype, name) for name in ("a", "b"))
        await core.memcpy(a, x)
        await core.memcpy(out, b)

    finding = the_only_error(kernel, X, Output.like(X), reference=X, **ONE)
    load, store = at(kernel, "await core.memcpy(a, x)"), at(kernel, "await core.memcpy(out, b)")
    assert finding.kind == "uninitialised"
    assert finding.remedies[0] == (
        f"make b from a before {store}, or read a there: nothing reads what memcpy writes to a at {load}"
    )


async def rows_by_registers(core, x, out, fault=""):
    """Each element of out: a sum that passes through a register."""
    tile = core.nram.alloc(8, x.dtype, "tile")
    for row in range(8):
        await core.memcpy(tile, x[0 if fault else row])
        core.mul(tile, tile, 2.0)
        core.store(out[row], await core.sum(tile))


def test_a_wrong_value_names_every_line_that_made_it_through_registers_too():
    options = {"reference": 2 * X.sum(axis=1), **ONE}
    assert verify(rows_by_registers, X, Output((8,)), **options).ok
    finding = the_only_error(rows_by_registers, X, Output((8,)), "first row", **options)
    load, multiply, total = (
        f"test_unread_and_wrong.py:{rows_by_registers.__code__.co_firstlineno + number}" for number in (4, 5, 6)
    )
    assert finding.remedy == f"check the operations that made these bytes, at {load}, {multiply} and {total}"


async def scaled_rows(core, x, factors, out, fault=""):
    """Each row times a factor, which passes through a register."""
    tile, factor = core.nram.alloc(8, x.dtype, "tile"), core.nram.alloc(8, x.dtype, "factor")
    await core.memcpy(factor, factors)
    for row in range(8):
        await core.memcpy(tile, x[row])
        scale = float(await core.load(factor[0 if fault == "first factor" else row]))
        end = 7 if fault == "too short" else 8
        core.mul(tile[:end], tile[:end], scale)
        if fault == "once more" and row == 5:
            core.mul(tile, tile, scale)
        await core.memcpy(out[row], tile)


@pytest.mark.parametrize(
    ("fault", "remedy"),
    [
        (
            "first factor",
            "check the operations that made these bytes, at {2}, {4}, {5} and {7}",
        ),
        (
            "too short",
            "compute this element at {7} too: its neighbours are computed there, and are right",
        ),
        ("once more", "check the operations that made these bytes, at {2}, {4}, {5}, {7} and {9}"),
    ],
)
def test_a_wrong_value_is_compared_with_the_right_ones_beside_it(fault, remedy):
    factors = np.arange(2, 10, dtype=np.float32)
    arguments = X + 1, factors, Output.like(X)
    reference = (X + 1) * factors[:, None]
    assert verify(scaled_rows, *arguments, reference=reference, **ONE).ok
    finding = the_only_error(scaled_rows, *arguments, fault, reference=reference, **ONE)
    first = scaled_rows.__code__.co_firstlineno
    assert finding.remedies[0] == remedy.format(*(f"test_unread_and_wrong.py:{first + line}" for line in range(1, 12)))


def test_where_all_values_are_wrong_the_lines_of_the_last_are_named_with_those_of_the_first():
    async def kernel(core, x, out, other=0):
        a = core.nram.alloc(x.shape, x.dtype, "a")
        await core.memcpy(a, x)
        for row in range(7):
            core.add(a[row + other], a[row], a[row + 1])
        await core.memcpy(out, a)

    x = np.random.default_rng(1).standard_normal((8, 8), np.float32)
    reference = x.copy()
    reference[:-1] += x[1:]
    assert verify(kernel, x, Output.like(x), reference=reference, **ONE).ok
    finding = the_only_error(kernel, x, Output.like(x), 1, reference=reference, **ONE)
    load, add = at(kernel, "await core.memcpy(a, x)"), at(kernel, "core.add(a[row + other], a[row], a[row + 1])")
    assert finding.remedy == f"check the operations that made these bytes, at {load} and {add}"


def test_a_part_that_nothing_reads_is_compared_with_the_one_that_is_read():
    async def kernel(core, x, y, out, fault=0):
        a, b = core.nram.alloc((2, 8), x.dtype, "a"), core.nram.alloc(8, x.dtype, "b")
        for row in range(8):
            await core.memcpy(a[row % 2], x[row])
            core.mul(b, a[row % 2], 2.0)
            await core.memcpy(a[(row + 1) % 2], y[row])
            core.add(b, b, a[(row + 1 + fault) % 2])
            await core.memcpy(out[row], b)

    assert verify(kernel, X, Y, Output.like(X), reference=2 * X + Y, **ONE).findings == ()
    finding = the_only_error(kernel, X, Y, Output.like(X), 1, reference=2 * X + Y, **ONE)
    load, add = (
        at(kernel, "await core.memcpy(a[(row + 1) % 2], y[row])"),
        at(kernel, "core.add(b, b, a[(row + 1 + fault) % 2])"),
    )
    assert finding.remedies[0] == f"correct the part of a at {add} or {load}: nothing reads what memcpy writes there"


def test_a_load_that_is_too_short_is_named_first_although_the_rest_is_updated_in_place():
    async def load(core, tile, row):
        await core.memcpy(tile[:4], row[:4])

    async def kernel(core, x, out):
        tile = core.nram.alloc(8, x.dtype, "tile")
        await load(core, tile, x[0])
        core.mul(tile, tile, 2.0)
        core.add(tile, tile, 1.0)
        await core.memcpy(out[0], tile)

    finding = the_only_error(kernel, X[:1], Output((1, 8)), **ONE)
    line = at(load, "await core.memcpy(tile[:4], row[:4])")
    assert finding.remedies[0] == f"correct the part of tile at {line}, which writes other bytes of it"


def test_where_all_values_are_wrong_some_between_the_first_and_the_last_are_followed_too():
    async def kernel(core, x, out, to=-1):
        sums, row = core.nram.alloc((8, 8), x.dtype, "sums"), core.nram.alloc(8, x.dtype, "row")
        core.write_zero(sums)
        for k in range(8):
            await core.memcpy(row, x[k])
            core.add(sums[k if to < 0 else to], sums[k if to < 0 else to], row)
        await core.memcpy(out, sums)

    assert verify(kernel, X + 1, Output.like(X), reference=X + 1, **ONE).ok
    finding = the_only_error(kernel, X + 1, Output.like(X), 2, reference=X + 1, **ONE)
    zero, load, add = (
        at(kernel, "core.write_zero(sums)"),
        at(kernel, "await core.memcpy(row, x[k])"),
        at(kernel, "core.add(sums[k if to < 0 else to], sums[k if to < 0 else to], row)"),
    )
    assert finding.remedy == f"check the operations that made these bytes, at {zero}, {load} and {add}"


def test_the_load_of_an_address_is_named_with_the_copy_that_uses_it():
    async def kernel(core, table, ids, out, first=4):
        row = core.nram.alloc(8, table.dtype, "row")
        wanted = await core.load_array(ids[first:])
        for place in range(4):
            await core.memcpy(row, table[int(wanted[place])])
            await core.memcpy(out[place], row)

    ids = np.array([0, 1, 2, 3, 7, 6, 5, 4], np.int32)
    arguments = X, ids, Output((4, 8))
    assert verify(kernel, *arguments, reference=X[ids[4:]], **ONE).ok
    finding = the_only_error(kernel, *arguments, 0, reference=X[ids[4:]], **ONE)
    load, copy = (
        at(kernel, "wanted = await core.load_array(ids[first:])"),
        at(kernel, "await core.memcpy(row, table[int(wanted[place])])"),
    )
    assert finding.remedy == f"check the operations that made these bytes, at {load} and {copy}"


def test_an_output_that_nothing_writes_is_told_what_is_written():
    async def kernel(core, a, b):
        tile = core.nram.alloc(8, a.dtype, "tile")
        await core.memcpy(tile, a[0])
        await core.memcpy(b[0], tile)

    finding = the_only_error(kernel, InOut(X[:1] + 1), InOut(X[:1]), reference={"a": X[1:2]}, rewrites=True, **ONE)
    line = at(kernel, "await core.memcpy(b[0], tile)")
    assert finding.remedy == f"write this element, too: no operation does; what is written is b, at {line}"


def test_the_end_of_a_scan_that_nothing_reads_tells_nothing():
    async def kernel(core, x, out, factor=1.0):
        a, b = core.nram.alloc(8, x.dtype, "a"), core.nram.alloc(8, x.dtype, "b")
        core.write_zero(a)
        for row in range(8):
            if row:
                await core.memcpy(a, out[row - 1])
            await core.memcpy(b, x[row])
            core.mul(b, b, factor)
            core.add(b, b, a)
            await core.memcpy(out[row], b)

    assert verify(kernel, X, Output.like(X), reference=X.cumsum(axis=0), **ONE).ok
    finding = the_only_error(kernel, X, Output.like(X), 2.0, reference=X.cumsum(axis=0), **ONE)
    assert "nothing reads" not in finding.remedy


def test_rows_that_offsets_choose_leave_others_unread():
    async def kernel(core, x, ids, out, factor=2.0):
        rows, offsets = core.nram.alloc((4, 8), x.dtype, "rows"), core.nram.alloc(4, "int32", "offsets")
        await core.memcpy(offsets, ids)
        core.gather(rows, x, offsets)
        await core.sync()
        core.mul(rows, rows, factor)
        await core.memcpy(out, rows)

    ids = np.array([3, 1, 0, 2], np.int32)
    options = {"reference": 2 * X[ids], "device": mlusim.board("mlu590-h8").replace(arch=592), **ONE}
    assert verify(kernel, X, ids, Output((4, 8)), **options).ok
    assert "nothing reads" not in the_only_error(kernel, X, ids, Output((4, 8)), 3.0, **options).remedy


async def sum_and_double(core, x, y, out, doubled, number=1.0):
    a, b = core.nram.alloc(x.shape, x.dtype, "a"), core.nram.alloc(x.shape, x.dtype, "b")
    await core.memcpy(a, x)
    core.add(a, a, number)
    await core.memcpy(out, a)
    core.memcpy_async(b, y)
    core.add(b, b, b)
    await core.memcpy(doubled, b)


def test_a_wrong_value_that_no_race_reaches_is_an_error_of_its_own():
    x = np.arange(64, dtype=np.float32)
    outputs, reference = (Output.like(x), Output.like(x)), {"out": x + 1, "doubled": 2 * x}
    report = verify(sum_and_double, x, x, *outputs, reference=reference, **ONE)
    assert [error.kind for error in report.errors] == ["race"]
    assert report.errors[0].remedy.startswith("`await core.sync_io()`")
    report = verify(sum_and_double, x, x, *outputs, 2.0, reference=reference, **ONE)
    race, wrong = report.errors
    assert (race.kind, wrong.kind, wrong.fields["tensor"]) == ("race", "wrong-value", "out")
    assert race.remedy.startswith("`await core.sync_io()`")
    assert wrong.remedy.endswith(f" and {at(sum_and_double, 'a, number')}")


@pytest.mark.parametrize("steps", [1, 8])
def test_a_load_for_the_next_turn_is_not_unread_in_a_loop_of_one(steps):
    async def kernel(core, x, out):
        row = core.nram.alloc(8, x.dtype, "row")
        await core.memcpy(row, x[0])
        for step in range(x.shape[0]):
            await core.memcpy(out[step], row)
            await core.memcpy(row, x[(step + 1) % x.shape[0]])

    assert not verify(kernel, X[:steps], Output((steps, 8)), reference=X[:steps], **ONE).findings


def test_rows_that_nothing_reads_are_found_among_any_number_of_reads(monkeypatch):
    monkeypatch.setattr(unread, "_MOST_PAIRS", 0)

    async def kernel(core, x, out):
        rows, total = core.nram.alloc((8, 8), x.dtype, "rows"), core.nram.alloc(8, x.dtype, "total")
        await core.memcpy(total, x)
        for row in range(0, 8, 2):
            core.add(rows[row], total, 1.0)
            core.add(rows[row + 1], total, 2.0)
        for row in range(0, 8, 2):
            core.add(total, total, rows[row])
        await core.sync()
        await core.memcpy(out, total)

    report = verify(kernel, np.ones(8, np.float32), Output(8), **ONE)
    (finding,) = (finding for finding in report.findings if finding.kind == "unread")
    assert (finding.sites[0].location, finding.times) == (at(kernel, "rows[row + 1]"), 4)
