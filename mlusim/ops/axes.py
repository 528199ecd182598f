"""Normalisation of axes: integers that may count from the end, and sequences of them."""

from __future__ import annotations

from operator import index as as_index
from typing import Any

from mlusim.errors import InputError, shown
from mlusim.inputs import as_tuple


def normal_axis(operator: str, argument: str, axis: Any, rank: int) -> int:
    """Return an axis of a tensor of the given rank, counted from the front.

    Raises `InputError` for anything but an integer, and for an axis outside [-rank, rank).
    """
    try:
        number = as_index(axis)
    except TypeError:
        raise InputError(
            f"{operator}: {argument}={shown(axis)} is not an integer: name an axis by its number"
        ) from None
    if isinstance(axis, bool):
        raise InputError(f"{operator}: {argument}={shown(axis)} is a boolean: name an axis by its number")
    if not rank:
        raise InputError(f"{operator}: {argument}={number} of a tensor of rank 0, which has no axes")
    if not -rank <= number < rank:
        raise InputError(
            f"{operator}: {argument}={number} of a tensor of rank {rank}: an axis must be in [-{rank}, {rank}); "
            f"the last one is {rank - 1} or -1"
        )
    return number % rank


def normal_axes(operator: str, argument: str, axes: Any, rank: int) -> tuple[int, ...]:
    """Return one or several distinct axes, counted from the front, in the order given.

    Raises `InputError` as `normal_axis`, and for a repeated axis.
    """
    several = as_tuple(axes)
    requested = several if isinstance(several, tuple) else (several,)
    normal = tuple(normal_axis(operator, argument, axis, rank) for axis in requested)
    for axis in normal:
        if normal.count(axis) > 1:
            repeats = [requested[position] for position, other in enumerate(normal) if other == axis]
            raise InputError(
                f"{operator}: {argument}={list(requested)} of a tensor of rank {rank} names axis {axis} "
                f"more than once, as {' and '.join(map(str, repeats))}: name each axis once"
            )
    return normal
