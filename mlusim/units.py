"""Units: integer picoseconds and bytes. Rounding happens here and nowhere else."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from typing import Final

PS_PER_S = 10**12
PS_PER_HOUR = 3600 * PS_PER_S
PS_PER_US = 10**6
PS_PER_NS = 10**3
MEGA, GIGA = 10**6, 10**9
KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
TIB = 1024 * GIB

# Shared transfers accumulate rounding errors; a thousandth of a picosecond is far above these and far below a tick.
TICK_TOLERANCE: Final = 1e-3


def ceil_ps(time_ps: float) -> int:
    """Round a time in picoseconds up to the next whole picosecond.

    Fractional times become integers here only. A fraction below a thousandth of a picosecond is a rounding error.
    """
    return math.ceil(time_ps - TICK_TOLERANCE)


def cycles_to_ps(cycles: int, clock_hz: int) -> int:
    """Return the time of `cycles` at `clock_hz`, in picoseconds, rounded up."""
    return -(-cycles * PS_PER_S // clock_hz)


def ps_to_cycles(time_ps: int, clock_hz: int) -> int:
    """Return the cycles at `clock_hz` that cover `time_ps`, rounded up."""
    return -(-time_ps * clock_hz // PS_PER_S)


def ceil_div(value: int, divisor: int) -> int:
    """Quotient rounded up."""
    return -(-value // divisor)


def round_up(value: int, multiple: int) -> int:
    """`value` rounded up to a multiple of `multiple`."""
    return -(-value // multiple) * multiple


def group_digits(value: int) -> str:
    """Format an integer with its digits in groups of three, separated by spaces: 1 840."""
    return f"{value:,}".replace(",", " ")


def signed(value: float, decimals: int) -> str:
    """Format a change with its sign; one that is rounded to 0 has none: `+1.5`, `0.0`."""
    text = f"{value:+.{decimals}f}"
    return text if float(text) else text[1:]


def signed_us(time_ps: int) -> str:
    """Format a change of a time, as a number of microseconds: `+1.50`."""
    return signed(time_ps / PS_PER_US, 2)


def signed_percent(change: float | None) -> str:
    """Format a change, as a fraction, as a percentage: `+1.5 %`; empty for None, which is unknown."""
    return "" if change is None else f"{signed(100 * change, 1)} %"


def ratio(amount: float, reference: float) -> str:
    """Format a ratio: `1.25 x`; empty for a reference of 0."""
    return f"{amount / reference:.2f} x" if reference else ""


def percent(share: float | None) -> str:
    """Format a fraction as a percentage: `51.3 %`; small positive values are `< 0.1 %`, and None, undefined, is `-`."""
    if share is None:
        return "-"
    return "< 0.1 %" if 0 < share < 0.0005 else f"{100 * share:.1f} %"


def plural(count: int, noun: str) -> str:
    """Format a count with its noun: `1 tile`, `2 048 tiles`."""
    return f"{group_digits(count)} {noun}{'' if count == 1 else 's'}"


def first_of(separator: str, texts: Sequence[str]) -> str:
    """Join texts, the first twelve of many: `a, b and 3 more`."""
    listed = texts[:12]
    others = len(texts) - len(listed)
    return separator.join(listed) + (f"{separator}and {others} more" if others else "")


def ranges(numbers: Sequence[int]) -> str:
    """Format ascending numbers, the first few ranges of many: `0 to 3, 7`."""
    # Numbers of a range have the same difference from their positions.
    runs = [[number for _, number in run] for _, run in groupby(enumerate(numbers), lambda item: item[1] - item[0])]
    return first_of(", ", [f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs])


def binary_unit(count: float) -> tuple[str, int]:
    """Return the largest of TiB, GiB, MiB, KiB and B that is not above `count` bytes, and its size."""
    units = (("TiB", TIB), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB))
    return next((unit for unit in units if abs(count) >= unit[1]), ("B", 1))


def short_bytes(count: float) -> str:
    """Format bytes for a table, rounded to four digits: `640 KiB`."""
    unit, size = binary_unit(count)
    return f"{count / size:.4g} {unit}"


def format_bytes(count: int) -> str:
    """Format bytes for a message: `655 360 B (640 KiB)`."""
    text = f"{group_digits(count)} B"
    return text if abs(count) < KIB else f"{text} ({short_bytes(count)})"


def format_ns(time_ps: int) -> str:
    """Format a time in nanoseconds for a message: `1 840 ns`, with a fraction only if there is one."""
    nanoseconds, picoseconds = divmod(abs(time_ps), PS_PER_NS)
    fraction = f".{picoseconds:03d}".rstrip("0") if picoseconds else ""
    return f"{'-' if time_ps < 0 else ''}{group_digits(nanoseconds)}{fraction} ns"


def format_us(time_ps: float) -> str:
    """Format a time in microseconds: `1 840.77 us`; small ones are shown as `< 0.01 us`, or `> -0.01 us`."""
    if 0 < abs(time_ps) < 0.005 * PS_PER_US:
        return "< 0.01 us" if time_ps > 0 else "> -0.01 us"
    return f"{time_ps / PS_PER_US:,.2f} us".replace(",", " ")
