"""Validation: published measurements of real boards, re-created on simulated ones, and the fit to them.

`measurements` contains the rows, `kernels` and `matmul_kernels` the kernels; `recreate` runs them, `report` compares,
and `calibrate` fits the assumed parameters and writes `mlusim/hardware/calibrated.json`.
"""
