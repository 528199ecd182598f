"""`Core`: what a kernel gets as its first argument. BANG C's names, without the underscores.

Methods that give nothing issue and never suspend. Methods to `await` are where the task may stop, exactly where BANG C
stops: blocking copies, scalar loads, syncs, barriers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlusim.cores.bins import BinOperations
from mlusim.cores.copies import CopyOperations
from mlusim.cores.counted import CountedOperations
from mlusim.cores.scratch import Scratch
from mlusim.cores.syncs import SyncOperations
from mlusim.cores.vector import VectorOperations
from mlusim.errors import KernelError

if TYPE_CHECKING:
    from mlusim.cores.task import Task
    from mlusim.memory.allocation import Memory


class Core(CopyOperations, VectorOperations, CountedOperations, BinOperations, SyncOperations):
    """One task's handle on its core.

    Attributes:
        task_id, task_dim: `taskId` and `taskDim`, linear over the grid.
        task_id_x, task_id_y, task_id_z, task_dim_x, task_dim_y, task_dim_z: the same by axis.
        core_id: 0 to 3, or 0x80 on the memory core.
        core_dim: cores of a cluster.
        cluster_id, cluster_dim: the cluster within the union, and n of UNIONn (0 for BLOCK).
        is_memory_core: `__is_mpu()`. A UNION launch runs the kernel on the memory cores too.
        nram, wram, sram, ldram: on-chip memories and LDRAM, to allocate from. A memory core has no NRAM or WRAM.
        board: the board's record.

    Not modelled: the instruction cache, a limit on instructions in flight, branches and loop overhead of the scalar
    pipe (charge them with `scalar`).
    """

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        unit, job, chip = task.unit, task.job, task.chip
        launch = job.launch
        self.is_memory_core = unit.is_memory_core
        self.core_id = unit.core_id
        self.core_dim = chip.board.cores_per_cluster
        self.cluster_dim = launch.union
        self.cluster_id = job.clusters.index(unit.cluster) if launch.union else 0
        self.task_id = task.linear_id
        self.task_id_x, self.task_id_y, self.task_id_z = task.task_id
        self.task_dim_x, self.task_dim_y, self.task_dim_z = launch.dim
        self.task_dim = launch.dim[0] * launch.dim[1] * launch.dim[2]
        self.ldram = self._scratch(unit.ldram)

    def __repr__(self) -> str:
        return f"<core of {self._task.name}>"

    @property
    def nram(self) -> Scratch:
        """The core's NRAM."""
        return self._own("nram")

    @property
    def wram(self) -> Scratch:
        """The core's WRAM."""
        return self._own("wram")

    @property
    def sram(self) -> Scratch:
        """The SRAM of the cluster; a BLOCK task has none."""
        if not self.cluster_dim:
            raise KernelError("a BLOCK task has no cluster to share SRAM with: launch as UNION1 or larger")
        scratch = self.__dict__.get("_sram")
        if scratch is None:
            scratch = self.__dict__["_sram"] = Scratch(self._task, self._unit.cluster.sram)
        return scratch

    def _own(self, name: str) -> Scratch:
        scratch = self.__dict__.get(f"_{name}")
        if scratch is None:
            memory: Memory | None = getattr(self._unit, name)
            if memory is None:
                raise KernelError(
                    f"the memory core has no {name.upper()}: return early, `if core.is_memory_core: return`, or stage "
                    "through core.sram"
                )
            scratch = self.__dict__[f"_{name}"] = self._scratch(memory)
        return scratch

    def _scratch(self, memory: Memory) -> Scratch:
        scratch = Scratch(self._task, memory)
        self._task.scratches.append(scratch)
        return scratch
