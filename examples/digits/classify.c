/* classify.c: the digits model from C. Nothing of Cresset is needed but the header and the compiled library.
 *
 *     cresset compile digits.pt2 -o libdigits.so
 *     cc classify.c -I ../../include ./libdigits.so -o classify
 *     ./classify images.npy labels.npy */
#include "cresset/abi.h"

#include <stdio.h>
#include <stdlib.h>

/* The data of a .npy file behind its header; *count gets the number of bytes. */
static char *npy(const char *path, size_t *count) {
    FILE *f = fopen(path, "rb");
    char *bytes = malloc(1 << 20);
    if (!f || !bytes) { perror(path); exit(1); }
    size_t n = fread(bytes, 1, 1 << 20, f), header = 10 + (unsigned char)bytes[8] + 256u * (unsigned char)bytes[9];
    fclose(f);
    *count = n - header;
    return bytes + header;
}

int main(int argc, char **argv) {
    if (argc != 3) return fprintf(stderr, "usage: classify images.npy labels.npy\n"), 2;
    size_t nbytes, nlabels;
    char *images = npy(argv[1], &nbytes), *labels = npy(argv[2], &nlabels), message[256];
    if (nlabels / sizeof(int64_t) != nbytes / (64 * sizeof(float))) return fprintf(stderr, "not as many labels as images\n"), 1;
    const cresset_api *api = cresset_model(CRESSET_ABI_MAJOR);
    cresset_instance *model;
    if (!api || api->create(api, NULL, &model, message, sizeof message)) return fprintf(stderr, "%s\n", api ? message : "another ABI version"), 1;
    int64_t n = (int64_t)(nbytes / (64 * sizeof(float))), size[] = { n, 8, 8 };
    cresset_value in = { .struct_size = sizeof in, .kind = CRESSET_TENSOR, .dtype = CRESSET_F32, .rank = 3, .size = size, .data = images };
    cresset_value out[2] = { { .struct_size = sizeof out[0] }, { .struct_size = sizeof out[1] } }; /* digit, probability */
    if (api->run(model, 0, &in, 1, out, 2, message, sizeof message)) return fprintf(stderr, "%s\n", message), 1;
    int right = 0;
    for (int64_t i = 0; i < n; i++) right += ((int64_t *)out[0].data)[i] == ((int64_t *)(void *)labels)[i];
    printf("%d of %d digits right\n", right, (int)n);
    for (int i = 0; i < 2; i++) api->release(model, &out[i]);
    api->destroy(model);
    return 0;
}
