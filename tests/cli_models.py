"""Programs for the tests of the tool: exported live where torch is installed, read from tests/data/cli where it is not.

A program is an archive and sets of inputs with what PyTorch makes of them, in order, on one instance:

    case = cases["affine"]          # case.path: the .pt2;  case.sets: [(inputs, outputs)], dicts of NumPy arrays

`CRESSET_RECORD=1` (that is, ./dev record) writes the files that the other machines read.
"""
import dataclasses
import json
import os
import pathlib
import zipfile

import numpy

RECORDED = pathlib.Path(__file__).resolve().parent / "data" / "cli"
try:
    import torch
except ImportError:
    torch = None


@dataclasses.dataclass
class Case:
    path: pathlib.Path
    sets: list


def array(value):
    """As `cresset run` writes it: NumPy's dtypes, numbers as 0-d arrays."""
    if isinstance(value, torch.Tensor):
        value = value.detach().resolve_conj()
        if value.dtype == torch.bfloat16 or str(value.dtype).startswith("torch.float8"):
            value = value.float()
        return value.numpy().copy()
    return numpy.array(value)


def outputs(result):
    """A None keeps its number and is left out."""
    return {f"out{i}": array(value) for i, value in enumerate(torch.utils._pytree.tree_leaves(result))
            if value is not None}


# ---- the programs: each returns (exported program, {input name: tensor or number} a call, arguments a call) ----

def affine():
    class Affine(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 3)
            self.register_buffer("count", torch.zeros((), dtype=torch.int64))
            self.register_buffer("shift", torch.ones(3), persistent=False)

        def forward(self, x, *, options, k=2):
            self.count.add_(1)
            y = self.linear(x) * k + self.shift + options["bias"]
            return {"y": y, "count": self.count + 0, "none": None, "twice": x.shape[0] * 2, "half": 0.5}

    batch = torch.export.Dim("batch", min=2, max=64)
    make = [(torch.randn(n, 4), torch.randn(3)) for n in (5, 2, 7)]
    ep = torch.export.export(Affine().eval(), (make[0][0],), {"options": {"bias": make[0][1]}, "k": 2},
                             dynamic_shapes={"x": {0: batch}, "options": {"bias": None}, "k": None})
    return ep, [((x,), {"options": {"bias": b}, "k": 2}, {"x": x, "options_bias": b}) for x, b in make]


def dtypes():
    class Dtypes(torch.nn.Module):
        def forward(self, b16, f16, f64, flag, i8, c64, u8):
            return b16 * 2, f16 + 1, f64.sin(), ~flag, i8.abs(), c64 * 1j, u8 // 2, (b16.float() - f16.float()).T

    given = (torch.randn(2, 3).bfloat16(), torch.randn(2, 3).half(), torch.randn(3, dtype=torch.float64),
             torch.tensor([True, False]),
             torch.tensor([-3, 5], dtype=torch.int8), torch.randn(2, dtype=torch.complex64),
             torch.tensor([7, 200], dtype=torch.uint8))
    ep = torch.export.export(Dtypes(), given)
    return ep, [(given, {}, dict(zip("b16 f16 f64 flag i8 c64 u8".split(), given)))]


def noise():
    class Noise(torch.nn.Module):
        def forward(self, x):
            return torch.nn.functional.dropout(x, 0.5) + torch.randn_like(x), torch.randint(0, 100, (5,))

    given = torch.randn(4, 6)
    ep = torch.export.export(Noise(), (given,))
    return ep, [((given,), {}, {"x": given})] * 2


def tied():
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = torch.nn.Embedding(7, 4)
            self.head = torch.nn.Linear(4, 7, bias=False)
            self.head.weight = self.embedding.weight
            self.register_buffer("turned", torch.randn(4, 4).T)

        def forward(self, ids):
            return self.head(self.embedding(ids) @ self.turned)

    given = torch.tensor([[1, 6, 0]])
    ep = torch.export.export(Tied().eval(), (given,))
    return ep, [((given,), {}, {"ids": given})]


def sizes():
    class Sizes(torch.nn.Module):
        def forward(self, a, b, n, mode="sum"):
            c = torch.cat([a, b]) * n
            return c.sum(0) if mode == "sum" else c

    rows, width = torch.export.Dim("rows", min=3, max=12), torch.export.Dim("width", min=2)
    make = [(torch.randn(n, w), torch.randn(2 * n, w), k) for n, w, k in ((4, 3, 5), (3, 2, 9))]
    ep = torch.export.export(Sizes(), make[0], {"mode": "sum"}, dynamic_shapes={
        "a": {0: rows, 1: width}, "b": {0: 2 * rows, 1: width}, "n": torch.export.Dim.DYNAMIC, "mode": None})
    return ep, [(given, {"mode": "sum"}, dict(zip("abn", given))) for given in make]


def unknown():
    @torch.library.custom_op("cli_test::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    twice.register_fake(lambda x: torch.empty_like(x))

    class Unknown(torch.nn.Module):
        def forward(self, x):
            return twice(x) + twice(x.relu())

    given = torch.randn(3)
    return torch.export.export(Unknown(), (given,)), [((given,), {}, {"x": given})]


PROGRAMS = {"affine": affine, "dtypes": dtypes, "noise": noise, "tied": tied, "sizes": sizes, "unknown": unknown}
SEED = 7
OLD = ("affine", "tied")  # also in the layout of PyTorch 2.1 to 2.6, as NAME_old


def scrub(ep):
    """Stack traces without the folders of this machine."""
    here, library = str(pathlib.Path(__file__).parent) + "/", str(pathlib.Path(torch.__file__).parent.parent) + "/"
    for node in ep.graph.nodes:
        if trace := node.meta.get("stack_trace"):
            node.meta["stack_trace"] = trace.replace(here, "").replace(library, "site-packages/")


def save_old(ep, path):
    from torch._export.serde.schema import SCHEMA_VERSION
    from torch._export.serde.serialize import serialize

    parts = serialize(ep)
    members = {"serialized_exported_program.json": parts.exported_program, "serialized_state_dict.pt": parts.state_dict,
               "serialized_constants.pt": parts.constants, "serialized_example_inputs.pt": parts.example_inputs,
               "version": ".".join(map(str, SCHEMA_VERSION)), "extra_files/notes.txt": "from long ago"}
    with zipfile.ZipFile(path, "w") as file:
        for name, data in members.items():
            file.writestr(zipfile.ZipInfo(name), data)  # without a date: the same bytes each time


def export(name, folder):
    torch.manual_seed(len(name))
    ep, calls = PROGRAMS[name]()
    scrub(ep)
    torch.export.save(ep, folder / f"{name}.pt2", extra_files={"notes.txt": "hello"})
    if name in OLD:
        save_old(ep, folder / f"{name}_old.pt2")
    module = ep.module()
    for i, (args, kwargs, named) in enumerate(calls):
        torch.manual_seed(SEED)
        result = outputs(module(*args, **kwargs))
        numpy.savez(folder / f"{name}_{i}_in.npz", **{key: array(value) for key, value in named.items()})
        numpy.savez(folder / f"{name}_{i}_out.npz", **result)
    if name == "tied":
        from torch.export.pt2_archive._package import package_pt2

        package_pt2(str(folder / "pair.pt2"), exported_programs={"first": ep, "second": ep})


def load(folder):
    if torch is not None:
        folder = RECORDED if os.environ.get("CRESSET_RECORD") else folder
        folder.mkdir(parents=True, exist_ok=True)
        for name in PROGRAMS:
            export(name, folder)
    else:
        folder = RECORDED
    cases = {}
    for path in sorted(folder.glob("*.pt2")):
        files = sorted(folder.glob(f"{path.stem.removesuffix('_old')}_*_in.npz"))
        sets = [tuple(dict(numpy.load(str(file).replace("_in.npz", end))) for end in ("_in.npz", "_out.npz"))
                for file in files]
        cases[path.stem] = Case(path, sets)
    return cases


def program_json(path):
    with zipfile.ZipFile(path) as file:
        name = next(name for name in file.namelist() if "/models/" in name
                    or name == "serialized_exported_program.json")
        return json.loads(file.read(name))
