/* Any bytes as safetensors: either one error, or tensors that fill the data one after another, each as large as it
 * says. */
#include "archive/safetensors.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void die(const char *what) {
    fprintf(stderr, "%s: %s\n", what, cr_error_message());
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    cr_safetensors *s = NULL;
    cr_status status = cr_safetensors_open_memory(data, size, &s);
    if (status && status != CR_EFORMAT && status != CR_EUNSUPPORTED) die("opening fails in another way");
    if (status) return 0;
    const uint8_t *at = NULL;
    for (size_t i = 0; i < cr_safetensors_count(s); i++) {
        const cr_safetensor *t = cr_safetensors_at(s, i);
        uint64_t bytes = (uint64_t)rt_itemsize(t->dtype);
        for (int d = 0; d < t->rank; d++) bytes *= (uint64_t)t->size[d];
        if (bytes != t->bytes) die("a tensor of another size");
        if (at && t->data != at) die("a gap");
        at = t->data + t->bytes;
        if (cr_safetensors_find(s, t->name) != t) die("a tensor that is not found by its name");
    }
    if (at && at != data + size) die("bytes that belong to nobody");
    for (size_t i = 0; i < cr_safetensors_metadata_count(s); i++) {
        const char *key, *value;
        cr_safetensors_metadata(s, i, &key, &value);
        if (!key || !value) die("metadata without text");
    }
    cr_safetensors_release(s);
    return 0;
}
