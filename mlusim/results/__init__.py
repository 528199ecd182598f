"""Results of runs, and saved runs.

Of a run:
  result, figures          `Result`: the output, the log, and all that is computed from it; the most important figures
  memory_state             the buffers of a core at one time

In a file:
  saved, saved_log         a saved run; the log in it
  saved_checks             validation of files, which are untrusted
"""
