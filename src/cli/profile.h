/* profile.h: how long the steps of native code take, by the node that they come from. */
#ifndef CR_CLI_PROFILE_H
#define CR_CLI_PROFILE_H

#include "cli/arrays.h"

/* count: steps of that origin in all calls */
typedef struct step_time { char *origin; double seconds; uint64_t count; } step_time;
typedef struct profile {
    CLI_VEC(step_time) steps; /* slowest first */
    uint64_t calls;
} profile;
/* Calls for half a second, 1000 times at most. All zero is a good start of *out; disposed of by the caller also on
 * failure. */
CR_NODISCARD cr_status profile_native(cr_native *native, const model *m, const input_set *inputs, profile *out);
double profile_total(const profile *p); /* seconds of all steps; 1 where there are none */
void profile_dispose(profile *p);

#endif
