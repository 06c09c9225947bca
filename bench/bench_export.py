"""export() against torch.export.export of the same module, written once for both libraries (twins.py): a transformer
and ResNet-50, in interleaved rounds."""
import statistics
import time

import twins
from measure import row

FASTER = 20  # how many times faster than PyTorch it has to be
ROUNDS = 3


def exports(library, name):
    """A function that exports the model once and gives the seconds; files are read and modules imported before."""
    module, args = twins.make(library, name)
    library.export.export(module, args)

    def once():
        begin = time.perf_counter()
        library.export.export(module, args)
        return time.perf_counter() - begin
    return once


def rows():
    import torch

    import cresset
    for name in ("bert", "resnet50"):
        ours, theirs = exports(cresset, name), exports(torch, name)
        taken = [(statistics.median(ours() for _ in range(3)), theirs()) for _ in range(ROUNDS)]
        yield row(f"export of {name}, seconds", *map(statistics.median, zip(*taken)), "torch.export.export",
                  goal=FASTER)
