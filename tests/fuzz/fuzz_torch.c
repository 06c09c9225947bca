/* Any bytes as a torch.save file: either one error, or a file whose tensors lie inside members that can be read. */
#include "archive/pickle.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void die(const char *what) {
    fprintf(stderr, "%s\n%s\n", what, cr_error_message());
    abort();
}

static unsigned touch(cr_torch_file *f, const cr_pickle *p) {
    unsigned sum = 0;
    if (p->kind == CR_PICKLE_TENSOR) {
        const cr_pickle_storage *s = p->u.tensor->storage;
        const cr_zip_member *m = cr_torch_member(f, s);
        uint8_t *bytes;
        if (s->index >= cr_torch_storage_count(f) || m->size < (uint64_t)s->bytes)
            die("a member smaller than its storage");
        if (s->bytes && !m->deflated) {
            if (cr_zip_borrow(cr_torch_zip(f), m, &bytes)) die("a stored member that cannot be borrowed");
            sum += bytes[0] + bytes[s->bytes - 1];
        }
    }
    if (p->kind >= CR_PICKLE_TUPLE && p->kind <= CR_PICKLE_FROZENSET)
        for (uint32_t i = 0; i < p->n; i++) sum += touch(f, p->u.items[i]);
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    cr_torch_file *f;
    cr_status status = cr_torch_open_memory(data, size, NULL, &f);
    if (status && status != CR_EFORMAT && status != CR_EUNSUPPORTED) die("another error than format or unsupported");
    if (status) return 0;
    unsigned sum = touch(f, cr_torch_root(f));
    __asm__ volatile("" : : "r"(sum)); /* so that the reads stay */
    cr_torch_release(f);
    return 0;
}
