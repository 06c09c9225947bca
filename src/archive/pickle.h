/* pickle.h: what a pickle says, read without running it.
 *
 * A pickle is a program for a stack machine that may call anything. This reader only ever builds the values below; a name
 * outside its table (torch's tensor rebuilders, storages, Size, dtype, device, OrderedDict, and nothing else) is an error
 * that says the name, and nothing is called. Protocols 0 to 5. Bounded: input size, stack, memo, depth and count of values
 * are limited by the input's length; a value that contains itself is refused.
 *
 * torch.save files (zip with data.pkl and data/N) are read by cr_torch_open on top of it. */
#ifndef CR_PICKLE_H
#define CR_PICKLE_H

#include "archive/zip.h"
#include "runtime/rt.h"

typedef enum cr_pickle_kind {
    CR_PICKLE_NONE, CR_PICKLE_BOOL, CR_PICKLE_INT, CR_PICKLE_FLOAT, CR_PICKLE_COMPLEX, CR_PICKLE_STRING, CR_PICKLE_BYTES,
    CR_PICKLE_TUPLE, CR_PICKLE_LIST, CR_PICKLE_SIZE, /* torch.Size */
    CR_PICKLE_DICT, CR_PICKLE_ORDERED_DICT,          /* items: key, value, key, value, ... */
    CR_PICKLE_SET,
    CR_PICKLE_DTYPE, CR_PICKLE_DEVICE, CR_PICKLE_LAYOUT, CR_PICKLE_FORMAT,
    CR_PICKLE_STORAGE, CR_PICKLE_TENSOR,
} cr_pickle_kind;
typedef struct cr_pickle cr_pickle;
typedef struct cr_pickle_storage {
    const char *key;      /* the member is data/KEY */
    const char *device;   /* "cpu", "cuda:0": where it was; read to the CPU */
    int dtype;            /* RT_*; -1: untyped bytes */
    int64_t numel;        /* in elements of dtype (bytes when untyped) */
} cr_pickle_storage;
typedef struct cr_pickle_tensor {
    const cr_pickle_storage *storage;
    int dtype, rank;
    int64_t offset, *size, *stride;
    bool requires_grad, is_parameter, conj, neg;
} cr_pickle_tensor;
struct cr_pickle {
    uint8_t kind;
    uint32_t n;          /* items; bytes of a text */
    union {
        bool b;
        int64_t i;       /* integers beyond 64 bits are refused */
        double f, c[2];
        const char *s;   /* STRING, BYTES, DEVICE ("cpu:0") */
        int dtype;       /* DTYPE: RT_*; LAYOUT, FORMAT: PyTorch's names in s */
        const cr_pickle *const *items;
        const cr_pickle_storage *storage;
        const cr_pickle_tensor *tensor;
    } u;
};
/* Everything is built in `arena`. CR_EFORMAT with the byte offset; CR_EUNSUPPORTED naming what was refused. */
CR_NODISCARD cr_status cr_pickle_parse(cr_arena *arena, const void *data, size_t size, const cr_pickle **out);
void cr_pickle_print(const cr_pickle *p, cr_str *out); /* Python-like text, for tests and doctor */

/* ---- torch.save files ---- */
/* A torch.save file: the root value, and the bytes of its storages, borrowed from the zip (which it retains). Refcounted. */
typedef struct cr_torch_file cr_torch_file;
/* CR_EFORMAT: no data.pkl, byteorder "big", a storage that is missing or smaller than its tensors need; the zip may be the
 * member of another (cr_zip_open_memory). */
CR_NODISCARD cr_status cr_torch_open(cr_zip *zip, cr_torch_file **out);
void cr_torch_release(cr_torch_file *f);
const cr_pickle *cr_torch_root(const cr_torch_file *f);
cr_zip *cr_torch_zip(const cr_torch_file *f);
/* The member that holds a storage; checked when opening, never NULL. */
const cr_zip_member *cr_torch_member(const cr_torch_file *f, const cr_pickle_storage *s);

#endif
