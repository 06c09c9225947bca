/* loader.c: opens compiled libraries and carries values across abi.h; see loader.h.
 *
 * The dynamic linker trusts its input: a file that was cut short would end the process. So the headers are looked at
 * first, and only a file whose every segment is there reaches dlopen. Everything after that goes through the one symbol
 * of the library, exactly as a foreign program would. */
#define _GNU_SOURCE
#include "cresset/compile.h"
#include "emit/target.h"
#include "ops/custom.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

struct cr_library {
    int64_t refs; /* atomic */
    void *handle;
    const cresset_api *api;
    char *path;
};
struct cr_native {
    int64_t refs; /* atomic */
    cr_library *lib;
    cresset_instance *instance;
};

/* ---- the file ---- */

bool cr_library_is(const char *path) {
    char magic[SELFMAG] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    bool yes = pread(fd, magic, SELFMAG, 0) == SELFMAG && !memcmp(magic, ELFMAG, SELFMAG);
    close(fd);
    return yes;
}

static const char *machine_name(int machine) {
    for (const cr_target *const *t = cr_targets; *t; t++)
        if ((*t)->machine == machine) return (*t)->name;
    return machine == EM_ARM ? "arm" : machine == EM_386 ? "x86" : "another processor";
}

/* Every segment lies within the file, and the table of sections, too. */
static cr_status check_extent(int fd, const Elf64_Ehdr *h, uint64_t size, const char *path) {
    uint64_t end;
    bool whole = h->e_phentsize == sizeof(Elf64_Phdr) &&
                 !cr_add_overflow(h->e_phoff, (uint64_t)h->e_phnum * sizeof(Elf64_Phdr), &end) && end <= size;
    whole = whole && !cr_add_overflow(h->e_shoff, (uint64_t)h->e_shnum * h->e_shentsize, &end) && end <= size;
    for (unsigned i = 0; whole && i < h->e_phnum; i++) {
        Elf64_Phdr p;
        whole = pread(fd, &p, sizeof p, (off_t)(h->e_phoff + i * sizeof p)) == sizeof p &&
                !cr_add_overflow(p.p_offset, p.p_filesz, &end) && end <= size;
    }
    return whole ? CR_OK
                 : CR_FAIL(CR_EFORMAT, "%s is damaged: parts of the library are missing; compile it again", path);
}

static cr_status check_file(const char *path) {
    Elf64_Ehdr h = { 0 };
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return CR_FAIL_SYSTEM(errno, "cannot open %s: %s", path, strerror(errno));
    cr_status status = CR_OK;
    bool folder = !fstat(fd, &st) && S_ISDIR(st.st_mode);
    const cr_target *here = cr_target_here();
    ssize_t n = folder ? -1 : pread(fd, &h, sizeof h, 0);
    int reason = folder ? EISDIR : errno;
    if (n < 0) status = CR_FAIL_SYSTEM(reason, "cannot read %s: %s", path, strerror(reason));
    else if (n < (ssize_t)sizeof h || memcmp(h.e_ident, ELFMAG, SELFMAG))
        status = CR_FAIL(CR_EFORMAT, "%s is no compiled library; 'cresset compile model.pt2 -o libmodel.so' makes one",
                         path);
    else if (h.e_ident[EI_CLASS] != ELFCLASS64 || (here->machine && h.e_machine != here->machine))
        status = CR_FAIL(CR_EUNSUPPORTED, "%s was made for %s, and this is %s; compile it for this machine", path,
                         machine_name(h.e_machine), here->name);
    else if (h.e_type != ET_DYN)
        status = CR_FAIL(CR_EFORMAT, "%s is no shared library; link it with -shared, or use 'cresset compile'", path);
    else status = check_extent(fd, &h, (uint64_t)st.st_size, path);
    close(fd);
    return status;
}

/* ---- libraries ---- */

/* With a folder, so that the linker does not search; absolute, so that weights beside are found from anywhere. */
static cr_status absolute(const char *path, char **out) {
    char folder[4096];
    cr_str text;
    cr_str_init(&text);
    if (path[0] != '/') {
        if (!getcwd(folder, sizeof folder))
            return CR_FAIL(CR_EIO, "cannot tell the current folder: %s", strerror(errno));
        cr_str_addf(&text, "%s/", folder);
    }
    cr_str_add(&text, path);
    cr_status status = cr_str_take(&text, out);
    cr_str_dispose(&text);
    return status;
}

typedef const cresset_api *model_fn(uint32_t major);

static cr_status get_api(cr_library *lib, const char *path) {
    model_fn *model;
    void *symbol = dlsym(lib->handle, "cresset_model");
    if (!symbol)
        return CR_FAIL(CR_EFORMAT,
                       "%s is a shared library, but no compiled model: it has no symbol 'cresset_model'; 'cresset "
                       "compile' makes such libraries",
                       path);
    memcpy(&model, &symbol, sizeof model); /* ISO C has no cast for it */
    lib->api = model(CRESSET_ABI_MAJOR);
    if (lib->api && lib->api->major == CRESSET_ABI_MAJOR) return CR_OK;
    for (uint32_t other = 1; other < 64; other++)
        if (other != CRESSET_ABI_MAJOR && model(other))
            return CR_FAIL(CR_EUNSUPPORTED,
                           "%s has version %u of the library interface, and this program speaks version %d; compile it "
                           "again",
                           path, other, CRESSET_ABI_MAJOR);
    return CR_FAIL(CR_EUNSUPPORTED, "%s does not know version %d of the library interface; compile it again", path,
                   CRESSET_ABI_MAJOR);
}

cr_status cr_library_open(const char *path, cr_library **out) {
    CR_TRY(check_file(path));
    cr_library *lib = cr_calloc(1, sizeof *lib);
    if (!lib) return CR_ENOMEM;
    lib->refs = 1;
    cr_status status = absolute(path, &lib->path);
    if (!status) {
        lib->handle = dlopen(lib->path, RTLD_NOW | RTLD_LOCAL);
        status = lib->handle ? get_api(lib, path)
                             : CR_FAIL(CR_EFORMAT, "the library cannot be loaded: %s; compile it again", dlerror());
    }
    if (status) cr_library_release(lib);
    else *out = lib;
    return status;
}

void cr_library_retain(cr_library *lib) { __atomic_add_fetch(&lib->refs, 1, __ATOMIC_RELAXED); }

void cr_library_release(cr_library *lib) {
    if (!lib || __atomic_sub_fetch(&lib->refs, 1, __ATOMIC_ACQ_REL)) return;
    if (lib->handle) dlclose(lib->handle);
    cr_free(lib->path);
    cr_free(lib);
}

const cresset_api *cr_library_api(const cr_library *lib) { return lib->api; }
const char *cr_library_path(const cr_library *lib) { return lib->path; }

cr_status cr_library_method(const cr_library *lib, const char *name, int32_t *out) {
    const cresset_api *api = lib->api;
    if (!name && api->nmethods && (api->nmethods == 1 || !strcmp(api->methods[0].name, "forward")))
        return *out = 0, CR_OK;
    for (int32_t i = 0; name && i < api->nmethods; i++)
        if (!strcmp(api->methods[i].name, name)) return *out = i, CR_OK;
    cr_str names;
    cr_str_init(&names);
    for (int32_t i = 0; i < api->nmethods; i++) cr_str_addf(&names, "%s'%s'", i ? ", " : "", api->methods[i].name);
    cr_status status = name ? CR_FAIL(CR_ENOTFOUND, "the library has no method '%s', it has %s", name,
                                      cr_str_get(&names))
                            : CR_FAIL(CR_ENOTFOUND, "the library has several methods: %s", cr_str_get(&names));
    cr_str_dispose(&names);
    return status;
}

/* ---- instances ---- */

static cr_status failure(const cr_library *lib, int code, const char *message) {
    static const cr_status codes[] = {
        [CRESSET_OUT_OF_MEMORY] = CR_ENOMEM, [CRESSET_BAD_ARGUMENT] = CR_EVALUE, [CRESSET_BAD_INPUT] = CR_ERUNTIME,
        [CRESSET_RUN_FAILED] = CR_ERUNTIME,  [CRESSET_BAD_WEIGHTS] = CR_EIO,     [CRESSET_BAD_CPU] = CR_EUNSUPPORTED
    };
    cr_status status = code > 0 && (size_t)code < CR_COUNT(codes) ? codes[code] : CR_ERUNTIME;
    if (status == CR_ENOMEM) return CR_FAIL(CR_ENOMEM, "out of memory");
    return message[0] ? CR_FAIL(status, "%s", message) : CR_FAIL(status, "%s failed with code %d", lib->path, code);
}

/* Functions for the operators that the library calls, as far as they are registered here; it says what is missing. */
static cr_status find_ops(const cresset_api *api, cresset_op_function **out, int32_t *n) {
    bool known = api->struct_size >= offsetof(cresset_api, nops) + sizeof api->nops;
    *n = 0;
    *out = NULL;
    if (!known || api->nops <= 0) return CR_OK;
    CR_TRY(cr_ops_init());
    *out = cr_calloc((size_t)api->nops, sizeof **out);
    if (!*out) return CR_ENOMEM;
    for (int32_t i = 0; i < api->nops; i++) *n += cr_custom_function(api->ops[i].op, &(*out)[*n]);
    return CR_OK;
}

cr_status cr_native_create(cr_library *lib, int threads, const char *weights, cr_native **out) {
    char message[512] = "";
    cr_native *n = cr_calloc(1, sizeof *n);
    if (!n) return CR_ENOMEM;
    cresset_options options = { .struct_size = sizeof options, .threads = threads, .weights = weights };
    cresset_op_function *ops = NULL;
    cr_status status = find_ops(lib->api, &ops, &options.nops);
    if (status) return cr_free(n), status;
    options.ops = ops;
    int code = lib->api->create(lib->api, &options, &n->instance, message, sizeof message);
    cr_free(ops);
    if (code) {
        cr_free(n);
        return failure(lib, code, message);
    }
    n->refs = 1;
    cr_library_retain(n->lib = lib);
    *out = n;
    return CR_OK;
}

void cr_native_retain(cr_native *n) { __atomic_add_fetch(&n->refs, 1, __ATOMIC_RELAXED); }

void cr_native_release(cr_native *n) {
    if (!n || __atomic_sub_fetch(&n->refs, 1, __ATOMIC_ACQ_REL)) return;
    n->lib->api->destroy(n->instance);
    cr_library_release(n->lib);
    cr_free(n);
}

cr_library *cr_native_library(const cr_native *n) { return n->lib; }
void cr_native_seed(cr_native *n, uint64_t seed) { n->lib->api->seed(n->instance, seed); }

bool cr_native_profile(cr_native *n,
                       void (*step)(void *user, int32_t method, int32_t step, const char *origin, double seconds),
                       void *user) {
    const cresset_api *api = n->lib->api;
    if (api->struct_size < offsetof(cresset_api, profile) + sizeof api->profile || !api->profile) return false;
    api->profile(n->instance, step, user);
    return true;
}

/* ---- training ---- */

static cr_status check_trains(const cr_native *n, const char *what) {
    const cresset_api *api = n->lib->api;
    if (api->struct_size > offsetof(cresset_api, load) && api->train && api->save && api->load) return CR_OK;
    return CR_FAIL(CR_EVALUE, "%s does not train, so that there is nothing to %s: compile a loss with --train",
                   n->lib->path, what);
}

cr_status cr_native_save(cr_native *n, const char *path, int32_t what) {
    char message[512] = "";
    CR_TRY(check_trains(n, "save"));
    int code = n->lib->api->save(n->instance, path, what, message, sizeof message);
    return code ? failure(n->lib, code, message) : CR_OK;
}

cr_status cr_native_load(cr_native *n, const char *path) {
    char message[512] = "";
    CR_TRY(check_trains(n, "load"));
    int code = n->lib->api->load(n->instance, path, message, sizeof message);
    return code ? failure(n->lib, code, message) : CR_OK;
}

/* ---- the generator ---- */

static bool has_random(const cr_native *n) {
    const cresset_api *api = n->lib->api;
    return api->struct_size >= offsetof(cresset_api, set_random) + sizeof api->set_random && api->get_random &&
           api->set_random;
}

cr_status cr_native_get_random(cr_native *n, void *bytes, size_t room) {
    char message[256] = "";
    if (!has_random(n)) return CR_FAIL(CR_EVALUE, "%s does not give its generator's state", n->lib->path);
    int code = n->lib->api->get_random(n->instance, bytes, room, message, sizeof message);
    return code ? failure(n->lib, code, message) : CR_OK;
}

cr_status cr_native_set_random(cr_native *n, const void *bytes, size_t size) {
    char message[256] = "";
    if (!has_random(n)) return CR_FAIL(CR_EVALUE, "%s does not take a generator's state", n->lib->path);
    int code = n->lib->api->set_random(n->instance, bytes, size, message, sizeof message);
    return code ? failure(n->lib, code, message) : CR_OK;
}

/* ---- values in ---- */

static cr_status value_in(const cr_arg *a, size_t i, cresset_value *out) {
    *out = (cresset_value){ .struct_size = sizeof *out };
    switch ((cr_arg_kind)a->kind) {
    case CR_ARG_NONE: out->kind = CRESSET_NONE; return CR_OK;
    case CR_ARG_INT: out->kind = CRESSET_INT, out->integer = a->u.i; return CR_OK;
    case CR_ARG_BOOL: out->kind = CRESSET_BOOLEAN, out->integer = a->u.i; return CR_OK;
    case CR_ARG_FLOAT: out->kind = CRESSET_FLOAT, out->number = a->u.f; return CR_OK;
    case CR_ARG_STR: out->kind = CRESSET_STRING, out->data = (void *)(uintptr_t)a->u.s; return CR_OK;
    case CR_ARG_TENSOR: break;
    default: return CR_FAIL(CR_ETYPE, "input %zu is of a kind that compiled models do not take", i);
    }
    const cr_tensor *t = a->u.t;
    if (cr_tensor_is_fake(t)) return CR_FAIL(CR_EVALUE, "input %zu is a fake tensor: it has no data to run on", i);
    rt_view v = cr_tensor_view(t);
    out->kind = CRESSET_TENSOR;
    out->dtype = v.dtype;
    out->rank = v.rank;
    out->data = v.p ? v.p : (void *)(uintptr_t) "";
    out->size = t->meta.size;
    out->stride = t->meta.stride;
    return CR_OK;
}

/* ---- values out ---- */

typedef struct loan {
    cr_native *native;
    cresset_value value;
} loan;

static void give_back(void *user, void *data) {
    loan *l = user;
    (void)data;
    if (l->native) l->native->lib->api->release(l->native->instance, &l->value);
    cr_native_release(l->native);
    cr_free(l);
}

/* The result's memory becomes a storage. On success the value is the tensor's. */
static cr_status tensor_out(cr_native *n, const cresset_value *v, cr_tensor **out) {
    cr_meta meta;
    int64_t bytes;
    cr_storage *storage = NULL;
    if (v->rank > CR_MAX_RANK)
        return CR_FAIL(CR_EUNSUPPORTED, "a result has %d dimensions, and %d are possible here", v->rank, CR_MAX_RANK);
    cr_meta_init(&meta, v->dtype, (cr_device){ CR_CPU, -1 });
    CR_TRY(cr_meta_set_dense(NULL, &meta, v->rank, v->size, CR_CONTIGUOUS));
    for (int d = 0; v->stride && d < v->rank; d++) meta.stride[d] = v->stride[d];
    CR_TRY(cr_meta_bytes(&meta, &bytes));
    loan *l = cr_alloc(sizeof *l);
    if (!l) return CR_ENOMEM;
    *l = (loan){ n, *v };
    cr_status status = cr_storage_wrap(v->data, bytes, give_back, l, &storage);
    if (status) {
        cr_free(l);
        return status;
    }
    cr_native_retain(n);
    status = cr_tensor_on(storage, &meta, NULL, NULL, out);
    if (status) { /* the value stays the caller's */
        l->native = NULL;
        cr_native_release(n);
    }
    cr_storage_release(storage);
    return status;
}

cr_status cr_native_take(cr_native *n, cresset_value *v, cr_arg *out) {
    switch (v->kind) {
    case CRESSET_NONE: *out = cr_arg_none(); return CR_OK;
    case CRESSET_INT: *out = cr_arg_int(v->integer); return CR_OK;
    case CRESSET_BOOLEAN: *out = cr_arg_bool(v->integer != 0); return CR_OK;
    case CRESSET_FLOAT: *out = cr_arg_float(v->number); return CR_OK;
    case CRESSET_STRING: *out = cr_arg_str(v->data ? v->data : ""); return CR_OK;
    case CRESSET_TENSOR: break;
    default: return CR_FAIL(CR_EFORMAT, "%s gives a result of the unknown kind %d", n->lib->path, v->kind);
    }
    cr_tensor *t = NULL;
    CR_TRY(tensor_out(n, v, &t));
    *out = cr_arg_tensor(t);
    *v = (cresset_value){ .struct_size = sizeof *v };
    return CR_OK;
}

static cr_status check_counts(const cr_native *n, int32_t method, size_t ninputs, size_t nresults) {
    const cresset_api *api = n->lib->api;
    if (method < 0 || method >= api->nmethods)
        return CR_FAIL(CR_EVALUE, "the library has %d methods, there is no method %d", api->nmethods, method);
    const cresset_method_info *info = &api->methods[method];
    if (ninputs != (size_t)info->ninputs)
        return CR_FAIL(CR_ETYPE, "the program takes %d inputs, not %zu", info->ninputs, ninputs);
    if (nresults != (size_t)info->noutputs)
        return CR_FAIL(CR_EVALUE, "the program gives %d results, not %zu", info->noutputs, nresults);
    return CR_OK;
}

void cr_native_give_back(cr_native *n, cresset_value *results, size_t nresults) {
    for (size_t i = 0; i < nresults; i++)
        if (results[i].kind == CRESSET_TENSOR) n->lib->api->release(n->instance, &results[i]);
}

cr_status cr_native_run_values(cr_native *n, int32_t method, const cresset_value *inputs, size_t ninputs,
                               cresset_value *results, size_t nresults) {
    char message[512]; /* not cleared: that would take as long as a small graph */
    message[0] = 0;
    CR_TRY(check_counts(n, method, ninputs, nresults));
    for (size_t i = 0; i < nresults; i++) results[i] = (cresset_value){ .struct_size = sizeof results[i] };
    int code = n->lib->api->run(n->instance, method, inputs, (int32_t)ninputs, results, (int32_t)nresults, message,
                                sizeof message);
    return code ? failure(n->lib, code, message) : CR_OK;
}

/* outs: room for as many values as there are results. */
static cr_status run_values(cr_native *n, int32_t method, const cresset_value *inputs, size_t ninputs,
                            cresset_value *outs, cr_arg *results, size_t nresults) {
    cr_status status = CR_OK;
    size_t done = 0;
    CR_TRY(cr_native_run_values(n, method, inputs, ninputs, outs, nresults));
    for (; done < nresults && !status; done++) {
        results[done] = cr_arg_none();
        status = cr_native_take(n, &outs[done], &results[done]);
    }
    if (!status) return CR_OK;
    cr_native_give_back(n, outs, nresults);
    cr_results_release(results, done);
    return status;
}

enum { FEW_VALUES = 32 };

cr_status cr_native_run(cr_native *n, int32_t method, const cr_arg *inputs, size_t ninputs, cr_arg *results,
                        size_t nresults) {
    cresset_value few[FEW_VALUES], *values = few;
    CR_TRY(check_counts(n, method, ninputs, nresults));
    if (ninputs + nresults > FEW_VALUES && !(values = cr_alloc((ninputs + nresults) * sizeof *values)))
        return CR_ENOMEM;
    cr_status status = CR_OK;
    for (size_t i = 0; i < ninputs && !status; i++) status = value_in(&inputs[i], i, &values[i]);
    if (!status) status = run_values(n, method, values, ninputs, values + ninputs, results, nresults);
    if (values != few) cr_free(values);
    return status;
}

cr_status cr_native_get_state(cr_native *n, const char *name, void *data, size_t room) {
    char message[256] = "";
    int code = n->lib->api->get_state(n->instance, name, data, room, message, sizeof message);
    return code ? failure(n->lib, code, message) : CR_OK;
}

cr_status cr_native_set_state(cr_native *n, const char *name, const void *data, size_t size) {
    char message[256] = "";
    int code = n->lib->api->set_state(n->instance, name, data, size, message, sizeof message);
    return code ? failure(n->lib, code, message) : CR_OK;
}
