"""The host's time for a launch: for the call, and from the call to the start of the kernel.

It belongs to the host and its driver, not to the board. The time of a launch does not contain it; the time that a
program measures between two notifiers does (`mlusim.bangc.host.host_time`).
"""

from __future__ import annotations

from mlusim.inputs import as_text

# MLU370: read off two rows of measured.csv, matmul-1core, each one short launch between two notifiers: 27 us of 50 with
# a Xeon Gold 6330, 48 us of 71 with a Xeon Gold 6230R. MLU590-M9: measured, from the host's call to the kernel's start
# on an idle queue.
_MEASURED_US = {"mlu370-x8": 27.0, "mlu370-x4": 48.0, "mlu590-m9": 9.2}
# ASSUMED for boards without a measurement: that of the family, else the lower one of MLU370.
_FAMILY_US = {"mlu590": 9.2}
_ASSUMED_US = 27.0
# How long a call takes the host, which then calls the next: measured on MLU590-M9, ASSUMED for other boards.
HOST_CALL_US = 6.3


def host_launch_us(board_name: str, family: str = "") -> float:
    """Return the time from the host's call of a launch to the start of the kernel on an idle queue, in microseconds."""
    board_name, family = as_text("board_name", board_name), as_text("family", family)
    return _MEASURED_US.get(board_name, _FAMILY_US.get(family, _ASSUMED_US))
