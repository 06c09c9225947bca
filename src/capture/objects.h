/* objects.h: looking into dicts and instances without running anybody's code.
 *
 * A slot remembers where a key was found last (keys object, index). As long as the dict has that keys object and the
 * entry still has the key, the value is one load away; else the dict is asked. Absence is always asked for. Dicts with
 * other keys than exact strings are not looked into: comparing keys could run user code. */
#ifndef CR_OBJECTS_H
#define CR_OBJECTS_H

#ifndef Py_BUILD_CORE
#error "objects.h: define Py_BUILD_CORE before the first include"
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "capture/guard.h"

#include <internal/pycore_dict.h>
#include <internal/pycore_object.h>

#include <stdbool.h>

typedef struct cr_place { const void *keys; Py_ssize_t index; } cr_place;

static inline bool cr_dict_has_plain_keys(PyObject *dict) { return DK_IS_UNICODE(((PyDictObject *)dict)->ma_keys); }

/* The number of a dict's state, never used twice; from 3.12 on nobody is meant to look (stamps.c finds out whether it
 * can be trusted). */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static inline const uint64_t *cr_dict_version(const PyDictObject *d) { return &d->ma_version_tag; }
#pragma GCC diagnostic pop

/* Remembers where `key` is among the entries; nothing when it is not. */
static inline void cr_place_set(cr_place *slot, PyDictKeysObject *keys, PyObject *key) {
    slot->keys = NULL;
    for (Py_ssize_t i = 0; i < keys->dk_nentries; i++)
        if (DK_UNICODE_ENTRIES(keys)[i].me_key == key) {
            *slot = (cr_place){ keys, i };
            return;
        }
}

static inline bool cr_place_holds(const cr_place *slot, PyDictKeysObject *keys, PyObject *key) {
    return slot->keys == keys && slot->index < keys->dk_nentries &&
           DK_UNICODE_ENTRIES(keys)[slot->index].me_key == key;
}

/* The value of an exact, interned string key; borrowed. NULL, without an exception: it has none, or other keys. */
static inline PyObject *cr_dict_peek(PyObject *dict, PyObject *key, cr_place *slot) {
    PyDictObject *d = (PyDictObject *)dict;
    PyDictKeysObject *keys = d->ma_keys;
    if (!DK_IS_UNICODE(keys)) return NULL;
    if (!cr_place_holds(slot, keys, key)) {
        PyObject *found = _PyDict_GetItem_KnownHash(dict, key, ((PyASCIIObject *)key)->hash);
        if (found) cr_place_set(slot, keys, key);
        return found;
    }
    return d->ma_values ? d->ma_values->values[slot->index] : DK_UNICODE_ENTRIES(keys)[slot->index].me_value;
}

/* What a weak reference refers to, None where that is gone. CPython 3.13 deprecates the macro that says so. */
static inline PyObject *cr_referent(PyObject *reference) {
    PyObject *o = ((PyWeakReference *)reference)->wr_object;
    return Py_REFCNT(o) > 0 ? o : Py_None;
}

/* A class's own attributes; borrowed. From 3.12 on those of classes in C belong to the interpreter. */
static inline PyObject *cr_type_dict(PyTypeObject *type) {
#if PY_VERSION_HEX < 0x030C0000
    return type->tp_dict;
#else
    PyObject *dict = PyType_GetDict(type);
    Py_XDECREF(dict);
    return dict;
#endif
}

/* The number that a class has until it or a base changes; 0: none. */
static inline unsigned cr_type_tag(const PyTypeObject *type) {
#if PY_VERSION_HEX < 0x030D0000
    return type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG ? type->tp_version_tag : 0;
#else
    return type->tp_version_tag;
#endif
}

/* property, staticmethod and classmethod objects begin with the function they are made of. Borrowed. */
static inline PyObject *cr_inner_function(PyObject *o) {
    return *(PyObject **)((char *)o + sizeof(PyObject));
}

/* ---- instances: in front of an object whose class says so lies its dict, or lie the values of one that nobody has
 * asked for yet; from 3.13 on values stay in use behind a dict, as long as they are valid ---- */

#if PY_VERSION_HEX < 0x030C0000
static inline PyObject *cr_managed_dict(PyObject *o) { return *_PyObject_ManagedDictPointer(o); }
static inline PyDictValues *cr_inline_values(PyObject *o) { return *_PyObject_ValuesPointer(o); }
#elif PY_VERSION_HEX < 0x030D0000
static inline PyObject *cr_managed_dict(PyObject *o) {
    PyDictOrValues either = *_PyObject_DictOrValuesPointer(o);
    return _PyDictOrValues_IsValues(either) ? NULL : _PyDictOrValues_GetDict(either);
}
static inline PyDictValues *cr_inline_values(PyObject *o) {
    PyDictOrValues either = *_PyObject_DictOrValuesPointer(o);
    return _PyDictOrValues_IsValues(either) ? _PyDictOrValues_GetValues(either) : NULL;
}
#else
static inline PyObject *cr_managed_dict(PyObject *o) { return (PyObject *)_PyObject_GetManagedDict(o); }
static inline PyDictValues *cr_inline_values(PyObject *o) {
    bool has = Py_TYPE(o)->tp_flags & Py_TPFLAGS_INLINE_VALUES;
    return has && _PyObject_InlineValues(o)->valid ? _PyObject_InlineValues(o) : NULL;
}
#endif

/* The dict of an instance that has one; NULL: its values are inline, or it has none. Borrowed. */
static inline PyObject *cr_instance_dict(PyObject *o) {
    PyTypeObject *type = Py_TYPE(o);
    if (type->tp_flags & Py_TPFLAGS_MANAGED_DICT) return cr_managed_dict(o);
    PyObject **at = type->tp_dictoffset ? _PyObject_GetDictPtr(o) : NULL;
    return at ? *at : NULL;
}

/* The same, made where there is none yet. */
static inline PyObject *cr_instance_dict_made(PyObject *o) {
    PyObject *dict = cr_instance_dict(o);
    if (dict || !(Py_TYPE(o)->tp_flags & Py_TPFLAGS_MANAGED_DICT)) return dict;
    if (!(dict = PyObject_GenericGetDict(o, NULL))) return PyErr_Clear(), NULL;
    Py_DECREF(dict); /* the instance holds it */
    return dict;
}

/* An instance's own attribute, of its __dict__ or of the values that stand for it; borrowed. *known false: it cannot be
 * told. */
static inline PyObject *cr_instance_peek(PyObject *o, PyObject *name, cr_place *slot, bool *known) {
    PyTypeObject *type = Py_TYPE(o);
    *known = true;
    PyDictValues *values = type->tp_flags & Py_TPFLAGS_MANAGED_DICT ? cr_inline_values(o) : NULL;
    if (values) {
        PyDictKeysObject *keys = ((PyHeapTypeObject *)type)->ht_cached_keys;
        if (!cr_place_holds(slot, keys, name)) cr_place_set(slot, keys, name);
        if (slot->keys) return values->values[slot->index];
        for (Py_ssize_t i = 0; i < keys->dk_nentries; i++) /* the same text in another object: not interned */
            if (DK_UNICODE_ENTRIES(keys)[i].me_key && cr_texts_equal(DK_UNICODE_ENTRIES(keys)[i].me_key, name))
                return values->values[i];
        return NULL;
    }
    PyObject *dict = cr_instance_dict(o);
    if (!dict) return NULL;
    *known = PyDict_Check(dict) && cr_dict_has_plain_keys(dict);
    return *known ? cr_dict_peek(dict, name, slot) : NULL;
}

#endif
