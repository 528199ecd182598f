"""The kernels of the operators."""
