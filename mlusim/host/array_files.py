"""Array files: .npy and .npz, written atomically.

npy has no names for bfloat16 and the 8-bit floats. Arrays of these types are written as records with a single field,
named after the type and containing its bits, and read back from those:

  np.load("y.npy")["bfloat16"].view("bfloat16")        # after `import ml_dtypes`

The output of np.save for bfloat16, void elements of 2 B, is also read as bfloat16.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO

import numpy as np

from mlusim.arrays import Array
from mlusim.dtypes import ALL, BFLOAT16, Dtype, dtype_name
from mlusim.errors import InputError
from mlusim.files import atomic_write, cannot_read, open_input, writing
from mlusim.inputs import native

_NPY, _ZIP, _EMPTY_ZIP = b"\x93NUMPY", b"PK\x03\x04", b"PK\x05\x06"
_NAMELESS = (
    "has 8-bit elements whose type np.save does not write: save x.view([('{0}', 'u1')]) instead of an array x of {0}"
)
_UNNAMED = {dtype_name(dtype): dtype for dtype in ALL if dtype.isbuiltin != 1}


def read_array(option: str, text: str) -> Array:
    """Read `x.npy`, `x.npz` with a single array, or `x.npz:key`.

    The array is in native byte order, otherwise bit-identical to the file. `option` names the file in messages. Raises
    `InputError` for a file that is missing, unreadable or damaged, or contains Python objects.
    """
    path, key = split_key(text)
    file_text = f"{option}{'' if option.endswith('=') else ' '}{path}"
    try:
        with open_input(path) as stream:
            return _with_actual_dtype(file_text, _read(file_text, path, key, stream))
    except OSError as error:
        raise InputError(cannot_read(path, error, file_text)) from None


def read_arrays(option: str, text: str) -> Array | dict[str, Array]:
    """As `read_array`, but returns every array of an `x.npz` with several, by name."""
    path, key = split_key(text)
    if key or path.suffix.lower() != ".npz":
        return read_array(option, text)
    try:
        with open_input(path) as stream, np.load(stream) as archive:
            names = list(archive.files)
    except Exception:  # noqa: BLE001 - reading it reports the error
        return read_array(option, text)
    return (
        {name: read_array(option, f"{text}:{name}") for name in names} if len(names) > 1 else read_array(option, text)
    )


def split_key(text: str) -> tuple[Path, str]:
    """Split `x.npz:key` into file and key; the key may be empty."""
    path, colon, key = text.rpartition(":")
    if colon and path.lower().endswith((".npz", ".npy")) and not Path(text).exists():
        return Path(path), key
    return Path(text), ""


def _read(file_text: str, path: Path, key: str, stream: BinaryIO) -> Array:
    head = stream.read(6)
    stream.seek(0)
    if head.startswith((_ZIP, _EMPTY_ZIP)):
        with _load(file_text, np.load, stream) as archive:
            keys = list(archive.files)
            if not key and len(keys) == 1:
                key = keys[0]
            if key not in keys:
                problem = f"has no array {key!r}" if key else "holds several arrays" if keys else "holds no array"
                listed = f": {', '.join(keys)}; name one, as in {path}:{keys[0]}" if keys else ""
                raise InputError(f"{file_text} {problem}{listed}")
            return np.asarray(_load(f"{file_text}:{key}", archive.__getitem__, key))
    if head != _NPY:
        raise InputError(f"{file_text} is not an .npy or .npz file; write one with np.save or np.savez")
    if key:
        raise InputError(f"{file_text} is an .npy file, which holds one array: omit `:{key}`")
    return np.asarray(_load(file_text, np.load, stream))


def _load(file_text: str, load: Callable[[Any], Any], source: Any) -> Any:
    try:
        return load(source)
    except (MemoryError, OSError):
        raise
    except Exception as error:  # noqa: BLE001 - a damaged file raises whatever its parser stumbles on
        text = " ".join(str(error).split())
        if "allow_pickle" in text:
            raise InputError(f"{file_text} holds Python objects, not numbers: give the array an element type") from None
        if "descriptor: '<f1'" in text:  # float8_e5m2, as np.save writes it
            raise InputError(f"{file_text} {_NAMELESS.format('float8_e5m2')}") from None
        raise InputError(f"{file_text} cannot be read as an array: {text or type(error).__name__}") from None


def _with_actual_dtype(file_text: str, array: Array) -> Array:
    """Convert an array to its actual element type and to native byte order."""
    array = native(array)
    dtype = array.dtype
    if dtype.names and len(dtype.names) == 1:
        actual = _UNNAMED.get(dtype.names[0])
        if actual is not None and actual.itemsize == dtype.itemsize:
            return np.ascontiguousarray(array).reshape(array.shape).view(actual)
    if dtype.kind == "V" and not dtype.names and dtype.itemsize == BFLOAT16.itemsize:
        return array.view(BFLOAT16)
    if dtype.kind == "V" and not dtype.names and dtype.itemsize == 1:
        raise InputError(f"{file_text} {_NAMELESS.format('float8_e4m3fn')}")
    if dtype not in ALL:
        raise InputError(
            f"{file_text} holds {dtype}, which is not an element type of the board; it has "
            f"{', '.join(map(dtype_name, ALL))}"
        )
    return array


def write_array(option: str, path: Path, array: Array) -> None:
    """Write an .npy file atomically. Raises `InputError` on failure."""
    with writing(f"{option} {path}"), atomic_write(path) as stream:
        # Without the handle of the file, NumPy writes through the stream, whose errors have a reason.
        np.save(SimpleNamespace(write=stream.write), nameable(array), allow_pickle=False)


def nameable(array: Array) -> Array:
    """Return the array, or single-field records of its bits if npy has no name for its element type."""
    name = dtype_name(array.dtype)
    if name not in _UNNAMED:
        return array
    record: Dtype = np.dtype([(name, f"u{array.itemsize}")])
    return np.ascontiguousarray(array).reshape(array.shape).view(record)
