"""Steady-state timing of a launch: a run whose repeats are skipped, or a full run if nothing repeats."""

from __future__ import annotations

from contextvars import Context
from typing import Protocol

from mlusim.errors import InputError, MlusimError, for_caller
from mlusim.host.device import Device
from mlusim.host.steady.refusals import without_loops
from mlusim.host.steady.skipped_times import fill_in_times
from mlusim.host.steady.watch import ALLOWED, Watch
from mlusim.inputs import check_flags
from mlusim.log import Log


class Run(Protocol):
    """Runs kernels on a new device without data, and returns the device."""

    def __call__(self, *, dry: bool = False, watch: Watch | None = None) -> Device:
        """Run; `dry`: the first and the last task only, without times; `watch`: observer of the run."""


def run_timed(run: Run, reason_in_full: str = "") -> tuple[Device, Log]:
    """Run kernels without data, and time them by steady-state extrapolation or in full.

    Args:
        run: the run. The kernels have to issue the same operations each time.
        reason_in_full: reason to run in full, if the caller knows one.

    Returns the device and the log. `log.skipped` lists the extrapolated stretches with their error bounds; if it is
    empty, `log.unsteady` contains the reason, and every time is simulated. Raises the errors of the run.
    """
    if not reason_in_full:
        # In a context of its own: the dry run takes place inside of the run that is watched.
        watch = Watch(lambda: Context().run(lambda: run(dry=True).log))
        try:
            device = run(watch=watch)
        except MlusimError:
            if not watch.skips:
                raise
            # The kernels did not continue as expected; the full run shows whether the error is theirs.
        else:
            if not watch.skips:
                device.log.unsteady = watch.why or watch.waits_for or without_loops(device.log)
                return device, device.log
            bound_ps = fill_in_times(device.log, watch.skips)
            if bound_ps is not None and bound_ps <= ALLOWED * max(launch.end_ps for launch in device.log.launches):
                return device, device.log
        reason_in_full = "its tasks do not repeat the same operations until the end"
    device = run()
    device.log.unsteady = reason_in_full
    return device, device.log


def check_steady(*, steady: bool, data: bool, check: bool = False) -> None:
    """Raise `InputError` for options that are incompatible with steady-state timing, or neither True nor False."""
    check_flags(steady=steady, data=data, check=check)
    if steady and data:
        raise InputError(
            f"{for_caller('--steady', 'steady=True')} with data: it skips operations, so nothing is computed; add "
            f"{for_caller('--no-data', 'data=False')}"
        )
    if steady and check:
        raise InputError(
            f"{for_caller('--steady with --check', 'steady=True with check=True')}: a check needs the full simulation; "
            "drop one of them"
        )
