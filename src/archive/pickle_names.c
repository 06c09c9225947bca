/* The names that a pickle may use, and the values that they make.
 *
 * One table: module, name, the function that checks the arguments and builds a value of ours, and a number for it.
 * Nothing of Python or PyTorch is called: `torch._utils._rebuild_tensor_v2(storage, offset, size, stride, ...)` becomes
 * a record of those numbers, checked against the storage that it names. A name that is not here is refused by that
 * name. */
#include "archive/pickle_internal.h"

#include <ctype.h>

typedef cr__pickle_machine machine;
typedef cr__pickle_value value;
typedef cr__pickle_name row;
#define FAIL CR__PICKLE_FAIL

/* ---- arguments ---- */

static const value *item(const value *v, size_t i) { return (const value *)(const void *)v->pub.u.items[i]; }

static cr_status arg_count(machine *m, const row *self, const value *args, uint32_t least, uint32_t most) {
    if (args->pub.n >= least && args->pub.n <= most) return CR_OK;
    return FAIL(m, CR_EFORMAT, "%s.%s got %u arguments, expected %u to %u", self->module, self->name, args->pub.n,
                least, most);
}

static cr_status arg_kind(machine *m, const row *self, const value *args, uint32_t i, int kind, const char *what) {
    if (item(args, i)->pub.kind == kind) return CR_OK;
    return FAIL(m, CR_EFORMAT, "%s.%s: %s is %s, expected %s", self->module, self->name, what,
                cr_pickle_kind_name(item(args, i)->pub.kind), cr_pickle_kind_name(kind));
}

static bool is_text(const value *v) { return v->pub.kind == CR_PICKLE_STRING && strlen(v->pub.u.s) == v->pub.n; }

/* ---- tensors ---- */

static cr_status sizes(machine *m, const row *self, const value *v, const char *what, int64_t *out, int *rank) {
    if (v->pub.kind != CR_PICKLE_TUPLE && v->pub.kind != CR_PICKLE_LIST && v->pub.kind != CR_PICKLE_SIZE)
        return FAIL(m, CR_EFORMAT, "%s.%s: %s is %s, expected a tuple", self->module, self->name, what,
                    cr_pickle_kind_name(v->pub.kind));
    if (v->pub.n > RT_MAX_RANK)
        return FAIL(m, CR_EUNSUPPORTED, "a tensor of %u dimensions, the limit is %d", v->pub.n, RT_MAX_RANK);
    for (uint32_t i = 0; i < v->pub.n; i++) {
        if (item(v, i)->pub.kind != CR_PICKLE_INT || item(v, i)->pub.u.i < 0)
            return FAIL(m, CR_EFORMAT, "%s.%s: entry %u of the %s is not an integer from 0 up", self->module,
                        self->name, i, what);
        out[i] = item(v, i)->pub.u.i;
    }
    *rank = (int)v->pub.n;
    return CR_OK;
}

/* That every element lies inside the storage. */
static cr_status check_extent(machine *m, const cr_pickle_tensor *t) {
    int64_t last = t->offset, width = rt_itemsize(t->dtype), bytes;
    bool empty = false, over = false;
    for (int i = 0; i < t->rank; i++) empty |= t->size[i] == 0;
    for (int i = 0; i < t->rank && !empty; i++) {
        int64_t step;
        over |= cr_mul_overflow(t->size[i] - 1, t->stride[i], &step) || cr_add_overflow(last, step, &last);
    }
    if (!empty) over |= cr_add_overflow(last, 1, &last);
    over |= cr_mul_overflow(last, width, &bytes);
    if (over || (!empty && bytes > t->storage->bytes)) {
        if (over) return FAIL(m, CR_EFORMAT, "a tensor on storage '%s' whose extent overflows", t->storage->key);
        return FAIL(m, CR_EFORMAT, "a tensor reaches to byte %lld of storage '%s', which has %lld", (long long)bytes,
                    t->storage->key, (long long)t->storage->bytes);
    }
    /* strides of 0 may make more elements than the storage has: their count must still be a number */
    int64_t numel = 1;
    for (int i = 0; i < t->rank && !empty; i++)
        if (cr_mul_overflow(numel, t->size[i], &numel))
            return FAIL(m, CR_EFORMAT, "a tensor with more than 2^63 elements");
    if (!empty && cr_mul_overflow(numel, width, &bytes))
        return FAIL(m, CR_EFORMAT, "a tensor with more than 2^63 bytes");
    return CR_OK;
}

/* {"conj": True, "neg": True}; other keys belong to other devices. */
static cr_status tensor_metadata(machine *m, const value *v, cr_pickle_tensor *t) {
    if (v->pub.kind == CR_PICKLE_NONE) return CR_OK;
    if (v->pub.kind != CR_PICKLE_DICT)
        return FAIL(m, CR_EFORMAT, "a tensor's metadata are %s, expected a dict", cr_pickle_kind_name(v->pub.kind));
    if (v->pub.n > 16) return FAIL(m, CR_EUNSUPPORTED, "a tensor with %u entries of metadata", v->pub.n / 2);
    for (uint32_t i = 0; i < v->pub.n; i += 2) {
        const value *key = item(v, i), *set = item(v, i + 1);
        bool *flag = !is_text(key)                   ? NULL
                     : !strcmp(key->pub.u.s, "conj") ? &t->conj
                     : !strcmp(key->pub.u.s, "neg")  ? &t->neg
                                                     : NULL;
        if (!flag || set->pub.kind != CR_PICKLE_BOOL)
            return FAIL(m, CR_EUNSUPPORTED, "tensor metadata '%.60s'; 'conj' and 'neg' are known",
                        is_text(key) ? key->pub.u.s : "?");
        *flag = set->pub.u.b;
    }
    return CR_OK;
}

static cr_status no_hooks(machine *m, const value *v) {
    bool dict = v->pub.kind == CR_PICKLE_DICT || v->pub.kind == CR_PICKLE_ORDERED_DICT;
    if (v->pub.kind == CR_PICKLE_NONE || (dict && !v->pub.n)) return CR_OK;
    return FAIL(m, CR_EUNSUPPORTED, "a tensor with backward hooks");
}

/* data: 1: (storage, offset, size, stride); 2: ... requires_grad, hooks, metadata; 3: ... requires_grad, hooks, dtype,
 * metadata, on untyped bytes. */
static cr_status make_tensor(machine *m, const row *self, const value *args, value **out) {
    int version = self->data, rank, stride_rank;
    CR_TRY(arg_count(m, self, args, version == 1 ? 4 : version == 2 ? 6 : 7, version == 1 ? 4 : version == 2 ? 7 : 8));
    CR_TRY(arg_kind(m, self, args, 0, CR_PICKLE_STORAGE, "the storage"));
    CR_TRY(arg_kind(m, self, args, 1, CR_PICKLE_INT, "the offset"));
    cr_pickle_tensor *t = cr_arena_calloc(m->arena, 1, sizeof *t);
    value *v = t ? cr__pickle_new(m, CR_PICKLE_TENSOR) : NULL;
    if (!v) return CR_ENOMEM;
    t->storage = item(args, 0)->pub.u.storage;
    t->dtype = t->storage->dtype;
    t->offset = item(args, 1)->pub.u.i;
    if (t->offset < 0) return FAIL(m, CR_EFORMAT, "a tensor with the offset %lld", (long long)t->offset);
    CR_TRY(sizes(m, self, item(args, 2), "sizes", t->size, &rank));
    CR_TRY(sizes(m, self, item(args, 3), "strides", t->stride, &stride_rank));
    if (rank != stride_rank) return FAIL(m, CR_EFORMAT, "a tensor of %d sizes and %d strides", rank, stride_rank);
    t->rank = rank;
    if (version > 1) {
        CR_TRY(arg_kind(m, self, args, 4, CR_PICKLE_BOOL, "requires_grad"));
        t->requires_grad = item(args, 4)->pub.u.b;
        CR_TRY(no_hooks(m, item(args, 5)));
    }
    if (version == 3) {
        CR_TRY(arg_kind(m, self, args, 6, CR_PICKLE_DTYPE, "the dtype"));
        t->dtype = item(args, 6)->pub.u.dtype;
    }
    uint32_t metadata = version == 3 ? 7 : 6;
    if (args->pub.n > metadata) CR_TRY(tensor_metadata(m, item(args, metadata), t));
    if (t->dtype < 0)
        return FAIL(m, CR_EFORMAT, "%s.%s: storage '%s' is untyped and no dtype is given", self->module, self->name,
                    t->storage->key);
    CR_TRY(check_extent(m, t));
    v->pub.u.tensor = t;
    *out = v;
    return CR_OK;
}

static cr_status as_parameter(machine *m, const value *tensor, bool is_parameter, const bool *requires_grad,
                              value **out) {
    cr_pickle_tensor *t = cr_arena_copy(m->arena, tensor->pub.u.tensor, sizeof *t);
    value *v = t ? cr__pickle_new(m, CR_PICKLE_TENSOR) : NULL;
    if (!v) return CR_ENOMEM;
    t->is_parameter = is_parameter;
    if (requires_grad) t->requires_grad = *requires_grad;
    v->pub.u.tensor = t;
    *out = v;
    return CR_OK;
}

/* (tensor, requires_grad, hooks), and with data 1 the Python attributes, which are left out. */
static cr_status make_parameter(machine *m, const row *self, const value *args, value **out) {
    CR_TRY(arg_count(m, self, args, 3 + (uint32_t)self->data, 3 + (uint32_t)self->data));
    CR_TRY(arg_kind(m, self, args, 0, CR_PICKLE_TENSOR, "the data"));
    CR_TRY(arg_kind(m, self, args, 1, CR_PICKLE_BOOL, "requires_grad"));
    CR_TRY(no_hooks(m, item(args, 2)));
    bool requires_grad = item(args, 1)->pub.u.b;
    return as_parameter(m, item(args, 0), true, &requires_grad, out);
}

/* (rebuilder, class, its arguments, attributes): tensors that carry Python attributes, such as torch.nn.Buffer. */
enum { CLASS_TENSOR = 1, CLASS_PARAMETER };
static cr_status make_from_type(machine *m, const row *self, const value *args, value **out) {
    value *tensor;
    CR_TRY(arg_count(m, self, args, 4, 4));
    const value *rebuild = item(args, 0), *type = item(args, 1), *rest = item(args, 2);
    if (rebuild->pub.kind != CR__PICKLE_NAME || rebuild->name->call != make_tensor)
        return FAIL(m, CR_EUNSUPPORTED, "%s.%s rebuilds something else than a plain tensor", self->module, self->name);
    if (type->pub.kind != CR__PICKLE_NAME || type->name->call ||
        (type->name->data != -CLASS_TENSOR - 1 && type->name->data != -CLASS_PARAMETER - 1))
        return FAIL(m, CR_EUNSUPPORTED, "%s.%s makes something else than a Tensor or Parameter", self->module,
                    self->name);
    CR_TRY(arg_kind(m, self, args, 2, CR_PICKLE_TUPLE, "the arguments"));
    CR_TRY(make_tensor(m, rebuild->name, rest, &tensor));
    return as_parameter(m, tensor, type->name->data == -CLASS_PARAMETER - 1, NULL, out);
}

/* ---- small values ---- */

static cr_status borrow_items(machine *m, const row *self, const value *args, int kind, value **out) {
    CR_TRY(arg_count(m, self, args, 0, 1));
    value *v = cr__pickle_new(m, kind);
    if (!v) return CR_ENOMEM;
    if (args->pub.n) {
        const value *from = item(args, 0);
        if (from->pub.kind != CR_PICKLE_LIST && from->pub.kind != CR_PICKLE_TUPLE)
            return FAIL(m, CR_EFORMAT, "%s.%s got %s, expected a list", self->module, self->name,
                        cr_pickle_kind_name(from->pub.kind));
        v->pub.u.items = from->pub.u.items;
        v->pub.n = from->pub.n;
    }
    *out = v;
    return CR_OK;
}
/* set, frozenset and torch.Size of a list or tuple: the items are checked with the finished value. */
static cr_status make_items(machine *m, const row *self, const value *args, value **out) {
    return borrow_items(m, self, args, self->data, out);
}

static cr_status make_ordered_dict(machine *m, const row *self, const value *args, value **out) {
    CR_TRY(arg_count(m, self, args, 0, 0));
    *out = cr__pickle_new(m, CR_PICKLE_ORDERED_DICT);
    return *out ? CR_OK : CR_ENOMEM;
}

/* Counter({item: count}) */
static cr_status make_counter(machine *m, const row *self, const value *args, value **out) {
    CR_TRY(arg_count(m, self, args, 1, 1));
    CR_TRY(arg_kind(m, self, args, 0, CR_PICKLE_DICT, "the counts"));
    value *v = cr__pickle_new(m, CR_PICKLE_COUNTER);
    if (!v) return CR_ENOMEM;
    v->pub.u.items = item(args, 0)->pub.u.items;
    v->pub.n = item(args, 0)->pub.n;
    *out = v;
    return CR_OK;
}

enum { CLASS_FACTORY = 3 };
static cr_status make_default_dict(machine *m, const row *self, const value *args, value **out) {
    CR_TRY(arg_count(m, self, args, 0, 1));
    value *v = cr__pickle_new(m, CR_PICKLE_DEFAULT_DICT);
    if (!v) return CR_ENOMEM;
    if (args->pub.n && item(args, 0)->pub.kind != CR_PICKLE_NONE) {
        const value *factory = item(args, 0);
        if (factory->pub.kind != CR__PICKLE_NAME ||
            (strcmp(factory->name->module, "builtins") && strcmp(factory->name->module, "__builtin__")))
            return FAIL(m, CR_EUNSUPPORTED, "a defaultdict whose default is not a plain builtin class");
        v->pub.u.factory = factory->name->name;
    }
    *out = v;
    return CR_OK;
}

/* deque() or deque((), maxlen). */
static cr_status make_deque(machine *m, const row *self, const value *args, value **out) {
    CR_TRY(arg_count(m, self, args, 0, 2));
    value *v = cr__pickle_new(m, CR_PICKLE_DEQUE);
    if (!v) return CR_ENOMEM;
    v->pub.u.maxlen = -1;
    if (args->pub.n) {
        const value *items = item(args, 0);
        if ((items->pub.kind != CR_PICKLE_TUPLE && items->pub.kind != CR_PICKLE_LIST) || items->pub.n)
            return FAIL(m, CR_EFORMAT, "%s.%s is not called with an empty tuple", self->module, self->name);
    }
    if (args->pub.n == 2 && item(args, 1)->pub.kind != CR_PICKLE_NONE) {
        CR_TRY(arg_kind(m, self, args, 1, CR_PICKLE_INT, "maxlen"));
        v->pub.u.maxlen = item(args, 1)->pub.u.i;
        if (v->pub.u.maxlen < 0) return FAIL(m, CR_EFORMAT, "a deque with a negative maxlen");
    }
    *out = v;
    return CR_OK;
}

static bool number(const value *v, double *out) {
    if (v->pub.kind == CR_PICKLE_FLOAT) *out = v->pub.u.f;
    else if (v->pub.kind == CR_PICKLE_INT) *out = (double)v->pub.u.i;
    else return false;
    return true;
}

static cr_status make_complex(machine *m, const row *self, const value *args, value **out) {
    CR_TRY(arg_count(m, self, args, 2, 2));
    value *v = cr__pickle_new(m, CR_PICKLE_COMPLEX);
    if (!v) return CR_ENOMEM;
    if (!number(item(args, 0), &v->pub.u.c[0]) || !number(item(args, 1), &v->pub.u.c[1]))
        return FAIL(m, CR_EFORMAT, "%s.%s of something else than two numbers", self->module, self->name);
    *out = v;
    return CR_OK;
}

/* bytes() alone; others come through _codecs.encode. */
static cr_status make_bytes(machine *m, const row *self, const value *args, value **out) {
    CR_TRY(arg_count(m, self, args, 0, 0));
    *out = cr__pickle_text(m, CR_PICKLE_BYTES, "", 0);
    return *out ? CR_OK : CR_ENOMEM;
}

/* encode(text, "latin1"): how protocols before 3 write bytes. The one value that copies an argument: `weight_limit`,
 * which bounds what the finished value may weigh, pays for it. */
static cr_status make_encoded(machine *m, const row *self, const value *args, value **out) {
    CR_TRY(arg_count(m, self, args, 2, 2));
    CR_TRY(arg_kind(m, self, args, 0, CR_PICKLE_STRING, "the text"));
    if (!is_text(item(args, 1)) || (strcmp(item(args, 1)->pub.u.s, "latin1") && strcmp(item(args, 1)->pub.u.s, "latin-"
                                                                                                               "1")))
        return FAIL(m, CR_EUNSUPPORTED, "%s.%s with another encoding than latin1", self->module, self->name);
    const uint8_t *s = (const uint8_t *)item(args, 0)->pub.u.s;
    size_t n = item(args, 0)->pub.n, k = 0;
    if (n > m->weight_limit) return FAIL(m, CR_EFORMAT, "one text is encoded many times over");
    m->weight_limit -= n;
    char *to = cr_arena_alloc(m->arena, n + 1);
    value *v = to ? cr__pickle_new(m, CR_PICKLE_BYTES) : NULL;
    if (!v) return CR_ENOMEM;
    for (size_t i = 0; i < n; k++) {
        if (s[i] > 0xc3)
            return FAIL(m, CR_EFORMAT, "%s.%s: a letter that latin1 does not have", self->module, self->name);
        bool two = s[i] >= 0x80;
        to[k] = (char)(two ? (s[i] & 3) << 6 | (s[i + 1] & 0x3f) : s[i]);
        i += two ? 2 : 1;
    }
    to[k] = 0;
    v->pub.u.s = to;
    v->pub.n = (uint32_t)k;
    *out = v;
    return CR_OK;
}

/* device("cuda:1"), device("cuda", 1). */
static cr_status make_device(machine *m, const row *self, const value *args, value **out) {
    CR_TRY(arg_count(m, self, args, 1, 2));
    const value *type = item(args, 0);
    if (!is_text(type) || !type->pub.n || type->pub.n > 60)
        return FAIL(m, CR_EFORMAT, "%s.%s: the type is no short text", self->module, self->name);
    char text[100];
    size_t n = type->pub.n;
    memcpy(text, type->pub.u.s, n);
    if (args->pub.n == 2 && item(args, 1)->pub.kind != CR_PICKLE_NONE) {
        CR_TRY(arg_kind(m, self, args, 1, CR_PICKLE_INT, "the index"));
        int64_t index = item(args, 1)->pub.u.i;
        if (index < 0 || index > 255) return FAIL(m, CR_EFORMAT, "a device with the index %lld", (long long)index);
        text[n++] = ':';
        if (index > 99) text[n++] = (char)('0' + index / 100);
        if (index > 9) text[n++] = (char)('0' + index / 10 % 10);
        text[n++] = (char)('0' + index % 10);
    }
    *out = cr__pickle_text(m, CR_PICKLE_DEVICE, text, n);
    return *out ? CR_OK : CR_ENOMEM;
}

static const char *const layouts[] = { "strided",    "sparse_coo", "sparse_csr", "sparse_csc",
                                       "sparse_bsr", "sparse_bsc", "_mkldnn",    "jagged" };
static const char *const formats[] = {"contiguous_format", "preserve_format", "channels_last", "channels_last_3d"};

/* _get_layout("torch.strided"). */
static cr_status make_layout(machine *m, const row *self, const value *args, value **out) {
    CR_TRY(arg_count(m, self, args, 1, 1));
    CR_TRY(arg_kind(m, self, args, 0, CR_PICKLE_STRING, "the layout"));
    for (size_t i = 0; i < CR_COUNT(layouts); i++) {
        const char *s = item(args, 0)->pub.u.s;
        if (is_text(item(args, 0)) && !strncmp(s, "torch.", 6) && !strcmp(s + 6, layouts[i])) {
            *out = cr__pickle_text(m, CR_PICKLE_LAYOUT, layouts[i], strlen(layouts[i]));
            return *out ? CR_OK : CR_ENOMEM;
        }
    }
    return FAIL(m, CR_EFORMAT, "%s.%s: '%.60s' is no layout", self->module, self->name, item(args, 0)->pub.u.s);
}

/* ---- the table. Without `call`: a storage class has its dtype (-1: untyped) in data, other classes -1 - CLASS_*.
 * ---- */

#define STORAGE(name, dtype) {"torch", name "Storage", NULL, dtype}
#define BUILTIN(name) {"builtins", name, NULL, -1 - CLASS_FACTORY}, {"__builtin__", name, NULL, -1 - CLASS_FACTORY}
#define BUILTIN_CALL(name, call, data) {"builtins", name, call, data}, {"__builtin__", name, call, data}
static const row names[] = {
    { "collections", "OrderedDict", make_ordered_dict, 0 },
    { "collections", "Counter", make_counter, 0 },
    { "torch._utils", "_rebuild_tensor_v2", make_tensor, 2 },
    { "torch._utils", "_rebuild_tensor_v3", make_tensor, 3 },
    { "torch._utils", "_rebuild_tensor", make_tensor, 1 },
    { "torch._utils", "_rebuild_parameter", make_parameter, 0 },
    { "torch._utils", "_rebuild_parameter_with_state", make_parameter, 1 },
    { "torch._tensor", "_rebuild_from_type_v2", make_from_type, 0 },
    { "torch", "Tensor", NULL, -1 - CLASS_TENSOR },
    { "torch.nn.parameter", "Buffer", NULL, -1 - CLASS_TENSOR },
    { "torch.nn.parameter", "Parameter", NULL, -1 - CLASS_PARAMETER },
    { "torch", "Size", make_items, CR_PICKLE_SIZE },
    { "torch", "device", make_device, 0 },
    { "torch.serialization", "_get_layout", make_layout, 0 },
    STORAGE("Byte", RT_U8),
    STORAGE("Char", RT_I8),
    STORAGE("Short", RT_I16),
    STORAGE("Int", RT_I32),
    STORAGE("Long", RT_I64),
    STORAGE("Half", RT_F16),
    STORAGE("Float", RT_F32),
    STORAGE("Double", RT_F64),
    STORAGE("ComplexFloat", RT_C64),
    STORAGE("ComplexDouble", RT_C128),
    STORAGE("Bool", RT_BOOL),
    STORAGE("BFloat16", RT_BF16),
    { "torch.storage", "UntypedStorage", NULL, -1 },
    { "torch", "UntypedStorage", NULL, -1 },
    { "collections", "defaultdict", make_default_dict, 0 },
    { "collections", "deque", make_deque, 0 },
    { "_codecs", "encode", make_encoded, 0 },
    BUILTIN_CALL("set", make_items, CR_PICKLE_SET),
    BUILTIN_CALL("frozenset", make_items, CR_PICKLE_FROZENSET),
    BUILTIN_CALL("complex", make_complex, 0),
    BUILTIN_CALL("bytes", make_bytes, 0),
    BUILTIN("list"),
    BUILTIN("dict"),
    BUILTIN("tuple"),
    BUILTIN("int"),
    BUILTIN("float"),
    BUILTIN("str"),
    BUILTIN("bool"),
};

static bool same(const char *text, const char *s, size_t n) { return strlen(text) == n && !memcmp(text, s, n); }

/* For messages: short and printable. */
static const char *shown(char *buffer, size_t size, const char *s, size_t n) {
    size_t k = CR_MIN(n, size - 1);
    for (size_t i = 0; i < k; i++) buffer[i] = isprint((unsigned char)s[i]) ? s[i] : '?';
    buffer[k] = 0;
    return buffer;
}

cr_status cr__pickle_resolve(machine *m, const char *module, size_t module_n, const char *name, size_t name_n,
                             value **out) {
    value *v;
    for (size_t i = 0; i < CR_COUNT(names); i++) {
        if (!same(names[i].name, name, name_n) || !same(names[i].module, module, module_n)) continue;
        v = cr__pickle_new(m, CR__PICKLE_NAME);
        if (!v) return CR_ENOMEM;
        v->name = &names[i];
        *out = v;
        return CR_OK;
    }
    if (same("torch", module, module_n)) {
        for (int d = 0; d < RT_DTYPE_COUNT; d++) {
            if (!same(rt_dtype_name(d), name, name_n)) continue;
            v = cr__pickle_new(m, CR_PICKLE_DTYPE);
            if (!v) return CR_ENOMEM;
            v->pub.u.dtype = d;
            *out = v;
            return CR_OK;
        }
        const struct { const char *const *at; size_t n; int kind; } words[] = {
            {layouts, CR_COUNT(layouts), CR_PICKLE_LAYOUT}, {formats, CR_COUNT(formats), CR_PICKLE_FORMAT}};
        for (size_t w = 0; w < CR_COUNT(words); w++)
            for (size_t i = 0; i < words[w].n; i++)
                if (same(words[w].at[i], name, name_n)) {
                    *out = cr__pickle_text(m, words[w].kind, name, name_n);
                    return *out ? CR_OK : CR_ENOMEM;
                }
    }
    char a[120], b[120];
    return FAIL(m, CR_EUNSUPPORTED,
                "the pickle names %s.%s, which is not allowed: only tensors, numbers, texts and plain containers are "
                "read, and nothing is called",
                shown(a, sizeof a, module, module_n), shown(b, sizeof b, name, name_n));
}

/* ('storage', class, key, device, numel). */
cr_status cr__pickle_persistent(machine *m, const value *id, value **out) {
    if (id->pub.kind != CR_PICKLE_TUPLE || id->pub.n != 5 || !is_text(item(id, 0)) ||
        strcmp(item(id, 0)->pub.u.s, "storage"))
        return FAIL(m, CR_EUNSUPPORTED, "a persistent id that is not ('storage', class, key, device, numel)");
    const value *type = item(id, 1), *key = item(id, 2), *device = item(id, 3), *numel = item(id, 4);
    if (type->pub.kind != CR__PICKLE_NAME || type->name->call || type->name->data < -1)
        return FAIL(m, CR_EFORMAT, "a storage whose class is none");
    if (!is_text(key) || !key->pub.n || key->pub.n > 4096) return FAIL(m, CR_EFORMAT, "a storage whose key is no text");
    if (!is_text(device) || device->pub.n > 64)
        return FAIL(m, CR_EFORMAT, "storage '%s': the device is no text", key->pub.u.s);
    if (numel->pub.kind != CR_PICKLE_INT || numel->pub.u.i < 0)
        return FAIL(m, CR_EFORMAT, "storage '%s': the length is no integer from 0 up", key->pub.u.s);
    int dtype = type->name->data;
    int64_t bytes;
    if (cr_mul_overflow(numel->pub.u.i, dtype < 0 ? 1 : rt_itemsize(dtype), &bytes))
        return FAIL(m, CR_EFORMAT, "storage '%s' of %lld elements", key->pub.u.s, (long long)numel->pub.u.i);
    uint64_t index;
    const cr_pickle_storage *s;
    if (cr_map_find(&m->storage_keys, key->pub.u.s, key->pub.n, &index)) {
        s = m->storages.at[index];
        if (s->dtype != dtype || s->bytes != bytes)
            return FAIL(m, CR_EFORMAT, "storage '%s' is described twice, as %lld bytes of %s and %lld of %s", s->key,
                        (long long)s->bytes, s->dtype < 0 ? "untyped" : rt_dtype_name(s->dtype), (long long)bytes,
                        dtype < 0 ? "untyped" : rt_dtype_name(dtype));
    } else {
        cr_pickle_storage *made = cr_arena_calloc(m->arena, 1, sizeof *made);
        if (!made) return CR_ENOMEM;
        *made = (cr_pickle_storage){ .key = key->pub.u.s,
                                     .device = device->pub.u.s,
                                     .dtype = dtype,
                                     .index = (uint32_t)m->storages.n,
                                     .numel = numel->pub.u.i,
                                     .bytes = bytes };
        CR_TRY(cr_map_put(&m->storage_keys, made->key, key->pub.n, made->index));
        CR_TRY(cr_vec_push(&m->storages, made));
        s = made;
    }
    *out = cr__pickle_new(m, CR_PICKLE_STORAGE);
    if (!*out) return CR_ENOMEM;
    (*out)->pub.u.storage = s;
    return CR_OK;
}
