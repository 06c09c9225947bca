/* eval_sets.c: sets, and objects as keys of dicts and items of sets.
 *
 * An object that is hashed by its address is its token, which is one for one object: so it is found among others as it
 * would be. That two of them are two is guarded then. The order of a set with such items is that of addresses, which
 * nobody may see. Sets from outside are copies, as lists are; a copy is gone through only where its order is the
 * original's. */
#include "capture/evaluate.h"

#include "python/py.h"

#include <string.h>

bool cr_hashing; /* thread: the GIL is held from where it is set to where it is cleared */

bool cr_is_hashed_by_address(PyObject *token) {
    const PyTypeObject *type = Py_TYPE(cr_real(token));
    return !((cr_token *)token)->pending && type->tp_hash == PyBaseObject_Type.tp_hash &&
           type->tp_richcompare == (PyType_Check(cr_real(token)) ? PyType_Type.tp_richcompare
                                                                 : PyBaseObject_Type.tp_richcompare);
}

static bool is_object(PyObject *value) { return cr_is_token(value) || cr_is_tensor_value(value); }

/* It may be one of those that are there already in another call. */
static int guard_apart(cr_capture *c, PyObject *container, PyObject *item) {
    PyObject *items = PyDict_Check(container) ? PyDict_Keys(container) : PySequence_List(container);
    int failed = items ? 0 : -1;
    for (Py_ssize_t i = 0; !failed && i < PyList_GET_SIZE(items); i++) {
        PyObject *other = PyList_GET_ITEM(items, i);
        if (other == item || !is_object(other) || cr_class_of(c, other) != cr_class_of(c, item)) continue;
        failed = cr_guard_differ(c, other, item);
    }
    Py_XDECREF(items);
    return failed;
}

int cr_begin_key(cr_capture *c, PyObject *container, PyObject *key) {
    cr_hashing = false;
    if (c->plain || !is_object(key) || !(PyDict_Check(container) || PyAnySet_Check(container))) return 0;
    if (cr_is_token(key) && !cr_is_hashed_by_address(key)) return 0; /* it refuses */
    if (guard_apart(c, container, key)) return -1;
    cr_hashing = true;
    return 0;
}

void cr_end_key(void) { cr_hashing = false; }

bool cr_has_objects(const cr_capture *c, PyObject *container) {
    if (c->plain || !(PyDict_Check(container) || PyDictViewSet_Check(container) || PyAnySet_Check(container)))
        return false;
    PyObject *keys = PyAnySet_Check(container) ? Py_NewRef(container) : PySequence_List(container);
    bool has = !keys || !cr_is_constant(keys);
    Py_XDECREF(keys);
    PyErr_Clear();
    return has;
}

int cr_refuse_order(cr_capture *c, PyObject *set) {
    size_t at;
    if (c->plain || !PyAnySet_Check(set)) return 0;
    if (!cr_is_constant(set))
        return cr_break(c, "a set of objects is gone through: its order is that of their addresses");
    if (!cr_find_known(c, set, &at) || !c->known.at[at].before) return 0;
    PyObject *now = PySequence_Tuple(set);
    bool same = now && cr_constants_equal(now, c->known.at[at].before);
    Py_XDECREF(now);
    if (same) return 0;
    PyErr_Clear();
    return cr_break(c, "a set from outside is gone through that was changed, or that was another once");
}

bool cr_is_unchanged_set(PyObject *set, PyObject *before) {
    cr_hashing = true;
    bool same = PySet_GET_SIZE(set) == PyTuple_GET_SIZE(before);
    for (Py_ssize_t i = 0; same && i < PyTuple_GET_SIZE(before); i++)
        same = PySet_Contains(set, PyTuple_GET_ITEM(before, i)) == 1;
    cr_hashing = false;
    if (PyErr_Occurred()) PyErr_Clear();
    return same;
}

PyObject *cr_copy_of_set(cr_capture *c, PyObject *real, int32_t source, PyObject **before) {
    enum { MAX_MEMBERS = 256 };
    Py_ssize_t n = PySet_GET_SIZE(real);
    if (n > MAX_MEMBERS) return cr_break(c, "a set of %zd items is read", n), NULL;
    if (cr_guard_number(&c->guards, source, CR_HOLDS_MEMBERS, Py_TYPE(real), (int32_t)n)) return NULL;
    PyObject *items = PyTuple_New(n), *set = NULL;
    for (Py_ssize_t i = 0; items && i < n; i++) {
        PyObject *item = cr_wrap_read(c, CR_READ_MEMBER, source, real, NULL, (int32_t)i);
        bool fits = item && (cr_is_token(item) ? cr_is_hashed_by_address(item)
                                               : cr_is_tensor_value(item) || cr_is_constant(item));
        if (item && !fits) cr_break(c, "a set is read that has an object of class %s", cr_class_of(c, item)->tp_name);
        if (fits) {
            PyTuple_SET_ITEM(items, i, item);
            continue;
        }
        Py_XDECREF(item);
        Py_CLEAR(items);
    }
    bool themselves = items != NULL; /* then the copy has their order, too */
    for (Py_ssize_t i = 0; themselves && i < n; i++)
        themselves = PyTuple_GET_ITEM(items, i) == cr_read_now(CR_READ_MEMBER, real, NULL, (int32_t)i);
    PyObject *from = themselves ? real : items;
    cr_hashing = true;
    if (from) set = PySet_New(from);
    cr_hashing = false;
    *before = set ? items : NULL;
    if (!set) Py_XDECREF(items);
    return set;
}

/* Methods that look for an item, or put one there. */
static bool takes_key(PyObject *container, const char *name) {
    static const char *const of_sets[] = { "add", "discard", "remove", "__contains__" };
    static const char *const of_dicts[] = { "get", "pop", "setdefault", "__contains__" };
    const char *const *names = PyDict_Check(container) ? of_dicts : of_sets;
    for (size_t i = 0; i < CR_COUNT(of_sets); i++)
        if (!strcmp(names[i], name)) return true;
    return false;
}

int cr_call_with_key(cr_capture *c, PyObject *callable, const cr_arguments *a, PyObject **out) {
    bool bound = PyCFunction_CheckExact(callable);
    PyObject *self = bound ? PyCFunction_GET_SELF(callable) : a->n ? a->at[0] : NULL;
    const char *name = bound                                          ? ((PyCFunctionObject *)callable)->m_ml->ml_name
                       : Py_IS_TYPE(callable, &PyMethodDescr_Type)
                           ? ((PyMethodDescrObject *)callable)->d_method->ml_name
                           : NULL;
    PyObject *key = a->n > !bound ? a->at[!bound] : NULL;
    if (!self || !name || !key || a->kwnames) return 0;
    bool is_set = PyAnySet_CheckExact(self), among = is_set && cr_is_constant(key) && !cr_is_constant(self);
    if (!is_object(key) && !among) return 0;
    if ((!is_set && !PyDict_CheckExact(self) && !PyODict_CheckExact(self)) || !takes_key(self, name)) return 0;
    if (!bound && !Py_IS_TYPE(self, PyDescr_TYPE(callable))) return 0;
    if (cr_begin_key(c, self, key)) return -1;
    *out = PyObject_Vectorcall(callable, a->at, (size_t)a->n, NULL);
    cr_end_key();
    return *out ? 1 : -1;
}
