/* tensor.h: tensors: a dtype, sizes and strides on shared memory.
 *
 *     const int64_t size[] = { 2, 3 };
 *     const float numbers[] = { 1, 2, 3, 4, 5, 6 };
 *     cr_tensor *t;
 *     double copy[6];
 *     if (cr_tensor_from(CR_F32, 2, size, numbers, &t)) return fail(cr_error_message());
 *     if (cr_tensor_read(t, CR_F64, copy, sizeof copy)) return fail(cr_error_message());
 *     printf("%s, %d dimensions, last %g\n", cr_dtype_name(cr_tensor_dtype(t)), cr_tensor_rank(t), copy[5]);
 *     cr_tensor_release(t);
 *
 * Ownership: a tensor is refcounted (atomically); one that comes through `cr_tensor **out` is the caller's, to be
 * released once. Views share memory with what they are views of, and keep it alive. Threads: distinct tensors may be
 * used from distinct threads; writing to memory that another thread reads is the caller's to prevent. Errors:
 * status.h.
 *
 * Stable: everything here. Later releases add devices (cr_tensor_data is NULL for memory that this processor cannot
 * read) and gradients; the struct behind cr_tensor stays out of sight for that. */
#ifndef CRESSET_TENSOR_API_H
#define CRESSET_TENSOR_API_H

#include "cresset/abi.h"
#include "cresset/text.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- dtypes: the numbers of abi.h ---- */
typedef enum cr_dtype {
    CR_U8 = CRESSET_U8, CR_I8 = CRESSET_I8, CR_I16 = CRESSET_I16, CR_I32 = CRESSET_I32, CR_I64 = CRESSET_I64,
    CR_F16 = CRESSET_F16, CR_F32 = CRESSET_F32, CR_F64 = CRESSET_F64,
    CR_C32 = CRESSET_C32, CR_C64 = CRESSET_C64, CR_C128 = CRESSET_C128, CR_BOOL = CRESSET_BOOL, CR_BF16 = CRESSET_BF16,
    CR_U16 = CRESSET_U16, CR_U32 = CRESSET_U32, CR_U64 = CRESSET_U64,
    CR_F8E4M3FN = CRESSET_F8E4M3FN, CR_F8E5M2 = CRESSET_F8E5M2, CR_F8E4M3FNUZ = CRESSET_F8E4M3FNUZ,
    CR_F8E5M2FNUZ = CRESSET_F8E5M2FNUZ, CR_F8E8M0FNU = CRESSET_F8E8M0FNU,
    CR_DTYPE_COUNT /* grows with releases */
} cr_dtype;
CR_API const char *cr_dtype_name(int dtype);  /* "float32" */
CR_API const char *cr_dtype_short(int dtype); /* "f32": as graphs print it */
CR_API int64_t cr_dtype_size(int dtype);      /* bytes of an element; 0: no dtype */
enum { CR_KIND_BOOL, CR_KIND_INTEGER, CR_KIND_FLOAT, CR_KIND_COMPLEX };
CR_API int cr_dtype_kind(int dtype);          /* one of these; -1: no dtype */
/* Either spelling, PyTorch's "Float", or aliases (half, long, ...). */
CR_API bool cr_dtype_find(const char *name, int *out);

/* ---- devices ---- */
typedef enum cr_device_type { CR_CPU = 0, CR_CUDA = 1, CR_META_DEVICE = 2 } cr_device_type;
typedef struct cr_device { int8_t type, index; } cr_device; /* index -1: unspecified ("cpu") */

enum { CR_MAX_RANK = 16 };
typedef struct cr_tensor cr_tensor;

/* ---- making them: row-major, on the CPU ---- */
/* CR_ERUNTIME: a rank above CR_MAX_RANK, a negative or overflowing size; CR_ETYPE: no such dtype. Not zeroed. */
CR_API CR_NODISCARD cr_status cr_tensor_empty(int dtype, int rank, const int64_t *size, cr_tensor **out);
CR_API CR_NODISCARD cr_status cr_tensor_from(int dtype, int rank, const int64_t *size, const void *data,
                                             cr_tensor **out); /* copies */
/* On memory of the caller's, which is not copied: `stride` in elements, none negative (NULL: row-major). When the last
 * tensor on it goes, dispose(user, data) is called (not when this fails; NULL: the caller knows when that is). */
CR_API CR_NODISCARD cr_status cr_tensor_wrap(int dtype, int rank, const int64_t *size, const int64_t *stride,
                                             void *data, void (*dispose)(void *user, void *data), void *user,
                                             cr_tensor **out);
/* One that has no data: ops on it give what they would give but for the numbers (cr_op_call, cr_graph_run). */
CR_API CR_NODISCARD cr_status cr_tensor_fake(int dtype, int rank, const int64_t *size, cr_tensor **out);
CR_API void cr_tensor_retain(cr_tensor *t);
CR_API void cr_tensor_release(cr_tensor *t); /* NULL is legal */

/* ---- looking at them ---- */
CR_API int cr_tensor_dtype(const cr_tensor *t);
CR_API int cr_tensor_rank(const cr_tensor *t);
/* `rank` numbers, borrowed; strides in elements. A size of a fake tensor may be unknown: then it is negative. */
CR_API const int64_t *cr_tensor_sizes(const cr_tensor *t);
CR_API const int64_t *cr_tensor_strides(const cr_tensor *t);
CR_API int64_t cr_tensor_numel(const cr_tensor *t); /* elements; -1: unknown */
CR_API cr_device cr_tensor_device(const cr_tensor *t);
CR_API bool cr_tensor_has_data(const cr_tensor *t); /* false: it is fake */
CR_API bool cr_tensor_is_contiguous(const cr_tensor *t); /* row-major */
/* The first element; NULL: fake, or no elements. cr_tensor_edit: to write there, which the tensor takes note of. */
CR_API const void *cr_tensor_data(const cr_tensor *t);
CR_API void *cr_tensor_edit(cr_tensor *t);
/* "float32 [2, 3]" */
CR_API void cr_tensor_describe(const cr_tensor *t, cr_str *out);

/* ---- elements, whatever the strides ---- */
/* All elements, row-major, as `dtype`: floats are rounded to nearest. CR_EVALUE: `room` bytes are too few;
 * CR_ERUNTIME: the tensor is fake. */
CR_API CR_NODISCARD cr_status cr_tensor_read(const cr_tensor *t, int dtype, void *data, size_t room);
/* The other way round: `bytes` is the size of all elements as `dtype`. */
CR_API CR_NODISCARD cr_status cr_tensor_write(cr_tensor *t, int dtype, const void *data, size_t bytes);
/* The values of another tensor of the same sizes. */
CR_API CR_NODISCARD cr_status cr_tensor_copy(cr_tensor *to, const cr_tensor *from);

#ifdef __cplusplus
}
#endif
#endif
