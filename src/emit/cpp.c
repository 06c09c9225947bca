/* cpp.c: see cpp.h. */
#include "emit/cpp.h"

#include <ctype.h>
#include <stdlib.h>

void cr__cpp_init(cr_cpp *c) {
    *c = (cr_cpp){ 0 };
    cr_arena_init(&c->arena);
    cr_map_init(&c->macros);
}

void cr__cpp_dispose(cr_cpp *c) {
    for (size_t i = 0; i < c->all.n; i++) {
        cr_vec_dispose(&c->all.at[i]->params);
        cr_vec_dispose(&c->all.at[i]->body);
    }
    cr_vec_dispose(&c->all);
    cr_vec_dispose(&c->used);
    cr_map_dispose(&c->macros);
    cr_arena_dispose(&c->arena);
}

/* ---- tokens ---- */

const char *cr__skip_space(const char *a, const char *end) {
    while (a < end) {
        if (isspace((unsigned char)*a) || (*a == '\\' && a + 1 < end && a[1] == '\n')) a++;
        else if (a[0] == '/' && a + 1 < end && a[1] == '*') {
            for (a += 2; a < end && !(a[0] == '*' && a[1] == '/'); a++) {}
            a += 2;
        } else break;
    }
    return a < end ? a : end;
}

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

bool cr__token_next(const char **at, const char *end, cr_token *out) {
    const char *a = cr__skip_space(*at, end), *from = a;
    if (a >= end) return *at = end, false;
    if (is_word(*a)) {
        bool number = isdigit((unsigned char)*a);
        while (a < end &&
               (is_word(*a) || (number && *a == '.') ||
                (number && (*a == '+' || *a == '-') && strchr("eEpP", a[-1]) && from + 1 < a && from[1] != 'x')))
            a++;
        *out = (cr_token){ from, (uint32_t)(a - from), number ? '0' : 'w' };
    } else if (*a == '"' || *a == '\'') {
        for (a++; a < end && *a != *from; a++) a += *a == '\\';
        a += a < end;
        *out = (cr_token){ from, (uint32_t)(a - from), '"' };
    } else {
        bool paste = a + 1 < end && a[0] == '#' && a[1] == '#', arrow = a + 1 < end && a[0] == '-' && a[1] == '>';
        a += paste || arrow ? 2 : 1;
        *out = (cr_token){ from, (uint32_t)(a - from), paste ? 'P' : arrow ? '.' : *from };
    }
    return *at = a, true;
}

bool cr__token_is(const cr_token *t, const char *text) { return t->n == strlen(text) && !memcmp(t->at, text, t->n); }

static bool same_word(const cr_token *a, const cr_token *b) { return a->n == b->n && !memcmp(a->at, b->at, a->n); }

/* ---- definitions ---- */

cr_macro *cr__cpp_find(const cr_cpp *c, const cr_token *word) {
    uint64_t value;
    return cr_map_find(&c->macros, word->at, word->n, &value) ? (cr_macro *)(uintptr_t)value : NULL;
}

static cr_status read_params(cr_macro *m, const char **at, const char *end) {
    cr_token t;
    while (cr__token_next(at, end, &t) && t.kind != ')') {
        if (t.kind == 'w') CR_TRY(cr_vec_push(&m->params, t));
        if (t.kind != '.' || m->rest) continue;
        m->rest = true;
        CR_TRY(cr_vec_push(&m->params, ((cr_token){ "__VA_ARGS__", 11, 'w' })));
    }
    return CR_OK;
}

cr_status cr__cpp_define(cr_cpp *c, const char *at, const char *end, size_t item, bool maybe) {
    cr_token name, t;
    if (!cr__token_next(&at, end, &name)) return CR_OK;
    cr_macro *m = cr_arena_calloc(&c->arena, 1, sizeof *m);
    if (!m) return CR_ENOMEM;
    CR_TRY(cr_vec_push(&c->all, m));
    m->next = maybe ? cr__cpp_find(c, &name) : NULL;
    m->item = item, m->maybe = maybe;
    if (at < end && *at == '(') { /* without a space before it: parameters */
        m->takes = true;
        at++;
        CR_TRY(read_params(m, &at, end));
    }
    while (cr__token_next(&at, end, &t)) CR_TRY(cr_vec_push(&m->body, t));
    return cr_map_put(&c->macros, name.at, name.n, (uint64_t)(uintptr_t)m);
}

void cr__cpp_undef(cr_cpp *c, const cr_token *word) { cr_map_remove(&c->macros, word->at, word->n); }

/* ---- conditions: numbers, or UNKNOWN ---- */

enum { UNKNOWN = -1000000 };
typedef struct reader {
    const cr_cpp *c;
    const char *at, *end;
    cr_token t;
    bool more;
} reader;

static void advance(reader *r) { r->more = cr__token_next(&r->at, r->end, &r->t); }

/* Macros of the compiler. The file undefines one of them, and is C. */
static bool is_foreign(const cr_token *t) {
    return t->n > 2 && t->at[0] == '_' && t->at[1] == '_' && !cr__token_is(t, "__x86_64__") &&
           !cr__token_is(t, "__cplusplus");
}

static int is_defined(const reader *r, const cr_token *word) {
    const cr_macro *m = cr__cpp_find(r->c, word);
    return is_foreign(word) || (m && m->maybe) ? UNKNOWN : m != NULL;
}

static int value_of(const reader *r, const cr_token *word) {
    const cr_macro *m = cr__cpp_find(r->c, word);
    if (is_foreign(word) || (m && (m->maybe || m->next || m->body.n != 1 || m->body.at[0].kind != '0'))) return UNKNOWN;
    return m ? (int)strtol(m->body.at[0].at, NULL, 0) : 0;
}

static int either(reader *r);

static int primary(reader *r) {
    cr_token t = r->t;
    if (!r->more) return UNKNOWN;
    advance(r);
    if (t.kind == '!') {
        int x = primary(r);
        return x == UNKNOWN ? x : !x;
    }
    if (t.kind == '0') return (int)strtol(t.at, NULL, 0);
    if (t.kind == '(') {
        int x = either(r);
        advance(r);
        return x;
    }
    if (t.kind != 'w') return UNKNOWN;
    if (!cr__token_is(&t, "defined")) return value_of(r, &t);
    bool open = r->more && r->t.kind == '(';
    if (open) advance(r);
    int x = is_defined(r, &r->t);
    advance(r);
    if (open) advance(r);
    return x;
}

static bool takes_pair(reader *r, char sign) {
    if (!r->more || r->t.kind != sign || r->at >= r->end || *r->at != sign) return false;
    advance(r);
    advance(r);
    return true;
}

static int equal(reader *r) {
    int x = primary(r);
    if (!takes_pair(r, '=')) return x;
    int y = primary(r);
    return x == UNKNOWN || y == UNKNOWN ? UNKNOWN : x == y;
}

static int both(reader *r) {
    int x = equal(r);
    while (takes_pair(r, '&')) {
        int y = equal(r);
        x = x == 0 || y == 0 ? 0 : x == UNKNOWN || y == UNKNOWN ? UNKNOWN : 1;
    }
    return x;
}

static int either(reader *r) {
    int x = both(r);
    while (takes_pair(r, '|')) {
        int y = both(r);
        x = (x != UNKNOWN && x) || (y != UNKNOWN && y) ? 1 : x == UNKNOWN || y == UNKNOWN ? UNKNOWN : 0;
    }
    return x;
}

int cr__cpp_condition(const cr_cpp *c, const char *at, const char *end) {
    reader r = { .c = c, .at = at, .end = end };
    advance(&r);
    int x = either(&r);
    return x == UNKNOWN || r.more ? -1 : x != 0; /* something that is not understood is left to the compiler */
}

/* ---- expansion ---- */

enum { MOST_ARGS = 16 };
typedef struct span {
    const cr_token *at;
    size_t n;
} span;

/* The arguments of a call whose '(' is in[0]; the number of tokens with both brackets, 0: it does not end here. */
static size_t read_args(const cr_macro *m, const cr_token *in, size_t n, span *arg, size_t *nargs) {
    size_t i = 1, most = CR_MIN(m->params.n, (size_t)MOST_ARGS);
    int depth = 1;
    *nargs = 0;
    arg[0] = (span){ in + 1, 0 };
    for (; i < n; i++) {
        if (in[i].kind == '(') depth++;
        if (in[i].kind == ')' && !--depth) break;
        bool last = *nargs + 1 >= most;
        if (in[i].kind == ',' && depth == 1 && !last) arg[++*nargs] = (span){ in + i + 1, 0 };
        else arg[*nargs].n++;
    }
    if (i == n) return 0;
    ++*nargs;
    return i + 1;
}

static int param_of(const cr_macro *m, const cr_token *t) {
    for (size_t i = 0; t->kind == 'w' && i < m->params.n; i++)
        if (same_word(&m->params.at[i], t)) return (int)i;
    return -1;
}

static cr_status push_all(cr_tokens *out, const cr_token *at, size_t n) {
    for (size_t i = 0; i < n; i++) CR_TRY(cr_vec_push(out, at[i]));
    return CR_OK;
}

/* Joins the next operand of ## to the last token. */
static cr_status paste(cr_cpp *c, cr_tokens *out, const cr_token *at, size_t n) {
    cr_token *last = &out->at[out->n - 1];
    char *text = cr_arena_alloc(&c->arena, last->n + at->n + 1u);
    if (!text) return CR_ENOMEM;
    memcpy(text, last->at, last->n);
    memcpy(text + last->n, at->at, at->n);
    text[last->n + at->n] = 0;
    *last = (cr_token){ text, last->n + at->n, last->kind == 'w' || at->kind == 'w' ? 'w' : last->kind };
    if (isdigit((unsigned char)*text)) last->kind = '0';
    return push_all(out, at + 1, n - 1);
}

static cr_status substitute(cr_cpp *c, const cr_macro *m, const span *arg, size_t nargs, cr_tokens *out) {
    const cr_tokens *b = &m->body;
    bool joins = false; /* the last operand was there, and ## follows it */
    for (size_t i = 0; i < b->n; i++) {
        if (b->at[i].kind == 'P') continue;
        if (b->at[i].kind == '#' && m->takes && i + 1 < b->n && param_of(m, &b->at[i + 1]) >= 0) {
            CR_TRY(cr_vec_push(out, ((cr_token){ "\"\"", 2, '"' })));
            i++;
            continue;
        }
        bool before = i && b->at[i - 1].kind == 'P', after = i + 1 < b->n && b->at[i + 1].kind == 'P';
        int p = param_of(m, &b->at[i]);
        span operand = p < 0 ? (span){ &b->at[i], 1 } : (size_t)p < nargs ? arg[p] : (span){ NULL, 0 };
        if (before && joins && operand.n) CR_TRY(paste(c, out, operand.at, operand.n));
        else if (p >= 0 && !before && !after) CR_TRY(cr__cpp_expand(c, operand.at, operand.n, out));
        else CR_TRY(push_all(out, operand.at, operand.n));
        joins = operand.n || (before && joins);
    }
    return CR_OK;
}

static cr_status note_use(cr_cpp *c, const cr_macro *m) {
    for (; m; m = m->next) CR_TRY(cr_vec_push(&c->used, m->item));
    return CR_OK;
}

/* The call of m at in[0]; *taken: its tokens. */
static cr_status expand_call(cr_cpp *c, cr_macro *m, const cr_token *in, size_t n, cr_tokens *out, size_t *taken) {
    span arg[MOST_ARGS];
    size_t nargs = 0, brackets = m->takes ? read_args(m, in + 1, n - 1, arg, &nargs) : 0;
    *taken = 1 + brackets;
    if (m->takes && !brackets) return cr_vec_push(out, *in);
    cr_tokens body = { 0 };
    cr_status status = note_use(c, m);
    if (!status) status = substitute(c, m, arg, nargs, &body);
    m->busy = true;
    if (!status) status = cr__cpp_expand(c, body.at, body.n, out);
    m->busy = false;
    cr_vec_dispose(&body);
    return status;
}

static cr_macro *callable(const cr_cpp *c, const cr_token *in, size_t n) {
    cr_macro *m = n && in->kind == 'w' ? cr__cpp_find(c, in) : NULL;
    return !m || m->busy || (m->takes && !(n > 1 && in[1].kind == '(')) ? NULL : m;
}

/* An expansion that ends in the name of a macro, whose arguments stand behind it. */
static cr_status expand_tail(cr_cpp *c, const cr_token *in, size_t n, cr_tokens *out, size_t *taken) {
    cr_macro *m = out->n && out->at[out->n - 1].kind == 'w' && n && in->kind == '('
                      ? cr__cpp_find(c, &out->at[out->n - 1])
                      : NULL;
    *taken = 0;
    if (!m || m->busy || !m->takes) return CR_OK;
    cr_tokens call = { 0 };
    cr_status status = cr_vec_push(&call, out->at[out->n - 1]);
    if (!status) status = push_all(&call, in, n);
    if (!status) {
        out->n--;
        status = expand_call(c, m, call.at, call.n, out, taken);
        --*taken;
    }
    cr_vec_dispose(&call);
    return status;
}

cr_status cr__cpp_expand(cr_cpp *c, const cr_token *in, size_t n, cr_tokens *out) {
    for (size_t i = 0, taken; i < n; i += taken) {
        cr_macro *m = callable(c, in + i, n - i);
        taken = 1;
        if (!m) {
            CR_TRY(cr_vec_push(out, in[i]));
            continue;
        }
        CR_TRY(expand_call(c, m, in + i, n - i, out, &taken));
        size_t more;
        CR_TRY(expand_tail(c, in + i + taken, n - i - taken, out, &more));
        taken += more;
    }
    return CR_OK;
}
