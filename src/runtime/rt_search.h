/* rt_search.h: binary searches, several side by side (k_search.c). */
#ifndef CRESSET_RT_SEARCH_H
#define CRESSET_RT_SEARCH_H

#include <stdint.h>

enum { RT_SEARCH_LANES = 8 };
/* at[i]: how many of the n ascending numbers of the row are not above values[i], for up to RT_SEARCH_LANES values. */
void rt_search_not_above(const double *row, int64_t n, const double *values, int64_t lanes, int64_t *at);

#endif
