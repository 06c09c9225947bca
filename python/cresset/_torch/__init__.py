"""PyTorch programs: what is needed where the real `torch` package is installed. Nothing here is imported by
`import cresset`, and nothing of torch is imported before the first use.

    torch.compile(model, backend="cresset")     backend.py
    cresset.from_fx(graph_module)               importer.py
"""
from __future__ import annotations

import sys
from typing import Any, Iterable


def real() -> Any:
    """The torch that a program has imported; None while nobody has, or where Cresset is in its place
    (cresset.as_torch)."""
    return None if "cresset.as_torch" in sys.modules else sys.modules.get("torch")


def prepare() -> bool:
    """Whether programs of torch can be captured; asked when a program is and `torch` has been imported."""
    if real() is None:
        return False
    from cresset._torch import capture
    return capture.prepare()


def from_fx(gm: Any, example_inputs: Iterable[Any] | None = None) -> Any:
    """A torch.fx.GraphModule of aten ops (AOTAutograd's, or torch.export's) as a cresset.Graph. Inputs are the
    placeholders, then the tensors that the module holds, in the order of their get_attr nodes; outputs are flat.

    example_inputs: tensors for placeholders that say nothing of their value (meta["val"]). NotImplementedError names
    an op that the table lacks."""
    from cresset._torch import importer
    return importer.from_fx(gm, example_inputs)
