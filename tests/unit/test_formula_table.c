/* Every text of every row: parses, resolves, calls ops that exist, and handles every gradient. */
#include "check.h"
#include "ops/formula.h"

static void table(void) {
    CHECK_OK(cr_ops_init());
    size_t texts = 0;
    for (size_t i = 0; i < cr_op_count(); i++) {
        const cr_op *op = cr_op_at(i);
        if (op->variant != CR_FUNCTIONAL) continue;
        CHECK_OK(cr_formula_check(op));
        texts += (op->row->scalar != NULL) + (op->row->decomp != NULL) + (op->row->grad != NULL);
    }
    CHECK(texts > 0);
    printf("%zu texts of %zu ops\n", texts, cr_op_count());
}

int main(void) {
    RUN(table);
    return check_summary();
}
