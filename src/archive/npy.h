/* npy.h: NumPy's .npy and .npz, both ways.
 *
 * Versions 1 to 3; bool, ints, floats and complex of 1 to 16 bytes that have a dtype here, either byte order (swapped
 * when copied), C and Fortran order. Object arrays and structured dtypes are refused by name. NumPy has no bfloat16 or
 * float8: their raw bytes ('|V2', '|V1', as ml_dtypes saves them) parse as RT_DTYPE_COUNT with `width`, and the caller,
 * who knows what is expected, decides. Nothing is unpickled, ever. */
#ifndef CR_NPY_H
#define CR_NPY_H

#include "archive/zip.h"
#include "runtime/rt.h"

typedef struct cr_npy {
    int dtype, rank, width; /* RT_*, or RT_DTYPE_COUNT for raw elements of `width` bytes */
    int64_t size[RT_MAX_RANK];
    bool fortran, swapped;
    const uint8_t *data;    /* borrowed from the input; need not be aligned */
    uint64_t bytes;
} cr_npy;
/* Reads the header and checks that the data are all there, and nothing behind them. CR_EFORMAT, CR_EUNSUPPORTED. */
CR_NODISCARD cr_status cr_npy_parse(const void *data, size_t size, cr_npy *out);
/* The elements in C order and this machine's byte order: `to` has out->bytes bytes. */
void cr_npy_copy(const cr_npy *a, void *to);
/* Header (version 1, 64-byte aligned, the bytes that NumPy writes) for C-order data; the data follow. CR_EUNSUPPORTED
 * for dtypes that NumPy does not have (bfloat16, float8, complex32): cast to float32 (complex64) first, which holds
 * their values exactly. */
CR_NODISCARD cr_status cr_npy_header(int dtype, int rank, const int64_t *size, cr_str *out);

/* ---- .npz: a zip of NAME.npy members ----
 * Writing one is a cr_zip_writer with members "NAME.npy" of cr_npy_header and the data. */
typedef struct cr_npz cr_npz; /* refcounted */
/* Checksums are verified. CR_EFORMAT names the member; a member that is no .npy is refused. */
CR_NODISCARD cr_status cr_npz_open(const char *path, cr_npz **out);
CR_NODISCARD cr_status cr_npz_open_memory(const void *data, size_t size, cr_npz **out); /* data outlive it */
void cr_npz_retain(cr_npz *z);
void cr_npz_release(cr_npz *z);                            /* NULL is legal */
size_t cr_npz_count(const cr_npz *z);
const char *cr_npz_name(const cr_npz *z, size_t i);        /* without ".npy" */
const cr_npy *cr_npz_at(const cr_npz *z, size_t i);        /* borrowed; data stay valid as long as z */
const cr_npy *cr_npz_find(const cr_npz *z, const char *name); /* NULL: absent */

#endif
