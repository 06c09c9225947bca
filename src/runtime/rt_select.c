/* rt_select.c: heap selection and introspective sort and selection (Musser 1997) with the pivots, thresholds and move
 * order of GNU's C++ library; see rt_select.h for why these matter. All three swap only where the order by key demands
 * it, so results are the same for every machine. */
#include "runtime/rt_select.h"

typedef struct order { bool smallest; } order;

/* x comes strictly before y. */
static inline bool before(order o, rt_keyed x, rt_keyed y) {
    bool nan_x = x.key != x.key, nan_y = y.key != y.key;
    if (o.smallest) return (!nan_x && nan_y) || x.key < y.key;
    return (nan_x && !nan_y) || x.key > y.key;
}

static inline void swap(rt_keyed *a, rt_keyed *b) {
    rt_keyed t = *a;
    *a = *b;
    *b = t;
}

static int depth_limit(int64_t n) { return 2 * (63 - __builtin_clzll((uint64_t)n)); }

/* ---- heaps: the last in order on top ---- */

/* Lets the hole sink to the bottom along the later children, then lets `value` rise from there. */
static void heap_put(order o, rt_keyed *x, int64_t hole, int64_t n, rt_keyed value) {
    int64_t top = hole, child = hole;
    while (child < (n - 1) / 2) {
        child = 2 * (child + 1);
        if (before(o, x[child], x[child - 1])) child--;
        x[hole] = x[child];
        hole = child;
    }
    if (n % 2 == 0 && child == (n - 2) / 2) {
        child = 2 * child + 1;
        x[hole] = x[child];
        hole = child;
    }
    while (hole > top && before(o, x[(hole - 1) / 2], value)) {
        x[hole] = x[(hole - 1) / 2];
        hole = (hole - 1) / 2;
    }
    x[hole] = value;
}

/* The first k of n to the front, as a heap. */
static void heap_select(order o, rt_keyed *x, int64_t k, int64_t n) {
    for (int64_t parent = (k - 2) / 2; k >= 2 && parent >= 0; parent--) heap_put(o, x, parent, k, x[parent]);
    for (int64_t i = k; i < n; i++) {
        if (!before(o, x[i], x[0])) continue;
        rt_keyed value = x[i];
        x[i] = x[0];
        heap_put(o, x, 0, k, value);
    }
}

static void heap_sort(order o, rt_keyed *x, int64_t n) {
    while (n > 1) {
        n--;
        rt_keyed value = x[n];
        x[n] = x[0];
        heap_put(o, x, 0, n, value);
    }
}

/* ---- partition ---- */

/* Median of the second, middle and last as pivot, which goes to x[0]; returns where the later part starts. */
static int64_t partition(order o, rt_keyed *x, int64_t n) {
    rt_keyed *a = x + 1, *b = x + n / 2, *c = x + n - 1;
    if (before(o, *a, *b)) swap(x, before(o, *b, *c) ? b : before(o, *a, *c) ? c : a);
    else swap(x, before(o, *a, *c) ? a : before(o, *b, *c) ? c : b);
    int64_t low = 1, high = n;
    for (;; low++) {
        while (before(o, x[low], x[0])) low++;
        do high--;
        while (before(o, x[0], x[high]));
        if (low >= high) return low;
        swap(&x[low], &x[high]);
    }
}

/* x[0 .. i) is in order, or has an element that x[i] does not come before. */
static void insert(order o, rt_keyed *x, int64_t i) {
    rt_keyed value = x[i];
    for (; before(o, value, x[i - 1]); i--) x[i] = x[i - 1];
    x[i] = value;
}

static void insertion_sort(order o, rt_keyed *x, int64_t n) {
    for (int64_t i = 1; i < n; i++) {
        if (!before(o, x[i], x[0])) {
            insert(o, x, i);
            continue;
        }
        rt_keyed value = x[i];
        for (int64_t j = i; j > 0; j--) x[j] = x[j - 1];
        x[0] = value;
    }
}

enum { SMALL = 16 };

static void sort_coarsely(order o, rt_keyed *x, int64_t n, int depth) {
    while (n > SMALL) {
        if (depth-- == 0) {
            heap_select(o, x, n, n);
            heap_sort(o, x, n);
            return;
        }
        int64_t cut = partition(o, x, n);
        sort_coarsely(o, x + cut, n - cut, depth);
        n = cut;
    }
}

static void sort(order o, rt_keyed *x, int64_t n) {
    if (n < 2) return;
    sort_coarsely(o, x, n, depth_limit(n));
    insertion_sort(o, x, n < SMALL ? n : SMALL);
    for (int64_t i = SMALL; i < n; i++) insert(o, x, i);
}

/* x[nth] becomes what it would be in a sorted array, with nothing later before it. */
static void select_nth(order o, rt_keyed *x, int64_t nth, int64_t n) {
    int depth = depth_limit(n);
    while (n > 3) {
        if (depth-- == 0) {
            heap_select(o, x, nth + 1, n);
            swap(x, x + nth);
            return;
        }
        int64_t cut = partition(o, x, n);
        if (cut <= nth) x += cut, nth -= cut, n -= cut;
        else n = cut;
    }
    insertion_sort(o, x, n);
}

void rt_select_top(rt_keyed *x, int64_t n, int64_t k, bool smallest, bool sorted) {
    order o = { smallest };
    if (k <= n / 64) {
        heap_select(o, x, k, n);
        heap_sort(o, x, k);
    } else {
        select_nth(o, x, k - 1, n);
        if (sorted) sort(o, x, k - 1);
    }
}
