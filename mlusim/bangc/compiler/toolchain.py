"""Compilers, their options, and a content-addressed cache of their output.

Uses the system's g++ (12 or later) or clang++, else the compiler of the `ziglang` wheel, a dependency of
`mlusim[bangc]`. A file is preprocessed, rewritten and compiled; the cache key consists of the preprocessed text, the
options, the compiler and this package's own sources.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from mlusim.bangc.calls.intrinsics import declarations, names, table_digest
from mlusim.errors import InputError
from mlusim.files import atomic_write, scratch_folder
from mlusim.hardware import Board

HERE = Path(__file__).resolve().parent.parent
INCLUDE = HERE / "include"
# Location of the declarations of intrinsics for the compiler: no line in this folder is the user's.
DECLARATIONS = INCLUDE / "mlusim_intrinsics.h"
_TIMEOUT_S = 600
_COMMON = (
    "-fPIC",
    "-O2",
    "-g1",
    "-fvisibility=hidden",
    "-ffp-contract=off",
    "-fno-strict-aliasing",
    "-fwrapv",
    "-w",
    # Errors must remain detectable instead of being optimised away.
    "-fstack-protector-strong",
    # A frame larger than the guard below the stack touches it first.
    "-fstack-clash-protection",
    "-fno-delete-null-pointer-checks",
    "-fno-finite-loops",
    # Keep active calls on the stack.
    "-fno-optimize-sibling-calls",
    # Calls of these are accesses, regardless of their size.
    "-fno-builtin-memcpy",
    "-fno-builtin-memmove",
    "-fno-builtin-memset",
)
_GNU = (
    "-fno-gnu-unique",
    "-fno-tree-vectorize",
    "-fno-tree-loop-distribute-patterns",
    "-fpermissive",
    "-fmax-errors=20",
)
_CLANG = (
    "-fno-vectorize",
    "-fno-slp-vectorize",
    "-fno-unroll-loops",
    "-fno-sanitize=undefined",
    "-Wno-everything",
    "-ferror-limit=20",
)
# Loads and stores call the simulator; nothing of the sanitizer's own runtime is linked.
_INSTRUMENTATION = ("-fsanitize=thread", "-fno-threadsafe-statics")


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler: its command and its kind."""

    command: tuple[str, ...]
    version: str
    gnu: bool

    @property
    def options(self) -> tuple[str, ...]:
        """Options of every compilation."""
        return (*_COMMON, *(_GNU if self.gnu else _CLANG))

    @property
    def language(self) -> str:
        """Language option of preprocessed text. The wheel's compiler has none for it, and expands macros again."""
        return "c++-cpp-output" if self.gnu else "c++"

    @property
    def instrumentation(self) -> tuple[str, ...]:
        """Options that make plain accesses call the simulator."""
        return (*_INSTRUMENTATION, *(_INSTRUMENTATION_GNU if self.gnu else _INSTRUMENTATION_CLANG))


_INSTRUMENTATION_GNU = (
    *("--param", "tsan-instrument-func-entry-exit=0"),
    # A function that ends without its return returns, as with older compilers, instead of running into the next one.
    *("-fsanitize=unreachable", "-fsanitize-undefined-trap-on-error"),
)
_INSTRUMENTATION_CLANG = (
    *("-mllvm", "-tsan-instrument-func-entry-exit=0"),
    # As above.
    "-fno-strict-return",
    # Also instrument a load before a store to the same address: results of vector instructions must be present by then.
    *("-mllvm", "-tsan-instrument-read-before-write=1"),
)


def find_compiler(command: str | None = None) -> Compiler:
    """Find the compiler to use. Raises `InputError` if there is none.

    Args:
        command: a command, or `ziglang` for the wheel's compiler; by default g++, clang++ or the wheel's.
    """
    return _find(command)


@lru_cache(maxsize=8)
def _find(command: str | None) -> Compiler:
    candidates = [tuple(command.split())] if command else [("g++",), ("clang++",), _wheel()]
    if command == _WHEEL:
        candidates = [_wheel()]
    reasons = []
    for candidate in candidates:
        if not candidate or (shutil.which(candidate[0]) is None and not _is_file(candidate[0])):
            reasons.append(f"no {candidate[0]}" if candidate else "no ziglang wheel")
            continue
        probe = run([*candidate, "--version"])
        version = probe.stdout.splitlines()[0] if probe.stdout else ""
        gnu = "clang" not in probe.stdout.lower() and "zig" not in " ".join(candidate)
        if probe.returncode:
            reasons.append(f"{candidate[0]} --version fails")
            continue
        if gnu and _major(version) < _FIRST_GNU:
            reasons.append(f"{version} is older than 12 and has no half")
            continue
        return Compiler(candidate, version, gnu)
    raise InputError(
        f"no C++ compiler for BANG C ({'; '.join(reasons)}): pip install 'mlusim[bangc]' installs one, "
        "or install g++ 12 or clang++ 15, or name one as `compiler`"
    )


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except OSError:  # a name that no file system takes
        return False


_FIRST_GNU = 12


def _major(version: str) -> int:
    for word in reversed(version.split()):
        if word[:1].isdigit() and "." in word:
            return int(word.split(".")[0])
    return 0


_WHEEL = "ziglang"


def _wheel() -> tuple[str, ...]:
    return (sys.executable, "-m", _WHEEL, "c++") if importlib.util.find_spec(_WHEEL) else ()


def run(command: list[str], text: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a compiler."""
    try:
        return subprocess.run(  # noqa: S603 - the user's compiler on the user's file
            command,
            input=text,
            capture_output=True,
            check=False,
            timeout=_TIMEOUT_S,
            encoding="utf-8",
            errors="replace",
        )
    except subprocess.TimeoutExpired as error:
        raise InputError(f"{command[0]} took more than {_TIMEOUT_S} s on {command[-1]}") from error


@lru_cache(maxsize=1)
def cache_folder() -> Path:
    """Return the folder of compiled kernels: `.cache/mlusim/bangc` in the user's home, else a temporary folder."""
    # A user without an entry in the password file, as in a container, may have no home.
    with suppress(OSError, RuntimeError):
        folder = Path.home() / ".cache" / "mlusim" / "bangc"
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    return Path(tempfile.mkdtemp(prefix="mlusim-bangc-"))


@lru_cache(maxsize=1)
def _own_sources() -> str:
    digest = hashlib.sha256()
    for path in sorted([HERE / "runtime.cpp", *INCLUDE.rglob("*.h")]):
        digest.update(path.read_bytes())
    digest.update(table_digest().encode())
    return digest.hexdigest()


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


def content_key(*parts: str) -> str:
    """Return the cache key of these texts for this version of the package."""
    digest = hashlib.sha256(_own_sources().encode())
    for part in parts:
        digest.update(b"\0" + part.encode(errors="replace"))
    return digest.hexdigest()[:32]


@lru_cache(maxsize=1)
def header_words() -> frozenset[str]:
    """Return every word of the headers and of calls in rewritten text: intrinsics among them are always declared."""
    texts = (path.read_text(encoding="utf-8") for path in INCLUDE.rglob("*.h"))
    own = {name for name in names() if name.startswith("__mlusim_")}
    return frozenset(word for text in texts for word in re.findall(r"[A-Za-z_]\w*", text)) | own


START = "mlusim_start.h"


@lru_cache(maxsize=8)
def generated_headers(compiler: Compiler, std: str) -> Path:
    """Return the folder of the header that declares the instructions, and of `START`, precompiled if possible.

    The header that comes before every file is 1.3 MB with the C++ headers that it includes: g++ parses it only once.
    """
    words = (f"-std={std}", *compiler.options, *compiler.instrumentation)
    declared = f'#line 1 "{DECLARATIONS}"\n{declarations(header_words())}'
    folder = cache_folder() / f"include-{content_key(declared, *compiler.command, compiler.version, *words)}"
    target = folder / START
    if not target.exists():
        folder.mkdir(exist_ok=True)
        publish(folder / DECLARATIONS.name, declared.encode())
        if compiler.gnu:
            with scratch_folder() as work:
                made = work / "start.h.gch"
                own = ["-I", str(INCLUDE), "-I", str(folder), "-x", "c++-header", str(INCLUDE / "mlu.h")]
                # If it cannot be precompiled, it is read as text.
                if not run([*compiler.command, *words, *own, "-o", str(made)]).returncode:
                    publish(folder / f"{START}.gch", made.read_bytes())
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


def publish(target: Path, content: bytes) -> None:
    """Write a file of the cache atomically."""
    try:
        with atomic_write(target) as stream:
            stream.write(content)
    except OSError as error:
        raise InputError(
            f"{cache_folder()}, the folder of compiled kernels, cannot be written: {error.strerror}; free space there"
        ) from error


def runtime(compiler: Compiler) -> Path:
    """Return the library of fibres and accesses, built on first use."""
    target = cache_folder() / f"runtime-{content_key('runtime', *compiler.command, compiler.version)}.so"
    if not target.exists():
        with scratch_folder() as folder:
            made = folder / "runtime.so"
            options = ("-std=gnu++17", "-shared", *compiler.options)
            done = run([*compiler.command, *options, str(HERE / "runtime.cpp"), "-o", str(made)])
            if done.returncode:
                raise InputError(f"{' '.join(compiler.command)} cannot build mlusim's runtime: {done.stderr[:2000]}")
            publish(target, made.read_bytes())
    return target


def board_defines(board: Board) -> list[str]:
    """Return the macros that the vendor's compiler defines for a board."""
    kib = 1024
    return [
        "-D__BANG__=1",
        "-D__mlu__=1",
        f"-D__BANG_ARCH__={board.arch}",
        f"-D__MLU_NRAM_SIZE__={board.nram_bytes // kib}",
        f"-D__MLU_WRAM_SIZE__={board.wram_bytes // kib}",
        f"-D__MLU_SRAM_SIZE__={board.sram_bytes // kib}",
    ]
