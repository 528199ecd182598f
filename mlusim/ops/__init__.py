"""The operators as functions: arrays in; a result with output, plan, log and figures out."""

from __future__ import annotations

from mlusim.ops.bitcast_convert import bitcast_convert, plan_bitcast_convert
from mlusim.ops.cast import cast, plan_cast
from mlusim.ops.gather import gather, gather_nd, plan_gather, plan_gather_nd
from mlusim.ops.index_select import index_select
from mlusim.ops.reverse import flip, plan_reverse, plan_reverse_sequence, reverse, reverse_sequence
from mlusim.ops.scatter import plan_scatter, plan_scatter_nd, scatter, scatter_nd
from mlusim.ops.tin_shift import plan_tin_shift, tin_shift_backward, tin_shift_forward

__all__ = [
    "bitcast_convert",
    "cast",
    "flip",
    "gather",
    "gather_nd",
    "index_select",
    "plan_bitcast_convert",
    "plan_cast",
    "plan_gather",
    "plan_gather_nd",
    "plan_reverse",
    "plan_reverse_sequence",
    "plan_scatter",
    "plan_scatter_nd",
    "plan_tin_shift",
    "reverse",
    "reverse_sequence",
    "scatter",
    "scatter_nd",
    "tin_shift_backward",
    "tin_shift_forward",
]
