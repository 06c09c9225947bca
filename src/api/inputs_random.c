/* inputs_random.c: inputs that a program takes, for who has none at hand. */
#include "api/inputs.h"

#include "runtime/rt_random.h"

/* A size that the program accepts: the example's, else the hint that the archive kept, else the least of the range
 * that is neither 0 nor 1 (exports often treat those apart). */
static cr_status choose_size(cr_env *env, const cr_tensor *example, const cr_meta *meta, int i, int64_t *out) {
    if (cr_dim_is_plain(meta->size[i])) return *out = meta->size[i], CR_OK;
    if (example && example->meta.rank == meta->rank) return *out = example->meta.size[i], CR_OK;
    cr_sym e = cr_dim_sym(env, meta->size[i]);
    if (!e) return CR_ENOMEM;
    if (cr_env_hint(env, e, out)) return CR_OK;
    cr_range r = cr_sym_range(env, e);
    *out = r.hi < 2 ? r.hi : CR_MAX(r.lo, 2);
    return CR_OK;
}

static int64_t largest_integer(const cr_tensor *t) {
    if (!t) return 1;
    rt_view v = cr_tensor_view(t);
    int64_t most = 0, n = rt_numel(&v), index[RT_MAX_RANK] = { 0 };
    for (int64_t k = 0; k < n; k++) {
        rt_scalar x;
        if (cr_tensor_item(t, index, &x)) return 1;
        most = CR_MAX(most, x.i);
        for (int d = v.rank - 1; d >= 0 && ++index[d] == v.size[d]; d--) index[d] = 0;
    }
    return most;
}

static cr_status random_tensor(cr_env *env, rt_generator *g, const cr__slot *s, const cr_tensor *example, cr_arg *out) {
    int64_t size[CR_MAX_RANK];
    if (!s->meta)
        return CR_FAIL(CR_EUNSUPPORTED, "input '%s': the archive does not say its dtype and shape", s->shown.name);
    for (int i = 0; i < s->meta->rank; i++) CR_TRY(choose_size(env, example, s->meta, i, &size[i]));
    cr_tensor *tensor;
    int dtype = s->meta->dtype;
    CR_TRY(cr_tensor_empty(dtype, s->meta->rank, size, &tensor));
    bool whole = !rt_is_float(dtype) && !rt_is_complex(dtype);
    uint64_t most = whole && dtype != RT_BOOL ? (uint64_t)largest_integer(example) + 1 : 2;
    char *at = tensor->storage->data;
    for (int64_t k = 0, n = cr_tensor_numel(tensor); k < n; k++, at += rt_itemsize(dtype)) {
        if (whole) {
            int64_t value = (int64_t)(rt__word64(g) % most);
            rt_convert(dtype, at, 1, RT_I64, &value, 1, 1);
        } else {
            double value[2] = { rt__normal(g), 0 };
            if (rt_is_complex(dtype)) value[1] = rt__normal(g);
            rt_convert(dtype, at, 1, rt_is_complex(dtype) ? RT_C128 : RT_F64, value, 1, 1);
        }
    }
    *out = cr_arg_tensor(tensor);
    return CR_OK;
}

static cr_arg random_number(cr_env *env, rt_generator *g, const cr__slot *s) {
    int64_t i = 2;
    if (s->type == CR_T_FLOAT || s->type == CR_T_SCALAR) return cr_arg_float(rt__unit(g));
    if (s->type == CR_T_BOOL) return cr_arg_bool(rt__word(g) & 1);
    if (s->expr && !cr_env_hint(env, s->expr, &i)) {
        cr_range r = cr_sym_range(env, s->expr);
        i = r.hi < 2 ? r.hi : CR_MAX(r.lo, 2);
    }
    return cr_arg_int(i);
}

static cr_status random_input(cr_inputs *in, const cr_program *p, rt_generator *g, size_t i) {
    cr_env *env = in->signature->env;
    const cr__slot *s = &in->signature->inputs[i];
    const cr_arg *example = cr__example_of(in, p, i);
    const cr_tensor *shape = example && example->kind == CR_ARG_TENSOR ? example->u.t : NULL;
    cr_arg value;
    if (s->shown.is_constant) return CR_OK;
    if (s->type == CR_T_TENSOR) CR_TRY(random_tensor(env, g, s, shape, &value));
    else value = example && cr_arg_is_number(example) ? *example : random_number(env, g, s);
    cr__inputs_put(in, i, value, true);
    return CR_OK;
}

cr_status cr_inputs_set_random(cr_inputs *in, const cr_program *p, uint64_t seed) {
    cr_status status = CR_OK;
    rt_generator g;
    rt_generator_init(&g, seed);
    pthread_mutex_lock(cr__signature_lock(in->signature));
    for (size_t i = 0; i < in->signature->ninputs && !status; i++) status = random_input(in, p, &g, i);
    pthread_mutex_unlock(cr__signature_lock(in->signature));
    rt_generator_dispose(&g);
    return status;
}
