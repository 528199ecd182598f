"""A retimed run has the same findings as the run, on any board."""

from __future__ import annotations

import numpy as np
import pytest

import mlusim
from mlusim.verifier.check import check_log

X = np.ones((8, 64), np.float32)
OUT = mlusim.Output((8, 64), "float32")


async def sum_of_lanes_that_nobody_wrote(core, x, out):
    for row in range(core.task_id, 8, core.task_dim):
        with core.nram.scope():
            tile = core.nram.alloc(64, x.dtype, "tile")
            await core.memcpy(tile[:60], x[row, :60])
            core.write_value(tile, await core.sum(tile))
            await core.memcpy(out[row], tile)


async def released_while_a_store_is_in_flight(core, x, out):
    for row in range(core.task_id, 8, core.task_dim):
        with core.nram.scope():
            tile = core.nram.alloc(64, x.dtype, "tile")
            await core.memcpy(tile, x[row])
            core.memcpy_async(out[row], tile)
        with core.nram.scope():
            core.write_zero(core.nram.alloc(64, x.dtype, "other"))
            await core.sync_compute()


async def row_behind_the_last_swallowed(core, x, out):
    tile = core.nram.alloc(64, x.dtype, "tile")
    for row in range(core.task_id, 8 + core.task_dim, core.task_dim):
        try:
            await core.memcpy(tile, x[row])
        except mlusim.MlusimError:
            break
        await core.memcpy(out[row], tile)


async def index_beyond_the_table(core, x, out):
    tile, table = core.nram.alloc(64, x.dtype, "tile"), core.nram.alloc(64, "int16", "table")
    index = core.nram.alloc(64, "int16", "index")
    core.write_value(table, 1)
    for row in range(core.task_id, 8, core.task_dim):
        await core.memcpy(tile, x[row])
        core.write_value(index, 64 if row == 6 else 0)
        core.lut(index, index.view("uint16"), table)
        await core.memcpy(out[row], tile)


@pytest.mark.parametrize(
    ("kernel", "kind"),
    [
        (sum_of_lanes_that_nobody_wrote, "uninitialised"),
        # The release is a consequence: the next owner of the bytes writes them.
        (released_while_a_store_is_in_flight, "race"),
        (row_behind_the_last_swallowed, "swallowed"),
        (index_beyond_the_table, "lookup"),
    ],
)
@pytest.mark.parametrize("board", ["mlu370-x4", "mlu590-h8"])
def test_a_retimed_run_has_the_findings_of_the_run(kernel, kind, board):
    run = mlusim.verify(kernel, X, OUT, kind="BLOCK", dim=4).result
    again = mlusim.retime(run, board, keep_split=True)
    reports = [check_log(result.log, result.board, name=result.operator, plan=None) for result in (run, again)]
    # A release may be a consequence of the race on the memory that is reused.
    assert kind in [finding.kind for error in reports[0].errors for finding in (error, *error.folded)]
    found = [[(finding.kind, finding.title, finding.times) for finding in report.findings] for report in reports]
    assert found[0] == found[1]
    if board == "mlu370-x4":
        assert reports[0].text() == reports[1].text()


def test_a_retimed_run_tells_results_of_an_earlier_launch():
    async def rows(core, out, count):
        tile = core.nram.alloc(64, out.dtype, "tile")
        core.fill(tile, count)
        for row in range(count):
            await core.memcpy(out[row], tile)

    device = mlusim.Device()
    out = device.alloc((8, 64), "float32")
    for count in (8, 4):
        device.launch(rows, out, count, kind="BLOCK", dim=1)
        device.synchronize()
        device.download(out)
    again = mlusim.retime(device.result(), "mlu590-h8", keep_split=True)
    for run in (device, again):
        report = check_log(run.log, run.board, name="rows", plan=None, rewrites=True)
        assert [hint.kind for hint in report.hints] == ["stale"]
