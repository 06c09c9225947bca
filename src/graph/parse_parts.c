/* parse_parts.c: the parts of graph texts: words, strings, sizes, types, arguments. */
#include "graph/parse.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

enum { MAX_DEPTH = 64 }; /* of nested lists */

cr_status cr__parse_fail(graph_parser *p, const char *format, ...) {
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
cr_status cr__parse_fail_at(graph_parser *p, const char *at, cr_status status) {
    if (!status || status == CR_ENOMEM) return status;
    p->at = at;
    return cr__parse_fail(p, "%s", cr_error_message());
}

void cr__parse_skip(graph_parser *p) {
    for (;; p->at++) {
        if (*p->at == '#') p->at += strcspn(p->at, "\n");
        if (!*p->at || !isspace((unsigned char)*p->at)) return;
    }
}

bool cr__parse_name_char(char c) { return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80; }

/* A word does not match the beginning of a longer one. */
bool cr__parse_accept(graph_parser *p, const char *token) {
    cr__parse_skip(p);
    size_t n = strlen(token);
    if (strncmp(p->at, token, n)) return false;
    if (cr__parse_name_char(token[n - 1]) && cr__parse_name_char(p->at[n])) return false;
    p->at += n;
    return true;
}

cr_status cr__parse_expect(graph_parser *p, const char *token) {
    if (cr__parse_accept(p, token)) return CR_OK;
    if (!*p->at) return cr__parse_fail(p, "expected '%s', found the end", token);
    return cr__parse_fail(p, "expected '%s', found '%.*s'", token, (int)CR_MIN(strcspn(p->at, "\n"), 12), p->at);
}

cr_status cr__parse_name(graph_parser *p, char **out) {
    cr__parse_skip(p);
    const char *begin = p->at;
    while (cr__parse_name_char(*p->at)) p->at++;
    if (p->at == begin) return cr__parse_fail(p, "expected a name");
    *out = cr_arena_strndup(&p->scratch, begin, (size_t)(p->at - begin));
    return *out ? CR_OK : CR_ENOMEM;
}

static int hex(char c) {
    return isdigit((unsigned char)c)    ? c - '0'
           : isxdigit((unsigned char)c) ? (tolower((unsigned char)c) - 'a' + 10)
                                        : -1;
}

/* The inverse of cr_str_add_quoted. */
cr_status cr__parse_string(graph_parser *p, char **out, size_t *length) {
    CR_TRY(cr__parse_expect(p, "\""));
    const char *end = p->at;
    while (*end && *end != '"') end += *end == '\\' && end[1] ? 2 : 1;
    if (!*end) return cr__parse_fail(p, "unterminated string");
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
                if (hex(p->at[i]) < 0) return cr__parse_fail(p, "bad \\u escape");
                code = code * 16 + hex(p->at[i]);
            }
            if (code >= 0x80) return cr__parse_fail(p, "only control characters are escaped with \\u");
            *to++ = (char)code;
            p->at += 6;
        } else {
            return cr__parse_fail(p, "unknown escape '\\%c'", p->at[1]);
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
cr_status cr__parse_dim(graph_parser *p, cr_dim *out) {
    cr__parse_skip(p);
    char *end;
    errno = 0;
    long long plain = strtoll(p->at, &end, 10);
    const char *after = end;
    while (*after == ' ') after++;
    if (end != p->at && !errno && strchr(",])}\n", *after)) {
        if (plain < CR_DIM_TAG_LIMIT) return cr__parse_fail(p, "number out of range");
        p->at = end;
        *out = plain;
        return CR_OK;
    }
    const char *begin = p->at;
    int depth = 0;
    for (end = (char *)begin; *end && (depth || !strchr(",])}\n", *end)); end++)
        depth += *end == '(' ? 1 : *end == ')' ? -1 : 0;
    char *text = cr_arena_strndup(&p->scratch, begin, (size_t)(end - begin));
    if (!text) return CR_ENOMEM;
    cr_sym e = NULL;
    CR_TRY(cr__parse_fail_at(p, begin, cr_sym_parse(p->env, text, false, &e)));
    if (cr_sym_type_of(e) != CR_TYPE_INT) return cr__parse_fail(p, "a size is an integer");
    p->at = end;
    *out = cr_dim_of(p->env, e);
    if (*out != CR_DIM_OVERFLOW) return CR_OK;
    CR_TRY(cr__env_status(p->env));
    p->at = begin;
    return cr__parse_fail(p, "number out of range");
}

static cr_status read_dims(graph_parser *p, const char *close, int *n, cr_dim *out) {
    for (*n = 0; !cr__parse_accept(p, close); ++*n) {
        if (*n == CR_MAX_RANK) return cr__parse_fail(p, "more than %d dimensions", CR_MAX_RANK);
        if (*n) CR_TRY(cr__parse_expect(p, ","));
        CR_TRY(cr__parse_dim(p, &out[*n]));
    }
    return CR_OK;
}

/* ---- types ---- */

static cr_status find_value(graph_parser *p, const char *at, const char *name, uint32_t *out) {
    *out = cr_graph_find(p->g, name);
    if (*out != CR_NO_VALUE) return CR_OK;
    p->at = at;
    for (size_t i = 0; i < p->tuples.n; i++)
        if (!strcmp(p->tuples.at[i].name, name))
            return cr__parse_fail(p, "'%%%s' stands for several results; take one with _operator.getitem", name);
    return cr__parse_fail(p, "'%%%s' is not defined before its use", name);
}

static cr_status read_device_name(graph_parser *p, cr_device *out) {
    const char *begin = p->at;
    while (cr__parse_name_char(*p->at) || *p->at == ':') p->at++;
    char *device = cr_arena_strndup(&p->scratch, begin, (size_t)(p->at - begin));
    return device ? cr__parse_fail_at(p, begin, cr_device_parse(device, out)) : CR_ENOMEM;
}

static cr_status read_offset(graph_parser *p, cr_dim *out) {
    const char *begin = p->at;
    char *end;
    if (*p->at == '(') {
        p->at++;
        CR_TRY(cr__parse_dim(p, out));
        return cr__parse_expect(p, ")");
    }
    errno = 0;
    *out = strtoll(p->at, &end, 10);
    if (end == begin || errno || *out < 0)
        return cr__parse_fail(p, "an offset is a number from 0 on, or an expression in parentheses");
    p->at = end;
    return CR_OK;
}

cr_status cr__parse_meta(graph_parser *p, int dtype, cr_meta *m) {
    cr_meta_init(m, dtype, (cr_device){ CR_CPU, -1 });
    cr_dim size[CR_MAX_RANK];
    int rank, nstrides;
    cr__parse_skip(p);
    const char *begin = p->at;
    CR_TRY(cr__parse_expect(p, "["));
    CR_TRY(read_dims(p, "]", &rank, size));
    CR_TRY(cr__parse_fail_at(p, begin, cr_meta_set_dense(p->env, m, rank, size, CR_CONTIGUOUS)));
    CR_TRY(cr__env_status(p->env));
    if (*p->at == '(') {
        p->at++;
        CR_TRY(read_dims(p, ")", &nstrides, m->stride));
        if (nstrides != rank) return cr__parse_fail(p, "%d strides for %d sizes", nstrides, rank);
        for (int d = 0; d < rank; d++)
            if (cr_dim_is_plain(m->stride[d]) && m->stride[d] < 0)
                return cr__parse_fail(p, "negative stride %lld", (long long)m->stride[d]);
    }
    if (*p->at == '+') {
        p->at++;
        CR_TRY(read_offset(p, &m->offset));
    }
    if (*p->at == '@') {
        p->at++;
        CR_TRY(read_device_name(p, &m->device));
    }
    if (cr__parse_accept(p, "conj")) m->flags |= CR_META_CONJ;
    if (cr__parse_accept(p, "neg")) m->flags |= CR_META_NEG;
    m->storage = cr__fresh_storage();
    return CR_OK;
}

cr_status cr__parse_expr(graph_parser *p, const char *stop, cr_sym *out) {
    const char *begin = p->at;
    size_t n = strcspn(begin, stop);
    char *text = cr_arena_strndup(&p->scratch, begin, n);
    if (!text) return CR_ENOMEM;
    CR_TRY(cr__parse_fail_at(p, begin, cr_sym_parse(p->env, text, false, out)));
    p->at = begin + n;
    return CR_OK;
}

/* The storage of an earlier value, or of an earlier result of the same statement. */
static cr_status read_owner(graph_parser *p, const parser_results *r, cr_meta *meta) {
    char *owner;
    CR_TRY(cr__parse_expect(p, "%"));
    const char *begin = p->at;
    CR_TRY(cr__parse_name(p, &owner));
    const cr_value *value = NULL;
    for (size_t i = 0; r && i < r->n; i++)
        if (!strcmp(r->at[i].name, owner)) value = &r->at[i];
    uint32_t id = cr_graph_find(p->g, owner);
    if (!value && id != CR_NO_VALUE) value = p->g->values.at[id];
    if (value && value->meta && value->meta != meta) return meta->storage = value->meta->storage, CR_OK;
    p->at = begin;
    return cr__parse_fail(p, value ? "'%%%s' is not a tensor with a type" : "'%%%s' is not defined before its use",
                          owner);
}

cr_status cr__parse_type(graph_parser *p, const parser_results *r, cr_value *v) {
    static const struct { const char *name; cr_type type; } kinds[] = {
        { "tensor", CR_T_TENSOR }, { "int", CR_T_INT }, { "float", CR_T_FLOAT }, { "bool", CR_T_BOOL },
        { "number", CR_T_SCALAR }, { "str", CR_T_STR }, { "any", CR_T_ANY },
    };
    char *name;
    const char *begin = p->at;
    CR_TRY(cr__parse_name(p, &name));
    for (size_t i = 0; i < CR_COUNT(kinds); i++) {
        if (strcmp(kinds[i].name, name)) continue;
        v->type = (uint8_t)kinds[i].type;
        if (*p->at != '{') return CR_OK;
        p->at++;
        const char *open = p->at;
        CR_TRY(cr__parse_expr(p, "}\n", &v->expr));
        static const uint8_t types[] = {
            [CR_TYPE_INT] = CR_T_INT, [CR_TYPE_FLOAT] = CR_T_FLOAT, [CR_TYPE_BOOL] = CR_T_BOOL
        };
        if (types[cr_sym_type_of(v->expr)] == v->type) return cr__parse_expect(p, "}");
        p->at = open;
        return cr__parse_fail(p, "the expression is not of type '%s'", name);
    }
    int dtype;
    if (!cr_dtype_find(name, &dtype)) {
        p->at = begin;
        return cr__parse_fail(p, "'%.40s' is not a type", name);
    }
    cr_meta *meta = cr_arena_calloc(&p->scratch, 1, sizeof *meta);
    if (!meta) return CR_ENOMEM;
    CR_TRY(cr__parse_meta(p, dtype, meta));
    v->type = CR_T_TENSOR;
    v->meta = meta;
    return cr__parse_accept(p, "of") ? read_owner(p, r, meta) : CR_OK;
}

/* ---- arguments ---- */

cr_status cr__parse_args(graph_parser *p, const char *close, cr_arg **out, uint32_t *n) {
    cr_arg small[CR_LIMIT(16, 1)], *items = small;
    uint32_t cap = CR_COUNT(small);
    for (*n = 0; !cr__parse_accept(p, close); ++*n) {
        if (*n == CR__MAX_ITEMS) return cr__parse_fail(p, "a list of more than %d items", CR__MAX_ITEMS);
        if (*n) CR_TRY(cr__parse_expect(p, ","));
        if (*n == cap) {
            cr_arg *grown = cr_arena_alloc(&p->scratch, 2 * cap * sizeof *grown);
            if (!grown) return CR_ENOMEM;
            memcpy(grown, items, cap * sizeof *grown);
            items = grown;
            cap *= 2;
        }
        CR_TRY(cr__parse_arg(p, &items[*n]));
    }
    *out = cr_arena_copy(&p->scratch, items, *n * sizeof *items);
    return *out ? CR_OK : CR_ENOMEM;
}

static cr_status read_double(graph_parser *p, double *out) {
    char *end;
    cr__parse_skip(p);
    *out = cr_strtod(p->at, &end);
    if (end == p->at) return cr__parse_fail(p, "expected a number");
    p->at = end;
    return CR_OK;
}

/* `any`: also integers that a size could not be. */
cr_status cr__parse_number(graph_parser *p, bool any, cr_arg *out) {
    char *end_int, *end_float;
    errno = 0;
    long long i = strtoll(p->at, &end_int, 10);
    bool overflow = errno != 0;
    double f = cr_strtod(p->at, &end_float);
    if (end_float == p->at) return cr__parse_fail(p, "expected an argument");
    if (end_int == end_float) {
        if (overflow || (!any && i < CR_DIM_TAG_LIMIT)) return cr__parse_fail(p, "number out of range");
        *out = cr_arg_int(i);
    } else {
        *out = cr_arg_float(f);
    }
    p->at = end_float;
    return CR_OK;
}

cr_status cr__parse_complex(graph_parser *p, cr_arg *out) {
    double *c = cr_arena_alloc(&p->scratch, 2 * sizeof *c);
    if (!c) return CR_ENOMEM;
    CR_TRY(read_double(p, &c[0]));
    CR_TRY(cr__parse_expect(p, ","));
    CR_TRY(read_double(p, &c[1]));
    CR_TRY(cr__parse_expect(p, "j"));
    *out = (cr_arg){ .kind = CR_ARG_COMPLEX, .given = 1, .u.c = c };
    return cr__parse_expect(p, ")");
}

static cr_status read_device(graph_parser *p, cr_arg *out) {
    char *text;
    size_t n;
    CR_TRY(cr__parse_expect(p, "("));
    CR_TRY(cr__parse_string(p, &text, &n));
    CR_TRY(cr__parse_expect(p, ")"));
    *out = (cr_arg){ .kind = CR_ARG_DEVICE, .given = 1 };
    return cr__parse_fail_at(p, p->at, cr_device_parse(text, &out->u.device));
}

/* A bare word: a dtype, a memory format, a layout. */
static cr_status read_word(graph_parser *p, cr_arg *out) {
    static const char *const formats[] = { "contiguous_format", "preserve_format", "channels_last",
                                           "channels_last_3d" };
    char *name;
    int dtype;
    const char *begin = p->at;
    CR_TRY(cr__parse_name(p, &name));
    for (size_t i = 0; i < CR_COUNT(formats); i++)
        if (!strcmp(formats[i], name))
            return *out = (cr_arg){ .kind = CR_ARG_FORMAT, .given = 1, .u.i = (int64_t)i }, CR_OK;
    if (!strcmp(name, "strided")) return *out = (cr_arg){ .kind = CR_ARG_LAYOUT, .given = 1 }, CR_OK;
    if (!strcmp(name, "device")) return read_device(p, out);
    if (cr_dtype_find(name, &dtype)) return *out = cr_arg_dtype(dtype), CR_OK;
    p->at = begin;
    return cr__parse_fail(p, "unknown word '%.40s'; values start with '%%'", name);
}

static cr_status read_graph_ref(graph_parser *p, cr_arg *out) {
    char *name;
    CR_TRY(cr__parse_name(p, &name));
    for (size_t i = 0; i < cr_graph_subgraph_count(p->g); i++)
        if (!strcmp(cr_graph_name(cr_graph_subgraph(p->g, i)), name)) {
            *out = (cr_arg){ .kind = CR_ARG_GRAPH, .given = 1, .u.graph = cr_graph_subgraph(p->g, i) };
            return CR_OK;
        }
    return cr__parse_fail(p, "there is no graph '@%s' here", name);
}

cr_status cr__parse_arg(graph_parser *p, cr_arg *out) {
    cr__parse_skip(p);
    const char *begin = p->at;
    if (cr__parse_accept(p, "%")) {
        char *name;
        uint32_t value;
        CR_TRY(cr__parse_name(p, &name));
        CR_TRY(find_value(p, begin, name, &value));
        *out = (cr_arg){ .kind = CR_ARG_VALUE, .given = 1, .type = p->g->values.at[value]->type, .u.i = value };
        return CR_OK;
    }
    if (cr__parse_accept(p, "none")) return *out = cr_arg_none(), out->given = 1, CR_OK;
    if (cr__parse_accept(p, "true")) return *out = cr_arg_bool(true), CR_OK;
    if (cr__parse_accept(p, "false")) return *out = cr_arg_bool(false), CR_OK;
    if (cr__parse_accept(p, "@")) return read_graph_ref(p, out);
    if (cr__parse_accept(p, "(")) return cr__parse_complex(p, out);
    if (cr__parse_accept(p, "[")) {
        cr_arg *items;
        uint32_t n;
        if (++p->depth > MAX_DEPTH) return cr__parse_fail(p, "lists nested deeper than %d", MAX_DEPTH);
        CR_TRY(cr__parse_args(p, "]", &items, &n));
        p->depth--;
        return *out = cr_arg_list(items, n), CR_OK;
    }
    if (*p->at == '"') {
        char *text;
        size_t n;
        CR_TRY(cr__parse_string(p, &text, &n));
        *out = (cr_arg){ .kind = CR_ARG_STR, .given = 1, .n = (uint32_t)n, .u.s = text };
        return CR_OK;
    }
    bool number = isdigit((unsigned char)*p->at) || *p->at == '-' || *p->at == '.' || !strncmp(p->at, "inf", 3) ||
                  !strncmp(p->at, "nan", 3);
    return number ? cr__parse_number(p, false, out) : read_word(p, out);
}
