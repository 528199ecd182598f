"""The axes of a reverse as groups, and the method by which each group is reversed.

Axes of extent 1 are dropped, and adjacent axes that are both reversed, or both not, are merged: reversing both is
reversing the merged axis. The resulting groups alternate between reversed and not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Group(NamedTuple):
    """Adjacent axes, all reversed or all not, merged into one."""

    extent: int
    flipped: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """The method by which the groups inside a tile are reversed.

    Attributes:
        name: the strategy.
        segment: first group of a contiguous segment of the load; `len(groups)` for single elements. Groups from the
            pivot up to it are loops over segments, with a negative stride if reversed.
        passes: first group of each mirror instruction, which reverses everything from there inwards.
    """

    name: str
    segment: int
    passes: tuple[int, ...]


def coalesce(shape: Sequence[int], axes: Sequence[int]) -> tuple[Group, ...]:
    """Return the groups of a tensor without zero extents; a single group of extent 1 if every axis has extent 1.

    Args:
        shape: extents.
        axes: axes to reverse, in [0, rank), distinct.
    """
    groups: list[Group] = []
    for axis, extent in enumerate(shape):
        if extent == 1:
            continue
        flipped = axis in axes
        if groups and groups[-1].flipped == flipped:
            groups[-1] = Group(groups[-1].extent * extent, flipped)
        else:
            groups.append(Group(extent, flipped))
    return tuple(groups) or (Group(1, flipped=False),)


def method_of(groups: tuple[Group, ...], pivot: int, name: str) -> Method:
    """Return the method of a strategy for the groups from the pivot inwards."""
    last = len(groups) - 1
    if name == "mirror":
        segment = pivot
    elif name == "mixed":
        # The last group but one, if not reversed, stays contiguous with the last until the mirror.
        segment = last - groups[last].flipped
    else:
        segment = last + groups[last].flipped
    segment = max(segment, pivot)
    passes, flipped = [], False
    for group in range(segment, len(groups)):
        if groups[group].flipped != flipped:
            passes.append(group)
        flipped = groups[group].flipped
    return Method(name=name, segment=segment, passes=tuple(passes))


def mirrored_index(index: int, groups: tuple[Group, ...]) -> int:
    """Return the source of the element at `index` of the output; both index the flattened groups."""
    source, stride = 0, 1
    for extent, flipped in reversed(groups):
        index, coordinate = divmod(index, extent)
        source += (extent - 1 - coordinate if flipped else coordinate) * stride
        stride *= extent
    return source
