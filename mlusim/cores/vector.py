"""The vector pipe: what each instruction computes and what it costs.

Numerics are NumPy's in the declared element type: each result is rounded once to it, integers wrap, NaN goes through
`max` and `min`. An instruction does 128 B of its widest operand per cycle, never less than 128 B, after a start-up
(G 5.3).

All operands are contiguous views in the core's NRAM with the same number of elements and, but for `convert`, one
element type. On arch below 300 they are 64 B aligned and a multiple of 128 B long. `OperandError` says which of these
does not hold. Instructions are issued and never waited for; `sync` or `sync_compute` does that. Not modelled: the wait
between back-to-back dependent instructions beyond the start-up, and which element types each generation's vector unit
lacks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.cores.convert import convert as convert_array
from mlusim.cores.convert import steps
from mlusim.dtypes import dtype_name
from mlusim.errors import OperandError
from mlusim.log import NO_OPERAND, NONE, VECTOR
from mlusim.memory.allocation import check_usable
from mlusim.memory.kinds import MemoryKind
from mlusim.memory.view import View

if TYPE_CHECKING:
    from mlusim.cores.issuer import Issuer

Array = np.ndarray[Any, Any]
Number = bool | int | float | complex

# Every instruction of a kind, by name; the tests walk these tables against NumPy.
BINARY: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}
COMPARE: dict[str, Callable[..., Any]] = {
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}
REDUCE: dict[str, Callable[..., Any]] = {
    "reduce_sum": np.add.reduce,
    "reduce_max": np.maximum.reduce,
    "reduce_min": np.minimum.reduce,
}

_ALIGNED_ADDRESS_BYTES = 64
_ALIGNED_SIZE_BYTES = 128


def fill(issuer: Issuer, line: int, dst: View, value: Number) -> None:
    """Write `value` to every element: `__bang_write_value`."""
    bits = _bits(value, repr(value), dst.dtype)
    issue(issuer, line, "fill", dst, (), partial(_fill, dst, bits))


def write_zero(issuer: Issuer, line: int, dst: View) -> None:
    """Write +0 to every element: `__bang_write_zero`."""
    issue(issuer, line, "write_zero", dst, (), partial(_fill, dst, _bits(0, 0, dst.dtype)))


def select(issuer: Issuer, line: int, dst: View, mask: View, a: View, b: View) -> None:
    """Dst = a where mask is not 0, else b: bits as they are. `mask` may have another type of the same width."""
    if mask.itemsize != dst.itemsize:
        raise OperandError(
            f"select with a mask of {mask.itemsize} B elements for {dst.itemsize} B ones: widths must agree"
        )
    _same_type("select", dst, a, b)
    issue(issuer, line, "select", dst, (a, b, mask), partial(_select, dst, mask, a, b))


def transpose(issuer: Issuer, line: int, dst: View, src: View) -> None:
    """Dst (w, h) = src (h, w) with its axes exchanged: `__bang_transpose`. dst and src must not overlap."""
    if src.ndim != 2 or dst.shape != src.shape[::-1]:  # noqa: PLR2004
        raise OperandError(f"transpose of {src!r} to {dst!r}: it takes (h, w) to (w, h)")
    _same_type("transpose", dst, src)
    _apart("transpose", dst, src)
    issue(issuer, line, "transpose", dst, (src,), partial(_transpose, dst, src))


def mirror(issuer: Issuer, line: int, dst: View, src: View) -> None:
    """Dst = src with its last axis reversed: `__bang_mirror`. dst and src must not overlap."""
    if src.shape != dst.shape or not src.shape:
        raise OperandError(f"mirror of {src!r} to {dst!r}: shapes must be equal and of rank 1 or more")
    _same_type("mirror", dst, src)
    _apart("mirror", dst, src)
    issue(issuer, line, "mirror", dst, (src,), partial(_mirror, dst, src))


def convert(issuer: Issuer, line: int, dst: View, src: View, rounding: str | None = None) -> None:
    """Dst = src converted to dst's element type.

    Args:
        dst, src: as many elements each.
        rounding: for float to integer one of tz, rn, rd, dn, up, oz (B); None is the rule of `cast`
            (docs/semantics.md).

    Conversions that the vector unit does in two steps, such as int64 to float16 through float32, cost both. dst may
    begin where src does, if its elements are no wider; else they must not overlap. Raises `InputError` where there
    is no such conversion.
    """
    passes = len(steps(src.dtype, dst.dtype, rounding))
    if dst.allocation is not src.allocation or dst.offset != src.offset or dst.itemsize > src.itemsize:
        _apart("convert", dst, src)
    issue(issuer, line, "convert", dst, (src,), partial(_convert, dst, src, rounding), passes=max(passes, 1))


def binary(issuer: Issuer, line: int, name: str, dst: View, a: View, b: View | Number) -> None:
    """An instruction of `BINARY` or `COMPARE`, elementwise; b may be a number. A comparison gives 1 or 0."""
    compute = BINARY.get(name) or COMPARE[name]
    if dst.dtype.kind == "b" and name in BINARY:
        raise OperandError(f"{name} of bool operands: the vector unit computes on numbers; convert them first")
    if isinstance(b, View):
        _same_type(name, dst, a, b)
        issue(issuer, line, name, dst, (a, b), partial(_compute, compute, dst, a, b))
    else:
        _same_type(name, dst, a)
        with np.errstate(all="ignore"):
            number = np.asarray(b).astype(dst.dtype)
        issue(issuer, line, name, dst, (a,), partial(_compute_number, compute, dst, a, number))


def reduce(issuer: Issuer, line: int, name: str, dst: View, src: View) -> None:
    """An instruction of `REDUCE` over the first axis: src (rows, ...) to dst (...); rank 1 to one element."""
    _same_type(name, dst, src)
    if dst.dtype.kind == "b":
        raise OperandError(f"{name} of bool operands: the vector unit computes on numbers; convert them first")
    rest = src.shape[1:] if src.ndim > 1 else (1,)
    if dst.shape != rest or not src.shape:
        raise OperandError(f"{name} of {src!r} to {dst!r}: dst needs shape {list(rest)}, src without its first axis")
    issue(issuer, line, name, dst, (src,), partial(_reduce, REDUCE[name], dst, src), same_size=False)


def _same_type(name: str, dst: View, *sources: View) -> None:
    for source in sources:
        if source.dtype != dst.dtype:
            raise OperandError(
                f"{name} of {dtype_name(source.dtype)} to {dtype_name(dst.dtype)}: operands of one instruction "
                "have one element type; use convert first"
            )


def issue(
    issuer: Issuer,
    line: int,
    name: str,
    dst: View,
    sources: tuple[View, ...],
    effect: Callable[[], None] | None,
    *,
    passes: int = 1,
    same_size: bool = True,
) -> int:
    """Issue one instruction of the vector pipe; returns its record.

    Args:
        issuer: of the task that issues it.
        line: source line in the log.
        name: of the instruction.
        dst, sources: contiguous views in the core's NRAM.
        effect: what it does to memory at its end; None where nothing is computed.
        passes: how often it goes over its widest operand.
        same_size: whether all operands have as many elements.
    """
    nram = issuer.unit.nram
    for view in (dst, *sources):
        allocation = view.allocation
        if allocation.freed or allocation.memory is not nram:
            _check_operand(issuer, name, view, write=view is dst)
    key = (name, passes, dst.shape, dst.strides, dst.dtype, *map(_geometry, sources))
    geometry = issuer.chip.vector_geometries.get(key)
    if geometry is None:
        geometry = issuer.chip.vector_geometries[key] = _geometry_of(
            issuer, name, dst, sources, passes, same_size=same_size
        )
    if issuer.board.needs_aligned_vectors:
        for view in (dst, *sources):
            _check_aligned(issuer, name, view)
    duration_ps, widest, size, dst_box, boxes = geometry
    issuer.begin()
    unit = issuer.unit
    issue_ps = start_ps = issuer.task.now_ps
    waited_for = NONE
    if unit.vector_free_ps > start_ps:
        start_ps = unit.vector_free_ps
        waited_for = unit.vector_record
    end_ps = start_ps + duration_ps
    operands = [(source.allocation.identity, source.offset, box) for source, box in zip(sources, boxes, strict=True)]
    record = issuer.record(
        name,
        VECTOR,
        line,
        issue_ps,
        start_ps,
        end_ps,
        count=passes,
        nbytes=widest,
        detail=size,
        dst=(dst.allocation.identity, dst.offset, dst_box),
        a=operands[0] if operands else NO_OPERAND,
        b=operands[1] if len(operands) > 1 else NO_OPERAND,
        waited_for=waited_for,
    )
    if len(operands) > 2:  # noqa: PLR2004
        issuer.log.more_operands[record] = operands[2:]
    unit.vector_free_ps = end_ps
    unit.vector_record = record
    if effect is not None and issuer.has_data:
        unit.effects.append((end_ps, effect))
    return record


def _geometry_of(
    issuer: Issuer, name: str, dst: View, sources: tuple[View, ...], passes: int, *, same_size: bool
) -> tuple[int, int, int, int, tuple[int, ...]]:
    """Check the operands and work out what their geometry decides: duration, widest operand, elements, boxes."""
    for view in (dst, *sources):
        _check_operand(issuer, name, view, write=view is dst)
        if same_size and view.size != dst.size:
            raise OperandError(f"{name} of {view!r} and {dst!r}: operands have as many elements")
    widest = max(view.nbytes for view in (dst, *sources))
    board = issuer.board
    cycles = passes * (board.vector_startup_cycles + max(1, -(-widest // board.vector_bytes_per_cycle)))
    boxes = [issuer.log.box(view.shape, view.strides, view.itemsize) for view in (dst, *sources)]
    return board.cycles_ps(cycles), widest, dst.size, boxes[0], tuple(boxes[1:])


def _check_operand(issuer: Issuer, name: str, view: View, *, write: bool) -> None:
    allocation = view.allocation
    if allocation.memory is not issuer.unit.nram:
        raise OperandError(
            f"{name} of {view!r}: vector operands lie in this core's NRAM; memcpy it there first"
            if view.memory is not MemoryKind.NRAM
            else f"{name} of {view!r}: it lies in {allocation.memory.name}, not in this core's NRAM"
        )
    if allocation.freed:
        check_usable(allocation, write=write)
    if not view.is_contiguous:
        raise OperandError(
            f"{name} of {view!r} with strides {list(view.strides)}: vector operands are contiguous; "
            "use a contiguous slice, or memcpy to a buffer"
        )
    if not view.size:
        raise OperandError(f"{name} of {view!r}, which has no elements: a count is positive; guard it with `if`")


def _check_aligned(issuer: Issuer, name: str, view: View) -> None:
    """1xx and 2xx: 64 B addresses, multiples of 128 B. An allocation's own padding may complete its tail."""
    address = view.allocation.address + view.offset
    nbytes = view.nbytes
    ragged = nbytes % _ALIGNED_SIZE_BYTES and view.offset + nbytes != view.allocation.nbytes
    if address % _ALIGNED_ADDRESS_BYTES or ragged:
        raise OperandError(
            f"{name} of {view!r} at byte {address}, {nbytes} B long: arch {issuer.board.arch} needs 64 B "
            "alignment and a multiple of 128 B (the tail of an allocation may be padded); round the slice out"
        )


def _geometry(view: View) -> tuple[Any, ...]:
    return view.shape, view.strides, view.dtype


@lru_cache(maxsize=1024)
def _bits(value: Number, text: object, dtype: np.dtype[Any]) -> Any:
    """A number in an element type, as an unsigned integer of its width. `text` keeps -0.0 and 0.0 apart."""
    del text
    with np.errstate(all="ignore"):
        element = np.asarray(value).astype(dtype)
    return element.view(f"u{dtype.itemsize}" if dtype.itemsize <= 8 else f"V{dtype.itemsize}")[()]  # noqa: PLR2004


def _fill(dst: View, bits: Any) -> None:
    dst.raw().fill(bits)


def _compute(compute: Callable[..., Any], dst: View, a: View, b: View) -> None:
    with np.errstate(all="ignore"):
        _store(dst, compute(a.typed().reshape(-1), b.typed().reshape(-1)))


def _compute_number(compute: Callable[..., Any], dst: View, a: View, number: Array) -> None:
    with np.errstate(all="ignore"):
        _store(dst, compute(a.typed(), number))


def _store(dst: View, result: Array) -> None:
    np.copyto(dst.typed().reshape(-1), result.reshape(-1), casting="unsafe")


def _select(dst: View, mask: View, a: View, b: View) -> None:
    chosen = mask.typed().reshape(-1) != 0
    np.copyto(dst.raw().reshape(-1), np.where(chosen, a.raw().reshape(-1), b.raw().reshape(-1)))


def _reduce(reduce: Callable[..., Any], dst: View, src: View) -> None:
    with np.errstate(all="ignore"):
        _store(dst, np.asarray(reduce(src.typed(), axis=0, dtype=src.dtype)))


def _transpose(dst: View, src: View) -> None:
    np.copyto(dst.raw(), src.raw().T)


def _mirror(dst: View, src: View) -> None:
    np.copyto(dst.raw(), src.raw()[..., ::-1])


def _convert(dst: View, src: View, rounding: str | None) -> None:
    source, out = src.typed().reshape(-1), dst.typed().reshape(-1)
    if dst.allocation is src.allocation and np.may_share_memory(source, out):
        source = source.copy()
    convert_array(source, dst.dtype, rounding, out=out)


def _apart(name: str, dst: View, src: View) -> None:
    """Refuse operands of one allocation whose ranges overlap."""
    apart = dst.offset >= src.offset + src.nbytes or src.offset >= dst.offset + dst.nbytes
    if dst.allocation is src.allocation and not apart:
        raise OperandError(f"{name} of {src!r} to {dst!r}: they overlap; the result would hang on the order of bytes")
