/* rules_rare.c: uint16, uint32, uint64 and complex32, where an op has a kernel for them on some of its paths only.
 *
 * PyTorch's CPU moves and compares such tensors, and computes little with them. What whole ops do is recorded in
 * table/accepts.inc; this table has the ops that depend on the call: a sum has no kernel, but a sum over nothing needs
 * none. It is asked for these dtypes alone, so that no other call pays for it. */
#include "ops/rules.h"

#include <math.h>

enum {
    UNSIGNED = 1u << CR_U16 | 1u << CR_U32 | 1u << CR_U64,
    COMPLEX = 1u << CR_C32,
    RARE = UNSIGNED | COMPLEX,
};
typedef enum whose { INPUT, COMMON, RESULT } whose; /* which dtype is asked for */

static bool is_empty(const cr_rule *r, const cr_meta *m) {
    return cr_dim_known(r->env, cr_meta_numel(r->env, m), CR_EQ, 0) == CR_YES;
}
static bool equals(const cr_arg *a, int number) {
    return a->kind == CR_ARG_INT ? a->u.i == number : a->kind == CR_ARG_FLOAT && a->u.f == number;
}
static bool is_true(const cr_arg *a) { return a->kind == CR_ARG_BOOL && a->u.i; }

static bool always(const cr_rule *r) { return r != NULL; }
static bool if_any(const cr_rule *r) { return !is_empty(r, cr_rule_meta(r, 0)); }
static bool if_rounded(const cr_rule *r) { return r->arg[r->nargs - 1].kind != CR_ARG_NONE; }
/* else a fill or a copy */
static bool if_exponent(const cr_rule *r) {
    return !equals(&r->arg[1], 0) && !equals(&r->arg[1], 1) && !is_true(&r->arg[1]);
}
static bool if_base(const cr_rule *r) { return !equals(&r->arg[0], 1); }
/* else windows are copied to their places */
static bool if_overlapping(const cr_rule *r) { return cr_rule_int(r, 4) < cr_rule_int(r, 3); }
static bool if_flat(const cr_rule *r) { return cr_rule_meta(r, 0)->rank < 2; }
static bool if_ranked(const cr_rule *r) { return cr_rule_meta(r, 0)->rank > 0 && if_any(r); }
static bool if_asked_for_any(const cr_rule *r) { return cr_dim_known(r->env, cr_rule_int(r, 1), CR_EQ, 0) != CR_YES; }
static bool if_all(const cr_rule *r) { return r->arg[1].kind == CR_ARG_NONE; }
static bool if_steps(const cr_rule *r) { return cr_rule_int(r, 2) > 1; }
static bool if_pivots(const cr_rule *r) { return cr_rule_bool(r, 3); }

/* Rows are copied whole; only elements within a row need a kernel. */
static bool if_rows_turn(const cr_rule *r) {
    const cr_meta *m = cr_rule_meta(r, 0);
    for (uint32_t i = 0; i < r->arg[1].n; i++) {
        int64_t dim = r->arg[1].u.list[i].u.i;
        if (m->rank && (dim == -1 || dim == m->rank - 1)) return !is_empty(r, m);
    }
    return false;
}

static bool if_same_size(const cr_rule *r) {
    const cr_meta *a = cr_rule_meta(r, 0), *b = cr_rule_meta(r, 1);
    bool same = a->rank == b->rank;
    for (int d = 0; same && d < a->rank; d++) same = cr_dim_known(r->env, a->size[d], CR_EQ, b->size[d]) == CR_YES;
    return same;
}

/* PyTorch compares with few elements one by one, and sorts many. */
static bool if_few(const cr_rule *r) {
    cr_dim n = cr_meta_numel(r->env, cr_rule_meta(r, 0)), tests = cr_meta_numel(r->env, cr_rule_meta(r, 1));
    if (!cr_dim_is_plain(n) || !cr_dim_is_plain(tests)) return false;
    return n && (double)tests < 10 * pow((double)n, 0.145);
}

static bool if_dim_of_none(const cr_rule *r) { return r->arg[1].kind == CR_ARG_INT && !cr_rule_meta(r, 0)->rank; }
static bool if_dim_of_one(const cr_rule *r) {
    const cr_meta *m = cr_rule_meta(r, 0);
    if (r->arg[1].kind != CR_ARG_INT || !m->rank) return false;
    int64_t dim = r->arg[1].u.i < 0 ? r->arg[1].u.i + m->rank : r->arg[1].u.i;
    return cr_dim_known(r->env, m->size[dim], CR_EQ, 1) == CR_YES;
}

typedef struct rare {
    const char *name;
    uint32_t dtypes;
    whose whose;
    bool (*when)(const cr_rule *r);
} rare;

/* The op accepts the dtype, but not in these calls. */
static const rare lacking[] = {
    { "arange", UNSIGNED, RESULT, always },
    { "arange.start", UNSIGNED, RESULT, always },
    { "arange.start_step", UNSIGNED, RESULT, always },
    { "count_nonzero", UNSIGNED, INPUT, if_all },
    { "cumprod", RARE, COMMON, if_ranked },
    { "cumsum", RARE, COMMON, if_ranked },
    { "div.Scalar_mode", UNSIGNED, COMMON, if_rounded },
    { "div.Tensor_mode", UNSIGNED, COMMON, if_rounded },
    { "equal", COMPLEX, INPUT, if_same_size },
    { "eye", RARE, RESULT, always },
    { "eye.m", RARE, RESULT, always },
    { "flip", RARE, INPUT, if_rows_turn },
    { "index_select", UNSIGNED, INPUT, if_flat },
    { "isin.Scalar_Tensor", UNSIGNED, COMMON, always },
    { "isin.Tensor_Tensor", UNSIGNED, INPUT, if_few },
    { "isin.Tensor_Tensor", COMPLEX, INPUT, if_any },
    { "linspace", RARE, RESULT, if_steps },
    { "logspace", RARE, RESULT, if_steps },
    { "lu_unpack", COMPLEX, INPUT, if_pivots },
    { "mean.dim", COMPLEX, COMMON, always },
    { "nonzero_static", UNSIGNED, INPUT, if_asked_for_any },
    { "normal.float_Tensor", UNSIGNED, COMMON, always },
    { "pow.Scalar", RARE, COMMON, if_base },
    { "pow.Tensor_Scalar", RARE, COMMON, if_exponent },
    { "randperm", UNSIGNED, RESULT, always },
    { "randperm.generator", UNSIGNED, RESULT, always },
    { "sum.dim_IntList", COMPLEX, COMMON, if_any },
    { "unfold_backward", RARE, INPUT, if_overlapping },
};

/* The op does not accept the dtype, but these calls compute nothing. */
static const rare sparing[] = {
    { "aminmax", UNSIGNED, INPUT, if_dim_of_none },
    { "argmax", UNSIGNED, INPUT, if_dim_of_one },
    { "argmin", UNSIGNED, INPUT, if_dim_of_one },
    { "max.dim", UNSIGNED, INPUT, if_dim_of_none },
    { "min.dim", UNSIGNED, INPUT, if_dim_of_none },
    { "topk", UNSIGNED, INPUT, if_dim_of_none },
};

static bool is_rare(int dtype, uint32_t which) { return dtype >= 0 && (which >> dtype & 1); }

static bool finds(const rare *table, size_t n, const cr_rule *r, const int dtype[]) {
    for (size_t i = 0; i < n; i++)
        if (is_rare(dtype[table[i].whose], table[i].dtypes) && !strcmp(r->op->name + strlen("aten::"), table[i].name) &&
            table[i].when(r))
            return true;
    return false;
}

int cr__rule_judge_rare(const cr_rule *r, bool in_place) {
    const cr_meta *m = r->nargs ? cr_rule_meta(r, 0) : NULL;
    int dtype[] = { m ? m->dtype : -1, r->common, r->nout ? r->out[0].meta.dtype : r->result };
    if (in_place && m) dtype[COMMON] = m->dtype; /* what is computed is what is stored */
    if (!is_rare(dtype[INPUT], RARE) && !is_rare(dtype[COMMON], RARE) && !is_rare(dtype[RESULT], RARE)) return 0;
    return finds(lacking, CR_COUNT(lacking), r, dtype) ? -1 : finds(sparing, CR_COUNT(sparing), r, dtype) ? 1 : 0;
}
