"""Source lines of the instructions of a compiled kernel, from the line table of its debug information."""

from __future__ import annotations

import os
import platform
import sys
from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property, lru_cache
from io import BytesIO
from pathlib import Path
from typing import Any

from mlusim.bangc.compiler.cache import INCLUDE

# File and line of C++ source.
SourceLine = tuple[str, int]

# Instead of a line: end of the code.
_END = -1
# Files of the system and of Python's environment. Containers often have a user's files in /usr/src.
_SYSTEM = tuple(
    f"{root}/{part}"
    for root in ("/usr", "/usr/local", sys.prefix)
    for part in ("include/", "lib", f"{platform.machine()}-conda-linux-gnu/")
)
# Files of the wheel's compiler. It builds its C++ library once for all environments of a user, from any of them.
_WHEEL = "/ziglang/lib/"
HEADERS = f"{INCLUDE}/"


def is_system(file: str) -> bool:
    """Return whether a file belongs to the system, to Python's environment or to a compiler."""
    return file.startswith(_SYSTEM) or _WHEEL in file


class LineTable:
    """The lines of a binary. Of its compiled files, only those are read that contain an address in question.

    A large program has many: reading all of them takes minutes.
    """

    def __init__(self, binary: Path) -> None:
        self._units = list(_units(binary))

    def find(self, address: int) -> SourceLine | None:
        """Return file and line of an address, or None.

        clang assigns line 0 to an instruction that belongs to several lines, as at the head of a loop that begins like
        the line before it: then the next line of that code is returned.
        """
        locations = (unit.find(address) for unit in self._units if unit.contains(address))
        return next((location for location in locations if location is not None), None)

    def find_in_users_code(self, address: int) -> SourceLine | None:
        """Return file and line of an address, or of an enclosing call, outside libraries and headers of BANG C.

        Instead of the line of a class, for a copy that the compiler adds to it, that of the call is returned.
        """
        location = self.find(address)
        for low, high, file, line, is_written in (s for u in self._units if u.contains(address) for s in u.inlined):
            if low <= address < high:
                if is_written and _is_users(location):
                    break
                location = file, line
        return location if _is_users(location) else None


def _is_users(location: SourceLine | None) -> bool:
    return location is not None and bool(location[0]) and not _is_library(location[0])


def _is_library(file: str) -> bool:
    return is_system(file) or file.startswith(HEADERS)


@lru_cache(maxsize=32)
def line_table(binary: Path) -> LineTable:
    """Return the line table of a shared object."""
    return LineTable(binary)


def _units(binary: Path) -> Iterator[_Unit]:
    """Yield the compiled files of a binary that have lines."""
    from elftools.elf.elffile import ELFFile

    elf = ELFFile(BytesIO(binary.read_bytes()))
    if elf.has_dwarf_info():
        dwarf = elf.get_dwarf_info()
        for unit in dwarf.iter_CUs():
            if "DW_AT_stmt_list" in unit.get_top_DIE().attributes:
                yield _Unit(dwarf, unit)


class _Unit:
    """One compiled file."""

    def __init__(self, dwarf: Any, unit: Any) -> None:
        self._dwarf = dwarf
        self._unit = unit
        self._spans = _spans(unit, unit.get_top_DIE().attributes)

    def contains(self, address: int) -> bool:
        """Return whether an address may lie in its code."""
        return not self._spans or any(low <= address < high for low, high in self._spans)

    @cached_property
    def _program(self) -> tuple[Any, dict[int, str]]:
        program = self._dwarf.line_program_for_CU(self._unit)
        return program, _files(program, self._unit)

    @cached_property
    def _rows(self) -> list[tuple[int, str, int]]:
        """Return addresses, ascending, each with the file and line from there on."""
        return sorted(_rows(*self._program), key=lambda row: row[0])

    @cached_property
    def _addresses(self) -> list[int]:
        return [row[0] for row in self._rows]

    @cached_property
    def inlined(self) -> list[tuple[int, int, str, int, bool]]:
        """Return the address range [first, last) of each inlined call, its place, and if its function is written.

        The innermost comes first.
        """
        # An entry precedes those nested in it.
        return _inlined(self._unit, self._program[1])[::-1]

    def find(self, address: int) -> SourceLine | None:
        """Return file and line of an address, or None."""
        position = bisect_right(self._addresses, address) - 1
        while 0 <= position < len(self._rows):
            _, file, line = self._rows[position]
            if line:
                return None if line == _END else (file, line)
            position += 1
        return None


def _inlined(unit: Any, names: dict[int, str]) -> list[tuple[int, int, str, int, bool]]:
    spans = []
    for entry in unit.iter_DIEs():
        attributes = entry.attributes
        if entry.tag != "DW_TAG_inlined_subroutine" or "DW_AT_call_line" not in attributes:
            continue
        location = names.get(attributes["DW_AT_call_file"].value, ""), attributes["DW_AT_call_line"].value
        function = entry.get_DIE_from_attribute("DW_AT_abstract_origin")
        is_in_source = "DW_AT_artificial" not in function.attributes
        spans += [(low, high, *location, is_in_source) for low, high in _spans(unit, attributes)]
    return spans


def _spans(unit: Any, attributes: Any) -> list[tuple[int, int]]:
    if "DW_AT_ranges" not in attributes:
        if "DW_AT_low_pc" not in attributes or "DW_AT_high_pc" not in attributes:
            return []
        low, high = attributes["DW_AT_low_pc"].value, attributes["DW_AT_high_pc"]
        return [(low, high.value if high.form == "DW_FORM_addr" else low + high.value)]
    top = unit.get_top_DIE().attributes.get("DW_AT_low_pc")
    base, spans = top.value if top is not None else 0, []
    for entry in unit.dwarfinfo.range_lists().get_range_list_at_offset(attributes["DW_AT_ranges"].value, unit):
        if hasattr(entry, "base_address"):
            base = entry.base_address
        elif entry.is_absolute:
            spans.append((entry.begin_offset, entry.end_offset))
        else:
            spans.append((base + entry.begin_offset, base + entry.end_offset))
    return spans


def _files(program: Any, unit: Any) -> dict[int, str]:
    """Return file names by their numbers."""
    header = program.header
    version = header["version"]
    folders = [_text(folder) for folder in header["include_directory"]]
    top = unit.get_top_DIE().attributes.get("DW_AT_comp_dir")
    home = _text(top.value) if top is not None else ""
    names: dict[int, str] = {}
    for number, entry in enumerate(header["file_entry"], start=0 if version >= 5 else 1):
        index = entry.dir_index
        if version >= 5:
            folder = folders[index] if index < len(folders) else ""
        else:
            folder = folders[index - 1] if index else home
        name = _text(entry.name)
        names[number] = name if name.startswith("/") else str(Path(home, folder, name))
    return names


def _rows(program: Any, names: dict[int, str]) -> list[tuple[int, str, int]]:
    rows = []
    for entry in program.get_entries():
        state = entry.state
        if state is not None:
            rows.append((state.address, names.get(state.file, ""), _END if state.end_sequence else state.line))
    return rows


def _text(word: Any) -> str:
    if hasattr(word, "name"):
        word = word.name
    # pyelftools decodes some names as UTF-8; a file has the name that the file system's encoding gives it.
    return os.fsdecode(word if isinstance(word, bytes) else str(word).encode(errors="surrogateescape"))
