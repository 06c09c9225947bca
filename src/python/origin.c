/* origin.c: stack trace, module stack and source function of a call, read off the Python frames.
 *
 * As PyTorch has it, a stack trace is made of the frames of functions named `forward`, outermost first. What a frame's
 * two lines say depends on code object and instruction alone and is kept, so that a model's thousandth call costs a
 * walk over the frames and no source file. The source function is the outermost function of this package's functional
 * modules that the call came through, else the function or method of the op itself; with a number that counts its
 * calls. */
#include "python/origin.h"

void cr_py_origins_init(cr_py_origins *o) {
    *o = (cr_py_origins){ 0 };
    cr_arena_init(&o->arena);
    cr_map_init(&o->lines);
    cr_map_init(&o->counts);
    cr_map_init(&o->calls);
    cr_str_init(&o->text);
    cr_str_init(&o->source);
    cr_str_init(&o->lines_given);
    cr_str_init(&o->call_given);
    cr_str_init(&o->last_call);
}

void cr_py_origins_dispose(cr_py_origins *o) {
    Py_CLEAR(o->codes);
    Py_CLEAR(o->modules);
    cr_vec_dispose(&o->stack);
    cr_map_dispose(&o->lines);
    cr_map_dispose(&o->counts);
    cr_map_dispose(&o->calls);
    cr_str_dispose(&o->text);
    cr_str_dispose(&o->source);
    cr_str_dispose(&o->lines_given);
    cr_str_dispose(&o->call_given);
    cr_str_dispose(&o->last_call);
    cr_arena_dispose(&o->arena);
}

static void reset(cr_str *s) {
    s->n = 0;
    if (s->at) s->at[0] = 0;
}

/* ---- the module stack ---- */

/* "L__self__sub@1,sub,models.Block" below what encloses it. A module that the tree does not have is left out. */
int cr_py_origins_enter(cr_py_origins *o, PyObject *module) {
    const char *outer = o->stack.n ? o->stack.at[o->stack.n - 1] : NULL, *text = outer ? outer : "", *path, *type;
    PyObject *key = PyLong_FromVoidPtr(module),
             *found = key && o->modules ? PyDict_GetItemWithError(o->modules, key) : NULL;
    Py_XDECREF(key);
    if (PyErr_Occurred()) return -1;
    if (found) {
        uint64_t calls = 0;
        if (!PyArg_ParseTuple(found, "ss", &path, &type)) return -1;
        cr_map_find_str(&o->calls, path, &calls);
        char number[24] = "";
        if (calls && *path) PyOS_snprintf(number, sizeof number, "@%llu", (unsigned long long)calls);
        text = cr_arena_printf(&o->arena, "%s%sL__self__%s%s,%s,%s", outer ? outer : "", outer && *outer ? ";" : "",
                               path, number, path, type);
        if (!text || cr_map_put_str(&o->calls, path, calls + 1)) return PyErr_NoMemory(), -1;
    }
    if (cr_vec_push(&o->stack, text)) return PyErr_NoMemory(), -1;
    return 0;
}

void cr_py_origins_leave(cr_py_origins *o) {
    if (o->stack.n) o->stack.n--;
}

/* ---- lines ---- */

typedef struct place { const PyCodeObject *code; int at; } place;

static PyObject *source_line(const cr_py_spot *spot, int line) {
    static PyObject *getline; /* once */
    if (!getline) {
        PyObject *linecache = PyImport_ImportModule("linecache");
        getline = linecache ? PyObject_GetAttrString(linecache, "getline") : NULL;
        Py_XDECREF(linecache);
        if (!getline) return NULL;
    }
    PyObject *globals = spot->globals ? Py_NewRef(spot->globals) : PyFrame_GetGlobals((PyFrameObject *)spot->frame);
    PyObject *text = PyObject_CallFunction(getline, "OiO", spot->code->co_filename, line, globals),
             *stripped = text ? PyObject_CallMethod(text, "strip", NULL) : NULL;
    Py_XDECREF(globals);
    Py_XDECREF(text);
    return stripped;
}

static cr_status make_line(cr_py_origins *o, const cr_py_spot *spot, const char **out) {
    PyCodeObject *code = spot->code;
    int line = PyCode_Addr2Line(code, spot->at);
    PyObject *source = source_line(spot, line);
    const char *file = PyUnicode_AsUTF8(code->co_filename), *name = PyUnicode_AsUTF8(code->co_name),
               *text = source ? PyUnicode_AsUTF8(source) : NULL;
    if (!file || !name) PyErr_Clear();
    if (!text) PyErr_Clear(), text = "";
    *out = cr_arena_printf(&o->arena, *text ? "File \"%s\", line %d, in %s\n    %s" : "File \"%s\", line %d, in %s%s",
                           file ? file : "?", line, name ? name : "?", text);
    Py_XDECREF(source);
    return *out ? CR_OK : CR_ENOMEM;
}

static cr_status find_line(cr_py_origins *o, const cr_py_spot *spot, const char **out) {
    place key;
    uint64_t found;
    memset(&key, 0, sizeof key);
    key.code = spot->code;
    key.at = spot->at;
    if (cr_map_find(&o->lines, &key, sizeof key, &found)) return *out = (const char *)(uintptr_t)found, CR_OK;
    CR_TRY(make_line(o, spot, out));
    if (!o->codes && !(o->codes = PyList_New(0))) return PyErr_Clear(), CR_ENOMEM;
    if (PyList_Append(o->codes, (PyObject *)spot->code)) return PyErr_Clear(), CR_ENOMEM;
    return cr_map_put(&o->lines, &key, sizeof key, (uint64_t)(uintptr_t)*out);
}

/* Modules that run a program node by node: the lines are the program's own. */
static bool is_runner(const PyCodeObject *code) {
    const char *file = PyUnicode_AsUTF8(code->co_filename);
    if (!file) return PyErr_Clear(), false;
    return strstr(file, "cresset/export/") != NULL;
}

/* ---- the source function ---- */

/* Is the code one of the functions that PyTorch's users call, rather than the user's own? */
static bool is_functional(const PyCodeObject *code) {
    const char *file = PyUnicode_AsUTF8(code->co_filename);
    if (!file) return PyErr_Clear(), false;
    return strstr(file, "cresset/functional.py") || strstr(file, "cresset/nn/functional") ||
           strstr(file, "torch/functional.py") || strstr(file, "torch/nn/functional.py");
}

static cr_status count_call(cr_py_origins *o, const char *kind, const char *name, bool again, const char **out) {
    uint64_t n = 0;
    cr_map_find_str(&o->counts, name, &n);
    if (!again || !n) CR_TRY(cr_map_put_str(&o->counts, name, ++n));
    reset(&o->source);
    cr_str_addf(&o->source, "%s_%llu;%s.%s", name, (unsigned long long)n, kind, name);
    *out = cr_str_get(&o->source);
    return cr_str_status(&o->source);
}

typedef struct walk {
    cr_py_origins *o;
    const char *lines[64];
    int nlines;
    bool outside; /* of functional modules */
    PyCodeObject *functional;
    const void *frame;
    int at, outer;
} walk;

static cr_status find_function(cr_py_origins *o, const walk *w, const cr_op *op, const char **out) {
    if (w->functional) {
        const char *name = PyUnicode_AsUTF8(w->functional->co_name);
        /* one call of a function may call several ops: it is the same call while its frame goes forward */
        bool again = w->frame == o->last_frame && w->outer == o->last_outer && w->at > o->last_at;
        o->last_frame = w->frame, o->last_at = w->at, o->last_outer = w->outer;
        if (!name) return PyErr_Clear(), CR_OK;
        return count_call(o, "function", name, again, out);
    }
    o->last_frame = NULL;
    const cr_py_op *calling = cr_ambient_get()->calling;
    bool method = !calling || calling->form == CR_PY_METHOD, function = calling && calling->form == CR_PY_FUNCTION;
    return count_call(o,
                      method     ? "method_descriptor"
                      : function ? "builtin_function_or_method"
                                 : "OpOverload",
                      op->schema.name, false, out);
}

/* ---- what a program says itself ---- */

static void set_text(cr_str *s, const char *text) {
    reset(s);
    if (text) cr_str_add(s, text);
}

cr_status cr_py_origins_replay(cr_py_origins *o, const char *lines, const char *call, const char *function) {
    set_text(&o->lines_given, lines);
    set_text(&o->call_given, call);
    o->function_given = NULL;
    if (call && function) {
        size_t at = o->call_given.n + 1;
        cr_str_addf(&o->call_given, ";%s", function);
        if (!cr_str_status(&o->call_given)) o->function_given = cr_str_get(&o->call_given) + at;
    }
    return cr_str_status(&o->lines_given) ? CR_ENOMEM : cr_str_status(&o->call_given);
}

/* Several ops of one call have one text there, and keep one number here. */
static cr_status replay_function(cr_py_origins *o, const char **out) {
    char kind[80];
    const char *dot = strrchr(o->function_given, '.'), *call = cr_str_get(&o->call_given);
    if (!dot || (size_t)(dot - o->function_given) >= sizeof kind) return CR_OK;
    PyOS_snprintf(kind, sizeof kind, "%.*s", (int)(dot - o->function_given), o->function_given);
    bool again = !strcmp(cr_str_get(&o->last_call), call);
    set_text(&o->last_call, call);
    return count_call(o, kind, dot + 1, again, out);
}

/* ---- one call ---- */

static cr_status visit(void *to, const cr_py_spot *spot) {
    static PyObject *forward; /* once */
    walk *w = to;
    if (!forward && !(forward = PyUnicode_InternFromString("forward"))) return PyErr_Clear(), CR_ENOMEM;
    if (!w->outside && is_functional(spot->code)) {
        w->functional = spot->code;
        w->frame = spot->frame;
        w->at = spot->at;
    } else if (!w->outside) {
        w->outside = true;
        w->outer = spot->at;
    }
    if (spot->code->co_name != forward || is_runner(spot->code) || w->nlines == (int)CR_COUNT(w->lines)) return CR_OK;
    return find_line(w->o, spot, &w->lines[w->nlines++]);
}

cr_status cr_py_visit_own_frames(cr_py_visit visit_one, void *to) {
    PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());
    cr_status status = CR_OK;
    while (frame && !status) {
        PyCodeObject *code = PyFrame_GetCode(frame);
        status = visit_one(to, &(cr_py_spot){ frame, code, PyFrame_GetLasti(frame), NULL });
        Py_DECREF(code); /* the frame holds it */
        PyFrameObject *back = PyFrame_GetBack(frame);
        Py_DECREF(frame);
        frame = back;
    }
    Py_XDECREF(frame);
    return status;
}

cr_status cr_py_origins_find(cr_py_origins *o, const cr_op *op, cr_origin *out) {
    PyGILState_STATE gil = PyGILState_Ensure();
    walk w = { .o = o };
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    cr_status status = o->walk ? o->walk(o->user, visit, &w) : cr_py_visit_own_frames(visit, &w);
    if (!status)
        status = o->function_given ? replay_function(o, &out->source_fn) : find_function(o, &w, op, &out->source_fn);
    reset(&o->text);
    for (int i = w.nlines; i-- > 0;) {
        if (i + 1 < w.nlines) cr_str_add(&o->text, "\n  ");
        cr_str_add(&o->text, w.lines[i]);
    }
    if (o->lines_given.n) cr_str_addf(&o->text, "%s%s", w.nlines ? "\n  " : "", cr_str_get(&o->lines_given));
    if (w.nlines || o->lines_given.n) out->stack_trace = cr_str_get(&o->text);
    if (o->stack.n && *o->stack.at[o->stack.n - 1]) out->module_stack = o->stack.at[o->stack.n - 1];
    PyErr_Restore(type, value, traceback);
    PyGILState_Release(gil);
    return status ? status : cr_str_status(&o->text);
}
