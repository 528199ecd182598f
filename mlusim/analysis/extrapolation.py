"""What of a run's time is extrapolated, and by how much it may be off: of runs timed by their steady state."""

from __future__ import annotations

from typing import Any, NamedTuple

from mlusim.log import Log
from mlusim.units import PS_PER_US, group_digits


class Extrapolation(NamedTuple):
    """How a run was timed.

    Attributes:
        operations: how many were not simulated.
        skipped_ps: the time that they take, extrapolated.
        bound_ps: by how much the run's time may be off.
        refused: why nothing was left out, where steady-state timing was requested; empty where something was, and
            where nobody requested it.
    """

    operations: int
    skipped_ps: int
    bound_ps: int
    refused: str

    def text(self, time_ps: int) -> str:
        """For people; empty where nobody requested steady-state timing."""
        if self.refused:
            return f"simulated in full: {self.refused}"
        if not self.operations:
            return ""
        return (
            f"{self.skipped_ps / time_ps:.0%} of the time is extrapolated from a steady state, "
            f"{group_digits(self.operations)} operations; the time may be off by {self.bound_ps / time_ps:.2%}, "
            f"{self.bound_ps / PS_PER_US:.2f} us"
        ).replace("%", " %")

    def to_json(self) -> dict[str, Any] | None:
        """For programs; None where nobody requested steady-state timing."""
        return self._asdict() if self.refused or self.operations else None


def extrapolation_of(log: Log) -> Extrapolation:
    """How the run of a log was timed."""
    return Extrapolation(
        sum(skip.operations for skip in log.skipped),
        sum(skip.end_ps - skip.start_ps for skip in log.skipped),
        sum(skip.bound_ps for skip in log.skipped),
        log.unsteady,
    )
