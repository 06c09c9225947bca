"""P4, S4, X3: what is exported serves every size that PyTorch's serves: every program of tests/interop (which
tests/roundtrip and tests/native share) and model of bench/models.py, every size that can vary at 0, 1, 2 and two
others; exported there and here, by Dim.AUTO and by the program's own dynamic_shapes, in both dialects; from memory and
from the file; interpreted and compiled; against the module called eagerly. Arguments select programs by substring.

    ./dev test --full sizes

PyTorch's archives and answers are kept in build/interop, as those of the other sweeps are, so that a second run, or one
that goes on where another stopped, takes less.
"""
import pathlib
import pickle
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / folder) for folder in ("native", "interop", "full")]
import interop  # noqa: E402
import small_sizes  # noqa: E402
import torch  # noqa: E402


def theirs(p, way, dialect, folder):
    """The path of PyTorch's archive and its answers; (None, text): PyTorch cannot export it, or no size of it can
    vary."""
    kept = folder / f"{p.name}.{way}.{dialect}.sizes.pickle"
    if not kept.is_file():
        path = kept.with_suffix(".pt2")
        try:
            ep = small_sizes.export(torch, p, way)
            answers = "no size of it can vary"
            if ep is not None:
                ep = ep if dialect == "training" else ep.run_decompositions()
                torch.export.save(ep, path)
                answers = small_sizes.cases(p, ep, torch.export.load(path))
        except Exception as error:  # it does not read every archive that it writes
            answers = f"PyTorch: {str(error).splitlines()[0]}"
        kept.with_suffix(".part").write_bytes(pickle.dumps(answers))
        kept.with_suffix(".part").replace(kept)
    answers = pickle.loads(kept.read_bytes())
    return (None, answers) if isinstance(answers, str) else (kept.with_suffix(".pt2"), answers)


def text(problems):
    return "; ".join(f"{symbol} = {size}: {problem}" for symbol, size, problem in problems) or None


def check(p, folder, scratch, report):
    for way in small_sizes.WAYS if p.dynamic else small_sizes.WAYS[:1]:
        for dialect in p.dialects:
            def attempt(where, way=way, dialect=dialect):
                path, made = theirs(p, way, dialect, folder)
                if path is None:
                    return None
                if where == "there":
                    runs = small_sizes.from_file("there", path, scratch, *small_sizes.example(p))
                else:
                    runs = small_sizes.exported_here(p, way, dialect, scratch)
                return text(small_sizes.differences(p, made, runs)[0]) if runs else "no size of it can vary here"
            for where in ("there", "here"):
                if where == "here" and p.name.startswith("model_"):  # models are written for PyTorch's own libraries
                    continue
                report(p.name, f"{way}, {dialect}", where, interop.in_child(lambda: attempt(where)))
                for path in pathlib.Path(scratch).glob("*"):
                    path.unlink()


if __name__ == "__main__":
    with torch.no_grad():  # what PyTorch imports on its first export, every child would import for itself
        small_sizes.export(torch, interop.programs.programs()[0], "AUTO").run_decompositions()
    small_sizes.both.load("cresset")
    sys.exit(interop.sweep("sizes", check))
