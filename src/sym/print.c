/* Texts of expressions: infix as people and PyTorch's messages write it, and SymPy's srepr as its archives hold it.
 *
 * Both texts parse back to the same node. Infix precedence follows Python; conditions inside & and | get parentheses as
 * SymPy gives them. */
#include "sym/internal.h"
#include "sym/names.h"

#include <math.h>
#include <stdlib.h>

enum { LOOSE, OR_PRECEDENCE, AND_PRECEDENCE, COMPARE, SUM, PRODUCT, UNARY, POWER, TIGHT };

static void print(cr_sym e, int around, cr_str *out);

static void print_call(const char *name, cr_sym e, cr_str *out) {
    cr_str_add(out, name);
    cr_str_addc(out, '(');
    for (size_t i = 0; i < e->n; i++) {
        if (i) cr_str_add(out, ", ");
        print(e->operand[i], LOOSE, out);
    }
    cr_str_addc(out, ')');
}

static void print_real(double value, cr_str *out) {
    if (isnan(value)) cr_str_add(out, "nan");
    else if (isinf(value)) cr_str_add(out, value < 0 ? "-oo" : "oo");
    else cr_str_add_double(out, value);
}

static bool plain_name(const char *name) {
    if (cr__reserved_name(name) || (*name >= '0' && *name <= '9') || !*name) return false;
    for (; *name; name++)
        if (!cr__name_byte(*name)) return false;
    return true;
}

static void print_symbol_name(const char *name, cr_str *out) {
    cr_str_addc(out, '\'');
    for (; *name; name++) {
        if (*name == '\'' || *name == '\\') cr_str_addc(out, '\\');
        if ((unsigned char)*name < 0x20) cr_str_addf(out, "\\x%02x", (unsigned)(unsigned char)*name);
        else cr_str_addc(out, *name);
    }
    cr_str_addc(out, '\'');
}

static void print_sum(cr_sym e, cr_str *out) {
    for (size_t i = 0; i < e->n; i++) {
        int64_t c = e->u.coefficients[i];
        bool lowest = c == INT64_MIN; /* it has no positive counterpart to subtract */
        if (i) cr_str_add(out, c < 0 && !lowest ? " - " : " + ");
        else if (c < 0 && !lowest) cr_str_addc(out, '-');
        if (lowest) cr_str_addf(out, "%lld*", (long long)c);
        else if (c != 1 && c != -1) cr_str_addf(out, "%lld*", (long long)(c < 0 ? -c : c));
        /* A division in a product needs parentheses whatever its precedence says: (s0//2)*2 is not s0//(2*2). */
        cr_sym t = e->operand[i];
        print(t, t->kind == CR_SYM_MUL ? PRODUCT : c == 1 ? PRODUCT : UNARY, out);
    }
    if (e->constant == INT64_MIN) cr_str_addf(out, " + %lld", (long long)e->constant);
    else if (e->constant) cr_str_addf(out, e->constant < 0 ? " - %lld" : " + %lld", (long long)llabs(e->constant));
}

static void print_list(cr_sym e, const char *separator, int inside, cr_str *out) {
    for (size_t i = 0; i < e->n; i++) {
        if (i) cr_str_add(out, separator);
        print(e->operand[i], inside, out);
    }
}

static void print_product(cr_sym e, cr_str *out) {
    for (size_t i = 0; i < e->n; i++) {
        int64_t times = cr__times_written(e->operand[i]);
        for (int64_t k = 0; k < times; k++) {
            if (i || k) cr_str_addc(out, '*');
            print(times > 1 ? e->operand[i]->operand[0] : e->operand[i], UNARY, out);
        }
    }
}

static void print_comparison(cr_sym e, cr_str *out) {
    bool turned = e->operand[0]->n == 0 && e->operand[0]->kind <= CR_SYM_TRUTH; /* s0 >= 2 rather than 2 <= s0 */
    const char *sign = e->kind == CR_SYM_LT ? (turned ? " > " : " < ") : (turned ? " >= " : " <= ");
    print(e->operand[turned], SUM, out);
    cr_str_add(out, sign);
    print(e->operand[!turned], SUM, out);
}

static int precedence(cr_sym e) {
    switch ((cr_sym_kind)e->kind) {
    case CR_SYM_INTEGER: return e->constant < 0 ? UNARY : TIGHT;
    case CR_SYM_REAL: return signbit(e->u.real) ? UNARY : TIGHT;
    case CR_SYM_ADD: /* a single scaled term is a product */
        if (e->type == CR_TYPE_INT && e->n == 1 && e->constant == 0) return PRODUCT;
        return SUM;
    case CR_SYM_MUL:
    case CR_SYM_FLOORDIV: return PRODUCT;
    case CR_SYM_POW: return cr__is_power(e) ? POWER : TIGHT;
    case CR_SYM_LT:
    case CR_SYM_LE: return COMPARE;
    case CR_SYM_AND: return AND_PRECEDENCE;
    case CR_SYM_OR: return OR_PRECEDENCE;
    default: return TIGHT;
    }
}

/* `around`: what the surrounding text needs; a looser expression gets parentheses. */
static void print(cr_sym e, int around, cr_str *out) {
    bool parentheses = precedence(e) < around;
    if (parentheses) cr_str_addc(out, '(');
    switch ((cr_sym_kind)e->kind) {
    case CR_SYM_INTEGER: cr_str_addf(out, "%lld", (long long)e->constant); break;
    case CR_SYM_TRUTH: cr_str_add(out, e->constant ? "True" : "False"); break;
    case CR_SYM_REAL: print_real(e->u.real, out); break;
    case CR_SYM_SYMBOL:
        if (plain_name(e->u.symbol->name)) cr_str_add(out, e->u.symbol->name);
        else {
            cr_str_add(out, "Symbol(");
            print_symbol_name(e->u.symbol->name, out);
            cr_str_addc(out, ')');
        }
        break;
    case CR_SYM_ADD:
        if (e->type == CR_TYPE_INT) {
            print_sum(e, out);
        } else { /* floats: exactly this pair, and + groups from the left */
            print(e->operand[0], SUM, out);
            cr_str_add(out, " + ");
            print(e->operand[1], PRODUCT, out);
        }
        break;
    case CR_SYM_MUL:
        if (e->type == CR_TYPE_INT) {
            print_product(e, out);
        } else {
            print(e->operand[0], e->operand[0]->kind == CR_SYM_MUL ? PRODUCT : UNARY, out);
            cr_str_addc(out, '*');
            print(e->operand[1], POWER, out);
        }
        break;
    case CR_SYM_POW:
        if (!cr__is_power(e)) {
            print_call(cr__name_of(e), e, out);
        } else {
            print(e->operand[0], TIGHT, out);
            cr_str_addf(out, "**%lld", (long long)e->operand[1]->constant);
        }
        break;
    case CR_SYM_FLOORDIV:
        print(e->operand[0], UNARY, out);
        cr_str_add(out, "//");
        print(e->operand[1], UNARY, out);
        break;
    case CR_SYM_LT:
    case CR_SYM_LE: print_comparison(e, out); break;
    case CR_SYM_AND: print_list(e, " & ", TIGHT, out); break;
    case CR_SYM_OR: print_list(e, " | ", TIGHT, out); break;
    case CR_SYM_NOT:
        cr_str_addc(out, '~');
        print(e->operand[0], TIGHT, out);
        break;
    case CR_SYM_OPAQUE: cr_str_addf(out, "Opaque('%s')", cr__type_name((cr_sym_type)e->type)); break;
    case CR_SYM_EQ: print_call("Eq", e, out); break;
    case CR_SYM_NE: print_call("Ne", e, out); break;
    default: print_call(cr__name_of(e), e, out);
    }
    if (parentheses) cr_str_addc(out, ')');
}

void cr_sym_print(cr_sym e, cr_str *out) {
    if (e) print(e, LOOSE, out);
    else cr_str_add(out, "(out of memory)");
}

/* ---- srepr ---- */

static void print_srepr_call(const char *name, cr_sym e, cr_str *out) {
    cr_str_add(out, name);
    cr_str_addc(out, '(');
    for (size_t i = 0; i < e->n; i++) {
        if (i) cr_str_add(out, ", ");
        cr_sym_print_srepr(e->operand[i], out);
    }
    cr_str_addc(out, ')');
}

static void print_srepr_symbol(const cr__symbol *s, cr_sym_type type, cr_str *out) {
    cr_str_add(out, "Symbol(");
    print_symbol_name(s->name, out);
    if (type == CR_TYPE_INT) {
        if (s->unbacked) {} /* PyTorch assumes nothing about these, so that assertions about them stay expressions */
        else if (s->declared_lo >= 1) cr_str_add(out, ", positive=True");
        else if (s->declared_lo == 0) cr_str_add(out, ", nonnegative=True");
        cr_str_add(out, ", integer=True");
    } else if (type == CR_TYPE_FLOAT && strncmp(s->name, "zuf", 3)) { /* those that depend on data are plain */
        cr_str_add(out, ", real=True");
    }
    cr_str_addc(out, ')');
}

static void print_srepr_factors(cr_sym e, cr_str *out) {
    for (size_t i = 0; i < e->n; i++) {
        int64_t times = cr__times_written(e->operand[i]);
        for (int64_t k = 0; k < times; k++) {
            if (i || k) cr_str_add(out, ", ");
            cr_sym_print_srepr(times > 1 ? e->operand[i]->operand[0] : e->operand[i], out);
        }
    }
}

static void print_srepr_sum(cr_sym e, cr_str *out) {
    bool alone = e->n == 1 && e->constant == 0;
    if (!alone) cr_str_add(out, "Add(");
    for (size_t i = 0; i < e->n; i++) {
        cr_sym t = e->operand[i];
        if (i) cr_str_add(out, ", ");
        if (e->u.coefficients[i] == 1) {
            cr_sym_print_srepr(t, out);
            continue;
        }
        cr_str_addf(out, "Mul(Integer(%lld), ", (long long)e->u.coefficients[i]);
        if (t->kind == CR_SYM_MUL) print_srepr_factors(t, out);
        else cr_sym_print_srepr(t, out);
        cr_str_addc(out, ')');
    }
    if (e->constant) cr_str_addf(out, ", Integer(%lld)", (long long)e->constant);
    if (!alone) cr_str_addc(out, ')');
}

void cr_sym_print_srepr(cr_sym e, cr_str *out) {
    if (!e) {
        cr_str_add(out, "(out of memory)");
        return;
    }
    switch ((cr_sym_kind)e->kind) {
    case CR_SYM_INTEGER: cr_str_addf(out, "Integer(%lld)", (long long)e->constant); return;
    case CR_SYM_TRUTH: cr_str_add(out, e->constant ? "true" : "false"); return;
    case CR_SYM_REAL:
        if (!isfinite(e->u.real)) {
            print_real(e->u.real, out);
            return;
        }
        cr_str_add(out, "Float('");
        cr_str_add_double(out, e->u.real);
        cr_str_add(out, "', precision=53)");
        return;
    case CR_SYM_SYMBOL: print_srepr_symbol(e->u.symbol, (cr_sym_type)e->type, out); return;
    case CR_SYM_OPAQUE: cr_sym_print(e, out); return;
    case CR_SYM_ADD:
        if (e->type == CR_TYPE_INT) print_srepr_sum(e, out);
        else print_srepr_call("Add", e, out);
        return;
    case CR_SYM_MUL:
        cr_str_add(out, "Mul(");
        print_srepr_factors(e, out);
        cr_str_addc(out, ')');
        return;
    case CR_SYM_POW:
        print_srepr_call(cr__is_power(e) ? "Pow" : cr__name_of(e), e, out);
        return;
    default: print_srepr_call(cr__name_of(e), e, out);
    }
}
