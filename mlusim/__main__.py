"""`python -m mlusim`, and the program `mlusim`."""

from __future__ import annotations

import sys


def main() -> None:
    """Load the command line and run it; Ctrl-C while it loads ends it as quietly as later."""
    try:
        from mlusim.cli import main as program
    except KeyboardInterrupt:
        sys.stderr.write("error: interrupted\n")
        sys.exit(130)
    program()


if __name__ == "__main__":
    main()
