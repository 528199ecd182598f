"""Which source line an instruction of a compiled kernel is of: the line table of its debug information."""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache
from pathlib import Path
from typing import Any

# In place of a line: here the code ends. The compiler gives line 0 to code of its own.
_END = -1


class LineTable:
    """Addresses in a binary, in order, each with the file and line from there on."""

    def __init__(self, rows: list[tuple[int, str, int]]) -> None:
        rows.sort(key=lambda row: row[0])
        self._addresses = [row[0] for row in rows]
        self._rows = rows

    def find(self, address: int) -> tuple[str, int] | None:
        """File and line of an address, or None."""
        position = bisect_right(self._addresses, address) - 1
        if position < 0 or self._rows[position][2] <= 0:
            return None
        return self._rows[position][1:]

    def find_before(self, address: int, avoided: tuple[str, ...]) -> tuple[str, int] | None:
        """File and line of the last row up to an address, of the same code and in no file that `avoided` begins."""
        position = bisect_right(self._addresses, address) - 1
        while position >= 0 and self._rows[position][2] != _END:
            _, file, line = self._rows[position]
            if line and file and not file.startswith(avoided):
                return file, line
            position -= 1
        return None


@lru_cache(maxsize=32)
def line_table(binary: Path) -> LineTable:
    """The line table of a shared object."""
    from elftools.elf.elffile import ELFFile

    rows: list[tuple[int, str, int]] = []
    with binary.open("rb") as file:
        elf = ELFFile(file)
        if not elf.has_dwarf_info():
            return LineTable([])
        dwarf = elf.get_dwarf_info()
        for unit in dwarf.iter_CUs():
            program = dwarf.line_program_for_CU(unit)
            if program is not None:
                rows += _rows(program, unit)
    return LineTable(rows)


def _rows(program: Any, unit: Any) -> list[tuple[int, str, int]]:
    header = program.header
    version = header["version"]
    folders = [_text(one) for one in header["include_directory"]]
    top = unit.get_top_DIE().attributes.get("DW_AT_comp_dir")
    home = _text(top.value) if top is not None else ""
    names: dict[int, str] = {}
    for number, entry in enumerate(header["file_entry"], start=0 if version >= 5 else 1):  # noqa: PLR2004
        index = entry.dir_index
        if version >= 5:  # noqa: PLR2004
            folder = folders[index] if index < len(folders) else ""
        else:
            folder = folders[index - 1] if index else home
        name = _text(entry.name)
        names[number] = name if name.startswith("/") else str(Path(home, folder, name))
    found = []
    for one in program.get_entries():
        state = one.state
        if state is not None:
            found.append((state.address, names.get(state.file, ""), _END if state.end_sequence else state.line))
    return found


def _text(word: Any) -> str:
    if hasattr(word, "name"):
        word = word.name
    return word.decode(errors="replace") if isinstance(word, bytes) else str(word)
