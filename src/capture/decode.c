/* decode.c: units of code to canonical instructions, once for each code object (in its extra slot: it goes with it). */
#include "capture/capture.h"
#include "capture/decode.h"

#include "base/base.h"

#include <string.h>

#if PY_VERSION_HEX < 0x030C0000
#include "capture/opcodes_311.h"
#define PyUnstable_Eval_RequestCodeExtraIndex _PyEval_RequestCodeExtraIndex /* their names from 3.12 on */
#define PyUnstable_Code_GetExtra _PyCode_GetExtra
#define PyUnstable_Code_SetExtra _PyCode_SetExtra
#elif PY_VERSION_HEX < 0x030D0000
#include "capture/opcodes_312.h"
#else
#include "capture/opcodes_313.h"
#endif

static Py_ssize_t extra_slot = -1; /* once */

static const char *const names[] = {
#define EVALUATED(name) [CR_I_##name] = #name,
#define PLAIN(name, reason) [CR_I_##name] = #name,
#include "capture/instructions.def"
#undef EVALUATED
#undef PLAIN
};
static const char *const reasons[] = {
#define EVALUATED(name) [CR_I_##name] = NULL,
#define PLAIN(name, reason) [CR_I_##name] = reason,
#include "capture/instructions.def"
#undef EVALUATED
#undef PLAIN
};

const char *cr_instruction_name(int id) { return names[id]; }
const char *cr_instruction_reason(int id) { return reasons[id]; }

/* By number; what is left makes type parameters. */
static const uint8_t intrinsics_1[] = { [1] = CR_I_PRINT_EXPR, CR_I_IMPORT_STAR, CR_I_STOPITERATION_ERROR,
                                        CR_I_ASYNC_GEN_WRAP, CR_I_UNARY_POSITIVE, CR_I_LIST_TO_TUPLE };
static const uint8_t intrinsics_2[] = { [1] = CR_I_PREP_RERAISE_STAR };

static cr_instruction canonical(const cr_opcode *o, int32_t arg) {
    size_t n = (size_t)arg;
    switch ((cr_form)o->form) {
    case CR_FORM_METHOD_BIT: return (cr_instruction){ .id = arg & 1 ? CR_I_LOAD_METHOD : o->id, .arg = arg >> 1 };
    case CR_FORM_COMPARISON_12: return (cr_instruction){ .id = o->id, .arg = arg >> 4 };
    case CR_FORM_COMPARISON_13: return (cr_instruction){ .id = o->id, .arg = arg >> 5 | (arg & CR_COMPARE_BOOL) };
    case CR_FORM_INTRINSIC_1:
        return (cr_instruction){ .id = n - 1 < CR_COUNT(intrinsics_1) - 1 ? intrinsics_1[n] : CR_I_TYPE_PARAMETER };
    case CR_FORM_INTRINSIC_2:
        return (cr_instruction){ .id = n - 1 < CR_COUNT(intrinsics_2) - 1 ? intrinsics_2[n] : CR_I_TYPE_PARAMETER };
    case CR_FORM_ONE: break;
    }
    return (cr_instruction){ .id = o->id, .arg = arg };
}

/* Fills `out` (room for one a unit) and, for each unit, the index of the instruction it belongs to. */
static int32_t split(const uint8_t *units, int32_t n, cr_instruction *out, int32_t *index_of) {
    int32_t count = 0, begin = -1, arg = 0, kwnames = -1;
    for (int32_t i = 0; i < n; i++) {
        const cr_opcode *o = &opcodes[units[2 * i]];
        if (begin < 0) begin = i;
        index_of[i] = count;
        arg |= units[2 * i + 1];
        switch ((cr_unit)o->unit) {
        case CR_UNIT_EXTENDED_ARG: arg <<= 8; continue;
        case CR_UNIT_KW_NAMES: kwnames = arg, arg = 0; continue;
        case CR_UNIT_PRECALL: arg = 0; continue;
        case CR_UNIT_CACHE: arg = 0; continue; /* of PRECALL: part of the call */
        case CR_UNIT_NONE: return -1;
        case CR_UNIT_OWN: break;
        }
        out[count] = canonical(o, arg);
        out[count].kwnames = kwnames, out[count].at = begin, out[count].own = i;
        count++;
        for (int k = 0; k < o->caches && i + 1 < n; k++) index_of[++i] = count - 1;
        begin = kwnames = -1;
        arg = 0;
    }
    return count;
}

/* Jumps count from behind the instruction and its caches. */
static int resolve_jumps(const uint8_t *units, int32_t n, cr_instruction *out, int32_t count, const int32_t *index_of) {
    for (int32_t i = 0; i < count; i++) {
        const cr_opcode *o = &opcodes[units[2 * out[i].own]];
        if (!o->jump) continue;
        int64_t to = (int64_t)out[i].own + 1 + o->caches + (int64_t)o->jump * out[i].arg;
        if (to < 0 || to >= n) return -1;
        out[i].arg = index_of[to] + o->behind;
        if (out[i].arg >= count) return -1;
    }
    return 0;
}

/* A number of the exception table: six bits a byte, the highest first; bit 6: more follow. */
static const uint8_t *read_number(const uint8_t *at, const uint8_t *end, int32_t *number) {
    int32_t n = 0;
    while (at < end) {
        n = n << 6 | (*at & 63);
        if (!(*at++ & 64)) break;
    }
    return *number = n, at;
}

/* Rows of the table: first unit, how many, target, depth * 2 + lasti. `out` NULL: counted. */
static int32_t read_ranges(PyObject *table, cr_handler_range *out, const int32_t *index_of, int32_t units) {
    const uint8_t *at = (const uint8_t *)PyBytes_AS_STRING(table), *end = at + PyBytes_GET_SIZE(table);
    int32_t count = 0;
    for (; at < end; count++) {
        int32_t first, n, to, depth;
        at = read_number(read_number(read_number(read_number(at, end, &first), end, &n), end, &to), end, &depth);
        if (to >= units) return -1;
        if (out) out[count] = (cr_handler_range){ first, first + n, index_of[to], depth >> 1, depth & 1 };
    }
    return count;
}

const cr_handler_range *cr_code_handler(const cr_code *code, int32_t unit) {
    for (int32_t i = 0; i < code->nranges; i++)
        if (code->ranges[i].first <= unit && unit < code->ranges[i].end) return &code->ranges[i];
    return NULL;
}

static cr_code *decode(PyCodeObject *code) {
    PyObject *bytes = PyCode_GetCode(code);
    if (!bytes) return NULL;
    const uint8_t *units = (const uint8_t *)PyBytes_AS_STRING(bytes);
    int32_t n = (int32_t)(PyBytes_GET_SIZE(bytes) / 2);
    int32_t nranges = read_ranges(code->co_exceptiontable, NULL, NULL, n);
    size_t room = (size_t)n * sizeof(cr_instruction);
    cr_code *c = PyMem_Calloc(1, sizeof *c + room + (size_t)CR_MAX(nranges, 0) * sizeof *c->ranges);
    int32_t *index_of = PyMem_Calloc((size_t)n + 1, sizeof *index_of);
    int32_t count = c && index_of ? split(units, n, c->at, index_of) : 0;
    bool known = count >= 0 && nranges >= 0 && c && index_of && !resolve_jumps(units, n, c->at, count, index_of);
    if (known) {
        c->ranges = (cr_handler_range *)((char *)c->at + room);
        c->nranges = read_ranges(code->co_exceptiontable, c->ranges, index_of, n);
    }
    if (!c || !index_of) PyErr_NoMemory();
    else if (!known) PyErr_Format(PyExc_SystemError, "%U has an instruction that is in no table", code->co_qualname);
    PyMem_Free(index_of);
    Py_DECREF(bytes);
    if (!known) return PyMem_Free(c), NULL;
    c->count = count;
    return c;
}

const cr_code *cr_code_get(PyCodeObject *code) {
    void *known = NULL;
    if (extra_slot < 0 && (extra_slot = PyUnstable_Eval_RequestCodeExtraIndex(PyMem_Free)) < 0) {
        PyErr_SetString(PyExc_RuntimeError, "CPython has no room left for what capture keeps with code objects");
        return NULL;
    }
    if (PyUnstable_Code_GetExtra((PyObject *)code, extra_slot, &known)) return NULL;
    if (known) return known;
    cr_code *made = decode(code);
    if (made && PyUnstable_Code_SetExtra((PyObject *)code, extra_slot, made)) return PyMem_Free(made), NULL;
    return made;
}

int cr_code_skip(PyCodeObject *code) {
    cr_code *known = (cr_code *)cr_code_get(code);
    if (known) known->skipped = true;
    return known ? 0 : -1;
}

Py_ssize_t cr_code_count(PyCodeObject *code, Py_ssize_t more) {
    void *known = NULL;
    if (extra_slot < 0 || PyUnstable_Code_GetExtra((PyObject *)code, extra_slot, &known)) PyErr_Clear();
    return known ? ((cr_code *)known)->entries += more : 0;
}

/* ---- for tests ---- */

static PyObject *instructions(PyObject *module, PyObject *code) {
    (void)module;
    if (!PyCode_Check(code)) return PyErr_Format(PyExc_TypeError, "expected a code object");
    const cr_code *c = cr_code_get((PyCodeObject *)code);
    PyObject *list = c ? PyList_New(c->count) : NULL;
    for (int32_t i = 0; list && i < c->count; i++) {
        const cr_instruction *at = &c->at[i];
        PyObject *row = Py_BuildValue("(siiii)", names[at->id], at->arg, at->kwnames, at->at, at->own);
        if (row) PyList_SET_ITEM(list, i, row);
        else Py_CLEAR(list);
    }
    return list;
}

static PyObject *table(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    PyObject *dict = PyDict_New();
    for (int i = 0; dict && i < CR_I_COUNT; i++) {
        PyObject *reason = reasons[i] ? PyUnicode_FromString(reasons[i]) : Py_NewRef(Py_None);
        if (!reason || PyDict_SetItemString(dict, names[i], reason)) Py_CLEAR(dict);
        Py_XDECREF(reason);
    }
    return dict;
}

static PyMethodDef functions[] = {
    { "_instructions", instructions, METH_O,
      "_instructions(code): [(name, argument, constant of keyword names, first unit, unit of the opcode)]." },
    { "_instruction_table", table, METH_NOARGS, "{canonical instruction: why capture ends before it, or None}." },
    { NULL, NULL, 0, NULL },
};

int cr_decode_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
