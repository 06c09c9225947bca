/* open.c: which sizes and numbers a capture leaves open, and settling them where the program needs one value.
 *
 * A size is left open when it was another in an earlier capture of the place, when the user marked it, or always
 * (dynamic=True); 0 and 1 never, since they are empty and broadcast. So is an int or a float that changed. On the stack
 * such a number is a SymInt or SymFloat: arithmetic gives expressions, a question about it is answered by what it is
 * now and becomes a condition, and whatever needs a plain number settles on that. */
#include "capture/evaluate.h"

#include "python/py.h"
#include "sym/shape.h"

#include <math.h>

static int no_memory(void) { return PyErr_NoMemory(), -1; }

/* The row that reads a slot. */
static const cr_guard *reader(const cr_guards *g, int32_t slot) {
    const cr_guard *row = g->rows.at + g->rows.n - 1;
    while (row->slot != slot || row->read == CR_READ_NONE) row--;
    return row;
}

/* A parameter or buffer of a module. */
static bool is_of_module(const cr_capture *c, int32_t source, const cr_frontend *fe) {
    const cr_guard *row = reader(&c->guards, source);
    if (row->read == CR_READ_ARGUMENT || row->read == CR_READ_FUNCTION) return false;
    const cr_guard *table = reader(&c->guards, row->parent);
    for (size_t i = 0; table->key && fe->tables[i]; i++)
        if (!PyUnicode_CompareWithASCIIString(table->key, fe->tables[i])) return true;
    return false;
}

/* An argument, or an item of one: what a caller chooses, not what is set up once. */
static bool is_given(const cr_capture *c, int32_t source) {
    const cr_guard *row = reader(&c->guards, source);
    while (row->read == CR_READ_ITEM || row->read == CR_READ_ENTRY || row->read == CR_READ_KEY)
        row = reader(&c->guards, row->parent);
    return row->read == CR_READ_ARGUMENT;
}

/* A symbol with the name that PyTorch would give it. NULL: exception. */
static cr_sym new_symbol(cr_capture *c, cr_sym_type type, int64_t lo, int64_t hi) {
    char name[24];
    cr_env *env = c->fakes.env;
    do PyOS_snprintf(name, sizeof name, "%s%d", type == CR_TYPE_FLOAT ? "zf" : "s", c->fakes.next++);
    while (cr_sym_find_symbol(env, name));
    cr_sym symbol = cr_sym_symbol(env, name, type, lo, hi);
    if (!symbol) cr_env_recover(env), PyErr_NoMemory();
    return symbol;
}

/* ---- sizes ---- */

/* The bounds that mark_dynamic() was given for a dimension. */
static bool find_bounds(PyObject *tensor, int dim, cr_range *out) {
    PyObject *all = cr_find_mark(tensor, "_dynamo_dynamic_range"), *iterator = all ? PyObject_GetIter(all) : NULL, *row;
    bool bounded = false;
    *out = (cr_range){ INT64_MIN, INT64_MAX };
    while (iterator && (row = PyIter_Next(iterator))) {
        PyObject *lo = PyTuple_Check(row) && PyTuple_GET_SIZE(row) == 3 ? PyTuple_GET_ITEM(row, 1) : NULL;
        if (lo && PyLong_AsLong(PyTuple_GET_ITEM(row, 0)) == dim) {
            PyObject *hi = PyTuple_GET_ITEM(row, 2);
            bounded |= lo != Py_None || hi != Py_None;
            if (lo != Py_None) out->lo = CR_MAX(out->lo, PyLong_AsLongLong(lo));
            if (hi != Py_None) out->hi = CR_MIN(out->hi, PyLong_AsLongLong(hi));
        }
        Py_DECREF(row);
    }
    Py_XDECREF(iterator);
    PyErr_Clear();
    return bounded;
}

/* Dimensions to leave open, as bits. *marked: those that the user promised; *unbacked: those without an example. -1:
 * exception or break. */
static int choose(cr_capture *c, PyObject *real, int32_t source, const cr_frontend *fe, const cr_tensor *t,
                  uint32_t *open, uint32_t *marked, uint32_t *unbacked) {
    uint32_t fixed = cr_marked_sizes(real, "_dynamo_static_indices"), changed = 0;
    int rank = t->meta.rank;
    int64_t numbers[2 * CR_MAX_RANK];
    *open = *marked = cr_marked_sizes(real, "_dynamo_dynamic_indices");
    *unbacked = c->settles < CR_SETTLES_DATA ? cr_marked_sizes(real, "_dynamo_unbacked_indices") : 0;
    if (fe->kind(real) == CR_KIND_PARAMETER) return 0;
    for (int d = 0; d < rank; d++) numbers[d] = t->meta.size[d], numbers[rank + d] = t->meta.stride[d];
    if (c->history) {
        cr_seen *seen = cr_note_seen(c, source, CR_SEEN_TENSOR, rank, numbers);
        if (!seen) return -1;
        seen->sizes |= *marked;
        if (c->dynamic & CR_DYNAMIC_AUTOMATIC) changed = seen->sizes & ~fixed;
    }
    if (c->settles) return 0;
    *open |= changed | cr_marked_sizes(real, "_dynamo_weak_dynamic_indices");
    if ((c->dynamic & CR_DYNAMIC_ALL) && !is_of_module(c, source, fe)) *open |= ~fixed;
    return 0;
}

/* Another size that is as large: one symbol serves both. NULL: none. */
static cr_sym find_duck(const cr_capture *c, int64_t size) {
    int64_t hint;
    for (size_t i = 0; (c->dynamic & CR_DYNAMIC_DUCK) && i < c->numbers->symbols.n; i++) {
        const cr_open_symbol *s = &c->numbers->symbols.at[i];
        if (s->dim != CR_ITSELF && cr_env_hint(c->fakes.env, s->symbol, &hint) && hint == size) return s->symbol;
    }
    return NULL;
}

int cr_need_numbers(cr_capture *c) {
    if (c->numbers) return 0;
    if (!(c->numbers = PyMem_Calloc(1, sizeof *c->numbers))) return no_memory();
    cr_env_retain(c->numbers->env = c->fakes.env);
    return 0;
}

/* Dimension d as a symbol: a new one, or that of a size as large. */
static int open_size(cr_capture *c, PyObject *real, int32_t source, const cr_frontend *fe, int d, bool marked,
                     cr_dim *size) {
    cr_promise promise = { .slot = source, .dim = d, .size = *size };
    if (marked) promise.bounded = find_bounds(real, d, &promise.range);
    bool opens = *size > 1;
    cr_sym symbol = opens && !marked && (c->dynamic & CR_DYNAMIC_ALL) ? find_duck(c, *size) : NULL;
    bool shared = symbol != NULL;
    int64_t lo = promise.bounded ? CR_MAX(2, promise.range.lo) : 2, hi = promise.bounded ? promise.range.hi : INT64_MAX;
    if (opens && promise.bounded && (*size < lo || *size > hi)) opens = false;
    if (opens && !shared && (!(symbol = new_symbol(c, CR_TYPE_INT, lo, hi)) ||
                             cr_env_set_hint(c->fakes.env, symbol, *size)))
        return PyErr_Occurred() ? -1 : no_memory();
    promise.symbol = symbol;
    if (marked && cr_vec_push(&c->numbers->promises, promise)) return no_memory();
    if (!symbol) return 0;
    *size = cr_dim_of(c->fakes.env, symbol);
    if (shared)
        return cr_vec_push(&c->numbers->extents, (cr_extent){ symbol, source, d, false, fe }) ? no_memory() : 0;
    return cr_vec_push(&c->numbers->symbols, (cr_open_symbol){ symbol, source, d, fe, { lo, hi } }) ? no_memory() : 0;
}

/* Dimension d as a symbol without an example: 0 and 1 are sizes as any others, and what the program asks about it, it
 * has to know. */
static int leave_unbacked(cr_capture *c, int32_t source, const cr_frontend *fe, int d, cr_dim *size) {
    cr_env *env = c->fakes.env;
    cr_capture_lines(c);
    cr_sym symbol = cr_sym_unbacked(env, 0, INT64_MAX);
    if (!symbol || cr_env_mark_size(env, symbol)) return cr_env_recover(env), no_memory();
    *size = cr_dim_of(env, symbol);
    c->unbacked = true;
    cr_open_symbol open = { symbol, source, d, fe, { 0, INT64_MAX } };
    return cr_vec_push(&c->numbers->symbols, open) ? no_memory() : 0;
}

int cr_open_tensor(cr_capture *c, PyObject *real, int32_t source, const cr_frontend *fe, const cr_tensor *t,
                   cr_tensor **fake, cr_open_sizes *open) {
    cr_dim size[CR_MAX_RANK];
    uint32_t dims = 0, marked = 0, unbacked = 0;
    int rank = t->meta.rank;
    *open = (cr_open_sizes){ 0, 0 };
    for (int d = 0; d < rank; d++) size[d] = t->meta.size[d];
    if (fe->size && choose(c, real, source, fe, t, &dims, &marked, &unbacked)) return -1;
    dims |= unbacked;
    if (dims && cr_need_numbers(c)) return -1;
    for (int d = 0; d < rank; d++) {
        if (!(dims >> d & 1)) continue;
        if (unbacked >> d & 1 ? leave_unbacked(c, source, fe, d, &size[d])
                              : open_size(c, real, source, fe, d, marked >> d & 1, &size[d]))
            return -1;
        if (!cr_dim_is_plain(size[d])) open->sizes |= 1u << d;
    }
    cr_status status = cr_fake_sized(&c->fakes, t, size, fake);
    if (status) return cr_py_fail(status);
    for (int d = 0; d < rank; d++) {
        cr_dim stride = (*fake)->meta.stride[d];
        if (cr_dim_is_plain(stride)) continue;
        open->strides |= 1u << d;
        cr_extent extent = { cr_dim_sym(c->fakes.env, stride), source, d, true, fe };
        if (cr_vec_push(&c->numbers->extents, extent)) return no_memory();
    }
    return 0;
}

/* ---- numbers ---- */

enum { LEAST_INT_BITS = 62 }; /* lower ones are tags of sizes */

/* Its bits, which say whether it changed. False: it stays what it is. */
static bool may_open(PyObject *real, int64_t *bits) {
    if (PyFloat_CheckExact(real)) {
        double value = PyFloat_AS_DOUBLE(real);
        memcpy(bits, &value, sizeof value);
        return isfinite(value) && value != 0; /* two zeros are equal, and differ */
    }
    int overflow = 0;
    *bits = PyLong_AsLongLongAndOverflow(real, &overflow);
    return !overflow && *bits >= -((int64_t)1 << LEAST_INT_BITS);
}

static PyObject *number_value(cr_capture *c, cr_sym symbol) {
    cr_arg value = { .kind = CR_ARG_SYM, .given = CR_GIVEN_POSITIONAL, .u.sym = symbol };
    if (cr_sym_type_of(symbol) == CR_TYPE_INT) value = cr_arg_int(cr_dim_of(c->fakes.env, symbol));
    return cr_py_sym_new(c->fakes.env, value);
}

/* A new input of the graph, too; it goes again where nothing uses it. */
static PyObject *open_number(cr_capture *c, PyObject *real, int32_t source, int64_t bits) {
    bool is_float = PyFloat_CheckExact(real);
    cr_env *env = c->fakes.env;
    int64_t least = -((int64_t)1 << LEAST_INT_BITS);
    char name[32];
    cr_sym symbol = new_symbol(c, is_float ? CR_TYPE_FLOAT : CR_TYPE_INT, least, INT64_MAX);
    if (!symbol || cr_need_numbers(c) || cr_guard_type(&c->guards, source, Py_TYPE(real))) return NULL;
    PyOS_snprintf(name, sizeof name, "arg%zu", c->inputs.n);
    cr_status status = is_float ? cr_env_set_hint_float(env, symbol, PyFloat_AS_DOUBLE(real))
                                : cr_env_set_hint(env, symbol, bits);
    if (!status) status = cr_trace_input_number(c->trace, name, is_float ? CR_T_FLOAT : CR_T_INT, symbol);
    if (status) return cr_py_raise(status);
    if (cr_vec_push(&c->inputs, (cr_input){ source, NULL }) ||
        cr_vec_push(&c->numbers->symbols, (cr_open_symbol){ symbol, source, CR_ITSELF, NULL, { least, INT64_MAX } }))
        return PyErr_NoMemory();
    return number_value(c, symbol);
}

int cr_wrap_number(cr_capture *c, PyObject *real, int32_t source, PyObject **out) {
    bool is_float = PyFloat_CheckExact(real);
    int64_t bits;
    if ((!is_float && !PyLong_CheckExact(real)) || !c->history || !may_open(real, &bits)) return 0;
    if (!(c->dynamic & (is_float ? CR_DYNAMIC_FLOATS : CR_DYNAMIC_INTS))) return 0;
    for (size_t i = 0; c->numbers && i < c->numbers->symbols.n; i++) {
        const cr_open_symbol *s = &c->numbers->symbols.at[i];
        if (s->slot == source && s->dim == CR_ITSELF) return (*out = number_value(c, s->symbol)) ? 1 : -1;
    }
    const cr_seen *seen = cr_note_seen(c, source, CR_SEEN_NUMBER, 0, &bits);
    if (!seen) return -1;
    bool opens = (seen->sizes && (c->dynamic & CR_DYNAMIC_AUTOMATIC)) ||
                 ((c->dynamic & CR_DYNAMIC_ALL) && is_given(c, source));
    if (!opens || c->settles) return 0;
    return (*out = open_number(c, real, source, bits)) ? 1 : -1;
}

/* ---- on the stack ---- */

bool cr_is_open(PyObject *value) { return cr_py_sym_env(value) != NULL; }

PyTypeObject *cr_class_of_open(PyObject *value) {
    cr_arg number;
    if (!cr_py_sym_read(value, &number)) return Py_TYPE(value);
    cr_sym e = number.kind == CR_ARG_SYM ? number.u.sym : NULL;
    if (!e || cr_sym_type_of(e) == CR_TYPE_INT) return &PyLong_Type;
    return cr_sym_type_of(e) == CR_TYPE_FLOAT ? &PyFloat_Type : &PyBool_Type;
}

cr_sym cr_open_expr(PyObject *value) {
    cr_arg number;
    if (!cr_py_sym_read(value, &number)) return NULL;
    return number.kind == CR_ARG_SYM ? number.u.sym : cr_dim_sym(cr_py_sym_env(value), number.u.i);
}

static PyObject *settle(PyObject *value) {
    PyTypeObject *type = cr_class_of_open(value);
    if (type == &PyBool_Type) {
        int truth = PyObject_IsTrue(value);
        return truth < 0 ? NULL : PyBool_FromLong(truth);
    }
    PyObject *number = type == &PyLong_Type ? PyNumber_Long(value) : PyNumber_Float(value);
    if (number && type == &PyFloat_Type && PyFloat_AS_DOUBLE(number) == 0) {
        PyErr_SetString(cr_break_error, "the sign of a zero that is computed from a number from outside is needed");
        Py_CLEAR(number);
    }
    return number;
}

/* Is there an open number in it? */
static bool has_open(PyObject *value) {
    if (!PyTuple_Check(value) && !PyList_CheckExact(value)) return cr_is_open(value);
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); i++)
        if (has_open(PySequence_Fast_GET_ITEM(value, i))) return true;
    return false;
}

PyObject *cr_settled(cr_capture *c, PyObject *value) {
    if (c->plain || !c->numbers || !has_open(value)) return Py_NewRef(value);
    c->on_tensors = true; /* what goes wrong is not the program's */
    if (cr_is_open(value)) return settle(value);
    Py_ssize_t n = PySequence_Fast_GET_SIZE(value);
    PyObject *items = PyTuple_New(n), *result = NULL;
    for (Py_ssize_t i = 0; items && i < n; i++) {
        PyObject *item = cr_settled(c, PySequence_Fast_GET_ITEM(value, i));
        if (item) PyTuple_SET_ITEM(items, i, item);
        else Py_CLEAR(items);
    }
    if (!items || PyTuple_CheckExact(value)) return items;
    result = PyList_CheckExact(value) ? PySequence_List(items)
                                      : PyObject_CallOneArg((PyObject *)Py_TYPE(value), items); /* a Size */
    Py_DECREF(items);
    return result ? cr_translate(c, result) : NULL; /* the library's own, once its numbers are numbers */
}

int cr_settle_in(cr_capture *c, PyObject **value) {
    PyObject *settled = cr_settled(c, *value);
    if (!settled) return -1;
    Py_SETREF(*value, settled);
    return 0;
}

PyObject *cr_length(PyObject *value) {
    if (cr_is_tensor_value(value)) { /* its first size, which may be open */
        PyObject *shape = PyObject_GetAttrString(value, "shape");
        PyObject *first = shape && PyTuple_Check(shape) && PyTuple_GET_SIZE(shape)
                              ? Py_NewRef(PyTuple_GET_ITEM(shape, 0))
                              : NULL;
        Py_XDECREF(shape);
        if (first || PyErr_Occurred()) return first;
    }
    Py_ssize_t n = PyObject_Length(value);
    return n < 0 ? NULL : PyLong_FromSsize_t(n);
}
