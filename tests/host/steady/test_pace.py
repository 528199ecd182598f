"""The bounds of a pace, tested on random processes with a known continuation."""

from __future__ import annotations

import numpy as np
import pytest

from mlusim.host.steady.pace import Pace, pace_of

_TASKS, _MEASURED, _SKIPPED = 16, 60, 400


def ends(seed: int, *, compensates: bool) -> np.ndarray:
    """(tasks, periods) end times of periods of random length, 1 on average.

    Args:
        seed: of the random numbers.
        compensates: a period that is too long makes the next one shorter.
    """
    noise = np.random.default_rng(seed).uniform(-0.3, 0.3, (_TASKS, _MEASURED + _SKIPPED + 1))
    starts = np.linspace(0, 1, _TASKS)[:, np.newaxis]
    return starts + np.arange(1, noise.shape[1] + 1) + (noise if compensates else noise.cumsum(axis=1))


def measured(times: np.ndarray) -> Pace:
    progress = np.arange(1.0, times.shape[1] + 1)
    return pace_of([*times], [progress] * _TASKS, float(times[:, 4].max()), float(times[:, _MEASURED].min()))


@pytest.mark.parametrize("compensates", [False, True])
def test_error_of_skipped_periods(compensates: bool) -> None:
    """The time of the next periods of all tasks is within the bound in at least 98 of 100 cases."""
    within = []
    for seed in range(200):
        times = ends(seed, compensates=compensates)
        pace = measured(times)
        took = float((times[:, _MEASURED + _SKIPPED] - times[:, _MEASURED]).mean())
        within.append(abs(took - _SKIPPED * pace.period_ps) <= pace.skip_error(_SKIPPED) * pace.period_ps)
    assert np.mean(within) >= 0.98


def test_error_of_the_end() -> None:
    """Tasks that do not share anything end with the last of them."""
    within = []
    for seed in range(200):
        times = ends(seed, compensates=False)
        pace = measured(times)
        steps = np.array([np.interp(times[:, _MEASURED].min(), row, np.arange(1.0, len(row) + 1)) for row in times])
        assert np.allclose(pace.leads, steps - steps.mean())
        # The end of the slowest task after the mean one, in the process and with the typical leads.
        last = times[:, -1]
        chosen = pace.leads + pace.typical_changes(_SKIPPED, 1.0)
        within.append(abs((last.max() - last.mean()) - (chosen.mean() - chosen.min())) <= pace.end_error(_SKIPPED, 1.0))
    assert np.mean(within) >= 0.98


def test_drift() -> None:
    """The change of leads in a period, and how it grows."""
    drifts, growths = zip(*((pace.drift, pace.growth) for pace in map(measured, map(walk, range(50)))), strict=True)
    # A period is 0.3 / sqrt(3) longer or shorter than the mean, in the standard deviation.
    assert np.mean(drifts) == pytest.approx(0.3 / 3**0.5, rel=0.05)
    assert 0.5 < np.mean(growths) < 0.65
    # Tasks of different pace drift apart in proportion to the time.
    times = np.outer(np.linspace(0.9, 1.1, _TASKS), np.arange(1.0, _MEASURED + _SKIPPED))
    assert measured(times).growth == pytest.approx(1.0)


def walk(seed: int) -> np.ndarray:
    return ends(seed, compensates=False)


def test_a_full_link_hides_the_drift() -> None:
    """The less time a task needs alone, the less is lost when only a few still run."""
    pace = measured(ends(0, compensates=False))
    errors = [pace.end_error(_SKIPPED, alone_ps) for alone_ps in (1.0, 0.5, 0.1)]
    assert errors == sorted(errors, reverse=True)
    assert errors[2] < errors[0] / 3


def test_tasks_with_links_of_their_own_do_not_speed_up() -> None:
    """Two tasks for each link are between one link for all tasks and one for each."""
    pace = measured(ends(0, compensates=False))
    links = [np.zeros(_TASKS, np.int64), np.arange(_TASKS) // 2, np.arange(_TASKS)]
    errors = [pace._replace(links=numbers).end_error(_SKIPPED, 0.1) for numbers in links]
    assert errors == sorted(errors)
    assert errors[2] > errors[0]
    assert errors[2] == pytest.approx(pace.end_error(_SKIPPED, pace.period_ps))


def test_regular_periods_have_no_error() -> None:
    progress = np.arange(1.0, 100)
    pace = pace_of([progress * 7.0] * 3, [progress] * 3, 35.0, 600.0)
    assert pace.period_ps == pytest.approx(7.0)
    assert pace.error == pytest.approx(0.0, abs=1e-9)
    assert pace.end_error(1000, 7.0) == pytest.approx(0.0, abs=1e-9)
    assert not pace.typical_changes(1000, 7.0).any()
