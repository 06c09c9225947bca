/* base.h: memory, containers, text, files. Everything above src/runtime stands on this header.
 *
 * Memory has three kinds, and each type says which it is: *arena* (freed together with its owner),
 * *refcounted* (create/retain/release), *caller-owned* (init/dispose). All heap memory of the library
 * comes through cr_alloc (cresset/memory.h), so that tests can count it and make the Nth request fail. */
#ifndef CR_BASE_H
#define CR_BASE_H

#include "cresset/memory.h"
#include "cresset/process.h"
#include "cresset/text.h"

#include <stdarg.h>
#include <string.h>

/* What things start with and how much is kept. The tiny build takes the second number, so that growing, wrapping and
 * overflowing happen all the time: `./dev test --preset tiny`. */
#ifdef CR_TINY
#define CR_LIMIT(usual, tiny) (tiny)
#else
#define CR_LIMIT(usual, tiny) (usual)
#endif

/* ---- memory: cresset/memory.h, texts: cresset/text.h ---- */

void *cr_alloc_aligned(size_t alignment, size_t size); /* alignment: a power of two; freed by cr_free */
/* Large memory that comes and goes with every call (tensors' data): 64-byte aligned; what is freed is kept for the next
 * request of about that size, because touching fresh pages costs more than most kernels. At most CR_RECYCLED bytes are
 * kept; none under the sanitizers. `size` is the requested one again. */
enum { CR_RECYCLED = 512 << 20 };
void *cr_block_alloc(size_t size);
void cr_block_free(void *p, size_t size);
/* For small objects that are made and dropped all the time: a thread keeps what it frees. Such blocks count as requests
 * when they come from the heap, and never as live, except where tools are to see each (recycle.c). */
void *cr_small_alloc(size_t size);
void cr_small_free(void *p, size_t size);

/* Arena: bump allocation, 16-byte aligned, freed all at once. Plain malloc under sanitizers. Not thread-safe. */
typedef struct cr_arena { struct cr_arena_block *head; size_t used, bytes; } cr_arena;
void cr_arena_init(cr_arena *a);
void cr_arena_dispose(cr_arena *a);
void *cr_arena_alloc(cr_arena *a, size_t size);  /* NULL: out of memory (error set) */
void *cr_arena_calloc(cr_arena *a, size_t count, size_t size);
void *cr_arena_copy(cr_arena *a, const void *data, size_t size);
char *cr_arena_strdup(cr_arena *a, const char *s);
char *cr_arena_strndup(cr_arena *a, const char *s, size_t n);
char *cr_arena_printf(cr_arena *a, const char *format, ...) CR_PRINTF(2, 3);

/* ---- checked arithmetic: true = overflow, as the compiler's builtins ---- */
#define cr_add_overflow(a, b, out) __builtin_add_overflow((a), (b), (out))
#define cr_sub_overflow(a, b, out) __builtin_sub_overflow((a), (b), (out))
#define cr_mul_overflow(a, b, out) __builtin_mul_overflow((a), (b), (out))

#define CR_COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define CR_MIN(a, b) ((a) < (b) ? (a) : (b))
#define CR_MAX(a, b) ((a) > (b) ? (a) : (b))

/* ---- vec: a growing array. `CR_VEC(int) v = {0}; CR_TRY(cr_vec_push(&v, 3)); cr_vec_dispose(&v);` ---- */
#define CR_VEC(T) struct { T *at; size_t n, cap; }
cr_status cr__vec_grow(void **at, size_t *cap, size_t want, size_t item) CR_NODISCARD;
#define cr_vec_reserve(v, want)                                                                                        \
    ((size_t)(want) <= (v)->cap ? CR_OK : cr__vec_grow((void **)&(v)->at, &(v)->cap, (size_t)(want), sizeof *(v)->at))
/* Assigns after growing, so a failed push changes nothing. */
#define cr_vec_push(v, ...)                                                                                            \
    (cr_vec_reserve((v), (v)->n + 1) ? CR_ENOMEM : ((void)((v)->at[(v)->n++] = (__VA_ARGS__)), CR_OK))
#define cr_vec_dispose(v) (cr_free((v)->at), (v)->at = NULL, (v)->n = (v)->cap = 0)

/* ---- map: open-addressed hash map from bytes to a pointer-sized value; keys are copied. Caller-owned. ---- */
typedef struct cr_map { struct cr_map_slot *slots; size_t n, cap; } cr_map;
void cr_map_init(cr_map *m);
void cr_map_dispose(cr_map *m);
cr_status cr_map_put(cr_map *m, const void *key, size_t len, uint64_t value) CR_NODISCARD; /* replaces */
bool cr_map_find(const cr_map *m, const void *key, size_t len, uint64_t *value);         /* value may be NULL */
bool cr_map_remove(cr_map *m, const void *key, size_t len);
/* Iterates in unspecified order: `for (size_t i = 0; cr_map_next(m, &i, &key, &len, &value);)`. */
bool cr_map_next(const cr_map *m, size_t *i, const void **key, size_t *len, uint64_t *value);
#define cr_map_put_str(m, s, v) cr_map_put((m), (s), strlen(s), (v))
#define cr_map_find_str(m, s, v) cr_map_find((m), (s), strlen(s), (v))

uint64_t cr_hash(const void *data, size_t len, uint64_t seed);

/* ---- files ---- */
/* A whole file mapped read-only (or private copy-on-write). Caller-owned. Empty files give data = "" and size 0. */
typedef struct cr_mapping { const uint8_t *data; size_t size; void *impl; } cr_mapping;
cr_status cr_mapping_open(cr_mapping *m, const char *path) CR_NODISCARD;
/* The same, writable: writing changes this process's copy of a page, never the file. *fd: the open file, for reads that
 * should make no mapped page resident; the caller closes it. */
cr_status cr_mapping_open_private(cr_mapping *m, const char *path, int *fd) CR_NODISCARD;
void cr_mapping_close(cr_mapping *m);
cr_status cr_file_read(const char *path, char **out, size_t *size) CR_NODISCARD; /* NUL-terminated; cr_free */
/* Writes to a temporary beside `path`, syncs, renames: readers see the old file or the whole new one. */
cr_status cr_file_write_atomic(const char *path, const void *data, size_t size) CR_NODISCARD;
/* The same in pieces. An existing target that is no regular file (a device, a pipe) is refused. */
typedef struct cr_file_writer cr_file_writer;
cr_status cr_file_writer_create(const char *path, cr_file_writer **out) CR_NODISCARD;
cr_status cr_file_writer_write(cr_file_writer *w, const void *data, size_t size) CR_NODISCARD;
uint64_t cr_file_writer_position(const cr_file_writer *w); /* bytes so far */
/* Appends [offset, offset + size) of another file; the kernel copies (and shares blocks) where it can. CR_EIO when that
 * file ends before. `step` (may be NULL) is called at least every 64 MB; what it returns ends the copy. */
cr_status cr_file_writer_copy(cr_file_writer *w, int fd, uint64_t offset, uint64_t size, cr_status (*step)(void *user),
                              void *user) CR_NODISCARD;
/* Replaces `size` bytes that were written in one piece at `offset`. */
cr_status cr_file_writer_patch(cr_file_writer *w, uint64_t offset, const void *data, size_t size) CR_NODISCARD;
/* Syncs and renames to the path. The writer is gone afterwards, also on failure (the temporary, too). */
cr_status cr_file_writer_finish(cr_file_writer *w) CR_NODISCARD;
void cr_file_writer_abandon(cr_file_writer *w); /* NULL is legal; removes the temporary */
/* From now on finishing does not wait for the disk: for what can be made again (a crash of the machine may lose it). */
void cr_file_writer_hurry(cr_file_writer *w);
/* The file is for this user's eyes and hands alone, whatever the umask says. */
void cr_file_writer_private(cr_file_writer *w);
/* Test hook: the nth write call of a writer from now (1 = the next) fails as on a full disk; 0 turns it off. */
void cr_write_fail_at(int64_t n);
int64_t cr_write_count(void); /* write calls so far in this process */
/* Writers note a temporary that has a name before they make it and drop the note (-1: none was left) when it is renamed
 * or removed. cr_temporaries_remove unlinks all that are noted; it is safe in a signal handler, and meant for one that
 * ends the process. */
int cr_temporary_add(const char *path);
void cr_temporary_drop(int note);

/* Options that callers fill begin with their size (size_t); a later release's may be longer: what is beyond `known`
 * bytes is not looked at, and what is missing is zero, as is all of it where `given` is NULL. CR_EVALUE: the size was
 * forgotten. `what`: the struct's name. */
CR_NODISCARD cr_status cr_options_read(const char *what, const void *given, void *out, size_t known);

/* ---- sha-256: keys of the disk cache. Caller-owned, no disposal. ---- */
typedef struct cr_sha256 { uint32_t state[8]; uint64_t bytes; uint8_t block[64]; } cr_sha256;
void cr_sha256_init(cr_sha256 *h);
void cr_sha256_add(cr_sha256 *h, const void *data, size_t size);
void cr_sha256_end(cr_sha256 *h, uint8_t out[32]);

/* ---- text ---- */
/* 1-based line and column (in bytes) of `at` in `text`. */
void cr_text_position(const char *text, const char *at, int *line, int *column);

#endif
