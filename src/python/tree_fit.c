/* A value against a spec: both are walked at once, the leaves are collected, and what does not fit is an error that
 * names the place. Where the walk stands is a chain of frames on the C stack, which becomes a text ("args[0]['image']")
 * only then, so that a call that fits pays nothing for it. */
#include "python/tree_internal.h"

static void add_object(cr_str *out, PyObject *o, bool repr) {
    PyObject *text = repr ? PyObject_Repr(o) : PyObject_Str(o);
    const char *s = text ? PyUnicode_AsUTF8(text) : NULL;
    if (!s) PyErr_Clear();
    cr_str_add(out, s ? s : "?");
    Py_XDECREF(text);
}

static void add_step(const spec *s, Py_ssize_t i, cr_str *out) {
    PyObject *fields = cr__py_tree_fields(s);
    if (fields && PyTuple_Check(fields) && i < PyTuple_GET_SIZE(fields)) {
        cr_str_addc(out, '.');
        add_object(out, PyTuple_GET_ITEM(fields, i), false);
    } else {
        cr_str_addc(out, '[');
        if (s->kind >= DICT && s->kind <= DEFAULT_DICT) add_object(out, PyTuple_GET_ITEM(s->extra, i), true);
        else cr_str_addf(out, "%zd", i);
        cr_str_addc(out, ']');
    }
    Py_XDECREF(fields);
}

void cr__py_tree_add_place(const place *at, cr_str *out) {
    if (!at->above) {
        cr_str_add(out, at->root);
        return;
    }
    cr__py_tree_add_place(at->above, out);
    add_step(at->node, at->child, out);
}

static void add_article(cr_str *out, const char *name) {
    cr_str_addf(out, "%s %s", *name && strchr("aeiouAEIOU", *name) ? "an" : "a", name);
}

/* "a tuple of 2", "a dict", "a Tensor". */
static void add_value(cr_str *out, PyObject *o) {
    PyObject *def;
    Py_ssize_t n = PyTuple_Check(o) || PyList_Check(o) || PyDict_Check(o) || cr__py_tree_kind(o, &def) == DEQUE
                       ? PyObject_Size(o)
                       : -1;
    const char *name = strrchr(Py_TYPE(o)->tp_name, '.');
    name = name ? name + 1 : Py_TYPE(o)->tp_name;
    add_article(out, name);
    if (n >= 0) cr_str_addf(out, " of %zd", n);
    PyErr_Clear();
}

static void add_expected(cr_str *out, const spec *s) {
    if (s->kind == LEAF) {
        cr_str_add(out, "one value");
        return;
    }
    add_article(out, cr__py_tree_name(s->kind == NAMEDTUPLE ? s->extra : s->type));
    cr_str_addf(out, " of %zd", Py_SIZE(s));
}

/* ValueError "place: message". Always -1. */
static int refuse(const place *at, cr_str *message) {
    cr_str text = {0};
    cr__py_tree_add_place(at, &text);
    PyErr_Format(PyExc_ValueError, "%s: %s", *cr_str_get(&text) ? cr_str_get(&text) : "the value", cr_str_get(message));
    cr_str_dispose(&text);
    cr_str_dispose(message);
    return -1;
}

static int refuse_value(const place *at, const spec *s, PyObject *o) {
    cr_str message = {0};
    cr_str_add(&message, "expected ");
    add_expected(&message, s);
    cr_str_add(&message, ", got ");
    add_value(&message, o);
    return refuse(at, &message);
}

static int fit_child(const spec *s, Py_ssize_t i, PyObject *item, bool whole, PyObject *leaves, const place *at) {
    place here = {.above = at, .node = s, .child = i};
    return cr__py_tree_fit(SPEC(s->children[i]), item, whole, leaves, &here);
}

/* `items`: a list or tuple. */
static int fit_items(const spec *s, PyObject *o, PyObject *items, bool whole, PyObject *leaves, const place *at) {
    if (PySequence_Fast_GET_SIZE(items) != Py_SIZE(s)) return refuse_value(at, s, o);
    for (Py_ssize_t i = 0; i < Py_SIZE(s); i++) {
        if (i >= PySequence_Fast_GET_SIZE(items)) return refuse_value(at, s, o);
        PyObject *item = Py_NewRef(PySequence_Fast_GET_ITEM(items, i));
        int failed = fit_child(s, i, item, whole, leaves, at);
        Py_DECREF(item);
        if (failed) return -1;
    }
    return 0;
}

/* Which keys a dict lacks and which it has too many of. */
static int refuse_keys(const place *at, const spec *s, PyObject *o) {
    cr_str message = {0};
    PyObject *wanted = PySet_New(s->extra), *keys = cr__py_tree_keys(o);
    int missing = 0, extra = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(s->extra); i++) {
        PyObject *key = PyTuple_GET_ITEM(s->extra, i);
        if (PyDict_Contains(o, key) != 0) continue;
        cr_str_add(&message, missing++ ? ", " : "no ");
        add_object(&message, key, true);
    }
    for (Py_ssize_t i = 0; wanted && keys && i < PyTuple_GET_SIZE(keys); i++) {
        PyObject *key = PyTuple_GET_ITEM(keys, i);
        if (PySet_Contains(wanted, key) != 0) continue;
        cr_str_add(&message, extra++ ? ", " : missing ? " and an unexpected " : "an unexpected ");
        add_object(&message, key, true);
    }
    Py_XDECREF(wanted);
    Py_XDECREF(keys);
    PyErr_Clear();
    cr_str_add(&message, "; expected the keys ");
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(s->extra); i++) {
        if (i) cr_str_add(&message, ", ");
        add_object(&message, PyTuple_GET_ITEM(s->extra, i), true);
    }
    if (!PyTuple_GET_SIZE(s->extra)) cr_str_add(&message, "of none");
    cr_str full = {0};
    cr_str_addf(&full, "the %s has %s", cr__py_tree_name(s->type), cr_str_get(&message));
    cr_str_dispose(&message);
    return refuse(at, &full);
}

static int fit_dict(const spec *s, PyObject *o, bool whole, PyObject *leaves, const place *at) {
    if (PyDict_Size(o) != Py_SIZE(s)) return refuse_keys(at, s, o);
    for (Py_ssize_t i = 0; i < Py_SIZE(s); i++) {
        PyObject *item = PyDict_GetItemWithError(o, PyTuple_GET_ITEM(s->extra, i));
        if (!item) return PyErr_Occurred() ? -1 : refuse_keys(at, s, o);
        Py_INCREF(item);
        int failed = fit_child(s, i, item, whole, leaves, at);
        Py_DECREF(item);
        if (failed) return -1;
    }
    return 0;
}

/* A structure whose class is not known here: any object that has the fields, or a tuple as long. */
static int fit_plain(const spec *s, PyObject *o, bool whole, PyObject *leaves, const place *at) {
    PyObject *def = NULL;
    if (cr__py_tree_kind(o, &def) == CUSTOM) { /* its class was registered after the spec was read */
        PyObject *children, *context;
        if (cr__py_tree_call_flatten(def, o, &children, &context)) return -1;
        Py_DECREF(context);
        int failed = fit_items(s, o, children, whole, leaves, at);
        Py_DECREF(children);
        return failed;
    }
    if (s->more) {
        for (Py_ssize_t i = 0; i < Py_SIZE(s); i++) {
            PyObject *item = PyObject_GetAttr(o, PyTuple_GET_ITEM(s->more, i));
            if (!item) {
                PyErr_Clear();
                cr_str message = {0};
                cr_str_add(&message, "expected ");
                add_article(&message, cr__py_tree_name(s->type));
                cr_str_add(&message, " with the field ");
                add_object(&message, PyTuple_GET_ITEM(s->more, i), true);
                cr_str_add(&message, ", got ");
                add_value(&message, o);
                return refuse(at, &message);
            }
            int failed = fit_child(s, i, item, whole, leaves, at);
            Py_DECREF(item);
            if (failed) return -1;
        }
        return 0;
    }
    if (PyTuple_Check(o) && PyTuple_GET_SIZE(o) == Py_SIZE(s)) return fit_items(s, o, o, whole, leaves, at);
    return refuse_value(at, s, o);
}

/* Was this class made here, for a name that nobody has registered? */
static bool is_made(PyObject *cls) { return PyObject_HasAttrString(cls, "__cresset_made__"); }

/* Were its fields unknown then? Libraries do not keep them. */
static bool has_unknown_fields(PyObject *cls) { return PyObject_HasAttrString(cls, "__cresset_numbered__"); }

/* A namedtuple of another class: one that was made here asks for its fields, if they are known. */
static int fit_other_class(const spec *s, PyObject *o, bool whole, PyObject *leaves, const place *at) {
    PyObject *wanted = PyObject_GetAttrString(s->extra, "_fields"),
             *found = PyObject_GetAttrString((PyObject *)Py_TYPE(o), "_fields");
    int same = wanted && found ? PyObject_RichCompareBool(wanted, found, Py_EQ) : -1;
    bool made = is_made(s->extra), fits = made && (same == 1 || has_unknown_fields(s->extra));
    if (same >= 0 && !fits) {
        cr_str message = {0};
        cr_str_add(&message, "expected ");
        add_article(&message, cr__py_tree_name(s->extra));
        if (!same) cr_str_add(&message, " with the fields "), add_object(&message, wanted, true);
        cr_str_add(&message, ", got ");
        add_article(&message, cr__py_tree_name((PyObject *)Py_TYPE(o)));
        if (!same) cr_str_add(&message, " with "), add_object(&message, found, true);
        else cr_str_add(&message, ", another class: "), add_object(&message, (PyObject *)Py_TYPE(o), true);
        refuse(at, &message);
    }
    Py_XDECREF(wanted);
    Py_XDECREF(found);
    return fits ? fit_items(s, o, o, whole, leaves, at) : -1;
}

static int fit_custom(const spec *s, PyObject *o, PyObject *def, bool whole, PyObject *leaves, const place *at) {
    PyObject *children, *context;
    if ((PyObject *)Py_TYPE(o) != s->type) return refuse_value(at, s, o);
    if (cr__py_tree_call_flatten(def, o, &children, &context)) return -1;
    int same = PyObject_RichCompareBool(context, s->extra, Py_EQ), failed = same < 0 ? -1 : 0;
    if (same == 0) {
        cr_str message = {0};
        cr_str_addf(&message, "the %s has the context ", cr__py_tree_name(s->type));
        add_object(&message, context, true);
        cr_str_add(&message, ", expected ");
        add_object(&message, s->extra, true);
        failed = refuse(at, &message);
    }
    if (!failed) failed = fit_items(s, o, children, whole, leaves, at);
    Py_DECREF(children);
    Py_DECREF(context);
    return failed;
}

/* The leaves of `o` by the structure of `s`. `whole`: a leaf must not be a container; else whatever stands there is
 * taken. */
static int fit_node(const spec *s, PyObject *o, bool whole, PyObject *leaves, const place *at) {
    PyObject *def = NULL;
    if (s->kind == PLAIN) return fit_plain(s, o, whole, leaves, at);
    int kind = cr__py_tree_kind(o, &def);
    if (kind < 0) return -1;
    if (s->kind == LEAF) return whole && kind != LEAF ? refuse_value(at, s, o) : PyList_Append(leaves, o);
    if (s->kind >= DICT && s->kind <= DEFAULT_DICT && kind >= DICT && kind <= DEFAULT_DICT)
        return fit_dict(s, o, whole, leaves, at);
    /* whoever does not have a namedtuple's class may give a tuple */
    if (s->kind == NAMEDTUPLE && kind == TUPLE && is_made(s->extra)) return fit_items(s, o, o, whole, leaves, at);
    if (s->kind != kind) return refuse_value(at, s, o);
    if (kind == CUSTOM) return fit_custom(s, o, def, whole, leaves, at);
    if (kind == DEQUE) {
        PyObject *items = PySequence_List(o);
        int failed = items ? fit_items(s, o, items, whole, leaves, at) : -1;
        Py_XDECREF(items);
        return failed;
    }
    if (kind == NAMEDTUPLE && (PyObject *)Py_TYPE(o) != s->extra) return fit_other_class(s, o, whole, leaves, at);
    return fit_items(s, o, o, whole, leaves, at);
}

int cr__py_tree_fit(const spec *s, PyObject *o, bool whole, PyObject *leaves, const place *at) {
    if (Py_EnterRecursiveCall(" while a pytree is flattened")) return -1;
    int failed = fit_node(s, o, whole, leaves, at);
    Py_LeaveRecursiveCall();
    return failed;
}

