"""Fitted parameters. Written by `python -m mlusim.validation.calibrate`: not to be edited by hand."""

from mlusim.hardware.fitted import Fitted

FITTED: tuple[Fitted, ...] = (
    Fitted(
        "dma_read_latency_ps",
        980_000,
        (),
        "mlu590-m9",
        "rows-4KB-590h8, copy-1.57MB, copy-8.4MB, copy-44.8MB: start-up of a load that nothing hides",
    ),
    Fitted(
        "kernel_start_ps",
        635_000,
        (),
        "mlu590-m9",
        "fill-one: what the smallest kernel takes besides its store; a single source",
    ),
    Fitted(
        "dram_mixed_efficiency",
        0.908,
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
        "stream-copy-370, stream-add-370: what is left of the DRAM while reads and writes are mixed; a single "
        "source",
    ),
    Fitted(
        "core_read_bandwidth_bytes_per_s",
        32_700_000_000,
        ("mlu290",),
        "mlu290-m5",
        "hardsigmoid-290-4, hardsigmoid-290-32, hardsigmoid-290-64, hardsigmoid-290-64-big: requests in flight of "
        "one core over their latency; a single source",
    ),
    Fitted(
        "core_write_bandwidth_bytes_per_s",
        32_700_000_000,
        ("mlu290",),
        "mlu290-m5",
        "hardsigmoid-290-4, hardsigmoid-290-32, hardsigmoid-290-64, hardsigmoid-290-64-big: requests in flight of "
        "one core over their latency; a single source",
    ),
    Fitted(
        "dram_latency_growth",
        0.67,
        ("mlu290",),
        "mlu290-m5",
        "hardsigmoid-290-32, hardsigmoid-290-64, hardsigmoid-290-64-big: latency that grows with the load; a "
        "single source",
    ),
)

# Simulated time of each row in microseconds, by a fit to all the others.
LEFT_OUT_US: dict[str, float] = {
    "copy-8.4MB": 9.254,
    "copy-44.8MB": 41.781,
    "add-100MB": 138.344,
    "concat-16x8.4MB": 117.914,
    "copy-fp32-8192": 236.281,
    "transpose-44.8MB": 47.792,
    "rows-4KB-590h8": 139.430,
    "copy-1.57MB": 3.483,
    "stream-copy-370": 2102.138,
    "stream-add-370": 3066.071,
    "hardsigmoid-290-4": 18931.823,
    "hardsigmoid-290-32": 4222.093,
    "hardsigmoid-290-64": 3287.894,
    "hardsigmoid-290-64-big": 11364.657,
}
