"""The command line, `mlusim`.

click and rich are imported here and nowhere else but for the progress bar. The simulator is imported by the commands
when they run, so that `mlusim --help` answers at once.
"""

from __future__ import annotations

from mlusim.cli.program import program as main

__all__ = ["main"]
