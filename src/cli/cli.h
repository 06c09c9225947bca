/* cli.h: what the commands of the `cresset` tool share.
 *
 * A command is one row of the table in main.c: name, summary, options, function. Parsing, --help, the overview, shell
 * completion and the man page all come from that row; a command's function only sees parsed values.
 *
 *     static cr_status run(const cli_call *call) {
 *         const char *path = cli_operand(call, 0);
 *         if (cli_flag(call, "json")) ...
 *
 * Results go to standard output through cli_print; a failure is returned, and main.c writes it as one line to standard
 * error. Exit codes: 0 done, 1 refused or failed, 2 the command line is wrong (cli_misuse). */
#ifndef CR_CLI_H
#define CR_CLI_H

#include "cli/grow.h"
#include "cresset/text.h"

#include <string.h>

enum { CLI_DONE = 0, CLI_FAILED = 1, CLI_MISUSED = 2 };
enum { CLI_MAX_OPTIONS = 16 };

typedef enum cli_option_kind {
    CLI_FLAG,   /* --json */
    CLI_TEXT,   /* --output FILE, once */
    CLI_NUMBER, /* --threads N, once: an integer of 64 bits, signed or not */
    CLI_LIST    /* --inputs FILE, any number of times */
} cli_option_kind;
typedef struct cli_option {
    const char *name; /* without the dashes; NULL ends the table */
    char letter;      /* 'o' for -o, or 0 */
    uint8_t kind;
    const char *value; /* how help shows the value: "FILE"; NULL for a flag */
    /* completion: endings of files that fit, "npz npy"; "*" any file; "|a b" these words; NULL: nothing */
    const char *files;
    const char *help;  /* one line, starts with a small letter, no full stop */
} cli_option;

typedef struct cli_call cli_call;
typedef struct cli_command {
    const char *name, *summary; /* summary: one line, as in the overview */
    const char *operands;       /* how help shows them: "FILE", "[FILE]", "" */
    uint8_t least, most;        /* how many operands */
    const char *files;          /* completion of the operands, as in cli_option */
    const cli_option *options;  /* ends with a NULL name; NULL: none but --help */
    const char *text;           /* a few lines below the usage line */
    const char *examples;       /* lines, or NULL */
    cr_status (*run)(const cli_call *call);
    bool passes_on;             /* what follows the first operand is somebody else's, options too */
} cli_command;

/* The table (main.c), in the order of the overview; NULL name ends it. */
extern const cli_command *const cli_commands[];
const cli_command *cli_find(const char *name); /* NULL: absent */

/* ---- the rows, one a file ---- */
extern const cli_command cli_bench, cli_compile, cli_info, cli_run, cli_view, cli_explain, cli_doctor, cli_convert,
    cli_completion, cli_help;

/* ---- parsed command lines (options.c) ---- */
struct cli_call {
    const cli_command *command;
    CLI_VEC(const char *) values[CLI_MAX_OPTIONS]; /* borrowed from argv; a flag's holds its spelling */
    CLI_VEC(const char *) operands;
    bool help;
};
/* argv[0] is the first word after the command's name. Misuse: the message names the option and what is near. */
CR_NODISCARD cr_status cli_parse(const cli_command *command, int argc, char **argv, cli_call *out);
void cli_call_dispose(cli_call *call);
/* By the option's name; a name that the table lacks is a programming error and reads as absent. */
bool cli_flag(const cli_call *call, const char *name);
const char *cli_text(const cli_call *call, const char *name); /* NULL: not given */
size_t cli_list(const cli_call *call, const char *name, const char *const **out);
/* A NUMBER option; *given false and *out 0 when absent. -1 and UINT64_MAX are one value. Misuse outside [lo, hi]. */
CR_NODISCARD cr_status cli_number(const cli_call *call, const char *name, int64_t lo, uint64_t hi, bool *given,
                                  uint64_t *out);
const char *cli_operand(const cli_call *call, size_t i); /* NULL past the last */

/* The nearest of the words (NULL-terminated) to a mistyped one, or NULL when none is near. */
const char *cli_nearest(const char *word, const char *const *words);

/* ---- what is printed ---- */
void cli_command_help(const cli_command *command, cr_str *out);
void cli_overview(cr_str *out);
void cli_man_page(cr_str *out);
extern const char cli_version[];

/* Writes a text to standard output; CR_EIO when that fails. A reader that went away is no failure: what follows is
 * dropped. */
CR_NODISCARD cr_status cli_print(const cr_str *text);

/* ---- names of files (options.c) ---- */
bool cli_ends_with(const char *text, const char *ending); /* and there is something before it */
/* Is there a file that both names lead to? What would be written is then what was read. */
bool cli_is_same_file(const char *a, const char *b);

/* ---- failures (report.c) ---- */
/* CR_EVALUE, and the exit code will be CLI_MISUSED. */
CR_NODISCARD cr_status cli_misuse(const char *format, ...) CR_PRINTF(1, 2);
/* What to do about the failure that is being returned: "; hint" is appended to its line. The first one set stays. */
void cli_hint(const char *format, ...) CR_PRINTF(1, 2);
/* A warning: one line "cresset: ..." on standard error. */
void cli_warn(const char *format, ...) CR_PRINTF(1, 2);
/* Writes the failure's line to standard error and gives the exit code. */
int cli_report(cr_status status);

/* ---- progress of long work, on standard error, only when that is a terminal (report.c) ---- */
typedef struct cli_progress { const char *what; uint64_t done, total; double shown; bool on; } cli_progress;
void cli_progress_begin(cli_progress *p, const char *what, uint64_t total);
void cli_progress_add(cli_progress *p, uint64_t bytes);
void cli_progress_end(cli_progress *p); /* wipes the line */

/* What long work is doing now, in place of what it said before; NULL wipes it. */
void cli_stage(const char *format, ...) CR_PRINTF(1, 2);

/* Frees a text that was put into `into`; a failure to grow it becomes the other's, so that no half text is taken for
 * whole. */
static inline void cli_str_done(cr_str *text, cr_str *into) {
    into->failed |= text->failed;
    cr_str_dispose(text);
}

double cli_seconds(void);                       /* a steady clock */

#endif
