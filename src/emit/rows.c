/* rows.c: loop IR as C: one function a kernel, explicit vectors, one body a loop.
 *
 * A kernel is written in the words of runtime/rt_rows_vector.h, which also says how wide a vector is; the unit is
 * compiled once per instruction set with another suffix for its names (CR_ROWS(name)). Kernels with the same text,
 * names and comments aside, are written once. */
#include "emit/emit.h"
#include "lower/rows.h"

#include <stdio.h>

typedef struct writer { cr_str *out; const cr_row_kernel *k; int depth; } writer;

static const char *type_of(int class) {
    return class == RT_CLASS_F32 ? "vf" : class == RT_CLASS_F64 ? "vd" : class == RT_CLASS_I64 ? "vl" : "vb";
}

/* The type of what is kept: a loop over several axes leaves it unaligned. */
static const char *memory_of(int class) {
    return class == RT_CLASS_F32   ? "mem_f32"
           : class == RT_CLASS_F64 ? "mem_f64"
           : class == RT_CLASS_I64 ? "mem_i64"
                                   : "mem_i32";
}

static const char *dtype_word(int dtype) {
    static const char *const words[RT_DTYPE_COUNT] = {
        [RT_F32] = "f32", [RT_F64] = "f64",   [RT_I64] = "i64", [RT_I32] = "i32",
        [RT_BOOL] = "b8", [RT_BF16] = "bf16", [RT_U8] = "u8"
    };
    return words[dtype];
}

static void line(writer *w) { cr_str_addf(w->out, "%*s", 4 * w->depth, ""); }

/* ---- values ---- */

/* As C reads it back exactly: 9 digits are enough for a float, 17 for a double, and a point keeps it from being an
 * integer. */
static void number(cr_str *out, double f, int digits, const char *suffix) {
    char text[64];
    if (f != f) cr_str_add(out, *suffix ? "__builtin_nanf(\"\")" : "__builtin_nan(\"\")");
    else if (f - f != 0) cr_str_addf(out, "%s%s", f > 0 ? "" : "-", *suffix ? "INF" : "__builtin_inf()");
    else {
        snprintf(text, sizeof text, "%.*g", digits, f);
        cr_str_addf(out, "%s%s%s", text, strpbrk(text, ".e") ? "" : ".0", suffix);
    }
}

static void literal(cr_str *out, const cr_row_value *v) {
    if (v->class == RT_CLASS_F32) {
        cr_str_add(out, "SPLAT(");
        number(out, v->f, 9, "f");
        cr_str_add(out, ")");
    } else if (v->class == RT_CLASS_F64) {
        cr_str_add(out, "SPLAT_F64(");
        number(out, v->f, 17, "");
        cr_str_add(out, ")");
    } else if (v->class == RT_CLASS_I64) {
        cr_str_addf(out, "SPLAT_I64((i64)%lluu)", (unsigned long long)v->i);
    } else {
        cr_str_addf(out, "mask_of((vi){ 0 } - %d)", v->i != 0);
    }
}

static void operation(cr_str *out, const cr_row_value *v, const cr_row_kernel *k) {
    static const struct {
        const char *name;
        char sign;
    } infix[] = { { "add", '+' }, { "sub", '-' }, { "mul", '*' }, { "div", '/' } };
    const char *name = rt_block_op_name(v->op);
    int class = k->value[v->in[!strcmp(name, "select")]].class; /* a choice is named after what it chooses */
    bool real = class == RT_CLASS_F32 || class == RT_CLASS_F64;
    for (size_t i = 0; i < CR_COUNT(infix) && real; i++)
        if (!strcmp(infix[i].name, name)) {
            cr_str_addf(out, "v%d %c v%d", v->in[0], infix[i].sign, v->in[1]);
            return;
        }
    if (real && !strcmp(name, "neg")) {
        cr_str_addf(out, "-v%d", v->in[0]);
        return;
    }
    if (class == RT_CLASS_B && (!strcmp(name, "add") || !strcmp(name, "max"))) name = "or";
    if (class == RT_CLASS_B && (!strcmp(name, "mul") || !strcmp(name, "min"))) name = "and";
    if (class == RT_CLASS_B && !strcmp(name, "ne")) name = "xor";
    if (!strcmp(name, "narrow_bf16")) {
        cr_str_addf(out, "widen_bf16(narrow_bf16(v%d))", v->in[0]);
        return;
    }
    bool ranged = class == RT_CLASS_F32 && (!strcmp(name, "sin") || !strcmp(name, "cos"));
    cr_str_addf(out, "%s%s_%s(", name, ranged ? "_near" : "", rt_class_name(class));
    for (int i = 0; i < 3 && v->in[i] >= 0; i++) cr_str_addf(out, "%sv%d", i ? ", " : "", v->in[i]);
    cr_str_add(out, ")");
}

/* Where a port's element of this iteration lies. In a loop, the row axes have been walked up to `levels`. */
static void address(writer *w, int port, bool inside) {
    const cr_row_kernel *k = w->k;
    const cr_row_port *p = &k->port[port];
    cr_str_addf(w->out, "p%d", port);
    if (!inside) return;
    for (int a = 0; a < k->nrow; a++) {
        bool lane = !k->column && a == k->nrow - 1;
        if (p->dim[k->naxes - k->nrow + a] < 0) continue;
        if (lane && p->access == CR_ACCESS_UNIT) cr_str_addf(w->out, " + %d * j", (int)rt_itemsize(p->dtype));
        else cr_str_addf(w->out, " + %c * c->stride[%d][%d]", a == k->nrow - 1 ? 'j' : 'f' + a, a, port);
    }
}

static void lane_step(writer *w, int port) {
    if (w->k->column) cr_str_addf(w->out, "c->step[%d]", port);
    else cr_str_addf(w->out, "c->stride[%d][%d]", w->k->nrow - 1, port);
}

static void load(writer *w, int port, bool inside) {
    const cr_row_port *p = &w->k->port[port];
    bool lanes = inside || w->k->column;
    const char *how = !lanes || p->access == CR_ACCESS_SAME ? "same" : p->access == CR_ACCESS_UNIT ? "get" : "gather";
    cr_str_addf(w->out, "%s_%s(", how, dtype_word(p->dtype));
    address(w, port, inside);
    if (*how == 'g' && how[1] == 'a') {
        cr_str_add(w->out, ", ");
        lane_step(w, port);
    }
    cr_str_add(w->out, *how == 's' ? ")" : ", k)");
}

/* The row's own address, and where in it the lanes are. */
static void rotate(writer *w, int port) {
    const cr_row_kernel *k = w->k;
    cr_str_addf(w->out, "rotate_f32(p%d", port);
    for (int a = 0; a < k->nrow - 1; a++)
        if (k->port[port].dim[k->naxes - k->nrow + a] >= 0)
            cr_str_addf(w->out, " + %c * c->stride[%d][%d]", 'f' + a, a, port);
    cr_str_add(w->out, ", j, n)");
}

static void store(writer *w, int port, bool inside) {
    const cr_row_port *p = &w->k->port[port];
    bool lanes = inside || w->k->column;
    line(w);
    cr_str_addf(w->out, "%s_%s(", lanes && p->access != CR_ACCESS_UNIT ? "scatter" : "put", dtype_word(p->dtype));
    address(w, port, inside);
    cr_str_add(w->out, ", ");
    if (lanes && p->access != CR_ACCESS_UNIT) {
        lane_step(w, port);
        cr_str_add(w->out, ", ");
    }
    cr_str_addf(w->out, "%s, v%d);\n", lanes ? "k" : "1", p->value);
}

static void scratch(writer *w, const cr_row_value *v) {
    bool narrow = v->class == RT_CLASS_F32 || v->class == RT_CLASS_B;
    cr_str_addf(w->out, "c->scratch + %d * c->room + %d * %s", v->scratch, narrow ? 4 : 8,
                w->k->column || w->k->nrow > 1 ? "e" : "j");
}

static void compute(writer *w, int v, int stage, bool inside) {
    const cr_row_value *x = &w->k->value[v];
    line(w);
    cr_str_addf(w->out, "%s v%d = ", type_of(x->class), v);
    if (inside && x->kept && x->stage < stage) {
        if (x->class == RT_CLASS_B) cr_str_add(w->out, "mask_of((vi)*(const mem_i32 *)(");
        else cr_str_addf(w->out, "((%s)*(const %s *)(", type_of(x->class), memory_of(x->class));
        scratch(w, x);
        cr_str_add(w->out, "));\n");
        return;
    }
    switch ((cr_row_kind)x->kind) {
    case CR_ROW_LOAD: load(w, x->port, inside); break;
    case CR_ROW_ROTATE: rotate(w, x->port); break;
    case CR_ROW_LITERAL: literal(w->out, x); break;
    case CR_ROW_COUNT: cr_str_add(w->out, "SPLAT((float)c->count)"); break;
    case CR_ROW_ROUND:
        cr_str_addf(w->out, "widen_%s(narrow_%s(v%d))", dtype_word(x->dtype), dtype_word(x->dtype), x->in[0]);
        break;
    case CR_ROW_OP: operation(w->out, x, w->k); break;
    default: break;
    }
    cr_str_add(w->out, ";\n");
    if (inside && x->kept) {
        line(w);
        cr_str_addf(w->out, "*(%s *)(", memory_of(x->class));
        scratch(w, x);
        if (x->class == RT_CLASS_B) cr_str_addf(w->out, ") = (mem_i32)mask_int(v%d);\n", v);
        else cr_str_addf(w->out, ") = (%s)v%d;\n", memory_of(x->class), v);
    }
}

/* ---- stages ---- */

static const struct {
    const char *start, *across;
} folds[] = { { "0.0f", "sum" }, { "-INF", "max" }, { "INF", "min" } };

static bool ends_in(const cr_row_kernel *k, int v, int stage) {
    return k->value[v].kind == CR_ROW_REDUCE && k->value[k->value[v].in[0]].stage == stage;
}

static void accumulate(writer *w, int v) {
    const cr_row_value *x = &w->k->value[v];
    char value[48];
    snprintf(value, sizeof value, w->k->column ? "v%d" : "keep_f32(v%d, k, %s)", x->in[0], folds[x->op].start);
    line(w);
    if (x->op == CR_FOLD_SUM) cr_str_addf(w->out, "a%d += %s;\n", v, value);
    else cr_str_addf(w->out, "a%d = %s_f32(a%d, %s);\n", v, folds[x->op].across, v, value);
}

/* Sums go to double every 64 vectors, so that long rows lose few digits. */
static void flush(writer *w, int stage) {
    const cr_row_kernel *k = w->k;
    bool some = false;
    for (int v = 0; v < k->nvalues; v++) some |= ends_in(k, v, stage) && k->value[v].op == CR_FOLD_SUM;
    if (!some) return;
    line(w);
    cr_str_add(w->out, k->column ? "if ((j & 63) == 63) {" : "if ((j & (64 * W - 1)) == 63 * W) {");
    for (int v = 0; v < k->nvalues; v++)
        if (ends_in(k, v, stage) && k->value[v].op == CR_FOLD_SUM)
            cr_str_addf(w->out, " s%d += to_f64_f32(a%d); a%d = SPLAT(0.0f);", v, v, v);
    cr_str_add(w->out, " }\n");
}

static void open_loops(writer *w, bool element) {
    const cr_row_kernel *k = w->k;
    if (element) {
        line(w);
        cr_str_add(w->out, "e = 0;\n");
    }
    for (int a = 0; a < k->nrow - 1; a++) {
        line(w);
        cr_str_addf(w->out, "for (i64 %c = 0; %c < c->n[%d]; %c++)\n", 'f' + a, 'f' + a, a, 'f' + a);
        w->depth++;
    }
    line(w);
    const char *step = k->column ? "j++" : "j += W";
    cr_str_addf(w->out, "for (i64 j = 0; j < n; %s%s) {\n", step, !element ? "" : k->column ? ", e += W" : "");
    w->depth++;
    if (!k->column) {
        line(w);
        cr_str_add(w->out, "const i64 k = n - j;\n");
    }
}

static void close_loops(writer *w, bool element) {
    /* rows of several axes: a scratch row is filled without gaps but for whole vectors */
    if (element && !w->k->column) {
        line(w);
        cr_str_add(w->out, "e += k < W ? k : W;\n");
    }
    w->depth--;
    line(w);
    cr_str_add(w->out, "}\n");
    w->depth -= w->k->nrow - 1;
}

static bool stores_in(const cr_row_kernel *k, int port, int stage) {
    const cr_row_value *v = &k->value[k->port[port].value];
    return k->port[port].varies && (v->varies ? v->stage : k->nstages - 1) == stage;
}

static void stage_loop(writer *w, int stage) {
    const cr_row_kernel *k = w->k;
    bool need[CR_ROW_MAX_VALUES], any = false, element = false;
    cr__row_needs(k, stage, need);
    for (int v = 0; v < k->nvalues; v++) {
        any |= need[v];
        element |= need[v] && k->value[v].kept && (k->column || k->nrow > 1);
    }
    for (int p = k->nin; p < k->nports; p++) any |= stores_in(k, p, stage);
    if (!any) return;
    for (int v = 0; v < k->nvalues; v++) {
        if (!ends_in(k, v, stage)) continue;
        line(w);
        cr_str_addf(w->out, "vf a%d = SPLAT(%s)", v, folds[k->value[v].op].start);
        cr_str_add(w->out, ";\n");
        if (k->value[v].op != CR_FOLD_SUM) continue;
        line(w);
        cr_str_addf(w->out, "vd s%d = { 0 };\n", v);
    }
    open_loops(w, element);
    for (int v = 0; v < k->nvalues; v++)
        if (need[v]) compute(w, v, stage, true);
    for (int p = k->nin; p < k->nports; p++)
        if (stores_in(k, p, stage)) store(w, p, true);
    for (int v = 0; v < k->nvalues; v++)
        if (ends_in(k, v, stage)) accumulate(w, v);
    flush(w, stage);
    close_loops(w, element);
    for (int v = 0; v < k->nvalues; v++) {
        if (!ends_in(k, v, stage)) continue;
        line(w);
        cr_str_addf(w->out, "const vf v%d = ", v);
        const char *word = folds[k->value[v].op].across;
        if (k->value[v].op == CR_FOLD_SUM)
            cr_str_addf(w->out, k->column ? "to_f32_f64(s%d + to_f64_f32(a%d));\n" : "total_f32(s%d, a%d);\n", v, v);
        else if (k->column) cr_str_addf(w->out, "a%d;\n", v);
        else cr_str_addf(w->out, "across_%s_f32(a%d);\n", word, v);
    }
}

static void body(writer *w) {
    const cr_row_kernel *k = w->k;
    cr_str_addf(w->out, "    const i64 n = c->n[%d];\n    for (i64 r = 0; r < c->rows; %s) {\n", k->nrow - 1,
                k->column ? "r += W" : "r++");
    w->depth = 2;
    if (k->column) cr_str_add(w->out, "        const i64 k = c->rows - r;\n");
    for (int p = 0; p < k->nports; p++)
        cr_str_addf(w->out, "        %schar *p%d = c->p[%d] + r * c->step[%d];\n", p < k->nin ? "const " : "", p, p, p);
    if (k->scratch && (k->column || k->nrow > 1))
        cr_str_add(w->out, "        i64 e; /* elements of the row so far */\n");
    for (int s = 0; s < k->nstages; s++) {
        for (int v = 0; v < k->nvalues; v++)
            if (!k->value[v].varies && k->value[v].stage == s && k->value[v].kind != CR_ROW_REDUCE)
                compute(w, v, s, false);
        stage_loop(w, s);
    }
    for (int p = k->nin; p < k->nports; p++)
        if (!k->port[p].varies) store(w, p, false);
    cr_str_add(w->out, "    }\n    (void)n;\n    return 0;\n");
}

/* ---- the unit ---- */

typedef struct known { char *text; char name[CR_ROW_NAME]; } known;
typedef CR_VEC(known) knowns;

static bool is_taken(const knowns *all, const char *name) {
    for (size_t i = 0; i < all->n; i++)
        if (!strcmp(all->at[i].name, name)) return true;
    return false;
}

/* The number of the kernel with this text, which is printed if it is new. */
static cr_status kernel_id(knowns *all, const cr_row_kernel *k, cr_str *text, cr_str *out, size_t *id) {
    known one = { 0 };
    for (*id = 0; *id < all->n; ++*id)
        if (!strcmp(all->at[*id].text, cr_str_get(text))) return CR_OK;
    snprintf(one.name, sizeof one.name, "k_%.40s", k->name);
    for (int n = 2; is_taken(all, one.name); n++) snprintf(one.name, sizeof one.name, "k_%.40s_%d", k->name, n);
    cr_str_addf(out, "\n/* %s */\nint CR_ROWS(%s)(const rt_rows_call *c) {\n%s}\n", k->comment, one.name,
                cr_str_get(text));
    CR_TRY(cr_vec_reserve(all, all->n + 1));
    CR_TRY(cr_str_take(text, &one.text));
    all->at[all->n++] = one;
    return CR_OK;
}

cr_status cr__emit_rows(const cr_lowered *l, cr_str *out, char (*names)[CR_ROW_NAME]) {
    knowns all = { 0 };
    cr_status status = CR_OK;
    for (size_t i = 0; i < l->kernels.n && !status; i++) {
        cr_str text;
        size_t id = 0;
        cr_str_init(&text);
        writer w = { &text, l->kernels.at[i], 0 };
        body(&w);
        status = cr_str_status(&text);
        if (!status) status = kernel_id(&all, w.k, &text, out, &id);
        if (!status) memcpy(names[i], all.at[id].name, sizeof names[i]);
        cr_str_dispose(&text);
    }
    for (size_t i = 0; i < all.n; i++) cr_free(all.at[i].text);
    cr_vec_dispose(&all);
    return status ? status : cr_str_status(out);
}
