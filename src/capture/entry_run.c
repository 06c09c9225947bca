/* entry_run.c: running entries: the graph's code, then the objects of the result, then the effects.
 *
 * Changes to objects from outside are written when everything else has succeeded: a graph that fails leaves nothing
 * behind, and the call runs plain. From the first write on nothing is run again: what fails then is raised. */
#include "capture/entry.h"

#include "python/py.h"
#include "runtime/rt_random.h"

enum { GIL_WORK = 8192, SMALL = 64 };

static int no_memory(void) { return PyErr_NoMemory(), -1; }

/* ---- code ---- */

/* Tensors whose memory is shared, or not, as it was; then the graph without its writes. 1: it has no such form. */
static int build_ahead(cr_entry *e, PyObject *const *slots, cr_tier_ways ways) {
    cr_py_frame frame;
    cr_arg *inputs = PyMem_Calloc(e->ninputs + 1, sizeof *inputs);
    cr_status status = CR_OK;
    int failed = inputs ? 0 : no_memory();
    cr_py_frame_init(&frame);
    for (uint32_t i = 0; !failed && i < e->ninputs; i++)
        failed = cr_py_convert(&frame, slots[e->inputs[i]], &inputs[i]);
    if (!failed) failed = cr_guard_sharing(&e->guards, e->inputs, e->ninputs, slots);
    if (!failed) status = cr_ahead_create(e->graph, inputs, e->ninputs, e->records, ways, &e->ahead);
    cr_py_frame_dispose(&frame);
    PyMem_Free(inputs);
    return status == CR_ENOMEM ? no_memory() : status ? 1 : failed;
}

/* A library with foreign tensors runs the graph itself. */
static int build_foreign(cr_entry *e, PyObject *const *slots, cr_tier_ways ways) {
    PyObject *examples = PyTuple_New(e->ninputs), *weights = cr_entry_weights(e);
    for (uint32_t i = 0; examples && i < e->ninputs; i++)
        PyTuple_SET_ITEM(examples, i, Py_NewRef(slots[e->inputs[i]]));
    PyObject *halves = examples && weights ? e->frontend->build(e->graph, examples, weights, e->records, ways) : NULL;
    Py_XDECREF(examples);
    Py_XDECREF(weights);
    e->own = true;
    if (!halves) return cr_entry_refuse(e);
    int failed = !PyArg_ParseTuple(halves, "OO", &e->compiled, &e->finish);
    Py_XINCREF(e->compiled);
    e->finish = e->finish == Py_None ? NULL : Py_XNewRef(e->finish);
    Py_DECREF(halves);
    return failed ? -1 : 0;
}

int cr_entry_refuse(cr_entry *e) {
    if (!PyErr_ExceptionMatches(PyExc_NotImplementedError)) return -1;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *why = PyObject_Str(value);
    Py_XDECREF(type), Py_XDECREF(value), Py_XDECREF(traceback);
    if (!why) return -1;
    Py_XSETREF(e->reason, why);
    e->resumes = false;
    return 0;
}

int cr_entry_build(cr_entry *e, PyObject *const *slots, cr_tier_ways ways) {
    if (!e->graph) return 0;
    if (ways & CR_TIER_FREEZE && cr_entry_freeze(e, slots)) return -1;
    if (e->frontend->build) return build_foreign(e, slots, ways);
    if (e->writes || (ways && (e->records || e->shares))) {
        int failed = build_ahead(e, slots, ways);
        if (failed <= 0 || !e->writes) return failed < 0 ? -1 : 0; /* as recorded, by the interpreter */
        e->resumes = false;
        PyObject *why = PyUnicode_FromFormat("what the call writes has no functional form: %s", cr_error_message());
        if (!why) return -1;
        Py_XSETREF(e->reason, why);
        return 0;
    }
    if (!ways || e->draws) return 0;
    if (e->weights) return cr_entry_start_frozen(e, slots, ways);
    cr_status status = cr_tier_start(e->graph, ways, &e->tier);
    return status ? cr_py_fail(status) : 0;
}

uint8_t *cr_entry_needed(const cr_entry *e) {
    uint8_t *needed = PyMem_Calloc(e->guards.slots + 1, 1);
    if (!needed) return NULL;
    for (uint32_t i = 0; i < e->ninputs; i++) needed[e->inputs[i]] = 1;
    for (size_t i = 0; i < e->effects.n; i++) needed[e->effects.at[i].slot] = needed[e->effects.at[i].by] = 1;
    for (size_t i = 0; i < e->makes.n; i++)
        if (e->makes.at[i].kind == CR_MAKE_SLOT) needed[e->makes.at[i].index] = 1;
    return needed;
}

const char *cr_entry_tier(const cr_entry *e) {
    const cr_tier *tier = e->tier ? e->tier : e->ahead ? cr_ahead_tier(e->ahead) : NULL;
    if (tier) return cr_tier_state(tier);
    if (e->graph && e->frontend->build) return e->frontend->name;
    return !e->graph ? NULL : e->draws ? "the graph draws random numbers" : "interpreted";
}

void cr_entry_wait(cr_entry *e) {
    cr_tier *tier = e->tier ? e->tier : e->ahead ? cr_ahead_tier(e->ahead) : NULL;
    if (!tier) return;
    cr_tier_retain(tier); /* a call of another thread may put another in its place */
    Py_BEGIN_ALLOW_THREADS;
    cr_tier_wait(tier);
    Py_END_ALLOW_THREADS;
    cr_tier_release(tier);
}

/* ---- running ---- */

/* An empty object of a class written in Python, without calling any of its code. */
static PyObject *empty_object(PyTypeObject *type, PyObject *items) {
    PyTypeObject *base = cr_class_in_c(type);
    bool raises = PyExceptionClass_Check((PyObject *)base);
    PyObject *args = raises ? Py_NewRef(items) : items ? PyTuple_Pack(1, items) : PyTuple_New(0);
    PyObject *o = args ? base->tp_new(type, args, NULL) : NULL;
    if (o && raises && base->tp_init(o, args, NULL)) Py_CLEAR(o);
    Py_XDECREF(args);
    return o;
}

static int fill(PyObject *o, PyObject *items) {
    if (PyODict_Check(o)) { /* its order is its own */
        PyObject *key, *value;
        for (Py_ssize_t at = 0; PyDict_Next(items, &at, &key, &value);)
            if (PyODict_SetItem(o, key, value)) return -1;
        return 0;
    }
    if (PyDict_Check(o)) return PyDict_Update(o, items);
    if (PyList_Check(o)) return PyList_SetSlice(o, 0, 0, items);
    PyObject *iterator = PyObject_GetIter(items), *item;
    int failed = iterator ? 0 : -1;
    while (!failed && (item = PyIter_Next(iterator))) {
        failed = PySet_Add(o, item);
        Py_DECREF(item);
    }
    Py_XDECREF(iterator);
    return failed || PyErr_Occurred() ? -1 : 0;
}

static PyObject *function(const cr_make *row, const uint32_t *parts, PyObject *const *objects) {
    PyObject *annotations = PyTuple_GET_ITEM(row->object, 1);
    PyObject *o = PyFunction_New(PyTuple_GET_ITEM(row->object, 0), objects[parts[0]]);
    PyObject *closure = row->n > 1 ? PyTuple_New(row->n - 1) : NULL;
    for (uint32_t i = 1; closure && i < row->n; i++) PyTuple_SET_ITEM(closure, i - 1, Py_NewRef(objects[parts[i]]));
    bool failed = !o || (row->n > 1 && !closure);
    if (!failed) ((PyFunctionObject *)o)->func_closure = Py_XNewRef(closure);
    if (!failed && annotations != Py_None) ((PyFunctionObject *)o)->func_annotations = Py_NewRef(annotations);
    Py_XDECREF(closure);
    if (failed) Py_CLEAR(o);
    return o;
}

static PyObject *iterator(const cr_make *row, const uint32_t *parts, PyObject *const *objects) {
    PyObject *args = PyTuple_New(row->n - 1), *state = objects[parts[row->n - 1]], *done;
    for (uint32_t i = 0; args && i + 1 < row->n; i++) PyTuple_SET_ITEM(args, i, Py_NewRef(objects[parts[i]]));
    PyObject *o = args ? PyObject_CallObject(row->object, args) : NULL;
    Py_XDECREF(args);
    if (!o || state == Py_None) return o;
    if (!(done = PyObject_CallMethod(o, "__setstate__", "O", state))) Py_CLEAR(o);
    Py_XDECREF(done);
    return o;
}

/* Of a dict, so many items on. */
static PyObject *dict_iterator(const cr_make *row, PyObject *dict) {
    PyObject *view = PyObject_CallMethodNoArgs(dict, PyTuple_GET_ITEM(row->object, 0));
    PyObject *o = view ? PyObject_GetIter(view) : NULL;
    Py_XDECREF(view);
    for (Py_ssize_t n = o ? PyLong_AsSsize_t(PyTuple_GET_ITEM(row->object, 1)) : 0; n > 0; n--)
        Py_XDECREF(PyIter_Next(o));
    return o;
}

static PyObject *container(const cr_entry *e, const cr_make *row, PyObject *const *objects) {
    const uint32_t *parts = e->parts.at + row->index;
    PyObject *o = NULL;
    switch ((cr_make_kind)row->kind) {
    case CR_MAKE_TUPLE:
        o = PyTuple_New(row->n);
        for (uint32_t i = 0; o && i < row->n; i++) PyTuple_SET_ITEM(o, i, Py_NewRef(objects[parts[i]]));
        return o;
    case CR_MAKE_LIST:
        o = PyList_New(row->n);
        for (uint32_t i = 0; o && i < row->n; i++) PyList_SET_ITEM(o, i, Py_NewRef(objects[parts[i]]));
        return o;
    case CR_MAKE_DICT:
        o = PyDict_New();
        for (uint32_t i = 0; o && i < row->n; i += 2)
            if (PyDict_SetItem(o, objects[parts[i]], objects[parts[i + 1]])) Py_CLEAR(o);
        return o;
    case CR_MAKE_CELL: return PyCell_New(NULL);
    case CR_MAKE_FILL: return PyCell_Set(objects[parts[0]], objects[parts[1]]) ? NULL : Py_NewRef(Py_None);
    case CR_MAKE_CALL: return PyObject_CallFunctionObjArgs(objects[parts[0]], objects[parts[1]],
                                                           row->n == 3 ? objects[parts[2]] : NULL, NULL);
    case CR_MAKE_FUNCTION: return function(row, parts, objects);
    case CR_MAKE_NAMESPACE: return PyObject_GenericGetDict(objects[parts[0]], NULL);
    case CR_MAKE_METHOD: return PyMethod_New(objects[parts[0]], objects[parts[1]]);
    case CR_MAKE_BOUND: return PyObject_GetAttr(objects[parts[0]], row->object);
    case CR_MAKE_ITERATOR: return iterator(row, parts, objects);
    case CR_MAKE_DICT_ITERATOR: return dict_iterator(row, objects[parts[0]]);
    case CR_MAKE_SLICE: return PySlice_New(objects[parts[0]], objects[parts[1]], objects[parts[2]]);
    case CR_MAKE_OBJECT:
        return empty_object((PyTypeObject *)objects[parts[0]], row->n == 2 ? objects[parts[1]] : NULL);
    case CR_MAKE_ITEMS: return fill(objects[parts[0]], objects[parts[1]]) ? NULL : Py_NewRef(Py_None);
    case CR_MAKE_ATTRIBUTE:
        return PyObject_GenericSetAttr(objects[parts[0]], row->object, objects[parts[1]]) ? NULL : Py_NewRef(Py_None);
    default: return NULL;
    }
}

static int set_part(const cr_effect *effect, PyObject *to, PyObject *made, PyObject *by) {
    if (effect->read == CR_READ_LOOKUP) return PyDict_SetItem(to, by, made);
    if (effect->read == CR_READ_PART) return PyObject_SetAttr(to, effect->key, made);
    if (effect->read == CR_READ_CONTENTS) return PyCell_Set(to, made);
    if (effect->read == CR_READ_CALLED) {
        PyObject *result = PyObject_Call(to, made, NULL);
        Py_XDECREF(result);
        return result ? 0 : -1;
    }
    if (effect->read == CR_READ_KEY && !made) return PyDict_DelItem(to, effect->key);
    if (effect->read == CR_READ_KEY) return PyDict_SetItem(to, effect->key, made);
    return PyObject_GenericSetAttr(to, effect->key, made);
}

/* Do those of the keys that stay come first in `made`, in their order? */
static bool keeps_order(PyObject *keys, PyObject *made) {
    Py_ssize_t p = 0;
    PyObject *next;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(keys); i++) {
        PyObject *key = PyList_GET_ITEM(keys, i);
        if (PyDict_Contains(made, key) != 1) continue;
        if (!PyDict_Next(made, &p, &next, NULL) || !cr_constants_equal(key, next)) return false;
    }
    return true;
}

/* Takes what is not in `made` out of the dict. Where dicts share their keys, items at the end go as popitem() takes
 * them: the dict has keys of its own from then on. */
static int remove_items(PyObject *to, PyObject *keys, PyObject *made) {
    bool last = ((PyDictObject *)to)->ma_values != NULL;
    for (Py_ssize_t i = PyList_GET_SIZE(keys); i-- > 0;) {
        PyObject *key = PyList_GET_ITEM(keys, i), *item;
        if (PyDict_Contains(made, key)) last = false;
        else if (!last && PyDict_DelItem(to, key)) return -1;
        else if (last && !(item = PyObject_CallMethod(to, "popitem", NULL))) return -1;
        else if (last) Py_DECREF(item);
    }
    return 0;
}

/* A dict's final items, by as little as does it: whoever goes through it meanwhile goes on where he is. */
static int set_items(PyObject *to, PyObject *made) {
    PyObject *keys = PyDict_Keys(to), *key, *value;
    int failed = !keys;
    if (keys && !keeps_order(keys, made)) PyDict_Clear(to);
    else if (keys) failed = remove_items(to, keys, made);
    for (Py_ssize_t p = 0; !failed && PyDict_Next(made, &p, &key, &value);)
        if (PyDict_GetItemWithError(to, key) != value) failed = PyErr_Occurred() || PyDict_SetItem(to, key, value);
    Py_XDECREF(keys);
    return failed ? -1 : 0;
}

/* What is gone is taken out, what is new comes in: what stays, stays where it is. */
static int set_members(PyObject *to, PyObject *made) {
    PyObject *gone = PyNumber_Subtract(to, made), *kept = gone ? PyNumber_InPlaceSubtract(to, gone) : NULL;
    PyObject *all = kept ? PyNumber_InPlaceOr(to, made) : NULL;
    Py_XDECREF(gone);
    Py_XDECREF(kept);
    Py_XDECREF(all);
    return all ? 0 : -1;
}

static int set_contents(PyObject *to, PyObject *made) {
    if (PySet_CheckExact(to)) return set_members(to, made);
    if (PyList_Check(to)) return PyList_SetSlice(to, 0, PY_SSIZE_T_MAX, made);
    if (PyODict_CheckExact(to)) { /* its methods keep its order */
        PyObject *cleared = PyObject_CallMethod(to, "clear", NULL);
        PyObject *updated = cleared ? PyObject_CallMethod(to, "update", "O", made) : NULL;
        Py_XDECREF(cleared);
        Py_XDECREF(updated);
        return updated ? 0 : -1;
    }
    return set_items(to, made);
}

/* What a change replaces. New reference; None: nothing. */
static PyObject *replaced(const cr_effect *effect, PyObject *to, PyObject *by) {
    if (effect->read == CR_READ_PART) return PyObject_GetAttr(to, effect->key);
    if (effect->read == CR_READ_LOOKUP) {
        PyObject *held = PyDict_GetItemWithError(to, by);
        return held || !PyErr_Occurred() ? Py_NewRef(held ? held : Py_None) : NULL;
    }
    if (effect->read == CR_READ_NONE)
        return PyList_Check(to)        ? PyList_GetSlice(to, 0, PY_SSIZE_T_MAX)
               : PySet_CheckExact(to) ? PySet_New(to)
                                      : PyDict_Copy(to);
    PyObject *before = cr_read_now((cr_read)effect->read, to, effect->key, 0);
    return Py_NewRef(before ? before : Py_None);
}

/* A call of (callable, arguments ...). */
static int tell(const cr_effect *effect, PyObject *call) {
    PyObject **items = PySequence_Fast_ITEMS(call);
    Py_ssize_t nkw = effect->key ? PyTuple_GET_SIZE(effect->key) : 0, n = PyTuple_GET_SIZE(call) - 1 - nkw;
    PyObject *result = PyObject_Vectorcall(items[0], items + 1, (size_t)n, effect->key);
    Py_XDECREF(result);
    return result ? 0 : -1;
}

/* Final states are stored first; what they replace goes afterwards. */
static int apply_effects(const cr_entry *e, PyObject *const *slots, PyObject *const *objects) {
    PyObject *old = PyList_New(0);
    int failed = !old;
    for (size_t i = 0; !failed && i < e->effects.n; i++) {
        const cr_effect *effect = &e->effects.at[i];
        if (effect->read == CR_READ_TOLD) {
            failed = tell(effect, objects[effect->made]);
            continue;
        }
        PyObject *to = slots[effect->slot], *by = slots[effect->by], *before = replaced(effect, to, by);
        PyObject *made = effect->made == CR_NO_ROW ? NULL : objects[effect->made];
        failed = !before || PyList_Append(old, before);
        Py_XDECREF(before);
        if (!failed) failed = effect->read == CR_READ_NONE ? set_contents(to, made) : set_part(effect, to, made, by);
    }
    Py_XDECREF(old);
    return failed ? -1 : 0;
}

typedef struct run {
    cr_entry *e;
    PyObject *const *slots;
    PyObject **objects; /* of the makes */
    cr_arg *inputs, *outputs;
    uint8_t *generator;
    cr_tier *tier;      /* held while it runs; NULL: none, or its weights are no more what it was made with */
    bool wrote;         /* it began to write: nothing is run again */
} run;

static cr_status run_code(run *r) {
    const cr_entry *e = r->e;
    if (e->ahead) return cr_ahead_run(e->ahead, r->inputs, e->ninputs, r->outputs, &r->wrote);
    return cr_tier_run(r->tier, e->graph, e->plan, r->inputs, e->ninputs, r->outputs, e->noutputs);
}

/* Other threads may let go of inputs while this one is without the GIL, and the tape runs Python code; the interpreter
 * of graphs holds its inputs itself. */
static cr_status run_plan(run *r, int64_t work) {
    bool leaves = work >= GIL_WORK && !r->e->effects.n, holds = leaves || r->e->ahead;
    for (uint32_t i = 0; holds && i < r->e->ninputs; i++)
        if (r->inputs[i].kind == CR_ARG_TENSOR) cr_tensor_retain(r->inputs[i].u.t);
    PyThreadState *thread = leaves ? PyEval_SaveThread() : NULL;
    cr_status status = run_code(r);
    if (leaves) PyEval_RestoreThread(thread);
    for (uint32_t i = 0; holds && i < r->e->ninputs; i++)
        if (r->inputs[i].kind == CR_ARG_TENSOR) cr_tensor_release(r->inputs[i].u.t);
    return status;
}

static void put_generator_back(const run *r) {
    char message[256] = "";
    rt_ctx ctx = cr_kernel_ctx(message, sizeof message);
    (void)rt_generator_set_state(&ctx, cr_default_generator(), r->generator, RT_GENERATOR_STATE_BYTES);
}

/* What the backend made of the graph, called with the inputs' objects. 1: *outputs are there; 0: the front end's own
 * code failed and nothing has happened. args[0] is for what the first half gives. */
static int call_compiled(const cr_entry *e, PyObject **args, PyObject **given) {
    *given = PyObject_Vectorcall(e->compiled, args + 1, e->ninputs | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    if (!*given) return e->own && e->frontend->is_failure() > 0 ? 0 : -1;
    if (!e->finish) return 1;
    args[0] = *given;
    *given = PyObject_Vectorcall(e->finish, args, e->ninputs + (size_t)1, NULL);
    Py_DECREF(args[0]);
    return *given ? 1 : -1;
}

static int run_compiled(run *r, PyObject **outputs) {
    cr_entry *e = r->e;
    PyObject *few[SMALL + 1], *given;
    PyObject **args = e->ninputs > SMALL ? PyMem_Malloc((e->ninputs + (size_t)1) * sizeof *args) : few;
    if (!args) return no_memory();
    for (uint32_t i = 0; i < e->ninputs; i++) args[i + 1] = Py_NewRef(r->slots[e->inputs[i]]);
    int done = call_compiled(e, args, &given);
    for (uint32_t i = 0; i < e->ninputs; i++) Py_DECREF(args[i + 1]);
    if (args != few) PyMem_Free(args);
    if (done < 1) return done;
    *outputs = PyTuple_Check(given) || PyList_Check(given) ? Py_NewRef(given) : PyTuple_Pack(1, given);
    Py_DECREF(given);
    if (!*outputs) return -1;
    if (PySequence_Fast_GET_SIZE(*outputs) == e->noutputs) return 1;
    PyErr_Format(PyExc_RuntimeError, "the backend's function returned %zd values; the graph has %u outputs",
                 PySequence_Fast_GET_SIZE(*outputs), e->noutputs);
    Py_CLEAR(*outputs);
    return -1;
}

/* 1: done; 0: failed, run plain; -1: exception. */
static int run_graph(run *r, PyObject **outputs) {
    cr_entry *e = r->e;
    cr_py_frame frame;
    int done = 1;
    *outputs = NULL;
    if (e->compiled) return run_compiled(r, outputs);
    cr_py_frame_init(&frame);
    for (uint32_t i = 0; done == 1 && i < e->ninputs; i++)
        if (cr_py_convert(&frame, r->slots[e->inputs[i]], &r->inputs[i])) PyErr_Clear(), done = 0;
    if (done && e->draws) {
        if (!(r->generator = PyMem_Malloc(RT_GENERATOR_STATE_BYTES))) done = no_memory();
        else rt_generator_get_state(cr_default_generator(), r->generator);
    }
    if (done == 1 && e->tier && cr_entry_find_tier(e, r->inputs, &r->tier)) PyErr_Clear(), done = 0;
    if (done == 1) {
        cr_status status = run_plan(r, frame.work);
        cr_tier_release(r->tier);
        if (status == CR_EPYTHON && PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception)) done = -1;
        else if (status && r->wrote) done = cr_py_fail(status);
        else if (status) PyErr_Clear(), done = 0;
        if (status && e->draws && !r->wrote) put_generator_back(r);
    }
    PyMem_Free(r->generator);
    cr_py_frame_dispose(&frame);
    return done;
}

/* What the graph computed from data. */
static PyObject *number(const cr_arg *a) {
    switch ((cr_arg_kind)a->kind) {
    case CR_ARG_INT: return PyLong_FromLongLong(a->u.i);
    case CR_ARG_FLOAT: return PyFloat_FromDouble(a->u.f);
    case CR_ARG_BOOL: return PyBool_FromLong(a->u.i != 0);
    default: return PyErr_Format(PyExc_RuntimeError, "the graph gives something that is no number");
    }
}

static int make_objects(run *r, PyObject *outputs) {
    cr_entry *e = r->e;
    int failed = 0;
    for (size_t i = 0; i < e->makes.n; i++) {
        const cr_make *row = &e->makes.at[i];
        if (row->kind == CR_MAKE_SLOT || row->kind == CR_MAKE_NUMBER) continue; /* there since before the graph ran */
        if (row->kind == CR_MAKE_CONSTANT) r->objects[i] = Py_NewRef(row->object);
        else if (row->kind != CR_MAKE_OUTPUT) r->objects[i] = failed ? NULL : container(e, row, r->objects);
        else if (outputs) r->objects[i] = Py_NewRef(PySequence_Fast_GET_ITEM(outputs, row->index));
        else if (r->outputs[row->index].kind != CR_ARG_TENSOR) r->objects[i] = number(&r->outputs[row->index]);
        else {
            cr_arg *made = &r->outputs[row->index];
            cr_tensor *t = made->u.t;
            if (e->makes.n == 1) *made = cr_arg_none(); /* nobody else gets it */
            else cr_tensor_retain(t);
            r->objects[i] = cr_frontend_wrap(t);
        }
        failed |= !r->objects[i];
    }
    return failed ? -1 : 0;
}

/* Numbers of the result, from those of the call. 1: done; 0: one cannot be computed in 64 bits: run plain; -1. */
__attribute__((noinline)) static int make_numbers(const run *r) {
    const cr_entry *e = r->e;
    const cr_numbers *n = cr_guards_numbers(&e->guards);
    cr_sym_value small[SMALL], *values = n->symbols.n > SMALL ? PyMem_Malloc(n->symbols.n * sizeof *values) : small;
    if (!values) return no_memory();
    cr_numbers_load(n, r->slots, values);
    int done = 1;
    for (size_t i = 0; done == 1 && i < e->makes.n; i++) {
        if (e->makes.at[i].kind != CR_MAKE_NUMBER) continue;
        r->objects[i] = cr_numbers_object(n, values, e->formulas.at[e->makes.at[i].index]);
        if (!r->objects[i]) done = PyErr_Occurred() ? -1 : 0;
    }
    if (values != small) PyMem_Free(values);
    return done;
}

/* Nobody else may, while the graph runs. */
static void hold_slots(const cr_effect *effect, PyObject *const *slots, bool hold) {
    PyObject *of[] = { slots[effect->slot], effect->read == CR_READ_LOOKUP ? slots[effect->by] : NULL };
    for (size_t i = 0; i < CR_COUNT(of); i++)
        if (hold) Py_XINCREF(of[i]);
        else Py_XDECREF(of[i]);
}

int cr_entry_run(cr_entry *e, PyObject *const *slots, PyObject **result, PyObject **state) {
    PyObject *small_objects[SMALL], *outputs = NULL;
    cr_arg small_args[SMALL];
    size_t nargs = (size_t)e->ninputs + e->noutputs, nmakes = e->makes.n;
    run r = { .e = e, .slots = slots, .objects = small_objects, .inputs = small_args };
    if (nmakes > SMALL) r.objects = PyMem_Malloc(nmakes * sizeof *r.objects);
    if (nargs > SMALL) r.inputs = PyMem_Malloc(nargs * sizeof *r.inputs);
    if (!r.objects || !r.inputs) {
        if (r.objects != small_objects) PyMem_Free(r.objects);
        return no_memory();
    }
    r.outputs = r.inputs + e->ninputs;
    for (size_t i = 0; i < nmakes; i++)
        r.objects[i] = e->makes.at[i].kind == CR_MAKE_SLOT ? Py_NewRef(slots[e->makes.at[i].index]) : NULL;
    for (size_t i = 0; i < e->effects.n; i++) hold_slots(&e->effects.at[i], slots, true);
    int done = e->formulas.n ? make_numbers(&r) : 1;
    if (done == 1 && e->graph) done = run_graph(&r, &outputs);
    if (done == 1) {
        if (make_objects(&r, outputs) || (e->effects.n && apply_effects(e, slots, r.objects))) done = -1;
        if (e->graph && !e->compiled) cr_results_release(r.outputs, e->noutputs);
    }
    *result = done == 1 && !e->resumes ? Py_NewRef(r.objects[e->result]) : NULL;
    if (done == 1 && e->resumes && e->grad != !!(e->ambient & CR_AMBIENT_GRAD))
        e->frontend->set_ambient(e->grad ? e->ambient | CR_AMBIENT_GRAD : e->ambient & ~(uint64_t)CR_AMBIENT_GRAD);
    for (size_t i = 0; done == 1 && i < e->state.n; i++)
        state[i] = e->state.at[i] == CR_NO_ROW ? NULL : Py_NewRef(r.objects[e->state.at[i]]);
    for (size_t i = 0; i < nmakes; i++) Py_XDECREF(r.objects[i]);
    for (size_t i = 0; i < e->effects.n; i++) hold_slots(&e->effects.at[i], slots, false);
    Py_XDECREF(outputs);
    if (r.objects != small_objects) PyMem_Free(r.objects);
    if (r.inputs != small_args) PyMem_Free(r.inputs);
    return done;
}
