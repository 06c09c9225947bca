/* process.c: what holds for the whole process and has its place further down. */
#include "cresset/process.h"

#include "runtime/gemm.h"
#include "runtime/rt_random.h"
#include "tensor/tensor.h"

const char *cr_isa_used(void) { return rt_gemm_isa_name(); }

void cr_manual_seed(uint64_t seed) { rt_generator_manual_seed(cr_default_generator(), seed); }
