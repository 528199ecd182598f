"""Fitted parameters. Written by `python -m mlusim.validation.calibrate`: not to be edited by hand."""

from mlusim.hardware.fitted import Fitted

FITTED: tuple[Fitted, ...] = (
    Fitted(
        "dma_read_latency_ps",
        985_000,
        (),
        "mlu590-m9",
        "rows-4KB-590h8, copy-1.57MB, copy-8.4MB, copy-44.8MB: start-up of a load that nothing hides",
    ),
    Fitted(
        "kernel_start_ps",
        785_000,
        (),
        "mlu590-m9",
        "fill-one: what the smallest kernel takes besides its store; a single source",
    ),
    Fitted(
        "dram_mixed_efficiency",
        0.894,
        ("mlu590",),
        "mlu590-m9",
        "copy-44.8MB, copy-fp32-8192, add-100MB, concat-16x8.4MB: what is left of the DRAM while reads and writes "
        "are mixed",
    ),
    Fitted(
        "dram_mixed_efficiency",
        0.926,
        ("mlu220", "mlu270", "mlu370"),
        "mlu370-x4",
        "stream-copy-370, stream-add-370: what is left of the DRAM while reads and writes are mixed; a single source",
    ),
    Fitted(
        "core_read_bandwidth_bytes_per_s",
        33_400_000_000,
        ("mlu290",),
        "mlu290-m5",
        "hardsigmoid-290-4, hardsigmoid-290-32, hardsigmoid-290-64, hardsigmoid-290-64-big: requests in flight of "
        "one core over their latency; a single source",
    ),
    Fitted(
        "core_write_bandwidth_bytes_per_s",
        33_400_000_000,
        ("mlu290",),
        "mlu290-m5",
        "hardsigmoid-290-4, hardsigmoid-290-32, hardsigmoid-290-64, hardsigmoid-290-64-big: requests in flight of "
        "one core over their latency; a single source",
    ),
    Fitted(
        "dram_latency_growth",
        0.71,
        ("mlu290",),
        "mlu290-m5",
        "hardsigmoid-290-32, hardsigmoid-290-64, hardsigmoid-290-64-big: latency that grows with the load; a "
        "single source",
    ),
)

# Simulated time of each row in microseconds, by a fit to all the others.
LEFT_OUT_US: dict[str, float] = {
    "copy-8.4MB": 9.310,
    "copy-44.8MB": 41.869,
    "add-100MB": 136.468,
    "concat-16x8.4MB": 118.950,
    "copy-fp32-8192": 239.403,
    "transpose-44.8MB": 46.973,
    "rows-4KB-590h8": 141.730,
    "copy-1.57MB": 3.497,
    "stream-copy-370": 2098.229,
    "stream-add-370": 3072.812,
    "hardsigmoid-290-4": 18890.853,
    "hardsigmoid-290-32": 4219.803,
    "hardsigmoid-290-64": 3301.537,
    "hardsigmoid-290-64-big": 11422.310,
}
