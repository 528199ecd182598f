"""Pools over windows of (height, width, channel), forward and backward. Windows must fit inside the input."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mlusim.arrays import Array
from mlusim.cores.instructions.cost import window
from mlusim.cores.instructions.record import (
    DST,
    FLOATS,
    NUMBERS,
    SERIES_2XX,
    SERIES_3XX,
    SRC,
    Extent,
    Instruction,
    Match,
    Operand,
    Overlap,
    Shape,
)
from mlusim.cores.instructions.windows import Windows
from mlusim.dtypes import INT16, INT32, UINT16, UINT32, Dtype
from mlusim.units import ceil_div

_WINDOW = ("kernel_height", "kernel_width", "stride_width", "stride_height")
_DEFAULTS = {"stride_width": None, "stride_height": None}
INDEX = dict.fromkeys((UINT16, UINT32, INT16, INT32), SERIES_2XX)


def _windows(attributes: Mapping[str, Any]) -> Windows:
    """Return the windows of a pool; their distance defaults to their size."""
    high, wide = int(attributes["kernel_height"]), int(attributes["kernel_width"])
    down, across = attributes.get("stride_height"), attributes.get("stride_width")
    return Windows(
        high,
        wide,
        high if down is None else int(down),
        wide if across is None else int(across),
        int(attributes.get("in_dh", 1)),
        int(attributes.get("in_dw", 1)),
    )


def _pooled_shape(shape: Shape, attributes: Mapping[str, Any]) -> Shape:
    """Return the shape of the result of a pool over (height, width, channel)."""
    return (*_windows(attributes).fitting(*shape[:2]), shape[2])


def _complaint(shape: Shape, attributes: Mapping[str, Any]) -> str:
    if len(shape) != 3:
        return "a pool takes (height, width, channel)"
    windows = _windows(attributes)
    if min(windows.high, windows.wide, windows.down, windows.across) < 1:
        return "windows and strides must be positive"
    if min(windows.row_step, windows.column_step) < 1:
        return "dilations must be 1 or more"
    if attributes.get("out_dh", 1) != 1 or attributes.get("out_dw", 1) != 1:
        return "a dilated result (out_dh, out_dw) is not modelled: write it with 1, then spread it with a strided copy"
    high, wide = windows.reach
    if high > shape[0] or wide > shape[1]:
        return (
            f"the window of {high} x {wide} is larger than the input of {shape[0]} x {shape[1]}: use a smaller "
            "kernel, or copy the input into a larger, filled buffer first"
        )
    return ""


def _forward_sizes(operands: Sequence[Extent], attributes: Mapping[str, Any]) -> str:
    source, result = operands[1].shape, operands[0].shape
    complaint = _complaint(source, attributes)
    if complaint:
        return complaint
    shape = _pooled_shape(source, attributes)
    return "" if result == shape else f"dst is {list(shape)}"


def _backward_sizes(operands: Sequence[Extent], attributes: Mapping[str, Any]) -> str:
    result, source = operands[0].shape, operands[1].shape
    complaint = _complaint(result, attributes)
    if complaint:
        return complaint
    shape = _pooled_shape(result, attributes)
    if source != shape:
        return f"src is {list(shape)}"
    if attributes.get("overlap", "ACC") not in {"ACC", "COVER"}:
        return "overlap is ACC or COVER"
    return "" if len(operands) < 3 or operands[2].size == operands[1].size else "mask needs as many elements as src"


def _windows_of(source: Array, attributes: Mapping[str, Any]) -> Array:
    """Return the windows of the source: (rows, columns, positions, channel)."""
    windows = _windows(attributes)
    return np.stack([*windows.elements(source, *windows.fitting(*source.shape[:2]))], axis=2)


def _window_size(_types: Sequence[Dtype], attributes: Mapping[str, Any]) -> int:
    return _windows(attributes).positions


def _in_64_bits(values: Array) -> Array:
    if values.dtype.kind in "iu":
        return values
    return values.astype(np.float64 if values.dtype.itemsize >= 4 else np.float32)


def _sums(source: Array, attributes: Mapping[str, Any]) -> Array:
    values: Array = _in_64_bits(_windows_of(source, attributes)).sum(axis=2)
    return values


def _sumpool(result: Array, source: Array, **attributes: Any) -> None:
    np.copyto(result, _sums(source, attributes), casting="unsafe")


def _avgpool(result: Array, source: Array, **attributes: Any) -> None:
    np.copyto(result, _sums(source, attributes) / _windows(attributes).positions, casting="unsafe")


def _largest(values: Array, axis: int) -> Array:
    return _position_of_extreme(np.argmax, values, axis, -np.inf)


def _smallest(values: Array, axis: int) -> Array:
    return _position_of_extreme(np.argmin, values, axis, np.inf)


def _position_of_extreme(pick: Callable[..., Array], values: Array, axis: int, nan_substitute: float) -> Array:
    """Return the place of the extreme of each window, of NaN only in a window of nothing else.

    ASSUMED, on every board: mlu-ops' `box_iou_rotated` for arch 592 divides 0 by 0 where a box has no point, and its
    max pool must pass these over.
    """
    is_nan = np.isnan(values) if values.dtype.kind == "f" else np.False_
    if not is_nan.any():
        return pick(values, axis=axis)
    places = pick(np.where(is_nan, nan_substitute, values), axis=axis)
    # A NaN is picked where all numbers are infinities of the other sign, or there is none.
    is_nan_chosen = np.take_along_axis(is_nan, np.expand_dims(places, axis), axis).squeeze(axis)
    return np.where(is_nan_chosen, np.argmin(is_nan, axis=axis), places)


def _extreme(pick: Callable[..., Array]) -> Callable[..., None]:
    def compute(result: Array, source: Array, **attributes: Any) -> None:
        candidates = _windows_of(source, attributes)
        positions = pick(_in_64_bits(candidates), axis=2)[:, :, None]
        np.copyto(result, np.take_along_axis(candidates, positions, axis=2)[:, :, 0])

    return compute


def _index(pick: Callable[..., Array]) -> Callable[..., None]:
    def compute(result: Array, source: Array, **attributes: Any) -> None:
        np.copyto(result, pick(_in_64_bits(_windows_of(source, attributes)), axis=2), casting="unsafe")

    return compute


def _value_index(pick: Callable[..., Array]) -> Callable[..., Array]:
    """Values at the start of the result, indices of the element's width at `value_index_stride` bytes.

    Returns which elements of the result are written: not those of a gap between both.
    """

    def compute(result: Array, source: Array, *, value_index_stride: int, **attributes: Any) -> Array:
        candidates = _windows_of(source, attributes)
        positions = pick(_in_64_bits(candidates), axis=2)
        values = np.ascontiguousarray(np.take_along_axis(candidates, positions[:, :, None], axis=2)[:, :, 0])
        out = result.reshape(-1).view(np.uint8)
        width = f"u{values.dtype.itemsize}"
        out[: values.nbytes] = values.reshape(-1).view(np.uint8)
        indices = positions.astype(width).reshape(-1).view(np.uint8)
        out[value_index_stride : value_index_stride + indices.size] = indices
        written = np.zeros(result.size, bool)
        for begin in (0, value_index_stride):
            written[begin // result.itemsize : ceil_div(begin + indices.size, result.itemsize)] = True
        return written

    return compute


def _pair_marks(result: Array, source: Array, **attributes: Any) -> None:
    """As `Instruction.marks`; the result is all values, then all indices, without the bytes between them."""
    values = _windows_of(source, attributes).max(axis=2)
    result.reshape(-1)[...] = np.resize(values, result.size) if result.size == 2 * values.size else values.max()


def _pair_fits(operands: Sequence[Extent], attributes: Mapping[str, Any]) -> str:
    complaint = _complaint(operands[1].shape, attributes)
    if complaint:
        return complaint
    rows, columns, channels = _pooled_shape(operands[1].shape, attributes)
    nbytes = rows * columns * channels * operands[1].itemsize
    stride = int(attributes["value_index_stride"])
    if stride < nbytes:
        return f"value_index_stride must be at least the bytes of the values, {nbytes}"
    return "" if operands[0].nbytes >= stride + nbytes else f"dst needs {stride + nbytes} B, for values and indices"


def _distribute(result: Array, source: Array, share: Callable[[int], Array], attributes: Mapping[str, Any]) -> None:
    """Add (or, for COVER, write) a share of every source element to each position of its window.

    Windows are written one after another, by rows, so a later one covers an earlier one: at a pixel that several
    windows share, it has the smaller position.
    """
    gradient = np.zeros(result.shape, _in_64_bits(result).dtype)
    cover = attributes.get("overlap", "ACC") == "COVER"
    positions = list(enumerate(_windows(attributes).elements(gradient, *source.shape[:2])))
    for position, target in reversed(positions) if cover else positions:
        part = share(position)
        if cover:
            np.copyto(target, part)
        else:
            np.add(target, part, out=target)
    np.copyto(result, gradient, casting="unsafe")


def _maxpool_bp(result: Array, source: Array, mask: Array, **attributes: Any) -> None:
    values, positions = _in_64_bits(source), mask.reshape(source.shape).astype(np.int64)
    _distribute(result, source, lambda position: np.where(positions == position, values, 0), attributes)


def _spread_marks(result: Array, *sources: Array, **attributes: Any) -> None:
    """As `Instruction.marks`: a source element reaches every position of its window."""
    shape = _pooled_shape(result.shape, attributes)
    source = np.maximum.reduce([source.reshape(shape) for source in sources])
    result[...] = 0
    for target in _windows(attributes).elements(result, *shape[:2]):
        np.maximum(target, source, out=target)


def _avgpool_bp(result: Array, source: Array, **attributes: Any) -> None:
    values = _in_64_bits(source) / _windows(attributes).positions
    _distribute(result, source, lambda _: values, attributes)


def _unpool(result: Array, source: Array, *, index: int, **attributes: Any) -> None:
    """Write each source element to position `index` of its window, zeros elsewhere; other elements are unchanged."""
    values = source.copy()
    for position, target in enumerate(_windows(attributes).elements(result, *values.shape[:2])):
        np.copyto(target, values if position == index else 0)


_SHAPES = "dst[(height-kernel_height)//{down}+1,(width-kernel_width)//{across}+1,channel] src[height,width,channel]"
_ARGUMENTS = "channel height width kernel_height kernel_width"
_STRIDED = f"{_SHAPES.format(down='stride_height', across='stride_width')} {_ARGUMENTS} stride_width stride_height"
_PLAIN = f"{_SHAPES.format(down='kernel_height', across='kernel_width')} {_ARGUMENTS}"
_POOLED = "[(height-kernel_height)//stride_height+1,(width-kernel_width)//stride_width+1,channel]"
_BACK = f"dst[height,width,channel] src{_POOLED}"
_MASK = f"mask{_POOLED}"
_INDEXED = Operand("dst", Match.FREE, INDEX)


def _pool(name: str, summary: str, compute: Callable[..., Any], **properties: Any) -> Instruction:
    attributes: dict[str, Any] = {
        "c_signatures": (_STRIDED, _PLAIN),
        "attributes": _WINDOW,
        "defaults": _DEFAULTS,
        "geometry": _forward_sizes,
        "marks": _extreme(np.argmax),
        "types": NUMBERS,
        "overlap": Overlap.APART,
    }
    return Instruction(
        name=name,
        summary=summary,
        group="Pools",
        compute=compute,
        cost=window,
        count=_window_size,
        **(attributes | properties),
    )


_PAIR_SIGNATURE = (
    "dst[(value_index_stride+(height-kernel_height+stride_height)//stride_height"
    "*((width-kernel_width+stride_width)//stride_width)*channel*itemsize)//itemsize] src[height,width,channel] "
    f"{_ARGUMENTS} stride_width stride_height value_index_stride"
)
_DILATED_SIGNATURE = (
    _PAIR_SIGNATURE.replace("-kernel_height+", "-(kernel_height-1)*in_dh-1+").replace(
        "-kernel_width+", "-(kernel_width-1)*in_dw-1+"
    )
    + " in_dh in_dw out_dh out_dw"
)
_DILATION = ("in_dh", "in_dw", "out_dh", "out_dw")
_EXTREMES = (("max", "largest", _largest), ("min", "smallest", _smallest))
_BACKWARD: dict[str, Any] = {"geometry": _backward_sizes, "marks": _spread_marks, "overlap": Overlap.APART}
_GRADIENT: dict[str, Any] = _BACKWARD | {
    "attributes": (*_WINDOW, "overlap"),
    "defaults": {**_DEFAULTS, "overlap": "ACC"},
    "types": FLOATS,
}

POOLS: list[Instruction] = [
    # The header requires pools to be disjoint. The vendor's kernels write a sum to a pixel of its own window.
    _pool("sumpool", "dst = the sum of each window of src", _sumpool, overlap=Overlap.PIXEL),
    _pool("avgpool", "dst = the mean of each window of src", _avgpool, types=FLOATS),
    *(
        _pool(
            f"{name}pool",
            f"dst = the {which} number of each window of src, NaN only if it has no number",
            _extreme(pick),
        )
        for name, which, pick in _EXTREMES
    ),
    *(
        _pool(
            f"{name}pool_index",
            f"dst = the position of the {which} number in each window of src",
            _index(pick),
            operands=(_INDEXED, SRC),
            types=FLOATS,
        )
        for name, which, pick in _EXTREMES
    ),
    *(
        _pool(
            f"{name}pool_value_index",
            f"dst = the {which} number of each window of src; at value_index_stride bytes, its position in the window",
            _value_index(pick),
            c_signatures=(_PAIR_SIGNATURE, _DILATED_SIGNATURE),
            attributes=(*_WINDOW[:2], "value_index_stride", *_WINDOW[2:], *_DILATION),
            defaults=_DEFAULTS | dict.fromkeys(_DILATION, 1),
            geometry=_pair_fits,
            marks=_pair_marks,
            overlap=Overlap.SAME,
            selects=True,
            writes_some=True,
            since=SERIES_3XX,
        )
        for name, which, pick in _EXTREMES
    ),
    _pool(
        "maxpool_bp",
        "dst = the gradient src, each element at position mask of its window; overlap adds (ACC) or overwrites (COVER)",
        _maxpool_bp,
        c_signatures=(f"{_BACK} {_MASK} {_ARGUMENTS} stride_width stride_height overlap=ACC",),
        operands=(DST, SRC, Operand("mask", Match.FREE, INDEX)),
        **_GRADIENT,
    ),
    _pool(
        "avgpool_bp",
        "dst = the gradient src, shared evenly over its window; overlap adds (ACC) or overwrites (COVER)",
        _avgpool_bp,
        c_signatures=(f"{_BACK} {_ARGUMENTS} stride_width stride_height overlap=ACC",),
        **_GRADIENT,
    ),
    _pool(
        "unpool",
        "each window of dst = src at position index of the window, 0 elsewhere",
        _unpool,
        c_signatures=(f"{_BACK} {_ARGUMENTS} stride_width stride_height index",),
        attributes=("kernel_height", "kernel_width", "index", "stride_width", "stride_height"),
        **_BACKWARD,
    ),
]
