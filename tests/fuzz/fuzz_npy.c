/* Any bytes as .npy, or as .npz when they begin like a zip: either one error, or arrays that can be copied and
 * written. */
#include "archive/npy.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void die(const char *what) {
    fprintf(stderr, "%s: %s\n", what, cr_error_message());
    abort();
}

static bool refused(cr_status status) { return status == CR_EFORMAT || status == CR_EUNSUPPORTED; }

static void use(const cr_npy *a) {
    uint8_t *copy = malloc(a->bytes ? a->bytes : 1);
    cr_npy_copy(a, copy);
    cr_str file = {0};
    cr_status status = cr_npy_header(a->dtype, a->rank, a->size, &file);
    if (status && (status != CR_EUNSUPPORTED || a->dtype != RT_DTYPE_COUNT)) die("the header cannot be written");
    if (!status) {
        cr_npy back;
        cr_str_addn(&file, (char *)copy, a->bytes);
        if (cr_npy_parse(file.at, file.n, &back)) die("what was written does not parse");
        if (back.dtype != a->dtype || back.rank != a->rank || back.bytes != a->bytes || back.fortran || back.swapped ||
            memcmp(back.size, a->size, sizeof *a->size * (size_t)a->rank) ||
            (a->bytes && memcmp(back.data, copy, a->bytes)))
            die("what was written reads differently");
    }
    cr_str_dispose(&file);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size > 2 && !memcmp(data, "PK", 2)) {
        cr_npz *z = NULL;
        cr_status status = cr_npz_open_memory(data, size, &z);
        if (status && !refused(status)) die("opening fails in another way");
        if (status) return 0;
        for (size_t i = 0; i < cr_npz_count(z); i++) use(cr_npz_at(z, i));
        cr_npz_release(z);
        return 0;
    }
    cr_npy a;
    cr_status status = cr_npy_parse(data, size, &a);
    if (status && !refused(status)) die("parsing fails in another way");
    if (!status) use(&a);
    return 0;
}
