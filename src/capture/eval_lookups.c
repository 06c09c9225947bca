/* eval_lookups.c: what is kept beside tensors: items of dicts from outside whose keys are tensors or other objects (an
 * optimizer's state), and what a tensor has beside its memory (its gradient).
 *
 * Such a dict is not unfolded: each item is read by its key, which lies in a slot, and what is set is a store of its
 * own. Keys are hashed by their addresses, so a lookup runs nobody's code. */
#include "capture/evaluate.h"

#include "python/py.h"

#include <string.h>

/* ---- items ---- */

typedef struct place { PyObject *dict, *object; int32_t source, by; bool rotated; } place;

/* A key from outside that is known by one source; a tensor or an object that is hashed by its address. */
static bool find_key(const cr_capture *c, PyObject *key, place *p) {
    size_t at;
    if (!cr_find_known(c, key, &at)) return false;
    bool fits = cr_is_token(key) ? !cr_is_made(key) && cr_is_hashed_by_address(key) : cr_is_tensor_value(key);
    p->object = c->known.at[at].real, p->by = c->known.at[at].source;
    return fits && p->by >= 0 && cr_hashes_address(p->object, &p->rotated);
}

static bool find_place(const cr_capture *c, PyObject *container, PyObject *key, place *p) {
    if (c->plain || c->tracer || !cr_is_token(container) || cr_is_made(container)) return false;
    p->dict = cr_real(container), p->source = cr_source_of(container);
    if (!PyDict_CheckExact(p->dict) && !cr_is_defaultdict(Py_TYPE(p->dict))) return false;
    return p->source >= 0 && !cr_unfolded(c, p->dict) && find_key(c, key, p);
}

/* 1: it has the item, guarded; 0: it has none, guarded; -1. *slot: where it is read. */
static int look_up(cr_capture *c, const place *p, int32_t *slot) {
    bool has = cr_dict_item_of(p->dict, p->object, p->rotated) != NULL;
    *slot = cr_source(&c->guards, CR_READ_LOOKUP, p->source, NULL, CR_BY_OBJECT(p->by, p->rotated));
    if (*slot < 0) return -1;
    if (!has) return cr_guard_object(&c->guards, *slot, CR_HOLDS_ABSENT, NULL) ? -1 : 0;
    return 1;
}

/* Where a defaultdict has what it calls for items: behind the dict. */
static PyObject *factory_of(cr_capture *c, const place *p) {
    int32_t offset = (int32_t)sizeof(PyDictObject);
    PyObject *shown = PyObject_GetAttrString(p->dict, "default_factory");
    bool there = shown && (shown == Py_None || *(PyObject **)((char *)p->dict + offset) == shown);
    PyErr_Clear();
    PyObject *factory = there && shown != Py_None ? cr_wrap_read(c, CR_READ_FIELD, p->source, p->dict, NULL, offset)
                                                  : NULL;
    Py_XDECREF(shown);
    if (!factory && !PyErr_Occurred()) cr_break(c, "a dict has no item under an object");
    return factory;
}

static int make_missing(cr_capture *c, cr_call_frame *f, const place *p, PyObject *key, PyObject **out) {
    if (!cr_is_defaultdict(Py_TYPE(p->dict))) return cr_break(c, "a dict has no item under an object");
    PyObject *factory = factory_of(c, p), *made = factory ? cr_call_now(c, f, factory, NULL, 0, NULL) : NULL;
    Py_XDECREF(factory);
    if (!made || cr_add_store(c, CR_READ_LOOKUP, p->dict, p->source, key, made)) return Py_XDECREF(made), -1;
    *out = made;
    return 1;
}

int cr_item_by_object(cr_capture *c, cr_call_frame *f, PyObject *container, PyObject *key, PyObject **out) {
    place p;
    int32_t slot;
    *out = NULL;
    if (!find_place(c, container, key, &p)) return 0;
    PyObject *set = cr_find_store(c, p.dict, key);
    if (set) return *out = Py_NewRef(set), 1;
    int has = look_up(c, &p, &slot);
    if (has < 1) return has < 0 ? -1 : make_missing(c, f, &p, key, out);
    PyObject *real = Py_NewRef(cr_dict_item_of(p.dict, p.object, p.rotated));
    *out = cr_wrap(c, real, slot);
    Py_DECREF(real);
    return *out ? 1 : -1;
}

int cr_has_object_key(cr_capture *c, PyObject *container, PyObject *key) {
    place p;
    int32_t slot;
    if (!find_place(c, container, key, &p)) return 2;
    return cr_find_store(c, p.dict, key) ? 1 : look_up(c, &p, &slot);
}

/* Whether it is there before is guarded: a new key comes last, an old one stays where it is. */
int cr_set_item_by_object(cr_capture *c, PyObject *container, PyObject *key, PyObject *value) {
    place p;
    int32_t slot;
    if (!find_place(c, container, key, &p)) return 0;
    if (!cr_find_store(c, p.dict, key) && look_up(c, &p, &slot) < 0) return -1;
    return cr_add_store(c, CR_READ_LOOKUP, p.dict, p.source, key, value) ? -1 : 1;
}

/* ---- parts of tensors ---- */

static int find_part(PyObject *name) {
    static const char *const names[] = { [CR_PART_GRAD] = "grad", [CR_PART_GRAD_FN] = "grad_fn",
                                         [CR_PART_IS_LEAF] = "is_leaf", [CR_PART_REQUIRES_GRAD] = "requires_grad" };
    for (size_t i = 0; i < CR_COUNT(names); i++)
        if (!PyUnicode_CompareWithASCIIString(name, names[i])) return (int)i;
    return -1;
}

static bool is_written(PyObject *fake) {
    PyObject *version = PyObject_GetAttrString(fake, "_version");
    bool written = !version || PyObject_IsTrue(version);
    PyErr_Clear();
    Py_XDECREF(version);
    return written;
}

/* Of a tensor from outside. What records gradients may change the history of one that it writes to: then nobody here
 * knows. */
int cr_part_of_tensor(cr_capture *c, PyObject *value, PyObject *name, PyObject **out) {
    enum { FOUND = 1, OTHER = 2 };
    int which = find_part(name);
    size_t at;
    if (which < 0 || !cr_find_known(c, value, &at)) return OTHER;
    if (which == CR_PART_REQUIRES_GRAD && c->grad) return OTHER; /* its stamp has it */
    PyObject *real = c->known.at[at].real;
    if (which != CR_PART_GRAD && c->grad && is_written(value))
        return cr_break(c, "'%U' is asked for of a tensor that was written to", name);
    if (!cr_find_store(c, real, name) && !cr_read_now(CR_READ_PART, real, NULL, which)) {
        if (which == CR_PART_GRAD) return cr_break(c, "the gradient of a tensor is read that is no leaf");
        return cr_break(c, "the history of a tensor is read");
    }
    *out = cr_wrap_read(c, CR_READ_PART, c->known.at[at].source, real, name, which);
    return *out ? FOUND : -1;
}

static bool has_equal(PyObject *a, PyObject *b, const char *name) {
    PyObject *of_a = PyObject_GetAttrString(a, name), *of_b = PyObject_GetAttrString(b, name);
    bool equal = of_a && of_b && cr_is_constant(of_a) && PyObject_RichCompareBool(of_a, of_b, Py_EQ) == 1;
    Py_XDECREF(of_a);
    Py_XDECREF(of_b);
    PyErr_Clear();
    return equal;
}

/* The gradient: None, or a tensor that the library will take for one. */
int cr_set_part_of_tensor(cr_capture *c, PyObject *value, PyObject *name, PyObject *to) {
    size_t at;
    if (!c->frontend || !c->frontend->part || find_part(name) != CR_PART_GRAD || !cr_find_known(c, value, &at))
        return 0;
    bool taken = to == Py_None || (to != value && cr_is_tensor_value(to) && has_equal(value, to, "dtype") &&
                                   has_equal(value, to, "shape"));
    if (!taken || !cr_read_now(CR_READ_PART, c->known.at[at].real, NULL, CR_PART_GRAD)) return 0;
    /* as long as it is a leaf */
    if (cr_source(&c->guards, CR_READ_PART, c->known.at[at].source, NULL, CR_PART_GRAD) < 0) return -1;
    return cr_add_store(c, CR_READ_PART, c->known.at[at].real, c->known.at[at].source, name, to) ? -1 : 1;
}
