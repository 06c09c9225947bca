/* sym_type.c: SymInt, SymFloat and SymBool: numbers of a fake run that are expressions.
 *
 * Arithmetic is the op table's (`_operator.add` and so on), made outside of any recording: a graph that needs the
 * number finds it by its expression. Asking for a Python number or truth (int(s), `if s > 3`) settles on the hint and
 * records that as a guard; without a hint it is an error, because the answer depends on data. */
#include "python/py.h"

#include "sym/shape.h"
#include "trace/trace.h"

#include <float.h>
#include <math.h>

typedef struct symbolic { PyObject_HEAD cr_env *env; cr_arg value; } symbolic; /* value: INT (symbolic) or SYM */

static PyTypeObject int_type, float_type, bool_type;

static bool is_symbolic(PyObject *o) {
    return Py_IS_TYPE(o, &int_type) || Py_IS_TYPE(o, &float_type) || Py_IS_TYPE(o, &bool_type);
}

static cr_sym expr_of(const symbolic *s) {
    return s->value.kind == CR_ARG_SYM ? s->value.u.sym : cr_dim_sym(s->env, s->value.u.i);
}

PyObject *cr_py_sym_new(cr_env *env, cr_arg value) {
    if (!env) {
        PyErr_SetString(PyExc_RuntimeError, "a symbolic number outside of the fake mode that made it");
        return NULL;
    }
    cr_sym e = value.kind == CR_ARG_SYM ? value.u.sym : cr_dim_sym(env, value.u.i);
    if (!e) return PyErr_NoMemory();
    PyTypeObject *type = cr_sym_type_of(e) == CR_TYPE_INT     ? &int_type
                         : cr_sym_type_of(e) == CR_TYPE_FLOAT ? &float_type
                                                              : &bool_type;
    symbolic *s = PyObject_New(symbolic, type);
    if (!s) return NULL;
    cr_env_retain(s->env = env);
    s->value = value;
    s->value.given = CR_GIVEN_POSITIONAL;
    return (PyObject *)s;
}

bool cr_py_sym_read(PyObject *o, cr_arg *out) {
    if (!is_symbolic(o)) return false;
    *out = ((symbolic *)o)->value;
    if (out->kind == CR_ARG_INT) out->type = 1;
    return true;
}

cr_env *cr_py_sym_env(PyObject *o) { return is_symbolic(o) ? ((symbolic *)o)->env : NULL; }

PyObject *cr_py_from_arg_of(cr_env *env, cr_arg *a, bool lists) {
    cr_call_mode *mode = &cr_ambient_get()->mode;
    cr_env *saved = mode->env;
    if (env) mode->env = env;
    PyObject *o = cr_py_from_arg(a, lists);
    mode->env = saved;
    return o;
}

PyObject *cr_py_borrowed(const cr_frontend *fe, cr_env *env, const cr_arg *a) {
    if (a->kind == CR_ARG_TENSOR) {
        cr_tensor_retain(a->u.t);
        return fe->wrap(a->u.t);
    }
    if (a->kind == CR_ARG_LIST) {
        PyObject *list = PyList_New(a->n);
        for (uint32_t i = 0; list && i < a->n; i++) {
            PyObject *item = cr_py_borrowed(fe, env, &a->u.list[i]);
            if (!item) Py_CLEAR(list);
            else PyList_SET_ITEM(list, i, item);
        }
        return list;
    }
    if (a->kind == CR_ARG_COMPLEX) return PyComplex_FromDoubles(a->u.c[0], a->u.c[1]);
    if (a->kind == CR_ARG_STR) return PyUnicode_FromStringAndSize(a->u.s, a->n);
    if (a->kind == CR_ARG_DTYPE || a->kind == CR_ARG_LAYOUT || a->kind == CR_ARG_FORMAT || a->kind == CR_ARG_DEVICE)
        return fe->show(a);
    cr_arg copy = *a;
    return cr_py_from_arg_of(env, &copy, true);
}

static void sym_dealloc(PyObject *self) {
    cr_env_release(((symbolic *)self)->env);
    PyObject_Free(self);
}

static PyObject *sym_repr(PyObject *self) {
    cr_str text;
    cr_str_init(&text);
    cr_sym_print(expr_of((symbolic *)self), &text);
    PyObject *o = text.failed ? PyErr_NoMemory() : PyUnicode_FromString(cr_str_get(&text));
    cr_str_dispose(&text);
    return o;
}

/* ---- arithmetic ---- */

typedef enum sym_op {
    ADD, SUB, MUL, FLOORDIV, TRUEDIV, MOD, POW, NEG, EQ, NE, LT, LE, GT, GE, AND, OR, LSHIFT, RSHIFT, FLOAT, OPS
} sym_op;
static const char *const op_names[OPS] = {
    "_operator::add", "_operator::sub",    "_operator::mul",    "_operator::floordiv", "_operator::truediv",
    "_operator::mod", "_operator::pow",    "_operator::neg",    "_operator::eq",       "_operator::ne",
    "_operator::lt",  "_operator::le",     "_operator::gt",     "_operator::ge",       "_operator::and_",
    "_operator::or_", "_operator::lshift", "_operator::rshift", "torch::sym_float"
};

static bool operand(PyObject *o, cr_arg *out, cr_env **env) {
    if (is_symbolic(o)) {
        *out = ((symbolic *)o)->value;
        *env = ((symbolic *)o)->env;
        return true;
    }
    if (PyBool_Check(o)) return *out = cr_arg_bool(o == Py_True), true;
    if (PyFloat_Check(o)) return *out = cr_arg_float(PyFloat_AS_DOUBLE(o)), true;
    if (!PyLong_Check(o)) return false;
    int64_t value;
    if (cr_py_int64(o, "operand", &value)) return false;
    *out = cr_arg_int(value);
    return true;
}

static PyObject *wrap(cr_env *env, cr_arg a) {
    switch ((cr_arg_kind)a.kind) {
    case CR_ARG_INT: return cr_dim_is_plain(a.u.i) ? PyLong_FromLongLong(a.u.i) : cr_py_sym_new(env, a);
    case CR_ARG_BOOL: return PyBool_FromLong(a.u.i != 0);
    case CR_ARG_FLOAT: return PyFloat_FromDouble(a.u.f);
    default: return cr_py_sym_new(env, a);
    }
}

static bool is_bitwise(sym_op op) { return op == AND || op == OR || op == LSHIFT || op == RSHIFT; }
static bool is_real(PyObject *o) { return PyFloat_Check(o) || Py_IS_TYPE(o, &float_type); }
static bool is_truth(PyObject *o) { return PyBool_Check(o) || Py_IS_TYPE(o, &bool_type); }

/* An operand that has no example; NULL: it has one. */
static cr_sym unknown(cr_env *env, const cr_arg *a) {
    int64_t hint;
    double real;
    cr_sym e = a->kind == CR_ARG_SYM                                ? a->u.sym
               : a->kind == CR_ARG_INT && !cr_dim_is_plain(a->u.i) ? cr_dim_sym(env, a->u.i)
                                                                    : NULL;
    return !e || cr_env_hint(env, e, &hint) || cr_env_hint_float(env, e, &real) ? NULL : e;
}

static cr_status check(cr_env *env, cr_sym e, cr_cmp cmp, cr_sym limit) {
    return cr_env_check(env, cr_sym_compare(env, e, cmp, limit), "");
}

static bool divides(sym_op op) { return op == FLOORDIV || op == TRUEDIV || op == MOD; }
static bool shifts(sym_op op) { return op == LSHIFT || op == RSHIFT; }

/* What Python refuses of these operands, where only data tell what they are. */
static cr_status refuse_operands(cr_env *env, sym_op op, const cr_arg *args) {
    cr_sym b = divides(op) || shifts(op) || op == POW ? unknown(env, &args[1]) : NULL;
    if (b && divides(op)) return check(env, b, CR_NE, cr_sym_int(env, 0));
    if (b && shifts(op)) return check(env, b, CR_GE, cr_sym_int(env, 0));
    cr_sym a = op == POW ? unknown(env, &args[0]) : NULL;
    bool whole = a && cr_sym_type_of(a) != CR_TYPE_FLOAT && args[1].kind == CR_ARG_INT && !b && args[1].u.i >= 0;
    return (a || b) && !whole ? cr_env_undecided(env, a ? a : b) : CR_OK; /* an int, a float or a complex number? */
}

/* The example of an operand, and its expression (NULL: a constant). NULL: it has none, or an exception. */
static PyObject *example_of(cr_env *env, const cr_arg *a, PyObject *o, cr_sym *expression) {
    int64_t whole;
    double real;
    *expression = NULL;
    if (!is_symbolic(o)) return Py_NewRef(o);
    cr_sym e = *expression = a->kind == CR_ARG_INT ? cr_dim_sym(env, a->u.i) : a->u.sym;
    if (cr_sym_type_of(e) == CR_TYPE_FLOAT) return cr_env_hint_float(env, e, &real) ? PyFloat_FromDouble(real) : NULL;
    return cr_env_hint(env, e, &whole) ? PyLong_FromLongLong(whole) : NULL;
}

static PyObject *of_examples(sym_op op, PyObject *a, PyObject *b) {
    switch (op) {
    case FLOORDIV: return PyNumber_FloorDivide(a, b);
    case TRUEDIV: return PyNumber_TrueDivide(a, b);
    case MOD: return PyNumber_Remainder(a, b);
    case LSHIFT: return PyNumber_Lshift(a, b);
    case RSHIFT: return PyNumber_Rshift(a, b);
    default: return PyNumber_Power(a, b, Py_None);
    }
}

static cr_status guard_example(cr_env *env, cr_sym e, PyObject *example) {
    if (!e) return CR_OK;
    return check(env, e, CR_EQ, PyFloat_Check(example) ? cr_sym_float(env, PyFloat_AS_DOUBLE(example))
                                                       : cr_sym_int(env, PyLong_AsLongLong(example)));
}

/* What Python refuses of the examples it refuses of these operands alone: its exception, and a guard on both. */
static cr_status refuse_examples(cr_env *env, sym_op op, cr_sym *e, PyObject **examples) {
    PyObject *result = of_examples(op, examples[0], examples[1]);
    bool real = result && PyFloat_Check(result), complex = result && PyComplex_Check(result);
    bool finite = !real || isfinite(PyFloat_AS_DOUBLE(result));
    Py_XDECREF(result);
    if (complex || (op == POW && !finite)) return cr_env_undecided(env, e[0] ? e[0] : e[1]);
    if (result) return CR_OK;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    cr_status status = guard_example(env, e[0], examples[0]);
    if (!status) status = guard_example(env, e[1], examples[1]);
    if (!status) PyErr_Restore(type, value, trace);
    else Py_XDECREF(type), Py_XDECREF(value), Py_XDECREF(trace);
    return status;
}

/* What Python did not refuse of the examples it must not refuse of another call: where nothing uses the number, nobody
 * would notice. */
static cr_status guard_operands(cr_env *env, sym_op op, const cr_sym *e, bool inverse, const cr_arg *result) {
    cr_sym zero = cr_sym_int(env, 0), divisor = divides(op) ? e[1] : inverse ? e[0] : NULL;
    if (shifts(op)) return e[1] ? check(env, e[1], CR_GE, zero) : CR_OK;
    if (divisor) CR_TRY(check(env, divisor, CR_NE, zero));
    cr_sym r = op == POW && result->kind == CR_ARG_SYM ? result->u.sym : NULL; /* a float may overflow */
    if (!r || cr_sym_type_of(r) != CR_TYPE_FLOAT) return CR_OK;
    CR_TRY(check(env, r, CR_LE, cr_sym_float(env, DBL_MAX)));
    return check(env, r, CR_GE, cr_sym_float(env, -DBL_MAX));
}

/* An operator that Python refuses of some numbers. CR_OK with an exception: of these. */
static cr_status call_refusable(cr_env *env, sym_op op, const cr_op *row, PyObject *a, PyObject *b, cr_arg *args,
                                cr_arg *result) {
    cr_sym e[2];
    PyObject *examples[2] = { example_of(env, &args[0], a, &e[0]), example_of(env, &args[1], b, &e[1]) };
    bool known = examples[0] && examples[1];
    bool inverse = known && op == POW && PyLong_Check(examples[1]) && PyLong_AsLongLong(examples[1]) < 0;
    cr_status status = PyErr_Occurred() ? CR_OK : known ? refuse_examples(env, op, e, examples)
                                                        : refuse_operands(env, op, args);
    if (!status && !PyErr_Occurred()) status = cr_call(row, args, result);
    if (!status && !PyErr_Occurred() && known) status = guard_operands(env, op, e, inverse, result);
    Py_XDECREF(examples[0]);
    Py_XDECREF(examples[1]);
    return status;
}

/* The integer of a float: there is none of NaN, and none in 64 bits of large ones. */
static cr_status refuse_integer(cr_env *env, const char *name, const cr_arg *args) {
    cr_sym a = cr_env_is_exact(env) && !strncmp(name, "math::", 6) ? unknown(env, &args[0]) : NULL;
    if (!a || cr_sym_type_of(a) != CR_TYPE_FLOAT) return CR_OK;
    CR_TRY(check(env, a, CR_GE, cr_sym_float(env, -0x1p62)));
    return check(env, a, CR_LT, cr_sym_float(env, 0x1p63));
}

static PyObject *apply(sym_op op, PyObject *a, PyObject *b) {
    static const cr_op *ops[OPS];
    cr_arg args[2], result = cr_arg_none();
    cr_env *env = NULL;
    if (!operand(a, &args[0], &env) || (b && !operand(b, &args[1], &env)) ||
        (is_bitwise(op) && (is_real(a) || is_real(b)))) {
        if (PyErr_Occurred()) return NULL;
        Py_RETURN_NOTIMPLEMENTED;
    }
    cr_status status = cr_region_ops_init();
    if (!status && !ops[op] && !(ops[op] = cr_op_find(op_names[op])))
        status = CR_FAIL(CR_ENOTFOUND, "there is no op '%s'", op_names[op]);
    cr_call_mode *mode = &cr_ambient_get()->mode, saved = *mode;
    *mode = (cr_call_mode){ .fake = saved.fake, .depth = saved.depth + 1, .env = env };
    bool refusable = cr_env_is_exact(env) && (divides(op) || shifts(op) || op == POW);
    if (!status) status = refusable ? call_refusable(env, op, ops[op], a, b, args, &result)
                                    : cr_call(ops[op], args, &result);
    *mode = saved;
    if (!status && PyErr_Occurred()) return NULL;
    if (!status && saved.recorder && !saved.depth) status = cr_trace_number(saved.recorder, ops[op], args, &result);
    return status ? cr_py_raise(status) : wrap(env, result);
}

/* _sym_call(name, *numbers): an op on numbers by name, for what Python has no operator for. */
static PyObject *sym_call(PyObject *module, PyObject *const *args, Py_ssize_t n) {
    cr_arg values[3], result = cr_arg_none();
    cr_env *env = NULL;
    (void)module;
    const char *name = n ? PyUnicode_AsUTF8(args[0]) : NULL;
    if (!name || n > 4)
        return PyErr_Occurred() ? NULL
                                : PyErr_Format(PyExc_TypeError, "_sym_call() takes a name and at most 3 numbers");
    for (Py_ssize_t i = 1; i < n; i++)
        if (!operand(args[i], &values[i - 1], &env))
            return PyErr_Occurred() ? NULL
                                    : PyErr_Format(PyExc_TypeError, "%s: expected a number, not %s", name,
                                                   Py_TYPE(args[i])->tp_name);
    cr_status status = cr_region_ops_init();
    const cr_op *op = status ? NULL : cr_op_find(name);
    if (!status && (!op || op->schema.nparams != n - 1))
        status = CR_FAIL(CR_ENOTFOUND, "there is no op '%s' of %zd numbers", name, n - 1);
    cr_call_mode *mode = &cr_ambient_get()->mode, saved = *mode;
    *mode = (cr_call_mode){ .fake = saved.fake, .depth = saved.depth + 1, .env = env };
    if (!status) status = refuse_integer(env, name, values);
    if (!status) status = cr_call(op, values, &result);
    *mode = saved;
    return status ? cr_py_raise(status) : wrap(env, result);
}

#define BINARY(name, op) static PyObject *name(PyObject *a, PyObject *b) { return apply(op, a, b); }
BINARY(sym_add, ADD)
BINARY(sym_sub, SUB)
BINARY(sym_mul, MUL)
BINARY(sym_floordiv, FLOORDIV)
BINARY(sym_truediv, TRUEDIV)
BINARY(sym_mod, MOD)
BINARY(sym_and, AND)
BINARY(sym_or, OR)
BINARY(sym_lshift, LSHIFT)
BINARY(sym_rshift, RSHIFT)
static PyObject *sym_pow(PyObject *a, PyObject *b, PyObject *modulus) {
    if (modulus != Py_None) Py_RETURN_NOTIMPLEMENTED;
    return apply(POW, a, b);
}
static PyObject *sym_neg(PyObject *a) { return apply(NEG, a, NULL); }
/* A bool counts as 0 or 1 where Python makes an int of it. */
static PyObject *sym_pos(PyObject *a) {
    if (!Py_IS_TYPE(a, &bool_type)) return Py_NewRef(a);
    PyObject *zero = PyLong_FromLong(0), *result = zero ? apply(ADD, a, zero) : NULL;
    Py_XDECREF(zero);
    return result;
}

/* Two operators on the same operands, and the results joined. */
static PyObject *both(sym_op first, sym_op second, PyObject *a, PyObject *b,
                      PyObject *(*join)(PyObject *, PyObject *)) {
    PyObject *x = apply(first, a, b), *y = x && x != Py_NotImplemented ? apply(second, a, b) : NULL;
    PyObject *result = x == Py_NotImplemented ? Py_NewRef(x) : y ? join(x, y) : NULL;
    Py_XDECREF(x);
    Py_XDECREF(y);
    return result;
}
static PyObject *pair(PyObject *x, PyObject *y) { return PyTuple_Pack(2, x, y); }
static PyObject *sym_divmod(PyObject *a, PyObject *b) { return both(FLOORDIV, MOD, a, b, pair); }

/* PyTorch's programs have no ^ of numbers: of bools it is !=, else the bits of a | b that a & b has not. Nor have they
 * ~. */
static PyObject *sym_xor(PyObject *a, PyObject *b) {
    return is_truth(a) && is_truth(b) ? apply(NE, a, b) : both(OR, AND, a, b, sym_sub);
}
static PyObject *sym_invert(PyObject *a) {
    PyObject *one = PyLong_FromLong(1), *more = one ? apply(ADD, a, one) : NULL,
             *result = more ? PyNumber_Negative(more) : NULL;
    Py_XDECREF(one);
    Py_XDECREF(more);
    return result;
}
static PyObject *sym_compare(PyObject *a, PyObject *b, int op) {
    static const sym_op ops[] = { [Py_LT] = LT, [Py_LE] = LE, [Py_EQ] = EQ, [Py_NE] = NE, [Py_GT] = GT, [Py_GE] = GE };
    return apply(ops[op], a, b);
}

/* ---- settling on a value ---- */

static cr_status decide(const symbolic *s, cr_sym condition, bool *out) {
    cr_status status = cr_sym_decide(s->env, condition, out);
    /* the user's own branch: runs at 0 and 1 must take it, too */
    if (!status) status = cr_shape_rely(s->env, condition, *out);
    return status == CR_EDATADEP && cr_py_pass_over("data-dependent") ? (*out = false, CR_OK) : status;
}

static int sym_bool(PyObject *self) {
    const symbolic *s = (symbolic *)self;
    cr_sym e = expr_of(s);
    bool yes = false;
    if (cr_sym_type_of(e) == CR_TYPE_INT) e = cr_sym_compare(s->env, e, CR_NE, cr_sym_int(s->env, 0));
    else if (cr_sym_type_of(e) == CR_TYPE_FLOAT) e = cr_sym_compare(s->env, e, CR_NE, cr_sym_float(s->env, 0));
    cr_status status = decide(s, e, &yes);
    return status ? cr_py_fail(status) : yes;
}

/* There is no example to settle on; NULL, or the number to go on with where such questions are passed over. */
static PyObject *undecided(const symbolic *s, cr_sym e) {
    cr_status status = cr_env_undecided(s->env, e);
    return status == CR_EDATADEP && cr_py_pass_over("data-dependent") ? PyLong_FromLong(1) : cr_py_raise(status);
}

static PyObject *settle_int(const symbolic *s, cr_sym e) {
    int64_t hint;
    bool yes;
    if (!cr_env_hint(s->env, e, &hint)) return undecided(s, e);
    cr_status status = decide(s, cr_sym_compare(s->env, e, CR_EQ, cr_sym_int(s->env, hint)), &yes);
    return status ? cr_py_raise(status) : PyLong_FromLongLong(hint);
}

static PyObject *settle_float(const symbolic *s, cr_sym e) {
    double hint;
    bool yes;
    if (!cr_env_hint_float(s->env, e, &hint)) return undecided(s, e);
    cr_status status = decide(s, cr_sym_compare(s->env, e, CR_EQ, cr_sym_float(s->env, hint)), &yes);
    return status ? cr_py_raise(status) : PyFloat_FromDouble(hint);
}

/* a float is cut off first: int(n * 0.5) keeps every n that gives the same integer */
static PyObject *sym_int(PyObject *self) {
    const symbolic *s = (symbolic *)self;
    cr_sym e = expr_of(s);
    if (cr_sym_type_of(e) == CR_TYPE_FLOAT) e = cr_sym_make(s->env, CR_SYM_TRUNC, e, NULL, NULL);
    if (e && cr_sym_type_of(e) == CR_TYPE_INT) return settle_int(s, e);
    int yes = e ? sym_bool(self) : -1;
    return yes < 0 ? PyErr_Occurred() ? NULL : PyErr_NoMemory() : PyLong_FromLong(yes);
}

static PyObject *sym_float(PyObject *self) {
    PyObject *number = Py_IS_TYPE(self, &float_type) ? settle_float((symbolic *)self, expr_of((symbolic *)self))
                                                     : sym_int(self);
    PyObject *result = number ? PyNumber_Float(number) : NULL;
    Py_XDECREF(number);
    return result;
}

/* A SymInt in a set or as a key would be another number than the one it equals; PyTorch refuses it too, and settles the
 * others. */
static Py_hash_t sym_hash(PyObject *self) {
    if (Py_IS_TYPE(self, &int_type)) {
        PyErr_SetString(PyExc_TypeError, "unhashable type: 'SymInt'; use int(n), which fixes the program to this size, "
                                         "or compare with ==");
        return -1;
    }
    PyObject *number = Py_IS_TYPE(self, &float_type) ? sym_float(self) : sym_int(self);
    Py_hash_t hash = number ? PyObject_Hash(number) : -1;
    Py_XDECREF(number);
    return hash;
}

static PyObject *get_hint(PyObject *self, void *unused) {
    const symbolic *s = (symbolic *)self;
    int64_t hint;
    double real;
    (void)unused;
    if (cr_env_hint_float(s->env, expr_of(s), &real)) return PyFloat_FromDouble(real);
    if (!cr_env_hint(s->env, expr_of(s), &hint)) Py_RETURN_NONE;
    return cr_sym_type_of(expr_of(s)) == CR_TYPE_BOOL ? PyBool_FromLong(hint != 0) : PyLong_FromLongLong(hint);
}

/* What is put together from other operations is written in Python. */
static PyObject *in_python(const char *name, PyObject *self, PyObject *argument) {
    PyObject *module = PyImport_ImportModule("cresset._symbolic");
    PyObject *result = module ? PyObject_CallMethod(module, name, argument ? "OO" : "O", self, argument) : NULL;
    Py_XDECREF(module);
    return result;
}

PyObject *cr_py_sym_tensor(PyObject *data, PyObject *dtype) { return in_python("_tensor", data, dtype); }

/* s.node: what PyTorch programs look into (s.node.expr, s.node.hint). */
static PyObject *get_node(PyObject *self, void *unused) { return (void)unused, in_python("SymNode", self, NULL); }

/* math.ceil(s), math.floor(s), math.trunc(s), round(s), abs(s) */
static PyObject *by_name(const char *name, PyObject *self) {
    PyObject *text = PyUnicode_FromString(name), *result = NULL;
    if (text) result = sym_call(NULL, (PyObject *[]){ text, self }, 2);
    Py_XDECREF(text);
    return result;
}
static bool is_whole(PyObject *self) { return !Py_IS_TYPE(self, &float_type); }
static PyObject *sym_ceil(PyObject *self, PyObject *unused) {
    return (void)unused, is_whole(self) ? sym_pos(self) : by_name("math::ceil", self);
}
static PyObject *sym_floor(PyObject *self, PyObject *unused) {
    return (void)unused, is_whole(self) ? sym_pos(self) : by_name("math::floor", self);
}
static PyObject *sym_trunc(PyObject *self, PyObject *unused) {
    return (void)unused, is_whole(self) ? sym_pos(self) : by_name("math::trunc", self);
}
static PyObject *sym_round(PyObject *self, PyObject *args) {
    PyObject *digits = Py_None;
    return PyArg_ParseTuple(args, "|O:__round__", &digits) ? in_python("_round", self, digits) : NULL;
}
static PyObject *sym_conjugate(PyObject *self, PyObject *unused) { return (void)unused, sym_pos(self); }
static PyObject *sym_is_integer(PyObject *self, PyObject *unused) {
    return (void)unused, in_python("_is_integer", self, NULL);
}
static PyObject *sym_ratio(PyObject *self, PyObject *unused) {
    return (void)unused, in_python("_as_integer_ratio", self, NULL);
}

/* A method of Python's own number that no program has: of the number this one is settled on. */
static PyObject *settled(PyObject *self, const char *method) {
    PyObject *number = is_whole(self) ? sym_int(self) : sym_float(self),
             *result = number ? PyObject_CallMethod(number, method, NULL) : NULL;
    Py_XDECREF(number);
    return result;
}
static PyObject *sym_bit_length(PyObject *self, PyObject *unused) { return (void)unused, settled(self, "bit_length"); }
static PyObject *sym_hex(PyObject *self, PyObject *unused) { return (void)unused, settled(self, "hex"); }
static PyObject *sym_abs(PyObject *self) {
    PyObject *negative = sym_neg(self), *text = negative ? PyUnicode_FromString("torch::sym_max") : NULL;
    PyObject *result = text ? sym_call(NULL, (PyObject *[]){ text, self, negative }, 3) : NULL;
    PyObject *zero = result && is_real(result) ? PyFloat_FromDouble(0) : NULL;
    if (zero) Py_XSETREF(result, PyNumber_Add(result, zero)); /* of -0.0 it is 0.0 */
    Py_XDECREF(zero);
    Py_XDECREF(text);
    Py_XDECREF(negative);
    return result;
}
#define NUMBER_METHODS                                                                                 \
    { "__ceil__", sym_ceil, METH_NOARGS, NULL }, { "__floor__", sym_floor, METH_NOARGS, NULL },        \
        { "__trunc__", sym_trunc, METH_NOARGS, NULL }, { "__round__", sym_round, METH_VARARGS, NULL }, \
        { "conjugate", sym_conjugate, METH_NOARGS, NULL }, {                                           \
        "as_integer_ratio", sym_ratio, METH_NOARGS, NULL                                               \
    }
static PyMethodDef int_methods[] = { NUMBER_METHODS,
                                     { "bit_length", sym_bit_length, METH_NOARGS, NULL },
                                     { NULL, NULL, 0, NULL } };
static PyMethodDef float_methods[] = { NUMBER_METHODS,
                                       { "is_integer", sym_is_integer, METH_NOARGS, NULL },
                                       { "hex", sym_hex, METH_NOARGS, NULL },
                                       { NULL, NULL, 0, NULL } };
#define bool_methods int_methods /* a bool is an int */

static PyGetSetDef attributes[] = {
    { "node", get_node, NULL, "The expression behind it: node.expr, node.hint, node.shape_env.", NULL },
    { "hint", get_hint, NULL, "An example value, or None.", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};
/* Every number has all binary operators, so that a float on the right of an int is asked; what has no meaning is
 * refused by apply. */
#define ANY_NUMBER                                                                                               \
    .nb_add = sym_add, .nb_subtract = sym_sub, .nb_multiply = sym_mul, .nb_floor_divide = sym_floordiv,          \
    .nb_true_divide = sym_truediv, .nb_remainder = sym_mod, .nb_divmod = sym_divmod, .nb_power = sym_pow,        \
    .nb_negative = sym_neg, .nb_positive = sym_pos, .nb_absolute = sym_abs, .nb_and = sym_and, .nb_or = sym_or,  \
    .nb_xor = sym_xor, .nb_lshift = sym_lshift, .nb_rshift = sym_rshift, .nb_bool = sym_bool, .nb_int = sym_int, \
    .nb_float = sym_float
static PyNumberMethods int_number = { ANY_NUMBER, .nb_invert = sym_invert, .nb_index = sym_int };
static PyNumberMethods float_number = { ANY_NUMBER };
static PyNumberMethods bool_number = { ANY_NUMBER, .nb_index = sym_int }; /* no ~, which would not be `not` */
#define SYM_TYPE(id, name, doc)                        \
    static PyTypeObject id##_type = {                  \
        PyVarObject_HEAD_INIT(NULL, 0).tp_name = name, \
        .tp_basicsize = sizeof(symbolic),              \
        .tp_flags = Py_TPFLAGS_DEFAULT,                \
        .tp_doc = doc,                                 \
        .tp_dealloc = sym_dealloc,                     \
        .tp_repr = sym_repr,                           \
        .tp_hash = sym_hash,                           \
        .tp_richcompare = sym_compare,                 \
        .tp_as_number = &id##_number,                  \
        .tp_getset = attributes,                       \
        .tp_methods = id##_methods,                    \
    };
SYM_TYPE(int, "cresset.SymInt", "An integer of a fake run: an expression over symbols.")
SYM_TYPE(float, "cresset.SymFloat", "A float of a fake run: an expression over symbols.")
SYM_TYPE(bool, "cresset.SymBool", "A truth value of a fake run: an expression over symbols.")

int cr_py_sym_init(PyObject *module) {
    PyTypeObject *const types[] = { &int_type, &float_type, &bool_type };
    const char *const names[] = { "SymInt", "SymFloat", "SymBool" };
    for (size_t i = 0; i < CR_COUNT(types); i++)
        if (PyType_Ready(types[i]) || PyModule_AddObjectRef(module, names[i], (PyObject *)types[i])) return -1;
    static PyMethodDef functions[] = {
        { "_sym_call", (PyCFunction)(void (*)(void))sym_call, METH_FASTCALL,
          "_sym_call(name, *numbers): an op on numbers by name." },
        { NULL, NULL, 0, NULL },
    };
    return PyModule_AddFunctions(module, functions);
}
