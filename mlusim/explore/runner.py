"""Execution of points: in this process, on all cores of this machine, or on a cluster through Dask.

Only as many points are submitted as keep the workers busy, so that little is lost if one dies. The pool does not report
which point caused a crash: pending points run again one by one, and the one whose process dies alone is the culprit.

Workers are loky's, which never import the main script, so that scripts need no `if __name__ == "__main__":`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Self

from loky import cpu_count

from mlusim.errors import InputError, MlusimError, shown
from mlusim.explore.point import STALE, Point, run_point
from mlusim.explore.store import DIED
from mlusim.processes import without_interrupts, worker_pool

Payload = dict[str, Any]
Answer = tuple[str, str, dict[str, Any], float]

_QUEUED_PER_WORKER = 2  # points submitted per worker, so that workers never wait for this process
_PER_CORE = 4  # more workers only cost memory, and thousands of processes can stall a machine
_DEAD = "the process that simulated it died: killed, perhaps for lack of memory, or crashed"


class Runner:
    """Runs points. Use it as a context manager: leaving it with an error stops its processes at once.

    Args:
        workers: processes on this machine; 0: this process; None: one per core.
        client: a `dask.distributed.Client` whose cluster runs the points instead.
    """

    def __init__(self, workers: int | None = None, client: Any = None) -> None:
        if client is not None and workers is not None:
            raise InputError("workers and client: points run on this machine or on the cluster; drop one of them")
        if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 0):
            raise InputError(f"workers={shown(workers)}: pass a number of processes, or 0 for this one")
        if client is not None and not hasattr(client, "get_executor"):
            raise InputError(f"client={shown(client)} is not a dask.distributed.Client")
        self._client = client
        if workers is not None and workers > _PER_CORE * cpu_count():
            raise InputError(
                f"workers={workers}: this machine has {cpu_count()} cores, and more than {_PER_CORE} processes "
                "per core are no faster"
            )
        self.workers = cpu_count() if workers is None else workers
        self._pool: Executor | None = None

    def run(self, points: Iterable[tuple[Any, Point]]) -> Iterator[tuple[Any, Answer]]:
        """Run points, each with a tag; yield tag and answer of each as it finishes.

        Raises `InputError` for a kernel that cannot go to another process, and `MlusimError` if none can be started.
        """
        if self._client is None and self.workers == 0:
            for tag, point in points:
                yield tag, run_point(point.payload())
            return
        remaining = ((tag, point.sendable()) for tag, point in points)
        while True:
            suspects: list[tuple[Any, Payload]] = []
            yield from self._run_until_death(remaining, suspects)
            if not suspects:
                return
            for tag, payload in suspects:
                yield tag, self._run_alone(payload)

    def _run_until_death(
        self, remaining: Iterator[tuple[Any, Payload]], suspects: list[tuple[Any, Payload]]
    ) -> Iterator[tuple[Any, Answer]]:
        """`run` until a process of the pool dies; the pending points are then the suspects."""
        pending: dict[Future[Answer], tuple[Any, Payload]] = {}
        try:
            while True:
                while len(pending) < self._max_in_flight() and (item := next(remaining, None)) is not None:
                    suspects.append(item)  # until the pool has taken it
                    # The pool is started with the first point, and not at all if every point is known.
                    future = self._executor().submit(run_point, item[1])
                    pending[future] = suspects.pop()
                if not pending:
                    return
                for future in wait(pending, return_when=FIRST_COMPLETED).done:
                    answer = self._answer(future)
                    tag, _ = pending.pop(future)
                    yield tag, answer
        except BrokenProcessPool:
            for future, item in pending.items():
                if future.done() and not future.cancelled() and future.exception() is None:
                    yield item[0], future.result()
                else:
                    suspects.append(item)
            self._stop()

    def _answer(self, future: Future[Answer]) -> Answer:
        try:
            answer = future.result()
        except BrokenProcessPool:
            raise
        except Exception as error:
            # Dask retries a point on another worker, and gives up on one that kills several.
            if self._client is not None and type(error).__name__ == "KilledWorker":
                return DIED, _DEAD, {}, 0.0
            raise MlusimError(f"the cluster gave up on a point: {type(error).__name__}: {error}") from error
        if answer[0] == STALE:
            raise MlusimError(
                "a worker runs a different mlusim than this process: install the same version everywhere, and restart "
                "if its source has changed"
            )
        return answer

    def _run_alone(self, payload: Payload) -> Answer:
        with worker_pool(1) as pool:
            try:
                with without_interrupts():
                    future = pool.submit(run_point, payload)
                answer: Answer = future.result()
            except BrokenProcessPool:
                return DIED, _DEAD, {}, 0.0
            return answer

    def _max_in_flight(self) -> int:
        workers = self.workers if self._client is None else sum(self._client.ncores().values())
        return _QUEUED_PER_WORKER * max(workers, 1)

    def _executor(self) -> Executor:
        if self._pool is None and self._client is not None:
            self._pool = self._client.get_executor(pure=False)
        elif self._pool is None:
            self._pool = worker_pool(self.workers)
            _check_starts(self._pool)
        return self._pool

    def _stop(self) -> None:
        """Stop the pool at once, discarding the work in progress."""
        pool, self._pool = self._pool, None
        if pool is None:
            return
        if self._client is not None:
            pool.shutdown(wait=False)
            return
        # Waits, so that the thread of the pool has released its semaphores before this process ends.
        pool.shutdown(kill_workers=True)  # type: ignore[call-arg]  # loky's

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._stop()
        elif self._pool is not None:
            self._pool.shutdown()
            self._pool = None


def _check_starts(pool: Executor) -> None:
    """Raise `MlusimError` if a pool cannot start its processes."""
    try:
        with without_interrupts():
            first = pool.submit(os.getpid)
        first.result()
    except BrokenProcessPool:
        raise MlusimError("no worker process can be started: pass workers=0 to run in this process") from None
