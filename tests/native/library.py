"""A compiled model through ctypes alone: cresset/abi.h as Python declarations. No Cresset, no PyTorch, no NumPy needed
to call it; NumPy arrays in and out because tests have them."""
import ctypes as c

import numpy as np

DTYPES = ["uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", None, "complex64", "complex128",
          "bool", "bfloat16", "uint16", "uint32", "uint64"]
NONE, TENSOR, INT, FLOAT, BOOLEAN, STRING = range(6)


class Value(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("kind", c.c_int32), ("dtype", c.c_int32), ("rank", c.c_int32),
                ("data", c.c_void_p), ("size", c.POINTER(c.c_int64)),
                ("stride", c.POINTER(c.c_int64)), ("integer", c.c_int64), ("number", c.c_double),
                ("capacity", c.c_size_t), ("owner", c.c_void_p)]


class Dim(c.Structure):
    _fields_ = [("text", c.c_char_p), ("min", c.c_int64), ("max", c.c_int64)]


class ValueInfo(c.Structure):
    _fields_ = [("name", c.c_char_p), ("kind", c.c_int32), ("dtype", c.c_int32), ("rank", c.c_int32),
                ("dims", c.POINTER(Dim)), ("constant", c.c_char_p)]


class MethodInfo(c.Structure):
    _fields_ = [("name", c.c_char_p), ("inputs", c.POINTER(ValueInfo)), ("outputs", c.POINTER(ValueInfo)),
                ("ninputs", c.c_int32), ("noutputs", c.c_int32),
                ("in_spec", c.c_char_p), ("out_spec", c.c_char_p)]


class StateInfo(c.Structure):
    _fields_ = [("name", c.c_char_p), ("dtype", c.c_int32), ("rank", c.c_int32), ("size", c.POINTER(c.c_int64)),
                ("is_mutable", c.c_int32)]


class Options(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("threads", c.c_int32), ("weights", c.c_char_p), ("alloc", c.c_void_p),
                ("free", c.c_void_p), ("user", c.c_void_p)]


class Api(c.Structure):
    pass


Api._fields_ = [
    ("struct_size", c.c_size_t), ("major", c.c_uint32), ("minor", c.c_uint32), ("name", c.c_char_p), ("id", c.c_char_p),
    ("methods", c.POINTER(MethodInfo)), ("nmethods", c.c_int32),
    ("state", c.POINTER(StateInfo)), ("nstate", c.c_int32), ("target", c.c_char_p),
    ("create", c.CFUNCTYPE(c.c_int, c.POINTER(Api), c.POINTER(Options), c.POINTER(c.c_void_p), c.c_char_p, c.c_size_t)),
    ("destroy", c.CFUNCTYPE(None, c.c_void_p)),
    ("run", c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_int32, c.POINTER(Value), c.c_int32, c.POINTER(Value), c.c_int32,
                        c.c_char_p, c.c_size_t)),
    ("release", c.CFUNCTYPE(None, c.c_void_p, c.POINTER(Value))),
    ("get_state", c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_char_p, c.c_void_p, c.c_size_t, c.c_char_p, c.c_size_t)),
    ("set_state", c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_char_p, c.c_void_p, c.c_size_t, c.c_char_p, c.c_size_t)),
    ("seed", c.CFUNCTYPE(None, c.c_void_p, c.c_uint64)),
]


class Failed(Exception):
    pass


class Model:
    """model(*flat_inputs) -> flat outputs. Inputs: arrays (a pair (uint16 array, "bfloat16") for bfloat16), numbers,
    strings, None."""

    def __init__(self, path, threads=1):
        self.library = c.CDLL(str(path))
        self.library.cresset_model.restype = c.POINTER(Api)
        self.library.cresset_model.argtypes = [c.c_uint32]
        self.api = self.library.cresset_model(1)
        self.instance, message = c.c_void_p(), c.create_string_buffer(256)
        options = Options(struct_size=c.sizeof(Options), threads=threads)
        if self.api.contents.create(self.api, options, c.byref(self.instance), message, 256):
            raise Failed(message.value.decode())

    def __del__(self):
        if getattr(self, "instance", None):
            self.api.contents.destroy(self.instance)

    def seed(self, seed):
        self.api.contents.seed(self.instance, seed)

    def value(self, x, keep):
        v = Value(struct_size=c.sizeof(Value))
        dtype = None
        if isinstance(x, tuple):
            x, dtype = x
        if x is None:
            return v
        if isinstance(x, (bool, np.bool_)):
            v.kind, v.integer = BOOLEAN, int(x)
        elif isinstance(x, int):
            v.kind, v.integer = INT, x
        elif isinstance(x, float):
            v.kind, v.number = FLOAT, x
        elif isinstance(x, str):
            text = c.create_string_buffer(x.encode())
            keep.append(text)
            v.kind, v.data = STRING, c.cast(text, c.c_void_p)
        else:
            size = (c.c_int64 * max(x.ndim, 1))(*x.shape)
            stride = (c.c_int64 * max(x.ndim, 1))(*(s // x.itemsize for s in x.strides))
            keep += [x, size, stride]
            v.kind, v.dtype, v.rank, v.data, v.size, v.stride = TENSOR, DTYPES.index(dtype
                    or x.dtype.name), x.ndim, x.ctypes.data or 1, size, stride
        return v

    def result(self, v):
        if v.kind == TENSOR:
            name = DTYPES[v.dtype]
            shape, strides = [v.size[d] for d in range(v.rank)], [v.stride[d] for d in range(v.rank)]
            item = np.dtype("uint16" if name == "bfloat16" else name)
            if 0 in shape:
                return np.zeros(shape, item)
            count = 1 + sum((n - 1) * s for n, s in zip(shape, strides))
            flat = np.frombuffer((c.c_char * (count * item.itemsize)).from_address(v.data), item)
            out = np.lib.stride_tricks.as_strided(flat, shape, [s * item.itemsize for s in strides]).copy("K")
            return (out.astype("uint32") << 16).view("float32").reshape(shape) if name == "bfloat16" else out
        if v.kind == STRING:
            return c.string_at(v.data).decode()
        return {NONE: None, INT: v.integer, FLOAT: v.number, BOOLEAN: bool(v.integer)}[v.kind]

    def bound(self, *inputs, method=0):
        """A call without arguments that runs on these inputs and drops the results: what the library alone costs."""
        keep, info, api = [], self.api.contents.methods[method], self.api.contents
        ins = (Value * max(len(inputs), 1))(*(self.value(x, keep) for x in inputs))
        outs = (Value * max(info.noutputs, 1))()
        message = c.create_string_buffer(256)

        def call(keep=keep):
            for out in outs:
                c.memset(c.byref(out), 0, c.sizeof(Value))
                out.struct_size = c.sizeof(Value)
            if api.run(self.instance, method, ins, len(inputs), outs, info.noutputs, message, 256):
                raise Failed(message.value.decode())
            for out in outs:
                api.release(self.instance, out)
        return call

    def __call__(self, *inputs, method=0):
        keep, info = [], self.api.contents.methods[method]
        ins = (Value * max(len(inputs), 1))(*(self.value(x, keep) for x in inputs))
        outs = (Value * max(info.noutputs, 1))(*(Value(struct_size=c.sizeof(Value)) for _ in range(info.noutputs)))
        message = c.create_string_buffer(256)
        if self.api.contents.run(self.instance, method, ins, len(inputs), outs, info.noutputs, message, 256):
            raise Failed(message.value.decode())
        results = [self.result(outs[i]) for i in range(info.noutputs)]
        for i in range(info.noutputs):
            self.api.contents.release(self.instance, outs[i])
        return results
