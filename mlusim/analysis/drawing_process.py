"""A second process that draws pictures, which imports matplotlib while the first one simulates.

Pictures are the same wherever they are drawn. If the process fails in any way, they are drawn in the first one, so
errors are those of drawing there.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from mlusim.analysis.style import drawing, render

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    Draw = Callable[[], Figure]

SUFFIXES = (".png", ".svg")
# It finds modules where this process does.
_PROGRAM = "import sys; sys.path[:] = sys.argv[1:]; from mlusim.analysis.drawing_process import draw; draw()"


class DrawingProcess:
    """A context with a process that draws one list of figures, and is killed at the end of the context.

    It is started only where it saves time: with a second core, and before this process has imported matplotlib. It is
    in a session of its own, so Ctrl-C reaches only this process; and it ends by itself when this process does.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        if (os.cpu_count() or 1) > 1 and "matplotlib" not in sys.modules and sys.executable:
            with suppress(OSError):
                self._process = subprocess.Popen(  # noqa: S603 - this interpreter
                    [sys.executable, "-P", "-c", _PROGRAM, *sys.path],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def begin(self, draws: Sequence[Draw]) -> None:
        """Let the process draw: functions of modules, with arguments that can be pickled."""
        process = self._process
        if process is not None and process.stdin is not None:
            try:
                pickle.dump(draws, process.stdin)
                process.stdin.close()
            except (OSError, pickle.PicklingError, AttributeError, TypeError):
                # It has ended, or an argument cannot be pickled.
                self._end()

    def files(self, draws: Sequence[Draw]) -> list[list[bytes]]:
        """Wait for the figures of `begin`; return a file of each suffix for each. Without a process, draw them here."""
        process, files = self._process, None
        if process is not None and process.stdout is not None:
            # A process that was killed, or could not import or draw, sends nothing.
            with suppress(OSError, EOFError, pickle.UnpicklingError):
                files = pickle.load(process.stdout)  # noqa: S301 - from our own process
        self._end()
        return [render(draw, SUFFIXES) for draw in draws] if files is None else files

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    # What a process that has ended did not read is lost.
                    with suppress(OSError):
                        stream.close()
            process.wait()


def draw() -> None:
    """Draw the figures that are asked for on standard input."""
    with drawing(), os.fdopen(os.dup(1), "wb") as answer:
        # Nothing else may be printed there.
        os.dup2(2, 1)
        import matplotlib.backends.backend_agg
        import matplotlib.backends.backend_svg
        import matplotlib.figure  # noqa: F401 - imported while the other process simulates

        from mlusim.analysis import tile_map, traffic  # noqa: F401 - likewise

        draws = pickle.load(sys.stdin.buffer)  # noqa: S301 - from our own process
        pickle.dump([render(draw, SUFFIXES) for draw in draws], answer)
