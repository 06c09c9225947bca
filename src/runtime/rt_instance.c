/* rt_instance.c: the functions behind cresset_api: instances of a model, their weights, state, threads and generator.
 *
 * Weights are part of the library, or a file beside it that is mapped once per library and shared by all instances: 64
 * bytes of header (magic, the model's id, zeros), then the bytes. Mutable buffers are copied per instance; runs of an
 * instance that write them take its lock, others run side by side.
 *
 * All memory of runs (frame, arena, kernels' scratch, results) comes from the instance's recycler: each run takes its
 * own and puts it back, so that after the first runs nothing is asked of the system. */
#define _GNU_SOURCE
#include "runtime/rt_instance.h"
#include "runtime/rt_pool.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WEIGHTS_HEADER = 64 };
static const char weights_magic[8] = RT_WEIGHTS_MAGIC;

static void *plain_alloc(void *user, size_t size) {
    (void)user;
    void *p = NULL;
    return posix_memalign(&p, 64, size ? size : 1) ? NULL : p;
}

static void plain_free(void *user, void *p) {
    (void)user;
    free(p);
}

static rt_ctx context(const cresset_instance *m, char *message, size_t room) {
    return (rt_ctx){
        .alloc = rt_recycler_alloc, .free = rt_recycler_free, .user = m->memory, .error = message, .error_size = room
    };
}

int rt__api_fail(char *message, size_t room, int code, const char *format, ...) {
    if (message && room) {
        va_list args;
        va_start(args, format);
        vsnprintf(message, room, format, args);
        va_end(args);
    }
    return code;
}

/* ---- weights ---- */

/* Where the file beside the library is: LIBRARY without its suffix + ".weights". */
SELDOM static int weights_path(const cresset_api *api, char *path, size_t room) {
    Dl_info info;
    if (!dladdr((const void *)api, &info) || !info.dli_fname) return 1;
    const char *name = info.dli_fname, *dot = strrchr(name, '.'), *slash = strrchr(name, '/');
    int stem = (int)(dot && (!slash || dot > slash) ? (size_t)(dot - name) : strlen(name));
    return snprintf(path, room, "%.*s.weights", stem, name) >= (int)room;
}

SELDOM static int map_weights(cresset_instance *m, const char *given, char *message, size_t room) {
    char found[4096];
    const char *path = given;
    if (!path) {
        if (weights_path(m->api, found, sizeof found))
            return rt__api_fail(message, room, CRESSET_BAD_WEIGHTS,
                                "cannot tell where the weights are: set options.weights");
        path = found;
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return rt__api_fail(message, room, CRESSET_BAD_WEIGHTS,
                            "cannot open the weights %s: %s; keep them beside the library or set options.weights", path,
                            strerror(errno));
    struct stat st;
    uint64_t want = WEIGHTS_HEADER + m->model->weight_bytes;
    void *map = MAP_FAILED;
    if (!fstat(fd, &st) && (uint64_t)st.st_size == want) map = mmap(NULL, (size_t)want, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (map == MAP_FAILED)
        return rt__api_fail(message, room, CRESSET_BAD_WEIGHTS,
                            "%s is not the weights of this model: it must have %llu bytes", path,
                            (unsigned long long)want);
    const uint8_t *bytes = map;
    char id[WEIGHTS_HEADER - sizeof weights_magic] = "";
    strncpy(id, m->model->id, sizeof id - 1);
    if (memcmp(bytes, weights_magic, sizeof weights_magic) || memcmp(bytes + sizeof weights_magic, id, sizeof id)) {
        munmap(map, (size_t)want);
        return rt__api_fail(message, room, CRESSET_BAD_WEIGHTS,
                            "%s holds the weights of another model: compile them together", path);
    }
    m->map = map;
    m->map_size = (size_t)want;
    m->weights = bytes + WEIGHTS_HEADER;
    return CRESSET_OK;
}

/* ---- life ---- */

/* An instance's threads and functions are code of a library that its user may close first. Weak: a statically linked
 * program has no such functions, and nothing to hold. */
#pragma weak dlopen
#pragma weak dlclose

SELDOM static void *hold_library(const cresset_api *api) {
    Dl_info info;
    if (!dlopen || !dlclose || !dladdr((const void *)api, &info) || !info.dli_fname) return NULL;
    return dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
}

/* This may be the last hold on the library: the code below it is gone when dlclose returns, so it has to be a jump,
 * which it is where compilers make one of a last call. Elsewhere the library stays. */
#if defined(__OPTIMIZE__) && defined(__GNUC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define LET_GO(self) dlclose(self)
#else
#define LET_GO(self) (void)(self)
#endif

/* The pools of this process's runs. A run borrows one for itself, so that runs at the same time (of several instances,
 * or of one) work side by side as long as there are cores for all their threads; a run for which there are none left
 * works on its caller's thread alone. Pools stay, their workers asleep, until the last instance goes. The lock holds
 * its owner's process id: one that another process holds was inherited through fork, and its owner is not here. */
enum { MOST_POOLS = 64 };
static struct {
    atomic_long owner;
    long pid; /* in which pools are borrowed */
    int users, cores, npools;
    struct {
        rt_pool *pool;
        int threads;
        bool borrowed;
    } of[MOST_POOLS];
} shared;

static void shared_lock(void) {
    long pid = rt__process(), seen = 0;
    while (!atomic_compare_exchange_weak(&shared.owner, &seen, pid))
        if (seen == pid) seen = 0, sched_yield();
    if (shared.pid == pid) return;
    for (int i = 0; i < shared.npools; i++) shared.of[i].borrowed = false; /* by runs of the process before the fork */
    shared.pid = pid;
}

static void shared_unlock(void) { atomic_store(&shared.owner, 0); }

static rt_pool *pool_borrow(int threads) {
    if (threads < 2) return NULL;
    shared_lock();
    int taken = 0, found = -1;
    for (int i = 0; i < shared.npools; i++) {
        if (shared.of[i].borrowed) taken += shared.of[i].threads;
        else if (shared.of[i].threads == threads && found < 0) found = i;
    }
    bool fits = !taken || taken + threads <= shared.cores;
    if (fits && found < 0 && shared.npools < MOST_POOLS) {
        rt_pool *made = rt_pool_create_within(threads, shared.cores);
        if (made) {
            found = shared.npools;
            shared.of[found].pool = made, shared.of[found].threads = threads;
            shared.npools++;
        }
    }
    if (fits && found >= 0) shared.of[found].borrowed = true;
    rt_pool *pool = fits && found >= 0 ? shared.of[found].pool : NULL;
    shared_unlock();
    return pool;
}

static void pool_give(rt_pool *pool) {
    if (!pool) return;
    shared_lock();
    for (int i = 0; i < shared.npools; i++)
        if (shared.of[i].pool == pool) shared.of[i].borrowed = false;
    shared_unlock();
}

/* Of an instance: the first makes room, the last takes the pools along. */
static void pools_join(void) {
    shared_lock();
    if (!shared.users++) shared.cores = rt_usable_threads();
    shared_unlock();
}

static void pools_leave(void) {
    rt_pool *gone[MOST_POOLS];
    int count = 0;
    shared_lock();
    if (!--shared.users) {
        for (; count < shared.npools; count++) gone[count] = shared.of[count].pool;
        shared.npools = 0;
    }
    shared_unlock();
    while (count) rt_pool_release(gone[--count]);
}

/* In the child of a fork the locks may be held by threads that do not exist there. */
SELDOM void rt__notice_fork(cresset_instance *m) {
    long pid = rt__process(), known = atomic_load(&m->pid);
    if (known == pid) return;
    if (known == -pid || !atomic_compare_exchange_strong(&m->pid, &known, -pid)) {
        while (atomic_load(&m->pid) != pid) sched_yield();
        return;
    }
    pthread_mutex_init(&m->lock, NULL);
    pthread_mutex_init(&m->generator.lock, NULL);
    rt_layouts_after_fork(m->layouts);
    atomic_store(&m->pid, pid);
}

SELDOM static void end_instance(cresset_instance *m) {
    rt_ctx ctx = context(m, NULL, 0);
    for (int32_t i = 0; m->state && i < m->model->nstates; i++) free(m->state[i]);
    free(m->state);
    free(m->ops);
    if (m->memory) rt_layouts_release(&ctx, m->layouts);
    rt_recycler_release(m->memory);
    if (m->joined) pools_leave();
    if (m->map) munmap(m->map, m->map_size);
    rt_generator_dispose(&m->generator);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

void rt_api_destroy(cresset_instance *m) {
    if (!m) return;
    void *self = m->self;
    end_instance(m);
    if (self) LET_GO(self);
}

SELDOM static int copy_state(cresset_instance *m) {
    m->state = calloc((size_t)m->model->nstates + 1, sizeof *m->state);
    if (!m->state) return 1;
    for (int32_t i = 0; i < m->model->nstates; i++) {
        const rt_state *s = &m->model->states[i];
        if (!s->is_mutable) continue;
        m->state[i] = plain_alloc(NULL, s->bytes);
        if (!m->state[i]) return 1;
        if (s->offset == RT_STATE_ZERO) memset(m->state[i], 0, s->bytes);
        else memcpy(m->state[i], m->weights + s->offset, s->bytes);
    }
    return 0;
}

/* A function for each operator that the model calls. */
SELDOM static int take_ops(cresset_instance *m, const cresset_options *o, char *message, size_t room) {
    const rt_model *model = m->model;
    if (o->nops < 0 || (o->nops && !o->ops))
        return rt__api_fail(message, room, CRESSET_BAD_ARGUMENT, "options.ops is NULL or options.nops negative");
    m->ops = calloc((size_t)model->nops + 1, sizeof *m->ops);
    if (!m->ops) return rt__api_fail(message, room, CRESSET_OUT_OF_MEMORY, "out of memory");
    for (int32_t i = 0; i < model->nops; i++) {
        for (int32_t k = 0; k < o->nops; k++)
            if (o->ops[k].op && o->ops[k].run && !strcmp(o->ops[k].op, model->ops[i].op)) m->ops[i] = o->ops[k];
        m->ops[i].op = model->ops[i].op; /* outlives the caller's text */
        if (!m->ops[i].run)
            return rt__api_fail(message, room, CRESSET_BAD_ARGUMENT,
                                "the model calls the operator %s, and there is no function for it: give one in "
                                "options.ops, or "
                                "load the library that has it (cresset run --op-library FILE; in Python "
                                "cresset.library.load_library)",
                                model->ops[i].op);
    }
    return CRESSET_OK;
}

SELDOM int rt_api_create(const cresset_api *api, const cresset_options *options, cresset_instance **out, char *message,
                         size_t room) {
    if (!api || !out) return rt__api_fail(message, room, CRESSET_BAD_ARGUMENT, "api or out is NULL");
    cresset_options o = { .struct_size = sizeof o };
    *out = NULL;
    if (options) {
        if (options->struct_size < offsetof(cresset_options, ops)) /* what 1.1 had */
            return rt__api_fail(message, room, CRESSET_BAD_ARGUMENT,
                                "options.struct_size is %zu, not sizeof(cresset_options), which is %zu",
                                options->struct_size, sizeof o);
        /* the rest is a later version's */
        memcpy(&o, options, options->struct_size < sizeof o ? options->struct_size : sizeof o);
        if (options->struct_size < sizeof o) o.ops = NULL, o.nops = 0;
    }
    if (o.threads < 0 || o.threads > RT_POOL_MOST)
        return rt__api_fail(message, room, CRESSET_BAD_ARGUMENT,
                            "options.threads must be between 0 (as many as there are) and %d, not %d", RT_POOL_MOST,
                            o.threads);
    if (!o.alloc != !o.free)
        return rt__api_fail(message, room, CRESSET_BAD_ARGUMENT,
                            "options.alloc and options.free must be given together");
    if (!rt_cpu_limit_is_known())
        return rt__api_fail(message, room, CRESSET_BAD_ARGUMENT,
                            "the environment's CRESSET_ISA is none of portable, avx2 and avx512: unset it, or choose "
                            "one of "
                            "these");
    const rt_model *model = ((const rt_library *)(const void *)api)->model;
    uint32_t missing = model->isa & ~rt_cpu();
    if (missing)
        return rt__api_fail(message, room, CRESSET_BAD_CPU,
                            "the model was compiled for %s, which this processor does not have (or CRESSET_ISA hides): "
                            "compile "
                            "it again with --target multi, or with --target native here",
                            missing & RT_CPU_AVX512 ? "AVX-512" : "AVX2");
    cresset_instance *m = calloc(1, sizeof *m);
    if (!m) return rt__api_fail(message, room, CRESSET_OUT_OF_MEMORY, "out of memory");
    m->api = api;
    m->model = model;
    atomic_init(&m->pid, rt__process());
    pthread_mutex_init(&m->lock, NULL);
    rt_generator_init(&m->generator, RT_GENERATOR_DEFAULT_SEED);
    m->weights = m->model->weights;
    int code = m->weights || !m->model->weight_bytes ? CRESSET_OK : map_weights(m, o.weights, message, room);
    if (!code) {
        m->memory = o.alloc ? rt_recycler_create(o.alloc, o.free, o.user)
                            : rt_recycler_create(plain_alloc, plain_free, NULL);
        rt_ctx ctx = context(m, NULL, 0);
        m->layouts = m->memory ? rt_layouts_create(&ctx, m->model->nmethods) : NULL;
        if (!m->layouts || copy_state(m)) code = rt__api_fail(message, room, CRESSET_OUT_OF_MEMORY, "out of memory");
        if (!code) code = take_ops(m, &o, message, room);
        if ((uintptr_t)m->memory % 64)
            code = rt__api_fail(message, room, CRESSET_BAD_ARGUMENT,
                                "options.alloc gives memory that is not aligned to 64 bytes");
    }
    if (code) {
        end_instance(m);
        return code;
    }
    m->self = hold_library(api);
    m->threads = o.threads > 0 ? o.threads : rt_usable_threads();
    pools_join();
    m->joined = true;
    pool_give(pool_borrow(m->threads)); /* made now rather than in the first run */
    *out = m;
    return CRESSET_OK;
}

/* ---- running ---- */

static int code_of(int code) {
    switch (code) {
    case RT_OK: return CRESSET_OK;
    case RT_ENOMEM: return CRESSET_OUT_OF_MEMORY;
    case RT_EVALUE: return CRESSET_BAD_INPUT;
    default: return CRESSET_RUN_FAILED;
    }
}

int rt_api_run(cresset_instance *m, int32_t method, const cresset_value *inputs, int32_t ninputs,
               cresset_value *outputs, int32_t noutputs, char *message, size_t room) {
    if (!m) return rt__api_fail(message, room, CRESSET_BAD_ARGUMENT, "instance is NULL");
    if (method < 0 || method >= m->model->nmethods)
        return rt__api_fail(message, room, CRESSET_BAD_ARGUMENT, "there is no method %d: the model has %d", method,
                            m->model->nmethods);
    const rt_method *what = m->model->methods[method];
    char text[256];
    text[0] = 0;
    rt__notice_fork(m);
    rt_ctx ctx = context(m, text, sizeof text);
    rt_host host = { m->weights, m->state, &m->generator, m->layouts, m->profile, m->profile_user, method, m->ops };
    if (what->writes_state) pthread_mutex_lock(&m->lock);
    ctx.pool = pool_borrow(m->threads);
    rt_pool_enter(ctx.pool);
    int code = rt_method_run(&ctx, what, &host, inputs, ninputs, outputs, noutputs);
    rt_pool_leave(ctx.pool);
    pool_give(ctx.pool);
    if (what->writes_state) pthread_mutex_unlock(&m->lock);
    return code ? rt__api_fail(message, room, code_of(code), "%s", *text ? text : "out of memory") : CRESSET_OK;
}

void rt_api_release(cresset_instance *m, cresset_value *value) {
    if (!m || !value) return;
    rt_ctx ctx = context(m, NULL, 0);
    rt_value_release(&ctx, value);
}

static const rt_state *find_state(const cresset_instance *m, const char *name, int32_t *at) {
    for (int32_t i = 0; i < m->model->nstates; i++)
        if (!strcmp(m->model->states[i].name, name)) return *at = i, &m->model->states[i];
    return NULL;
}

/* NULL: not there, and the message says so. */
static const rt_state *named_state(const cresset_instance *m, const char *name, int32_t *at, char *message,
                                   size_t room) {
    const rt_state *s = m && name ? find_state(m, name, at) : NULL;
    if (!m || !name) rt__api_fail(message, room, CRESSET_BAD_ARGUMENT, "%s is NULL", m ? "name" : "instance");
    else if (!s)
        rt__api_fail(message, room, CRESSET_BAD_ARGUMENT,
                     "the library has no parameter or buffer '%s' (those that were folded or packed away have no name "
                     "any "
                     "more)",
                     name);
    return s;
}

SELDOM int rt_api_get_state(cresset_instance *m, const char *name, void *data, size_t capacity, char *message,
                            size_t room) {
    int32_t i = 0;
    const rt_state *s = named_state(m, name, &i, message, room);
    if (!s) return CRESSET_BAD_ARGUMENT;
    if (!s->bytes) return CRESSET_OK;
    if (!data || capacity < s->bytes)
        return rt__api_fail(message, room, CRESSET_BAD_ARGUMENT, "'%s' needs %llu bytes, but there is room for %zu",
                            name, (unsigned long long)s->bytes, data ? capacity : 0);
    rt__notice_fork(m);
    pthread_mutex_lock(&m->lock);
    memcpy(data, m->state[i] ? m->state[i] : m->weights + s->offset, s->bytes);
    pthread_mutex_unlock(&m->lock);
    return CRESSET_OK;
}

SELDOM int rt_api_set_state(cresset_instance *m, const char *name, const void *data, size_t size, char *message,
                            size_t room) {
    int32_t i = 0;
    const rt_state *s = named_state(m, name, &i, message, room);
    if (!s) return CRESSET_BAD_ARGUMENT;
    if (!m->state[i])
        return rt__api_fail(message, room, CRESSET_BAD_ARGUMENT,
                            "'%s' is a constant of this library: only buffers that the model itself changes can be set",
                            name);
    if (!s->bytes && !size) return CRESSET_OK;
    if (!data || size != s->bytes)
        return rt__api_fail(message, room, CRESSET_BAD_ARGUMENT, "'%s' has %llu bytes, not %zu", name,
                            (unsigned long long)s->bytes, data ? size : 0);
    rt__notice_fork(m);
    pthread_mutex_lock(&m->lock);
    memcpy(m->state[i], data, size);
    pthread_mutex_unlock(&m->lock);
    return CRESSET_OK;
}

void rt_api_seed(cresset_instance *m, uint64_t value) {
    if (!m) return;
    rt__notice_fork(m);
    rt_generator_manual_seed(&m->generator, value);
}

void rt_api_profile(cresset_instance *m,
                    void (*step)(void *user, int32_t method, int32_t step, const char *origin, double seconds),
                    void *user) {
    if (!m) return;
    m->profile = step;
    m->profile_user = user;
}
