"""The command line, `mlusim`.

click and rich are imported only here and by the progress bar. Commands import the simulator when they run, so that
`mlusim --help` is fast.
"""

from __future__ import annotations

from mlusim.cli.program import program as main

__all__ = ["main"]
