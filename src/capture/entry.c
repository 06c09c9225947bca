/* entry.c: making entries of captures; entry_run.c runs them.
 *
 * The result of a call is made again from rows (cr_make): outputs of the graph, objects in slots (an argument that is
 * returned is that argument), constants, and containers of these; one container used twice is made once. */
#include "capture/entry.h"

#include "passes/passes.h"
#include "python/py.h"
#include "sym/shape.h"

#include <string.h>

/* ---- making ---- */

typedef struct builder {
    cr_capture *c;
    cr_entry *e;
    cr_map rows;      /* value -> row of what was made of it */
    cr_map outputs;   /* fake -> output */
    CR_VEC(cr_arg) outs;
    size_t changed;   /* containers from outside, so far */
    const PyTypeObject *of_apart[4]; /* classes all of whose objects that were read are guarded to be apart */
    size_t napart;
} builder;

static int no_memory(void) { return PyErr_NoMemory(), -1; }

static int add_row(builder *b, cr_make row, uint32_t *at) {
    *at = (uint32_t)b->e->makes.n;
    Py_XINCREF(row.object);
    return cr_vec_push(&b->e->makes, row) ? no_memory() : 0;
}

static int make(builder *b, PyObject *value, uint32_t *at);

/* Rows for the parts come first; the container's row lists them. */
static int make_container(builder *b, cr_make_kind kind, PyObject *const *items, Py_ssize_t n, uint32_t *at) {
    uint32_t *rows = PyMem_Malloc(((size_t)n + 1) * sizeof *rows);
    int failed = rows ? 0 : no_memory();
    for (Py_ssize_t i = 0; !failed && i < n; i++) failed = make(b, items[i], &rows[i]);
    cr_make row = { .kind = (uint8_t)kind, .index = (uint32_t)b->e->parts.n, .n = (uint32_t)n };
    for (Py_ssize_t i = 0; !failed && i < n; i++) failed = cr_vec_push(&b->e->parts, rows[i]) ? no_memory() : 0;
    PyMem_Free(rows);
    return failed ? -1 : add_row(b, row, at);
}

static int make_dict(builder *b, PyObject *dict, uint32_t *at) {
    Py_ssize_t n = PyDict_GET_SIZE(dict), i = 0;
    PyObject *key, *value, **items = PyMem_Malloc(((size_t)n * 2 + 1) * sizeof *items);
    int failed = items ? 0 : no_memory();
    for (Py_ssize_t p = 0; !failed && PyDict_Next(dict, &p, &key, &value); items[i++] = key, items[i++] = value)
        if (!cr_is_constant(key)) failed = cr_break(b->c, "a dict is made whose keys are no constants");
    if (!failed) failed = make_container(b, CR_MAKE_DICT, items, i, at);
    PyMem_Free(items);
    return failed;
}

static bool lies_on(PyObject *fake, PyObject *other) {
    cr_py_frame frame;
    cr_arg a, b;
    cr_py_frame_init(&frame);
    bool known = !cr_py_convert(&frame, fake, &a) && !cr_py_convert(&frame, other, &b) && a.kind == CR_ARG_TENSOR &&
                 b.kind == CR_ARG_TENSOR;
    bool same = !known || a.u.t->meta.storage == b.u.t->meta.storage;
    cr_py_frame_dispose(&frame);
    return same;
}

static int make_output(builder *b, PyObject *fake, uint32_t *at) {
    uint64_t index = b->outs.n;
    for (Py_ssize_t i = 0; b->c->leaves && i < PyList_GET_SIZE(b->c->leaves); i++)
        if (lies_on(fake, PyList_GET_ITEM(b->c->leaves, i)))
            return cr_break(b->c, "a tensor that requires_grad_() was called on is part of the result");
    if (!cr_map_find(&b->outputs, &fake, sizeof fake, &index)) {
        cr_py_frame frame;
        cr_arg arg;
        cr_py_frame_init(&frame);
        int failed = cr_py_convert(&frame, fake, &arg);
        cr_py_frame_dispose(&frame);
        if (failed || cr_map_put(&b->outputs, &fake, sizeof fake, index) || cr_vec_push(&b->outs, arg)) return -1;
    }
    return add_row(b, (cr_make){ .kind = CR_MAKE_OUTPUT, .index = (uint32_t)index }, at);
}

/* A number that depends on data: the graph computes it. */
static int make_data(builder *b, PyObject *value, uint32_t *at) {
    cr_arg number = cr_arg_none();
    size_t index = 0;
    cr_py_sym_read(value, &number);
    for (; index < b->outs.n; index++) {
        const cr_arg *known = &b->outs.at[index];
        if (known->kind == number.kind && (number.kind == CR_ARG_SYM ? known->u.sym == number.u.sym
                                                                     : known->u.i == number.u.i))
            break;
    }
    if (index == b->outs.n && cr_vec_push(&b->outs, number)) return no_memory();
    return add_row(b, (cr_make){ .kind = CR_MAKE_OUTPUT, .index = (uint32_t)index }, at);
}

/* A number that was computed from open ones; one that is read as it is, is that object. */
static int make_number(builder *b, PyObject *value, uint32_t *at) {
    cr_sym e = cr_open_expr(value);
    const cr_numbers *n = b->c->numbers;
    for (size_t i = 0; n && i < n->symbols.n; i++)
        if (n->symbols.at[i].symbol == e && n->symbols.at[i].dim == CR_ITSELF)
            return add_row(b, (cr_make){ CR_MAKE_SLOT, (uint32_t)n->symbols.at[i].slot, 0, NULL }, at);
    if (e && cr_depends_on_data(b->c, e)) return make_data(b, value, at);
    uint32_t index = (uint32_t)b->e->formulas.n;
    if (!e || !n) return cr_break(b->c, "a number that is not known is part of the result");
    if (cr_vec_push(&b->e->formulas, e)) return no_memory();
    return add_row(b, (cr_make){ .kind = CR_MAKE_NUMBER, .index = index }, at);
}

static int add_parts(builder *b, cr_make_kind kind, PyObject *name, const uint32_t *rows, uint32_t n, uint32_t *at) {
    cr_make row = { .kind = (uint8_t)kind, .index = (uint32_t)b->e->parts.n, .n = n, .object = name };
    for (uint32_t i = 0; i < n; i++)
        if (cr_vec_push(&b->e->parts, rows[i])) return no_memory();
    return add_row(b, row, at);
}

static bool is_unbounded_deque(PyObject *value) {
    PyObject *limit = strcmp(Py_TYPE(value)->tp_name, "collections.deque") ? NULL
                                                                          : PyObject_GetAttrString(value, "maxlen");
    Py_XDECREF(limit);
    PyErr_Clear();
    return limit == Py_None;
}

/* What an op with several results gave: max(x, 0), whose class in C is made of a sequence. */
static bool is_structure(PyObject *value) {
    static PyObject *name; /* once */
    if (!name && !(name = PyUnicode_InternFromString("n_sequence_fields"))) return PyErr_Clear(), false;
    return PyTuple_Check(value) && !PyTuple_CheckExact(value) && !cr_is_python_class(Py_TYPE(value)) &&
           _PyType_Lookup(Py_TYPE(value), name);
}

/* A container of a class in C that is made of a list: OrderedDict of its items, a set; a defaultdict of what it calls
 * for items, too. */
static int make_by_call(builder *b, PyObject *value, uint32_t *at) {
    bool calls = cr_is_defaultdict(Py_TYPE(value));
    PyObject *pairs = calls || PyODict_CheckExact(value) ? PyMapping_Items(value) : PySequence_List(value);
    PyObject *factory = calls ? PyObject_GetAttrString(value, "default_factory") : NULL;
    uint32_t rows[3];
    int failed = !pairs || (calls && !factory) || PyList_Append(b->c->kept, pairs) ||
                 make(b, (PyObject *)Py_TYPE(value), &rows[0]) || (calls && make(b, factory, &rows[1])) ||
                 make(b, pairs, &rows[1 + calls]) || add_parts(b, CR_MAKE_CALL, NULL, rows, 2u + calls, at);
    Py_XDECREF(pairs);
    Py_XDECREF(factory);
    return failed ? -1 : 0;
}

/* x.shape, some of its sizes open. */
static int make_size(builder *b, PyObject *value, uint32_t *at) {
    PyObject *items = PySequence_List(value);
    uint32_t rows[2];
    PyObject *type = (PyObject *)cr_class_of(b->c, value);
    int failed = !items || PyList_Append(b->c->kept, items) || make(b, type, &rows[0]) || make(b, items, &rows[1]) ||
                 add_parts(b, CR_MAKE_CALL, NULL, rows, 2, at);
    Py_XDECREF(items);
    return failed ? -1 : 0;
}

/* A cell that the program made. It may hold what holds it. */
static int make_cell(builder *b, PyObject *cell, uint32_t *at) {
    uint32_t rows[2], unused;
    if (add_parts(b, CR_MAKE_CELL, NULL, NULL, 0, &rows[0]) || cr_map_put(&b->rows, &cell, sizeof cell, rows[0]))
        return -1;
    *at = rows[0];
    if (!PyCell_GET(cell)) return 0;
    return make(b, PyCell_GET(cell), &rows[1]) || add_parts(b, CR_MAKE_FILL, NULL, rows, 2, &unused) ? -1 : 0;
}

static int make_attributes(builder *b, uint32_t object, PyObject *dict, PyTypeObject *type);

/* What a function says of itself, where it is not what its code says: functools.wraps(). */
static int make_texts(builder *b, const PyFunctionObject *fn, uint32_t object) {
    const PyCodeObject *code = (PyCodeObject *)fn->func_code;
    PyObject *module = PyDict_GetItemString(fn->func_globals, "__name__");
    PyObject *doc = PyTuple_GET_SIZE(code->co_consts) ? PyTuple_GET_ITEM(code->co_consts, 0) : Py_None;
    if (!PyUnicode_Check(doc)) doc = Py_None;
    const struct { const char *name; PyObject *is, *was; } texts[] = {
        { "__name__", fn->func_name, code->co_name },
        { "__qualname__", fn->func_qualname, code->co_qualname },
        { "__doc__", fn->func_doc, doc },
        { "__module__", fn->func_module, module },
    };
    uint32_t rows[2] = { object, 0 }, at;
    for (size_t i = 0; i < CR_COUNT(texts); i++) {
        if (texts[i].is == texts[i].was || !texts[i].is) continue;
        PyObject *name = PyUnicode_InternFromString(texts[i].name);
        int failed = !name || make(b, texts[i].is, &rows[1]) || add_parts(b, CR_MAKE_ATTRIBUTE, name, rows, 2, &at);
        Py_XDECREF(name);
        if (failed) return -1;
    }
    return 0;
}

/* Annotations are a tuple until somebody asks for them: then they are a dict, which may be another function's, as type
 * parameters may. */
static bool has_others_parts(const PyFunctionObject *fn) {
    const PyObject *annotations = fn->func_annotations;
#ifdef CR_HAS_TYPE_PARAMETERS
    if (fn->func_typeparams && PyTuple_GET_SIZE(fn->func_typeparams)) return true;
#endif
    return annotations && !(PyTuple_CheckExact(annotations) && cr_is_constant((PyObject *)annotations));
}

/* A function that the program made, with cells and defaults as they are now. */
static int make_function(builder *b, PyObject *value, uint32_t *at) {
    const PyFunctionObject *fn = (PyFunctionObject *)value;
    uint64_t owner;
    uint32_t rows[3] = { 0 }, unused;
    if (!cr_map_find(&b->c->made, &value, sizeof value, &owner) || has_others_parts(fn))
        return cr_break(b->c, "a function that cannot be made again is part of the result");
    int32_t globals = cr_source(&b->c->guards, CR_READ_GLOBALS, (int32_t)owner, NULL, 0);
    Py_ssize_t n = fn->func_closure ? PyTuple_GET_SIZE(fn->func_closure) : 0;
    uint32_t *parts = PyMem_Calloc((size_t)n + 1, sizeof *parts);
    PyObject *fixed = PyTuple_Pack(2, fn->func_code, fn->func_annotations ? fn->func_annotations : Py_None);
    int failed = globals < 0 || !parts || !fixed ||
                 add_row(b, (cr_make){ CR_MAKE_SLOT, (uint32_t)globals, 0, NULL }, &parts[0]) ||
                 (fn->func_defaults && make(b, fn->func_defaults, &rows[1])) ||
                 (fn->func_kwdefaults && make(b, fn->func_kwdefaults, &rows[2]));
    /* the function is there before what its cells hold */
    CR_VEC(uint32_t) empty = { 0 };
    for (Py_ssize_t k = 0; !failed && k < n; k++) {
        PyObject *cell = PyTuple_GET_ITEM(fn->func_closure, k);
        uint64_t known;
        if (cr_is_token(cell)) failed = make(b, cell, &parts[k + 1]);
        else if (cr_map_find(&b->rows, &cell, sizeof cell, &known)) parts[k + 1] = (uint32_t)known;
        else
            failed = add_parts(b, CR_MAKE_CELL, NULL, NULL, 0, &parts[k + 1]) ||
                     cr_map_put(&b->rows, &cell, sizeof cell, parts[k + 1]) || cr_vec_push(&empty, (uint32_t)k);
    }
    if (!failed) failed = add_parts(b, CR_MAKE_FUNCTION, fixed, parts, (uint32_t)n + 1, at) ||
                          cr_map_put(&b->rows, &value, sizeof value, *at);
    for (size_t k = 0; !failed && k < empty.n; k++) {
        PyObject *held = PyCell_GET(PyTuple_GET_ITEM(fn->func_closure, empty.at[k]));
        uint32_t fill[2] = { parts[empty.at[k] + 1], 0 };
        if (held) failed = make(b, held, &fill[1]) || add_parts(b, CR_MAKE_FILL, NULL, fill, 2, &unused);
    }
    rows[0] = *at;
    static const char *const names[] = { NULL, "__defaults__", "__kwdefaults__" };
    PyObject *const given[] = { NULL, fn->func_defaults, fn->func_kwdefaults };
    for (int k = 1; !failed && k < 3; k++) {
        PyObject *name = given[k] ? PyUnicode_InternFromString(names[k]) : NULL;
        uint32_t set[2] = { rows[0], rows[k] };
        if (given[k]) failed = !name || add_parts(b, CR_MAKE_ATTRIBUTE, name, set, 2, &unused);
        Py_XDECREF(name);
    }
    cr_vec_dispose(&empty);
    PyMem_Free(parts);
    Py_XDECREF(fixed);
    if (failed || make_texts(b, fn, rows[0])) return -1;
    return make_attributes(b, rows[0], fn->func_dict, &PyFunction_Type);
}

/* By its name: `log.append` of a container; a tensor's op, which is its own library's where fakes stand for tensors. */
static int make_bound(builder *b, PyObject *object, PyObject *name, uint32_t *at) {
    uint32_t self;
    int failed = !name || make(b, object, &self) || add_parts(b, CR_MAKE_BOUND, name, &self, 1, at) ? -1 : 0;
    Py_XDECREF(name);
    return failed;
}

static int make_bound_builtin(builder *b, PyObject *method, uint32_t *at) {
    const char *name = ((PyCFunctionObject *)method)->m_ml->ml_name;
    return make_bound(b, PyCFunction_GET_SELF(method), PyUnicode_InternFromString(name), at);
}

static int make_method(builder *b, PyObject *method, uint32_t *at) {
    PyObject *parts[] = { PyMethod_GET_FUNCTION(method), PyMethod_GET_SELF(method) };
    if (!PyFunction_Check(parts[0]) && cr_is_tensor_value(parts[1]))
        return make_bound(b, parts[1], PyObject_GetAttrString(parts[0], "__name__"), at);
    return make_container(b, CR_MAKE_METHOD, parts, 2, at);
}

/* An iterator in the middle of what it goes over, as pickle would take it apart. */
static int make_iterator(builder *b, PyObject *iterator, uint32_t *at) {
    PyObject *reduced = PyObject_CallMethod(iterator, "__reduce__", NULL);
    PyObject *args = reduced ? PyTuple_GET_ITEM(reduced, 1) : NULL;
    Py_ssize_t n = args ? PyTuple_GET_SIZE(args) : 0;
    uint32_t rows[4];
    int failed = !reduced || PyList_Append(b->c->kept, reduced); /* rows are known by addresses */
    if (!failed && n + 1 > (Py_ssize_t)CR_COUNT(rows)) failed = cr_break(b->c, "an iterator over many others is live");
    for (Py_ssize_t i = 0; !failed && i < n; i++) failed = make(b, PyTuple_GET_ITEM(args, i), &rows[i]);
    if (!failed) failed = make(b, PyTuple_GET_SIZE(reduced) > 2 ? PyTuple_GET_ITEM(reduced, 2) : Py_None, &rows[n]);
    if (!failed)
        failed = add_parts(b, CR_MAKE_ITERATOR, PyTuple_GET_ITEM(reduced, 0), rows, (uint32_t)n + 1, at);
    Py_XDECREF(reduced);
    return failed ? -1 : 0;
}

static bool is_iterator(PyObject *o) {
    static const char *const names[] = { "list_iterator", "tuple_iterator", "range_iterator", "str_ascii_iterator",
                                         "str_iterator", "list_reverseiterator", "enumerate", "zip", "reversed" };
    for (size_t i = 0; i < CR_COUNT(names); i++)
        if (!strcmp(Py_TYPE(o)->tp_name, names[i])) return !cr_is_python_class(Py_TYPE(o));
    return false;
}

/* The dict that an iterator goes through; borrowed. NULL: it is at its end, or no such iterator. */
static PyObject *dict_of_iterator(PyObject *o, const char **view) {
    static const char *const names[][2] = { { "dict_keyiterator", "keys" },
                                            { "dict_valueiterator", "values" },
                                            { "dict_itemiterator", "items" } };
    for (size_t i = 0; i < CR_COUNT(names); i++)
        if (!strcmp(Py_TYPE(o)->tp_name, names[i][0])) {
            *view = names[i][1];
            return *(PyObject **)((char *)o + sizeof(PyObject)); /* the first field of each */
        }
    *view = NULL;
    return NULL;
}

/* One over the same dict, so far: whoever changes the dict's size meanwhile gets CPython's error. */
static int make_dict_iterator(builder *b, PyObject *iterator, PyObject *dict, const char *view, uint32_t *at) {
    Py_ssize_t left = PyObject_LengthHint(iterator, -1), n = PyObject_Length(dict);
    size_t known;
    uint32_t row;
    bool changed = cr_find_known(b->c, dict, &known) && b->c->known.at[known].before &&
                   !cr_is_unchanged(&b->c->known.at[known]);
    const Py_ssize_t *fields = (Py_ssize_t *)((char *)iterator + sizeof(PyObject) + sizeof(PyObject *));
    Py_ssize_t rest = 0, p = fields[1]; /* the dict's size when it began, and the entry where it is */
    while (PyDict_Next(dict, &p, NULL, NULL)) rest++;
    if (left < 0 || changed || fields[0] != n || rest != left)
        return PyErr_Occurred() ? -1 : cr_break(b->c, "a dict is gone through that was changed");
    PyObject *how = Py_BuildValue("(sn)", view, n - left);
    int failed = !how || make(b, dict, &row) || add_parts(b, CR_MAKE_DICT_ITERATOR, how, &row, 1, at);
    Py_XDECREF(how);
    return failed ? -1 : 0;
}

/* A container of the program's own, described anew. */
static int make_own(builder *b, PyObject *value, uint32_t *at) {
    uint64_t owner;
    uint32_t row;
    if (PyTuple_CheckExact(value))
        return make_container(b, CR_MAKE_TUPLE, ((PyTupleObject *)value)->ob_item, PyTuple_GET_SIZE(value), at);
    if (PyList_CheckExact(value))
        return make_container(b, CR_MAKE_LIST, ((PyListObject *)value)->ob_item, PyList_GET_SIZE(value), at);
    if (PyDict_CheckExact(value) && cr_map_find(&b->c->owners, &value, sizeof value, &owner))
        return make(b, (PyObject *)(uintptr_t)owner, &row) || add_parts(b, CR_MAKE_NAMESPACE, NULL, &row, 1, at) ? -1
                                                                                                                : 0;
    if (PyDict_CheckExact(value)) return make_dict(b, value, at);
    if (PySlice_Check(value)) return make_container(b, CR_MAKE_SLICE, &((PySliceObject *)value)->start, 3, at);
    if (PyODict_CheckExact(value) || PyAnySet_CheckExact(value)) return make_by_call(b, value, at);
    if (is_unbounded_deque(value) || is_structure(value) || cr_is_defaultdict(Py_TYPE(value)))
        return make_by_call(b, value, at);
    if (Py_IS_TYPE(value, &cr_py_size_type)) return make_size(b, value, at);
    if (PyFunction_Check(value)) return make_function(b, value, at);
    if (PyCell_Check(value)) return make_cell(b, value, at);
    if (PyMethod_Check(value)) return make_method(b, value, at);
    if (PyCFunction_CheckExact(value) && PyCFunction_GET_SELF(value) && !PyType_Check(PyCFunction_GET_SELF(value)))
        return make_bound_builtin(b, value, at);
    if (is_iterator(value)) return make_iterator(b, value, at);
    const char *view;
    PyObject *dict = dict_of_iterator(value, &view);
    if (view) return dict ? make_dict_iterator(b, value, dict, view, at) : make_iterator(b, value, at);
    return cr_break(b->c, "an object of class %s is part of the result", Py_TYPE(value)->tp_name);
}

/* `type`: of the object whose __dict__ it is; NULL: what it has in __slots__. */
static int make_attributes(builder *b, uint32_t object, PyObject *dict, PyTypeObject *type) {
    PyObject *key, *value;
    uint32_t rows[2] = { object, 0 }, at;
    for (Py_ssize_t p = 0; dict && PyDict_Next(dict, &p, &key, &value);) {
        PyObject *raw = type && PyUnicode_CheckExact(key) ? _PyType_Lookup(type, key) : NULL;
        if (!PyUnicode_CheckExact(key) || (raw && Py_TYPE(raw)->tp_descr_set))
            return cr_break(b->c, "an object has something in its __dict__ that its class hides");
        if (make(b, value, &rows[1]) || add_parts(b, CR_MAKE_ATTRIBUTE, key, rows, 2, &at)) return -1;
    }
    return 0;
}

/* An exception that nobody has raised yet: its class and its arguments. */
static int make_exception(builder *b, const cr_token *t, uint32_t *at) {
    PyObject *args = PyObject_GetAttrString(t->real, "args");
    uint32_t rows[2];
    int failed = !args || PyDict_GET_SIZE(t->attributes) || make(b, t->type, &rows[0]) || make(b, args, &rows[1]);
    if (args && PyDict_GET_SIZE(t->attributes)) cr_break(b->c, "an exception with attributes is part of the result");
    Py_XDECREF(args);
    return failed ? -1 : add_parts(b, CR_MAKE_OBJECT, NULL, rows, 2, at);
}

/* An object that the program made: an empty one first, so that what it holds may hold it. */
static int make_object(builder *b, PyObject *token, uint32_t *at) {
    const cr_token *t = (cr_token *)token;
    uint32_t rows[2], unused;
    bool is_tuple = PyTuple_Check(t->real);
    if (t->caught || (t->slots && PyExceptionInstance_Check(t->real)) || Py_IS_TYPE(t->real, &PyTraceBack_Type))
        return cr_break(b->c, "an exception that was caught is part of the result");
    if (Py_IS_TYPE(t->real, &PyContextToken_Type))
        return cr_break(b->c, "a token of ContextVar.set() is part of the result");
    if (PyExceptionInstance_Check(t->real)) return make_exception(b, t, at);
    if (make(b, t->type, &rows[0]) || (is_tuple && make(b, t->payload, &rows[1])) ||
        add_parts(b, CR_MAKE_OBJECT, NULL, rows, is_tuple ? 2 : 1, at) ||
        cr_map_put(&b->rows, &token, sizeof token, *at))
        return -1;
    rows[0] = *at;
    if (t->payload && !is_tuple &&
        (make_own(b, t->payload, &rows[1]) || add_parts(b, CR_MAKE_ITEMS, NULL, rows, 2, &unused)))
        return -1;
    return make_attributes(b, *at, t->attributes, Py_TYPE(t->real)) || make_attributes(b, *at, t->slots, NULL) ? -1 : 0;
}

static int make(builder *b, PyObject *value, uint32_t *at) {
    uint64_t row;
    size_t known;
    if (cr_map_find(&b->rows, &value, sizeof value, &row)) return *at = (uint32_t)row, 0;
    if (cr_map_find(&b->c->payloads, &value, sizeof value, &row)) /* of an iterator, of a method: the object itself */
        return make(b, (PyObject *)(uintptr_t)row, at);
    if (b->c->nesting >= CR_MAX_NESTING) return cr_break(b->c, "objects deep in each other are part of the result");
    b->c->nesting++;
    int failed;
    if (cr_is_made(value)) failed = make_object(b, value, at);
    else if (cr_is_token(value) && cr_source_of(value) == CR_NO_SLOT)
        failed = cr_break(b->c, "an object whose origin is not known is part of the result");
    else if (cr_is_token(value))
        failed = add_row(b, (cr_make){ CR_MAKE_SLOT, (uint32_t)cr_source_of(value), 0, NULL }, at);
    else if (cr_find_known(b->c, value, &known))
        failed = add_row(b, (cr_make){ CR_MAKE_SLOT, (uint32_t)b->c->known.at[known].source, 0, NULL }, at);
    else if (b->c->tracer && (cr_is_tensor_value(value) || cr_is_open(value))) /* the exporter's */
        failed = add_row(b, (cr_make){ CR_MAKE_CONSTANT, 0, 0, value }, at);
    else if (cr_is_tensor_value(value)) failed = make_output(b, value, at);
    else if (cr_is_open(value)) failed = make_number(b, value, at);
    else if (cr_is_plain_constant(value) || cr_is_held_constant(value) || PyRange_Check(value) ||
             cr_is_numpy_number(value) || cr_map_find(&b->c->constants, &value, sizeof value, NULL) ||
             (PyTuple_Check(value) && !PyTuple_CheckExact(value) && cr_is_constant(value) &&
              !cr_is_python_class(Py_TYPE(value))))
        failed = add_row(b, (cr_make){ CR_MAKE_CONSTANT, 0, 0, value }, at);
    else failed = make_own(b, value, at);
    b->c->nesting--;
    return failed || cr_map_put(&b->rows, &value, sizeof value, *at) ? -1 : 0;
}

/* ---- changes to objects from outside ---- */

bool cr_is_unchanged(const cr_known *k) {
    PyObject *key, *value;
    Py_ssize_t n = PyObject_Length(k->before), p = 0, q = 0;
    if (PyObject_Length(k->value) != n) return false;
    if (PyList_CheckExact(k->value)) {
        for (Py_ssize_t i = 0; i < n; i++)
            if (PyList_GET_ITEM(k->value, i) != PyTuple_GET_ITEM(k->before, i)) return false;
        return true;
    }
    if (PyAnySet_CheckExact(k->value)) return cr_is_unchanged_set(k->value, k->before);
    PyObject *key_now, *value_now;
    if (PyODict_CheckExact(k->value)) { /* its order is its own */
        PyObject *keys = PySequence_Tuple(k->before);
        bool same = keys && cr_holds_keys(k->value, keys);
        Py_XDECREF(keys);
        if (!same) return PyErr_Clear(), false;
    }
    while (PyDict_Next(k->before, &p, &key, &value) && PyDict_Next(k->value, &q, &key_now, &value_now))
        if (value != value_now || !cr_constants_equal(key, key_now)) return false;
    return true;
}

/* The slots of all objects of a class that were read. */
static int guard_all_apart(cr_capture *c, const PyTypeObject *type) {
    CR_VEC(uint16_t) slots = { 0 };
    cr_map seen;
    int failed = 0;
    cr_map_init(&seen);
    for (size_t i = 0; !failed && i < c->known.n; i++) {
        const cr_known *k = &c->known.at[i];
        if (Py_TYPE(k->real) != type || k->source < 0 || cr_map_find(&seen, &k->real, sizeof k->real, NULL)) continue;
        failed = cr_map_put(&seen, &k->real, sizeof k->real, i) || cr_vec_push(&slots, (uint16_t)k->source);
    }
    failed = failed ? no_memory() : slots.n ? cr_guard_apart(&c->guards, slots.at, slots.n) : 0;
    cr_map_dispose(&seen);
    cr_vec_dispose(&slots);
    return failed;
}

/* Keys under which something of this dict was read or set. */
static int guard_keys_apart(cr_capture *c, int32_t dict) {
    CR_VEC(uint16_t) slots = { 0 };
    int failed = 0;
    for (size_t i = 0; !failed && i < c->guards.rows.n; i++) {
        const cr_guard *row = &c->guards.rows.at[i];
        if (row->read == CR_READ_LOOKUP && row->parent == dict)
            failed = cr_vec_push(&slots, (uint16_t)cr_key_slot(row->index)) ? -1 : 0;
    }
    failed = failed ? no_memory() : slots.n > 1 ? cr_guard_apart(&c->guards, slots.at, slots.n) : 0;
    cr_vec_dispose(&slots);
    return failed;
}

/* What is set under one of them is not what is under another. */
static int guard_keys(cr_capture *c) {
    for (size_t i = 0; i < c->stores.n; i++) {
        const cr_store *s = &c->stores.at[i];
        bool first = s->read == CR_READ_LOOKUP;
        for (size_t k = 0; first && k < i; k++)
            first = c->stores.at[k].read != CR_READ_LOOKUP || c->stores.at[k].source != s->source;
        if (first && guard_keys_apart(c, s->source)) return -1;
    }
    return 0;
}

/* A changed container must be another object than every other that was read: one by one, where many are changed all of
 * the class at once. */
static int guard_distinct(builder *b, const cr_known *changed) {
    enum { FEW = 8 };
    cr_capture *c = b->c;
    const PyTypeObject *type = Py_TYPE(changed->real);
    for (size_t i = 0; i < b->napart; i++)
        if (b->of_apart[i] == type) return 0;
    if (++b->changed > FEW && b->napart < CR_COUNT(b->of_apart)) {
        b->of_apart[b->napart++] = type;
        return guard_all_apart(c, type);
    }
    for (size_t i = 0; i < c->known.n; i++) {
        const cr_known *k = &c->known.at[i];
        if (k->real == changed->real || Py_TYPE(k->real) != Py_TYPE(changed->real)) continue;
        if (cr_guard_number(&c->guards, changed->source, CR_HOLDS_DIFFERENT, NULL, k->source)) return -1;
    }
    return 0;
}

/* What a change drops is dropped when all are made: no code of its own may run then that would have run before. */
static int refuse_finalizers(const builder *b) {
    return b->c->finalizes ? cr_break(b->c, "something is changed while an object with __del__ is in use") : 0;
}

/* A key that went and came again is elsewhere: whoever goes through the dict is told by CPython alone. */
static int refuse_moved_keys(const builder *b, PyObject *dict) {
    if (!b->c->midway || !PyDict_CheckExact(dict)) return 0;
    for (Py_ssize_t p = 0, n = 1; PyDict_Next(dict, &p, NULL, NULL); n++)
        if (p != n) return cr_break(b->c, "keys of a dict were deleted while somebody may go through it");
    return 0;
}

static int add_effects(builder *b) {
    for (size_t i = 0; i < b->c->known.n; i++) {
        const cr_known *k = &b->c->known.at[i];
        uint32_t row;
        if (k->before && refuse_moved_keys(b, k->value)) return -1;
        if (!k->before || cr_is_unchanged(k)) continue;
        if (refuse_finalizers(b) || guard_distinct(b, k) || make_own(b, k->value, &row)) return -1;
        if (cr_vec_push(&b->e->effects, (cr_effect){ CR_READ_NONE, k->source, row, NULL, 0 })) return no_memory();
    }
    return 0;
}

/* Globals that are one dict are so in every call, and others are others. */
static int guard_globals(cr_capture *c, const cr_store *s) {
    for (size_t i = 0; i < c->globals.n; i++) {
        const cr_globals *g = &c->globals.at[i];
        cr_holds holds = g->real == s->real ? CR_HOLDS_SAME : CR_HOLDS_DIFFERENT;
        if (g->source != s->source && cr_guard_number(&c->guards, g->source, holds, NULL, s->source)) return -1;
    }
    return 0;
}

/* Where the key of a store is; 0: it has none. */
static int32_t key_slot(const cr_capture *c, const cr_store *s) {
    size_t at;
    return s->read == CR_READ_LOOKUP && cr_find_known(c, s->key, &at) ? c->known.at[at].source : 0;
}

static int add_stores(builder *b) {
    if (b->c->stores.n && refuse_finalizers(b)) return -1;
    if (guard_keys(b->c)) return -1;
    for (size_t i = 0; i < b->c->stores.n; i++) {
        const cr_store *s = &b->c->stores.at[i];
        cr_known object = { .real = s->real, .source = s->source };
        uint32_t row;
        if (s->read == CR_READ_KEY ? guard_globals(b->c, s) : guard_distinct(b, &object)) return -1;
        if (s->value == CR_DELETED) row = CR_NO_ROW;
        else if (make(b, s->value, &row)) return -1;
        cr_effect effect = { s->read, s->source, row, s->read == CR_READ_LOOKUP ? NULL : s->key, key_slot(b->c, s) };
        if (cr_vec_push(&b->e->effects, effect)) return no_memory();
        Py_XINCREF(effect.key);
    }
    return 0;
}

/* Behind all changes, in order. */
static int add_reordered(builder *b) {
    for (size_t i = 0; i < b->c->reordered.n; i++) {
        const cr_reordered *r = &b->c->reordered.at[i];
        cr_effect effect = { .read = CR_READ_TOLD, .key = r->kwnames };
        if (make(b, r->call, &effect.made)) return -1;
        if (cr_vec_push(&b->e->effects, effect)) return no_memory();
        Py_XINCREF(effect.key);
    }
    return 0;
}

static int add_changes(builder *b) { return add_effects(b) || add_stores(b) || add_reordered(b) ? -1 : 0; }

/* ---- the graph ---- */

static int look_at_graph(builder *b) {
    cr_graph *g = b->e->graph;
    const cr_op *op = NULL;
    const char *input = NULL;
    for (uint32_t n = cr_graph_first(g); n != CR_NO_NODE; n = cr_graph_next(g, n)) {
        const cr_node *node = cr_graph_node(g, n);
        if (node->kind != CR_NODE_CALL) continue;
        b->e->ops++;
    }
    if (cr_body_writes(g, &op, &input)) return cr_py_fail(cr_error_code());
    b->e->writes = input != NULL;
    b->e->draws = cr_tier_draws(g);
    return 0;
}

bool cr_capture_records(const cr_capture *c) {
    for (size_t i = 0; i < c->inputs.n; i++) {
        size_t at;
        if (!c->inputs.at[i].fake) continue; /* a number */
        PyObject *wants = !cr_find_known(c, c->inputs.at[i].fake, &at)
                              ? NULL
                              : PyObject_GetAttrString(c->known.at[at].real, "requires_grad");
        bool no = wants == Py_False;
        Py_XDECREF(wants);
        PyErr_Clear();
        if (!no) return true;
    }
    return false;
}

static bool is_in(cr_sym e, cr_sym symbol) {
    bool found = e == symbol;
    for (size_t i = 0; !found && i < cr_sym_operand_count(e); i++) found = is_in(cr_sym_operand(e, i), symbol);
    return found;
}

/* Is some condition about it? The graph checks those, too. */
static bool is_asked_about(const cr_env *env, cr_sym symbol) {
    for (size_t i = 0; i < cr_env_cond_count(env); i++)
        if (is_in(cr_env_cond(env, i).condition, symbol)) return true;
    return false;
}

/* Numbers that are only carried along are no inputs of the graph. */
static int drop_unused_numbers(builder *b) {
    cr_graph *g = b->e->graph;
    size_t kept = 0, i = 0;
    uint32_t *uses = PyMem_Calloc(cr_graph_value_count(g) + 1, sizeof *uses);
    cr_status status = CR_OK;
    if (!uses) return no_memory();
    cr_graph_count_uses(g, uses);
    for (uint32_t n = cr_graph_first(g), next; n != CR_NO_NODE; n = next) {
        const cr_node *node = cr_graph_node(g, n);
        next = cr_graph_next(g, n);
        if (node->kind != CR_NODE_PLACEHOLDER) continue;
        const cr_value *value = cr_graph_value(g, node->first);
        cr_input input = b->c->inputs.at[i++];
        bool unused = !input.fake && !uses[node->first] && !is_asked_about(b->c->fakes.env, value->expr);
        if (unused && !status) status = cr_graph_erase(g, n);
        else b->c->inputs.at[kept++] = input;
    }
    b->c->inputs.n = kept;
    PyMem_Free(uses);
    return status ? cr_py_fail(status) : 0;
}

static bool is_size_of_output(const builder *b, cr_sym symbol) {
    for (size_t i = 0; i < b->outs.n; i++) {
        const cr_arg *out = &b->outs.at[i];
        if (out->kind == CR_ARG_SYM && out->u.sym == symbol) return true;
        for (int d = 0; out->kind == CR_ARG_TENSOR && d < out->u.t->meta.rank; d++) {
            cr_dim size = out->u.t->meta.size[d];
            if (!cr_dim_is_plain(size) && cr_dim_sym(b->c->fakes.env, size) == symbol) return true;
        }
    }
    return false;
}

static int give_symbols(builder *b, cr_sym e) {
    if (cr_sym_kind_of(e) == CR_SYM_SYMBOL) {
        if (!cr_depends_on_data(b->c, e) || is_size_of_output(b, e)) return 0;
        b->e->data = true;
        return cr_vec_push(&b->outs, ((cr_arg){ .kind = CR_ARG_SYM, .u.sym = e })) ? no_memory() : 0;
    }
    for (size_t i = 0; i < cr_sym_operand_count(e); i++)
        if (give_symbols(b, cr_sym_operand(e, i))) return -1;
    return 0;
}

/* A library with foreign tensors makes the memory of results: what their sizes are made of, where data decide, is given
 * behind them. */
static int give_sizes(builder *b) {
    cr_env *env = b->c->fakes.env;
    size_t n = b->e->frontend->borrow && cr_env_unbacked_count(env) ? b->outs.n : 0;
    for (size_t i = 0; i < n; i++) {
        if (b->outs.at[i].kind != CR_ARG_TENSOR) continue;
        const cr_meta m = b->outs.at[i].u.t->meta;
        for (int d = 0; d <= 2 * m.rank; d++) {
            cr_dim dim = d < m.rank ? m.size[d] : d < 2 * m.rank ? m.stride[d - m.rank] : m.offset;
            if (!cr_dim_is_plain(dim) && give_symbols(b, cr_dim_sym(env, dim))) return -1;
        }
    }
    return 0;
}

static int finish_graph(builder *b) {
    cr_entry *e = b->e;
    uint32_t result, other;
    const char *input;
    if (give_sizes(b)) return -1;
    cr_status status = cr_trace_finish(b->c->trace, b->outs.at, b->outs.n, &e->graph);
    if (status) return cr_py_fail(status);
    if (b->c->numbers && drop_unused_numbers(b)) return -1;
    if (cr_env_unbacked_count(b->c->fakes.env) || e->data)
        status = cr_pass_asserts(e->graph, &(cr_asserts){ .data = true });
    if (status) return cr_py_fail(status);
    if (look_at_graph(b)) return -1;
    e->noutputs = (uint32_t)b->outs.n;
    e->ninputs = (uint32_t)b->c->inputs.n;
    e->inputs = PyMem_Calloc(e->ninputs + 1, sizeof *e->inputs);
    if (!e->inputs) return no_memory();
    for (uint32_t i = 0; i < e->ninputs; i++) e->inputs[i] = b->c->inputs.at[i].source;
    if (!e->ops && !e->noutputs) { /* constants and objects from outside alone */
        cr_graph_release(e->graph);
        e->graph = NULL;
        return 0;
    }
    e->records = (e->ambient & CR_AMBIENT_GRAD) && cr_capture_records(b->c);
    e->shares = cr_body_aliases(e->graph, &result, &input, &other);
    status = cr_plan_create(e->graph, &e->plan);
    return status ? cr_py_fail(status) : 0;
}

static int describe(builder *b) {
    b->e->next = b->c->returned;
    if (add_changes(b) || make(b, b->c->result, &b->e->result)) return -1;
    return b->c->tracer ? 0 : finish_graph(b);
}

/* The state in which the call goes on. */
static int describe_state(builder *b) {
    const cr_call_frame *f = b->c->frame;
    int count = f->code->co_nlocalsplus;
    for (int k = 0; k < count + f->top; k++) {
        PyObject *value = k < count ? f->locals[k] : f->stack[k - count];
        uint32_t row = CR_NO_ROW;
        if (value && make(b, value, &row)) return -1;
        if (cr_vec_push(&b->e->state, row)) return no_memory();
    }
    b->e->next = f->next;
    b->e->grad = b->c->stopped_grad;
    b->e->locals = (uint32_t)count;
    return 0;
}

/* Did it stop where it was told to, before an instruction of the function itself and outside of handlers? */
static bool has_stopped(const cr_capture *c) {
    return c->stop >= 0 && c->steps == c->stop + 1 && c->frame && !c->frame->back && c->frame->resumed && !c->handled &&
           !c->unfinished && !c->stopped_inside && !cr_sets_context(c) && !c->modes.n;
}

/* Everything up to the instruction that ended the capture, as an entry after which CPython goes on. A reason for not
 * doing so is no new reason. */
static bool describe_prefix(builder *b) {
    PyObject *reason = b->c->reason;
    b->c->reason = NULL;
    bool described = has_stopped(b->c) && !add_changes(b) && !describe_state(b) && !finish_graph(b);
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_Exception)) PyErr_Clear();
    Py_XSETREF(b->c->reason, reason);
    b->e->resumes = described;
    return described;
}

/* Back to an entry that describes nothing. */
static void drop_description(cr_entry *e) {
    for (size_t i = 0; i < e->makes.n; i++) Py_XDECREF(e->makes.at[i].object);
    for (size_t i = 0; i < e->effects.n; i++) Py_XDECREF(e->effects.at[i].key);
    e->makes.n = e->parts.n = e->effects.n = e->state.n = e->formulas.n = 0;
    PyMem_Free(e->inputs);
    e->inputs = NULL;
    e->ninputs = e->noutputs = 0;
    e->ops = 0;
}

static void drop_graph(cr_entry *e) {
    cr_ahead_release(e->ahead);
    e->ahead = NULL;
    cr_plan_release(e->plan);
    cr_graph_release(e->graph);
    e->plan = NULL, e->graph = NULL;
}

cr_entry *cr_entry_new(cr_capture *c, PyCodeObject *code) {
    cr_entry *e = PyMem_Calloc(1, sizeof *e);
    if (!e) return (cr_entry *)PyErr_NoMemory();
    builder b = { .c = c, .e = e };
    cr_map_init(&b.rows);
    cr_map_init(&b.outputs);
    e->refs = 1;
    e->frontend = c->frontend ? c->frontend : &cr_frontend_cresset;
    e->ambient = e->frontend->ambient();
    e->data = c->data || c->unbacked;
    e->asks_casts = c->asks_casts && e->frontend->casts;
    e->casts = e->asks_casts ? e->frontend->casts() : 0;
    cr_guards_init(&e->guards);
    if (c->reason && !describe_prefix(&b)) {
        drop_graph(e);
        drop_description(e);
    } else if (!c->reason && describe(&b)) {
        if (!c->reason && PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_Exception)) {
            PyErr_Clear();
            cr_break(c, "the result cannot be described");
        }
        drop_graph(e);
        drop_description(e);
    }
    cr_map_dispose(&b.rows);
    cr_map_dispose(&b.outputs);
    cr_vec_dispose(&b.outs);
    if (PyErr_Occurred()) return cr_entry_release(e), NULL;
    cr_guards_compact(&c->guards);
    cr_numbers *numbers = c->numbers; /* which the row takes over */
    c->numbers = NULL;
    if (numbers && !numbers->symbols.n && !numbers->promises.n) cr_numbers_free(numbers);
    else if (numbers && cr_guard_numbers(&c->guards, numbers)) return cr_entry_release(e), NULL;
    if (c->reason && !c->where) /* it was seen at the end, of the whole */
        c->where = PyUnicode_FromFormat("%U:%d in %U", code->co_filename, code->co_firstlineno, code->co_qualname);
    if (c->reason && c->where) e->reason = PyUnicode_FromFormat("%U: %U", c->where, c->reason);
    if (c->reason && !e->reason) return cr_entry_release(e), NULL;
    if (c->reason) e->callers = Py_XNewRef(c->callers), e->error = Py_XNewRef(c->error);
    cr_guards swap = e->guards;
    e->guards = c->guards;
    c->guards = swap;
    return e;
}

cr_entry *cr_entry_retain(cr_entry *e) { return e->refs++, e; }

void cr_entry_release(cr_entry *e) {
    if (!e || --e->refs) return;
    cr_guards_dispose(&e->guards);
    drop_graph(e);
    for (size_t i = 0; i < e->makes.n; i++) Py_XDECREF(e->makes.at[i].object);
    cr_vec_dispose(&e->makes);
    cr_vec_dispose(&e->parts);
    cr_vec_dispose(&e->state);
    cr_vec_dispose(&e->formulas);
    for (size_t i = 0; i < e->effects.n; i++) Py_XDECREF(e->effects.at[i].key);
    cr_vec_dispose(&e->effects);
    PyMem_Free(e->inputs);
    PyMem_Free(e->weights);
    Py_XDECREF(e->reason);
    Py_XDECREF(e->callers);
    Py_XDECREF(e->error);
    Py_XDECREF(e->compiled);
    Py_XDECREF(e->finish);
    cr_tier_release(e->tier);
    PyMem_Free(e);
}
