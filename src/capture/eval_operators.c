/* eval_operators.c: operators, comparisons, containers and iteration.
 *
 * On values that are themselves (constants, fakes, containers made here) the real operation is carried out; on fakes
 * that records ops. Tokens refuse, so what must be known of them is asked first. */
#include "capture/evaluate.h"

#include "python/py.h"

#define HANDLER(name) int cr_do_##name(cr_capture *c, cr_call_frame *f, const cr_instruction *i)
#define UNUSED (void)c, (void)f, (void)i

/* Pushes a result. NULL: -1. */
static int give(cr_capture *c, cr_call_frame *f, PyObject *value) {
    if (!value || cr_check_result(c, value)) return Py_XDECREF(value), -1;
    return cr_push(f, value), 0;
}

/* What goes wrong with it is not the program's own mistake, or not as the program would say it. */
static bool is_recorded(PyObject *value) { return cr_is_tensor_value(value) || cr_is_open(value); }

/* A key of a dict or an item of a set is settled: what it equals depends on what it is. */
static PyObject *key_of(cr_capture *c, PyObject *container, PyObject *key) {
    return PyDict_Check(container) || PyAnySet_Check(container) || PyRange_Check(container) ? cr_settled(c, key)
                                                                                           : Py_NewRef(key);
}

/* ---- operators ---- */

static int unary(cr_capture *c, cr_call_frame *f, unaryfunc function, const char *name) {
    PyObject *value = cr_pop(f), *result = NULL;
    c->on_tensors = is_recorded(value);
    if (!cr_unary_by_method(c, f, name, value, &result)) result = function(value);
    Py_DECREF(value);
    return give(c, f, result);
}
HANDLER(UNARY_POSITIVE) { return UNUSED, unary(c, f, PyNumber_Positive, "__pos__"); }
HANDLER(UNARY_NEGATIVE) { return UNUSED, unary(c, f, PyNumber_Negative, "__neg__"); }
HANDLER(UNARY_INVERT) { return UNUSED, unary(c, f, PyNumber_Invert, "__invert__"); }

HANDLER(UNARY_NOT) {
    UNUSED;
    PyObject *value = cr_pop(f);
    int truth = cr_truth(c, value);
    Py_DECREF(value);
    return truth < 0 ? -1 : (cr_push(f, PyBool_FromLong(!truth)), 0);
}

static PyObject *power(PyObject *a, PyObject *b) { return PyNumber_Power(a, b, Py_None); }
static PyObject *inplace_power(PyObject *a, PyObject *b) { return PyNumber_InPlacePower(a, b, Py_None); }
static binaryfunc const operators[] = { /* the order of CPython's NB_* */
    PyNumber_Add, PyNumber_And, PyNumber_FloorDivide, PyNumber_Lshift, PyNumber_MatrixMultiply, PyNumber_Multiply,
    PyNumber_Remainder, PyNumber_Or, power, PyNumber_Rshift, PyNumber_Subtract, PyNumber_TrueDivide, PyNumber_Xor,
    PyNumber_InPlaceAdd, PyNumber_InPlaceAnd, PyNumber_InPlaceFloorDivide, PyNumber_InPlaceLshift,
    PyNumber_InPlaceMatrixMultiply, PyNumber_InPlaceMultiply, PyNumber_InPlaceRemainder, PyNumber_InPlaceOr,
    inplace_power, PyNumber_InPlaceRshift, PyNumber_InPlaceSubtract, PyNumber_InPlaceTrueDivide, PyNumber_InPlaceXor,
};

/* "%s" % x shows x: only constants have one text. */
static bool shows(PyObject *a, PyObject *b) {
    return (PyUnicode_Check(a) || PyBytes_Check(a)) && !cr_is_constant(b);
}

/* Objects whose class adds methods to a container are that container. */
static PyObject *operate(cr_capture *c, int op, PyObject *a, PyObject *b) {
    PyObject *left = op < 13 ? cr_operand(c, a) : Py_NewRef(a), *right = cr_operand(c, b);
    if (left && right && (cr_has_objects(c, left) || cr_has_objects(c, right))) {
        cr_break(c, "an operator works on sets or dicts that have objects in them as items or keys");
        Py_CLEAR(left);
    }
    PyObject *result = NULL;
    if (left && right && !cr_operate_on_numpy(c, operators[op], left, right, &result))
        result = operators[op](left, right);
    Py_XDECREF(left);
    Py_XDECREF(right);
    return result;
}

HANDLER(BINARY_OP) {
    UNUSED;
    PyObject *b = cr_pop(f), *a = cr_pop(f), *result = NULL;
    if ((PyUnicode_Check(a) || PyBytes_Check(a)) && cr_settle_in(c, &b)) return Py_DECREF(a), Py_DECREF(b), -1;
    int by_method = cr_operator_by_method(c, f, i->arg, a, b, &result);
    if (!by_method) c->on_tensors = is_recorded(a) || is_recorded(b);
    if ((size_t)i->arg >= CR_COUNT(operators)) cr_break(c, "an operator that is not known (%d)", i->arg);
    else if (!by_method && !c->plain && shows(a, b)) cr_break(c, "a text is made of something that is no constant");
    else if (!by_method) result = operate(c, i->arg, a, b);
    Py_DECREF(a);
    Py_DECREF(b);
    return give(c, f, result);
}

/* a < b, ...: a new reference. */
static PyObject *compare(cr_capture *c, cr_call_frame *f, int op, PyObject *a, PyObject *b) {
    PyObject *result = NULL;
    if (cr_compare_by_method(c, f, op, a, b, &result)) return result;
    PyObject *left = cr_operand(c, a), *right = cr_operand(c, b);
    c->on_tensors = is_recorded(a) || is_recorded(b);
    if (left && right && c->on_tensors && (cr_is_numpy_number(a) || cr_is_numpy_number(b))) {
        cr_break(c, "a number of NumPy's is compared with something that is no constant");
        Py_CLEAR(left);
    }
    if (left && right && (cr_has_objects(c, left) || cr_has_objects(c, right))) {
        cr_break(c, "sets or dicts are compared that have objects in them as items or keys");
        Py_CLEAR(left);
    }
    result = left && right ? PyObject_RichCompare(left, right, op) : NULL;
    Py_XDECREF(left);
    Py_XDECREF(right);
    return result;
}

HANDLER(COMPARE_OP) {
    UNUSED;
    PyObject *b = cr_pop(f), *a = cr_pop(f), *result = compare(c, f, i->arg & ~CR_COMPARE_BOOL, a, b);
    Py_DECREF(a);
    Py_DECREF(b);
    if (!result || !(i->arg & CR_COMPARE_BOOL)) return give(c, f, result);
    int truth = cr_truth(c, result);
    Py_DECREF(result);
    return truth < 0 ? -1 : (cr_push(f, PyBool_FromLong(truth)), 0);
}

/* Is it known under one source? Then whether it is another object is guarded, too. */
int cr_guard_differ(cr_capture *c, PyObject *a, PyObject *b) {
    size_t x, y;
    if (!cr_find_known(c, a, &x) || !cr_find_known(c, b, &y)) return 0; /* one was made here */
    return cr_guard_number(&c->guards, c->known.at[x].source, CR_HOLDS_DIFFERENT, NULL, c->known.at[y].source);
}

/* Numbers and texts: whether two equal ones are one object is CPython's affair. */
static bool has_no_identity(PyObject *o) {
    return cr_is_plain_constant(o) || cr_is_open(o) || cr_is_numpy_number(o) ||
           (PyTuple_CheckExact(o) && PyTuple_GET_SIZE(o) == 0);
}

HANDLER(IS_OP) {
    PyObject *b = cr_pop(f), *a = cr_pop(f);
    bool same = a == b;
    int failed = 0;
    if (!c->plain && has_no_identity(a) && has_no_identity(b))
        failed = cr_break(c, "the identity of numbers or texts is asked for; compare them with ==");
    else if (!c->plain && !same) failed = cr_guard_differ(c, a, b);
    Py_DECREF(a);
    Py_DECREF(b);
    return failed ? -1 : (cr_push(f, PyBool_FromLong(same != (i->arg == 1))), 0);
}

/* key in a dict from outside: one guard, not all of its keys. 1, 0; -1; 2: not such a question. */
static int has_key(cr_capture *c, PyObject *dict, PyObject *key) {
    if (!cr_is_token(dict) || !PyDict_CheckExact(cr_real(dict)) || !PyUnicode_CheckExact(key)) return 2;
    PyObject *mark = (PyObject *)((char *)cr_real(dict) + 1);
    if (cr_map_find(&c->by_real, &mark, sizeof mark, NULL)) return 2; /* unfolded: perhaps changed since */
    PyObject *real = cr_real(dict);
    PyObject *set = cr_find_store(c, real, key);
    if (set) return set != CR_DELETED;
    if (cr_read_now(CR_READ_KEY, real, key, 0))
        return cr_source(&c->guards, CR_READ_KEY, cr_source_of(dict), key, 0) < 0 ? -1 : 1;
    if (!cr_dict_is_plain(real)) return 2;
    return cr_guard_no(&c->guards, cr_source_of(dict), CR_HOLDS_NO_KEY, key) ? -1 : 0;
}

/* Is it one of the items, or equal to one? Those that are objects are compared as the program would compare them. */
static int is_among(cr_capture *c, cr_call_frame *f, PyObject *items, PyObject *item) {
    for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(items); k++) {
        PyObject *other = Py_NewRef(PySequence_Fast_GET_ITEM(items, k));
        bool objects = cr_is_token(other) || cr_is_token(item);
        PyObject *answer = objects && other != item ? compare(c, f, Py_EQ, other, item) : NULL;
        int is = !objects ? PyObject_RichCompareBool(other, item, Py_EQ) : other == item ? 1 : !answer ? -1 : 0;
        if (answer) is = cr_truth(c, answer);
        Py_XDECREF(answer);
        Py_DECREF(other);
        if (is) return is;
    }
    return 0;
}

HANDLER(CONTAINS_OP) {
    PyObject *container = cr_pop(f), *item = cr_pop(f);
    int found = 0, by_method = cr_contains_by_method(c, f, container, item, &found);
    if (by_method < 0) found = -1;
    if (!by_method) found = cr_has_object_key(c, container, item);
    if (!by_method && found == 2) found = has_key(c, container, item);
    if (found == 2) {
        PyObject *operand = cr_operand(c, container);
        c->on_tensors = operand && (is_recorded(operand) || is_recorded(item));
        if (operand && cr_is_token(operand) && c->tracer && PyAnySet_CheckExact(cr_real(operand)) &&
            cr_is_constant(item)) /* an exported program is evaluated once: what is in a set is no guard's business */
            found = PySet_Contains(cr_real(operand), item);
        else if (operand && cr_is_token(operand))
            found = cr_break(c, "'in' is asked of an object of class %s", Py_TYPE(cr_real(container))->tp_name);
        else if (operand && !c->plain && (PyTuple_CheckExact(operand) || PyList_CheckExact(operand))) {
            found = is_among(c, f, operand, item);
        } else if (operand) {
            PyObject *key = key_of(c, operand, item);
            found = key && !cr_begin_key(c, operand, key) ? PySequence_Contains(operand, key) : -1;
            cr_end_key();
            Py_XDECREF(key);
        } else {
            found = -1;
        }
        Py_XDECREF(operand);
    }
    Py_DECREF(container);
    Py_DECREF(item);
    return found < 0 ? -1 : (cr_push(f, PyBool_FromLong(found != i->arg)), 0);
}

/* ---- items ---- */

/* What a dict from outside has under a text, without looking at the rest. NULL without exception or reason: ask the
 * whole dict. */
static PyObject *dict_item(cr_capture *c, PyObject *dict, PyObject *key) {
    int found = has_key(c, dict, key);
    return found == 1 ? cr_wrap_read(c, CR_READ_KEY, cr_source_of(dict), cr_real(dict), key, 0) : NULL;
}

/* An object of a class made of dict that has not got the key: its __missing__ in Python. 0: a frame was pushed; 1: it
 * has the key, or no such method; -1. */
static int call_missing(cr_capture *c, cr_call_frame *f, PyObject *object, PyObject *items, PyObject *key) {
    if (!PyDict_Check(items)) return 1;
    int has = cr_begin_key(c, items, key) ? -1 : PyDict_Contains(items, key);
    cr_end_key();
    return has ? has : cr_call_special(c, f, object, "__missing__", &key, 1);
}

HANDLER(BINARY_SUBSCR) {
    UNUSED;
    PyObject *key = cr_pop(f), *container = cr_pop(f), *result;
    int inlined = cr_call_special(c, f, container, "__getitem__", &key, 1);
    if (inlined < 1) return Py_DECREF(key), Py_DECREF(container), inlined;
    int by_object = cr_index_by_mode(c, container, key, &result);
    c->on_tensors |= by_object != 0;
    if (!by_object) by_object = cr_item_by_object(c, f, container, key, &result);
    if (!by_object) result = dict_item(c, container, key);
    else if (by_object < 0) result = NULL;
    if (by_object >= 0 && !result && !PyErr_Occurred() && !c->reason) {
        PyObject *operand = cr_operand(c, container);
        c->on_tensors = is_recorded(container) || is_recorded(key);
        if (c->on_tensors && cr_has_numpy_number(key)) cr_break(c, "a number of NumPy's is an index of a tensor");
        if (c->reason) Py_CLEAR(operand);
        if (operand) Py_SETREF(key, key_of(c, operand, key));
        if (!key) return Py_DECREF(operand), Py_DECREF(container), -1;
        int missing = operand && cr_is_token(container) ? call_missing(c, f, container, operand, key) : 1;
        if (missing < 1) return Py_XDECREF(operand), Py_DECREF(key), Py_DECREF(container), missing;
        result = operand && !cr_begin_key(c, operand, key) ? PyObject_GetItem(operand, key) : NULL;
        cr_end_key();
        Py_XDECREF(operand);
    }
    Py_DECREF(key);
    Py_DECREF(container);
    return give(c, f, result);
}

/* x[a:b]: the ends become a slice, and it is x[slice]. */
static int push_slice(cr_call_frame *f) {
    PyObject *stop = cr_pop(f), *start = cr_pop(f), *slice = PySlice_New(start, stop, NULL);
    Py_DECREF(start);
    Py_DECREF(stop);
    return slice ? cr_push(f, slice), 0 : -1;
}
HANDLER(BINARY_SLICE) { return push_slice(f) ? -1 : cr_do_BINARY_SUBSCR(c, f, i); }

HANDLER(STORE_SUBSCR) {
    UNUSED;
    PyObject *key = cr_pop(f), *given = cr_pop(f), *value = cr_pop(f), *container = NULL;
    c->on_tensors = is_recorded(given) || is_recorded(key);
    bool numpy = c->on_tensors && (cr_has_numpy_number(key) || cr_is_numpy_number(value));
    int failed = numpy ? cr_break(c, "a number of NumPy's is an index of a tensor, or set in one")
                       : cr_set_item_by_method(c, f, given, key, value);
    int by_object = failed == 1 ? cr_set_item_by_object(c, given, key, value) : 0;
    if (by_object) failed = by_object < 0 ? -1 : 0;
    if (failed == 1 && (container = cr_operand(c, given))) Py_SETREF(key, key_of(c, container, key));
    if (failed == 1)
        failed = container && key && !cr_begin_key(c, container, key) ? PyObject_SetItem(container, key, value) : -1;
    cr_end_key();
    Py_XDECREF(container);
    Py_XDECREF(key);
    Py_DECREF(given);
    Py_DECREF(value);
    return failed;
}

HANDLER(STORE_SLICE) { return push_slice(f) ? -1 : cr_do_STORE_SUBSCR(c, f, i); }

HANDLER(DELETE_SUBSCR) {
    UNUSED;
    PyObject *key = cr_pop(f), *given = cr_pop(f), *container = NULL;
    int failed = cr_set_item_by_method(c, f, given, key, NULL);
    if (failed == 1 && (container = cr_operand(c, given))) Py_SETREF(key, key_of(c, container, key));
    if (failed == 1)
        failed = container && key && !cr_begin_key(c, container, key) ? PyObject_DelItem(container, key) : -1;
    cr_end_key();
    Py_XDECREF(container);
    Py_XDECREF(key);
    Py_DECREF(given);
    return failed;
}

HANDLER(GET_LEN) {
    UNUSED;
    PyObject *operand = cr_operand(c, cr_peek(f, 1));
    PyObject *n = operand ? cr_length(operand) : NULL;
    Py_XDECREF(operand);
    return give(c, f, n);
}

/* ---- making containers ---- */

HANDLER(BUILD_TUPLE) {
    UNUSED;
    PyObject *tuple = PyTuple_New(i->arg);
    if (!tuple) return -1;
    for (int k = i->arg; k--;) PyTuple_SET_ITEM(tuple, k, cr_pop(f));
    return cr_push(f, tuple), 0;
}

HANDLER(BUILD_LIST) {
    UNUSED;
    PyObject *list = PyList_New(i->arg);
    if (!list) return -1;
    for (int k = i->arg; k--;) PyList_SET_ITEM(list, k, cr_pop(f));
    return cr_push(f, list), 0;
}

static int set_add(cr_capture *c, PyObject *set, PyObject *given) {
    PyObject *item = cr_settled(c, given);
    bool fits = item && (c->plain || cr_is_constant(item) || cr_is_token(item) || cr_is_tensor_value(item));
    if (item && !fits) cr_break(c, "something that is no constant is put into a set");
    int failed = fits && !cr_begin_key(c, set, item) ? PySet_Add(set, item) : -1;
    cr_end_key();
    Py_XDECREF(item);
    return failed;
}

static int put(cr_capture *c, PyObject *dict, PyObject *given, PyObject *value) {
    PyObject *key = cr_settled(c, given);
    int failed = key && !cr_begin_key(c, dict, key) ? PyDict_SetItem(dict, key, value) : -1;
    cr_end_key();
    Py_XDECREF(key);
    return failed;
}

HANDLER(BUILD_SET) {
    PyObject *set = PySet_New(NULL);
    for (int k = i->arg; set && k > 0; k--)
        if (set_add(c, set, cr_peek(f, k))) Py_CLEAR(set);
    for (int k = 0; k < i->arg; k++) Py_DECREF(cr_pop(f));
    return set ? cr_push(f, set), 0 : -1;
}

HANDLER(BUILD_MAP) {
    UNUSED;
    PyObject *dict = PyDict_New();
    for (int k = 2 * i->arg; dict && k > 0; k -= 2)
        if (put(c, dict, cr_peek(f, k), cr_peek(f, k - 1))) Py_CLEAR(dict);
    for (int k = 0; k < 2 * i->arg; k++) Py_DECREF(cr_pop(f));
    return dict ? cr_push(f, dict), 0 : -1;
}

HANDLER(BUILD_CONST_KEY_MAP) {
    UNUSED;
    PyObject *keys = cr_pop(f), *dict = PyDict_New();
    for (int k = 0; dict && k < i->arg; k++)
        if (PyDict_SetItem(dict, PyTuple_GET_ITEM(keys, k), cr_peek(f, i->arg - k))) Py_CLEAR(dict);
    for (int k = 0; k < i->arg; k++) Py_DECREF(cr_pop(f));
    Py_DECREF(keys);
    return dict ? cr_push(f, dict), 0 : -1;
}

HANDLER(BUILD_SLICE) {
    UNUSED;
    PyObject *step = i->arg == 3 ? cr_pop(f) : NULL, *stop = cr_pop(f), *start = cr_pop(f);
    PyObject *slice = PySlice_New(start, stop, step);
    Py_DECREF(start);
    Py_DECREF(stop);
    Py_XDECREF(step);
    return slice ? cr_push(f, slice), 0 : -1;
}

HANDLER(BUILD_STRING) {
    UNUSED;
    if (cr_do_BUILD_TUPLE(c, f, i)) return -1;
    PyObject *parts = cr_pop(f), *empty = PyUnicode_FromString(""), *text = empty ? PyUnicode_Join(empty, parts) : NULL;
    Py_XDECREF(empty);
    Py_DECREF(parts);
    return text ? cr_push(f, text), 0 : -1;
}

enum { FORMATS = 1, HAS_SPEC = 4 };

/* By __format__() in Python. 1: *text; 0: it has none; -1. */
static int format_by_method(cr_capture *c, cr_call_frame *f, PyObject *value, PyObject *spec, PyObject **text) {
    PyObject *empty = PyUnicode_FromString("");
    int r = empty ? cr_call_special_now(c, f, value, "__format__", spec ? &spec : &empty, 1, text) : -1;
    Py_XDECREF(empty);
    if (r) return r < 0 ? -1 : 0;
    if (PyUnicode_CheckExact(*text)) return 1;
    Py_CLEAR(*text);
    return cr_break(c, "__format__() gives no text");
}

/* conversion: none, str, repr, ascii */
static int format_value(cr_capture *c, cr_call_frame *f, int conversion, int how) {
    PyObject *spec = how & HAS_SPEC ? cr_pop(f) : NULL, *value = cr_pop(f), *text = NULL;
    PyObject *converted;
    if (cr_settle_in(c, &value)) return Py_XDECREF(spec), Py_DECREF(value), -1;
    bool has_format = cr_is_token(value) && !conversion && (spec || !cr_has_special_of_object(value, "__format__"));
    int own = has_format ? format_by_method(c, f, value, spec, &text) : 0;
    if (own) return Py_XDECREF(spec), Py_DECREF(value), own < 0 ? -1 : (cr_push(f, text), 0);
    if (cr_is_token(value) && (has_format || conversion == 3)) cr_break(c, "an object is formatted in its own way");
    bool is_itself = c->plain || cr_is_constant(value);
    if (c->reason) converted = NULL;
    else if (conversion == 3) converted = PyObject_ASCII(value);
    else if (conversion || !is_itself) converted = cr_text(c, f, value, conversion == 2);
    else converted = Py_NewRef(value);
    if (converted) text = how & FORMATS ? PyObject_Format(converted, spec) : Py_NewRef(converted);
    Py_XDECREF(converted);
    Py_XDECREF(spec);
    Py_DECREF(value);
    return text ? cr_push(f, text), 0 : -1;
}

HANDLER(FORMAT_VALUE) { return format_value(c, f, i->arg & 3, FORMATS | (i->arg & HAS_SPEC)); }
HANDLER(CONVERT_VALUE) { return format_value(c, f, i->arg, 0); }
HANDLER(FORMAT_SIMPLE) { return (void)i, format_value(c, f, 0, FORMATS); }
HANDLER(FORMAT_WITH_SPEC) { return (void)i, format_value(c, f, 0, FORMATS | HAS_SPEC); }

HANDLER(LIST_TO_TUPLE) {
    UNUSED;
    PyObject *list = cr_pop(f), *tuple = PyList_AsTuple(list);
    Py_DECREF(list);
    return tuple ? cr_push(f, tuple), 0 : -1;
}

HANDLER(LIST_APPEND) {
    UNUSED;
    PyObject *item = cr_pop(f);
    int failed = PyList_Append(cr_peek(f, i->arg), item);
    Py_DECREF(item);
    return failed;
}

/* A dict or set in the making, of which a part was made before a break: it is from outside now. */
static int refuse_begun(cr_capture *c, PyObject *container) {
    if (!cr_is_token(container)) return 0;
    return cr_break(c, "a %s goes on that was begun before a break", Py_TYPE(cr_real(container))->tp_name);
}

HANDLER(SET_ADD) {
    if (refuse_begun(c, cr_peek(f, i->arg + 1))) return -1;
    PyObject *item = cr_pop(f);
    int failed = set_add(c, cr_peek(f, i->arg), item);
    Py_DECREF(item);
    return failed;
}

HANDLER(MAP_ADD) {
    if (refuse_begun(c, cr_peek(f, i->arg + 2))) return -1;
    PyObject *value = cr_pop(f), *key = cr_pop(f);
    int failed = put(c, cr_peek(f, i->arg), key, value);
    Py_DECREF(key);
    Py_DECREF(value);
    return failed;
}

static int add_all(PyObject *container, const char *method, PyObject *items) {
    PyObject *none = PyObject_CallMethod(container, method, "(O)", items);
    Py_XDECREF(none);
    return none ? 0 : -1;
}

/* All items of an iterable as a fresh list. Tensors give their rows; what runs user code refuses. */
static PyObject *items_of(cr_capture *c, PyObject *value) {
    PyObject *iterator = NULL;
    int r = cr_call_special_now(c, c->frame, value, "__iter__", NULL, 0, &iterator);
    PyObject *operand = r == 1 ? cr_operand(c, value) : iterator;
    c->on_tensors = operand && cr_is_tensor_value(operand);
    PyObject *list = operand && !cr_refuse_order(c, operand) ? PySequence_List(operand) : NULL;
    Py_XDECREF(operand);
    return list;
}

HANDLER(LIST_EXTEND) {
    PyObject *given = cr_pop(f);
    PyObject *items = cr_is_token(given) || PyAnySet_Check(given) ? items_of(c, given) : Py_NewRef(given);
    int failed = items ? add_all(cr_peek(f, i->arg), "extend", items) : -1;
    Py_XDECREF(items);
    Py_DECREF(given);
    return failed;
}

HANDLER(SET_UPDATE) {
    if (refuse_begun(c, cr_peek(f, i->arg + 1))) return -1;
    PyObject *items = cr_pop(f);
    int failed = cr_settle_in(c, &items)             ? -1
                 : !c->plain && !cr_is_constant(items) ? cr_break(c, "something that is no constant is put into a set")
                                                     : add_all(cr_peek(f, i->arg), "update", items);
    Py_DECREF(items);
    return failed;
}

/* What `**` takes of an object: a dict's own items where it is gone through as a dict, else keys() and [] of each. */
static PyObject *mapping_of(cr_capture *c, cr_call_frame *f, PyObject *value) {
    PyObject *operand = cr_operand(c, value), *name, *method = NULL, *keys = NULL, *list = NULL, *dict = NULL;
    if (!operand || !cr_is_token(operand)) return operand;
    bool is_dict = PyDict_Check(cr_real(value)) && Py_TYPE(cr_real(value))->tp_iter == PyDict_Type.tp_iter;
    if (is_dict || !(name = PyUnicode_InternFromString("keys"))) return operand;
    Py_DECREF(operand);
    if (cr_look_up(c, f, value, name, &method) == 1) keys = cr_call_now(c, f, method, NULL, 0, NULL);
    if (keys) list = items_of(c, keys);
    if (list) dict = PyDict_New();
    for (Py_ssize_t k = 0; dict && k < PyList_GET_SIZE(list); k++) {
        PyObject *key = PyList_GET_ITEM(list, k), *item = NULL;
        int r = cr_call_special_now(c, f, value, "__getitem__", &key, 1, &item);
        if (r == 1)
            cr_break(c, "an object of class %s has keys() but no [] in Python", Py_TYPE(cr_real(value))->tp_name);
        if (!item || PyDict_SetItem(dict, key, item)) Py_CLEAR(dict);
        Py_XDECREF(item);
    }
    Py_DECREF(name);
    Py_XDECREF(method);
    Py_XDECREF(keys);
    Py_XDECREF(list);
    if (!dict && !PyErr_Occurred() && !c->reason) cr_break(c, "** is asked of an object that has no keys()");
    return dict;
}

HANDLER(DICT_UPDATE) {
    if (refuse_begun(c, cr_peek(f, i->arg + 1))) return -1;
    PyObject *given = cr_pop(f), *items = mapping_of(c, f, given), *to = cr_peek(f, i->arg);
    if (items && PyDict_GET_SIZE(to) && cr_has_objects(c, items))
        items = (cr_break(c, "dicts are put together that have objects as keys"), Py_DECREF(items), NULL);
    int failed = items ? PyDict_Update(to, items) : -1;
    Py_XDECREF(items);
    Py_DECREF(given);
    return failed;
}

/* Keyword arguments of two sources: none may come twice. */
static int merge(PyObject *dict, PyObject *items) {
    PyObject *copy = PyDict_New(), *key, *value;
    int failed = copy ? PyDict_Update(copy, items) : -1;
    for (Py_ssize_t at = 0; !failed && PyDict_Next(copy, &at, &key, &value);) {
        failed = PyDict_Contains(dict, key);
        if (failed > 0) PyErr_SetObject(PyExc_KeyError, key);
        if (!failed) failed = PyDict_SetItem(dict, key, value);
    }
    Py_XDECREF(copy);
    return failed ? -1 : 0;
}

HANDLER(DICT_MERGE) {
    if (refuse_begun(c, cr_peek(f, i->arg + 1))) return -1;
    PyObject *given = cr_pop(f), *items = mapping_of(c, f, given);
    int failed = items ? merge(cr_peek(f, i->arg), items) : -1;
    if (failed && c->plain) { /* as CPython words it, near enough: the class is what a program sees */
        PyErr_Clear();
        PyErr_SetString(PyExc_TypeError, "got multiple values for a keyword argument, or no mapping");
    }
    Py_XDECREF(items);
    Py_DECREF(given);
    return failed;
}

/* ---- taking apart ---- */

HANDLER(UNPACK_SEQUENCE) {
    PyObject *value = cr_pop(f), *list = items_of(c, value);
    Py_DECREF(value);
    if (!list) return -1;
    Py_ssize_t n = PyList_GET_SIZE(list);
    if (n == i->arg)
        for (int k = i->arg; k--;) cr_push(f, Py_NewRef(PyList_GET_ITEM(list, k)));
    Py_DECREF(list);
    if (n == i->arg) return 0;
    if (n > i->arg) PyErr_Format(PyExc_ValueError, "too many values to unpack (expected %d)", i->arg);
    else PyErr_Format(PyExc_ValueError, "not enough values to unpack (expected %d, got %zd)", i->arg, n);
    return -1;
}

HANDLER(UNPACK_EX) {
    int before = i->arg & 0xFF, after = i->arg >> 8;
    PyObject *value = cr_pop(f), *list = items_of(c, value), *middle = NULL;
    Py_DECREF(value);
    if (!list) return -1;
    Py_ssize_t n = PyList_GET_SIZE(list);
    if (n >= before + after) middle = PyList_GetSlice(list, before, n - after);
    else
        PyErr_Format(PyExc_ValueError, "not enough values to unpack (expected at least %d, got %zd)", before + after,
                     n);
    if (middle) {
        for (int k = after; k--;) cr_push(f, Py_NewRef(PyList_GET_ITEM(list, n - after + k)));
        cr_push(f, middle);
        for (int k = before; k--;) cr_push(f, Py_NewRef(PyList_GET_ITEM(list, k)));
    }
    Py_DECREF(list);
    return middle ? 0 : -1;
}

HANDLER(GET_ITER) {
    UNUSED;
    PyObject *value = cr_pop(f), *operand;
    int inlined = cr_call_special(c, f, value, "__iter__", NULL, 0);
    if (inlined < 1) return Py_DECREF(value), inlined;
    operand = cr_operand(c, value);
    c->on_tensors = operand && cr_is_tensor_value(operand);
    PyObject *iterator = operand && !cr_refuse_order(c, operand) ? PyObject_GetIter(operand) : NULL;
    Py_XDECREF(operand);
    Py_DECREF(value);
    return iterator ? cr_push(f, iterator), 0 : -1;
}

HANDLER(FOR_ITER) {
    PyObject *iterator = cr_peek(f, 1);
    if (cr_is_token(iterator))
        return cr_break(c, "an iterator from outside, of class %s, goes on", Py_TYPE(cr_real(iterator))->tp_name);
    PyObject *next = Py_TYPE(iterator)->tp_iternext(iterator);
    if (next) return give(c, f, next);
    if (PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_StopIteration)) return -1;
        PyErr_Clear();
    }
    Py_DECREF(cr_pop(f));
    f->next = i->arg;
    return 0;
}
