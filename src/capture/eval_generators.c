/* eval_generators.c: generators that the program makes.
 *
 * A generator is a frame of the evaluator's, suspended: an object whose next item is found by evaluating on. Whoever
 * iterates over it, a loop of the program or a function in C (sum, tuple, zip), asks for items in the same way. It
 * lives no longer than the capture. A generator with `try` or `with` in it is not taken: dropped half way, it would
 * have to run what is in there. */
#include "capture/evaluate.h"

#include "python/py.h"

#define HANDLER(name) int cr_do_##name(cr_capture *c, cr_call_frame *f, const cr_instruction *i)

typedef struct generator {
    PyObject_HEAD
    cr_capture *capture;
    cr_call_frame *frame; /* owned while suspended; NULL: it has ended, or runs */
    PyObject *item;       /* what it has just yielded */
} generator;

static PyTypeObject generator_type;

static void generator_dealloc(PyObject *self) {
    generator *g = (generator *)self;
    if (g->frame) cr_free_frame(g->frame);
    Py_XDECREF(g->item);
    PyObject_Free(self);
}

/* C code between here and the loop wants an exception. */
static PyObject *fail(const cr_capture *c) {
    if (!PyErr_Occurred()) PyErr_Format(cr_break_error, "%U", c->reason ? c->reason : Py_None);
    return NULL;
}

static PyObject *next_item(PyObject *self) {
    generator *g = (generator *)self;
    cr_capture *c = g->capture;
    cr_call_frame *outer = c->frame, *f = g->frame;
    if (!f) return NULL;
    g->frame = NULL;
    f->back = outer;
    f->generator = self;
    c->frame = f;
    cr_push(f, Py_NewRef(Py_None)); /* what it is sent */
    if (cr_run_until(c, outer)) return fail(c);
    PyObject *item = g->item;
    g->item = NULL;
    return item; /* NULL without an exception: it has ended */
}

static PyTypeObject generator_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "cresset._C._Generator",
    .tp_basicsize = sizeof(generator),
    .tp_dealloc = generator_dealloc,
    .tp_iter = PyObject_SelfIter,
    .tp_iternext = next_item,
    .tp_flags = Py_TPFLAGS_DEFAULT,
};

int cr_generators_init(void) { return PyType_Ready(&generator_type); }

/* From 3.12 on every generator has one handler of CPython's own, which renames StopIteration. Entries of the table
 * begin with a byte that says so. */
static bool has_handlers(const PyCodeObject *code) {
    const char *table = PyBytes_AS_STRING(code->co_exceptiontable);
    int entries = 0;
    for (Py_ssize_t i = 0; i < PyBytes_GET_SIZE(code->co_exceptiontable); i++) entries += (table[i] & 128) != 0;
    return entries > (PY_VERSION_HEX >= 0x030C0000);
}

/* The frame leaves the stack of frames and becomes an object. */
HANDLER(RETURN_GENERATOR) {
    (void)i;
    if (!f->back) return cr_break(c, "a generator is made");
    if (has_handlers(f->code))
        return cr_break(c, "the generator %U() has try or with in it", f->code->co_qualname);
    generator *g = PyObject_New(generator, &generator_type);
    if (!g) return -1;
    *g = (generator){ .ob_base = g->ob_base, .capture = c, .frame = f };
    c->frame = f->back;
    cr_push(f->back, (PyObject *)g);
    return 0;
}

HANDLER(YIELD_VALUE) {
    (void)i;
    generator *g = (generator *)f->generator;
    if (!g) return cr_break(c, "a generator is made");
    g->item = cr_pop(f);
    g->frame = f;
    c->frame = f->back;
    return 0;
}
