"""Survey of files: which compile, their entries, and which of their calls are not supported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mlusim.bangc.calls import intrinsics
from mlusim.bangc.compiler.undeclared_names import is_of_library
from mlusim.bangc.compiler.unknown_names import not_simulated
from mlusim.bangc.kernel_files import SUFFIX
from mlusim.bangc.module import compile as compile_file
from mlusim.errors import CompileError, InputError
from mlusim.hardware import DEFAULT_BOARD, Board
from mlusim.inputs import as_path
from mlusim.source_code import file_and_kernel


@dataclass(frozen=True, slots=True)
class Surveyed:
    """One file.

    Attributes:
        file: its path, as passed.
        compiles: whether it compiles.
        entries, parameters: its kernels, and their parameters by kernel; templates end in `<...>`.
        has_main: whether it is a host program.
        known, missing: the intrinsics that it calls, and those of them that the simulator does not support.
        remedies: for each missing one the location of its first call, why it is not simulated, or what to call instead.
        libraries: functions of the vendor's host libraries that it calls and that are not simulated.
        error: the compiler's message if it does not compile.
    """

    file: str
    compiles: bool
    entries: tuple[str, ...] = ()
    parameters: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    has_main: bool = False
    known: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    remedies: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    error: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def files_of(paths: Iterable[str | Path]) -> list[Path]:
    """Return the files among the paths, and every `.mlu` file of the folders. Raises `InputError` for missing paths."""
    files: list[Path] = []
    for folder_or_file in paths:
        path = as_path(folder_or_file)
        if path.is_dir():
            found_files = sorted(path.rglob(f"*{SUFFIX}"))
            if not found_files:
                raise InputError(f"{folder_or_file}: no {SUFFIX} file in this folder")
            files += found_files
        elif path.is_file():
            files.append(path)
        else:
            alone, entry = file_and_kernel(str(folder_or_file))
            remedy = f"; all entries of a file are checked: name the file, {alone}" if entry else ""
            raise InputError(f"{folder_or_file}: no such file or folder{remedy}")
    return files


def survey(
    paths: Sequence[str | Path],
    device: str | Path | Board = DEFAULT_BOARD,
    *,
    workers: int = 2,
    **options: Any,
) -> Iterator[Surveyed]:
    """Yield the survey of each file, in order; `options` are those of `mlusim.bangc.compile`."""

    def look(path: Path) -> Surveyed:
        try:
            module = compile_file(path, device, syntax_only=True, **options)
        except CompileError as error:
            return Surveyed(str(path), compiles=False, error=error.message)
        known_calls = tuple(sorted(set(module.calls) & intrinsics.names()))
        missing = tuple(sorted(name for name in module.missing if not is_of_library(name)))
        remedies = tuple(_remedy(name, *module.missing[name]) for name in missing)
        libraries = tuple(sorted(name for name in module.missing if is_of_library(name)))
        return Surveyed(
            str(path),
            compiles=True,
            entries=tuple(module.entries),
            parameters=module.parameters,
            has_main=module.has_main,
            known=known_calls,
            missing=missing,
            remedies=remedies,
            libraries=libraries,
        )

    with ThreadPoolExecutor(workers) as pool:
        yield from pool.map(look, files_of(paths))


def _remedy(name: str, file: str, line: int) -> str:
    return f"{Path(file).name}:{line}: {not_simulated(name)}"
