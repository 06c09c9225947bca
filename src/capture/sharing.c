/* sharing.c: the guard on memory that tensors share.
 *
 * A graph that writes to one input is right for another call only if the same inputs lie in that memory, at the same
 * places: `f(x, x[0])` is another program than `f(x, y)`. Most calls share nothing; then it is one pass over the
 * inputs with a small table of memories seen. */
#include "capture/guard.h"

#include "python/py.h"

/* One tensor. Only where its memory is shared it matters where it lies in it and what it is a view of. */
typedef struct sharer {
    uint16_t slot;
    uint16_t memory, root; /* the first tensor with this memory, this root; itself where it is the first */
    bool shared, requires_grad;
    int64_t offset;
    cr_meta *whole;        /* of the root; owned; NULL where nothing is shared */
} sharer;
struct cr_sharers { size_t n; const cr_frontend *frontend; sharer at[]; };

static const cr_tensor *tensor_in(const cr_frontend *fe, PyObject *o) {
    return *(cr_tensor *const *)((const char *)o + fe->tensor_at);
}
static const cr_tensor *root_of(const cr_tensor *t) { return t->base ? t->base : t; }

void cr_sharing_free(struct cr_sharers *s) {
    for (size_t i = 0; s && i < s->n; i++) PyMem_Free(s->at[i].whole);
    PyMem_Free(s);
}

static int describe(sharer *d, const cr_tensor *t) {
    const cr_tensor *root = root_of(t);
    d->offset = t->meta.offset;
    d->requires_grad = cr_tensor_requires_grad(root);
    if (!(d->whole = PyMem_Calloc(1, sizeof *d->whole))) return PyErr_NoMemory(), -1;
    cr_meta_copy(d->whole, &root->meta);
    return 0;
}

int cr_guard_sharing(cr_guards *g, const int32_t *at, size_t n, PyObject *const *slots) {
    struct cr_sharers *s = PyMem_Calloc(1, sizeof *s + (n + 1) * sizeof *s->at);
    if (!s) return PyErr_NoMemory(), -1;
    s->frontend = n ? cr_frontend_of(slots[at[0]]) : NULL;
    for (size_t i = 0; i < n; i++) {
        const cr_frontend *fe = cr_frontend_of(slots[at[i]]);
        if (!fe || fe != s->frontend || !fe->tensor_type) return cr_sharing_free(s), 1;
        const cr_tensor *t = tensor_in(fe, slots[at[i]]), *other;
        size_t memory = 0, root = 0;
        while ((other = tensor_in(fe, slots[at[memory]]))->storage != t->storage) memory++;
        while (root_of(tensor_in(fe, slots[at[root]])) != root_of(t)) root++;
        s->at[i] = (sharer){ .slot = (uint16_t)at[i], .memory = (uint16_t)memory, .root = (uint16_t)root };
        s->n = i + 1;
        if (memory == i) continue;
        if (!s->at[memory].shared && describe(&s->at[memory], other)) return cr_sharing_free(s), -1;
        s->at[memory].shared = s->at[i].shared = true;
        if (describe(&s->at[i], t)) return cr_sharing_free(s), -1;
    }
    if (n < 1) return cr_sharing_free(s), 0;
    cr_guard row = { .check = CR_HOLDS_SHARING, .slot = (uint16_t)at[0], .u.sharers = s };
    if (!cr_vec_push(&g->rows, row)) return 0;
    cr_sharing_free(s);
    return PyErr_NoMemory(), -1;
}

static bool lies_alike(const sharer *d, const cr_tensor *t) {
    const cr_tensor *root = root_of(t);
    const cr_meta *m = &root->meta, *w = d->whole;
    bool same = t->meta.offset == d->offset && cr_tensor_requires_grad(root) == d->requires_grad &&
                m->dtype == w->dtype && m->rank == w->rank && m->offset == w->offset;
    for (int i = 0; same && i < m->rank; i++) same = m->size[i] == w->size[i] && m->stride[i] == w->stride[i];
    return same;
}

enum { SMALL = 64 };

bool cr_sharing_holds(const struct cr_sharers *s, PyObject *const *slots) {
    const void *small[SMALL], **seen = small;
    size_t room = SMALL;
    bool same = true;
    while (room < 2 * s->n) room *= 2;
    if (room > SMALL && !(seen = PyMem_Malloc(room * sizeof *seen))) return false;
    memset(seen, 0, room * sizeof *seen);
    for (size_t i = 0; same && i < s->n; i++) {
        const sharer *d = &s->at[i];
        const cr_tensor *t = tensor_in(s->frontend, slots[d->slot]);
        if (d->memory != i) {
            same = t->storage == tensor_in(s->frontend, slots[s->at[d->memory].slot])->storage;
        } else { /* nobody has it yet */
            size_t k = ((uintptr_t)t->storage >> 4) * 0x9E3779B97F4A7C15u >> 32 & (room - 1);
            while (seen[k] && seen[k] != t->storage) k = (k + 1) & (room - 1);
            same = !seen[k];
            seen[k] = t->storage;
        }
        if (!d->shared || !same) continue;
        const cr_tensor *first = root_of(tensor_in(s->frontend, slots[s->at[d->root].slot]));
        same = lies_alike(d, t) && (root_of(t) == first);
        for (size_t k = 0; same && d->root == i && k < i; k++)
            same = root_of(tensor_in(s->frontend, slots[s->at[k].slot])) != root_of(t);
    }
    if (seen != small) PyMem_Free(seen);
    return same;
}
