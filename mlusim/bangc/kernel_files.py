"""Compiled kernels by name, `file.mlu:entry`, and as plain values that another process can compile again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, Self

from mlusim.bangc.module import STANDARD, Module
from mlusim.bangc.module import compile as compile_file
from mlusim.cores.core import Kernel
from mlusim.errors import InputError

SUFFIX = ".mlu"


class KernelName(str):
    """`file.mlu:entry`, with compilation options.

    Attributes:
        options: keywords of `mlusim.bangc.compile`: `include`, `define`, `std`, `compiler`.
    """

    __slots__ = ("options",)
    options: Mapping[str, Any]

    def __new__(cls, name: str, options: Mapping[str, Any]) -> Self:
        """Create the name with the options."""
        kernel_name = super().__new__(cls, name)
        kernel_name.options = options
        return kernel_name


def is_kernel_file(word: str) -> bool:
    """Return whether a word names a BANG C file, or an entry of one."""
    return word.endswith(SUFFIX) or f"{SUFFIX}:" in word


def kernel_of_file(text: str) -> Kernel:
    """Return the kernel of `file.mlu:entry`, or of a `file.mlu` with one entry. Raises `InputError`, `CompileError`."""
    file, _, entry = text.partition(f"{SUFFIX}:")
    options = text.options if isinstance(text, KernelName) else {}
    module = compile_file(file + SUFFIX if entry else file, **options)
    names = module.entries
    if not entry and (len(names) != 1 or "<" in names[0]):
        has = ", ".join(names) or "none"
        as_in = f"{module.path.name}:{names[0] if names else 'add'}"
        raise InputError(f"{text}: name one of its entries, as in {as_in}; it has {has}")
    return module[entry or names[0]]


def description(kernel: Callable[..., Any]) -> dict[str, Any] | None:
    """Return plain values from which another process can compile a kernel again; None if it was not compiled."""
    module: Module | None = getattr(kernel, "bangc_module", None)
    if module is None:
        return None
    options = module.options
    return {
        "path": str(module.path),
        "entry": getattr(kernel, "__name__", ""),
        "board": module.board.name,
        "sources": [str(path) for path in module.sources],
        "include": list(options.include),
        "define": list(options.define),
        "std": options.std,
        "compiler": " ".join(options.compiler.command),
    }


def compile_words(kernel: Callable[..., Any]) -> list[str]:
    """Return the command-line options that compile a kernel's file in the same way; none if it was not compiled."""
    described = description(kernel)
    if described is None:
        return []
    words = [word for folder in described["include"] for word in ("-I", folder)]
    words += [word for macro in described["define"] for word in ("-D", macro)]
    return words if described["std"] == STANDARD else [*words, "--std", described["std"]]


def kernel_again(described: Mapping[str, Any]) -> Kernel:
    """Return the kernel of a `description`."""
    options = {name: described[name] for name in ("sources", "include", "define", "std", "compiler")}
    return compile_file(described["path"], described["board"], **options)[described["entry"]]


def digest(kernel: Callable[..., Any]) -> str | None:
    """Return a digest of a kernel's preprocessed source, its options and its compiler; None if it was not compiled.

    It is the same on machines where the file, the package and the cache are in other folders.
    """
    module: Module | None = getattr(kernel, "bangc_module", None)
    if module is None:
        return None
    return hashlib.sha256(f"{module.digest} {getattr(kernel, '__name__', '')}".encode()).hexdigest()
