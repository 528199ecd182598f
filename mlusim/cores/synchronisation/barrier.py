"""Barriers with the hardware's fixed counts: a task that has returned still counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from mlusim.cores.machine.chip import Chip
    from mlusim.cores.tasks.task import Task

# Numbers reserved for the rounds of one barrier.
_MAX_ROUNDS = 1 << 20


class BarrierKind(NamedTuple):
    """Who meets at a barrier.

    Attributes:
        within_cluster: those of one cluster, instead of those of all clusters of the union.
        cores, memory_cores: whether MLU cores and memory cores participate.
    """

    within_cluster: bool
    cores: bool
    memory_cores: bool


# By name of the instruction.
BARRIERS = {
    "sync_cluster": BarrierKind(within_cluster=True, cores=True, memory_cores=True),
    "sync_all": BarrierKind(within_cluster=False, cores=True, memory_cores=True),
    "sync_all_ipu": BarrierKind(within_cluster=False, cores=True, memory_cores=False),
    "sync_all_mpu": BarrierKind(within_cluster=False, cores=False, memory_cores=True),
    "sync_all_ipu_within_cluster": BarrierKind(within_cluster=True, cores=True, memory_cores=False),
}


class Barrier:
    """A barrier for a fixed number of tasks.

    Its latency, from the last arrival to the release, is the board's `cluster_barrier_ps` or `union_barrier_ps`.

    Args:
        chip: the chip.
        name: name of the instruction, one of `BARRIERS`.
        clusters: number of clusters of the union.
    """

    def __init__(self, chip: Chip, name: str, clusters: int) -> None:
        board, kind = chip.board, BARRIERS[name]
        self.name = name
        self.participants = (1 if kind.within_cluster else clusters) * (
            kind.cores * board.cores_per_cluster + kind.memory_cores
        )
        self._chip = chip
        self._latency_ps = board.cluster_barrier_ps if kind.within_cluster else board.union_barrier_ps
        self.waiting: list[tuple[Task, int]] = []
        self._arrivals_of: dict[int, int] = {}
        self._first = chip.barriers
        chip.barriers += _MAX_ROUNDS

    def number(self, task: Task) -> int:
        """Return the number in the log of the round that a task arrives at: its own rounds, counted."""
        arrivals = self._arrivals_of.get(task.index, 0)
        self._arrivals_of[task.index] = arrivals + 1
        return self._first + arrivals

    def arrive(self, task: Task, record: int) -> None:
        """Register the arrival of a task whose pipes are drained; it resumes when all tasks have arrived."""
        self.waiting.append((task, record))
        if len(self.waiting) < self.participants:
            return
        last_task, last_record = max(self.waiting, key=lambda entry: entry[0].now_ps)
        release_ps = last_task.now_ps + self._latency_ps
        arrived, self.waiting = self.waiting, []
        # Copies by a memory core that does not participate may still be joined (`mlusim.cores.copies.shared_copy`).
        if BARRIERS[self.name].memory_cores:
            for waiter, _ in arrived:
                waiter.unit.cluster.shared_copies.clear()
        records = self._chip.log.records
        for waiter, own_record in arrived:
            waiter.now_ps = release_ps
            waiter.waits_for = None
            records.set_end(own_record, release_ps)
            records.set_wait(own_record, last_record)
        environment = self._chip.environment

        def release(_: object) -> None:
            for waiter, _ in arrived:
                waiter.resume()

        environment.after(release_ps - environment.now, release)
