"""Analysis of a run's log: metrics, tables, pictures, traces. It reads logs and runs nothing.

matplotlib is imported only inside functions, when a picture is requested.

Figures:
  log_columns              the log as arrays; `log_parts`: a long one in parts, `launch_log`: that of one launch
  metrics, totals          time, bytes, efficiencies; sums over all records, and by tensor (`tensor_bytes`)
  distinct_bytes           the bytes of each tensor that moved at least once
  breakdown, by_line       time by cause and by source line; `intervals`: sets of time intervals
  lower_bound              the least time, and what was lost above it
  known_error              the error of the model, by measurements; `extrapolation`: that of steady timing
  run_kind                 the kind of kernel of a run, by which measurements are grouped
  summary, provenance      the table of a run, and where its figures come from

Pictures:
  canvas, plot             rectangles and text as PNG and SVG, and axes; `style`: colours, and matplotlib's
  timeline_picture         operations over time
  tile_map, tile_writers   who writes each part of the output; `tile_grid`: on a grid of samples
  bandwidth, traffic       the DRAM over time; bytes by direction; `roofline_picture`: the roofline
  small_pictures           time by cause and bandwidth in a few lines of SVG, for notebooks and tables of runs
  sweep_plot, sweep_scale  a sweep
  accuracy, proof_picture  the measurements; the split proof; `demo_picture`: the demo

`report_files` writes the files of `--report`: pictures, report.html (`page/`), a file for Perfetto (`trace`) and the
summary. `notebook` is a result in a notebook.
"""
