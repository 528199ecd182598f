"""The extrapolated part of a run's time, and its error bound, for runs timed by their steady state."""

from __future__ import annotations

from typing import Any, NamedTuple

from mlusim.log import Log
from mlusim.units import format_us, group_digits


class Extrapolation(NamedTuple):
    """The timing method of a run.

    Attributes:
        operations: number of operations that were not simulated.
        skipped_ps: their extrapolated time.
        bound_ps: error bound of the run's time.
        refused: why nothing was skipped although steady-state timing was requested; else empty.
    """

    operations: int
    skipped_ps: int
    bound_ps: int
    refused: str

    def text(self, time_ps: int) -> str:
        """Format for a report; empty if steady-state timing was not requested."""
        if self.refused:
            return f"simulated in full: {self.refused}"
        if not self.operations:
            return ""
        return (
            f"{self.skipped_ps / time_ps:.0%} of the time ({group_digits(self.operations)} operations) is extrapolated "
            f"from a steady state; the time may be off by {self.bound_ps / time_ps:.2%} "
            f"({format_us(self.bound_ps)})"
        ).replace("%", " %")

    def to_json(self) -> dict[str, Any] | None:
        """Return the timing as JSON types; None if steady-state timing was not requested."""
        return self._asdict() if self.refused or self.operations else None


def extrapolation_of(log: Log) -> Extrapolation:
    """Return the timing method of a log's run."""
    return Extrapolation(
        sum(skip.operations for skip in log.skipped),
        sum(skip.end_ps - skip.start_ps for skip in log.skipped),
        sum(skip.bound_ps for skip in log.skipped),
        log.unsteady,
    )
