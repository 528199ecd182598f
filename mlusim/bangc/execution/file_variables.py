"""Variables of a BANG C file outside the memories of the board: file scope or `static`, without a memory space.

Each core of the simulator has a copy of them, which persists between tasks. No rule specifies where a board stores
them, so passing values between tasks through them is an error (`mlusim.host.host_data`), and every device begins with
fresh ones.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

_SECTIONS = (".data", ".bss")
# Addresses of undefined variables: far from those that an operating system hands out, a power of two apart.
_UNDEFINED, _UNDEFINED_BYTES = 1 << 44, 1 << 30
# Upper halves of pointers that have no value: the patterns of g++ and clang.
_UNSET = (0xFEFEFEFE, 0xAAAAAAAA)
# A float that has no value, by g++, whose bytes are all 0xFE. Integers of this pattern may be masks, and the float of
# clang is a NaN that kernels use as one.
UNSET_FLOAT = float.fromhex("-0x1.fdfdfcp+126")
# Guards of variables initialised on first use, and variables of compilers and libraries.
_GUARD, _FOREIGN = "_ZGV", ("__", "_ZSt", "_ZNSt", "_ZTV", "_ZTI", "_IO", "completed.")


class Variable(NamedTuple):
    """A variable: its C++ name, its address relative to the binary, and its size in bytes."""

    name: str
    address: int
    nbytes: int


@lru_cache(maxsize=32)
def file_variables(binary: Path) -> tuple[Variable, ...]:
    """Return the variables of a binary that its own code may change."""
    from elftools.elf.elffile import ELFFile

    with binary.open("rb") as file:
        elf: Any = ELFFile(file)
        table = elf.get_section_by_name(".symtab") or elf.get_section_by_name(".dynsym")
        symbols = [
            symbol for symbol in table.iter_symbols() if symbol["st_info"]["type"] == "STT_OBJECT" and symbol["st_size"]
        ]
        guarded = {symbol.name[len(_GUARD) :] for symbol in table.iter_symbols() if symbol.name.startswith(_GUARD)}
        variables = []
        for symbol in symbols:
            section = symbol["st_shndx"]
            if not isinstance(section, int) or elf.get_section(section).name not in _SECTIONS:
                continue
            name = symbol.name
            # A variable initialised on first use is constant afterwards.
            if "mlusim" in name or name.startswith((_GUARD, *_FOREIGN)) or name.removeprefix("_Z") in guarded:
                continue
            variables.append(Variable(demangled(name), int(symbol["st_value"]), int(symbol["st_size"])))
    return tuple(variables)


def undefined_address(number: int) -> int:
    """Return the address of an undefined variable of a binary: no memory is mapped there, so its use is a fault."""
    return _UNDEFINED + number * _UNDEFINED_BYTES


@lru_cache(maxsize=32)
def undefined_variables(binary: Path) -> dict[int, str]:
    """Return the C++ names of the variables that a binary uses and no file defines, by address."""
    from elftools.elf.elffile import ELFFile

    with binary.open("rb") as file:
        table: Any = ELFFile(file).get_section_by_name(".symtab")
        symbols = [(int(symbol["st_value"]), symbol.name) for symbol in table.iter_symbols()] if table else []
    return {address: demangled(name) for address, name in symbols if address >= _UNDEFINED}


def is_unset(address: int) -> bool:
    """Return whether an address is that of a pointer that has no value yet."""
    return address >> 32 in _UNSET


def undefined_text(binary: Path, address: int) -> str:
    """Say what an address is: that of an undefined variable, or of a pointer without a value; else nothing."""
    if is_unset(address):
        return "a pointer that has no value yet: set it before its use"
    name = undefined_variables(binary).get(address - address % _UNDEFINED_BYTES)
    return undefined_variable(name) if name else ""


def undefined_variable(name: str) -> str:
    """Say that no file defines a variable, and what to do."""
    return f"{name}, which no file defines: define it, without static, or name its source file too"


@lru_cache(maxsize=32)
def function_symbols(binary: Path) -> dict[int, str]:
    """Return the symbols of a binary's functions by address."""
    from elftools.elf.elffile import ELFFile

    with binary.open("rb") as file:
        elf: Any = ELFFile(file)
        table = elf.get_section_by_name(".symtab") or elf.get_section_by_name(".dynsym")
        symbols = (symbol for symbol in table.iter_symbols() if symbol["st_info"]["type"] == "STT_FUNC")
        return {int(symbol["st_value"]): symbol.name for symbol in symbols}


@lru_cache(maxsize=32)
def function_addresses(binary: Path) -> dict[str, int]:
    """Return the addresses of a binary's functions by symbol."""
    return {symbol: address for address, symbol in function_symbols(binary).items()}


def demangled(symbol: str) -> str:
    """Return the C++ name of a symbol if the C++ library is loaded. A C name is its own, also if it codes a type."""
    if not symbol.startswith("_Z"):
        return symbol
    try:
        demangle: Any = ctypes.CDLL("libstdc++.so.6")["__cxa_demangle"]
    except (OSError, AttributeError):
        return symbol
    demangle.restype = ctypes.c_void_p
    demangle.argtypes = (ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    # Some versions of the library know `half` only by its older code.
    demangled = demangle(symbol.replace("DF16_", "Dh").encode(), None, None, None)
    return ctypes.string_at(demangled).decode(errors="replace") if demangled else symbol
