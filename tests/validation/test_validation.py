"""The measurements as facts, their re-creation, and how far the model is off."""

from __future__ import annotations

import json

import pytest

from mlusim.hardware import board
from mlusim.hardware.calibrated import FITTED, LEFT_OUT_US
from mlusim.hardware.known_errors import FAMILY_ERRORS
from mlusim.log import IO
from mlusim.validation import report
from mlusim.validation.calibrate import Fit, board_with, module_text
from mlusim.validation.measurements import BOUND, FIT, measurements
from mlusim.validation.parameters import GROUPS
from mlusim.validation.recreate import recreate, simulated_us

ROWS = {row.name: row for row in measurements()}
# What takes host seconds.
SLOW = {"hardsigmoid-290-64-big"}
QUICK = [row for row in measurements() if row.name not in SLOW]


@pytest.fixture(scope="module")
def outcomes():
    return {outcome.row.name: outcome for outcome in report.validate([row.name for row in QUICK])}


@pytest.mark.parametrize("row", QUICK, ids=lambda row: row.name)
def test_a_re_created_kernel_moves_the_bytes_of_the_measurement(row):
    if not row.bytes_written or row.name == "scalar-nram-270":
        pytest.skip("the source has no bytes")
    device = recreate(row)
    columns = device.log.columns()
    from mlusim.memory.kinds import Direction

    moved = dict.fromkeys(("GDRAM2NRAM", "NRAM2GDRAM"), 0)
    for direction, name in enumerate(Direction):
        if name.name in moved:
            chosen = (columns["direction"] == direction) & (columns["pipe"] == IO)
            moved[name.name] = int(columns["bytes_requested"][chosen].sum())
    # Masked loads of rows-4KB are whole here.
    # Every core of the fill loads its own copy of the element.
    assert moved["GDRAM2NRAM"] == pytest.approx(row.bytes_read, rel=0.01, abs=2 * device.board.cores)
    assert moved["NRAM2GDRAM"] == row.bytes_written


def test_the_aims_hold(outcomes):
    figures = report.accuracy(list(outcomes.values()))
    assert figures.mean <= report.AIM_MEAN
    assert figures.worst <= report.AIM_WORST
    assert figures.left_out_mean <= report.AIM_LEFT_OUT


def test_a_bound_is_kept(outcomes):
    bounds = [outcome for outcome in outcomes.values() if outcome.row.use == BOUND]
    assert [outcome.row.name for outcome in bounds] == ["vadd-1core-590"]
    assert all(outcome.simulated_us <= outcome.row.time_us for outcome in bounds)


def test_every_row_that_decides_no_parameter_alone_was_left_out_once():
    boards = {name for group in GROUPS for name in group.boards}
    assert set(LEFT_OUT_US) == {row.name for row in measurements() if row.use == FIT and row.board in boards}


def test_what_is_known_of_the_errors_is_up_to_date(outcomes):
    for family, (_, low, high) in FAMILY_ERRORS.items():
        for outcome in outcomes.values():
            if outcome.row.use != BOUND and board(outcome.row.board).family == family:
                # Out of date after a change of the model? `python -m mlusim.validation.errors`
                assert low - 1e-3 <= outcome.error <= high + 1e-3, outcome.row.name


@pytest.mark.parametrize("name", ["copy-44.8MB", "copy-fp32-8192", "add-100MB", "concat-16x8.4MB", "stream-add-370"])
def test_a_result_does_not_hang_on_the_exact_step_of_the_cores(name):
    row = ROWS[name]
    on = board(row.board)
    times = [
        simulated_us(row, recreate(row, on.replace(core_start_skew_ps=on.core_start_skew_ps * part // 4)))
        for part in (2, 3, 5, 6)
    ]
    assert max(times) <= 1.10 * min(times)


def test_presets_have_the_fitted_values_and_the_fit_does_not_start_from_them():
    for fit in FITTED:
        assert getattr(board(fit.known_on), fit.field) == fit.value
    group = GROUPS[1]
    fit = Fit(group, {})
    values = [parameter.first for parameter in group.parameters]
    row = ROWS["stream-copy-370"]
    assert fit.simulate(row, values) != simulated_us(row, recreate(row))


def test_a_fit_finds_a_parameter_again():
    group = GROUPS[1]
    fit = Fit(group, {})
    parameter = group.parameters[0]
    hidden = 0.8
    truth = {row.name: fit.simulate(row, [hidden]) for row in fit.rows}
    fit.rows = [_with_time(row, truth[row.name]) for row in fit.rows]
    pytest.importorskip("scipy")
    assert fit.solve([parameter.first]) == [pytest.approx(hidden, abs=0.004)]


def _with_time(row, time_us):
    from dataclasses import replace

    return replace(row, time_us=time_us)


def test_the_written_module_reads_back():
    found = [(parameter, parameter.first) for group in GROUPS for parameter in group.parameters]
    space = {}
    exec(module_text(found, {"copy-8.4MB": 9.5}), space)  # noqa: S102 - our own text
    assert space["LEFT_OUT_US"] == {"copy-8.4MB": 9.5}
    values = {(fit.field, fit.families): fit.value for fit in space["FITTED"]}
    assert values == {
        (field, parameter.families): parameter.first for parameter, _ in found for field in parameter.fields
    }


def test_board_with_keeps_the_types():
    on = board_with("mlu590-m9", {"dram_mixed_efficiency": 0.8, "dma_read_latency_ps": 9e5})
    assert (on.dram_mixed_efficiency, on.dma_read_latency_ps) == (0.8, 900_000)


def test_a_calibration_does_not_start_from_the_last_one():
    fitted = {fit.field for fit in FITTED}
    for name in ("mlu590-m9", "mlu370-x4", "mlu290"):
        on = board_with(name, {})
        assert not [field for field in fitted if "fitted" in on.sources[field]]


def test_json_survives_a_round_trip(outcomes):
    some = [outcomes["fill-one"], outcomes["copy-1.57MB"], outcomes["vadd-1core-590"]]
    text = report.to_json(some)
    assert json.loads(json.dumps(text, allow_nan=False)) == text
    assert text["accuracy"]["rows"] == 2


def test_the_picture_is_drawn(tmp_path, outcomes):
    from mlusim.analysis.accuracy import save_accuracy

    points = [(one.row.name, one.error, one.left_out_error, one.row.use) for one in outcomes.values()]
    save_accuracy(str(tmp_path / "a.svg"), points)
    text = (tmp_path / "a.svg").read_text()
    assert "copy-44.8MB" in text
    save_accuracy(str(tmp_path / "b.svg"), points)
    assert (tmp_path / "b.svg").read_text() == text
