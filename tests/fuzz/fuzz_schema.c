/* Any bytes as a schema: either one error with a position, or a schema whose text parses to the same text. */
#include "ops/op.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void die(const char *what, const char *text) {
    fprintf(stderr, "%s:\n%s\n%s\n", what, text, cr_error_message());
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = cr_strndup((const char *)data, size);
    if (!text) return 0;
    cr_arena arena;
    cr_schema s, again;
    cr_arena_init(&arena);
    cr_status status = cr_schema_parse(&arena, text, &s);
    if (!status) {
        if (cr_schema_parse(&arena, s.text, &again)) die("the printed schema does not parse", s.text);
        if (strcmp(s.text, again.text)) die("the printed schema prints differently", s.text);
        if (s.nparams != again.nparams || s.nreturns != again.nreturns || s.npositional != again.npositional)
            die("the printed schema has other parts", s.text);
    } else if (status != CR_EFORMAT) {
        die("not a format error", text);
    }
    cr_arena_dispose(&arena);
    cr_free(text);
    return 0;
}
