/* strict.c: export through capture.
 *
 * A program that is exported strictly, or whose tensors are another library's, is evaluated as compile() would evaluate
 * it, once and whole. It records in the trace of the exporter's tracer, on the exporter's fakes: what stands for a
 * tensor of the program is asked (`stands`), and no tensor is guarded. What the call changed is then written, and its
 * result made, with fakes in it: the exporter looks at both as if the program had run, and puts back what changed. */
#include "capture/entry.h"

#include "capture/capture.h"
#include "capture/dispatch.h"
#include "python/tracer.h"

/* ---- where the program is ---- */

static cr_status walk(void *user, cr_py_visit visit, void *to) {
    const cr_capture *c = user;
    cr_status status = CR_OK;
    for (const cr_call_frame *f = c->frame; f && !status; f = f->back)
        status = visit(to, &(cr_py_spot){ f, f->code, f->instructions->at[f->current].own * 2, f->globals });
    return status;
}

int cr_strict_enter(cr_capture *c, cr_call_frame *f) {
    static PyObject *name; /* once */
    PyObject *self = f->code->co_argcount ? f->locals[0] : NULL;
    if (!name && !(name = PyUnicode_InternFromString("__call__"))) return -1;
    if (!self || !cr_is_token(self)) return 0;
    PyObject *call = _PyType_Lookup(Py_TYPE(cr_real(self)), name);
    const cr_frontend *fe = cr_frontend_of(cr_real(self));
    if (!call || !PyFunction_Check(call) || PyFunction_GET_CODE(call) != (PyObject *)f->code || !fe ||
        fe->kind(cr_real(self)) != CR_KIND_MODULE)
        return 0;
    f->enters = true;
    return cr_py_tracer_enter(c->tracer, cr_real(self));
}

void cr_strict_leave(const cr_capture *c) { cr_py_origins_leave(cr_py_tracer_origins(c->tracer)); }

/* ---- what is told to somebody ---- */

static bool is_one_of(PyObject *name, const char *const *names, size_t n) {
    for (size_t i = 0; name && PyUnicode_Check(name) && i < n; i++)
        if (!PyUnicode_CompareWithASCIIString(name, names[i])) return true;
    return false;
}

bool cr_strict_drops(PyObject *callable) {
    static const char *const logs[] = { "debug", "info", "warning", "warn", "error", "exception", "critical", "log" };
    static const char *const tells[] = { "print", "warn", "warn_explicit" };
    static const char *const tellers[] = { "builtins", "warnings", "_warnings" };
    bool in_c = PyCFunction_Check(callable);
    if (!in_c && !PyFunction_Check(callable)) return false;
    PyObject *module = in_c ? ((PyCFunctionObject *)callable)->m_module : ((PyFunctionObject *)callable)->func_module;
    PyObject *name = in_c ? PyUnicode_FromString(((PyCFunctionObject *)callable)->m_ml->ml_name)
                          : Py_NewRef(((PyFunctionObject *)callable)->func_name);
    static const char *const logging[] = { "logging" };
    bool drops = (is_one_of(module, tellers, CR_COUNT(tellers)) && is_one_of(name, tells, CR_COUNT(tells))) ||
                 (is_one_of(module, logging, 1) && is_one_of(name, logs, CR_COUNT(logs)));
    Py_XDECREF(name);
    return drops;
}

/* ---- one export ---- */

typedef struct strict {
    cr_capture c;
    PyObject *function;
    PyObject **args;     /* owned by the caller */
    Py_ssize_t nargs;
    PyObject *kwnames;   /* NULL: none */
} strict;

static int begin(strict *s, PyObject *tracer, PyObject *stands) {
    cr_capture *c = &s->c;
    if (cr_capture_begin_in(c, tracer, stands)) return -1;
    c->guards.names = Py_NewRef(((PyCodeObject *)PyFunction_GET_CODE(s->function))->co_localsplusnames);
    int32_t at = cr_source(&c->guards, CR_READ_FUNCTION, 0, NULL, 0);
    PyObject *function = at < 0 ? NULL : cr_wrap(c, s->function, at);
    if (!function) return -1;
    int failed = cr_begin_call(c, function, s->args, s->nargs, s->kwnames);
    Py_DECREF(function);
    return failed;
}

static int evaluate(strict *s, PyObject *tracer, PyObject *stands, PyObject *fn) {
    cr_py_origins *origins = cr_py_tracer_origins(tracer);
    cr_py_recording before = cr_py_tracer_begin(tracer, fn);
    bool collects = PyGC_Disable(); /* a finalizer's ops would be recorded */
    bool outer = cr_set_capturing(true);
    size_t depth = origins->stack.n;
    origins->walk = walk, origins->user = &s->c;
    int failed = begin(s, tracer, stands) || cr_evaluate(&s->c) ? -1 : 0;
    origins->walk = NULL, origins->user = NULL;
    while (origins->stack.n > depth) cr_py_origins_leave(origins); /* frames that failed */
    while (s->c.frame) s->c.frame->enters = false, cr_pop_frame(&s->c);
    cr_set_capturing(outer);
    if (collects) PyGC_Enable();
    cr_py_tracer_end(tracer, before);
    return failed;
}

static int add_texts(const cr_guards *g, PyObject *list) {
    for (size_t i = 0; i < g->rows.n; i++) {
        PyObject *text = cr_guard_text(g, i);
        int failed = !text || PyList_Append(list, text);
        Py_XDECREF(text);
        if (failed) return -1;
    }
    return 0;
}

/* Its result as the program would have it, and its changes made. */
static PyObject *finish(strict *s, PyObject *guards) {
    PyObject *result = NULL;
    cr_entry *e = cr_entry_new(&s->c, (PyCodeObject *)PyFunction_GET_CODE(s->function));
    PyObject **slots = e ? PyMem_Calloc(e->guards.slots + 1, sizeof *slots) : NULL;
    if (e && !slots) PyErr_NoMemory();
    int32_t row = slots && !e->reason ? cr_guards_check(&e->guards, s->args, s->function, slots) : -1;
    if (slots && e->reason) cr_break(&s->c, "%U", e->reason);
    else if (row >= 0) {
        PyObject *text = cr_guard_text(&e->guards, (size_t)row);
        if (text) cr_break(&s->c, "what it read has changed meanwhile: %U", text);
        Py_XDECREF(text);
    } else if (slots) {
        cr_entry_run(e, slots, &result, NULL);
        if (result && PyList_Check(guards) && add_texts(&e->guards, guards)) Py_CLEAR(result);
    }
    PyMem_Free(slots);
    cr_entry_release(e);
    return result;
}

/* (result, None), or (None, why it is no whole graph). */
static PyObject *answer(strict *s, PyObject *result) {
    cr_capture *c = &s->c;
    if (result) return Py_BuildValue("(NO)", result, Py_None);
    if (!c->reason || (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception))) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "export(): the program cannot be captured");
        return NULL;
    }
    PyErr_Clear();
    if (!c->where) return Py_BuildValue("(OO)", Py_None, c->reason);
    return Py_BuildValue("(ON)", Py_None, PyUnicode_FromFormat("%U: %U", c->where, c->reason));
}

static PyObject *capture_export(PyObject *module, PyObject *args) {
    PyObject *tracer, *mod, *function, *given, *names, *stands, *guards, *outcome = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOO!O!O!OO:_capture_export", &tracer, &mod, &PyFunction_Type, &function, &PyTuple_Type,
                          &given, &PyTuple_Type, &names, &stands, &guards))
        return NULL;
    if (!cr_py_tracer_check(tracer)) return PyErr_Format(PyExc_TypeError, "_capture_export() takes a _Tracer");
    cr_frontends_look();
    Py_ssize_t nkw = PyTuple_GET_SIZE(names);
    strict s = { .function = function,
                 .args = ((PyTupleObject *)given)->ob_item,
                 .nargs = PyTuple_GET_SIZE(given) - nkw,
                 .kwnames = nkw ? names : NULL };
    outcome = evaluate(&s, tracer, stands, mod) ? answer(&s, NULL) : answer(&s, finish(&s, guards));
    cr_capture_dispose(&s.c);
    return outcome;
}

static PyMethodDef functions[] = {
    { "_capture_export", capture_export, METH_VARARGS,
      "_capture_export(tracer, module, function, arguments, keywords, stands, guards): evaluates a call of the "
      "function; the last of the arguments are those of the keywords. (result, None), or (None, why that is no whole "
      "graph). stands(tensor): the fake or tensor that stands for it. guards: a list for the guards' texts, or None." },
    { NULL, NULL, 0, NULL },
};

int cr_strict_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
