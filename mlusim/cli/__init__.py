"""The command line, `mlusim`.

click and rich are imported only here and by the progress bar. Commands import the simulator when they run, so that
`mlusim --help` is fast.

Commands:
  command_line             the commands and their aliases; errors as one line, and exit codes
  run, verify              one run of an operator or a kernel
  compare, sweep, tune     many runs
  retime                   a saved run on another board
  explain, diff, inspect   saved runs, or runs given by their arguments
  report                   saved runs as HTML
  devices, validate        the boards, and measurements of them
  bangc, compile           .mlu files; whether kernels compile or load
  demo, mcp, completion    an example, tools for a program, and scripts for shells

Options:
  options, option_types    options of several commands, and their values; `sweep_options`
  operators                operators and their attributes; `operator_group`, `operator_inputs`: commands for them
  kernel_arguments         FILE.py:KERNEL, and its arguments; `kernel_completion`: by the shell
  saved_or_run             a run as an argument
  help_format              the help; `usage_remedies`: what to write instead of wrong words
  shells                   completion by bash, zsh and fish

Output:
  outputs, kernel_run      what a run writes and prints; the run of a kernel
  compare_table            the table of `compare`; `sweep_table`, `tune_table`
  console, provenance      tables, colours and JSON; where the figures come from
  standard_output          keeps it for JSON alone: what kernels print goes to standard error
  command_files            the files of a command, checked before anything runs
  local_paths              keeps paths of this machine out of the output
"""

from __future__ import annotations

from mlusim.cli.command_line import program as main

__all__ = ["main"]
