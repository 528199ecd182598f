"""`Device`: a simulated board with memory, launches, queues and a log.

What a host program does:

    device = Device("mlu370-x4")
    x = device.upload(array)
    out = device.alloc(array.shape, array.dtype, "out")
    device.launch(kernel, x, out, dim=(4, 8, 1), kind="UNION1")
    device.synchronize()
    device.download(out)
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self
from weakref import finalize, ref

from simpy.core import EmptySchedule

from mlusim.arrays import Array
from mlusim.cores.core import Kernel
from mlusim.cores.machine.chip import Chip
from mlusim.cores.tasks.launch import Job, Launch, Queue
from mlusim.cores.tasks.launch_checks import as_grid, clusters_of, kernel_name
from mlusim.cores.tasks.source_line import hide_internals
from mlusim.cores.tasks.unawaited import close_forgotten, watch_discarded
from mlusim.dtypes import dtype_of
from mlusim.errors import NOTED, InputError, LaunchError, MlusimError, shown
from mlusim.hardware import DEFAULT_BOARD, Board, board
from mlusim.host.argument_windows import note_windows
from mlusim.host.device_memory import CLOSED, DeviceMemory
from mlusim.host.garbage import fewer_collections
from mlusim.host.kernel_keywords import check_own_names
from mlusim.host.run_end import check_deadlock, check_time
from mlusim.host.stall_errors import line_of_the_host
from mlusim.host.watchdog import Watchdog
from mlusim.inputs import as_count, as_path, as_text, check_choice, check_flags, check_operations, check_seconds
from mlusim.verifier.check_by_default import note_device

if TYPE_CHECKING:
    import os

    from mlusim.results.result import Result
    from mlusim.verifier.findings import Finding
    from mlusim.verifier.report import Report

DEFAULT_MAX_OPERATIONS = 5_000_000
DEFAULT_STALL_S = 20.0


class Device(DeviceMemory):
    """A board with its memories, clock and log.

    Args:
        device: a preset's name, a TOML file, or a `Board`.
        data: False for a timing-only run: memories have sizes but no bytes.
        dma: "complete": an asynchronous copy takes effect when it completes, one of the outcomes possible on the board;
            "late": when a sync orders it, which exposes missing syncs.
        max_operations: limit on the operations issued by one task; beyond it, the task counts as endless.
        stall_s: limit on the host time, in seconds, in which a task issues no operation.
        progress: show a progress bar for runs longer than a second or two.
        log_folder: folder for a scratch file that holds the records (88 B per operation) instead of memory, for runs of
            millions of operations. It is removed when the process ends.
        dry: only the first and the last task of each launch issue their operations, and no time passes; for
            `mlusim.host.steady`.

    Not modelled: the host link (uploads and downloads take no simulated time) and the host time of a launch.

    Raises `BoardError` for an unknown board, `InputError` for any other invalid argument.
    """

    def __init__(
        self,
        device: str | Path | Board = DEFAULT_BOARD,
        *,
        data: bool = True,
        dma: str = "complete",
        max_operations: int = DEFAULT_MAX_OPERATIONS,
        stall_s: float = DEFAULT_STALL_S,
        progress: bool = False,
        log_folder: str | Path | None = None,
        dry: bool = False,
    ) -> None:
        check_flags(data=data, progress=progress, dry=dry)
        max_operations = as_count("max_operations", max_operations)
        check_seconds("stall_s", stall_s)
        check_choice("dma", dma, ("complete", "late"))
        target = board(device)
        if log_folder is not None and not as_path(log_folder).is_dir():
            raise InputError(f"log_folder={str(log_folder)!r} is not a folder: make it, or name an existing one")
        is_late = dma == "late"
        data, dry = bool(data), bool(dry)  # compiled code takes no booleans of NumPy
        chip = Chip(target, data=data, late=is_late, max_operations=max_operations, log_folder=log_folder, dry=dry)
        super().__init__(chip)
        self._watchdog = Watchdog(self._chip, stall_s=stall_s, progress=progress)
        self._default_queue: Queue | None = None
        self._launches: list[Launch] = []
        self._error_text = ""
        self._error: BaseException | None = None
        # Findings on values passed through Python objects; None unless requested.
        self._host_data: list[Finding] | None = None
        if note_device(self):
            self.watch_host_data()
        # A chip and its parts form reference cycles. No one can run a chip without its device, so its parts are dropped
        # and its bytes freed with the device, long before the garbage collector would: the next device then reuses the
        # memory. The reference is weak because the chip of a failed run refers to its error, whose traceback refers to
        # the device.
        finalize(self, _release, ref(self._chip)).atexit = False

    def __repr__(self) -> str:
        queue_text = f", {self._queued[-1].name} is queued" if self._queued else ""
        count = len(self.log.launches)
        return f"<device {self.board.name}: {count} launch{'es' * (count != 1)}{queue_text}>"

    @property
    def stopped(self) -> str:
        """The error that ended the run, as text; empty if there was none."""
        return self._error_text

    def queue(self) -> Queue:
        """Create an in-order queue; different queues may overlap."""
        return self._chip.queue()

    def launch(
        self,
        kernel: Kernel,
        *arguments: Any,
        dim: tuple[int, ...] | int | None = None,
        kind: str = "UNION1",
        queue: Queue | None = None,
        **settings: Any,
    ) -> Launch:
        """Queue a kernel; it runs at `synchronize`.

        Args:
            kernel: an `async def` function whose first parameter is its `Core`.
            arguments: its other arguments: views of this device, and anything else that it accepts.
            dim: the grid (x, y, z), whose last axes may be omitted; by default one task per core of the board: with
                UNIONn, as many unions as the clusters hold, so that UNION4 on 8 clusters has two unions, and
                `sync_all` is a barrier of one of them.
            kind: BLOCK, or UNIONn, which requires dim.x to be a multiple of the cores of n clusters.
            queue: by default the device's own queue.
            settings: keyword arguments of the kernel.

        Raises `LaunchError` if the board cannot run it, or the arguments do not match the kernel; `InputError` for a
        keyword of a launch that is also a parameter of the kernel, and for a device that is closed or stopped.
        """
        self._check_idle(
            LaunchError("launch inside a kernel: only the host launches kernels; call the other kernel with `await`")
        )
        self.check_can_run()
        check_own_names(kernel, len(arguments), {"dim": dim, "kind": kind, "queue": queue}, Device.launch)
        clusters_of(kind, kernel_name(kernel))
        grid = self.default_dim(kind) if dim is None else as_grid(dim)
        if queue is not None and getattr(queue, "chip", None) is not self._chip:
            problem = (
                "the queue belongs to another device" if isinstance(queue, Queue) else f"{shown(queue)} is not a queue"
            )
            raise LaunchError(f"{problem}: make one with this device's queue()")
        if queue is None:
            if self._default_queue is None:
                self._default_queue = self._chip.queue()
            queue = self._default_queue
        launch = Launch(self._chip, kernel, arguments, settings, grid, kind, queue)
        note_windows((*arguments, *settings.values()), self.log)
        self.log.launches[launch.index].launched_at = line_of_the_host()
        queue.submit(launch)
        self._launches.append(launch)
        self._queued.append(launch)
        return launch

    def default_dim(self, kind: str) -> tuple[int, int, int]:
        """Return the default grid of a task type: one task per core, in as many unions as the board holds.

        Raises `LaunchError` for an unknown task type.
        """
        union = clusters_of(kind)
        if not union:
            return (self.board.cores, 1, 1)
        return (union * self.board.cores_per_cluster, max(self.board.clusters // union, 1), 1)

    def synchronize(self) -> None:
        """Run until all queues are empty.

        Raises any exception of a kernel, `HangError` for a deadlock, and `AwaitError` for a coroutine that was never
        awaited. The device is unusable after an error.
        """
        self._check_idle(
            InputError("synchronize inside a kernel: it is the host's; within a kernel use the syncs of its core")
        )
        self.check_can_run()
        if NOTED.get() is not None:
            # A kernel that runs itself on a new device would recurse without end.
            raise LaunchError(
                "a run inside a kernel: only the host runs kernels; call the other kernel with `await`, or run it "
                "first and pass its result"
            )
        comparison: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
        if self._host_data is not None:
            from mlusim.host.host_data import compared

            comparison = compared(self._queued, self._host_data)
        self._running = True
        try:
            with comparison:
                self._run()
        except MlusimError as error:
            hide_internals(error)
            raise
        finally:
            self._running = False
        self._queued = []
        self.log.host.waits.append(len(self.log.launches))

    def _run(self) -> None:
        self._chip.noted.clear()
        watch_discarded()
        token = NOTED.set(self._chip.note)
        try:
            with self._watchdog, fewer_collections:
                self._simulate()
        except BaseException as error:
            self._broken = type(error).__name__
            self._error_text = f"{self._broken}: {error}"
            self._error = error
            self._close_tasks()
            close_forgotten(error)
            raise
        finally:
            NOTED.reset(token)

    def _simulate(self) -> None:
        """Run all events. Raises the errors of kernels, `HangError`, and `SimulatedTimeError`."""
        environment, observer = self._chip.environment, self._chip.observer
        step = environment.step
        self._chip.place_all()
        try:
            if observer is not None:
                observer.run(self._chip, step)
            while True:
                step()
        except EmptySchedule:
            pass
        finally:
            # Also after an error: the time may have exceeded what a record can hold.
            check_time(self.board, environment.now)
        check_deadlock(task for job in self._jobs() for task in job.tasks)

    def buffers_at(self, time_ps: int) -> dict[int, Array]:
        """Run queued launches up to a time and return the contents of all on-chip buffers, by allocation.

        For `Result.memory_at`: the device cannot be used afterwards. Errors of kernels before that time end the run
        silently.
        """
        time_ps = as_count("buffers_at: time_ps", time_ps, minimum=0)
        environment = self._chip.environment
        self._chip.place_all()
        with contextlib.suppress(EmptySchedule, MlusimError):
            while environment.peek() <= time_ps:
                environment.step()
        arrays = {}
        for unit in self._chip.units():
            unit.update_memory(time_ps)
        for memory in self._chip.on_chip():
            for allocation in memory.live:
                record = self.log.allocations[allocation.identity]
                if allocation.buffer is not None:
                    array = allocation.buffer.view(dtype_of(record.dtype)).reshape(record.shape)
                    arrays[allocation.identity] = array.copy()
        self._close_tasks()
        self.close()
        return arrays

    def __reduce__(self) -> NoReturn:
        """Refuse copies by `pickle` and `copy`."""
        raise TypeError("a Device cannot be copied or pickled: create one in each process; its result() can be pickled")

    def __enter__(self) -> Self:
        """Return the device; leaving the `with` block closes it."""
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the bytes of all memories, so that the next device can reuse them; the log stays.

        The device can no longer run anything, and its tensors are freed. Raises `InputError` while it runs.
        """
        self._check_idle(InputError("close inside a kernel: the host closes a device, after its runs"))
        self._chip.close()
        self._broken = CLOSED

    def watch_host_data(self) -> None:
        """Detect values that kernels pass through Python objects, from the next `synchronize` on. For `verify`.

        Off by default, as it compares the objects reachable from each kernel before and after a run.
        """
        if self._host_data is None:
            self._host_data = []

    @property
    def host_data(self) -> tuple[Finding, ...]:
        """The findings of `watch_host_data`, one per object."""
        return tuple(self._host_data or ())

    def verify(
        self,
        *,
        name: str = "",
        rewrites: bool | tuple[str, ...] = (),
        partial: bool | tuple[str, ...] = (),
        left: bool = False,
    ) -> Report:
        """Verify everything that has run so far (see `mlusim.verifier`); `report.check()` raises if there are errors.

        Args:
            name: name in the report; by default the names of the kernels.
            rewrites: names of outputs that one launch may write more than once; True for all.
            partial: names of outputs of which a part may stay unwritten; True for all.
            left: report allocations that were not freed.

        An error that ended a run is reported as a finding. Values that kernels pass through Python objects are found if
        `watch_host_data` was called before they ran.
        """
        from mlusim.verifier.check import check_log, check_names

        self._check_ran("verify")
        check_names(rewrites=rewrites, partial=partial)
        check_flags(left=left)
        name = as_text("name", name)
        return check_log(
            self.log,
            self.board,
            name=name,
            rewrites=rewrites,
            partial=partial,
            left=left,
            stopped=self._error,
            found=self.host_data,
        )

    def result(self, name: str = "", *, theory_ops: int | None = None) -> Result:
        """Return all that has run so far as a result, without plan and output: figures, lower bound, source lines.

        Args:
            name: name in reports; by default the names of the kernels.
            theory_ops: operations that the computation requires, for compute_efficiency; 0 for pure data movement.
                If not given, the compute efficiency is unknown.

        Later runs extend the same log: call this again for figures that include them. Raises `InputError` while
        launches are pending.
        """
        from mlusim.results.result import Result

        self._check_ran("result")
        names = dict.fromkeys(launch.kernel for launch in self.log.launches)
        return Result(
            operator=as_text("name", name) or ", ".join(names) or "nothing",
            output=None,
            board=self.board,
            plan=None,
            log=self.log,
            theory_ops=check_operations(theory_ops),
            stopped=self._error_text,
        )

    def save(self, path: str | os.PathLike[str], name: str = "", *, theory_ops: int | None = None) -> Path:
        """Write everything that has run so far to a file for `mlusim.load`, also after an error. See `Result.save`."""
        return self.result(name, theory_ops=theory_ops).save(path)

    def _jobs(self) -> Iterator[Job]:
        for launch in self._launches:
            yield from launch.running

    def _close_tasks(self) -> None:
        for job in self._jobs():
            for task in job.tasks:
                task.close()


def _release(chip: ref[Chip]) -> None:
    """Free the resources of a chip, unless the garbage collector does."""
    alive = chip()
    if alive is not None:
        alive.release()
