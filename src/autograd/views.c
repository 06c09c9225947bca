/* views.c: views and their roots. A root that is written to through a view becomes "the root with other elements
 * there"; every other view is read off it again when it is next asked for its history.
 *
 * A view shows elements of its root's memory by sizes, strides and an offset, however many ops it took to make it: one
 * as_strided reads it, one as_strided_scatter puts it back, and a root whose own sizes have changed since (t_()) makes
 * no difference. Only views that show the pairs of complex numbers, or pairs of real ones as complex numbers, take
 * another step: which one, the dtypes say. */
#include "autograd/internal.h"

cr_status cr__check_view(const char *op, const cr_tensor *v, bool since) {
    return v->base ? cr__refuse_view(op, v->view, since) : CR_OK;
}

cr_status cr__refuse_view(const char *op, uint8_t view, bool since) {
    const char *how = since ? "its base or another view of its base has been" : "is being";
    const char *mode = view & CR_VIEW_INFERENCE ? "inference" : view & CR_VIEW_NO_GRAD ? "no_grad" : NULL;
    if (!view) return CR_OK;
    if (!op) op = "gradient of a view";
    if (mode)
        return CR_FAIL(CR_ERUNTIME,
                       "%s: a view was created in %s mode and %s modified inplace with grad mode enabled, which is "
                       "ambiguous: make view and write both inside of %s(), or both outside",
                       op, mode, how, *mode == 'i' ? "inference_mode" : "no_grad");
    if (view & CR_VIEW_OF_FUNCTION)
        return CR_FAIL(CR_ERUNTIME,
                       "%s: the tensor is a view and %s modified inplace; it was created inside a custom Function (or "
                       "because an input was returned as-is), whose backward the write would pass over: clone() the "
                       "output of the function first",
                       op, how);
    return CR_FAIL(CR_ERUNTIME,
                   "%s: the tensor is a view and %s modified inplace; it is one of the outputs of a function that "
                   "returns multiple views, which cannot be modified inplace: use the functional form",
                   op, how);
}

/* ---- steps without data: fakes that have histories ---- */

static cr_status find_op(const char *name, const cr_op **out) {
    *out = cr_op_find(name);
    return *out ? CR_OK : CR_FAIL(CR_ENOTFOUND, "there is no op '%s'", name);
}

/* A fake of that meta and history; the edge's node is retained. */
static cr_status shape_of(const cr_meta *m, const cr__edge *history, cr_tensor **out) {
    cr_meta meta;
    cr_meta_copy(&meta, m);
    meta.flags &= (uint8_t)~CR_META_REQUIRES_GRAD;
    CR_TRY(cr_tensor_create_fake(NULL, &meta, out));
    if (!history->node) return CR_OK;
    cr_grad_node_retain(history->node);
    cr_status status = cr__autograd_set_fn(*out, history->node, history->result);
    if (status) cr_tensor_release(*out);
    return status;
}

/* The op's node over shapes, whose result looks like `to`. */
static cr_status node_on(const char *name, const cr_arg *args, const cr_meta *to, cr_grad_node **out) {
    const cr_op *op;
    cr_tensor *result;
    CR_TRY(find_op(name, &op));
    CR_TRY(shape_of(to, &(cr__edge){ NULL, 0 }, &result));
    cr_arg made = cr_arg_tensor(result);
    cr_status status = cr__node_create(op, args, &made, &(cr_saved){ .result_metas = 1 }, NULL, out);
    cr_tensor_release(result);
    return status;
}

/* A shape that is the node's result; takes over the node. */
static cr_status shape_after(cr_grad_node *node, const cr_meta *m, cr_tensor **out) {
    cr_status status = shape_of(m, &(cr__edge){ node, 0 }, out);
    cr_grad_node_release(node);
    return status;
}

static void geometry(const cr_meta *m, cr_arg *lists, cr_arg *args) {
    for (int d = 0; d < m->rank; d++) {
        lists[d] = cr_arg_int(m->size[d]);
        lists[CR_MAX_RANK + d] = cr_arg_int(m->stride[d]);
    }
    args[0] = cr_arg_list(lists, m->rank);
    args[1] = cr_arg_list(lists + CR_MAX_RANK, m->rank);
    args[2] = cr_arg_int(m->offset);
}

static cr_status strided(cr_tensor *whole, const cr_meta *part, cr_grad_node **out) {
    cr_arg lists[2 * CR_MAX_RANK], args[4] = { cr_arg_tensor(whole) };
    geometry(part, lists, args + 1);
    return node_on("aten::as_strided", args, part, out);
}

static cr_status scatter(cr_tensor *whole, const cr_meta *part, cr_tensor *contents, cr_grad_node **out) {
    cr_arg lists[2 * CR_MAX_RANK], args[5] = { cr_arg_tensor(whole), cr_arg_tensor(contents) };
    geometry(part, lists, args + 2);
    return node_on("aten::as_strided_scatter", args, &whole->meta, out);
}

/* ---- complex numbers and pairs of real ones ---- */

/* The same memory, numbers as pairs or pairs as numbers. */
static void turn(const cr_meta *from, cr_meta *to) {
    cr_meta_copy(to, from);
    if (cr_dtype_is_complex(from->dtype)) {
        to->dtype = (uint8_t)cr_dtype_to_real(from->dtype);
        to->offset = from->offset * 2;
        for (int d = 0; d < from->rank; d++) to->stride[d] = from->stride[d] * 2;
        to->size[to->rank] = 2;
        to->stride[to->rank++] = 1;
    } else {
        to->dtype = (uint8_t)cr_dtype_to_complex(from->dtype);
        to->offset = from->offset / 2;
        to->rank--;
        for (int d = 0; d < to->rank; d++) to->stride[d] = from->stride[d] / 2;
    }
}

/* The node that turns `shape`; *to: its result. */
static cr_status turned(cr_tensor *shape, cr_meta *to, cr_grad_node **out) {
    cr_arg arg = cr_arg_tensor(shape);
    bool complex = cr_dtype_is_complex(shape->meta.dtype);
    turn(&shape->meta, to);
    return node_on(complex ? "aten::view_as_real" : "aten::view_as_complex", &arg, to, out);
}

/* The same as a shape. */
static cr_status turned_shape(cr_tensor *shape, cr_tensor **out) {
    cr_grad_node *node;
    cr_meta to;
    CR_TRY(turned(shape, &to, &node));
    return shape_after(node, &to, out);
}

/* ---- reading and writing ---- */

static bool turns(const cr_tensor *v) { return v->meta.dtype != v->base->meta.dtype; }

/* The root as real numbers where the view shows real ones, and the view's place among them. */
static cr_status begin(cr_tensor *v, cr_tensor **whole, cr_meta *place) {
    cr__edge edge;
    CR_TRY(cr__edge_of(v->base, &edge));
    cr_status status = shape_of(&v->base->meta, &edge, whole);
    cr_grad_node_release(edge.node);
    if (status) return status;
    cr_meta_copy(place, &v->meta);
    if (!turns(v)) return CR_OK;
    if (cr_dtype_is_complex(v->meta.dtype)) {
        turn(&v->meta, place);
        return CR_OK;
    }
    cr_tensor *root = *whole;
    status = turned_shape(root, whole);
    cr_tensor_release(root);
    return status;
}

cr_status cr__node_of_view(cr_tensor *v, cr_grad_node **out) {
    cr_tensor *whole, *pairs;
    cr_meta place;
    CR_TRY(begin(v, &whole, &place));
    cr_status status = strided(whole, &place, out);
    cr_tensor_release(whole);
    if (status || !turns(v) || !cr_dtype_is_complex(v->meta.dtype)) return status;
    CR_TRY(shape_after(*out, &place, &pairs));
    status = turned(pairs, &place, out);
    cr_tensor_release(pairs);
    return status;
}

cr_status cr__node_of_root(cr_tensor *v, cr_grad_node *written, cr_grad_node **out) {
    cr_tensor *whole, *contents = NULL, *numbers = NULL;
    cr_meta place;
    CR_TRY(begin(v, &whole, &place));
    /* a gradient goes to what was written, not to what the view was */
    cr_status status = shape_of(&v->meta, &(cr__edge){ written, 0 }, &contents);
    bool pairs = !status && turns(v) && cr_dtype_is_complex(v->meta.dtype);
    if (pairs) {
        numbers = contents;
        status = turned_shape(numbers, &contents);
        if (status) contents = NULL;
    }
    if (!status) status = scatter(whole, &place, contents, out);
    if (!status && turns(v) && !pairs) {
        cr_tensor *scattered;
        status = shape_after(*out, &whole->meta, &scattered);
        if (!status) {
            status = turned(scattered, &place, out);
            cr_tensor_release(scattered);
        }
    }
    cr_tensor_release(numbers);
    cr_tensor_release(contents);
    cr_tensor_release(whole);
    return status;
}
