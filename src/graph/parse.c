/* parse.c: reads the text that print.c writes (its grammar is described there).
 *
 * Result types may be left out: the op's rule then gives them, which keeps hand-written tests short. Depth and sizes are
 * bounded by the text; every error is CR_EFORMAT with line and column. */
#include "graph/internal.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_DEPTH = 64, MAX_ITEMS = 4096 };

typedef struct parser {
    const char *text, *at;
    cr_env *env;
    cr_graph *g;
    cr_arena scratch;
    int depth;
    struct parser *outer; /* of a subgraph */
} parser;

static cr_status fail(parser *p, const char *format, ...) {
    char what[256];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    int line, column;
    cr_text_position(p->text, p->at, &line, &column);
    return CR_FAIL(CR_EFORMAT, "graph text %d:%d: %s", line, column, what);
}

static void skip(parser *p) {
    for (;; p->at++) {
        if (*p->at == '#') p->at += strcspn(p->at, "\n");
        if (!*p->at || !isspace((unsigned char)*p->at)) return;
    }
}

static bool accept(parser *p, const char *token) {
    skip(p);
    size_t n = strlen(token);
    if (strncmp(p->at, token, n)) return false;
    if (isalpha((unsigned char)token[0]) && (isalnum((unsigned char)p->at[n]) || p->at[n] == '_')) return false;
    p->at += n;
    return true;
}

static cr_status expect(parser *p, const char *token) {
    if (accept(p, token)) return CR_OK;
    if (!*p->at) return fail(p, "expected '%s', found the end", token);
    return fail(p, "expected '%s', found '%.12s'", token, p->at);
}

static bool name_char(char c) { return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80; }

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

static cr_env *symbols(parser *p) { return p->env; }

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
    cr_status status = cr_sym_parse(symbols(p), text, false, &e);
    if (status == CR_ENOMEM) return status;
    if (status) return fail(p, "not a size: %s", cr_error_message());
    p->at = end;
    *out = cr_dim_of(symbols(p), e);
    return CR_OK;
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

static cr_status find_value(parser *p, const char *name, uint32_t *out) {
    *out = cr_graph_find(p->g, name);
    return *out == CR_NO_VALUE ? fail(p, "'%%%s' is not defined before its use", name) : CR_OK;
}

static cr_status read_meta(parser *p, int dtype, cr_meta *m) {
    cr_meta_init(m, dtype, (cr_device){ CR_CPU, -1 });
    cr_dim size[CR_MAX_RANK];
    int rank, nstrides;
    CR_TRY(expect(p, "["));
    CR_TRY(read_dims(p, "]", &rank, size));
    for (int i = 0; i < rank; i++)
        if (cr_dim_is_plain(size[i]) && size[i] < 0) return fail(p, "negative size %lld", (long long)size[i]);
    if (cr_meta_set_dense(p->env, m, rank, size, CR_CONTIGUOUS)) return fail(p, "%s", cr_error_message());
    if (*p->at == '(') {
        p->at++;
        CR_TRY(read_dims(p, ")", &nstrides, m->stride));
        if (nstrides != rank) return fail(p, "%d strides for %d sizes", nstrides, rank);
    }
    if (*p->at == '+') {
        p->at++;
        CR_TRY(read_dim(p, &m->offset));
    }
    if (*p->at == '@') {
        p->at++;
        const char *begin = p->at;
        while (name_char(*p->at) || *p->at == ':') p->at++;
        char *device = cr_arena_strndup(&p->scratch, begin, (size_t)(p->at - begin));
        if (!device) return CR_ENOMEM;
        if (cr_device_parse(device, &m->device)) return fail(p, "%s", cr_error_message());
    }
    if (*p->at == '\'') {
        p->at++;
        m->flags |= CR_META_WRAPPED;
    }
    m->storage = cr__fresh_storage();
    return CR_OK;
}

static cr_status read_type(parser *p, cr_value *v) {
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
        size_t n = strcspn(open, "}\n");
        char *text = cr_arena_strndup(&p->scratch, open, n);
        if (!text) return CR_ENOMEM;
        cr_status status = cr_sym_parse(symbols(p), text, false, &v->expr);
        if (status == CR_ENOMEM) return status;
        if (status) return fail(p, "%s", cr_error_message());
        p->at += n;
        return expect(p, "}");
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
    if (!accept(p, "of")) return CR_OK;
    char *owner;
    uint32_t value;
    CR_TRY(expect(p, "%"));
    CR_TRY(read_name(p, &owner));
    CR_TRY(find_value(p, owner, &value));
    if (!p->g->values.at[value].meta) return fail(p, "'%%%s' is not a tensor", owner);
    meta->storage = p->g->values.at[value].meta->storage;
    return CR_OK;
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
    *out = strtod(p->at, &end);
    if (end == p->at) return fail(p, "expected a number");
    p->at = end;
    return CR_OK;
}

static cr_status read_number(parser *p, cr_arg *out) {
    char *end_int, *end_float;
    errno = 0;
    long long i = strtoll(p->at, &end_int, 10);
    bool overflow = errno != 0;
    double f = strtod(p->at, &end_float);
    if (end_float == p->at) return fail(p, "expected an argument");
    if (end_int == end_float) {
        if (overflow || i < CR_DIM_TAG_LIMIT) return fail(p, "number out of range");
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
    return cr_device_parse(text, &out->u.device) ? fail(p, "%s", cr_error_message()) : CR_OK;
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
    if (accept(p, "%")) {
        char *name;
        uint32_t value;
        CR_TRY(read_name(p, &name));
        CR_TRY(find_value(p, name, &value));
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
    return number ? read_number(p, out) : read_word(p, out);
}

/* ---- statements ---- */

typedef struct results { cr_value *at; size_t n, cap; bool typed; } results;

static cr_status add_result(parser *p, results *r, const char *name, bool hidden) {
    if (cr_graph_find(p->g, name) != CR_NO_VALUE) return fail(p, "'%%%s' is defined twice", name);
    for (size_t i = 0; i < r->n; i++)
        if (!strcmp(r->at[i].name, name)) return fail(p, "'%%%s' is defined twice", name);
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
    r->typed = true;
    CR_TRY(expect(p, "["));
    for (size_t i = first; i < r->n; i++) {
        if (i > first) CR_TRY(expect(p, ","));
        CR_TRY(read_type(p, &r->at[i]));
    }
    return expect(p, "]");
}

static cr_status read_results(parser *p, results *r) {
    skip(p);
    if (*p->at != '%' && *p->at != '[') return CR_OK; /* a call for its effect */
    do {
        if (accept(p, "[")) CR_TRY(read_result_list(p, r));
        else {
            CR_TRY(read_result(p, r));
            if (accept(p, ":")) {
                r->typed = true;
                CR_TRY(read_type(p, &r->at[r->n - 1]));
            }
        }
    } while (accept(p, ","));
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
    cr_status status = cr_bind(op, true, args, nargs, keywords, nkeywords, &p->scratch, binding);
    if (!status || status == CR_ENOMEM) return status;
    p->at = open;
    return fail(p, "%s", cr_error_message());
}

static cr_status read_origin(parser *p, cr_origin *origin) {
    *origin = (cr_origin){ NULL, NULL, NULL };
    for (;;) {
        char *text;
        size_t n;
        const char **slot = accept(p, "stack=") ? &origin->stack_trace : accept(p, "module=") ? &origin->module_stack : accept(p, "fn=") ? &origin->source_fn : NULL;
        if (!slot) return CR_OK;
        CR_TRY(read_string(p, &text, &n));
        *slot = text;
    }
}

/* Which schema return each typed result belongs to: lists take what the fixed ones leave. */
static cr_status assign_returns(parser *p, const cr_op *op, results *r) {
    const cr_schema *s = &op->schema;
    size_t visible = 0, hidden = 0;
    for (size_t i = 0; i < r->n; i++) *(r->at[i].hidden ? &hidden : &visible) += 1;
    if (s->varargs_returns) {
        for (size_t i = 0; i < r->n; i++) r->at[i].ret = (uint16_t)i;
        return CR_OK;
    }
    size_t lists = 0;
    for (uint16_t k = 0; k < s->nreturns; k++) lists += s->returns[k].list;
    if (lists ? visible + lists < s->nreturns : visible != s->nreturns) return fail(p, "%s gives %d results, not %zu", op->name, s->nreturns, visible);
    size_t at = 0;
    for (uint16_t k = 0; k < s->nreturns; k++) {
        size_t m = s->returns[k].list ? visible - at - (s->nreturns - 1u - k) : 1;
        for (size_t i = 0; i < m; i++) r->at[at++].ret = k;
    }
    for (uint16_t k = 0; k < s->nparams && hidden; k++)
        if (s->params[k].writes && at < r->n) r->at[at++].ret = k;
    return CR_OK;
}

static cr_status add_call(parser *p, const cr_op *op, const cr_arg *args, results *r) {
    uint32_t id;
    if (r->typed || op->schema.varargs_returns) {
        for (size_t i = 0; i < r->n && !op->schema.varargs_returns; i++)
            if (r->at[i].type == CR_T_TENSOR && !r->at[i].meta && !r->at[i].name) return fail(p, "give every result a type or none");
        if (r->typed) {
            CR_TRY(assign_returns(p, op, r));
            return cr_graph_call_with(p->g, op, args, r->at, r->n, &id);
        }
    }
    cr_status status = cr_graph_call(p->g, op, args, &id);
    if (status == CR_ENOMEM) return status;
    if (status) return fail(p, "%s", cr_error_message());
    const cr_node *node = cr_graph_node(p->g, id);
    uint32_t first = node->first, count = node->nvalues, visible = 0;
    for (uint32_t i = 0; i < count; i++) visible += !p->g->values.at[first + i].hidden;
    if (r->n && r->n != count && r->n != visible) return fail(p, "%s gives %u results, not %zu", op->name, visible, r->n);
    for (uint32_t i = 0; i < r->n; i++) CR_TRY(cr_graph_rename(p->g, first + i, r->at[i].name));
    return CR_OK;
}

static cr_status read_statement(parser *p) {
    results r = { 0 };
    CR_TRY(read_results(p, &r));
    cr_origin origin;
    if (accept(p, "get_attr")) {
        char *target;
        size_t n;
        uint32_t value;
        CR_TRY(read_string(p, &target, &n));
        CR_TRY(read_origin(p, &origin));
        if (r.n != 1) return fail(p, "get_attr gives one result");
        cr_graph_set_origin(p->g, &origin);
        cr_status status = cr_graph_get_attr(p->g, target, &value);
        if (status) return status == CR_ENOMEM ? status : fail(p, "%s", cr_error_message());
        CR_TRY(cr_graph_rename(p->g, value, r.at[0].name));
        return r.at[0].meta ? cr_graph_set_meta(p->g, value, r.at[0].meta) : CR_OK;
    }
    const cr_op *op;
    CR_TRY(read_op(p, &op));
    cr_binding *binding = cr_arena_alloc(&p->scratch, sizeof *binding);
    if (!binding) return CR_ENOMEM;
    CR_TRY(read_call_args(p, op, binding));
    CR_TRY(read_origin(p, &origin));
    cr_graph_set_origin(p->g, &origin);
    return add_call(p, op, binding->args, &r);
}

static cr_status read_symbol(parser *p) {
    char *name;
    int64_t bounds[2] = { INT64_MIN, INT64_MAX }, hint;
    CR_TRY(read_name(p, &name));
    CR_TRY(expect(p, "in"));
    CR_TRY(expect(p, "["));
    for (int i = 0; i < 2; i++) {
        if (i) CR_TRY(expect(p, ","));
        if (accept(p, "-inf") || accept(p, "inf")) continue;
        CR_TRY(read_dim(p, &bounds[i]));
        if (!cr_dim_is_plain(bounds[i])) return fail(p, "a bound is a number");
    }
    CR_TRY(expect(p, "]"));
    cr_env *env = symbols(p);
    cr_sym symbol = cr_sym_find_symbol(env, name);
    if (symbol) {
        if (cr_env_narrow(env, symbol, bounds[0], bounds[1])) return fail(p, "%s", cr_error_message());
    } else {
        if (bounds[0] > bounds[1]) return fail(p, "the range of %s is empty", name);
        symbol = cr_sym_symbol(env, name, CR_TYPE_INT, bounds[0], bounds[1]);
        if (!symbol) return CR_ENOMEM;
    }
    if (!accept(p, "hint")) return CR_OK;
    CR_TRY(read_dim(p, &hint));
    return cr_env_set_hint(env, symbol, hint);
}

static cr_status read_constant(parser *p) {
    char *target, *dtype_name;
    size_t n;
    int dtype;
    cr_meta meta;
    CR_TRY(read_string(p, &target, &n));
    CR_TRY(expect(p, ":"));
    CR_TRY(read_name(p, &dtype_name));
    if (!cr_dtype_find(dtype_name, &dtype)) return fail(p, "'%.40s' is not a dtype", dtype_name);
    CR_TRY(read_meta(p, dtype, &meta));
    cr_tensor *t = NULL;
    cr_status status = CR_OK;
    if (!accept(p, "=")) {
        CR_TRY(cr_tensor_create_fake(p->env, &meta, &t)); /* its values were not printed: only its shape is known */
    } else {
        cr_arg *items;
        uint32_t count;
        CR_TRY(expect(p, "["));
        CR_TRY(read_args(p, "]", &items, &count));
        if (cr_meta_numel(NULL, &meta) != count) return fail(p, "%u numbers for %lld elements", count, (long long)cr_meta_numel(NULL, &meta));
        for (uint32_t i = 0; i < count; i++)
            if (!cr_arg_is_number(&items[i])) return fail(p, "a constant holds numbers");
        CR_TRY(cr_tensor_create(&meta, &t));
        char message[128];
        rt_ctx ctx = cr_kernel_ctx(message, sizeof message);
        rt_view whole = cr_tensor_view(t);
        for (uint32_t i = 0; i < count; i++) {
            rt_view one = { .p = whole.p, .dtype = whole.dtype };
            int64_t at = 0, rest = i;
            for (int d = whole.rank - 1; d >= 0; d--) {
                at += rest % whole.size[d] * whole.stride[d];
                rest /= whole.size[d];
            }
            one.p = (char *)whole.p + at * rt_itemsize(whole.dtype);
            rt_fill(&ctx, &one, cr_arg_scalar(&items[i]));
        }
    }
    status = cr_graph_add_constant(p->g, target, t);
    cr_tensor_release(t);
    return status && status != CR_ENOMEM ? fail(p, "%s", cr_error_message()) : status;
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
        CR_TRY(read_type(p, &v));
        if (cr_graph_find(p->g, name) != CR_NO_VALUE) return fail(p, "'%%%s' is defined twice", name);
        if (v.type == CR_T_TENSOR) CR_TRY(cr_graph_placeholder(p->g, name, v.meta, &value));
        else CR_TRY(cr_graph_placeholder_number(p->g, name, v.type, v.expr, &value));
    }
    return CR_OK;
}

static cr_status read_graph(parser *p);

static cr_status read_subgraph(parser *p) {
    parser inner = { .text = p->text, .at = p->at, .env = p->env, .depth = p->depth + 1, .outer = p };
    if (inner.depth > MAX_DEPTH) return fail(p, "graphs nested deeper than %d", MAX_DEPTH);
    cr_arena_init(&inner.scratch);
    cr_status status = cr_graph_create(p->env, &inner.g);
    if (!status) status = read_graph(&inner);
    for (size_t i = 0; !status && i < cr_graph_subgraph_count(p->g); i++)
        if (!strcmp(cr_graph_name(cr_graph_subgraph(p->g, i)), cr_graph_name(inner.g))) status = fail(&inner, "two graphs are named '%s'", cr_graph_name(inner.g));
    if (!status) status = cr_graph_add_subgraph(p->g, inner.g);
    p->at = inner.at;
    cr_graph_release(inner.g);
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
            p->at += strcspn(p->at, "\n");
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
    cr_graph_set_origin(p.g, NULL);
    *out = p.g;
    p.g = NULL;
out:
    cr_graph_release(p.g);
    cr_env_release(p.env);
    cr_arena_dispose(&p.scratch);
    return status;
}
