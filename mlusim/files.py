"""Files that are written whole or not at all: a new one beside the old takes its place when it is complete."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A stream whose bytes become the file where the block ends well; else the file is as it was before.

    Raises `OSError` where it cannot be written.
    """
    target = Path(path).resolve()
    scratch = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with scratch.open("wb") as stream:
            yield stream
        scratch.replace(target)
    finally:
        scratch.unlink(missing_ok=True)
