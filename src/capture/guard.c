/* guard.c: the guard program: making its rows while a function is captured, and running it before every call. */
#define Py_BUILD_CORE 1
#include "capture/objects.h"

#include "capture/callable.h"
#include "capture/guard.h"
#include "capture/stamps.h"

#include "sym/shape.h"

#include <string.h>

void cr_guards_init(cr_guards *g) {
    *g = (cr_guards){ .slots = 0 };
    cr_map_init(&g->known);
}

void cr_guards_dispose(cr_guards *g) {
    for (size_t i = 0; i < g->rows.n; i++) {
        cr_guard *row = &g->rows.at[i];
        Py_XDECREF(row->key);
        if (row->check == CR_HOLDS_TENSOR) PyMem_Free(row->u.stamp);
        else if (row->check == CR_HOLDS_SHARING) cr_sharing_free(row->u.sharers);
        else if (row->check == CR_HOLDS_NUMBERS) cr_numbers_free(row->u.numbers);
        else if (row->check == CR_HOLDS_IS || row->check == CR_HOLDS_CONSTANT || row->check == CR_HOLDS_CODE ||
                 row->check == CR_HOLDS_KEYS || row->check == CR_HOLDS_CACHED || row->check == CR_HOLDS_APART)
            Py_XDECREF(row->u.object);
    }
    cr_vec_dispose(&g->rows);
    cr_map_dispose(&g->known);
    cr_vec_dispose(&g->paths);
    Py_CLEAR(g->names);
    cr_stamps_free(g->stamps);
    PyMem_Free(g->needed);
    PyMem_Free(g->changes);
}

/* ---- constants ---- */

bool cr_is_plain_constant(PyObject *o) {
    PyTypeObject *type = Py_TYPE(o);
    return type == &PyLong_Type || type == &PyFloat_Type || type == &PyUnicode_Type || type == &PyBytes_Type ||
           type == &PyComplex_Type;
}

/* 1, 1.0 and True differ; 0.0 and -0.0 do; a NaN equals itself. */
bool cr_constants_equal(PyObject *a, PyObject *b) {
    PyTypeObject *type = Py_TYPE(a);
    if (a == b) return true;
    if (Py_TYPE(b) != type) return false;
    if (type == &PyLong_Type) return PyObject_RichCompareBool(a, b, Py_EQ) == 1;
    if (type == &PyFloat_Type)
        return !memcmp(&((PyFloatObject *)a)->ob_fval, &((PyFloatObject *)b)->ob_fval, sizeof(double));
    if (type == &PyComplex_Type)
        return !memcmp(&((PyComplexObject *)a)->cval, &((PyComplexObject *)b)->cval, sizeof(Py_complex));
    if (type == &PyUnicode_Type) return cr_texts_equal(a, b);
    if (type == &PyTuple_Type) {
        bool equal = Py_SIZE(a) == Py_SIZE(b);
        for (Py_ssize_t i = 0; equal && i < Py_SIZE(a); i++)
            equal = cr_constants_equal(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i));
        return equal;
    }
    if (type == &PyBytes_Type)
        return Py_SIZE(a) == Py_SIZE(b) && !memcmp(PyBytes_AS_STRING(a), PyBytes_AS_STRING(b), (size_t)Py_SIZE(a));
    return false;
}

unsigned cr_type_version(PyTypeObject *type, bool *never_changes) {
    *never_changes = !cr_is_python_class(type);
    if (*never_changes) return 0;
    if (!cr_type_tag(type)) {
        static PyObject *name; /* once; whatever is looked up gives the class a version */
        if (!name && !(name = PyUnicode_InternFromString("__class__"))) return PyErr_Clear(), 0;
        _PyType_Lookup(type, name);
    }
    return cr_type_tag(type);
}

/* ---- reading ---- */

static PyObject *tuple_or_list_item(PyObject *o, int32_t index) {
    if (PyTuple_Check(o)) return index < PyTuple_GET_SIZE(o) ? PyTuple_GET_ITEM(o, index) : NULL;
    return PyList_Check(o) && index < PyList_GET_SIZE(o) ? PyList_GET_ITEM(o, index) : NULL;
}

static PyObject *dict_entry(PyObject *dict, int32_t index) {
    PyObject *key, *value;
    const PyDictObject *d = (PyDictObject *)dict;
    PyDictKeysObject *keys = d->ma_keys;
    if (DK_IS_UNICODE(keys) && !d->ma_values && keys->dk_nentries == d->ma_used) /* nothing was ever taken out */
        return index < d->ma_used ? DK_UNICODE_ENTRIES(keys)[index].me_value : NULL;
    for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value); index--)
        if (!index) return value;
    return NULL;
}

/* As sets are gone through. What was taken out leaves an entry whose hash is -1. */
static PyObject *set_member(PyObject *set, int32_t index) {
    const PySetObject *s = (PySetObject *)set;
    for (Py_ssize_t i = 0; i <= s->mask; i++)
        if (s->table[i].key && s->table[i].hash != -1 && !index--) return s->table[i].key;
    return NULL;
}

PyObject *cr_dict_item_of(PyObject *dict, PyObject *object, bool rotated) {
    if (!PyDict_Check(dict)) return NULL;
    PyObject *found = _PyDict_GetItem_KnownHash(dict, object, rotated ? _Py_HashPointer(object)
                                                                      : (Py_hash_t)(uintptr_t)object);
    if (!found) PyErr_Clear(); /* another key with that hash */
    return found;
}

bool cr_hashes_address(PyObject *object, bool *rotated) {
    Py_hash_t hash = PyObject_Hash(object);
    if (hash == -1) PyErr_Clear();
    *rotated = hash == _Py_HashPointer(object);
    return hash != -1 && (*rotated || hash == (Py_hash_t)(uintptr_t)object);
}

static PyObject *part_of(PyObject *tensor, int32_t which) {
    const cr_frontend *fe = cr_frontend_of(tensor);
    return fe && fe->part ? fe->part(tensor, (cr_part)which) : NULL;
}

static PyObject *function_part(cr_read read, PyObject *parent, PyObject *key, int32_t index) {
    PyFunctionObject *f = (PyFunctionObject *)parent;
    cr_place slot = { NULL, 0 };
    switch (read) {
    case CR_READ_GLOBALS: return f->func_globals;
    case CR_READ_BUILTINS: return f->func_builtins;
    case CR_READ_DEFAULTS:
        return f->func_defaults && index <= PyTuple_GET_SIZE(f->func_defaults)
                   ? PyTuple_GET_ITEM(f->func_defaults, PyTuple_GET_SIZE(f->func_defaults) - index)
                   : NULL;
    case CR_READ_KWDEFAULTS:
        return f->func_kwdefaults && PyDict_Check(f->func_kwdefaults) ? cr_dict_peek(f->func_kwdefaults, key, &slot)
                                                                     : NULL;
    case CR_READ_CELL:
        return f->func_closure && index < PyTuple_GET_SIZE(f->func_closure) ? PyTuple_GET_ITEM(f->func_closure, index)
                                                                           : NULL;
    default: return NULL;
    }
}

static inline PyObject *read_slot(cr_read read, PyObject *parent, PyObject *key, int32_t index, cr_place *slot) {
    bool known;
    switch (read) {
    case CR_READ_TYPE: return (PyObject *)Py_TYPE(parent);
    case CR_READ_MODULE: return cr_dict_peek(PyImport_GetModuleDict(), key, slot);
    case CR_READ_ATTRIBUTE: return cr_instance_peek(parent, key, slot, &known);
    case CR_READ_DICT: return index ? cr_instance_dict_made(parent) : cr_instance_dict(parent);
    case CR_READ_CLASS: return _PyType_Lookup((PyTypeObject *)parent, key);
    case CR_READ_BASE: {
        PyObject *mro = ((PyTypeObject *)parent)->tp_mro;
        PyTypeObject *base = index < PyTuple_GET_SIZE(mro) ? (PyTypeObject *)PyTuple_GET_ITEM(mro, index) : NULL;
        PyObject *dict = base ? cr_type_dict(base) : NULL;
        return dict ? cr_dict_peek(dict, key, slot) : NULL;
    }
    case CR_READ_NAME:
        return ((PyTypeObject *)parent)->tp_flags & Py_TPFLAGS_HEAPTYPE ? ((PyHeapTypeObject *)parent)->ht_name : NULL;
    case CR_READ_KEY: return cr_dict_peek(parent, key, slot);
    case CR_READ_ITEM: return tuple_or_list_item(parent, index);
    case CR_READ_ENTRY: return dict_entry(parent, index);
    case CR_READ_MEMBER: return set_member(parent, index);
    case CR_READ_CONTENTS: return PyCell_GET(parent);
    case CR_READ_INNER: return cr_inner_function(parent);
    case CR_READ_FIELD: return *(PyObject **)((char *)parent + index);
    case CR_READ_METHOD_FUNCTION: return PyMethod_GET_FUNCTION(parent);
    case CR_READ_METHOD_SELF: return PyMethod_GET_SELF(parent);
    case CR_READ_NAMESPACE: return PyModule_GetDict(parent);
    case CR_READ_WRAPPED: return cr_callable_wrapped(parent);
    case CR_READ_PART: return part_of(parent, index);
    case CR_READ_REFERENT: return PyWeakref_CheckRefExact(parent) ? cr_referent(parent) : NULL;
    case CR_READ_CONTEXT: return cr_context_value(parent);
    default: return function_part(read, parent, key, index);
    }
}

PyObject *cr_read_now(cr_read read, PyObject *parent, PyObject *key, int32_t index) {
    cr_place slot = { NULL, 0 };
    if (key && PyObject_Hash(key) == -1) return PyErr_Clear(), NULL; /* a text made just now has none yet */
    return read_slot(read, parent, key, index, &slot);
}

bool cr_dict_is_plain(PyObject *dict) { return cr_dict_has_plain_keys(dict); }

/* ---- making rows ---- */

static int32_t no_memory(void) { return PyErr_NoMemory(), CR_NO_SLOT; }

int32_t cr_source(cr_guards *g, cr_read read, int32_t parent, PyObject *key, int32_t index) {
    struct { int32_t read, parent, index; uint32_t zero; PyObject *key; } id = { read, parent, index, 0, NULL };
    uint64_t known;
    Py_XINCREF(key);
    if (key) PyUnicode_InternInPlace(&key);
    id.key = key; /* rows hold keys, so an address stays what it is */
    if (cr_map_find(&g->known, &id, sizeof id, &known)) return Py_XDECREF(key), (int32_t)known;
    if (g->slots >= CR_MAX_SLOTS) {
        Py_XDECREF(key);
        PyErr_SetString(PyExc_RuntimeError, "the function reads too many objects");
        return CR_NO_SLOT;
    }
    if (key && PyObject_Hash(key) == -1) return Py_DECREF(key), CR_NO_SLOT;
    cr_guard row = { .read = (uint8_t)read, .slot = (uint16_t)g->slots, .parent = (uint16_t)parent, .index = index,
                     .key = key };
    if (cr_map_put(&g->known, &id, sizeof id, g->slots)) return Py_XDECREF(key), no_memory();
    uint64_t by = read == CR_READ_LOOKUP ? g->paths.at[cr_key_slot(index)] : (uint32_t)index;
    uint64_t step[3] = { (uint64_t)read << 32 ^ by, key ? (uint64_t)PyObject_Hash(key) : 0,
                         g->paths.n ? g->paths.at[parent] : 0 };
    if (cr_vec_push(&g->paths, cr_hash(step, sizeof step, 0))) return Py_XDECREF(key), no_memory();
    if (cr_vec_push(&g->rows, row)) return Py_XDECREF(key), no_memory();
    return (int32_t)g->slots++;
}

static bool is_equal(const cr_guard *a, const cr_guard *b) {
    return a->slot == b->slot && a->check == b->check && a->version == b->version && a->u.object == b->u.object &&
           a->check != CR_HOLDS_TENSOR && a->number == b->number &&
           (a->read == CR_READ_NONE ? a->key == b->key : !b->key);
}

/* The check goes into the row that reads the slot where that has none yet. Takes over the row's references. */
static int add(cr_guards *g, cr_guard row) {
    enum { NEAR = 64 }; /* a row twice does no harm: those long ago are not looked through */
    for (size_t i = g->rows.n > NEAR ? g->rows.n - NEAR : 0; i < g->rows.n; i++) {
        if (!is_equal(&g->rows.at[i], &row)) continue;
        Py_XDECREF(row.key);
        if (row.check != CR_HOLDS_TYPE && row.check != CR_HOLDS_LENGTH && row.check != CR_HOLDS_CLASS &&
            row.check != CR_HOLDS_MEMBERS)
            Py_XDECREF(row.u.object);
        return 0;
    }
    cr_guard *last = g->rows.n ? &g->rows.at[g->rows.n - 1] : NULL;
    if (last && last->slot == row.slot && last->check == CR_HOLDS_NONE && !row.key) {
        row.read = last->read, row.parent = last->parent, row.index = last->index, row.key = last->key;
        *last = row;
        return 0;
    }
    return cr_vec_push(&g->rows, row) ? no_memory() : 0;
}

int cr_guard_object(cr_guards *g, int32_t slot, cr_holds check, PyObject *object) {
    return add(g, (cr_guard){ .check = (uint8_t)check, .slot = (uint16_t)slot, .u.object = Py_XNewRef(object) });
}

static int unversioned(PyTypeObject *type) {
    PyErr_Format(PyExc_RuntimeError, "CPython keeps no version of class %s any more", type->tp_name);
    return -1;
}

int cr_guard_type(cr_guards *g, int32_t slot, PyTypeObject *type) {
    bool never;
    unsigned version = cr_type_version(type, &never);
    if (!version && !never) return unversioned(type);
    return add(g, (cr_guard){ .check = CR_HOLDS_TYPE, .slot = (uint16_t)slot, .u.type = type, .version = version });
}

int cr_guard_class(cr_guards *g, int32_t slot, PyTypeObject *type) {
    bool never;
    unsigned version = cr_type_version(type, &never);
    if (never) return cr_guard_object(g, slot, CR_HOLDS_IS, (PyObject *)type);
    if (!version) return unversioned(type);
    return add(g, (cr_guard){ .check = CR_HOLDS_CLASS, .slot = (uint16_t)slot, .u.type = type, .version = version });
}

int cr_guard_number(cr_guards *g, int32_t slot, cr_holds check, PyTypeObject *type, int32_t number) {
    return add(g, (cr_guard){ .check = (uint8_t)check, .slot = (uint16_t)slot, .u.type = type, .number = number });
}

int cr_guard_no(cr_guards *g, int32_t slot, cr_holds check, PyObject *key) {
    Py_INCREF(key);
    PyUnicode_InternInPlace(&key);
    if (PyObject_Hash(key) == -1) return Py_DECREF(key), -1;
    return add(g, (cr_guard){ .check = (uint8_t)check, .slot = (uint16_t)slot, .key = key });
}

int cr_guard_apart(cr_guards *g, const uint16_t *slots, size_t n) {
    PyObject *all = PyBytes_FromStringAndSize((const char *)slots, (Py_ssize_t)(n * sizeof *slots));
    if (!all) return -1;
    cr_guard row = { .check = CR_HOLDS_APART, .slot = slots[0], .u.object = all };
    return cr_vec_push(&g->rows, row) ? Py_DECREF(all), no_memory() : 0;
}

int cr_guard_numbers(cr_guards *g, cr_numbers *numbers) {
    cr_guard row = { .check = CR_HOLDS_NUMBERS, .slot = 0, .u.numbers = numbers };
    if (!cr_vec_push(&g->rows, row)) return 0;
    cr_numbers_free(numbers);
    return no_memory();
}

cr_numbers *cr_guards_numbers(const cr_guards *g) {
    for (size_t i = g->rows.n; i-- > 0;)
        if (g->rows.at[i].check == CR_HOLDS_NUMBERS) return g->rows.at[i].u.numbers;
    return NULL;
}

int cr_guard_tensor(cr_guards *g, int32_t slot, const cr_frontend *frontend, PyObject *tensor,
                    const cr_open_sizes *open) {
    cr_stamp *stamp = frontend->stamp(tensor, open);
    if (!stamp) return -1;
    return add(g, (cr_guard){ .check = CR_HOLDS_TENSOR, .slot = (uint16_t)slot, .u.stamp = stamp,
                              .frontend = frontend });
}

/* How many registrations there were, by the number that abc counts them with; 0: it cannot be told. */
static unsigned registrations(void) {
    static PyObject *ask; /* once: a function in C */
    if (!ask) {
        PyObject *module = PyImport_ImportModule("_abc");
        ask = module ? PyObject_GetAttrString(module, "get_cache_token") : NULL;
        Py_XDECREF(module);
    }
    PyObject *number = ask ? PyObject_CallNoArgs(ask) : NULL;
    unsigned long value = number ? PyLong_AsUnsignedLongMask(number) : 0;
    Py_XDECREF(number);
    if (PyErr_Occurred()) PyErr_Clear();
    return (unsigned)value + 1;
}

static bool handles_nothing(void) {
    PyObject *handled = PyErr_GetHandledException();
    Py_XDECREF(handled); /* whoever handles it holds it */
    return !handled || handled == Py_None;
}

int cr_guard_nothing_handled(cr_guards *g) { return add(g, (cr_guard){ .check = CR_HOLDS_NOTHING_HANDLED }); }

int cr_guard_registrations(cr_guards *g) {
    return add(g, (cr_guard){ .check = CR_HOLDS_REGISTRATIONS, .version = registrations() });
}

static bool may_move(const cr_guard *row) {
    switch ((cr_holds)row->check) {
    case CR_HOLDS_IS:
    case CR_HOLDS_CONSTANT:
    case CR_HOLDS_TYPE:
    case CR_HOLDS_CLASS:
    case CR_HOLDS_TENSOR:
    case CR_HOLDS_LENGTH:
    case CR_HOLDS_COUNT:
    case CR_HOLDS_KEYS:
    case CR_HOLDS_MEMBERS:
    case CR_HOLDS_CODE: return row->read == CR_READ_NONE;
    default: return false; /* it looks at other slots, or at none */
    }
}

void cr_guards_compact(cr_guards *g) {
    size_t *reader = PyMem_Malloc((g->slots + 1) * sizeof *reader), n = 0;
    if (!reader) return; /* it only saves time */
    for (size_t i = 0; i < g->rows.n; i++) {
        cr_guard row = g->rows.at[i];
        cr_guard *first = row.read == CR_READ_NONE ? &g->rows.at[reader[row.slot]] : NULL;
        if (first && may_move(&row) && first->check == CR_HOLDS_NONE) {
            first->check = row.check, first->u = row.u, first->version = row.version, first->number = row.number;
            first->frontend = row.frontend;
            continue;
        }
        if (!first) reader[row.slot] = n;
        g->rows.at[n++] = row;
    }
    g->rows.n = n;
    PyMem_Free(reader);
}

/* ---- running ---- */

/* An OrderedDict has an order of its own, which move_to_end() changes. */
static bool has_order(PyObject *dict, PyObject *keys) {
    PyObject *iterator = PyObject_GetIter(dict), *key;
    bool same = iterator != NULL;
    for (Py_ssize_t i = 0; same && i < PyTuple_GET_SIZE(keys); i++) {
        key = PyIter_Next(iterator);
        same = key && cr_constants_equal(PyTuple_GET_ITEM(keys, i), key);
        Py_XDECREF(key);
    }
    Py_XDECREF(iterator);
    PyErr_Clear();
    return same;
}

bool cr_holds_keys(PyObject *dict, PyObject *keys) {
    PyObject *key, *value;
    Py_ssize_t n = PyTuple_GET_SIZE(keys), i = 0;
    bool ordered = PyODict_CheckExact(dict);
    if ((!ordered && !PyDict_CheckExact(dict)) || PyDict_GET_SIZE(dict) != n) return false;
    for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value); i++)
        if (i >= n || !cr_constants_equal(PyTuple_GET_ITEM(keys, i), key)) return false;
    return !ordered || has_order(dict, keys);
}

static bool lacks_key(PyObject *dict, PyObject *key) {
    cr_place slot = { NULL, 0 };
    return PyDict_Check(dict) && cr_dict_has_plain_keys(dict) && !cr_dict_peek(dict, key, &slot);
}

static bool lacks_attribute(PyObject *o, PyObject *key) {
    cr_place slot = { NULL, 0 };
    bool known;
    return !cr_instance_peek(o, key, &slot, &known) && known;
}

static bool are_apart(PyObject *numbers, PyObject *const *slots) {
    enum { SMALL = 128 };
    const uint16_t *at = (const uint16_t *)PyBytes_AS_STRING(numbers);
    size_t n = (size_t)PyBytes_GET_SIZE(numbers) / sizeof *at, room = SMALL;
    PyObject *small[SMALL], **seen = small;
    bool apart = true;
    while (room < 2 * n) room *= 2;
    if (room > SMALL && !(seen = PyMem_Malloc(room * sizeof *seen))) return false;
    memset(seen, 0, room * sizeof *seen);
    for (size_t i = 0; apart && i < n; i++) {
        PyObject *o = slots[at[i]];
        size_t k = ((uintptr_t)o >> 4) * 0x9E3779B97F4A7C15u >> 32 & (room - 1);
        while (seen[k] && seen[k] != o) k = (k + 1) & (room - 1);
        apart = o && !seen[k];
        seen[k] = o;
    }
    if (seen != small) PyMem_Free(seen);
    return apart;
}

static inline bool holds(const cr_guard *row, PyObject *o, PyObject *const *slots) {
    switch ((cr_holds)row->check) {
    case CR_HOLDS_NONE: return true;
    case CR_HOLDS_IS: return o == row->u.object;
    case CR_HOLDS_CONSTANT: return cr_constants_equal(row->u.object, o);
    case CR_HOLDS_TYPE:
        return Py_TYPE(o) == row->u.type && (!row->version || row->u.type->tp_version_tag == row->version);
    case CR_HOLDS_CLASS:
        return o == (PyObject *)row->u.type && PyType_Check(o) && ((PyTypeObject *)o)->tp_version_tag == row->version;
    case CR_HOLDS_TENSOR: return row->frontend->check(row->u.stamp, o);
    case CR_HOLDS_LENGTH: return Py_TYPE(o) == row->u.type && Py_SIZE(o) == row->number;
    case CR_HOLDS_COUNT: return PyDict_Check(o) && PyDict_GET_SIZE(o) == row->number;
    case CR_HOLDS_KEYS: return cr_holds_keys(o, row->u.object);
    case CR_HOLDS_MEMBERS: return Py_TYPE(o) == row->u.type && PySet_GET_SIZE(o) == row->number;
    case CR_HOLDS_CODE: return PyFunction_Check(o) && ((PyFunctionObject *)o)->func_code == row->u.object;
    case CR_HOLDS_CACHED: return cr_cache_holds(o, row->u.object);
    case CR_HOLDS_NO_KEY: return lacks_key(o, row->key);
    case CR_HOLDS_NO_ATTRIBUTE: return lacks_attribute(o, row->key);
    case CR_HOLDS_ABSENT: return !o;
    case CR_HOLDS_REGISTRATIONS: return registrations() == row->version;
    case CR_HOLDS_NOTHING_HANDLED: return handles_nothing();
    case CR_HOLDS_SAME: return o == slots[row->number];
    case CR_HOLDS_DIFFERENT: return o != slots[row->number];
    case CR_HOLDS_APART: return are_apart(row->u.object, slots);
    case CR_HOLDS_NUMBERS: return cr_numbers_hold(row->u.numbers, slots);
    case CR_HOLDS_SHARING: return cr_sharing_holds(row->u.sharers, slots);
    }
    return false;
}

static inline bool row_holds(cr_guard *row, bool reads, PyObject *const *args, PyObject *function, PyObject **slots) {
    PyObject *o;
    switch (reads ? (cr_read)row->read : CR_READ_NONE) {
    case CR_READ_NONE: o = slots[row->slot]; break;
    case CR_READ_ARGUMENT: o = slots[row->slot] = args[row->index]; break;
    case CR_READ_FUNCTION: o = slots[row->slot] = function; break;
    case CR_READ_LOOKUP:
        o = cr_dict_item_of(slots[row->parent], slots[cr_key_slot(row->index)], row->index & 1);
        slots[row->slot] = o;
        break;
    default: {
        cr_place slot = { row->keys, row->at };
        o = slots[row->slot] = read_slot((cr_read)row->read, slots[row->parent], row->key, row->index, &slot);
        row->keys = slot.keys, row->at = slot.index;
    }
    }
    return (o || row->check == CR_HOLDS_ABSENT) && holds(row, o, slots);
}

int32_t cr_guards_check(cr_guards *g, PyObject *const *args, PyObject *function, PyObject **slots) {
    for (cr_guard *row = g->rows.at, *end = row + g->rows.n; row < end; row++)
        if (!row_holds(row, true, args, function, slots)) return (int32_t)(row - g->rows.at);
    return -1;
}

int32_t cr_guards_check_some(cr_guards *g, const cr_row_left *steps, size_t n, PyObject *const *args,
                             PyObject *function, PyObject **slots) {
    for (const cr_row_left *step = steps, *end = step + n; step < end; step++)
        if (!row_holds(&g->rows.at[step->row], step->reads, args, function, slots)) return (int32_t)step->row;
    return -1;
}

/* ---- in words ---- */

static PyObject *source_text(const cr_guards *g, int32_t slot) {
    const cr_guard *row = g->rows.at;
    while (row->slot != slot || row->read == CR_READ_NONE) row++;
    if (row->read == CR_READ_ARGUMENT)
        return g->names && row->index < PyTuple_GET_SIZE(g->names) ? Py_NewRef(PyTuple_GET_ITEM(g->names, row->index))
                                                                   : PyUnicode_FromFormat("argument %d", row->index);
    if (row->read == CR_READ_FUNCTION) return PyUnicode_FromString("the function");
    if (row->read == CR_READ_MODULE) return PyUnicode_FromFormat("module %U", row->key);
    PyObject *parent = source_text(g, row->parent), *text = NULL, *by = NULL;
    if (!parent) return NULL;
    static const char *const parts[] = { [CR_PART_GRAD] = "grad", [CR_PART_GRAD_FN] = "grad_fn",
                                         [CR_PART_IS_LEAF] = "is_leaf", [CR_PART_REQUIRES_GRAD] = "requires_grad" };
    switch ((cr_read)row->read) {
    case CR_READ_TYPE: text = PyUnicode_FromFormat("the class of %U", parent); break;
    case CR_READ_NAME: text = PyUnicode_FromFormat("%U.__name__", parent); break;
    case CR_READ_BASE: text = PyUnicode_FromFormat("super().%U of %U", row->key, parent); break;
    case CR_READ_ATTRIBUTE:
    case CR_READ_CLASS: text = PyUnicode_FromFormat("%U.%U", parent, row->key); break;
    case CR_READ_DICT: text = PyUnicode_FromFormat("%U.__dict__", parent); break;
    case CR_READ_KEY: text = PyUnicode_FromFormat("%U[%R]", parent, row->key); break;
    case CR_READ_MEMBER: text = PyUnicode_FromFormat("item %d of %U", row->index, parent); break;
    case CR_READ_ITEM:
    case CR_READ_ENTRY: text = PyUnicode_FromFormat("%U[%d]", parent, row->index); break;
    case CR_READ_GLOBALS: text = PyUnicode_FromFormat("the globals of %U", parent); break;
    case CR_READ_BUILTINS: text = PyUnicode_FromFormat("the builtins of %U", parent); break;
    case CR_READ_DEFAULTS: text = PyUnicode_FromFormat("default -%d of %U", row->index, parent); break;
    case CR_READ_KWDEFAULTS: text = PyUnicode_FromFormat("the default of %U of %U", row->key, parent); break;
    case CR_READ_CELL: text = PyUnicode_FromFormat("cell %d of %U", row->index, parent); break;
    case CR_READ_CONTENTS: text = PyUnicode_FromFormat("what %U holds", parent); break;
    case CR_READ_INNER: text = PyUnicode_FromFormat("the function of %U", parent); break;
    case CR_READ_FIELD: text = PyUnicode_FromFormat("a field of %U", parent); break;
    case CR_READ_METHOD_FUNCTION: text = PyUnicode_FromFormat("%U.__func__", parent); break;
    case CR_READ_METHOD_SELF: text = PyUnicode_FromFormat("%U.__self__", parent); break;
    case CR_READ_NAMESPACE: text = PyUnicode_FromFormat("%U.__dict__", parent); break;
    case CR_READ_WRAPPED: text = PyUnicode_FromFormat("%U.__wrapped__", parent); break;
    case CR_READ_PART: text = PyUnicode_FromFormat("%U.%s", parent, parts[row->index]); break;
    case CR_READ_LOOKUP:
        if ((by = source_text(g, cr_key_slot(row->index)))) text = PyUnicode_FromFormat("%U[%U]", parent, by);
        Py_XDECREF(by);
        break;
    case CR_READ_REFERENT: text = PyUnicode_FromFormat("%U()", parent); break;
    case CR_READ_CONTEXT: text = PyUnicode_FromFormat("%U.get()", parent); break;
    default: text = Py_NewRef(parent);
    }
    Py_DECREF(parent);
    return text;
}

PyObject *cr_place_text(const cr_guards *g, int32_t slot, int dim, bool stride) {
    PyObject *source = source_text(g, slot), *text;
    if (!source || dim == CR_ITSELF) return source;
    text = PyUnicode_FromFormat("%U.%s(%d)", source, stride ? "stride" : "size", dim);
    Py_DECREF(source);
    return text;
}

typedef struct naming { const cr_guards *g; const cr_numbers *n; cr_env *env; } naming;

/* A symbol of the same range that has the place's text for its name. */
static cr_sym rename_symbol(void *user, cr_sym symbol) {
    const naming *by = user;
    for (size_t i = 0; i < by->n->symbols.n; i++) {
        const cr_open_symbol *s = &by->n->symbols.at[i];
        if (s->symbol != symbol) continue;
        PyObject *text = cr_place_text(by->g, s->slot, s->dim, false);
        const char *name = text ? PyUnicode_AsUTF8(text) : NULL;
        cr_sym named = name ? cr_sym_symbol(by->env, name, cr_sym_type_of(symbol), INT64_MIN, INT64_MAX) : NULL;
        PyErr_Clear();
        Py_XDECREF(text);
        return named;
    }
    return NULL;
}

PyObject *cr_expr_text(const cr_guards *g, cr_sym e) {
    naming by = { g, cr_guards_numbers(g), NULL };
    cr_str text;
    PyObject *made = NULL;
    if (cr_env_create(&by.env)) return PyErr_NoMemory();
    cr_str_init(&text);
    cr_sym named = cr_sym_substitute(by.env, e, rename_symbol, &by);
    if (named) cr_shape_text(by.env, named, &text);
    if (named && !cr_str_status(&text)) made = PyUnicode_FromString(cr_str_get(&text));
    else PyErr_NoMemory();
    cr_str_dispose(&text);
    cr_env_release(by.env);
    return made;
}

/* Number `at` of what is checked of open numbers. */
static PyObject *number_text(const cr_guards *g, const cr_numbers *n, size_t at) {
    PyObject *place = NULL, *is = NULL, *text = NULL;
    if (at < n->symbols.n) {
        const cr_open_symbol *s = &n->symbols.at[at];
        if (!(place = cr_place_text(g, s->slot, s->dim, false))) return NULL;
        if (cr_sym_type_of(s->symbol) == CR_TYPE_FLOAT) text = PyUnicode_FromFormat("%U is finite", place);
        else if (s->range.lo == s->range.hi) text = PyUnicode_FromFormat("%U == %lld", place, (long long)s->range.lo);
        else if (s->range.hi == INT64_MAX) text = PyUnicode_FromFormat("%U >= %lld", place, (long long)s->range.lo);
        else
            text = PyUnicode_FromFormat("%lld <= %U <= %lld", (long long)s->range.lo, place, (long long)s->range.hi);
    } else if ((at -= n->symbols.n) < n->extents.n) {
        const cr_extent *x = &n->extents.at[at];
        place = cr_place_text(g, x->slot, x->dim, x->stride);
        is = place ? cr_expr_text(g, x->expr) : NULL;
        text = is ? PyUnicode_FromFormat("%U == %U", place, is) : NULL;
    } else {
        return cr_expr_text(g, n->conditions.at[at - n->extents.n]);
    }
    Py_XDECREF(place);
    Py_XDECREF(is);
    return text;
}

/* What did not hold last; all of them where nothing failed. */
static PyObject *numbers_text(const cr_guards *g, const cr_numbers *n) {
    size_t count = n->symbols.n + n->extents.n + n->conditions.n;
    if (n->failed < count) return number_text(g, n, n->failed);
    PyObject *all = PyList_New(0), *comma = all ? PyUnicode_FromString(", ") : NULL, *text = NULL;
    for (size_t i = 0; comma && i < count; i++) {
        PyObject *one = number_text(g, n, i);
        if (!one || PyList_Append(all, one)) Py_CLEAR(comma);
        Py_XDECREF(one);
    }
    if (comma) text = PyUnicode_Join(comma, all);
    Py_XDECREF(comma);
    Py_XDECREF(all);
    return text;
}

PyObject *cr_guard_text(const cr_guards *g, size_t at) {
    const cr_guard *row = &g->rows.at[at];
    if (row->check == CR_HOLDS_NUMBERS) return numbers_text(g, row->u.numbers);
    PyObject *source = source_text(g, row->slot), *other = NULL, *text = NULL;
    if (!source) return NULL;
    switch ((cr_holds)row->check) {
    case CR_HOLDS_NONE: text = PyUnicode_FromFormat("%U is there", source); break;
    case CR_HOLDS_IS:
    case CR_HOLDS_CONSTANT: text = PyUnicode_FromFormat("%U is %R", source, row->u.object); break;
    case CR_HOLDS_TYPE: text = PyUnicode_FromFormat("%U has the class, unchanged, that it had", source); break;
    case CR_HOLDS_CLASS: text = PyUnicode_FromFormat("%U is the class, unchanged, that it was", source); break;
    case CR_HOLDS_TENSOR: text = PyUnicode_FromFormat("%U has the sizes, strides and dtype it had", source); break;
    case CR_HOLDS_LENGTH:
    case CR_HOLDS_MEMBERS:
    case CR_HOLDS_COUNT: text = PyUnicode_FromFormat("%U has %d items", source, row->number); break;
    case CR_HOLDS_KEYS: text = PyUnicode_FromFormat("%U has the keys %R", source, row->u.object); break;
    case CR_HOLDS_CACHED: text = PyUnicode_FromFormat("%U has the result that it had", source); break;
    case CR_HOLDS_CODE: text = PyUnicode_FromFormat("%U has the code it had", source); break;
    case CR_HOLDS_NO_KEY: text = PyUnicode_FromFormat("%U has no %R", source, row->key); break;
    case CR_HOLDS_NO_ATTRIBUTE:
        text = PyUnicode_FromFormat("%U has no attribute %U of its own", source, row->key);
        break;
    case CR_HOLDS_ABSENT: text = PyUnicode_FromFormat("%U is not there", source); break;
    case CR_HOLDS_NOTHING_HANDLED: text = PyUnicode_FromString("no exception is handled around the call"); break;
    case CR_HOLDS_REGISTRATIONS: text = PyUnicode_FromString("no class was registered with an abstract one"); break;
    case CR_HOLDS_SAME:
    case CR_HOLDS_DIFFERENT:
        other = source_text(g, row->number);
        if (other)
            text = PyUnicode_FromFormat("%U is %s %U", source, row->check == CR_HOLDS_SAME ? "the same object as" :
                                        "another object than", other);
        Py_XDECREF(other);
        break;
    case CR_HOLDS_APART: text = PyUnicode_FromFormat("%U and others like it are different objects", source); break;
    case CR_HOLDS_SHARING:
        text = PyUnicode_FromString("the same tensors share memory, where they did");
        break;
    case CR_HOLDS_NUMBERS: break; /* above */
    }
    Py_DECREF(source);
    return text;
}
