/* completion.c: completion scripts for bash, zsh and fish, written from the table of commands.
 *
 * `files` of an option or of a command's operands says what fits: endings of files ("npz npy"), any file ("*"), words
 * ("|bash zsh fish"; "|" alone: the commands' names), or nothing. */
#include "cli/cli.h"

typedef void script_fn(cr_str *out);

static void add_words(cr_str *out, const char *files) {
    if (files[1]) {
        cr_str_add(out, files + 1);
        return;
    }
    for (size_t i = 0; cli_commands[i]; i++) cr_str_addf(out, "%s%s", i ? " " : "", cli_commands[i]->name);
}

/* ---- bash ---- */

static void add_bash_choice(cr_str *out, const char *files) {
    if (!files) cr_str_add(out, "COMPREPLY=()");
    else if (files[0] == '|')
        cr_str_add(out, "COMPREPLY=($(compgen -W '"), add_words(out, files), cr_str_add(out, "' -- \"$cur\"))");
    else cr_str_addf(out, "_cresset_files '%s'", files);
}

static void bash_script(cr_str *out) {
    cr_str_add(out, "# bash completion of cresset; load it with: source <(cresset completion bash)\n"
                    "_cresset_files() {\n"
                    "    local ending file IFS=$'\\n'\n"
                    "    COMPREPLY=($(compgen -d -- \"$cur\"))\n"
                    "    if [ \"$1\" = '*' ]; then COMPREPLY=($(compgen -f -- \"$cur\")); fi\n"
                    "    for ending in ${1//[* ]/$'\\n'}; do\n"
                    "        for file in $(compgen -f -X \"!*.$ending\" -- \"$cur\"); do COMPREPLY+=(\"$file\"); done\n"
                    "    done\n"
                    "    compopt -o filenames 2>/dev/null\n"
                    "}\n"
                    "_cresset() {\n"
                    "    local cur=${COMP_WORDS[COMP_CWORD]} prev= command=${COMP_WORDS[1]}\n"
                    "    [ \"$COMP_CWORD\" -gt 0 ] && prev=${COMP_WORDS[COMP_CWORD-1]}\n"
                    "    if [ \"$COMP_CWORD\" = 1 ]; then\n"
                    "        COMPREPLY=($(compgen -W '");
    add_words(out, "|");
    cr_str_add(out, " --help --version' -- \"$cur\"))\n"
                    "        return\n"
                    "    fi\n"
                    "    case $command in\n");
    for (size_t i = 0; cli_commands[i]; i++) {
        const cli_command *c = cli_commands[i];
        cr_str_addf(out, "    %s)\n        case $prev in\n", c->name);
        for (const cli_option *o = c->options; o && o->name; o++) {
            if (o->kind == CLI_FLAG) continue;
            cr_str_addf(out, "        --%s", o->name);
            if (o->letter) cr_str_addf(out, " | -%c", o->letter);
            cr_str_add(out, ") ");
            add_bash_choice(out, o->files);
            cr_str_add(out, "; return ;;\n");
        }
        cr_str_add(out, "        esac\n        case $cur in\n        -*) COMPREPLY=($(compgen -W '");
        for (const cli_option *o = c->options; o && o->name; o++) cr_str_addf(out, "--%s ", o->name);
        cr_str_add(out, "--help' -- \"$cur\")) ;;\n        *) ");
        add_bash_choice(out, c->files);
        cr_str_add(out, " ;;\n        esac ;;\n");
    }
    cr_str_add(out, "    esac\n}\ncomplete -F _cresset cresset\n");
}

/* ---- zsh ---- */

static void add_zsh_choice(cr_str *out, const char *files) {
    if (!files) {
        cr_str_add(out, " ");
    } else if (files[0] == '|') {
        cr_str_addc(out, '('), add_words(out, files), cr_str_addc(out, ')');
    } else if (files[0] == '*') {
        cr_str_add(out, "_files");
    } else {
        cr_str_add(out, "_files -g \"*.(");
        for (const char *c = files; *c; c++) cr_str_addc(out, *c == ' ' ? '|' : *c);
        cr_str_add(out, ")(-.)\"");
    }
}

/* Inside '...[help]': quotes end the word, brackets the help, colons the field. */
static void add_zsh_text(cr_str *out, const char *text) {
    for (; *text; text++) {
        if (*text == '\'') cr_str_add(out, "'\\''");
        else if (*text == '[' || *text == ']' || *text == ':' || *text == '\\')
            cr_str_addc(out, '\\'), cr_str_addc(out, *text);
        else cr_str_addc(out, *text);
    }
}

static void zsh_script(cr_str *out) {
    cr_str_add(out, "#compdef cresset\n# zsh completion of cresset; load it with: source <(cresset completion zsh)\n"
                    "_cresset() {\n"
                    "    local -a commands=(\n");
    for (size_t i = 0; cli_commands[i]; i++) {
        cr_str_addf(out, "        '%s:", cli_commands[i]->name);
        add_zsh_text(out, cli_commands[i]->summary);
        cr_str_add(out, "'\n");
    }
    cr_str_add(out, "    )\n"
                    "    if (( CURRENT == 2 )); then _describe command commands; return; fi\n"
                    "    local command=$words[2]\n"
                    "    shift words; (( CURRENT-- ))\n"
                    "    case $command in\n");
    for (size_t i = 0; cli_commands[i]; i++) {
        const cli_command *c = cli_commands[i];
        cr_str_addf(out, "    %s) _arguments", c->name);
        for (const cli_option *o = c->options; o && o->name; o++) {
            cr_str_addf(out, " \\\n        '%s--%s%s[", o->kind == CLI_LIST ? "*" : "", o->name,
                        o->kind == CLI_FLAG ? "" : "=");
            add_zsh_text(out, o->help);
            cr_str_addc(out, ']');
            if (o->kind != CLI_FLAG) {
                cr_str_addc(out, ':');
                add_zsh_text(out, o->value);
                cr_str_addc(out, ':');
                add_zsh_choice(out, o->files);
            }
            cr_str_addc(out, '\'');
            if (!o->letter) continue;
            cr_str_addf(out, " \\\n        '%s-%c[", o->kind == CLI_LIST ? "*" : "", o->letter);
            add_zsh_text(out, o->help);
            cr_str_addc(out, ']');
            if (o->kind != CLI_FLAG) cr_str_addf(out, ":%s:", o->value), add_zsh_choice(out, o->files);
            cr_str_addc(out, '\'');
        }
        cr_str_add(out, " \\\n        '--help[this text]'");
        if (c->most) cr_str_add(out, " \\\n        '*:operand:"), add_zsh_choice(out, c->files), cr_str_addc(out, '\'');
        cr_str_add(out, " ;;\n");
    }
    cr_str_add(out, "    esac\n}\n"
                    "if [ \"$funcstack[1]\" = _cresset ]; then _cresset \"$@\"; else compdef _cresset cresset; fi\n");
}

/* ---- fish ---- */

static void add_fish_text(cr_str *out, const char *text) {
    cr_str_addc(out, '\'');
    for (; *text; text++) {
        if (*text == '\'' || *text == '\\') cr_str_addc(out, '\\');
        cr_str_addc(out, *text);
    }
    cr_str_addc(out, '\'');
}

static void add_fish_choice(cr_str *out, const char *files) {
    if (!files) return;
    if (files[0] == '|') cr_str_add(out, " -a '"), add_words(out, files), cr_str_addc(out, '\'');
    else if (files[0] == '*') cr_str_add(out, " -F");
    else cr_str_addf(out, " -k -a '(__cresset_files %s)'", files);
}

static void fish_script(cr_str *out) {
    cr_str_add(out, "# fish completion of cresset; load it with: cresset completion fish | source\n"
                    "function __cresset_files\n"
                    "    for ending in $argv\n"
                    "        __fish_complete_suffix .$ending\n"
                    "    end\n"
                    "end\n"
                    "complete -c cresset -f\n"
                    "complete -c cresset -n __fish_use_subcommand -l version -d 'version of this tool'\n");
    for (size_t i = 0; cli_commands[i]; i++) {
        const cli_command *c = cli_commands[i];
        cr_str_addf(out, "complete -c cresset -n __fish_use_subcommand -a %s -d ", c->name);
        add_fish_text(out, c->summary);
        cr_str_addc(out, '\n');
        for (const cli_option *o = c->options; o && o->name; o++) {
            cr_str_addf(out, "complete -c cresset -n '__fish_seen_subcommand_from %s' -l %s", c->name, o->name);
            if (o->letter) cr_str_addf(out, " -s %c", o->letter);
            if (o->kind != CLI_FLAG) cr_str_add(out, " -r"), add_fish_choice(out, o->files);
            cr_str_add(out, " -d ");
            add_fish_text(out, o->help);
            cr_str_addc(out, '\n');
        }
        if (!c->files) continue;
        cr_str_addf(out, "complete -c cresset -n '__fish_seen_subcommand_from %s'", c->name);
        add_fish_choice(out, c->files);
        cr_str_addc(out, '\n');
    }
}

/* ---- the command ---- */

static const struct { const char *shell; script_fn *script; } shells[] = {
    { "bash", bash_script },
    { "zsh", zsh_script },
    { "fish", fish_script },
};

static cr_status run(const cli_call *call) {
    for (size_t i = 0; i < CLI_COUNT(shells); i++) {
        if (strcmp(shells[i].shell, cli_operand(call, 0))) continue;
        cr_str text;
        cr_str_init(&text);
        shells[i].script(&text);
        cr_status status = cli_print(&text);
        cr_str_dispose(&text);
        return status;
    }
    cli_hint("use bash, zsh or fish");
    return cli_misuse("there is no completion for '%s'", cli_operand(call, 0));
}

const cli_command cli_completion = {
    .name = "completion",
    .summary = "a completion script for bash, zsh or fish",
    .operands = "SHELL",
    .least = 1,
    .most = 1,
    .files = "|bash zsh fish",
    .text = "Prints a script that lets the shell complete commands, options and file names.",
    .examples = "  source <(cresset completion bash)\n  cresset completion fish | source\n",
    .run = run,
};
