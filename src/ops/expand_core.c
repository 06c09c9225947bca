/* expand_core.c: decompositions of PyTorch's core dialect that cannot be texts, because they call ops without results
 * or go on from others. */
#include "ops/expand.h"
#include "ops/rules.h"

static void check_all(cr__run *r, cr_arg condition, const char *message) {
    cr__run_call(r, "aten::_assert_async.msg", 2, (cr_arg[]){ CR_RUN(r, "all", condition), cr_arg_str(message) });
}

/* The classes compared with 0, 1, ...; without a number of classes they are one more than the largest found. */
cr_status expand_one_hot_core(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    cr__run r = { .e = e };
    cr_arg classes = args[1];
    if (classes.u.i == -1)
        return CR_FAIL(CR_EDATADEP, "%s: how many classes there are depends on data; say num_classes", op->schema.name);
    int dtype = cr__run_meta(&r, &args[0])->dtype;
    check_all(&r, CR_RUN(&r, "ge.Scalar", args[0], cr_arg_int(0)), "one_hot: Class values must be non-negative.");
    check_all(&r, CR_RUN(&r, "lt.Scalar", args[0], classes), "one_hot: Class values must be smaller than num_classes.");
    cr_arg each = CR_RUN(&r, "arange", classes, cr_arg_dtype(dtype));
    cr_arg hit = CR_RUN(&r, "eq.Tensor", CR_RUN(&r, "unsqueeze", args[0], cr_arg_int(-1)), each);
    cr_arg y = *cr__run_call(&r, "aten::to.dtype", 2, (cr_arg[]){ hit, cr_arg_dtype(CR_I64) });
    return cr__run_finish(&r, 1, &y, results);
}

/* PyTorch gives the product its shape at the end. */
cr_status expand_multi_dot_core(cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results) {
    cr__run r = { .e = e };
    cr_arg product, items[2];
    CR_TRY(expand_multi_dot(e, op, args, &product));
    const cr_meta *m = cr__run_meta(&r, &product);
    for (int d = 0; d < m->rank && d < 2; d++) items[d] = cr_arg_int(m->size[d]);
    cr_arg y = CR_RUN(&r, "view", product, cr_arg_list(items, (size_t)m->rank));
    cr_status status = cr__run_finish(&r, 1, &y, results);
    e->release(e, &product, 1);
    return status;
}
