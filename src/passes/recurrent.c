/* recurrent.c: LSTM and GRU layers become one call per layer and direction, before decomposition unrolls them step by
 * step.
 *
 * The calls take weights in panels, by gate; packing is a call, too, and so is done at compile time where the weights
 * turn out to be constants. Only f32 without projection, and without dropout between layers; the rest is left to
 * decomposition. */
#include "passes/internal.h"

enum { MOST_STATES = 64 };

/* of lstm.input and gru.input: input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first */
typedef struct stack {
    cr_rewriter *w;
    bool lstm, biases, batch_first;
    int gates, directions;
    int64_t layers;
    const cr_arg *params; /* list */
    cr_arg h, c;
} stack;

static bool is_f32(const stack *s, const cr_arg *a, int rank) {
    const cr_meta *m = cr_rewrite_meta(s->w, a);
    return m && m->dtype == CR_F32 && m->rank == rank;
}

static bool fits(const stack *s, const cr_arg *input, const cr_arg *dropout, const cr_arg *train) {
    int64_t states = s->layers * s->directions, each = s->biases ? 4 : 2;
    if (s->layers < 1 || states > MOST_STATES || (dropout->u.f != 0 && train->u.i)) return false;
    if (s->params->kind != CR_ARG_LIST || s->params->n != states * each) return false; /* more: projections */
    if (!is_f32(s, input, 3) || !is_f32(s, &s->h, 3) || (s->lstm && !is_f32(s, &s->c, 3))) return false;
    for (uint32_t i = 0; i < s->params->n; i++)
        if (!is_f32(s, &s->params->u.list[i], i % each < 2 ? 2 : 1)) return false;
    return true;
}

static cr_status packed(const stack *s, cr_arg weight, cr_arg *out) {
    cr_arg args[3] = { weight, cr_arg_bool(false), cr_arg_int(s->gates) };
    return cr_rewrite_call(s->w, "cresset::pack_panels", args, 3, out);
}

static cr_status state_of(const stack *s, cr_arg states, int64_t at, cr_arg *out) {
    cr_arg args[3] = { states, cr_arg_int(0), cr_arg_int(at) };
    return cr_rewrite_call(s->w, "aten::select.int", args, 3, out);
}

/* One layer in one direction. made: output, h, c */
static cr_status layer(const stack *s, cr_arg input, int64_t at, bool reverse, cr_arg made[3]) {
    const cr_arg *params = s->params->u.list + at * (s->biases ? 4 : 2);
    cr_arg args[9] = { input };
    int n = 1;
    CR_TRY(state_of(s, s->h, at, &args[n++]));
    if (s->lstm) CR_TRY(state_of(s, s->c, at, &args[n++]));
    CR_TRY(packed(s, params[0], &args[n++]));
    CR_TRY(packed(s, params[1], &args[n++]));
    args[n++] = s->biases ? params[2] : cr_arg_none();
    args[n++] = s->biases ? params[3] : cr_arg_none();
    args[n++] = cr_arg_bool(reverse);
    args[n++] = cr_arg_bool(s->batch_first);
    return cr_rewrite_op(s->w, cr_op_find(s->lstm ? "cresset::lstm_packed" : "cresset::gru_packed"), args, made);
}

static cr_status join(const stack *s, const char *op, const cr_arg *parts, int64_t n, int dim, cr_arg *out) {
    cr_arg args[2] = { cr_arg_list(parts, (size_t)n), cr_arg_int(dim) };
    return cr_rewrite_call(s->w, op, args, 2, out);
}

static cr_status rule(cr_rewriter *w, const cr_node *node, const cr_arg *args, bool *done) {
    bool lstm = node->op->schema.nreturns == 3;
    if (cr_op_facts(node->op)->role != CR_ROLE_RECURRENT) return CR_OK;
    if (lstm && (args[1].kind != CR_ARG_LIST || args[1].n != 2)) return CR_OK;
    stack s = { .w = w,
                .lstm = lstm,
                .biases = args[3].u.i,
                .batch_first = args[8].u.i,
                .gates = lstm ? 4 : 3,
                .directions = args[7].u.i ? 2 : 1,
                .layers = args[4].u.i,
                .params = &args[2],
                .h = lstm ? args[1].u.list[0] : args[1],
                .c = lstm ? args[1].u.list[1] : cr_arg_none() };
    if (!fits(&s, &args[0], &args[5], &args[6])) return CR_OK;
    cr_arg sequence = args[0], h[MOST_STATES], c[MOST_STATES], last;
    for (int64_t i = 0; i < s.layers; i++) {
        cr_arg outs[2];
        for (int d = 0; d < s.directions; d++) {
            int64_t at = i * s.directions + d;
            cr_arg made[3] = { { 0 } };
            CR_TRY(layer(&s, sequence, at, d == 1, made));
            outs[d] = made[0];
            h[at] = made[1];
            c[at] = made[2];
        }
        sequence = outs[0];
        if (s.directions == 2) CR_TRY(join(&s, "aten::cat", outs, 2, 2, &sequence));
    }
    int64_t states = s.layers * s.directions;
    CR_TRY(cr_rewrite_result(w, node, 0, sequence));
    CR_TRY(join(&s, "aten::stack", h, states, 0, &last));
    CR_TRY(cr_rewrite_result(w, node, 1, last));
    if (lstm) {
        CR_TRY(join(&s, "aten::stack", c, states, 0, &last));
        CR_TRY(cr_rewrite_result(w, node, 2, last));
    }
    *done = true;
    return CR_OK;
}

cr_status cr_pass_recurrent(const cr_graph *g, cr_graph **out) {
    return cr_rewrite(g, rule, NULL, out);
}
