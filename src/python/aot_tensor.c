/* aot_tensor.c: what tensors answer of their gradients while a program is recorded that is differentiated ahead of
 * time.
 *
 * The program sees fakes without a tape. What follows from the inputs that they stand for is answered as eager code
 * answers it; what only a tape knows, or keeps, is refused: such a program runs on the tape (aot_function). */
#include "python/py.h"

#include "autograd/autograd.h"

bool cr_py_is_ahead(const cr_tensor *t) { return cr_ambient_get()->ahead && cr_tensor_is_fake(t); }

cr_tensor *cr_py_stands_for(const cr_tensor *t) {
    const cr_py_ahead *a = cr_ambient_get()->ahead;
    for (size_t i = 0; a && i < a->n; i++)
        if (a->stand_ins[i] == t) return a->inputs[i];
    return NULL;
}

bool cr_py_is_ahead_leaf(const cr_tensor *t) {
    cr_tensor *real = cr_py_stands_for(t);
    return !cr_tensor_requires_grad(t) || (real && cr_tensor_requires_grad(real) && cr_autograd_is_leaf(real));
}

bool cr_py_is_input_view(const cr_tensor *t) {
    const cr_tensor *real = cr_py_stands_for(t->base ? t->base : t);
    return real && real->base;
}

int cr_py_refuse_ahead(const char *what) {
    return cr_py_refuse(CR_FAIL(CR_EUNSUPPORTED, "%s inside of a compiled function, whose tensors have no tape; do it "
                                                 "before the call or after it",
                                what));
}
