/* mincut.c: the largest flow from a source to a sink, by shortest paths in layers (Dinic).
 *
 * Layers are counted from the sink, so that the last search, which finds no path any more, leaves behind exactly those
 * nodes that can still reach the sink: the sink's side of a smallest cut, and the smallest such side. Nothing recurses:
 * a path is a list of edges. Capacities are integers, so the answer is exact. */
#include "autograd/partition.h"

#define NONE UINT32_MAX

cr_status cr_flow_init(cr_flow *f, uint32_t nnodes) {
    *f = (cr_flow){ .nnodes = nnodes };
    f->first = cr_alloc(4 * ((size_t)nnodes + 1) * sizeof *f->first);
    if (!f->first) return CR_ENOMEM;
    f->level = f->first + nnodes + 1;
    f->at = f->level + nnodes + 1;
    f->path = f->at + nnodes + 1;
    for (uint32_t i = 0; i < nnodes; i++) f->first[i] = NONE;
    return CR_OK;
}

void cr_flow_dispose(cr_flow *f) {
    cr_free(f->first);
    cr_vec_dispose(&f->edges);
    *f = (cr_flow){ .nnodes = 0 };
}

cr_status cr_flow_edge(cr_flow *f, uint32_t from, uint32_t to, int64_t capacity) {
    uint32_t n = (uint32_t)f->edges.n;
    CR_TRY(cr_vec_reserve(&f->edges, f->edges.n + 2));
    f->edges.at[f->edges.n++] = (cr_flow_pipe){ to, f->first[from], capacity };
    f->first[from] = n;
    f->edges.at[f->edges.n++] = (cr_flow_pipe){ from, f->first[to], 0 };
    f->first[to] = n + 1;
    return CR_OK;
}

/* How far every node is from the sink along edges with room. Does the source reach it? All are looked at, also those
 * behind the source: cr_flow_needs asks for them. */
static bool find_levels(cr_flow *f, uint32_t source, uint32_t sink) {
    uint32_t *queue = f->path, begin = 0, end = 0;
    for (uint32_t i = 0; i < f->nnodes; i++) f->level[i] = NONE;
    f->level[sink] = 0;
    queue[end++] = sink;
    while (begin < end) {
        uint32_t node = queue[begin++];
        for (uint32_t e = f->first[node]; e != NONE; e = f->edges.at[e].next) {
            uint32_t from = f->edges.at[e].to; /* the edge from there to here is its twin */
            if (f->level[from] != NONE || !f->edges.at[e ^ 1].left) continue;
            f->level[from] = f->level[node] + 1;
            queue[end++] = from;
        }
    }
    return f->level[source] != NONE;
}

/* The next edge of a node that leads one layer down; NONE: there is none left. */
static uint32_t next_edge(cr_flow *f, uint32_t node) {
    for (uint32_t *e = &f->at[node]; *e != NONE; *e = f->edges.at[*e].next)
        if (f->edges.at[*e].left && f->level[f->edges.at[*e].to] != NONE &&
            f->level[f->edges.at[*e].to] + 1 == f->level[node])
            return *e;
    return NONE;
}

/* Sends along f->path what fits, and goes back to where it got full. */
static int64_t send(cr_flow *f, uint32_t *length) {
    int64_t most = INT64_MAX;
    uint32_t full = 0;
    for (uint32_t i = 0; i < *length; i++) most = CR_MIN(most, f->edges.at[f->path[i]].left);
    for (uint32_t i = *length; i-- > 0;) {
        f->edges.at[f->path[i]].left -= most;
        f->edges.at[f->path[i] ^ 1].left += most;
        if (!f->edges.at[f->path[i]].left) full = i;
    }
    *length = full;
    return most;
}

/* Fills the layers until no path is left in them. */
static int64_t fill_layers(cr_flow *f, uint32_t source, uint32_t sink) {
    int64_t sum = 0;
    uint32_t length = 0;
    memcpy(f->at, f->first, f->nnodes * sizeof *f->at);
    for (;;) {
        uint32_t node = length ? f->edges.at[f->path[length - 1]].to : source;
        if (node == sink) {
            sum += send(f, &length);
            continue;
        }
        uint32_t e = next_edge(f, node);
        if (e != NONE) {
            f->path[length++] = e;
        } else if (length) { /* a dead end: not by this edge again */
            e = f->path[--length];
            uint32_t from = f->edges.at[e ^ 1].to;
            f->at[from] = f->edges.at[e].next;
        } else {
            return sum;
        }
    }
}

int64_t cr_flow_run(cr_flow *f, uint32_t source, uint32_t sink) {
    int64_t sum = 0;
    while (find_levels(f, source, sink)) sum += fill_layers(f, source, sink);
    return sum;
}
