/* Any bytes as JSON: either one error with a position, or a tree that is written as a text which reads as the same
 * tree. */
#include "archive/json.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void die(const char *what, const char *text) {
    fprintf(stderr, "%s:\n%s\n%s\n", what, text, cr_error_message());
    abort();
}

static void walk(const cr_json *v, const char *text) {
    if (v->kind == CR_JSON_STRING && v->u.s[v->n]) die("a string without NUL", text);
    if (v->kind == CR_JSON_ARRAY)
        for (uint32_t i = 0; i < v->n; i++) walk(&v->u.items[i], text);
    if (v->kind != CR_JSON_OBJECT) return;
    for (uint32_t i = 0; i < v->n; i++) {
        if (cr_json_find(v, v->u.members[i].key) != &v->u.members[i].value)
            die("a member that is not found by its key", text);
        walk(&v->u.members[i].value, text);
    }
}

static void write_text(const cr_json *v, int indent, cr_str *out) {
    cr_json_writer w;
    cr_json_writer_init(&w, out, indent);
    cr_json_value(&w, v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    cr_arena arena;
    cr_arena_init(&arena);
    cr_str text = {0}, again = {0};
    const cr_json *value = NULL, *second = NULL;
    cr_status status = cr_json_parse(&arena, (const char *)data, size, &value);
    if (status && status != CR_EFORMAT) die("not a format error", "");
    if (status && !strstr(cr_error_message(), "line ")) die("no position", "");
    if (!status) {
        write_text(value, size % 3, &text);
        walk(value, cr_str_get(&text));
        if (cr_json_parse(&arena, cr_str_get(&text), text.n, &second))
            die("the written text does not parse", cr_str_get(&text));
        write_text(second, size % 3, &again);
        if (strcmp(cr_str_get(&text), cr_str_get(&again))) die("the text changes", cr_str_get(&again));
    }
    cr_str_dispose(&text);
    cr_str_dispose(&again);
    cr_arena_dispose(&arena);
    return 0;
}
