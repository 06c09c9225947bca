/* safetensors.h: the safetensors format, read from mapped memory and written in one pass.
 *
 * 8 bytes of header length, a JSON header, the data. Opening checks every entry: dtype known, sizes times width equal
 * to the extent, extents inside the file, without gaps or overlaps, header no larger than 100 MB; the data stay mapped.
 * The format has no checksums: damage to the data cannot be seen. */
#ifndef CR_SAFETENSORS_H
#define CR_SAFETENSORS_H

#include "base/base.h"
#include "runtime/rt.h"

typedef struct cr_safetensors cr_safetensors; /* refcounted; readable from many threads */
typedef struct cr_safetensor {
    const char *name;
    int dtype, rank; /* RT_* */
    int64_t size[RT_MAX_RANK];
    uint8_t
        *data; /* borrowed from the private mapping: writing changes this process's copy only. Usual writers align it
                      * to its elements, the format does not: look before using it in place */
    uint64_t bytes;
} cr_safetensor;
/* CR_EIO; CR_EFORMAT naming the tensor and the field; CR_EUNSUPPORTED for a dtype (F4, F6_E2M3) that there is none of
 * here. */
CR_NODISCARD cr_status cr_safetensors_open(const char *path, cr_safetensors **out);
/* data outlive it */
CR_NODISCARD cr_status cr_safetensors_open_memory(const void *data, size_t size, cr_safetensors **out);
void cr_safetensors_retain(cr_safetensors *s);
void cr_safetensors_release(cr_safetensors *s); /* NULL is legal */
size_t cr_safetensors_count(const cr_safetensors *s);
const cr_safetensor *cr_safetensors_at(const cr_safetensors *s, size_t i); /* in the order of their data */
const cr_safetensor *cr_safetensors_find(const cr_safetensors *s, const char *name); /* NULL: absent */
/* The "__metadata__" pairs. */
size_t cr_safetensors_metadata_count(const cr_safetensors *s);
void cr_safetensors_metadata(const cr_safetensors *s, size_t i, const char **key, const char **value);

/* Writes the entries (data are streamed; C order, this machine's byte order), atomically: widest elements first, so
 * that every tensor is aligned, otherwise in the given order. `metadata`: key, value, key, value, ..., NULL; or NULL.
 * CR_EUNSUPPORTED: a dtype that the format does not have (complex32, complex128). CR_EVALUE: a name twice. */
CR_NODISCARD cr_status cr_safetensors_write(const char *path, const cr_safetensor *entries, size_t n,
                                            const char *const *metadata);
/* The same for data that are made when their turn comes: fill() is asked for the data of entry i where the entry has
 * none; they must stay until the next call. step() is called every 16 MB, anything but CR_OK ends the writing with it.
 * Both may be NULL. */
typedef struct cr_safetensors_source {
    cr_status (*fill)(void *user, size_t i, const void **data);
    cr_status (*step)(void *user);
    void *user;
} cr_safetensors_source;
CR_NODISCARD cr_status cr_safetensors_write_from(const char *path, const cr_safetensor *entries, size_t n,
                                                 const char *const *metadata, const cr_safetensors_source *source);
CR_NODISCARD cr_status cr_safetensors_write_to(cr_sink sink, const cr_safetensor *entries, size_t n,
                                               const char *const *metadata, const cr_safetensors_source *source);

#endif
