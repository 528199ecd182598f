"""Jobs: the tasks that are placed on the chip together, and can wait for each other."""

from __future__ import annotations

from mlusim.log import Log


def job_of(log: Log, task: int) -> tuple[int, ...]:
    """Return the job of a task: its launch, and its union's position in the grid, or the task itself for BLOCK."""
    record = log.tasks[task]
    launch = log.launches[record.launch]
    if launch.kind == "BLOCK":
        return record.launch, task
    cores = 1 + max(other.core for other in log.tasks if other.launch == record.launch and not other.is_memory_core)
    row, x = divmod(record.task_id, launch.dim[0])
    return record.launch, row, x // (int(launch.kind[5:]) * cores)
