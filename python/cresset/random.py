"""The default generator's functions under one name, and fork_rng."""
import contextlib

from cresset._C import default_generator, get_rng_state, initial_seed, manual_seed, seed, set_rng_state

__all__ = ["default_generator", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state", "fork_rng"]


@contextlib.contextmanager
def fork_rng(enabled=True):
    """What is drawn inside does not move the default generator."""
    state = get_rng_state() if enabled else None
    try:
        yield
    finally:
        if enabled:
            set_rng_state(state)
