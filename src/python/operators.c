/* operators.c: x + y, x < y, -x, x += y, bool(x), int(x): Python's number protocol over the op table.
 *
 * An operator is a row: the op's name and, where the right operand is the tensor and the left one a number, what to do
 * instead. A NumPy array on either side becomes a tensor. An operand that no op takes gives NotImplemented, so that
 * Python asks the other side and words the error. */
#include "python/tensor.h"

typedef struct op_slot { const char *name; const cr_op *first; } op_slot;

static const cr_op *slot_op(op_slot *s) {
    if (!s->first) {
        if (cr_py_tensor_populate()) return NULL;
        s->first = cr_op_find_name("aten", s->name);
        if (!s->first) PyErr_Format(PyExc_NotImplementedError, "there is no op 'aten::%s'", s->name);
    }
    return s->first;
}

static PyObject *apply(cr_py_frame *f, op_slot *s, const cr_arg *args, size_t n) {
    const cr_op *first = slot_op(s);
    if (!first) return NULL;
    cr_binding binding;
    cr_status status = cr_bind(first, false, args, n, NULL, 0, &f->arena, &binding);
    return status ? cr_py_raise(status) : cr_py_run(f, binding.op, binding.args, CR_PY_METHOD);
}

/* 0: both are operands; 1: give NotImplemented; -1: exception. */
static int operands(cr_py_frame *f, PyObject *a, PyObject *b, cr_arg *args) {
    PyObject *const both[2] = { a, b };
    for (int i = 0; i < 2; i++) {
        int r = cr_py_convert(f, both[i], &args[i]);
        if (r) return r;
        if (args[i].kind != CR_ARG_TENSOR && !cr_arg_is_number(&args[i]) && args[i].kind != CR_ARG_SYM) return 1;
    }
    return 0;
}

/* A NumPy array as a tensor, on its memory unless its strides run backwards; anything else as it is; owned. NULL,
 * without an exception: no tensor can hold it. */
static PyObject *operand(PyObject *o) {
    if (cr_py_is_tensor(o) || PyLong_Check(o) || PyFloat_Check(o) || !cr_py_is_ndarray(o)) return Py_NewRef(o);
    cr_tensor *t = cr_py_buffer_import(o);
    if (!t) {
        PyErr_Clear();
        PyObject *copy = PyObject_CallMethod(o, "copy", NULL);
        t = copy ? cr_py_buffer_import(copy) : NULL;
        Py_XDECREF(copy);
    }
    if (!t) PyErr_Clear();
    return t ? cr_py_wrap(t) : NULL;
}

enum { PLAIN, SWAPPED, RECIPROCAL }; /* number OP tensor: op(number, tensor); op(tensor, number); 1 / tensor * number */
static PyObject *binary(op_slot *s, op_slot *reflected, int how, PyObject *left, PyObject *right) {
    PyObject *a = operand(left), *b = operand(right);
    if (!a || !b) {
        Py_XDECREF(a);
        Py_XDECREF(b);
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_NotImplemented);
    }
    cr_py_frame f;
    cr_py_frame_init(&f);
    cr_arg args[2];
    PyObject *result = NULL;
    int r = operands(&f, a, b, args);
    if (r > 0) {
        result = Py_NewRef(Py_NotImplemented);
    } else if (!r && args[0].kind == CR_ARG_TENSOR) {
        result = apply(&f, s, args, 2);
    } else if (!r && how == PLAIN) {
        result = apply(&f, reflected, args, 2);
    } else if (!r && how == SWAPPED) {
        cr_arg swapped[2] = { args[1], args[0] };
        result = apply(&f, reflected, swapped, 2);
    } else if (!r) {
        static op_slot reciprocal = { "reciprocal", NULL }, mul = { "mul", NULL };
        PyObject *inverse = apply(&f, &reciprocal, &args[1], 1);
        if (inverse) {
            cr_arg product[2] = { cr_arg_tensor(cr_py_tensor_of(inverse)), args[0] };
            result = apply(&f, &mul, product, 2);
            Py_DECREF(inverse);
        }
    }
    cr_py_frame_dispose(&f);
    Py_DECREF(a);
    Py_DECREF(b);
    return result;
}

#define BINARY(function, op, reflected_op, how)                                                                        \
    static PyObject *function(PyObject *a, PyObject *b) {                                                              \
        static op_slot s = { op, NULL }, r = { reflected_op, NULL };                                                   \
        return binary(&s, &r, how, a, b);                                                                              \
    }
BINARY(add, "add", "add", SWAPPED)
BINARY(subtract, "sub", "rsub", SWAPPED)
BINARY(multiply, "mul", "mul", SWAPPED)
BINARY(true_divide, "div", "div", RECIPROCAL)
BINARY(floor_divide, "floor_divide", "floor_divide", PLAIN)
BINARY(modulo, "remainder", "remainder", PLAIN)
BINARY(bit_and, "__and__", "bitwise_and", SWAPPED)
BINARY(bit_or, "__or__", "bitwise_or", SWAPPED)
BINARY(bit_xor, "__xor__", "bitwise_xor", SWAPPED)
BINARY(lshift, "__lshift__", "bitwise_left_shift", PLAIN)
BINARY(rshift, "__rshift__", "bitwise_right_shift", PLAIN)
BINARY(add_in_place, "add_", "add_", PLAIN)
BINARY(subtract_in_place, "sub_", "sub_", PLAIN)
BINARY(multiply_in_place, "mul_", "mul_", PLAIN)
BINARY(divide_in_place, "div_", "div_", PLAIN)
BINARY(floor_divide_in_place, "floor_divide_", "floor_divide_", PLAIN)
BINARY(modulo_in_place, "remainder_", "remainder_", PLAIN)
BINARY(and_in_place, "__iand__", "__iand__", PLAIN)
BINARY(or_in_place, "__ior__", "__ior__", PLAIN)
BINARY(xor_in_place, "__ixor__", "__ixor__", PLAIN)
BINARY(lshift_in_place, "__ilshift__", "__ilshift__", PLAIN)
BINARY(rshift_in_place, "__irshift__", "__irshift__", PLAIN)

static PyObject *matmul(PyObject *a, PyObject *b) {
    if ((!cr_py_is_tensor(a) && !cr_py_is_ndarray(a)) || (!cr_py_is_tensor(b) && !cr_py_is_ndarray(b)))
        Py_RETURN_NOTIMPLEMENTED;
    static op_slot s = { "matmul", NULL };
    return binary(&s, &s, PLAIN, a, b);
}

static PyObject *power(PyObject *a, PyObject *b, PyObject *modulus) {
    if (modulus != Py_None) Py_RETURN_NOTIMPLEMENTED;
    static op_slot s = { "pow", NULL };
    return binary(&s, &s, PLAIN, a, b);
}

static PyObject *power_in_place(PyObject *a, PyObject *b, PyObject *modulus) {
    if (modulus != Py_None) Py_RETURN_NOTIMPLEMENTED;
    static op_slot s = { "pow_", NULL };
    return binary(&s, &s, PLAIN, a, b);
}

PyObject *cr_py_tensor_richcompare(PyObject *a, PyObject *b, int op) {
    static op_slot s[] = { [Py_LT] = { "lt", NULL }, [Py_LE] = { "le", NULL }, [Py_EQ] = { "eq", NULL },
                           [Py_NE] = { "ne", NULL }, [Py_GT] = { "gt", NULL }, [Py_GE] = { "ge", NULL } };
    return binary(&s[op], &s[op], PLAIN, a, b);
}

static PyObject *unary(op_slot *s, PyObject *a) {
    cr_py_frame f;
    cr_py_frame_init(&f);
    cr_arg arg = cr_arg_tensor(cr_py_tensor_of(a));
    f.work = cr_py_numel(arg.u.t);
    PyObject *result = apply(&f, s, &arg, 1);
    cr_py_frame_dispose(&f);
    return result;
}

#define UNARY(function, op)                                                                                            \
    static PyObject *function(PyObject *a) {                                                                           \
        static op_slot s = { op, NULL };                                                                               \
        return unary(&s, a);                                                                                           \
    }
UNARY(negative, "neg")
UNARY(absolute, "abs")

static PyObject *positive(PyObject *a) {
    if (cr_py_tensor_of(a)->meta.dtype != CR_BOOL) return Py_NewRef(a);
    PyErr_SetString(PyExc_RuntimeError, "unary + is not defined for bool tensors");
    return NULL;
}

static PyObject *invert(PyObject *a) {
    static op_slot s = { "bitwise_not", NULL };
    int dtype = cr_py_tensor_of(a)->meta.dtype;
    if (!cr_dtype_is_integral(dtype))
        return PyErr_Format(PyExc_TypeError, "~ is only defined for integer and bool tensors, not %s",
                            cr_dtype_name(dtype));
    return unary(&s, a);
}

/* ---- tensors as Python numbers ---- */

static cr_status one_element(cr_tensor *t, cr_arg *out) {
    if (!cr_tensor_is_fake(t) && cr_py_numel(t) != 1)
        return CR_FAIL(CR_EVALUE, "only one element tensors can be converted to Python scalars");
    return cr_py_item(t, out);
}

static int truth(PyObject *self) {
    cr_tensor *t = cr_py_tensor_of(self);
    int64_t n = cr_tensor_is_fake(t) ? 1 : cr_py_numel(t);
    if (n != 1) {
        PyErr_Format(PyExc_RuntimeError, "the truth value of a Tensor with %s is ambiguous; use .any() or .all()",
                     n ? "more than one element" : "no elements");
        return -1;
    }
    cr_arg a;
    static const cr_op *is_nonzero;
    if (t->mapped) { /* says that the examples may disagree */
        PyObject *answer = cr_py_call(&is_nonzero, "aten::is_nonzero", &(cr_arg){ .kind = CR_ARG_TENSOR, .u.t = t }, 1);
        int known = answer ? PyObject_IsTrue(answer) : -1;
        Py_XDECREF(answer);
        return known;
    }
    cr_status status = cr_py_item(t, &a);
    if (status) return cr_py_fail(status);
    /* asks the facts, or says why it cannot */
    if (a.kind == CR_ARG_SYM || (a.kind == CR_ARG_INT && !cr_dim_is_plain(a.u.i))) {
        PyObject *number = cr_py_from_arg_of(t->env, &a, false);
        int known = number ? PyObject_IsTrue(number) : -1;
        Py_XDECREF(number);
        return known;
    }
    int yes = a.kind == CR_ARG_FLOAT     ? a.u.f != 0
              : a.kind == CR_ARG_COMPLEX ? a.u.c[0] != 0 || a.u.c[1] != 0
                                         : a.u.i != 0;
    cr_results_release(&a, 1);
    return yes;
}

static PyObject *as_number(PyObject *self) {
    cr_arg a;
    cr_status status = one_element(cr_py_tensor_of(self), &a);
    return status ? cr_py_raise(status) : cr_py_from_arg_of(cr_py_tensor_of(self)->env, &a, false);
}

static PyObject *as_int(PyObject *self) {
    PyObject *number = as_number(self);
    if (number && PyComplex_Check(number)) {
        Py_DECREF(number);
        PyErr_SetString(PyExc_RuntimeError, "a complex tensor has no int value; take .real first");
        return NULL;
    }
    PyObject *result = number ? PyNumber_Long(number) : NULL;
    Py_XDECREF(number);
    return result;
}

static PyObject *as_float(PyObject *self) {
    PyObject *number = as_number(self);
    if (number && PyComplex_Check(number)) {
        Py_complex c = ((PyComplexObject *)number)->cval;
        Py_DECREF(number);
        if (c.imag == 0) return PyFloat_FromDouble(c.real);
        PyErr_SetString(PyExc_RuntimeError, "a complex tensor with an imaginary part has no float value; take .real "
                                            "first");
        return NULL;
    }
    PyObject *result = number ? PyNumber_Float(number) : NULL;
    Py_XDECREF(number);
    return result;
}

static PyObject *as_index(PyObject *self) {
    cr_tensor *t = cr_py_tensor_of(self);
    if (!cr_dtype_is_integral(t->meta.dtype) || (!cr_tensor_is_fake(t) && cr_py_numel(t) != 1)) {
        PyErr_SetString(PyExc_TypeError, "only integer tensors of a single element can be converted to an index");
        return NULL;
    }
    return as_int(self);
}

PyNumberMethods cr_py_tensor_number = {
    .nb_add = add,
    .nb_subtract = subtract,
    .nb_multiply = multiply,
    .nb_remainder = modulo,
    .nb_power = power,
    .nb_negative = negative,
    .nb_positive = positive,
    .nb_absolute = absolute,
    .nb_bool = truth,
    .nb_invert = invert,
    .nb_lshift = lshift,
    .nb_rshift = rshift,
    .nb_and = bit_and,
    .nb_xor = bit_xor,
    .nb_or = bit_or,
    .nb_int = as_int,
    .nb_float = as_float,
    .nb_index = as_index,
    .nb_floor_divide = floor_divide,
    .nb_true_divide = true_divide,
    .nb_matrix_multiply = matmul,
    .nb_inplace_add = add_in_place,
    .nb_inplace_subtract = subtract_in_place,
    .nb_inplace_multiply = multiply_in_place,
    .nb_inplace_remainder = modulo_in_place,
    .nb_inplace_power = power_in_place,
    .nb_inplace_lshift = lshift_in_place,
    .nb_inplace_rshift = rshift_in_place,
    .nb_inplace_and = and_in_place,
    .nb_inplace_xor = xor_in_place,
    .nb_inplace_or = or_in_place,
    .nb_inplace_floor_divide = floor_divide_in_place,
    .nb_inplace_true_divide = divide_in_place,
};
