/* rt_select.h: the k largest (or smallest) of n numbers, in PyTorch's order for equal ones.
 *
 * PyTorch's topk runs the C++ library's partial_sort or nth_element + sort over (value, index) pairs by value alone, so
 * which of several equal numbers comes out first follows from the steps of those algorithms. These take the same
 * steps. */
#ifndef CRESSET_RT_SELECT_H
#define CRESSET_RT_SELECT_H

#include "runtime/rt.h"

typedef struct rt_keyed { double key; int64_t index; } rt_keyed;

/* Moves the k largest (NaN counts as largest) to the front, 1 <= k <= n; in descending order when `sorted`, or always
 * when 64 * k <= n. With `smallest` the k smallest in ascending order (NaN last). */
void rt_select_top(rt_keyed *x, int64_t n, int64_t k, bool smallest, bool sorted);

#endif
