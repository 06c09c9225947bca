/* zip's checksum (CRC-32), of gigabytes when an archive is checked.
 *
 * Where the processor multiplies polynomials, 64 bytes at a time are folded onto the next 64: a block of 128 bits that
 * lies n bits before another contributes to the remainder as (block * x^n mod P) there, and each of its halves needs
 * one multiplication by a constant. The last 128 bits, which have the same remainder as all that was folded into them,
 * and the tail go through zlib, as does everything on other processors; folding is five times as fast. */
#include "archive/zip.h"

#include <zlib.h>

/* zlib answers 0 for a null pointer, whatever was summed up before. */
static uint32_t crc_plain(uint32_t crc, const void *data, size_t size) {
    return size ? (uint32_t)crc32_z(crc, data, size) : crc;
}

#if defined(__x86_64__)
#include <immintrin.h>

enum { WORTH_FOLDING = 256 };

/* x^(n + 32) and x^(n - 32) mod P with the bits reversed, as zip's polynomial is; n = 512 to the block four further,
 * 128 to the next one. */
static const uint64_t four_further[2] = {0x154442bd4, 0x1c6e41596}, next[2] = {0x1751997d0, 0x0ccaa009e};

__attribute__((target("pclmul,sse4.1"))) static inline __m128i fold(__m128i block, __m128i onto, __m128i constants) {
    __m128i low = _mm_clmulepi64_si128(block, constants, 0x00), high = _mm_clmulepi64_si128(block, constants, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), onto);
}

__attribute__((target("pclmul,sse4.1"))) static uint32_t crc_folded(uint32_t crc, const uint8_t *p, size_t size) {
    const __m128i far_step = _mm_loadu_si128((const __m128i *)four_further),
                  step = _mm_loadu_si128((const __m128i *)next);
    const __m128i *from = (const __m128i *)p;
    __m128i a = _mm_loadu_si128(from), b = _mm_loadu_si128(from + 1), c = _mm_loadu_si128(from + 2),
            d = _mm_loadu_si128(from + 3);
    a = _mm_xor_si128(a, _mm_cvtsi32_si128((int)~crc)); /* what came before, as if it stood in front */
    for (from += 4, size -= 64; size >= 64; from += 4, size -= 64) {
        a = fold(a, _mm_loadu_si128(from), far_step);
        b = fold(b, _mm_loadu_si128(from + 1), far_step);
        c = fold(c, _mm_loadu_si128(from + 2), far_step);
        d = fold(d, _mm_loadu_si128(from + 3), far_step);
    }
    d = fold(fold(fold(a, b, step), c, step), d, step);
    uint8_t last[16];
    _mm_storeu_si128((__m128i *)last, d);
    /* zlib inverts the state on the way in and out: ~0 in is the state 0, in which only the block counts. */
    return crc_plain(crc_plain(UINT32_MAX, last, sizeof last), from, size);
}

uint32_t cr_crc32(uint32_t crc, const void *data, size_t size) {
    if (size < WORTH_FOLDING || !__builtin_cpu_supports("pclmul") || !__builtin_cpu_supports("sse4.1"))
        return crc_plain(crc, data, size);
    return crc_folded(crc, data, size);
}
#else
uint32_t cr_crc32(uint32_t crc, const void *data, size_t size) { return crc_plain(crc, data, size); }
#endif
