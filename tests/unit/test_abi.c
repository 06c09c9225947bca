/* Callers of abi.h that get it wrong: every argument of every function, one by one and by chance. P4.
 *
 * CRESSET_CALLS: how many calls by chance, CRESSET_SEED: from which seed; the long sweep says 200,000. Under ASan each
 * of the caller's blocks is exactly as large as it says, so a read or write outside of one is seen. */
#include "check.h"
#include "lower/lower.h"
#include "program_archive.h"

#include <stdlib.h>

enum { INPUTS = 2, OUTPUTS = 4 };
static cr_program *program;
static cr_lowered *lowered;
static uint8_t *weights;
static const cresset_api *api;

static bool load_model(void) {
    archive a = archive_make(NULL, NULL);
    cr_status status = load(&a, 0, &program);
    if (!status) status = cr_lower(&program, 1, NULL, &lowered);
    if (!status) status = cr_lowered_weights(lowered, &weights);
    archive_free(&a);
    if (status) return false;
    lowered->model.weights = weights;
    lowered->library.model = &lowered->model;
    api = &lowered->library.api;
    return true;
}

/* A right call: x of [4, 2] and the number that the model was exported for. */
typedef struct call { cresset_value in[INPUTS], out[OUTPUTS]; int64_t size[2]; float x[8]; char message[256]; } call;

static void right_call(call *c) {
    *c = (call){ .size = { 4, 2 }, .x = { 1, 2, 3, 4, 5, 6, 7, 8 } };
    c->in[0] = (cresset_value){ .struct_size = sizeof *c->in,
                                .kind = CRESSET_TENSOR,
                                .dtype = CRESSET_F32,
                                .rank = 2,
                                .size = c->size,
                                .data = c->x };
    c->in[1] = (cresset_value){ .struct_size = sizeof *c->in, .kind = CRESSET_FLOAT, .number = 2 };
    for (int i = 0; i < OUTPUTS; i++) c->out[i].struct_size = sizeof *c->out;
}

static int go(cresset_instance *m, call *c) {
    return api->run(m, 0, c->in, INPUTS, c->out, OUTPUTS, c->message, sizeof c->message);
}

static void give_back(cresset_instance *m, call *c) {
    for (int i = 0; i < OUTPUTS; i++) api->release(m, &c->out[i]);
}

static cresset_instance *instance(void) {
    cresset_options o = { .struct_size = sizeof o, .threads = 1 };
    cresset_instance *m = NULL;
    CHECK_EQ(api->create(api, &o, &m, NULL, 0), CRESSET_OK);
    return m;
}

/* How often the model has run: each run adds c_k to its buffer. */
static int runs(cresset_instance *m) {
    float n[3] = { -1, -1, -1 };
    CHECK_EQ(api->get_state(m, "n", n, sizeof n, NULL, 0), CRESSET_OK);
    return (int)(n[0] / constant_data[0]);
}

/* The call fails with such a message, and nothing has changed. */
static void refused(cresset_instance *m, call *c, const char *part) {
    cresset_value before[OUTPUTS];
    memcpy(before, c->out, sizeof before);
    int ran = runs(m);
    CHECK_EQ(go(m, c), CRESSET_BAD_INPUT);
    if (!strstr(c->message, part)) CHECK_FAILED("'%s' is not in '%s'", part, c->message);
    CHECK_EQ(memcmp(before, c->out, sizeof before), 0);
    CHECK_EQ(runs(m), ran);
}

static void too_little_room(void) {
    cresset_instance *m = instance();
    call c;
    float room[12], canary = 12345;
    right_call(&c);
    for (int i = 0; i < 12; i++) room[i] = canary;
    c.out[0].data = room;
    for (size_t capacity = 0; capacity < sizeof room; capacity += 47) {
        c.out[0].capacity = capacity;
        refused(m, &c, "output 'add' needs 48 bytes, but there is room for ");
    }
    for (int i = 0; i < 12; i++) CHECK_FLOAT(room[i], canary);
    c.out[0].capacity = sizeof room;
    CHECK_EQ(go(m, &c), CRESSET_OK);
    CHECK_EQ(runs(m), 1);
    CHECK_FLOAT(room[0], (1 * 1 + 2 * 2 + 10) * 2 + 100);
    CHECK(c.out[0].data == room);
    give_back(m, &c);
    /* one that was not given back is not written to */
    right_call(&c);
    CHECK_EQ(go(m, &c), CRESSET_OK);
    refused(m, &c, "but there is room for 0");
    give_back(m, &c);
    give_back(m, &c);
    /* an address between two numbers */
    right_call(&c);
    char bytes[64];
    c.out[0].data = bytes + (4 - (uintptr_t)bytes % 4) % 4 + 1;
    c.out[0].capacity = 48;
    refused(m, &c, "output 'add': data must be aligned to 4 bytes, as float32 is");
    api->destroy(m);
}

static void inputs_that_reach_too_far(void) {
    cresset_instance *m = instance();
    call c;
    static const struct { int64_t size[2], stride[2]; const char *part; } cases[] = {
        { { 4, 2 }, { INT64_MAX, 1 }, "reach beyond the end of the address space" },
        { { 4, 2 }, { INT64_MAX / 2, INT64_MAX / 2 }, "reach beyond" },
        { { INT64_MAX, 2 }, { 0, 1 }, "reach beyond" },
        { { INT64_MAX / 4, 2 }, { 1, 0 }, "reach beyond" },
        { { 0, INT64_MAX }, { 1, INT64_MAX }, "reach beyond" },
        { { 4, 2 }, { (int64_t)1 << 60, 1 }, "reach beyond" },
        { { -4, 2 }, { 2, 1 }, "dimension 0 has a negative size or stride" },
        { { 4, 2 }, { 2, -1 }, "dimension 1 has a negative size or stride" },
        { { 4, 2 }, { INT64_MIN, INT64_MIN }, "dimension 0 has a negative" },
        { { 65, 2 }, { 2, 1 }, "between 0 and 64" },
        { { 4, 3 }, { 2, 1 }, "dimension 1 must be 2, not 3" },
    };
    for (size_t i = 0; i < CR_COUNT(cases); i++) {
        right_call(&c);
        c.in[0].size = cases[i].size;
        c.in[0].stride = cases[i].stride;
        refused(m, &c, cases[i].part);
    }
    right_call(&c);
    c.size[0] = c.size[1] = (int64_t)1 << 32;
    refused(m, &c, "reach beyond");
    right_call(&c);
    c.in[0].data = NULL;
    refused(m, &c, "input 'x': data is NULL");
    right_call(&c);
    c.in[0].data = (char *)c.x + 2;
    refused(m, &c, "data must be aligned to 4 bytes");
    right_call(&c);
    c.in[0].data = (void *)(UINTPTR_MAX - 7);
    refused(m, &c, "reach beyond");
    right_call(&c);
    c.in[0].size = NULL;
    refused(m, &c, "size is NULL");
    for (int i = 0; i < INPUTS; i++) {
        right_call(&c);
        c.in[i].struct_size += 8;
        refused(m, &c, "struct_size is 88, not sizeof(cresset_value), which is 80");
    }
    for (int i = 0; i < OUTPUTS; i++) {
        right_call(&c);
        c.out[i].struct_size = 0;
        refused(m, &c, "struct_size is 0, not");
    }
    api->destroy(m);
}

static void other_functions(void) {
    cresset_instance *m = NULL, *other = instance();
    char message[256] = "";
    float n[3] = { 1, 2, 3 };
    cresset_options o = { .struct_size = offsetof(cresset_options, ops) - 1, .threads = 1 };
    CHECK_EQ(api->create(NULL, NULL, &m, message, sizeof message), CRESSET_BAD_ARGUMENT);
    CHECK_EQ(api->create(api, NULL, NULL, message, sizeof message), CRESSET_BAD_ARGUMENT);
    m = other;
    CHECK_EQ(api->create(api, &o, &m, message, sizeof message), CRESSET_BAD_ARGUMENT);
    CHECK(m == NULL && strstr(message, "options.struct_size is 47, not"));
    o.struct_size++, o.threads = -1; /* as long as it was in 1.1 */
    CHECK_EQ(api->create(api, &o, &m, message, sizeof message), CRESSET_BAD_ARGUMENT);
    CHECK_STR(message, "options.threads must be between 0 (as many as there are) and 4096, not -1");
    CHECK_EQ(api->create(api, &o, &m, NULL, 0), CRESSET_BAD_ARGUMENT);
    m = instance();
    CHECK_EQ(api->get_state(NULL, "n", n, sizeof n, message, sizeof message), CRESSET_BAD_ARGUMENT);
    CHECK_STR(message, "instance is NULL");
    CHECK_EQ(api->set_state(m, NULL, n, sizeof n, message, sizeof message), CRESSET_BAD_ARGUMENT);
    CHECK_STR(message, "name is NULL");
    CHECK_EQ(api->get_state(m, "n", n, 11, message, sizeof message), CRESSET_BAD_ARGUMENT);
    CHECK_EQ(api->set_state(m, "n", n, 13, message, sizeof message), CRESSET_BAD_ARGUMENT);
    CHECK_EQ(api->get_state(m, "n", NULL, 12, message, sizeof message), CRESSET_BAD_ARGUMENT);
    call c;
    right_call(&c);
    CHECK_EQ(api->run(m, -1, c.in, INPUTS, c.out, OUTPUTS, message, sizeof message), CRESSET_BAD_ARGUMENT);
    CHECK_EQ(api->run(NULL, 0, c.in, INPUTS, c.out, OUTPUTS, message, sizeof message), CRESSET_BAD_ARGUMENT);
    CHECK_EQ(api->run(m, 0, NULL, INPUTS, c.out, OUTPUTS, message, sizeof message), CRESSET_BAD_INPUT);
    CHECK_EQ(api->run(m, 0, c.in, INPUTS, NULL, OUTPUTS, message, sizeof message), CRESSET_BAD_INPUT);
    CHECK_EQ(api->run(m, 0, c.in, -1, c.out, OUTPUTS, message, sizeof message), CRESSET_BAD_INPUT);
    CHECK_EQ(api->run(m, 0, c.in, INPUTS, c.out, INT32_MAX, message, 1), CRESSET_BAD_INPUT);
    CHECK_EQ(runs(m), 0);
    /* a result belongs to the instance that made it */
    CHECK_EQ(go(m, &c), CRESSET_OK);
    give_back(other, &c);
    CHECK(c.out[0].data != NULL);
    c.out[0].struct_size = 8; /* of no version: nothing of it is looked at */
    api->release(m, &c.out[0]);
    c.out[0].struct_size = sizeof *c.out;
    give_back(m, &c);
    CHECK(c.out[0].data == NULL);
    api->release(NULL, &c.out[0]);
    api->release(m, NULL);
    api->seed(NULL, 1);
    api->profile(NULL, NULL, NULL);
    api->destroy(NULL);
    api->destroy(m);
    api->destroy(other);
}

/* ---- by chance ---- */

static uint64_t state;

static uint64_t chance(uint64_t n) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state % n;
}

static int64_t odd_number(void) {
    static const int64_t odd[] = { 0,
                                   1,
                                   2,
                                   3,
                                   4,
                                   7,
                                   8,
                                   63,
                                   64,
                                   65,
                                   96,
                                   1000,
                                   -1,
                                   -2,
                                   -8,
                                   INT32_MAX,
                                   INT32_MIN,
                                   INT64_MAX,
                                   INT64_MIN,
                                   INT64_MAX / 2,
                                   (int64_t)1 << 32,
                                   (int64_t)1 << 61 };
    return odd[chance(CR_COUNT(odd))];
}

/* Blocks of a call that are exactly as large as the call says. */
typedef struct blocks { void *at[16]; int n; } blocks;

static void *block(blocks *b, size_t size) { return b->at[b->n++] = malloc(size ? size : 1); }

static void drop(blocks *b) {
    while (b->n) free(b->at[--b->n]);
}

static void bend_sizes(cresset_value *v, blocks *b) {
    int64_t *size = block(b, 2 * sizeof *size), *stride = block(b, 2 * sizeof *stride);
    memcpy(size, v->size, 2 * sizeof *size);
    stride[0] = 2, stride[1] = 1;
    (chance(2) ? size : stride)[chance(2)] = odd_number();
    v->size = size;
    v->stride = chance(2) ? stride : NULL;
    int64_t bytes;
    bool valid = size[0] >= 0 && size[1] >= 0 && (!v->stride || (stride[0] >= 0 && stride[1] >= 0));
    valid = valid && rt_bytes_reached(CRESSET_F32, 2, size, v->stride, &bytes);
    if (!valid) return;
    v->data = bytes <= 1 << 20 ? block(b, (size_t)bytes) : NULL; /* of memory that is not there nobody can tell */
    if (v->data) memset(v->data, 0, (size_t)bytes);
}

static void bend_value(cresset_value *v, blocks *b, bool is_input) {
    switch (chance(is_input ? 9 : 4)) {
    case 0: v->struct_size = (size_t)odd_number(); break;
    case 1: /* room of some size, perhaps between two elements */
        v->capacity = chance(64);
        v->data = (char *)block(b, v->capacity + 3) + (chance(4) ? 0 : chance(4));
        if (is_input) v->data = NULL;
        break;
    case 2: v->kind = is_input ? (int32_t)odd_number() : v->kind; break;
    case 3: v->integer = odd_number(), v->number = (double)odd_number(); break;
    case 4: v->dtype = (int32_t)odd_number(); break;
    case 5: v->rank = (int32_t)odd_number(); break;
    case 6: v->size = NULL; break;
    case 7: v->data = chance(2) ? NULL : (char *)v->data + 1; break;
    default:
        if (v->kind == CRESSET_TENSOR && v->rank == 2 && v->size) bend_sizes(v, b);
    }
}

static void bent_run(cresset_instance *m) {
    blocks b = { .n = 0 };
    call c;
    right_call(&c);
    for (uint64_t i = chance(3); i < 3; i++) {
        if (chance(2)) bend_value(&c.in[chance(INPUTS)], &b, true);
        else bend_value(&c.out[chance(OUTPUTS)], &b, false);
    }
    cresset_value before[OUTPUTS];
    memcpy(before, c.out, sizeof before);
    int32_t method = chance(8) ? 0 : (int32_t)odd_number(), ninputs = chance(8) ? INPUTS : (int32_t)odd_number(),
            noutputs = chance(8) ? OUTPUTS : (int32_t)odd_number();
    size_t room = chance(4) ? sizeof c.message : chance(4);
    int ran = runs(m);
    int code = api->run(m, method, chance(16) ? c.in : NULL, ninputs, chance(16) ? c.out : NULL, noutputs,
                        chance(8) ? c.message : NULL, room);
    CHECK_EQ(runs(m), ran + !code);
    if (code) CHECK_EQ(memcmp(before, c.out, sizeof before), 0);
    if (chance(4)) give_back(m, &c); /* what a failed run left is nothing to give back */
    for (int i = 0; i < OUTPUTS; i++) c.out[i].struct_size = sizeof *c.out;
    if (!code) give_back(m, &c);
    drop(&b);
}

static void bent_state(cresset_instance *m) {
    static const char *const names[] = { "n", "k", "w", "b", "", "nope", NULL };
    const char *name = names[chance(CR_COUNT(names))];
    size_t size = chance(40);
    char *data = malloc(size + 1), message[8];
    memset(data, 0, size + 1);
    int ran = runs(m);
    if (chance(2))
        (void)api->get_state(chance(16) ? m : NULL, name, chance(8) ? data : NULL, size, chance(2) ? message : NULL,
                             chance(8));
    else if (!api->set_state(chance(16) ? m : NULL, name, chance(8) ? data : NULL, size, chance(2) ? message : NULL,
                             chance(8)))
        ran = 0;
    CHECK_EQ(runs(m), ran);
    free(data);
}

static void bent_create(void) {
    cresset_options o = { .struct_size = chance(2) ? sizeof o : (size_t)odd_number(),
                          .threads = chance(2) ? 1 : (int32_t)odd_number(),
                          .weights = chance(2) ? "/nonexistent" : NULL };
    if (o.struct_size >= sizeof o && o.threads > 2) o.threads = 2;
    if (!o.threads) o.threads = 1;
    cresset_instance *m = NULL;
    int code = api->create(chance(8) ? api : NULL, chance(8) ? &o : NULL, chance(8) ? &m : NULL, NULL, chance(100));
    CHECK_EQ(!code && m != NULL, m != NULL);
    api->destroy(m);
}

static long number_from(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text ? strtol(text, NULL, 10) : otherwise;
}

static void calls_by_chance(void) {
    cresset_instance *m = instance();
    long calls = number_from("CRESSET_CALLS", 3000);
    state = 0x9E3779B97F4A7C15u ^ (uint64_t)number_from("CRESSET_SEED", 1) * 0xD1342543DE82EF95u;
    for (long i = 0; i < calls; i++) {
        uint64_t what = chance(20);
        if (what == 0) bent_create();
        else if (what < 5) bent_state(m);
        else bent_run(m);
    }
    api->destroy(m);
    printf("%ld calls\n", calls);
}

int main(void) {
    CHECK(load_model());
    if (!api) return check_summary();
    RUN(too_little_room);
    RUN(inputs_that_reach_too_far);
    RUN(other_functions);
    RUN(calls_by_chance);
    cr_free(weights);
    cr_lowered_release(lowered);
    cr_program_release(program);
    return check_summary();
}
