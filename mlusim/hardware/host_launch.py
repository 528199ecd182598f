"""The host's time for a launch, from a notifier on an idle queue to the start of the kernel.

It belongs to the host and its driver, not to the board. The time of a launch does not contain it; the time that a
program measures between two notifiers does.
"""

from __future__ import annotations

# Read off two rows of measured.csv, matmul-1core, each one short launch between two notifiers: 27 us of 50 with a Xeon
# Gold 6330, 48 us of 71 with a Xeon Gold 6230R.
_MEASURED_US = {"mlu370-x8": 27.0, "mlu370-x4": 48.0}
_ASSUMED_US = 27.0


def host_launch_us(board_name: str) -> float:
    """Return the host's time for a launch in microseconds. ASSUMED for boards without a measurement: the least one."""
    return _MEASURED_US.get(board_name, _ASSUMED_US)
