"""cresset.ops.aten.add.Tensor: the op table by name. `ops.aten.add` is an overload list, `ops.aten.add.Tensor` one
op."""
from cresset import _C


class _Namespace:
    def __init__(self, name):
        self.__name__ = name

    def __getattr__(self, name):
        if name.startswith("__") and name not in _DUNDER_OPS:
            raise AttributeError(name)
        value = _C._packet(self.__name__, name)
        setattr(self, name, value)
        return value

    def __dir__(self):
        prefix = self.__name__ + "::"
        return sorted({full[len(prefix):].partition(".")[0] for full in _C._op_names() if full.startswith(prefix)})

    def __repr__(self):
        return f"<namespace cresset.ops.{self.__name__}>"


_DUNDER_OPS = {f"__{i}{name}__" for name in "and or xor lshift rshift".split() for i in ("", "i")}


def load_library(path):
    raise OSError(f"load_library({path!r}): libraries of ops for torch.ops are linked with PyTorch's own; write the "
                  "ops in Python or C and use cresset.library (docs/custom-ops.md)")


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    value = globals()[name] = _Namespace(name)
    return value
