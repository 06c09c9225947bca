/* help.c: `cresset help`, and the man page that follows from the same table. docs/cresset.1 is what --man prints. */
#include "cli/cli.h"

static const cli_option options[] = {
    { .name = "man", .kind = CLI_FLAG, .help = "the whole manual, as a man page" },
    { .name = NULL },
};

static cr_status run(const cli_call *call) {
    const char *name = cli_operand(call, 0);
    const cli_command *command = name ? cli_find(name) : NULL;
    if (name && !command) {
        cli_hint("'cresset help' lists them");
        return cli_misuse("there is no command '%s'", name);
    }
    cr_str text;
    cr_str_init(&text);
    if (cli_flag(call, "man")) cli_man_page(&text);
    else if (command) cli_command_help(command, &text);
    else cli_overview(&text);
    cr_status status = cli_print(&text);
    cr_str_dispose(&text);
    return status;
}

const cli_command cli_help = {
    .name = "help",
    .summary = "explains a command",
    .operands = "[COMMAND]",
    .most = 1,
    .files = "|",
    .options = options,
    .text = "Explains a command, or lists all of them.",
    .examples = "  cresset help run\n  cresset help --man | man -l -\n",
    .run = run,
};

/* ---- the man page ---- */

/* Text of the table as roff text: a leading dot or quote would be a request, a hyphen would become a dash. */
static void add_roff(cr_str *out, const char *text) {
    bool line_begin = true;
    for (; *text; text++) {
        if (line_begin && (*text == '.' || *text == '\'')) cr_str_add(out, "\\&");
        if (*text == '\\') cr_str_add(out, "\\e");
        else if (*text == '-') cr_str_add(out, "\\-");
        else cr_str_addc(out, *text);
        line_begin = *text == '\n';
    }
}

static void add_command(cr_str *out, const cli_command *c) {
    cr_str_addf(out, ".SS cresset %s", c->name);
    if (c->operands[0]) cr_str_addf(out, " %s", c->operands);
    cr_str_addf(out, "%s\n", c->options ? " [options]" : "");
    add_roff(out, c->text);
    cr_str_addc(out, '\n');
    for (const cli_option *o = c->options; o && o->name; o++) {
        cr_str_add(out, ".TP\n");
        if (o->letter) cr_str_addf(out, "\\fB\\-%c\\fR, ", o->letter);
        cr_str_add(out, "\\fB\\-\\-");
        add_roff(out, o->name);
        cr_str_add(out, "\\fR");
        if (o->value) cr_str_addf(out, " \\fI%s\\fR", o->value);
        cr_str_addc(out, '\n');
        add_roff(out, o->help);
        cr_str_addc(out, '\n');
    }
    if (!c->examples) return;
    cr_str_add(out, ".PP\nExamples:\n.PP\n.nf\n");
    add_roff(out, c->examples);
    cr_str_add(out, ".fi\n");
}

static const struct { const char *name, *text; } sections[] = {
    { "EXIT STATUS", ".TP\n\\fB0\\fR\ndone\n.TP\n\\fB1\\fR\nthe input was refused, or the work failed; one line on "
                     "standard error says why and what to do\n.TP\n\\fB2\\fR\nthe command line is wrong\n" },
    { "ENVIRONMENT", ".TP\n\\fBCRESSET_NUM_THREADS\\fR\nthreads to compute with, unless \\-\\-threads says it\n"
                     ".TP\n\\fBCRESSET_ISA\\fR\nportable, avx2 or avx512: no wider instructions than these\n"
                     ".TP\n\\fBCRESSET_CC\\fR\nthe C compiler to look for first\n"
                     ".TP\n\\fBCRESSET_PYTHON\\fR\nthe Python of bench's peers and of explain\n" },
};

void cli_man_page(cr_str *out) {
    cr_str_addf(out, ".\\\" Written by: cresset help --man\n.TH CRESSET 1 \"\" \"cresset %s\" \"User Commands\"\n",
                cli_version);
    cr_str_add(out, ".SH NAME\ncresset \\- reads and runs exported PyTorch programs without PyTorch\n"
                    ".SH SYNOPSIS\n\\fBcresset\\fR \\fICOMMAND\\fR [\\fIoperands\\fR] [\\fIoptions\\fR]\n.SH "
                    "DESCRIPTION\nAn archive (.pt2) that torch.export.save wrote opens, prints and runs on a machine "
                    "that has no PyTorch.\nEvery command knows \\fB\\-\\-help\\fR; \\fBcresset \\-\\-version\\fR "
                    "prints the version.\n.SH COMMANDS\n");
    for (size_t i = 0; cli_commands[i]; i++) add_command(out, cli_commands[i]);
    for (size_t i = 0; i < CLI_COUNT(sections); i++) cr_str_addf(out, ".SH %s\n%s", sections[i].name, sections[i].text);
}
