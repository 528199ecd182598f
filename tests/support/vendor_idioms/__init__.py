"""Correct kernels in the style of the vendor's: none of them may have an error."""

from vendor_idioms import launches, layouts, pipelines, scratch
from vendor_idioms.registry import HOST_IDIOMS, IDIOMS

__all__ = ["HOST_IDIOMS", "IDIOMS", "launches", "layouts", "pipelines", "scratch"]
