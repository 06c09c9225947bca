/* Conditions in Python, for guards and messages: symbols are written as the sources of the sizes they stand for.
 *
 * Every compound operand gets parentheses, so that no reader needs a table of precedences. */
#include "sym/internal.h"
#include "sym/shape.h"

static void print(cr_env *env, cr_sym e, bool inner, cr_str *out);

/* A size by its source; the root of derived sizes by the first of them: (L['x'].size()[0] // 2), which is exact. */
static void print_symbol(cr_env *env, cr_sym symbol, cr_str *out) {
    const char *root = NULL;
    for (size_t i = 0; i < cr_shape_count(env); i++) {
        const cr_size *size = cr_shape_get(env, i);
        if (size->symbol != symbol) continue;
        if (size->promise != CR_SIZE_ROOT) {
            cr_str_add(out, size->source);
            return;
        }
        root = size->root;
    }
    for (size_t i = 0; root && i < cr_shape_count(env); i++) {
        const cr_size *size = cr_shape_get(env, i);
        if (size->promise != CR_SIZE_NAMED || !size->symbol || strcmp(size->root, root)) continue;
        if (size->shift)
            cr_str_addf(out, "((%s + (%lld)) // %lld)", size->source, -(long long)size->shift, (long long)size->scale);
        else cr_str_addf(out, "(%s // %lld)", size->source, (long long)size->scale);
        return;
    }
    cr_str_add(out, symbol->u.symbol->name);
}

static void print_infix(cr_env *env, cr_sym e, const char *sign, cr_str *out) {
    for (size_t i = 0; i < e->n; i++) {
        if (i) cr_str_add(out, sign);
        print(env, e->operand[i], true, out);
    }
}

static void print_call(cr_env *env, cr_sym e, const char *name, cr_str *out) {
    cr_str_addf(out, "%s(", name);
    for (size_t i = 0; i < e->n; i++) {
        if (i) cr_str_add(out, ", ");
        print(env, e->operand[i], false, out);
    }
    cr_str_addc(out, ')');
}

static void print_sum(cr_env *env, cr_sym e, cr_str *out) {
    for (size_t i = 0; i < e->n; i++) {
        int64_t c = cr_sym_coefficient(e, i);
        if (i) cr_str_add(out, " + ");
        if (c != 1) cr_str_addf(out, c < 0 ? "(%lld)*" : "%lld*", (long long)c);
        print(env, e->operand[i], true, out);
    }
    if (e->constant) cr_str_addf(out, e->constant < 0 ? " + (%lld)" : " + %lld", (long long)e->constant);
}

/* name: a function of one or more arguments; sign: an infix operator */
static const struct { const char *name, *sign; } forms[] = {
    [CR_SYM_MUL] = { NULL, "*" },          [CR_SYM_POW] = { NULL, "**" },
    [CR_SYM_FLOORDIV] = { NULL, " // " },  [CR_SYM_MOD] = { NULL, " % " },
    [CR_SYM_TRUEDIV] = { NULL, " / " },    [CR_SYM_MIN] = { "min", NULL },
    [CR_SYM_MAX] = { "max", NULL },        [CR_SYM_ABS] = { "abs", NULL },
    [CR_SYM_BITAND] = { NULL, " & " },     [CR_SYM_BITOR] = { NULL, " | " },
    [CR_SYM_TOFLOAT] = { "float", NULL },  [CR_SYM_FLOOR] = { "math.floor", NULL },
    [CR_SYM_CEIL] = { "math.ceil", NULL }, [CR_SYM_TRUNC] = { "math.trunc", NULL },
    [CR_SYM_ROUND] = { "round", NULL },    [CR_SYM_SQRT] = { "math.sqrt", NULL },
    [CR_SYM_CMOD] = { "math.fmod", NULL }, [CR_SYM_EQ] = { NULL, " == " },
    [CR_SYM_NE] = { NULL, " != " },        [CR_SYM_LT] = { NULL, " < " },
    [CR_SYM_LE] = { NULL, " <= " },        [CR_SYM_AND] = { NULL, " and " },
    [CR_SYM_OR] = { NULL, " or " },
};

static void print_compound(cr_env *env, cr_sym e, cr_str *out) {
    switch ((cr_sym_kind)e->kind) {
    case CR_SYM_ADD:
        if (e->type == CR_TYPE_INT) print_sum(env, e, out);
        else print_infix(env, e, " + ", out);
        break;
    case CR_SYM_NOT:
        cr_str_add(out, "not ");
        print(env, e->operand[0], true, out);
        break;
    case CR_SYM_CEILDIV: /* -(-a // b) */
        cr_str_add(out, "-((-");
        print(env, e->operand[0], true, out);
        cr_str_add(out, ") // ");
        print(env, e->operand[1], true, out);
        cr_str_addc(out, ')');
        break;
    case CR_SYM_TRUNCDIV:
        cr_str_add(out, "int(");
        print_infix(env, e, " / ", out);
        cr_str_addc(out, ')');
        break;
    case CR_SYM_WHERE:
        print(env, e->operand[1], true, out);
        cr_str_add(out, " if ");
        print(env, e->operand[0], true, out);
        cr_str_add(out, " else ");
        print(env, e->operand[2], true, out);
        break;
    default:
        if (e->kind < CR_COUNT(forms) && forms[e->kind].sign) print_infix(env, e, forms[e->kind].sign, out);
        else
            print_call(env, e, e->kind < CR_COUNT(forms) && forms[e->kind].name ? forms[e->kind].name : "unknown", out);
    }
}

static bool is_call(cr_sym e) { return e->kind < CR_COUNT(forms) && forms[e->kind].name; }

static void print(cr_env *env, cr_sym e, bool inner, cr_str *out) {
    /* s0 >= 2 rather than 2 <= s0 */
    bool turned = (e->kind == CR_SYM_LT || e->kind == CR_SYM_LE) && e->operand[0]->kind == CR_SYM_INTEGER;
    bool parentheses = inner && e->n && !is_call(e);
    if (parentheses) cr_str_addc(out, '(');
    if (e->kind == CR_SYM_SYMBOL) {
        print_symbol(env, e, out);
    } else if (turned) {
        print(env, e->operand[1], true, out);
        cr_str_addf(out, e->kind == CR_SYM_LT ? " > %lld" : " >= %lld", (long long)e->operand[0]->constant);
    } else if (e->n == 0) {
        if (inner && e->kind == CR_SYM_INTEGER && e->constant < 0) cr_str_addf(out, "(%lld)", (long long)e->constant);
        else cr_sym_print(e, out);
    } else {
        print_compound(env, e, out);
    }
    if (parentheses) cr_str_addc(out, ')');
}

void cr_shape_text(cr_env *env, cr_sym e, cr_str *out) {
    if (e) print(env, e, false, out);
    else cr_str_add(out, "(out of memory)");
}
