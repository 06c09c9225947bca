/* formula_parse.c: text to tree and back (formula.h). A hand-written recursive descent with one token of lookahead;
 * operators by precedence climbing over the table in the header. Every node knows its depth, and none is made deeper
 * than CR_FORMULA_MAX_DEPTH: long chains like a + a + a are counted as well, so that later walks may recurse. */
#include "ops/formula.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef enum token_kind { END, NAME, INTEGER, FLOATING, STRING, SYMBOL, BAD } token_kind;

/* Longest first: the lexer takes the first that fits. */
static const char *const symbols[] = { "::", "==", "!=", "<=", ">=", "<<", ">>", "//", "+", "-",
                                       "*",  "/",  "%",  "^",  "<",  ">",  "=",  "&",  "|", "!",
                                       "~",  "?",  ":",  ";",  ",",  ".",  "(",  ")",  "[", "]" };
static const char *const reserved[] = { "let", "none", "true", "false", "inf", "nan", "pi",
                                        "and", "or",   "is",   "not",   "for", "in" };

static const struct {
    const char *text;
    int precedence;
} kinds[CR_F_KIND_COUNT] = { [CR_F_NAME] = { "a name", CR_FORMULA_POSTFIX_PRECEDENCE },
                             [CR_F_INT] = { "an integer", CR_FORMULA_POSTFIX_PRECEDENCE },
                             [CR_F_FLOAT] = { "a number", CR_FORMULA_POSTFIX_PRECEDENCE },
                             [CR_F_BOOL] = { "a truth value", CR_FORMULA_POSTFIX_PRECEDENCE },
                             [CR_F_STR] = { "a string", CR_FORMULA_POSTFIX_PRECEDENCE },
                             [CR_F_NONE] = { "none", CR_FORMULA_POSTFIX_PRECEDENCE },
                             [CR_F_LIST] = { "a list", CR_FORMULA_POSTFIX_PRECEDENCE },
                             [CR_F_FOR] = { "for", CR_FORMULA_POSTFIX_PRECEDENCE },
                             [CR_F_CALL] = { "a call", CR_FORMULA_POSTFIX_PRECEDENCE },
                             [CR_F_INDEX] = { "[]", CR_FORMULA_POSTFIX_PRECEDENCE },
                             [CR_F_SLICE] = { "[:]", CR_FORMULA_POSTFIX_PRECEDENCE },
                             [CR_F_TERNARY] = { "?:", CR_FORMULA_TERNARY_PRECEDENCE },
                             [CR_F_IS_NONE] = { "is none", CR_FORMULA_COMPARE_PRECEDENCE },
                             [CR_F_IS_NOT_NONE] = { "is not none", CR_FORMULA_COMPARE_PRECEDENCE },
#define X(id, text) [CR_F_##id] = { text, CR_FORMULA_UNARY_PRECEDENCE },
                             CR_FORMULA_UNARY(X)
#undef X
#define X(id, text, precedence) [CR_F_##id] = { text, precedence },
                                 CR_FORMULA_BINARY(X)
#undef X
};
const char *cr_fkind_text(int kind) { return kind >= 0 && kind < CR_F_KIND_COUNT ? kinds[kind].text : "?"; }
int cr_fkind_precedence(int kind) {
    return kind >= 0 && kind < CR_F_KIND_COUNT ? kinds[kind].precedence : CR_FORMULA_POSTFIX_PRECEDENCE;
}

cr_status cr_formula_fail(const char *what, const char *text, uint32_t at, const char *format, ...) {
    char message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    int line, column;
    cr_text_position(text, text + at, &line, &column);
    return CR_FAIL(CR_EFORMAT, "%s %d:%d: %s", what ? what : "formula", line, column, message);
}

typedef struct parser {
    cr_arena *arena;
    const char *text;
    uint32_t size;
    token_kind kind; /* of the token at hand: text[at .. at + len) */
    uint32_t at, len;
    int nesting; /* of the descent itself: parentheses make no node */
} parser;
typedef CR_VEC(const cr_fnode *) node_vec;
typedef CR_VEC(const char *) name_vec;

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static void next(parser *p) {
    const char *s = p->text;
    uint32_t i = p->at + p->len;
    while (s[i] == ' ' || s[i] == '\n' || s[i] == '\t' || s[i] == '\r') i++;
    uint32_t start = i;
    p->at = start;
    if (!s[i]) {
        p->kind = END;
    } else if (is_letter(s[i])) {
        while (is_letter(s[i]) || is_digit(s[i])) i++;
        p->kind = NAME;
    } else if (is_digit(s[i]) || (s[i] == '.' && is_digit(s[i + 1]))) {
        p->kind = INTEGER;
        while (is_digit(s[i])) i++;
        if (s[i] == '.') {
            p->kind = FLOATING;
            for (i++; is_digit(s[i]);) i++;
        }
        if (s[i] == 'e' || s[i] == 'E') {
            uint32_t e = i + 1;
            if (s[e] == '+' || s[e] == '-') e++;
            if (is_digit(s[e])) {
                p->kind = FLOATING;
                for (i = e; is_digit(s[i]);) i++;
            }
        }
        if (is_letter(s[i])) p->kind = BAD, i++;
    } else if (s[i] == '"' || s[i] == '\'') {
        char quote = s[i];
        for (i++; s[i] && s[i] != quote && s[i] != '\\' && (unsigned char)s[i] >= ' ';) i++;
        p->kind = s[i] == quote ? STRING : BAD;
        if (s[i] == quote) i++;
    } else {
        p->kind = BAD;
        i++;
        for (size_t k = 0; k < CR_COUNT(symbols); k++)
            if (!strncmp(s + start, symbols[k], strlen(symbols[k]))) {
                p->kind = SYMBOL;
                i = start + (uint32_t)strlen(symbols[k]);
                break;
            }
    }
    p->len = i - start;
}

static bool at_text(const parser *p, const char *text) {
    return (p->kind == SYMBOL || p->kind == NAME) && p->len == strlen(text) && !memcmp(p->text + p->at, text, p->len);
}
static bool accept(parser *p, const char *text) {
    if (!at_text(p, text)) return false;
    next(p);
    return true;
}
static bool is_reserved(const char *s, size_t len) {
    for (size_t i = 0; i < CR_COUNT(reserved); i++)
        if (strlen(reserved[i]) == len && !memcmp(reserved[i], s, len)) return true;
    return false;
}
static bool at_name(const parser *p) { return p->kind == NAME && !is_reserved(p->text + p->at, p->len); }

static cr_status unexpected(const parser *p, const char *wanted) {
    if (p->kind == END) return cr_formula_fail(NULL, p->text, p->at, "expected %s, found the end of the text", wanted);
    if (p->kind == BAD && (p->text[p->at] == '"' || p->text[p->at] == '\''))
        return cr_formula_fail(NULL, p->text, p->at,
                               "this string does not end before a line end or backslash (there are no escapes)");
    /* Bytes of a broken token may be no UTF-8, and messages become Python strings. */
    unsigned char first = (unsigned char)p->text[p->at];
    if (p->kind == BAD && (first < ' ' || first > '~'))
        return cr_formula_fail(NULL, p->text, p->at, "expected %s, found the byte 0x%02x", wanted, first);
    if (p->kind == STRING) return cr_formula_fail(NULL, p->text, p->at, "expected %s, found a string", wanted);
    return cr_formula_fail(NULL, p->text, p->at, "expected %s, found '%.*s'", wanted, (int)CR_MIN(p->len, 60),
                           p->text + p->at);
}
static cr_status expect(parser *p, const char *text, const char *wanted) {
    return accept(p, text) ? CR_OK : unexpected(p, wanted);
}

static cr_status take_name(parser *p, const char *wanted, const char **out) {
    if (!at_name(p)) return unexpected(p, wanted);
    *out = cr_arena_strndup(p->arena, p->text + p->at, p->len);
    if (!*out) return CR_ENOMEM;
    next(p);
    return CR_OK;
}

static cr_status node_new(parser *p, cr_fkind kind, uint32_t at, const cr_fnode *const *kids, size_t nkids,
                          cr_fnode **out) {
    int depth = 0;
    for (size_t i = 0; i < nkids; i++)
        if (kids[i]) depth = CR_MAX(depth, kids[i]->depth);
    if (depth >= CR_FORMULA_MAX_DEPTH)
        return cr_formula_fail(NULL, p->text, at, "this is nested more than %d deep; name a part with `let`",
                               CR_FORMULA_MAX_DEPTH);
    if (nkids > UINT16_MAX) return cr_formula_fail(NULL, p->text, at, "more than %d entries", UINT16_MAX);
    cr_fnode *node = cr_arena_calloc(p->arena, 1, sizeof *node);
    if (!node) return CR_ENOMEM;
    node->kind = (uint8_t)kind;
    node->depth = (uint8_t)(depth + 1);
    node->at = at;
    node->nkids = (uint16_t)nkids;
    if (nkids && !(node->kids = cr_arena_copy(p->arena, kids, nkids * sizeof *kids))) return CR_ENOMEM;
    *out = node;
    return CR_OK;
}

static cr_status parse_expr(parser *p, const cr_fnode **out);

static cr_status parse_number(parser *p, cr_fnode **out) {
    bool integer = p->kind == INTEGER;
    CR_TRY(node_new(p, integer ? CR_F_INT : CR_F_FLOAT, p->at, NULL, 0, out));
    char *digits = cr_arena_strndup(p->arena, p->text + p->at, p->len), *end;
    if (!digits) return CR_ENOMEM;
    errno = 0;
    if (integer) (*out)->u.i = strtoll(digits, &end, 10);
    else (*out)->u.f = strtod(digits, &end);
    if (integer ? errno == ERANGE : isinf((*out)->u.f))
        return cr_formula_fail(NULL, p->text, p->at, "this number is too large");
    next(p);
    return CR_OK;
}

static const struct { const char *text; cr_fkind kind; int64_t i; double f; } constants[] = {
    { "none", CR_F_NONE, 0, 0 },       { "true", CR_F_BOOL, 1, 0 },   { "false", CR_F_BOOL, 0, 0 },
    { "inf", CR_F_FLOAT, 0, INFINITY }, { "nan", CR_F_FLOAT, 0, NAN }, { "pi", CR_F_FLOAT, 0, 3.14159265358979323846 },
};

/* After "[": entries, or one comprehension. */
static cr_status parse_list(parser *p, uint32_t at, cr_fnode **out) {
    node_vec kids = { 0 };
    cr_status status = CR_OK;
    while (!at_text(p, "]")) {
        const cr_fnode *kid;
        CR_TRY_OUT(parse_expr(p, &kid));
        if (!kids.n && accept(p, "for")) {
            const char *name;
            const cr_fnode *pair[2] = { kid };
            CR_TRY_OUT(take_name(p, "a name after 'for'", &name));
            CR_TRY_OUT(expect(p, "in", "'in'"));
            CR_TRY_OUT(parse_expr(p, &pair[1]));
            CR_TRY_OUT(expect(p, "]", "']'"));
            CR_TRY_OUT(node_new(p, CR_F_FOR, at, pair, 2, out));
            (*out)->name = name;
            goto out;
        }
        CR_TRY_OUT(cr_vec_push(&kids, kid));
        if (!accept(p, ",")) break;
    }
    CR_TRY_OUT(expect(p, "]", "',' or ']'"));
    CR_TRY_OUT(node_new(p, CR_F_LIST, at, kids.at, kids.n, out));
out:
    cr_vec_dispose(&kids);
    return status;
}

/* After "(": arguments, those with a keyword last. */
static cr_status parse_call(parser *p, uint32_t at, cr_fnode **out) {
    node_vec kids = { 0 };
    name_vec keywords = { 0 };
    bool named = false;
    cr_status status = CR_OK;
    while (!at_text(p, ")")) {
        const char *keyword = NULL;
        const cr_fnode *kid;
        parser before = *p;
        if (at_name(p)) {
            next(p);
            bool is_keyword = at_text(p, "=");
            *p = before;
            if (is_keyword) {
                CR_TRY_OUT(take_name(p, "a name", &keyword));
                next(p);
            }
        }
        if (named && !keyword) {
            status = cr_formula_fail(NULL, p->text, p->at,
                                     "expected a keyword argument (name=...) after the earlier ones");
            goto out;
        }
        for (size_t i = 0; keyword && i < keywords.n; i++)
            if (keywords.at[i] && !strcmp(keywords.at[i], keyword)) {
                status = cr_formula_fail(NULL, p->text, before.at, "argument '%s' is given twice", keyword);
                goto out;
            }
        named = keyword != NULL;
        CR_TRY_OUT(parse_expr(p, &kid));
        CR_TRY_OUT(cr_vec_push(&kids, kid));
        CR_TRY_OUT(cr_vec_push(&keywords, keyword));
        if (!accept(p, ",")) break;
    }
    CR_TRY_OUT(expect(p, ")", "',' or ')'"));
    CR_TRY_OUT(node_new(p, CR_F_CALL, at, kids.at, kids.n, out));
    if (kids.n && !((*out)->keywords = cr_arena_copy(p->arena, keywords.at, kids.n * sizeof *keywords.at)))
        status = CR_ENOMEM;
out:
    cr_vec_dispose(&kids);
    cr_vec_dispose(&keywords);
    return status;
}

static cr_status parse_primary(parser *p, cr_fnode **out) {
    uint32_t at = p->at;
    if (p->kind == INTEGER || p->kind == FLOATING) return parse_number(p, out);
    if (p->kind == STRING) {
        CR_TRY(node_new(p, CR_F_STR, at, NULL, 0, out));
        if (!((*out)->name = cr_arena_strndup(p->arena, p->text + at + 1, p->len - 2))) return CR_ENOMEM;
        next(p);
        return CR_OK;
    }
    for (size_t i = 0; i < CR_COUNT(constants); i++) {
        if (!accept(p, constants[i].text)) continue;
        CR_TRY(node_new(p, constants[i].kind, at, NULL, 0, out));
        if (constants[i].kind == CR_F_FLOAT) (*out)->u.f = constants[i].f;
        else (*out)->u.i = constants[i].i;
        return CR_OK;
    }
    if (accept(p, "[")) return parse_list(p, at, out);
    if (accept(p, "(")) {
        const cr_fnode *inner;
        CR_TRY(parse_expr(p, &inner));
        CR_TRY(expect(p, ")", "')'"));
        *out = (cr_fnode *)inner; /* fresh from this parser: still ours to extend */
        return CR_OK;
    }
    if (!at_name(p)) return unexpected(p, "an expression");
    const char *ns = NULL, *name, *overload = NULL;
    CR_TRY(take_name(p, "a name", &name));
    if (accept(p, "::")) {
        ns = name;
        CR_TRY(take_name(p, "an op's name after '::'", &name));
    }
    if (accept(p, ".")) CR_TRY(take_name(p, "an overload's name after '.'", &overload));
    if (accept(p, "(")) CR_TRY(parse_call(p, at, out));
    else if (ns || overload) return unexpected(p, "'(' after an op's name");
    else CR_TRY(node_new(p, CR_F_NAME, at, NULL, 0, out));
    (*out)->ns = ns;
    (*out)->name = name;
    (*out)->overload = overload;
    return CR_OK;
}

static cr_status parse_postfix(parser *p, const cr_fnode **out) {
    cr_fnode *node;
    CR_TRY(parse_primary(p, &node));
    for (uint32_t at = p->at; accept(p, "["); at = p->at) {
        const cr_fnode *kids[3] = { node, NULL, NULL };
        if (!at_text(p, ":")) CR_TRY(parse_expr(p, &kids[1]));
        bool slice = accept(p, ":");
        if (slice && !at_text(p, "]")) CR_TRY(parse_expr(p, &kids[2]));
        CR_TRY(expect(p, "]", slice ? "']'" : "':' or ']'"));
        CR_TRY(node_new(p, slice ? CR_F_SLICE : CR_F_INDEX, at, kids, slice ? 3 : 2, &node));
    }
    *out = node;
    return CR_OK;
}

static int binary_at(const parser *p) {
    static const struct { const char *text; cr_fkind kind; } operators[] = {
#define X(id, text, precedence) { text, CR_F_##id },
        CR_FORMULA_BINARY(X)
#undef X
    };
    for (size_t i = 0; i < CR_COUNT(operators); i++)
        if (at_text(p, operators[i].text)) return operators[i].kind;
    return -1;
}

static cr_status parse_binary(parser *p, int lowest, const cr_fnode **out);

static cr_status parse_unary(parser *p, const cr_fnode **out) {
    static const struct { const char *text; cr_fkind kind; } prefixes[] = {
#define X(id, text) { text, CR_F_##id },
        CR_FORMULA_UNARY(X)
#undef X
    };
    uint32_t at = p->at;
    for (size_t i = 0; i < CR_COUNT(prefixes); i++) {
        if (!accept(p, prefixes[i].text)) continue;
        const cr_fnode *kid;
        cr_fnode *node;
        if (++p->nesting > CR_FORMULA_MAX_DEPTH)
            return cr_formula_fail(NULL, p->text, at, "more than %d nested operators", CR_FORMULA_MAX_DEPTH);
        CR_TRY(parse_unary(p, &kid));
        p->nesting--;
        CR_TRY(node_new(p, prefixes[i].kind, at, &kid, 1, &node));
        *out = node;
        return CR_OK;
    }
    CR_TRY(parse_postfix(p, out));
    at = p->at;
    if (accept(p, "^")) { /* its right side is a unary: 2^-x, and a^b^c is a^(b^c) */
        const cr_fnode *kids[2] = { *out, NULL };
        cr_fnode *node;
        if (++p->nesting > CR_FORMULA_MAX_DEPTH)
            return cr_formula_fail(NULL, p->text, at, "more than %d nested operators", CR_FORMULA_MAX_DEPTH);
        CR_TRY(parse_unary(p, &kids[1]));
        p->nesting--;
        CR_TRY(node_new(p, CR_F_POW, at, kids, 2, &node));
        *out = node;
    }
    return CR_OK;
}

static cr_status parse_binary(parser *p, int lowest, const cr_fnode **out) {
    CR_TRY(parse_unary(p, out));
    bool compared = false;
    for (;;) {
        uint32_t at = p->at;
        cr_fnode *node;
        if (lowest <= CR_FORMULA_COMPARE_PRECEDENCE && at_text(p, "is")) {
            if (compared) return cr_formula_fail(NULL, p->text, at, "comparisons do not chain; write a < b and b < c");
            next(p);
            bool not = accept(p, "not");
            CR_TRY(expect(p, "none", not ? "'none' after 'is not'" : "'none' or 'not none' after 'is'"));
            CR_TRY(node_new(p, not ? CR_F_IS_NOT_NONE : CR_F_IS_NONE, at, out, 1, &node));
            *out = node;
            compared = true;
            continue;
        }
        int kind = binary_at(p);
        if (kind < 0 || kinds[kind].precedence < lowest) return CR_OK;
        if (compared && kinds[kind].precedence > CR_FORMULA_COMPARE_PRECEDENCE)
            return unexpected(p, "parentheses around the comparison");
        if (cr_fkind_is_compare(kind)) {
            if (compared) return cr_formula_fail(NULL, p->text, at, "comparisons do not chain; write a < b and b < c");
            compared = true;
        } else if (kinds[kind].precedence < CR_FORMULA_COMPARE_PRECEDENCE) {
            compared = false;
        }
        next(p);
        const cr_fnode *kids[2] = { *out, NULL };
        CR_TRY(parse_binary(p, kinds[kind].precedence + 1, &kids[1]));
        CR_TRY(node_new(p, (cr_fkind)kind, at, kids, 2, &node));
        *out = node;
    }
}

static cr_status parse_expr(parser *p, const cr_fnode **out) {
    if (++p->nesting > CR_FORMULA_MAX_DEPTH)
        return cr_formula_fail(NULL, p->text, p->at, "this is nested more than %d deep; name a part with `let`",
                               CR_FORMULA_MAX_DEPTH);
    CR_TRY(parse_binary(p, CR_FORMULA_TERNARY_PRECEDENCE + 1, out));
    uint32_t at = p->at;
    if (accept(p, "?")) {
        const cr_fnode *kids[3] = { *out, NULL, NULL };
        cr_fnode *node;
        CR_TRY(parse_expr(p, &kids[1]));
        CR_TRY(expect(p, ":", "':' of this '?'"));
        CR_TRY(parse_expr(p, &kids[2]));
        CR_TRY(node_new(p, CR_F_TERNARY, at, kids, 3, &node));
        *out = node;
    }
    p->nesting--;
    return CR_OK;
}

static cr_status parse_names(parser *p, const char *wanted, name_vec *names) {
    do {
        const char *name;
        uint32_t at = p->at;
        CR_TRY(take_name(p, wanted, &name));
        for (size_t i = 0; i < names->n; i++)
            if (!strcmp(names->at[i], name))
                return cr_formula_fail(NULL, p->text, at, "'%s' is named twice here", name);
        CR_TRY(cr_vec_push(names, name));
    } while (accept(p, ","));
    return CR_OK;
}

static cr_status parse_statement(parser *p, cr_formula_column column, cr_fstatement *out) {
    name_vec names = { 0 };
    node_vec values = { 0 };
    cr_status status = CR_OK;
    *out = (cr_fstatement){ .at = p->at };
    if (accept(p, "let")) {
        out->kind = CR_FS_LET;
        CR_TRY_OUT(parse_names(p, "a name after 'let'", &names));
        CR_TRY_OUT(expect(p, "=", "'='"));
    } else if (column == CR_FORMULA_GRAD && at_text(p, "not_differentiable")) {
        out->kind = CR_FS_CONSTANT;
        next(p);
        if (accept(p, ":")) CR_TRY_OUT(parse_names(p, "a result", &names));
        goto store;
    } else if (column == CR_FORMULA_GRAD) {
        out->kind = CR_FS_CLAUSE;
        CR_TRY_OUT(parse_names(p, "an argument's name or 'let'", &names));
        CR_TRY_OUT(expect(p, ":", "':' after the arguments a derivative is for"));
    } else {
        out->kind = CR_FS_RESULT;
    }
    do {
        const cr_fnode *value;
        CR_TRY_OUT(parse_expr(p, &value));
        CR_TRY_OUT(cr_vec_push(&values, value));
    } while (out->kind != CR_FS_LET && accept(p, ","));
    if (out->kind == CR_FS_CLAUSE && values.n > 1 && values.n != names.n) {
        status = cr_formula_fail(NULL, p->text, out->at,
                                 "%zu names get %zu values; give one each, or one call with %zu results", names.n,
                                 values.n, names.n);
        goto out;
    }
store:
    if (names.n > UINT16_MAX || values.n > UINT16_MAX) {
        status = cr_formula_fail(NULL, p->text, out->at, "more than %d entries", UINT16_MAX);
        goto out;
    }
    out->nnames = (uint16_t)names.n;
    out->nvalues = (uint16_t)values.n;
    if ((names.n && !(out->names = cr_arena_copy(p->arena, names.at, names.n * sizeof *names.at))) ||
        (values.n && !(out->values = cr_arena_copy(p->arena, values.at, values.n * sizeof *values.at))))
        status = CR_ENOMEM;
out:
    cr_vec_dispose(&names);
    cr_vec_dispose(&values);
    return status;
}

cr_status cr_formula_parse(cr_arena *arena, const char *text, cr_formula_column column, cr_formula *out) {
    size_t size = strlen(text);
    if (size > CR_FORMULA_MAX_TEXT)
        return CR_FAIL(CR_EFORMAT, "formula 1:1: the text has %zu bytes, at most %d are read", size,
                       CR_FORMULA_MAX_TEXT);
    const char *copy = cr_arena_strdup(arena, text);
    if (!copy) return CR_ENOMEM;
    parser p = { .arena = arena, .text = copy, .size = (uint32_t)size };
    CR_VEC(cr_fstatement) statements = { 0 };
    cr_status status = CR_OK;
    next(&p);
    while (p.kind != END) {
        cr_fstatement statement;
        CR_TRY_OUT(parse_statement(&p, column, &statement));
        CR_TRY_OUT(cr_vec_push(&statements, statement));
        if (statement.kind == CR_FS_RESULT) {
            accept(&p, ";");
            if (p.kind != END) {
                status = unexpected(&p, "the end after the result");
                goto out;
            }
        } else if (!accept(&p, ";") && p.kind != END) {
            status = unexpected(&p, "';' or an operator");
            goto out;
        }
    }
    if (column != CR_FORMULA_GRAD && (!statements.n || statements.at[statements.n - 1].kind != CR_FS_RESULT)) {
        status = unexpected(&p, "the result's expression");
        goto out;
    }
    cr_formula formula = { .column = column, .text = copy, .n = (uint16_t)statements.n };
    if (statements.n &&
        !(formula.statements = cr_arena_copy(arena, statements.at, statements.n * sizeof *statements.at))) {
        status = CR_ENOMEM;
        goto out;
    }
    *out = formula;
out:
    cr_vec_dispose(&statements);
    return status;
}

static void print_at(const cr_fnode *node, int lowest, cr_str *out) {
    int own = kinds[node->kind].precedence;
    bool parentheses = own < lowest;
    if (parentheses) cr_str_addc(out, '(');
    switch (node->kind) {
    case CR_F_NAME: cr_str_add(out, node->name); break;
    case CR_F_INT: cr_str_addf(out, "%lld", (long long)node->u.i); break;
    case CR_F_FLOAT: cr_str_add_double(out, node->u.f); break;
    case CR_F_BOOL: cr_str_add(out, node->u.i ? "true" : "false"); break;
    case CR_F_STR: {
        char quote = strchr(node->name, '\'') ? '"' : '\'';
        cr_str_addc(out, quote);
        cr_str_add(out, node->name);
        cr_str_addc(out, quote);
        break;
    }
    case CR_F_NONE: cr_str_add(out, "none"); break;
    case CR_F_LIST:
        cr_str_addc(out, '[');
        for (int i = 0; i < node->nkids; i++) {
            if (i) cr_str_add(out, ", ");
            print_at(node->kids[i], 0, out);
        }
        cr_str_addc(out, ']');
        break;
    case CR_F_FOR:
        cr_str_addc(out, '[');
        print_at(node->kids[0], 0, out);
        cr_str_addf(out, " for %s in ", node->name);
        print_at(node->kids[1], 0, out);
        cr_str_addc(out, ']');
        break;
    case CR_F_CALL:
        if (node->ns) cr_str_addf(out, "%s::", node->ns);
        cr_str_add(out, node->name);
        if (node->overload) cr_str_addf(out, ".%s", node->overload);
        cr_str_addc(out, '(');
        for (int i = 0; i < node->nkids; i++) {
            if (i) cr_str_add(out, ", ");
            if (node->keywords[i]) cr_str_addf(out, "%s=", node->keywords[i]);
            print_at(node->kids[i], 0, out);
        }
        cr_str_addc(out, ')');
        break;
    case CR_F_INDEX: case CR_F_SLICE:
        print_at(node->kids[0], CR_FORMULA_POSTFIX_PRECEDENCE, out);
        cr_str_addc(out, '[');
        if (node->kids[1]) print_at(node->kids[1], 0, out);
        if (node->kind == CR_F_SLICE) cr_str_addc(out, ':');
        if (node->kind == CR_F_SLICE && node->kids[2]) print_at(node->kids[2], 0, out);
        cr_str_addc(out, ']');
        break;
    case CR_F_TERNARY:
        print_at(node->kids[0], own + 1, out);
        cr_str_add(out, " ? ");
        print_at(node->kids[1], own, out);
        cr_str_add(out, " : ");
        print_at(node->kids[2], own, out);
        break;
    case CR_F_IS_NONE: case CR_F_IS_NOT_NONE:
        print_at(node->kids[0], own + 1, out);
        cr_str_addf(out, " %s", kinds[node->kind].text);
        break;
    case CR_F_POW:
        print_at(node->kids[0], own + 1, out);
        cr_str_addc(out, '^');
        print_at(node->kids[1], CR_FORMULA_UNARY_PRECEDENCE, out);
        break;
    default:
        if (cr_fkind_is_unary(node->kind)) {
            cr_str_add(out, kinds[node->kind].text);
            print_at(node->kids[0], own, out);
        } else {
            print_at(node->kids[0], cr_fkind_is_compare(node->kind) ? own + 1 : own, out);
            cr_str_addf(out, " %s ", kinds[node->kind].text);
            print_at(node->kids[1], own + 1, out);
        }
    }
    if (parentheses) cr_str_addc(out, ')');
}
void cr_fnode_print(const cr_fnode *node, cr_str *out) { print_at(node, 0, out); }

void cr_formula_print(const cr_formula *f, cr_str *out) {
    for (int i = 0; i < f->n; i++) {
        const cr_fstatement *s = &f->statements[i];
        if (i) cr_str_add(out, "; ");
        if (s->kind == CR_FS_LET) cr_str_add(out, "let ");
        if (s->kind == CR_FS_CONSTANT) cr_str_add(out, s->nnames ? "not_differentiable: " : "not_differentiable");
        for (int k = 0; k < s->nnames; k++) cr_str_addf(out, "%s%s", k ? ", " : "", s->names[k]);
        if (s->kind == CR_FS_LET) cr_str_add(out, " = ");
        if (s->kind == CR_FS_CLAUSE) cr_str_add(out, ": ");
        for (int k = 0; k < s->nvalues; k++) {
            if (k) cr_str_add(out, ", ");
            cr_fnode_print(s->values[k], out);
        }
    }
}

static bool same_text(const char *a, const char *b) { return a == b || (a && b && !strcmp(a, b)); }

bool cr_fnode_equal(const cr_fnode *a, const cr_fnode *b) {
    if (!a || !b) return a == b;
    if (a->kind != b->kind || a->nkids != b->nkids || !same_text(a->name, b->name) || !same_text(a->ns, b->ns) ||
        !same_text(a->overload, b->overload))
        return false;
    if ((a->kind == CR_F_INT || a->kind == CR_F_BOOL) && a->u.i != b->u.i) return false;
    if (a->kind == CR_F_FLOAT && a->u.f != b->u.f && !(isnan(a->u.f) && isnan(b->u.f))) return false;
    for (int i = 0; i < a->nkids; i++)
        if (!cr_fnode_equal(a->kids[i], b->kids[i]) || (a->keywords && !same_text(a->keywords[i], b->keywords[i])))
            return false;
    return true;
}

bool cr_formula_equal(const cr_formula *a, const cr_formula *b) {
    if (a->column != b->column || a->n != b->n) return false;
    for (int i = 0; i < a->n; i++) {
        const cr_fstatement *s = &a->statements[i], *t = &b->statements[i];
        if (s->kind != t->kind || s->nnames != t->nnames || s->nvalues != t->nvalues) return false;
        for (int k = 0; k < s->nnames; k++)
            if (strcmp(s->names[k], t->names[k])) return false;
        for (int k = 0; k < s->nvalues; k++)
            if (!cr_fnode_equal(s->values[k], t->values[k])) return false;
    }
    return true;
}
