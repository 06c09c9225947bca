/* compile.c: exported programs to files, to memory, or to a library that is loaded at once. */
#include "api/api.h"

#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

const char *cr_target_at(size_t i) {
    static const char *const names[] = { "multi", "native" };
    return i < CR_COUNT(names) ? names[i] : NULL;
}

const char *cr_isa_at(size_t i) {
    const cr_isa *const *at = cr_target_here()->isas;
    while (*at && i) at++, i--;
    return *at ? (*at)->name : NULL;
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* ---- progress ---- */

static cr_status tell(const cr_compile_options *o, cr_progress p) {
    p.struct_size = sizeof p;
    if (!p.what) p.what = "";
    return o->progress ? o->progress(o->user, &p) : CR_OK;
}

static cr_status after_pass(void *user, const cr_pass *pass, const cr_graph *g, double time) {
    return tell(user,
                (cr_progress){ .stage = CR_STAGE_PASS, .what = pass->name, .pass = pass, .graph = g, .seconds = time });
}

/* ---- from programs to a file ---- */

static cr_emit_options emit_options(const cr_compile_options *o) {
    return (
        cr_emit_options){ .weights = (cr_weights_place)o->weights, .cc = o->cc, .target = o->target, .name = o->name };
}

/* Programs that come from one another have one lock. */
static bool is_first(cr_program *const *programs, size_t i) {
    for (size_t k = 0; k < i; k++)
        if (cr_program_lock(programs[k]) == cr_program_lock(programs[i])) return false;
    return true;
}

/* The programs of the optimizer's methods stand for the first one. */
static cr_status lower_trained(cr_program *const *programs, size_t n, const cr_training *t, cr_lower_options *how,
                               cr_lowered **out) {
    size_t more = n - 1 + CR_TRAIN_METHODS;
    cr_program **all = cr_calloc(more, sizeof *all);
    const char **names = cr_calloc(more, sizeof *names);
    cr_status status = all && names ? CR_OK : CR_ENOMEM;
    for (size_t i = 0; i < more && !status; i++) {
        bool own = i < CR_TRAIN_METHODS;
        size_t from = i - CR_TRAIN_METHODS + 1;
        all[i] = own ? t->programs[i] : programs[from];
        names[i] = own ? cr_train_method_names[i] : how->names ? how->names[from] : programs[from]->name;
    }
    how->names = names;
    how->train = t;
    if (!status) status = cr_lower(all, more, how, out);
    cr_free(all);
    cr_free(names);
    return status;
}

static cr_status lower_training(cr_program *const *programs, size_t n, const char *optimizer, cr_lower_options *how,
                                cr_lowered **out) {
    cr_training *t = NULL;
    cr_env *env = cr_graph_env(programs[0]->graph);
    cr_env_trial trial = cr_env_begin_trial(env); /* what training depends on, the program itself does not */
    cr_status status = cr_training_create(programs[0], optimizer, &t);
    if (!status) status = lower_trained(programs, n, t, how, out);
    cr_training_release(t);
    cr_env_end_trial(env, trial);
    return status;
}

/* The graph's symbols are worked with while a program is lowered: nobody else may meanwhile. Who holds several programs
 * holds `lowering` first, so that two of them never wait for each other. */
static cr_status lower(cr_program *const *programs, size_t n, cr_compile_options *o, cr_lowered **out) {
    static pthread_mutex_t lowering = PTHREAD_MUTEX_INITIALIZER;
    cr_lower_options how = { .after = after_pass, .user = o, .names = o->methods };
    if (!n) return CR_FAIL(CR_EVALUE, "a library needs at least one program");
    CR_TRY(cr_build_lowering(o->target, &how));
    pthread_mutex_lock(&lowering);
    for (size_t i = 0; i < n; i++)
        if (is_first(programs, i)) pthread_mutex_lock(cr_program_lock(programs[i]));
    cr_status status = o->train ? lower_training(programs, n, o->train, &how, out) : cr_lower(programs, n, &how, out);
    for (size_t i = n; i-- > 0;)
        if (is_first(programs, i)) pthread_mutex_unlock(cr_program_lock(programs[i]));
    pthread_mutex_unlock(&lowering);
    return status;
}

static void describe(const cr_lowered *l, const char *path, double time, cr_compiled *out) {
    struct stat st;
    cr_compiled c = { .struct_size = out->struct_size,
                      .methods = l->model.nmethods,
                      .weight_bytes = l->model.weight_bytes,
                      .seconds = time };
    for (int i = 0; i < l->model.nmethods; i++) c.steps += l->model.methods[i]->nsteps;
    if (path && !stat(path, &st)) c.file_bytes = (uint64_t)st.st_size;
    memcpy(out, &c, CR_MIN(out->struct_size, sizeof c));
}

cr_status cr_compile(cr_program *const *programs, size_t n, const char *path, const cr_compile_options *options,
                     cr_compiled *out) {
    cr_compile_options o;
    cr_compiled check;
    cr_lowered *lowered = NULL;
    double start = seconds();
    CR_TRY(cr_options_read("cr_compile_options", options, &o, sizeof o));
    CR_TRY(cr_options_read("cr_compiled", out, &check, sizeof check));
    cr_emit_options how = emit_options(&o);
    cr_status status = lower(programs, n, &o, &lowered);
    if (!status && path) status = tell(&o, (cr_progress){ .stage = CR_STAGE_WRITE, .what = path });
    if (!status && path) status = cr_emit(lowered, path, &how);
    if (!status && out) describe(lowered, path, seconds() - start, out);
    cr_lowered_release(lowered);
    return status;
}

/* ---- to memory, by way of a folder that is gone afterwards ---- */

static cr_status emit_inside(const cr_lowered *l, const cr_compile_options *o, const char *suffix, cr_workshop *shop,
                             const char **path) {
    char name[32];
    cr_emit_options how = emit_options(o);
    how.weights = CR_WEIGHTS_INSIDE;
    snprintf(name, sizeof name, "model%.16s", suffix);
    if (cr_emit_kind_of(name) == CR_EMIT_UNKNOWN)
        return CR_FAIL(CR_EVALUE, "there is no kind of file '%s': use .so, .a or .c", suffix);
    CR_TRY(cr__workshop_file(shop, name, path));
    CR_TRY(cr__workshop_file(shop, "model.h", &(const char *){ NULL })); /* stands beside .a and .c */
    CR_TRY(tell(o, (cr_progress){ .stage = CR_STAGE_WRITE }));
    return cr_emit(l, *path, &how);
}

/* The file is made, and `use` is given its path. */
static cr_status compile_inside(cr_program *const *programs, size_t n, const char *suffix,
                                const cr_compile_options *options, cr_status (*use)(void *user, const char *path),
                                void *user) {
    cr_compile_options o;
    cr_lowered *lowered = NULL;
    cr_workshop shop;
    const char *path = NULL;
    CR_TRY(cr_options_read("cr_compile_options", options, &o, sizeof o));
    cr_status status = lower(programs, n, &o, &lowered);
    if (!status && !(status = cr__workshop_open(&shop))) {
        status = emit_inside(lowered, &o, suffix, &shop, &path);
        if (!status) status = use(user, path);
        cr__workshop_close(&shop);
    }
    cr_lowered_release(lowered);
    return status;
}

typedef struct bytes {
    char *data;
    size_t size;
} bytes;

static cr_status read_file(void *user, const char *path) {
    bytes *b = user;
    return cr_file_read(path, &b->data, &b->size);
}

cr_status cr_compile_memory(cr_program *const *programs, size_t n, const char *suffix,
                            const cr_compile_options *options, void **data, size_t *size) {
    bytes b = { 0 };
    CR_TRY(compile_inside(programs, n, suffix, options, read_file, &b));
    *data = b.data;
    *size = b.size;
    return CR_OK;
}

static cr_status open_library(void *user, const char *path) { return cr_library_open(path, user); }

cr_status cr_compile_load(cr_program *const *programs, size_t n, const cr_compile_options *options, cr_library **out) {
    return compile_inside(programs, n, ".so", options, open_library, out);
}
