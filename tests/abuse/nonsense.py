"""Arguments that fit a schema and nothing else, and recorded calls of PyTorch with one or two arguments spoilt.

Noise finds what a rule forgets to ask at all; a call that is nearly right gets past the rule and finds what a kernel
trusts. Everything follows from the `random.Random` that is given, and needs neither torch nor anything outside this
repository."""
import functools
import math
import pathlib
import sys

import cresset

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import oracle  # noqa: E402

RECORDED = "test_recorded_ops"  # tests/py/test_recorded_ops.py
DTYPES = [getattr(cresset, n) for n in ("float32 float64 float16 bfloat16 complex32 complex64 complex128 uint8 int8 "
                                        "int16 int32 int64 bool uint16 uint32 uint64").split()]
SMALL = [0, 1, 2, 3, 4, 5, 7]
EXTREME = [-1, -2, -3, -9, 16, 17, 63, 64, 65, 255, 1000, 2**15, 2**31 - 1, 2**31, -2**31, 2**32, 2**40, 2**53, 2**61,
           2**62 - 1, 2**62, 2**62 + 1,
           -2**62, 2**63 - 1, 2**63 - 2, -2**63, -2**63 + 1, 3037000500, 4294967296 * 3, 6148914691236517206]
FLOATS = [0.0, -0.0, 0.5, 1.0, -1.0, 2.0, 1.5, 1e-5, 3.7, -7.25, 1e10, 1e19, -1e19, 1e300, -1e300, 5e-324, 2.0**31,
          2.0**62, 2.0**63, -2.0**63, math.inf, -math.inf, math.nan]
TEXTS = ["", "mean", "sum", "none", "max", "floor", "trunc", "ij,jk->ik", "i", "...", "ij->ji", "ii", "->", "i,j,k",
         "a" * 300, "ij,", "constant", "reflect",
         "replicate", "circular", "tanh", "linear", "nuc", "fro", "inf", "forward", "ortho", "amax", "prod", "left",
         "xy", "ij", "bilinear", "\x00", "é€"]
LARGEST = 40000  # elements of a tensor that is made here: what takes long must be the op's fault


def integer(rng, wild=0.35):
    if rng.random() < wild:
        return rng.choice(EXTREME)
    return rng.choice(SMALL) if rng.random() < 0.7 else -rng.choice(SMALL)


def numbers(rng, dtype, n):
    """n elements: usual ones, or with some at the edges of what the dtype can hold."""
    kind = rng.random()
    if dtype is cresset.bool:
        return [rng.random() < 0.5 for _ in range(n)]
    if dtype.is_complex:
        edge = lambda: rng.choice(FLOATS) if kind < 0.2 else rng.uniform(-3, 3)
        return [complex(edge(), edge()) for _ in range(n)]
    if dtype.is_floating_point:
        return [rng.choice(FLOATS) if kind < 0.2 and rng.random() < 0.4 else rng.uniform(-3, 3) for _ in range(n)]
    low, high = (cresset.iinfo(dtype).min, cresset.iinfo(dtype).max)
    if kind < 0.3:
        return [min(max(rng.choice(EXTREME), low), high) if rng.random() < 0.4 else rng.randrange(0, 4)
                for _ in range(n)]
    return [rng.randrange(0, rng.choice([1, 2, 4, 10])) for _ in range(n)]


def dense(rng, shape, dtype):
    if math.prod(max(size, 1) for size in shape) > 2**40:
        shape = [min(size, 7) for size in shape]
    n = math.prod(shape)
    base = numbers(rng, dtype, min(n, 24))
    flat = (base * (n // max(len(base), 1) + 1))[:n]
    unsigned = dtype in (cresset.uint16, cresset.uint32, cresset.uint64)
    wide = (cresset.int64 if unsigned else cresset.float64 if dtype.is_floating_point else cresset.complex128
            if dtype.is_complex else dtype)
    clipped = [min(v, 2**63 - 1) for v in flat] if unsigned else flat
    return cresset.tensor(clipped, dtype=wide).to(dtype).reshape(shape)


def laid_out(rng, t):
    """The same kind of tensor in other memory: transposed, every second element, one element repeated, from an offset
    on."""
    kind = rng.randrange(8)
    if kind == 0 and t.dim() > 1:
        a, b = rng.randrange(t.dim()), rng.randrange(t.dim())
        return t.transpose(a, b).contiguous().transpose(a, b)
    if kind == 1 and 0 < t.dim() < 16:
        return cresset.stack([t, t], -1)[..., 1]
    if kind == 2 and t.dim() and t.numel():
        d = rng.randrange(t.dim())
        return t.narrow(d, 0, 1).expand(t.shape)
    if kind == 3:
        return cresset.cat([t.reshape(-1), t.reshape(-1)])[t.numel():].reshape(t.shape)
    if kind == 4 and t.dim() in (4, 5):
        return t.contiguous(memory_format=cresset.channels_last if t.dim() == 4 else cresset.channels_last_3d)
    if kind == 5:
        return t.to("meta") if rng.random() < 0.3 else t
    return t


def sizes(rng, rank=None):
    rank = rng.choice([0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 6]) if rank is None else rank
    if rng.random() < 0.02:
        rank = rng.choice([8, 15, 16])
    shape = [rng.choice(SMALL if rank < 5 else [0, 1, 1, 2, 2, 3]) for _ in range(rank)]
    if rank and rng.random() < 0.08:
        # beyond what loops over blocks do at once
        shape[rng.randrange(rank)] = rng.choice([15, 16, 17, 33, 64, 130, 1025])
    while math.prod(shape) > LARGEST:
        shape[rng.randrange(rank)] = 1
    return shape


def tensor(rng, shape=None, dtype=None):
    dtype = dtype or (cresset.float32 if rng.random() < 0.5 else rng.choice(DTYPES))
    if shape is None and rng.random() < 0.03:  # no elements, but sizes whose product overflows
        shape = sizes(rng, rng.randrange(1, 4)) + [0]
        shape[rng.randrange(len(shape) - 1)] = rng.choice([2**40, 2**62, 2**63 - 1])
        rng.shuffle(shape)
        try:
            return cresset.empty(shape, dtype=dtype)
        except RuntimeError:
            shape = None
    return laid_out(rng, dense(rng, sizes(rng) if shape is None else shape, dtype))


def scalar(rng):
    kind = rng.randrange(6)
    if kind < 2:
        return integer(rng)
    return rng.choice(FLOATS) if kind < 4 else rng.random() < 0.5 if kind == 4 else complex(rng.choice(FLOATS),
            rng.choice(FLOATS))


def one(rng, kind):
    match kind:
        case "Tensor":
            return tensor(rng)
        case "Scalar":
            return scalar(rng)
        case "int":
            return integer(rng)
        case "float":
            return rng.choice(FLOATS)
        case "bool":
            return rng.random() < 0.5
        case "str":
            return rng.choice(TEXTS)
        case "ScalarType":
            return rng.choice(DTYPES)
        case "Layout":
            return cresset.strided
        case "Device":
            return cresset.device(rng.choice(["cpu", "cpu", "meta"]))
        case "MemoryFormat":
            return rng.choice([cresset.contiguous_format, cresset.preserve_format, cresset.channels_last,
                               cresset.channels_last_3d])
        case "Generator":
            return cresset.Generator().manual_seed(rng.randrange(9))
    return rng.choice([None, 0, 1.5, True, [], "x", cresset.float32, tensor(rng)])  # Any


def value(rng, p):
    """For one parameter of a signature (cresset._C._signature)."""
    if p["optional"] and rng.random() < 0.35:
        return None
    if not p["list"]:
        return one(rng, p["type"])
    n = p["size"] if p["size"] > 0 and rng.random() < 0.7 else rng.choice([0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 9, 20])
    wild = rng.choice([0.02, 0.1, 0.5])
    make = lambda: integer(rng, wild) if p["type"] == "int" else one(rng, p["type"])
    return [None if p["item_optional"] and rng.random() < 0.3 else make() for _ in range(n)]


# ---- nearly right ----

def unpacked(v):
    """A recorded value as ours (as in tests/py/test_recorded_ops.py)."""
    if isinstance(v, list):
        return [unpacked(item) for item in v]
    if isinstance(v, dict):
        (kind, name), = v.items()
        if kind == "generator":
            return cresset.Generator().manual_seed(name)
        return cresset.device(name) if kind == "device" else getattr(cresset, name)
    if isinstance(v, oracle.Answer):
        plain = cresset.from_numpy(v.array.copy()).to(getattr(cresset, v.dtype))
        return cresset.empty_strided(v.shape, v.stride, dtype=plain.dtype).copy_(plain)
    return v.clone() if isinstance(v, cresset.Tensor) else v


@functools.cache
def records():
    return oracle.Records(RECORDED).answers


def rnn_weights(gates):
    return [cresset.ops.cresset.pack_panels(cresset.ones(gates * 4, n), groups=gates) for n in (3, 4)]


def own_calls():
    """Of the ops that PyTorch does not have."""
    one, own = cresset.ones, cresset.ops.cresset
    x, hidden = one(2, 5, 3), one(5, 4)
    yield "cresset::roll", [one(3, 4), [1, 2], [0, 1]]
    yield "cresset::pad_circular_backward", [one(2, 3, 7), one(2, 3, 4), [1, 2]]
    yield "cresset::pack_panels", [one(20, 3), False, 2]
    yield "cresset::linear_packed", [one(2, 3), own.pack_panels(one(20, 3)), 20, one(20), "relu", one(20), one(2, 20)]
    yield "cresset::embedding_packed", [own.pack_panels(one(20, 3)), cresset.tensor([0, 19]), 20]
    yield "cresset::lstm_packed", [x, hidden, hidden, *rnn_weights(4), one(16), one(16)]
    yield "cresset::gru_packed", [x, hidden, *rnn_weights(3), one(12), one(12)]
    yield "cresset::pack_conv", [one(20, 3, 3, 3), 1]
    yield "cresset::conv_packed", [one(1, 3, 6, 6), own.pack_conv(one(20, 3, 3, 3)), one(20), None, 20, [3, 3]]
    yield "cresset::max_pool2d", [one(1, 2, 6, 6), [2, 2]]


@functools.lru_cache(4)
def decoded(name):
    answers = records().get(f"test_op[{name}]: calls")
    if answers:
        return oracle.decode(answers)
    return [{"args": args, "kwargs": {}} for own, args in (own_calls() if name.startswith("cresset::") else ())
            if own == name]


def anew(c):
    """(arguments, keywords) of a recorded call, as ours, anew because the call may write to them."""
    return unpacked(c["args"]), {k: unpacked(v) for k, v in c["kwargs"].items()}


def recorded(name):
    """The recorded calls of a functional op."""
    return [anew(c) for c in decoded(name)]


def spoilt_sizes(rng, t):
    shape, kind = list(t.shape), rng.randrange(9)
    if kind == 0:
        shape.insert(rng.randrange(len(shape) + 1), rng.choice([0, 1, 2]))
    elif not shape:
        return sizes(rng)
    elif kind == 1:
        del shape[rng.randrange(len(shape))]
    elif kind == 2:
        rng.shuffle(shape)
    elif kind == 3:
        return [0] * len(shape)
    elif kind == 4:
        return [1] * len(shape)
    elif kind == 5:
        return sizes(rng)
    else:
        d = rng.randrange(len(shape))
        shape[d] = max(0, rng.choice([0, 1, shape[d] - 1, shape[d] + 1, shape[d] * 2, shape[d] + 7, shape[d] + 64]))
    return shape if math.prod(shape) <= LARGEST and len(shape) <= 16 else sizes(rng)


def spoilt_values(rng, t):
    flat = t.contiguous().reshape(-1).clone()
    if not t.numel() or t.device.type == "meta":
        return t
    for _ in range(rng.choice([1, 1, 2, 5])):
        at = rng.randrange(t.numel())
        if t.dtype.is_floating_point or t.dtype.is_complex:
            # rounds, and to infinity, too
            flat[at] = cresset.tensor(rng.choice(FLOATS), dtype=cresset.float64).to(t.dtype)
        elif t.dtype is cresset.bool:
            flat[at] = rng.random() < 0.5
        elif t.dtype in (cresset.uint16, cresset.uint32, cresset.uint64):
            flat = dense(rng, flat.shape, t.dtype)
        else:
            info = cresset.iinfo(t.dtype)
            flat[at] = min(max(rng.choice(EXTREME + SMALL + [-1, t.numel(), -t.numel()]), info.min), info.max)
    return flat.reshape(t.shape)


def spoilt_tensor(rng, t):
    kind = rng.randrange(10)
    if kind < 4:
        return dense(rng, spoilt_sizes(rng, t), t.dtype)
    if kind < 6:
        return spoilt_values(rng, t)
    if kind == 6:
        return dense(rng, list(t.shape), rng.choice(DTYPES)) if t.numel() <= LARGEST else t
    if kind == 7:
        return laid_out(rng, t)
    if kind == 8:
        return dense(rng, spoilt_sizes(rng, t), rng.choice(DTYPES))
    return tensor(rng)


def spoilt(rng, v, p):
    """A recorded value, changed; p is its parameter."""
    if v is None or rng.random() < 0.1:
        return value(rng, p)
    if isinstance(v, cresset.Tensor):
        return spoilt_tensor(rng, v)
    if isinstance(v, list):
        kind, changed = rng.randrange(6), list(v)
        if kind == 0 and changed:
            del changed[rng.randrange(len(changed))]
        elif kind == 1 or not changed:
            changed.insert(rng.randrange(len(changed) + 1), rng.choice(changed) if changed and rng.random() < 0.5
                           else one(rng, p["type"]))
        elif kind == 2:
            changed = changed * rng.choice([0, 2, 3])
        else:
            at = rng.randrange(len(changed))
            changed[at] = spoilt(rng, changed[at], {**p, "list": False, "optional": p["item_optional"]})
        return changed
    if isinstance(v, bool):
        return not v
    if isinstance(v, int):
        return rng.choice([v + 1, v - 1, -v, v * 2, 0, 1, integer(rng, 1), integer(rng, 1)])
    return one(rng, p["type"])


def resized(rng, v):
    """Every tensor of the call with one of its dimensions empty, or of one element, or laid out otherwise, or all in a
    batch: sizes that fit each other."""
    kind, d, batch = rng.randrange(4), rng.randrange(4), rng.choice([0, 1, 2, 3])

    def change(t):
        if isinstance(t, list):
            return [change(item) for item in t]
        if not isinstance(t, cresset.Tensor) or t.device.type == "meta":
            return t
        if kind == 3:
            return cresset.stack([t] * batch) if batch and 0 < t.dim() < 16 else t
        if t.dim() <= d:
            return t
        return t.narrow(d, 0, min(kind, t.size(d))) if kind < 2 else laid_out(rng, t)
    return [change(item) for item in v]


def arguments(rng, name, base, parameters):
    """One call of op `name`, derived from the functional op `base`: the arguments by parameter."""
    calls = decoded(base)
    if not calls or rng.random() < 0.25:
        return {p["name"]: value(rng, p) for p in parameters if not (p["default"] is not None and rng.random() < 0.4)}
    args, kwargs = anew(rng.choice(calls))
    if rng.random() < 0.15:
        args = resized(rng, args)
    given = dict(zip([p["name"] for p in parameters], args)) | kwargs
    known = {p["name"]: p for p in parameters}
    given = {k: v for k, v in given.items() if k in known}
    for p in parameters:  # what the recording leaves to defaults, and the tensors of out=
        if p["name"] not in given and (p["default"] is None or rng.random() < 0.1):
            written = p["writes"] and not p["list"] and rng.random() < 0.5
            given[p["name"]] = cresset.empty(0, dtype=rng.choice(DTYPES)) if written else value(rng, p)
    for which in rng.sample(sorted(given), min(len(given), rng.choice([0, 1, 1, 1, 2, 2, 3]))):
        given[which] = spoilt(rng, given[which], known[which])
    if given and rng.random() < 0.03:
        given[rng.choice(sorted(given))] = rng.choice([0, 1.5, None, "x", [], [0, 1], True, 1j, cresset.int32,
                                                       object(), cresset.zeros(2)])
    if rng.random() < 0.02:  # two slots, one tensor
        tensors = [k for k, v in given.items() if isinstance(v, cresset.Tensor)]
        if len(tensors) > 1:
            given[tensors[0]] = given[tensors[1]]
    return given


def describe(v):
    if isinstance(v, cresset.Tensor):
        text = f"{str(v.dtype).rpartition('.')[2]}{list(v.shape)}"
        if not v.is_contiguous():
            text += f" strides {list(v.stride())}"
        if v.device.type != "cpu":
            return text + " on meta"
        return text + f" = {v.tolist()}" if 0 < v.numel() <= 12 else text
    if isinstance(v, (list, tuple)):
        return "[" + ", ".join(map(describe, v)) + "]"
    return repr(v)
