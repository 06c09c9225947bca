"""Functions of layers: cresset.nn.functional, usually imported as F.

Many are ops of the table under their own name; the others choose among ops and check their arguments first. What is
recorded when one runs is what PyTorch's export records.
"""
from cresset.nn.functional import _activation, _attention, _layers, _loss, _pooling, _vision

_PRIVATE = {"op", "nn", "tensor_op", "repeated", "Tensor", "no_grad", "functional", "reduction_name", "canonical_mask"}
__all__ = []
for _part in (_activation, _layers, _pooling, _loss, _vision, _attention):
    for _name, _value in vars(_part).items():
        if callable(_value) and not _name.startswith("_") and _name not in _PRIVATE and not isinstance(_value, type):
            if type(_value).__name__ == "function":
                _value.__module__ = __name__
            globals()[_name] = _value
            __all__.append(_name)
del _part, _name, _value
