/* cache.h: results of the C compiler, kept on disk by what they were made from.
 *
 *     cr_key key;                                   -- of everything that can change the result
 *     cr_key_init(&key);
 *     cr_key_text(&key, source);
 *     if (!cr_cache_get(&key, &data, &size)) { make(&data, &size); cr_cache_put(&key, data, size); }
 *
 * In CRESSET_CACHE (off: none), else XDG_CACHE_HOME/cresset, else ~/.cache/cresset; at most CRESSET_CACHE_MB megabytes
 * (512), the entries used longest ago leave first. Any number of processes of one user may share it: folders and files
 * that others own or may write are not used, nor links, pipes and entries larger than the whole cache. Nothing here
 * fails: a cache that cannot be read or written only costs the caching. */
#ifndef CR_CACHE_H
#define CR_CACHE_H

#include "base/base.h"

typedef struct cr_key { cr_sha256 digest; char name[65]; } cr_key;
void cr_key_init(cr_key *key);
/* The length is part of it: "ab" + "c" and "a" + "bc" differ. */
void cr_key_add(cr_key *key, const void *data, size_t size);
void cr_key_text(cr_key *key, const char *text);
/* What identifies a file that is not read for it: path, size, time of the last change. */
void cr_key_file(cr_key *key, const char *path);
void cr_key_end(cr_key *key); /* fills in the name */

/* False: not there (or damaged or not to be trusted, and removed). *data: free with cr_free. */
bool cr_cache_get(const cr_key *key, uint8_t **data, size_t *size);
void cr_cache_put(const cr_key *key, const void *data, size_t size);
/* How often this process has found what it asked for, and how often not. *off: CRESSET_CACHE says that there is none;
 * such questions are not counted. */
void cr_cache_counts(uint64_t *hits, uint64_t *misses, bool *off);

/* What this process found in the cache or put there, as bytes for another one (another machine's). Nothing: an empty
 * text. (cache_pack.c) */
CR_NODISCARD cr_status cr_cache_pack(cr_str *out, size_t *count);
/* Puts such bytes into the cache, all of them or (CR_EFORMAT: they are something else, or damaged) none. They become
 * code: whoever gives them is trusted. */
CR_NODISCARD cr_status cr_cache_unpack(const void *data, size_t size, size_t *count);
void cr__cache_note(const cr_key *key); /* cache.c tells of an entry that was used */

#endif
