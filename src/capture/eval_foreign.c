/* eval_foreign.c: functions in C of a library whose tensors are foreign memory (frontend.h: rows).
 *
 * Fakes are Cresset's own tensors, so its ops are called in the place of the library's. Other functions ask about the
 * state of the library, which the ambient word covers, or have one answer for as long as a program is captured. */
#include "capture/evaluate.h"

#include "python/py.h"

#include <string.h>

PyObject *cr_translate(cr_capture *c, PyObject *value) {
    return c->frontend && c->frontend->translate ? c->frontend->translate(value) : value;
}

int cr_give(cr_capture *c, cr_call_frame *f, PyObject *result) {
    if (result) result = cr_translate(c, result);
    if (!result || cr_check_result(c, result)) return Py_XDECREF(result), -1;
    for (Py_ssize_t k = 0; PyTuple_Check(result) && k < PyTuple_GET_SIZE(result); k++)
        if (cr_check_result(c, PyTuple_GET_ITEM(result, k))) return Py_DECREF(result), -1;
    return cr_push(f, result), 0;
}

/* Read as anybody would: from the module that it is in. */
PyObject *cr_class_of_result(cr_capture *c) {
    PyTypeObject *type = c->frontend && c->frontend->borrow ? c->frontend->class_of_results() : NULL;
    PyObject *module = type ? PyUnicode_InternFromString(c->frontend->name) : NULL, *value = NULL;
    PyObject *name = module ? PyUnicode_InternFromString(strrchr(type->tp_name, '.') ? strrchr(type->tp_name, '.') + 1
                                                                                      : type->tp_name)
                            : NULL;
    PyObject *real = name ? cr_read_now(CR_READ_MODULE, NULL, module, 0) : NULL;
    PyObject *dict = real && PyModule_CheckExact(real) ? PyModule_GetDict(real) : NULL;
    int32_t at = dict ? cr_source(&c->guards, CR_READ_MODULE, 0, module, 0) : CR_NO_SLOT;
    if (at >= 0) at = cr_source(&c->guards, CR_READ_NAMESPACE, at, NULL, 0);
    if (at >= 0 && cr_read_now(CR_READ_KEY, dict, name, 0) == (PyObject *)type)
        value = cr_wrap_read(c, CR_READ_KEY, at, dict, name, 0);
    Py_XDECREF(module);
    Py_XDECREF(name);
    if (!value && !PyErr_Occurred()) cr_break(c, "the class of a result is asked for");
    return value;
}

/* Is there an object in it whose class decides what ops do? Tensors of the library itself do not. */
static bool overrides(PyObject *value) {
    static PyObject *name; /* once */
    if (PyTuple_Check(value) || PyList_Check(value)) {
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); i++)
            if (overrides(PySequence_Fast_GET_ITEM(value, i))) return true;
        return false;
    }
    if (!cr_is_token(value)) return false;
    if (!name && !(name = PyUnicode_InternFromString("__torch_function__"))) return PyErr_Clear(), true;
    return _PyType_Lookup(Py_TYPE(cr_real(value)), name) != NULL;
}

static int refuse(cr_capture *c, PyObject *callable, const char *why) {
    PyObject *name = PyObject_GetAttrString(callable, "__name__");
    if (name) cr_break(c, "%U() is called %s", name, why);
    PyErr_Clear();
    Py_XDECREF(name);
    return -1;
}

static int call_on_constants(cr_capture *c, cr_call_frame *f, PyObject *callable, const cr_arguments *a) {
    Py_ssize_t total = a->n + (a->kwnames ? PyTuple_GET_SIZE(a->kwnames) : 0);
    for (Py_ssize_t k = 0; k < total; k++)
        if (!cr_is_constant(a->at[k])) return refuse(c, callable, "on something that is no constant");
    return cr_give(c, f, PyObject_Vectorcall(callable, a->at, (size_t)a->n, a->kwnames));
}

static int answer_overrides(cr_capture *c, cr_call_frame *f, PyObject *callable, const cr_arguments *a) {
    for (Py_ssize_t k = 0; k < a->n; k++)
        if (overrides(a->at[k])) return refuse(c, callable, "on an object whose class decides what ops do");
    return cr_give(c, f, Py_NewRef(Py_False));
}

/* A function of the front end's own, read as anybody would. */
static PyObject *stand_in(cr_capture *c, PyObject *name) {
    PyObject *module = PyUnicode_InternFromString(c->frontend->stand_ins), *value = NULL;
    PyObject *imported = module ? PyImport_Import(module) : NULL;
    int32_t at = imported ? cr_source(&c->guards, CR_READ_MODULE, 0, module, 0) : CR_NO_SLOT;
    if (at >= 0) at = cr_source(&c->guards, CR_READ_NAMESPACE, at, NULL, 0);
    if (at >= 0) value = cr_wrap_read(c, CR_READ_KEY, at, PyModule_GetDict(imported), name, 0);
    Py_XDECREF(module);
    Py_XDECREF(imported);
    return value;
}

static int call_instead(cr_capture *c, cr_call_frame *f, PyObject *name, const cr_arguments *a) {
    PyObject *function = stand_in(c, name);
    int r = function ? cr_call_value(c, f, function, a->at, a->n, a->kwnames) : -1;
    Py_XDECREF(function);
    return r;
}

/* ---- closures ---- */

/* What cell k of a function holds; NULL: a break, or an exception. */
static PyObject *held_by(cr_capture *c, PyObject *given, Py_ssize_t k) {
    PyObject *cell, *value = NULL;
    if (cr_is_token(given)) cell = cr_wrap_read(c, CR_READ_CELL, cr_source_of(given), cr_real(given), NULL, k);
    else cell = Py_NewRef(PyTuple_GET_ITEM(PyFunction_GET_CLOSURE(given), k));
    if (!cell) return NULL;
    PyObject *real = cr_is_token(cell) ? cr_real(cell) : cell;
    if (!PyCell_Check(real) || !PyCell_GET(real) || (real != cell && cr_find_store(c, real, NULL)))
        cr_break(c, "a variable of a closure of the library's is not what it was");
    else if (real == cell) value = Py_NewRef(PyCell_GET(cell));
    else value = cr_wrap_read(c, CR_READ_CONTENTS, cr_source_of(cell), real, NULL, 0);
    Py_DECREF(cell);
    return value;
}

int cr_call_closure(cr_capture *c, cr_call_frame *f, PyObject *given, const cr_arguments *a) {
    PyObject *function = cr_is_token(given) ? cr_real(given) : given, *code = PyFunction_GET_CODE(function);
    PyObject *name = NULL;
    const cr_frontend *fe = NULL;
    cr_row_kind kind = CR_ROW_NONE;
    for (size_t i = 0; kind != CR_ROW_CLOSURE && (fe = cr_frontend_at(i)); i++)
        kind = fe->row ? fe->row(code, &name) : CR_ROW_NONE;
    if (kind != CR_ROW_CLOSURE || c->plain) return 1;
    if (cr_use_frontend(c, fe)) return -1;
    PyObject *closure = PyFunction_GET_CLOSURE(function);
    Py_ssize_t held = closure ? PyTuple_GET_SIZE(closure) : 0, k = 0;
    Py_ssize_t total = a->n + (a->kwnames ? PyTuple_GET_SIZE(a->kwnames) : 0);
    PyObject **all = PyMem_Malloc((size_t)(held + total + 1) * sizeof *all);
    if (!all) return PyErr_NoMemory(), -1;
    while (k < held && (all[k] = held_by(c, given, k))) k++;
    for (Py_ssize_t i = 0; i < total; i++) all[held + i] = a->at[i];
    int r = k < held ? -1 : call_instead(c, f, name, &(cr_arguments){ all, held + a->n, a->kwnames });
    while (k--) Py_DECREF(all[k]);
    PyMem_Free(all);
    return r;
}

/* ---- mixed precision: on or off in the recorder, so that ops are recorded with their casts ---- */

enum { CAST_ENABLED, CAST_DTYPE, CAST_CACHE };

static int set_cast_dtype(cr_capture *c, PyObject *callable, PyObject *dtype) {
    cr_py_frame frame;
    cr_arg read = cr_arg_none();
    cr_py_frame_init(&frame);
    bool known = !c->frontend->read(&frame, dtype, &read) && read.kind == CR_ARG_DTYPE;
    cr_py_frame_dispose(&frame);
    if (!known) return refuse(c, callable, "with something that is no dtype");
    cr_ambient_get()->mode.autocast.dtype = (int)read.u.i;
    return 0;
}

/* Of other devices it is off, and stays so. */
static int set_cast(cr_capture *c, cr_call_frame *f, PyObject *callable, int what, bool here, PyObject *value) {
    cr_autocast *cast = &cr_ambient_get()->mode.autocast;
    int on = what == CAST_DTYPE ? 0 : PyObject_IsTrue(value);
    if (on < 0) return -1;
    if (on && !here) return refuse(c, callable, "for a device that is not the CPU");
    if (on && cr_ambient_get()->vmap) return refuse(c, callable, "inside of vmap, where only some ops are cast");
    if (what == CAST_DTYPE && here && set_cast_dtype(c, callable, value)) return -1;
    if (what == CAST_ENABLED && here) cast->enabled = on;
    if (what == CAST_CACHE) cast->no_cache = !on;
    return cr_give(c, f, Py_NewRef(Py_None));
}

/* torch.autocast is evaluated as it is written; here is what it asks and sets: `object`, "cpu " before it where no
 * device is named. */
static int answer_casts(cr_capture *c, cr_call_frame *f, PyObject *callable, PyObject *object, const cr_arguments *a) {
    const cr_autocast *cast = &cr_ambient_get()->mode.autocast;
    bool of_device = a->n && PyUnicode_Check(a->at[0]);
    const char *text = PyUnicode_AsUTF8(object);
    if (!text) return -1;
    for (Py_ssize_t k = 0; k < a->n; k++)
        if (!cr_is_constant(a->at[k])) return refuse(c, callable, "on something that is no constant");
    if (a->kwnames || a->n > 1 + of_device) return refuse(c, callable, "with other arguments than are known");
    bool here = of_device ? !PyUnicode_CompareWithASCIIString(a->at[0], "cpu") : !strncmp(text, "cpu ", 4);
    const char *word = strchr(text, ' ') ? strchr(text, ' ') + 1 : text;
    int what = !strcmp(word, "dtype") ? CAST_DTYPE : !strcmp(word, "cache") ? CAST_CACHE : CAST_ENABLED;
    c->asks_casts |= what != CAST_ENABLED;
    if (a->n > of_device) return set_cast(c, f, callable, what, here, a->at[a->n - 1]);
    if (!here) return call_on_constants(c, f, callable, a);
    if (what == CAST_DTYPE) return cr_give(c, f, cr_py_dtype_get(cast->dtype));
    return cr_give(c, f, PyBool_FromLong(what == CAST_CACHE ? !cast->no_cache : cast->enabled));
}

static int call_row(cr_capture *c, cr_call_frame *f, cr_row_kind kind, PyObject *callable, PyObject *object,
                    const cr_arguments *a) {
    bool before;
    switch (kind) {
    case CR_ROW_CASTS: return answer_casts(c, f, callable, object, a);
    case CR_ROW_UNMAPPED:
        if (cr_ambient_get()->vmap || cr_ambient_get()->forwards)
            return refuse(c, callable, "in a transform that the library has no rule for it in");
        /* fall through */
    case CR_ROW_OP: c->on_tensors = true; return cr_give(c, f, cr_call_for_real(c, f, object, a, true));
    case CR_ROW_GIVES: return cr_give(c, f, Py_NewRef(object));
    case CR_ROW_COMPILES: return cr_give(c, f, PyBool_FromLong(cr_is_capturing()));
    case CR_ROW_CONSTANTS:
    case CR_ROW_ASKS: return call_on_constants(c, f, callable, a);
    case CR_ROW_OVERRIDES: return answer_overrides(c, f, callable, a);
    case CR_ROW_GET_GRAD:
    case CR_ROW_SET_GRAD:
        if (cr_ambient_get()->forwards)
            return refuse(c, callable, "in a function that is differentiated forwards, whatever the mode is");
        if (kind == CR_ROW_GET_GRAD) return cr_give(c, f, PyBool_FromLong(cr_ambient_get()->grad));
        return cr_switch_grad(c, a, &before) ? -1 : cr_give(c, f, Py_NewRef(Py_None));
    case CR_ROW_REGION: return cr_call_region(c, f, object, a);
    case CR_ROW_EXPORTS: return c->tracer ? cr_call_run(c, f, object, a) : 1;
    case CR_ROW_SYMBOLIC: return cr_call_symbolic(c, f, object, a);
    case CR_ROW_UNRECORDED:
        if (cr_ambient_get()->transforms || cr_ambient_get()->vmap)
            return refuse(c, callable, "in a transform: what it does there is its own");
        if (cr_ambient_get()->grad && cr_capture_records(c))
            return refuse(c, callable, "where gradients are recorded: its backward is its own");
        /* fall through */
    case CR_ROW_STANDS_IN: return call_instead(c, f, object, a);
    default: return 1;
    }
}

int cr_call_foreign(cr_capture *c, cr_call_frame *f, PyObject *callable, const cr_arguments *a) {
    const cr_frontend *fe;
    for (size_t i = 0; (fe = cr_frontend_at(i)); i++) {
        PyObject *object = NULL;
        cr_row_kind kind = fe->row ? fe->row(callable, &object) : CR_ROW_NONE;
        if (kind == CR_ROW_NONE || (kind == CR_ROW_EXPORTS && !c->tracer)) continue;
        bool neutral = kind == CR_ROW_GIVES || kind == CR_ROW_COMPILES || kind == CR_ROW_CONSTANTS ||
                       kind == CR_ROW_SYMBOLIC;
        return !neutral && cr_use_frontend(c, fe) ? -1 : call_row(c, f, kind, callable, object, a);
    }
    return 1;
}
