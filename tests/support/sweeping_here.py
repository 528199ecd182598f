"""Sweeps in this process, and the inputs of their points."""

from __future__ import annotations

import mlusim
from mlusim.dtypes import dtype_of
from mlusim.host.random_tensors import RandomTensors
from mlusim.ops.commands import COMMANDS

X4 = mlusim.board("mlu370-x4")
SHAPE = (2, 4, 8, 49)


def here(operation, **axes):
    return mlusim.sweep(operation, workers=0, **axes)


def inputs(operator, shape, dtype="float32", *, seed=0, **options):
    """The random inputs that `mlusim run OPERATOR --shape` takes."""
    command = COMMANDS[operator]
    # Example inputs depend on no attribute that has to be given.
    given = {item.name: "int8" for item in command.attributes if item.required and item.kind == "dtype"}
    return command.example(RandomTensors(seed), shape, dtype_of(dtype), command.options(given | options))
