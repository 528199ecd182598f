"""`mlusim demo`: tin_shift on frames of a photograph."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mlusim.cli import console
from mlusim.cli.command_files import check_directory, write_bytes
from mlusim.cli.help_format import SectionedCommand
from mlusim.cli.operator_inputs import strategy_option
from mlusim.cli.option_types import DIRECTORY
from mlusim.cli.options import device_option, explain_option, out_option, output_options, report_option, save_run_option
from mlusim.cli.outputs import Outputs, write_and_print
from mlusim.files import directory_for

if TYPE_CHECKING:
    from mlusim.arrays import Array
    from mlusim.hardware import Board
    from mlusim.results.result import Result


# Four clips of eight frames: a window of 224 x 224 pixels moves over the photograph. Start position and step.
_FRAMES, _WINDOW = 8, 224
_PANS = (((60, 100), (0, 14)), ((20, 140), (24, 0)), ((30, 60), (16, 16)), ((150, 200), (-12, -12)))
# One shift per colour: red, green, blue.
_SHIFTS = ((1, 0, -1), (2, 0, -2), (0, 1, 2), (3, 0, -3))


_HELP = """\
Shift the colours of a photograph in time, on a simulated board.

A window moves over the photograph that ships with matplotlib: four clips of eight frames. tin_shift moves the red,
green and blue of each clip along time by different steps; zeros move in at the ends. With --report, film.png shows
frames before and after.

\b
Examples:
  mlusim demo
  mlusim demo --device mlu590-h8 --report demo/
  mlusim demo --save . && mlusim run tin_shift --input clip.npy --shifts shifts.npy --strategy pingpong
"""


_strategy_option = strategy_option("tin_shift", "See `mlusim run tin_shift --help`. [default: auto]")
_save_option = click.option(
    "--save",
    type=DIRECTORY,
    metavar="DIR",
    help="Write the inputs to DIR, as clip.npy and shifts.npy for `mlusim run`.",
)
_SECTIONS = {
    "Board and split": (device_option, _strategy_option),
    "Output": (out_option, report_option, save_run_option, _save_option, explain_option, output_options),
}


@click.command(cls=SectionedCommand, sections=_SECTIONS, help=_HELP)
def demo(
    *,
    device: Board,
    strategy: str | None,
    save: str | None,
    explain: bool,
    **options: Any,
) -> None:
    """Shift the colours of a photograph in time, on a simulated board."""
    from mlusim.host.array_files import write_array
    from mlusim.ops.call import run
    from mlusim.ops.commands import command_of

    outputs = Outputs.of(options)
    check_directory("--save", save, ("clip.npy", "shifts.npy"))
    clips, shifts = make_clips()
    if save is not None:
        folder = Path(save)
        with directory_for(folder):
            write_array("--save", folder / "clip.npy", clips)
            write_array("--save", folder / "shifts.npy", shifts)
    command = command_of("tin_shift")
    call = command.prepare(command.options({}), [clips, shifts], device, strategy)
    if explain and outputs.is_printed:
        console.print_text(call.plan.explain() + "\n")
    result = run(call, progress=not outputs.quiet)
    title = ""
    if outputs.is_printed:
        from mlusim.units import group_digits

        batch, frames, channels, pixels = clips.shape
        title = (
            f"{batch} clips of {frames} frames of a photograph: "
            f"{channels} channels of {group_digits(pixels)} pixels, {clips.dtype}\n"
            f"{result.operator} on {device.name}; "
            f"red, green and blue shifted by {', '.join(map(str, _SHIFTS))} frames\n"
        )
    write_and_print(
        result,
        outputs,
        title=title,
        entries={"plan": call.plan.to_json()} if explain else None,
    )
    if outputs.report is not None and result.output is not None:
        path = _write_film(Path(outputs.report), clips, result.output, result)
        if outputs.is_printed:
            console.print_text(f"before and after: {path}")


def _write_film(folder: Path, clips: Array, shifted: Array, result: Result) -> Path:
    """Write a picture of the first clip before and after, and return its path."""
    from mlusim.analysis.demo_picture import draw_film
    from mlusim.units import format_us

    film = draw_film(
        [("before", pictures(clips[0])), ("after", pictures(shifted[0]))],
        f"Red, green and blue shifted by {', '.join(f'{shift:+d}' for shift in _SHIFTS[0])} frames",
        f"{result.operator} on {result.board.name}, strategy {result.strategy}: "
        f"{format_us(result.time_ps)} by the model",
    )
    path = folder / "film.png"
    write_bytes("--report", path, film.png())
    return path


def make_clips() -> tuple[Array, Array]:
    """Return clips [N, T, C, HW], float32 of 0 to 1, and shifts [N, 3], int32.

    C is 12: for each colour, four quarter-size pictures of every other row and column, as in a space-to-depth
    rearrangement.
    """
    import numpy as np

    from mlusim.analysis.demo_picture import photograph

    photo = photograph()
    half = _WINDOW // 2
    clips = np.empty((len(_PANS), _FRAMES, 12, half * half), np.float32)
    for clip, ((top, left), (down, right)) in zip(clips, _PANS, strict=True):
        for time in range(_FRAMES):
            y, x = top + time * down, left + time * right
            window = photo[y : y + _WINDOW, x : x + _WINDOW].reshape(half, 2, half, 2, 3)
            clip[time] = window.transpose(4, 1, 3, 0, 2).reshape(12, half * half)
    clips /= 255
    return clips, np.array(_SHIFTS, np.int32)


def pictures(clip: Array) -> Array:
    """Convert a clip (T, 12, HW) back to pictures (T, height, width, 3)."""
    half = _WINDOW // 2
    channels = clip.reshape(len(clip), 3, 2, 2, half, half)
    frames: Array = channels.transpose(0, 4, 2, 5, 3, 1).reshape(len(clip), _WINDOW, _WINDOW, 3)
    return frames
