"""The axes of a reverse in groups, and the method by which each group is reversed.

Axes of one element go away, and adjacent axes that are both reversed, or both not, are one: reversing two is reversing
the merged one. What is left are groups, reversed and not in turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Group(NamedTuple):
    """Adjacent axes that are all reversed or all not, as one."""

    extent: int
    flipped: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """The method by which the groups inside a tile are reversed.

    Attributes:
        name: the strategy.
        segment: first group of a contiguous segment of the load, `len(groups)` for single elements. Groups from the
            pivot to it are loops over segments, by a negative stride where they are reversed.
        passes: first group of each mirror instruction, which reverses everything from there inwards.
    """

    name: str
    segment: int
    passes: tuple[int, ...]


def coalesce(shape: Sequence[int], axes: Sequence[int]) -> tuple[Group, ...]:
    """The groups of a tensor without zero extents; one group of one element where every axis has one.

    Args:
        shape: extents.
        axes: axes to reverse, in [0, rank), each once.
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
    """The methods of a strategy for the groups from the pivot on."""
    last = len(groups) - 1
    if name == "mirror":
        segment = pivot
    elif name == "mixed":
        # The group before the last, which stays, is contiguous with it until the mirror.
        segment = last - groups[last].flipped
    else:
        segment = last + groups[last].flipped
    segment = max(segment, pivot)
    passes, before = [], False
    for group in range(segment, len(groups)):
        if groups[group].flipped != before:
            passes.append(group)
        before = groups[group].flipped
    return Method(name=name, segment=segment, passes=tuple(passes))


def mirrored_index(index: int, groups: tuple[Group, ...]) -> int:
    """The index, over all groups as one axis, of the element that comes to `index`."""
    source, stride = 0, 1
    for extent, flipped in reversed(groups):
        index, coordinate = divmod(index, extent)
        source += (extent - 1 - coordinate if flipped else coordinate) * stride
        stride *= extent
    return source
