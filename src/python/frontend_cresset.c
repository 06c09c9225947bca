/* frontend_cresset.c: Cresset's own tensors, dtypes, modules and ops as a front end. Every other file that knows
 * cresset.Tensor (tensor.h) is part of the library that this one describes. */
#include "python/tensor.h"

/* Looked up in the class, so that nothing of the user's runs. */
static bool has(PyTypeObject *type, PyObject *name) { return _PyType_Lookup(type, name) != NULL; }

/* A module is what export can walk: duck typing, as in PyTorch. */
static bool is_module(PyTypeObject *type) {
    static PyObject *names[4]; /* once */
    static const char *const texts[] = { "forward", "named_parameters", "named_buffers", "named_modules" };
    for (size_t i = 0; i < CR_COUNT(names); i++) {
        if (!names[i] && !(names[i] = PyUnicode_InternFromString(texts[i]))) return PyErr_Clear(), false;
        if (!has(type, names[i])) return false;
    }
    return true;
}

/* Parameters are marked in their class, stand-ins for them one by one. */
static bool is_parameter(PyObject *tensor) {
    static PyObject *mark; /* once */
    if (!mark && !(mark = PyUnicode_InternFromString("_is_param"))) return PyErr_Clear(), false;
    PyObject *dict = ((cr_py_tensor *)tensor)->dict, *own = dict ? PyDict_GetItemWithError(dict, mark) : NULL;
    PyObject *found = own ? own : _PyType_Lookup(Py_TYPE(tensor), mark);
    PyErr_Clear();
    return found == Py_True;
}

static cr_kind kind(PyObject *o) {
    if (cr_py_is_tensor(o)) return is_parameter(o) ? CR_KIND_PARAMETER : CR_KIND_TENSOR;
    return is_module(Py_TYPE(o)) ? CR_KIND_MODULE : CR_KIND_OTHER;
}

/* dtypes come first: they are the commonest argument that is neither a tensor nor a number. */
static int read_object(cr_py_frame *f, PyObject *o, cr_arg *out) {
    PyTypeObject *type = Py_TYPE(o);
    int value;
    if (cr_py_dtype_read(o, &value)) return *out = cr_arg_dtype(value), 0;
    if (cr_py_is_tensor(o)) { /* a subclass */
        *out = cr_arg_tensor(cr_py_tensor_of(o));
        f->work = CR_MAX(f->work, cr_py_numel(out->u.t));
        return 0;
    }
    if (type == &cr_py_device_type) {
        *out = (cr_arg){ .kind = CR_ARG_DEVICE, .given = CR_GIVEN_POSITIONAL };
        return cr_py_device_read(o, &out->u.device);
    }
    if (cr_py_format_read(o, &value) || cr_py_layout_read(o, &value)) {
        *out = (cr_arg){ .kind = type == &cr_py_format_type ? CR_ARG_FORMAT : CR_ARG_LAYOUT,
                         .given = CR_GIVEN_POSITIONAL,
                         .u.i = value };
        return 0;
    }
    if (!PyObject_TypeCheck(o, &cr_py_generator_type)) return 1;
    *out = (cr_arg){ .kind = CR_ARG_GENERATOR,
                     .given = CR_GIVEN_POSITIONAL,
                     .u.generator = ((cr_py_generator *)o)->generator };
    return 0;
}

static PyObject *show(const cr_arg *a) {
    switch ((cr_arg_kind)a->kind) {
    case CR_ARG_DTYPE: return cr_py_dtype_get((int)a->u.i);
    case CR_ARG_LAYOUT: return cr_py_layout_get((int)a->u.i);
    case CR_ARG_FORMAT: return cr_py_format_get((int)a->u.i);
    case CR_ARG_DEVICE: return cr_py_device_wrap(a->u.device);
    default:
        return PyErr_Format(PyExc_NotImplementedError, "a value of argument kind %d has no Python object", a->kind);
    }
}

static PyObject *stand_in(PyObject *tensor, cr_tensor *fake) {
    PyObject *o = cr_py_wrap_as(Py_TYPE(tensor), fake), *dict = ((cr_py_tensor *)tensor)->dict;
    if (o && dict && PyDict_GET_SIZE(dict) && !(((cr_py_tensor *)o)->dict = PyDict_Copy(dict))) Py_CLEAR(o);
    return o;
}

/* ---- what guards remember ---- */

struct cr_stamp {
    PyTypeObject *type; /* compared, never looked into: with its version it is that class and no later one */
    unsigned version;
    uint8_t dtype, rank, flags;
    bool requires_grad;
    uint32_t marks;     /* sizes that are marked to vary: others, where they are, want a capture of their own */
    cr_device device;
    cr_dim sizes[];     /* rank sizes, rank strides; ANY: left open */
};

#define ANY CR_DIM_OVERFLOW /* no size and no stride */

static uint32_t marks_of(PyObject *o) {
    return cr_marked_sizes(o, "_dynamo_dynamic_indices") | cr_marked_sizes(o, "_dynamo_unbacked_indices");
}

enum { STAMPED_FLAGS = CR_META_CONJ | CR_META_NEG | CR_META_WRAPPED };

static cr_stamp *stamp(PyObject *o, const cr_open_sizes *open) {
    const cr_tensor *t = cr_py_tensor_of(o);
    PyTypeObject *type = Py_TYPE(o);
    int rank = t->meta.rank;
    cr_stamp *s = PyMem_Malloc(sizeof *s + (size_t)rank * 2 * sizeof *s->sizes);
    if (!s) return (cr_stamp *)PyErr_NoMemory();
    *s = (cr_stamp){ .type = type,
                     .version = type == cr_py_tensor_type ? 0 : type->tp_version_tag,
                     .dtype = t->meta.dtype,
                     .rank = t->meta.rank,
                     .flags = t->meta.flags & STAMPED_FLAGS,
                     .requires_grad = cr_tensor_requires_grad(t),
                     .marks = ((cr_py_tensor *)o)->dict ? marks_of(o) : 0,
                     .device = t->meta.device };
    memcpy(s->sizes, t->meta.size, (size_t)rank * sizeof *s->sizes);
    memcpy(s->sizes + rank, t->meta.stride, (size_t)rank * sizeof *s->sizes);
    for (int d = 0; d < rank; d++) {
        if (open->sizes >> d & 1) s->sizes[d] = ANY;
        if (open->strides >> d & 1) s->sizes[rank + d] = ANY;
    }
    return s;
}

static bool check(const cr_stamp *s, PyObject *o) {
    if (Py_TYPE(o) != s->type || (s->version && s->type->tp_version_tag != s->version)) return false;
    const cr_tensor *t = cr_py_tensor_of(o);
    const cr_meta *m = &t->meta;
    if (m->dtype != s->dtype || m->rank != s->rank || (m->flags & STAMPED_FLAGS) != s->flags ||
        m->device.type != s->device.type || m->device.index != s->device.index || cr_tensor_is_fake(t) ||
        cr_tensor_requires_grad(t) != s->requires_grad ||
        (((cr_py_tensor *)o)->dict && (marks_of(o) & ~s->marks)))
        return false;
    for (int d = 0; d < m->rank; d++)
        if ((m->size[d] != s->sizes[d] && s->sizes[d] != ANY) ||
            (m->stride[d] != s->sizes[m->rank + d] && s->sizes[m->rank + d] != ANY))
            return false;
    return true;
}

/* Whether gradients are wanted of a view, its root says, too. */
static void watch(PyObject *o) {
    cr_tensor *t = cr_py_tensor_of(o);
    t->watched = true;
    if (t->base) t->base->watched = true;
}

static int64_t size_of(PyObject *o, int dim) { return cr_py_tensor_of(o)->meta.size[dim]; }
static int64_t stride_of(PyObject *o, int dim) { return cr_py_tensor_of(o)->meta.stride[dim]; }

/* Ops are, whatever their name; of what is written by hand, what says the same of a fake as of the tensor. */
static bool is_captured(PyObject *name) {
    static const char *const known[] = {
        "shape", "dtype", "device", "layout", "ndim", "itemsize", "nbytes", "T", "mT", "H", "mH", "real", "imag",
        "is_cpu", "is_cuda", "is_meta", "is_sparse", "is_quantized", "is_nested", "size", "stride", "dim", "ndimension",
        "numel", "nelement", "element_size", "is_contiguous", "contiguous", "is_floating_point", "is_complex",
        "is_signed", "is_conj", "is_neg", "get_device", "norm", "split", "to", "cpu", "float", "double", "half",
        "bfloat16", "long", "int", "short", "char", "byte", "bool", "cfloat", "cdouble", "chalf", "type", "nonzero",
        "unique", "unique_consecutive", "stft"
    };
    for (size_t i = 0; i < CR_COUNT(known); i++)
        if (PyUnicode_CompareWithASCIIString(name, known[i]) == 0) return true;
    PyObject *found = _PyType_Lookup(cr_py_tensor_type, name);
    return found && Py_IS_TYPE(found, &cr_py_method_type);
}

/* ---- what surrounds a call: the bits everybody knows, then mixed precision ---- */

enum {
    DEFAULT_DTYPE = 16 /* shift; of the process: not put back */,
    PLACED = 1 << 24,
    PLACE_TYPE = 32 /* shift */,
    PLACE_INDEX = 40 /* shift */
};

static uint64_t ambient(void) {
    const cr_ambient *a = cr_ambient_get();
    const cr_autocast *cast = &a->mode.autocast;
    return (a->grad ? CR_AMBIENT_GRAD : 0u) | (a->inference ? CR_AMBIENT_INFERENCE : 0u) |
           (cast->enabled ? CR_AMBIENT_AUTOCAST : 0u) | (cast->no_cache ? CR_AMBIENT_NO_CACHE : 0u) |
           (uint64_t)(uint8_t)cast->dtype << CR_AMBIENT_CAST_DTYPE |
           (uint64_t)(uint8_t)cr_default_dtype() << DEFAULT_DTYPE |
           (a->placed ? PLACED | (uint64_t)(uint8_t)a->place.type << PLACE_TYPE |
                            (uint64_t)(uint8_t)a->place.index << PLACE_INDEX
                      : 0u);
}

static void set_ambient(uint64_t word) {
    cr_ambient *a = cr_ambient_get();
    a->grad = word & CR_AMBIENT_GRAD;
    a->inference = word & CR_AMBIENT_INFERENCE;
    a->mode.autocast = cr_ambient_casts(word);
    a->placed = word & PLACED;
    a->place = (cr_device){ (uint8_t)(word >> PLACE_TYPE), (int8_t)(word >> PLACE_INDEX) };
}

/* ---- ops ---- */

static PyObject *resolve(PyObject *callable) {
    PyTypeObject *type = Py_TYPE(callable);
    if (type != &cr_py_overload_type && type != &cr_py_packet_type && type != &cr_py_function_type &&
        type != &cr_py_method_type)
        return NULL;
    const cr_py_op *o = (cr_py_op *)callable;
    if (o->form == CR_PY_OVERLOAD) return PyUnicode_FromString(o->first->name);
    return PyUnicode_FromFormat("%s::%U", o->first->schema.ns, o->name);
}

static PyObject *find(const char *name) {
    const cr_op *op = cr_op_find(name);
    return op ? cr_py_overload_get(op) : NULL;
}

cr_frontend cr_frontend_cresset = { /* once: tensor_type.c makes the type */
    .name = "cresset",
    .tensor_at = offsetof(cr_py_tensor, tensor),
    .kind = kind,
    .read = read_object,
    .wrap = cr_py_wrap,
    .show = show,
    .stand_in = stand_in,
    .stamp = stamp,
    .check = check,
    .watch = watch,
    .epoch = &cr_tensor_epoch,
    .size = size_of,
    .stride = stride_of,
    .is_captured = is_captured,
    .ambient = ambient,
    .set_ambient = set_ambient,
    .resolve = resolve,
    .find = find,
    .tables = { "_parameters", "_buffers", "_modules", "_non_persistent_buffers_set" },
};
