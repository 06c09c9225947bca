"""Optimizers, learning rates that change, averaged weights. Names, arguments and state dicts are PyTorch's.

Each file loads when it is first asked for.
"""
from cresset import _lazy

_WHERE = {
    **dict.fromkeys("SGD RMSprop Rprop Adagrad Adadelta Adam AdamW Adamax NAdam RAdam ASGD SparseAdam".split(),
                    "_rules"),
    **dict.fromkeys(("Adafactor", "Muon"), "_matrices"),
    "LBFGS": "lbfgs",
    "Optimizer": "optimizer",
}
_FILES = {"lbfgs", "lr_scheduler", "optimizer", "swa_utils"}
__all__ = sorted(_WHERE) + ["lr_scheduler", "swa_utils"]
__getattr__, __dir__ = _lazy.names(globals(), _WHERE, _FILES)
