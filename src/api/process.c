/* process.c: what holds for the whole process and has its place further down. */
#include "cresset/process.h"

#include "emit/target.h"
#include "runtime/gemm.h"
#include "runtime/rt_random.h"
#include "tensor/tensor.h"

const char *cr_isa_used(void) { return rt_gemm_isa_name(); }

void cr_processor_describe(cr_str *out) {
    cr_str words;
    cr_str_init(&words);
    if (cr_target_here()->describe) cr_target_here()->describe(&words);
    cr_str_add(out, cr_str_get(&words) + (words.n > 0)); /* each word has a space before it */
    out->failed |= words.failed;
    cr_str_dispose(&words);
}

void cr_manual_seed(uint64_t seed) { rt_generator_manual_seed(cr_default_generator(), seed); }
