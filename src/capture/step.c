/* step.c: one instruction of a frame, carried out here exactly as CPython's evaluator does, so that what comes behind
 * it can be captured again.
 *
 * Only instructions at which captures end in practice are here, and only the ways through them that have no error texts
 * or rules of their own: everything else is CPython's (CR_STEP_NOT), before anything was done. What a step raises is
 * set, and the caller enters the frame by raising it at this very instruction: tracebacks and handlers are CPython's.
 */
#define Py_BUILD_CORE 1
#include "capture/hook.h"

#include "capture/decode.h"
#include "capture/suspended.h"
#include "base/base.h"

#include <internal/pycore_object.h>

typedef struct stepping {
    PyThreadState *thread;
    cr_frame *frame;
    PyCodeObject *code;
    const cr_instruction *i;
    int32_t next;  /* where it goes on */
    PyObject **sp; /* behind the top of the stack */
    cr_step_call call;
    void *user;
} stepping;
/* true: done, false: an exception is set. Operands have been taken off the stack either way. */
typedef bool (*step_fn)(stepping *s);

static PyObject *pop(stepping *s) { return *--s->sp; }
static PyObject *top(const stepping *s, int depth) { return s->sp[-depth]; }
static bool push(stepping *s, PyObject *o) {
    if (o) *s->sp++ = o;
    return o;
}
static PyObject *name_of(const stepping *s) { return PyTuple_GET_ITEM(s->code->co_names, s->i->arg); }

/* ---- operators ---- */

static bool unary(stepping *s, unaryfunc function) {
    PyObject *value = pop(s), *result = function(value);
    Py_DECREF(value);
    return push(s, result);
}
static bool step_UNARY_NEGATIVE(stepping *s) { return unary(s, PyNumber_Negative); }
static bool step_UNARY_POSITIVE(stepping *s) { return unary(s, PyNumber_Positive); }
static bool step_UNARY_INVERT(stepping *s) { return unary(s, PyNumber_Invert); }
static bool step_GET_ITER(stepping *s) { return unary(s, PyObject_GetIter); }

static bool step_UNARY_NOT(stepping *s) {
    PyObject *value = pop(s);
    int truth = PyObject_IsTrue(value);
    Py_DECREF(value);
    return truth >= 0 && push(s, PyBool_FromLong(!truth));
}

static PyObject *power(PyObject *a, PyObject *b) { return PyNumber_Power(a, b, Py_None); }
static PyObject *inplace_power(PyObject *a, PyObject *b) { return PyNumber_InPlacePower(a, b, Py_None); }
static binaryfunc const operators[] = {
    /* the order of CPython's NB_* */
    PyNumber_Add,
    PyNumber_And,
    PyNumber_FloorDivide,
    PyNumber_Lshift,
    PyNumber_MatrixMultiply,
    PyNumber_Multiply,
    PyNumber_Remainder,
    PyNumber_Or,
    power,
    PyNumber_Rshift,
    PyNumber_Subtract,
    PyNumber_TrueDivide,
    PyNumber_Xor,
    PyNumber_InPlaceAdd,
    PyNumber_InPlaceAnd,
    PyNumber_InPlaceFloorDivide,
    PyNumber_InPlaceLshift,
    PyNumber_InPlaceMatrixMultiply,
    PyNumber_InPlaceMultiply,
    PyNumber_InPlaceRemainder,
    PyNumber_InPlaceOr,
    inplace_power,
    PyNumber_InPlaceRshift,
    PyNumber_InPlaceSubtract,
    PyNumber_InPlaceTrueDivide,
    PyNumber_InPlaceXor,
};

static bool binary(stepping *s, binaryfunc function) {
    PyObject *b = pop(s), *a = pop(s), *result = function(a, b);
    Py_DECREF(a);
    Py_DECREF(b);
    return push(s, result);
}
static bool step_BINARY_OP(stepping *s) { return binary(s, operators[s->i->arg]); }
static bool step_BINARY_SUBSCR(stepping *s) { return binary(s, PyObject_GetItem); }

/* The truth of a value, as a bool; NULL: exception. Takes it over. */
static PyObject *truth_of(PyObject *value) {
    int truth = value ? PyObject_IsTrue(value) : -1;
    Py_XDECREF(value);
    return truth < 0 ? NULL : PyBool_FromLong(truth);
}
static bool step_TO_BOOL(stepping *s) { return push(s, truth_of(pop(s))); }

static bool step_COMPARE_OP(stepping *s) {
    PyObject *b = pop(s), *a = pop(s), *result = PyObject_RichCompare(a, b, s->i->arg & ~CR_COMPARE_BOOL);
    Py_DECREF(a);
    Py_DECREF(b);
    return push(s, s->i->arg & CR_COMPARE_BOOL ? truth_of(result) : result);
}

static PyObject *slice(PyObject *start, PyObject *stop) {
    PyObject *made = PySlice_New(start, stop, NULL);
    Py_DECREF(start);
    Py_DECREF(stop);
    return made;
}

static bool step_BINARY_SLICE(stepping *s) {
    PyObject *stop = pop(s), *key = slice(pop(s), stop), *container = pop(s);
    PyObject *result = key ? PyObject_GetItem(container, key) : NULL;
    Py_DECREF(container);
    Py_XDECREF(key);
    return push(s, result);
}

static bool step_STORE_SLICE(stepping *s) {
    PyObject *stop = pop(s), *key = slice(pop(s), stop), *container = pop(s), *value = pop(s);
    int failed = key ? PyObject_SetItem(container, key, value) : -1;
    Py_XDECREF(key);
    Py_DECREF(value);
    Py_DECREF(container);
    return !failed;
}

static bool step_CONTAINS_OP(stepping *s) {
    PyObject *container = pop(s), *item = pop(s);
    int found = PySequence_Contains(container, item);
    Py_DECREF(item);
    Py_DECREF(container);
    return found >= 0 && push(s, PyBool_FromLong(found != s->i->arg));
}

static bool step_IS_OP(stepping *s) {
    PyObject *b = pop(s), *a = pop(s);
    bool same = a == b;
    Py_DECREF(a);
    Py_DECREF(b);
    return push(s, PyBool_FromLong(same != (s->i->arg == 1)));
}

static bool step_STORE_SUBSCR(stepping *s) {
    PyObject *key = pop(s), *container = pop(s), *value = pop(s);
    int failed = PyObject_SetItem(container, key, value);
    Py_DECREF(value);
    Py_DECREF(container);
    Py_DECREF(key);
    return !failed;
}

static bool step_DELETE_SUBSCR(stepping *s) {
    PyObject *key = pop(s), *container = pop(s);
    int failed = PyObject_DelItem(container, key);
    Py_DECREF(container);
    Py_DECREF(key);
    return !failed;
}

static PyObject *convert(PyObject *value, int how) {
    static PyObject *(*const conversions[])(PyObject *) = { NULL, PyObject_Str, PyObject_Repr, PyObject_ASCII };
    if (!how) return value;
    PyObject *converted = conversions[how](value);
    Py_DECREF(value);
    return converted;
}
static bool step_CONVERT_VALUE(stepping *s) { return push(s, convert(pop(s), s->i->arg)); }

/* How: a conversion, and 4 where there is a format. */
static bool format(stepping *s, int how) {
    PyObject *spec = how & 4 ? pop(s) : NULL, *value = convert(pop(s), how & 3);
    PyObject *text = !value                                 ? NULL
                     : PyUnicode_CheckExact(value) && !spec ? Py_NewRef(value)
                                                            : PyObject_Format(value, spec);
    Py_XDECREF(value);
    Py_XDECREF(spec);
    return push(s, text);
}
static bool step_FORMAT_VALUE(stepping *s) { return format(s, s->i->arg); }
static bool step_FORMAT_SIMPLE(stepping *s) { return format(s, 0); }
static bool step_FORMAT_WITH_SPEC(stepping *s) { return format(s, 4); }

/* ---- attributes and variables ---- */

static bool step_LOAD_ATTR(stepping *s) {
    PyObject *owner = pop(s), *value = PyObject_GetAttr(owner, name_of(s));
    Py_DECREF(owner);
    return push(s, value);
}

/* A method and its object, or something else that is called. */
static bool push_called(stepping *s, PyObject *found, PyObject *object) {
    if (!found) return Py_XDECREF(object), false;
    *s->sp++ = object || CR_CALLABLE_FIRST ? found : NULL;
    *s->sp++ = object || CR_CALLABLE_FIRST ? object : found;
    return true;
}

static bool step_LOAD_METHOD(stepping *s) {
    PyObject *owner = pop(s), *found = NULL;
    int is_method = _PyObject_GetMethod(owner, name_of(s), &found);
    if (!is_method) Py_CLEAR(owner);
    return push_called(s, found, owner);
}

static bool step_STORE_ATTR(stepping *s) {
    PyObject *owner = pop(s), *value = pop(s);
    int failed = PyObject_SetAttr(owner, name_of(s), value);
    Py_DECREF(value);
    Py_DECREF(owner);
    return !failed;
}

static bool step_DELETE_ATTR(stepping *s) {
    PyObject *owner = pop(s);
    int failed = PyObject_SetAttr(owner, name_of(s), NULL);
    Py_DECREF(owner);
    return !failed;
}

static bool step_STORE_GLOBAL(stepping *s) {
    PyObject *value = pop(s);
    int failed = PyDict_SetItem(s->frame->f_globals, name_of(s), value);
    Py_DECREF(value);
    return !failed;
}

/* ---- jumps and iteration ---- */

static bool jump_if(stepping *s, int wanted) {
    PyObject *value = pop(s);
    int truth = PyObject_IsTrue(value);
    Py_DECREF(value);
    if (truth == wanted) s->next = s->i->arg;
    return truth >= 0;
}
static bool step_POP_JUMP_IF_FALSE(stepping *s) { return jump_if(s, 0); }
static bool step_POP_JUMP_IF_TRUE(stepping *s) { return jump_if(s, 1); }

static bool jump_or_pop(stepping *s, int wanted) {
    int truth = PyObject_IsTrue(top(s, 1));
    if (truth == wanted) s->next = s->i->arg;
    else Py_DECREF(pop(s));
    return truth >= 0;
}
static bool step_JUMP_IF_FALSE_OR_POP(stepping *s) { return jump_or_pop(s, 0); }
static bool step_JUMP_IF_TRUE_OR_POP(stepping *s) { return jump_or_pop(s, 1); }

static bool step_FOR_ITER(stepping *s) {
    PyObject *iterator = top(s, 1), *item = Py_TYPE(iterator)->tp_iternext(iterator);
    if (item) return push(s, item);
    if (PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_StopIteration)) return false;
        PyErr_Clear();
    }
    Py_DECREF(pop(s));
    s->next = s->i->arg;
    return true;
}

/* ---- generators and coroutines that are waited for ---- */

/* Stack: the one asked, what it is sent. When it has ended, its result in the place of both, from 3.12 on by END_SEND.
 */
static bool step_SEND(stepping *s) {
    PyObject *value = pop(s), *from = top(s, 1), *result = NULL;
    PySendResult how = PyIter_Send(from, value, &result);
    Py_DECREF(value);
    if (how == PYGEN_ERROR) return false;
    if (how == PYGEN_RETURN) s->next = s->i->arg;
    if (how == PYGEN_RETURN && PY_VERSION_HEX < 0x030C0000) Py_DECREF(pop(s));
    return push(s, result);
}

/* What is awaited: a coroutine that has not begun, or one that stands before such a one. */
static bool step_GET_AWAITABLE(stepping *s) {
    if (PyCoro_CheckExact(top(s, 1))) return true;
    return unary(s, Py_TYPE(top(s, 1))->tp_as_async->am_await);
}

/* ---- containers in the making ---- */

static bool step_LIST_APPEND(stepping *s) {
    PyObject *item = pop(s);
    int failed = PyList_Append(top(s, s->i->arg), item);
    Py_DECREF(item);
    return !failed;
}

static bool step_SET_ADD(stepping *s) {
    PyObject *item = pop(s);
    int failed = PySet_Add(top(s, s->i->arg), item);
    Py_DECREF(item);
    return !failed;
}

static bool step_MAP_ADD(stepping *s) {
    PyObject *value = pop(s), *key = pop(s);
    int failed = PyDict_SetItem(top(s, s->i->arg), key, value);
    Py_DECREF(key);
    Py_DECREF(value);
    return !failed;
}

static bool step_BUILD_SET(stepping *s) {
    PyObject *set = PySet_New(NULL);
    for (int k = s->i->arg; set && k > 0; k--)
        if (PySet_Add(set, top(s, k))) Py_CLEAR(set);
    for (int k = 0; k < s->i->arg; k++) Py_DECREF(pop(s));
    return push(s, set);
}

static bool step_BUILD_MAP(stepping *s) {
    PyObject *dict = PyDict_New();
    for (int k = 2 * s->i->arg; dict && k > 0; k -= 2)
        if (PyDict_SetItem(dict, top(s, k), top(s, k - 1))) Py_CLEAR(dict);
    for (int k = 0; k < 2 * s->i->arg; k++) Py_DECREF(pop(s));
    return push(s, dict);
}

static bool step_SET_FUNCTION_ATTRIBUTE(stepping *s) {
    PyFunctionObject *function = (PyFunctionObject *)pop(s);
    PyObject *value = pop(s);
    PyObject **to = s->i->arg == 8   ? &function->func_closure
                    : s->i->arg == 4 ? &function->func_annotations
                    : s->i->arg == 2 ? &function->func_kwdefaults
                                     : &function->func_defaults;
    *to = value; /* of a function that was made a moment ago */
    return push(s, (PyObject *)function);
}

/* ---- calls ---- */

/* Stack: CR_CALLABLE_FIRST, then `total` arguments. */
static bool call_with(stepping *s, int total, PyObject *kwnames) {
    PyObject **base = s->sp - total - 2;
    int is_method = base[CR_CALLABLE_FIRST] != NULL, nkw = kwnames ? (int)PyTuple_GET_SIZE(kwnames) : 0;
    PyObject *callable = base[CR_CALLABLE_FIRST || is_method ? 0 : 1];
    PyObject *result = s->call(s->user, callable, base + 2 - is_method, total + is_method - nkw, kwnames);
    while (s->sp > base) Py_XDECREF(pop(s));
    return push(s, result);
}
static bool step_CALL(stepping *s) {
    return call_with(s, s->i->arg, s->i->kwnames < 0 ? NULL : PyTuple_GET_ITEM(s->code->co_consts, s->i->kwnames));
}

static bool step_CALL_KW(stepping *s) {
    PyObject *kwnames = pop(s);
    bool done = call_with(s, s->i->arg, kwnames);
    Py_DECREF(kwnames);
    return done;
}

/* f(*args, **kwargs), both as they are on the stack: an exact tuple, and an exact dict whose keys are texts. */
static PyObject *call_spread(const stepping *s, PyObject *callable, PyObject *args, PyObject *kwargs) {
    Py_ssize_t n = PyTuple_GET_SIZE(args), nkw = kwargs ? PyDict_GET_SIZE(kwargs) : 0, k = 0;
    PyObject **all = PyMem_Malloc(((size_t)(n + nkw) + 1) * sizeof *all), *names = nkw ? PyTuple_New(nkw) : NULL;
    PyObject *key, *value, *result = NULL;
    if (!all) PyErr_NoMemory();
    if (all && (names || !nkw)) {
        for (; k < n; k++) all[k] = Py_NewRef(PyTuple_GET_ITEM(args, k));
        for (Py_ssize_t at = 0; kwargs && PyDict_Next(kwargs, &at, &key, &value); k++) {
            PyTuple_SET_ITEM(names, k - n, Py_NewRef(key));
            all[k] = Py_NewRef(value);
        }
        result = s->call(s->user, callable, all, n, names);
        while (k--) Py_DECREF(all[k]);
    }
    PyMem_Free(all);
    Py_XDECREF(names);
    return result;
}

static bool step_CALL_FUNCTION_EX(stepping *s) {
    PyObject *kwargs = s->i->arg & 1 ? pop(s) : NULL, *args = pop(s), *upper = pop(s), *lower = pop(s);
    PyObject *callable = CR_CALLABLE_FIRST ? lower : upper;
    /* what a class in C does with a call may be seen in its arguments: they stay the tuple and dict they are */
    bool as_it_is = !PyVectorcall_Function(callable) && !(Py_TYPE(callable)->tp_flags & Py_TPFLAGS_HEAPTYPE);
    PyObject *result = as_it_is ? PyObject_Call(callable, args, kwargs) : call_spread(s, callable, args, kwargs);
    Py_XDECREF(lower);
    Py_XDECREF(upper);
    Py_DECREF(args);
    Py_XDECREF(kwargs);
    return push(s, result);
}

static bool step_BEFORE_WITH(stepping *s) {
    static PyObject *names[2]; /* once */
    for (int k = 0; k < 2; k++)
        if (!names[k] && !(names[k] = PyUnicode_InternFromString(k ? "__exit__" : "__enter__"))) return false;
    PyObject *manager = pop(s), *enter = _PyObject_LookupSpecial(manager, names[0]);
    PyObject *leave = enter ? _PyObject_LookupSpecial(manager, names[1]) : NULL;
    Py_DECREF(manager);
    if (!leave) return Py_XDECREF(enter), false;
    *s->sp++ = leave;
    PyObject *entered = PyObject_CallNoArgs(enter);
    Py_DECREF(enter);
    if (!entered) return Py_DECREF(pop(s)), false;
    return push(s, entered);
}

static bool step_IMPORT_NAME(stepping *s) {
    PyObject *names = pop(s), *level = pop(s);
    PyObject *module = PyImport_ImportModuleLevelObject(name_of(s), s->frame->f_globals, Py_None, names,
                                                        (int)PyLong_AsLong(level));
    Py_DECREF(level);
    Py_DECREF(names);
    return push(s, module);
}

/* The class statement: its body is a function that __build_class__ calls. */
static bool step_LOAD_BUILD_CLASS(stepping *s) {
    return push(s, Py_NewRef(PyDict_GetItemString(s->frame->f_builtins, "__build_class__")));
}

static bool step_IMPORT_FROM(stepping *s) { return push(s, PyObject_GetAttr(top(s, 1), name_of(s))); }

/* ---- which may be taken ---- */

static bool has_manager(PyObject *o) {
    PyObject *enter = PyUnicode_InternFromString("__enter__"), *leave = PyUnicode_InternFromString("__exit__");
    bool has = enter && leave && _PyType_Lookup(Py_TYPE(o), enter) && _PyType_Lookup(Py_TYPE(o), leave);
    Py_XDECREF(enter);
    Py_XDECREF(leave);
    if (PyErr_Occurred()) PyErr_Clear();
    return has;
}

static bool has_texts(PyObject *dict) {
    PyObject *key, *value;
    if (!PyDict_CheckExact(dict)) return false;
    for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value);)
        if (!PyUnicode_CheckExact(key)) return false;
    return true;
}

/* Is __import__ the one that CPython has? */
static bool imports_plainly(const stepping *s) {
    PyObject *now = PyDict_GetItemString(s->frame->f_builtins, "__import__");
#if PY_VERSION_HEX < 0x030C0000
    return now && now == s->thread->interp->import_func;
#else
    return now && now == s->thread->interp->imports.import_func;
#endif
}

/* Ways through an instruction that have rules of their own are CPython's. */
static bool is_usual(const stepping *s) {
    switch (s->i->id) {
    case CR_I_BINARY_OP: return (size_t)s->i->arg < CR_COUNT(operators);
    case CR_I_CALL_FUNCTION_EX:
        return PyTuple_CheckExact(top(s, s->i->arg & 1 ? 2 : 1)) && (!(s->i->arg & 1) || has_texts(top(s, 1)));
    case CR_I_LOAD_BUILD_CLASS:
        return PyDict_CheckExact(s->frame->f_builtins) &&
               PyDict_GetItemString(s->frame->f_builtins, "__build_class__");
    case CR_I_BEFORE_WITH: return has_manager(top(s, 1));
    case CR_I_STORE_GLOBAL: return PyDict_CheckExact(s->frame->f_globals);
    case CR_I_IMPORT_NAME: return imports_plainly(s);
    case CR_I_GET_AWAITABLE: {
        const PyObject *o = top(s, 1);
        bool begins = PyCoro_CheckExact(o) && ((const PyCoroObject *)o)->cr_frame_state == FRAME_CREATED;
        return begins || cr_is_suspended_coroutine(o);
    }
    case CR_I_IMPORT_FROM: { /* a submodule that is being imported is looked for elsewhere */
        PyObject *found = PyObject_GetAttr(top(s, 1), name_of(s));
        if (!found) PyErr_Clear();
        Py_XDECREF(found);
        return found;
    }
    default: return true;
    }
}

#define STEP(name) [CR_I_##name] = step_##name
static const step_fn steps[CR_I_COUNT] = {
    STEP(UNARY_NEGATIVE),
    STEP(UNARY_POSITIVE),
    STEP(UNARY_INVERT),
    STEP(UNARY_NOT),
    STEP(BINARY_OP),
    STEP(BINARY_SUBSCR),
    STEP(TO_BOOL),
    STEP(COMPARE_OP),
    STEP(BINARY_SLICE),
    STEP(STORE_SLICE),
    STEP(CONTAINS_OP),
    STEP(IS_OP),
    STEP(STORE_SUBSCR),
    STEP(DELETE_SUBSCR),
    STEP(CONVERT_VALUE),
    STEP(FORMAT_VALUE),
    STEP(FORMAT_SIMPLE),
    STEP(FORMAT_WITH_SPEC),
    STEP(LOAD_ATTR),
    STEP(LOAD_METHOD),
    STEP(STORE_ATTR),
    STEP(DELETE_ATTR),
    STEP(STORE_GLOBAL),
    STEP(POP_JUMP_IF_FALSE),
    STEP(POP_JUMP_IF_TRUE),
    STEP(JUMP_IF_FALSE_OR_POP),
    STEP(JUMP_IF_TRUE_OR_POP),
    STEP(GET_ITER),
    STEP(FOR_ITER),
    STEP(SEND),
    STEP(GET_AWAITABLE),
    STEP(LIST_APPEND),
    STEP(SET_ADD),
    STEP(MAP_ADD),
    STEP(BUILD_SET),
    STEP(BUILD_MAP),
    STEP(SET_FUNCTION_ATTRIBUTE),
    STEP(CALL),
    STEP(CALL_KW),
    STEP(CALL_FUNCTION_EX),
    STEP(BEFORE_WITH),
    STEP(LOAD_BUILD_CLASS),
    STEP(IMPORT_NAME),
    STEP(IMPORT_FROM),
};
#undef STEP

/* ---- what only moves values ---- */

static void store_fast(stepping *s, int slot) {
    PyObject **local = cr_frame_slots(s->frame) + slot, *before = *local;
    *local = pop(s);
    Py_XDECREF(before);
}
static bool step_POP_TOP(stepping *s) { return Py_XDECREF(pop(s)), true; }
static bool step_STORE_FAST(stepping *s) { return store_fast(s, s->i->arg), true; }
static bool step_STORE_FAST_STORE_FAST(stepping *s) {
    return store_fast(s, s->i->arg >> 4), store_fast(s, s->i->arg & 15), true;
}
static bool step_STORE_FAST_LOAD_FAST(stepping *s) {
    store_fast(s, s->i->arg >> 4);
    return push(s, Py_NewRef(cr_frame_slots(s->frame)[s->i->arg & 15]));
}

static bool step_UNPACK_SEQUENCE(stepping *s) {
    PyObject *tuple = pop(s);
    for (int k = s->i->arg; k-- > 0;) *s->sp++ = Py_NewRef(PyTuple_GET_ITEM(tuple, k));
    Py_DECREF(tuple);
    return true;
}

/* The one that comes next; NULL: it does more, or might fail. */
static step_fn move_at(const stepping *s) {
    switch (s->i->id) {
    case CR_I_POP_TOP: return step_POP_TOP;
    case CR_I_STORE_FAST: return step_STORE_FAST;
    case CR_I_STORE_FAST_STORE_FAST: return step_STORE_FAST_STORE_FAST;
    case CR_I_STORE_FAST_LOAD_FAST: return step_STORE_FAST_LOAD_FAST;
    case CR_I_UNPACK_SEQUENCE:
        return PyTuple_CheckExact(top(s, 1)) && PyTuple_GET_SIZE(top(s, 1)) == s->i->arg ? step_UNPACK_SEQUENCE : NULL;
    default: return NULL;
    }
}

/* What comes off an iterator is a local soon, and captures look at locals only where they read them: the same entry
 * serves every item. */
static void step_moves(stepping *s, const cr_code *code) {
    for (step_fn move; s->i = &code->at[s->next], (move = move_at(s));) {
        cr_frame_set_running(s->frame, s->i->own);
        s->next++;
        move(s);
    }
}

cr_stepped cr_step(PyThreadState *thread, cr_frame *frame, int32_t *at, cr_step_call call, void *user) {
    stepping s = {
        .thread = thread, .frame = frame, .code = cr_frame_code(frame), .next = *at + 1, .call = call, .user = user
    };
    const cr_code *code = cr_code_get(s.code);
    if (!code) return PyErr_Clear(), CR_STEP_NOT;
    s.i = &code->at[*at];
    s.sp = cr_frame_slots(frame) + cr_frame_top(frame);
    if (!steps[s.i->id] || !is_usual(&s)) return CR_STEP_NOT;
    if (Py_EnterRecursiveCall("")) return CR_STEP_RAISED;
    *cr_thread_room(thread) -= CR_FRAME_CLEARS; /* from 3.12 on levels of C and of Python are counted apart */
    cr_frame_link(frame, thread, s.i->own);
    bool done = steps[s.i->id](&s);
    if (done) step_moves(&s, code);
    cr_frame_unlink(frame, thread, (int)(s.sp - cr_frame_slots(frame)));
    *cr_thread_room(thread) += CR_FRAME_CLEARS;
    Py_LeaveRecursiveCall();
    *at = done ? s.next : *at;
    return done ? CR_STEPPED : CR_STEP_RAISED;
}
