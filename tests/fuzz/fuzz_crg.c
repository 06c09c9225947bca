/* Any bytes as a graph: either one error with a position, or a graph that prints to a text which parses to an equal
 * graph, whose copy is equal, and which verification answers without harm. */
#include "graph/graph.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void die(const char *what, const char *text) {
    fprintf(stderr, "%s:\n%s\n%s\n", what, text, cr_error_message());
    abort();
}

static void check(cr_graph *g) {
    cr_str text, again, where;
    cr_str_init(&text);
    cr_str_init(&again);
    cr_str_init(&where);
    cr_graph *parsed = NULL, *copy = NULL;
    cr_graph_print(g, CR_PRINT_ORIGINS, &text);
    if (cr_graph_parse(NULL, cr_str_get(&text), &parsed)) die("the printed graph does not parse", cr_str_get(&text));
    cr_graph_print(parsed, CR_PRINT_ORIGINS, &again);
    if (!cr_graph_equal(g, parsed, &where)) die(cr_str_get(&where), cr_str_get(&text));
    if (strcmp(cr_str_get(&text), cr_str_get(&again))) die("the printed graph prints differently", cr_str_get(&again));
    if (cr_graph_copy(g, &copy) || !cr_graph_equal(g, copy, &where)) die("the copy differs", cr_str_get(&text));
    cr_status status = cr_graph_verify(g, CR_VERIFY_METAS | CR_VERIFY_FUNCTIONAL | CR_VERIFY_CORE);
    if (status && status != CR_EVALUE) die("verification fails in another way", cr_str_get(&text));
    cr_plan *plan = NULL;
    if (!cr_plan_create(g, &plan)) cr_plan_release(plan);
    cr_graph_release(parsed);
    cr_graph_release(copy);
    cr_str_dispose(&text);
    cr_str_dispose(&again);
    cr_str_dispose(&where);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = cr_strndup((const char *)data, size);
    if (!text) return 0;
    cr_graph *g = NULL;
    cr_status status = cr_graph_parse(NULL, text, &g);
    if (!status) {
        check(g);
        cr_graph_release(g);
    } else if (status != CR_EFORMAT) {
        die("not a format error", text);
    }
    cr_free(text);
    return 0;
}
