/* convert.c: `cresset convert`: archives of the old layout to the new one, weights to safetensors and back.
 *
 * What is done follows from the output's ending and --weights. Every checksum of the input is verified first: damage is
 * never copied into a file whose checksums then say that all is well. */
#include "cli/convert.h"

static const cli_option options[] = {
    { .name = "output",
      .letter = 'o',
      .kind = CLI_TEXT,
      .value = "FILE",
      .files = "pt2 safetensors",
      .help = "what to write: a .pt2 or a .safetensors" },
    { .name = "weights",
      .letter = 'w',
      .kind = CLI_TEXT,
      .value = "FILE",
      .files = "safetensors",
      .help = "take parameters and buffers from this .safetensors" },
    { .name = "name", .kind = CLI_TEXT, .value = "NAME", .help = "which program, where the archive holds several" },
    { .name = NULL },
};

static bool ends_with(const char *text, const char *ending) {
    size_t n = strlen(text), m = strlen(ending);
    return n > m && !strcmp(text + n - m, ending);
}

/* ---- weights out ---- */

static cr_status copy_view(const rt_view *to, const rt_view *from) {
    char error[256] = "";
    rt_ctx ctx = cr_kernel_ctx(error, sizeof error);
    if (rt_copy(&ctx, to, from) == RT_OK) return CR_OK;
    return error[0] ? CR_FAIL(CR_ERUNTIME, "%s", error) : CR_FAIL(CR_ENOMEM, "copying a tensor");
}

typedef struct dense { const cr_program *p; void *copy; } dense;

/* The values of a tensor that does not lie in order, in a place that the next one takes over. */
static cr_status fill(void *user, size_t i, const void **data) {
    dense *d = user;
    rt_view v = cr_tensor_view(d->p->state[i].tensor);
    cr_free(d->copy);
    d->copy = cr_alloc((size_t)(rt_numel(&v) * rt_itemsize(v.dtype)));
    if (!d->copy) return CR_ENOMEM;
    rt_view to = rt_view_contiguous(d->copy, v.dtype, v.rank, v.size);
    *data = d->copy;
    return copy_view(&to, &v);
}

static cr_status write_safetensors(const cr_program *p, const char *path) {
    static const char *const metadata[] = { "format", "pt", NULL };
    dense d = { .p = p };
    cr_safetensor *entries = cr_calloc(p->nstate + 1, sizeof *entries);
    if (!entries) return CR_ENOMEM;
    for (size_t i = 0; i < p->nstate; i++) {
        rt_view v = cr_tensor_view(p->state[i].tensor);
        entries[i] = (cr_safetensor){ .name = p->state[i].name,
                                      .dtype = v.dtype,
                                      .rank = v.rank,
                                      .bytes = (uint64_t)(rt_numel(&v) * rt_itemsize(v.dtype)) };
        memcpy(entries[i].size, v.size, sizeof entries[i].size);
        if (rt_is_contiguous(&v)) entries[i].data = v.p;
    }
    cr_status status = cr_safetensors_write_from(path, entries, p->nstate, metadata,
                                                 &(cr_safetensors_source){ .fill = fill, .user = &d });
    cr_free(d.copy);
    cr_free(entries);
    return status;
}

/* ---- weights in ---- */

static cr_status check_weight(const char *file, const cr_named_tensor *want, const cr_safetensor *have) {
    const cr_meta *m = &want->tensor->meta;
    bool same = have->dtype == m->dtype && have->rank == m->rank;
    for (int i = 0; same && i < m->rank; i++) same = have->size[i] == m->size[i];
    if (same) return CR_OK;
    cr_str expected, found;
    cr_str_init(&expected);
    cr_str_init(&found);
    cr_shape_print(NULL, m->rank, m->size, &expected);
    cr_shape_print(NULL, have->rank, have->size, &found);
    cr_status status = CR_FAIL(CR_EVALUE, "%s: tensor '%s': expected %s %s, found %s %s", file, want->name,
                               cr_dtype_name(m->dtype), cr_str_get(&expected), cr_dtype_name(have->dtype),
                               cr_str_get(&found));
    cr_str_dispose(&expected);
    cr_str_dispose(&found);
    cli_hint("dtypes and shapes of weights are part of the program");
    return status;
}

static rt_view view_of(const cr_safetensor *t) { return rt_view_contiguous(t->data, t->dtype, t->rank, t->size); }

/* Tensors that share memory must still hold what each of them was given. */
static cr_status check_shared(const char *file, const cr_named_tensor *t, const cr_safetensor *given) {
    rt_view v = cr_tensor_view(t->tensor);
    if (!given->bytes) return CR_OK;
    void *now = cr_alloc(given->bytes);
    if (!now) return CR_ENOMEM;
    rt_view dense = rt_view_contiguous(now, v.dtype, v.rank, v.size);
    cr_status status = copy_view(&dense, &v);
    if (!status && memcmp(now, given->data, given->bytes)) {
        cli_hint("the archive keeps them in one place: store equal values");
        status = CR_FAIL(CR_EVALUE, "%s: tensor '%s' differs from another one that it shares memory with", file,
                         t->name);
    }
    cr_free(now);
    return status;
}

static cr_status take_weights(const cr_program *p, const char *path) {
    cr_safetensors *file;
    CR_TRY(cr_safetensors_open(path, &file));
    cr_status status = CR_OK;
    for (size_t i = 0; i < p->nstate; i++) {
        const cr_safetensor *given = cr_safetensors_find(file, p->state[i].name);
        if (!given) {
            cli_hint("'cresset convert MODEL.pt2 -o w.safetensors' writes all of them");
            status = CR_FAIL(CR_EVALUE, "%s: tensor '%s' is missing", path, p->state[i].name);
            goto out;
        }
        CR_TRY_OUT(check_weight(path, &p->state[i], given));
    }
    for (size_t i = 0; i < cr_safetensors_count(file); i++) {
        const char *name = cr_safetensors_at(file, i)->name;
        bool known = false;
        for (size_t k = 0; k < p->nstate && !known; k++) known = !strcmp(p->state[k].name, name);
        if (known) continue;
        cli_hint("'cresset info MODEL.pt2 --json' lists them under \"state\"");
        status = CR_FAIL(CR_EVALUE, "%s: tensor '%s' is no parameter or buffer of the program", path, name);
        goto out;
    }
    for (size_t i = 0; i < p->nstate; i++) {
        rt_view to = cr_tensor_view(p->state[i].tensor), from = view_of(cr_safetensors_find(file, p->state[i].name));
        CR_TRY_OUT(copy_view(&to, &from));
    }
    for (size_t i = 0; i < p->nstate; i++)
        CR_TRY_OUT(check_shared(path, &p->state[i], cr_safetensors_find(file, p->state[i].name)));
out:
    cr_safetensors_release(file);
    return status;
}

/* ---- the command ---- */

static cr_status run(const cli_call *call) {
    const char *input = cli_operand(call, 0), *output = cli_text(call, "output"), *weights = cli_text(call, "weights");
    if (!output) {
        cli_hint("write -o FILE.pt2 or -o FILE.safetensors");
        return cli_misuse("convert needs an output");
    }
    bool to_archive = ends_with(output, ".pt2");
    if (!to_archive && !ends_with(output, ".safetensors")) {
        cli_hint("end it with .pt2 or .safetensors");
        return cli_misuse("cannot tell from '%s' what to write", output);
    }
    if (!to_archive && weights) return cli_misuse("--weights makes a .pt2, not '%s'", output);
    model m;
    CR_TRY(model_open(&m, input, cli_text(call, "name"), CR_LOAD_CHECK));
    cr_status status = weights ? take_weights(m.program, weights) : CR_OK;
    if (!status) status = to_archive ? pt2_write_again(m.program, output) : write_safetensors(m.program, output);
    model_dispose(&m);
    return status;
}

const cli_command cli_convert = {
    .name = "convert",
    .summary = "old archives to new ones, weights to and from safetensors",
    .operands = "FILE",
    .least = 1,
    .most = 1,
    .files = "pt2",
    .options = options,
    .text = "Writes an archive again: one of PyTorch 2.1 to 2.6 becomes one of today's layout; with\n"
            "--weights its parameters and buffers are replaced. Or writes them as safetensors.\n"
            "All checksums are verified first, and the output appears only when it is complete.",
    .examples = "  cresset convert old.pt2 -o new.pt2\n"
                "  cresset convert model.pt2 -o w.safetensors\n"
                "  cresset convert model.pt2 --weights w.safetensors -o tuned.pt2\n",
    .run = run,
};
