"""The tables of a log: tasks, launches, allocations, boxes of operands, loops, remarks, skipped parts, the host."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from mlusim.units import ranges


# Assigned to by `Log` alone, but not frozen: a frozen record takes three times as long to make, and one that has ended
# would be a copy.
@dataclass(slots=True)
class TaskRecord:
    """One task: its core and its times. `end_ps` is -1 while the task runs."""

    launch: int
    task_id: int
    cluster: int
    core: int
    is_memory_core: bool
    start_ps: int
    end_ps: int = -1


def task_names(tasks: Iterable[TaskRecord]) -> str:
    """Name tasks by their numbers: `memory core of cluster 0 and tasks 0 to 3, 7`."""
    tasks = list(tasks)
    clusters = sorted({task.cluster for task in tasks if task.is_memory_core})
    numbers = sorted({task.task_id for task in tasks if not task.is_memory_core})
    parts = [("memory core of cluster", "memory cores of clusters", clusters), ("task", "tasks", numbers)]
    return " and ".join(
        f"{singular if len(ids) == 1 else plural_form} {ranges(ids)}" for singular, plural_form, ids in parts if ids
    )


@dataclass(slots=True)
class LaunchRecord:
    """One kernel launch. Times are picoseconds of simulated time, -1 until reached.

    `launched_at` is the line of the host program that launched it, such as `main.py:31`.
    """

    kernel: str
    kind: str
    dim: tuple[int, int, int]
    queue: int
    start_ps: int
    end_ps: int = -1
    launched_at: str = ""


@dataclass(slots=True)
class AllocationRecord:
    """One allocation: address, size, task (-1: the host), and lifetime (`end_ps` -1: until the end of the run).

    `workspace` marks host memory that is neither input nor output; launches leave data there for later launches.
    """

    memory: str
    memory_name: str
    name: str
    address: int
    nbytes: int
    task: int
    start_ps: int
    dtype: str
    shape: tuple[int, ...]
    read_only: bool
    end_ps: int = -1
    workspace: bool = False


@dataclass(slots=True)
class HostRecord:
    """What the host did with the device's memory, and when it waited. Bytes of an allocation are pairs (first, end).

    Attributes:
        waits: the number of launches so far, at each time the host waited for all of them.
        unordered: pairs of launches that a host program has not ordered, though the simulator waited between them.
        writes: allocations, other than inputs, that the host has written.
        written_parts: of those that a host program has written by CNRT, the bytes written.
        reads: allocations that a host program has copied back by CNRT.
        read_parts: by allocation, the bytes that a BANG C program has copied back, or that were downloaded.
        copied_back: the same in order: the number of launches so far, the allocation, the first byte, and the end.
    """

    waits: list[int] = field(default_factory=list)
    unordered: set[tuple[int, int]] = field(default_factory=set)
    writes: set[int] = field(default_factory=set)
    written_parts: dict[int, set[tuple[int, int]]] = field(default_factory=dict)
    reads: set[int] = field(default_factory=set)
    read_parts: dict[int, set[tuple[int, int]]] = field(default_factory=dict)
    copied_back: list[tuple[int, int, int, int]] = field(default_factory=list)


# Never assigned to, but not frozen: a frozen one takes three times as long to make.
@dataclass(slots=True)
class LoopRecord:
    """The parameters of a counted loop, other than its operands: enough to time the loop on another board.

    `method` is `blocking`, `queued`, `runs` or `instruction` (of `mlusim.memory.loop_costs.rows_cost`), `scalar` for a
    loop over elements, or `empty` for a loop without rows to copy. `loads`, `operations` and `additions` count the
    scalar instructions that compute the addresses of one iteration, `extra_cycles` any other work. `iterations`,
    `selected` and `unread` are those of `mlusim.cores.counted.row_loop.RowLoop`.
    """

    method: str
    iterations: int
    selected: int
    loads: int
    operations: int
    additions: int
    extra_cycles: int
    unread: bool


@dataclass(frozen=True, slots=True)
class SkippedRecord:
    """A part of a run that repeats earlier operations and was not simulated (`mlusim.host.steady`).

    The times of its operations are extrapolated; `bound_ps` bounds the error of its duration.
    """

    start_ps: int
    end_ps: int
    operations: int
    bound_ps: int


@dataclass(frozen=True, slots=True)
class Remark:
    """An observation made while an operation ran that its record does not show: `kind` and `title` of a finding.

    `line` is an index into `Log.lines`, `at_ps` the time of issue, `times` the number of equal observations there.
    """

    kind: str
    title: str
    operation: str
    task: int
    line: int
    at_ps: int
    times: int = 1


@dataclass(frozen=True, slots=True)
class Box:
    """Shape, strides in bytes and item size of an operand."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int
