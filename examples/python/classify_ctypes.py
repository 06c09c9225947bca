"""The digits model from a Python that has nothing installed: ctypes and the compiled library.

    cresset compile examples/digits/digits.pt2 -o libdigits.so
    python3 examples/python/classify_ctypes.py ./libdigits.so examples/digits/images.npy examples/digits/labels.npy
"""
import array
import ctypes as c
import os
import sys

F32, TENSOR = 6, 1


class Value(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("kind", c.c_int32), ("dtype", c.c_int32), ("rank", c.c_int32),
                ("data", c.c_void_p), ("size", c.POINTER(c.c_int64)),
                ("stride", c.POINTER(c.c_int64)), ("integer", c.c_int64), ("number", c.c_double),
                ("capacity", c.c_size_t), ("owner", c.c_void_p)]


class Api(c.Structure):  # the head of cresset_api: later versions add fields at its end
    _fields_ = [("struct_size", c.c_size_t), ("major", c.c_uint32), ("minor", c.c_uint32), ("name", c.c_char_p),
                ("id", c.c_char_p),
                ("methods", c.c_void_p), ("nmethods", c.c_int32), ("state", c.c_void_p), ("nstate", c.c_int32),
                ("target", c.c_char_p),
                ("create", c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_void_p, c.POINTER(c.c_void_p), c.c_char_p, c.c_size_t)),
                ("destroy", c.CFUNCTYPE(None, c.c_void_p)),
                ("run", c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_int32, c.POINTER(Value), c.c_int32, c.POINTER(Value),
                                    c.c_int32, c.c_char_p, c.c_size_t)),
                ("release", c.CFUNCTYPE(None, c.c_void_p, c.POINTER(Value)))]


def read_npy(path, code):
    with open(path, "rb") as file:
        file.seek(128)  # NumPy's header
        return array.array(code, file.read())


def main(library, images_path, labels_path):
    images, labels = read_npy(images_path, "f"), read_npy(labels_path, "q")
    model = c.CDLL(os.path.abspath(library)).cresset_model
    model.restype, model.argtypes = c.POINTER(Api), [c.c_uint32]
    api, message, instance = model(1), c.create_string_buffer(256), c.c_void_p()
    if not api:
        sys.exit("the library has another version of the interface")
    if api.contents.create(api, None, c.byref(instance), message, 256):
        sys.exit(message.value.decode())
    size = (c.c_int64 * 3)(len(labels), 8, 8)
    given = Value(c.sizeof(Value), TENSOR, F32, 3, images.buffer_info()[0], size)
    results = (Value * 2)(Value(c.sizeof(Value)), Value(c.sizeof(Value)))  # digit, probability
    if api.contents.run(instance, 0, given, 1, results, 2, message, 256):
        sys.exit(message.value.decode())
    digits = c.cast(results[0].data, c.POINTER(c.c_int64))
    print(f"{sum(digits[i] == labels[i] for i in range(len(labels)))} of {len(labels)} digits right")
    for result in results:
        api.contents.release(instance, result)
    api.contents.destroy(instance)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: classify_ctypes.py libdigits.so images.npy labels.npy")
    main(*sys.argv[1:])
