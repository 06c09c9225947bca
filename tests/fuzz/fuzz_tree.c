/* Any bytes as a pytree spec: either one error, or a spec whose text reads back to an equal one and prints the same
 * again, and whose leaves all have a path. */
#include "base/base.h"
#include "trace/tree.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void die(const char *what, const cr_str *text) {
    fprintf(stderr, "%s:\n%s\n%s\n", what, cr_str_get(text), cr_error_message());
    abort();
}

static const char *fields(void *user, const char *name, size_t i) {
    (void)user;
    return i < 3 && name[0] == 'm' ? &"xyz"[i] : NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    cr_tree *t, *again;
    cr_str text = {0}, second = {0}, path = {0};
    cr_status status = cr_tree_parse_with((const char *)data, size, fields, NULL, &t);
    if (status && status != CR_EFORMAT && status != CR_EUNSUPPORTED)
        die("another error than format or unsupported", &text);
    if (status) return 0;
    cr_tree_print(t, &text);
    if (cr_tree_parse(cr_str_get(&text), text.n, &again)) die("the printed text does not parse", &text);
    cr_tree_print(again, &second);
    if (!cr_tree_equal(t, again) || strcmp(cr_str_get(&text), cr_str_get(&second)))
        die("the printed text is another spec", &text);
    uint32_t leaves = cr_tree_root(t)->nleaves;
    for (uint32_t i = 0; i < leaves && i < 100; i++) cr_tree_leaf_path(t, "x", i, &path);
    if (leaves && !path.n) die("no path", &text);
    cr_tree_release(t);
    cr_tree_release(again);
    cr_str_dispose(&text);
    cr_str_dispose(&second);
    cr_str_dispose(&path);
    return 0;
}
