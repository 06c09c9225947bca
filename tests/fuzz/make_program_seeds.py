"""Writes the seeds of the fuzz target program: the JSON of small programs that PyTorch exports.

    ./dev exec python tests/fuzz/make_program_seeds.py     (needs torch)

Names are those of tests/interop/programs.py. Stack traces are shortened; everything else is as saved.
"""
import json
import pathlib
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "interop"))
import programs  # noqa: E402
import torch  # noqa: E402

WANTED = {"training": ("linear", "batch_norm1d_train", "key_value_cache", "tensor_lists", "plain_arguments",
                       "none_argument", "tied_by_use", "cond_on_size",
                       "while_loop", "nonzero_size", "derived_dim", "nested_dict", "in_place_chain", "item_as_size",
                       "symbolic_arithmetic", "scan_over_rows",
                       "no_grad_region", "namedtuple_argument", "buffer_not_saved", "input_mutation",
                       "mixed_precision"),
          "core": ("linear", "batch_norm1d_train", "constant_outputs", "linear_systems", "dropout_train",
                   "map_over_rows", "input_mutation")}


def shortened(value):
    if isinstance(value, dict):
        origin = {"stack_trace": 'File "m.py", line 1, in forward\n    x', "nn_module_stack": "L__self__,,M"}
        return {k: origin if k == "metadata" and v else shortened(v) for k, v in value.items()}
    return [shortened(v) for v in value] if isinstance(value, list) else value


class Mixed(torch.nn.Module):
    """A region of mixed precision: lower precision, float32, and the widest of several."""

    def forward(self, x, w):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = torch.nn.functional.linear(x, w)
            return y, torch.nn.functional.mse_loss(y, y + 1), torch.cat([y, x])


def mixed():
    return programs.Program("mixed_precision", Mixed, lambda: (torch.randn(2, 3), torch.randn(3, 3)),
                            dialects=("training",))


def main():
    folder = HERE / "corpus" / "program"
    folder.mkdir(parents=True, exist_ok=True)
    for p in programs.programs() + [mixed()]:
        for dialect in p.dialects:
            if p.name not in WANTED[dialect]:
                continue
            with tempfile.TemporaryDirectory() as scratch:
                path = pathlib.Path(scratch) / "m.pt2"
                ep = programs.export(p)
                torch.export.save(ep.run_decompositions() if dialect == "core" else ep, path)
                archive = zipfile.ZipFile(path)
                text = next(archive.read(n) for n in archive.namelist() if n.endswith("models/model.json"))
            (folder / f"{p.name}.{dialect}.json").write_text(json.dumps(shortened(json.loads(text)),
                    separators=(",", ":")))


if __name__ == "__main__":
    main()
