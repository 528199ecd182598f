"""The rows that a copy in three dimensions reads and writes: `cnrtMemcpy3dParam_t`, as in `cnrt.h`."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from typing import NamedTuple

_PARAMETERS = struct.Struct("<Q3Q4Q3Qi4xQ3Q4Q")


class Volume(NamedTuple):
    """The position of the first byte, and the distances between rows and between planes, in bytes."""

    first: int
    pitch: int
    plane: int


class VolumeCopy(NamedTuple):
    """A copy of `depth` planes of `height` rows of `width` bytes."""

    target: Volume
    source: Volume
    depth: int
    height: int
    width: int
    direction: int

    @property
    def is_valid(self) -> bool:
        """Whether rows and planes lie one after another, and none is empty."""
        return min(self.depth, self.height, self.width) > 0 and all(
            volume.pitch >= self.width and volume.plane >= self.height * volume.pitch
            for volume in (self.target, self.source)
        )

    def rows(self) -> Iterator[tuple[int, int]]:
        """Yield the addresses of each row in the target and in the source."""
        for z in range(self.depth):
            for y in range(self.height):
                target, source = (
                    volume.first + z * volume.plane + y * volume.pitch for volume in (self.target, self.source)
                )
                yield target, source

    def end(self, volume: Volume) -> int:
        """Return the address after its last byte."""
        return volume.first + (self.depth - 1) * volume.plane + (self.height - 1) * volume.pitch + self.width


def volume_copy(address: int) -> VolumeCopy:
    """Return the copy that the parameters at an address of the program describe."""
    parameters = _PARAMETERS.unpack(ctypes.string_at(address, _PARAMETERS.size))
    target, source = _volume(parameters[:8]), _volume(parameters[12:])
    depth, height, width, direction = parameters[8:12]
    return VolumeCopy(target, source, depth, height, width, direction)


def _volume(parameters: tuple[int, ...]) -> Volume:
    """Return one side: a pointer, the position in it, and the pitched pointer, which has the same pointer."""
    pointer, x, y, z, pitch, pitched, _, rows = parameters
    plane = rows * pitch
    return Volume((pitched or pointer) + z * plane + y * pitch + x, pitch, plane)
