/* replay.c: random numbers that a backward part draws again.
 *
 * The forward part notes the generator's state before such a call, a tensor that is saved like others. The backward
 * part puts the generator there, draws, and puts it back to where it was: the numbers are those of the forward, and the
 * stream goes on as if nothing had been drawn. */
#include "autograd/cut.h"

#include "autograd/path.h"
#include "runtime/rt_random.h"

cr_status cr__random_state(cr_graph *g, const cr_arg *state, cr_arg *out) {
    return cr_emit_call(cr_graph_emitter(g), "cresset::random_state", state, state ? 1 : 0, out);
}

cr_status cr__state_input(cr_graph *g, const char *drawn, cr_arg *out) {
    cr_dim bytes = RT_GENERATOR_STATE_BYTES;
    cr_meta meta;
    uint32_t made;
    cr_str name;
    cr_meta_init(&meta, CR_U8, (cr_device){ CR_CPU, -1 });
    CR_TRY(cr_meta_set_dense(cr_graph_env(g), &meta, 1, &bytes, CR_CONTIGUOUS));
    cr_str_init(&name);
    cr_str_addf(&name, "%s_state", drawn);
    cr_status status = cr_graph_placeholder(g, cr_str_get(&name), &meta, &made);
    cr_str_dispose(&name);
    if (!status) *out = cr__value_arg(g, made);
    return status;
}
