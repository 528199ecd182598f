"""A compiled BANG C file: its entries as kernels, its images on each core."""

from __future__ import annotations

import inspect
import json
import tempfile
import weakref
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from keyword import iskeyword
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlusim.bangc import intrinsics, toolchain
from mlusim.bangc.debug_lines import line_table
from mlusim.bangc.image import KINDS, SRAM, Image, Room, Runtime, load_runtime
from mlusim.bangc.rewriting import Rewritten, rewrite
from mlusim.cores.instructions.conversion import conversion
from mlusim.errors import CompileError, InputError, MlusimError, nearest
from mlusim.hardware import Board, board
from mlusim.host.device import Device

if TYPE_CHECKING:
    from mlusim.cores.chip import Chip
    from mlusim.cores.core import Core

Kernel = Callable[..., Coroutine[Any, None, None]]
_POOL = 2


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of an entry: its name, the code of its type, its bytes."""

    name: str
    code: int
    size: int


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """An entry as every image has it: where it is, what it takes."""

    name: str
    file: str
    line: int
    function: int
    body: int
    parameters: tuple[Parameter, ...]


class Cluster:
    """The images of one cluster: they share its SRAM."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.sram = Room(module.board.vector_alignment_bytes)
        self.images: dict[int, Image] = {}

    def image(self, core_id: int) -> Image:
        """The image of a core, or of the memory core."""
        found = self.images.get(core_id)
        if found is None:
            alignment = self.module.board.vector_alignment_bytes
            rooms: list[Room | None] = [self.sram if kind == SRAM else Room(alignment) for kind in range(len(KINDS))]
            found = self.images[core_id] = Image(self.module.runtime, self.module.binary, rooms)
        return found


class Module:
    """A compiled file. `module["name"]` is the kernel of an entry, `module["name<float, 4>"]` that of a template.

    Attributes:
        path: the source file.
        board: what it was compiled for.
        entries: names of the entries; templates are instantiated by name.
        missing: intrinsics that the file calls and the simulator does not know, with file and line of the first call.
    """

    def __init__(
        self,
        path: Path,
        on: Board,
        *,
        include: Sequence[str | Path],
        define: Sequence[str],
        std: str,
        compiler: toolchain.Compiler,
        instantiate: tuple[str, ...] = (),
        syntax_only: bool = False,
    ) -> None:
        self.path = path
        self.board = on
        self._options: dict[str, Any] = {"include": include, "define": define, "std": std, "compiler": compiler}
        self._instantiated: dict[str, Module] = {}
        self._kernels: dict[str, Kernel] = {}
        self._pools: weakref.WeakKeyDictionary[Chip, dict[int, Cluster]] = weakref.WeakKeyDictionary()
        self._free: list[Cluster] = []
        preprocessed = _preprocess(path, on, include, define, std, compiler)
        own = (str(toolchain.INCLUDE), str(toolchain.generated_headers()))
        self.rewritten: Rewritten = rewrite(preprocessed, instantiate, own, is_unknown)
        self.missing = _missing(self.rewritten)
        if syntax_only:
            _check(path, self.rewritten, std, compiler)
            return
        self.binary = _build(path, self.rewritten, std, compiler)
        self.runtime: Runtime = load_runtime(toolchain.runtime(compiler))
        self._points: dict[str, EntryPoint] | None = None

    @property
    def entries(self) -> list[str]:
        """Names of the entries, in the order of the file."""
        return [entry.name + ("<...>" if entry.template else "") for entry in self.rewritten.entries]

    def __getitem__(self, name: str) -> Kernel:
        """The kernel of an entry. Raises `InputError` for a name that the file does not have."""
        known = self._kernels.get(name)
        if known is None:
            known = self._kernels[name] = self._kernel(name)
        return known

    def __repr__(self) -> str:
        return f"<{self.path.name} for {self.board.name}: {', '.join(self.entries)}>"

    def points(self) -> dict[str, EntryPoint]:
        """The entries of the binary by name, with their places relative to an image."""
        if self._points is None:
            cluster = self._free.pop() if self._free else Cluster(self)
            image = cluster.image(0)
            self._points = {one.name: one for one in (_point(image, record) for record in image.entries())}
            self._free.append(cluster)
        return self._points

    def line_of(self, address: int) -> tuple[str, int, str] | None:
        """File, line and function of an address of the binary."""
        found = line_table(self.binary).find(address)
        return (*found, "") if found is not None and found[0] else None

    def image(self, core: Core) -> Image:
        """The image of a core of a device."""
        chip, unit = core.issuer.chip, core.issuer.unit
        clusters = self._pools.get(chip)
        if clusters is None:
            clusters = self._pools[chip] = {}
            weakref.finalize(chip, self._release, clusters)
        cluster = clusters.get(unit.cluster.index)
        if cluster is None:
            cluster = clusters[unit.cluster.index] = self._free.pop() if self._free else Cluster(self)
        return cluster.image(unit.core_id)

    def _release(self, clusters: dict[int, Cluster]) -> None:
        self._free.extend(clusters.values())

    def unknown_text(self, name: str) -> str:
        """What there is to say of an intrinsic that the simulator does not know."""
        others = sorted(set(self.missing) - {name})
        rest = f"; the file also calls {', '.join(others)}, unknown too" if others else ""
        near = nearest(name, intrinsics.names())
        return f"{name} is not simulated: {near}All other intrinsics of {self.path.name} are known{rest}".replace(
            "All other intrinsics of", "the other intrinsics of"
        )

    def _kernel(self, name: str) -> Kernel:
        module = self
        wanted = "".join(name.split())
        if "<" in name:
            module = self._instantiated.get(wanted) or self._instantiate(name, wanted)
        points = {"".join(key.split()): point for key, point in module.points().items()}
        point = points.get(wanted)
        if point is None:
            templates = [entry for entry in self.rewritten.entries if entry.name == name and entry.template]
            if templates:
                raise InputError(
                    f"{name} of {self.path.name} is a template: name what it is instantiated with, such as "
                    f"{name}<{', '.join(['float'] * templates[0].template)}>"
                )
            there = ", ".join(self.entries) or "none: no function is __mlu_entry__ or __mlu_global__"
            raise InputError(f"{self.path.name} has no entry {name!r}; {nearest(name, points)}its entries: {there}")
        from mlusim.bangc.kernel import kernel_of

        return kernel_of(module, point)

    def _instantiate(self, name: str, wanted: str) -> Module:
        base = name.split("<", 1)[0].strip()
        if all(base not in (entry.name, entry.qualified) for entry in self.rewritten.entries):
            raise InputError(
                f"{self.path.name} has no entry {base!r}; {nearest(base, self.entries)}its entries: "
                f"{', '.join(self.entries)}"
            )
        made = Module(self.path, self.board, instantiate=(name,), **self._options)
        self._instantiated[wanted] = made
        return made


def compile(  # noqa: A001 - what it does
    path: str | Path,
    device: str | Path | Board | Device = "mlu370-x4",
    *,
    include: Sequence[str | Path] = (),
    define: Sequence[str] = (),
    std: str = "gnu++17",
    compiler: str | None = None,
    syntax_only: bool = False,
) -> Module:
    """Compile a BANG C file for a board.

    Args:
        path: the `.mlu` file.
        device: a device, a board, a preset's name or a TOML file: it decides `__BANG_ARCH__` and the sizes of memories.
        include: folders to look for headers in, after the file's own.
        define: macros, as `NAME` or `NAME=VALUE`.
        std: the C++ standard; 17 or later.
        compiler: the command of a C++ compiler; by default the system's, else the one of the `ziglang` wheel.
        syntax_only: look for errors and unknown intrinsics; nothing can run then.

    Raises `CompileError` with the compiler's message at the user's line, `InputError` where there is no such file or no
    compiler. The file is native code: what it does beside its kernels happens on this machine.
    """
    file = Path(path)
    if not file.is_file():
        raise InputError(f"{file}: no such file")
    return Module(
        file.resolve(),
        device.board if isinstance(device, Device) else board(device),
        include=include,
        define=define,
        std=std,
        compiler=toolchain.find_compiler(compiler),
        syntax_only=syntax_only,
    )


def _preprocess(
    path: Path,
    on: Board,
    include: Sequence[str | Path],
    define: Sequence[str],
    std: str,
    compiler: toolchain.Compiler,
) -> str:
    command = [*compiler.command, f"-std={std}", *toolchain.board_defines(on)]
    command += [f"-D{one}" for one in define]
    own = [str(toolchain.INCLUDE), str(toolchain.generated_headers())]
    folders = [str(path.parent), *map(str, include), *own]
    command += [word for folder in folders for word in ("-I", folder)]
    command += ["-include", "mlu.h", "-E", "-x", "c++", str(path)]
    done = toolchain.run(command)
    if done.returncode:
        raise CompileError(_compiler_text(done.stderr, path))
    return done.stdout


def _check(path: Path, rewritten: Rewritten, std: str, compiler: toolchain.Compiler) -> None:
    """Let the compiler read the text, no more."""
    command = [*compiler.command, f"-std={std}", *compiler.options, "-fsyntax-only", "-x", compiler.language, "-"]
    done = toolchain.run(command, rewritten.text)
    if done.returncode:
        raise CompileError(_compiler_text(done.stderr, path))


def _build(path: Path, rewritten: Rewritten, std: str, compiler: toolchain.Compiler) -> Path:
    folder = toolchain.cache_folder()
    options = (f"-std={std}", *compiler.options, *compiler.seen)
    key = toolchain.content_key(rewritten.text, compiler.language, *options, *compiler.command, compiler.version)
    target = folder / f"{key}.so"
    failed = folder / f"{key}.json"
    if target.exists():
        return target
    if failed.exists():
        raise CompileError(json.loads(failed.read_text())["message"])
    with tempfile.TemporaryDirectory() as work:
        source, made, linked = Path(work) / "kernel.cpp", Path(work) / "kernel.o", Path(work) / "kernel.so"
        source.write_text(rewritten.text)
        language = compiler.language
        done = toolchain.run([*compiler.command, *options, "-x", language, "-c", str(source), "-o", str(made)])
        if done.returncode:
            message = _compiler_text(done.stderr, path)
            toolchain.publish(failed, json.dumps({"message": message}).encode())
            raise CompileError(message)
        undefined = [] if compiler.gnu else ["-Wl,-undefined,dynamic_lookup"][:0]
        done = toolchain.run([*compiler.command, "-shared", *undefined, str(made), "-o", str(linked)])
        if done.returncode:
            raise CompileError(_compiler_text(done.stderr, path))
        toolchain.publish(target, linked.read_bytes())
    return target


_MOST_LINES = 40


def _compiler_text(text: str, path: Path) -> str:
    """The compiler's messages, from the first error on."""
    lines = [line for line in text.splitlines() if line.strip()]
    first = next((index for index, line in enumerate(lines) if "error" in line), 0)
    context = first
    while context and (": In " in lines[context - 1] or "from " in lines[context - 1]):
        context -= 1
    shown = lines[context : context + _MOST_LINES]
    return f"{path.name} does not compile:\n" + "\n".join(shown)


def _missing(rewritten: Rewritten) -> dict[str, tuple[str, int]]:
    return {name: place for name, place in rewritten.calls.items() if is_unknown(name)}


def is_unknown(name: str) -> bool:
    """Whether a name is one of BANG C that neither the table of intrinsics nor the headers have."""
    if not looks_like(name) or name in intrinsics.names() or name in toolchain.header_names():
        return False
    return name.startswith("__bang_") or conversion(name) is None


_PREFIXES = (
    "__bang_",
    "__mem",
    "__nram",
    "__sram",
    "__gdram",
    "__ldram",
    "__wram",
    "__sync",
    "__vv_",
    "__cn_",
    "__gather",
    "__scatter",
    "__load_",
    "__store_",
    "__nv_",
    "__mlu",
    "__half2",
    "__float2",
    "__int2",
    "__int32",
    "__int16",
    "__int8",
    "__bfloat16",
    "__short2",
    "__uint",
    "__breakdump",
)


def looks_like(name: str) -> bool:
    """Whether a word with two underscores is one of BANG C rather than of the compiler or the C library."""
    return name.startswith(_PREFIXES)


def _point(image: Image, record: Any) -> EntryPoint:
    names = [name for name in record.parameters.decode().split(",") if name]
    count = int(record.count)
    names += [f"argument{number}" for number in range(len(names), count)]
    parameters = tuple(
        Parameter(names[k] or f"argument{k}", int(record.codes[k]), int(record.sizes[k])) for k in range(count)
    )
    return EntryPoint(
        record.name.decode(),
        record.file.decode(),
        int(record.line),
        int(record.function) - image.base,
        int(record.body) - image.base,
        parameters,
    )


def signature_of(point: EntryPoint) -> inspect.Signature:
    """The signature of a kernel: `core` and the entry's own parameters."""
    seen: dict[str, int] = {}
    parameters = [inspect.Parameter("core", inspect.Parameter.POSITIONAL_ONLY)]
    for one in point.parameters:
        usable = one.name.isidentifier() and not iskeyword(one.name) and one.name not in ("core", *seen)
        name = one.name if usable else f"{one.name}_" if iskeyword(one.name) else f"{one.name}_{len(seen)}"
        seen[name] = 1
        parameters.append(inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD))
    try:
        return inspect.Signature(parameters)
    except ValueError as error:
        raise MlusimError(f"{point.name}: its parameters {list(seen)} are no names: {error}") from error
