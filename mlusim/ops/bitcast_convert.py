"""bitcast_convert: the same bytes as elements of another type, defined in docs/semantics.md after CINN's document."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Unpack

from numpy.typing import ArrayLike

from mlusim.dtypes import Dtype, dtype_name, is_complex
from mlusim.errors import InputError
from mlusim.hardware import DEFAULT_BOARD, Board
from mlusim.inputs import as_shape
from mlusim.kernels.bitcast import copy_tiles
from mlusim.memory.view import View
from mlusim.ops.argument_errors import explained
from mlusim.ops.call import RunOptions, single
from mlusim.ops.operator import Operator, apply
from mlusim.ops.schema import Tensor
from mlusim.ops.shared_arguments import DTYPE, X, one_tensor
from mlusim.planning.elementwise import plan_elementwise
from mlusim.planning.plan import Plan, empty_plan
from mlusim.results.result import Result

STRATEGIES: dict[str, str] = {
    "view": "a view of the same device memory: no bytes are moved",
    "copy": "a copy of the bytes through NRAM, for a consumer that cannot take a view",
}


@explained
def bitcast_convert(
    x: ArrayLike,
    dtype: object,
    *,
    device: str | Path | Board = DEFAULT_BOARD,
    strategy: str = "view",
    **options: Unpack[RunOptions],
) -> Result:
    """Reinterpret the bytes of x, in C order and little endian, as elements of another type.

    Equal widths keep the shape. A narrower target appends a dimension for the elements within one element of x, the
    low-order part first. A wider target consumes the last dimension of x, which must make up exactly one element.

    Args:
        x: any shape and element type; made contiguous by the upload if necessary. A bool is one byte, unchanged.
        dtype: the target: a NumPy dtype, a name, or CINN's `Float(32)` etc.
        device: a preset's name, a TOML file, or a board.
        strategy: "view": nothing is moved, and the output, which may share memory with x, is read-only; "copy": the
            bytes are copied on the board.
        options: see `RunOptions`.

    Returns the result; for a view its log has no operations.

    Raises `InputError` for a last dimension of the wrong size, naming the right one, and for complex to real or real to
    complex; and the errors of a run.
    """
    return apply(BITCAST_CONVERT, (x,), {"dtype": dtype}, device, strategy, options)


def bitcast_shape(name: str, shape: tuple[int, ...], source: Dtype, target: Dtype) -> tuple[int, ...]:
    """Return the shape of the result. Raises `InputError` if there is none; `name` is the tensor's name in messages."""
    problem = f"bitcast_convert: {name} is {dtype_name(source)} {list(shape)} and cannot become {dtype_name(target)}"
    if is_complex(source) is not is_complex(target):
        raise InputError(f"{problem}: complex and real types do not mix; view the real and imaginary parts on the host")
    if source.itemsize == target.itemsize:
        return shape
    if source.itemsize > target.itemsize:
        return (*shape, source.itemsize // target.itemsize)
    factor = target.itemsize // source.itemsize
    if not shape or shape[-1] != factor:
        last = f"its last dimension is {shape[-1]}" if shape else "it has rank 0, no last dimension"
        count = math.prod(shape)
        uneven = f"the number of elements, {count}, is not a multiple of {factor}"
        remedy = uneven if count % factor else f"reshape it to [.., {factor}]"
        raise InputError(
            f"{problem}: {factor} elements of {source.itemsize} B make one of {target.itemsize} B, so the last "
            f"dimension must be {factor}, and {last}; {remedy}"
        )
    return shape[:-1]


def _infer(x: Tensor, *, dtype: Dtype) -> tuple[tuple[int, ...], Dtype]:
    return as_shape("bitcast_convert: the output", bitcast_shape(x.name, x.shape, x.dtype, dtype)), dtype


def _plan(board: Board, strategy: str, x: Tensor, *, dtype: Dtype) -> Plan:
    shape, _ = _infer(x, dtype=dtype)
    if strategy == "view":
        return empty_plan(
            operator="bitcast_convert",
            strategy=strategy,
            board=board,
            shape=shape,
            itemsize=dtype.itemsize,
            reason="the result is a view of the input's memory: no bytes are moved",
            unit_bytes=math.prod(shape) * dtype.itemsize,
        )
    plan = plan_elementwise(board, math.prod(shape), dtype.itemsize, dtype.itemsize, 0, "auto", "bitcast_convert")
    return replace(plan, strategy="copy")


def view_as(x: View, *, dtype: Dtype) -> View:
    """Return the output of bitcast_convert as a view of its input, a contiguous tensor in device memory."""
    return View.of(x.allocation, bitcast_shape("x", x.shape, x.dtype, dtype), dtype, x.offset)


BITCAST_CONVERT = Operator(
    name="bitcast_convert",
    inputs=(X,),
    attributes=(DTYPE,),
    strategies=STRATEGIES,
    infer=_infer,
    plan=_plan,
    launches=single(copy_tiles),
    view=view_as,
    example=one_tensor,
    usage="--input x.npy --dtype int32 --out y.npy",
    example_usage="--shape 4096,2 --dtype float64",
    data_option="input_dtype",
)
