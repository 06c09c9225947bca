/* inputs.c: the inputs of a run, from what the command line says. The C API checks them, by name. */
#include "cli/arrays.h"

#include <stdlib.h>

void input_set_dispose(input_set *set) {
    cr_inputs_release(set->inputs);
    *set = (input_set){ 0 };
}

/* Takes the inputs over, whether they are complete or not. `hint`: what to do about those that are missing. */
static cr_status finish(cr_inputs *in, cr_status status, const char *hint, input_set *out) {
    input_set set = { .inputs = in };
    if (!status) {
        status = cr_inputs_args(in, &set.args, &set.n);
        if (status == CR_ENOTFOUND) cli_hint("%s", hint);
    }
    if (status) input_set_dispose(&set);
    else *out = set;
    return status;
}

/* No input of that name. */
static void hint_unknown(cr_status status) {
    if (status == CR_ENOTFOUND) cli_hint("'cresset info FILE' shows the inputs");
}

cr_status inputs_from_npz(const model *m, const char *path, input_set *out) {
    cr_inputs *in;
    CR_TRY(cr_inputs_create(m->signature, &in));
    cr_status status = cr_inputs_set_npz(in, path);
    if (status == CR_EFORMAT) cli_hint("numpy.savez writes such files");
    hint_unknown(status);
    return finish(in, status, "store it in the .npz under that name", out);
}

/* ---- NAME=FILE ---- */

static bool parse_literal(const char *text, cr_arg *out) {
    char *end;
    if (!strcmp(text, "true") || !strcmp(text, "True") || !strcmp(text, "false") || !strcmp(text, "False"))
        return *out = cr_arg_bool(text[0] == 't' || text[0] == 'T'), true;
    if (!*text) return false;
    long long i = strtoll(text, &end, 10);
    if (!*end) return *out = cr_arg_int(i), true;
    double f = cr_strtod(text, &end);
    return !*end ? (*out = cr_arg_float(f), true) : false;
}

static cr_status set_pair(const model *m, cr_inputs *in, const char *name, const char *value) {
    size_t i;
    cr_arg literal;
    const cr_slot *slot = cr_signature_find(m->signature, name, &i) ? cr_signature_input(m->signature, i) : NULL;
    bool number = slot && (slot->kind != CRESSET_TENSOR || slot->is_constant) && parse_literal(value, &literal);
    cr_status status = number ? cr_inputs_set(in, name, &literal) : cr_inputs_set_file(in, name, value);
    if (status == CR_EFORMAT) cli_hint("numpy.save writes such files");
    hint_unknown(status);
    return status;
}

/* `names` has those that were given before. */
static cr_status take_pair(const model *m, cr_inputs *in, const char *text, char **names, size_t n) {
    const char *equals = strchr(text, '=');
    if (!equals || equals == text) {
        cli_hint("write --input NAME=FILE.npy");
        return cli_misuse("--input has the value '%s'", text);
    }
    if (!(names[n] = cr_strndup(text, (size_t)(equals - text)))) return CR_ENOMEM;
    CR_TRY(set_pair(m, in, names[n], equals + 1));
    for (size_t i = 0; i < n; i++)
        if (!strcmp(names[i], names[n])) return cli_misuse("input '%s' was given twice", names[n]);
    return CR_OK;
}

cr_status inputs_from_pairs(const model *m, const char *const *texts, size_t n, input_set *out) {
    cr_inputs *in = NULL;
    char **names = cr_calloc(n + 1, sizeof *names);
    cr_status status = names ? cr_inputs_create(m->signature, &in) : CR_ENOMEM;
    for (size_t i = 0; i < n && !status; i++) status = take_pair(m, in, texts[i], names, i);
    for (size_t i = 0; names && i < n; i++) cr_free(names[i]);
    cr_free(names);
    return finish(in, status, "give it with --input NAME=FILE.npy", out);
}

/* ---- example and random inputs ---- */

cr_status inputs_example(const model *m, input_set *out) {
    cr_inputs *in;
    if (!m->program) {
        cli_hint("use --inputs, --input or --random, or the archive that it was compiled from");
        return CR_FAIL(CR_EVALUE, "a compiled library holds no example inputs");
    }
    CR_TRY(cr_inputs_create(m->signature, &in));
    cr_status status = cr_inputs_set_example(in, m->program);
    if (status) cli_hint("use --inputs, --input or --random");
    return finish(in, status, "", out);
}

cr_status inputs_random(const model *m, uint64_t seed, input_set *out) {
    cr_inputs *in;
    CR_TRY(cr_inputs_create(m->signature, &in));
    return finish(in, cr_inputs_set_random(in, m->program, seed), "", out);
}

cr_status inputs_at_hand(const model *m, input_set *out, const char **name) {
    bool example = m->program && cr_program_has_example(m->program);
    *name = example ? "example" : "random";
    return example ? inputs_example(m, out) : inputs_random(m, 0, out);
}
