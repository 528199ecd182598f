"""The most important figures of a run, common to operators, devices and nets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from mlusim.analysis.metrics import Metrics
from mlusim.units import PS_PER_US


class RunFigures(ABC):
    """The common figures of everything that has `metrics`."""

    @property
    @abstractmethod
    def metrics(self) -> Metrics:
        """All figures of the run."""

    @property
    def time_ps(self) -> int:
        """Simulated time from the start of the first launch to the end of the last, in picoseconds.

        Includes gaps between launches.
        """
        return self.metrics.time_ps

    @property
    def time_us(self) -> float:
        """Simulated time in microseconds."""
        return self.time_ps / PS_PER_US

    @property
    def cycles(self) -> int:
        """Simulated time in cycles of the core clock, rounded up."""
        return self.metrics.cycles

    @property
    def bytes_requested(self) -> Mapping[str, int]:
        """Bytes requested by the kernels' copies, by direction (`GDRAM2NRAM`, ...)."""
        return self.metrics.bytes_requested

    @property
    def bus_bytes(self) -> Mapping[str, int]:
        """Bytes on the DRAM bus: `read` and `write`, including read-modify-write."""
        return self.metrics.bus_bytes

    @property
    def io_efficiency(self) -> float | None:
        """Compulsory bytes / (time x peak bandwidth), at most 1; None if nothing moved on the DRAM bus.

        For a net, its inputs and outputs are compulsory.
        """
        return self.metrics.io_efficiency
