/* parse.c: reads the text that print.c writes (its grammar is described there).
 *
 * Result types may be left out: the op's rule then gives them, which keeps hand-written tests short. Where an op has
 * several results, one name may stand for them all and be taken apart with `_operator.getitem`, as FX graphs do. Depth and
 * sizes are bounded by the text; every error is CR_EFORMAT with line and column. */
#include "graph/internal.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_DEPTH = 64, MAX_NESTING = 16, MAX_ITEMS = 4096, MAX_CONSTANT_BYTES = 1 << 20 };

typedef struct tuple { const char *name; uint32_t node; } tuple; /* a name that stands for all results of a node */

typedef struct parser {
    const char *text, *at;
    cr_env *env;
    cr_graph *g;
    cr_arena scratch;
    CR_VEC(tuple) tuples;
    int depth, nesting; /* of lists; of graphs */
} parser;

static cr_status fail(parser *p, const char *format, ...) CR_PRINTF(2, 3);
static cr_status fail(parser *p, const char *format, ...) {
    cr_str what;
    cr_str_init(&what);
    va_list args;
    va_start(args, format);
    cr_str_addv(&what, format, args);
    va_end(args);
    int line, column;
    cr_text_position(p->text, p->at, &line, &column);
    cr_status status = CR_FAIL(CR_EFORMAT, "graph text %d:%d: %s", line, column, cr_str_get(&what));
    cr_str_dispose(&what);
    return status;
}

/* The last error, with the position of `at`; out of memory stays what it is. */
static cr_status fail_at(parser *p, const char *at, cr_status status) {
    if (!status || status == CR_ENOMEM) return status;
    p->at = at;
    return fail(p, "%s", cr_error_message());
}

static void skip(parser *p) {
    for (;; p->at++) {
        if (*p->at == '#') p->at += strcspn(p->at, "\n");
        if (!*p->at || !isspace((unsigned char)*p->at)) return;
    }
}

static bool name_char(char c) { return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80; }

/* A word does not match the beginning of a longer one. */
static bool accept(parser *p, const char *token) {
    skip(p);
    size_t n = strlen(token);
    if (strncmp(p->at, token, n)) return false;
    if (name_char(token[n - 1]) && name_char(p->at[n])) return false;
    p->at += n;
    return true;
}

static cr_status expect(parser *p, const char *token) {
    if (accept(p, token)) return CR_OK;
    if (!*p->at) return fail(p, "expected '%s', found the end", token);
    return fail(p, "expected '%s', found '%.*s'", token, (int)CR_MIN(strcspn(p->at, "\n"), 12), p->at);
}

static cr_status read_name(parser *p, char **out) {
    skip(p);
    const char *begin = p->at;
    while (name_char(*p->at)) p->at++;
    if (p->at == begin) return fail(p, "expected a name");
    *out = cr_arena_strndup(&p->scratch, begin, (size_t)(p->at - begin));
    return *out ? CR_OK : CR_ENOMEM;
}

static int hex(char c) { return isdigit((unsigned char)c) ? c - '0' : isxdigit((unsigned char)c) ? (tolower((unsigned char)c) - 'a' + 10) : -1; }

/* The inverse of cr_str_add_quoted. */
static cr_status read_string(parser *p, char **out, size_t *length) {
    CR_TRY(expect(p, "\""));
    const char *end = p->at;
    while (*end && *end != '"') end += *end == '\\' && end[1] ? 2 : 1;
    if (!*end) return fail(p, "unterminated string");
    char *text = cr_arena_alloc(&p->scratch, (size_t)(end - p->at) + 1), *to = text;
    if (!text) return CR_ENOMEM;
    while (p->at < end) {
        if (*p->at != '\\') {
            *to++ = *p->at++;
            continue;
        }
        static const char from[] = "ntr\"\\/bf", plain[] = "\n\t\r\"\\/\b\f";
        const char *known = strchr(from, p->at[1]);
        if (known && *known) {
            *to++ = plain[known - from];
            p->at += 2;
        } else if (p->at[1] == 'u' && end - p->at >= 6) {
            int code = 0;
            for (int i = 2; i < 6; i++) {
                if (hex(p->at[i]) < 0) return fail(p, "bad \\u escape");
                code = code * 16 + hex(p->at[i]);
            }
            if (code >= 0x80) return fail(p, "only control characters are escaped with \\u");
            *to++ = (char)code;
            p->at += 6;
        } else {
            return fail(p, "unknown escape '\\%c'", p->at[1]);
        }
    }
    *to = 0;
    p->at = end + 1;
    *out = text;
    *length = (size_t)(to - text);
    return CR_OK;
}

/* ---- sizes ---- */

/* One expression, up to a comma or the closing bracket at its own level. */
static cr_status read_dim(parser *p, cr_dim *out) {
    skip(p);
    char *end;
    errno = 0;
    long long plain = strtoll(p->at, &end, 10);
    const char *after = end;
    while (*after == ' ') after++;
    if (end != p->at && !errno && strchr(",])}\n", *after)) {
        if (plain < CR_DIM_TAG_LIMIT) return fail(p, "number out of range");
        p->at = end;
        *out = plain;
        return CR_OK;
    }
    const char *begin = p->at;
    int depth = 0;
    for (end = (char *)begin; *end && (depth || !strchr(",])}\n", *end)); end++) depth += *end == '(' ? 1 : *end == ')' ? -1 : 0;
    char *text = cr_arena_strndup(&p->scratch, begin, (size_t)(end - begin));
    if (!text) return CR_ENOMEM;
    cr_sym e = NULL;
    CR_TRY(fail_at(p, begin, cr_sym_parse(p->env, text, false, &e)));
    if (cr_sym_type_of(e) != CR_TYPE_INT) return fail(p, "a size is an integer");
    p->at = end;
    *out = cr_dim_of(p->env, e);
    if (*out != CR_DIM_OVERFLOW) return CR_OK;
    CR_TRY(cr__env_status(p->env));
    p->at = begin;
    return fail(p, "number out of range");
}

static cr_status read_dims(parser *p, const char *close, int *n, cr_dim *out) {
    for (*n = 0; !accept(p, close); ++*n) {
        if (*n == CR_MAX_RANK) return fail(p, "more than %d dimensions", CR_MAX_RANK);
        if (*n) CR_TRY(expect(p, ","));
        CR_TRY(read_dim(p, &out[*n]));
    }
    return CR_OK;
}

/* ---- types ---- */

typedef struct results { cr_value *at; size_t n, cap, typed; bool single; } results; /* single: one name, no brackets */

static cr_status find_value(parser *p, const char *at, const char *name, uint32_t *out) {
    *out = cr_graph_find(p->g, name);
    if (*out != CR_NO_VALUE) return CR_OK;
    p->at = at;
    for (size_t i = 0; i < p->tuples.n; i++)
        if (!strcmp(p->tuples.at[i].name, name)) return fail(p, "'%%%s' stands for several results; take one with _operator.getitem", name);
    return fail(p, "'%%%s' is not defined before its use", name);
}

static cr_status read_device_name(parser *p, cr_device *out) {
    const char *begin = p->at;
    while (name_char(*p->at) || *p->at == ':') p->at++;
    char *device = cr_arena_strndup(&p->scratch, begin, (size_t)(p->at - begin));
    return device ? fail_at(p, begin, cr_device_parse(device, out)) : CR_ENOMEM;
}

static cr_status read_offset(parser *p, cr_dim *out) {
    const char *begin = p->at;
    char *end;
    if (*p->at == '(') {
        p->at++;
        CR_TRY(read_dim(p, out));
        return expect(p, ")");
    }
    errno = 0;
    *out = strtoll(p->at, &end, 10);
    if (end == begin || errno || *out < 0) return fail(p, "an offset is a number from 0 on, or an expression in parentheses");
    p->at = end;
    return CR_OK;
}

static cr_status read_meta(parser *p, int dtype, cr_meta *m) {
    cr_meta_init(m, dtype, (cr_device){ CR_CPU, -1 });
    cr_dim size[CR_MAX_RANK];
    int rank, nstrides;
    skip(p);
    const char *begin = p->at;
    CR_TRY(expect(p, "["));
    CR_TRY(read_dims(p, "]", &rank, size));
    CR_TRY(fail_at(p, begin, cr_meta_set_dense(p->env, m, rank, size, CR_CONTIGUOUS)));
    CR_TRY(cr__env_status(p->env));
    if (*p->at == '(') {
        p->at++;
        CR_TRY(read_dims(p, ")", &nstrides, m->stride));
        if (nstrides != rank) return fail(p, "%d strides for %d sizes", nstrides, rank);
        for (int d = 0; d < rank; d++)
            if (cr_dim_is_plain(m->stride[d]) && m->stride[d] < 0) return fail(p, "negative stride %lld", (long long)m->stride[d]);
    }
    if (*p->at == '+') {
        p->at++;
        CR_TRY(read_offset(p, &m->offset));
    }
    if (*p->at == '@') {
        p->at++;
        CR_TRY(read_device_name(p, &m->device));
    }
    if (accept(p, "conj")) m->flags |= CR_META_CONJ;
    if (accept(p, "neg")) m->flags |= CR_META_NEG;
    m->storage = cr__fresh_storage();
    return CR_OK;
}

static cr_status read_expr(parser *p, const char *stop, cr_sym *out) {
    const char *begin = p->at;
    size_t n = strcspn(begin, stop);
    char *text = cr_arena_strndup(&p->scratch, begin, n);
    if (!text) return CR_ENOMEM;
    CR_TRY(fail_at(p, begin, cr_sym_parse(p->env, text, false, out)));
    p->at = begin + n;
    return CR_OK;
}

/* The storage of an earlier value, or of an earlier result of the same statement. */
static cr_status read_owner(parser *p, const results *r, cr_meta *meta) {
    char *owner;
    CR_TRY(expect(p, "%"));
    const char *begin = p->at;
    CR_TRY(read_name(p, &owner));
    const cr_value *value = NULL;
    for (size_t i = 0; r && i < r->n; i++)
        if (!strcmp(r->at[i].name, owner)) value = &r->at[i];
    uint32_t id = cr_graph_find(p->g, owner);
    if (!value && id != CR_NO_VALUE) value = &p->g->values.at[id];
    if (value && value->meta && value->meta != meta) return meta->storage = value->meta->storage, CR_OK;
    p->at = begin;
    return fail(p, value ? "'%%%s' is not a tensor with a type" : "'%%%s' is not defined before its use", owner);
}

static cr_status read_type(parser *p, const results *r, cr_value *v) {
    static const struct { const char *name; cr_type type; } kinds[] = {
        { "tensor", CR_T_TENSOR }, { "int", CR_T_INT }, { "float", CR_T_FLOAT }, { "bool", CR_T_BOOL }, { "number", CR_T_SCALAR }, { "str", CR_T_STR }, { "any", CR_T_ANY },
    };
    char *name;
    const char *begin = p->at;
    CR_TRY(read_name(p, &name));
    for (size_t i = 0; i < CR_COUNT(kinds); i++) {
        if (strcmp(kinds[i].name, name)) continue;
        v->type = (uint8_t)kinds[i].type;
        if (*p->at != '{') return CR_OK;
        p->at++;
        const char *open = p->at;
        CR_TRY(read_expr(p, "}\n", &v->expr));
        static const uint8_t types[] = { [CR_TYPE_INT] = CR_T_INT, [CR_TYPE_FLOAT] = CR_T_FLOAT, [CR_TYPE_BOOL] = CR_T_BOOL };
        if (types[cr_sym_type_of(v->expr)] == v->type) return expect(p, "}");
        p->at = open;
        return fail(p, "the expression is not of type '%s'", name);
    }
    int dtype;
    if (!cr_dtype_find(name, &dtype)) {
        p->at = begin;
        return fail(p, "'%.40s' is not a type", name);
    }
    cr_meta *meta = cr_arena_calloc(&p->scratch, 1, sizeof *meta);
    if (!meta) return CR_ENOMEM;
    CR_TRY(read_meta(p, dtype, meta));
    v->type = CR_T_TENSOR;
    v->meta = meta;
    return accept(p, "of") ? read_owner(p, r, meta) : CR_OK;
}

/* ---- arguments ---- */

static cr_status read_arg(parser *p, cr_arg *out);

static cr_status read_args(parser *p, const char *close, cr_arg **out, uint32_t *n) {
    cr_arg small[16], *items = small;
    uint32_t cap = CR_COUNT(small);
    for (*n = 0; !accept(p, close); ++*n) {
        if (*n == MAX_ITEMS) return fail(p, "a list of more than %d items", MAX_ITEMS);
        if (*n) CR_TRY(expect(p, ","));
        if (*n == cap) {
            cr_arg *grown = cr_arena_alloc(&p->scratch, 2 * cap * sizeof *grown);
            if (!grown) return CR_ENOMEM;
            memcpy(grown, items, cap * sizeof *grown);
            items = grown;
            cap *= 2;
        }
        CR_TRY(read_arg(p, &items[*n]));
    }
    *out = cr_arena_copy(&p->scratch, items, *n * sizeof *items);
    return *out ? CR_OK : CR_ENOMEM;
}

static cr_status read_double(parser *p, double *out) {
    char *end;
    skip(p);
    *out = cr_strtod(p->at, &end);
    if (end == p->at) return fail(p, "expected a number");
    p->at = end;
    return CR_OK;
}

/* `any`: also integers that a size could not be. */
static cr_status read_number(parser *p, bool any, cr_arg *out) {
    char *end_int, *end_float;
    errno = 0;
    long long i = strtoll(p->at, &end_int, 10);
    bool overflow = errno != 0;
    double f = cr_strtod(p->at, &end_float);
    if (end_float == p->at) return fail(p, "expected an argument");
    if (end_int == end_float) {
        if (overflow || (!any && i < CR_DIM_TAG_LIMIT)) return fail(p, "number out of range");
        *out = cr_arg_int(i);
    } else {
        *out = cr_arg_float(f);
    }
    p->at = end_float;
    return CR_OK;
}

static cr_status read_complex(parser *p, cr_arg *out) {
    double *c = cr_arena_alloc(&p->scratch, 2 * sizeof *c);
    if (!c) return CR_ENOMEM;
    CR_TRY(read_double(p, &c[0]));
    CR_TRY(expect(p, ","));
    CR_TRY(read_double(p, &c[1]));
    CR_TRY(expect(p, "j"));
    *out = (cr_arg){ .kind = CR_ARG_COMPLEX, .given = 1, .u.c = c };
    return expect(p, ")");
}

static cr_status read_device(parser *p, cr_arg *out) {
    char *text;
    size_t n;
    CR_TRY(expect(p, "("));
    CR_TRY(read_string(p, &text, &n));
    CR_TRY(expect(p, ")"));
    *out = (cr_arg){ .kind = CR_ARG_DEVICE, .given = 1 };
    return fail_at(p, p->at, cr_device_parse(text, &out->u.device));
}

/* A bare word: a dtype, a memory format, a layout. */
static cr_status read_word(parser *p, cr_arg *out) {
    static const char *const formats[] = { "contiguous_format", "preserve_format", "channels_last", "channels_last_3d" };
    char *name;
    int dtype;
    const char *begin = p->at;
    CR_TRY(read_name(p, &name));
    for (size_t i = 0; i < CR_COUNT(formats); i++)
        if (!strcmp(formats[i], name)) return *out = (cr_arg){ .kind = CR_ARG_FORMAT, .given = 1, .u.i = (int64_t)i }, CR_OK;
    if (!strcmp(name, "strided")) return *out = (cr_arg){ .kind = CR_ARG_LAYOUT, .given = 1 }, CR_OK;
    if (!strcmp(name, "device")) return read_device(p, out);
    if (cr_dtype_find(name, &dtype)) return *out = cr_arg_dtype(dtype), CR_OK;
    p->at = begin;
    return fail(p, "unknown word '%.40s'; values start with '%%'", name);
}

static cr_status read_graph_ref(parser *p, cr_arg *out) {
    char *name;
    CR_TRY(read_name(p, &name));
    for (size_t i = 0; i < cr_graph_subgraph_count(p->g); i++)
        if (!strcmp(cr_graph_name(cr_graph_subgraph(p->g, i)), name)) {
            *out = (cr_arg){ .kind = CR_ARG_GRAPH, .given = 1, .u.graph = cr_graph_subgraph(p->g, i) };
            return CR_OK;
        }
    return fail(p, "there is no graph '@%s' here", name);
}

static cr_status read_arg(parser *p, cr_arg *out) {
    skip(p);
    const char *begin = p->at;
    if (accept(p, "%")) {
        char *name;
        uint32_t value;
        CR_TRY(read_name(p, &name));
        CR_TRY(find_value(p, begin, name, &value));
        *out = (cr_arg){ .kind = CR_ARG_VALUE, .given = 1, .pad = p->g->values.at[value].type, .u.i = value };
        return CR_OK;
    }
    if (accept(p, "none")) return *out = cr_arg_none(), out->given = 1, CR_OK;
    if (accept(p, "true")) return *out = cr_arg_bool(true), CR_OK;
    if (accept(p, "false")) return *out = cr_arg_bool(false), CR_OK;
    if (accept(p, "@")) return read_graph_ref(p, out);
    if (accept(p, "(")) return read_complex(p, out);
    if (accept(p, "[")) {
        cr_arg *items;
        uint32_t n;
        if (++p->depth > MAX_DEPTH) return fail(p, "lists nested deeper than %d", MAX_DEPTH);
        CR_TRY(read_args(p, "]", &items, &n));
        p->depth--;
        return *out = cr_arg_list(items, n), CR_OK;
    }
    if (*p->at == '"') {
        char *text;
        size_t n;
        CR_TRY(read_string(p, &text, &n));
        *out = (cr_arg){ .kind = CR_ARG_STR, .given = 1, .n = (uint32_t)n, .u.s = text };
        return CR_OK;
    }
    bool number = isdigit((unsigned char)*p->at) || *p->at == '-' || *p->at == '.' || !strncmp(p->at, "inf", 3) || !strncmp(p->at, "nan", 3);
    return number ? read_number(p, false, out) : read_word(p, out);
}

/* ---- statements ---- */

static cr_status add_result(parser *p, results *r, const char *name, bool hidden) {
    bool twice = cr_graph_find(p->g, name) != CR_NO_VALUE;
    for (size_t i = 0; i < r->n; i++) twice |= !strcmp(r->at[i].name, name);
    for (size_t i = 0; i < p->tuples.n; i++) twice |= !strcmp(p->tuples.at[i].name, name);
    if (twice) return fail(p, "'%%%s' is defined twice", name);
    if (r->n == r->cap) {
        size_t cap = r->cap ? 2 * r->cap : 8;
        cr_value *grown = cr_arena_calloc(&p->scratch, cap, sizeof *grown);
        if (!grown) return CR_ENOMEM;
        if (r->n) memcpy(grown, r->at, r->n * sizeof *grown);
        r->at = grown;
        r->cap = cap;
    }
    r->at[r->n++] = (cr_value){ .name = name, .hidden = hidden };
    return CR_OK;
}

static cr_status read_result(parser *p, results *r) {
    char *name;
    CR_TRY(expect(p, "%"));
    CR_TRY(read_name(p, &name));
    bool hidden = *p->at == '!';
    p->at += hidden;
    return add_result(p, r, name, hidden);
}

static cr_status read_result_list(parser *p, results *r) {
    size_t first = r->n;
    while (!accept(p, "]")) {
        if (r->n > first) CR_TRY(expect(p, ","));
        CR_TRY(read_result(p, r));
    }
    if (!accept(p, ":")) return CR_OK;
    CR_TRY(expect(p, "["));
    for (size_t i = first; i < r->n; i++) {
        if (i > first) CR_TRY(expect(p, ","));
        CR_TRY(read_type(p, r, &r->at[i]));
    }
    r->typed += r->n - first;
    return expect(p, "]");
}

static cr_status read_results(parser *p, results *r) {
    skip(p);
    if (*p->at != '%' && *p->at != '[') return CR_OK; /* a call for its effect */
    bool list = false;
    do {
        if (accept(p, "[")) {
            list = true;
            CR_TRY(read_result_list(p, r));
            continue;
        }
        CR_TRY(read_result(p, r));
        if (!accept(p, ":")) continue;
        r->typed++;
        CR_TRY(read_type(p, r, &r->at[r->n - 1]));
    } while (accept(p, ","));
    r->single = r->n == 1 && !list;
    if (r->typed && r->typed != r->n) return fail(p, "give every result a type, or none");
    return expect(p, "=");
}

static cr_status read_op(parser *p, const cr_op **out) {
    skip(p);
    const char *begin = p->at;
    while (name_char(*p->at) || *p->at == '.') p->at++;
    char *name = cr_arena_strndup(&p->scratch, begin, (size_t)(p->at - begin));
    if (!name) return CR_ENOMEM;
    *out = cr_op_find(name);
    if (*out) return CR_OK;
    p->at = begin;
    return fail(p, *name ? "there is no op '%.80s'" : "expected an op", name);
}

static cr_status read_call_args(parser *p, const cr_op *op, cr_binding *binding) {
    cr_arg args[CR_MAX_PARAMS];
    cr_keyword keywords[CR_MAX_PARAMS];
    size_t nargs = 0, nkeywords = 0;
    CR_TRY(expect(p, "("));
    const char *open = p->at;
    while (!accept(p, ")")) {
        if (nargs + nkeywords) CR_TRY(expect(p, ","));
        if (nargs + nkeywords == CR_MAX_PARAMS) return fail(p, "more than %d arguments", CR_MAX_PARAMS);
        skip(p);
        const char *word = p->at;
        while (name_char(*word)) word++;
        if (word > p->at && *word == '=') {
            char *name;
            CR_TRY(read_name(p, &name));
            p->at++;
            keywords[nkeywords].name = name;
            CR_TRY(read_arg(p, &keywords[nkeywords++].value));
        } else {
            if (nkeywords) return fail(p, "a positional argument follows keyword arguments");
            CR_TRY(read_arg(p, &args[nargs++]));
        }
    }
    return fail_at(p, open, cr_bind(op, true, args, nargs, keywords, nkeywords, &p->scratch, binding));
}

static cr_status read_origin(parser *p, cr_origin *origin) {
    *origin = (cr_origin){ NULL, NULL, NULL };
    for (;;) {
        char *text;
        size_t n;
        const char **slot = accept(p, "stack=") ? &origin->stack_trace
                            : accept(p, "module=") ? &origin->module_stack
                            : accept(p, "fn=") ? &origin->source_fn : NULL;
        if (!slot) return CR_OK;
        CR_TRY(read_string(p, &text, &n));
        *slot = text;
    }
}

/* Which schema return or parameter each typed result belongs to: a list takes what the fixed ones leave. */
static cr_status assign_returns(parser *p, const cr_op *op, const cr_arg *args, results *r) {
    const cr_schema *s = &op->schema;
    size_t visible = 0, at = 0;
    while (visible < r->n && !r->at[visible].hidden) visible++;
    for (size_t i = visible; i < r->n; i++)
        if (!r->at[i].hidden) return fail(p, "hidden results come last");
    size_t lists = 0;
    for (uint16_t k = 0; k < s->nreturns; k++) lists += s->returns[k].list;
    if (!s->varargs_returns && (lists ? visible + lists < s->nreturns : visible != s->nreturns))
        return fail(p, "%s gives %d results, not %zu", op->name, s->nreturns, visible);
    for (; s->varargs_returns && at < visible; at++) r->at[at].ret = (uint16_t)at;
    for (uint16_t k = 0; k < s->nreturns; k++) {
        size_t m = s->returns[k].list ? visible - at - (s->nreturns - 1u - k) : 1;
        for (size_t i = 0; i < m; i++) r->at[at++].ret = k;
    }
    for (uint16_t k = 0; k < s->nparams; k++) {
        if (!s->params[k].writes) continue;
        uint32_t n = args[k].kind == CR_ARG_LIST ? args[k].n : args[k].kind == CR_ARG_VALUE;
        for (uint32_t i = 0; i < n; i++, at++) {
            if (at >= r->n) return fail(p, "%s writes '%s': name what it is after, as %%name!", op->name, s->params[k].name);
            r->at[at].ret = k;
        }
    }
    return at == r->n ? CR_OK : fail(p, "%s writes fewer arguments than there are hidden results", op->name);
}

static cr_status add_typed(parser *p, const cr_op *op, const cr_arg *args, results *r) {
    uint32_t id;
    CR_TRY(assign_returns(p, op, args, r));
    return cr_graph_call_with(p->g, op, args, r->at, r->n, &id);
}

static cr_status add_inferred(parser *p, const cr_op *op, const cr_arg *args, results *r) {
    uint32_t id, visible = 0;
    CR_TRY(fail_at(p, p->at, cr_graph_call(p->g, op, args, &id)));
    const cr_node *node = cr_graph_node(p->g, id);
    uint32_t first = node->first, count = node->nvalues;
    for (uint32_t i = 0; i < count; i++) visible += !p->g->values.at[first + i].hidden;
    if (r->single && visible > 1) return cr_vec_push(&p->tuples, (tuple){ r->at[0].name, id });
    if (r->n && r->n != count && r->n != visible) return fail(p, "%s gives %u results, not %zu", op->name, visible, r->n);
    for (uint32_t i = 0; i < r->n; i++) {
        if (r->at[i].hidden != p->g->values.at[first + i].hidden) return fail(p, "'%%%s' is %s hidden result", r->at[i].name, r->at[i].hidden ? "no" : "a");
        CR_TRY(cr_graph_rename(p->g, first + i, r->at[i].name));
    }
    return CR_OK;
}

/* %b = _operator.getitem(%a, 1), where %a stands for several results: result 1 is %b. */
static cr_status read_getitem(parser *p, results *r) {
    char *name;
    cr_dim index;
    CR_TRY(expect(p, "("));
    CR_TRY(expect(p, "%"));
    const char *begin = p->at;
    CR_TRY(read_name(p, &name));
    CR_TRY(expect(p, ","));
    CR_TRY(read_dim(p, &index));
    CR_TRY(expect(p, ")"));
    for (size_t i = 0; i < p->tuples.n; i++) {
        if (strcmp(p->tuples.at[i].name, name)) continue;
        const cr_node *node = cr_graph_node(p->g, p->tuples.at[i].node);
        if (!cr_dim_is_plain(index) || index < 0 || index >= node->nvalues || p->g->values.at[node->first + index].hidden) return fail(p, "'%%%s' has no result %lld", name, (long long)index);
        if (r->n != 1) return fail(p, "getitem gives one result");
        return cr_graph_rename(p->g, node->first + (uint32_t)index, r->at[0].name);
    }
    p->at = begin;
    return fail(p, "'%%%s' does not stand for several results", name);
}

static cr_status read_get_attr(parser *p, results *r) {
    char *target;
    size_t n;
    uint32_t value;
    cr_origin origin;
    skip(p);
    const char *begin = p->at;
    CR_TRY(read_string(p, &target, &n));
    CR_TRY(read_origin(p, &origin));
    if (r->n != 1) return fail(p, "get_attr gives one result");
    CR_TRY(cr_graph_set_origin(p->g, &origin));
    CR_TRY(fail_at(p, begin, cr_graph_get_attr(p->g, target, &value)));
    CR_TRY(cr_graph_rename(p->g, value, r->at[0].name));
    return r->at[0].meta ? cr_graph_set_meta(p->g, value, r->at[0].meta) : CR_OK;
}

static cr_status read_statement(parser *p) {
    results r = { 0 };
    CR_TRY(read_results(p, &r));
    if (accept(p, "get_attr")) return read_get_attr(p, &r);
    if (accept(p, "_operator.getitem")) return read_getitem(p, &r);
    const cr_op *op;
    cr_origin origin;
    skip(p);
    const char *begin = p->at;
    CR_TRY(read_op(p, &op));
    cr_binding *binding = cr_arena_alloc(&p->scratch, sizeof *binding);
    if (!binding) return CR_ENOMEM;
    CR_TRY(read_call_args(p, op, binding));
    CR_TRY(read_origin(p, &origin));
    CR_TRY(cr_graph_set_origin(p->g, &origin));
    const char *end = p->at;
    p->at = begin; /* where complaints about the call point */
    CR_TRY(r.typed ? add_typed(p, op, binding->args, &r) : add_inferred(p, op, binding->args, &r));
    p->at = end;
    return CR_OK;
}

static cr_status read_bound(parser *p, int64_t *out) {
    if (accept(p, "-inf") || accept(p, "inf")) return CR_OK; /* stays as it was set */
    CR_TRY(read_dim(p, out));
    return cr_dim_is_plain(*out) ? CR_OK : fail(p, "a bound is a number");
}

static cr_status read_symbol(parser *p) {
    char *name;
    int64_t lo = INT64_MIN, hi = INT64_MAX, hint;
    skip(p);
    const char *begin = p->at;
    CR_TRY(read_name(p, &name));
    bool real = accept(p, "float"), truth = !real && accept(p, "bool");
    cr_sym_type type = real ? CR_TYPE_FLOAT : truth ? CR_TYPE_BOOL : CR_TYPE_INT;
    if (type == CR_TYPE_INT) {
        CR_TRY(expect(p, "in"));
        CR_TRY(expect(p, "["));
        CR_TRY(read_bound(p, &lo));
        CR_TRY(expect(p, ","));
        CR_TRY(read_bound(p, &hi));
        CR_TRY(expect(p, "]"));
    }
    cr_sym symbol = cr_sym_find_symbol(p->env, name);
    if (symbol && cr_sym_type_of(symbol) != type) return fail(p, "'%s' is known with another type", name);
    if (lo > hi) return fail(p, "the range of %s is empty", name);
    if (!symbol) symbol = cr_sym_symbol(p->env, name, type, lo, hi);
    else if (type == CR_TYPE_INT) CR_TRY(fail_at(p, begin, cr_env_narrow(p->env, symbol, lo, hi)));
    if (!symbol) return cr__env_status(p->env) ? CR_ENOMEM : fail(p, "'%s' cannot be a symbol", name);
    if (type != CR_TYPE_INT || !accept(p, "hint")) return CR_OK;
    begin = p->at;
    CR_TRY(read_bound(p, &hint));
    return fail_at(p, begin, cr_env_set_hint(p->env, symbol, hint));
}

/* guard s0 <= 8 "why" */
static cr_status read_condition(parser *p, cr_cond_kind kind) {
    cr_sym condition = NULL;
    char *message = "";
    size_t n;
    const char *begin = p->at;
    CR_TRY(read_expr(p, "\"\n", &condition));
    if (cr_sym_type_of(condition) != CR_TYPE_BOOL) {
        p->at = begin;
        return fail(p, "a condition is true or false");
    }
    if (*p->at == '"') CR_TRY(read_string(p, &message, &n));
    return fail_at(p, begin, cr_env_add_cond(p->env, kind, condition, message));
}

static cr_status read_elements(parser *p, cr_tensor *t, uint32_t count) {
    char message[128] = "";
    rt_ctx ctx = cr_kernel_ctx(message, sizeof message);
    rt_view whole = cr_tensor_view(t);
    for (uint32_t i = 0; i < count; i++) {
        cr_arg item;
        if (i) CR_TRY(expect(p, ","));
        skip(p);
        if (accept(p, "(")) CR_TRY(read_complex(p, &item));
        else CR_TRY(read_number(p, true, &item));
        rt_view one = { .p = whole.p, .dtype = whole.dtype };
        int64_t at = 0, rest = i;
        for (int d = whole.rank - 1; d >= 0; d--) {
            at += rest % whole.size[d] * whole.stride[d];
            rest /= whole.size[d];
        }
        one.p = (char *)whole.p + at * rt_itemsize(whole.dtype);
        if (rt_fill(&ctx, &one, cr_arg_scalar(&item))) return fail(p, "%s", message);
    }
    return expect(p, "]");
}

/* Without elements only the shape is known: a fake tensor, with which the graph can be checked but not run. */
static cr_status make_constant(parser *p, const cr_meta *meta, cr_tensor **out) {
    const char *begin = p->at;
    int64_t bytes;
    if (!accept(p, "=")) return fail_at(p, begin, cr_tensor_create_fake(p->env, meta, out));
    CR_TRY(expect(p, "["));
    for (int d = 0; d < meta->rank; d++)
        if (!cr_dim_is_plain(meta->size[d]) || !cr_dim_is_plain(meta->stride[d]) || !cr_dim_is_plain(meta->offset)) return fail(p, "a constant with elements has plain sizes");
    int64_t numel = cr_meta_numel(NULL, meta);
    if (numel > MAX_ITEMS || cr_meta_bytes(meta, &bytes) || bytes > MAX_CONSTANT_BYTES) return fail(p, "a constant of the text is too large; give the graph the tensor instead");
    CR_TRY(fail_at(p, begin, cr_tensor_create(meta, out)));
    cr_status status = read_elements(p, *out, (uint32_t)numel);
    if (status) cr_tensor_release(*out);
    return status;
}

static cr_status read_constant(parser *p) {
    char *target, *dtype_name;
    size_t n;
    int dtype;
    cr_meta meta;
    skip(p);
    const char *begin = p->at;
    CR_TRY(read_string(p, &target, &n));
    CR_TRY(expect(p, ":"));
    CR_TRY(read_name(p, &dtype_name));
    if (!cr_dtype_find(dtype_name, &dtype)) return fail(p, "'%.40s' is not a dtype", dtype_name);
    CR_TRY(read_meta(p, dtype, &meta));
    cr_tensor *t = NULL;
    CR_TRY(make_constant(p, &meta, &t));
    cr_status status = cr_graph_add_constant(p->g, target, t);
    cr_tensor_release(t);
    return fail_at(p, begin, status);
}

static cr_status read_placeholders(parser *p) {
    CR_TRY(expect(p, "("));
    for (bool first = true; !accept(p, ")"); first = false) {
        char *name;
        cr_value v = { 0 };
        uint32_t value;
        if (!first) CR_TRY(expect(p, ","));
        CR_TRY(expect(p, "%"));
        CR_TRY(read_name(p, &name));
        CR_TRY(expect(p, ":"));
        CR_TRY(read_type(p, NULL, &v));
        if (cr_graph_find(p->g, name) != CR_NO_VALUE) return fail(p, "'%%%s' is defined twice", name);
        if (v.type == CR_T_TENSOR) CR_TRY(cr_graph_placeholder(p->g, name, v.meta, &value));
        else CR_TRY(cr_graph_placeholder_number(p->g, name, v.type, v.expr, &value));
    }
    return CR_OK;
}

static cr_status read_graph(parser *p);

static cr_status read_subgraph(parser *p) {
    parser inner = { .text = p->text, .at = p->at, .env = p->env, .nesting = p->nesting + 1 };
    if (inner.nesting > MAX_NESTING) return fail(p, "graphs nested deeper than %d", MAX_NESTING);
    cr_arena_init(&inner.scratch);
    cr_status status = cr_graph_create(p->env, &inner.g);
    if (!status) status = read_graph(&inner);
    for (size_t i = 0; !status && i < cr_graph_subgraph_count(p->g); i++)
        if (!strcmp(cr_graph_name(cr_graph_subgraph(p->g, i)), cr_graph_name(inner.g))) status = fail(&inner, "two graphs are named '%s'", cr_graph_name(inner.g));
    if (!status) status = cr_graph_add_subgraph(p->g, inner.g);
    p->at = inner.at;
    cr_graph_release(inner.g);
    cr_vec_dispose(&inner.tuples);
    cr_arena_dispose(&inner.scratch);
    return status;
}

/* Symbols may be declared after the signature that uses them, so declarations are read first. */
static cr_status read_symbol_lines(parser *p) {
    const char *start = p->at;
    for (const char *line = start; (line = strstr(line, "\n")); ) {
        line++;
        const char *word = line + strspn(line, " \t");
        if (strncmp(word, "symbol ", 7)) continue;
        p->at = word + 7;
        CR_TRY(read_symbol(p));
    }
    p->at = start;
    return CR_OK;
}

static bool begins_line(const parser *p, const char *at) {
    while (at > p->text && (at[-1] == ' ' || at[-1] == '\t')) at--;
    return at == p->text || at[-1] == '\n';
}

static cr_status read_graph(parser *p) {
    CR_TRY(expect(p, "graph"));
    skip(p);
    if (*p->at != '(') {
        char *name;
        CR_TRY(read_name(p, &name));
        CR_TRY(cr_graph_set_name(p->g, name));
    }
    CR_TRY(read_placeholders(p));
    CR_TRY(expect(p, "{"));
    for (;;) {
        skip(p);
        if (accept(p, "symbol")) {
            if (!begins_line(p, p->at - strlen("symbol"))) return fail(p, "a symbol is declared on a line of its own");
            CR_TRY(read_symbol(p)); /* a second time, to find its end */
        } else if (accept(p, "guard")) {
            CR_TRY(read_condition(p, CR_COND_GUARD));
        } else if (accept(p, "assert")) {
            CR_TRY(read_condition(p, CR_COND_ASSERT));
        } else if (accept(p, "assume")) {
            CR_TRY(read_condition(p, CR_COND_ASSUMED));
        } else if (accept(p, "constant")) {
            CR_TRY(read_constant(p));
        } else if (!strncmp(p->at, "graph", 5) && !name_char(p->at[5])) {
            CR_TRY(read_subgraph(p));
        } else if (accept(p, "return")) {
            cr_arg *items = NULL;
            uint32_t n = 0;
            skip(p);
            if (*p->at == '}') p->at++;
            else CR_TRY(read_args(p, "}", &items, &n));
            return cr_graph_set_output(p->g, items, n);
        } else if (!*p->at || *p->at == '}') {
            return fail(p, "a graph ends with 'return'");
        } else {
            CR_TRY(read_statement(p));
        }
    }
}

cr_status cr_graph_parse(cr_env *env, const char *text, cr_graph **out) {
    parser p = { .text = text, .at = text };
    cr_arena_init(&p.scratch);
    cr_status status = CR_OK;
    if (env) cr_env_retain(p.env = env);
    else CR_TRY_OUT(cr_env_create(&p.env));
    CR_TRY_OUT(cr_graph_create(p.env, &p.g));
    CR_TRY_OUT(read_symbol_lines(&p));
    CR_TRY_OUT(read_graph(&p));
    skip(&p);
    if (*p.at) CR_TRY_OUT(fail(&p, "unexpected text after the graph"));
    CR_TRY_OUT(cr_graph_set_origin(p.g, NULL));
    *out = p.g;
    p.g = NULL;
out:
    cr_graph_release(p.g);
    cr_env_release(p.env);
    cr_vec_dispose(&p.tuples);
    cr_arena_dispose(&p.scratch);
    return status;
}
