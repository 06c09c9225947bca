/* explain.c: `cresset explain`: a script is run, and what compile() made of it becomes a page.
 *
 * The work is Python's (cresset._dynamo.script); this finds the interpreter and becomes it. */
#include "cli/cli.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static const char program[] =
    "import sys\n"
    "try:\n"
    "    from cresset._dynamo.script import main\n"
    "except ModuleNotFoundError as error:\n"
    "    if error.name != 'cresset':\n"
    "        raise\n"
    "    sys.exit(f'cresset: {sys.executable} has no package cresset: install it there, or set CRESSET_PYTHON to a '\n"
    "             'Python that has it')\n"
    "main()\n";

static cr_status run(const cli_call *call) {
    const char *python = getenv("CRESSET_PYTHON"), *output = cli_text(call, "output");
    CLI_VEC(const char *) words = { 0 };
    if (!python || !*python) python = "python3";
    cr_status status = CR_OK;
    const char *kind = cli_flag(call, "json") ? "json" : "html";
    const char *const first[] = { python, "-c", program, output ? output : "", kind };
    for (size_t i = 0; i < CLI_COUNT(first); i++) CR_TRY_OUT(cli_push(&words, first[i]));
    for (size_t i = 0; cli_operand(call, i); i++) CR_TRY_OUT(cli_push(&words, cli_operand(call, i)));
    CR_TRY_OUT(cli_push(&words, (const char *)NULL));
    execvp(python, (char *const *)words.at);
    cli_hint("set CRESSET_PYTHON to a Python that has the package cresset");
    status = CR_FAIL(CR_EIO, "%s: %s", python, strerror(errno));
out:
    cli_vec_dispose(&words);
    return status;
}

static const cli_option options[] = {
    { "output", 'o', CLI_TEXT, "FILE", "html json",
      "the page (default: the script's name with .html, in this folder)" },
    { "json", 0, CLI_FLAG, NULL, NULL, "write the same as JSON" },
    { 0 },
};

const cli_command cli_explain = {
    .name = "explain",
    .summary = "runs a script and writes what compile() made of it as a page",
    .operands = "SCRIPT [ARGS]",
    .least = 1,
    .most = 255,
    .files = "py",
    .options = options,
    .text = "Runs a Python script and writes one page that needs nothing else: its source with graphs and\n"
            "breaks beside the lines that made them, why each graph ends, guards with how often they held\n"
            "and failed, times. What follows SCRIPT is the script's. The Python is the one that\n"
            "CRESSET_PYTHON names, else python3; it needs the package cresset.",
    .examples = "  cresset explain train.py 10\n  cresset explain -o report.html train.py\n",
    .run = run,
    .passes_on = true,
};
