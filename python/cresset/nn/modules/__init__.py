"""The layers, one file a kind; `cresset.nn` shows all of them."""
import importlib

_FILES = ("module linear conv activation container batchnorm instancenorm normalization dropout flatten pooling "
          "padding sparse distance pixelshuffle channelshuffle upsampling fold loss adaptive rnn transformer").split()
__all__ = []


def _load():
    for file in _FILES:
        module = importlib.import_module(f"{__name__}.{file}")
        for name in module.__all__:
            globals()[name] = getattr(module, name)
            __all__.append(name)


_load()
