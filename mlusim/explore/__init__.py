"""Exploration by many simulations: `sweep` over combinations of shapes, boards and strategies, `tune` for the fastest.

Every point is an ordinary single run. matplotlib, pandas, pyarrow and dask are imported only by the calls that need
them.
"""

from __future__ import annotations

from mlusim.explore.sweeping import Sweep, SweepInterrupt, read_sweep, sweep
from mlusim.explore.tuning import Tuning, tune

__all__ = ["Sweep", "SweepInterrupt", "Tuning", "read_sweep", "sweep", "tune"]
