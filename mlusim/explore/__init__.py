"""Exploration by many simulations: `sweep` over combinations of shapes, boards and strategies, `tune` for the fastest.

Every point is an ordinary single run. matplotlib, pandas, pyarrow and dask are imported only by the calls that need
them.

Sweeps:
  sweeping, table          `mlusim.sweep`, and its table as a file; `table_cells`: as text
  axis_arguments           the axes given by the arguments of `sweep`; `axis_values`: lists, ranges and units;
                           `setting_values`: those of a setting, of the type of its default
  axes, point              all combinations; one of them, its key and its run; `point_figures`: what its row shows
  model_hash               the part of a key that stands for mlusim
  runner, store            processes or a cluster; finished points in an SQLite file
  tuning, tuning_search    `mlusim.tune`, and the plans that it tries; `point_commands`: how to run the best one

Kernels of the user:
  user_kernels             their parameters, and how they reach other processes; `fingerprint`: a digest of a function
  python_files             functions named as `file.py:function`
  kernel_call              a kernel with its arguments

Comparison of runs:
  compare, diff            strategies on one input; two runs by cause and line
  explanation              where the time of a run went; `suggestions`: what to try
"""

from __future__ import annotations

from mlusim.explore.sweeping import Sweep, SweepInterrupt, read_sweep, sweep
from mlusim.explore.tuning import Tuning, tune

__all__ = ["Sweep", "SweepInterrupt", "Tuning", "read_sweep", "sweep", "tune"]
