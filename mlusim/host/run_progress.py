"""The progress of a run, shown by its watchdog thread, which reads monotonically growing counters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mlusim.memory.kinds import DIRECTION_CODES, MemoryKind
from mlusim.memory.view import View
from mlusim.progress import Bar
from mlusim.units import format_ns, group_digits

if TYPE_CHECKING:
    from mlusim.cores.machine.chip import Chip

_TO_GDRAM = [code for direction, code in DIRECTION_CODES.items() if direction.destination is MemoryKind.GDRAM]


class RunProgress:
    """The progress of a run: the bytes of issued copies to GDRAM relative to the size of its outputs.

    This is an estimate: a kernel may write an output twice, or only a part of it. Create it before the run begins.

    Args:
        chip: the chip that runs.
    """

    def __init__(self, chip: Chip) -> None:
        self._chip = chip
        self._record_count = chip.log.count
        self._written_bytes = 0
        self.expected_bytes = sum(_output_bytes(chip))
        self._bar: Bar | None = None

    def fraction(self) -> float | None:
        """Return the progress from 0 to 1; None if the launches have no output."""
        if not self.expected_bytes:
            return None
        log = self._chip.log
        count = log.count
        if count > self._record_count:
            columns = log.records.columns(self._record_count, count)
            stores = np.isin(columns["direction"], _TO_GDRAM)
            self._written_bytes += int(columns["bytes_requested"][stores].sum())
            self._record_count = count
        return min(self._written_bytes / self.expected_bytes, 1.0)

    def show(self) -> None:
        """Draw or update the bar."""
        fraction = self.fraction()
        log, now = self._chip.log, self._chip.environment.now
        if self._bar is None:
            total = None if fraction is None else 1.0
            self._bar = Bar("simulating", total, threaded=False, counted=False)
            self._bar.show()
        self._bar.update(fraction or 0.0, f"{group_digits(log.count)} operations, {format_ns(now)} simulated")

    def close(self) -> None:
        """Remove the bar from the screen."""
        if self._bar is not None:
            self._bar.close()


def _output_bytes(chip: Chip) -> list[int]:
    """Return the sizes of the allocations that queued launches may write, each counted once."""
    launches = (launch for queue in chip.queues for launch in queue.launches)
    views = (argument for launch in launches for argument in launch.arguments if isinstance(argument, View))
    outputs = (view.allocation for view in views if not view.allocation.read_only)
    return list({allocation.identity: allocation.nbytes for allocation in outputs}.values())
