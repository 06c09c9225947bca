"""Anomaly mode: nodes remember the line of the program that made them, and a backward that fails shows it.

    with detect_anomaly():
        loss = f(x)
        loss.backward()      # a NaN is an error, a warning shows the forward line
"""
from __future__ import annotations

import traceback
import warnings
from typing import Any

from cresset import _C

__all__ = ["detect_anomaly", "set_detect_anomaly", "is_anomaly_enabled", "is_anomaly_check_nan_enabled"]


def _made(node: Any, parent: Any) -> None:
    metadata = node.metadata
    stack = traceback.extract_stack()
    metadata["traceback_"] = [text for frame, text in zip(stack, stack.format()) if frame.filename != __file__]
    if parent is not None:
        metadata["parent_"] = parent


def _lines(node: Any) -> str:
    return "".join(node.metadata.get("traceback_", ()))


def _failed(node: Any, parent: Any) -> None:  # unused parent: it is the node itself
    if not _lines(node):
        warnings.warn(f"Error detected in {node.name()}. No forward pass information available. Enable detect anomaly "
                      "during forward pass for more information.", stacklevel=2)
        return
    warnings.warn(f"Error detected in {node.name()}. Traceback of forward call that caused the error:\n{_lines(node)}",
                  stacklevel=2)
    while (node := node.metadata.get("parent_")) is not None:
        warnings.warn(f"\n\nPrevious calculation was induced by {node.name()}. Traceback of forward call that induced "
                      f"the previous calculation:\n{_lines(node) or 'none was kept: the mode was off then'}",
                      stacklevel=2)


def is_anomaly_enabled() -> bool:
    return _C._is_anomaly_enabled()


def is_anomaly_check_nan_enabled() -> bool:
    """Would NaNs be looked for, if the mode were on?"""
    return _check_nan


_check_nan = True


def _set(mode: tuple[bool, bool]) -> tuple[bool, bool]:
    global _check_nan
    before, _check_nan = (is_anomaly_enabled(), _check_nan), mode[1]
    _C._set_anomaly(*mode, _made, _failed)
    return before


class set_detect_anomaly:
    """Takes effect at once; as a context manager, until the end of the block. For the whole process."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._before = _set((bool(mode), bool(check_nan)))

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        _set(self._before)


class detect_anomaly:
    """Inside of the block nodes keep the line that made them; a derivative that fails shows it, and with check_nan one
    that makes NaNs fails."""

    def __init__(self, check_nan: bool = True) -> None:
        self._mode = True, bool(check_nan)
        warnings.warn("Anomaly Detection has been enabled. This mode will increase the runtime and should only be "
                      "enabled for debugging.", stacklevel=2)

    def __enter__(self) -> None:
        self._before = _set(self._mode)

    def __exit__(self, *error: object) -> None:
        _set(self._before)
