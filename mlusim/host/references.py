"""References of `mlusim.verify`: the outputs that a kernel should write, and the findings on those that differ."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from traceback import extract_tb
from typing import Any

import numpy as np

from mlusim.arrays import Array
from mlusim.errors import InputError, for_caller, shown
from mlusim.inputs import as_array
from mlusim.log import Log
from mlusim.memory.view import View
from mlusim.results.memory_state import Repeat
from mlusim.source_code import source_name
from mlusim.verifier.findings import Finding
from mlusim.verifier.wrong_values import compare_output

Reference = (
    Array | Callable[..., Any] | tuple[Array | None, ...] | list[Array | None] | Mapping[str, Array | None] | None
)


def expected_outputs(reference: Reference, inputs: list[Array], outputs: list[str]) -> Mapping[str, Array]:
    """Return the expected outputs by name. Raises `InputError` for a failing reference or one for unknown outputs."""
    if reference is None:
        return {}
    references: Any = _call_reference(reference, inputs) if callable(reference) else reference
    if references is None:
        raise InputError("the reference function returned None: return the expected output, or one for each output")
    if inspect.iscoroutine(references):
        references.close()
        raise InputError("the reference is an `async def` like a kernel: write a plain function of the input arrays")
    if isinstance(references, str):
        raise InputError(
            f"the reference is {shown(references)}: pass an array or a function (a command takes a file, or "
            "FILE.py:FUNCTION)"
        )
    by_name = _by_name(references, outputs)
    if not by_name and outputs:
        raise InputError(
            f"the reference is empty: name an output, {' or '.join(outputs)}, or pass None for no reference"
        )
    check_outputs("the reference", by_name, outputs)
    return {name: as_array(f"the reference of {name}", array) for name, array in by_name.items() if array is not None}


def check_outputs(what: str, names: Iterable[str], outputs: Iterable[str]) -> None:
    """Raise `InputError` if `what` names something that is not an output."""
    unknown_names = sorted(set(names) - set(outputs))
    if unknown_names:
        raise InputError(f"{what} names {unknown_names}, which are not outputs: the outputs are {sorted(outputs)}")


def _by_name(references: Any, outputs: list[str]) -> Mapping[str, Any]:
    """Return references as a mapping: one array, or a sequence in the order of the outputs."""
    if isinstance(references, Mapping):
        return references
    # For a single output, a sequence is its value, unless it holds a single array: then that array is.
    several = isinstance(references, tuple | list)
    is_single_item = several and len(references) == 1 and isinstance(references[0], np.ndarray)
    if several and (len(outputs) > 1 or is_single_item):
        if len(references) != len(outputs):
            raise InputError(
                f"a reference of {len(references)} arrays for {len(outputs)} outputs: {', '.join(outputs)}"
            )
        return dict(zip(outputs, references, strict=True))
    array = as_array("the reference", references)
    if not outputs:
        raise InputError(
            "a reference, and no argument is an output: "
            + for_caller(
                "give --arg NAME=DTYPE:SHAPE, or --arg NAME=inout:FILE.npy for values before the run",
                "pass Output(shape, dtype), or InOut(array) for values before the run",
            )
        )
    if len(outputs) != 1:
        raise InputError(
            f"a reference of one array for {len(outputs)} outputs, {', '.join(outputs)}: "
            + for_caller(
                "give an .npz file of these names, or a function that returns an array for each",
                "pass a tuple or list of arrays, or a mapping by name",
            )
        )
    return {outputs[0]: array}


def _call_reference(reference: Callable[..., Any], inputs: list[Array]) -> Any:
    """Call a reference function; the device may use the arrays, and the function may compute in place: copies."""
    try:
        return reference(*(array.copy() for array in inputs))
    except Exception as error:  # noqa: BLE001 - whatever a function of the user raises
        raise InputError(_of_reference(reference, error)) from None


def _of_reference(reference: Callable[..., Any], error: Exception) -> str:
    """Describe the exception of a reference function and its line in the caller's code."""
    code = getattr(inspect.unwrap(reference), "__code__", None)
    frames = [frame for frame in extract_tb(error.__traceback__) if code and frame.filename == code.co_filename]
    if frames:
        location = f"{source_name(frames[-1].filename)}:{frames[-1].lineno}: {frames[-1].line}"
    elif code:
        location = (
            f"{source_name(code.co_filename)}:{code.co_firstlineno}; it is called with the input arrays, in order"
        )
    else:
        location = "it is called with the input arrays, in order"
    return f"the reference function raised {type(error).__name__}: {error}, at {location}"


def as_tolerance(name: str, value: Any) -> float:
    """Return a tolerance. Raises `InputError` for anything but a number of at least 0."""
    if not isinstance(value, int | float | np.number) or not 0 <= value < np.inf:
        meaning = "relative to the reference" if name == "tolerance" else "the largest difference itself"
        raise InputError(f"{name}={shown(value)}: it must be a number of at least 0, {meaning}")
    return float(value)


def differences(
    log: Log,
    views: Mapping[str, View],
    expected: Mapping[str, Array],
    outputs: dict[str, Array],
    tolerances: tuple[float, float],
    repeat: Repeat | None,
) -> list[Finding]:
    """Return the findings on outputs that differ from the reference. Raises `InputError` for another shape."""
    try:
        findings = [
            compare_output(log, views[name], outputs[name], reference, *tolerances, repeat)
            for name, reference in expected.items()
        ]
    except InputError as error:
        raise error.with_traceback(None) from None
    return [finding for finding in findings if finding is not None]
