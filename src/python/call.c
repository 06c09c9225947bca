/* call.c: callables over the op table.
 *
 * Four types share one object: a *packet* (cresset.ops.aten.add: an overload list), an *overload*
 * (cresset.ops.aten.add.Tensor), a *function* (cresset.add) and a *method* (x.add). All are vectorcalls: arguments are
 * converted to kinds on the stack, binding.args, run, and the results wrapped; no Python object is made in between.
 * Packets and overloads take exactly what the schema says; functions and methods also take out=(a, b) and
 * requires_grad=. */
#include "python/py.h"

#include "graph/graph.h"

#include <structmember.h>

enum {
    GIL_WORK = 8192, /* elements; below, handing the GIL over costs more than it frees */
    MAX_RETURNS = 16,
};

/* ---- running ---- */

/* Lists are Python's to change while the GIL is released; their tensors are kept for the call. */
static void hold_lists(const cr_op *op, const cr_arg *args, bool hold) {
    for (uint16_t i = 0; i < op->schema.nparams; i++) {
        if (args[i].kind != CR_ARG_LIST) continue;
        for (uint32_t k = 0; k < args[i].n; k++) {
            const cr_arg *item = &args[i].u.list[k];
            if (item->kind != CR_ARG_TENSOR) continue;
            if (hold) cr_tensor_retain(item->u.t);
            else cr_tensor_release(item->u.t);
        }
    }
}

/* Numbers that are expressions belong to the environment of the fake tensors they came from. */
static PyObject *symbolic_results(const cr_op *op, const cr_arg *args, cr_arg *results, cr_py_form form) {
    cr_call_mode *mode = &cr_ambient_get()->mode;
    cr_env *saved = mode->env;
    bool symbolic = false;
    for (uint16_t i = 0; i < cr_result_count(op); i++)
        symbolic |= results[i].kind == CR_ARG_SYM || results[i].kind == CR_ARG_LIST ||
                    (results[i].kind == CR_ARG_INT && !cr_dim_is_plain(results[i].u.i));
    for (uint16_t i = 0; symbolic && i < op->schema.nparams; i++)
        if (args[i].kind == CR_ARG_TENSOR && args[i].u.t->env) mode->env = args[i].u.t->env;
    PyObject *o = cr_py_results(op, results, form);
    mode->env = saved;
    return o;
}

PyObject *cr_py_run(cr_py_frame *f, const cr_op *op, const cr_arg *args, cr_py_form form) {
    cr_arg results[MAX_RETURNS];
    cr_status status;
    if (op->schema.nreturns > MAX_RETURNS)
        return PyErr_Format(PyExc_NotImplementedError, "%s: more than %d results", op->name, MAX_RETURNS);
    if (f->work < GIL_WORK || cr_ambient_get()->mode.fake) {
        status = cr_call(op, args, results);
    } else {
        if (f->has_lists) hold_lists(op, args, true);
        PyThreadState *thread = PyEval_SaveThread();
        status = cr_call(op, args, results);
        PyEval_RestoreThread(thread);
        if (f->has_lists) hold_lists(op, args, false);
    }
    return status ? cr_py_raise(status) : symbolic_results(op, args, results, form);
}

static const cr_op *find_cached(const cr_op **cache, const char *name) {
    if (!*cache) *cache = cr_op_find(name);
    if (!*cache) (void)CR_FAIL(CR_ENOTIMPL, "there is no op '%s'", name);
    return *cache;
}

PyObject *cr_py_call(const cr_op **cache, const char *name, const cr_arg *args, size_t n) {
    const cr_op *op = find_cached(cache, name);
    if (!op) return cr_py_raise(CR_ENOTIMPL);
    cr_py_frame f;
    cr_py_frame_init(&f);
    for (size_t i = 0; i < n; i++)
        if (args[i].kind == CR_ARG_TENSOR) f.work = CR_MAX(f.work, cr_py_numel(args[i].u.t));
    cr_binding binding;
    cr_status status = cr_bind(op, true, args, n, NULL, 0, &f.arena, &binding);
    PyObject *result = status ? cr_py_raise(status) : cr_py_run(&f, op, binding.args, CR_PY_METHOD);
    cr_py_frame_dispose(&f);
    return result;
}

cr_status cr_py_call_tensor(const cr_op **cache, const char *name, const cr_arg *args, size_t n, cr_tensor **out) {
    const cr_op *op = find_cached(cache, name);
    if (!op) return CR_ENOTIMPL;
    cr_arena arena;
    cr_arena_init(&arena);
    cr_arg result;
    cr_binding binding;
    cr_status status = cr_bind(op, true, args, n, NULL, 0, &arena, &binding);
    if (!status) status = cr_call(op, binding.args, &result);
    if (!status) *out = result.u.t;
    cr_arena_dispose(&arena);
    return status;
}

/* ---- binding a Python call ---- */

typedef struct python_call {
    cr_py_op *op;
    cr_py_frame frame;
    cr_arg args[CR_MAX_PARAMS];
    cr_keyword keywords[CR_MAX_PARAMS];
    size_t nargs, nkeywords;
    bool requires_grad;
} python_call;

static bool is_strict(const cr_py_op *op) { return op->form == CR_PY_PACKET || op->form == CR_PY_OVERLOAD; }

/* PyTorch's generated functions raise TypeError for arguments that fit nothing, its op objects RuntimeError. */
static PyObject *raise_unbound(const cr_py_op *op, cr_status status) {
    if (status != CR_ETYPE || !is_strict(op)) return cr_py_raise(status);
    PyErr_SetString(PyExc_RuntimeError, cr_error_message());
    return NULL;
}

static PyObject *reject(const cr_py_op *op, PyObject *value, Py_ssize_t position, const char *keyword) {
    char where[128];
    if (keyword) PyOS_snprintf(where, sizeof where, "argument '%.90s'", keyword);
    else PyOS_snprintf(where, sizeof where, "argument %zd", position + 1);
    cr_str text;
    cr_str_init(&text);
    for (const cr_op *o = op->first; o; o = op->form == CR_PY_OVERLOAD ? NULL : o->next)
        cr_str_addf(&text, "\n  %s", o->schema.text);
    PyErr_Format(is_strict(op) ? PyExc_RuntimeError : PyExc_TypeError,
                 "%U(): %s is a %s, which no overload takes; the overloads are%s", op->name, where,
                 Py_TYPE(value)->tp_name, cr_str_get(&text));
    cr_str_dispose(&text);
    return NULL;
}

static bool has_parameter(const cr_op *first, const char *name) {
    for (const cr_op *op = first; op; op = op->next)
        for (uint16_t i = 0; i < op->schema.nparams; i++)
            if (!strcmp(op->schema.params[i].name, name)) return true;
    return false;
}

static int convert_keyword(python_call *c, PyObject *name, PyObject *value) {
    const char *text = PyUnicode_AsUTF8(name);
    if (!text) return -1;
    if (!is_strict(c->op)) {
        if (!strcmp(text, "out") && value == Py_None) return 0;
        if (!strcmp(text, "requires_grad") && !has_parameter(c->op->first, text)) {
            int yes = PyObject_IsTrue(value);
            c->requires_grad = yes == 1;
            return yes < 0 ? -1 : 0;
        }
    }
    static const char *const numpy_names[][2] = {
        { "x", "self" }, { "a", "self" }, { "x1", "self" }, { "x2", "other" }
    };
    for (size_t i = 0; c->op->form == CR_PY_FUNCTION && i < CR_COUNT(numpy_names); i++)
        if (!strcmp(text, numpy_names[i][0]) && !has_parameter(c->op->first, text)) text = numpy_names[i][1];
    cr_keyword *k = &c->keywords[c->nkeywords++];
    k->name = text;
    int r = cr_py_convert(&c->frame, value, &k->value);
    if (r > 0) reject(c->op, value, 0, text);
    return r ? -1 : 0;
}

/* out= names all results at once, but each has its own parameter in the schema: tries the out overloads in turn. */
static cr_status bind_out(python_call *c, cr_keyword *out, cr_binding *binding) {
    cr_arg given = out->value;
    size_t n = given.kind == CR_ARG_LIST ? given.n : 1, rest = c->nkeywords - 1;
    *out = c->keywords[rest];
    cr_status status = CR_FAIL(CR_ETYPE, "%s(): no overload writes to %zu tensors given as 'out'",
                               c->op->first->schema.name, n);
    for (const cr_op *op = c->op->first; op; op = op->next) {
        const cr_schema *s = &op->schema;
        if (op->variant != CR_OUT || s->nreturns != n || rest + n > CR_MAX_PARAMS ||
            (given.kind == CR_ARG_LIST && n == 1))
            continue;
        for (size_t i = 0; i < n; i++)
            c->keywords[rest + i] = (cr_keyword){ s->params[s->nparams - n + i].name,
                                                  given.kind == CR_ARG_LIST ? given.u.list[i] : given };
        status = cr_bind(op, true, c->args, c->nargs, c->keywords, rest + n, &c->frame.arena, binding);
        if (!status) break;
    }
    return status;
}

/* x.view(t, 2), where t is a 0-d integer tensor: the numbers in such tensors, when nothing else fits. */
static cr_status bind_with_numbers(python_call *c, cr_binding *binding) {
    cr_error *refusal = cr_error_take();
    bool changed = false;
    for (size_t i = 1; i < c->nargs; i++) {
        const cr_arg *a = &c->args[i];
        if (a->kind != CR_ARG_TENSOR || a->u.t->meta.rank || !cr_dtype_is_integral(a->u.t->meta.dtype) ||
            cr_tensor_is_fake(a->u.t))
            continue;
        cr_arg number;
        if (cr_py_item(a->u.t, &number)) continue;
        c->args[i] = cr_arg_int(number.u.i);
        changed = true;
    }
    if (changed &&
        !cr_bind(c->op->first, false, c->args, c->nargs, c->keywords, c->nkeywords, &c->frame.arena, binding)) {
        cr_error_release(refusal);
        return CR_OK;
    }
    return cr_error_put(refusal);
}

/* Op objects take what the schema says: no sizes spread over several arguments. */
static cr_status check_count(const python_call *c) {
    size_t most = 0;
    for (const cr_op *op = c->op->first; op; op = c->op->form == CR_PY_OVERLOAD ? NULL : op->next)
        most = CR_MAX(most, (size_t)op->schema.npositional);
    if (c->nargs <= most) return CR_OK;
    return CR_FAIL(CR_ETYPE, "%s() takes %zu positional arguments but %zu were given; it is %s",
                   c->op->first->schema.name, most, c->nargs, c->op->first->schema.text);
}

/* Functions and methods take numbers for tensors where PyTorch's do (add, mul); op objects everywhere. */
static cr_status check_numbers(const python_call *c, const cr_binding *b) {
    if (is_strict(c->op) || b->op->tags & CR_TAG_NUMBERS) return CR_OK;
    for (uint16_t i = 0; i < b->op->schema.nparams; i++) {
        const cr_param *p = &b->op->schema.params[i];
        if (p->type != CR_T_TENSOR || p->list || !cr_arg_is_number(&b->args[i])) continue;
        return CR_FAIL(CR_ETYPE,
                       "%s(): argument '%s' (position %d) must be Tensor, not a number; cresset.tensor(...) "
                       "makes one of it",
                       b->op->schema.name, p->name, i + 1);
    }
    return CR_OK;
}

static cr_status bind(python_call *c, cr_binding *binding) {
    if (is_strict(c->op)) CR_TRY(check_count(c));
    if (c->nkeywords && !is_strict(c->op)) {
        for (size_t i = 0; i < c->nkeywords; i++)
            if (!strcmp(c->keywords[i].name, "out") &&
                (c->keywords[i].value.kind == CR_ARG_LIST || !has_parameter(c->op->first, "out")))
                return bind_out(c, &c->keywords[i], binding);
    }
    cr_status status = cr_bind(c->op->first, c->op->form == CR_PY_OVERLOAD, c->args, c->nargs, c->keywords,
                               c->nkeywords, &c->frame.arena, binding);
    if (!status) return check_numbers(c, binding);
    return status == CR_ETYPE && !is_strict(c->op) ? bind_with_numbers(c, binding) : status;
}

/* A function that makes tensors of none, and was not told where: inside of `with device(...)`, there. PyTorch's list of
 * them leaves out normal(). */
static void place(cr_binding *b, cr_device device) {
    cr_arg *at = NULL;
    if (!strcmp(b->op->schema.name, "normal")) return;
    for (uint16_t i = 0; i < b->op->schema.nparams; i++) {
        const cr_param *p = &b->op->schema.params[i];
        if (p->type == CR_T_TENSOR) return;
        if (!strcmp(p->name, "device")) at = &b->args[i];
    }
    if (at && at->kind == CR_ARG_NONE)
        *at = (cr_arg){ .kind = CR_ARG_DEVICE, .given = CR_GIVEN_KEYWORD, .u.device = device };
}

static PyObject *mark_requires_grad(PyObject *result) {
    if (!result || !cr_frontend_is_tensor(result)) return result;
    PyObject *flagged = PyObject_CallMethod(result, "requires_grad_", NULL);
    Py_DECREF(result);
    return flagged;
}

static PyObject *override_name; /* process: "__cresset_function__", once it was asked for */

/* The argument, or item of a list among them, whose class takes calls of ops over; borrowed. */
static PyObject *find_override(PyObject *const *args, Py_ssize_t n) {
    for (Py_ssize_t i = 0; i < n; i++) {
        if (_PyType_Lookup(Py_TYPE(args[i]), override_name)) return args[i];
        if (!PyList_Check(args[i]) && !PyTuple_Check(args[i])) continue;
        for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(args[i]); k++)
            if (_PyType_Lookup(Py_TYPE(PySequence_Fast_GET_ITEM(args[i], k)), override_name))
                return PySequence_Fast_GET_ITEM(args[i], k);
    }
    return NULL;
}

/* No overload takes the arguments: the class of one of them may have __cresset_function__(function, args, kwargs), as
 * what stands for tensors while something is traced. Otherwise the TypeError stays. */
static PyObject *overridden(PyObject *callable, PyObject *const *args, Py_ssize_t n, PyObject *kwnames) {
    Py_ssize_t nkw = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    if (!override_name && !(override_name = PyUnicode_InternFromString("__cresset_function__"))) return NULL;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace); /* looking an attribute up forgets it */
    PyObject *owner = find_override(args, n + nkw);
    PyErr_Restore(type, value, trace);
    if (!owner) return NULL;
    PyErr_Clear();
    PyObject *positional = PyTuple_New(n), *kwargs = PyDict_New(), *result = NULL;
    for (Py_ssize_t i = 0; positional && i < n; i++) PyTuple_SET_ITEM(positional, i, Py_NewRef(args[i]));
    for (Py_ssize_t i = 0; kwargs && i < nkw; i++)
        if (PyDict_SetItem(kwargs, PyTuple_GET_ITEM(kwnames, i), args[n + i])) Py_CLEAR(kwargs);
    if (positional && kwargs)
        result = PyObject_CallMethodObjArgs((PyObject *)Py_TYPE(owner), override_name, callable, positional, kwargs,
                                            NULL);
    Py_XDECREF(positional);
    Py_XDECREF(kwargs);
    return result;
}

static PyObject *invoke(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    python_call c;
    c.op = (cr_py_op *)callable;
    Py_ssize_t n = PyVectorcall_NARGS(nargsf), nkw = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    if (n > CR_MAX_PARAMS || nkw > CR_MAX_PARAMS)
        return PyErr_Format(PyExc_TypeError, "%U(): %zd arguments were given, at most %d are possible", c.op->name,
                            n + nkw, CR_MAX_PARAMS);
    bool method = c.op->form == CR_PY_METHOD;
    if (method && !n) return PyErr_Format(PyExc_TypeError, "Tensor.%U() needs a Tensor, not nothing", c.op->name);
    cr_py_frame_init(&c.frame);
    c.nargs = (size_t)n;
    c.nkeywords = 0;
    c.requires_grad = false;
    PyObject *result = NULL;
    for (Py_ssize_t i = 0; i < n; i++) {
        int r = cr_py_convert(&c.frame, args[i], &c.args[i]);
        if (method && !i && (r > 0 || (!r && c.args[0].kind != CR_ARG_TENSOR)))
            r = (PyErr_Format(PyExc_TypeError, "Tensor.%U() needs a Tensor, not %s", c.op->name,
                              Py_TYPE(args[0])->tp_name), -1);
        if (r > 0) reject(c.op, args[i], i, NULL);
        if (r) goto out;
    }
    for (Py_ssize_t i = 0; i < nkw; i++)
        if (convert_keyword(&c, PyTuple_GET_ITEM(kwnames, i), args[n + i])) goto out;
    if (c.op->self_at && c.nargs > c.op->self_at) { /* x.where(condition, y) is where(condition, x, y) */
        cr_arg self = c.args[0];
        memmove(&c.args[0], &c.args[1], c.op->self_at * sizeof(cr_arg));
        c.args[c.op->self_at] = self;
    }
    cr_binding binding;
    cr_status status = bind(&c, &binding);
    cr_ambient *ambient = cr_ambient_get();
    const cr_py_op *outer = ambient->calling;
    ambient->calling = c.op;
    if (ambient->placed && !status) place(&binding, ambient->place);
    result = status ? raise_unbound(c.op, status)
                    : cr_py_run(&c.frame, binding.op, binding.args, (cr_py_form)c.op->form);
    ambient->calling = outer;
    if (c.requires_grad) result = mark_requires_grad(result);
out:
    cr_py_frame_dispose(&c.frame);
    if (!result && PyErr_ExceptionMatches(PyExc_TypeError)) result = overridden(callable, args, n, kwnames);
    return result;
}

/* ---- objects ---- */

bool cr_py_op_shown(const cr_op *op, cr_py_form form) {
    uint32_t where = op->row ? op->row->variants & (CR_VARIANT_METHOD | CR_VARIANT_FUNCTION) : 0;
    if (form == CR_PY_FUNCTION) return !where || (where & CR_VARIANT_FUNCTION);
    if (where && !(where & CR_VARIANT_METHOD)) return false;
    for (uint16_t i = 0; i < op->schema.nparams; i++)
        if (!strcmp(op->schema.params[i].name, "self") && op->schema.params[i].type == CR_T_TENSOR &&
            !op->schema.params[i].list)
            return true;
    return false;
}

static uint8_t self_position(const cr_op *first) {
    for (const cr_op *op = first; op; op = op->next)
        for (uint16_t i = 0; i < op->schema.npositional; i++)
            if (!strcmp(op->schema.params[i].name, "self")) return (uint8_t)i;
    return 0;
}

PyObject *cr_py_op_new(const cr_op *first, cr_py_form form) {
    static PyTypeObject *const types[] = { &cr_py_packet_type, &cr_py_overload_type, &cr_py_function_type,
                                           &cr_py_method_type };
    cr_py_op *o = PyObject_New(cr_py_op, types[form]);
    if (!o) return NULL;
    o->vectorcall = invoke;
    o->first = first;
    o->form = (uint8_t)form;
    o->self_at = form == CR_PY_METHOD ? self_position(first) : 0;
    o->name = PyUnicode_InternFromString(first->schema.name);
    o->dict = form == CR_PY_PACKET ? PyDict_New() : NULL;
    if (!o->name || (form == CR_PY_PACKET && !o->dict)) Py_CLEAR(o);
    return (PyObject *)o;
}

static void op_dealloc(PyObject *self) {
    cr_py_op *o = (cr_py_op *)self;
    Py_XDECREF(o->name);
    Py_XDECREF(o->dict);
    PyObject_Free(self);
}

PyObject *cr_py_overload_get(const cr_op *op) {
    static PyObject *known; /* process: id -> overload; overloads live as long as the process */
    if (!known && !(known = PyDict_New())) return NULL;
    PyObject *key = PyLong_FromUnsignedLong(op->id);
    if (!key) return NULL;
    PyObject *o = Py_XNewRef(PyDict_GetItemWithError(known, key));
    if (!o && !PyErr_Occurred()) {
        o = cr_py_op_new(op, CR_PY_OVERLOAD);
        if (o && PyDict_SetItem(known, key, o)) Py_CLEAR(o);
    }
    Py_DECREF(key);
    return o;
}

static const char *overload_name(const cr_op *op) { return op->schema.overload[0] ? op->schema.overload : "default"; }

static PyObject *method_bind(PyObject *self, PyObject *instance, PyObject *owner) {
    (void)owner;
    return instance && instance != Py_None ? PyMethod_New(self, instance) : Py_NewRef(self);
}

static PyObject *packet_getattr(PyObject *self, PyObject *name) {
    cr_py_op *o = (cr_py_op *)self;
    PyObject *found = PyDict_GetItemWithError(o->dict, name);
    if (found || PyErr_Occurred()) return Py_XNewRef(found);
    found = PyObject_GenericGetAttr(self, name);
    if (found || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
    PyErr_Clear();
    const char *text = PyUnicode_AsUTF8(name);
    if (!text) return NULL;
    for (const cr_op *op = o->first; op; op = op->next) {
        if (strcmp(overload_name(op), text)) continue;
        found = cr_py_overload_get(op);
        if (found && PyDict_SetItem(o->dict, name, found)) Py_CLEAR(found);
        return found;
    }
    return PyErr_Format(PyExc_AttributeError, "the op '%s.%U' has no overload '%U'; see .overloads()",
                        o->first->schema.ns, o->name, name);
}

static PyObject *overloads(PyObject *self, PyObject *unused) {
    (void)unused;
    PyObject *names = PyList_New(0);
    for (const cr_op *op = ((cr_py_op *)self)->first; names && op; op = op->next) {
        PyObject *name = PyUnicode_FromString(overload_name(op));
        if (!name || PyList_Append(names, name)) Py_CLEAR(names);
        Py_XDECREF(name);
    }
    return names;
}

static PyObject *packet_repr(PyObject *self) {
    cr_py_op *o = (cr_py_op *)self;
    return PyUnicode_FromFormat("<OpOverloadPacket(op='%s.%U')>", o->first->schema.ns, o->name);
}
static PyObject *packet_str(PyObject *self) {
    cr_py_op *o = (cr_py_op *)self;
    return PyUnicode_FromFormat("%s.%U", o->first->schema.ns, o->name);
}
static PyObject *overload_repr(PyObject *self) {
    const cr_schema *s = &((cr_py_op *)self)->first->schema;
    return PyUnicode_FromFormat("<OpOverload(op='%s.%s', overload='%s')>", s->ns, s->name,
                                overload_name(((cr_py_op *)self)->first));
}
static PyObject *overload_str(PyObject *self) {
    const cr_schema *s = &((cr_py_op *)self)->first->schema;
    return PyUnicode_FromFormat("%s.%s.%s", s->ns, s->name, overload_name(((cr_py_op *)self)->first));
}
static PyObject *function_repr(PyObject *self) {
    return PyUnicode_FromFormat("<built-in function %U>", ((cr_py_op *)self)->name);
}
static PyObject *method_repr(PyObject *self) {
    return PyUnicode_FromFormat("<method '%U' of 'cresset.Tensor' objects>", ((cr_py_op *)self)->name);
}

static PyObject *get_name(PyObject *self, void *unused) {
    (void)unused;
    cr_py_op *o = (cr_py_op *)self;
    if (o->form == CR_PY_OVERLOAD) return PyUnicode_FromFormat("%U.%s", o->name, overload_name(o->first));
    return Py_NewRef(o->name);
}
static PyObject *get_module(PyObject *self, void *unused) {
    (void)unused;
    cr_py_op *o = (cr_py_op *)self;
    return is_strict(o) ? PyUnicode_FromFormat("cresset.ops.%s", o->first->schema.ns) : PyUnicode_FromString("cresset");
}
/* The schemas are the documentation; the docs page has the same text. */
static PyObject *get_doc(PyObject *self, void *unused) {
    (void)unused;
    cr_py_op *o = (cr_py_op *)self;
    cr_str text;
    cr_str_init(&text);
    for (const cr_op *op = o->first; op; op = o->form == CR_PY_OVERLOAD ? NULL : op->next)
        cr_str_addf(&text, "%s%s", op == o->first ? "" : "\n", op->schema.text);
    return cr_py_text(&text);
}
static PyObject *get_schema(PyObject *self, void *unused) {
    (void)unused;
    return PyUnicode_FromString(((cr_py_op *)self)->first->schema.text);
}
static PyObject *get_namespace(PyObject *self, void *unused) {
    (void)unused;
    return PyUnicode_FromString(((cr_py_op *)self)->first->schema.ns);
}
static PyObject *get_overload_name(PyObject *self, void *unused) {
    (void)unused;
    return PyUnicode_FromString(overload_name(((cr_py_op *)self)->first));
}
static PyObject *find_packet(const char *ns, const char *name);
static PyObject *get_packet(PyObject *self, void *unused) {
    (void)unused;
    const cr_schema *s = &((cr_py_op *)self)->first->schema;
    return find_packet(s->ns, s->name);
}
static PyObject *full_name(PyObject *self, PyObject *unused) {
    (void)unused;
    return PyUnicode_FromString(((cr_py_op *)self)->first->name);
}
/* Copies are the object itself; pickles go by name. */
static PyObject *op_itself(PyObject *self, PyObject *unused) {
    (void)unused;
    return Py_NewRef(self);
}
static PyObject *op_reduce(PyObject *self, PyObject *unused) {
    (void)unused;
    cr_py_op *o = (cr_py_op *)self;
    PyObject *module = PyImport_ImportModule("cresset._C");
    PyObject *find = module ? PyObject_GetAttrString(module, "_op") : NULL;
    Py_XDECREF(module);
    const char *form = (const char *const[]){ "packet", "overload", "function", "method" }[o->form];
    return find ? Py_BuildValue("N(ss)", find, o->form == CR_PY_OVERLOAD ? o->first->name : o->first->schema.name, form)
                : NULL;
}

#define COMMON_METHODS                                                                                                 \
    { "__reduce__", op_reduce, METH_NOARGS, NULL }, { "__copy__", op_itself, METH_NOARGS, NULL },                      \
    { "__deepcopy__", op_itself, METH_O, NULL }
#define COMMON_ATTRIBUTES                                                                                              \
    { "__name__", get_name, NULL, NULL, NULL }, { "__qualname__", get_name, NULL, NULL, NULL },                        \
    { "__module__", get_module, NULL, NULL, NULL }, { "__doc__", get_doc, NULL, NULL, NULL }

static PyMethodDef plain_methods[] = { COMMON_METHODS, { NULL, NULL, 0, NULL } };
static PyMethodDef packet_methods[] = { { "overloads", overloads, METH_NOARGS, "Names of the overloads." },
                                        COMMON_METHODS,
                                        { NULL, NULL, 0, NULL } };
static PyMethodDef overload_methods[] = { { "name", full_name, METH_NOARGS, "The full name: aten::add.Tensor." },
                                          COMMON_METHODS,
                                          { NULL, NULL, 0, NULL } };
static PyGetSetDef plain_attributes[] = { COMMON_ATTRIBUTES, { NULL, NULL, NULL, NULL, NULL } };
static PyGetSetDef overload_attributes[] = {
    { "_schema", get_schema, NULL, NULL, NULL },
    { "namespace", get_namespace, NULL, NULL, NULL },
    { "_overloadname", get_overload_name, NULL, NULL, NULL },
    { "overloadpacket", get_packet, NULL, NULL, NULL },
    COMMON_ATTRIBUTES,
    { NULL, NULL, NULL, NULL, NULL },
};

#define OP_TYPE(symbol, name)                                                                                          \
    PyTypeObject symbol = {                                                                                            \
        PyVarObject_HEAD_INIT(NULL, 0).tp_name = name,                                                                 \
        .tp_basicsize = sizeof(cr_py_op),                                                                              \
        .tp_dealloc = op_dealloc,                                                                                      \
        .tp_vectorcall_offset = offsetof(cr_py_op, vectorcall),                                                        \
        .tp_call = PyVectorcall_Call,                                                                                  \
        .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,                                                   \
    }
OP_TYPE(cr_py_packet_type, "cresset._C.OpOverloadPacket");
OP_TYPE(cr_py_overload_type, "cresset._C.OpOverload");
OP_TYPE(cr_py_function_type, "cresset._C.OpFunction");
OP_TYPE(cr_py_method_type, "cresset._C.OpMethod");

/* ---- finding ---- */

static PyObject *find_packet(const char *ns, const char *name) {
    if (strcmp(ns, "aten") && cr_region_ops_init()) return cr_py_raise(cr_error_code()); /* those of src/graph */
    static PyObject *known; /* process: "ns.name" -> packet */
    if (!known && !(known = PyDict_New())) return NULL;
    if (cr_py_tensor_populate()) return NULL;
    const cr_op *first = cr_op_find_name(ns, name);
    if (!first) return PyErr_Format(PyExc_AttributeError, "there is no op '%s::%s'", ns, name);
    PyObject *key = PyUnicode_FromFormat("%s.%s", ns, name);
    if (!key) return NULL;
    PyObject *o = Py_XNewRef(PyDict_GetItemWithError(known, key));
    if (!o && !PyErr_Occurred()) {
        o = cr_py_op_new(first, CR_PY_PACKET);
        if (o && PyDict_SetItem(known, key, o)) Py_CLEAR(o);
    }
    Py_DECREF(key);
    return o;
}

static PyObject *packet(PyObject *module, PyObject *args) {
    (void)module;
    const char *ns, *name;
    return PyArg_ParseTuple(args, "ss", &ns, &name) ? find_packet(ns, name) : NULL;
}

static PyObject *function(PyObject *module, PyObject *name) {
    (void)module;
    const char *text = PyUnicode_AsUTF8(name);
    if (!text || cr_py_tensor_populate()) return NULL;
    static PyObject *known; /* process: name -> function; one op is one function */
    if (!known && !(known = PyDict_New())) return NULL;
    PyObject *o = Py_XNewRef(PyDict_GetItemWithError(known, name));
    if (o || PyErr_Occurred()) return o;
    const cr_op *first = cr_op_find_name("aten", text);
    bool shown = false;
    for (const cr_op *op = first; op && !shown; op = op->next) shown = cr_py_op_shown(op, CR_PY_FUNCTION);
    if (!shown) return PyErr_Format(PyExc_AttributeError, "module 'cresset' has no attribute '%U'", name);
    o = cr_py_op_new(first, CR_PY_FUNCTION);
    if (o && PyDict_SetItem(known, name, o)) Py_CLEAR(o);
    return o;
}

/* What __reduce__ names. */
static PyObject *op_by_name(PyObject *module, PyObject *args) {
    const char *name, *form;
    if (!PyArg_ParseTuple(args, "ss", &name, &form) || cr_py_tensor_populate()) return NULL;
    if (!strcmp(form, "packet")) return find_packet("aten", name);
    if (!strcmp(form, "method")) return PyObject_GetAttrString((PyObject *)cr_frontend_cresset.tensor_type, name);
    if (!strcmp(form, "function")) {
        PyObject *text = PyUnicode_FromString(name), *o = text ? function(module, text) : NULL;
        Py_XDECREF(text);
        return o;
    }
    const cr_op *op = cr_op_find(name);
    return op ? cr_py_overload_get(op) : PyErr_Format(PyExc_AttributeError, "there is no op '%s'", name);
}

static PyMethodDef module_functions[] = {
    { "_packet", packet, METH_VARARGS, "_packet(namespace, name): the overload list of an op." },
    { "_function", function, METH_O, "_function(name): the function of an op, as cresset.NAME." },
    { "_op", op_by_name, METH_VARARGS, "_op(name, form): any callable over the table, by name." },
    { NULL, NULL, 0, NULL },
};

int cr_py_calls_init(PyObject *module) {
    cr_py_packet_type.tp_repr = packet_repr;
    cr_py_packet_type.tp_str = packet_str;
    cr_py_packet_type.tp_getattro = packet_getattr;
    cr_py_packet_type.tp_methods = packet_methods;
    cr_py_packet_type.tp_getset = plain_attributes;
    cr_py_overload_type.tp_repr = overload_repr;
    cr_py_overload_type.tp_str = overload_str;
    cr_py_overload_type.tp_methods = overload_methods;
    cr_py_overload_type.tp_getset = overload_attributes;
    cr_py_function_type.tp_repr = function_repr;
    cr_py_function_type.tp_methods = plain_methods;
    cr_py_function_type.tp_getset = plain_attributes;
    cr_py_method_type.tp_repr = method_repr;
    cr_py_method_type.tp_methods = plain_methods;
    cr_py_method_type.tp_getset = plain_attributes;
    cr_py_method_type.tp_descr_get = method_bind;
    cr_py_method_type.tp_flags |= Py_TPFLAGS_METHOD_DESCRIPTOR;
    if (PyType_Ready(&cr_py_packet_type) || PyType_Ready(&cr_py_overload_type) || PyType_Ready(&cr_py_function_type) ||
        PyType_Ready(&cr_py_method_type))
        return -1;
    if (PyModule_AddObjectRef(module, "OpOverloadPacket", (PyObject *)&cr_py_packet_type)) return -1;
    if (PyModule_AddObjectRef(module, "OpOverload", (PyObject *)&cr_py_overload_type)) return -1;
    return PyModule_AddFunctions(module, module_functions);
}
