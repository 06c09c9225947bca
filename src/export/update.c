/* update.c: see update.h. An optimizer is a row: the table's fused op, what it keeps of a parameter, and the numbers
 * that may be said of it. The op's arguments are found by the names of its parameters. */
#include "export/update.h"

#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>

typedef struct key {
    const char *name;
    double fallback;
    enum { ANY, BELOW_ONE, SWITCH } kind;
} key;
typedef struct moment {
    const char *parameter, *name, *when; /* a key that must not be 0; NULL: always */
} moment;

struct cr__optimizer {
    const char *name, *op;
    key keys[CR__UPDATE_KEYS];
    moment moments[CR__UPDATE_MOMENTS];
};

#define ADAM_KEYS(decay)                                                                  \
    {                                                                                     \
        { "beta1", 0.9, BELOW_ONE }, { "beta2", 0.999, BELOW_ONE }, { "eps", 1e-8, ANY }, \
            { "weight_decay", decay, ANY }, { "amsgrad", 0, SWITCH }, {                   \
            "maximize", 0, SWITCH                                                         \
        }                                                                                 \
    }
#define ADAM_MOMENTS                                                              \
    {                                                                             \
        { "exp_avgs", "exp_avg", NULL }, { "exp_avg_sqs", "exp_avg_sq", NULL }, { \
            "max_exp_avg_sqs", "max_exp_avg_sq", "amsgrad"                        \
        }                                                                         \
    }

/* Defaults are PyTorch's. */
static const struct cr__optimizer optimizers[] = {
    { "sgd",
      "aten::_fused_sgd_",
      { { "momentum", 0, ANY }, { "weight_decay", 0, ANY }, { "nesterov", 0, SWITCH }, { "maximize", 0, SWITCH } },
      { { "momentum_buffer_list", "momentum_buffer", "momentum" } } },
    { "adam", "aten::_fused_adam_", ADAM_KEYS(0), ADAM_MOMENTS },
    { "adamw", "aten::_fused_adamw_", ADAM_KEYS(0.01), ADAM_MOMENTS },
    { "adagrad",
      "aten::_fused_adagrad_",
      { { "lr_decay", 0, ANY }, { "weight_decay", 0, ANY }, { "eps", 1e-10, ANY }, { "maximize", 0, SWITCH } },
      { { "state_sums", "sum", NULL } } },
};

const char *cr__update_name(const cr__update *u) { return u->optimizer->name; }

static int find_key(const struct cr__optimizer *o, const char *name, size_t n) {
    for (int i = 0; i < CR__UPDATE_KEYS && o->keys[i].name; i++)
        if (strlen(o->keys[i].name) == n && !memcmp(o->keys[i].name, name, n)) return i;
    return -1;
}

static double value_of(const cr__update *u, const char *name) {
    return u->values[find_key(u->optimizer, name, strlen(name))];
}

/* ---- reading ---- */

static cr_status unknown_optimizer(const char *name, int n) {
    cr_str known;
    cr_str_init(&known);
    for (size_t i = 0; i < CR_COUNT(optimizers); i++) cr_str_addf(&known, "%s%s", i ? ", " : "", optimizers[i].name);
    cr_status status = CR_FAIL(CR_EVALUE, "there is no optimizer '%.*s'; libraries train with one of: %s", n, name,
                               cr_str_get(&known));
    cr_str_dispose(&known);
    return status;
}

static cr_status unknown_key(const struct cr__optimizer *o, const char *name, int n) {
    cr_str known;
    cr_str_init(&known);
    for (int i = 0; i < CR__UPDATE_KEYS && o->keys[i].name; i++) cr_str_addf(&known, "%s, ", o->keys[i].name);
    cr_status status = CR_FAIL(CR_EVALUE,
                               "%s has no option '%.*s'; it has %sno_decay, clip_norm and loss (the learning rate "
                               "is an input of every step)",
                               o->name, n, name, cr_str_get(&known));
    cr_str_dispose(&known);
    return status;
}

static cr_status read_number(const char *key, int n, const char *text, const char *end, double *out) {
    char copy[64], *stop = copy;
    size_t length = (size_t)(end - text);
    if (length && length < sizeof copy) {
        memcpy(copy, text, length);
        copy[length] = 0;
        *out = strtod(copy, &stop);
    }
    if (length && length < sizeof copy && !*stop && stop != copy && isfinite(*out) && *out >= 0) return CR_OK;
    return CR_FAIL(CR_EVALUE, "%.*s is '%.*s', expected a number that is not negative", n, key, (int)length, text);
}

static cr_status take(cr__update *u, const char *name, int n, double value) {
    if (n == 9 && !memcmp(name, "clip_norm", 9)) {
        if (value <= 0)
            return CR_FAIL(CR_EVALUE, "clip_norm is 0, which lets no gradient through; leave it out for no limit");
        return u->clip_norm = value, CR_OK;
    }
    if (n == 4 && !memcmp(name, "loss", 4)) {
        if (value != floor(value) || value > 1e6)
            return CR_FAIL(CR_EVALUE, "loss is the index of a result, not %g", value);
        return u->loss = (int32_t)value, CR_OK;
    }
    int i = find_key(u->optimizer, name, (size_t)n);
    if (i < 0) return unknown_key(u->optimizer, name, n);
    const key *k = &u->optimizer->keys[i];
    if ((k->kind == BELOW_ONE && value >= 1) || (k->kind == SWITCH && value != 0 && value != 1))
        return CR_FAIL(CR_EVALUE, "%s is %g, expected %s", k->name, value,
                       k->kind == SWITCH ? "0 or 1" : "a number from 0 up to, not including, 1");
    u->values[i] = value;
    return CR_OK;
}

/* A pattern of names, as a shell has them: *.bias */
static cr_status take_pattern(cr__update *u, const char *text, size_t n) {
    if (find_key(u->optimizer, "weight_decay", 12) < 0)
        return CR_FAIL(CR_EVALUE, "%s has no weight_decay, so no_decay says nothing", u->optimizer->name);
    if (!n || n >= sizeof u->no_decay[0].text)
        return CR_FAIL(CR_EVALUE, "no_decay is '%.*s', expected a pattern of names of 1 to %zu characters (*.bias)",
                       (int)n, text, sizeof u->no_decay[0].text - 1);
    if (u->nno_decay == CR__UPDATE_PATTERNS)
        return CR_FAIL(CR_EVALUE, "there are at most %d patterns of no_decay; write shorter ones that match more",
                       CR__UPDATE_PATTERNS);
    memcpy(u->no_decay[u->nno_decay].text, text, n);
    u->no_decay[u->nno_decay++].text[n] = 0;
    return CR_OK;
}

uint32_t cr__update_spares(const cr__update *u, const char *name) {
    uint32_t patterns = 0;
    for (int32_t i = 0; i < u->nno_decay; i++) patterns |= (uint32_t)!fnmatch(u->no_decay[i].text, name, 0) << i;
    return patterns;
}

static cr_status read_pair(cr__update *u, const char *text, const char *end) {
    const char *equals = memchr(text, '=', (size_t)(end - text));
    double value = 0;
    if (!equals)
        return CR_FAIL(CR_EVALUE, "'%.*s': options of an optimizer are KEY=NUMBER, with commas between them",
                       (int)(end - text), text);
    if (equals - text == 8 && !memcmp(text, "no_decay", 8))
        return take_pattern(u, equals + 1, (size_t)(end - equals - 1));
    CR_TRY(read_number(text, (int)(equals - text), equals + 1, end, &value));
    return take(u, text, (int)(equals - text), value);
}

cr_status cr__update_parse(const char *text, cr__update *out) {
    size_t n = strcspn(text, ",");
    *out = (cr__update){ .optimizer = NULL };
    for (size_t i = 0; i < CR_COUNT(optimizers); i++)
        if (strlen(optimizers[i].name) == n && !memcmp(optimizers[i].name, text, n)) out->optimizer = &optimizers[i];
    if (!out->optimizer) return unknown_optimizer(text, (int)n);
    for (int i = 0; i < CR__UPDATE_KEYS; i++) out->values[i] = out->optimizer->keys[i].fallback;
    for (const char *at = text + n; *at; at += n) {
        n = strcspn(++at, ",");
        CR_TRY(read_pair(out, at, at + n));
    }
    if (find_key(out->optimizer, "nesterov", 8) >= 0 && value_of(out, "nesterov") && !value_of(out, "momentum"))
        return CR_FAIL(CR_EVALUE, "nesterov needs a momentum: add momentum=0.9");
    return CR_OK;
}

int32_t cr__update_moments(const cr__update *u, const char *names[CR__UPDATE_MOMENTS]) {
    int32_t n = 0;
    for (int i = 0; i < CR__UPDATE_MOMENTS && u->optimizer->moments[i].name; i++) {
        const moment *m = &u->optimizer->moments[i];
        if (!m->when || value_of(u, m->when)) names[n++] = m->name;
    }
    return n;
}

/* ---- calls ---- */

/* As clip_grad_norm_: one factor for all, at most 1. */
static cr_status clip(const cr__update *u, cr_emitter *e, const cr_arg *gradients, cr_arg *clipped, cr_arg *norm) {
    cr_arg factor, *norms = cr_alloc((gradients->n + 1) * sizeof *norms);
    if (!norms) return CR_ENOMEM;
    cr_status status = CR_OK;
    for (uint32_t i = 0; i < gradients->n && !status; i++)
        status = cr_emit_call(e, "aten::linalg_vector_norm", (cr_arg[]){ gradients->u.list[i], cr_arg_float(2) }, 2,
                              &norms[i]);
    if (!status) status = cr_emit_call(e, "aten::stack", (cr_arg[]){ cr_arg_list(norms, gradients->n) }, 1, &factor);
    cr_free(norms);
    CR_TRY(status);
    CR_TRY(cr_emit_call(e, "aten::linalg_vector_norm", (cr_arg[]){ factor, cr_arg_float(2) }, 2, norm));
    CR_TRY(cr_emit_call(e, "aten::add.Scalar", (cr_arg[]){ *norm, cr_arg_float(1e-6) }, 2, &factor));
    CR_TRY(cr_emit_call(e, "aten::reciprocal", &factor, 1, &factor));
    CR_TRY(cr_emit_call(e, "aten::mul.Scalar", (cr_arg[]){ factor, cr_arg_float(u->clip_norm) }, 2, &factor));
    CR_TRY(cr_emit_call(e, "aten::clamp", (cr_arg[]){ factor, cr_arg_none(), cr_arg_float(1) }, 3, &factor));
    for (uint32_t i = 0; i < gradients->n; i++)
        CR_TRY(cr_emit_call(e, "aten::mul.Tensor", (cr_arg[]){ gradients->u.list[i], factor }, 2, &clipped[i]));
    return CR_OK;
}

/* The argument of that name: a list, the learning rate, or a number that was said. */
static cr_arg argument(const cr__update *u, const cr__update_call *call, const cr_param *p) {
    const struct cr__optimizer *o = u->optimizer;
    int32_t n = 0;
    if (!strcmp(p->name, "self")) return call->parameters;
    if (!strcmp(p->name, "grads")) return call->gradients;
    if (!strcmp(p->name, "state_steps")) return call->steps;
    if (!strcmp(p->name, "lr")) return call->lr;
    for (int i = 0; i < CR__UPDATE_MOMENTS && o->moments[i].name; i++) {
        const moment *m = &o->moments[i];
        bool kept = !m->when || value_of(u, m->when);
        if (!strcmp(p->name, m->parameter)) return kept ? call->moments[n] : cr_arg_list(NULL, 0);
        n += kept;
    }
    int i = find_key(o, p->name, strlen(p->name));
    double value = i < 0 ? 0 : u->values[i]; /* dampening; a first step starts from moments that are 0 */
    return p->type == CR_T_TENSOR ? cr_arg_none()
           : p->type == CR_T_BOOL ? cr_arg_bool(value != 0)
                                  : cr_arg_float(value);
}

static cr_status apply(const cr__update *u, cr_emitter *e, const cr__update_call *call) {
    const cr_op *op = cr_op_find(u->optimizer->op);
    cr_arg args[CR_MAX_PARAMS], nothing[1];
    if (!op) return CR_FAIL(CR_ENOTFOUND, "there is no op '%s'", u->optimizer->op);
    for (uint16_t i = 0; i < op->schema.nparams; i++) args[i] = argument(u, call, &op->schema.params[i]);
    return e->call(e, op, args, nothing);
}

static cr_arg chosen(const cr_arg *from, const bool *spared, bool which, cr_arg *room) {
    uint32_t n = 0;
    for (uint32_t i = 0; from->kind == CR_ARG_LIST && i < from->n; i++)
        if (spared[i] == which) room[n++] = from->u.list[i];
    return from->kind == CR_ARG_LIST ? cr_arg_list(room, n) : *from;
}

/* One call for the parameters that decay, one for the others. */
static cr_status apply_apart(const cr__update *u, cr_emitter *e, const cr__update_call *call) {
    size_t n = call->parameters.n;
    cr_arg *room = cr_alloc((CR__UPDATE_MOMENTS + 3) * (n + 1) * sizeof *room);
    cr_status status = room ? CR_OK : CR_ENOMEM;
    for (int which = 0; which < 2 && !status; which++) {
        cr__update rule = *u;
        cr__update_call part = *call;
        part.parameters = chosen(&call->parameters, call->spared, which, room);
        part.gradients = chosen(&call->gradients, call->spared, which, room + n);
        part.steps = chosen(&call->steps, call->spared, which, room + 2 * n);
        for (size_t k = 0; k < CR__UPDATE_MOMENTS; k++)
            part.moments[k] = chosen(&call->moments[k], call->spared, which, room + (3 + k) * n);
        if (which) rule.values[find_key(u->optimizer, "weight_decay", 12)] = 0;
        if (part.parameters.n) status = apply(&rule, e, &part);
    }
    cr_free(room);
    return status;
}

cr_status cr__update_emit(const cr__update *u, cr_emitter *e, const cr__update_call *call, cr_arg *norm) {
    cr__update_call use = *call;
    cr_arg *clipped = NULL;
    cr_status status = CR_OK;
    *norm = cr_arg_none();
    if (u->clip_norm > 0) {
        if (!(clipped = cr_alloc((call->gradients.n + 1) * sizeof *clipped))) return CR_ENOMEM;
        status = clip(u, e, &call->gradients, clipped, norm);
        use.gradients = cr_arg_list(clipped, call->gradients.n);
    }
    if (!status) status = use.spared ? apply_apart(u, e, &use) : apply(u, e, &use);
    cr_free(clipped);
    return status;
}
