/* Any bytes as a pickle: either one error, or a value that prints, and that whoever walks it can trust: bounded depth,
 * tensors inside their storages, dicts in pairs. */
#include "archive/pickle.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void die(const char *what) {
    fprintf(stderr, "%s\n%s\n", what, cr_error_message());
    abort();
}

static size_t walk(const cr_pickle *p, int depth) {
    size_t count = 1;
    if (depth > CR_PICKLE_DEPTH) die("too deep");
    if (p->kind >= CR_PICKLE_KIND_COUNT) die("a kind that is none");
    if (p->kind >= CR_PICKLE_DICT && p->kind <= CR_PICKLE_DEFAULT_DICT && p->n % 2) die("a key without a value");
    if (p->kind == CR_PICKLE_TENSOR) {
        const cr_pickle_tensor *t = p->u.tensor;
        __int128 last = t->offset;
        bool empty = false;
        for (int i = 0; i < t->rank; i++) {
            empty |= !t->size[i];
            last += (__int128)(t->size[i] - 1) * t->stride[i];
        }
        if (!empty && (last + 1) * rt_itemsize(t->dtype) > t->storage->bytes) die("a tensor outside its storage");
    }
    if (p->kind >= CR_PICKLE_TUPLE && p->kind <= CR_PICKLE_FROZENSET)
        for (uint32_t i = 0; i < p->n; i++) count += walk(p->u.items[i], depth + 1);
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    cr_arena arena;
    cr_str text = {0};
    const cr_pickle *p;
    cr_arena_init(&arena);
    cr_status status = cr_pickle_parse(&arena, data, size, &p);
    if (status && status != CR_EFORMAT && status != CR_EUNSUPPORTED) die("another error than format or unsupported");
    if (!status) {
        if (walk(p, 0) > 100000 + 4 * size) die("larger than its input allows");
        cr_pickle_print(p, &text);
        if (cr_str_status(&text) || !text.n) die("no text");
    }
    cr_str_dispose(&text);
    cr_arena_dispose(&arena);
    return 0;
}
