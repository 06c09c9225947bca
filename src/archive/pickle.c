/* The pickle machine: opcodes, a stack with marks, a memo.
 *
 * Every opcode is a row of one table: its name, the number of its fixed operand bytes (checked in one place before it
 * runs) and the function that carries it out. What comes out of the machine is data alone: an opcode that would make an
 * object of a class is either resolved through the table of pickle_names.c or refused by name.
 *
 * Bounds. An opcode creates at most one value and moves each stack entry at most once, so memory is a fixed multiple of
 * the input's length; a memo index may not exceed that length either, because picklers count from 0. Growing containers
 * double, and borrowed items are never copied. */
#include "archive/pickle_internal.h"
#include "base/utf8.h"

#include <ctype.h>
#include <limits.h>

typedef cr__pickle_machine machine;
typedef cr__pickle_value value;
#define FAIL CR__PICKLE_FAIL

value *cr__pickle_new(machine *m, int kind) {
    value *v = cr_arena_calloc(m->arena, 1, sizeof *v);
    if (v) v->pub.kind = (uint8_t)kind;
    return v;
}

value *cr__pickle_text(machine *m, int kind, const char *text, size_t n) {
    value *v = cr__pickle_new(m, kind);
    char *copy = v ? cr_arena_alloc(m->arena, n + 1) : NULL;
    if (!copy) return NULL;
    if (n) memcpy(copy, text, n);
    copy[n] = 0;
    v->pub.u.s = copy;
    v->pub.n = (uint32_t)n;
    return v;
}

static bool is_utf8(const uint8_t *s, size_t n) {
    for (const uint8_t *end = s + n; s < end;) {
        size_t step = cr__utf8_step(s, end);
        if (!step) return false;
        s += step;
    }
    return true;
}

/* ---- operands ---- */

static uint64_t little(const uint8_t *p, int n) {
    uint64_t x = 0;
    while (n--) x = x << 8 | p[n];
    return x;
}

static cr_status take(machine *m, uint64_t n, const uint8_t **out) {
    if (n > m->size - m->pos)
        return FAIL(m, CR_EFORMAT, "needs %llu more bytes, the pickle has %zu", (unsigned long long)n,
                    m->size - m->pos);
    *out = m->data + m->pos;
    m->pos += (size_t)n;
    return CR_OK;
}

/* A text up to the next newline, which is consumed. */
static cr_status take_line(machine *m, const char **out, size_t *n) {
    const uint8_t *begin = m->data + m->pos, *end = memchr(begin, '\n', m->size - m->pos);
    if (!end) return FAIL(m, CR_EFORMAT, "the line has no end");
    *out = (const char *)begin;
    *n = (size_t)(end - begin);
    m->pos += *n + 1;
    return CR_OK;
}

/* Decimal digits with a sign. */
static cr_status line_int(machine *m, const char *s, size_t n, int64_t *out) {
    bool negative = n && *s == '-';
    size_t i = negative || (n && *s == '+') ? 1 : 0;
    int64_t x = 0;
    if (i == n) return FAIL(m, CR_EFORMAT, "'%.*s' is no integer", (int)CR_MIN(n, (size_t)40), s);
    for (; i < n; i++) {
        if (s[i] < '0' || s[i] > '9') return FAIL(m, CR_EFORMAT, "'%.*s' is no integer", (int)CR_MIN(n, (size_t)40), s);
        int digit = s[i] - '0';
        if (cr_mul_overflow(x, 10, &x) || cr_add_overflow(x, negative ? -digit : digit, &x))
            return FAIL(m, CR_EUNSUPPORTED, "an integer beyond 64 bits");
    }
    *out = x;
    return CR_OK;
}

/* ---- stack ---- */

static cr_status push(machine *m, value *v) { return v ? cr_vec_push(&m->stack, v) : CR_ENOMEM; }

static size_t stack_floor(const machine *m) { return m->marks.n ? m->marks.at[m->marks.n - 1] : 0; }

static cr_status pop(machine *m, value **out) {
    if (m->stack.n <= stack_floor(m)) return FAIL(m, CR_EFORMAT, "the stack is empty");
    *out = m->stack.at[--m->stack.n];
    return CR_OK;
}

static cr_status top(machine *m, value **out) {
    CR_TRY(pop(m, out));
    m->stack.n++;
    return CR_OK;
}

/* The entries above the newest mark, which goes. They stay in the stack's memory until the next push. */
static cr_status pop_mark(machine *m, value ***items, size_t *n) {
    if (!m->marks.n) return FAIL(m, CR_EFORMAT, "there is no mark on the stack");
    size_t begin = m->marks.at[--m->marks.n];
    *items = m->stack.at + begin;
    *n = m->stack.n - begin;
    m->stack.n = begin;
    return CR_OK;
}

static cr_status extend(machine *m, value *v, value *const *items, size_t n) {
    if (!n) return CR_OK;
    if (!v->cap && v->pub.n)
        return FAIL(m, CR_EFORMAT, "%s that was made whole cannot grow", cr_pickle_kind_name(v->pub.kind));
    size_t want = v->pub.n + n; /* both at most CR_PICKLE_LIMIT */
    if (want > v->cap) {
        size_t cap = CR_MAX(want, (size_t)v->cap * 2);
        const cr_pickle **grown = cr_arena_alloc(m->arena, cap * sizeof *grown);
        if (!grown) return CR_ENOMEM;
        if (v->pub.n) memcpy(grown, v->pub.u.items, v->pub.n * sizeof *grown);
        v->pub.u.items = grown;
        v->cap = (uint32_t)cap;
    }
    const cr_pickle **at = (const cr_pickle **)(uintptr_t)v->pub.u.items + v->pub.n; /* our own array: not const here */
    for (size_t i = 0; i < n; i++) at[i] = &items[i]->pub;
    v->pub.n = (uint32_t)want;
    return CR_OK;
}

static bool is_dict(const value *v) { return cr_pickle_is_dict(v->pub.kind); }

/* ---- opcodes. `data` is the row's number. ---- */

static cr_status op_none(machine *m, int data) {
    (void)data;
    return push(m, cr__pickle_new(m, CR_PICKLE_NONE));
}

static cr_status op_bool(machine *m, int data) {
    value *v = cr__pickle_new(m, CR_PICKLE_BOOL);
    if (v) v->pub.u.b = data;
    return push(m, v);
}

static cr_status push_int(machine *m, int64_t i) {
    value *v = cr__pickle_new(m, CR_PICKLE_INT);
    if (v) v->pub.u.i = i;
    return push(m, v);
}

/* data: operand bytes; 4 are signed. */
static cr_status op_binint(machine *m, int data) {
    uint64_t x = little(m->operand, data);
    return push_int(m, data == 4 ? (int32_t)(uint32_t)x : (int64_t)x);
}

/* LONG1, LONG4: two's complement of any length; redundant bytes of the sign are legal. */
static cr_status op_long_bytes(machine *m, int data) {
    const uint8_t *p;
    uint64_t n = little(m->operand, data);
    if (data == 4 && n > INT32_MAX) return FAIL(m, CR_EFORMAT, "a negative length");
    CR_TRY(take(m, n, &p));
    uint8_t sign = n && p[n - 1] & 0x80 ? 0xff : 0;
    while (n > 8 && p[n - 1] == sign) n--;
    if (n > 8 || (n == 8 && (p[7] & 0x80) != (sign & 0x80)))
        return FAIL(m, CR_EUNSUPPORTED, "an integer beyond 64 bits");
    uint64_t x = sign ? ~(uint64_t)0 : 0;
    for (int k = (int)n - 1; k >= 0; k--) x = x << 8 | p[k];
    return push_int(m, (int64_t)x);
}

static cr_status op_int_line(machine *m, int data) {
    const char *s;
    size_t n;
    int64_t x;
    CR_TRY(take_line(m, &s, &n));
    if (data == 'L' && n && s[n - 1] == 'L') n--;
    if (data == 'I' && n == 2 && s[0] == '0' && (s[1] == '0' || s[1] == '1')) return op_bool(m, s[1] == '1');
    CR_TRY(line_int(m, s, n, &x));
    return push_int(m, x);
}

static cr_status push_float(machine *m, double f) {
    value *v = cr__pickle_new(m, CR_PICKLE_FLOAT);
    if (v) v->pub.u.f = f;
    return push(m, v);
}

static cr_status op_binfloat(machine *m, int data) {
    (void)data;
    uint64_t x = __builtin_bswap64(little(m->operand, 8));
    double f;
    memcpy(&f, &x, sizeof f);
    return push_float(m, f);
}

static cr_status op_float_line(machine *m, int data) {
    (void)data;
    char text[64], *end;
    const char *s;
    size_t n;
    CR_TRY(take_line(m, &s, &n));
    size_t kept = CR_MIN(n, sizeof text - 1);
    memcpy(text, s, kept);
    text[kept] = 0;
    double f = cr_strtod(text, &end);
    if (!n || kept < n || end != text + n || isspace((unsigned char)*text) || strpbrk(text, "xXpP("))
        return FAIL(m, CR_EFORMAT, "'%s' is no number", text);
    return push_float(m, f);
}

static cr_status push_text(machine *m, int kind, const uint8_t *p, size_t n) {
    if (kind == CR_PICKLE_STRING && !is_utf8(p, n)) return FAIL(m, CR_EFORMAT, "the text is not UTF-8");
    return push(m, cr__pickle_text(m, kind, (const char *)p, n));
}

/* A length in the operand, then the bytes. Texts of Python 2 (BINSTRING) must be UTF-8, too. */
static cr_status counted(machine *m, int width, int kind) {
    const uint8_t *p;
    CR_TRY(take(m, little(m->operand, width), &p));
    return push_text(m, kind, p, (size_t)(m->data + m->pos - p));
}
static cr_status op_text(machine *m, int data) { return counted(m, data, CR_PICKLE_STRING); }
static cr_status op_bytes(machine *m, int data) { return counted(m, data, CR_PICKLE_BYTES); }

static int hex_digits(const char *s, size_t have, int want, uint32_t *out) {
    uint32_t x = 0;
    if (have < (size_t)want) return 0;
    for (int i = 0; i < want; i++) {
        int c = (unsigned char)s[i];
        if (!isxdigit(c)) return 0;
        x = x << 4 | (uint32_t)(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
    }
    *out = x;
    return want;
}

static size_t put_utf8(char *to, uint32_t c) {
    if (c < 0x80) return to[0] = (char)c, 1;
    if (c < 0x800) return to[0] = (char)(0xc0 | c >> 6), to[1] = (char)(0x80 | (c & 63)), 2;
    if (c < 0x10000)
        return to[0] = (char)(0xe0 | c >> 12), to[1] = (char)(0x80 | (c >> 6 & 63)), to[2] = (char)(0x80 | (c & 63)), 3;
    to[0] = (char)(0xf0 | c >> 18), to[1] = (char)(0x80 | (c >> 12 & 63)), to[2] = (char)(0x80 | (c >> 6 & 63)),
    to[3] = (char)(0x80 | (c & 63));
    return 4;
}

/* The escaped texts of protocol 0. UNICODE: Latin-1 with \u and \U. STRING: a quoted literal of Python 2, whose bytes
 * must come out as UTF-8. Neither grows to more than twice its escaped length. */
static cr_status op_text_line(machine *m, int data) {
    const char *s;
    size_t n, k = 0;
    CR_TRY(take_line(m, &s, &n));
    if (data == 'S') {
        if (n < 2 || (s[0] != '\'' && s[0] != '"') || s[n - 1] != s[0])
            return FAIL(m, CR_EFORMAT, "the text is not in quotes");
        s++, n -= 2;
    }
    char *to = cr_arena_alloc(m->arena, 2 * n + 1);
    if (!to) return CR_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        uint32_t c = (unsigned char)s[i];
        if (data == 'V') {
            if (c == '\\' && i + 1 < n && (s[i + 1] == 'u' || s[i + 1] == 'U')) {
                int used = hex_digits(s + i + 2, n - i - 2, s[i + 1] == 'u' ? 4 : 8, &c);
                if (!used || c > 0x10ffff) return FAIL(m, CR_EFORMAT, "a bad \\%c escape", s[i + 1]);
                i += 1 + (size_t)used;
            }
            k += put_utf8(to + k, c);
            continue;
        }
        if (c == '\\') {
            static const char escapes[] = "\\\\''\"\"n\nt\tr\ra\ab\bf\fv\v"; /* pairs: letter, byte */
            const char *pair = escapes;
            if (++i == n) return FAIL(m, CR_EFORMAT, "a bad escape");
            while (*pair && *pair != s[i]) pair += 2;
            if (*pair) c = (unsigned char)pair[1];
            else if (s[i] == 'x' && hex_digits(s + i + 1, n - i - 1, 2, &c)) i += 2;
            else return FAIL(m, CR_EFORMAT, "a bad escape");
        }
        to[k++] = (char)c;
    }
    return push_text(m, CR_PICKLE_STRING, (uint8_t *)to, k); /* surrogates of \u are refused there */
}

static cr_status op_mark(machine *m, int data) {
    (void)data;
    return cr_vec_push(&m->marks, m->stack.n);
}

static cr_status op_pop(machine *m, int data) {
    (void)data;
    value *v;
    if (m->marks.n && m->stack.n == stack_floor(m)) { /* a mark is an entry like others */
        m->marks.n--;
        return CR_OK;
    }
    return pop(m, &v);
}

static cr_status op_pop_mark(machine *m, int data) {
    (void)data;
    value **items;
    size_t n;
    return pop_mark(m, &items, &n);
}

static cr_status op_dup(machine *m, int data) {
    (void)data;
    value *v;
    CR_TRY(top(m, &v));
    return push(m, v);
}

static cr_status op_empty(machine *m, int data) { return push(m, cr__pickle_new(m, data)); }

/* TUPLE, LIST, DICT, FROZENSET: everything above the mark. */
static cr_status op_collect(machine *m, int data) {
    value **items, *v;
    size_t n;
    CR_TRY(pop_mark(m, &items, &n));
    if (data == CR_PICKLE_DICT && n % 2) return FAIL(m, CR_EFORMAT, "a key without a value");
    v = cr__pickle_new(m, data);
    if (!v) return CR_ENOMEM;
    CR_TRY(extend(m, v, items, n));
    return push(m, v);
}

/* TUPLE1, TUPLE2, TUPLE3. */
static cr_status op_tuple(machine *m, int data) {
    if (m->stack.n - stack_floor(m) < (size_t)data)
        return FAIL(m, CR_EFORMAT, "the stack has fewer than %d entries", data);
    value *v = cr__pickle_new(m, CR_PICKLE_TUPLE);
    if (!v) return CR_ENOMEM;
    m->stack.n -= (size_t)data;
    CR_TRY(extend(m, v, m->stack.at + m->stack.n, (size_t)data));
    return push(m, v);
}

/* APPEND(S), ADDITEMS, SETITEM(S): a fixed number of entries (data), or those above the mark (data 0), go to the
 * container below them. */
static cr_status grow(machine *m, int data, const char *what, bool (*takes)(const value *), bool pairs) {
    value **items, *to;
    size_t n = (size_t)data;
    if (data) {
        if (m->stack.n - stack_floor(m) < n) return FAIL(m, CR_EFORMAT, "the stack is empty");
        m->stack.n -= n;
        items = m->stack.at + m->stack.n;
    } else {
        CR_TRY(pop_mark(m, &items, &n));
    }
    CR_TRY(top(m, &to));
    if (!takes(to))
        return FAIL(m, CR_EFORMAT, "expects %s below its items, found %s", what, cr_pickle_kind_name(to->pub.kind));
    if (pairs && n % 2) return FAIL(m, CR_EFORMAT, "a key without a value");
    return extend(m, to, items, n);
}
static bool is_list(const value *v) { return v->pub.kind == CR_PICKLE_LIST || v->pub.kind == CR_PICKLE_DEQUE; }
static bool is_set(const value *v) { return v->pub.kind == CR_PICKLE_SET; }
static cr_status op_append(machine *m, int data) { return grow(m, data, "a list", is_list, false); }
static cr_status op_additems(machine *m, int data) { return grow(m, data, "a set", is_set, false); }
static cr_status op_setitem(machine *m, int data) { return grow(m, data, "a dict", is_dict, true); }

/* ---- memo ---- */

static cr_status memo_put(machine *m, uint64_t index) {
    value *v;
    CR_TRY(top(m, &v));
    if (index >= m->size)
        return FAIL(m, CR_EFORMAT, "memo index %llu in a pickle of %zu bytes", (unsigned long long)index, m->size);
    if (index >= m->memo.n) {
        CR_TRY(cr_vec_reserve(&m->memo, index + 1));
        memset(m->memo.at + m->memo.n, 0, (index + 1 - m->memo.n) * sizeof *m->memo.at);
        m->memo.n = (size_t)index + 1;
    }
    m->memo_count += !m->memo.at[index];
    m->memo.at[index] = v;
    return CR_OK;
}

static cr_status memo_get(machine *m, uint64_t index) {
    if (index >= m->memo.n || !m->memo.at[index])
        return FAIL(m, CR_EFORMAT, "nothing was stored in memo %llu", (unsigned long long)index);
    return push(m, m->memo.at[index]);
}

static cr_status line_index(machine *m, uint64_t *out) {
    const char *s;
    size_t n;
    int64_t i;
    CR_TRY(take_line(m, &s, &n));
    CR_TRY(line_int(m, s, n, &i));
    if (i < 0) return FAIL(m, CR_EFORMAT, "a negative memo index");
    *out = (uint64_t)i;
    return CR_OK;
}

/* data: bytes of the index; 0: a line. */
static cr_status op_put(machine *m, int data) {
    uint64_t index;
    if (data) index = little(m->operand, data);
    else CR_TRY(line_index(m, &index));
    return memo_put(m, index);
}

static cr_status op_get(machine *m, int data) {
    uint64_t index;
    if (data) index = little(m->operand, data);
    else CR_TRY(line_index(m, &index));
    return memo_get(m, index);
}

static cr_status op_memoize(machine *m, int data) {
    (void)data;
    return memo_put(m, m->memo_count);
}

/* ---- names and what they make ---- */

static cr_status take_name(machine *m, value **out) {
    const char *module, *name;
    size_t module_n, name_n;
    CR_TRY(take_line(m, &module, &module_n));
    CR_TRY(take_line(m, &name, &name_n));
    return cr__pickle_resolve(m, module, module_n, name, name_n, out);
}

static cr_status op_global(machine *m, int data) {
    (void)data;
    value *v;
    CR_TRY(take_name(m, &v));
    return push(m, v);
}

static cr_status op_stack_global(machine *m, int data) {
    (void)data;
    value *module, *name, *v;
    CR_TRY(pop(m, &name));
    CR_TRY(pop(m, &module));
    if (module->pub.kind != CR_PICKLE_STRING || name->pub.kind != CR_PICKLE_STRING)
        return FAIL(m, CR_EFORMAT, "a name is two texts, found %s and %s", cr_pickle_kind_name(module->pub.kind),
                    cr_pickle_kind_name(name->pub.kind));
    CR_TRY(cr__pickle_resolve(m, module->pub.u.s, module->pub.n, name->pub.u.s, name->pub.n, &v));
    return push(m, v);
}

static cr_status op_reduce(machine *m, int data) {
    (void)data;
    value *callee, *args, *v;
    CR_TRY(pop(m, &args));
    CR_TRY(pop(m, &callee));
    if (callee->pub.kind != CR__PICKLE_NAME)
        return FAIL(m, CR_EFORMAT, "calls %s", cr_pickle_kind_name(callee->pub.kind));
    if (args->pub.kind != CR_PICKLE_TUPLE)
        return FAIL(m, CR_EFORMAT, "the arguments are %s, expected a tuple", cr_pickle_kind_name(args->pub.kind));
    if (!callee->name->call)
        return FAIL(m, CR_EUNSUPPORTED, "calls %s.%s, which may only be mentioned", callee->name->module,
                    callee->name->name);
    CR_TRY(callee->name->call(m, callee->name, args, &v));
    return push(m, v);
}

/* State of an object: a state dict carries `_metadata` this way, which is not needed to read it. */
static cr_status op_build(machine *m, int data) {
    (void)data;
    value *state, *to;
    CR_TRY(pop(m, &state));
    CR_TRY(top(m, &to));
    if (to->pub.kind != CR_PICKLE_ORDERED_DICT && to->pub.kind != CR_PICKLE_DEFAULT_DICT)
        return FAIL(m, CR_EUNSUPPORTED, "sets attributes of %s; only an OrderedDict has some",
                    cr_pickle_kind_name(to->pub.kind));
    if (state->pub.kind != CR_PICKLE_DICT && state->pub.kind != CR_PICKLE_NONE)
        return FAIL(m, CR_EFORMAT, "the attributes are %s, expected a dict", cr_pickle_kind_name(state->pub.kind));
    return CR_OK;
}

static cr_status op_binpersid(machine *m, int data) {
    (void)data;
    value *id, *v;
    CR_TRY(pop(m, &id));
    CR_TRY(cr__pickle_persistent(m, id, &v));
    return push(m, v);
}

/* INST: the name first, so that the error says it. */
static cr_status op_inst(machine *m, int data) {
    (void)data;
    value *v;
    CR_TRY(take_name(m, &v));
    return FAIL(m, CR_EUNSUPPORTED, "makes an object of a class; save again with torch.save of PyTorch 1.6 or later");
}

enum { OBJECT, EXTENSION, TEXT_ID, BUFFER };
static cr_status op_refused(machine *m, int data) {
    static const char *const why[] = {
        [OBJECT] = "makes an object of a class; only tensors, numbers, texts and containers are read",
        [EXTENSION] = "names a class by a number of Python's extension registry, which is not consulted",
        [TEXT_ID] = "a persistent id that is a text; torch.save writes tuples",
        [BUFFER] = "a mutable or out-of-band buffer; only bytes are read",
    };
    return FAIL(m, CR_EUNSUPPORTED, "%s", why[data]);
}

/* ---- framing ---- */

static cr_status op_proto(machine *m, int data) {
    (void)data;
    if (m->operand[0] > 5) return FAIL(m, CR_EUNSUPPORTED, "pickle protocol %d; 0 to 5 are read", m->operand[0]);
    return CR_OK;
}

/* A frame only says how much to read ahead; everything is in memory here. */
static cr_status op_frame(machine *m, int data) {
    (void)data;
    uint64_t n = little(m->operand, 8);
    if (n > m->size - m->pos)
        return FAIL(m, CR_EFORMAT, "a frame of %llu bytes, the pickle has %zu more", (unsigned long long)n,
                    m->size - m->pos);
    return CR_OK;
}

static cr_status op_stop(machine *m, int data) {
    (void)data;
    CR_TRY(pop(m, &m->result));
    if (m->pos != m->size) return FAIL(m, CR_EFORMAT, "%zu bytes follow the end", m->size - m->pos);
    return CR_OK;
}

static const struct {
    const char *name;
    cr_status (*run)(machine *, int);
    uint8_t fixed;
    uint8_t data;
} opcodes[256] = {
    ['('] = { "MARK", op_mark, 0, 0 },
    ['.'] = { "STOP", op_stop, 0, 0 },
    ['0'] = { "POP", op_pop, 0, 0 },
    ['1'] = { "POP_MARK", op_pop_mark, 0, 0 },
    ['2'] = { "DUP", op_dup, 0, 0 },
    ['F'] = { "FLOAT", op_float_line, 0, 0 },
    ['I'] = { "INT", op_int_line, 0, 'I' },
    ['J'] = { "BININT", op_binint, 4, 4 },
    ['K'] = { "BININT1", op_binint, 1, 1 },
    ['L'] = { "LONG", op_int_line, 0, 'L' },
    ['M'] = { "BININT2", op_binint, 2, 2 },
    ['N'] = { "NONE", op_none, 0, 0 },
    ['P'] = { "PERSID", op_refused, 0, TEXT_ID },
    ['Q'] = { "BINPERSID", op_binpersid, 0, 0 },
    ['R'] = { "REDUCE", op_reduce, 0, 0 },
    ['S'] = { "STRING", op_text_line, 0, 'S' },
    ['T'] = { "BINSTRING", op_text, 4, 4 },
    ['U'] = { "SHORT_BINSTRING", op_text, 1, 1 },
    ['V'] = { "UNICODE", op_text_line, 0, 'V' },
    ['X'] = { "BINUNICODE", op_text, 4, 4 },
    ['a'] = { "APPEND", op_append, 0, 1 },
    ['b'] = { "BUILD", op_build, 0, 0 },
    ['c'] = { "GLOBAL", op_global, 0, 0 },
    ['d'] = { "DICT", op_collect, 0, CR_PICKLE_DICT },
    ['}'] = { "EMPTY_DICT", op_empty, 0, CR_PICKLE_DICT },
    ['e'] = { "APPENDS", op_append, 0, 0 },
    ['g'] = { "GET", op_get, 0, 0 },
    ['h'] = { "BINGET", op_get, 1, 1 },
    ['i'] = { "INST", op_inst, 0, 0 },
    ['j'] = { "LONG_BINGET", op_get, 4, 4 },
    ['l'] = { "LIST", op_collect, 0, CR_PICKLE_LIST },
    [']'] = { "EMPTY_LIST", op_empty, 0, CR_PICKLE_LIST },
    ['o'] = { "OBJ", op_refused, 0, OBJECT },
    ['p'] = { "PUT", op_put, 0, 0 },
    ['q'] = { "BINPUT", op_put, 1, 1 },
    ['r'] = { "LONG_BINPUT", op_put, 4, 4 },
    ['s'] = { "SETITEM", op_setitem, 0, 2 },
    ['t'] = { "TUPLE", op_collect, 0, CR_PICKLE_TUPLE },
    [')'] = { "EMPTY_TUPLE", op_empty, 0, CR_PICKLE_TUPLE },
    ['u'] = { "SETITEMS", op_setitem, 0, 0 },
    ['G'] = { "BINFLOAT", op_binfloat, 8, 0 },
    ['B'] = { "BINBYTES", op_bytes, 4, 4 },
    ['C'] = { "SHORT_BINBYTES", op_bytes, 1, 1 },
    [0x80] = { "PROTO", op_proto, 1, 0 },
    [0x81] = { "NEWOBJ", op_refused, 0, OBJECT },
    [0x82] = { "EXT1", op_refused, 1, EXTENSION },
    [0x83] = { "EXT2", op_refused, 2, EXTENSION },
    [0x84] = { "EXT4", op_refused, 4, EXTENSION },
    [0x85] = { "TUPLE1", op_tuple, 0, 1 },
    [0x86] = { "TUPLE2", op_tuple, 0, 2 },
    [0x87] = { "TUPLE3", op_tuple, 0, 3 },
    [0x88] = { "NEWTRUE", op_bool, 0, 1 },
    [0x89] = { "NEWFALSE", op_bool, 0, 0 },
    [0x8a] = { "LONG1", op_long_bytes, 1, 1 },
    [0x8b] = { "LONG4", op_long_bytes, 4, 4 },
    [0x8c] = { "SHORT_BINUNICODE", op_text, 1, 1 },
    [0x8d] = { "BINUNICODE8", op_text, 8, 8 },
    [0x8e] = { "BINBYTES8", op_bytes, 8, 8 },
    [0x8f] = { "EMPTY_SET", op_empty, 0, CR_PICKLE_SET },
    [0x90] = { "ADDITEMS", op_additems, 0, 0 },
    [0x91] = { "FROZENSET", op_collect, 0, CR_PICKLE_FROZENSET },
    [0x92] = { "NEWOBJ_EX", op_refused, 0, OBJECT },
    [0x93] = { "STACK_GLOBAL", op_stack_global, 0, 0 },
    [0x94] = { "MEMOIZE", op_memoize, 0, 0 },
    [0x95] = { "FRAME", op_frame, 8, 0 },
    [0x96] = { "BYTEARRAY8", op_refused, 8, BUFFER },
    [0x97] = { "NEXT_BUFFER", op_refused, 0, BUFFER },
    [0x98] = { "READONLY_BUFFER", op_refused, 0, BUFFER },
};

static cr_status run(machine *m) {
    while (!m->result) {
        m->at = m->pos;
        m->opcode = "end";
        if (m->pos == m->size) return FAIL(m, CR_EFORMAT, "the pickle ends without STOP");
        int code = m->data[m->pos++];
        if (!opcodes[code].run) {
            m->opcode = "?";
            return FAIL(m, CR_EFORMAT, "0x%02x is no pickle opcode", code);
        }
        m->opcode = opcodes[code].name;
        CR_TRY(take(m, opcodes[code].fixed, &m->operand));
        CR_TRY(opcodes[code].run(m, opcodes[code].data));
    }
    return CR_OK;
}

cr_status cr__pickle_parse(cr_arena *arena, const void *data, size_t size, const cr_pickle **out,
                           const cr_pickle_storage *const **storages, size_t *nstorages) {
    machine m = {.arena = arena, .data = data, .size = size};
    cr_status status;
    if (size > CR_PICKLE_LIMIT)
        return CR_FAIL(CR_EFORMAT, "a pickle of %zu bytes, the limit is %d", size, CR_PICKLE_LIMIT);
    m.weight_limit = 100000 + 4 * (uint64_t)size;
    cr_map_init(&m.storage_keys);
    CR_TRY_OUT(cr_vec_reserve(&m.stack, 16)); /* never NULL */
    CR_TRY_OUT(run(&m));
    CR_TRY_OUT(cr__pickle_check(&m, m.result));
    if (storages) {
        *storages = cr_arena_copy(arena, m.storages.at, m.storages.n * sizeof *m.storages.at);
        *nstorages = m.storages.n;
        if (!*storages) CR_TRY_OUT(CR_ENOMEM);
    }
    *out = &m.result->pub;
out:
    cr_vec_dispose(&m.stack);
    cr_vec_dispose(&m.marks);
    cr_vec_dispose(&m.memo);
    cr_vec_dispose(&m.storages);
    cr_map_dispose(&m.storage_keys);
    return status;
}

cr_status cr_pickle_parse(cr_arena *arena, const void *data, size_t size, const cr_pickle **out) {
    return cr__pickle_parse(arena, data, size, out, NULL, NULL);
}
