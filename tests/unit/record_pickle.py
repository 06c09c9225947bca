"""Writes tests/unit/pickle_good.inc: pickles of Python and PyTorch with the text that tests/unit/test_pickle.c expects,
and the same pickles as seeds of the fuzz target; and whole torch.save files as seeds of the target "torch".

    python tests/unit/record_pickle.py

Run it again when a new PyTorch pickles something in another way; the texts below are written by hand.
"""
import collections
import io
import pathlib
import pickle
import warnings
import zipfile

import torch

HERE = pathlib.Path(__file__).resolve().parent
SEEDS = HERE.parent / "fuzz" / "corpus" / "pickle"
FILES = HERE.parent / "fuzz" / "corpus" / "torch"


def literal(data):
    """A C string literal."""
    text, after_hex = '"', False
    for byte in data:
        letter = chr(byte)
        if letter in '"\\':
            text += "\\" + letter
        elif 32 <= byte < 127 and letter != "?":
            text += ('" "' if after_hex and letter in "0123456789abcdefABCDEF" else "") + letter
        else:
            text += f"\\x{byte:02x}"
        after_hex = not (letter in '"\\' or (32 <= byte < 127 and letter != "?"))
    return text + '"'


def saved(value, **options):
    """The pickle inside a torch.save file."""
    file = io.BytesIO()
    torch.save(value, file, **options)
    return zipfile.ZipFile(file).read("archive/data.pkl")


def plain(protocol):
    yield ([None, True, False, 0, -1, 255, 65536, -2**31, 2**40, -2**63, 2**63 - 1, 0.5, -1e300, "a'b\\\n",
            "h\u00e9\u20ac\U0001f600", (), (1,),
            (1, 2, 3, 4), [], {}, {"k": [1]}, {3: 4.0}],
           "[None, True, False, 0, -1, 255, 65536, -2147483648, 1099511627776, -9223372036854775808, "
           "9223372036854775807, 0.5, -1e+300, 'a\\'b\\\\\\n', 'h\u00e9\u20ac\U0001f600', (), (1,), (1, 2, 3, 4), [], "
           "{}, {'k': [1]}, {3: 4.0}]")
    yield [b"", b"a\xff\x00", 1 + 2j, {5}, frozenset([6]),
           set()], "[b'', b'a\\xff\\x00', complex(1.0, 2.0), {5}, frozenset({6}), set()]"
    listed = collections.defaultdict(list)
    listed["x"] = [2]
    yield ([collections.OrderedDict(a=1), listed, collections.defaultdict(None), collections.deque([1, 2]),
            collections.deque([3], 4)],
           "[OrderedDict({'a': 1}), defaultdict(list, {'x': [2]}), defaultdict(None, {}), deque([1, 2]), deque([3], "
           "maxlen=4)]")
    yield ([torch.float32, torch.float8_e4m3fn, torch.device("cuda", 12), torch.device("cpu"), torch.Size([2, 3])],
           "[torch.float32, torch.float8_e4m3fn, device('cuda:12'), device('cpu'), torch.Size([2, 3])]")


def tensor(size, stride, dtype, storage, rest="", kind="tensor"):
    return f"{kind}(size={size}, stride={stride}, dtype=torch.{dtype}, storage='{storage}'{rest})"


def torch_values():
    yield (saved(torch.nn.Linear(2, 3).state_dict()),
           "OrderedDict({'weight': " + tensor([3, 2], [2, 1], "float32", 0) + ", 'bias': " + tensor([3], [1],
                   "float32", 1) + "})")
    w = torch.arange(6.0).reshape(2, 3)
    yield (saved((w, w.t(), w[1], {"p": torch.nn.Parameter(w)})),
           "(" + ", ".join([tensor([2, 3], [3, 1], "float32", 0), tensor([3, 2], [1, 3], "float32", 0),
                            tensor([3], [1], "float32", 0, ", offset=3"),
                            "{'p': " + tensor([2, 3], [3, 1], "float32", 0, ", requires_grad=True",
                                              "Parameter") + "}"]) + ")")
    dtypes = "uint8 bool bfloat16 uint16 complex128".split()
    yield (saved([torch.ones(2, dtype=getattr(torch, d)) for d in dtypes]),
           "[" + ", ".join(tensor([2], [1], d, i) for i, d in enumerate(dtypes)) + "]")
    yield (saved([torch.ones(2, dtype=torch.complex64).conj(), torch._neg_view(torch.ones(2)), torch.ones(()),
                  torch.ones(0, 4), torch.ones(1).expand(5)]),
           "[" + ", ".join([tensor([2], [1], "complex64", 0, ", conj"), tensor([2], [1], "float32", 1, ", neg"),
                            tensor([], [], "float32", 2),
                            tensor([0, 4], [4, 1], "float32", 3), tensor([5], [0], "float32", 4)]) + "]")
    p = torch.nn.Parameter(torch.ones(2), requires_grad=False)
    p.note = 3
    yield (saved([p, torch.nn.Buffer(torch.ones(2)), torch.strided, torch.UntypedStorage(4), torch.ones(3).storage()]),
           "[" + ", ".join([tensor([2], [1], "float32", 0, kind="Parameter"), tensor([2], [1], "float32", 1),
                            "torch.strided",
                            "storage('2', untyped, 4, 'cpu')", "storage('3', float32, 3, 'cpu')"]) + "]")
    yield saved(((torch.ones(1),), {"k": None}), pickle_protocol=5), "((" + tensor([1], [1], "float32",
            0) + ",), {'k': None})"


def main():
    warnings.simplefilter("ignore")
    rows = [(pickle.dumps(value, protocol), text) for protocol in range(6)
            for value, text in plain(protocol)] + list(torch_values())
    SEEDS.mkdir(parents=True, exist_ok=True)
    with open(HERE / "pickle_good.inc", "w") as file:
        for i, (data, text) in enumerate(rows):
            file.write(f"    {{{literal(data)}, {len(data)}, {literal(text.encode())}}},\n")
            (SEEDS / f"good_{i:02d}").write_bytes(data)
    write_files()


def write_files():
    FILES.mkdir(parents=True, exist_ok=True)
    w = torch.arange(6.0).reshape(2, 3)
    torch.save({"w": w, "view": w.t(), "b": torch.tensor([1.5, 2.5], dtype=torch.bfloat16), "n": torch.tensor(7)},
               FILES / "tensors")
    torch.save(torch.nn.BatchNorm1d(2).state_dict(), FILES / "state_dict")
    torch.save(((torch.ones(2, 0), [1, None]), {"k": torch.nn.Parameter(torch.zeros(1))}), FILES / "example_inputs")
    torch.save(w, FILES / "before_1_6", _use_new_zipfile_serialization=False)


if __name__ == "__main__":
    main()
