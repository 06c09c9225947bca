/* Any bytes as a formula of each column: either one error with a position, or a tree that prints to a text that parses
 * to the same tree. */
#include "ops/formula.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void die(const char *what, const char *text) {
    fprintf(stderr, "%s:\n%s\n%s\n", what, text, cr_error_message());
    abort();
}

static void one(const char *text, cr_formula_column column) {
    cr_arena arena;
    cr_arena_init(&arena);
    cr_formula f, g;
    cr_str printed;
    cr_str_init(&printed);
    cr_status status = cr_formula_parse(&arena, text, column, &f);
    if (!status) {
        cr_formula_print(&f, &printed);
        if (cr_formula_parse(&arena, cr_str_get(&printed), column, &g))
            die("the printed text does not parse", cr_str_get(&printed));
        if (!cr_formula_equal(&f, &g)) die("the printed text parses to another tree", cr_str_get(&printed));
    } else if (status != CR_EFORMAT) {
        die("not a format error", text);
    }
    cr_str_dispose(&printed);
    cr_arena_dispose(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size > CR_FORMULA_MAX_TEXT / 4) return 0; /* printing adds spaces: keep the printed text below the limit */
    char *text = cr_strndup((const char *)data, size);
    if (!text) return 0;
    for (int column = CR_FORMULA_SCALAR; column <= CR_FORMULA_GRAD; column++) one(text, (cr_formula_column)column);
    cr_free(text);
    return 0;
}
