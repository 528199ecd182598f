"""gather and gather_nd: elements or rows of x, selected by an index.

Defined in docs/semantics.md after CINN's gather and scatter document, whose formula 1.1 drops a coordinate of the index
and whose assertion for gather_nd is wrong. Index 3 on an axis of 3 elements, as in one of its examples, is an error
here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from numpy.typing import ArrayLike

from mlusim.dtypes import Dtype
from mlusim.hardware import DEFAULT_BOARD, Board
from mlusim.kernels.gather import kernel_of
from mlusim.ops.argument_errors import explained
from mlusim.ops.call import Launches, RunOptions
from mlusim.ops.indices import check_lookups, lookups_along, lookups_nd, plan_lookups
from mlusim.ops.operator import Operator, apply
from mlusim.ops.schema import Tensor
from mlusim.ops.shared_arguments import AXES, AXIS, BATCH_DIMS, INDEX, INDEX_SHAPE, MODE, X, example_along, example_nd
from mlusim.planning.gather import STRATEGIES, plan_gather
from mlusim.planning.lookup_geometry import Lookups
from mlusim.planning.plan import Plan
from mlusim.results.result import Result


@explained
def gather(
    x: ArrayLike,
    index: ArrayLike,
    axis: int = 0,
    *,
    device: str | Path | Board = DEFAULT_BOARD,
    strategy: str = "auto",
    **options: Unpack[RunOptions],
) -> Result:
    """out[i] = x[i with coordinate `axis` replaced by index[i]]: torch.gather, ONNX GatherElements.

    Args:
        x: any element type, rank 1 or more.
        index: int32 or int64, of x's rank, no larger than x along the other axes, of any length along `axis`, including
            0. Values from -n to n - 1; negative ones count from the end.
        axis: axis of x; negative values count from the end.
        device: a preset's name, a TOML file, or a board.
        strategy: "auto", "slab" or "rows" (`planning.gather.STRATEGIES`).
        options: see `RunOptions`.

    Returns the result; its output has index's shape and x's element type, bits unchanged.

    Raises `InputError` for a violation of these rules, with the value and its position, and the errors of a run.
    """
    return apply(GATHER, (x, index), {"axis": axis}, device, strategy, options)


@explained
def gather_nd(
    x: ArrayLike,
    index: ArrayLike,
    axes: Sequence[int] | None = None,
    mode: str = "aligned",
    *,
    batch_dims: int = 0,
    device: str | Path | Board = DEFAULT_BOARD,
    strategy: str = "auto",
    **options: Unpack[RunOptions],
) -> Result:
    """Select elements or rows of x by index tuples, the last axis of `index`, with M coordinates each.

    Args:
        x: any element type and rank.
        index: int32 or int64. Values as in `gather`. Aligned: shape m + (M,), m of x's rank and no larger than x along
            axes that are not in `axes`. Standard: shape p + (M,), M at most x's rank.
        axes: the axis of x for each coordinate, by default the first M; aligned only.
        mode: "aligned": out[i] = x[i with coordinate axes[k] replaced by index[i, k], all k], of shape m: as in CINN's
            document. "standard": out[p] = x[index[p, 0], ..., index[p, M - 1]], of shape p + x.shape[M:]: as in
            TensorFlow and ONNX GatherND. With M = 0 each row is all of x.
        batch_dims: b, standard only: the first b axes of x and index are equal, and tuples index the axes after them:
            out[n, p] = x[n, index[n, p, 0], ..., index[n, p, M - 1]] for n over these axes; ONNX's batch_dims.
        device, strategy, options: as in `gather`.

    Returns and raises as `gather`.
    """
    attributes = {"axes": axes, "mode": mode, "batch_dims": batch_dims}
    return apply(GATHER_ND, (x, index), attributes, device, strategy, options)


_lookups = partial(lookups_along, "gather")
_lookups_nd = partial(lookups_nd, "gather_nd")


def _infer(
    lookups_of: Callable[..., Lookups], x: Tensor, index: Tensor, **attributes: Any
) -> tuple[tuple[int, ...], Dtype]:
    return lookups_of(x, index, **attributes).value_shape, x.dtype


def _launches(plan: Plan, *_: Tensor, **__: Any) -> Launches:
    return Launches(kernels=(kernel_of(plan),))


GATHER = Operator(
    name="gather",
    inputs=(X, INDEX),
    attributes=(AXIS,),
    strategies=STRATEGIES,
    example=example_along,
    example_attributes=(INDEX_SHAPE,),
    usage="--input x.npy --index i.npy --axis 1 --out y.npy",
    infer=partial(_infer, _lookups),
    check=partial(check_lookups, "gather", _lookups),
    plan=partial(plan_lookups, "gather", _lookups, plan_gather),
    launches=_launches,
)
GATHER_ND = replace(
    GATHER,
    name="gather_nd",
    attributes=(AXES, MODE, BATCH_DIMS),
    example=example_nd,
    usage="--input x.npy --index i.npy --mode standard --out y.npy",
    infer=partial(_infer, _lookups_nd),
    check=partial(check_lookups, "gather_nd", _lookups_nd),
    plan=partial(plan_lookups, "gather_nd", _lookups_nd, plan_gather),
)
