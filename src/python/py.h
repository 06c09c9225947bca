/* py.h: what the files of the extension module share. What a tensor is, is asked of frontend.h.
 *
 * A cresset.Tensor holds one reference to a cr_tensor; the tensor's `python` field is the borrowed way back, so that
 * one tensor is one Python object for as long as that object lives. All of this is touched only under the GIL.
 * Functions that return PyObject * or int follow Python's convention: NULL or -1 with an exception set; new references
 * unless said. */
#ifndef CR_PY_H
#define CR_PY_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "python/frontend.h"

/* ---- errors (errors.c) ---- */
extern PyObject *cr_py_data_dependent_error; /* cresset.GuardOnDataDependentSymNode */
extern PyObject *cr_py_unsupported_error;    /* cresset.UnsupportedError */
int cr_py_errors_init(PyObject *module);
/* Turns the thread's last error into a Python exception. Always returns NULL. */
PyObject *cr_py_raise(cr_status status);
/* For slots that return int: the same, returning -1. */
int cr_py_fail(cr_status status);
/* The same, noted: a program that is recorded ahead of time has asked for what only the tape can do. */
int cr_py_refuse(cr_status status);

/* ---- tensors of a program that is differentiated ahead of time, while it is recorded (aot_tensor.c) ---- */
typedef struct cr_py_ahead { cr_tensor **inputs, **stand_ins; size_t n; } cr_py_ahead; /* borrowed */
bool cr_py_is_ahead(const cr_tensor *t);
cr_tensor *cr_py_stands_for(const cr_tensor *t); /* the input; borrowed; NULL: the program made it */
bool cr_py_is_ahead_leaf(const cr_tensor *t);
bool cr_py_is_input_view(const cr_tensor *t);    /* an input that is a view, or a view of it */
int cr_py_refuse_ahead(const char *what);        /* -1, with an UnsupportedError of what is done */
/* The text that was built, as a str; disposes of it. */
PyObject *cr_py_text(cr_str *text);
/* For long work without the GIL: CR_EPYTHON when a signal's handler raised (Ctrl-C). `user` is not looked at. */
CR_NODISCARD cr_status cr_py_look_for_signals(void *user);

/* ---- dtypes, layouts, memory formats (dtype_type.c), devices (device_type.c), sizes (size_type.c) ---- */
extern PyTypeObject cr_py_dtype_type, cr_py_layout_type, cr_py_format_type, cr_py_device_type, cr_py_size_type;
int cr_py_dtypes_init(PyObject *module);
int cr_py_device_init(PyObject *module);
int cr_py_size_init(PyObject *module);
PyObject *cr_py_dtype_get(int dtype); /* new reference to the one object of that dtype */
/* Also takes float, int, bool and complex (the types). False: not a dtype, no exception set. */
bool cr_py_dtype_read(PyObject *o, int *out);
PyObject *cr_py_layout_get(int layout);
PyObject *cr_py_format_get(int format);
bool cr_py_format_read(PyObject *o, int *out);
bool cr_py_layout_read(PyObject *o, int *out);
PyObject *cr_py_device_wrap(cr_device device);
/* A device object or its text. 0: read; -1: exception; 1: neither of them. */
int cr_py_device_read(PyObject *o, cr_device *out);
/* A size, stride or offset as a Python int. */
PyObject *cr_py_dim(cr_env *env, cr_dim d);
PyObject *cr_py_size_new(cr_env *env, int rank, const cr_dim *size);

/* ---- Cresset's own tensors: what others need of them (tensor_type.c); their objects are in tensor.h ---- */
int cr_py_tensor_init(PyObject *module);
/* Puts a method for every op of the table into the type, once. Called when the first tensor is shown. */
int cr_py_tensor_populate(void);
/* One element at `p` as a Python number. */
PyObject *cr_py_element(int dtype, const void *p);
PyObject *cr_py_scalar(rt_scalar value, bool is_bool);
/* The only element of a tensor. CR_ERUNTIME when there is not exactly one. */
CR_NODISCARD cr_status cr_py_item(cr_tensor *t, cr_arg *out);

/* ---- arguments (convert.c) ---- */
/* The memory of one call: what converted arguments point to. Small things are inside. */
typedef struct cr_py_frame {
    cr_arena arena;
    int64_t work;      /* about how many elements the call touches: decides whether the GIL is released */
    uint32_t used;
    bool has_lists;    /* some tensors are only held by a Python list */
    PyObject *kept;    /* list: what cr_py_frame_keep holds; NULL: nothing */
    cr_arg pool[48];
} cr_py_frame;
static inline void cr_py_frame_init(cr_py_frame *f) {
    cr_arena_init(&f->arena);
    f->work = 0;
    f->used = 0;
    f->has_lists = false;
    f->kept = NULL;
}
static inline void cr_py_frame_dispose(cr_py_frame *f) {
    if (f->arena.head) cr_arena_dispose(&f->arena);
    Py_XDECREF(f->kept);
}
/* Holds an object until the frame is disposed of: arguments may borrow from it. 0, or -1 with an exception. */
int cr_py_frame_keep(cr_py_frame *f, PyObject *o);
/* 0: converted; -1: exception; 1: an object of no kind that ops take (no exception). */
int cr_py_convert_slow(cr_py_frame *f, PyObject *o, cr_arg *out);
/* What a weak reference refers to; new. NULL, without an exception: it is gone. */
static inline PyObject *cr_py_weak_target(PyObject *reference) {
#if PY_VERSION_HEX < 0x030D0000
    PyObject *target = PyWeakref_GetObject(reference);
    return target == Py_None ? NULL : Py_NewRef(target);
#else
    PyObject *target = NULL;
    return PyWeakref_GetRef(reference, &target) < 0 ? PyErr_Clear(), NULL : target;
#endif
}

static inline int64_t cr_py_numel(const cr_tensor *t) {
    int64_t n = 1;
    for (int d = 0; d < t->meta.rank; d++)
        if (__builtin_mul_overflow(n, t->meta.size[d], &n)) return INT64_MAX;
    return n;
}
static inline int cr_py_convert(cr_py_frame *f, PyObject *o, cr_arg *out) {
    if (Py_IS_TYPE(o, cr_frontend_cresset.tensor_type)) {
        cr_tensor *t = *(cr_tensor **)((char *)o + cr_frontend_cresset.tensor_at);
        int64_t n = cr_py_numel(t);
        if (n > f->work) f->work = n;
        *out = (cr_arg){ .kind = CR_ARG_TENSOR, .given = CR_GIVEN_POSITIONAL, .u.t = t };
        return 0;
    }
    return cr_py_convert_slow(f, o, out);
}
/* A Python int as int64. OverflowError naming `what`. */
int cr_py_int64(PyObject *o, const char *what, int64_t *out);
/* Is this a NumPy scalar (no import of NumPy)? */
bool cr_py_is_numpy_scalar(PyObject *o);
bool cr_py_is_ndarray(PyObject *o);

/* ---- calls (call.c, results.c) ---- */
typedef enum cr_py_form { CR_PY_PACKET, CR_PY_OVERLOAD, CR_PY_FUNCTION, CR_PY_METHOD } cr_py_form;
typedef struct cr_py_op {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    const cr_op *first;  /* the overload list; the op itself for an overload */
    PyObject *name;      /* "add" */
    PyObject *dict;      /* packet: overload name -> object */
    uint8_t form;        /* cr_py_form */
    uint8_t self_at;     /* method: position of `self` among the parameters */
} cr_py_op;
extern PyTypeObject cr_py_packet_type, cr_py_overload_type, cr_py_function_type, cr_py_method_type;
int cr_py_calls_init(PyObject *module);
PyObject *cr_py_op_new(const cr_op *first, cr_py_form form);
PyObject *cr_py_overload_get(const cr_op *op); /* the one object of that op */
/* Is the op shown in this form (the row's METHOD and FUNCTION bits)? */
bool cr_py_op_shown(const cr_op *op, cr_py_form form);
/* Runs a bound call, releasing the GIL when there is much to do, and wraps the results. */
PyObject *cr_py_run(cr_py_frame *f, const cr_op *op, const cr_arg *args, cr_py_form form);
/* Consumes the results. */
PyObject *cr_py_results(const cr_op *op, cr_arg *results, cr_py_form form);
PyObject *cr_py_from_arg(cr_arg *a, bool lists);
int cr_py_results_init(PyObject *module);
/* Calls an op by name with positional arguments, one result. `cache` remembers what was found. */
PyObject *cr_py_call(const cr_op **cache, const char *name, const cr_arg *args, size_t n);
/* The same in C's terms. */
CR_NODISCARD cr_status cr_py_call_tensor(const cr_op **cache, const char *name, const cr_arg *args, size_t n,
                                         cr_tensor **out);

/* ---- data in and out ---- */
int cr_py_data_init(PyObject *module);   /* data.c: tensor(), as_tensor() */
/* Any data as a new tensor. dtype -1: inferred. */
CR_NODISCARD cr_tensor *cr_py_data_tensor(PyObject *data, int dtype); /* NULL: exception */
int cr_py_buffer_init(PyObject *module);
/* A tensor on the memory of an object that exports a buffer, kept alive by it. NULL: exception. */
cr_tensor *cr_py_buffer_import(PyObject *o);
int cr_py_dlpack_init(PyObject *module); /* dlpack.c */
cr_tensor *cr_py_dlpack_import(PyObject *o, PyObject *device, PyObject *copy);

extern PyTypeObject cr_py_storage_type;  /* storage_type.c */
int cr_py_storage_init(PyObject *module);
PyObject *cr_py_storage_wrap(cr_storage *s);
cr_storage *cr_py_storage_of(PyObject *o); /* borrowed; NULL when it is no storage */

/* ---- the rest ---- */
typedef struct cr_py_generator { PyObject_HEAD rt_generator *generator; bool owned; } cr_py_generator;
extern PyTypeObject cr_py_generator_type; /* random.c */
int cr_py_random_init(PyObject *module);
/* How often the default generator was seeded, and with what: compiled models have generators of their own, which
 * follow. */
typedef struct cr_py_seeding { uint64_t count, seed; } cr_py_seeding;
extern cr_py_seeding cr_py_last_seeding;
int cr_py_state_init(PyObject *module);   /* state.c: default dtype, threads, grad mode */
/* ---- graphs and traces (sym_type.c, graph_type.c, trace_type.c) ---- */
struct cr_graph;
int cr_py_sym_init(PyObject *module);
/* A SymInt, SymFloat or SymBool. `value`: an INT that is symbolic, or a SYM, of that environment. */
PyObject *cr_py_sym_new(cr_env *env, cr_arg value);
bool cr_py_sym_read(PyObject *o, cr_arg *out); /* false: not one; no exception */
cr_env *cr_py_sym_env(PyObject *o); /* borrowed; NULL: not one; no exception */
/* tensor(data) of nested sequences with symbolic numbers in them */
PyObject *cr_py_sym_tensor(PyObject *data, PyObject *dtype);
/* As cr_py_from_arg; numbers that are expressions are of `env` (NULL: of the mode around us). Consumes *a. */
PyObject *cr_py_from_arg_of(cr_env *env, cr_arg *a, bool lists);
/* The same of an argument that somebody else keeps: nothing of it is consumed. */
PyObject *cr_py_borrowed(const cr_frontend *fe, cr_env *env, const cr_arg *a);
/* A Python object as a result of op `name`, owned as cr_results_release expects. CR_ERUNTIME, saying what was expected,
 * for an object of no kind that ops take; CR_EPYTHON with an exception. */
CR_NODISCARD cr_status cr_py_take(const char *name, PyObject *o, const char *expected, cr_arg *out);
int cr_py_graph_init(PyObject *module);
PyObject *cr_py_graph_new(struct cr_graph *g); /* consumes the reference */
bool cr_py_graph_read(PyObject *o, cr_arg *out); /* false: not a Graph; no exception */
int cr_py_trace_init(PyObject *module);
int cr_py_aot_init(PyObject *module);      /* aot.c, aot_type.c: graphs with their gradients */
int cr_py_aot_type_init(PyObject *module);
struct cr_fakes *cr_py_mode_fakes(PyObject *o); /* of a FakeTensorMode, borrowed; NULL: exception */
int cr_py_shape_init(PyObject *module);         /* shape_type.c: symbols with sources, facts, solving */
int cr_py_tracer_init(PyObject *module);  /* tracer.c: what cresset.export records with */
int cr_py_body_init(PyObject *module);    /* body_type.c: bodies of regions while they are recorded */
/* A tensor that was just made from numbers of the program: while an export records, its copy is, and the tensor stands
 * for that. */
CR_NODISCARD cr_status cr_py_fresh(cr_tensor *t, bool detach);
bool cr_py_is_exporting(void); /* on this thread */
/* The default generator is about to start over: the export that runs on this thread, if any, will put its state
 * back. */
void cr_py_keep_generator(void);
/* While an export only reports: notes the last error as a problem of that kind; true: go on with an assumption. */
bool cr_py_pass_over(const char *kind);
/* The body of a region that is being recorded sets the mode: 1 (0: no body is; -1: exception). */
int cr_py_body_note_grad_mode(bool enabled);
int cr_py_note_grad_mode(bool enabled); /* forward sets the mode; 0, or -1 with an exception */
/* While an export records: has the real tensor the elements it had before? Then they may be read. */
bool cr_py_is_settled(const cr_tensor *t);
int cr_py_program_init(PyObject *module); /* program_type.c: archives */
int cr_py_program_new_init(PyObject *module);  /* program_new.c: making them of parts */
int cr_py_program_save_init(PyObject *module); /* program_save.c: writing them */
int cr_py_safetensors_init(PyObject *module);  /* safetensors.c */
int cr_py_torch_file_init(PyObject *module);
int cr_py_library_init(PyObject *module); /* library.c: custom operators */
int cr_py_decompose_init(PyObject *module); /* decompose.c: run_decompositions() */
int cr_py_native_init(PyObject *module);  /* native_type.c: compiled libraries */
int cr_py_check_init(PyObject *module);   /* check.c: fakes, decompositions, derivatives for tests */
int cr_py_autograd_init(PyObject *module); /* autograd_type.c: gradients */
int cr_py_vmap_init(PyObject *module); /* vmap.c: levels of vmap */
extern PyTypeObject cr_py_held_type;   /* node_type.c: what captures carry along and never look into */
int cr_py_page_init(PyObject *module);
/* src/capture, the floor above: the one function of it that this folder calls. */
int cr_capture_init(PyObject *module);
int cr_py_table_init(PyObject *module);   /* table.c: the op table shown to tests, stubs and docs */

#endif
