"""The conversions of `Core` by BANG C's names, such as `core.float2half_rn(dst, src)`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from sys import _getframe
from typing import TYPE_CHECKING

from mlusim.cores.compute.vector import call
from mlusim.cores.instructions.conversion import ROUNDINGS, TYPE_WORDS, conversion
from mlusim.cores.instructions.table import INSTRUCTIONS
from mlusim.cores.operands import check_view
from mlusim.errors import OperandError

if TYPE_CHECKING:
    from mlusim.cores.issuer import Issuer
    from mlusim.memory.view import View


class _Conversion:
    """A method of `Core` that converts between two element types."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, core: ConversionMethods, _: type) -> Callable[..., None]:
        return partial(_convert, core, self.name)


def _convert(core: ConversionMethods, name: str, dst: View, src: View, position: int = 0) -> None:
    parts = conversion(name)
    assert parts is not None
    source, target, rounding = parts
    check_view(name, dst)
    check_view(name, src)
    if (dst.dtype, src.dtype) != (target, source):
        raise OperandError(f"{name} of {src!r} to {dst!r}: it takes {source} to {target}; name the other conversion")
    issuer = core.issuer
    call(issuer, issuer.line(_getframe(1)), INSTRUCTIONS["convert"], (dst, src, rounding, position), {})


_PAIRS = [f"{source}2{target}" for source in TYPE_WORDS for target in TYPE_WORDS]
CONVERSIONS = (*_PAIRS, *[f"{pair}_{rounding}" for pair in _PAIRS for rounding in ROUNDINGS])


def _without_conversions(names: Iterable[str]) -> list[str]:
    return [name for name in names if not isinstance(ConversionMethods.__dict__.get(name), _Conversion)]


class _WithoutConversions(type):
    """A class whose `dir`, and so its `help`, leaves out the thousands of conversions."""

    def __dir__(cls) -> list[str]:
        return _without_conversions(super().__dir__())


class ConversionMethods(metaclass=_WithoutConversions):
    """A base class of `Core`: conversions between all pairs of element types, with each rounding and without one."""

    issuer: Issuer
    # Not made by `__getattr__` when they are used: a class with that method takes ten times as long for each access to
    # an attribute that exists, and every instruction accesses several.
    locals().update((name, _Conversion(name)) for name in CONVERSIONS)

    def __dir__(self) -> list[str]:
        return _without_conversions(super().__dir__())
