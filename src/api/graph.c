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

cr_status cr_graph_apply(const cr_graph *g, const char *name, cr_graph **out) {
    const cr_pass *pass = cr_pass_find(name);
    return pass ? cr_pass_apply_one(pass, g, NULL, out) : no_such(name);
}
