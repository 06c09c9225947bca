/* Writing exported programs (features P1, P2): what is saved loads as the same program; full disks, given-up writing
 * and failing memory leave the old file and nothing else. */
#include "check.h"
#include "export/internal.h"
#include "program_text.h"
#include "zip_maker.h"

#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

static char folder[64], target[96];

static int folder_entries(void) {
    int n = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));) n += entry->d_name[0] != '.';
    closedir(dir);
    return n;
}

static maker archive_make(void) {
    char *text = program_json(), *program = as_json(text), *weights = as_json(weights_text),
         *constants = as_json(constants_text);
    maker_entry entries[] = {
        { "m/data/weights/weight_0", (const char *)weight_data, sizeof weight_data, 0 },
        { "m/data/weights/weight_1", (const char *)bias_data, sizeof bias_data, MAKER_DEFLATED },
        { "m/data/weights/weight_2", (const char *)buffer_data, sizeof buffer_data, 0 },
        { "m/data/weights/model_weights_config.json", weights, strlen(weights), 0 },
        { "m/data/constants/tensor_0", (const char *)constant_data, sizeof constant_data, 0 },
        { "m/data/constants/model_constants_config.json", constants, strlen(constants), 0 },
        { "m/models/model.json", program, strlen(program), 0 },
    };
    maker zip = maker_build(entries, CR_COUNT(entries), false, "");
    free(text), free(program), free(weights), free(constants);
    return zip;
}

static cr_status load_memory(const void *data, size_t size, cr_program **out) {
    cr_zip *zip = NULL;
    CR_TRY(cr_zip_open_memory(data, size, NULL, &zip));
    cr_status status = cr_program_load_zip(zip, NULL, CR_LOAD_CHECK, out);
    cr_zip_release(zip);
    return status;
}

/* The program, with example inputs as if it had been exported here. */
static cr_status load(cr_program **out) {
    static const float data[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    maker zip = archive_make();
    cr_status status = load_memory(zip.at, zip.n, out);
    if (!status) {
        cr_arg *example = cr_arena_calloc(&(*out)->arena, 3, sizeof *example);
        cr_tensor *t = NULL;
        status = example ? cr_tensor_from(CR_F32, 2, (int64_t[]){ 4, 2 }, data, &t) : CR_ENOMEM;
        if (!status) {
            example[0] = cr_arg_tensor(t);
            example[1] = cr_arg_float(2.0);
            (*out)->example = example;
            (*out)->nexample = 2;
        } else {
            cr_program_release(*out);
            *out = NULL;
        }
    }
    if (!status) { /* the bytes go away now: what is mapped must not be needed */
        cr_zip_release((*out)->archive);
        (*out)->archive = NULL;
    }
    /* deflated or badly aligned members are copies, others are windows of the zip, which they retain; the maker's bytes
     * must stay */
    static void *kept;
    free(kept);
    kept = zip.at;
    return status;
}

static void check_equal(cr_program *a, cr_program *b) {
    cr_str where;
    cr_str_init(&where);
    CHECK(cr_graph_equal(a->graph, b->graph, &where));
    CHECK_STR(cr_str_get(&where), "");
    cr_str_dispose(&where);
    CHECK_EQ(a->nstate, b->nstate);
    for (size_t i = 0; i < a->nstate && i < b->nstate; i++) {
        const cr_storage *x = a->state[i].tensor->storage, *y = b->state[i].tensor->storage;
        CHECK_STR(a->state[i].name, b->state[i].name);
        CHECK_EQ(a->state[i].is_parameter, b->state[i].is_parameter);
        CHECK(x->bytes == y->bytes && !memcmp(x->data, y->data, (size_t)x->bytes));
    }
    CHECK_EQ(a->nconstants, b->nconstants);
    CHECK_EQ(a->ninputs, b->ninputs);
    CHECK_EQ(a->noutputs, b->noutputs);
    CHECK_EQ(a->nranges, b->nranges);
    CHECK(cr_tree_equal(a->in_spec, b->in_spec) && cr_tree_equal(a->out_spec, b->out_spec));
    CHECK_STR(a->dialect, b->dialect);
}

static void round_trip(void) {
    cr_program *p = NULL, *again = NULL;
    CHECK_OK(load(&p));
    if (!p) return;
    CHECK_OK(cr_program_save(p, target, NULL));
    CHECK_OK(cr_program_load(target, NULL, CR_LOAD_CHECK, &again));
    if (again) {
        check_equal(p, again);
        CHECK_EQ(again->nexample, 2);
        CHECK(again->nexample == 2 && again->example[0].kind == CR_ARG_TENSOR &&
              again->example[0].u.t->meta.size[0] == 4 && again->example[1].u.f == 2.0);
        /* mapped weights are copied from file to file, unless they were written to */
        ((float *)again->state[0].tensor->storage->data)[0] = 42;
        cr_program *third = NULL;
        CHECK_OK(cr_program_save(again, target, NULL));
        CHECK_OK(cr_program_load(target, NULL, CR_LOAD_CHECK, &third));
        if (third) {
            check_equal(again, third);
            CHECK(((float *)third->state[0].tensor->storage->data)[0] == 42);
        }
        cr_program_release(third);
    }
    cr_program_release(again);
    cr_program_release(p);
    CHECK_EQ(folder_entries(), 1);
    unlink(target);
}

/* ---- options ---- */

static cr_status gather(void *user, const void *data, size_t size) {
    cr_str_addn(user, data, size);
    return cr_str_status(user);
}

static void options(void) {
    cr_program *p = NULL, *again = NULL;
    cr_str bytes;
    cr_str_init(&bytes);
    struct cr_extra_file extra[] = { { "a.txt", "text", 4 }, { "b/empty", "", 0 } }, bad[] = { { "../a", "", 0 } };
    struct cr_opset opset[] = { { "aten", 11 }, { "mine", 2 } };
    cr_save_options o = {
        .struct_size = sizeof o, .name = "other", .extra = extra, .nextra = 2, .opset = opset, .nopset = 2
    };
    CHECK_OK(load(&p));
    if (!p) return;
    CHECK_OK(cr_program_save_to(p, (cr_sink){ gather, &bytes }, &o));
    CHECK_OK(load_memory(bytes.at, bytes.n, &again));
    if (again) {
        CHECK_STR(again->name, "other");
        CHECK_EQ(again->opset, 11);
        char *text = NULL;
        const cr_zip_member *m = cr_pt2_find(again->archive, "extra/a.txt");
        CHECK(m != NULL && cr_pt2_find(again->archive, "extra/b/empty"));
        if (m) CHECK_OK(cr_zip_read(again->archive, m, 100, &text));
        CHECK_STR(text ? text : "", "text");
        cr_free(text);
        check_equal(p, again);
    }
    o = (cr_save_options){ .struct_size = sizeof o, .extra = bad, .nextra = 1 };
    CHECK_ERROR(cr_program_save(p, target, &o), CR_EVALUE, "../a");
    CHECK_EQ(folder_entries(), 0);
    cr_program_release(again);
    cr_program_release(p);
    cr_str_dispose(&bytes);
}

/* ---- what goes wrong ---- */

static void full_disks(void) {
    cr_program *p = NULL, *mapped = NULL;
    CHECK_OK(load(&p));
    if (!p) return;
    CHECK_OK(cr_program_save(p, target, NULL));
    CHECK_OK(cr_program_load(target, NULL, 0, &mapped)); /* the second round copies between files */
    for (int round = 0; round < 2 && mapped; round++) {
        CHECK_OK(cr_file_write_atomic(target, "old", 3));
        int64_t before = cr_write_count(), n = 1;
        for (;; n++) {
            cr_write_fail_at(n);
            cr_status status = cr_program_save(round ? mapped : p, target, NULL);
            cr_write_fail_at(0);
            if (!status) break;
            CHECK_EQ(status, CR_EIO);
            CHECK_CONTAINS(cr_error_message(), "No space left");
            char *text = NULL;
            CHECK_OK(cr_file_read(target, &text, NULL));
            CHECK_STR(text, "old");
            cr_free(text);
            CHECK_EQ(folder_entries(), 1);
        }
        CHECK(n > 1 && cr_write_count() > before);
    }
    CHECK_ERROR(cr_program_save(p, folder, NULL), CR_EIO, "Is a directory");
    CHECK_ERROR(cr_program_save(p, "/no/such/folder/m.pt2", NULL), CR_EIO, "cannot write '/no/such/folder/m.pt2'");
    cr_program_release(mapped);
    cr_program_release(p);
    unlink(target);
}

typedef struct limited { size_t left; } limited;

static cr_status take(void *user, const void *data, size_t size) {
    limited *l = user;
    (void)data;
    if (size > l->left) return CR_FAIL(CR_EIO, "the pipe is closed");
    l->left -= size;
    return CR_OK;
}

static cr_status give_up(void *user) {
    return --*(int *)user ? CR_OK : CR_FAIL(CR_EVALUE, "that is enough");
}

static void giving_up(void) {
    enum { LARGE = 100 << 20 };
    cr_program *p = NULL;
    CHECK_OK(load(&p));
    if (!p) return;
    for (size_t left = 0; left < 4000; left += 400) {
        limited l = { left };
        CHECK_ERROR(cr_program_save_to(p, (cr_sink){ take, &l }, NULL), CR_EIO, "the pipe is closed");
    }
    /* A large weight: looked at every now and then. */
    cr_storage *large = NULL;
    CHECK_OK(cr_storage_create(LARGE, &large));
    if (large) {
        cr_tensor *t = p->state[0].tensor;
        cr_storage *small = t->storage;
        memset(large->data, 7, LARGE);
        t->storage = large;
        for (int steps = 1; steps < 4; steps++) {
            int left = steps;
            cr_save_options o = { .struct_size = sizeof o, .step = give_up, .user = &left };
            CHECK_ERROR(cr_program_save(p, target, &o), CR_EVALUE, "that is enough");
            CHECK_EQ(left, 0);
            CHECK_EQ(folder_entries(), 0);
        }
        t->storage = small;
    }
    cr_storage_release(large);
    cr_program_release(p);
}

static void refusals(void) {
    cr_program *p = NULL;
    CHECK_OK(load(&p));
    if (!p) return;
    p->state[1].tensor->meta.flags |= CR_META_CONJ;
    CHECK_ERROR(cr_program_save(p, target, NULL), CR_EUNSUPPORTED, "tensor 'b': it is a conjugated");
    p->state[1].tensor->meta.flags = 0;
    p->state[1].tensor->storage->fake = true;
    CHECK_ERROR(cr_program_save(p, target, NULL), CR_EVALUE, "tensor 'b': it has no data");
    p->state[1].tensor->storage->fake = false;
    CHECK_EQ(folder_entries(), 0);
    cr_program_release(p);
}

/* ---- memory ---- */

static cr_status save_once(void *p) { return cr_program_save(p, target, NULL); }

static cr_status save_to_text(void *p) {
    cr_str bytes;
    cr_str_init(&bytes);
    cr_status status = cr_program_save_to(p, (cr_sink){ gather, &bytes }, NULL);
    cr_str_dispose(&bytes);
    return status;
}

static void out_of_memory(void) {
    cr_program *p = NULL;
    CHECK_OK(load(&p));
    if (!p) return;
    CHECK_OK(save_once(p)); /* what is made once and kept is made now */
    CHECK_OOM_SWEEP(save_once, p);
    CHECK_OOM_SWEEP(save_to_text, p);
    CHECK_EQ(folder_entries(), 1);
    unlink(target);
    cr_program_release(p);
}

int main(void) {
    strcpy(folder, "/tmp/cresset-save-XXXXXX");
    if (!mkdtemp(folder)) return 1;
    snprintf(target, sizeof target, "%s/m.pt2", folder);
    RUN(round_trip);
    RUN(options);
    RUN(full_disks);
    RUN(giving_up);
    RUN(refusals);
    RUN(out_of_memory);
    CHECK_EQ(rmdir(folder), 0);
    return check_summary();
}
