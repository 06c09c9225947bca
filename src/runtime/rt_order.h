/* rt_order.h: sorting and selecting by keys, unsigned numbers that order as a dtype's elements do.
 *
 * NaN comes after everything, -0 equals 0; descending keys are the complements. Keys of dtypes of up to four bytes are
 * below 2^32, so that they sort in half the passes. Complex numbers have no keys. */
#ifndef CRESSET_RT_ORDER_H
#define CRESSET_RT_ORDER_H

#include "runtime/rt.h"

typedef struct rt_pair { uint64_t key; int64_t at; } rt_pair;

/* 32 or 64: how many bits of a dtype's keys differ. */
int rt_order_bits(int dtype);
/* Is it the key of a NaN? */
bool rt_order_is_nan(int dtype, uint64_t key, bool descending);
/* (key, position) of n elements that are `stride` elements apart; positions count from `first`. */
void rt_order_pairs(int dtype, const void *x, int64_t stride, int64_t n, int64_t first, bool descending, rt_pair *out);
/* The keys alone, ascending. */
void rt_order_keys(int dtype, const void *x, int64_t stride, int64_t n, uint64_t *out);
/* Stable, in time proportional to n; `spare` has room for n. The result is in `a`. */
void rt_order_sort(rt_pair *a, rt_pair *spare, int64_t n, int bits);
/* The k smallest of n elements in order, the earlier of equal ones first; 1 <= k <= n. `room` has place for
 * rt_order_room(n, k) pairs and holds the result at its beginning. */
void rt_order_first(int dtype, const void *x, int64_t stride, int64_t n, int64_t k, bool descending, rt_pair *room);
int64_t rt_order_room(int64_t n, int64_t k);
/* The pair that a stable sort would put at position k of a[0..n), 0 <= k < n; changes `a`. `spare` has room for n. */
rt_pair rt_order_nth(rt_pair *a, rt_pair *spare, int64_t n, int64_t k, int bits);

#endif
