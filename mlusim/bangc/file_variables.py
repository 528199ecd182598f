"""Variables of a BANG C file that lie in no memory of the board: file scope or `static`, without a memory space.

Each core of the simulator has a copy of them, which outlives a task. No rule says where a board has them, so values
that tasks pass on through them are a fault (`mlusim.host.host_data`), and every device begins with fresh ones.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

_SECTIONS = (".data", ".bss")
# Guards of variables that are initialised at their first use, and what compilers and libraries bring.
_GUARD, _FOREIGN = "_ZGV", ("__", "_ZSt", "_ZNSt", "_ZTV", "_ZTI", "_IO", "completed.")


class Variable(NamedTuple):
    """A variable: its C++ name, its address relative to the binary, and its size in bytes."""

    name: str
    address: int
    nbytes: int


@lru_cache(maxsize=32)
def file_variables(binary: Path) -> tuple[Variable, ...]:
    """The variables of a binary that its own code may change."""
    from elftools.elf.elffile import ELFFile

    with binary.open("rb") as file:
        elf: Any = ELFFile(file)
        table = elf.get_section_by_name(".symtab") or elf.get_section_by_name(".dynsym")
        symbols = [one for one in table.iter_symbols() if one["st_info"]["type"] == "STT_OBJECT" and one["st_size"]]
        guarded = {one.name[len(_GUARD) :] for one in table.iter_symbols() if one.name.startswith(_GUARD)}
        found = []
        for one in symbols:
            place = one["st_shndx"]
            if not isinstance(place, int) or elf.get_section(place).name not in _SECTIONS:
                continue
            name = one.name
            # What is set at its first use is a constant from then on.
            if "mlusim" in name or name.startswith((_GUARD, *_FOREIGN)) or name.removeprefix("_Z") in guarded:
                continue
            found.append(Variable(demangled(name), int(one["st_value"]), int(one["st_size"])))
    return tuple(found)


def demangled(symbol: str) -> str:
    """The C++ name of a symbol, where the C++ library is loaded."""
    try:
        demangle: Any = ctypes.CDLL("libstdc++.so.6")["__cxa_demangle"]
    except (OSError, AttributeError):
        return symbol
    demangle.restype = ctypes.c_void_p
    demangle.argtypes = (ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    found = demangle(symbol.encode(), None, None, None)
    return ctypes.string_at(found).decode(errors="replace") if found else symbol
