"""Errors of the model by family. Written by `python -m mlusim.validation.errors`: not to be edited by hand."""

# Simulated over measured time, less 1: mean, least and most over the family's measurements, bounds left out.
FAMILY_ERRORS: dict[str, tuple[float, float, float]] = {
    "mlu270": (0.0034, -0.0039, 0.0106),
    "mlu290": (-0.0035, -0.0065, 0.0012),
    "mlu370": (0.0005, -0.0109, 0.0119),
    "mlu590": (-0.0222, -0.1654, 0.0798),
}
