"""Cresset: the PyTorch 2 compiler stack as one small C library."""

__version__ = "0.1.0"
