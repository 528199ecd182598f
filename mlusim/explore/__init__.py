"""Many simulations: `sweep` over all combinations of shapes, boards and strategies, `tune` for the fastest.

Sits on the operators and their entries in the command line; what it runs are single, ordinary runs. matplotlib,
pandas, pyarrow and dask are imported where a call needs them.
"""

from __future__ import annotations

from mlusim.explore.sweeping import Sweep, SweepInterrupt, read_sweep, sweep
from mlusim.explore.tuning import Tuning, tune

__all__ = ["Sweep", "SweepInterrupt", "Tuning", "read_sweep", "sweep", "tune"]
