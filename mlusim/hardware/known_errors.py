"""Errors of the model by family. Written by `python -m mlusim.validation.errors`: not to be edited by hand."""

# Simulated over measured time, less 1: mean, least and most over the family's measurements, bounds left out.
FAMILY_ERRORS: dict[str, tuple[float, float, float]] = {
    "mlu270": (0.0034, -0.0039, 0.0106),
    "mlu290": (-0.0046, -0.0133, 0.0012),
    "mlu370": (-0.0003, -0.0108, 0.0103),
    "mlu590": (0.0033, -0.1260, 0.0956),
}
