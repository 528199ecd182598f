"""Compilation of a `.mlu` file to a shared object: preprocess, compile, link; messages refer to the user's lines."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlusim.bangc.compiler import cache, headers, toolchain
from mlusim.bangc.compiler.compiler_messages import compiler_text
from mlusim.bangc.compiler.linking import link, link_text
from mlusim.bangc.compiler.loading import check_that_it_loads
from mlusim.bangc.compiler.unset_variables import CLANG_WARNINGS, GNU_WARNINGS, certain_warnings, unset_uses
from mlusim.errors import CompileError
from mlusim.files import scratch_folder

if TYPE_CHECKING:
    from mlusim.bangc.compiler.rewriting import Rewritten
    from mlusim.hardware import Board


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Compilation options: header folders, macros, the standard, the compiler; for the board, or for its host.

    `checked`: with checks of the bounds of variables, and of variables that some paths leave without a value, which
    change the time of scalar code.
    """

    include: tuple[str, ...]
    define: tuple[str, ...]
    std: str
    compiler: toolchain.Compiler
    for_host: bool = False
    checked: bool = False


def preprocess(path: Path, on: Board, options: Options) -> str:
    """Return the text of a file with headers and macros expanded. Raises `CompileError` at the user's line."""
    compiler = options.compiler
    command = [*compiler.command, f"-std={options.std}", *headers.board_defines(on, for_host=options.for_host)]
    # Macros of the C library's headers come before them, others after this package's, which use ordinary names.
    early = [macro for macro in options.define if macro.startswith("_") or macro.partition("=")[0] == "NDEBUG"]
    command += [f"-D{macro}" for macro in early]
    generated = headers.generated_headers(compiler, options.std)
    folders = [str(path.parent), *options.include, str(cache.INCLUDE), str(generated)]
    command += [word for folder in folders for word in ("-I", folder)]
    if compiler.gnu:
        # A precompiled header is only valid for these options; its path is part of the text.
        command += [*compiler.options, *compiler.instrumentation, "-fpch-preprocess", "-fno-working-directory"]
    command += ["-include", str(generated / headers.START)]
    if len(early) < len(options.define):
        later = headers.macro_header(tuple(macro for macro in options.define if macro not in early))
        command += ["-include", str(later)]
    last = ["-E", "-x", "c++", str(path)]
    done = toolchain.run([*command, *last])
    if headers.SPECIAL_FUNCTION.search(done.stdout):
        command += ["-include", "mlusim/special.h"]
        done = toolchain.run([*command, *last])
    if done.returncode and compiler.gnu and "extended character" in done.stderr:
        # Blanks such as U+00A0, pasted from a web page: clang skips them, g++ takes them for letters.
        done = toolchain.run([*command, *last, "-fno-extended-identifiers"])
    if done.returncode:
        raise CompileError(compiler_text(done.stderr, path))
    return done.stdout


def check(number: int, path: Path, rewritten: Rewritten, options: Options) -> None:
    """Check the text of a file, which has this number, with the compiler, without generating code."""
    compiler = options.compiler
    command = [*compiler.command, f"-std={options.std}", *compiler.options]
    with scratch_folder() as work:
        source = work / "kernel.cpp"
        source.write_text(rewritten.text, encoding="utf-8")
        # The wheel's compiler requires an object file even with -fsyntax-only.
        what = ["-fsyntax-only"] if compiler.gnu else ["-O0", "-c", "-o", str(source.with_suffix(".o"))]
        done = toolchain.run([*command, *what, "-x", compiler.language, str(source)])
    if done.returncode:
        raise CompilerError(compiler_text(done.stderr, path, rewritten.text), {number: done.stderr})


class CompilerError(CompileError):
    """A compiler error on rewritten text; `full` is the complete output by the number of a file."""

    def __init__(self, message: str, full: Mapping[int, str]) -> None:
        super().__init__(message)
        self.full = full


def build(paths: Sequence[Path], texts: Sequence[Rewritten], options: Options) -> Path:
    """Build the shared object of some files, or return it from the cache.

    Raises `CompilerError` for errors, and for new warnings of variables that are not set.
    """
    _check_sizes(texts)
    with scratch_folder() as work, ThreadPoolExecutor(1) as pool:
        warned = pool.submit(_unset_variables, texts, options, work)
        target = _build(paths, texts, options, work)
    if warned.result():
        raise CompilerError("", warned.result())
    return target


def _build(paths: Sequence[Path], texts: Sequence[Rewritten], options: Options, work: Path) -> Path:
    compiler = options.compiler
    folder = cache.cache_folder()
    words = key_words(options)
    key = cache.content_key("\0".join(text.text for text in texts), *words)
    target = folder / f"{key}.so"
    failed = folder / f"{key}.output.json"
    if target.exists():
        return target
    if failed.exists():
        errors = {int(number): text for number, text in json.loads(failed.read_text()).items()}
        raise _compiler_error(paths, [text.text for text in texts], errors)
    linked = work / "kernel.so"
    shared = headers.generated_headers(compiler, options.std) / headers.SUPPORT
    objects: list[Path] = []

    def compile_with(first: str = "") -> None:
        contents = [_with_lines(text.text, first) for text in texts]
        try:
            objects[:] = [*_objects(paths, contents, options, work), shared]
        except CompilerError as error:
            cache.publish(failed, json.dumps(error.full).encode())
            raise

    compile_with()
    runtime = toolchain.runtime(compiler)
    done = link(objects, linked, runtime, lambda *words: toolchain.run([*compiler.command, *words]), compile_with)
    if done.returncode:
        raise CompileError(link_text(done.stderr))
    check_that_it_loads(paths[0], linked, runtime)
    cache.publish(target, linked.read_bytes())
    return target


def key_words(options: Options) -> tuple[str, ...]:
    """Return what the code of a text depends on besides the text."""
    compiler = options.compiler
    return (compiler.language, *_code_options(options), *compiler.command, compiler.version)


def _code_options(options: Options) -> tuple[str, ...]:
    compiler = options.compiler
    bounds = compiler.bounds if options.checked else ()
    return (f"-std={options.std}", *compiler.options, *compiler.instrumentation, *bounds)


def _objects(paths: Sequence[Path], contents: Sequence[str], options: Options, work: Path) -> list[Path]:
    """Compile texts, at the same time, and return their objects. Those of several files are kept.

    A program of many files is then compiled again only where it changes.
    """
    compiler, folder = options.compiler, cache.cache_folder()
    errors: dict[int, str] = {}

    def compiled(number: int) -> Path:
        made = work / f"kernel{number}.o"
        kept = folder / f"{cache.content_key(contents[number], *key_words(options))}.o"
        if kept.exists():
            return kept
        source = made.with_suffix(".cpp")
        source.write_text(contents[number], encoding="utf-8")
        words = ["-x", compiler.language, "-c", str(source), "-o", str(made)]
        command = [*compiler.command, *_code_options(options)]
        if compiler.gnu:
            warned = [word for word in command if word != "-w"]
            done = toolchain.run([*warned, toolchain.COPIES_OWNERS, *words])
            command.append("-felide-constructors")
        if not compiler.gnu or done.returncode or toolchain.COPIES_OWNERS in done.stderr:
            done = toolchain.run([*command, *words])
        if done.returncode:
            errors[number] = done.stderr
        elif len(paths) > 1:
            cache.publish(kept, made.read_bytes())
        return made

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        objects = list(pool.map(compiled, range(len(paths))))
    if errors:
        raise _compiler_error(paths, contents, errors)
    return objects


def _unset_variables(texts: Sequence[Rewritten], options: Options, work: Path) -> dict[int, str]:
    """Return the compiler's warnings of variables that are not set, of the files with new ones."""
    compiler, folder = options.compiler, cache.cache_folder()
    warnings = GNU_WARNINGS if compiler.gnu else CLANG_WARNINGS
    found: dict[int, str] = {}
    for number, text in enumerate(texts):
        kept = folder / f"{cache.content_key(text.once, *warnings, *key_words(options))}.warnings"
        if not kept.exists():
            source = work / f"once{number}.cpp"
            source.write_text(text.once, encoding="utf-8")
            words = [*_code_options(options), *warnings]
            # The wheel's compiler requires an object file.
            what = ["-S", "-o", os.devnull] if compiler.gnu else ["-c", "-o", str(source.with_suffix(".o"))]
            command = [*compiler.command, *(word for word in words if word != "-w"), "-x", compiler.language]
            cache.publish(kept, toolchain.run([*command, *what, str(source)]).stderr.encode())
        messages = kept.read_text(encoding="utf-8")
        if not options.checked:
            messages = certain_warnings(messages)
        if unset_uses(messages) - text.unset:
            found[number] = messages
    return found


def _compiler_error(paths: Sequence[Path], contents: Sequence[str], errors: Mapping[int, str]) -> CompilerError:
    """Return the error for the compiler's output by the number of a file; its text is that of the first file."""
    first = min(errors)
    return CompilerError(compiler_text(errors[first], paths[first], contents[first]), errors)


def _check_sizes(texts: Sequence[Rewritten]) -> None:
    """Raise `CompileError` for an array with a memory space that no file declares with its size."""
    defined = set().union(*(text.defined for text in texts))
    for text in texts:
        for name, (file, line) in text.unsized.items():
            if name not in defined:
                raise CompileError(
                    f"{file}:{line}: {name} has no size: an array with a memory space must be defined with its size, "
                    "since no launch sets one; define it here, or name the file that does, without static (--with "
                    "FILE, sources=)"
                )


_PRECOMPILED = "#pragma GCC pch_preprocess"


def _with_lines(text: str, first: str) -> str:
    """Insert lines before all others, but after a precompiled header, which has to be first."""
    if not first:
        return text
    at = text.find(_PRECOMPILED)
    at = text.index("\n", at) + 1 if at >= 0 else 0
    return text[:at] + first + text[at:]
