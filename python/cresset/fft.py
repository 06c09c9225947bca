"""cresset.fft.NAME is the op fft_NAME."""
from cresset import _C


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    try:
        value = _C._function("fft_" + name)
    except AttributeError:
        raise AttributeError(f"module 'cresset.fft' has no attribute '{name}'") from None
    globals()[name] = value
    return value


def __dir__():
    return sorted({full.partition("::fft_")[2].partition(".")[0] for full in _C._op_names()
                   if full.startswith("aten::fft_")})
