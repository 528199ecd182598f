"""A task: one coroutine of a kernel on one unit, driven by SimPy events.

Only this driver runs kernel code. It catches the kernel's exceptions at their source, rejects foreign awaitables, and
records what the task waits for.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from mlusim.cores.machine.pipe import Transfer
from mlusim.cores.scratch import Scratch
from mlusim.cores.synchronisation.ordering import ALL_PIPES
from mlusim.cores.tasks.kernel_errors import (
    Abandoned,
    foreign_awaitable,
    forgotten_await,
    location,
    reported,
    returned_value,
    too_many_operations,
)
from mlusim.cores.tasks.source_line import kernel_line, open_loop_state
from mlusim.cores.tasks.unawaited import close_task, never_awaited, unstarted
from mlusim.cores.tasks.waiting import SUSPEND
from mlusim.errors import AwaitError, KernelError
from mlusim.log import IO, MOVE, NONE, VECTOR
from mlusim.log_tables import TaskRecord
from mlusim.source_code import line_of

if TYPE_CHECKING:
    from mlusim.cores.issuer import Issuer
    from mlusim.cores.machine.chip import Chip
    from mlusim.cores.machine.unit import Unit
    from mlusim.cores.synchronisation.barrier import Barrier
    from mlusim.cores.tasks.launch import Job


class Task:
    """One task of a launch.

    Attributes:
        chip, job, unit: the chip, the job that it belongs to, and the unit that runs it.
        task_id: its position (x, y, z) in the grid.
        index: its index in `Log.tasks`; NONE before it starts.
        issuer: issues its instructions while it runs, else None.
        now_ps: its own time. It runs ahead of the board's while the task only issues; the two synchronise whenever the
            task waits for something that other tasks can delay.
        operations: number of operations issued.
        pending_io, pending_move: number of its transfers on the IO and the Move pipe that have not ended.
        finished: whether it has ended.
        waits_for: the barrier or lock operation that it is in: what, the line's number in the log, and since when; or
            None.
        waited_for: the record that ended its last wait for pipes.
        scratches: the memories that it has allocated from.
        refused: the error that ends it, once it has been raised in the kernel.
        unawaited: the record of a blocking operation that the kernel has called, until its wait is over; else NONE.
        awaited: the record of the latest operation for which the kernel suspended.
    """

    def __init__(self, chip: Chip, job: Job, unit: Unit, task_id: tuple[int, int, int]) -> None:
        self.chip = chip
        self.job = job
        self.unit = unit
        self.task_id = task_id
        self.index = NONE
        self.now_ps = 0
        self.operations = 0
        self.pending_io = 0
        self.pending_move = 0
        self.finished = False
        self.waits_for: tuple[str, int, int] | None = None
        # Whether the current wait is that of a blocking copy, which does not wait for posted stores.
        self._starts_copy = False
        self.waited_for = NONE
        self.issuer: Issuer | None = None
        self.scratches: list[Scratch] = []
        self._coroutine: Coroutine[Any, None, None] | None = None
        self._frame: Any = None
        self._loop_state: tuple[Any, ...] | None = None
        self.refused: KernelError | None = None
        self._sync_mask = 0
        self._sync_record = NONE
        self._when_drained: Callable[[], None] | None = None
        self.unawaited = NONE
        self.awaited = NONE

    @property
    def linear_id(self) -> int:
        """`taskId`: (z * dim.y + y) * dim.x + x."""
        x, y, z = self.task_id
        dim = self.job.launch.dim
        return (z * dim[1] + y) * dim[0] + x

    @property
    def name(self) -> str:
        """The name of the task in messages: `task 3 (cluster 0, core 3)`."""
        role = "memory core of" if self.unit.is_memory_core else f"task {self.linear_id}"
        if self.unit.is_memory_core:
            return f"{role} cluster {self.unit.cluster.index}"
        return f"{role} (cluster {self.unit.cluster.index}, {self.unit.name})"

    def loops_without_progress(self) -> bool:
        """Return whether the kernel, which is running, is in a loop that may never end, such as `while`.

        The numbers by which the loop decides have not changed since the last call.
        """
        state = () if self._frame is None else open_loop_state(self._frame)
        previous, self._loop_state = self._loop_state, state
        return state is not None and (not state or state == previous)

    def start(
        self,
        kernel: Callable[..., Coroutine[Any, None, None]],
        core: Any,
        arguments: tuple[Any, ...],
        settings: dict[str, Any],
    ) -> None:
        """Begin now."""
        self.now_ps = self.chip.environment.now
        record = TaskRecord(
            self.job.launch.index,
            self.linear_id,
            self.unit.cluster.index,
            self.unit.core_id,
            self.unit.is_memory_core,
            self.now_ps,
        )
        self.index = len(self.chip.log.tasks)
        self.chip.log.tasks.append(record)
        self.unit.task = self
        self.unit.vector_free_ps = self.unit.compute_copied_ps = self.now_ps
        self.issuer = core.issuer
        self._coroutine = kernel(core, *arguments, **settings)
        # A reference to the frame keeps its variables after the kernel returns.
        self._frame = getattr(self._coroutine, "cr_frame", None)
        self.resume()

    def resume(self, _: Any = None) -> None:
        """Run the kernel until its next wait."""
        coroutine = self._coroutine
        assert coroutine is not None
        self.chip.running = self
        self.unawaited = NONE
        try:
            waits = coroutine.send(None)
        except StopIteration as end:
            if self.chip.noted:
                self._log_swallowed()
            self._returned(end.value)
            return
        except BaseException as error:
            report = self.dropped() or reported(self, error)
            if report is error:
                raise
            raise report  # noqa: B904 - `reported` sets the cause
        if self.chip.noted:
            self._log_swallowed()
        if waits is not SUSPEND:
            raise foreign_awaitable(self, coroutine, waits)

    def _log_swallowed(self) -> None:
        """Log the errors that the kernel has caught since it was resumed; raise that of a coroutine it has dropped."""
        dropped_error = self.dropped()
        if dropped_error is not None:
            raise dropped_error
        noted, self.chip.noted[:] = list(self.chip.noted), []
        causes = {id(error.__context__) for error in noted}
        for error in noted:
            # Report an error that was raised again as another only once.
            if id(error) not in causes and error.__traceback__ is not None and error is not self.refused:
                source = kernel_line(error, self.file)
                self.chip.log.swallowed.append((error.message, location(self, source, self.now_ps), *source))

    def dropped(self) -> AwaitError | None:
        """Return the error about the first coroutine that the kernel has dropped since it was resumed, if any."""
        for error in self.chip.noted:
            if isinstance(error, AwaitError) and error.dropped:
                return error
        return None

    def until(self, time_ps: int) -> bool:
        """Advance to `time_ps`; returns true if the kernel must suspend, to be resumed at that time."""
        self.now_ps = time_ps
        delay = time_ps - self.chip.environment.now
        if delay <= 0 or (self.issuer is not None and self.issuer.dry):
            return False
        self.chip.environment.after(delay, self.resume)
        return True

    def transfer_done(self, transfer: Transfer, now: int) -> None:
        """Called when a transfer of this task is complete."""
        if transfer.pipe is self.unit.move:
            pending = self.pending_move = self.pending_move - 1
        else:
            pending = self.pending_io = self.pending_io - 1
        if transfer.blocks:
            if now > self.now_ps:
                self.now_ps = now
            self.resume()
        elif self._when_drained is not None and not (pending or self._busy()):
            self._drained(transfer.record, now)

    def drain(self, mask: int, record: int, then: Callable[[], None]) -> bool:
        """Wait for the pipes of `mask` (bits of `log.PIPES`); returns false if they are already free, as of `now_ps`.

        Otherwise `then` is called when they are. `record` is the sync's, to be completed.
        """
        self._sync_mask = mask
        self._sync_record = record
        if self._busy():
            self._when_drained = then
            return True
        self._end_wait(NONE)
        return False

    def when_idle(self, begin: Callable[[], None]) -> None:
        """Call `begin` as soon as all pipes of the core are free, posted stores aside: now, or at an event."""
        if self.is_idle():
            self.waited_for = NONE
            begin()
            return
        self._starts_copy = True
        if not self.drain(ALL_PIPES, NONE, begin):
            begin()

    def is_idle(self) -> bool:
        """Return whether all pipes of the core are free as of `now_ps`, and their effects applied to memory."""
        unit, now = self.unit, self.now_ps
        return not (self.pending_io or self.pending_move or unit.vector_free_ps > now or unit.late_effects)

    def is_drained(self) -> bool:
        """Return whether a sync of any pipes has no effect: all pipes are free and stores are complete."""
        unit, now = self.unit, self.now_ps
        return self.is_idle() and unit.compute_copied_ps <= now and unit.stored_ps <= now

    def _busy(self) -> bool:
        mask = self._sync_mask
        return (self.pending_io > 0 and mask >> IO & 1 == 1) or (self.pending_move > 0 and mask >> MOVE & 1 == 1)

    def _drained(self, last_record: int, now: int) -> None:
        then, self._when_drained = self._when_drained, None
        self.now_ps = max(self.now_ps, now)
        self._end_wait(last_record)
        assert then is not None
        then()

    def _end_wait(self, waited_for: int) -> None:
        """Called when the pipes of a sync are free: advance the task's time, complete the record, apply late copies."""
        unit, mask = self.unit, self._sync_mask
        if mask >> VECTOR & 1 and unit.vector_free_ps > self.now_ps:
            self.now_ps = unit.vector_free_ps
            waited_for = unit.vector_record
        if mask >> MOVE & 1 and unit.compute_copied_ps > self.now_ps:
            self.now_ps = unit.compute_copied_ps
            waited_for = unit.compute_copy_record
        if mask == ALL_PIPES and not self._starts_copy and unit.stored_ps > self.now_ps:
            self.now_ps = unit.stored_ps
            waited_for = NONE
        self.waited_for = waited_for
        self._starts_copy = False
        if self._sync_record != NONE:
            records = self.chip.log.records
            records.set_end(self._sync_record, self.now_ps)
            records.set_wait(self._sync_record, waited_for)
        if unit.late_effects:
            # The vector pipe's effects up to now precede those of these copies.
            unit.apply_effects(self.now_ps)
            unit.apply_late_copies(io=bool(mask >> IO & 1), move=bool(mask >> MOVE & 1))

    def _returned(self, value: object) -> None:
        """Called when the kernel's function has returned; the task ends when its pipes are idle."""
        if self.refused is not None:
            raise self.refused
        if self.unawaited != NONE:
            raise self.refusal()
        frame, self._frame = self._frame, None
        coroutines = unstarted(frame)
        for coroutine in coroutines:
            coroutine.close()
        if coroutines:
            raise never_awaited(coroutines[0].__name__, frame.f_code.co_filename, line_of(frame))
        if value is not None:
            raise returned_value(self, value, ("", 0) if frame is None else (frame.f_code.co_filename, line_of(frame)))
        if not self.drain(ALL_PIPES, NONE, self._end):
            self._end()

    def _end(self) -> None:
        if self.now_ps > self.chip.environment.now:
            self.chip.environment.after(self.now_ps - self.chip.environment.now, self._finish)
        else:
            self._finish()

    def _finish(self, _: Any = None) -> None:
        self.unit.apply_effects(self.now_ps)
        # The contents of NRAM cannot be read after the task.
        if self.unit.deferred is not None:
            self.unit.deferred.clear()
        for scratch in self.scratches:
            scratch.release()
        self.scratches.clear()
        self.finished = True
        if self.issuer is not None:
            # A kernel that kept the core and uses it later gets an error.
            self.issuer.next_check = NONE
            self.issuer = None
        self.unit.task = None
        self.chip.log.tasks[self.index].end_ps = self.now_ps
        self.job.task_done(self)

    def close(self) -> None:
        """Close the kernel's coroutine after an error elsewhere."""
        if self._coroutine is not None and not self.finished:
            close_task(self._coroutine)

    def refusal(self, because: KernelError | None = None) -> BaseException:
        """Return the error that ends the task: `because`, or an operation not awaited, or too many operations.

        A kernel that catches it and continues is then stopped by an exception that `except Exception` does not catch.
        """
        if self.refused is not None:
            return Abandoned()
        self.refused = because or (too_many_operations(self) if self.unawaited == NONE else forgotten_await(self))
        return self.refused

    def arrive_at(self, barrier: Barrier, record: int) -> None:
        """Arrive at a barrier when the board's time reaches the task's."""
        delay = self.now_ps - self.chip.environment.now
        if delay > 0:
            self.chip.environment.after(delay, lambda _: barrier.arrive(self, record))
        else:
            barrier.arrive(self, record)

    @property
    def file(self) -> str:
        """The file of the kernel."""
        return str(getattr(getattr(self._coroutine, "cr_code", None), "co_filename", ""))
