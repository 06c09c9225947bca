/* prune.c: see prune.h.
 *
 * Every piece is cut into *items*: declarations, definitions, calls of macros that stand for them, and directives,
 * each with the comment before it. Which names an item defines and mentions is found by expanding its macros as the
 * compiler will (cpp.h), because families of functions are named by macros alone. An item stays when it defines a name
 * that another one mentions that stays; a macro stays when it was expanded in one; a condition when something under it
 * stays. Conditions that the text itself decides are carried out here: what is not compiled is not there to be read.
 * What is not understood stays or mentions too much: the rest is always enough, if not always the least. */
#include "emit/prune.h"

#include "emit/cpp.h"

enum { NOBODY = -1 };
typedef enum name_kind {
    NAME_MACRO,
    NAME_LOCAL,    /* static, typedef, tag, enumerator */
    NAME_SEEN,     /* a tag that is only declared */
    NAME_EXTERNAL, /* a declaration */
    NAME_SYMBOL    /* a function with a body, an object with a value */
} name_kind;
typedef struct name {
    size_t word;
    name_kind kind;
} name;
typedef enum item_kind { ITEM_CODE, ITEM_MACRO, ITEM_UNDEF, ITEM_CONDITION, ITEM_PRAGMA, ITEM_TITLE } item_kind;
typedef struct item {
    item_kind kind;
    size_t piece, begin, end;                           /* with the comment before it */
    int32_t chain;                                      /* conditions around it; a CONDITION's own */
    bool kept, spaced, runs_first;                      /* an empty line before it; a constructor */
    size_t names, nnames, uses, nuses, macros, nmacros; /* stretches of state's vectors */
} item;
/* #if, #elif, #else, #endif. */
typedef struct chain {
    int32_t parent;
    bool live;  /* the branch we are in may be compiled */
    bool taken; /* an earlier one certainly is */
    bool open;  /* some condition has no answer here: its directives stay */
    bool kept;
    size_t item, macros, nmacros;
} chain;
typedef struct word {
    const char *text;
    size_t n;
    CR_VEC(size_t) items;
    size_t mentioned_by;
    bool of_model;
} word;

typedef struct state {
    cr_piece *pieces;
    size_t n, piece;
    cr_cpp cpp;
    cr_map by_text; /* word -> its number */
    CR_VEC(word) words;
    CR_VEC(item) items;
    CR_VEC(chain) chains;
    CR_VEC(name) names;
    CR_VEC(size_t) uses, macros, work;
    cr_tokens raw, out; /* of the item being read */
    int32_t chain;
} state;

/* ---- words ---- */

static cr_status word_of(state *s, const char *text, size_t n, size_t *out) {
    uint64_t found;
    if (cr_map_find(&s->by_text, text, n, &found)) return *out = (size_t)found, CR_OK;
    *out = s->words.n;
    CR_TRY(cr_vec_push(&s->words, ((word){ .text = text, .n = n, .mentioned_by = SIZE_MAX })));
    return cr_map_put(&s->by_text, text, n, *out);
}

static cr_status note_name(state *s, item *it, const cr_token *t, name_kind kind) {
    name x = { .kind = kind };
    if (!t || t->kind != 'w') return CR_OK;
    CR_TRY(word_of(s, t->at, t->n, &x.word));
    CR_TRY(cr_vec_push(&s->names, x));
    it->nnames++;
    return cr_vec_push(&s->words.at[x.word].items, s->items.n); /* the item is pushed when it is complete */
}

/* Every word but fields and what the item declares itself; each once. */
static cr_status note_uses(state *s, item *it, const cr_token *t, size_t n) {
    for (size_t i = 0; i < it->nnames; i++) s->words.at[s->names.at[it->names + i].word].mentioned_by = s->items.n;
    for (size_t i = 0; i < n; i++) {
        size_t w;
        if (t[i].kind != 'w' || (i && t[i - 1].kind == '.')) continue;
        CR_TRY(word_of(s, t[i].at, t[i].n, &w));
        if (s->words.at[w].mentioned_by == s->items.n) continue;
        s->words.at[w].mentioned_by = s->items.n;
        CR_TRY(cr_vec_push(&s->uses, w));
        it->nuses++;
    }
    return CR_OK;
}

/* ---- what declarations declare ---- */

static size_t past_bracket(const cr_token *t, size_t n, size_t i) {
    for (int depth = 0; i < n; i++) {
        if (strchr("([{", t[i].kind)) depth++;
        if (strchr(")]}", t[i].kind) && !--depth) return i;
    }
    return n;
}

static bool is_one_of(const cr_token *t, const char *const *texts) {
    for (; t && *texts; texts++)
        if (cr__token_is(t, *texts)) return true;
    return false;
}

static bool is_tag(const cr_token *t) { return is_one_of(t, (const char *const[]){ "struct", "union", "enum", NULL }); }

static cr_status note_enumerators(state *s, item *it, const cr_token *t, size_t from, size_t to) {
    bool first = true;
    for (size_t i = from; i < to; i++) {
        if (first) CR_TRY(note_name(s, it, &t[i], NAME_LOCAL));
        if (t[i].kind == '(' || t[i].kind == '[') i = past_bracket(t, to, i);
        first = i < to && t[i].kind == ',';
    }
    return CR_OK;
}

/* The declaration at t[*i], past which *i is left. */
static cr_status declaration(state *s, item *it, const cr_token *t, size_t n, size_t *i) {
    static const char *const aside[] = {
        "__attribute__", "_Alignas", "__typeof__", "_Static_assert", "__declspec", NULL
    };
    const cr_token *last = NULL, *before = NULL;
    bool done = false, value = false;
    name_kind kind = NAME_EXTERNAL;
    for (; *i < n; ++*i) {
        const cr_token *x = &t[*i];
        size_t end = strchr("([{", x->kind) ? past_bracket(t, n, *i) : *i;
        bool names = last && !done && !value;
        if (x->kind == 'w') {
            if (cr__token_is(x, "static") || cr__token_is(x, "typedef")) kind = NAME_LOCAL;
            before = last, last = x;
        } else if (x->kind == '(') {
            if (is_one_of(last, aside)) last = before;
            else if (names) {
                size_t inner = *i + 1;
                while (inner < end && t[inner].kind == '*') inner++; /* a pointer to a function has its name inside */
                CR_TRY(note_name(s, it, inner > *i + 1 ? &t[inner] : last, kind));
                done = true;
            }
        } else if (x->kind == '{' && !value && !done && (is_tag(before) || is_tag(last))) {
            if (is_tag(before)) CR_TRY(note_name(s, it, last, NAME_LOCAL));
            if (cr__token_is(is_tag(before) ? before : last, "enum")) CR_TRY(note_enumerators(s, it, t, *i + 1, end));
            last = before = NULL;
        } else if (x->kind == '{' && !value) { /* a function's body */
            if (it->nnames && kind == NAME_EXTERNAL) s->names.at[s->names.n - 1].kind = NAME_SYMBOL;
            *i = end + 1;
            return CR_OK;
        } else if (strchr("[=,;", x->kind) && names) {
            bool tag = x->kind == ';' && is_tag(before);
            CR_TRY(note_name(s, it, last, tag ? NAME_SEEN : kind));
            done = true;
        }
        if (x->kind == '=' && !value) {
            value = true;
            if (it->nnames && kind == NAME_EXTERNAL) s->names.at[s->names.n - 1].kind = NAME_SYMBOL;
        }
        if (x->kind == ',') done = value = false, last = NULL;
        if (x->kind == ';') return ++*i, CR_OK;
        *i = end;
    }
    return CR_OK;
}

/* ---- cutting: directives ---- */

typedef struct line {
    const char *name, *rest, *end;
    size_t n;
} line;

static bool is_directive(const cr_str *text, const char *at) {
    if (*at != '#') return false;
    while (at > text->at && (at[-1] == ' ' || at[-1] == '\t')) at--;
    return at == text->at || at[-1] == '\n';
}

/* With all lines that are joined to it. */
static line read_line(const char *at, const char *end) {
    line l = { .end = at };
    while (l.end < end && *l.end != '\n') {
        if (l.end[0] == '\\') l.end++;
        else if (l.end[0] == '/' && l.end[1] == '*') { /* a comment may go on below */
            const char *shut = strstr(l.end + 2, "*/");
            l.end = shut ? shut + 1 : end - 1;
        }
        l.end += l.end < end;
    }
    for (l.name = at + 1; *l.name == ' '; l.name++) {}
    while (l.name + l.n < l.end && l.name[l.n] >= 'a' && l.name[l.n] <= 'z') l.n++;
    l.rest = l.name + l.n;
    return l;
}

static bool line_is(const line *l, const char *name) { return l->n == strlen(name) && !memcmp(l->name, name, l->n); }

static bool opens(const line *l) { return line_is(l, "if") || line_is(l, "ifdef") || line_is(l, "ifndef"); }

static int decide(const state *s, const line *l) {
    if (line_is(l, "if") || line_is(l, "elif")) return cr__cpp_condition(&s->cpp, l->rest, l->end);
    cr_token t = { 0 };
    const char *at = l->rest;
    char text[128];
    if (!cr__token_next(&at, l->end, &t) || t.n > sizeof text - 12) return -1;
    memcpy(text, "defined ", 8);
    memcpy(text + 8, t.at, t.n);
    int x = cr__cpp_condition(&s->cpp, text, text + 8 + t.n);
    return x < 0 ? x : x == line_is(l, "ifdef");
}

static cr_status note_macros_of(state *s, const line *l) {
    cr_token t;
    for (const char *at = l->rest; cr__token_next(&at, l->end, &t);)
        for (const cr_macro *m = t.kind == 'w' ? cr__cpp_find(&s->cpp, &t) : NULL; m; m = m->next)
            CR_TRY(cr_vec_push(&s->macros, m->item));
    return CR_OK;
}

static bool is_live(const state *s, int32_t c) {
    for (; c != NOBODY; c = s->chains.at[c].parent)
        if (!s->chains.at[c].live) return false;
    return true;
}

static bool is_open(const state *s, int32_t c) {
    for (; c != NOBODY; c = s->chains.at[c].parent)
        if (s->chains.at[c].open) return true;
    return false;
}

static cr_status push_item(state *s, item *it) {
    it->piece = s->piece;
    return cr_vec_push(&s->items, *it);
}

/* Changes which branch we are in. */
static cr_status condition(state *s, const line *l, item *it) {
    if (opens(l)) {
        chain c = { .parent = s->chain, .macros = s->macros.n };
        CR_TRY(cr_vec_push(&s->chains, c));
        s->chain = (int32_t)s->chains.n - 1;
    }
    if (s->chain == NOBODY) return CR_OK;
    chain *c = &s->chains.at[s->chain];
    it->chain = s->chain;
    bool around = is_live(s, c->parent);
    if (line_is(l, "endif")) s->chain = c->parent;
    else {
        int x = !around || c->taken ? 0 : line_is(l, "else") ? 1 : decide(s, l);
        if (around && !line_is(l, "else")) CR_TRY(note_macros_of(s, l));
        c = &s->chains.at[s->chain];
        c->nmacros = s->macros.n - c->macros; /* conditions of inner chains come along */
        c->live = x != 0;
        c->open |= x < 0;
        c->taken |= x > 0;
    }
    return around ? push_item(s, it) : CR_OK;
}

static cr_status macro(state *s, const line *l, item *it) {
    cr_token t;
    const char *at = l->rest;
    bool maybe = is_open(s, s->chain);
    if (!cr__token_next(&at, l->end, &t)) return CR_OK;
    CR_TRY(note_name(s, it, &t, NAME_MACRO));
    CR_TRY(cr__cpp_define(&s->cpp, l->rest, l->end, s->items.n, maybe));
    if (!maybe) return CR_OK;
    const cr_macro *m = cr__cpp_find(&s->cpp,
                                     &t); /* which of several it will be is not known: expansions show only the last */
    return note_uses(s, it, m->body.at, m->body.n);
}

static cr_status directive(state *s, const line *l, item *it) {
    it->chain = s->chain;
    if (opens(l) || line_is(l, "elif") || line_is(l, "else") || line_is(l, "endif")) {
        it->kind = ITEM_CONDITION;
        return condition(s, l, it);
    }
    if (!is_live(s, s->chain)) return CR_OK;
    cr_token t;
    const char *at = l->rest;
    it->kind = ITEM_PRAGMA;
    if (line_is(l, "define")) {
        it->kind = ITEM_MACRO;
        CR_TRY(macro(s, l, it));
    } else if (line_is(l, "undef") && cr__token_next(&at, l->end, &t)) {
        it->kind = ITEM_UNDEF;
        cr__cpp_undef(&s->cpp, &t);
        CR_TRY(note_uses(s, it, &t, 1));
    }
    return push_item(s, it);
}

/* ---- cutting: code ---- */

/* Where the branch that is not compiled ends: at the next directive of its own level. */
static const char *skip_branch(const state *s, const char *at, const char *end) {
    const cr_str *text = &s->pieces[s->piece].text;
    for (int depth = 0; at < end;) {
        at = cr__skip_space(at, end);
        if (at < end && is_directive(text, at)) {
            line l = read_line(at, end);
            if (!depth && (line_is(&l, "endif") || line_is(&l, "else") || line_is(&l, "elif"))) return at;
            depth += opens(&l) - line_is(&l, "endif");
            at = l.end;
        } else {
            cr_token t;
            (void)cr__token_next(&at, end, &t);
        }
    }
    return end;
}

static cr_status flush(state *s) {
    cr_status status = cr__cpp_expand(&s->cpp, s->raw.at, s->raw.n, &s->out);
    s->raw.n = 0;
    return status;
}

/* A directive amid an item, whose text stays with it. depth: of conditions; state of each in `branch`. */
enum { MOST_DEPTH = 16 };
typedef struct inner {
    int depth;
    signed char branch[MOST_DEPTH];
} inner;

static cr_status inner_directive(state *s, item *it, inner *in, const line *l, const char **at, const char *end) {
    CR_TRY(flush(s));
    *at = l->end;
    cr_token t;
    const char *rest = l->rest;
    if (line_is(l, "define")) CR_TRY(macro(s, l, it));
    else if (line_is(l, "undef") && cr__token_next(&rest, l->end, &t)) cr__cpp_undef(&s->cpp, &t);
    else if (opens(l) && in->depth < MOST_DEPTH) {
        size_t from = s->macros.n;
        int x = in->branch[in->depth++] = (signed char)decide(s, l);
        CR_TRY(note_macros_of(s, l));
        for (size_t i = from; i < s->macros.n; i++) CR_TRY(cr_vec_push(&s->cpp.used, s->macros.at[i]));
        s->macros.n = from;
        if (!x) *at = skip_branch(s, l->end, end);
    } else if (in->depth && line_is(l, "endif")) in->depth--;
    else if (in->depth && (line_is(l, "else") || line_is(l, "elif"))) {
        signed char *branch = &in->branch[in->depth - 1];
        int x = *branch == 1 ? 0 : line_is(l, "else") ? 1 : decide(s, l);
        if (!x) *at = skip_branch(s, l->end, end);
        else if (*branch == 0) *branch = (signed char)x;
    }
    return CR_OK;
}

/* Has a call of a macro become whole declarations? */
static cr_status is_whole(state *s, bool *out) {
    cr_tokens text = { 0 };
    cr_status status = cr__cpp_expand(&s->cpp, s->raw.at, s->raw.n, &text);
    *out = !status && (!text.n || text.at[text.n - 1].kind == '}' || text.at[text.n - 1].kind == ';');
    cr_vec_dispose(&text);
    return status;
}

/* From `at`, the first token, to the end of the item. */
static cr_status cut_code(state *s, item *it, const char **at, const char *end) {
    const cr_str *text = &s->pieces[s->piece].text;
    inner in = { 0 };
    int depth = 0;
    size_t count = 0;
    bool value = false, body = false, call = false, done = false;
    char last = 0;
    s->raw.n = s->out.n = s->cpp.used.n = 0;
    while (!done && (*at = cr__skip_space(*at, end)) < end) {
        cr_token t;
        if (is_directive(text, *at)) {
            line l = read_line(*at, end);
            CR_TRY(inner_directive(s, it, &in, &l, at, end));
            continue;
        }
        if (!cr__token_next(at, end, &t)) break;
        if (!count++) {
            const cr_macro *m = t.kind == 'w' ? cr__cpp_find(&s->cpp, &t) : NULL;
            call = m && m->takes;
        } else if (count == 2) call = call && t.kind == '(';
        CR_TRY(cr_vec_push(&s->raw, t));
        if (!depth && t.kind == '=') value = true;
        if (!depth && t.kind == '{') body = !value && last == ')';
        if (strchr("([{", t.kind)) depth++;
        if (strchr(")]}", t.kind)) depth--;
        if (!depth) done = t.kind == ';' || (t.kind == '}' && body);
        if (!depth && t.kind == ')' && call) {
            const char *next = cr__skip_space(*at, end);
            CR_TRY(is_whole(s, &done));
            if (done && next < end && *next == ';') *at = next + 1; /* which is too much, but there */
            call = false;
        }
        last = t.kind;
    }
    return flush(s);
}

static cr_status code(state *s, item *it, const char **at, const char *end) {
    static const char *const first[] = { "constructor", NULL };
    it->kind = ITEM_CODE;
    it->chain = s->chain;
    it->macros = s->macros.n;
    CR_TRY(cut_code(s, it, at, end));
    for (size_t i = 0; i < s->out.n;) CR_TRY(declaration(s, it, s->out.at, s->out.n, &i));
    CR_TRY(note_uses(s, it, s->out.at, s->out.n));
    for (size_t i = 0; i < s->out.n; i++) it->runs_first |= s->out.at[i].kind == 'w' && is_one_of(&s->out.at[i], first);
    for (size_t i = 0; i < s->cpp.used.n; i++) CR_TRY(cr_vec_push(&s->macros, s->cpp.used.at[i]));
    it->nmacros = s->macros.n - it->macros;
    return CR_OK;
}

/* A comment on the item's last line is about it. */
static const char *past_remark(const char *at, const char *end) {
    const char *a = at;
    while (a < end && (*a == ' ' || *a == '\t')) a++;
    const char *shut = a + 1 < end && a[0] == '/' && a[1] == '*' ? strstr(a + 2, "*/") : NULL;
    return shut ? shut + 2 : at;
}

/* ---- pieces ---- */

/* The first comment says what the file is. */
static cr_status cut_title(state *s, const char **at, const char *end) {
    const char *a = *at;
    while (a < end && (*a == ' ' || *a == '\n')) a++;
    const char *shut = a + 1 < end && a[0] == '/' && a[1] == '*' ? strstr(a + 2, "*/") : NULL;
    if (!shut) return CR_OK;
    const char *text = s->pieces[s->piece].text.at;
    *at = shut + 2;
    return push_item(s, &(item){ .kind = ITEM_TITLE,
                                 .begin = (size_t)(a - text),
                                 .end = (size_t)(*at - text),
                                 .chain = NOBODY });
}

static cr_status cut_piece(state *s, size_t number) {
    cr_str *text = &s->pieces[number].text;
    const char *at = text->at, *end = at + text->n;
    size_t first = s->items.n;
    s->piece = number, s->chain = NOBODY;
    if (!text->n) return CR_OK;
    CR_TRY(cut_title(s, &at, end));
    while (at < end) {
        item it = { .names = s->names.n, .uses = s->uses.n, .macros = s->macros.n };
        const char *comment = at;
        int lines = 0;
        for (; comment < end && (*comment == ' ' || *comment == '\n'); comment++) lines += *comment == '\n';
        const char *start = cr__skip_space(at, end);
        if (start >= end) break;
        it.begin = (size_t)(comment - text->at), it.spaced = lines > 1;
        if (is_directive(text, start)) {
            line l = read_line(start, end);
            at = l.end;
            it.end = (size_t)(at - text->at);
            CR_TRY(directive(s, &l, &it));
        } else if (!is_live(s, s->chain)) at = skip_branch(s, start, end);
        else {
            at = start;
            CR_TRY(code(s, &it, &at, end));
            at = past_remark(at, end);
            it.end = (size_t)(at - text->at);
            CR_TRY(push_item(s, &it));
        }
    }
    for (size_t i = first; i < s->items.n && !s->pieces[number].is_header; i++) { /* a file's macros end with it */
        const char *name = text->at + s->items.at[i].begin;
        cr_token t;
        if (s->items.at[i].kind != ITEM_MACRO) continue;
        line l = read_line(cr__skip_space(name, end), end);
        if (cr__token_next(&l.rest, l.end, &t)) cr__cpp_undef(&s->cpp, &t);
    }
    return CR_OK;
}

/* ---- what stays ---- */

static cr_status keep(state *s, size_t number) {
    item *it = &s->items.at[number];
    if (it->kept) return CR_OK;
    it->kept = true;
    return cr_vec_push(&s->work, number);
}

/* Can an item of `piece` mean this one by the word? */
static bool is_meant(const state *s, const word *w, const item *it, size_t piece) {
    if (s->pieces[it->piece].is_header || it->piece == piece) {
        if (!w->of_model || it->piece == s->n - 1 || s->pieces[it->piece].is_header) return true;
    }
    bool external = false, symbol = false;
    for (size_t i = 0; i < it->nnames; i++) {
        const name *x = &s->names.at[it->names + i];
        external |= x->kind >= NAME_EXTERNAL;
        symbol |= x->kind == NAME_SYMBOL && &s->words.at[x->word] == w;
    }
    if (w->of_model && symbol && it->piece != s->n - 1) return false;
    return external || it->piece == piece;
}

static cr_status keep_word(state *s, size_t number, size_t piece) {
    const word *w = &s->words.at[number];
    for (size_t i = 0; i < w->items.n; i++)
        if (is_meant(s, w, &s->items.at[w->items.at[i]], piece)) CR_TRY(keep(s, w->items.at[i]));
    return CR_OK;
}

static cr_status keep_chain(state *s, int32_t c) {
    for (; c != NOBODY && !s->chains.at[c].kept; c = s->chains.at[c].parent) {
        chain *x = &s->chains.at[c];
        x->kept = true;
        for (size_t i = 0; x->open && i < x->nmacros; i++) CR_TRY(keep(s, s->macros.at[x->macros + i]));
    }
    return CR_OK;
}

static cr_status follow(state *s) {
    while (s->work.n) {
        item it = s->items.at[s->work.at[--s->work.n]];
        CR_TRY(keep_chain(s, it.chain));
        for (size_t i = 0; i < it.nuses; i++) CR_TRY(keep_word(s, s->uses.at[it.uses + i], it.piece));
        for (size_t i = 0; it.kind == ITEM_CODE && i < it.nmacros; i++) CR_TRY(keep(s, s->macros.at[it.macros + i]));
    }
    return CR_OK;
}

/* Constructors stay with the files that something else needs. */
static cr_status keep_constructors(state *s, bool *more) {
    *more = false;
    for (size_t i = 0; i < s->items.n; i++) {
        const item *it = &s->items.at[i];
        bool needed = false;
        for (size_t k = 0; it->runs_first && !it->kept && k < s->items.n; k++)
            needed |= s->items.at[k].kept && s->items.at[k].kind == ITEM_CODE && s->items.at[k].piece == it->piece;
        if (!needed) continue;
        *more = true;
        CR_TRY(keep(s, i));
    }
    return CR_OK;
}

static cr_status mark(state *s, const char *root) {
    size_t number;
    for (size_t i = 0; i < s->items.n; i++) {
        const item *it = &s->items.at[i];
        for (size_t k = 0; it->piece == s->n - 1 && k < it->nnames; k++) {
            const name *x = &s->names.at[it->names + k];
            if (x->kind == NAME_SYMBOL) s->words.at[x->word].of_model = true;
        }
    }
    CR_TRY(word_of(s, root, strlen(root), &number));
    CR_TRY(keep_word(s, number, s->n - 1));
    for (bool more = true; more;) {
        CR_TRY(follow(s));
        CR_TRY(keep_constructors(s, &more));
    }
    return CR_OK;
}

/* ---- the text that stays ---- */

static bool any_kept(const state *s, const item *undef) {
    for (size_t i = 0; i < undef->nuses; i++) {
        const word *w = &s->words.at[s->uses.at[undef->uses + i]];
        for (size_t k = 0; k < w->items.n; k++)
            if (s->items.at[w->items.at[k]].kept) return true;
    }
    return false;
}

static bool is_printed(const state *s, const item *it, bool needed) {
    switch (it->kind) {
    case ITEM_CONDITION: return s->chains.at[it->chain].kept && s->chains.at[it->chain].open;
    case ITEM_UNDEF: return any_kept(s, it);
    case ITEM_PRAGMA:
    case ITEM_TITLE: return needed;
    default: return it->kept;
    }
}

static cr_status note_kept(const state *s, cr_piece *p, const item *it, cr_map *symbols) {
    for (size_t k = 0; k < it->nnames; k++) {
        const name *x = &s->names.at[it->names + k];
        const word *w = &s->words.at[x->word];
        cr_map *const maps[] = { [NAME_MACRO] = &p->macros, [NAME_LOCAL] = &p->names, [NAME_SYMBOL] = symbols };
        cr_map *to = maps[x->kind];
        if (to) CR_TRY(cr_map_put(to, w->text, w->n, 1));
    }
    return CR_OK;
}

static cr_status print(const state *s, size_t number, cr_map *symbols, cr_str *out) {
    cr_piece *p = &s->pieces[number];
    bool needed = false;
    for (size_t i = 0; i < s->items.n; i++) needed |= s->items.at[i].piece == number && s->items.at[i].kept;
    for (size_t i = 0; i < s->items.n && needed; i++) {
        const item *it = &s->items.at[i];
        if (it->piece != number || !is_printed(s, it, needed)) continue;
        if (it->spaced && out->n) cr_str_addc(out, '\n');
        cr_str_addn(out, p->text.at + it->begin, it->end - it->begin);
        cr_str_addc(out, '\n');
        CR_TRY(note_kept(s, p, it, symbols));
    }
    return cr_str_status(out);
}

static void dispose(state *s) {
    for (size_t i = 0; i < s->words.n; i++) cr_vec_dispose(&s->words.at[i].items);
    cr_vec_dispose(&s->words);
    cr_vec_dispose(&s->items);
    cr_vec_dispose(&s->chains);
    cr_vec_dispose(&s->names);
    cr_vec_dispose(&s->uses);
    cr_vec_dispose(&s->macros);
    cr_vec_dispose(&s->work);
    cr_vec_dispose(&s->raw);
    cr_vec_dispose(&s->out);
    cr_map_dispose(&s->by_text);
    cr__cpp_dispose(&s->cpp);
}

cr_status cr__prune(cr_piece *pieces, size_t n, const char *root, cr_map *symbols) {
    state s = { .pieces = pieces, .n = n };
    cr_map_init(&s.by_text);
    cr__cpp_init(&s.cpp);
    cr_str *texts = cr_calloc(n + 1, sizeof *texts);
    cr_status status = texts ? CR_OK : CR_ENOMEM;
    for (size_t i = 0; i < n && !status; i++) status = cut_piece(&s, i);
    if (!status) status = mark(&s, root);
    for (size_t i = 0; i < n && !status; i++) status = print(&s, i, symbols, &texts[i]);
    dispose(&s);
    for (size_t i = 0; i < n && texts; i++) {
        cr_str old = pieces[i].text;
        if (!status) pieces[i].text = texts[i];
        cr_str_dispose(status ? &texts[i] : &old);
    }
    cr_free(texts);
    return status;
}
