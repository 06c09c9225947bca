/* anomaly.c: looking for the call whose derivative fails, or makes NaNs: whoever turns it on hears of every node. */
#include "autograd/internal.h"

static cr_anomaly now;
static int lock; /* atomic: of `now` */
int cr__anomaly_on;

void cr_autograd_set_anomaly(const cr_anomaly *a) {
    cr__lock(&lock);
    if (a) now = *a;
    cr__unlock(&lock);
    __atomic_store_n(&cr__anomaly_on, a != NULL, __ATOMIC_RELEASE);
}

bool cr_autograd_anomaly(cr_anomaly *out) {
    if (!__atomic_load_n(&cr__anomaly_on, __ATOMIC_ACQUIRE)) return false;
    cr__lock(&lock);
    *out = now;
    cr__unlock(&lock);
    return true;
}

cr_status cr__anomaly_made(cr_grad_node *n) {
    cr_anomaly a;
    return cr_autograd_anomaly(&a) ? a.made(n) : CR_OK;
}

static cr_status has_nan(cr_tensor *t, bool *yes) {
    cr_tensor *each, *any;
    rt_scalar value;
    cr_arg arg = cr_arg_tensor(t);
    *yes = false;
    if (cr_dtype_is_integral(t->meta.dtype)) return CR_OK;
    CR_TRY(cr_call_1("aten::isnan", &arg, 1, &each));
    arg = cr_arg_tensor(each);
    cr_status status = cr_call_1("aten::any", &arg, 1, &any);
    cr_tensor_release(each);
    if (status) return status;
    status = cr_tensor_item(any, NULL, &value);
    if (!status) *yes = value.i != 0;
    cr_tensor_release(any);
    return status;
}

cr_status cr__anomaly_check(cr_grad_node *n, cr_status status, cr_tensor *const *made) {
    cr_anomaly a;
    bool nan = false;
    if (!cr_autograd_anomaly(&a)) return status;
    for (uint32_t i = 0; !status && a.check_nan && i < n->nslots && !nan; i++) {
        if (!made[i]) continue;
        status = has_nan(made[i], &nan);
        if (status || !nan) continue;
        cr_str name;
        cr_str_init(&name);
        cr_grad_node_name(n, &name);
        status = CR_FAIL(CR_ERUNTIME, "Function '%s' returned nan values in its %uth output; the warning above shows "
                                      "the line of the forward call",
                         cr_str_get(&name), i);
        cr_str_dispose(&name);
    }
    if (status) a.failed(n);
    return status;
}
