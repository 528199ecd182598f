"""The operators as functions: arrays in; a result with output, plan, log and figures out.

The operators, each with its schema:
  bitcast_convert, cast    other types: the same bytes, or the same values
  gather, scatter          gather and gather_nd; scatter and scatter_nd; `indices`: checks of their arguments
  index_select             slices along one axis
  reverse                  reverse, flip and reverse_sequence
  tin_shift                forward and backward

What all have in common:
  operator, schema         what a schema is, and everything that follows from it; its tensors and attributes
  shared_arguments, axes   arguments that several operators have; axes that count from the end
  call                     the options of a run, and the run; `on_device`: on a device that holds the tensors
  argument_errors          errors of calls with a misspelt, missing or additional argument
  registry, commands       the operators by name, and as commands
  sensitivity              how the time of a run depends on assumed parameters
"""

from __future__ import annotations

from mlusim.ops.bitcast_convert import bitcast_convert
from mlusim.ops.cast import cast
from mlusim.ops.gather import gather, gather_nd
from mlusim.ops.index_select import index_select
from mlusim.ops.reverse import flip, reverse, reverse_sequence
from mlusim.ops.scatter import scatter, scatter_nd
from mlusim.ops.tin_shift import tin_shift_backward, tin_shift_forward

# The operator's name on the command line and in `mlusim.plan`.
tin_shift = tin_shift_forward

__all__ = [
    "bitcast_convert",
    "cast",
    "flip",
    "gather",
    "gather_nd",
    "index_select",
    "reverse",
    "reverse_sequence",
    "scatter",
    "scatter_nd",
    "tin_shift",
    "tin_shift_backward",
    "tin_shift_forward",
]


def __getattr__(name: str) -> object:
    planned = name.removeprefix("plan_")
    if planned != name:
        hint = f"; mlusim.plan({planned!r}, ...) plans an operator from the shapes of its tensors"
    else:
        from mlusim.spelling import nearest

        hint = f": {nearest(name, __all__)}".rstrip(": ")
    raise AttributeError(f"module 'mlusim.ops' has no attribute {name!r}{hint}")
