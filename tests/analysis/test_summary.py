"""The summary as a table and as JSON."""

import json

import numpy as np
import pytest

import mlusim
from mlusim.analysis.breakdown import CAUSES
from mlusim.analysis.summary import FORMAT, rows, to_json
from mlusim.explore.diff import diff
from mlusim.planning.plan import Plan
from mlusim.planning.tiles import Tiles
from mlusim.results.result import Result
from mlusim.units import format_us


def test_rows_contain_the_key_figures(result):
    table = {row.label: row for row in rows(result) if row.label}
    metrics = result.metrics
    assert table["time"].value == format_us(metrics.time_ps)
    assert table["cycles"].note == "at 1000 MHz"
    assert table["GDRAM2NRAM requested"].value.replace(" ", "") == f"{metrics.bytes_requested['GDRAM2NRAM']}B"
    assert {"NRAM2GDRAM requested", "DRAM bus, read", "DRAM bus, write", "compute_efficiency", "peak NRAM"} <= set(
        table
    )
    assert metrics.verdict in table["io_efficiency"].note
    assert table["bottleneck"].value == "io"
    assert table["tier"].value == "1"
    assert result.plan.reason in table["tier"].note
    went = rows(result)[[row.label for row in rows(result)].index("where time went") :]
    assert sum(float(row.value.split()[0]) for row in went if not row.value.startswith("<")) == pytest.approx(
        100, abs=0.5
    )


SCHEMA = {
    "format": str,
    "model": str,
    "operator": str,
    "provenance": dict,
    "board": dict,
    "plan": dict,
    "time_ps": int,
    "time_us": float,
    "known": dict,
    "lower_bound": dict,
    "lines": list,
    "cycles": int,
    "bytes_requested": dict,
    "bus_bytes": dict,
    "compulsory_bytes": dict,
    "theory_io_bytes": int,
    "theory_ops": int,
    "io_efficiency": float,
    "vendor_io_efficiency": float,
    "compute_efficiency": float,
    "peak_ops_per_s": int,
    "verdict": str,
    "bottleneck": str,
    "peak_nram_bytes": int,
    "peak_sram_bytes": int,
    "core_time_ps": int,
    "where_time_went_core_ps": dict,
    "where_time_went_fraction": dict,
    "cores_ps": list,
    "pipe_busy_ps": dict,
    "operations": dict,
    "records": int,
    "launches": list,
    "tasks": int,
    "task_busy_ps": dict,
    "task_idle_ps": dict,
    "steady": type(None),
}


def test_json_has_its_stable_keys_and_survives_a_round_trip(result):
    summary = to_json(result)
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    assert {key: type(value) for key, value in summary.items()} == SCHEMA
    assert summary["format"] == FORMAT == "mlusim-summary/1"
    assert list(summary["where_time_went_core_ps"]) == list(CAUSES)
    assert sum(summary["where_time_went_core_ps"].values()) == summary["core_time_ps"]
    assert sum(summary["where_time_went_fraction"].values()) == pytest.approx(1)
    assert len(summary["cores_ps"]) == result.board.cores
    assert sum(summary["plan"]["tiles_by_task"]) == summary["plan"]["tiles"]
    assert "core_start_skew_ps" in summary["board"]["assumed_parameters"]
    assert all(name.endswith(("_bytes", "_hz", "_bytes_per_s")) for name in list(summary["board"])[5:-1])


def test_a_kernel_that_moves_nothing_has_no_io_efficiency():
    async def idle(core, x, out):
        core.scalar(100)

    x = np.zeros(1000, np.float32)
    result = mlusim.run(idle, x, mlusim.Output.like(x))
    assert repr(result).endswith(" us, no bytes moved on the DRAM bus>")
    assert (result.io_efficiency, result.vendor_io_efficiency, to_json(result)["io_efficiency"]) == (None, None, None)
    table = {row.label: row for row in rows(result)}
    assert table["io_efficiency"].value == "-"
    assert table["io_efficiency"].note.endswith("; no bytes moved on the DRAM bus")
    assert "the vendor's io_efficiency" not in table
    assert "io_efficiency" not in {metric.name for metric in diff(result, result).metrics}


def test_a_run_with_nothing_to_do_has_a_summary():
    empty = mlusim.ops.tin_shift_forward(np.zeros((1, 0, 4, 3), np.float32), np.zeros((1, 2), np.int32))
    summary = to_json(empty)
    assert (summary["time_ps"], summary["io_efficiency"], summary["plan"]["tier"]) == (0, None, 0)
    assert json.dumps(summary, allow_nan=False)
    assert "where time went" not in [row.label for row in rows(empty)]


def test_compute_bound_operators_name_their_peak(staged_device):
    board = staged_device.board
    plan = Plan(
        operator="add",
        strategy="staged",
        board=board,
        tier=1,
        reason="rows fit",
        arithmetic=(),
        unit="row",
        unit_bytes=2048,
        kind="UNION1",
        dim=(4, 4, 1),
        output_shape=(64, 512),
        itemsize=4,
        tiles=Tiles([0], [[0, 0]], [[64, 512]], 2048),
        nram_bytes=4096,
    )
    run = Result(operator="add", output=None, board=board, plan=plan, log=staged_device.log, theory_ops=10**9)
    table = {row.label: row for row in rows(run)}
    assert table["bottleneck"].value == "compute"
    peak, remark = table["compute_efficiency"].note.split("; ")
    assert peak == "of 1024 Gop/s, the peak of the vector pipes"
    assert remark.startswith("above 100 %: theory_ops is too high")
    assert "peak SRAM" in table
