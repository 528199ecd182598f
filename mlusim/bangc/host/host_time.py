"""The host's time in what a program measures between two notifiers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mlusim.hardware.board_record import Board
from mlusim.hardware.host_launch import HOST_CALL_US, host_launch_us
from mlusim.log_tables import LaunchRecord
from mlusim.units import PS_PER_US


class HostTime:
    """When the host of a program calls its launches: one after another, and after what it waits for.

    A launch starts no earlier than `host_launch_us` after its call, and the call takes the host `HOST_CALL_US`. So
    short launches in a row wait for the host, and long ones hide its time except that of the first. Not modelled: the
    host's time for anything else.
    """

    def __init__(self, board: Board) -> None:
        self._start_ps = round(host_launch_us(board.name, board.family) * PS_PER_US)
        self._call_ps = round(HOST_CALL_US * PS_PER_US)
        # For each launch, those that the host has waited for since the launch before.
        self._waited: list[list[int]] = []
        self._since: list[int] = []
        # When the last launch was called, and the delay of the first 0, 1, 2, ... launches.
        self._called_ps = -self._call_ps
        self._delays_ps = [0]

    def launched(self) -> None:
        """Note a launch."""
        self._waited.append(self._since)
        self._since = []

    def waited(self, launches: Iterable[int]) -> None:
        """Note that the host has waited for launches, by index."""
        self._since += launches

    def delay_ps(self, launches: Sequence[LaunchRecord], number: int) -> int:
        """Return how much later than without the host's time the first `number` launches end; they have run."""
        delays_ps = self._delays_ps
        new = slice(len(delays_ps) - 1, number)
        for launch, waited in zip(launches[new], self._waited[new], strict=True):
            ended_ps = max((launches[index].end_ps + delays_ps[index + 1] for index in waited), default=0)
            self._called_ps = max(self._called_ps + self._call_ps, ended_ps)
            delays_ps.append(max(delays_ps[-1], self._called_ps + self._start_ps - launch.start_ps))
        return delays_ps[number]
