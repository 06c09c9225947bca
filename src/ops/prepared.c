/* prepared.c: see prepared.h. */
#include "ops/prepared.h"

#include "ops/call.h"
#include "ops/way.h"

void cr_prepare(const cr_op *op, const cr_arg *args, cr_prepared *out) {
    cr_rule r = { .out = r.inline_out, .common = -1 };
    *out = (cr_prepared){ .op = NULL };
    if (!op->row || !op->row->scalar || op->row->draws_arg || op->variant != CR_FUNCTIONAL || op->schema.nreturns != 1)
        return;
    if (cr_rule_run(&r, op, NULL, args, NULL)) cr_error_release(cr_error_take()); /* every call will say so */
    else if (r.nout == 1 && r.out[0].alias < 0 && !r.out[0].none && !r.out[0].scalar &&
             r.out[0].meta.device.type == CR_CPU && cr_way_of(&r, op) == CR_WAY_TEXT) {
        *out = (cr_prepared){ .op = op, .common = r.common, .default_dtype = cr_default_dtype() };
        cr_meta_copy(&out->result, &r.out[0].meta);
    }
    cr_rule_dispose(&r);
}

cr_status cr_prepared_run(const cr_prepared *p, const cr_arg *args, cr_arg *result) {
    cr_tensor *t;
    CR_TRY(cr_tensor_create(&p->result, &t));
    t->inference = cr_ambient_get()->inference;
    rt_view view = cr_tensor_view(t);
    cr_status status = cr_scalar_run(p->op, p->common, args, &view, 1);
    if (status) return cr_tensor_release(t), status;
    *result = cr_arg_tensor(t);
    return CR_OK;
}
