/* convert.c: `cresset convert`: archives of the old layout to the new one, weights to safetensors and back.
 *
 * What is done follows from the output's ending and --weights. Every checksum of the input is verified first: damage is
 * never copied into a file whose checksums then say that all is well. */
#include "cli/model.h"

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

static cr_status take_weights(cr_program *p, const char *path) {
    cr_status status = cr_program_load_state(p, path);
    if (status == CR_ENOTFOUND) cli_hint("'cresset convert MODEL.pt2 -o w.safetensors' writes all of them");
    else if (status == CR_EVALUE && !strstr(cr_error_message(), "; ")) /* one that the program has not */
        cli_hint("'cresset info MODEL.pt2 --json' lists them under \"state\"");
    return status;
}

static cr_status add_progress(void *user, uint64_t bytes) {
    cli_progress_add(user, bytes);
    return CR_OK;
}

static cr_status write_again(const model *m, const char *path) {
    cli_progress progress;
    cli_progress_begin(&progress, "writing", cr_archive_size(m->archive));
    cr_status status = cr_program_save_again(m->program, path, add_progress, &progress);
    cli_progress_end(&progress);
    return status;
}

/* ---- the command ---- */

static cr_status run(const cli_call *call) {
    const char *input = cli_operand(call, 0), *output = cli_text(call, "output"), *weights = cli_text(call, "weights");
    if (!output) {
        cli_hint("write -o FILE.pt2 or -o FILE.safetensors");
        return cli_misuse("convert needs an output");
    }
    bool to_archive = cli_ends_with(output, ".pt2");
    if (!to_archive && !cli_ends_with(output, ".safetensors")) {
        cli_hint("end it with .pt2 or .safetensors");
        return cli_misuse("cannot tell from '%s' what to write", output);
    }
    if (!to_archive && weights) return cli_misuse("--weights makes a .pt2, not '%s'", output);
    model m;
    CR_TRY(model_open(&m, input, cli_text(call, "name"), CR_LOAD_CHECK));
    cr_status status = weights ? take_weights(m.program, weights) : CR_OK;
    if (!status) status = to_archive ? write_again(&m, output) : cr_program_save_state(m.program, output);
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
