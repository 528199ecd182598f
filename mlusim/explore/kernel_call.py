"""A user's kernel with its arguments, as run by commands, sweeps and tuning."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from mlusim.cores.tasks.launch_checks import keyword_names
from mlusim.dtypes import dtype_name, dtype_of
from mlusim.errors import InputError, KernelError, LaunchError, MissingDataError, MlusimError, for_caller
from mlusim.explore.python_files import where_in
from mlusim.explore.user_kernels import VARIABLE, UserKernel
from mlusim.files import cannot_read
from mlusim.hardware import Board
from mlusim.host.arguments import IN_PLACE, FileInput, InOut, Output, assign, parse_argument, read_inputs
from mlusim.host.array_files import split_key
from mlusim.host.device import Device
from mlusim.host.run import run as run_kernel
from mlusim.host.verify import verify
from mlusim.results.result import Result
from mlusim.verifier.report import Report

Ran = TypeVar("Ran")

# Parameters of `run`, `verify` and `Device.launch`: a kernel's parameters with these names must be bound in the kernel.
OF_A_RUN = frozenset({*keyword_names(run_kernel), *keyword_names(verify), *keyword_names(Device.launch)})


@dataclass(frozen=True, kw_only=True)
class KernelCall:
    """A user's function and its arguments.

    Attributes:
        kernel: a kernel; or a plain function (device, shape, dtype, **settings) that uploads and launches.
        arguments: as text, `name=value` or `value`: see `mlusim.host.arguments`.
        shape, dtype: of the tensors without an argument: random inputs, and outputs (`UserKernel.types`).
        settings: values for parameters with a default.
        launch: `dim` and `kind`, if given.
        seed: seed of the random inputs.
        theory_ops: operations that the kernel's purpose requires; None if not declared.
    """

    kernel: UserKernel
    arguments: tuple[str, ...] = ()
    shape: tuple[int, ...] | None = None
    dtype: Any = "float32"
    settings: Mapping[str, Any] = field(default_factory=dict)
    launch: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    theory_ops: int | None = None

    def values(self, board: Board | None = None, *, data: bool = True) -> dict[str, Any]:
        """Return the arguments by parameter name: arrays, `Output`, numbers. Raises `InputError`."""
        kernel = self.kernel
        arguments = assign(
            kernel.name,
            kernel.tensors,
            map(parse_argument, self.arguments),
            shape=self.shape,
            dtype=self.dtype,
            optional=tuple(kernel.settings),
            types=kernel.types,
        )
        read = read_inputs(arguments, seed=self.seed, data=data, boards=[board] if board else [])
        parameters = list(inspect.signature(kernel.function).parameters.values())[1:]
        given_values = {**self.settings, **read}
        return {
            parameter.name: given_values.get(parameter.name, parameter.default)
            for parameter in parameters
            if parameter.kind not in VARIABLE
        }

    def tensors(self) -> list[dict[str, Any]]:
        """Name, shape, element type and role of each tensor among the arguments, for records of a run."""
        if self.kernel.launches:
            return []
        values = self.values(data=False)
        shaped = {name: value.array if isinstance(value, InOut) else value for name, value in values.items()}
        return [
            {
                "name": name,
                "shape": list(value.shape),
                "dtype": dtype_name(dtype_of(value.dtype)),
                "role": "output" if isinstance(values[name], Output | InOut) else "input",
            }
            for name, value in shaped.items()
            if isinstance(value, Output | np.ndarray)
        ]

    def _call(self, board: Board, *, data: bool = True) -> tuple[Any, list[Any], dict[str, Any]]:
        """Return the kernel, its positional arguments in order, and its keyword arguments with those of the launch."""
        function = self.kernel.function
        values = self.values(board, data=data)
        by_keyword = {name: values.pop(name) for name in keyword_names(function)}
        # These names are parameters of `run`, so they cannot be passed by keyword.
        run_keywords = {name: by_keyword.pop(name) for name in [*by_keyword] if name in OF_A_RUN}
        if run_keywords:
            function = partial(function, **run_keywords)
            function.__name__ = self.kernel.name  # type: ignore[attr-defined]  # a partial takes any attribute
        return function, list(values.values()), {**self.launch, "theory_ops": self.theory_ops, **by_keyword}

    def run(self, board: Board, *, data: bool = True, progress: bool = False, **options: Any) -> Result:
        """Run the kernel on a temporary device. Raises `InputError`, and the errors of the run.

        Args:
            board: the board.
            data: False: timing only.
            progress: show a progress bar.
            options: options of `mlusim.run`, for a kernel.
        """
        with self.kernel.importable():
            if self.kernel.launches:
                if options.get("steady"):
                    raise InputError(
                        f"{self.kernel.name} is a plain function that launches kernels: steady-state timing is of one "
                        f"kernel; omit {for_caller('--steady', 'steady')}"
                    )
                limits = {name: value for name, value in options.items() if name == "max_operations"}
                return self._launched(Device(board, data=data, progress=progress, **limits))
            function, values, keywords = self._call(board, data=data)
            with refused_as_input():
                return run_kernel(function, *values, device=board, data=data, progress=progress, **options, **keywords)

    def run_timed(self, board: Board, *, data: bool = False, **options: Any) -> Result:
        """Run the kernel timing only, or with data if it loads values that only a run with data has; see `run`."""
        if data or options.get("steady"):
            return self.run(board, data=data, **options)
        return with_data_if_needed(partial(self.run, board, **options))

    def verify(self, board: Board, **options: Any) -> Report:
        """Verify the kernel on a temporary device; see `mlusim.verify`. Raises `InputError`."""
        if self.kernel.launches:
            raise InputError(
                f"{self.kernel.name} is a plain function that launches kernels: verify runs one kernel, an `async def`"
            )
        with self.kernel.importable():
            function, values, keywords = self._call(board)
            with refused_as_input():
                return verify(function, *values, device=board, **options, **keywords)

    def _launched(self, device: Device) -> Result:
        if self.arguments or self.launch or self.shape is None:
            raise InputError(
                f"{self.kernel.name} is a plain function (device, shape, dtype, **settings) that uploads and launches: "
                + for_caller(
                    "give --shape and --set, no --arg, --dim or --kind",
                    "pass a shape and settings, no arguments, dim or kind",
                )
            )
        try:
            self.kernel.function(device, self.shape, self.dtype, **self.settings)
        except MlusimError:
            raise
        except Exception as error:
            location = where_in(error, self.kernel.file)
            raise KernelError(f"{self.kernel.name}: {location}{type(error).__name__}: {error}") from error
        device.synchronize()
        return device.result(self.kernel.name, theory_ops=self.theory_ops)


def with_data_if_needed(run: Callable[..., Ran]) -> Ran:
    """Return `run(data=False)`, or `run(data=True)` if a kernel loads values that only a run with data has."""
    try:
        return run(data=False)
    except MissingDataError:
        return run(data=True)


@contextmanager
def refused_as_input() -> Iterator[None]:
    """Convert `LaunchError` to `InputError`: kernel, arguments, grid and task type are all named by the user."""
    try:
        yield
    except LaunchError as error:
        raise InputError(error.message) from None


def absolute(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the arguments with absolute file paths, for another process."""
    return tuple(_with_file(text, lambda path: str(path.resolve())) for text in arguments)


def without_folder(text: str) -> str:
    """Return an argument with its file, if it has one, named without the folder, which only this machine has."""
    return _with_file(text, lambda path: path.name)


def contents(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with file names replaced by digests of the contents, for a sweep's key."""
    return [_with_file(text, _sha256) for text in arguments]


def _with_file(text: str, renamed: Callable[[Path], str]) -> str:
    """Return an argument with another name for its file; one without a file as it is."""
    argument = parse_argument(text)
    if not isinstance(argument.value, FileInput):
        return text
    path, key = split_key(argument.value.path)
    name = f"{argument.name}=" if argument.name else ""
    return f"{name}{IN_PLACE if argument.value.in_place else ''}{renamed(path)}{f':{key}' if key else ''}"


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise InputError(cannot_read(path, error, f"--arg {path}")) from None
