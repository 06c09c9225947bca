"""The structures that ops with named results give: cresset.return_types.max has values and indices."""
from cresset import _C


def __getattr__(name):
    try:
        return _C._return_types[name]
    except KeyError:
        raise AttributeError(f"module 'cresset.return_types' has no attribute '{name}': a type is made when its op "
                             f"first runs") from None


def __dir__():
    return sorted(_C._return_types)
