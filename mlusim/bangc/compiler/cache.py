"""The cache of compiled files: by their texts, their options, and this package's own sources."""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from mlusim.bangc.calls.intrinsics import table_digest
from mlusim.errors import InputError
from mlusim.files import atomic_write

# The package's own sources, on which all output of compilers depends: the runtime and the headers.
_BANGC = Path(__file__).resolve().parent.parent
RUNTIME, INCLUDE = _BANGC / "runtime" / "runtime.cpp", _BANGC / "include"


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


def own_files() -> list[Path]:
    """Return the package's own headers, and the file of their functions."""
    return sorted(path for path in INCLUDE.rglob("*.*") if path.suffix in {".h", ".cpp"})


@lru_cache(maxsize=1)
def _own_sources() -> str:
    digest = hashlib.sha256()
    for path in [RUNTIME, *sorted(RUNTIME.parent.glob("*.h")), *own_files()]:
        digest.update(path.read_bytes())
    digest.update(table_digest().encode())
    return digest.hexdigest()


@lru_cache(maxsize=1)
def code_of_translation() -> str:
    """Return a digest of the modules that rewrite files and keep what they found."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def content_key(*parts: str) -> str:
    """Return the cache key of these texts for this version of the package."""
    digest = hashlib.sha256(_own_sources().encode())
    for part in parts:
        digest.update(b"\0" + part.encode(errors="replace"))
    return digest.hexdigest()[:32]


def publish(target: Path, content: bytes) -> None:
    """Write a file of the cache atomically."""
    try:
        with atomic_write(target) as stream:
            stream.write(content)
    except OSError as error:
        raise InputError(
            f"{cache_folder()}, the folder of compiled kernels, cannot be written: {error.strerror}; free space there"
        ) from error
