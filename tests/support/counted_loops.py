"""Helpers shared by the tests of row copies."""

from __future__ import annotations

from mlusim.hardware import board

X4, H8, S4 = (board(name).replace(dram_mixing_ps=0) for name in ("mlu370-x4", "mlu590-h8", "mlu270-s4"))
PLACE = r"^task 0 \(cluster 0, core 0\), test_\w+\.py:\d+, at [\d .]+ ns: "
