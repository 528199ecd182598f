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
    """Load the command line and run it. Ctrl-C ends it without a traceback, even while modules load."""
    signal.signal(signal.SIGINT, _interrupt)
    try:
        from mlusim.cli import main as program
    except KeyboardInterrupt:
        sys.stderr.write("error: interrupted\n")
        sys.exit(_INTERRUPTED)
    program()


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Handle Ctrl-C as Python does, except that within an import it ends the process.

    A partly loaded extension module cannot be loaded again, the import system prints exceptions of its callbacks, and
    some modules mistake an interrupt for a failure of their own. Files are written atomically, so none is left behind
    half-written.
    """
    caller = frame
    while caller is not None:
        if caller.f_code.co_filename.startswith("<frozen importlib"):
            os.write(2, b"error: interrupted\n")
            os._exit(_INTERRUPTED)
        caller = caller.f_back
    signal.default_int_handler(number, frame)


if __name__ == "__main__":
    main()
