/* runtime.c: the runtime compiled from its sources, for processors that the installed archive is not for.
 *
 * Only the files that a model needs (sources.h), each kept in the disk cache: the second model for that target finds
 * most of them there. */
#include "emit/cache.h"
#include "emit/sources.h"

#include <stdio.h>

static const char version[] = "runtime 2";
static const char *const common[] = {
    "-std=gnu11",        "-O2",      "-fPIC", "-fvisibility=hidden", "-ffunction-sections", "-fdata-sections",
    "-ffp-contract=off", "-DNDEBUG", "-w"
};
enum { MOST_WORDS = 40 };

/* One file on its way to an object. */
typedef struct job { char *path; const char *object, *argv[MOST_WORDS]; cr_key key; bool cached; } job;

static cr_status prepare(const cr_toolchain *t, const char *file, cr_workshop *shop, job *j) {
    const char *flags[CR_SOURCE_FLAGS];
    const char *slash = strrchr(t->cc, '/');
    size_t n = 0, nflags = cr__source_flags(file, strstr(slash ? slash : t->cc, "gcc"), flags);
    char name[128];
    cr_str path;
    cr_str_init(&path);
    cr_str_addf(&path, "%s/runtime/%s", t->include, file);
    cr_status status = cr_str_take(&path, &j->path);
    cr_str_dispose(&path);
    CR_TRY(status);
    snprintf(name, sizeof name, "%.100s.o", file);
    CR_TRY(cr__workshop_file(shop, name, &j->object));
    cr_key_init(&j->key);
    cr_key_text(&j->key, version);
    cr_key_file(&j->key, t->cc);
    cr_key_file(&j->key, t->archive); /* made anew whenever a source or header has changed */
    cr_key_text(&j->key, file);
    j->argv[n++] = t->cc;
    for (size_t i = 0; i < CR_COUNT(common); i++) j->argv[n++] = common[i];
    for (size_t i = 0; i < nflags; i++) j->argv[n++] = flags[i];
    for (size_t i = 1; i < n; i++) cr_key_text(&j->key, j->argv[i]);
    cr_key_end(&j->key);
    const char *const rest[] = { "-I", t->include, "-c", j->path, "-o", j->object, NULL };
    memcpy(j->argv + n, rest, sizeof rest);
    return CR_OK;
}

static cr_status from_cache(job *j) {
    uint8_t *bytes = NULL;
    size_t size = 0;
    j->cached = cr_cache_get(&j->key, &bytes, &size);
    cr_status status = j->cached ? cr_file_write_atomic(j->object, bytes, size) : CR_OK;
    cr_free(bytes);
    return status;
}

static cr_status to_cache(const job *j) {
    char *bytes = NULL;
    size_t size = 0;
    CR_TRY(cr_file_read(j->object, &bytes, &size));
    cr_cache_put(&j->key, bytes, size);
    cr_free(bytes);
    return CR_OK;
}

static cr_status run_jobs(job *jobs, size_t n) {
    const char *const **argvs = cr_calloc(n + 1, sizeof *argvs);
    size_t count = 0;
    if (!argvs) return CR_ENOMEM;
    for (size_t i = 0; i < n; i++)
        if (!jobs[i].cached) argvs[count++] = jobs[i].argv;
    cr_status status = cr_toolchain_run_all(argvs, count);
    cr_free(argvs);
    for (size_t i = 0; i < n && !status; i++)
        if (!jobs[i].cached) status = to_cache(&jobs[i]);
    return status;
}

cr_status cr__build_runtime(const cr_toolchain *t, const cr_build *build, const char *text, cr_workshop *shop,
                            const char ***objects, size_t *n) {
    cr_sources sources;
    CR_TRY(cr__sources_find(t, text, build->target, &sources));
    job *jobs = cr_calloc(sources.files.n + 1, sizeof *jobs);
    cr_status status = jobs ? CR_OK : CR_ENOMEM;
    for (size_t i = 0; i < sources.files.n && !status; i++) {
        status = prepare(t, sources.files.at[i], shop, &jobs[i]);
        if (!status) status = from_cache(&jobs[i]);
    }
    if (!status) status = run_jobs(jobs, sources.files.n);
    *objects = status ? NULL : cr_calloc(sources.files.n + 1, sizeof **objects);
    if (!status && !*objects) status = CR_ENOMEM;
    *n = status ? 0 : sources.files.n;
    for (size_t i = 0; i < *n; i++) (*objects)[i] = jobs[i].object;
    for (size_t i = 0; jobs && i < sources.files.n; i++) cr_free(jobs[i].path);
    cr_free(jobs);
    cr__sources_dispose(&sources);
    return status;
}
