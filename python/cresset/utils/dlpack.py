"""Tensors to and from other libraries without copying: DLPack capsules, and objects that give them."""
from cresset._C import from_dlpack

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(tensor):
    """A capsule on the tensor's memory; to be taken once."""
    return tensor.__dlpack__()
