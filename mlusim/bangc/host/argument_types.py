"""The types of a call's arguments: the compiler accepts any, since calls are templates."""

from __future__ import annotations

import inspect
import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from mlusim.bangc.calls.type_codes import POINTER, SIGNED, UNSIGNED, kind_of, nbytes_of
from mlusim.errors import InputError

# Parameters of functions of the runtime that are addresses.
_ADDRESSES = frozenset(("dst", "src", "target", "targets", "least", "greatest", "free", "total"))
_ADDRESS_BYTES = 8
_ORDINALS = ("1st", "2nd", "3rd", "4th", "5th", "6th", "7th", "8th")


def check_addresses(name: str, function: Callable[..., int], values: Sequence[Any], codes: Sequence[int]) -> None:
    """Raise `InputError` for a number in place of an address; the driver's addresses are integers of 8 bytes."""
    for position in _positions(getattr(function, "__func__", function)):
        if position >= len(values) or codes[position] & POINTER or not kind_of(codes[position]):
            continue
        is_integer = kind_of(codes[position]) in (SIGNED, UNSIGNED)
        if not is_integer or (values[position] and nbytes_of(codes[position]) < _ADDRESS_BYTES):
            raise InputError(
                f"the {_ORDINALS[position]} argument of {name} is {values[position]:g}, a number: pass an address, "
                "such as that of a variable, &variable"
            )


@lru_cache(maxsize=256)
def _positions(function: Callable[..., int]) -> tuple[int, ...]:
    """Return the positions of addresses among the arguments, without `self`."""
    return tuple(k - 1 for k, name in enumerate(inspect.signature(function).parameters) if name in _ADDRESSES)


def check_result(name: str, position: int, code: int, layout: str) -> None:
    """Raise `InputError` if a result has another size than the number that it is stored in."""
    needed = struct.calcsize(layout)
    if code & POINTER and kind_of(code) and nbytes_of(code) != needed:
        raise InputError(
            f"{name} stores a result of {needed} B at its {_ORDINALS[position]} argument, which points to a number of "
            f"{nbytes_of(code)} B: pass the address of a variable of the function's own type"
        )
