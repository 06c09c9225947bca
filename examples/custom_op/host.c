/* host.c: a program that runs a model with a custom operator and gives it the function. Nothing of Cresset is needed.
 *
 *     cc -I include examples/custom_op/host.c examples/custom_op/ops.c ./libmodel.so -o host && ./host
 */
#include "cresset/abi.h"

#include <stdio.h>

int clipped(cresset_op_call *call); /* ops.c */

int main(void) {
    const cresset_api *api = cresset_model(CRESSET_ABI_MAJOR);
    if (!api) return fprintf(stderr, "the model was made for another version of the interface\n"), 1;
    for (int i = 0; i < api->nops; i++) printf("calls %s\n", api->ops[i].schema);
    cresset_op_function functions[] = { { "example::clipped", clipped, NULL } };
    cresset_options options = { .struct_size = sizeof options, .threads = 1, .ops = functions, .nops = 1 };
    cresset_instance *model;
    char message[256];
    if (api->create(api, &options, &model, message, sizeof message)) return fprintf(stderr, "%s\n", message), 1;
    float numbers[] = { -3, -1, 0, 1, 2, 5 };
    int64_t size[] = { 2, 3 };
    cresset_value x = {
        .struct_size = sizeof x, .kind = CRESSET_TENSOR, .dtype = CRESSET_F32, .rank = 2, .size = size, .data = numbers
    };
    cresset_value y[2] = { { .struct_size = sizeof y[0] }, { .struct_size = sizeof y[0] } };
    if (api->run(model, 0, &x, 1, y, 2, message, sizeof message)) return fprintf(stderr, "%s\n", message), 1;
    for (int i = 0; i < 6; i++) printf("%g ", ((float *)y[0].data)[i]);
    printf("(%lld clipped)\n", (long long)*(int64_t *)y[1].data);
    api->release(model, &y[0]);
    api->release(model, &y[1]);
    api->destroy(model);
    return 0;
}
