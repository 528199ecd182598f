"""Fitted parameters. Written by `python -m mlusim.validation.calibrate`: not to be edited by hand."""

from mlusim.hardware.fitted import Fitted

FITTED: tuple[Fitted, ...] = (
    Fitted(
        "dma_read_latency_ps",
        840_000,
        (),
        "mlu590-m9",
        "rows-4KB-590h8, copy-1.57MB, copy-8.4MB, copy-44.8MB: start-up of a load that nothing hides",
    ),
    Fitted(
        "dma_write_latency_ps",
        460_000,
        (),
        "mlu590-m9",
        "copy-1.57MB, copy-8.4MB, copy-44.8MB, concat-16x8.4MB, fill-one: start-up of a store that nothing hides",
    ),
    Fitted(
        "kernel_start_ps",
        535_000,
        (),
        "mlu590-m9",
        "fill-one: what the smallest kernel takes besides its store; a single source",
    ),
    Fitted(
        "dram_mixed_efficiency",
        0.88,
        ("mlu590",),
        "mlu590-m9",
        "copy-44.8MB, copy-fp32-8192, add-100MB, concat-16x8.4MB: what is left of the DRAM while reads and writes "
        "are mixed",
    ),
    Fitted(
        "dram_mixed_efficiency",
        0.914,
        ("mlu220", "mlu270", "mlu370"),
        "mlu370-x4",
        "stream-copy-370, stream-add-370: what is left of the DRAM while reads and writes are mixed; a single "
        "source",
    ),
    Fitted(
        "core_read_bandwidth_bytes_per_s",
        32_800_000_000,
        ("mlu290",),
        "mlu290-m5",
        "hardsigmoid-290-4, hardsigmoid-290-32, hardsigmoid-290-64, hardsigmoid-290-64-big: requests in flight of "
        "one core over their latency; a single source",
    ),
    Fitted(
        "core_write_bandwidth_bytes_per_s",
        32_800_000_000,
        ("mlu290",),
        "mlu290-m5",
        "hardsigmoid-290-4, hardsigmoid-290-32, hardsigmoid-290-64, hardsigmoid-290-64-big: requests in flight of "
        "one core over their latency; a single source",
    ),
    Fitted(
        "dram_latency_growth",
        0.68,
        ("mlu290",),
        "mlu290-m5",
        "hardsigmoid-290-32, hardsigmoid-290-64, hardsigmoid-290-64-big: latency that grows with the load; a "
        "single source",
    ),
)

# Simulated time of each row in microseconds, by a fit to all the others.
LEFT_OUT_US: dict[str, float] = {
    "copy-8.4MB": 9.185,
    "copy-44.8MB": 40.548,
    "add-100MB": 137.688,
    "concat-16x8.4MB": 117.004,
    "copy-fp32-8192": 236.565,
    "transpose-44.8MB": 46.963,
    "rows-4KB-590h8": 75.376,
    "copy-1.57MB": 4.457,
    "stream-copy-370": 2081.528,
    "stream-add-370": 3027.213,
    "hardsigmoid-290-4": 18946.454,
    "hardsigmoid-290-32": 4218.237,
    "hardsigmoid-290-64": 3290.525,
    "hardsigmoid-290-64-big": 11380.417,
}
