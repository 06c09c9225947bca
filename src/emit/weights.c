/* weights.c: the bytes that no compiler sees, streamed from where they are to where they go.
 *
 * A block of weights begins with 64 bytes that say whose it is; in a library they stand where its code finds them,
 * whether or not the weights follow. */
#include "emit/emit.h"
#include "tensor/tensor.h"

#include <stdio.h>

_Static_assert(sizeof(cr_weights_head) == 64, "rt_instance.c reads a head of 64 bytes");

static uint64_t turn(uint64_t x, int n) { return x << n | x >> (64 - n); }

/* Fast enough not to be noticed beside the copying: four sums side by side. Not a defence against somebody who
 * tries. */
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

/* Pieces of weights, so that threads can share the work; their number and places follow from the weights alone. */
enum { PIECE = 4 << 20, PIECES = 64 };
typedef struct piece { const uint8_t *data; uint64_t size, seed, digest; } piece;
typedef struct pieces { piece at[PIECES]; int n; uint64_t all; } pieces;

static int digest_some(void *user, int64_t begin, int64_t end) {
    piece *p = user;
    for (int64_t i = begin; i < end; i++) p[i].digest = digest(p[i].data, p[i].size, p[i].seed);
    return 0;
}

static void digest_pieces(pieces *p) {
    char message[64];
    rt_ctx ctx = cr_kernel_ctx(message, sizeof message);
    rt_parallel_for(&ctx, p->n, 1, digest_some, p->at);
    for (int i = 0; i < p->n; i++) p->all = cr_hash(&p->at[i].digest, sizeof p->at[i].digest, p->all);
    p->n = 0;
}

static uint64_t digest_weights(const cr_lowered *l) {
    pieces p = { .n = 0 };
    for (size_t i = 0; i < l->nweights; i++) {
        for (uint64_t from = 0; from < l->weights[i].bytes; from += PIECE) {
            p.at[p.n++] = (piece){ (const uint8_t *)l->weights[i].data + from,
                                   CR_MIN(l->weights[i].bytes - from, (uint64_t)PIECE), i, 0 };
            if (p.n == PIECES) digest_pieces(&p);
        }
    }
    digest_pieces(&p);
    return p.all;
}

void cr__weights_head(const cr_lowered *l, cr_weights_head *out) {
    *out = (cr_weights_head){ .magic = RT_WEIGHTS_MAGIC };
    uint64_t weights = digest_weights(l), shapes = cr_hash(&l->model.weight_bytes, sizeof l->model.weight_bytes, 1);
    for (size_t i = 0; i < l->nweights; i++) {
        shapes = cr_hash(&l->weights[i].offset, sizeof l->weights[i].offset, shapes ^ l->weights[i].bytes);
    }
    for (int i = 0; i < l->model.nmethods; i++)
        shapes = cr_hash(l->model.methods[i]->constants, (size_t)l->model.methods[i]->nconstants * sizeof(int64_t),
                         shapes);
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
