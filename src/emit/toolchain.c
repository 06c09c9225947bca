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
static cr_status find_program(const char *name, char **out) {
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
        CR_TRY(find_program(given, out));
        return *out ? CR_OK : CR_FAIL(CR_ETOOLCHAIN, "the C compiler '%s' was not found; set CRESSET_CC to one that exists", given);
    }
    for (size_t i = 0; i < CR_COUNT(usual); i++) {
        CR_TRY(find_program(usual[i], out));
        if (*out) return CR_OK;
    }
    return CR_FAIL(CR_ETOOLCHAIN, "no C compiler (cc, gcc or clang) on the PATH; install gcc, or set CRESSET_CC");
}

static bool is_home(const char *folder) {
    cr_str path;
    struct stat st;
    cr_str_init(&path);
    cr_str_addf(&path, "%s/libcresset_rt.a", folder);
    bool found = !path.failed && !stat(cr_str_get(&path), &st);
    cr_str_dispose(&path);
    return found;
}

cr_status cr_toolchain_home(char **out) {
    static const char *const places[] = { "%.*s/lib/cresset", "%.*s/../lib/cresset", "%.*s/../../lib/cresset", "%.*s/../../../lib/cresset" };
    const char *given = getenv("CRESSET_HOME");
    if (given && *given) {
        if (!is_home(given)) return CR_FAIL(CR_ETOOLCHAIN, "CRESSET_HOME is %s, but there is no libcresset_rt.a in it", given);
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
        bool found = !status && is_home(cr_str_get(&path));
        if (found) status = cr_str_take(&path, out);
        cr_str_dispose(&path);
        if (status || found) return status;
    }
    return CR_FAIL(CR_ETOOLCHAIN, "the runtime that compiled models link (lib/cresset/libcresset_rt.a) was not found beside this program; set CRESSET_HOME to its folder");
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
    if (WIFSIGNALED(status)) return CR_FAIL(CR_ETOOLCHAIN, "%s was ended by signal %d: %s", program, WTERMSIG(status), cr_str_get(said));
    return CR_FAIL(CR_ETOOLCHAIN, "%s failed: %s", program, cr_str_get(said));
}

cr_status cr_toolchain_run(const char *const *argv) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC)) return CR_FAIL(CR_EIO, "cannot make a pipe: %s", strerror(errno));
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
    pid_t pid = 0;
    int code = posix_spawn(&pid, argv[0], &actions, NULL, (char *const *)(uintptr_t)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (code) {
        close(ends[0]);
        return CR_FAIL(CR_ETOOLCHAIN, "cannot start %s: %s", argv[0], strerror(code));
    }
    cr_str said;
    cr_str_init(&said);
    collect(ends[0], &said);
    close(ends[0]);
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    cr_status result = report(argv[0], status, &said);
    cr_str_dispose(&said);
    return result;
}
