"""The DMA pipes of a core: IO (off-chip <-> on-chip) and Move (on-chip <-> on-chip).

A pipe processes transfers in program order, one at a time. The start-up of a transfer that was issued early overlaps
the previous transfer. The bytes are copied when the transfer completes.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.log import NONE
from mlusim.memory.copy_cost import CopyCost
from mlusim.memory.flow import WRITE, Flow
from mlusim.memory.link import Link

if TYPE_CHECKING:
    from mlusim.cores.machine.unit import Unit
    from mlusim.cores.tasks.task import Task


class Transfer(Flow):
    """One copy in a pipe, and a flow on its link while bytes are transferred.

    `effect` copies the bytes: a call, the arrays (to, from), or a result of `large_copy_effect`; None in a timing-only
    run. `task` issued it, and waits for it if `blocks` is true.
    """

    __slots__ = ("blocks", "effect", "issue_ps", "latency_ps", "pipe", "record", "task")

    def __init__(
        self, pipe: DmaPipe, task: Task, record: int, issue_ps: int, cost: CopyCost, effect: Any, blocks: int
    ) -> None:
        self.cost = cost
        self.port = pipe.write_port if cost.traffic == WRITE else pipe.read_port
        self.pipe = pipe
        self.task = task
        self.record = record
        self.issue_ps = issue_ps
        self.latency_ps = cost.latency_ps
        self.effect = effect
        self.blocks = blocks

    def complete(self, now: int) -> None:
        """Complete the transfer: copy its bytes, start the next transfer, and resume the waiting task."""
        pipe, task, record = self.pipe, self.task, self.record
        pipe.records.set_end(record, now)
        effect = self.effect
        if effect is not None:
            unit = task.unit
            if unit.effects:
                unit.apply_effects(now)
            if pipe.late:
                self._apply_in_late_mode()
            elif type(effect) is tuple and not unit.pending_writes:
                effect[0][...] = effect[1]
            elif unit.deferred is not None:
                unit.deferred.apply(effect)
            else:
                effect()
        engine = pipe.engine
        if engine.queue:
            following: Transfer = engine.queue.popleft()
            start_ps = following.issue_ps
            following.pipe.start(following, now if now > start_ps else start_ps, now, record)
        else:
            engine.busy = False
        task.transfer_done(self, now)

    def _apply_in_late_mode(self) -> None:
        """Copy the bytes of a blocking copy; leave those of another to the sync that orders it."""
        effect, pipe, unit = self.effect, self.pipe, self.task.unit
        call = partial(np.copyto, *effect) if type(effect) is tuple else effect
        if not self.blocks:
            unit.late_effects.append((pipe, call))
            return
        if unit.late_effects:
            # A pipe is in order: copies that wait for its sync act before those issued after it.
            unit.apply_late_copies(io=pipe is not unit.move, move=pipe is unit.move)
        call()


class Engine:
    """The engine of a pipe, which processes its transfers.

    Attributes:
        busy: whether a transfer is in progress.
        queue: the transfers that wait for it.
    """

    def __init__(self) -> None:
        self.busy = False
        self.queue: deque[Transfer] = deque()


class DmaPipe:
    """An in-order queue of transfers of one unit.

    Args:
        unit: the core or memory core that it belongs to.
        link: the shared link that its transfers join; transfers without work (moves inside a core) take only their
            latency.
        read_port, write_port: indices of the cluster's ports among `Link.ports`.
    """

    def __init__(self, unit: Unit, link: Link, read_port: int, write_port: int) -> None:
        self.link = link
        self.read_port = link.ports[read_port]
        self.write_port = link.ports[write_port]
        self.engine = Engine()
        self.log = unit.chip.log
        self.records = unit.chip.log.records
        self.late = unit.chip.late
        self._environment = unit.chip.environment
        self._schedule: Any = unit.chip.environment.schedule

    def submit(self, transfer: Transfer, waited_for: int = NONE) -> None:
        """Submit a transfer; it begins when the previous ones are complete.

        If there are none, `waited_for` is the record that it has waited for.
        """
        task = transfer.task
        if self is task.unit.move:
            task.pending_move += 1
        else:
            task.pending_io += 1
        engine = self.engine
        if engine.busy:
            engine.queue.append(transfer)
        else:
            engine.busy = True
            self.start(transfer, transfer.issue_ps, self._environment.now, waited_for)

    def submit_after_wait(self, transfer: Transfer) -> None:
        """Submit a blocking transfer after all earlier instructions of its core have completed."""
        task = transfer.task
        transfer.issue_ps = task.now_ps
        self.submit(transfer, task.waited_for)

    def start(self, transfer: Transfer, start_ps: int, now: int, waited_for: int) -> None:
        """Begin a transfer at `start_ps`, with the part of its start-up that the previous transfer did not hide."""
        if transfer.cost.work:
            ready_ps = transfer.issue_ps + transfer.latency_ps
            if ready_ps < start_ps:
                ready_ps = start_ps
        else:
            # A move inside a core consists of latency only, and overlaps nothing.
            ready_ps = start_ps + transfer.latency_ps
        self.records.set_start(transfer.record, start_ps, ready_ps - start_ps, waited_for)
        if transfer.cost.work:
            self.link.join(transfer, ready_ps, now)
        elif ready_ps != now:
            transfer.callbacks = _WHEN_READY
            self._schedule(transfer, 1, ready_ps - now)
        else:
            transfer.complete(now)


def _ready(transfer: Transfer) -> None:
    transfer.complete(transfer.task.chip.environment.now)


_WHEN_READY = (_ready,)
