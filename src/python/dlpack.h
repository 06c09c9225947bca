/* dlpack.h: DLPack's ABI (https://dmlc.github.io/dlpack, version 1.0), and the table of C functions by which a library
 * of tensors is asked without Python calls (1.3). */
#ifndef CR_PY_DLPACK_H
#define CR_PY_DLPACK_H

#include "tensor/tensor.h"

enum { DL_CPU = 1, DL_CUDA = 2 };
typedef struct dl_device { int32_t type, id; } dl_device;
typedef struct dl_dtype { uint8_t code, bits; uint16_t lanes; } dl_dtype;
typedef struct dl_tensor {
    void *data;
    dl_device device;
    int32_t ndim;
    dl_dtype dtype;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} dl_tensor;
typedef struct dl_versioned {
    struct { uint32_t major, minor; } version;
    void *context;
    void (*deleter)(struct dl_versioned *);
    uint64_t flags;
    dl_tensor tensor;
} dl_versioned;

/* What the capsule T.__dlpack_c_exchange_api__ holds. Functions return 0, or -1 with an exception set. */
typedef struct dl_exchange {
    struct { uint32_t major, minor; } version;
    struct dl_exchange *previous;
    int (*allocate)(const dl_tensor *like, dl_versioned **out, void *user,
                    void (*fail)(void *user, const char *kind, const char *message));
    int (*managed_from)(void *object, dl_versioned **out);
    int (*object_of)(dl_versioned *tensor, void **object); /* takes the tensor over */
    int (*read)(void *object, dl_tensor *out);             /* borrows from the object */
    int (*stream)(int32_t device_type, int32_t device, void **out);
} dl_exchange;

/* The element type; -1: none that is known here. */
int cr_dl_dtype(dl_dtype d);
/* The tensor for another library, which calls the deleter on any thread; NULL: out of memory. */
dl_versioned *cr_dl_export(cr_tensor *t, bool copied);

#endif
