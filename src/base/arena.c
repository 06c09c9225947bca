/* Bump allocation, freed all at once.
 *
 * Blocks form a list; only the newest (`head`) is filled. A request too large to share a block gets one of its own
 * *behind* the head, so that it does not waste what is left there. Under AddressSanitizer, or with -DCR_OOM, every
 * object is a block of its own: the sanitizer then sees each object's bounds, and each object can fail. */
#include "base/base.h"

#include <stdio.h>

#if defined(__SANITIZE_ADDRESS__)
#define ONE_BLOCK_EACH 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ONE_BLOCK_EACH 1
#endif
#endif
#if defined(CR_OOM) && !defined(ONE_BLOCK_EACH)
#define ONE_BLOCK_EACH 1
#endif
#ifdef CR_TINY /* small blocks are what is tested */
#undef ONE_BLOCK_EACH
#endif
#ifndef ONE_BLOCK_EACH
#define ONE_BLOCK_EACH 0
#endif

enum { ALIGN = 16, FIRST_BLOCK = CR_LIMIT(4096, 32), LARGEST_BLOCK = CR_LIMIT(1 << 18, 64) };

struct cr_arena_block {
    struct cr_arena_block *next;
    size_t size; /* of data */
    _Alignas(ALIGN) char data[];
};

void cr_arena_init(cr_arena *a) { *a = (cr_arena){0}; }

void cr_arena_dispose(cr_arena *a) {
    struct cr_arena_block *block = a->head;
    while (block) {
        struct cr_arena_block *next = block->next;
        cr_free(block);
        block = next;
    }
    *a = (cr_arena){0};
}

static struct cr_arena_block *block_new(cr_arena *a, size_t size) {
    struct cr_arena_block *block = cr_alloc(sizeof *block + size);
    if (!block) return NULL;
    block->next = NULL;
    block->size = size;
    a->bytes += size;
    return block;
}

void *cr_arena_alloc(cr_arena *a, size_t size) {
    if (size > PTRDIFF_MAX / 2) {
        (void)cr_error_set(CR_ENOMEM, CR_WHERE, "too large");
        return NULL;
    }
    if (ONE_BLOCK_EACH) {
        struct cr_arena_block *block = block_new(a, size); /* exact size: the byte after it is out of bounds */
        if (!block) return NULL;
        block->next = a->head;
        a->head = block;
        a->used = size;
        return block->data;
    }
    size_t rounded = size ? (size + ALIGN - 1) & ~(size_t)(ALIGN - 1) : ALIGN;
    if (a->head && rounded <= a->head->size - a->used) {
        void *p = a->head->data + a->used;
        a->used += rounded;
        return p;
    }
    size_t wanted = a->head ? CR_MIN(a->bytes, (size_t)LARGEST_BLOCK) : (size_t)FIRST_BLOCK;
    bool alone = rounded > wanted / 2;
    struct cr_arena_block *block = block_new(a, alone ? rounded : wanted);
    if (!block) return NULL;
    if (alone && a->head) {
        block->next = a->head->next;
        a->head->next = block;
        return block->data;
    }
    block->next = a->head;
    a->head = block;
    a->used = rounded;
    return block->data;
}

void *cr_arena_calloc(cr_arena *a, size_t count, size_t size) {
    size_t total;
    if (cr_mul_overflow(count, size, &total)) total = SIZE_MAX;
    void *p = cr_arena_alloc(a, total);
    return p ? memset(p, 0, total) : NULL;
}

void *cr_arena_copy(cr_arena *a, const void *data, size_t size) {
    void *p = cr_arena_alloc(a, size);
    if (p && size) memcpy(p, data, size);
    return p;
}

char *cr_arena_strndup(cr_arena *a, const char *s, size_t n) {
    n = strnlen(s, n);
    char *copy = cr_arena_alloc(a, n + 1);
    if (!copy) return NULL;
    memcpy(copy, s, n);
    copy[n] = 0;
    return copy;
}

char *cr_arena_strdup(cr_arena *a, const char *s) { return cr_arena_strndup(a, s, strlen(s)); }

char *cr_arena_printf(cr_arena *a, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length < 0) length = 0;
    char *text = cr_arena_alloc(a, (size_t)length + 1);
    if (!text) return NULL;
    text[0] = 0;
    va_start(args, format);
    vsnprintf(text, (size_t)length + 1, format, args);
    va_end(args);
    return text;
}
