/* expand_rnn.c: recurrent layers as loops over other ops.
 *
 * A layer multiplies the whole sequence by w_ih at once and then walks the time steps, each one product with w_hh and
 * the cell's gates. The same walk serves padded sequences (every step has the whole batch) and packed ones
 * (`batch_sizes`: the batch shrinks as sequences end). The length of the walk is a number, so graphs are specialised to
 * it.
 *
 * Results of calls belong to the emitter until they are released; what a step leaves behind is given back when it ends,
 * so that a long sequence holds no more than its outputs. */
#include "ops/expand.h"
#include "ops/rules.h"

typedef enum cell_kind { CELL_TANH, CELL_RELU, CELL_GRU, CELL_LSTM } cell_kind;

static const struct { const char *name; cell_kind kind; } kinds[] = {
    { "lstm", CELL_LSTM }, { "gru", CELL_GRU }, { "rnn_tanh", CELL_TANH }, { "rnn_relu", CELL_RELU },
};

/* "lstm_cell", "lstm" */
static cell_kind kind_of(const cr_op *op) {
    for (size_t i = 0; i < CR_COUNT(kinds); i++)
        if (!strncmp(op->schema.name, kinds[i].name, strlen(kinds[i].name))) return kinds[i].kind;
    return CELL_TANH;
}

/* ---- cells ---- */

typedef struct weights { cr_arg w_ih, w_hh, b_ih, b_hh, w_hr; } weights; /* w_hr: projection, or NONE */
typedef struct state { cr_arg h, c; } state;                                  /* c: LSTM only */

/* One step. `x` is the input already multiplied by w_ih. The new state is among the run's values. */
/* features: that dim of the state */
static state step(cr__run *r, cell_kind kind, cr_arg x, const weights *w, state s, int64_t features) {
    cr_arg recurrent = CR_RUN(r, "linear", s.h, w->w_hh, w->b_hh);
    if (kind == CELL_TANH || kind == CELL_RELU) {
        cr_arg sum = CR_RUN(r, "add.Tensor", recurrent, x);
        return (state){ kind == CELL_TANH ? CR_RUN(r, "tanh", sum) : CR_RUN(r, "relu", sum), cr_arg_none() };
    }
    if (kind == CELL_GRU) {
        cr_arg from_x = CR_RUN(r, "chunk", x, cr_arg_int(3), cr_arg_int(1)),
               from_h = CR_RUN(r, "chunk", recurrent, cr_arg_int(3), cr_arg_int(features));
        cr_arg reset = CR_RUN(r, "sigmoid",
                              CR_RUN(r, "add.Tensor", cr__run_item(r, &from_h, 0), cr__run_item(r, &from_x, 0)));
        cr_arg update = CR_RUN(r, "sigmoid",
                               CR_RUN(r, "add.Tensor", cr__run_item(r, &from_h, 1), cr__run_item(r, &from_x, 1)));
        cr_arg candidate = CR_RUN(r, "tanh",
                                  CR_RUN(r, "add.Tensor", cr__run_item(r, &from_x, 2),
                                         CR_RUN(r, "mul.Tensor", cr__run_item(r, &from_h, 2), reset)));
        cr_arg mixed = CR_RUN(r, "mul.Tensor", CR_RUN(r, "sub.Tensor", s.h, candidate), update);
        return (state){ CR_RUN(r, "add.Tensor", mixed, candidate), cr_arg_none() };
    }
    cr_arg gates = CR_RUN(r, "chunk", CR_RUN(r, "add.Tensor", recurrent, x), cr_arg_int(4), cr_arg_int(features));
    cr_arg in = CR_RUN(r, "sigmoid", cr__run_item(r, &gates, 0)),
           forget = CR_RUN(r, "sigmoid", cr__run_item(r, &gates, 1));
    cr_arg cell = CR_RUN(r, "tanh", cr__run_item(r, &gates, 2)), out = CR_RUN(r, "sigmoid", cr__run_item(r, &gates, 3));
    cr_arg c = CR_RUN(r, "add.Tensor", CR_RUN(r, "mul.Tensor", forget, s.c), CR_RUN(r, "mul.Tensor", in, cell));
    cr_arg h = CR_RUN(r, "mul.Tensor", out, CR_RUN(r, "tanh", c));
    if (w->w_hr.kind != CR_ARG_NONE) h = CR_RUN(r, "linear", h, w->w_hr, cr_arg_none());
    return (state){ h, c };
}

static void require_float(cr__run *r, const cr_op *op, const cr_arg *input);

static void require_equal(cr__run *r, cr_dim a, cr_dim b, const char *what) {
    if (!r->status) r->status = cr_dim_require(r->e->env, a, CR_EQ, b, what);
}

/* (input, hx, w_ih, w_hh, b_ih, b_hh) -> h, or (h, c) */
cr_status expand_rnn_cell(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    cell_kind kind = kind_of(op);
    cr__run r = { .e = e };
    weights w = { args[2], args[3], args[4], args[5], cr_arg_none() };
    if (kind == CELL_LSTM && (args[1].kind != CR_ARG_LIST || args[1].n != 2))
        return CR_FAIL(CR_ERUNTIME, "lstm_cell: hx must be two tensors, the hidden and the cell state");
    state s = kind == CELL_LSTM ? (state){ cr__run_item(&r, &args[1], 0), cr__run_item(&r, &args[1], 1) }
                                : (state){ args[1], cr_arg_none() };
    int gates = kind == CELL_LSTM ? 4 : kind == CELL_GRU ? 3 : 1;
    const cr_meta *x = cr__run_meta(&r, &args[0]), *h = cr__run_meta(&r, &s.h), *w_ih = cr__run_meta(&r, &w.w_ih),
                  *w_hh = cr__run_meta(&r, &w.w_hh);
    require_float(&r, op, &args[0]);
    if (!r.status && (x->rank < 1 || w_ih->rank != 2 || w_hh->rank != 2 || h->rank != x->rank))
        r.status = CR_FAIL(CR_ERUNTIME, "%s: input and hidden state must have as many dims, and the weights two",
                           op->schema.name);
    if (!r.status) {
        cr_dim hidden = h->size[h->rank - 1];
        require_equal(&r, x->size[x->rank - 1], w_ih->size[1], "input size");
        if (x->rank > 1) require_equal(&r, x->size[0], h->size[0], "batch size of the hidden state");
        require_equal(&r, w_hh->size[1], hidden, "hidden size");
        require_equal(&r, w_hh->size[0], cr_dim_mul(e->env, hidden, gates), "rows of w_hh");
    }
    state made = step(&r, kind, CR_RUN(&r, "linear", args[0], w.w_ih, w.b_ih), &w, s, 1);
    return cr__run_finish(&r, op->schema.nreturns, (cr_arg[]){ made.h, made.c }, results);
}

/* ---- layers ---- */

typedef struct layout {
    int64_t steps;
    /* packed: how many sequences are alive in each step, `steps` INTs; NULL: all of them, always */
    const cr_arg *batch;
} layout;

typedef struct work { cr_arg *outs, *ended_h, *ended_c; int nended; } work; /* room for `steps` values each */

static cr_arg narrow(cr__run *r, cr_arg x, int64_t start, int64_t n) {
    return CR_RUN(r, "narrow", x, cr_arg_int(0), cr_arg_int(start), cr_arg_int(n));
}

static cr_arg join(cr__run *r, cr_arg a, cr_arg b, int dim) {
    cr_arg both[2] = { a, b };
    return CR_RUN(r, "cat", cr_arg_list(both, 2), cr_arg_int(dim));
}

/* Packed sequences. Forward in time the batch shrinks, and the states of ended sequences are put aside; backward in
 * time it grows by sequences that start with their initial state. */
static void fit_batch(cr__run *r, work *k, bool reverse, bool lstm, int64_t before, int64_t now, const state *initial,
                      state *s) {
    if (now == before) return;
    if (reverse) {
        s->h = join(r, s->h, narrow(r, initial->h, before, now - before), 0);
        if (lstm) s->c = join(r, s->c, narrow(r, initial->c, before, now - before), 0);
        return;
    }
    k->ended_h[k->nended] = narrow(r, s->h, now, before - now);
    if (lstm) k->ended_c[k->nended] = narrow(r, s->c, now, before - now);
    k->nended++;
    s->h = narrow(r, s->h, 0, now);
    if (lstm) s->c = narrow(r, s->c, 0, now);
}

/* The states at each sequence's end, in the order of the batch: those that ended last come first. */
static cr_arg join_ended(cr__run *r, cr_arg last, cr_arg *ended, int n) {
    if (!n) return last;
    for (int i = 0; i < n / 2; i++) {
        cr_arg swap = ended[i];
        ended[i] = ended[n - 1 - i];
        ended[n - 1 - i] = swap;
    }
    return join(r, last, CR_RUN(r, "cat", cr_arg_list(ended, (size_t)n)), 0);
}

/* One layer in one direction over the whole sequence. */
static cr_arg walk(cr__run *r, cell_kind kind, const weights *w, cr_arg input, const layout *l, bool reverse,
                   state initial, work *k, state *last) {
    bool lstm = kind == CELL_LSTM;
    cr_arg x = CR_RUN(r, "linear", input, w->w_ih, w->b_ih);
    cr_arg parts = l->batch ? CR_RUN(r, "split_with_sizes", x, cr_arg_list(l->batch, (size_t)l->steps))
                            : CR_RUN(r, "unbind.int", x);
    state s = initial;
    int64_t alive = 0;
    k->nended = 0;
    if (l->batch) {
        alive = l->batch[reverse ? l->steps - 1 : 0].u.i;
        s.h = narrow(r, initial.h, 0, alive);
        if (lstm) s.c = narrow(r, initial.c, 0, alive);
    }
    for (int64_t i = 0; i < l->steps && !r->status; i++) {
        int64_t t = reverse ? l->steps - 1 - i : i;
        if (l->batch) fit_batch(r, k, reverse, lstm, alive, l->batch[t].u.i, &initial, &s);
        if (l->batch) alive = l->batch[t].u.i;
        size_t mark = r->made.n;
        s = step(r, kind, cr__run_item(r, &parts, (uint32_t)t), w, s, 1);
        cr__run_trim(r, mark, 2, (cr_arg[]){ s.h, s.c });
        k->outs[t] = s.h;
    }
    *last = (state){ join_ended(r, s.h, k->ended_h, k->nended),
                     lstm ? join_ended(r, s.c, k->ended_c, k->nended) : cr_arg_none() };
    return l->batch ? CR_RUN(r, "cat", cr_arg_list(k->outs, (size_t)l->steps))
                    : CR_RUN(r, "stack", cr_arg_list(k->outs, (size_t)l->steps));
}

/* The same as PyTorch's core dialect writes it: a sequence that runs backwards is turned round first, and states keep a
 * dim for the step. */
static cr_arg walk_core(cr__run *r, cell_kind kind, const weights *w, cr_arg input, const layout *l, bool reverse,
                        state initial, work *k, state *last) {
    bool lstm = kind == CELL_LSTM;
    cr_arg first = cr_arg_int(0), x;
    state s = { CR_RUN(r, "unsqueeze", initial.h, first),
                lstm ? CR_RUN(r, "unsqueeze", initial.c, first) : cr_arg_none() };
    x = CR_RUN(r, "linear", input, w->w_ih, w->b_ih);
    if (reverse) x = CR_RUN(r, "flip", x, cr_arg_list(&first, 1));
    cr_arg parts = CR_RUN(r, "unbind.int", x);
    for (int64_t i = 0; i < l->steps && !r->status; i++) {
        s = step(r, kind, cr__run_item(r, &parts, (uint32_t)i), w, s, 2);
        k->outs[reverse ? l->steps - 1 - i : i] = s.h;
    }
    cr_arg out = CR_RUN(r, "cat", cr_arg_list(k->outs, (size_t)l->steps), first);
    *last = (state){ CR_RUN(r, "squeeze.dim", s.h, first),
                     lstm ? CR_RUN(r, "squeeze.dim", s.c, first) : cr_arg_none() };
    return out;
}

/* Low precision is computed in f32 and rounded once at the end: errors of a recurrence add up. */
static bool is_low(cr__run *r, const cr_arg *a) {
    int dtype = cr__run_meta(r, a)->dtype;
    return !r->status && (dtype == CR_F16 || dtype == CR_BF16);
}

static cr_arg cast(cr__run *r, cr_arg x, int dtype) {
    if (x.kind == CR_ARG_NONE || r->status || cr__run_meta(r, &x)->dtype == dtype) return x;
    return CR_RUN(r, "to.dtype", x, cr_arg_dtype(dtype));
}

/* The gates' sigmoids and tangents are taken in place in PyTorch, which integers refuse. */
static void require_float(cr__run *r, const cr_op *op, const cr_arg *input) {
    const cr_meta *m = cr__run_meta(r, input);
    bool floats = cr_dtype_is_floating(m->dtype) || cr_dtype_is_complex(m->dtype);
    if (!r->status && !floats && (kind_of(op) == CELL_LSTM || kind_of(op) == CELL_GRU))
        r->status = CR_FAIL(CR_ERUNTIME, "%s: the input must be floating point, not %s", op->schema.name,
                            cr_dtype_aten(m->dtype));
}

typedef struct stack { /* what the ops' arguments say */
    cell_kind kind;
    const cr_arg *params; /* Tensor[] */
    int64_t layers;
    double dropout;
    bool has_biases, train, bidirectional;
    bool core; /* as the core dialect has it */
} stack;

static weights weights_of(cr__run *r, const stack *k, int64_t index, bool projected) {
    uint32_t each = 2u + (k->has_biases ? 2u : 0u) + projected, at = (uint32_t)index * each;
    cr_arg none = cr_arg_none();
    return (weights){ cr__run_item(r, k->params, at), cr__run_item(r, k->params, at + 1),
                      k->has_biases ? cr__run_item(r, k->params, at + 2) : none,
                      k->has_biases ? cr__run_item(r, k->params, at + 3) : none,
                      projected ? cr__run_item(r, k->params, at + each - 1) : none };
}

/* All layers. `hx`: lists of states, one per layer and direction. results: the output and the stacked last states. */
static void run_stack(cr__run *r, const stack *k, cr_arg input, const layout *l, cr_arg h0, cr_arg c0,
                      cr_arg results[3]) {
    int directions = k->bidirectional ? 2 : 1, dtype = cr__run_meta(r, &input)->dtype;
    bool low = !k->core && is_low(r, &input);
    if (low) {
        input = cast(r, input, CR_F32);
        h0 = cast(r, h0, CR_F32);
        c0 = cast(r, c0, CR_F32);
    }
    int64_t layers = k->layers < 0 || k->layers > UINT16_MAX ? 0 : k->layers, nstates = layers * directions;
    bool lstm = k->kind == CELL_LSTM, projected = false;
    cr_arg hs = CR_RUN(r, "unbind.int", h0), cs = lstm ? CR_RUN(r, "unbind.int", c0) : cr_arg_none();
    if (lstm) { /* a projected state is smaller than the cell's */
        const cr_meta *h = cr__run_meta(r, &h0), *c = cr__run_meta(r, &c0);
        if (!r->status && (h->rank != 3 || c->rank != 3))
            r->status = CR_FAIL(CR_ERUNTIME, "lstm: the states must have 3 dims, layer, batch and feature");
        if (!r->status) r->status = cr_dim_decide(r->e->env, h->size[2], CR_NE, c->size[2], &projected);
    }
    uint32_t each = 2u + (k->has_biases ? 2u : 0u) + projected;
    if (!r->status && (!layers || k->params->kind != CR_ARG_LIST || k->params->n != each * nstates || hs.n != nstates ||
                       (lstm && cs.n != nstates)))
        r->status = CR_FAIL(CR_ERUNTIME,
                            "expected %lld weights and %lld states for %lld layers in %d direction(s), got %u and %u",
                            (long long)(each * nstates), (long long)nstates, (long long)k->layers, directions,
                            k->params->n, hs.n);
    size_t room = (size_t)(3 * l->steps + 2 * nstates);
    cr_arg *memory = r->status ? NULL : cr_calloc(room + 1, sizeof *memory);
    if (!memory) {
        if (!r->status) r->status = CR_FAIL(CR_ENOMEM, "out of memory");
        return;
    }
    work space = { memory, memory + l->steps, memory + 2 * l->steps, 0 };
    cr_arg *last_h = memory + 3 * l->steps, *last_c = last_h + nstates, sequence = input;
    for (int64_t layer = 0; layer < layers && !r->status; layer++) {
        size_t mark = r->made.n;
        cr_arg out[2], kept[5];
        for (int d = 0; d < directions && !r->status; d++) {
            int64_t at = layer * directions + d;
            weights w = weights_of(r, k, at, projected);
            if (low)
                w = (weights){ cast(r, w.w_ih, CR_F32), cast(r, w.w_hh, CR_F32), cast(r, w.b_ih, CR_F32),
                               cast(r, w.b_hh, CR_F32), cast(r, w.w_hr, CR_F32) };
            state initial = { cr__run_item(r, &hs, (uint32_t)at),
                              lstm ? cr__run_item(r, &cs, (uint32_t)at) : cr_arg_none() },
                  last;
            out[d] = (k->core ? walk_core : walk)(r, k->kind, &w, sequence, l, d == 1, initial, &space, &last);
            last_h[at] = last.h;
            last_c[at] = last.c;
            kept[2 * d] = last.h;
            kept[2 * d + 1] = last.c;
        }
        if (r->status) break;
        sequence = directions == 2 ? join(r, out[0], out[1], -1) : out[0];
        if (k->dropout != 0 && k->train && layer < layers - 1)
            sequence = CR_RUN(r, "dropout", sequence, cr_arg_float(k->dropout), cr_arg_bool(true));
        kept[2 * directions] = sequence;
        cr__run_trim(r, mark, 2 * directions + 1, kept);
    }
    results[0] = sequence;
    results[1] = CR_RUN(r, "stack", cr_arg_list(last_h, (size_t)nstates));
    results[2] = lstm ? CR_RUN(r, "stack", cr_arg_list(last_c, (size_t)nstates)) : cr_arg_none();
    for (int i = 0; low && i < 3; i++) results[i] = cast(r, results[i], dtype);
    cr_free(memory);
}

/* (input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first) */
static cr_status expand_layers(cr_emitter *e, const cr_op *op, const cr_arg *args, bool core, cr_arg *results) {
    cr__run r = { .e = e };
    stack k = { kind_of(op),      &args[2],         args[4].u.i,      args[5].u.f,
                args[3].u.i != 0, args[6].u.i != 0, args[7].u.i != 0, core };
    bool lstm = k.kind == CELL_LSTM, batch_first = args[8].u.i != 0;
    const cr_meta *m = cr__run_meta(&r, &args[0]);
    if (!r.status && m->rank != 3)
        r.status = CR_FAIL(CR_ERUNTIME, "%s: the input must have 3 dims, not %d", op->schema.name, m->rank);
    if (!r.status && lstm && (args[1].kind != CR_ARG_LIST || args[1].n != 2))
        r.status = CR_FAIL(CR_ERUNTIME, "lstm: hx must be two tensors, the hidden and the cell state");
    require_float(&r, op, &args[0]);
    cr_dim length = m->size[batch_first ? 1 : 0];
    int64_t steps = 0;
    if (!r.status && !cr_dim_hint(e->env, length, &steps))
        r.status = CR_FAIL(CR_EDATADEP,
                           "%s: the number of time steps depends on data; it must be known before the program runs",
                           op->schema.name);
    if (!r.status) r.status = cr_dim_require(e->env, length, CR_EQ, steps, "number of time steps");
    if (!r.status && steps == 0)
        r.status = CR_FAIL(CR_ERUNTIME, "the sequence has no time steps; it needs at least one");
    cr_arg input = batch_first ? CR_RUN(&r, "transpose.int", args[0], cr_arg_int(0), cr_arg_int(1)) : args[0],
           made[3] = { { 0 } };
    layout l = { steps, NULL };
    if (!r.status)
        run_stack(&r, &k, input, &l, lstm ? cr__run_item(&r, &args[1], 0) : args[1],
                  lstm ? cr__run_item(&r, &args[1], 1) : cr_arg_none(), made);
    if (batch_first) made[0] = CR_RUN(&r, "transpose.int", made[0], cr_arg_int(0), cr_arg_int(1));
    return cr__run_finish(&r, op->schema.nreturns, made, results);
}

cr_status expand_rnn(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    return expand_layers(e, op, args, false, results);
}
cr_status expand_rnn_core(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    return expand_layers(e, op, args, true, results);
}

/* (data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional): sequences of several lengths,
 * longest first, their steps one after the other. */
cr_status expand_rnn_packed(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    cr__run r = { .e = e };
    stack k = { kind_of(op),      &args[3],         args[5].u.i,      args[6].u.f,
                args[4].u.i != 0, args[7].u.i != 0, args[8].u.i != 0, false };
    bool lstm = k.kind == CELL_LSTM;
    if (args[1].kind != CR_ARG_TENSOR || cr_tensor_is_fake(args[1].u.t))
        return CR_FAIL(CR_EDATADEP,
                       "%s: the steps depend on batch_sizes, whose values are not known before the program runs",
                       op->schema.name);
    rt_view sizes = cr_tensor_view(args[1].u.t);
    if (sizes.rank != 1 || sizes.dtype != RT_I64)
        return CR_FAIL(CR_ERUNTIME, "%s: batch_sizes must be one row of int64", op->schema.name);
    if (sizes.size[0] == 0) return CR_FAIL(CR_ERUNTIME, "the sequence has no time steps; it needs at least one");
    if (lstm && (args[2].kind != CR_ARG_LIST || args[2].n != 2))
        return CR_FAIL(CR_ERUNTIME, "lstm: hx must be two tensors, the hidden and the cell state");
    require_float(&r, op, &args[0]);
    cr_arg *batch = cr_calloc((size_t)sizes.size[0], sizeof *batch), made[3] = { { 0 } };
    if (!batch) return CR_FAIL(CR_ENOMEM, "out of memory");
    for (int64_t i = 0; i < sizes.size[0]; i++) {
        batch[i] = cr_arg_int(((const int64_t *)sizes.p)[i * sizes.stride[0]]);
        if (!r.status && (batch[i].u.i <= 0 || (i && batch[i].u.i > batch[i - 1].u.i)))
            r.status = CR_FAIL(CR_ERUNTIME, "%s: batch_sizes must be positive and must not grow", op->schema.name);
    }
    layout l = { sizes.size[0], batch };
    if (!r.status)
        run_stack(&r, &k, args[0], &l, lstm ? cr__run_item(&r, &args[2], 0) : args[2],
                  lstm ? cr__run_item(&r, &args[2], 1) : cr_arg_none(), made);
    cr_free(batch);
    return cr__run_finish(&r, op->schema.nreturns, made, results);
}
