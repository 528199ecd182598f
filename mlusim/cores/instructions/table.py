"""All instructions by name. docs/architecture.md has the steps to add one."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from mlusim.cores.instructions.conversion import CONVERSION
from mlusim.cores.instructions.elementwise import ARITHMETIC, COMPARISON, LOGIC
from mlusim.cores.instructions.functions import ACTIVATIONS, FUNCTIONS, FUSED, SERIES
from mlusim.cores.instructions.int4 import INT4
from mlusim.cores.instructions.library_functions import LIBRARY
from mlusim.cores.instructions.movement import FILLS, LAYOUT
from mlusim.cores.instructions.pooling import POOLS
from mlusim.cores.instructions.reduction import REDUCTIONS
from mlusim.cores.instructions.selection import SELECTION
from mlusim.cores.instructions.tensor import EXPANSION, TENSOR

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mlusim.cores.instructions.record import Instruction

_ALL: list[Instruction] = [
    *ARITHMETIC,
    *FUSED,
    *COMPARISON,
    *LOGIC,
    *FUNCTIONS,
    *ACTIVATIONS,
    *SERIES,
    *LIBRARY,
    *CONVERSION,
    *INT4,
    *REDUCTIONS,
    *SELECTION,
    *LAYOUT,
    *FILLS,
    *POOLS,
    *EXPANSION,
    *TENSOR,
]

INSTRUCTIONS: Mapping[str, Instruction] = MappingProxyType({entry.name: entry for entry in _ALL})
BY_INTRINSIC: Mapping[str, Instruction] = MappingProxyType(
    {spelling: entry for entry in reversed(_ALL) for spelling in entry.intrinsics}
)

assert len(INSTRUCTIONS) == len(_ALL), "two instructions of one name"
