/* eval_cached.c: functions with functools.lru_cache.
 *
 * What the cache has for the arguments is the result, whatever the function would compute now; that it still has it is
 * guarded. Where it has nothing, the function is evaluated as any other, if it looks at nothing that may change, alters
 * nothing and gives constants. Either way it is called for real when the captured call ends: so the cache keeps, drops
 * and counts what it would. CPython shows the cache of such an object to the garbage collector, and so to us. */
#include "capture/evaluate.h"

#include "python/py.h"

#include <string.h>

/* An element of a cache that has a limit: object, two neighbours, hash, key, result. */
enum { RESULT_AT = sizeof(PyObject) + 2 * sizeof(void *) + sizeof(Py_hash_t) + sizeof(PyObject *) };

bool cr_is_cached_type(const PyTypeObject *type) { return !strcmp(type->tp_name, "functools._lru_cache_wrapper"); }

typedef struct look { PyObject *own, *cache; } look;

static int see(PyObject *object, void *user) {
    look *l = user;
    if (PyDict_CheckExact(object) && object != l->own) l->cache = object;
    return 0;
}

/* How far behind the beginning of the object its cache is; 0: it has none. */
static int cache_offset(PyObject *wrapper) {
    PyObject **own = _PyObject_GetDictPtr(wrapper), **fields = (PyObject **)wrapper;
    look l = { own ? *own : NULL, NULL };
    Py_TYPE(wrapper)->tp_traverse(wrapper, see, &l);
    size_t n = (size_t)Py_TYPE(wrapper)->tp_basicsize / sizeof *fields;
    for (size_t i = sizeof(PyObject) / sizeof *fields; l.cache && i < n; i++)
        if (fields[i] == l.cache) return (int)(i * sizeof *fields);
    return 0;
}

static PyObject *result_of(PyObject *stored) {
    bool limited = !strcmp(Py_TYPE(stored)->tp_name, "functools._lru_list_elem");
    return limited ? *(PyObject **)((char *)stored + RESULT_AT) : stored;
}

/* What the cache has under the key, for a guard: (the key, what is stored, the result), or (the key,). */
static PyObject *look_up(PyObject *cache, PyObject *key) {
    PyObject *stored = PyDict_GetItemWithError(cache, key);
    if (stored) return PyTuple_Pack(3, key, stored, result_of(stored));
    return PyErr_Occurred() ? NULL : PyTuple_Pack(1, key);
}

bool cr_cache_holds(PyObject *cache, PyObject *found) {
    PyObject *stored = PyDict_CheckExact(cache) ? PyDict_GetItemWithError(cache, PyTuple_GET_ITEM(found, 0)) : NULL;
    if (PyErr_Occurred() || !PyDict_CheckExact(cache)) return PyErr_Clear(), false;
    if (PyTuple_GET_SIZE(found) == 1 || !stored) return (PyTuple_GET_SIZE(found) == 1) == !stored;
    /* elements are used again for other arguments */
    return stored == PyTuple_GET_ITEM(found, 1) && result_of(stored) == PyTuple_GET_ITEM(found, 2);
}

/* The arguments as they are outside; NULL: exception or break. Objects are guarded to be these. */
static PyObject *real_arguments(cr_capture *c, const cr_arguments *a) {
    PyObject *real = PyTuple_New(a->n);
    for (Py_ssize_t k = 0; real && k < a->n; k++) {
        PyObject *value = a->at[k];
        bool outside = cr_is_token(value) && !cr_is_made(value) && cr_source_of(value) != CR_NO_SLOT &&
                       cr_is_hashed_by_address(value);
        int failed = 0;
        if (outside) failed = cr_guard_object(&c->guards, cr_source_of(value), CR_HOLDS_IS, cr_real(value));
        else if (!cr_is_constant(value))
            failed = cr_break(c, "a function with lru_cache is called with an object of class %s of the program's own",
                              cr_class_of(c, value)->tp_name);
        if (failed) Py_CLEAR(real);
        else PyTuple_SET_ITEM(real, k, Py_NewRef(outside ? cr_real(value) : value));
    }
    return real;
}

static PyObject *key_of(PyObject *args) {
    PyObject *only = PyTuple_GET_SIZE(args) == 1 ? PyTuple_GET_ITEM(args, 0) : NULL;
    return only && (PyLong_CheckExact(only) || PyUnicode_CheckExact(only)) ? only : args;
}

static bool is_untouched(const cr_capture *c, size_t stores) {
    for (size_t i = 0; i < c->known.n; i++)
        if (c->known.at[i].before && !cr_is_unchanged(&c->known.at[i])) return false;
    return c->stores.n == stores;
}

/* `inner`: the function inside. New reference; NULL: exception or break. */
static PyObject *evaluate_inside(cr_capture *c, cr_call_frame *f, PyObject *inner, const cr_arguments *a) {
    bool outer = c->looks_only_at_code;
    size_t stores = c->stores.n;
    if (!is_untouched(c, stores))
        return cr_break(c, "a function with lru_cache is called for the first time, behind a change"), NULL;
    c->looks_only_at_code = true;
    PyObject *result = cr_call_now(c, f, inner, a->at, a->n, NULL);
    c->looks_only_at_code = outer;
    bool has_no_identity = result && (cr_is_plain_constant(result) || cr_is_held_constant(result));
    if (!result || (has_no_identity && is_untouched(c, stores))) return result;
    cr_break(c, "a function with lru_cache is called for the first time, and gives an object or changes something");
    Py_DECREF(result);
    return NULL;
}

/* It is called when the captured call ends. */
static int note_call(cr_capture *c, PyObject *token, const cr_arguments *a) {
    PyObject *args = PyTuple_New(a->n);
    for (Py_ssize_t k = 0; args && k < a->n; k++) PyTuple_SET_ITEM(args, k, Py_NewRef(a->at[k]));
    cr_store store = { cr_real(token), cr_source_of(token), CR_READ_CALLED, NULL, args };
    if (!args || cr_vec_push(&c->stores, store)) return Py_XDECREF(args), PyErr_NoMemory(), -1;
    Py_INCREF(store.real);
    return 0;
}

/* Does it tell f(1) from f(1.0)? Then its keys are others. */
static bool is_typed(PyObject *wrapper) {
    PyObject *told = PyObject_CallMethod(wrapper, "cache_parameters", NULL);
    PyObject *typed = told && PyDict_Check(told) ? PyDict_GetItemString(told, "typed") : NULL;
    bool is = typed != Py_False;
    Py_XDECREF(told);
    PyErr_Clear();
    return is;
}

/* List[int] and its like, which typing keeps: passed on, and looked into by nobody (whoever does ends the capture). */
static bool is_alias(PyObject *o) {
    PyObject *module = PyObject_GetAttrString((PyObject *)Py_TYPE(o), "__module__");
    bool is = module && PyUnicode_Check(module) && !PyUnicode_CompareWithASCIIString(module, "typing");
    PyErr_Clear();
    Py_XDECREF(module);
    return is;
}

/* What the cache has: everybody gets this object. New reference; NULL: exception or break. */
static PyObject *take(cr_capture *c, PyObject *found) {
    PyObject *result = PyTuple_GET_ITEM(found, 2);
    if (!cr_is_constant(result) && !is_alias(result))
        return cr_break(c, "a function with lru_cache gives an object of class %s, which everybody gets who calls it",
                        Py_TYPE(result)->tp_name), NULL;
    return cr_map_put(&c->constants, &result, sizeof result, 1) ? PyErr_NoMemory() : Py_NewRef(result);
}

int cr_call_by_cache(cr_capture *c, cr_call_frame *f, PyObject *token, PyObject *inner, const cr_arguments *a) {
    PyObject *wrapper = cr_real(token), *result = NULL;
    int offset = cache_offset(wrapper);
    if (a->kwnames) return cr_break(c, "a function with lru_cache is called with keywords");
    if (!offset || is_typed(wrapper)) return cr_break(c, "a function with lru_cache(typed=True) is called");
    PyObject *args = real_arguments(c, a), *cache = cr_read_now(CR_READ_FIELD, wrapper, NULL, offset);
    PyObject *found = args ? look_up(cache, key_of(args)) : NULL;
    Py_XDECREF(args);
    int32_t at = found ? cr_source(&c->guards, CR_READ_FIELD, cr_source_of(token), NULL, offset) : CR_NO_SLOT;
    /* guarded first: where the capture ends here, the next call finds the cache filled, and is captured again */
    bool guarded = at >= 0 && !cr_guard_object(&c->guards, at, CR_HOLDS_CACHED, found);
    if (guarded) result = PyTuple_GET_SIZE(found) == 1 ? evaluate_inside(c, f, inner, a) : take(c, found);
    int failed = !result || note_call(c, token, a);
    Py_XDECREF(found);
    if (failed) return Py_XDECREF(result), -1;
    return cr_push(f, result), 0;
}
