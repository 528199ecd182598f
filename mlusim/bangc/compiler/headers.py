"""The headers of compiled files: the package's own, those that are generated, and the names that they declare."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from mlusim.bangc.calls.intrinsics import declarations, names
from mlusim.bangc.compiler import toolchain
from mlusim.bangc.compiler.cache import INCLUDE, cache_folder, content_key, own_files, publish
from mlusim.files import scratch_folder
from mlusim.hardware import Board
from mlusim.units import KIB

# Location of the declarations of intrinsics for the compiler: no line in this folder is the user's.
DECLARATIONS = INCLUDE / "mlusim_intrinsics.h"
START = "mlusim_start.h"
# Functions of the headers, compiled once: every binary is linked with them.
SUPPORT = "support.o"
# Functions of C++17 whose templates g++ would instantiate in every file: their header is only for files that name one.
SPECIAL_FUNCTION = re.compile(
    r"\b(?:assoc_l\w+|comp_ellint_|cyl_\w+|ellint_|sph_\w+|riemann_zeta"
    r"|std\s*::\s*(?:beta|expint|hermite|laguerre|legendre))"
)
# Suffixes that the headers' macros of scalar functions append to a name.
_ROUNDED = tuple(f"{kind}_{rounding}" for kind in ("f32", "f16") for rounding in ("rn", "dn", "up", "tz"))
_SCALAR_ENDINGS = {
    "FLOATS": _ROUNDED,
    "RECIPROCALS": _ROUNDED,
    "INTEGERS": ("s32", "u32"),
    "LONGS": ("s64", "u64"),
    "ATOMICS": ("s32", "s16", "u32", "u16"),
    "SWAPS": ("s32", "s16", "u32", "u16"),
    "UNSIGNED_ATOMICS": ("u32", "u16"),
    "FLOAT_ATOMICS": ("f32", "f16"),
}


@lru_cache(maxsize=1)
def header_names() -> frozenset[str]:
    """Return words of the headers that begin with two underscores: scalar intrinsics that are plain C++."""
    names: set[str] = set()
    for path in INCLUDE.rglob("*.h"):
        text = path.read_text(encoding="utf-8")
        names.update(re.findall(r"\b__\w+", text))
        names.update(f"__vv_{name}" for name in re.findall(r"MLUSIM_VV2\((\w+)", text))
        for name in re.findall(r"MLUSIM_SCALAR2?\((\w+)", text):
            names.update((f"__cn_scalar_{name}_f32", f"__cn_scalar_{name}_f16", f"__nv_{name}f"))
        for kinds, name in re.findall(r"MLUSIM_SCALAR_(\w+)\((\w+)", text):
            names.update(f"__cn_scalar_{name}_{ending}" for ending in _SCALAR_ENDINGS.get(kinds, ()))
    return frozenset(names)


@lru_cache(maxsize=1)
def library_names() -> frozenset[str]:
    """Return names of the vendor's host libraries in the headers: functions, types and constants."""
    texts = (path.read_text(encoding="utf-8") for path in INCLUDE.glob("*.h"))
    return frozenset(name for text in texts for name in re.findall(r"\b(?:cn|CN)\w+", text))


@lru_cache(maxsize=1)
def header_words() -> frozenset[str]:
    """Return every word of the headers and of calls in rewritten text: intrinsics among them are always declared."""
    texts = (path.read_text(encoding="utf-8") for path in own_files())
    own_names = {name for name in names() if name.startswith("__mlusim_")}
    return frozenset(word for text in texts for word in re.findall(r"[A-Za-z_]\w*", text)) | own_names


@lru_cache(maxsize=8)
def generated_headers(compiler: toolchain.Compiler, std: str) -> Path:
    """Return the folder of `SUPPORT`, of the declarations of instructions, and of `START`, precompiled if possible.

    The header that comes before every file is 1.3 MB with the C++ headers that it includes: g++ parses it only once. It
    also instantiates the templates that inline functions of a precompiled header use, in every file, whether or not the
    file calls them; such functions belong in `support.cpp`.
    """
    options = (f"-std={std}", *compiler.options, *compiler.instrumentation)
    # Messages of the compiler name the files of the installation from which the headers were precompiled.
    folder = cache_folder() / f"include-{content_key(str(INCLUDE), *compiler.command, compiler.version, *options)}"
    target = folder / START
    if not target.exists():
        folder.mkdir(exist_ok=True)
        declared = f'#line 1 "{DECLARATIONS}"\n{declarations(header_words())}'
        publish(folder / DECLARATIONS.name, declared.encode())
        command = [*compiler.command, *options, "-I", str(INCLUDE), "-I", str(folder)]
        with scratch_folder() as work:
            precompiled = work / "start.h.gch"
            # If it cannot be precompiled, it is read as text.
            header = ["-x", "c++-header", str(INCLUDE / "mlu.h"), "-o", str(precompiled)]
            if compiler.gnu and not toolchain.run([*command, *header]).returncode:
                publish(folder / f"{START}.gch", precompiled.read_bytes())
                command += ["-include", str(target)]
            precompiled = work / SUPPORT
            result = toolchain.run([*command, "-c", str(INCLUDE / "mlusim" / "support.cpp"), "-o", str(precompiled)])
            if result.returncode:
                raise toolchain.unusable(compiler, result.stderr)
            publish(folder / SUPPORT, precompiled.read_bytes())
        publish(target, b'#include "mlu.h"\n')
    return folder


def macro_header(macros: tuple[str, ...]) -> Path:
    """Return a header that defines macros, each `NAME` or `NAME=VALUE` as after the option `-D` of a compiler."""
    lines = ['#line 1 "<command-line>"']
    for macro in macros:
        name, equals, value = macro.partition("=")
        lines.append(f"#define {name} {value if equals else '1'}")
    text = "\n".join([*lines, ""])
    target = cache_folder() / f"macros-{content_key(text)}.h"
    if not target.exists():
        publish(target, text.encode())
    return target


def board_defines(board: Board, *, for_host: bool = False) -> list[str]:
    """Return the macros that the vendor's compiler defines for a board; for its host, all but that of its arch."""
    return [
        "-D__BANG__=1",
        "-D__mlu__=1",
        "-D__MLU__=1",
        *([] if for_host else [f"-D__BANG_ARCH__={board.arch}"]),
        f"-D__MLU_NRAM_SIZE__={board.nram_bytes // KIB}",
        f"-D__MLU_WRAM_SIZE__={board.wram_bytes // KIB}",
        f"-D__MLU_SRAM_SIZE__={board.sram_bytes // KIB}",
    ]
