/* weights.c: the bytes that no compiler sees, streamed from where they are to where they go.
 *
 * A block of weights begins with 64 bytes that say whose it is; in a library they stand where its code finds them, whether
 * or not the weights follow. */
#include "emit/emit.h"

#include <stdio.h>

_Static_assert(sizeof(cr_weights_head) == 64, "rt_instance.c reads a head of 64 bytes");

static uint64_t turn(uint64_t x, int n) { return x << n | x >> (64 - n); }

/* Fast enough not to be noticed beside the copying: four sums side by side. Not a defence against somebody who tries. */
static uint64_t digest(const uint8_t *data, uint64_t size, uint64_t seed) {
    uint64_t sum[4] = { seed ^ 0x9e3779b97f4a7c15u, seed + 0xc2b2ae3d27d4eb4fu, seed, ~seed }, word[4];
    uint64_t i = 0;
    for (; i + sizeof word <= size; i += sizeof word) {
        memcpy(word, data + i, sizeof word);
        for (int k = 0; k < 4; k++) sum[k] = turn(sum[k] + word[k] * 0xc2b2ae3d27d4eb4fu, 31) * 0x9e3779b97f4a7c15u;
    }
    uint64_t all = turn(sum[0], 1) ^ turn(sum[1], 7) ^ turn(sum[2], 12) ^ turn(sum[3], 18) ^ size;
    return all ^ cr_hash(data + i, (size_t)(size - i), all);
}

void cr__weights_head(const cr_lowered *l, cr_weights_head *out) {
    *out = (cr_weights_head){ .magic = RT_WEIGHTS_MAGIC };
    uint64_t weights = 0, shapes = cr_hash(&l->model.weight_bytes, sizeof l->model.weight_bytes, 1);
    for (size_t i = 0; i < l->nweights; i++) {
        weights = digest(l->weights[i].data, l->weights[i].bytes, weights + i);
        shapes = cr_hash(&l->weights[i].offset, sizeof l->weights[i].offset, shapes ^ l->weights[i].bytes);
    }
    for (int i = 0; i < l->model.nmethods; i++) shapes = cr_hash(l->model.methods[i]->constants, (size_t)l->model.methods[i]->nconstants * sizeof(int64_t), shapes);
    snprintf(out->id, sizeof out->id, "%016llx%016llx", (unsigned long long)weights, (unsigned long long)shapes);
}

cr_status cr__weights_write(const cr_lowered *l, cr_file_writer *w) {
    static const char zeros[4096];
    uint64_t at = 0;
    for (size_t i = 0; i < l->nweights; i++) {
        for (uint64_t gap = l->weights[i].offset - at; gap;) {
            size_t n = (size_t)CR_MIN(gap, (uint64_t)sizeof zeros);
            CR_TRY(cr_file_writer_write(w, zeros, n));
            gap -= n;
        }
        CR_TRY(cr_file_writer_write(w, l->weights[i].data, (size_t)l->weights[i].bytes));
        at = l->weights[i].offset + l->weights[i].bytes;
    }
    return CR_OK;
}

cr_status cr__weights_beside(const cr_lowered *l, const char *path, const cr_weights_head *head, cr_file_writer **out) {
    char *beside = NULL;
    *out = NULL;
    CR_TRY(cr__path_beside(path, ".weights", &beside));
    cr_status status = cr_file_writer_create(beside, out);
    cr_free(beside);
    CR_TRY(status);
    cr_file_writer_hurry(*out);
    CR_TRY(cr_file_writer_write(*out, head, sizeof *head));
    return cr__weights_write(l, *out);
}
