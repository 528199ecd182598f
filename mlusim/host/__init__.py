"""The host side: the device, its watchdog and progress bar, `run` and `verify`.

  device, device_memory    launches and queues; uploads, allocations and downloads
  run, verify              a kernel on a temporary device, from arrays to a result or a report
  other_runs               further runs of a kernel with wrong outputs
  references               the expected outputs of a kernel, and the findings on others
  steady/                  timing by the steady state of a launch (`--steady`)

Arguments:
  arguments                kernel arguments as text, `Output` and `InOut`
  array_files              .npy and .npz files
  random_tensors           random tensors from a seed
  kernel_keywords          keywords of a call, some of which are the kernel's
  argument_windows         the parts of tensors that a launch passes to its kernel

During a run:
  watchdog, run_progress   stops a kernel that issues nothing, and shows progress
  stall_errors             the errors that end such a kernel, even one that catches everything
  run_end                  deadlocks, and times that are too long
  host_data, names_used    values that kernels pass through Python objects, and the names that they use for it
  garbage                  fewer garbage collections
  silence                  runs that print nothing

`pytest_plugin` verifies kernels in a test suite.
"""
