"""save() and load(): files as torch.save writes them, exchanged with PyTorch in both directions.

What may be in them is what the restricted reader builds: tensors, parameters, numbers, texts and the containers of
Python. Nothing of a file is ever run.
"""
import collections
import os
import shutil
import struct
import tempfile

from cresset import _C

__all__ = ["load", "save"]
_TYPED = {"uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int", "int64": "Long", "float16": "Half",
          "float32": "Float", "float64": "Double",
          "complex64": "ComplexFloat", "complex128": "ComplexDouble", "bool": "Bool", "bfloat16": "BFloat16"}


class _Pickler:
    """Protocol 2, of the values that load() takes. A container that is met twice is written twice; tensors share
    storages."""

    def __init__(self):
        from cresset import Tensor, nn
        self.out, self.tensors, self.keys, self.open = bytearray(b"\x80\x02"), [], {}, set()
        self.tensor_type, self.parameter_type = Tensor, nn.Parameter

    def named(self, module, name):
        self.out += f"c{module}\n{name}\n".encode()

    def call(self, module, name, *args):
        self.named(module, name)
        self.put(args)
        self.out += b"R"

    def text(self, value):
        data = value.encode("utf-8", "surrogatepass")
        self.out += b"X" + struct.pack("<I", len(data)) + data

    def integer(self, value):
        size = value.bit_length() // 8 + 1
        if size > 255:
            raise OverflowError("save(): an integer of over 2000 bits")
        self.out += b"J" + struct.pack("<i",
                value) if -2**31 <= value < 2**31 else b"\x8a" + bytes([size]) + value.to_bytes(size, "little",
                        signed=True)

    def storage(self, t, typed):
        key = t.untyped_storage().data_ptr() or id(t)
        if key not in self.keys:
            self.keys[key] = len(self.tensors)
            self.tensors.append(t)
        nbytes = t.untyped_storage().nbytes()
        self.out += b"("
        self.text("storage")
        if typed:
            self.named("torch", _TYPED[typed] + "Storage")
        else:
            self.named("torch.storage", "UntypedStorage")
        self.text(str(self.keys[key]))
        self.text("cpu")
        self.integer(nbytes // t.element_size() if typed else nbytes)
        self.out += b"tQ"

    def tensor(self, t):
        name = str(t.dtype).partition(".")[2]
        typed = name if name in _TYPED else None
        self.named("torch._utils", "_rebuild_tensor_v2" if typed else "_rebuild_tensor_v3")
        self.out += b"("
        self.storage(t, typed)
        for value in (t.storage_offset(), tuple(t.shape), t.stride(), t.requires_grad, collections.OrderedDict()):
            self.put(value)
        if not typed:
            self.named("torch", name)
        if t.is_conj() or t.is_neg():
            self.put({"conj": t.is_conj(), "neg": t.is_neg()})
        self.out += b"tR"

    def items(self, opcode, values):
        self.out += b"("
        for value in values:
            self.put(value)
        self.out += opcode

    def container(self, value):
        kind = type(value)
        if kind is tuple:
            self.items(b"t", value)
        elif kind is list:
            self.out += b"]"
            self.items(b"e", value)
        elif kind is set or kind is frozenset:
            self.call("builtins", kind.__name__, list(value))
        elif kind is _C.Size:
            self.call("torch", "Size", tuple(value))
        elif kind is collections.Counter:
            self.call("collections", "Counter", dict(value))
        else:
            self.out += b"}" if kind is dict else b"ccollections\nOrderedDict\n)R"
            self.items(b"u", (x for pair in value.items() for x in pair))
            if getattr(value, "_metadata", None) is not None:
                self.put({"_metadata": value._metadata})
                self.out += b"b"

    def put(self, value):
        kind = type(value)
        if value is None:
            self.out += b"N"
        elif kind is bool:
            self.out += b"\x88" if value else b"\x89"
        elif kind is int:
            self.integer(value)
        elif kind is float:
            self.out += b"G" + struct.pack(">d", value)
        elif kind is str:
            self.text(value)
        elif kind is complex:
            self.call("builtins", "complex", value.real, value.imag)
        elif kind is bytes:
            self.call("_codecs", "encode", value.decode("latin1"), "latin1")
        elif isinstance(value, _C.dtype):
            self.named("torch", str(value).partition(".")[2])
        elif isinstance(value, _C.device):
            self.call("torch", "device", str(value))
        elif isinstance(value, self.parameter_type):
            self.named("torch._utils", "_rebuild_parameter")
            self.out += b"("
            self.tensor(value.data)
            self.put(value.requires_grad)
            self.put(collections.OrderedDict())
            self.out += b"tR"
        elif isinstance(value, self.tensor_type):
            self.tensor(value)
        elif kind in (tuple, list, dict, set, frozenset, collections.OrderedDict, collections.Counter, _C.Size):
            if id(value) in self.open:
                raise ValueError(f"save(): a {kind.__name__} that contains itself")
            self.open.add(id(value))
            self.container(value)
            self.open.remove(id(value))
        else:
            raise TypeError(f"save(): {kind.__module__}.{kind.__qualname__} cannot be saved: tensors, parameters, "
                            f"numbers, texts, dtypes and lists, tuples, "
                            "dicts and sets of these can; save a module's state_dict()")


def _is_path(f):
    return isinstance(f, (str, bytes, os.PathLike))


def save(obj, f, pickle_module=None, pickle_protocol=2, _use_new_zipfile_serialization=True):
    """Writes obj to a path or file object, to be read by load() and by torch.load()."""
    if pickle_module is not None:
        raise NotImplementedError("save(pickle_module=...): the pickle is written by Cresset itself; leave it out")
    if pickle_protocol != 2 or not _use_new_zipfile_serialization:
        raise NotImplementedError("save(): files are zip archives with a pickle of protocol 2; leave pickle_protocol "
                                  "and _use_new_zipfile_serialization out")
    pickler = _Pickler()
    pickler.put(obj)
    pickle = bytes(pickler.out + b".")
    if _is_path(f):
        name = os.path.splitext(os.path.basename(os.fsdecode(f)))[0] or "archive"
        _C._save_torch(f, name.encode("utf-8", "replace").decode()[:200], pickle, pickler.tensors)
        return
    with tempfile.TemporaryDirectory(prefix="cresset-") as folder:
        path = os.path.join(folder, "archive.pt")
        _C._save_torch(path, "archive", pickle, pickler.tensors)
        with open(path, "rb") as written:
            shutil.copyfileobj(written, f)


def _maps_to_cpu(map_location):
    """Does a device, a dict of devices or a function of a storage and where it was leave tensors on the CPU?"""
    if isinstance(map_location, dict):
        return all(str(device) == "cpu" for device in map_location.values())
    if callable(map_location):
        storage = _C._function("empty")(0).untyped_storage()
        made = map_location(storage, "cpu")
        return made is None or made is storage
    return map_location is None or str(map_location) == "cpu"


def load(f, map_location=None, pickle_module=None, *, weights_only=None, mmap=None, **pickle_load_args):
    """What save() or torch.save() wrote. The reader only builds tensors and plain values; another class is refused by
    name.

    mmap=True: tensors lie on the mapped file, which must stay as it is; pages that are written to are copied first.
    """
    if pickle_module is not None or pickle_load_args:
        raise NotImplementedError("load(): the restricted reader takes no pickle_module and no arguments for one; "
                                  "leave them out")
    if weights_only is False:
        raise NotImplementedError("load(weights_only=False): nothing of a file is run here; leave it out, or save the "
                                  "state_dict() with PyTorch first")
    if not _maps_to_cpu(map_location):
        raise NotImplementedError(f"load(map_location={map_location!r}): tensors are read to the CPU; leave it out")
    if _is_path(f):
        return _C._load_torch(f, bool(mmap))
    if mmap:
        raise ValueError("load(mmap=True): only a file that is named by its path can be mapped")
    with tempfile.TemporaryDirectory(prefix="cresset-") as folder:
        path = os.path.join(folder, "archive.pt")
        with open(path, "wb") as copy:
            shutil.copyfileobj(f, copy)
        return _C._load_torch(path, False)
