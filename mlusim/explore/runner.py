"""Execution of points: in this process, on all cores of this machine, or on a cluster through Dask.

No more points are handed out than keep the workers busy, so that little is lost when one dies. Which point it died of
nobody says: those that were out run again one by one, and the one whose process dies alone is to blame.

Workers are loky's: they never load the main script, so that a script needs no `if __name__ == "__main__":`.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from loky.process_executor import ProcessPoolExecutor

from mlusim.errors import InputError, MlusimError
from mlusim.explore.point import STALE, run_point
from mlusim.explore.store import DIED

Payload = dict[str, Any]
Answer = tuple[str, str, dict[str, Any], float]

_AHEAD = 2  # points handed out for each worker, so that none waits for this process
_MOST_FOR_A_CORE = 4  # workers beyond that only cost memory, and thousands of processes can stop a machine
_FOLLOW_S = 0.2  # how soon a worker ends after its parent
_DEAD = "the process that simulated it died: killed, perhaps for want of memory, or crashed"


def core_count() -> int:
    """Cores of this machine that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # only Linux has it
        return os.cpu_count() or 1


class Runner:
    """Runs points. Use it as a context manager: leaving it by an error stops its processes at once.

    Args:
        workers: processes on this machine; 0: this process; None: one for each core.
        client: a `dask.distributed.Client`; then its cluster runs the points.
    """

    def __init__(self, workers: int | None = None, client: Any = None) -> None:
        if client is not None and workers is not None:
            raise InputError("workers and client: points run on this machine or on the cluster; leave one of them off")
        if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 0):
            raise InputError(f"workers={workers!r}: a number of processes, or 0 for this one")
        if client is not None and not hasattr(client, "get_executor"):
            raise InputError(f"client={client!r} is not a dask.distributed.Client")
        self._client = client
        if workers is not None and workers > _MOST_FOR_A_CORE * core_count():
            raise InputError(
                f"workers={workers}: this machine has {core_count()} cores, and more than {_MOST_FOR_A_CORE} processes "
                "for a core bring nothing"
            )
        self.workers = core_count() if workers is None else workers
        self._pool: Executor | None = None

    @property
    def local(self) -> bool:
        """Whether points run in this very process."""
        return self._client is None and self.workers == 0

    def run(self, payloads: Iterable[tuple[Any, Payload]]) -> Iterator[tuple[Any, Answer]]:
        """Run payloads of `Point.payload`, each with a tag; gives tag and answer of each as it finishes.

        Raises `MlusimError` where no process can be started.
        """
        if self.local:
            for tag, payload in payloads:
                yield tag, run_point(payload)
            return
        left = iter(payloads)
        while True:
            suspects: list[tuple[Any, Payload]] = []
            yield from self._run_until_death(left, suspects)
            if not suspects:
                return
            for tag, payload in suspects:
                yield tag, self._run_alone(payload)

    def _run_until_death(
        self, left: Iterator[tuple[Any, Payload]], suspects: list[tuple[Any, Payload]]
    ) -> Iterator[tuple[Any, Answer]]:
        """As `run`, until a process of the pool dies; what was out then are the suspects."""
        out: dict[Future[Answer], tuple[Any, Payload]] = {}
        exhausted = False
        while True:
            try:
                while not exhausted and len(out) < self._room():
                    item = next(left, None)
                    if item is None:
                        exhausted = True
                        break
                    try:
                        # Started with the first point: where all are there already, none is.
                        out[self._executor().submit(run_point, item[1])] = item
                    except BrokenProcessPool:
                        suspects.append(item)
                        raise
                if not out:
                    return
                for future in wait(out, return_when=FIRST_COMPLETED).done:
                    answer = self._answer(future)
                    tag, _ = out.pop(future)
                    yield tag, answer
            except BrokenProcessPool:
                for future, item in out.items():
                    if future.done() and not future.cancelled() and future.exception() is None:
                        yield item[0], future.result()
                    else:
                        suspects.append(item)
                self._stop()
                return

    def _answer(self, future: Future[Answer]) -> Answer:
        try:
            answer = future.result()
        except BrokenProcessPool:
            raise
        except Exception as error:
            # Dask tries a point again on another worker, and gives up on one that kills several.
            if self._client is not None and type(error).__name__ == "KilledWorker":
                return DIED, _DEAD, {}, 0.0
            raise MlusimError(f"the cluster gave a point up: {type(error).__name__}: {error}") from error
        if answer[0] == STALE:
            raise MlusimError(
                "a worker has another mlusim than this process: install the same everywhere, and where its source "
                "changed meanwhile, start again"
            )
        return answer

    def _run_alone(self, payload: Payload) -> Answer:
        with _pool(1) as pool:
            try:
                with _without_interrupts():
                    alone = pool.submit(run_point, payload)
                answer: Answer = alone.result()
            except BrokenProcessPool:
                return DIED, _DEAD, {}, 0.0
            return answer

    def _room(self) -> int:
        workers = self.workers if self._client is None else sum(self._client.ncores().values())
        return _AHEAD * max(workers, 1)

    def _executor(self) -> Executor:
        if self._pool is None:
            if self._client is not None:
                self._pool = self._client.get_executor(pure=False)
            else:
                self._pool = pool = _pool(self.workers)
                try:
                    with _without_interrupts():
                        first = pool.submit(core_count)
                    first.result()
                except BrokenProcessPool:
                    raise MlusimError(
                        "no worker process can be started: pass workers=0 to run in this process"
                    ) from None
        return self._pool

    def _stop(self) -> None:
        """End the pool now: what its processes are at is lost."""
        pool, self._pool = self._pool, None
        if pool is None:
            return
        if self._client is not None:
            pool.shutdown(wait=False)
            return
        pool.shutdown(wait=False, kill_workers=True)  # type: ignore[call-arg]  # loky's

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            self._stop()
        elif self._pool is not None:
            self._pool.shutdown()
            self._pool = None


def _pool(workers: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(workers, initializer=_begin, initargs=(os.getpid(),))


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """While workers start: they inherit it, so that Ctrl-C is this process's alone from their first instruction on."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread may change what signals do
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _begin(parent: int) -> None:
    """In a worker: leave Ctrl-C to the parent, and do not outlive it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(os, "getppid"):
        threading.Thread(target=_follow, args=(parent,), name="mlusim-follow", daemon=True).start()


def _follow(parent: int, leave: Callable[[int], Any] = os._exit) -> None:
    while os.getppid() == parent:
        time.sleep(_FOLLOW_S)
    leave(1)
