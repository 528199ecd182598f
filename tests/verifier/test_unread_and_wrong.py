"""Results and inputs that nothing reads, beside values that are wrong or missing: they tell what is wrong."""

from __future__ import annotations

import numpy as np
import pytest

from findings import ONE, the_only_error
from mlusim import Output, verify

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


def at(number):
    return f"test_unread_and_wrong.py:{scaled_sum.__code__.co_firstlineno + number}"


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
    assert finding.remedies[0] == remedy.format(mul=at(6))


def test_an_uninitialised_buffer_takes_the_place_of_one_that_nothing_reads():
    async def kernel(core, x, out):
        a, b = (core.nram.alloc(x.shape, x.dtype, name) for name in ("a", "b"))
        await core.memcpy(a, x)
        await core.memcpy(out, b)

    finding = the_only_error(kernel, X, Output.like(X), reference=X, **ONE)
    load = f"test_unread_and_wrong.py:{kernel.__code__.co_firstlineno + 2}"
    assert finding.kind == "uninitialised"
    assert finding.remedies[0].startswith(f"read a in place of b, or correct the destination at {load}: ")


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
