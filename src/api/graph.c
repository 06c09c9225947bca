/* graph.c: passes by name. */
#include "passes/passes.h"

size_t cr_graph_input_count(const cr_graph *g) {
    size_t n = 0;
    for (uint32_t id = cr_graph_first(g); id != CR_NO_NODE; id = cr_graph_next(g, id))
        n += cr_graph_node(g, id)->kind == CR_NODE_PLACEHOLDER;
    return n;
}

size_t cr_graph_result_count(const cr_graph *g) {
    uint32_t output = cr_graph_output(g);
    return output == CR_NO_NODE ? 0 : cr_graph_node(g, output)->nargs;
}

const char *cr_pass_name(const cr_pass *pass) { return pass->name; }

char cr_pass_letter(const cr_pass *pass) { return pass->letter; }

static cr_status no_such(const char *name) {
    cr_str names;
    cr_str_init(&names);
    for (size_t i = 0; cr_pass_at(i); i++)
        if (cr_pass_find(cr_pass_at(i)->name) == cr_pass_at(i)) /* one that stands there twice is told once */
            cr_str_addf(&names, "%s%s", i ? ", " : "", cr_pass_at(i)->name);
    cr_status status = CR_FAIL(CR_ENOTFOUND, "there is no pass '%s'; there are %s", name, cr_str_get(&names));
    cr_str_dispose(&names);
    return status;
}

/* A pass on a graph that does not hold what it needs would be wrong without a word. The message has the passes that
 * give it. Whatever checking asks of the environment is forgotten. */
static cr_status check_needs(const cr_pass *pass, const cr_graph *g) {
    cr_env_trial trial = cr_env_begin_trial(cr_graph_env(g));
    cr_status status = cr_contract_check(g, pass->needs);
    cr_env_end_trial(cr_graph_env(g), trial);
    if (!status || status == CR_ENOMEM) return status;
    cr_str first;
    cr_str_init(&first);
    for (size_t i = 0; cr_pass_at(i) != pass && cr_pass_at(i); i++)
        if (cr_pass_at(i)->gives & pass->needs) cr_str_addf(&first, "%s%s", first.n ? ", " : "", cr_pass_at(i)->name);
    status = CR_FAIL(CR_EVALUE, "pass %s: %s; apply %s first", pass->name, cr_error_message(), cr_str_get(&first));
    cr_str_dispose(&first);
    return status;
}

cr_status cr_graph_apply(const cr_graph *g, const char *name, cr_graph **out) {
    const cr_pass *pass = cr_pass_find(name);
    if (!pass) return no_such(name);
    CR_TRY(check_needs(pass, g));
    return cr_pass_apply_one(pass, g, NULL, out);
}
