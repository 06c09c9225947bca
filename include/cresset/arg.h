/* arg.h: what goes into a call and comes out of it: a tensor, a number, a text, a list, or nothing.
 *
 *     const int64_t size[] = { 3 };
 *     cr_tensor *t;
 *     if (cr_tensor_empty(CR_F32, 1, size, &t)) return fail(cr_error_message());
 *     cr_arg pair[2] = { cr_arg_tensor(t), cr_arg_int(3) };
 *     cr_arg list = cr_arg_list(pair, 2);
 *     printf("%u entries, the first has kind %d\n", (unsigned)list.n, list.u.list[0].kind);
 *     cr_tensor_release(t);
 *
 * An argument is plain data of 16 bytes and owns nothing: what it points to must live as long as the call. Results
 * are the exception: tensors and lists in them are the caller's, and cr_results_release gives them back. Make
 * arguments with the functions below, which fill in every field. */
#ifndef CRESSET_ARG_H
#define CRESSET_ARG_H

#include "cresset/tensor.h"

#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum cr_arg_kind {
    CR_ARG_NONE,
    CR_ARG_TENSOR,    /* u.t: a tensor, real or fake */
    CR_ARG_META,      /* u.meta: a shape without a tensor. Inside the library: calls do not give it */
    CR_ARG_VALUE,     /* u.i: a value of a graph that is being built. Inside the library */
    CR_ARG_INT,       /* u.i */
    CR_ARG_FLOAT,     /* u.f */
    CR_ARG_BOOL,      /* u.i */
    CR_ARG_COMPLEX,   /* u.c: real, imaginary */
    CR_ARG_STR,       /* u.s, n bytes, NUL-terminated */
    CR_ARG_DTYPE, CR_ARG_LAYOUT, CR_ARG_FORMAT, /* u.i */
    CR_ARG_DEVICE,    /* u.device */
    CR_ARG_GENERATOR, /* u.generator */
    CR_ARG_LIST,      /* u.list, n entries of any kinds */
    CR_ARG_GRAPH,     /* u.graph: a subgraph (higher-order ops) */
    CR_ARG_SYM,       /* u.sym: a symbolic float or bool. Inside the library */
    CR_ARG_KIND_COUNT /* grows with releases */
} cr_arg_kind;
/* How it was passed: round trips of graphs keep it. */
enum { CR_GIVEN_DEFAULT = 0, CR_GIVEN_POSITIONAL = 1, CR_GIVEN_KEYWORD = 2 };

struct cr_meta;
struct cr_graph;
struct cr_expr;
struct rt_generator;
typedef struct cr_arg {
    uint8_t kind, given;
    uint16_t type; /* the library's: of CR_ARG_VALUE, its cr_type; of CR_ARG_INT, 1 when it is symbolic; of a list or
                    * text of an archive, which key it had there */
    uint32_t n;
    union {
        int64_t i;
        double f;
        const double *c;
        const char *s;
        cr_device device;
        cr_tensor *t;
        const struct cr_meta *meta;
        struct rt_generator *generator;
        const struct cr_arg *list;
        struct cr_graph *graph;
        const struct cr_expr *sym;
    } u;
} cr_arg;

static inline cr_arg cr__arg(uint8_t kind, size_t n) {
    cr_arg a = { kind, 0, 0, (uint32_t)n, { 0 } };
    a.given = kind != CR_ARG_NONE;
    return a;
}
static inline cr_arg cr_arg_none(void) { return cr__arg(CR_ARG_NONE, 0); }
static inline cr_arg cr_arg_tensor(cr_tensor *t) { /* NULL: none */
    cr_arg a = cr__arg(t ? CR_ARG_TENSOR : CR_ARG_NONE, 0);
    a.u.t = t;
    return a;
}
static inline cr_arg cr_arg_int(int64_t i) {
    cr_arg a = cr__arg(CR_ARG_INT, 0);
    a.u.i = i;
    return a;
}
static inline cr_arg cr_arg_float(double f) {
    cr_arg a = cr__arg(CR_ARG_FLOAT, 0);
    a.u.f = f;
    return a;
}
static inline cr_arg cr_arg_bool(bool b) {
    cr_arg a = cr__arg(CR_ARG_BOOL, 0);
    a.u.i = b;
    return a;
}
static inline cr_arg cr_arg_dtype(int dtype) {
    cr_arg a = cr__arg(CR_ARG_DTYPE, 0);
    a.u.i = dtype;
    return a;
}
static inline cr_arg cr_arg_str(const char *s) {
    cr_arg a = cr__arg(CR_ARG_STR, strlen(s));
    a.u.s = s;
    return a;
}
static inline cr_arg cr_arg_list(const cr_arg *list, size_t n) {
    cr_arg a = cr__arg(CR_ARG_LIST, n);
    a.u.list = list;
    return a;
}
static inline bool cr_arg_is_number(const cr_arg *a) {
    return a->kind == CR_ARG_INT || a->kind == CR_ARG_FLOAT || a->kind == CR_ARG_BOOL || a->kind == CR_ARG_COMPLEX;
}

/* 3, true, 0.5, "mean", [1, 2]: as graphs write it. Of a tensor: its shape. */
CR_API void cr_arg_describe(const cr_arg *a, cr_str *out);

/* Releases tensors and lists in results; leaves them CR_ARG_NONE. */
CR_API void cr_results_release(cr_arg *results, size_t n);

#ifdef __cplusplus
}
#endif
#endif
