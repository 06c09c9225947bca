/* A total order on structure. It depends on nothing but the expression itself, so sums, products and texts come out in
 * the same order in every environment: higher degrees first, symbols by name ("s2" before "s10"). */
#include "sym/internal.h"

static int sign_of(int64_t a, int64_t b) { return (a > b) - (a < b); }

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Runs of digits compare as numbers: longer is larger once leading zeros are gone. */
static int name_order(const char *a, const char *b) {
    const char *x = a, *y = b;
    while (*x && *y) {
        if (is_digit(*x) && is_digit(*y)) {
            while (*x == '0' && is_digit(x[1])) x++;
            while (*y == '0' && is_digit(y[1])) y++;
            size_t nx = strspn(x, "0123456789"), ny = strspn(y, "0123456789");
            if (nx != ny) return nx < ny ? -1 : 1;
            int order = memcmp(x, y, nx);
            if (order) return order;
            x += nx, y += ny;
        } else if (*x != *y) {
            return (unsigned char)*x < (unsigned char)*y ? -1 : 1;
        } else {
            x++, y++;
        }
    }
    if (*x || *y) return *x ? 1 : -1;
    return strcmp(a, b); /* s01 and s1 are different symbols */
}

int cr__order(cr_sym a, cr_sym b) {
    if (a == b) return 0;
    if (a->degree != b->degree) return a->degree > b->degree ? -1 : 1;
    if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
    if (a->type != b->type) return a->type < b->type ? -1 : 1;
    if (a->kind == CR_SYM_SYMBOL) return name_order(a->u.symbol->name, b->u.symbol->name);
    if (a->kind == CR_SYM_REAL) {
        int64_t x, y;
        memcpy(&x, &a->u.real, sizeof x);
        memcpy(&y, &b->u.real, sizeof y);
        return sign_of(x, y);
    }
    if (a->n != b->n) return a->n < b->n ? -1 : 1;
    for (size_t i = 0; i < a->n; i++) {
        int order = cr__order(a->operand[i], b->operand[i]);
        if (order) return order;
        order = sign_of(cr_sym_coefficient(a, i), cr_sym_coefficient(b, i));
        if (order) return order;
    }
    return sign_of(a->constant, b->constant);
}
