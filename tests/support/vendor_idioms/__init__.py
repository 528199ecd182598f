"""Kernels that are right, written as kernels of the vendor are: none of them may be blamed."""

from vendor_idioms import launches, layouts, pipelines, scratch
from vendor_idioms.registry import HOST_IDIOMS, IDIOMS

__all__ = ["HOST_IDIOMS", "IDIOMS", "launches", "layouts", "pipelines", "scratch"]
