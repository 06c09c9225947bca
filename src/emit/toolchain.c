/* toolchain.c: the C compiler and the runtime's installed parts.
 *
 * Programs are started without a shell, so no name can become a command. The compiler's own words reach the user in the
 * error, cut to what a message can hold. */
#define _GNU_SOURCE
#include "emit/emit.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* ---- where things are ---- */

static bool is_program(const char *path) {
    struct stat st;
    return !stat(path, &st) && S_ISREG(st.st_mode) && !access(path, X_OK);
}

/* As the shell would find it: names with a slash as they are, others along PATH. */
cr_status cr_toolchain_program(const char *name, char **out) {
    *out = NULL;
    if (strchr(name, '/')) return is_program(name) && !(*out = cr_strdup(name)) ? CR_ENOMEM : CR_OK;
    const char *path = getenv("PATH");
    for (const char *at = path ? path : "/usr/bin:/bin"; *at && !*out;) {
        size_t n = strcspn(at, ":");
        cr_str text;
        cr_str_init(&text);
        cr_str_addn(&text, n ? at : ".", n ? n : 1);
        cr_str_addf(&text, "/%s", name);
        cr_status status = cr_str_status(&text);
        if (!status && is_program(cr_str_get(&text))) status = cr_str_take(&text, out);
        cr_str_dispose(&text);
        CR_TRY(status);
        at += n + (at[n] == ':');
    }
    return CR_OK;
}

cr_status cr_toolchain_find(const char *cc, char **out) {
    static const char *const usual[] = { "cc", "gcc", "clang" };
    const char *given = cc ? cc : getenv("CRESSET_CC");
    if (given && *given) {
        CR_TRY(cr_toolchain_program(given, out));
        return *out ? CR_OK
                    : CR_FAIL(CR_ETOOLCHAIN, "the C compiler '%s' was not found; set CRESSET_CC to one that exists",
                              given);
    }
    for (size_t i = 0; i < CR_COUNT(usual); i++) {
        CR_TRY(cr_toolchain_program(usual[i], out));
        if (*out) return CR_OK;
    }
    return CR_FAIL(CR_ETOOLCHAIN, "no C compiler (cc, gcc or clang) on the PATH; install gcc, or set CRESSET_CC");
}

static cr_status is_home(const char *folder, bool *found) {
    char *path = NULL;
    struct stat st;
    CR_TRY(cr__path_in(folder, "libcresset_rt.a", &path));
    *found = !stat(path, &st);
    cr_free(path);
    return CR_OK;
}

cr_status cr_toolchain_home(char **out) {
    static const char *const places[] = { "%.*s/lib/cresset", "%.*s/../lib/cresset", "%.*s/../../lib/cresset",
                                          "%.*s/../../../lib/cresset" };
    const char *given = getenv("CRESSET_HOME");
    bool found = false;
    if (given && *given) {
        CR_TRY(is_home(given, &found));
        if (!found) return CR_FAIL(CR_ETOOLCHAIN, "CRESSET_HOME is %s, but there is no libcresset_rt.a in it", given);
        return (*out = cr_strdup(given)) ? CR_OK : CR_ENOMEM;
    }
    Dl_info info;
    char self[4096];
    const char *name = dladdr((const void *)is_home, &info) ? info.dli_fname : NULL;
    ssize_t n = name && strchr(name, '/') ? 0 : readlink("/proc/self/exe", self, sizeof self - 1);
    if (n > 0) self[n] = 0, name = self;
    const char *slash = name ? strrchr(name, '/') : NULL;
    for (size_t i = 0; slash && i < CR_COUNT(places); i++) {
        cr_str path;
        cr_str_init(&path);
        cr_str_addf(&path, places[i], (int)(slash - name), name);
        cr_status status = cr_str_status(&path);
        if (!status) status = is_home(cr_str_get(&path), &found);
        if (!status && found) status = cr_str_take(&path, out);
        cr_str_dispose(&path);
        if (status || found) return status;
    }
    return CR_FAIL(CR_ETOOLCHAIN, "the runtime that compiled models link (lib/cresset/libcresset_rt.a) was not found "
                                  "beside this program; set CRESSET_HOME to its folder");
}

/* ---- running ---- */

/* What the child wrote, up to a bound; the rest is read and dropped so that it never blocks. */
static void collect(int fd, cr_str *out) {
    char bytes[4096];
    for (;;) {
        ssize_t n = read(fd, bytes, sizeof bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return;
        if (out->n < 2000) cr_str_addn(out, bytes, CR_MIN((size_t)n, 2000 - out->n));
    }
}

static cr_status report(const char *program, int status, cr_str *said) {
    if (WIFEXITED(status) && !WEXITSTATUS(status)) return CR_OK;
    while (said->n && (said->at[said->n - 1] == '\n' || said->at[said->n - 1] == ' ')) said->at[--said->n] = 0;
    if (!said->n) cr_str_add(said, "it said nothing; try another compiler");
    if (WIFSIGNALED(status))
        return CR_FAIL(CR_ETOOLCHAIN, "%s was ended by signal %d: %s", program, WTERMSIG(status), cr_str_get(said));
    return CR_FAIL(CR_ETOOLCHAIN, "%s failed: %s", program, cr_str_get(said));
}

typedef struct child { pid_t pid; int said; } child;

static cr_status start(const char *const *argv, child *out) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC)) return CR_FAIL(CR_EIO, "cannot make a pipe: %s", strerror(errno));
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
    int code = posix_spawn(&out->pid, argv[0], &actions, NULL, (char *const *)(uintptr_t)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    out->said = ends[0];
    if (!code) return CR_OK;
    close(ends[0]);
    return CR_FAIL(CR_ETOOLCHAIN, "cannot start %s: %s", argv[0], strerror(code));
}

static cr_status finish(const char *const *argv, const child *c) {
    cr_str said;
    cr_str_init(&said);
    collect(c->said, &said);
    close(c->said);
    int status = 0;
    while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR) {
    }
    cr_status result = report(argv[0], status, &said);
    cr_str_dispose(&said);
    return result;
}

cr_status cr_toolchain_run(const char *const *argv) { return cr_toolchain_run_all(&argv, 1); }

/* The oldest child is waited for first: one that has much to say waits until it is its turn to be read, but no
 * longer. */
cr_status cr_toolchain_run_all(const char *const *const *argvs, size_t n) {
    enum { MOST = 64 };
    child running[MOST];
    size_t most = CR_MIN((size_t)rt_usable_threads(), (size_t)MOST), started = 0, ended = 0;
    cr_status status = CR_OK;
    while (ended < n) {
        while (!status && started < n && started - ended < most) {
            status = start(argvs[started], &running[started % MOST]);
            if (!status) started++;
        }
        if (ended == started) break;
        cr_error *first = status ? cr_error_take() : NULL;
        cr_status code = finish(argvs[ended], &running[ended % MOST]);
        ended++;
        if (status) status = cr_error_put(first);
        else status = code;
    }
    return status;
}

/* ---- both together ---- */

cr_status cr__find_c_compiler(const char *given, const char *triple, char **out) {
    if (given || !triple) return cr_toolchain_find(given, out);
    cr_str name;
    cr_str_init(&name);
    cr_str_addf(&name, "%s-gcc", triple);
    cr_status status = cr_str_status(&name);
    if (!status) status = cr_toolchain_program(cr_str_get(&name), out);
    cr_str_dispose(&name);
    if (status || *out) return status;
    return CR_FAIL(CR_ETOOLCHAIN,
                   "the cross compiler %s-gcc is not on the PATH; install it (Debian: gcc-%s), or name one with --cc",
                   triple, triple);
}

cr_status cr_toolchain_open(const char *cc, const cr_build *build, cr_toolchain *out) {
    *out = (cr_toolchain){ 0 };
    CR_TRY(build->target->language->find_compiler(cc, build->triple, &out->cc));
    cr_status status = cr_toolchain_home(&out->home);
    if (!status) status = cr__path_in(out->home, "src", &out->include);
    if (!status) status = cr__path_in(out->home, "libcresset_rt.a", &out->archive);
    if (status) cr_toolchain_close(out);
    return status;
}

void cr_toolchain_close(cr_toolchain *t) {
    cr_free(t->cc);
    cr_free(t->home);
    cr_free(t->include);
    cr_free(t->archive);
    *t = (cr_toolchain){ 0 };
}
