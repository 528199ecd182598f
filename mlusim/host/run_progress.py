"""The progress of a run. One thread shows it, the one that watches the run; it reads numbers that only grow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mlusim.memory.kinds import DIRECTION_CODES, MemoryKind
from mlusim.memory.view import View
from mlusim.progress import Bar
from mlusim.units import format_ns, group_digits

if TYPE_CHECKING:
    from mlusim.cores.chip import Chip

_TO_GDRAM = [code for direction, code in DIRECTION_CODES.items() if direction.destination is MemoryKind.GDRAM]


class RunProgress:
    """The progress of a run: bytes of issued copies to GDRAM, of the bytes of its outputs.

    An estimate: a kernel may write an output twice, or a part of it. Make it before the run begins.

    Args:
        chip: what runs.
    """

    def __init__(self, chip: Chip) -> None:
        self._chip = chip
        self._seen = chip.log.count
        self._written_bytes = 0
        self.expected_bytes = sum(_output_bytes(chip))
        self._bar: Bar | None = None

    def fraction(self) -> float | None:
        """From 0 to 1; None where the launches name no output."""
        if not self.expected_bytes:
            return None
        log = self._chip.log
        count = log.count
        if count > self._seen:
            columns = log.records.columns(self._seen, count)
            stores = np.isin(columns["direction"], _TO_GDRAM)
            self._written_bytes += int(columns["bytes_requested"][stores].sum())
            self._seen = count
        return min(self._written_bytes / self.expected_bytes, 1.0)

    def show(self) -> None:
        """Draw the bar, or draw it again."""
        fraction = self.fraction()
        log, now = self._chip.log, self._chip.environment.now
        if self._bar is None:
            total = None if fraction is None else 1.0
            self._bar = Bar("simulating", total, threaded=False, counted=False)
            self._bar.show()
        self._bar.update(fraction or 0.0, f"{group_digits(log.count)} operations, {format_ns(now)} simulated")

    def close(self) -> None:
        """Take the bar off the screen."""
        if self._bar is not None:
            self._bar.close()


def _output_bytes(chip: Chip) -> list[int]:
    """Bytes of the allocations that queued launches may write, each once."""
    found = {}
    for queue in chip.queues:
        for launch in queue.launches:
            for argument in launch.arguments:
                if isinstance(argument, View) and not argument.allocation.read_only:
                    found[argument.allocation.identity] = argument.allocation.nbytes
    return list(found.values())
