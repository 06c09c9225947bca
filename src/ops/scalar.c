/* scalar.c: running pointwise rows: finding the program for a call, and calling it.
 *
 * The key of a program is the common dtype, the outcome of each static condition in the row's text, and which inputs
 * are lazily conjugated or negated. Plans and programs are only ever added, under a lock; readers follow pointers that
 * are published with release order, so a call takes no lock. */
#include "ops/call.h"
#include "ops/scalar_internal.h"

#include <math.h>
#include <pthread.h>

enum { MAX_PLANS = 8192, MAX_TESTS = 24 };
typedef struct variant {
    uint64_t key;
    struct variant *next;
    cr_scalar_program *program;
} variant;
typedef struct plan {
    cr_arena arena;
    cr_formula formula;
    cr__test tests[MAX_TESTS];
    int ntests;
    variant *variants; /* newest first */
} plan;

static plan *plans[MAX_PLANS]; /* by op id; the op table holds no more */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- static conditions ---- */

static int find_param(const cr_op *op, const char *name) {
    for (int i = 0; i < op->schema.nparams; i++)
        if (!strcmp(op->schema.params[i].name, name)) return i;
    return -1;
}

static bool is_number_type(int type) { return type == CR_T_SCALAR || type == CR_T_FLOAT || type == CR_T_INT; }

static bool literal_number(const cr_fnode *node, double *out) {
    if (node->kind == CR_F_NEG && literal_number(node->kids[0], out)) return *out = -*out, true;
    if (node->kind == CR_F_INT) return *out = (double)node->u.i, true;
    if (node->kind == CR_F_FLOAT) return *out = node->u.f, true;
    return false;
}

/* nan_to_num has an argument called `nan`: there the word means the argument. */
static int param_of(const cr_op *op, const cr_fnode *node) {
    if (node->kind == CR_F_FLOAT && isnan(node->u.f)) return find_param(op, "nan");
    return node->kind == CR_F_NAME ? find_param(op, node->name) : -1;
}

int cr__number_param(const cr_op *op, const cr_fnode *node) {
    int i = param_of(op, node);
    return i >= 0 && is_number_type(op->schema.params[i].type) && !op->schema.params[i].list ? i : -1;
}

static int flipped(int compare) {
    switch (compare) {
    case CR_F_LT: return CR_F_GT;
    case CR_F_GT: return CR_F_LT;
    case CR_F_LE: return CR_F_GE;
    case CR_F_GE: return CR_F_LE;
    default: return compare;
    }
}

static bool test_compare(const cr_op *op, const cr_fnode *node, cr__test *out) {
    const cr_fnode *l = node->kids[0], *r = node->kids[1];
    int a = cr__number_param(op, l), b = cr__number_param(op, r), compare = node->kind;
    if (l->kind == CR_F_NAME && r->kind == CR_F_STR) {
        int i = find_param(op, l->name);
        if (i < 0 || op->schema.params[i].type != CR_T_STR) return false;
        *out = (cr__test){ .kind = TEST_TEXT, .compare = (uint8_t)compare, .a = (uint8_t)i, .text = r->name };
        return true;
    }
    *out = (cr__test){ .kind = TEST_NUMBER, .compare = (uint8_t)compare };
    if (a >= 0 && b >= 0) {
        out->kind = TEST_PAIR;
        out->a = (uint8_t)a, out->b = (uint8_t)b;
        return true;
    }
    if (a >= 0 && literal_number(r, &out->number)) return out->a = (uint8_t)a, true;
    if (b >= 0 && literal_number(l, &out->number))
        return out->a = (uint8_t)b, out->compare = (uint8_t)flipped(compare), true;
    return false;
}

bool cr__test_make(const cr_op *op, const cr_fnode *node, cr__test *out) {
    static const struct { const char *name; uint8_t kind; } kinds[] = {
        { "is_complex", TEST_COMPLEX },
        { "is_float", TEST_FLOAT },
        { "is_integral", TEST_INTEGRAL },
        { "is_bool", TEST_BOOL },
    };
    if (cr_fkind_is_compare(node->kind)) return test_compare(op, node, out);
    if (node->kind == CR_F_IS_NONE || node->kind == CR_F_IS_NOT_NONE) {
        int i = param_of(op, node->kids[0]);
        if (i < 0) return false;
        *out = (cr__test){ .kind = TEST_NONE, .compare = node->kind, .a = (uint8_t)i };
        return true;
    }
    if (node->kind == CR_F_NAME) {
        int i = find_param(op, node->name);
        if (i < 0 || op->schema.params[i].type != CR_T_BOOL) return false;
        *out = (cr__test){ .kind = TEST_TRUE, .a = (uint8_t)i };
        return true;
    }
    bool zero_dim = node->kind == CR_F_CALL && node->nkids == 1 && !strcmp(node->name, "zero_dim");
    if (zero_dim || (node->kind == CR_F_CALL && node->nkids == 1 && !strcmp(node->name, "holds_integers"))) {
        int i = param_of(op, node->kids[0]);
        *out = (cr__test){ .kind = zero_dim ? TEST_ZERO_DIM : TEST_HOLDS_INTEGERS, .a = (uint8_t)i };
        return i >= 0 && op->schema.params[i].type == CR_T_TENSOR;
    }
    if (node->kind == CR_F_CALL && node->nkids == 1) {
        int i = cr__number_param(op, node->kids[0]);
        for (size_t k = 0; i >= 0 && k < CR_COUNT(kinds); k++) {
            if (strcmp(kinds[k].name, node->name)) continue;
            *out = (cr__test){ .kind = kinds[k].kind, .a = (uint8_t)i };
            return true;
        }
    }
    return false;
}

static double real_of(const cr_arg *a) {
    return a->kind == CR_ARG_FLOAT ? a->u.f : a->kind == CR_ARG_COMPLEX ? a->u.c[0] : (double)a->u.i;
}
static double imaginary_of(const cr_arg *a) { return a->kind == CR_ARG_COMPLEX ? a->u.c[1] : 0; }

static bool compare_numbers(int compare, double a, double b, bool same_imaginary) {
    switch (compare) {
    case CR_F_EQ: return a == b && same_imaginary;
    case CR_F_NE: return a != b || !same_imaginary;
    case CR_F_LT: return a < b;
    case CR_F_LE: return a <= b;
    case CR_F_GT: return a > b;
    default: return a >= b;
    }
}

bool cr__test_run(const cr__test *test, const cr_arg *args) {
    const cr_arg *a = &args[test->a], *b = &args[test->b];
    switch ((cr__test_kind)test->kind) {
    case TEST_NONE: return (a->kind == CR_ARG_NONE) == (test->compare == CR_F_IS_NONE);
    case TEST_TRUE: return a->u.i != 0;
    case TEST_TEXT: return (a->kind == CR_ARG_STR && !strcmp(a->u.s, test->text)) == (test->compare == CR_F_EQ);
    case TEST_NUMBER:
        return cr_arg_is_number(a) && compare_numbers(test->compare, real_of(a), test->number, imaginary_of(a) == 0);
    case TEST_PAIR:
        return cr_arg_is_number(a) && cr_arg_is_number(b) &&
               compare_numbers(test->compare, real_of(a), real_of(b), imaginary_of(a) == imaginary_of(b));
    case TEST_COMPLEX: return a->kind == CR_ARG_COMPLEX;
    case TEST_FLOAT: return a->kind == CR_ARG_FLOAT;
    case TEST_INTEGRAL: return a->kind == CR_ARG_INT || a->kind == CR_ARG_BOOL;
    case TEST_BOOL: return a->kind == CR_ARG_BOOL;
    case TEST_ZERO_DIM: return cr_arg_meta(a) && cr_arg_meta(a)->rank == 0;
    case TEST_HOLDS_INTEGERS:
        return cr_arg_meta(a) && !cr_dtype_is_floating(cr_arg_meta(a)->dtype) &&
               !cr_dtype_is_complex(cr_arg_meta(a)->dtype);
    }
    return false;
}

static bool same_test(const cr__test *a, const cr__test *b) {
    return a->kind == b->kind && a->compare == b->compare && a->a == b->a && a->b == b->b && a->number == b->number &&
           (a->text == b->text || (a->text && b->text && !strcmp(a->text, b->text)));
}

static cr_status collect_tests(plan *p, const cr_op *op, const cr_fnode *node) {
    cr__test test;
    if (cr__test_make(op, node, &test)) {
        for (int i = 0; i < p->ntests; i++)
            if (same_test(&p->tests[i], &test)) return CR_OK;
        if (p->ntests == MAX_TESTS)
            return cr_formula_fail(op->name, op->row->scalar, node->at, "more than %d static conditions", MAX_TESTS);
        p->tests[p->ntests++] = test;
        return CR_OK;
    }
    for (int i = 0; i < node->nkids; i++)
        if (node->kids[i]) CR_TRY(collect_tests(p, op, node->kids[i]));
    return CR_OK;
}

/* ---- plans and programs ---- */

/* With the lock held. */
static cr_status add_plan(const cr_op *op, plan **out) {
    plan *p = cr_calloc(1, sizeof *p);
    if (!p) return CR_ENOMEM;
    cr_arena_init(&p->arena);
    cr_status status = CR_OK;
    if (op->id >= MAX_PLANS)
        status = CR_FAIL(CR_ERUNTIME, "%s: too many ops (%u) to run pointwise text", op->name, op->id);
    if (!status) status = cr_formula_parse(&p->arena, op->row->scalar, CR_FORMULA_SCALAR, &p->formula);
    for (int i = 0; !status && i < p->formula.n; i++)
        for (int k = 0; !status && k < p->formula.statements[i].nvalues; k++)
            status = collect_tests(p, op, p->formula.statements[i].values[k]);
    if (status) {
        cr_arena_dispose(&p->arena);
        cr_free(p);
        return status;
    }
    __atomic_store_n(&plans[op->id], p, __ATOMIC_RELEASE);
    *out = p;
    return CR_OK;
}

static cr_status add_variant(plan *p, const cr_op *op, int common, uint64_t key, const cr_arg *args, variant **out) {
    variant *v = cr_calloc(1, sizeof *v);
    if (!v) return CR_ENOMEM;
    v->key = key;
    v->next = p->variants;
    cr_status status = cr__scalar_compile(op, &p->formula, common, args, &v->program);
    if (status) {
        cr_free(v);
        return status;
    }
    __atomic_store_n(&p->variants, v, __ATOMIC_RELEASE);
    *out = v;
    return CR_OK;
}

static uint64_t key_of(const plan *p, const cr_op *op, int common, const cr_arg *args) {
    uint64_t key = (uint64_t)common;
    for (int i = 0; i < p->ntests; i++) key |= (uint64_t)cr__test_run(&p->tests[i], args) << (8 + i);
    for (int i = 0, t = 0; i < op->schema.nparams; i++) {
        if (op->schema.params[i].type != CR_T_TENSOR) continue;
        const cr_meta *m = cr_arg_meta(&args[i]);
        if (m) key |= (uint64_t)((m->flags & (CR_META_CONJ | CR_META_NEG)) / CR_META_CONJ) << (8 + MAX_TESTS + 2 * t);
        t++;
    }
    return key;
}

static variant *find_variant(const plan *p, uint64_t key) {
    variant *v = __atomic_load_n(&p->variants, __ATOMIC_ACQUIRE);
    while (v && v->key != key) v = v->next;
    return v;
}

static cr_status make_program(const cr_op *op, int common, const cr_arg *args, variant **out) {
    pthread_mutex_lock(&lock);
    plan *p = op->id < MAX_PLANS ? plans[op->id] : NULL;
    cr_status status = p ? CR_OK : add_plan(op, &p);
    if (!status) {
        uint64_t key = key_of(p, op, common, args);
        *out = find_variant(p, key);
        if (!*out) status = add_variant(p, op, common, key, args, out);
    }
    pthread_mutex_unlock(&lock);
    return status;
}

static inline cr_status get_variant(const cr_op *op, int common, const cr_arg *args, variant **out) {
    plan *p = op->id < MAX_PLANS ? __atomic_load_n(&plans[op->id], __ATOMIC_ACQUIRE) : NULL;
    *out = p ? find_variant(p, key_of(p, op, common, args)) : NULL;
    return *out ? CR_OK : make_program(op, common, args, out);
}

static bool is_symbolic(const cr_arg *a) {
    return a->kind == CR_ARG_SYM || (a->kind == CR_ARG_INT && !cr_dim_is_plain(a->u.i));
}

/* Which branch an equality takes for a number that only a run knows: the one that is right for every number. An order
 * has none. */
static cr_status refuse_orders(const cr_op *op, int param) {
    const plan *p = __atomic_load_n(&plans[op->id], __ATOMIC_ACQUIRE);
    for (int i = 0; p && i < p->ntests; i++) {
        const cr__test *t = &p->tests[i];
        bool reads = (t->kind == TEST_NUMBER && t->a == param) ||
                     (t->kind == TEST_PAIR && (t->a == param || t->b == param)) ||
                     (t->kind == TEST_TRUE && t->a == param);
        if (reads && (t->kind == TEST_TRUE || (t->compare != CR_F_EQ && t->compare != CR_F_NE)))
            return CR_FAIL(CR_EUNSUPPORTED, "%s: what it computes depends on '%s', a number that only a run knows",
                           op->name, op->schema.params[param].name);
    }
    return CR_OK;
}

cr_status cr_scalar_get(const cr_op *op, int common, const cr_arg *args, const cr_scalar_program **out) {
    enum { NOBODY = 0x3b9aca07 }; /* equals no number that a text compares with */
    variant *v;
    cr_arg known[CR_MAX_PARAMS];
    op = op->base;
    for (uint16_t i = 0; i < op->schema.nparams; i++) {
        known[i] = args[i];
        if (!is_symbolic(&args[i])) continue;
        bool real = args[i].kind == CR_ARG_SYM && cr_sym_type_of(args[i].u.sym) == CR_TYPE_FLOAT;
        known[i] = real ? cr_arg_float(NOBODY + 0.5) : cr_arg_int(NOBODY);
    }
    CR_TRY(get_variant(op, common, known, &v));
    for (uint16_t i = 0; i < op->schema.nparams; i++)
        if (is_symbolic(&args[i])) CR_TRY(refuse_orders(op, i));
    *out = v->program;
    return CR_OK;
}

cr_status cr_scalar_run(const cr_op *op, int common, const cr_arg *args, const rt_view *out, int nout) {
    variant *v;
    CR_TRY(get_variant(op, common, args, &v));
    const rt_program *program = &v->program->program;
    if (nout != program->nout)
        return CR_FAIL(CR_ERUNTIME, "%s: its text gives %d results, its rule %d", op->name, program->nout, nout);
    rt_operand operands[RT_BLOCK_MAX_PORTS];
    rt_scalar constants[RT_BLOCK_MAX_PORTS];
    for (int i = 0; i < program->nin; i++) {
        const cr_tensor *t = args[v->program->input[i]].u.t;
        char *data = t->storage->data;
        operands[i] = (rt_operand){ data ? data + t->meta.offset * rt_itemsize(t->meta.dtype) : NULL, t->meta.size,
                                    t->meta.stride, t->meta.rank, t->meta.dtype };
    }
    for (int i = 0; i < nout; i++) operands[program->nin + i] = rt_operand_of(&out[i]);
    for (int i = 0; i < program->nconstants; i++) constants[i] = cr_arg_scalar(&args[v->program->constant[i]]);
    char message[256];
    message[0] = 0;
    rt_ctx ctx = cr_kernel_ctx(message, sizeof message);
    int code = rt_block_run(&ctx, program, operands, constants);
    return code ? cr__kernel_status(code, op->schema.name, message) : CR_OK;
}
