"""The frozen record that defines an instruction. A new instruction is one more record in a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from mlusim.cores.instructions.cost import Cost, stream
from mlusim.dtypes import (
    ALL,
    BFLOAT16,
    FLOAT16,
    FLOAT32,
    INT8,
    INT16,
    INT32,
    INT64,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    Dtype,
)

Shape: TypeAlias = tuple[int, ...]
# Element types that an operand may have, each with the first `__BANG_ARCH__` that supports it.
Types: TypeAlias = Mapping[Dtype, int]

SERIES_2XX = 200
SERIES_3XX = 300
ARCH_322 = 322

_INTEGERS = dict.fromkeys((INT8, INT16, INT32, UINT8, UINT16, UINT32), SERIES_2XX)
_WIDE_INTEGERS = dict.fromkeys((INT64, UINT64), SERIES_2XX)

FLOATS: Types = {FLOAT16: SERIES_2XX, FLOAT32: SERIES_2XX, BFLOAT16: SERIES_3XX}
INTEGERS: Types = {**_INTEGERS, **_WIDE_INTEGERS}
# Public headers list only floats for arithmetic; the vendor's kernels use integers on later toolkits. ASSUMED: all
# architectures support them, at the cost of floats.
NUMBERS: Types = {**FLOATS, **INTEGERS}
ANY: Types = dict.fromkeys(ALL, SERIES_2XX)


class Overlap(Enum):
    """The overlap allowed between the result and a source."""

    SAME = "the result may begin where a source does; otherwise they are apart"
    PIXEL = "the result may begin where a source does, or, of one pixel, at any pixel of it; otherwise they are apart"
    CONVERT = "the result may begin where a source as wide or wider does, and end where a narrower one does or before"
    APART = "the result and the sources are apart"


class Match(Enum):
    """The rule by which an operand's element type follows from that of the first source."""

    SAME = "the same type"
    WIDTH = "a type of the same width"
    FREE = "any type that its own set allows"


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand of an instruction.

    Attributes:
        name: as in BANG C's headers.
        match: rule by which its type follows from the first source's.
        types: the allowed types if `match` is FREE; None for those of the instruction.
        number: whether a number may be passed instead of the view.
        memory: "nram" or "wram".
        scratch: whether the instruction leaves its bytes undefined; its earlier value does not matter.
        bits: whether it has a bit for each element of the sources, so its size is theirs and has no rule of its own.
    """

    name: str
    match: Match = Match.SAME
    types: Types | None = None
    number: bool = False
    memory: str = "nram"
    scratch: bool = False
    bits: bool = False


DST = Operand("dst")
SRC = Operand("src")


class Extent(NamedTuple):
    """The extent of an operand: its shape and the bytes per element; a number has the shape ()."""

    shape: Shape
    itemsize: int
    is_number: bool = False

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.itemsize


class Runs(NamedTuple):
    """Bytes of an operand: `times` runs of `nbytes` each, from its first byte on, `stride` bytes apart."""

    nbytes: int
    times: int = 1
    stride: int = 0


Geometry: TypeAlias = Callable[[Sequence[Extent], Mapping[str, Any]], str]
# The bytes of the result that are written, from the extents of the result and of the first source.
Writes: TypeAlias = Callable[[Extent, Extent], Runs]


def same_size(operands: Sequence[Extent], _attributes: Mapping[str, Any]) -> str:
    """Check that all operands have equal sizes; returns "" or the rule."""
    sizes = {operand.size for operand in operands if not operand.is_number}
    return "" if len(sizes) == 1 else "operands must have the same number of elements"


def any_types(_types: Sequence[Dtype]) -> str:
    """Accept every combination of element types that the operands allow."""
    return ""


def one_pass(_types: Sequence[Dtype], _attributes: Mapping[str, Any]) -> int:
    """One pass."""
    return 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """A vector or tensor instruction of a core.

    Attributes:
        name: method of `Core`; BANG C's name without `__bang_`.
        summary: the result, in one line.
        group: heading of the glossary.
        intrinsics: BANG C's spellings, with `{}` for its name.
        c_signatures: BANG C's argument lists, one per number of arguments (see `c_signatures`).
        operands: the result first, then the sources.
        attributes: names of the arguments after the operands; those in `defaults` are optional.
        defaults: values of optional arguments.
        types: element types of the first source, or of the result if there is no source.
        combination: check of the element types of the views together: returns "" or the rule that is violated.
        geometry: check of the shapes: returns "" or the rule that is violated.
        writes: the bytes of the result that it writes; None for all of them. The others keep their values.
        overlap: which bytes result and sources may share.
        multiple_2xx: on 2xx, sizes of all operands are a multiple of this many bytes; addresses of 64 B.
        sides_2xx: on 2xx, height and width of all operands must each be such a multiple.
        cost: cycles of the pipe.
        count: number of repetitions (`Work.count`), from the element types of its views, the result's first, and
            attributes.
        to_register: whether its result may go to a register of the task, which waits for it.
        since: first architecture that supports it.
        counts: whether it also returns a number to the task, which waits for it: that of the positions in its first
            source that `compute` returns.
        selects: whether `compute` returns which elements of the result are selected, as an array of bool; those beyond
            its end are not. May be a pair: with the positions in the first source of what it moves.
        writes_some: of those that select, whether elements that are not selected keep their values.
        looks_up: whether `compute` returns which elements of its last source it reads, as an array of bool, and a
            finding as (kind, title), or None.
        tensor: whether it runs on the tensor pipe.
        exact: False if the board approximates and the simulator computes in IEEE arithmetic.
        compute: (result, *sources, **attributes): writes the result in place, with NumPy's floating-point warnings
            disabled. The result has the destination's shape and type; sources have their own, or are numbers of the
            first source's type.
        marks: (result, *sources, **attributes), of integers: each element of the result becomes the largest of those
            elements of the sources that it depends on. None: it depends on those in its place if `geometry` is
            `same_size`, else on all.
        ufunc: the NumPy function that computes it from two sources of the result's shape, or a source and a number.
    """

    name: str
    summary: str
    group: str
    compute: Callable[..., Any]
    c_signatures: tuple[str, ...]
    intrinsics: tuple[str, ...] = ("__bang_{}",)
    operands: tuple[Operand, ...] = (DST, SRC)
    attributes: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    types: Types = field(default_factory=lambda: NUMBERS)
    combination: Callable[[Sequence[Dtype]], str] = any_types
    geometry: Geometry = same_size
    writes: Writes | None = None
    overlap: Overlap = Overlap.SAME
    multiple_2xx: int = 128
    sides_2xx: bool = False
    cost: Cost = stream
    count: Callable[[Sequence[Dtype], Mapping[str, Any]], int] = one_pass
    to_register: bool = False
    counts: bool = False
    selects: bool = False
    writes_some: bool = False
    looks_up: bool = False
    tensor: bool = False
    since: int = SERIES_2XX
    exact: bool = True
    marks: Callable[..., None] | None = None
    ufunc: np.ufunc | None = None

    def __post_init__(self) -> None:
        spellings = tuple(spelling.format(self.name.rstrip("_")) for spelling in self.intrinsics)
        object.__setattr__(self, "intrinsics", spellings)

    @property
    def signature(self) -> str:
        """Arguments of the method, as shown in documentation."""
        names = [operand.name for operand in self.operands]
        names += [f"{name}={self.defaults[name]!r}" if name in self.defaults else name for name in self.attributes]
        return f"{self.name}({', '.join(names)})"
