/* options.c: command lines, read and explained from one table.
 *
 * Long options take "--name value" or "--name=value", letters "-o value" or "-ovalue"; "--" ends them; operands and
 * options may be mixed. A value that looks like an option is taken as the value when one is due, as in getopt. Nothing
 * is guessed: a prefix of a name is no name, but the message says which one is near. */
#include "cli/cli.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

/* ---- near misses ---- */

/* Levenshtein distance, cut off at 32 letters; also 1 when one begins with the other and at least 3 letters agree. */
static size_t distance(const char *a, const char *b) {
    size_t n = strlen(a), m = strlen(b), row[33];
    if (n > 32 || m > 32) return 99;
    if (CLI_MIN(n, m) >= 3 && !strncmp(a, b, CLI_MIN(n, m))) return 1;
    for (size_t j = 0; j <= m; j++) row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t above = row[j], change = diagonal + (a[i - 1] != b[j - 1]);
            row[j] = CLI_MIN(CLI_MIN(above, row[j - 1]) + 1, change);
            diagonal = above;
        }
    }
    return row[m];
}

const char *cli_nearest(const char *word, const char *const *words) {
    const char *best = NULL;
    size_t least = CLI_MIN(strlen(word) / 2 + 1, (size_t)3) + 1;
    for (; *words; words++) {
        size_t d = distance(word, *words);
        if (d < least) least = d, best = *words;
    }
    return best;
}

/* ---- parsing ---- */

static size_t option_count(const cli_command *c) {
    size_t n = 0;
    while (c->options && c->options[n].name && n < CLI_MAX_OPTIONS) n++;
    return n;
}

static cr_status unknown_option(const cli_command *c, const char *given) {
    const char *names[CLI_MAX_OPTIONS + 2];
    size_t n = option_count(c);
    for (size_t i = 0; i < n; i++) names[i] = c->options[i].name;
    names[n] = "help";
    names[n + 1] = NULL;
    const char *near = given[0] == '-' && given[1] == '-' ? cli_nearest(given + 2, names) : NULL;
    if (near) cli_hint("did you mean '--%s'? 'cresset %s --help' lists them", near, c->name);
    else cli_hint("'cresset %s --help' lists them", c->name);
    return cli_misuse("%s has no option '%s'", c->name, given);
}

static void add_spelling(cr_str *out, const cli_option *o) {
    if (o->letter) cr_str_addf(out, "-%c, ", o->letter);
    cr_str_addf(out, "--%s", o->name);
    if (o->value) cr_str_addf(out, " %s", o->value);
}

static cr_status set_option(const cli_command *c, cli_call *call, size_t i, const char *spelling, const char *value) {
    const cli_option *o = &c->options[i];
    if (o->kind != CLI_LIST && call->values[i].n) {
        cli_hint("'cresset %s --help' says which options may be repeated", c->name);
        return cli_misuse("option '--%s' was given twice", o->name);
    }
    return cli_push(&call->values[i], value ? value : spelling);
}

/* Is the word an option of the command? Then it is not the value of the one before. */
static bool is_option(const cli_command *c, const char *word) {
    for (size_t i = 0, n = option_count(c); i < n; i++)
        if (!strncmp(word, "--", 2) ? !strcmp(word + 2, c->options[i].name)
                                    : *word == '-' && word[1] && word[1] == c->options[i].letter && !word[2])
            return true;
    return false;
}

/* `rest` is what follows "=" or the letter in the same word, NULL when nothing does. */
static cr_status take_option(const cli_command *c, cli_call *call, size_t i, const char *spelling, const char *rest,
                             int argc, char **argv, int *at) {
    const cli_option *o = &c->options[i];
    if (o->kind == CLI_FLAG) {
        if (rest) {
            cli_hint("write just '--%s'", o->name);
            return cli_misuse("option '--%s' takes no value, found '%s'", o->name, rest);
        }
        return set_option(c, call, i, spelling, NULL);
    }
    if (!rest) {
        if (*at + 1 >= argc || is_option(c, argv[*at + 1])) {
            cli_hint("write '%s %s'", spelling, o->value);
            return cli_misuse("option '%s' needs a value: %s", spelling, o->help);
        }
        rest = argv[++*at];
    }
    return set_option(c, call, i, spelling, rest);
}

static cr_status take_letters(const cli_command *c, cli_call *call, int argc, char **argv, int *at) {
    const char *word = argv[*at];
    for (const char *letter = word + 1; *letter; letter++) {
        char spelling[3] = { '-', *letter, 0 };
        size_t i = 0, n = option_count(c);
        while (i < n && c->options[i].letter != *letter) i++;
        if (*letter == 'h' && i == n) {
            call->help = true;
            continue;
        }
        if (i == n) return unknown_option(c, letter == word + 1 && !letter[1] ? word : spelling);
        bool flag = c->options[i].kind == CLI_FLAG;
        const char *rest = !flag && letter[1] ? letter + 1 : NULL;
        CR_TRY(take_option(c, call, i, flag ? "-" : rest ? word : argv[*at], rest, argc, argv, at));
        if (!flag) return CR_OK;
    }
    return CR_OK;
}

static cr_status take_long(const cli_command *c, cli_call *call, int argc, char **argv, int *at) {
    const char *word = argv[*at], *name = word + 2, *equals = strchr(name, '=');
    size_t length = equals ? (size_t)(equals - name) : strlen(name), n = option_count(c);
    if (length == 4 && !equals && !strcmp(name, "help")) {
        call->help = true;
        return CR_OK;
    }
    for (size_t i = 0; i < n; i++)
        if (strlen(c->options[i].name) == length && !strncmp(c->options[i].name, name, length))
            return take_option(c, call, i, word, equals ? equals + 1 : NULL, argc, argv, at);
    if (!equals) return unknown_option(c, word);
    char *cut = cr_strndup(word, length + 2);
    if (!cut) return CR_ENOMEM;
    cr_status status = unknown_option(c, cut);
    cr_free(cut);
    return status;
}

static cr_status check_operands(const cli_command *c, const cli_call *call) {
    size_t n = call->operands.n;
    if (n >= c->least && n <= c->most) return CR_OK;
    cli_hint("usage: cresset %s %s%s", c->name, c->operands, c->options ? " [options]" : "");
    if (n < c->least) return cli_misuse("%s needs %s", c->name, c->operands);
    if (c->most == 0) return cli_misuse("%s takes no operand, found '%s'", c->name, call->operands.at[0]);
    return cli_misuse("%s takes %s, found '%s' after it", c->name, c->operands, call->operands.at[c->most]);
}

cr_status cli_parse(const cli_command *command, int argc, char **argv, cli_call *out) {
    cr_status status = CR_OK;
    bool options = true;
    *out = (cli_call){ .command = command };
    for (int i = 0; i < argc && !out->help; i++) {
        const char *word = argv[i];
        if (options && !strcmp(word, "--")) options = false;
        else if (options && word[0] == '-' && word[1] == '-') CR_TRY_OUT(take_long(command, out, argc, argv, &i));
        else if (options && word[0] == '-' && word[1]) CR_TRY_OUT(take_letters(command, out, argc, argv, &i));
        else {
            CR_TRY_OUT(cli_push(&out->operands, word));
            options &= !command->passes_on;
        }
    }
    if (!out->help) status = check_operands(command, out);
out:
    if (status) cli_call_dispose(out);
    return status;
}

void cli_call_dispose(cli_call *call) {
    for (size_t i = 0; i < CLI_MAX_OPTIONS; i++) cli_vec_dispose(&call->values[i]);
    cli_vec_dispose(&call->operands);
}

/* ---- reading ---- */

static size_t option_index(const cli_call *call, const char *name) {
    size_t i = 0, n = option_count(call->command);
    while (i < n && strcmp(call->command->options[i].name, name)) i++;
    return i < n ? i : CLI_MAX_OPTIONS;
}

size_t cli_list(const cli_call *call, const char *name, const char *const **out) {
    size_t i = option_index(call, name);
    *out = i < CLI_MAX_OPTIONS ? call->values[i].at : NULL;
    return i < CLI_MAX_OPTIONS ? call->values[i].n : 0;
}

bool cli_flag(const cli_call *call, const char *name) {
    const char *const *values;
    return cli_list(call, name, &values) > 0;
}

const char *cli_text(const cli_call *call, const char *name) {
    const char *const *values;
    return cli_list(call, name, &values) ? values[0] : NULL;
}

const char *cli_operand(const cli_call *call, size_t i) { return i < call->operands.n ? call->operands.at[i] : NULL; }

cr_status cli_number(const cli_call *call, const char *name, int64_t lo, uint64_t hi, bool *given, uint64_t *out) {
    const char *text = cli_text(call, name);
    *given = text != NULL;
    *out = 0;
    if (!text) return CR_OK;
    char *end;
    bool negative = text[0] == '-', digits = strspn(text + negative, "0123456789") > 0;
    errno = 0;
    uint64_t value = negative ? (uint64_t)strtoll(text, &end, 10) : strtoull(text, &end, 10);
    bool inside = !errno && (negative ? (int64_t)value >= lo : value <= hi && (lo < 0 || value >= (uint64_t)lo));
    if (!digits || *end || !inside) {
        if (hi == UINT64_MAX) cli_hint("write an integer of 64 bits");
        else cli_hint("write an integer from %lld to %llu", (long long)lo, (unsigned long long)hi);
        return cli_misuse("option '--%s' has the value '%s'", name, text);
    }
    *out = value;
    return CR_OK;
}

/* ---- help: a screen a command ---- */

void cli_command_help(const cli_command *c, cr_str *out) {
    cr_str_addf(out, "usage: cresset %s%s%s%s\n\n%s\n", c->name, c->operands[0] ? " " : "", c->operands,
                c->options ? " [options]" : "", c->text);
    size_t n = option_count(c), width = 10;
    for (size_t i = 0; i < n; i++) {
        const cli_option *o = &c->options[i];
        size_t length = strlen(o->name) + (o->value ? strlen(o->value) + 1 : 0) + 6;
        width = CLI_MAX(width, length);
    }
    cr_str_addc(out, '\n');
    for (size_t i = 0; i < n; i++) {
        const cli_option *o = &c->options[i];
        size_t begin = out->n;
        cr_str_addf(out, "  %s", o->letter ? "" : "    ");
        add_spelling(out, o);
        while (out->n < begin + width + 4 && !out->failed) cr_str_addc(out, ' ');
        cr_str_addf(out, "%s\n", o->help);
    }
    cr_str_addf(out, "  -h, --help%*sthis text\n", (int)(width + 4 - 12), "");
    if (c->examples) cr_str_addf(out, "\nexamples:\n%s", c->examples);
}

void cli_overview(cr_str *out) {
    cr_str_add(out, "usage: cresset COMMAND [operands] [options]\n\nReads and runs exported PyTorch programs (.pt2) "
                    "without PyTorch.\n\n");
    for (size_t i = 0; cli_commands[i]; i++)
        cr_str_addf(out, "  %-12s%s\n", cli_commands[i]->name, cli_commands[i]->summary);
    cr_str_add(out, "\n  --version   version of this tool\n  --help      this text; 'cresset COMMAND --help' for a "
                    "command\n\nExit codes: 0 done, 1 the input was refused or the work failed, 2 the command line is "
                    "wrong.\n");
}

/* ---- names of files ---- */

bool cli_ends_with(const char *text, const char *ending) {
    size_t n = strlen(text), m = strlen(ending);
    return n > m && !strcmp(text + n - m, ending);
}

bool cli_is_same_file(const char *a, const char *b) {
    struct stat first, second;
    return !stat(a, &first) && !stat(b, &second) && first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}
