/* library.c: tables, runtime and weights in one shared library.
 *
 * Everything is made in a fresh temporary folder beside the result (so that the last step is a rename on one file system)
 * and removed whatever happens. Weights never pass through the C compiler: the assembler includes the file. */
#define _GNU_SOURCE
#include "emit/emit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct workshop { char *folder, *source, *weights, *assembly, *library; } workshop;

static cr_status path_in(const char *folder, const char *name, char **out) {
    cr_str path;
    cr_str_init(&path);
    cr_str_addf(&path, "%s/%s", folder, name);
    cr_status status = cr_str_take(&path, out);
    cr_str_dispose(&path);
    return status;
}

static cr_status workshop_open(workshop *w, const char *target) {
    const char *slash = strrchr(target, '/');
    cr_str path;
    cr_str_init(&path);
    cr_str_addn(&path, slash ? target : ".", slash ? (size_t)(slash - target) : 1);
    if (slash == target) cr_str_addc(&path, '/');
    cr_str_add(&path, "/.cresset-XXXXXX");
    CR_TRY(cr_str_take(&path, &w->folder));
    if (!mkdtemp(w->folder)) {
        cr_status status = CR_FAIL(CR_EIO, "cannot write beside %s: %s", target, strerror(errno));
        cr_free(w->folder);
        w->folder = NULL;
        return status;
    }
    CR_TRY(path_in(w->folder, "model.c", &w->source));
    CR_TRY(path_in(w->folder, "weights.bin", &w->weights));
    CR_TRY(path_in(w->folder, "weights.S", &w->assembly));
    return path_in(w->folder, "model.so", &w->library);
}

static void workshop_close(workshop *w) {
    char *files[] = { w->source, w->weights, w->assembly, w->library };
    for (size_t i = 0; i < CR_COUNT(files); i++) {
        if (files[i]) unlink(files[i]);
        cr_free(files[i]);
    }
    if (w->folder) rmdir(w->folder);
    cr_free(w->folder);
}

/* ---- files ---- */

static cr_status write_all(int fd, const void *data, uint64_t size, const char *path) {
    for (const char *at = data; size;) {
        ssize_t n = write(fd, at, CR_MIN(size, (uint64_t)1 << 30));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return CR_FAIL(CR_EIO, "cannot write %s: %s", path, strerror(n < 0 ? errno : ENOSPC));
        at += n;
        size -= (uint64_t)n;
    }
    return CR_OK;
}

static cr_status create(const char *path, int *fd) {
    *fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    return *fd < 0 ? CR_FAIL(CR_EIO, "cannot create %s: %s", path, strerror(errno)) : CR_OK;
}

static cr_status write_text(const char *path, const cr_str *text) {
    int fd;
    CR_TRY(create(path, &fd));
    cr_status status = write_all(fd, cr_str_get(text), text->n, path);
    if (close(fd) && !status) status = CR_FAIL(CR_EIO, "cannot write %s: %s", path, strerror(errno));
    return status;
}

/* `header`: bytes before the weights. */
static cr_status write_weights(const cr_lowered *l, const char *path, const void *header, size_t n) {
    static const char zeros[64];
    int fd;
    CR_TRY(create(path, &fd));
    cr_status status = write_all(fd, header, n, path);
    uint64_t at = 0;
    for (size_t i = 0; i < l->nweights && !status; i++) {
        const cr_weight *w = &l->weights[i];
        status = write_all(fd, zeros, w->offset - at, path); /* offsets are aligned to 64: never more than that */
        if (!status) status = write_all(fd, w->data, w->bytes, path);
        at = w->offset + w->bytes;
    }
    if (close(fd) && !status) status = CR_FAIL(CR_EIO, "cannot write %s: %s", path, strerror(errno));
    return status;
}

static cr_status write_source(const cr_lowered *l, const workshop *w, const cr_emit_options *o) {
    cr_str text;
    cr_str_init(&text);
    cr_status status = cr_emit_c(l, o, &text);
    if (!status) status = write_text(w->source, &text);
    cr_str_dispose(&text);
    return status;
}

static cr_status write_assembly(const workshop *w) {
    cr_str text;
    cr_str_init(&text);
    cr_str_add(&text, ".section .rodata\n.balign 64\n.globl cresset_weights\n.hidden cresset_weights\ncresset_weights:\n.incbin ");
    cr__c_string(&text, w->weights, strlen(w->weights));
    cr_str_add(&text, "\n.section .note.GNU-stack,\"\",%progbits\n");
    cr_status status = cr_str_status(&text);
    if (!status) status = write_text(w->assembly, &text);
    cr_str_dispose(&text);
    return status;
}

/* ---- the library ---- */

static cr_status link_library(const workshop *w, const cr_emit_options *o, bool inside) {
    char *cc = NULL, *home = NULL, *include = NULL, *archive = NULL;
    cr_status status = CR_OK;
    CR_TRY_OUT(cr_toolchain_find(o->cc, &cc));
    CR_TRY_OUT(cr_toolchain_home(&home));
    CR_TRY_OUT(path_in(home, "include", &include));
    CR_TRY_OUT(path_in(home, "libcresset_rt.a", &archive));
    const char *argv[] = { cc, "-shared", "-fPIC", "-std=gnu11", "-O1", "-fvisibility=hidden", "-w", "-I", include, "-o", w->library, w->source, archive,
                           "-Wl,--gc-sections", "-Wl,--exclude-libs,ALL", "-Wl,--build-id=none", "-Wl,-z,noexecstack", "-s", "-lm", "-lpthread", inside ? w->assembly : NULL, NULL };
    status = cr_toolchain_run(argv);
out:
    cr_free(cc);
    cr_free(home);
    cr_free(include);
    cr_free(archive);
    return status;
}

static cr_status move(const char *from, const char *to) {
    return rename(from, to) ? CR_FAIL(CR_EIO, "cannot write %s: %s", to, strerror(errno)) : CR_OK;
}

/* PATH with its suffix replaced: where an instance looks for the weights of a library at PATH. */
static cr_status beside(const char *path, char **out) {
    const char *dot = strrchr(path, '.'), *slash = strrchr(path, '/');
    cr_str text;
    cr_str_init(&text);
    cr_str_addn(&text, path, dot && (!slash || dot > slash) ? (size_t)(dot - path) : strlen(path));
    cr_str_add(&text, ".weights");
    cr_status status = cr_str_take(&text, out);
    cr_str_dispose(&text);
    return status;
}

/* The weights go first: a library that is there finds them. */
static cr_status put_in_place(const workshop *w, const char *path, bool apart) {
    if (apart) {
        char *weights = NULL;
        CR_TRY(beside(path, &weights));
        cr_status status = move(w->weights, weights);
        cr_free(weights);
        CR_TRY(status);
    }
    return move(w->library, path);
}

cr_status cr_emit_library(const cr_lowered *l, const char *path, const cr_emit_options *options) {
    workshop w = { 0 };
    cr_emit_options o = *options;
    struct { char magic[8], id[56]; } header = { RT_WEIGHTS_MAGIC, "" };
    bool some = l->model.weight_bytes, inside = some && o.weights == CR_WEIGHTS_INSIDE, apart = some && !inside;
    char id[33];
    CR_TRY(cr_emit_id(l, id));
    o.id = id;
    memcpy(header.id, id, sizeof id);
    cr_status status = workshop_open(&w, path);
    if (!status) status = write_source(l, &w, &o);
    if (!status && some) status = write_weights(l, w.weights, &header, apart ? sizeof header : 0);
    if (!status && inside) status = write_assembly(&w);
    if (!status) status = link_library(&w, &o, inside);
    if (!status) status = put_in_place(&w, path, apart);
    workshop_close(&w);
    return status;
}
