/* tensor.h: dtypes, metas, storages, tensors, promotion, layout.
 *
 * A *meta* says everything about a tensor but its data: dtype, device, sizes, strides, offset, storage identity. Sizes
 * are cr_dim, so one set of rules serves real, fake and symbolic tensors. A *tensor* is a meta on a shared, versioned
 * storage. A fake tensor is a tensor whose storage has an identity but no memory. Tensors and storages are refcounted
 * (atomically); distinct tensors may be used from distinct threads, data races on one storage are the user's. */
#ifndef CR_TENSOR_H
#define CR_TENSOR_H

#include "cresset/arg.h"
#include "runtime/rt.h"
#include "sym/sym.h"

_Static_assert((int)CR_MAX_RANK == (int)RT_MAX_RANK, "one limit");
/* CR_F32 and RT_F32 are the same number. */
#define X(ID, id, bytes, name) _Static_assert((int)CR_##ID == (int)RT_##ID, #name);
RT_DTYPES(X)
#undef X
_Static_assert((int)CR_DTYPE_COUNT == (int)RT_DTYPE_COUNT, "every dtype is public");

/* ---- dtypes ---- */
const char *cr_dtype_aten(int dtype);       /* "Float": how PyTorch's messages name it */
static inline bool cr_dtype_is_floating(int d) { return rt_is_float(d); }
static inline bool cr_dtype_is_complex(int d) { return rt_is_complex(d); }
static inline bool cr_dtype_is_integral(int d) { return rt_is_integer(d) || d == CR_BOOL; }
int cr_dtype_to_real(int dtype);            /* c64 -> f32, c128 -> f64, c32 -> f16, others themselves */
int cr_dtype_to_complex(int dtype);         /* f32 -> c64, f64 -> c128, f16 -> c32 */

/* ---- promotion ---- */
int cr_promote_types(int a, int b);         /* PyTorch's table; -1 where it has none (float8, mixed unsigned) */
bool cr_can_cast(int from, int to);         /* may a result of `from` be stored in place into `to`? */
int cr_default_dtype(void);                 /* process-wide; CR_F32 at start */
CR_NODISCARD cr_status cr_set_default_dtype(int dtype);
/* The three classes of PyTorch's promotion: dims > 0-d > wrapped number. Feed metas, then ask. */
typedef struct cr_promotion { int dim, zero, wrapped; } cr_promotion; /* dtypes, -1 = none yet */
#define CR_PROMOTION_INIT { -1, -1, -1 }
struct cr_meta;
CR_NODISCARD cr_status cr_promotion_add(cr_promotion *p, const struct cr_meta *m);
void cr_promotion_add_dtype(cr_promotion *p, int dtype, bool wrapped); /* a number argument */
CR_NODISCARD cr_status cr_promotion_result(const cr_promotion *p, int *out);

/* ---- devices, layouts, formats ---- */
CR_NODISCARD cr_status cr_device_parse(const char *text, cr_device *out);
void cr_device_print(cr_device d, cr_str *out); /* "cpu", "cuda:0" */
typedef enum cr_memory_format {
    CR_CONTIGUOUS = 0,
    CR_PRESERVE = 1,
    CR_CHANNELS_LAST = 2,
    CR_CHANNELS_LAST_3D = 3
} cr_memory_format;

/* ---- meta: plain data, copied freely (cr_meta_copy copies only the used part) ---- */
enum {
    CR_META_WRAPPED = 1, /* a Python number standing in a tensor slot */
    CR_META_CONJ = 2,    /* lazily conjugated / negated: honoured when elements are loaded */
    CR_META_NEG = 4,
    CR_META_REQUIRES_GRAD = 8,
};
typedef struct cr_meta {
    uint8_t dtype, rank, flags;
    cr_device device;
    uint64_t storage; /* identity; equal = may alias. 0: not yet given */
    cr_dim offset;    /* in elements */
    cr_dim size[CR_MAX_RANK], stride[CR_MAX_RANK];
} cr_meta;
void cr_meta_init(cr_meta *m, int dtype, cr_device device); /* rank 0, offset 0 */
void cr_meta_copy(cr_meta *to, const cr_meta *from);
cr_dim cr_meta_numel(cr_env *env, const cr_meta *m);
/* Sets the sizes and dense row-major strides (or the given format's). CR_ERUNTIME: rank over CR_MAX_RANK or not the
 * format's rank, negative or overflowing sizes. */
CR_NODISCARD cr_status cr_meta_set_dense(cr_env *env, cr_meta *m, int rank, const cr_dim *size,
                                         cr_memory_format format);
/* A row-major meta on the CPU of numbers that anybody may have made up. CR_ETYPE: no such dtype; CR_ERUNTIME as
 * above. */
CR_NODISCARD cr_status cr_meta_dense(int dtype, int rank, const int64_t *size, cr_meta *out);
void cr_strides_contiguous(cr_env *env, int rank, const cr_dim *size, cr_dim *stride);
/* Strides of a dense tensor whose dimensions are laid out in `order` (order[rank-1] is the innermost). */
void cr_strides_permuted(cr_env *env, int rank, const cr_dim *size, const int *order, cr_dim *stride);
/* Facts only; CR_UNKNOWN means "treat as not". Size-1 dims do not matter; no elements = contiguous. */
cr_tri cr_meta_is_contiguous(cr_env *env, const cr_meta *m, cr_memory_format format);
/* What was asked of its layout is `known`: where that is UNKNOWN, as only data tell whether a size is 0 or 1, and the
 * environment is exact (sym.h), sizes without an example are taken as 2 and more from here on, by a condition. */
CR_NODISCARD cr_status cr_meta_assume_large(cr_env *env, const cr_meta *m, cr_tri known);
cr_tri cr_meta_is_dense(cr_env *env, const cr_meta *m); /* non-overlapping and dense in some order */
/* The dimensions of a dense tensor from outermost to innermost in memory, those of size 1 first. False: not dense, or
 * nothing tells. */
bool cr_meta_find_order(cr_env *env, const cr_meta *m, int *order);
/* What PyTorch suggests for a like-shaped result: CHANNELS_LAST(_3D) when the strides say so, else CONTIGUOUS. Where
 * sizes are symbols and no fact tells, the example does, without a guard. */
cr_memory_format cr_meta_suggest_format(cr_env *env, const cr_meta *m);
/* dtype, device, sizes, strides, offset: same terms */
bool cr_meta_equal(cr_env *env, const cr_meta *a, const cr_meta *b);
void cr_meta_print(cr_env *env, const cr_meta *m, cr_str *out);      /* f32[2, s0](s0, 1)@cpu */
void cr_shape_print(cr_env *env, int rank, const cr_dim *size, cr_str *out); /* [2, 3] */
/* Do two elements of one tensor share memory? Do two tensors? Conservative UNKNOWN as PyTorch's tests. */
cr_tri cr_meta_self_overlap(const cr_meta *m);
typedef enum cr_overlap { CR_OVERLAP_NONE, CR_OVERLAP_FULL, CR_OVERLAP_PARTIAL, CR_OVERLAP_TOO_HARD } cr_overlap;
cr_overlap cr_meta_overlap(const cr_meta *a, const cr_meta *b);
/* Bytes a storage needs to hold the meta (offset included); CR_ERUNTIME on overflow. Concrete metas only. */
CR_NODISCARD cr_status cr_meta_bytes(const cr_meta *m, int64_t *out);

/* The layout every pointwise result gets (PyTorch's TensorIterator): `inputs` are the tensor operands, sizes already
 * broadcast to out->size. Sets out->stride: all dense with equal strides: those; otherwise dims ordered by the
 * operands' strides (at the example where facts do not tell), ambiguous cases keep order. */
void cr_layout_pointwise(cr_env *env, const cr_meta *const *inputs, int n, cr_meta *out);
/* Strides as empty_like(preserve) gives them. */
void cr_layout_like(cr_env *env, const cr_meta *in, cr_meta *out);
/* Broadcasts b's sizes into out (rank and sizes updated). CR_ERUNTIME naming both shapes. */
CR_NODISCARD cr_status cr_broadcast(cr_env *env, int *rank, cr_dim *size, int brank, const cr_dim *bsize);
/* Strides of `m` seen through a reshape to `size`, or *possible = false (a copy is needed). May guard on sizes. */
CR_NODISCARD cr_status cr_view_strides(cr_env *env, const cr_meta *m, int rank, const cr_dim *size, cr_dim *stride,
                                       bool *possible);

/* ---- storage ---- */
typedef struct cr_storage {
    int64_t refs; /* atomic */
    uint64_t id;  /* unique in the process, never 0 */
    uint64_t writes; /* atomic; of all tensors on it */
    void *data;   /* NULL when fake or empty */
    int64_t bytes;
    bool fake, readonly, resizable;
    void (*dispose)(void *user, void *data); /* foreign memory; NULL: cr_free(data) */
    void *user;
} cr_storage;
CR_NODISCARD cr_status cr_storage_create(int64_t bytes, cr_storage **out); /* 64-byte aligned, not zeroed */
CR_NODISCARD cr_status cr_storage_fake(cr_storage **out);
/* Wraps foreign memory; `dispose` runs when the last reference goes (also if this call fails: it does not run then). */
CR_NODISCARD cr_status cr_storage_wrap(void *data, int64_t bytes, void (*dispose)(void *, void *), void *user,
                                       cr_storage **out);
CR_NODISCARD cr_status cr_storage_resize(cr_storage *s, int64_t bytes); /* keeps the common prefix */
void cr_storage_retain(cr_storage *s);
void cr_storage_release(cr_storage *s);

/* ---- tensor ---- */
/* How often elements were written to, as the autograd tape counts: views have their root's count, detached tensors
 * share one with what they come from, x.data has its own. Refcounted (atomically). */
typedef struct cr_tensor_count { int64_t refs; uint64_t count; } cr_tensor_count;
/* What forbids to write to a view while gradients are recorded. */
enum {
    CR_VIEW_NO_GRAD = 1,     /* made while they were not */
    CR_VIEW_ONE_OF_MANY = 2, /* of unbind, split, ... */
    CR_VIEW_OF_FUNCTION = 4, /* its gradient is what a function's own backward says */
    CR_VIEW_INFERENCE = 8,   /* made in inference mode */
};
struct cr_tensor {
    int64_t refs; /* atomic; in its upper half those of gradients' ways to a leaf (cr_tensor_retain_end) */
    cr_meta meta;
    cr_storage *storage;
    cr_env *env;             /* symbols of a symbolic fake tensor, else NULL; retained */
    struct cr_tensor *base;  /* the tensor this is a view of (root), retained; NULL for a root */
    uint8_t view;            /* CR_VIEW_* */
    bool inference;          /* made in inference mode: it has no version, and no derivative may keep it */
    bool watched;            /* somebody wants to know when its meta is no longer what it was: cr_tensor_epoch */
    uint64_t written;        /* atomic; the version of a root where `version` is NULL. Of a view: the root's version
                              * when it was made, or when its history was last read off the root's */
    cr_tensor_count *version;     /* atomic pointer; of a root whose count is shared */
    void *fn;                /* src/autograd's: the node that made it, owned; NULL: none */
    uint32_t result;         /* ... and which of its results it is */
    int lock;                /* atomic; src/autograd's, of these and of what follows */
    void *autograd;          /* what only leaves and few others carry, owned by src/autograd; NULL for most */
    uint64_t trace;          /* trace id << 32 | value + 1 in the graph being recorded; 0: none */
    void *python;            /* borrowed: the Python object that shows this tensor, if one is alive */
    struct cr_tensor *mapped; /* one example of this tensor (ops/batch.h), retained; NULL: of none */
    uint64_t level;          /* of a mapped one: the vmap, and which dimension of `mapped` has the examples */
    uint8_t mapped_dim;
};
/* Fresh memory (or a fake storage) for a dense meta; strides and sizes are taken from the meta. meta->storage is
 * ignored. */
CR_NODISCARD cr_status cr_tensor_create(const cr_meta *meta, cr_tensor **out);
CR_NODISCARD cr_status cr_tensor_create_fake(cr_env *env, const cr_meta *meta, cr_tensor **out);
/* A tensor on an existing storage. `base` may be NULL. Bounds are checked unless fake: CR_ERUNTIME. */
CR_NODISCARD cr_status cr_tensor_on(cr_storage *storage, const cr_meta *meta, cr_tensor *base, cr_env *env,
                                    cr_tensor **out);
/* A fake that is looked at and never recorded: sizes and dtype. All such share one storage without memory. */
CR_NODISCARD cr_status cr_tensor_shape(const cr_meta *meta, cr_tensor **out);
/* The same memory and version count, and nothing else of it: no root, no history. */
CR_NODISCARD cr_status cr_tensor_alias(cr_tensor *t, cr_tensor **out);
/* The same memory with a version count of its own, without history: x.data. */
CR_NODISCARD cr_status cr_tensor_apart(const cr_tensor *t, cr_tensor **out);
/* A 0-d tensor of a number. kind of rt_scalar: RT_ARG_INT / FLOAT / COMPLEX. */
CR_NODISCARD cr_status cr_tensor_scalar(int dtype, rt_scalar value, cr_tensor **out);
static inline bool cr_tensor_is_fake(const cr_tensor *t) { return t->storage->fake; }
/* Another number after the meta or the storage of a watched tensor was changed, or one is gone: whoever remembers it
 * need not look at each of them. Whatever changes those of a tensor that others may have seen says so, afterwards. */
extern uint64_t cr_tensor_epoch; /* process; atomic */
static inline void cr_tensor_changed(const cr_tensor *t) {
    if (t->watched) __atomic_add_fetch(&cr_tensor_epoch, 1, __ATOMIC_RELEASE);
}
/* Of concrete tensors. The first writes only what the rank uses, where the view is to be: calls make one for every
 * operand, and copying a whole one takes as long as a small kernel. */
void cr_tensor_show(const cr_tensor *t, rt_view *out);
rt_view cr_tensor_view(const cr_tensor *t);
/* index: rank numbers */
CR_NODISCARD cr_status cr_tensor_item(const cr_tensor *t, const int64_t *index, rt_scalar *out);
/* How often the memory was written to: whoever remembers the number can tell whether it was since. */
static inline uint64_t cr_storage_writes(const cr_storage *s) { return __atomic_load_n(&s->writes, __ATOMIC_RELAXED); }
static inline uint64_t *cr__tensor_counter(const cr_tensor *t) {
    cr_tensor *root = t->base ? t->base : (cr_tensor *)t;
    cr_tensor_count *shared = __atomic_load_n(&root->version, __ATOMIC_ACQUIRE);
    return shared ? &shared->count : &root->written;
}
static inline uint64_t cr_tensor_version(const cr_tensor *t) {
    return __atomic_load_n(cr__tensor_counter(t), __ATOMIC_RELAXED);
}
/* A write was made through t. */
static inline void cr_tensor_bump(cr_tensor *t) {
    __atomic_add_fetch(&t->storage->writes, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(cr__tensor_counter(t), 1, __ATOMIC_RELAXED);
}
/* From here on `t`, a root that nobody else has seen yet, counts together with `of`. */
CR_NODISCARD cr_status cr_tensor_share_version(cr_tensor *t, const cr_tensor *of);
/* Frees cr_tensor.fn and .autograd; set once, by src/autograd. */
extern void (*cr__autograd_dispose)(cr_tensor *t);
/* A leaf as the end of a gradient's way: holds the tensor, and is counted apart from what else holds it. Giving one
 * back says how many are left of its kind; the tensor is gone then, unless the caller holds it besides. */
#define CR_TENSOR_END ((int64_t)1 << 32)
static inline void cr_tensor_retain_end(cr_tensor *t) { __atomic_add_fetch(&t->refs, CR_TENSOR_END, __ATOMIC_RELAXED); }
int64_t cr_tensor_release_end(cr_tensor *t);
static inline int64_t cr_tensor_ends(const cr_tensor *t) {
    return __atomic_load_n(&t->refs, __ATOMIC_ACQUIRE) / CR_TENSOR_END;
}

/* ---- process-wide execution context for kernels ---- */
/* A context with scratch through cr_alloc and the shared pool; `error` is the caller's buffer. */
rt_ctx cr_kernel_ctx(char *error, size_t error_size);
/* The default CPU generator. */
rt_generator *cr_default_generator(void);

#endif
