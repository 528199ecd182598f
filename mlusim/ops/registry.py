"""All operators by name."""

from __future__ import annotations

from mlusim.errors import InputError, shown
from mlusim.ops.bitcast_convert import BITCAST_CONVERT
from mlusim.ops.cast import CAST
from mlusim.ops.gather import GATHER, GATHER_ND
from mlusim.ops.index_select import INDEX_SELECT
from mlusim.ops.operator import Operator
from mlusim.ops.reverse import FLIP, REVERSE, REVERSE_SEQUENCE
from mlusim.ops.scatter import SCATTER, SCATTER_ND
from mlusim.ops.tin_shift import BACKWARD, FORWARD
from mlusim.spelling import choose_one

_OPERATORS = (
    *(BITCAST_CONVERT, CAST, GATHER, GATHER_ND, INDEX_SELECT, REVERSE, FLIP, REVERSE_SEQUENCE),
    *(SCATTER, SCATTER_ND, FORWARD, BACKWARD),
)

OPERATORS: dict[str, Operator] = {operator.name: operator for operator in _OPERATORS}
# Also by the names of their commands: tin_shift is the forward operator.
BY_NAME = OPERATORS | {
    operator.command: operator for operator in OPERATORS.values() if operator.command and not operator.variant
}


def operator_of(name: str) -> Operator:
    """Return an operator by its name or that of its command. Raises `InputError`."""
    if not isinstance(name, str) or name not in BY_NAME:
        raise InputError(f"no operator {shown(name)}; {choose_one(name, BY_NAME)}")
    return BY_NAME[name]
