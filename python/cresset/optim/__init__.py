"""Optimizers, learning rates that change, averaged weights. Names, arguments and state dicts are PyTorch's.

Each file loads when it is first asked for.
"""
import importlib

_WHERE = {
    **dict.fromkeys("SGD RMSprop Rprop Adagrad Adadelta Adam AdamW Adamax NAdam RAdam ASGD SparseAdam".split(),
                    "_rules"),
    "LBFGS": "lbfgs",
    "Optimizer": "optimizer",
}
_FILES = {"lbfgs", "lr_scheduler", "optimizer", "swa_utils"}
__all__ = sorted(_WHERE) + ["lr_scheduler", "swa_utils"]


def __getattr__(name):
    if name in _WHERE:
        value = getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)
    elif name in _FILES:
        value = importlib.import_module(f"{__name__}.{name}")
    else:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    globals()[name] = value
    return value


def __dir__():
    return sorted(set(globals()) | set(__all__))
