/* tree.c: pytrees of Python objects: taken apart to leaves, put together again, compared with a spec.
 *
 * A TreeSpec is one node: its kind, the Python type, what the type needs besides its children (`extra`: a dict's keys,
 * a namedtuple's class, a deque's length, a registered type's context) and the children. It never changes. The plain
 * containers are handled here; any other type goes through its registered functions (registry: type -> tuple of them).
 *
 * Fitting a value to a spec is in tree_fit.c. */
#include "python/tree_internal.h"

static PyTypeObject spec_type;
static PyObject *registry;  /* process: type -> tuple */
static PyObject *by_name;   /* process: serialized name -> type; namedtuple classes, too */
static PyObject *helpers;   /* once: cresset.utils._pytree */
static PyObject *ordered_dict, *default_dict, *deque, *namedtuple; /* once */
static PyObject *leaf;      /* once: the one leaf */
static PyObject *str_fields; /* once */

static PyObject *helper(const char *name) {
    if (!helpers && !(helpers = PyImport_ImportModule("cresset.utils._pytree"))) return NULL;
    return PyObject_GetAttrString(helpers, name);
}

/* ---- making specs ---- */

/* Takes the references to extra, more and (as `list`, a list or tuple) the children; `type` is borrowed. */
static PyObject *spec_new(int kind, PyObject *type, PyObject *extra, PyObject *more, PyObject *list) {
    Py_ssize_t n = list ? PySequence_Fast_GET_SIZE(list) : 0;
    spec *s = list ? (spec *)PyObject_GC_NewVar(spec, &spec_type, n) : NULL;
    if (!s) {
        Py_XDECREF(extra);
        Py_XDECREF(more);
        Py_XDECREF(list);
        return NULL;
    }
    s->kind = (uint8_t)kind;
    s->type = Py_XNewRef(type);
    s->extra = extra;
    s->more = more;
    s->nodes = 1;
    s->leaves = kind == LEAF;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *child = PySequence_Fast_GET_ITEM(list, i);
        s->children[i] = Py_NewRef(child);
        s->nodes += SPEC(child)->nodes;
        s->leaves += SPEC(child)->leaves;
    }
    Py_DECREF(list);
    PyObject_GC_Track(s);
    return (PyObject *)s;
}

static int spec_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(SPEC(self)->type);
    Py_VISIT(SPEC(self)->extra);
    Py_VISIT(SPEC(self)->more);
    for (Py_ssize_t i = 0; i < Py_SIZE(self); i++) Py_VISIT(SPEC(self)->children[i]);
    return 0;
}

static int spec_clear(PyObject *self) {
    Py_CLEAR(SPEC(self)->type);
    Py_CLEAR(SPEC(self)->extra);
    Py_CLEAR(SPEC(self)->more);
    for (Py_ssize_t i = 0; i < Py_SIZE(self); i++) Py_CLEAR(SPEC(self)->children[i]);
    return 0;
}

static void spec_dealloc(PyObject *self) {
    PyObject_GC_UnTrack(self);
    Py_TRASHCAN_BEGIN(self, spec_dealloc)
    spec_clear(self);
    PyObject_GC_Del(self);
    Py_TRASHCAN_END
}

/* ---- one node of a value ---- */

static bool is_namedtuple_class(PyTypeObject *type) {
    if (!PyType_IsSubtype(type, &PyTuple_Type) || type == &PyTuple_Type) return false;
    PyObject *fields = PyObject_GetAttr((PyObject *)type, str_fields), *make;
    bool ok = fields && PyTuple_Check(fields);
    for (Py_ssize_t i = 0; ok && i < PyTuple_GET_SIZE(fields); i++)
        ok = PyUnicode_CheckExact(PyTuple_GET_ITEM(fields, i));
    Py_XDECREF(fields);
    make = ok ? PyObject_GetAttrString((PyObject *)type, "_make") : NULL;
    ok = make && PyCallable_Check(make);
    Py_XDECREF(make);
    PyErr_Clear();
    return ok;
}

int cr__py_tree_kind(PyObject *o, PyObject **def) {
    PyTypeObject *type = Py_TYPE(o);
    if (type == cr_frontend_cresset.tensor_type || PyLong_CheckExact(o) || PyFloat_CheckExact(o) || o == Py_None)
        return LEAF;
    if (type == &PyTuple_Type) return TUPLE;
    if (type == &PyList_Type) return LIST;
    if (type == &PyDict_Type) return DICT;
    if ((PyObject *)type == ordered_dict) return ORDERED_DICT;
    if ((PyObject *)type == default_dict) return DEFAULT_DICT;
    if ((PyObject *)type == deque) return DEQUE;
    if (PyTuple_Check(o) && is_namedtuple_class(type)) return NAMEDTUPLE;
    *def = PyDict_GetItemWithError(registry, (PyObject *)type);
    return *def ? CUSTOM : PyErr_Occurred() ? -1 : LEAF;
}

PyObject *cr__py_tree_keys(PyObject *dict) {
    PyObject *list = PyDict_CheckExact(dict) ? PyDict_Keys(dict) : PyMapping_Keys(dict);
    PyObject *keys = list ? PyList_AsTuple(list) : NULL;
    Py_XDECREF(list);
    return keys;
}

int cr__py_tree_call_flatten(PyObject *def, PyObject *o, PyObject **children, PyObject **context) {
    PyObject *pair = PyObject_CallOneArg(PyTuple_GET_ITEM(def, FLATTEN), o);
    if (!pair) return -1;
    if (!PyTuple_Check(pair) || PyTuple_GET_SIZE(pair) != 2) {
        PyErr_Format(PyExc_TypeError, "the flatten function of %.200s gave %.200s, expected (children, context)",
                     Py_TYPE(o)->tp_name, Py_TYPE(pair)->tp_name);
        Py_DECREF(pair);
        return -1;
    }
    *children = PySequence_Fast(PyTuple_GET_ITEM(pair, 0), "the flatten function of a pytree node must give an "
                                                           "iterable of children first");
    *context = Py_NewRef(PyTuple_GET_ITEM(pair, 1));
    Py_DECREF(pair);
    if (*children) return 0;
    Py_DECREF(*context);
    return -1;
}

/* A value taken apart one level: new references; all NULL for a leaf. */
typedef struct node { int kind; PyObject *children, *extra, *more; } node;
static int open_node(PyObject *o, node *n) {
    PyObject *def = NULL;
    *n = (node){.kind = cr__py_tree_kind(o, &def)};
    switch (n->kind) {
    case -1: return -1;
    case LEAF: return 0;
    case TUPLE:
    case LIST: n->children = Py_NewRef(o); return 0;
    case NAMEDTUPLE:
        n->children = Py_NewRef(o);
        n->extra = Py_NewRef((PyObject *)Py_TYPE(o));
        return 0;
    case DEQUE:
        n->children = PySequence_List(o);
        n->extra = n->children ? PyObject_GetAttrString(o, "maxlen") : NULL;
        break;
    case CUSTOM: return cr__py_tree_call_flatten(def, o, &n->children, &n->extra);
    default: /* dicts */
        n->extra = cr__py_tree_keys(o);
        n->children = n->extra ? PyMapping_Values(o) : NULL;
        if (n->children && n->kind == DEFAULT_DICT) n->more = PyObject_GetAttrString(o, "default_factory");
    }
    if (n->children && n->extra && (n->kind != DEFAULT_DICT || n->more)) return 0;
    Py_XDECREF(n->children);
    Py_XDECREF(n->extra);
    return -1;
}

static PyObject *type_of_kind(int kind, PyObject *o) {
    return kind == NAMEDTUPLE ? namedtuple : (PyObject *)Py_TYPE(o);
}

/* ---- flattening whatever comes ---- */

static PyObject *flatten_any(PyObject *o, PyObject *leaves, PyObject *is_leaf) {
    node n;
    if (is_leaf) {
        PyObject *answer = PyObject_CallOneArg(is_leaf, o);
        int yes = answer ? PyObject_IsTrue(answer) : -1;
        Py_XDECREF(answer);
        if (yes < 0) return NULL;
        if (yes) return PyList_Append(leaves, o) ? NULL : Py_NewRef(leaf);
    }
    if (open_node(o, &n)) return NULL;
    if (n.kind == LEAF) return PyList_Append(leaves, o) ? NULL : Py_NewRef(leaf);
    Py_ssize_t count = PySequence_Fast_GET_SIZE(n.children);
    PyObject *children = Py_EnterRecursiveCall(" while a pytree is flattened") ? NULL : PyTuple_New(count);
    if (children) {
        for (Py_ssize_t i = 0; children && i < count; i++) {
            /* user functions may run: the list can shrink under our feet */
            if (i >= PySequence_Fast_GET_SIZE(n.children)) {
                PyErr_SetString(PyExc_RuntimeError, "a list changed its size while it was flattened");
                Py_CLEAR(children);
                break;
            }
            PyObject *item = Py_NewRef(PySequence_Fast_GET_ITEM(n.children, i)),
                     *child = flatten_any(item, leaves, is_leaf);
            Py_DECREF(item);
            if (child) PyTuple_SET_ITEM(children, i, child);
            else Py_CLEAR(children);
        }
        Py_LeaveRecursiveCall();
    }
    Py_DECREF(n.children);
    return spec_new(n.kind, type_of_kind(n.kind, o), n.extra, n.more, children);
}

static PyObject *tree_flatten(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"tree", "is_leaf", NULL};
    PyObject *tree, *is_leaf = NULL;
    (void)self;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O:tree_flatten", names, &tree, &is_leaf)) return NULL;
    PyObject *leaves = PyList_New(0),
             *structure = leaves ? flatten_any(tree, leaves, is_leaf == Py_None ? NULL : is_leaf) : NULL;
    if (!structure) {
        Py_XDECREF(leaves);
        return NULL;
    }
    return Py_BuildValue("(NN)", leaves, structure);
}

PyObject *cr__py_tree_fields(const spec *s) {
    if (s->kind == PLAIN) return Py_XNewRef(s->more);
    PyObject *fields = s->kind == NAMEDTUPLE ? PyObject_GetAttr(s->extra, str_fields) : NULL;
    if (!fields) PyErr_Clear();
    if (fields && (!PyTuple_Check(fields) || PyTuple_GET_SIZE(fields) != Py_SIZE(s))) Py_CLEAR(fields);
    return fields;
}

const char *cr__py_tree_name(PyObject *type) {
    const char *name = PyType_Check(type) ? ((PyTypeObject *)type)->tp_name : "value", *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

/* ---- a value against a spec: tree_fit.c ---- */

static PyObject *fitted(PyObject *self, PyObject *o, bool whole, const char *root) {
    place top = {.root = root};
    PyObject *leaves = PyList_New(0);
    if (leaves && cr__py_tree_fit(SPEC(self), o, whole, leaves, &top)) Py_CLEAR(leaves);
    return leaves;
}

static PyObject *spec_flatten(PyObject *self, PyObject *args) {
    PyObject *o;
    const char *root = "";
    return PyArg_ParseTuple(args, "O|s:flatten", &o, &root) ? fitted(self, o, true, root) : NULL;
}

static PyObject *spec_flatten_up_to(PyObject *self, PyObject *o) { return fitted(self, o, false, ""); }

/* ---- putting together ---- */

static PyObject *build(const spec *s, PyObject *const **at);

static PyObject *build_items(const spec *s, PyObject *const **at, bool list) {
    PyObject *items = list ? PyList_New(Py_SIZE(s)) : PyTuple_New(Py_SIZE(s));
    for (Py_ssize_t i = 0; items && i < Py_SIZE(s); i++) {
        PyObject *item = build(SPEC(s->children[i]), at);
        if (!item) Py_CLEAR(items);
        else if (list) PyList_SET_ITEM(items, i, item);
        else PyTuple_SET_ITEM(items, i, item);
    }
    return items;
}

static PyObject *build_dict(const spec *s, PyObject *const **at) {
    PyObject *dict = s->kind == DICT         ? PyDict_New()
                     : s->kind == DEFAULT_DICT ? PyObject_CallOneArg(default_dict, s->more)
                                               : PyObject_CallNoArgs(ordered_dict);
    for (Py_ssize_t i = 0; dict && i < Py_SIZE(s); i++) {
        PyObject *item = build(SPEC(s->children[i]), at);
        if (!item || PyObject_SetItem(dict, PyTuple_GET_ITEM(s->extra, i), item)) Py_CLEAR(dict);
        Py_XDECREF(item);
    }
    return dict;
}

static PyObject *build_node(const spec *s, PyObject *const **at) {
    if (s->kind == LEAF) return Py_NewRef(*(*at)++);
    if (s->kind == TUPLE || s->kind == LIST) return build_items(s, at, s->kind == LIST);
    if (s->kind <= DEFAULT_DICT) return build_dict(s, at);
    PyObject *items = build_items(s, at, s->kind != NAMEDTUPLE && s->kind != PLAIN), *made = NULL;
    if (!items) return NULL;
    if (s->kind == NAMEDTUPLE || s->kind == PLAIN) {
        made = PyObject_Call(s->kind == PLAIN ? s->type : s->extra, items, NULL);
    } else if (s->kind == DEQUE) {
        made = PyObject_CallFunctionObjArgs(deque, items, s->extra, NULL);
    } else {
        PyObject *def = PyDict_GetItemWithError(registry, s->type);
        if (def) made = PyObject_CallFunctionObjArgs(PyTuple_GET_ITEM(def, UNFLATTEN), items, s->extra, NULL);
        else if (!PyErr_Occurred())
            PyErr_Format(PyExc_ValueError, "%R is no longer registered as a pytree node", s->type);
    }
    Py_DECREF(items);
    return made;
}

static PyObject *build(const spec *s, PyObject *const **at) {
    if (s->kind == LEAF) return Py_NewRef(*(*at)++);
    if (Py_EnterRecursiveCall(" while a pytree is put together")) return NULL;
    PyObject *made = build_node(s, at);
    Py_LeaveRecursiveCall();
    return made;
}

static PyObject *spec_unflatten(PyObject *self, PyObject *leaves) {
    PyObject *items = PySequence_Tuple(leaves); /* nobody else can change this one */
    if (!items) return NULL;
    if (PyTuple_GET_SIZE(items) != SPEC(self)->leaves) {
        PyErr_Format(PyExc_ValueError, "the structure has %zd leaves, %zd were given", SPEC(self)->leaves,
                     PyTuple_GET_SIZE(items));
        Py_DECREF(items);
        return NULL;
    }
    PyObject *const *at = ((PyTupleObject *)items)->ob_item, *made = build(SPEC(self), &at);
    Py_DECREF(items);
    return made;
}

static PyObject *tree_unflatten(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"leaves", "treespec", NULL};
    PyObject *leaves, *structure;
    (void)self;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO:tree_unflatten", names, &leaves, &structure)) return NULL;
    if (!Py_IS_TYPE(structure, &spec_type)) {
        PyErr_Format(PyExc_TypeError, "tree_unflatten(): 'treespec' must be a TreeSpec, got %.200s",
                     Py_TYPE(structure)->tp_name);
        return NULL;
    }
    return spec_unflatten(structure, leaves);
}

/* ---- what Python sees of a spec ---- */

static PyObject *spec_context(PyObject *self, void *unused) {
    const spec *s = SPEC(self);
    (void)unused;
    if (s->kind == DICT || s->kind == ORDERED_DICT) return PySequence_List(s->extra);
    if (s->kind == DEFAULT_DICT) {
        PyObject *keys = PySequence_List(s->extra);
        return keys ? Py_BuildValue("[ON]", s->more, keys) : NULL;
    }
    return Py_NewRef(s->extra ? s->extra : Py_None);
}

static PyObject *spec_children(PyObject *self, PyObject *unused) {
    (void)unused;
    PyObject *list = PyList_New(Py_SIZE(self));
    for (Py_ssize_t i = 0; list && i < Py_SIZE(self); i++) PyList_SET_ITEM(list, i, Py_NewRef(SPEC(self)->children[i]));
    return list;
}
static PyObject *spec_children_get(PyObject *self, void *unused) { return spec_children(self, unused); }

static PyObject *spec_child(PyObject *self, PyObject *index) {
    Py_ssize_t i = PyNumber_AsSsize_t(index, PyExc_IndexError);
    if (i == -1 && PyErr_Occurred()) return NULL;
    if (i < 0) i += Py_SIZE(self);
    if (i < 0 || i >= Py_SIZE(self))
        return PyErr_Format(PyExc_IndexError, "child %zd of a spec with %zd children", i, Py_SIZE(self));
    return Py_NewRef(SPEC(self)->children[i]);
}

static PyObject *spec_is_leaf(PyObject *self, PyObject *unused) {
    (void)unused;
    return PyBool_FromLong(SPEC(self)->kind == LEAF);
}

/* The names of the fields of a namedtuple or of a structure whose class is not known; else None. */
static PyObject *spec_fields(PyObject *self, void *unused) {
    (void)unused;
    PyObject *fields = cr__py_tree_fields(SPEC(self));
    return fields ? fields : Py_NewRef(Py_None);
}

static PyObject *spec_plain(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(SPEC(self)->kind == PLAIN);
}

static int add_paths(const spec *s, const place *at, PyObject *list) {
    if (s->kind == LEAF) {
        cr_str text = {0};
        cr__py_tree_add_place(at, &text);
        PyObject *path = cr_py_text(&text);
        int failed = !path || PyList_Append(list, path);
        Py_XDECREF(path);
        return failed ? -1 : 0;
    }
    if (Py_EnterRecursiveCall(" in a pytree")) return -1;
    int failed = 0;
    for (Py_ssize_t i = 0; !failed && i < Py_SIZE(s); i++) {
        place here = {.above = at, .node = s, .child = i};
        failed = add_paths(SPEC(s->children[i]), &here, list);
    }
    Py_LeaveRecursiveCall();
    return failed;
}

static PyObject *spec_paths(PyObject *self, PyObject *args) {
    place top = {.root = ""};
    if (!PyArg_ParseTuple(args, "|s:paths", &top.root)) return NULL;
    PyObject *list = PyList_New(0);
    if (list && add_paths(SPEC(self), &top, list)) Py_CLEAR(list);
    return list;
}

static int spec_same(const spec *a, const spec *b) {
    if (a == b) return 1;
    if (a->kind != b->kind || Py_SIZE(a) != Py_SIZE(b) || a->leaves != b->leaves || a->nodes != b->nodes ||
        a->type != b->type)
        return 0;
    if (!a->extra != !b->extra || !a->more != !b->more) return 0;
    int same = a->extra ? PyObject_RichCompareBool(a->extra, b->extra, Py_EQ) : 1;
    if (same == 1 && a->more) same = PyObject_RichCompareBool(a->more, b->more, Py_EQ);
    if (same == 1 && Py_EnterRecursiveCall(" in a comparison of pytrees")) return -1;
    else if (same != 1) return same;
    for (Py_ssize_t i = 0; same == 1 && i < Py_SIZE(a); i++)
        same = spec_same(SPEC(a->children[i]), SPEC(b->children[i]));
    Py_LeaveRecursiveCall();
    return same;
}

static PyObject *spec_compare(PyObject *a, PyObject *b, int op) {
    if (!Py_IS_TYPE(b, &spec_type) || (op != Py_EQ && op != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
    int same = spec_same(SPEC(a), SPEC(b));
    return same < 0 ? NULL : PyBool_FromLong(op == Py_EQ ? same : !same);
}

/* Contexts may have no hash: the shape and the types alone. */
static Py_hash_t spec_hash(PyObject *self) {
    const spec *s = SPEC(self);
    Py_uhash_t h = (Py_uhash_t)(uintptr_t)s->type >> 4 ^ (Py_uhash_t)(s->kind * 1000003 + s->leaves * 31 + s->nodes);
    for (Py_ssize_t i = 0; i < Py_SIZE(s); i++) h = h * 1000003 ^ (Py_uhash_t)spec_hash(s->children[i]);
    return h == (Py_uhash_t)-1 ? -2 : (Py_hash_t)h;
}

static PyObject *spec_repr(PyObject *self) {
    const spec *s = SPEC(self);
    if (s->kind == LEAF) return PyUnicode_FromString("*");
    PyObject *children = spec_children(self, NULL), *context = spec_context(self, NULL), *text = NULL;
    if (children && context && !Py_EnterRecursiveCall(" in the text of a pytree")) {
        text = PyUnicode_FromFormat("TreeSpec(%s, %S, %R)",
                                    s->type == namedtuple ? "namedtuple" : cr__py_tree_name(s->type), context,
                                    children);
        Py_LeaveRecursiveCall();
    }
    Py_XDECREF(children);
    Py_XDECREF(context);
    return text;
}

static PyObject *get_type(PyObject *self, void *unused) {
    (void)unused;
    return Py_NewRef(SPEC(self)->type ? SPEC(self)->type : Py_None);
}
static PyObject *get_nodes(PyObject *self, void *unused) { return (void)unused, PyLong_FromSsize_t(SPEC(self)->nodes); }
static PyObject *get_leaves(PyObject *self, void *unused) {
    return (void)unused, PyLong_FromSsize_t(SPEC(self)->leaves);
}
static PyObject *get_size(PyObject *self, void *unused) { return (void)unused, PyLong_FromSsize_t(Py_SIZE(self)); }

static PyMethodDef spec_methods[] = {
    { "flatten", spec_flatten, METH_VARARGS,
      "flatten(value, root=''): its leaves. ValueError naming the place, below `root`, that has another structure." },
    { "flatten_up_to", spec_flatten_up_to, METH_O,
      "flatten_up_to(tree): the subtrees where this spec has its leaves." },
    { "unflatten", spec_unflatten, METH_O, "unflatten(leaves): the value with these leaves." },
    { "paths", spec_paths, METH_VARARGS, "paths(root=''): where each leaf is, as Python reads it." },
    { "children", spec_children, METH_NOARGS, "The specs of the children." },
    { "child", spec_child, METH_O, "child(index)" },
    { "is_leaf", spec_is_leaf, METH_NOARGS, "Is this a leaf?" },
    { 0 },
};
static PyGetSetDef spec_attributes[] = {
    { "type", get_type, NULL, "The Python type; None for a leaf, collections.namedtuple for any namedtuple.", NULL },
    { "context", spec_context, NULL,
      "What the type needs besides its children: a dict's keys, a namedtuple's class, ...", NULL },
    { "_context", spec_context, NULL, NULL, NULL },
    { "children_spec", spec_children_get, NULL, "The specs of the children.", NULL },
    { "children_specs", spec_children_get, NULL, "The specs of the children.", NULL },
    { "num_nodes", get_nodes, NULL, NULL, NULL },
    { "num_leaves", get_leaves, NULL, NULL, NULL },
    { "num_children", get_size, NULL, NULL, NULL },
    { "_fields", spec_fields, NULL, "Names of the fields of a namedtuple or of a structure whose class is not known.",
      NULL },
    { "_is_plain", spec_plain, NULL, "Was its class made here, because nobody has registered one of that name?", NULL },
    { 0 },
};
static PyTypeObject spec_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "cresset.utils._pytree.TreeSpec",
    .tp_doc = "The structure of a nested value without its leaves.",
    .tp_basicsize = offsetof(spec, children),
    .tp_itemsize = sizeof(PyObject *),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_dealloc = spec_dealloc,
    .tp_traverse = spec_traverse,
    .tp_clear = spec_clear,
    .tp_methods = spec_methods,
    .tp_getset = spec_attributes,
    .tp_richcompare = spec_compare,
    .tp_hash = spec_hash,
    .tp_repr = spec_repr,
};

/* ---- from archives ---- */

static PyObject *key_object(const cr_tree_key *k) {
    if (k->kind == CR_KEY_INT) return PyLong_FromLongLong(k->i);
    if (k->kind == CR_KEY_BOOL) return PyBool_FromLong(k->i != 0);
    if (k->kind == CR_KEY_STR) return PyUnicode_FromString(k->s);
    PyObject *load = helper("_load_key"), *key = load ? PyObject_CallFunction(load, "s", k->s) : NULL;
    Py_XDECREF(load);
    return key;
}

static PyObject *keys_object(const cr_tree_node *n) {
    PyObject *keys = PyTuple_New(n->nchildren);
    for (uint32_t i = 0; keys && i < n->nchildren; i++) {
        PyObject *key = key_object(&n->keys[i]);
        if (key) PyTuple_SET_ITEM(keys, i, key);
        else Py_CLEAR(keys);
    }
    return keys;
}

/* A namedtuple's class: the one registered under the name, or one made for it. */
static PyObject *class_of(const cr_tree_node *n) {
    PyObject *name = PyUnicode_FromString(n->name), *found = name ? PyDict_GetItemWithError(by_name, name) : NULL,
             *made = NULL;
    if (found) {
        made = Py_NewRef(found);
    } else if (!PyErr_Occurred()) {
        PyObject *keys = n->keys ? keys_object(n) : Py_NewRef(Py_None), *make = keys ? helper("_made_class") : NULL;
        made = make ? PyObject_CallFunction(make, "OOn()", name, keys, (Py_ssize_t)n->nchildren) : NULL;
        Py_XDECREF(keys);
        Py_XDECREF(make);
    }
    Py_XDECREF(name);
    return made;
}

/* A type that is none of Python's containers. Consumes `children`. */
static PyObject *other_spec(const cr_tree_node *n, PyObject *children) {
    PyObject *load = helper("_load_other"), *keys = n->keys ? keys_object(n) : Py_NewRef(Py_None);
    PyObject *answer = load && keys ? PyObject_CallFunction(load, "ssiOn", n->name, n->context, n->context_is_text,
                                                            keys, (Py_ssize_t)n->nchildren)
                                    : NULL;
    PyObject *type, *context, *fields, *made = NULL;
    Py_XDECREF(load);
    Py_XDECREF(keys);
    if (answer && PyArg_ParseTuple(answer, "OOO", &type, &context, &fields)) {
        bool known = PyDict_Contains(registry, type) == 1;
        made = spec_new(known ? CUSTOM : PLAIN, type, Py_NewRef(context),
                        known || fields == Py_None ? NULL : Py_NewRef(fields), children);
        children = NULL;
    }
    Py_XDECREF(answer);
    Py_XDECREF(children);
    return made;
}

static PyObject *node_spec(const cr_tree_node *n) {
    if (n->kind == CR_TREE_LEAF) return Py_NewRef(leaf);
    PyObject *children = PyTuple_New(n->nchildren), *extra = NULL, *more = NULL;
    for (uint32_t i = 0; children && i < n->nchildren; i++) { /* as deep as JSON may be */
        PyObject *child = node_spec(&n->children[i]);
        if (child) PyTuple_SET_ITEM(children, i, child);
        else Py_CLEAR(children);
    }
    if (!children) return NULL;
    switch ((cr_tree_kind)n->kind) {
    case CR_TREE_TUPLE: return spec_new(TUPLE, (PyObject *)&PyTuple_Type, NULL, NULL, children);
    case CR_TREE_LIST: return spec_new(LIST, (PyObject *)&PyList_Type, NULL, NULL, children);
    case CR_TREE_DICT:
    case CR_TREE_ORDERED_DICT:
        if (!(extra = keys_object(n))) break;
        return n->kind == CR_TREE_DICT ? spec_new(DICT, (PyObject *)&PyDict_Type, extra, NULL, children)
                                       : spec_new(ORDERED_DICT, ordered_dict, extra, NULL, children);
    case CR_TREE_DEFAULT_DICT: {
        PyObject *load = helper("_load_factory");
        more = load ? PyObject_CallFunction(load, "s", n->factory) : NULL;
        Py_XDECREF(load);
        if (!more || !(extra = keys_object(n))) break;
        return spec_new(DEFAULT_DICT, default_dict, extra, more, children);
    }
    case CR_TREE_NAMEDTUPLE:
        if (!(extra = class_of(n))) break;
        return spec_new(NAMEDTUPLE, namedtuple, extra, NULL, children);
    case CR_TREE_DEQUE:
        extra = n->maxlen < 0 ? Py_NewRef(Py_None) : PyLong_FromLongLong(n->maxlen);
        if (!extra) break;
        return spec_new(DEQUE, deque, extra, NULL, children);
    default: return other_spec(n, children);
    }
    Py_XDECREF(more);
    Py_DECREF(children);
    return NULL;
}

PyObject *cr_py_tree_wrap(const cr_tree *t) {
    if (!t) Py_RETURN_NONE;
    return node_spec(cr_tree_root(t));
}

static PyObject *treespec_loads(PyObject *self, PyObject *text) {
    Py_ssize_t n;
    const char *s = PyUnicode_AsUTF8AndSize(text, &n);
    cr_tree *t;
    (void)self;
    if (!s) return NULL;
    cr_status status = cr_tree_parse(s, (size_t)n, &t);
    if (status) return cr_py_raise(status);
    PyObject *made = node_spec(cr_tree_root(t));
    cr_tree_release(t);
    return made;
}

/* ---- the registry, and small questions for the Python side ---- */

/* _tree_register(cls, (flatten, unflatten, name, to, from, with_keys) or None, name or None): None takes away. */
static PyObject *tree_register(PyObject *self, PyObject *args) {
    PyObject *type, *def, *name;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOO:_tree_register", &type, &def, &name)) return NULL;
    if (def == Py_None) {
        if (PyDict_Contains(registry, type) == 1 && PyDict_DelItem(registry, type)) return NULL;
        if (name != Py_None && PyDict_Contains(by_name, name) == 1 && PyDict_DelItem(by_name, name)) return NULL;
        Py_RETURN_NONE;
    }
    if (!PyTuple_Check(def) || PyTuple_GET_SIZE(def) != REGISTERED_FIELDS) {
        PyErr_SetString(PyExc_TypeError, "_tree_register() takes a class, a tuple of six functions and a name");
        return NULL;
    }
    if (PyDict_SetItem(registry, type, def) || (name != Py_None && PyDict_SetItem(by_name, name, type))) return NULL;
    Py_RETURN_NONE;
}

static PyObject *registered(PyObject *table, PyObject *key) {
    PyObject *found = PyDict_GetItemWithError(table, key);
    return found ? Py_NewRef(found) : PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}
static PyObject *tree_registered(PyObject *self, PyObject *type) { return (void)self, registered(registry, type); }
static PyObject *tree_named(PyObject *self, PyObject *name) { return (void)self, registered(by_name, name); }

/* _tree_open(value): (children, type, context) of a node, None of a leaf. */
static PyObject *tree_open(PyObject *self, PyObject *o) {
    node n;
    (void)self;
    if (open_node(o, &n)) return NULL;
    if (n.kind == LEAF) Py_RETURN_NONE;
    Py_XDECREF(n.more);
    PyObject *children = PySequence_List(n.children);
    Py_DECREF(n.children);
    return Py_BuildValue("(NOO)", children, type_of_kind(n.kind, o), n.extra ? n.extra : Py_None);
}

/* _treespec(type, context, children): any spec, as TreeSpec's constructor in PyTorch makes it. */
static PyObject *make_treespec(PyObject *self, PyObject *args) {
    PyObject *type, *context, *list, *extra = NULL, *more = NULL;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOO!:_treespec", &type, &context, &PyList_Type, &list)) return NULL;
    Py_ssize_t n = PyList_GET_SIZE(list);
    for (Py_ssize_t i = 0; i < n; i++)
        if (!Py_IS_TYPE(PyList_GET_ITEM(list, i), &spec_type))
            return PyErr_Format(PyExc_TypeError, "child %zd is no TreeSpec", i);
    if (type == Py_None) return Py_NewRef(leaf);
    int kind = type == (PyObject *)&PyTuple_Type  ? TUPLE
               : type == (PyObject *)&PyList_Type ? LIST
               : type == (PyObject *)&PyDict_Type ? DICT
               : type == ordered_dict             ? ORDERED_DICT
               : type == default_dict             ? DEFAULT_DICT
               : type == namedtuple               ? NAMEDTUPLE
               : type == deque                    ? DEQUE
                                                  : CUSTOM;
    if (kind == TUPLE || kind == LIST) return spec_new(kind, type, NULL, NULL, PyList_AsTuple(list));
    if (kind == DEFAULT_DICT) {
        PyObject *keys;
        if (!PySequence_Check(context) || !(context = PySequence_Tuple(context))) return NULL;
        if (!PyArg_ParseTuple(context, "OO", &more, &keys)) {
            Py_DECREF(context);
            return NULL;
        }
        Py_INCREF(more);
        extra = PySequence_Tuple(keys);
        Py_DECREF(context);
    } else {
        extra = kind == DICT || kind == ORDERED_DICT ? PySequence_Tuple(context) : Py_NewRef(context);
    }
    if (extra && kind <= DEFAULT_DICT && PyTuple_GET_SIZE(extra) != n) {
        PyErr_Format(PyExc_ValueError, "%zd keys for %zd children", PyTuple_GET_SIZE(extra), n);
        Py_CLEAR(extra);
    }
    if (!extra) {
        Py_XDECREF(more);
        return NULL;
    }
    return spec_new(kind, type, extra, more, PyList_AsTuple(list));
}

static PyMethodDef functions[] = {
    {"_tree_flatten", (PyCFunction)(void (*)(void))tree_flatten, METH_VARARGS | METH_KEYWORDS,
     "tree_flatten(tree, is_leaf=None): (leaves, TreeSpec)."},
    {"_tree_unflatten", (PyCFunction)(void (*)(void))tree_unflatten, METH_VARARGS | METH_KEYWORDS,
     "tree_unflatten(leaves, treespec): the value with these leaves."},
    {"_treespec_loads", treespec_loads, METH_O, "treespec_loads(text): the TreeSpec that treespec_dumps wrote."},
    {"_treespec", make_treespec, METH_VARARGS, NULL},
    {"_tree_register", tree_register, METH_VARARGS, NULL},
    {"_tree_registered", tree_registered, METH_O, NULL},
    {"_tree_named", tree_named, METH_O, NULL},
    {"_tree_open", tree_open, METH_O, NULL},
    {0},
};

int cr_py_tree_init(PyObject *module) {
    PyObject *collections = PyImport_ImportModule("collections");
    if (!collections) return -1;
    ordered_dict = PyObject_GetAttrString(collections, "OrderedDict");
    default_dict = PyObject_GetAttrString(collections, "defaultdict");
    deque = PyObject_GetAttrString(collections, "deque");
    namedtuple = PyObject_GetAttrString(collections, "namedtuple");
    Py_DECREF(collections);
    registry = PyDict_New();
    by_name = PyDict_New();
    str_fields = PyUnicode_InternFromString("_fields");
    if (!ordered_dict || !default_dict || !deque || !namedtuple || !registry || !by_name || !str_fields ||
        PyType_Ready(&spec_type))
        return -1;
    leaf = spec_new(LEAF, NULL, NULL, NULL, PyTuple_New(0));
    if (!leaf || PyModule_AddObjectRef(module, "_TreeSpec", (PyObject *)&spec_type)) return -1;
    return PyModule_AddFunctions(module, functions);
}
