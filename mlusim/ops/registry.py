"""The records of all operators, by name."""

from __future__ import annotations

from mlusim.ops.bitcast_convert import BITCAST_CONVERT
from mlusim.ops.cast import CAST
from mlusim.ops.gather import GATHER, GATHER_ND
from mlusim.ops.operator import Operator
from mlusim.ops.reverse import FLIP, REVERSE, REVERSE_SEQUENCE
from mlusim.ops.scatter import SCATTER, SCATTER_ND
from mlusim.ops.tin_shift import BACKWARD, FORWARD

OPERATORS: dict[str, Operator] = {
    operator.name: operator
    for operator in (
        FORWARD,
        BACKWARD,
        FLIP,
        REVERSE,
        REVERSE_SEQUENCE,
        GATHER,
        GATHER_ND,
        SCATTER,
        SCATTER_ND,
        CAST,
        BITCAST_CONVERT,
    )
}
