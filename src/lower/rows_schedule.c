/* rows_schedule.c: which loop of a row computes what, and what is kept between loops. See rows.h. */
#include "lower/rows.h"

enum { AGAIN = 2 /* loads and cheap operations that are done again rather than kept */, DEAR = 99 };

static bool is_cheap(int op) {
    static const char *const cheap[] = { "add", "sub", "mul", "neg", "abs", "max", "min",    "eq",     "ne",  "lt",
                                         "le",  "gt",  "ge",  "and", "or",  "not", "select", "to_f32", "to_b" };
    const char *name = rt_block_op_name(op);
    for (size_t i = 0; i < CR_COUNT(cheap); i++)
        if (!strcmp(name, cheap[i])) return true;
    return false;
}

/* Loads and cheap operations, what would be kept counting as a load. */
static int cost_again(const cr_row_kernel *k, const cr_row_value *v) {
    if (!v->varies) return 0;
    if (v->kind == CR_ROW_LOAD) return k->port[v->port].access == CR_ACCESS_STRIDED ? DEAR : 1;
    if (v->kind == CR_ROW_ROTATE) return AGAIN;
    if (v->kind == CR_ROW_OP && !is_cheap(v->op)) return DEAR;
    int cost = 1;
    for (int i = 0; i < 3; i++)
        if (v->in[i] >= 0) cost += k->value[v->in[i]].cost <= AGAIN ? k->value[v->in[i]].cost : 1;
    return CR_MIN(cost, DEAR);
}

/* What the loop of a stage computes, given what is kept. */
static void mark(const cr_row_kernel *k, int stage, int16_t v, bool *need) {
    const cr_row_value *x = &k->value[v];
    if (!x->varies || need[v]) return;
    need[v] = true;
    if (x->kept && x->stage < stage) return; /* loaded */
    for (int i = 0; i < 3; i++)
        if (x->in[i] >= 0) mark(k, stage, x->in[i], need);
}

void cr__row_needs(const cr_row_kernel *k, int stage, bool *need) {
    memset(need, 0, (size_t)k->nvalues);
    for (int v = 0; v < k->nvalues; v++) {
        const cr_row_value *x = &k->value[v];
        if (x->kind == CR_ROW_REDUCE && k->value[x->in[0]].stage == stage) mark(k, stage, x->in[0], need);
        if (x->kept && x->stage == stage) mark(k, stage, (int16_t)v, need);
    }
    for (int p = k->nin; p < k->nports; p++) {
        int16_t v = k->port[p].value;
        int at = k->value[v].varies ? k->value[v].stage : k->nstages - 1;
        if (k->port[p].varies && at == stage) mark(k, stage, v, need);
    }
}

/* A value of an earlier stage that a loop would have to compute anew at a price is kept from its own stage on. One at a
 * time:
 * what it was made of may not be needed any more. */
static bool keep_one(cr_row_kernel *k, int stage, bool *need) {
    cr__row_needs(k, stage, need);
    for (int v = k->nvalues; v--;) {
        cr_row_value *x = &k->value[v];
        if (need[v] && !x->kept && x->stage < stage && x->cost > AGAIN) return x->kept = true;
    }
    return false;
}

/* What is made of loads alone waits for the first stage that needs it. */
static void sink(cr_row_kernel *k) {
    for (int v = k->nvalues; v--;) {
        cr_row_value *x = &k->value[v];
        int first = k->nstages;
        if (!x->varies || x->kind != CR_ROW_OP) continue;
        for (int u = v + 1; u < k->nvalues; u++)
            for (int i = 0; i < 3; i++)
                if (k->value[u].in[i] == v)
                    first = CR_MIN(first,
                                   k->value[u].kind == CR_ROW_REDUCE ? k->value[u].stage - 1 : k->value[u].stage);
        bool loads = first > x->stage && first < k->nstages;
        for (int i = 0; i < 3; i++)
            if (x->in[i] >= 0) loads &= k->value[x->in[i]].cost <= AGAIN;
        if (loads) x->stage = (uint8_t)first;
    }
}

cr_status cr__row_schedule(cr_row_kernel *k) {
    bool need[CR_ROW_MAX_VALUES];
    k->nstages = 1;
    k->cost = 0;
    for (int v = 0; v < k->nvalues; v++) {
        cr_row_value *x = &k->value[v];
        int stage = 0;
        for (int i = 0; i < 3; i++)
            if (x->in[i] >= 0) stage = CR_MAX(stage, k->value[x->in[i]].stage);
        if (x->kind == CR_ROW_REDUCE) stage++;
        if (stage > 60) return CR_FAIL(CR_EUNSUPPORTED, "no row kernel: too many loops");
        x->stage = (uint8_t)stage;
        x->cost = (uint8_t)cost_again(k, x);
        k->nstages = CR_MAX(k->nstages, stage + 1);
        if (x->varies)
            k->cost = (uint16_t)(k->cost +
                                 (x->kind == CR_ROW_OP ? rt_block_cost(x->op) * (is_cheap(x->op) ? 1 : 6) : 1));
    }
    sink(k);
    for (int s = k->nstages - 1; s > 0; s--)
        while (keep_one(k, s, need)) {
        }
    k->scratch = 0;
    for (int v = 0; v < k->nvalues; v++) {
        cr_row_value *x = &k->value[v];
        if (!x->kept) continue;
        x->scratch = k->scratch;
        k->scratch = (uint16_t)(k->scratch + (x->class == RT_CLASS_F32 || x->class == RT_CLASS_B ? 4 : 8));
    }
    int64_t n = 1;
    for (int a = k->naxes - k->nrow; a < k->naxes; a++)
        if (cr_dim_is_plain(k->size[a])) n *= k->size[a];
    if (n * k->scratch > 256 * 1024)
        return CR_FAIL(CR_EUNSUPPORTED, "no row kernel: rows of %lld elements need too much scratch", (long long)n);
    return CR_OK;
}

void cr_row_print(const cr_row_kernel *k, cr_str *out) {
    static const char *const folds[] = { "sum", "max", "min" }, *const accesses[] = { "unit", "same", "strided" };
    cr_str_addf(out, "%s kernel %s: %d axes, %d of the row, %d stages, %d bytes of scratch\n",
                k->column ? "column" : "row", k->name, k->naxes, k->nrow, k->nstages, k->scratch);
    for (int v = 0; v < k->nvalues; v++) {
        const cr_row_value *x = &k->value[v];
        cr_str_addf(out, "  %%%d: %s = ", v, rt_class_name(x->class));
        switch ((cr_row_kind)x->kind) {
        case CR_ROW_LOAD:
            cr_str_addf(out, "load p%d %s %s", x->port, rt_dtype_name(k->port[x->port].dtype),
                        accesses[k->port[x->port].access]);
            break;
        case CR_ROW_ROTATE: cr_str_addf(out, "rotate p%d", x->port); break;
        case CR_ROW_LITERAL:
            x->class == RT_CLASS_I64 || x->class == RT_CLASS_B ? cr_str_addf(out, "%lld", (long long)x->i)
                                                               : cr_str_addf(out, "%.9g", x->f);
            break;
        case CR_ROW_COUNT: cr_str_add(out, "count"); break;
        case CR_ROW_OP: cr_str_add(out, rt_block_op_name(x->op)); break;
        case CR_ROW_ROUND: cr_str_addf(out, "round %s", rt_dtype_name(x->dtype)); break;
        default: cr_str_add(out, folds[x->op]); break;
        }
        for (int i = 0; i < 3; i++)
            if (x->in[i] >= 0) cr_str_addf(out, " %%%d", x->in[i]);
        if (x->varies) cr_str_addf(out, "  [stage %d%s]", x->stage, x->kept ? ", kept" : "");
        else if (x->stage) cr_str_addf(out, "  [before stage %d]", x->stage);
        cr_str_addc(out, '\n');
    }
    for (int p = k->nin; p < k->nports; p++)
        cr_str_addf(out, "  store p%d %s %s = %%%d\n", p, rt_dtype_name(k->port[p].dtype), accesses[k->port[p].access],
                    k->port[p].value);
}
