"""Validation: published measurements of real boards, re-created on simulated ones, and the fit to them.

The measurements:
  measurements             the rows of `measured.csv`, and the use of each
  kernels, matmul_kernels  the measured kernels
  recreate                 a measurement as a run

Their use:
  report                   measured, simulated, error
  calibrate, parameters    the fit, which writes `mlusim/hardware/calibrated.json`; what is fitted
"""
