/* expand_einsum.c: einsum as products of pairs.
 *
 * Every subscript (and every dimension under an ellipsis) gets one place: first those of the output in its order, then
 * those summed away. Each operand is brought into that order, with size 1 where it has no such dimension, so that two
 * operands can be multiplied place by place. A place is summed in the last product that reads it: as the inner
 * dimension of bmm where both sides have it, else on its own side beforehand. */
#include "ops/formula.h"
#include "ops/rules.h"

enum { LETTERS = 52, ELLIPSIS = LETTERS, MAX_SUBSCRIPTS = CR_MAX_RANK + 1 };

typedef struct operand {
    cr_arg value;
    int n, ellipsis;                 /* subscripts; where "..." is among them, or -1 */
    uint8_t subscript[MAX_SUBSCRIPTS]; /* 0..51, or ELLIPSIS */
    uint32_t wide;                   /* a bit per place whose size is not 1 */
} operand;

typedef struct einsum {
    cr_emitter *e;
    CR_VEC(cr_arg) made; /* what calls gave; the last one is the newest */
    operand *operands;
    int n, places, outputs, covered; /* covered: dimensions under the longest ellipsis */
    int place[LETTERS + 1];          /* of each subscript, -1: none yet; the ellipsis: of its first dimension */
    int seen[LETTERS];
    int readers[CR_MAX_RANK];        /* operands left whose size at this place is not 1 */
} einsum;

static cr_status call(einsum *s, const char *name, int n, const cr_arg *given, cr_arg *result) {
    const cr_op *op = cr_op_find(name);
    cr_arg args[CR_MAX_PARAMS];
    if (!op) return CR_FAIL(CR_ENOTFOUND, "einsum needs the op '%s'", name);
    for (int i = 0; i < op->schema.nparams; i++) args[i] = i < n ? given[i] : op->schema.params[i].fallback;
    CR_TRY(cr_vec_reserve(&s->made, s->made.n + 1));
    CR_TRY(s->e->call(s->e, op, args, result));
    s->made.at[s->made.n++] = *result;
    return CR_OK;
}

/* Calls an op of one tensor and one list of ints. */
static cr_status call_list(einsum *s, const char *name, cr_arg *value, const cr_dim *ints, int n, bool keepdim) {
    cr_arg items[CR_MAX_RANK];
    for (int i = 0; i < n; i++) items[i] = cr_arg_int(ints[i]);
    cr_arg given[3] = { *value, cr_arg_list(items, (size_t)n), cr_arg_bool(keepdim) };
    return call(s, name, keepdim ? 3 : 2, given, value);
}

static cr_status sum_places(einsum *s, cr_arg *value, const cr_dim *places, int n) {
    return n ? call_list(s, "aten::sum.dim_IntList", value, places, n, true) : CR_OK;
}

/* ---- the equation ---- */

static int letter_of(char c) { return c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? c - 'a' + 26 : -1; }

/* One subscript at text[*i], which is not a space; *i becomes its last character. */
static cr_status read_subscript(const char *text, uint32_t n, uint32_t *i, int *out) {
    if (text[*i] == '.') {
        if (n - *i < 3 || text[*i + 1] != '.' || text[*i + 2] != '.')
            return CR_FAIL(CR_ERUNTIME, "einsum: the '.' at %u of \"%s\" is not part of an ellipsis; write '...'", *i,
                           text);
        *i += 2;
        *out = ELLIPSIS;
        return CR_OK;
    }
    *out = letter_of(text[*i]);
    if (*out < 0)
        return CR_FAIL(CR_ERUNTIME, "einsum: '%c' at %u of \"%s\" is no subscript; use letters a-z and A-Z", text[*i],
                       *i, text);
    return CR_OK;
}

static cr_status read_inputs(einsum *s, const char *text, uint32_t n) {
    int at = 0;
    for (uint32_t i = 0; i < n; i++) {
        int subscript;
        operand *o = &s->operands[at];
        if (text[i] == ' ') continue;
        if (text[i] == ',') {
            if (++at >= s->n)
                return CR_FAIL(CR_ERUNTIME, "einsum: \"%s\" names more than the %d operands that were given", text,
                               s->n);
            continue;
        }
        CR_TRY(read_subscript(text, n, &i, &subscript));
        if (o->n == MAX_SUBSCRIPTS)
            return CR_FAIL(CR_ERUNTIME,
                           "einsum: operand %d has more subscripts in \"%s\" than a tensor may have dimensions", at,
                           text);
        if (subscript == ELLIPSIS) {
            if (o->ellipsis >= 0)
                return CR_FAIL(CR_ERUNTIME, "einsum: operand %d has two ellipses in \"%s\"", at, text);
            o->ellipsis = o->n;
        } else {
            s->seen[subscript]++;
        }
        o->subscript[o->n++] = (uint8_t)subscript;
    }
    if (at + 1 < s->n)
        return CR_FAIL(CR_ERUNTIME, "einsum: \"%s\" names %d operands, but %d were given", text, at + 1, s->n);
    return CR_OK;
}

static cr_status give_place(einsum *s, int subscript) {
    int count = subscript == ELLIPSIS ? s->covered : 1;
    if (s->places + count > CR_MAX_RANK)
        return CR_FAIL(CR_EUNSUPPORTED, "einsum: more than %d different dimensions in one equation", CR_MAX_RANK);
    s->place[subscript] = s->places;
    s->places += count;
    return CR_OK;
}

/* `text`: what follows the arrow; NULL: nothing was said, so subscripts that occur once, in alphabetical order. */
static cr_status read_output(einsum *s, const char *text, uint32_t n) {
    for (int i = 0; i <= LETTERS; i++) s->place[i] = -1;
    if (!text) {
        CR_TRY(give_place(s, ELLIPSIS));
        for (int i = 0; i < LETTERS; i++)
            if (s->seen[i] == 1) CR_TRY(give_place(s, i));
    }
    for (uint32_t i = 0; text && i < n; i++) {
        int subscript;
        if (text[i] == ' ') continue;
        CR_TRY(read_subscript(text, n, &i, &subscript));
        if (s->place[subscript] >= 0)
            return CR_FAIL(CR_ERUNTIME, "einsum: the output \"%s\" has a subscript twice", text);
        if (subscript != ELLIPSIS && !s->seen[subscript])
            return CR_FAIL(CR_ERUNTIME, "einsum: '%c' of the output is in no operand", text[i]);
        CR_TRY(give_place(s, subscript));
    }
    s->outputs = s->places;
    if (s->place[ELLIPSIS] < 0) CR_TRY(give_place(s, ELLIPSIS));
    for (int i = 0; i < LETTERS; i++)
        if (s->seen[i] && s->place[i] < 0) CR_TRY(give_place(s, i));
    return CR_OK;
}

static cr_status read_equation(einsum *s, const cr_arg *equation) {
    const char *text = equation->u.s, *arrow = strstr(text, "->");
    CR_TRY(read_inputs(s, text, arrow ? (uint32_t)(arrow - text) : equation->n));
    for (int i = 0; i < s->n; i++) {
        const cr_meta *m = NULL;
        operand *o = &s->operands[i];
        CR_TRY(s->e->meta(s->e, &o->value, &m));
        int named = o->n - (o->ellipsis >= 0);
        if (o->ellipsis >= 0 ? named > m->rank : named != m->rank)
            return CR_FAIL(CR_ERUNTIME, "einsum: operand %d has %d dimensions, but %d subscripts in \"%s\"", i, m->rank,
                           named, text);
        if (o->ellipsis >= 0 && m->rank - named > s->covered) s->covered = m->rank - named;
    }
    return read_output(s, arrow ? arrow + 2 : NULL, arrow ? equation->n - (uint32_t)(arrow + 2 - text) : 0);
}

/* ---- operands in one order ---- */

static cr_status arrange(einsum *s, operand *o, int *rank, cr_dim *sizes) {
    const cr_meta *m = NULL;
    int place[CR_MAX_RANK], n = 0, dim_at[CR_MAX_RANK]; /* the place of each dimension; the dimension at each place */
    CR_TRY(s->e->meta(s->e, &o->value, &m));
    int covers = m->rank - (o->n - (o->ellipsis >= 0));
    for (int i = 0; i < o->n; i++) {
        if (o->subscript[i] != ELLIPSIS) place[n++] = s->place[o->subscript[i]];
        else
            for (int k = s->covered - covers; k < s->covered; k++) place[n++] = s->place[ELLIPSIS] + k;
    }
    for (int p = 0; p < s->places; p++) dim_at[p] = -1;
    for (int d = 0; d < n;) {
        int first = dim_at[place[d]];
        if (first < 0) {
            dim_at[place[d]] = d;
            d++;
            continue;
        }
        CR_TRY(s->e->meta(s->e, &o->value, &m));
        CR_TRY(cr_dim_require(s->e->env, m->size[first], CR_EQ, m->size[d],
                              "einsum: dimensions of an operand that share a subscript must have one size"));
        cr_arg take[4] = { o->value, cr_arg_int(0), cr_arg_int(first), cr_arg_int(d) }, move[3];
        CR_TRY(call(s, "aten::diagonal", 4, take, &o->value));
        move[0] = o->value;
        move[1] = cr_arg_int(-1);
        move[2] = cr_arg_int(first);
        CR_TRY(call(s, "aten::movedim.int", 3, move, &o->value));
        memmove(place + d, place + d + 1, (size_t)(n - d - 1) * sizeof *place);
        n--;
    }
    for (int p = 0; p < s->places; p++) {
        if (dim_at[p] >= 0) continue;
        cr_arg add[2] = { o->value, cr_arg_int(n) };
        CR_TRY(call(s, "aten::unsqueeze", 2, add, &o->value));
        dim_at[p] = n++;
    }
    cr_dim order[CR_MAX_RANK];
    for (int p = 0; p < s->places; p++) order[p] = dim_at[p];
    CR_TRY(call_list(s, "aten::permute", &o->value, order, s->places, false));
    CR_TRY(s->e->meta(s->e, &o->value, &m));
    for (int p = 0; p < s->places; p++) {
        bool one = cr_dim_known(s->e->env, m->size[p], CR_EQ, 1) == CR_YES;
        if (!one) s->readers[p]++, o->wide |= 1u << p;
    }
    return cr_broadcast(s->e->env, rank, sizes, s->places, m->size);
}

/* ---- products ---- */

static int append_places(uint32_t mask, int places, cr_dim *order, int n) {
    for (int p = 0; p < places; p++)
        if (mask >> p & 1) order[n++] = p;
    return n;
}

/* The product of the sizes at the places of a mask. */
static cr_dim extent(cr_env *env, const cr_dim *size, uint32_t mask) {
    cr_dim product = 1;
    for (int p = 0; p < CR_MAX_RANK; p++)
        if (mask >> p & 1) product = cr_dim_mul(env, product, size[p]);
    return product;
}

/* One side of bmm: the places of three masks become three dimensions; `rest` has size 1 everywhere. */
static cr_status flatten_side(einsum *s, cr_arg *value, const cr_dim *size, uint32_t a, uint32_t b, uint32_t c,
                              uint32_t rest) {
    cr_dim order[CR_MAX_RANK],
        flat[3] = { extent(s->e->env, size, a), extent(s->e->env, size, b), extent(s->e->env, size, c) };
    int n = append_places(a, s->places, order, 0);
    n = append_places(b, s->places, order, n);
    n = append_places(c, s->places, order, n);
    n = append_places(rest, s->places, order, n);
    CR_TRY(call_list(s, "aten::permute", value, order, n, false));
    return call_list(s, "aten::reshape", value, flat, 3, false);
}

static cr_status multiply_matrices(einsum *s, const operand *a, const operand *b, uint32_t summed, cr_arg *out) {
    uint32_t all = (uint32_t)((1ull << s->places) - 1);
    uint32_t batch = a->wide & b->wide & ~summed, rows = a->wide & ~b->wide & ~summed,
             columns = all & ~(batch | rows | summed);
    cr_dim size[2][CR_MAX_RANK], order[CR_MAX_RANK], shape[CR_MAX_RANK], back[CR_MAX_RANK];
    cr_arg side[2] = { a->value, b->value };
    for (int i = 0; i < 2; i++) {
        const cr_meta *m = NULL;
        CR_TRY(s->e->meta(s->e, &side[i], &m));
        memcpy(size[i], m->size, (size_t)s->places * sizeof **size);
    }
    /* all columns come before all rows: the other order gives a dense result */
    int left = columns && (rows & -rows) > columns;
    if (left) {
        uint32_t swap = rows;
        rows = columns;
        columns = swap;
    }
    cr_arg *l = &side[left], *r = &side[!left];
    CR_TRY(flatten_side(s, l, size[left], batch, rows, summed, columns));
    CR_TRY(flatten_side(s, r, size[!left], batch, summed, columns, rows));
    cr_arg pair[2] = { *l, *r };
    CR_TRY(call(s, "aten::bmm", 2, pair, out));
    int n = append_places(batch, s->places, order, 0);
    n = append_places(rows, s->places, order, n);
    n = append_places(summed, s->places, order, n);
    n = append_places(columns, s->places, order, n);
    for (int i = 0; i < n; i++) {
        uint32_t bit = 1u << order[i];
        shape[i] = bit & summed ? 1 : size[bit & columns ? !left : left][order[i]];
        back[order[i]] = i;
    }
    CR_TRY(call_list(s, "aten::reshape", out, shape, n, false));
    return call_list(s, "aten::permute", out, back, n, false);
}

/* `a` becomes the product of a and b. */
static cr_status contract(einsum *s, operand *a, operand *b) {
    cr_dim alone[2][CR_MAX_RANK];
    int n[2] = { 0, 0 };
    uint32_t summed = 0;
    for (int p = s->outputs; p < s->places; p++) {
        bool in[2] = { a->wide >> p & 1, b->wide >> p & 1 };
        if (in[0] && in[1]) {
            if (--s->readers[p] == 1) s->readers[p] = 0, summed |= 1u << p;
        } else if (s->readers[p] == 1 && (in[0] || in[1])) {
            operand *o = in[0] ? a : b;
            alone[!in[0]][n[!in[0]]++] = p;
            o->wide &= ~(1u << p);
            s->readers[p] = 0;
        }
    }
    CR_TRY(sum_places(s, &a->value, alone[0], n[0]));
    CR_TRY(sum_places(s, &b->value, alone[1], n[1]));
    cr_arg product, pair[2] = { a->value, b->value };
    CR_TRY(summed ? multiply_matrices(s, a, b, summed, &product) : call(s, "aten::mul.Tensor", 2, pair, &product));
    a->value = product;
    a->wide = (a->wide | b->wide) & ~summed;
    return CR_OK;
}

/* The pairs of `path` in turn, each product going to the end; without a path from left to right. */
static cr_status contract_all(einsum *s, const cr_arg *path) {
    bool given = path->kind == CR_ARG_LIST;
    uint32_t want = s->n == 1 ? 1 : 2 * (uint32_t)(s->n - 1);
    if (given && path->n != want)
        return CR_FAIL(CR_ERUNTIME, "einsum: path must have %u numbers, got %u", want, path->n);
    for (int left = s->n, step = 0; left > 1; left--, step++) {
        int64_t i = given ? path->u.list[2 * step].u.i : 0, j = given ? path->u.list[2 * step + 1].u.i : 1;
        if (i > j) {
            int64_t swap = i;
            i = j;
            j = swap;
        }
        if (i < 0 || j >= left || i == j)
            return CR_FAIL(CR_ERUNTIME, "einsum: path has the pair (%lld, %lld), but it must be two of %d operands",
                           (long long)i, (long long)j, left);
        operand *o = s->operands;
        CR_TRY(contract(s, &o[i], &o[j]));
        memmove(o + j, o + j + 1, (size_t)(left - 1 - j) * sizeof *o);
        if (!given) continue;
        operand product = o[i];
        memmove(o + i, o + i + 1, (size_t)(left - 2 - i) * sizeof *o);
        o[left - 2] = product;
    }
    return CR_OK;
}

static cr_status run(einsum *s, const cr_arg *args) {
    int rank = 0;
    cr_dim sizes[CR_MAX_RANK];
    CR_TRY(read_equation(s, &args[0]));
    for (int i = 0; i < s->n; i++) CR_TRY(arrange(s, &s->operands[i], &rank, sizes));
    CR_TRY(contract_all(s, &args[2]));
    if (s->places == s->outputs) return CR_OK;
    if (s->n > 1) return call_list(s, "aten::reshape", &s->operands[0].value, sizes, s->outputs, false);
    for (int p = s->outputs; p < s->places; p++) sizes[p - s->outputs] = p;
    return call_list(s, "aten::sum.dim_IntList", &s->operands[0].value, sizes, s->places - s->outputs, false);
}

/* equation, tensors, path */
cr_status expand_einsum(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    (void)op;
    einsum s = { .e = e, .n = (int)args[1].n };
    if (!s.n) return CR_FAIL(CR_ERUNTIME, "einsum: there must be at least one operand");
    s.operands = cr_alloc((size_t)s.n * sizeof *s.operands);
    if (!s.operands) return CR_ENOMEM;
    for (int i = 0; i < s.n; i++) s.operands[i] = (operand){ .value = args[1].u.list[i], .ellipsis = -1 };
    cr_status status = run(&s, args);
    if (!status) results[0] = s.made.at[--s.made.n];
    e->release(e, s.made.at, s.made.n);
    cr_vec_dispose(&s.made);
    cr_free(s.operands);
    return status;
}

/* A letter per dimension; an operand leaves out those it is expanded along. i1 and i3 meet first, as in PyTorch: they
 * are the smaller ones. */
/* i1, i2, i3, expand1, expand2, expand3, sumdim, unroll_dim */
cr_status expand_trilinear(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    static const int order[3] = { 0, 2, 1 };
    char text[4 * (CR_MAX_RANK + 4)];
    int n = 0, rank = 0;
    uint32_t left_out[4] = { 0 };
    cr_arg tensors[3], call[3] = { cr_arg_none(), cr_arg_none(), cr_arg_none() };
    (void)op;
    for (int i = 0; i < 4; i++) {
        const cr_meta *m = NULL;
        if (i < 3) {
            CR_TRY(e->meta(e, &args[i], &m));
            rank = m->rank + (int)args[3 + i].n;
        }
        for (uint32_t k = 0; k < args[3 + i].n; k++) {
            int d = 0;
            CR_TRY(cr_wrap_dim(args[3 + i].u.list[k].u.i, rank, &d));
            left_out[i] |= 1u << d;
        }
    }
    for (int i = 0; i < 4; i++) {
        uint32_t gone = left_out[i < 3 ? order[i] : 3];
        for (int d = 0; d < rank; d++)
            if (!(gone >> d & 1)) text[n++] = (char)('a' + d);
        if (i < 2) text[n++] = ',';
        if (i == 2) text[n++] = '-', text[n++] = '>';
        if (i < 3) tensors[i] = args[order[i]];
    }
    text[n] = 0;
    call[0] = cr_arg_str(text);
    call[1] = cr_arg_list(tensors, 3);
    const cr_op *einsum = cr_op_find("aten::einsum");
    return einsum ? e->call(e, einsum, call, results) : CR_FAIL(CR_ENOTFOUND, "there is no op 'aten::einsum'");
}
