"""`python -m mlusim`, and the program `mlusim`."""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

_INTERRUPTED = 130


def main() -> None:
    """Load the command line and run it; Ctrl-C while anything loads ends it as quietly as later."""
    signal.signal(signal.SIGINT, _interrupt)
    try:
        from mlusim.cli import main as program
    except KeyboardInterrupt:
        sys.stderr.write("error: interrupted\n")
        sys.exit(_INTERRUPTED)
    program()


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Ctrl-C as Python has it, but within an import: that ends the process.

    Half of an extension module cannot be loaded again, the import system prints what its callbacks raise, and some
    modules take an interrupt for their own failure. Files are written whole or not at all, so nothing is left behind.
    """
    inside = frame
    while inside is not None:
        if inside.f_code.co_filename.startswith("<frozen importlib"):
            os.write(2, b"error: interrupted\n")
            os._exit(_INTERRUPTED)
        inside = inside.f_back
    signal.default_int_handler(number, frame)


if __name__ == "__main__":
    main()
