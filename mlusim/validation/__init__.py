"""Real measurements, re-created on the simulated board, and what is fitted to them.

`measurements` has the rows, `kernels` the kernels, `recreate` brings them together, `report` compares, `calibrate`
fits the assumed parameters and writes `mlusim/hardware/calibrated.py`.
"""
