/* utf8.h: strict UTF-8 (RFC 3629): no overlong forms, no surrogates, nothing above U+10FFFF. */
#ifndef CR_BASE_UTF8_H
#define CR_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of the character at `p` (`end` is past the last byte that may be read); 0 when there is no valid one. */
static inline size_t cr__utf8_step(const uint8_t *p, const uint8_t *end) {
    size_t left = (size_t)(end - p);
    if (left == 0) return 0;
    uint8_t a = p[0];
    if (a < 0x80) return 1;
    if (a < 0xc2 || a > 0xf4) return 0;
    size_t n = a < 0xe0 ? 2 : a < 0xf0 ? 3 : 4;
    if (left < n) return 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    /* The second byte's range is narrower where a shorter form exists, where surrogates lie, and at the top. */
    if ((a == 0xe0 && p[1] < 0xa0) || (a == 0xed && p[1] > 0x9f)) return 0;
    if ((a == 0xf0 && p[1] < 0x90) || (a == 0xf4 && p[1] > 0x8f)) return 0;
    return n;
}

#endif
