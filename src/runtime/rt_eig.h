/* rt_eig.h: eigenvalues of one dense matrix of double or complex double that need not be Hermitian, step by step:
 *
 *     balance      rows and columns swapped and scaled by powers of two, so that no part drowns the others
 *     hessenberg   reflections leave zeros below the first subdiagonal            (rt_eig_loops.h)
 *     schur        shifted QR steps leave a triangle: the eigenvalues are on its diagonal
 *     vectors      of the triangle by substitution, then turned, scaled and swapped back
 *
 * Matrices lie row by row. q has the rows of Q^H, for a = Q t Q^H, or is NULL where no vectors are wanted: then only
 * the part of the triangle is kept up that eigenvalues need. */
#ifndef CRESSET_RT_EIG_H
#define CRESSET_RT_EIG_H

#include "runtime/rt.h"

#include <complex.h>

typedef double _Complex zdouble; /* again in rt_stack.h: C11 allows that */

enum { RT_EIG_ENDLESS = -1 }; /* no convergence */

/* h (n x n) is Hessenberg in rows and columns low..high, and a triangle outside of them. It becomes the triangle; a
 * real matrix keeps a block of two rows on it for each pair of conjugate values, of which the one above comes first. */
int rt__schur_real(double *h, double *q, int64_t n, int64_t low, int64_t high, zdouble *values);
int rt__schur_complex(zdouble *h, zdouble *q, int64_t n, int64_t low, int64_t high, zdouble *values);

#endif
