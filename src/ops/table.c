/* table.c: the op table. Includes every family's rows, parses their schemas and derives in-place and out variants.
 *
 * Built once, on first use. Ops never move or die, so a `const cr_op *` is valid for the life of the process. */
#include "ops/op.h"

#include "ops/rules.h"
#include "runtime/kernels.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* Short names for the rows. */
enum {
    CORE = CR_TAG_CORE, COMPOSITE = CR_TAG_COMPOSITE, INTERNAL = CR_TAG_INTERNAL,
    REDUCTION = CR_TAG_REDUCTION, DATA_DEPENDENT = CR_TAG_DATA_DEPENDENT, ANY_LAYOUT = CR_TAG_ANY_LAYOUT,
    COPIES_0D = CR_TAG_COPIES_0D, KEEPS_INTEGERS = CR_TAG_KEEPS_INTEGERS, KEEPS_REAL = CR_TAG_KEEPS_REAL,
    VIEW = CR_TAG_VIEW, PLAIN_VIEW = CR_TAG_PLAIN_VIEW, SHARES = CR_TAG_SHARES, UPDATES = CR_TAG_UPDATES,
    SAME_VALUE = CR_TAG_SAME_VALUE, STATISTICS = CR_TAG_STATISTICS, METADATA = CR_TAG_METADATA, RANDOM = CR_TAG_RANDOM,
    ASSERT = CR_TAG_ASSERT,
    NUMBERS = CR_TAG_NUMBERS, INPLACE_VIEW = CR_TAG_INPLACE_VIEW, ANY_CAST = CR_TAG_ANY_CAST,
    EMPTY_CAST = CR_TAG_EMPTY_CAST, SAME_DTYPE = CR_TAG_SAME_DTYPE, DENSE_OUT = CR_TAG_DENSE_OUT,
    COMPLEX_DENSE_OUT = CR_TAG_COMPLEX_DENSE_OUT, POINTWISE_OUT = CR_TAG_POINTWISE_OUT,
    INPLACE = CR_VARIANT_INPLACE, OUT = CR_VARIANT_OUT, METHOD = CR_VARIANT_METHOD, FUNCTION = CR_VARIANT_FUNCTION,
    SAME = CR_VIEW_SAME, RESHAPE = CR_VIEW_RESHAPE, ONES = CR_VIEW_ONES, PERMUTE = CR_VIEW_PERMUTE,
    EXPAND = CR_VIEW_EXPAND, SLICE = CR_VIEW_SLICE, SELECT = CR_VIEW_SELECT, DIAGONAL = CR_VIEW_DIAGONAL,
    SPLIT = CR_VIEW_SPLIT, UNBIND = CR_VIEW_UNBIND, STRIDED = CR_VIEW_STRIDED,
    PLAIN = CR_COPY_PLAIN, CAST = CR_COPY_CAST,
    SUM = CR_REDUCE_SUM, MEAN = CR_REDUCE_MEAN, MAX = CR_REDUCE_MAX, MIN = CR_REDUCE_MIN,
    VARIANCE = CR_REDUCE_VARIANCE, STD = CR_REDUCE_STD, SOFTMAX = CR_REDUCE_SOFTMAX,
    LOG_SOFTMAX = CR_REDUCE_LOG_SOFTMAX, LAYER_NORM = CR_REDUCE_LAYER_NORM,
    ADD = CR_ROLE_ADD, SUB = CR_ROLE_SUB, MUL = CR_ROLE_MUL, DIV = CR_ROLE_DIV, POW = CR_ROLE_POW,
    CLAMP = CR_ROLE_CLAMP, DROPOUT = CR_ROLE_DROPOUT, CONVOLUTION = CR_ROLE_CONVOLUTION,
    RECURRENT = CR_ROLE_RECURRENT,
    IDENTITY = CR_LAW_IDENTITY, INVOLUTION = CR_LAW_INVOLUTION, BOOL_INVOLUTION = CR_LAW_BOOL_INVOLUTION,
    IDEMPOTENT = CR_LAW_IDEMPOTENT,
    ALL_ZERO = CR_FILL_ZEROS, ALL_ONE = CR_FILL_ONES, FROM = CR_FILL_FROM,
    POINTWISE = CR_BATCH_POINTWISE, DIMS = CR_BATCH_DIMS, LEADING = CR_BATCH_LEADING, FIRST = CR_BATCH_FIRST,
    FOLD = CR_BATCH_FOLD, CHANNELS = CR_BATCH_CHANNELS, PRODUCT = CR_BATCH_PRODUCT, STRIDES = CR_BATCH_STRIDED,
    CONV = CR_BATCH_CONVOLUTION, CONV_BACKWARD = CR_BATCH_CONVOLUTION_BACKWARD, INDEX = CR_BATCH_INDEX,
    INDEX_PUT = CR_BATCH_INDEX_PUT, EMBEDDING = CR_BATCH_EMBEDDING, EMBEDDING_BACKWARD = CR_BATCH_EMBEDDING_BACKWARD,
    LOOP = CR_BATCH_LOOP,
    TRUTH = CR_CHECK_TRUTH, RANGE = CR_CHECK_RANGE, METAS = CR_CHECK_METAS,
};

const cr_row cr_no_facts = { .schema = NULL };

#define OP(ID, ...) { __VA_ARGS__ },
static const cr_row rows[] = {
#include "ops/table/families.inc"
    { .schema = NULL },
};
#undef OP

static const struct { const char *name; uint32_t accepts, idle; } recorded[] = {
#include "ops/table/accepts.inc"
    { "", 0, 0 },
};

enum { MAX_OPS = 8192 };
static struct {
    pthread_rwlock_t lock;
    pthread_mutex_t init;
    bool ready;
    cr_arena arena;
    cr_map by_name;  /* "aten::add.Tensor" -> cr_op * */
    cr_map by_group; /* "aten::add" -> first overload */
    const cr_op *ops[MAX_OPS];
    size_t count;
} table = { .lock = PTHREAD_RWLOCK_INITIALIZER, .init = PTHREAD_MUTEX_INITIALIZER };

static cr_op *last_overload(const cr_op *first) {
    while (first->next) first = first->next;
    return (cr_op *)first;
}

/* Puts a finished op into the table and its overload list. */
static cr_status add_op(cr_op *op) {
    uint64_t found;
    if (cr_map_find_str(&table.by_name, op->name, &found))
        return CR_FAIL(CR_EVALUE, "op '%s' is registered already; choose another name or overload", op->name);
    if (table.count == MAX_OPS) return CR_FAIL(CR_ERUNTIME, "the op table is full (%d ops)", MAX_OPS);
    char *group = cr_arena_printf(&table.arena, "%s::%s", op->schema.ns, op->schema.name);
    if (!group) return CR_ENOMEM;
    CR_TRY(cr_map_put_str(&table.by_name, op->name, (uintptr_t)op));
    if (cr_map_find_str(&table.by_group, group, &found)) last_overload((cr_op *)(uintptr_t)found)->next = op;
    else CR_TRY(cr_map_put_str(&table.by_group, group, (uintptr_t)op));
    op->id = (uint32_t)table.count;
    table.ops[table.count++] = op;
    return CR_OK;
}

static cr_status make_op(const cr_row *row, cr_op **out) {
    cr_op *op = cr_arena_calloc(&table.arena, 1, sizeof *op);
    if (!op) return CR_ENOMEM;
    op->row = row;
    op->base = op;
    op->tags = row->tags;
    op->accepts = UINT32_MAX;
    if (row->scalar) op->tags |= CR_TAG_POINTWISE;
    *out = op;
    return CR_OK;
}

static cr_status name_op(cr_op *op) {
    const cr_schema *s = &op->schema;
    op->name = *s->overload ? cr_arena_printf(&table.arena, "%s::%s.%s", s->ns, s->name, s->overload)
                            : cr_arena_printf(&table.arena, "%s::%s", s->ns, s->name);
    return op->name ? CR_OK : CR_ENOMEM;
}

/* The word after "key=" in the row's `names`, up to a space or end: "inplace=bernoulli_.float". */
static bool find_override(const char *names, const char *key, const char **at, size_t *n) {
    const char *p = names ? strstr(names, key) : NULL;
    if (!p) return false;
    *at = p + strlen(key);
    *n = strcspn(*at, " ");
    const char *paren = memchr(*at, '(', *n);
    if (paren) {
        const char *close = strchr(paren, ')');
        *n = close ? (size_t)(close + 1 - *at) : *n;
    }
    return true;
}

/* Splits "max.dim_max(max, max_values)" into name, overload and names: of the out parameters, or of the in-place form's
 * first. "aten::fill_diagonal_": a form that is in another namespace than the op it follows from. */
static cr_status apply_override(cr_schema *s, const char *at, size_t n, const char **outs, size_t nouts) {
    static const char aten[] = "aten::";
    if (n >= sizeof aten && !memcmp(at, aten, sizeof aten - 1)) {
        s->ns = "aten";
        at += sizeof aten - 1, n -= sizeof aten - 1;
    }
    const char *paren = memchr(at, '(', n), *dot = memchr(at, '.', n);
    const char *name_end = paren ? paren : at + n;
    if (dot && dot > name_end) dot = NULL;
    s->name = cr_arena_strndup(&table.arena, at, (size_t)((dot ? dot : name_end) - at));
    s->overload = dot ? cr_arena_strndup(&table.arena, dot + 1, (size_t)(name_end - dot - 1)) : "";
    if (!s->name || !s->overload) return CR_ENOMEM;
    for (size_t i = 0; paren && i < nouts; i++) {
        const char *begin = paren + 1;
        begin += strspn(begin, " ");
        size_t len = strcspn(begin, ",)");
        if (!memchr(begin, '=', len)) {
            outs[i] = cr_arena_strndup(&table.arena, begin, len);
            if (!outs[i]) return CR_ENOMEM;
        }
        paren = begin + len;
        if (*paren == ')') break;
    }
    return CR_OK;
}

/* "bernoulli_.float(p=0.5)": a float parameter that has a default in this form only. */
static void apply_defaults(cr_schema *s, const char *at, size_t n) {
    for (uint16_t i = 0; i < s->nparams; i++) {
        char key[40];
        int len = snprintf(key, sizeof key, "(%s=", s->params[i].name);
        const char *found = len > 0 && (size_t)len < sizeof key ? strstr(at, key) : NULL;
        if (!found || found >= at + n) continue;
        s->params[i].has_default = true;
        s->params[i].fallback = cr_arg_float(strtod(found + len, NULL));
        s->params[i].fallback.given = CR_GIVEN_DEFAULT;
    }
}

static cr_status finish_schema(cr_schema *s) {
    cr_str text;
    cr_str_init(&text);
    cr_schema_print(s, &text);
    s->text = text.failed ? NULL : cr_arena_strdup(&table.arena, cr_str_get(&text));
    cr_str_dispose(&text);
    return s->text ? CR_OK : CR_ENOMEM;
}

static cr_status derive_inplace(cr_op *base) {
    cr_op *op;
    CR_TRY(make_op(base->row, &op));
    op->variant = CR_INPLACE;
    op->base = base;
    cr_schema *s = &op->schema;
    *s = base->schema;
    s->params = cr_arena_copy(&table.arena, s->params, s->nparams * sizeof *s->params);
    s->returns = cr_arena_calloc(&table.arena, 1, sizeof *s->returns);
    if (!s->params || !s->returns) return CR_ENOMEM;
    s->params[0].alias = s->returns[0].alias = 'a';
    s->params[0].alias_wild = false;
    s->params[0].alias_also = NULL;
    s->params[0].writes = s->returns[0].writes = true;
    s->returns[0].name = "";
    s->nreturns = 1;
    s->name = cr_arena_printf(&table.arena, "%s_", s->name);
    const char *at;
    size_t n;
    if (!s->name) return CR_ENOMEM;
    if (find_override(base->row->names, "inplace=", &at, &n)) {
        CR_TRY(apply_override(s, at, n, &s->params[0].name, 1));
        apply_defaults(s, at, n);
    }
    CR_TRY(finish_schema(s));
    CR_TRY(name_op(op));
    base->inplace = op;
    return add_op(op);
}

static bool is_factory_option(const cr_schema *s, const cr_param *p) {
    static const char *const names[] = { "dtype", "layout", "device", "pin_memory" };
    bool factory = false;
    for (uint16_t i = 0; i < s->nparams; i++) factory |= s->params[i].type == CR_T_LAYOUT;
    for (size_t i = 0; factory && i < CR_COUNT(names); i++)
        if (p->keyword_only && !strcmp(names[i], p->name)) return true;
    return false;
}

static cr_status derive_out(cr_op *base) {
    cr_op *op;
    CR_TRY(make_op(base->row, &op));
    op->variant = CR_OUT;
    op->base = base;
    const cr_schema *from = &base->schema;
    cr_schema *s = &op->schema;
    *s = *from;
    s->overload = *from->overload ? cr_arena_printf(&table.arena, "%s_out", from->overload) : "out";
    s->params = cr_arena_calloc(&table.arena, from->nparams + from->nreturns + 1u, sizeof *s->params);
    s->returns = cr_arena_copy(&table.arena, from->returns, from->nreturns * sizeof *s->returns);
    if (!s->overload || !s->params || !s->returns) return CR_ENOMEM;
    const char *outs[16] = {
        from->nreturns == 1 ? "out" : "out0", "out1", "out2", "out3", "out4", "out5", "out6", "out7"
    };
    const char *at;
    size_t n = 0;
    bool renamed = find_override(base->row->names, "out=", &at, &n);
    if (renamed) CR_TRY(apply_override(s, at, n, outs, CR_COUNT(outs)));
    bool unnamed = renamed && strstr(base->row->names, " unnamed");
    s->nparams = s->npositional = 0;
    for (uint16_t i = 0; i < from->nparams; i++) {
        if (is_factory_option(from, &from->params[i])) continue;
        cr_param *p = &s->params[s->nparams++];
        *p = from->params[i];
        if (!p->writes) p->alias = 0; /* a view's out form copies */
        p->alias_wild = false;
        p->alias_also = NULL;
        s->npositional += !p->keyword_only;
    }
    for (uint16_t i = 0; i < from->nreturns; i++) {
        s->params[s->nparams++] = (cr_param){ .name = outs[i],
                                              .type = from->returns[i].type,
                                              .list = from->returns[i].list,
                                              .alias = (char)('a' + i),
                                              .writes = true,
                                              .keyword_only = true };
        s->returns[i].alias = (char)('a' + i);
        s->returns[i].writes = true;
        if (unnamed) s->returns[i].name = "";
    }
    if (renamed) apply_defaults(s, at, n);
    CR_TRY(finish_schema(s));
    CR_TRY(name_op(op));
    base->out = op;
    return add_op(op);
}

static void find_accepts(cr_op *op) {
    for (size_t lo = 0, hi = CR_COUNT(recorded) - 1; lo < hi;) {
        size_t mid = (lo + hi) / 2;
        int order = strcmp(op->name, recorded[mid].name);
        if (!order) { op->accepts = recorded[mid].accepts, op->idle = recorded[mid].idle; return; }
        if (order < 0) hi = mid;
        else lo = mid + 1;
    }
}

static cr_status add_row(const cr_row *row, cr_op **out) {
    cr_op *op;
    CR_TRY(make_op(row, &op));
    CR_TRY(cr_schema_parse(&table.arena, row->schema, &op->schema));
    CR_TRY(name_op(op));
    CR_TRY(add_op(op));
    find_accepts(op);
    if (row->variants & CR_VARIANT_INPLACE) CR_TRY(derive_inplace(op));
    if (row->variants & CR_VARIANT_OUT) CR_TRY(derive_out(op));
    if (out) *out = op;
    return CR_OK;
}

cr_status cr_ops_init(void) {
    if (__atomic_load_n(&table.ready, __ATOMIC_ACQUIRE)) return CR_OK;
    pthread_mutex_lock(&table.init);
    cr_status status = CR_OK;
    if (!table.ready) {
        cr_arena_init(&table.arena);
        cr_map_init(&table.by_name);
        cr_map_init(&table.by_group);
        for (size_t i = 0; rows[i].schema && !status; i++) status = add_row(&rows[i], NULL);
        if (status) { /* a later call starts afresh: memory may be there again */
            cr_arena_dispose(&table.arena);
            cr_map_dispose(&table.by_name);
            cr_map_dispose(&table.by_group);
            table.count = 0;
        } else {
            __atomic_store_n(&table.ready, true, __ATOMIC_RELEASE);
        }
    }
    pthread_mutex_unlock(&table.init);
    return status;
}

size_t cr_op_count(void) { return cr_ops_init() ? 0 : __atomic_load_n(&table.count, __ATOMIC_ACQUIRE); }
const cr_op *cr_op_at(size_t i) { return table.ops[i]; }

static const cr_op *find_in(const cr_map *map, const char *name, size_t n) {
    uint64_t found = 0;
    pthread_rwlock_rdlock(&table.lock);
    bool ok = cr_map_find(map, name, n, &found);
    pthread_rwlock_unlock(&table.lock);
    return ok ? (const cr_op *)(uintptr_t)found : NULL;
}

const cr_op *cr_op_find(const char *name) {
    char buffer[256];
    size_t n = strlen(name);
    if (n + 2 > sizeof buffer || cr_ops_init()) return NULL;
    memcpy(buffer, name, n + 1);
    if (!strstr(name, "::")) { /* "aten.add.Tensor": the first dot separates the namespace */
        const char *dot = strchr(name, '.');
        if (!dot) return NULL;
        size_t at = (size_t)(dot - name);
        memmove(buffer + at + 2, name + at + 1, n - at);
        buffer[at] = buffer[at + 1] = ':';
        n++;
    }
    static const char suffix[] = ".default";
    size_t m = sizeof suffix - 1;
    if (n > m && !strcmp(buffer + n - m, suffix)) n -= m;
    return find_in(&table.by_name, buffer, n);
}

const cr_op *cr_op_find_name(const char *ns, const char *name) {
    char buffer[256];
    int n = snprintf(buffer, sizeof buffer, "%s::%s", ns, name);
    if (n < 0 || (size_t)n >= sizeof buffer || cr_ops_init()) return NULL;
    return find_in(&table.by_group, buffer, (size_t)n);
}

cr_status cr_op_register(const cr_row *row, const cr_op **out) {
    CR_TRY(cr_ops_init());
    cr_op *op = NULL;
    pthread_rwlock_wrlock(&table.lock);
    cr_status status = add_row(row, &op);
    pthread_rwlock_unlock(&table.lock);
    if (!status && out) *out = op;
    return status;
}
