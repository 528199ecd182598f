"""The version of mlusim, here and nowhere else, and how it was built."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

__version__ = "0.3.0.dev0"


def is_compiled() -> bool:
    """Return whether the modules that every operation passes are compiled (`hatch_build.py`); results are the same."""
    spec = find_spec("mlusim.records")
    return spec is not None and not str(spec.origin).endswith(".py")


def build() -> str:
    """Return `compiled`, or `not compiled` and why: pip does not show the warnings of a build."""
    if is_compiled():
        return "compiled"
    reason = Path(__file__).with_name("not_compiled.txt")
    if not reason.exists():
        return "not compiled, as in every checkout and editable installation"
    return f"not compiled, because {reason.read_text(encoding='utf-8')}"
