"""Validation: measurements of real boards, re-created on simulated ones, and the fit to them.

`measurements` has the rows, `kernels` the kernels, `recreate` brings them together, `report` compares, `calibrate`
fits the assumed parameters and writes `mlusim/hardware/calibrated.py`.
"""
