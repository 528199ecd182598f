"""The version of mlusim, here and nowhere else, and how it was built."""

from __future__ import annotations

from importlib.util import find_spec

__version__ = "0.2.0"


def is_compiled() -> bool:
    """Whether the modules that every operation passes are compiled (`hatch_build.py`); results are the same."""
    spec = find_spec("mlusim.records")
    return spec is not None and not str(spec.origin).endswith(".py")
