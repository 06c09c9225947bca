/* rt_rows.c: see rt_rows.h. */
#include "runtime/rt_rows.h"

#include <string.h>

enum {
    GRAIN = 16384 /* additions that take about a microsecond when other cores have the numbers */,
    CUT = 8192 /* lanes of a piece of a long row */,
    STACK = 16384
};

int rt_isa_level(void) {
    static int level = -1; /* every thread finds the same */
    int known = __atomic_load_n(&level, __ATOMIC_RELAXED);
    if (known >= 0) return known;
    uint32_t cpu = rt_cpu();
    known = cpu & RT_CPU_AVX512 ? RT_ISA_AVX512 : cpu & RT_CPU_AVX2 ? RT_ISA_AVX2 : RT_ISA_PORTABLE;
    __atomic_store_n(&level, known, __ATOMIC_RELAXED);
    return known;
}

typedef struct job {
    const rt_ctx *ctx;
    rt_rows_fn *fn;
    int nports, nouter, nrow;
    bool column, cut;              /* cut: pieces of the lanes' axis are independent */
    int64_t size[RT_MAX_RANK], row[RT_ROWS_LEVELS];
    int64_t stride[RT_MAX_RANK + RT_ROWS_LEVELS][RT_ROWS_PORTS]; /* bytes; outer axes, then row axes */
    char *p[RT_ROWS_PORTS];
    int64_t lanes, piece, pieces;  /* of the axis that is cut */
    int64_t room, scratch;
} job;

/* Does axis a, just outside axis b of size n, continue it in every port? */
static bool continues(const job *j, int a, int b, int64_t n) {
    for (int i = 0; i < j->nports; i++)
        if (j->stride[a][i] != j->stride[b][i] * n) return false;
    return true;
}

static void copy_axis(job *j, int to, int from) { memcpy(j->stride[to], j->stride[from], sizeof j->stride[to]); }

/* Outer axes merged where all ports allow it; those of one element left out. */
static void merge_outer(job *j) {
    int n = 0;
    for (int a = 0; a < j->nouter; a++) {
        if (j->size[a] == 1) continue;
        if (n && continues(j, n - 1, a, j->size[a])) {
            j->size[n - 1] *= j->size[a];
            copy_axis(j, n - 1, a);
            continue;
        }
        j->size[n] = j->size[a];
        copy_axis(j, n++, a);
    }
    j->nouter = n;
}

/* Row axes that continue the innermost one join it: they are left with one element, and their loops run once. */
static void merge_row(job *j) {
    int lane = j->nrow - 1;
    for (int a = lane - 1; a >= 0; a--) {
        if (j->row[a] == 1) continue;
        if (!continues(j, RT_MAX_RANK + a, RT_MAX_RANK + lane, j->row[lane])) return;
        j->row[lane] *= j->row[a];
        j->row[a] = 1;
    }
}

/* Of a kernel whose elements are independent, outer axes join the lanes' axis. */
static void join_lanes(job *j) {
    int lane = RT_MAX_RANK + j->nrow - 1;
    while (j->nouter && continues(j, j->nouter - 1, lane, j->row[j->nrow - 1]))
        j->row[j->nrow - 1] *= j->size[--j->nouter];
}

static void set_row(const job *j, rt_rows_call *c) {
    c->count = 1;
    for (int a = 0; a < j->nrow; a++) {
        c->n[a] = j->row[a];
        c->count *= j->row[a];
        memcpy(c->stride[a], j->stride[RT_MAX_RANK + a], (size_t)j->nports * sizeof **c->stride);
    }
    c->room = j->room;
}

/* Pieces [begin, end): outer positions, each in j->pieces pieces where the lanes' axis is cut. */
static int run_pieces(const job *j, rt_rows_call *c, int64_t begin, int64_t end) {
    int lane_axis = j->column ? j->nouter : RT_MAX_RANK + j->nrow - 1;
    for (int64_t at = begin; at < end;) {
        int64_t position = at / j->pieces, piece = at % j->pieces, run = 1, index[RT_MAX_RANK];
        int outer = j->nouter;
        for (int a = outer - 1; a >= 0; a--) index[a] = position % j->size[a], position /= j->size[a];
        for (int i = 0; i < j->nports; i++) {
            char *p = j->p[i] + (j->cut ? piece * j->piece * j->stride[lane_axis][i] : 0);
            for (int a = 0; a < outer; a++) p += index[a] * j->stride[a][i];
            c->p[i] = p;
            c->step[i] = j->column ? j->stride[lane_axis][i] : outer ? j->stride[outer - 1][i] : 0;
        }
        int64_t length = j->lanes - piece * j->piece < j->piece ? j->lanes - piece * j->piece : j->piece;
        if (j->column) c->rows = length;
        else {
            if (j->pieces == 1 && outer) { /* as many rows as the last outer axis has left */
                run = j->size[outer - 1] - index[outer - 1];
                if (run > end - at) run = end - at;
            }
            c->rows = run;
            if (j->cut) c->n[j->nrow - 1] = length;
        }
        int code = j->fn(c);
        if (code) return code;
        at += run;
    }
    return RT_OK;
}

static int run_range(void *arg, int64_t begin, int64_t end) {
    const job *j = arg;
    rt_rows_call c;
    _Alignas(64) char small[STACK];
    set_row(j, &c);
    c.scratch = j->scratch <= STACK ? small : rt_scratch(j->ctx, (size_t)j->scratch);
    if (!c.scratch) return rt_fail(j->ctx, RT_ENOMEM, "out of memory");
    int code = run_pieces(j, &c, begin, end);
    if (c.scratch != small) rt_scratch_free(j->ctx, c.scratch);
    return code;
}

int rt_rows_run(const rt_ctx *ctx, const rt_rows *rows, const rt_view *port) {
    job j = { .ctx = ctx, .nports = rows->nports, .nrow = rows->nrow, .column = rows->column };
    j.nouter = rows->naxes - rows->nrow;
    for (int level = rt_isa_level(); level >= 0 && !j.fn; level--) j.fn = rows->fn[level];
    /* compiled for this processor alone */
    for (int level = 0; level < RT_ISA_COUNT && !j.fn; level++) j.fn = rows->fn[level];
    int64_t outer = 1, count = 1;
    for (int a = 0; a < rows->naxes; a++) {
        int64_t n = port[0].size[a];
        int axis = a < j.nouter ? a : RT_MAX_RANK + a - j.nouter;
        if (a < j.nouter) outer *= j.size[a] = n;
        else count *= j.row[a - j.nouter] = n;
        for (int i = 0; i < j.nports; i++) j.stride[axis][i] = port[i].stride[a] * rt_itemsize(port[i].dtype);
    }
    for (int i = 0; i < j.nports; i++) j.p[i] = port[i].p;
    if (!outer || (!count && !rows->reduces)) return RT_OK;
    int64_t work = (1 + rows->cost) * (count ? count : 1);
    if (j.column) { /* the lanes' axis is the last outer one, whatever its size */
        int lane = --j.nouter;
        j.lanes = j.size[lane];
        j.piece = 64;
        int64_t kept[RT_ROWS_PORTS];
        memcpy(kept, j.stride[lane], sizeof kept);
        merge_outer(&j);
        memcpy(j.stride[j.nouter], kept, sizeof kept);
        merge_row(&j);
        outer /= j.lanes;
        work *= j.piece;
    } else {
        merge_outer(&j);
        if (rows->reduces) merge_row(&j);
        else join_lanes(&j);
        j.lanes = j.row[j.nrow - 1];
        j.piece = rows->reduces || j.lanes <= 2 * CUT ? j.lanes : CUT;
        outer = 1;
        for (int a = 0; a < j.nouter; a++) outer *= j.size[a];
        work = (1 + rows->cost) * (rows->reduces ? count : j.piece);
    }
    j.pieces = j.piece && j.lanes > j.piece ? (j.lanes + j.piece - 1) / j.piece : 1;
    j.cut = j.pieces > 1;
    if (j.column && !j.cut) j.piece = j.lanes;
    int64_t lanes = j.column ? RT_ROWS_LANES : 1;
    j.room = (count * lanes + RT_ROWS_LANES - 1) / RT_ROWS_LANES * RT_ROWS_LANES + RT_ROWS_LANES;
    j.scratch = rows->scratch * j.room;
    return rt_parallel_work(ctx, outer * j.pieces, work, GRAIN, run_range, &j);
}
