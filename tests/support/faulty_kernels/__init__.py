"""Kernels with one fault each, and the kinds of findings that may report it."""

from faulty_kernels import barriers, bounds, launches, scalars, syncs, values
from faulty_kernels.registry import FAULTS, HOST_FAULTS

__all__ = ["FAULTS", "HOST_FAULTS", "barriers", "bounds", "launches", "scalars", "syncs", "values"]
