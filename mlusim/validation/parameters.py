"""The parameters that are fitted: on which boards, to which measurements, and within what bounds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One degree of freedom of the fit.

    Attributes:
        fields: fields of `Board` that take its value.
        first: where the fit begins.
        low, high: its bounds.
        step: what the value is rounded to.
        known_on: the board that the measurements speak of.
        families: families that take the value; empty: all.
        rests_on: names of the measurements that determine it.
        why: the mechanism, in a few words.
    """

    fields: tuple[str, ...]
    first: float
    low: float
    high: float
    step: float
    known_on: str
    families: tuple[str, ...]
    rests_on: tuple[str, ...]
    why: str

    @property
    def single_source(self) -> bool:
        """Whether one source alone speaks for it."""
        return len({name.partition("-")[0] for name in self.rests_on}) == 1


@dataclass(frozen=True, slots=True)
class Group:
    """Parameters that are fitted together, and the boards whose measurements decide them."""

    boards: tuple[str, ...]
    parameters: tuple[Parameter, ...]


_COPIES = ("copy-1.57MB", "copy-8.4MB", "copy-44.8MB")

# In this order: what the first group says of all boards holds when the others are fitted.
GROUPS = (
    Group(
        ("mlu590-m9", "mlu590-h8"),
        (
            Parameter(
                fields=("dma_read_latency_ps",),
                first=900_000,
                low=200_000,
                high=2_000_000,
                step=5_000,
                known_on="mlu590-m9",
                families=(),
                rests_on=("rows-4KB-590h8", *_COPIES),
                why="start-up of a load that nothing hides",
            ),
            Parameter(
                fields=("kernel_start_ps",),
                first=700_000,
                low=50_000,
                high=1_200_000,
                step=5_000,
                known_on="mlu590-m9",
                families=(),
                rests_on=("fill-one",),
                why="what the smallest kernel takes besides its store",
            ),
            Parameter(
                fields=("dram_mixed_efficiency",),
                first=0.9,
                low=0.6,
                high=1.0,
                step=0.002,
                known_on="mlu590-m9",
                families=("mlu590",),
                rests_on=("copy-44.8MB", "copy-fp32-8192", "add-100MB", "concat-16x8.4MB"),
                why="what is left of the DRAM while reads and writes are mixed",
            ),
        ),
    ),
    Group(
        ("mlu370-x4",),
        (
            Parameter(
                fields=("dram_mixed_efficiency",),
                first=0.94,
                low=0.6,
                high=1.0,
                step=0.002,
                known_on="mlu370-x4",
                families=("mlu220", "mlu270", "mlu370"),
                rests_on=("stream-copy-370", "stream-add-370"),
                why="what is left of the DRAM while reads and writes are mixed",
            ),
        ),
    ),
    Group(
        ("mlu290",),
        (
            Parameter(
                fields=("core_read_bandwidth_bytes_per_s", "core_write_bandwidth_bytes_per_s"),
                first=32e9,
                low=20e9,
                high=64e9,
                step=1e8,
                known_on="mlu290-m5",
                families=("mlu290",),
                rests_on=("hardsigmoid-290-4", "hardsigmoid-290-32", "hardsigmoid-290-64", "hardsigmoid-290-64-big"),
                why="requests in flight of one core over their latency",
            ),
            Parameter(
                fields=("dram_latency_growth",),
                first=0.6,
                low=0.02,
                high=3.0,
                step=0.01,
                known_on="mlu290-m5",
                families=("mlu290",),
                rests_on=("hardsigmoid-290-32", "hardsigmoid-290-64", "hardsigmoid-290-64-big"),
                why="latency that grows with the load",
            ),
        ),
    ),
)
