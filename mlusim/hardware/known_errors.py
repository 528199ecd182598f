"""Errors of the model by family. Written by `python -m mlusim.validation.errors`: not to be edited by hand."""

# Simulated over measured time, less 1: mean, least and most over the family's measurements, bounds left out.
FAMILY_ERRORS: dict[str, tuple[float, float, float]] = {}
