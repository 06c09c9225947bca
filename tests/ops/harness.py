"""Runs one call with PyTorch and with Cresset and says how they differ.

Integers, bools, indices and what only moves data must be equal bit for bit. A floating number passes within 4 ULP of
PyTorch's or within the tolerance that PyTorch publishes for its dtype (torch.testing's defaults: TOLERANCE below),
whichever is looser, and a real zero must have PyTorch's sign. Sizes, strides, dtypes, exception classes and what shares
memory with what must be PyTorch's. This holds for every op; a call that passes has outcome "equal", or "refused" when
both refuse it. Some calls have no such answer to compare with. They pass by one of these rules, each an outcome of its
own, so that the summary counts them:

    layout   PyTorch's answer to the same call depends on the strides of its arguments: ours is, element by element,
             one of its answers (its vector loops and its plain loops treat NaN, signs of zeros and rounding of half
             precision differently in places), or whether it is refused does.
    nearer   PyTorch's answer is further than the tolerance from its own f64 answer to the same call (half-precision
             sums, cancellation), and ours is at least as near to that. A complex number beyond its dtype's range has
             no particular infinite or NaN parts.
    tie      The call leaves open which of equal elements it selects (`Call.ties`; PyTorch says so for sort without
             stable, topk, kthvalue, median and mode): indices may differ if the elements at them are equal.
    wider    PyTorch refuses the call for the strides of an argument only: ours equals its answer for dense arguments.
    own      PyTorch's out= form refuses, contradicts its functional form (it ignores the strides of `out` in places),
             or gives an `out` of the right sizes other strides: ours equals the functional form, in the strides of
             the given tensor.
    settled  The results have a choice of their own (`Call.settled`: eigenvectors have a phase): what is the same for
             every choice is within a hundred roundings of the largest number of PyTorch's.
    dense    PyTorch's kernel is undefined there and is not asked (undefined.py): ours equals its answer for dense
             arguments.
"""
import contextlib
import dataclasses
import functools

import cresset
import torch
import undefined
from undefined import dense

TOLERANCE = {torch.float16: (1e-3, 1e-5), torch.bfloat16: (1.6e-2, 1e-5), torch.float32: (1.3e-6, 1e-5),
             torch.float64: (1e-7, 1e-7), torch.complex32: (1e-3, 1e-5), torch.complex64: (1.3e-6, 1e-5),
             torch.complex128: (1e-7, 1e-7)}
NAMES = {getattr(torch, n): getattr(cresset, n) for n in
         ("uint8 int8 int16 int32 int64 float16 float32 float64 bfloat16 complex32 complex64 complex128 bool uint16 "
          "uint32 uint64".split())}
FORMATS = {getattr(torch, n): getattr(cresset, n) for n in "contiguous_format preserve_format channels_last "
           "channels_last_3d".split()}
PASSING = ("equal", "refused", "layout", "nearer", "tie", "wider", "own", "settled", "dense")


class Different(AssertionError):
    pass


class ValuesDiffer(Different):
    """Only values do, which the rules above may explain; `pairs`: (PyTorch's tensor, ours as PyTorch's)."""


@dataclasses.dataclass
class Refused:
    error: Exception


def ours(value):
    """A torch value as Cresset's, sharing memory."""
    if isinstance(value, torch.Tensor):
        if value.dtype == torch.complex32:  # DLPack has no such kind in PyTorch
            return cresset.view_as_complex(cresset.from_dlpack(torch.view_as_real(value.detach()))).detach()
        return cresset.from_dlpack(value.detach())
    if isinstance(value, torch.dtype):
        return NAMES[value]
    if isinstance(value, torch.memory_format):
        return FORMATS[value]
    if isinstance(value, torch.device):
        return cresset.device(str(value))
    if isinstance(value, torch.layout):
        return cresset.strided
    if isinstance(value, torch.Generator):
        return cresset.Generator().manual_seed(value.initial_seed())
    if isinstance(value, (list, tuple)):
        return type(value)(ours(v) for v in value)
    return value


def theirs(value):
    if isinstance(value, cresset.Tensor):
        if value.dtype is cresset.complex32:
            pairs = torch.from_dlpack(cresset.view_as_real(value))
            odd = any(stride % 2 for stride in pairs.stride()[:-1])  # of sizes 0 and 1, where no stride matters
            return torch.view_as_complex(torch.empty(pairs.shape, dtype=pairs.dtype).copy_(pairs) if odd else pairs)
        return torch.from_dlpack(value)
    if isinstance(value, (list, tuple)):
        return [theirs(v) for v in value]
    return value


def twin(value):
    """A copy with the same strides, overlap included, and no view of anything."""
    if isinstance(value, torch.Tensor):
        span = 1 + sum((n - 1) * s for n, s in zip(value.shape, value.stride())) if value.numel() else 0
        copy = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)
        torch.as_strided(copy, (span,), (1,)).copy_(torch.as_strided(value, (span,), (1,)))
        return copy
    if isinstance(value, torch.Generator):
        return torch.Generator().manual_seed(value.initial_seed())
    if isinstance(value, (list, tuple)):
        return type(value)(twin(v) for v in value)
    return value


def mapped(value, f):
    """With f applied to the tensors in it, and generators made anew."""
    if isinstance(value, torch.Tensor):
        return f(value)
    if isinstance(value, torch.Generator):
        return twin(value)
    if isinstance(value, (list, tuple)):
        return type(value)(mapped(v, f) for v in value)
    return value


def spread(t):
    """Every second element of a larger tensor."""
    wide = torch.zeros(*t.shape, 2, dtype=t.dtype)
    wide[..., 0] = t
    return wide[..., 0]


def broadcast(c):
    """Gives tensors that broadcast to one shape that shape, dense."""
    try:
        size = torch.broadcast_shapes(*(t.shape for t in tensors([*c.args, *c.kwargs.values()])))
    except RuntimeError:
        return dense
    return lambda t: dense(t.expand(size)) if t.dim() else dense(t)


@functools.cache
def halves_have_a_path():
    return torch.ops.mkldnn._is_mkldnn_fp16_supported()


@contextlib.contextmanager
def any_machine(args):
    """On processors with AVX512-FP16 PyTorch hands products and convolutions of float16, and of complex numbers of two
    halves, to oneDNN, whose results have other strides (docs/differences.md). What is asked for is the answer of all
    other machines."""
    halves = any(t.dtype in (torch.float16, torch.complex32) for t in tensors(args)) and halves_have_a_path()
    before = torch.backends.mkldnn.enabled if halves else None
    if halves:
        torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        if halves:
            torch._C._set_mkldnn_enabled(before)


def attempt(f, args, kwargs):
    try:
        with any_machine([*args, *kwargs.values()]):
            return f(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - the class is what is compared
        return Refused(error)


def full_name(op):
    return f"{op._schema.name}.{op._schema.overload_name}".removesuffix(".")


def laid_out(c, f):
    """The call with f applied to its tensors."""
    return dataclasses.replace(c, args=mapped(tuple(c.args), f), kwargs={k: mapped(v, f) for k, v in c.kwargs.items()})


def ask(op, c, f=twin):
    """PyTorch's answer to a call whose tensors went through f."""
    call = laid_out(c, f)
    if reason := undefined.reason(full_name(op), call):
        return Refused(RuntimeError(reason))
    with seeded():
        return attempt(op, call.args, call.kwargs)


def answers(op, c):
    """PyTorch's answers to one call in several layouts."""
    return [a for a in (ask(op, c, f) for f in (dense, spread, broadcast(c))) if not isinstance(a, Refused)]


def tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in tensors(v)]
    return []


def cresset_tensors(value):
    if isinstance(value, cresset.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in cresset_tensors(v)]
    return []


# ---- numbers ----

def ulps(a, b):
    """Distance in representable numbers, for real floats."""
    kind = {torch.float16: torch.int16, torch.bfloat16: torch.int16, torch.float32: torch.int32,
            torch.float64: torch.int64}[a.dtype]
    x, y = a.contiguous().view(kind).to(torch.int64), b.contiguous().view(kind).to(torch.int64)
    low = torch.iinfo(kind).min
    x, y = torch.where(x < 0, low - x, x), torch.where(y < 0, low - y, y)
    return (x - y).abs()


def agreeing(want, got, signs=True):
    """Which elements are equal as far as the dtype demands. `signs`: of zeros, too."""
    if want.dtype.is_complex:
        parts = agreeing(torch.view_as_real(want.resolve_conj().contiguous()),
                         torch.view_as_real(got.resolve_conj().contiguous()), False).all(-1)
        wide = torch.promote_types(want.dtype, torch.complex64)  # PyTorch compares no complex32
        return parts | torch.isclose(got.to(wide), want.to(wide), *TOLERANCE[want.dtype], equal_nan=True)
    if not want.dtype.is_floating_point:
        return want == got
    rtol, atol = TOLERANCE[want.dtype]
    ok = torch.isclose(got.double(), want.double(), rtol, atol, equal_nan=True) | (ulps(want, got) <= 4)
    ok &= want.isnan() == got.isnan()
    return ok & ((want != 0) | (got != 0) | (want.signbit() == got.signbit())) if signs else ok


def close(want, got, signs=False):
    return bool(agreeing(want, got, signs).all())


WIDE = {torch.float16: torch.float64, torch.bfloat16: torch.float64, torch.float32: torch.float64,
        torch.complex32: torch.complex128, torch.complex64: torch.complex128}


def widened(value):
    if isinstance(value, torch.Tensor):
        return value.to(WIDE.get(value.dtype, value.dtype))
    if isinstance(value, torch.dtype):
        return WIDE.get(value, value)
    if isinstance(value, (list, tuple)):
        return type(value)(widened(v) for v in value)
    return value


def flat(value):
    """The tensors of a result, PyTorch's or ours, as PyTorch's."""
    value = list(value) if isinstance(value, (list, tuple)) else [value]
    return tensors(value) or [theirs(t) for t in cresset_tensors(value)]


def one_of(op, c, want, got):
    """Is every element of ours PyTorch's answer to the same call in some layout?"""
    mine, fits = flat(got), lambda a: len(a) == len(mine) and all(x.shape == y.shape and x.dtype == y.dtype
                                                                  for x, y in zip(a, mine))
    fitting = [flat(a) for a in [want] + answers(op, c) if fits(flat(a))]
    return bool(fitting) and all(bool(torch.stack([agreeing(a, b) for a in those]).any(0).all())
                                 for *those, b in zip(*fitting, mine))


def no_further(op, c, want, got):
    """Is every element of ours at least as near to the f64 result as PyTorch's is (or within tolerance of it)?"""
    with seeded():
        exact = attempt(op, widened(twin(tuple(c.args))), {k: widened(twin(v)) for k, v in c.kwargs.items()})
    if isinstance(exact, Refused):
        return False
    theirs_flat, exact_flat, mine_flat = flat(want), flat(exact), flat(got)
    if not len(theirs_flat) == len(exact_flat) == len(mine_flat):
        return False
    for a, e, b in zip(theirs_flat, exact_flat, mine_flat):
        ok = agreeing(a, b)
        if bool(ok.all()):
            continue
        if a.dtype not in WIDE or a.shape != e.shape:
            return False
        (rtol, atol), wide = TOLERANCE[a.dtype], WIDE[a.dtype]
        off, tolerated = (a.to(wide) - e).abs(), atol + rtol * e.abs()
        ok |= (b.to(wide) - e).abs() <= torch.maximum(torch.where(off.isfinite(), off, 0.0), tolerated)
        ok |= agreeing(e.to(a.dtype), b)  # beyond the range of the dtype: an infinity
        if a.dtype.is_complex:
            ok |= (e.abs() > torch.finfo(a.dtype).max) & ~a.isfinite() & ~b.isfinite()
        if not bool(ok.all()):
            return False
    return True


# ---- results ----

def compare(want, got, where, values=True, strides=True, exact=False, signs=False):
    if isinstance(want, (list, tuple)):
        if not isinstance(got, (list, tuple)) or len(want) != len(got):
            raise Different(f"{where}: {len(want)} results expected, got {got!r:.100}")
        for i, (w, g) in enumerate(zip(want, got)):
            compare(w, g, f"{where}[{i}]", values, strides, exact, signs)
        return
    if not isinstance(want, torch.Tensor):
        if isinstance(want, float) and want != want:
            same = isinstance(got, float) and got != got
        else:
            same = type(want) is type(got) and (want == got
                                                or (isinstance(want, float) and abs(want - got) <= 1e-6 * abs(want)))
        if not same:
            raise Different(f"{where}: expected {want!r}, got {got!r}")
        return
    if not isinstance(got, cresset.Tensor):
        raise Different(f"{where}: expected a tensor, got {type(got).__name__}")
    if NAMES.get(want.dtype) is not got.dtype:
        raise Different(f"{where}: dtype {want.dtype} expected, got {got.dtype}")
    if tuple(want.shape) != tuple(got.shape):
        raise Different(f"{where}: shape {tuple(want.shape)} expected, got {tuple(got.shape)}")
    if strides and want.numel() and not lazy(want) and any(n > 1 and s != t for n, s, t in zip(want.shape,
            want.stride(), got.stride())):
        raise Different(f"{where}: strides {want.stride()} expected, got {tuple(got.stride())}")
    if values and want.numel():
        mine = theirs(got)
        if bits_equal(want, mine):
            return
        if exact:
            raise Different(f"{where}: moved values differ\n expected {want}\n got {mine}")
        if not close(want, mine, signs):
            raise ValuesDiffer(f"{where}: values differ\n expected {want}\n got {mine}")


RAW = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def bits_equal(want, got):
    if want.dtype.is_complex:
        want, got = torch.view_as_real(want.resolve_conj()).resolve_neg(), torch.view_as_real(got.resolve_conj())
    if want.dtype.is_floating_point:
        want, got = (t.contiguous().view(RAW[t.element_size()]) for t in (want, got))
    return torch.equal(want, got)


def aliases(results, args):
    """Which result shares memory with which argument."""
    base = lambda t: t.data_ptr() - t.storage_offset() * t.element_size()
    return [[base(r) == base(a) if r.numel() and a.numel() else False for a in args] for r in results]


def lazy(t):
    """Does PyTorch leave a conjugation or a sign for later? A tensor here always holds its values, so such a result can
    share no memory with its argument, and its strides are its own."""
    return t.is_conj() or t.is_neg()


@contextlib.contextmanager
def seeded(seed=1234):
    torch.default_generator.manual_seed(seed)  # torch.manual_seed formats a stack trace for each absent accelerator
    cresset.manual_seed(seed)
    yield


KINDS = (IndexError, TypeError, ValueError, NotImplementedError, RuntimeError)


def same_selection(c, want, got):
    """Do indices that differ point to equal elements? `c.ties`: the dimension they count along; None: in the flat
    tensor."""
    x = c.args[0] if isinstance(c.args[0], torch.Tensor) else next(iter(tensors(list(c.args))))
    # PyTorch gathers no such elements
    x = x.view(RAW[x.element_size()]) if x.dtype in (torch.uint16, torch.uint32, torch.uint64) else x
    for a, b in zip(flat(want), flat(got)):
        if a.dtype != torch.int64 or torch.equal(a, b):
            continue
        if not x.dim():
            return False
        if a.dim() == x.dim():
            a, b, own = a, b, a.size(c.ties) > 1 or x.size(c.ties) == 1
        else:
            a, b, own = a.unsqueeze(c.ties), b.unsqueeze(c.ties), False
        if bool(((b < 0) | (b >= x.size(c.ties))).any()) or not bits_equal(x.gather(c.ties, a), x.gather(c.ties, b)):
            return False
        if own and bool((b.sort(c.ties).values.diff(dim=c.ties) == 0).any()):  # a permutation selects each but once
            return False
    return True


def roughly(want, got):
    limit = 100 * torch.finfo(want.dtype).eps * (float(want.abs().max()) if want.numel() else 0)
    return want.shape == got.shape and bool(((want - got).abs() <= limit).all())


def settle(name, op, c, want, got, where, values, strides=True, exact=False):
    """"equal" or the rule that explains different values; raises Different."""
    wants, gots = list(want) if isinstance(want, tuple) else want, list(got) if isinstance(got, tuple) else got
    try:
        compare(wants, gots, where, values, strides, exact, signs=True)
        return "equal"
    except ValuesDiffer:
        compare(wants, gots, where, False, strides)
        if c.ties is not None and same_selection(c, want, got):
            return "tie"
        if c.settled and all(roughly(a, b) for a, b in zip(c.settled(*flat(want)), c.settled(*flat(got)))):
            return "settled"
        if one_of(op, c, want, got):
            return "layout"
        if no_further(op, c, want, got):
            return "nearer"
        raise


def check_out(name, functional, given, want, theirs_op, ours_op, c, outs, values=True, drawn=False):
    """An out= form must leave what PyTorch's leaves, with its strides, in the given tensors, and return those. `drawn`:
    numbers are drawn in the order of out's memory in places, so nothing but PyTorch's own out= form can be asked.
    `given`, `want`: the functional call and PyTorch's answer to it."""
    own = twin_call(c)
    with seeded():
        result = attempt(theirs_op, own.args, own.kwargs)
        mine_call = twin_call(c)
        mine = {k: ours(v) for k, v in mine_call.kwargs.items()}
        got = attempt(ours_op, ours(tuple(mine_call.args)), mine)
    where = f"{name}({describe(c)})"
    if isinstance(got, Refused):
        answer = ask(functional, given, dense) if any_strided(given) else want
        if isinstance(answer, Refused) and same_kind(answer.error, got.error):
            return "layout"
        raise Different(f"{where}: Cresset refuses: {type(got.error).__name__}: {got.error}")
    gots, filled = [mine[k] for k in outs], [own.kwargs[k] for k in outs]
    if [t.data_ptr() for t in cresset_tensors(got)] != [t.data_ptr() for t in cresset_tensors(gots)]:
        raise Different(f"{where}: the result is not the given tensor")
    if isinstance(want, tuple):  # what was not asked for has an out= tensor all the same, whatever it holds
        gots, filled = ([t for t, w in zip(those, want) if w is not None] for those in (gots, filled))
    kept = [f.stride() == g.stride() for f, g in zip(flat(filled), flat([c.kwargs[k] for k in outs])) if g.numel()]
    pairs = list(zip(flat(want), flat(filled)))
    contrary = isinstance(result, Refused) or not all(kept) or any(w.shape != f.shape for w, f in pairs)
    contrary = contrary or values and not drawn and not all(w.dtype == f.dtype and close(w, f) for w, f in pairs)
    if contrary:
        settle(name, functional, given, flat(want), cresset_tensors(gots), where, values, strides=False)
        for t, g in zip(cresset_tensors(gots), flat([c.kwargs[k] for k in outs])):
            if g.numel() and tuple(t.stride()) != g.stride():
                raise Different(f"{where}: the given tensor's strides {g.stride()} became {tuple(t.stride())}")
        return "own"
    return settle(name, functional, given, filled, gots, where, values)


def twin_call(c):
    return dataclasses.replace(c, args=twin(tuple(c.args)), kwargs={k: twin(v) for k, v in c.kwargs.items()})


def check(name, theirs_op, ours_op, c, values=True, exact=False, supported=True):
    """Runs one call both ways. Returns the outcome; raises Different. Not `supported`: there is no kernel for the
    dtype; what is wrong in some other way, too, may be refused for either reason."""
    asked, mine = twin_call(c), twin_call(c)
    with seeded():
        want = attempt(theirs_op, asked.args, asked.kwargs)
        mine_args, mine_kwargs = ours(mine.args), {k: ours(v) for k, v in mine.kwargs.items()}
        got = attempt(ours_op, mine_args, mine_kwargs)
    where = f"{name}({describe(c)})"
    if isinstance(want, Refused):
        answer = ask(theirs_op, c, dense) if any_strided(c) and not returns_views(theirs_op) else want
        if isinstance(got, Refused):
            if supported and not same_kind(want.error, got.error) and not (isinstance(answer, Refused)
                    and same_kind(answer.error, got.error)):
                raise Different(f"{where}: PyTorch raises {type(want.error).__name__}: {str(want.error)[:160]}, "
                                f"Cresset {type(got.error).__name__}: {got.error}")
            return "refused"
        if isinstance(answer, Refused):
            raise Different(f"{where}: PyTorch refuses ({type(want.error).__name__}: {str(want.error)[:160]}), Cresset "
                            f"gave {got!r:.100}")
        settle(name, theirs_op, laid_out(c, dense), answer, got, where, values, strides=False)
        return "wider"
    if isinstance(got, Refused):
        answer = ask(theirs_op, c, dense) if any_strided(c) else want
        if isinstance(answer, Refused) and same_kind(answer.error, got.error):
            return "layout"
        raise Different(f"{where}: Cresset refuses: {type(got.error).__name__}: {got.error}")
    outcome = settle(name, theirs_op, c, want, got, where, values, exact=exact)
    flat_args, given = cresset_tensors(list(mine_args) + list(mine_kwargs.values())), tensors(list(asked.args)
            + list(asked.kwargs.values()))
    if outcome == "equal":
        for i, (a, b) in enumerate(zip(given, flat_args)):
            compare(a, b, f"{where}: tensor argument {i} after the call", values)
    want_alias, got_alias = aliases(tensors(want), given), aliases(cresset_tensors(got), flat_args)
    if any(a != b for r, a, b in zip(tensors(want), want_alias, got_alias) if not lazy(r)):
        raise Different(f"{where}: aliasing {want_alias} expected, got {got_alias}")
    return outcome


def check_dense(name, functional, given, ours_op, c, outs=(), values=True):
    """Where PyTorch's kernel is undefined: ours against PyTorch's functional form with dense arguments."""
    laid = undefined.layout(full_name(functional), given)
    want, mine = ask(functional, given, laid), twin_call(c)
    where = f"{name}({describe(c)})"
    with seeded():
        mine_kwargs = {k: ours(v) for k, v in mine.kwargs.items()}
        got = attempt(ours_op, ours(tuple(mine.args)), mine_kwargs)
    if isinstance(want, Refused) or isinstance(got, Refused):
        if not (isinstance(want, Refused) and isinstance(got, Refused) and same_kind(want.error, got.error)):
            raise Different(f"{where}: with dense arguments PyTorch gives {want!r:.160}, Cresset {got!r:.160}")
        return "refused"
    filled = laid_out(given, laid)
    made = [mine_kwargs[k] for k in outs] if outs else cresset_tensors(list(got) if isinstance(got, (tuple, list))
            else [got])
    settle(name, functional, filled, flat(want), made, where, values, strides=False)
    return "dense"


def any_strided(c):
    """Is any argument not dense?"""
    return any(not t.is_contiguous() for t in tensors([*c.args, *c.kwargs.values()]))


def returns_views(op):
    return any(r.alias_info is not None for r in op._schema.returns)


def same_kind(want, got):
    """NotImplementedError is a RuntimeError, as in Python."""
    for kind in KINDS:
        if isinstance(want, kind):
            return isinstance(got, kind) or (kind is NotImplementedError and isinstance(got, RuntimeError))
    return True


def describe(c):
    def one(v):
        if isinstance(v, torch.Tensor):
            return f"{str(v.dtype)[6:]}{list(v.shape)}" + ("" if v.is_contiguous() else f"{tuple(v.stride())}")
        if isinstance(v, (list, tuple)):
            return "[" + ", ".join(map(one, v)) + "]"
        return repr(v)
    return ", ".join([one(a) for a in c.args] + [f"{k}={one(v)}" for k, v in c.kwargs.items()]) + (f"  # {c.note}"
            if c.note else "")
