/* frontend_torch.c: PyTorch's tensors, dtypes and functions as a front end, for programs that are captured.
 *
 * Nothing of torch is linked. Python (cresset/_torch/capture.py) tells once which classes there are, what its functions
 * in C stand for, and how a captured graph is run. Fakes are Cresset's own tensors; what ops give to the program beside
 * tensors is translated. Modules are the first front end's business: it knows them by what they have. */
#include "python/torch_tensor.h"

#include "graph/graph.h"

enum { QUESTIONS = 16 };

static struct { /* once: told when torch is first used by a captured program */
    PyTypeObject *tensor, *parameter, *size;
    PyObject *ours;           /* dict: torch's dtype, device, layout or memory format -> ours */
    PyObject *constants;      /* tuple of classes whose objects never change */
    PyObject *find;           /* callable -> (kind, object) or None */
    PyObject *rows;           /* dict: what it said */
    PyObject *methods;        /* set: names of methods of tensors that have rows of their own */
    PyObject *build, *is_failure, *translate, *set_grad, *default_dtype;
    PyObject *set_frames;     /* with what torch.compile looks at frames: sets another, or None; gives the old one */
    PyObject *host;           /* name of an op that the table lacks -> what carries it out, or None */
    PyObject *questions;      /* tuple: grad mode, inference mode, default dtype, mixed precision anywhere; then what
                               * must be 0, False or None */
    PyObject *casts;          /* (our dtype or None, cache) of mixed precision on the CPU; `enabled` asked before */
    PyObject *casting;        /* is it on there? */
    PyObject *levels;         /* the module that counts levels of forward-mode derivatives, from -1 */
    PyGetSetDescrObject *requires_grad;
    PyGetSetDescrObject *parts[CR_PART_COUNT];
} torch;

/* ---- tensors ---- */

static cr_kind kind(PyObject *o) {
    if (Py_IS_TYPE(o, torch.parameter)) return CR_KIND_PARAMETER;
    return Py_IS_TYPE(o, torch.tensor) ? CR_KIND_TENSOR : CR_KIND_OTHER; /* subclasses decide what ops do to them */
}

static bool is_of_constant_class(PyObject *o) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(torch.constants); i++)
        if ((PyObject *)Py_TYPE(o) == PyTuple_GET_ITEM(torch.constants, i)) return true;
    return false;
}

/* A function that pybind11 made belongs to an object of its own. */
static bool is_bound_by_pybind(PyObject *o) {
    return PyCFunction_CheckExact(o) && PyCFunction_GET_SELF(o) &&
           !strncmp(Py_TYPE(PyCFunction_GET_SELF(o))->tp_name, "pybind11_", 9);
}

static bool is_constant(PyObject *o) { return is_bound_by_pybind(o) || is_of_constant_class(o); }

/* Tensors do not go into ops of ours outside of captures: their gradients would be lost without a word. */
static int read_object(cr_py_frame *f, PyObject *o, cr_arg *out) {
    if (!is_of_constant_class(o)) return 1;
    PyObject *mine = PyDict_GetItemWithError(torch.ours, o);
    if (!mine) return PyErr_Clear(), 1;
    return cr_frontend_cresset.read(f, mine, out);
}

static cr_tensor *borrow(cr_py_frame *f, PyObject *o) {
    cresset_value v;
    PyObject *kept = NULL, *holder = NULL;
    cr_tensor *t = NULL;
    if (!cr_torch_is_plain(o))
        return (cr_tensor *)PyErr_Format(PyExc_TypeError, "a tensor is not plain memory of the CPU");
    if (cr_torch_read(o, &v, &kept)) return NULL;
    if (!v.data) v.data = &torch; /* of no elements */
    cr_status status = cr_torch_tensor(&v, &t);
    if (!status) holder = cr_frontend_wrap(t);
    int failed = !holder || cr_py_frame_keep(f, holder) || (kept && cr_py_frame_keep(f, kept));
    if (status) cr_py_raise(status);
    Py_XDECREF(kept);
    Py_XDECREF(holder);
    return failed ? NULL : t;
}

static PyObject *stand_in(PyObject *tensor, cr_tensor *fake) {
    (void)tensor;
    return cr_frontend_wrap(fake);
}

static PyTypeObject *class_of_results(void) { return torch.tensor; }
static PyTypeObject *class_of_sizes(void) { return torch.size; }

/* ---- what guards remember ---- */

typedef struct stamp_of {
    PyTypeObject *type;
    unsigned version;
    uint8_t dtype, rank;
    bool asks, requires_grad; /* without gradients nobody asks whether it wants them */
    uint32_t marks;           /* sizes that are marked to vary: others, where they are, want a capture of their own */
    int64_t sizes[];          /* rank sizes, rank strides; ANY: left open */
} stamp_of;

#define ANY INT64_MIN /* no size and no stride */

/* Of parameters none is left open. */
static uint32_t marks_of(PyObject *o) {
    if (!Py_IS_TYPE(o, torch.tensor)) return 0;
    return cr_marked_sizes(o, "_dynamo_dynamic_indices") | cr_marked_sizes(o, "_dynamo_unbacked_indices");
}

static PyObject *get(const PyGetSetDescrObject *of, PyObject *o) {
    return of->d_getset->get(o, of->d_getset->closure);
}

static bool wants_grad(PyObject *o) {
    PyObject *answer = get(torch.requires_grad, o);
    bool yes = answer == Py_True;
    Py_XDECREF(answer);
    PyErr_Clear();
    return yes;
}

/* What the tensor holds stays when the reference that this made is given back: torch keeps the object of a tensor as
 * long as anything in C has that tensor. Of a node nobody knows who has it. */
static PyObject *part(PyObject *o, cr_part which) {
    if (kind(o) == CR_KIND_OTHER) return NULL;
    PyObject *leaf = which == CR_PART_GRAD ? get(torch.parts[CR_PART_IS_LEAF], o) : Py_NewRef(Py_True);
    PyObject *found = leaf == Py_True ? get(torch.parts[which], o) : NULL;
    Py_XDECREF(leaf);
    Py_XDECREF(found);
    PyErr_Clear();
    bool told = which == CR_PART_GRAD ? found == Py_None || (found && kind(found) != CR_KIND_OTHER)
                                      : found == Py_None || found == Py_True || found == Py_False;
    return told ? found : NULL;
}

static int ask(Py_ssize_t i);

static cr_stamp *stamp(PyObject *o, const cr_open_sizes *open) {
    cresset_value v;
    PyObject *kept = NULL;
    if (!cr_torch_is_plain(o))
        return (cr_stamp *)PyErr_Format(PyExc_TypeError, "a tensor is not plain memory of the CPU");
    if (cr_torch_read(o, &v, &kept)) return NULL;
    stamp_of *s = PyMem_Malloc(sizeof *s + (size_t)v.rank * 2 * sizeof *s->sizes);
    if (!s) return Py_XDECREF(kept), (cr_stamp *)PyErr_NoMemory();
    *s = (stamp_of){ .type = Py_TYPE(o), .version = Py_TYPE(o)->tp_version_tag, .dtype = (uint8_t)v.dtype,
                     .rank = (uint8_t)v.rank, .asks = ask(0) == 1, .marks = marks_of(o) };
    if (s->asks) s->requires_grad = wants_grad(o);
    memcpy(s->sizes, v.size, (size_t)v.rank * sizeof *s->sizes);
    memcpy(s->sizes + v.rank, v.stride, (size_t)v.rank * sizeof *s->sizes);
    for (int d = 0; d < v.rank; d++) {
        if (open->sizes >> d & 1) s->sizes[d] = ANY;
        if (open->strides >> d & 1) s->sizes[v.rank + d] = ANY;
    }
    Py_XDECREF(kept);
    return (cr_stamp *)s;
}

static bool check(const cr_stamp *stamp, PyObject *o) {
    const stamp_of *s = (const stamp_of *)stamp;
    cresset_value v;
    PyObject *kept = NULL;
    if (Py_TYPE(o) != s->type || (s->version && s->type->tp_version_tag != s->version)) return false;
    if (!cr_torch_peek(o, &v) && (!cr_torch_is_plain(o) || cr_torch_read(o, &v, &kept))) return PyErr_Clear(), false;
    bool same = v.dtype == s->dtype && v.rank == s->rank;
    for (int d = 0; same && d < v.rank; d++)
        same = (v.size[d] == s->sizes[d] || s->sizes[d] == ANY) &&
               (v.stride[d] == s->sizes[v.rank + d] || s->sizes[v.rank + d] == ANY);
    Py_XDECREF(kept);
    return same && !(marks_of(o) & ~s->marks) && (!s->asks || wants_grad(o) == s->requires_grad);
}

/* Of a tensor that passed the check. */
static int64_t extent_of(PyObject *o, int dim, bool stride) {
    cresset_value v;
    PyObject *kept = NULL;
    if (!cr_torch_peek(o, &v) && cr_torch_read(o, &v, &kept)) return PyErr_Clear(), ANY;
    int64_t found = stride ? v.stride[dim] : v.size[dim];
    Py_XDECREF(kept);
    return found;
}
static int64_t size_of(PyObject *o, int dim) { return extent_of(o, dim, false); }
static int64_t stride_of(PyObject *o, int dim) { return extent_of(o, dim, true); }

/* ---- what surrounds a call ---- */

enum { GRAD, INFERENCE, DEFAULT_DTYPE, AUTOCAST, FIRST_MODE };

/* 1, 0: what question i is answered with; -1: something that is not understood. */
static int ask(Py_ssize_t i) {
    PyObject *answer = PyObject_CallNoArgs(PyTuple_GET_ITEM(torch.questions, i));
    int truth = !answer ? -1 : i == DEFAULT_DTYPE ? answer != torch.default_dtype : PyObject_IsTrue(answer);
    if (!answer) PyErr_Clear();
    Py_XDECREF(answer);
    return truth;
}

/* Tensors may carry tangents, which nothing of them shows. */
static bool is_forward_mode(void) {
    static PyObject *name; /* once */
    if (!name && !(name = PyUnicode_InternFromString("_current_level"))) return PyErr_Clear(), true;
    PyObject *level = PyObject_GetAttr(torch.levels, name);
    bool inside = !level || PyLong_AsLong(level) >= 0;
    Py_XDECREF(level);
    PyErr_Clear();
    return inside;
}

/* What mixed precision does on the CPU. A dtype that we lack: nothing is captured. */
static uint64_t casts(void) {
    int dtype, cache = 1;
    PyObject *o, *given = PyObject_CallNoArgs(torch.casts);
    bool known = given && PyArg_ParseTuple(given, "Op", &o, &cache) && cr_py_dtype_read(o, &dtype);
    PyErr_Clear();
    Py_XDECREF(given);
    if (!known) return CR_AMBIENT_PLAIN;
    return (uint64_t)(uint8_t)dtype << CR_AMBIENT_CAST_DTYPE | (cache ? 0u : CR_AMBIENT_NO_CACHE);
}

/* It may be on for another device alone, which nobody here knows. */
static uint64_t casting(void) {
    PyObject *on = PyObject_CallNoArgs(torch.casting);
    uint64_t word = on == Py_True ? casts() | CR_AMBIENT_AUTOCAST : CR_AMBIENT_PLAIN;
    PyErr_Clear();
    Py_XDECREF(on);
    return word;
}

static uint64_t ambient(void) {
    uint64_t word = (ask(GRAD) ? CR_AMBIENT_GRAD : 0u) | (ask(INFERENCE) ? CR_AMBIENT_INFERENCE : 0u) |
                    (is_forward_mode() ? CR_AMBIENT_PLAIN : 0u) | (ask(DEFAULT_DTYPE) ? CR_AMBIENT_PLAIN : 0u) |
                    (ask(AUTOCAST) ? casting() : 0u);
    for (Py_ssize_t i = FIRST_MODE; i < PyTuple_GET_SIZE(torch.questions); i++)
        if (ask(i)) word |= CR_AMBIENT_PLAIN;
    return word;
}

static void set_ambient(uint64_t word) {
    PyObject *done = PyObject_CallOneArg(torch.set_grad, word & CR_AMBIENT_GRAD ? Py_True : Py_False);
    Py_XDECREF(done);
    PyErr_Clear();
}

/* ---- functions ---- */

/* Is it a function of its own, and not a method bound to an object? What is found is kept, and would keep that. */
static bool stands_alone(PyObject *builtin) {
    PyObject *self = PyCFunction_GET_SELF(builtin);
    return !self || PyModule_Check(self) || PyType_Check(self) || is_bound_by_pybind(builtin);
}

/* Functions in Python are told beforehand; only of Dynamo, which the first torch.compile() imports, when one is met. */
static bool is_asked(PyObject *callable) {
    if (!PyFunction_Check(callable)) return true;
    PyObject *module = ((PyFunctionObject *)callable)->func_module;
    return module && PyUnicode_Check(module) &&
           PyUnicode_CompareWithASCIIString(module, "torch._dynamo.mutation_guard") == 0;
}

/* By the address of the code: every function that a program makes is asked about, and to hash code is slow. */
static cr_row_kind closure(PyObject *code, PyObject **object) {
    PyObject *address = PyLong_FromVoidPtr(code);
    PyObject *name = address ? PyDict_GetItemWithError(torch.rows, address) : NULL;
    Py_XDECREF(address);
    PyErr_Clear();
    *object = name;
    return name ? CR_ROW_CLOSURE : CR_ROW_NONE;
}

static cr_row_kind row(PyObject *callable, PyObject **object) {
    static const char *const kinds[] = {
        [CR_ROW_NONE] = "",           [CR_ROW_OP] = "op",         [CR_ROW_GIVES] = "gives",
        [CR_ROW_UNMAPPED] = "unmapped",
        [CR_ROW_CONSTANTS] = "constants", [CR_ROW_ASKS] = "asks", [CR_ROW_OVERRIDES] = "overrides",
        [CR_ROW_COMPILES] = "compiles", [CR_ROW_GET_GRAD] = "get_grad", [CR_ROW_SET_GRAD] = "set_grad",
        [CR_ROW_EXPORTS] = "exports", [CR_ROW_SYMBOLIC] = "symbolic",
        [CR_ROW_CASTS] = "casts", [CR_ROW_REGION] = "region",
        [CR_ROW_UNRECORDED] = "unrecorded", [CR_ROW_STANDS_IN] = "stands_in",
    };
    bool in_c = PyFunction_Check(callable) || (PyCFunction_CheckExact(callable) && stands_alone(callable)) ||
                Py_IS_TYPE(callable, &PyMethodDescr_Type) ||
                (PyType_Check(callable) && !cr_is_python_class((PyTypeObject *)callable));
    if (PyCode_Check(callable)) return closure(callable, object);
    if (!in_c) return CR_ROW_NONE;
    PyObject *found = PyDict_GetItemWithError(torch.rows, callable), *made = NULL;
    if (!found && !PyErr_Occurred() && is_asked(callable)) {
        found = made = PyObject_CallOneArg(torch.find, callable);
        if (made && PyDict_SetItem(torch.rows, callable, made)) found = NULL;
        Py_XDECREF(made); /* the dict has it */
    }
    PyErr_Clear();
    if (!found || !PyTuple_CheckExact(found) || PyTuple_GET_SIZE(found) != 2) return CR_ROW_NONE;
    *object = PyTuple_GET_ITEM(found, 1);
    for (int k = 1; k < CR_ROW_COUNT; k++)
        if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(found, 0), kinds[k]) == 0) return (cr_row_kind)k;
    return CR_ROW_NONE;
}

static bool has_row(PyObject *name) {
    int has = PySet_Contains(torch.methods, name);
    if (has < 0) PyErr_Clear();
    return has == 1;
}

/* The first torch.compile() puts torch._dynamo.disable() around methods of optimizers. */
static PyObject *hides(PyObject *function) {
    const PyFunctionObject *fn = (PyFunctionObject *)function;
    const char *attribute = "_torchdynamo_orig_callable";
    const char *module = fn->func_module && PyUnicode_Check(fn->func_module) ? PyUnicode_AsUTF8(fn->func_module) : NULL;
    const char *file = PyUnicode_AsUTF8(((PyCodeObject *)fn->func_code)->co_filename);
    PyErr_Clear();
    bool is = fn->func_dict && module && file && !strncmp(module, "torch.optim.", 12) &&
              strstr(file, "/torch/_dynamo/eval_frame.py") && PyDict_GetItemString(fn->func_dict, attribute);
    return is ? PyUnicode_InternFromString(attribute) : NULL;
}

static PyObject *no_name(PyObject *callable) {
    (void)callable;
    return NULL;
}
/* What carries out an op of torch's that the table lacks, on tensors of ours. */
static PyObject *find_op(const char *name) {
    PyObject *found = PyObject_CallFunction(torch.host, "s", name);
    if (found != Py_None) return found;
    Py_DECREF(found);
    return NULL;
}

/* What torch's own class has under the name, as torch defined it, and a fake answers alike. */
static bool is_captured(PyObject *name) {
    PyObject *raw = _PyType_Lookup(torch.tensor, name);
    if (!raw || !cr_frontend_cresset.is_captured(name)) return false;
    if (!PyFunction_Check(raw)) return !cr_is_python_class(Py_TYPE(raw));
    PyObject *module = ((PyFunctionObject *)raw)->func_module;
    return module && PyUnicode_Check(module) && PyUnicode_CompareWithASCIIString(module, "torch._tensor") == 0;
}

static PyObject *translate(PyObject *value) {
    PyTypeObject *type = Py_TYPE(value);
    PyObject *shown = NULL;
    int dtype;
    if (type == &cr_py_dtype_type && cr_py_dtype_read(value, &dtype)) shown = Py_XNewRef(cr_torch_dtype(dtype));
    else if (type == &cr_py_device_type || type == &cr_py_layout_type || type == &cr_py_format_type ||
             type == &cr_py_size_type || (PyTuple_Check(value) && !PyTuple_CheckExact(value)))
        shown = PyObject_CallOneArg(torch.translate, value);
    else return value;
    if (!shown && !PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "torch has no such object");
    Py_DECREF(value);
    return shown;
}

/* Inside of a function that torch.compile compiles, torch does not look into what is done here. */
static PyObject *build(cr_graph *g, PyObject *examples, PyObject *weights, bool records, unsigned ways) {
    cr_graph_retain(g);
    PyObject *graph = cr_py_graph_new(g);
    PyObject *before = graph ? PyObject_CallOneArg(torch.set_frames, Py_None) : NULL, *done, *type, *value, *traceback;
    PyObject *made = before ? PyObject_CallFunction(torch.build, "OOOOI", graph, examples, weights,
                                                   records ? Py_True : Py_False, ways)
                           : NULL;
    PyErr_Fetch(&type, &value, &traceback);
    done = before ? PyObject_CallOneArg(torch.set_frames, before) : NULL;
    Py_XDECREF(done);
    PyErr_Restore(type, value, traceback);
    Py_XDECREF(before);
    Py_XDECREF(graph);
    return made;
}

/* What no Python has seen is the code's own. */
static int is_failure(void) {
    PyObject *type, *value, *traceback, *answer = NULL;
    if (!PyErr_ExceptionMatches(PyExc_Exception) || PyErr_ExceptionMatches(PyExc_SystemError)) return 0;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback && !PyException_SetTraceback(value, traceback)) answer = PyObject_CallOneArg(torch.is_failure, value);
    int own = !traceback ? 1 : answer ? PyObject_IsTrue(answer) : -1;
    Py_XDECREF(answer);
    if (!own) return PyErr_Restore(type, value, traceback), 0;
    Py_XDECREF(type), Py_XDECREF(value), Py_XDECREF(traceback);
    return own;
}

/* torch's dispatcher, transforms, compiler and registries: what they compute are not the program's tensors. */
static const char *const machinery[] = {
    "/torch/_ops.py", "/torch/_functorch/", "/torch/_higher_order_ops/", "/torch/_dynamo/", "/torch/_compile.py",
    "/torch/_library/", "/torch/library.py", "/torch/_subclasses/", "/torch/_inductor/", "/torch/fx/",
    "/torch/utils/_pytree.py", "/torch/utils/_python_dispatch.py", "/torch/utils/checkpoint.py",
    "/torch/autograd/graph.py", "/torch/autograd/__init__.py", "/torch/_tensor.py", NULL,
};

const cr_frontend cr_frontend_torch = { /* once */
    .name = "torch",
    .kind = kind,
    .read = read_object,
    .stand_in = stand_in,
    .stamp = stamp,
    .check = check,
    .size = size_of,
    .stride = stride_of,
    .is_captured = is_captured,
    .ambient = ambient,
    .set_ambient = set_ambient,
    .casts = casts,
    .resolve = no_name,
    .find = find_op,
    .tables = { "_parameters", "_buffers", "_modules", "_non_persistent_buffers_set" },
    .part = part,
    .borrow = borrow,
    .row = row,
    .hides = hides,
    .has_row = has_row,
    .translate = translate,
    .is_constant = is_constant,
    .class_of_results = class_of_results,
    .class_of_sizes = class_of_sizes,
    .stand_ins = "cresset._torch.instead",
    .machinery = machinery,
    .build = build,
    .is_failure = is_failure,
};

/* ---- Python's side ---- */

static PyObject *setup(PyObject *module, PyObject *args, PyObject *kwargs) {
    static char *names[] = { "tensor", "parameter", "size", "ours", "constants", "rows", "find", "build", "is_failure",
                             "translate", "set_grad", "default_dtype", "questions", "levels", "set_frames", "host",
                             "casts", "casting", "methods", NULL };
    PyObject *tensor, *parameter, *size, *ours, *constants, *rows, *find, *make, *fails, *show, *set_grad, *dtype,
        *questions, *levels, *set_frames, *host, *casts_of, *casting_of, *methods;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!O!O!O!O!OOOOOOO!OOOOOO!:_torch_frontend", names, &PyType_Type,
                                     &tensor, &PyType_Type, &parameter, &PyType_Type, &size, &PyDict_Type, &ours,
                                     &PyTuple_Type, &constants, &PyDict_Type, &rows, &find, &make, &fails, &show,
                                     &set_grad, &dtype, &PyTuple_Type, &questions, &levels, &set_frames, &host,
                                     &casts_of, &casting_of, &PySet_Type, &methods))
        return NULL;
    if (PyTuple_GET_SIZE(questions) < FIRST_MODE || PyTuple_GET_SIZE(questions) > QUESTIONS)
        return PyErr_Format(PyExc_ValueError, "there are %zd questions", PyTuple_GET_SIZE(questions));
    static const char *const parts[] = { [CR_PART_GRAD] = "grad", [CR_PART_GRAD_FN] = "grad_fn",
                                         [CR_PART_IS_LEAF] = "is_leaf", [CR_PART_REQUIRES_GRAD] = "requires_grad" };
    for (int i = 0; i < CR_PART_COUNT; i++) {
        PyObject *getter = PyObject_GetAttrString(tensor, parts[i]);
        if (!getter || !Py_IS_TYPE(getter, &PyGetSetDescr_Type)) {
            Py_XDECREF(getter);
            return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "%s is no attribute in C", parts[i]);
        }
        torch.parts[i] = (PyGetSetDescrObject *)getter;
    }
    torch.requires_grad = torch.parts[CR_PART_REQUIRES_GRAD];
    PyObject **const at[] = { (PyObject **)&torch.tensor, (PyObject **)&torch.parameter, (PyObject **)&torch.size,
                              &torch.ours, &torch.constants, &torch.find, &torch.build, &torch.is_failure,
                              &torch.translate, &torch.set_grad, &torch.default_dtype, &torch.questions, &torch.levels,
                              &torch.set_frames, &torch.host, &torch.casts, &torch.casting, &torch.methods };
    PyObject *const given[] = { tensor, parameter, size, ours, constants, find, make, fails, show, set_grad, dtype,
                                questions, levels, set_frames, host, casts_of, casting_of, methods };
    for (size_t i = 0; i < CR_COUNT(at); i++) *at[i] = Py_NewRef(given[i]);
    if (!(torch.rows = PyDict_Copy(rows))) return NULL;
    Py_RETURN_NONE;
}

static PyObject *add_rows(PyObject *module, PyObject *rows) {
    (void)module;
    if (!torch.rows) return PyErr_Format(PyExc_RuntimeError, "_torch_rows(): nobody has told of torch yet");
    return PyDict_Update(torch.rows, rows) ? NULL : Py_NewRef(Py_None);
}

static PyMethodDef functions[] = {
    { "_torch_rows", add_rows, METH_O, "_torch_rows({function: (kind, object)}): more rows." },
    { "_torch_frontend", (PyCFunction)(void (*)(void))setup, METH_VARARGS | METH_KEYWORDS,
      "_torch_frontend(...): what capture needs of torch; once." },
    { NULL, NULL, 0, NULL },
};

int cr_py_torch_frontend_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
