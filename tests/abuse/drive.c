/* drive.c: the tool's commands on one archive after the other, for the part `archives` of the abuse sweep.
 *
 * Starting a sanitized process for every archive and command would cost more than all the work, so this one reads lines
 *
 *     PATH FOLDER WHOLE
 *
 * from standard input, and for each forks a child that goes through info, doctor, run, convert and compile with the
 * archive at PATH; what they write goes to FOLDER. Native code is made and run as tables here, under the sanitizers;
 * with WHOLE = 1 also by the compiler, as a library. The answer is a line: "ok", or the step that failed and how. What
 * the child wrote to standard error is in FOLDER/stderr. */
#define _GNU_SOURCE
#include "lower/lower.h"
#include "emit/emit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#undef main
int cresset_main(int argc, char **argv); /* src/cli/main.c */

enum { SECONDS = 10, WAITING = 120, PATHS = 4096, MOST_ELEMENTS = 1 << 16 };
static const char **progress; /* shared with the child: the step it is at */

/* Time of the processor, because the machine may be busy; and a clock, because a step may wait for nothing at all. */
static void begin(const char *step) {
    struct itimerval limit = { .it_value.tv_sec = SECONDS };
    *progress = step;
    setitimer(ITIMER_PROF, &limit, NULL);
    alarm(WAITING);
}

static void tool(const char *step, const char *const *words) {
    char *argv[12] = { (char *)(uintptr_t)"cresset" };
    int n = 1;
    for (; words[n - 1] && n < 11; n++) argv[n] = (char *)(uintptr_t)words[n - 1];
    begin(step);
    (void)cresset_main(n, argv);
}

/* ---- native code as tables ---- */

static void fill(cresset_value *v, const cresset_value_info *info, int64_t *size) {
    const char *fixed = info->constant;
    int64_t n = 1;
    *v = (cresset_value){ .struct_size = sizeof *v,
                          .kind = info->kind,
                          .dtype = info->dtype,
                          .rank = info->rank,
                          .size = size,
                          .integer = fixed ? strtoll(fixed, NULL, 10) : 2,
                          .number = fixed ? strtod(fixed, NULL) : 0.5 };
    if (info->kind == CRESSET_BOOLEAN) v->integer = fixed && fixed[0] == 't';
    if (info->kind == CRESSET_STRING) v->data = (void *)(uintptr_t)(fixed ? fixed : "x");
    if (info->kind != CRESSET_TENSOR) return;
    for (int d = 0; d < info->rank; d++) {
        size[d] = info->dims[d].min < 2 && info->dims[d].max >= 2 ? 2 : info->dims[d].min;
        if (size[d] < 0 || size[d] > MOST_ELEMENTS || (n *= size[d] ? size[d] : 1) > MOST_ELEMENTS) size[d] = 0, n = 1;
    }
    uint8_t *bytes = calloc((size_t)n, (size_t)rt_itemsize(info->dtype));
    for (int64_t i = 0; bytes && i < n * rt_itemsize(info->dtype); i += rt_itemsize(info->dtype))
        bytes[i] = (uint8_t)(i & 1);
    v->data = bytes;
}

static void run_tables(const cresset_api *api) {
    cresset_options options = { .struct_size = sizeof options, .threads = 1 };
    cresset_instance *m = NULL;
    char message[256];
    if (api->create(api, &options, &m, message, sizeof message)) return;
    for (int32_t k = 0; k < api->nmethods; k++) {
        const cresset_method_info *info = &api->methods[k];
        cresset_value *in = calloc((size_t)info->ninputs + 1, sizeof *in),
                      *out = calloc((size_t)info->noutputs + 1, sizeof *out);
        int64_t(*size)[RT_MAX_RANK] = calloc((size_t)info->ninputs + 1, sizeof *size);
        for (int32_t i = 0; i < info->ninputs; i++) fill(&in[i], &info->inputs[i], size[i]);
        for (int32_t i = 0; i < info->noutputs; i++) out[i].struct_size = sizeof *out;
        int code = api->run(m, k, in, info->ninputs, out, info->noutputs, message, sizeof message);
        fprintf(stderr, "tables: %d %s\n", code, code ? message : "");
        for (int32_t i = 0; i < info->noutputs; i++) api->release(m, &out[i]);
        for (int32_t i = 0; i < info->ninputs; i++)
            if (in[i].kind == CRESSET_TENSOR) free(in[i].data);
        free(in), free(out), free(size);
    }
    api->destroy(m);
}

static void lower(const char *path) {
    cr_program *program = NULL;
    cr_lowered *lowered = NULL;
    uint8_t *weights = NULL;
    cr_str text, kernels;
    cr_emit_options options = { .weights = CR_WEIGHTS_INSIDE };
    cr_build build;
    cr_str_init(&text);
    cr_str_init(&kernels);
    begin("lower");
    cr_status status = cr_program_load(path, NULL, 0, &program);
    if (!status) status = cr_lower(&program, 1, NULL, &lowered);
    if (!status) {
        begin("emit C");
        if (!cr_build_parse(NULL, &build)) (void)!cr_emit_c(lowered, &options, &build, &text, &kernels);
        status = cr_lowered_weights(lowered, &weights);
    }
    if (!status) {
        begin("run tables");
        lowered->model.weights = weights;
        lowered->library.model = &lowered->model;
        run_tables(&lowered->library.api);
    }
    cr_free(weights);
    cr_str_dispose(&text);
    cr_str_dispose(&kernels);
    cr_lowered_release(lowered);
    cr_program_release(program);
}

/* ---- one archive ---- */

static void all_steps(const char *path, const char *folder, bool whole) {
    char converted[PATHS + 32], library[PATHS + 32], errors[PATHS + 32];
    snprintf(converted, sizeof converted, "%s/converted.pt2", folder);
    snprintf(library, sizeof library, "%s/library.so", folder);
    snprintf(errors, sizeof errors, "%s/stderr", folder);
    if (!freopen("/dev/null", "w", stdout) || !freopen(errors, "w", stderr)) _exit(3);
    tool("info", (const char *[]){ "info", path, "--graph", NULL });
    tool("doctor", (const char *[]){ "doctor", path, NULL });
    tool("run", (const char *[]){ "run", path, "--random", "--threads", "1", NULL });
    tool("run --example", (const char *[]){ "run", path, "--example", "--threads", "1", NULL });
    tool("convert", (const char *[]){ "convert", path, "-o", converted, NULL });
    lower(path);
    if (whole) {
        tool("compile", (const char *[]){ "compile", path, "-o", library, NULL });
        if (!access(library, R_OK))
            tool("run library", (const char *[]){ "run", library, "--random", "--threads", "1", NULL });
    }
    unlink(converted);
    unlink(library);
}

static void answer(const char *path, const char *folder, bool whole) {
    int status = 0;
    *progress = "start";
    pid_t child = fork();
    if (!child) {
        all_steps(path, folder, whole);
        fflush(NULL);
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) printf("fork failed\n");
    else if (WIFSIGNALED(status) && (WTERMSIG(status) == SIGPROF || WTERMSIG(status) == SIGALRM))
        printf("%s: took longer than %d s\n", *progress, WTERMSIG(status) == SIGPROF ? SECONDS : WAITING);
    else if (WIFSIGNALED(status)) printf("%s: signal %d\n", *progress, WTERMSIG(status));
    else if (WEXITSTATUS(status)) printf("%s: exit code %d\n", *progress, WEXITSTATUS(status));
    else printf("ok\n");
    fflush(stdout);
}

int main(void) {
    char line[3 * PATHS], path[PATHS], folder[PATHS];
    int whole;
    progress = mmap(NULL, sizeof *progress, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (progress == MAP_FAILED || cr_set_num_threads(1) || cr_region_ops_init()) return 3;
    while (fgets(line, sizeof line, stdin))
        if (sscanf(line, "%4095s %4095s %d", path, folder, &whole) == 3) answer(path, folder, whole);
        else printf("no such line: %s", line), fflush(stdout);
    return 0;
}
