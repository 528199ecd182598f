"""Linking: undefined functions are replaced by functions that raise an error when called.

Kernel files often contain host code that uses functions and variables of other files. A kernel needs none of them, so
the file loads without them; a use of one must not end the process, as the dynamic linker would. Undefined variables get
addresses where there is no memory (`undefined_variables`).
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

from mlusim.bangc.compiler.source import quoted
from mlusim.bangc.execution.file_variables import demangled, undefined_address
from mlusim.bangc.execution.image import load_runtime
from mlusim.bangc.runtime_layout import Leave

_MOST_LINES = 40
# Functions that the runtime counts as accesses (`runtime/accesses.h`), also if headers of C++ call the builtins.
_COPIES = ("memcpy", "memmove", "memset")
# Functions wrapped by the headers (`output.h`): kernels have no heap and no exceptions; destructors run after `main`.
_WRAPPED = (
    "malloc",
    "calloc",
    "realloc",
    "free",
    "_Znwm",
    "_Znam",
    "_ZdlPv",
    "_ZdaPv",
    "_ZdlPvm",
    "_ZdaPvm",
    "__cxa_allocate_exception",
    "__cxa_atexit",
)


def link(
    objects: list[Path],
    target: Path,
    runtime: Path,
    call: Callable[..., CompletedProcess[str]],
    compile_with: Callable[[str], None],
) -> Any:
    """Link objects into a shared object; returns the result of the compiler's last run.

    Args:
        objects: the objects to link.
        target: the shared object to create.
        runtime: the fibre library, which defines the functions called by compiled code.
        call: runs the compiler with some arguments.
        compile_with: compiles the objects again, with some lines before the user's.
    """
    wraps = [f"-Wl,--wrap={name}" for name in (*_WRAPPED, *_COPIES)]
    result = call("-shared", *wraps, *map(str, objects), "-o", str(target))
    missing, aliases = ([], {}) if result.returncode else _undefined(target, runtime)
    if aliases:
        compile_with("".join(f"#pragma redefine_extname {name} {symbol}\n" for name, symbol in aliases.items()))
        if not missing:
            result = call("-shared", *wraps, *map(str, objects), "-o", str(target))
    if missing:
        stubs = target.with_name("undefined.cpp")
        called_symbols = _called_symbols(target)
        text = [
            _stub(number, name, is_variable=_is_variable(name, called_symbols)) for number, name in enumerate(missing)
        ]
        stubs.write_text("".join(text), encoding="utf-8")
        stub_object = stubs.with_suffix(".o")
        result = call("-fPIC", "-O1", "-w", "-c", str(stubs), "-o", str(stub_object))
        if not result.returncode:
            result = call("-shared", *wraps, *map(str, objects), str(stub_object), "-o", str(target))
    return result


# Messages of the linkers of GNU and LLVM on a function or variable that two files define: its name and locations.
_TWICE_GNU = re.compile(
    r"(?:^|[\s:])([^\s:]+:\d+): multiple definition of [`'](.+?)'; \S*?:?([^\s:]+:\d+): first defined"
)
_AT = r">>> defined at (?:.*\()?([^()\n]+)"
_TWICE_LLVM = re.compile(rf"duplicate symbol: (.+)\n{_AT}\)?\n(?:>>> +\S+\n)?{_AT}")


# Earlier versions of the wheel say: unsupported linker arg: --wrap.
_UPDATE = "; programs of several files need ziglang 0.17 or later, or g++ or clang++ (pip install 'ziglang>=0.17')"


def link_text(text: str) -> str:
    """Return what the linker says, in the words of the files."""
    definitions = {match[2]: (match[3], match[1]) for match in _TWICE_GNU.finditer(text)}
    definitions |= {match[1]: (match[2], match[3]) for match in _TWICE_LLVM.finditer(text)}
    if not definitions:
        lines = [line for line in text.splitlines() if line.strip()]
        remedy = _UPDATE if "--wrap" in text else ""
        return f"the files do not link{remedy}:\n" + "\n".join(lines[:_MOST_LINES])
    # LLVM's has no line for a variable.
    locations = {
        name: f", at {first} and at {second}" if ":" in first + second else ""
        for name, (first, second) in definitions.items()
    }
    return "\n".join(
        f"{name} is defined in two files{location}: make it static or inline, or define it in one file and declare it "
        "in the other"
        for name, location in locations.items()
    )


def _called_symbols(binary: Path) -> set[str]:
    """Return the symbols that a binary calls through its procedure linkage table."""
    from elftools.elf.elffile import ELFFile

    with binary.open("rb") as file:
        elf: Any = ELFFile(file)
        calls, symbols = elf.get_section_by_name(".rela.plt"), elf.get_section_by_name(".dynsym")
        entries = calls.iter_relocations() if calls is not None else ()
        return {symbols.get_symbol(entry["r_info_sym"]).name for entry in entries}


def _is_variable(symbol: str, called_symbols: set[str]) -> bool:
    """Return whether a symbol is not called and has no parameters; a C function may be one whose address is taken."""
    return symbol not in called_symbols and "(" not in demangled(symbol)


def _stub(number: int, symbol: str, *, is_variable: bool) -> str:
    if is_variable:
        directives = f".globl {symbol}; .set {symbol}, {undefined_address(number)}"
        return f"__asm__({quoted(directives)});\n"
    name = f"mlusim_undefined_{number}"
    return (
        'extern "C" void mlusim_leave(long, const char *, const char *, int);\n'
        f'extern "C" __attribute__((visibility("hidden"))) void {name}() __asm__({quoted(symbol)});\n'
        f'void {name}() {{ mlusim_leave({Leave.UNDEFINED:d}, {quoted(demangled(symbol))}, "", 0); }}\n'
    )


def _undefined(binary: Path, runtime: Path) -> tuple[list[str], dict[str, str]]:
    """Return symbols that a binary needs and that neither the runtime nor its libraries define; and those it defines.

    The vendor's older compiler gave entries C linkage, and host files declare them so: a C name that matches one C++
    function of the binary refers to that function, by its symbol.
    """
    from elftools.elf.elffile import ELFFile

    with binary.open("rb") as file:
        elf: Any = ELFFile(file)
        names = [
            symbol.name
            for symbol in elf.get_section_by_name(".dynsym").iter_symbols()
            if symbol.name and symbol["st_shndx"] == "SHN_UNDEF" and symbol["st_info"]["bind"] == "STB_GLOBAL"
        ]
        own_symbols = elf.get_section_by_name(".symtab").iter_symbols()
        defined = {
            symbol.name for symbol in own_symbols if symbol["st_info"]["type"] == "STT_FUNC" and "." not in symbol.name
        }
        needed = [tag.needed for tag in elf.get_section_by_name(".dynamic").iter_tags("DT_NEEDED")]
    libraries: list[Any] = [load_runtime(runtime).library, ctypes.CDLL(None)]
    for name in needed:
        try:
            libraries.append(ctypes.CDLL(name))
        except OSError:
            continue
    missing = [name for name in names if not any(hasattr(library, name) for library in libraries)]
    mangled = {name: [symbol for symbol in defined if symbol.startswith(f"_Z{len(name)}{name}")] for name in missing}
    aliases = {name: symbols[0] for name, symbols in mangled.items() if len(symbols) == 1}
    return [name for name in missing if name not in aliases], aliases
