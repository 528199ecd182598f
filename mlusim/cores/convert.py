"""Conversions of the vector unit: values, rounding, and number of steps.

Rules (those of the operator `cast`). The same type is a bit copy. To bool: x != 0. From bool: any nonzero byte is 1.
Integer to integer wraps in two's complement. To a float: round to nearest even, overflow to infinity (float8_e4m3fn
has none: NaN), subnormals kept, NaN stays NaN. 32- and 64-bit types convert to 16- and 8-bit floats through float32
and round at each step, as the hardware's library does. Float to integer truncates, saturates, and converts NaN to 0;
the board's other rounding modes can be selected. A real number becomes the real part of a complex one, by the same
rules.

NumPy's cast is used wherever it agrees. It does not for a bool byte other than 0 and 1 converted to bfloat16 or float8
(it keeps its number), for float64 to float16 (it rounds once), and for floats outside the range of an integer (results
differ between processors, and between the body and the tail of one array).

Not modelled: exception flags, fixed-point formats, and the payload bits of a NaN.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.arrays import Array
from mlusim.dtypes import BOOL, FLOAT32, FLOAT64, Dtype, dtype_of, is_complex, is_float, is_integer, raw_dtype
from mlusim.errors import InputError, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

# Elements per chunk where an intermediate is needed, so that it stays in the second-level cache.
CHUNK = 1 << 15

# The exact test for shared bytes can take exponential time; beyond this much work it is assumed to have found one.
_OVERLAP_WORK = 1000
_HALF = 0.5


def convert(source: Array, target: object, rounding: str | None = None, out: Array | None = None) -> Array:
    """Convert every element of `source` to the type `target`.

    Args:
        source: array of any shape, strides and alignment and of a registered type. Never written.
        target: any argument of `dtype_of`.
        rounding: for a float to an integer, None truncates; "tz" to zero; "rn" to nearest, ties to even; "rd" to
            nearest, ties away from zero; "rm" to nearest, ties up; "dn" down; "up" up; "oz" away from zero. The result
            saturates after rounding. All other pairs accept None or "rn". The names are the suffixes of BANG C's
            conversions.
        out: array of source's shape and the target type, any strides, that shares no byte with source.

    Returns:
        `out`, or a new C-ordered array.

    Raises:
        InputError: a type that is not registered or of the other byte order, complex to real, a rounding mode that is
            unknown or does not apply, an `out` that does not fit.
    """
    source = np.asarray(source)
    target = dtype_of(target)
    move = _route(source.dtype, target, rounding)
    if out is None:
        out = np.empty(source.shape, target)
    else:
        _check_out(source, target, out)
    if source.size:
        with np.errstate(all="ignore"):
            move(source, out)
    return out


def steps(source: object, target: object, rounding: str | None = None) -> tuple[Dtype, ...]:
    """Return the types that an element passes through from `source` to `target`: one pass of the vector unit each.

    int64 to float16 gives (float32, float16), float32 to float16 (float16,), and the same type (), a plain copy. Types
    are arguments of `dtype_of`. Raises `InputError` for a pair or a rounding mode that `convert` rejects.
    """
    start, end = dtype_of(source), dtype_of(target)
    _check(start, end, rounding)
    if start == end:
        return ()
    if is_float(end) and end.itemsize < FLOAT32.itemsize <= start.itemsize and start != FLOAT32:
        return (FLOAT32, end)
    return (end,)


@cache
def _route(origin: Dtype, target: Dtype, rounding: str | None) -> Callable[[Array, Array], None]:
    """Return the function (source, out) for a pair; cached, because kernels convert small pieces often."""
    origin = dtype_of(origin)
    path = steps(origin, target, rounding)
    if not path:
        return partial(_copy_bits, raw=raw_dtype(target))
    if origin == BOOL:
        return _from_bool
    if is_float(origin) and is_integer(target):
        middle = FLOAT64 if origin == FLOAT64 else FLOAT32
        return partial(_to_integer, middle=middle, rounding=None if rounding is None else ROUND[rounding])
    if len(path) > 1:
        return partial(_through, middle=path[0])
    return _cast


def _copy_bits(source: Array, out: Array, raw: Dtype) -> None:
    np.copyto(out.view(raw), source.view(raw))


def _cast(source: Array, out: Array) -> None:
    np.copyto(out, source, casting="unsafe")


def _from_bool(source: Array, out: Array) -> None:
    np.not_equal(source.view(np.uint8), 0, out=out, casting="unsafe")


def _through(source: Array, out: Array, middle: Dtype) -> None:
    for values, part in _blocks(source, out, middle):
        np.copyto(part, values, casting="unsafe")


def _to_integer(source: Array, out: Array, middle: Dtype, rounding: Callable[[Array], Array] | None) -> None:
    for values, part in _blocks(source, out, middle):
        _saturate(values if rounding is None else rounding(values), part)


def _blocks(source: Array, out: Array, middle: Dtype) -> Iterator[tuple[Array, Array]]:
    """Yield (values, part) pairs of rank 1 or more: read-only source elements as `middle`, and their part of `out`."""
    if source.ndim and source.size <= CHUNK:
        yield source.astype(middle, copy=False), out
        return
    buffer = np.empty(min(source.size, CHUNK), middle)
    blocks = np.nditer(
        [source, out],
        flags=["external_loop", "buffered"],
        op_flags=[["readonly"], ["writeonly"]],
        buffersize=CHUNK,
    )
    with blocks:
        for block, part in blocks:
            values = block
            if block.dtype != middle:
                values = buffer[: block.size]
                np.copyto(values, block, casting="unsafe")
            yield values, part


def _saturate(values: Array, out: Array) -> None:
    """Truncate float32 or float64 `values` into the integers `out`; saturates out of range, NaN becomes 0."""
    low, limit = _limits(values.dtype, out.dtype)
    # Most data is in range and free of NaN, which fails both tests: two reductions save the passes below.
    if values.min() >= low and values.max() < limit:
        np.copyto(out, values, casting="unsafe")
        return
    high = np.nextafter(limit, low)
    clipped = np.maximum(values, low)
    np.minimum(clipped, high, out=clipped)
    clipped[np.isnan(clipped)] = 0
    np.copyto(out, clipped, casting="unsafe")
    largest = np.iinfo(out.dtype).max
    if int(high) < largest:
        np.copyto(out, largest, where=values >= limit)


@cache
def _limits(float_type: Dtype, integer: Dtype) -> tuple[np.floating[Any], np.floating[Any]]:
    """Return the least integer and the one beyond the largest: a power of two or 0, exact in either float type."""
    limits = np.iinfo(integer)
    return float_type.type(limits.min), float_type.type(limits.max + 1)


def _nearest_away(values: Array) -> Array:
    """Round to nearest, halves away from zero. Uses the exact fraction; floor(x + 0.5) is not exact."""
    rounded = np.trunc(values)
    rounded += np.copysign(np.abs(values - rounded) >= _HALF, values)
    return rounded


def _nearest_up(values: Array) -> Array:
    """Round to nearest, halves up; exact, as `_nearest_away`."""
    rounded: Array = np.floor(values)
    rounded += values - rounded >= _HALF
    return rounded


def _round_away(values: Array) -> Array:
    """Round away from zero."""
    rounded: Array = np.copysign(np.ceil(np.abs(values)), values)
    return rounded


# Without a mode, the cast to an integer truncates.
ROUND: Mapping[str, Callable[[Array], Array]] = {
    "tz": np.trunc,
    "rn": np.rint,
    "rd": _nearest_away,
    "dn": np.floor,
    "up": np.ceil,
    "oz": _round_away,
    "rm": _nearest_up,
}


def _check(origin: Dtype, target: Dtype, rounding: str | None) -> None:
    if is_complex(origin) and not is_complex(target):
        raise InputError(
            f"{origin} to {target}: complex to real would drop the imaginary part; convert x.real, x.imag or abs(x)"
        )
    if rounding is not None and rounding not in ROUND:
        raise InputError(f"rounding {shown(rounding)} is unknown: the modes are None, {', '.join(ROUND)}")
    if rounding not in {None, "rn"} and not (is_float(origin) and is_integer(target)):
        raise InputError(
            f"rounding {shown(rounding)} does not apply to {origin} to {target}: the modes are for a float to an "
            "integer, any other pair takes None or 'rn'"
        )


def _check_out(source: Array, target: Dtype, out: Array) -> None:
    if out.dtype != target or out.shape != source.shape:
        raise InputError(
            f"out is {out.dtype} {list(out.shape)}, the result {target} {list(source.shape)}: they must be the same"
        )
    if not out.flags.writeable:
        raise InputError("out is read-only: pass an array that can be written")
    if np.may_share_memory(source, out) and _overlap(source, out):
        raise InputError(
            "out shares bytes with the source, which is never written: convert into another array, then copy"
        )


def _overlap(source: Array, out: Array) -> bool:
    try:
        return np.shares_memory(source, out, max_work=_OVERLAP_WORK)  # type: ignore[arg-type]  # the stub knows two values
    except np.exceptions.TooHardError:
        return True
