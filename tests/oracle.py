"""PyTorch's answers: asked live where torch is installed, replayed from tests/recorded where it is not.

    def test_sum(oracle):
        want = oracle("sum of 0..9", lambda torch: torch.arange(10).sum())
        assert want.dtype == "int64" and want.array == 45

The answer of the lambda goes through the same encoding live and replayed, so a test sees the same objects either way:
numbers, texts, None, lists and dictionaries as they are; a tuple becomes a list; a tensor becomes an `Answer`; an
exception (call `raises=True`) becomes its class name and message. `./dev record` stores what the tests ask. A key is
unique in its test; an answer that was never recorded fails the test, it does not skip it.
"""
import base64
import dataclasses
import json
import math
import os
import pathlib
import zlib

import numpy

FOLDER = pathlib.Path(__file__).resolve().parent / "recorded"


@dataclasses.dataclass
class Answer:
    """A tensor: dtype by PyTorch's name, sizes, strides, and the elements (bfloat16 and float8 widened to float32)."""
    dtype: str
    shape: list
    stride: list
    array: numpy.ndarray


@dataclasses.dataclass
class Raised:
    """An exception: the names of its class and bases, nearest first, and its message."""
    classes: list
    message: str


def torch_or_none():
    try:
        import torch
    except ImportError:
        return None
    return torch


def encode(value, torch):
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, complex):
        return {"complex": [encode(value.real, torch), encode(value.imag, torch)]}
    if isinstance(value, (list, tuple)):
        return {"list": [encode(item, torch) for item in value]}
    if isinstance(value, dict):
        return {"dict": [[key, encode(item, torch)] for key, item in value.items()]}
    if isinstance(value, Raised):
        return {"raised": value.classes, "message": value.message}
    if isinstance(value, numpy.ndarray):
        value = torch.from_numpy(value)
    if isinstance(value, torch.Tensor):
        tensor = value.detach().resolve_conj().resolve_neg()
        name = str(tensor.dtype).removeprefix("torch.")
        if name == "bfloat16" or name.startswith("float8"):
            tensor = tensor.float()
        array = numpy.ascontiguousarray(tensor.numpy())
        return {"tensor": name, "shape": list(value.shape), "stride": list(value.stride()), "numpy": array.dtype.str,
                "data": base64.b64encode(zlib.compress(array.tobytes(), 9)).decode()}
    if isinstance(value, (torch.dtype, torch.device, torch.Size)):
        return encode(list(value) if isinstance(value, torch.Size) else str(value), torch)
    raise TypeError(f"the oracle's answer has a {type(value).__name__}: return numbers, texts, lists or tensors")


def decode(value):
    if not isinstance(value, dict):
        return value
    if "float" in value:
        return float(value["float"])
    if "complex" in value:
        return complex(*map(decode, value["complex"]))
    if "list" in value:
        return [decode(item) for item in value["list"]]
    if "dict" in value:
        return {key: decode(item) for key, item in value["dict"]}
    if "raised" in value:
        return Raised(value["raised"], value["message"])
    data = zlib.decompress(base64.b64decode(value["data"]))
    array = numpy.frombuffer(data, value["numpy"]).reshape(value["shape"])
    return Answer(value["tensor"], value["shape"], value["stride"], array)


class Records:
    """One file of answers: JSON lines sorted by key, so that a recording changes only what changed."""

    def __init__(self, name):
        self.path = FOLDER / f"{name}.jsonl"
        self.answers = {}
        if self.path.is_file():
            for line in self.path.read_text().splitlines():
                key, value = json.loads(line)
                self.answers[key] = value
        self.asked = {}

    def write(self):
        self.path.parent.mkdir(exist_ok=True)
        lines = [json.dumps([key, self.asked[key]], separators=(",", ":")) for key in sorted(self.asked)]
        self.path.write_text("".join(line + "\n" for line in lines))


class Oracle:
    def __init__(self, records, prefix):
        self.records, self.prefix = records, prefix

    def __call__(self, key, ask, raises=False, stored=False):
        """PyTorch's answer to `ask`; with `stored` the recorded one even where torch is installed."""
        key = f"{self.prefix}: {key}"
        torch = None if stored and not os.environ.get("CRESSET_RECORD") else torch_or_none()
        if torch is None:
            if key not in self.records.answers:
                raise LookupError(f"PyTorch's answer to '{key}' was never recorded: run ./dev record where torch is "
                                  f"installed")
            return decode(self.records.answers[key])
        if raises:
            try:
                value = ask(torch)
            except Exception as error:
                names = [cls.__name__ for cls in type(error).__mro__ if cls not in (BaseException, object)]
                value = Raised(names, str(error))
        else:
            value = ask(torch)
        encoded = encode(value, torch)
        if os.environ.get("CRESSET_RECORD"):
            if self.records.asked.get(key, encoded) != encoded:
                raise LookupError(f"'{key}' was asked twice with different answers: give each question its own key")
            self.records.asked[key] = encoded
        return decode(encoded)
