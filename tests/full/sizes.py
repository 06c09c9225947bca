"""P4: a library takes every size that its archive's ranges allow: every program of tests/interop and model of bench/models.py exported anew with all sizes
dynamic, both dialects, each size in turn 0 and 1, against PyTorch. Arguments select programs by substring.

    ./dev test --full sizes
"""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / folder) for folder in ("native", "interop", "full")]
import interop  # noqa: E402
import small_sizes  # noqa: E402
import torch  # noqa: E402


def exported(p, dialect, folder):
    """Kept beside the archives of the other sweeps; None: no size of the program can be dynamic."""
    kept = folder / f"{p.name}.{dialect}.sizes.pt2"
    none = kept.with_suffix(".none")
    if kept.is_file():
        return torch.export.load(kept)
    if none.is_file():
        return None
    ep = small_sizes.export(p)
    if ep is None:
        none.write_text("")
        return None
    if dialect == "core":
        ep = ep.run_decompositions()
    torch.export.save(ep, kept)
    return ep


# PyTorch itself ends the process where there are no bags; shapes of a class of the program's own, and of *args, cannot be given like this.
LEFT_OUT = {"embedding_bag_offsets", "dataclass_argument", "varargs"}


def check(p, folder, scratch, report):
    for dialect in p.dialects if p.name not in LEFT_OUT else ():
        def attempt(dialect=dialect):
            ep = exported(p, dialect, folder)
            if ep is None:
                return None
            path = pathlib.Path(scratch) / f"{p.name}.{dialect}.pt2"
            small_sizes.save(ep, path)
            problems, _ = small_sizes.differences(p, ep, path)
            return "; ".join(f"{symbol} = {size}: {problem}" for symbol, size, problem in problems) or None
        report(p.name, dialect, "sizes", interop.in_child(attempt))
        for path in pathlib.Path(scratch).glob("*"):
            path.unlink()


if __name__ == "__main__":
    sys.exit(interop.sweep("sizes", check))
