"""Compilers: which one is used, with which options.

The system's g++ (12 or later) or clang++, else the compiler of the `ziglang` wheel, a dependency of `mlusim[bangc]`.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from mlusim.bangc.compiler.cache import RUNTIME, cache_folder, content_key, publish
from mlusim.errors import InputError
from mlusim.files import scratch_folder

_TIMEOUT_S = 600
# The first version of g++ that has `half`, and the name of the wheel's compiler.
_FIRST_GNU, _WHEEL = 12, "ziglang"
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
    # A variable without a value holds a pattern: an address without memory, a number that no sum hides.
    "-ftrivial-auto-var-init=pattern",
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
    # The pattern of variables without a value remains in members that a constructor does not set.
    "-fno-lifetime-dse",
    "-fno-tree-vectorize",
    "-fno-tree-loop-distribute-patterns",
    "-fmax-errors=20",
    # An index beyond a `std::vector` or a `std::array` aborts.
    "-D_GLIBCXX_ASSERTIONS",
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
_INSTRUMENTATION_GNU = (
    *("--param", "tsan-instrument-func-entry-exit=0"),
    # A function that ends without its return returns, as with older compilers, instead of running into the next one. No
    # loop is taken to end where its index would leave an array.
    *("-fsanitize=unreachable", "-fno-aggressive-loop-optimizations"),
    # Copies of records by value are assignments then. Arguments and results of calls are not instrumented.
    "-fno-elide-constructors",
)
# An access outside its variable calls the runtime, and so does an index beyond the bounds of its type. Values stay in
# registers less often then, and loading them again takes simulated time.
_BOUNDS_GNU = ("-fsanitize=object-size,bounds",)
# The warning of g++ at a copy of an object with a destructor but no copy constructor. A file with such copies is
# compiled with as few of them as by the vendor's compiler, because each frees the object's memory once more.
COPIES_OWNERS = "-Wdeprecated-copy-dtor"
_INSTRUMENTATION_CLANG = (
    *("-mllvm", "-tsan-instrument-func-entry-exit=0"),
    # As above.
    "-fno-strict-return",
    # Also instrument a load before a store to the same address: results of vector instructions must be present by then.
    *("-mllvm", "-tsan-instrument-read-before-write=1"),
)


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

    @property
    def bounds(self) -> tuple[str, ...]:
        """Options that check the bounds of variables without a memory space; none with clang."""
        return _BOUNDS_GNU if self.gnu else ()


@lru_cache(maxsize=8)
def find_compiler(command: str | None = None) -> Compiler:
    """Find the compiler to use. Raises `InputError` if there is none, and on systems other than Linux.

    Args:
        command: a command, or `ziglang` for the wheel's compiler; by default g++, clang++ or the wheel's.
    """
    if sys.platform != "linux":
        raise InputError(
            f"BANG C needs Linux, and this system is {sys.platform}: run it in a container or a virtual machine with "
            "Linux, such as WSL on Windows; kernels in Python run here"
        )
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


def _major(version: str) -> int:
    for word in reversed(version.split()):
        if word[:1].isdigit() and "." in word:
            return int(word.split(".")[0])
    return 0


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


def unusable(compiler: Compiler, messages: str) -> InputError:
    """Return the error for a compiler that does not compile the package's own files."""
    return InputError(f"{' '.join(compiler.command)} cannot build mlusim's runtime: {messages[:2000]}")


def runtime(compiler: Compiler) -> Path:
    """Return the library of fibres and accesses, built on first use."""
    target = cache_folder() / f"runtime-{content_key('runtime', *compiler.command, compiler.version)}.so"
    if not target.exists():
        with scratch_folder() as folder:
            made = folder / "runtime.so"
            options = ("-std=gnu++17", "-shared", *compiler.options)
            done = run([*compiler.command, *options, str(RUNTIME), "-o", str(made)])
            if done.returncode:
                raise unusable(compiler, done.stderr)
            publish(target, made.read_bytes())
    return target
