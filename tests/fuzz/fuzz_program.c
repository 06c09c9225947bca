/* Any bytes as the JSON of an exported program: either one error of a known class, or a program that verifies or says
 * why not, prints, and whose graph's text reads back where all of its ops have rows. Written as JSON again it is the
 * same program, and the same text from then on. Weights are missing, so it never runs. */
#include "export/internal.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void die(const char *what) {
    fprintf(stderr, "%s: %s\n", what, cr_error_message());
    abort();
}

static void check_text(const cr_program *p) {
    cr_str text = { 0 };
    cr_program_print(p, &text);
    if (!text.n) die("nothing is printed");
    cr_str_dispose(&text);
    cr_graph_print(p->graph, CR_PRINT_ORIGINS, &text);
    cr_str_dispose(&text);
}

static void check_written(const cr_program *p) {
    cr_str text = { 0 }, again = { 0 }, where = { 0 };
    cr_program *q = NULL;
    cr_status status = cr_program_print_json(p, NULL, &text);
    if (status && status != CR_EUNSUPPORTED && status != CR_EVALUE)
        die("writing gives another error than unsupported or value");
    if (!status) {
        if (cr__program_from_json(text.at, text.n, &q)) die("what was written does not load");
        if (!cr_graph_equal(p->graph, q->graph, &where)) {
            fprintf(stderr, "%s\n", cr_str_get(&where));
            die("what was written is another graph");
        }
        if (cr_program_print_json(q, NULL, &again)) die("what was written cannot be written again");
        if (text.n != again.n || memcmp(text.at, again.at, text.n)) die("what was written is written in another way");
        cr_program_release(q);
    }
    cr_str_dispose(&text);
    cr_str_dispose(&again);
    cr_str_dispose(&where);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    cr_program *p = NULL;
    cr_module *m = NULL;
    cr_status status = cr__program_from_json((const char *)data, size, &p);
    if (status && status != CR_EFORMAT && status != CR_EUNSUPPORTED) die("another error than format or unsupported");
    if (status) return 0;
    status = cr_program_verify(p);
    if (status && !*cr_error_message()) die("an error without words");
    check_text(p);
    check_written(p);
    if (!cr_module_create(p, 0, &m)) cr_module_release(m); /* only a program without state gets so far */
    cr_program_release(p);
    return 0;
}
