/* state.c: a program's parameters and buffers to a .safetensors file and back. */
#include "api/api.h"
#include "archive/safetensors.h"

/* ---- out ---- */

typedef struct dense {
    const cr_program *p;
    void *copy;
} dense;

/* The values of a tensor that does not lie in order, in a place that the next one takes over. */
static cr_status fill(void *user, size_t i, const void **data) {
    dense *d = user;
    const cr_tensor *t = d->p->state[i].tensor;
    size_t bytes = (size_t)(cr_tensor_numel(t) * rt_itemsize(t->meta.dtype));
    cr_free(d->copy);
    d->copy = cr_alloc(bytes);
    if (!d->copy) return CR_ENOMEM;
    *data = d->copy;
    return cr_tensor_read(t, t->meta.dtype, d->copy, bytes);
}

cr_status cr_program_save_state(const cr_program *p, const char *path) {
    static const char *const metadata[] = { "format", "pt", NULL };
    dense d = { .p = p };
    cr_safetensor *entries = cr_calloc(p->nstate + 1, sizeof *entries);
    if (!entries) return CR_ENOMEM;
    for (size_t i = 0; i < p->nstate; i++) {
        rt_view v = cr_tensor_view(p->state[i].tensor);
        entries[i] = (cr_safetensor){ .name = p->state[i].name,
                                      .dtype = v.dtype,
                                      .rank = v.rank,
                                      .bytes = (uint64_t)(rt_numel(&v) * rt_itemsize(v.dtype)) };
        memcpy(entries[i].size, v.size, sizeof entries[i].size);
        if (rt_is_contiguous(&v)) entries[i].data = v.p;
    }
    cr_safetensors_source source = { .fill = fill, .user = &d };
    cr_status status = cr_safetensors_write_from(path, entries, p->nstate, metadata, &source);
    cr_free(d.copy);
    cr_free(entries);
    return status;
}

/* ---- in ---- */

static cr_status check_weight(const char *file, const cr_named_tensor *want, const cr_safetensor *have) {
    const cr_meta *m = &want->tensor->meta;
    bool same = have->dtype == m->dtype && have->rank == m->rank;
    for (int i = 0; same && i < m->rank; i++) same = have->size[i] == m->size[i];
    if (same) return CR_OK;
    cr_str expected, found;
    cr_str_init(&expected);
    cr_str_init(&found);
    cr_shape_print(NULL, m->rank, m->size, &expected);
    cr_shape_print(NULL, have->rank, have->size, &found);
    cr_status status = CR_FAIL(CR_EVALUE,
                               "%s: tensor '%s': expected %s %s, found %s %s; dtypes and shapes of weights are "
                               "part of the program",
                               file, want->name, cr_dtype_name(m->dtype), cr_str_get(&expected),
                               cr_dtype_name(have->dtype), cr_str_get(&found));
    cr_str_dispose(&expected);
    cr_str_dispose(&found);
    return status;
}

static cr_status check_names(const cr_program *p, const char *path, const cr_safetensors *file) {
    for (size_t i = 0; i < p->nstate; i++) {
        const cr_safetensor *given = cr_safetensors_find(file, p->state[i].name);
        if (!given) return CR_FAIL(CR_ENOTFOUND, "%s: tensor '%s' is missing", path, p->state[i].name);
        CR_TRY(check_weight(path, &p->state[i], given));
    }
    for (size_t i = 0; i < cr_safetensors_count(file); i++) {
        const char *name = cr_safetensors_at(file, i)->name;
        bool known = false;
        for (size_t k = 0; k < p->nstate && !known; k++) known = !strcmp(p->state[k].name, name);
        if (!known) return CR_FAIL(CR_EVALUE, "%s: tensor '%s' is no parameter or buffer of the program", path, name);
    }
    return CR_OK;
}

/* Tensors that share memory must be given equal values: of two that see the same elements the same way, and of others
 * by looking at what is there afterwards. */
static cr_status check_shared(const char *file, const cr_named_tensor *t, const cr_safetensor *given) {
    if (!given->bytes) return CR_OK;
    void *now = cr_alloc(given->bytes);
    if (!now) return CR_ENOMEM;
    cr_status status = cr_tensor_read(t->tensor, t->tensor->meta.dtype, now, given->bytes);
    if (!status && memcmp(now, given->data, given->bytes))
        status = CR_FAIL(CR_EVALUE,
                         "%s: tensor '%s' differs from another one that it shares memory with; the archive keeps "
                         "them in one place: store equal values",
                         file, t->name);
    cr_free(now);
    return status;
}

cr_status cr_program_load_state(cr_program *p, const char *path) {
    cr_safetensors *file;
    CR_TRY(cr_safetensors_open(path, &file));
    cr_status status = check_names(p, path, file);
    for (size_t i = 0; i < p->nstate && !status; i++) {
        const cr_safetensor *given = cr_safetensors_find(file, p->state[i].name);
        status = cr_tensor_write(p->state[i].tensor, given->dtype, given->data, given->bytes);
    }
    for (size_t i = 0; i < p->nstate && !status; i++)
        status = check_shared(path, &p->state[i], cr_safetensors_find(file, p->state[i].name));
    cr_safetensors_release(file);
    return status;
}
