"""Programs with dynamic_shapes, written once for both libraries: `torch` is either.

A case is a function of the library that gives (program, inputs, dynamic_shapes) and perhaps a dict of keyword arguments
of export. tests/py/test_shapes_table.py compares the verdicts."""

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def add(name, program, sizes, spec, options=None):
    """A case from a program over tensors of these sizes. `spec` is called with the library's Dim; dims by position."""
    def made(torch):
        args = tuple(size(torch) if callable(size) else size if isinstance(size, int) else torch.zeros(size)
                     for size in sizes)
        return (lambda *xs: program(torch, *xs)), args, spec(torch.export.Dim), options or {}
    assert name not in CASES, name
    CASES[name] = made


def one(**dims):
    """A spec of several tensors: one(x={0: 'b'}): texts become Dims of that name, shared."""
    def build(D):
        known = {}

        def dim(d):
            if not isinstance(d, str):
                return d
            if d in ("AUTO", "DYNAMIC", "STATIC"):
                return getattr(D, d)
            return eval(d, {}, _Names(D, known))
        return tuple({i: dim(d) for i, d in entry.items()} if isinstance(entry, dict) else dim(entry)
                     for entry in dims.values())
    return build


class _Names(dict):
    """Names in a spec's text: D is Dim, hints are themselves, everything else is a Dim of that name."""

    def __init__(self, D, known):
        super().__init__(D=D, AUTO=D.AUTO, DYNAMIC=D.DYNAMIC)
        self.D, self.known = D, known

    def __missing__(self, name):
        return self.known.setdefault(name, self.D(name))


A, Y, S = "AUTO", "DYNAMIC", "STATIC"
X46 = [(4, 6)]
TWO = [(4, 6), (4, 6)]

# ---- the language ----
add("named", lambda t, x: x + 1, X46, one(x={0: "b"}))
add("named_bounds", lambda t, x: x + 1, X46, one(x={0: "D('b', min=3, max=9)"}))
add("named_outside_bounds", lambda t, x: x + 1, X46, one(x={0: "D('b', min=5, max=9)"}))
add("named_max_below", lambda t, x: x + 1, X46, one(x={0: "D('b', max=3)"}))
add("auto", lambda t, x: x + 1, X46, one(x={0: A, 1: A}))
add("dynamic", lambda t, x: x + 1, X46, one(x={0: Y, 1: Y}))
add("static", lambda t, x: x + 1, X46, one(x={0: S, 1: Y}))
add("auto_bounds", lambda t, x: x + 1, X46, one(x={0: "AUTO(min=3, max=9)"}))
add("dynamic_bounds", lambda t, x: x + 1, X46, one(x={0: "DYNAMIC(max=9)"}))
add("dynamic_low_bound", lambda t, x: x + 1, X46, one(x={0: "DYNAMIC(min=4)"}))
add("int_entry", lambda t, x: x + 1, X46, one(x={0: 4, 1: A}))
add("int_entry_wrong", lambda t, x: x + 1, X46, one(x={0: 5}))
add("two_names", lambda t, x: x + 1, X46, one(x={0: "a", 1: "b"}))
add("same_name_twice", lambda t, x: x * 2, [(5, 5)], one(x={0: "a", 1: "a"}))
add("hint_one_auto", lambda t, x: x + 1, [(1, 6)], one(x={0: A}))
add("hint_one_dynamic", lambda t, x: x + 1, [(1, 6)], one(x={0: Y}))
add("hint_one_named", lambda t, x: x + 1, [(1, 6)], one(x={0: "b"}))
add("hint_zero_named", lambda t, x: x + 1, [(0, 6)], one(x={0: "b"}))
add("int_input", lambda t, x, n: x + n, [(4,), 3], one(x={0: A}, n=A))
add("int_input_branch", lambda t, x, n: x + 1 if n > 2 else x, [(4,), 3], one(x={0: A}, n=Y))
add("int_input_specialised", lambda t, x, n: x + 1 if n == 3 else x, [(4,), 3], one(x={0: A}, n=Y))
add("derived", lambda t, x, y: (x.sum(), y.sum()), [(4,), (9,)], one(x={0: "a"}, y={0: "2*a + 1"}))
add("derived_phantom", lambda t, x, y: (x.sum(), y.sum()), [(6,), (9,)], one(x={0: "2*a"}, y={0: "3*a"}))
add("derived_smaller", lambda t, x, y: (x.sum(), y.sum()), [(5,), (4,)],
    lambda D: (lambda a: ({0: a}, {0: a - 1}))(D("a", min=3)))
add("derived_wrong_example", lambda t, x: x.sum(), [(7,)], one(x={0: "2*a"}))
add("equal_names_wrong_examples", lambda t, x, y: (x.sum(), y.sum()), [(4,), (5,)], one(x={0: "a"}, y={0: "a"}))
add("rank_tuple_wrong", lambda t, x: x + 1, X46, lambda D: ((D("b"),),))
add("count_wrong", lambda t, x: x + 1, X46, lambda D: ({0: D("b")}, None))
add("not_a_size", lambda t, x: x + 1, X46, lambda D: ({0: "batch"},))
add("two_definitions", lambda t, x: x + 1, X46, lambda D: ({0: D("b", min=2), 1: D("b", min=3)},))
add("nothing", lambda t, x: x + 1, X46, lambda D: None)

# ---- branches on one size ----
for _name, _test in {
    "gt": lambda n: n > 3, "ge": lambda n: n >= 3, "lt": lambda n: n < 10, "le": lambda n: n <= 10,
    "eq": lambda n: n == 4, "ne": lambda n: n != 5,
    "ne_eq": lambda n: n == 7, "gt_trivial": lambda n: n > 1, "ge_two": lambda n: n >= 2, "even": lambda n: n % 2 == 0,
    "odd": lambda n: n % 2 == 1,
    "mod3": lambda n: n % 3 == 1, "half": lambda n: n // 2 == 2, "half_gt": lambda n: n // 2 > 1,
    "twice": lambda n: 2 * n + 1 > 7, "square": lambda n: n * n == 16,
    "square_lt": lambda n: n * n < 100, "between": lambda n: 2 < n and n < 9, "sum_eq": lambda n: n + 3 == 7,
    "false_gt": lambda n: n > 8,
    "div4": lambda n: n % 4 == 0, "max": lambda n: max(n, 8) == 8,
}.items():
    def _program(t, x, test=_test):
        return x + 1 if test(x.shape[0]) else x - 1
    add(f"branch_{_name}_named", _program, X46, one(x={0: "b"}))
    add(f"branch_{_name}_auto", _program, X46, one(x={0: A}))
for _name in ("gt", "eq", "even", "sum_eq", "half"):
    _case = CASES[f"branch_{_name}_auto"]
    def _made(torch, inner=_case):
        f, args, _, options = inner(torch)
        return f, args, ({0: torch.export.Dim.DYNAMIC},), options
    CASES[f"branch_{_name}_dynamic"] = _made
add("branch_in_bounds", lambda t, x: x + 1 if x.shape[0] > 3 else x, X46, one(x={0: "D('b', min=4)"}))
add("branch_in_bounds_max", lambda t, x: x + 1 if x.shape[0] < 20 else x, X46, one(x={0: "D('b', max=19)"}))
add("branch_partly_in_bounds", lambda t, x: x + 1 if x.shape[0] < 20 else x, X46, one(x={0: "D('b', min=3, max=40)"}))
add("branch_two_bounds", lambda t, x: x + 1 if 2 < x.shape[0] < 20 else x, X46, one(x={0: "D('b', max=40)"}))
add("branch_derived_even", lambda t, x: x + 1 if x.shape[0] % 2 == 0 else x, X46, one(x={0: "2*b"}))
add("branch_int_of_size", lambda t, x: x + int(x.shape[0]), X46, one(x={0: "b"}))
add("branch_list_of_size", lambda t, x: x + len([1] * x.shape[0]), X46, one(x={0: A}))
add("branch_range_loop", lambda t, x: sum((x[i] for i in range(x.shape[0])), x[0]), X46, one(x={0: "b"}))
add("branch_range_loop_auto", lambda t, x: sum((x[i] for i in range(x.shape[0])), x[0]), X46, one(x={0: A}))
add("branch_two_dims_cmp", lambda t, x: x + 1 if x.shape[0] < x.shape[1] else x, X46, one(x={0: "a", 1: "b"}))
add("branch_two_dims_cmp_auto", lambda t, x: x + 1 if x.shape[0] < x.shape[1] else x, X46, one(x={0: A, 1: A}))
add("branch_two_dims_eq", lambda t, x: x + 1 if x.shape[0] == x.shape[1] else x, [(5, 5)], one(x={0: "a", 1: "b"}))
add("branch_numel", lambda t, x: x + 1 if x.numel() > 10 else x, X46, one(x={0: "b"}))
add("branch_numel_two", lambda t, x: x + 1 if x.numel() > 10 else x, X46, one(x={0: "a", 1: "b"}))

# ---- sizes of several tensors ----
add("add_same", lambda t, x, y: x + y, TWO, one(x={0: "b"}, y={0: "b"}))
add("add_different", lambda t, x, y: x + y, TWO, one(x={0: "b"}, y={0: "c"}))
add("add_auto", lambda t, x, y: x + y, TWO, one(x={0: A}, y={0: A}))
add("add_dynamic", lambda t, x, y: x + y, TWO, one(x={0: Y}, y={0: Y}))
add("add_named_auto", lambda t, x, y: x + y, TWO, one(x={0: "b"}, y={0: A}))
add("add_named_static", lambda t, x, y: x + y, TWO, one(x={0: "b"}, y={}))
add("add_dynamic_static", lambda t, x, y: x + y, TWO, one(x={0: Y}, y={}))
add("add_auto_static", lambda t, x, y: x + y, TWO, one(x={0: A}, y={}))
add("add_broadcast_row", lambda t, x, y: x + y, [(4, 6), (6,)], one(x={0: "b"}, y={}))
add("add_broadcast_one", lambda t, x, y: x + y, [(4, 6), (1, 6)], one(x={0: "b"}, y={}))
add("add_broadcast_auto_one", lambda t, x, y: x + y, [(1, 6), (4, 6)], one(x={0: A}, y={0: A}))
add("add_three", lambda t, x, y, z: x + y + z, [(4,), (4,), (4,)], one(x={0: "a"}, y={0: "b"}, z={0: "c"}))
add("add_both_dims", lambda t, x, y: x + y, TWO, one(x={0: "a", 1: "b"}, y={0: "c", 1: "d"}))
add("slice_tail", lambda t, x, y: x + y[1:], [(4, 6), (5, 6)], one(x={0: "a"}, y={0: "b"}))
add("slice_tail_derived", lambda t, x, y: x + y[1:], [(4, 6), (5, 6)], one(x={0: "a"}, y={0: "a + 1"}))
add("slice_tail_auto", lambda t, x, y: x + y[1:], [(4, 6), (5, 6)], one(x={0: A}, y={0: A}))
add("slice_head", lambda t, x: x[:3], X46, one(x={0: "b"}))
add("slice_head_auto", lambda t, x: x[:3], X46, one(x={0: A}))
add("slice_to_size", lambda t, x, y: x[: y.shape[0]], [(6,), (4,)], one(x={0: "a"}, y={0: "b"}))
add("slice_negative", lambda t, x: x[-2:], X46, one(x={0: "b"}))
add("slice_step", lambda t, x: x[::2], X46, one(x={0: "b"}))
add("slice_drop_last", lambda t, x: x[:-1], X46, one(x={0: "b"}))
add("select_first", lambda t, x: x[0], X46, one(x={0: "b"}))
add("select_third", lambda t, x: x[2], X46, one(x={0: "b"}))
add("select_last", lambda t, x: x[-1], X46, one(x={0: "b"}))
add("cat", lambda t, x, y: t.cat([x, y]), [(4, 6), (5, 6)], one(x={0: "a"}, y={0: "b"}))
add("cat_other_dim", lambda t, x, y: t.cat([x, y], 1), TWO, one(x={0: "a"}, y={0: "b"}))
add("cat_other_dim_auto", lambda t, x, y: t.cat([x, y], 1), TWO, one(x={0: A}, y={0: A}))
add("stack", lambda t, x, y: t.stack([x, y]), TWO, one(x={0: "a"}, y={0: "b"}))
add("where", lambda t, x, y: t.where(x > 0, x, y), TWO, one(x={0: "a"}, y={0: "b"}))
add("matmul", lambda t, x, y: x @ y, [(4, 6), (6, 5)], one(x={0: "a", 1: "b"}, y={0: "c", 1: "d"}))
add("matmul_shared", lambda t, x, y: x @ y, [(4, 6), (6, 5)], one(x={0: "a", 1: "b"}, y={0: "b", 1: "d"}))
add("matmul_static_inner", lambda t, x, y: x @ y, [(4, 6), (6, 5)], one(x={0: "a"}, y={1: "d"}))
add("bmm", lambda t, x, y: t.bmm(x, y), [(3, 4, 6), (3, 6, 5)], one(x={0: "a"}, y={0: "b"}))
add("bmm_auto", lambda t, x, y: t.bmm(x, y), [(3, 4, 6), (3, 6, 5)], one(x={0: A, 1: A}, y={0: A, 2: A}))
add("double", lambda t, x, y: t.cat([x, x]) + y, [(4,), (8,)], one(x={0: "a"}, y={0: "b"}))
add("double_derived", lambda t, x, y: t.cat([x, x]) + y, [(4,), (8,)], one(x={0: "a"}, y={0: "2*a"}))
add("double_auto", lambda t, x, y: t.cat([x, x]) + y, [(4,), (8,)], one(x={0: A}, y={0: A}))
add("double_smaller_named", lambda t, x, y: x + t.cat([y, y]), [(8,), (4,)], one(x={0: "a"}, y={0: "b"}))
add("sum_of_two", lambda t, x, y, z: t.cat([x, y]) + z, [(4,), (5,), (9,)], one(x={0: "a"}, y={0: "b"}, z={0: "c"}))
add("sum_of_two_auto", lambda t, x, y, z: t.cat([x, y]) + z, [(4,), (5,), (9,)], one(x={0: A}, y={0: A}, z={0: A}))
add("product_of_two", lambda t, x, y: x.reshape(-1) + y, [(4, 3), (12,)], one(x={0: "a", 1: "b"}, y={0: "c"}))
add("product_of_two_auto", lambda t, x, y: x.reshape(-1) + y, [(4, 3), (12,)], one(x={0: A, 1: A}, y={0: A}))
add("half_of", lambda t, x, y: x[: x.shape[0] // 2] + y, [(8,), (4,)], one(x={0: "a"}, y={0: "b"}))
add("half_of_auto", lambda t, x, y: x[: x.shape[0] // 2] + y, [(8,), (4,)], one(x={0: A}, y={0: A}))

# ---- views ----
add("flatten", lambda t, x: x.flatten(), X46, one(x={0: "b"}))
add("flatten_two", lambda t, x: x.flatten(), X46, one(x={0: "a", 1: "b"}))
add("flatten_from_1", lambda t, x: x.flatten(1), [(4, 3, 5)], one(x={0: "b"}))
add("view_minus_one", lambda t, x: x.view(-1, 3), X46, one(x={0: "b"}))
add("view_batch", lambda t, x: x.view(x.shape[0], 2, 3), X46, one(x={0: "b"}))
add("view_batch_size", lambda t, x: x.view(x.size(0), -1, 3), X46, one(x={0: "b"}))
add("view_static_all", lambda t, x: x.view(8, 3), X46, one(x={0: "b"}))
add("view_static_all_auto", lambda t, x: x.view(8, 3), X46, one(x={0: A}))
add("view_merge", lambda t, x: x.view(-1, x.shape[2]), [(4, 3, 5)], one(x={0: "a", 1: "b", 2: "c"}))
add("unsqueeze", lambda t, x: x.unsqueeze(0), X46, one(x={0: "b"}))
add("squeeze_dynamic", lambda t, x: x.squeeze(0), X46, one(x={0: "b"}))
add("squeeze_all", lambda t, x: x.squeeze(), [(4, 1, 6)], one(x={0: "b"}))
add("permute", lambda t, x: x.permute(1, 0).contiguous(), X46, one(x={0: "a", 1: "b"}))
add("transpose_view", lambda t, x: x.transpose(0, 1).reshape(-1), X46, one(x={0: "a", 1: "b"}))
add("expand", lambda t, x: x.unsqueeze(1).expand(-1, 3, -1), X46, one(x={0: "b"}))
add("expand_to_size", lambda t, x, y: y.expand(x.shape[0], 6), [(4, 6), (6,)], one(x={0: "b"}, y={}))
add("repeat", lambda t, x: x.repeat(2, 3), X46, one(x={0: "b"}))
add("chunk", lambda t, x: x.chunk(2), X46, one(x={0: "b"}))
add("chunk_auto", lambda t, x: x.chunk(2), X46, one(x={0: A}))
add("chunk_static", lambda t, x: x.chunk(2, 1), X46, one(x={0: "b"}))
add("split", lambda t, x: x.split(2), X46, one(x={0: "b"}))
add("split_sizes", lambda t, x: x.split([1, 3]), X46, one(x={0: "b"}))
add("split_sizes_auto", lambda t, x: x.split([1, 3]), X46, one(x={0: A}))
add("unbind", lambda t, x: x.unbind(0), X46, one(x={0: "b"}))
add("unbind_static", lambda t, x: x.unbind(1), X46, one(x={0: "b"}))
add("narrow", lambda t, x: x.narrow(0, 1, 2), X46, one(x={0: "b"}))
add("roll", lambda t, x: t.roll(x, 1, 0), X46, one(x={0: "b"}))
add("flip", lambda t, x: x.flip(0), X46, one(x={0: "b"}))
add("tril", lambda t, x: x.tril(), [(5, 5)], one(x={0: "a", 1: "b"}))
add("arange_size", lambda t, x: t.arange(x.shape[0]) + x.sum(1), X46, one(x={0: "b"}))
add("zeros_size", lambda t, x: t.zeros(x.shape[0], 6) + x, X46, one(x={0: "b"}))
add("new_ones_other", lambda t, x: t.ones(4, 6) + x, X46, one(x={0: "b"}))
add("causal_mask", lambda t, x: x + t.ones(x.shape[0], x.shape[0]).tril().sum(1, keepdim=True), X46, one(x={0: "b"}))

# ---- layers ----
add("linear", lambda t, x: t.ops.aten.linear.default(x, t.ones(3, 6), t.ones(3)), X46, one(x={0: "b"}))
add("linear_3d", lambda t, x: t.ops.aten.linear.default(x, t.ones(3, 6)), [(2, 4, 6)], one(x={0: "b", 1: "s"}))
add("linear_feature", lambda t, x: t.ops.aten.linear.default(x, t.ones(3, 6)), X46, one(x={0: "b", 1: "f"}))
add("linear_feature_auto", lambda t, x: t.ops.aten.linear.default(x, t.ones(3, 6)), X46, one(x={0: A, 1: A}))
add("conv2d", lambda t, x: t.conv2d(x, t.ones(5, 3, 3, 3)), [(2, 3, 8, 8)], one(x={0: "b"}))
add("conv2d_image", lambda t, x: t.conv2d(x, t.ones(5, 3, 3, 3)), [(2, 3, 8, 8)], one(x={0: "b", 2: "h", 3: "w"}))
add("conv2d_image_auto", lambda t, x: t.conv2d(x, t.ones(5, 3, 3, 3)), [(2, 3, 8, 8)], one(x={0: A, 2: A, 3: A}))
add("conv2d_padded", lambda t, x: t.conv2d(x, t.ones(5, 3, 3, 3), None, 1, 1), [(2, 3, 8, 8)],
    one(x={0: "b", 2: "h", 3: "w"}))
add("conv2d_stride", lambda t, x: t.conv2d(x, t.ones(5, 3, 3, 3), None, 2, 1), [(2, 3, 8, 8)],
    one(x={0: A, 2: A, 3: A}))
add("conv2d_channels", lambda t, x: t.conv2d(x, t.ones(5, 3, 3, 3)), [(2, 3, 8, 8)], one(x={1: "c"}))
add("conv1d", lambda t, x: t.conv1d(x, t.ones(5, 3, 3)), [(2, 3, 8)], one(x={0: A, 2: A}))
add("max_pool", lambda t, x: t.max_pool2d(x, 2), [(2, 3, 8, 8)], one(x={0: "b"}))
add("max_pool_image", lambda t, x: t.max_pool2d(x, 2), [(2, 3, 8, 8)], one(x={0: "b", 2: "h", 3: "w"}))
add("max_pool_image_auto", lambda t, x: t.max_pool2d(x, 2), [(2, 3, 8, 8)], one(x={0: A, 2: A, 3: A}))
add("adaptive_pool", lambda t, x: t.ops.aten.adaptive_avg_pool2d.default(x, [1, 1]), [(2, 3, 8, 8)], one(x={0: "b"}))
add("batch_norm", lambda t, x: t.batch_norm(x, None, None, t.zeros(3), t.ones(3), False, 0.1, 1e-5, False),
    [(2, 3, 8, 8)], one(x={0: "b"}))
add("layer_norm", lambda t, x: t.layer_norm(x, [6]), [(2, 4, 6)], one(x={0: "b", 1: "s"}))
add("group_norm", lambda t, x: t.group_norm(x, 3), [(2, 6, 8)], one(x={0: "b", 2: "s"}))
add("softmax", lambda t, x: t.softmax(x, -1), [(2, 4, 6)], one(x={0: "a", 1: "b", 2: "c"}))
add("embedding", lambda t, i: t.embedding(t.ones(10, 3), i), [lambda t: t.zeros(2, 5, dtype=t.int64)],
    one(i={0: "b", 1: "s"}))
add("attention", lambda t, q, k, v: t.ops.aten.scaled_dot_product_attention.default(q, k, v), [(2, 3, 5, 8)] * 3,
    one(q={0: "b", 2: "s"}, k={0: "b", 2: "s"}, v={0: "b", 2: "s"}))
add("attention_auto", lambda t, q, k, v: t.softmax(q @ k.transpose(-2, -1), -1) @ v, [(2, 3, 5, 8)] * 3,
    one(q={0: A, 2: A}, k={0: A, 2: A}, v={0: A, 2: A}))
add("attention_heads", lambda t, x: x.view(x.shape[0], x.shape[1], 2, 3).transpose(1, 2).reshape(x.shape[0] * 2,
        x.shape[1], 3), [(2, 5, 6)], one(x={0: "b", 1: "s"}))
add("mean_std", lambda t, x: (x - x.mean(0)) / x.std(0), X46, one(x={0: "b"}))
add("cumsum", lambda t, x: x.cumsum(0), X46, one(x={0: "b"}))
add("topk", lambda t, x: t.topk(x, 2, 0)[0], X46, one(x={0: "b"}))
add("topk_auto", lambda t, x: t.topk(x, 2, 0)[0], X46, one(x={0: A}))
add("index_tensor", lambda t, x: x[t.tensor([0, 1])], X46, one(x={0: "b"}))
add("gather", lambda t, x: x.gather(0, t.zeros(1, 6, dtype=t.int64)), X46, one(x={0: "b"}))
add("pad", lambda t, x: t.constant_pad_nd(x, [1, 1, 2, 2]), X46, one(x={0: "b"}))
add("einsum", lambda t, x, y: t.einsum("ij,jk->ik", x, y), [(4, 6), (6, 5)], one(x={0: "a", 1: "b"}, y={0: "b"}))
add("cross_batch", lambda t, x, y: t.cdist(x, y), [(4, 6), (5, 6)], one(x={0: "a"}, y={0: "b"}))
add("outer", lambda t, x, y: x.unsqueeze(1) * y.unsqueeze(0), [(4,), (5,)], one(x={0: "a"}, y={0: "b"}))
add("dot", lambda t, x, y: t.dot(x, y), [(4,), (4,)], one(x={0: "a"}, y={0: "b"}))

# ---- sizes and numbers that depend on data ----


def _data(t):
    return t.tensor([3])


def _checked(t, x, y):
    n = x.item()
    t._check(n > 2)
    return y + 1 if n > 2 else y


def _branch(t, x, y):
    return y + 1 if x.item() > 2 else y


def _sliced(t, x, y):
    n = x.item()
    t._check(n >= 0)
    t._check(n <= y.shape[0])
    return y[:n]


def _check_size(t, x, y):
    n = x.item()
    t._check(n >= 2)
    t._check(n <= 8)
    return t.ones(n) * 2


def _wrong_check(t, x, y):
    t._check(y.shape[0] > 20)
    return y


def _stated(t, x, y):
    t._check(y.shape[0] > 4)
    return y


def _nonzero_branch(t, x, y):
    z = y.nonzero()
    return z * 2 if z.shape[0] > 0 else z


def _nonzero_checked(t, x, y):
    z = y.nonzero()
    t._check(z.shape[0] > 0)
    return z * 2 if z.shape[0] > 0 else z


def _mask_view(t, x, y):
    return y[y > 3].view(-1, 2)


def _mask_pair(t, x, y):
    return y[y > 3] + y[y > 4]


NOTHING = one(x={}, y={})
Y10 = [_data, lambda t: t.arange(10.0)]
add("data_branch", _branch, Y10, NOTHING)
add("data_checked", _checked, Y10, NOTHING)
add("data_int", lambda t, x, y: y + int(x.item()), Y10, NOTHING)
add("data_add", lambda t, x, y: y + x.item(), Y10, NOTHING)
add("data_slice_checked", _sliced, Y10, NOTHING)
add("data_zeros_bounded", _check_size, Y10, NOTHING)
add("data_mask", lambda t, x, y: y[y > 3] * 2, Y10, NOTHING)
add("data_mask_sum", lambda t, x, y: y[y > 3].sum(), Y10, NOTHING)
add("data_mask_dynamic", lambda t, x, y: y[y > 3] * 2, Y10, one(x={}, y={0: "b"}))
add("data_mask_same", lambda t, x, y: y[y > 3] + y[y > 3], Y10, NOTHING)
add("data_nonzero_branch", _nonzero_branch, Y10, NOTHING)
add("data_nonzero_checked", _nonzero_checked, Y10, NOTHING)
add("data_mask_cat", lambda t, x, y: t.cat([y[y > 3], y]), Y10, one(x={}, y={0: A}))
add("data_mask_unsqueeze", lambda t, x, y: y[y > 3].unsqueeze(0), Y10, NOTHING)
add("data_mask_matmul", lambda t, x, y: y[y > 3].unsqueeze(1) * t.ones(1, 4), Y10, NOTHING)
add("check_backed", _stated, Y10, one(x={}, y={0: "b"}))
add("check_backed_auto", _stated, Y10, one(x={}, y={0: A}))
add("check_backed_in_bounds", _stated, Y10, one(x={}, y={0: "D('b', min=5)"}))
add("check_fails", _wrong_check, Y10, one(x={}, y={0: A}))

# ---- more programs ----
add("sym_max_size", lambda t, x, y: t.zeros(t.sym_max(x.shape[0], y.shape[0])), [(4,), (5,)],
    one(x={0: "a"}, y={0: "b"}))
add("sym_min_size", lambda t, x, y: x[: t.sym_min(x.shape[0], y.shape[0])], [(4,), (5,)], one(x={0: A}, y={0: A}))
add("pad_to_multiple", lambda t, x: t.constant_pad_nd(x, [0, (-x.shape[0]) % 4]), [(6,)], one(x={0: A}))
add("window", lambda t, x: x.unfold(0, 3, 1), [(8,)], one(x={0: "b"}))
add("window_auto", lambda t, x: x.unfold(0, 3, 1), [(8,)], one(x={0: A}))
add("ceil_half", lambda t, x: t.zeros((x.shape[0] + 1) // 2), [(8,)], one(x={0: "b"}))
add("square_matrix", lambda t, x: x @ x, [(5, 5)], one(x={0: "a", 1: "b"}))
add("square_matrix_auto", lambda t, x: x @ x, [(5, 5)], one(x={0: A, 1: A}))
add("trace", lambda t, x: t.trace(x), [(5, 5)], one(x={0: "a", 1: "b"}))
add("three_related", lambda t, x, y, z: (x + y[1:], y + z[1:]), [(4,), (5,), (6,)],
    one(x={0: "a"}, y={0: "b"}, z={0: "c"}))
add("bounds_through_relation", lambda t, x, y: x + y[1:], [(4,), (5,)], one(x={0: "a"}, y={0: "D('b', min=3, max=10)"}))
add("named_static_mix", lambda t, x, y: (x + 1, y[:2]), [(4,), (5,)], one(x={0: "a"}, y={}))
add("list_of_outputs", lambda t, x: [x[:1], x[1:]], X46, one(x={0: A}))
add("view_half", lambda t, x: x.view(x.shape[0] // 2, 2, 6), X46, one(x={0: "b"}))
add("view_half_derived", lambda t, x: x.view(x.shape[0] // 2, 2, 6), X46, one(x={0: "2*b"}))
add("reshape_pairs", lambda t, x: x.reshape(-1, 2), [(8,)], one(x={0: "b"}))
add("reshape_pairs_auto", lambda t, x: x.reshape(-1, 2), [(8,)], one(x={0: A}))
add("reshape_pairs_derived", lambda t, x: x.reshape(-1, 2), [(8,)], one(x={0: "2*b"}))
add("interleave", lambda t, x: t.stack([x, x], 1).flatten(), [(4,)], one(x={0: "b"}))
add("one_hot_like", lambda t, x: (x.unsqueeze(1) == t.arange(5)).sum(0), [(4,)], one(x={0: "b"}))
add("masked_mean", lambda t, x, m: (x * m).sum() / m.sum(), TWO, one(x={0: "a", 1: "c"}, m={0: "b", 1: "d"}))
add("deferred_even", lambda t, x: x + 1 if x.shape[0] % 2 == 0 else x, X46, one(x={0: "b"}),
    {"prefer_deferred_runtime_asserts_over_guards": True})
add("deferred_range", lambda t, x: x + 1 if x.shape[0] > 3 else x, X46, one(x={0: "b"}),
    {"prefer_deferred_runtime_asserts_over_guards": True})
add("deferred_equal", lambda t, x, y: x + y, TWO, one(x={0: "b"}, y={0: "c"}),
    {"prefer_deferred_runtime_asserts_over_guards": True})
add("deferred_product", lambda t, x: x + 1 if x.shape[0] * x.shape[1] == 24 else x, X46, one(x={0: "a", 1: "b"}),
    {"prefer_deferred_runtime_asserts_over_guards": True})


# ---- modules and functions of nn, as people write them, every size found out ----

def modules(t):
    nn, A = t.nn, t.export.Dim.AUTO
    F = nn.functional
    img, seq = (t.zeros(2, 3, 16, 16),), (t.zeros(2, 5, 16),)
    I, B, S = ({0: A, 2: A, 3: A},), ({0: A},), ({0: A, 1: A},)
    yield "module_linear", nn.Linear(16, 4), seq, S
    yield "module_conv", nn.Conv2d(3, 4, 3), img, I
    yield "module_conv_s2", nn.Conv2d(3, 4, 3, stride=2, padding=1), img, I
    yield "module_conv_dil", nn.Conv2d(3, 4, 3, dilation=2), img, I
    yield "module_conv_group", nn.Conv2d(3, 6, 3, groups=3), img, I
    yield "module_convT", nn.ConvTranspose2d(3, 4, 2, stride=2), img, I
    yield "module_conv1d", nn.Conv1d(5, 4, 3), seq, ({0: A, 2: A},)
    yield "module_bn", nn.BatchNorm2d(3).eval(), img, I
    yield "module_bn_train", nn.BatchNorm2d(3), img, I
    yield "module_gn", nn.GroupNorm(3, 3), img, I
    yield "module_inorm", nn.InstanceNorm2d(3), img, I
    yield "module_ln", nn.LayerNorm(16), seq, S
    yield "module_maxpool", nn.MaxPool2d(2), img, I
    yield "module_maxpool_ceil", nn.MaxPool2d(3, 2, 1, ceil_mode=True), img, I
    yield "module_avgpool", nn.AvgPool2d(2), img, I
    yield "module_adapt1", nn.AdaptiveAvgPool2d(1), img, I
    yield "module_adapt4", nn.AdaptiveAvgPool2d(4), img, I
    yield "module_adaptB", nn.AdaptiveAvgPool2d(4), img, B
    yield "module_upsample", nn.Upsample(scale_factor=2), img, I
    yield "module_upsample_bi", nn.Upsample(scale_factor=2, mode="bilinear"), img, I
    yield "module_pixshuf", nn.PixelShuffle(2), (t.zeros(2, 8, 4, 4),), I
    yield "module_flatten", nn.Sequential(nn.Flatten(), nn.Linear(48, 3)), (t.zeros(2, 3, 4, 4),), B
    yield "module_enc", nn.TransformerEncoderLayer(16, 4, 32, batch_first=True).eval(), seq, S
    yield "module_enc_train", nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), seq, S
    yield "module_dec", nn.TransformerDecoderLayer(16, 4, 32, batch_first=True).eval(), (t.zeros(2, 5, 16),
            t.zeros(2, 7, 16)), ({0: A, 1: A}, {0: A, 1: A})
    yield "module_lstm_b", nn.LSTM(16, 8, batch_first=True), seq, B
    yield "module_gru_b", nn.GRU(16, 8, batch_first=True), seq, B
    yield "module_emb", nn.Embedding(10, 4), (t.zeros(2, 5, dtype=t.int64),), S
    yield "module_embbag", nn.EmbeddingBag(10, 4), (t.zeros(2, 5, dtype=t.int64),), S
    yield "module_softmax", nn.Softmax(1), seq, S
    yield "module_gelu_mlp", nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Dropout(0.1), nn.Linear(32, 16)), seq, S
    yield "module_xent", lambda x, y: F.cross_entropy(x, y), (t.zeros(4, 10), t.zeros(4, dtype=t.int64)), ({0: A},
            {0: A})
    yield "module_mse", lambda x, y: F.mse_loss(x, y), (t.zeros(4, 10), t.zeros(4, 10)), ({0: A, 1: A}, {0: A, 1: A})
    yield "module_sdpa", lambda q, k, v: F.scaled_dot_product_attention(q, k, v), (t.zeros(2, 4, 5, 8),
            t.zeros(2, 4, 7, 8), t.zeros(2, 4, 7, 8)), ({0: A, 2: A},) * 3
    yield "module_sdpa_causal", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), \
        (t.zeros(2, 4, 5, 8), t.zeros(2, 4, 5, 8), t.zeros(2, 4, 5, 8)), ({0: A, 2: A},) * 3
    yield "module_rotary", lambda x: t.cat([-x[..., 8:], x[..., :8]], -1)*t.arange(x.shape[1])[None, :, None], seq, S
    yield "module_causal", lambda x: t.softmax((x@x.transpose(1, 2)).masked_fill(t.ones(x.shape[1], x.shape[1],
            dtype=t.bool).triu(1), -1e9), -1)@x, seq, S
    yield "module_resblock", nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
                                           nn.Conv2d(8, 8, 3, padding=1), nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(),
                                           nn.Linear(8, 2)).eval(), img, I
    yield "module_reshape_heads", lambda x: x.view(x.shape[0], -1, 4, 4).permute(0, 2, 1, 3).reshape(x.shape[0], 4,
            -1), seq, S
    yield "module_bcast", lambda x, y: x[:, None]+y[None], (t.zeros(4, 3), t.zeros(5, 3)), ({0: A}, {0: A})
    yield "module_index_sel", lambda x: x.index_select(0, t.tensor([0, 1])), seq, S
    yield "module_gather", lambda x, i: x.gather(1, i), (t.zeros(4, 6), t.zeros(4, 2, dtype=t.int64)), ({0: A, 1: A},
            {0: A, 1: A})
    yield "module_scatter", lambda x, i: x.scatter(1, i, 1.0), (t.zeros(4, 6), t.zeros(4, 2, dtype=t.int64)), ({0: A,
            1: A}, {0: A, 1: A})
    yield "module_cumsum_diff", lambda x: x.cumsum(1)[:, 1:]-x[:, :-1], seq, S
    yield "module_mean_keep", lambda x: x-x.mean((0, 1), keepdim=True), seq, S
    yield "module_sort", lambda x: x.sort(1)[0], seq, S
    yield "module_topk", lambda x: x.topk(3, 1)[0], seq, S
    yield "module_repeat_int", lambda x: x.repeat_interleave(2, 1), seq, S
    yield "module_tile", lambda x: x.tile(2, 1, 1), seq, S
    yield "module_einsum", lambda x, y: t.einsum("bsd,btd->bst", x, y), (t.zeros(2, 5, 16),
            t.zeros(2, 7, 16)), ({0: A, 1: A}, {0: A, 1: A})
    yield "module_bilinear", lambda x: F.interpolate(x, size=(8, 8), mode="bilinear"), img, I
    yield "module_pad_reflect", lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"), img, I
    yield "module_grid", lambda x, g: F.grid_sample(x, g, align_corners=False), (t.zeros(2, 3, 16, 16),
            t.zeros(2, 5, 5, 2)), ({0: A}, {0: A})
    yield "module_norm", lambda x: F.normalize(x, dim=-1), seq, S
    yield "module_cos", lambda x, y: F.cosine_similarity(x, y), (t.zeros(4, 10), t.zeros(4, 10)), ({0: A}, {0: A})
    yield "module_glu", lambda x: F.glu(x, -1), seq, S
    yield "module_glu_s", lambda x: F.glu(x, 1), (t.zeros(2, 6, 16),), S
    yield "module_roll_win", lambda x: t.roll(x, (1, 1), (2, 3)).view(x.shape[0], 3, 4, 4, 4, 4), img, B
    yield "module_lerp", lambda x, y: t.lerp(x, y, 0.5), (t.zeros(4, 10), t.zeros(1, 10)), ({0: A}, {0: A})
    yield "module_meshgrid", lambda x: t.stack(t.meshgrid(t.arange(x.shape[0]), t.arange(x.shape[1]),
                                                          indexing="ij")), (t.zeros(4, 6),), ({0: A, 1: A},)
    yield "module_diag", lambda x: x.diagonal(), (t.zeros(4, 6),), ({0: A, 1: A},)
    yield "module_chunk3", lambda x: x.chunk(3, -1), (t.zeros(2, 5, 12),), S
    yield "module_split_s", lambda x: x.split([1, x.shape[1]-1], 1), seq, S
    yield "module_unbind2", lambda x: t.stack(x.unbind(2)), seq, S
    yield "module_baddbmm", lambda x: t.baddbmm(t.zeros(1, 1, 1), x, x.transpose(1, 2)), seq, S
    yield "module_outer", lambda x, y: t.outer(x, y), (t.zeros(4), t.zeros(5)), ({0: A}, {0: A})
    yield "module_argmax", lambda x: x.argmax(1), seq, S
    yield "module_logsumexp", lambda x: x.logsumexp(1), seq, S
    yield "module_var", lambda x: x.var(1), seq, S
    yield "module_where", lambda x: t.where(x>0, x, t.zeros(())), seq, S
    yield "module_one_hot", lambda x: F.one_hot(x, 10), (t.zeros(2, 5, dtype=t.int64),), S
    yield "module_masked_fill", lambda x, m: x.masked_fill(m[:, :, None], 0.0), (t.zeros(2, 5, 16),
            t.zeros(2, 5, dtype=t.bool)), ({0: A, 1: A}, {0: A, 1: A})
    yield "module_swap", lambda x: x.flatten(0, 1).unflatten(0, (x.shape[0], x.shape[1])), seq, S
    yield "module_expand_as", lambda x, y: x[:, :1].expand_as(y)+y, (t.zeros(4, 6), t.zeros(4, 6)), ({0: A, 1: A},
            {0: A, 1: A})
    yield "module_squeeze", lambda x: x.unsqueeze(1).squeeze(), seq, S
    yield "module_arange_pos", lambda x: x+nn.functional.embedding(t.arange(x.shape[1]), t.zeros(32, 16)), seq, S
    yield "module_slice_pos", lambda x: x+t.zeros(32, 16)[:x.shape[1]], seq, S
    yield "module_kv", lambda k, x: t.cat([k, x], 1)[:, -4:], (t.zeros(2, 3, 8), t.zeros(2, 2, 8)), ({0: A, 1: A},
            {0: A, 1: A})


def _names_of_modules():
    """The names alone, without a library."""
    import inspect
    import re
    return re.findall(r'yield "(\w+)"', inspect.getsource(modules))


def _add_module(name):
    def made(torch):
        for found, program, args, spec in modules(torch):
            if found == name:
                return program, args, spec, {}
    CASES[name] = made


for _name in _names_of_modules():
    _add_module(_name)
