/* shape_type.c: what the export front end needs of a shape environment: symbols of its own making, facts about them,
 * fakes of chosen sizes, and the conditions a program turned out to depend on. */
#include "python/origin.h"

#include "sym/shape.h"
#include "trace/trace.h"

static PyObject *bound(int64_t value) {
    if (value == INT64_MIN || value == INT64_MAX) Py_RETURN_NONE;
    return PyLong_FromLongLong(value);
}

static int read_bound(PyObject *o, int64_t unbounded, int64_t *out) {
    *out = unbounded;
    return o == Py_None ? 0 : cr_py_int64(o, "bound", out);
}

static PyObject *number(cr_env *env, cr_sym e) {
    if (!e) return PyErr_NoMemory();
    int64_t value;
    bool truth;
    if (cr_sym_is_int(e, &value)) return PyLong_FromLongLong(value);
    if (cr_sym_is_bool(e, &truth)) return PyBool_FromLong(truth);
    cr_arg a = { .kind = CR_ARG_SYM, .u.sym = e };
    if (cr_sym_type_of(e) == CR_TYPE_INT) a = (cr_arg){ .kind = CR_ARG_INT, .u.i = cr_dim_of(env, e) };
    return cr_py_sym_new(env, a);
}

/* The expression of a SymInt, SymFloat or SymBool; NULL: exception. */
static cr_sym expression(PyObject *o, cr_env **env) {
    cr_arg a;
    if (!cr_py_sym_read(o, &a)) {
        PyErr_Format(PyExc_TypeError, "expected a symbolic number, not %s", Py_TYPE(o)->tp_name);
        return NULL;
    }
    *env = cr_py_sym_env(o);
    return a.kind == CR_ARG_SYM ? a.u.sym : cr_dim_sym(*env, a.u.i);
}

static PyObject *shape_symbol(PyObject *module, PyObject *args) {
    PyObject *mode, *hint, *lo, *hi;
    const char *name;
    int64_t value = 0, low, high;
    (void)module;
    if (!PyArg_ParseTuple(args, "OsOOO:_shape_symbol", &mode, &name, &hint, &lo, &hi)) return NULL;
    cr_fakes *fakes = cr_py_mode_fakes(mode);
    if (!fakes || read_bound(lo, INT64_MIN, &low) || read_bound(hi, INT64_MAX, &high) || read_bound(hint, 0, &value))
        return NULL;
    if (cr_sym_find_symbol(fakes->env, name))
        return PyErr_Format(PyExc_ValueError, "there is a symbol '%s' already", name);
    cr_sym symbol = cr_sym_symbol(fakes->env, name, CR_TYPE_INT, low, high);
    if (!symbol) return cr_env_recover(fakes->env), PyErr_NoMemory();
    cr_status status = hint == Py_None ? CR_OK : cr_env_set_hint(fakes->env, symbol, value);
    return status ? cr_py_raise(status) : number(fakes->env, symbol);
}

static PyObject *shape_simplify(PyObject *module, PyObject *o) {
    cr_env *env;
    (void)module;
    if (PyLong_Check(o)) return Py_NewRef(o);
    cr_sym e = expression(o, &env);
    return e ? number(env, cr_sym_simplify(env, e)) : NULL;
}

static PyObject *shape_range(PyObject *module, PyObject *o) {
    cr_env *env;
    (void)module;
    cr_sym e = expression(o, &env);
    if (!e) return NULL;
    if (!(e = cr_sym_simplify(env, e))) return PyErr_NoMemory();
    cr_range r = cr_sym_range(env, e);
    return Py_BuildValue("NN", bound(r.lo), bound(r.hi));
}

static PyObject *shape_fake(PyObject *module, PyObject *args) {
    PyObject *mode, *tensor, *sizes;
    cr_dim size[CR_MAX_RANK];
    cr_tensor *fake = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOO!:_shape_fake", &mode, &tensor, &PyTuple_Type, &sizes)) return NULL;
    cr_fakes *fakes = cr_py_mode_fakes(mode);
    if (!fakes) return NULL;
    cr_py_frame f;
    cr_py_frame_init(&f);
    PyObject *o = NULL;
    const cr_tensor *t = cr_frontend_need(&f, tensor, "_shape_fake() takes a Tensor, not %s");
    if (!t) goto out;
    if (PyTuple_GET_SIZE(sizes) != t->meta.rank) {
        PyErr_Format(PyExc_ValueError, "%zd sizes for a tensor of %d dimensions", PyTuple_GET_SIZE(sizes),
                     t->meta.rank);
        goto out;
    }
    for (int d = 0; d < t->meta.rank; d++) {
        PyObject *item = PyTuple_GET_ITEM(sizes, d);
        cr_arg a;
        if (!cr_py_sym_read(item, &a)) {
            if (cr_py_int64(item, "size", &size[d])) goto out;
        } else {
            size[d] = a.kind == CR_ARG_INT ? a.u.i : cr_dim_of(fakes->env, a.u.sym);
        }
    }
    cr_status status = cr_fake_sized(fakes, t, size, &fake);
    o = status ? cr_py_raise(status) : cr_frontend_wrap(fake);
out:
    cr_py_frame_dispose(&f);
    return o;
}

static PyObject *shape_equate(PyObject *module, PyObject *args) {
    PyObject *condition;
    cr_env *env;
    (void)module;
    if (!PyArg_ParseTuple(args, "O:_shape_learn", &condition)) return NULL;
    if (PyBool_Check(condition)) return Py_NewRef(condition);
    cr_sym e = expression(condition, &env);
    if (!e) return NULL;
    cr_status status = cr_env_add_cond(env, CR_COND_GUARD, e, "");
    return status ? cr_py_raise(status) : PyBool_FromLong(1);
}

/* ---- the user's line ---- */

static PyObject *package; /* once: the folder of this package, whose frames are not the user's */

typedef struct user_spot { PyCodeObject *code; int line; } user_spot; /* code: owned; NULL: not found yet */

static cr_status visit(void *to, const cr_py_spot *spot) {
    user_spot *u = to;
    bool inside = package && PyUnicode_Tailmatch(spot->code->co_filename, package, 0, PY_SSIZE_T_MAX, -1);
    if (u->code || inside) return CR_OK;
    u->code = (PyCodeObject *)Py_NewRef(spot->code);
    u->line = PyCode_Addr2Line(spot->code, spot->at);
    return CR_OK;
}

PyCodeObject *cr_py_user_line(int *line) {
    user_spot u = { NULL, 0 };
    if (cr_py_visit_frames(visit, &u)) PyErr_Clear();
    *line = u.line;
    return u.code;
}

static const char *copied(cr_arena *arena, PyObject *text) {
    const char *utf8 = text ? PyUnicode_AsUTF8(text) : NULL;
    return utf8 ? cr_arena_strdup(arena, utf8) : NULL;
}

static cr_status find_origin(void *user, cr_arena *arena, cr_user_line *out) {
    (void)user;
    PyGILState_STATE gil = PyGILState_Ensure(); /* a long computation may have let it go */
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyCodeObject *code = cr_py_user_line(&out->line);
    PyObject *file = code ? code->co_filename : NULL;
    if (file) {
        PyObject *lines = PyImport_ImportModule("linecache"),
                 *text = lines ? PyObject_CallMethod(lines, "getline", "Oi", file, out->line) : NULL;
        PyObject *stripped = text ? PyObject_CallMethod(text, "strip", NULL) : NULL;
        out->file = copied(arena, file);
        out->text = copied(arena, stripped);
        Py_XDECREF(lines);
        Py_XDECREF(text);
        Py_XDECREF(stripped);
    }
    Py_XDECREF(code);
    PyErr_Clear();
    PyErr_Restore(type, value, traceback);
    PyGILState_Release(gil);
    return file && !out->file ? CR_ENOMEM : CR_OK;
}

PyObject *cr_py_user_text(void) {
    int line;
    PyCodeObject *code = cr_py_user_line(&line);
    if (!code) Py_RETURN_NONE;
    PyObject *location = PyImport_ImportModule("cresset.export._location");
    PyObject *text = location ? PyObject_CallMethod(location, "text", "OiO", code->co_filename, line, code->co_name)
                              : NULL;
    Py_XDECREF(location);
    Py_DECREF(code);
    return text;
}

static PyObject *user_line(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    return cr_py_user_text();
}

static PyObject *shape_origins(PyObject *module, PyObject *args) {
    PyObject *mode, *folder;
    (void)module;
    if (!PyArg_ParseTuple(args, "OU:_shape_origins", &mode, &folder)) return NULL;
    cr_fakes *fakes = cr_py_mode_fakes(mode);
    if (!fakes) return NULL;
    if (!package) package = Py_NewRef(folder);
    cr_env_set_user_line(fakes->env, find_origin, NULL);
    Py_RETURN_NONE;
}

/* ---- sizes and verdicts ---- */

static PyObject *shape_add(PyObject *module, PyObject *args) {
    PyObject *mode, *symbol, *lo, *hi;
    cr_size size = { 0 };
    int promise;
    long long scale, shift, value;
    cr_env *env;
    (void)module;
    if (!PyArg_ParseTuple(args, "OiszzLLOOLO:_shape_add", &mode, &promise, &size.source, &size.name, &size.root, &scale,
                          &shift, &lo, &hi, &value, &symbol))
        return NULL;
    cr_fakes *fakes = cr_py_mode_fakes(mode);
    if (!fakes || read_bound(lo, INT64_MIN, &size.lo) || read_bound(hi, INT64_MAX, &size.hi)) return NULL;
    if (promise < CR_SIZE_AUTO || promise > CR_SIZE_ROOT)
        return PyErr_Format(PyExc_ValueError, "there is no promise %d", promise);
    size.promise = (cr_size_promise)promise;
    size.scale = scale, size.shift = shift, size.value = value;
    if (symbol != Py_None && !(size.symbol = expression(symbol, &env))) return NULL;
    cr_status status = cr_shape_add(fakes->env, &size);
    if (status) return cr_py_raise(status);
    Py_RETURN_NONE;
}

static PyObject *shape_solve(PyObject *module, PyObject *args) {
    PyObject *mode, *result = NULL;
    int defer;
    cr_verdict verdict;
    (void)module;
    if (!PyArg_ParseTuple(args, "Op:_shape_solve", &mode, &defer)) return NULL;
    cr_fakes *fakes = cr_py_mode_fakes(mode);
    if (!fakes) return NULL;
    cr_status status = cr_shape_solve(fakes->env, defer ? CR_SOLVE_DEFER : 0, &verdict);
    if (status) return cr_py_raise(status);
    PyObject *deferred = PyList_New(0);
    for (size_t i = 0; deferred && i < verdict.deferred.n; i++)
        if (PyList_Append(deferred, verdict.deferred.at[i] ? Py_True : Py_False)) Py_CLEAR(deferred);
    if (deferred)
        result = Py_BuildValue("sssN", cr_str_get(&verdict.names), cr_str_get(&verdict.reasons),
                               cr_str_get(&verdict.fixes), deferred);
    cr_verdict_dispose(&verdict);
    return result;
}

static int add_symbols(cr_env *env, cr_sym e, PyObject *list) {
    if (cr_sym_name(e)) {
        PyObject *item = number(env, e);
        int status = item ? PyList_Append(list, item) : -1;
        Py_XDECREF(item);
        return status;
    }
    for (size_t i = 0; i < cr_sym_operand_count(e); i++)
        if (add_symbols(env, cr_sym_operand(e, i), list)) return -1;
    return 0;
}

static PyObject *shape_symbols(PyObject *module, PyObject *o) {
    cr_env *env;
    (void)module;
    cr_sym e = expression(o, &env);
    PyObject *list = e ? PyList_New(0) : NULL;
    if (list && add_symbols(env, e, list)) Py_CLEAR(list);
    return list;
}

static PyObject *shape_text(PyObject *module, PyObject *o) {
    cr_env *env;
    cr_str text;
    (void)module;
    if (PyLong_Check(o)) return PyObject_Repr(o);
    cr_sym e = expression(o, &env);
    if (!e) return NULL;
    cr_str_init(&text);
    cr_shape_text(env, e, &text);
    return cr_py_text(&text);
}

static PyObject *shape_check(PyObject *module, PyObject *args) {
    PyObject *condition;
    const char *message;
    cr_env *env;
    (void)module;
    if (!PyArg_ParseTuple(args, "Os:_shape_check", &condition, &message)) return NULL;
    cr_sym e = expression(condition, &env);
    cr_status status = e ? cr_env_check(env, e, message) : CR_EPYTHON;
    if (status) return cr_py_raise(status);
    Py_RETURN_NONE;
}

static PyObject *shape_truth(PyObject *module, PyObject *args) {
    PyObject *condition;
    int oblivious;
    cr_env *env;
    (void)module;
    if (!PyArg_ParseTuple(args, "Op:_shape_truth", &condition, &oblivious)) return NULL;
    cr_sym e = expression(condition, &env);
    if (!e) return NULL;
    cr_tri answer = oblivious ? cr_sym_truth_oblivious(env, e) : cr_sym_truth(env, e);
    if (answer == CR_UNKNOWN) Py_RETURN_NONE;
    return PyBool_FromLong(answer == CR_YES);
}

static PyObject *shape_mark_size(PyObject *module, PyObject *o) {
    cr_env *env;
    (void)module;
    cr_sym e = expression(o, &env);
    if (!e) return NULL;
    /* of an expression nothing more is known than that it is >= 0 */
    cr_status status = cr_sym_name(e) ? cr_env_mark_size(env, e) : CR_OK;
    if (status) return cr_py_raise(status);
    Py_RETURN_NONE;
}

static PyObject *shape_unbacked(PyObject *module, PyObject *mode) {
    cr_fakes *fakes = cr_py_mode_fakes(mode);
    (void)module;
    PyObject *list = fakes ? PyList_New(0) : NULL;
    for (size_t i = 0; list && i < cr_env_unbacked_count(fakes->env); i++) {
        cr_sym symbol = cr_env_unbacked(fakes->env, i);
        PyObject *item = Py_BuildValue("NO", number(fakes->env, symbol),
                                       cr_env_is_counted(symbol) ? Py_True : Py_False);
        if (!item || PyList_Append(list, item)) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    cr_sym real;
    char name[24];
    /* floats */
    for (int k = 0;
         list && (PyOS_snprintf(name, sizeof name, "zuf%d", k), (real = cr_sym_find_symbol(fakes->env, name))); k++) {
        PyObject *item = Py_BuildValue("NO", number(fakes->env, real), Py_False);
        if (!item || PyList_Append(list, item)) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *shape_open(PyObject *module, PyObject *mode) {
    cr_fakes *fakes = cr_py_mode_fakes(mode);
    (void)module;
    if (!fakes) return NULL;
    cr_status status = cr_shape_open(fakes->env);
    if (status) return cr_py_raise(status);
    Py_RETURN_NONE;
}

static PyObject *shape_conditions(PyObject *module, PyObject *mode) {
    cr_fakes *fakes = cr_py_mode_fakes(mode);
    (void)module;
    if (!fakes) return NULL;
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < cr_env_cond_count(fakes->env); i++) {
        cr_cond cond = cr_env_cond(fakes->env, i);
        cr_user_line origin = cr_env_cond_line(fakes->env, i);
        PyObject *item = Py_BuildValue("iNszis", (int)cond.kind, number(fakes->env, cond.condition), cond.message,
                                       origin.file, origin.line, origin.text ? origin.text : "");
        if (!item || PyList_Append(list, item)) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyMethodDef functions[] = {
    { "_shape_symbol", shape_symbol, METH_VARARGS,
      "_shape_symbol(mode, name, hint, lo, hi): a new symbol; None: no hint, no bound." },
    { "_shape_simplify", shape_simplify, METH_O, "_shape_simplify(number): the number by the facts of now." },
    { "_shape_range", shape_range, METH_O, "_shape_range(number): (lowest, highest); None: unbounded." },
    { "_shape_fake", shape_fake, METH_VARARGS,
      "_shape_fake(mode, tensor, sizes): a fake of the tensor with these sizes." },
    { "_shape_learn", shape_equate, METH_VARARGS, "_shape_learn(condition): the condition holds from here on." },
    { "_shape_conditions", shape_conditions, METH_O,
      "_shape_conditions(mode): [(kind, condition, message, file, line, text)] in order." },
    { "_shape_open", shape_open, METH_O, "_shape_open(mode): tracing is over, sizes of inputs may be 0 and 1." },
    { "_shape_check", shape_check, METH_VARARGS,
      "_shape_check(condition, message): the program states that it holds." },
    { "_shape_truth", shape_truth, METH_VARARGS,
      "_shape_truth(condition, oblivious): True, False, or None where the facts do not tell." },
    { "_shape_mark_size", shape_mark_size, METH_O, "_shape_mark_size(number): an unbacked symbol is a size." },
    { "_shape_unbacked", shape_unbacked, METH_O,
      "_shape_unbacked(mode): [(a symbol that depends on data, is it the size of a result?)] in order." },
    { "_user_line", user_line, METH_NOARGS,
      "_user_line(): the innermost line outside of this package, 'model.py:12 in forward: code', or None." },
    { "_shape_origins", shape_origins, METH_VARARGS,
      "_shape_origins(mode, folder): conditions remember the innermost line outside of the folder." },
    { "_shape_add", shape_add, METH_VARARGS,
      "_shape_add(mode, promise, source, name, root, scale, shift, lo, hi, value, symbol): a size of the inputs." },
    { "_shape_solve", shape_solve, METH_VARARGS,
      "_shape_solve(mode, defer): (names, reasons, fixes, which conditions are deferred)." },
    { "_shape_symbols", shape_symbols, METH_O, "_shape_symbols(number): the symbols in it." },
    { "_shape_text", shape_text, METH_O, "_shape_text(number): in Python, symbols as their sources." },
    { NULL, NULL, 0, NULL },
};

int cr_py_shape_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
