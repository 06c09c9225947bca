/* c.c: the tables of a lowered model as C.
 *
 * One static table after the other, named m0_steps, m0_windows, ...; bodies of branches first, then the methods, then
 * the model. Equal block programs are printed once. Everything that came with the archive passes through
 * cr__c_string. */
#include "emit/emit.h"
#include "runtime/kernels.h"

#include <stdio.h>

void cr__c_string(cr_str *out, const char *text, size_t n) {
    cr_str_addc(out, '"');
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c >= 0x20 && c < 0x7f && c != '"' && c != '\\' && c != '?') cr_str_addc(out, (char)c);
        else cr_str_addf(out, "\\%03o", c);
    }
    cr_str_addc(out, '"');
}

/* kernels.h again, each declaration being a comparison now. */
#undef RT_KERNEL
#define RT_KERNEL(kernel) if (k == kernel) return #kernel
#undef CRESSET_KERNELS_H
static const char *kernel_name(rt_kernel *k) {
#include "runtime/kernels.h"

#include <stdio.h>
    return NULL;
}

typedef struct writer {
    cr_str *out;
    int methods;
    CR_VEC(const rt_program *) programs;
    CR_VEC(const rt_method *) printed; /* their number is their name */
    char (*kernels)[CR_ROW_NAME];      /* names of row kernels */
} writer;

/* ---- block programs ---- */

static bool same_program(const rt_program *a, const rt_program *b) {
    return a->nin == b->nin && a->nout == b->nout && a->nconstants == b->nconstants && a->nliterals == b->nliterals &&
           a->nslots == b->nslots && a->ninstr == b->ninstr && a->nprologue == b->nprologue &&
           !memcmp(a->code, b->code, a->ninstr * sizeof *a->code) && !memcmp(a->in, b->in, a->nin * sizeof *a->in) &&
           !memcmp(a->out, b->out, a->nout * sizeof *a->out) &&
           !memcmp(a->constant, b->constant, a->nconstants * sizeof *a->constant) &&
           !memcmp(a->literal, b->literal, a->nliterals * sizeof *a->literal);
}

static void print_ports(cr_str *out, int id, const char *what, const rt_port *ports, int n) {
    cr_str_addf(out, "static const rt_port p%d_%s[] = {", id, what);
    for (int i = 0; i < n; i++)
        cr_str_addf(out, " {%d, %d, %d, %d},", ports[i].slot, ports[i].class, ports[i].round, ports[i].flags);
    cr_str_add(out, n ? " };\n" : " {0} };\n");
}

static void print_double(cr_str *out, double f) {
    uint64_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (f != f) cr_str_add(out, "__builtin_nan(\"\")");
    else if (f - f != 0) cr_str_add(out, f > 0 ? "__builtin_inf()" : "-__builtin_inf()");
    else cr_str_addf(out, "%a", f);
}

static cr_status program_id(writer *w, const rt_program *p, int *id) {
    for (size_t i = 0; i < w->programs.n; i++)
        if (w->programs.at[i] == p || same_program(w->programs.at[i], p)) return *id = (int)i, CR_OK;
    *id = (int)w->programs.n;
    CR_TRY(cr_vec_push(&w->programs, p));
    cr_str *out = w->out;
    cr_str_addf(out, "/* ");
    for (int i = 0; i < p->ninstr; i++) cr_str_addf(out, "%s%s", i ? " " : "", rt_block_op_name(p->code[i].op));
    cr_str_addf(out, " */\nstatic const rt_instr p%d_code[] = {", *id);
    for (int i = 0; i < p->ninstr; i++)
        cr_str_addf(out, " {RT_OP_%s, %d, {%d, %d, %d}},", rt_block_op_symbol(p->code[i].op), p->code[i].out,
                    p->code[i].in[0], p->code[i].in[1], p->code[i].in[2]);
    cr_str_add(out, p->ninstr ? " };\n" : " {0} };\n");
    print_ports(out, *id, "in", p->in, p->nin);
    print_ports(out, *id, "out", p->out, p->nout);
    print_ports(out, *id, "constant", p->constant, p->nconstants);
    cr_str_addf(out, "static const rt_literal p%d_literal[] = {", *id);
    for (int i = 0; i < p->nliterals; i++) {
        cr_str_addf(out, " {%d, %d, (int64_t)%lluu, ", p->literal[i].slot, p->literal[i].class,
                    (unsigned long long)p->literal[i].i);
        print_double(out, p->literal[i].re);
        cr_str_add(out, ", ");
        print_double(out, p->literal[i].im);
        cr_str_add(out, "},");
    }
    cr_str_add(out, p->nliterals ? " };\n" : " {0} };\n");
    cr_str_addf(out,
                "static const rt_program p%d = { %d, %d, %d, %d, %d, %d, %d, %d, %d, p%d_code, p%d_in, p%d_out, "
                "p%d_constant, p%d_literal };\n",
                *id, p->nin, p->nout, p->nconstants, p->nliterals, p->nslots, p->width, p->ninstr, p->nprologue,
                p->cost, *id, *id, *id, *id, *id);
    return CR_OK;
}

/* ---- methods ---- */

static void print_ints(cr_str *out, int id, const char *what, const int32_t *at, size_t n) {
    cr_str_addf(out, "static const int32_t m%d_%s[] = {", id, what);
    for (size_t i = 0; i < n; i++) cr_str_addf(out, "%s%d,", i % 24 ? "" : "\n  ", at[i]);
    cr_str_add(out, n ? "\n};\n" : " 0 };\n");
}

static void print_texts(cr_str *out, int id, const char *what, const char *const *at, size_t n) {
    cr_str_addf(out, "static const char *const m%d_%s[] = {\n", id, what);
    for (size_t i = 0; i < n; i++) {
        cr_str_add(out, "  ");
        cr__c_string(out, at[i], strlen(at[i]));
        cr_str_add(out, ",\n");
    }
    cr_str_add(out, n ? "};\n" : "  0 };\n");
}

static void print_numbers(cr_str *out, int id, const char *what, int k, const rt_number *at, int n) {
    static const char *const names[] = {
#define X(ID) #ID,
        RT_NUMBER_OPS(X)
#undef X
    };
    cr_str_addf(out, "static const rt_number m%d_%s%d[] = {", id, what, k);
    for (int i = 0; i < n; i++)
        cr_str_addf(out, "\n  {RT_N_%s, %d, %d, %d, %d},", names[at[i].kind], at[i].out, at[i].a, at[i].b, at[i].c);
    cr_str_add(out, n ? "\n};\n" : " {0} };\n");
}

static int method_id(const writer *w, const rt_method *m) {
    for (size_t i = 0; i < w->printed.n; i++)
        if (w->printed.at[i] == m) return (int)i;
    return -1;
}

/* How far a method's shared tables reach: their lengths are not part of it, because running does not need them. */
typedef struct extents { size_t dims, args, lists, texts, origins; } extents;

static void reach(size_t *end, size_t to) { *end = CR_MAX(*end, to); }

static void reach_args(const rt_method *m, int32_t from, size_t n, extents *e) {
    reach(&e->args, (size_t)from + n);
    for (size_t i = 0; i < n; i++) {
        const rt_operand_ref *a = &m->args[(size_t)from + i];
        if (a->kind == RT_A_WINDOWS || a->kind == RT_A_INTS || a->kind == RT_A_FLOATS || a->kind == RT_A_COMPLEX)
            reach(&e->lists, (size_t)a->at + a->n);
        if (a->kind == RT_A_STR) reach(&e->texts, (size_t)a->at + 1);
    }
}

static extents measure(const rt_method *m) {
    extents e = { 0 };
    for (int32_t i = 0; i < m->nwindows; i++) reach(&e.dims, (size_t)m->windows[i].dims + 2u * m->windows[i].rank);
    for (int32_t i = 0; i < m->nsteps; i++) {
        const rt_step *s = &m->steps[i];
        reach(&e.origins, (size_t)s->origin + 1);
        if (s->kind == RT_STEP_NUMBERS) continue;
        reach_args(m, s->args, s->nargs, &e);
        if (s->kind >= RT_STEP_COND) reach_args(m, s->outs, s->nout, &e);
        else reach(&e.lists, (size_t)s->outs + s->nout);
    }
    for (int32_t i = 0; i < m->ninputs; i++)
        if (m->inputs[i].kind == CRESSET_STRING) reach(&e.texts, (size_t)m->inputs[i].text + 1);
    for (int32_t i = 0; i < m->noutputs; i++)
        if (m->outputs[i].kind == CRESSET_STRING) reach(&e.texts, (size_t)m->outputs[i].at + 1);
    if (!m->nsteps) e.origins = 0;
    return e;
}

static cr_status print_method(writer *w, const rt_method *m, const char *info);

static void print_rows(writer *w, int id, int step, const rt_rows *r) {
    cr_str_addf(w->out, "static const rt_rows m%d_rows%d = { { ROWS(%s) }, %d, %d, %d, %d, %d, %d, %d };\n", id, step,
                w->kernels[r->kernel], r->nports, r->naxes, r->nrow, r->column, r->reduces, r->cost, r->scratch);
}

/* What a step's union holds, printed before the steps themselves. */
static cr_status print_step_parts(writer *w, const rt_method *m, int id, int *ids) {
    for (int32_t i = 0; i < m->nsteps; i++) {
        const rt_step *s = &m->steps[i];
        if (s->kind == RT_STEP_BLOCK) CR_TRY(program_id(w, s->u.program, &ids[i]));
        else if (s->kind == RT_STEP_ROWS) print_rows(w, id, i, s->u.rows);
        else if (s->kind == RT_STEP_NUMBERS) print_numbers(w->out, id, "numbers", i, s->u.numbers, s->nargs);
        else if (s->kind >= RT_STEP_COND && s->nafter) print_numbers(w->out, id, "after", i, s->after, s->nafter);
        if (s->kind >= RT_STEP_COND)
            cr_str_addf(w->out, "static const rt_method *const m%d_bodies%d[] = { &m%d, &m%d };\n", id, i,
                        method_id(w, s->u.bodies[0]), method_id(w, s->u.bodies[RT_STEP_BODIES(s->kind) - 1]));
    }
    return CR_OK;
}

static cr_status print_steps(writer *w, const rt_method *m, int id, const int *ids) {
    static const char *const kinds[] = { "KERNEL", "COUNT", "BLOCK",  "COPY", "NUMBER", "NUMBERS", "FILL",
                                         "CHECK",  "ROWS",  "CUSTOM", "COND", "WHILE",  "SCAN",    "FOLD" };
    cr_str *out = w->out;
    cr_str_addf(out, "static const rt_step m%d_steps[] = {\n", id);
    for (int32_t i = 0; i < m->nsteps; i++) {
        const rt_step *s = &m->steps[i];
        cr_str_addf(out, "  {RT_STEP_%s, %d, %d, %d, %d, %d, %d, %d, {", kinds[s->kind], s->nargs, s->nout, s->ncarried,
                    s->nslices, s->args, s->outs, s->origin);
        if (s->kind == RT_STEP_KERNEL || s->kind == RT_STEP_COUNT || s->kind == RT_STEP_NUMBER) {
            const char *name = kernel_name(s->u.kernel);
            if (!name)
                return CR_FAIL(CR_EUNSUPPORTED, "a kernel of this model is not in runtime/kernels.h (%s)",
                               m->origins[s->origin]);
            cr_str_addf(out, ".kernel = %s", name);
        } else if (s->kind == RT_STEP_BLOCK) cr_str_addf(out, ".program = &p%d", ids[i]);
        else if (s->kind == RT_STEP_ROWS) cr_str_addf(out, ".rows = &m%d_rows%d", id, i);
        else if (s->kind == RT_STEP_NUMBERS) cr_str_addf(out, ".numbers = m%d_numbers%d", id, i);
        else if (s->kind >= RT_STEP_COND) cr_str_addf(out, ".bodies = m%d_bodies%d", id, i);
        else cr_str_add(out, "0");
        if (s->nafter) cr_str_addf(out, "}, m%d_after%d, %d},\n", id, i, s->nafter);
        else cr_str_add(out, "}},\n");
    }
    cr_str_add(out, m->nsteps ? "};\n" : "  {0} };\n");
    return CR_OK;
}

static void print_memory(cr_str *out, const rt_method *m, int id) {
    static const char *const kinds[] = { "INPUT", "WEIGHT", "STATE", "SCRATCH", "RESULT" };
    cr_str_addf(out, "static const rt_buffer m%d_buffers[] = {\n", id);
    for (int32_t i = 0; i < m->nbuffers; i++) {
        const rt_buffer *b = &m->buffers[i];
        cr_str_addf(out, "  {RT_BUFFER_%s, %d, %d, %d, %d, %d, %llu},\n", kinds[b->kind], b->late, b->index, b->bytes,
                    b->first, b->last, (unsigned long long)b->offset);
    }
    cr_str_add(out, m->nbuffers ? "};\n" : "  {0} };\n");
    cr_str_addf(out, "static const rt_window m%d_windows[] = {", id);
    for (int32_t i = 0; i < m->nwindows; i++)
        cr_str_addf(out, "%s{%d, %d, %d, %d, %d},", i % 6 ? " " : "\n  ", m->windows[i].buffer, m->windows[i].offset,
                    m->windows[i].dims, m->windows[i].dtype, m->windows[i].rank);
    cr_str_add(out, m->nwindows ? "\n};\n" : " {0} };\n");
}

static void print_ports_of_method(cr_str *out, const rt_method *m, int id) {
    cr_str_addf(out, "static const int64_t m%d_constants[] = {", id);
    for (int32_t i = 0; i < m->nconstants; i++)
        cr_str_addf(out, "%s(int64_t)%lluu,", i % 10 ? " " : "\n  ", (unsigned long long)m->constants[i]);
    cr_str_add(out, m->nconstants ? "\n};\n" : " 0 };\n");
    cr_str_addf(out, "static const rt_input m%d_inputs[] = {\n", id);
    for (int32_t i = 0; i < m->ninputs; i++)
        cr_str_addf(out, "  {%d, %d, %d, %d, %d, %d},\n", m->inputs[i].kind, m->inputs[i].window, m->inputs[i].slot,
                    m->inputs[i].is_constant, m->inputs[i].written, m->inputs[i].text);
    cr_str_add(out, m->ninputs ? "};\n" : "  {0} };\n");
    cr_str_addf(out, "static const rt_bind m%d_binds[] = {\n", id);
    for (int32_t i = 0; i < m->nbinds; i++) {
        const rt_bind *b = &m->binds[i];
        cr_str_addf(out, "  {%d, %d, %d, %d, (int64_t)%lluu, (int64_t)%lluu},\n", b->input, b->dim, b->slot, b->check,
                    (unsigned long long)b->min, (unsigned long long)b->max);
    }
    cr_str_add(out, m->nbinds ? "};\n" : "  {0} };\n");
    cr_str_addf(out, "static const rt_output m%d_outputs[] = {", id);
    for (int32_t i = 0; i < m->noutputs; i++) cr_str_addf(out, " {%d, %d},", m->outputs[i].kind, m->outputs[i].at);
    cr_str_add(out, m->noutputs ? " };\n" : " {0} };\n");
}

static void print_args(cr_str *out, const rt_method *m, int id, size_t n) {
    static const char *const kinds[] = { "NONE",    "WINDOW", "WINDOWS", "INT", "FLOAT",
                                         "COMPLEX", "INTS",   "FLOATS",  "STR", "GENERATOR" };
    cr_str_addf(out, "static const rt_operand_ref m%d_args[] = {", id);
    for (size_t i = 0; i < n; i++)
        cr_str_addf(out, "%s{RT_A_%s, %u, %d},", i % 6 ? " " : "\n  ", kinds[m->args[i].kind], m->args[i].n,
                    m->args[i].at);
    cr_str_add(out, n ? "\n};\n" : " {0} };\n");
}

static cr_status print_method(writer *w, const rt_method *m, const char *info) {
    for (int32_t i = 0; i < m->nsteps; i++)
        for (int k = 0; k < RT_STEP_BODIES(m->steps[i].kind); k++)
            if (method_id(w, m->steps[i].u.bodies[k]) < 0) CR_TRY(print_method(w, m->steps[i].u.bodies[k], "0"));
    int id = (int)w->printed.n, *ids = cr_alloc(((size_t)m->nsteps + 1) * sizeof *ids);
    if (!ids) return CR_ENOMEM;
    cr_str *out = w->out;
    cr_status status = CR_OK;
    extents e = measure(m);
    CR_TRY_OUT(cr_vec_push(&w->printed, m));
    CR_TRY_OUT(print_step_parts(w, m, id, ids));
    print_ports_of_method(out, m, id);
    print_numbers(out, id, "entry", 0, m->entry, m->nentry);
    print_memory(out, m, id);
    print_ints(out, id, "dims", m->dims, e.dims);
    print_ints(out, id, "lists", m->lists, e.lists);
    print_args(out, m, id, e.args);
    print_texts(out, id, "texts", m->texts, e.texts);
    print_texts(out, id, "origins", m->origins, e.origins);
    CR_TRY_OUT(print_steps(w, m, id, ids));
    cr_str_addf(out,
                "static const rt_method m%d = {\n  %s, %d, %d, m%d_constants, m%d_inputs, %d, m%d_binds, %d, "
                "m%d_entry0, %d, m%d_buffers, %d, m%d_windows, %d,\n  m%d_dims, m%d_args, m%d_lists, m%d_texts, "
                "m%d_steps, %d, m%d_outputs, %d, %d, m%d_origins\n};\n\n",
                id, info, m->nslots, m->nconstants, id, id, m->ninputs, id, m->nbinds, id, m->nentry, id, m->nbuffers,
                id, m->nwindows, id, id, id, id, id, m->nsteps, id, m->noutputs, m->writes_state, id);
out:
    cr_free(ids);
    return status;
}

/* ---- the model ---- */

static void print_text_or_null(cr_str *out, const char *text) {
    if (text) cr__c_string(out, text, strlen(text));
    else cr_str_add(out, "0");
}

static void print_values(cr_str *out, int method, const char *what, const cresset_value_info *at, int n) {
    for (int i = 0; i < n; i++) {
        cr_str_addf(out, "static const cresset_dim f%d_%s%d[] = {", method, what, i);
        for (int d = 0; d < at[i].rank; d++) {
            cr_str_add(out, " {");
            cr__c_string(out, at[i].dims[d].text, strlen(at[i].dims[d].text));
            cr_str_addf(out, ", (int64_t)%lluu, (int64_t)%lluu},", (unsigned long long)at[i].dims[d].min,
                        (unsigned long long)at[i].dims[d].max);
        }
        cr_str_add(out, at[i].rank ? " };\n" : " {0, 0, 0} };\n");
    }
    cr_str_addf(out, "static const cresset_value_info f%d_%s[] = {\n", method, what);
    for (int i = 0; i < n; i++) {
        cr_str_add(out, "  {");
        cr__c_string(out, at[i].name, strlen(at[i].name));
        cr_str_addf(out, ", %d, %d, %d, f%d_%s%d, ", at[i].kind, at[i].dtype, at[i].rank, method, what, i);
        print_text_or_null(out, at[i].constant);
        cr_str_add(out, "},\n");
    }
    cr_str_add(out, n ? "};\n" : "  {0} };\n");
}

static void print_infos(cr_str *out, const cresset_api *api) {
    for (int i = 0; i < api->nmethods; i++) {
        print_values(out, i, "in", api->methods[i].inputs, api->methods[i].ninputs);
        print_values(out, i, "out", api->methods[i].outputs, api->methods[i].noutputs);
    }
    cr_str_add(out, "static const cresset_method_info infos[] = {\n");
    for (int i = 0; i < api->nmethods; i++) {
        const cresset_method_info *f = &api->methods[i];
        cr_str_add(out, "  {");
        cr__c_string(out, f->name, strlen(f->name));
        cr_str_addf(out, ", f%d_in, f%d_out, %d, %d,\n    ", i, i, f->ninputs, f->noutputs);
        cr__c_string(out, f->in_spec, strlen(f->in_spec));
        cr_str_add(out, ",\n    ");
        cr__c_string(out, f->out_spec, strlen(f->out_spec));
        cr_str_add(out, "},\n");
    }
    cr_str_add(out, "};\n");
}

static void print_state(cr_str *out, const cresset_api *api, const rt_model *model) {
    for (int i = 0; i < api->nstate; i++) {
        cr_str_addf(out, "static const int64_t s%d[] = {", i);
        for (int d = 0; d < api->state[i].rank; d++) cr_str_addf(out, " %lld,", (long long)api->state[i].size[d]);
        cr_str_add(out, api->state[i].rank ? " };\n" : " 0 };\n");
    }
    cr_str_add(out, "static const cresset_state_info state_infos[] = {\n");
    for (int i = 0; i < api->nstate; i++) {
        cr_str_add(out, "  {");
        cr__c_string(out, api->state[i].name, strlen(api->state[i].name));
        cr_str_addf(out, ", %d, %d, s%d, %d},\n", api->state[i].dtype, api->state[i].rank, i, api->state[i].is_mutable);
    }
    cr_str_add(out, api->nstate ? "};\n" : "  {0} };\n");
    cr_str_add(out, "static const rt_state states[] = {\n");
    for (int i = 0; i < model->nstates; i++) {
        const rt_state *s = &model->states[i];
        cr_str_add(out, "  {");
        cr__c_string(out, s->name, strlen(s->name));
        cr_str_addf(out, ", %llu, %llu, %d, %d},\n", (unsigned long long)s->offset, (unsigned long long)s->bytes,
                    s->dtype, s->is_mutable);
    }
    cr_str_add(out, model->nstates ? "};\n" : "  {0} };\n");
}

/* Custom operators, whose functions the host gives. */
static void print_needs(cr_str *out, const rt_model *model) {
    if (!model->nops) return;
    cr_str_add(out, "static const cresset_op_need op_needs[] = {\n");
    for (int i = 0; i < model->nops; i++) {
        cr_str_add(out, "  {");
        cr__c_string(out, model->ops[i].op, strlen(model->ops[i].op));
        cr_str_add(out, ", ");
        cr__c_string(out, model->ops[i].schema, strlen(model->ops[i].schema));
        cr_str_add(out, "},\n");
    }
    cr_str_add(out, "};\n");
}

static cr_status print_model(writer *w, const cr_lowered *l, const cr_emit_options *o, const cr_build *b, bool apart) {
    cr_str *out = w->out;
    const cresset_api *api = &l->library.api;
    cr_str_add(out, "/* A model that `cresset compile` made: tables that the runtime walks. See runtime/rt_model.h. "
                    "*/\n#include \"runtime/rt_model.h\"\n#include \"runtime/kernels.h\"\n#include "
                    "\"runtime/rt_block_internal.h\"\n\n");
    b->target->print_launches(out, b, w->kernels, l->kernels.n, apart);
    print_infos(out, api);
    for (int i = 0; i < l->model.nmethods; i++) {
        char info[32];
        snprintf(info, sizeof info, "&infos[%d]", i);
        CR_TRY(print_method(w, l->model.methods[i], info));
    }
    cr_str_add(out, "static const rt_method *const methods[] = {");
    for (int i = 0; i < l->model.nmethods; i++) cr_str_addf(out, " &m%d,", method_id(w, l->model.methods[i]));
    cr_str_add(out, " };\n");
    print_state(out, api, &l->model);
    b->target->print_choices(out, b, &l->model);
    print_needs(out, &l->model);
    bool inside = o->weights == CR_WEIGHTS_INSIDE && l->model.weight_bytes;
    cr_str_addf(out,
                "extern const uint8_t cresset_weights[] __attribute__((visibility(\"hidden\"))); /* whose they are in "
                "64 bytes, then the weights when they are inside */\nstatic const rt_model model = { methods, %d, "
                "states, %d, %s, %llu, (const char *)cresset_weights + 8, %u",
                l->model.nmethods, l->model.nstates, inside ? "cresset_weights + 64" : "0",
                (unsigned long long)l->model.weight_bytes, b->needs);
    if (l->model.nops) cr_str_addf(out, ", op_needs, %d", l->model.nops);
    cr_str_add(out, " };\nstatic const rt_library library = { { RT_API_FUNCTIONS, .name = ");
    const char *name = o->name ? o->name : api->name;
    cr__c_string(out, name, strlen(name));
    cr_str_addf(out,
                ", .id = (const char *)cresset_weights + 8, .methods = infos, .nmethods = %d, .state = state_infos, "
                ".nstate = %d, .target = ",
                api->nmethods, api->nstate);
    cr__c_string(out, b->name, strlen(b->name));
    if (l->model.nops) cr_str_addf(out, ", .ops = op_needs, .nops = %d", l->model.nops);
    cr_str_add(out, " }, &model };\n\n__attribute__((visibility(\"default\"))) const cresset_api "
                    "*cresset_model(uint32_t major) {\n    return major == CRESSET_ABI_MAJOR ? &library.api : 0;\n}\n");
    return cr_str_status(out);
}

cr_status cr_emit_c(const cr_lowered *l, const cr_emit_options *options, const cr_build *build, cr_str *out,
                    cr_str *kernels) {
    writer w = { .out = out };
    cr_str functions;
    cr_str_init(&functions);
    w.kernels = cr_calloc(l->kernels.n + 1, sizeof *w.kernels);
    const cr_language *language = build->target->language;
    cr_status status = w.kernels ? language->print_kernels(l, &functions, w.kernels) : CR_ENOMEM;
    if (!status) status = print_model(&w, l, options, build, kernels);
    if (!status && l->kernels.n) {
        cr_str *to = kernels ? kernels : out;
        if (!kernels) cr_str_add(to, "\n#define CR_ROWS(name) name##_portable\n");
        cr_str_addf(to, "/* Row kernels: loops over vectors, see %s. */\n#include \"%s\"\n", language->vocabulary,
                    language->vocabulary);
        cr_str_addn(to, cr_str_get(&functions), functions.n);
        status = cr_str_status(to);
    }
    cr_str_dispose(&functions);
    cr_free(w.kernels);
    cr_vec_dispose(&w.programs);
    cr_vec_dispose(&w.printed);
    return status;
}
