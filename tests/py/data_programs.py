"""Programs that read data: written once, `t` is either library. name -> (function, inputs, dynamic dimensions, further
inputs)."""
import numpy

X = ((numpy.arange(12) * 7 % 11 - 4) / 4).astype("float32").reshape(4, 3)
N = numpy.array(3)
PROGRAMS = {}


def program(name, *inputs, dynamic=None, others=()):
    def add(fn):
        PROGRAMS[name] = (fn, inputs, dynamic, others)
        return fn
    return add


def number(value):
    return numpy.array(value)


@program("checked_slice", N, X, others=[(number(0), X), (number(4), X)])
@program("checked_slice_of_many", N, X, dynamic=(None, {0: "rows"}),
         others=[(number(5), numpy.ones((6, 3), "float32"))])
def checked_slice(t, n, x):
    k = n.item()
    t._check(k >= 0)
    t._check(k <= x.shape[0])
    return x[:k] * 2


@program("check_with_message", N, X)
def check_with_message(t, n, x):
    k = n.item()
    t._check(k > 1, lambda: "two or more")
    return x * k


@program("mask_assigned", X)
def mask_assigned(t, x):
    y = x.clone()
    y[y > 0] = 0.0
    return y


for entry in [
    ("item_as_size", lambda t, n: t.zeros(n.item()) + 1, (N,), None, [(number(5),)]),
    ("item_as_number", lambda t, n, x: x * n.item(), (N, X), None, [(number(-2), X)]),
    ("item_of_float", lambda t, n, x: x * n.item(), (numpy.array(2.5, dtype="float32"), X), None, []),
    ("item_of_bool", lambda t, n, x: x * n.item(), (number(True), X), None, [(number(False), X)]),
    ("item_in_arithmetic", lambda t, n, x: x.new_zeros(n.item() * 2 + 1, n.item() + x.shape[0]) + 1, (N, X), None, []),
    ("slice_to_item", lambda t, n, x: x[:n.item()] * 2, (N, X), None, [(number(-1), X), (number(9), X)]),
    ("slice_from_tensor", lambda t, n, x: x[n:] * 2, (N, X), None, [(number(-1), X)]),
    ("select_item", lambda t, n, x: x[n.item()] * 2, (N, X), None, [(number(-1), X)]),
    ("select_tensor", lambda t, n, x: x[n] * 2, (N, X), None, [(number(0), X)]),
    ("arange_of_item", lambda t, n: t.arange(n.item()) * 2, (N,), None, [(number(0),)]),
    ("list_of_numbers", lambda t, n, x: [x * k for k in n.tolist()], (number([1, 2]), X), None, []),
    ("split_by_list", lambda t, n, x: [part * 1 for part in x.split(n.tolist())], (number([1, 3]), X), None,
     [(number([2, 2]), X)]),
    ("nonzero", lambda t, x: x.nonzero() + 1, (X,), None, [(X * 0,)]),
    ("nonzero_counted", lambda t, x: x * x.nonzero().shape[0], (X,), None, []),
    ("nonzero_as_tuple", lambda t, x: [i + 1 for i in x.nonzero(as_tuple=True)], (X,), None, []),
    ("mask", lambda t, x: x[x > 0] * 2, (X,), None, [(X * 0,)]),
    ("two_masks", lambda t, x: x[x > 0] + x[x > 0], (X,), None,
     [(X * 0,), ((-abs(X) + 4 * (numpy.arange(12).reshape(4, 3) == 5)).astype("float32"),)]),
    ("mask_of_rows", lambda t, x: x[x[:, 0] > 0].sum(0), (X,), ({0: "rows"},), [(numpy.ones((7, 3), "float32"),)]),
    ("masked_select", lambda t, x: x.masked_select(x > 0) + 1, (X,), None, []),
    ("unique", lambda t, x: t.unique(x) + 1, (X,), None, []),
    ("unique_with_counts", lambda t, x: t.unique(x, return_inverse=True, return_counts=True), (X,), None, []),
    ("repeats", lambda t, x, r: t.repeat_interleave(x, r, dim=0) * 2, (X, number([1, 2, 0, 1])), None, []),
    ("bincount", lambda t, n: t.bincount(n) + 1, (number([1, 2, 2]),), None, []),
    ("item_in_branch", lambda t, n, x: t.cond(x.sum() > 0, lambda a: a[a > 0].sum() + n.item(), lambda a: a.sum(),
                                              (x,)), (N, X), None, [(N, -X)]),
    ("branch_on_item", lambda t, n, x: t.cond(n.item() > 2, lambda a: a + 1, lambda a: a - 1, (x,)), (N, X), None,
     [(number(1), X)]),
]:
    PROGRAMS[entry[0]] = entry[1:]


def leaves(value):
    return [leaf for item in value for leaf in leaves(item)] if isinstance(value, (tuple, list)) else [value]


def arrays(values):
    return [numpy.asarray(v.detach().numpy() if hasattr(v, "detach") else v) for v in leaves(values)]


def inputs(t, values):
    return tuple(t.tensor(v) for v in values)
