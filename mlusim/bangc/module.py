"""A compiled BANG C file: its entries as kernels, its images on each core."""

from __future__ import annotations

import re
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlusim.bangc.calls import intrinsics
from mlusim.bangc.compiler import toolchain
from mlusim.bangc.compiler.compilation import Options
from mlusim.bangc.compiler.entries import Entry
from mlusim.bangc.compiler.headers import board_defines
from mlusim.bangc.compiler.translation import translate
from mlusim.bangc.compiler.unknown_names import not_simulated
from mlusim.bangc.debug_lines import line_table
from mlusim.bangc.execution.device_variables import DeviceVariables
from mlusim.bangc.execution.entry_points import EntryPoint, entry_point
from mlusim.bangc.execution.file_variables import function_symbols
from mlusim.bangc.execution.image import Image, Room, Runtime, load_runtime
from mlusim.bangc.runtime_layout import KINDS, SRAM
from mlusim.cores.core import Kernel
from mlusim.errors import CompileError, InputError
from mlusim.hardware import DEFAULT_BOARD, Board, board
from mlusim.host.device import Device
from mlusim.inputs import as_file, as_paths, as_text, as_texts, check_flags
from mlusim.spelling import nearest

if TYPE_CHECKING:
    from mlusim.cores.core import Core
    from mlusim.cores.machine.chip import Chip

STANDARD = "gnu++17"
_MAIN = re.compile(r"\bmain\s*\(")
_OLDER = re.compile(r"(?:c|gnu)\+\+(?:98|03|0x|11|1y|14)$")
# Names of unknown functions in one message.
_SHOWN = 5


class Cluster:
    """The images of one cluster, which share its SRAM."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.sram = Room(module.board.vector_alignment_bytes)
        self.images: dict[int, Image] = {}

    def reset(self) -> None:
        """Reset the variables of all images for another device."""
        for image in self.images.values():
            image.reset()

    def image(self, core_id: int) -> Image:
        """Return the image of a core, or of the memory core."""
        image = self.images.get(core_id)
        if image is None:
            alignment = self.module.board.vector_alignment_bytes
            rooms: list[Room | None] = [self.sram if kind == SRAM else Room(alignment) for kind in range(len(KINDS))]
            shared = self.module.variables.room
            image = self.images[core_id] = Image(self.module.runtime, self.module.binary, rooms, shared)
        return image


class Module:
    """A compiled file. `module["name"]` is the kernel of an entry, `module["name<float, 4>"]` that of a template.

    Attributes:
        path: the source file.
        board: the board that it was compiled for.
        entries, parameters: names of the entries; templates are instantiated by name.
        variables: its variables in GDRAM, which the instances of its templates share.
        calls: intrinsics and library functions that the file calls, with file and line of the first call.
        missing: those of them that the simulator does not support.
        digest: as in `Translation`.
    """

    def __init__(
        self,
        path: Path,
        board: Board,
        *,
        options: Options,
        sources: tuple[Path, ...] = (),
        instantiate: tuple[str, ...] = (),
        syntax_only: bool = False,
        instance_of: Module | None = None,
    ) -> None:
        self.path = path
        self.board = board
        self.options = options
        self.sources = sources
        self._instantiate_names = instantiate
        self._instantiated: dict[str, Module] = {}
        self._variants: dict[tuple[Any, ...], Module] = {_key(board, options): self}
        self._kernels: dict[str, Kernel] = {}
        self._pools: weakref.WeakKeyDictionary[Chip, dict[int, Cluster]] = weakref.WeakKeyDictionary()
        self._free: list[Cluster] = []
        # Names and initial values of its variables are in the images of the module that it is an instance of.
        self._instance_of = instance_of
        self.variables: DeviceVariables = (
            instance_of.variables if instance_of else DeviceVariables(path.name, board.vector_alignment_bytes)
        )
        self._points: dict[str, EntryPoint] | None = None
        self._host: Module | None = None
        self._syntax_only = syntax_only
        program = translate((path, *sources), board, options, instantiate, syntax_only=syntax_only)
        self._texts = program.texts
        self.calls = program.calls
        self.missing = program.missing
        self.digest = program.digest
        if program.binary is None:
            return
        self.binary = program.binary
        self.runtime: Runtime = load_runtime(toolchain.runtime(options.compiler))
        self.runtime.set_operations(intrinsics.varying(), intrinsics.droppable())

    @property
    def has_main(self) -> bool:
        """Whether the file has a `main`."""
        if any(text.has_main for text in self._texts):
            return True
        # Under `#ifndef __BANG_ARCH__`, only the host has it.
        files = () if self.options.for_host else (self.path, *self.sources)
        names_main = any(_MAIN.search(file.read_text(encoding="utf-8", errors="replace")) for file in files)
        return names_main and self.host.has_main

    @property
    def host(self) -> Module:
        """The file compiled for the host, without `__BANG_ARCH__`: itself if the code is the same."""
        if self._host is None:
            options = replace(self.options, for_host=True)
            try:
                checked = self._syntax_only
                module = Module(self.path, self.board, options=options, sources=self.sources, syntax_only=checked)
            except CompileError as error:
                remedy = "note: put what only the board has under #ifdef __BANG_ARCH__"
                raise CompileError(f"in host code, where __BANG_ARCH__ is not defined, {error}\n{remedy}") from None
            self._host = self if not checked and module.binary == self.binary else module
        return self._host

    @property
    def entries(self) -> list[str]:
        """Names of the entries, in the order of the file."""
        return list(self.parameters)

    @property
    def parameters(self) -> dict[str, tuple[str, ...]]:
        """The declarations of the parameters of each entry, `const float *x`, in the order of the file."""
        return {
            entry.launch_name + ("<...>" if entry.template else ""): tuple(
                re.sub(r"\* (?=[*\w])", "*", declaration) for declaration in entry.types
            )
            for entry in self._entries
        }

    @property
    def _entries(self) -> list[Entry]:
        return [entry for text in self._texts for entry in text.entries]

    def __getitem__(self, name: str) -> Kernel:
        """Return the kernel of an entry. Raises `InputError` for an unknown name."""
        cached = self._kernels.get(name)
        if cached is None:
            cached = self._kernels[name] = self._kernel(name)
        return cached

    def __repr__(self) -> str:
        return f"<{self.path.name} for {self.board.name}: {', '.join(self.entries)}>"

    def points(self) -> dict[str, EntryPoint]:
        """Return the entries of the binary by name, with addresses relative to an image."""
        if self._points is None:
            cluster = self._free.pop() if self._free else Cluster(self)
            image = cluster.image(0)
            self._points = {point.name: point for point in (entry_point(image, record) for record in image.entries())}
            self._free.append(cluster)
        return self._points

    def point(self, name: str) -> EntryPoint:
        """Return the entry with a name. Raises `InputError` if there is none, for example in code for another board."""
        point = self.points().get(name)
        if point is None:
            raise InputError(f"{self.path.name} has no entry {name!r} for {self.board.name}")
        return point

    def is_kernel(self, address: int) -> bool:
        """Whether the function at an address of the binary is an entry, or may be one."""
        if any(point.function == address for point in self.points().values()):
            return True
        symbol = function_symbols(self.binary).get(address)
        # The symbol of a template's instance contains its name, after the name's length.
        names = (entry.name for entry in self._entries)
        return symbol is None or any(symbol == name or f"{len(name)}{name}" in symbol for name in names)

    def for_board(self, board: Board, *, checked: bool | None = None) -> Module:
        """Return the same file for a board; compiled again if the compiled code would differ.

        `checked`: whether with checks, as in `compile`; None: as this module.
        """
        options = self.options if checked is None else replace(self.options, checked=checked)
        key = _key(board, options)
        module = self._variants.get(key)
        if module is None:
            names = self._instantiate_names
            template = self._instance_of and self._instance_of.for_board(board, checked=checked)
            module = Module(
                self.path, board, options=options, sources=self.sources, instantiate=names, instance_of=template
            )
            self._variants[key] = module
        return module

    def line_of(self, address: int) -> tuple[str, int, str] | None:
        """Return file, line and function of an address of the binary.

        Inlined code of a library's header is attributed to the calling line.
        """
        return _line_of(self.binary, address)

    def image(self, core: Core) -> Image:
        """Return the image of a core of a device, whose GDRAM then has the file's variables."""
        chip, unit = core.issuer.chip, core.issuer.unit
        image = self._cluster(chip, unit.cluster.index).image(unit.core_id)
        self.variables.place(chip)
        return image

    def sram_of(self, chip: Chip, cluster: int) -> Room:
        """Return the arrays of `__mlu_shared__` in a cluster of a device."""
        memory = self._cluster(chip, cluster)
        # The first image of a cluster places the arrays at file scope.
        memory.image(0)
        return memory.sram

    def _cluster(self, chip: Chip, index: int) -> Cluster:
        clusters = self._pools.get(chip)
        if clusters is None:
            clusters = self._pools[chip] = {}
            # Released when the chip is freed, at the latest; the next device can then reuse the loaded copies.
            chip.at_close.append(weakref.finalize(chip, self._release, clusters))
        cluster = clusters.get(index)
        if cluster is None:
            cluster = clusters[index] = self._free.pop() if self._free else Cluster(self)
        return cluster

    def _release(self, clusters: dict[int, Cluster]) -> None:
        for cluster in clusters.values():
            cluster.reset()
        self._free.extend(clusters.values())
        clusters.clear()

    def file_variables(self) -> dict[tuple[int, str], tuple[bytes, bytes]]:
        """Return variables of the file without a memory space, by image and name: initial value and current value."""
        variables: dict[tuple[int, str], tuple[bytes, bytes]] = {}
        for module in self._variants.values():
            for image in module.images():
                variables |= {(id(image), name): (fresh, content) for name, fresh, content in image.file_variables()}
        return variables

    def images(self) -> list[Image]:
        """Return all images of the binary, in use or free."""
        clusters = [*self._free, *(cluster for pool in self._pools.values() for cluster in pool.values())]
        return [image for cluster in clusters for image in cluster.images.values()]

    def unknown_text(self, name: str) -> str:
        """Describe an intrinsic that the simulator does not support."""
        others = sorted(set(self.missing) - {name})
        names = ", ".join(others[:_SHOWN])
        more_text = (
            f" and {len(others) - _SHOWN} more, which `mlusim bangc check` lists" if len(others) > _SHOWN else ""
        )
        others_text = f"the file also calls the unknown {names}{more_text}" if others else ""
        text = not_simulated(name)
        stop = " " if text.endswith("?") else "; "
        return f"{text}{stop}{others_text or f'the other intrinsics of {self.path.name} are known'}"

    def _kernel(self, name: str) -> Kernel:
        module = self
        name_without_blanks = "".join(name.split())
        if "<" in name:
            module = self._instantiated.get(name_without_blanks) or self._instantiate(name, name_without_blanks)
        points = {"".join(key.split()): point for key, point in module.points().items()}
        # A qualified name is accepted if the entry's own name is unique.
        launch_names = [
            entry.launch_name
            for entry in self._entries
            if entry.qualified == name_without_blanks and not entry.template
        ]
        point = points.get(name_without_blanks) or (
            points.get("".join(launch_names[0].split())) if len(launch_names) == 1 else None
        )
        if point is None:
            templates = [entry for entry in self._entries if entry.name == name and entry.template]
            if templates:
                raise InputError(
                    f"{name} of {self.path.name} is a template: name what it is instantiated with, such as "
                    f"{name}<{', '.join(['float'] * min(templates[0].template, 2))}>"
                )
            raise self._no_entry(name, points)
        from mlusim.bangc.execution.kernel import kernel_of

        return kernel_of(module, point)

    def _no_entry(self, name: str, names: Iterable[str]) -> InputError:
        """Return the error for a name that is not an entry's."""
        if not self.entries:
            return InputError(f"{self.path.name} has no entries: mark a function with __mlu_entry__ or __mlu_global__")
        entries_text = ", ".join(self.entries)
        return InputError(f"{self.path.name} has no entry {name!r}; {nearest(name, names)}its entries: {entries_text}")

    def _instantiate(self, name: str, instance: str) -> Module:
        base = name.split("<", 1)[0].strip()
        if all(base not in (entry.name, entry.qualified) for entry in self._entries):
            raise self._no_entry(base, self.entries)
        module = Module(
            self.path,
            self.board,
            options=self.options,
            sources=self.sources,
            instantiate=(name,),
            instance_of=self,
        )
        self._instantiated[instance] = module
        return module


@lru_cache(maxsize=4096)
def _line_of(binary: Path, address: int) -> tuple[str, int, str] | None:
    table = line_table(binary)
    location = table.find_in_users_code(address) or table.find(address)
    return (*location, "") if location is not None and location[0] else None


def _key(board: Board, options: Options) -> tuple[Any, ...]:
    """Return the properties of a board, and the option, in which the variants of a module differ."""
    return (*board_defines(board), board.vector_alignment_bytes, options.checked)


def compile(  # noqa: A001 - the public name
    path: str | Path,
    device: str | Path | Board | Device = DEFAULT_BOARD,
    *,
    sources: Sequence[str | Path] = (),
    include: Sequence[str | Path] = (),
    define: Sequence[str] = (),
    std: str = STANDARD,
    compiler: str | None = None,
    syntax_only: bool = False,
    checked: bool = False,
) -> Module:
    """Compile a BANG C file for a board.

    Args:
        path: the `.mlu` file.
        device: a device, a board, a preset's name or a TOML file; determines `__BANG_ARCH__` and the sizes of memories.
        sources: more files, each compiled separately and linked with the first.
        include: folders to search for headers, after the file's own.
        define: macros, as `NAME` or `NAME=VALUE`.
        std: the C++ standard; 17 or later.
        compiler: the command of a C++ compiler; by default the system's, else the one of the `ziglang` wheel.
        syntax_only: only check for errors and unknown intrinsics; the result cannot run.
        checked: with g++, also check each access to a local variable or array, and the values of variables that some
            paths leave unset. The checks change the time of scalar code. `mlusim.verify` and `mlusim.run(check=True)`
            make them in a run of their own; `Device.verify` needs a file that is compiled with them.

    Raises `CompileError` with the compiler's message at the user's line, `InputError` if the file or a compiler is
    missing.
    The file is native code: its effects outside its kernels happen on this machine.
    """
    check_flags(syntax_only=syntax_only, checked=checked)
    files = [as_file(path), *map(as_file, as_paths(sources))]
    for file in files:
        if file.suffix == ".py":
            raise InputError(f"{file} is Python, not BANG C: `mlusim run {file}:KERNEL` runs a kernel of it")
        with file.open("rb") as stream:
            if b"\0" in stream.read(4096):
                raise InputError(f"{file} is not text: name a BANG C file; arrays are for `--arg`")
    if compiler is not None:
        as_text("compiler", compiler)
    return Module(
        files[0].resolve(),
        device.board if isinstance(device, Device) else board(device),
        options=Options(
            include=tuple(map(str, _folders(include))),
            define=as_texts("define", define),
            std=_standard(std),
            compiler=toolchain.find_compiler(compiler),
            checked=checked,
        ),
        sources=tuple(file.resolve() for file in files[1:]),
        syntax_only=syntax_only,
    )


def _folders(include: object) -> list[Path]:
    folders = as_paths(include)
    for folder in folders:
        if not folder.is_dir():
            raise InputError(f"include {folder}: there is no such folder; the compiler would ignore it")
    return folders


def _standard(std: object) -> str:
    name = as_text("std", std)
    if _OLDER.match(name):
        raise InputError(
            f"std={name}: the headers need C++17 or later; leave it out, since {STANDARD}, the default, also compiles "
            "most C++11 and C++14"
        )
    return name
