"""BANG C: run an unmodified `.mlu` file on a simulated board.

module = mlusim.bangc.compile("kernel.mlu", "mlu370-x4")
device.launch(module["name"], x, out, 8)
"""

from mlusim.bangc.module import Module, compile  # noqa: A004 - mlusim.bangc.compile, as users read it

__all__ = ["Module", "compile"]
