/* c.c: the tables of a lowered model as C.
 *
 * One static table after the other, named after its method: m_forward_steps, m_forward_windows, ...; bodies of branches
 * (m_body0_steps) first, then the methods, then the model. A row names the fields that are not zero; a table without
 * rows is left out. Equal block programs are printed once. Everything that came with the archive passes through
 * cr__c_string, or, in comments and in the names of methods, loses what is no letter, digit or harmless sign. */
#include "emit/emit.h"
#include "lower/rows.h"
#include "runtime/kernels.h"

#include <stdio.h>

void cr__c_string(cr_str *out, const char *text, size_t n) {
    cr_str_addc(out, '"');
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        bool digit = i + 1 < n && text[i + 1] >= '0' && text[i + 1] <= '7'; /* would go on with a short escape */
        if (c == '"' || c == '\\') cr_str_addf(out, "\\%c", c);
        else if (c >= 0x20 && c < 0x7f && c != '?') cr_str_addc(out, (char)c);
        else cr_str_addf(out, digit ? "\\%03o" : "\\%o", c);
    }
    cr_str_addc(out, '"');
}

/* kernels.h again, each declaration being a comparison now. */
#undef RT_KERNEL
#define RT_KERNEL(kernel) \
    if (k == kernel) return #kernel
#undef CRESSET_KERNELS_H
static const char *kernel_name(rt_kernel *k) {
#include "runtime/kernels.h"
    return NULL;
}

/* ---- rows of tables ---- */

/* Names of enumerators, from the lists that also make the enumerators. */
#define NAME(ID, ...) #ID,
static const char *const step_kinds[] = { RT_STEPS(NAME) }, *const buffer_kinds[] = { RT_BUFFERS(NAME) };
static const char *const operand_kinds[] = { RT_OPERANDS(NAME) }, *const number_kinds[] = { RT_NUMBER_OPS(NAME) };
static const char *const dtypes[] = { RT_DTYPES(NAME) };
#undef NAME
#define KIND(ID) [CRESSET_##ID] = #ID
static const char *const value_kinds[] = {
    KIND(NONE), KIND(TENSOR), KIND(INT), KIND(FLOAT), KIND(BOOLEAN), KIND(STRING)
};
#undef KIND

static void open_row(cr_str *out, const char *before) { cr_str_addf(out, "%s{", before); }
static void comma(cr_str *out) { cr_str_add(out, out->n && out->at[out->n - 1] == '{' ? " " : ", "); }

static void print_i64(cr_str *out, int64_t v) {
    if (v == INT64_MIN || v == INT64_MAX) cr_str_add(out, v < 0 ? "INT64_MIN" : "INT64_MAX");
    else cr_str_addf(out, "%lld", (long long)v);
}

/* A field that is not zero. */
static void put(cr_str *out, const char *field, int64_t v) {
    if (!v) return;
    comma(out);
    cr_str_addf(out, ".%s = ", field);
    print_i64(out, v);
}

/* An enumerator, whatever it is. */
static void put_name(cr_str *out, const char *field, const char *prefix, const char *name) {
    comma(out);
    cr_str_addf(out, ".%s = %s%s", field, prefix, name);
}

static void put_text(cr_str *out, const char *field, const char *text) {
    if (!text) return;
    comma(out);
    cr_str_addf(out, ".%s = ", field);
    cr__c_string(out, text, strlen(text));
}

static void shut_row(cr_str *out, const char *after) {
    cr_str_addf(out, "%s }%s", out->n && out->at[out->n - 1] == '{' ? " 0" : "", after);
}

/* ---- who is printed ---- */

enum { METHOD_NAME = 48 };
typedef struct printed {
    const rt_method *m;
    char name[METHOD_NAME];
} printed;
typedef struct writer {
    cr_str *out;
    CR_VEC(const rt_program *) programs;
    CR_VEC(printed) printed;
    char (*kernels)[CR_ROW_NAME]; /* names of row kernels */
} writer;

static const char *name_of(const writer *w, const rt_method *m) {
    for (size_t i = 0; i < w->printed.n; i++)
        if (w->printed.at[i].m == m) return w->printed.at[i].name;
    return NULL;
}

static bool is_taken(const writer *w, const char *name) {
    for (size_t i = 0; i < w->printed.n; i++)
        if (!strcmp(w->printed.at[i].name, name)) return true;
    return false;
}

/* "m_forward"; of a body, or of a second method that would be called the same, with a number. */
static cr_status add_name(writer *w, const rt_method *m) {
    printed p = { .m = m };
    char base[32] = "body";
    if (m->info) snprintf(base, sizeof base, "%s", m->info->name);
    for (char *c = base; *c; c++)
        if (!(*c >= 'a' && *c <= 'z') && !(*c >= 'A' && *c <= 'Z') && !(*c >= '0' && *c <= '9')) *c = '_';
    if (m->info) snprintf(p.name, sizeof p.name, "m_%s", base);
    for (int n = 0; !*p.name || is_taken(w, p.name); n++) snprintf(p.name, sizeof p.name, "m_%s%d", base, n);
    return cr_vec_push(&w->printed, p);
}

/* ---- block programs ---- */

static bool same_program(const rt_program *a, const rt_program *b) {
    return a->nin == b->nin && a->nout == b->nout && a->nconstants == b->nconstants && a->nliterals == b->nliterals &&
           a->nslots == b->nslots && a->ninstr == b->ninstr && a->nprologue == b->nprologue &&
           !memcmp(a->code, b->code, a->ninstr * sizeof *a->code) && !memcmp(a->in, b->in, a->nin * sizeof *a->in) &&
           !memcmp(a->out, b->out, a->nout * sizeof *a->out) &&
           !memcmp(a->constant, b->constant, a->nconstants * sizeof *a->constant) &&
           !memcmp(a->literal, b->literal, a->nliterals * sizeof *a->literal);
}

static const char *class_name(int class) {
#define X(ID, ...) "RT_CLASS_" #ID,
    static const char *const names[] = { RT_CLASSES(X) };
#undef X
    return names[class];
}

static void print_ports(cr_str *out, int id, const char *what, const rt_port *ports, int n) {
    if (!n) return;
    cr_str_addf(out, "static const rt_port program%d_%s[] = {", id, what);
    for (int i = 0; i < n; i++) {
        open_row(out, " ");
        put_name(out, "class", "", class_name(ports[i].class));
        put(out, "slot", ports[i].slot);
        put(out, "round", ports[i].round);
        put(out, "flags", ports[i].flags);
        shut_row(out, ",");
    }
    cr_str_add(out, " };\n");
}

static void put_double(cr_str *out, const char *field, double f) {
    uint64_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (!bits) return;
    comma(out);
    cr_str_addf(out, ".%s = ", field);
    if (f != f) cr_str_add(out, "__builtin_nan(\"\")");
    else if (f - f != 0) cr_str_add(out, f > 0 ? "__builtin_inf()" : "-__builtin_inf()");
    else cr_str_addf(out, "%a", f);
}

static void put_table(cr_str *out, const char *field, int id, const char *what, int n) {
    if (!n) return;
    comma(out);
    cr_str_addf(out, ".%s = program%d_%s", field, id, what);
}

static void print_literals(cr_str *out, int id, const rt_program *p) {
    if (!p->nliterals) return;
    cr_str_addf(out, "static const rt_literal program%d_literal[] = {", id);
    for (int i = 0; i < p->nliterals; i++) {
        const rt_literal *x = &p->literal[i];
        open_row(out, " ");
        put_name(out, "class", "", class_name(x->class));
        put(out, "slot", x->slot);
        put(out, "i", x->i);
        put_double(out, "re", x->re);
        put_double(out, "im", x->im);
        shut_row(out, ",");
    }
    cr_str_add(out, " };\n");
}

static cr_status program_id(writer *w, const rt_program *p, int *id) {
    for (size_t i = 0; i < w->programs.n; i++)
        if (w->programs.at[i] == p || same_program(w->programs.at[i], p)) return *id = (int)i, CR_OK;
    *id = (int)w->programs.n;
    CR_TRY(cr_vec_push(&w->programs, p));
    cr_str *out = w->out;
    cr_str_addf(out, "/* ");
    for (int i = 0; i < p->ninstr; i++) cr_str_addf(out, "%s%s", i ? " " : "", rt_block_op_name(p->code[i].op));
    cr_str_addf(out, " */\nstatic const rt_instr program%d_code[] = {", *id);
    for (int i = 0; i < p->ninstr; i++)
        cr_str_addf(out, "\n  { .op = RT_OP_%s, .out = %d, .in = { %d, %d, %d } },", rt_block_op_symbol(p->code[i].op),
                    p->code[i].out, p->code[i].in[0], p->code[i].in[1], p->code[i].in[2]);
    cr_str_add(out, p->ninstr ? "\n};\n" : " { 0 } };\n");
    print_ports(out, *id, "in", p->in, p->nin);
    print_ports(out, *id, "out", p->out, p->nout);
    print_ports(out, *id, "constant", p->constant, p->nconstants);
    print_literals(out, *id, p);
    cr_str_addf(out, "static const rt_program program%d = ", *id);
    open_row(out, "");
    put(out, "nin", p->nin);
    put(out, "nout", p->nout);
    put(out, "nconstants", p->nconstants);
    put(out, "nliterals", p->nliterals);
    put(out, "nslots", p->nslots);
    put(out, "width", p->width);
    put(out, "ninstr", p->ninstr);
    put(out, "nprologue", p->nprologue);
    put(out, "cost", p->cost);
    put_table(out, "code", *id, "code", 1);
    put_table(out, "in", *id, "in", p->nin);
    put_table(out, "out", *id, "out", p->nout);
    put_table(out, "constant", *id, "constant", p->nconstants);
    put_table(out, "literal", *id, "literal", p->nliterals);
    shut_row(out, ";\n");
    return CR_OK;
}

/* ---- tables of a method ---- */
static void open_table(cr_str *out, const char *type, const char *method, const char *what) {
    cr_str_addf(out, "static const %s %s_%s[] = {\n", type, method, what);
}

static void print_ints(cr_str *out, const char *method, const char *what, const int32_t *at, size_t n) {
    if (!n) return;
    cr_str_addf(out, "static const int32_t %s_%s[] = {", method, what);
    for (size_t i = 0; i < n; i++) {
        if (i % 24 == 0) cr_str_addf(out, "\n  /* %zu */", i);
        cr_str_addf(out, " %d,", at[i]);
    }
    cr_str_add(out, "\n};\n");
}

static void print_texts(cr_str *out, const char *method, const char *what, const char *const *at, size_t n) {
    if (!n) return;
    open_table(out, "char *const", method, what);
    for (size_t i = 0; i < n; i++) {
        cr_str_add(out, "  ");
        cr__c_string(out, at[i], strlen(at[i]));
        cr_str_add(out, ",\n");
    }
    cr_str_add(out, "};\n");
}

static void print_numbers(cr_str *out, const char *method, const char *what, const rt_number *at, int n) {
    if (!n) return;
    open_table(out, "rt_number", method, what);
    for (int i = 0; i < n; i++) {
        open_row(out, "  ");
        put_name(out, "kind", "RT_N_", number_kinds[at[i].kind]);
        put(out, "out", at[i].out);
        put(out, "a", at[i].a);
        put(out, "b", at[i].b);
        put(out, "c", at[i].c);
        shut_row(out, ",\n");
    }
    cr_str_add(out, "};\n");
}

/* How far a method's shared tables reach: their lengths are not part of it, because running does not need them. */
typedef struct extents {
    size_t dims, args, lists, texts, origins;
} extents;

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

/* ---- steps ---- */

static void print_rows(writer *w, const char *method, int step, const rt_rows *r) {
    cr_str *out = w->out;
    cr_str_addf(out, "static const rt_rows %s_rows%d = { .fn = { ROWS(%s) }", method, step, w->kernels[r->kernel]);
    put(out, "nports", r->nports);
    put(out, "naxes", r->naxes);
    put(out, "nrow", r->nrow);
    put(out, "column", r->column);
    put(out, "reduces", r->reduces);
    put(out, "cost", r->cost);
    put(out, "scratch", r->scratch);
    shut_row(out, ";\n");
}

/* What a step's union holds, printed before the steps themselves. */
static cr_status print_step_parts(writer *w, const rt_method *m, const char *method, int *ids) {
    char what[32];
    for (int32_t i = 0; i < m->nsteps; i++) {
        const rt_step *s = &m->steps[i];
        snprintf(what, sizeof what, "%s%d", s->kind == RT_STEP_NUMBERS ? "numbers" : "after", i);
        if (s->kind == RT_STEP_BLOCK) CR_TRY(program_id(w, s->u.program, &ids[i]));
        else if (s->kind == RT_STEP_ROWS) print_rows(w, method, i, s->u.rows);
        else if (s->kind == RT_STEP_NUMBERS) print_numbers(w->out, method, what, s->u.numbers, s->nargs);
        else if (s->kind >= RT_STEP_COND) print_numbers(w->out, method, what, s->after, s->nafter);
        if (s->kind >= RT_STEP_COND)
            cr_str_addf(w->out, "static const rt_method *const %s_bodies%d[] = { &%s, &%s };\n", method, i,
                        name_of(w, s->u.bodies[0]), name_of(w, s->u.bodies[RT_STEP_BODIES(s->kind) - 1]));
    }
    return CR_OK;
}

/* What u is. */
static cr_status put_union(writer *w, const rt_method *m, const char *method, int i, const int *ids) {
    enum { kernel, program, rows, numbers, bodies, nothing };
#define X(ID, member) member,
    static const uint8_t members[] = { RT_STEPS(X) };
#undef X
    const rt_step *s = &m->steps[i];
    cr_str *out = w->out;
    const char *name = members[s->kind] == kernel ? kernel_name(s->u.kernel) : NULL;
    switch (members[s->kind]) {
    case kernel:
        if (!name)
            return CR_FAIL(CR_EUNSUPPORTED, "a kernel of this model is not in runtime/kernels.h (%s)",
                           m->origins[s->origin]);
        cr_str_addf(out, ", .u.kernel = %s", name);
        break;
    case program: cr_str_addf(out, ", .u.program = &program%d", ids[i]); break;
    case rows: cr_str_addf(out, ", .u.rows = &%s_rows%d", method, i); break;
    case numbers: cr_str_addf(out, ", .u.numbers = %s_numbers%d", method, i); break;
    case bodies: cr_str_addf(out, ", .u.bodies = %s_bodies%d", method, i); break;
    default: break;
    }
    return CR_OK;
}

/* Each below a comment that says where it comes from. */
static cr_status print_steps(writer *w, const rt_method *m, const char *method, const int *ids) {
    cr_str *out = w->out;
    if (!m->nsteps) return CR_OK;
    open_table(out, "rt_step", method, "steps");
    for (int32_t i = 0; i < m->nsteps; i++) {
        const rt_step *s = &m->steps[i];
        cr_str_addf(out, "  /* %d: ", i);
        cr__comment_text(out, m->origins[s->origin]);
        cr_str_add(out, " */\n");
        open_row(out, "  ");
        put_name(out, "kind", "RT_STEP_", step_kinds[s->kind]);
        CR_TRY(put_union(w, m, method, i, ids));
        put(out, "args", s->args);
        put(out, "nargs", s->nargs);
        put(out, "outs", s->outs);
        put(out, "nout", s->nout);
        put(out, "ncarried", s->ncarried);
        put(out, "nslices", s->nslices);
        put(out, "origin", s->origin);
        if (s->nafter) cr_str_addf(out, ", .after = %s_after%d, .nafter = %d", method, i, s->nafter);
        shut_row(out, ",\n");
    }
    cr_str_add(out, "};\n");
    return CR_OK;
}

/* Those of a step on one line, with the number of the first. */
static cr_status print_args(cr_str *out, const rt_method *m, const char *method, size_t n) {
    bool *first = cr_calloc(n + 1, sizeof *first);
    if (!first) return CR_ENOMEM;
    if (n) open_table(out, "rt_operand_ref", method, "args");
    for (int32_t i = 0; i < m->nsteps; i++)
        if (m->steps[i].kind != RT_STEP_NUMBERS && (size_t)m->steps[i].args < n) first[m->steps[i].args] = true;
    for (size_t i = 0; i < n; i++) {
        if (first[i] || !i) cr_str_addf(out, "%s  /* %zu */", i ? "\n" : "", i);
        open_row(out, " ");
        put_name(out, "kind", "RT_A_", operand_kinds[m->args[i].kind]);
        put(out, "n", m->args[i].n);
        put(out, "at", m->args[i].at);
        shut_row(out, ",");
    }
    if (n) cr_str_add(out, "\n};\n");
    cr_free(first);
    return CR_OK;
}

/* ---- memory, inputs, outputs ---- */

static void print_memory(cr_str *out, const rt_method *m, const char *method) {
    if (m->nbuffers) open_table(out, "rt_buffer", method, "buffers");
    for (int32_t i = 0; i < m->nbuffers; i++) {
        const rt_buffer *b = &m->buffers[i];
        cr_str_addf(out, "  /* %d */", i);
        open_row(out, " ");
        put_name(out, "kind", "RT_BUFFER_", buffer_kinds[b->kind]);
        put(out, "late", b->late);
        put(out, "index", b->index);
        put(out, "bytes", b->bytes);
        put(out, "first", b->first);
        put(out, "last", b->last);
        put(out, "offset", (int64_t)b->offset);
        shut_row(out, ",\n");
    }
    if (m->nbuffers) cr_str_add(out, "};\n");
    if (m->nwindows) open_table(out, "rt_window", method, "windows");
    for (int32_t i = 0; i < m->nwindows; i++) {
        const rt_window *x = &m->windows[i];
        cr_str_addf(out, "  /* %d */", i);
        open_row(out, " ");
        put(out, "buffer", x->buffer);
        put(out, "offset", x->offset);
        put(out, "dims", x->dims);
        put_name(out, "dtype", "RT_", dtypes[x->dtype]);
        put(out, "rank", x->rank);
        shut_row(out, ",\n");
    }
    if (m->nwindows) cr_str_add(out, "};\n");
}

static void print_inputs(cr_str *out, const rt_method *m, const char *method) {
    cr_str_addf(out, "static const int64_t %s_constants[] = {", method);
    for (int32_t i = 0; i < m->nconstants; i++) {
        if (i % 10 == 0) cr_str_addf(out, "\n  /* %d */", i);
        cr_str_add(out, " ");
        print_i64(out, m->constants[i]);
        cr_str_add(out, ",");
    }
    cr_str_add(out, m->nconstants ? "\n};\n" : " 0 };\n");
    if (m->ninputs) open_table(out, "rt_input", method, "inputs");
    for (int32_t i = 0; i < m->ninputs; i++) {
        const rt_input *x = &m->inputs[i];
        open_row(out, "  ");
        put_name(out, "kind", "CRESSET_", value_kinds[x->kind]);
        put(out, "window", x->window);
        put(out, "slot", x->slot);
        put(out, "is_constant", x->is_constant);
        put(out, "written", x->written);
        put(out, "text", x->text);
        shut_row(out, ",\n");
    }
    if (m->ninputs) cr_str_add(out, "};\n");
    if (m->nbinds) open_table(out, "rt_bind", method, "binds");
    for (int32_t i = 0; i < m->nbinds; i++) {
        const rt_bind *b = &m->binds[i];
        open_row(out, "  ");
        put(out, "input", b->input);
        put(out, "dim", b->dim);
        put(out, "slot", b->slot);
        put(out, "check", b->check);
        put(out, "min", b->min);
        put(out, "max", b->max);
        shut_row(out, ",\n");
    }
    if (m->nbinds) cr_str_add(out, "};\n");
}

static void print_outputs(cr_str *out, const rt_method *m, const char *method) {
    if (m->noutputs) open_table(out, "rt_output", method, "outputs");
    for (int32_t i = 0; i < m->noutputs; i++) {
        open_row(out, "  ");
        put_name(out, "kind", "CRESSET_", value_kinds[m->outputs[i].kind]);
        put(out, "at", m->outputs[i].at);
        shut_row(out, ",\n");
    }
    if (m->noutputs) cr_str_add(out, "};\n");
}

/* ---- methods ---- */

/* ".steps = m_forward_steps, .nsteps = 9": count NULL where none is kept. */
static void put_rows(cr_str *out, const char *method, const char *what, const char *count, size_t n) {
    if (!n) return;
    cr_str_addf(out, ",\n  .%s = %s_%s", what, method, what);
    if (count) cr_str_addf(out, ", .%s = %zu", count, n);
}

static void print_method_row(cr_str *out, const rt_method *m, const char *method, int info, const extents *e) {
    cr_str_addf(out, "static const rt_method %s = {\n  ", method);
    if (info >= 0) cr_str_addf(out, ".info = &infos[%d], ", info);
    cr_str_addf(out, ".nslots = %d, .nconstants = %d, .constants = %s_constants", m->nslots, m->nconstants, method);
    put_rows(out, method, "inputs", "ninputs", (size_t)m->ninputs);
    put_rows(out, method, "binds", "nbinds", (size_t)m->nbinds);
    put_rows(out, method, "entry", "nentry", (size_t)m->nentry);
    put_rows(out, method, "buffers", "nbuffers", (size_t)m->nbuffers);
    put_rows(out, method, "windows", "nwindows", (size_t)m->nwindows);
    put_rows(out, method, "dims", NULL, e->dims);
    put_rows(out, method, "args", NULL, e->args);
    put_rows(out, method, "lists", NULL, e->lists);
    put_rows(out, method, "texts", NULL, e->texts);
    put_rows(out, method, "steps", "nsteps", (size_t)m->nsteps);
    put_rows(out, method, "outputs", "noutputs", (size_t)m->noutputs);
    if (m->writes_state) cr_str_add(out, ",\n  .writes_state = true");
    put_rows(out, method, "origins", NULL, e->origins);
    cr_str_add(out, "\n};\n");
}

/* info: its number among the model's methods; -1: a body. */
static cr_status print_method(writer *w, const rt_method *m, int info) {
    for (int32_t i = 0; i < m->nsteps; i++)
        for (int k = 0; k < RT_STEP_BODIES(m->steps[i].kind); k++)
            if (!name_of(w, m->steps[i].u.bodies[k])) CR_TRY(print_method(w, m->steps[i].u.bodies[k], -1));
    int *ids = cr_alloc(((size_t)m->nsteps + 1) * sizeof *ids);
    if (!ids) return CR_ENOMEM;
    cr_str *out = w->out;
    cr_status status = CR_OK;
    extents e = measure(m);
    char method[METHOD_NAME];
    CR_TRY_OUT(add_name(w, m));
    snprintf(method, sizeof method, "%s", name_of(w, m));
    cr_str_addf(out, "\n/* ---- %s: %d steps ---- */\n", method, m->nsteps);
    CR_TRY_OUT(print_step_parts(w, m, method, ids));
    print_inputs(out, m, method);
    print_numbers(out, method, "entry", m->entry, m->nentry);
    print_memory(out, m, method);
    print_ints(out, method, "dims", m->dims, e.dims);
    print_ints(out, method, "lists", m->lists, e.lists);
    CR_TRY_OUT(print_args(out, m, method, e.args));
    print_texts(out, method, "texts", m->texts, e.texts);
    print_texts(out, method, "origins", m->origins, e.origins);
    CR_TRY_OUT(print_steps(w, m, method, ids));
    print_outputs(out, m, method);
    print_method_row(out, m, method, info, &e);
out:
    cr_free(ids);
    return status;
}

/* ---- the model ---- */

static void print_dims(cr_str *out, int method, const char *what, int i, const cresset_value_info *v) {
    if (!v->rank) return;
    cr_str_addf(out, "static const cresset_dim info%d_%s%d[] = {", method, what, i);
    for (int d = 0; d < v->rank; d++) {
        open_row(out, " ");
        put_text(out, "text", v->dims[d].text);
        put(out, "min", v->dims[d].min);
        put(out, "max", v->dims[d].max);
        shut_row(out, ",");
    }
    cr_str_add(out, " };\n");
}

static void print_values(cr_str *out, int method, const char *what, const cresset_value_info *at, int n) {
    if (!n) return;
    for (int i = 0; i < n; i++) print_dims(out, method, what, i, &at[i]);
    cr_str_addf(out, "static const cresset_value_info info%d_%s[] = {\n", method, what);
    for (int i = 0; i < n; i++) {
        open_row(out, "  ");
        put_text(out, "name", at[i].name);
        put_name(out, "kind", "CRESSET_", value_kinds[at[i].kind]);
        if (at[i].kind == CRESSET_TENSOR) put_name(out, "dtype", "CRESSET_", dtypes[at[i].dtype]);
        put(out, "rank", at[i].rank);
        if (at[i].rank) cr_str_addf(out, ", .dims = info%d_%s%d", method, what, i);
        put_text(out, "constant", at[i].constant);
        shut_row(out, ",\n");
    }
    cr_str_add(out, "};\n");
}

static void print_infos(cr_str *out, const cresset_api *api) {
    for (int i = 0; i < api->nmethods; i++) {
        print_values(out, i, "inputs", api->methods[i].inputs, api->methods[i].ninputs);
        print_values(out, i, "outputs", api->methods[i].outputs, api->methods[i].noutputs);
    }
    cr_str_add(out, "static const cresset_method_info infos[] = {\n");
    for (int i = 0; i < api->nmethods; i++) {
        const cresset_method_info *f = &api->methods[i];
        open_row(out, "  ");
        put_text(out, "name", f->name);
        if (f->ninputs) cr_str_addf(out, ", .inputs = info%d_inputs, .ninputs = %d", i, f->ninputs);
        if (f->noutputs) cr_str_addf(out, ", .outputs = info%d_outputs, .noutputs = %d", i, f->noutputs);
        put_text(out, "in_spec", f->in_spec);
        put_text(out, "out_spec", f->out_spec);
        shut_row(out, ",\n");
    }
    cr_str_add(out, "};\n");
}

static void print_state(cr_str *out, const cresset_api *api, const rt_model *model) {
    for (int i = 0; i < api->nstate; i++) {
        if (!api->state[i].rank) continue;
        cr_str_addf(out, "static const int64_t state%d_size[] = {", i);
        for (int d = 0; d < api->state[i].rank; d++) cr_str_addf(out, " %lld,", (long long)api->state[i].size[d]);
        cr_str_add(out, " };\n");
    }
    if (api->nstate) cr_str_add(out, "static const cresset_state_info state_infos[] = {\n");
    for (int i = 0; i < api->nstate; i++) {
        open_row(out, "  ");
        put_text(out, "name", api->state[i].name);
        put_name(out, "dtype", "CRESSET_", dtypes[api->state[i].dtype]);
        put(out, "rank", api->state[i].rank);
        if (api->state[i].rank) cr_str_addf(out, ", .size = state%d_size", i);
        put(out, "is_mutable", api->state[i].is_mutable);
        shut_row(out, ",\n");
    }
    if (api->nstate) cr_str_add(out, "};\n");
    if (model->nstates) cr_str_add(out, "static const rt_state states[] = {\n");
    for (int i = 0; i < model->nstates; i++) {
        const rt_state *s = &model->states[i];
        open_row(out, "  ");
        put_text(out, "name", s->name);
        if (s->offset == RT_STATE_ZERO) cr_str_add(out, ", .offset = RT_STATE_ZERO");
        else put(out, "offset", (int64_t)s->offset);
        put(out, "bytes", (int64_t)s->bytes);
        put_name(out, "dtype", "RT_", dtypes[s->dtype]);
        put(out, "is_mutable", s->is_mutable);
        shut_row(out, ",\n");
    }
    if (model->nstates) cr_str_add(out, "};\n");
}

/* Custom operators, whose functions the host gives. */
static void print_needs(cr_str *out, const rt_model *model) {
    if (!model->nops) return;
    cr_str_add(out, "static const cresset_op_need op_needs[] = {\n");
    for (int i = 0; i < model->nops; i++) {
        open_row(out, "  ");
        put_text(out, "op", model->ops[i].op);
        put_text(out, "schema", model->ops[i].schema);
        shut_row(out, ",\n");
    }
    cr_str_add(out, "};\n");
}

/* What a library that trains keeps, and which method does what. */
static void print_training(cr_str *out, const cresset_train_info *t) {
    if (!t) return;
    for (int i = 0; i < t->nparameters; i++) {
        if (!t->parameters[i].nmoments) continue;
        cr_str_addf(out, "static const char *const moments%d[] = {", i);
        for (int k = 0; k < t->parameters[i].nmoments; k++) {
            cr_str_addc(out, ' ');
            cr__c_string(out, t->parameters[i].moments[k], strlen(t->parameters[i].moments[k]));
            cr_str_addc(out, ',');
        }
        cr_str_add(out, " };\n");
    }
    cr_str_add(out, "static const cresset_parameter_info trained[] = {\n");
    for (int i = 0; i < t->nparameters; i++) {
        open_row(out, "  ");
        put_text(out, "name", t->parameters[i].name);
        put_text(out, "gradient", t->parameters[i].gradient);
        if (t->parameters[i].nmoments)
            cr_str_addf(out, ", .moments = moments%d, .nmoments = %d", i, t->parameters[i].nmoments);
        shut_row(out, ",\n");
    }
    cr_str_add(out, "};\nstatic const cresset_weight_info trained_weights[] = {\n");
    for (int i = 0; i < t->nweights; i++) {
        open_row(out, "  ");
        put_text(out, "name", t->weights[i].name);
        put_text(out, "state", t->weights[i].state);
        shut_row(out, ",\n");
    }
    cr_str_add(out, "};\nstatic const cresset_train_info training = { .struct_size = sizeof(cresset_train_info)");
    put_text(out, "optimizer", t->optimizer);
    cr_str_addf(out, ",\n  .step = %d, .backward = %d, .update = %d, .loss = %d", t->step, t->backward, t->update,
                t->loss);
    put_text(out, "counter", t->counter);
    cr_str_addf(out, ",\n  .parameters = trained, .nparameters = %d, .weights = trained_weights, .nweights = %d };\n",
                t->nparameters, t->nweights);
}

static void print_model_row(cr_str *out, const rt_model *model, bool inside, uint32_t needs) {
    cr_str_addf(out, "static const rt_model model = { .methods = methods, .nmethods = %d", model->nmethods);
    if (model->nstates) cr_str_addf(out, ", .states = states, .nstates = %d", model->nstates);
    if (inside) cr_str_add(out, ",\n  .weights = cresset_weights + 64");
    put(out, "weight_bytes", (int64_t)model->weight_bytes);
    cr_str_add(out, ", .id = (const char *)cresset_weights + 8");
    put(out, "isa", needs);
    if (model->nops) cr_str_addf(out, ", .ops = op_needs, .nops = %d", model->nops);
    cr_str_add(out, " };\n");
}

static void print_library_row(cr_str *out, const cresset_api *api, const char *name, const char *target, int nops,
                              bool random) {
    cr_str_add(out, "static const rt_library library = {\n  .api = { RT_API_FUNCTIONS");
    put_text(out, "name", name);
    cr_str_addf(out, ", .id = (const char *)cresset_weights + 8,\n    .methods = infos, .nmethods = %d", api->nmethods);
    if (api->nstate) cr_str_addf(out, ", .state = state_infos, .nstate = %d", api->nstate);
    put_text(out, "target", target);
    if (nops) cr_str_addf(out, ", .ops = op_needs, .nops = %d", nops);
    if (api->train) cr_str_add(out, ",\n    .train = &training, RT_API_TRAINS");
    else if (random) cr_str_add(out, ",\n    RT_API_DRAWS");
    cr_str_add(out, " },\n  .model = &model,\n};\n");
}

static cr_status print_model(writer *w, const cr_lowered *l, const cr_emit_options *o, const cr_build *b, bool apart) {
    cr_str *out = w->out;
    const cresset_api *api = &l->library.api;
    cr_str_add(out, "/* A model that `cresset compile` made: tables that the runtime walks (runtime/rt_model.h). */\n");
    cr_str_add(out, "#include \"runtime/rt_model.h\"\n#include \"runtime/kernels.h\"\n");
    cr_str_add(out, "#include \"runtime/rt_block_internal.h\"\n\n");
    b->target->print_launches(out, b, w->kernels, l->kernels.n, apart);
    print_infos(out, api);
    for (int i = 0; i < l->model.nmethods; i++) CR_TRY(print_method(w, l->model.methods[i], i));
    cr_str_add(out, "\n/* ---- the whole ---- */\nstatic const rt_method *const methods[] = {");
    for (int i = 0; i < l->model.nmethods; i++) cr_str_addf(out, " &%s,", name_of(w, l->model.methods[i]));
    cr_str_add(out, " };\n");
    print_state(out, api, &l->model);
    b->target->print_choices(out, b, &l->model);
    print_needs(out, &l->model);
    print_training(out, api->train);
    cr_str_add(out, "/* whose they are in 64 bytes, then the weights when they are inside */\n"
                    "extern const uint8_t cresset_weights[] __attribute__((visibility(\"hidden\")));\n");
    print_model_row(out, &l->model, o->weights == CR_WEIGHTS_INSIDE && l->model.weight_bytes, b->needs);
    print_library_row(out, api, o->name ? o->name : api->name, b->name, l->model.nops, o->random);
    cr_str_add(out, "\n__attribute__((visibility(\"default\"))) const cresset_api *cresset_model(uint32_t major) {\n"
                    "    return major == CRESSET_ABI_MAJOR ? &library.api : 0;\n}\n");
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
        if (!kernels) cr_str_addf(to, "\n#define CR_ROWS(name) name##_%s\n", build->isas[0]->name);
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
