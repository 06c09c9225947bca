"""Helpers around modules."""
from cresset.nn.utils import rnn

__all__ = ["rnn"]
