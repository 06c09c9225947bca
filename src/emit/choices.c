/* choices.c: which of the runtime's loops a model uses, so that the linker leaves out all others.
 *
 * The runtime's tables name every loop of every instruction set, and would keep all of them in every model. They are
 * weak (RT_CHOICE in rt.h); a model defines them itself and names what its steps can reach:
 *   - instructions of block programs: those that its programs have;
 *   - epilogues of products: activations whose names are among the arguments of its steps, cells whose kernels it
 *     calls;
 *   - products on f64 and on complex numbers: none when no tensor has such a dtype and no kernel computes in f64 all
 *     the same; on integers: none when no kernel takes any;
 *   - with one instruction set only, the functions that choose one return that set's table.
 * What a table does not name cannot be asked for: everything is found by looking at all steps, never by guessing. */
#include "emit/emit.h"
#include "runtime/kernels.h"
#include "runtime/rt_block_internal.h"
#include "runtime/rt_post.h"

typedef struct uses { bool op[RT_OP_COUNT], act[RT_ACT_COUNT], lstm, gru, f64, complex, integers, blocks; } uses;

/* ---- what is used ---- */

static void look_at(const rt_method *m, uses *u);

static void look_at_window(const rt_method *m, int32_t window, uses *u) {
    u->integers |= window >= 0 && rt_is_integer(m->windows[window].dtype);
}

static void look_at_step(const rt_method *m, const rt_step *s, uses *u) {
    if (s->kind == RT_STEP_BLOCK) {
        u->blocks = true;
        for (int k = 0; k < s->u.program->ninstr; k++) u->op[s->u.program->code[k].op] = true;
    }
    for (int k = 0; k < RT_STEP_BODIES(s->kind); k++) look_at(s->u.bodies[k], u);
    if (s->kind != RT_STEP_KERNEL && s->kind != RT_STEP_COUNT && s->kind != RT_STEP_NUMBER) return;
    u->lstm |= s->u.kernel == rt_k_lstm_packed;
    u->gru |= s->u.kernel == rt_k_gru_packed;
#define SEE(name) u->f64 |= s->u.kernel == name;
    RT_KERNELS_IN_F64(SEE)
#undef SEE
    for (int i = 0; i < s->nargs; i++) {
        const rt_operand_ref *a = &m->args[s->args + i];
        if (a->kind == RT_A_WINDOW) look_at_window(m, a->at, u);
        for (uint32_t k = 0; a->kind == RT_A_WINDOWS && k < a->n; k++)
            look_at_window(m, m->lists[(uint32_t)a->at + k], u);
        int act = a->kind == RT_A_STR ? rt_act_find(m->texts[a->at]) : -1;
        if (act >= 0) u->act[act] = true;
    }
}

static void look_at(const rt_method *m, uses *u) {
    for (int32_t i = 0; i < m->nwindows; i++) {
        int dtype = m->windows[i].dtype;
        u->f64 |= dtype == RT_F64 || dtype == RT_C128;
        u->complex |= rt_is_complex(dtype);
    }
    for (int32_t i = 0; i < m->nsteps; i++) look_at_step(m, &m->steps[i], u);
}

/* ---- tables ---- */

/* The widest set of the build that is no wider than `most`, else its narrowest. */
static const char *best(const cr_build *b, uint32_t most) {
    const cr_isa *found = b->isas[0];
    for (int i = 0; i < b->nisas; i++)
        if (!(b->isas[i]->needs & ~most)) found = b->isas[i];
    return found->loops;
}

static bool is_call(int op) { return !rt__block_base[op]; }

static void print_loops(cr_str *out, const char *table, const char *loops, const uses *u, bool calls) {
    for (int op = 0; op < RT_OP_COUNT; op++)
        if (u->op[op] && is_call(op) == calls)
            cr_str_addf(out, "rt_block_fn rt__%s_%s;\n", loops, rt_block_op_symbol(op));
    cr_str_addf(out, "rt_block_fn *const rt__block_%s[RT_OP_COUNT] = {", table);
    bool any = false;
    for (int op = 0; op < RT_OP_COUNT; op++) {
        if (!u->op[op] || is_call(op) != calls) continue;
        cr_str_addf(out, "\n  [RT_OP_%s] = rt__%s_%s,", rt_block_op_symbol(op), loops, rt_block_op_symbol(op));
        any = true;
    }
    if (!any) cr_str_add(out, " 0");
    cr_str_add(out, any ? "\n};\n" : " };\n");
}

static void print_post(cr_str *out, const char *table, const char *loops, const uses *u) {
    static const char *const names[] = {
#define X(name, ...) #name,
        RT_ACTS(X)
#undef X
    };
    for (int i = 0; i < RT_ACT_COUNT; i++)
        if (u->act[i]) cr_str_addf(out, "rt_act_fn rt__post_%s_act_%s;\n", loops, names[i]);
    cr_str_addf(out, "rt_blend_fn rt__post_%s_blend;\nrt_hide_fn rt__post_%s_hide;\n", loops, loops);
    if (u->lstm) cr_str_addf(out, "rt_lstm_fn rt__post_%s_lstm;\n", loops);
    if (u->gru) cr_str_addf(out, "rt_gru_fn rt__post_%s_gru;\n", loops);
    cr_str_addf(out, "const rt_post_isa rt__post_%s = { .blend = rt__post_%s_blend, .hide = rt__post_%s_hide", table,
                loops, loops);
    for (int i = 0; i < RT_ACT_COUNT; i++)
        if (u->act[i]) cr_str_addf(out, ", .act[RT_ACT_%s] = rt__post_%s_act_%s", names[i], loops, names[i]);
    if (u->lstm) cr_str_addf(out, ", .lstm = rt__post_%s_lstm", loops);
    if (u->gru) cr_str_addf(out, ", .gru = rt__post_%s_gru", loops);
    cr_str_add(out, " };\n");
}

/* `base`: the loops of rt__block_base; a table of the same ones is that table. */
static void print_tables(cr_str *out, const char *table, const char *loops, const char *base, const uses *u) {
    if (base && !strcmp(base, loops)) {
        static const char form[] = "extern __typeof__(%s_base) %s_%s __attribute__((alias(\"%s_base\"), "
                                   "visibility(\"hidden\")));\n";
        if (u->blocks) cr_str_addf(out, form, "rt__block", "rt__block", table, "rt__block");
        cr_str_addf(out, form, "rt__post", "rt__post", table, "rt__post");
        return;
    }
    if (u->blocks) print_loops(out, table, loops, u, false);
    print_post(out, table, loops, u);
}

/* Where there is nothing to choose. */
static void print_choosers(cr_str *out, const cr_isa *isa) {
    bool wide = isa->needs;
    cr_str_addf(out, "const gemm_isa *gemm_isa_get(void) { return %s%s; }\n", wide ? "gemm_" : "&gemm_", isa->name);
    cr_str_addf(out, "const conv_isa *conv_isa_get(void) { return %s%s; }\n", wide ? "conv_" : "&conv_", isa->name);
    cr_str_addf(out, "const rt_post_isa *rt__post_get(void) { return &rt__post_%s; }\n", isa->loops);
}

void cr__cpu_print_choices(cr_str *out, const cr_build *b, const rt_model *model) {
    const cr_target *target = b->target;
    uses u = { .act = { [RT_ACT_none] = true } };
    for (int i = 0; i < model->nmethods; i++) look_at(model->methods[i], &u);
    cr_str_add(out, "/* The loops that this model uses. */\n#include \"runtime/conv_isa.h\"\n#include "
                    "\"runtime/gemm_isa.h\"\n#include \"runtime/rt_post.h\"\n");
    if (u.blocks) print_loops(out, "calls", "calls", &u, true);
    else
        cr_str_add(out, "int rt_block_run(const rt_ctx *ctx, const rt_program *p, const rt_operand *o, const rt_scalar "
                        "*c) { (void)ctx, (void)p, (void)o, (void)c; return RT_ENOTIMPL; }\n");
    const char *base = best(b, 0);
    print_tables(out, "base", base, NULL, &u);
    if (target->isas[1]) {
        cr_str_addf(out, "#if defined(%s)\n", target->macro);
        for (const cr_isa *const *isa = target->isas + 1; *isa; isa++)
            print_tables(out, (*isa)->loops, best(b, (*isa)->needs), base, &u);
        cr_str_add(out, "#endif\n");
    }
    if (b->nisas == 1 && !target->flags_decide) print_choosers(out, b->isas[0]);
    static const char none[] = "{ static const gemm_kind none; return &none; }\n";
    if (!u.f64) cr_str_addf(out, "const gemm_kind *gemm_f64_get(void) %s", none);
    if (!u.integers)
        cr_str_addf(out, "const gemm_kind *gemm_integer_get(int compute __attribute__((unused))) %s", none);
    if (!u.complex)
        cr_str_add(out, "int gemm_complex(const rt_ctx *ctx, const rt_gemm_args *g) { (void)g; return rt_fail(ctx, "
                        "RT_ENOTIMPL, \"this model has no complex numbers\"); }\n");
}
