"""A fault in a helper function is named by the line of the helper, and by the lines that may have called it."""

from __future__ import annotations

import numpy as np
import pytest

import mlusim
from findings import ONE, X, the_only_error
from kernel_lines import at, line_of
from mlusim import Output


def load(core, tile, row):
    core.memcpy_async(tile, row)


def double(core, tile):
    core.mul(tile, tile, 2.0)


class Stores:
    """Its method has the name of a function."""

    def __init__(self, core):
        self.core = core

    def load(self, row, tile):
        self.core.memcpy_async(row, tile)


async def helped(core, x, out, waits="load double store"):
    tile = core.nram.alloc((2, 8), x.dtype, "tile")
    stores = Stores(core)
    load(core, tile[0], x[0])
    await core.sync()
    for row in range(8):
        double(core, tile[row % 2])
        if "double" in waits:
            await core.sync_compute()
        stores.load(out[row], tile[row % 2])
        if row < 7:
            load(core, tile[(row + 1) % 2], x[row + 1])
        if "load" in waits:
            await core.sync_io()


FIRST = helped.__code__.co_firstlineno


def here(*lines):
    return " or ".join(f"test_call_sites.py:{FIRST + line}" for line in lines)


def calls_of(site):
    return [call.line - FIRST for call in site.called_at]


def test_the_kernel_with_helpers_is_sound():
    assert mlusim.verify(helped, X, Output.like(X), reference=2 * X, **ONE).ok


def test_the_remedy_names_the_line_that_calls_the_helper():
    finding = the_only_error(helped, X, Output.like(X), "load", **ONE)
    assert [calls_of(site) for site in finding.sites] == [[6], [9]]
    assert f"\n         called at {here(6)}\n" in finding.text()
    # Another place would not do: `await` cannot stand in the helpers.
    assert (
        finding.remedy == f"`await core.sync_compute()`, which waits for the vector and tensor pipes, before {here(9)}"
    )
    assert [*finding.to_json()["sites"][0]["called_at"]] == [{"file": __file__, "line": FIRST + 6}]


def test_of_two_calls_the_one_between_the_operations_around_it_is_named():
    finding = the_only_error(helped, X, Output.like(X), "double", **ONE)
    store, compute = finding.sites
    assert (calls_of(store), calls_of(compute)) == ([9], [6])
    # A sync cannot stand in the helpers.
    assert finding.remedy == f"`await core.sync_io()`, which waits for the IO pipe, at the end of the loop at {here(5)}"


async def stages(core, count, begin, work, end, waits):
    for step in range(count + 2):
        if step >= 2:
            end(step - 2)
        if step < count:
            begin(step)
        if 1 <= step <= count:
            work(step - 1)
        if waits:
            await core.sync()


@pytest.mark.parametrize("rows", [1, 8])
def test_the_stages_of_a_pipeline_may_be_passed_to_it(rows):
    async def kernel(core, x, out, waits=1):
        given, made = (core.nram.alloc((2, 8), x.dtype, name) for name in ("given", "made"))

        def fetch(row):
            core.memcpy_async(given[row % 2], x[row])

        def twice(row):
            core.mul(made[row % 2], given[row % 2], 2.0)

        def put(row):
            core.memcpy_async(out[row], made[row % 2])

        await stages(core, rows, fetch, end=put, work=twice, waits=waits)
        await core.sync()

    x = X[:rows]
    assert mlusim.verify(kernel, x, Output.like(x), reference=2 * x, **ONE).ok
    finding = the_only_error(kernel, x, Output.like(x), 0, **ONE)
    loop = line_of(stages, "for step in range(count + 2):")
    waits = "`await core.sync()`, which waits for all pipes"
    assert finding.remedy == f"{waits}, at the end of the loop at test_call_sites.py:{loop}"


def test_all_calls_are_named_that_are_possible():
    async def kernel(core, x, out):
        tile = core.nram.alloc((2, 8), x.dtype, "tile")
        load(core, tile[0], x[0])
        load(core, tile[1], x[1])
        double(core, tile)
        await core.sync()
        await core.memcpy(out, tile)

    rows = X[:2]
    finding = the_only_error(kernel, rows, Output.like(rows), **ONE)
    line = kernel.__code__.co_firstlineno
    assert [call.line - line for call in finding.sites[0].called_at] == [2, 3]
    assert f"called at test_call_sites.py:{line + 2} or test_call_sites.py:{line + 3}" in finding.text()
    # No single pair of calls: the remedy names the operations.
    assert at(load, "core.memcpy_async(tile, row)") in finding.remedy


def test_an_operation_of_the_kernel_itself_has_no_calls():
    async def kernel(core, x, out):
        tile = core.nram.alloc(8, x.dtype, "tile")
        core.memcpy_async(tile, x[0])
        core.mul(tile, tile, 2.0)
        await core.memcpy(out, tile)

    finding = the_only_error(kernel, X, Output((8,)), **ONE)
    assert all(not site.called_at for site in finding.sites)
    assert "called at" not in finding.text()


def test_a_helper_of_compiled_code_is_named_by_its_call(tmp_path):
    file = tmp_path / "helped.mlu"
    file.write_text(
        """#include <bang.h>

template <typename T>
__mlu_func__ void load(T *tile, const T *x, int n);

template <typename T>
__mlu_func__ void load(T *tile, const T *x, int n) {
  __memcpy_async(tile, x, n * sizeof(T), GDRAM2NRAM);
}

__mlu_func__ void compute(float *tile, int n) {
  __bang_mul_scalar(tile, tile, 2, n);
}

__mlu_entry__ void helped(const float *x, float *out, int n) {
  __nram__ float tile[64];
  load(tile, x, n);
  compute(tile, n);
  __sync();
  __memcpy(out, tile, n * sizeof(float), NRAM2GDRAM);
}
"""
    )
    x = np.ones(64, np.float32)
    finding = the_only_error(mlusim.bangc.compile(file)["helped"], x, Output.like(x), 64, **ONE)
    assert [[call.line for call in site.called_at] for site in finding.sites] == [[17], [18]]
    assert "between helped.mlu:17 and helped.mlu:18" in finding.remedy


def test_a_sync_missing_after_a_helper_belongs_around_its_call_not_inside():
    async def kernel(core, x, out, sync=False):
        def update(total, row, part):
            core.mul(part, row, 2.0)
            core.add(total, total, part)
            core.add(part, part, row)
            core.add(total, total, part)

        rows = core.nram.alloc((2, 8), x.dtype, "rows")
        total, part = core.nram.alloc(8, x.dtype, "total"), core.nram.alloc(8, x.dtype, "part")
        core.write_zero(total)
        await core.memcpy(rows[0], x[0])
        for turn in range(8):
            if turn < 7:
                core.memcpy_async(rows[(turn + 1) % 2], x[turn + 1])
            update(total, rows[turn % 2], part)
            if sync:
                await core.sync()
        await core.memcpy(out, total)

    reference = 5 * X.sum(axis=0)
    assert mlusim.verify(kernel, X, Output(8), True, reference=reference, **ONE).findings == ()
    finding = the_only_error(kernel, X, Output(8), reference=reference, **ONE)
    loop = at(kernel, "for turn in range(8):")
    assert finding.remedies[0] == f"`await core.sync()`, which waits for all pipes, at the end of the loop at {loop}"


def test_an_error_in_a_helper_names_its_call_and_the_loop_around_that():
    async def load(core, tile, x, start):
        await core.memcpy(tile, x[start : start + 3])

    async def kernel(core, x, out):
        tile = core.nram.alloc(3, x.dtype, "tile")
        for start in range(0, x.size, 3):
            await load(core, tile, x, start)
            await core.memcpy(out[start : start + 3], tile)

    finding = the_only_error(kernel, X.reshape(-1), Output(64), **ONE)
    line = kernel.__code__.co_firstlineno
    assert finding.kind == "access"
    assert finding.location.endswith(f"x[start : start + 3]), called at test_call_sites.py:{line + 3}")
    assert f"the bound of the loop at test_call_sites.py:{line + 2};" in finding.remedy
