"""out = a + b in BANG C. The kernel is in the `.mlu` file of the same name: edit that one."""

from pathlib import Path

import mlusim

kernel = mlusim.bangc.compile(Path(__file__).with_suffix(".mlu"))["kernel"]
