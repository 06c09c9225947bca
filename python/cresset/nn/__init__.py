"""Layers, losses and models: cresset.nn has torch.nn's names, signatures, initial numbers, texts and state-dict
keys."""
from cresset.nn import functional, init, parameter, utils
from cresset.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter
from cresset.nn import modules
from cresset.nn.modules import *  # noqa: F401,F403 - the layers

__all__ = ["functional", "init", "parameter", "modules", "utils", "Buffer", "Parameter", "UninitializedBuffer",
           "UninitializedParameter", *modules.__all__]
