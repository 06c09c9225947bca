"""torch.cuda's questions, with the answers of a library that computes on the CPU."""

__all__ = ["current_device", "device_count", "is_available", "is_bf16_supported", "is_initialized", "manual_seed",
           "manual_seed_all", "synchronize"]


def is_available():
    return False


def is_initialized():
    return False


def is_bf16_supported(including_emulation=True):  # unused including_emulation: there is no device that could emulate
    return False


def device_count():
    return 0


def current_device():
    raise RuntimeError("cuda: there is no CUDA device")


def synchronize(device=None):
    raise RuntimeError("cuda: there is no CUDA device")


def manual_seed(seed):
    """Nothing: there is no CUDA generator."""


def manual_seed_all(seed):
    """Nothing: there is no CUDA generator."""
