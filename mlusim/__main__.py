"""`python -m mlusim`: the same as `mlusim`."""

from __future__ import annotations

from mlusim.cli import main

if __name__ == "__main__":
    main()
