/* train.c: a language model over bytes learns a text, in C. Nothing of Cresset is needed but the header and the
 * library.
 *
 *     python examples/train_in_c/export.py .
 *     cresset compile --train loss.pt2 next.pt2 --optimizer adamw,clip_norm=1 -o libletters.so
 *     cc examples/train_in_c/train.c -I include ./libletters.so -o train
 *     ./train TEXT 300                -- 300 steps; Ctrl-C ends it as well
 *     ./train TEXT 600                -- goes on at 300, to the bit as if it had never stopped
 *
 * It leaves letters.checkpoint (what it goes on from) and letters.safetensors (weights that PyTorch loads). */
#include "cresset/abi.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BATCH = 16, LENGTH = 65, SHOWN = 160, ROWS = 10, COLUMNS = 60 };
static const char checkpoint[] = "letters.checkpoint", weights[] = "letters.safetensors", start[] = "The ";

static const cresset_api *api;
static cresset_instance *model;
static char message[256];
static volatile sig_atomic_t stopped;

static void stop(int signal) { stopped = signal; }

static int fail(const char *what) {
    fprintf(stderr, "train: %s: %s\n", what, message);
    api->destroy(model);
    return 1;
}

static int find_method(const char *name) {
    for (int i = 0; i < api->nmethods; i++)
        if (!strcmp(api->methods[i].name, name)) return i;
    return -1;
}

/* ---- the text ---- */

static char *read_text(const char *path, size_t *size) {
    FILE *f = fopen(path, "rb");
    char *text = NULL;
    long n = f && !fseek(f, 0, SEEK_END) ? ftell(f) : -1;
    if (n > LENGTH && (text = malloc((size_t)n)) && (rewind(f), fread(text, 1, (size_t)n, f) != (size_t)n)) n = 0;
    if (f) fclose(f);
    *size = n > LENGTH && text ? (size_t)n : 0;
    return text;
}

/* Step i always takes the same places: a run that goes on sees what one that never stopped sees. */
static void choose_batch(const char *text, size_t size, int step, int64_t batch[BATCH][LENGTH]) {
    uint64_t random = 0x9e3779b97f4a7c15u * (uint64_t)(step + 1);
    for (int i = 0; i < BATCH; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        const char *from = text + (random >> 33) % (size - LENGTH);
        for (int k = 0; k < LENGTH; k++) batch[i][k] = (unsigned char)from[k] & 127;
    }
}

/* ---- what is shown ---- */

/* From the smallest loss to the largest; each column is the mean of its steps. */
static void draw(const float *loss, int n) {
    float column[COLUMNS], most = 0, least = 0;
    int columns = n < COLUMNS ? n : COLUMNS;
    for (int c = 0; c < columns; c++) {
        int from = (int)((long)c * n / columns), end = (int)((long)(c + 1) * n / columns);
        column[c] = 0;
        for (int i = from; i < end; i++) column[c] += loss[i] / (float)(end - from);
        most = !c || column[c] > most ? column[c] : most;
        least = !c || column[c] < least ? column[c] : least;
    }
    for (int row = ROWS; row >= 0 && n; row--) {
        printf("%5.2f |", (double)(least + (most - least) * (float)row / ROWS));
        for (int c = 0; c < columns; c++) {
            float place = most > least ? (column[c] - least) / (most - least) * ROWS : 0;
            putchar((int)(place + 0.5f) == row ? '*' : ' ');
        }
        putchar('\n');
    }
    if (n) printf("      +%.*s %d steps\n", columns, "------------------------------------------------------------", n);
}

/* The likeliest letter after the last ones, again and again. */
static int write_text(void) {
    int64_t seen[64], size[] = { 1, sizeof start - 1 };
    int method = find_method("next");
    for (size_t i = 0; i < sizeof start - 1; i++) seen[i] = start[i];
    printf("\n%s", start);
    for (int i = 0; i < SHOWN && method >= 0; i++) {
        cresset_value in = { .struct_size = sizeof in,
                             .kind = CRESSET_TENSOR,
                             .dtype = CRESSET_I64,
                             .rank = 2,
                             .size = size,
                             .data = seen };
        cresset_value out = { .struct_size = sizeof out };
        if (api->run(model, method, &in, 1, &out, 1, message, sizeof message)) return fail("next");
        const float *score = out.data;
        int best = 0;
        for (int c = 0; c < 128; c++) best = score[c] > score[best] ? c : best;
        api->release(model, &out);
        if (size[1] == 64) memmove(seen, seen + 1, 63 * sizeof *seen);
        else size[1]++;
        seen[size[1] - 1] = best;
        putchar(best);
    }
    printf("\n");
    return 0;
}

/* ---- training ---- */

static int train(const char *text, size_t size, int from, int steps, float *losses, int *made) {
    static int64_t batch[BATCH][LENGTH];
    const int64_t shape[] = { BATCH, LENGTH };
    *made = 0;
    for (int step = from; step < steps && !stopped; step++) {
        float *loss = &losses[*made];
        cresset_value in[2] = { { .struct_size = sizeof in[0],
                                  .kind = CRESSET_TENSOR,
                                  .dtype = CRESSET_I64,
                                  .rank = 2,
                                  .size = shape,
                                  .data = batch },
                                { .struct_size = sizeof in[0], .kind = CRESSET_FLOAT, .number = 3e-3 } };
        cresset_value out = { .struct_size = sizeof out, .data = loss, .capacity = sizeof *loss };
        choose_batch(text, size, step, batch);
        if (api->run(model, api->train->step, in, 2, &out, 1, message, sizeof message)) return fail("step");
        ++*made;
        if (isatty(2)) fprintf(stderr, "\rstep %d of %d: loss %.3f ", step + 1, steps, (double)*loss);
    }
    if (isatty(2)) fprintf(stderr, "\n");
    return 0;
}

int main(int argc, char **argv) {
    size_t size = 0;
    int steps = argc == 3 ? atoi(argv[2]) : 0, made = 0;
    float counter = 0;
    api = cresset_model(CRESSET_ABI_MAJOR);
    if (steps < 1 || steps > 1000000) return fprintf(stderr, "usage: train TEXT STEPS\n"), 2;
    if (!api || api->minor < 3 || !api->train) return fprintf(stderr, "train: the library does not train\n"), 1;
    char *text = read_text(argv[1], &size);
    if (!size) return fprintf(stderr, "train: %s cannot be read, or is too short\n", argv[1]), 1;
    if (api->create(api, NULL, &model, message, sizeof message)) return fail("create");
    if (!access(checkpoint, R_OK) && api->load(model, checkpoint, message, sizeof message)) return fail("load");
    if (api->get_state(model, api->train->counter, &counter, sizeof counter, message, sizeof message))
        return fail("counter");
    signal(SIGINT, stop);
    float *losses = calloc((size_t)steps, sizeof *losses);
    if (!losses || train(text, size, (int)counter, steps, losses, &made)) return 1;
    if (api->save(model, checkpoint, CRESSET_SAVE_ALL, message, sizeof message) ||
        api->save(model, weights, CRESSET_SAVE_WEIGHTS, message, sizeof message))
        return fail("save");
    draw(losses, made);
    if (made) printf("loss %.4f after step %d\n", (double)losses[made - 1], (int)counter + made);
    int code = write_text();
    free(losses);
    free(text);
    if (!code) api->destroy(model);
    return code;
}
