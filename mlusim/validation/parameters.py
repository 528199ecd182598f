"""The fitted parameters: the boards that share each, its bounds, and the measurements behind it."""

from __future__ import annotations

from dataclasses import dataclass

from mlusim.hardware import Board


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One degree of freedom of the fit.

    Its value before calibration, the preset's documented estimate, is the prior: the starting point of the fit, and the
    value that the parameter keeps without informative measurements.

    Attributes:
        fields: fields of `Board` with this value.
        low, high: bounds of the value.
        step: rounding step of the value.
        prior_sigma: standard deviation of the value before calibration, relative to it.
        known_on: the board that the measurements refer to.
        families: families with this value; empty: all.
        measurements: names, or prefixes of names, of the measurements that determine it.
        why: short description of the mechanism.
    """

    fields: tuple[str, ...]
    low: float
    high: float
    step: float
    prior_sigma: float
    known_on: str
    families: tuple[str, ...] = ()
    measurements: tuple[str, ...]
    why: str

    def applies_to(self, board: Board) -> bool:
        """Return whether the parameter applies to a board."""
        return not self.families or board.family in self.families


PARAMETERS = (
    Parameter(
        fields=("dma_read_latency_ps", "dma_write_latency_ps"),
        low=150_000,
        high=1_200_000,
        step=5_000,
        prior_sigma=0.3,
        known_on="mlu590-h8",
        measurements=("rows", "copy-1.57MB", "copy-8.4MB", "matmul-blocks", "fill-one"),
        why="start-up of a load or a store that nothing overlaps",
    ),
    Parameter(
        fields=("vector_log_cycles",),
        low=8,
        high=32,
        step=1,
        prior_sigma=0.3,
        known_on="mlu590-h8",
        measurements=("rows", "log1p"),
        why="cycles of a logarithm for each 128 B",
    ),
    Parameter(
        fields=("vector_startup_cycles", "move_startup_cycles", "tensor_startup_cycles"),
        low=8,
        high=114,
        step=1,
        prior_sigma=0.6,
        known_on="mlu590-h8",
        measurements=("rows", "hardsigmoid-290-4"),
        why="fixed part of a vector instruction; also used for copies inside a core and for tensor instructions",
    ),
    Parameter(
        fields=("kernel_start_ps",),
        low=50_000,
        high=1_200_000,
        step=5_000,
        prior_sigma=0.3,
        known_on="mlu590-m9",
        measurements=("fill-one", "copy-1.57MB"),
        why="the time of the smallest kernel apart from its store",
    ),
    Parameter(
        fields=("cluster_start_ps",),
        low=0,
        high=400_000,
        step=5_000,
        prior_sigma=0.5,
        known_on="mlu590-m9",
        measurements=("copy-1.57MB", "copy-8.4MB", "copy-44.8MB", "rows"),
        why="a launch on twelve clusters against one on a single cluster",
    ),
    Parameter(
        fields=("dram_write_efficiency",),
        low=0.885,
        high=0.925,
        step=0.002,
        prior_sigma=0.03,
        known_on="mlu590-m9",
        families=("mlu590",),
        measurements=("expand",),
        why="the DRAM's rate for contiguous writes",
    ),
    Parameter(
        fields=("dram_mixed_efficiency",),
        low=0.6,
        high=1.0,
        step=0.002,
        prior_sigma=0.06,
        known_on="mlu590-m9",
        families=("mlu290", "mlu590"),
        measurements=("copy-44.8MB", "copy-fp32", "add", "concat", "transpose", "stream-add-590"),
        why="efficiency of the DRAM while reads and writes are mixed",
    ),
    Parameter(
        fields=("dram_mixed_efficiency",),
        low=0.6,
        high=1.0,
        step=0.002,
        prior_sigma=0.06,
        known_on="mlu370-x4",
        families=("mlu220", "mlu270", "mlu370"),
        measurements=("stream-copy-370", "stream-add-370", "matmul-pipe3-370x4", "matmul-sram-pipe5-370x4"),
        why="efficiency of the DRAM while reads and writes are mixed",
    ),
    Parameter(
        fields=("tensor_efficiency",),
        low=0.4,
        high=1.0,
        step=0.005,
        prior_sigma=0.15,
        known_on="mlu370-x8",
        measurements=("matmul-pipe3-370x8", "matmul-sram-pipe5-370x8", "matmul-blocks"),
        why="the fraction of its peak that a matmul reaches",
    ),
)
