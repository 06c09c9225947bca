"""What `mode` and `options` of compile() mean for native code. Backends written in Python are given them as keyword
arguments, as they are.

    compile(f, mode="reduce-overhead")          every call on the caller's thread alone
    compile(f, mode="max-autotune")             for this processor, with the number of threads that is quickest
    compile(f, options={"cpp.threads": 2})
    compile(f, options={"freeze": True})        inference with the weights as they are: constants, packed ahead
"""
from __future__ import annotations

import difflib
import warnings
from typing import Any, Callable

__all__ = ["arguments", "list_mode_options", "list_options", "ways"]

# bits of src/emit/tier.h: CR_TIER_*
_NATIVE, _OWN, _TUNE, _WAIT, _FREEZE, _THREADS_AT = 1, 2, 4, 8, 16, 8
_MOST_THREADS = 1024

_MODES: dict[str, dict[str, Any]] = {
    "default": {},
    "reduce-overhead": {"triton.cudagraphs": True},
    "max-autotune-no-cudagraphs": {"max_autotune": True},
    "max-autotune": {"max_autotune": True},
}


def _switch(bits: int) -> Callable[[Any], int]:
    return lambda value: bits if value else 0


def _is_threads(value: Any) -> bool:
    return type(value) is int and (value == -1 or 1 <= value <= _MOST_THREADS)


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


# name: (default, is the value one, what it is, the bits it stands for)
_OPTIONS: dict[str, tuple[Any, Callable[[Any], bool], str, Callable[[Any], int]]] = {
    "cpp.threads": (-1, _is_threads, f"a number of threads, 1 to {_MOST_THREADS}, or -1: all",
                    lambda value: (value << _THREADS_AT) if value > 0 else 0),
    "freeze": (False, _is_bool, "a bool", _switch(_FREEZE)),
    "max_autotune": (False, _is_bool, "a bool", _switch(_OWN | _TUNE)),
    "target": ("multi", lambda value: value in ("multi", "native"),
               "'multi', any processor of this machine's kind, or 'native', those like this one",
               lambda value: _OWN if value == "native" else 0),
    "triton.cudagraphs": (False, _is_bool, "a bool", _switch(1 << _THREADS_AT)),
    "wait": (False, _is_bool, "a bool", _switch(_WAIT)),
}


def list_mode_options(mode: str | None = None) -> dict[str, Any]:
    """The options that a mode stands for; without one: of all modes."""
    return dict(_MODES[mode]) if mode is not None else {name: dict(options) for name, options in _MODES.items()}


def list_options() -> list[str]:
    """The names that options= knows."""
    return list(_OPTIONS)


def _check_mode(mode: str) -> None:
    if mode == "lite":
        raise RuntimeError("there is no mode 'lite', which leaves most ops to kernels of their own: backend='eager' "
                           f"does; there are {', '.join(map(repr, _MODES))}")
    if mode not in _MODES:
        raise RuntimeError(f"there is no mode {mode!r}: there are {', '.join(map(repr, _MODES))}")


def _check_option(name: Any, value: Any) -> None:
    if name not in _OPTIONS:
        near = difflib.get_close_matches(str(name), _OPTIONS, 1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise RuntimeError(f"there is no option {name!r}: {hint}there are {', '.join(map(repr, _OPTIONS))}")
    _, good, expected, _ = _OPTIONS[name]
    if not good(value):
        raise RuntimeError(f"option {name!r} is {expected}, not {value!r}")


def ways(mode: str | None, options: dict[str, Any] | None) -> int:
    """The word that _C._Compiled takes: how native code is made and run. RuntimeError: there is no such."""
    if mode is not None:
        _check_mode(mode)
    chosen = {**_MODES[mode or "default"], **(options or {})}
    for name, value in chosen.items():
        _check_option(name, value)
    if chosen.get("triton.cudagraphs") and chosen.get("cpp.threads", 1) != 1:
        raise RuntimeError("options 'triton.cudagraphs' (the caller's thread alone) and 'cpp.threads' contradict each "
                           "other: leave one out")
    if chosen.get("max_autotune") and ("cpp.threads" in chosen or chosen.get("triton.cudagraphs")):
        raise RuntimeError("option 'max_autotune' finds the number of threads out: leave 'cpp.threads' and "
                           "'triton.cudagraphs' out")
    word = _NATIVE
    for name, value in chosen.items():
        word |= _OPTIONS[name][3](value)
    return word


def arguments(backend: Any, mode: str | None, options: dict[str, Any] | None) -> dict[str, Any]:
    """What a backend written in Python is given beside the graph; a warning where it is one that takes nothing."""
    given: dict[str, Any] = {"mode": mode} if mode not in (None, "default") else {}
    if options:
        given["options"] = options
    if given and backend in ("eager", "aot_eager"):
        warnings.warn(f"backend {backend!r} makes no code: {', '.join(f'{k}={v!r}' for k, v in given.items())} changes "
                      "nothing; leave it out, or use backend='native'", RuntimeWarning, stacklevel=3)
        return {}
    return given
