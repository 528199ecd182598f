"""Fewer garbage collections while kernels run.

A simulation creates many small objects, and few of them are in reference cycles. Python's collector nevertheless walks
every object that is alive when `gc.get_threshold()` new ones exist: by default 700, which the pending effects of a few
hundred vector instructions exceed.
"""

from __future__ import annotations

import gc
from threading import Lock

# New objects between two collections while kernels run, about 10 MB of them.
_YOUNG_OBJECTS = 50_000


class FewerCollections:
    """A context that raises the collector's first threshold, unless it is off or already higher.

    Thresholds belong to the process, so all runs share one instance. Contexts may overlap in several threads: the last
    to exit restores the thresholds.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._runs = 0
        self._thresholds = gc.get_threshold()

    def __enter__(self) -> None:
        with self._lock:
            if not self._runs:
                self._thresholds = gc.get_threshold()
                if 0 < self._thresholds[0] < _YOUNG_OBJECTS:
                    gc.set_threshold(_YOUNG_OBJECTS, *self._thresholds[1:])
            self._runs += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._runs -= 1
            if not self._runs:
                gc.set_threshold(*self._thresholds)


fewer_collections = FewerCollections()
