/* main.c: the table of commands, and the way from a command line to an exit code.
 *
 * A new command is a row in a file of its own and a line here; help, man page and completion follow. Signals that end
 * the process remove unfinished output files first, so that nothing half-written stays; a closed pipe is an error of
 * write, not a death. */
#include "cli/cli.h"
#include "cresset/version.h"
#include "cresset/process.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

const char cli_version[] = CR_VERSION;

const cli_command *const cli_commands[] = {
    &cli_info,   &cli_run,     &cli_compile,    &cli_bench, &cli_view, &cli_explain,
    &cli_doctor, &cli_convert, &cli_completion, &cli_help,  NULL,
};

const cli_command *cli_find(const char *name) {
    for (size_t i = 0; cli_commands[i]; i++)
        if (!strcmp(cli_commands[i]->name, name)) return cli_commands[i];
    return NULL;
}

static void on_signal(int number) {
    cr_temporaries_remove();
    signal(number, SIG_DFL); /* the caller sees what ended us */
    raise(number);
}

static void watch_signals(void) {
    const int fatal[] = { SIGINT, SIGTERM, SIGHUP };
    for (size_t i = 0; i < CLI_COUNT(fatal); i++) {
        struct sigaction now, action = { .sa_handler = on_signal };
        sigemptyset(&action.sa_mask);
        if (sigaction(fatal[i], NULL, &now) || now.sa_handler == SIG_IGN) continue; /* nohup stays nohup */
        sigaction(fatal[i], &action, NULL);
    }
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file-size limit is a full disk: write says so */
}

static cr_status unknown_command(const char *name) {
    const char *names[32];
    size_t n = 0;
    for (; cli_commands[n] && n + 1 < CLI_COUNT(names); n++) names[n] = cli_commands[n]->name;
    names[n] = NULL;
    const char *near = cli_nearest(name, names);
    if (near) cli_hint("did you mean '%s'? 'cresset help' lists them", near);
    else cli_hint("'cresset help' lists them");
    return cli_misuse("there is no %s '%s'", name[0] == '-' ? "option" : "command", name);
}

static cr_status dispatch(int argc, char **argv) {
    cr_str text;
    cr_str_init(&text);
    cr_status status = CR_OK;
    const cli_command *command = cli_find(argv[1]);
    cli_call call = { 0 };
    if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
        cr_str_addf(&text, "cresset %s\n", cli_version);
    } else if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
        cli_overview(&text);
    } else if (!command) {
        CR_TRY_OUT(unknown_command(argv[1]));
    } else {
        CR_TRY_OUT(cli_parse(command, argc - 2, argv + 2, &call));
        if (call.help) cli_command_help(command, &text);
        else if (!(status = cr_environment_check())) status = command->run(&call);
    }
    if (!status) status = cli_print(&text);
out:
    cli_call_dispose(&call);
    cr_str_dispose(&text);
    return status;
}

int main(int argc, char **argv) {
    const char *failing = getenv("CRESSET_TEST_FAIL_ALLOCATION"); /* for tests: the nth request for memory fails */
    if (failing) cr_alloc_fail_at(strtoll(failing, NULL, 10));
    watch_signals();
    if (argc < 2) {
        cr_str text;
        cr_str_init(&text);
        cli_overview(&text);
        fputs(cr_str_get(&text), stderr);
        cr_str_dispose(&text);
        return CLI_MISUSED;
    }
    return cli_report(dispatch(argc, argv));
}
