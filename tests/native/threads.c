/* threads.c: 8 threads on 4 instances of the digits model, which is compiled into this program; made for TSan. Prints
 * "ok". */
#include "digits.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { INSTANCES = 4, THREADS = 8, RUNS = 12, MOST = 16 };
static float images[MOST][8][8];
static int64_t expected[MOST];
static cresset_instance *instances[INSTANCES];
static const cresset_api *api;

static int run(cresset_instance *m, int64_t n, int64_t *digits) {
    int64_t size[] = { n, 8, 8 };
    cresset_value x = {
        .struct_size = sizeof x, .kind = CRESSET_TENSOR, .dtype = CRESSET_F32, .rank = 3, .size = size, .data = images
    };
    cresset_value y[2] = { { .struct_size = sizeof y[0] }, { .struct_size = sizeof y[1] } };
    if (api->run(m, 0, &x, 1, y, 2, NULL, 0)) return 1;
    memcpy(digits, y[0].data, (size_t)n * sizeof *digits);
    api->release(m, &y[0]);
    api->release(m, &y[1]);
    return 0;
}

static void *work(void *arg) {
    int first = *(int *)arg;
    for (int i = 0; i < RUNS; i++) {
        int64_t n = 1 + (first * 5 + i * 3) % MOST, digits[MOST];
        if (run(instances[(first + i) % INSTANCES], n, digits) || memcmp(digits, expected, (size_t)n * sizeof *digits))
            return arg;
    }
    return NULL;
}

int main(void) {
    pthread_t thread[THREADS];
    int first[THREADS], wrong = 0;
    api = cresset_model_digits(CRESSET_ABI_MAJOR);
    for (int i = 0; i < MOST * 64; i++) images[i / 64][i / 8 % 8][i % 8] = (float)(i * 7919 % 17);
    for (int i = 0; i < INSTANCES; i++) {
        cresset_options o = { .struct_size = sizeof o, .threads = i ? 2 : 3 };
        if (api->create(api, &o, &instances[i], NULL, 0)) return 1;
    }
    if (run(instances[0], MOST, expected)) return 1;
    for (int i = 0; i < THREADS; i++) first[i] = i, pthread_create(&thread[i], NULL, work, &first[i]);
    for (int i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(thread[i], &result);
        wrong += result != NULL;
    }
    for (int i = 0; i < INSTANCES; i++) api->destroy(instances[i]);
    puts(wrong ? "wrong" : "ok");
    return wrong != 0;
}
