"""Fewer garbage collections while kernels run.

A simulation creates many small objects, and few of them are in reference cycles. Python's collector nevertheless walks
every object that is alive when `gc.get_threshold()` new ones exist: by default 700, which the pending effects of a few
hundred vector instructions exceed.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

# New objects between two collections while kernels run, about 10 MB of them.
_YOUNG_OBJECTS = 50_000

_lock = Lock()
# Number of runs in progress, in all threads, and the thresholds before the first of these.
_runs = 0
_before = gc.get_threshold()


@contextmanager
def fewer_collections() -> Iterator[None]:
    """Raise the collector's first threshold within the context, unless it is off or already higher.

    Thresholds belong to the process. Contexts may overlap in several threads: the last to exit restores the thresholds.
    """
    global _runs, _before  # noqa: PLW0603 - a property of the process
    with _lock:
        if not _runs:
            _before = gc.get_threshold()
            if 0 < _before[0] < _YOUNG_OBJECTS:
                gc.set_threshold(_YOUNG_OBJECTS, *_before[1:])
        _runs += 1
    try:
        yield
    finally:
        with _lock:
            _runs -= 1
            if not _runs:
                gc.set_threshold(*_before)
