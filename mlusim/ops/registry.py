"""All operators by name."""

from __future__ import annotations

from mlusim.errors import InputError, nearest
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
        BITCAST_CONVERT,
        CAST,
        GATHER,
        GATHER_ND,
        REVERSE,
        FLIP,
        REVERSE_SEQUENCE,
        SCATTER,
        SCATTER_ND,
        FORWARD,
        BACKWARD,
    )
}


def operator_of(name: str) -> Operator:
    """The operator of that name. Raises `InputError`."""
    if name not in OPERATORS:
        raise InputError(f"no operator {name!r:.200}; {nearest(str(name), OPERATORS)}there are {', '.join(OPERATORS)}")
    return OPERATORS[name]
