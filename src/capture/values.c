/* values.c: what is on the evaluator's stack: tokens, fakes, copies of containers, and which object from outside each
 * of them stands for. */
#include "capture/evaluate.h"

#include "python/tracer.h"
#include "sym/shape.h"

#include <stdarg.h>
#include <string.h>

PyObject *cr_break_error, *cr_raised_error; /* once */

/* ---- tokens: nothing works on them ---- */

static PyObject *refuse(PyObject *self) {
    return PyErr_Format(cr_break_error, "an object of class %s is used in a way that is not captured",
                        Py_TYPE(cr_real(self))->tp_name);
}
static PyObject *refuse2(PyObject *a, PyObject *b) { return refuse(cr_is_token(a) ? a : b); }
static PyObject *refuse3(PyObject *a, PyObject *b, PyObject *c) {
    return refuse(cr_is_token(a) ? a : cr_is_token(b) ? b : c);
}
static PyObject *refuse_compare(PyObject *a, PyObject *b, int op) {
    (void)op;
    return refuse2(a, b);
}
static int refuse_truth(PyObject *self) { return refuse(self), -1; }
static Py_ssize_t refuse_length(PyObject *self) { return refuse(self), -1; }
static int refuse_set(PyObject *self, PyObject *key, PyObject *value) {
    (void)key, (void)value;
    return refuse(self), -1;
}
static int refuse_contains(PyObject *self, PyObject *item) {
    (void)item;
    return refuse(self), -1;
}

static int token_traverse(PyObject *self, visitproc visit, void *arg) {
    cr_token *t = (cr_token *)self;
    Py_VISIT(t->real);
    Py_VISIT(t->type);
    Py_VISIT(t->attributes);
    Py_VISIT(t->slots);
    Py_VISIT(t->payload);
    return 0;
}

static int token_clear(PyObject *self) {
    cr_token *t = (cr_token *)self;
    Py_CLEAR(t->attributes);
    Py_CLEAR(t->slots);
    Py_CLEAR(t->payload);
    return 0;
}

static void token_dealloc(PyObject *self) {
    PyObject_GC_UnTrack(self);
    Py_TRASHCAN_BEGIN(self, token_dealloc);
    token_clear(self);
    Py_XDECREF(((cr_token *)self)->type);
    Py_XDECREF(cr_real(self));
    PyObject_GC_Del(self);
    Py_TRASHCAN_END;
}

static PyNumberMethods token_number = {
    .nb_add = refuse2, .nb_subtract = refuse2, .nb_multiply = refuse2, .nb_remainder = refuse2, .nb_divmod = refuse2,
    .nb_power = refuse3, .nb_negative = refuse, .nb_positive = refuse, .nb_absolute = refuse, .nb_bool = refuse_truth,
    .nb_invert = refuse, .nb_lshift = refuse2, .nb_rshift = refuse2, .nb_and = refuse2, .nb_xor = refuse2,
    .nb_or = refuse2, .nb_int = refuse, .nb_float = refuse, .nb_floor_divide = refuse2, .nb_true_divide = refuse2,
    .nb_index = refuse, .nb_matrix_multiply = refuse2,
};
static PyMappingMethods token_mapping = { refuse_length, refuse2, refuse_set };
static PySequenceMethods token_sequence = { .sq_length = refuse_length, .sq_contains = refuse_contains };

static Py_hash_t token_hash(PyObject *self) {
    return cr_hashing && cr_is_hashed_by_address(self) ? _Py_HashPointer(self) : (refuse(self), -1);
}

PyTypeObject cr_token_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "cresset._C._Token",
    .tp_basicsize = sizeof(cr_token),
    .tp_dealloc = token_dealloc,
    .tp_traverse = token_traverse,
    .tp_clear = token_clear,
    .tp_repr = refuse,
    .tp_str = refuse,
    .tp_hash = token_hash,
    .tp_getattro = refuse2,
    .tp_setattro = refuse_set,
    .tp_richcompare = refuse_compare,
    .tp_iter = refuse,
    .tp_call = refuse3,
    .tp_as_number = &token_number,
    .tp_as_mapping = &token_mapping,
    .tp_as_sequence = &token_sequence,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
};

static PyObject *token_new(PyObject *real, int32_t source, bool pending) {
    cr_token *t = PyObject_GC_New(cr_token, &cr_token_type);
    if (!t) return NULL;
    t->real = Py_NewRef(real);
    t->source = source;
    t->pending = pending;
    t->caught = false;
    t->type = t->attributes = t->slots = t->payload = NULL;
    PyObject_GC_Track(t);
    return (PyObject *)t;
}

PyObject *cr_token_made(PyObject *type, PyObject *real, PyObject *payload) {
    PyObject *attributes = real ? PyDict_New() : NULL;
    cr_token *t = attributes ? (cr_token *)token_new(real, CR_NO_SLOT, false) : NULL;
    Py_XDECREF(real);
    if (!t) return Py_XDECREF(attributes), NULL;
    t->type = Py_NewRef(type);
    t->attributes = attributes;
    t->payload = Py_XNewRef(payload);
    return (PyObject *)t;
}

PyObject *cr_pending(cr_capture *c, PyObject *real, int32_t source) {
    return c->plain ? Py_NewRef(real) : token_new(real, source, true);
}

/* ---- a capture ---- */

/* How many more calls the thread may make before RecursionError. */
static int recursion_room(void) {
#if PY_VERSION_HEX < 0x030C0000
    return PyThreadState_Get()->recursion_remaining;
#else
    return PyThreadState_Get()->py_recursion_remaining;
#endif
}

static int begin(cr_capture *c, bool plain) {
    *c = (cr_capture){ .plain = plain, .left = 2000000, .stop = -1, .grad = cr_ambient_get()->grad,
                       .outer = cr_frontend_cresset.ambient(), .room = recursion_room() };
    c->inside = c->outer;
    cr_guards_init(&c->guards);
    cr_map_init(&c->by_real);
    cr_map_init(&c->by_value);
    cr_map_init(&c->made);
    cr_map_init(&c->constants);
    cr_map_init(&c->owners);
    cr_map_init(&c->payloads);
    return (c->kept = PyList_New(0)) ? 0 : -1;
}

int cr_capture_begin(cr_capture *c, bool plain) {
    if (begin(c, plain)) return -1;
    if (plain) return 0;
    cr_env *env = NULL;
    cr_status status = cr_env_create(&env);
    if (!status) status = cr_trace_create(env, &c->trace);
    if (env) cr_fakes_init(&c->fakes, env);
    if (env) cr_env_set_exact(env, true);
    if (!status) cr_capture_origins(c);
    cr_env_release(env);
    return status ? cr_py_fail(status) : 0;
}

int cr_capture_begin_in(cr_capture *c, PyObject *tracer, PyObject *stands) {
    if (begin(c, false)) return -1;
    c->tracer = tracer;
    c->stands = stands;
    c->trace = cr_py_tracer_trace(tracer);
    cr_fakes_init(&c->fakes, cr_graph_env(cr_trace_graph(c->trace)));
    if (!(c->numbers = PyMem_Calloc(1, sizeof *c->numbers))) return PyErr_NoMemory(), -1;
    cr_env_retain(c->numbers->env = c->fakes.env); /* sizes may be open, by the exporter's word */
    return 0;
}

void cr_capture_dispose(cr_capture *c) {
    c->disposing = true;
    if (!c->plain) cr_frontend_cresset.set_ambient(c->outer);
    while (c->frame) cr_pop_frame(c);
    for (size_t i = 0; i < c->known.n; i++) {
        Py_XDECREF(c->known.at[i].real);
        Py_XDECREF(c->known.at[i].value);
        Py_XDECREF(c->known.at[i].before);
    }
    for (size_t i = 0; i < c->stores.n; i++) {
        Py_XDECREF(c->stores.at[i].real);
        Py_XDECREF(c->stores.at[i].key);
        Py_XDECREF(c->stores.at[i].value);
    }
    cr_vec_dispose(&c->stores);
    cr_reordered_dispose(c);
    cr_contexts_dispose(c);
    cr_modes_dispose(c);
    cr_vec_dispose(&c->globals);
    cr_vec_dispose(&c->known);
    cr_vec_dispose(&c->inputs);
    cr_map_dispose(&c->by_real);
    cr_map_dispose(&c->by_value);
    cr_guards_dispose(&c->guards);
    cr_numbers_free(c->numbers);
    c->numbers = NULL;
    Py_CLEAR(c->result);
    Py_CLEAR(c->handled);
    Py_CLEAR(c->raised);
    cr_map_dispose(&c->owners);
    cr_map_dispose(&c->payloads);
    cr_map_dispose(&c->made);
    cr_map_dispose(&c->constants);
    Py_CLEAR(c->kept);
    Py_CLEAR(c->leaves);
    Py_CLEAR(c->reason);
    Py_CLEAR(c->where);
    Py_CLEAR(c->callers);
    Py_CLEAR(c->error);
    cr_str_dispose(&c->stack);
    if (c->plain || !c->fakes.env) return;
    if (c->follows || c->unbacked) cr_env_set_user_line(c->fakes.env, NULL, NULL);
    if (!c->tracer) cr_trace_release(c->trace);
    cr_fakes_dispose(&c->fakes);
}

cr_call_mode cr_pause(const cr_capture *c) {
    cr_call_mode *mode = &cr_ambient_get()->mode, paused = *mode;
    if (c->tracer) *mode = (cr_call_mode){ .autocast = paused.autocast };
    else cr_trace_end(c->trace);
    return paused;
}

/* Into the body of a region, where it was there. */
void cr_go_on(cr_call_mode paused) { cr_ambient_get()->mode = paused; }

int cr_break(cr_capture *c, const char *format, ...) {
    va_list args;
    va_start(args, format);
    PyObject *reason = c->reason ? NULL : PyUnicode_FromFormatV(format, args);
    va_end(args);
    if (reason) c->reason = reason;
    return -1;
}

/* ---- which object is it? ---- */

static bool find(const cr_map *map, const void *address, size_t *index) {
    uint64_t found;
    if (!cr_map_find(map, &address, sizeof address, &found)) return false;
    *index = (size_t)found;
    return true;
}

bool cr_find_known(const cr_capture *c, PyObject *value, size_t *index) { return find(&c->by_value, value, index); }

/* Takes over `value` and `before`, also on failure; gives a new reference to the value. */
static PyObject *know(cr_capture *c, PyObject *real, PyObject *value, int32_t source, PyObject *before) {
    if (!value) return NULL;
    if (cr_map_put(&c->by_real, &real, sizeof real, c->known.n) ||
        cr_map_put(&c->by_value, &value, sizeof value, c->known.n) ||
        cr_vec_push(&c->known, (cr_known){ Py_NewRef(real), value, source, before })) {
        Py_DECREF(value);
        Py_XDECREF(before);
        return PyErr_NoMemory();
    }
    return Py_NewRef(value);
}

bool cr_is_tensor_value(PyObject *value) { return cr_frontend_is_tensor(value); }

/* Of a foreign library's program the fakes are ours: they are recorded in the mode that the library is in. */
int cr_use_frontend(cr_capture *c, const cr_frontend *fe) {
    if (c->frontend == fe) return 0;
    if (c->frontend) return cr_break(c, "tensors of %s and of %s are used together", c->frontend->name, fe->name);
    if (fe->borrow) {
        uint64_t word = fe->ambient();
        if (word & CR_AMBIENT_PLAIN)
            return cr_break(c, "a mode of %s is at work (function or dispatch modes, transforms, tracing, a default "
                               "dtype)", fe->name);
        c->grad = cr_ambient_get()->grad = word & CR_AMBIENT_GRAD;
        cr_ambient_get()->mode.autocast = cr_ambient_casts(fe->casts ? word | fe->casts() : word);
        c->inside = cr_frontend_cresset.ambient();
    }
    c->frontend = fe;
    return 0;
}

PyTypeObject *cr_class_of(const cr_capture *c, PyObject *value) {
    size_t at;
    if (cr_is_token(value)) return Py_TYPE(cr_real(value));
    if (cr_is_open(value)) return cr_class_of_open(value);
    if (Py_IS_TYPE(value, &cr_py_size_type) && c->frontend && c->frontend->class_of_sizes)
        return c->frontend->class_of_sizes();
    if (!c->frontend || !c->frontend->borrow || !cr_is_tensor_value(value)) return Py_TYPE(value);
    return cr_find_known(c, value, &at) ? Py_TYPE(c->known.at[at].real) : c->frontend->class_of_results();
}

bool cr_is_known_object(const cr_capture *c, PyObject *real) {
    size_t index;
    return find(&c->by_real, real, &index);
}

/* ---- what the program has set ---- */

/* What is set in an object's __dict__ is set as its attribute. */
static PyObject *owner_of(const cr_capture *c, PyObject *real) {
    uint64_t owner;
    return cr_map_find(&c->owners, &real, sizeof real, &owner) ? (PyObject *)(uintptr_t)owner : real;
}

static cr_store *find_store(const cr_capture *c, PyObject *real, PyObject *key) {
    real = owner_of(c, real);
    for (size_t i = 0; i < c->stores.n; i++) {
        cr_store *s = &c->stores.at[i];
        if (s->real != real) continue;
        bool texts = s->key && key && PyUnicode_Check(s->key) && PyUnicode_Check(key);
        if (s->key == key || (texts && cr_texts_equal(s->key, key))) return s;
    }
    return NULL;
}

PyObject *cr_find_store(const cr_capture *c, PyObject *real, PyObject *key) {
    const cr_store *s = find_store(c, real, key);
    return s ? s->value : NULL;
}

bool cr_has_stores(const cr_capture *c, PyObject *real) {
    real = owner_of(c, real);
    for (size_t i = 0; i < c->stores.n; i++)
        if (c->stores.at[i].real == real) return true;
    return false;
}

int cr_add_store(cr_capture *c, cr_read read, PyObject *real, int32_t source, PyObject *key, PyObject *value) {
    cr_store *known = find_store(c, real, key);
    if (known && value == CR_DELETED && !cr_read_now(read, real, key, 0)) { /* it came and went */
        cr_store gone = *known;
        cr_store *end = c->stores.at + --c->stores.n;
        for (cr_store *at = known; at < end; at++) *at = at[1];
        Py_DECREF(gone.real), Py_XDECREF(gone.key), Py_DECREF(gone.value);
        return 0;
    }
    if (known) {
        Py_SETREF(known->value, Py_NewRef(value));
        return 0;
    }
    cr_store store = { real, source, (uint8_t)read, key, value };
    if (cr_vec_push(&c->stores, store)) return PyErr_NoMemory(), -1;
    Py_INCREF(real);
    Py_XINCREF(key);
    Py_INCREF(value);
    return 0;
}

/* ---- constants ---- */

static bool is_singleton(PyObject *o) {
    return o == Py_None || o == Py_True || o == Py_False || o == Py_Ellipsis || o == Py_NotImplemented;
}

/* A function in C that belongs to a module or class, no method of an object. */
static bool is_c_function(PyObject *o) {
    if (Py_IS_TYPE(o, &PyMethodDescr_Type) || Py_IS_TYPE(o, &PyClassMethodDescr_Type) ||
        Py_IS_TYPE(o, &PyWrapperDescr_Type))
        return !cr_is_python_class(PyDescr_TYPE(o));
    if (!PyCFunction_CheckExact(o)) return false;
    PyObject *self = PyCFunction_GET_SELF(o);
    return !self || PyModule_CheckExact(self) ||
           (PyType_Check(self) && !cr_is_python_class((PyTypeObject *)self));
}

/* Objects of a library that ops take and that are no tensors: a dtype, a device, a layout, a memory format; and ops. */
static bool is_library_constant(PyObject *o) {
    const cr_frontend *fe;
    cr_py_frame frame;
    cr_arg arg;
    bool is = false;
    if (PyType_Check(o) || cr_is_python_class(Py_TYPE(o))) return false;
    for (size_t i = 0; !is && (fe = cr_frontend_at(i)); i++) {
        if (fe->is_constant && fe->is_constant(o)) return true;
        cr_py_frame_init(&frame);
        is = !fe->read(&frame, o, &arg) &&
             (arg.kind == CR_ARG_DTYPE || arg.kind == CR_ARG_LAYOUT || arg.kind == CR_ARG_FORMAT ||
              arg.kind == CR_ARG_DEVICE);
        PyObject *name = is ? NULL : fe->resolve(o);
        is |= name != NULL;
        Py_XDECREF(name);
        PyErr_Clear();
        cr_py_frame_dispose(&frame);
    }
    return is;
}

bool cr_is_held_constant(PyObject *o) {
    if (is_singleton(o) || is_c_function(o) || PyCode_Check(o)) return true;
    if (PyType_Check(o)) return !cr_is_python_class((PyTypeObject *)o);
    return is_library_constant(o);
}

static bool is_constant(PyObject *v, int nesting) {
    if (cr_is_plain_constant(v) || is_singleton(v)) return true;
    if (cr_is_token(v) || cr_is_tensor_value(v) || ++nesting > CR_MAX_NESTING) return false;
    if (PyTuple_Check(v) || PyList_CheckExact(v)) {
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(v); i++)
            if (!is_constant(PySequence_Fast_GET_ITEM(v, i), nesting)) return false;
        return true;
    }
    if (PyDict_CheckExact(v)) {
        PyObject *key, *value;
        for (Py_ssize_t at = 0; PyDict_Next(v, &at, &key, &value);)
            if (!is_constant(key, nesting) || !is_constant(value, nesting)) return false;
        return true;
    }
    if (PySlice_Check(v)) {
        const PySliceObject *s = (PySliceObject *)v;
        return is_constant(s->start, nesting) && is_constant(s->stop, nesting) && is_constant(s->step, nesting);
    }
    if (PyAnySet_CheckExact(v)) {
        for (Py_ssize_t i = 0; i <= ((PySetObject *)v)->mask; i++) {
            const setentry *e = &((PySetObject *)v)->table[i];
            if (e->key && e->hash != -1 && !is_constant(e->key, nesting)) return false;
        }
        return true;
    }
    return PyRange_Check(v) || cr_is_held_constant(v) || cr_is_numpy_number(v);
}

bool cr_is_constant(PyObject *v) { return is_constant(v, 0); }

bool cr_has_finalizer(const PyTypeObject *type) { return type->tp_finalize || type->tp_del; }

/* ---- wrapping ---- */

/* A tensor of a program that is exported is what the exporter says: an input's or parameter's fake, or one with data
 * that ops make a constant of. Nothing of it is guarded: the program is evaluated once. */
static PyObject *wrap_exported(cr_capture *c, PyObject *real, int32_t source) {
    if (cr_use_frontend(c, cr_frontend_of(real))) return NULL;
    PyObject *value = PyObject_CallOneArg(c->stands, real);
    if (value && !cr_is_tensor_value(value)) {
        cr_break(c, "a tensor is used that the program does not have");
        Py_CLEAR(value);
    }
    return know(c, real, value, source, NULL);
}

static PyObject *wrap_tensor(cr_capture *c, PyObject *real, int32_t source) {
    const cr_frontend *fe = cr_frontend_of(real);
    cr_py_frame frame;
    cr_py_frame_init(&frame);
    cr_tensor *fake = NULL;
    PyObject *value = NULL;
    cr_open_sizes open;
    char name[32];
    const cr_tensor *t = cr_use_frontend(c, fe) ? NULL
                         : fe->borrow           ? fe->borrow(&frame, real)
                                                : cr_frontend_tensor(&frame, real);
    if (t && cr_tensor_is_fake(t)) cr_break(c, "a tensor without data is used");
    if (!t || c->reason || cr_open_tensor(c, real, source, fe, t, &fake, &open)) goto out;
    if (cr_guard_tensor(&c->guards, source, fe, real, &open)) goto out;
    fake->meta.flags &= (uint8_t)~CR_META_REQUIRES_GRAD; /* capture never asks a fake for it */
    PyOS_snprintf(name, sizeof name, "arg%zu", c->inputs.n);
    cr_status status = cr_trace_input(c->trace, name, fake);
    if (!status) value = fe->stand_in(real, fake), fake = NULL;
    if (status) cr_py_raise(status);
    if (value && cr_vec_push(&c->inputs, (cr_input){ source, value })) Py_CLEAR(value);
    value = know(c, real, value, source, NULL);
out:
    if (fake) cr_tensor_release(fake);
    cr_py_frame_dispose(&frame);
    return value;
}

enum { MAX_ITEMS = 4096 };

/* A tuple or list as one of values; `before` remembers a list's items. */
static PyObject *wrap_sequence(cr_capture *c, PyObject *real, int32_t source) {
    Py_ssize_t n = PySequence_Fast_GET_SIZE(real);
    bool is_list = PyList_CheckExact(real);
    if (cr_guard_number(&c->guards, source, CR_HOLDS_LENGTH, Py_TYPE(real), (int32_t)n)) return NULL;
    if (c->nesting >= CR_MAX_NESTING) return cr_break(c, "containers deep in each other are read"), NULL;
    c->nesting++;
    PyObject *items = PyTuple_New(n), *list = NULL;
    for (Py_ssize_t i = 0; items && i < n; i++) {
        PyObject *item = cr_wrap_read(c, CR_READ_ITEM, source, real, NULL, (int32_t)i);
        if (item) PyTuple_SET_ITEM(items, i, item);
        else Py_CLEAR(items);
    }
    c->nesting--;
    if (!is_list || !items) return know(c, real, items, source, NULL);
    if (!(list = PySequence_List(items))) Py_CLEAR(items);
    return know(c, real, list, source, items);
}

/* Keys that can be compared without running code, and held. */
static bool is_key(PyObject *o) {
    if (PyTuple_CheckExact(o)) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); i++)
            if (!is_key(PyTuple_GET_ITEM(o, i))) return false;
        return true;
    }
    return cr_is_plain_constant(o) || is_singleton(o);
}

/* What is behind a token is known by the next address: the object itself is known by its token. Takes over `value` and
 * `before`, also on failure; gives a new reference to the value. */
static PyObject *know_contents(cr_capture *c, PyObject *real, PyObject *value, int32_t source, PyObject *before) {
    const void *mark = (char *)real + 1;
    if (!value) return Py_XDECREF(before), NULL;
    if (cr_map_put(&c->by_real, &mark, sizeof mark, c->known.n) ||
        /* a tuple of items is another object */
        (before && cr_map_put(&c->by_value, &value, sizeof value, c->known.n)) ||
        cr_vec_push(&c->known, (cr_known){ Py_NewRef(real), value, source, before })) {
        Py_DECREF(value);
        Py_XDECREF(before);
        return PyErr_NoMemory();
    }
    return Py_NewRef(value);
}

PyObject *cr_unfolded(const cr_capture *c, PyObject *dict) {
    size_t at;
    return find(&c->by_real, (char *)dict + 1, &at) ? c->known.at[at].value : NULL;
}

/* The items of an object of a class made of list or tuple. */
static PyObject *unfold_items(cr_capture *c, PyObject *real, int32_t source) {
    Py_ssize_t n = Py_SIZE(real);
    if (n > MAX_ITEMS) return cr_break(c, "an object of class %s is read that has %zd items", Py_TYPE(real)->tp_name,
                                       n), NULL;
    if (cr_guard_number(&c->guards, source, CR_HOLDS_LENGTH, Py_TYPE(real), (int32_t)n)) return NULL;
    PyObject *items = PyTuple_New(n);
    for (Py_ssize_t i = 0; items && i < n; i++) {
        PyObject *item = cr_wrap_read(c, CR_READ_ITEM, source, real, NULL, (int32_t)i);
        if (item) PyTuple_SET_ITEM(items, i, item);
        else Py_CLEAR(items);
    }
    if (!items || PyTuple_Check(real)) return know_contents(c, real, items, source, NULL);
    return know_contents(c, real, PySequence_List(items), source, items);
}

/* What an object's attributes were set to is in its dict from now on. */
static int move_stores(cr_capture *c, PyObject *real, PyObject *dict) {
    size_t kept = 0;
    int failed = 0;
    real = owner_of(c, real);
    for (size_t i = 0; i < c->stores.n; i++) {
        cr_store *s = &c->stores.at[i];
        if (s->real != real || s->read != CR_READ_ATTRIBUTE) {
            c->stores.at[kept++] = *s;
            continue;
        }
        failed |= s->value == CR_DELETED ? PyDict_DelItem(dict, s->key) : PyDict_SetItem(dict, s->key, s->value);
        Py_DECREF(s->real), Py_XDECREF(s->key), Py_DECREF(s->value);
    }
    c->stores.n = kept;
    return failed;
}

PyObject *cr_unfold(cr_capture *c, PyObject *token) {
    PyObject *real = cr_real(token), *key, *value;
    int32_t source = cr_source_of(token), i = 0;
    if (cr_unfolded(c, real)) return Py_NewRef(cr_unfolded(c, real));
    if (PySet_Check(real)) {
        PyObject *items = NULL, *set = cr_copy_of_set(c, real, source, &items);
        return know_contents(c, real, set, source, items);
    }
    if (!PyDict_Check(real)) return unfold_items(c, real, source);
    if (cr_has_stores(c, real) && owner_of(c, real) == real)
        return cr_break(c, "variables are set and read as a dict"), NULL;
    if (PyDict_GET_SIZE(real) > MAX_ITEMS) return cr_break(c, "a dict of many items is read"), NULL;
    bool ordered = PyODict_CheckExact(real);
    PyObject *keys = PyTuple_New(PyDict_GET_SIZE(real)), *dict = ordered ? PyODict_New() : PyDict_New(), *before = NULL;
    for (Py_ssize_t p = 0; keys && dict && PyDict_Next(real, &p, &key, &value);) {
        if (!is_key(key)) {
            cr_break(c, "a dict with keys of class %s is read", Py_TYPE(key)->tp_name);
            goto failed;
        }
        PyTuple_SET_ITEM(keys, i++, Py_NewRef(key));
    }
    if (keys && ordered && !cr_holds_keys(real, keys)) {
        cr_break(c, "an OrderedDict is read whose items were moved");
        goto failed;
    }
    if (!keys || !dict || cr_guard_object(&c->guards, source, CR_HOLDS_KEYS, keys)) goto failed;
    for (i = 0; i < PyTuple_GET_SIZE(keys); i++) {
        PyObject *item = cr_wrap_read(c, CR_READ_ENTRY, source, real, NULL, i);
        if (!item || PyObject_SetItem(dict, PyTuple_GET_ITEM(keys, i), item)) {
            Py_XDECREF(item);
            goto failed;
        }
        Py_DECREF(item);
    }
    if (!(before = PyDict_Copy(dict)) || move_stores(c, real, dict)) goto failed;
    Py_DECREF(keys);
    return know_contents(c, real, dict, source, before);
failed:
    Py_XDECREF(before);
    Py_XDECREF(keys);
    Py_XDECREF(dict);
    return NULL;
}

static PyObject *wrap_constant(cr_capture *c, PyObject *real, int32_t source) {
    cr_holds check = cr_is_plain_constant(real) ? CR_HOLDS_CONSTANT : CR_HOLDS_IS;
    return cr_guard_object(&c->guards, source, check, real) ? NULL : Py_NewRef(real);
}

/* Functions, classes, modules and what they are found in. */
static bool is_code(PyObject *o) {
    return PyFunction_Check(o) || PyType_Check(o) || PyModule_Check(o) || PyCode_Check(o) || is_c_function(o);
}

PyObject *cr_wrap(cr_capture *c, PyObject *real, int32_t source) {
    size_t at;
    if (c->plain) return Py_NewRef(real);
    if (source == CR_NO_SLOT && !cr_is_plain_constant(real) && !cr_is_held_constant(real))
        return cr_break(c, "an object of class %s that a class in C has is read", Py_TYPE(real)->tp_name), NULL;
    if (source == CR_NO_SLOT) return Py_NewRef(real);
    if (c->looks_only_at_code && !is_code(real))
        return cr_break(c, "a function with lru_cache looks at something outside that may change"), NULL;
    PyObject *number = NULL;
    if (cr_wrap_number(c, real, source, &number)) return number;
    if (cr_is_plain_constant(real) || cr_is_held_constant(real)) return wrap_constant(c, real, source);
    if (find(&c->by_real, real, &at)) {
        const cr_known *known = &c->known.at[at];
        if (known->source != source &&
            cr_guard_number(&c->guards, source, CR_HOLDS_SAME, NULL, known->source))
            return NULL;
        return Py_NewRef(known->value);
    }
    if (c->tracer && cr_is_open(real)) return Py_NewRef(real);
    if (cr_is_tensor_value(real)) return c->tracer ? wrap_exported(c, real, source) : wrap_tensor(c, real, source);
    /* a long one is an object like any other: where something is read of it, the capture ends */
    if ((PyTuple_CheckExact(real) || PyList_CheckExact(real)) && Py_SIZE(real) <= MAX_ITEMS)
        return wrap_sequence(c, real, source);
    if (PyType_Check(real) ? cr_guard_class(&c->guards, source, (PyTypeObject *)real)
                           : cr_guard_type(&c->guards, source, Py_TYPE(real)))
        return NULL;
    c->finalizes |= cr_has_finalizer(Py_TYPE(real));
    return know(c, real, token_new(real, source, false), source, NULL);
}

PyObject *cr_wrap_read(cr_capture *c, cr_read read, int32_t parent, PyObject *parent_real, PyObject *key,
                       int32_t index) {
    PyObject *set = cr_find_store(c, parent_real, key);
    bool stored = read == CR_READ_ATTRIBUTE || read == CR_READ_CONTENTS || read == CR_READ_KEY ||
                  read == CR_READ_PART;
    if (set == CR_DELETED && stored) return cr_break(c, "something that was deleted is read"), NULL;
    if (set && stored) return Py_NewRef(set);
    PyObject *real = cr_read_now(read, parent_real, key, index);
    if (!real) return cr_break(c, "something that is not there is read"), NULL;
    if (c->plain) return Py_NewRef(real);
    int32_t source = cr_source(&c->guards, read, parent, read == CR_READ_PART ? NULL : key, index);
    if (source < 0) return NULL;
    Py_INCREF(real);
    PyObject *value = cr_wrap(c, real, source);
    Py_DECREF(real);
    return value;
}

/* Does the class leave to its class in C what its items are? */
static bool has_plain_items(PyTypeObject *type, PyTypeObject *base) {
    static const char *const texts[] = { "__iter__", "__len__", "__getitem__", "__contains__", "keys" };
    static PyObject *names[CR_COUNT(texts)]; /* once */
    for (size_t i = 0; i < CR_COUNT(texts); i++) {
        if (!names[i] && !(names[i] = PyUnicode_InternFromString(texts[i]))) return PyErr_Clear(), false;
        if (type != base && _PyType_Lookup(type, names[i]) != _PyType_Lookup(base, names[i])) return false;
    }
    return true;
}

/* Classes that a class statement makes free their objects by one function; those in C have their own. */
PyTypeObject *cr_class_in_c(PyTypeObject *type) {
    destructor in_python = ((PyTypeObject *)cr_break_error)->tp_dealloc;
    while (cr_is_python_class(type) && type->tp_dealloc == in_python) type = type->tp_base;
    return type;
}

PyObject *cr_payload(cr_capture *c, PyObject *token) {
    PyObject *real = cr_real(token);
    if (cr_is_made(token)) {
        PyObject *payload = ((cr_token *)token)->payload;
        bool known = !payload || PyTuple_CheckExact(payload) ||
                     cr_map_find(&c->payloads, &payload, sizeof payload, NULL);
        if (!known && (PyList_Append(c->kept, token) || cr_map_put(&c->payloads, &payload, sizeof payload,
                                                                   (uint64_t)(uintptr_t)token)))
            return PyErr_NoMemory();
        return Py_XNewRef(payload);
    }
    if (PyDict_CheckExact(real) || PyODict_CheckExact(real) || PySet_CheckExact(real) ||
        ((PyTuple_Check(real) || PyList_Check(real)) && cr_is_python_class(Py_TYPE(real))))
        return cr_unfold(c, token);
    return NULL;
}

/* A member of an enumeration of texts or ints, as its class in C sees it. Its guard holds it: its class does, too. */
static PyObject *value_of_member(cr_capture *c, PyObject *token) {
    PyObject *real = cr_real(token);
    if (cr_guard_object(&c->guards, cr_source_of(token), CR_HOLDS_IS, real)) return NULL;
    return PyUnicode_Check(real) ? PyUnicode_FromObject(real) : PyLong_Type.tp_as_number->nb_positive(real);
}

bool cr_is_enumeration(PyTypeObject *type) { return !strcmp(Py_TYPE(type)->tp_name, "EnumType"); }

PyObject *cr_operand(cr_capture *c, PyObject *value) {
    if (!cr_is_token(value)) return Py_NewRef(value);
    if ((PyUnicode_Check(cr_real(value)) || PyLong_Check(cr_real(value))) && !cr_is_made(value) &&
        cr_is_enumeration(Py_TYPE(cr_real(value))))
        return value_of_member(c, value);
    PyTypeObject *type = Py_TYPE(cr_real(value)), *base = cr_class_in_c(type);
    bool has_items = base == &PyDict_Type || base == &PyList_Type || base == &PyTuple_Type || base == &PySet_Type ||
                     base == &PyODict_Type;
    if (!has_items || !has_plain_items(type, base)) return Py_NewRef(value);
    PyObject *payload = cr_payload(c, value);
    return payload || PyErr_Occurred() || c->reason ? payload : Py_NewRef(value);
}
