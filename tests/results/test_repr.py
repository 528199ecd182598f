"""The `repr` of the records that users see: one line each."""

from __future__ import annotations

import numpy as np

import mlusim


def test_repr_of_a_record_is_one_line():
    result = mlusim.ops.cast(np.zeros(100, np.float32), dtype="int8")
    assert repr(result.board) == "<board mlu370-x4: 8 x 4 cores, DRAM 307.2 GB/s>"
    assert len(result.plan.tiles) == 1
    assert repr(result.plan) == f"<plan of cast on mlu370-x4: strategy {result.strategy}, tier 1, 1 tile>"
    assert repr(result.metrics).startswith(f"<metrics: {result.time_us:.2f} us, io_efficiency ")


def test_dir_lists_only_public_names():
    assert dir(mlusim) == sorted(mlusim.__all__)
