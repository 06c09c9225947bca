/* rt_reflect.h: the loops of rt_reflect_loops.h for double (names end in _d) and complex double (_z), in the file that
 * includes this. No guard: every such file has its own. */
#define T double
#define N(name) name##_d
#define CONJ(x) (x)
#define REAL(x) (x)
#include "runtime/rt_reflect_loops.h"
#undef T
#undef N
#undef CONJ
#undef REAL
#define T zdouble
#define N(name) name##_z
#define CONJ(x) conj(x)
#define REAL(x) creal(x)
#include "runtime/rt_reflect_loops.h"
#undef T
#undef N
#undef CONJ
#undef REAL
