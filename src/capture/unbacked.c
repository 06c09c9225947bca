/* unbacked.c: numbers and sizes that depend on data, as symbols of the graph.
 *
 * Where the configuration says so, x.item() and the sizes of x.nonzero() are numbers that the graph computes, without
 * an example: on the stack a SymInt, SymFloat or SymBool as any other open number. What the program computes of them
 * are expressions; where one ends up in a result, the graph has it as an output. A question that facts do not decide
 * ends the capture at its instruction. What was taken as a fact (_check(), sizes that must be equal) becomes an
 * assertion of the graph: where it does not hold the graph fails, and the call runs plain. */
#include "capture/evaluate.h"

#include "python/py.h"
#include "sym/shape.h"

bool cr_depends_on_data(const cr_capture *c, cr_sym e) {
    if (cr_sym_kind_of(e) == CR_SYM_SYMBOL)
        return !cr_sym_is_backed(e) && !(c->numbers && cr_numbers_has(c->numbers, e));
    for (size_t i = 0; i < cr_sym_operand_count(e); i++)
        if (cr_depends_on_data(c, cr_sym_operand(e, i))) return true;
    return false;
}

bool cr_lacks_example(const cr_capture *c, PyObject *value) {
    cr_sym e = c->data || c->unbacked ? cr_open_expr(value) : NULL;
    int64_t hint;
    double real;
    return e && !cr_env_hint(c->fakes.env, e, &hint) && !cr_env_hint_float(c->fakes.env, e, &real);
}

/* Has it a size that an op counted? Others are numbers that the program read. */
static bool is_counted(const cr_capture *c, cr_sym e) {
    if (cr_sym_kind_of(e) == CR_SYM_SYMBOL) return cr_env_is_counted(e) && cr_depends_on_data(c, e);
    for (size_t i = 0; i < cr_sym_operand_count(e); i++)
        if (is_counted(c, cr_sym_operand(e, i))) return true;
    return false;
}

static int follow(cr_capture *c, cr_sym e, bool number) {
    bool counted = is_counted(c, e);
    unsigned need = counted ? CR_DYNAMIC_SHAPES : CR_DYNAMIC_SCALARS;
    bool foreign = c->frontend && c->frontend->borrow;
    /* a size by the program's own number was looked at when that was read; one that an op counts matters to nobody
     * until it is read, but that another library's tensors may have to end the capture for it */
    if (!number && (!counted || !(foreign || c->follows & CR_DYNAMIC_SHAPES))) return 0;
    if (!number && foreign && c->settles < CR_SETTLES_DATA) return c->data = true, cr_need_numbers(c);
    if (c->settles == CR_SETTLES_DATA)
        return cr_break(c, counted ? "a size depends on the data of a tensor, and nothing can be captured with it"
                                   : "a number is read from the data of a tensor, and nothing can be captured with it");
    if (!(c->follows & need))
        return cr_break(c, counted ? "a size depends on the data of a tensor: set "
                                     "cresset._dynamo.config.capture_dynamic_output_shape_ops before compile()"
                                   : "a number is read from the data of a tensor: set "
                                     "cresset._dynamo.config.capture_scalar_outputs before compile()");
    c->data = true;
    return cr_need_numbers(c);
}

static int check_sizes(cr_capture *c, PyObject *fake) {
    cr_py_frame frame;
    cr_arg a;
    if (!cr_env_unbacked_count(c->fakes.env)) return 0;
    cr_py_frame_init(&frame);
    int failed = cr_py_convert(&frame, fake, &a);
    const cr_meta *m = !failed && a.kind == CR_ARG_TENSOR ? &a.u.t->meta : NULL;
    for (int d = 0; m && !failed && d < m->rank; d++) {
        cr_sym e = cr_dim_is_plain(m->size[d]) ? NULL : cr_dim_sym(c->fakes.env, m->size[d]);
        failed = e && cr_depends_on_data(c, e) && follow(c, e, false);
    }
    cr_py_frame_dispose(&frame);
    return failed ? -1 : 0;
}

int cr_check_result(cr_capture *c, PyObject *value) {
    if (c->plain || c->tracer) return 0;
    cr_sym e = cr_open_expr(value);
    if (e) return cr_depends_on_data(c, e) ? follow(c, e, true) : 0;
    return cr_is_tensor_value(value) ? check_sizes(c, value) : 0;
}

int cr_check_numbers(cr_capture *c, PyObject *list) {
    for (Py_ssize_t k = 0; c->follows && PyList_CheckExact(list) && k < PyList_GET_SIZE(list); k++) {
        PyObject *item = PyList_GET_ITEM(list, k);
        if (PyList_CheckExact(item) ? cr_check_numbers(c, item) : cr_check_result(c, item)) return -1;
    }
    return 0;
}

/* ---- int(x), float(x), bool(x) ---- */

static PyObject *converted(PyObject *callable, PyObject *number) {
    static PyObject *call; /* once */
    PyObject *module = call ? NULL : PyImport_ImportModule("cresset._C");
    if (module) call = PyObject_GetAttrString(module, "_sym_call");
    Py_XDECREF(module);
    if (!call) return NULL;
    PyTypeObject *type = cr_class_of_open(number);
    if ((PyObject *)type == callable) return Py_NewRef(number);
    if (callable == (PyObject *)&PyFloat_Type) return PyObject_CallFunction(call, "sO", "torch::sym_float", number);
    if (callable == (PyObject *)&PyLong_Type)
        return type == &PyBool_Type ? PyNumber_Positive(number) : PyObject_CallFunction(call, "sO", "math::trunc",
                                                                                        number);
    PyObject *zero = PyLong_FromLong(0), *truth = zero ? PyObject_RichCompare(number, zero, Py_NE) : NULL;
    Py_XDECREF(zero);
    return truth;
}

int cr_read_number(cr_capture *c, PyObject *callable, const cr_arguments *a, PyObject **out) {
    bool is = callable == (PyObject *)&PyLong_Type || callable == (PyObject *)&PyFloat_Type ||
              callable == (PyObject *)&PyBool_Type;
    if (!is || a->n != 1 || a->kwnames) return 0;
    bool tensor = cr_is_tensor_value(a->at[0]) && c->follows & CR_DYNAMIC_SCALARS;
    if (!tensor && !cr_lacks_example(c, a->at[0])) return 0;
    c->on_tensors = true;
    PyObject *number = tensor ? PyObject_CallMethod(a->at[0], "item", NULL) : Py_NewRef(a->at[0]);
    *out = number && cr_is_open(number) ? converted(callable, number)
           : number                     ? PyObject_CallOneArg(callable, number) /* of a tensor that holds a constant */
                                        : NULL;
    Py_XDECREF(number);
    return *out ? 1 : -1;
}

/* ---- questions ---- */

/* What fullgraph raises for them: as in PyTorch. */
static void set_error(cr_capture *c) {
    PyObject *module = PyImport_ImportModule("cresset._dynamo.exc");
    PyObject *error = module ? PyObject_GetAttrString(module, "DataDependentError") : NULL;
    if (error) Py_XSETREF(c->error, error);
    else PyErr_Clear();
    Py_XDECREF(module);
}

void cr_break_on_data(cr_capture *c, PyObject *exception) {
    static const uint8_t branches[] = { CR_I_POP_JUMP_IF_FALSE, CR_I_POP_JUMP_IF_TRUE, CR_I_JUMP_IF_FALSE_OR_POP,
                                        CR_I_JUMP_IF_TRUE_OR_POP, CR_I_UNARY_NOT, CR_I_TO_BOOL, CR_I_COMPARE_OP };
    const cr_call_frame *f = c->frame;
    bool branch = false;
    PyObject *text = c->data || c->unbacked ? PyObject_Str(exception) : NULL;
    if (text) {
        cr_break(c, "%U", text);
        Py_DECREF(text);
        return set_error(c);
    }
    PyErr_Clear();
    for (size_t i = 0; f && i < CR_COUNT(branches); i++) branch |= f->instructions->at[f->current].id == branches[i];
    cr_break(c, branch ? "this branch depends on the data of a tensor: write it as cresset.cond(pred, a, b, operands), "
                         "or compile with fullgraph=False"
                       : "a number is read from the data of a tensor: keep it a tensor, or compile with "
                         "fullgraph=False");
}
