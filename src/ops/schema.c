/* schema.c: ATen schema text to a cr_schema, and back.
 *
 * One recursive-descent pass over text such as
 *     aten::max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)
 * Printing gives the very text that PyTorch prints for the same schema, so equal schemas have equal texts. */
#include "ops/op.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_LIST = 64 };

typedef struct reader {
    cr_arena *arena;
    const char *text, *at;
} reader;

static const struct { const char *name; cr_type type; bool symbolic; } types[] = {
    { "Tensor", CR_T_TENSOR, false },       { "Scalar", CR_T_SCALAR, false },        { "int", CR_T_INT, false },
    { "SymInt", CR_T_INT, true },           { "float", CR_T_FLOAT, false },          { "SymFloat", CR_T_FLOAT, true },
    { "bool", CR_T_BOOL, false },           { "SymBool", CR_T_BOOL, true },          { "str", CR_T_STR, false },
    { "ScalarType", CR_T_DTYPE, false },    { "Layout", CR_T_LAYOUT, false },        { "Device", CR_T_DEVICE, false },
    { "MemoryFormat", CR_T_FORMAT, false }, { "Generator", CR_T_GENERATOR, false },  { "Graph", CR_T_GRAPH, false },
    { "Any", CR_T_ANY, false },
};
static const char *const formats[] = { "contiguous_format", "preserve_format", "channels_last", "channels_last_3d" };

static cr_status fail(reader *r, const char *what) {
    int line, column;
    cr_text_position(r->text, r->at, &line, &column);
    return CR_FAIL(CR_EFORMAT, "schema %d:%d: %s in '%.200s'", line, column, what, r->text);
}

static void skip_space(reader *r) { while (*r->at == ' ' || *r->at == '\n' || *r->at == '\t') r->at++; }

static bool accept(reader *r, const char *token) {
    skip_space(r);
    size_t n = strlen(token);
    if (strncmp(r->at, token, n)) return false;
    r->at += n;
    return true;
}

static cr_status expect(reader *r, const char *token) {
    if (accept(r, token)) return CR_OK;
    char what[64];
    snprintf(what, sizeof what, "expected '%s'", token);
    return fail(r, what);
}

static bool name_char(char c) { return isalnum((unsigned char)c) || c == '_'; }

static cr_status read_name(reader *r, const char **out) {
    skip_space(r);
    const char *begin = r->at;
    while (name_char(*r->at)) r->at++;
    if (r->at == begin) return fail(r, "expected a name");
    *out = cr_arena_strndup(r->arena, begin, (size_t)(r->at - begin));
    return *out ? CR_OK : CR_ENOMEM;
}

/* (a), (a!), (a -> *), (a|b): what a value may share memory with. */
static cr_status read_alias(reader *r, cr_param *p) {
    if (!accept(r, "(")) return CR_OK;
    skip_space(r);
    if (!isalpha((unsigned char)*r->at) && *r->at != '*') return fail(r, "expected an alias set letter");
    p->alias = *r->at++;
    const char *also = r->at;
    while (*r->at == '|' && isalpha((unsigned char)r->at[1])) r->at += 2;
    if (r->at > also && !(p->alias_also = cr_arena_strndup(r->arena, also, (size_t)(r->at - also)))) return CR_ENOMEM;
    p->writes = accept(r, "!");
    if (accept(r, "->")) {
        CR_TRY(expect(r, "*"));
        p->alias_wild = true;
    }
    return expect(r, ")");
}

static cr_status read_type(reader *r, cr_param *p) {
    const char *name = NULL;
    CR_TRY(read_name(r, &name));
    size_t i = 0;
    while (i < CR_COUNT(types) && strcmp(types[i].name, name)) i++;
    if (i == CR_COUNT(types)) {
        r->at -= strlen(name);
        return fail(r, "unknown type");
    }
    p->type = (uint8_t)types[i].type;
    p->symbolic = types[i].symbolic;
    CR_TRY(read_alias(r, p));
    bool optional = accept(r, "?");
    if (accept(r, "[")) {
        p->list = true;
        p->item_optional = optional;
        skip_space(r);
        if (isdigit((unsigned char)*r->at)) {
            long size = strtol(r->at, (char **)&r->at, 10);
            if (size < 1 || size > MAX_LIST) return fail(r, "a list has a fixed size from 1 to 64, or none");
            p->list_size = (int32_t)size;
        }
        CR_TRY(expect(r, "]"));
        p->optional = accept(r, "?");
    } else {
        p->optional = optional;
    }
    return CR_OK;
}

static cr_status read_value(reader *r, cr_param *p, bool item, cr_arg *out);

static cr_status read_list(reader *r, cr_param *p, cr_arg *out) {
    cr_arg items[MAX_LIST];
    uint32_t n = 0;
    while (!accept(r, "]")) {
        if (n == CR_COUNT(items)) return fail(r, "default list is too long");
        if (n) CR_TRY(expect(r, ","));
        CR_TRY(read_value(r, p, true, &items[n++]));
    }
    cr_arg *copy = cr_arena_copy(r->arena, items, n * sizeof *items);
    if (!copy) return CR_ENOMEM;
    *out = (cr_arg){ .kind = CR_ARG_LIST, .n = n, .u.list = copy };
    return CR_OK;
}

/* int[2] stride=1 means [1, 1]. */
static cr_status spread(reader *r, const cr_param *p, cr_arg *value) {
    uint32_t n = p->list_size ? (uint32_t)p->list_size : 1;
    cr_arg *items = cr_arena_alloc(r->arena, n * sizeof *items);
    if (!items) return CR_ENOMEM;
    for (uint32_t i = 0; i < n; i++) items[i] = *value;
    *value = (cr_arg){ .kind = CR_ARG_LIST, .n = n, .u.list = items };
    return CR_OK;
}

static cr_status read_number(reader *r, cr_param *p, cr_arg *out) {
    char *end_int, *end_float;
    errno = 0;
    long long i = strtoll(r->at, &end_int, 10);
    double f = cr_strtod(r->at, &end_float);
    if (end_float == r->at) return fail(r, "expected a default value");
    bool integral = end_int == end_float && !errno;
    bool number = p->type == CR_T_FLOAT || p->type == CR_T_SCALAR || p->type == CR_T_ANY || p->type == CR_T_TENSOR;
    if (!integral && !number) return fail(r, "expected an integer");
    r->at = end_float;
    if (integral && p->type != CR_T_FLOAT) *out = (cr_arg){ .kind = CR_ARG_INT, .u.i = i };
    else *out = (cr_arg){ .kind = CR_ARG_FLOAT, .u.f = f };
    if (p->type == CR_T_FORMAT || p->type == CR_T_DTYPE || p->type == CR_T_LAYOUT)
        out->kind = (uint8_t)(p->type == CR_T_FORMAT  ? CR_ARG_FORMAT
                              : p->type == CR_T_DTYPE ? CR_ARG_DTYPE
                                                      : CR_ARG_LAYOUT);
    return CR_OK;
}

static const char escaped[] = "\n\t\f\v\"'\\", escapes[] = "ntfv\"'\\";

static cr_status read_string(reader *r, cr_arg *out) {
    char quote = *r->at++;
    size_t length = 0;
    while (r->at[length] && r->at[length] != quote) length += r->at[length] == '\\' && r->at[length + 1] ? 2 : 1;
    if (!r->at[length]) return fail(r, "unterminated string");
    const char *end = r->at + length;
    char *text = cr_arena_alloc(r->arena, length + 1), *to = text;
    if (!text) return CR_ENOMEM;
    while (r->at < end) {
        if (*r->at == '\\') {
            const char *known = strchr(escapes, *++r->at);
            if (!known || !*known) return fail(r, "unknown escape in a string");
            *to++ = escaped[known - escapes];
            r->at++;
        } else {
            *to++ = *r->at++;
        }
    }
    *to = 0;
    r->at = end + 1;
    *out = (cr_arg){ .kind = CR_ARG_STR, .n = (uint32_t)(to - text), .u.s = text };
    return CR_OK;
}

static void print_string(const char *text, size_t n, cr_str *out) {
    cr_str_addc(out, '"');
    for (size_t i = 0; i < n; i++) {
        const char *known = text[i] ? strchr(escaped, text[i]) : NULL;
        if (known) cr_str_addc(out, '\\');
        cr_str_addc(out, known ? escapes[known - escaped] : text[i]);
    }
    cr_str_addc(out, '"');
}

static cr_status read_value(reader *r, cr_param *p, bool item, cr_arg *out) {
    skip_space(r);
    if (accept(r, "None")) { *out = cr_arg_none(); return CR_OK; }
    if (!item && p->list && accept(r, "[")) return read_list(r, p, out);
    if (accept(r, "True")) *out = (cr_arg){ .kind = CR_ARG_BOOL, .u.i = 1 };
    else if (accept(r, "False")) *out = (cr_arg){ .kind = CR_ARG_BOOL, .u.i = 0 };
    else if (*r->at == '"' || *r->at == '\'') CR_TRY(read_string(r, out));
    else {
        size_t i = 0;
        while (p->type == CR_T_FORMAT && i < CR_COUNT(formats) && !accept(r, formats[i])) i++;
        if (p->type == CR_T_FORMAT && i < CR_COUNT(formats))
            *out = (cr_arg){ .kind = CR_ARG_FORMAT, .u.i = (int64_t)i };
        else CR_TRY(read_number(r, p, out));
    }
    return !item && p->list ? spread(r, p, out) : CR_OK;
}

static cr_status read_params(reader *r, cr_schema *s) {
    cr_param params[CR_MAX_PARAMS];
    uint16_t n = 0;
    bool keyword_only = false;
    s->npositional = 0;
    while (!accept(r, ")")) {
        if (n || keyword_only) CR_TRY(expect(r, ","));
        if (accept(r, "*")) {
            if (keyword_only) return fail(r, "only one '*' is possible");
            keyword_only = true;
            continue;
        }
        if (n == CR_MAX_PARAMS) return fail(r, "too many parameters");
        cr_param *p = &params[n];
        *p = (cr_param){ .keyword_only = keyword_only };
        CR_TRY(read_type(r, p));
        CR_TRY(read_name(r, &p->name));
        if (accept(r, "=")) {
            p->has_default = true;
            CR_TRY(read_value(r, p, false, &p->fallback));
        }
        n++;
        if (!keyword_only) s->npositional = n;
    }
    s->nparams = n;
    s->params = cr_arena_copy(r->arena, params, n * sizeof *params);
    return s->params ? CR_OK : CR_ENOMEM;
}

static cr_status read_return(reader *r, cr_param *p) {
    *p = (cr_param){ .name = "" };
    CR_TRY(read_type(r, p));
    skip_space(r);
    return name_char(*r->at) ? read_name(r, &p->name) : CR_OK;
}

static cr_status read_returns(reader *r, cr_schema *s) {
    cr_param returns[16];
    uint16_t n = 0;
    if (accept(r, "...")) {
        s->varargs_returns = true;
    } else if (accept(r, "(")) {
        while (!accept(r, ")")) {
            if (n) CR_TRY(expect(r, ","));
            if (n == CR_COUNT(returns)) return fail(r, "too many results");
            CR_TRY(read_return(r, &returns[n++]));
        }
    } else {
        CR_TRY(read_return(r, &returns[n++]));
    }
    s->nreturns = n;
    s->returns = cr_arena_copy(r->arena, returns, n * sizeof *returns);
    return s->returns ? CR_OK : CR_ENOMEM;
}

cr_status cr_schema_parse(cr_arena *arena, const char *text, cr_schema *out) {
    reader r = { arena, text, text };
    cr_schema s = { .overload = "" };
    CR_TRY(read_name(&r, &s.ns));
    CR_TRY(expect(&r, "::"));
    CR_TRY(read_name(&r, &s.name));
    if (accept(&r, ".")) CR_TRY(read_name(&r, &s.overload));
    CR_TRY(expect(&r, "("));
    CR_TRY(read_params(&r, &s));
    CR_TRY(expect(&r, "->"));
    CR_TRY(read_returns(&r, &s));
    skip_space(&r);
    if (*r.at) return fail(&r, "unexpected text after the schema");
    cr_str canonical;
    cr_str_init(&canonical);
    cr_schema_print(&s, &canonical);
    s.text = canonical.failed ? NULL : cr_arena_strdup(arena, cr_str_get(&canonical));
    cr_str_dispose(&canonical);
    if (!s.text) return CR_ENOMEM;
    *out = s;
    return CR_OK;
}

static void print_type(const cr_param *p, cr_str *out) {
    for (size_t i = 0; i < CR_COUNT(types); i++)
        if (types[i].type == p->type && types[i].symbolic == p->symbolic) cr_str_add(out, types[i].name);
    if (p->alias)
        cr_str_addf(out, "(%c%s%s%s)", p->alias, p->alias_also ? p->alias_also : "", p->writes ? "!" : "",
                    p->alias_wild ? " -> *" : "");
    if (p->item_optional) cr_str_addc(out, '?');
    if (p->list && p->list_size) cr_str_addf(out, "[%d]", p->list_size);
    else if (p->list) cr_str_add(out, "[]");
    if (p->optional) cr_str_addc(out, '?');
}

static void print_default(const cr_param *p, const cr_arg *a, cr_str *out) {
    if (a->kind == CR_ARG_LIST) {
        /* PyTorch prints a plain int[k] default of equal numbers as one number, a SymInt[k] one in full. */
        bool same = !p->symbolic && p->type == CR_T_INT && p->list_size > 1 && a->n == (uint32_t)p->list_size;
        for (uint32_t i = 1; same && i < a->n; i++) same = a->u.list[i].u.i == a->u.list[0].u.i;
        if (same) {
            print_default(p, &a->u.list[0], out);
            return;
        }
        cr_str_addc(out, '[');
        for (uint32_t i = 0; i < a->n; i++) {
            if (i) cr_str_add(out, ", ");
            print_default(p, &a->u.list[i], out);
        }
        cr_str_addc(out, ']');
    } else if (a->kind == CR_ARG_FLOAT) { /* as PyTorch: 17 digits, and "1." for an integral value */
        char text[32];
        snprintf(text, sizeof text, "%.17g", a->u.f);
        cr_str_add(out, text);
        if (!strpbrk(text, ".einf")) cr_str_addc(out, '.');
    }
    else if (a->kind == CR_ARG_BOOL) cr_str_add(out, a->u.i ? "True" : "False");
    else if (a->kind == CR_ARG_STR) print_string(a->u.s, a->n, out);
    else if (a->kind == CR_ARG_NONE) cr_str_add(out, "None");
    else cr_str_addf(out, "%lld", (long long)a->u.i);
}

void cr_schema_print(const cr_schema *s, cr_str *out) {
    cr_str_addf(out, "%s::%s%s%s(", s->ns, s->name, *s->overload ? "." : "", s->overload);
    bool star = false;
    for (uint16_t i = 0; i < s->nparams; i++) {
        const cr_param *p = &s->params[i];
        if (i) cr_str_add(out, ", ");
        if (p->keyword_only && !star) {
            cr_str_add(out, "*, ");
            star = true;
        }
        print_type(p, out);
        cr_str_addf(out, " %s", p->name);
        if (p->has_default) {
            cr_str_addc(out, '=');
            print_default(p, &p->fallback, out);
        }
    }
    cr_str_add(out, ") -> ");
    if (s->varargs_returns) {
        cr_str_add(out, "...");
        return;
    }
    if (s->nreturns != 1) cr_str_addc(out, '(');
    for (uint16_t i = 0; i < s->nreturns; i++) {
        if (i) cr_str_add(out, ", ");
        print_type(&s->returns[i], out);
        if (*s->returns[i].name) cr_str_addf(out, " %s", s->returns[i].name);
    }
    if (s->nreturns != 1) cr_str_addc(out, ')');
}
