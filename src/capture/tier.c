/* tier.c: building native code beside the program that runs. */
#include "capture/tier.h"

#include "emit/emit.h"
#include "lower/lower.h"

#include <pthread.h>
#include <stdio.h>
#include <time.h>

struct cr_tier {
    int refs;          /* atomic */
    char *text;        /* the graph */
    cr_native *native; /* atomic; set once */
    int state;         /* atomic: BUILDING, then one of the others */
    char reason[256];  /* written before the state says FAILED */
};
enum { BUILDING, READY, FAILED };

static int state_of(const cr_tier *t) { return __atomic_load_n(&t->state, __ATOMIC_ACQUIRE); }

void cr_tier_release(cr_tier *t) {
    if (!t || __atomic_sub_fetch(&t->refs, 1, __ATOMIC_ACQ_REL)) return;
    cr_native_release(t->native);
    cr_free(t->text);
    cr_free(t);
}

cr_native *cr_tier_get(const cr_tier *t) { return state_of(t) == READY ? t->native : NULL; }

void cr_tier_drop(cr_tier *t, const char *reason) {
    snprintf(t->reason, sizeof t->reason, "%s", reason);
    __atomic_store_n(&t->state, FAILED, __ATOMIC_RELEASE); /* the library stays until the tier goes: it may run */
}

const char *cr_tier_state(const cr_tier *t) {
    switch (state_of(t)) {
    case BUILDING: return "building";
    case READY: return "native";
    default: return t->reason;
    }
}

/* ---- the thread ---- */

static cr_status build_library(const cr_lowered *l, cr_library **out) {
    cr_workshop shop;
    const char *path;
    CR_TRY(cr__workshop_open(&shop));
    cr_status status = cr__workshop_file(&shop, "libcaptured.so", &path);
    if (!status) status = cr_emit_library(l, path, &(cr_emit_options){ .weights = CR_WEIGHTS_INSIDE });
    if (!status) status = cr_library_open(path, out);
    cr__workshop_close(&shop);
    return status;
}

static cr_status build(cr_tier *t) {
    cr_graph *g = NULL;
    cr_lowered *l = NULL;
    cr_library *library = NULL;
    CR_TRY(cr_graph_parse(NULL, t->text, &g)); /* with symbols of its own */
    cr_status status = cr_lower_graphs(&(cr_lower_graph){ .graph = g }, 1, NULL, &l);
    if (!status) status = build_library(l, &library);
    if (!status) status = cr_native_create(library, 0, NULL, &t->native);
    cr_library_release(library);
    cr_lowered_release(l);
    cr_graph_release(g);
    return status;
}

static void *run(void *user) {
    cr_tier *t = user;
    cr_status status = build(t);
    if (status) snprintf(t->reason, sizeof t->reason, "no native code: %s", cr_error_message());
    __atomic_store_n(&t->state, status ? FAILED : READY, __ATOMIC_RELEASE);
    cr_tier_release(t);
    return NULL;
}

cr_status cr_tier_start(const cr_graph *g, cr_tier **out) {
    cr_tier *t = cr_calloc(1, sizeof *t);
    cr_str text;
    pthread_t thread;
    pthread_attr_t attributes;
    if (!t) return CR_ENOMEM;
    t->refs = 2;
    cr_str_init(&text);
    cr_graph_print(g, CR_PRINT_PLAIN, &text);
    cr_status status = cr_str_take(&text, &t->text);
    cr_str_dispose(&text);
    if (status) return cr_free(t), status;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, 8 << 20);
    if (pthread_create(&thread, &attributes, run, t)) {
        cr_tier_drop(t, "no native code: no thread can be started");
        t->refs = 1;
    }
    pthread_attr_destroy(&attributes);
    *out = t;
    return CR_OK;
}

void cr_tier_wait(cr_tier *t) {
    while (state_of(t) == BUILDING) {
        struct timespec pause = { 0, 2000000 };
        nanosleep(&pause, NULL);
    }
}
