"""The kernel of index_select: that of gather, with an index that repeats along the axes before `axis` with stride 0.

  index_select_tiles   (x, index, out, plan): out[a, i, b] = x[a, index[i], b]

The plan is that of `planning.gather.plan_gather`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlusim.kernels.gather import kernel_of
from mlusim.memory.view import View
from mlusim.planning.gather import GatherParameters
from mlusim.planning.plan import Plan

if TYPE_CHECKING:
    from mlusim.cores.core import Core


async def index_select_tiles(core: Core, x: View, index: View, out: View, plan: Plan) -> None:
    """Process tile by tile, like gather. x, index (rank 1) and out are contiguous tensors in GDRAM."""
    lookups = plan.parameters_as(GatherParameters).lookups
    tuples = index.reshape(-1, 1).broadcast_to(*lookups.positions, 1)
    await kernel_of(plan)(core, x, tuples, out, plan)
