/* classify.c: the digits model from C. Nothing of Cresset is needed but the header and the compiled library.
 *
 *     cresset compile examples/digits/digits.pt2 -o libdigits.so
 *     cc examples/c/classify.c -I include ./libdigits.so -o classify
 *     ./classify examples/digits/images.npy examples/digits/labels.npy */
#include "cresset/abi.h"

#include <stdio.h>

static float images[200][8][8];
static int64_t labels[200];

static int read_npy(const char *path, void *data, size_t size) { /* NumPy's header has 128 bytes here */
    FILE *f = fopen(path, "rb");
    int done = f && !fseek(f, 128, SEEK_SET) && fread(data, 1, size, f) == size;
    return (f && fclose(f)) || !done ? fprintf(stderr, "cannot read %s\n", path) : 0;
}

int main(int argc, char **argv) {
    char message[256] = "the library has another version of the interface";
    if (argc != 3) return fprintf(stderr, "usage: classify images.npy labels.npy\n"), 2;
    if (read_npy(argv[1], images, sizeof images) || read_npy(argv[2], labels, sizeof labels)) return 1;
    const cresset_api *api = cresset_model(CRESSET_ABI_MAJOR);
    cresset_instance *model = NULL;
    int64_t size[] = { 200, 8, 8 }, right = 0;
    cresset_value in = {
        .struct_size = sizeof in, .kind = CRESSET_TENSOR, .dtype = CRESSET_F32, .rank = 3, .size = size, .data = images
    };
    cresset_value out[2] = { { .struct_size = sizeof in }, { .struct_size = sizeof in } }; /* digit, probability */
    if (!api || api->create(api, NULL, &model, message, sizeof message) ||
        api->run(model, 0, &in, 1, out, 2, message, sizeof message))
        return fprintf(stderr, "%s\n", message), 1;
    for (int i = 0; i < 200; i++) right += ((int64_t *)out[0].data)[i] == labels[i];
    printf("%d of 200 digits right\n", (int)right);
    for (int i = 0; i < 2; i++) api->release(model, &out[i]);
    return api->destroy(model), 0;
}
