"""`python -m mlusim`, and the program `mlusim`."""

from __future__ import annotations

import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

_AGAIN_S = 0.02


def main() -> None:
    """Load the command line and run it; Ctrl-C while anything loads ends it as quietly as later."""
    signal.signal(signal.SIGINT, _interrupt)
    try:
        from mlusim.cli import main as program
    except KeyboardInterrupt:
        sys.stderr.write("error: interrupted\n")
        sys.exit(130)
    program()


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Ctrl-C as Python has it, but in a callback of the import system, which would print it and go on: later there."""
    if frame is not None and frame.f_code.co_filename.startswith("<frozen importlib") and frame.f_code.co_name == "cb":
        import threading

        threading.Timer(_AGAIN_S, signal.raise_signal, (number,)).start()
        return
    signal.default_int_handler(number, frame)


if __name__ == "__main__":
    main()
