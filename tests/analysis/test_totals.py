"""Sums computed in parts equal those of the whole log, wherever it is cut."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlusim import ops
from mlusim import records as log_records
from mlusim.analysis.bandwidth import bus_bytes_over_time
from mlusim.analysis.by_line import time_by_line
from mlusim.analysis.log_columns import LogColumns
from mlusim.analysis.log_parts import windows
from mlusim.analysis.lower_bound import mixed_ps
from mlusim.analysis.metrics import measure
from mlusim.analysis.page.timeline import CauseSpans, cause_spans
from mlusim.analysis.report_files import write_report
from mlusim.analysis.summary import to_json
from mlusim.analysis.tile_grid import TileGrid, logged_writers
from mlusim.analysis.timeline_picture import draw_two_timelines
from mlusim.analysis.totals import Totals
from mlusim.analysis.trace import trace_events
from mlusim.cores.core import Core
from mlusim.errors import InputError
from mlusim.host.device import Device
from mlusim.memory.view import View


async def mixed(core: Core, x: View, y: View) -> None:
    """Copies of both kinds, vector instructions, loads, posted stores and syncs."""
    held = core.nram.alloc((2, 64), x.dtype)
    for turn in range(20):
        core.memcpy_async(held[0], x[turn])
        await core.sync()
        core.add(held[1], held[0], held[0])
        await core.memcpy(y[core.task_id], held[1])
        core.store(y[core.task_id, 0], 3.0)
        await core.load(x[turn, 1])


def device_of(folder: Path | None = None) -> Device:
    """Two launches on a device."""
    device = Device("mlu290-m5", log_folder=folder)
    x = device.upload(np.ones((32, 64), np.float32))
    y = device.alloc((32, 64), "float32")
    for cores in (8, 3):
        device.launch(mixed, x, y, dim=cores, kind="BLOCK")
    device.synchronize()
    return device


DEVICE = device_of()


def read_by(piece: int) -> AbstractContextManager[Any]:
    """Read logs in parts of so many records."""
    return patch("mlusim.analysis.log_parts.PART_RECORDS", piece)


@pytest.mark.slow
@given(st.integers(1, 400))
def test_totals_of_pieces_sum_to_the_whole(piece: int) -> None:
    records = LogColumns(DEVICE.log, DEVICE.board)
    whole = Totals(records)
    with read_by(piece):
        parts = Totals(records)
    assert parts.bytes_requested == whole.bytes_requested
    assert list(parts.operations.items()) == list(whole.operations.items())
    assert parts.pipe_busy_ps == whole.pipe_busy_ps
    assert parts.bus_bytes == whole.bus_bytes
    assert np.array_equal(parts.causes_ps, whole.causes_ps)
    assert np.array_equal(parts.task_busy_ps, whole.task_busy_ps)


@pytest.mark.parametrize("piece", [35, 77, 150, 400])
@pytest.mark.grid(2)
def test_windows_give_the_same_line_times_as_the_whole_log(piece: int) -> None:
    records = LogColumns(DEVICE.log, DEVICE.board)

    def times() -> tuple[int, dict[tuple[str, int, str], list[int]]]:
        lines = {(line.file, line.line, line.function): line.spent_ps.tolist() for line in time_by_line(records)}
        return mixed_ps(records), lines

    whole = times()
    with read_by(piece):
        assert times() == whole


@pytest.mark.parametrize("most", [300, 1 << 30])
@pytest.mark.parametrize("piece", [60, 150, 400])
def test_windows_give_the_same_spans_as_the_whole_log(piece: int, most: int) -> None:
    records = LogColumns(DEVICE.log, DEVICE.board)
    whole = cause_spans(records, 1 << 30)
    with read_by(piece):
        parts = cause_spans(records, most)
    assert parts.lanes == whole.lanes
    assert totals_of(parts) == totals_of(whole)
    same_lane = parts.lane[1:] == parts.lane[:-1]
    ends = parts.start_ps + parts.length_ps
    assert (parts.start_ps[1:] >= ends[:-1])[same_lane].all()


def totals_of(some: CauseSpans) -> dict[tuple[int, int], list[int]]:
    """Time, operations and bytes by lane and cause; the operations of a copy are those of each of its parts."""
    found: dict[tuple[int, int], list[int]] = {}
    columns = (some.lane, some.cause, some.length_ps, some.times, some.nbytes)
    for lane, cause, *amounts in zip(*(column.tolist() for column in columns), strict=True):
        before = found.setdefault((lane, cause), [0, 0, 0])
        found[lane, cause] = [one + more for one, more in zip(before, amounts, strict=True)]
    return found


def test_windows_give_the_same_pictures_as_the_whole_log(monkeypatch: pytest.MonkeyPatch) -> None:
    records = LogColumns(DEVICE.log, DEVICE.board)
    edges = np.unique(np.linspace(records.start_of_run_ps, records.end_of_run_ps, 41).round().astype(np.int64))

    def made() -> dict[str, Any]:
        owners = logged_writers(TileGrid((32, 64), 1, 0, np.arange(32), np.arange(64)), records, 1, 4)
        return {
            "bandwidth": np.array(bus_bytes_over_time(records, edges)),
            "owners": np.stack([owners.task, owners.iteration]),
            "trace": sorted(trace_events(records)),
        }

    whole = made()
    monkeypatch.setattr("mlusim.analysis.log_parts.PART_RECORDS", 60)
    parts = made()
    assert parts.pop("trace") == whole.pop("trace")
    for name, values in whole.items():
        np.testing.assert_allclose(parts[name], values, rtol=1e-9, atol=1e-9, err_msg=name)


@pytest.mark.slow
def test_long_logs_are_never_read_by_whole_columns(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """From the summary to the page: one column of ten million operations takes 80 MB."""
    lengths: list[int] = []
    column = log_records.Records.column

    def watched(self: log_records.Records, name: str, chosen: Any) -> Any:
        found = column(self, name, chosen)
        lengths.append(len(found))
        return found

    monkeypatch.setattr(log_records.Records, "column", watched)
    monkeypatch.setattr("mlusim.analysis.log_parts.PART_RECORDS", 60)
    monkeypatch.setattr("mlusim.log._PIECE", 60)
    result = DEVICE.result()
    str(result)
    to_json(result)
    write_report(result, tmp_path)
    draw_two_timelines([(LogColumns(result.log, result.board), "A")] * 2)
    assert len(lengths) > 100
    assert max(lengths) < len(DEVICE.log)


def test_a_kernel_without_operations_has_a_report(tmp_path: Path) -> None:
    async def nothing(core: Core) -> None:
        """Start and return."""

    device = Device("mlu290-m5")
    device.launch(nothing, dim=4, kind="BLOCK")
    device.synchronize()
    assert "report.html" in {path.name for path in write_report(device.result(), tmp_path)}


async def far_ahead(core: Core) -> None:
    """All instructions are issued before the first few are done."""
    held = core.nram.alloc(2048, np.float32)
    for _ in range(100):
        core.add(held, held, held)


def test_a_window_excludes_instructions_that_only_wait() -> None:
    device = Device("mlu290-m5", data=False)
    device.launch(far_ahead, dim=4, kind="BLOCK")
    device.synchronize()
    records = LogColumns(device.log, device.board)
    whole = Totals(records)
    with read_by(100):
        assert max(len(window) for window in windows(records)) < 150
        assert np.array_equal(Totals(records).causes_ps, whole.causes_ps)


def test_totals_in_pieces_of_an_operator_with_memory_cores() -> None:
    x = np.arange(2 * 8 * 6 * 64, dtype=np.float32).reshape(2, 8, 6, 64)
    result = ops.tin_shift_forward(x, np.array([[1, -1], [2, 0]], np.int32), device="mlu370-x4")
    records = LogColumns(result.log, result.board)
    whole = Totals(records)
    with read_by(7):
        assert np.array_equal(Totals(records).causes_ps, whole.causes_ps)


def test_a_log_in_a_file_has_the_same_totals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlusim.records._FILE_ROOM", 512)  # grows a few times
    device = device_of(tmp_path)
    assert np.array_equal(device.log.table(), DEVICE.log.table())
    ours, theirs = measure(device.log, device.board), measure(DEVICE.log, DEVICE.board)
    assert ours.where_time_went == theirs.where_time_went
    assert list(tmp_path.iterdir()) == []
    assert device.verify().ok == DEVICE.verify().ok


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a folder: make it"):
        Device(log_folder=tmp_path / "none")
