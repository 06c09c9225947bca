/* frozen.c: weights that native code was made with; see frozen.h. */
#include "emit/frozen.h"

#include "passes/passes.h"
#include "runtime/rt.h"

#include <string.h>

enum { SAMPLES = 32, WORD = 8 };

typedef struct taken {
    bool is;
    int32_t dtype, rank;
    const void *data;
    size_t bytes;
    int64_t size[CR_MAX_RANK], stride[CR_MAX_RANK];
    uint64_t version, sample;
    cr_storage *storage;
} taken;

struct cr_frozen {
    size_t n;
    cr_tensor **copies; /* one per input; NULL: an input still, or nobody needs it any more */
    taken at[];
};

/* ---- what is compared ---- */

/* From the first element to behind the last, in bytes; PyTorch's strides and ours are never negative. */
static size_t extent(const cresset_value *v) {
    int64_t last = 0;
    for (int d = 0; d < v->rank; d++) {
        if (!v->size[d]) return 0;
        last += (v->size[d] - 1) * v->stride[d];
    }
    return (size_t)(last + 1) * (size_t)rt_itemsize(v->dtype);
}

static uint64_t mix(uint64_t sum, uint64_t word) {
    sum = (sum ^ word) * 0x9e3779b97f4a7c15u;
    return sum ^ sum >> 29;
}

/* Other threads may write meanwhile: whatever is read then differs from what was taken, or will. */
__attribute__((no_sanitize("thread"))) static uint64_t sample(const cresset_value *v) {
    const char *from = v->data;
    size_t bytes = extent(v), words = bytes / WORD, n = CR_MIN(words, SAMPLES);
    uint64_t sum = bytes, word = 0;
    for (size_t i = 0; i < n; i++) {
        size_t at = n < 2 ? 0 : i * (words - 1) / (n - 1);
        memcpy(&word, from + at * WORD, WORD);
        sum = mix(sum, word);
    }
    if (bytes % WORD) {
        word = 0;
        memcpy(&word, from + words * WORD, bytes % WORD);
        sum = mix(sum, word);
    }
    return sum;
}

bool cr_frozen_has(const cr_frozen *f, size_t input) { return input < f->n && f->at[input].is; }

bool cr_frozen_holds(const cr_frozen *f, size_t input, const cresset_value *now, uint64_t version) {
    const taken *t = &f->at[input];
    if ((t->bytes && t->data != now->data) || t->version != version) return false;
    if (t->dtype != now->dtype || t->rank != now->rank) return false;
    for (int d = 0; d < t->rank; d++)
        if (t->size[d] != now->size[d] || t->stride[d] != now->stride[d]) return false;
    return t->sample == sample(now);
}

/* ---- taking ---- */

static cr_status copy(const cresset_value *v, cr_tensor **out) {
    cr_meta meta;
    cr_storage *storage;
    size_t bytes = extent(v);
    cr_meta_init(&meta, v->dtype, (cr_device){ CR_CPU, -1 });
    CR_TRY(cr_meta_set_dense(NULL, &meta, v->rank, v->size, CR_CONTIGUOUS));
    for (int d = 0; d < v->rank; d++) meta.stride[d] = v->stride[d];
    CR_TRY(cr_storage_create((int64_t)bytes, &storage));
    if (bytes) memcpy(storage->data, v->data, bytes);
    cr_status status = cr_tensor_on(storage, &meta, NULL, NULL, out);
    cr_storage_release(storage);
    return status;
}

/* What is compared is read before the copy is made: a write in between shows. */
static cr_status take(taken *t, const cr_frozen_input *w, cr_tensor **out) {
    const cresset_value *v = &w->value;
    *t = (taken){ .dtype = v->dtype, .rank = v->rank, .data = v->data, .bytes = extent(v),
                  .version = w->version };
    for (int d = 0; d < v->rank; d++) t->size[d] = v->size[d], t->stride[d] = v->stride[d];
    t->sample = sample(v);
    CR_TRY(copy(v, out));
    t->is = true;
    if ((t->storage = w->storage)) cr_storage_retain(t->storage);
    return CR_OK;
}

static bool is_plain(const cr_meta *m, const cresset_value *v) {
    if (!m || m->dtype != v->dtype || m->rank != v->rank) return false;
    for (int d = 0; d < m->rank; d++)
        if (!cr_dim_is_plain(m->size[d]) || !cr_dim_is_plain(m->stride[d])) return false;
    return true;
}

cr_status cr_frozen_take(const cr_graph *g, const cr_frozen_input *weights, size_t n, cr_frozen **out) {
    cr_frozen *f = cr_calloc(1, sizeof *f + n * sizeof f->at[0]);
    cr_status status = f && (f->copies = cr_calloc(n + 1, sizeof *f->copies)) ? CR_OK : CR_ENOMEM;
    size_t i = 0, any = 0;
    if (f) f->n = n;
    for (uint32_t at = cr_graph_first(g); !status && i < n && at != CR_NO_NODE; at = cr_graph_next(g, at), i++) {
        const cr_node *node = cr_graph_node(g, at);
        if (node->kind != CR_NODE_PLACEHOLDER) break;
        const cr_frozen_input *w = &weights[i];
        if (w->value.kind != CRESSET_TENSOR || !is_plain(cr_graph_value(g, node->first)->meta, &w->value)) continue;
        status = take(&f->at[i], w, &f->copies[i]);
        any++;
    }
    if (status || !any) cr_frozen_release(f), f = NULL;
    *out = f;
    return status;
}

static void drop_copies(cr_frozen *f) {
    for (size_t i = 0; f->copies && i < f->n; i++) {
        cr_tensor_release(f->copies[i]);
        f->copies[i] = NULL;
    }
}

void cr_frozen_release(cr_frozen *f) {
    if (!f) return;
    drop_copies(f);
    for (size_t i = 0; i < f->n; i++) cr_storage_release(f->at[i].storage);
    cr_free(f->copies);
    cr_free(f);
}

/* ---- using ---- */

cr_status cr_frozen_apply(cr_frozen *f, const cr_graph *g, cr_graph **out) {
    size_t left = f->n;
    for (size_t i = 0; i < f->n; i++) left -= f->at[i].is;
    CR_TRY(cr_pass_freeze(g, &(cr_freeze_options){ .tensors = f->copies, .n = f->n }, out));
    if (cr_graph_input_count(*out) != left) {
        cr_graph_release(*out);
        return CR_FAIL(CR_EUNSUPPORTED, "the graph writes to a weight that is frozen");
    }
    drop_copies(f);
    return CR_OK;
}

size_t cr_frozen_leave(const cr_frozen *f, const void *inputs, size_t bytes, void *others) {
    size_t n = 0;
    for (size_t i = 0; i < f->n; i++) {
        if (f->at[i].is) continue;
        memcpy((char *)others + n++ * bytes, (const char *)inputs + i * bytes, bytes);
    }
    return n;
}
