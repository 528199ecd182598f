"""index_select: its planner and its kernel.

out[a, i, b] = x[a, index[i], b], where a are the axes before `axis` and b those after it. This is a gather with tuples
of one coordinate and the same index for every a: the axes before `axis` are batch axes, and the index repeats along
them with stride 0. The planner and the kernels of gather therefore do the work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlusim.hardware import Board
from mlusim.kernels.gather import kernel_of
from mlusim.memory.view import View
from mlusim.planning.gather import STRATEGIES, GatherParameters, plan_gather
from mlusim.planning.lookup import LookupProblem
from mlusim.planning.lookup_geometry import Lookups
from mlusim.planning.plan import Plan

if TYPE_CHECKING:
    from mlusim.cores.core import Core

__all__ = ["STRATEGIES", "index_select_tiles", "plan_index_select"]


def plan_index_select(
    board: Board, shape: tuple[int, ...], axis: int, count: int, itemsize: int, index_itemsize: int, strategy: str
) -> Plan:
    """Plan an index_select.

    Args:
        board: the board.
        shape: shape of x, rank 1 or more.
        axis: in [0, rank).
        count: number of indices.
        itemsize, index_itemsize: bytes of an element of x, of an index.
        strategy: a key of `STRATEGIES`.

    Raises `PlanError` if no tile, or none of the requested strategy, fits in NRAM.
    """
    lookups = Lookups(x_shape=shape, axes=(axis,), positions=(*shape[:axis], count), aligned=False, batch_dims=axis)
    return plan_gather(
        LookupProblem(
            board=board,
            lookups=lookups,
            itemsize=itemsize,
            index_itemsize=index_itemsize,
            strategy=strategy,
            operator="index_select",
            repeats=True,
        )
    )


async def index_select_tiles(core: Core, x: View, index: View, out: View, plan: Plan) -> None:
    """Process tile by tile, like gather. x, index (rank 1) and out are contiguous tensors in GDRAM."""
    lookups = plan.parameters_as(GatherParameters).lookups
    tuples = index.reshape(-1, 1).broadcast_to(*lookups.positions, 1)
    await kernel_of(plan)(core, x, tuples, out, plan)
