/* The finished value: what a machine without classes can still get wrong, and the text of a value.
 *
 * Values share parts (the memo), so that a short pickle can describe a value that is huge written out, or one that
 * contains itself. One walk over the shared graph finds both: each value is visited once and remembers its height and
 * its weight, the number of values (and text) that a walk without sharing would meet. */
#include "archive/pickle_internal.h"

#include <math.h>

typedef cr__pickle_machine machine;
typedef cr__pickle_value value;

/* Kind, its name in messages, how its text begins and ends. */
#define KINDS(X)                                                                                                       \
    X(NONE, "None", 0, 0)                                                                                              \
    X(BOOL, "a bool", 0, 0) X(INT, "an integer", 0, 0) X(FLOAT, "a float", 0, 0) X(COMPLEX, "a complex number", 0, 0)  \
        X(STRING, "a text", 0, 0) X(BYTES, "bytes", 0, 0) X(TUPLE, "a tuple", "(", ")") X(LIST, "a list", "[", "]")    \
            X(SIZE, "a torch.Size", "torch.Size([", "])") X(DEQUE, "a deque", "deque([", "])")                         \
                X(DICT, "a dict", "{", "}") X(ORDERED_DICT, "an OrderedDict", "OrderedDict({", "})")                   \
                    X(DEFAULT_DICT, "a defaultdict", "defaultdict(", "})") X(COUNTER, "a Counter", "Counter({", "})")  \
                        X(SET, "a set", "{", "}")                                                                      \
                        X(FROZENSET, "a frozenset", "frozenset({", "})") X(DTYPE, "a dtype", 0, 0)                     \
                            X(DEVICE, "a device", 0, 0) X(LAYOUT, "a layout", 0, 0) X(FORMAT, "a memory format", 0, 0) \
                                X(STORAGE, "a storage", 0, 0) X(TENSOR, "a tensor", 0, 0)
static const struct { const char *name, *open, *close; } kinds[] = {
#define X(KIND, name, open, close) [CR_PICKLE_##KIND] = {name, open, close},
    KINDS(X)
#undef X
    [CR__PICKLE_NAME] = {"a name", 0, 0},
};

const char *cr_pickle_kind_name(int kind) { return kind >= 0 && kind < (int)CR_COUNT(kinds) ? kinds[kind].name : "?"; }

bool cr_pickle_is_dict(int kind) { return kind >= CR_PICKLE_DICT && kind <= CR_PICKLE_COUNTER; }
static bool is_set(int kind) { return kind == CR_PICKLE_SET || kind == CR_PICKLE_FROZENSET; }

const cr_pickle *cr_pickle_find(const cr_pickle *dict, const char *key) {
    if (!dict || !cr_pickle_is_dict(dict->kind)) return NULL;
    size_t n = strlen(key);
    for (uint32_t i = 0; i < dict->n; i += 2) {
        const cr_pickle *k = dict->u.items[i];
        if (k->kind == CR_PICKLE_STRING && k->n == n && !memcmp(k->u.s, key, n)) return dict->u.items[i + 1];
    }
    return NULL;
}

/* ---- keys ---- */

static void put(cr_str *s, char tag, const void *data, size_t n) {
    uint64_t length = n;
    cr_str_addc(s, tag);
    cr_str_addn(s, (const char *)&length, sizeof length);
    cr_str_addn(s, data, n);
}

/* A text that is equal for keys that Python holds for equal (1 == 1.0 == True); false when it has no hash. Tensors and
 * storages are keys by identity, and so are frozensets here: two equal ones pass as two. */
static bool key_text(const cr_pickle *p, cr_str *s) {
    double f = 0;
    switch (p->kind) {
    case CR_PICKLE_BOOL: put(s, 'i', &(int64_t){p->u.b}, 8); return true;
    case CR_PICKLE_INT: put(s, 'i', &p->u.i, 8); return true;
    case CR_PICKLE_COMPLEX:
        if (p->u.c[1] != 0) {
            put(s, 'c', p->u.c, sizeof p->u.c);
            return true;
        }
        f = p->u.c[0];
        break;
    case CR_PICKLE_FLOAT: f = p->u.f; break;
    case CR_PICKLE_STRING:
    case CR_PICKLE_BYTES:
    case CR_PICKLE_DEVICE:
    case CR_PICKLE_LAYOUT:
    case CR_PICKLE_FORMAT: put(s, (char)('A' + p->kind), p->u.s, p->n); return true;
    case CR_PICKLE_DTYPE: put(s, 'd', &p->u.dtype, sizeof p->u.dtype); return true;
    case CR_PICKLE_NONE: put(s, 'n', "", 0); return true;
    case CR_PICKLE_TUPLE:
    case CR_PICKLE_SIZE:
        put(s, 't', &p->n, sizeof p->n);
        for (uint32_t i = 0; i < p->n; i++)
            if (!key_text(p->u.items[i], s)) return false;
        return true;
    case CR_PICKLE_FROZENSET:
    case CR_PICKLE_STORAGE:
    case CR_PICKLE_TENSOR: put(s, 'p', &p, sizeof p); return true;
    default: return false;
    }
    if (isnan(f)) put(s, 'p', &p, sizeof p); /* a NaN equals no other */
    else if (f == floor(f) && fabs(f) < 9e18) put(s, 'i', &(int64_t){(int64_t)f}, 8);
    else put(s, 'f', &f, sizeof f);
    return true;
}

static cr_status refused_key(const cr_pickle *container, const cr_pickle *key, const char *what) {
    cr_str text = {0};
    cr_pickle_print(key, &text);
    cr_status status = cr_str_status(&text);
    if (!status)
        status = CR_FAIL(CR_EFORMAT, "%s %s %.100s%s", kinds[container->kind].name, what, cr_str_get(&text),
                         text.n > 100 ? "..." : "");
    cr_str_dispose(&text);
    return status;
}

static cr_status check_keys(const cr_pickle *p) {
    cr_map seen;
    cr_str text = {0};
    cr_status status = CR_OK;
    cr_map_init(&seen);
    for (uint32_t i = 0; i < p->n && !status; i += cr_pickle_is_dict(p->kind) ? 2 : 1) {
        text.n = 0;
        if (!key_text(p->u.items[i], &text)) status = refused_key(p, p->u.items[i], "has the key, which has no hash,");
        else if ((status = cr_str_status(&text))) break;
        else if (cr_map_find(&seen, text.at, text.n, NULL))
            status = refused_key(p, p->u.items[i], "holds twice the key");
        else status = cr_map_put(&seen, text.at, text.n, 1);
    }
    cr_str_dispose(&text);
    cr_map_dispose(&seen);
    return status;
}

/* ---- the walk ---- */

static cr_status check(machine *m, value *v, int depth) {
    cr_pickle *p = &v->pub;
    if (v->state == CR__PICKLE_ACTIVE) return CR_FAIL(CR_EFORMAT, "%s contains itself", kinds[p->kind].name);
    if (p->kind == CR__PICKLE_NAME)
        return CR_FAIL(CR_EUNSUPPORTED, "the pickle holds %s.%s itself, not something made by it", v->name->module,
                       v->name->name);
    if (v->state == CR__PICKLE_NEW && kinds[p->kind].open) {
        v->state = CR__PICKLE_ACTIVE;
        v->weight = 1;
        if (depth >= CR_PICKLE_DEPTH) return CR_FAIL(CR_EFORMAT, "values are nested deeper than %d", CR_PICKLE_DEPTH);
        for (uint32_t i = 0; i < p->n; i++) {
            value *below = (value *)(uintptr_t)p->u.items[i]; /* ours, and not const yet */
            CR_TRY(check(m, below, depth + 1));
            if (p->kind == CR_PICKLE_SIZE && below->pub.kind != CR_PICKLE_INT)
                return CR_FAIL(CR_EFORMAT, "a torch.Size holds %s", kinds[below->pub.kind].name);
            v->height = CR_MAX(v->height, below->height);
            v->weight += below->weight;
            if (v->weight > m->weight_limit)
                return CR_FAIL(CR_EFORMAT, "shared parts make the value larger than a pickle of %zu bytes may be",
                               m->size);
        }
        v->height++;
        if (cr_pickle_is_dict(p->kind) || is_set(p->kind)) CR_TRY(check_keys(p));
    } else if (v->state == CR__PICKLE_NEW) {
        v->weight = 1 + (p->kind == CR_PICKLE_STRING || p->kind == CR_PICKLE_BYTES ? p->n / 16 : 0);
    }
    v->state = CR__PICKLE_CHECKED;
    if (depth + v->height > CR_PICKLE_DEPTH)
        return CR_FAIL(CR_EFORMAT, "values are nested deeper than %d", CR_PICKLE_DEPTH);
    return CR_OK;
}

cr_status cr__pickle_check(machine *m, value *root) { return check(m, root, 0); }

/* ---- text ---- */

static void print_text(cr_str *out, const cr_pickle *p) {
    if (p->kind == CR_PICKLE_BYTES) cr_str_addc(out, 'b');
    cr_str_addc(out, '\'');
    for (uint32_t i = 0; i < p->n; i++) {
        unsigned char c = (unsigned char)p->u.s[i];
        if (c == '\'' || c == '\\') cr_str_addf(out, "\\%c", c);
        else if (c == '\n') cr_str_add(out, "\\n");
        else if (c < 0x20 || c == 0x7f || (c >= 0x80 && p->kind == CR_PICKLE_BYTES)) cr_str_addf(out, "\\x%02x", c);
        else cr_str_addc(out, (char)c);
    }
    cr_str_addc(out, '\'');
}

static void print_numbers(cr_str *out, const char *before, const int64_t *at, int n) {
    cr_str_add(out, before);
    for (int i = 0; i < n; i++) cr_str_addf(out, i ? ", %lld" : "%lld", (long long)at[i]);
    cr_str_addc(out, ']');
}

static void print_tensor(cr_str *out, const cr_pickle_tensor *t) {
    cr_str_add(out, t->is_parameter ? "Parameter(" : "tensor(");
    print_numbers(out, "size=[", t->size, t->rank);
    print_numbers(out, ", stride=[", t->stride, t->rank);
    cr_str_addf(out, ", dtype=torch.%s, storage='%s'", rt_dtype_name(t->dtype), t->storage->key);
    if (t->offset) cr_str_addf(out, ", offset=%lld", (long long)t->offset);
    if (t->conj) cr_str_add(out, ", conj");
    if (t->neg) cr_str_add(out, ", neg");
    if (t->requires_grad) cr_str_add(out, ", requires_grad=True");
    cr_str_addc(out, ')');
}

static void print_items(cr_str *out, const cr_pickle *p) {
    if (is_set(p->kind) && !p->n) { /* {} is a dict */
        cr_str_add(out, p->kind == CR_PICKLE_SET ? "set()" : "frozenset()");
        return;
    }
    cr_str_add(out, kinds[p->kind].open);
    if (p->kind == CR_PICKLE_DEFAULT_DICT) cr_str_addf(out, "%s, {", p->u.factory ? p->u.factory : "None");
    bool dict = cr_pickle_is_dict(p->kind);
    for (uint32_t i = 0; i < p->n; i++) {
        if (i) cr_str_add(out, dict && i % 2 ? ": " : ", ");
        cr_pickle_print(p->u.items[i], out);
    }
    if (p->kind == CR_PICKLE_TUPLE && p->n == 1) cr_str_addc(out, ',');
    if (p->kind == CR_PICKLE_DEQUE && p->u.maxlen >= 0) cr_str_addf(out, "], maxlen=%lld)", (long long)p->u.maxlen);
    else cr_str_add(out, kinds[p->kind].close);
}

void cr_pickle_print(const cr_pickle *p, cr_str *out) {
    switch (p->kind) {
    case CR_PICKLE_NONE: cr_str_add(out, "None"); break;
    case CR_PICKLE_BOOL: cr_str_add(out, p->u.b ? "True" : "False"); break;
    case CR_PICKLE_INT: cr_str_addf(out, "%lld", (long long)p->u.i); break;
    case CR_PICKLE_FLOAT: cr_str_add_double(out, p->u.f); break;
    case CR_PICKLE_COMPLEX:
        cr_str_add(out, "complex(");
        cr_str_add_double(out, p->u.c[0]);
        cr_str_add(out, ", ");
        cr_str_add_double(out, p->u.c[1]);
        cr_str_addc(out, ')');
        break;
    case CR_PICKLE_STRING:
    case CR_PICKLE_BYTES: print_text(out, p); break;
    case CR_PICKLE_DTYPE: cr_str_addf(out, "torch.%s", rt_dtype_name(p->u.dtype)); break;
    case CR_PICKLE_DEVICE: cr_str_addf(out, "device('%s')", p->u.s); break;
    case CR_PICKLE_LAYOUT:
    case CR_PICKLE_FORMAT: cr_str_addf(out, "torch.%s", p->u.s); break;
    case CR_PICKLE_STORAGE:
        cr_str_addf(out, "storage('%s', %s, %lld, '%s')", p->u.storage->key,
                    p->u.storage->dtype < 0 ? "untyped" : rt_dtype_name(p->u.storage->dtype),
                    (long long)p->u.storage->numel, p->u.storage->device);
        break;
    case CR_PICKLE_TENSOR: print_tensor(out, p->u.tensor); break;
    default: print_items(out, p);
    }
}
