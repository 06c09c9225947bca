/* profile.c: the steps of native code, timed; see profile.h. */
#include "cli/profile.h"

#include <stdlib.h>

typedef struct watcher { profile *p; bool failed; } watcher;

static void see_step(void *user, int32_t method, int32_t step, const char *origin, double seconds) {
    watcher *w = user;
    (void)method;
    size_t i = (size_t)step;
    while (w->p->steps.n <= i && !w->failed) w->failed = cli_push(&w->p->steps, (step_time){ NULL, 0, 0 }) != CR_OK;
    if (w->failed) return;
    step_time *s = &w->p->steps.at[i];
    if (!s->origin && !(s->origin = cr_strdup(origin))) w->failed = true;
    s->seconds += seconds;
    s->count++;
}

static int by_time(const void *a, const void *b) {
    const step_time *x = a, *y = b;
    return (x->seconds < y->seconds) - (x->seconds > y->seconds);
}

/* Steps of one origin are one row. */
static void join_steps(profile *p) {
    size_t n = 0;
    for (size_t i = 0; i < p->steps.n; i++) {
        step_time s = p->steps.at[i];
        size_t k = 0;
        if (!s.origin) continue;
        while (k < n && strcmp(p->steps.at[k].origin, s.origin)) k++;
        if (k == n) {
            p->steps.at[n++] = s;
            continue;
        }
        p->steps.at[k].seconds += s.seconds;
        p->steps.at[k].count += s.count;
        cr_free(s.origin);
    }
    p->steps.n = n;
    if (n) qsort(p->steps.at, n, sizeof *p->steps.at, by_time);
}

static cr_status call_once(cr_native *native, const model *m, const input_set *inputs) {
    size_t n = cr_signature_output_count(m->signature);
    cr_arg *results = cr_calloc(n + 1, sizeof *results);
    if (!results) return CR_ENOMEM;
    cr_status status = cr_native_run(native, m->method, inputs->args, inputs->n, results, n);
    if (!status) cr_results_release(results, n);
    cr_free(results);
    return status;
}

cr_status profile_native(cr_native *native, const model *m, const input_set *inputs, profile *out) {
    watcher w = { out, false };
    double begin = cli_seconds();
    if (!cr_native_profile(native, see_step, &w))
        return CR_FAIL(CR_EUNSUPPORTED, "the library was made before there was a profile; compile it again");
    cr_status status = CR_OK;
    cli_stage("profiling");
    do status = call_once(native, m, inputs), out->calls++;
    while (!status && out->calls < 1000 && cli_seconds() - begin < 0.5);
    cr_native_profile(native, NULL, NULL);
    if (!status && w.failed) status = CR_FAIL(CR_ENOMEM, "out of memory");
    join_steps(out);
    return status;
}

double profile_total(const profile *p) {
    double total = 0;
    for (size_t i = 0; i < p->steps.n; i++) total += p->steps.at[i].seconds;
    return total > 0 ? total : 1;
}

void profile_dispose(profile *p) {
    for (size_t i = 0; i < p->steps.n; i++) cr_free(p->steps.at[i].origin);
    cli_vec_dispose(&p->steps);
}
