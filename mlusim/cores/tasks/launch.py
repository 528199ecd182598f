"""Launches: BLOCK tasks in waves, UNIONn jobs on whole clusters, in-order queues.

BLOCK tasks run in waves: a wave uses every free core, and the next begins when the wave has ended. A UNIONn job
occupies n whole clusters, with their memory cores, as soon as they are free. Running tasks are never preempted.
Not modelled: host time (a launch costs about 6 us, docs/hardware.md), priorities of queues.
"""

from __future__ import annotations

import math
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

from mlusim.cores.core import Core, Kernel
from mlusim.cores.synchronisation.barrier import BARRIERS, Barrier
from mlusim.cores.tasks.launch_checks import check_launch, kernel_name
from mlusim.cores.tasks.task import Task
from mlusim.log import NONE
from mlusim.log_tables import LaunchRecord
from mlusim.memory.view import View

if TYPE_CHECKING:
    from mlusim.cores.machine.chip import Chip, Cluster
    from mlusim.cores.machine.unit import Unit


class Job:
    """The tasks that are placed together: one BLOCK task, or those of a union of clusters.

    Attributes:
        launch: its launch.
        clusters: the cluster of its task, or those of the union.
        tasks: its tasks.
        sram_buffers: by index of the cluster, the buffers in SRAM by name, which its tasks share.
    """

    def __init__(self, launch: Launch, clusters: list[Cluster]) -> None:
        self.launch = launch
        self.clusters = clusters
        self.tasks: list[Task] = []
        self.sram_buffers: dict[int, dict[str, View]] = {}
        self._remaining = 0
        self._barriers: dict[tuple[str, int], Barrier] = {}

    def barrier(self, name: str, cluster: Cluster) -> Barrier:
        """Return the barrier of this name for a unit of a cluster; it is created at its first use."""
        kind = BARRIERS[name]
        key = name, cluster.index if kind.within_cluster else NONE
        barrier = self._barriers.get(key)
        if barrier is None:
            barrier = self._barriers[key] = Barrier(self.launch.chip, name, len(self.clusters))
        return barrier

    def add(self, unit: Unit, task_id: tuple[int, int, int], delay_ps: int) -> None:
        """Assign a task to a unit, to begin after `delay_ps`."""
        launch = self.launch
        task = Task(launch.chip, self, unit, task_id)
        self.tasks.append(task)
        self._remaining += 1
        unit.task = task
        kernel = launch.kernel if not launch.chip.dry or task.linear_id in {0, launch.last} else _idle
        begin = partial(task.start, kernel, Core(task), launch.arguments, launch.settings)
        launch.chip.environment.after(delay_ps, lambda _: begin())

    def task_done(self, task: Task) -> None:
        """Called when a task has ended."""
        self._remaining -= 1
        if self._remaining == 0:
            for cluster in self.clusters:
                cluster.shared_copies.clear()
            for buffers in self.sram_buffers.values():
                for view in buffers.values():
                    task.chip.free(view.allocation, task.now_ps)
            self.tasks.clear()
            self.launch.job_done(self)


class WaitingJobs:
    """The grid positions still to be placed, x fastest. A grid may have 2^48 positions, so they are not stored.

    `width` is the number of tasks along x that are placed together.
    """

    def __init__(self, dim: tuple[int, int, int], width: int) -> None:
        self._width = width
        self._jobs = (dim[0] // width, dim[1], dim[2])
        self._remaining = math.prod(self._jobs)

    def __len__(self) -> int:
        return self._remaining

    def popleft(self) -> tuple[int, int, int]:
        """Remove and return the next position; its x is that of its first task."""
        x, y, z = self._jobs
        rows, i = divmod(x * y * z - self._remaining, x)
        self._remaining -= 1
        return i * self._width, rows % y, rows // y


class Launch:
    """One launch of a kernel: the function, its grid, and its progress.

    Attributes:
        chip, kernel, arguments, settings, dim, kind, queue: the launch; after its end without arguments.
        name: name of the kernel.
        union: n of UNIONn, or 0 for BLOCK.
        index: its index in `Log.launches`.
        waiting: the grid positions still to be placed.
        running: the jobs that have been placed and have not ended.
        done: whether it has ended; `Device.launch` returns the launch.

    Raises `LaunchError` if the launch does not fit on the board or the arguments do not match the kernel.
    """

    def __init__(
        self,
        chip: Chip,
        kernel: Kernel,
        arguments: tuple[Any, ...],
        settings: dict[str, Any],
        dim: tuple[int, int, int],
        kind: str,
        queue: Queue,
    ) -> None:
        self.chip = chip
        self.kernel = kernel
        self.arguments = arguments
        self.settings = settings
        self.dim = dim
        self.kind = kind
        self.queue = queue
        self.name = kernel_name(kernel)
        self.union = check_launch(chip, kernel, arguments, settings, dim, kind)
        self.index = len(chip.log.launches)
        self.done = False
        chip.log.launches.append(LaunchRecord(self.name, kind, dim, queue.index, -1))
        self.waiting = WaitingJobs(dim, self.union * chip.board.cores_per_cluster if self.union else 1)
        self.running: list[Job] = []
        self._waves = 0

    @property
    def last(self) -> int:
        """`taskId` of the last task."""
        return math.prod(self.dim) - 1

    def place(self) -> None:
        """Start all jobs that fit on the free units."""
        if self._waves == 0:
            self.chip.log.launches[self.index].start_ps = self.chip.environment.now
            # Not beside a launch of another queue, whose transfers would get other weights.
            if not any(queue.launches[0].running for queue in self.chip.queues if queue.launches):
                self.chip.dram.restart()
        if self.union:
            self._place_unions()
        elif not self.running:
            self._place_wave()

    def _delay_ps(self) -> int:
        return self.chip.board.wave_ps if self._waves else self.chip.board.kernel_start_ps

    def _cluster_delay_ps(self) -> int:
        """Delay between successive clusters: setting up each costs time; in later waves they are already set up."""
        return 0 if self._waves else self.chip.board.cluster_start_ps

    def _place_wave(self) -> None:
        skew = self.chip.board.core_start_skew_ps
        # Consecutive tasks are placed on different clusters, so that a small grid uses the ports of all clusters.
        free_cores = [
            (cluster, core)
            for core in range(self.chip.board.cores_per_cluster)
            for cluster in self.chip.clusters
            if cluster.is_free(core)
        ]
        delay = self._delay_ps()
        cluster_delay = self._cluster_delay_ps()
        clusters: dict[int, int] = {}
        for position, (cluster, core) in enumerate(free_cores):
            if not self.waiting:
                break
            job = Job(self, [cluster])
            self.running.append(job)
            nth = clusters.setdefault(cluster.index, len(clusters))
            job.add(cluster.core(core), self.waiting.popleft(), delay + nth * cluster_delay + position * skew)
        if self.running:
            self._waves += 1

    def _place_unions(self) -> None:
        skew = self.chip.board.core_start_skew_ps
        position = nth = 0
        delay = self._delay_ps()
        cluster_delay = self._cluster_delay_ps()
        cores = range(self.chip.board.cores_per_cluster)
        while self.waiting:
            free_clusters = [cluster for cluster in self.chip.clusters if all(map(cluster.is_free, cores))]
            if len(free_clusters) < self.union:
                break
            x, y, z = self.waiting.popleft()
            job = Job(self, free_clusters[: self.union])
            self.running.append(job)
            for cluster in job.clusters:
                cluster.union = job
                begins = delay + nth * cluster_delay
                nth += 1
                job.add(cluster.memory_core, (x, y, z), begins + position * skew)
                for core in cores:
                    job.add(cluster.core(core), (x, y, z), begins + position * skew)
                    x += 1
                    position += 1
        if self.running:
            self._waves += 1

    def job_done(self, job: Job) -> None:
        """Called when a job has ended: its units are free."""
        self.running.remove(job)
        if self.union:
            for cluster in job.clusters:
                cluster.union = None
        if not self.waiting and not self.running:
            self.chip.environment.after(self.chip.board.kernel_end_ps, self._end)
        self.chip.place_all()

    def _end(self, _: Any) -> None:
        self.done = True
        # A task that is kept by a traceback keeps its launch: drop the arrays of the tensors.
        self.arguments, self.settings = (), {}
        self.chip.log.launches[self.index].end_ps = self.chip.environment.now
        self.queue.launch_done(self)


async def _idle(*_: Any, **__: Any) -> None:
    """The kernel of the tasks that a dry run leaves out."""


class Queue:
    """Launches that run one after another. Different queues may overlap."""

    def __init__(self, chip: Chip, index: int) -> None:
        self.chip = chip
        self.index = index
        self.launches: deque[Launch] = deque()
        self._gap = False

    def submit(self, launch: Launch) -> None:
        """Append a launch."""
        self.launches.append(launch)

    def place(self) -> None:
        """Place the jobs of the first launch that fit."""
        if self.launches and not self._gap:
            self.launches[0].place()

    def launch_done(self, launch: Launch) -> None:
        """Called when the first launch has ended; the next begins after the gap between queued kernels."""
        assert self.launches[0] is launch
        self.launches.popleft()
        # Also applies to kernels not queued yet: host time is not modelled, so the gap is the minimum.
        self._gap = True
        self.chip.environment.after(self.chip.board.queued_kernel_gap_ps, self._after_gap)

    def _after_gap(self, _: Any) -> None:
        self._gap = False
        self.chip.place_all()
