/* stamps.c: making words of a guard program that held, and checking them. See stamps.h. */
#define Py_BUILD_CORE 1
#include "capture/objects.h"

#include "capture/stamps.h"

cr_stamp_mode cr_capture_stamp_mode;
uint64_t cr_capture_stale;
static struct { bool known, plain, split; } versions; /* once: of which dicts versions can be trusted */

typedef struct word { const uint64_t *at; uint64_t is; } word;
typedef struct half { const uint32_t *at; uint32_t is, after; } half; /* versions of classes; after so many words */
typedef struct pin { PyObject *o; int32_t index; uint16_t slot; } pin; /* argument; index -1: the function */
typedef struct filled { PyObject *o; uint16_t slot; } filled;
typedef struct tensor { PyObject *o; const cr_stamp *stamp; const cr_frontend *frontend; uint32_t row; } tensor;

struct cr_stamps {
    CR_VEC(pin) pins;
    CR_VEC(word) words;
    CR_VEC(half) halves;
    CR_VEC(uint16_t) of_words, of_halves; /* slots of the objects whose words they are */
    CR_VEC(filled) filled;
    CR_VEC(tensor) tensors, watched;
    uint64_t epoch; /* of who made the watched ones, when they last were as their rows say */
    CR_VEC(cr_row_left) steps; /* rows that are left, in their order */
};

void cr_stamps_free(cr_stamps *s) {
    if (!s) return;
    cr_vec_dispose(&s->pins);
    cr_vec_dispose(&s->words);
    cr_vec_dispose(&s->halves);
    cr_vec_dispose(&s->of_words);
    cr_vec_dispose(&s->of_halves);
    cr_vec_dispose(&s->filled);
    cr_vec_dispose(&s->tensors);
    cr_vec_dispose(&s->watched);
    cr_vec_dispose(&s->steps);
    PyMem_Free(s);
}

/* ---- making words ---- */

typedef enum trust { NOT, AT_ADDRESS, PROVEN } trust;
enum { SINGLY = 2, NEVER = 4 }; /* after so many changes */

typedef struct maker {
    cr_guards *g;
    cr_stamps *s;
    PyObject *const *slots;
    uint8_t *trusts; /* of each slot */
    uint8_t *parents; /* is something read of it? */
    uint8_t *tensors;
    cr_map seen;     /* addresses that have a word */
    bool failed;     /* out of memory */
} maker;

static bool is_new(maker *m, const void *at) {
    uintptr_t key = (uintptr_t)at;
    if (cr_map_find(&m->seen, &key, sizeof key, NULL)) return false;
    if (cr_map_put(&m->seen, &key, sizeof key, 1)) m->failed = true;
    return true;
}

/* A word of the object in `slot`: 8 bytes that are now as they were when the rows held. */
static void add_word(maker *m, int32_t slot, const void *at) {
    word w = { at, 0 };
    if (!is_new(m, at)) return;
    memcpy(&w.is, at, sizeof w.is);
    if (cr_vec_push(&m->s->words, w) || cr_vec_push(&m->s->of_words, (uint16_t)slot)) m->failed = true;
}

static void add_half(maker *m, int32_t slot, const void *at) {
    half h = { at, 0, (uint32_t)m->s->words.n }; /* what words say of methods counts only behind the class */
    if (!is_new(m, at)) return;
    memcpy(&h.is, at, sizeof h.is);
    if (cr_vec_push(&m->s->halves, h) || cr_vec_push(&m->s->of_halves, (uint16_t)slot)) m->failed = true;
}

static bool changes_often(const maker *m, int32_t slot, int limit) { return m->g->changes[slot] >= limit; }

/* What lies where is known when its class is, which of objects of classes in C, but modules, stays what it is. */
static void settle_class(maker *m, int32_t slot) {
    PyObject *o = m->slots[slot];
    if (m->trusts[slot] == PROVEN && !cr_is_python_class(Py_TYPE(o)) && !PyModule_Check(o)) return;
    add_word(m, slot, &o->ob_type);
}

static bool settle_version(maker *m, int32_t slot, PyTypeObject *type) {
    if (!cr_is_python_class(type)) return true;
    if (!cr_type_tag(type)) return false;
    _Static_assert(sizeof type->tp_version_tag == sizeof(uint32_t), "versions of classes are half words");
    add_half(m, slot, &type->tp_version_tag);
    return true;
}

/* Does the version stand for everything in the dict, which belongs to the object in `slot`? */
static bool settle_dict(maker *m, int32_t slot, PyObject *dict) {
    const PyDictObject *d = (PyDictObject *)dict;
    if (!(d->ma_values ? versions.split : versions.plain) || changes_often(m, slot, SINGLY)) return false;
    add_word(m, slot, cr_dict_version(d));
    return true;
}

static Py_ssize_t entry_of(PyDictKeysObject *keys, PyObject *key) {
    for (Py_ssize_t i = 0; DK_IS_UNICODE(keys) && i < keys->dk_nentries; i++)
        if (DK_UNICODE_ENTRIES(keys)[i].me_key == key) return i;
    return -1;
}

/* The entries of a keys object lie where they did, and this one has the key. */
static void settle_entry(maker *m, int32_t slot, PyDictKeysObject *keys, Py_ssize_t i) {
    _Static_assert(offsetof(PyDictKeysObject, dk_log2_size) % sizeof(uint64_t) == 0, "sizes and kind are one word");
    add_word(m, slot, &keys->dk_log2_size);
    add_word(m, slot, &keys->dk_nentries);
    add_word(m, slot, &DK_UNICODE_ENTRIES(keys)[i].me_key);
}

/* One value of a dict, by its place. */
static trust settle_value(maker *m, int32_t slot, PyObject *dict, PyObject *key) {
    const PyDictObject *d = (PyDictObject *)dict;
    Py_ssize_t i = entry_of(d->ma_keys, key);
    if (i < 0 || changes_often(m, slot, NEVER)) return NOT;
    add_word(m, slot, &d->ma_keys);
    add_word(m, slot, &d->ma_values);
    settle_entry(m, slot, d->ma_keys, i);
    add_word(m, slot, d->ma_values ? &d->ma_values->values[i] : &DK_UNICODE_ENTRIES(d->ma_keys)[i].me_value);
    return AT_ADDRESS;
}

/* Attributes that lie in the object, or beside it, without a dict of their own. */
static trust settle_inline(maker *m, int32_t slot, PyObject *o, PyDictValues *values, PyObject *key, bool absent) {
    PyHeapTypeObject *type = (PyHeapTypeObject *)Py_TYPE(o);
    PyDictKeysObject *keys = type->ht_cached_keys;
    Py_ssize_t i = entry_of(keys, key);
    if (changes_often(m, slot, NEVER) || (i < 0 && !absent)) return NOT;
#if PY_VERSION_HEX < 0x030C0000
    add_word(m, slot, _PyObject_ValuesPointer(o));
#elif PY_VERSION_HEX < 0x030D0000
    add_word(m, slot, _PyObject_DictOrValuesPointer(o));
#else
    add_half(m, slot, values); /* how many there are, and whether they are valid */
#endif
    add_word(m, slot, &type->ht_cached_keys);
    if (i < 0) { /* keys that objects share only become more */
        add_word(m, slot, &keys->dk_nentries);
        return PROVEN;
    }
    settle_entry(m, slot, keys, i);
    add_word(m, slot, &values->values[i]);
    return AT_ADDRESS;
}

/* The place that says where the dict of an object is; NULL: it has none. */
static bool find_dict_word(PyObject *o, const void **at) {
    PyTypeObject *type = Py_TYPE(o);
    *at = NULL;
    if (type->tp_flags & Py_TPFLAGS_MANAGED_DICT) {
#if PY_VERSION_HEX < 0x030C0000 || PY_VERSION_HEX >= 0x030D0000
        *at = _PyObject_ManagedDictPointer(o);
#else
        *at = _PyObject_DictOrValuesPointer(o);
#endif
        return true;
    }
    if (type->tp_dictoffset > 0) *at = (char *)o + type->tp_dictoffset;
    return type->tp_dictoffset >= 0;
}

/* An attribute of the object's own, or that it has none. */
static trust settle_attribute(maker *m, int32_t slot, PyObject *key, bool absent) {
    PyObject *o = m->slots[slot];
    PyTypeObject *type = Py_TYPE(o);
    const void *at;
    settle_class(m, slot);
    PyDictValues *values = type->tp_flags & Py_TPFLAGS_MANAGED_DICT ? cr_inline_values(o) : NULL;
    if (values) return settle_inline(m, slot, o, values, key, absent);
    if (!find_dict_word(o, &at)) return NOT;
    PyObject *dict = cr_instance_dict(o);
    if (at) add_word(m, slot, at); /* with a dict there are no values on 3.11, either */
#if PY_VERSION_HEX < 0x030C0000
    if (!dict && (type->tp_flags & Py_TPFLAGS_MANAGED_DICT)) add_word(m, slot, _PyObject_ValuesPointer(o));
#elif PY_VERSION_HEX >= 0x030D0000
    if (type->tp_flags & Py_TPFLAGS_INLINE_VALUES) add_half(m, slot, _PyObject_InlineValues(o));
#endif
    if (!dict) return absent ? PROVEN : NOT;
    if (settle_dict(m, slot, dict)) return PROVEN;
    return absent ? NOT : settle_value(m, slot, dict, key);
}

/* A field of an object whose class is settled: a pointer at an address. */
static trust settle_field(maker *m, int32_t slot, const void *at) {
    settle_class(m, slot);
    add_word(m, slot, at);
    return AT_ADDRESS;
}

static trust settle_item(maker *m, int32_t slot, int32_t index) {
    PyObject *o = m->slots[slot];
    if (PyTuple_Check(o) && m->trusts[slot] == PROVEN) return PROVEN;
    if (changes_often(m, slot, NEVER)) return NOT;
    settle_class(m, slot);
    add_word(m, slot, &((PyVarObject *)o)->ob_size);
    if (PyTuple_Check(o)) return settle_field(m, slot, &((PyTupleObject *)o)->ob_item[index]);
    add_word(m, slot, &((PyListObject *)o)->ob_item);
    return settle_field(m, slot, &((PyListObject *)o)->ob_item[index]);
}

static trust settle_cell(maker *m, int32_t slot, int32_t index) {
    const PyFunctionObject *f = (PyFunctionObject *)m->slots[slot];
    if (m->trusts[slot] == PROVEN) return PROVEN; /* a function keeps its cells */
    settle_field(m, slot, &f->func_closure);
    add_word(m, slot, &((PyVarObject *)f->func_closure)->ob_size);
    return settle_field(m, slot, &((PyTupleObject *)f->func_closure)->ob_item[index]);
}

static bool is_pinned(const maker *m, const cr_guard *row) {
    PyObject *o = m->slots[row->slot];
    return o && m->parents[row->slot] && !m->tensors[row->slot] && !changes_often(m, row->slot, SINGLY) &&
           (cr_is_python_class(Py_TYPE(o)) || PyFunction_Check(o) || PyType_Check(o) || PyModule_Check(o));
}

static trust settle_root(maker *m, const cr_guard *row) {
    if (!is_pinned(m, row)) return NOT;
    pin p = { m->slots[row->slot], row->read == CR_READ_ARGUMENT ? row->index : -1, row->slot };
    if (cr_vec_push(&m->s->pins, p)) m->failed = true;
    return AT_ADDRESS;
}

static trust settle_key(maker *m, const cr_guard *row, PyObject *dict) {
    int32_t slot = row->read == CR_READ_MODULE ? row->slot : row->parent;
    if (row->read != CR_READ_MODULE) settle_class(m, slot);
    if (settle_dict(m, slot, dict)) return PROVEN;
    return row->read == CR_READ_ENTRY ? NOT : settle_value(m, slot, dict, row->key);
}

static trust settle_type(maker *m, int32_t slot) {
    settle_class(m, slot);
    return settle_version(m, slot, Py_TYPE(m->slots[slot])) ? PROVEN : NOT;
}

/* What a class has, bases included. */
static trust settle_of_class(maker *m, int32_t slot) {
    PyTypeObject *type = (PyTypeObject *)m->slots[slot];
    if (m->trusts[slot] != PROVEN && !cr_is_python_class(type)) return NOT;
    settle_class(m, slot);
    return settle_version(m, slot, type) ? PROVEN : NOT;
}

static trust settle_dict_of(maker *m, int32_t slot, PyObject *dict) {
    const void *at;
    settle_class(m, slot);
    if (!find_dict_word(m->slots[slot], &at) || !at) return NOT;
    add_word(m, slot, at);
    return settle_dict(m, slot, dict) ? PROVEN : AT_ADDRESS; /* no other dict ever has this version */
}

/* How far what the row reads can be trusted to be what it was. */
static trust settle_read(maker *m, const cr_guard *row) {
    PyObject *o = row->read == CR_READ_ARGUMENT || row->read == CR_READ_FUNCTION || row->read == CR_READ_MODULE
                      ? NULL
                      : m->slots[row->parent];
    trust parent = o ? (trust)m->trusts[row->parent] : NOT;
    if (!m->slots[row->slot] || (o && parent == NOT)) return NOT;
    switch ((cr_read)row->read) {
    case CR_READ_ARGUMENT:
    case CR_READ_FUNCTION: return settle_root(m, row);
    case CR_READ_MODULE: return settle_key(m, row, PyImport_GetModuleDict());
    case CR_READ_TYPE: return settle_type(m, row->parent);
    case CR_READ_ATTRIBUTE: return settle_attribute(m, row->parent, row->key, false);
    case CR_READ_DICT: return settle_dict_of(m, row->parent, m->slots[row->slot]);
    case CR_READ_CLASS:
    case CR_READ_BASE: return settle_of_class(m, row->parent);
    case CR_READ_KEY:
    case CR_READ_ENTRY: return PyDict_Check(o) ? settle_key(m, row, o) : NOT;
    case CR_READ_ITEM: return settle_item(m, row->parent, row->index);
    case CR_READ_GLOBALS: return settle_field(m, row->parent, &((PyFunctionObject *)o)->func_globals);
    case CR_READ_BUILTINS: return settle_field(m, row->parent, &((PyFunctionObject *)o)->func_builtins);
    case CR_READ_CELL: return settle_cell(m, row->parent, row->index);
    case CR_READ_CONTENTS: return settle_field(m, row->parent, &((PyCellObject *)o)->ob_ref);
    case CR_READ_METHOD_FUNCTION: return settle_field(m, row->parent, &((PyMethodObject *)o)->im_func);
    case CR_READ_METHOD_SELF: return settle_field(m, row->parent, &((PyMethodObject *)o)->im_self);
    case CR_READ_NAMESPACE:
    case CR_READ_WRAPPED: return parent == PROVEN ? PROVEN : NOT;
    default: return NOT;
    }
}

static bool settle_length(maker *m, int32_t slot, PyObject *o) {
    if (PyTuple_CheckExact(o) && m->trusts[slot] == PROVEN) return true;
    if (!PyTuple_CheckExact(o) && !PyList_CheckExact(o)) return false;
    if (changes_often(m, slot, NEVER)) return false;
    settle_class(m, slot);
    add_word(m, slot, &((PyVarObject *)o)->ob_size);
    return true;
}

static bool settle_items(maker *m, int32_t slot, PyObject *o) {
    if (!PyDict_Check(o)) return false;
    settle_class(m, slot);
    return settle_dict(m, slot, o);
}

/* Words for the object that shows a tensor; of the tensor itself who made it says when it changes. An object with
 * attributes may have marks among them, which anybody may change. */
static bool settle_tensor(maker *m, int32_t slot, const cr_frontend *frontend) {
    PyObject *o = m->slots[slot];
    const void *at;
    bool alone = !m->s->watched.n || m->s->watched.at[0].frontend == frontend; /* there is one epoch */
    if (!frontend->watch || !alone || changes_often(m, slot, SINGLY)) return false;
    if (!find_dict_word(o, &at) || !at || *(PyObject *const *)at) return false;
    add_word(m, slot, &o->ob_type);
    if (!settle_version(m, slot, Py_TYPE(o))) return false;
    add_word(m, slot, at);
    if (m->trusts[slot] != PROVEN) add_word(m, slot, (char *)o + frontend->tensor_at);
    frontend->watch(o);
    return true;
}

/* Do words say that what the row checks still holds? */
static bool settle_check(maker *m, const cr_guard *row) {
    PyObject *o = m->slots[row->slot];
    bool proven = m->trusts[row->slot] == PROVEN;
    if (m->trusts[row->slot] == NOT) return false;
    switch ((cr_holds)row->check) {
    case CR_HOLDS_NONE: return true;
    case CR_HOLDS_IS:
    case CR_HOLDS_CONSTANT: return proven || o == row->u.object;
    case CR_HOLDS_TYPE:
        settle_class(m, row->slot);
        return !row->version || settle_version(m, row->slot, Py_TYPE(o));
    case CR_HOLDS_CLASS:
        settle_class(m, row->slot);
        return settle_version(m, row->slot, (PyTypeObject *)o);
    case CR_HOLDS_LENGTH: return settle_length(m, row->slot, o);
    case CR_HOLDS_COUNT:
    case CR_HOLDS_NO_KEY: return settle_items(m, row->slot, o);
    case CR_HOLDS_KEYS: return PyDict_CheckExact(o) && settle_items(m, row->slot, o);
    case CR_HOLDS_CODE:
        if (!PyFunction_Check(o)) return false;
        settle_field(m, row->slot, &((PyFunctionObject *)o)->func_code);
        return true;
    case CR_HOLDS_NO_ATTRIBUTE: return settle_attribute(m, row->slot, row->key, true) != NOT;
    case CR_HOLDS_SAME:
    case CR_HOLDS_DIFFERENT: return m->trusts[row->number] != NOT;
    default: return false;
    }
}

/* ---- what is left ---- */

static void need_numbers(uint8_t *needed, const cr_numbers *n) {
    for (size_t i = 0; n && i < n->symbols.n; i++) needed[n->symbols.at[i].slot] = 1;
    for (size_t i = 0; n && i < n->extents.n; i++) needed[n->extents.at[i].slot] = 1;
}

static void need_slots(uint8_t *needed, PyObject *numbers) {
    const uint16_t *at = (const uint16_t *)PyBytes_AS_STRING(numbers);
    for (size_t i = 0; i < (size_t)PyBytes_GET_SIZE(numbers) / sizeof *at; i++) needed[at[i]] = 1;
}

/* Slots of which words say what is in them, and that somebody reads. */
static void fill(maker *m) {
    cr_guards *g = m->g;
    uint8_t *needed = PyMem_Malloc(g->slots + 1);
    if (!needed) {
        m->failed = true;
        return;
    }
    memcpy(needed, g->needed, g->slots);
    need_numbers(needed, cr_guards_numbers(g));
    for (size_t i = 0; i < m->s->steps.n; i++) {
        const cr_row_left *step = &m->s->steps.at[i];
        const cr_guard *row = &g->rows.at[step->row];
        if (!step->reads || row->read == CR_READ_NONE) needed[row->slot] = 1;
        else needed[row->parent] = 1;
        if (step->reads && row->read == CR_READ_LOOKUP) needed[cr_key_slot(row->index)] = 1;
        if (row->check == CR_HOLDS_APART) need_slots(needed, row->u.object);
        if (row->check == CR_HOLDS_SAME || row->check == CR_HOLDS_DIFFERENT) needed[row->number] = 1;
    }
    for (uint32_t i = 0; i < g->slots; i++)
        if (m->trusts[i] != NOT && (needed[i] || m->tensors[i]) &&
            cr_vec_push(&m->s->filled, (filled){ m->slots[i], (uint16_t)i }))
            m->failed = true;
    PyMem_Free(needed);
}

static void make_row(maker *m, uint32_t at) {
    const cr_guard *row = &m->g->rows.at[at];
    bool reads = row->read != CR_READ_NONE;
    trust known = reads ? settle_read(m, row) : (trust)m->trusts[row->slot];
    m->trusts[row->slot] = (uint8_t)known;
    bool read = reads && known == NOT;
    if (!read && settle_check(m, row)) return;
    if (!read && known != NOT && row->check == CR_HOLDS_TENSOR) {
        tensor t = { m->slots[row->slot], row->u.stamp, row->frontend, at };
        bool watched = settle_tensor(m, row->slot, row->frontend);
        if (watched ? cr_vec_push(&m->s->watched, t) : cr_vec_push(&m->s->tensors, t)) m->failed = true;
        return;
    }
    if (cr_vec_push(&m->s->steps, (cr_row_left){ at, read })) m->failed = true;
}

/* Of a program whose rows held a moment ago, with what they read in `slots`. NULL: no words could be made. */
static cr_stamps *make(cr_guards *g, PyObject *const *slots) {
    uint8_t *bytes = PyMem_Calloc(g->slots + 1, 3);
    maker m = { .g = g, .s = PyMem_Calloc(1, sizeof *m.s), .slots = slots, .trusts = bytes };
    if (!bytes || !m.s) return PyMem_Free(bytes), PyMem_Free(m.s), NULL;
    m.parents = bytes + g->slots, m.tensors = bytes + 2 * g->slots;
    cr_map_init(&m.seen);
    for (size_t i = 0; i < g->rows.n; i++) {
        const cr_guard *row = &g->rows.at[i];
        if (row->read > CR_READ_MODULE) m.parents[row->parent] = 1;
        else if (row->check == CR_HOLDS_NO_ATTRIBUTE || row->check == CR_HOLDS_CODE) m.parents[row->slot] = 1;
        if (row->check == CR_HOLDS_TENSOR) m.tensors[row->slot] = 1;
    }
    for (uint32_t i = 0; i < g->rows.n && !m.failed; i++) make_row(&m, i);
    if (!m.failed) fill(&m);
    if (m.failed || !m.s->words.n) cr_stamps_free(m.s), m.s = NULL;
    cr_map_dispose(&m.seen);
    PyMem_Free(bytes);
    return m.s;
}

/* ---- checking ---- */

enum { CHANGED = -2, AFTER = 2 /* passes by rows */ };

static void note_change(cr_guards *g, uint16_t slot, cr_stamp_mode mode) {
    if (mode == CR_STAMPS_USED && g->changes[slot] < NEVER) g->changes[slot]++;
    if (mode == CR_STAMPS_COMPARE) g->changes[slot] = (uint8_t)((g->changes[slot] + 1) % (NEVER + 1)); /* each way */
}

/* Tensors lie anywhere in memory: those ahead are asked for while one is looked at. */
static int32_t check_tensors(const tensor *t, size_t n) {
    enum { NEAR = 4, FAR = 8 };
    for (size_t i = 0; i < n; i++, t++) {
        if (i + FAR < n) {
            __builtin_prefetch(t[FAR].o);
            const char *const *held = (const char *const *)((const char *)t[NEAR].o + t[NEAR].frontend->tensor_at);
            __builtin_prefetch(*held);
            __builtin_prefetch(*held + 2 * sizeof(cr_dim) * CR_MAX_RANK);
        }
        if (!t->frontend->check(t->stamp, t->o)) return (int32_t)t->row;
    }
    return -1;
}

/* They are looked at only when one of them, or of those that others watch, has changed. */
static int32_t check_watched(cr_stamps *s) {
    const cr_frontend *frontend = s->watched.n ? s->watched.at[0].frontend : NULL;
    uint64_t now = frontend ? __atomic_load_n(frontend->epoch, __ATOMIC_ACQUIRE) : 0;
    if (now == s->epoch) return -1;
    int32_t failed = check_tensors(s->watched.at, s->watched.n);
    if (failed < 0) s->epoch = now;
    return failed;
}

/* -1: all of it holds; CHANGED: a word did, and *which* slot's; else the row that failed. */
static int32_t check(cr_guards *g, PyObject *const *args, PyObject *function, PyObject **slots, uint16_t *which) {
    cr_stamps *s = g->stamps;
    for (size_t i = 0; i < s->pins.n; i++) {
        const pin *p = &s->pins.at[i];
        if ((p->index < 0 ? function : args[p->index]) != p->o) return *which = p->slot, CHANGED;
    }
    const word *w = s->words.at;
    for (size_t i = 0; i <= s->halves.n; i++) {
        const half *h = i < s->halves.n ? &s->halves.at[i] : NULL;
        for (const word *end = s->words.at + (h ? h->after : s->words.n); w < end; w++)
            if (*w->at != w->is) return *which = s->of_words.at[w - s->words.at], CHANGED;
        if (h && *h->at != h->is) return *which = s->of_halves.at[i], CHANGED;
    }
    for (const filled *f = s->filled.at, *end = f + s->filled.n; f < end; f++) slots[f->slot] = f->o;
    int32_t failed = check_watched(s);
    if (failed < 0) failed = check_tensors(s->tensors.at, s->tensors.n);
    if (failed >= 0) return failed;
    return cr_guards_check_some(g, s->steps.at, s->steps.n, args, function, slots);
}

/* What words let pass, by rows: a test looks whether they were right. */
static int32_t compare(cr_guards *g, PyObject *const *args, PyObject *function, PyObject **slots) {
    PyObject **own = PyMem_Malloc((g->slots + 1) * sizeof *own);
    if (!own) return -1;
    int32_t row = cr_guards_check(g, args, function, own);
    bool same = row < 0;
    for (size_t i = 0; same && i < g->stamps->filled.n; i++)
        same = own[g->stamps->filled.at[i].slot] == slots[g->stamps->filled.at[i].slot];
    if (!same) cr_capture_stale++;
    memcpy(slots, own, g->slots * sizeof *own);
    PyMem_Free(own);
    return row;
}

static void renew(cr_guards *g, PyObject *const *slots) {
    cr_stamps_free(g->stamps);
    if (!g->changes) g->changes = PyMem_Calloc(g->slots + 1, 1);
    g->stamps = g->changes ? make(g, slots) : NULL;
}

int32_t cr_guards_hold(cr_guards *g, PyObject *const *args, PyObject *function, PyObject **slots) {
    uint16_t which = 0;
    cr_stamp_mode mode = cr_capture_stamp_mode;
    bool had = g->stamps && mode != CR_STAMPS_OFF;
    if (had) {
        int32_t row = check(g, args, function, slots, &which);
        if (row == -1 && mode == CR_STAMPS_COMPARE) return compare(g, args, function, slots);
        if (row != CHANGED && mode != CR_STAMPS_LIE) return row;
    }
    int32_t row = cr_guards_check(g, args, function, slots);
    if (row >= 0 || mode == CR_STAMPS_OFF || !g->needed) return row;
    if (had) note_change(g, which, mode);
    if (had || ++g->passes == AFTER || (mode == CR_STAMPS_COMPARE && !g->stamps)) renew(g, slots);
    return row;
}

PyObject *cr_stamps_shown(const cr_guards *g) {
    const cr_stamps *s = g->stamps;
    if (!s) return PyTuple_New(0);
    return Py_BuildValue("(nnOO)", (Py_ssize_t)(s->words.n + s->halves.n + s->pins.n), (Py_ssize_t)s->steps.n,
                         versions.plain ? Py_True : Py_False, versions.split ? Py_True : Py_False);
}

/* ---- can versions be trusted? ---- */

typedef struct state { PyObject *dict; uint64_t version; bool split; } state;

static state state_of(PyObject *o) {
    PyObject *dict = PyDict_Check(o) ? o : cr_instance_dict(o);
    if (!dict) return (state){ NULL, 0, false };
    const PyDictObject *d = (PyDictObject *)dict;
    return (state){ dict, *cr_dict_version(d), d->ma_values != NULL };
}

/* changes: functions of the object, each of which changes what it holds, called again and again. */
static int probe_object(PyObject *o, PyObject *changes, bool *plain, bool *split) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(changes); i++) {
        state before = state_of(o);
        PyObject *done = PyObject_CallOneArg(PyTuple_GET_ITEM(changes, i), o);
        if (!done) return -1;
        Py_DECREF(done);
        state after = state_of(o);
        if (!before.dict || before.dict != after.dict || before.version != after.version) continue;
        *(before.split || after.split ? split : plain) = false;
    }
    return 0;
}

int cr_stamps_probe(void) {
    bool plain = true, split = true;
    if (versions.known) return 0;
    PyObject *module = PyImport_ImportModule("cresset._probe");
    PyObject *pairs = module ? PyObject_CallMethod(module, "subjects", NULL) : NULL;
    bool failed = !pairs || !PyList_Check(pairs);
    for (Py_ssize_t i = 0; !failed && i < PyList_GET_SIZE(pairs); i++) {
        PyObject *pair = PyList_GET_ITEM(pairs, i);
        failed = probe_object(PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 1), &plain, &split);
    }
    Py_XDECREF(pairs);
    Py_XDECREF(module);
    if (failed) return -1;
    versions.plain = plain, versions.split = split, versions.known = true;
    return 0;
}
