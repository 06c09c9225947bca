/* dispatch.c: from a call to what was captured for it. See dispatch.h.
 *
 * Capturing is done once or twice. The first evaluation goes as far as it can. Where it ends early, everything that it
 * did is dropped and the function is evaluated again up to the last instruction of its own that succeeded: evaluation
 * changes nothing outside and is the same each time, so nothing has to be undone, however deep it ended. */
#include "capture/dispatch.h"

#include "capture/callable.h"
#include "capture/stamps.h"
#include "capture/suspended.h"
#include "python/py.h"

#include <time.h>

cr_switches cr_capture_switches;
bool cr_capture_timed;
cr_stance cr_capture_stance;
static _Thread_local int plain_depth, run_only_depth;
/* What the program is told when it asks whether it is captured, and whether it has asked in this evaluation. */
static _Thread_local bool capturing, asked;
static _Thread_local bool ends_at_opaque; /* ops that only another library has end a capture */

bool cr_is_capturing(void) { return asked = true, capturing; }
bool cr_set_capturing(bool on) {
    bool before = capturing;
    return capturing = on, before;
}
/* Of its derivatives, and of many examples at once, that library alone knows. */
bool cr_follows_opaque(void) {
    const cr_ambient *at = cr_ambient_get();
    return !ends_at_opaque && !at->transforms && !at->vmap;
}
void cr_plain_begin(void) { plain_depth++; }
void cr_plain_end(void) { plain_depth--; }
void cr_run_only_begin(void) { run_only_depth++; }
void cr_run_only_end(void) { run_only_depth--; }

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* ---- caches ---- */

cr_cache *cr_cache_retain(cr_cache *c) { return c->refs++, c; }

void cr_cache_release(cr_cache *c) {
    if (!c || --c->refs) return;
    for (size_t i = 0; i < c->places.n; i++) {
        cr_place *p = &c->places.at[i];
        cr_code_count((PyCodeObject *)c->code, -(Py_ssize_t)p->entries.n);
        for (size_t j = 0; j < p->entries.n; j++) cr_entry_release(p->entries.at[j]);
        cr_vec_dispose(&p->entries);
        Py_XDECREF(p->kwnames);
    }
    cr_vec_dispose(&c->places);
    cr_history_dispose(&c->history);
    Py_DECREF(c->code);
    PyMem_Free(c);
}

void cr_dispatcher_forget(cr_dispatcher *d) {
    CR_VEC(cr_cache *) caches = { d->caches.at, d->caches.n, d->caches.cap };
    d->caches.at = NULL, d->caches.n = d->caches.cap = 0;
    for (size_t i = 0; i < caches.n; i++) cr_cache_release(caches.at[i]);
    cr_vec_dispose(&caches);
}

/* Borrowed. NULL: exception. */
static cr_cache *find_cache(cr_dispatcher *d, PyObject *code, const void *of) {
    for (size_t i = 0; i < d->caches.n; i++)
        if (d->caches.at[i]->code == code && d->caches.at[i]->of == of) return d->caches.at[i];
    cr_cache *made = PyMem_Calloc(1, sizeof *made);
    if (!made || cr_vec_push(&d->caches, made)) return PyMem_Free(made), (cr_cache *)PyErr_NoMemory();
    made->refs = 1;
    made->code = Py_NewRef(code);
    made->of = of;
    cr_history_init(&made->history);
    return made;
}

cr_cache *cr_cache_of(cr_dispatcher *d, PyObject *code) { return find_cache(d, code, NULL); }

static bool names_equal(PyObject *a, PyObject *b) {
    if (a == b) return true;
    if (!a || !b || PyTuple_GET_SIZE(a) != PyTuple_GET_SIZE(b)) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a); i++)
        if (PyTuple_GET_ITEM(a, i) != PyTuple_GET_ITEM(b, i) &&
            !cr_texts_equal(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i)))
            return false;
    return true;
}

/* Borrowed, and only until Python code runs. NULL: exception. */
static cr_place *find_place(cr_cache *c, int32_t at, Py_ssize_t nargs, PyObject *kwnames) {
    if (kwnames && !PyTuple_GET_SIZE(kwnames)) kwnames = NULL;
    for (size_t i = 0; i < c->places.n; i++) {
        cr_place *p = &c->places.at[i];
        if (p->at == at && (at >= 0 || (p->nargs == nargs && names_equal(p->kwnames, kwnames)))) return p;
    }
    cr_place made = { .at = at, .nargs = nargs, .kwnames = Py_XNewRef(kwnames) };
    if (cr_vec_push(&c->places, made)) return Py_XDECREF(kwnames), (cr_place *)PyErr_NoMemory();
    return &c->places.at[c->places.n - 1];
}

static int add_entry(cr_cache *c, cr_place *p, cr_entry *e) {
    if (cr_vec_reserve(&p->entries, p->entries.n + 1)) return PyErr_NoMemory(), -1;
    memmove(p->entries.at + 1, p->entries.at, p->entries.n * sizeof *p->entries.at);
    p->entries.at[0] = cr_entry_retain(e);
    p->entries.n++;
    c->captures += p->at < 0;
    cr_code_count((PyCodeObject *)c->code, 1);
    return 0;
}

/* ---- capturing ---- */

typedef cr_request request;

int cr_begin_call(cr_capture *c, PyObject *function, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
    Py_ssize_t total = nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
    PyObject **values = PyMem_Calloc((size_t)total + 1, sizeof *values);
    int failed = values ? 0 : (PyErr_NoMemory(), -1);
    for (Py_ssize_t i = 0; !failed && i < total; i++) {
        int32_t source = cr_source(&c->guards, CR_READ_ARGUMENT, 0, NULL, (int32_t)i);
        failed = source < 0 || !(values[i] = cr_pending(c, args[i], source));
    }
    if (!failed) failed = cr_push_call(c, function, values, nargs, kwnames);
    for (Py_ssize_t i = 0; values && i < total; i++) Py_XDECREF(values[i]);
    PyMem_Free(values);
    return failed ? -1 : 0;
}

/* A local or an entry of the stack as a value. Locals are looked at when they are loaded; at what lies on the stack or
 * is a cell, nobody looks later. */
static int begin_value(cr_capture *c, const request *r, int i, int count, PyObject **out) {
    PyObject *real = r->args[i];
    int32_t source = cr_source(&c->guards, CR_READ_ARGUMENT, 0, NULL, i);
    *out = NULL;
    if (source < 0) return -1;
    if (!real) return cr_guard_object(&c->guards, source, CR_HOLDS_ABSENT, NULL);
    *out = i < count && !PyCell_Check(real) ? cr_pending(c, real, source) : cr_wrap(c, real, source);
    return *out ? 0 : -1;
}

static int begin_frame(cr_capture *c, const request *r, PyObject *function) {
    cr_call_frame *f = cr_push_frame(c, function, r->at);
    int count = f ? f->code->co_nlocalsplus : 0;
    c->midway = true;
    for (int i = 0; f && i < count; i++)
        if (begin_value(c, r, i, count, &f->locals[i])) return -1;
    for (int i = 0; f && i < r->depth; i++, f->top++)
        if (begin_value(c, r, count + i, count, &f->stack[i])) return -1;
    return f ? 0 : -1;
}

static int begin(cr_capture *c, const request *r) {
    int32_t at = cr_source(&c->guards, CR_READ_FUNCTION, 0, NULL, 0);
    PyObject *function = at < 0 ? NULL : cr_wrap(c, r->function, at);
    if (!function) return -1;
    int failed = r->at < 0 ? cr_begin_call(c, function, r->args, r->nargs, r->kwnames) : begin_frame(c, r, function);
    Py_DECREF(function);
    return failed;
}

/* Names of what the guards call arguments: parameters, then keywords; or the frame's variables. */
static PyObject *argument_names(const request *r) {
    PyCodeObject *code = (PyCodeObject *)PyFunction_GET_CODE(r->function);
    if (r->at >= 0) return Py_NewRef(code->co_localsplusnames);
    Py_ssize_t n = CR_MIN(r->nargs, code->co_argcount);
    PyObject *names = PyTuple_GetSlice(code->co_localsplusnames, 0, n), *all;
    if (!names || !r->kwnames || n < r->nargs) return names;
    all = PySequence_Concat(names, r->kwnames);
    Py_DECREF(names);
    return all;
}

/* Evaluates up to `stop`; `settles`: CR_SETTLES_*. 0: c is to be looked at; -1: exception. c is to be
 * disposed of either way. */
static int evaluate(cr_capture *c, const request *r, long stop, int settles) {
    if (cr_capture_begin(c, false) || !(c->guards.names = argument_names(r))) return -1;
    c->stop = stop;
    c->at = r->at;
    c->dynamic = r->d->dynamic & CR_DYNAMIC_NUMBERS;
    c->history = c->dynamic ? &r->cache->history : NULL;
    c->settles = settles;
    c->follows = settles < CR_SETTLES_DATA ? r->d->dynamic & ~(unsigned)CR_DYNAMIC_NUMBERS : 0;
    if (c->follows) cr_capture_lines(c);
    asked = false;
    cr_trace_begin(c->trace, true);
    int failed = begin(c, r) || cr_evaluate(c);
    cr_trace_end(c->trace);
    bool own = !PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_Exception); /* not Ctrl-C */
    if (failed && !c->reason && own) cr_break(c, "it cannot be captured");
    if (failed && c->reason) PyErr_Clear();
    return PyErr_Occurred() ? -1 : 0;
}

/* The capture ended early in its last step: once more, up to there. */
static int evaluate_again(cr_capture *c, const request *r) {
    PyObject *reason = c->reason, *where = c->where;
    long stop = c->steps - 1;
    bool runaway = c->left <= 0, raises = c->raises;
    int settles = c->settles;
    c->reason = c->where = NULL;
    if (r->d->unsupported == Py_None && stop >= 0 && !runaway) {
        cr_capture_dispose(c);
        if (evaluate(c, r, stop, settles)) return Py_XDECREF(reason), Py_XDECREF(where), -1;
    }
    Py_XSETREF(c->reason, reason);
    Py_XSETREF(c->where, where);
    c->raises = raises;
    return 0;
}

/* Evaluates as far as it goes. Where open numbers are in the way, without them if that goes further. */
static int evaluate_all(cr_capture *c, const request *r, int settles) {
    long every = cr_capture_switches.every, stop = every ? every : -1;
    if (evaluate(c, r, stop, settles)) return -1;
    if (!c->reason || c->steps == c->stop + 1) return 0;
    if (c->numbers && c->numbers->symbols.n && !settles) {
        long steps = c->steps;
        cr_capture_dispose(c);
        if (evaluate(c, r, stop, CR_SETTLES_NUMBERS)) return -1;
        if (c->reason && c->steps <= steps) {
            cr_capture_dispose(c);
            if (evaluate(c, r, stop, CR_SETTLES_NOTHING)) return -1;
        }
    }
    return c->reason && c->steps != c->stop + 1 ? evaluate_again(c, r) : 0;
}

/* A program that was told that it is captured may raise for that alone, where it would not if it ran plain: it takes
 * another way, which needs what only that way gives. Then it is told what plain Python tells it. */
static int evaluate_told(cr_capture *c, const request *r, int settles) {
    capturing = true;
    if (evaluate_all(c, r, settles)) return -1;
    if (!c->raises || !asked) return 0;
    cr_capture_dispose(c);
    capturing = false;
    return evaluate_all(c, r, settles);
}

/* What came later may forbid what was let through: then once more, without that. */
static int evaluate_fitting(cr_capture *c, const request *r, int settles) {
    int failed = evaluate_told(c, r, settles);
    while (!failed) {
        bool order = cr_reordered_too_late(c), grad = cr_grad_came_too_late(c);
        if (!order && !grad) break;
        if (order) cr_set_keeps_order(true);
        if (grad) cr_set_keeps_grad(true);
        cr_capture_dispose(c);
        failed = evaluate_told(c, r, settles);
    }
    return failed;
}

/* The entry of what the first `stop` instructions do, with the reason why the whole is none. NULL: exception. */
static cr_entry *capture_part(const request *r, long stop, int settles, PyObject *reason, PyObject *where) {
    cr_capture c;
    cr_entry *e = NULL;
    if (!evaluate(&c, r, stop, settles)) {
        Py_XSETREF(c.reason, Py_NewRef(reason));
        Py_XSETREF(c.where, Py_XNewRef(where));
        e = cr_entry_new(&c, (PyCodeObject *)PyFunction_GET_CODE(r->function));
    }
    cr_capture_dispose(&c);
    return e;
}

/* What is live where a capture ends may be nothing that can be made again: a generator that waits, an exception that is
 * handled. Then it ends earlier, before that came to be: at one of the instructions just before, else found by halving,
 * since what has come to be mostly stays. Takes over the entry that says so, and gives it or a better one. */
static cr_entry *end_earlier(const request *r, const cr_capture *c, cr_entry *e) {
    enum { NEAR = 32 };
    long low = 1, high = c->steps - 2;
    if (!e || !e->reason || e->resumes || r->d->unsupported != Py_None || c->left <= 0) return e;
    for (int tries = 0; low <= high; tries++) {
        long stop = tries < NEAR ? high : (low + high + 1) / 2;
        cr_entry *part = capture_part(r, stop, c->settles, c->reason, c->where);
        if (!part) return cr_entry_release(e), NULL;
        if (!part->resumes) {
            cr_entry_release(part);
            high = stop - 1;
            continue;
        }
        cr_entry_release(e);
        e = part;
        low = stop + 1;
    }
    return e;
}

/* NULL: exception. */
static cr_entry *capture(const request *r, int settles) {
    cr_capture c;
    cr_entry *e = NULL;
    cr_frontends_look();
    bool collects = PyGC_Disable(); /* a finalizer's ops would be recorded */
    bool outer = capturing, outer_asked = asked; /* a function that a capture runs for real may be compiled, too */
    r->cache->capturing = true;
    bool ordered = cr_set_keeps_order(false), kept = cr_set_keeps_grad(false);
    int failed = evaluate_fitting(&c, r, settles);
    if (!failed)
        e = end_earlier(r, &c, cr_entry_new(&c, (PyCodeObject *)PyFunction_GET_CODE(r->function)));
    cr_capture_dispose(&c);
    cr_set_keeps_order(ordered);
    cr_set_keeps_grad(kept);
    r->cache->capturing = false;
    capturing = outer, asked = outer_asked;
    if (collects) PyGC_Enable();
    return e;
}

/* Gives the graph to the backend. */
static int compile_graph(const cr_dispatcher *d, cr_entry *e, PyObject *const *slots) {
    if (!e->graph) return 0;
    if (d->backend == Py_None || PyUnicode_Check(d->backend)) {
        cr_tier_ways ways = d->backend == Py_None ? 0 : d->ways;
        int failed = cr_entry_build(e, slots, ways);
        if (!failed && ways & CR_TIER_WAIT) cr_wait_for_code(e);
        return failed;
    }
    cr_graph_retain(e->graph);
    PyObject *graph = cr_py_graph_new(e->graph), *examples = graph ? PyList_New(0) : NULL;
    for (uint32_t i = 0; examples && i < e->ninputs; i++)
        if (PyList_Append(examples, slots[e->inputs[i]])) Py_CLEAR(examples);
    PyObject *name = examples && e->frontend->build ? PyUnicode_FromString(e->frontend->name) : NULL;
    bool ready = examples && !PyErr_Occurred();
    PyObject *made = ready ? PyObject_CallFunctionObjArgs(d->backend, graph, examples, name, NULL) : NULL;
    Py_XDECREF(name);
    Py_XDECREF(graph);
    Py_XDECREF(examples);
    if (!made && e->frontend->build) return cr_entry_refuse(e);
    if (made && !PyCallable_Check(made)) {
        PyErr_Format(PyExc_TypeError, "the backend returned a %s, which cannot be called", Py_TYPE(made)->tp_name);
        Py_CLEAR(made);
    }
    e->compiled = made;
    return made ? 0 : -1;
}

/* Sizes that mark_dynamic() promised must be open still. */
static int check_promises(const cr_guards *g, const cr_numbers *n) {
    for (size_t i = 0; i < n->promises.n; i++) {
        const cr_promise *p = &n->promises.at[i];
        cr_range range = p->symbol ? cr_sym_range(n->env, p->symbol) : (cr_range){ 0, 0 };
        bool kept = p->symbol && range.lo < range.hi &&
                    (!p->bounded || (range.lo <= CR_MAX(2, p->range.lo) && range.hi >= p->range.hi));
        if (kept) continue;
        PyObject *place = cr_place_text(g, p->slot, p->dim, false), *all = PyList_New(0);
        for (size_t k = 0; all && p->symbol && k < cr_env_cond_count(n->env); k++) {
            PyObject *text = cr_expr_text(g, cr_env_cond(n->env, k).condition);
            if (!text || PyList_Append(all, text)) Py_CLEAR(all);
            Py_XDECREF(text);
        }
        PyObject *bounds = p->bounded ? Py_BuildValue("LL", (long long)p->range.lo, (long long)p->range.hi)
                                      : Py_NewRef(Py_None);
        PyObject *module = place && all && bounds ? PyImport_ImportModule("cresset._compile") : NULL;
        PyObject *none = NULL;
        if (module) none = PyObject_CallMethod(module, "_violated", "OOLO", place, all, (long long)p->size, bounds);
        Py_XDECREF(none);
        Py_XDECREF(module);
        Py_XDECREF(bounds);
        Py_XDECREF(place);
        Py_XDECREF(all);
        return -1;
    }
    return 0;
}

/* What was asked about open numbers, so far. */
static int seal_numbers(cr_entry *e) {
    cr_numbers *n = cr_guards_numbers(&e->guards);
    return !n ? 0 : cr_numbers_seal(n) || check_promises(&e->guards, n) ? -1 : 0;
}

/* What was read a moment ago must hold now: an entry for which it does not would never be used. 0: slots are filled. */
static int check_fresh(const request *r, cr_entry *e, PyObject **slots) {
    int32_t row = cr_guards_check(&e->guards, r->args, r->function, slots);
    if (row < 0 || (e->reason && !e->resumes)) return 0;
    e->resumes = false; /* it runs plain, whatever it was */
    if (e->reason) return 0;
    PyObject *text = cr_guard_text(&e->guards, (size_t)row);
    if (text) e->reason = PyUnicode_FromFormat("a guard does not hold right after capture: %U", text);
    Py_XDECREF(text);
    return e->reason ? 0 : -1;
}

static int observe(const request *r, cr_entry *e) {
    const cr_place *p = find_place(r->cache, r->at, r->nargs, r->kwnames);
    PyObject *missed = p && p->entries.n ? cr_misses(r, p, true) : NULL;
    if (PyErr_Occurred()) return -1;
    int failed = cr_observe(r->d, e, r->cache, r->at, missed);
    Py_XDECREF(missed);
    return failed;
}

static bool has_opaque(const cr_graph *g) {
    for (uint32_t n = g ? cr_graph_first(g) : CR_NO_NODE; n != CR_NO_NODE; n = cr_graph_next(g, n)) {
        const cr_node *node = cr_graph_node(g, n);
        if (node->kind == CR_NODE_CALL && !strcmp(node->op->name, "cresset::opaque")) return true;
    }
    return false;
}

/* Captures and compiles. *slots (PyMem_Free) are filled. NULL: exception. */
static cr_entry *build_entry(const request *r, int settles, PyObject ***slots) {
    double begin = seconds_now();
    cr_entry *e = capture(r, settles);
    if (e) e->capture_seconds = seconds_now() - begin;
    *slots = e ? PyMem_Calloc(e->guards.slots + 1, sizeof **slots) : NULL;
    if (e && !*slots) PyErr_NoMemory();
    int failed = !*slots || seal_numbers(e) || check_fresh(r, e, *slots);
    bool plain = !failed && e->reason && !e->resumes;
    bool ends = e && e->data && r->d->unsupported == Py_None; /* a capture up to what is read from data will do */
    if (plain && ends && settles < CR_SETTLES_DATA) {
        PyMem_Free(*slots); /* nothing of it is captured: up to what is read from data, then */
        cr_entry_release(e);
        return build_entry(r, CR_SETTLES_DATA, slots);
    }
    if (!failed && !plain) {
        /* a backend may change anything: what the slots hold is read again */
        begin = seconds_now();
        failed = compile_graph(r->d, e, *slots);
        e->compile_seconds = seconds_now() - begin;
        if (!failed) failed = seal_numbers(e) || check_fresh(r, e, *slots);
        bool open = cr_guards_numbers(&e->guards) && settles < CR_SETTLES_NUMBERS;
        int more = open ? CR_SETTLES_NUMBERS : ends ? CR_SETTLES_DATA : 0;
        bool lost = !failed && e->reason && !e->resumes && more;
        if (!lost) r->d->misses += !e->reason;
        else if (settles < more) { /* what can be captured with these sizes, is */
            PyMem_Free(*slots);
            cr_entry_release(e);
            return build_entry(r, more, slots);
        }
        if (!failed && e->reason && !e->resumes && !ends_at_opaque && has_opaque(e->graph)) { /* with breaks, then */
            PyMem_Free(*slots);
            cr_entry_release(e);
            ends_at_opaque = true;
            e = build_entry(r, settles, slots);
            return ends_at_opaque = false, e;
        }
    }
    if (!failed) return e;
    PyMem_Free(*slots);
    *slots = NULL;
    cr_entry_release(e);
    return NULL;
}

/* ... and keeps. A new reference; NULL: exception. */
static cr_entry *make_entry(const request *r, PyObject ***slots) {
    cr_entry *e = build_entry(r, CR_SETTLES_NOTHING, slots);
    bool lost = !e;
    if (e && cr_is_observed()) { /* observers may change anything, as backends may */
        bool runs = !e->reason || e->resumes;
        lost = observe(r, e) || (runs && check_fresh(r, e, *slots));
    }
    if (!lost) e->guards.needed = cr_entry_needed(e);
    cr_place *now = !lost ? find_place(r->cache, r->at, r->nargs, r->kwnames) : NULL;
    if (now && !add_entry(r->cache, now, e)) return e;
    PyMem_Free(*slots);
    *slots = NULL;
    cr_entry_release(e);
    return NULL;
}

/* ---- finding ---- */

/* The first entry of the place whose guards hold; *slots are filled. Borrowed. NULL: none, or an exception. */
static cr_entry *find_entry(const request *r, const cr_place *p, PyObject **small, PyObject ***slots) {
    const cr_frontend *asked = NULL;
    uint64_t ambient = 0;
    for (size_t i = 0; i < p->entries.n; i++) {
        cr_entry *e = p->entries.at[i];
        if (e->frontend != asked) ambient = (asked = e->frontend)->ambient();
        if (e->ambient != ambient || (e->asks_casts && e->casts != asked->casts())) continue;
        *slots = e->guards.slots > CR_SMALL_SLOTS ? PyMem_Malloc(e->guards.slots * sizeof **slots) : small;
        if (!*slots) return (cr_entry *)PyErr_NoMemory();
        bool missed = cr_capture_switches.miss_once && !e->missed;
        e->missed = true;
        int32_t row = missed ? 0 : cr_guards_hold(&e->guards, r->args, r->function, *slots);
        if (row < 0) return e->hits++, e;
        if (!missed) e->guards.rows.at[row].misses++;
        if (*slots != small) PyMem_Free(*slots);
    }
    *slots = NULL;
    return NULL;
}

/* Is nothing to be captured or used now? Who records wants what is inside. */
static bool is_off(void) {
    const cr_ambient *a = cr_ambient_get();
    return a->mode.recorder || a->mode.fake || a->tracer || plain_depth || cr_capture_stance == CR_STANCE_PLAIN;
}

/* Nothing captured fits: may it be captured? 0: no; -1: that is an error. */
static int may_capture(const request *r, const cr_place *p) {
    const cr_code *code = cr_code_get((PyCodeObject *)r->cache->code);
    if (!code) return -1;
    if (run_only_depth) return 0;
    if (code->skipped) return r->d->unsupported == Py_None ? 0 : cr_tell_skipped(r);
    if (cr_capture_stance != CR_STANCE_FAIL_ON_MISS) return cr_capture_stance == CR_STANCE_DEFAULT;
    return cr_tell_stance(r, p);
}

cr_entry *cr_find_at(cr_dispatcher *d, cr_cache *cache, PyObject *function, PyObject *const *state, int depth,
                     int32_t at, PyObject **small, PyObject ***slots) {
    request r = { .d = d, .cache = cache, .function = function, .at = at, .args = state, .depth = depth };
    if (cache->capturing || is_off()) return NULL;
    cr_place *p = find_place(cache, at, 0, NULL);
    if (!p) return NULL;
    cr_entry *e = find_entry(&r, p, small, slots);
    if (e) return cr_entry_retain(e);
    if (PyErr_Occurred() || may_capture(&r, p) <= 0) return NULL;
    if ((Py_ssize_t)p->entries.n >= d->limit || cr_is_full(&r)) return cr_tell_limit(&r, p), NULL;
    return make_entry(&r, slots);
}

/* ---- calling ---- */

static PyObject *call_plain(cr_dispatcher *d, PyObject *function, PyObject *const *args, size_t nargs,
                            PyObject *kwnames) {
    d->plain++;
    return PyObject_Vectorcall(function, args, nargs, kwnames);
}

static PyObject *raise_unsupported(const cr_dispatcher *d, const cr_entry *e) {
    return PyErr_Format(e->error ? e->error : d->unsupported,
                        "%U%V\n  fullgraph=True asks for one graph of the whole call; without it, such "
                        "calls run plain",
                        e->reason, e->callers, "");
}

int cr_run_entry(cr_entry *e, PyObject *const *slots, PyObject **result, PyObject **state) {
    if (cr_capture_switches.fail_graphs && e->graph) return 0;
    if (!cr_capture_timed) return cr_entry_run(e, slots, result, state);
    double begin = seconds_now();
    int done = cr_entry_run(e, slots, result, state);
    e->run_seconds += seconds_now() - begin;
    return done;
}

/* Runs the entry; what it cannot do is done plain. */
static PyObject *run(const request *r, cr_entry *e, PyObject *const *slots) {
    cr_dispatcher *d = r->d;
    PyObject *result = NULL, **state = NULL;
    if (e->reason && d->unsupported != Py_None) return raise_unsupported(d, e);
    PyCodeObject *code = (PyCodeObject *)PyFunction_GET_CODE(r->function);
    if (e->reason && (!e->resumes || cr_is_watched(code) || cr_is_near_limit()))
        return call_plain(d, r->function, r->args, (size_t)r->nargs, r->kwnames);
    if (e->resumes && !(state = PyMem_Calloc(e->state.n + 1, sizeof *state))) return PyErr_NoMemory();
    int done = cr_run_entry(e, slots, &result, state);
    if (done == 1 && e->resumes) {
        d->plain++;
        result = cr_resume(d, r->cache, e, r->function, r->args, r->nargs, r->kwnames, state);
        state = NULL;
    }
    PyMem_Free(state);
    if (done) return result;
    d->failed++;
    return call_plain(d, r->function, r->args, (size_t)r->nargs, r->kwnames);
}

static PyObject *dispatch(cr_dispatcher *d, PyObject *function, const void *of, PyObject *const *args, Py_ssize_t nargs,
                          PyObject *kwnames) {
    request r = { .d = d, .function = function, .at = -1, .args = args, .nargs = nargs, .kwnames = kwnames };
    r.cache = find_cache(d, PyFunction_GET_CODE(function), of);
    if (!r.cache) return NULL;
    if (r.cache->capturing || is_off()) return call_plain(d, function, args, (size_t)nargs, kwnames);
    if (!of && d->unsupported == Py_None && cr_is_suspended_code((PyCodeObject *)r.cache->code))
        return cr_suspended_new(d, call_plain(d, function, args, (size_t)nargs, kwnames));
    PyObject *small[CR_SMALL_SLOTS], **slots = NULL, *result = NULL;
    cr_place *p = find_place(r.cache, -1, nargs, kwnames);
    if (!p) return NULL;
    cr_entry *e = find_entry(&r, p, small, &slots);
    int may = e || PyErr_Occurred() ? 1 : may_capture(&r, p);
    if (!e && PyErr_Occurred()) return NULL;
    if (!may) return call_plain(d, function, args, (size_t)nargs, kwnames);
    cr_cache_retain(r.cache); /* it may be forgotten while it runs */
    if (e) {
        d->hits++;
        cr_entry_retain(e);
    } else if (r.cache->captures < d->limit && !cr_is_full(&r)) {
        e = make_entry(&r, &slots);
    } else if (!cr_tell_limit(&r, p)) {
        result = call_plain(d, function, args, (size_t)nargs, kwnames);
    }
    if (e) result = run(&r, e, slots);
    if (slots != small) PyMem_Free(slots);
    cr_entry_release(e);
    cr_cache_release(r.cache);
    return result;
}

PyObject *cr_dispatch(cr_dispatcher *d, PyObject *function, PyObject *const *args, Py_ssize_t nargs,
                      PyObject *kwnames) {
    return dispatch(d, function, NULL, args, nargs, kwnames);
}

/* ---- what a break calls ---- */

/* Code of the standard library runs as it is: nothing of it is of use in a graph. */
static bool is_of_library(const PyCodeObject *code) {
    static PyObject *folder; /* once */
    if (!folder) {
        PyObject *os = PyImport_ImportModule("os"), *file = os ? PyObject_GetAttrString(os, "__file__") : NULL;
        Py_ssize_t n = file && PyUnicode_Check(file) ? PyUnicode_FindChar(file, '/', 0, PyUnicode_GET_LENGTH(file), -1)
                                                     : -1;
        folder = n > 0 ? PyUnicode_Substring(file, 0, n + 1) : NULL;
        Py_XDECREF(os);
        Py_XDECREF(file);
        PyErr_Clear();
    }
    return folder && PyUnicode_Tailmatch(code->co_filename, folder, 0, PY_SSIZE_T_MAX, -1) == 1 &&
           PyUnicode_Find(code->co_filename, folder, 0, PY_SSIZE_T_MAX, 1) == 0 &&
           !strstr(PyUnicode_AsUTF8(code->co_filename), "site-packages");
}

/* Is it called as every function is? PyFunction_SetVectorcall may have put something else in its place. */
static bool is_called_plainly(PyObject *function) {
    static vectorcallfunc plain; /* once: that of a new function, whose name is CPython's own */
    if (!plain) {
        PyObject *made = PyFunction_New(PyFunction_GET_CODE(function), PyFunction_GET_GLOBALS(function));
        if (made) plain = ((PyFunctionObject *)made)->vectorcall;
        PyErr_Clear();
        Py_XDECREF(made);
    }
    return ((PyFunctionObject *)function)->vectorcall == plain;
}

static bool is_machinery(const PyCodeObject *code) {
    const char *file = PyUnicode_AsUTF8(code->co_filename);
    const cr_frontend *fe;
    if (!file) return PyErr_Clear(), false;
    for (size_t i = 0; (fe = cr_frontend_at(i)); i++)
        for (size_t k = 0; fe->machinery && fe->machinery[k]; k++)
            if (strstr(file, fe->machinery[k])) return true;
    return false;
}

static bool is_captured(PyObject *function) {
    const PyCodeObject *code = (PyCodeObject *)PyFunction_GET_CODE(function);
    int suspends = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE;
    if (cr_is_left_alone(function)) return false;
    return !(code->co_flags & suspends) && !is_of_library(code) && !is_machinery(code) && is_called_plainly(function);
}

bool cr_is_program_frame(PyCodeObject *code, PyObject *function) {
    const char *file = PyUnicode_AsUTF8(code->co_filename);
    if (!file) return PyErr_Clear(), false;
    if (is_of_library(code) || is_machinery(code) || *file == '<') return false;
    return !PyFunction_Check(function) || !cr_is_left_alone(function);
}

static PyObject *dispatch_with_self(cr_dispatcher *d, PyObject *function, PyObject *self, PyObject *const *args,
                                    Py_ssize_t nargs, PyObject *kwnames) {
    Py_ssize_t total = nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
    PyObject *small[CR_SMALL_SLOTS],
        **all = total < CR_SMALL_SLOTS ? small : PyMem_Malloc(((size_t)total + 1) * sizeof *all);
    if (!all) return PyErr_NoMemory();
    all[0] = self;
    for (Py_ssize_t i = 0; i < total; i++) all[i + 1] = args[i];
    Py_INCREF(function);
    Py_INCREF(self);
    PyObject *result = dispatch(d, function, Py_TYPE(self), all, nargs + 1, kwnames);
    Py_DECREF(function);
    Py_DECREF(self);
    if (all != small) PyMem_Free(all);
    return result;
}

PyObject *cr_dispatch_callee(cr_dispatcher *d, PyObject *callable, PyObject *const *args, Py_ssize_t nargs,
                             PyObject *kwnames) {
    static PyObject *name; /* once */
    if (!name && !(name = PyUnicode_InternFromString("__call__"))) return NULL;
    if (is_off()) return PyObject_Vectorcall(callable, args, (size_t)nargs, kwnames);
    if (PyFunction_Check(callable) && is_captured(callable))
        return dispatch(d, callable, nargs ? Py_TYPE(args[0]) : NULL, args, nargs, kwnames);
    if (PyMethod_Check(callable) && PyFunction_Check(PyMethod_GET_FUNCTION(callable)) &&
        is_captured(PyMethod_GET_FUNCTION(callable)))
        return dispatch_with_self(d, PyMethod_GET_FUNCTION(callable), PyMethod_GET_SELF(callable), args, nargs,
                                  kwnames);
    PyTypeObject *type = Py_TYPE(callable);
    PyObject *call = cr_is_python_class(type) && !PyType_Check(callable) && !cr_is_callable(callable)
                         ? _PyType_Lookup(type, name)
                         : NULL;
    if (call && PyFunction_Check(call) && is_captured(call))
        return dispatch_with_self(d, call, callable, args, nargs, kwnames);
    if (cr_is_disabled_call(callable, args, nargs, kwnames)) return cr_call_disabled(d, args, nargs);
    return PyObject_Vectorcall(callable, args, (size_t)nargs, kwnames);
}
