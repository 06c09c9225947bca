/* pickle.h: what a pickle says, read without running it.
 *
 * A pickle is a program for a stack machine that may call anything. This reader only ever builds the values below; a
 * name outside its table (torch's tensor rebuilders and storages, Size, dtype, device, layout, the containers and
 * numbers of Python, and nothing else) is an error that says the name, and nothing is called. Protocols 0 to 5.
 * Bounded: stack, memo and count of values are limited by the input's length, depth by CR_PICKLE_DEPTH; a value that
 * contains itself is refused, and so is one that would be huge written out (a few lists that hold each other many times
 * over), so that whoever walks the result needs no care.
 *
 * torch.save files (zip with data.pkl and data/N) are read by cr_torch_open on top of it:
 *
 *     cr_torch_file *f;
 *     CR_TRY(cr_torch_open_path("weights.pt", &f));
 *     const cr_pickle *root = cr_torch_root(f);
 *     ...  cr_torch_member(f, root->u.tensor->storage)  ...
 *     cr_torch_release(f); */
#ifndef CR_PICKLE_H
#define CR_PICKLE_H

#include "archive/zip.h"
#include "runtime/rt.h"

enum { CR_PICKLE_DEPTH = 200, CR_PICKLE_LIMIT = 1 << 26 }; /* nesting of values; bytes of one pickle */

typedef enum cr_pickle_kind {
    CR_PICKLE_NONE,
    CR_PICKLE_BOOL,
    CR_PICKLE_INT,
    CR_PICKLE_FLOAT,
    CR_PICKLE_COMPLEX,
    CR_PICKLE_STRING,
    CR_PICKLE_BYTES,
    CR_PICKLE_TUPLE,
    CR_PICKLE_LIST,
    CR_PICKLE_SIZE /* torch.Size: its items are INTs */,
    CR_PICKLE_DEQUE,
    /* items: key, value, key, value, ...; keys hashable, each once */
    CR_PICKLE_DICT,
    CR_PICKLE_ORDERED_DICT,
    CR_PICKLE_DEFAULT_DICT,
    CR_PICKLE_COUNTER,
    CR_PICKLE_SET,
    CR_PICKLE_FROZENSET, /* hashable items, each once */
    CR_PICKLE_DTYPE,
    CR_PICKLE_DEVICE,
    CR_PICKLE_LAYOUT,
    CR_PICKLE_FORMAT,
    CR_PICKLE_STORAGE,
    CR_PICKLE_TENSOR,
    CR_PICKLE_KIND_COUNT
} cr_pickle_kind;
typedef struct cr_pickle cr_pickle;
/* One storage per key, whatever refers to it: the index tells them apart. */
typedef struct cr_pickle_storage {
    const char *key;      /* the member is data/KEY */
    const char *device;   /* "cpu", "cuda:0": where it was; read to the CPU */
    int dtype;            /* RT_*; -1: untyped bytes */
    uint32_t index;       /* 0, 1, ... in order of appearance */
    int64_t numel, bytes; /* in elements of dtype; in bytes */
} cr_pickle_storage;
/* Lies wholly inside its storage. */
typedef struct cr_pickle_tensor {
    const cr_pickle_storage *storage;
    int dtype, rank;
    int64_t offset;                                 /* in elements of dtype */
    int64_t size[RT_MAX_RANK], stride[RT_MAX_RANK]; /* none is negative */
    bool requires_grad, is_parameter, conj, neg;
} cr_pickle_tensor;
struct cr_pickle {
    uint8_t kind;
    uint32_t n;          /* entries of items (a dict has 2 a key); bytes of a text */
    union {
        bool b;
        int64_t i;       /* integers beyond 64 bits are refused */
        double f, c[2];
        /* STRING (UTF-8), BYTES, DEVICE ("cuda:0"), LAYOUT ("strided"), FORMAT ("channels_last"); NUL-terminated */
        const char *s;
        int dtype;       /* DTYPE: RT_* */
        struct {
            const cr_pickle *const *items;
            union {
                const char *factory; /* DEFAULT_DICT: "list", "dict", ...; NULL: none */
                int64_t maxlen;      /* DEQUE: -1: none */
            };
        };
        const cr_pickle_storage *storage;
        const cr_pickle_tensor *tensor;
    } u;
};
const char *cr_pickle_kind_name(int kind); /* "a list", "a tensor", ... for messages */
/* Everything is built in `arena`; `data` are not kept. CR_EFORMAT with the byte offset and the opcode; CR_EUNSUPPORTED
 * naming what was refused. The arena may hold leftovers then. */
CR_NODISCARD cr_status cr_pickle_parse(cr_arena *arena, const void *data, size_t size, const cr_pickle **out);
bool cr_pickle_is_dict(int kind);
/* The value of a text key; NULL: absent, or `dict` is none. */
const cr_pickle *cr_pickle_find(const cr_pickle *dict, const char *key);
void cr_pickle_print(const cr_pickle *p, cr_str *out); /* Python-like text, for tests and doctor */

/* ---- torch.save files ---- */
/* A torch.save file: the root value, and the bytes of its storages, borrowed from the zip (which it retains).
 * Refcounted; readable from many threads. */
typedef struct cr_torch_file cr_torch_file;
/* CR_EFORMAT: no data.pkl, a storage that is missing or smaller than it says; CR_EUNSUPPORTED: byteorder "big", a
 * TorchScript archive, a name that the pickle may not use. Errors of the pickle say "data.pkl". */
CR_NODISCARD cr_status cr_torch_open(cr_zip *zip, cr_torch_file **out);
/* The same from a file, or from bytes inside another archive (`owner` is retained; may be NULL when the bytes outlive
 * the file some other way). A file of the format before PyTorch 1.6, which is no zip, is refused with the advice to
 * save again. */
CR_NODISCARD cr_status cr_torch_open_path(const char *path, cr_torch_file **out);
CR_NODISCARD cr_status cr_torch_open_memory(const void *data, size_t size, cr_zip *owner, cr_torch_file **out);
void cr_torch_retain(cr_torch_file *f);
void cr_torch_release(cr_torch_file *f);
const cr_pickle *cr_torch_root(const cr_torch_file *f);
cr_zip *cr_torch_zip(const cr_torch_file *f);
size_t cr_torch_storage_count(const cr_torch_file *f); /* indices of storages are below it */
/* The member that holds a storage; checked when opening, never NULL. */
const cr_zip_member *cr_torch_member(const cr_torch_file *f, const cr_pickle_storage *s);

#endif
